/* SPDX-License-Identifier: MIT
 *
 * For assembler files (.S): puts a file into the program as read-only data.
 *
 *   EMBED(name, bytes, "path")   defines unsigned char name[], the file, and uint64_t bytes, its length
 *   EMBED_END                    is the last line of each assembler file: no executable stack
 *
 * The data are 64-byte aligned. A NUL that is not counted follows, so that text can be used as a string.
 * Paths are relative to the root of the sources; the Makefile names the file as a dependency.
 */
#ifndef BN_BASE_EMBED_H
#define BN_BASE_EMBED_H

/* clang-format off */
#define EMBED(name, bytes, path)          \
    .section .rodata;                     \
    .balign 64;                           \
    .globl name, bytes;                   \
    .type name, @object;                  \
    .type bytes, @object;                 \
name:                                     \
    .incbin path;                         \
name##_end:                               \
    .byte 0;                              \
    .size name, . - name;                 \
    .balign 8;                            \
bytes:                                    \
    .quad name##_end - name;              \
    .size bytes, 8

#define EMBED_END .section .note.GNU-stack, "", @progbits
/* clang-format on */

#endif
