/* SPDX-License-Identifier: MIT
 *
 * 8-bit weights, and activations of 8 bits, for AVX-512 with VNNI. vpdpbusd multiplies unsigned bytes with signed ones
 * and adds four products to an int32 without saturation. All sums are exact, so their order is free.
 */
#include <string.h>

#include "kernels/kernels_table.h"
#include "kernels/x86/avx512.h"

#define STREAM_AHEAD \
    8192u /* bytes from weights to the place to prefetch meanwhile: on a Zen 5 that reaches 37 GB/s */

/* ---- 8-bit weights ---- */

/* vpdpbusd wants one side unsigned: the weights are taken 128 too high, and 128 times the vector's sum is
 * taken away at the end. Bound: 255 * 128 * 2^16 is below 2^31. */
INLINE int64_t sum_planes(const struct bn_planes *x, size_t k)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i high = _mm512_setzero_si512(), low = high;
    for (size_t i = 0; i < k; i += 64) {
        __mmask64 here = k - i < 64 ? ((__mmask64)1 << (k - i)) - 1 : ~(__mmask64)0;
        high = dot4(high, ones, _mm512_maskz_loadu_epi8(here, x->high + i));
        low = dot4(low, ones, _mm512_maskz_loadu_epi8(here, x->low + i));
    }
    return 256 * (int64_t)_mm512_reduce_add_epi32(high) + _mm512_reduce_add_epi32(low);
}

static void i8_one(float *y, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x)
{
    const __m512i top = _mm512_set1_epi8((char)0x80);
    int64_t sum = sum_planes(x, k);
    for (size_t r = 0; r < rows; r++, w += k) {
        __m512i parts[2] = {0};
        size_t i = 0;
        for (; i + 64 <= k; i += 64) {
            _mm_prefetch((const char *)w + i + STREAM_AHEAD, _MM_HINT_T0);
            __m512i u = load512(w + i) ^ top;
            parts[0] = dot4(parts[0], u, load512(x->high + i));
            parts[1] = dot4(parts[1], u, load512(x->low + i));
        }
        if (i < k) {
            __mmask64 rest = ((__mmask64)1 << (k - i)) - 1;
            __m512i u = _mm512_maskz_loadu_epi8(rest, w + i) ^ top;
            parts[0] = dot4(parts[0], u, _mm512_maskz_loadu_epi8(rest, x->high + i));
            parts[1] = dot4(parts[1], u, _mm512_maskz_loadu_epi8(rest, x->low + i));
        }
        int64_t highs = _mm512_reduce_add_epi32(parts[0]), lows = _mm512_reduce_add_epi32(parts[1]);
        y[r] = (float)(256 * highs + lows - 128 * sum);
    }
}

#define I8_GROUP 4u  /* vectors that share the loads of weights */
#define I8_BATCH 16u /* vectors that share a block of rows in the cache */
#define I8_ROWS 32u  /* of a block */

/* Up to I8_GROUP vectors; row r and vector j of a tile are in lane tile_rows j + r. */
struct i8_group {
    struct bn_planes x[I8_GROUP]; /* the last one repeated */
    size_t n, tile_rows;
    int64_t minus[8];
};

static void i8_set(struct i8_group *g, const struct bn_planes *x, size_t n, size_t k)
{
    g->n = n;
    g->tile_rows = n <= 2 ? 4 : 2;
    for (size_t j = 0; j < I8_GROUP; j++)
        g->x[j] = x[j < n ? j : n - 1];
    for (size_t j = 0; j * g->tile_rows < 8; j++) {
        int64_t minus = 128 * sum_planes(&g->x[j], k);
        for (size_t r = 0; r < g->tile_rows; r++)
            g->minus[g->tile_rows * j + r] = minus;
    }
}

/* sum[rows j + r] takes the high plane of vector j, the eighth after it the low plane. rows, n and full are
 * constants; unless full, only the elements of `here` exist. */
INLINE void i8_add(__m512i sum[16], const int8_t *w, size_t step, const struct bn_planes *x, size_t i,
                   const bool full, __mmask64 here, const size_t rows, const size_t n)
{
    __m512i u[4];
    for (size_t r = 0; r < rows; r++) {
        const int8_t *at = w + r * step + i;
        u[r] = (full ? load512(at) : _mm512_maskz_loadu_epi8(here, at)) ^ _mm512_set1_epi8((char)0x80);
    }
    for (size_t j = 0; j < n; j++) {
        __m512i high = full ? load512(x[j].high + i) : _mm512_maskz_loadu_epi8(here, x[j].high + i);
        __m512i low = full ? load512(x[j].low + i) : _mm512_maskz_loadu_epi8(here, x[j].low + i);
        for (size_t r = 0; r < rows; r++) {
            sum[rows * j + r] = dot4(sum[rows * j + r], u[r], high);
            sum[8 + rows * j + r] = dot4(sum[8 + rows * j + r], u[r], low);
        }
    }
}

/* The totals of a tile, whose rows begin at w, step apart. With each vector of weights n_ahead (a constant) places from
 * *ahead on are prefetched, by bytes of `stride`. */
INLINE __m512i i8_tile(const int8_t *w, size_t step, size_t k, const struct i8_group *g, const char **ahead,
                       size_t stride, const size_t n_ahead, const size_t rows, const size_t n)
{
    __m512i sum[16];
    for (size_t v = 0; v < 16; v++)
        sum[v] = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 64 <= k; i += 64) {
        for (size_t r = 0; r < n_ahead; r++, *ahead += stride)
            _mm_prefetch(*ahead, _MM_HINT_T1);
        i8_add(sum, w, step, g->x, i, true, 0, rows, n);
    }
    if (i < k) i8_add(sum, w, step, g->x, i, false, ((__mmask64)1 << (k - i)) - 1, rows, n);
    return sum_each(sum);
}

/* The results of a tile from its totals. */
INLINE __m256 i8_convert(__m512i totals, const struct i8_group *g)
{
    __m512i highs = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(totals));
    __m512i lows = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(totals, 1));
    __m512i dots = _mm512_add_epi64(_mm512_slli_epi64(highs, 8), lows);
    return _mm512_cvtepi64_ps(_mm512_sub_epi64(dots, load512(g->minus)));
}

/* Rows that are too few for a tile are taken alone, as a tile of equal rows. All tiles of a block are summed before they
 * are converted, so that none waits for its totals. */
INLINE void i8_rows(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct i8_group *g,
                    const char *ahead, size_t stride, const size_t n_ahead, const size_t tile_rows,
                    const size_t n)
{
    __m512i totals[I8_ROWS / 2 + 1];
    size_t t = 0;
    for (size_t r = 0, step; r < rows; r += step) {
        const bool full = rows - r >= tile_rows;
        step = full ? tile_rows : 1;
        totals[t++] = i8_tile(w + r * k, full ? k : 0, k, g, &ahead, stride, n_ahead, tile_rows, n);
    }
    t = 0;
    for (size_t r = 0, step; r < rows; r += step) {
        const bool full = rows - r >= tile_rows;
        float out[8];
        step = full ? tile_rows : 1;
        _mm256_storeu_ps(out, i8_convert(totals[t++], g));
        for (size_t j = 0; j < g->n; j++) /* sizes are constants, so that no call is made */
            memcpy(y + j * ldy + r, out + tile_rows * j, full ? tile_rows * sizeof *y : sizeof *y);
    }
}

/* Each group of vectors prefetches its share of the next block, so that memory is busy all the time. */
static void i8_many(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x,
                    size_t n)
{
    struct i8_group group[I8_BATCH / I8_GROUP];
    size_t n_groups = (n + I8_GROUP - 1) / I8_GROUP;
    for (size_t g = 0; g < n_groups; g++)
        i8_set(&group[g], x + g * I8_GROUP, n - g * I8_GROUP < I8_GROUP ? n - g * I8_GROUP : I8_GROUP, k);
    for (size_t r = 0; r < rows; r += I8_ROWS) {
        size_t count = rows - r < I8_ROWS ? rows - r : I8_ROWS;
        for (size_t g = 0; g < n_groups; g++) {
            const char *ahead = (const char *)w + (r + I8_ROWS) * k + I8_ROWS * k / n_groups * g;
            float *out = y + g * I8_GROUP * ldy + r;
            if (group[g].tile_rows == 4)
                i8_rows(out, ldy, w + r * k, count, k, &group[g], ahead, 64 / n_groups, 4, 4, 2);
            else if (n_groups == 1)
                i8_rows(out, ldy, w + r * k, count, k, &group[g], ahead, 64, 2, 2, 4);
            else
                i8_rows(out, ldy, w + r * k, count, k, &group[g], ahead, 128 / n_groups, 1, 2, 4);
        }
    }
}

void bn_i8_gemm_avx512vnni(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k,
                           const struct bn_planes *x, size_t n)
{
    if (n == 1) {
        i8_one(y, w, rows, k, x);
        return;
    }
    for (size_t j = 0; j < n; j += I8_BATCH)
        i8_many(y + j * ldy, ldy, w, rows, k, x + j, n - j < I8_BATCH ? n - j : I8_BATCH);
}

/* ---- activations ---- */

void bn_quantize_avx512vnni(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    __m512 max = _mm512_setzero_ps();
    __m512i total = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 here = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1u : 0xFFFFu);
        max = _mm512_max_ps(_mm512_abs_ps(_mm512_maskz_loadu_ps(here, x + i)), max); /* a NaN is not taken */
    }
    double amax = (double)_mm512_reduce_max_ps(max);
    float s = (float)(127.0 / (amax > 1e-5 ? amax : 1e-5));
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 here = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1u : 0xFFFFu);
        __m512 product = _mm512_mul_ps(_mm512_maskz_loadu_ps(here, x + i), _mm512_set1_ps(s));
        /* To nearest even; |x| <= amax, and 127 takes the place of a NaN. */
        __m512i v = _mm512_cvtps_epi32(_mm512_min_ps(product, _mm512_set1_ps(127.0f)));
        total = add32(total, v);
        _mm_mask_storeu_epi8(q + i, here, _mm512_cvtepi32_epi8(v));
    }
    *scale = s;
    *sum = _mm512_reduce_add_epi32(total);
}

bool bn_has_code3_avx512vnni(const uint8_t *codes, size_t n)
{
    const __m512i low = _mm512_set1_epi8(0x55);
    for (size_t i = 0; i < n; i += 64) {
        __mmask64 here = n - i < 64 ? (1ull << (n - i)) - 1u : ~0ull;
        __m512i v = _mm512_maskz_loadu_epi8(here, codes + i);
        if (_mm512_test_epi8_mask(_mm512_srli_epi16(v, 1) & v, low) != 0) return true;
    }
    return false;
}
