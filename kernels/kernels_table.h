/* SPDX-License-Identifier: MIT
 *
 * kernels_table.h - the slots, and the kernels that each instruction set has. Declarations, tables and the names in receipts
 * all come from these lists, so a name cannot differ from the code that runs. For the files of this folder only.
 *
 * A table starts from that of the set below and replaces some of its kernels. The lists of all architectures are in every
 * build, since receipts of other machines name their kernels.
 */
#ifndef BN_KERNELS_TABLE_H
#define BN_KERNELS_TABLE_H

#include "kernels/kernels.h"

/* clang-format off */
/* The kernels of each set. Those of the reference are in the order of enum bn_kernel. OLD: of slots of earlier versions, which
 * receipts name; only the names are left. */
#define BN_SET_ref(X, OLD)                                                                         \
    X(t5_gemv, ref) X(t5_pack, ref) X(i8_gemm, ref) X(quantize, ref) X(residual, ref)              \
    X(rmsnorm, ref) X(rope_neox, ref) X(rope_norm, ref) X(attn_scores, ref) X(softmax, ref)        \
    X(attn_values, ref) X(relu2_mul, ref) X(silu_mul, ref) X(add, ref) X(f16_gemm, ref)            \
    X(f32_gemm, ref) X(f32_to_f16, ref) X(f16_to_f32, ref) X(bf16_to_f32, ref)                     \
    X(q8_0_to_f32, ref) X(q6_k_to_f32, ref) X(q4_0_to_f32, ref) X(has_code3, ref) X(exp, ref)      \
    X(ternary_gemv, ref) X(ternary_gemm, ref) X(quantize16, ref) X(gelu_mul, ref)                  \
    X(to_plane, ref) X(rotate, ref) X(sigmoid_mul, ref) X(conv_silu, ref) X(delta, ref)            \
    X(to_tiles, ref) X(columns_gemv, ref)                                                          \
    OLD(tq2_gemv, ref) OLD(tq2_gemm, ref) OLD(i8_gemv, ref) OLD(i2s_gemv, ref) OLD(i2s_gemm, ref)  \
    OLD(grouped_gemv, ref) OLD(grouped_gemm, ref)
#define BN_SET_avx2(X, OLD)                                                                        \
    X(i8_gemm, avx2) X(quantize, avx2) X(residual, avx2) X(rmsnorm, avx2) X(rope_neox, avx2)       \
    X(rope_norm, avx2) X(attn_scores, avx2) X(softmax, avx2) X(attn_values, avx2)                  \
    X(relu2_mul, avx2) X(silu_mul, avx2) X(add, avx2) X(f16_gemm, avx2) X(f32_gemm, avx2)          \
    X(f32_to_f16, avx2) X(f16_to_f32, avx2) X(bf16_to_f32, avx2) X(q8_0_to_f32, avx2)              \
    X(q6_k_to_f32, avx2) X(q4_0_to_f32, avx2) X(has_code3, avx2) X(exp, avx2)                      \
    X(ternary_gemv, avx2) X(ternary_gemm, avx2) X(quantize16, avx2) X(gelu_mul, avx2)              \
    X(to_plane, avx2) X(rotate, avx2) X(sigmoid_mul, avx2) X(conv_silu, avx2) X(delta, avx2)       \
    X(to_tiles, avx2) X(columns_gemv, avx2)                                                        \
    OLD(tq2_gemv, avx2) OLD(tq2_gemm, avx2) OLD(i8_gemv, avx2) OLD(i2s_gemv, avx2)                 \
    OLD(i2s_gemm, avx2) OLD(grouped_gemv, avx2) OLD(grouped_gemm, avx2)
#define BN_SET_avxvnni(X, OLD)                                                                     \
    X(i8_gemm, avxvnni) X(ternary_gemv, avxvnni) X(ternary_gemm, avxvnni) X(columns_gemv, avxvnni) \
    OLD(i8_gemv, avxvnni) OLD(i2s_gemv, avxvnni) OLD(i2s_gemm, avxvnni)                            \
    OLD(grouped_gemv, avxvnni) OLD(grouped_gemm, avxvnni)
#define BN_SET_avx512vnni(X, OLD)                                                                  \
    X(i8_gemm, avx512vnni) X(quantize, avx512vnni) X(residual, avx512vnni)                         \
    X(rmsnorm, avx512vnni) X(attn_scores, avx512vnni) X(softmax, avx512vnni)                       \
    X(attn_values, avx512vnni) X(relu2_mul, avx512vnni) X(silu_mul, avx512vnni)                    \
    X(add, avx512vnni) X(f16_gemm, avx512vnni) X(f32_gemm, avx512vnni) X(f32_to_f16, avx512vnni)   \
    X(f16_to_f32, avx512vnni) X(has_code3, avx512vnni) X(exp, avx512vnni)                          \
    X(ternary_gemv, avx512vnni) X(ternary_gemm, avx512vnni) X(quantize16, avx512vnni)              \
    X(gelu_mul, avx512vnni) X(sigmoid_mul, avx512vnni) X(conv_silu, avx512vnni)                    \
    X(delta, avx512vnni) X(to_tiles, avx512vnni) X(columns_gemv, avx512vnni)                       \
    OLD(tq2_gemv, avx512vnni) OLD(tq2_gemm, avx512vnni) OLD(i8_gemv, avx512vnni)                   \
    OLD(i2s_gemv, avx512vnni) OLD(i2s_gemm, avx512vnni) OLD(grouped_gemv, avx512vnni)              \
    OLD(grouped_gemm, avx512vnni)
#define BN_SET_avx512vbmi(X, OLD)                                                                  \
    X(t5_gemv, avx512vbmi) X(t5_pack, avx512vbmi)
#define BN_SET_amx(X, OLD)                                                                         \
    X(ternary_gemm, amx) OLD(i2s_gemm, amx) OLD(grouped_gemm, amx)
#define BN_SET_neon(X, OLD)                                                                        \
    X(i8_gemm, neon) X(quantize, neon) X(residual, neon) X(rmsnorm, neon) X(rope_neox, neon)       \
    X(rope_norm, neon) X(attn_scores, neon) X(softmax, neon) X(attn_values, neon)                  \
    X(relu2_mul, neon) X(silu_mul, neon) X(add, neon) X(f16_gemm, neon) X(f32_gemm, neon)          \
    X(f32_to_f16, neon) X(f16_to_f32, neon) X(bf16_to_f32, neon) X(q8_0_to_f32, neon)              \
    X(q6_k_to_f32, neon) X(q4_0_to_f32, neon) X(has_code3, neon) X(exp, neon)                      \
    X(ternary_gemv, neon) X(ternary_gemm, neon) X(quantize16, neon) X(gelu_mul, neon)              \
    X(to_plane, neon) X(sigmoid_mul, neon) X(conv_silu, neon) X(delta, neon) X(to_tiles, neon)     \
    OLD(tq2_gemv, neon) OLD(tq2_gemm, neon) OLD(i8_gemv, neon) OLD(i2s_gemv, neon)                 \
    OLD(i2s_gemm, neon) OLD(grouped_gemv, neon) OLD(grouped_gemm, neon)

/* What devices beside the CPU compute: names alone, since their code is in opencl and no --isa is called so. */
#define BN_SET_opencl(X, OLD)                                                                      \
    OLD(t5_gemv, opencl) OLD(quantize, opencl) OLD(rmsnorm, opencl) OLD(rope_neox, opencl)         \
    OLD(rope_norm, opencl) OLD(attn_scores, opencl) OLD(softmax, opencl) OLD(attn_values, opencl)  \
    OLD(relu2_mul, opencl) OLD(silu_mul, opencl) OLD(add, opencl) OLD(f16_gemm, opencl)            \
    OLD(f32_gemm, opencl) OLD(f32_to_f16, opencl) OLD(ternary_gemv, opencl)                        \
    OLD(ternary_gemm, opencl) OLD(quantize16, opencl) OLD(gelu_mul, opencl)                        \
    OLD(sigmoid_mul, opencl) OLD(conv_silu, opencl) OLD(delta, opencl)

/* The whole tables: each set after the one that it starts from. */
#define BN_TABLE_ref(X, OLD) BN_SET_ref(X, OLD)
#define BN_TABLE_avx2(X, OLD) BN_TABLE_ref(X, OLD) BN_SET_avx2(X, OLD)
#define BN_TABLE_avxvnni(X, OLD) BN_TABLE_avx2(X, OLD) BN_SET_avxvnni(X, OLD)
#define BN_TABLE_avx512vnni(X, OLD) BN_TABLE_avx2(X, OLD) BN_SET_avx512vnni(X, OLD)
#define BN_TABLE_avx512vbmi(X, OLD) BN_TABLE_avx512vnni(X, OLD) BN_SET_avx512vbmi(X, OLD)
#define BN_TABLE_amx(X, OLD) BN_TABLE_avx512vbmi(X, OLD) BN_SET_amx(X, OLD)
#define BN_TABLE_neon(X, OLD) BN_TABLE_ref(X, OLD) BN_SET_neon(X, OLD)
#define BN_TABLE_opencl(X, OLD) BN_SET_opencl(X, OLD)

#define BN_SETS(X) X(ref) X(avx2) X(avxvnni) X(avx512vnni) X(avx512vbmi) X(amx) X(neon)
#define BN_DEVICE_SETS(X) X(opencl)
/* clang-format on */

/* Every function has the type of its slot. */
#define BN_KERNEL_DECLARE(slot, isa) __typeof__(*((const struct bn_kernels *)0)->slot) bn_##slot##_##isa;
#define BN_KERNEL_NO_CODE(slot, isa)
#define BN_KERNEL_DECLARE_SET(isa) BN_SET_##isa(BN_KERNEL_DECLARE, BN_KERNEL_NO_CODE)
BN_SETS(BN_KERNEL_DECLARE_SET)

#endif
