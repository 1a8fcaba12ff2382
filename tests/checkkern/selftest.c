/* SPDX-License-Identifier: MIT
 *
 * Can checkkern fail? Kernels that are wrong in the ways kernels go wrong, each put into a copy of the
 * reference table; every one must be caught. Some are judged by the truth too, as the reference is.
 */
#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Codes 0, 1, 2 taken for 0, 1, 2 minus the sum of another map: -2, -1, 0. */
static void wrong_map(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    bn_kernels_ref.ternary_gemv(y, w, x);
    for (size_t r = 0; w->blocks == BN_BLOCKS_I2S && r < w->rows; r++)
        y[r] -= (float)x->total / x->scale * w->scale;
}

/* Adds products of blocks in int16 as vpaddw would, over too many blocks: right for ordinary values. */
static void wraps_int16(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    bn_kernels_ref.ternary_gemv(y, w, x);
    for (size_t r = 0; w->blocks == BN_BLOCKS_I2S && w->codes != NULL && r < w->rows; r++) {
        uint32_t lane[16] = {0};
        int32_t sum = 0;
        for (size_t i = 0; i < w->k; i++)
            lane[i % 32 / 2] += (uint32_t)((int)bn_ternary_code(w, r, i) * x->q[i]);
        for (size_t j = 0; j < 16; j++)
            sum += (int16_t)(lane[j] & 0xFFFFu);
        y[r] = (float)(sum - x->total) / x->scale * w->scale;
    }
}

static void drops_code3(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    bn_kernels_ref.ternary_gemv(y, w, x);
    for (size_t r = 0; w->codes != NULL && r < w->rows; r++)
        for (size_t i = 0; i < w->k; i++)
            if (bn_ternary_code(w, r, i) == 3) y[r] = 0.0f;
}

static void ignores_row_bytes(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    struct bn_ternary tight = *w;
    if (w->blocks == BN_BLOCKS_I2S) tight.row_bytes = w->k / 4;
    bn_kernels_ref.ternary_gemv(y, &tight, x);
}

static void drops_last_row(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    struct bn_ternary fewer = *w;
    if (w->rows % 16 == 15) fewer.rows--;
    bn_kernels_ref.ternary_gemm(y, ldy, &fewer, x, n);
}

static void reciprocal(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    bn_kernels_ref.ternary_gemm(y, ldy, w, x, n);
    for (size_t j = 0; w->blocks == BN_BLOCKS_I2S && j < n; j++) {
        struct bn_ternary unscaled = *w;
        struct bn_act one = x[j];
        unscaled.scale = one.scale = 1.0f;
        bn_kernels_ref.ternary_gemv(y + j * ldy, &unscaled, &one);
        for (size_t r = 0; r < w->rows; r++)
            y[j * ldy + r] *= w->scale * (1.0f / x[j].scale);
    }
}

static void rounds_away(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    bn_kernels_ref.quantize(q, scale, sum, x, n);
    *sum = 0;
    for (size_t i = 0; i < n; i++) {
        q[i] = (int8_t)roundf(x[i] * *scale);
        *sum += q[i];
    }
}

static void other_order(float *y, const float *x, const float *w, size_t n, float eps)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        float square = x[i] * x[i];
        sum += (double)square;
    }
    float r = 1.0f / sqrtf((float)(sum / (double)n) + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * r * w[i];
}

static void contracts(float *x, const float *cosine, const float *sine, size_t n_rot)
{
    for (size_t i = 0; i < n_rot / 2; i++) {
        float a = x[i], b = x[i + n_rot / 2];
        x[i] = fmaf(a, cosine[i], -(b * sine[i]));
        x[i + n_rot / 2] = fmaf(a, sine[i], b * cosine[i]);
    }
}

static void writes_beyond(float *y, const float *x, size_t n)
{
    bn_kernels_ref.add(y, x, n);
    ((volatile float *)y)[n] = 0.0f;
}

static void writes_before(float *y, const float *x, size_t n)
{
    bn_kernels_ref.add(y, x, n);
    ((volatile float *)y)[-1] = 0.0f;
}

static void reads_beyond(float *y, const float *x, size_t n)
{
    (void)((const volatile float *)x)[n];
    bn_kernels_ref.add(y, x, n);
}

static void writes_input(float *y, const float *x, size_t n)
{
    bn_kernels_ref.add(y, x, n);
    if (x != y) *(volatile float *)(uintptr_t)x = 1.5f;
}

static void other_factors(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] > 0.0f ? gate[i] : 0.0f;
        y[i] = g * up[i] * g;
    }
}

static void keeps_minus_zero(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] >= 0.0f ? gate[i] : 0.0f;
        y[i] = g * copysignf(g, gate[i]) * up[i];
    }
}

static void truncates(uint16_t *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bn_kernels_ref.f32_to_f16(&y[i], &x[i], 1);
        if ((bits & 0x7FFFFFFFu) < 0x38800000u)
            y[i] = (uint16_t)(bits >> 16 & 0x8000u); /* loses subnormals */
    }
}

static void libm_exp(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = expf(x[i]);
}

static void adds_by_fours(float *y, size_t ldy, const float *w, size_t rows, size_t k, const float *x,
                          size_t ldx, size_t n)
{
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < rows; r++) {
            float lane[4] = {0};
            for (size_t i = 0; i < k; i++) {
                float weight;
                memcpy(&weight, (const uint8_t *)w + 4 * (r * k + i), sizeof weight);
                lane[i % 4] = fmaf(weight, x[j * ldx + i], lane[i % 4]);
            }
            y[j * ldy + r] = lane[0] + lane[2] + (lane[1] + lane[3]);
        }
}

/* The last digit taken for 81 of the byte's value, as five plain digits of base 3 would be. */
static void plain_digits(float *y, const struct bn_t5 *w, const struct bn_act *x)
{
    for (size_t r = 0; r < w->rows; r++) {
        int32_t sum = -x->total;
        for (size_t i = 0; i < w->k; i++) {
            unsigned v = w->codes[r * w->row_bytes + i / 320 * 64 + i % 64];
            for (size_t d = 0; d < i % 320 / 64; d++)
                v /= 3;
            sum += (int32_t)(v % 3) * x->q[i];
        }
        y[r] = (float)sum / x->scale * w->scale;
    }
}

/* Clears the rows that are not picked. */
static void clears_rows(float *y, const struct bn_t5 *w, const struct bn_act *x)
{
    memset(y, 0, w->rows * sizeof *y);
    bn_kernels_ref.t5_gemv(y, w, x);
}

static void packs_one_short(uint8_t *out, const uint8_t *codes, size_t k)
{
    bn_kernels_ref.t5_pack(out, codes, k);
    out[0] = (uint8_t)(out[0] % 84); /* without the last digit */
}

static void ignores_column_bytes(float *y, const struct bn_columns *w, const struct bn_act *x,
                                 const uint32_t *used, size_t n)
{
    struct bn_columns tight = *w;
    tight.column_bytes = (w->rows + BN_COLUMN_ROWS - 1) / BN_COLUMN_ROWS * 64;
    bn_kernels_ref.columns_gemv(y, &tight, x, used, n);
}

/* Without those that are left of four. */
static void drops_columns(float *y, const struct bn_columns *w, const struct bn_act *x, const uint32_t *used,
                          size_t n)
{
    bn_kernels_ref.columns_gemv(y, w, x, used, n > 4 ? n - n % 4 : n);
}

static void grouped_drops_token(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                                size_t n)
{
    bn_kernels_ref.ternary_gemm(y, ldy, w, x, n - 1);
}

/* TQ2_0 read as TQ1_0. */
static void grouped_of_other_blocks(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    struct bn_ternary other = *w;
    if (w->codes == NULL && w->blocks == BN_BLOCKS_TQ2) other.blocks = BN_BLOCKS_TQ1;
    bn_kernels_ref.ternary_gemv(y, &other, x);
}

/* The faults below are those of tiles with scales: what a product adds to the sum of row r for group g. */
typedef float (*term)(const struct bn_ternary *w, const struct bn_act *x, size_t r, size_t g, float sum);

static void grouped_by(float *y, const struct bn_ternary *w, const struct bn_act *x, term add)
{
    if (w->codes == NULL || w->scales == NULL) {
        bn_kernels_ref.ternary_gemv(y, w, x);
        return;
    }
    for (size_t r = 0; r < w->rows; r++) {
        y[r] = 0.0f;
        for (size_t g = 0; g < w->k / w->group; g++)
            y[r] = add(w, x, r, g, y[r]);
        y[r] /= x->scale;
    }
}

#define GROUPED(name)                                                                        \
    static void grouped_##name(float *y, const struct bn_ternary *w, const struct bn_act *x) \
    {                                                                                        \
        grouped_by(y, w, x, name);                                                           \
    }

/* Element `at` of the plane in row r, its code as it is. */
static int32_t coded(const struct bn_ternary *w, size_t r, size_t at, const int8_t *plane)
{
    const uint8_t *tile = w->codes + r / 16 * 4 * w->k;
    return (tile[at / 16 * 64 + r % 16 * 4 + at % 4] >> 2 * (at % 16 / 4) & 3) * plane[at];
}

static int32_t plane_sum(const struct bn_ternary *w, size_t r, size_t g, const int8_t *plane)
{
    int32_t sum = 0;
    for (size_t at = g * w->group; plane != NULL && at < (g + 1) * w->group; at++)
        sum += coded(w, r, at, plane);
    return sum;
}

static float scaled(const struct bn_ternary *w, const struct bn_act *x, size_t r, size_t g, int32_t t,
                    float sum)
{
    float scale, step = x->high != NULL ? x->step[g] : 1.0f;
    bn_kernels_ref.f16_to_f32(&scale, &w->scales[(r / 16 * (w->k / w->group) + g) * 16 + r % 16], 1);
    return fmaf(scale, (float)t * step, sum);
}

/* Takes the scale and the step of the group before, but for the first. */
static float neighbour(const struct bn_ternary *w, const struct bn_act *x, size_t r, size_t g, float sum)
{
    int32_t t = 256 * plane_sum(w, r, g, x->high) + plane_sum(w, r, g, x->low) - x->sum[g];
    return scaled(w, x, r, g > 0 ? g - 1 : 0, t, sum);
}
GROUPED(neighbour)

static float without_sums(const struct bn_ternary *w, const struct bn_act *x, size_t r, size_t g, float sum)
{
    return scaled(w, x, r, g, 256 * plane_sum(w, r, g, x->high) + plane_sum(w, r, g, x->low), sum);
}
GROUPED(without_sums)

/* Adds 256 times the one plane and the other to the result, one after the other. */
static float rounds_each(const struct bn_ternary *w, const struct bn_act *x, size_t r, size_t g, float sum)
{
    sum = scaled(w, x, r, g, 256 * plane_sum(w, r, g, x->high), sum);
    return scaled(w, x, r, g, plane_sum(w, r, g, x->low) - x->sum[g], sum);
}
GROUPED(rounds_each)

/* Adds in int16 over the whole group: right unless many codes of 3 meet values at the limit. */
static float wraps(const struct bn_ternary *w, const struct bn_act *x, size_t r, size_t g, float sum)
{
    uint32_t lane[2] = {0};
    for (size_t at = g * w->group; at < (g + 1) * w->group; at++)
        lane[at % 4 / 2] += (uint32_t)coded(w, r, at, x->low);
    int32_t low = (int16_t)(lane[0] & 0xFFFFu) + (int16_t)(lane[1] & 0xFFFFu);
    return scaled(w, x, r, g, 256 * plane_sum(w, r, g, x->high) + low - x->sum[g], sum);
}
GROUPED(wraps)

static void grouped_reciprocal(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    struct bn_act unscaled = *x;
    unscaled.scale = 1.0f;
    bn_kernels_ref.ternary_gemv(y, w, &unscaled);
    for (size_t r = 0; r < w->rows; r++)
        y[r] *= 1.0f / x->scale;
}

static void plane_in_plain_order(int8_t *plane, int32_t *sum, const int8_t *q, size_t n, size_t group)
{
    bn_kernels_ref.to_plane(plane, sum, q, n, group);
    memcpy(plane, q, n);
}

/* TQ2_0 read as TQ1_0. */
static void tiles_of_other_blocks(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w)
{
    struct bn_ternary other = *w;
    if (w->blocks == BN_BLOCKS_TQ2 && w->group == 256) other.blocks = BN_BLOCKS_TQ1;
    bn_kernels_ref.to_tiles(codes, scales, &other);
}

/* Signs after the transform in both directions. */
static void rotates_back(float *x, const float *signs, size_t n, size_t block, bool back)
{
    (void)back;
    bn_kernels_ref.rotate(x, signs, n, block, true);
}

/* The reference's planes and sums of values that were rounded before, ties away from zero. */
static void quantize16_rounds_away(int8_t *high, int8_t *low, float *step, int32_t *sum, const float *x,
                                   size_t n, size_t group)
{
    bn_kernels_ref.quantize16(high, low, step, sum, x, n, group);
    for (size_t g = 0; g < n / group; g++) {
        sum[g] = 0;
        for (size_t at = g * group; at < (g + 1) * group; at++) {
            size_t i = at / 16 * 16 + at % 4 * 4 + at % 16 / 4;
            int32_t q = (int32_t)roundf(x[i] / step[g]);
            high[at] = (int8_t)((q + 128) >> 8);
            low[at] = (int8_t)(q - 256 * high[at]);
            sum[g] += q;
        }
    }
}

/* Bytes in the order of the elements. */
static void quantize16_plain_order(int8_t *high, int8_t *low, float *step, int32_t *sum, const float *x,
                                   size_t n, size_t group)
{
    bn_kernels_ref.quantize16(high, low, step, sum, x, n, group);
    for (size_t i = 0; i < n; i++) {
        int32_t q = (int32_t)rintf(x[i] / step[i / group]);
        high[i] = (int8_t)((q + 128) >> 8);
        low[i] = (int8_t)(q - 256 * high[i]);
    }
}

/* Rounds each plane on its own: right as long as sums are small. */
static void rounds_planes(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k,
                          const struct bn_planes *x, size_t n)
{
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < rows; r++) {
            float sums[2] = {0, 0};
            for (size_t i = 0; i < k; i++) {
                sums[0] += (float)(w[r * k + i] * x[j].high[i]);
                sums[1] += (float)(w[r * k + i] * x[j].low[i]);
            }
            y[j * ldy + r] = 256.0f * sums[0] + sums[1];
        }
}

static void i8_drops_vector(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k,
                            const struct bn_planes *x, size_t n)
{
    bn_kernels_ref.i8_gemm(y, ldy, w, rows, k, x, n > 1 ? n - 1 : 1);
}

/* Without the fused multiply-add. */
static void rounds_twice(double *size, double *rest, const float *x, const int8_t *q, float step, size_t n)
{
    double lane[8] = {0};
    bn_kernels_ref.residual(size, rest, x, q, step, n);
    for (size_t i = 0; i < n; i++) {
        volatile float product = (float)q[i] * step;
        float d = x[i] - product, d2 = d * d;
        lane[i % 8] += (double)d2;
    }
    for (size_t half = 4; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    *rest = lane[0];
}

/* ---- attention, recurrent layers, gates ---- */

/* Row after row of each tile, as values lie. */
static void scores_of_rows(float *s, size_t lds, const float *q, size_t ldq, size_t n,
                           const struct bn_keys *k, float factor)
{
    size_t tile = BN_KEY_TILE * k->head_dim;
    for (size_t p = 0; p < k->n_pos; p++) {
        uint16_t keys[BN_KEY_TILE * 1024];
        for (size_t i = 0; i < k->head_dim; i++)
            keys[i * BN_KEY_TILE] = k->tiles[p / BN_KEY_TILE * tile + p % BN_KEY_TILE * k->head_dim + i];
        struct bn_keys one = {keys, 1, k->head_dim};
        bn_kernels_ref.attn_scores(s + p, lds, q, ldq, n, &one, factor);
    }
}

/* Wrong in the last query of more than one full set of eight. */
static void scores_drop_query(float *s, size_t lds, const float *q, size_t ldq, size_t n,
                              const struct bn_keys *k, float factor)
{
    bn_kernels_ref.attn_scores(s, lds, q, ldq, n > 8 && n % 8 == 1 ? n - 1 : n, k, factor);
}

static void scores_of_whole_tiles(float *s, size_t lds, const float *q, size_t ldq, size_t n,
                                  const struct bn_keys *k, float factor)
{
    struct bn_keys whole = {k->tiles, (k->n_pos + BN_KEY_TILE - 1) / BN_KEY_TILE * BN_KEY_TILE, k->head_dim};
    bn_kernels_ref.attn_scores(s, lds, q, ldq, n, &whole, factor);
}

/* The second half of the positions before the first one. */
static void values_in_halves(float *y, size_t ldy, const float *s, size_t lds, size_t n,
                             const struct bn_kv *v)
{
    struct bn_kv first = *v, second = *v;
    first.n_pos = v->n_pos / 2;
    second.n_pos = v->n_pos - first.n_pos;
    second.rows = v->rows + first.n_pos * v->ld;
    bn_kernels_ref.attn_values(y, ldy, s + first.n_pos, lds, n, &second);
    bn_kernels_ref.attn_values(y, ldy, s, lds, n, &first);
}

/* What comes out before the state takes the token in. */
static void delta_reads_before(const struct bn_delta *at, size_t n)
{
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < at->columns; j++) {
            float o = 0.0f;
            for (size_t i = 0; i < at->d; i++)
                o = fmaf(at->state[i * at->ld + j] * at->decay[t * at->ld_gate], at->q[t * at->ld_qk + i], o);
            struct bn_delta one = *at;
            one.state += j;
            one.columns = 1;
            one.q += t * at->ld_qk;
            one.k += t * at->ld_qk;
            one.v += t * at->ld_v + j;
            one.o += t * at->ld_o + j;
            one.decay += t * at->ld_gate;
            one.beta += t * at->ld_gate;
            bn_kernels_ref.delta(&one, 1);
            at->o[t * at->ld_o + j] = o;
        }
}

/* With one rounding for a product and its sum. */
static void conv_by_fma(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float c = 0.0f, e;
        for (size_t t = 0; t < taps; t++)
            c = fmaf(w[t * ldw + i], x[t][i], c);
        float minus = -c;
        bn_kernels_ref.exp(&e, &minus, 1);
        y[i] = c / (1.0f + e);
    }
}

/* The newest row first. */
static void conv_backwards(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n)
{
    const float *rows[8];
    for (size_t t = 0; t < taps; t++)
        rows[t] = x[taps - 1 - t];
    bn_kernels_ref.conv_silu(y, w, ldw, rows, taps, n);
}

static void sigmoid_of_x(float *y, const float *x, const float *gate, size_t n)
{
    bn_kernels_ref.sigmoid_mul(y, gate, x, n);
}

struct fault {
    const char *text;
    enum bn_kernel slot;
    bool twice; /* also judged as a reference, by the truth */
    void (*put)(struct bn_kernels *table);
};

#define FAULT(text, number, field, function)             \
    static void put_##function(struct bn_kernels *table) \
    {                                                    \
        table->field = function;                         \
    }
/* T: what another reference gets wrong in the integers, the independent computation sees too. */
#define FAULTS(X, T)                                                                                 \
    T("ternary_gemv of I2_S with another code map", TERNARY_GEMV, ternary_gemv, wrong_map)           \
    X("ternary_gemv of I2_S that wraps in int16", TERNARY_GEMV, ternary_gemv, wraps_int16)           \
    X("ternary_gemv without code 3", TERNARY_GEMV, ternary_gemv, drops_code3)                        \
    X("ternary_gemv that ignores row_bytes", TERNARY_GEMV, ternary_gemv, ignores_row_bytes)          \
    X("ternary_gemm of I2_S with a combined scale", TERNARY_GEMM, ternary_gemm, reciprocal)          \
    T("ternary_gemm without a last row", TERNARY_GEMM, ternary_gemm, drops_last_row)                 \
    X("t5_gemv of five plain digits", T5_GEMV, t5_gemv, plain_digits)                                \
    T("t5_gemv that clears rows", T5_GEMV, t5_gemv, clears_rows)                                     \
    X("columns_gemv that ignores column_bytes", COLUMNS_GEMV, columns_gemv, ignores_column_bytes)    \
    T("columns_gemv without the last columns", COLUMNS_GEMV, columns_gemv, drops_columns)            \
    X("t5_pack without a last digit", T5_PACK, t5_pack, packs_one_short)                             \
    X("i8_gemm that rounds each plane", I8_GEMM, i8_gemm, rounds_planes)                             \
    X("i8_gemm without the last vector", I8_GEMM, i8_gemm, i8_drops_vector)                          \
    T("ternary_gemm without the last token", TERNARY_GEMM, ternary_gemm, grouped_drops_token)        \
    T("ternary_gemv with scales of another group", TERNARY_GEMV, ternary_gemv, grouped_neighbour)    \
    T("ternary_gemv without the sums", TERNARY_GEMV, ternary_gemv, grouped_without_sums)             \
    X("ternary_gemv that rounds each plane", TERNARY_GEMV, ternary_gemv, grouped_rounds_each)        \
    X("ternary_gemv whose sums wrap", TERNARY_GEMV, ternary_gemv, grouped_wraps)                     \
    X("ternary_gemv with a reciprocal of the scale", TERNARY_GEMV, ternary_gemv, grouped_reciprocal) \
    X("ternary_gemv of rows of another layout", TERNARY_GEMV, ternary_gemv, grouped_of_other_blocks) \
    T("to_plane in plain order", TO_PLANE, to_plane, plane_in_plain_order)                           \
    T("to_tiles of another layout", TO_TILES, to_tiles, tiles_of_other_blocks)                       \
    X("quantize16 that rounds ties away", QUANTIZE16, quantize16, quantize16_rounds_away)            \
    T("quantize16 in plain order", QUANTIZE16, quantize16, quantize16_plain_order)                   \
    X("residual without fma", RESIDUAL, residual, rounds_twice)                                      \
    T("quantize that rounds ties away", QUANTIZE, quantize, rounds_away)                             \
    T("rotate with signs on the other side", ROTATE, rotate, rotates_back)                           \
    X("rmsnorm in another order", RMSNORM, rmsnorm, other_order)                                     \
    X("rope with contracted products", ROPE_NEOX, rope_neox, contracts)                              \
    T("attn_scores of keys in rows", ATTN_SCORES, attn_scores, scores_of_rows)                       \
    X("attn_scores without a last query", ATTN_SCORES, attn_scores, scores_drop_query)               \
    X("attn_scores of whole tiles", ATTN_SCORES, attn_scores, scores_of_whole_tiles)                 \
    X("attn_values in another order", ATTN_VALUES, attn_values, values_in_halves)                    \
    X("add that writes beyond the end", ADD, add, writes_beyond)                                     \
    X("add that writes before the start", ADD, add, writes_before)                                   \
    X("add that reads beyond the end", ADD, add, reads_beyond)                                       \
    X("add that writes its input", ADD, add, writes_input)                                           \
    X("relu2_mul with another order", RELU2_MUL, relu2_mul, other_factors)                           \
    X("relu2_mul of a gate of -0", RELU2_MUL, relu2_mul, keeps_minus_zero)                           \
    T("f32_to_f16 that flushes subnormals", F32_TO_F16, f32_to_f16, truncates)                       \
    T("exp of libm", EXP, exp, libm_exp)                                                             \
    T("delta that is read before its update", DELTA, delta, delta_reads_before)                      \
    X("conv_silu with one rounding", CONV_SILU, conv_silu, conv_by_fma)                              \
    T("conv_silu of rows in reverse", CONV_SILU, conv_silu, conv_backwards)                          \
    X("sigmoid_mul of the other factor", SIGMOID_MUL, sigmoid_mul, sigmoid_of_x)                     \
    X("f32_gemm with four lanes", F32_GEMM, f32_gemm, adds_by_fours)
FAULTS(FAULT, FAULT)

#define ENTRY(text, number, field, function) {text, BN_KERNEL_##number, false, put_##function},
#define TWICE(text, number, field, function) {text, BN_KERNEL_##number, true, put_##function},
static const struct fault FAULT_LIST[] = {FAULTS(ENTRY, TWICE)};

/* Prints whether the table is caught; returns 1 when it is not. */
static unsigned report(struct ck *ck, unsigned *n, const struct bn_kernels *table, enum bn_kernel slot,
                       bool truth, const char *prefix, const char *text)
{
    struct ck_run run = {.kernels = table, .truth = truth};
    bool caught = false;
    for (enum ck_class class = 0; class < CK_N_CLASSES && !caught; class ++)
        caught = !ck_check(ck, ck_find(slot), class, &run, 1);
    printf("%sok %u - self-test: catches %s%s\n", caught ? "" : "not ", ++*n, prefix, text);
    if (caught) printf("# %s\n", run.why);
    return !caught;
}

unsigned ck_self_test(struct ck *ck, unsigned *n)
{
    struct bn_kernels table;
    unsigned missed = 0;
    for (size_t i = 0; i < 2 * COUNT(FAULT_LIST); i++) {
        const struct fault *fault = &FAULT_LIST[i / 2];
        bool truth = i % 2 == 1;
        if (truth && !fault->twice) continue;
        table = bn_kernels_ref;
        fault->put(&table);
        missed += report(ck, n, &table, fault->slot, truth, truth ? "a reference " : "", fault->text);
    }
    for (size_t i = 0;; i++) {
        table = bn_kernels_ref;
        const char *text = ck_wrong_tiles(&table, i);
        if (text == NULL) break;
        missed += report(ck, n, &table, BN_KERNEL_TERNARY_GEMM, false, "ternary_gemm by ", text);
    }
    return missed;
}
