/* SPDX-License-Identifier: MIT
 *
 * GGUF files, versions 2 and 3, little endian: reading from bytes in memory, and writing.
 *
 * Layout: header {magic "GGUF", u32 version, u64 n_tensors, u64 n_kv}; n_kv times {string key, u32 type,
 * value}; n_tensors times {string name, u32 n_dims, u64 ne[n_dims], u32 type, u64 offset}; padding to the
 * alignment; tensor data. A string is u64 length + bytes. ne[0] is the row length. Offsets count from the
 * start of the data.
 *
 * The reader trusts nothing: one bounded cursor, every size by checked arithmetic, every count is compared
 * with the bytes that are left and then with the limits below. When bn_gguf_open returns BN_OK, every
 * key, string and tensor lies inside the bytes, no two tensors overlap, keys and tensor names are unique
 * plain UTF-8, and every tensor's type is one that this engine reads. Nothing is copied but the two indexes.
 * Bytes after the last tensor and gaps between tensors are accepted.
 */
#ifndef BN_MODEL_GGUF_H
#define BN_MODEL_GGUF_H

#include "base/buf.h"
#include "gguf/types.h"

#define BN_GGUF_MAX_KV 4096u
#define BN_GGUF_MAX_TENSORS 65536u
#define BN_GGUF_MAX_KEY_BYTES 256u
#define BN_GGUF_MAX_NAME_BYTES 127u
#define BN_GGUF_MAX_STRING_BYTES (1u << 20)
#define BN_GGUF_MAX_TEMPLATE_BYTES (16u << 20) /* tokenizer.chat_template */
#define BN_GGUF_MAX_ARRAY (4u << 20)           /* elements; arrays of arrays are refused */
#define BN_GGUF_MAX_META_BYTES (256u << 20)    /* everything before the tensor data */
#define BN_GGUF_MAX_DIM ((1u << 31) - 1)
#define BN_GGUF_DEFAULT_ALIGNMENT 32u

enum bn_gguf_type {
    BN_GGUF_U8 = 0,
    BN_GGUF_I8 = 1,
    BN_GGUF_U16 = 2,
    BN_GGUF_I16 = 3,
    BN_GGUF_U32 = 4,
    BN_GGUF_I32 = 5,
    BN_GGUF_F32 = 6,
    BN_GGUF_BOOL = 7,
    BN_GGUF_STRING = 8,
    BN_GGUF_ARRAY = 9,
    BN_GGUF_U64 = 10,
    BN_GGUF_I64 = 11,
    BN_GGUF_F64 = 12,
    BN_GGUF_TYPE_COUNT
};

struct bn_gguf_kv {
    struct bn_str key;
    enum bn_gguf_type type;
    enum bn_gguf_type element;  /* of an array; else the type itself */
    uint64_t n;                 /* elements; 1 unless an array */
    const unsigned char *value; /* the first element as stored (unaligned) */
    uint64_t offset;            /* of the key in the file, for messages */
};

struct bn_gguf_tensor {
    struct bn_str name;
    uint32_t type; /* enum bn_type */
    uint32_t n_dims;
    uint64_t ne[4]; /* unused ones are 1 */
    uint64_t n_bytes;
    const unsigned char *data;
    uint64_t offset;      /* of the data in the file */
    uint64_t info_offset; /* of the description in the file, for messages */
};

struct bn_gguf {
    uint32_t version;
    uint32_t alignment;
    size_t n_kv, n_tensors;
    struct bn_gguf_kv *kv;          /* in file order */
    struct bn_gguf_tensor *tensors; /* in file order */
    uint64_t data_offset;
    uint64_t n_bytes;  /* of the file */
    uint32_t *by_name; /* private: tensor indexes sorted by name */
};

/* Parses n_bytes at data, which are borrowed. Zeroes *gguf on failure. */
BN_MUST_CHECK bn_status bn_gguf_open(struct bn_gguf *gguf, const void *data, size_t n_bytes, bn_error *err);
void bn_gguf_close(struct bn_gguf *gguf);

/* NULL when absent. */
const struct bn_gguf_kv *bn_gguf_find(const struct bn_gguf *gguf, const char *key);
const struct bn_gguf_tensor *bn_gguf_find_tensor(const struct bn_gguf *gguf, const char *name);

/* One value. The integer forms take any stored integer type whose value fits; the others want the very type.
 * An absent key leaves *out alone and returns BN_ERR_NOT_FOUND without touching err, so that a caller can
 * have a default; a wrong type is BN_ERR_FORMAT with the key and its offset. */
bn_status bn_gguf_u32(const struct bn_gguf *gguf, const char *key, uint32_t *out, bn_error *err);
bn_status bn_gguf_f32(const struct bn_gguf *gguf, const char *key, float *out, bn_error *err);
bn_status bn_gguf_bool(const struct bn_gguf *gguf, const char *key, bool *out, bn_error *err);
bn_status bn_gguf_str(const struct bn_gguf *gguf, const char *key, struct bn_str *out, bn_error *err);
/* An array of this element type; BN_ERR_NOT_FOUND and BN_ERR_FORMAT as above. */
bn_status bn_gguf_array(const struct bn_gguf *gguf, const char *key, enum bn_gguf_type element,
                        const struct bn_gguf_kv **out, bn_error *err);
/* What such a function returned, where an absent key is as good. */
static inline bn_status bn_gguf_optional(bn_status status)
{
    return status == BN_ERR_NOT_FOUND ? BN_OK : status;
}
/* The same where it is an error, "missing key". */
bn_status bn_gguf_required(bn_status status, const char *key, bn_error *err);
/* A number of n bytes as it is stored, little endian. */
static inline uint64_t bn_gguf_number(const unsigned char *p, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}
/* The string at *cursor, which starts as kv->value and is moved to the next element. */
struct bn_str bn_gguf_next_str(const unsigned char **cursor);
/* Bytes of one element of a fixed-size type, 0 for strings and arrays. */
size_t bn_gguf_type_bytes(enum bn_gguf_type type);
const char *bn_gguf_type_name(enum bn_gguf_type type);

/* ---- Writing ---- */

/* Keys first, then tensors' descriptions, then their data in the same order; each step appends to out, so
 * that a file is the same bytes everywhere. Large tensors need not be in memory: write the head with
 * bn_gguf_write_head, then stream the data with the padding that bn_gguf_padding names. */
struct bn_gguf_writer {
    struct bn_buf kv, infos; /* set max before use */
    const char *arch;        /* comes before keys that begin with a dot; NULL: there are none */
    uint64_t n_kv, n_tensors;
    uint64_t data_bytes; /* of the tensors so far, padded */
    uint32_t alignment;  /* 0: 32, and no key says so; else set before the first tensor, and the head gets
                          * general.alignment as its last key */
};

void bn_gguf_put_u32(struct bn_gguf_writer *w, const char *key, uint32_t value);
void bn_gguf_put_f32(struct bn_gguf_writer *w, const char *key, float value);
void bn_gguf_put_bool(struct bn_gguf_writer *w, const char *key, bool value);
void bn_gguf_put_str(struct bn_gguf_writer *w, const char *key, const char *value, size_t n_bytes);
/* Starts an array; then n elements follow by bn_buf_append(&w->kv, ...) or the functions after this one. */
void bn_gguf_put_array(struct bn_gguf_writer *w, const char *key, enum bn_gguf_type element, uint64_t n);
/* A string as files have it: its length and its bytes; an element of an array in &w->kv. */
void bn_gguf_put_text(struct bn_buf *buf, const char *text, size_t n);
void bn_gguf_put_element_i32(struct bn_gguf_writer *w, int32_t value);
void bn_gguf_put_element_f32(struct bn_gguf_writer *w, float value);
/* Declares the next tensor. A shape or type that bn_type_bytes refuses makes bn_gguf_write_head fail. */
void bn_gguf_put_tensor(struct bn_gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                        const uint64_t *ne);
/* Everything before the data, padded. */
BN_MUST_CHECK bn_status bn_gguf_write_head(const struct bn_gguf_writer *w, struct bn_buf *out, bn_error *err);
/* The error for bytes that do not begin with "GGUF": it names the format that they look like. */
bn_status bn_gguf_fail_kind(const void *data, uint64_t n_bytes, bn_error *err);
/* Zero bytes to write after n bytes of tensor data. */
uint64_t bn_gguf_padding(const struct bn_gguf_writer *w, uint64_t n);
void bn_gguf_writer_release(struct bn_gguf_writer *w);

/* ---- placing tensors ---- */

#define BN_GGUF_NAMED_BYTES (BN_GGUF_MAX_KEY_BYTES + 16u)

/* "key 'general.name'", for messages. Returns out. */
const char *bn_gguf_named(char out[BN_GGUF_NAMED_BYTES], const char *kind, struct bn_str name);

/* Checks that all tensors lie inside the file and that none overlaps the next, and sets their data. On entry
 * offsets count from gguf->data_offset, on return from `base`, the start of the file. by_offset: indexes of
 * the tensors in the order of their offsets. Settles the type of tensors of type 42: BN_TYPE_Q2_0 or
 * BN_TYPE_PQ2_0. BN_ERR_FORMAT, BN_ERR_UNSUPPORTED when the room for a tensor shows another layout. */
BN_MUST_CHECK bn_status bn_gguf_place(struct bn_gguf *gguf, const unsigned char *base,
                                      const uint32_t *by_offset, bn_error *err);

#endif
