/* SPDX-License-Identifier: MIT
 *
 * The default levels of severity, carried inside bn-bench; see tools/bench/judging.h.
 */
    .section .rodata
    .globl bn_bench_thresholds
    .globl bn_bench_thresholds_bytes
    .type bn_bench_thresholds, @object
bn_bench_thresholds:
    .incbin "baselines/thresholds.json"
    .size bn_bench_thresholds, . - bn_bench_thresholds
.Lend:
    .balign 8
    .type bn_bench_thresholds_bytes, @object
bn_bench_thresholds_bytes:
    .quad .Lend - bn_bench_thresholds
    .size bn_bench_thresholds_bytes, 8
    .section .note.GNU-stack, "", @progbits
