/* SPDX-License-Identifier: MIT
 *
 * The default model, carried inside the programs that run without -m; see tools/cli/default_model.h.
 */
    .section .rodata
    .balign 64
    .globl bn_default_model_data
    .globl bn_default_model_bytes
    .type bn_default_model_data, @object
bn_default_model_data:
    .incbin "fixtures/shakespeare-5m-i2_s.gguf"
    .size bn_default_model_data, . - bn_default_model_data
.Lend:
    .balign 8
    .type bn_default_model_bytes, @object
bn_default_model_bytes:
    .quad .Lend - bn_default_model_data
    .size bn_default_model_bytes, 8
    .section .note.GNU-stack, "", @progbits
