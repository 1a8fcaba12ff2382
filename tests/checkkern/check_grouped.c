/* SPDX-License-Identifier: MIT
 *
 * Products of ternary weights, and the activations of 16 and 8 bits for them. The
 * truth walks over the bytes of the planes, reads each code with a decoder of its own, and sums in int64 and
 * binary64.
 */
#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TERNARY 1001 /* random codes without 3 */
#define NARROW 1002  /* no high plane: 8 bits */
#define WHOLE 1003   /* I2_S: one scale, values in their order */

enum { GEMV, GEMM };
enum steps { STEPS_ORDINARY, STEPS_SMALLEST, STEPS_LARGE, N_STEPS };

struct shape {
    size_t rows, groups, group, n, ldy_pad;
    size_t gap;           /* bytes between planes */
    bool uneven;          /* and 64 more after every third token */
    bool may_be_stored;   /* as rows of a file */
    int codes, high, low; /* a fixed value, or one of those above */
    enum ck_values scales;
    enum steps steps;
};

static const size_t GROUP[] = {128, 64, 256};

/* Tiles of codes, and of scales. Returns the codes. */
static uint8_t *make_matrix(struct ck *ck, struct ck_call *call, const struct shape *s)
{
    size_t tiles = (s->rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS, k = s->groups * s->group;
    size_t bytes = tiles * 4 * k, halves = tiles * s->groups * BN_TILE_ROWS;
    uint8_t *codes = ck_buffer(ck, CK_IN, CK_BYTES, bytes);
    for (size_t i = 0; i < bytes; i++) {
        unsigned byte = ck_random(ck) & 0xFFu;
        if (s->codes == TERNARY) byte &= ~((byte & byte >> 1 & 0x55u) << 1);
        codes[i] = (uint8_t)(s->codes < 4 ? 0x55u * (unsigned)s->codes : byte);
    }
    call->tiles = (struct bn_ternary){.codes = codes, .rows = s->rows, .k = k, .group = s->group};
    if (s->high == WHOLE) {
        call->tiles.blocks = BN_BLOCKS_I2S;
        call->tiles.scale = 0.25f + fabsf(ck_uniform(ck));
    } else {
        call->tiles.scales = ck_halves(ck, halves, s->scales);
    }
    call->tiles.streamed = ck_below(ck, 2) == 1; /* both ways give the same bits */
    return codes;
}

/* ---- rows of a file ---- */

static const struct stored {
    enum bn_blocks blocks;
    size_t group, bytes, scale_at;
} STORED[] = {{BN_BLOCKS_Q2, 128, 34, 0},   {BN_BLOCKS_Q2, 64, 18, 0},     {BN_BLOCKS_TQ2, 256, 66, 64},
              {BN_BLOCKS_TQ1, 256, 54, 52}, {BN_BLOCKS_PTQ1, 128, 28, 26}, {BN_BLOCKS_Q2, 256, 66, 0},
              {BN_BLOCKS_I2S, 128, 32, 32}};

/* Digit d of a byte to base 3 is the integer part of byte * 3^(d + 1) / 256, modulo 3. */
static unsigned true_code(const struct stored *s, const uint8_t *block, unsigned i)
{
    static const unsigned POW3[] = {3, 9, 27, 81, 243};
    if (s->blocks == BN_BLOCKS_Q2) return block[2 + i / 4] >> 2 * (i & 3) & 3u;
    if (s->blocks == BN_BLOCKS_I2S) return block[i & 31] >> 2 * (3 - (i >> 5)) & 3u;
    if (s->blocks == BN_BLOCKS_TQ2) return block[(i >> 7) * 32 + (i & 31)] >> 2 * (i >> 5 & 3) & 3u;
    unsigned n = s->blocks == BN_BLOCKS_TQ1 ? 32 : 16, at = 0;
    if (i >= 5 * n) i -= 5 * n, at += n, n /= 2;
    if (at > 0 && i >= 5 * n) i -= 5 * n, at += n, n /= 4;
    return block[at + i % n] * POW3[i / n] / 256 % 3;
}

/* Puts the code of weight i in row r. */
static void put_code(uint8_t *codes, size_t k, size_t r, size_t i, unsigned code)
{
    uint8_t *byte = codes + r / 16 * 4 * k + i / 16 * 64 + r % 16 * 4 + i / 4 % 4;
    *byte = (uint8_t)((*byte & ~(3u << 2 * (i % 4))) | code << 2 * (i % 4));
}

/* Rows of I2_S with some bytes between them: the four bytes of a row in a tile, side by side. */
static void make_i2s(struct ck *ck, struct ck_call *call, const struct shape *s)
{
    struct bn_ternary *w = &call->tiles;
    size_t row_bytes = w->k / 4 + s->gap / 64;
    uint8_t *stored = ck_buffer(ck, CK_IN, CK_BYTES, (s->rows - 1) * row_bytes + w->k / 4);
    for (size_t r = 0; r < s->rows; r++)
        for (size_t at = 0; at < w->k / 4; at += 4)
            memcpy(stored + r * row_bytes + at, w->codes + r / 16 * 4 * w->k + at * 16 + r % 16 * 4, 4);
    w->stored = stored;
    w->row_bytes = row_bytes;
}

/* The matrix as rows of a file, with which the kernels then compute. Rows of Q2_0 get the codes of the tiles; those of
 * other blocks are random, and the tiles get their codes. */
static void make_stored(struct ck *ck, struct ck_call *call, uint8_t *codes, const struct shape *s)
{
    if (s->high == WHOLE) {
        make_i2s(ck, call, s);
        return;
    }
    const struct stored *of = &STORED[ck_below(ck, COUNT(STORED) - 1)];
    while (of->group != s->group || (s->codes != ANY && s->codes != TERNARY && of->blocks != BN_BLOCKS_Q2))
        of = &STORED[ck_below(ck, COUNT(STORED) - 1)];
    struct bn_ternary *w = &call->tiles;
    size_t row_bytes = s->groups * of->bytes;
    uint8_t *stored = ck_buffer(ck, CK_IN, CK_BYTES, s->rows * row_bytes);
    for (size_t i = 0; i < s->rows * row_bytes; i++)
        stored[i] = (uint8_t)ck_below(ck, 256);
    for (size_t r = 0; r < s->rows; r++)
        for (size_t i = 0; i < w->k; i++) {
            uint8_t *block = stored + r * row_bytes + i / s->group * of->bytes;
            unsigned at = (unsigned)(i % s->group), shift = 2 * (at & 3), code = bn_ternary_code(w, r, i);
            memcpy(block + of->scale_at, &w->scales[(r / 16 * s->groups + i / s->group) * 16 + r % 16], 2);
            if (of->blocks == BN_BLOCKS_Q2)
                block[2 + at / 4] = (uint8_t)((block[2 + at / 4] & ~(3u << shift)) | code << shift);
            else
                put_code(codes, w->k, r, i, true_code(of, block, at));
        }
    w->blocks = of->blocks;
    w->stored = stored;
    w->row_bytes = row_bytes;
}

/* ---- products ---- */

/* Where the plane of token j begins. */
static size_t plane_at(const struct shape *s, size_t j)
{
    return j * (s->groups * s->group + s->gap) + (s->uneven ? j / 3 * 64 : 0);
}

static int8_t *plane(struct ck *ck, size_t n, int fixed)
{
    int8_t *x = ck_buffer(ck, CK_IN, CK_BYTES, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (int8_t)(fixed != ANY ? fixed : (int)ck_below(ck, 256) - 128);
    return x;
}

static float one_step(struct ck *ck, enum steps steps)
{
    if (steps == STEPS_SMALLEST) return 0x1p-113f;
    return ldexpf(1.0f, (int)ck_below(ck, 12) - (steps == STEPS_LARGE ? -70 : 20));
}

static float ordinary_scale(struct ck *ck)
{
    float scale = 1.5f + 0.5f * ck_uniform(ck);
    return ldexpf(scale, (int)ck_below(ck, 9) - 2);
}

/* Values in their order. */
static void make_values(struct ck *ck, struct ck_call *call, const struct shape *s)
{
    size_t k = s->groups * s->group;
    int8_t *q = plane(ck, plane_at(s, s->n - 1) + k, s->low);
    struct bn_act *act = ck_buffer(ck, CK_IN, CK_BYTES, s->n * sizeof *act);
    for (size_t j = 0; j < s->n; j++) {
        int8_t *row = q + plane_at(s, j);
        act[j] = (struct bn_act){.q = row, .scale = ordinary_scale(ck)};
        for (size_t i = 0; i < k; i++) {
            if (row[i] == -128) row[i] = -127;
            act[j].total += row[i];
        }
    }
    call->a = act;
    call->n = s->n;
}

static void make_acts(struct ck *ck, struct ck_call *call, const struct shape *s)
{
    if (s->high == WHOLE) {
        make_values(ck, call, s);
        return;
    }
    size_t k = s->groups * s->group, all = s->n * s->groups;
    bool wide = s->high != NARROW;
    size_t n_plane = plane_at(s, s->n - 1) + k;
    int8_t *high = wide ? plane(ck, n_plane, s->high) : NULL, *low = plane(ck, n_plane, s->low);
    float *step = wide ? ck_buffer(ck, CK_IN, CK_FLOATS, all * sizeof *step) : NULL;
    int32_t *sum = ck_buffer(ck, CK_IN, CK_BYTES, all * sizeof *sum);
    struct bn_act *act = ck_buffer(ck, CK_IN, CK_BYTES, s->n * sizeof *act);
    for (size_t g = 0; g < all; g++) {
        if (wide) step[g] = one_step(ck, s->steps);
        sum[g] = 0;
        size_t first = plane_at(s, g / s->groups) + g % s->groups * s->group;
        for (size_t i = first; i < first + s->group; i++)
            sum[g] += (wide ? 256 * high[i] : 0) + low[i];
    }
    for (size_t j = 0; j < s->n; j++) {
        act[j] = (struct bn_act){.low = low + plane_at(s, j), .sum = sum + j * s->groups, .scale = 1.0f};
        if (wide) {
            act[j].high = high + plane_at(s, j);
            act[j].step = step + j * s->groups;
        } else {
            act[j].scale = ordinary_scale(ck);
        }
    }
    call->a = act;
    call->n = s->n;
}

static bool make_product(struct ck *ck, struct ck_call *call, const struct shape *s)
{
    snprintf(call->text, sizeof call->text, "%zux%zu/%zu n=%zu codes=%d high=%d low=%d scales=%d steps=%d",
             s->rows, s->groups * s->group, s->group, s->n, s->codes, s->high, s->low, (int)s->scales,
             (int)s->steps);
    uint8_t *codes = make_matrix(ck, call, s);
    if (s->may_be_stored && ck_below(ck, 2) == 1) make_stored(ck, call, codes, s);
    make_acts(ck, call, s);
    call->ldy = s->rows + s->ldy_pad;
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, ((s->n - 1) * call->ldy + s->rows) * sizeof(float));
    return true;
}

static bool extreme_product(struct ck *ck, struct ck_call *call, unsigned index, bool gemm)
{
    static const int CODE[] = {0, 1, 2, 3, ANY}, LOW[] = {-128, 0, 127, ANY},
                     HIGH[] = {-128, 0, 127, ANY, NARROW, WHOLE};
    enum { PLANES = COUNT(CODE) * COUNT(HIGH) * COUNT(LOW) * COUNT(GROUP) };
    struct shape s = {.rows = 19, .groups = 5, .n = gemm ? 9 : 1, .scales = CK_ORDINARY};
    s.may_be_stored = !gemm;
    s.codes = s.high = s.low = ANY;
    if (index < PLANES) {
        s.codes = CODE[index % 5];
        s.high = HIGH[index / 5 % COUNT(HIGH)];
        s.low = LOW[index / 30 % 4];
        s.group = s.high == WHOLE ? 128 : GROUP[index / 120];
        s.groups = s.group == 64 ? 9 : s.high == WHOLE && s.group != GROUP[index / 120] ? 33 : 3;
    } else if (index < PLANES + CK_N_VALUES * (N_STEPS + 1) * COUNT(GROUP)) {
        index -= PLANES;
        s.scales = index % CK_N_VALUES;
        s.steps = index / CK_N_VALUES % (N_STEPS + 1);
        s.group = GROUP[index / CK_N_VALUES / (N_STEPS + 1)];
        if (s.steps == N_STEPS) s.high = NARROW; /* which has no steps */
    } else if (index <
               PLANES + CK_N_VALUES * (N_STEPS + 1) * COUNT(GROUP) + 3) { /* as long as a row can be */
        index = index % 3;
        s.codes = index == 0 ? ANY : 3;
        s.low = index == 2 ? -127 : 127;
        s.high = WHOLE;
        s.group = 128;
        s.groups = ((size_t)1 << 20) / s.group;
        s.rows = gemm ? 1 : 2;
        s.n = gemm ? 8 : 1;
    } else {
        return false;
    }
    return make_product(ck, call, &s);
}

/* Rows of whole tiles, of one row more or less, and of a few; tokens 1 .. 20; odd numbers of groups, so that
 * no chunk of a fixed size ends where a matrix does; each with activations of 16 and of 8 bits, and as I2_S. */
static bool setup_product(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    bool gemm = call->variant == GEMM;
    static const size_t ROWS[] = {1, 15, 16, 17, 31, 32, 33, 40, 49, 63, 64, 81};
    static const size_t GROUPS[] = {1, 2, 3, 5, 9, 13};
    static const int HIGH[] = {ANY, NARROW, WHOLE};
    static const struct {
        size_t rows, groups, group, n;
    } LARGE[] = {{100, 20, 128, 67}, {16, 108, 64, 131}, {130, 27, 256, 35},
                 {1100, 4, 128, 7},  {9, 128, 128, 2},   {40, 11, 128, 265}};
    unsigned regular = gemm ? 20 * 3 * 4 : COUNT(ROWS) * COUNT(GROUPS) * COUNT(GROUP);
    if (class == CK_EXTREMES) return extreme_product(ck, call, index, gemm);
    struct shape s = {.may_be_stored = !gemm, .high = HIGH[index % 3], .low = ANY, .n = 1};
    index /= 3;
    s.codes = index % 3 == 0 ? ANY : TERNARY;
    s.rows = ROWS[(gemm ? 5 * index : index) % COUNT(ROWS)];
    s.group = GROUP[index / 20 % COUNT(GROUP)];
    if (gemm) s.n = 1 + index % 20;
    if (class == CK_LAYOUT) {
        if (index >= 72) return false;
        s.groups = GROUPS[index % 5];
        s.ldy_pad = gemm ? index % 4 : 0;
        s.gap = index % 5 * 64;
        s.uneven = index % 7 == 3;
        ck->guard_before = index % 2 == 0;
    } else if (index < regular) {
        s.groups = GROUPS[(gemm ? index / 3 : index / COUNT(ROWS)) % COUNT(GROUPS)];
        if (!gemm) s.group = GROUP[index / COUNT(ROWS) / COUNT(GROUPS)];
    } else {
        if (index - regular >= COUNT(LARGE)) return false;
        s.rows = LARGE[index - regular].rows;
        s.groups = LARGE[index - regular].groups;
        s.group = LARGE[index - regular].group;
        if (gemm) s.n = LARGE[index - regular].n;
    }
    if (s.high == WHOLE) s.group = 128;
    return make_product(ck, call, &s);
}

/* Kernels that compute with the rows of a file get no tiles. */
static struct bn_ternary matrix_of(const struct ck_call *call)
{
    struct bn_ternary w = call->tiles;
    if (w.stored != NULL) w.codes = NULL;
    return w;
}

static void invoke_gemv(const struct bn_kernels *kernels, const struct ck_call *call)
{
    struct bn_ternary w = matrix_of(call);
    kernels->ternary_gemv(call->out, &w, call->a);
}

CK_INVOKE(ternary_gemm, call->out, call->ldy, &call->tiles, call->a, call->n)

/* The exact sum of group g: bytes at .. at + 3 of a plane, whose elements lie four apart, belong to one pair
 * of bits in the four bytes of the row. */
static int64_t exact_sum(const struct bn_ternary *w, size_t row, size_t g, const struct bn_act *x)
{
    const uint8_t *tile = w->codes + row / 16 * 4 * w->k;
    int64_t t = 0;
    for (size_t at = g * w->group; at < (g + 1) * w->group; at++) {
        unsigned byte = tile[at / 16 * 64 + row % 16 * 4 + at % 4];
        int64_t q = x->low[at] + (x->high != NULL ? 256 * (int64_t)x->high[at] : 0);
        t += ((int)(byte >> 2 * (at % 16 / 4) & 3u) - 1) * q;
    }
    return t;
}

/* The exact sum of a row of I2_S: byte 4m + p of a block lies at 64m + p, and has elements 32 apart. */
static int64_t exact_row(const struct bn_ternary *w, size_t row, const int8_t *q)
{
    const uint8_t *tile = w->codes + row / 16 * 4 * w->k + row % 16 * 4;
    int64_t t = 0;
    for (size_t i = 0; i < w->k; i++) {
        size_t byte = i / 128 * 32 + i % 32;
        t += ((tile[byte / 4 * 64 + byte % 4] >> 2 * (3 - i % 128 / 32) & 3) - 1) * q[i];
    }
    return t;
}

static bool truth_whole(struct ck *ck, const struct ck_call *call)
{
    const struct bn_act *x = call->a;
    const float *y = call->out;
    for (size_t j = 0; j < call->n; j++)
        for (size_t r = 0; r < call->tiles.rows; r++) {
            double t = (double)exact_row(&call->tiles, r, x[j].q);
            double want = t / (double)x[j].scale * (double)call->tiles.scale;
            if (!ck_near(ck, "product", j * call->ldy + r, y[j * call->ldy + r], want, fabs(want) * 0x1p-22))
                return false;
        }
    return true;
}

static bool truth_product(struct ck *ck, const struct ck_call *call)
{
    if (call->tiles.scales == NULL) return truth_whole(ck, call);
    const struct bn_ternary *w = &call->tiles;
    const struct bn_act *x = call->a;
    const float *y = call->out;
    size_t groups = w->k / w->group;
    for (size_t j = 0; j < call->n; j++)
        for (size_t r = 0; r < w->rows; r++) {
            double sum = 0, size = 0;
            for (size_t g = 0; g < groups; g++) {
                double scale = ck_half(&w->scales[(r / 16 * groups + g) * 16 + r % 16]);
                double step = (x[j].high != NULL ? (double)x[j].step[g] : 1.0) / (double)x[j].scale;
                double term = (double)exact_sum(w, r, g, &x[j]) * step * scale;
                sum += term;
                size += fabs(term);
            }
            double tolerance = ((double)groups + 3) * (size * 0x1p-24 + 0x1p-149);
            if (!ck_near(ck, "product", j * call->ldy + r, y[j * call->ldy + r], sum, tolerance))
                return false;
        }
    return true;
}

/* ---- activations ---- */

/* Halves between two integers, and the values next to a power of two, where the step changes. */
static void fill_edges(float *x, size_t n, size_t group)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 254) - 126.5f;
    for (size_t g = 0; g < n / group; g++) {
        float power = ldexpf(1.0f, 13 - (int)(g % 3));
        x[g * group + g % group] = g % 4 == 0 ? power : g % 4 == 1 ? -nextafterf(2 * power, 0) : 1.5f * power;
    }
}

static bool setup_quantize16(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    size_t group = GROUP[index % 3], groups = 1 + index / 3;
    enum ck_values values = CK_ORDINARY;
    bool edges = false;
    int wild = 0;
    if (class == CK_EXTREMES) {
        if (index >= 3 * (CK_N_VALUES + 3)) return false;
        values = index / 3;
        edges = values == CK_N_VALUES;
        wild = (int)values - CK_N_VALUES;
        groups = 37;
    } else if (index >= 3 * 12) {
        return false;
    }
    size_t n = groups * group;
    ck->guard_before = class == CK_LAYOUT;
    float *x = ck_buffer(ck, CK_IN, CK_FLOATS, n * sizeof *x);
    ck_fill_f32(ck, x, n, values < CK_N_VALUES ? values : CK_ORDINARY);
    if (wild > 0) ck_make_wild(x, n, wild > 1);
    if (edges) fill_edges(x, n, group);
    call->a = x;
    call->n = n;
    call->k = group;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, n);
    call->out2 = ck_buffer(ck, CK_OUT, CK_BYTES, n);
    call->out3 = ck_buffer(ck, CK_OUT, CK_FLOATS, groups * sizeof(float));
    call->out4 = ck_buffer(ck, CK_OUT, CK_BYTES, groups * sizeof(int32_t));
    snprintf(call->text, sizeof call->text, "n=%zu group=%zu %s", n, group,
             wild > 0 ? "not finite"
             : edges  ? "edges"
                      : ck_values_name(values));
    return true;
}

CK_INVOKE(quantize16, call->out, call->out2, call->out3, call->out4, call->a, call->n, call->k)

static bool truth_quantize16(struct ck *ck, const struct ck_call *call)
{
    const float *x = call->a, *step = call->out3;
    const int8_t *high = call->out, *low = call->out2;
    const int32_t *sum = call->out4;
    for (size_t g = 0; g < call->n / call->k; g++) {
        double amax = 0x1p-100, want;
        int32_t total = 0;
        int exponent;
        for (size_t i = g * call->k; i < (g + 1) * call->k; i++)
            amax = fmax(amax, fabs((double)x[i]));
        (void)frexp(amax, &exponent); /* amax is in 2^(exponent - 1) .. 2^exponent */
        want = isinf(amax) ? amax : ldexp(1.0, exponent - 1 - 13);
        if ((double)step[g] < want || (double)step[g] > want)
            return ck_wrong(ck, "step %zu is %a, expected %a", g, (double)step[g], want);
        for (size_t at = g * call->k; at < (g + 1) * call->k; at++) {
            size_t i = at / 16 * 16 + at % 4 * 4 + at % 16 / 4; /* the element of this byte */
            double quotient = (double)x[i] / want;
            int32_t q = 256 * high[at] + low[at],
                    expected = isnan(quotient) ? 16384 : (int32_t)nearbyint(quotient);
            if (q != expected) return ck_wrong(ck, "element %zu is %d, expected %d", i, q, expected);
            total += q;
        }
        if (total != sum[g]) return ck_wrong(ck, "sum %zu is %d, expected %d", g, sum[g], total);
    }
    return true;
}

/* ---- activations of 8 bits ---- */

static bool setup_to_plane(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const int VALUE[] = {ANY, -128, 127};
    size_t group = GROUP[index % 3], groups = 1 + index / 3;
    int value = ANY;
    if (class == CK_EXTREMES) {
        if (index >= 3 * COUNT(VALUE)) return false;
        value = VALUE[index / 3];
        groups = 37;
    } else if (index >= 3 * 12) {
        return false;
    }
    size_t n = groups * group;
    ck->guard_before = class == CK_LAYOUT;
    call->a = plane(ck, n, value);
    call->n = n;
    call->k = group;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, n);
    call->out2 = ck_buffer(ck, CK_OUT, CK_BYTES, groups * sizeof(int32_t));
    snprintf(call->text, sizeof call->text, "n=%zu group=%zu value=%d", n, group, value);
    return true;
}

CK_INVOKE(to_plane, call->out, call->out2, call->a, call->n, call->k)

static bool truth_to_plane(struct ck *ck, const struct ck_call *call)
{
    const int8_t *q = call->a, *got = call->out;
    const int32_t *sum = call->out2;
    for (size_t g = 0; g < call->n / call->k; g++) {
        int32_t total = 0;
        for (size_t at = g * call->k; at < (g + 1) * call->k; at++) {
            size_t i = at / 16 * 16 + at % 4 * 4 + at % 16 / 4; /* the element of this byte */
            if (got[at] != q[i]) return ck_wrong(ck, "element %zu is %d, expected %d", i, got[at], q[i]);
            total += q[at];
        }
        if (total != sum[g]) return ck_wrong(ck, "sum %zu is %d, expected %d", g, sum[g], total);
    }
    return true;
}

/* ---- tiles from the rows of a file ---- */

static bool setup_to_tiles(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const size_t ROWS[] = {16, 1, 15, 17, 32, 40}, GROUPS[] = {1, 2, 3, 7};
    static const int VALUE[] = {0x00, 0xFF, 0x55, 0xAA};
    const struct stored *s = &STORED[index % COUNT(STORED)];
    size_t rows = 33, groups = 5;
    index /= COUNT(STORED);
    if (class == CK_EXTREMES) {
        if (index >= COUNT(VALUE)) return false;
    } else {
        if (index >= COUNT(ROWS) * COUNT(GROUPS)) return false;
        rows = ROWS[index % COUNT(ROWS)];
        groups = GROUPS[index / COUNT(ROWS)];
    }
    size_t gap = class == CK_LAYOUT ? 6 : 0, row_bytes = groups * s->bytes + gap;
    size_t tiles = (rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS;
    ck->guard_before = class == CK_LAYOUT;
    uint8_t *stored = ck_buffer(ck, CK_IN, CK_BYTES, (rows - 1) * row_bytes + groups * s->bytes);
    for (size_t i = 0; i < (rows - 1) * row_bytes + groups * s->bytes; i++)
        stored[i] = (uint8_t)(class == CK_EXTREMES ? VALUE[index] : (int)ck_below(ck, 256));
    call->tiles = (struct bn_ternary){.rows = rows, .k = groups * s->group, .group = s->group};
    call->tiles.blocks = s->blocks;
    call->tiles.stored = stored;
    call->tiles.row_bytes = row_bytes;
    call->tiles.streamed = ck_below(ck, 2) == 1;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, tiles * 4 * call->tiles.k);
    if (s->blocks != BN_BLOCKS_I2S)
        call->out2 = ck_buffer(ck, CK_OUT, CK_BYTES, tiles * groups * BN_TILE_ROWS * sizeof(uint16_t));
    call->n = (size_t)(s - STORED);
    snprintf(call->text, sizeof call->text, "%zux%zu/%zu blocks=%d", rows, call->tiles.k, s->group,
             (int)s->blocks);
    return true;
}

CK_INVOKE(to_tiles, call->out, call->out2, &call->tiles)

/* The code of weight i of a row in a tile. */
static unsigned tile_code(const uint8_t *row, enum bn_blocks blocks, size_t i)
{
    if (blocks == BN_BLOCKS_I2S)
        return row[i / 128 * 512 + i % 32 / 4 * 64 + i % 4] >> 2 * (3 - i % 128 / 32) & 3u;
    return row[i / 16 * 64 + i / 4 % 4] >> 2 * (i % 4) & 3u;
}

static bool truth_to_tiles(struct ck *ck, const struct ck_call *call)
{
    const struct stored *s = &STORED[call->n];
    const struct bn_ternary *w = &call->tiles;
    const uint8_t *codes = call->out, *scales = call->out2;
    size_t padded = (w->rows + 15) / 16 * 16, groups = w->k / s->group;
    for (size_t r = 0; r < padded; r++)
        for (size_t i = 0; i < w->k; i++) {
            const uint8_t *block = w->stored + r * w->row_bytes + i / s->group * s->bytes;
            unsigned got = tile_code(codes + r / 16 * 4 * w->k + r % 16 * 4, s->blocks, i);
            unsigned want = r < w->rows ? true_code(s, block, (unsigned)(i % s->group)) : 0;
            if (got != want) return ck_wrong(ck, "weight %zu of row %zu is %u, expected %u", i, r, got, want);
            if (scales == NULL) continue;
            const uint8_t *scale = scales + 2 * ((r / 16 * groups + i / s->group) * 16 + r % 16);
            for (size_t b = 0; b < 2; b++)
                if (scale[b] != (r < w->rows ? block[s->scale_at + b] : 0))
                    return ck_wrong(ck, "the scale of weight %zu of row %zu is wrong", i, r);
        }
    return true;
}

const struct ck_slot CK_GROUPED[] = {
    {BN_KERNEL_TERNARY_GEMV, setup_product, invoke_gemv, truth_product, GEMV},
    {BN_KERNEL_TERNARY_GEMM, setup_product, invoke_ternary_gemm, truth_product, GEMM},
    {BN_KERNEL_QUANTIZE16, setup_quantize16, invoke_quantize16, truth_quantize16, 0},
    {BN_KERNEL_TO_PLANE, setup_to_plane, invoke_to_plane, truth_to_plane, 0},
    {BN_KERNEL_TO_TILES, setup_to_tiles, invoke_to_tiles, truth_to_tiles, 0},
    {BN_KERNEL_COUNT, NULL, NULL, NULL, 0},
};
