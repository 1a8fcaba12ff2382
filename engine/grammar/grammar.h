/* SPDX-License-Identifier: MIT
 *
 * The inside of a grammar: a recursive transition network over bytes. A rule is a graph of nodes; a set of bytes is
 * consumed, another rule is called, a body is repeated with a counter. The parser of GBNF builds it (gbnf.c); JSON
 * Schema is translated to GBNF first (schema.c). After check.c it is immutable: generations share it.
 *
 * What check.c refuses: rules that are not defined, rules that begin with themselves (left recursion), repetitions of
 * something that may be empty, and grammars that no text matches. So every path consumes a byte after a bounded number
 * of nodes, and every node that is live can reach the end.
 */
#ifndef BN_GRAMMAR_GRAMMAR_H
#define BN_GRAMMAR_GRAMMAR_H

#include "base/buf.h"
#include "base/digest.h"

#define BN_GRAMMAR_MAX_BYTES (256u << 10) /* of a schema that a user gives */
#define BN_GRAMMAR_MAX_GBNF (4u << 20)    /* of GBNF, which may be the translation of schemas */
#define BN_GRAMMAR_MAX_NODES (1u << 19)
#define BN_GRAMMAR_MAX_RULES (1u << 16)
#define BN_GRAMMAR_MAX_SETS (1u << 14)
#define BN_GRAMMAR_MAX_GROUPS 256u      /* parentheses that are open at the same time */
#define BN_GRAMMAR_MAX_RANGES 4096u     /* of one character class */
#define BN_GRAMMAR_MAX_REPEAT 1000000u  /* of {m,n} */
#define BN_GRAMMAR_UNLIMITED UINT32_MAX /* a repetition without a maximum */

enum bn_grammar_node_kind {
    BN_NODE_JUMP,   /* to next; check.c removes them from all paths */
    BN_NODE_SET,    /* a byte of set `what`, then next */
    BN_NODE_SPLIT,  /* next or `what` */
    BN_NODE_CALL,   /* rule `what`, then next */
    BN_NODE_RETURN, /* the end of a rule */
    BN_NODE_LOOP,   /* repetition `what` begins */
    BN_NODE_AGAIN   /* the end of its body */
};

struct bn_node {
    uint8_t kind; /* enum bn_grammar_node_kind */
    bool live;    /* the end can be reached from here */
    uint32_t next, what;
};

struct bn_loop {
    uint32_t body, exit, min, max, rule;
    bool counted; /* the number of repetitions is kept on the stack */
};

struct bn_byte_set {
    uint64_t bits[4];
};

struct bn_rule_entry {
    struct bn_str name; /* in the text */
    size_t at;          /* where it is first mentioned */
    uint32_t entry;
    bool defined;
};

enum bn_grammar_kind { BN_GRAMMAR_GBNF, BN_GRAMMAR_JSON_SCHEMA };

struct bn_grammar {
    enum bn_grammar_kind kind;
    char *text; /* as it was given */
    size_t n_text;
    char *gbnf; /* its translation; NULL for GBNF */
    char sha256[BN_SHA256_HEX];

    struct bn_node *nodes;
    struct bn_loop *loops;
    struct bn_byte_set *sets;
    struct bn_rule_entry *rules;
    size_t n_nodes, n_loops, n_sets, n_rules, nodes_room, loops_room, sets_room, rules_room;
    uint32_t *set_slots, *rule_slots; /* hash tables: number + 1; while it is built */
    uint32_t root;                    /* rule */
    /* Bytes that all sets treat alike are one class. */
    uint8_t class_of[256], byte_of[256];
    unsigned n_classes;
};

/* "gbnf", "json_schema". */
const char *bn_grammar_kind_name(enum bn_grammar_kind kind);
/* The kind of a name; false: there is none. */
bool bn_grammar_kind_from_name(const char *name, enum bn_grammar_kind *out);
/* A grammar of this kind from its text. */
BN_MUST_CHECK bn_status bn_grammar_open(bn_grammar **out, enum bn_grammar_kind kind, const char *text,
                                        size_t n_bytes, bn_error *err);

static inline bool bn_byte_set_has(const struct bn_byte_set *set, unsigned byte)
{
    return (set->bits[byte >> 6] >> (byte & 63) & 1) != 0;
}

/* ---- building: nodes.c ---- */

/* The first and the last node of a part; the last is a jump whose target is still open. */
struct bn_part {
    uint32_t first, last;
};

struct bn_range {
    uint32_t from, to; /* code points */
};

BN_MUST_CHECK bn_status bn_grammar_add_node(bn_grammar *g, enum bn_grammar_node_kind kind, uint32_t next,
                                            uint32_t what, uint32_t *out, bn_error *err);
/* The set's number, the same for equal sets. */
BN_MUST_CHECK bn_status bn_grammar_add_set(bn_grammar *g, const struct bn_byte_set *set, uint32_t *out,
                                           bn_error *err);
/* One character of a class, as UTF-8; the ranges are sorted and do not overlap. */
BN_MUST_CHECK bn_status bn_grammar_add_class(bn_grammar *g, const struct bn_range *ranges, size_t n,
                                             struct bn_part *out, bn_error *err);
/* The number of the rule of this name, which may be defined later. */
BN_MUST_CHECK bn_status bn_grammar_add_rule(bn_grammar *g, struct bn_str name, size_t at, uint32_t *out,
                                            bn_error *err);

/* ---- the steps of opening ---- */

/* Parses GBNF into a grammar that is empty. */
BN_MUST_CHECK bn_status bn_grammar_parse(bn_grammar *g, const char *text, size_t n_bytes, bn_error *err);
/* Checks the whole, and computes what matching needs. */
BN_MUST_CHECK bn_status bn_grammar_check(bn_grammar *g, bn_error *err);
/* Appends GBNF for the texts of a JSON Schema. BN_ERR_UNSUPPORTED names the keyword and its place. */
BN_MUST_CHECK bn_status bn_schema_translate(const char *schema, size_t n_bytes, struct bn_buf *out,
                                            bn_error *err);

#endif
