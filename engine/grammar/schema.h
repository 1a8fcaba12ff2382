/* SPDX-License-Identifier: MIT
 *
 * The translation of JSON Schema to GBNF, in parts: schema.c chooses by keywords, schema_object.c writes objects and
 * arrays, schema_pattern.c strings, their formats and regular expressions, schema_number.c ranges of
 * numbers, schema_choice.c anyOf, oneOf, enum and references.
 *
 * Every text of the grammar is valid under the schema; not every valid text is in the grammar: members come in the order
 * of the schema, blanks are single. A keyword that cannot be translated is an error that names it and its place.
 */
#ifndef BN_GRAMMAR_SCHEMA_H
#define BN_GRAMMAR_SCHEMA_H

#include "base/json.h"
#include "grammar/grammar.h"

#define BN_SCHEMA_MAX_REFS 4096u
#define BN_SCHEMA_MAX_HOPS 32u      /* references to references */
#define BN_SCHEMA_MAX_STEPS 100000u /* of comparing branches of oneOf */
#define BN_SCHEMA_ANY_DEPTH 12u     /* of a value without a schema */
#define BN_SCHEMA_BLANK "\" \"?"    /* between parts: one blank, or none */

/* Types; a whole number is both. */
enum {
    BN_TYPE_NULL = 1,
    BN_TYPE_BOOLEAN = 2,
    BN_TYPE_INTEGER = 4,
    BN_TYPE_FRACTION = 8,
    BN_TYPE_NUMBER = 12,
    BN_TYPE_STRING = 16,
    BN_TYPE_ARRAY = 32,
    BN_TYPE_OBJECT = 64,
    BN_TYPE_ANY = 127
};

struct bn_schema {
    const bn_json *root;
    struct bn_buf *out;                            /* rules that are complete */
    const bn_json **refs;                          /* schemas that are rules r0, r1, ... */
    char (*ref_places)[64];                        /* where they are, for messages */
    size_t n_refs, refs_room, places_room, n_done; /* the rules of n_done of them are written */
    uint32_t n_rules, n_steps;                     /* comparisons for oneOf */
    char place[128];                               /* where the part that is translated is, as a pointer */
    size_t n_place;
    bn_error *err;
};

/* Several schemas in one grammar: what all share; then for each one, its root, rules, and what it refers to; the end. */
void bn_schema_begin(struct bn_schema *s, struct bn_buf *out, bn_error *err);
void bn_schema_set_root(struct bn_schema *s, const bn_json *root);
BN_MUST_CHECK bn_status bn_schema_put_refs(struct bn_schema *s);
void bn_schema_release(struct bn_schema *s);

/* Goes one member deeper; returns the mark that bn_schema_leave takes. */
size_t bn_schema_enter(struct bn_schema *s, const char *member);
void bn_schema_leave(struct bn_schema *s, size_t mark);
/* BN_ERR_UNSUPPORTED for a keyword of the part: "the keyword "x" of <place> <what>". */
bn_status bn_schema_refuse(struct bn_schema *s, const char *keyword, const char *what);

/* Appends an expression for a schema. */
BN_MUST_CHECK bn_status bn_schema_put(struct bn_schema *s, const bn_json *schema, struct bn_buf *e);
/* Makes a rule of it, whose name is appended. */
BN_MUST_CHECK bn_status bn_schema_put_rule(struct bn_schema *s, const bn_json *schema, struct bn_buf *e);
/* A name for a rule; and a complete rule. */
uint32_t bn_schema_new_rule(struct bn_schema *s);
/* The types that a schema mentions, or those of its keywords; *given: "type" is there. */
BN_MUST_CHECK bn_status bn_schema_types(struct bn_schema *s, const bn_json *schema, unsigned *types);
/* The type of a value. */
unsigned bn_schema_type_of(const bn_json *value);
/* A whole number that a keyword must have; *out stays when it is not there. */
BN_MUST_CHECK bn_status bn_schema_count(struct bn_schema *s, const bn_json *schema, const char *keyword,
                                        uint32_t *out);
/* The keyword is the only one of the part but for annotations and one other. */
BN_MUST_CHECK bn_status bn_schema_check_alone(struct bn_schema *s, const bn_json *schema, const char *keyword,
                                              const char *other);
/* Keywords that say nothing about values. */
bool bn_schema_is_annotation(const char *keyword);

/* A literal of these bytes of UTF-8. */
void bn_schema_put_literal(struct bn_buf *e, const char *text, size_t n);

/* The parts. */
BN_MUST_CHECK bn_status bn_schema_put_object(struct bn_schema *s, const bn_json *schema, struct bn_buf *e);
BN_MUST_CHECK bn_status bn_schema_put_array(struct bn_schema *s, const bn_json *schema, struct bn_buf *e);
BN_MUST_CHECK bn_status bn_schema_put_string(struct bn_schema *s, const bn_json *schema, struct bn_buf *e);
BN_MUST_CHECK bn_status bn_schema_put_number(struct bn_schema *s, const bn_json *schema, bool whole,
                                             struct bn_buf *e);
BN_MUST_CHECK bn_status bn_schema_put_values(struct bn_schema *s, const bn_json *schema, struct bn_buf *e);
BN_MUST_CHECK bn_status bn_schema_put_choice(struct bn_schema *s, const bn_json *schema, const char *keyword,
                                             struct bn_buf *e);
BN_MUST_CHECK bn_status bn_schema_put_ref(struct bn_schema *s, const bn_json *ref, struct bn_buf *e);
/* The schema that a schema refers to, as far as references go on; without one, itself. */
BN_MUST_CHECK bn_status bn_schema_follow(struct bn_schema *s, const bn_json *schema, const bn_json **out);

/* ---- functions of conversations: chat.c ---- */

/* How a parameter that stands alone is written: any text, as it is; one of several texts, as it is; JSON. */
enum bn_chat_value { BN_VALUE_RAW, BN_VALUE_CHOICE, BN_VALUE_JSON };
/* Of a member of the parameters, which may be NULL. */
enum bn_chat_value bn_chat_value(const bn_json *parameters, const char *name);
/* The schema of a function's parameters; NULL when it has none, or there is no such function. */
const bn_json *bn_chat_parameters(const bn_json *tools, const char *name);

#endif
