/* SPDX-License-Identifier: MIT
 *
 * What is drawn: a tree whose nodes have a width and a look. svg.c makes it of stacks or of a comparison, picture.c
 * draws it. Private to these files.
 */
#ifndef BN_STACKS_PICTURE_H
#define BN_STACKS_PICTURE_H

#include "lab/stacks/svg.h"

#define BN_PICTURE_LOOKS (BN_CLASSES * BN_SHADES) /* a comparison has fewer */
#define BN_PICTURE_LEGEND 12u

struct bn_picture {
    const bn_stacks *tree;
    const struct bn_stacks_diff *diff; /* NULL: a picture of stacks */
    const struct bn_svg_options *options;
    double *widths, *self;                       /* [n_nodes]: of the node and all below it; of the node */
    unsigned *look;                              /* [n_nodes]; not of the root */
    struct bn_colour looks[2][BN_PICTURE_LOOKS]; /* of boxes: light, dark */
    unsigned n_looks;
    unsigned gone; /* this look and later ones are hatched; n_looks: none is */
    struct {
        unsigned look;
        char label[64];
    } legend[BN_PICTURE_LEGEND];
    size_t n_legend;
};

/* The whole document. BN_ERR_ARG when the tree is not sorted, BN_ERR_FORMAT when there is nothing to draw. */
BN_MUST_CHECK bn_status bn_picture_write(struct bn_buf *out, const struct bn_picture *picture, bn_error *err);

#endif
