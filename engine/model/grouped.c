/* SPDX-License-Identifier: MIT
 *
 * Brings ternary weights with a scale for each group into tiles (struct bn_grouped): Q2_0, PQ2_0, PTQ1_0,
 * TQ1_0, TQ2_0, and F32, F16, BF16 whose groups of 64 hold only -s, 0 and +s with a binary16 s.
 *
 * The bytes of Q2_0 have the order of tiles already, so they are copied four at a time; other formats are
 * unpacked first. A team of threads divides the tiles; the lowest bad row is reported, so that the message is
 * the same with any number of them.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/team.h"
#include "model/pack.h"
#include "model/rows.h"
#include "model/weights.h"

#define MAX_GROUP 256u
#define FLOAT_GROUP 64u

/* One group of a row: its codes in the order of Q2_0, and its scale in binary16. */
struct group {
    uint8_t codes[MAX_GROUP / 4];
    uint16_t scale;
};

struct job {
    const struct bn_model *m;
    const struct bn_gguf_tensor *t;
    struct bn_grouped *out;
    /* False when the group holds something else. block: where it starts in the file. */
    bool (*read)(const struct job *job, const uint8_t *block, struct group *group);
    size_t block_bytes; /* of a group in the file */
    bool refuse_code3;
    _Atomic uint64_t bad_at; /* lowest bad row, UINT64_MAX for none */
};

/* ---- reading groups ---- */

static bool is_finite_half(uint16_t half)
{
    return (half & 0x7C00u) != 0x7C00u;
}

static bool read_q2(const struct job *job, const uint8_t *block, struct group *group)
{
    memcpy(&group->scale, block, 2);
    memcpy(group->codes, block + 2, job->out->group / 4);
    return is_finite_half(group->scale);
}

static bool read_ptq1(const struct job *job, const uint8_t *block, struct group *group)
{
    (void)job;
    group->scale = bn_codes_of_ptq1(group->codes, block);
    return is_finite_half(group->scale);
}

static bool read_tq1(const struct job *job, const uint8_t *block, struct group *group)
{
    (void)job;
    group->scale = bn_codes_of_tq1(group->codes, block);
    return is_finite_half(group->scale);
}

static bool read_tq2(const struct job *job, const uint8_t *block, struct group *group)
{
    group->scale = bn_codes_of_tq2(group->codes, block);
    if (job->refuse_code3 && job->m->kernels->has_code3(block, BN_TQ2_BLOCK / 4)) return false;
    return is_finite_half(group->scale);
}

static bool read_floats(const struct job *job, const uint8_t *block, struct group *group)
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
    uint8_t packed[2 + FLOAT_GROUP / 4];
    bn_pack_q2(packed, values, FLOAT_GROUP, scale);
    return back == max && read_q2(job, packed, group);
}

/* ---- filling tiles ---- */

static void fill_row(struct job *job, size_t r)
{
    const struct bn_grouped *out = job->out;
    size_t n_groups = out->k / out->group, tile = r / BN_TILE_ROWS, row = r % BN_TILE_ROWS;
    uint8_t *codes = (uint8_t *)(uintptr_t)out->codes + tile * 4 * out->k + 4 * row;
    uint16_t *scales = (uint16_t *)(uintptr_t)out->scales + tile * n_groups * BN_TILE_ROWS + row;
    const uint8_t *block = job->t->data + r * n_groups * job->block_bytes;
    struct group group;
    for (size_t g = 0; g < n_groups; g++, block += job->block_bytes) {
        if (!job->read(job, block, &group)) {
            uint_fast64_t seen = atomic_load(&job->bad_at);
            while (r < seen && !atomic_compare_exchange_weak(&job->bad_at, &seen, r)) {
            }
            return;
        }
        scales[g * BN_TILE_ROWS] = group.scale;
        for (size_t i = 0; i < out->group / 4; i += 4, codes += 4 * BN_TILE_ROWS)
            memcpy(codes, group.codes + i, 4);
    }
}

static void fill_share(void *arg, unsigned thread, unsigned n_threads)
{
    struct job *job = arg;
    size_t from, to;
    bn_team_share(job->out->rows, BN_TILE_ROWS, thread, n_threads, &from, &to);
    for (size_t r = from; r < to; r++)
        fill_row(job, r);
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
    switch (type) {
    case BN_TYPE_Q2_0:
        return 64;
    case BN_TYPE_PQ2_0:
    case BN_TYPE_PTQ1_0:
        return 128;
    case BN_TYPE_TQ1_0:
    case BN_TYPE_TQ2_0:
        return 256;
    case BN_TYPE_F32:
    case BN_TYPE_F16:
    case BN_TYPE_BF16:
        return FLOAT_GROUP;
    default:
        return 0;
    }
}

static void choose_reader(struct job *job)
{
    const struct bn_type_info *info = bn_type_info(job->t->type);
    job->block_bytes = (size_t)info->block_bytes * (job->out->group / info->block);
    job->read = job->t->type == BN_TYPE_PTQ1_0  ? read_ptq1
                : job->t->type == BN_TYPE_TQ1_0 ? read_tq1
                : job->t->type == BN_TYPE_TQ2_0 ? read_tq2
                : info->block > 1               ? read_q2
                                                : read_floats;
}

static bn_status fail_row(const struct job *job, uint64_t row, bn_error *err)
{
    uint64_t offset = job->t->offset + row * (job->t->n_bytes / job->out->rows);
    if (job->read != read_floats)
        return bn_fail_at(err, BN_ERR_FORMAT, offset, NULL, "row %llu holds %sa scale that is not finite",
                          (unsigned long long)row, job->refuse_code3 ? "the code 3 or " : "");
    bn_fail_at(err, BN_ERR_UNSUPPORTED, offset, NULL,
               "row %llu has a group of %u weights that are not all -s, 0 or +s with a binary16 s",
               (unsigned long long)row, FLOAT_GROUP);
    bn_error_hint(err, "this engine runs ternary linear layers only");
    return BN_ERR_UNSUPPORTED;
}

bn_status bn_grouped_prepare(struct bn_model *m, struct bn_linear *lin, const struct bn_gguf_tensor *t,
                             bool skip_code_check, bn_error *err)
{
    struct bn_grouped *out = &lin->grouped;
    size_t rows = lin->w.rows, group = bn_grouped_size(t->type);
    if (m->group == 0 && lin != &m->head_linear) m->group = (uint32_t)group;
    if (group == 0 || (lin != &m->head_linear && group != m->group)) {
        const struct bn_type_info *info = bn_type_info(t->type);
        bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, NULL,
                   "a linear layer stored as %s in a model whose weights have a scale for each %u",
                   info != NULL ? info->name : "?", m->group);
        bn_error_hint(err, "all linear layers of a model must have groups of one size");
        return BN_ERR_UNSUPPORTED;
    }
    size_t padded = (rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS * BN_TILE_ROWS;
    if (lin->k % group != 0)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, NULL,
                          "rows of %zu weights are not a multiple of the group of %zu", lin->k, group);
    if (t->type == BN_TYPE_PQ2_0 && has_scale_last(t))
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->offset, NULL,
                          "the scale is after the codes of a block, not before them as in PQ2_0");
    lin->form = BN_FORM_GROUPED;
    lin->w.k = lin->k;
    lin->w.row_bytes = lin->k / 4 + lin->k / group * 2;
    *out = (struct bn_grouped){.rows = rows, .k = lin->k, .group = group};
    uint8_t *codes = bn_model_own(m, padded, lin->k / 4);
    uint16_t *scales = bn_model_own(m, padded, lin->k / group * sizeof *scales);
    if (codes == NULL || scales == NULL) return bn_nomem(err);
    bn_mem_advise_huge(codes, padded * (lin->k / 4));
    out->codes = codes;
    out->scales = scales;
    struct job job = {.m = m, .t = t, .out = out};
    /* Where activations have 8 bits, the code 3 is a damaged file, as in I2_S; else it is the weight +2. */
    job.refuse_code3 = t->type == BN_TYPE_TQ2_0 && !m->wide && !skip_code_check;
    choose_reader(&job);
    atomic_store(&job.bad_at, UINT64_MAX);
    /* More threads are faster from about a megabyte on. */
    bn_team_once(t->n_bytes < 1u << 20 ? 1 : bn_team_cores(), fill_share, &job);
    uint64_t bad = atomic_load(&job.bad_at);
    if (bad != UINT64_MAX) return fail_row(&job, bad, err);
    bn_file_map_forget(&m->map, t->data, (size_t)t->n_bytes);
    return BN_OK;
}
