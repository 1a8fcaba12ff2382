/* SPDX-License-Identifier: MIT
 *
 * The tree of JSON values: access and building. json_scan.c reads one from text.
 */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_tree.h"

#define EXACT 9007199254740992.0 /* 2^53: below it, every whole number is itself */
#define EXACT_U64 (UINT64_C(1) << 53)

bn_json *bn_json_new(enum bn_json_kind kind)
{
    bn_json *value = bn_alloc(1, sizeof *value);
    if (value != NULL) value->kind = kind;
    return value;
}

void bn_json_append(bn_json *parent, bn_json *value)
{
    if (parent->last == NULL)
        parent->child = value;
    else
        parent->last->next = value;
    parent->last = value;
}

void bn_json_free(bn_json *root)
{
    if (root == NULL) return;
    for (bn_json *m = root->child, *next; m != NULL; m = next) {
        next = m->next;
        bn_json_free(m);
    }
    bn_free(root->name);
    bn_free(root->text);
    bn_free(root);
}

/* ---- reading ---- */

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

/* ---- access ---- */

enum bn_json_kind bn_json_kind(const bn_json *value)
{
    return value == NULL ? BN_JSON_NULL : value->kind;
}

static const bn_json *get(const bn_json *value, const char *name, size_t n)
{
    if (bn_json_kind(value) != BN_JSON_OBJECT) return NULL;
    for (const bn_json *m = value->child; m != NULL; m = m->next)
        if (strncmp(m->name, name, n) == 0 && m->name[n] == '\0') return m;
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
    return value == NULL ? NULL : value->child;
}

const bn_json *bn_json_next(const bn_json *value)
{
    return value == NULL ? NULL : value->next;
}

const char *bn_json_name(const bn_json *member)
{
    return member == NULL ? NULL : member->name;
}

bool bn_json_string(const bn_json *value, const char **out)
{
    if (bn_json_kind(value) != BN_JSON_STRING) return false;
    *out = value->text;
    return true;
}

bool bn_json_number(const bn_json *value, double *out)
{
    if (bn_json_kind(value) != BN_JSON_NUMBER) return false;
    *out = value->number;
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
    if (bn_json_kind(value) != BN_JSON_BOOL) return false;
    *out = value->yes;
    return true;
}

/* ---- building ---- */

void bn_json_remove(bn_json *object, const char *name)
{
    bn_json *before = NULL, *m = object == NULL ? NULL : object->child;
    for (; m != NULL && strcmp(m->name, name) != 0; m = m->next)
        before = m;
    if (m == NULL) return;
    if (before == NULL)
        object->child = m->next;
    else
        before->next = m->next;
    if (object->last == m) object->last = before;
    bn_json_free(m);
}

/* Takes value over, which may be NULL when memory was short. */
static bn_json *put(bn_json *parent, const char *name, bn_json *value)
{
    if (value != NULL && name != NULL) {
        bn_json_remove(parent, name);
        value->name = bn_strndup(name, strlen(name));
    }
    if (value == NULL || (name != NULL && value->name == NULL)) {
        bn_json_free(value);
        parent->incomplete = true;
        return NULL;
    }
    bn_json_append(parent, value);
    return value;
}

bn_json *bn_json_new_object(void)
{
    return bn_json_new(BN_JSON_OBJECT);
}

bn_json *bn_json_new_array(void)
{
    return bn_json_new(BN_JSON_ARRAY);
}

bn_json *bn_json_put_object(bn_json *object, const char *name)
{
    return object == NULL ? NULL : put(object, name, bn_json_new(BN_JSON_OBJECT));
}

bn_json *bn_json_put_array(bn_json *object, const char *name)
{
    return object == NULL ? NULL : put(object, name, bn_json_new(BN_JSON_ARRAY));
}

static bn_json *text_of(const char *text)
{
    bn_json *value = bn_json_new(text == NULL ? BN_JSON_NULL : BN_JSON_STRING);
    if (value == NULL || text == NULL) return value;
    value->text = bn_strndup(text, strlen(text));
    if (value->text != NULL) return value;
    bn_json_free(value);
    return NULL;
}

static bn_json *number_of_double(double number)
{
    bn_json *value = bn_json_new(isfinite(number) ? BN_JSON_NUMBER : BN_JSON_NULL);
    if (value != NULL) value->number = number;
    return value;
}

static bn_json *number_of_u64(uint64_t number)
{
    if (number < EXACT_U64) return number_of_double((double)number);
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    return text_of(digits);
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
    bn_json *yes = object == NULL ? NULL : put(object, name, bn_json_new(BN_JSON_BOOL));
    if (yes != NULL) yes->yes = value;
}

void bn_json_put_null(bn_json *object, const char *name)
{
    if (object != NULL) put(object, name, bn_json_new(BN_JSON_NULL));
}

void bn_json_put_text(bn_json *object, const char *name, const char *text)
{
    bn_json_put_string(object, name, text != NULL && text[0] != '\0' ? text : NULL);
}

void bn_json_put_count(bn_json *object, const char *name, uint64_t n)
{
    if (object != NULL) put(object, name, n != 0 ? number_of_u64(n) : bn_json_new(BN_JSON_NULL));
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
    bn_json *why = object->child;
    while (why != NULL && strcmp(why->name, "unavailable") != 0)
        why = why->next;
    if (why == NULL) why = bn_json_put_object(object, "unavailable");
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
    return array == NULL ? NULL : put(array, NULL, bn_json_new(BN_JSON_OBJECT));
}

bn_json *bn_json_add_array(bn_json *array)
{
    return array == NULL ? NULL : put(array, NULL, bn_json_new(BN_JSON_ARRAY));
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

static bn_json *copy_of(const bn_json *value)
{
    bn_json *copy = value->kind == BN_JSON_STRING ? text_of(value->text) : bn_json_new(value->kind);
    if (copy == NULL) return NULL;
    copy->number = value->number;
    copy->yes = value->yes;
    copy->incomplete = value->incomplete;
    for (const bn_json *m = value->child; m != NULL; m = m->next)
        (void)put(copy, m->name, copy_of(m));
    return copy;
}

void bn_json_put_copy(bn_json *object, const char *name, const bn_json *value)
{
    if (object != NULL && value != NULL) put(object, name, copy_of(value));
}

bool bn_json_is_complete(const bn_json *value)
{
    if (value == NULL || value->incomplete) return false;
    for (const bn_json *m = bn_json_first(value); m != NULL; m = bn_json_next(m))
        if (!bn_json_is_complete(m)) return false;
    return true;
}
