/* SPDX-License-Identifier: MIT
 *
 * AdamW, its schedule, and Muon. Parameters are updated in fixed blocks, or for Muon as whole matrices, which threads
 * take in any order.
 */
#include "train/trainer.h"

#include <string.h>

#include "base/elementary.h"
#include "base/mem.h"
#include "train/ops.h"
#include "train/real.h"

#define BLOCK 16384u
#define NORM_BLOCKS 256u

/* ---- schedule ---- */

static bool second_stage(const struct bn_train_schedule *s, uint32_t step)
{
    return step >= s->stage_2 * s->n_steps;
}

double bn_schedule_rate(const struct bn_train_schedule *s, uint32_t step)
{
    double left = 1.0 - (double)step / s->n_steps, rate = second_stage(s, step) ? s->rate_2 : s->rate;
    double rise = step < s->warm_up ? (double)(step + 1) / (s->warm_up + 1) : 1.0;
    return rate * left * rise;
}

double bn_schedule_decay(const struct bn_train_schedule *s, uint32_t step)
{
    return second_stage(s, step) ? s->decay_2 : s->decay;
}

/* ---- norm ---- */

struct norm {
    const bn_real *grad;
    size_t n, block;
    double sums[NORM_BLOCKS];
};

BN_WIDE static double sum_squares(const bn_real *x, size_t n)
{
    double lane[BN_LANES] = {0};
    size_t i = 0;
    for (; i + BN_LANES <= n; i += BN_LANES)
        for (size_t j = 0; j < BN_LANES; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++)
        lane[i % BN_LANES] += (double)x[i] * (double)x[i];
    return bn_fold_sums(lane);
}

static void norm_block(void *arg, unsigned thread, size_t i)
{
    struct norm *m = arg;
    size_t from = bn_min_size(i * m->block, m->n);
    (void)thread;
    m->sums[i] = sum_squares(m->grad + from, bn_min_size(m->block, m->n - from));
}

double bn_gradient_norm(const bn_real *grad, size_t n, struct bn_team *team)
{
    struct norm m = {.grad = grad, .n = n, .block = (n + NORM_BLOCKS - 1) / NORM_BLOCKS};
    double sum = 0;
    bn_team_each(team, 0, NORM_BLOCKS, norm_block, &m);
    for (size_t i = 0; i < NORM_BLOCKS; i++)
        sum += m.sums[i];
    return sqrt(sum);
}

/* ---- update ---- */

struct update {
    struct bn_weights *w;
    bn_real *m, *v;
    const bn_real *grad;
    bn_real factor, rate, shrink; /* shrink: 1 - rate * decay */
    bool skip_ternary;
    bn_real beta_1, beta_2, unbias_1, unbias_2, epsilon;
};

BN_WIDE static void update_block(const struct update *u, bn_real shrink, size_t from, size_t n)
{
    bn_real *restrict w = u->w->master + from, *restrict m = u->m + from, *restrict v = u->v + from;
    const bn_real *restrict grad = u->grad + from;
    const bn_real factor = u->factor, rate = u->rate, beta_1 = u->beta_1, beta_2 = u->beta_2,
                  unbias_1 = u->unbias_1, unbias_2 = u->unbias_2, epsilon = u->epsilon;
    for (size_t i = 0; i < n; i++) {
        bn_real g = grad[i] * factor;
        bn_real m1 = bn_settled(m[i] * beta_1 + g * (1 - beta_1)), v1 = v[i] * beta_2 + g * g * (1 - beta_2);
        m[i] = m1;
        v[i] = v1;
        w[i] = w[i] * shrink - rate * (m1 * unbias_1 / (bn_real_sqrt(v1 * unbias_2) + epsilon));
    }
}

/* A block's part of each parameter. */
static void update_params(void *arg, unsigned thread, size_t block)
{
    const struct update *u = arg;
    size_t from = block * BLOCK, end = bn_min_size(from + BLOCK, u->w->n_values);
    (void)thread;
    for (size_t i = 0; i < u->w->n_params; i++) {
        const struct bn_param *p = &u->w->params[i];
        if (u->skip_ternary && p->kind == BN_PARAM_TERNARY) continue;
        size_t a = p->at > from ? p->at : from, b = bn_min_size(p->at + p->rows * p->cols, end);
        if (a < b) update_block(u, p->kind == BN_PARAM_TERNARY ? u->shrink : 1, a, b - a);
    }
}

/* beta^n without libm; 0 when it is too small to matter. */
static double power(double beta, double n)
{
    double log = beta > 0 ? n * bn_log(beta) : -1e9;
    return log > -600 ? bn_exp(log) : 0;
}

void bn_adam_step(struct bn_weights *w, bn_real *moment_1, bn_real *moment_2, const bn_real *grad,
                  double factor, double norm, const struct bn_train_schedule *s, uint32_t step,
                  struct bn_team *team)
{
    double rate = bn_schedule_rate(s, step), n = (double)step + 1;
    if (s->clip > 0 && norm > s->clip) factor *= s->clip / norm;
    struct update u = {.w = w,
                       .m = moment_1,
                       .v = moment_2,
                       .grad = grad,
                       .factor = (bn_real)factor,
                       .rate = (bn_real)rate,
                       .shrink = (bn_real)(1 - rate * bn_schedule_decay(s, step)),
                       .skip_ternary = s->muon != 0,
                       .beta_1 = (bn_real)s->beta_1,
                       .beta_2 = (bn_real)s->beta_2,
                       .unbias_1 = (bn_real)(1 / (1 - power(s->beta_1, n))),
                       .unbias_2 = (bn_real)(1 / (1 - power(s->beta_2, n))),
                       .epsilon = (bn_real)s->epsilon};
    bn_team_each(team, 0, (w->n_values + BLOCK - 1) / BLOCK, update_params, &u);
    bn_weights_ternarise(w, team);
}

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

static void step_param(void *arg, unsigned thread, size_t param)
{
    const struct muon *u = arg;
    const struct bn_param *p = &u->w->params[param];
    size_t n = p->rows * p->cols, k = short_side(p), longer = n / k;
    bn_real *x = u->scratch + thread * u->n_scratch, *y = x + n, *s = y + n;
    if (p->kind != BN_PARAM_TERNARY) return;
    bn_real squares = look_ahead(x, u->moment + p->at, u->grad + p->at, u->factor, n);
    if (squares == 0) return; /* no gradient at all */
    bn_op_scale(x, x, 1 / bn_real_sqrt(squares), n);
    x = orthogonal(x, y, p, s, s + k * k);
    apply(u->w->master + p->at, x, u->shrink, (bn_real)(u->rate * SHARE * sqrt((double)longer)), n);
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
    bn_team_each(team, 0, w->n_params, step_param, &u);
}
