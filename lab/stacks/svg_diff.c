/* SPDX-License-Identifier: MIT
 *
 * The picture of a comparison. Colours show how many points of the whole a frame's share changed.
 *
 * Shares are rounded to millionths, both in the text of the boxes and in the data for the script, so that
 * both agree.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/report/html.h"
#include "lab/stacks/picture.h"
#include "lab/stacks/svg.h"

#define MILLION 1e6
/* Looks: -5 to 5, then frames that are gone, hatched, in the colours of 0 to -5. */
#define LOOK_GONE (2u * BN_DELTA_STEPS + 1u)
#define LOOKS (LOOK_GONE + BN_DELTA_STEPS + 1u)

struct sides {
    const struct bn_stacks_diff *diff;
    double *self;   /* [n_nodes] widths of the nodes themselves */
    double *column; /* [n_nodes] for one list of the data */
};

static double rounded(double share)
{
    return isfinite(share) ? round(share * MILLION) / MILLION : share;
}

static bool is_gone(const struct bn_diff_entry *e)
{
    return e->share.after <= 0 && e->share.before > 0;
}

/* Points of the whole from which on a difference has the next colour. */
static const double STEPS[BN_DELTA_STEPS] = {0, 0.005, 0.01, 0.02, 0.05};

static unsigned look_of(const struct bn_picture *picture, uint32_t node)
{
    const struct sides *sides = picture->of;
    const struct bn_diff_entry *e = &sides->diff->total[node];
    double change = rounded(e->share.after) - rounded(e->share.before);
    int step = 0;
    while (e->share.significant && step < BN_DELTA_STEPS && fabs(change) >= STEPS[step] - 1e-12)
        step++;
    if (is_gone(e)) return LOOK_GONE + (unsigned)step;
    return (unsigned)(BN_DELTA_STEPS + (change < 0 ? -step : step));
}

static void put_side(struct bn_buf *out, const struct bn_picture *p, double share, double whole)
{
    bn_picture_percent(out, share);
    bn_buf_puts(out, " (");
    bn_picture_weight(out, p, share * whole);
    bn_buf_putc(out, ')');
}

static void put_whole(struct bn_buf *out, const struct bn_picture *p)
{
    const struct sides *sides = p->of;
    bn_buf_puts(out, "\nbefore ");
    bn_picture_weight(out, p, sides->diff->whole.before);
    bn_buf_puts(out, ", after ");
    bn_picture_weight(out, p, sides->diff->whole.after);
    if (sides->diff->method != NULL) bn_buf_printf(out, "\nsignificance: %s", sides->diff->method);
}

static void put_text(struct bn_buf *out, const struct bn_picture *p, uint32_t node)
{
    const struct sides *sides = p->of;
    const struct bn_stacks_diff *d = sides->diff;
    const struct bn_diff_value *v = &d->total[node].share;
    double before = rounded(v->before), after = rounded(v->after), q = round(v->q * 1000);
    if (node == BN_STACKS_ROOT) {
        put_whole(out, p);
        return;
    }
    bn_buf_puts(out, "\nbefore ");
    put_side(out, p, before, d->whole.before);
    bn_buf_puts(out, ", after ");
    put_side(out, p, after, d->whole.after);
    bn_buf_puts(out, "\ndifference ");
    bn_picture_points(out, rounded(after - before));
    bn_buf_puts(out, " points");
    if (isfinite(v->low) && isfinite(v->high)) {
        bn_buf_puts(out, " (95 %: ");
        bn_picture_points(out, rounded(v->low));
        bn_buf_puts(out, " to ");
        bn_picture_points(out, rounded(v->high));
        bn_buf_putc(out, ')');
    }
    if (isfinite(q) && q < 1)
        bn_buf_puts(out, ", q < 0.001");
    else if (isfinite(q))
        bn_buf_printf(out, ", q = %u.%03u", (unsigned)q / 1000, (unsigned)q % 1000);
    if (!v->significant) bn_buf_puts(out, isfinite(q) ? ", not significant" : ", not judged");
    bn_buf_puts(out, "\nself: before ");
    bn_picture_percent(out, rounded(d->self[node].share.before));
    bn_buf_puts(out, ", after ");
    bn_picture_percent(out, rounded(d->self[node].share.after));
    if (before <= 0 || after <= 0) bn_buf_puts(out, before > 0 ? "\ngone: only before" : "\nnew: only after");
}

/* One number of each node, as a list. */
#define PUT_COLUMN(name, value, parts)                                  \
    do {                                                                \
        for (uint32_t i = 0; i < p->tree->n_nodes; i++)                 \
            s->column[i] = (value);                                     \
        bn_picture_list(out, name, s->column, p->tree->n_nodes, parts); \
    } while (0)

static void put_data(struct bn_buf *out, const struct bn_picture *p)
{
    const struct sides *s = p->of;
    const struct bn_stacks_diff *d = s->diff;
    if (d->method != NULL) {
        bn_buf_puts(out, "\"method\":");
        bn_html_json(out, d->method);
        bn_buf_puts(out, ",\n");
    }
    const double whole[] = {d->whole.before, d->whole.after};
    bn_picture_list(out, "self", s->self, p->tree->n_nodes, 1e9);
    bn_picture_list(out, "whole", whole, 2, 0);
    PUT_COLUMN("before", d->total[i].share.before * MILLION, 1);
    PUT_COLUMN("after", d->total[i].share.after * MILLION, 1);
    PUT_COLUMN("low", d->total[i].share.low * MILLION, 1);
    PUT_COLUMN("high", d->total[i].share.high * MILLION, 1);
    PUT_COLUMN("q", d->total[i].share.q * 1000, 1);
    PUT_COLUMN("significant", d->total[i].share.significant, 1);
    PUT_COLUMN("selfBefore", d->self[i].share.before * MILLION, 1);
    PUT_COLUMN("selfAfter", d->self[i].share.after * MILLION, 1);
}

static void make_looks(struct bn_picture *p)
{
    static const char *const LABELS[] = {"-5 points", "-2",   "-1", "-0.5", "less",      "not significant",
                                         "more",      "+0.5", "+1", "+2",   "+5 points", "gone"};
    _Static_assert(BN_ARRAY_LEN(LABELS) <= BN_PICTURE_LEGEND, "all are shown");
    _Static_assert(LOOKS <= BN_PICTURE_LOOKS, "all have a place");
    p->n_looks = LOOKS;
    p->gone = LOOK_GONE;
    for (unsigned i = 0; i < LOOKS; i++)
        for (int dark = 0; dark < 2; dark++) {
            int step = i < LOOK_GONE ? (int)i - BN_DELTA_STEPS : -(int)(i - LOOK_GONE);
            p->looks[dark][i] = bn_palette_delta(p->options->palette, step, dark);
        }
    p->n_legend = BN_ARRAY_LEN(LABELS);
    for (unsigned i = 0; i < p->n_legend; i++) {
        snprintf(p->legend[i].label, sizeof p->legend[i].label, "%s", LABELS[i]);
        p->legend[i].look = i < LOOK_GONE ? i : LOOKS - 1;
    }
}

static double width_of(const struct bn_stacks_diff *d, uint32_t node, enum bn_svg_widths widths)
{
    const struct bn_diff_value *v = &d->self[node].share;
    if (widths == BN_SVG_BEFORE) return v->before;
    if (widths == BN_SVG_AFTER) return is_gone(&d->total[node]) ? v->before : v->after;
    return (v->before + v->after) / 2;
}

bn_status bn_svg_diff(struct bn_buf *out, const struct bn_stacks_diff *diff,
                      const struct bn_svg_options *options, bn_error *err)
{
    size_t n = diff->tree->n_nodes;
    struct sides sides = {diff, bn_alloc(n, sizeof *sides.self), bn_alloc(n, sizeof *sides.column)};
    double *widths = bn_alloc(n, sizeof *widths);
    struct bn_picture picture = {.tree = diff->tree,
                                 .options = options,
                                 .widths = widths,
                                 .look = look_of,
                                 .text = put_text,
                                 .data = put_data,
                                 .of = &sides};
    bn_status status = BN_OK;
    if (sides.self == NULL || sides.column == NULL || widths == NULL) status = bn_nomem(err);
    if (status == BN_OK) {
        for (uint32_t i = 0; i < n; i++)
            widths[i] = sides.self[i] = width_of(diff, i, options->widths);
        for (size_t i = n; i-- > 1;)
            widths[diff->tree->nodes[i].parent] += widths[i];
        make_looks(&picture);
        status = bn_picture_write(out, &picture, err);
    }
    bn_free(sides.self);
    bn_free(sides.column);
    bn_free(widths);
    return status;
}
