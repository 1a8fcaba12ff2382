/* SPDX-License-Identifier: MIT
 *
 * Flame graphs of stacks, whose widths are weights and whose colours are classes, and of comparisons, whose colours
 * show how many points of the whole a frame's share changed.
 */
#include "lab/stacks/svg.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/stacks/picture.h"

/* ---- of stacks ---- */

/* Classes that occur, and the share of time in their functions themselves. */
static void make_legend(struct bn_picture *p)
{
    double shares[BN_CLASSES] = {0};
    bool there[BN_CLASSES] = {false};
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) {
        unsigned class = p->look[i] / BN_SHADES;
        there[class] = true;
        if (p->options->callers && p->self[i] > 0) class = bn_class_at(p->tree, i, true);
        shares[class] += p->self[i] / p->widths[0];
    }
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        if (!(shares[c] > 0) && (!there[c] || c == BN_CLASS_TAG)) continue;
        snprintf(p->legend[p->n_legend].label, sizeof p->legend[0].label, "%s %.2f %%",
                 bn_class_name((enum bn_class)c), 100 * shares[c]);
        p->legend[p->n_legend++].look = c * BN_SHADES + BN_SHADES / 2;
    }
}

static void show_stacks(struct bn_picture *p)
{
    p->n_looks = p->gone = BN_PICTURE_LOOKS;
    for (unsigned i = 0; i < BN_PICTURE_LOOKS; i++)
        for (int dark = 0; dark < 2; dark++)
            p->looks[dark][i] =
                bn_palette_shade(p->options->palette, (enum bn_class)(i / BN_SHADES), i % BN_SHADES, dark);
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(p->tree, i);
        enum bn_class class = p->options->callers ? bn_class_of(f) : bn_class_at(p->tree, i, false);
        p->look[i] = (unsigned)class * BN_SHADES + bn_shade_of(f);
    }
    for (uint32_t i = 0; i < p->tree->n_nodes; i++)
        p->self[i] = bn_stacks_self(p->tree, i, BN_STACKS_ALL_RUNS);
    bn_stacks_totals(p->tree, BN_STACKS_ALL_RUNS, p->widths);
    make_legend(p);
}

/* ---- of comparisons ---- */

/* Looks: -5 to 5, then frames that are gone, hatched, in the colours of 0 to -5. */
#define LOOK_GONE (2u * BN_DELTA_STEPS + 1u)
#define LOOKS (LOOK_GONE + BN_DELTA_STEPS + 1u)

/* Points of the whole from which on a difference has the next colour. */
static const double STEPS[BN_DELTA_STEPS] = {0, 0.005, 0.01, 0.02, 0.05};

static unsigned look_of(const struct bn_diff_value *v)
{
    int step = 0;
    while (v->significant && step < BN_DELTA_STEPS && fabs(v->after - v->before) >= STEPS[step] - 1e-7)
        step++;
    if (v->after <= 0 && v->before > 0) return LOOK_GONE + (unsigned)step;
    return (unsigned)(BN_DELTA_STEPS + (v->after < v->before ? -step : step));
}

static void show_diff(struct bn_picture *p)
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
    for (uint32_t i = 0; i < p->tree->n_nodes; i++) {
        const struct bn_diff_value *v = &p->diff->paths[i];
        p->look[i] = look_of(v);
        p->widths[i] = p->self[i] = (v->before + v->after) / 2;
    }
    for (uint32_t i = 1; i < p->tree->n_nodes; i++) /* what rounding leaves of a sum is nothing */
        p->self[p->tree->nodes[i].parent] -= p->widths[i];
    for (uint32_t i = 0; i < p->tree->n_nodes; i++)
        if (p->self[i] < 1e-9 && p->self[i] > -1e-9) p->self[i] = 0;
}

/* ---- both ---- */

bn_status bn_svg(struct bn_buf *out, const bn_stacks *stacks, const struct bn_stacks_diff *diff,
                 const struct bn_svg_options *options, bn_error *err)
{
    struct bn_picture picture = {.tree = stacks,
                                 .diff = diff,
                                 .options = options,
                                 .widths = bn_alloc(stacks->n_nodes, sizeof *picture.widths),
                                 .self = bn_alloc(stacks->n_nodes, sizeof *picture.self),
                                 .look = bn_alloc(stacks->n_nodes, sizeof *picture.look)};
    bn_status status =
        picture.widths == NULL || picture.self == NULL || picture.look == NULL ? bn_nomem(err) : BN_OK;
    if (status == BN_OK) {
        if (diff != NULL)
            show_diff(&picture);
        else
            show_stacks(&picture);
        status = bn_picture_write(out, &picture, err);
    }
    bn_free(picture.widths);
    bn_free(picture.self);
    bn_free(picture.look);
    return status;
}
