/* SPDX-License-Identifier: MIT
 *
 * Products of matrices by OpenBLAS, one thread a call. The same shape gives the same bits in every call on the same
 * core type of the library; bn_blas_core names it.
 */
#ifndef BN_TRAIN_GEMM_H
#define BN_TRAIN_GEMM_H

#include "base/error.h"
#include "train/real.h"

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
