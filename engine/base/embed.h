/* SPDX-License-Identifier: MIT
 *
 * For assembler files (.S): puts a file into the program as read-only data.
 *
 *   EMBED(name, bytes, "path")   const unsigned char name[]; const uint64_t bytes, its length without the
 * final NUL EMBED_END                    last line of each file: no executable stack
 *
 * The data are 64-byte aligned and end with a NUL, so that text can be used as a string. Paths are relative
 * to the root of the sources; the Makefile names the file as a dependency.
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
