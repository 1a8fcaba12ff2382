/* SPDX-License-Identifier: MIT
 *
 * Wrong kernels of attention, of recurrent layers and of gates, for selftest.c.
 */
#include "faults.h"

#include <math.h>

/* Row after row of each tile, as values lie. */
void scores_of_rows(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                    float factor)
{
    size_t tile = BN_KEY_TILE * k->head_dim;
    for (size_t p = 0; p < k->n_pos; p++) {
        uint16_t keys[BN_KEY_TILE * 1024];
        for (size_t i = 0; i < k->head_dim; i++)
            keys[i * BN_KEY_TILE] = k->tiles[p / BN_KEY_TILE * tile + p % BN_KEY_TILE * k->head_dim + i];
        struct bn_keys one = {keys, 1, k->head_dim};
        bn_kernels_ref.attn_scores(s + p, lds, q, ldq, n, &one, factor);
    }
}

/* Wrong in the last query of more than one full set of eight. */
void scores_drop_query(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                       float factor)
{
    bn_kernels_ref.attn_scores(s, lds, q, ldq, n > 8 && n % 8 == 1 ? n - 1 : n, k, factor);
}

void scores_of_whole_tiles(float *s, size_t lds, const float *q, size_t ldq, size_t n,
                           const struct bn_keys *k, float factor)
{
    struct bn_keys whole = {k->tiles, (k->n_pos + BN_KEY_TILE - 1) / BN_KEY_TILE * BN_KEY_TILE, k->head_dim};
    bn_kernels_ref.attn_scores(s, lds, q, ldq, n, &whole, factor);
}

/* The second half of the positions before the first one. */
void values_in_halves(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v)
{
    struct bn_kv first = *v, second = *v;
    first.n_pos = v->n_pos / 2;
    second.n_pos = v->n_pos - first.n_pos;
    second.rows = v->rows + first.n_pos * v->ld;
    bn_kernels_ref.attn_values(y, ldy, s + first.n_pos, lds, n, &second);
    bn_kernels_ref.attn_values(y, ldy, s, lds, n, &first);
}

/* What comes out before the state takes the token in. */
void delta_reads_before(const struct bn_delta *at, size_t n)
{
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < at->columns; j++) {
            float o = 0.0f;
            for (size_t i = 0; i < at->d; i++)
                o = fmaf(at->state[i * at->ld + j] * at->decay[t * at->ld_gate], at->q[t * at->ld_qk + i], o);
            struct bn_delta one = *at;
            one.state += j;
            one.columns = 1;
            one.q += t * at->ld_qk;
            one.k += t * at->ld_qk;
            one.v += t * at->ld_v + j;
            one.o += t * at->ld_o + j;
            one.decay += t * at->ld_gate;
            one.beta += t * at->ld_gate;
            bn_kernels_ref.delta(&one, 1);
            at->o[t * at->ld_o + j] = o;
        }
}

/* With one rounding for a product and its sum. */
void conv_by_fma(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float c = 0.0f, e;
        for (size_t t = 0; t < taps; t++)
            c = fmaf(w[t * ldw + i], x[t][i], c);
        float minus = -c;
        bn_kernels_ref.exp(&e, &minus, 1);
        y[i] = c / (1.0f + e);
    }
}

/* The newest row first. */
void conv_backwards(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n)
{
    const float *rows[8];
    for (size_t t = 0; t < taps; t++)
        rows[t] = x[taps - 1 - t];
    bn_kernels_ref.conv_silu(y, w, ldw, rows, taps, n);
}

void sigmoid_of_x(float *y, const float *x, const float *gate, size_t n)
{
    bn_kernels_ref.sigmoid_mul(y, gate, x, n);
}
