/* SPDX-License-Identifier: MIT
 *
 * The library that takes samples in other programs, as a file; see preload.c and timers.c.
 */
    .section .rodata
    .globl bn_sampler_library
    .globl bn_sampler_library_bytes
    .type bn_sampler_library, @object
bn_sampler_library:
    .incbin "libbn-sampler.so"
    .size bn_sampler_library, . - bn_sampler_library
.Lend:
    .balign 8
    .type bn_sampler_library_bytes, @object
bn_sampler_library_bytes:
    .quad .Lend - bn_sampler_library
    .size bn_sampler_library_bytes, 8
    .section .note.GNU-stack, "", @progbits
