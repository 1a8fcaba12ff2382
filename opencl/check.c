/* SPDX-License-Identifier: MIT
 *
 * Cases of kernels: inputs, launches, comparison. What each kernel gets and gives is in check_kernels.c. A NaN equals any
 * NaN.
 */
#define _GNU_SOURCE
#include "opencl/check.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "opencl/trial.h"

#define GUARD_BYTES 64u
#define GUARD 0xC5

static const size_t SIZE[] = {
    [BN_CL_BYTES] = 1, [BN_CL_HALVES] = 2, [BN_CL_FLOATS] = 4, [BN_CL_WORDS] = 4, [BN_CL_HOST] = 4};

/* ---- inputs ---- */

static uint32_t next_random(struct bn_cl_trial *t)
{
    return (uint32_t)(bn_splitmix64(&t->random) >> 32);
}

/* A value of binary32 (23 bits of fraction, 8 of exponent) or binary16 (10, 5). */
static uint32_t random_bits(struct bn_cl_trial *t, unsigned fraction, unsigned exponent)
{
    const uint32_t one = 1u << fraction, infinite = ((1u << exponent) - 1) << fraction;
    const uint32_t sign = 1u << (fraction + exponent), bits = next_random(t) >> (31 - fraction - exponent);
    const uint32_t size = infinite / 2 / one * one - next_random(t) % 8 * one; /* 2^-7 to 2 */
    uint32_t pick;
    switch (t->c->values) {
    case BN_CL_ANY:
        return (bits & infinite) == infinite ? bits ^ 2 * one : bits;
    case BN_CL_SUBNORMAL:
        return bits & (sign | (one - 1));
    case BN_CL_LARGEST:
        return (bits & sign) | (infinite - 1);
    case BN_CL_ZEROS:
        return bits & sign;
    case BN_CL_WILD:
        if (next_random(t) % 64 == 0) return (bits & (sign | one / 2)) | infinite;
        break;
    case BN_CL_FINE:
        /* 1 to 1.25; 2^-12, whose square is half a unit of its last place; 2^-27 * 1.25: two or three of its square
         * make a unit in binary64. */
        pick = next_random(t) % 128;
        if (fraction != 23 || pick > 5) return 0;
        return pick == 0 ? 0x3F800000u | (bits & 0x1FFFFFu) : pick == 1 ? 0x39800000u : 0x32200000u;
    case BN_CL_ORDINARY:
    case BN_CL_N_VALUES:
        break;
    }
    /* A quarter of them has few bits, so that sums and halves are often half-way between two values. */
    return (bits & (sign | (next_random(t) % 4 == 0 ? (one - 1) & ~0xFFFu : one - 1))) | size;
}

void bn_cl_fill(struct bn_cl_trial *t, void *host, enum bn_cl_kind kind, size_t n)
{
    for (size_t i = 0; i < n * SIZE[kind]; i += kind == BN_CL_HALVES ? 2 : 4) {
        uint32_t word = kind == BN_CL_HALVES                         ? random_bits(t, 10, 5)
                        : kind == BN_CL_FLOATS || kind == BN_CL_HOST ? random_bits(t, 23, 8)
                                                                     : next_random(t);
        memcpy((uint8_t *)host + i, &word, kind == BN_CL_HALVES ? 2 : 4); /* a guard follows */
    }
}

static void take_buffer(struct bn_cl_trial *t, const struct bn_cl_want *want, cl_mem *mem)
{
    struct bn_cl_copy *b = &t->buffers[t->n_buffers];
    const size_t n_bytes = want->n * SIZE[want->kind];
    if (t->status != BN_OK || want->n == 0) return;
    *b = (struct bn_cl_copy){bn_alloc_aligned(n_bytes + GUARD_BYTES, 1), NULL, n_bytes, want->kind};
    if (b->host == NULL) {
        t->status = bn_nomem(t->err);
        return;
    }
    t->n_buffers++;
    bn_cl_fill(t, b->host, want->kind, want->n);
    memset((uint8_t *)b->host + n_bytes, GUARD, GUARD_BYTES);
    memcpy(want->at, &b->host, sizeof b->host);
    if (want->kind == BN_CL_HOST) return;
    t->status = bn_cl_alloc(t->q->device, &b->mem, n_bytes + GUARD_BYTES, "a test", t->err);
    *mem = b->mem;
}

void bn_cl_take(struct bn_cl_trial *t, const struct bn_cl_want *wants, size_t n)
{
    for (const struct bn_cl_want *want = wants; want < wants + n; want++) {
        void *none = NULL;
        size_t i = t->n_args;
        t->values[i].mem = NULL;
        if (want->kind == BN_CL_NUMBER)
            t->values[i].u = (cl_uint)want->n;
        else if (want->kind == BN_CL_REAL)
            t->values[i].f = want->real;
        else
            memcpy(want->at, &none, sizeof none);
        if (want->kind < BN_CL_NUMBER || want->kind == BN_CL_HOST) take_buffer(t, want, &t->values[i].mem);
        if (want->kind == BN_CL_HOST) continue;
        t->args[i] = (struct bn_cl_arg){want->kind < BN_CL_NUMBER ? sizeof(cl_mem) : 4, &t->values[i]};
        t->n_args++;
    }
}

bool bn_cl_launch(struct bn_cl_trial *t, size_t global0, size_t global1, size_t local0, size_t local1)
{
    const size_t global[2] = {bn_cl_round_up(global0, local0), bn_cl_round_up(global1, local1)},
                 local[2] = {local0, local1};
    if (t->status != BN_OK) return false;
    bn_cl_begin(t->q);
    for (const struct bn_cl_copy *b = t->buffers; b < t->buffers + t->n_buffers; b++)
        if (b->mem != NULL) bn_cl_write(t->q, b->mem, 0, b->host, b->n_bytes + GUARD_BYTES);
    bn_cl_run(t->q, t->c->kernel, global, local, t->args, t->n_args,
              (struct bn_cl_work){.slot = BN_KERNEL_COUNT});
    t->status = bn_cl_finish(t->q, t->err);
    return t->status == BN_OK;
}

bool bn_cl_launch_rows(struct bn_cl_trial *t, size_t n)
{
    return bn_cl_launch(t, n * t->q->device->group_size, 1, t->q->device->group_size, 1);
}

/* ---- comparison ---- */

static uint32_t value_at(const struct bn_cl_copy *b, const void *bytes, size_t i)
{
    uint32_t word = 0;
    memcpy(&word, (const uint8_t *)bytes + i * SIZE[b->kind], SIZE[b->kind]);
    return word;
}

static bool is_nan(uint32_t bits, enum bn_cl_kind kind)
{
    return kind == BN_CL_FLOATS ? (bits & 0x7FFFFFFFu) > 0x7F800000u
                                : kind == BN_CL_HALVES && (bits & 0x7FFFu) > 0x7C00u;
}

static bn_status compare(struct bn_cl_trial *t, const struct bn_cl_copy *b)
{
    const size_t each = SIZE[b->kind], n_bytes = b->n_bytes + GUARD_BYTES;
    const int digits = (int)(2 * each);
    void *got = bn_alloc(n_bytes, 1);
    if (got == NULL) return bn_nomem(t->err);
    bn_cl_read(t->q, got, b->mem, 0, n_bytes);
    bn_status status = bn_cl_finish(t->q, t->err);
    bool same = status != BN_OK || memcmp(got, b->host, n_bytes) == 0;
    for (size_t i = 0; !same && i < n_bytes / each && status == BN_OK; i++) {
        uint32_t is = value_at(b, got, i), right = value_at(b, b->host, i);
        if (is == right || (is_nan(is, b->kind) && is_nan(right, b->kind))) continue;
        status = bn_fail_in(t->err, BN_ERR_INTEGRITY, t->q->device->info.name,
                            "the device %s computes %s wrongly: value %zu is 0x%0*X, not 0x%0*X",
                            t->q->device->info.id, t->c->operation, i, digits, (unsigned)is, digits,
                            (unsigned)right);
        bn_error_hint(t->err, "another version of the driver, or --device cpu");
    }
    bn_free(got);
    return status;
}

/* ---- cases ---- */

bn_status bn_cl_check_case(struct bn_cl_queue *q, const struct bn_cl_case *c, bn_error *err)
{
    struct bn_cl_trial t = {.c = c, .q = q, .random = c->seed, .err = err};
    bn_cl_checks[c->kernel](&t, c);
    for (size_t i = 0; i < t.n_buffers; i++) {
        const struct bn_cl_copy *b = &t.buffers[i];
        if (t.status == BN_OK && b->mem != NULL) t.status = compare(&t, b);
        bn_cl_free(q->device, b->mem, b->n_bytes + GUARD_BYTES);
        bn_free(b->host);
    }
    return t.status;
}

const struct bn_cl_case bn_cl_cases[] = {
    {"rmsnorm", BN_CL_prepare, .n = 2, .width = 200, .steps = BN_CL_WITH_NORM},
    {"the residual sum", BN_CL_prepare, .n = 2, .width = 72, .steps = BN_CL_WITH_ADD | BN_CL_WITH_ADD_NORM},
    {"relu2_mul", BN_CL_prepare, BN_CL_ANY, .n = 1, .width = 256, .activation = 1},
    {"silu_mul", BN_CL_prepare, .n = 1, .width = 512, .activation = 2},
    {"silu_mul", BN_CL_prepare, BN_CL_ANY, .n = 1, .width = 512, .activation = 2},
    {"gelu_mul", BN_CL_prepare, .n = 1, .width = 512, .activation = 3},
    {"the limits of experts", BN_CL_prepare, .n = 1, .width = 128, .activation = 2,
     .steps = BN_CL_WITH_LIMIT},
    {"rotate", BN_CL_prepare, .n = 1, .width = 128, .block = 32, .steps = BN_CL_WITH_SIGNS},
    {"quantize", BN_CL_prepare, .n = 2, .width = 320, .bits = 8},
    {"quantize", BN_CL_prepare, BN_CL_SUBNORMAL, .n = 1, .width = 64, .bits = 8},
    {"quantize", BN_CL_prepare, BN_CL_WILD, .n = 2, .width = 64, .bits = 8},
    {"to_plane", BN_CL_prepare, .n = 1, .width = 256, .bits = 8, .group = 256},
    {"quantize16", BN_CL_prepare, .n = 2, .width = 512, .bits = 16, .group = 128},
    {"the search for NaN", BN_CL_finite, BN_CL_WILD, .n = 2, .width = 300},
    {"ternary_gemv", BN_CL_ternary_gemv, .n = 1, .width = 384, .rows = 40, .bits = 8, .slices = 4},
    {"ternary_gemv of groups", BN_CL_ternary_gemv, .n = 2, .width = 384, .rows = 32, .bits = 16, .group = 128,
     .slices = 4},
    {"ternary_gemm", BN_CL_ternary_gemm, .n = 5, .width = 256, .rows = 32, .bits = 8, .slices = 1},
    {"ternary_gemm of groups", BN_CL_ternary_gemm, .n = 3, .width = 256, .rows = 16, .bits = 16, .group = 64,
     .slices = 1},
    {"f32_to_f16", BN_CL_rope_store, .n = 8, .width = 64, .rows = 9, .heads = 1, .kv_heads = 1},
    {"f32_to_f16", BN_CL_rope_store, BN_CL_SUBNORMAL, .n = 1, .width = 32, .rows = 4, .heads = 1,
     .kv_heads = 1},
    {"rope_neox", BN_CL_rope_store, .n = 2, .width = 32, .rows = 20, .block = 32, .heads = 2, .kv_heads = 1,
     .steps = BN_CL_WITH_NEOX},
    {"rope_norm", BN_CL_rope_store, .n = 1, .width = 32, .rows = 20, .block = 16, .heads = 1, .kv_heads = 1,
     .steps = BN_CL_WITH_ROPE_NORM},
    {"attn_scores", BN_CL_attn_scores, .n = 2, .width = 40, .rows = 37, .heads = 4, .kv_heads = 2,
     .window = 30},
    {"softmax", BN_CL_attn_softmax, .n = 2, .rows = 67, .heads = 2, .kv_heads = 1, .window = 60},
    {"attn_values", BN_CL_attn_values, .n = 2, .width = 40, .rows = 37, .heads = 4, .kv_heads = 2},
    {"sigmoid_mul", BN_CL_attn_values, .n = 1, .width = 32, .rows = 9, .heads = 2, .kv_heads = 1,
     .steps = BN_CL_WITH_GATE},
    {"f16_gemm", BN_CL_f16_gemm, .n = 2, .width = 200, .rows = 6},
    {"f32_gemm", BN_CL_f32_gemm, .n = 1, .width = 72, .rows = 5},
    {"softplus", BN_CL_make_gates, .n = 9, .heads = 8},
    {"conv_silu", BN_CL_convolve, .n = 5, .width = 40, .block = 4},
    {"the rows of a convolution", BN_CL_keep_rows, .n = 3, .width = 40, .block = 4},
    {"the length of heads", BN_CL_normalise_heads, .n = 2, .width = 40, .kv_heads = 2},
    {"the length of heads", BN_CL_normalise_heads, BN_CL_FINE, .n = 128, .width = 128, .kv_heads = 1},
    {"delta", BN_CL_delta, .n = 5, .width = 24, .heads = 4, .kv_heads = 2, .steps = BN_CL_WITH_GROUPS},
    {"the gates of heads", BN_CL_gate_heads, .n = 2, .width = 24, .heads = 4, .kv_heads = 2},
    {"the choice of experts", BN_CL_choose_experts, .n = 2, .rows = 30, .heads = 5},
    {"the sum of experts", BN_CL_sum_experts, .n = 2, .width = 24, .heads = 3},
};
const size_t bn_cl_n_cases = BN_ARRAY_LEN(bn_cl_cases);

bn_status bn_cl_check(struct bn_cl_device *device, bn_error *err)
{
    struct bn_cl_queue q;
    if (bn_cl_is_checked(device)) return BN_OK;
    BN_TRY(bn_cl_queue_open(&q, device, err));
    bn_status status = BN_OK;
    for (size_t i = 0; i < bn_cl_n_cases && status == BN_OK; i++)
        status = bn_cl_check_case(&q, &bn_cl_cases[i], err);
    bn_cl_queue_close(&q);
    if (status == BN_OK) bn_cl_keep_checked(device);
    return status;
}
