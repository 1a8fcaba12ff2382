/* SPDX-License-Identifier: MIT
 *
 * What a flame graph and a comparison have in common: a tree whose nodes have a width, a look and a text,
 * and the document around it. svg.c makes pictures of stacks, svg_diff.c of comparisons, picture.c draws
 * both. Private to these files.
 */
#ifndef BN_STACKS_PICTURE_H
#define BN_STACKS_PICTURE_H

#include "lab/stacks/svg.h"

#define BN_PICTURE_LOOKS (BN_CLASSES * BN_SHADES) /* a comparison has fewer */
#define BN_PICTURE_LEGEND 12u

struct bn_picture {
    const bn_stacks *tree;
    const struct bn_svg_options *options;
    const double *widths; /* [n_nodes]: of the node and all below it, in any unit */

    struct bn_colour looks[2][BN_PICTURE_LOOKS]; /* of boxes: light, dark */
    unsigned n_looks;
    unsigned gone; /* this look and later ones are hatched; n_looks: none is */
    struct {
        unsigned look;
        char label[64];
    } legend[BN_PICTURE_LEGEND];
    size_t n_legend;

    unsigned (*look)(const struct bn_picture *picture, uint32_t node); /* not of the root */
    /* What a tooltip says below name and place: plain lines, each with a newline before it. */
    void (*text)(struct bn_buf *out, const struct bn_picture *picture, uint32_t node);
    /* Data for the script besides the tree: members of a JSON object, each followed by a comma. */
    void (*data)(struct bn_buf *out, const struct bn_picture *picture);
    const void *of; /* what these three know */
};

/* The whole document. BN_ERR_ARG when the tree is not sorted, BN_ERR_FORMAT when there is nothing to draw. */
BN_MUST_CHECK bn_status bn_picture_write(struct bn_buf *out, const struct bn_picture *picture, bn_error *err);

/* For people, as the script writes the same: "12.31 ms", "1.5 KiB", "12 faults"; "45.23 %". */
void bn_picture_weight(struct bn_buf *out, const struct bn_picture *picture, double weight);
void bn_picture_percent(struct bn_buf *out, double share);
/* A difference of shares, in points: "+1.20". */
void bn_picture_points(struct bn_buf *out, double share);
/* A member of the data: a list of numbers, each rounded to a multiple of 1 / parts (0: as it is). */
void bn_picture_list(struct bn_buf *out, const char *name, const double *values, size_t n, double parts);

/* Copies the first line of a text, up to a line break or as many whole words as there is room for; returns
 * the rest. */
const char *bn_picture_take_line(char out[BN_STACKS_MAX_NAME], const char *text, size_t room);

#endif
