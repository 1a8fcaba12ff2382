/* SPDX-License-Identifier: MIT
 *
 * The tree of JSON values: access and building. json_scan.c reads one from text, json_write.c writes it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"

bn_json *bn_json_new(enum bn_json_kind kind)
{
    bn_json *value = bn_alloc(1, sizeof *value);
    if (value != NULL) value->kind = kind;
    return value;
}

bn_json *bn_json_append(bn_json *parent, bn_json *value)
{
    if (value == NULL) return NULL;
    *(parent->last == NULL ? &parent->child : &parent->last->next) = value;
    return parent->last = value;
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
    if (!bn_json_number(value, &number) || !(number >= 0 && number < BN_JSON_EXACT)) return false;
    uint64_t whole = (uint64_t)number;
    if ((double)whole < number) return false;
    *out = whole;
    return true;
}

bool bn_json_bool(const bn_json *value, bool *out)
{
    if (bn_json_kind(value) != BN_JSON_BOOL) return false;
    *out = value->number != 0;
    return true;
}

/* ---- access with a value for what is missing or of another kind ---- */

const char *bn_json_text_of(const bn_json *object, const char *path)
{
    const char *text = "";
    (void)bn_json_string(bn_json_path(object, path), &text);
    return text;
}

double bn_json_number_of(const bn_json *object, const char *path)
{
    double value = (double)NAN;
    (void)bn_json_number(bn_json_path(object, path), &value);
    return value;
}

size_t bn_json_count_of(const bn_json *object, const char *path)
{
    uint64_t value = 0;
    (void)bn_json_u64(bn_json_path(object, path), &value);
    return (size_t)value;
}

bool bn_json_flag_of(const bn_json *object, const char *path)
{
    bool value = false;
    (void)bn_json_bool(bn_json_path(object, path), &value);
    return value;
}

bool bn_json_text_is(const bn_json *object, const char *path, const char *text)
{
    return strcmp(bn_json_text_of(object, path), text) == 0;
}

const bn_json *bn_json_find(const bn_json *array, const char *member, const char *text)
{
    const bn_json *e = bn_json_first(array);
    while (e != NULL && !bn_json_text_is(e, member, text))
        e = bn_json_next(e);
    return e;
}

bool bn_json_has_text(const bn_json *array, const char *text)
{
    const char *element;
    for (const bn_json *e = bn_json_first(array); e != NULL; e = bn_json_next(e))
        if (bn_json_string(e, &element) && strcmp(element, text) == 0) return true;
    return false;
}

bn_status bn_json_ids(const bn_json *list, int32_t **ids, size_t *n_ids, bn_error *err)
{
    size_t n = 0;
    uint64_t id = 0;
    if (bn_json_kind(list) != BN_JSON_ARRAY) return bn_fail(err, BN_ERR_FORMAT, "is not a list of tokens");
    int32_t *out = bn_alloc(bn_json_size(list), sizeof *out);
    if (out == NULL) return bn_nomem(err);
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e)) {
        if (!bn_json_u64(e, &id) || id > INT32_MAX) {
            bn_free(out);
            return bn_fail(err, BN_ERR_FORMAT, "has a token that is not an id");
        }
        out[n++] = (int32_t)id;
    }
    *ids = out;
    *n_ids = n;
    return BN_OK;
}

/* ---- building ---- */

/* Where the pointer to a member is, or would be. */
static bn_json **member(bn_json *object, const char *name)
{
    bn_json **at = object == NULL ? NULL : &object->child;
    while (at != NULL && *at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

void bn_json_remove(bn_json *object, const char *name)
{
    bn_json **at = member(object, name), *gone = at == NULL ? NULL : *at;
    if (gone == NULL) return;
    *at = gone->next;
    if (object->last == gone)
        for (object->last = object->child; object->last != NULL && object->last->next != NULL;)
            object->last = object->last->next;
    bn_json_free(gone);
}

/* Takes value over, which may be NULL when memory was short. */
static bn_json *put_value(bn_json *parent, const char *name, bn_json *value)
{
    if (value != NULL && name != NULL) {
        bn_json_remove(parent, name);
        value->name = bn_strndup(name, strlen(name));
    }
    if (value != NULL && (name == NULL || value->name != NULL)) return bn_json_append(parent, value);
    parent->incomplete = true;
    bn_json_free(value);
    return NULL;
}

/* Without a parent no value is made. */
#define put(parent, name, value) ((parent) == NULL ? NULL : put_value(parent, name, value))

bn_json *bn_json_put_new(bn_json *parent, const char *name, enum bn_json_kind kind)
{
    return put(parent, name, bn_json_new(kind));
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

static bn_json *number_value(enum bn_json_kind kind, double number)
{
    bn_json *value = bn_json_new(isfinite(number) ? kind : BN_JSON_NULL);
    if (value != NULL) value->number = number;
    return value;
}

static bn_json *number_of_double(double number)
{
    return number_value(BN_JSON_NUMBER, number);
}

static bn_json *number_of_u64(uint64_t number)
{
    char digits[24];
    if (number < (uint64_t)BN_JSON_EXACT) return number_of_double((double)number);
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    return text_of(digits);
}

void bn_json_put_string(bn_json *object, const char *name, const char *value)
{
    (void)put(object, name, text_of(value));
}

void bn_json_put_u64(bn_json *object, const char *name, uint64_t value)
{
    (void)put(object, name, number_of_u64(value));
}

void bn_json_put_number(bn_json *object, const char *name, double value)
{
    (void)put(object, name, number_of_double(value));
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
    (void)put(object, name, number_value(BN_JSON_BOOL, value));
}

void bn_json_put_text(bn_json *object, const char *name, const char *text)
{
    bn_json_put_string(object, name, text != NULL && text[0] != '\0' ? text : NULL);
}

void bn_json_put_count(bn_json *object, const char *name, uint64_t n)
{
    (void)put(object, name, n != 0 ? number_of_u64(n) : text_of(NULL));
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
    bn_json **reasons = member(object, "unavailable");
    bn_json *why = reasons != NULL && *reasons != NULL ? *reasons : bn_json_put_object(object, "unavailable");
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

static bn_json *copy_of(const bn_json *value)
{
    bn_json *copy = value->text != NULL ? text_of(value->text) : number_value(value->kind, value->number);
    if (copy == NULL) return NULL;
    copy->incomplete = value->incomplete;
    for (const bn_json *m = value->child; m != NULL; m = m->next)
        (void)put(copy, m->name, copy_of(m));
    return copy;
}

void bn_json_put_copy(bn_json *object, const char *name, const bn_json *value)
{
    if (value != NULL) (void)put(object, name, copy_of(value));
}

bool bn_json_is_complete(const bn_json *value)
{
    if (value == NULL || value->incomplete) return false;
    for (const bn_json *m = value->child; m != NULL; m = m->next)
        if (!bn_json_is_complete(m)) return false;
    return true;
}
