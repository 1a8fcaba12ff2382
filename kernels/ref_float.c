/* SPDX-License-Identifier: MIT
 *
 * The reference of the float kernels: norm, positions, attention, activation functions, float matrices. Here
 * the order of every sum is part of the result; see the head of kernels.h for lane sums.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

/* Lane j takes lane j + n/2, n/4, ... 1. */
static float fold16(float lane[16])
{
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static double fold8(double lane[8])
{
    for (size_t half = 4; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* w: n binary16 values, any alignment. */
static float dot_f16(const void *w, const float *x, size_t n)
{
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(bn_ref_widen_f16(bn_load_u16((const uint8_t *)w + 2 * i)), x[i], lane[i % 16]);
    return fold16(lane);
}

static float dot_f32(const void *w, const float *x, size_t n)
{
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(bn_load_f32((const uint8_t *)w + 4 * i), x[i], lane[i % 16]);
    return fold16(lane);
}

void bn_residual_ref(double *size, double *rest, const float *x, const int8_t *q, float step, size_t n)
{
    double sizes[8] = {0}, rests[8] = {0};
    for (size_t i = 0; i < n; i++) {
        float d = fmaf(-(float)q[i], step, x[i]), d2 = d * d, x2 = x[i] * x[i];
        rests[i % 8] += (double)d2;
        sizes[i % 8] += (double)x2;
    }
    *size = fold8(sizes);
    *rest = fold8(rests);
}

void bn_rmsnorm_ref(float *y, const float *x, const float *w, size_t n, float eps)
{
    double lane[8] = {0};
    for (size_t i = 0; i < n; i++) {
        float square = x[i] * x[i];
        lane[i % 8] += (double)square;
    }
    float mean = (float)(fold8(lane) / (double)n);
    float r = 1.0f / sqrtf(mean + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * r * w[i];
}

static void rotate(float *a, float *b, float cosine, float sine)
{
    float a0 = *a, b0 = *b;
    *a = a0 * cosine - b0 * sine;
    *b = a0 * sine + b0 * cosine;
}

void bn_rope_neox_ref(float *x, const float *cos, const float *sin, size_t n_rot)
{
    for (size_t i = 0; i < n_rot / 2; i++)
        rotate(&x[i], &x[i + n_rot / 2], cos[i], sin[i]);
}

void bn_rope_norm_ref(float *x, const float *cos, const float *sin, size_t n_rot)
{
    for (size_t i = 0; i < n_rot / 2; i++)
        rotate(&x[2 * i], &x[2 * i + 1], cos[i], sin[i]);
}

void bn_attn_scores_ref(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                        float factor)
{
    for (size_t j = 0; j < n; j++)
        for (size_t p = 0; p < k->n_pos; p++) {
            float lane[16] = {0};
            for (size_t i = 0; i < k->head_dim; i++) {
                float key = bn_ref_widen_f16(k->tiles[bn_in_keys(p, i, k->head_dim)]);
                lane[i % 16] = fmaf(key, q[j * ldq + i], lane[i % 16]);
            }
            s[j * lds + p] = fold16(lane) * factor;
        }
}

void bn_softmax_ref(float *x, size_t n)
{
    float max = x[0];
    for (size_t i = 1; i < n; i++)
        if (x[i] > max) max = x[i];
    double lane[8] = {0};
    for (size_t i = 0; i < n; i++) {
        x[i] = bn_ref_exp(x[i] - max);
        lane[i % 8] += (double)x[i];
    }
    float factor = (float)(1.0 / fold8(lane));
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

void bn_attn_values_ref(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v)
{
    for (size_t j = 0; j < n; j++)
        for (size_t p = 0; p < v->n_pos; p++)
            for (size_t d = 0; d < v->head_dim; d++) {
                float *to = &y[j * ldy + d];
                *to = fmaf(s[j * lds + p], bn_ref_widen_f16(v->rows[p * v->ld + d]), *to);
            }
}

void bn_relu2_mul_ref(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] > 0.0f ? gate[i] : 0.0f;
        y[i] = g * g * up[i];
    }
}

void bn_silu_mul_ref(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] / (1.0f + bn_ref_exp(-gate[i])) * up[i];
}

void bn_gelu_mul_ref(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bn_ref_gelu(gate[i]) * up[i];
}

void bn_sigmoid_mul_ref(float *y, const float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / (1.0f + bn_ref_exp(-gate[i]));
}

void bn_conv_silu_ref(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float c = 0.0f;
        for (size_t t = 0; t < taps; t++)
            c = c + w[t * ldw + i] * x[t][i];
        y[i] = c / (1.0f + bn_ref_exp(-c));
    }
}

/* Column j and token t. */
static void delta_column(const struct bn_delta *at, size_t t, size_t j)
{
    const float *q = at->q + t * at->ld_qk, *k = at->k + t * at->ld_qk;
    float *state = at->state + j, predicted = 0.0f, o = 0.0f;
    for (size_t i = 0; i < at->d; i++) {
        state[i * at->ld] *= at->decay[t * at->ld_gate];
        predicted = fmaf(state[i * at->ld], k[i], predicted);
    }
    float u = at->beta[t * at->ld_gate] * (at->v[t * at->ld_v + j] - predicted);
    for (size_t i = 0; i < at->d; i++) {
        state[i * at->ld] = fmaf(k[i], u, state[i * at->ld]);
        o = fmaf(state[i * at->ld], q[i], o);
    }
    at->o[t * at->ld_o + j] = o;
}

void bn_delta_ref(const struct bn_delta *at, size_t n)
{
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < at->columns; j++)
            delta_column(at, t, j);
}

void bn_add_ref(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void bn_exp_ref(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bn_ref_exp(x[i]);
}

void bn_f16_gemm_ref(float *y, size_t ldy, const uint16_t *w, size_t rows, size_t k, const float *x,
                     size_t ldx, size_t n)
{
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < rows; r++)
            y[j * ldy + r] = dot_f16((const uint8_t *)w + 2 * r * k, x + j * ldx, k);
}

void bn_f32_gemm_ref(float *y, size_t ldy, const float *w, size_t rows, size_t k, const float *x, size_t ldx,
                     size_t n)
{
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < rows; r++)
            y[j * ldy + r] = dot_f32((const uint8_t *)w + 4 * r * k, x + j * ldx, k);
}

void bn_rotate_ref(float *x, const float *signs, size_t n, size_t block, bool back)
{
    float factor = (float)(1.0 / sqrt((double)block));
    for (size_t i = 0; !back && signs != NULL && i < n; i++)
        x[i] *= signs[i];
    for (size_t first = 0; first < n; first += block)
        for (size_t half = 1; half < block; half *= 2)
            for (size_t i = first; i < first + block; i += 2 * half)
                for (size_t k = i; k < i + half; k++) {
                    float a = x[k], b = x[k + half];
                    x[k] = a + b;
                    x[k + half] = a - b;
                }
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
    for (size_t i = 0; back && signs != NULL && i < n; i++)
        x[i] *= signs[i];
}
