/* SPDX-License-Identifier: MIT
 *
 * Parses numbers strictly, and writes binary32 numbers; see number.h.
 */
#define _GNU_SOURCE /* strtod_l: a locale set by a library must not move the decimal point */
#include "tools/cli/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bn_number_u64(const char *text, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    if (n == 0) return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (__builtin_mul_overflow(value, 10u, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) return false;
    }
    *out = value;
    return true;
}

bool bn_number_i64(const char *text, size_t n, int64_t *out)
{
    bool negative = n > 0 && text[0] == '-';
    uint64_t magnitude;
    if (!bn_number_u64(text + negative, n - negative, &magnitude)) return false;
    if (magnitude > (uint64_t)INT64_MAX) return false;
    *out = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

/* strtod takes more than we want (spaces, hexadecimal, "infinity"), but nothing that is made of these letters
 * and begins like a number. */
static bool looks_decimal(const char *text)
{
    size_t sign = text[0] == '-' || text[0] == '+';
    const char *first = text + sign;
    if (first[0] == '.') first++;
    return first[0] >= '0' && first[0] <= '9' && text[strspn(text, "0123456789.eE+-")] == '\0';
}

bool bn_number_f64(const char *text, double *out)
{
    if (!looks_decimal(text)) return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0) return false;
    char *end;
    double value = strtod_l(text, &end, c);
    freelocale(c);
    if (*end != '\0' || !isfinite(value)) return false;
    *out = value;
    return true;
}

bool bn_number_f32(const char *text, float *out)
{
    if (!looks_decimal(text)) return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0) return false;
    char *end;
    float value = strtof_l(text, &end, c);
    freelocale(c);
    if (*end != '\0' || !isfinite(value)) return false;
    *out = value;
    return true;
}

bool bn_number_scaled(const char *text, const struct bn_unit *units, size_t n_units, uint64_t *out)
{
    size_t n = strlen(text);
    uint64_t factor = 1;
    for (size_t i = 0; i < n_units; i++)
        if (n > 1 && text[n - 1] == units[i].letter) {
            factor = units[i].factor;
            n--;
            break;
        }
    uint64_t value;
    if (!bn_number_u64(text, n, &value) || __builtin_mul_overflow(value, factor, &value)) return false;
    *out = value;
    return true;
}

void bn_number_put_f32(struct bn_buf *out, float x)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    bn_buf_puts(out, text);
}
