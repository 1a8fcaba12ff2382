/* SPDX-License-Identifier: MIT
 *
 * avx512.h - what the AVX-512 files of ternary kernels share: loads, the dot product of bytes, totals.
 */
#ifndef BN_KERNELS_X86_AVX512_H
#define BN_KERNELS_X86_AVX512_H

#include "kernels/kernels.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i load512(const void *at)
{
    return _mm512_loadu_si512(at);
}

INLINE __m512i add32(__m512i a, __m512i b)
{
    return _mm512_add_epi32(a, b);
}

/* acc + four unsigned bytes of u times four signed bytes of s. As an instruction, not an intrinsic: gcc 12
 * moves accumulators to the stack and back around the intrinsic, which halves the speed. */
INLINE __m512i dot4(__m512i acc, __m512i u, __m512i s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(u), "v"(s));
    return acc;
}

/* Lane j of the result is the total of v[j]. */
INLINE __m512i sum_each(const __m512i v[16])
{
    __m512i four[4];
    for (size_t i = 0; i < 4; i++) {
        const __m512i *u = v + 4 * i;
        __m512i a = add32(_mm512_unpacklo_epi32(u[0], u[1]), _mm512_unpackhi_epi32(u[0], u[1]));
        __m512i b = add32(_mm512_unpacklo_epi32(u[2], u[3]), _mm512_unpackhi_epi32(u[2], u[3]));
        four[i] = add32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
    /* Each 128-bit lane of four[i] holds a part of totals 4i .. 4i + 3. */
    __m512i a =
        add32(_mm512_shuffle_i32x4(four[0], four[1], 0x44), _mm512_shuffle_i32x4(four[0], four[1], 0xEE));
    __m512i b =
        add32(_mm512_shuffle_i32x4(four[2], four[3], 0x44), _mm512_shuffle_i32x4(four[2], four[3], 0xEE));
    return add32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}

#endif
