/* SPDX-License-Identifier: MIT
 *
 * Makes the packed copies of weights. Rows are divided among a team of threads in the same way as in
 * decoding.
 */
#include "model/repack.h"

#include <math.h>

#include "base/error.h"
#include "base/team.h"
#include "model/rows.h"
#include "model/weights.h"

#define SCREEN_MAX_K 65536u /* of i8_gemm */

/* ---- ternary layers ---- */

/* Codes that were not checked may hold a 3, for which T5 has no room. */
static bool wants_t5(const struct bn_model *m, const struct bn_linear *lin, const bn_model_options *options)
{
    bool fast = m->kernels->t5_gemv != bn_kernels_ref.t5_gemv;
    return lin->form == BN_FORM_I2S && !options->skip_code_check &&
           (fast || options->repack == BN_REPACK_ALWAYS);
}

struct packing {
    const struct bn_model *m;
    size_t first, end; /* linears */
};

static void pack_share(void *arg, unsigned thread, unsigned n_threads)
{
    const struct packing *job = arg;
    const struct bn_model *m = job->m;
    for (size_t i = job->first; i < job->end; i++) {
        const struct bn_linear *lin = bn_model_linear(m, i);
        size_t from, to;
        bn_team_share(lin->w.rows, BN_ROW_GRAIN, thread, n_threads, &from, &to);
        for (size_t r = from; r < to; r++)
            m->kernels->t5_pack((uint8_t *)(uintptr_t)lin->packed.codes + r * lin->packed.row_bytes,
                                lin->w.codes + r * lin->w.row_bytes, lin->w.k);
    }
}

/* All layers' codes are one block of memory, so that huge pages fit. */
static bn_status pack_ternary(struct bn_model *m, struct bn_loading *loading, bn_error *err)
{
    uint64_t bytes = 0;
    size_t n_linears = bn_model_n_linears(m), in_layer = n_linears / m->hp.n_layer;
    for (size_t i = 0; i < n_linears; i++) {
        struct bn_linear *lin = bn_model_linear(m, i);
        if (!wants_t5(m, lin, loading->options)) return BN_OK; /* all or none */
        size_t blocks = (lin->w.k + BN_T5_BLOCK - 1) / BN_T5_BLOCK;
        lin->packed = lin->w;
        lin->packed.k = blocks * BN_T5_BLOCK;
        lin->packed.row_bytes = blocks * BN_T5_BLOCK_BYTES;
        lin->packed.codes = NULL;
        bytes += (uint64_t)lin->w.rows * lin->packed.row_bytes;
    }
    uint8_t *codes = bn_model_own(m, (size_t)bytes, 1);
    if (codes == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for a copy of the weights");
    bn_mem_advise_huge(codes, (size_t)bytes);
    m->packed_bytes = bytes;
    for (size_t i = 0; i < n_linears; i++) {
        struct bn_linear *lin = bn_model_linear(m, i);
        lin->packed.codes = codes;
        codes += lin->w.rows * lin->packed.row_bytes;
    }
    for (size_t i = 0; i < n_linears; i += in_layer) {
        struct packing job = {m, i, i + in_layer};
        bn_team_once(bn_team_cores(), pack_share, &job);
        BN_TRY(bn_loading_step(loading, err));
    }
    return BN_OK;
}

/* ---- the head ---- */

#define FORGET_ROWS 256u

/* Norms that are no less than the true ones: the sums are of binary32 squares, of which tiny ones underflow.
 */
static float norm_above(double sum, size_t n)
{
    return nextafterf((float)(sqrt(sum + (double)n * 1e-36) * (1.0 + 1e-6)), INFINITY);
}

static void screen_row(const struct bn_model *m, size_t r, float *row)
{
    const struct bn_screen *screen = &m->screen;
    int8_t *q = screen->q + r * m->head.k;
    float scale;
    int32_t sum;
    double size, rest;
    bn_matrix_row(m->kernels, &m->head, r, row);
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
    size_t first, end; /* rows of the head */
};

/* Rows of the file that were read are given back: the copy takes their place. */
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
        bn_file_map_forget(&job->m->map, head->data + r * head->row_bytes, n * head->row_bytes);
    }
}

static bn_status make_screen(struct bn_model *m, struct bn_loading *loading, bn_error *err)
{
    unsigned n_threads = bn_team_cores();
    struct screening job = {m, bn_alloc_aligned((size_t)n_threads * m->head.k, sizeof(float)), 0, 0};
    float *norms = bn_model_own(m, m->head.rows, 3 * sizeof *norms);
    int8_t *q = bn_model_own(m, m->head.rows, m->head.k);
    bn_status status = BN_OK;
    if (job.rows == NULL || norms == NULL || q == NULL) {
        status = bn_fail(err, BN_ERR_NOMEM, "no memory for a copy of the head");
    } else {
        bn_mem_advise_huge(q, m->head.rows * m->head.k);
        m->screen = (struct bn_screen){q, norms, norms + m->head.rows, norms + 2 * m->head.rows};
        for (uint32_t part = 1; part <= BN_LOADING_HEAD_PARTS && status == BN_OK; part++) {
            job.end = (size_t)((uint64_t)m->head.rows * part / BN_LOADING_HEAD_PARTS);
            bn_team_once(n_threads, screen_share, &job);
            job.first = job.end;
            status = bn_loading_step(loading, err);
        }
    }
    bn_free(job.rows);
    return status;
}

bn_status bn_repack_model(struct bn_model *m, struct bn_loading *loading, bn_error *err)
{
    const bn_model_options *options = loading->options;
    if (options->repack == BN_REPACK_NEVER) return BN_OK;
    if (options->repack == BN_REPACK_AUTO && !m->streamed) return BN_OK;
    BN_TRY(pack_ternary(m, loading, err));
    /* A head of 8 bits or fewer gains nothing. */
    if (m->head.k > SCREEN_MAX_K || m->head.row_bytes < 2 * m->head.k) return BN_OK;
    return make_screen(m, loading, err);
}
