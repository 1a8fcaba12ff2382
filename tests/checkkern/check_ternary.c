/* SPDX-License-Identifier: MIT
 *
 * I2_S products, the quantisation of activations, the search for code 3. The truth decodes the layout by a decoder of
 * its own and sums in int64.
 */
#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum codes { CODES_0, CODES_1, CODES_2, CODES_3, CODES_ANY, CODES_TERNARY, N_CODES };
enum acts { ACTS_PLUS, ACTS_MINUS, ACTS_ALTERNATE, ACTS_HALVES, ACTS_ZERO, ACTS_RANDOM, N_ACTS };

enum { GEMV, GEMM };

struct shape {
    size_t rows, k, n;
    size_t pad, offset; /* extra bytes between rows; distance of the codes from the buffer's start */
    size_t ldy_pad;
    size_t gap;  /* bytes between rows of activations */
    bool uneven; /* and 4 more after every third of them */
    enum codes codes;
    enum acts acts;
};

static uint8_t code_byte(struct ck *ck, enum codes codes)
{
    unsigned byte = ck_random(ck) & 0xFFu;
    if (codes <= CODES_3) return (uint8_t)(codes * 0x55u);
    if (codes == CODES_TERNARY) /* a field of 3 becomes 1 */
        byte &= ~((byte & byte >> 1 & 0x55u) << 1);
    return (uint8_t)byte;
}

static void make_matrix(struct ck *ck, struct ck_call *call, const struct shape *s)
{
    size_t stride = s->k / 4 + s->pad, all = s->rows * stride - s->pad;
    uint8_t *codes = ck_buffer(ck, CK_IN, CK_BYTES, s->offset + all);
    codes += s->offset;
    for (size_t i = 0; i < all; i++)
        codes[i] = code_byte(ck, s->codes);
    call->weights = codes;
    call->w = (struct bn_ternary){.codes = codes,
                                  .rows = s->rows,
                                  .k = s->k,
                                  .row_bytes = stride,
                                  .scale = 0.25f + fabsf(ck_uniform(ck))};
    call->w.streamed = ck_below(ck, 2) == 1; /* both ways give the same bits */
}

static int8_t act_value(struct ck *ck, enum acts acts, size_t i)
{
    switch (acts) {
    case ACTS_PLUS:
        return 127;
    case ACTS_MINUS:
        return -127;
    case ACTS_ALTERNATE:
        return i % 2 == 0 ? 127 : -127;
    case ACTS_HALVES:
        return i / 16 % 2 == 0 ? -127 : 127;
    case ACTS_ZERO:
        return 0;
    case ACTS_RANDOM:
    case N_ACTS:
        break;
    }
    return (int8_t)((int)ck_below(ck, 255) - 127);
}

static void make_acts(struct ck *ck, struct ck_call *call, const struct shape *s)
{
    size_t more = s->uneven ? 4 : 0, last = s->n - 1;
    int8_t *rows = ck_buffer(ck, CK_IN, CK_BYTES, last * (s->k + s->gap) + last / 3 * more + s->k);
    struct bn_act *act = ck_buffer(ck, CK_IN, CK_BYTES, s->n * sizeof *act);
    for (size_t j = 0; j < s->n; j++) {
        int8_t *q = rows + j * (s->k + s->gap) + j / 3 * more;
        int32_t sum = 0;
        for (size_t i = 0; i < s->k; i++) {
            q[i] = act_value(ck, s->acts, i);
            sum += q[i];
        }
        float scale = 1.5f + 0.5f * ck_uniform(ck);
        scale = ldexpf(scale, (int)ck_below(ck, 9) - 2);
        act[j] = (struct bn_act){.q = q, .sum = sum, .scale = scale};
    }
    call->act = act;
    call->n = s->n;
}

static bool make_product(struct ck *ck, struct ck_call *call, const struct shape *s)
{
    snprintf(call->text, sizeof call->text, "%zux%zu n=%zu pad=%zu offset=%zu codes=%d acts=%d", s->rows,
             s->k, s->n, s->pad, s->offset, (int)s->codes, (int)s->acts);
    make_matrix(ck, call, s);
    make_acts(ck, call, s);
    call->ldy = s->rows + s->ldy_pad;
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, ((s->n - 1) * call->ldy + s->rows) * sizeof(float));
    return true;
}

static const size_t SOME_K[] = {128, 256, 384, 2560, 6912};

static bool extreme_product(struct ck *ck, struct ck_call *call, unsigned index, bool gemm)
{
    static const size_t LONG_K = (size_t)1 << 20;
    struct shape s = {.rows = 5, .n = gemm ? 9 : 1};
    if (index < N_CODES * N_ACTS * 2) {
        s.codes = index % N_CODES;
        s.acts = index / N_CODES % N_ACTS;
        s.k = index < N_CODES * N_ACTS ? 2560 : 4224;
    } else if (index < N_CODES * N_ACTS * 2 + 3) {
        s.codes = index % 3 == 0 ? CODES_ANY : CODES_3;
        s.acts = index % 3 == 2 ? ACTS_MINUS : ACTS_PLUS;
        s.k = LONG_K;
        s.rows = gemm ? 1 : 2;
        s.n = gemm ? 8 : 1;
    } else {
        return false;
    }
    return make_product(ck, call, &s);
}

static bool setup_product(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    bool gemm = call->variant == GEMM;
    static const struct {
        size_t rows, k, n;
    } LARGE[] = {{17, 512, 1},   {33, 768, 1},  {100, 2560, 1}, {37, 768, 67}, {133, 256, 35}, {1100, 512, 7},
                 {9, 2560, 17},  {9, 6912, 17}, {24, 2560, 64}, {3, 256, 130}, {33, 768, 265}, {3, 6912, 137},
                 {65, 1280, 49}, {37, 6912, 8}, {35, 6912, 4},  {18, 6912, 14}};
    struct shape s = {.codes = index % 3 == 0 ? CODES_ANY : CODES_TERNARY, .acts = ACTS_RANDOM, .n = 1};
    unsigned regular = gemm ? 4 * 9 * 17 : 5 * 9;
    if (class == CK_EXTREMES) return extreme_product(ck, call, index, gemm);
    if (class == CK_LAYOUT) {
        static const size_t PAD[] = {0, 1, 3, 7, 32, 64}, OFFSET[] = {0, 1, 5, 31};
        if (index >= 72) return false;
        s.pad = PAD[index % 6];
        s.offset = OFFSET[index / 6 % 4];
        s.rows = 1 + index % 9;
        s.k = SOME_K[index % 4];
        s.n = gemm ? 1 + index % 23 : 1;
        s.ldy_pad = gemm ? index % 3 : 0;
        s.gap = index % 5 * 16;
        s.uneven = index % 7 == 3;
        ck->guard_before = index % 2 == 0;
    } else if (index < regular) {
        s.rows = 1 + index % 9;
        s.k = gemm ? SOME_K[index / 9 % 4] : SOME_K[index / 9];
        s.n = gemm ? 1 + index / 36 : 1;
        if (gemm && s.k == 2560) s.k = 1280;
    } else {
        if (index - regular >= COUNT(LARGE)) return false;
        s.rows = LARGE[index - regular].rows;
        s.k = LARGE[index - regular].k;
        if (gemm) s.n = LARGE[index - regular].n;
    }
    return make_product(ck, call, &s);
}

CK_INVOKE(i2s_gemv, call->out, &call->w, call->act)
CK_INVOKE(i2s_gemm, call->out, call->ldy, &call->w, call->act, call->n)

/* Weight of element i of a row: -1, 0, 1, or 2 for code 3. */
static int i2s_weight(const uint8_t *row, size_t i)
{
    size_t block = i / 128, in = i % 128;
    return (row[block * 32 + in % 32] >> (6 - 2 * (in / 32)) & 3) - 1;
}

static bool truth_i2s(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out;
    for (size_t j = 0; j < call->n; j++)
        for (size_t r = 0; r < call->w.rows; r++) {
            int64_t t = 0;
            for (size_t i = 0; i < call->w.k; i++)
                t += i2s_weight(call->weights + r * call->w.row_bytes, i) * call->act[j].q[i];
            double want = (double)t / (double)call->act[j].scale * (double)call->w.scale;
            if (!ck_near(ck, "product", j * call->ldy + r, y[j * call->ldy + r], want, fabs(want) * 0x1p-22))
                return false;
        }
    return true;
}

/* ---- quantize ---- */

static bool setup_quantize(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const size_t LARGE[] = {128, 1000, 2560, 6912};
    enum ck_values values = CK_ORDINARY;
    bool ties = false;
    int wild = 0;
    size_t n = index + 1;
    if (class == CK_EXTREMES) {
        static const size_t N[] = {1, 16, 31, 70, 2560};
        if (index >= COUNT(N) * (CK_N_VALUES + 3)) return false;
        n = N[index % COUNT(N)];
        values = index / (unsigned)COUNT(N);
        ties = values == CK_N_VALUES;
        wild = (int)values - CK_N_VALUES;
    } else if (index >= 67) {
        if (index - 67 >= COUNT(LARGE)) return false;
        n = LARGE[index - 67];
    }
    ck->guard_before = class == CK_LAYOUT;
    float *x = ck_buffer(ck, CK_IN, CK_FLOATS, n * sizeof *x);
    ck_fill_f32(ck, x, n, values < CK_N_VALUES ? values : CK_ORDINARY);
    if (wild > 0) ck_make_wild(x, n, wild > 1);
    if (ties) /* scale 1: every product lies between two integers */
        for (size_t i = 0; i < n; i++)
            x[i] = i == n - 1 ? 127.0f : (float)(i % 254) - 126.5f;
    call->a = x;
    call->n = n;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, n);
    call->out2 = ck_buffer(ck, CK_OUT, CK_FLOATS, sizeof(float));
    call->out3 = ck_buffer(ck, CK_OUT, CK_BYTES, sizeof(int32_t));
    snprintf(call->text, sizeof call->text, "n=%zu %s", n,
             wild > 0 ? "not finite"
             : ties   ? "ties"
                      : ck_values_name(values));
    return true;
}

CK_INVOKE(quantize, call->out, call->out2, call->out3, call->a, call->n)

static bool truth_quantize(struct ck *ck, const struct ck_call *call)
{
    const float *x = call->a, *scale = call->out2;
    const int8_t *q = call->out;
    const int32_t *sum = call->out3;
    double amax = 1e-5;
    int32_t total = 0;
    for (size_t i = 0; i < call->n; i++)
        amax = fmax(amax, fabs((double)x[i]));
    float s = (float)(127.0 / amax);
    if (s < *scale || s > *scale) return ck_wrong(ck, "scale is %a, expected %a", (double)*scale, (double)s);
    for (size_t i = 0; i < call->n; i++) {
        volatile float product = x[i] * s;
        long want = isnan(product) ? 127 : lrintf(product);
        if (want != q[i] || labs(want) > 127)
            return ck_wrong(ck, "q[%zu] is %d, expected %ld", i, q[i], want);
        total += q[i];
    }
    return total == *sum || ck_wrong(ck, "sum is %d, expected %d", *sum, total);
}

/* ---- has_code3 ---- */

static bool setup_has_code3(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const uint8_t FIXED[] = {0x00, 0x55, 0xAA, 0x96, 0x69, 0x66, 0x99, 0xFF};
    enum { PLANTED = 4 * 130 };
    size_t n = index / 2;
    uint8_t fixed = 0;
    if (class == CK_EXTREMES) {
        if (index >= PLANTED + COUNT(FIXED) * 4) return false;
        n = index < PLANTED ? 130 : 61 + index % 7;
        fixed = index < PLANTED ? 0 : FIXED[(index - PLANTED) / 4];
    } else if (index >= 600) {
        return false;
    }
    size_t offset = class == CK_LAYOUT ? index % 5 : 0;
    ck->guard_before = class == CK_LAYOUT && offset == 0;
    uint8_t *codes = ck_buffer(ck, CK_IN, CK_BYTES, offset + n);
    codes += offset;
    for (size_t i = 0; i < n; i++)
        codes[i] = code_byte(ck, CODES_TERNARY);
    if (class == CK_EXTREMES && index >= PLANTED) memset(codes, fixed, n);
    if (class == CK_EXTREMES && index < PLANTED) codes[index / 4] |= (uint8_t)(3u << 2 * (index % 4));
    if (class < CK_EXTREMES && index % 2 == 1 && n > 0) codes[ck_below(ck, (uint32_t)n)] |= 0x30;
    call->weights = codes;
    call->n = n;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, 1);
    snprintf(call->text, sizeof call->text, "n=%zu case %u", n, index);
    return true;
}

static void invoke_has_code3(const struct bn_kernels *kernels, const struct ck_call *call)
{
    *(uint8_t *)call->out = kernels->has_code3(call->weights, call->n);
}

static bool truth_has_code3(struct ck *ck, const struct ck_call *call)
{
    bool found = false;
    for (size_t i = 0; i < 4 * call->n; i++)
        found |= (call->weights[i / 4] >> 2 * (i % 4) & 3) == 3;
    return found == (*(uint8_t *)call->out == 1) || ck_wrong(ck, "found is not %d", found);
}

const struct ck_slot CK_TERNARY[] = {
    {BN_KERNEL_I2S_GEMV, setup_product, invoke_i2s_gemv, truth_i2s, GEMV},
    {BN_KERNEL_I2S_GEMM, setup_product, invoke_i2s_gemm, truth_i2s, GEMM},
    {BN_KERNEL_QUANTIZE, setup_quantize, invoke_quantize, truth_quantize, 0},
    {BN_KERNEL_HAS_CODE3, setup_has_code3, invoke_has_code3, truth_has_code3, 0},
    {BN_KERNEL_COUNT, NULL, NULL, NULL, 0},
};
