/* SPDX-License-Identifier: MIT
 *
 * The head: logits from the hidden state, row by row.
 */
#include <math.h>

#include "infer/exchange.h"
#include "infer/pass.h"
#include "model/weights.h"

static bool is_ternary(const struct bn_model *m)
{
    return m->head_linear.rows != 0;
}

enum bn_kernel bn_head_slot(const struct bn_model *m, size_t n)
{
    if (is_ternary(m)) return n == 1 ? BN_KERNEL_TERNARY_GEMV : BN_KERNEL_TERNARY_GEMM;
    return m->head.type == BN_TYPE_F16 ? BN_KERNEL_F16_GEMM : BN_KERNEL_F32_GEMM;
}

/* For a ternary head the hidden state is quantised already. A head in a block format is widened row by row. A head row that no token looks up may be damaged all the
 * same: it shows in its logits. */
void bn_head_rows(const struct pass *p, size_t from, size_t to, const float *hidden, size_t n, float *y)
{
    const struct bn_matrix *h = &p->m->head;
    if (is_ternary(p->m)) {
        size_t first = p->m->vocab.first;
        struct bn_ternary part = bn_ternary_part(&p->m->head_linear.w, from - first, to - first);
        bn_multiply_ternary(p, &part, p->s->act, y + from, h->rows, n);
    } else if (h->type == BN_TYPE_F16) {
        const uint16_t *w = (const uint16_t *)(const void *)h->data + from * h->k;
        p->kernels->f16_gemm(y + from, h->rows, w, to - from, h->k, hidden, h->k, n);
    } else {
        float *row = p->s->head_row + (size_t)p->thread * h->k;
        for (size_t r = from; r < to; r++) {
            bn_matrix_row(p->kernels, h, r, row);
            p->kernels->f32_gemm(y + r, h->rows, row, 1, h->k, hidden, h->k, n);
        }
    }
    for (size_t j = 0; j < n; j++)
        if (!bn_all_finite(y + j * h->rows + from, to - from)) p->s->run.bad_row = true;
}

void bn_my_vocab(const struct pass *p, size_t *from, size_t *to)
{
    my_share(p, p->m->vocab.n, BN_ROW_GRAIN, from, to);
    *from += p->m->vocab.first;
    *to += p->m->vocab.first;
}

/* logits = head hidden for the rows wanted. */
void bn_head(const struct pass *p)
{
    struct bn_session *s = p->s;
    const struct bn_matrix *h = &p->m->head;
    size_t n = s->run.n_heads, from, to;
    bn_my_vocab(p, &from, &to);
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_LM_HEAD);
    kernel_begin(p);
    bn_head_rows(p, from, to, s->hidden, n, s->run.logits);
    kernel_end(p, bn_head_slot(p->m, n), (to - from) * (p->m->head_bytes / h->rows),
               shape(to - from, h->k, n));
    brick_end(brick, (to - from) * n);
    tell_dispatch(p, h, bn_head_slot(p->m, n));
}

/* ---- the best ones ---- */

size_t bn_argmax(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

size_t bn_best_logits(const float *logits, size_t n_vocab, bn_candidate *top, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        if (n == most && !(logits[i] > top[n - 1].logit)) continue;
        if (n < most) n++;
        size_t at = n - 1;
        for (; at > 0 && logits[i] > top[at - 1].logit; at--)
            top[at] = top[at - 1];
        top[at] = (bn_candidate){(int32_t)i, logits[i]};
    }
    return n;
}

/* ---- some rows, after the pass ---- */

struct masked_head {
    bn_session *s;
    const float *hidden;
    const uint64_t *mask;
    float *logits;
    atomic_size_t n_rows;
};

static void run_masked(void *arg, unsigned thread, unsigned n_threads)
{
    struct masked_head *job = arg;
    struct pass pass = pass_of(job->s, thread, n_threads);
    const struct bn_matrix *h = &pass.m->head;
    size_t from, to, n_rows = 0;
    pass.trail = pass.brick_trail = pass.kernel_trail = NULL; /* it is a part of choosing a token */
    bn_my_vocab(&pass, &from, &to);
    kernel_begin(&pass);
    for (size_t r = from; r < to; r++) {
        job->logits[r] = -INFINITY;
        if ((job->mask[r >> 6] >> (r & 63) & 1) == 0) continue;
        bn_head_rows(&pass, r, r + 1, job->hidden, 1, job->logits);
        n_rows++;
    }
    kernel_end(&pass, bn_head_slot(pass.m, 1), n_rows * h->row_bytes, shape(n_rows, h->k, 1));
    atomic_fetch_add(&job->n_rows, n_rows);
}

void bn_head_masked(bn_session *s, const float *hidden, const uint64_t *mask, float *logits)
{
    struct masked_head job = {.s = s, .hidden = hidden, .mask = mask, .logits = logits};
    if (bn_model_leads(s->model)) bn_lead_masked(s, hidden, mask);
    bn_team_run(s->team, run_masked, &job);
    if (s->link != NULL) bn_exchange_row(s, logits);
    s->screen.again++;
    s->screen.rows += atomic_load(&job.n_rows);
}
