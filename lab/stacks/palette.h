/* SPDX-License-Identifier: MIT
 *
 * Colours by what a frame does: the table of kernels and rules for names give classes. A class has a colour in each palette. A frame has
 * the colour of its class, a little lighter or darker by the hash of its name, so that neighbours differ and
 * a function looks the same in every picture.
 *
 * Text on every colour has a contrast of at least 4.5 to 1 (WCAG 2, 1.4.3). In the palette for colour-blind
 * eyes they can tell any two classes apart. tests/unit/stacks/test_palette.c computes both.
 */
#ifndef BN_STACKS_PALETTE_H
#define BN_STACKS_PALETTE_H

#include "lab/stacks/stacks.h"

enum bn_class {
    BN_CLASS_QUANTIZE,  /* red: to int8, to ternary, and back */
    BN_CLASS_MULTIPLY,  /* green: matrix times vector or matrix, dot products */
    BN_CLASS_MEMORY,    /* blue: copies, allocation, the cache's writes */
    BN_CLASS_SYSTEM,    /* orange: the kernel, with its page faults and locks; system calls */
    BN_CLASS_ATTENTION, /* scores, softmax, values, rotation */
    BN_CLASS_NORM,      /* norms, activations, residuals: vectors */
    BN_CLASS_SYNC,      /* threads and locks */
    BN_CLASS_WAIT,      /* grey-blue: barriers, futexes, sleeping, polling: nothing is computed */
    BN_CLASS_OTHER,     /* also frames that contain several classes: a layer, a pass */
    BN_CLASS_TAG,       /* processes, threads, phases, layers */
    BN_CLASSES
};
const char *bn_class_name(enum bn_class which); /* "quantisation", "matrix multiplication", ... */
/* Bricks and kernels have the class of their work; the other tags are BN_CLASS_TAG. */
enum bn_class bn_class_of(const struct bn_frame *frame);
/* The class of the running function of a stack that ends at this node, inverted or not. Parts do what their callers
 * do; system calls and kernel frames under a waiting function are waiting too. */
enum bn_class bn_class_at(const bn_stacks *stacks, uint32_t node, bool inverted);

enum bn_palette { BN_PALETTE_BITNET, BN_PALETTE_SAFE /* for colour-blind eyes */, BN_PALETTES };

struct bn_colour {
    uint8_t r, g, b;
};
struct bn_colour bn_palette_ink(enum bn_palette palette, bool dark); /* of the text on all of them */
struct bn_colour bn_palette_class(enum bn_palette palette, enum bn_class which, bool dark);

/* The shades of each class; the middle one is its colour. A frame has the shade of its name. */
#define BN_SHADES 5u
unsigned bn_shade_of(const struct bn_frame *frame);
struct bn_colour bn_palette_shade(enum bn_palette palette, enum bn_class which, unsigned shade, bool dark);

/* Of a difference: -5 (much less) to 5 (much more), 0 when there is none or it is not significant. More is
 * red, or orange in the palette for colour-blind eyes; less is blue. */
#define BN_DELTA_STEPS 5
struct bn_colour bn_palette_delta(enum bn_palette palette, int step, bool dark);

#endif
