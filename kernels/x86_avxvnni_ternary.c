/* SPDX-License-Identifier: MIT
 *
 * I2_S and 8-bit products for processors with VNNI on 256-bit registers and no AVX-512. The method is that of
 * x86_avx512_ternary.c, where the bounds stand: codes masked where they are for one token, unpacked once for
 * many tokens; vpdpbusd adds to int32 without saturation.
 */
#include "kernels_table.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load256(const void *at)
{
    return _mm256_loadu_si256(at);
}

INLINE __m256i mask(__m256i codes, int byte)
{
    return _mm256_and_si256(codes, _mm256_set1_epi8((char)byte));
}

/* acc + four unsigned bytes of u times four signed bytes of s; an instruction for the reason given there. */
INLINE __m256i dot4(__m256i acc, __m256i u, __m256i s)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(s));
    return acc;
}

INLINE int32_t total(__m256i v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

#define STREAM_AHEAD 8192u /* bytes from a row that comes from memory to the place to prefetch meanwhile */

/* n rows (a constant, at most 2) of one token. */
INLINE void i2s_rows(float *y, const struct bn_ternary *w, const struct bn_act *x, size_t row, const size_t n,
                     size_t ahead)
{
    const uint8_t *codes = w->codes + row * w->row_bytes;
    __m256i part[2][4];
    for (size_t r = 0; r < 2; r++)
        for (size_t g = 0; g < 4; g++)
            part[r][g] = _mm256_setzero_si256();
    for (size_t i = 0; i < w->k; i += BN_I2S_BLOCK) {
        __m256i code[2];
        for (size_t r = 0; r < n; r++) {
            const uint8_t *at = codes + r * w->row_bytes + i / 4;
            code[r] = load256(at);
            if (i % 256 == 0) _mm_prefetch((const char *)at + ahead, _MM_HINT_T0);
        }
        for (size_t g = 0; g < 4; g++) {
            __m256i act = load256(x->q + i + 32 * g);
            for (size_t r = 0; r < n; r++)
                part[r][g] = dot4(part[r][g], mask(code[r], 0xC0 >> 2 * g), act);
        }
    }
    for (size_t r = 0; r < n; r++) {
        __m256i high = _mm256_add_epi32(_mm256_srai_epi32(part[r][0], 6), _mm256_srai_epi32(part[r][1], 4));
        __m256i low = _mm256_add_epi32(_mm256_srai_epi32(part[r][2], 2), part[r][3]);
        y[row + r] = (float)(total(_mm256_add_epi32(high, low)) - x->sum) / x->scale * w->scale;
    }
}

void bn_i2s_gemv_avxvnni(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    size_t row = 0;
    for (; !w->streamed && row + 2 <= w->rows; row += 2)
        i2s_rows(y, w, x, row, 2, 4 * w->row_bytes);
    for (; row < w->rows; row++) /* in the order of addresses, which suits memory */
        i2s_rows(y, w, x, row, 1, STREAM_AHEAD);
}

#define TILE_ROWS 4u
#define TILE_TOKENS 3u
#define CHUNK 2560u      /* elements of a row that are unpacked at once */
#define BATCH_TOKENS 96u /* tokens that share an unpacked tile */

/* Four registers, one of each row, for every 32 elements. */
INLINE void i2s_unpack(__m256i *out, const uint8_t *const row[TILE_ROWS], size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i += BN_I2S_BLOCK, out += 16)
        for (size_t r = 0; r < TILE_ROWS; r++) {
            __m256i codes = load256(row[r] + i / 4);
            out[r] = mask(_mm256_srli_epi16(codes, 6), 3);
            out[4 + r] = mask(_mm256_srli_epi16(codes, 4), 3);
            out[8 + r] = mask(_mm256_srli_epi16(codes, 2), 3);
            out[12 + r] = mask(codes, 3);
        }
}

/* sum[j][r] += row r times token j, for n tokens (a constant), over len elements from the begin'th. */
INLINE void i2s_tile(int32_t (*sum)[TILE_ROWS], const __m256i *codes, const struct bn_act *x, size_t begin,
                     size_t len, const size_t n)
{
    __m256i part[TILE_TOKENS][TILE_ROWS];
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < TILE_ROWS; r++)
            part[j][r] = _mm256_setzero_si256();
    for (size_t i = 0; i < len; i += 32, codes += TILE_ROWS) {
        __m256i act[TILE_TOKENS];
        for (size_t j = 0; j < n; j++)
            act[j] = load256(x[j].q + begin + i);
        for (size_t r = 0; r < TILE_ROWS; r++)
            for (size_t j = 0; j < n; j++)
                part[j][r] = dot4(part[j][r], codes[r], act[j]);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < TILE_ROWS; r++)
            sum[j][r] += total(part[j][r]);
}

void bn_i2s_gemm_avxvnni(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    __m256i codes[TILE_ROWS * CHUNK / 32];
    int32_t sum[BATCH_TOKENS][TILE_ROWS];
    const uint8_t *rows[TILE_ROWS];
    for (size_t first = 0; first < n; first += BATCH_TOKENS) {
        size_t batch = n - first < BATCH_TOKENS ? n - first : BATCH_TOKENS;
        for (size_t row = 0; row < w->rows; row += TILE_ROWS) {
            size_t left = w->rows - row < TILE_ROWS ? w->rows - row : TILE_ROWS;
            for (size_t r = 0; r < TILE_ROWS; r++)
                rows[r] = w->codes + (row + (r < left ? r : left - 1)) * w->row_bytes;
            for (size_t j = 0; j < batch; j++)
                for (size_t r = 0; r < TILE_ROWS; r++)
                    sum[j][r] = -x[first + j].sum;
            for (size_t i = 0; i < w->k; i += CHUNK) {
                size_t len = w->k - i < CHUNK ? w->k - i : CHUNK, j = 0;
                i2s_unpack(codes, rows, i, i + len);
                for (; j + 3 <= batch; j += 3)
                    i2s_tile(sum + j, codes, x + first + j, i, len, 3);
                if (batch - j == 2)
                    i2s_tile(sum + j, codes, x + first + j, i, len, 2);
                else if (batch - j == 1)
                    i2s_tile(sum + j, codes, x + first + j, i, len, 1);
            }
            for (size_t j = 0; j < batch; j++)
                for (size_t r = 0; r < left; r++)
                    y[(first + j) * ldy + row + r] = (float)sum[j][r] / x[first + j].scale * w->scale;
        }
    }
}

/* ---- 8-bit weights ---- */

/* 32 weights of a row, taken 128 too high, times both planes. */
INLINE void i8_add(__m256i part[2], const int8_t *w, const int8_t *high, const int8_t *low)
{
    __m256i u = _mm256_xor_si256(load256(w), _mm256_set1_epi8((char)0x80));
    part[0] = dot4(part[0], u, load256(high));
    part[1] = dot4(part[1], u, load256(low));
}

/* By the method, and with the bound, of x86_avx512_ternary.c. Four chains of additions, as each addition
 * takes four cycles. */
void bn_i8_gemv_avxvnni(float *y, const int8_t *w, size_t rows, size_t k, const int8_t *high,
                        const int8_t *low)
{
    int64_t sum = 0; /* of what goes through the vectors */
    for (size_t i = 0; i < k / 32 * 32; i++)
        sum += 256 * high[i] + low[i];
    for (size_t r = 0; r < rows; r++, w += k) {
        __m256i even[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, odd[2] = {even[0], even[0]};
        size_t i = 0;
        for (; i + 64 <= k; i += 64) {
            _mm_prefetch((const char *)w + i + STREAM_AHEAD, _MM_HINT_T0);
            i8_add(even, w + i, high + i, low + i);
            i8_add(odd, w + i + 32, high + i + 32, low + i + 32);
        }
        if (i + 32 <= k) {
            i8_add(even, w + i, high + i, low + i);
            i += 32;
        }
        int64_t highs = total(_mm256_add_epi32(even[0], odd[0]));
        int64_t lows = total(_mm256_add_epi32(even[1], odd[1]));
        int64_t dot = 256 * highs + lows - 128 * sum;
        for (; i < k; i++)
            dot += w[i] * (256 * high[i] + low[i]);
        y[r] = (float)dot;
    }
}
