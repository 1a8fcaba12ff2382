/* SPDX-License-Identifier: MIT
 *
 * The slots of recurrent layers: the convolution and the gated delta rule. The truth computes in binary64.
 */
#include "checkkern.h"

#include <math.h>
#include <stdio.h>

#define EPS 0x1p-24 /* half a unit in the last place, relative */
#define MAX_TAPS 6u

/* ---- conv_silu: k taps over rows of n values, which lie ld apart at b; a: the weights, ldx apart ---- */

static bool setup_conv(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const size_t N[] = {1, 5, 16, 37, 64, 130, 1000};
    enum ck_values values = CK_ORDINARY;
    call->n = N[index % 7];
    call->k = 1 + index / 7 % MAX_TAPS;
    if (class == CK_EXTREMES) {
        if (index >= 7 * CK_N_VALUES) return false;
        call->k = 4;
        values = index / 7;
    } else if (index >= 7 * MAX_TAPS) {
        return false;
    }
    ck->guard_before = class == CK_LAYOUT;
    call->ld = call->n + (class == CK_LAYOUT ? 3 : 0);
    call->ldx = call->n + (class == CK_LAYOUT ? index % 4 : 0);
    call->a = ck_floats(ck, (call->k - 1) * call->ldx + call->n, CK_ORDINARY);
    call->b = ck_floats(ck, (call->k - 1) * call->ld + call->n, values);
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, call->n * sizeof(float));
    snprintf(call->text, sizeof call->text, "n=%zu taps=%zu %s", call->n, call->k, ck_values_name(values));
    return true;
}

static void invoke_conv(const struct bn_kernels *kernels, const struct ck_call *call)
{
    const float *rows[MAX_TAPS];
    for (size_t t = 0; t < call->k; t++)
        rows[t] = (const float *)call->b + t * call->ld;
    kernels->conv_silu(call->out, call->a, call->ldx, rows, call->k, call->n);
}

static bool truth_conv(struct ck *ck, const struct ck_call *call)
{
    const float *w = call->a, *x = call->b, *y = call->out;
    for (size_t i = 0; i < call->n; i++) {
        double c = 0, size = 0;
        for (size_t t = 0; t < call->k; t++) {
            double part = (double)w[t * call->ldx + i] * (double)x[t * call->ld + i];
            c += part;
            size += fabs(part);
        }
        if (c < -80 || size > 0x1p127) continue; /* exp is capped there; a part of the sum may overflow */
        if (!ck_near(ck, "value", i, y[i], c / (1 + exp(-c)), size * 16 * EPS + 1e-44)) return false;
    }
    return true;
}

/* ---- delta: a is q, b is k, c is v, weights are the gates; out is the state, out3 the state before, out2 what comes out ---- */

struct delta_shape {
    size_t d, columns, n;
};

static bool delta_shape(struct delta_shape *s, enum ck_class class, unsigned index)
{
    static const size_t D[] = {1, 8, 33, 64}, COLUMNS[] = {1, 7, 16, 24, 64, 100}, N[] = {1, 2, 5};
    *s = (struct delta_shape){D[index % 4], COLUMNS[index / 4 % 6], N[index / 24 % 3]};
    return index < (class == CK_EXTREMES ? 24 * CK_N_VALUES : 72);
}

static bool setup_delta(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    struct delta_shape s;
    if (!delta_shape(&s, class, index)) return false;
    size_t gap = class == CK_LAYOUT ? 5 : 0;
    enum ck_values values = class == CK_EXTREMES ? (enum ck_values)(index / 24) : CK_ORDINARY;
    ck->guard_before = class == CK_LAYOUT;
    call->k = s.d;
    call->rows = s.columns;
    call->n = s.n;
    call->ldx = s.d + gap;
    call->ldy = s.columns + gap;
    call->a = ck_floats(ck, s.n * call->ldx, values);
    call->b = ck_floats(ck, s.n * call->ldx, values);
    call->c = ck_floats(ck, s.n * call->ldy, CK_ORDINARY);
    call->weights = (const uint8_t *)ck_floats(ck, 2 * s.n, CK_ORDINARY); /* decay and beta of each token */
    float *state = ck_buffer(ck, CK_OUT, CK_FLOATS, s.d * call->ldy * sizeof *state);
    ck_fill_f32(ck, state, s.d * call->ldy, values);
    float *before = ck_buffer(ck, CK_IN, CK_FLOATS, s.d * call->ldy * sizeof *before);
    for (size_t i = 0; i < s.d * call->ldy; i++)
        before[i] = state[i];
    call->out = state;
    call->out3 = before;
    call->out2 = ck_buffer(ck, CK_OUT, CK_FLOATS, s.n * call->ldy * sizeof(float));
    snprintf(call->text, sizeof call->text, "d=%zu columns=%zu n=%zu %s", s.d, s.columns, s.n,
             ck_values_name(values));
    return true;
}

static void invoke_delta(const struct bn_kernels *kernels, const struct ck_call *call)
{
    const float *gates = (const float *)(const void *)call->weights;
    const struct bn_delta at = {.state = call->out,
                                .d = call->k,
                                .columns = call->rows,
                                .ld = call->ldy,
                                .q = call->a,
                                .k = call->b,
                                .v = call->c,
                                .o = call->out2,
                                .ld_qk = call->ldx,
                                .ld_v = call->ldy,
                                .ld_o = call->ldy,
                                .decay = gates,
                                .beta = gates + 1,
                                .ld_gate = 2};
    kernels->delta(&at, call->n);
}

/* Column j: the state in binary64, with the size of the terms for the tolerance. */
static bool true_column(struct ck *ck, const struct ck_call *call, size_t j)
{
    const float *q = call->a, *k = call->b, *v = call->c, *before = call->out3, *o = call->out2;
    const float *gates = (const float *)(const void *)call->weights;
    double state[128], sizes[128];
    for (size_t i = 0; i < call->k; i++) {
        state[i] = (double)before[i * call->ldy + j];
        sizes[i] = fabs(state[i]);
    }
    for (size_t t = 0; t < call->n; t++) {
        const float *query = q + t * call->ldx, *key = k + t * call->ldx;
        double p = 0, size = fabs((double)v[t * call->ldy + j]), sum = 0, sum_size = 0, largest = size;
        for (size_t i = 0; i < call->k; i++) {
            state[i] *= (double)gates[2 * t];
            p += state[i] * (double)key[i];
            size += sizes[i] * fabs((double)key[i]);
            largest = fmax(largest, size);
        }
        double u = (double)gates[2 * t + 1] * ((double)v[t * call->ldy + j] - p);
        for (size_t i = 0; i < call->k; i++) {
            state[i] += (double)key[i] * u;
            sizes[i] += fabs((double)key[i]) * size;
            sum += state[i] * (double)query[i];
            sum_size += sizes[i] * fabs((double)query[i]);
            largest = fmax(largest, fmax(sizes[i], sum_size));
        }
        if (largest > 0x1p100) return true; /* a part of a sum may overflow */
        if (!ck_near(ck, "value", t * call->ldy + j, o[t * call->ldy + j], sum,
                     sum_size * EPS * 16 * (double)((call->k + 8) * call->n) + 1e-40))
            return false;
    }
    return true;
}

static bool truth_delta(struct ck *ck, const struct ck_call *call)
{
    for (size_t j = 0; j < call->rows; j++)
        if (!true_column(ck, call, j)) return false;
    return true;
}

const struct ck_slot CK_RECURRENT[] = {
    {BN_KERNEL_CONV_SILU, setup_conv, invoke_conv, truth_conv, 0},
    {BN_KERNEL_DELTA, setup_delta, invoke_delta, truth_delta, 0},
    {BN_KERNEL_COUNT, NULL, NULL, NULL, 0},
};
