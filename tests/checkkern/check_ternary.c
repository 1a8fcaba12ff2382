/* SPDX-License-Identifier: MIT
 *
 * The quantisation of activations, and the search for code 3.
 */
#include "checkkern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A random byte of codes, none of them 3: a field of 3 becomes 1. */
static uint8_t code_byte(struct ck *ck)
{
    unsigned byte = ck_random(ck) & 0xFFu;
    return (uint8_t)(byte & ~((byte & byte >> 1 & 0x55u) << 1));
}

/* ---- quantize ---- */

static bool setup_quantize(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const size_t LARGE[] = {128, 1000, 2560, 6912};
    enum ck_values values = CK_ORDINARY;
    bool ties = false;
    int wild = 0;
    size_t n = index + 1;
    if (class == CK_EXTREMES) {
        static const size_t N[] = {1, 16, 31, 70, 2560};
        if (index >= COUNT(N) * (CK_N_VALUES + 3)) return false;
        n = N[index % COUNT(N)];
        values = index / (unsigned)COUNT(N);
        ties = values == CK_N_VALUES;
        wild = (int)values - CK_N_VALUES;
    } else if (index >= 67) {
        if (index - 67 >= COUNT(LARGE)) return false;
        n = LARGE[index - 67];
    }
    ck->guard_before = class == CK_LAYOUT;
    float *x = ck_buffer(ck, CK_IN, CK_FLOATS, n * sizeof *x);
    ck_fill_f32(ck, x, n, values < CK_N_VALUES ? values : CK_ORDINARY);
    if (wild > 0) ck_make_wild(x, n, wild > 1);
    if (ties) /* scale 1: every product lies between two integers */
        for (size_t i = 0; i < n; i++)
            x[i] = i == n - 1 ? 127.0f : (float)(i % 254) - 126.5f;
    call->a = x;
    call->n = n;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, n);
    call->out2 = ck_buffer(ck, CK_OUT, CK_FLOATS, sizeof(float));
    call->out3 = ck_buffer(ck, CK_OUT, CK_BYTES, sizeof(int32_t));
    snprintf(call->text, sizeof call->text, "n=%zu %s", n,
             wild > 0 ? "not finite"
             : ties   ? "ties"
                      : ck_values_name(values));
    return true;
}

CK_INVOKE(quantize, call->out, call->out2, call->out3, call->a, call->n)

static bool truth_quantize(struct ck *ck, const struct ck_call *call)
{
    const float *x = call->a, *scale = call->out2;
    const int8_t *q = call->out;
    const int32_t *sum = call->out3;
    double amax = 1e-5;
    int32_t total = 0;
    for (size_t i = 0; i < call->n; i++)
        amax = fmax(amax, fabs((double)x[i]));
    float s = (float)(127.0 / amax);
    if (s < *scale || s > *scale) return ck_wrong(ck, "scale is %a, expected %a", (double)*scale, (double)s);
    for (size_t i = 0; i < call->n; i++) {
        volatile float product = x[i] * s;
        long want = isnan(product) ? 127 : lrintf(product);
        if (want != q[i] || labs(want) > 127)
            return ck_wrong(ck, "q[%zu] is %d, expected %ld", i, q[i], want);
        total += q[i];
    }
    return total == *sum || ck_wrong(ck, "sum is %d, expected %d", *sum, total);
}

/* ---- has_code3 ---- */

static bool setup_has_code3(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const uint8_t FIXED[] = {0x00, 0x55, 0xAA, 0x96, 0x69, 0x66, 0x99, 0xFF};
    enum { PLANTED = 4 * 130 };
    size_t n = index / 2;
    uint8_t fixed = 0;
    if (class == CK_EXTREMES) {
        if (index >= PLANTED + COUNT(FIXED) * 4) return false;
        n = index < PLANTED ? 130 : 61 + index % 7;
        fixed = index < PLANTED ? 0 : FIXED[(index - PLANTED) / 4];
    } else if (index >= 600) {
        return false;
    }
    size_t offset = class == CK_LAYOUT ? index % 5 : 0;
    ck->guard_before = class == CK_LAYOUT && offset == 0;
    uint8_t *codes = ck_buffer(ck, CK_IN, CK_BYTES, offset + n);
    codes += offset;
    for (size_t i = 0; i < n; i++)
        codes[i] = code_byte(ck);
    if (class == CK_EXTREMES && index >= PLANTED) memset(codes, fixed, n);
    if (class == CK_EXTREMES && index < PLANTED) codes[index / 4] |= (uint8_t)(3u << 2 * (index % 4));
    if (class < CK_EXTREMES && index % 2 == 1 && n > 0) codes[ck_below(ck, (uint32_t)n)] |= 0x30;
    call->weights = codes;
    call->n = n;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, 1);
    snprintf(call->text, sizeof call->text, "n=%zu case %u", n, index);
    return true;
}

static void invoke_has_code3(const struct bn_kernels *kernels, const struct ck_call *call)
{
    *(uint8_t *)call->out = kernels->has_code3(call->weights, call->n);
}

static bool truth_has_code3(struct ck *ck, const struct ck_call *call)
{
    bool found = false;
    for (size_t i = 0; i < 4 * call->n; i++)
        found |= (call->weights[i / 4] >> 2 * (i % 4) & 3) == 3;
    return found == (*(uint8_t *)call->out == 1) || ck_wrong(ck, "found is not %d", found);
}

const struct ck_slot CK_TERNARY[] = {
    {BN_KERNEL_QUANTIZE, setup_quantize, invoke_quantize, truth_quantize, 0},
    {BN_KERNEL_HAS_CODE3, setup_has_code3, invoke_has_code3, truth_has_code3, 0},
    {BN_KERNEL_COUNT, NULL, NULL, NULL, 0},
};
