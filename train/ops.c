/* SPDX-License-Identifier: MIT
 *
 * Operations on rows: norm, quantisers, linear layers, activation functions, loss.
 * In binary32 the forward functions are the engine's kernels, so they round as bn-run does.
 *
 * Rotary positions and causal attention with grouped queries. Queries are taken in blocks of rows, and a block's keys
 * end with its last row: of the half of all pairs that causality excludes, most are never computed.
 */
#include "train/ops.h"

#include <string.h>

#include "base/elementary.h"
#include "train/real.h"

/* ---- element by element ---- */

/* y = exp(x); y may be x. */
static void exp_all(const struct bn_kernels *k, bn_real *y, const bn_real *x, size_t n)
{
#ifdef BN_TRAIN_F64
    (void)k;
    for (size_t i = 0; i < n; i++)
        y[i] = bn_exp(x[i]);
#else
    k->exp(y, x, n);
#endif
}

BN_WIDE void bn_op_add(bn_real *y, const bn_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

BN_WIDE void bn_op_scale(bn_real *y, const bn_real *x, bn_real factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * factor;
}

/* ---- norm ---- */

BN_WIDE static bn_real dot(const bn_real *x, const bn_real *y, size_t n)
{
    bn_real lane[BN_LANES] = {0};
    size_t i = 0;
    for (; i + BN_LANES <= n; i += BN_LANES)
        for (size_t j = 0; j < BN_LANES; j++)
            lane[j] += x[i + j] * y[i + j];
    for (; i < n; i++)
        lane[i % BN_LANES] += x[i] * y[i];
    return bn_fold(lane);
}

/* 1 / rms(x). */
static bn_real inverse_rms(const bn_real *x, size_t n, bn_real eps)
{
    return (bn_real)1 / bn_real_sqrt(dot(x, x, n) / (bn_real)n + eps);
}

void bn_op_norm(const struct bn_kernels *k, bn_real *y, const bn_real *x, const bn_real *w, size_t rows,
                size_t n, bn_real eps)
{
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
#ifdef BN_TRAIN_F64
        (void)k;
        bn_real inverse = inverse_rms(x, n, eps);
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * inverse * w[i];
#else
        k->rmsnorm(y, x, w, n, eps);
#endif
    }
}

/* With g = dy * w: the sum of g * x; dw += dy * x * inverse. */
BN_WIDE static bn_real norm_row_sums(bn_real *restrict dw, const bn_real *dy, const bn_real *x,
                                     const bn_real *w, bn_real inverse, size_t n)
{
    bn_real lane[BN_LANES] = {0};
    size_t i = 0;
    for (; i + BN_LANES <= n; i += BN_LANES)
        for (size_t j = 0; j < BN_LANES; j++) {
            bn_real product = dy[i + j] * x[i + j];
            lane[j] += product * w[i + j];
            dw[i + j] += product * inverse;
        }
    for (; i < n; i++) {
        lane[i % BN_LANES] += dy[i] * x[i] * w[i];
        dw[i] += dy[i] * x[i] * inverse;
    }
    return bn_fold(lane);
}

BN_WIDE static void norm_row_back(bn_real *dx, bool add, const bn_real *dy, const bn_real *x,
                                  const bn_real *w, bn_real inverse, bn_real pull, size_t n)
{
    if (add)
        for (size_t i = 0; i < n; i++)
            dx[i] += dy[i] * w[i] * inverse - x[i] * pull;
    else
        for (size_t i = 0; i < n; i++)
            dx[i] = dy[i] * w[i] * inverse - x[i] * pull;
}

void bn_op_norm_back(bn_real *dx, bool add, bn_real *dw, const bn_real *dy, const bn_real *x,
                     const bn_real *w, size_t rows, size_t n, bn_real eps)
{
    for (size_t r = 0; r < rows; r++, dx += n, dy += n, x += n) {
        bn_real inverse = inverse_rms(x, n, eps);
        bn_real sum = norm_row_sums(dw, dy, x, w, inverse, n);
        norm_row_back(dx, add, dy, x, w, inverse, sum * inverse * inverse * inverse / (bn_real)n, n);
    }
}

/* ---- quantisers ---- */

#ifdef BN_TRAIN_F64
void bn_op_quantise(const struct bn_kernels *k, bn_real *q, bn_real *scale, struct bn_act *acts, int8_t *q8,
                    const bn_real *x, size_t rows, size_t n)
{
    (void)k, (void)acts, (void)q8;
    for (size_t r = 0; r < rows; r++, q += n, x += n) {
        bn_real most = 1e-5;
        for (size_t i = 0; i < n; i++)
            most = fabs(x[i]) > most ? fabs(x[i]) : most;
        scale[r] = 127.0 / most;
        for (size_t i = 0; i < n; i++)
            q[i] = x[i] * scale[r] + BN_REAL_ROUNDER - BN_REAL_ROUNDER;
    }
}
#else
BN_WIDE static void widen_row(bn_real *y, const int8_t *q, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (bn_real)q[i];
}

void bn_op_quantise(const struct bn_kernels *k, bn_real *q, bn_real *scale, struct bn_act *acts, int8_t *q8,
                    const bn_real *x, size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r++, q += n, q8 += n, x += n) {
        acts[r] = (struct bn_act){.q = q8};
        k->quantize(q8, &acts[r].scale, &acts[r].total, x, n);
        scale[r] = acts[r].scale;
        widen_row(q, q8, n);
    }
}
#endif

BN_WIDE double bn_op_sum_abs(const bn_real *w, size_t n)
{
    double lane[BN_LANES] = {0};
    size_t i = 0;
    for (; i + BN_LANES <= n; i += BN_LANES)
        for (size_t j = 0; j < BN_LANES; j++)
            lane[j] += (double)bn_real_abs(w[i + j]);
    for (; i < n; i++)
        lane[i % BN_LANES] += (double)bn_real_abs(w[i]);
    return bn_fold_sums(lane);
}

BN_WIDE void bn_op_ternarise(bn_real *t, const bn_real *w, bn_real s, bn_real unit, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bn_real x = w[i] / s;
        x = x < -1 ? -1 : x > 1 ? 1 : x;
        t[i] = (x + BN_REAL_ROUNDER - BN_REAL_ROUNDER) * unit;
    }
}

/* ---- linear layers ---- */

BN_WIDE static void unscale_row(bn_real *y, bn_real scale, bn_real s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] / scale * s;
}

void bn_op_linear(const struct bn_kernels *k, bn_real *y, const struct bn_op_input *in,
                  const struct bn_op_matrix *w)
{
#ifdef BN_TRAIN_F64
    (void)k;
#else
    if (in->acts != NULL && w->codes != NULL) {
        struct bn_ternary tiles = {.codes = w->codes,
                                   .scale = w->s,
                                   .rows = w->n_out,
                                   .k = w->n_in,
                                   .group = BN_I2S_BLOCK,
                                   .blocks = BN_BLOCKS_I2S};
        k->ternary_gemm(y, w->n_out, &tiles, in->acts, in->rows);
        return;
    }
#endif
    bn_gemm(y, w->n_out, in->rows, w->n_out, w->n_in, 1, bn_mat(in->x, in->n), bn_mat_turned(w->t, w->n_in),
            0);
    if (in->scale == NULL && w->s == 1) return;
    for (size_t r = 0; r < in->rows; r++)
        unscale_row(y + r * w->n_out, in->scale != NULL ? in->scale[r] : 1, w->s, w->n_out);
}

void bn_op_linear_back(bn_real *dx, bool add, bn_real *dw, const bn_real *dy, const struct bn_op_input *in,
                       const struct bn_op_matrix *w, bn_real *scratch)
{
    bn_gemm(dx, w->n_in, in->rows, w->n_in, w->n_out, w->s, bn_mat(dy, w->n_out), bn_mat(w->t, w->n_in),
            add ? 1 : 0);
    if (in->scale != NULL) {
        for (size_t r = 0; r < in->rows; r++)
            bn_op_scale(scratch + r * w->n_out, dy + r * w->n_out, 1 / in->scale[r], w->n_out);
        dy = scratch;
    }
    bn_gemm(dw, w->n_in, w->n_out, w->n_in, in->rows, 1, bn_mat_turned(dy, w->n_out), bn_mat(in->x, in->n),
            1);
}

/* ---- activation functions ---- */

BN_WIDE void bn_op_relu2(bn_real *y, const bn_real *gate, const bn_real *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bn_real g = gate[i] > 0 ? gate[i] : 0;
        y[i] = g * g * up[i];
    }
}

BN_WIDE void bn_op_relu2_back(bn_real *dgate, bn_real *dup, const bn_real *dy, const bn_real *gate,
                              const bn_real *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bn_real g = gate[i] > 0 ? gate[i] : 0, u = up[i], d = dy[i];
        dup[i] = d * (g * g);
        dgate[i] = d * u * (2 * g);
    }
}

void bn_op_silu(const struct bn_kernels *k, bn_real *y, const bn_real *gate, const bn_real *up, size_t n)
{
    bn_op_scale(y, gate, -1, n);
    exp_all(k, y, y, n);
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] / (1 + y[i]) * up[i];
}

BN_WIDE static void silu_back(bn_real *dgate, bn_real *dup, const bn_real *dy, const bn_real *gate,
                              const bn_real *up, const bn_real *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bn_real g = gate[i], u = up[i], d = dy[i], sigmoid = 1 / (1 + e[i]);
        dup[i] = d * (g * sigmoid);
        dgate[i] = d * u * (sigmoid * (1 + g * (1 - sigmoid)));
    }
}

void bn_op_silu_back(const struct bn_kernels *k, bn_real *dgate, bn_real *dup, const bn_real *dy,
                     const bn_real *gate, const bn_real *up, bn_real *scratch, size_t n)
{
    bn_op_scale(scratch, gate, -1, n);
    exp_all(k, scratch, scratch, n);
    silu_back(dgate, dup, dy, gate, up, scratch, n);
}

/* ---- softmax and loss ---- */

BN_WIDE static bn_real greatest(const bn_real *x, size_t n)
{
    bn_real lane[BN_LANES], most = x[0];
    size_t i = 0;
    for (size_t j = 0; j < BN_LANES; j++)
        lane[j] = x[0];
    for (; i + BN_LANES <= n; i += BN_LANES)
        for (size_t j = 0; j < BN_LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (size_t j = 0; j < BN_LANES; j++)
        most = lane[j] > most ? lane[j] : most;
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

BN_WIDE static void subtract(bn_real *x, bn_real c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] -= c;
}

static double exp_row(const struct bn_kernels *k, bn_real *x, size_t n, bn_real most)
{
    subtract(x, most, n);
    exp_all(k, x, x, n);
    return bn_op_sum_abs(x, n); /* none is negative */
}

double bn_op_cross_entropy(const struct bn_kernels *k, bn_real *logits, size_t n, size_t target, bool back)
{
    bn_real most = greatest(logits, n);
    double of_target = (double)logits[target] - (double)most, sum = exp_row(k, logits, n, most);
    if (back) {
        bn_op_scale(logits, logits, (bn_real)(1.0 / sum), n);
        logits[target] -= 1;
    }
    return bn_log(sum) - of_target;
}

#define ROWS 128u

BN_WIDE static void rotate(bn_real *restrict a, bn_real *restrict b, const bn_real *cos, const bn_real *sin,
                           bn_real sign, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bn_real x = a[i], y = b[i], s = sin[i] * sign;
        a[i] = x * cos[i] - y * s;
        b[i] = x * s + y * cos[i];
    }
}

void bn_op_rope(bn_real *x, size_t n_heads, const struct bn_op_heads *h, const bn_real *cos,
                const bn_real *sin, bool back)
{
    size_t half = h->head_dim / 2;
    for (size_t t = 0; t < h->n_tokens; t++)
        for (size_t i = 0; i < n_heads; i++, x += h->head_dim)
            rotate(x, x + half, cos + t * half, sin + t * half, back ? -1 : 1, half);
}

/* The first n of width values become probabilities, the others 0. */
static void softmax(const struct bn_kernels *k, bn_real *x, size_t n, size_t width)
{
    bn_op_scale(x, x, (bn_real)(1.0 / exp_row(k, x, n, greatest(x, n))), n);
    memset(x + n, 0, (width - n) * sizeof *x);
}

static bn_real factor_of(const struct bn_op_heads *h)
{
    return 1 / bn_real_sqrt((bn_real)h->head_dim);
}

void bn_op_attention(const struct bn_kernels *k, bn_real *y, bn_real *p, const bn_real *q,
                     const bn_real *keys, const bn_real *values, const struct bn_op_heads *h)
{
    size_t T = h->n_tokens, D = h->head_dim, ldq = h->n_head * D, ldk = h->n_kv * D;
    for (size_t head = 0; head < h->n_head; head++, p += T * T) {
        const size_t of_q = head * D, of_kv = head / (h->n_head / h->n_kv) * D;
        for (size_t from = 0; from < T; from += ROWS) {
            size_t end = from + ROWS < T ? from + ROWS : T, rows = end - from;
            bn_real *block = p + from * T;
            bn_gemm(block, T, rows, end, D, factor_of(h), bn_mat(q + from * ldq + of_q, ldq),
                    bn_mat_turned(keys + of_kv, ldk), 0);
            for (size_t r = 0; r < rows; r++)
                softmax(k, block + r * T, from + r + 1, end);
            bn_gemm(y + from * ldq + of_q, ldq, rows, D, end, 1, bn_mat(block, T),
                    bn_mat(values + of_kv, ldk), 0);
        }
    }
}

/* ds = p (dp - sum of dp p), in place of dp. */
BN_WIDE static void softmax_back(bn_real *dp, const bn_real *p, size_t n)
{
    bn_real sum = dot(dp, p, n);
    for (size_t i = 0; i < n; i++)
        dp[i] = p[i] * (dp[i] - sum);
}

void bn_op_attention_back(bn_real *dq, bn_real *dkeys, bn_real *dvalues, const bn_real *dy, const bn_real *p,
                          const bn_real *q, const bn_real *keys, const bn_real *values,
                          const struct bn_op_heads *h, bn_real *scratch)
{
    size_t T = h->n_tokens, D = h->head_dim, ldq = h->n_head * D, ldk = h->n_kv * D;
    bn_real factor = factor_of(h);
    memset(dkeys, 0, T * ldk * sizeof *dkeys);
    memset(dvalues, 0, T * ldk * sizeof *dvalues);
    for (size_t head = 0; head < h->n_head; head++, p += T * T) {
        const size_t of_q = head * D, of_kv = head / (h->n_head / h->n_kv) * D;
        for (size_t from = 0; from < T; from += ROWS) {
            size_t end = from + ROWS < T ? from + ROWS : T, rows = end - from;
            const bn_real *block = p + from * T, *dyh = dy + from * ldq + of_q, *qh = q + from * ldq + of_q;
            bn_gemm(dvalues + of_kv, ldk, end, D, rows, 1, bn_mat_turned(block, T), bn_mat(dyh, ldq), 1);
            bn_gemm(scratch, T, rows, end, D, 1, bn_mat(dyh, ldq), bn_mat_turned(values + of_kv, ldk), 0);
            for (size_t r = 0; r < rows; r++)
                softmax_back(scratch + r * T, block + r * T, end);
            bn_gemm(dq + from * ldq + of_q, ldq, rows, D, end, factor, bn_mat(scratch, T),
                    bn_mat(keys + of_kv, ldk), 0);
            bn_gemm(dkeys + of_kv, ldk, end, D, rows, factor, bn_mat_turned(scratch, T), bn_mat(qh, ldq), 1);
        }
    }
}
