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

/* Sets the number of copies, and the set with which the limit of reading is measured. */
static void set_weights(const struct list *l, struct bn_bench_case *c, size_t bytes, bool streamed)
{
    c->weights_bytes = bytes;
    c->streamed = streamed;
    if (streamed && l->set_bytes > l->cache_bytes) c->source = "memory";
    if (streamed && bytes < l->set_bytes) c->copies = l->set_bytes / bytes;
    c->hot_bytes = streamed ? l->set_bytes : bytes; /* one measurement for all sets of about this size */
    c->bytes = (double)bytes;
}

/* The product of one token from T5; rows are padded to the block as the engine pads them. */
static void t5(struct list *l, size_t rows, size_t k, bool streamed)
{
    size_t padded = round_up(k, BN_T5_BLOCK);
    struct bn_bench_case *c = append(l, BN_KERNEL_T5_GEMV, rows, padded, 1);
    set_weights(l, c, rows * (padded / BN_T5_BLOCK * BN_T5_BLOCK_BYTES), streamed);
    c->macs = c->int8_macs = (double)rows * (double)padded;
    snprintf(c->shape, sizeof c->shape, "%zux%zu", rows, padded);
}

/* A product of tiles of codes, after which their scales come. Activations have 16 bits, with groups as in PQ2_0, or 8
 * bits, with groups as in TQ2_0 or none as in I2_S. */
static void tiles(struct list *l, enum bn_kernel slot, size_t rows, size_t k, size_t n, bool streamed,
                  enum bn_bench_form form)
{
    static const size_t GROUP[] = {BN_I2S_BLOCK, BN_BENCH_GROUP, 2 * BN_BENCH_GROUP};
    size_t group = GROUP[form], padded = round_up(k, group);
    struct bn_bench_case *c = append(l, slot, rows, padded, n);
    size_t scales = form == BN_BENCH_I2S ? 0 : padded / group * sizeof(uint16_t);
    size_t tile = BN_TILE_ROWS * (padded / 4 + scales);
    c->group = group;
    c->form = form;
    set_weights(l, c, round_up(round_up(rows, BN_TILE_ROWS) / BN_TILE_ROWS * tile, BN_ALIGNMENT), streamed);
    c->macs = (double)rows * (double)padded * (double)n;
    c->int8_macs = form == BN_BENCH_WIDE ? 2 * c->macs : c->macs; /* one or two planes */
    int at = snprintf(c->shape, sizeof c->shape, "%zux%zu", rows, padded);
    if (n > 1) at += snprintf(c->shape + at, sizeof c->shape - (size_t)at, " n=%zu", n);
    if (form != BN_BENCH_I2S)
        snprintf(c->shape + at, sizeof c->shape - (size_t)at, " g%zu %sbit", group,
                 form == BN_BENCH_WIDE ? "16" : "8");
}

static void ternary_cases(struct list *l)
{
    const struct bn_bench_shape *s = l->shape;
    size_t embd = s->n_embd, ff = s->n_ff, q = (size_t)s->n_head * s->head_dim;
    size_t kv = (size_t)s->n_head_kv * s->head_dim;
    static const size_t TOKENS[] = {2, 4, 8, 16, 32, 128};
    for (enum bn_bench_form form = BN_BENCH_I2S; form <= BN_BENCH_NARROW; form++) {
        if (form == BN_BENCH_I2S) {
            tiles(l, BN_KERNEL_TERNARY_GEMV, q, embd, 1, true, form);
            tiles(l, BN_KERNEL_TERNARY_GEMV, kv, embd, 1, true, form);
            t5(l, ff, embd, true);
            t5(l, embd, ff, true);
            t5(l, kv, embd, false);
        }
        tiles(l, BN_KERNEL_TERNARY_GEMV, ff, embd, 1, true, form);
        tiles(l, BN_KERNEL_TERNARY_GEMV, embd, ff, 1, true, form);
        tiles(l, BN_KERNEL_TERNARY_GEMV, kv, embd, 1, false, form);
        for (size_t i = 0; i < BN_ARRAY_LEN(TOKENS); i++)
            tiles(l, BN_KERNEL_TERNARY_GEMM, ff, embd, TOKENS[i], true, form);
    }
}

/* The part of the head that fits into the set, for n tokens. */
static void head(struct list *l, enum bn_kernel slot, size_t each, size_t n)
{
    size_t k = l->shape->n_embd, rows = l->shape->n_vocab;
    rows = bn_min_size(rows, l->set_bytes / (k * each) + 1);
    struct bn_bench_case *c = append(l, slot, rows, k, n);
    set_weights(l, c, rows * k * each, true);
    c->macs = (double)rows * (double)k * (double)n;
    /* i8_gemm multiplies each weight with two bytes. */
    if (slot == BN_KERNEL_I8_GEMM)
        c->int8_macs = 2 * c->macs;
    else
        c->float_macs = c->macs, c->n_inputs = n * k;
    snprintf(c->shape, sizeof c->shape, n > 1 ? "%zux%zu n=%zu" : "%zux%zu", rows, k, n);
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
    static const size_t CONTEXT[] = {128, 1024, 4096}, TOKENS[] = {1, 2, 4, 8, 16};
    static const enum bn_kernel SLOTS[] = {[BN_ACTIVATION_RELU2] = BN_KERNEL_RELU2_MUL,
                                           [BN_ACTIVATION_SILU] = BN_KERNEL_SILU_MUL,
                                           [BN_ACTIVATION_GELU] = BN_KERNEL_GELU_MUL};
    ternary_cases(&l);
    for (size_t i = 0; i < BN_ARRAY_LEN(TOKENS); i++)
        head(&l, BN_KERNEL_F16_GEMM, sizeof(uint16_t), TOKENS[i]);
    for (size_t i = 0; i < BN_ARRAY_LEN(TOKENS); i++)
        head(&l, BN_KERNEL_I8_GEMM, 1, TOKENS[i]);
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
