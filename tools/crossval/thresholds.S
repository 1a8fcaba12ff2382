/* SPDX-License-Identifier: MIT
 *
 * The default thresholds, carried inside bn-crossval; see tools/crossval/crossval.h.
 */
    .section .rodata
    .globl bn_default_thresholds
    .globl bn_default_thresholds_bytes
    .type bn_default_thresholds, @object
bn_default_thresholds:
    .incbin "crossval/thresholds.json"
    .size bn_default_thresholds, . - bn_default_thresholds
.Lend:
    .balign 8
    .type bn_default_thresholds_bytes, @object
bn_default_thresholds_bytes:
    .quad .Lend - bn_default_thresholds
    .size bn_default_thresholds_bytes, 8
    .section .note.GNU-stack, "", @progbits
