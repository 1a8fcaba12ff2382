/* SPDX-License-Identifier: MIT
 *
 * delta.h - the gated delta rule for vectors of any width; see kernels.h for what it computes. A file of one
 * instruction set includes this after attn.h, whose definitions it uses.
 *
 * A vector holds columns of the state. Four of them at a time hide the latency of the sums, and a block of them stays
 * in the first-level cache while all tokens use it.
 */
#ifndef BN_KERNELS_DELTA_H
#define BN_KERNELS_DELTA_H

#include "kernels/kernels.h"

#ifdef VEC

#define DELTA_VECS 4u

/* One token on n_vecs vectors of columns from column `first` on. */
INLINE void delta_token(const struct bn_delta *at, size_t t, size_t first, const size_t n_vecs)
{
    const float *q = at->q + t * at->ld_qk, *k = at->k + t * at->ld_qk, *v = at->v + t * at->ld_v + first;
    vec decay = vec_set1(at->decay[t * at->ld_gate]), beta = vec_set1(at->beta[t * at->ld_gate]);
    vec sum[DELTA_VECS], u[DELTA_VECS];
    for (size_t c = 0; c < n_vecs; c++)
        sum[c] = vec_set1(0.0f);
    for (size_t i = 0; i < at->d; i++) {
        const float *state = at->state + i * at->ld + first;
        vec key = vec_set1(k[i]);
        for (size_t c = 0; c < n_vecs; c++)
            sum[c] = vec_fma(vec_mul(vec_load(state + c * VEC), decay), key, sum[c]);
    }
    for (size_t c = 0; c < n_vecs; c++) {
        u[c] = vec_mul(beta, vec_sub(vec_load(v + c * VEC), sum[c]));
        sum[c] = vec_set1(0.0f);
    }
    for (size_t i = 0; i < at->d; i++) {
        float *state = at->state + i * at->ld + first;
        vec key = vec_set1(k[i]), query = vec_set1(q[i]);
        for (size_t c = 0; c < n_vecs; c++) {
            vec s = vec_fma(key, u[c], vec_mul(vec_load(state + c * VEC), decay));
            vec_store(state + c * VEC, s);
            sum[c] = vec_fma(s, query, sum[c]);
        }
    }
    for (size_t c = 0; c < n_vecs; c++)
        vec_store(at->o + t * at->ld_o + first + c * VEC, sum[c]);
}

void KERNEL(delta)(const struct bn_delta *at, size_t n)
{
    size_t first = 0;
    for (; first + DELTA_VECS * VEC <= at->columns; first += DELTA_VECS * VEC)
        for (size_t t = 0; t < n; t++)
            delta_token(at, t, first, DELTA_VECS);
    for (; first + VEC <= at->columns; first += VEC)
        for (size_t t = 0; t < n; t++)
            delta_token(at, t, first, 1);
    struct bn_delta rest = *at;
    rest.state += first;
    rest.v += first;
    rest.o += first;
    rest.columns -= first;
    if (rest.columns > 0) bn_delta_ref(&rest, n);
}

#endif
#endif
