/* SPDX-License-Identifier: MIT
 *
 * Reads the header of a safetensors file: 8 bytes with the length of a JSON object, the object, then the data.
 * The object maps the name of each tensor to dtype, shape and the range of its bytes in the data; "__metadata__"
 * maps strings to strings.
 *
 * The reader trusts nothing: the ranges must cover the data from the first byte to the last one, without gaps
 * and overlaps, and have the size that shape and type give; names are unique. An error names the byte offset
 * in the file. Data are not looked at. Nothing is copied but names.
 */
#ifndef BN_HUB_SAFETENSORS_H
#define BN_HUB_SAFETENSORS_H

#include "base/buf.h"

#define BN_ST_MAX_HEADER (100u << 20) /* as the reference reader */
#define BN_ST_MAX_TENSORS 65536u
#define BN_ST_MAX_NAME 512u
#define BN_ST_MAX_DIMS 8u

enum bn_st_type {
    BN_ST_BOOL,
    BN_ST_U8,
    BN_ST_I8,
    BN_ST_F8_E4M3,
    BN_ST_F8_E5M2,
    BN_ST_U16,
    BN_ST_I16,
    BN_ST_F16,
    BN_ST_BF16,
    BN_ST_U32,
    BN_ST_I32,
    BN_ST_F32,
    BN_ST_U64,
    BN_ST_I64,
    BN_ST_F64,
    BN_ST_TYPES
};

struct bn_st_tensor {
    char *name;
    enum bn_st_type type;
    uint32_t n_dims;
    uint64_t dims[BN_ST_MAX_DIMS]; /* rows first */
    const unsigned char *data;
    uint64_t n_bytes, offset; /* offset: of the data in the file */
    uint64_t info_offset;     /* of its entry in the file, for messages */
};

struct bn_safetensors {
    struct bn_st_tensor *tensors; /* by name */
    size_t n, room;
};

/* Parses n_bytes at data, which are borrowed. Zeroes *st on failure. */
BN_MUST_CHECK bn_status bn_safetensors_open(struct bn_safetensors *st, const void *data, size_t n_bytes,
                                            bn_error *err);
void bn_safetensors_close(struct bn_safetensors *st);
/* NULL when absent. */
const struct bn_st_tensor *bn_safetensors_find(const struct bn_safetensors *st, const char *name);

#endif
