/* SPDX-License-Identifier: MIT
 *
 * What the style sheet of the page of bn-bench has beyond that of all pages, and its script; see
 * tools/bench/report_html.c.
 */
    .section .rodata
    .globl bn_bench_style
    .globl bn_bench_style_bytes
    .globl bn_bench_script
    .type bn_bench_style, @object
bn_bench_style:
    .incbin "tools/bench/report.css"
    .size bn_bench_style, . - bn_bench_style
.Lend:
    .balign 8
    .type bn_bench_style_bytes, @object
bn_bench_style_bytes:
    .quad .Lend - bn_bench_style
    .size bn_bench_style_bytes, 8
    .type bn_bench_script, @object
bn_bench_script:
    .incbin "tools/bench/report.js"
    .byte 0
    .size bn_bench_script, . - bn_bench_script
    .section .note.GNU-stack, "", @progbits
