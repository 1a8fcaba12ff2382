/* SPDX-License-Identifier: MIT
 *
 * Writing of JSON: the canonical form, whose digest is taken, and the indented form for people. Numbers
 * follow ECMAScript's shortest form, as in RFC 8785, except that a negative zero keeps its sign.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"

/* What is not UTF-8 becomes U+FFFD, so that the text can be read back. */
void bn_json_write_string(struct bn_buf *out, const char *text)
{
    static const char SHORT[] = "\bb\tt\nn\ff\rr\"\"\\\\"; /* pairs: the character, its letter */
    const unsigned char *in = (const unsigned char *)text;
    size_t n = strlen(text);
    bn_buf_putc(out, '"');
    for (size_t i = 0; i < n;) {
        const char *pair = SHORT;
        while (*pair != '\0' && (unsigned char)*pair != in[i])
            pair += 2;
        size_t length = bn_utf8_length((const char *)in + i, n - i);
        if (*pair != '\0')
            bn_buf_printf(out, "\\%c", pair[1]);
        else if (in[i] < 0x20)
            bn_buf_printf(out, "\\u%04x", (unsigned)in[i]);
        else if (length == 0)
            bn_buf_puts(out, "\xEF\xBF\xBD");
        else
            bn_buf_append(out, in + i, length);
        i += length == 0 ? 1 : length;
    }
    bn_buf_putc(out, '"');
}

/* The shortest digits that read back as value, which is finite and positive: value = 0.d1 d2 ... * 10^point.
 * Returns how many. Nothing here depends on the locale's decimal point. */
static int shortest_digits(double value, char digits[20], int *point)
{
    char text[40];
    int precision = value < DBL_MIN ? 0 : DBL_DIG - 1; /* subnormals have fewer digits than 15 */
    do
        snprintf(text, sizeof text, "%.*e", precision, value);
    while (strtod(text, NULL) != value && precision++ < DBL_DECIMAL_DIG);
    int n = 0;
    const char *c = text;
    for (; *c != '\0' && *c != 'e'; c++)
        if (*c >= '0' && *c <= '9' && n < 19) digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    *point = (int)strtol(*c == 'e' ? c + 1 : c, NULL, 10) + 1;
    return n;
}

void bn_json_write_number(struct bn_buf *out, double value)
{
    char digits[20];
    int point;
    if (!isfinite(value)) {
        bn_buf_puts(out, "null");
        return;
    }
    if (signbit(value)) bn_buf_putc(out, '-');
    value = fabs(value);
    if (value < BN_JSON_EXACT && floor(value) >= value) {
        bn_buf_printf(out, "%.0f", value);
        return;
    }
    int n = shortest_digits(value, digits, &point);
    if (point > 21 || point < -5) {
        bn_buf_putc(out, digits[0]);
        if (n > 1) bn_buf_printf(out, ".%s", digits + 1);
        bn_buf_printf(out, "e%+d", point - 1);
    } else if (point <= 0) {
        bn_buf_puts(out, "0.");
        for (int i = point; i < 0; i++)
            bn_buf_putc(out, '0');
        bn_buf_puts(out, digits);
    } else if (point < n) {
        bn_buf_append(out, digits, (size_t)point);
        bn_buf_printf(out, ".%s", digits + point);
    } else {
        bn_buf_puts(out, digits);
        for (int i = n; i < point; i++)
            bn_buf_putc(out, '0');
    }
}

static void new_line(struct bn_buf *out, unsigned depth)
{
    bn_buf_putc(out, '\n');
    for (unsigned i = 0; i < depth; i++)
        bn_buf_puts(out, "  ");
}

/* Whether it has neither texts nor arrays nor objects: it stays on one line when indented. */
static bool is_row(const bn_json *array)
{
    for (const bn_json *v = bn_json_first(array); v != NULL; v = bn_json_next(v))
        if (bn_json_kind(v) >= BN_JSON_STRING) return false;
    return true;
}

static void write_value(const bn_json *value, bool canonical, unsigned depth, struct bn_buf *out);

static void write_array(const bn_json *array, bool canonical, unsigned depth, struct bn_buf *out)
{
    bool lines = !canonical && !is_row(array);
    bn_buf_putc(out, '[');
    for (const bn_json *v = bn_json_first(array); v != NULL; v = bn_json_next(v)) {
        if (lines) new_line(out, depth + 1);
        write_value(v, canonical, depth + 1, out);
        if (bn_json_next(v) != NULL) bn_buf_puts(out, canonical || lines ? "," : ", ");
    }
    if (lines) new_line(out, depth);
    bn_buf_putc(out, ']');
}

static int by_name(const void *a, const void *b)
{
    return strcmp(bn_json_name(*(const bn_json *const *)a), bn_json_name(*(const bn_json *const *)b));
}

const bn_json **bn_json_sorted(const bn_json *object, size_t *n)
{
    *n = bn_json_size(object);
    const bn_json **members = bn_alloc(*n, sizeof *members);
    if (members == NULL) return NULL;
    size_t i = 0;
    for (const bn_json *m = bn_json_first(object); m != NULL; m = bn_json_next(m))
        members[i++] = m;
    qsort(members, *n, sizeof *members, by_name);
    return members;
}

static void write_object(const bn_json *object, bool canonical, unsigned depth, struct bn_buf *out)
{
    size_t n = 0, i = 0;
    const bn_json **sorted = canonical ? bn_json_sorted(object, &n) : NULL;
    if (canonical && sorted == NULL) {
        out->failed = true;
        return;
    }
    bn_buf_putc(out, '{');
    for (const bn_json *m = bn_json_first(object); m != NULL; m = bn_json_next(m), i++) {
        const bn_json *member = canonical ? sorted[i] : m;
        if (i > 0) bn_buf_putc(out, ',');
        if (!canonical) new_line(out, depth + 1);
        bn_json_write_string(out, bn_json_name(member));
        bn_buf_puts(out, canonical ? ":" : ": ");
        write_value(member, canonical, depth + 1, out);
    }
    if (!canonical && i > 0) new_line(out, depth);
    bn_buf_putc(out, '}');
    bn_free(sorted);
}

static void write_value(const bn_json *value, bool canonical, unsigned depth, struct bn_buf *out)
{
    const char *text = "";
    double number = 0;
    bool yes = false;
    if (depth > BN_JSON_MAX_DEPTH) out->failed = true;
    if (out->failed) return;
    switch (bn_json_kind(value)) {
    case BN_JSON_ARRAY:
        write_array(value, canonical, depth, out);
        break;
    case BN_JSON_OBJECT:
        write_object(value, canonical, depth, out);
        break;
    case BN_JSON_STRING:
        (void)bn_json_string(value, &text);
        bn_json_write_string(out, text);
        break;
    case BN_JSON_NUMBER:
        (void)bn_json_number(value, &number);
        bn_json_write_number(out, number);
        break;
    case BN_JSON_BOOL:
        (void)bn_json_bool(value, &yes);
        bn_buf_puts(out, yes ? "true" : "false");
        break;
    case BN_JSON_NULL:
        bn_buf_puts(out, "null");
        break;
    }
}

bn_status bn_json_write(const bn_json *value, bool canonical, struct bn_buf *out, bn_error *err)
{
    if (!bn_json_is_complete(value)) return bn_nomem(err);
    write_value(value, canonical, 0, out);
    return bn_buf_check(out, err);
}

bn_status bn_json_write_line(const bn_json *value, bool canonical, struct bn_buf *out, bn_error *err)
{
    BN_TRY(bn_json_write(value, canonical, out, err));
    bn_buf_putc(out, '\n');
    return bn_buf_check(out, err);
}

bn_status bn_json_write_file(const bn_json *value, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES}; /* what can be read again */
    bn_status status = bn_json_write_line(value, false, &text, err);
    if (status == BN_OK) status = bn_file_write_atomic(path, text.data, text.len, err);
    bn_buf_release(&text);
    return status;
}

bn_status bn_json_digest(const bn_json *value, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_status status = bn_json_write(value, true, &text, err);
    if (status == BN_OK) bn_sha256_hex(text.data, text.len, hex);
    bn_buf_release(&text);
    return status;
}
