/* SPDX-License-Identifier: MIT
 *
 * The step of Muon: momentum, Newton-Schulz iterations, update.
 */
#include "train/muon.h"

#include <string.h>

#include "base/mem.h"
#include "train/gemm.h"

#define MOMENTUM ((bn_real)0.95)
#define N_ITERATIONS 5
#define SHARE 0.2 /* root mean square of a step over the rate */

struct muon {
    struct bn_weights *w;
    bn_real *moment;
    const bn_real *grad;
    bn_real factor, shrink, *scratch;
    double rate;
    size_t n_scratch; /* of one thread */
    atomic_size_t next;
};

static size_t short_side(const struct bn_param *p)
{
    return bn_min_size(p->rows, p->cols);
}

/* Two matrices of the parameter's shape and two squares of its shorter side. */
static size_t scratch_of(const struct bn_weights *w)
{
    size_t most = 0;
    for (size_t i = 0; i < w->n_params; i++) {
        const struct bn_param *p = &w->params[i];
        size_t n = 2 * p->rows * p->cols + 2 * short_side(p) * short_side(p);
        if (p->kind == BN_PARAM_TERNARY && n > most) most = n;
    }
    return (most + BN_LANES - 1) / BN_LANES * BN_LANES;
}

bn_real *bn_muon_scratch(const struct bn_weights *w, unsigned n_threads)
{
    return bn_alloc_aligned(n_threads * scratch_of(w), sizeof(bn_real));
}

/* The moment, and the gradient as Nesterov looks ahead: x. Returns the sum of squares of x. */
BN_WIDE static bn_real look_ahead(bn_real *restrict x, bn_real *restrict moment, const bn_real *restrict grad,
                                  bn_real factor, size_t n)
{
    bn_real lane[BN_LANES] = {0};
    for (size_t i = 0; i < n; i += BN_LANES) /* n is a multiple: sides of matrices are */
        for (size_t j = 0; j < BN_LANES; j++) {
            bn_real g = grad[i + j] * factor, m = bn_settled(moment[i + j] * MOMENTUM + g),
                    ahead = g + m * MOMENTUM;
            moment[i + j] = m;
            x[i + j] = ahead;
            lane[j] += ahead * ahead;
        }
    return bn_fold(lane);
}

BN_WIDE static void multiply(bn_real *x, bn_real by, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= by;
}

/* x becomes a nearly orthogonal matrix with its singular vectors: x <- a x + (b s + c s s) x, where s = x x^T, five
 * times. The shorter side is that of s. Returns x or y, whichever has the result. */
static bn_real *orthogonal(bn_real *x, bn_real *y, const struct bn_param *p, bn_real *s, bn_real *t)
{
    const bn_real A = (bn_real)3.4445, B = (bn_real)-4.7750, C = (bn_real)2.0315;
    size_t rows = p->rows, cols = p->cols, k = short_side(p), n = rows * cols;
    for (int i = 0; i < N_ITERATIONS; i++) {
        if (rows <= cols)
            bn_gemm(s, k, k, k, cols, 1, bn_mat(x, cols), bn_mat_turned(x, cols), 0);
        else
            bn_gemm(s, k, k, k, rows, 1, bn_mat_turned(x, cols), bn_mat(x, cols), 0);
        memcpy(t, s, k * k * sizeof *t);
        bn_gemm(t, k, k, k, k, C, bn_mat(s, k), bn_mat(s, k), B);
        memcpy(y, x, n * sizeof *y);
        if (rows <= cols)
            bn_gemm(y, cols, rows, cols, k, 1, bn_mat(t, k), bn_mat(x, cols), A);
        else
            bn_gemm(y, cols, rows, cols, k, 1, bn_mat(x, cols), bn_mat(t, k), A);
        bn_real *old = x;
        x = y;
        y = old;
    }
    return x;
}

BN_WIDE static void apply(bn_real *restrict w, const bn_real *restrict x, bn_real shrink, bn_real rate,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] = w[i] * shrink - rate * x[i];
}

static void step_param(const struct muon *u, const struct bn_param *p, bn_real *scratch)
{
    size_t n = p->rows * p->cols, k = short_side(p), longer = n / k;
    bn_real *x = scratch, *y = x + n, *s = y + n;
    bn_real squares = look_ahead(x, u->moment + p->at, u->grad + p->at, u->factor, n);
    if (squares == 0) return; /* no gradient at all */
    multiply(x, 1 / bn_real_sqrt(squares), n);
    x = orthogonal(x, y, p, s, s + k * k);
    apply(u->w->master + p->at, x, u->shrink, (bn_real)(u->rate * SHARE * sqrt((double)longer)), n);
}

static void step_share(void *arg, unsigned thread, unsigned n_threads)
{
    struct muon *u = arg;
    (void)n_threads;
    for (size_t i; (i = atomic_fetch_add(&u->next, 1)) < u->w->n_params;)
        if (u->w->params[i].kind == BN_PARAM_TERNARY)
            step_param(u, &u->w->params[i], u->scratch + thread * u->n_scratch);
}

void bn_muon_step(struct bn_weights *w, bn_real *moment, const bn_real *grad, double factor,
                  const struct bn_train_schedule *s, uint32_t step, bn_real *scratch, struct bn_team *team)
{
    double rate = bn_schedule_rate(s, step);
    struct muon u = {.w = w,
                     .moment = moment,
                     .grad = grad,
                     .factor = (bn_real)factor,
                     .shrink = (bn_real)(1 - rate * bn_schedule_decay(s, step)),
                     .rate = rate,
                     .scratch = scratch,
                     .n_scratch = scratch_of(w)};
    bn_team_run(team, step_share, &u);
}
