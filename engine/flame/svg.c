/* SPDX-License-Identifier: MIT
 *
 * See svg.h: flame graphs of stacks. Widths are weights, colours are classes; tooltips say what was seen and
 * how sure it is.
 */
#include "flame/svg.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "flame/picture.h"
#include "measure/interval.h"

struct weights {
    double *self, *total;       /* [n_nodes] over all runs */
    uint64_t *samples, *sums;   /* the same */
    double *samples_as_numbers; /* for the script */
    unsigned *look;             /* [n_nodes] */
};

static unsigned look_of(const struct bn_picture *picture, uint32_t node)
{
    const struct weights *w = picture->of;
    return w->look[node];
}

/* "12.31 ms, 45.23 % of the whole (95 %: 44.12 to 46.34), 1234 samples" */
static void put_amount(struct bn_buf *out, const struct bn_picture *p, double weight, uint64_t samples)
{
    const struct weights *w = p->of;
    double share = weight / w->total[0];
    bn_picture_weight(out, p, weight);
    bn_buf_puts(out, ", ");
    bn_picture_percent(out, share);
    if (w->sums[0] == 0) return;
    struct bn_interval i = bn_interval_wilson(fmin(share, 1), (double)w->sums[0], 0.95);
    if (isfinite(i.low)) {
        bn_buf_puts(out, " (95 %: ");
        bn_picture_percent(out, i.low);
        bn_buf_puts(out, " to ");
        bn_picture_percent(out, i.high);
        bn_buf_putc(out, ')');
    }
    bn_buf_printf(out, ", %llu samples", (unsigned long long)samples);
}

static void put_text(struct bn_buf *out, const struct bn_picture *p, uint32_t node)
{
    const struct weights *w = p->of;
    bn_buf_puts(out, "\ntotal ");
    put_amount(out, p, w->total[node], w->sums[node]);
    bn_buf_puts(out, "\nself ");
    put_amount(out, p, w->self[node], w->samples[node]);
}

static void put_data(struct bn_buf *out, const struct bn_picture *p)
{
    const struct weights *w = p->of;
    bn_picture_list(out, "self", w->self, p->tree->n_nodes, 0);
    bn_picture_list(out, "samples", w->samples_as_numbers, p->tree->n_nodes, 0);
}

/* Classes that occur, and the share of time in their functions themselves. */
static void make_legend(struct bn_picture *p, const struct weights *w)
{
    double shares[BN_CLASSES] = {0};
    bool there[BN_CLASSES] = {false};
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) {
        unsigned class = look_of(p, i) / BN_SHADES;
        there[class] = true;
        shares[class] += w->self[i] / w->total[0];
    }
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        if (!there[c]) continue;
        struct bn_buf label = {.max = sizeof p->legend[0].label - 1};
        bn_buf_puts(&label, bn_class_name((enum bn_class)c));
        bn_buf_putc(&label, ' ');
        if (shares[c] > 0) bn_picture_percent(&label, shares[c]);
        snprintf(p->legend[p->n_legend].label, sizeof p->legend[0].label, "%s",
                 label.data != NULL ? label.data : "");
        p->legend[p->n_legend++].look = c * BN_SHADES + BN_SHADES / 2;
        bn_buf_release(&label);
    }
}

static void make_looks(struct bn_picture *p, struct weights *w)
{
    p->n_looks = p->gone = BN_PICTURE_LOOKS;
    for (unsigned i = 0; i < BN_PICTURE_LOOKS; i++)
        for (int dark = 0; dark < 2; dark++)
            p->looks[dark][i] =
                bn_palette_shade(p->options->palette, (enum bn_class)(i / BN_SHADES), i % BN_SHADES, dark);
    w->look[BN_STACKS_ROOT] = BN_CLASS_OTHER * BN_SHADES;
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) {
        const struct bn_frame *f = &p->tree->frames[p->tree->nodes[i].frame];
        unsigned class = bn_class_of(f), around = w->look[p->tree->nodes[i].parent] / BN_SHADES;
        /* A part of a function does what the function does, if its own name does not tell. */
        if (f->kind == BN_FRAME_INLINED && class == BN_CLASS_OTHER && around != BN_CLASS_TAG) class = around;
        w->look[i] = class * BN_SHADES + bn_shade_of(f);
    }
}

bn_status bn_svg(struct bn_buf *out, const bn_stacks *stacks, const struct bn_svg_options *options,
                 bn_error *err)
{
    size_t n = stacks->n_nodes;
    struct weights w = {bn_alloc(n, sizeof *w.self),
                        bn_alloc(n, sizeof *w.total),
                        bn_alloc(n, sizeof *w.samples),
                        bn_alloc(n, sizeof *w.sums),
                        bn_alloc(n, sizeof *w.samples_as_numbers),
                        bn_alloc(n, sizeof *w.look)};
    struct bn_picture picture = {.tree = stacks,
                                 .options = options,
                                 .widths = w.total,
                                 .look = look_of,
                                 .text = put_text,
                                 .data = put_data,
                                 .of = &w};
    bn_status status = BN_OK;
    if (w.self == NULL || w.total == NULL || w.samples == NULL || w.sums == NULL ||
        w.samples_as_numbers == NULL || w.look == NULL)
        status = bn_fail(err, BN_ERR_NOMEM, "out of memory");
    if (status == BN_OK) {
        for (uint32_t i = 0; i < n; i++) {
            w.self[i] = bn_stacks_self(stacks, i, BN_STACKS_ALL_RUNS);
            w.samples[i] = bn_stacks_samples(stacks, i, BN_STACKS_ALL_RUNS);
            w.samples_as_numbers[i] = (double)w.samples[i];
        }
        bn_stacks_totals(stacks, BN_STACKS_ALL_RUNS, w.total);
        bn_stacks_total_samples(stacks, BN_STACKS_ALL_RUNS, w.sums);
        make_looks(&picture, &w);
        make_legend(&picture, &w);
        status = bn_picture_write(out, &picture, err);
    }
    bn_free(w.self);
    bn_free(w.total);
    bn_free(w.samples);
    bn_free(w.sums);
    bn_free(w.samples_as_numbers);
    bn_free(w.look);
    return status;
}
