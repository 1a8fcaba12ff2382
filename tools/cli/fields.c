/* SPDX-License-Identifier: MIT
 *
 * Reads the values of a command's options and puts them into its struct (bn_option.to), before it runs. Also reads
 * numbers strictly, and writes binary32 numbers.
 */
#define _GNU_SOURCE /* strtod_l: a locale set by a library must not move the decimal point */
#include "tools/cli/fields.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "tools/cli/number.h"
#include "tools/cli/table.h"

/* ---- values ---- */

const struct bn_value *bn_fields_value(const struct bn_args *args, const struct bn_option *o)
{
    for (size_t i = args->n_values; i > 0; i--)
        if (args->values[i - 1].option->name == o->name) return &args->values[i - 1];
    return NULL;
}

/* The text of the last value, else the preset, else NULL. */
static const char *text_of(const struct bn_args *args, const struct bn_option *o)
{
    const struct bn_value *v = bn_fields_value(args, o);
    return v != NULL ? v->text : o->preset;
}

static void *field_of(struct bn_args *args, const struct bn_option *o)
{
    return (unsigned char *)(o->shared ? args : args->fields) + o->at;
}

static bool sets(const struct bn_args *args, const struct bn_option *o, const void *field)
{
    const void *base = o->shared ? args : args->fields;
    return o->to != BN_FIELD_NONE && (const unsigned char *)base + o->at == (const unsigned char *)field;
}

/* The option that sets a field: the one that was given last, else the first one of the table. */
static const struct bn_option *setter(const struct bn_args *args, const void *field,
                                      const struct bn_value **v)
{
    for (size_t i = args->n_values; i > 0; i--) {
        *v = &args->values[i - 1];
        if (sets(args, (*v)->option, field)) return (*v)->option;
    }
    *v = NULL;
    for (size_t i = 0; i < args->n_options; i++)
        if (sets(args, args->options[i], field)) return args->options[i];
    return NULL;
}

bool bn_args_given(const struct bn_args *args, const void *field)
{
    const struct bn_value *v;
    return setter(args, field, &v) != NULL && v != NULL;
}

const char *bn_args_typed(const struct bn_args *args, const void *field, char out[BN_TYPED])
{
    const struct bn_value *v;
    const struct bn_option *o = setter(args, field, &v);
    out[0] = '\0';
    return o != NULL ? bn_fields_typed(o, v, out) : out;
}

/* ---- messages ---- */

struct bn_quoted bn_fields_quote(const char *text, size_t n)
{
    struct bn_quoted q = {.text = ""};
    bn_escape(q.text, sizeof q.text, text, n);
    return q;
}

const char *bn_fields_typed(const struct bn_option *o, const struct bn_value *v, char out[BN_TYPED])
{
    if (v != NULL && v->env != NULL)
        snprintf(out, BN_TYPED, "%s", v->env);
    else if (v != NULL && v->by_letter)
        snprintf(out, BN_TYPED, "-%c", o->letter);
    else
        snprintf(out, BN_TYPED, "--%s", o->name);
    return out;
}

/* Fails with "-t: 'x' what", or "BN_THREADS: ..." when the value is the variable's. */
static bn_status bad_value(const struct bn_args *args, const struct bn_option *o, struct bn_str text,
                           const char *what, bn_error *err)
{
    char typed[BN_TYPED];
    return bn_fail(err, BN_ERR_ARG, "%s: '%s' %s", bn_fields_typed(o, bn_fields_value(args, o), typed),
                   bn_fields_quote(text.ptr, text.len).text, what);
}

/* Fails with "-n must be between 1 and 100 (got -5)". A text that is not a number is put in quotes. */
static bn_status out_of_range(const struct bn_args *args, const struct bn_option *o, const char *range,
                              bool number, bn_error *err)
{
    char typed[BN_TYPED];
    const char *text = text_of(args, o), *mark = number ? "" : "'";
    return bn_fail(err, BN_ERR_ARG, "%s must be %s (got %s%s%s)",
                   bn_fields_typed(o, bn_fields_value(args, o), typed), range, mark,
                   bn_fields_quote(text, strlen(text)).text, mark);
}

/* ---- numbers ---- */

static bool is_whole_number(const char *text)
{
    text += text[0] == '-';
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* uint32_t, or uint64_t of BN_FIELD_U64. */
static bn_status read_whole(const struct bn_args *args, const struct bn_option *o, void *out, bn_error *err)
{
    const char *text = text_of(args, o);
    uint64_t value, min = (uint64_t)o->min, max = o->max > 0 ? (uint64_t)o->max : UINT64_MAX;
    if ((o->to == BN_FIELD_U32_ALL && strcmp(text, "-1") == 0) ||
        (o->to == BN_FIELD_U32_AUTO && strcmp(text, "auto") == 0))
        value = UINT32_MAX;
    else if (!bn_number_u64(text, strlen(text), &value) || value < min || value > max) {
        bool whole = is_whole_number(text);
        char range[96];
        snprintf(range, sizeof range, "%s%sbetween %llu and %llu",
                 o->to == BN_FIELD_U32_ALL    ? "-1 or "
                 : o->to == BN_FIELD_U32_AUTO ? "auto or "
                                              : "",
                 whole ? "" : "a whole number ", (unsigned long long)min, (unsigned long long)max);
        return out_of_range(args, o, range, whole, err);
    }
    if (o->to == BN_FIELD_U64)
        *(uint64_t *)out = value;
    else
        *(uint32_t *)out = (uint32_t)value;
    return BN_OK;
}

/* float or double. The ends of a range of floats are floats, too: 0.1f is in a range that ends with 0.1. */
static bn_status read_float(const struct bn_args *args, const struct bn_option *o, void *out, bn_error *err)
{
    const char *text = text_of(args, o);
    bool wide = o->to == BN_FIELD_F64;
    char range[96];
    double value = 0;
    float narrow = 0;
    bool number = wide ? bn_number_f64(text, &value) : bn_number_f32(text, &narrow);
    if (number &&
        (wide ? value >= o->min && value <= o->max : narrow >= (float)o->min && narrow <= (float)o->max)) {
        memcpy(out, wide ? (void *)&value : (void *)&narrow, wide ? sizeof value : sizeof narrow);
        return BN_OK;
    }
    number = bn_number_f64(text, &value); /* one that is too large for a float is a number */
    snprintf(range, sizeof range, "%sbetween %g and %g", number ? "" : "a number ", o->min, o->max);
    return out_of_range(args, o, range, number, err);
}

/* A time or a size: a whole number, and a letter that multiplies it. */
static bn_status read_scaled(const struct bn_args *args, const struct bn_option *o, uint64_t *out,
                             bn_error *err)
{
    static const struct {
        char letter;
        uint64_t factor;
    } UNITS[2][4] = {{{'K', 1u << 10}, {'M', 1u << 20}, {'G', 1u << 30}},
                     {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}}};
    bool time = o->to == BN_FIELD_SECONDS;
    const char *text = text_of(args, o);
    size_t n = strlen(text), n_digits = n;
    uint64_t factor = 1;
    for (size_t i = 0; i < 4 && n > 1; i++)
        if (text[n - 1] == UNITS[time][i].letter) {
            factor = UNITS[time][i].factor;
            n_digits = n - 1;
        }
    if (bn_number_u64(text, n_digits, out) && !__builtin_mul_overflow(*out, factor, out)) return BN_OK;
    return bad_value(args, o, (struct bn_str){text, n},
                     time ? "is not a time such as 90s, 15m, 36h or 7d"
                          : "is not a size such as 4096, 64K, 512M or 4G",
                     err);
}

/* ---- lists ---- */

/* The texts of all uses, or the preset: n of them. Without list they are only counted. */
static size_t texts_of(const struct bn_args *args, const struct bn_option *o, const char **list)
{
    size_t n = 0;
    for (size_t i = 0; i < args->n_values; i++)
        if (args->values[i].option->name == o->name) {
            if (list != NULL) list[n] = args->values[i].text;
            n++;
        }
    if (n > 0 || o->preset == NULL) return n;
    if (list != NULL) list[0] = o->preset;
    return 1;
}

static bn_status read_texts(const struct bn_args *args, const struct bn_option *o, struct bn_texts *out,
                            bn_error *err)
{
    bn_free(out->list); /* another option set the field */
    BN_TRY(BN_NEW(out->list, texts_of(args, o, NULL) + 1, err));
    out->n = texts_of(args, o, out->list);
    return BN_OK;
}

/* Appends the numbers of one text, "1,2,3", to a list that has room for them. */
static bn_status add_ids(const struct bn_args *args, const struct bn_option *o, const char *at,
                         struct bn_id_list *out, bn_error *err)
{
    for (;; at++) {
        size_t n = strcspn(at, ",");
        char what[96];
        int64_t value;
        snprintf(what, sizeof what, "is not a whole number between %.0f and %.0f", o->min, o->max);
        if (!bn_number_i64(at, n, &value) || (double)value < o->min || (double)value > o->max)
            return bad_value(args, o, (struct bn_str){at, n}, what, err);
        out->list[out->n++] = (int32_t)value;
        at += n;
        if (*at == '\0') return BN_OK;
    }
}

static bn_status read_ids(const struct bn_args *args, const struct bn_option *o, struct bn_id_list *out,
                          bn_error *err)
{
    struct bn_texts uses = {0};
    BN_TRY(read_texts(args, o, &uses, err));
    size_t room = 0;
    for (size_t i = 0; i < uses.n; i++)
        room += strlen(uses.list[i]) / 2 + 1;
    bn_free(out->list);
    *out = (struct bn_id_list){.list = bn_alloc(room, sizeof *out->list)};
    bn_status status = out->list != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = o->repeatable ? 0 : uses.n - 1; i < uses.n && status == BN_OK; i++)
        status = add_ids(args, o, uses.list[i], out, err);
    if (status != BN_OK) {
        bn_free(out->list);
        *out = (struct bn_id_list){0};
    }
    bn_free(uses.list);
    return status;
}

static bn_status read_list(const struct bn_args *args, const struct bn_option *o, struct bn_list *out,
                           bn_error *err)
{
    struct bn_id_list all = {0};
    BN_TRY(read_ids(args, o, &all, err));
    bn_free(out->list);
    *out = (struct bn_list){.list = (uint32_t *)all.list};
    for (size_t i = 0, at; i < all.n; i++) {
        for (at = 0; at < out->n && out->list[at] != out->list[i];)
            at++;
        if (at == out->n) out->list[out->n++] = out->list[i];
    }
    return BN_OK;
}

/* bias and n_bias of a bn_sampler_options; the field is the first of them. */
static bn_status read_bias(const struct bn_args *args, const struct bn_option *o, void *field, bn_error *err)
{
    struct bn_texts uses = {0};
    bn_sampler_options *s = (void *)((unsigned char *)field - offsetof(bn_sampler_options, bias));
    BN_TRY(read_texts(args, o, &uses, err));
    bn_candidate *list = bn_alloc(uses.n, sizeof *list);
    bn_status status = list != NULL ? BN_OK : bn_nomem(err);
    s->bias = list;
    for (size_t i = 0; i < uses.n && status == BN_OK; i++) {
        const char *text = uses.list[i];
        size_t n = strcspn(text, "=");
        uint64_t id;
        float value;
        if (text[n] != '=' || !bn_number_u64(text, n, &id) || id > INT32_MAX ||
            !bn_number_f32(text + n + 1, &value))
            status = bad_value(args, o, (struct bn_str){text, strlen(text)},
                               "is not a token id, = and a number", err);
        else if (value != 0.0f)
            list[s->n_bias++] = (bn_candidate){(int32_t)id, value};
    }
    bn_free(uses.list);
    return status;
}

/* ---- the struct ---- */

static bn_status read_place(const struct bn_args *args, const struct bn_option *o, size_t *out, bn_error *err)
{
    if (texts_of(args, o, NULL) > 1) return bn_fail(err, BN_ERR_ARG, "--%s given more than once", o->name);
    const struct bn_value *v = bn_fields_value(args, o);
    if (v != NULL) *out = v->place;
    return BN_OK;
}

/* Reads the value of one option into a field of the type o->to; without a value the field stays as it is. */
static bn_status read_field(const struct bn_args *args, const struct bn_option *o, void *field, bn_error *err)
{
    if (texts_of(args, o, NULL) == 0) return BN_OK;
    switch (o->to) {
    case BN_FIELD_NONE:
        break;
    case BN_FIELD_BOOL:
        *(bool *)field = true;
        break;
    case BN_FIELD_PLACE:
        return read_place(args, o, field, err);
    case BN_FIELD_TEXT:
        *(const char **)field = text_of(args, o);
        break;
    case BN_FIELD_CHOICE:
        *(int *)field = bn_table_chosen(o, text_of(args, o));
        break;
    case BN_FIELD_U32:
    case BN_FIELD_U32_ALL:
    case BN_FIELD_U32_AUTO:
    case BN_FIELD_U64:
        return read_whole(args, o, field, err);
    case BN_FIELD_F32:
    case BN_FIELD_F64:
        return read_float(args, o, field, err);
    case BN_FIELD_SECONDS:
    case BN_FIELD_BYTES:
        return read_scaled(args, o, field, err);
    case BN_FIELD_TEXTS:
        return read_texts(args, o, field, err);
    case BN_FIELD_IDS:
        return read_ids(args, o, field, err);
    case BN_FIELD_LIST:
        return read_list(args, o, field, err);
    case BN_FIELD_BIAS:
        return read_bias(args, o, field, err);
    }
    return BN_OK;
}

bn_status bn_fields_fill(struct bn_args *args, bn_error *err)
{
    size_t bytes = bn_table_bytes(args->program, args->command);
    if (bytes > 0 && (args->fields = bn_alloc(1, bytes)) == NULL) return bn_nomem(err);
    for (size_t i = 0; i < args->n_options; i++)
        if (args->options[i]->to != BN_FIELD_NONE)
            BN_TRY(read_field(args, args->options[i], field_of(args, args->options[i]), err));
    return BN_OK;
}

void bn_fields_release(struct bn_args *args)
{
    for (size_t i = 0; i < args->n_options; i++) {
        const struct bn_option *o = args->options[i];
        if (o->to < BN_FIELD_TEXTS || (args->fields == NULL && !o->shared)) continue;
        void *field = field_of(args, o), *list; /* the first member of all four */
        memcpy(&list, field, sizeof list);
        bn_free(list);
        memset(field, 0, sizeof list);
    }
    bn_free(args->fields);
    args->fields = NULL;
}

/* ---- number.h ---- */

bool bn_number_u64(const char *text, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    if (n == 0) return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (__builtin_mul_overflow(value, 10u, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) return false;
    }
    *out = value;
    return true;
}

bool bn_number_i64(const char *text, size_t n, int64_t *out)
{
    bool negative = n > 0 && text[0] == '-';
    uint64_t magnitude;
    if (!bn_number_u64(text + negative, n - negative, &magnitude)) return false;
    if (magnitude > (uint64_t)INT64_MAX) return false;
    *out = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

/* strtod takes more than we want (spaces, hexadecimal, "infinity"), but nothing that is made of these letters
 * and begins like a number. */
static bool looks_decimal(const char *text)
{
    size_t sign = text[0] == '-' || text[0] == '+';
    const char *first = text + sign;
    if (first[0] == '.') first++;
    return first[0] >= '0' && first[0] <= '9' && text[strspn(text, "0123456789.eE+-")] == '\0';
}

/* One of d and f is set, correctly rounded. */
static bool read_decimal(const char *text, double *d, float *f)
{
    locale_t c = looks_decimal(text) ? newlocale(LC_ALL_MASK, "C", (locale_t)0) : (locale_t)0;
    char *end;
    if (c == (locale_t)0) return false;
    double value = f != NULL ? (double)strtof_l(text, &end, c) : strtod_l(text, &end, c);
    freelocale(c);
    if (*end != '\0' || !isfinite(value)) return false;
    if (f != NULL) *f = (float)value;
    if (d != NULL) *d = value;
    return true;
}

bool bn_number_f64(const char *text, double *out)
{
    return read_decimal(text, out, NULL);
}

bool bn_number_f32(const char *text, float *out)
{
    return read_decimal(text, NULL, out);
}

static void put_f32(struct bn_buf *out, float x)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    bn_buf_puts(out, text);
}

void bn_number_put_f32s(struct bn_buf *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bn_buf_putc(out, i == 0 ? '[' : ',');
        put_f32(out, x[i]);
    }
    bn_buf_putc(out, ']');
}
