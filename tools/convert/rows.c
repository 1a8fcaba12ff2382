/* SPDX-License-Identifier: MIT
 *
 * Reads and packs rows of ternary tensors. Layouts of blocks are in gguf/pack.c.
 */
#include "tools/convert/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "kernels/ref.h"
#include "model/weights.h"

uint64_t bn_cv_n_rows(const struct bn_cv_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3];
}

static uint64_t ordered(const struct bn_cv_order *o, uint64_t i)
{
    uint64_t head = i / o->size;
    return o->base + head % o->n_key * o->per_key + head / o->n_key * o->per_value + i % o->size;
}

uint64_t bn_cv_source_column(const struct bn_cv_tensor *t, uint64_t i)
{
    return t->columns.n == 0 ? i : ordered(&t->columns, i);
}

/* A head of d rows: the pairs (i, i + d/2) of the source become (2i, 2i + 1). */
uint64_t bn_cv_source_row(const struct bn_cv_tensor *t, uint64_t r)
{
    uint64_t first = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(t->rows); first += t->rows[i++].n)
        if (r - first < t->rows[i].n) return ordered(&t->rows[i], r - first);
    if (t->heads == 0) return r;
    uint64_t d = bn_cv_n_rows(t) / t->heads, head = r / d, i = r % d;
    return head * d + i % 2 * (d / 2) + i / 2;
}

static bool fault(struct bn_cv_scratch *s, enum bn_cv_fault why, uint64_t r, size_t column, double a,
                  double b)
{
    if (s->note.fault == BN_CV_FINE || r < s->note.row)
        s->note = (struct bn_cv_note){.fault = why, .row = r, .column = column, .a = a, .b = b};
    return false;
}

/* ---- reading ---- */

/* n floats of a list in the type `from`, from the one with the number `at`. */
static void widen(const struct bn_cv_tensor *t, const unsigned char *list, uint64_t at, float *out, size_t n)
{
    bn_widen(&bn_kernels_ref, t->from, out, list + at * bn_type_info(t->from)->block_bytes, n);
}

void bn_cv_widen_row(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s)
{
    size_t k = (size_t)t->ne[0], piece = t->columns.n == 0 ? k : (size_t)t->columns.size;
    for (size_t i = 0; i < k; i += piece)
        widen(t, t->data, bn_cv_source_row(t, r) * k + bn_cv_source_column(t, i), s->floats + i, piece);
}

static void fill(float *scales, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        scales[i] = scale;
}

static bool read_blocks(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s)
{
    const struct bn_type_info *info = bn_type_info(t->from);
    size_t k = (size_t)t->ne[0], n_blocks = k / info->block;
    const unsigned char *in = t->data + bn_cv_source_row(t, r) * n_blocks * info->block_bytes;
    for (size_t b = 0; b < n_blocks; b++, in += info->block_bytes) {
        int8_t *values = s->values + b * info->block;
        float scale = t->scale;
        uint16_t half = info->unpack(values, in, info->block);
        if (t->from != BN_TYPE_I2_S) scale = bn_ref_widen_f16(half);
        for (size_t i = 0; t->from == BN_TYPE_I2_S && i < info->block; i++)
            if (values[i] > 1) return fault(s, BN_CV_CODE_3, r, b * info->block + i, 0, 0);
        if (!isfinite(scale)) return fault(s, BN_CV_NOT_FINITE, r, b * info->block, (double)scale, 0);
        fill(s->scales + b * (info->block / BN_CV_GROUP), info->block / BN_CV_GROUP, scale);
    }
    return true;
}

static bool read_trits(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s)
{
    bn_cv_widen_row(t, r, s);
    for (size_t i = 0; i < (size_t)t->ne[0]; i++) {
        float *scale = &s->scales[i / BN_CV_GROUP], w = s->floats[i];
        if (i % BN_CV_GROUP == 0) *scale = 0.0f;
        if (!isfinite(w)) return fault(s, BN_CV_NOT_FINITE, r, i, (double)w, 0);
        if (w != 0.0f && *scale == 0.0f) *scale = fabsf(w);
        if (w != 0.0f && fabsf(w) != *scale)
            return fault(s, BN_CV_NOT_TERNARY, r, i, (double)w, (double)*scale);
        s->values[i] = (int8_t)((w > 0.0f) - (w < 0.0f));
    }
    return true;
}

/* As the models were trained: times the reciprocal of the mean magnitude, both binary32, half to even. */
static bool read_master(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s)
{
    const float inverse = 1.0f / t->scale;
    bn_cv_widen_row(t, r, s);
    for (size_t i = 0; i < (size_t)t->ne[0]; i++) {
        float w = rintf(s->floats[i] * inverse);
        if (!isfinite(s->floats[i])) return fault(s, BN_CV_NOT_FINITE, r, i, (double)s->floats[i], 0);
        s->values[i] = w > 0.0f ? 1 : w < 0.0f ? -1 : 0;
    }
    fill(s->scales, (size_t)t->ne[0] / BN_CV_GROUP, t->scale);
    return true;
}

static bool read_packed(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s)
{
    size_t k = (size_t)t->ne[0];
    uint64_t quarter = bn_cv_n_rows(t) / 4, row = bn_cv_source_row(t, r);
    const unsigned char *in = t->data + row % quarter * k;
    unsigned shift = 2 * (unsigned)(row / quarter);
    for (size_t i = 0; i < k; i++) {
        s->values[i] = (int8_t)((in[bn_cv_source_column(t, i)] >> shift & 3) - 1);
        if (s->values[i] > 1) return fault(s, BN_CV_CODE_3, r, i, 0, 0);
    }
    fill(s->scales, k / BN_CV_GROUP, t->scale);
    return true;
}

static bool read_words(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s)
{
    size_t k = (size_t)t->ne[0];
    uint64_t row = bn_cv_source_row(t, r);
    const unsigned char *in = t->data + row * (k / 4);
    for (size_t i = 0; i < k; i += BN_CV_GROUP) {
        size_t from = (size_t)bn_cv_source_column(t, i); /* of a whole group: heads are as large or larger */
        uint64_t g = (row * k + from) / t->group;
        float scale, bias;
        widen(t, t->scales, g, &scale, 1);
        widen(t, t->biases, g, &bias, 1);
        if (!isfinite(scale)) return fault(s, BN_CV_NOT_FINITE, r, i, (double)scale, 0);
        if (bias != -scale) return fault(s, BN_CV_BIAS, r, i, (double)bias, (double)scale);
        s->scales[i / BN_CV_GROUP] = scale;
        for (size_t j = 0; j < BN_CV_GROUP; j++)
            s->values[i + j] = (int8_t)((in[(from + j) / 4] >> (2 * (j % 4)) & 3) - 1);
    }
    return true;
}

bool bn_cv_read_row(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s)
{
    switch (t->kind) {
    case BN_CV_BLOCKS:
        return read_blocks(t, r, s);
    case BN_CV_TRITS:
        return read_trits(t, r, s);
    case BN_CV_MASTER:
        return read_master(t, r, s);
    case BN_CV_PACKED:
        return read_packed(t, r, s);
    case BN_CV_WORDS:
        return read_words(t, r, s);
    case BN_CV_COPY:
    case BN_CV_FLOATS:
        break;
    }
    return false;
}

/* ---- packing ---- */

static bool is_zero(const int8_t *values, float scale)
{
    for (size_t i = 0; i < BN_CV_GROUP && scale != 0.0f; i++)
        if (values[i] != 0) return false;
    return true;
}

/* The one scale of n groups, to *scale. A group of zeros takes any. `fixed` is 0, or the scale it must be. */
static bool one_scale(struct bn_cv_scratch *s, uint64_t r, size_t first, size_t n, float fixed, float *scale)
{
    bool found = fixed != 0.0f;
    *scale = found ? fixed : s->scales[first];
    for (size_t g = first; g < first + n; g++) {
        int8_t *values = s->values + g * BN_CV_GROUP;
        if (s->scales[g] == *scale && found) continue;
        if (is_zero(values, s->scales[g])) continue;
        if (found)
            return fault(s, BN_CV_TWO_SCALES, r, g * BN_CV_GROUP, (double)*scale, (double)s->scales[g]);
        *scale = s->scales[g];
        found = true;
    }
    for (size_t g = first; g < first + n; g++)
        if (s->scales[g] != *scale) memset(s->values + g * BN_CV_GROUP, 0, BN_CV_GROUP);
    return true;
}

static bool to_half(struct bn_cv_scratch *s, uint64_t r, size_t column, float scale, bool round,
                    uint16_t *half)
{
    *half = bn_ref_narrow_f16(scale);
    float back = bn_ref_widen_f16(*half);
    if (back == scale) return true;
    if (!round || !isfinite(back) || back == 0.0f)
        return fault(s, BN_CV_NOT_HALF, r, column, (double)scale, (double)back);
    s->worst = fmax(s->worst, fabs(((double)back - (double)scale) / (double)scale));
    return true;
}

static bool has_two(struct bn_cv_scratch *s, uint64_t r, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++)
        if (s->values[i] > 1) {
            fault(s, BN_CV_TWO, r, i, 0, 0);
            return true;
        }
    return false;
}

static bool pack_blocks(const struct bn_cv_tensor *t, uint64_t r, bool round, struct bn_cv_scratch *s,
                        unsigned char *out)
{
    const struct bn_type_info *info = bn_type_info(t->to);
    bool whole = t->to == BN_TYPE_I2_S;
    for (size_t at = 0; at < (size_t)t->ne[0]; at += info->block, out += info->block_bytes) {
        const int8_t *values = s->values + at;
        uint16_t half = 0;
        float scale;
        if (!one_scale(s, r, at / BN_CV_GROUP, info->block / BN_CV_GROUP, whole ? t->target_scale : 0.0f,
                       &scale))
            return false;
        if (!info->holds_two && has_two(s, r, at, info->block)) return false;
        if (!whole && !to_half(s, r, at, scale, round, &half)) return false;
        info->pack(out, values, info->block, half);
    }
    return true;
}

static bool pack_floats(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s, unsigned char *out)
{
    for (size_t i = 0; i < (size_t)t->ne[0]; i++) {
        float w = (float)s->values[i] * s->scales[i / BN_CV_GROUP];
        uint16_t half;
        if (t->to == BN_TYPE_F32)
            memcpy(out + 4 * i, &w, 4);
        else if (to_half(s, r, i, w, false, &half))
            memcpy(out + 2 * i, &half, 2);
        else
            return false;
    }
    return true;
}

bool bn_cv_pack_row(const struct bn_cv_tensor *t, uint64_t r, bool round_scales, struct bn_cv_scratch *s,
                    unsigned char *out)
{
    if (t->to == BN_TYPE_F32 || t->to == BN_TYPE_F16) return pack_floats(t, r, s, out);
    return pack_blocks(t, r, round_scales, s, out);
}

/* ---- messages ---- */

bn_status bn_cv_fail_note(const struct bn_cv_plan *plan, const struct bn_cv_tensor *t,
                          const struct bn_cv_note *note, bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(t->to);
    const bn_status unsupported = BN_ERR_UNSUPPORTED;
    char where[BN_GGUF_MAX_NAME_BYTES + 16], at[64];
    snprintf(where, sizeof where, "tensor '%s'", t->name);
    snprintf(at, sizeof at, "row %" PRIu64 ", column %" PRIu64, note->row, note->column);
    uint64_t offset = t->input < plan->n_inputs ? t->offset : BN_NO_OFFSET;
    switch (note->fault) {
    case BN_CV_FINE:
        return BN_OK;
    case BN_CV_NOT_FINITE:
        return bn_fail_at(err, BN_ERR_FORMAT, offset, where, "%s: %g is not a finite number", at, note->a);
    case BN_CV_CODE_3:
        return bn_fail_at(err, BN_ERR_FORMAT, offset, where, "%s: the code 3 is not a ternary weight", at);
    case BN_CV_TWO:
        return bn_hint(bn_fail_in(err, unsupported, where,
                                  "%s: the weight +2 (code 3) cannot be stored in %s", at, info->name),
                       err, "tq2_0, q2_0 and pq2_0 can store it");
    case BN_CV_NOT_TERNARY:
        return bn_hint(bn_fail_in(err, unsupported, where,
                                  "%s: the weight %.9g is not -s, 0 or +s with s = %.9g", at, note->a,
                                  note->b),
                       err, "of a model trained with ternary weights, --ternarise rounds the masters");
    case BN_CV_TWO_SCALES:
        return bn_hint(bn_fail_in(err, unsupported, where,
                                  "%s: the scales %.9g and %.9g cannot be stored as one scale of %s", at,
                                  note->a, note->b, info->name),
                       err, "choose a type with smaller blocks: q2_0 has 64 weights, pq2_0 and ptq1_0 128");
    case BN_CV_NOT_HALF:
        return bn_hint(bn_fail_in(err, unsupported, where,
                                  "%s: %.9g is not a binary16 number, which %s needs (the nearest is %.9g)",
                                  at, note->a, info->name, note->b),
                       err, "i2_s has a binary32 scale; --round-scales rounds, and records by how much");
    case BN_CV_BIAS:
        return bn_fail_in(err, unsupported, where,
                          "%s: the bias %.9g is not minus the scale %.9g: not ternary", at, note->a, note->b);
    case BN_CV_NOT_POSITIVE:
        return bn_fail_in(err, unsupported, where, "%s: the scale %.9g of %s must be positive", at, note->a,
                          info->name);
    }
    return BN_ERR_INTERNAL;
}
