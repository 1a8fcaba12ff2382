/* SPDX-License-Identifier: MIT
 *
 * The default model, carried inside the programs that run without -m; see tools/cli/default_model.h.
 */
    .section .rodata
    .balign 64
    .globl bn_default_model_data
    .globl bn_default_model_end
    .type bn_default_model_data, @object
bn_default_model_data:
    .incbin "fixtures/shakespeare-5m-i2_s.gguf"
bn_default_model_end:
    .size bn_default_model_data, bn_default_model_end - bn_default_model_data
    .section .note.GNU-stack, "", @progbits
