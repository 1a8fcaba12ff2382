/* SPDX-License-Identifier: MIT
 *
 * Reading of JSON (RFC 8259): the grammar, UTF-8, escapes, depth, and the memory of the tree are checked while it is made.
 * No byte of the text is trusted; the limits are those of json.h.
 */
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"

#define MAX_NUMBER_BYTES 60u

/* What the tree takes: a value, or a copy of a string, each with the headers of bn_alloc and of malloc. */
#define NODE_BYTES 96u
#define STRING_BYTES 32u

struct scan {
    const unsigned char *text;
    size_t n, at;
    size_t tree, max_tree; /* bytes of the tree so far, and at most */
    bn_error *err;
};

static bn_status scan_value(struct scan *s, unsigned depth, bn_json *value);

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

/* The code point after \u. */
static bn_status scan_point(struct scan *s, uint32_t *point)
{
    unsigned unit, low;
    BN_TRY(scan_hex4(s, &unit));
    *point = unit;
    if (unit == 0) return refuse(s, "NUL in a string");
    if (unit < 0xD800 || unit > 0xDFFF) return BN_OK;
    if (unit > 0xDBFF || s->n - s->at < 2 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u')
        return refuse(s, "lone surrogate in a string");
    s->at += 2;
    BN_TRY(scan_hex4(s, &low));
    *point = 0x10000 + ((unit & 0x3FF) << 10) + (low & 0x3FF);
    return low >= 0xDC00 && low <= 0xDFFF ? BN_OK : refuse(s, "lone surrogate in a string");
}

/* After a backslash; *to moves past the bytes that the escape means. */
static bn_status scan_escape(struct scan *s, char **to)
{
    static const char SHORT[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; /* pairs: the letter, its character */
    const char *pair = SHORT;
    uint32_t point;
    while (*pair != '\0' && *pair != peek(s))
        pair += 2;
    if (*pair == '\0' && peek(s) != 'u') return expect(s, "one of \"\\/bfnrtu after a backslash");
    s->at++;
    if (*pair != '\0')
        *(*to)++ = pair[1];
    else {
        BN_TRY(scan_point(s, &point));
        *to += bn_utf8_encode(point, (unsigned char *)*to);
    }
    return BN_OK;
}

/* A string; *out is allocated, and belongs to the tree also after a failure. */
static bn_status scan_string(struct scan *s, char **out)
{
    if (peek(s) != '"') return expect(s, "a name in double quotes");
    size_t begin = ++s->at, end = begin;
    while (end < s->n && s->text[end] != '"')
        end += s->text[end] == '\\' ? 2 : 1;
    if (end >= s->n) {
        s->at = s->n;
        return expect(s, "");
    }
    BN_TRY(take(s, end + 2 - begin + STRING_BYTES));
    char *to = *out = bn_alloc(end - begin + 1, 1); /* an escape is longer than what it means */
    if (to == NULL) return bn_nomem(s->err);
    while (s->at < end) {
        if (s->text[s->at] < 0x20) return refuse(s, "control character in a string");
        if (s->text[s->at] == '\\') {
            s->at++;
            BN_TRY(scan_escape(s, &to));
            continue;
        }
        size_t length = bn_utf8_length((const char *)s->text + s->at, end - s->at);
        if (length == 0) return refuse(s, "invalid UTF-8");
        memcpy(to, s->text + s->at, length);
        to += length;
        s->at += length;
    }
    s->at++;
    return BN_OK;
}

static bn_status scan_digits(struct scan *s)
{
    size_t begin = s->at;
    while (is_digit(peek(s)))
        s->at++;
    return s->at > begin ? BN_OK : expect(s, "a digit");
}

static bn_status scan_number(struct scan *s, bn_json *value)
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
    char digits[MAX_NUMBER_BYTES + 1] = {0};
    for (size_t i = 0; i < s->at - begin; i++)
        digits[i] = s->text[begin + i] == '.' ? localeconv()->decimal_point[0] : (char)s->text[begin + i];
    value->kind = BN_JSON_NUMBER;
    value->number = strtod(digits, NULL);
    return isfinite(value->number) ? BN_OK
                                   : bn_fail(s->err, BN_ERR_FORMAT, "number out of the range of binary64");
}

static bn_status scan_word(struct scan *s, const char *word)
{
    for (const char *c = word; *c != '\0'; c++, s->at++)
        if (peek(s) != *c) return expect(s, word);
    return BN_OK;
}

static bn_status check_names(const bn_json *object, bn_error *err)
{
    size_t n;
    const bn_json **members = bn_json_sorted(object, &n);
    if (members == NULL) return bn_nomem(err);
    bn_status status = BN_OK;
    for (size_t i = 1; i < n && status == BN_OK; i++)
        if (strcmp(members[i - 1]->name, members[i]->name) == 0)
            status = bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, members[i]->name, "duplicate name");
    bn_free(members);
    return status;
}

/* An array (close is ']') or an object, from its bracket on. */
static bn_status scan_members(struct scan *s, unsigned depth, int close, bn_json *value)
{
    value->kind = close == '}' ? BN_JSON_OBJECT : BN_JSON_ARRAY;
    if (depth == BN_JSON_MAX_DEPTH)
        return bn_fail_at(s->err, BN_ERR_LIMIT, s->at, NULL, "nested deeper than %u", BN_JSON_MAX_DEPTH);
    s->at++;
    skip_space(s);
    for (int c = peek(s) == close ? close : ','; c != close;) {
        bn_json *member = bn_json_append(value, bn_json_new(BN_JSON_NULL));
        if (member == NULL) return bn_nomem(s->err);
        if (close == '}') {
            skip_space(s);
            BN_TRY(scan_string(s, &member->name));
            skip_space(s);
            if (peek(s) != ':') return expect(s, "a colon");
            s->at++;
        }
        BN_TRY(scan_value(s, depth + 1, member));
        skip_space(s);
        c = peek(s);
        if (c != ',' && c != close) return expect(s, "a comma or a closing bracket");
        if (c == ',') s->at++;
    }
    s->at++;
    return close == '}' ? check_names(value, s->err) : BN_OK;
}

static bn_status scan_value(struct scan *s, unsigned depth, bn_json *value)
{
    BN_TRY(take(s, NODE_BYTES));
    skip_space(s);
    switch (peek(s)) {
    case '{':
        return scan_members(s, depth, '}', value);
    case '[':
        return scan_members(s, depth, ']', value);
    case '"':
        value->kind = BN_JSON_STRING;
        return scan_string(s, &value->text);
    case 't':
    case 'f':
        value->kind = BN_JSON_BOOL;
        value->number = peek(s) == 't';
        return scan_word(s, peek(s) == 't' ? "true" : "false");
    case 'n':
        return scan_word(s, "null");
    default:
        if (peek(s) != '-' && !is_digit(peek(s))) return expect(s, "a value");
        return scan_number(s, value);
    }
}

bn_status bn_json_parse_within(bn_json **out, const char *text, size_t n, size_t max_tree, bn_error *err)
{
    struct scan s = {.text = (const unsigned char *)text, .n = n, .max_tree = max_tree, .err = err};
    *out = NULL;
    if (n > BN_JSON_MAX_BYTES)
        return bn_fail(err, BN_ERR_LIMIT, "JSON text longer than %u bytes", BN_JSON_MAX_BYTES);
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not JSON: it starts with a byte order mark");
    bn_json *root = bn_json_new(BN_JSON_NULL);
    if (root == NULL) return bn_nomem(err);
    bn_status status = scan_value(&s, 0, root);
    skip_space(&s);
    if (status == BN_OK && s.at < n)
        status = bn_fail_at(err, BN_ERR_FORMAT, s.at, NULL, "trailing data after the JSON value");
    if (status != BN_OK) {
        bn_json_free(root);
        return status;
    }
    *out = root;
    return BN_OK;
}

bn_status bn_json_parse(bn_json **out, const char *text, size_t n, bn_error *err)
{
    return bn_json_parse_within(out, text, n, BN_JSON_MAX_TREE, err);
}

bn_status bn_json_read_file(bn_json **out, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    *out = NULL;
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK) status = bn_json_parse(out, bn_buf_text(&text), text.len, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_buf_release(&text);
    return status;
}
