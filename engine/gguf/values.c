/* SPDX-License-Identifier: MIT
 *
 * See gguf.h: the values of keys by type. Everything here relies on bn_gguf_open, which checked that values
 * lie inside the file.
 */
#include <stdio.h>

#include "base/error.h"
#include "gguf/gguf.h"

static const struct {
    const char *name;
    size_t bytes;
} VALUE_TYPES[BN_GGUF_TYPE_COUNT] = {
    [BN_GGUF_U8] = {"uint8", 1},    [BN_GGUF_I8] = {"int8", 1},    [BN_GGUF_U16] = {"uint16", 2},
    [BN_GGUF_I16] = {"int16", 2},   [BN_GGUF_U32] = {"uint32", 4}, [BN_GGUF_I32] = {"int32", 4},
    [BN_GGUF_F32] = {"float32", 4}, [BN_GGUF_BOOL] = {"bool", 1},  [BN_GGUF_STRING] = {"string", 0},
    [BN_GGUF_ARRAY] = {"array", 0}, [BN_GGUF_U64] = {"uint64", 8}, [BN_GGUF_I64] = {"int64", 8},
    [BN_GGUF_F64] = {"float64", 8},
};

size_t bn_gguf_type_bytes(enum bn_gguf_type type)
{
    return (unsigned)type < BN_GGUF_TYPE_COUNT ? VALUE_TYPES[type].bytes : 0;
}

const char *bn_gguf_type_name(enum bn_gguf_type type)
{
    return (unsigned)type < BN_GGUF_TYPE_COUNT ? VALUE_TYPES[type].name : "unknown";
}

static bn_status fail_value_type(const struct bn_gguf_kv *kv, const char *want, bn_error *err)
{
    char where[BN_GGUF_NAMED_BYTES];
    return bn_fail_at(err, BN_ERR_FORMAT, kv->offset, bn_gguf_named(where, "key", kv->key),
                      "the value is %s%s, not %s", kv->type == BN_GGUF_ARRAY ? "array of " : "",
                      bn_gguf_type_name(kv->element), want);
}

/* The key's value when it has this very type, else NULL and why. */
static const struct bn_gguf_kv *find_typed(const struct bn_gguf *gguf, const char *key,
                                           enum bn_gguf_type type, bn_status *status, bn_error *err)
{
    const struct bn_gguf_kv *kv = bn_gguf_find(gguf, key);
    *status = kv == NULL         ? BN_ERR_NOT_FOUND
              : kv->type != type ? fail_value_type(kv, bn_gguf_type_name(type), err)
                                 : BN_OK;
    return *status == BN_OK ? kv : NULL;
}

/* The integer of kv, with its sign apart; false for other types. */
static bool stored_integer(const struct bn_gguf_kv *kv, uint64_t *value, bool *negative)
{
    size_t bytes = bn_gguf_type_bytes(kv->type);
    bool is_signed = kv->type == BN_GGUF_I8 || kv->type == BN_GGUF_I16 || kv->type == BN_GGUF_I32 ||
                     kv->type == BN_GGUF_I64;
    bool is_unsigned = kv->type == BN_GGUF_U8 || kv->type == BN_GGUF_U16 || kv->type == BN_GGUF_U32 ||
                       kv->type == BN_GGUF_U64;
    if (!is_signed && !is_unsigned) return false;
    *value = bn_gguf_number(kv->value, bytes);
    *negative = is_signed && kv->value[bytes - 1] >= 0x80;
    return true;
}

bn_status bn_gguf_u32(const struct bn_gguf *gguf, const char *key, uint32_t *out, bn_error *err)
{
    const struct bn_gguf_kv *kv = bn_gguf_find(gguf, key);
    uint64_t value;
    bool negative;
    if (kv == NULL) return BN_ERR_NOT_FOUND;
    if (!stored_integer(kv, &value, &negative)) return fail_value_type(kv, "an integer", err);
    if (negative || value > UINT32_MAX) {
        char where[BN_GGUF_NAMED_BYTES];
        return bn_fail_at(err, BN_ERR_FORMAT, kv->offset, bn_gguf_named(where, "key", kv->key),
                          negative ? "the value is negative" : "the value does not fit into 32 bits");
    }
    *out = (uint32_t)value;
    return BN_OK;
}

bn_status bn_gguf_f32(const struct bn_gguf *gguf, const char *key, float *out, bn_error *err)
{
    bn_status status;
    const struct bn_gguf_kv *kv = find_typed(gguf, key, BN_GGUF_F32, &status, err);
    if (kv == NULL) return status;
    uint32_t bits = (uint32_t)bn_gguf_number(kv->value, 4);
    memcpy(out, &bits, sizeof *out);
    return BN_OK;
}

bn_status bn_gguf_bool(const struct bn_gguf *gguf, const char *key, bool *out, bn_error *err)
{
    bn_status status;
    const struct bn_gguf_kv *kv = find_typed(gguf, key, BN_GGUF_BOOL, &status, err);
    if (kv == NULL) return status;
    *out = kv->value[0] != 0;
    return BN_OK;
}

bn_status bn_gguf_str(const struct bn_gguf *gguf, const char *key, struct bn_str *out, bn_error *err)
{
    bn_status status;
    const struct bn_gguf_kv *kv = find_typed(gguf, key, BN_GGUF_STRING, &status, err);
    if (kv == NULL) return status;
    const unsigned char *cursor = kv->value;
    *out = bn_gguf_next_str(&cursor);
    return BN_OK;
}

bn_status bn_gguf_array(const struct bn_gguf *gguf, const char *key, enum bn_gguf_type element,
                        const struct bn_gguf_kv **out, bn_error *err)
{
    const struct bn_gguf_kv *kv = bn_gguf_find(gguf, key);
    if (kv == NULL) return BN_ERR_NOT_FOUND;
    if (kv->type != BN_GGUF_ARRAY || kv->element != element) {
        char want[32];
        snprintf(want, sizeof want, "array of %s", bn_gguf_type_name(element));
        return fail_value_type(kv, want, err);
    }
    *out = kv;
    return BN_OK;
}

bn_status bn_gguf_required(bn_status status, const char *key, bn_error *err)
{
    if (status != BN_ERR_NOT_FOUND) return status;
    return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, key, "missing key");
}

struct bn_str bn_gguf_next_str(const unsigned char **cursor)
{
    struct bn_str text = {(const char *)*cursor + 8, (size_t)bn_gguf_number(*cursor, 8)};
    *cursor += 8 + text.len;
    return text;
}
