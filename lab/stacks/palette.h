/* SPDX-License-Identifier: MIT
 *
 * Colours by what a frame does: rules from names to classes. A class has a colour in each palette; a frame is
 * that colour, a little lighter or darker by the hash of its name, so that neighbours can be told apart and
 * the same function looks the same in every picture.
 *
 * On every colour here the ink of its mode has a contrast of at least 4.5 to 1 (WCAG 2, 1.4.3), and in the
 * palette for colour-blind eyes any two classes stay apart for them; tests/unit/test_palette.c computes both.
 */
#ifndef BN_STACKS_PALETTE_H
#define BN_STACKS_PALETTE_H

#include "lab/stacks/stacks.h"

enum bn_class {
    BN_CLASS_QUANTIZE,  /* red: to int8, to ternary, and back */
    BN_CLASS_MULTIPLY,  /* green: matrix times vector or matrix, dot products */
    BN_CLASS_MEMORY,    /* blue: copies, allocation, the cache's writes */
    BN_CLASS_SYSTEM,    /* orange: the operating system, also its page faults and locks; system calls */
    BN_CLASS_ATTENTION, /* scores, softmax, values, rotation */
    BN_CLASS_NORM,      /* norms, activations, residuals: vectors */
    BN_CLASS_SYNC,      /* barriers, threads, locks */
    BN_CLASS_OTHER,     /* also what holds several: a layer, a pass */
    BN_CLASS_TAG,       /* processes, threads, phases, layers: what divides, not what runs */
    BN_CLASSES
};
const char *bn_class_name(enum bn_class which); /* "quantisation", "matrix multiplication", ... */
/* Bricks and kernels are of the class of what they do; the other tags are BN_CLASS_TAG. */
enum bn_class bn_class_of(const struct bn_frame *frame);
/* Whether it is code of this project, by its module: bn, bn-run, test_forward. */
bool bn_frame_is_own(const struct bn_frame *frame);

enum bn_palette { BN_PALETTE_BITNET, BN_PALETTE_SAFE /* for colour-blind eyes */, BN_PALETTES };
const char *bn_palette_name(enum bn_palette palette); /* "bitnet", "safe" */

struct bn_colour {
    uint8_t r, g, b;
};
struct bn_colour bn_palette_ink(enum bn_palette palette, bool dark); /* of the text on all of them */
struct bn_colour bn_palette_class(enum bn_palette palette, enum bn_class which, bool dark);
struct bn_colour bn_palette_frame(enum bn_palette palette, const struct bn_frame *frame, bool dark);

/* Each class comes in so many shades, the middle one is its colour; a frame has the shade of its name. */
#define BN_SHADES 5u
unsigned bn_shade_of(const struct bn_frame *frame);
struct bn_colour bn_palette_shade(enum bn_palette palette, enum bn_class which, unsigned shade, bool dark);

/* Of a difference: -5 (much less) to 5 (much more), 0 when it is none or not significant. More is red, in
 * the palette for colour-blind eyes orange; less is blue. */
#define BN_DELTA_STEPS 5
struct bn_colour bn_palette_delta(enum bn_palette palette, int step, bool dark);

#endif
