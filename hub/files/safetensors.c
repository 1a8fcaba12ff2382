/* SPDX-License-Identifier: MIT
 *
 * Reads headers of safetensors files; see safetensors.h.
 */
#include "hub/files/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"

#define LENGTH_BYTES 8u
#define FAIL(code, ...) bn_fail_at(r->scan.err, BN_ERR_##code, __VA_ARGS__)

static const struct {
    const char *name;
    uint32_t bytes;
} TYPES[BN_ST_TYPES] = {
    [BN_ST_BOOL] = {"BOOL", 1},       [BN_ST_U8] = {"U8", 1},           [BN_ST_I8] = {"I8", 1},
    [BN_ST_F8_E4M3] = {"F8_E4M3", 1}, [BN_ST_F8_E5M2] = {"F8_E5M2", 1}, [BN_ST_U16] = {"U16", 2},
    [BN_ST_I16] = {"I16", 2},         [BN_ST_F16] = {"F16", 2},         [BN_ST_BF16] = {"BF16", 2},
    [BN_ST_U32] = {"U32", 4},         [BN_ST_I32] = {"I32", 4},         [BN_ST_F32] = {"F32", 4},
    [BN_ST_U64] = {"U64", 8},         [BN_ST_I64] = {"I64", 8},         [BN_ST_F64] = {"F64", 8},
};

struct reader {
    struct bn_safetensors *st;
    struct bn_scan scan;
    struct bn_buf text; /* the string read last */
    const unsigned char *data;
    uint64_t n_data, data_offset;
};

/* ---- one tensor ---- */

enum { HAS_TYPE = 1, HAS_SHAPE = 2, HAS_RANGE = 4, HAS_ALL = 7 };

static bn_status take_type(struct reader *r, struct bn_st_tensor *t)
{
    uint64_t at = bn_scan_offset(&r->scan);
    BN_TRY(bn_scan_string(&r->scan, &r->text));
    t->type = (enum bn_st_type)BN_FIND(TYPES, bn_buf_text(&r->text));
    if (t->type < BN_ST_TYPES) return BN_OK;
    char shown[32];
    return FAIL(UNSUPPORTED, at, t->name, "the type '%s' is not supported",
                bn_escape(shown, sizeof shown, r->text.data, r->text.len));
}

/* An array of at most max numbers. */
static bn_status take_numbers(struct reader *r, const char *name, uint64_t *out, uint32_t max, uint32_t *n)
{
    bool more = true;
    *n = 0;
    BN_TRY(bn_scan_open(&r->scan, '['));
    for (;;) {
        BN_TRY(bn_scan_more(&r->scan, ']', &more));
        if (!more) return BN_OK;
        if (*n == max) return FAIL(FORMAT, bn_scan_offset(&r->scan), name, "the array has too many numbers");
        BN_TRY(bn_scan_u64(&r->scan, &out[(*n)++]));
    }
}

/* The range must lie in the data and have the size of the tensor. */
static bn_status check_range(struct reader *r, struct bn_st_tensor *t, const uint64_t range[2], uint64_t at)
{
    uint64_t size = TYPES[t->type].bytes;
    for (uint32_t d = 0; d < t->n_dims; d++)
        if (!bn_mul_ok(size, t->dims[d], &size))
            return FAIL(FORMAT, at, t->name, "its size in bytes overflows");
    if (range[0] > range[1] || range[1] > r->n_data)
        return FAIL(FORMAT, at, t->name,
                    "its range %" PRIu64 " to %" PRIu64 " is not within the %" PRIu64 " bytes of data",
                    range[0], range[1], r->n_data);
    if (range[1] - range[0] != size)
        return FAIL(FORMAT, at, t->name, "its range has %" PRIu64 " bytes, type and shape give %" PRIu64,
                    range[1] - range[0], size);
    t->n_bytes = size;
    t->data = r->data + range[0];
    t->offset = r->data_offset + range[0];
    return BN_OK;
}

static bn_status take_member(struct reader *r, struct bn_st_tensor *t, uint64_t range[2], unsigned *has)
{
    uint64_t at = bn_scan_offset(&r->scan);
    uint32_t n = 0;
    BN_TRY(bn_scan_name(&r->scan, &r->text));
    const char *name = bn_buf_text(&r->text);
    unsigned which = strcmp(name, "dtype") == 0          ? HAS_TYPE
                     : strcmp(name, "shape") == 0        ? HAS_SHAPE
                     : strcmp(name, "data_offsets") == 0 ? HAS_RANGE
                                                         : 0;
    if (which == 0) return FAIL(FORMAT, at, t->name, "a member is not dtype, shape or data_offsets");
    if ((*has & which) != 0) return FAIL(FORMAT, at, t->name, "duplicate member");
    *has |= which;
    if (which == HAS_TYPE) return take_type(r, t);
    if (which == HAS_SHAPE) return take_numbers(r, t->name, t->dims, BN_ST_MAX_DIMS, &t->n_dims);
    BN_TRY(take_numbers(r, t->name, range, 2, &n));
    return n == 2 ? BN_OK : FAIL(FORMAT, at, t->name, "data_offsets are not two numbers");
}

static bn_status take_tensor(struct reader *r, struct bn_st_tensor *t)
{
    uint64_t range[2] = {0, 0};
    unsigned has = 0;
    bool more = true;
    BN_TRY(bn_scan_open(&r->scan, '{'));
    for (;;) {
        BN_TRY(bn_scan_more(&r->scan, '}', &more));
        if (!more) break;
        BN_TRY(take_member(r, t, range, &has));
    }
    if (has != HAS_ALL)
        return FAIL(FORMAT, t->info_offset, t->name, "dtype, shape or data_offsets is missing");
    return check_range(r, t, range, t->info_offset);
}

/* ---- the header ---- */

static bn_status take_metadata(struct reader *r)
{
    bool more = true;
    BN_TRY(bn_scan_open(&r->scan, '{'));
    for (;;) {
        BN_TRY(bn_scan_more(&r->scan, '}', &more));
        if (!more) return BN_OK;
        BN_TRY(bn_scan_name(&r->scan, &r->text));
        BN_TRY(bn_scan_string(&r->scan, &r->text));
    }
}

static bn_status take_entry(struct reader *r, bool *has_metadata)
{
    uint64_t at = bn_scan_offset(&r->scan);
    BN_TRY(bn_scan_name(&r->scan, &r->text));
    if (strcmp(bn_buf_text(&r->text), "__metadata__") == 0) {
        if (*has_metadata) return FAIL(FORMAT, at, "__metadata__", "duplicate name");
        *has_metadata = true;
        return take_metadata(r);
    }
    if (r->text.len == 0 || r->text.len > BN_ST_MAX_NAME)
        return FAIL(LIMIT, at, NULL, "a name has %zu bytes, not 1 to %u", r->text.len, BN_ST_MAX_NAME);
    if (r->st->n == BN_ST_MAX_TENSORS)
        return FAIL(LIMIT, at, NULL, "more than %u tensors", BN_ST_MAX_TENSORS);
    BN_TRY(bn_array_grow(&r->st->tensors, &r->st->room, r->st->n + 1, sizeof *r->st->tensors, r->scan.err));
    struct bn_st_tensor *t = &r->st->tensors[r->st->n++];
    *t = (struct bn_st_tensor){.name = bn_strndup(r->text.data, r->text.len), .info_offset = at};
    return t->name != NULL ? take_tensor(r, t) : bn_nomem(r->scan.err);
}

static int by_place(const void *a, const void *b)
{
    const struct bn_st_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
    return (x->info_offset > y->info_offset) - (x->info_offset < y->info_offset);
}

static int by_name(const void *a, const void *b)
{
    const struct bn_st_tensor *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->info_offset > y->info_offset) - (x->info_offset < y->info_offset);
}

/* From the first byte to the last, no gap, no overlap. */
static bn_status check_cover(struct reader *r)
{
    uint64_t end = r->data_offset;
    struct bn_safetensors *st = r->st;
    if (st->n > 0) qsort(st->tensors, st->n, sizeof *st->tensors, by_place);
    for (size_t i = 0; i < st->n; i++) {
        const struct bn_st_tensor *t = &st->tensors[i];
        if (t->offset < end)
            return FAIL(FORMAT, t->info_offset, t->name, "its data overlap those of another tensor");
        if (t->offset > end)
            return FAIL(FORMAT, t->info_offset, t->name,
                        "%" PRIu64 " bytes before its data belong to no tensor", t->offset - end);
        end = t->offset + t->n_bytes;
    }
    if (end == r->data_offset + r->n_data) return BN_OK;
    return FAIL(FORMAT, end, NULL, "%" PRIu64 " bytes at the end of the file belong to no tensor",
                r->data_offset + r->n_data - end);
}

static bn_status check_names(struct reader *r)
{
    struct bn_safetensors *st = r->st;
    if (st->n > 0) qsort(st->tensors, st->n, sizeof *st->tensors, by_name);
    for (size_t i = 1; i < st->n; i++)
        if (strcmp(st->tensors[i - 1].name, st->tensors[i].name) == 0)
            return FAIL(FORMAT, st->tensors[i].info_offset, st->tensors[i].name, "duplicate name");
    return BN_OK;
}

static bn_status read_header(struct reader *r)
{
    bool more = true, has_metadata = false;
    BN_TRY(bn_scan_open(&r->scan, '{'));
    for (;;) {
        BN_TRY(bn_scan_more(&r->scan, '}', &more));
        if (!more) break;
        BN_TRY(take_entry(r, &has_metadata));
    }
    BN_TRY(bn_scan_end(&r->scan));
    BN_TRY(check_names(r));
    BN_TRY(check_cover(r));
    return check_names(r); /* sorts again: tensors are found by name */
}

static bn_status find_header(struct reader *r, const unsigned char *data, size_t n_bytes)
{
    uint64_t n = 0;
    if (n_bytes < LENGTH_BYTES)
        return FAIL(FORMAT, n_bytes, NULL,
                    "not a safetensors file: it has %zu bytes, its length field needs %u", n_bytes,
                    LENGTH_BYTES);
    for (size_t i = LENGTH_BYTES; i-- > 0;)
        n = n << 8 | data[i];
    if (n > n_bytes - LENGTH_BYTES)
        return FAIL(FORMAT, 0, NULL,
                    "not a safetensors file, or cut off: a header of %" PRIu64 " bytes in %zu bytes", n,
                    n_bytes - LENGTH_BYTES);
    if (n > BN_ST_MAX_HEADER)
        return FAIL(LIMIT, 0, NULL, "the header has %" PRIu64 " bytes, the limit is %u", n, BN_ST_MAX_HEADER);
    if (n == 0 || data[LENGTH_BYTES] != '{')
        return FAIL(FORMAT, LENGTH_BYTES, NULL, "not a safetensors file: the header does not begin with '{'");
    r->scan.text = (const char *)data + LENGTH_BYTES;
    r->scan.n = (size_t)n;
    r->scan.base = LENGTH_BYTES;
    r->data_offset = LENGTH_BYTES + n;
    r->data = data + r->data_offset;
    r->n_data = n_bytes - r->data_offset;
    return BN_OK;
}

bn_status bn_safetensors_open(struct bn_safetensors *st, const void *data, size_t n_bytes, bn_error *err)
{
    struct reader r = {.st = st, .scan.err = err, .text.max = BN_ST_MAX_HEADER};
    *st = (struct bn_safetensors){0};
    bn_status status = find_header(&r, data, n_bytes);
    if (status == BN_OK) status = read_header(&r);
    bn_buf_release(&r.text);
    if (status != BN_OK) bn_safetensors_close(st);
    return status;
}

void bn_safetensors_close(struct bn_safetensors *st)
{
    for (size_t i = 0; i < st->n; i++)
        bn_free(st->tensors[i].name);
    bn_free(st->tensors);
    *st = (struct bn_safetensors){0};
}

static int has_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct bn_st_tensor *)tensor)->name);
}

const struct bn_st_tensor *bn_safetensors_find(const struct bn_safetensors *st, const char *name)
{
    return st->n > 0 ? bsearch(name, st->tensors, st->n, sizeof *st->tensors, has_name) : NULL;
}
