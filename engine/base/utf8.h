/* SPDX-License-Identifier: MIT
 *
 * UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef BN_BASE_UTF8_H
#define BN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the code point at the start of n > 0 bytes, 0 when there is none. */
size_t bn_utf8_length(const char *bytes, size_t n);
/* The code point of that many bytes, as bn_utf8_length counted them. */
uint32_t bn_utf8_point(const char *bytes, size_t length);
/* Writes a code point; returns how many bytes it has. */
size_t bn_utf8_encode(uint32_t point, unsigned char bytes[4]);
/* Whether a name that contains it could deceive: control characters (C0, DEL, C1), invisible characters,
 * those that change the direction of text, and noncharacters. */
bool bn_utf8_is_unsafe(uint32_t point);
/* Characters in n bytes; a byte that continues none is one. */
size_t bn_utf8_count(const char *text, size_t n);
/* Length of the longest prefix that is valid UTF-8. */
size_t bn_utf8_valid(const char *text, size_t n);

#endif
