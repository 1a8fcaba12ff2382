/* SPDX-License-Identifier: MIT
 *
 * Regular expressions of "pattern", as far as they are regular: characters, ., classes, \d \w \s, groups, |, * + ? and
 * counts, ^ and $ at the ends of alternatives. A side without an anchor may have any text. Where engines differ, what
 * all of them take is written: \D, \W and \S are ASCII characters, . is not a line end.
 *
 * The characters are those of the string's value; in JSON, quotes, backslashes and control characters are escapes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/schema.h"

#define MAX_DEPTH 48u
#define MAX_RANGES 256u
#define LAST_POINT 0x10FFFFu

struct pattern {
    struct bn_schema *s;
    const char *text, *at;
    struct bn_buf *e;
    struct bn_range ranges[MAX_RANGES + 8];
    size_t n_ranges;
    bool empty; /* what was read last may be empty */
};

static bn_status refuse(struct pattern *p, const char *what)
{
    char text[120];
    snprintf(text, sizeof text, "%s at byte %zu", what, (size_t)(p->at - p->text));
    return bn_schema_refuse(p->s, "pattern", text);
}

/* ---- sets of characters ---- */

static void add_range(struct pattern *p, uint32_t from, uint32_t to)
{
    if (p->n_ranges < MAX_RANGES) p->ranges[p->n_ranges++] = (struct bn_range){from, to};
}

static bool has_point(const struct pattern *p, uint32_t point)
{
    for (size_t i = 0; i < p->n_ranges; i++)
        if (p->ranges[i].from <= point && point <= p->ranges[i].to) return true;
    return false;
}

/* The characters of d, w and s; false for other letters. */
static bool add_class(struct pattern *p, char letter)
{
    if (letter == 'd' || letter == 'w') add_range(p, '0', '9');
    if (letter == 'w') {
        add_range(p, 'A', 'Z');
        add_range(p, '_', '_');
        add_range(p, 'a', 'z');
    }
    if (letter == 's') {
        add_range(p, '\t', '\r');
        add_range(p, ' ', ' ');
    }
    return letter == 'd' || letter == 'w' || letter == 's';
}

/* Writes one character of the set; negated, one outside of it that is not a control character. */
static bn_status put_set(struct pattern *p, bool negated)
{
    static const char SHORT[] = "\b\t\n\f\r", LETTERS[] = "btnfr";
    struct bn_buf *e = p->e;
    bool any = false;
    bn_buf_puts(e, "(");
    for (uint32_t c = 0; c < 0x20 && !negated; c++) {
        const char *short_form = c != 0 ? strchr(SHORT, (int)c) : NULL;
        if (!has_point(p, c)) continue;
        if (short_form != NULL)
            bn_buf_printf(e, "\"\\\\%c\" | ", LETTERS[short_form - SHORT]);
        else
            bn_buf_printf(e, "\"\\\\u%04x\" | ", c);
        any = true;
    }
    if (has_point(p, '"') != negated) bn_buf_puts(e, "\"\\\\\\\"\" | ");
    if (has_point(p, '\\') != negated) bn_buf_puts(e, "\"\\\\\\\\\" | ");
    any = any || has_point(p, '"') != negated || has_point(p, '\\') != negated;
    bn_buf_puts(e, negated ? "[^\\x00-\\x1F\\x22\\x5C" : "[");
    bool wide = negated;
    for (size_t i = 0; i < p->n_ranges; i++) {
        uint32_t from = p->ranges[i].from, to = p->ranges[i].to;
        if (negated) {
            bn_buf_printf(e, "\\U%08X-\\U%08X", from, to);
            continue;
        }
        /* Around the quote and the backslash, above control characters. */
        static const uint32_t CUTS[] = {0x1F, 0x22, 0x5C, LAST_POINT + 1};
        for (size_t k = 0; k + 1 < BN_ARRAY_LEN(CUTS); k++) {
            uint32_t a = from > CUTS[k] ? from : CUTS[k] + 1, b = to < CUTS[k + 1] ? to : CUTS[k + 1] - 1;
            if (a > b) continue;
            bn_buf_printf(e, "\\U%08X-\\U%08X", a, b);
            wide = true;
        }
    }
    if (wide) {
        bn_buf_puts(e, "])");
        return BN_OK;
    }
    if (!any) return refuse(p, "has a class without characters");
    e->len -= strlen(" | [");
    bn_buf_puts(e, ")");
    return BN_OK;
}

/* ---- characters ---- */

static bn_status take_hex(struct pattern *p, size_t n, uint32_t *point)
{
    *point = 0;
    for (size_t i = 0; i < n; i++, p->at++) {
        int digit = bn_hex_digit(*p->at);
        if (digit < 0) return refuse(p, "has an escape with too few hexadecimal digits");
        *point = *point << 4 | (uint32_t)digit;
    }
    return *point < 0xD800 || *point > 0xDFFF ? BN_OK : refuse(p, "has half a surrogate pair");
}

/* What a backslash begins, which is one character. */
static bn_status take_escape(struct pattern *p, uint32_t *point)
{
    static const char LETTERS[] = "tnrfv0", VALUES[] = "\t\n\r\f\v\0";
    char c = *p->at;
    const char *letter = c != '\0' ? strchr(LETTERS, c) : NULL;
    if (c == '\0') return refuse(p, "ends in a backslash");
    p->at++;
    if (letter != NULL) {
        *point = (unsigned char)VALUES[letter - LETTERS];
        return BN_OK;
    }
    if (c == 'x' || c == 'u') return take_hex(p, c == 'x' ? 2 : 4, point);
    bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (alphanumeric || (unsigned char)c >= 0x80) return refuse(p, "has an escape that is not supported");
    *point = (unsigned char)c;
    return BN_OK;
}

static bn_status take_point(struct pattern *p, uint32_t *point)
{
    if (*p->at == '\\') {
        p->at++;
        return take_escape(p, point);
    }
    size_t length = bn_utf8_length(p->at, strlen(p->at));
    *point = bn_utf8_point(p->at, length);
    p->at += length;
    return BN_OK;
}

static bn_status take_class(struct pattern *p)
{
    bool negated = *++p->at == '^';
    p->at += negated;
    p->n_ranges = 0;
    while (*p->at != ']') {
        uint32_t from, to;
        if (*p->at == '\0') return refuse(p, "has a class that is not closed");
        if (p->n_ranges >= MAX_RANGES - 4) return refuse(p, "has a class of too many characters");
        if (p->at[0] == '\\' && add_class(p, p->at[1])) {
            p->at += 2;
            continue;
        }
        BN_TRY(take_point(p, &from));
        to = from;
        if (p->at[0] == '-' && p->at[1] != ']' && p->at[1] != '\0') {
            p->at++;
            BN_TRY(take_point(p, &to));
        }
        if (to < from) return refuse(p, "has a range that ends before it begins");
        add_range(p, from, to);
    }
    p->at++;
    return put_set(p, negated);
}

/* \d \w \s and their opposites, or a character. */
static bn_status take_backslash(struct pattern *p)
{
    uint32_t point;
    char letter = p->at[1];
    p->n_ranges = 0;
    if (add_class(p, letter)) {
        p->at += 2;
        return put_set(p, false);
    }
    if (letter == 'D' || letter == 'W' || letter == 'S') {
        add_class(p, (char)(letter - 'A' + 'a'));
        add_range(p, 0x7F, LAST_POINT);
        p->at += 2;
        return put_set(p, true);
    }
    BN_TRY(take_point(p, &point));
    add_range(p, point, point);
    return put_set(p, false);
}

/* ---- expressions ---- */

static bn_status take_alternatives(struct pattern *p, unsigned depth);

static bn_status take_group(struct pattern *p, unsigned depth)
{
    if (depth == MAX_DEPTH) return refuse(p, "has too many groups inside each other");
    p->at++;
    if (p->at[0] == '?') {
        if (p->at[1] != ':') return refuse(p, "has a group that is not supported");
        p->at += 2;
    }
    BN_TRY(take_alternatives(p, depth + 1));
    if (*p->at != ')') return refuse(p, "has a group that is not closed");
    p->at++;
    return BN_OK;
}

static bn_status take_atom(struct pattern *p, unsigned depth)
{
    char c = *p->at;
    p->n_ranges = 0;
    p->empty = false;
    if (c == '(') return take_group(p, depth);
    if (c == '[') return take_class(p);
    if (c == '\\') return take_backslash(p);
    if (c == '.') {
        p->at++;
        add_range(p, 0x85, 0x85);
        add_range(p, 0x2028, 0x2029);
        return put_set(p, true);
    }
    if (strchr("*+?{", c) != NULL) return refuse(p, "has a repetition of nothing");
    if (c == '^' || c == '$') return refuse(p, "has an anchor that is not at an end");
    uint32_t point;
    BN_TRY(take_point(p, &point));
    add_range(p, point, point);
    return put_set(p, false);
}

static bn_status take_count(struct pattern *p, const char **end)
{
    size_t n = strspn(p->at + 1, "0123456789");
    const char *at = p->at + 1 + n;
    if (n == 0 || n > 6) return refuse(p, "has a count that is not {m}, {m,} or {m,n}");
    if (*at == ',') {
        size_t more = strspn(++at, "0123456789");
        if (more > 6) return refuse(p, "has a count that is too large");
        if (more > 0 && strtoul(at, NULL, 10) < strtoul(p->at + 1, NULL, 10))
            return refuse(p, "has a count whose maximum is below its minimum");
        at += more;
    }
    if (*at != '}') return refuse(p, "has a count that is not {m}, {m,} or {m,n}");
    *end = at + 1;
    return BN_OK;
}

static bn_status take_repetition(struct pattern *p)
{
    const char *end = p->at + 1;
    if (*p->at == '\0' || strchr("*+?{", *p->at) == NULL) return BN_OK;
    if (*p->at == '{') BN_TRY(take_count(p, &end));
    if (p->empty && *p->at != '?') return refuse(p, "repeats something that may be empty");
    p->empty = *p->at != '+' && (*p->at != '{' || strtoul(p->at + 1, NULL, 10) == 0);
    bn_buf_append(p->e, p->at, (size_t)(end - p->at));
    p->at = end;
    if (*p->at == '?') p->at++; /* a shortest match matches the same texts */
    return BN_OK;
}

static bn_status take_alternatives(struct pattern *p, unsigned depth)
{
    bool top = depth == 0, go_on = true, any_empty = false;
    bn_buf_puts(p->e, "(");
    while (go_on) {
        bool open = top, empty = true;
        if (top && *p->at == '^') {
            open = false;
            p->at++;
        }
        bn_buf_puts(p->e, open ? "char* " : "\"\" ");
        open = top;
        while (*p->at != '\0' && *p->at != '|' && *p->at != ')') {
            if (top && *p->at == '$' && (p->at[1] == '\0' || p->at[1] == '|')) {
                open = false;
                p->at++;
                break;
            }
            BN_TRY(take_atom(p, depth));
            BN_TRY(take_repetition(p));
            empty = empty && p->empty;
            bn_buf_putc(p->e, ' ');
        }
        if (open) bn_buf_puts(p->e, "char* ");
        any_empty = any_empty || empty;
        go_on = *p->at == '|';
        if (go_on) bn_buf_puts(p->e, "| ");
        p->at += go_on;
    }
    bn_buf_puts(p->e, ")");
    p->empty = any_empty;
    return top && *p->at != '\0' ? refuse(p, "closes a group that is not open") : BN_OK;
}

static bn_status put_pattern(struct bn_schema *s, const char *pattern, struct bn_buf *e)
{
    struct pattern p = {.s = s, .text = pattern, .at = pattern, .e = e};
    bn_buf_puts(e, "(\"\\\"\" ");
    BN_TRY(take_alternatives(&p, 0));
    bn_buf_puts(e, " \"\\\"\")");
    return BN_OK;
}

/* ---- strings of any kind ---- */

#define DATE                                                                                                   \
    "[12] [0-9]{3} \"-\" ((\"0\" [13578] | \"1\" [02]) \"-\" (\"0\" [1-9] | [12] [0-9] | \"3\" [01]) | "       \
    "(\"0\" [469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\") | \"02-\" (\"0\" [1-9] | \"1\" [0-9] | " \
    "\"2\" [0-8]))"
#define HOUR "([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9]"
#define TIME HOUR " \":\" [0-5] [0-9] (\".\" [0-9]{1,6})? (\"Z\" | [-+] " HOUR ")"
#define OCTET "(\"25\" [0-5] | \"2\" [0-4] [0-9] | \"1\" [0-9] [0-9] | [1-9] [0-9] | [0-9])"
#define LABEL "[a-z0-9] ([a-z0-9-]{0,30} [a-z0-9])?"
#define HOST LABEL " (\".\" " LABEL "){1,4}"

static const struct {
    const char *name, *text;
} FORMATS[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE " \"T\" " TIME},
    {"uuid", "hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}"},
    {"email", "[a-zA-Z0-9_+-]{1,32} (\".\" [a-zA-Z0-9_+-]{1,32}){0,3} \"@\" " HOST},
    {"hostname", HOST},
    {"ipv4", OCTET " (\".\" " OCTET "){3}"},
    {"uri", "\"http\" \"s\"? \"://\" " HOST " (\":\" [1-9] [0-9]{0,3})? (\"/\" [a-zA-Z0-9._~-]*)* "
            "(\"?\" [a-zA-Z0-9._~=&-]*)? (\"#\" [a-zA-Z0-9._~-]*)?"},
};

static bn_status put_format(struct bn_schema *s, const bn_json *format, struct bn_buf *e)
{
    const char *name = "";
    (void)bn_json_string(format, &name);
    size_t i = BN_FIND(FORMATS, name);
    if (i == BN_ARRAY_LEN(FORMATS))
        return bn_schema_refuse(s, "format",
                                "is not one of date, time, date-time, uuid, email, hostname, ipv4, uri");
    bn_buf_printf(e, "(\"\\\"\" %s \"\\\"\")", FORMATS[i].text);
    return BN_OK;
}

bn_status bn_schema_put_string(struct bn_schema *s, const bn_json *schema, struct bn_buf *e)
{
    const bn_json *pattern = bn_json_get(schema, "pattern"), *format = bn_json_get(schema, "format");
    uint32_t min = 0, max = BN_GRAMMAR_UNLIMITED;
    const char *text;
    BN_TRY(bn_schema_count(s, schema, "minLength", &min));
    BN_TRY(bn_schema_count(s, schema, "maxLength", &max));
    bool lengths = min > 0 || max != BN_GRAMMAR_UNLIMITED;
    if ((pattern != NULL) + (format != NULL) + lengths > 1)
        return bn_schema_refuse(s, pattern != NULL ? "pattern" : "format",
                                "is not supported beside a length or a format");
    if (format != NULL) return put_format(s, format, e);
    if (pattern != NULL) {
        if (!bn_json_string(pattern, &text)) return bn_schema_refuse(s, "pattern", "is not a text");
        return put_pattern(s, text, e);
    }
    if (max < min) return bn_schema_refuse(s, "maxLength", "is below minLength");
    if (!lengths)
        bn_buf_puts(e, "string");
    else if (max == BN_GRAMMAR_UNLIMITED)
        bn_buf_printf(e, "(\"\\\"\" char{%u,} \"\\\"\")", min);
    else
        bn_buf_printf(e, "(\"\\\"\" char{%u,%u} \"\\\"\")", min, max);
    return BN_OK;
}
