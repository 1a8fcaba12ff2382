/* SPDX-License-Identifier: MIT
 *
 * See utf8.h.
 */
#include "base/utf8.h"

#include <string.h>

size_t bn_utf8_length(const char *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (p[0] < 0x80) return 1;
    unsigned char low = 0x80, high = 0xBF; /* of the second byte */
    size_t length = p[0] >= 0xC2 && p[0] <= 0xDF   ? 2
                    : p[0] >> 4 == 0xE             ? 3
                    : p[0] >= 0xF0 && p[0] <= 0xF4 ? 4
                                                   : 0;
    if (length == 0 || length > n) return 0;
    if (p[0] == 0xE0) low = 0xA0;
    if (p[0] == 0xED) high = 0x9F;
    if (p[0] == 0xF0) low = 0x90;
    if (p[0] == 0xF4) high = 0x8F;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if (p[i] >> 6 != 2) return 0;
    return length;
}

uint32_t bn_utf8_point(const char *bytes, size_t length)
{
    uint32_t point = (unsigned char)bytes[0];
    if (length > 1) point &= 0x7Fu >> length;
    for (size_t i = 1; i < length; i++)
        point = point << 6 | ((unsigned char)bytes[i] & 0x3Fu);
    return point;
}

size_t bn_utf8_encode(uint32_t point, unsigned char bytes[4])
{
    static const unsigned char LEAD[] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (point < 0x80) {
        bytes[0] = (unsigned char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; point >>= 6)
        bytes[i] = (unsigned char)(0x80 | (point & 0x3F));
    bytes[0] = (unsigned char)(LEAD[n] | point);
    return n;
}

bool bn_utf8_is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || c == 0x061C ||
           (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
}

size_t bn_utf8_count(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

size_t bn_utf8_valid(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t word; /* eight bytes of ASCII at once */
        if (n - i >= sizeof word &&
            (memcpy(&word, text + i, sizeof word), (word & 0x8080808080808080u) == 0)) {
            i += sizeof word;
            continue;
        }
        size_t length = bn_utf8_length(text + i, n - i);
        if (length == 0) break;
        i += length;
    }
    return i;
}
