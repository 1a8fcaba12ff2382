/* SPDX-License-Identifier: MIT
 *
 * Reads GGUF files in this order: kind of file, header, keys, alignment, tensor descriptions, positions of
 * the tensors. Each step reads through one cursor that cannot leave the bytes. The caller gets nothing before
 * all checks have passed. Typed access to values is in values.c.
 */
#define _GNU_SOURCE /* qsort_r */
#include "gguf/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

#define MIN_STRING_BYTES 8u
#define MIN_KV_BYTES (8u + 1u + 4u + 1u)
#define MIN_INFO_BYTES (8u + 1u + 4u + 8u + 4u + 8u)
#define MIN_ALIGNMENT 8u
#define MAX_ALIGNMENT 65536u
#define FILE_TYPE_I2_S 40u

struct cursor {
    const unsigned char *base;
    uint64_t pos;
    uint64_t end;     /* where reading stops: of the file, or of the room for keys and descriptions */
    uint64_t n_bytes; /* of the file */
    bn_error *err;
};

const char *bn_gguf_named(char out[BN_GGUF_NAMED_BYTES], const char *kind, struct bn_str name)
{
    snprintf(out, BN_GGUF_NAMED_BYTES, "%s '%.*s'", kind, (int)bn_min_size(name.len, BN_GGUF_MAX_KEY_BYTES),
             name.ptr);
    return out;
}

/* ---- Cursor ---- */

/* True when n more bytes are there. */
static bool has(const struct cursor *c, uint64_t n)
{
    return n <= c->end - c->pos;
}

static bn_status fail_short(const struct cursor *c, const char *where, uint64_t n, const char *what)
{
    if (n <= c->n_bytes - c->pos)
        return bn_fail_at(c->err, BN_ERR_LIMIT, c->pos, where,
                          "the keys and tensor descriptions take more than %u MiB",
                          BN_GGUF_MAX_META_BYTES >> 20);
    return bn_hint(bn_fail_at(c->err, BN_ERR_FORMAT, c->pos, where,
                              "%s needs %" PRIu64 " bytes but the file ends after %" PRIu64, what, n,
                              c->n_bytes - c->pos),
                   c->err, "the file is cut off or damaged: download it again");
}

/* A number of n bytes. */
static bn_status take_number(struct cursor *c, const char *where, const char *what, size_t n, uint64_t *out)
{
    if (!has(c, n)) return fail_short(c, where, n, what);
    *out = bn_gguf_number(c->base + c->pos, n);
    c->pos += n;
    return BN_OK;
}

static bn_status take_u32(struct cursor *c, const char *where, const char *what, uint32_t *out)
{
    uint64_t value = 0;
    BN_TRY(take_number(c, where, what, 4, &value));
    *out = (uint32_t)value;
    return BN_OK;
}

static bn_status take_u64(struct cursor *c, const char *where, const char *what, uint64_t *out)
{
    return take_number(c, where, what, 8, out);
}

static bn_status take_str(struct cursor *c, const char *where, const char *what, uint64_t max,
                          struct bn_str *out)
{
    uint64_t n = 0, start = c->pos;
    BN_TRY(take_u64(c, where, what, &n));
    if (!has(c, n)) {
        bn_status status = fail_short(c, where, n, what);
        if (c->err != NULL) c->err->offset = start;
        return status;
    }
    if (n > max)
        return bn_fail_at(c->err, BN_ERR_LIMIT, start, where,
                          "%s has %" PRIu64 " bytes, the limit is %" PRIu64, what, n, max);
    out->ptr = (const char *)c->base + c->pos;
    out->len = (size_t)n;
    c->pos += n;
    return BN_OK;
}

/* Keys and tensor names go into messages and tables: they are not empty, UTF-8, and hold nothing that
 * bn_escape would change (control characters, backslashes). */
static bn_status take_name(struct cursor *c, const char *kind, uint64_t index, uint32_t max,
                           struct bn_str *out)
{
    char where[64], escaped[BN_GGUF_MAX_KEY_BYTES + 1];
    uint64_t start = c->pos;
    snprintf(where, sizeof where, "%s %" PRIu64, kind, index);
    BN_TRY(take_str(c, where, "its name", max, out));
    if (out->len == 0) return bn_fail_at(c->err, BN_ERR_FORMAT, start, where, "its name is empty");
    bn_escape(escaped, sizeof escaped, out->ptr, out->len);
    if (!bn_str_equal(*out, escaped))
        return bn_fail_at(c->err, BN_ERR_FORMAT, start, where,
                          "its name is not plain UTF-8 text without control characters");
    return BN_OK;
}

/* ---- Sorting ---- */

static int by_key(const void *a, const void *b, void *user)
{
    const struct bn_gguf *gguf = user;
    return bn_str_compare(gguf->kv[*(const uint32_t *)a].key, gguf->kv[*(const uint32_t *)b].key);
}

static int by_name(const void *a, const void *b, void *user)
{
    const struct bn_gguf *gguf = user;
    return bn_str_compare(gguf->tensors[*(const uint32_t *)a].name, gguf->tensors[*(const uint32_t *)b].name);
}

static int by_offset(const void *a, const void *b, void *user)
{
    const struct bn_gguf *gguf = user;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint64_t x = gguf->tensors[i].offset, y = gguf->tensors[k].offset;
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

static void sort_index(const struct bn_gguf *gguf, uint32_t *index, size_t n,
                       int (*compare)(const void *, const void *, void *))
{
    for (size_t i = 0; i < n; i++)
        index[i] = (uint32_t)i;
    qsort_r(index, n, sizeof *index, compare, (void *)(uintptr_t)gguf);
}

/* ---- Version ---- */

static bn_status read_version(struct cursor *c, uint32_t *version)
{
    if (c->n_bytes < 4 || memcmp(c->base, "GGUF", 4) != 0)
        return bn_gguf_fail_kind(c->base, c->n_bytes, c->err);
    c->pos = 4;
    BN_TRY(take_u32(c, NULL, "the version", version));
    if (*version == 2 || *version == 3) return BN_OK;
    if (*version != 0 && (*version & 0xFFFFu) == 0) {
        return bn_hint(bn_fail_at(c->err, BN_ERR_UNSUPPORTED, 4, NULL,
                                  "version 0x%08" PRIX32 " is byte-swapped: this is a big-endian file",
                                  *version),
                       c->err, "convert it to little endian, or download the little-endian file");
    }
    if (*version == 1) {
        return bn_hint(
            bn_fail_at(c->err, BN_ERR_UNSUPPORTED, 4, NULL, "GGUF version 1 is not supported, only 2 and 3"),
            c->err, "version 1 was replaced in 2023: convert the model again");
    }
    if (*version == 0) return bn_fail_at(c->err, BN_ERR_FORMAT, 4, NULL, "GGUF version 0 does not exist");
    return bn_fail_at(c->err, BN_ERR_UNSUPPORTED, 4, NULL,
                      "GGUF version %" PRIu32 " is not supported, only 2 and 3", *version);
}

/* ---- Keys ---- */

static bn_status take_value_type(struct cursor *c, const char *where, const char *what,
                                 enum bn_gguf_type *out)
{
    uint32_t type = 0;
    uint64_t start = c->pos;
    BN_TRY(take_u32(c, where, what, &type));
    if (type >= BN_GGUF_TYPE_COUNT)
        return bn_fail_at(c->err, BN_ERR_FORMAT, start, where, "%s has the unknown number %" PRIu32, what,
                          type);
    *out = (enum bn_gguf_type)type;
    return BN_OK;
}

static uint64_t max_string(struct bn_str key)
{
    static const char TEMPLATE[] = "tokenizer.chat_template"; /* also tokenizer.chat_template.<name> */
    bool tmpl = key.len >= sizeof TEMPLATE - 1 && memcmp(key.ptr, TEMPLATE, sizeof TEMPLATE - 1) == 0;
    return tmpl ? BN_GGUF_MAX_TEMPLATE_BYTES : BN_GGUF_MAX_STRING_BYTES;
}

/* The n elements of kv. One bound check for all when they have one size; a vocabulary has 10^5 strings. */
static bn_status take_elements(struct cursor *c, const char *where, const struct bn_gguf_kv *kv)
{
    size_t each = bn_gguf_type_bytes(kv->element);
    if (each == 0) {
        uint64_t max = max_string(kv->key);
        struct bn_str ignored;
        for (uint64_t i = 0; i < kv->n; i++)
            BN_TRY(take_str(c, where, "a string", max, &ignored));
        return BN_OK;
    }
    if (!has(c, kv->n * each)) return fail_short(c, where, kv->n * each, "the value");
    if (kv->element == BN_GGUF_BOOL)
        for (uint64_t i = 0; i < kv->n; i++)
            if (c->base[c->pos + i] > 1)
                return bn_fail_at(c->err, BN_ERR_FORMAT, c->pos + i, where, "a bool is %u, not 0 or 1",
                                  (unsigned)c->base[c->pos + i]);
    c->pos += kv->n * each;
    return BN_OK;
}

static bn_status take_array_head(struct cursor *c, const char *where, struct bn_gguf_kv *kv)
{
    uint64_t start = c->pos;
    BN_TRY(take_value_type(c, where, "the element type", &kv->element));
    if (kv->element == BN_GGUF_ARRAY)
        return bn_fail_at(c->err, BN_ERR_LIMIT, start, where, "an array of arrays is not supported");
    start = c->pos;
    BN_TRY(take_u64(c, where, "the array length", &kv->n));
    size_t each = bn_gguf_type_bytes(kv->element);
    if (kv->n > (c->n_bytes - c->pos) / (each == 0 ? MIN_STRING_BYTES : each))
        return bn_hint(bn_fail_at(c->err, BN_ERR_FORMAT, start, where,
                                  "an array of %" PRIu64 " elements does not fit into the %" PRIu64
                                  " bytes left in the file",
                                  kv->n, c->n_bytes - c->pos),
                       c->err, "the file is cut off or damaged: download it again");
    if (kv->n > BN_GGUF_MAX_ARRAY)
        return bn_fail_at(c->err, BN_ERR_LIMIT, start, where,
                          "the array has %" PRIu64 " elements, the limit is %u", kv->n, BN_GGUF_MAX_ARRAY);
    return BN_OK;
}

static bn_status take_kv(struct cursor *c, uint64_t index, struct bn_gguf_kv *kv)
{
    char where[BN_GGUF_NAMED_BYTES];
    kv->offset = c->pos;
    kv->n = 1;
    BN_TRY(take_name(c, "key", index, BN_GGUF_MAX_KEY_BYTES, &kv->key));
    bn_gguf_named(where, "key", kv->key);
    BN_TRY(take_value_type(c, where, "the value type", &kv->type));
    kv->element = kv->type;
    if (kv->type == BN_GGUF_ARRAY) BN_TRY(take_array_head(c, where, kv));
    kv->value = c->base + c->pos;
    return take_elements(c, where, kv);
}

static bn_status fail_twice(const char *kind, struct bn_str name, uint64_t a, uint64_t b, bn_error *err)
{
    char where[BN_GGUF_NAMED_BYTES];
    return bn_fail_at(err, BN_ERR_FORMAT, a > b ? a : b, bn_gguf_named(where, kind, name), "duplicate %s",
                      kind);
}

static bn_status check_unique_keys(const struct bn_gguf *gguf, uint32_t *index, bn_error *err)
{
    sort_index(gguf, index, gguf->n_kv, by_key);
    for (size_t i = 1; i < gguf->n_kv; i++) {
        const struct bn_gguf_kv *a = &gguf->kv[index[i - 1]], *b = &gguf->kv[index[i]];
        if (bn_str_compare(a->key, b->key) == 0) return fail_twice("key", a->key, a->offset, b->offset, err);
    }
    return BN_OK;
}

static bn_status read_keys(struct cursor *c, struct bn_gguf *gguf)
{
    BN_TRY(BN_NEW(gguf->kv, gguf->n_kv, c->err));
    for (size_t i = 0; i < gguf->n_kv; i++)
        BN_TRY(take_kv(c, i, &gguf->kv[i]));
    uint32_t *index = bn_alloc(gguf->n_kv, sizeof *index);
    if (index == NULL) return bn_nomem(c->err);
    bn_status status = check_unique_keys(gguf, index, c->err);
    bn_free(index);
    return status;
}

static bn_status read_alignment(struct cursor *c, struct bn_gguf *gguf)
{
    static const char KEY[] = "general.alignment";
    const struct bn_gguf_kv *kv = bn_gguf_find(gguf, KEY);
    gguf->alignment = BN_GGUF_DEFAULT_ALIGNMENT;
    if (kv == NULL) return BN_OK;
    if (kv->type != BN_GGUF_U32)
        return bn_fail_at(c->err, BN_ERR_FORMAT, kv->offset, "key 'general.alignment'",
                          "the value is %s, not uint32", bn_gguf_type_name(kv->type));
    gguf->alignment = (uint32_t)bn_gguf_number(kv->value, 4);
    uint32_t a = gguf->alignment;
    if (a < MIN_ALIGNMENT || (a & (a - 1)) != 0)
        return bn_fail_at(c->err, BN_ERR_FORMAT, kv->offset, "key 'general.alignment'",
                          "%" PRIu32 " is not a power of two from %u to %u", a, MIN_ALIGNMENT, MAX_ALIGNMENT);
    if (a > MAX_ALIGNMENT)
        return bn_fail_at(c->err, BN_ERR_LIMIT, kv->offset, "key 'general.alignment'",
                          "%" PRIu32 " is over %u", a, MAX_ALIGNMENT);
    return BN_OK;
}

/* ---- Tensors ---- */

/* What type numbers mean in this file that have several meanings. */
struct dialect {
    bool bitnet; /* 36, 38 and 39 are those of the BitNet forks */
    bool i2s;    /* 36 is */
};

static bool is_one_of(struct bn_str name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bn_str_equal(name, names[i])) return true;
    return false;
}

static struct dialect dialect_of(const struct bn_gguf *gguf)
{
    static const char *const BITNET[] = {"bitnet-b1.58", "bitnet", "bitnet-25"};
    /* These are younger than the end of the other meaning of 36. */
    static const char *const YOUNG[] = {"qwen3", "gemma3"};
    struct bn_str arch = {"", 0};
    uint32_t file_type = 0;
    (void)bn_gguf_str(gguf, "general.architecture", &arch, NULL);
    (void)bn_gguf_u32(gguf, "general.file_type", &file_type, NULL);
    struct dialect d = {.bitnet = file_type >= BN_TYPE_TL1 && file_type <= FILE_TYPE_I2_S};
    d.bitnet |= is_one_of(arch, BITNET, BN_ARRAY_LEN(BITNET));
    d.i2s = d.bitnet || is_one_of(arch, YOUNG, BN_ARRAY_LEN(YOUNG));
    return d;
}

static const char READABLE_TERNARY[] = "ternary types that bn reads: I2_S, TQ1_0, TQ2_0, Q2_0, PQ2_0, PTQ1_0";

static bn_status fail_type(const struct cursor *c, const struct bn_gguf_tensor *t, uint64_t offset,
                           bool bitnet)
{
    char where[BN_GGUF_NAMED_BYTES];
    bn_gguf_named(where, "tensor", t->name);
    const struct bn_type_info *info = bn_type_info(t->type);
    if (bitnet && (t->type == BN_TYPE_TL1 || t->type == BN_TYPE_TL2)) {
        return bn_hint(bn_fail_at(c->err, BN_ERR_UNSUPPORTED, offset, where,
                                  "the type is %s, whose layout depends on the machine it was made for",
                                  t->type == BN_TYPE_TL1 ? "TL1" : "TL2"),
                       c->err, "use the I2_S file of the same model (ggml-model-i2_s.gguf)");
    }
    static const struct {
        uint32_t type;
        const char *meanings;
    } COLLIDING[] = {
        {39, "MXFP4, or TL2 in BitNet files"},
        {40, "NVFP4, or Q1_0 of an early fork of llama.cpp"},
        {43, "STQ1_0 of Tencent's fork, or F8_E4M3 of another program"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(COLLIDING); i++) {
        if (t->type != COLLIDING[i].type) continue;
        return bn_hint(bn_fail_at(c->err, BN_ERR_UNSUPPORTED, offset, where,
                                  "the type %" PRIu32 " (%s) is not supported", t->type,
                                  COLLIDING[i].meanings),
                       c->err, READABLE_TERNARY);
    }
    if (t->type == BN_TYPE_I2_S) {
        bn_fail_at(c->err, BN_ERR_UNSUPPORTED, offset, where,
                   "type 36 means I2_S in BitNet files only, and neither general.architecture nor "
                   "general.file_type (40) says that this is one");
    } else if (info != NULL && info->block != 0) {
        bn_fail_at(c->err, BN_ERR_UNSUPPORTED, offset, where, "the type %s is not supported", info->name);
    } else {
        return bn_fail_at(c->err, BN_ERR_UNSUPPORTED, offset, where,
                          "the type number %" PRIu32 " is unknown or was removed from GGUF", t->type);
    }
    bn_error_hint(c->err, READABLE_TERNARY);
    return BN_ERR_UNSUPPORTED;
}

static bn_status take_dims(struct cursor *c, const char *where, struct bn_gguf_tensor *t)
{
    uint64_t start = c->pos;
    BN_TRY(take_u32(c, where, "the number of dimensions", &t->n_dims));
    if (t->n_dims < 1 || t->n_dims > 4)
        return bn_fail_at(c->err, BN_ERR_FORMAT, start, where, "%" PRIu32 " dimensions, not 1 to 4",
                          t->n_dims);
    for (uint32_t d = 0; d < 4; d++) {
        t->ne[d] = 1;
        if (d >= t->n_dims) continue;
        start = c->pos;
        BN_TRY(take_u64(c, where, "a dimension", &t->ne[d]));
        if (t->ne[d] == 0)
            return bn_fail_at(c->err, BN_ERR_FORMAT, start, where, "dimension %" PRIu32 " is 0", d);
        if (t->ne[d] > BN_GGUF_MAX_DIM)
            return bn_fail_at(c->err, BN_ERR_LIMIT, start, where,
                              "dimension %" PRIu32 " is %" PRIu64 ", the limit is %u", d, t->ne[d],
                              BN_GGUF_MAX_DIM);
    }
    return BN_OK;
}

static bn_status take_tensor(struct cursor *c, uint64_t index, struct dialect dialect, uint32_t alignment,
                             struct bn_gguf_tensor *t)
{
    char where[BN_GGUF_NAMED_BYTES];
    t->info_offset = c->pos;
    BN_TRY(take_name(c, "tensor", index, BN_GGUF_MAX_NAME_BYTES, &t->name));
    bn_gguf_named(where, "tensor", t->name);
    BN_TRY(take_dims(c, where, t));
    uint64_t start = c->pos;
    BN_TRY(take_u32(c, where, "the type", &t->type));
    const struct bn_type_info *info = bn_type_info(t->type);
    if (info == NULL || !info->readable || (t->type == BN_TYPE_I2_S && !dialect.i2s))
        return fail_type(c, t, start, dialect.bitnet);
    if (t->ne[0] % info->block != 0)
        return bn_fail_at(c->err, BN_ERR_FORMAT, start, where,
                          "rows of %" PRIu64 " elements, not a multiple of %u, the block of %s", t->ne[0],
                          info->block, info->name);
    if (!bn_type_bytes(t->type, t->ne, &t->n_bytes))
        return bn_fail_at(c->err, BN_ERR_FORMAT, start, where, "its size in bytes overflows");
    start = c->pos;
    BN_TRY(take_u64(c, where, "the data offset", &t->offset));
    if (t->offset % alignment != 0)
        return bn_fail_at(c->err, BN_ERR_FORMAT, start, where,
                          "the data offset %" PRIu64 " is not a multiple of the alignment %" PRIu32,
                          t->offset, alignment);
    return BN_OK;
}

static bn_status check_unique_names(const struct bn_gguf *gguf, bn_error *err)
{
    for (size_t i = 1; i < gguf->n_tensors; i++) {
        const struct bn_gguf_tensor *a = &gguf->tensors[gguf->by_name[i - 1]];
        const struct bn_gguf_tensor *b = &gguf->tensors[gguf->by_name[i]];
        if (bn_str_compare(a->name, b->name) == 0)
            return fail_twice("tensor", a->name, a->info_offset, b->info_offset, err);
    }
    return BN_OK;
}

static bn_status read_tensors(struct cursor *c, struct bn_gguf *gguf)
{
    gguf->tensors = bn_alloc(gguf->n_tensors, sizeof *gguf->tensors);
    gguf->by_name = bn_alloc(gguf->n_tensors, sizeof *gguf->by_name);
    if (gguf->tensors == NULL || gguf->by_name == NULL) return bn_nomem(c->err);
    struct dialect dialect = dialect_of(gguf);
    for (size_t i = 0; i < gguf->n_tensors; i++)
        BN_TRY(take_tensor(c, i, dialect, gguf->alignment, &gguf->tensors[i]));

    uint64_t start = 0;
    bool fits = bn_round_up_ok(c->pos, gguf->alignment, &start) && start <= c->n_bytes;
    if (!fits && gguf->n_tensors > 0)
        return bn_fail_at(c->err, BN_ERR_FORMAT, c->pos, NULL, "the file ends before the tensor data");
    gguf->data_offset = fits ? start : c->n_bytes;

    sort_index(gguf, gguf->by_name, gguf->n_tensors, by_offset);
    BN_TRY(bn_gguf_place(gguf, c->base, gguf->by_name, c->err));
    sort_index(gguf, gguf->by_name, gguf->n_tensors, by_name);
    return check_unique_names(gguf, c->err);
}

/* ---- Opening ---- */

static bn_status take_count(struct cursor *c, const char *what, uint64_t each, uint32_t max, uint64_t *n)
{
    uint64_t start = c->pos;
    BN_TRY(take_u64(c, NULL, what, n));
    if (*n > (c->n_bytes - c->pos) / each)
        return bn_fail_at(c->err, BN_ERR_FORMAT, start, NULL,
                          "%s is %" PRIu64 ", more than fit into %" PRIu64 " bytes", what, *n, c->n_bytes);
    if (*n > max)
        return bn_fail_at(c->err, BN_ERR_LIMIT, start, NULL, "%s is %" PRIu64 ", the limit is %" PRIu32, what,
                          *n, max);
    return BN_OK;
}

static bn_status read_all(struct cursor *c, struct bn_gguf *gguf)
{
    uint64_t n_tensors = 0, n_kv = 0;
    BN_TRY(read_version(c, &gguf->version));
    BN_TRY(take_count(c, "the number of tensors", MIN_INFO_BYTES, BN_GGUF_MAX_TENSORS, &n_tensors));
    BN_TRY(take_count(c, "the number of keys", MIN_KV_BYTES, BN_GGUF_MAX_KV, &n_kv));
    gguf->n_bytes = c->n_bytes;
    gguf->n_kv = (size_t)n_kv;
    gguf->n_tensors = (size_t)n_tensors;
    if (c->end > BN_GGUF_MAX_META_BYTES) c->end = BN_GGUF_MAX_META_BYTES;
    BN_TRY(read_keys(c, gguf));
    BN_TRY(read_alignment(c, gguf));
    return read_tensors(c, gguf);
}

bn_status bn_gguf_open(struct bn_gguf *gguf, const void *data, size_t n_bytes, bn_error *err)
{
    struct cursor c = {.base = data, .end = n_bytes, .n_bytes = n_bytes, .err = err};
    *gguf = (struct bn_gguf){0};
    bn_status status = read_all(&c, gguf);
    if (status != BN_OK) bn_gguf_close(gguf);
    return status;
}

void bn_gguf_close(struct bn_gguf *gguf)
{
    if (gguf == NULL) return;
    bn_free(gguf->kv);
    bn_free(gguf->tensors);
    bn_free(gguf->by_name);
    *gguf = (struct bn_gguf){0};
}

/* ---- Looking things up ---- */

const struct bn_gguf_kv *bn_gguf_find(const struct bn_gguf *gguf, const char *key)
{
    for (size_t i = 0; i < gguf->n_kv; i++)
        if (bn_str_equal(gguf->kv[i].key, key)) return &gguf->kv[i];
    return NULL;
}

const struct bn_gguf_tensor *bn_gguf_find_tensor(const struct bn_gguf *gguf, const char *name)
{
    struct bn_str wanted = {name, strlen(name)};
    size_t low = 0, high = gguf->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct bn_gguf_tensor *t = &gguf->tensors[gguf->by_name[middle]];
        int order = bn_str_compare(t->name, wanted);
        if (order == 0) return t;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
