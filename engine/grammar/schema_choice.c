/* SPDX-License-Identifier: MIT
 *
 * enum and const, anyOf and oneOf, and references. The branches of oneOf must be told apart by their types, by their
 * values, or by the values of a member that all of them require: then one of them matches, as with anyOf.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "grammar/schema.h"

/* ---- values ---- */

/* From 2^53 on, a number may differ from its text in the schema. */
static bool is_exact(const bn_json *value)
{
    double x;
    bool exact = !bn_json_number(value, &x) || fabs(x) < BN_JSON_EXACT;
    for (const bn_json *v = bn_json_first(value); v != NULL && exact; v = bn_json_next(v))
        exact = is_exact(v);
    return exact;
}

static bn_status put_value(struct bn_schema *s, const bn_json *value, struct bn_buf *e)
{
    struct bn_buf text = {.max = BN_GRAMMAR_MAX_BYTES};
    bn_status status = bn_json_write(value, true, &text, s->err);
    if (status == BN_OK) bn_schema_put_literal(e, text.data, text.len);
    bn_buf_release(&text);
    return status;
}

bn_status bn_schema_put_values(struct bn_schema *s, const bn_json *schema, struct bn_buf *e)
{
    const bn_json *only = bn_json_get(schema, "const"), *list = bn_json_get(schema, "enum");
    unsigned types = BN_TYPE_ANY;
    const char *before = "(", *keyword = only != NULL ? "const" : "enum";
    if (bn_json_get(schema, "type") != NULL) BN_TRY(bn_schema_types(s, schema, &types));
    if (only == NULL && bn_json_kind(list) != BN_JSON_ARRAY)
        return bn_schema_refuse(s, "enum", "is not a list of values");
    for (const bn_json *v = only != NULL ? only : bn_json_first(list); v != NULL;
         v = only != NULL ? NULL : bn_json_next(v)) {
        if ((bn_schema_type_of(v) & types) == 0) continue;
        if (!is_exact(v))
            return bn_schema_refuse(s, keyword, "has a number that is not between -2^53 and 2^53");
        bn_buf_puts(e, before);
        BN_TRY(put_value(s, v, e));
        before = " | ";
    }
    if (before[0] == '(') return bn_schema_refuse(s, keyword, "allows no value");
    bn_buf_putc(e, ')');
    return BN_OK;
}

/* ---- references ---- */

/* The next part of a pointer, with ~0, ~1 and %XX undone; NULL at its end. */
static const char *next_part(const char *at, char *part, size_t room)
{
    size_t n = 0;
    if (*at != '/') return NULL;
    for (at++; *at != '\0' && *at != '/'; at++) {
        char c = *at;
        if (c == '~' && (at[1] == '0' || at[1] == '1')) {
            c = *++at == '0' ? '~' : '/';
        } else if (c == '%' && strspn(at + 1, "0123456789abcdefABCDEF") >= 2) {
            char digits[3] = {at[1], at[2], '\0'};
            c = (char)strtoul(digits, NULL, 16);
            at += 2;
        }
        if (n + 1 < room) part[n++] = c;
    }
    part[n] = '\0';
    return at;
}

/* The schema that a reference names. */
static bn_status find(struct bn_schema *s, const bn_json *ref, const bn_json **out)
{
    const char *text, *at;
    char part[512];
    *out = s->root;
    if (!bn_json_string(ref, &text) || text[0] != '#' || (text[1] != '\0' && text[1] != '/'))
        return bn_schema_refuse(s, "$ref", "is not a pointer inside the schema (#/...)");
    for (at = text + 1; *out != NULL && (at = next_part(at, part, sizeof part)) != NULL;) {
        bool is_list = bn_json_kind(*out) == BN_JSON_ARRAY;
        *out = is_list ? bn_json_at(*out, strtoul(part, NULL, 10)) : bn_json_get(*out, part);
    }
    return *out != NULL ? BN_OK : bn_schema_refuse(s, "$ref", "names a part that the schema does not have");
}

bn_status bn_schema_follow(struct bn_schema *s, const bn_json *schema, const bn_json **out)
{
    *out = schema;
    for (unsigned i = 0; i < BN_SCHEMA_MAX_HOPS; i++) {
        const bn_json *ref = bn_json_get(*out, "$ref");
        if (ref == NULL) return BN_OK;
        BN_TRY(bn_schema_check_alone(s, *out, "$ref", "$ref"));
        BN_TRY(find(s, ref, out));
    }
    return bn_schema_refuse(s, "$ref", "leads to itself or to too many other references");
}

bn_status bn_schema_put_ref(struct bn_schema *s, const bn_json *ref, struct bn_buf *e)
{
    const bn_json *target;
    const char *text = "";
    size_t i = 0;
    BN_TRY(find(s, ref, &target));
    while (i < s->n_refs && s->refs[i] != target)
        i++;
    bn_buf_printf(e, "r%zu", i);
    if (i < s->n_refs) return BN_OK;
    if (i == BN_SCHEMA_MAX_REFS) return bn_schema_refuse(s, "$ref", "is one of too many");
    BN_TRY(bn_array_grow(&s->refs, &s->refs_room, i + 1, sizeof *s->refs, s->err));
    BN_TRY(bn_array_grow(&s->ref_places, &s->places_room, i + 1, sizeof *s->ref_places, s->err));
    s->refs[i] = target;
    (void)bn_json_string(ref, &text);
    snprintf(s->ref_places[i], sizeof s->ref_places[i], "%s", text);
    s->n_refs++;
    return BN_OK;
}

/* ---- branches ---- */

/* All types that a value under a schema can have, through references and choices. */
static bn_status types_of(struct bn_schema *s, const bn_json *schema, unsigned hops, unsigned *types)
{
    static const char *const CHOICES[] = {"anyOf", "oneOf"};
    const bn_json *list;
    *types = BN_TYPE_ANY;
    if (hops == 0) return BN_OK;
    if (++s->n_steps > BN_SCHEMA_MAX_STEPS) return bn_schema_refuse(s, "oneOf", "is too large to compare");
    BN_TRY(bn_schema_follow(s, schema, &schema));
    if (bn_json_kind(schema) != BN_JSON_OBJECT) return BN_OK;
    if (bn_json_get(schema, "const") != NULL) {
        *types = bn_schema_type_of(bn_json_get(schema, "const"));
        return BN_OK;
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(CHOICES); i++) {
        if ((list = bn_json_get(schema, CHOICES[i])) == NULL) continue;
        *types = 0;
        for (const bn_json *v = bn_json_first(list); v != NULL; v = bn_json_next(v)) {
            unsigned one;
            BN_TRY(types_of(s, v, hops - 1, &one));
            *types |= one;
        }
        return BN_OK;
    }
    if ((list = bn_json_get(schema, "enum")) != NULL) {
        *types = 0;
        for (const bn_json *v = bn_json_first(list); v != NULL; v = bn_json_next(v))
            *types |= bn_schema_type_of(v);
        return BN_OK;
    }
    if (bn_json_get(schema, "allOf") != NULL || bn_json_get(schema, "type") == NULL) return BN_OK;
    return bn_schema_types(s, schema, types);
}

/* The values of enum or const; NULL: the schema has neither. *one: it is a single value. */
static const bn_json *values_of(const bn_json *schema, bool *one)
{
    const bn_json *only = bn_json_get(schema, "const");
    *one = only != NULL;
    return only != NULL ? only : bn_json_get(schema, "enum");
}

static bn_status same_text(struct bn_schema *s, const bn_json *a, const bn_json *b, bool *same)
{
    struct bn_buf x = {.max = BN_GRAMMAR_MAX_BYTES}, y = {.max = BN_GRAMMAR_MAX_BYTES};
    if (++s->n_steps > BN_SCHEMA_MAX_STEPS) return bn_schema_refuse(s, "oneOf", "is too large to compare");
    bn_status status = bn_json_write(a, true, &x, s->err);
    if (status == BN_OK) status = bn_json_write(b, true, &y, s->err);
    *same = status == BN_OK && strcmp(bn_buf_text(&x), bn_buf_text(&y)) == 0;
    bn_buf_release(&x);
    bn_buf_release(&y);
    return status;
}

/* Whether both have values, and none in common. */
static bn_status values_differ(struct bn_schema *s, const bn_json *a, const bn_json *b, bool *differ)
{
    bool one_a, one_b, same = false;
    const bn_json *x = values_of(a, &one_a), *y = values_of(b, &one_b);
    *differ = false;
    if (x == NULL || y == NULL) return BN_OK;
    for (const bn_json *v = one_a ? x : bn_json_first(x); v != NULL && !same;
         v = one_a ? NULL : bn_json_next(v))
        for (const bn_json *w = one_b ? y : bn_json_first(y); w != NULL && !same;
             w = one_b ? NULL : bn_json_next(w))
            BN_TRY(same_text(s, v, w, &same));
    *differ = !same;
    return BN_OK;
}

/* Whether a member that both objects require has different values in them. */
static bn_status members_differ(struct bn_schema *s, const bn_json *a, const bn_json *b, bool *differ)
{
    const bn_json *members = bn_json_get(a, "properties"), *others = bn_json_get(b, "properties");
    *differ = false;
    for (const bn_json *m = bn_json_first(members); m != NULL && !*differ; m = bn_json_next(m)) {
        const char *name = bn_json_name(m);
        const bn_json *mine, *other = bn_json_get(others, name);
        if (other == NULL || !bn_json_has_text(bn_json_get(a, "required"), name) ||
            !bn_json_has_text(bn_json_get(b, "required"), name))
            continue;
        BN_TRY(bn_schema_follow(s, m, &mine));
        BN_TRY(bn_schema_follow(s, other, &other));
        BN_TRY(values_differ(s, mine, other, differ));
    }
    return BN_OK;
}

static bn_status are_disjoint(struct bn_schema *s, const bn_json *a, const bn_json *b, bool *disjoint)
{
    unsigned types_a, types_b;
    BN_TRY(bn_schema_follow(s, a, &a));
    BN_TRY(bn_schema_follow(s, b, &b));
    BN_TRY(types_of(s, a, BN_SCHEMA_MAX_HOPS, &types_a));
    BN_TRY(types_of(s, b, BN_SCHEMA_MAX_HOPS, &types_b));
    *disjoint = (types_a & types_b) == 0;
    if (!*disjoint) BN_TRY(values_differ(s, a, b, disjoint));
    BN_TRY(bn_schema_types(s, a, &types_a)); /* that are written */
    BN_TRY(bn_schema_types(s, b, &types_b));
    if (!*disjoint && types_a == BN_TYPE_OBJECT && types_b == BN_TYPE_OBJECT)
        BN_TRY(members_differ(s, a, b, disjoint));
    return BN_OK;
}

#define MAX_BRANCHES 64u /* of oneOf: all pairs are compared */

static bn_status check_disjoint(struct bn_schema *s, const bn_json *list)
{
    char what[100];
    size_t i = 0;
    if (bn_json_size(list) > MAX_BRANCHES) return bn_schema_refuse(s, "oneOf", "has more than 64 branches");
    for (const bn_json *a = bn_json_first(list); a != NULL; a = bn_json_next(a), i++) {
        size_t k = i + 1;
        for (const bn_json *b = bn_json_next(a); b != NULL; b = bn_json_next(b), k++) {
            bool disjoint;
            BN_TRY(are_disjoint(s, a, b, &disjoint));
            if (disjoint) continue;
            snprintf(what, sizeof what,
                     "is supported only when its branches exclude each other; %zu and %zu do not", i, k);
            return bn_schema_refuse(s, "oneOf", what);
        }
    }
    return BN_OK;
}

bn_status bn_schema_put_choice(struct bn_schema *s, const bn_json *schema, const char *keyword,
                               struct bn_buf *e)
{
    const bn_json *list = bn_json_get(schema, keyword);
    char branch[40];
    size_t i = 0;
    if (bn_json_kind(list) != BN_JSON_ARRAY || bn_json_size(list) == 0)
        return bn_schema_refuse(s, keyword, "is not a list of schemas");
    if (strcmp(keyword, "oneOf") == 0) BN_TRY(check_disjoint(s, list));
    for (const bn_json *v = bn_json_first(list); v != NULL; v = bn_json_next(v), i++) {
        snprintf(branch, sizeof branch, "%s/%zu", keyword, i);
        bn_buf_puts(e, i == 0 ? "(" : " | ");
        size_t mark = bn_schema_enter(s, branch);
        BN_TRY(bn_schema_put_rule(s, v, e));
        bn_schema_leave(s, mark);
    }
    bn_buf_putc(e, ')');
    return BN_OK;
}
