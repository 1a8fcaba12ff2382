/* SPDX-License-Identifier: MIT
 *
 * Compares a document with a JSON schema of ci/schemas, for tests of receipts.
 */
#ifndef BN_TESTS_RECEIPT_SCHEMA_H
#define BN_TESTS_RECEIPT_SCHEMA_H

#include "base/json.h"
#include "tests/unit/unit.h"

static inline bool is_kind(const char *type, const bn_json *value)
{
    uint64_t whole;
    enum bn_json_kind kind = bn_json_kind(value);
    return (strcmp(type, "null") == 0 && kind == BN_JSON_NULL) ||
           (strcmp(type, "boolean") == 0 && kind == BN_JSON_BOOL) ||
           (strcmp(type, "string") == 0 && kind == BN_JSON_STRING) ||
           (strcmp(type, "number") == 0 && kind == BN_JSON_NUMBER) ||
           (strcmp(type, "integer") == 0 && bn_json_u64(value, &whole)) ||
           (strcmp(type, "array") == 0 && kind == BN_JSON_ARRAY) ||
           (strcmp(type, "object") == 0 && kind == BN_JSON_OBJECT);
}

static inline void complain(const char *path, const char *what)
{
    print_message("%s %s\n", path, what);
    fail();
}

/* The part of JSON Schema that ci/schemas uses: type, const, enum, pattern of a digest, properties, required,
 * additionalProperties, items. */
static inline void conforms(const bn_json *schema, const bn_json *value, const char *path)
{
    const char *text = NULL, *other = NULL;
    char longer[200];
    const bn_json *type = bn_json_get(schema, "type");
    bool ok = type == NULL || (bn_json_string(type, &text) && is_kind(text, value));
    for (const bn_json *t = bn_json_kind(type) == BN_JSON_ARRAY ? bn_json_first(type) : NULL; t != NULL;
         t = bn_json_next(t))
        ok = ok || (bn_json_string(t, &text) && is_kind(text, value));
    if (!ok) complain(path, "has another type");
    if (bn_json_string(bn_json_get(schema, "const"), &text) &&
        (!bn_json_string(value, &other) || strcmp(text, other) != 0))
        complain(path, "has another value");
    const bn_json *values = bn_json_get(schema, "enum");
    ok = values == NULL;
    for (const bn_json *e = bn_json_first(values); e != NULL; e = bn_json_next(e))
        ok = ok || (bn_json_string(e, &text) && bn_json_string(value, &other) && strcmp(text, other) == 0);
    if (!ok) complain(path, "is none of the values");
    if (bn_json_get(schema, "pattern") != NULL && bn_json_string(value, &text) &&
        (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64))
        complain(path, "is not a digest");
    const bn_json *items = bn_json_get(schema, "items"), *properties = bn_json_get(schema, "properties");
    for (const bn_json *e = items == NULL ? NULL : bn_json_first(value); e != NULL; e = bn_json_next(e)) {
        snprintf(longer, sizeof longer, "%.180s[]", path);
        conforms(items, e, longer);
    }
    for (const bn_json *m = properties == NULL ? NULL : bn_json_first(value); m != NULL;
         m = bn_json_next(m)) {
        snprintf(longer, sizeof longer, "%.100s.%.80s", path, bn_json_name(m));
        const bn_json *property = bn_json_get(properties, bn_json_name(m));
        if (property == NULL) complain(longer, "is not in the schema");
        conforms(property, m, longer);
    }
    for (const bn_json *r = bn_json_first(bn_json_get(schema, "required")); r != NULL; r = bn_json_next(r)) {
        assert_true(bn_json_string(r, &text));
        snprintf(longer, sizeof longer, "%.100s.%.80s", path, text);
        if (bn_json_get(value, text) == NULL) complain(longer, "is missing");
    }
}

static inline bn_json *load(const char *path)
{
    bn_json *root;
    assert_int_equal(bn_json_read_file(&root, path, NULL), BN_OK);
    return root;
}

#endif
