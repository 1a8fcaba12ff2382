/* SPDX-License-Identifier: MIT
 *
 * Encodes the tensors of a model again. Ternary codes are copied, not quantised, so that only scales can change:
 * formats with blocks store them in binary16. Q8_0 and Q4_0 round the embedding.
 */
#include "tools/bench/quant/convert.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "gguf/pack.h"
#include "tools/bench/quant/formats.h"

#define MAX_BYTES ((size_t)256 << 20)
#define QUANT_BLOCK 32u /* of Q8_0 and Q4_0 */
#define GGUF_HEADER 24u /* bytes before the first key */

/* ---- tensors ---- */

/* Codes of I2_S as blocks with a scale each, which is the tensor's. Blocks divide 256. */
static void put_ternary(struct bn_buf *out, const struct bn_gguf_tensor *t, uint32_t type)
{
    int8_t values[BN_TQ2_BLOCK];
    uint8_t block[BN_TQ2_BLOCK_BYTES];
    const struct bn_type_info *info = bn_type_info(type);
    size_t n = (size_t)(t->ne[0] * t->ne[1]), part;
    float scale;
    memcpy(&scale, t->data + n / 4, sizeof scale);
    for (size_t i = 0; i < n; i += part) {
        part = bn_min_size(n - i, BN_TQ2_BLOCK);
        for (size_t at = 0; at < part; at += BN_I2S_BLOCK)
            bn_unpack_i2s(values + at, t->data + (i + at) / 4);
        for (size_t at = 0; at < part; at += info->block) {
            info->pack(block, values + at, bn_quant_narrow(scale));
            bn_buf_append(out, block, (size_t)info->block_bytes);
        }
    }
}

static void put_q8_0(struct bn_buf *out, const float *x)
{
    uint8_t block[BN_Q8_0_BYTES];
    bn_quant_q8_0(block, x);
    bn_buf_append(out, block, sizeof block);
}

/* x = d (q - 8), q in 0 .. 15; the value of the largest magnitude becomes -8 d. */
static void put_q4_0(struct bn_buf *out, const float *x)
{
    uint8_t block[2 + QUANT_BLOCK / 2], q[QUANT_BLOCK];
    float most = 0;
    for (size_t i = 0; i < QUANT_BLOCK; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    uint16_t half = bn_quant_narrow(most / -8.0f);
    float d = bn_quant_widen(half), inverse = d < 0 || d > 0 ? 1.0f / d : 0.0f;
    memcpy(block, &half, sizeof half);
    for (size_t i = 0; i < QUANT_BLOCK; i++)
        q[i] = (uint8_t)fminf(fmaxf(rintf(x[i] * inverse) + 8.0f, 0.0f), 15.0f);
    for (size_t i = 0; i < QUANT_BLOCK / 2; i++)
        block[2 + i] = (uint8_t)(q[i] | q[i + QUANT_BLOCK / 2] << 4);
    bn_buf_append(out, block, sizeof block);
}

static void put_embedding(struct bn_buf *out, const struct bn_gguf_tensor *t, uint32_t type)
{
    float x[QUANT_BLOCK];
    size_t n = (size_t)(t->ne[0] * t->ne[1]);
    for (size_t i = 0; i < n; i += QUANT_BLOCK) {
        if (t->type == BN_TYPE_F16)
            bn_kernels_ref.f16_to_f32(x, t->data + 2 * i, QUANT_BLOCK);
        else
            memcpy(x, t->data + sizeof(float) * i, sizeof x);
        if (type == BN_TYPE_Q8_0)
            put_q8_0(out, x);
        else
            put_q4_0(out, x);
    }
}

/* ---- the file ---- */

static bool is_layer(const struct bn_gguf_tensor *t)
{
    return t->type == BN_TYPE_I2_S;
}

static bool is_embedding(const struct bn_gguf_tensor *t)
{
    return bn_str_equal(t->name, "token_embd.weight") && (t->type == BN_TYPE_F16 || t->type == BN_TYPE_F32);
}

static uint32_t type_of(const struct bn_gguf_tensor *t, const struct bn_conversion *how)
{
    if (how->layers != BN_CONVERT_KEEP && is_layer(t)) return how->layers;
    return how->embedding != BN_CONVERT_KEEP && is_embedding(t) ? how->embedding : t->type;
}

static bn_status check(const bn_model *m, const struct bn_conversion *how, bn_error *err)
{
    size_t n = 0;
    if (m->n_bytes > MAX_BYTES / 4)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "models of more than %zu MiB are not converted",
                       MAX_BYTES / 4 >> 20);
    if (m->gguf.alignment != BN_GGUF_DEFAULT_ALIGNMENT || m->gguf.n_tensors == 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "the file has its own alignment");
    for (size_t i = 0; i < m->gguf.n_tensors; i++) {
        const struct bn_gguf_tensor *t = &m->gguf.tensors[i];
        uint32_t type = type_of(t, how);
        if (type == t->type) continue;
        n++;
        if (t->ne[0] % bn_type_info(type)->block != 0)
            return bn_fail(err, BN_ERR_UNSUPPORTED, "rows of %llu weights are not whole blocks of %s",
                           (unsigned long long)t->ne[0], bn_type_info(type)->name);
    }
    return n > 0 ? BN_OK
                 : bn_fail(err, BN_ERR_UNSUPPORTED, "the file has no %s",
                           how->layers != BN_CONVERT_KEEP ? "layers in I2_S" : "embedding in F32 or F16");
}

static void put_data(struct bn_buf *out, const struct bn_gguf_writer *w, const struct bn_gguf_tensor *t,
                     uint32_t type)
{
    static const char ZEROS[BN_GGUF_DEFAULT_ALIGNMENT];
    size_t start = out->len;
    if (type == t->type)
        bn_buf_append(out, t->data, (size_t)t->n_bytes);
    else if (is_layer(t))
        put_ternary(out, t, type);
    else
        put_embedding(out, t, type);
    bn_buf_append(out, ZEROS, (size_t)bn_gguf_padding(w, out->len - start));
}

static bn_status write(struct bn_buf *out, const bn_model *m, const struct bn_conversion *how, bn_error *err)
{
    const struct bn_gguf *g = &m->gguf;
    struct bn_gguf_writer w = {.kv = {.max = MAX_BYTES}, .infos = {.max = MAX_BYTES}, .n_kv = g->n_kv};
    char name[BN_GGUF_MAX_NAME_BYTES + 1];
    bn_buf_append(&w.kv, m->bytes + GGUF_HEADER, (size_t)(g->tensors[0].info_offset - GGUF_HEADER));
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct bn_gguf_tensor *t = &g->tensors[i];
        memcpy(name, t->name.ptr, t->name.len);
        name[t->name.len] = '\0';
        bn_gguf_put_tensor(&w, name, type_of(t, how), t->n_dims, t->ne);
    }
    bn_status status = bn_gguf_write_head(&w, out, err);
    for (size_t i = 0; i < g->n_tensors && status == BN_OK; i++)
        put_data(out, &w, &g->tensors[i], type_of(&g->tensors[i], how));
    bn_gguf_writer_release(&w);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}

bn_status bn_quant_convert(void **data, size_t *n_bytes, const bn_model *model,
                           const struct bn_conversion *how, bn_error *err)
{
    struct bn_buf out = {.max = MAX_BYTES};
    *data = NULL;
    BN_TRY(check(model, how, err));
    bn_status status = write(&out, model, how, err);
    if (status == BN_OK && (*data = bn_alloc_aligned(out.len, 1)) == NULL) status = bn_nomem(err);
    if (status == BN_OK) {
        memcpy(*data, out.data, out.len);
        *n_bytes = out.len;
    }
    bn_buf_release(&out);
    return status;
}
