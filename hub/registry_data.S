/* SPDX-License-Identifier: MIT
 *
 * The registry, carried by the library; see registry.h.
 */
    .section .rodata
    .globl bn_hub_registry_text
    .globl bn_hub_registry_bytes
    .type bn_hub_registry_text, @object
bn_hub_registry_text:
    .incbin "hub/registry.json"
    .size bn_hub_registry_text, . - bn_hub_registry_text
.Lend:
    .balign 8
    .type bn_hub_registry_bytes, @object
bn_hub_registry_bytes:
    .quad .Lend - bn_hub_registry_text
    .size bn_hub_registry_bytes, 8
    .section .note.GNU-stack, "", @progbits
