/* SPDX-License-Identifier: MIT
 *
 * Ternary kernels for AVX-512 with VNNI. vpdpbusd multiplies unsigned bytes (the codes 0..3, not yet minus 1)
 * with signed ones (the activations) and adds four products to an int32 without saturation; the activations'
 * own sum is taken away once per row. All sums are exact, so their order is free.
 *
 * Products of one token leave the codes where they are: of a byte with four codes, mask 0xC0 gives 64 times
 * the first, 0x30 16 times the second, and so on. Each mask has its own accumulator, which is shifted back at
 * the end. Bound: a lane takes 4 products of at most 192 * 127 per 256 elements, 4.0e8 at k = 2^20.
 *
 * Products of many tokens unpack eight rows to bytes first and use them for all tokens.
 */
#include <string.h>

#include "kernels/kernels_table.h"
#include "kernels/x86/avx512.h"

/* ---- I2_S, one token ---- */

struct i2s_sums {
    __m512i part[4]; /* times 64, 16, 4, 1 */
};

INLINE void i2s_add(struct i2s_sums *sums, __m512i codes, const __m512i act[4])
{
    sums->part[0] = dot4(sums->part[0], codes & _mm512_set1_epi8((char)0xC0), act[0]);
    sums->part[1] = dot4(sums->part[1], codes & _mm512_set1_epi8(0x30), act[1]);
    sums->part[2] = dot4(sums->part[2], codes & _mm512_set1_epi8(0x0C), act[2]);
    sums->part[3] = dot4(sums->part[3], codes & _mm512_set1_epi8(0x03), act[3]);
}

INLINE int32_t i2s_total(const struct i2s_sums *sums)
{
    __m512i high = add32(_mm512_srai_epi32(sums->part[0], 6), _mm512_srai_epi32(sums->part[1], 4));
    __m512i low = add32(_mm512_srai_epi32(sums->part[2], 2), sums->part[3]);
    return _mm512_reduce_add_epi32(add32(high, low));
}

/* n rows (a constant) at once share the activations. Two blocks make one register; the activations of the two
 * are joined to match. */
INLINE void i2s_rows(float *y, const struct bn_ternary *w, const struct bn_act *x, size_t row, const size_t n)
{
    const uint8_t *codes = w->codes + row * w->row_bytes;
    struct i2s_sums sums[4] = {0};
    size_t i = 0;
    for (; i + 256 <= w->k; i += 256) {
        __m512i act[4];
        for (size_t g = 0; g < 4; g++)
            act[g] = join256(load256(x->q + i + 32 * g), load256(x->q + i + 128 + 32 * g));
        for (size_t r = 0; r < n; r++) {
            const uint8_t *at = codes + r * w->row_bytes + i / 4;
            _mm_prefetch((const char *)at + n * w->row_bytes,
                         _MM_HINT_T0); /* the same place of the next rows */
            i2s_add(&sums[r], load512(at), act);
        }
    }
    if (i < w->k) { /* an odd block: the upper half is zero */
        __m512i act[4];
        for (size_t g = 0; g < 4; g++)
            act[g] = _mm512_zextsi256_si512(load256(x->q + i + 32 * g));
        for (size_t r = 0; r < n; r++)
            i2s_add(&sums[r], _mm512_zextsi256_si512(load256(codes + r * w->row_bytes + i / 4)), act);
    }
    for (size_t r = 0; r < n; r++)
        y[row + r] = (float)(i2s_total(&sums[r]) - x->sum) / x->scale * w->scale;
}

/* A matrix that comes from memory is read in the order of its addresses, one row after the other, and
 * prefetched a fixed way ahead: on a Zen 5 that reaches 37 GB/s a thread where four rows at a time reach 28
 * (the memory gives 38). Joining the activations once then makes up for not sharing their loads between rows.
 */
#define STREAM_AHEAD 8192u /* bytes */
#define STREAM_MAX 16384u  /* longest row, in elements, whose activations are joined on the stack */

static void i2s_stream(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    __m512i act[STREAM_MAX / 64];
    for (size_t i = 0, v = 0; i < w->k; i += 256)
        for (size_t g = 0; g < 4; g++, v++) {
            const int8_t *at = x->q + i + 32 * g;
            act[v] = i + 128 < w->k ? join256(load256(at), load256(at + 128))
                                    : _mm512_zextsi256_si512(load256(at));
        }
    for (size_t r = 0; r < w->rows; r++) {
        const uint8_t *codes = w->codes + r * w->row_bytes;
        struct i2s_sums sums = {0};
        size_t i = 0;
        for (; i + 256 <= w->k; i += 256) {
            _mm_prefetch((const char *)codes + i / 4 + STREAM_AHEAD, _MM_HINT_T0);
            i2s_add(&sums, load512(codes + i / 4), act + i / 64);
        }
        if (i < w->k) i2s_add(&sums, _mm512_zextsi256_si512(load256(codes + i / 4)), act + i / 64);
        y[r] = (float)(i2s_total(&sums) - x->sum) / x->scale * w->scale;
    }
}

void bn_i2s_gemv_avx512vnni(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    size_t row = 0;
    if (w->streamed && w->k <= STREAM_MAX) {
        i2s_stream(y, w, x);
        return;
    }
    for (; row + 4 <= w->rows; row += 4)
        i2s_rows(y, w, x, row, 4);
    for (; row < w->rows; row++)
        i2s_rows(y, w, x, row, 1);
}

/* ---- I2_S, many tokens ---- */

#define TILE_ROWS 8u
#define TILE_TOKENS 6u
#define CHUNK 2560u /* elements of a row that are unpacked at once: 20 KiB for eight rows */
/* Of a second-level cache of a megabyte or more, which cores with these instructions have. */
#define ACT_BYTES (640u << 10)
#define BATCH_TOKENS 128u /* tokens that share an unpacked tile */

/* Rows first .. first + 7; those past the last repeat it, and their results are not stored. */
INLINE void rows_of(const uint8_t *row[TILE_ROWS], const struct bn_ternary *w, size_t first)
{
    for (size_t r = 0; r < TILE_ROWS; r++)
        row[r] = w->codes + (first + r < w->rows ? first + r : w->rows - 1) * w->row_bytes;
}

/* Register p of four holds codes of row p in its lower half and of row p + 4 in its upper one. */
INLINE void i2s_unpack(__m512i *out, const uint8_t *const row[TILE_ROWS], size_t begin, size_t end)
{
    const __m512i three = _mm512_set1_epi8(3);
    for (size_t i = begin; i < end; i += BN_I2S_BLOCK, out += 16)
        for (size_t p = 0; p < 4; p++) {
            __m512i codes = join256(load256(row[p] + i / 4), load256(row[p + 4] + i / 4));
            out[p] = _mm512_srli_epi16(codes, 6) & three;
            out[4 + p] = _mm512_srli_epi16(codes, 4) & three;
            out[8 + p] = _mm512_srli_epi16(codes, 2) & three;
            out[12 + p] = codes & three;
        }
}

/* Asks for the same elements of the next eight rows: they arrive while the tile is multiplied. */
INLINE void prefetch_next(const uint8_t *const row[TILE_ROWS], size_t row_bytes, size_t begin, size_t end)
{
    for (size_t r = 0; r < TILE_ROWS; r++)
        for (size_t i = begin / 4; i < end / 4; i += 64)
            _mm_prefetch((const char *)row[r] + TILE_ROWS * row_bytes + i, _MM_HINT_T1);
}

/* The totals of eight rows, in order, from the four registers of i2s_unpack. */
INLINE __m256i sum_rows(const __m512i part[4])
{
    __m512i a = add32(_mm512_unpacklo_epi32(part[0], part[1]), _mm512_unpackhi_epi32(part[0], part[1]));
    __m512i b = add32(_mm512_unpacklo_epi32(part[2], part[3]), _mm512_unpackhi_epi32(part[2], part[3]));
    __m512i c = add32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    __m256i low = _mm512_castsi512_si256(c), high = _mm512_extracti64x4_epi64(c, 1);
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                            _mm256_permute2x128_si256(low, high, 0x31));
}

/* sum[2 * j] += eight rows times token j, for n tokens (a constant), over len elements from the begin'th. */
INLINE void i2s_tile(__m256i *sum, const __m512i *codes, const struct bn_act *x, size_t begin, size_t len,
                     const size_t n)
{
    __m512i part[TILE_TOKENS][4];
    for (size_t j = 0; j < n; j++)
        for (size_t p = 0; p < 4; p++)
            part[j][p] = _mm512_setzero_si512();
    for (size_t i = 0; i < len; i += 32, codes += 4)
        for (size_t j = 0; j < n; j++) {
            __m512i act = repeat256(x[j].q + begin + i);
            for (size_t p = 0; p < 4; p++)
                part[j][p] = dot4(part[j][p], codes[p], act);
        }
    for (size_t j = 0; j < n; j++)
        sum[2 * j] = _mm256_add_epi32(sum[2 * j], sum_rows(part[j]));
}

INLINE void i2s_tiles(__m256i *sum, const __m512i *codes, const struct bn_act *x, size_t n, size_t begin,
                      size_t len)
{
    size_t j = 0;
    for (; j + 6 <= n; j += 6)
        i2s_tile(sum + 2 * j, codes, x + j, begin, len, 6);
    switch (n - j) {
    case 5:
        i2s_tile(sum + 2 * j, codes, x + j, begin, len, 5);
        break;
    case 4:
        i2s_tile(sum + 2 * j, codes, x + j, begin, len, 4);
        break;
    case 3:
        i2s_tile(sum + 2 * j, codes, x + j, begin, len, 3);
        break;
    case 2:
        i2s_tile(sum + 2 * j, codes, x + j, begin, len, 2);
        break;
    case 1:
        i2s_tile(sum + 2 * j, codes, x + j, begin, len, 1);
        break;
    default:
        break;
    }
}

/* As many tokens as leave room for weights in a cache of a megabyte, in whole tiles. */
INLINE size_t batch_tokens(size_t k)
{
    size_t n = ACT_BYTES / (k + 1) / TILE_TOKENS * TILE_TOKENS;
    return n < TILE_TOKENS ? TILE_TOKENS : n < BATCH_TOKENS ? n : BATCH_TOKENS;
}

/* sum[2 * j] = eight rows from the row'th on times token j, minus what the codes are too large by. */
static void i2s_eight(__m256i *sum, const struct bn_ternary *w, size_t row, const struct bn_act *x, size_t n)
{
    __m512i codes[TILE_ROWS * CHUNK / 64];
    const uint8_t *rows[TILE_ROWS];
    rows_of(rows, w, row);
    for (size_t j = 0; j < n; j++)
        sum[2 * j] = _mm256_set1_epi32(-x[j].sum);
    for (size_t i = 0; i < w->k; i += CHUNK) {
        size_t len = w->k - i < CHUNK ? w->k - i : CHUNK;
        i2s_unpack(codes, rows, i, i + len);
        prefetch_next(rows, w->row_bytes, i, i + len);
        i2s_tiles(sum, codes, x, n, i, len);
    }
}

/* Sixteen rows are stored together: a whole line of each token's results, which lie pages apart. */
void bn_i2s_gemm_avx512vnni(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                            size_t n)
{
    __m512i sum[BATCH_TOKENS];
    if (n == 1) {
        bn_i2s_gemv_avx512vnni(y, w, x);
        return;
    }
    if (n <= FEW_TOKENS && w->k <= FEW_MAX_K) {
        bn_i2s_few_avx512vnni(y, ldy, w, x, n);
        return;
    }
    const size_t most = batch_tokens(w->k);
    for (size_t first = 0; first < n; first += most) {
        size_t batch = n - first < most ? n - first : most;
        for (size_t row = 0; row < w->rows; row += 2 * TILE_ROWS) {
            size_t left = w->rows - row;
            __mmask16 store = (__mmask16)(left < 16 ? (1u << left) - 1u : 0xFFFFu);
            for (size_t j = 0; j < batch; j++)
                _mm_prefetch((const char *)(y + (first + j) * ldy + row), _MM_HINT_T1);
            i2s_eight((__m256i *)sum, w, row, x + first, batch);
            if (left > TILE_ROWS) i2s_eight((__m256i *)sum + 1, w, row + TILE_ROWS, x + first, batch);
            for (size_t j = 0; j < batch; j++) {
                __m512 t = _mm512_div_ps(_mm512_cvtepi32_ps(sum[j]), _mm512_set1_ps(x[first + j].scale));
                _mm512_mask_storeu_ps(y + (first + j) * ldy + row, store,
                                      _mm512_mul_ps(t, _mm512_set1_ps(w->scale)));
            }
        }
    }
}

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
