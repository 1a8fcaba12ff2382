/* SPDX-License-Identifier: MIT
 *
 * Colours by what a frame does: rules from names to classes. A class has a colour in each palette; a frame is
 * that colour, a little lighter or darker by the hash of its name, so that neighbours can be told apart and
 * the same function looks the same in every picture.
 */
#ifndef BN_FLAME_PALETTE_H
#define BN_FLAME_PALETTE_H

#include "flame/stacks.h"

enum bn_class {
    BN_CLASS_QUANTIZE,  /* red: to int8, to ternary, and back */
    BN_CLASS_MULTIPLY,  /* green: matrix times vector or matrix, dot products */
    BN_CLASS_MEMORY,    /* blue: copies, allocation, page faults, the cache's writes */
    BN_CLASS_SYSTEM,    /* orange: the operating system, system calls */
    BN_CLASS_ATTENTION, /* scores, softmax, values, rotation */
    BN_CLASS_NORM,      /* norms, activations, residuals: vectors */
    BN_CLASS_SYNC,      /* barriers, threads, locks */
    BN_CLASS_OTHER,
    BN_CLASS_TAG, /* frames that are no functions */
    BN_CLASSES
};
const char *bn_class_name(enum bn_class which); /* "quantisation", "matrix multiplication", ... */
enum bn_class bn_class_of(const struct bn_frame *frame);

enum bn_palette { BN_PALETTE_BITNET, BN_PALETTE_SAFE /* for colour-blind eyes */, BN_PALETTES };
const char *bn_palette_name(enum bn_palette palette); /* "bitnet", "safe" */

struct bn_colour {
    uint8_t r, g, b;
};
struct bn_colour bn_palette_class(enum bn_palette palette, enum bn_class which, bool dark);
struct bn_colour bn_palette_frame(enum bn_palette palette, const struct bn_frame *frame, bool dark);

#endif
