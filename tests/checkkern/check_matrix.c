/* SPDX-License-Identifier: MIT
 *
 * Float matrices and attention: dot products with a fixed order of lanes. The truth sums in binary64 and
 * allows what that many roundings can do.
 */
#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EPS 0x1p-24

enum { SCORES = 1, VALUES, HALF, SINGLE };

/* Sum of w * x, and of their sizes for the tolerance. */
struct sum {
    double value, size;
};

static struct sum dot(const uint8_t *w, const float *x, size_t n, bool half)
{
    struct sum s = {0};
    for (size_t i = 0; i < n; i++) {
        float single = 0;
        if (!half) memcpy(&single, w + 4 * i, sizeof single);
        double product = (half ? ck_half(w + 2 * i) : (double)single) * (double)x[i];
        s.value += product;
        s.size += fabs(product);
    }
    return s;
}

static double tolerance(struct sum s, size_t n)
{
    return s.size * EPS * ((double)n / 16 + 6) + 1e-44 * (double)(n + 1);
}

/* ---- attention ---- */

static bool pick_attn(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index,
                      enum ck_values *values)
{
    /* No common factor, so that all pairs occur. Keys of more than 256 elements are never widened in memory. */
    static const size_t HEAD[] = {32, 64, 80, 96, 100, 128, 256, 20, 16, 17, 1, 15, 120, 260, 520};
    static const size_t QUERIES[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 32, 33, 16};
    size_t n_pos = 1 + index / COUNT(HEAD);
    *values = CK_ORDINARY;
    call->k = HEAD[index % COUNT(HEAD)];
    call->ld = call->k;
    call->rows = QUERIES[index % COUNT(QUERIES)];
    if (class == CK_EXTREMES) {
        if (index >= COUNT(HEAD) * CK_N_VALUES) return false;
        *values = index / (unsigned)COUNT(HEAD);
        n_pos = 1 + index % 19;
    } else if (class == CK_LAYOUT) {
        if (n_pos > 20) return false;
        call->ld = call->k + 2 * (1 + index % 3) + (index % 5 == 0);
        ck->guard_before = index % 2 == 0;
    } else {
        if (n_pos > 41) return false;
        if (n_pos == 41) n_pos = 300;
    }
    call->n = n_pos;
    return true;
}

/* Queries, and rows of scores, lie a little apart. */
static bool setup_attn(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    bool scores = call->variant == SCORES;
    enum ck_values values;
    if (!pick_attn(ck, call, class, index, &values)) return false;
    size_t n_in = scores ? call->k : call->n, n_out = scores ? call->n : call->k;
    call->f = 0.08838835f;
    call->ldx = n_in + index % 3;
    call->ldy = n_out + index % 4;
    call->a = ck_floats(ck, (call->rows - 1) * call->ldx + n_in, values);
    size_t n_tiles = (call->n + BN_KEY_TILE - 1) / BN_KEY_TILE;
    size_t n_halves = scores ? n_tiles * BN_KEY_TILE * call->k : (call->n - 1) * call->ld + call->k;
    call->weights = (const uint8_t *)ck_halves(ck, n_halves, values);
    size_t n_all = (call->rows - 1) * call->ldy + n_out;
    float *y = ck_buffer(ck, CK_OUT, CK_FLOATS, n_all * sizeof *y);
    ck_fill_f32(ck, y, n_all, values);
    float *before = ck_buffer(ck, CK_IN, CK_FLOATS, n_all * sizeof *before);
    memcpy(before, y, n_all * sizeof *y);
    call->out = y;
    call->b = before;
    snprintf(call->text, sizeof call->text, "head_dim=%zu n_pos=%zu queries=%zu ld=%zu %s", call->k, call->n,
             call->rows, call->ld, ck_values_name(values));
    return true;
}

static void invoke_attn_scores(const struct bn_kernels *kernels, const struct ck_call *call)
{
    struct bn_keys k = {(const void *)call->weights, call->n, call->k};
    kernels->attn_scores(call->out, call->ldy, call->a, call->ldx, call->rows, &k, call->f);
}

static void invoke_attn_values(const struct bn_kernels *kernels, const struct ck_call *call)
{
    struct bn_kv v = {(const void *)call->weights, call->ld, call->n, call->k};
    kernels->attn_values(call->out, call->ldy, call->a, call->ldx, call->rows, &v);
}

static bool truth_attn_scores(struct ck *ck, const struct ck_call *call)
{
    double factor = (double)call->f;
    for (size_t i = 0; i < call->rows * call->n; i++) {
        size_t j = i / call->n, p = i % call->n;
        const float *s = (const float *)call->out + j * call->ldy;
        struct sum d = {0};
        for (size_t e = 0; e < call->k; e++) {
            size_t at = (p / 16 * call->k + e) * 16 + p % 16;
            double product =
                ck_half(call->weights + 2 * at) * (double)((const float *)call->a)[j * call->ldx + e];
            d.value += product;
            d.size += fabs(product);
        }
        if (d.size > 3e38) continue;
        double want = d.value * factor;
        if (!ck_near(ck, "score", i, s[p], want, tolerance(d, call->k) * factor + fabs(want) * EPS + 1e-44))
            return false;
    }
    return true;
}

static bool truth_attn_values(struct ck *ck, const struct ck_call *call)
{
    for (size_t i = 0; i < call->rows * call->k; i++) {
        size_t j = i / call->k, d = i % call->k, at = j * call->ldy + d;
        const float *y = call->out, *s = (const float *)call->a + j * call->ldx, *before = call->b;
        double sum = (double)before[at], size = fabs(sum);
        for (size_t p = 0; p < call->n; p++) {
            double product = (double)s[p] * ck_half(call->weights + 2 * (p * call->ld + d));
            sum += product;
            size += fabs(product);
        }
        if (size > 3e38) continue;
        if (!ck_near(ck, "value", i, y[at], sum, (size * EPS + 1e-44) * (double)(call->n + 2))) return false;
    }
    return true;
}

/* ---- matrices ---- */

static bool setup_gemm(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    bool half = call->variant == HALF;
    static const size_t K[] = {1, 15, 16, 17, 20, 100, 128, 256, 257, 640};
    static const struct {
        size_t rows, k, n;
    } LARGE[] = {{70, 256, 70}, {9, 2560, 5}, {33, 2563, 3}, {1, 6912, 1}, {300, 96, 2}, {1025, 2085, 1}};
    enum ck_values values = CK_ORDINARY;
    size_t element = half ? 2 : 4, offset = 0, pad_x = 0, pad_y = 0;
    call->k = K[index % COUNT(K)];
    call->rows = 1 + index / COUNT(K) % 9;
    call->n = 1 + index / COUNT(K) / 9;
    if (class == CK_EXTREMES) {
        if (index >= COUNT(K) * CK_N_VALUES * 2) return false;
        values = index / COUNT(K) % CK_N_VALUES;
        call->rows = 1 + index % 7;
        call->n = 1 + index % 3;
    } else if (class == CK_LAYOUT) {
        if (index >= 200) return false;
        offset = index % 3;
        call->n = 1 + index % 6;
        pad_x = index % 4;
        pad_y = index % 5;
        ck->guard_before = offset == 0;
    } else if (call->n > 17) {
        unsigned extra = index - 17 * 9 * (unsigned)COUNT(K);
        if (extra >= COUNT(LARGE)) return false;
        call->rows = LARGE[extra].rows;
        call->k = LARGE[extra].k;
        call->n = LARGE[extra].n;
    }
    uint8_t *w = ck_buffer(ck, CK_IN, CK_BYTES, offset + call->rows * call->k * element);
    w += offset;
    if (half)
        ck_fill_f16(ck, w, call->rows * call->k, values);
    else
        ck_fill_f32(ck, w, call->rows * call->k, values);
    call->weights = w;
    call->ldx = call->k + pad_x;
    call->ldy = call->rows + pad_y;
    call->a = ck_floats(ck, (call->n - 1) * call->ldx + call->k, index % 2 == 0 ? values : CK_ORDINARY);
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, ((call->n - 1) * call->ldy + call->rows) * sizeof(float));
    snprintf(call->text, sizeof call->text, "%zux%zu n=%zu offset=%zu %s", call->rows, call->k, call->n,
             offset, ck_values_name(values));
    return true;
}

CK_INVOKE(f16_gemm, call->out, call->ldy, (const void *)call->weights, call->rows, call->k, call->a,
          call->ldx, call->n)
CK_INVOKE(f32_gemm, call->out, call->ldy, (const void *)call->weights, call->rows, call->k, call->a,
          call->ldx, call->n)

static bool truth_gemm(struct ck *ck, const struct ck_call *call)
{
    bool half = call->variant == HALF;
    const float *y = call->out, *x = call->a;
    for (size_t j = 0; j < call->n; j++)
        for (size_t r = 0; r < call->rows; r++) {
            const uint8_t *w = call->weights + r * call->k * (half ? 2 : 4);
            struct sum s = dot(w, x + j * call->ldx, call->k, half);
            size_t at = j * call->ldy + r;
            if (s.size > 3e38) continue;
            if (!ck_near(ck, "product", at, y[at], s.value, tolerance(s, call->k))) return false;
        }
    return true;
}

const struct ck_slot CK_MATRIX[] = {
    {BN_KERNEL_ATTN_SCORES, setup_attn, invoke_attn_scores, truth_attn_scores, SCORES},
    {BN_KERNEL_ATTN_VALUES, setup_attn, invoke_attn_values, truth_attn_values, VALUES},
    {BN_KERNEL_F16_GEMM, setup_gemm, invoke_f16_gemm, truth_gemm, HALF},
    {BN_KERNEL_F32_GEMM, setup_gemm, invoke_f32_gemm, truth_gemm, SINGLE},
    {BN_KERNEL_COUNT, NULL, NULL, NULL, 0},
};
