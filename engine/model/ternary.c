/* SPDX-License-Identifier: MIT
 *
 * Bringing ternary weights into the forms that kernels read (bn_ternary_prepare in weights.h).
 *
 * I2_S, in files and in memory: blocks of 128 elements in 32 bytes, element j in byte j mod 32 at bits 6 -
 * 2*(j / 32); codes 0, 1, 2 for -1, 0, +1; after the codes of the whole tensor one binary32 scale. TQ2_0:
 * blocks of 256 in 64 bytes + binary16 scale, element 128h + 32n + m in byte 32h + m at bits 2n. TQ1_0:
 * blocks of 256 in 48 + 4 bytes of five trits each + binary16 scale; it holds the same integers as TQ2_0.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/team.h"
#include "model/weights.h"

void *bn_model_own(struct bn_model *m, size_t n, size_t each)
{
    void **copies = bn_realloc(m->copies, m->n_copies + 1, sizeof *copies);
    if (copies == NULL) return NULL;
    m->copies = copies;
    copies[m->n_copies] = bn_alloc_aligned(n, each);
    return copies[m->n_copies] != NULL ? copies[m->n_copies++] : NULL;
}

/* ---- checks of weights that stay in place ---- */

/* A team of threads checks ranges of rows; the lowest bad row is reported, so that the message is the
 * same with any number of them. */
struct scan {
    const struct bn_model *model;
    const struct bn_linear *linear;
    const struct bn_gguf_tensor *tensor;
    float scale;             /* of a float tensor: what every weight must be a multiple of */
    _Atomic uint64_t bad_at; /* lowest bad row, UINT64_MAX for none */
    size_t n_rows;
    void (*row)(struct scan *scan, size_t row);
};

static void mark_bad(struct scan *scan, size_t row)
{
    uint_fast64_t seen = atomic_load(&scan->bad_at);
    while (row < seen && !atomic_compare_exchange_weak(&scan->bad_at, &seen, row)) {
    }
}

static void scan_share(void *arg, unsigned thread, unsigned n_threads)
{
    struct scan *scan = arg;
    size_t begin, end;
    bn_team_share(scan->n_rows, 16, thread, n_threads, &begin, &end);
    for (size_t r = begin; r < end; r++)
        scan->row(scan, r);
}

static size_t scan_rows(struct scan *scan, void (*row)(struct scan *, size_t))
{
    scan->row = row;
    scan->n_rows = scan->linear->w.rows;
    atomic_store(&scan->bad_at, UINT64_MAX);
    /* More threads are faster from about a megabyte on. */
    unsigned n_threads = scan->tensor->n_bytes < 1u << 20 ? 1 : bn_team_cores();
    bn_team_once(n_threads, scan_share, scan);
    return (size_t)atomic_load(&scan->bad_at);
}

static void check_i2s_row(struct scan *scan, size_t r)
{
    const struct bn_ternary *w = &scan->linear->w;
    if (scan->model->kernels->has_code3(w->stored + r * w->row_bytes, w->row_bytes)) mark_bad(scan, r);
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
    size_t bad = skip ? SIZE_MAX : scan_rows(&scan, check_i2s_row);
    if (bad == SIZE_MAX) return BN_OK;
    bad += lin->first;
    return bn_hint(bn_fail_at(err, BN_ERR_FORMAT, t->offset + bad * lin->row_bytes, NULL,
                              "row %zu holds the code 3, which is not a weight", bad),
                   err, "the file is damaged or packed in another layout");
}

/* ---- floats to I2_S ---- */

#define FLOAT_CHUNK 512u

/* row: of the tensor. */
static void widen(const struct scan *scan, float *out, size_t row, size_t from, size_t n)
{
    const struct bn_gguf_tensor *t = scan->tensor;
    size_t at = row * scan->linear->k + from;
    bn_widen(scan->model->kernels, t->type, out, t->data + at * (t->type == BN_TYPE_F32 ? 4 : 2), n);
}

static void pack_float_row(struct scan *scan, size_t r)
{
    const struct bn_ternary *w = &scan->linear->w;
    uint8_t *out = (uint8_t *)(uintptr_t)w->stored + r * w->row_bytes;
    float values[FLOAT_CHUNK];
    memset(out, 0, w->row_bytes);
    for (size_t from = 0; from < w->k; from += FLOAT_CHUNK) {
        size_t n = from < scan->linear->k ? bn_min_size(FLOAT_CHUNK, scan->linear->k - from) : 0;
        widen(scan, values, scan->linear->first + r, from, n);
        for (size_t i = 0; i < bn_min_size(FLOAT_CHUNK, w->k - from); i++) {
            float v = i < n ? values[i] : 0.0f;
            unsigned code = v == scan->scale ? 2u : v == -scan->scale ? 0u : 1u;
            if (code == 1 && v != 0.0f) mark_bad(scan, r);
            size_t j = from + i;
            out[j / 128 * 32 + j % 32] |= (uint8_t)(code << (6 - 2 * (j % 128 / 32)));
        }
    }
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
    struct scan scan = {.model = m, .linear = lin, .tensor = t};
    lin->w.scale = scan.scale = first_magnitude(&scan);
    if (!isfinite(scan.scale))
        return bn_fail_at(err, BN_ERR_FORMAT, t->offset, NULL, "a weight is not finite");
    size_t bad = scan_rows(&scan, pack_float_row);
    if (bad == SIZE_MAX) return BN_OK;
    bad += lin->first;
    return bn_hint(bn_fail_at(err, BN_ERR_UNSUPPORTED, t->offset + bad * (t->n_bytes / lin->rows), NULL,
                              "row %zu has a weight that is not -s, 0 or +s with s = %g", bad,
                              (double)scan.scale),
                   err, "this engine runs ternary linear layers only");
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
