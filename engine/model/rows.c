/* SPDX-License-Identifier: MIT
 *
 * Widens rows of the embedding and of the head to binary32, from any type they are stored in.
 */
#include "model/rows.h"

#include <string.h>

static void copy_f32(float *y, const void *x, size_t n)
{
    memcpy(y, x, n * sizeof *y);
}

struct widening {
    enum bn_kernel slot;
    void (*widen)(float *y, const void *x, size_t n);
};

static struct widening widening_of(const struct bn_kernels *kernels, uint32_t type)
{
    switch (type) {
    case BN_TYPE_F16:
        return (struct widening){BN_KERNEL_F16_TO_F32, kernels->f16_to_f32};
    case BN_TYPE_BF16:
        return (struct widening){BN_KERNEL_BF16_TO_F32, kernels->bf16_to_f32};
    case BN_TYPE_Q8_0:
        return (struct widening){BN_KERNEL_Q8_0_TO_F32, kernels->q8_0_to_f32};
    case BN_TYPE_Q6_K:
        return (struct widening){BN_KERNEL_Q6_K_TO_F32, kernels->q6_k_to_f32};
    case BN_TYPE_Q4_0:
        return (struct widening){BN_KERNEL_Q4_0_TO_F32, kernels->q4_0_to_f32};
    default:
        return (struct widening){BN_KERNEL_COUNT, copy_f32};
    }
}

enum bn_kernel bn_matrix_slot(const struct bn_matrix *matrix)
{
    return widening_of(&bn_kernels_ref, matrix->type).slot;
}

void bn_matrix_row(const struct bn_kernels *kernels, const struct bn_matrix *matrix, size_t r, float *out)
{
    widening_of(kernels, matrix->type).widen(out, matrix->data + r * matrix->row_bytes, matrix->k);
}

/* Zero times infinity or NaN is NaN, and a sum keeps it. In vectors, since gcc makes none of it at -O2 and
 * this is done for each row of activations. */
bool bn_all_finite(const float *x, size_t n)
{
    typedef float lanes __attribute__((vector_size(16)));
    lanes a = {0}, b = {0}, u, v;
    float sum = 0.0f;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&u, x + i, sizeof u);
        memcpy(&v, x + i + 4, sizeof v);
        a += u * 0.0f;
        b += v * 0.0f;
    }
    for (; i < n; i++)
        sum += x[i] * 0.0f;
    for (unsigned k = 0; k < 4; k++)
        sum += a[k] + b[k];
    return sum == 0.0f;
}
