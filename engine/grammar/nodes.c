/* SPDX-License-Identifier: MIT
 *
 * The parts that a grammar is built of: nodes, sets of bytes, names of rules, and character classes as sequences of
 * sets of bytes (the ranges of UTF-8 that the class has).
 */
#include "base/error.h"
#include "base/utf8.h"
#include "grammar/grammar.h"
#include "tokenizer/vocab.h"

#define SET_SLOTS (2u * BN_GRAMMAR_MAX_SETS) /* powers of two: the tables are at most half full */
#define RULE_SLOTS (2u * BN_GRAMMAR_MAX_RULES)

bn_status bn_grammar_add_node(bn_grammar *g, enum bn_grammar_node_kind kind, uint32_t next, uint32_t what,
                              uint32_t *out, bn_error *err)
{
    if (g->n_nodes == BN_GRAMMAR_MAX_NODES)
        return bn_fail(err, BN_ERR_LIMIT, "the grammar is too large: more than %u nodes",
                       BN_GRAMMAR_MAX_NODES);
    BN_TRY(bn_array_grow(&g->nodes, &g->nodes_room, g->n_nodes + 1, sizeof *g->nodes, err));
    g->nodes[g->n_nodes] = (struct bn_node){.kind = (uint8_t)kind, .next = next, .what = what};
    *out = (uint32_t)g->n_nodes++;
    return BN_OK;
}

bn_status bn_grammar_add_set(bn_grammar *g, const struct bn_byte_set *set, uint32_t *out, bn_error *err)
{
    uint64_t h = 0;
    if (g->set_slots == NULL) g->set_slots = bn_alloc(SET_SLOTS, sizeof *g->set_slots);
    if (g->set_slots == NULL) return bn_nomem(err);
    for (size_t i = 0; i < BN_ARRAY_LEN(set->bits); i++)
        h = bn_hash_mix(h ^ set->bits[i]);
    uint32_t at = (uint32_t)h & (SET_SLOTS - 1);
    for (; g->set_slots[at] != 0; at = (at + 1) & (SET_SLOTS - 1)) {
        *out = g->set_slots[at] - 1;
        if (memcmp(&g->sets[*out], set, sizeof *set) == 0) return BN_OK;
    }
    if (g->n_sets == BN_GRAMMAR_MAX_SETS)
        return bn_fail(err, BN_ERR_LIMIT, "the grammar is too large: more than %u different sets of bytes",
                       BN_GRAMMAR_MAX_SETS);
    BN_TRY(bn_array_grow(&g->sets, &g->sets_room, g->n_sets + 1, sizeof *g->sets, err));
    g->sets[g->n_sets] = *set;
    *out = (uint32_t)g->n_sets++;
    g->set_slots[at] = *out + 1;
    return BN_OK;
}

bn_status bn_grammar_add_rule(bn_grammar *g, struct bn_str name, size_t where, uint32_t *out, bn_error *err)
{
    if (g->rule_slots == NULL) g->rule_slots = bn_alloc(RULE_SLOTS, sizeof *g->rule_slots);
    if (g->rule_slots == NULL) return bn_nomem(err);
    uint32_t at = (uint32_t)bn_hash_bytes(name.ptr, name.len) & (RULE_SLOTS - 1);
    for (; g->rule_slots[at] != 0; at = (at + 1) & (RULE_SLOTS - 1)) {
        *out = g->rule_slots[at] - 1;
        if (bn_str_compare(g->rules[*out].name, name) == 0) return BN_OK;
    }
    if (g->n_rules == BN_GRAMMAR_MAX_RULES)
        return bn_fail(err, BN_ERR_LIMIT, "the grammar is too large: more than %u rules",
                       BN_GRAMMAR_MAX_RULES);
    BN_TRY(bn_array_grow(&g->rules, &g->rules_room, g->n_rules + 1, sizeof *g->rules, err));
    g->rules[g->n_rules] = (struct bn_rule_entry){.name = name, .at = where};
    *out = (uint32_t)g->n_rules++;
    g->rule_slots[at] = *out + 1;
    return BN_OK;
}

/* ---- character classes ---- */

static void set_range(struct bn_byte_set *set, unsigned from, unsigned to)
{
    for (unsigned b = from; b <= to; b++)
        set->bits[b >> 6] |= (uint64_t)1 << (b & 63);
}

struct class_parts {
    bn_grammar *g;
    uint32_t tail, end; /* the open alternative; where all of them lead */
    bool any;           /* there is an alternative already */
    bn_error *err;
};

/* Adds an alternative: a sequence of sets of bytes. */
static bn_status add_sequence(struct class_parts *c, const struct bn_byte_set *sets, size_t n)
{
    bn_grammar *g = c->g;
    uint32_t next = c->end, set;
    for (size_t i = n; i-- > 0;) {
        BN_TRY(bn_grammar_add_set(g, &sets[i], &set, c->err));
        BN_TRY(bn_grammar_add_node(g, BN_NODE_SET, next, set, &next, c->err));
    }
    if (c->any) {
        uint32_t tail;
        BN_TRY(bn_grammar_add_node(g, BN_NODE_JUMP, next, 0, &tail, c->err));
        g->nodes[c->tail].kind = BN_NODE_SPLIT;
        g->nodes[c->tail].what = tail;
        c->tail = tail;
    } else {
        g->nodes[c->tail].next = next;
    }
    c->any = true;
    return BN_OK;
}

/* The largest part at the beginning of a range whose code points are all combinations of ranges of bytes. */
static uint32_t regular_end(uint32_t from, uint32_t to)
{
    static const uint32_t LAST[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF};
    for (size_t i = 0; i < BN_ARRAY_LEN(LAST); i++)
        if (from <= LAST[i] && to > LAST[i]) to = LAST[i];
    if (from < 0x80) return to;
    for (unsigned shift = 6; shift <= 18; shift += 6) {
        uint32_t low = (1u << shift) - 1;
        if ((from & ~low) == (to & ~low)) break;
        if ((from & low) != 0) return from | low;
        if ((to & low) != low) to = (to & ~low) - 1;
    }
    return to;
}

static bn_status add_range(struct class_parts *c, struct bn_range range)
{
    while (range.from <= range.to) {
        struct bn_byte_set sets[4] = {0};
        unsigned char first[4], last[4];
        if (range.from >= 0xD800 && range.from <= 0xDFFF) { /* surrogates are not characters */
            range.from = 0xE000;
            continue;
        }
        uint32_t end = regular_end(range.from, range.to);
        size_t n = bn_utf8_encode(range.from, first);
        bn_utf8_encode(end, last);
        for (size_t i = 0; i < n; i++)
            set_range(&sets[i], first[i], last[i]);
        BN_TRY(add_sequence(c, sets, n));
        range.from = end + 1;
    }
    return BN_OK;
}

bn_status bn_grammar_add_class(bn_grammar *g, const struct bn_range *ranges, size_t n, struct bn_part *out,
                               bn_error *err)
{
    struct class_parts c = {.g = g, .err = err};
    struct bn_byte_set ascii = {0};
    BN_TRY(bn_grammar_add_node(g, BN_NODE_JUMP, 0, 0, &out->last, err));
    BN_TRY(bn_grammar_add_node(g, BN_NODE_JUMP, out->last, 0, &out->first, err));
    c.tail = out->first;
    c.end = out->last;
    for (size_t i = 0; i < n && ranges[i].from < 0x80; i++)
        set_range(&ascii, ranges[i].from, ranges[i].to < 0x80 ? ranges[i].to : 0x7F);
    if (n > 0 && ranges[0].from < 0x80) BN_TRY(add_sequence(&c, &ascii, 1));
    for (size_t i = 0; i < n; i++) {
        struct bn_range wide = ranges[i];
        if (wide.from < 0x80) wide.from = 0x80;
        if (wide.to > 0x10FFFF) wide.to = 0x10FFFF;
        BN_TRY(add_range(&c, wide));
    }
    return c.any ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "a character class has no characters");
}

/* ---- opening ---- */

const char *bn_grammar_kind_name(enum bn_grammar_kind kind)
{
    return kind == BN_GRAMMAR_GBNF ? "gbnf" : "json_schema";
}

bool bn_grammar_kind_from_name(const char *name, enum bn_grammar_kind *out)
{
    *out = strcmp(name, "gbnf") == 0 ? BN_GRAMMAR_GBNF : BN_GRAMMAR_JSON_SCHEMA;
    return strcmp(name, bn_grammar_kind_name(*out)) == 0;
}

static bn_status build(bn_grammar *g, bn_error *err)
{
    struct bn_buf gbnf = {.max = BN_GRAMMAR_MAX_GBNF};
    const char *text = g->text;
    size_t n = g->n_text;
    if (g->kind == BN_GRAMMAR_JSON_SCHEMA) {
        bn_status status = bn_schema_translate(g->text, g->n_text, &gbnf, err);
        if (status == BN_OK) status = bn_buf_check(&gbnf, err);
        if (status != BN_OK) {
            bn_buf_release(&gbnf);
            return status;
        }
        text = g->gbnf = gbnf.data;
        n = gbnf.len;
    }
    BN_TRY(bn_grammar_parse(g, text, n, err));
    return bn_grammar_check(g, err);
}

bn_status bn_grammar_open(bn_grammar **out, enum bn_grammar_kind kind, const char *text, size_t n_bytes,
                          bn_error *err)
{
    *out = NULL;
    size_t most = kind == BN_GRAMMAR_GBNF ? BN_GRAMMAR_MAX_GBNF : BN_GRAMMAR_MAX_BYTES;
    if (n_bytes > most)
        return bn_fail(err, BN_ERR_LIMIT, "a grammar of %zu bytes is too long, at most %zu are allowed",
                       n_bytes, most);
    bn_grammar *g = bn_alloc(1, sizeof *g);
    if (g == NULL) return bn_nomem(err);
    g->kind = kind;
    g->n_text = n_bytes;
    g->text = bn_strndup(text, n_bytes);
    bn_sha256_hex(text, n_bytes, g->sha256);
    bn_status status = g->text == NULL ? bn_nomem(err) : build(g, err);
    bn_free(g->set_slots);
    bn_free(g->rule_slots);
    g->set_slots = g->rule_slots = NULL;
    if (status != BN_OK) {
        bn_grammar_close(g);
        return status;
    }
    *out = g;
    return BN_OK;
}

bn_status bn_grammar_open_gbnf(bn_grammar **out, const char *text, size_t n_bytes, bn_error *err)
{
    return bn_grammar_open(out, BN_GRAMMAR_GBNF, text, n_bytes, err);
}

bn_status bn_grammar_open_json_schema(bn_grammar **out, const char *schema, size_t n_bytes, bn_error *err)
{
    return bn_grammar_open(out, BN_GRAMMAR_JSON_SCHEMA, schema, n_bytes, err);
}

void bn_grammar_close(bn_grammar *g)
{
    if (g == NULL) return;
    bn_free(g->text);
    bn_free(g->gbnf);
    bn_free(g->nodes);
    bn_free(g->loops);
    bn_free(g->sets);
    bn_free(g->rules);
    bn_free(g->set_slots);
    bn_free(g->rule_slots);
    bn_free(g);
}
