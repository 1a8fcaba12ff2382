/* SPDX-License-Identifier: MIT
 *
 * The table of parameters, their first values, and their ternary copies.
 */
#include "train/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "gguf/types.h"
#include "infer/session.h"
#include "model/model.h"
#include "train/ops.h"

/* ---- the table ---- */

static uint32_t add(struct bn_weights *w, enum bn_param_kind kind, int32_t layer, const char *what,
                    size_t rows, size_t cols)
{
    struct bn_param *p = &w->params[w->n_params];
    *p = (struct bn_param){.kind = kind, .rows = rows, .cols = cols, .at = w->n_values};
    if (layer >= 0)
        snprintf(p->name, sizeof p->name, "blk.%d.%s.weight", (int)layer, what);
    else
        snprintf(p->name, sizeof p->name, "%s.weight", what);
    w->n_values += (rows * cols + BN_LANES - 1) / BN_LANES * BN_LANES;
    return (uint32_t)w->n_params++;
}

static void add_layer(struct bn_weights *w, int32_t i)
{
    const bn_hparams *hp = &w->hp;
    size_t d = hp->n_embd, dq = (size_t)hp->n_head * hp->head_dim, dk = (size_t)hp->n_head_kv * hp->head_dim;
    struct bn_layer_params *l = &w->layers[i];
    l->attn_norm = add(w, BN_PARAM_NORM, i, "attn_norm", 1, d);
    l->q = add(w, BN_PARAM_TERNARY, i, "attn_q", dq, d);
    l->k = add(w, BN_PARAM_TERNARY, i, "attn_k", dk, d);
    l->v = add(w, BN_PARAM_TERNARY, i, "attn_v", dk, d);
    if (hp->head_norms) {
        l->q_norm = add(w, BN_PARAM_NORM, i, "attn_q_norm", 1, hp->head_dim);
        l->k_norm = add(w, BN_PARAM_NORM, i, "attn_k_norm", 1, hp->head_dim);
    }
    if (hp->sub_norms) l->attn_sub_norm = add(w, BN_PARAM_NORM, i, "attn_sub_norm", 1, dq);
    l->o = add(w, BN_PARAM_TERNARY, i, "attn_output", d, dq);
    l->ffn_norm = add(w, BN_PARAM_NORM, i, "ffn_norm", 1, d);
    l->gate = add(w, BN_PARAM_TERNARY, i, "ffn_gate", hp->n_ff, d);
    l->up = add(w, BN_PARAM_TERNARY, i, "ffn_up", hp->n_ff, d);
    if (hp->sub_norms) l->ffn_sub_norm = add(w, BN_PARAM_NORM, i, "ffn_sub_norm", 1, hp->n_ff);
    l->down = add(w, BN_PARAM_TERNARY, i, "ffn_down", d, hp->n_ff);
}

/* ---- opening ---- */

static bn_status check_multiple(const char *what, uint32_t value, uint32_t of, bn_error *err)
{
    if (value != 0 && value % of == 0) return BN_OK;
    return bn_fail(err, BN_ERR_ARG, "the %s is %u, expected a multiple of %u", what, value, of);
}

static bn_status check_shape(const bn_hparams *hp, uint32_t group, bn_error *err)
{
    uint32_t block = group != 0 ? group : 128;
    BN_TRY(check_multiple("width", hp->n_embd, block, err));
    BN_TRY(check_multiple("feed-forward width", hp->n_ff, block, err));
    BN_TRY(check_multiple("width of a head", hp->head_dim, 16, err));
    BN_TRY(check_multiple("width of all heads", hp->n_head * hp->head_dim, block, err));
    BN_TRY(check_multiple("number of heads", hp->n_head, hp->n_head_kv != 0 ? hp->n_head_kv : 1, err));
    if (hp->n_head_kv == 0 || hp->n_layer == 0 || hp->n_vocab < 2 || hp->n_ctx < 2)
        return bn_fail(err, BN_ERR_ARG, "a model needs layers, heads, a vocabulary and a context");
    return BN_OK;
}

static bn_status allocate(struct bn_weights *w, bn_error *err)
{
    size_t n_angles = (size_t)w->hp.n_ctx * (w->hp.head_dim / 2);
    w->master = bn_alloc_aligned(w->n_values, sizeof *w->master);
    w->ternary = bn_alloc_aligned(w->n_values, sizeof *w->ternary);
    w->codes = bn_alloc_aligned(w->n_values / 4, 1);
    w->scale = bn_alloc(w->n_params, sizeof *w->scale);
    w->cos = bn_alloc_aligned(n_angles, sizeof *w->cos);
    w->sin = bn_alloc_aligned(n_angles, sizeof *w->sin);
    float *angles = bn_alloc(n_angles, 2 * sizeof *angles);
    bool short_of = w->master == NULL || w->ternary == NULL || w->codes == NULL || w->scale == NULL ||
                    w->cos == NULL || w->sin == NULL;
    if (!short_of && angles != NULL) {
        bn_mem_advise_huge(w->master, w->n_values * sizeof *w->master);
        bn_mem_advise_huge(w->ternary, w->n_values * sizeof *w->ternary);
        bn_rope_table(angles, angles + n_angles, w->hp.n_ctx, &w->hp, NULL);
        for (size_t i = 0; i < n_angles; i++) {
            w->cos[i] = (bn_real)angles[i];
            w->sin[i] = (bn_real)angles[n_angles + i];
        }
    }
    short_of = short_of || angles == NULL;
    bn_free(angles);
    return short_of ? bn_nomem(err) : BN_OK;
}

bn_status bn_weights_open(struct bn_weights *w, const bn_hparams *hp, uint32_t group, bn_error *err)
{
    *w = (struct bn_weights){.hp = *hp, .group = group};
    BN_TRY(check_shape(hp, group, err));
    BN_TRY(bn_isa_kernels(&w->kernels, err));
    w->params = bn_alloc(2 + 13 * (size_t)hp->n_layer, sizeof *w->params);
    w->layers = bn_alloc(hp->n_layer, sizeof *w->layers);
    bn_status status = w->params != NULL && w->layers != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) {
        add(w, BN_PARAM_EMBEDDING, -1, "token_embd", hp->n_vocab, hp->n_embd);
        for (uint32_t i = 0; i < hp->n_layer; i++)
            add_layer(w, (int32_t)i);
        add(w, BN_PARAM_NORM, -1, "output_norm", 1, hp->n_embd);
        status = allocate(w, err);
    }
    if (status != BN_OK) bn_weights_close(w);
    return status;
}

void bn_weights_close(struct bn_weights *w)
{
    bn_free(w->params);
    bn_free(w->layers);
    bn_free(w->master);
    bn_free(w->ternary);
    bn_free(w->codes);
    bn_free(w->scale);
    bn_free(w->cos);
    bn_free(w->sin);
    *w = (struct bn_weights){0};
}

/* ---- values ---- */

/* The sum of twelve uniform numbers less six: variance 1, and no libm. */
static bn_real normal(uint64_t seed, uint64_t counter)
{
    uint64_t state = (seed + 1) * UINT64_C(0xD1342543DE82EF95) + counter * UINT64_C(0x2545F4914F6CDD1D);
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t bits = bn_splitmix64(&state);
        sum += (double)(bits >> 32) * 0x1p-32 + (double)(bits & 0xFFFFFFFFu) * 0x1p-32;
    }
    return (bn_real)(sum - 6.0);
}

void bn_weights_start(struct bn_weights *w, uint64_t seed)
{
    for (size_t i = 0; i < w->n_params; i++) {
        const struct bn_param *p = &w->params[i];
        for (size_t j = 0; j < p->rows * p->cols; j++)
            w->master[p->at + j] = p->kind == BN_PARAM_NORM ? 1 : (bn_real)0.02 * normal(seed, p->at + j);
    }
}

/* The mean of |w|, at least 1e-5, rounded to binary16: so every type of file stores the same scale. */
static bn_real scale_of(const bn_real *w, size_t n)
{
    double mean = bn_op_sum_abs(w, n) / (double)n;
    float scale = (float)(mean > 1e-5 ? mean : 1e-5);
    uint16_t half;
    bn_kernels_ref.f32_to_f16(&half, &scale, 1);
    bn_kernels_ref.f16_to_f32(&scale, &half, 1);
    return (bn_real)scale;
}

/* Ternary values into tiles: rows are a multiple of those of a tile, cols of the block of I2_S. */
static void pack(uint8_t *codes, const bn_real *t, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        uint8_t *out = codes + r / BN_TILE_ROWS * 4 * cols + 4 * (r % BN_TILE_ROWS), bytes[BN_I2S_BLOCK / 4];
        for (size_t at = 0; at < cols; at += BN_I2S_BLOCK, t += BN_I2S_BLOCK) {
            int8_t values[BN_I2S_BLOCK];
            for (size_t i = 0; i < BN_I2S_BLOCK; i++)
                values[i] = (int8_t)t[i];
            bn_pack_i2s(bytes, values, BN_I2S_BLOCK, 0);
            for (size_t m = 0; m < sizeof bytes; m += 4, out += 64)
                memcpy(out, bytes + m, 4);
        }
    }
}

static void ternarise_param(void *arg, unsigned thread, size_t i)
{
    struct bn_weights *w = arg;
    const struct bn_param *p = &w->params[i];
    size_t n = p->rows * p->cols;
    (void)thread;
    w->scale[i] = 1;
    if (p->kind != BN_PARAM_TERNARY) return;
    if (w->exact) {
        memcpy(w->ternary + p->at, w->master + p->at, n * sizeof *w->master);
        return;
    }
    for (size_t at = p->at; w->group != 0 && at < p->at + n; at += w->group) {
        bn_real s = scale_of(w->master + at, w->group);
        bn_op_ternarise(w->ternary + at, w->master + at, s, s, w->group);
    }
    if (w->group != 0) return;
    w->scale[i] = scale_of(w->master + p->at, n);
    bn_op_ternarise(w->ternary + p->at, w->master + p->at, w->scale[i], 1, n);
    pack(w->codes + p->at / 4, w->ternary + p->at, p->rows, p->cols);
}

void bn_weights_ternarise(struct bn_weights *w, struct bn_team *team)
{
    bn_team_each(team, 0, w->n_params, ternarise_param, w);
}

size_t bn_weights_count(const struct bn_weights *w, enum bn_param_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_params; i++)
        if (w->params[i].kind == kind) n += w->params[i].rows * w->params[i].cols;
    return n;
}

void bn_weights_row(const struct bn_weights *w, size_t param, size_t row, int8_t *values, float *scales)
{
    const struct bn_param *p = &w->params[param];
    const bn_real *t = w->ternary + p->at + row * p->cols;
    size_t group = w->group != 0 ? w->group : p->cols;
    for (size_t g = 0; g < p->cols / group; g++, t += group) {
        float scale = (float)w->scale[param];
        for (size_t i = 0; i < group; i++) {
            values[g * group + i] = (int8_t)((t[i] > 0) - (t[i] < 0));
            if (w->group != 0 && t[i] != 0) scale = (float)bn_real_abs(t[i]);
        }
        scales[g] = scale;
    }
}
