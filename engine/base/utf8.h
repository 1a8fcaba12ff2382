/* SPDX-License-Identifier: MIT
 *
 * UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef BN_BASE_UTF8_H
#define BN_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the code point at the start of n > 0 bytes, 0 when there is none. */
size_t bn_utf8_length(const char *bytes, size_t n);
/* Length of the longest prefix that is valid UTF-8. */
size_t bn_utf8_valid(const char *text, size_t n);

#endif
