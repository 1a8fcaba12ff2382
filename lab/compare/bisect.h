/* SPDX-License-Identifier: MIT
 *
 * Finds the operation where two traces part. Differences grow from layer to layer, so a fixed limit cannot
 * find the wrong operation. Each operation is judged by what it adds to the error of its own inputs, row by
 * row. An output row may be off by
 *
 *     floor + gain * e + flip * sqrt(e)
 *
 * where e is the greatest relative error among the input rows (for attention, of the keys and values of all
 * rows that it sees), and the three numbers belong to the kind of operation (thresholds.h). An operation
 * without a record on one side is assumed to add all that it may.
 */
#ifndef BN_COMPARE_BISECT_H
#define BN_COMPARE_BISECT_H

#include "base/digest.h"
#include "lab/compare/records.h"

enum bn_found {
    BN_FOUND_WITHIN,       /* in tolerance */
    BN_FOUND_OUT,          /* out of tolerance */
    BN_FOUND_ABSENT_A,     /* only the reference has it */
    BN_FOUND_ABSENT_B,     /* the reference did not send it */
    BN_FOUND_SHAPE,        /* rows or columns differ */
    BN_FOUND_NOT_FINITE_A, /* out of tolerance, too */
    BN_FOUND_NOT_FINITE_B,
};
const char *bn_found_name(enum bn_found found);

struct bn_finding {
    enum bn_op op;
    int32_t layer;
    enum bn_found found;
    size_t rows, cols;
    double nrmse;   /* of the worst row */
    double cosine;  /* the smallest */
    double max_abs; /* the greatest */
    /* The row that comes closest to its tolerance, or exceeds it by the greatest factor. */
    size_t row;
    double error, handed, allowed; /* its nrmse, that of its inputs, and the tolerance */
    bool same_bits;
    char sha_a[BN_SHA256_HEX], sha_b[BN_SHA256_HEX]; /* of rows x cols binary32; "" where absent */
};
/* error / allowed: above 1 it is out of tolerance. */
double bn_finding_excess(const struct bn_finding *finding);

struct bn_bisection {
    struct bn_finding *list; /* in the order of computing */
    size_t n;
    size_t n_layers;
    size_t n_compared, n_values;         /* records and numbers that both sides have */
    size_t n_out, n_absent, n_same_bits; /* records */
    size_t first;                        /* the first that is out of tolerance, n for none */
    size_t first_bits;                   /* the first whose bits differ, n for none */
};

/* a is this engine's trace, b the reference's. BN_OK whatever is found. */
BN_MUST_CHECK bn_status bn_bisect(struct bn_bisection *out, const struct bn_records *a,
                                  const struct bn_records *b, const struct bn_growth growth[BN_OP_KIND_COUNT],
                                  bn_error *err);
void bn_bisection_release(struct bn_bisection *bisection);

#endif
