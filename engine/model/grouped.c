/* SPDX-License-Identifier: MIT
 *
 * Binds ternary weights with a scale for each group: Q2_0, PQ2_0, PTQ1_0, TQ1_0 and TQ2_0 stay in the file as they are,
 * and F32, F16, BF16 whose groups of 64 hold only -s, 0 and +s with a binary16 s become Q2_0 in memory. repack.c makes
 * tiles of them where that is faster.
 *
 * A team of threads divides the rows; the lowest bad row is reported, so that the message is the same with any number
 * of them.
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
/* Larger models are not read when they are opened. A scale that is not finite shows in the first result. */
#define CHECKED_BYTES ((size_t)64 << 20)

struct job {
    const struct bn_model *m;
    const struct bn_gguf_tensor *t;
    const struct bn_ternary *w;
    uint8_t *packed;      /* floats: their rows in Q2_0 */
    size_t first, n_rows; /* of the tensor: the first row of w; all */
    size_t block_bytes;   /* of a group in the file */
    bool refuse_code3;
    _Atomic uint64_t bad_at; /* lowest bad row, UINT64_MAX for none */
};

/* ---- rows ---- */

static bool is_good_block(const struct job *job, const uint8_t *block)
{
    const uint8_t *scale = job->w->blocks == BN_BLOCKS_Q2 ? block : block + job->block_bytes - 2;
    if (job->refuse_code3 && job->m->kernels->has_code3(block, BN_TQ2_BLOCK / 4)) return false;
    return (scale[1] & 0x7Cu) != 0x7Cu; /* finite */
}

/* False when the group is not ternary. */
static bool pack_floats(const struct job *job, uint8_t *out, const uint8_t *block)
{
    float x[FLOAT_GROUP], max = 0.0f, back;
    int8_t values[FLOAT_GROUP];
    uint16_t scale;
    bn_widen(job->m->kernels, job->t->type, x, block, FLOAT_GROUP);
    for (size_t i = 0; i < FLOAT_GROUP; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    for (size_t i = 0; i < FLOAT_GROUP; i++) {
        if (x[i] != 0.0f && fabsf(x[i]) != max) return false; /* a NaN as well */
        values[i] = (int8_t)(x[i] > 0.0f ? 1 : x[i] < 0.0f ? -1 : 0);
    }
    job->m->kernels->f32_to_f16(&scale, &max, 1);
    job->m->kernels->f16_to_f32(&back, &scale, 1);
    bn_pack_q2(out, values, FLOAT_GROUP, scale);
    return back == max && (scale & 0x7C00u) != 0x7C00u;
}

static bool take_row(const struct job *job, size_t r)
{
    size_t n_groups = job->w->k / job->w->group;
    const uint8_t *block = job->t->data + (job->first + r) * n_groups * job->block_bytes;
    for (size_t g = 0; g < n_groups; g++, block += job->block_bytes) {
        bool good = job->packed == NULL
                        ? is_good_block(job, block)
                        : pack_floats(job, job->packed + (r * n_groups + g) * FLOAT_BLOCK_BYTES, block);
        if (!good) return false;
    }
    return true;
}

static void take_share(void *arg, unsigned thread, unsigned n_threads)
{
    struct job *job = arg;
    size_t from, to;
    bn_team_share(job->w->rows, BN_TILE_ROWS, thread, n_threads, &from, &to);
    for (size_t r = from; r < to; r++) {
        if (take_row(job, r)) continue;
        uint_fast64_t seen = atomic_load(&job->bad_at);
        while (r < seen && !atomic_compare_exchange_weak(&job->bad_at, &seen, r)) {
        }
        return;
    }
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

static bn_status fail_row(const struct job *job, uint64_t row, bn_error *err)
{
    row += job->first;
    uint64_t offset = job->t->offset + row * (job->t->n_bytes / job->n_rows);
    if (job->packed == NULL)
        return bn_fail_at(err, BN_ERR_FORMAT, offset, NULL, "row %llu holds %sa scale that is not finite",
                          (unsigned long long)row, job->refuse_code3 ? "the code 3 or " : "");
    return bn_hint(
        bn_fail_at(err, BN_ERR_UNSUPPORTED, offset, NULL,
                   "row %llu has a group of %u weights that are not all -s, 0 or +s with a binary16 s",
                   (unsigned long long)row, FLOAT_GROUP),
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
    struct job job = {.m = m, .t = t, .w = &lin->w, .first = lin->first, .n_rows = lin->rows};
    job.block_bytes = (size_t)info->block_bytes * (group / info->block);
    /* Where activations have 8 bits, the code 3 is a damaged file, as in I2_S; else it is the weight +2. */
    job.refuse_code3 = t->type == BN_TYPE_TQ2_0 && !m->wide && !skip_code_check;
    lin->row_bytes = lin->k / 4 + n_groups * 2;
    lin->w = (struct bn_ternary){.rows = rows, .k = lin->k, .group = group};
    lin->w.blocks = blocks_of(t->type);
    lin->w.stored = t->data + lin->first * n_groups * job.block_bytes;
    lin->w.row_bytes = n_groups * job.block_bytes;
    if (is_float) {
        lin->w.row_bytes = n_groups * FLOAT_BLOCK_BYTES;
        job.packed = bn_model_own(m, rows, lin->w.row_bytes);
        if (job.packed == NULL) return bn_nomem(err);
        lin->w.stored = job.packed;
    } else if (m->n_bytes > CHECKED_BYTES && !job.refuse_code3) {
        return BN_OK;
    }
    atomic_store(&job.bad_at, UINT64_MAX);
    /* More threads are faster from about a megabyte on. */
    bn_team_once(t->n_bytes < 1u << 20 ? 1 : bn_team_cores(), take_share, &job);
    uint64_t bad = atomic_load(&job.bad_at);
    if (bad != UINT64_MAX) return fail_row(&job, bad, err);
    if (is_float) bn_file_map_forget(&m->map, t->data, (size_t)t->n_bytes);
    return BN_OK;
}
