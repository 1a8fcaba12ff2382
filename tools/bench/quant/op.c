/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: test data, operations, and the comparison with the reference.
 */
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "tools/bench/quant/quant.h"

#define POISON 0xA5

/* ---- data ---- */

/* Nearly normal: the sum of four uniform numbers. Rows differ eightfold in size and so do parts of a row,
 * fourfold, so that scales for fewer weights have something to gain. */
static void fill_weights(struct bn_quant_data *d)
{
    uint64_t state = 1;
    for (size_t r = 0; r < d->rows; r++)
        for (size_t i = 0; i < d->k; i++) {
            uint64_t z = bn_splitmix64(&state);
            int64_t sum =
                (int64_t)((z & 0xFFFF) + (z >> 16 & 0xFFFF) + (z >> 32 & 0xFFFF) + (z >> 48)) - 131070;
            float size = (float)(1 + r % 8) * (float)(1 + i / 128 % 4);
            d->w[r * d->k + i] = (float)sum * 0x1p-24f * size;
        }
}

bn_status bn_quant_prepare(struct bn_quant_data *d, size_t rows, size_t k, bn_error *err)
{
    *d = (struct bn_quant_data){.rows = rows, .k = k};
    d->w = bn_alloc_aligned(rows * k, sizeof *d->w);
    d->packed = bn_alloc_aligned(rows * k, sizeof(float)); /* larger than any format */
    d->out = bn_alloc_aligned(rows * k, sizeof(float));
    d->expected = bn_alloc_aligned(rows * k, sizeof(float));
    d->row_sums = bn_alloc_aligned(rows, sizeof *d->row_sums);
    if (d->w == NULL || d->packed == NULL || d->out == NULL || d->expected == NULL || d->row_sums == NULL)
        return bn_fail(err, BN_ERR_NOMEM, "no memory for a matrix of %zux%zu", rows, k);
    fill_weights(d);
    for (size_t r = 0; r < rows; r++)
        d->row_sums[r] = bn_quant_row_sum(d->w + r * k, k);
    return BN_OK;
}

void bn_quant_release(struct bn_quant_data *d)
{
    void *blocks[] = {d->w, d->packed, d->out, d->expected, d->row_sums};
    for (size_t i = 0; i < BN_ARRAY_LEN(blocks); i++)
        bn_free(blocks[i]);
    *d = (struct bn_quant_data){0};
}

/* ---- operations ---- */

static void call_once(void *arg, unsigned thread, unsigned n_threads)
{
    struct bn_quant_op *op = arg;
    struct bn_quant_job *job = &op->job;
    size_t from, to;
    bn_team_share(job->rows, 1, thread, n_threads, &from, &to);
    if (op->sums_first) {
        for (size_t r = from; r < to; r++)
            job->row_sums[r] = bn_quant_row_sum(job->w + r * job->k, job->k);
        bn_barrier_wait(&op->barrier, n_threads);
        if (thread == 0) job->scale = bn_quant_tensor_scale(job->row_sums, job->rows, job->k);
        bn_barrier_wait(&op->barrier, n_threads);
    }
    for (size_t r = from; r < to; r++)
        op->row(job, r);
}

void bn_quant_calls(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads)
{
    (void)first;
    for (uint64_t i = 0; i < n; i++)
        call_once(arg, thread, n_threads);
}

/* Into the packed rows: what the scale is computed from. */
static void sum_row(const struct bn_quant_job *job, size_t row)
{
    double sum = bn_quant_row_sum(job->w + row * job->k, job->k);
    memcpy(job->packed + row * sizeof sum, &sum, sizeof sum);
}

static void choose(struct bn_quant_op *op, const struct bn_quant_format *f)
{
    size_t floats = op->job.rows * op->job.k * sizeof(float),
           packed = op->job.rows * bn_quant_row_bytes(f, op->job.k);
    bool encodes = op->kind == BN_QUANTISE;
    op->name = encodes ? "quantise" : "dequantise";
    op->row = encodes ? f->encode : f->decode;
    op->slot = encodes ? f->encode_slot : f->decode_slot;
    op->read_bytes = encodes ? floats : packed;
    op->written_bytes = encodes ? packed : floats;
    op->sums_first = encodes && f->tensor_scale;
    if (op->kind == BN_CALIBRATE) {
        op->name = "calibrate";
        op->row = sum_row;
        op->slot = BN_KERNEL_COUNT;
        op->read_bytes = floats;
        op->written_bytes = op->job.rows * sizeof(double);
    }
    if (op->kind != BN_DEQUANTISE)
        op->job.packed = op->data->out;
    else
        op->job.back = (float *)(void *)op->data->out;
}

void bn_quant_op_make(struct bn_quant_op *op, enum bn_quant_kind kind, const struct bn_quant_format *format,
                      struct bn_quant_data *d)
{
    struct bn_quant_job job = {
        .format = format, .kernels = &bn_kernels_ref, .rows = d->rows, .k = d->k, .w = d->w};
    job.row_sums = d->row_sums;
    job.packed = d->packed;
    job.scale = bn_quant_tensor_scale(d->row_sums, d->rows, d->k);
    *op = (struct bn_quant_op){.kind = kind, .job = job, .data = d};
    choose(op, format);
    for (size_t r = 0; r < d->rows && kind == BN_DEQUANTISE; r++)
        format->encode(&job, r);
    memset(d->out, POISON, op->written_bytes);
    call_once(op, 0, 1);
    memcpy(d->expected, d->out, op->written_bytes);
}

const char *bn_quant_differs(char why[160], const void *arg)
{
    const struct bn_quant_op *op = arg;
    const struct bn_quant_data *d = op->data;
    for (size_t i = 0; i < op->written_bytes; i++)
        if (d->out[i] != d->expected[i]) {
            snprintf(why, 160, "byte %zu of the result is %02x, the reference's is %02x", i, d->out[i],
                     d->expected[i]);
            return why;
        }
    return NULL;
}

const char *bn_quant_wrong(char why[160], struct bn_quant_op *op, const struct bn_kernels *kernels,
                           unsigned n_threads)
{
    op->job.kernels = kernels;
    memset(op->data->out, POISON, op->written_bytes);
    bn_team_once(n_threads, call_once, op);
    return bn_quant_differs(why, op);
}
