/* SPDX-License-Identifier: MIT
 *
 * The loop of peak.h for AVX-VNNI.
 */
#include "kernels/peak.h"
#include "kernels/x86/peak.h"

uint64_t bn_peak_int8_avxvnni(uint64_t turns)
{
    RUN_TURNS(turns, "%{vex%} vpdpbusd", __m256i, "x", _mm256_set1_epi8(2), _mm256_set1_epi8(-1));
    return turns * CHAINS * 32;
}
