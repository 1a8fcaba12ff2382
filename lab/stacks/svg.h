/* SPDX-License-Identifier: MIT
 *
 * Flame graphs as SVG (after Brendan Gregg's): one file without external parts. Without its script it is
 * readable, as each frame has a <title>; with it there are zoom, search, keyboard, dark mode, an icicle and
 * callers. The same stacks and options give the same bytes. No text of the stacks can become markup or
 * script.
 */
#ifndef BN_STACKS_SVG_H
#define BN_STACKS_SVG_H

#include "lab/stacks/diff.h"
#include "lab/stacks/palette.h"

struct bn_svg_options {
    const char *title, *subtitle, *notes; /* NULL: none; notes are lines below the picture */
    double width; /* of the picture in px; 0: as wide as the window, laid out for 1200 */
    bool all;     /* also frames narrower than 0.1 px, which else are not drawn until they are zoomed into */
    enum bn_palette palette;
    bool callers; /* the stacks are inverted: the running function is nearest to the root */
};

/* The stacks must be sorted (bn_stacks_copy), else BN_ERR_ARG; all runs together are drawn. about is in
 * <metadata>. BN_ERR_FORMAT when there is nothing to draw: no stack, or none that has a weight. With diff, whose
 * tree stacks is, a comparison: widths are the means of both sides, red is more and blue less, pale where the
 * difference is not significant, dashed as well where something is gone.
 *
 * What is drawn without the script are at most some thousand frames, the widest; with it, all. */
BN_MUST_CHECK bn_status bn_svg(struct bn_buf *out, const bn_stacks *stacks, const struct bn_stacks_diff *diff,
                               const struct bn_svg_options *options, bn_error *err);

#endif
