/* SPDX-License-Identifier: MIT
 *
 * kernels_table.h - which function fills which slot: one line per slot, one column per instruction set; the entry names the
 * instruction set whose function is used. Declarations, tables and the names in receipts all come from these
 * lines, so a name cannot differ from the code that runs. For the files of this folder only.
 */
#ifndef BN_KERNELS_TABLE_H
#define BN_KERNELS_TABLE_H

#include "kernels/kernels.h"

/* clang-format off */
#define BN_KERNEL_TABLE(X)                                                                          \
    /* slot          number         avx2  avxvnni  avx512vnni  avx512vbmi  amx         neon */      \
    X(i2s_gemv,     I2S_GEMV,      avx2, avxvnni, avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(i2s_gemm,     I2S_GEMM,      avx2, avxvnni, avx512vnni, avx512vnni, amx,        neon)         \
    X(t5_gemv,      T5_GEMV,       ref,  ref,     ref,        avx512vbmi, avx512vbmi, ref)          \
    X(t5_pack,      T5_PACK,       ref,  ref,     ref,        avx512vbmi, avx512vbmi, ref)          \
    X(i8_gemm,      I8_GEMM,       avx2, avxvnni, avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(quantize,     QUANTIZE,      avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(residual,     RESIDUAL,      avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(rmsnorm,      RMSNORM,       avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(rope_neox,    ROPE_NEOX,     avx2, avx2,    avx2,       avx2,       avx2,       neon)         \
    X(rope_norm,    ROPE_NORM,     avx2, avx2,    avx2,       avx2,       avx2,       neon)         \
    X(attn_scores,  ATTN_SCORES,   avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(softmax,      SOFTMAX,       avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(attn_values,  ATTN_VALUES,   avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(relu2_mul,    RELU2_MUL,     avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(silu_mul,     SILU_MUL,      avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(add,          ADD,           avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(f16_gemm,     F16_GEMM,      avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(f32_gemm,     F32_GEMM,      avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(f32_to_f16,   F32_TO_F16,    avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(f16_to_f32,   F16_TO_F32,    avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(bf16_to_f32,  BF16_TO_F32,   avx2, avx2,    avx2,       avx2,       avx2,       neon)         \
    X(q8_0_to_f32,  Q8_0_TO_F32,   avx2, avx2,    avx2,       avx2,       avx2,       neon)         \
    X(q6_k_to_f32,  Q6_K_TO_F32,   avx2, avx2,    avx2,       avx2,       avx2,       neon)         \
    X(q4_0_to_f32,  Q4_0_TO_F32,   avx2, avx2,    avx2,       avx2,       avx2,       neon)         \
    X(has_code3,    HAS_CODE3,     avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(exp,          EXP,           avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(grouped_gemv, GROUPED_GEMV,  avx2, avxvnni, avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(grouped_gemm, GROUPED_GEMM,  avx2, avxvnni, avx512vnni, avx512vnni, amx,        neon)         \
    X(quantize16,   QUANTIZE16,    avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(gelu_mul,     GELU_MUL,      avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(to_plane,     TO_PLANE,      avx2, avx2,    avx2,       avx2,       avx2,       neon)         \
    X(rotate,       ROTATE,        avx2, avx2,    avx2,       avx2,       avx2,       ref)          \
    X(sigmoid_mul,  SIGMOID_MUL,   avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(conv_silu,    CONV_SILU,     avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(delta,        DELTA,         avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(to_tiles,     TO_TILES,      avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)

/* Slots of earlier versions, which receipts name, in the same columns. The number is that of the slot that does their
 * work now. */
#define BN_KERNEL_RETIRED(X)                                                                        \
    X(tq2_gemv,     GROUPED_GEMV,  avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(tq2_gemm,     GROUPED_GEMM,  avx2, avx2,    avx512vnni, avx512vnni, avx512vnni, neon)         \
    X(i8_gemv,      I8_GEMM,       avx2, avxvnni, avx512vnni, avx512vnni, avx512vnni, neon)
/* clang-format on */

/* Every function of every instruction set has the type of its slot; one that does not exist is never used. */
#define BN_KERNEL_DECLARE(slot, isa) __typeof__(*((const struct bn_kernels *)0)->slot) bn_##slot##_##isa;
#define BN_KERNEL_DECLARE_ALL(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) \
    BN_KERNEL_DECLARE(slot, ref)                                                              \
    BN_KERNEL_DECLARE(slot, avx2)                                                             \
    BN_KERNEL_DECLARE(slot, avxvnni)                                                          \
    BN_KERNEL_DECLARE(slot, avx512vnni)                                                       \
    BN_KERNEL_DECLARE(slot, avx512vbmi)                                                       \
    BN_KERNEL_DECLARE(slot, amx)                                                              \
    BN_KERNEL_DECLARE(slot, neon)
BN_KERNEL_TABLE(BN_KERNEL_DECLARE_ALL)

#endif
