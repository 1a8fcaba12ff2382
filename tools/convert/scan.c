/* SPDX-License-Identifier: MIT
 *
 * Reads JSON text without a tree; see scan.h.
 */
#include "tools/convert/scan.h"

#include "base/error.h"
#include "base/utf8.h"

#define MAX_DEPTH 64u

uint64_t bn_scan_offset(const struct bn_scan *s)
{
    return s->base + s->at;
}

static bn_status refuse(const struct bn_scan *s, const char *expected)
{
    char found[5];
    if (s->at >= s->n)
        return bn_fail_at(s->err, BN_ERR_FORMAT, s->base + s->n, NULL, "not JSON: the text ends, expected %s",
                          expected);
    (void)bn_escape_char(found, s->text + s->at, s->n - s->at, BN_ESCAPE_NAME);
    return bn_fail_at(s->err, BN_ERR_FORMAT, bn_scan_offset(s), NULL,
                      "not JSON: unexpected '%s', expected %s", found, expected);
}

char bn_scan_peek(struct bn_scan *s)
{
    while (s->at < s->n && (s->text[s->at] == ' ' || s->text[s->at] == '\n' || s->text[s->at] == '\t' ||
                            s->text[s->at] == '\r'))
        s->at++;
    return s->at < s->n ? s->text[s->at] : '\0';
}

bn_status bn_scan_open(struct bn_scan *s, char bracket)
{
    if (bn_scan_peek(s) != bracket) return refuse(s, bracket == '{' ? "an object" : "an array");
    s->at++;
    s->fresh = true;
    return BN_OK;
}

bn_status bn_scan_more(struct bn_scan *s, char close, bool *more)
{
    char c = bn_scan_peek(s);
    *more = c != close;
    if (!*more)
        s->at++;
    else if (!s->fresh && c == ',')
        s->at++;
    else if (!s->fresh)
        return refuse(s, close == '}' ? "',' or '}'" : "',' or ']'");
    s->fresh = false;
    return BN_OK;
}

/* ---- strings ---- */

static bn_status hex4(struct bn_scan *s, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        char c = s->at < s->n ? s->text[s->at] : '\0', low = (char)(c | 0x20);
        bool digit = c >= '0' && c <= '9', letter = low >= 'a' && low <= 'f';
        if (!digit && !letter) return refuse(s, "four hexadecimal digits");
        *unit = *unit * 16 + (uint32_t)(digit ? c - '0' : low - 'a' + 10);
        s->at++;
    }
    return BN_OK;
}

static void put_code(struct bn_buf *out, uint32_t code)
{
    char bytes[4];
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char LEAD[5] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; code >>= 6)
        bytes[i] = (char)(unsigned char)(0x80u | (code & 0x3Fu));
    bytes[0] = (char)(unsigned char)(LEAD[n] | code);
    bn_buf_append(out, bytes, n);
}

/* After "\u". */
static bn_status unicode(struct bn_scan *s, struct bn_buf *out)
{
    uint32_t unit, low;
    BN_TRY(hex4(s, &unit));
    if (unit == 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) return refuse(s, "a character after \\u");
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        if (s->n - s->at < 2 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u')
            return refuse(s, "the second surrogate");
        s->at += 2;
        BN_TRY(hex4(s, &low));
        if (low < 0xDC00 || low > 0xDFFF) return refuse(s, "the second surrogate");
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    put_code(out, unit);
    return BN_OK;
}

static bn_status escaped(struct bn_scan *s, struct bn_buf *out)
{
    static const char FROM[] = "\"\\/bfnrt", TO[] = "\"\\/\b\f\n\r\t";
    char c = s->at < s->n ? s->text[s->at] : '\0';
    const char *at = c != '\0' ? strchr(FROM, c) : NULL;
    if (c != 'u' && at == NULL) return refuse(s, "one of \"\\/bfnrtu after a backslash");
    s->at++;
    if (c == 'u') return unicode(s, out);
    bn_buf_putc(out, TO[at - FROM]);
    return BN_OK;
}

bn_status bn_scan_string(struct bn_scan *s, struct bn_buf *out)
{
    if (bn_scan_peek(s) != '"') return refuse(s, "a string");
    out->len = 0;
    bn_buf_append(out, "", 0); /* an empty string is not NULL */
    for (s->at++; s->at < s->n && s->text[s->at] != '"';) {
        unsigned char c = (unsigned char)s->text[s->at];
        if (c < 0x20) return refuse(s, "no control characters in a string");
        if (c == '\\') {
            s->at++;
            BN_TRY(escaped(s, out));
            continue;
        }
        size_t n = bn_utf8_length(s->text + s->at, s->n - s->at);
        if (n == 0) return refuse(s, "UTF-8");
        bn_buf_append(out, s->text + s->at, n);
        s->at += n;
    }
    if (s->at >= s->n) return refuse(s, "the end of a string");
    s->at++;
    return bn_buf_check(out, s->err);
}

bn_status bn_scan_name(struct bn_scan *s, struct bn_buf *out)
{
    BN_TRY(bn_scan_string(s, out));
    if (bn_scan_peek(s) != ':') return refuse(s, "':'");
    s->at++;
    return BN_OK;
}

/* ---- other values ---- */

static bool digit(const struct bn_scan *s)
{
    return s->at < s->n && s->text[s->at] >= '0' && s->text[s->at] <= '9';
}

bn_status bn_scan_u64(struct bn_scan *s, uint64_t *out)
{
    bool zero = bn_scan_peek(s) == '0';
    size_t start = s->at;
    *out = 0;
    for (; digit(s); s->at++) {
        if (*out > (uint64_t)INT64_MAX / 10 - 1)
            return bn_fail_at(s->err, BN_ERR_FORMAT, s->base + start, NULL, "the number is over 2^63");
        *out = *out * 10 + (uint64_t)(s->text[s->at] - '0');
    }
    if (s->at == start || (zero && s->at > start + 1)) {
        s->at = start;
        return refuse(s, "a whole number");
    }
    if (s->at < s->n && strchr(".eE", s->text[s->at]) != NULL && s->text[s->at] != '\0')
        return refuse(s, "a whole number");
    return BN_OK;
}

static bn_status skip_number(struct bn_scan *s)
{
    size_t start = s->at;
    while (s->at < s->n && s->text[s->at] != '\0' && strchr("+-.eE0123456789", s->text[s->at]) != NULL)
        s->at++;
    return s->at > start ? BN_OK : refuse(s, "a value");
}

static bn_status skip_word(struct bn_scan *s, const char *word)
{
    size_t n = strlen(word);
    if (s->n - s->at < n || memcmp(s->text + s->at, word, n) != 0) return refuse(s, "a value");
    s->at += n;
    return BN_OK;
}

static bn_status skip(struct bn_scan *s, struct bn_buf *text, unsigned depth)
{
    char c = bn_scan_peek(s);
    bool more = true;
    if (c == '"') return bn_scan_string(s, text);
    if (c == 't') return skip_word(s, "true");
    if (c == 'f') return skip_word(s, "false");
    if (c == 'n') return skip_word(s, "null");
    if (c != '{' && c != '[') return skip_number(s);
    if (depth == MAX_DEPTH)
        return bn_fail_at(s->err, BN_ERR_LIMIT, bn_scan_offset(s), NULL, "nested deeper than %u", MAX_DEPTH);
    BN_TRY(bn_scan_open(s, c));
    for (;;) {
        BN_TRY(bn_scan_more(s, c == '{' ? '}' : ']', &more));
        if (!more) return BN_OK;
        if (c == '{') BN_TRY(bn_scan_name(s, text));
        BN_TRY(skip(s, text, depth + 1));
    }
}

bn_status bn_scan_skip(struct bn_scan *s)
{
    struct bn_buf text = {.max = s->n};
    bn_status status = skip(s, &text, 0);
    bn_buf_release(&text);
    return status;
}

bn_status bn_scan_end(struct bn_scan *s)
{
    return bn_scan_peek(s) == '\0' && s->at == s->n ? BN_OK : refuse(s, "the end of the text");
}
