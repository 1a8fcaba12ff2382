/* SPDX-License-Identifier: MIT
 *
 * Products of ternary weights in tiles, and activations of 16 or 8 bits, for AArch64 with the dot product instructions. Four registers, the quarters, hold four weights of each row of a tile. sdot by
 * a lane multiplies codes 0..3 with the same four bytes of a plane in each row and adds to an int32; the sum of
 * the activations is subtracted once for each group. All sums of a group are exact, so their order is free.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

/* Rows of a file: blocks.h with vectors of 16 bytes. */
#define LANES 1u

#define vec uint32x4_t
#define vec_store(at, v) vst1q_u8(at, vreinterpretq_u8_u32(v))
#define load_lanes(at, i) vreinterpretq_u32_u8(vld1q_u8(*(at) + (i)))
#define low32 vzip1q_u32
#define high32 vzip2q_u32
#define low64(a, b) vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)))
#define high64(a, b) vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)))

#include "kernels/blocks.h"

#define ROWS BN_TILE_ROWS

/* The four codes of 16 bytes, the one in the low bits first. */
INLINE void unpack(int8x16_t out[4], uint8x16_t codes)
{
    const uint8x16_t three = vdupq_n_u8(3);
    out[0] = vreinterpretq_s8_u8(vandq_u8(codes, three));
    out[1] = vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(codes, 2), three));
    out[2] = vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(codes, 4), three));
    out[3] = vreinterpretq_s8_u8(vshrq_n_u8(codes, 6));
}

/* sum + sixteen weights of four rows times sixteen bytes of a plane. */
INLINE int32x4_t dot_sixteen(int32x4_t sum, const int8x16_t codes[4], int8x16_t act)
{
    sum = vdotq_laneq_s32(sum, codes[0], act, 0);
    sum = vdotq_laneq_s32(sum, codes[1], act, 1);
    sum = vdotq_laneq_s32(sum, codes[2], act, 2);
    return vdotq_laneq_s32(sum, codes[3], act, 3);
}

/* Sixteen bytes of a plane, four for each of the four codes of a byte. */
INLINE int8x16_t acts_at(const int8_t *plane, size_t i, const enum product product)
{
    int8_t bytes[16];
    if (product != WHOLE) return vld1q_s8(plane + i);
    for (size_t p = 0; p < 4; p++)
        memcpy(bytes + 4 * p, plane + four_at(i, p, product), 4);
    return vld1q_s8(bytes);
}

/* acc + the group's scales times (float)t * step, t = 256 high + low - the sum of the activations of group g. The
 * steps of 8 bits are 1. I2_S: acc holds integers. */
INLINE float32x4_t add_group(float32x4_t acc, const uint16_t *scales, int32x4_t high, int32x4_t low,
                             const struct bn_act *x, size_t g, const enum product product)
{
    if (product == WHOLE) return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(acc), low));
    int32x4_t t = vsubq_s32(low, vdupq_n_s32(x->sum[g]));
    if (product == WIDE) t = vaddq_s32(t, vshlq_n_s32(high, 8));
    float32x4_t scale = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(scales))), v = vcvtq_f32_s32(t);
    return vfmaq_f32(acc, scale, product == WIDE ? vmulq_n_f32(v, x->step[g]) : v);
}

/* Those of the four rows from `row` on that exist. */
INLINE void store_rows(float *y, const struct bn_ternary *w, size_t row, float32x4_t v,
                       const struct bn_act *x, const enum product product)
{
    float lane[4];
    int32x4_t t = vsubq_s32(vreinterpretq_s32_f32(v), vdupq_n_s32(x->total));
    v = vdivq_f32(product == WHOLE ? vcvtq_f32_s32(t) : v, vdupq_n_f32(x->scale));
    vst1q_f32(lane, product == WHOLE ? vmulq_n_f32(v, w->scale) : v);
    for (size_t r = 0; r < 4 && row + r < w->rows; r++)
        y[row + r] = lane[r];
}

/* ---- products ---- */

#define TOKENS 4u
#define BATCH_TOKENS 32u /* whose activations stay in a second-level cache while they meet all tiles */

/* n_quarters of a tile from quarter `first` on for n tokens, constants whose product is at most 8: each code is
 * unpacked once for all tokens, and the sums of both planes fit the registers. `stored` (a constant): from the rows of
 * a file. */
INLINE void some_quarters(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                          size_t tile, const bool stored, size_t first, const size_t n_quarters,
                          const size_t n, const enum product product)
{
    const uint8_t *codes = stored ? NULL : w->codes + tile * 4 * w->k + 16 * first;
    const size_t group = group_of(w, product);
    const uint16_t *scales =
        stored || product == WHOLE ? NULL : w->scales + tile * (w->k / group) * ROWS + 4 * first;
    uint8_t room[4 * BN_MAX_GROUP];
    uint16_t room_of_scales[ROWS];
    struct stored_tile from;
    if (stored) from = stored_tile(w, tile);
    float32x4_t acc[TOKENS][4];
    for (size_t j = 0; j < n; j++)
        for (size_t c = 0; c < n_quarters; c++)
            acc[j][c] = vdupq_n_f32(0.0f);
    for (size_t g = 0; g < w->k / group; g++, codes += 4 * group) {
        if (stored) {
            codes = room + 16 * first;
            scales = room_of_scales + 4 * first;
            next_group(room, room_of_scales, w, &from);
        }
        const size_t begin = g * group;
        int32x4_t high[TOKENS][4], low[TOKENS][4];
        for (size_t j = 0; j < n; j++)
            for (size_t c = 0; c < n_quarters; c++)
                high[j][c] = low[j][c] = vdupq_n_s32(0);
        for (size_t i = 0; i < group; i += 16)
            for (size_t c = 0; c < n_quarters; c++) {
                int8x16_t four[4];
                unpack(four, vld1q_u8(codes + 4 * i + 16 * c));
                for (size_t j = 0; j < n; j++) {
                    if (product == WIDE)
                        high[j][c] = dot_sixteen(high[j][c], four, acts_at(x[j].high, begin + i, product));
                    low[j][c] =
                        dot_sixteen(low[j][c], four, acts_at(plane_of(&x[j], product), begin + i, product));
                }
            }
        for (size_t j = 0; j < n; j++)
            for (size_t c = 0; c < n_quarters; c++)
                acc[j][c] = add_group(acc[j][c], product == WHOLE ? NULL : scales + 4 * c, high[j][c],
                                      low[j][c], &x[j], g, product);
        if (product != WHOLE) scales += ROWS;
    }
    for (size_t j = 0; j < n; j++)
        for (size_t c = 0; c < n_quarters; c++)
            store_rows(y + j * ldy, w, tile * ROWS + 4 * (first + c), acc[j][c], &x[j], product);
}

INLINE void ternary_gemv(float *y, const struct bn_ternary *w, const struct bn_act *x,
                         const enum product product)
{
    for (size_t tile = 0; tile * ROWS < w->rows; tile++)
        if (w->codes != NULL)
            some_quarters(y, 0, w, x, tile, false, 0, 4, 1, product);
        else
            some_quarters(y, 0, w, x, tile, true, 0, 4, 1, product);
}

INLINE void tile_for_tokens(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                            size_t n, size_t tile, const enum product product)
{
    size_t j = 0;
    for (; j + TOKENS <= n; j += TOKENS)
        for (size_t first = 0; first < 4; first += 2)
            some_quarters(y + j * ldy, ldy, w, x + j, tile, false, first, 2, TOKENS, product);
    for (; j < n; j++)
        some_quarters(y + j * ldy, ldy, w, x + j, tile, false, 0, 4, 1, product);
}

INLINE void ternary_gemm(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n,
                         const enum product product)
{
    for (size_t j = 0; j < n; j += BATCH_TOKENS)
        for (size_t tile = 0; tile * ROWS < w->rows; tile++)
            tile_for_tokens(y + j * ldy, ldy, w, x + j, n - j < BATCH_TOKENS ? n - j : BATCH_TOKENS, tile,
                            product);
}

void bn_ternary_gemv_neon(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    BY_PRODUCT(w, x, ternary_gemv, y, w, x);
}

void bn_ternary_gemm_neon(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    BY_PRODUCT(w, x, ternary_gemm, y, ldy, w, x, n);
}

/* ---- columns ---- */

#define bytes_of vreinterpretq_u8_u32
#define pairs_of vreinterpretq_u16_u32
#define low8(a, b) vreinterpretq_u32_u8(vzip1q_u8(bytes_of(a), bytes_of(b)))
#define high8(a, b) vreinterpretq_u32_u8(vzip2q_u8(bytes_of(a), bytes_of(b)))
#define low16(a, b) vreinterpretq_u32_u16(vzip1q_u16(pairs_of(a), pairs_of(b)))
#define high16(a, b) vreinterpretq_u32_u16(vzip2q_u16(pairs_of(a), pairs_of(b)))
#define vec_load(at) vreinterpretq_u32_u8(vld1q_u8(at))
#define vec_right4(v) vshrq_n_u32(v, 4)
#define vec_mask(v, byte) vandq_u32(v, vdupq_n_u32(byte * 0x01010101u))

INLINE uint32x4_t repeat4(const int8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return vdupq_n_u32(word);
}

INLINE void vec_add_dot(int32_t *sums, uint32x4_t u, uint32x4_t s, const bool vnni)
{
    (void)vnni;
    vst1q_s32(sums, vdotq_s32(vld1q_s32(sums), vreinterpretq_s8_u32(u), vreinterpretq_s8_u32(s)));
}

#include "kernels/columns.h"

void bn_columns_gemv_neon(float *y, const struct bn_columns *w, const struct bn_act *x, const uint32_t *used,
                          size_t n)
{
    columns_gemv(y, w, x, used, n, true);
}

/* ---- activations ---- */

/* The low bytes of sixteen values in the order of a plane: byte m of lane p belongs to element 4m + p. */
INLINE void store_plane(int8_t *plane, const int32x4_t v[4])
{
    int32x4_t bytes = vsliq_n_s32(v[0], v[1], 8);
    bytes = vsliq_n_s32(bytes, v[2], 16);
    bytes = vsliq_n_s32(bytes, v[3], 24);
    vst1q_s8(plane, vreinterpretq_s8_s32(bytes));
}

void bn_quantize16_neon(int8_t *high, int8_t *low, float *step, int32_t *sum, const float *x, size_t n,
                        size_t group)
{
    for (size_t first = 0; first < n; first += group) {
        float32x4_t maxima = vdupq_n_f32(0x1p-100f);
        int32x4_t total = vdupq_n_s32(0);
        for (size_t i = first; i < first + group; i += 4)
            maxima = vmaxnmq_f32(maxima, vabsq_f32(vld1q_f32(x + i)));
        float power = bn_float_of_bits(bn_float_bits(vmaxnmvq_f32(maxima)) & 0x7F800000u);
        float per_step = 8192.0f / power;
        for (size_t i = first; i < first + group; i += 16) {
            int32x4_t q[4], upper[4];
            for (size_t m = 0; m < 4; m++) {
                float32x4_t product = vmulq_n_f32(vld1q_f32(x + i + 4 * m), per_step);
                /* To nearest even; a NaN becomes 16384, the upper limit. */
                q[m] = vcvtnq_s32_f32(vminnmq_f32(product, vdupq_n_f32(16384.0f)));
                upper[m] = vshrq_n_s32(vaddq_s32(q[m], vdupq_n_s32(128)), 8);
                total = vaddq_s32(total, q[m]);
            }
            store_plane(low + i, q);
            store_plane(high + i, upper);
        }
        *step++ = power / 8192.0f;
        *sum++ = vaddvq_s32(total);
    }
}

void bn_to_plane_neon(int8_t *plane, int32_t *sum, const int8_t *q, size_t n, size_t group)
{
    static const uint8_t ORDER[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const uint8x16_t order = vld1q_u8(ORDER);
    for (size_t first = 0; first < n; first += group) {
        int32x4_t total = vdupq_n_s32(0);
        for (size_t i = first; i < first + group; i += 16) {
            int8x16_t v = vld1q_s8(q + i);
            vst1q_s8(plane + i, vqtbl1q_s8(v, order));
            total = vdotq_s32(total, v, vdupq_n_s8(1));
        }
        *sum++ = vaddvq_s32(total);
    }
}

void bn_to_tiles_neon(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w)
{
    to_tiles(codes, scales, w);
}
