/* SPDX-License-Identifier: MIT
 *
 * Wrong kernels that are in faults.c; the others are in selftest.c.
 */
#ifndef CHECKKERN_FAULTS_H
#define CHECKKERN_FAULTS_H

#include "kernels/kernels.h"

void scores_of_rows(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                    float factor);
void scores_drop_query(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                       float factor);
void scores_of_whole_tiles(float *s, size_t lds, const float *q, size_t ldq, size_t n,
                           const struct bn_keys *k, float factor);
void values_in_halves(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v);
void delta_reads_before(const struct bn_delta *at, size_t n);
void conv_by_fma(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n);
void conv_backwards(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n);
void sigmoid_of_x(float *y, const float *x, const float *gate, size_t n);

#endif
