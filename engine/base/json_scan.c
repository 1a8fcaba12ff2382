/* SPDX-License-Identifier: MIT
 *
 * The strict scan of JSON text; see json.h. bn_json_parse makes its tree by the same scan. The memory of the tree is
 * added up while it is made.
 */

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#define MAX_NUMBER_BYTES 60u

/* What the tree takes: a value, or a copy of a string, each with the headers of bn_alloc and of malloc. */
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
        int digit = here(s) >= 0 ? bn_hex_digit((char)here(s)) : -1;
        if (digit < 0) return expect(s, "four hexadecimal digits after \\u");
        *unit = *unit * 16 + (uint32_t)digit;
    }
    return BN_OK;
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
    char bytes[4];
    if (out != NULL) bn_buf_append(out, bytes, bn_utf8_encode(unit, (unsigned char *)bytes));
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

static bn_status colon(struct bn_scan *s)
{
    if (bn_scan_peek(s) != ':') return expect(s, "a colon");
    s->at++;
    return BN_OK;
}

bn_status bn_scan_name(struct bn_scan *s, struct bn_buf *out)
{
    BN_TRY(string(s, out, "a name in double quotes"));
    return colon(s);
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

/* ---- values, and the tree of them ---- */

/* A decoded string of the tree. */
static bn_status text(struct bn_scan *s, char **out, const char *what)
{
    struct bn_buf decoded = {.max = BN_JSON_MAX_BYTES};
    bn_status status = string(s, &decoded, what);
    if (status == BN_OK && (*out = bn_strndup(decoded.data, decoded.len)) == NULL) status = bn_nomem(s->err);
    bn_buf_release(&decoded);
    return status;
}

/* The number that ends here. */
static bn_status number_of(const struct bn_scan *s, size_t begin, bn_json *v)
{
    char copy[MAX_NUMBER_BYTES + 1] = {0};
    for (size_t i = 0; i < s->at - begin; i++)
        copy[i] = s->text[begin + i] == '.' ? localeconv()->decimal_point[0] : s->text[begin + i];
    v->kind = BN_JSON_NUMBER;
    v->number = strtod(copy, NULL);
    return isfinite(v->number) ? BN_OK
                               : bn_fail(s->err, BN_ERR_FORMAT, "number out of the range of binary64");
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

static bn_status value(struct bn_scan *s, unsigned depth, bn_json *v);

/* An array or an object from its bracket on. */
static bn_status members(struct bn_scan *s, unsigned depth, bn_json *v)
{
    char c = bn_scan_peek(s);
    bool more = true;
    if (v != NULL) v->kind = c == '{' ? BN_JSON_OBJECT : BN_JSON_ARRAY;
    if (depth == BN_JSON_MAX_DEPTH)
        return bn_fail_at(s->err, BN_ERR_LIMIT, bn_scan_offset(s), NULL, "nested deeper than %u",
                          BN_JSON_MAX_DEPTH);
    BN_TRY(bn_scan_open(s, c));
    for (;;) {
        bn_json *member = NULL;
        BN_TRY(bn_scan_more(s, c == '{' ? '}' : ']', &more));
        if (!more) break;
        if (v != NULL && (member = bn_json_append(v, bn_json_new(BN_JSON_NULL))) == NULL)
            return bn_nomem(s->err);
        if (c == '{' && v == NULL) BN_TRY(bn_scan_name(s, NULL));
        if (c == '{' && v != NULL) {
            BN_TRY(text(s, &member->name, "a name in double quotes"));
            BN_TRY(colon(s));
        }
        BN_TRY(value(s, depth + 1, member));
    }
    return c == '{' && v != NULL ? check_names(v, s->err) : BN_OK;
}

/* Any value; v is null and becomes it, or is NULL: then the value is only checked. */
static bn_status value(struct bn_scan *s, unsigned depth, bn_json *v)
{
    BN_TRY(take(s, NODE_BYTES));
    char c = bn_scan_peek(s);
    size_t begin = s->at;
    if (c == '{' || c == '[') return members(s, depth, v);
    if (c == 'n') return word(s, "null");
    if (c == 't' || c == 'f') {
        if (v != NULL) v->kind = BN_JSON_BOOL, v->number = c == 't';
        return word(s, c == 't' ? "true" : "false");
    }
    if (c == '"') {
        if (v != NULL) v->kind = BN_JSON_STRING;
        return v != NULL ? text(s, &v->text, "a string") : bn_scan_string(s, NULL);
    }
    BN_TRY(c == '-' || is_digit(c) ? number(s) : expect(s, "a value"));
    return v != NULL ? number_of(s, begin, v) : BN_OK;
}

bn_status bn_scan_skip(struct bn_scan *s)
{
    return value(s, 0, NULL);
}

bn_status bn_scan_end(struct bn_scan *s)
{
    (void)bn_scan_peek(s);
    return s->at == s->n ? BN_OK
                         : bn_fail_at(s->err, BN_ERR_FORMAT, bn_scan_offset(s), NULL,
                                      "trailing data after the JSON value");
}

/* ---- documents ---- */

bn_status bn_json_parse_within(bn_json **out, const char *text, size_t n, size_t max_tree, bn_error *err)
{
    struct bn_scan s = {.text = text, .n = n, .max_tree = max_tree, .err = err};
    *out = NULL;
    if (n > BN_JSON_MAX_BYTES)
        return bn_fail(err, BN_ERR_LIMIT, "JSON text longer than %u bytes", BN_JSON_MAX_BYTES);
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not JSON: it starts with a byte order mark");
    bn_json *root = bn_json_new(BN_JSON_NULL);
    if (root == NULL) return bn_nomem(err);
    bn_status status = value(&s, 0, root);
    if (status == BN_OK) status = bn_scan_end(&s);
    if (status == BN_OK) {
        *out = root;
        return BN_OK;
    }
    bn_json_free(root);
    return status;
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
