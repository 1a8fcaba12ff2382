/* SPDX-License-Identifier: MIT
 *
 * Ternary matrices in tiles (struct bn_ternary in kernels/kernels.h) times activations (struct bn_act). A word has 16
 * weights of a row; the words of the 16 rows of a tile are neighbours, so neighbouring work-items read neighbouring
 * words. Four words make a quad. Sums of integers are exact, so they are divided as it suits; sums over groups with
 * scales are chains of fma in the order of the groups.
 */

#define TOKENS 8u       /* that a work-item of ternary_gemm has */
#define MOST_ITEMS 256u /* in a group of ternary_gemv */
#define ITEMS_OF_TILE (16 / BN_VECTOR)

/* Adds to t[i] the sum of code * value over the quads from, from + step ... below `to` of a row (of 16 rows with vectors)
 * and token i. The values of tokens lie ld words apart; those after `last` are not read. With i2s value (a, b) of a quad
 * belongs to word b, its code to bits 6 - 2a; else to word a and bits 2b: bn_ternary_code and bn_in_plane. */
#if BN_VECTOR == 16

typedef int16 ints;
typedef float16 floats;

#define to_floats(x) convert_float16(x)

/* Bytes become pairs of 16-bit integers; 32 sums of 16 bits have room for a quad, 32 products of 3 * 128. */
static void sum_tokens(ints *t, const uint n_tokens, uint last, global const uint *codes, global const int *q,
                       uint ld, const bool i2s, uint from, uint to, uint step)
{
    for (uint quad = from; quad < to; quad += step) {
        short16 low[TOKENS], high[TOKENS]; /* of rows 0 to 7, 8 to 15 */
        int even[TOKENS][16], odd[TOKENS][16];
        for (uint i = 0; i < n_tokens; i++) {
            global const int *v =
                q + (size_t)min(i, last) * ld + (i2s ? quad / 2 * 32 + quad % 2 * 4 : quad * 16);
            low[i] = high[i] = (short16)0;
            for (uint a = 0; a < 4; a++) {
                short8 four = as_short8(vload4(0, v + a * (i2s ? 8 : 4)));
                vstore4(as_int4(four << (short8)8 >> (short8)8), a, even[i]);
                vstore4(as_int4(four >> (short8)8), a, odd[i]);
            }
        }
#pragma unroll
        for (uint at = 0; at < 16; at++) {
            global const uint *words = codes + 64 * quad + 16 * (i2s ? at % 4 : at / 4);
            const ushort shift = (ushort)(i2s ? 6 - at / 4 * 2 : at % 4 * 2);
            ushort16 w0 = as_ushort16(vload8(0, words)) >> shift, w1 = as_ushort16(vload8(1, words)) >> shift;
            short16 e0 = as_short16(w0 & (ushort)3), o0 = as_short16(w0 >> (ushort)8 & (ushort)3);
            short16 e1 = as_short16(w1 & (ushort)3), o1 = as_short16(w1 >> (ushort)8 & (ushort)3);
            for (uint i = 0; i < n_tokens; i++) {
                short16 qe = as_short16((int8)even[i][at]), qo = as_short16((int8)odd[i][at]);
                low[i] += e0 * qe + o0 * qo;
                high[i] += e1 * qe + o1 * qo;
            }
        }
        for (uint i = 0; i < n_tokens; i++) {
            int16 pairs = (int16)(as_int8(low[i]), as_int8(high[i]));
            t[i] += (pairs << 16 >> 16) + (pairs >> 16);
        }
    }
}

static floats scales_at(global const ushort *scales)
{
    float d[16];
    for (uint r = 0; r < 16; r++)
        d[r] = widen(scales[r]);
    return vload16(0, d);
}

static void store_rows(global float *y, floats v, global const float2 *row_scale, const bool i2s, uint n)
{
    float rows[16];
    vstore16(v, 0, rows);
    for (uint r = 0; r < min(n, 16u); r++)
        y[r] = (i2s ? rows[r] * row_scale[r].x : rows[r]) * row_scale[r].y;
}

#else

typedef int ints;
typedef float floats;

#define to_floats(x) convert_float(x)

/* sum + the products of four codes, of 0 to 3, and four values. */
static int dot4(uint codes, int values, int sum)
{
#if BN_DOT == 1
    return sum + dot_4x8packed_ss_int(codes, as_uint(values));
#elif BN_DOT == 2
    int result;
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(codes), "r"(values), "r"(sum));
    return result;
#else
    char4 c = as_char4(codes), v = as_char4(values);
    return sum + c.x * v.x + c.y * v.y + c.z * v.z + c.w * v.w;
#endif
}

static void sum_tokens(ints *t, const uint n_tokens, uint last, global const uint *codes, global const int *q,
                       uint ld, const bool i2s, uint from, uint to, uint step)
{
    for (uint quad = from; quad < to; quad += step) {
        uint code[16];
#pragma unroll
        for (uint at = 0; at < 16; at++) {
            uint word = codes[64 * quad + 16 * (i2s ? at % 4 : at / 4)];
            code[at] = word >> (i2s ? 6 - at / 4 * 2 : at % 4 * 2) & 0x03030303u;
        }
#pragma unroll
        for (uint i = 0; i < n_tokens; i++) {
            global const int *v =
                q + (size_t)min(i, last) * ld + (i2s ? quad / 2 * 32 + quad % 2 * 4 : quad * 16);
#pragma unroll
            for (uint a = 0; a < 4; a++) {
                int4 four = vload4(0, v + a * (i2s ? 8 : 4));
                t[i] = dot4(code[4 * a], four.x, t[i]);
                t[i] = dot4(code[4 * a + 1], four.y, t[i]);
                t[i] = dot4(code[4 * a + 2], four.z, t[i]);
                t[i] = dot4(code[4 * a + 3], four.w, t[i]);
            }
        }
    }
}

static floats scales_at(global const ushort *scales)
{
    return widen(*scales);
}

static void store_rows(global float *y, floats v, global const float2 *row_scale, const bool i2s, uint n)
{
    if (n > 0) *y = (i2s ? v * row_scale->x : v) * row_scale->y;
}

#endif

/* The exact sums of one group of weights, or of a part of it, for tokens: 256 high + low. */
static void sum_group(ints *t, const uint n_tokens, uint last, global const uint *codes, uint bits,
                      global const char *high, global const char *low, uint padded, uint from, uint to)
{
    for (uint i = 0; i < n_tokens; i++)
        t[i] = 0;
    if (bits == 16) {
        sum_tokens(t, n_tokens, last, codes, (global const int *)high, padded / 4, false, from, to, 1);
        for (uint i = 0; i < n_tokens; i++)
            t[i] *= 256;
    }
    sum_tokens(t, n_tokens, last, codes, (global const int *)low, padded / 4, false, from, to, 1);
}

/* Slot ternary_gemv times the extra scale of the outputs, for row j of n: y[j * ldy + y_at + r]. local (ITEMS_OF_TILE, S),
 * S slices of k, 1 with vectors; global (rows / BN_VECTOR, S * n). Tile t begins at codes + t * k, its scales at scales +
 * t * k / group * 16; group 0: I2_S. row_scale: of each row the scale of the matrix and the extra one. With expert
 * row j has the matrix expert[j] of rows_each rows and the activations of row j / shared. */
kernel void ternary_gemv(global float *y, uint ldy, uint y_at, global const uint *codes,
                         global const ushort *scales, global const float2 *row_scale, uint k, uint group,
                         uint bits, global const char *high, global const char *low, global const float *step,
                         global const int *sum, global const float *scale, global const int *total,
                         uint padded, global const uint *expert, uint rows_each, uint shared)
{
    local floats terms[MOST_ITEMS / BN_VECTOR], factors[MOST_ITEMS / BN_VECTOR];
    const uint lane = get_local_id(0), s = get_local_id(1), n_slices = get_local_size(1);
    const uint mine = s * ITEMS_OF_TILE + lane, n_groups = group != 0 ? k / group : 0;
    const uint j = get_group_id(1), act = expert != NULL ? j / shared : j, row = get_group_id(0) * 16 + lane;
    const size_t tile = get_group_id(0) + (expert != NULL ? (size_t)expert[j] * (rows_each / 16) : 0);
    const size_t at = (size_t)act * padded;
    floats v = 0.0f;
    codes += tile * k + lane;
    ints t = 0;
    sum_tokens(&t, 1, 0, codes, (global const int *)(high + at), 0, true, s, group == 0 ? k / 64 : 0,
               n_slices);
#if BN_VECTOR == 1
    local int *parts = (local int *)terms;
    parts[mine] = t;
    MEET;
    t = 0;
    for (uint i = 0; i < n_slices; i++)
        t += parts[i * ITEMS_OF_TILE + lane];
    MEET;
#endif
    if (group == 0) v = to_floats(t - total[act]);
    for (uint first = 0; first < n_groups; first += n_slices) {
        uint g = first + s;
        floats term = 0.0f, factor = 0.0f;
        if (g < n_groups) {
            sum_group(&t, 1, 0, codes, bits, high + at, low + at, 0, g * (group / 64),
                      (g + 1) * (group / 64));
            term = to_floats(t - sum[at / 64 + g]);
            if (bits == 16) term *= step[at / 64 + g];
            factor = scales_at(scales + (tile * n_groups + g) * 16 + lane);
        }
#if BN_VECTOR == 1
        terms[mine] = term;
        factors[mine] = factor;
        MEET;
        for (uint i = 0; i < min(n_slices, n_groups - first); i++)
            v = fma(factors[i * ITEMS_OF_TILE + lane], terms[i * ITEMS_OF_TILE + lane], v);
        MEET;
#else
        v = fma(factor, term, v);
#endif
    }
    if (s == 0)
        store_rows(y + (size_t)j * ldy + y_at + row, v / scale[act], row_scale + tile * 16 + lane, group == 0,
                   rows_each > row ? rows_each - row : 0);
}

/* Slot ternary_gemm: the same for n rows of activations. local (ITEMS_OF_TILE, J), a work-item has TOKENS of them: global
 * (rows / BN_VECTOR, J * ceil(n / (J * TOKENS))). */
kernel void ternary_gemm(global float *y, uint ldy, uint y_at, global const uint *codes,
                         global const ushort *scales, global const float2 *row_scale, uint k, uint group,
                         uint bits, global const char *high, global const char *low, global const float *step,
                         global const int *sum, global const float *scale, global const int *total,
                         uint padded, uint rows, uint n)
{
    const uint lane = get_local_id(0), first = get_global_id(1) * TOKENS, row = get_group_id(0) * 16 + lane;
    const uint n_groups = group != 0 ? k / group : 0, last = n - 1 - first;
    const size_t tile = get_group_id(0), at = (size_t)first * padded;
    floats v[TOKENS];
    ints t[TOKENS];
    if (first >= n) return;
    codes += tile * k + lane;
    for (uint i = 0; i < TOKENS; i++) {
        v[i] = 0.0f;
        t[i] = 0;
    }
    if (group == 0) {
        sum_tokens(t, TOKENS, last, codes, (global const int *)(high + at), padded / 4, true, 0, k / 64, 1);
        for (uint i = 0; i < TOKENS; i++)
            v[i] = to_floats(t[i] - total[first + min(i, last)]);
    }
    for (uint g = 0; g < n_groups; g++) {
        floats factor = scales_at(scales + (tile * n_groups + g) * 16 + lane);
        sum_group(t, TOKENS, last, codes, bits, high + at, low + at, padded, g * (group / 64),
                  (g + 1) * (group / 64));
        for (uint i = 0; i < TOKENS; i++) {
            size_t nth = (at + (size_t)min(i, last) * padded) / 64 + g;
            floats term = to_floats(t[i] - sum[nth]);
            if (bits == 16) term *= step[nth];
            v[i] = fma(factor, term, v[i]);
        }
    }
    for (uint i = 0; i < TOKENS; i++)
        if (i <= last)
            store_rows(y + (size_t)(first + i) * ldy + y_at + row, v[i] / scale[first + i],
                       row_scale + tile * 16 + lane, group == 0, rows > row ? rows - row : 0);
}
