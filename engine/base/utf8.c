/* SPDX-License-Identifier: MIT
 *
 * See utf8.h.
 */
#include "base/utf8.h"

size_t bn_utf8_length(const char *bytes, size_t n)
{
    const unsigned char *text = (const unsigned char *)bytes;
    static const struct {
        unsigned char low, high, second_low, second_high, length;
    } FORMS[] = {
        {0x00, 0x7F, 0x00, 0x00, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
        if (text[0] < FORMS[i].low || text[0] > FORMS[i].high) continue;
        size_t length = FORMS[i].length;
        if (length > n) return 0;
        if (length > 1 && (text[1] < FORMS[i].second_low || text[1] > FORMS[i].second_high)) return 0;
        for (size_t j = 2; j < length; j++)
            if ((text[j] & 0xC0) != 0x80) return 0;
        return length;
    }
    return 0;
}

bool bn_utf8_whole(const char *bytes, size_t n)
{
    for (size_t i = 0, length; i < n; i += length)
        if ((length = bn_utf8_length(bytes + i, n - i)) == 0) return false;
    return true;
}
