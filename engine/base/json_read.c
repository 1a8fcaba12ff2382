/* SPDX-License-Identifier: MIT
 *
 * JSON for readers of documents whose members may be missing or of another kind: each function has a value
 * for that case. Where the difference matters, json.c has the strict forms.
 */
#include "base/json.h"

#include <math.h>
#include <string.h>

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
