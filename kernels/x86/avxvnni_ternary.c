/* SPDX-License-Identifier: MIT
 *
 * 8-bit products for processors with VNNI on 256-bit registers and no AVX-512. vpdpbusd adds to int32 without
 * saturation.
 */
#include "kernels/x86/avx2.h"

/* acc + four unsigned bytes of u times four signed bytes at s, at any alignment. An instruction, as gcc makes two of the
 * intrinsic. */
INLINE __m256i dot4_at(__m256i acc, __m256i u, const int8_t *s)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "m"(*(const __m256i_u *)s));
    return acc;
}

INLINE int32_t total(__m256i v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

#define STREAM_AHEAD 8192u /* bytes from a row that comes from memory to the place to prefetch meanwhile */

/* 32 weights of a row, taken 128 too high, times both planes. */
INLINE void i8_add(__m256i part[2], const int8_t *w, const int8_t *high, const int8_t *low)
{
    __m256i u = _mm256_xor_si256(load256(w), _mm256_set1_epi8((char)0x80));
    part[0] = dot4_at(part[0], u, high);
    part[1] = dot4_at(part[1], u, low);
}

/* As in avx512_ternary.c: 128 times the sum of the planes is taken away, and a sum stays below 255 * 128 * 2^16, so
 * below 2^31. Four chains of additions, as each addition
 * takes four cycles. */
static void i8_rows(float *y, const int8_t *w, size_t rows, size_t k, const int8_t *high, const int8_t *low)
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

/* Rows that stay in the cache while one vector after the other uses them. */
#define I8_ROWS 32u

void bn_i8_gemm_avxvnni(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k,
                        const struct bn_planes *x, size_t n)
{
    size_t block = n == 1 ? rows : I8_ROWS;
    for (size_t r = 0; r < rows; r += block)
        for (size_t j = 0; j < n; j++)
            i8_rows(y + j * ldy + r, w + r * k, rows - r < block ? rows - r : block, k, x[j].high, x[j].low);
}
