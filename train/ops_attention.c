/* SPDX-License-Identifier: MIT
 *
 * Rotary positions and causal attention with grouped queries. Queries are taken in blocks of rows, and a block's keys
 * end with its last row: of the half of all pairs that causality excludes, most are never computed.
 */
#include <string.h>

#include "train/ops.h"
#include "train/real.h"

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
    bn_op_scale(x, x, (bn_real)(1.0 / bn_op_exp_row(k, x, n)), n);
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
    bn_real lane[BN_LANES] = {0};
    size_t i = 0;
    for (; i + BN_LANES <= n; i += BN_LANES)
        for (size_t j = 0; j < BN_LANES; j++)
            lane[j] += dp[i + j] * p[i + j];
    for (; i < n; i++)
        lane[i % BN_LANES] += dp[i] * p[i];
    bn_real sum = bn_fold(lane);
    for (i = 0; i < n; i++)
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
