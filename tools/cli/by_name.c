/* SPDX-License-Identifier: MIT
 *
 * Values of options by name, for commands that have no struct for them yet; new ones use BN_TO_....
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/fields.h"
#include "tools/cli/table.h"

static const struct bn_option *must_find(const struct bn_args *args, const char *name)
{
    for (size_t i = 0; i < args->n_options; i++)
        if (strcmp(args->options[i]->name, name) == 0) return args->options[i];
    fprintf(stderr, "bug: command '%s' has no option '%s'\n", args->command->name, name);
    abort();
}

bool bn_opt_given(const struct bn_args *args, const char *name)
{
    return bn_fields_value(args, must_find(args, name)) != NULL;
}

bool bn_opt_flag(const struct bn_args *args, const char *name)
{
    return bn_opt_given(args, name);
}

const char *bn_opt_str(const struct bn_args *args, const char *name)
{
    return bn_fields_text(args, must_find(args, name));
}

size_t bn_opt_count(const struct bn_args *args, const char *name)
{
    const struct bn_option *o = must_find(args, name);
    size_t n = 0;
    for (size_t i = 0; i < args->n_values; i++)
        n += args->values[i].option == o;
    return n == 0 && o->preset != NULL ? 1 : n;
}

const char *bn_opt_at(const struct bn_args *args, const char *name, size_t i)
{
    const struct bn_option *o = must_find(args, name);
    for (size_t j = 0; j < args->n_values; j++)
        if (args->values[j].option == o && i-- == 0) return args->values[j].text;
    return o->preset;
}

int bn_opt_choice(const struct bn_args *args, const char *name)
{
    const char *text = bn_opt_str(args, name);
    return text != NULL ? bn_table_chosen(must_find(args, name), text) : -1;
}

static bn_status read_as(const struct bn_args *args, const char *name, enum bn_field_type type, double min,
                         double max, void *out, bn_error *err)
{
    struct bn_option o = *must_find(args, name);
    o.to = type;
    o.min = min;
    o.max = max;
    return bn_fields_read(args, &o, out, err);
}

bn_status bn_opt_u32(const struct bn_args *args, const char *name, uint32_t min, uint32_t max, uint32_t *out,
                     bn_error *err)
{
    return read_as(args, name, BN_FIELD_U32, min, max, out, err);
}

bn_status bn_opt_u64(const struct bn_args *args, const char *name, uint64_t min, uint64_t max, uint64_t *out,
                     bn_error *err)
{
    return read_as(args, name, BN_FIELD_U64, (double)min, max == UINT64_MAX ? 0 : (double)max, out, err);
}

bn_status bn_opt_f64(const struct bn_args *args, const char *name, double min, double max, double *out,
                     bn_error *err)
{
    return read_as(args, name, BN_FIELD_F64, min, max, out, err);
}

bn_status bn_opt_seconds(const struct bn_args *args, const char *name, uint64_t *out, bn_error *err)
{
    return read_as(args, name, BN_FIELD_SECONDS, 0, 0, out, err);
}

bn_status bn_opt_bytes(const struct bn_args *args, const char *name, uint64_t *out, bn_error *err)
{
    return read_as(args, name, BN_FIELD_BYTES, 0, 0, out, err);
}

bn_status bn_opt_i32_list(const struct bn_args *args, const char *name, int32_t min, int32_t max,
                          int32_t **list, size_t *n, bn_error *err)
{
    struct bn_id_list ids = {0};
    bn_status status = read_as(args, name, BN_FIELD_IDS, min, max, &ids, err);
    *list = ids.list;
    *n = ids.n;
    return status;
}
