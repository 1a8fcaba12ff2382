/* SPDX-License-Identifier: MIT
 *
 * Ternary kernels for AVX2. maddubs multiplies unsigned bytes (the codes 0..3, not yet minus 1) with signed
 * ones (the activations) and adds pairs in int16; the activations' own sum is taken away once per row.
 *
 * Bound: a pair is at most 2 * 3 * 127 = 762, so neither maddubs saturates nor do 43 of them wrap. A
 * 128-element block adds four to each lane; after SPAN blocks (40 of them, 30480) the lanes are widened to
 * int32.
 */
#include "kernels_table.h"
#include "ref.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

#define SPAN (10 * BN_I2S_BLOCK)

INLINE __m256i load256(const void *at)
{
    return _mm256_loadu_si256(at);
}

INLINE __m256i three(__m256i codes)
{
    return _mm256_and_si256(codes, _mm256_set1_epi8(3));
}

/* The four codes of each byte, the one in the high bits first. */
INLINE void unpack(__m256i out[4], __m256i codes)
{
    out[0] = three(_mm256_srli_epi16(codes, 6));
    out[1] = three(_mm256_srli_epi16(codes, 4));
    out[2] = three(_mm256_srli_epi16(codes, 2));
    out[3] = three(codes);
}

/* sum + the pairs of u * s. The empty instruction keeps gcc 12 from moving the sums to the stack and back. */
INLINE __m256i add_pairs(__m256i sum, __m256i u, __m256i s)
{
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(u, s));
    __asm__("" : "+x"(sum));
    return sum;
}

INLINE __m256i widen(__m256i sum)
{
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

/* Lane i of the result is the total of v[i]. */
INLINE __m256i sum_each(const __m256i v[8])
{
    __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* ---- I2_S ---- */

/* n rows (a constant, at most 8) of one token. */
INLINE void i2s_rows(float *y, const struct bn_ternary *w, const struct bn_act *x, size_t row, const size_t n)
{
    const uint8_t *codes = w->codes + row * w->row_bytes;
    __m256i total[8];
    for (size_t r = 0; r < 8; r++)
        total[r] = _mm256_setzero_si256();
    for (size_t begin = 0; begin < w->k; begin += SPAN) {
        size_t end = w->k - begin < SPAN ? w->k : begin + SPAN;
        __m256i sum[8];
        for (size_t r = 0; r < n; r++)
            sum[r] = _mm256_setzero_si256();
        for (size_t i = begin; i < end; i += BN_I2S_BLOCK)
            for (size_t r = 0; r < n; r++) {
                const uint8_t *at = codes + r * w->row_bytes + i / 4;
                __m256i code[4];
                unpack(code, load256(at));
                if (i % 256 == 0) _mm_prefetch((const char *)at + n * w->row_bytes, _MM_HINT_T0);
                for (size_t g = 0; g < 4; g++)
                    sum[r] = add_pairs(sum[r], code[g], load256(x->q + i + 32 * g));
            }
        for (size_t r = 0; r < n; r++)
            total[r] = _mm256_add_epi32(total[r], widen(sum[r]));
    }
    int32_t t[8];
    _mm256_storeu_si256((void *)t, sum_each(total));
    for (size_t r = 0; r < n; r++)
        y[row + r] = (float)(t[r] - x->sum) / x->scale * w->scale;
}

void bn_i2s_gemv_avx2(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    size_t row = 0;
    for (; row + 4 <= w->rows; row += 4)
        i2s_rows(y, w, x, row, 4);
    for (; row < w->rows; row++)
        i2s_rows(y, w, x, row, 1);
}

#define TILE_TOKENS 4u
#define CACHED_BYTES (256u << 10) /* of weights, gone through for one tile of tokens after the other */

/* Two rows times n tokens (a constant): every code that is unpacked serves all tokens. rows: 1 or 2. */
INLINE void i2s_tile(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t row,
                     size_t rows, const size_t n)
{
    const uint8_t *codes[2] = {w->codes + row * w->row_bytes, w->codes + (row + rows - 1) * w->row_bytes};
    __m256i total[2 * TILE_TOKENS];
    for (size_t a = 0; a < 2 * TILE_TOKENS; a++)
        total[a] = _mm256_setzero_si256();
    for (size_t begin = 0; begin < w->k; begin += SPAN) {
        size_t end = w->k - begin < SPAN ? w->k : begin + SPAN;
        __m256i sum[2 * TILE_TOKENS];
        for (size_t a = 0; a < 2 * n; a++)
            sum[a] = _mm256_setzero_si256();
        for (size_t i = begin; i < end; i += BN_I2S_BLOCK) {
            __m256i first = load256(codes[0] + i / 4), second = load256(codes[1] + i / 4);
            for (size_t g = 4; g-- > 0;) { /* the low bits first */
                __m256i a = three(first), b = three(second);
                for (size_t j = 0; j < n; j++) {
                    __m256i act = load256(x[j].q + i + 32 * g);
                    sum[2 * j] = add_pairs(sum[2 * j], a, act);
                    sum[2 * j + 1] = add_pairs(sum[2 * j + 1], b, act);
                }
                first = _mm256_srli_epi16(first, 2);
                second = _mm256_srli_epi16(second, 2);
            }
        }
        for (size_t a = 0; a < 2 * n; a++)
            total[a] = _mm256_add_epi32(total[a], widen(sum[a]));
    }
    int32_t t[2 * TILE_TOKENS];
    _mm256_storeu_si256((void *)t, sum_each(total));
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < rows; r++)
            y[j * ldy + row + r] = (float)(t[2 * j + r] - x[j].sum) / x[j].scale * w->scale;
}

void bn_i2s_gemm_avx2(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    size_t step = (CACHED_BYTES / (w->row_bytes + 1) + 2) / 2 * 2;
    for (size_t begin = 0; begin < w->rows; begin += step) {
        size_t end = w->rows - begin < step ? w->rows : begin + step;
        for (size_t j = 0; j < n; j += TILE_TOKENS)
            for (size_t row = begin; row < end; row += 2) {
                size_t rows = end - row < 2 ? 1 : 2;
                float *to = y + j * ldy;
                if (n - j >= 4)
                    i2s_tile(to, ldy, w, x + j, row, rows, 4);
                else if (n - j == 3)
                    i2s_tile(to, ldy, w, x + j, row, rows, 3);
                else if (n - j == 2)
                    i2s_tile(to, ldy, w, x + j, row, rows, 2);
                else
                    i2s_tile(to, ldy, w, x + j, row, rows, 1);
            }
    }
}

/* ---- TQ2 ---- */

#define TQ2_ROWS 8u
#define TQ2_TOKENS 32u /* whose sums are kept while the blocks of eight rows are gone through */

/* Eight rows of one block times one token, exact, minus the activations' own sum. Register 4h + g of a row
 * has the codes of elements 128h + 32g onwards. A lane is at most 8 * (762 + 254) in size. */
INLINE __m256i tq2_block(__m256i codes[TQ2_ROWS][8], const int8_t *q)
{
    __m256i own = _mm256_setzero_si256(), sum[TQ2_ROWS];
    for (size_t g = 0; g < 8; g++)
        own = _mm256_sub_epi16(own, _mm256_maddubs_epi16(_mm256_set1_epi8(1), load256(q + 32 * g)));
    for (size_t r = 0; r < TQ2_ROWS; r++)
        sum[r] = own;
    for (size_t g = 0; g < 8; g++) {
        __m256i act = load256(q + 32 * g);
        for (size_t r = 0; r < TQ2_ROWS; r++)
            sum[r] = add_pairs(sum[r], codes[r][g], act);
    }
    for (size_t r = 0; r < TQ2_ROWS; r++)
        sum[r] = widen(sum[r]);
    return sum_each(sum);
}

/* Eight rows for n <= TQ2_TOKENS tokens; y is that of the first row and token. */
static void tq2_rows(float *y, size_t ldy, const struct bn_ternary *w, size_t row, const struct bn_act *x,
                     size_t n)
{
    __m256i codes[TQ2_ROWS][8];
    __m256 acc[TQ2_TOKENS];
    uint16_t scale[TQ2_ROWS];
    const uint8_t *rows[TQ2_ROWS];
    size_t left = w->rows - row;
    for (size_t r = 0; r < TQ2_ROWS; r++)
        rows[r] = w->codes + (r < left ? row + r : w->rows - 1) * w->row_bytes;
    for (size_t j = 0; j < n; j++)
        acc[j] = _mm256_setzero_ps();
    for (size_t i = 0; i < w->k; i += BN_TQ2_BLOCK) {
        for (size_t r = 0; r < TQ2_ROWS; r++) {
            for (size_t half = 0; half < 2; half++) {
                __m256i four[4];
                unpack(four, load256(rows[r] + 32 * half));
                for (size_t g = 0; g < 4; g++)
                    codes[r][4 * half + g] = four[3 - g]; /* low bits first */
            }
            scale[r] = bn_load_u16(rows[r] + 64);
            _mm_prefetch((const char *)rows[r] + TQ2_ROWS * w->row_bytes, _MM_HINT_T0);
            rows[r] += BN_TQ2_BLOCK_BYTES;
        }
        __m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)scale));
        for (size_t j = 0; j < n; j++)
            acc[j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(tq2_block(codes, x[j].q + i)), d, acc[j]);
    }
    for (size_t j = 0; j < n; j++) {
        float result[TQ2_ROWS];
        _mm256_storeu_ps(result, _mm256_div_ps(acc[j], _mm256_set1_ps(x[j].scale)));
        for (size_t r = 0; r < TQ2_ROWS && r < left; r++)
            y[j * ldy + r] = result[r];
    }
}

void bn_tq2_gemm_avx2(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    for (size_t j = 0; j < n; j += TQ2_TOKENS) {
        size_t batch = n - j < TQ2_TOKENS ? n - j : TQ2_TOKENS;
        for (size_t row = 0; row < w->rows; row += TQ2_ROWS)
            tq2_rows(y + j * ldy + row, ldy, w, row, x + j, batch);
    }
}

void bn_tq2_gemv_avx2(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    bn_tq2_gemm_avx2(y, w->rows, w, x, 1);
}

/* ---- 8-bit weights ---- */

#define I8_AHEAD 8192u /* bytes from the weights to the place to prefetch meanwhile */
#define I8_MAX 16384u  /* longest vector that is joined on the stack, 32 KiB */
/* Bounds: a pair of products is at most 2 * 2^7 * 2^15 = 2^23, so 255 of them fit a lane of int32, and 255
 * weights a lane of int16; here are 252 of both. */
#define I8_SPAN (252u * 16u)

/* 256 * high + low is in -32896..32639; 128 more is a 16-bit number. */
INLINE void i8_join(int16_t *v, const int8_t *high, const int8_t *low, size_t k)
{
    for (size_t i = 0; i < k; i++)
        v[i] = (int16_t)(256 * high[i] + low[i] + 128);
}

struct i8_sums {
    __m256i products[2], weights; /* two, so that additions need not wait for each other */
};

INLINE void i8_add(struct i8_sums *sums, size_t a, const int8_t *w, const int16_t *v)
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)w));
    sums->products[a] = _mm256_add_epi32(sums->products[a], _mm256_madd_epi16(wide, load256(v)));
    sums->weights = _mm256_add_epi16(sums->weights, wide);
}

/* Of the products minus 128 times the weights. */
INLINE int64_t i8_total(const struct i8_sums *sums)
{
    int64_t lane[4];
    __m256i v = _mm256_add_epi32(sums->products[0], sums->products[1]);
    __m256i wide = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)),
                                    _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
    __m256i own = _mm256_slli_epi32(widen(sums->weights), 7);
    wide = _mm256_sub_epi64(wide, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(own)));
    wide = _mm256_sub_epi64(wide, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(own, 1)));
    _mm256_storeu_si256((void *)lane, wide);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

INLINE int64_t i8_dot(const int8_t *w, const int16_t *v, const int8_t *high, const int8_t *low, size_t k)
{
    int64_t dot = 0;
    size_t i = 0;
    while (i + 16 <= k) {
        size_t end = k - i < I8_SPAN ? k : i + I8_SPAN;
        struct i8_sums sums = {{_mm256_setzero_si256(), _mm256_setzero_si256()}, _mm256_setzero_si256()};
        for (; i + 64 <= end; i += 64) {
            _mm_prefetch((const char *)w + i + I8_AHEAD, _MM_HINT_T0);
            for (size_t a = 0; a < 4; a++)
                i8_add(&sums, a % 2, w + i + 16 * a, v + i + 16 * a);
        }
        for (; i + 16 <= end; i += 16)
            i8_add(&sums, 0, w + i, v + i);
        dot += i8_total(&sums);
    }
    for (; i < k; i++)
        dot += w[i] * (256 * high[i] + low[i]);
    return dot;
}

void bn_i8_gemv_avx2(float *y, const int8_t *w, size_t rows, size_t k, const int8_t *high, const int8_t *low)
{
    int16_t v[I8_MAX];
    if (k > I8_MAX) {
        bn_i8_gemv_ref(y, w, rows, k, high, low);
        return;
    }
    i8_join(v, high, low, k);
    for (size_t r = 0; r < rows; r++)
        y[r] = (float)i8_dot(w + r * k, v, high, low, k);
}

/* ---- activations ---- */

INLINE float max_of(__m256 v)
{
    float lane[8], max = 0.0f;
    _mm256_storeu_ps(lane, v);
    for (size_t i = 0; i < 8; i++)
        max = lane[i] > max ? lane[i] : max;
    return max;
}

void bn_quantize_avx2(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    __m256 maxima = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        maxima = _mm256_max_ps(maxima, _mm256_and_ps(_mm256_loadu_ps(x + i), magnitude));
    float max = max_of(maxima);
    for (; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    float s = (float)(127.0 / ((double)max > 1e-5 ? (double)max : 1e-5));
    __m256i sums = _mm256_setzero_si256();
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (i = 0; i + 32 <= n; i += 32) {
        __m256i v[4]; /* to nearest even; at most 127, as |x| <= max */
        for (size_t j = 0; j < 4; j++) {
            v[j] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * j), _mm256_set1_ps(s)));
            sums = _mm256_add_epi32(sums, v[j]);
        }
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
        _mm256_storeu_si256((void *)(q + i), _mm256_permutevar8x32_epi32(bytes, order));
    }
    int32_t lane[8], total = 0;
    _mm256_storeu_si256((void *)lane, sums);
    for (size_t j = 0; j < 8; j++)
        total += lane[j];
    for (; i < n; i++) {
        q[i] = (int8_t)rintf(x[i] * s);
        total += q[i];
    }
    *scale = s;
    *sum = total;
}

bool bn_has_code3_avx2(const uint8_t *codes, size_t n)
{
    __m256i found = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i v = load256(codes + i);
        found = _mm256_or_si256(found, _mm256_and_si256(v, _mm256_srli_epi16(v, 1)));
    }
    return !_mm256_testz_si256(found, _mm256_set1_epi8(0x55)) || bn_has_code3_ref(codes + i, n - i);
}
