/* SPDX-License-Identifier: MIT
 *
 * elements.h - norm, softmax, activation functions and positions for vectors of any width; see kernels.h for what they compute.
 * A file of one instruction set includes this after attn.h, whose definitions it uses, and after it has defined
 *
 *     STEP                      8, or VEC where that is more: values that a sum takes at once
 *     vec_div, vec_neg, vec_fnma(a, b, c) = c - a * b
 *     vec_exp                   bn_ref_exp of each value
 *     vec_positive              values above 0; 0 for others, -0 and NaN
 *     load_bytes(v, at)         STEP int8 values as STEP / VEC vectors
 *     struct sums, no_terms(), add_terms(sums, v), fold_sums(sums)
 *                               the eight binary64 lanes of a lane sum, which takes STEP / VEC vectors
 *     LARGEST(x, n)             the maximum; only where the set has bn_softmax of this file and positions
 *
 * Ends are filled up with zeros.
 */
#ifndef BN_KERNELS_ELEMENTS_H
#define BN_KERNELS_ELEMENTS_H

#include "kernels/ref.h"

#ifdef VEC

#define PARTS (STEP / VEC)

/* y[i] = op(a[i], b[i], c) */
INLINE void each(float *y, const float *a, const float *b, vec c, size_t n, vec (*op)(vec, vec, vec))
{
    size_t i = 0;
    for (; i + VEC <= n; i += VEC)
        vec_store(y + i, op(vec_load(a + i), vec_load(b + i), c));
    if (i < n) store_some(y + i, op(load_some(a + i, n - i), load_some(b + i, n - i), c), n - i);
}

/* v / (1 + exp(-x)) */
INLINE vec over_exp(vec v, vec x)
{
    return vec_div(v, vec_add(vec_set1(1.0f), vec_exp(vec_neg(x))));
}

INLINE vec exp_of(vec a, vec b, vec c)
{
    (void)b, (void)c;
    return vec_exp(a);
}

INLINE vec silu_times(vec a, vec b, vec c)
{
    (void)c;
    return vec_mul(over_exp(a, a), b);
}

INLINE vec times_sigmoid(vec a, vec b, vec c)
{
    (void)c;
    return over_exp(a, b);
}

INLINE vec gelu_times(vec a, vec b, vec c)
{
    vec slope = vec_fma(vec_mul(a, a), vec_set1(BN_GELU_C3), vec_set1(BN_GELU_C1));
    (void)c;
    return vec_mul(over_exp(a, vec_mul(a, slope)), b);
}

INLINE vec relu2_times(vec a, vec b, vec c)
{
    vec positive = vec_positive(a);
    (void)c;
    return vec_mul(vec_mul(positive, positive), b);
}

INLINE vec plus(vec a, vec b, vec c)
{
    (void)c;
    return vec_add(a, b);
}

INLINE vec scaled(vec a, vec b, vec c)
{
    (void)b;
    return vec_mul(a, c);
}

INLINE vec scaled_times(vec a, vec b, vec c)
{
    return vec_mul(vec_mul(a, c), b);
}

void KERNEL(exp)(float *y, const float *x, size_t n)
{
    each(y, x, x, vec_set1(0.0f), n, exp_of);
}

void KERNEL(silu_mul)(float *y, const float *gate, const float *up, size_t n)
{
    each(y, gate, up, vec_set1(0.0f), n, silu_times);
}

void KERNEL(sigmoid_mul)(float *y, const float *x, const float *gate, size_t n)
{
    each(y, x, gate, vec_set1(0.0f), n, times_sigmoid);
}

void KERNEL(gelu_mul)(float *y, const float *gate, const float *up, size_t n)
{
    each(y, gate, up, vec_set1(0.0f), n, gelu_times);
}

void KERNEL(relu2_mul)(float *y, const float *gate, const float *up, size_t n)
{
    each(y, gate, up, vec_set1(0.0f), n, relu2_times);
}

void KERNEL(add)(float *y, const float *x, size_t n)
{
    each(y, y, x, vec_set1(0.0f), n, plus);
}

void KERNEL(conv_silu)(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        const bool whole = i + VEC <= n;
        vec c = vec_set1(0.0f);
        for (size_t t = 0; t < taps; t++) {
            const float *weight = w + t * ldw + i, *input = x[t] + i;
            c = vec_add(c, whole ? vec_mul(vec_load(weight), vec_load(input))
                                 : vec_mul(load_some(weight, n - i), load_some(input, n - i)));
        }
        if (whole)
            vec_store(y + i, over_exp(c, c));
        else
            store_some(y + i, over_exp(c, c), n - i);
    }
}

/* ---- lane sums ---- */

/* Of STEP values. */
INLINE void add_squares(struct sums *sum, const float *x)
{
    vec v[PARTS];
    for (size_t p = 0; p < PARTS; p++)
        v[p] = vec_mul(vec_load(x + p * VEC), vec_load(x + p * VEC));
    add_terms(sum, v);
}

void KERNEL(rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps)
{
    struct sums sum = no_terms();
    float last[STEP] = {0};
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        add_squares(&sum, x + i);
    if (i < n) {
        memcpy(last, x + i, (n - i) * sizeof *x);
        add_squares(&sum, last);
    }
    float r = 1.0f / sqrtf((float)(fold_sums(sum) / (double)n) + eps);
    each(y, x, w, vec_set1(r), n, scaled_times);
}

INLINE void add_residual(struct sums *sizes, struct sums *rests, const float *x, const int8_t *q, float step)
{
    vec whole[PARTS], size[PARTS], rest[PARTS];
    load_bytes(whole, q);
    for (size_t p = 0; p < PARTS; p++) {
        vec v = vec_load(x + p * VEC), d = vec_fnma(whole[p], vec_set1(step), v);
        size[p] = vec_mul(v, v);
        rest[p] = vec_mul(d, d);
    }
    add_terms(sizes, size);
    add_terms(rests, rest);
}

void KERNEL(residual)(double *size, double *rest, const float *x, const int8_t *q, float step, size_t n)
{
    struct sums sizes = no_terms(), rests = no_terms();
    float last_x[STEP] = {0};
    int8_t last_q[STEP] = {0};
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        add_residual(&sizes, &rests, x + i, q + i, step);
    if (i < n) {
        memcpy(last_x, x + i, (n - i) * sizeof *x);
        memcpy(last_q, q + i, n - i);
        add_residual(&sizes, &rests, last_x, last_q, step);
    }
    *size = fold_sums(sizes);
    *rest = fold_sums(rests);
}

#ifdef LARGEST

/* x becomes exp(x - max), and is added to the sum: STEP values. */
INLINE void exp_step(struct sums *sum, float *x, vec max)
{
    vec e[PARTS];
    for (size_t p = 0; p < PARTS; p++) {
        e[p] = vec_exp(vec_sub(vec_load(x + p * VEC), max));
        vec_store(x + p * VEC, e[p]);
    }
    add_terms(sum, e);
}

void KERNEL(softmax)(float *x, size_t n)
{
    struct sums sum = no_terms();
    vec max = vec_set1(LARGEST(x, n));
    float last[STEP];
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        exp_step(&sum, x + i, max);
    if (i < n) {
        for (size_t j = 0; j < STEP; j++)
            last[j] = i + j < n ? x[i + j] : -INFINITY; /* of which exp is 0 */
        exp_step(&sum, last, max);
        memcpy(x + i, last, (n - i) * sizeof *x);
    }
    each(x, x, x, vec_set1((float)(1.0 / fold_sums(sum))), n, scaled);
}

void KERNEL(rope_neox)(float *x, const float *cos, const float *sin, size_t n_rot)
{
    float *other = x + n_rot / 2;
    size_t i = 0;
    for (; i + VEC <= n_rot / 2; i += VEC) {
        vec a = vec_load(x + i), b = vec_load(other + i), c = vec_load(cos + i), s = vec_load(sin + i);
        vec_store(x + i, vec_sub(vec_mul(a, c), vec_mul(b, s)));
        vec_store(other + i, vec_add(vec_mul(a, s), vec_mul(b, c)));
    }
    for (; i < n_rot / 2; i++) {
        float a = x[i], b = other[i];
        x[i] = a * cos[i] - b * sin[i];
        other[i] = a * sin[i] + b * cos[i];
    }
}

#endif
#endif
#endif
