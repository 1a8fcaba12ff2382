/* SPDX-License-Identifier: MIT
 *
 * Float matrices: the head, the router, the gates of recurrent layers. A lane of a sum over 16 lanes is a work-item; on
 * CPUs the first of them is a vector of 16 lanes.
 */

#define FLOAT_TOKENS 4u /* that use the weights of a row at once */
#define MOST_ROWS 16u   /* of a group */

#if BN_VECTOR == 16
/* As widen, but of a NaN, which may stay a signalling one. Pairs of words: conversions of vectors are slow in PoCL. */
static float16 load_f16(global const ushort *w)
{
    uint8 pairs = vload8(0, (global const uint *)w);
    uint16 h;
    h.even = pairs & 0xFFFFu;
    h.odd = pairs >> 16;
    uint16 size = ((h & 0x7FFFu) << 13) + (112u << 23);
    uint16 small = as_uint16(as_float16(size + (1u << 23)) - 0x1p-14f);
    size = select(size, small, size < 113u << 23) | (as_uint16(size >= 143u << 23) & INFINITE);
    return as_float16(size | (h & 0x8000u) << 16);
}

static float16 load_f32(global const float *w)
{
    return vload16(0, w);
}
#endif

/* Slots f16_gemm and f32_gemm. local (16, R), R at most MOST_ROWS: item (lane, row); global (16, rows rounded up). */
#if BN_VECTOR == 16
#define FLOAT_GEMM(name, type, of)                                                              \
    kernel void name##_gemm(global float *y, uint ldy, global const type *w, uint rows, uint k, \
                            global const float *x, uint ldx, uint n)                            \
    {                                                                                           \
        const uint row = get_global_id(1), whole = k % 2 == 0 ? k / 16 * 16 : 0;                \
        if (get_local_id(0) != 0 || row >= rows) return;                                        \
        w += (size_t)row * k;                                                                   \
        for (uint j = 0; j < n; j++) {                                                          \
            global const float *in = x + (size_t)j * ldx;                                       \
            float16 sum = 0.0f;                                                                 \
            float lane[16];                                                                     \
            for (uint i = 0; i < whole; i += 16)                                                \
                sum = fma(load_##name(w + i), vload16(0, in + i), sum);                         \
            vstore16(sum, 0, lane);                                                             \
            for (uint i = whole; i < k; i++)                                                    \
                lane[i % 16] = fma(of(w[i]), in[i], lane[i % 16]);                              \
            y[(size_t)j * ldy + row] = fold16(lane);                                            \
        }                                                                                       \
    }
#else
#define FLOAT_GEMM(name, type, of)                                                                   \
    kernel void name##_gemm(global float *y, uint ldy, global const type *w, uint rows, uint k,      \
                            global const float *x, uint ldx, uint n)                                 \
    {                                                                                                \
        local float lanes[MOST_ROWS][FLOAT_TOKENS][16];                                              \
        const uint lane = get_local_id(0), at = get_local_id(1), row = get_global_id(1);             \
        w += (size_t)min(row, rows - 1) * k;                                                         \
        for (uint first = 0; first < n; first += FLOAT_TOKENS) {                                     \
            float sum[FLOAT_TOKENS] = {0};                                                           \
            const uint last = n - 1 - first;                                                         \
            for (uint i = lane; i < k; i += 16)                                                      \
                for (uint j = 0; j < FLOAT_TOKENS; j++)                                              \
                    if (j <= last) sum[j] = fma(of(w[i]), x[(size_t)(first + j) * ldx + i], sum[j]); \
            for (uint j = 0; j < FLOAT_TOKENS; j++)                                                  \
                lanes[at][j][lane] = sum[j];                                                         \
            MEET;                                                                                    \
            if (lane < FLOAT_TOKENS && lane <= last && row < rows) {                                 \
                float all[16];                                                                       \
                for (uint l = 0; l < 16; l++)                                                        \
                    all[l] = lanes[at][lane][l];                                                     \
                y[(size_t)(first + lane) * ldy + row] = fold16(all);                                 \
            }                                                                                        \
            MEET;                                                                                    \
        }                                                                                            \
    }
#endif

FLOAT_GEMM(f16, ushort, widen)
FLOAT_GEMM(f32, float, (float))

/* *bad becomes 1 when a value of row r (a group) is not finite. */
ROWS_KERNEL void finite(global const float *y, uint ld, uint width, global int *bad)
{
    y += (size_t)get_group_id(0) * ld;
    for (uint i = get_local_id(0); i < width; i += BN_GROUP)
        if (!is_finite(y[i])) *bad = 1;
}
