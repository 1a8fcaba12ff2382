/* SPDX-License-Identifier: MIT
 *
 * The formats that bn-bench quant compares, each as functions on rows of a matrix. Where the engine has a
 * kernel, the kernel runs; the rest is plain C, for comparison only.
 *
 * Ternary: w = s q with q in -1, 0, +1; s the mean of |w| over the tensor or the block (absmean), q = w / s
 * rounded half to even and clamped. Q4_1: w = d q + m, q in 0 .. 15, blocks of 32, m the least and d a
 * fifteenth of the range. Q8_0: w = d q, q in -127 .. 127, d the largest |w| of 32 by 127.
 */
#ifndef BN_BENCH_QUANT_FORMATS_H
#define BN_BENCH_QUANT_FORMATS_H

#include "gguf/types.h"
#include "kernels/kernels.h"

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
    int8_t *act;      /* rows x (k + 8): activations, then their scale and sum */
};

typedef void (*bn_quant_row)(const struct bn_quant_job *job, size_t row);

struct bn_quant_format {
    const char *name;   /* "I2_S" */
    const char *scales; /* "tensor", "256": weights that share one */
    bool ternary, tensor_scale;
    size_t block, block_bytes;               /* weights stored together, and their bytes */
    size_t tail_bytes;                       /* after all rows */
    bn_quant_row encode, decode;             /* floats to packed and back */
    enum bn_kernel encode_slot, decode_slot; /* BN_KERNEL_COUNT: plain C */
};

/* The i-th, NULL past the end. */
const struct bn_quant_format *bn_quant_format(size_t i);
#define BN_QUANT_FORMATS 10u

/* Sum of |w| of a row, in binary64. */
double bn_quant_row_sum(const float *w, size_t k);
/* The scale of a tensor from those of its rows, in their order. */
float bn_quant_tensor_scale(const double *row_sums, size_t rows, size_t k);
/* Bytes of a row; of all rows and the tail; and the same in bits per weight. */
size_t bn_quant_row_bytes(const struct bn_quant_format *format, size_t k);
uint64_t bn_quant_bytes(const struct bn_quant_format *format, size_t rows, size_t k);
double bn_quant_bits(const struct bn_quant_format *format, size_t rows, size_t k);
/* To and from binary16. */
uint16_t bn_quant_narrow(float x);
float bn_quant_widen(uint16_t half);
/* 32 floats as a block of Q8_0: the scale in binary16, then 32 signed bytes. */
#define BN_Q8_0_BYTES 34u
void bn_quant_q8_0(uint8_t block[BN_Q8_0_BYTES], const float *w);
/* Quantises a row of floats as activations. */
void bn_quant_activations(const struct bn_quant_job *job, size_t row);

#endif
