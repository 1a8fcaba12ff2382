/* SPDX-License-Identifier: MIT
 *
 * Errors of quantised weights, entropy of codes, and dominated choices.
 */
#ifndef BN_BENCH_QUANT_METRICS_H
#define BN_BENCH_QUANT_METRICS_H

#include "base/mem.h"

struct bn_quality {
    double mse, max_abs;
    double sqnr_db;           /* 10 log10 (sum w^2 / sum (w - v)^2); infinite without an error */
    double worst_row_sqnr_db; /* the least of all rows that are not zero */
    double cosine;            /* NaN when one side is all zeros */
    double sign_agreement;    /* share of equal signs, among the weights that are zero on neither side */
    double zero_share;        /* of v */
};

/* w: the weights, v: the same after quantising; rows x k each. Sums are binary64 in index order. */
void bn_quality_of(struct bn_quality *out, const float *w, const float *v, size_t rows, size_t k);

/* Bits a symbol of this histogram needs at least: - sum p log2 p. NaN without symbols. */
double bn_entropy_bits(const uint64_t *counts, size_t n);

/* Point i of n, each of n_dims coordinates of which greater is better: is another point as good in all and
 * better in one? */
bool bn_is_dominated(const double *points, size_t n, size_t n_dims, size_t i);

#endif
