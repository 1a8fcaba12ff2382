/* SPDX-License-Identifier: MIT
 *
 * One kernel at one shape: its reads and operations, its data, the call divided among threads as in the
 * forward pass, and the comparison of its result with that of the reference.
 */
#ifndef BN_BENCH_WORK_H
#define BN_BENCH_WORK_H

#include "base/mem.h"
#include "bn.h"
#include "kernels/kernels.h"

/* The sizes of a model that matter to kernels. */
struct bn_bench_shape {
    uint32_t n_embd, n_ff, n_head, n_head_kv, head_dim, n_vocab;
    bn_activation activation; /* between gate and up */
};

/* Of the weights of a product. Tiles: of one scale; of a scale for each group, and activations of 16 bits (as of PQ2_0), or of
 * 8 (TQ2_0). I8: with vectors of 16 bits. */
enum bn_bench_form { BN_BENCH_T5, BN_BENCH_I2S, BN_BENCH_WIDE, BN_BENCH_NARROW, BN_BENCH_F16, BN_BENCH_I8 };

struct bn_bench_case {
    enum bn_kernel slot;
    char shape[40];    /* "6912x2560 n=32" */
    size_t rows, k, n; /* weights: rows x k times n vectors. Attention: heads, head_dim, positions. Else:
                             rows of k values */
    size_t n_kv;       /* attention: heads of the cache */
    size_t group;      /* of tiles: weights that share a scale, or the block of I2_S; else 0 */
    enum bn_bench_form form;
    size_t weights_bytes;      /* of one copy of what is not written */
    size_t copies;             /* used in turn, so that they come from memory; 1: from a cache */
    bool streamed;             /* there may be several copies */
    const char *source;        /* where they come from: "memory", "cache" */
    size_t hot_bytes;          /* the set whose read bandwidth is the limit */
    bool hot_each;             /* each thread reads that much, of its own */
    size_t n_inputs, n_others; /* floats that it reads, in one array and in another */
    size_t out_bytes;          /* that it writes */
    bool in_place;             /* which are input, too */

    /* One call. Bytes as the session's counters count them, or for kernels that these give none, the input.
     */
    double bytes;
    double macs;       /* multiply-adds; 0: none */
    double int8_macs;  /* multiply-adds of bytes that they take, at least */
    double float_macs; /* the same in binary32 */
    bool no_limit;     /* bound by work that no loop of kernels/peak.h measures */
};

/* Fills list (room for BN_BENCH_CASES) with the kernels of a model of this shape, and returns their number.
 * Weights that are used in turn take about set_bytes; when that is more than cache_bytes they come from
 * memory. */
#define BN_BENCH_CASES 64u
#define BN_BENCH_GROUP 128u /* of quantize16 */
/* Bytes that the scale and the sum of a row of quantize take in the output, and those of a group of quantize16. */
#define BN_BENCH_SCALES 64u
#define BN_BENCH_GROUP_SCALES (sizeof(float) + sizeof(int32_t))
size_t bn_bench_cases(struct bn_bench_case *list, const struct bn_bench_shape *shape, size_t set_bytes,
                      size_t cache_bytes);

/* A case with its data: synthetic, the same each time. */
struct bn_bench_work {
    const struct bn_bench_case *c;
    unsigned char *pool; /* borrowed: copies x weights_bytes */
    struct bn_act *act;
    struct bn_planes *planes; /* n vectors */
    float *x, *x2;            /* inputs in floats */
    unsigned char *out;       /* what is written */
    unsigned char *start;     /* what out holds before a call that adds to it, or changes it; else NULL */
    unsigned char *expected;
    void *blocks[12]; /* all of these */
    size_t n_blocks;
    bool failed; /* there was no memory for them */
};

/* Makes the data and the expected result, by the reference kernels; pool has room for copies x weights_bytes. Released in any
 * case by bn_bench_release. */
BN_MUST_CHECK bn_status bn_bench_prepare(struct bn_bench_work *work, const struct bn_bench_case *c,
                                         unsigned char *pool, unsigned n_threads, bn_error *err);
void bn_bench_release(struct bn_bench_work *work);

/* A body for bn_harness_time: this thread's part of n calls, which use the copies of the weights in turn. */
struct bn_bench_call {
    const struct bn_bench_work *work;
    const struct bn_kernels *kernels;
};
void bn_bench_calls(void *call, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads);

/* Makes one call and compares every bit; BN_ERR_MISMATCH names kernel, shape and the first difference. */
BN_MUST_CHECK bn_status bn_bench_check(const struct bn_bench_work *work, const struct bn_kernels *kernels,
                                       unsigned n_threads, bn_error *err);

#endif
