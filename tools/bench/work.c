/* SPDX-License-Identifier: MIT
 *
 * The data of a case, one call of it, and the comparison with the reference.
 */
#include "tools/bench/work.h"

#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/team.h"

/* ---- data ---- */

/* Values in -1 .. 1. */
static void fill_floats(float *x, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((int32_t)(bn_splitmix64(state) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* Either sign, 1/16 to 1/8. */
static void fill_halves(unsigned char *out, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half = (uint16_t)((bn_splitmix64(state) & 0x83FFu) | 0x2C00u);
        memcpy(out + i * sizeof half, &half, sizeof half);
    }
}

static void fill_bytes(unsigned char *out, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word = bn_splitmix64(state);
        memcpy(out + i, &word, bn_min_size(n - i, sizeof word));
    }
}

/* Codes 0, 1, 2 in two bits; a field of 3 becomes a 1. */
static void fill_codes(unsigned char *out, size_t n, uint64_t *state)
{
    fill_bytes(out, n, state);
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)(out[i] & ~((out[i] & out[i] >> 1 & 0x55u) << 1));
}

/* What the tiles of codes take; the scales come after them. */
static size_t codes_bytes(const struct bn_bench_case *c)
{
    return (c->rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS * BN_TILE_ROWS * c->k / 4;
}

/* Memory of the work; NULL, and from then on it has failed, when there is none. */
static void *room(struct bn_bench_work *w, size_t n, size_t each)
{
    void *block = w->failed ? NULL : bn_alloc_aligned(n, each);
    w->failed = block == NULL;
    if (block != NULL) w->blocks[w->n_blocks++] = block;
    return block;
}

static void fill_weights(struct bn_bench_work *w, uint64_t *state)
{
    const struct bn_bench_case *c = w->c;
    size_t row = c->weights_bytes / c->rows, k = c->k / BN_I2S_BLOCK * BN_I2S_BLOCK;
    if (c->slot == BN_KERNEL_T5_GEMV) { /* packed from codes, so that every byte is valid */
        unsigned char *codes = room(w, k / 4, 1);
        for (size_t r = 0; !w->failed && r < c->rows; r++) {
            fill_codes(codes, k / 4, state);
            bn_kernels_ref.t5_pack(w->pool + r * row, codes, k);
        }
    } else if (c->slot == BN_KERNEL_I8_GEMM) {
        fill_bytes(w->pool, c->weights_bytes, state);
    } else {
        size_t codes = c->group > 0 ? codes_bytes(c) : 0;
        fill_codes(w->pool, codes, state);
        fill_halves(w->pool + codes, (c->weights_bytes - codes) / sizeof(uint16_t), state);
    }
    for (size_t i = 1; i < c->copies; i++)
        memcpy(w->pool + i * c->weights_bytes, w->pool, c->weights_bytes);
}

/* Vectors as the engine quantises them: bytes; planes of 16 bits, with a step and a sum for each group; or both, for tiles whose
 * activations have 8 bits. A pair of byte vectors is one of 16 bits for i8_gemm. */
static void make_acts(struct bn_bench_work *w, size_t n, uint64_t *state)
{
    const struct bn_bench_case *c = w->c;
    bool grouped = c->form == BN_BENCH_WIDE || c->form == BN_BENCH_NARROW;
    size_t k = c->k, groups = grouped ? k / c->group : 0;
    int8_t *high = room(w, 2 * n * k, 1);
    float *step = room(w, n * groups, sizeof *step);
    int32_t *sum = room(w, n * groups, sizeof *sum);
    w->act = room(w, n, sizeof *w->act);
    w->x = room(w, k, sizeof *w->x);
    w->planes = room(w, (n + 1) / 2, sizeof *w->planes);
    for (size_t j = 0; j < n && !w->failed; j++, high += 2 * k, step += groups, sum += groups) {
        struct bn_act *act = &w->act[j];
        int8_t *low = high + k;
        fill_floats(w->x, k, state);
        *act = (struct bn_act){.q = high, .scale = 1.0f};
        if (grouped) *act = (struct bn_act){.low = low, .step = step, .sum = sum, .scale = 1.0f};
        if (c->form == BN_BENCH_WIDE) {
            bn_kernels_ref.quantize16(high, low, step, sum, w->x, k, c->group);
            act->high = high;
            continue;
        }
        bn_kernels_ref.quantize(high, &act->scale, &act->total, w->x, k);
        if (grouped) bn_kernels_ref.to_plane(low, sum, high, k, c->group);
        if (j % 2 == 1) w->planes[j / 2] = (struct bn_planes){w->act[j - 1].q, high};
    }
}

static void make_data(struct bn_bench_work *w)
{
    const struct bn_bench_case *c = w->c;
    uint64_t state = (uint64_t)c->slot << 32;
    bool product = c->weights_bytes > 0 && c->n_kv == 0;
    if (c->weights_bytes > 0) fill_weights(w, &state);
    if (product && c->form != BN_BENCH_F16)
        make_acts(w, c->form == BN_BENCH_I8 ? 2 * c->n : c->n, &state);
    else
        w->x = room(w, c->n_inputs, sizeof *w->x);
    w->x2 = room(w, c->n_others, sizeof *w->x2);
    w->expected = room(w, c->out_bytes, 1);
    if (c->in_place) w->start = room(w, c->out_bytes, 1);
    w->out = room(w, c->out_bytes, 1);
    if (w->failed) return;
    fill_floats(w->x, c->n_inputs, &state);
    fill_floats(w->x2, c->n_others, &state);
    if (c->in_place) fill_floats((float *)(void *)w->start, c->out_bytes / sizeof(float), &state);
}

void bn_bench_release(struct bn_bench_work *work)
{
    for (size_t i = 0; i < work->n_blocks; i++)
        bn_free(work->blocks[i]);
    *work = (struct bn_bench_work){0};
}

/* ---- calls ---- */

/* Rows from .. to of a copy of the weights; the first begins a tile. */
static void call_product(const struct bn_bench_work *w, const struct bn_kernels *kernels,
                         const unsigned char *weights, size_t from, size_t to)
{
    const struct bn_bench_case *c = w->c;
    const size_t row = c->group > 0 ? c->k / 4 : c->weights_bytes / c->rows;
    const unsigned char *rows = weights + from * row;
    float *y = (float *)(void *)w->out + from;
    struct bn_t5 t5 = {.codes = rows, .rows = to - from, .k = c->k, .row_bytes = row, .scale = 0.75f};
    struct bn_ternary tiles = {
        .codes = rows, .rows = to - from, .k = c->k, .group = c->group, .scale = 0.75f};
    t5.streamed = tiles.streamed = c->streamed;
    if (c->form == BN_BENCH_I2S)
        tiles.blocks = BN_BLOCKS_I2S;
    else if (c->group > 0)
        tiles.scales = (const uint16_t *)(const void *)(weights + codes_bytes(c)) + from * (c->k / c->group);
    switch ((int)c->slot) {
    case BN_KERNEL_TERNARY_GEMV:
        kernels->ternary_gemv(y, &tiles, w->act);
        break;
    case BN_KERNEL_TERNARY_GEMM:
        kernels->ternary_gemm(y, c->rows, &tiles, w->act, c->n);
        break;
    case BN_KERNEL_T5_GEMV:
        kernels->t5_gemv(y, &t5, w->act);
        break;
    case BN_KERNEL_I8_GEMM:
        kernels->i8_gemm(y, c->rows, (const int8_t *)rows, to - from, c->k, w->planes, c->n);
        break;
    default:
        kernels->f16_gemm(y, c->rows, (const uint16_t *)(const void *)rows, to - from, c->k, w->x, c->k,
                          c->n);
    }
}

/* n heads from the head'th on, which share their part of the cache. */
static void call_heads(const struct bn_bench_work *w, const struct bn_kernels *kernels, size_t head, size_t n)
{
    const struct bn_bench_case *c = w->c;
    float *out = (float *)(void *)w->out;
    if (c->slot == BN_KERNEL_SOFTMAX) {
        for (size_t j = head; j < head + n; j++)
            kernels->softmax(out + j * c->n, c->n);
        return;
    }
    const uint16_t *cache = (const uint16_t *)(const void *)w->pool;
    cache += head / (c->rows / c->n_kv) * c->n * c->k;
    struct bn_keys keys = {cache, c->n, c->k};
    struct bn_kv values = {cache, c->k, c->n, c->k};
    if (c->slot == BN_KERNEL_ATTN_SCORES)
        kernels->attn_scores(out + head * c->n, c->n, w->x + head * c->k, c->k, n, &keys, 0.125f);
    else
        kernels->attn_values(out + head * c->k, c->k, w->x + head * c->n, c->n, n, &values);
}

static void call_row(const struct bn_bench_work *w, const struct bn_kernels *kernels, size_t row)
{
    size_t k = w->c->k;
    float *y = (float *)(void *)w->out + row * k;
    const float *x = w->x + row * k;
    int8_t *high =
        (int8_t *)w->out + 2 * row * k; /* of quantize16; all rows, then the steps and sums of each */
    unsigned char *scales = w->out + w->c->rows * k + row * BN_BENCH_SCALES,
                  *steps = w->out + 2 * w->c->rows * k + row * (k / BN_BENCH_GROUP) * BN_BENCH_GROUP_SCALES;
    switch ((int)w->c->slot) {
    case BN_KERNEL_RMSNORM:
        kernels->rmsnorm(y, x, w->x2, k, 1e-5f);
        break;
    case BN_KERNEL_QUANTIZE16:
        kernels->quantize16(high, high + k, (float *)(void *)steps,
                            (int32_t *)(void *)(steps + k / BN_BENCH_GROUP * sizeof(float)), x, k,
                            BN_BENCH_GROUP);
        break;
    case BN_KERNEL_QUANTIZE:
        kernels->quantize((int8_t *)w->out + row * k, (float *)(void *)scales,
                          (int32_t *)(void *)(scales + sizeof(float)), x, k);
        break;
    case BN_KERNEL_RELU2_MUL:
        kernels->relu2_mul(y, x, w->x2 + row * k, k);
        break;
    case BN_KERNEL_SILU_MUL:
        kernels->silu_mul(y, x, w->x2 + row * k, k);
        break;
    case BN_KERNEL_GELU_MUL:
        kernels->gelu_mul(y, x, w->x2 + row * k, k);
        break;
    default:
        kernels->add(y, x, k);
    }
}

static void call_once(const struct bn_bench_work *work, const struct bn_kernels *kernels, size_t copy,
                      unsigned thread, unsigned n_threads)
{
    const struct bn_bench_case *c = work->c;
    bool heads = c->n_kv > 0, product = !heads && c->weights_bytes > 0;
    size_t from, to;
    bn_team_share(c->rows, product ? BN_ROW_GRAIN : 1, thread, n_threads, &from, &to);
    if (product && from < to) call_product(work, kernels, work->pool + copy * c->weights_bytes, from, to);
    for (size_t i = from, n; heads && i < to; i += n) {
        n = bn_min_size(to - i, c->rows / c->n_kv - i % (c->rows / c->n_kv));
        call_heads(work, kernels, i, n);
    }
    for (size_t i = from; !product && !heads && i < to; i++)
        call_row(work, kernels, i);
}

void bn_bench_calls(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads)
{
    const struct bn_bench_call *call = arg;
    size_t copies = call->work->c->copies, copy = (size_t)(first % copies);
    for (uint64_t i = 0; i < n; i++) {
        call_once(call->work, call->kernels, copy, thread, n_threads);
        copy = copy + 1 < copies ? copy + 1 : 0;
    }
}

/* ---- the comparison ---- */

static void run_once(void *arg, unsigned thread, unsigned n_threads)
{
    bn_bench_calls(arg, 0, 1, thread, n_threads);
}

/* The output starts as NaNs, so that missing writes are found. */
static void call_afresh(const struct bn_bench_work *work, const struct bn_kernels *kernels,
                        unsigned n_threads)
{
    struct bn_bench_call call = {work, kernels};
    if (work->start != NULL)
        memcpy(work->out, work->start, work->c->out_bytes);
    else
        memset(work->out, 0xFF, work->c->out_bytes);
    bn_team_once(n_threads, run_once, &call);
}

bn_status bn_bench_prepare(struct bn_bench_work *work, const struct bn_bench_case *c, unsigned char *pool,
                           unsigned n_threads, bn_error *err)
{
    *work = (struct bn_bench_work){.c = c, .pool = pool};
    make_data(work);
    if (work->failed) return bn_nomem(err);
    call_afresh(work, &bn_kernels_ref, n_threads);
    memcpy(work->expected, work->out, c->out_bytes);
    return BN_OK;
}

bn_status bn_bench_check(const struct bn_bench_work *work, const struct bn_kernels *kernels,
                         unsigned n_threads, bn_error *err)
{
    call_afresh(work, kernels, n_threads);
    for (size_t i = 0; i < work->c->out_bytes; i++)
        if (work->out[i] != work->expected[i])
            return bn_fail(err, BN_ERR_MISMATCH,
                           "%s on %s, %u thread%s: byte %zu of the result is %02x, the reference's is %02x",
                           kernels->name[work->c->slot], work->c->shape, n_threads, n_threads == 1 ? "" : "s",
                           i, work->out[i], work->expected[i]);
    return BN_OK;
}
