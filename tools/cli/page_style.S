/* SPDX-License-Identifier: MIT
 *
 * The style sheet of all pages; see tools/cli/page.h.
 */
    .section .rodata
    .globl bn_page_style
    .globl bn_page_style_bytes
    .type bn_page_style, @object
bn_page_style:
    .incbin "tools/cli/page.css"
    .size bn_page_style, . - bn_page_style
.Lend:
    .balign 8
    .type bn_page_style_bytes, @object
bn_page_style_bytes:
    .quad .Lend - bn_page_style
    .size bn_page_style_bytes, 8
    .section .note.GNU-stack, "", @progbits
