/* SPDX-License-Identifier: MIT
 *
 * Writes GGUF files. The scales of ternary weights are binary16 numbers in training already, so that all types store
 * the same model.
 */
#include "train/checkpoint.h"

#include <stdio.h>

#include "base/error.h"
#include "gguf/gguf.h"
#include "model/hparams.h"

#define Q8_BLOCK 32u

/* ---- keys ---- */

static void put_hparams(struct bn_gguf_writer *w, const bn_hparams *hp, uint32_t n_ctx)
{
    bn_gguf_put_u32(w, ".vocab_size", hp->n_vocab);
    bn_gguf_put_u32(w, ".context_length", n_ctx != 0 ? n_ctx : hp->n_ctx);
    bn_gguf_put_u32(w, ".embedding_length", hp->n_embd);
    bn_gguf_put_u32(w, ".block_count", hp->n_layer);
    bn_gguf_put_u32(w, ".feed_forward_length", hp->n_ff);
    bn_gguf_put_u32(w, ".rope.dimension_count", hp->head_dim);
    bn_gguf_put_u32(w, ".attention.head_count", hp->n_head);
    bn_gguf_put_u32(w, ".attention.head_count_kv", hp->n_head_kv);
    if (hp->head_dim * hp->n_head != hp->n_embd || hp->head_norms) {
        bn_gguf_put_u32(w, ".attention.key_length", hp->head_dim);
        bn_gguf_put_u32(w, ".attention.value_length", hp->head_dim);
    }
    bn_gguf_put_f32(w, ".attention.layer_norm_rms_epsilon", hp->rms_eps);
    bn_gguf_put_f32(w, ".rope.freq_base", hp->rope_base);
}

/* The number that llama.cpp and bitnet.cpp have for a file of mostly this type; 0: none is agreed. */
static uint32_t file_type(uint32_t type)
{
    uint32_t number = bn_type_info(type)->file_type;
    return number <= 40 ? number : 0;
}

/* The keys that begin with "tokenizer.", as they are stored. */
static bn_status copy_tokenizer(struct bn_gguf_writer *w, struct bn_str file, bn_error *err)
{
    struct bn_gguf gguf;
    BN_TRY(bn_gguf_open(&gguf, file.ptr, file.len, err));
    for (size_t i = 0; i < gguf.n_kv; i++) {
        const struct bn_gguf_kv *kv = &gguf.kv[i];
        if (kv->key.len < 10 || memcmp(kv->key.ptr, "tokenizer.", 10) != 0) continue;
        const unsigned char *end = kv->value;
        if (kv->element == BN_GGUF_STRING)
            for (uint64_t n = 0; n < kv->n; n++)
                bn_gguf_next_str(&end);
        else
            end += kv->n * bn_gguf_type_bytes(kv->element);
        /* A key is u64 length, text, u32 type, value. */
        const char *begin = file.ptr + kv->offset;
        bn_buf_append(&w->kv, begin, (size_t)((const char *)end - begin));
        w->n_kv++;
    }
    bn_gguf_close(&gguf);
    return BN_OK;
}

static bn_status put_keys(struct bn_gguf_writer *w, const struct bn_weights *weights, struct bn_str tokenizer,
                          const struct bn_export *how, bn_error *err)
{
    const bn_hparams *hp = &weights->hp;
    const char *activations = weights->group == 0 ? "int8-token" : "int16-group";
    w->arch = hp->arch;
    bn_gguf_put_str(w, "general.architecture", hp->arch, strlen(hp->arch));
    bn_gguf_put_str(w, "general.name", how->name, strlen(how->name));
    put_hparams(w, hp, how->n_ctx);
    if (file_type(how->type) != 0) bn_gguf_put_u32(w, "general.file_type", file_type(how->type));
    bn_gguf_put_u32(w, "general.quantization_version", 2);
    if (how->type != BN_TYPE_I2_S) bn_gguf_put_str(w, BN_ACTIVATIONS_KEY, activations, strlen(activations));
    return copy_tokenizer(w, tokenizer, err);
}

/* ---- tensors ---- */

static uint32_t type_of(const struct bn_param *p, const struct bn_export *how)
{
    return p->kind == BN_PARAM_NORM        ? BN_TYPE_F32
           : p->kind == BN_PARAM_EMBEDDING ? how->embedding
                                           : how->type;
}

static bn_status put_ternary(struct bn_buf *out, const struct bn_weights *w, size_t param, uint32_t type,
                             bn_error *err)
{
    const struct bn_param *p = &w->params[param];
    const struct bn_type_info *info = bn_type_info(type);
    size_t group = w->group != 0 ? w->group : p->cols;
    int8_t *values = bn_alloc(p->cols, 1);
    float *scales = bn_alloc(p->cols / group, sizeof *scales);
    bn_status status = values != NULL && scales != NULL ? BN_OK : bn_nomem(err);
    for (size_t r = 0; r < p->rows && status == BN_OK; r++) {
        bn_weights_row(w, param, r, values, scales);
        for (size_t at = 0; at < p->cols; at += info->block) {
            unsigned char block[96];
            uint16_t half;
            bn_kernels_ref.f32_to_f16(&half, &scales[at / group], 1);
            info->pack(block, values + at, half);
            bn_buf_append(out, block, info->block_bytes);
        }
    }
    if (status == BN_OK && type == BN_TYPE_I2_S) {
        unsigned char tail[BN_I2S_TAIL_BYTES] = {0};
        memcpy(tail, scales, sizeof *scales);
        bn_buf_append(out, tail, sizeof tail);
    }
    bn_free(values);
    bn_free(scales);
    return status;
}

/* Of a block of the embedding: step = the largest magnitude / 127 in binary16, values to nearest even. */
static void put_q8(struct bn_buf *out, const float *x)
{
    float most = 0, step;
    uint16_t half;
    signed char q[Q8_BLOCK];
    for (size_t i = 0; i < Q8_BLOCK; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    step = most / 127;
    bn_kernels_ref.f32_to_f16(&half, &step, 1);
    bn_kernels_ref.f16_to_f32(&step, &half, 1);
    for (size_t i = 0; i < Q8_BLOCK; i++) {
        float v = step > 0 ? rintf(x[i] / step) : 0;
        q[i] = (signed char)(v > 127 ? 127 : v < -127 ? -127 : v);
    }
    bn_buf_append(out, &half, sizeof half);
    bn_buf_append(out, q, sizeof q);
}

static bn_status put_floats(struct bn_buf *out, const struct bn_weights *w, const struct bn_param *p,
                            const struct bn_export *how)
{
    const uint32_t type = type_of(p, how);
    const bool last_norm = strcmp(p->name, "output_norm.weight") == 0;
    const double divisor = last_norm && how->temperature > 0 ? how->temperature : 1;
    for (size_t i = 0; i < p->rows * p->cols; i += type == BN_TYPE_Q8_0 ? Q8_BLOCK : 1) {
        float block[Q8_BLOCK];
        uint16_t half;
        for (size_t j = 0; j < (type == BN_TYPE_Q8_0 ? Q8_BLOCK : 1); j++)
            block[j] = (float)((double)w->master[p->at + i + j] / divisor);
        bn_kernels_ref.f32_to_f16(&half, block, 1);
        if (type == BN_TYPE_Q8_0) put_q8(out, block);
        if (type == BN_TYPE_F16) bn_buf_append(out, &half, sizeof half);
        if (type == BN_TYPE_F32) bn_buf_append(out, block, sizeof *block);
    }
    return BN_OK;
}

static bn_status check_type(const struct bn_weights *w, const struct bn_export *how, bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(how->type);
    if (w->group != 0 && (how->type == BN_TYPE_I2_S || w->group % info->block != 0))
        return bn_fail(err, BN_ERR_UNSUPPORTED, "%s cannot store a scale for each %u weights", info->name,
                       w->group);
    for (size_t i = 0; i < w->n_params; i++)
        if (w->params[i].cols % bn_type_info(type_of(&w->params[i], how))->block != 0)
            return bn_hint(bn_fail_in(err, BN_ERR_UNSUPPORTED, w->params[i].name,
                                      "rows of %zu weights do not fill the blocks of %u weights of %s",
                                      w->params[i].cols, bn_type_info(type_of(&w->params[i], how))->block,
                                      bn_type_info(type_of(&w->params[i], how))->name),
                           err, "i2_s has blocks of 128 weights, q2_0 of 64");
    return BN_OK;
}

static bn_status put_data(struct bn_buf *out, struct bn_gguf_writer *writer, const struct bn_weights *w,
                          const struct bn_export *how, bn_error *err)
{
    static const char ZEROS[64];
    bn_status status = BN_OK;
    for (size_t i = 0; i < w->n_params && status == BN_OK; i++) {
        size_t before = out->len;
        if (w->params[i].kind == BN_PARAM_TERNARY)
            status = put_ternary(out, w, i, how->type, err);
        else
            status = put_floats(out, w, &w->params[i], how);
        bn_buf_append(out, ZEROS, (size_t)bn_gguf_padding(writer, out->len - before));
    }
    return status;
}

bn_status bn_export_gguf(struct bn_buf *out, const struct bn_weights *w, struct bn_str tokenizer,
                         const struct bn_export *how, bn_error *err)
{
    struct bn_gguf_writer writer = {.kv.max = BN_GGUF_MAX_META_BYTES, .infos.max = BN_GGUF_MAX_META_BYTES};
    BN_TRY(check_type(w, how, err));
    bn_status status = put_keys(&writer, w, tokenizer, how, err);
    for (size_t i = 0; i < w->n_params && status == BN_OK; i++) {
        const struct bn_param *p = &w->params[i];
        uint64_t ne[2] = {p->cols, p->rows};
        bn_gguf_put_tensor(&writer, p->name, type_of(p, how), p->kind == BN_PARAM_NORM ? 1 : 2, ne);
    }
    if (status == BN_OK) status = bn_gguf_write_head(&writer, out, err);
    if (status == BN_OK) status = put_data(out, &writer, w, how, err);
    bn_gguf_writer_release(&writer);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}
