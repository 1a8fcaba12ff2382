/* SPDX-License-Identifier: MIT
 *
 * What the style sheet of the page of bn-crossval has beyond that of all pages; see tools/crossval/page.h.
 */
    .section .rodata
    .globl bn_report_style
    .globl bn_report_style_bytes
    .type bn_report_style, @object
bn_report_style:
    .incbin "tools/crossval/report.css"
    .size bn_report_style, . - bn_report_style
.Lend:
    .balign 8
    .type bn_report_style_bytes, @object
bn_report_style_bytes:
    .quad .Lend - bn_report_style
    .size bn_report_style_bytes, 8
    .section .note.GNU-stack, "", @progbits
