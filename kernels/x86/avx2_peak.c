/* SPDX-License-Identifier: MIT
 *
 * Loops of peak.h for AVX2. No instruction of it adds up dot products of bytes, so the best is two: sums of
 * pairs in 16 bits, which products of ternary codes can fill for 64 turns, and their addition.
 */
#include "kernels/peak.h"
#include "kernels/x86/peak.h"

#define STREAM_BYTES 32
#define STREAM_REGISTER "x"
#define STREAM_PAST(p, v) _mm256_stream_ps((float *)(void *)(p), (__m256)(v))
#include "kernels/peak_stream.h"

uint64_t bn_peak_int8_avx2(uint64_t turns)
{
    __m256i u = _mm256_set1_epi8(2), s = _mm256_set1_epi8(-1), a = u, b = u, c = u, d = u, p, q, r, t;
    for (uint64_t turn = 0; turn < turns; turn++)
        __asm__ volatile("vpmaddubsw %9, %8, %4\n\tvpmaddubsw %9, %8, %5\n\t"
                         "vpmaddubsw %9, %8, %6\n\tvpmaddubsw %9, %8, %7\n\t"
                         "vpaddw %4, %0, %0\n\tvpaddw %5, %1, %1\n\t"
                         "vpaddw %6, %2, %2\n\tvpaddw %7, %3, %3"
                         : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "=&x"(p), "=&x"(q), "=&x"(r), "=&x"(t)
                         : "x"(u), "x"(s));
    return turns * 4 * 32;
}

uint64_t bn_peak_fma_avx2(uint64_t turns)
{
    RUN_TURNS(turns, "vfmadd231ps", __m256, "x", _mm256_set1_ps(1.0f), _mm256_set1_ps(0.5f));
    return turns * CHAINS * 8;
}

static __m256i load(const char *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

uint64_t bn_peak_read_avx2(const void *data, size_t n_bytes)
{
    const char *at = data, *end = at + n_bytes;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (; at < end; at += 128) {
        a = _mm256_add_epi64(a, load(at));
        b = _mm256_add_epi64(b, load(at + 32));
        c = _mm256_add_epi64(c, load(at + 64));
        d = _mm256_add_epi64(d, load(at + 96));
    }
    __m256i all = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
    __m128i two = _mm_or_si128(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    return (uint64_t)(_mm_extract_epi64(two, 0) | _mm_extract_epi64(two, 1));
}

void bn_peak_stream_avx2(enum bn_peak_stream stream, float *out, const float *in, const float *in2, size_t n)
{
    run_stream(stream, out, in, in2, n);
}
