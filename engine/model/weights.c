/* SPDX-License-Identifier: MIT
 *
 * Binds the tensors of a file to the weights of a model. Every tensor of the forward pass must have its exact
 * shape. Tensors that would change the result and that the forward pass does not use (biases) are refused;
 * others are ignored.
 */
#define _GNU_SOURCE /* _SC_LEVEL3_CACHE_SIZE */
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "model/hparams.h"

static bn_status find(const struct bn_model *m, const char *name, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                      const struct bn_gguf_tensor **out, bn_error *err)
{
    const struct bn_gguf_tensor *t = bn_gguf_find_tensor(&m->gguf, name);
    if (t == NULL) return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name, "missing tensor");
    char third[24] = "";
    if (ne2 != 1) snprintf(third, sizeof third, " x %llu", (unsigned long long)ne2);
    if (t->ne[0] != ne0 || t->ne[1] != ne1 || t->ne[2] != ne2 || t->ne[3] != 1)
        return bn_fail_at(err, BN_ERR_FORMAT, t->info_offset, name,
                          "shape %llu x %llu x %llu x %llu, expected %llu x %llu%s",
                          (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
                          (unsigned long long)t->ne[2], (unsigned long long)t->ne[3], (unsigned long long)ne0,
                          (unsigned long long)ne1, third);
    *out = t;
    return BN_OK;
}

static bn_status bind_matrix(struct bn_model *m, const char *name, size_t rows, size_t k,
                             struct bn_matrix *out, bn_error *err)
{
    const struct bn_gguf_tensor *t = NULL;
    BN_TRY(find(m, name, k, rows, 1, &t, err));
    const struct bn_type_info *info = bn_type_info(t->type);
    if (info == NULL || !info->readable || t->type == BN_TYPE_I2_S)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, name,
                          "type %s is not supported outside of linear layers",
                          info != NULL ? info->name : "?");
    *out = (struct bn_matrix){t->data, t->type, rows, k, (size_t)(t->n_bytes / rows)};
    return BN_OK;
}

/* A vector, or a small matrix that is multiplied in floats: in place when stored as F32, else widened into a copy. All
 * values must be finite. */
static bn_status bind_floats(struct bn_model *m, const char *name, size_t rows, size_t k, const float **out,
                             bn_error *err)
{
    struct bn_matrix matrix;
    BN_TRY(bind_matrix(m, name, rows, k, &matrix, err));
    const struct bn_type_info *info = bn_type_info(matrix.type);
    if (rows == 1 && !info->is_float)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, BN_NO_OFFSET, name,
                          "type %s is not supported for a vector", info->name);
    *out = (const float *)(const void *)matrix.data;
    if (matrix.type != BN_TYPE_F32) {
        float *copy = bn_model_own(m, rows * k, sizeof *copy);
        if (copy == NULL) return bn_nomem(err);
        for (size_t r = 0; r < rows; r++)
            bn_matrix_row(m->kernels, &matrix, r, copy + r * k);
        *out = copy;
    }
    for (size_t i = 0; i < rows * k; i++)
        if (!isfinite((*out)[i]))
            return bn_fail_at(err, BN_ERR_FORMAT, bn_gguf_find_tensor(&m->gguf, name)->offset, name,
                              "element %zu is not finite", i);
    return BN_OK;
}

/* The final norm; the scale of the logits is part of it, so that no stage of its own is needed. */
static bn_status bind_output_norm(struct bn_model *m, bn_error *err)
{
    BN_TRY(bind_floats(m, "output_norm.weight", 1, m->hp.n_embd, &m->output_norm, err));
    if (m->hp.logit_scale == 1.0f) return BN_OK;
    float *scaled = bn_model_own(m, m->hp.n_embd, sizeof *scaled);
    if (scaled == NULL) return bn_nomem(err);
    for (size_t i = 0; i < m->hp.n_embd; i++)
        scaled[i] = m->output_norm[i] * m->hp.logit_scale;
    m->output_norm = scaled;
    return BN_OK;
}

/* Divisors of the frequencies: rope_freqs.weight, or those of LongRoPE up to the original context, at which
 * hparams.c ends the context. */
static bn_status bind_rope_factors(struct bn_model *m, bn_error *err)
{
    static const char LONG[] = "rope_factors_long.weight", SHORT[] = "rope_factors_short.weight";
    const struct bn_gguf_tensor *for_long = bn_gguf_find_tensor(&m->gguf, LONG);
    bool is_long = for_long != NULL || bn_gguf_find_tensor(&m->gguf, SHORT) != NULL;
    const char *name = is_long ? SHORT : "rope_freqs.weight";
    if (is_long && bn_gguf_find_tensor(&m->gguf, SHORT) == NULL)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, for_long->info_offset, LONG,
                          "LongRoPE without %s is not supported", SHORT);
    if (bn_gguf_find_tensor(&m->gguf, name) == NULL) return BN_OK;
    BN_TRY(bind_floats(m, name, 1, m->hp.n_rot / 2, &m->rope_factors, err));
    for (size_t i = 0; i < m->hp.n_rot / 2; i++)
        if (!(m->rope_factors[i] > 0.0f))
            return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, name, "element %zu is not positive", i);
    return BN_OK;
}

/* A head of ternary blocks is multiplied like a layer, with activations of 16 bits. */
static bn_status bind_head(struct bn_model *m, bn_error *err)
{
    const char *name = m->hp.tied_head ? "token_embd.weight" : "output.weight";
    m->head = m->embd;
    if (!m->hp.tied_head) BN_TRY(bind_matrix(m, name, m->hp.n_vocab, m->hp.n_embd, &m->head, err));
    m->head_bytes = (uint64_t)m->head.rows * m->head.row_bytes;
    struct bn_rotation rotation;
    BN_TRY(bn_hadamard_of(&m->hadamard, name, m->head.k, &rotation, err));
    bool is_ternary = bn_type_info(m->head.type)->unpack != NULL;
    if (rotation.block != 0 && !is_ternary)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "%s is rotated and not ternary", name);
    if (!is_ternary) return BN_OK;
    m->head_linear = (struct bn_linear){.k = m->head.k,
                                        .rotation = rotation,
                                        .extra_scale = 1.0f,
                                        .rows = m->head.rows,
                                        .first = m->vocab.first,
                                        .w = {.rows = m->vocab.n}};
    bn_status status = bn_grouped_prepare(m, &m->head_linear, bn_gguf_find_tensor(&m->gguf, name), true, err);
    if (status != BN_OK) bn_error_name(err, name);
    m->head_bytes =
        (uint64_t)m->head.rows * m->head_linear.row_bytes; /* tiles can be larger than the file's */
    return status;
}

/* The rows of all experts make one matrix, so that the tiles of an expert follow those of the one before it. */
static bn_status check_experts(const struct bn_model *m, const struct bn_gguf_tensor *t, const char *name,
                               size_t rows, bn_error *err)
{
    if (t->type == BN_TYPE_I2_S || rows % BN_TILE_ROWS != 0)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, name,
                          "experts of %zu rows stored as %s are not supported", rows,
                          bn_type_info(t->type)->name);
    return m->hp.residual_scale == 1.0f ? BN_OK : bn_fail(err, BN_ERR_UNSUPPORTED, "scaled experts");
}

/* Rows that stay with one rank: whole heads of queries with those that share their keys, whole heads, or those that stay
 * with one thread. */
static size_t grain_of(const struct bn_model *m, const struct bn_layer_part *p)
{
    if (p->rows == BN_W_GATED_Q) return (m->hp.gated_heads ? 2 : 1) * bn_model_query_grain(m);
    return p->rows == BN_W_KV ? m->hp.head_dim : BN_ROW_GRAIN;
}

/* blk.N.<part>.weight, and blk.N.<part>.scale where there is one. The norm of its inputs is bound already. */
static bn_status bind_linear(struct bn_model *m, uint32_t layer, const struct bn_layer_part *p,
                             struct bn_linear *out, bool skip_code_check, bn_error *err)
{
    const char *part = p->name;
    const bool of_experts = p->of == BN_OF_EXPERTS;
    uint64_t n = of_experts ? m->hp.experts.n : 1, n_read = of_experts ? m->hp.experts.n_used : 1;
    size_t rows = (size_t)bn_width(&m->hp, p->rows), k = (size_t)bn_width(&m->hp, p->cols);
    char name[64];
    const struct bn_gguf_tensor *t = NULL;
    snprintf(name, sizeof name, "blk.%u.%s.bias", layer, part);
    if ((t = bn_gguf_find_tensor(&m->gguf, name)) != NULL)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, name,
                          "a linear layer with a bias is not supported");
    snprintf(name, sizeof name, "blk.%u.%s.weight", layer, part);
    BN_TRY(find(m, name, k, rows, n, &t, err));
    if (of_experts) BN_TRY(check_experts(m, t, name, rows, err));
    struct bn_slice slice = bn_model_slice(m, rows * n, grain_of(m, p));
    *out = (struct bn_linear){.k = k,
                              .input_norm = out->input_norm,
                              .extra_scale = 1.0f,
                              .rows = rows * n,
                              .first = slice.first,
                              .w = {.rows = slice.n, .scale = 1.0f}};
    bn_status status = bn_ternary_prepare(m, out, t, skip_code_check, err);
    if (status != BN_OK) {
        bn_error_name(err, name);
        return status;
    }
    BN_TRY(bn_hadamard_of(&m->hadamard, name, k, &out->rotation, err));
    m->ternary_bytes += n_read * rows * out->row_bytes;
    m->ternary_weights += n_read * rows * k;
    if (p->adds && m->hp.residual_scale != 1.0f) {
        out->extra_scale = m->hp.residual_scale;
        out->has_extra_scale = true;
    }

    snprintf(name, sizeof name, "blk.%u.%s.scale", layer, part);
    if (bn_gguf_find_tensor(&m->gguf, name) == NULL) return BN_OK;
    const float *scale = NULL;
    BN_TRY(bind_floats(m, name, 1, 1, &scale, err));
    out->extra_scale *= scale[0];
    out->has_extra_scale = true;
    return BN_OK;
}

/* Layers that share an input must be rotated alike. */
static bn_status check_alike(uint32_t layer, const char *names, const struct bn_linear *a,
                             const struct bn_linear *b, const struct bn_linear *c, bn_error *err)
{
    if (a->rotation.block == b->rotation.block && a->rotation.block == c->rotation.block) return BN_OK;
    return bn_fail_at(err, BN_ERR_UNSUPPORTED, BN_NO_OFFSET, "prism.hadamard.weight_names",
                      "some of %s of layer %u are rotated and some are not", names, layer);
}

/* The weights of the convolution lie together for each element in the file, for each tap here. */
static bn_status bind_convolution(struct bn_model *m, const char *name, size_t width, size_t taps,
                                  const float **out, bn_error *err)
{
    const float *stored = NULL;
    BN_TRY(bind_floats(m, name, width, taps, &stored, err));
    float *copy = bn_model_own(m, width * taps, sizeof *copy);
    if (copy == NULL) return bn_nomem(err);
    for (size_t i = 0; i < width; i++)
        for (size_t t = 0; t < taps; t++)
            copy[t * width + i] = stored[i * taps + t];
    *out = copy;
    return BN_OK;
}

static bn_status bind_part(struct bn_model *m, uint32_t n, const struct bn_layer_part *p, bool skip,
                           bn_error *err)
{
    void *out = (char *)&m->layers[n] + p->out;
    size_t rows = (size_t)bn_width(&m->hp, p->rows), cols = (size_t)bn_width(&m->hp, p->cols);
    char name[BN_PART_NAME_ROOM];
    bn_part_name(name, p, n);
    switch (p->kind) {
    case BN_PART_LINEAR:
        return bind_linear(m, n, p, out, skip, err);
    case BN_PART_SIDE:
    case BN_PART_ROUTER:
        return bind_floats(m, name, rows, cols, out, err);
    case BN_PART_CONV:
        return bind_convolution(m, name, rows, cols, out, err);
    case BN_PART_NORM:
    case BN_PART_RATE:
    case BN_PART_BIAS:
        break;
    }
    return bind_floats(m, name, 1, cols, out, err);
}

/* Tensors of a layer that would change the result and that are not computed. */
static bn_status refuse_others(const struct bn_model *m, uint32_t n, bn_error *err)
{
    static const char *const OTHERS[] = {
        "exp_probs_b.bias",      "ffn_gate_inp.bias",   "ffn_gate_shexp.weight", "ffn_up_shexp.weight",
        "ffn_down_shexp.weight", "ffn_gate_exps.scale", "ffn_up_exps.scale",     "ffn_down_exps.scale"};
    char name[64];
    for (size_t i = 0; i < BN_ARRAY_LEN(OTHERS) && m->hp.experts.n != 0; i++) {
        snprintf(name, sizeof name, "blk.%u.%s", n, OTHERS[i]);
        const struct bn_gguf_tensor *t = bn_gguf_find_tensor(&m->gguf, name);
        if (t != NULL)
            return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, name,
                              "biases and scales of experts, and shared experts, are not supported");
    }
    for (const struct bn_layer_part *p = bn_parts; p->name != NULL && !m->hp.input_norms; p++) {
        if (p->of != BN_OF_INPUT_NORMS) continue;
        bn_part_name(name, p, n);
        const struct bn_gguf_tensor *t = bn_gguf_find_tensor(&m->gguf, name);
        if (t != NULL)
            return bn_fail_at(err, BN_ERR_UNSUPPORTED, t->info_offset, name,
                              "a norm of the inputs of some linear layers is not supported");
    }
    if (m->hp.input_norms && m->hp.recurrence.n_taps != 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "norms of inputs are not supported in %s", m->hp.arch);
    return BN_OK;
}

static bn_status bind_layer(struct bn_model *m, uint32_t n, bool skip, bn_error *err)
{
    const bn_hparams *hp = &m->hp;
    struct bn_layer *l = &m->layers[n];
    uint32_t n_recurrent = bn_hparams_n_recurrent(hp, n);
    l->is_recurrent = bn_hparams_is_recurrent(hp, n);
    l->nth = l->is_recurrent ? n_recurrent : n - n_recurrent;
    l->recurrent.grouped = l->is_recurrent && m->hadamard.grouped_heads;
    BN_TRY(refuse_others(m, n, err));
    for (const struct bn_layer_part *p = bn_parts; p->name != NULL; p++)
        if (bn_part_is_in(p, hp, n)) BN_TRY(bind_part(m, n, p, skip, err));
    if (hp->experts.n != 0)
        m->expert_bytes = (uint64_t)hp->n_ff * (l->gate.row_bytes + l->up.row_bytes) +
                          (uint64_t)hp->n_embd * l->down.row_bytes;
    const struct bn_recurrent *r = &l->recurrent;
    if (l->is_recurrent) BN_TRY(check_alike(n, "attn_qkv and attn_gate", &r->mix, &r->z, &r->z, err));
    if (!l->is_recurrent) BN_TRY(check_alike(n, "attn_q, attn_k and attn_v", &l->q, &l->k, &l->v, err));
    return check_alike(n, hp->experts.n != 0 ? "ffn_gate_exps and ffn_up_exps" : "ffn_gate and ffn_up",
                       &l->gate, &l->up, &l->up, err);
}

#define LARGEST_CACHE (64l << 20)

/* Sets for every linear layer whether its weights can still be in a cache when the next token needs them. */
static void mark_streamed(struct bn_model *m)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (cache <= 0) cache = 16 << 20;                 /* unknown */
    if (cache > LARGEST_CACHE) cache = LARGEST_CACHE; /* virtual machines report what many of them share */
    uint64_t n_ranks = m->ranks != NULL ? m->ranks->count : 1;
    m->streamed = (m->ternary_bytes + m->head_bytes) / n_ranks > (uint64_t)cache;
    for (size_t i = 0; i < bn_model_n_linears(m); i++)
        bn_model_linear(m, i)->w.streamed = m->streamed;
    m->head_linear.w.streamed = m->streamed;
}

/* The first matrix of the first layer tells how weights and activations are stored, unless the key
 * bn.activations of a converted file says what the model was trained with. */
static bn_status choose_activations(struct bn_model *m, bn_error *err)
{
    static const char KEY[] = BN_ACTIVATIONS_KEY;
    const struct bn_gguf_tensor *t = bn_gguf_find_tensor(
        &m->gguf, bn_hparams_is_recurrent(&m->hp, 0) ? "blk.0.attn_qkv.weight" : "blk.0.attn_q.weight");
    struct bn_str text;
    if (t == NULL) return BN_OK; /* an error of its own follows */
    m->wide = bn_hparams_wide_activations(&m->hp, t->type);
    bn_status status = bn_gguf_str(&m->gguf, KEY, &text, err);
    if (status != BN_ERR_NOT_FOUND) {
        BN_TRY(status);
        m->wide = bn_str_equal(text, "int16-group");
        if (!m->wide && !bn_str_equal(text, "int8-token"))
            return bn_fail_at(err, BN_ERR_UNSUPPORTED, BN_NO_OFFSET, KEY, "not int8-token or int16-group");
        if (m->wide && bn_grouped_size(t->type) == 0)
            return bn_fail_at(err, BN_ERR_UNSUPPORTED, BN_NO_OFFSET, KEY,
                              "weights of one scale cannot have int16-group");
    }
    if (m->wide) m->group = bn_grouped_size(t->type);
    return BN_OK;
}

bn_status bn_weights_bind(struct bn_model *m, struct bn_loading *loading, bn_error *err)
{
    const bn_hparams *hp = &m->hp;
    BN_TRY(BN_NEW(m->layers, hp->n_layer, err));
    BN_TRY(bind_matrix(m, "token_embd.weight", hp->n_vocab, hp->n_embd, &m->embd, err));
    BN_TRY(bn_hadamard_read(&m->hadamard, &m->gguf, err));
    BN_TRY(bn_hadamard_of(&m->hadamard, "token_embd.weight", hp->n_embd, &m->embd_rotation, err));
    BN_TRY(bind_head(m, err));
    BN_TRY(bind_output_norm(m, err));
    BN_TRY(bind_rope_factors(m, err));
    BN_TRY(choose_activations(m, err));
    for (uint32_t n = 0; n < hp->n_layer; n++) {
        BN_TRY(bind_layer(m, n, loading->options->skip_code_check, err));
        BN_TRY(bn_loading_step(loading, err));
    }
    mark_streamed(m);
    return BN_OK;
}
