/* SPDX-License-Identifier: MIT
 *
 * UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef BN_BASE_UTF8_H
#define BN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the code point at the start of n > 0 bytes, 0 when there is none. */
size_t bn_utf8_length(const char *bytes, size_t n);
/* All of the bytes are UTF-8. */
bool bn_utf8_whole(const char *bytes, size_t n);

#endif
