/* SPDX-License-Identifier: MIT
 *
 * The style sheet and the script that flame graphs carry; see flame/picture.c.
 */
    .section .rodata
    .globl bn_flame_style
    .globl bn_flame_script
    .type bn_flame_style, @object
    .type bn_flame_script, @object
bn_flame_style:
    .incbin "lab/stacks/flame.css"
    .byte 0
    .size bn_flame_style, . - bn_flame_style
bn_flame_script:
    .incbin "lab/stacks/flame.js"
    .byte 0
    .size bn_flame_script, . - bn_flame_script
    .section .note.GNU-stack, "", @progbits
