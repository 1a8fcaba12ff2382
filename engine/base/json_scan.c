/* SPDX-License-Identifier: MIT
 *
 * The strict scan of JSON text: RFC 8259 grammar, UTF-8, escapes, depth, and the memory that the tree of the
 * text will take. It runs before cJSON sees the text, because cJSON accepts more than the grammar and
 * allocates as it goes.
 */
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define MAX_NUMBER_BYTES 60u /* cJSON cuts longer ones */

/* What the tree takes: a cJSON node, or a copy of a string, each with the header of malloc.
 */
#define NODE_BYTES 96u
#define STRING_BYTES 32u

struct scan {
    const unsigned char *text;
    size_t n, at;
    size_t tree, max_tree; /* bytes of the tree so far, and at most */
    bn_error *err;
};

static bn_status scan_value(struct scan *s, unsigned depth);

static bn_status refuse(const struct scan *s, const char *what)
{
    return bn_fail_at(s->err, BN_ERR_FORMAT, s->at, NULL, "not JSON: %s", what);
}

/* Something else is at the place, or the text ends there. */
static bn_status expect(const struct scan *s, const char *what)
{
    char found[5];
    if (s->n == 0) return refuse(s, "the text is empty");
    if (s->at == s->n) return refuse(s, "the text ends inside a value");
    (void)bn_escape_char(found, (const char *)s->text + s->at, s->n - s->at, BN_ESCAPE_NAME);
    return bn_fail_at(s->err, BN_ERR_FORMAT, s->at, NULL, "not JSON: unexpected '%s', expected %s", found,
                      what);
}

static bn_status take(struct scan *s, size_t bytes)
{
    s->tree += bytes;
    if (s->tree <= s->max_tree) return BN_OK;
    return bn_fail_at(s->err, BN_ERR_LIMIT, s->at, NULL,
                      "the values of the JSON text need more than %zu MiB of memory", s->max_tree >> 20);
}

static int peek(const struct scan *s)
{
    return s->at < s->n ? s->text[s->at] : -1;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(struct scan *s)
{
    while (s->at < s->n && (s->text[s->at] == ' ' || s->text[s->at] == '\n' || s->text[s->at] == '\t' ||
                            s->text[s->at] == '\r'))
        s->at++;
}

/* The four digits after \u, at s->at; moves past them. */
static bn_status scan_hex4(struct scan *s, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(s);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return expect(s, "four hexadecimal digits after \\u");
        *out = *out * 16 + (unsigned)digit;
        s->at++;
    }
    return BN_OK;
}

/* After a backslash. */
static bn_status scan_escape(struct scan *s)
{
    int c = peek(s);
    if (c == -1 || (c != 'u' && (c == 0 || strchr("\"\\/bfnrt", c) == NULL)))
        return expect(s, "one of \"\\/bfnrtu after a backslash");
    s->at++;
    if (c != 'u') return BN_OK;
    unsigned unit, low;
    BN_TRY(scan_hex4(s, &unit));
    if (unit == 0) return refuse(s, "NUL in a string");
    if (unit >= 0xDC00 && unit <= 0xDFFF) return refuse(s, "lone surrogate in a string");
    if (unit < 0xD800 || unit > 0xDBFF) return BN_OK;
    if (s->n - s->at < 2 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u')
        return refuse(s, "lone surrogate in a string");
    s->at += 2;
    BN_TRY(scan_hex4(s, &low));
    return low >= 0xDC00 && low <= 0xDFFF ? BN_OK : refuse(s, "lone surrogate in a string");
}

static bn_status scan_string(struct scan *s)
{
    if (peek(s) != '"') return expect(s, "a name in double quotes");
    size_t begin = s->at++;
    while (peek(s) != '"') {
        int c = peek(s);
        if (c == -1) return expect(s, "");
        if (c < 0x20) return refuse(s, "control character in a string");
        if (c == '\\') {
            s->at++;
            BN_TRY(scan_escape(s));
            continue;
        }
        size_t length = bn_utf8_length((const char *)s->text + s->at, s->n - s->at);
        if (length == 0) return refuse(s, "invalid UTF-8");
        s->at += length;
    }
    s->at++;
    return take(s, s->at - begin + STRING_BYTES);
}

static bn_status scan_digits(struct scan *s)
{
    size_t begin = s->at;
    while (is_digit(peek(s)))
        s->at++;
    return s->at > begin ? BN_OK : expect(s, "a digit");
}

static bn_status scan_number(struct scan *s)
{
    size_t begin = s->at;
    if (peek(s) == '-') s->at++;
    if (peek(s) == '0')
        s->at++;
    else
        BN_TRY(scan_digits(s));
    if (peek(s) == '.') {
        s->at++;
        BN_TRY(scan_digits(s));
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-') s->at++;
        BN_TRY(scan_digits(s));
    }
    if (s->at - begin > MAX_NUMBER_BYTES)
        return bn_fail_at(s->err, BN_ERR_LIMIT, begin, NULL, "number longer than %u characters",
                          MAX_NUMBER_BYTES);
    return BN_OK;
}

static bn_status scan_word(struct scan *s, const char *word)
{
    for (const char *c = word; *c != '\0'; c++, s->at++)
        if (peek(s) != *c) return expect(s, word);
    return BN_OK;
}

/* An array (close is ']') or an object, from its bracket on. */
static bn_status scan_members(struct scan *s, unsigned depth, int close)
{
    if (depth == BN_JSON_MAX_DEPTH)
        return bn_fail_at(s->err, BN_ERR_LIMIT, s->at, NULL, "nested deeper than %u", BN_JSON_MAX_DEPTH);
    s->at++;
    skip_space(s);
    if (peek(s) == close) {
        s->at++;
        return BN_OK;
    }
    for (;;) {
        if (close == '}') {
            skip_space(s);
            BN_TRY(scan_string(s));
            skip_space(s);
            if (peek(s) != ':') return expect(s, "a colon");
            s->at++;
        }
        BN_TRY(scan_value(s, depth + 1));
        skip_space(s);
        int c = peek(s);
        if (c != ',' && c != close) return expect(s, "a comma or a closing bracket");
        s->at++;
        if (c == close) return BN_OK;
    }
}

static bn_status scan_value(struct scan *s, unsigned depth)
{
    BN_TRY(take(s, NODE_BYTES));
    skip_space(s);
    switch (peek(s)) {
    case '{':
        return scan_members(s, depth, '}');
    case '[':
        return scan_members(s, depth, ']');
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        if (peek(s) != '-' && !is_digit(peek(s))) return expect(s, "a value");
        return scan_number(s);
    }
}

bn_status bn_json_check(const char *text, size_t n, size_t max_tree, bn_error *err)
{
    struct scan s = {.text = (const unsigned char *)text, .n = n, .max_tree = max_tree, .err = err};
    if (n > BN_JSON_MAX_BYTES)
        return bn_fail(err, BN_ERR_LIMIT, "JSON text longer than %u bytes", BN_JSON_MAX_BYTES);
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not JSON: it starts with a byte order mark");
    BN_TRY(scan_value(&s, 0));
    skip_space(&s);
    return s.at == n ? BN_OK
                     : bn_fail_at(err, BN_ERR_FORMAT, s.at, NULL, "trailing data after the JSON value");
}
