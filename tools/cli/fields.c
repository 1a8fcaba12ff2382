/* SPDX-License-Identifier: MIT
 *
 * Fills the struct of a command with the values of its options (bn_option.to), before the command runs.
 */
#include "tools/cli/fields.h"

#include "base/error.h"
#include "base/mem.h"

static bn_status fill_texts(const struct bn_args *args, const char *name, struct bn_texts *out, bn_error *err)
{
    size_t n = bn_opt_count(args, name);
    if (n == 0) return BN_OK;
    bn_free(out->list); /* another option set the field */
    out->n = 0;
    out->list = bn_alloc(n + 1, sizeof *out->list);
    if (out->list == NULL) return bn_nomem(err);
    for (; out->n < n; out->n++)
        out->list[out->n] = bn_opt_at(args, name, out->n);
    return BN_OK;
}

static bn_status fill_ids(const struct bn_args *args, const char *name, struct bn_id_list *out, bn_error *err)
{
    if (bn_opt_count(args, name) == 0) return BN_OK;
    bn_free(out->list);
    *out = (struct bn_id_list){0};
    return bn_opt_i32_list(args, name, 0, INT32_MAX, &out->list, &out->n, err);
}

static bn_status fill(const struct bn_args *args, const struct bn_option *o, void *field, bn_error *err)
{
    const char *text = o->arg != NULL ? bn_opt_str(args, o->name) : NULL;
    switch (o->to) {
    case BN_FIELD_NONE:
        break;
    case BN_FIELD_BOOL:
        *(bool *)field |= bn_opt_flag(args, o->name);
        break;
    case BN_FIELD_TEXT:
        if (text != NULL) *(const char **)field = text;
        break;
    case BN_FIELD_CHOICE:
        if (text != NULL) *(int *)field = bn_opt_choice(args, o->name);
        break;
    case BN_FIELD_U32:
        return bn_opt_u32(args, o->name, (uint32_t)o->min, (uint32_t)o->max, field, err);
    case BN_FIELD_U32_ALL:
        return bn_opt_u32_or_all(args, o->name, (uint32_t)o->min, (uint32_t)o->max, field, err);
    case BN_FIELD_U64:
        return bn_opt_u64(args, o->name, (uint64_t)o->min, o->max > 0 ? (uint64_t)o->max : UINT64_MAX, field,
                          err);
    case BN_FIELD_F32:
        return bn_opt_f32(args, o->name, (float)o->min, (float)o->max, field, err);
    case BN_FIELD_F64:
        return bn_opt_f64(args, o->name, o->min, o->max, field, err);
    case BN_FIELD_SECONDS:
        return bn_opt_seconds(args, o->name, field, err);
    case BN_FIELD_BYTES:
        return bn_opt_bytes(args, o->name, field, err);
    case BN_FIELD_TEXTS:
        return fill_texts(args, o->name, field, err);
    case BN_FIELD_IDS:
        return fill_ids(args, o->name, field, err);
    }
    return BN_OK;
}

bn_status bn_fields_fill(struct bn_args *args, bn_error *err)
{
    size_t bytes = args->command->bytes;
    if (bytes == 0) return BN_OK;
    unsigned char *fields = bn_alloc(1, bytes);
    if (fields == NULL) return bn_nomem(err);
    args->fields = fields;
    for (size_t i = 0; i < args->n_options; i++)
        BN_TRY(fill(args, args->options[i], fields + args->options[i]->at, err));
    return BN_OK;
}

void bn_fields_release(struct bn_args *args)
{
    unsigned char *fields = args->fields;
    for (size_t i = 0; fields != NULL && i < args->n_options; i++) {
        const struct bn_option *o = args->options[i];
        void *field = fields + o->at;
        if (o->to == BN_FIELD_TEXTS) {
            struct bn_texts *texts = field;
            bn_free(texts->list);
            texts->list = NULL;
        } else if (o->to == BN_FIELD_IDS) {
            struct bn_id_list *ids = field;
            bn_free(ids->list);
            ids->list = NULL;
        }
    }
    bn_free(fields);
    args->fields = NULL;
}
