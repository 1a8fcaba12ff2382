/* SPDX-License-Identifier: MIT
 *
 * kernels.h - the leaf arithmetic of the engine: one table of functions per instruction set.
 *
 * Kernels do not allocate, do no I/O, keep no state, and include nothing but libc and this header. Every slot
 * has a reference in plain C (ref_*.c), written to be read; the other files do the same arithmetic, to the
 * bit, faster. tests/checkkern holds each against the reference. What "the same arithmetic" means is fixed in
 * docs/explain/numerics.md; the short form is at each slot below.
 *
 * Words: a *lane sum* of n terms over L lanes adds term i to lane i mod L in ascending order, then folds the
 * lanes: lane j += lane j + L/2, then L/4, ... 1; the result is lane 0. fma is one correctly rounded
 * fused multiply-add; where it is not named, every operation rounds on its own.
 *
 * Pointers: weights may be unaligned; everything else is at least 4-byte aligned. Nothing is read or written
 * beyond the lengths given (checkkern uses guard pages). Outputs do not overlap inputs unless said so.
 */
#ifndef BN_KERNELS_H
#define BN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements of a block of I2_S: 32 bytes; byte p holds elements p, 32+p, 64+p, 96+p, high bits first. Codes 0, 1, 2 mean
 * -1, 0, +1; the unused code 3 counts as +2 in every kernel. */
#define BN_I2S_BLOCK 128u

/* T5 is this library's own packing in memory, 1.6 bits a weight, of the same codes as I2_S: 64 bytes hold 320
 * elements; byte p is the sum over d = 0 ... 4 of code(64d + p) times 1, 3, 9, 27, 84. (84 and not 81: a
 * multiple of 4 is easier to take apart.) */
#define BN_T5_BLOCK 320u
#define BN_T5_BLOCK_BYTES 64u

/* A ternary matrix in T5, rows x k; row r starts at codes + r * row_bytes. */
struct bn_t5 {
    const uint8_t *codes;
    const uint32_t *picked; /* n_picked rows, ascending, that alone are computed; NULL: all are */
    size_t n_picked;
    size_t rows, k; /* k is a multiple of the block */
    size_t row_bytes;
    float scale;   /* of the whole matrix */
    bool streamed; /* the model is larger than the caches, so these codes come from memory: a hint, no more */
};

/* Ternary weights with a scale for each group of them, or with one scale (I2_S), rows x k. Sixteen rows make a tile, in
 * which sixteen weights of each row lie side by side, so that a vector of 32-bit lanes has a row in each lane: tile t
 * starts at codes + t * 4k, its weights 16i ... 16i + 15 at + 64i, those of row 16t + r in the four bytes from + 4r on,
 * weight 16i + 4m + p in byte m at bits 2p. I2_S: the bytes 4m ... 4m + 3 of block b of the row at + 512b + 64m + 4r.
 * The code c means c - 1; the code 3 means +2. scales is [tile][k / group][16 rows] in binary16. The rows after the
 * last one are zeros. */
#define BN_TILE_ROWS 16u
#define BN_MIN_GROUP 64u
#define BN_MAX_GROUP 256u

/* How the rows of a file hold such weights: blocks with a binary16 scale, one after the other. The digits of TQ1 and
 * PTQ1 are to base 3, five in a byte (engine/gguf/pack.c). */
enum bn_blocks {
    BN_BLOCKS_Q2,   /* Q2_0, PQ2_0: the scale, then group / 4 bytes of codes in the order of a tile's rows */
    BN_BLOCKS_TQ2,  /* 64 bytes, then the scale: weight 128h + 32n + m in byte 32h + m at bits 2n */
    BN_BLOCKS_TQ1,  /* 52 bytes, then the scale: weights n d + m are digits d of n bytes m; n = 32, 16, 4 */
    BN_BLOCKS_PTQ1, /* 26 bytes, then the scale: the same with n = 16, 8, 2 */
    BN_BLOCKS_I2S,  /* 32 bytes as above, no scale */
};

struct bn_ternary {
    const uint8_t *codes; /* NULL: only the rows of the file are there */
    const uint16_t *scales;
    float scale;    /* I2_S: of the whole matrix; scales is NULL */
    size_t rows, k; /* k is a multiple of group */
    size_t group;   /* weights that share a scale: 64, 128 or 256; I2_S: 128, its block */
    bool streamed;  /* as above */
    enum bn_blocks blocks;
    const uint8_t *stored; /* the rows of the file, row_bytes apart */
    size_t row_bytes;
};

/* The same weights with one scale by columns, for inputs most of which are 0: rows x k, column i at codes + i *
 * column_bytes, 64-byte aligned. 64 bytes hold 256 rows: row 64m + 16s + 4l + i is in byte 16l + 4m + i at bits 2s. */
#define BN_COLUMN_ROWS 256u

struct bn_columns {
    const uint8_t *codes; /* NULL: there are none */
    size_t rows, k;
    size_t column_bytes; /* a multiple of 64 */
    float scale;
};

/* One row of activations: for weights with one scale as quantize makes it, for those of groups in planes. 16 bits, as
 * quantize16 makes them: x is 256 high + low. 8 bits, as to_plane makes them of q: high and step are NULL, x = low, every
 * step is 1. In each plane byte 16i + 4p + m belongs to element 16i + 4m + p. */
struct bn_act {
    const int8_t *q;          /* k values in -127 ... 127 in their order; not for 16 bits */
    int32_t total;            /* of all of them */
    float scale;              /* q = round(x * scale): products are divided by it; 1 for 16 bits */
    const int8_t *high, *low; /* k values each, 64-byte aligned */
    const float *step;        /* of each group, a power of two: x is about (256 high + low) * step / scale */
    const int32_t *sum;       /* of the values of each group */
};

/* A vector of 16-bit integers 256 high + low as two planes of bytes. */
struct bn_planes {
    const int8_t *high, *low;
};

/* The code of weight i in row r. */
static inline unsigned bn_ternary_code(const struct bn_ternary *w, size_t r, size_t i)
{
    const uint8_t *tile = w->codes + r / BN_TILE_ROWS * 4 * w->k;
    if (w->blocks == BN_BLOCKS_I2S)
        return tile[i / 128 * 512 + i % 32 / 4 * 64 + 4 * (r % BN_TILE_ROWS) + i % 4] >>
                   (6 - i % 128 / 32 * 2) &
               3u;
    return tile[i / 16 * 64 + 4 * (r % BN_TILE_ROWS) + i % 16 / 4] >> (2 * (i % 4)) & 3u;
}

/* Where element i of a row is in the planes of bn_act. */
static inline size_t bn_in_plane(size_t i)
{
    return i / 16 * 16 + i % 4 * 4 + i % 16 / 4;
}

/* The keys of one head, in binary16. Sixteen positions make a tile, in which element i of all of them lies side by
 * side: a vector has a position in each lane. Tiles are read to their ends. */
#define BN_KEY_TILE 16u
struct bn_keys {
    const uint16_t *tiles;
    size_t n_pos, head_dim;
};

/* Where element i of position p is in the tiles. */
static inline size_t bn_in_keys(size_t p, size_t i, size_t head_dim)
{
    return (p / BN_KEY_TILE * head_dim + i) * BN_KEY_TILE + p % BN_KEY_TILE;
}

/* The values of one head: n_pos rows of head_dim binary16 values, ld apart. */
struct bn_kv {
    const uint16_t *rows;
    size_t ld, n_pos, head_dim;
};

/* The gated delta rule for some columns of one head, and several tokens after each other (Yang et al., "Gated delta
 * networks", 2024). Row t of q, k, v and o begins t times its distance after row 0. */
struct bn_delta {
    float *state; /* d rows of `columns` values, ld apart: changed */
    size_t d, columns, ld;
    const float *q, *k; /* d values of each token */
    const float *v;     /* `columns` of each */
    float *o;
    size_t ld_qk, ld_v, ld_o;
    const float *decay, *beta; /* one of each token */
    size_t ld_gate;
};

/* The slots; the order is that of the names in receipts. */
enum bn_kernel {
    BN_KERNEL_T5_GEMV,
    BN_KERNEL_T5_PACK,
    BN_KERNEL_I8_GEMM,
    BN_KERNEL_QUANTIZE,
    BN_KERNEL_RESIDUAL,
    BN_KERNEL_RMSNORM,
    BN_KERNEL_ROPE_NEOX,
    BN_KERNEL_ROPE_NORM,
    BN_KERNEL_ATTN_SCORES,
    BN_KERNEL_SOFTMAX,
    BN_KERNEL_ATTN_VALUES,
    BN_KERNEL_RELU2_MUL,
    BN_KERNEL_SILU_MUL,
    BN_KERNEL_ADD,
    BN_KERNEL_F16_GEMM,
    BN_KERNEL_F32_GEMM,
    BN_KERNEL_F32_TO_F16,
    BN_KERNEL_F16_TO_F32,
    BN_KERNEL_BF16_TO_F32,
    BN_KERNEL_Q8_0_TO_F32,
    BN_KERNEL_Q6_K_TO_F32,
    BN_KERNEL_Q4_0_TO_F32,
    BN_KERNEL_HAS_CODE3,
    BN_KERNEL_EXP,
    BN_KERNEL_TERNARY_GEMV,
    BN_KERNEL_TERNARY_GEMM,
    BN_KERNEL_QUANTIZE16,
    BN_KERNEL_GELU_MUL,
    BN_KERNEL_TO_PLANE,
    BN_KERNEL_ROTATE,
    BN_KERNEL_SIGMOID_MUL,
    BN_KERNEL_CONV_SILU,
    BN_KERNEL_DELTA,
    BN_KERNEL_TO_TILES,
    BN_KERNEL_COLUMNS_GEMV,
    BN_KERNEL_COUNT
};

struct bn_kernels {
    const char *isa; /* "ref", "avx2", "avxvnni", "avx512vnni", "avx512vbmi", "amx", "neon" */
    /* The function in each slot by name, e.g. "ternary_gemv_avx2"; a slot that an instruction set leaves to a
     * lower one keeps that one's name, so a receipt shows the code that ran. */
    const char *name[BN_KERNEL_COUNT];

    /* ---- ternary ---- */

    /* y[r] = acc / x->scale, where acc runs over the groups g in ascending order from 0: acc = fma(d_g, (float)t_g *
     * step_g, acc), t_g the exact sum of (code - 1) * q over the group, |t_g| < 2^24, d_g its scale widened. I2_S:
     * y[r] = ((float)t / x->scale) * w->scale with t the sum over the row, exact in int32 (k <= 2^20): one division, one
     * multiplication. Without tiles (w->codes is NULL) it reads the rows of the file. */
    void (*ternary_gemv)(float *y, const struct bn_ternary *w, const struct bn_act *x);
    /* The same for n rows of activations, all of 16 bits or all of 8, from tiles: y[j * ldy + r]. */
    void (*ternary_gemm)(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n);
    /* For each group of x: amax = max(2^-100, max |x|); p = the largest power of two <= amax; step = p / 8192;
     * q = x / step (exact) rounded to nearest even, so |q| <= 16384; low = q modulo 256 in -128..127,
     * high = (q - low) / 256, in the order of bn_act. n is a multiple of group. A NaN is not in max; where
     * x / step is a NaN, as of a NaN or of two infinities, q = 16384. */
    void (*quantize16)(int8_t *high, int8_t *low, float *step, int32_t *sum, const float *x, size_t n,
                       size_t group);
    /* All rows of w, as a file stores them, into tiles of their own: ceil(rows / 16) times 4k bytes of codes, and as
     * many scales (NULL: I2_S). codes is 64-byte aligned. */
    void (*to_tiles)(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w);
    /* A row of quantize in the order of bn_act, and its sum over each group. n is a multiple of group. */
    void (*to_plane)(int8_t *plane, int32_t *sum, const int8_t *q, size_t n, size_t group);
    /* The bits of ternary_gemv with I2_S: n of the inputs, used[0] < used[1] < ..., are not 0, and only their columns are
     * read. */
    void (*columns_gemv)(float *y, const struct bn_columns *w, const struct bn_act *x, const uint32_t *used,
                         size_t n);
    /* The bits of ternary_gemv with I2_S, from codes in T5; bytes that no packing makes have a 3 as
     * fourth or last digit. */
    void (*t5_gemv)(float *y, const struct bn_t5 *w, const struct bn_act *x);
    /* One row of I2_S codes, none of them 3, into T5: k elements (a multiple of 128) take
     * ceil(k / 320) blocks; codes past the end are 0. */
    void (*t5_pack)(uint8_t *out, const uint8_t *codes, size_t k);
    /* y[j * ldy + r] = t rounded once, t = sum over i of w[r * k + i] * (256 * x[j].high[i] + x[j].low[i]), exact
     * (k <= 2^16): 8-bit weights times n vectors of 16-bit integers. The weights are read once. */
    void (*i8_gemm)(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x,
                    size_t n);
    /* amax = max(1e-5, max |x|) in binary64; *scale = (float)(127.0 / amax); q = x * *scale (binary32),
     * rounded to nearest even, clamped to -127..127; *sum of them. A NaN is not in max; where the product is a
     * NaN, as of a NaN or of infinity and 0, q = 127. */
    void (*quantize)(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n);
    /* What quantising left over: *size = sum of x^2, *rest = sum of d^2 with d = fma(-q, step, x); d and the
     * squares in binary32, lane sums of those in binary64 over 8 lanes. */
    void (*residual)(double *size, double *rest, const float *x, const int8_t *q, float step, size_t n);
    /* True when some 2-bit field in the n bytes is 3. */
    bool (*has_code3)(const uint8_t *codes, size_t n);

    /* ---- norm, positions, attention ---- */

    /* Squares in binary32, lane sum of them in binary64 over 8 lanes, / n; r = 1 / sqrtf((float)mean + eps);
     * y = (x * r) * w. y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps);
    /* Rotates pairs of one head in place: NEOX pairs (i, i + n_rot/2), NORM pairs (2i, 2i + 1), i < n_rot/2,
     * a' = a*cos - b*sin, b' = a*sin + b*cos, three roundings each. cos and sin have n_rot/2 values. */
    void (*rope_neox)(float *x, const float *cos, const float *sin, size_t n_rot);
    void (*rope_norm)(float *x, const float *cos, const float *sin, size_t n_rot);
    /* For n queries (of heads and tokens that share these keys) j: s[j * lds + p] = dot(q_j, k_p) * factor, q rows
     * ldq apart; the dot is a lane sum over 16 lanes by fma (lane = fma(q, k, lane)). */
    void (*attn_scores)(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                        float factor);
    /* In place: m = max; e = exp(x - m) by the exp slot; sum = lane sum of e in binary64 over 8 lanes;
     * x = e * (float)(1.0 / sum). n >= 1. */
    void (*softmax)(float *x, size_t n);
    /* For n rows of scores j: y[j * ldy + d] = fma(s[j * lds + p], v_p[d], y[j * ldy + d]) for p = 0 ...
     * n_pos - 1: adds to what y holds. */
    void (*attn_values)(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v);

    /* ---- element by element ---- */

    /* y = (g * g) * up with g = max(gate, 0) (+0 when gate is -0 or a NaN). y may be gate or up. */
    void (*relu2_mul)(float *y, const float *gate, const float *up, size_t n);
    /* y = (gate / (1 + exp(-gate))) * up by the exp slot. y may be gate or up. */
    void (*silu_mul)(float *y, const float *gate, const float *up, size_t n);
    /* y = (gate / (1 + exp(-u))) * up by the exp slot, u = gate * fma(gate * gate, 0.0713548163f, 1.59576912f): GELU
     * in its tanh form, since 1 + tanh(z) = 2 / (1 + exp(-2z)). y may be gate or up. */
    void (*gelu_mul)(float *y, const float *gate, const float *up, size_t n);
    /* y = x / (1 + exp(-gate)) by the exp slot. y may be x or gate. */
    void (*sigmoid_mul)(float *y, const float *x, const float *gate, size_t n);
    /* A convolution of each column over the rows x[0] ... x[taps - 1], then SiLU: c = 0; c = c + w[t * ldw + i] * x[t][i]
     * for ascending t, two roundings each; y[i] = c / (1 + exp(-c)) by the exp slot. */
    void (*conv_silu)(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n);
    /* y += x. */
    void (*add)(float *y, const float *x, size_t n);
    /* y = exp(x), our own: x < -87 gives 0, x > 88 counts as 88, a NaN stays one; j = rint(x * 1.44269504f);
     * r = fma(-j, 0.693145752f, x); r = fma(-j, 1.42860677e-6f, r); a polynomial of degree 6 in r by Horner
     * with fma, coefficients 1/720, 1/120, 1/24, 1/6, 1/2, 1, 1; times 2^j. y may be x. */
    void (*exp)(float *y, const float *x, size_t n);

    /* n tokens in order; each on every column j by itself: S_ij = S_ij * decay; p = sum over ascending i, from 0, of
     * fma(S_ij, k_i, p); u = beta * (v_j - p); S_ij = fma(k_i, u, S_ij); o_j = sum over ascending i, from 0, of
     * fma(S_ij, q_i, o_j). */
    void (*delta)(const struct bn_delta *at, size_t n);

    /* In place: x = H (s * x), or with `back` x = s * (H x), for each block of a power of two from 2 to 65536 values.
     * s: n signs of +1 or -1, or NULL. H is the fast Walsh-Hadamard transform: for half = 1, 2, 4 ... block / 2, each
     * a at i and b at i + half become a + b and a - b; then one product by (float)(1 / sqrt(block)). */
    void (*rotate)(float *x, const float *signs, size_t n, size_t block, bool back);

    /* ---- float matrices: the head, and rows of the embedding ---- */

    /* y[j * ldy + r] = dot(w_r, x_j), r < rows, j < n: lane sum over 16 lanes by fma(w, x, lane), binary16
     * widened exactly. w rows are k values apart, x rows ldx apart. */
    void (*f16_gemm)(float *y, size_t ldy, const uint16_t *w, size_t rows, size_t k, const float *x,
                     size_t ldx, size_t n);
    void (*f32_gemm)(float *y, size_t ldy, const float *w, size_t rows, size_t k, const float *x, size_t ldx,
                     size_t n);
    /* Rounds to nearest even, overflow gives infinity, subnormals are kept; a NaN keeps its sign and the
     * upper bits of its payload and becomes quiet. */
    void (*f32_to_f16)(uint16_t *y, const float *x, size_t n);

    /* One row of n values (a multiple of the type's block) from its stored bytes. Exact for F16 (a
     * signalling NaN becomes quiet) and BF16; Q8_0: d * q; Q4_0: d * (q - 8); Q6_K: (d * scale) * (q - 32),
     * each product rounded to binary32. */
    void (*f16_to_f32)(float *y, const void *x, size_t n);
    void (*bf16_to_f32)(float *y, const void *x, size_t n);
    void (*q8_0_to_f32)(float *y, const void *x, size_t n);
    void (*q6_k_to_f32)(float *y, const void *x, size_t n);
    void (*q4_0_to_f32)(float *y, const void *x, size_t n);
};

/* The tables of this build, slowest first, NULL past the end; supported or not. */
const struct bn_kernels *bn_kernels_built(size_t i);
/* Can this CPU and operating system run it? */
bool bn_kernels_supported(const struct bn_kernels *kernels);
/* What prevents that, NULL when nothing does; see bn_cpu_lacks in cpu.h. */
const char *bn_kernels_lacks(const struct bn_kernels *kernels);
/* By name, NULL when unknown; "auto" is the fastest supported. */
const struct bn_kernels *bn_kernels_find(const char *isa);
/* The slot's name without the instruction set, "ternary_gemv". */
const char *bn_kernel_slot_name(enum bn_kernel slot);
/* Is "ternary_gemv_avx2" a kernel of this slot, or of one of an earlier version that it replaced? */
bool bn_kernel_is(const char *name, enum bn_kernel slot);
/* The function in a slot, for those who look at its machine code; it is called through the slot only. */
typedef void (*bn_kernel_code)(void);
bn_kernel_code bn_kernels_code(const struct bn_kernels *kernels, enum bn_kernel slot);
/* Whether isa names an instruction set, of this build or of another. */
bool bn_kernels_is_set(const char *isa);
/* Does the table of an instruction set name this kernel, or did it in an earlier version? Of any set, whether it is in
 * this build or not; "opencl" is the set of what devices compute, "ternary_gemv_opencl". */
bool bn_kernels_set_has(const char *isa, const char *name);

/* The reference table, from which the others start. */
extern const struct bn_kernels bn_kernels_ref;

#endif
