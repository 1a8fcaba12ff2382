/* SPDX-License-Identifier: MIT
 *
 * Flame graphs of stacks. Widths are weights, colours are classes; tooltips show weights, samples and
 * intervals.
 */
#include "lab/stacks/svg.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/stacks/picture.h"
#include "lab/stats/interval.h"

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

const char *bn_picture_take_line(char out[BN_STACKS_MAX_NAME], const char *text, size_t room)
{
    size_t all = strcspn(text, "\n"), n = all < room ? all : room;
    while (n < all && n > 0 && text[n] != ' ')
        n--;
    if (n == 0) n = all;
    snprintf(out, BN_STACKS_MAX_NAME, "%.*s", (int)n, text);
    return text + n + (text[n] != '\0');
}

/* The class of the running function of an inverted stack that ends at this node: of its first function, or of
 * the function that contains it. Without functions, of its last tag. */
static enum bn_class class_running(const bn_stacks *s, uint32_t node)
{
    const struct bn_frame *path[BN_STACKS_MAX_DEPTH];
    size_t n = 0, i = 0;
    for (; node != BN_STACKS_ROOT && n < BN_STACKS_MAX_DEPTH; node = s->nodes[node].parent)
        path[n++] = bn_stacks_frame(s, node); /* path[n - 1] is below the root */
    if (n == 0) return BN_CLASS_OTHER;
    for (i = n; i > 1 && BN_FRAME_IS_TAG(path[i - 1]->kind);)
        i--;
    while (i > 1 && bn_class_is_callers(path[i - 1]))
        i--;
    enum bn_class is = bn_class_of(path[i - 1]), around = is; /* as bn_class_at, in the other direction */
    while (around == BN_CLASS_SYSTEM && --i > 0)
        around = bn_class_of(path[i - 1]);
    return around == BN_CLASS_WAIT ? BN_CLASS_WAIT : is;
}

/* Classes that occur, and the share of time in their functions themselves. */
static void make_legend(struct bn_picture *p, const struct weights *w)
{
    double shares[BN_CLASSES] = {0};
    bool there[BN_CLASSES] = {false};
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) {
        unsigned class = look_of(p, i) / BN_SHADES;
        there[class] = true;
        if (p->options->callers && w->self[i] > 0) class = class_running(p->tree, i);
        shares[class] += w->self[i] / w->total[0];
    }
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        if (!(shares[c] > 0) && (!there[c] || c == BN_CLASS_TAG)) continue;
        struct bn_buf label = {.max = sizeof p->legend[0].label - 1};
        bn_buf_puts(&label, bn_class_name((enum bn_class)c));
        bn_buf_putc(&label, ' ');
        if (shares[c] > 0)
            bn_picture_percent(&label, shares[c]);
        else
            bn_buf_puts(&label, "0 %");
        snprintf(p->legend[p->n_legend].label, sizeof p->legend[0].label, "%s",
                 label.data != NULL ? label.data : "");
        p->legend[p->n_legend++].look = c * BN_SHADES + BN_SHADES / 2;
        bn_buf_release(&label);
    }
}

/* In an inverted tree the function that contains a part is below the part. A part whose containing functions
 * have different classes has none. */
static void class_parts_by_callers(const bn_stacks *s, unsigned *classes)
{
    const unsigned not_yet = BN_CLASSES;
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(s, i);
        classes[i] = bn_class_is_callers(f) ? not_yet : (unsigned)bn_class_of(f);
    }
    for (uint32_t i = (uint32_t)s->n_nodes; i-- > 1;) { /* children come after their parents */
        uint32_t parent = s->nodes[i].parent;
        if (classes[i] == not_yet) classes[i] = BN_CLASS_OTHER;
        if (parent == BN_STACKS_ROOT || !bn_class_is_callers(bn_stacks_frame(s, parent))) continue;
        classes[parent] = classes[parent] == not_yet || classes[parent] == classes[i]
                              ? classes[i]
                              : (unsigned)BN_CLASS_OTHER;
    }
}

static void make_looks(struct bn_picture *p, struct weights *w)
{
    p->n_looks = p->gone = BN_PICTURE_LOOKS;
    for (unsigned i = 0; i < BN_PICTURE_LOOKS; i++)
        for (int dark = 0; dark < 2; dark++)
            p->looks[dark][i] =
                bn_palette_shade(p->options->palette, (enum bn_class)(i / BN_SHADES), i % BN_SHADES, dark);
    w->look[BN_STACKS_ROOT] = BN_CLASS_OTHER;
    if (p->options->callers)
        class_parts_by_callers(p->tree, w->look);
    else
        for (uint32_t i = 1; i < p->tree->n_nodes; i++)
            w->look[i] = (unsigned)bn_class_at(p->tree, i);
    for (uint32_t i = 1; i < p->tree->n_nodes; i++)
        w->look[i] = w->look[i] * BN_SHADES + bn_shade_of(bn_stacks_frame(p->tree, i));
}

bn_status bn_svg(struct bn_buf *out, const bn_stacks *stacks, const struct bn_svg_options *options,
                 bn_error *err)
{
    size_t n = stacks->n_nodes;
    double *numbers = bn_alloc(n, 3 * sizeof *numbers);
    uint64_t *counts = bn_alloc(n, 2 * sizeof *counts);
    unsigned *look = bn_alloc(n, sizeof *look);
    bn_status status = numbers == NULL || counts == NULL || look == NULL ? bn_nomem(err) : BN_OK;
    if (status == BN_OK) {
        struct weights w = {numbers, numbers + n, counts, counts + n, numbers + 2 * n, look};
        struct bn_picture picture = {.tree = stacks,
                                     .options = options,
                                     .widths = w.total,
                                     .look = look_of,
                                     .text = put_text,
                                     .data = put_data,
                                     .of = &w};
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
    bn_free(numbers);
    bn_free(counts);
    bn_free(look);
    return status;
}
