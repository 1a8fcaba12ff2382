/* SPDX-License-Identifier: MIT
 *
 * Norm, positions, softmax, exp, and the element-by-element slots. The truth computes in binary64 with libm.
 */
#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EPS 0x1p-24 /* half a unit in the last place, relative */

/* Length and values of a case of a slot over n values; false past the end. */
static bool pick(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index,
                 enum ck_values *values)
{
    static const size_t LARGE[] = {128, 1000, 2560, 6912};
    static const size_t N[] = {1, 7, 16, 37, 130};
    *values = CK_ORDINARY;
    call->n = index + 1;
    if (class == CK_EXTREMES) {
        if (index >= 5 * CK_N_VALUES) return false;
        call->n = N[index % 5];
        *values = index / 5;
    } else if (index >= 67) {
        if (index - 67 >= 4) return false;
        call->n = LARGE[index - 67];
    }
    ck->guard_before = class == CK_LAYOUT && index % 2 == 0;
    snprintf(call->text, sizeof call->text, "n=%zu %s", call->n, ck_values_name(*values));
    return true;
}

/* An output that starts as n values. */
static float *in_place(struct ck *ck, size_t n, enum ck_values values)
{
    float *x = ck_buffer(ck, CK_OUT, CK_FLOATS, n * sizeof *x);
    ck_fill_f32(ck, x, n, values);
    return x;
}

/* The truth needs the inputs of slots that work in place: a copy. */
static const float *copy_of(struct ck *ck, const float *x, size_t n)
{
    float *copy = ck_buffer(ck, CK_IN, CK_FLOATS, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = x[i];
    return copy;
}

/* ---- rmsnorm ---- */

/* A sum of squares half way between two means of binary32, plus many squares each too small to count beside
 * it: together they decide how the mean is rounded, but only when they are added in other lanes. */
static bool setup_tied_sum(struct ck *ck, struct ck_call *call)
{
    enum { N = 256 };
    float *x = ck_buffer(ck, CK_IN, CK_FLOATS, N * sizeof *x);
    for (size_t i = 0; i < N; i++)
        x[i] = 0x1p-16f;
    x[0] = (float)(2048 + ck_below(ck, 848)); /* the square has 23 bits, of which the last is worth a half */
    x[1] = 0.5f;
    call->n = N;
    call->a = call->c = x;
    call->b = ck_floats(ck, N, CK_ORDINARY);
    call->f = (float)ck_below(ck, 1u << 20) * 0x1p-9f; /* away from squares, whose roots hide a last place */
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, N * sizeof *x);
    snprintf(call->text, sizeof call->text, "tied sum of %a", (double)x[0]);
    return true;
}

static bool setup_rmsnorm(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    enum ck_values values;
    if (class == CK_EXTREMES && index >= 5 * CK_N_VALUES)
        return index < 5 * CK_N_VALUES + 20 && setup_tied_sum(ck, call);
    if (!pick(ck, call, class, index, &values)) return false;
    bool same = class == CK_LAYOUT;
    call->out = in_place(ck, call->n, values);
    call->c = copy_of(ck, call->out, call->n);
    call->a = same ? call->out : call->c;
    call->b = ck_floats(ck, call->n, index % 2 == 0 ? values : CK_ORDINARY);
    call->f = index % 3 == 0 ? 1e-6f : 1e-5f;
    return true;
}

CK_INVOKE(rmsnorm, call->out, call->a, call->b, call->n, call->f)

static bool truth_rmsnorm(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *x = call->c, *w = call->b;
    double sum = 0;
    for (size_t i = 0; i < call->n; i++)
        sum += (double)x[i] * (double)x[i];
    if (sum / (double)call->n > 1e38) return true; /* beyond binary32: only the bits are compared */
    double r = 1 / sqrt(sum / (double)call->n + (double)call->f);
    for (size_t i = 0; i < call->n; i++) {
        double want = (double)x[i] * r * (double)w[i];
        if (!ck_near(ck, "value", i, y[i], want, fabs(want) * 8 * EPS + fabs((double)w[i]) * 1e-44 + 1e-44))
            return false;
    }
    return true;
}

/* ---- rope ---- */

enum { NEOX, NORM };

static bool setup_rope(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    enum ck_values values;
    static const size_t HEAD[] = {32, 64, 80, 96, 100, 128, 256};
    if (!pick(ck, call, class, index, &values)) return false;
    call->n *= 2;
    if (class == CK_LAYOUT) call->n = HEAD[index % 7];
    call->out = in_place(ck, call->n, values);
    call->a = copy_of(ck, call->out, call->n);
    float *cosine = ck_buffer(ck, CK_IN, CK_FLOATS, call->n / 2 * sizeof *cosine);
    float *sine = ck_buffer(ck, CK_IN, CK_FLOATS, call->n / 2 * sizeof *sine);
    for (size_t i = 0; i < call->n / 2; i++) {
        double t = 3 * (double)ck_uniform(ck); /* on the unit circle, without libm */
        cosine[i] = (float)((1 - t * t) / (1 + t * t));
        sine[i] = (float)(2 * t / (1 + t * t));
    }
    call->b = cosine;
    call->c = sine;
    return true;
}

CK_INVOKE(rope_neox, call->out, call->b, call->c, call->n)

CK_INVOKE(rope_norm, call->out, call->b, call->c, call->n)

static bool truth_rope(struct ck *ck, const struct ck_call *call)
{
    size_t step = call->variant == NORM ? 2 : 1, other = call->variant == NORM ? 1 : call->n / 2;
    const float *y = call->out, *x = call->a, *cosine = call->b, *sine = call->c;
    for (size_t i = 0; i < call->n / 2; i++) {
        double a = (double)x[i * step], b = (double)x[i * step + other];
        double c = (double)cosine[i], s = (double)sine[i];
        double tolerance = (fabs(a) + fabs(b)) * 6 * EPS + 1e-44;
        if (!ck_near(ck, "first", i, y[i * step], a * c - b * s, tolerance) ||
            !ck_near(ck, "second", i, y[i * step + other], a * s + b * c, tolerance))
            return false;
    }
    return true;
}

/* ---- softmax, exp ---- */

static bool setup_softmax(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    enum ck_values values;
    if (!pick(ck, call, class, index, &values)) return false;
    float *x = in_place(ck, call->n, values);
    if (class == CK_EXTREMES && index % 2 == 1) /* far apart, and masked positions */
        for (size_t i = 1; i < call->n; i++)
            x[i] = i % 5 == 0 ? -INFINITY : x[0] - (float)i;
    call->out = x;
    call->a = copy_of(ck, x, call->n);
    return true;
}

CK_INVOKE(softmax, call->out, call->n)

static bool truth_softmax(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *x = call->a;
    float max = x[0];
    double sum = 0;
    for (size_t i = 0; i < call->n; i++)
        max = fmaxf(max, x[i]);
    for (size_t i = 0; i < call->n; i++)
        sum += exp((double)(x[i] - max));
    for (size_t i = 0; i < call->n; i++) {
        double want = exp((double)(x[i] - max)) / sum;
        if (!ck_near(ck, "probability", i, y[i], want, want * 16 * EPS + 1e-37)) return false;
    }
    return true;
}

static bool setup_exp(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    enum ck_values values;
    if (!pick(ck, call, class, index, &values)) return false;
    float *x = in_place(ck, call->n, values);
    static const float EDGE[] = {-87.0f,     -87.00001f,  -86.99999f, 88.0f,    88.00001f,
                                 87.99999f,  -INFINITY,   INFINITY,   -1000.0f, 1000.0f,
                                 0.3465735f, -0.3465735f, 1.0f,       -0.0f,    0x1p-126f};
    for (size_t i = 0; i < call->n; i++) {
        if (class == CK_SHAPES) x[i] = ck_uniform(ck) * (index % 2 == 0 ? 100.0f : 5.0f);
        if (class == CK_EXTREMES && index % 3 == 0) x[i] = EDGE[(i + index) % (sizeof EDGE / sizeof *EDGE)];
    }
    call->c = copy_of(ck, x, call->n);
    call->out = x;
    call->a = class == CK_LAYOUT ? call->out : call->c;
    return true;
}

CK_INVOKE(exp, call->out, call->a, call->n)

static bool truth_exp(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *x = call->c;
    for (size_t i = 0; i < call->n; i++) {
        double want = x[i] < -87.0f ? 0 : exp((double)fminf(x[i], 88.0f));
        if (!ck_near(ck, "value", i, y[i], want, want * 6 * EPS)) return false;
    }
    return true;
}

/* ---- element by element ---- */

static bool setup_pair(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    enum ck_values values;
    if (!pick(ck, call, class, index, &values)) return false;
    call->out = in_place(ck, call->n, values);
    const float *copy = copy_of(ck, call->out, call->n);
    const float *other = ck_floats(ck, call->n, index % 2 == 0 ? values : CK_ORDINARY);
    call->rows = class == CK_LAYOUT ? 1 + index % 2 : 0; /* what the output shares its place with */
    call->a = call->rows == 1 ? call->out : copy;
    call->b = call->rows == 2 ? call->out : other;
    call->c = copy;
    return true;
}

CK_INVOKE(relu2_mul, call->out, call->a, call->b, call->n)

CK_INVOKE(silu_mul, call->out, call->a, call->b, call->n)

CK_INVOKE(sigmoid_mul, call->out, call->a, call->b, call->n)

CK_INVOKE(gelu_mul, call->out, call->a, call->b, call->n)

CK_INVOKE(add, call->out, call->rows == 0 ? call->b : call->c, call->n)

/* The second factor as it was: the output's place held a copy of the first. */
static double second(const struct ck_call *call, size_t i)
{
    return (double)((const float *)(call->rows == 2 ? call->c : call->b))[i];
}

static bool truth_relu2_mul(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *gate = call->c;
    for (size_t i = 0; i < call->n; i++) {
        double g = fmax((double)gate[i], 0), want = g * g * second(call, i);
        if (g * g > 3e38) continue;
        if (!ck_near(ck, "value", i, y[i], want,
                     fabs(want) * 4 * EPS + fabs(second(call, i)) * 1e-44 + 1e-44))
            return false;
    }
    return true;
}

static bool truth_silu_mul(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *gate = call->c;
    for (size_t i = 0; i < call->n; i++) {
        double g = (double)gate[i], want = g / (1 + exp(-g)) * second(call, i);
        if (g < -87) continue; /* exp is capped there */
        if (!ck_near(ck, "value", i, y[i], want,
                     fabs(want) * 12 * EPS + fabs(second(call, i)) * 1e-44 + 1e-44))
            return false;
    }
    return true;
}

static bool truth_gelu_mul(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *gate = call->c;
    for (size_t i = 0; i < call->n; i++) {
        double g = (double)gate[i], z = sqrt(2 / acos(-1)) * (g + 0.044715 * g * g * g);
        double want = g / (1 + exp(-2 * z)) * second(call, i);
        if (2 * z < -87) continue; /* exp is capped there */
        /* The error of u is multiplied by exp. */
        if (!ck_near(ck, "value", i, y[i], want,
                     fabs(want) * (12 + 4 * fabs(2 * z)) * EPS + fabs(second(call, i)) * 1e-44 + 1e-44))
            return false;
    }
    return true;
}

static bool truth_add(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *x = call->c;
    for (size_t i = 0; i < call->n; i++) {
        double want = (double)x[i] + (call->rows == 0 ? second(call, i) : (double)x[i]);
        if (!ck_near(ck, "value", i, y[i], want, fabs(want) * EPS)) return false;
    }
    return true;
}

static bool truth_sigmoid_mul(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out, *x = call->c;
    for (size_t i = 0; i < call->n; i++) {
        double gate = second(call, i), want = (double)x[i] / (1 + exp(-gate));
        if (gate < -80) continue; /* exp is capped there */
        if (!ck_near(ck, "value", i, y[i], want, fabs(want) * 16 * EPS + 1e-44)) return false;
    }
    return true;
}

/* ---- rotate ---- */

/* Blocks of 2 to 1024, with and without signs, there and back. rows: back. */
static bool setup_rotate(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    size_t block = (size_t)2 << index % 10, blocks = 1 + index / 40 % 3;
    enum ck_values values = CK_ORDINARY;
    bool with_signs = index / 10 % 2 == 0;
    if (class == CK_EXTREMES) {
        if (index >= CK_N_VALUES * 10) return false;
        values = index / 10;
    } else if (index >= 120) {
        return false;
    }
    size_t n = block * blocks;
    ck->guard_before = class == CK_LAYOUT;
    call->a = ck_floats(ck, n, values);
    float *signs = ck_buffer(ck, CK_IN, CK_FLOATS, n * sizeof *signs);
    for (size_t i = 0; i < n; i++)
        signs[i] = ck_below(ck, 2) == 0 ? 1.0f : -1.0f;
    call->b = with_signs ? signs : NULL;
    call->n = n;
    call->k = block;
    call->rows = index / 20 % 2;
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, n * sizeof(float));
    snprintf(call->text, sizeof call->text, "n=%zu block=%zu back=%zu %s", n, block, call->rows,
             ck_values_name(values));
    return true;
}

static void invoke_rotate(const struct bn_kernels *kernels, const struct ck_call *call)
{
    memcpy(call->out, call->a, call->n * sizeof(float));
    kernels->rotate(call->out, call->b, call->n, call->k, call->rows == 1);
}

/* Row r and column c of the matrix have the sign of the number of common bits of r and c. */
static bool truth_rotate(struct ck *ck, const struct ck_call *call)
{
    const float *x = call->a, *signs = call->b, *y = call->out;
    bool back = call->rows == 1;
    for (size_t i = 0; i < call->n; i++) {
        double sum = 0, size = 0;
        for (size_t c = 0; c < call->k; c++) {
            size_t at = i / call->k * call->k + c;
            double v = (double)x[at] * (!back && signs != NULL ? (double)signs[at] : 1.0);
            sum += __builtin_popcountll(i % call->k & c) % 2 == 0 ? v : -v;
            size += fabs(v);
        }
        if (size > 0x1p127) continue; /* a part of the sum may overflow */
        if (back && signs != NULL) sum *= (double)signs[i];
        if (!ck_near(ck, "value", i, y[i], sum / sqrt((double)call->k), size * 12 * EPS + 1e-44))
            return false;
    }
    return true;
}

const struct ck_slot CK_FLOAT[] = {
    {BN_KERNEL_RMSNORM, setup_rmsnorm, invoke_rmsnorm, truth_rmsnorm, 0},
    {BN_KERNEL_ROPE_NEOX, setup_rope, invoke_rope_neox, truth_rope, NEOX},
    {BN_KERNEL_ROPE_NORM, setup_rope, invoke_rope_norm, truth_rope, NORM},
    {BN_KERNEL_SOFTMAX, setup_softmax, invoke_softmax, truth_softmax, 0},
    {BN_KERNEL_EXP, setup_exp, invoke_exp, truth_exp, 0},
    {BN_KERNEL_RELU2_MUL, setup_pair, invoke_relu2_mul, truth_relu2_mul, 0},
    {BN_KERNEL_SILU_MUL, setup_pair, invoke_silu_mul, truth_silu_mul, 0},
    {BN_KERNEL_GELU_MUL, setup_pair, invoke_gelu_mul, truth_gelu_mul, 0},
    {BN_KERNEL_SIGMOID_MUL, setup_pair, invoke_sigmoid_mul, truth_sigmoid_mul, 0},
    {BN_KERNEL_ADD, setup_pair, invoke_add, truth_add, 0},
    {BN_KERNEL_ROTATE, setup_rotate, invoke_rotate, truth_rotate, 0},
    {BN_KERNEL_COUNT, NULL, NULL, NULL, 0},
};
