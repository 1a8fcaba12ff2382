/* SPDX-License-Identifier: MIT
 *
 * checkkern.h - what the check files share. A check file describes each slot by three functions: setup makes
 * case number i of a class (buffers between guard pages, inputs from the seed), invoke calls the slot of any
 * table on it, truth judges the reference's result by a computation of its own. checkkern.c does the rest:
 * runs every table on the same case, compares bits, sees faults and changed inputs, times, digests.
 */
#ifndef CHECKKERN_H
#define CHECKKERN_H

#include "kernels/kernels.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ANY 1000 /* random bytes, where a fixed value could be */

enum ck_class {
    CK_SHAPES,   /* many sizes, ordinary values; guard page behind every buffer */
    CK_EXTREMES, /* the values at the edges */
    CK_LAYOUT,   /* guard page before every buffer; unaligned weights, padded rows, in place */
    CK_N_CLASSES
};

enum ck_role {
    CK_IN,  /* must not change */
    CK_OUT, /* results; holds its first content again before each call */
};

enum ck_kind { CK_BYTES, CK_FLOATS }; /* floats: any NaN equals any NaN */

struct ck_region {
    uint8_t *map, *data, *image, *expect;
    size_t map_bytes, room, bytes; /* room: between the guard pages */
    enum ck_role role;
    enum ck_kind kind;
};

#define CK_MAX_REGIONS 12

struct ck {
    uint64_t seed, rng;
    bool quick, guard_before;
    struct ck_region region[CK_MAX_REGIONS];
    size_t n_regions;
    char why[300]; /* the first thing that was wrong with the case */
};

/* One call. Which fields mean what is between setup, invoke and truth of a slot. */
struct ck_call {
    char text[80]; /* the shape, for people */
    void *out, *out2, *out3, *out4;
    const void *a, *b, *c;
    const uint8_t *weights;
    struct bn_t5 t5;
    struct bn_columns columns;
    struct bn_ternary tiles;
    struct bn_act *act;
    size_t n, k, rows, ld, ldx, ldy;
    float f;
    int variant; /* the slot's */
};

struct ck_slot {
    enum bn_kernel slot;
    /* False when the class has no case of this number. */
    bool (*setup)(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index);
    void (*invoke)(const struct bn_kernels *kernels, const struct ck_call *call);
    bool (*truth)(struct ck *ck, const struct ck_call *call);
    int variant; /* which of the slots that share these functions */
};

/* The call of a slot whose arguments are members of the case. */
#define CK_INVOKE(slot, ...)                                                                \
    static void invoke_##slot(const struct bn_kernels *kernels, const struct ck_call *call) \
    {                                                                                       \
        kernels->slot(__VA_ARGS__);                                                         \
    }

/* Tables that end with a slot whose setup is NULL. */
extern const struct ck_slot CK_TERNARY[], CK_PACKED[], CK_GROUPED[], CK_FLOAT[], CK_MATRIX[], CK_CONVERT[],
    CK_RECURRENT[];

/* ---- buffers.c ---- */

/* bytes between guard pages, filled with random bytes; lies against the one behind, or before when the case
 * says so. Goes with the case. */
void *ck_buffer(struct ck *ck, enum ck_role role, enum ck_kind kind, size_t bytes);
/* Ends the last case. */
void ck_clear(struct ck *ck);
/* Takes images of all buffers; restores them; keeps the outputs as the expected ones. */
void ck_seal(struct ck *ck);
void ck_restore(struct ck *ck);
void ck_keep_expected(struct ck *ck);
/* False, with ck->why, when an input or the slack around a buffer changed. */
bool ck_untouched(struct ck *ck);
/* False, with ck->why, when an output differs from the expected one. */
bool ck_as_expected(struct ck *ck);
/* Calls with faults caught; false, with ck->why, after one. */
bool ck_invoke(struct ck *ck, const struct ck_slot *slot, const struct bn_kernels *kernels,
               const struct ck_call *call);
/* FNV-1a over the outputs; NaNs count as one value. */
uint64_t ck_digest(const struct ck *ck, uint64_t digest);
/* Sets ck->why (the first wins) and returns false. */
bool ck_wrong(struct ck *ck, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- random values ---- */

uint32_t ck_random(struct ck *ck);
uint32_t ck_below(struct ck *ck, uint32_t n);
/* Uniform in -1..1. */
float ck_uniform(struct ck *ck);

enum ck_values {
    CK_ORDINARY,
    CK_ZERO,
    CK_MINUS_ZERO,
    CK_BOTH_ZEROS,
    CK_SUBNORMAL,
    CK_TINY,
    CK_HUGE,
    CK_MAX,
    CK_ANY_FINITE,
    CK_ONE_LARGE,
    CK_N_VALUES
};
const char *ck_values_name(enum ck_values values);
void ck_fill_f32(struct ck *ck, void *x, size_t n, enum ck_values values);
/* Makes every third value a NaN, and infinite: some of the second half infinities. */
void ck_make_wild(float *x, size_t n, bool infinite);
/* Binary16, as the nearest thing to the same values; any alignment. */
void ck_fill_f16(struct ck *ck, void *x, size_t n, enum ck_values values);
/* A new input of n values. */
float *ck_floats(struct ck *ck, size_t n, enum ck_values values);
uint16_t *ck_halves(struct ck *ck, size_t n, enum ck_values values);

/* ---- judging the reference ---- */

/* Binary16 to binary64 by ldexp. */
double ck_half(const void *at);
/* False, with ck->why, unless |got - want| <= tolerance (or both are NaN, or want is beyond binary32). */
bool ck_near(struct ck *ck, const char *what, size_t i, float got, double want, double tolerance);

/* ---- check_tiles.c ---- */

/* The reference with the products of AMX, whose tiles are plain C here. */
const struct bn_kernels *ck_tiles(void);
/* Puts a product with wrong tiles into the table: the i-th fault, NULL past the last. */
const char *ck_wrong_tiles(struct bn_kernels *table, size_t i);

/* ---- emulate.c ---- */

/* Whether the function in a slot runs here by emulation alone. */
bool ck_is_emulated(const struct bn_kernels *kernels, enum bn_kernel slot);
/* In a handler of SIGILL, whose third argument it takes: does what a tile instruction does and steps over it. False
 * when it is another instruction. */
bool ck_emulate(void *machine);

/* ---- selftest.c, checkkern.c ---- */

/* A table and what was found of a slot of it. */
struct ck_run {
    const struct bn_kernels *kernels;
    bool truth, seldom; /* judged by the truth, not by the reference; runs every seventh case */
    unsigned cases;
    uint64_t digest; /* over the outputs, unless 0 */
    char why[300];   /* the first case that failed; empty: none */
};
/* Runs the cases of one class of a slot on n tables. False when one failed or had no case. */
bool ck_check(struct ck *ck, const struct ck_slot *slot, enum ck_class class, struct ck_run *runs, size_t n);
const struct ck_slot *ck_find(enum bn_kernel slot);
/* Wrong kernels, each of which must be caught; prints TAP from number *n on, returns how many got through. */
unsigned ck_self_test(struct ck *ck, unsigned *n);

#endif
