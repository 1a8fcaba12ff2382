/* SPDX-License-Identifier: MIT
 *
 * What each kernel of kernels/opencl gets and gives: its arguments in their order, and the same by the reference in plain C
 * and the functions of engine/infer. Strides are larger than rows, so that a kernel that ignores one is seen.
 */
#include <math.h>
#include <string.h>

#include "infer/pass.h"
#include "model/weights.h"
#include "opencl/device.h"
#include "opencl/trial.h"

#define EPS 1e-5f

static const struct bn_kernels *const K = &bn_kernels_ref;

static bool with(const struct bn_cl_trial *t, uint32_t step)
{
    return (t->c->steps & step) != 0;
}

/* ---- between matrices ---- */

struct act {
    int8_t *high, *low;
    float *step, *scale;
    int32_t *sum, *total;
    size_t padded;
};

static struct act take_act(struct bn_cl_trial *t, size_t n, size_t width)
{
    struct act a = {.padded = bn_cl_round_up(width, BN_MAX_GROUP)};
    size_t n_groups = n * (a.padded / BN_MIN_GROUP);
    TAKE(t, I8(a.high, n * a.padded), I8(a.low, n * a.padded), F32(a.step, n_groups), U32(a.sum, n_groups),
         F32(a.scale, n), U32(a.total, n));
    return a;
}

/* Row r of x as activations; zeros when they are not finite. */
static void quantize_row(const struct bn_cl_case *c, const struct act *a, size_t r, const float *x,
                         bool finite)
{
    const size_t group = r * (a->padded / BN_MIN_GROUP), n_groups = c->group != 0 ? c->width / c->group : 0;
    int8_t *high = a->high + r * a->padded, *low = a->low + r * a->padded;
    int32_t none = 0, *total = finite && c->bits == 8 ? &a->total[r] : &none;
    a->scale[r] = 1.0f;
    if (!finite) {
        memset(high, 0, c->width);
        memset(low, 0, c->bits == 16 ? c->width : 0);
        memset(a->step + group, 0, c->bits == 16 ? n_groups * sizeof *a->step : 0);
        memset(a->sum + group, 0, c->bits == 16 ? n_groups * sizeof *a->sum : 0);
        if (c->bits == 8) a->total[r] = 0;
    } else if (c->bits == 16) {
        K->quantize16(high, low, a->step + group, a->sum + group, x, c->width, c->group);
    } else {
        K->quantize(high, &a->scale[r], total, x, c->width);
    }
    if (c->bits == 16) return;
    memset(high + c->width, 0, a->padded - c->width);
    if (c->group != 0) K->to_plane(low, a->sum + group, high, a->padded, c->group);
}

/* The two factors of an activation as experts limit them. */
static void activate(const struct bn_cl_case *c, float *x, const float *up, float limit)
{
    void (*const slots[])(float *, const float *, const float *, size_t) = {NULL, K->relu2_mul, K->silu_mul,
                                                                            K->gelu_mul};
    for (size_t i = 0; i < c->width; i++) {
        float gate = x[i] > limit ? limit : x[i], other = up[i] > limit ? limit : up[i];
        other = other < -limit ? -limit : other;
        slots[c->activation](&x[i], &gate, &other, 1);
    }
}

/* n rows of `width` values; steps, bits, group, block, activation. */
static void check_prepare(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const bool indexed = with(t, BN_CL_WITH_INDEX), adds = with(t, BN_CL_WITH_ADD);
    const float limit = with(t, BN_CL_WITH_LIMIT) ? 0.25f : INFINITY;
    const size_t n = c->n, width = c->width, up_at = width + 2, ld = 2 * width + 4;
    float *x, *add, *add_norm, *norm, *out, *signs, *rotated;
    uint32_t *index, *bad;
    TAKE(t, F32(x, (n + 1) * ld), N(ld), U32(index, indexed ? n : 0), F32(add, adds ? (n + 1) * ld : 0),
         N(ld), F32(add_norm, with(t, BN_CL_WITH_ADD_NORM) ? width : 0), N(up_at), N(c->activation), R(limit),
         F32(norm, with(t, BN_CL_WITH_NORM) ? width : 0), F32(out, with(t, BN_CL_WITH_NORM) ? n * ld : 0),
         N(ld), F32(signs, with(t, BN_CL_WITH_SIGNS) ? width : 0), N(c->block),
         F32(rotated, c->block != 0 ? n * ld : 0), N(ld), N(c->bits));
    struct act act = take_act(t, n, width);
    TAKE(t, N(width), N(act.padded), N(c->group), R(EPS), U32(bad, 1));
    for (size_t i = 0; index != NULL && i < n; i++)
        index[i] = (uint32_t)(n - i);
    for (size_t i = 0; signs != NULL && i < width; i++)
        signs[i] = signbit(signs[i]) != 0 ? -1.0f : 1.0f;
    if (!bn_cl_launch_rows(t, n)) return;
    for (size_t r = 0; r < n; r++) {
        const size_t i = indexed ? n - r : r;
        float *row = x + i * ld, *last = norm != NULL ? out + r * ld : row;
        if (add_norm != NULL) K->rmsnorm(add + i * ld, add + i * ld, add_norm, width, EPS);
        if (adds) K->add(row, add + i * ld, width);
        if (c->activation != 0) activate(c, row, row + up_at, limit);
        if (norm != NULL) K->rmsnorm(last, row, norm, width, EPS);
        bool finite = bn_all_finite(last, width);
        if (!finite) *bad = 1;
        if (c->block != 0) {
            last = memcpy(rotated + r * ld, last, width * sizeof *last);
            K->rotate(last, signs, width, c->block, false);
        }
        if (c->bits != 0) quantize_row(c, &act, r, last, finite);
    }
}

static void check_finite(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const size_t ld = c->width + 1;
    float *y;
    int32_t *bad;
    TAKE(t, F32(y, c->n * ld), N(ld), N(c->width), U32(bad, 1));
    if (!bn_cl_launch_rows(t, c->n)) return;
    for (size_t r = 0; r < c->n; r++)
        if (!bn_all_finite(y + r * ld, c->width)) *bad = 1;
}

/* ---- matrices ---- */

/* n rows of activations times `rows` rows of `width` weights; group, bits, slices; with experts three matrices, and two rows
 * for each row of activations. */
static void check_ternary(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const bool gemm = c->kernel == BN_CL_ternary_gemm, routed = with(t, BN_CL_WITH_EXPERTS);
    const size_t shared = routed ? 2 : 1, n = c->n * shared, k = c->width, y_at = 3, ldy = c->rows + 5;
    const size_t padded_rows = bn_cl_round_up(c->rows, BN_TILE_ROWS),
                 all_rows = padded_rows * (routed ? 3 : 1);
    float *y, *row_scale, *x, *made;
    uint8_t *codes;
    uint16_t *scales;
    uint32_t *expert = NULL;
    TAKE(t, F32(y, n * ldy), N(ldy), N(y_at), I8(codes, all_rows * k / 4),
         F16(scales, c->group != 0 ? all_rows * (k / c->group) : 0), F32(row_scale, 2 * all_rows), N(k),
         N(c->group), N(c->bits));
    struct act act = take_act(t, c->n, k);
    TAKE(t, N(act.padded), OWN(x, k), OWN(made, padded_rows));
    if (!gemm) TAKE(t, U32(expert, routed ? n : 0));
    TAKE(t, N(c->rows), N(gemm ? n : shared));
    if (codes != NULL && c->values == BN_CL_LARGEST) memset(codes, 0xFF, all_rows * k / 4);
    for (size_t j = 0; t->status == BN_OK && j < c->n; j++) {
        for (size_t i = 0; c->values == BN_CL_LARGEST && i < k; i++)
            x[i] = fabsf(x[i]); /* the largest sums */
        quantize_row(c, &act, j, x, bn_all_finite(x, k));
        bn_cl_fill(t, x, BN_CL_FLOATS, k);
    }
    for (size_t j = 0; expert != NULL && j < n; j++)
        expert[j] %= 3;
    const size_t each = t->q->device->is_cpu ? 1 : BN_TILE_ROWS, s = t->q->device->is_cpu ? 1 : c->slices;
    if (!bn_cl_launch(t, padded_rows / BN_TILE_ROWS * each,
                      gemm ? (n + BN_CL_TOKENS - 1) / BN_CL_TOKENS : s * n, each, s))
        return;
    for (size_t j = 0; j < n; j++) {
        const size_t first = expert != NULL ? expert[j] * padded_rows : 0, a = j / shared;
        const size_t at = a * act.padded, group = at / BN_MIN_GROUP;
        const struct bn_ternary w = {.codes = codes + first * k / 4,
                                     .scales = scales != NULL ? scales + first * (k / c->group) : NULL,
                                     .scale = 1.0f,
                                     .rows = c->rows,
                                     .k = k,
                                     .group = c->group != 0 ? c->group : BN_I2S_BLOCK,
                                     .blocks = c->group != 0 ? BN_BLOCKS_Q2 : BN_BLOCKS_I2S};
        const struct bn_act v = {
            act.high + at, act.total[a],     act.scale[a],   c->bits == 16 ? act.high + at : NULL,
            act.low + at,  act.step + group, act.sum + group};
        K->ternary_gemv(made, &w, &v);
        for (size_t r = 0; r < c->rows; r++) {
            const float *scale = row_scale + 2 * (first + r);
            float scaled = c->group == 0 ? made[r] * scale[0] : made[r];
            y[j * ldy + y_at + r] = scaled * scale[1];
        }
    }
}

static void check_float(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const size_t rows = c->rows, k = c->width, ldy = rows + 3, ldx = k + 2, f16 = c->kernel == BN_CL_f16_gemm;
    float *y, *x, *w32;
    uint16_t *w16;
    TAKE(t, F32(y, c->n * ldy), N(ldy));
    if (f16)
        TAKE(t, F16(w16, rows * k));
    else
        TAKE(t, F32(w32, rows * k));
    TAKE(t, N(rows), N(k), F32(x, c->n * ldx), N(ldx), N(c->n));
    if (!bn_cl_launch(t, 16, rows, 16, 4)) return;
    if (f16)
        K->f16_gemm(y, ldy, w16, rows, k, x, ldx, c->n);
    else
        K->f32_gemm(y, ldy, w32, rows, k, x, ldx, c->n);
}

/* ---- attention ---- */

/* The batch of n rows is of two sequences, of `rows` positions at most; each has cache and state values. */
static struct bn_cl_row *take_batch(struct bn_cl_trial *t, const struct bn_cl_case *c, size_t cache,
                                    size_t state)
{
    const uint32_t half = c->n / 2;
    struct bn_cl_row *rows;
    TAKE(t, I8(rows, c->n * sizeof *rows));
    for (uint32_t j = 0; rows != NULL && j < c->n; j++)
        rows[j] = (struct bn_cl_row){.cache = j < half ? 0 : cache,
                                     .state = j < half ? state : 0,
                                     .position = c->rows >= c->n ? c->rows - c->n + j : 0,
                                     .cache_rows = (cl_uint)bn_cl_round_up(c->rows, BN_KEY_TILE),
                                     .before = j < half ? j : j - half,
                                     .after = (j < half ? half : c->n) - 1 - j};
    return rows;
}

/* Values of a sequence in a cache of two layers; where a head of the second one begins. */
static size_t cache_of(const struct bn_cl_case *c)
{
    return bn_cl_round_up(c->rows, BN_KEY_TILE) * c->kv_heads * c->width * 2;
}

static size_t cell(const struct bn_cl_case *c, const struct bn_cl_row *at, size_t kv_head)
{
    return at->cache + (c->kv_heads + kv_head) * at->cache_rows * c->width;
}

/* `block` of the `width` values of a head are rotated. */
static void check_rope(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const size_t d = c->width, q_stride = d + 2, k_at = c->heads * q_stride, v_at = k_at + c->kv_heads * d;
    const size_t ld = v_at + c->kv_heads * d + 3, half = c->block / 2,
                 n_norm = with(t, BN_CL_WITH_NORM) ? d : 0;
    const bool neox = with(t, BN_CL_WITH_NEOX), rotates = neox || with(t, BN_CL_WITH_ROPE_NORM);
    float *qkv, *cosines, *sines, *q_norm, *k_norm;
    uint16_t *keys, *values, key[256];
    TAKE(t, F32(qkv, c->n * ld), N(ld), N(q_stride), N(k_at), N(v_at));
    const struct bn_cl_row *rows = take_batch(t, c, cache_of(c), 0);
    TAKE(t, F32(cosines, c->rows * half), F32(sines, c->rows * half), F16(keys, 2 * cache_of(c)),
         F16(values, 2 * cache_of(c)), N(1), N(c->heads), N(c->kv_heads), N(d), N(c->block),
         N(!rotates ? 0
           : neox   ? 1
                    : 2),
         F32(q_norm, n_norm), F32(k_norm, n_norm), R(EPS));
    if (!bn_cl_launch_rows(t, c->n * (c->heads + c->kv_heads))) return;
    for (size_t i = 0; i < c->n * (c->heads + c->kv_heads); i++) {
        const size_t j = i / (c->heads + c->kv_heads), head = i % (c->heads + c->kv_heads);
        const size_t h = head < c->heads ? head : head - c->heads, turn = rows[j].position * half;
        float *x = qkv + j * ld + (head < c->heads ? h * q_stride : k_at + h * d);
        if (n_norm != 0) K->rmsnorm(x, x, head < c->heads ? q_norm : k_norm, d, EPS);
        if (rotates) (neox ? K->rope_neox : K->rope_norm)(x, cosines + turn, sines + turn, c->block);
        if (head < c->heads) continue;
        K->f32_to_f16(key, x, d);
        for (size_t e = 0; e < d; e++)
            keys[cell(c, &rows[j], h) + bn_in_keys(rows[j].position, e, d)] = key[e];
        K->f32_to_f16(values + cell(c, &rows[j], h) + rows[j].position * d, qkv + j * ld + v_at + h * d, d);
    }
}

/* The queries of the tokens from the second one on, or of the only one: rows of scores, ld apart. */
static void check_attention(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const bool makes_scores = c->kernel == BN_CL_attn_scores, makes_values = c->kernel == BN_CL_attn_values;
    const size_t first = c->n > 1 ? 1 : 0, n = (c->n - first) * c->heads, d = c->width, ld = c->rows + 3;
    const size_t stride = 2 * d + 1, ld_q = c->heads * stride, ld_att = c->heads * d + 2;
    float *att, *scores, *q, *gate = NULL, *made;
    uint16_t *cache = NULL;
    if (makes_values) TAKE(t, F32(att, c->n * ld_att), N(ld_att));
    TAKE(t, F32(scores, n * ld), N(ld));
    if (makes_scores) TAKE(t, F32(q, c->n * ld_q), N(ld_q), N(stride));
    const struct bn_cl_row *rows = take_batch(t, c, cache_of(c), 0);
    if (makes_scores || makes_values) TAKE(t, F16(cache, 2 * cache_of(c)), N(1));
    TAKE(t, N(c->heads));
    if (makes_scores || makes_values) TAKE(t, N(c->kv_heads), N(d));
    if (makes_scores) TAKE(t, R(0.3f));
    TAKE(t, N(c->window), N(first), OWN(made, c->rows));
    if (makes_values) TAKE(t, F32(gate, with(t, BN_CL_WITH_GATE) ? c->n * ld_q : 0), N(ld_q), N(stride));
    if (!(cache == NULL ? bn_cl_launch_rows(t, n) : bn_cl_launch(t, makes_scores ? c->rows : d, n, 16, 1)))
        return;
    for (size_t i = 0; i < n; i++) {
        const size_t j = first + i / c->heads, h = i % c->heads, to = rows[j].position + 1;
        const size_t from = c->window != 0 && to > c->window ? to - c->window : 0;
        float *seen = scores + i * ld + from;
        const uint16_t *at = cache == NULL ? NULL : cache + cell(c, &rows[j], h / (c->heads / c->kv_heads));
        if (makes_scores) {
            const struct bn_keys k = {at, to, d};
            K->attn_scores(made, c->rows, q + j * ld_q + h * stride, d, 1, &k, 0.3f);
            memcpy(seen, made + from, (to - from) * sizeof *made);
        } else if (makes_values) {
            const struct bn_kv v = {at + from * d, d, to - from, d};
            float *y = memset(att + j * ld_att + h * d, 0, d * sizeof *y);
            K->attn_values(y, d, seen, ld, 1, &v);
            if (gate != NULL) K->sigmoid_mul(y, y, gate + j * ld_q + h * stride + d, d);
        } else {
            K->softmax(seen, to - from);
        }
    }
}

/* ---- recurrent layers: heads of `width` values, kv_heads of q and of k ---- */

#define STATE_AT 5u /* in the state of a sequence */

static void check_gates(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    float *gates, *a, *dt;
    TAKE(t, F32(gates, c->n * 2 * c->heads), N(c->n), N(c->heads), F32(a, c->heads), F32(dt, c->heads));
    if (!bn_cl_launch(t, c->n * c->heads, 1, 16, 1)) return;
    for (size_t i = 0; i < c->n * c->heads; i++) {
        const size_t h = i % c->heads;
        float *decay = gates + i / c->heads * 2 * c->heads + h, *beta = decay + c->heads, one = 1.0f;
        float x = *decay + dt[h], e = -fabsf(x);
        K->exp(&e, &e, 1);
        x = a[h] * (float)((double)(x > 0.0f ? x : 0.0f) + bn_log_1_plus((double)e));
        K->exp(decay, &x, 1);
        K->sigmoid_mul(beta, &one, beta, 1);
    }
}

/* convolve and keep_rows: `block` taps. */
static void check_convolution(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const bool keeps = c->kernel == BN_CL_keep_rows;
    const size_t width = c->width, taps = c->block, ld = width + 1, n_state = STATE_AT + (taps - 1) * width;
    float *conv, *mix, *weights, *states;
    if (keeps)
        TAKE(t, F32(states, 2 * n_state), F32(mix, c->n * ld), N(ld));
    else
        TAKE(t, F32(conv, c->n * ld), N(ld), F32(mix, c->n * ld), N(ld), F32(weights, taps * width));
    const struct bn_cl_row *rows = take_batch(t, c, 0, n_state);
    if (!keeps) TAKE(t, F32(states, 2 * n_state));
    TAKE(t, N(STATE_AT), N(taps), N(width));
    if (!bn_cl_launch(t, width, c->n, 16, 1)) return;
    for (size_t j = 0; j < c->n; j++) {
        float *state = states + rows[j].state + STATE_AT;
        const float *inputs[2 * BN_MAX_TAPS];
        for (size_t i = 0; i <= taps;
             i++) { /* the one after those of this row would be the last of the next */
            size_t at = rows[j].before + i;
            inputs[i] = at + 1 < taps ? state + at * width : mix + (j + i + 1 - taps) * ld;
        }
        if (!keeps) K->conv_silu(conv + j * ld, weights, width, inputs, taps, width);
        for (size_t i = 0; keeps && rows[j].after == 0 && i + 1 < taps; i++)
            memcpy(state + i * width, inputs[i + 1], width * sizeof *state);
    }
}

static size_t place_of(const struct bn_cl_trial *t, size_t head)
{
    const size_t n_keys = t->c->kv_heads, each = t->c->heads / n_keys;
    return with(t, BN_CL_WITH_GROUPS) ? head % n_keys * each + head / n_keys : head;
}

static void check_heads(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const bool gates = c->kernel == BN_CL_gate_heads;
    const size_t d = c->width, n_heads = gates ? c->heads : 2 * c->kv_heads, ld = n_heads * d + 3;
    float *x, *z, *norm;
    TAKE(t, F32(x, c->n * ld), N(ld));
    if (gates)
        TAKE(t, F32(z, c->n * ld), N(ld), N(2), F32(norm, d), N(d), N(c->heads), N(c->kv_heads),
             N(with(t, BN_CL_WITH_GROUPS)), R(EPS));
    else
        TAKE(t, N(c->kv_heads), N(d), R(EPS), R(0.3f));
    if (!bn_cl_launch_rows(t, c->n * n_heads)) return;
    for (size_t i = 0; i < c->n * n_heads; i++) {
        const size_t h = i % n_heads;
        float *row = x + i / n_heads * ld + (gates ? place_of(t, h) : h) * d;
        if (!gates) bn_normalise(row, d, EPS, h < c->kv_heads ? 0.3f : 1.0f);
        if (gates) K->rmsnorm(row, row, norm, d, EPS);
        if (gates) K->silu_mul(row, z + i / n_heads * ld + 2 + h * d, row, d);
    }
}

static void check_delta(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const size_t d = c->width, n_keys = c->kv_heads, inner = c->heads * d, ld = 2 * n_keys * d + inner + 1;
    const size_t n_state = STATE_AT + inner * d, ld_att = inner + 2;
    float *states, *conv, *gates, *att;
    TAKE(t, F32(states, 2 * n_state), N(STATE_AT));
    const struct bn_cl_row *rows = take_batch(t, c, 0, n_state);
    TAKE(t, F32(conv, c->n * ld), N(ld), F32(gates, c->n * 2 * c->heads), F32(att, c->n * ld_att), N(ld_att),
         N(n_keys), N(c->heads), N(d), N(with(t, BN_CL_WITH_GROUPS)));
    if (!bn_cl_launch(t, inner, c->n, 16, 1)) return;
    for (size_t i = 0; i < c->n * c->heads; i++) {
        const size_t j = i / c->heads, h = i % c->heads;
        const float *in = conv + j * ld, *gate = gates + j * 2 * c->heads + h;
        const struct bn_delta w = {states + rows[j].state + STATE_AT + h * d * d,
                                   d,
                                   d,
                                   d,
                                   in + h % n_keys * d,
                                   in + (n_keys + h % n_keys) * d,
                                   in + (2 * n_keys + h) * d,
                                   att + j * ld_att + place_of(t, h) * d,
                                   0,
                                   0,
                                   0,
                                   gate,
                                   gate + c->heads,
                                   0};
        K->delta(&w, 1);
    }
}

/* ---- experts: the best `heads` of `rows` ---- */

static void check_choice(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const struct bn_experts experts = {c->rows, c->heads, INFINITY};
    float *router, *weights;
    uint32_t *chosen;
    TAKE(t, F32(router, c->n * c->rows), N(c->rows), N(c->heads), U32(chosen, c->n * c->heads),
         F32(weights, c->n * c->heads));
    for (size_t i = 0; router != NULL && c->values == BN_CL_ORDINARY && i < c->n * c->rows; i++)
        router[i] = rintf(router[i]); /* several are equal */
    if (!bn_cl_launch_rows(t, c->n)) return;
    for (size_t j = 0; j < c->n; j++) {
        K->softmax(router + j * c->rows, c->rows);
        bn_choose_experts(&experts, router + j * c->rows, chosen + j * c->heads, weights + j * c->heads);
    }
}

static void check_sum(struct bn_cl_trial *t, const struct bn_cl_case *c)
{
    const size_t ldy = c->width + 1, ld = c->width + 3;
    float *y, *parts, *weights;
    TAKE(t, F32(y, c->n * ldy), N(ldy), F32(parts, c->n * c->heads * ld), N(ld),
         F32(weights, c->n * c->heads), N(c->heads), N(c->width));
    if (!bn_cl_launch(t, c->width, c->n, 16, 1)) return;
    for (size_t i = 0; i < c->n * c->heads * c->width; i++) {
        const size_t pair = i / c->width, e = i % c->width;
        float *to = &y[pair / c->heads * ldy + e], part = weights[pair] * parts[pair * ld + e];
        *to = (pair % c->heads == 0 ? 0.0f : *to) + part;
    }
}

void (*const bn_cl_checks[BN_CL_KERNEL_COUNT])(struct bn_cl_trial *, const struct bn_cl_case *) = {
    [BN_CL_prepare] = check_prepare,       [BN_CL_ternary_gemv] = check_ternary,
    [BN_CL_ternary_gemm] = check_ternary,  [BN_CL_rope_store] = check_rope,
    [BN_CL_attn_scores] = check_attention, [BN_CL_attn_softmax] = check_attention,
    [BN_CL_attn_values] = check_attention, [BN_CL_f16_gemm] = check_float,
    [BN_CL_f32_gemm] = check_float,        [BN_CL_finite] = check_finite,
    [BN_CL_make_gates] = check_gates,      [BN_CL_convolve] = check_convolution,
    [BN_CL_keep_rows] = check_convolution, [BN_CL_normalise_heads] = check_heads,
    [BN_CL_gate_heads] = check_heads,      [BN_CL_delta] = check_delta,
    [BN_CL_choose_experts] = check_choice, [BN_CL_sum_experts] = check_sum};
