/* SPDX-License-Identifier: MIT
 *
 * What the kernels of all families share: the functions of kernels/ref.h, sums in binary64, and sums of groups. The
 * program is the text of this file and of the others, one after the other, with
 *
 *     BN_GROUP   work-items of a group where a group has a row: 16 to 256, a power of two; 1 on CPUs
 *     BN_VECTOR  rows that a work-item of the ternary and float matrices has: 16 on CPUs, which have vectors; else 1
 *     BN_FP64    1: sums are in binary64. 0: in integers, to the same bits
 *     BN_DOT     products of four bytes: 0 by multiplications, 1 by dot of OpenCL, 2 by dp4a of NVIDIA
 *
 * Every kernel gives the bits of the slots in kernels/kernels.h that it names. fma is written where a slot has it, and
 * nothing else is contracted.
 */
#pragma OPENCL FP_CONTRACT OFF

/* Never in a branch: PoCL copies what follows for each side of it, so that compiling takes minutes. */
#if BN_GROUP == 1
#define MEET_ROW
#else
#define MEET_ROW MEET
#endif
#define MEET barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
/* Of functions that get local memory: PoCL shares it between groups when a function with one caller is not inlined first. */
#define INLINE static inline __attribute__((always_inline))
#define ROWS_KERNEL kernel __attribute__((reqd_work_group_size(BN_GROUP, 1, 1)))
#define INFINITE 0x7F800000u

/* A row of the batch: where its sequence begins in the caches, in values; its position; rows of a head there. */
struct row {
    ulong cache, state;
    uint position, cache_rows, before, after;
};

static bool is_finite(float x)
{
    return (as_uint(x) & INFINITE) != INFINITE;
}

/* ---- the slots exp, silu_mul and so on, of single values ---- */

static float exp_of(float x)
{
    if (x < -87.0f) return 0.0f;
    if (x > 88.0f) x = 88.0f;
    if (isnan(x)) return x;
    float j = rint(x * 1.44269504f);
    float r = fma(-j, 0.693145752f, x);
    r = fma(-j, 1.42860677e-6f, r);
    float p = 0x1.6c16c2p-10f; /* 1/720 */
    p = fma(p, r, 0x1.111112p-7f);
    p = fma(p, r, 0x1.555556p-5f);
    p = fma(p, r, 0x1.555556p-3f);
    p = fma(p, r, 0.5f);
    p = fma(p, r, 1.0f);
    p = fma(p, r, 1.0f);
    return p * as_float((uint)((int)j + 127) << 23);
}

/* x / (1 + exp(-gate)) */
static float sigmoid_times(float x, float gate)
{
    return x / (1.0f + exp_of(-gate));
}

enum { RELU2_MUL = 1, SILU_MUL, GELU_MUL };

static float activate(uint activation, float gate, float up)
{
    if (activation == SILU_MUL) return sigmoid_times(gate, gate) * up;
    if (activation == GELU_MUL)
        return sigmoid_times(gate, gate * fma(gate * gate, 0.0713548163f, 1.59576912f)) * up;
    float g = gate > 0.0f ? gate : 0.0f;
    return g * g * up;
}

/* ---- binary16 ---- */

/* No step has a subnormal, which CPUs are slow with. */
static float widen(ushort h)
{
    uint size = ((uint)(h & 0x7FFFu) << 13) + (112u << 23);
    if (size < 113u << 23) size = as_uint(as_float(size + (1u << 23)) - 0x1p-14f);
    if (size >= 143u << 23) size |= INFINITE | (size > 143u << 23 ? 0x400000u : 0);
    return as_float(size | (uint)(h & 0x8000u) << 16);
}

/* To nearest even; bn_ref_narrow_f16 of kernels/ref.h. */
static ushort narrow(float x)
{
    uint sign = as_uint(x) >> 16 & 0x8000u, size = as_uint(x) & 0x7FFFFFFFu;
    if (size > INFINITE) return (ushort)(sign | 0x7E00u | (size >> 13 & 0x3FFu));
    if (size >= as_uint(65520.0f)) return (ushort)(sign | 0x7C00u);
    if (size < as_uint(0x1p-14f)) return (ushort)(sign | (as_uint(as_float(size) + 0.5f) - as_uint(0.5f)));
    size += 0xFFFu + (size >> 13 & 1u);
    return (ushort)(sign | (size - (112u << 23)) >> 13);
}

/* ---- binary64 ---- */

/* Values that are 0 or more, infinity and NaN among them; none is subnormal in binary64. */
#if BN_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double real;

static real real_of_bits(ulong bits)
{
    return as_double(bits);
}

static real real_of(float x)
{
    return (double)x;
}

static real real_add(real a, real b)
{
    return a + b;
}

static real real_mul(real a, real b)
{
    return a * b;
}

static real real_div(real a, real b)
{
    return a / b;
}

static float real_to_float(real a)
{
    return (float)a;
}

static bool real_is_above(real a, real b)
{
    return a > b;
}
#else
typedef ulong real; /* its bits */

#define REAL_INFINITE 0x7FF0000000000000ul
#define REAL_ONE 0x0010000000000000ul /* the bit above the fraction */

static real real_of_bits(ulong bits)
{
    return bits;
}

static real real_of(float x)
{
    uint size = as_uint(x) & 0x7FFFFFFFu;
    if (size >= INFINITE) return REAL_INFINITE | (ulong)(size & 0x7FFFFFu) << 29;
    if (size == 0) return 0;
    int exponent = (int)(size >> 23);
    uint fraction = size & 0x7FFFFFu;
    if (exponent == 0) {
        int shift = (int)clz(fraction) - 8;
        fraction = fraction << shift & 0x7FFFFFu;
        exponent = 1 - shift;
    }
    return (ulong)(exponent + 896) << 52 | (ulong)fraction << 29;
}

static ulong significand(real a)
{
    return (a & (REAL_ONE - 1)) | REAL_ONE;
}

/* m * 2^(exponent - 1086), rounded to nearest even; bit 0 of m stands for all that is below it. 0 < m. */
static real real_round(int exponent, ulong m)
{
    int shift = (int)clz(m);
    m <<= shift;
    ulong rest = m & 0x7FFu, q = m >> 11;
    q += rest > 0x400u || (rest == 0x400u && (q & 1u) != 0);
    return ((ulong)(exponent - shift - 1) << 52) + q; /* the bit above the fraction adds 1 to the exponent */
}

static real real_add(real a, real b)
{
    real large = a > b ? a : b, small = a > b ? b : a;
    if (large >= REAL_INFINITE || small == 0) return large;
    int exponent = (int)(large >> 52), d = exponent - (int)(small >> 52);
    ulong m = significand(small) << 10;
    if (d > 63)
        m = 1;
    else if (d > 0)
        m = m >> d | ((m << (64 - d)) != 0);
    return real_round(exponent + 1, (significand(large) << 10) + m);
}

static real real_mul(real a, real b)
{
    if (a >= REAL_INFINITE || b >= REAL_INFINITE) return a == 0 || b == 0 ? REAL_INFINITE + 1 : max(a, b);
    if (a == 0 || b == 0) return 0;
    ulong x = significand(a) << 11, y = significand(b) << 11;
    return real_round((int)(a >> 52) + (int)(b >> 52) - 1022, mul_hi(x, y) | (x * y != 0));
}

static real real_div(real a, real b)
{
    if (a > REAL_INFINITE || b > REAL_INFINITE || (a == b && (a == 0 || a == REAL_INFINITE)))
        return REAL_INFINITE + 1;
    if (a == REAL_INFINITE || b == 0) return REAL_INFINITE;
    if (a == 0 || b == REAL_INFINITE) return 0;
    ulong rest = significand(a), divisor = significand(b), q = 0;
    for (int i = 0; i < 56; i++, rest <<= 1) {
        q <<= 1;
        if (rest < divisor) continue;
        rest -= divisor;
        q |= 1u;
    }
    return real_round((int)(a >> 52) - (int)(b >> 52) + 1030, q << 1 | (rest != 0));
}

static float real_to_float(real a)
{
    if (a >= REAL_INFINITE) return as_float(a > REAL_INFINITE ? 0x7FC00000u : INFINITE);
    int exponent = (int)(a >> 52) - 896; /* of binary32 */
    int shift = 29 + (exponent < 1 ? 1 - exponent : 0);
    if (exponent >= 255) return as_float(INFINITE);
    if (shift > 54) return 0.0f;
    ulong m = significand(a), q = m >> shift, rest = m & ((1ul << shift) - 1), half_way = 1ul << (shift - 1);
    q += rest > half_way || (rest == half_way && (q & 1u) != 0);
    return as_float((uint)q + (exponent > 1 ? (uint)(exponent - 1) << 23 : 0));
}

static bool real_is_above(real a, real b)
{
    return a > b && a <= REAL_INFINITE;
}
#endif

/* ---- a group and its row ---- */

INLINE real fold8(local real *lane)
{
    return real_add(real_add(real_add(lane[0], lane[4]), real_add(lane[2], lane[6])),
                    real_add(real_add(lane[1], lane[5]), real_add(lane[3], lane[7])));
}

/* The lane sum of the squares over 8 lanes; all items of the group get it. */
INLINE real sum_squares(global const float *x, uint n, local real *lane)
{
    MEET_ROW;
    for (uint l = get_local_id(0); l < 8; l += BN_GROUP) {
        real sum = real_of(0.0f);
        for (uint i = l; i < n; i += 8)
            sum = real_add(sum, real_of(x[i] * x[i]));
        lane[l] = sum;
    }
    MEET_ROW;
    return fold8(lane);
}

/* Slot rmsnorm; nothing when w is NULL. y may be x. */
INLINE void norm_row(global float *y, global const float *x, global const float *w, uint n, float eps,
                     local real *lane)
{
    if (w == NULL) n = 0;
    float mean = real_to_float(real_div(sum_squares(x, n, lane), real_of((float)n)));
    float r = 1.0f / sqrt(mean + eps);
    for (uint i = get_local_id(0); i < n; i += BN_GROUP)
        y[i] = x[i] * r * w[i];
    MEET_ROW;
}

/* The maximum and the sum of what the items of a team have, 16 neighbours; and of those of the group. */
#define TEAM (BN_GROUP < 16 ? BN_GROUP : 16)

INLINE float team_max(float x, local float *all)
{
    uint item = get_local_id(0);
    MEET_ROW;
    all[item] = x;
    MEET_ROW;
    for (uint i = item / TEAM * TEAM; i < item / TEAM * TEAM + TEAM; i++)
        x = all[i] > x ? all[i] : x;
    return x;
}

INLINE float group_max(float x, local float *all)
{
    x = team_max(x, all);
    MEET_ROW;
    all[get_local_id(0)] = x;
    MEET_ROW;
    for (uint i = 0; i < BN_GROUP; i += TEAM)
        x = all[i] > x ? all[i] : x;
    return x;
}

INLINE int team_sum(int x, local int *all)
{
    uint item = get_local_id(0);
    MEET_ROW;
    all[item] = x;
    MEET_ROW;
    x = 0;
    for (uint i = item / TEAM * TEAM; i < item / TEAM * TEAM + TEAM; i++)
        x += all[i];
    return x;
}

INLINE int group_sum(int x, local int *all)
{
    x = team_sum(x, all);
    MEET_ROW;
    all[get_local_id(0)] = x;
    MEET_ROW;
    x = 0;
    for (uint i = 0; i < BN_GROUP; i += TEAM)
        x += all[i];
    return x;
}

/* In private memory: lane j takes lane j + 8, 4, 2, 1. */
static float fold16(float *lane)
{
#pragma unroll
    for (uint j = 0; j < 8; j++)
        lane[j] += lane[j + 8];
#pragma unroll
    for (uint j = 0; j < 4; j++)
        lane[j] += lane[j + 4];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* Slot softmax. */
INLINE void softmax_row(global float *x, uint n, local real *lane, local float *floats)
{
    const uint item = get_local_id(0);
    float most = x[0];
    for (uint i = item; i < n; i += BN_GROUP)
        if (x[i] > most) most = x[i];
    most = group_max(most, floats);
    for (uint i = item; i < n; i += BN_GROUP)
        x[i] = exp_of(x[i] - most);
    MEET_ROW;
    for (uint l = item; l < 8; l += BN_GROUP) {
        real sum = real_of(0.0f);
        for (uint i = l; i < n; i += 8)
            sum = real_add(sum, real_of(x[i]));
        lane[l] = sum;
    }
    MEET_ROW;
    const float factor = real_to_float(real_div(real_of(1.0f), fold8(lane)));
    for (uint i = item; i < n; i += BN_GROUP)
        x[i] *= factor;
}
