/* SPDX-License-Identifier: MIT
 *
 * Makes the packed copies of weights. Rows are divided among a team of threads in the same way as in
 * decoding.
 */

#include <math.h>

#include "base/error.h"
#include "base/team.h"
#include "model/model.h"
#include "model/weights.h"

#define SCREEN_MAX_K 65536u /* of i8_gemm */

/* ---- ternary layers ---- */

/* Codes that were not checked may hold a 3, for which T5 has no room. */
static bool wants_t5(const struct bn_model *m, const struct bn_linear *lin, const bn_model_options *options)
{
    bool fast = m->kernels->t5_gemv != bn_kernels_ref.t5_gemv;
    return lin->w.blocks == BN_BLOCKS_I2S && !options->skip_code_check &&
           (fast || options->repack == BN_REPACK_ALWAYS);
}

/* All layers are packed, or none is. */
static void plan_ternary(struct bn_model *m, const bn_model_options *options)
{
    struct bn_repacking *r = &m->repacking;
    size_t n_linears = bn_model_n_linears(m);
    for (size_t i = 0; i < n_linears; i++) {
        struct bn_linear *lin = bn_model_linear(m, i);
        if (!wants_t5(m, lin, options)) return;
        size_t blocks = (lin->w.k + BN_T5_BLOCK - 1) / BN_T5_BLOCK;
        lin->packed = (struct bn_t5){.rows = lin->w.rows,
                                     .k = blocks * BN_T5_BLOCK,
                                     .row_bytes = blocks * BN_T5_BLOCK_BYTES,
                                     .scale = lin->w.scale,
                                     .streamed = m->streamed};
        r->codes_bytes += (uint64_t)lin->w.rows * lin->packed.row_bytes;
        r->all_codes_bytes += (uint64_t)lin->rows * lin->packed.row_bytes;
    }
    r->ternary = n_linears > 0;
}

static uint64_t packed_bytes(const struct bn_linear *lin)
{
    return (uint64_t)lin->packed.rows * lin->packed.row_bytes;
}

/* Linears first .. end go to codes. */
struct packing {
    const struct bn_model *m;
    size_t first, end;
    uint8_t *codes;
};

static void pack_share(void *arg, unsigned thread, unsigned n_threads)
{
    const struct packing *job = arg;
    uint8_t *codes = job->codes;
    for (size_t i = job->first; i < job->end; i++) {
        const struct bn_linear *lin = bn_model_linear(job->m, i);
        size_t from, to;
        bn_team_share(lin->w.rows, BN_ROW_GRAIN, thread, n_threads, &from, &to);
        for (size_t r = from; r < to; r++)
            job->m->kernels->t5_pack(codes + r * lin->packed.row_bytes, lin->w.stored + r * lin->w.row_bytes,
                                     lin->w.k);
        codes += packed_bytes(lin);
    }
}

/* All layers' codes are one block of memory, so that huge pages fit. */
static bn_status pack_layer(struct bn_model *m, uint32_t layer, bn_error *err)
{
    struct bn_repacking *r = &m->repacking;
    size_t in_layer = bn_model_n_linears(m) / m->hp.n_layer;
    if (layer == 0) {
        r->codes = bn_model_own(m, (size_t)r->codes_bytes, 1);
        if (r->codes == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for a copy of the weights");
        bn_mem_advise_huge(r->codes, (size_t)r->codes_bytes);
    }
    struct packing job = {m, layer * in_layer, (layer + 1) * in_layer, r->codes + r->n_packed};
    bn_team_once(bn_team_cores(), pack_share, &job);
    for (size_t i = job.first; i < job.end; i++)
        r->n_packed += packed_bytes(bn_model_linear(m, i));
    if (layer + 1 < m->hp.n_layer) return BN_OK;
    const uint8_t *codes = r->codes;
    for (size_t i = 0; i < bn_model_n_linears(m); i++) {
        struct bn_linear *lin = bn_model_linear(m, i);
        lin->packed.codes = codes;
        codes += packed_bytes(lin);
    }
    m->packed_bytes = r->all_codes_bytes;
    return BN_OK;
}

/* ---- tiles ---- */

static uint64_t tiles_bytes(const struct bn_linear *lin)
{
    return lin->w.rows == 0 ? 0 : bn_tiles_bytes(&lin->w, lin->w.rows);
}

struct tiling {
    const struct bn_model *m;
    const struct bn_ternary *w;
    uint8_t *codes;
    uint16_t *scales;
};

static void tile_share(void *arg, unsigned thread, unsigned n_threads)
{
    const struct tiling *job = arg;
    const struct bn_ternary *w = job->w;
    size_t from, to;
    bn_team_share(w->rows, BN_TILE_ROWS, thread, n_threads, &from, &to);
    struct bn_ternary part = bn_ternary_part(w, from, to);
    uint16_t *scales = job->scales == NULL ? NULL : job->scales + from * (w->k / w->group);
    job->m->kernels->to_tiles(job->codes + from * (w->k / 4), scales, &part);
}

static bn_status make_tiles(struct bn_model *m, struct bn_linear *lin, bn_error *err)
{
    struct bn_ternary *w = &lin->w;
    if (lin->w.rows == 0 || w->codes != NULL) return BN_OK;
    bool scaled = w->blocks != BN_BLOCKS_I2S;
    size_t padded = (w->rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS * BN_TILE_ROWS;
    struct tiling job = {m, w, bn_model_own(m, padded, w->k / 4),
                         scaled ? bn_model_own(m, padded, w->k / w->group * sizeof *w->scales) : NULL};
    if (job.codes == NULL || (scaled && job.scales == NULL))
        return bn_fail(err, BN_ERR_NOMEM, "no memory for a copy of the weights");
    bn_mem_advise_huge(job.codes, padded * (w->k / 4));
    bn_team_once(bn_tiles_bytes(w, w->rows) < 1u << 20 ? 1 : bn_team_cores(), tile_share, &job);
    w->scales = job.scales;
    w->codes = job.codes;
    if (!lin->picked) bn_file_map_forget(&m->map, w->stored, w->rows * w->row_bytes);
    return BN_OK;
}

/* ---- columns ---- */

/* Down of a squared ReLU has inputs most of which are 0. */
static bool wants_columns(const struct bn_model *m)
{
    return m->hp.activation == BN_ACTIVATION_RELU2 && m->hp.experts.n == 0 &&
           m->kernels->columns_gemv != bn_kernels_ref.columns_gemv;
}

static size_t column_bytes(const struct bn_ternary *w)
{
    return (w->rows + BN_COLUMN_ROWS - 1) / BN_COLUMN_ROWS * (BN_COLUMN_ROWS / 4);
}

/* 128 columns of four rows, 16 apart, of a line of each column. `row` has a block of each row. */
static void put_rows(uint8_t *out, const uint8_t *const row[4])
{
    const uint64_t threes = 0x0303030303030303u;
    for (size_t p = 0; p < 32; p += 8) {
        uint64_t eight[4];
        for (size_t s = 0; s < 4; s++)
            memcpy(&eight[s], row[s] + p, sizeof eight[s]);
        for (size_t f = 0; f < 4; f++) {
            uint64_t codes = 0;
            for (size_t s = 0; s < 4; s++)
                codes |= (eight[s] >> (6 - 2 * f) & threes) << 2 * s;
            for (size_t i = 0; i < 8; i++)
                out[(32 * f + p + i) * 64] = (uint8_t)(codes >> 8 * i);
        }
    }
}

struct columns {
    const struct bn_ternary *w;
    uint8_t *codes;
    size_t k, each; /* columns, and bytes of one */
};

/* Lines of 256 rows of all columns. */
static void columns_share(void *arg, unsigned thread, unsigned n_threads)
{
    const struct columns *job = arg;
    const struct bn_ternary *w = job->w;
    uint8_t lines[BN_I2S_BLOCK][64];
    size_t from, to;
    bn_team_share(w->rows, BN_COLUMN_ROWS, thread, n_threads, &from, &to);
    for (size_t r = from; r < to; r += BN_COLUMN_ROWS)
        for (size_t i = 0; i < job->k; i += BN_I2S_BLOCK) {
            for (size_t b = 0; b < 64; b++) {
                const uint8_t *row[4];
                for (size_t s = 0; s < 4; s++) {
                    size_t at = r + 64 * (b % 16 / 4) + 16 * s + 4 * (b / 16) + b % 4;
                    row[s] = w->stored + bn_min_size(at, w->rows - 1) * w->row_bytes + i / 4;
                }
                put_rows(lines[0] + b, row);
            }
            for (size_t c = 0; c < BN_I2S_BLOCK && i + c < job->k; c++)
                memcpy(job->codes + (i + c) * job->each + r / 4, lines[c], sizeof lines[c]);
        }
}

static bn_status make_columns(struct bn_model *m, struct bn_linear *lin, bn_error *err)
{
    if (lin->w.rows == 0 || lin->w.blocks != BN_BLOCKS_I2S) return BN_OK;
    size_t each = column_bytes(&lin->w);
    struct columns job = {&lin->w, bn_model_own(m, lin->k, each), lin->k, each};
    if (job.codes == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for a copy of the weights");
    bn_mem_advise_huge(job.codes, lin->k * each);
    bn_team_once(lin->k * each < 1u << 20 ? 1 : bn_team_cores(), columns_share, &job);
    lin->columns = (struct bn_columns){job.codes, lin->w.rows, lin->k, each, lin->w.scale};
    return BN_OK;
}

/* The head comes with the last layer. */
static bn_status tile_layer(struct bn_model *m, uint32_t layer, bn_error *err)
{
    size_t in_layer = bn_model_n_linears(m) / m->hp.n_layer;
    if (m->repacking.columns) {
        struct bn_linear *up = &m->layers[layer].up;
        up->picked = !m->repacking.ternary && m->ranks == NULL && up->w.blocks == BN_BLOCKS_I2S;
        BN_TRY(make_columns(m, &m->layers[layer].down, err));
    }
    for (size_t i = layer * in_layer; i < (layer + 1) * in_layer; i++)
        BN_TRY(make_tiles(m, bn_model_linear(m, i), err));
    return layer + 1 < m->hp.n_layer ? BN_OK : make_tiles(m, &m->head_linear, err);
}

static void plan_tiles(struct bn_model *m)
{
    struct bn_repacking *r = &m->repacking;
    r->tiles_bytes = tiles_bytes(&m->head_linear);
    for (size_t i = 0; i < bn_model_n_linears(m); i++)
        r->tiles_bytes += tiles_bytes(bn_model_linear(m, i));
    r->tiles = r->tiles_bytes > 0;
}

static void plan_columns(struct bn_model *m)
{
    struct bn_repacking *r = &m->repacking;
    for (size_t i = 0; wants_columns(m) && i < m->hp.n_layer; i++) {
        const struct bn_linear *down = &m->layers[i].down;
        if (down->w.blocks == BN_BLOCKS_I2S) r->columns_bytes += (uint64_t)down->k * column_bytes(&down->w);
    }
    r->columns = r->columns_bytes > 0;
}

/* ---- the head ---- */

#define FORGET_ROWS 256u

/* Norms that are no less than the true ones: the sums are of binary32 squares, of which tiny ones underflow.
 */
static float norm_above(double sum, size_t n)
{
    return nextafterf((float)(sqrt(sum + (double)n * 1e-36) * (1.0 + 1e-6)), INFINITY);
}

/* Row r of the screen. */
static void screen_row(const struct bn_model *m, size_t r, float *row)
{
    const struct bn_screen *screen = &m->repacking.screen;
    int8_t *q = screen->q + r * m->head.k;
    float scale;
    int32_t sum;
    double size, rest;
    bn_matrix_row(m->kernels, &m->head, m->vocab.first + r, row);
    if (!bn_all_finite(row, m->head.k)) { /* damaged: it is computed with every head */
        screen->size[r] = screen->rest[r] = INFINITY;
        return;
    }
    m->kernels->quantize(q, &scale, &sum, row, m->head.k);
    screen->step[r] = 1.0f / scale;
    m->kernels->residual(&size, &rest, row, q, screen->step[r], m->head.k);
    screen->size[r] = norm_above(size, m->head.k);
    screen->rest[r] = norm_above(rest, m->head.k);
}

struct screening {
    struct bn_model *m;
    float *rows;       /* one for each thread */
    size_t first, end; /* rows of the screen */
};

/* Rows of the file that were read are given back, unless they are in use: the copy takes their place. */
static void screen_share(void *arg, unsigned thread, unsigned n_threads)
{
    const struct screening *job = arg;
    const struct bn_matrix *head = &job->m->head;
    size_t from, to;
    bn_team_share(job->end - job->first, BN_ROW_GRAIN, thread, n_threads, &from, &to);
    for (size_t r = job->first + from; r < job->first + to; r += FORGET_ROWS) {
        size_t n = bn_min_size(FORGET_ROWS, job->first + to - r);
        for (size_t i = r; i < r + n; i++)
            screen_row(job->m, i, job->rows + (size_t)thread * head->k);
        if (!job->m->repacking.later)
            bn_file_map_forget(&job->m->map, head->data + (job->m->vocab.first + r) * head->row_bytes,
                               n * head->row_bytes);
    }
}

static bn_status allocate_screen(struct bn_model *m, bn_error *err)
{
    size_t rows = m->vocab.n;
    float *norms = bn_model_own(m, rows, 3 * sizeof *norms);
    int8_t *q = bn_model_own(m, rows, m->head.k);
    if (norms == NULL || q == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for a copy of the head");
    bn_mem_advise_huge(q, rows * m->head.k);
    m->repacking.screen = (struct bn_screen){q, norms, norms + rows, norms + 2 * rows};
    return BN_OK;
}

static bn_status screen_part(struct bn_model *m, uint32_t part, bn_error *err)
{
    const struct bn_matrix *head = &m->head;
    unsigned n_threads = bn_team_cores();
    if (part == 0) BN_TRY(allocate_screen(m, err));
    struct screening job = {m, bn_alloc_aligned((size_t)n_threads * head->k, sizeof(float)),
                            (size_t)((uint64_t)m->vocab.n * part / BN_LOADING_HEAD_PARTS),
                            (size_t)((uint64_t)m->vocab.n * (part + 1) / BN_LOADING_HEAD_PARTS)};
    if (job.rows == NULL) return bn_nomem(err);
    bn_team_once(n_threads, screen_share, &job);
    bn_free(job.rows);
    if (part + 1 < BN_LOADING_HEAD_PARTS) return BN_OK;
    m->screen = m->repacking.screen;
    if (m->repacking.later) bn_file_map_forget(&m->map, head->data, head->rows * head->row_bytes);
    return BN_OK;
}

/* ---- steps ---- */

uint64_t bn_repack_bytes(const struct bn_model *m)
{
    const struct bn_repacking *r = &m->repacking;
    uint64_t head = r->head ? (uint64_t)m->head.rows * (m->head.k + 3 * sizeof(float)) : 0;
    return head + (r->ternary ? r->codes_bytes : 0) + (r->tiles ? r->tiles_bytes : 0) +
           (r->columns ? r->columns_bytes : 0);
}

/* Beside the file, which is read meanwhile, and with an eighth more for everything else. */
static bool has_room(const struct bn_model *m, uint64_t available)
{
    uint64_t bytes = bn_repack_bytes(m);
    return bytes + bytes / 8 + m->n_bytes <= available;
}

static void plan(struct bn_model *m, const bn_model_options *options)
{
    struct bn_repacking *r = &m->repacking;
    if (options->repack == BN_REPACK_NEVER) return;
    r->later = options->repack_later;
    plan_tiles(m);
    if (options->repack == BN_REPACK_ALWAYS || m->streamed) {
        /* A head of 8 bits or fewer gains nothing. */
        r->head = m->head.k <= SCREEN_MAX_K && m->head.row_bytes >= 2 * m->head.k;
        plan_ternary(m, options);
        plan_columns(m);
    }
    bool limited = options->repack == BN_REPACK_AUTO && bn_repack_bytes(m) > 0;
    uint64_t available = limited ? bn_mem_available() : UINT64_MAX;
    if (!has_room(m, available)) r->columns = false;
    if (r->ternary && !has_room(m, available)) r->tiles = false; /* of several tokens */
    r->no_room = !has_room(m, available);
    if (r->no_room) return;
    r->n_steps = (r->head ? BN_LOADING_HEAD_PARTS : 0) + (r->ternary ? m->hp.n_layer : 0) +
                 (r->tiles ? m->hp.n_layer : 0);
}

static bn_status make_step(struct bn_model *m, bn_error *err)
{
    struct bn_repacking *r = &m->repacking;
    uint32_t step = r->n_done++, of_head = r->head ? BN_LOADING_HEAD_PARTS : 0;
    if (step < of_head) return screen_part(m, step, err);
    step -= of_head;
    if (r->ternary && step < m->hp.n_layer) return pack_layer(m, step, err);
    return tile_layer(m, r->ternary ? step - m->hp.n_layer : step, err);
}

bn_status bn_repack_model(struct bn_model *m, struct bn_loading *loading, bn_error *err)
{
    plan(m, loading->options);
    while (!m->repacking.later && m->repacking.n_done < m->repacking.n_steps) {
        BN_TRY(make_step(m, err));
        BN_TRY(bn_loading_step(loading, err));
    }
    return BN_OK;
}

#define CALLS 16u /* of bn_model_repack */

/* All ranks make the same copies before the same pass, so that their counters fit together. */
bool bn_model_repack(bn_model *m)
{
    struct bn_repacking *r = &m->repacking;
    struct bn_order order = {.kind = BN_ORDER_REPACK};
    if (r->n_done < r->n_steps && bn_model_leads(m) && bn_order_broadcast(m, &order, NULL) != BN_OK)
        return false;
    for (uint32_t i = 0; i < r->n_steps; i += CALLS)
        if (r->n_done < r->n_steps && make_step(m, NULL) != BN_OK) r->n_done = r->n_steps;
    return r->n_done < r->n_steps;
}
