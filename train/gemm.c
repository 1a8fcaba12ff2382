/* SPDX-License-Identifier: MIT
 *
 * The only file that includes the BLAS.
 */
#define _DEFAULT_SOURCE
#include "train/real.h"

#include <cblas.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"

#ifdef BN_TRAIN_F64
#define GEMM cblas_dgemm
#else
#define GEMM cblas_sgemm
#endif

void bn_gemm(bn_real *c, size_t ldc, size_t m, size_t n, size_t k, bn_real alpha, struct bn_mat a,
             struct bn_mat b, bn_real beta)
{
    GEMM(CblasRowMajor, a.turned ? CblasTrans : CblasNoTrans, b.turned ? CblasTrans : CblasNoTrans,
         (blasint)m, (blasint)n, (blasint)k, alpha, a.at, (blasint)a.ld, b.at, (blasint)b.ld, beta, c,
         (blasint)ldc);
}

/* For each thread: a buffer of the library (32 << 22 bytes in 0.3.21), and as much for the thread's own allocator. */
#define THREAD_BYTES ((size_t)256 << 20)

bn_status bn_blas_start(unsigned n_threads, bn_error *err)
{
    void **at = bn_alloc(n_threads, sizeof *at);
    unsigned n = 0;
    openblas_set_num_threads(1);
    while (at != NULL && n < n_threads &&
           (at[n] = mmap(NULL, THREAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) !=
               MAP_FAILED)
        n++;
    bn_status status = BN_OK;
    if (n < n_threads)
        status = bn_hint(bn_fail(err, BN_ERR_NOMEM,
                                 "not enough memory: OpenBLAS needs %zu MiB of address space for each of %u "
                                 "threads",
                                 THREAD_BYTES >> 20, n_threads),
                         err, "fewer --threads, or a higher 'ulimit -v'");
    while (n > 0)
        munmap(at[--n], THREAD_BYTES);
    bn_free(at);
    return status;
}

const char *bn_blas_library(void)
{
    return openblas_get_config();
}

const char *bn_blas_core(void)
{
    return openblas_get_corename();
}

/* The library knows processors by their model numbers, and takes a newer one for a very old one. */
const char *bn_blas_better_core(void)
{
#if defined(__x86_64__)
    static const char *const WITH_AVX512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    static const char *const WITH_AVX2[] = {"Haswell", "Zen"};
    const char *core = bn_blas_core();
    if (BN_HAS(WITH_AVX512, core)) return NULL;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return "SKYLAKEX";
    if (BN_HAS(WITH_AVX2, core)) return NULL;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "HASWELL";
#endif
    return NULL;
}
