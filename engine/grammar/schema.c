/* SPDX-License-Identifier: MIT
 *
 * Translates a JSON Schema: checks the keywords of each part, and writes it by its types. JSON is nested at most 64
 * deep, which bounds the recursion; references become rules, which are written one after the other.
 */
#include "grammar/schema.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"

/* What a value without a schema is made of. A string has no escapes of surrogates, so that a character is one. */
static const char BASE[] =
    "plain ::= [^\"\\\\\\x00-\\x1F]\n"
    "hex ::= [0-9a-fA-F]\n"
    "char ::= plain | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" ([0-9a-ce-fA-CE-F] hex | [dD] [0-7]) hex hex)\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "fraction ::= \".\" [0-9]{1,15}\n"
    "integer ::= \"0\" | \"-\"? [1-9] [0-9]{0,14}\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,14}) fraction? ([eE] [-+]? [0-9]{1,2})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "scalar ::= string | number | boolean | \"null\"\n";

static void put_any(struct bn_buf *out)
{
    bn_buf_printf(out,
                  "any%u ::= scalar | \"{\" " BN_SCHEMA_BLANK " \"}\" | \"[\" " BN_SCHEMA_BLANK " \"]\"\n",
                  BN_SCHEMA_ANY_DEPTH);
    for (unsigned i = 0; i < BN_SCHEMA_ANY_DEPTH; i++) {
        bn_buf_printf(out, "any%u ::= scalar | object%u | array%u\n", i, i, i);
        bn_buf_printf(out, "member%u ::= string \":\" " BN_SCHEMA_BLANK " any%u\n", i, i + 1);
        bn_buf_printf(out,
                      "object%u ::= \"{\" " BN_SCHEMA_BLANK " (member%u (\",\" " BN_SCHEMA_BLANK
                      " member%u)* " BN_SCHEMA_BLANK ")? \"}\"\n",
                      i, i, i);
        bn_buf_printf(out,
                      "array%u ::= \"[\" " BN_SCHEMA_BLANK " (any%u (\",\" " BN_SCHEMA_BLANK
                      " any%u)* " BN_SCHEMA_BLANK ")? \"]\"\n",
                      i, i + 1, i + 1);
    }
}

/* ---- places and messages ---- */

size_t bn_schema_enter(struct bn_schema *s, const char *member)
{
    size_t mark = s->n_place, room = sizeof s->place - s->n_place;
    int n = snprintf(s->place + s->n_place, room, "/%.60s", member);
    s->n_place += n > 0 && (size_t)n < room ? (size_t)n : 0;
    s->place[s->n_place] = '\0';
    return mark;
}

void bn_schema_leave(struct bn_schema *s, size_t mark)
{
    s->n_place = mark;
    s->place[mark] = '\0';
}

bn_status bn_schema_refuse(struct bn_schema *s, const char *keyword, const char *what)
{
    char shown[64];
    char place[sizeof s->place + 16];
    bn_escape(place, sizeof place, s->place, s->n_place);
    return bn_fail(s->err, BN_ERR_UNSUPPORTED, "the keyword \"%s\" of %s %s",
                   bn_escape(shown, sizeof shown, keyword, strlen(keyword)), place, what);
}

void bn_schema_put_literal(struct bn_buf *e, const char *text, size_t n)
{
    bn_buf_putc(e, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20)
            bn_buf_printf(e, "\\x%02X", c);
        else if (c == '"' || c == '\\')
            bn_buf_printf(e, "\\%c", c);
        else
            bn_buf_putc(e, text[i]);
    }
    bn_buf_putc(e, '"');
}

uint32_t bn_schema_new_rule(struct bn_schema *s)
{
    return s->n_rules++;
}

/* ---- keywords ---- */

static const struct keyword {
    unsigned types; /* that these are about; 0: they say nothing about values */
    const char *names[18];
} KEYWORDS[] = {
    {0,
     {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
      "$comment", "$schema", "$id", "id", "$anchor", "$defs", "definitions", "contentMediaType",
      "contentEncoding"}},
    {BN_TYPE_ANY, {"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"}},
    {BN_TYPE_OBJECT, {"properties", "required", "additionalProperties"}},
    {BN_TYPE_ARRAY, {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
    {BN_TYPE_STRING, {"minLength", "maxLength", "pattern", "format"}},
    {BN_TYPE_NUMBER, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
};

static const struct keyword *find_keyword(const char *name)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYWORDS); i++)
        for (const char *const *n = KEYWORDS[i].names; *n != NULL; n++)
            if (strcmp(*n, name) == 0) return &KEYWORDS[i];
    return strncmp(name, "x-", 2) == 0 ? &KEYWORDS[0] : NULL; /* an extension */
}

bool bn_schema_is_annotation(const char *keyword)
{
    const struct keyword *k = find_keyword(keyword);
    return k != NULL && k->types == 0;
}

static bn_status check_keywords(struct bn_schema *s, const bn_json *schema)
{
    bool flag = true;
    for (const bn_json *m = bn_json_first(schema); m != NULL; m = bn_json_next(m))
        if (find_keyword(bn_json_name(m)) == NULL)
            return bn_schema_refuse(s, bn_json_name(m), "is not supported");
    const bn_json *unique = bn_json_get(schema, "uniqueItems");
    if (unique != NULL && (!bn_json_bool(unique, &flag) || flag))
        return bn_schema_refuse(s, "uniqueItems", "is not supported");
    return BN_OK;
}

bn_status bn_schema_check_alone(struct bn_schema *s, const bn_json *schema, const char *keyword,
                                const char *other)
{
    for (const bn_json *m = bn_json_first(schema); m != NULL; m = bn_json_next(m)) {
        const char *name = bn_json_name(m);
        char what[64];
        if (strcmp(name, keyword) == 0 || strcmp(name, other) == 0 || bn_schema_is_annotation(name)) continue;
        snprintf(what, sizeof what, "is not supported beside \"%s\"", keyword);
        return bn_schema_refuse(s, name, what);
    }
    return BN_OK;
}

bn_status bn_schema_count(struct bn_schema *s, const bn_json *schema, const char *keyword, uint32_t *out)
{
    const bn_json *value = bn_json_get(schema, keyword);
    uint64_t count;
    if (value == NULL) return BN_OK;
    if (!bn_json_u64(value, &count) || count > BN_GRAMMAR_MAX_REPEAT)
        return bn_schema_refuse(s, keyword, "is not a whole number from 0 to 1000000");
    *out = (uint32_t)count;
    return BN_OK;
}

/* ---- types ---- */

static unsigned type_by_name(const char *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } NAMES[] = {{"null", BN_TYPE_NULL},     {"boolean", BN_TYPE_BOOLEAN}, {"integer", BN_TYPE_INTEGER},
                 {"number", BN_TYPE_NUMBER}, {"string", BN_TYPE_STRING},   {"array", BN_TYPE_ARRAY},
                 {"object", BN_TYPE_OBJECT}};
    size_t i = BN_FIND(NAMES, name);
    return i < BN_ARRAY_LEN(NAMES) ? NAMES[i].type : 0;
}

unsigned bn_schema_type_of(const bn_json *value)
{
    static const unsigned TYPES[] = {[BN_JSON_NULL] = BN_TYPE_NULL,       [BN_JSON_BOOL] = BN_TYPE_BOOLEAN,
                                     [BN_JSON_NUMBER] = BN_TYPE_FRACTION, [BN_JSON_STRING] = BN_TYPE_STRING,
                                     [BN_JSON_ARRAY] = BN_TYPE_ARRAY,     [BN_JSON_OBJECT] = BN_TYPE_OBJECT};
    double x;
    if (bn_json_number(value, &x) && x == floor(x)) return BN_TYPE_INTEGER;
    return TYPES[bn_json_kind(value)];
}

static bn_status add_type(struct bn_schema *s, const bn_json *value, unsigned *types)
{
    char shown[80], place[sizeof s->place + 16];
    const char *name = "not a text";
    unsigned one = bn_json_string(value, &name) ? type_by_name(name) : 0;
    *types |= one;
    if (one != 0) return BN_OK;
    return bn_fail(
        s->err, BN_ERR_FORMAT,
        "the type of %s is '%s'; it must be null, boolean, integer, number, string, array or object",
        bn_escape(place, sizeof place, s->place, s->n_place),
        bn_escape(shown, sizeof shown, name, strlen(name)));
}

bn_status bn_schema_types(struct bn_schema *s, const bn_json *schema, unsigned *types)
{
    const bn_json *type = bn_json_get(schema, "type");
    *types = 0;
    if (type != NULL && (bn_json_kind(type) != BN_JSON_ARRAY || bn_json_size(type) == 0))
        return add_type(s, type, types);
    for (const bn_json *v = bn_json_first(type); v != NULL; v = bn_json_next(v))
        BN_TRY(add_type(s, v, types));
    if (type != NULL) return BN_OK;
    for (const bn_json *m = bn_json_first(schema); m != NULL; m = bn_json_next(m)) {
        const struct keyword *k = find_keyword(bn_json_name(m));
        if (k != NULL && k->types != BN_TYPE_ANY) *types |= k->types;
    }
    if (*types == 0) *types = BN_TYPE_ANY;
    return BN_OK;
}

static bn_status put_type(struct bn_schema *s, const bn_json *schema, unsigned type, struct bn_buf *e)
{
    switch (type) {
    case BN_TYPE_NULL:
        bn_buf_puts(e, "\"null\"");
        return BN_OK;
    case BN_TYPE_BOOLEAN:
        bn_buf_puts(e, "boolean");
        return BN_OK;
    case BN_TYPE_INTEGER:
        return bn_schema_put_number(s, schema, true, e);
    case BN_TYPE_NUMBER:
        return bn_schema_put_number(s, schema, false, e);
    case BN_TYPE_STRING:
        return bn_schema_put_string(s, schema, e);
    case BN_TYPE_ARRAY:
        return bn_schema_put_array(s, schema, e);
    default:
        return bn_schema_put_object(s, schema, e);
    }
}

static bn_status put_types(struct bn_schema *s, const bn_json *schema, struct bn_buf *e)
{
    static const unsigned EACH[] = {BN_TYPE_NULL,   BN_TYPE_BOOLEAN, BN_TYPE_NUMBER, BN_TYPE_INTEGER,
                                    BN_TYPE_STRING, BN_TYPE_ARRAY,   BN_TYPE_OBJECT};
    unsigned types;
    BN_TRY(bn_schema_types(s, schema, &types));
    if (types == BN_TYPE_ANY && bn_json_get(schema, "type") == NULL) {
        bn_buf_puts(e, "any0");
        return BN_OK;
    }
    const char *before = "(";
    for (size_t i = 0; i < BN_ARRAY_LEN(EACH); i++) {
        if ((types & EACH[i]) != EACH[i]) continue;
        types &= ~EACH[i];
        bn_buf_puts(e, before);
        BN_TRY(put_type(s, schema, EACH[i], e));
        before = " | ";
    }
    bn_buf_putc(e, ')');
    return BN_OK;
}

/* ---- a part ---- */

bn_status bn_schema_put(struct bn_schema *s, const bn_json *schema, struct bn_buf *e)
{
    static const char *const CHOICES[] = {"anyOf", "oneOf"};
    bool allowed;
    unsigned types;
    if (e->failed) return bn_buf_check(e, s->err);
    if (bn_json_bool(schema, &allowed)) {
        if (!allowed)
            return bn_fail(s->err, BN_ERR_UNSUPPORTED, "the schema %s is false, which allows no value",
                           s->place);
        bn_buf_puts(e, "any0");
        return BN_OK;
    }
    if (schema == NULL || bn_json_kind(schema) != BN_JSON_OBJECT)
        return bn_fail(s->err, BN_ERR_FORMAT, "the schema %s is not an object, true or false", s->place);
    BN_TRY(check_keywords(s, schema));
    if (bn_json_get(schema, "$ref") != NULL) {
        BN_TRY(bn_schema_check_alone(s, schema, "$ref", "$ref"));
        return bn_schema_put_ref(s, bn_json_get(schema, "$ref"), e);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(CHOICES); i++)
        if (bn_json_get(schema, CHOICES[i]) != NULL) {
            BN_TRY(bn_schema_check_alone(s, schema, CHOICES[i], CHOICES[i]));
            return bn_schema_put_choice(s, schema, CHOICES[i], e);
        }
    if (bn_json_get(schema, "const") != NULL || bn_json_get(schema, "enum") != NULL) {
        BN_TRY(bn_schema_check_alone(s, schema, bn_json_get(schema, "const") != NULL ? "const" : "enum",
                                     "type"));
        return bn_schema_put_values(s, schema, e);
    }
    const bn_json *all = bn_json_get(schema, "allOf");
    if (all != NULL && bn_json_kind(all) == BN_JSON_ARRAY && bn_json_size(all) == 1 &&
        bn_schema_check_alone(&(struct bn_schema){0}, schema, "allOf", "allOf") == BN_OK) {
        size_t mark = bn_schema_enter(s, "allOf/0");
        BN_TRY(bn_schema_put(s, bn_json_first(all), e));
        bn_schema_leave(s, mark);
        return BN_OK;
    }
    if (all == NULL) return put_types(s, schema, e);
    BN_TRY(bn_schema_types(s, schema, &types));
    if ((types & BN_TYPE_OBJECT) == 0) return bn_schema_refuse(s, "allOf", "is supported for objects only");
    return bn_schema_put_object(s, schema, e);
}

/* Writes the rule of this name. */
static bn_status put_named(struct bn_schema *s, const char *name, const bn_json *schema)
{
    struct bn_buf body = {.max = BN_GRAMMAR_MAX_GBNF};
    bn_status status = bn_schema_put(s, schema, &body);
    if (status == BN_OK) status = bn_buf_check(&body, s->err);
    if (status == BN_OK) bn_buf_printf(s->out, "%s ::= %s\n", name, bn_buf_text(&body));
    bn_buf_release(&body);
    return status;
}

bn_status bn_schema_put_rule(struct bn_schema *s, const bn_json *schema, struct bn_buf *e)
{
    char name[16];
    snprintf(name, sizeof name, "s%u", bn_schema_new_rule(s));
    bn_buf_puts(e, name);
    return put_named(s, name, schema);
}

void bn_schema_begin(struct bn_schema *s, struct bn_buf *out, bn_error *err)
{
    *s = (struct bn_schema){.out = out, .err = err};
    bn_buf_puts(out, BASE);
    put_any(out);
}

void bn_schema_set_root(struct bn_schema *s, const bn_json *root)
{
    s->root = root;
    s->n_place = (size_t)snprintf(s->place, sizeof s->place, "#");
}

bn_status bn_schema_put_refs(struct bn_schema *s)
{
    char name[24];
    const bn_json *last;
    for (; s->n_done < s->n_refs; s->n_done++) {
        snprintf(s->place, sizeof s->place, "%s", s->ref_places[s->n_done]);
        s->n_place = strlen(s->place);
        snprintf(name, sizeof name, "r%zu", s->n_done);
        BN_TRY(bn_schema_follow(s, s->refs[s->n_done], &last)); /* refuses a circle of references */
        BN_TRY(put_named(s, name, s->refs[s->n_done]));
    }
    return BN_OK;
}

void bn_schema_release(struct bn_schema *s)
{
    bn_free(s->refs);
    bn_free(s->ref_places);
}

bn_status bn_schema_translate(const char *schema, size_t n_bytes, struct bn_buf *out, bn_error *err)
{
    bn_json *root = NULL;
    struct bn_schema s;
    BN_TRY(bn_json_parse(&root, schema, n_bytes, err));
    bn_schema_begin(&s, out, err);
    bn_schema_set_root(&s, root);
    bn_status status = put_named(&s, "root", root);
    if (status == BN_OK) status = bn_schema_put_refs(&s);
    bn_json_free(root);
    bn_schema_release(&s);
    return status;
}
