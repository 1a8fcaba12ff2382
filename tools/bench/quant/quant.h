/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: one operation on a matrix, which is checked and timed, and the parts of the command.
 */
#ifndef BN_BENCH_QUANT_H
#define BN_BENCH_QUANT_H

#include "base/team.h"
#include "tools/bench/harness.h"
#include "tools/bench/quant/formats.h"

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

enum bn_quant_kind { BN_QUANTISE, BN_DEQUANTISE, BN_QUANTISE_ACTIVATIONS, BN_QUANT_KINDS };

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
/* Makes the input, and the expected result with the reference kernels on one thread. format is not used by
 * BN_QUANTISE_ACTIVATIONS. */
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

/* Error, entropy, bits of every format on one matrix; speed[i] is that of dequantising format i in weights a
 * second, 0 when not measured. */
BN_MUST_CHECK bn_status bn_quant_quality(struct bn_harness *s, struct bn_quant_data *data,
                                         const double speed[BN_QUANT_FORMATS], bn_error *err);
/* The error of a scale that is computed from some of the weights. */
void bn_quant_calibration(struct bn_harness *s, const struct bn_quant_data *data);
/* Codes of a model's ternary layers, and its logits with the weights in another form. */
BN_MUST_CHECK bn_status bn_quant_model(struct bn_harness *s, bn_error *err);
/* The perplexity of the model on the text of --text, in each format. */
BN_MUST_CHECK bn_status bn_quant_perplexity(struct bn_harness *s, bn_error *err);

#endif
