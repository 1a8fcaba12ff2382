/* SPDX-License-Identifier: MIT
 *
 * A case of a kernel: its arguments are made in their order, each buffer with a guard after it, and copied to the device;
 * the kernel runs there, and the reference on the host's copies. Then all bytes of all buffers are compared, so what a
 * kernel must not change is compared as well. A NaN equals any NaN.
 */
#include "opencl/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define MAX_BUFFERS 24u
#define MAX_ARGS 32u
#define GUARD_BYTES 64u
#define GUARD 0xC5
#define EPS 1e-5f
#define TOKENS 8u /* of a work-item of ternary_gemm */

enum kind { BYTES, HALVES, FLOATS };

struct buffer {
    void *host; /* with the guard; as it was copied to the device, and then as the reference leaves it */
    cl_mem mem; /* NULL: only the host has it */
    size_t n_bytes;
    enum kind kind;
};

struct trial {
    const struct bn_cl_case *c;
    struct bn_cl_queue *q;
    struct buffer buffers[MAX_BUFFERS];
    size_t n_buffers, n_args;
    struct bn_cl_arg args[MAX_ARGS];
    union {
        cl_mem mem;
        cl_uint u;
        cl_float f;
    } values[MAX_ARGS];
    uint64_t random;
    bn_status status;
    bn_error *err;
};

static const struct bn_kernels *const K = &bn_kernels_ref;

/* ---- inputs ---- */

static uint32_t next_random(struct trial *t) /* splitmix64 */
{
    uint64_t z = t->random += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

/* The bits of a value of a float type with `fraction` bits of fraction and `exponent` of exponent. */
static uint32_t random_bits(struct trial *t, unsigned fraction, unsigned exponent)
{
    uint32_t bits = next_random(t) >> (31 - fraction - exponent), sign = 1u << (fraction + exponent);
    uint32_t one = 1u << fraction, infinite = ((1u << exponent) - 1) << fraction,
             bias = infinite / 2 / one * one;
    uint32_t ordinary = (bits & (sign | (one - 1))) | (bias - next_random(t) % 8 * one); /* 2^-7 to 2 */
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
        return ordinary;
    case BN_CL_ORDINARY:
    case BN_CL_N_VALUES:
        break;
    }
    return ordinary;
}

static void fill(struct trial *t, void *host, enum kind kind, size_t n_bytes)
{
    uint16_t *half = host;
    uint32_t *word = host;
    for (size_t i = 0; kind == HALVES && i < n_bytes / sizeof *half; i++)
        half[i] = (uint16_t)random_bits(t, 10, 5);
    for (size_t i = 0; kind != HALVES && i < n_bytes / sizeof *word; i++)
        word[i] = kind == FLOATS ? random_bits(t, 23, 8) : next_random(t);
}

/* Memory of the host, filled at random. NULL after an error, which all calls that follow meet. */
static void *take_host(struct trial *t, enum kind kind, size_t n, size_t each)
{
    if (t->status != BN_OK) return NULL;
    struct buffer *b = &t->buffers[t->n_buffers];
    *b = (struct buffer){
        .host = bn_alloc_aligned(n * each + GUARD_BYTES, 1), .n_bytes = n * each, .kind = kind};
    if (b->host == NULL) {
        t->status = bn_nomem(t->err);
        return NULL;
    }
    t->n_buffers++;
    fill(t, b->host, kind, b->n_bytes);
    memset((uint8_t *)b->host + b->n_bytes, GUARD, GUARD_BYTES);
    return b->host;
}

static void add_arg(struct trial *t, size_t size)
{
    t->args[t->n_args] = (struct bn_cl_arg){size, &t->values[t->n_args]};
    t->n_args++;
}

/* The next argument: a buffer, NULL when it has no values. */
static void *take(struct trial *t, enum kind kind, size_t n, size_t each)
{
    void *host = NULL;
    t->values[t->n_args].mem = NULL;
    if (n > 0 && (host = take_host(t, kind, n, each)) != NULL) {
        struct buffer *b = &t->buffers[t->n_buffers - 1];
        t->status = bn_cl_alloc(t->q->device, &b->mem, b->n_bytes + GUARD_BYTES, "a test", t->err);
        t->values[t->n_args].mem = b->mem;
    }
    add_arg(t, sizeof(cl_mem));
    return t->status == BN_OK ? host : NULL;
}

static float *take_floats(struct trial *t, size_t n)
{
    return take(t, FLOATS, n, sizeof(float));
}

static uint16_t *take_halves(struct trial *t, size_t n)
{
    return take(t, HALVES, n, sizeof(uint16_t));
}

static void *take_words(struct trial *t, size_t n)
{
    return take(t, BYTES, n, sizeof(uint32_t));
}

static void number(struct trial *t, size_t u)
{
    t->values[t->n_args].u = (cl_uint)u;
    add_arg(t, sizeof(cl_uint));
}

static void real(struct trial *t, float f)
{
    t->values[t->n_args].f = f;
    add_arg(t, sizeof(cl_float));
}

/* Copies the inputs and starts the kernel. */
static void launch(struct trial *t, size_t global0, size_t global1, size_t local0, size_t local1)
{
    const size_t global[2] = {(global0 + local0 - 1) / local0 * local0,
                              (global1 + local1 - 1) / local1 * local1};
    const size_t local[2] = {local0, local1};
    bn_cl_begin(t->q);
    for (size_t i = 0; i < t->n_buffers; i++)
        if (t->buffers[i].mem != NULL)
            bn_cl_write(t->q, t->buffers[i].mem, 0, t->buffers[i].host, t->buffers[i].n_bytes + GUARD_BYTES);
    bn_cl_run(t->q, t->c->kernel, global, local, t->args, t->n_args,
              (struct bn_cl_work){BN_KERNEL_COUNT, 0, 0});
    t->status = bn_cl_finish(t->q, t->err);
}

/* A row of the batch for each group. */
static void launch_rows(struct trial *t, size_t n_rows)
{
    launch(t, n_rows * t->q->device->group_size, 1, t->q->device->group_size, 1);
}

/* ---- comparison ---- */

static uint32_t value_at(const void *at, enum kind kind, size_t i)
{
    const uint8_t *byte = (const uint8_t *)at + (kind == FLOATS ? 4 : kind == HALVES ? 2 : 1) * i;
    uint32_t word;
    if (kind == BYTES) return *byte;
    if (kind == HALVES) return (uint32_t)(byte[0] | byte[1] << 8);
    memcpy(&word, byte, sizeof word);
    return word;
}

static bool is_nan(uint32_t bits, enum kind kind)
{
    return kind == FLOATS ? (bits & 0x7FFFFFFFu) > 0x7F800000u : kind == HALVES && (bits & 0x7FFFu) > 0x7C00u;
}

static bn_status compare(struct trial *t, const struct buffer *b)
{
    const size_t each = b->kind == FLOATS ? 4 : b->kind == HALVES ? 2 : 1, n_bytes = b->n_bytes + GUARD_BYTES;
    uint8_t *got = bn_alloc(n_bytes, 1);
    if (got == NULL) return bn_nomem(t->err);
    bn_cl_read(t->q, got, b->mem, 0, n_bytes);
    bn_status status = bn_cl_finish(t->q, t->err);
    for (size_t i = 0; i < n_bytes / each && status == BN_OK && memcmp(got, b->host, n_bytes) != 0; i++) {
        uint32_t is = value_at(got, b->kind, i), want = value_at(b->host, b->kind, i);
        if (is == want || (is_nan(is, b->kind) && is_nan(want, b->kind))) continue;
        status = bn_hint(bn_fail_in(t->err, BN_ERR_INTEGRITY, t->q->device->info.name,
                                    "%s computes %s wrongly: value %zu is 0x%0*X, not 0x%0*X",
                                    t->q->device->info.id, t->c->operation, i, (int)(2 * each), (unsigned)is,
                                    (int)(2 * each), (unsigned)want),
                         t->err, "another version of its driver, or --device cpu");
    }
    bn_free(got);
    return status;
}

/* ---- prepare ---- */

static size_t up_to(size_t n, size_t of)
{
    return (n + of - 1) / of * of;
}

struct act {
    int8_t *high, *low;
    float *step, *scale;
    int32_t *sum, *total;
    size_t padded;
};

/* Row r of x as activations; zeros when they are not finite. */
static void quantize_row(const struct bn_cl_case *c, const struct act *a, size_t r, const float *x,
                         bool finite)
{
    int8_t *high = a->high + r * a->padded, *low = a->low + r * a->padded;
    float *step = a->step + r * (a->padded / BN_MIN_GROUP);
    int32_t *sum = a->sum + r * (a->padded / BN_MIN_GROUP);
    if (c->bits == 16) {
        a->scale[r] = 1.0f;
        K->quantize16(high, low, step, sum, x, c->width, c->group);
        if (finite) return;
        memset(high, 0, c->width);
        memset(low, 0, c->width);
        memset(step, 0, c->width / c->group * sizeof *step);
        memset(sum, 0, c->width / c->group * sizeof *sum);
        return;
    }
    K->quantize(high, &a->scale[r], &a->total[r], x, c->width);
    memset(high + c->width, 0, a->padded - c->width);
    if (!finite) {
        memset(high, 0, c->width);
        a->scale[r] = 1.0f;
        a->total[r] = 0;
    }
    if (c->group != 0) K->to_plane(low, sum, high, a->padded, c->group);
}

static struct act take_act(struct trial *t, size_t n, size_t width)
{
    struct act a = {.padded = up_to(width, BN_MAX_GROUP)};
    a.high = take(t, BYTES, n * a.padded, 1);
    a.low = take(t, BYTES, n * a.padded, 1);
    a.step = take_floats(t, n * (a.padded / BN_MIN_GROUP));
    a.sum = take_words(t, n * (a.padded / BN_MIN_GROUP));
    a.scale = take_floats(t, n);
    a.total = take_words(t, n);
    return a;
}

/* n rows of `width` values; steps, bits, group, block, activation. */
static void check_prepare(struct trial *t, const struct bn_cl_case *c)
{
    void (*const activate[])(float *, const float *, const float *, size_t) = {NULL, K->relu2_mul,
                                                                               K->silu_mul, K->gelu_mul};
    const size_t n = c->n, width = c->width, up_at = width + 2, ld = 2 * width + 4;
    const bool indexed = (c->steps & BN_CL_WITH_INDEX) != 0, adds = (c->steps & BN_CL_WITH_ADD) != 0;
    float *x = take_floats(t, (n + 1) * ld);
    number(t, ld);
    uint32_t *index = take_words(t, indexed ? n : 0);
    float *add = take_floats(t, adds ? (n + 1) * ld : 0);
    number(t, ld);
    float *add_norm = take_floats(t, (c->steps & BN_CL_WITH_ADD_NORM) != 0 ? width : 0);
    number(t, up_at);
    number(t, c->activation);
    real(t, INFINITY);
    float *norm = take_floats(t, (c->steps & BN_CL_WITH_NORM) != 0 ? width : 0);
    float *out = take_floats(t, norm != NULL ? n * ld : 0);
    number(t, ld);
    float *signs = take_floats(t, (c->steps & BN_CL_WITH_SIGNS) != 0 ? width : 0);
    number(t, c->block);
    float *rotated = take_floats(t, c->block != 0 ? n * ld : 0);
    number(t, ld);
    number(t, c->bits);
    struct act act = take_act(t, n, width);
    number(t, width);
    number(t, act.padded);
    number(t, c->group);
    real(t, EPS);
    int32_t *bad = take_words(t, 1);
    if (t->status != BN_OK) return;
    for (size_t i = 0; indexed && i < n; i++)
        index[i] = (uint32_t)(n - i);
    for (size_t i = 0; signs != NULL && i < width; i++)
        signs[i] = signbit(signs[i]) != 0 ? -1.0f : 1.0f;
    launch_rows(t, n);
    for (size_t r = 0; r < n; r++) {
        const size_t i = indexed ? n - r : r;
        float *row = x + i * ld, *last = row;
        bool finite = true;
        if (add_norm != NULL) K->rmsnorm(add + i * ld, add + i * ld, add_norm, width, EPS);
        if (adds) K->add(row, add + i * ld, width);
        if (c->activation != 0) activate[c->activation](row, row, row + up_at, width);
        if (norm != NULL) {
            last = out + r * ld;
            K->rmsnorm(last, row, norm, width, EPS);
        }
        for (size_t e = 0; e < width; e++)
            finite = finite && isfinite(last[e]);
        if (!finite) *bad = 1;
        if (c->block != 0) {
            memcpy(rotated + r * ld, last, width * sizeof *last);
            last = rotated + r * ld;
            K->rotate(last, signs, width, c->block, false);
        }
        if (c->bits != 0) quantize_row(c, &act, r, last, finite);
    }
}

/* ---- ternary ---- */

/* n rows of activations times `rows` rows of `width` weights; group, bits, slices; with experts three matrices, and two rows
 * for each row of activations. */
static void check_ternary(struct trial *t, const struct bn_cl_case *c)
{
    const bool gemm = c->kernel == BN_CL_ternary_gemm, routed = (c->steps & BN_CL_WITH_EXPERTS) != 0;
    const size_t n_experts = routed ? 3 : 1, shared = routed ? 2 : 1, n = c->n * shared, k = c->width,
                 y_at = 3;
    const size_t padded_rows = up_to(c->rows, BN_TILE_ROWS), ldy = c->rows + y_at + 2;
    const size_t all_rows = n_experts * padded_rows;
    float *y = take_floats(t, n * ldy);
    number(t, ldy);
    number(t, y_at);
    uint8_t *codes = take(t, BYTES, all_rows * k / 4, 1);
    uint16_t *scales = take_halves(t, c->group != 0 ? all_rows * (k / c->group) : 0);
    float *row_scale = take_floats(t, all_rows * 2);
    number(t, k);
    number(t, c->group);
    number(t, c->bits);
    struct act act = take_act(t, c->n, k);
    number(t, act.padded);
    uint32_t *expert = take_words(t, routed ? n : 0);
    if (gemm) t->n_args--;
    number(t, c->rows);
    number(t, gemm ? c->n : shared);
    float *x = take_host(t, FLOATS, k, sizeof *x), *made = take_host(t, FLOATS, padded_rows, sizeof *made);
    if (t->status != BN_OK) return;
    for (size_t j = 0; j < c->n; j++) {
        quantize_row(c, &act, j, x, true);
        fill(t, x, FLOATS, k * sizeof *x);
    }
    for (size_t j = 0; routed && j < n; j++)
        expert[j] %= 3;
    const size_t each = t->q->device->is_cpu ? 1 : BN_TILE_ROWS, s = t->q->device->is_cpu ? 1 : c->slices;
    launch(t, padded_rows / BN_TILE_ROWS * each, s * (gemm ? (n + s * TOKENS - 1) / (s * TOKENS) : n), each,
           s);
    for (size_t j = 0; j < n; j++) {
        size_t first = routed ? expert[j] * padded_rows : 0, a = j / shared,
               g = a * (act.padded / BN_MIN_GROUP);
        struct bn_ternary w = {.codes = codes + first * k / 4,
                               .scales = scales != NULL ? scales + first * (k / c->group) : NULL,
                               .scale = 1.0f,
                               .rows = c->rows,
                               .k = k,
                               .group = c->group != 0 ? c->group : BN_I2S_BLOCK,
                               .blocks = c->group != 0 ? BN_BLOCKS_Q2 : BN_BLOCKS_I2S};
        struct bn_act at = {.q = act.high + a * act.padded,
                            .total = act.total[a],
                            .scale = act.scale[a],
                            .high = c->bits == 16 ? act.high + a * act.padded : NULL,
                            .low = act.low + a * act.padded,
                            .step = act.step + g,
                            .sum = act.sum + g};
        K->ternary_gemv(made, &w, &at);
        for (size_t r = 0; r < c->rows; r++) {
            const float *of = row_scale + 2 * (first + r);
            float v = c->group == 0 ? made[r] * of[0] : made[r];
            y[j * ldy + y_at + r] = v * of[1];
        }
    }
}

/* ---- attention ---- */

/* The batch of n rows: two sequences of `rows` positions at most, the rows of each after each other. */
struct batch {
    struct place {
        uint64_t cache, state;
        uint32_t position, cache_rows, before, after;
    } * place;
    size_t sequence; /* values of a sequence in a cache */
};

static struct batch take_batch(struct trial *t, const struct bn_cl_case *c)
{
    struct batch b = {.place = take(t, BYTES, c->n, sizeof *b.place),
                      .sequence = up_to(c->rows, BN_KEY_TILE) * c->kv_heads * c->width * 2};
    for (uint32_t j = 0; b.place != NULL && j < c->n; j++)
        b.place[j] = (struct place){.cache = j < c->n / 2 ? 0 : b.sequence,
                                    .position = (c->rows + j - c->n) % c->rows,
                                    .cache_rows = (uint32_t)up_to(c->rows, BN_KEY_TILE)};
    return b;
}

/* Of layer 1. */
static size_t cell(const struct bn_cl_case *c, const struct place *at, size_t kv_head)
{
    return at->cache + (c->kv_heads + kv_head) * at->cache_rows * c->width;
}

static uint32_t first_seen(const struct bn_cl_case *c, const struct place *at)
{
    return c->window != 0 && at->position + 1 > c->window ? at->position + 1 - c->window : 0;
}

/* `block` of the `width` values of a head are rotated. */
static void check_rope(struct trial *t, const struct bn_cl_case *c)
{
    const size_t d = c->width, q_stride = d + 2, k_at = c->heads * q_stride, v_at = k_at + c->kv_heads * d;
    const size_t ld = v_at + c->kv_heads * d + 3, half = c->block / 2;
    const bool norms = (c->steps & BN_CL_WITH_NORM) != 0, neox = (c->steps & BN_CL_WITH_NEOX) != 0;
    const bool rotates = neox || (c->steps & BN_CL_WITH_ROPE_NORM) != 0;
    float *qkv = take_floats(t, c->n * ld);
    number(t, ld);
    number(t, q_stride);
    number(t, k_at);
    number(t, v_at);
    struct batch b = take_batch(t, c);
    float *cosines = take_floats(t, c->rows * half), *sines = take_floats(t, c->rows * half);
    uint16_t *keys = take_halves(t, 2 * b.sequence), *values = take_halves(t, 2 * b.sequence);
    number(t, 1);
    number(t, c->heads);
    number(t, c->kv_heads);
    number(t, d);
    number(t, c->block);
    number(t, !rotates ? 0 : neox ? 1 : 2);
    float *q_norm = take_floats(t, norms ? d : 0), *k_norm = take_floats(t, norms ? d : 0);
    real(t, EPS);
    uint16_t *key = take_host(t, HALVES, d, sizeof *key);
    launch_rows(t, c->n * (c->heads + c->kv_heads));
    if (t->status != BN_OK) return;
    for (size_t j = 0; j < c->n; j++)
        for (size_t i = 0; i < c->heads + c->kv_heads; i++) {
            const struct place *at = &b.place[j];
            const size_t h = i < c->heads ? i : i - c->heads, turn = at->position * half;
            float *x = qkv + j * ld + (i < c->heads ? h * q_stride : k_at + h * d);
            if (norms) K->rmsnorm(x, x, i < c->heads ? q_norm : k_norm, d, EPS);
            if (rotates) (neox ? K->rope_neox : K->rope_norm)(x, cosines + turn, sines + turn, c->block);
            if (i < c->heads) continue;
            K->f32_to_f16(key, x, d);
            for (size_t e = 0; e < d; e++)
                keys[cell(c, at, h) + bn_in_keys(at->position, e, d)] = key[e];
            K->f32_to_f16(values + cell(c, at, h) + at->position * d, qkv + j * ld + v_at + h * d, d);
        }
}

/* Scores of the queries of the tokens from the second one on, or of the only one. */
struct queries {
    size_t first, n, ld;
};

static struct queries queries_of(const struct bn_cl_case *c)
{
    size_t first = c->n > 1 ? 1 : 0;
    return (struct queries){first, (c->n - first) * c->heads, c->rows + 3};
}

static void check_scores(struct trial *t, const struct bn_cl_case *c)
{
    const struct queries all = queries_of(c);
    const size_t d = c->width, q_stride = d + 2, ld = c->heads * q_stride;
    const float factor = 0.3f;
    float *scores = take_floats(t, all.n * all.ld);
    number(t, all.ld);
    float *q = take_floats(t, c->n * ld);
    number(t, ld);
    number(t, q_stride);
    struct batch b = take_batch(t, c);
    uint16_t *keys = take_halves(t, 2 * b.sequence);
    number(t, 1);
    number(t, c->heads);
    number(t, c->kv_heads);
    number(t, d);
    real(t, factor);
    number(t, c->window);
    number(t, all.first);
    float *made = take_host(t, FLOATS, c->rows, sizeof *made);
    launch(t, c->rows, all.n, 16, 1);
    for (size_t i = 0; i < all.n && t->status == BN_OK; i++) {
        const size_t j = all.first + i / c->heads, h = i % c->heads, kv = h / (c->heads / c->kv_heads);
        const struct place *at = &b.place[j];
        const uint32_t from = first_seen(c, at);
        const struct bn_keys k = {keys + cell(c, at, kv), at->position + 1, d};
        K->attn_scores(made, c->rows, q + j * ld + h * q_stride, d, 1, &k, factor);
        memcpy(scores + i * all.ld + from, made + from, (k.n_pos - from) * sizeof *made);
    }
}

static void check_softmax(struct trial *t, const struct bn_cl_case *c)
{
    const struct queries all = queries_of(c);
    float *scores = take_floats(t, all.n * all.ld);
    number(t, all.ld);
    struct batch b = take_batch(t, c);
    number(t, c->heads);
    number(t, c->window);
    number(t, all.first);
    launch_rows(t, all.n);
    for (size_t i = 0; i < all.n && t->status == BN_OK; i++) {
        const struct place *at = &b.place[all.first + i / c->heads];
        K->softmax(scores + i * all.ld + first_seen(c, at), at->position + 1 - first_seen(c, at));
    }
}

static void check_values(struct trial *t, const struct bn_cl_case *c)
{
    const struct queries all = queries_of(c);
    const size_t d = c->width, ld = c->heads * d + 2, stride = 2 * d;
    float *att = take_floats(t, c->n * ld);
    number(t, ld);
    float *scores = take_floats(t, all.n * all.ld);
    number(t, all.ld);
    struct batch b = take_batch(t, c);
    uint16_t *values = take_halves(t, 2 * b.sequence);
    number(t, 1);
    number(t, c->heads);
    number(t, c->kv_heads);
    number(t, d);
    number(t, c->window);
    number(t, all.first);
    float *gate = take_floats(t, (c->steps & BN_CL_WITH_GATE) != 0 ? c->n * c->heads * stride : 0);
    number(t, c->heads * stride);
    number(t, stride);
    launch(t, d, all.n, 16, 1);
    for (size_t i = 0; i < all.n && t->status == BN_OK; i++) {
        const size_t j = all.first + i / c->heads, h = i % c->heads, kv = h / (c->heads / c->kv_heads);
        const struct place *at = &b.place[j];
        const uint32_t from = first_seen(c, at);
        const struct bn_kv v = {values + cell(c, at, kv) + from * d, d, at->position + 1 - from, d};
        float *y = att + j * ld + h * d;
        memset(y, 0, d * sizeof *y);
        K->attn_values(y, d, scores + i * all.ld + from, all.ld, 1, &v);
        if (gate != NULL) K->sigmoid_mul(y, y, gate + (j * c->heads + h) * stride + d, d);
    }
}

/* ---- float matrices ---- */

static void check_float(struct trial *t, const struct bn_cl_case *c)
{
    const size_t rows = c->rows, k = c->width, ldy = rows + 3, ldx = k + 2;
    const bool f16 = c->kernel == BN_CL_f16_gemm;
    float *y = take_floats(t, c->n * ldy);
    number(t, ldy);
    void *w = f16 ? (void *)take_halves(t, rows * k) : (void *)take_floats(t, rows * k);
    number(t, rows);
    number(t, k);
    float *x = take_floats(t, c->n * ldx);
    number(t, ldx);
    number(t, c->n);
    launch(t, 16, rows, 16, 4);
    if (t->status != BN_OK) return;
    if (f16)
        K->f16_gemm(y, ldy, w, rows, k, x, ldx, c->n);
    else
        K->f32_gemm(y, ldy, w, rows, k, x, ldx, c->n);
}

static void check_finite(struct trial *t, const struct bn_cl_case *c)
{
    float *y = take_floats(t, c->n * (c->width + 1));
    number(t, c->width + 1);
    number(t, c->width);
    int32_t *bad = take_words(t, 1);
    launch_rows(t, c->n);
    for (size_t i = 0; i < c->n * c->width && t->status == BN_OK; i++)
        if (!isfinite(y[i / c->width * (c->width + 1) + i % c->width])) *bad = 1;
}

/* ---- cases ---- */

bn_status bn_cl_check_case(struct bn_cl_queue *q, const struct bn_cl_case *c, bn_error *err)
{
    static void (*const CHECK[BN_CL_KERNEL_COUNT])(struct trial *, const struct bn_cl_case *) = {
        [BN_CL_prepare] = check_prepare,      [BN_CL_ternary_gemv] = check_ternary,
        [BN_CL_ternary_gemm] = check_ternary, [BN_CL_rope_store] = check_rope,
        [BN_CL_attn_scores] = check_scores,   [BN_CL_attn_softmax] = check_softmax,
        [BN_CL_attn_values] = check_values,   [BN_CL_f16_gemm] = check_float,
        [BN_CL_f32_gemm] = check_float,       [BN_CL_finite] = check_finite};
    struct trial t = {.c = c, .q = q, .random = c->seed, .err = err};
    CHECK[c->kernel](&t, c);
    for (size_t i = 0; i < t.n_buffers; i++) {
        struct buffer *b = &t.buffers[i];
        if (t.status == BN_OK && b->mem != NULL) t.status = compare(&t, b);
        bn_cl_free(q->device, b->mem, b->n_bytes + GUARD_BYTES);
        bn_free(b->host);
    }
    return t.status;
}

/* One case for each step that has arithmetic of its own, with values that show how it rounds. */
static const struct bn_cl_case CASES[] = {
    {"rmsnorm", BN_CL_prepare, .n = 2, .width = 200, .steps = BN_CL_WITH_NORM},
    {"the residual sum", BN_CL_prepare, .n = 2, .width = 72, .steps = BN_CL_WITH_ADD | BN_CL_WITH_ADD_NORM},
    {"relu2_mul", BN_CL_prepare, BN_CL_ANY, .n = 1, .width = 256, .activation = 1},
    {"silu_mul", BN_CL_prepare, .n = 1, .width = 512, .activation = 2},
    {"gelu_mul", BN_CL_prepare, .n = 1, .width = 512, .activation = 3},
    {"rotate", BN_CL_prepare, .n = 1, .width = 128, .block = 32, .steps = BN_CL_WITH_SIGNS},
    {"quantize", BN_CL_prepare, .n = 2, .width = 320, .bits = 8},
    {"to_plane", BN_CL_prepare, .n = 1, .width = 256, .bits = 8, .group = 256},
    {"quantize16", BN_CL_prepare, .n = 2, .width = 512, .bits = 16, .group = 128},
    {"ternary_gemv", BN_CL_ternary_gemv, .n = 1, .width = 384, .rows = 40, .bits = 8, .slices = 4},
    {"ternary_gemv of groups", BN_CL_ternary_gemv, .n = 1, .width = 384, .rows = 32, .bits = 16, .group = 128,
     .slices = 2},
    {"ternary_gemm", BN_CL_ternary_gemm, .n = 5, .width = 256, .rows = 32, .bits = 8, .slices = 1},
    {"ternary_gemm of groups", BN_CL_ternary_gemm, .n = 3, .width = 256, .rows = 16, .bits = 16, .group = 64,
     .slices = 1},
    {"rope_neox", BN_CL_rope_store, .n = 2, .width = 32, .rows = 20, .block = 32, .heads = 2, .kv_heads = 1,
     .steps = BN_CL_WITH_NEOX},
    {"rope_norm", BN_CL_rope_store, .n = 1, .width = 32, .rows = 20, .block = 16, .heads = 1, .kv_heads = 1,
     .steps = BN_CL_WITH_ROPE_NORM},
    {"f32_to_f16", BN_CL_rope_store, BN_CL_SUBNORMAL, .n = 1, .width = 32, .rows = 4, .block = 2, .heads = 1,
     .kv_heads = 1},
    {"attn_scores", BN_CL_attn_scores, .n = 2, .width = 40, .rows = 37, .heads = 4, .kv_heads = 2,
     .window = 30},
    {"softmax", BN_CL_attn_softmax, .n = 2, .rows = 67, .heads = 2, .kv_heads = 1, .window = 60},
    {"attn_values", BN_CL_attn_values, .n = 2, .width = 40, .rows = 37, .heads = 4, .kv_heads = 2},
    {"sigmoid_mul", BN_CL_attn_values, .n = 1, .width = 32, .rows = 9, .heads = 2, .kv_heads = 1,
     .steps = BN_CL_WITH_GATE},
    {"f16_gemm", BN_CL_f16_gemm, .n = 2, .width = 200, .rows = 6},
    {"f32_gemm", BN_CL_f32_gemm, .n = 1, .width = 72, .rows = 5},
    {"the search for NaN", BN_CL_finite, BN_CL_WILD, .n = 2, .width = 300},
};

bn_status bn_cl_check(struct bn_cl_device *device, bn_error *err)
{
    struct bn_cl_queue q;
    BN_TRY(bn_cl_queue_open(&q, device, err));
    bn_status status = BN_OK;
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES) && status == BN_OK; i++)
        status = bn_cl_check_case(&q, &CASES[i], err);
    bn_cl_queue_close(&q);
    return status;
}
