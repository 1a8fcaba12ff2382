/* SPDX-License-Identifier: MIT
 *
 * codes.h - codes of blocks in the order of Q2_0 by vectors of AVX2, for the files of this folder that include blocks.h.
 */
#ifndef BN_KERNELS_X86_CODES_H
#define BN_KERNELS_X86_CODES_H

#include <immintrin.h>
#include <stdint.h>

static inline __m128i load128(const uint8_t *at)
{
    return _mm_loadu_si128((const void *)at);
}

/* Four codes of one byte each to one byte, in each lane of 32 bits. */
static inline __m256i four_codes(__m256i codes)
{
    __m256i pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x0401));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00100001));
}

/* Byte n of each lane of 32 bits is from v[n], of which the other bytes are zeros. */
static inline __m256i join_bytes(const __m256i v[4])
{
    __m256i low = _mm256_or_si256(v[0], _mm256_slli_epi32(v[1], 8));
    __m256i high = _mm256_or_si256(_mm256_slli_epi32(v[2], 16), _mm256_slli_epi32(v[3], 24));
    return _mm256_or_si256(low, high);
}

/* Half a block, 32 bytes: bits 2n of byte m are weight 32n + m. */
static inline void codes_of_tq2(uint8_t *codes, const uint8_t *block)
{
    const __m256i three = _mm256_set1_epi8(3), lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    for (int half = 0; half < 64; half += 32) {
        __m256i v = _mm256_loadu_si256((const void *)(block + half)), bytes[4];
        bytes[0] = four_codes(_mm256_and_si256(v, three));
        bytes[1] = four_codes(_mm256_and_si256(_mm256_srli_epi16(v, 2), three));
        bytes[2] = four_codes(_mm256_and_si256(_mm256_srli_epi16(v, 4), three));
        bytes[3] = four_codes(_mm256_and_si256(_mm256_srli_epi16(v, 6), three));
        v = _mm256_shuffle_epi8(join_bytes(bytes), order);
        _mm256_storeu_si256((void *)(codes + half), _mm256_permutevar8x32_epi32(v, lanes));
    }
}

/* Bytes 0 ... 15 in the low half, 16 ... 25 in the high one; two zeros and the scale's place after them. Digit d of
 * byte b is (b * 3^d mod 256) * 3 / 256: in lanes of 16 bits with the byte in the upper half, the upper half of a
 * product by 3. */
static inline void codes_of_ptq1(uint8_t *codes, const uint8_t *block)
{
    const __m256i three = _mm256_set1_epi16(3), upper = _mm256_set1_epi16((short)0xFF00);
    const __m128i last = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0);
    __m128i end = _mm_and_si128(_mm_srli_si128(load128(block + 12), 4), last);
    __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(block)), end, 1);
    __m256i even = _mm256_slli_epi16(v, 8), odd = _mm256_and_si256(v, upper), bytes[5];
    for (int d = 0; d < 5; d++) {
        __m256i high = _mm256_slli_epi16(_mm256_mulhi_epu16(odd, three), 8);
        bytes[d] = four_codes(_mm256_or_si256(_mm256_mulhi_epu16(even, three), high));
        even = _mm256_add_epi16(even, _mm256_add_epi16(even, even));
        odd = _mm256_add_epi16(odd, _mm256_add_epi16(odd, odd));
    }
    /* Byte d of column j: low half 4j + d; high half the same for two columns, then digits of two weights each. */
    __m256i joined = join_bytes(bytes), pairs = _mm256_maddubs_epi16(joined, _mm256_set1_epi16(0x1001));
    __m128i low = _mm256_castsi256_si128(joined), high = _mm256_extracti128_si256(joined, 1);
    const __m128i columns = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i two = _mm_setr_epi8(-1, -1, -1, -1, 0, 4, 1, 5, 2, 6, 3, 7, -1, -1, -1, -1);
    const __m128i first = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i fifth = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, -1, -1);
    const __m128i pair = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 8, 10);
    __m128i a =
        _mm_or_si128(_mm_shuffle_epi8(high, two), _mm_shuffle_epi8(_mm256_castsi256_si128(bytes[4]), first));
    __m128i b = _mm_or_si128(_mm_shuffle_epi8(_mm256_extracti128_si256(bytes[4], 1), fifth),
                             _mm_shuffle_epi8(_mm256_extracti128_si256(pairs, 1), pair));
    _mm_storeu_si128((void *)codes, _mm_shuffle_epi8(low, columns));
    _mm_storeu_si128((void *)(codes + 16), _mm_or_si128(a, b));
}

#define CODES_OF_BLOCKS

#endif
