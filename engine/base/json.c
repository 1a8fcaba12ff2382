/* SPDX-License-Identifier: MIT
 *
 * The tree of JSON values: reading it from text, access, building. cJSON holds the tree; what it does not
 * check is checked before (json_scan.c) and after it (duplicate names, numbers that are not finite). Only its
 * case-sensitive look-ups are used. Its hooks, which belong to the whole process, are left as they are.
 */
#include "base/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"

#define EXACT 9007199254740992.0 /* 2^53: below it, every whole number is itself */
#define EXACT_U64 (UINT64_C(1) << 53)

/* ---- checking the tree ---- */

static bn_status check_names(const bn_json *object, bn_error *err)
{
    size_t n;
    const bn_json **members = bn_json_sorted(object, &n);
    if (members == NULL) return bn_nomem(err);
    bn_status status = BN_OK;
    for (size_t i = 1; i < n && status == BN_OK; i++) {
        const char *name = bn_json_name(members[i]);
        if (strcmp(bn_json_name(members[i - 1]), name) == 0)
            status = bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name, "duplicate name");
    }
    bn_free(members);
    return status;
}

static bn_status check_tree(const cJSON *value, bn_error *err)
{
    if (cJSON_IsNumber(value) && !isfinite(value->valuedouble))
        return bn_fail(err, BN_ERR_FORMAT, "number out of the range of binary64");
    if (cJSON_IsObject(value)) BN_TRY(check_names((const bn_json *)value, err));
    for (const cJSON *child = value->child; child != NULL; child = child->next)
        BN_TRY(check_tree(child, err));
    return BN_OK;
}

/* ---- reading ---- */

bn_status bn_json_parse_within(bn_json **out, const char *text, size_t n, size_t max_tree, bn_error *err)
{
    *out = NULL;
    BN_TRY(bn_json_check(text, n, max_tree, err));
    cJSON *root = cJSON_ParseWithLength(text, n);
    if (root == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for %zu bytes of JSON", n);
    bn_status status = check_tree(root, err);
    if (status != BN_OK) {
        cJSON_Delete(root);
        return status;
    }
    *out = (bn_json *)root;
    return BN_OK;
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

void bn_json_free(bn_json *root)
{
    cJSON_Delete((cJSON *)root);
}

enum bn_json_kind bn_json_kind(const bn_json *value)
{
    const cJSON *v = (const cJSON *)value;
    if (cJSON_IsBool(v)) return BN_JSON_BOOL;
    if (cJSON_IsNumber(v)) return BN_JSON_NUMBER;
    if (cJSON_IsString(v)) return BN_JSON_STRING;
    if (cJSON_IsArray(v)) return BN_JSON_ARRAY;
    return cJSON_IsObject(v) ? BN_JSON_OBJECT : BN_JSON_NULL;
}

static const bn_json *get(const bn_json *value, const char *name, size_t n)
{
    if (!cJSON_IsObject((const cJSON *)value)) return NULL;
    for (const cJSON *m = ((const cJSON *)value)->child; m != NULL; m = m->next)
        if (strncmp(m->string, name, n) == 0 && m->string[n] == '\0') return (const bn_json *)m;
    return NULL;
}

const bn_json *bn_json_get(const bn_json *value, const char *name)
{
    return get(value, name, strlen(name));
}

const bn_json *bn_json_path(const bn_json *value, const char *path)
{
    for (;;) {
        size_t n = strcspn(path, ".");
        value = get(value, path, n);
        if (value == NULL || path[n] == '\0') return value;
        path += n + 1;
    }
}

size_t bn_json_size(const bn_json *value)
{
    size_t n = 0;
    for (const bn_json *m = bn_json_first(value); m != NULL; m = bn_json_next(m))
        n++;
    return n;
}

const bn_json *bn_json_at(const bn_json *value, size_t i)
{
    const bn_json *m = bn_json_first(value);
    while (m != NULL && i-- > 0)
        m = bn_json_next(m);
    return m;
}

const bn_json *bn_json_first(const bn_json *value)
{
    return value == NULL ? NULL : (const bn_json *)((const cJSON *)value)->child;
}

const bn_json *bn_json_next(const bn_json *value)
{
    return value == NULL ? NULL : (const bn_json *)((const cJSON *)value)->next;
}

const char *bn_json_name(const bn_json *member)
{
    return member == NULL ? NULL : ((const cJSON *)member)->string;
}

bool bn_json_string(const bn_json *value, const char **out)
{
    if (!cJSON_IsString((const cJSON *)value)) return false;
    *out = ((const cJSON *)value)->valuestring;
    return true;
}

bool bn_json_number(const bn_json *value, double *out)
{
    if (!cJSON_IsNumber((const cJSON *)value)) return false;
    *out = ((const cJSON *)value)->valuedouble;
    return true;
}

bool bn_json_u64(const bn_json *value, uint64_t *out)
{
    double number;
    if (!bn_json_number(value, &number) || !(number >= 0 && number < EXACT)) return false;
    uint64_t whole = (uint64_t)number;
    if ((double)whole < number) return false;
    *out = whole;
    return true;
}

bool bn_json_bool(const bn_json *value, bool *out)
{
    if (!cJSON_IsBool((const cJSON *)value)) return false;
    *out = cJSON_IsTrue((const cJSON *)value);
    return true;
}

/* ---- building ---- */

/* A bit of cJSON's type, above those that it uses: memory was short for a member or an element of this value.
 */
#define INCOMPLETE (1 << 16)

/* Takes item over, which may be NULL when memory was short. */
static bn_json *put(bn_json *parent, const char *name, cJSON *item)
{
    bool ok = item != NULL;
    if (ok && parent != NULL && name != NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive((cJSON *)parent, name);
        ok = cJSON_AddItemToObject((cJSON *)parent, name, item);
    } else if (ok && parent != NULL) {
        ok = cJSON_AddItemToArray((cJSON *)parent, item);
    }
    if (!ok && parent != NULL) ((cJSON *)parent)->type |= INCOMPLETE;
    if (ok && parent != NULL) return (bn_json *)item;
    cJSON_Delete(item);
    return NULL;
}

bn_json *bn_json_new_object(void)
{
    return (bn_json *)cJSON_CreateObject();
}

bn_json *bn_json_new_array(void)
{
    return (bn_json *)cJSON_CreateArray();
}

bn_json *bn_json_put_object(bn_json *object, const char *name)
{
    return object == NULL ? NULL : put(object, name, cJSON_CreateObject());
}

bn_json *bn_json_put_array(bn_json *object, const char *name)
{
    return object == NULL ? NULL : put(object, name, cJSON_CreateArray());
}

static cJSON *number_of_u64(uint64_t value)
{
    if (value < EXACT_U64) return cJSON_CreateNumber((double)value);
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return cJSON_CreateString(digits);
}

static cJSON *number_of_double(double value)
{
    return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
}

static cJSON *text_of(const char *value)
{
    return value == NULL ? cJSON_CreateNull() : cJSON_CreateString(value);
}

void bn_json_put_string(bn_json *object, const char *name, const char *value)
{
    if (object != NULL) put(object, name, text_of(value));
}

void bn_json_put_u64(bn_json *object, const char *name, uint64_t value)
{
    if (object != NULL) put(object, name, number_of_u64(value));
}

void bn_json_put_number(bn_json *object, const char *name, double value)
{
    if (object != NULL) put(object, name, number_of_double(value));
}

void bn_json_put_f32(bn_json *object, const char *name, float value)
{
    char text[40];
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
    while (strtof(text, NULL) != value && digits++ < 9);
    bn_json_put_number(object, name, strtod(text, NULL));
}

void bn_json_put_bool(bn_json *object, const char *name, bool value)
{
    if (object != NULL) put(object, name, cJSON_CreateBool(value));
}

void bn_json_put_null(bn_json *object, const char *name)
{
    if (object != NULL) put(object, name, cJSON_CreateNull());
}

void bn_json_put_text(bn_json *object, const char *name, const char *text)
{
    bn_json_put_string(object, name, text != NULL && text[0] != '\0' ? text : NULL);
}

void bn_json_put_count(bn_json *object, const char *name, uint64_t n)
{
    if (object != NULL) put(object, name, n != 0 ? number_of_u64(n) : cJSON_CreateNull());
}

void bn_json_put_texts(bn_json *object, const char *name, const char *const *texts, size_t n)
{
    bn_json *array = bn_json_put_array(object, name);
    for (size_t i = 0; i < n; i++)
        bn_json_add_string(array, texts[i]);
}

void bn_json_put_ids(bn_json *object, const char *name, const int32_t *ids, size_t n)
{
    bn_json *array = bn_json_put_array(object, name);
    for (size_t i = 0; i < n; i++)
        bn_json_add_u64(array, (uint64_t)ids[i]);
}

void bn_json_put_numbers(bn_json *object, const char *name, const double *numbers, size_t n)
{
    bn_json *array = bn_json_put_array(object, name);
    for (size_t i = 0; i < n; i++)
        bn_json_add_number(array, numbers[i]);
}

void bn_json_put_unavailable(bn_json *object, const char *name, const char *reason)
{
    if (object == NULL) return;
    cJSON *reasons = cJSON_GetObjectItemCaseSensitive((cJSON *)object, "unavailable");
    bn_json *why = reasons != NULL ? (bn_json *)reasons : bn_json_put_object(object, "unavailable");
    bn_json_put_null(object, name);
    bn_json_put_string(why, name, reason);
}

void bn_json_put_finite(bn_json *object, const char *name, double value, const char *reason)
{
    if (isfinite(value))
        bn_json_put_number(object, name, value);
    else
        bn_json_put_unavailable(object, name, reason);
}

void bn_json_put_known(bn_json *object, const char *name, const char *text, const char *reason)
{
    if (text[0] != '\0')
        bn_json_put_string(object, name, text);
    else
        bn_json_put_unavailable(object, name, reason);
}

void bn_json_put_u64s(bn_json *object, const char *name, const uint64_t *values, size_t n)
{
    bn_json *array = bn_json_put_array(object, name);
    for (size_t i = 0; i < n; i++)
        bn_json_add_u64(array, values[i]);
}

bn_json *bn_json_add_object(bn_json *array)
{
    return array == NULL ? NULL : put(array, NULL, cJSON_CreateObject());
}

bn_json *bn_json_add_array(bn_json *array)
{
    return array == NULL ? NULL : put(array, NULL, cJSON_CreateArray());
}

void bn_json_add_string(bn_json *array, const char *value)
{
    if (array != NULL) put(array, NULL, text_of(value));
}

void bn_json_add_u64(bn_json *array, uint64_t value)
{
    if (array != NULL) put(array, NULL, number_of_u64(value));
}

void bn_json_add_number(bn_json *array, double value)
{
    if (array != NULL) put(array, NULL, number_of_double(value));
}

void bn_json_put_copy(bn_json *object, const char *name, const bn_json *value)
{
    if (object != NULL && value != NULL) put(object, name, cJSON_Duplicate((const cJSON *)value, 1));
}

void bn_json_remove(bn_json *object, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive((cJSON *)object, name);
}

bool bn_json_is_complete(const bn_json *value)
{
    if (value == NULL || (((const cJSON *)value)->type & INCOMPLETE) != 0) return false;
    for (const bn_json *m = bn_json_first(value); m != NULL; m = bn_json_next(m))
        if (!bn_json_is_complete(m)) return false;
    return true;
}
