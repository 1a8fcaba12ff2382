/* SPDX-License-Identifier: MIT
 *
 * Bringing ternary weights into the forms that kernels read (weights.h).
 *
 * Weights of one scale. I2_S, in files and in memory: blocks of 128 elements in 32 bytes, element j in byte j mod 32 at
 * bits 6 - 2*(j / 32); codes 0, 1, 2 for -1, 0, +1; after the codes of the whole tensor one binary32 scale.
 *
 * Weights with a scale for each group: Q2_0, PQ2_0, PTQ1_0, TQ1_0 and TQ2_0 stay in the file as they are, and F32, F16,
 * BF16 whose groups of 64 hold only -s, 0 and +s with a binary16 s become Q2_0 in memory. repack.c makes tiles of them
 * where that is faster. TQ2_0: blocks of 256 in 64 bytes + binary16 scale, element 128h + 32n + m in byte 32h + m at
 * bits 2n. TQ1_0: blocks of 256 in 48 + 4 bytes of five trits each + binary16 scale; it holds the same integers.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/team.h"
#include "gguf/types.h"
#include "model/weights.h"

#define FLOAT_GROUP 64u
#define FLOAT_BLOCK_BYTES (2 + FLOAT_GROUP / 4)
#define FLOAT_CHUNK 512u
/* Larger models are not read when they are opened. A scale that is not finite shows in the first result. */
#define CHECKED_BYTES ((size_t)64 << 20)

void *bn_model_own(struct bn_model *m, size_t n, size_t each)
{
    void **copies = bn_realloc(m->copies, m->n_copies + 1, sizeof *copies);
    if (copies == NULL) return NULL;
    m->copies = copies;
    copies[m->n_copies] = bn_alloc_aligned(n, each);
    return copies[m->n_copies] != NULL ? copies[m->n_copies++] : NULL;
}

/* ---- one pass over the rows ---- */

/* A team of threads divides the rows; the lowest bad row is reported, so that the message is the same with any number
 * of them. */
struct scan {
    const struct bn_model *model;
    const struct bn_linear *linear;
    const struct bn_gguf_tensor *tensor;
    uint8_t *packed;    /* floats: the rows that are made of them */
    size_t block_bytes; /* of a group in the file */
    bool refuse_code3;
    _Atomic uint64_t bad_at;                          /* lowest bad row, UINT64_MAX for none */
    bool (*row)(const struct scan *scan, size_t row); /* false for a bad one; row: of linear->w */
};

static void scan_share(void *arg, unsigned thread, unsigned n_threads)
{
    struct scan *scan = arg;
    size_t begin, end;
    bn_team_share(scan->linear->w.rows, BN_TILE_ROWS, thread, n_threads, &begin, &end);
    for (size_t r = begin; r < end; r++) {
        if (scan->row(scan, r)) continue;
        uint_fast64_t seen = atomic_load(&scan->bad_at);
        while (r < seen && !atomic_compare_exchange_weak(&scan->bad_at, &seen, r)) {
        }
        return;
    }
}

/* Whether there is a bad row; its number in the tensor. */
static bool has_bad_row(struct scan *scan, bool (*row)(const struct scan *, size_t), size_t *bad)
{
    scan->row = row;
    atomic_store(&scan->bad_at, UINT64_MAX);
    /* More threads are faster from about a megabyte on. */
    bn_team_once(scan->tensor->n_bytes < 1u << 20 ? 1 : bn_team_cores(), scan_share, scan);
    uint64_t first = atomic_load(&scan->bad_at);
    *bad = scan->linear->first + (size_t)first;
    return first != UINT64_MAX;
}

/* ---- I2_S ---- */

static bool is_good_i2s_row(const struct scan *scan, size_t r)
{
    const struct bn_ternary *w = &scan->linear->w;
    return !scan->model->kernels->has_code3(w->stored + r * w->row_bytes, w->row_bytes);
}

/* Rows of I2_S at `stored`, padded to the block. */
static void take_i2s(struct bn_linear *lin, const uint8_t *stored)
{
    lin->w.k = (lin->k + BN_I2S_BLOCK - 1) / BN_I2S_BLOCK * BN_I2S_BLOCK;
    lin->w.group = BN_I2S_BLOCK;
    lin->w.blocks = BN_BLOCKS_I2S;
    lin->w.stored = stored;
    lin->w.row_bytes = lin->row_bytes = lin->w.k / 4;
}

static bn_status prepare_i2s(const struct bn_model *m, struct bn_linear *lin, const struct bn_gguf_tensor *t,
                             bool skip, bn_error *err)
{
    take_i2s(lin, t->data + lin->first * (lin->k / 4));
    uint64_t n_codes = (uint64_t)lin->rows * lin->row_bytes;
    memcpy(&lin->w.scale, t->data + n_codes, sizeof lin->w.scale);
    if (!isfinite(lin->w.scale) || lin->w.scale <= 0.0f)
        return bn_fail_at(err, BN_ERR_FORMAT, t->offset + n_codes, NULL, "scale %g is not a positive number",
                          (double)lin->w.scale);
    struct scan scan = {.model = m, .linear = lin, .tensor = t};
    size_t bad;
    if (skip || !has_bad_row(&scan, is_good_i2s_row, &bad)) return BN_OK;
    return bn_hint(bn_fail_at(err, BN_ERR_FORMAT, t->offset + bad * lin->row_bytes, NULL,
                              "row %zu holds the code 3, which is not a weight", bad),
                   err, "the file is damaged or packed in another layout");
}

/* ---- floats to I2_S ---- */

/* row: of the tensor. */
static void widen(const struct scan *scan, float *out, size_t row, size_t from, size_t n)
{
    const struct bn_gguf_tensor *t = scan->tensor;
    size_t at = row * scan->linear->k + from;
    bn_widen(scan->model->kernels, t->type, out, t->data + at * (t->type == BN_TYPE_F32 ? 4 : 2), n);
}

static bool pack_float_row(const struct scan *scan, size_t r)
{
    const struct bn_ternary *w = &scan->linear->w;
    uint8_t *out = scan->packed + r * w->row_bytes;
    float values[FLOAT_CHUNK];
    memset(out, 0, w->row_bytes);
    for (size_t from = 0; from < w->k; from += FLOAT_CHUNK) {
        size_t n = from < scan->linear->k ? bn_min_size(FLOAT_CHUNK, scan->linear->k - from) : 0;
        widen(scan, values, scan->linear->first + r, from, n);
        for (size_t i = 0; i < bn_min_size(FLOAT_CHUNK, w->k - from); i++) {
            float v = i < n ? values[i] : 0.0f;
            unsigned code = v == w->scale ? 2u : v == -w->scale ? 0u : 1u;
            if (code == 1 && v != 0.0f) return false;
            size_t j = from + i;
            out[j / 128 * 32 + j % 32] |= (uint8_t)(code << (6 - 2 * (j % 128 / 32)));
        }
    }
    return true;
}

/* The magnitude of the first weight of the tensor that is not zero; 1 when all are. */
static float first_magnitude(const struct scan *scan)
{
    float values[FLOAT_CHUNK];
    for (size_t r = 0; r < scan->linear->rows; r++)
        for (size_t from = 0; from < scan->linear->k; from += FLOAT_CHUNK) {
            size_t n = bn_min_size(FLOAT_CHUNK, scan->linear->k - from);
            widen(scan, values, r, from, n);
            for (size_t i = 0; i < n; i++)
                if (values[i] != 0.0f) return fabsf(values[i]);
        }
    return 1.0f;
}

static bn_status prepare_floats(struct bn_model *m, struct bn_linear *lin, const struct bn_gguf_tensor *t,
                                bn_error *err)
{
    uint8_t *rows =
        bn_model_own(m, lin->w.rows, (lin->k + BN_I2S_BLOCK - 1) / BN_I2S_BLOCK * (BN_I2S_BLOCK / 4));
    if (rows == NULL) return bn_nomem(err);
    take_i2s(lin, rows);
    struct scan scan = {.model = m, .linear = lin, .tensor = t, .packed = rows};
    size_t bad;
    lin->w.scale = first_magnitude(&scan);
    if (!isfinite(lin->w.scale))
        return bn_fail_at(err, BN_ERR_FORMAT, t->offset, NULL, "a weight is not finite");
    if (!has_bad_row(&scan, pack_float_row, &bad)) return BN_OK;
    return bn_hint(bn_fail_at(err, BN_ERR_UNSUPPORTED, t->offset + bad * (t->n_bytes / lin->rows), NULL,
                              "row %zu has a weight that is not -s, 0 or +s with s = %g", bad,
                              (double)lin->w.scale),
                   err, "this engine runs ternary linear layers only");
}

/* ---- a scale for each group: rows ---- */

static bool is_good_block(const struct scan *scan, const uint8_t *block)
{
    const uint8_t *scale = scan->linear->w.blocks == BN_BLOCKS_Q2 ? block : block + scan->block_bytes - 2;
    if (scan->refuse_code3 && scan->model->kernels->has_code3(block, BN_TQ2_BLOCK / 4)) return false;
    return (scale[1] & 0x7Cu) != 0x7Cu; /* finite */
}

/* False when the group is not ternary. */
static bool pack_floats(const struct scan *scan, uint8_t *out, const uint8_t *block)
{
    float x[FLOAT_GROUP], max = 0.0f, back;
    int8_t values[FLOAT_GROUP];
    uint16_t scale;
    bn_widen(scan->model->kernels, scan->tensor->type, x, block, FLOAT_GROUP);
    for (size_t i = 0; i < FLOAT_GROUP; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    for (size_t i = 0; i < FLOAT_GROUP; i++) {
        if (x[i] != 0.0f && fabsf(x[i]) != max) return false; /* a NaN as well */
        values[i] = (int8_t)(x[i] > 0.0f ? 1 : x[i] < 0.0f ? -1 : 0);
    }
    scan->model->kernels->f32_to_f16(&scale, &max, 1);
    scan->model->kernels->f16_to_f32(&back, &scale, 1);
    bn_pack_q2(out, values, FLOAT_GROUP, scale);
    return back == max && (scale & 0x7C00u) != 0x7C00u;
}

static bool take_row(const struct scan *scan, size_t r)
{
    const struct bn_linear *lin = scan->linear;
    size_t n_groups = lin->w.k / lin->w.group;
    const uint8_t *block = scan->tensor->data + (lin->first + r) * n_groups * scan->block_bytes;
    for (size_t g = 0; g < n_groups; g++, block += scan->block_bytes) {
        bool good = scan->packed == NULL
                        ? is_good_block(scan, block)
                        : pack_floats(scan, scan->packed + (r * n_groups + g) * FLOAT_BLOCK_BYTES, block);
        if (!good) return false;
    }
    return true;
}

/* ---- which layout ---- */

static bool is_plausible_scale(const uint8_t *at)
{
    unsigned half = at[0] | (unsigned)at[1] << 8;
    return half <= 0x5400u; /* 0 to 64 */
}

/* Blocks of 34 bytes exist with the scale last as well (TQ2_0_g128 of oxibonsai). Two bytes of codes, read as a
 * scale, are negative or huge in every second block or so. */
static bool has_scale_last(const struct bn_gguf_tensor *t)
{
    size_t n_blocks = bn_min_size((size_t)(t->n_bytes / 34), 4096), n_first = 0, n_last = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        n_first += is_plausible_scale(t->data + 34 * b);
        n_last += is_plausible_scale(t->data + 34 * b + 32);
    }
    return n_first < n_blocks && n_last == n_blocks;
}

uint32_t bn_grouped_size(uint32_t type)
{
    const struct bn_type_info *info = bn_type_info(type);
    if (info == NULL || type == BN_TYPE_I2_S) return 0;
    return info->is_float ? FLOAT_GROUP : info->unpack != NULL ? info->block : 0;
}

static enum bn_blocks blocks_of(uint32_t type)
{
    return type == BN_TYPE_PTQ1_0  ? BN_BLOCKS_PTQ1
           : type == BN_TYPE_TQ1_0 ? BN_BLOCKS_TQ1
           : type == BN_TYPE_TQ2_0 ? BN_BLOCKS_TQ2
                                   : BN_BLOCKS_Q2;
}

static bn_status fail_row(const struct scan *scan, size_t row, bn_error *err)
{
    uint64_t offset = scan->tensor->offset + row * (scan->tensor->n_bytes / scan->linear->rows);
    if (scan->packed == NULL)
        return bn_fail_at(err, BN_ERR_FORMAT, offset, NULL, "row %zu holds %sa scale that is not finite", row,
                          scan->refuse_code3 ? "the code 3 or " : "");
    return bn_hint(
        bn_fail_at(err, BN_ERR_UNSUPPORTED, offset, NULL,
                   "row %zu has a group of %u weights that are not all -s, 0 or +s with a binary16 s", row,
                   FLOAT_GROUP),
        err, "this engine runs ternary linear layers only");
}

/* The size of the groups, and the order of the bytes. */
static bn_status check_layout(struct bn_model *m, const struct bn_linear *lin, const struct bn_gguf_tensor *t,
                              bn_error *err)
{
    size_t group = bn_grouped_size(t->type);
    if (m->group == 0 && lin != &m->head_linear) m->group = (uint32_t)group;
    if (group == 0 || (lin != &m->head_linear && group != m->group)) {
        const struct bn_type_info *info = bn_type_info(t->type);
        return bn_hint(
            bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, NULL,
                       "a linear layer stored as %s in a model whose weights have a scale for each %u",
                       info != NULL ? info->name : "?", m->group),
            err, "all linear layers of a model must have groups of one size");
    }
    if (lin->k % group != 0)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, NULL,
                          "rows of %zu weights are not a multiple of the group of %zu", lin->k, group);
    if (t->type == BN_TYPE_PQ2_0 && has_scale_last(t))
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->offset, NULL,
                          "the scale is after the codes of a block, not before them as in PQ2_0");
    return BN_OK;
}

bn_status bn_grouped_prepare(struct bn_model *m, struct bn_linear *lin, const struct bn_gguf_tensor *t,
                             bool skip_code_check, bn_error *err)
{
    BN_TRY(check_layout(m, lin, t, err));
    const struct bn_type_info *info = bn_type_info(t->type);
    size_t rows = lin->w.rows, group = bn_grouped_size(t->type), n_groups = lin->k / group;
    bool is_float = info->block == 1;
    struct scan scan = {.model = m, .linear = lin, .tensor = t};
    scan.block_bytes = (size_t)info->block_bytes * (group / info->block);
    /* Where activations have 8 bits, the code 3 is a damaged file, as in I2_S; else it is the weight +2. */
    scan.refuse_code3 = t->type == BN_TYPE_TQ2_0 && !m->wide && !skip_code_check;
    lin->row_bytes = lin->k / 4 + n_groups * 2;
    lin->w = (struct bn_ternary){.rows = rows, .k = lin->k, .group = group};
    lin->w.blocks = blocks_of(t->type);
    lin->w.stored = t->data + lin->first * n_groups * scan.block_bytes;
    lin->w.row_bytes = n_groups * scan.block_bytes;
    if (is_float) {
        lin->w.row_bytes = n_groups * FLOAT_BLOCK_BYTES;
        scan.packed = bn_model_own(m, rows, lin->w.row_bytes);
        if (scan.packed == NULL) return bn_nomem(err);
        lin->w.stored = scan.packed;
    } else if (m->n_bytes > CHECKED_BYTES && !scan.refuse_code3) {
        return BN_OK;
    }
    size_t bad;
    if (has_bad_row(&scan, take_row, &bad)) return fail_row(&scan, bad, err);
    if (is_float) bn_file_map_forget(&m->map, t->data, (size_t)t->n_bytes);
    return BN_OK;
}

/* ---- the one entry ---- */

bn_status bn_ternary_prepare(struct bn_model *m, struct bn_linear *lin, const struct bn_gguf_tensor *t,
                             bool skip, bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(t->type);
    uint32_t group = bn_grouped_size(t->type);
    if (m->wide) return bn_grouped_prepare(m, lin, t, skip, err);
    if (group != 0 && (!info->is_float || m->group == group)) return bn_grouped_prepare(m, lin, t, skip, err);
    if (t->type == BN_TYPE_I2_S) return prepare_i2s(m, lin, t, skip, err);
    if (group != 0) return prepare_floats(m, lin, t, err);
    return bn_hint(bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, NULL,
                              "a linear layer stored as %s is not ternary", info != NULL ? info->name : "?"),
                   err,
                   "linear layers may be I2_S, TQ1_0, TQ2_0, Q2_0, PQ2_0, PTQ1_0, or F32, F16, BF16 with "
                   "values -s, 0, +s");
}
