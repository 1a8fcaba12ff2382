/* SPDX-License-Identifier: MIT
 *
 * Products of ternary weights and many tokens for AMX: amx_gemm.h with the tile instructions. Each call loads the
 * configuration of its thread's tiles and releases them. Few tokens, and the rest, are left to AVX-512.
 */
#define AMX(slot) bn_##slot##_amx
#define LOWER(slot) bn_##slot##_avx512vnni

#include "kernels/x86/tiles.h"

#include "kernels/x86/amx_gemm.h"
