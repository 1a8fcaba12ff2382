/* SPDX-License-Identifier: MIT
 *
 * Rows of ternary tensors: any source to values and scales, and these to any target, one row at a time. A
 * row is K values from -1 to 2 and a scale for each 64 of them; a weight is value times scale. 64 divides the
 * block of every ternary type, so that nothing is lost in between, and what the target cannot store is found
 * while it is packed.
 */
#ifndef BN_CONVERT_ROWS_H
#define BN_CONVERT_ROWS_H

#include "tools/convert/plan.h"

#define BN_CV_GROUP 64u

/* Why a row cannot be read or stored. */
enum bn_cv_fault {
    BN_CV_FINE,
    BN_CV_NOT_FINITE,   /* a scale or a weight */
    BN_CV_CODE_3,       /* in a layout in which it has no meaning */
    BN_CV_TWO,          /* the weight +2, which the target has no code for */
    BN_CV_NOT_TERNARY,  /* a float that is not -s, 0, +s; a: it, b: s */
    BN_CV_TWO_SCALES,   /* a and b in one block of the target */
    BN_CV_NOT_HALF,     /* the scale a is not a binary16 number; b: the nearest one */
    BN_CV_BIAS,         /* a is not minus the scale b, so that the codes are not -1, 0, 1 times it */
    BN_CV_NOT_POSITIVE, /* the scale a of a tensor that needs a positive one */
};

struct bn_cv_note {
    enum bn_cv_fault fault;
    uint64_t row, column;
    double a, b;
};

/* What one thread needs. */
struct bn_cv_scratch {
    int8_t *values;
    float *scales, *floats;
    struct bn_cv_note note; /* of the lowest row with a fault */
    double worst;           /* largest relative change of a scale by rounding */
};

/* Rows of a tensor: the product of all dimensions but the first. */
uint64_t bn_cv_n_rows(const struct bn_cv_tensor *t);
/* The row and the column of the source that those of the result come from. */
uint64_t bn_cv_source_row(const struct bn_cv_tensor *t, uint64_t r);
uint64_t bn_cv_source_column(const struct bn_cv_tensor *t, uint64_t i);
/* Row r to s->values and s->scales. */
bool bn_cv_read_row(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s);
/* The row in s to out, in the type t->to. */
bool bn_cv_pack_row(const struct bn_cv_tensor *t, uint64_t r, bool round_scales, struct bn_cv_scratch *s,
                    unsigned char *out);
/* Row r of a float tensor to s->floats. */
void bn_cv_widen_row(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s);
/* The error that a note stands for. */
bn_status bn_cv_fail_note(const struct bn_cv_plan *plan, const struct bn_cv_tensor *t,
                          const struct bn_cv_note *note, bn_error *err);

#endif
