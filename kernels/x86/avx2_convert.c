/* SPDX-License-Identifier: MIT
 *
 * Conversions for AVX2 with F16C. The formats of blocks are in ref_convert.c. Ends of rows go value by
 * value, through the functions of ref.h; blocks have none.
 */
#include "kernels/ref.h"
#include "kernels/x86/avx2.h"

void bn_f32_to_f16_avx2(uint16_t *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        y[i] = bn_ref_narrow_f16(x[i]);
}

void bn_f16_to_f32_avx2(float *y, const void *x, size_t n)
{
    const uint8_t *from = x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + 2 * i))));
    for (; i < n; i++)
        y[i] = bn_ref_widen_f16(bn_load_u16(from + 2 * i));
}

void bn_bf16_to_f32_avx2(float *y, const void *x, size_t n)
{
    const uint8_t *from = x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(from + 2 * i)));
        _mm256_storeu_si256((void *)(y + i), _mm256_slli_epi32(wide, 16));
    }
    bn_bf16_to_f32_ref(y + i, from + 2 * i, n - i);
}

/* ---- blocks ---- */

INLINE __m256 load_scale(const uint8_t *half)
{
    return _mm256_cvtph_ps(_mm_set1_epi16((int16_t)bn_load_u16(half)));
}

/* 16 bytes with a sign times a scale. */
INLINE void put16(float *y, __m128i q, __m256 scale)
{
    __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)));
    _mm256_storeu_ps(y, _mm256_mul_ps(scale, low));
    _mm256_storeu_ps(y + 8, _mm256_mul_ps(scale, high));
}

void bn_q8_0_to_f32_avx2(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    for (size_t i = 0; i < n; i += 32, block += 34) {
        __m256 d = load_scale(block);
        put16(y + i, _mm_loadu_si128((const void *)(block + 2)), d);
        put16(y + i + 16, _mm_loadu_si128((const void *)(block + 18)), d);
    }
}

void bn_q4_0_to_f32_avx2(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    const __m128i fifteen = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    for (size_t i = 0; i < n; i += 32, block += 18) {
        __m256 d = load_scale(block);
        __m128i q = _mm_loadu_si128((const void *)(block + 2));
        put16(y + i, _mm_sub_epi8(_mm_and_si128(q, fifteen), eight), d);
        put16(y + i + 16, _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(q, 4), fifteen), eight), d);
    }
}

/* 32 elements of two scales from their low bits and, where they belong, their high ones. */
INLINE void q6_k_put32(float *y, __m256i low, __m256i high, const uint8_t *scales, __m256 d)
{
    __m256i q = _mm256_or_si256(mask(low, 0x0F), mask(high, 0x30));
    q = _mm256_sub_epi8(q, _mm256_set1_epi8(32));
    put16(y, _mm256_castsi256_si128(q), _mm256_mul_ps(d, _mm256_set1_ps((float)(int8_t)scales[0])));
    put16(y + 16, _mm256_extracti128_si256(q, 1), _mm256_mul_ps(d, _mm256_set1_ps((float)(int8_t)scales[1])));
}

void bn_q6_k_to_f32_avx2(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    for (size_t i = 0; i < n; i += 256, block += 210) {
        __m256 d = load_scale(block + 208);
        for (size_t half = 0; half < 2; half++) {
            float *to = y + i + 128 * half;
            const uint8_t *scales = block + 192 + 8 * half;
            __m256i even = load256(block + 64 * half), odd = load256(block + 64 * half + 32);
            __m256i high = load256(block + 128 + 32 * half);
            q6_k_put32(to, even, _mm256_slli_epi16(high, 4), scales, d);
            q6_k_put32(to + 32, odd, _mm256_slli_epi16(high, 2), scales + 2, d);
            q6_k_put32(to + 64, _mm256_srli_epi16(even, 4), high, scales + 4, d);
            q6_k_put32(to + 96, _mm256_srli_epi16(odd, 4), _mm256_srli_epi16(high, 2), scales + 6, d);
        }
    }
}
