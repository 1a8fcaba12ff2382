/* SPDX-License-Identifier: MIT
 *
 * The type of numbers in training: binary32, or binary64 in the build that checks gradients against finite
 * differences (BN_TRAIN_F64). Both are built from the same sources.
 *
 * Sums have a fixed order: over BN_LANES lanes (term i goes to lane i mod BN_LANES, lanes are folded by halves), or in
 * the order of rows. Nothing depends on the number of threads.
 *
 * Products of matrices by OpenBLAS, one thread a call. The same shape gives the same bits in every call on the same
 * core type of the library; bn_blas_core names it.
 */
#ifndef BN_TRAIN_REAL_H
#define BN_TRAIN_REAL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef BN_TRAIN_F64
typedef double bn_real;
/* x + this - this is x rounded to nearest even, for |x| < 2^51. */
#define BN_REAL_ROUNDER 6755399441055744.0
#define bn_real_abs fabs
#define bn_real_sqrt sqrt
#else
typedef float bn_real;
/* The same for |x| < 2^22. */
#define BN_REAL_ROUNDER 12582912.0f
#define bn_real_abs fabsf
#define bn_real_sqrt sqrtf
#endif

#define BN_LANES 16u

/* A loop over elements is compiled for several instruction sets; no operation is fused, so all give the same bits.
 * Sanitizers run before the function is chosen, so their builds have one. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_UNDEFINED__)
#define BN_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BN_WIDE
#endif

/* An average of gradients as it is kept: 0 below 1e-20. Weights without gradients, as those of units that never fire,
 * would leave denormal numbers, and processors take a hundred times longer for each of these. */
static inline bn_real bn_settled(bn_real average)
{
    return bn_real_abs(average) < (bn_real)1e-20 ? 0 : average;
}

/* The lanes of a sum, folded by halves. */
static inline bn_real bn_fold(bn_real lane[BN_LANES])
{
    for (size_t half = BN_LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static inline double bn_fold_sums(double lane[BN_LANES])
{
    for (size_t half = BN_LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* A matrix in rows that are ld values apart. */
struct bn_mat {
    const bn_real *at;
    size_t ld;
    int turned; /* the product takes its transpose */
};
static inline struct bn_mat bn_mat(const bn_real *at, size_t ld)
{
    return (struct bn_mat){at, ld, 0};
}
static inline struct bn_mat bn_mat_turned(const bn_real *at, size_t ld)
{
    return (struct bn_mat){at, ld, 1};
}

/* c (m x n, rows ldc apart) = alpha a b + beta c, where a is m x k and b is k x n after turning. */
void bn_gemm(bn_real *c, size_t ldc, size_t m, size_t n, size_t k, bn_real alpha, struct bn_mat a,
             struct bn_mat b, bn_real beta);

/* Before the first product: every later call uses one thread. BN_ERR_NOMEM when the buffers that the library takes in
 * its first call on each of n_threads cannot be had: it would ask for them for ever. */
BN_MUST_CHECK bn_status bn_blas_start(unsigned n_threads, bn_error *err);
/* The library's name and version, and the core type whose code it runs: "OpenBLAS 0.3.21 ...", "SkylakeX". */
const char *bn_blas_library(void);
const char *bn_blas_core(void);
/* The value of OPENBLAS_CORETYPE that fits this processor when the library chose code for an older one; NULL when the
 * choice is good. The library reads the variable when it is loaded. */
const char *bn_blas_better_core(void);

#endif
