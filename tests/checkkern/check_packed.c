/* SPDX-License-Identifier: MIT
 *
 * T5 products and their packing, products by columns, 8-bit weights times 16-bit vectors, what quantising leaves. The
 * truth takes digits by division and sums in int64.
 */
#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Digit d of a T5 byte; a packed one has no 3. */
static unsigned digit_of(unsigned byte, size_t d)
{
    static const unsigned WEIGHT[5] = {1, 3, 9, 27, 84};
    unsigned below = d == 4 ? byte : byte % 84;
    return d < 3 ? below / WEIGHT[d] % 3 : below / WEIGHT[d];
}

/* n of the numbers below `of`, ascending. */
static uint32_t *choose(struct ck *ck, size_t n, size_t of)
{
    uint32_t *chosen = ck_buffer(ck, CK_IN, CK_BYTES, n * sizeof *chosen);
    for (size_t i = 0, at = 0; at < n; i++)
        if (ck_below(ck, (uint32_t)(of - i)) < n - at) chosen[at++] = (uint32_t)i;
    return chosen;
}

/* ---- T5 ---- */

struct t5_shape {
    size_t rows, k, pad, offset;
    int codes, acts; /* a fixed byte or activation, or ANY */
    bool picks;      /* n_picked of the rows; nothing lies after the last one */
    size_t n_picked;
};

static bool make_t5(struct ck *ck, struct ck_call *call, const struct t5_shape *s)
{
    const uint32_t *picked = s->picks ? choose(ck, s->n_picked, s->rows) : NULL;
    size_t row = s->k / BN_T5_BLOCK * BN_T5_BLOCK_BYTES + s->pad, n_rows = s->rows;
    if (s->picks) n_rows = s->n_picked > 0 ? picked[s->n_picked - 1] + 1 : 0;
    size_t all = n_rows > 0 ? n_rows * row - s->pad : 0;
    uint8_t *codes = ck_buffer(ck, CK_IN, CK_BYTES, s->offset + all);
    int8_t *q = ck_buffer(ck, CK_IN, CK_BYTES, s->k);
    struct bn_act *act = ck_buffer(ck, CK_IN, CK_BYTES, sizeof *act);
    int32_t sum = 0;
    codes += s->offset;
    for (size_t i = 0; i < all; i++)
        codes[i] = (uint8_t)(s->codes != ANY ? (unsigned)s->codes : ck_below(ck, 256));
    for (size_t i = 0; i < s->k; i++) {
        q[i] = (int8_t)(s->acts != ANY ? s->acts : (int)ck_below(ck, 255) - 127);
        sum += q[i];
    }
    *act = (struct bn_act){.q = q, .total = sum, .scale = 3.0f + ck_uniform(ck)};
    call->act = act;
    call->weights = codes;
    call->t5 = (struct bn_t5){.codes = codes, .rows = s->rows, .k = s->k, .row_bytes = row, .streamed = true};
    call->t5.picked = picked;
    call->t5.n_picked = s->n_picked;
    call->t5.scale = 0.25f + fabsf(ck_uniform(ck));
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, s->rows * sizeof(float));
    snprintf(call->text, sizeof call->text, "%zux%zu codes=%d acts=%d picked=%d %zu", s->rows, s->k, s->codes,
             s->acts, s->picks, s->n_picked);
    return true;
}

static bool setup_t5_gemv(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const int ACTS[] = {127, -127, 0, ANY};
    struct t5_shape s = {.rows = 1 + index % 7, .k = BN_T5_BLOCK * (1 + index / 7)};
    s.codes = s.acts = ANY;
    if (class == CK_EXTREMES) { /* every byte, the ones that no packing makes too */
        if (index >= 256 * COUNT(ACTS) + 2) return false;
        s.codes = (int)(index % 256);
        s.acts = ACTS[index / 256 % COUNT(ACTS)];
        s.k = index < 256 * COUNT(ACTS) ? 640 : (size_t)3276 * BN_T5_BLOCK;
        if (s.k > 640) s.codes = 255, s.acts = index % 2 == 0 ? 127 : -127;
    } else if (class == CK_LAYOUT) {
        if (index >= 60) return false;
        s.pad = index % 6 * 7;
        s.offset = index % 5;
        ck->guard_before = index % 2 == 0;
    } else if (index >= 7 * 25) {
        s.rows = index - 7 * 25;
        s.k = BN_T5_BLOCK * (1 + index % 3);
        s.picks = true;
        s.n_picked = index % 5 == 0 ? s.rows : ck_below(ck, (uint32_t)s.rows / (index % 5) + 1);
        if (s.rows >= 90) return false;
    }
    return make_t5(ck, call, &s);
}

CK_INVOKE(t5_gemv, call->out, &call->t5, call->act)

/* Whether y is the sum t in the scales of this call. */
static bool is_product(struct ck *ck, const struct ck_call *call, size_t r, float y, int64_t t, float scale)
{
    double want = (double)t / (double)call->act->scale * (double)scale;
    return ck_near(ck, "product", r, y, want, fabs(want) * 0x1p-22);
}

static bool truth_t5_gemv(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *before = (const void *)ck->region[ck->n_regions - 1].image;
    const uint32_t *next = call->t5.picked;
    for (size_t r = 0, n = 0; r < call->t5.rows; r++) {
        int64_t t = 0;
        if (next != NULL && (n == call->t5.n_picked || next[n] != r)) {
            if (memcmp(&y[r], &before[r], sizeof *y) != 0) return ck_wrong(ck, "row %zu was written", r);
            continue;
        }
        n++;
        for (size_t i = 0; i < call->t5.k; i++) {
            unsigned byte = call->weights[r * call->t5.row_bytes + i / 320 * 64 + i % 64];
            t += ((int)digit_of(byte, i % 320 / 64) - 1) * call->act->q[i];
        }
        if (!is_product(ck, call, r, y[r], t, call->t5.scale)) return false;
    }
    return true;
}

static bool setup_t5_pack(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    size_t k = 128 * (1 + index % 60), offset = class == CK_LAYOUT ? index % 5 : 0;
    if (index >= 120) {
        return false;
    }
    ck->guard_before = class == CK_LAYOUT && offset == 0;
    uint8_t *codes = ck_buffer(ck, CK_IN, CK_BYTES, offset + k / 4);
    codes += offset;
    for (size_t i = 0; i < k / 4; i++) {
        uint8_t byte = 0;
        for (unsigned field = 0; field < 4; field++)
            byte |= (uint8_t)((class == CK_EXTREMES ? index % 3 : ck_below(ck, 3)) << 2 * field);
        codes[i] = byte;
    }
    call->weights = codes;
    call->k = k;
    call->n = (k + BN_T5_BLOCK - 1) / BN_T5_BLOCK * BN_T5_BLOCK_BYTES;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, call->n);
    snprintf(call->text, sizeof call->text, "k=%zu offset=%zu", k, offset);
    return true;
}

CK_INVOKE(t5_pack, call->out, call->weights, call->k)

static bool truth_t5_pack(struct ck *ck, const struct ck_call *call)
{
    const uint8_t *out = call->out;
    for (size_t i = 0; i < call->n * 5; i++) {
        unsigned digit = digit_of(out[i / 320 * 64 + i % 64], i % 320 / 64), want = 0;
        if (i < call->k) want = call->weights[i / 128 * 32 + i % 32] >> (6 - 2 * (i % 128 / 32)) & 3u;
        if (digit != want) return ck_wrong(ck, "element %zu is %u, expected %u", i, digit, want);
    }
    return true;
}

/* ---- columns ---- */

/* Nothing lies before the first of the columns in use, or after the last one. */
static bool setup_columns_gemv(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const size_t N[] = {0, 1, 2, 3, 4, 5, 33, 66, 1000}, LARGE[] = {4095, 4096, 4097, 8500};
    size_t rows = 1 + index, k = 1 + ck_below(ck, 300), pad = 0, most = N[index % COUNT(N)];
    int codes = ANY, act = ANY;
    if (index >= (class == CK_SHAPES ? 600 + COUNT(LARGE) * COUNT(N) : COUNT(N) * 12)) return false;
    if (index >= 600) rows = LARGE[(index - 600) % COUNT(LARGE)];
    if (class == CK_EXTREMES) {
        rows = 300;
        k = 700;
        codes = (int)(index / COUNT(N) % 4);
        if (index / COUNT(N) < 8) act = index / COUNT(N) < 4 ? 127 : -127;
    } else if (class == CK_LAYOUT) {
        rows = 1 + 7 * index;
        pad = index % 5;
        ck->guard_before = index % 2 == 0;
    }
    size_t n = most < k ? most : k, bytes = (rows + 255) / 256 * 64, each = bytes + 64 * pad;
    const uint32_t *used = choose(ck, n, k);
    size_t first = n > 0 ? used[0] * each : 0, all = n > 0 ? used[n - 1] * each + bytes - first : 0;
    uint8_t *weights = ck_buffer(ck, CK_IN, CK_BYTES, all);
    if (codes != ANY) memset(weights, 0x55 * codes, all);
    int8_t *q = memset(ck_buffer(ck, CK_IN, CK_BYTES, k), 0, k);
    call->act = ck_buffer(ck, CK_IN, CK_BYTES, sizeof *call->act);
    *call->act = (struct bn_act){.q = q, .scale = 3.0f + ck_uniform(ck)};
    for (size_t i = 0; i < n; i++)
        call->act->total += q[used[i]] = (int8_t)(act != ANY ? act : (int)ck_below(ck, 255) - 127);
    call->columns = (struct bn_columns){weights - first, rows, k, each, 0.25f + fabsf(ck_uniform(ck))};
    call->a = used;
    call->n = n;
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, rows * sizeof(float));
    snprintf(call->text, sizeof call->text, "%zux%zu used=%zu codes=%d act=%d", rows, k, n, codes, act);
    return true;
}

CK_INVOKE(columns_gemv, call->out, &call->columns, call->act, call->a, call->n)

static bool truth_columns_gemv(struct ck *ck, const struct ck_call *call)
{
    const struct bn_columns *w = &call->columns;
    const uint32_t *used = call->a;
    const float *y = call->out;
    for (size_t line = 0; line < w->rows; line += 256) {
        int64_t t[256] = {0};
        for (size_t i = 0; i < call->n; i++)
            for (size_t at = 0; at < 256; at++) { /* byte at / 4, bits 2 (at % 4) */
                unsigned byte = w->codes[used[i] * w->column_bytes + line / 4 + at / 4];
                t[at / 16 % 4 * 64 + at % 4 * 16 + at / 64 * 4 + at / 4 % 4] +=
                    ((int)(byte >> 2 * (at % 4) & 3) - 1) * call->act->q[used[i]];
            }
        for (size_t r = line; r < line + 256 && r < w->rows; r++)
            if (!is_product(ck, call, r, y[r], t[r - line], w->scale)) return false;
    }
    return true;
}

/* ---- 8-bit weights ---- */

struct i8_shape {
    size_t rows, k, n, offset;
    int w, high, low; /* fixed values, or ANY */
};

static int8_t *bytes_of(struct ck *ck, size_t n, int fixed)
{
    int8_t *x = ck_buffer(ck, CK_IN, CK_BYTES, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (int8_t)(fixed != ANY ? fixed : (int)ck_below(ck, 256) - 128);
    return x;
}

static bool setup_i8_gemm(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const int EDGE[] = {-128, -127, 0, 127, ANY};
    struct i8_shape s = {
        .rows = 1 + index % 5, .k = 1 + index / 5, .n = 1, .w = ANY, .high = ANY, .low = ANY};
    if (class == CK_EXTREMES) {
        if (index >= 125 * 3) return false;
        s.w = EDGE[index % 5];
        s.high = EDGE[index / 5 % 5];
        s.low = EDGE[index / 25 % 5];
        s.k = index < 125 ? 2560 : index < 250 ? 65536 : 16383; /* the last: within any room on a stack */
        s.rows = index < 125 ? 3 : 1;
        s.n = 1 + index % 3;
    } else if (class == CK_LAYOUT) {
        if (index >= 60) return false;
        s.k = 60 + index % 9;
        s.n = 1 + index % 7;
        s.offset = index % 5;
        ck->guard_before = s.offset == 0;
    } else if (index < 5 * 200) {
        s.n = index % 3 == 0 ? 1 : 1 + index % 19;
    } else if (index < 5 * 200 + 20) {
        s.rows = 31 + index % 7;
        s.k = 100;
        s.n = index - 5 * 200;
        if (s.n == 0) s.n = 40;
    } else {
        return false;
    }
    int8_t *w = bytes_of(ck, s.offset + s.rows * s.k, s.w);
    call->weights = (const uint8_t *)w + s.offset;
    struct bn_planes *x = ck_buffer(ck, CK_IN, CK_BYTES, s.n * sizeof *x);
    const int8_t *high = bytes_of(ck, s.n * s.k, s.high), *low = bytes_of(ck, s.n * s.k, s.low);
    for (size_t j = 0; j < s.n; j++)
        x[j] = (struct bn_planes){high + j * s.k, low + j * s.k};
    call->a = x;
    call->rows = s.rows;
    call->k = s.k;
    call->n = s.n;
    call->ldy = s.rows + index % 3;
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, ((s.n - 1) * call->ldy + s.rows) * sizeof(float));
    snprintf(call->text, sizeof call->text, "%zux%zu n=%zu w=%d high=%d low=%d", s.rows, s.k, s.n, s.w,
             s.high, s.low);
    return true;
}

CK_INVOKE(i8_gemm, call->out, call->ldy, (const int8_t *)call->weights, call->rows, call->k, call->a, call->n)

static bool truth_i8_gemm(struct ck *ck, const struct ck_call *call)
{
    const int8_t *w = (const int8_t *)call->weights;
    const struct bn_planes *x = call->a;
    const float *y = call->out;
    for (size_t i = 0; i < call->n * call->rows; i++) {
        size_t j = i / call->rows, r = i % call->rows;
        int64_t t = 0;
        for (size_t c = 0; c < call->k; c++)
            t += (int64_t)w[r * call->k + c] * (256 * (int64_t)x[j].high[c] + x[j].low[c]);
        if (!ck_near(ck, "sum", i, y[j * call->ldy + r], (double)t, fabs((double)t) * 0x1p-24)) return false;
    }
    return true;
}

/* ---- what quantising leaves ---- */

static bool setup_residual(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    size_t n = index % 70 == 69 ? 2560 : 1 + index % 70;
    enum ck_values values = class == CK_EXTREMES ? index / 70 : CK_ORDINARY;
    if (index >= (class == CK_EXTREMES ? 70 * CK_N_VALUES : 140)) return false;
    ck->guard_before = class == CK_LAYOUT;
    call->a = ck_floats(ck, n, values);
    call->b = bytes_of(ck, n, ANY);
    call->f = ldexpf(1.5f + 0.5f * ck_uniform(ck), -8);
    call->n = n;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, sizeof(double));
    call->out2 = ck_buffer(ck, CK_OUT, CK_BYTES, sizeof(double));
    snprintf(call->text, sizeof call->text, "n=%zu %s", n, ck_values_name(values));
    return true;
}

static void invoke_residual(const struct bn_kernels *kernels, const struct ck_call *call)
{
    double size, rest; /* the buffers may lie at any address */
    kernels->residual(&size, &rest, call->a, call->b, call->f, call->n);
    memcpy(call->out, &size, sizeof size);
    memcpy(call->out2, &rest, sizeof rest);
}

static bool truth_residual(struct ck *ck, const struct ck_call *call)
{
    const float *x = call->a;
    const int8_t *q = call->b;
    double size = 0, rest = 0, got[2];
    memcpy(&got[0], call->out, sizeof got[0]);
    memcpy(&got[1], call->out2, sizeof got[1]);
    for (size_t i = 0; i < call->n; i++) {
        double d = (double)x[i] - q[i] * (double)call->f;
        size += (double)x[i] * (double)x[i];
        rest += d * d;
    }
    if (!(size < 1e38)) return true; /* beyond binary32: only the bits are compared */
    if (fabs(got[0] - size) > size * 1e-6 + (double)call->n * 1e-38)
        return ck_wrong(ck, "size is %a, expected %a", got[0], size);
    if (fabs(got[1] - rest) > rest * 1e-6 + (double)call->n * 1e-38)
        return ck_wrong(ck, "rest is %a, expected %a", got[1], rest);
    return true;
}

const struct ck_slot CK_PACKED[] = {
    {BN_KERNEL_T5_GEMV, setup_t5_gemv, invoke_t5_gemv, truth_t5_gemv, 0},
    {BN_KERNEL_T5_PACK, setup_t5_pack, invoke_t5_pack, truth_t5_pack, 0},
    {BN_KERNEL_COLUMNS_GEMV, setup_columns_gemv, invoke_columns_gemv, truth_columns_gemv, 0},
    {BN_KERNEL_I8_GEMM, setup_i8_gemm, invoke_i8_gemm, truth_i8_gemm, 0},
    {BN_KERNEL_RESIDUAL, setup_residual, invoke_residual, truth_residual, 0},
    {BN_KERNEL_COUNT, NULL, NULL, NULL, 0},
};
