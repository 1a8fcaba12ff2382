/* SPDX-License-Identifier: MIT
 *
 * Exchanges between the sessions of a divided model. One thread of each rank calls the ranks' functions. Several rows are
 * packed first, so that an exchange is one message however large the batch is.
 */
#include "infer/exchange.h"

#include <math.h>

#include "infer/pass.h"

bn_status bn_session_check_link(const struct bn_session *s, bn_error *err)
{
    if (s->link == NULL || !s->link->failed) return BN_OK;
    if (err != NULL && err->code == BN_OK) *err = s->link->err;
    return s->link->err.code;
}

/* ---- messages ---- */

/* Pieces of data of all ranks; link->edges has their bytes. */
static void gather(struct bn_session *s, void *data)
{
    struct bn_link *link = s->link;
    const struct bn_ranks *ranks = s->model->ranks;
    if (link->failed) return;
    uint64_t start = bn_clock_ns();
    link->failed = ranks->gather(ranks->context, data, link->edges, &link->err) != BN_OK;
    link->stat.ns += bn_clock_ns() - start;
    link->stat.bytes += link->edges[ranks->count];
    link->stat.exchanges++;
}

/* Rows of `width` values, rank after rank. */
static void gather_rows(struct bn_session *s, float *data, size_t width, size_t grain, size_t n)
{
    unsigned n_ranks = s->model->ranks->count;
    size_t from, to;
    for (unsigned i = 0; i < n_ranks; i++) {
        bn_team_share(width, grain, i, n_ranks, &from, &to);
        s->link->edges[i + 1] = to * n * sizeof *data;
    }
    s->link->edges[0] = 0;
    gather(s, data);
}

/* One piece of the same size of each rank. */
static void gather_equal(struct bn_session *s, void *data, size_t each)
{
    for (size_t i = 0; i <= s->model->ranks->count; i++)
        s->link->edges[i] = i * each;
    gather(s, data);
}

void bn_exchange_message(struct bn_session *s, void *data, size_t n)
{
    struct bn_link *link = s->link;
    const struct bn_ranks *ranks = s->model->ranks;
    if (link->failed || n == 0) return;
    link->failed = ranks->broadcast(ranks->context, 0, data, n, &link->err) != BN_OK;
}

/* ---- rows ---- */

/* Copies this thread's rows of a batch between data and wire: the piece of one rank. */
static void copy_piece(const struct pass *p, float *data, size_t width, size_t grain, unsigned rank, bool out)
{
    size_t from, to, first, end, n_ranks = p->m->ranks->count;
    my_share(p, p->n, 1, &first, &end);
    bn_team_share(width, grain, rank, (unsigned)n_ranks, &from, &to);
    float *piece = p->s->link->wire + from * p->n;
    for (size_t j = first; j < end; j++) {
        float *packed = piece + j * (to - from), *row = data + j * width + from;
        memcpy(out ? packed : row, out ? row : packed, (to - from) * sizeof *row);
    }
}

void bn_exchange(const struct pass *p, float *data, size_t width, size_t grain, size_t n)
{
    const struct bn_ranks *ranks = p->m->ranks;
    meet(p);
    if (n > 1) {
        copy_piece(p, data, width, grain, ranks->index, true);
        meet(p);
    }
    if (p->thread == 0) {
        struct bn_brick_timer brick = brick_begin(p, BN_BRICK_EXCHANGE);
        gather_rows(p->s, n > 1 ? p->s->link->wire : data, width, grain, n);
        brick_end(brick, width * n);
    }
    meet(p);
    if (n == 1) return;
    for (unsigned i = 0; i < ranks->count; i++)
        if (i != ranks->index) copy_piece(p, data, width, grain, i, false);
    meet(p);
}

void bn_exchange_row(struct bn_session *s, float *logits)
{
    gather_rows(s, logits, s->model->head.rows, BN_ROW_GRAIN, 1);
}

/* ---- logits ---- */

/* The best logits of this rank for each row, then on the first rank those of the others: what they did not send becomes
 * -INFINITY. The best of all are among the best of each. */
static void exchange_candidates(struct bn_session *s, size_t n_best)
{
    const struct bn_ranks *ranks = s->model->ranks;
    size_t n_vocab = s->model->head.rows, n = s->run.n_heads, each = 1 + n * n_best;
    struct bn_candidate *mine = s->link->heads + ranks->index * each;
    struct bn_slice own = s->model->vocab;
    mine[0] = (struct bn_candidate){s->run.bad_row, 0.0f};
    for (size_t j = 0; j < n; j++) {
        struct bn_candidate *list = mine + 1 + j * n_best;
        size_t n_found = bn_best_logits(s->run.logits + j * n_vocab + own.first, own.n, list, n_best);
        for (size_t i = 0; i < n_best; i++)
            list[i] = i < n_found ? (struct bn_candidate){list[i].id + (int32_t)own.first, list[i].logit}
                                  : (struct bn_candidate){-1, -INFINITY};
    }
    gather_equal(s, s->link->heads, each * sizeof *mine);
    for (unsigned rank = 1; !bn_model_follows(s->model) && rank < ranks->count; rank++) {
        const struct bn_candidate *from = s->link->heads + rank * each;
        if (from[0].id != 0) s->run.bad_row = true;
        for (size_t j = 0; j < n; j++) {
            float *row = s->run.logits + j * n_vocab;
            size_t first, end;
            bn_team_share(n_vocab, BN_ROW_GRAIN, rank, ranks->count, &first, &end);
            for (size_t r = first; r < end; r++)
                row[r] = -INFINITY;
            for (const struct bn_candidate *c = from + 1 + j * n_best; c < from + 1 + (j + 1) * n_best; c++)
                if (c->id >= 0 && (size_t)c->id < n_vocab) row[c->id] = c->logit;
        }
    }
}

/* All of them, and whether a rank's have one that is not finite. */
static void exchange_all(struct bn_session *s)
{
    const struct bn_ranks *ranks = s->model->ranks;
    for (size_t j = 0; j < s->run.n_heads; j++)
        bn_exchange_row(s, s->run.logits + j * s->model->head.rows);
    s->link->heads[ranks->index].id = s->run.bad_row;
    gather_equal(s, s->link->heads, sizeof *s->link->heads);
    for (unsigned i = 0; i < ranks->count; i++)
        if (s->link->heads[i].id != 0) s->run.bad_row = true;
}

void bn_exchange_logits(const struct pass *p)
{
    struct bn_session *s = p->s;
    size_t n_best = s->run.n_best;
    /* Rows of a ternary head cannot be computed again one by one, as a grammar may want. */
    bool few = p->m->head_linear.rows == 0;
    meet(p);
    if (p->thread == 0) {
        struct bn_brick_timer brick = brick_begin(p, BN_BRICK_EXCHANGE);
        if (few && n_best > 0 && n_best <= BN_CANDIDATES_MAX / s->run.n_heads)
            exchange_candidates(s, n_best);
        else
            exchange_all(s);
        brick_end(brick, s->run.n_heads);
    }
    meet(p);
}

/* ---- counters ---- */

void bn_session_tally(struct bn_session *s)
{
    struct bn_link *link = s->link;
    struct bn_order order = {.kind = BN_ORDER_TALLY};
    if (link == NULL) return;
    const struct bn_ranks *ranks = s->model->ranks;
    struct bn_rank_tally *mine = &link->tallies[ranks->index];
    bn_rank_stat stat = link->stat; /* without this exchange */
    if (bn_model_leads(s->model)) bn_exchange_message(s, &order, sizeof order);
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        mine->kernel[k] = bn_counters_sum(s->counters, s->n_threads, (enum bn_kernel)k);
    mine->screen_rows = s->screen.rows;
    gather_equal(s, link->tallies, sizeof *mine);
    link->stat = stat;
    link->others = (struct bn_rank_tally){0};
    for (unsigned i = 0; i < ranks->count; i++) {
        if (i == ranks->index) continue;
        link->others.screen_rows += link->tallies[i].screen_rows;
        for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
            bn_counter_join(&link->others.kernel[k], &link->tallies[i].kernel[k]);
    }
}
