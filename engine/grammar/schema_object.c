/* SPDX-License-Identifier: MIT
 *
 * Objects and arrays. The members of an object come in the order of the schema; those that are not required may be left
 * out. Other members come after them and have other names. Without additionalProperties there are no
 * others, unless the schema declares no member at all.
 *
 * An object of k declared members is a chain of rules: at member i, nothing has been written yet (a), or something has
 * (b), which a comma must follow.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/schema.h"

struct member {
    const char *name;
    const bn_json *schema; /* NULL: of any other member */
    char place[128];
    bool required;
};

struct object {
    struct member *list;
    size_t n, n_named, room; /* after the n members come names that must not be there */
    const bn_json *others;   /* additionalProperties; NULL: not given */
    bool declared;           /* some part has properties */
};

/* ---- what the object has ---- */

static struct member *find_member(struct object *o, const char *name)
{
    size_t i = bn_find_text(o->list, o->n, sizeof *o->list, name);
    return i < o->n ? &o->list[i] : NULL;
}

#define MAX_MEMBERS 2000u /* names are compared with one another */

static bn_status add_member(struct bn_schema *s, struct object *o, const char *name, const bn_json *schema)
{
    if (o->n == MAX_MEMBERS) return bn_schema_refuse(s, "properties", "has more than 2000 members");
    BN_TRY(bn_array_grow(&o->list, &o->room, o->n + 1, sizeof *o->list, s->err));
    struct member *m = &o->list[o->n++];
    *m = (struct member){.name = name, .schema = schema};
    size_t mark = bn_schema_enter(s, schema != NULL ? "properties" : "additionalProperties");
    if (schema != NULL) (void)bn_schema_enter(s, name);
    memcpy(m->place, s->place, sizeof m->place);
    bn_schema_leave(s, mark);
    return BN_OK;
}

static bn_status take_properties(struct bn_schema *s, struct object *o, const bn_json *part)
{
    const bn_json *properties = bn_json_get(part, "properties");
    if (properties == NULL) return BN_OK;
    o->declared = true;
    if (bn_json_kind(properties) != BN_JSON_OBJECT)
        return bn_schema_refuse(s, "properties", "is not an object of schemas");
    for (const bn_json *m = bn_json_first(properties); m != NULL; m = bn_json_next(m)) {
        if (find_member(o, bn_json_name(m)) != NULL)
            return bn_schema_refuse(s, bn_json_name(m), "is in several branches of \"allOf\"");
        BN_TRY(add_member(s, o, bn_json_name(m), m));
    }
    return BN_OK;
}

static bn_status take_required(struct bn_schema *s, struct object *o, const bn_json *part)
{
    const bn_json *required = bn_json_get(part, "required");
    const char *name;
    if (required == NULL) return BN_OK;
    if (bn_json_kind(required) != BN_JSON_ARRAY)
        return bn_schema_refuse(s, "required", "is not a list of names");
    for (const bn_json *v = bn_json_first(required); v != NULL; v = bn_json_next(v)) {
        if (!bn_json_string(v, &name)) return bn_schema_refuse(s, "required", "is not a list of names");
        struct member *m = find_member(o, name);
        if (m == NULL) {
            BN_TRY(add_member(s, o, name, NULL));
            m = &o->list[o->n - 1];
        }
        m->required = true;
    }
    return BN_OK;
}

/* The branches of allOf: objects of properties and required. All properties first, so that required finds them. */
static bn_status take_branches(struct bn_schema *s, struct object *o, const bn_json *schema, unsigned depth,
                               bn_status (*take)(struct bn_schema *, struct object *, const bn_json *))
{
    static const char *const KNOWN[] = {"type", "properties", "required", "allOf"};
    const bn_json *all = bn_json_get(schema, "allOf");
    BN_TRY(take(s, o, schema));
    if (all == NULL) return BN_OK;
    if (depth == 0 || bn_json_kind(all) != BN_JSON_ARRAY)
        return bn_schema_refuse(s, "allOf", "is not a list of schemas");
    for (const bn_json *v = bn_json_first(all); v != NULL; v = bn_json_next(v)) {
        const bn_json *branch;
        unsigned types;
        BN_TRY(bn_schema_follow(s, v, &branch));
        if (bn_json_kind(branch) != BN_JSON_OBJECT)
            return bn_schema_refuse(s, "allOf", "has a branch that is not an object's");
        for (const bn_json *m = bn_json_first(branch); m != NULL; m = bn_json_next(m)) {
            bool known = bn_schema_is_annotation(bn_json_name(m)) || BN_HAS(KNOWN, bn_json_name(m));
            if (!known) return bn_schema_refuse(s, bn_json_name(m), "is not supported in \"allOf\"");
        }
        BN_TRY(bn_schema_types(s, branch, &types));
        if ((types & BN_TYPE_OBJECT) == 0)
            return bn_schema_refuse(s, "allOf", "has a branch that is not an object's");
        BN_TRY(take_branches(s, o, branch, depth - 1, take));
    }
    return BN_OK;
}

static bool is_false(const bn_json *schema)
{
    bool allowed = true;
    return bn_json_bool(schema, &allowed) && !allowed;
}

/* Puts members that must not be there last. */
static bn_status part_forbidden(struct bn_schema *s, struct object *o)
{
    size_t kept = 0;
    o->n_named = o->n;
    for (size_t i = 0; i < o->n; i++) {
        struct member m = o->list[i];
        if (m.schema == NULL && o->others != NULL) m.schema = o->others;
        if (is_false(m.schema)) {
            if (m.required) return bn_schema_refuse(s, "required", "names a member that is not allowed");
            continue;
        }
        o->list[i] = o->list[kept];
        o->list[kept++] = m;
    }
    o->n = kept;
    return BN_OK;
}

/* ---- names of other members ---- */

/* The names from..to share their first `depth` bytes; rule n<number> is what follows these. */
struct name_group {
    size_t from, to, depth;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name with a quote, a backslash or a control character needs an escape, which names of other members do not have. */
static bool is_plain(const char *name)
{
    for (; *name != '\0'; name++)
        if (*name == '"' || *name == '\\' || (unsigned char)*name < 0x20) return false;
    return true;
}

/* Writes the rule of a group: it ends here, or goes on by a character that no name has here, or by one that some have. */
static bn_status put_group(struct bn_schema *s, const char *const *names, struct name_group group,
                           uint32_t first, struct name_group **queue, size_t *n_queue, size_t *room,
                           size_t number)
{
    struct bn_buf *out = s->out;
    bool ends = names[group.from][group.depth] == '\0';
    size_t from = group.from + ends;
    bn_buf_printf(out, "n%u-%zu ::= ", first, number);
    for (size_t i = from, next; i < group.to; i = next) {
        const char *rest = names[i] + group.depth;
        size_t length = bn_utf8_length(rest, strlen(rest));
        for (next = i + 1; next < group.to && memcmp(names[next] + group.depth, rest, length) == 0;)
            next++;
        bn_schema_put_literal(out, rest, length);
        bn_buf_printf(out, " n%u-%zu | ", first, *n_queue);
        BN_TRY(bn_array_grow(queue, room, *n_queue + 1, sizeof **queue, s->err));
        (*queue)[(*n_queue)++] = (struct name_group){i, next, group.depth + length};
    }
    bn_buf_puts(out, "[^\"\\\\\\x00-\\x1F");
    for (size_t i = from; i < group.to; i++) {
        const char *rest = names[i] + group.depth;
        size_t length = bn_utf8_length(rest, strlen(rest));
        if (i == from || memcmp(names[i - 1] + group.depth, rest, length) != 0)
            bn_buf_printf(out, "\\U%08X", bn_utf8_point(rest, length));
    }
    bn_buf_printf(out, "] plain* \"\\\"\"%s\n", ends ? "" : " | \"\\\"\"");
    return bn_buf_check(out, s->err);
}

/* A name that no declared member has, with its quotes. */
static bn_status put_other_name(struct bn_schema *s, const struct object *o, struct bn_buf *e)
{
    const char **names = bn_alloc(o->n_named, sizeof *names);
    struct name_group *queue = NULL;
    size_t n_names = 0, n_queue = 1, room = 0;
    if (names == NULL) return bn_nomem(s->err);
    for (size_t i = 0; i < o->n_named; i++)
        if (is_plain(o->list[i].name)) names[n_names++] = o->list[i].name;
    if (n_names == 0) {
        bn_free(names);
        bn_buf_puts(e, o->n_named == 0 ? "string" : "(\"\\\"\" plain* \"\\\"\")");
        return BN_OK;
    }
    qsort(names, n_names, sizeof *names, by_text);
    uint32_t first = bn_schema_new_rule(s);
    bn_status status = bn_array_grow(&queue, &room, 1, sizeof *queue, s->err);
    if (status == BN_OK) queue[0] = (struct name_group){0, n_names, 0};
    for (size_t i = 0; i < n_queue && status == BN_OK; i++)
        status = put_group(s, names, queue[i], first, &queue, &n_queue, &room, i);
    bn_free(names);
    bn_free(queue);
    bn_buf_printf(e, "(\"\\\"\" n%u-0)", first);
    return status;
}

/* ---- objects ---- */

/* Appends the name, the colon and the value. */
static bn_status put_member(struct bn_schema *s, const struct member *m, struct bn_buf *e)
{
    struct bn_buf name = {.max = BN_GRAMMAR_MAX_BYTES};
    char place[sizeof s->place];
    bn_json_write_string(&name, m->name);
    bn_status status = bn_buf_check(&name, s->err);
    if (status == BN_OK) bn_schema_put_literal(e, name.data, name.len);
    bn_buf_release(&name);
    BN_TRY(status);
    bn_buf_puts(e, " \":\" " BN_SCHEMA_BLANK " ");
    if (m->schema == NULL) {
        bn_buf_puts(e, "any0");
        return BN_OK;
    }
    memcpy(place, s->place, sizeof place);
    memcpy(s->place, m->place, sizeof place);
    size_t mark = s->n_place;
    s->n_place = strlen(s->place);
    BN_TRY(bn_schema_put(s, m->schema, e));
    memcpy(s->place, place, sizeof place);
    s->n_place = mark;
    return BN_OK;
}

/* Rules for the members from i on: nothing has been written, or something. */
static bn_status put_chain(struct bn_schema *s, const struct object *o, uint32_t rule)
{
    struct bn_buf value = {.max = BN_GRAMMAR_MAX_GBNF};
    bn_status status = BN_OK;
    for (size_t i = 0; i < o->n && status == BN_OK; i++) {
        const struct member *m = &o->list[i];
        value.len = 0;
        status = put_member(s, m, &value);
        if (status == BN_OK) status = bn_buf_check(&value, s->err);
        if (status != BN_OK) break;
        bn_buf_printf(s->out, "m%u-%zu ::= %s\n", rule, i, value.data);
        bn_buf_printf(s->out, "a%u-%zu ::= m%u-%zu b%u-%zu", rule, i, rule, i, rule, i + 1);
        if (!m->required) bn_buf_printf(s->out, " | a%u-%zu", rule, i + 1);
        bn_buf_printf(s->out, "\nb%u-%zu ::= \",\" " BN_SCHEMA_BLANK " m%u-%zu b%u-%zu", rule, i, rule, i,
                      rule, i + 1);
        if (!m->required) bn_buf_printf(s->out, " | b%u-%zu", rule, i + 1);
        bn_buf_puts(s->out, "\n");
    }
    bn_buf_release(&value);
    return status;
}

static bn_status put_others(struct bn_schema *s, const struct object *o, struct bn_buf *e)
{
    bool any = true;
    BN_TRY(put_other_name(s, o, e));
    bn_buf_puts(e, " \":\" " BN_SCHEMA_BLANK " ");
    if (o->others == NULL || (bn_json_bool(o->others, &any) && any)) {
        bn_buf_puts(e, "any0");
        return BN_OK;
    }
    size_t mark = bn_schema_enter(s, "additionalProperties");
    BN_TRY(bn_schema_put(s, o->others, e));
    bn_schema_leave(s, mark);
    return BN_OK;
}

static bn_status put_end(struct bn_schema *s, const struct object *o, uint32_t rule)
{
    bool others = o->others != NULL ? !is_false(o->others) : !o->declared;
    struct bn_buf member = {.max = BN_GRAMMAR_MAX_GBNF};
    bn_status status = others ? put_others(s, o, &member) : BN_OK;
    if (status == BN_OK) status = bn_buf_check(&member, s->err);
    if (status == BN_OK && others) {
        bn_buf_printf(s->out, "o%u ::= %s\n", rule, bn_buf_text(&member));
        bn_buf_printf(s->out, "p%u ::= o%u (\",\" " BN_SCHEMA_BLANK " o%u)* " BN_SCHEMA_BLANK " \"}\"\n",
                      rule, rule, rule);
        bn_buf_printf(s->out, "a%u-%zu ::= \"}\" | p%u\n", rule, o->n, rule);
        bn_buf_printf(s->out, "b%u-%zu ::= " BN_SCHEMA_BLANK " \"}\" | \",\" " BN_SCHEMA_BLANK " p%u\n", rule,
                      o->n, rule);
    } else if (status == BN_OK) {
        bn_buf_printf(s->out, "a%u-%zu ::= \"}\"\nb%u-%zu ::= " BN_SCHEMA_BLANK " \"}\"\n", rule, o->n, rule,
                      o->n);
    }
    bn_buf_release(&member);
    return status;
}

bn_status bn_schema_put_object(struct bn_schema *s, const bn_json *schema, struct bn_buf *e)
{
    struct object o = {.others = bn_json_get(schema, "additionalProperties")};
    uint32_t rule = bn_schema_new_rule(s);
    bn_status status = BN_OK;
    if (bn_json_get(schema, "allOf") != NULL && o.others != NULL)
        status = bn_schema_refuse(s, "additionalProperties", "is not supported beside \"allOf\"");
    if (status == BN_OK) status = take_branches(s, &o, schema, BN_SCHEMA_MAX_HOPS, take_properties);
    if (status == BN_OK) status = take_branches(s, &o, schema, BN_SCHEMA_MAX_HOPS, take_required);
    if (status == BN_OK) status = part_forbidden(s, &o);
    if (status == BN_OK) status = put_chain(s, &o, rule);
    if (status == BN_OK) status = put_end(s, &o, rule);
    bn_free(o.list);
    bn_buf_printf(e, "(\"{\" " BN_SCHEMA_BLANK " a%u-0)", rule);
    return status;
}

/* ---- arrays ---- */

struct array {
    const bn_json *first, *rest; /* prefixItems; items, NULL: no more */
    size_t n_first;
    uint32_t min, max;
};

static bn_status read_array(struct bn_schema *s, const bn_json *schema, struct array *a)
{
    const bn_json *items = bn_json_get(schema, "items");
    *a = (struct array){
        .first = bn_json_get(schema, "prefixItems"), .rest = items, .max = BN_GRAMMAR_UNLIMITED};
    if (items != NULL && bn_json_kind(items) == BN_JSON_ARRAY) { /* as before draft 2020-12 */
        if (a->first != NULL) return bn_schema_refuse(s, "items", "is a list beside \"prefixItems\"");
        a->first = items;
        a->rest = NULL;
    }
    if (a->first != NULL && bn_json_kind(a->first) != BN_JSON_ARRAY)
        return bn_schema_refuse(s, "prefixItems", "is not a list of schemas");
    a->n_first = a->first != NULL ? bn_json_size(a->first) : 0;
    BN_TRY(bn_schema_count(s, schema, "minItems", &a->min));
    BN_TRY(bn_schema_count(s, schema, "maxItems", &a->max));
    if (is_false(a->rest)) a->rest = NULL;
    bool closed = a->rest == NULL && (a->first != NULL || items != NULL);
    if (closed && a->n_first < a->max) a->max = (uint32_t)a->n_first;
    return a->min <= a->max ? BN_OK : bn_schema_refuse(s, "minItems", "is more than the array can have");
}

/* Rules q<rule>-i: the array from element i on, up to its bracket. */
static bn_status put_first(struct bn_schema *s, const struct array *a, uint32_t rule)
{
    const bn_json *v = a->n_first > 0 ? bn_json_first(a->first) : NULL;
    for (size_t i = 0; i < a->n_first && i < a->max; i++, v = bn_json_next(v)) {
        struct bn_buf element = {.max = BN_GRAMMAR_MAX_GBNF};
        char place[40];
        snprintf(place, sizeof place, "prefixItems/%zu", i);
        size_t mark = bn_schema_enter(s, place);
        bn_status status = bn_schema_put(s, v, &element);
        if (status == BN_OK) status = bn_buf_check(&element, s->err);
        bn_schema_leave(s, mark);
        bn_buf_printf(s->out, "q%u-%zu ::= %s%s q%u-%zu", rule, i, i > 0 ? "\",\" " BN_SCHEMA_BLANK " " : "",
                      bn_buf_text(&element), rule, i + 1);
        bn_buf_printf(s->out, "%s\n", i >= a->min ? i > 0 ? " | " BN_SCHEMA_BLANK " \"]\"" : " | \"]\"" : "");
        bn_buf_release(&element);
        BN_TRY(status);
    }
    return BN_OK;
}

static void put_count(struct bn_buf *out, uint32_t min, uint32_t max)
{
    if (max == BN_GRAMMAR_UNLIMITED)
        bn_buf_printf(out, "{%u,}", min);
    else
        bn_buf_printf(out, "{%u,%u}", min, max);
}

/* The rule after the first ones: any number of equal elements. */
static bn_status put_rest(struct bn_schema *s, const struct array *a, uint32_t rule)
{
    size_t done = bn_min_size(a->n_first, a->max);
    uint32_t max = a->max == BN_GRAMMAR_UNLIMITED ? a->max : a->max - (uint32_t)done,
             min = a->min > done ? a->min - (uint32_t)done : 0;
    struct bn_buf item = {.max = 64};
    bn_status status = BN_OK;
    size_t mark = bn_schema_enter(s, "items");
    if (a->rest == NULL || max == 0)
        bn_buf_puts(&item, "any0");
    else
        status = bn_schema_put_rule(s, a->rest, &item);
    bn_schema_leave(s, mark);
    bn_buf_printf(s->out, "q%u-%zu ::= ", rule, done);
    const char *name = bn_buf_text(&item), *end = BN_SCHEMA_BLANK " \"]\"\n";
    if (max == 0) {
        bn_buf_puts(s->out, done > 0 ? end : "\"]\"\n");
    } else if (done > 0) {
        bn_buf_printf(s->out, "(\",\" " BN_SCHEMA_BLANK " %s)", name);
        put_count(s->out, min, max);
        bn_buf_printf(s->out, " %s", end);
    } else {
        bn_buf_printf(s->out, "%s%s (\",\" " BN_SCHEMA_BLANK " %s)", min == 0 ? "\"]\" | " : "", name, name);
        put_count(s->out, min > 0 ? min - 1 : 0, max == BN_GRAMMAR_UNLIMITED ? max : max - 1);
        bn_buf_printf(s->out, " %s", end);
    }
    bn_buf_release(&item);
    return status;
}

bn_status bn_schema_put_array(struct bn_schema *s, const bn_json *schema, struct bn_buf *e)
{
    struct array a;
    uint32_t rule = bn_schema_new_rule(s);
    BN_TRY(read_array(s, schema, &a));
    BN_TRY(put_first(s, &a, rule));
    BN_TRY(put_rest(s, &a, rule));
    bn_buf_printf(e, "(\"[\" " BN_SCHEMA_BLANK " q%u-0)", rule);
    return BN_OK;
}
