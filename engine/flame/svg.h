/* SPDX-License-Identifier: MIT
 *
 * Flame graphs as SVG (after Brendan Gregg's): one file that loads nothing, readable without its script (each
 * frame has a <title>), and with it: zoom, search, keyboard, dark mode, an icicle, callers. The same stacks
 * and options give the same bytes. No text of the stacks can become markup or script.
 */
#ifndef BN_FLAME_SVG_H
#define BN_FLAME_SVG_H

#include "flame/diff.h"
#include "flame/palette.h"

struct bn_svg_options {
    const char *title, *subtitle, *notes; /* NULL: none */
    double width;           /* of the picture in px; 0: as wide as the window, laid out for 1200 */
    double frame_height;    /* 0: 16 */
    double min_width;       /* narrower frames are not drawn until they are zoomed into; px; < 0: 0.1 */
    const char *count_name; /* what weights count; NULL: the stacks' unit */
    const char *search;     /* what is searched for when it is opened; NULL: nothing */
    enum bn_palette palette;
    bool icicle;   /* the root on top, growing downwards */
    bool cut_left; /* names that are too long lose their beginning, not their end */
};
#define BN_SVG_OPTIONS_INIT \
    {                       \
        .min_width = -1     \
    }

/* The stacks should be sorted (bn_stacks_copy); all runs together are drawn. about is in <metadata>. */
BN_MUST_CHECK bn_status bn_svg(struct bn_buf *out, const bn_stacks *stacks,
                               const struct bn_svg_options *options, bn_error *err);
/* Before and after: widths as the comparison has them, red for more and blue for less, pale where the
 * difference is not significant, hatched for what is gone. */
BN_MUST_CHECK bn_status bn_svg_diff(struct bn_buf *out, const struct bn_diff *diff,
                                    const struct bn_svg_options *options, bn_error *err);

#endif
