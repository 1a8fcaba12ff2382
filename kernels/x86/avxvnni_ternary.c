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

/* The sum of the first n values of a vector, n a multiple of 32. */
INLINE int64_t sum_planes(const struct bn_planes *x, size_t n)
{
    const __m256i ones = _mm256_set1_epi8(1);
    __m256i high = _mm256_setzero_si256(), low = high;
    for (size_t i = 0; i < n; i += 32) {
        high = dot4_at(high, ones, x->high + i);
        low = dot4_at(low, ones, x->low + i);
    }
    return 256 * (int64_t)total(high) + total(low);
}

#define I8_TOGETHER 4u /* vectors that share the loads of weights */
#define I8_ROWS 32u    /* that stay in the cache while one group of vectors after the other uses them */

/* As in avx512_ternary.c: the weights are taken 128 too high, 128 times the sum of the planes is taken away, and a sum
 * stays below 255 * 128 * 2^16, so below 2^31. n is a constant. An addition takes four cycles, so there are four chains
 * of them or more. */
INLINE void i8_rows(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x,
                    const size_t n)
{
    const size_t ways = n == 1 ? 2 : 1;
    int64_t sum[I8_TOGETHER];
    for (size_t j = 0; j < n; j++)
        sum[j] = sum_planes(&x[j], k / 32 * 32);
    for (size_t r = 0; r < rows; r++, w += k) {
        __m256i high[I8_TOGETHER][2], low[I8_TOGETHER][2];
        for (size_t j = 0; j < n; j++)
            high[j][0] = high[j][1] = low[j][0] = low[j][1] = _mm256_setzero_si256();
        size_t i = 0;
        for (; i + 32 * ways <= k; i += 32 * ways) {
            _mm_prefetch((const char *)w + i + STREAM_AHEAD, _MM_HINT_T0);
            for (size_t way = 0; way < ways; way++) {
                size_t at = i + 32 * way;
                __m256i u = _mm256_xor_si256(load256(w + at), _mm256_set1_epi8((char)0x80));
                for (size_t j = 0; j < n; j++) {
                    high[j][way] = dot4_at(high[j][way], u, x[j].high + at);
                    low[j][way] = dot4_at(low[j][way], u, x[j].low + at);
                }
            }
        }
        for (; i + 32 <= k; i += 32) {
            __m256i u = _mm256_xor_si256(load256(w + i), _mm256_set1_epi8((char)0x80));
            high[0][0] = dot4_at(high[0][0], u, x->high + i);
            low[0][0] = dot4_at(low[0][0], u, x->low + i);
        }
        for (size_t j = 0; j < n; j++) {
            int64_t highs = total(_mm256_add_epi32(high[j][0], high[j][1]));
            int64_t dot = 256 * highs + total(_mm256_add_epi32(low[j][0], low[j][1])) - 128 * sum[j];
            for (size_t rest = i; rest < k; rest++)
                dot += w[rest] * (256 * x[j].high[rest] + x[j].low[rest]);
            y[j * ldy + r] = (float)dot;
        }
    }
}

void bn_i8_gemm_avxvnni(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k,
                        const struct bn_planes *x, size_t n)
{
    size_t block = n == 1 ? rows : I8_ROWS;
    for (size_t r = 0; r < rows; r += block) {
        size_t count = rows - r < block ? rows - r : block, j = 0;
        for (; j + I8_TOGETHER <= n; j += I8_TOGETHER)
            i8_rows(y + j * ldy + r, ldy, w + r * k, count, k, x + j, I8_TOGETHER);
        for (; j + 2 <= n; j += 2)
            i8_rows(y + j * ldy + r, ldy, w + r * k, count, k, x + j, 2);
        if (j < n) i8_rows(y + j * ldy + r, ldy, w + r * k, count, k, x + j, 1);
    }
}
