/* SPDX-License-Identifier: MIT
 *
 * Reads GBNF, the notation of llama.cpp: rules "name ::= alternatives", "literals", [classes], ., (groups), the
 * repetitions * + ? {m} {m,} {m,n}, and # comments. A rule ends at the end of its line, unless a group is open, it
 * ends in | or the next line begins with |. The open groups are a list, so that depth takes no stack.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/grammar.h"

#define NONE UINT32_MAX
#define LAST_POINT 0x10FFFFu

/* A group that is open, or the rule itself. */
struct group {
    size_t at;            /* in the text */
    uint32_t first, last; /* the whole group; last is where all alternatives lead */
    uint32_t tail;        /* the jump to the alternative that is read */
    uint32_t end;         /* the end of what was read of it */
    uint32_t before;      /* the node that leads to the last element; NONE: there is none to repeat */
    uint32_t element, element_end;
};

struct parser {
    bn_grammar *g;
    const char *text;
    size_t n, at;
    struct group *groups;
    size_t n_groups;
    struct bn_range *ranges;
    size_t n_ranges;
    uint32_t rule;
    bn_error *err;
};

static size_t line_of(const struct parser *p, size_t at)
{
    size_t line = 1;
    for (size_t i = 0; i < at && i < p->n; i++)
        line += p->text[i] == '\n';
    return line;
}

static bn_status bad(const struct parser *p, size_t at, const char *what)
{
    return bn_fail_at(p->err, BN_ERR_FORMAT, at, "grammar", "line %zu: %s", line_of(p, at), what);
}

static bool has(const struct parser *p, char c)
{
    return p->at < p->n && p->text[p->at] == c;
}

/* Passes blanks and comments, and line ends when they do not matter. */
static void skip_blanks(struct parser *p, bool lines)
{
    while (p->at < p->n) {
        char c = p->text[p->at];
        if (c == '#') {
            while (p->at < p->n && p->text[p->at] != '\n')
                p->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
            p->at++;
        } else {
            return;
        }
    }
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static struct bn_str take_name(struct parser *p)
{
    struct bn_str name = {p->text + p->at, 0};
    while (p->at < p->n && is_name(p->text[p->at])) {
        p->at++;
        name.len++;
    }
    return name;
}

/* ---- characters ---- */

static bn_status take_hex(struct parser *p, unsigned n_digits, uint32_t *point)
{
    size_t start = p->at;
    *point = 0;
    for (unsigned i = 0; i < n_digits; i++, p->at++) {
        int digit = p->at < p->n ? bn_hex_digit(p->text[p->at]) : -1;
        if (digit < 0) return bad(p, start, "an escape has too few hexadecimal digits");
        *point = *point << 4 | (uint32_t)digit;
    }
    if (*point > LAST_POINT || (*point >= 0xD800 && *point <= 0xDFFF))
        return bad(p, start, "an escape is not the number of a character");
    return BN_OK;
}

/* A character of a literal or of a class, with its escapes. */
static bn_status take_character(struct parser *p, uint32_t *point)
{
    static const char NAMES[] = "nrt\\\"[]-^", VALUES[] = "\n\r\t\\\"[]-^";
    const char *name;
    if (p->at == p->n || p->text[p->at] == '\n') return bad(p, p->at, "a literal or a class is not closed");
    if (p->text[p->at] != '\\') {
        size_t length = bn_utf8_length(p->text + p->at, p->n - p->at);
        *point = bn_utf8_point(p->text + p->at, length);
        p->at += length;
        return BN_OK;
    }
    p->at++;
    char c = p->at < p->n ? p->text[p->at] : '\0';
    if (c != '\0' && (name = strchr(NAMES, c)) != NULL) {
        p->at++;
        *point = (unsigned char)VALUES[name - NAMES];
        return BN_OK;
    }
    unsigned n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_digits == 0)
        return bad(p, p->at - 1, "an escape is not one of \\n \\r \\t \\\\ \\\" \\[ \\] \\x \\u \\U");
    p->at++;
    return take_hex(p, n_digits, point);
}

static int by_start(const void *a, const void *b)
{
    const struct bn_range *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Sorts the ranges, joins those that touch, and takes the others instead when the class is negated. */
static void tidy_ranges(struct parser *p, bool negated)
{
    struct bn_range *r = p->ranges;
    size_t n = 0;
    qsort(r, p->n_ranges, sizeof *r, by_start);
    for (size_t i = 0; i < p->n_ranges; i++) {
        if (n > 0 && r[i].from <= r[n - 1].to + 1)
            r[n - 1].to = r[i].to > r[n - 1].to ? r[i].to : r[n - 1].to;
        else
            r[n++] = r[i];
    }
    p->n_ranges = n;
    if (!negated) return;
    uint32_t from = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct bn_range gap = {from, r[i].from - 1};
        bool is_gap = r[i].from > from;
        from = r[i].to + 1;
        if (is_gap) r[kept++] = gap;
    }
    if (from <= LAST_POINT) r[kept++] = (struct bn_range){from, LAST_POINT};
    p->n_ranges = kept;
}

static bn_status take_class(struct parser *p, struct bn_part *part)
{
    size_t start = p->at++;
    bool negated = has(p, '^');
    p->at += negated;
    p->n_ranges = 0;
    while (!has(p, ']')) {
        struct bn_range range;
        if (p->n_ranges == BN_GRAMMAR_MAX_RANGES) return bad(p, start, "a class has too many characters");
        BN_TRY(take_character(p, &range.from));
        range.to = range.from;
        if (has(p, '-') && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
            p->at++;
            BN_TRY(take_character(p, &range.to));
        }
        if (range.to < range.from) return bad(p, start, "a range of a class ends before it begins");
        p->ranges[p->n_ranges++] = range;
    }
    p->at++;
    tidy_ranges(p, negated);
    if (p->n_ranges == 0) return bad(p, start, "a class has no characters");
    return bn_grammar_add_class(p->g, p->ranges, p->n_ranges, part, p->err);
}

static bn_status take_literal(struct parser *p, struct bn_part *part)
{
    uint32_t last;
    p->at++;
    BN_TRY(bn_grammar_add_node(p->g, BN_NODE_JUMP, 0, 0, &part->first, p->err));
    last = part->first;
    while (!has(p, '"')) {
        struct bn_range one;
        struct bn_part character;
        BN_TRY(take_character(p, &one.from));
        one.to = one.from;
        BN_TRY(bn_grammar_add_class(p->g, &one, 1, &character, p->err));
        p->g->nodes[last].next = character.first;
        last = character.last;
    }
    p->at++;
    part->last = last;
    if (last == part->first) {
        BN_TRY(bn_grammar_add_node(p->g, BN_NODE_JUMP, 0, 0, &part->last, p->err));
        p->g->nodes[part->first].next = part->last;
    }
    return BN_OK;
}

/* ---- elements ---- */

static bn_status open_group(struct parser *p, size_t at)
{
    struct group *group = &p->groups[p->n_groups];
    if (p->n_groups == BN_GRAMMAR_MAX_GROUPS) return bad(p, at, "too many groups are open");
    *group = (struct group){.at = at, .before = NONE};
    BN_TRY(bn_grammar_add_node(p->g, BN_NODE_JUMP, 0, 0, &group->first, p->err));
    BN_TRY(bn_grammar_add_node(p->g, BN_NODE_JUMP, 0, 0, &group->last, p->err));
    group->tail = group->end = group->first;
    p->n_groups++;
    return BN_OK;
}

static void append(struct parser *p, struct bn_part part)
{
    struct group *group = &p->groups[p->n_groups - 1];
    p->g->nodes[group->end].next = part.first;
    group->before = group->end;
    group->element = part.first;
    group->end = group->element_end = part.last;
}

static bn_status next_alternative(struct parser *p)
{
    struct group *group = &p->groups[p->n_groups - 1];
    uint32_t tail;
    BN_TRY(bn_grammar_add_node(p->g, BN_NODE_JUMP, 0, 0, &tail, p->err));
    p->g->nodes[group->end].next = group->last;
    p->g->nodes[group->tail].kind = BN_NODE_SPLIT;
    p->g->nodes[group->tail].what = tail;
    group->tail = group->end = tail;
    group->before = NONE;
    return BN_OK;
}

static struct bn_part close_group(struct parser *p)
{
    const struct group *group = &p->groups[--p->n_groups];
    p->g->nodes[group->end].next = group->last;
    return (struct bn_part){group->first, group->last};
}

static bn_status add_call(struct parser *p, struct bn_str name, size_t at)
{
    uint32_t rule;
    struct bn_part part;
    BN_TRY(bn_grammar_add_rule(p->g, name, at, &rule, p->err));
    BN_TRY(bn_grammar_add_node(p->g, BN_NODE_JUMP, 0, 0, &part.last, p->err));
    BN_TRY(bn_grammar_add_node(p->g, BN_NODE_CALL, part.last, rule, &part.first, p->err));
    append(p, part);
    return BN_OK;
}

/* ---- repetitions ---- */

static bn_status repeat(struct parser *p, size_t at, uint32_t min, uint32_t max)
{
    bn_grammar *g = p->g;
    struct group *group = &p->groups[p->n_groups - 1];
    struct bn_part whole;
    if (group->before == NONE) return bad(p, at, "there is nothing to repeat");
    if (max < min) return bad(p, at, "a repetition has a maximum below its minimum");
    if ((min > BN_GRAMMAR_MAX_REPEAT) || (max > BN_GRAMMAR_MAX_REPEAT && max != BN_GRAMMAR_UNLIMITED))
        return bad(p, at, "a repetition has a count over 1000000");
    if (min == 1 && max == 1) return BN_OK;
    BN_TRY(bn_grammar_add_node(g, BN_NODE_JUMP, 0, 0, &whole.last, p->err));
    if (max == 0) { /* the element is not reached any more */
        BN_TRY(bn_grammar_add_node(g, BN_NODE_JUMP, whole.last, 0, &whole.first, p->err));
    } else if (max == 1) {
        BN_TRY(bn_grammar_add_node(g, BN_NODE_SPLIT, group->element, whole.last, &whole.first, p->err));
        g->nodes[group->element_end].next = whole.last;
    } else {
        uint32_t number = (uint32_t)g->n_loops;
        BN_TRY(bn_array_grow(&g->loops, &g->loops_room, g->n_loops + 1, sizeof *g->loops, p->err));
        g->loops[g->n_loops++] = (struct bn_loop){.body = group->element,
                                                  .exit = whole.last,
                                                  .min = min,
                                                  .max = max,
                                                  .rule = p->rule,
                                                  .counted = max != BN_GRAMMAR_UNLIMITED || min > 1};
        BN_TRY(bn_grammar_add_node(g, BN_NODE_LOOP, whole.last, number, &whole.first, p->err));
        g->nodes[group->element_end].kind = BN_NODE_AGAIN;
        g->nodes[group->element_end].what = number;
    }
    group->end = group->before;
    append(p, whole);
    return BN_OK;
}

static bn_status take_count(struct parser *p, uint32_t *count)
{
    size_t start = p->at;
    *count = 0;
    for (; p->at < p->n && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++)
        if (*count <= BN_GRAMMAR_MAX_REPEAT) *count = *count * 10 + (uint32_t)(p->text[p->at] - '0');
    return p->at > start ? BN_OK : bad(p, start, "a repetition has no number");
}

/* {m}, {m,} or {m,n} */
static bn_status take_braces(struct parser *p)
{
    size_t start = p->at++;
    uint32_t min, max;
    skip_blanks(p, false);
    BN_TRY(take_count(p, &min));
    skip_blanks(p, false);
    max = min;
    if (has(p, ',')) {
        p->at++;
        skip_blanks(p, false);
        max = BN_GRAMMAR_UNLIMITED;
        if (!has(p, '}')) BN_TRY(take_count(p, &max));
        skip_blanks(p, false);
    }
    if (!has(p, '}')) return bad(p, start, "a repetition is not {m}, {m,} or {m,n}");
    p->at++;
    return repeat(p, start, min, max);
}

/* ---- rules ---- */

static bn_status take_element(struct parser *p)
{
    static const struct bn_range ANY = {0, LAST_POINT};
    size_t start = p->at;
    char c = p->text[start];
    struct bn_part part;
    if (is_name(c)) return add_call(p, take_name(p), start);
    if (c == '{') return take_braces(p);
    if (c == '(') {
        p->at++;
        return open_group(p, start);
    }
    if (c == '"') {
        BN_TRY(take_literal(p, &part));
        append(p, part);
        return BN_OK;
    }
    if (c == '[') {
        BN_TRY(take_class(p, &part));
        append(p, part);
        return BN_OK;
    }
    p->at++;
    if (c == '|') {
        skip_blanks(p, true);
        return next_alternative(p);
    }
    if (c == '*') return repeat(p, start, 0, BN_GRAMMAR_UNLIMITED);
    if (c == '+') return repeat(p, start, 1, BN_GRAMMAR_UNLIMITED);
    if (c == '?') return repeat(p, start, 0, 1);
    if (c == '.') {
        BN_TRY(bn_grammar_add_class(p->g, &ANY, 1, &part, p->err));
        append(p, part);
        return BN_OK;
    }
    if (c != ')') return bad(p, start, "unexpected character");
    if (p->n_groups == 1) return bad(p, start, "a group is closed that is not open");
    append(p, close_group(p));
    return BN_OK;
}

/* Whether the rule goes on after a line end: the next line begins with |. */
static bool goes_on(struct parser *p)
{
    size_t here = p->at;
    skip_blanks(p, true);
    if (has(p, '|')) return true;
    p->at = here;
    return false;
}

static bn_status take_rule(struct parser *p)
{
    size_t start = p->at;
    struct bn_str name = take_name(p);
    if (name.len == 0) return bad(p, start, "expected the name of a rule");
    skip_blanks(p, false);
    if (p->n - p->at < 3 || memcmp(p->text + p->at, "::=", 3) != 0)
        return bad(p, p->at, "expected ::= after the name of a rule");
    p->at += 3;
    skip_blanks(p, true);
    BN_TRY(bn_grammar_add_rule(p->g, name, start, &p->rule, p->err));
    if (p->g->rules[p->rule].defined) return bad(p, start, "a rule is defined twice");
    BN_TRY(open_group(p, start));
    for (;;) {
        skip_blanks(p, p->n_groups > 1);
        if (p->at == p->n) break;
        if (p->text[p->at] == '\n' && !goes_on(p)) break;
        BN_TRY(take_element(p));
    }
    if (p->n_groups > 1) return bad(p, p->groups[p->n_groups - 1].at, "a group is not closed");
    struct bn_part whole = close_group(p);
    p->g->nodes[whole.last].kind = BN_NODE_RETURN;
    p->g->rules[p->rule].entry = whole.first;
    p->g->rules[p->rule].defined = true;
    return BN_OK;
}

static bn_status take_rules(struct parser *p)
{
    size_t valid = bn_utf8_valid(p->text, p->n);
    if (valid < p->n || memchr(p->text, '\0', p->n) != NULL) return bad(p, valid, "the text is not UTF-8");
    for (skip_blanks(p, true); p->at < p->n; skip_blanks(p, true))
        BN_TRY(take_rule(p));
    for (uint32_t i = 0; i < p->g->n_rules; i++) {
        char name[80];
        const struct bn_rule_entry *rule = &p->g->rules[i];
        if (bn_str_equal(rule->name, "root")) p->g->root = i;
        if (rule->defined) continue;
        bn_escape(name, sizeof name, rule->name.ptr, rule->name.len);
        return bn_fail_at(p->err, BN_ERR_FORMAT, rule->at, "grammar", "line %zu: the rule %s is not defined",
                          line_of(p, rule->at), name);
    }
    if (p->g->n_rules == 0 || !bn_str_equal(p->g->rules[p->g->root].name, "root"))
        return bad(p, p->n, "the rule root is not defined");
    return BN_OK;
}

bn_status bn_grammar_parse(bn_grammar *g, const char *text, size_t n_bytes, bn_error *err)
{
    struct parser p = {.g = g, .text = text, .n = n_bytes, .err = err};
    p.groups = bn_alloc(BN_GRAMMAR_MAX_GROUPS, sizeof *p.groups);
    p.ranges = bn_alloc(BN_GRAMMAR_MAX_RANGES + 1, sizeof *p.ranges);
    bn_status status = p.groups == NULL || p.ranges == NULL ? bn_nomem(err) : take_rules(&p);
    bn_free(p.groups);
    bn_free(p.ranges);
    return status;
}
