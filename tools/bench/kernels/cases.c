/* SPDX-License-Identifier: MIT
 *
 * Lists the kernels that are timed, their shapes, and the bytes and multiply-adds of one call.
 */
#include <stdio.h>

#include "tools/bench/work.h"

#define SOME_ROWS 8u /* of kernels that work by rows: a small batch, which stays in the second cache */

struct list {
    struct bn_bench_case *cases;
    size_t n, set_bytes, cache_bytes;
    const struct bn_bench_shape *shape;
};

static size_t round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

static struct bn_bench_case *append(struct list *l, enum bn_kernel slot, size_t rows, size_t k, size_t n)
{
    struct bn_bench_case *c = &l->cases[l->n++];
    *c = (struct bn_bench_case){.slot = slot, .rows = rows, .k = k, .n = n, .copies = 1, .source = "cache"};
    c->out_bytes = rows * n * sizeof(float);
    return c;
}

/* Weights of a product. In tiles the codes come first, then the scales of all groups. */
static const struct form {
    size_t block, block_bytes; /* of a row, which is padded to blocks */
    bool tiles;
    unsigned planes; /* vectors of bytes that each weight is multiplied with; 0: with floats */
    const char *named;
} FORMS[] = {
    [BN_BENCH_T5] = {BN_T5_BLOCK, BN_T5_BLOCK_BYTES, false, 1, ""},
    [BN_BENCH_I2S] = {BN_I2S_BLOCK, BN_I2S_BLOCK / 4, true, 1, ""},
    [BN_BENCH_WIDE] = {BN_BENCH_GROUP, BN_BENCH_GROUP / 4 + 2, true, 2, " g128 16bit"},
    [BN_BENCH_NARROW] = {2 * BN_BENCH_GROUP, BN_BENCH_GROUP / 2 + 2, true, 1, " g256 8bit"},
    [BN_BENCH_F16] = {1, 2, false, 0, ""},
    [BN_BENCH_I8] = {1, 1, false, 2, ""},
};

/* A product of n vectors. Streamed: from copies that are used in turn. */
static void product(struct list *l, enum bn_kernel slot, enum bn_bench_form form, size_t rows, size_t k,
                    size_t n, bool streamed)
{
    const struct form *f = &FORMS[form];
    size_t padded = round_up(k, f->block), row = padded / f->block * f->block_bytes;
    struct bn_bench_case *c = append(l, slot, rows, padded, n);
    size_t bytes = f->tiles ? round_up(round_up(rows, BN_TILE_ROWS) * row, BN_ALIGNMENT) : rows * row;
    c->form = form;
    c->group = f->tiles ? f->block : 0;
    c->weights_bytes = bytes;
    c->streamed = streamed;
    if (streamed && l->set_bytes > l->cache_bytes) c->source = "memory";
    if (streamed && bytes < l->set_bytes) c->copies = l->set_bytes / bytes;
    c->hot_bytes = streamed ? l->set_bytes : bytes; /* one measurement for all sets of about this size */
    c->bytes = (double)bytes;
    c->macs = (double)rows * (double)padded * (double)n;
    c->int8_macs = f->planes * c->macs;
    if (f->planes == 0) c->float_macs = c->macs, c->n_inputs = n * k;
    int at = snprintf(c->shape, sizeof c->shape, "%zux%zu", rows, padded);
    if (n > 1) at += snprintf(c->shape + at, sizeof c->shape - (size_t)at, " n=%zu", n);
    snprintf(c->shape + at, sizeof c->shape - (size_t)at, "%s", f->named);
}

static void ternary_cases(struct list *l)
{
    const struct bn_bench_shape *s = l->shape;
    size_t embd = s->n_embd, ff = s->n_ff, q = (size_t)s->n_head * s->head_dim;
    size_t kv = (size_t)s->n_head_kv * s->head_dim;
    static const size_t TOKENS[] = {2, 4, 8, 16, 32, 128};
    for (enum bn_bench_form form = BN_BENCH_I2S; form <= BN_BENCH_NARROW; form++) {
        if (form == BN_BENCH_I2S) {
            product(l, BN_KERNEL_TERNARY_GEMV, form, q, embd, 1, true);
            product(l, BN_KERNEL_TERNARY_GEMV, form, kv, embd, 1, true);
            product(l, BN_KERNEL_T5_GEMV, BN_BENCH_T5, ff, embd, 1, true);
            product(l, BN_KERNEL_T5_GEMV, BN_BENCH_T5, embd, ff, 1, true);
            product(l, BN_KERNEL_T5_GEMV, BN_BENCH_T5, kv, embd, 1, false);
        }
        product(l, BN_KERNEL_TERNARY_GEMV, form, ff, embd, 1, true);
        product(l, BN_KERNEL_TERNARY_GEMV, form, embd, ff, 1, true);
        product(l, BN_KERNEL_TERNARY_GEMV, form, kv, embd, 1, false);
        for (size_t i = 0; i < BN_ARRAY_LEN(TOKENS); i++)
            product(l, BN_KERNEL_TERNARY_GEMM, form, ff, embd, TOKENS[i], true);
    }
}

/* The part of the head that fits into the set. */
static void heads(struct list *l, enum bn_kernel slot, enum bn_bench_form form)
{
    size_t k = l->shape->n_embd, most = l->set_bytes / (k * FORMS[form].block_bytes) + 1;
    for (size_t n = 1; n <= 16; n *= 2)
        product(l, slot, form, bn_min_size(l->shape->n_vocab, most), k, n, true);
}

#define TILE_QUERIES 32u /* of each head of the cache: as a prompt has at once */
#define TILE_CONTEXT 2048u

/* Some queries for each head of the cache over a context, as in one layer. 0: all heads of one token. */
static void attention(struct list *l, enum bn_kernel slot, size_t n_pos, size_t queries)
{
    const struct bn_bench_shape *s = l->shape;
    size_t rows = queries > 0 ? queries * s->n_head_kv : s->n_head;
    struct bn_bench_case *c = append(l, slot, rows, s->head_dim, n_pos);
    c->n_kv = s->n_head_kv;
    c->in_place = slot != BN_KERNEL_ATTN_SCORES;
    if (slot == BN_KERNEL_SOFTMAX) {
        c->bytes = (double)(c->rows * n_pos * sizeof(float));
        c->no_limit = true; /* exponentials */
        snprintf(c->shape, sizeof c->shape, "%zu heads ctx=%zu", c->rows, n_pos);
        return;
    }
    c->n_inputs = c->rows * (slot == BN_KERNEL_ATTN_SCORES ? c->k : n_pos);
    if (slot == BN_KERNEL_ATTN_VALUES) c->out_bytes = c->rows * c->k * sizeof(float);
    c->weights_bytes = c->n_kv * n_pos * c->k * sizeof(uint16_t);
    c->hot_bytes = n_pos * c->k * sizeof(uint16_t); /* one head of the cache serves a group of heads */
    c->hot_each = true;
    c->bytes = (double)c->weights_bytes;
    c->macs = c->float_macs = (double)(c->rows * n_pos * c->k);
    if (queries > 0)
        snprintf(c->shape, sizeof c->shape, "%zu queries ctx=%zu", queries, n_pos);
    else
        snprintf(c->shape, sizeof c->shape, "%zu/%zu heads ctx=%zu", c->rows, c->n_kv, n_pos);
}

/* Kernels that take values in and give as many out; inputs: arrays that one call reads. */
static void by_rows(struct list *l, enum bn_kernel slot, size_t k, size_t inputs)
{
    struct bn_bench_case *c = append(l, slot, SOME_ROWS, k, 1);
    c->bytes = (double)(c->rows * k * inputs * sizeof(float));
    c->hot_bytes = c->rows * k * inputs * sizeof(float);
    c->in_place = slot == BN_KERNEL_ADD;
    c->n_inputs = c->rows * k;
    c->n_others = inputs > 1 && !c->in_place ? c->n_inputs : 0;
    c->out_bytes = slot == BN_KERNEL_QUANTIZE ? c->rows * (k + BN_BENCH_SCALES)
                   : slot == BN_KERNEL_QUANTIZE16
                       ? c->rows * (2 * k + k / BN_BENCH_GROUP * BN_BENCH_GROUP_SCALES)
                       : c->rows * k * sizeof(float);
    snprintf(c->shape, sizeof c->shape, "%zu rows of %zu", c->rows, k);
}

size_t bn_bench_cases(struct bn_bench_case *list, const struct bn_bench_shape *shape, size_t set_bytes,
                      size_t cache_bytes)
{
    struct list l = {.cases = list, .set_bytes = set_bytes, .cache_bytes = cache_bytes, .shape = shape};
    static const size_t CONTEXT[] = {128, 1024, 4096};
    static const enum bn_kernel SLOTS[] = {[BN_ACTIVATION_RELU2] = BN_KERNEL_RELU2_MUL,
                                           [BN_ACTIVATION_SILU] = BN_KERNEL_SILU_MUL,
                                           [BN_ACTIVATION_GELU] = BN_KERNEL_GELU_MUL};
    ternary_cases(&l);
    heads(&l, BN_KERNEL_F16_GEMM, BN_BENCH_F16);
    heads(&l, BN_KERNEL_I8_GEMM, BN_BENCH_I8);
    for (size_t i = 0; i < BN_ARRAY_LEN(CONTEXT); i++) {
        attention(&l, BN_KERNEL_ATTN_SCORES, CONTEXT[i], 0);
        attention(&l, BN_KERNEL_SOFTMAX, CONTEXT[i], 0);
        attention(&l, BN_KERNEL_ATTN_VALUES, CONTEXT[i], 0);
    }
    attention(&l, BN_KERNEL_ATTN_SCORES, TILE_CONTEXT, TILE_QUERIES);
    attention(&l, BN_KERNEL_ATTN_VALUES, TILE_CONTEXT, TILE_QUERIES);
    by_rows(&l, BN_KERNEL_RMSNORM, shape->n_embd, 2);
    by_rows(&l, BN_KERNEL_QUANTIZE, shape->n_embd, 1);
    by_rows(&l, BN_KERNEL_QUANTIZE16, round_up(shape->n_embd, BN_BENCH_GROUP), 1);
    by_rows(&l, SLOTS[shape->activation], shape->n_ff, 2);
    l.cases[l.n - 1].no_limit = shape->activation != BN_ACTIVATION_RELU2; /* exponentials */
    by_rows(&l, BN_KERNEL_ADD, shape->n_embd, 2);
    return l.n;
}
