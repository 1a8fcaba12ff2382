/* SPDX-License-Identifier: MIT
 *
 * The strict scan of JSON text; see json_scan.h. bn_json_check also adds up the memory that the tree of the text will
 * take, because cJSON accepts more than the grammar and allocates as it goes.
 */
#include "base/json_scan.h"

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define MAX_NUMBER_BYTES 60u /* cJSON cuts longer ones */

/* What the tree takes: a cJSON node, or a copy of a string, each with the header of malloc. */
#define NODE_BYTES 96u
#define STRING_BYTES 32u

uint64_t bn_scan_offset(const struct bn_scan *s)
{
    return s->base + s->at;
}

static bn_status refuse(const struct bn_scan *s, const char *what)
{
    return bn_fail_at(s->err, BN_ERR_FORMAT, bn_scan_offset(s), NULL, "not JSON: %s", what);
}

/* Something else is at the place, or the text ends there. */
static bn_status expect(const struct bn_scan *s, const char *what)
{
    char found[5];
    if (s->n == 0) return refuse(s, "the text is empty");
    if (s->at >= s->n) return refuse(s, "the text ends inside a value");
    (void)bn_escape_char(found, s->text + s->at, s->n - s->at, BN_ESCAPE_NAME);
    return bn_fail_at(s->err, BN_ERR_FORMAT, bn_scan_offset(s), NULL,
                      "not JSON: unexpected '%s', expected %s", found, what);
}

static bn_status take(struct bn_scan *s, size_t bytes)
{
    s->tree += bytes;
    if (s->max_tree == 0 || s->tree <= s->max_tree) return BN_OK;
    return bn_fail_at(s->err, BN_ERR_LIMIT, bn_scan_offset(s), NULL,
                      "the values of the JSON text need more than %zu MiB of memory", s->max_tree >> 20);
}

static int here(const struct bn_scan *s)
{
    return s->at < s->n ? (unsigned char)s->text[s->at] : -1;
}

char bn_scan_peek(struct bn_scan *s)
{
    while (here(s) == ' ' || here(s) == '\n' || here(s) == '\t' || here(s) == '\r')
        s->at++;
    return s->at < s->n ? s->text[s->at] : '\0';
}

bn_status bn_scan_open(struct bn_scan *s, char bracket)
{
    if (bn_scan_peek(s) != bracket) return expect(s, bracket == '{' ? "an object" : "an array");
    s->at++;
    s->fresh = true;
    return BN_OK;
}

bn_status bn_scan_more(struct bn_scan *s, char close, bool *more)
{
    char c = bn_scan_peek(s);
    *more = c != close;
    if (*more && !s->fresh && c != ',') return expect(s, "a comma or a closing bracket");
    if (!*more || !s->fresh) s->at++;
    s->fresh = false;
    return BN_OK;
}

/* ---- strings ---- */

/* The four digits after \u; moves past them. */
static bn_status hex4(struct bn_scan *s, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        int c = here(s), low = c | 0x20;
        bool digit = c >= '0' && c <= '9';
        if (!digit && (low < 'a' || low > 'f')) return expect(s, "four hexadecimal digits after \\u");
        *unit = *unit * 16 + (uint32_t)(digit ? c - '0' : low - 'a' + 10);
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

/* After a backslash. */
static bn_status escaped(struct bn_scan *s, struct bn_buf *out)
{
    static const char FROM[] = "\"\\/bfnrtu", TO[] = "\"\\/\b\f\n\r\t";
    const char *at = here(s) > 0 ? strchr(FROM, here(s)) : NULL;
    uint32_t unit, low;
    if (at == NULL) return expect(s, "one of \"\\/bfnrtu after a backslash");
    s->at++;
    if (*at != 'u') {
        if (out != NULL) bn_buf_putc(out, TO[at - FROM]);
        return BN_OK;
    }
    BN_TRY(hex4(s, &unit));
    if (unit == 0) return refuse(s, "NUL in a string");
    if (unit >= 0xD800 && unit <= 0xDFFF) {
        bool pair = unit <= 0xDBFF && s->n - s->at >= 2 && memcmp(s->text + s->at, "\\u", 2) == 0;
        if (!pair) return refuse(s, "lone surrogate in a string");
        s->at += 2;
        BN_TRY(hex4(s, &low));
        if (low < 0xDC00 || low > 0xDFFF) return refuse(s, "lone surrogate in a string");
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    if (out != NULL) put_code(out, unit);
    return BN_OK;
}

static bn_status string(struct bn_scan *s, struct bn_buf *out, const char *what)
{
    if (bn_scan_peek(s) != '"') return expect(s, what);
    size_t begin = s->at++;
    if (out != NULL) {
        out->len = 0;
        bn_buf_append(out, "", 0); /* an empty string is not NULL */
    }
    while (here(s) != '"') {
        if (here(s) == -1) return expect(s, "");
        if (here(s) < 0x20) return refuse(s, "control character in a string");
        if (here(s) == '\\') {
            s->at++;
            BN_TRY(escaped(s, out));
            continue;
        }
        size_t n = bn_utf8_length(s->text + s->at, s->n - s->at);
        if (n == 0) return refuse(s, "invalid UTF-8");
        if (out != NULL) bn_buf_append(out, s->text + s->at, n);
        s->at += n;
    }
    s->at++;
    BN_TRY(take(s, s->at - begin + STRING_BYTES));
    return out != NULL ? bn_buf_check(out, s->err) : BN_OK;
}

bn_status bn_scan_string(struct bn_scan *s, struct bn_buf *out)
{
    return string(s, out, "a string");
}

bn_status bn_scan_name(struct bn_scan *s, struct bn_buf *out)
{
    BN_TRY(string(s, out, "a name in double quotes"));
    if (bn_scan_peek(s) != ':') return expect(s, "a colon");
    s->at++;
    return BN_OK;
}

/* ---- other values ---- */

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bn_status digits(struct bn_scan *s)
{
    size_t begin = s->at;
    while (is_digit(here(s)))
        s->at++;
    return s->at > begin ? BN_OK : expect(s, "a digit");
}

static bn_status number(struct bn_scan *s)
{
    size_t begin = s->at;
    if (here(s) == '-') s->at++;
    if (here(s) == '0')
        s->at++;
    else
        BN_TRY(digits(s));
    if (here(s) == '.') {
        s->at++;
        BN_TRY(digits(s));
    }
    if (here(s) == 'e' || here(s) == 'E') {
        s->at++;
        if (here(s) == '+' || here(s) == '-') s->at++;
        BN_TRY(digits(s));
    }
    if (s->at - begin <= MAX_NUMBER_BYTES) return BN_OK;
    return bn_fail_at(s->err, BN_ERR_LIMIT, s->base + begin, NULL, "number longer than %u characters",
                      MAX_NUMBER_BYTES);
}

bn_status bn_scan_u64(struct bn_scan *s, uint64_t *out)
{
    *out = 0;
    (void)bn_scan_peek(s);
    size_t begin = s->at;
    BN_TRY(is_digit(here(s)) ? number(s) : expect(s, "a whole number"));
    for (size_t i = begin; i < s->at; i++) {
        if (!is_digit(s->text[i]) || *out > (uint64_t)INT64_MAX / 10 - 1) {
            s->at = begin;
            return refuse(s, "not a whole number below 2^63");
        }
        *out = *out * 10 + (uint64_t)(s->text[i] - '0');
    }
    return BN_OK;
}

static bn_status word(struct bn_scan *s, const char *text)
{
    for (const char *c = text; *c != '\0'; c++, s->at++)
        if (here(s) != *c) return expect(s, text);
    return BN_OK;
}

static bn_status value(struct bn_scan *s, unsigned depth)
{
    bool more = true;
    BN_TRY(take(s, NODE_BYTES));
    char c = bn_scan_peek(s);
    if (c == '"') return bn_scan_string(s, NULL);
    if (c == 't') return word(s, "true");
    if (c == 'f') return word(s, "false");
    if (c == 'n') return word(s, "null");
    if (c == '-' || is_digit(c)) return number(s);
    if (c != '{' && c != '[') return expect(s, "a value");
    if (depth == BN_JSON_MAX_DEPTH)
        return bn_fail_at(s->err, BN_ERR_LIMIT, bn_scan_offset(s), NULL, "nested deeper than %u",
                          BN_JSON_MAX_DEPTH);
    BN_TRY(bn_scan_open(s, c));
    for (;;) {
        BN_TRY(bn_scan_more(s, c == '{' ? '}' : ']', &more));
        if (!more) return BN_OK;
        if (c == '{') BN_TRY(bn_scan_name(s, NULL));
        BN_TRY(value(s, depth + 1));
    }
}

bn_status bn_scan_skip(struct bn_scan *s)
{
    return value(s, 0);
}

bn_status bn_scan_end(struct bn_scan *s)
{
    (void)bn_scan_peek(s);
    return s->at == s->n ? BN_OK
                         : bn_fail_at(s->err, BN_ERR_FORMAT, bn_scan_offset(s), NULL,
                                      "trailing data after the JSON value");
}

bn_status bn_json_check(const char *text, size_t n, size_t max_tree, bn_error *err)
{
    struct bn_scan s = {.text = text, .n = n, .max_tree = max_tree, .err = err};
    if (n > BN_JSON_MAX_BYTES)
        return bn_fail(err, BN_ERR_LIMIT, "JSON text longer than %u bytes", BN_JSON_MAX_BYTES);
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not JSON: it starts with a byte order mark");
    BN_TRY(value(&s, 0));
    return bn_scan_end(&s);
}
