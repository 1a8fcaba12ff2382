/* SPDX-License-Identifier: MIT
 *
 * Tiles from the rows of a file for AArch64: blocks.h with vectors of 16 bytes.
 */
#include "kernels/kernels_table.h"

#include <arm_neon.h>

#define LANES 1u

#define vec uint32x4_t
#define vec_store(at, v) vst1q_u8(at, vreinterpretq_u8_u32(v))
#define load_lanes(at, stride) vreinterpretq_u32_u8(vld1q_u8(at))
#define low32 vzip1q_u32
#define high32 vzip2q_u32
#define low64(a, b) vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)))
#define high64(a, b) vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)))

#include "kernels/blocks.h"

void bn_to_tiles_neon(uint8_t *codes, uint16_t *scales, const struct bn_grouped *w)
{
    to_tiles(codes, scales, w);
}
