/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: the formats that it compares, one operation on a matrix, which is checked and timed, and the parts of the
 * command. Where the engine has a kernel, the kernel runs; the rest is plain C, for comparison only.
 *
 * Ternary: w = s q with q in -1, 0, +1; s the mean of |w| over the tensor or the block (absmean), q = w / s
 * rounded half to even and clamped. Q4_1: w = d q + m, q in 0 .. 15, blocks of 32, m the least and d a
 * fifteenth of the range. Q8_0: w = d q, q in -127 .. 127, d the largest |w| of 32 by 127.
 */
#ifndef BN_BENCH_QUANT_H
#define BN_BENCH_QUANT_H

#include "base/team.h"
#include "gguf/types.h"
#include "tools/bench/harness.h"

/* ---- formats (formats.c) ---- */

/* A matrix on its way through a format. */
struct bn_quant_job {
    const struct bn_quant_format *format;
    const struct bn_kernels *kernels;
    size_t rows, k;
    const float *w;   /* rows x k */
    double *row_sums; /* of |w|; the mean of all is the scale of a tensor */
    float scale;      /* of the tensor, for formats that have one */
    uint8_t *packed;  /* rows x row_bytes */
    float *back;      /* rows x k: the output of decode */
};

typedef void (*bn_quant_row)(const struct bn_quant_job *job, size_t row);

struct bn_quant_format {
    const char *name;   /* "I2_S" */
    const char *scales; /* "tensor", "256": weights that share one */
    bool tensor_scale;
    size_t block, block_bytes;               /* weights stored together, and their bytes */
    size_t tail_bytes;                       /* after all rows */
    bn_quant_row encode, decode;             /* floats to packed and back */
    enum bn_kernel encode_slot, decode_slot; /* BN_KERNEL_COUNT: plain C */
    uint32_t type;                           /* of blocks of ternary weights */
};

#define BN_QUANT_FORMATS 10u
extern const struct bn_quant_format bn_quant_formats[BN_QUANT_FORMATS]; /* those of ternary weights first */

/* Sum of |w| of a row, in binary64. */
double bn_quant_row_sum(const float *w, size_t k);
/* The scale of a tensor from those of its rows, in their order. */
float bn_quant_tensor_scale(const double *row_sums, size_t rows, size_t k);
/* Bytes of a row; of all rows and the tail; and the same in bits per weight. */
size_t bn_quant_row_bytes(const struct bn_quant_format *format, size_t k);
uint64_t bn_quant_bytes(const struct bn_quant_format *format, size_t rows, size_t k);
double bn_quant_bits(const struct bn_quant_format *format, size_t rows, size_t k);

/* ---- operations (op.c) ---- */

/* Buffers of one shape. */
struct bn_quant_data {
    size_t rows, k;
    float *w;
    uint8_t *packed, *out, *expected;
    double *row_sums;
};
/* k is a multiple of 256 and at most 16384. Released in any case by bn_quant_release. */
BN_MUST_CHECK bn_status bn_quant_prepare(struct bn_quant_data *data, size_t rows, size_t k, bn_error *err);
void bn_quant_release(struct bn_quant_data *data);

/* Calibrating finds the scale of a tensor: a part of quantising, timed alone. */
enum bn_quant_kind { BN_QUANTISE, BN_DEQUANTISE, BN_CALIBRATE, BN_QUANT_KINDS };

/* One operation: reads what its job points to, writes data->out. */
struct bn_quant_op {
    enum bn_quant_kind kind;
    const char *name;    /* "quantise" */
    enum bn_kernel slot; /* BN_KERNEL_COUNT: plain C */
    struct bn_quant_job job;
    bn_quant_row row;
    bool sums_first; /* the scale of the tensor is part of the work */
    size_t read_bytes, written_bytes;
    struct bn_quant_data *data;
    struct bn_barrier barrier;
};
/* Makes the input, and the expected result with the reference kernels on one thread. */
void bn_quant_op_make(struct bn_quant_op *op, enum bn_quant_kind kind, const struct bn_quant_format *format,
                      struct bn_quant_data *data);
/* Runs it once on a buffer of other bytes and compares every byte: NULL when all are as expected, else the
 * first that differs, in why. */
const char *bn_quant_wrong(char why[160], struct bn_quant_op *op, const struct bn_kernels *kernels,
                           unsigned n_threads);
/* Compares the buffer as it is. */
const char *bn_quant_differs(char why[160], const void *op);
/* A body for bn_harness_time, whose argument is the op. */
void bn_quant_calls(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads);

/* ---- quality (quant.c, perplexity.c) ---- */

struct bn_quality {
    double mse;
    double sqnr_db;    /* 10 log10 (sum w^2 / sum (w - v)^2); infinite without an error */
    double zero_share; /* of v */
};
/* w: the weights, v: the same after quantising; n each. Sums are binary64 in index order. */
void bn_quality_of(struct bn_quality *out, const float *w, const float *v, size_t n);
/* The perplexity of the model on the text of --text, in each format that it can have. */
BN_MUST_CHECK bn_status bn_quant_perplexity(struct bn_harness *h, bn_error *err);

#endif
