/* SPDX-License-Identifier: MIT
 *
 * The attention half of a layer.
 */
#include "infer/stages.h"

/* Head i of q and k, counted over the batch; for each token the KV heads come after the others. */
static float *head_row(const struct pass *p, size_t i)
{
    const bn_hparams *hp = &p->m->hp;
    size_t n_heads = hp->n_head + hp->n_head_kv, token = i / n_heads, head = i % n_heads;
    return head < hp->n_head ? p->s->q + (token * hp->n_head + head) * hp->head_dim
                             : p->s->k + (token * hp->n_head_kv + head - hp->n_head) * hp->head_dim;
}

/* Normalises each of those heads by itself. */
static void norm_heads(const struct pass *p, uint32_t layer, size_t from, size_t to)
{
    const bn_hparams *hp = &p->m->hp;
    const struct bn_layer *l = &p->m->layers[layer];
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_RMS_NORM);
    for (size_t i = from; i < to; i++) {
        float *row = head_row(p, i);
        bool is_q = i % (hp->n_head + hp->n_head_kv) < hp->n_head;
        p->kernels->rmsnorm(row, row, is_q ? l->q_norm : l->k_norm, hp->head_dim, hp->rms_eps);
    }
    stage_end(p, brick, BN_KERNEL_RMSNORM, 0, shape(to - from, hp->head_dim, 1));
}

/* Where the first position of a KV head is in the caches of a sequence. */
static size_t cache_row(const struct pass *p, const struct bn_sequence *sequence, uint32_t layer,
                        size_t kv_head)
{
    return (layer * p->m->hp.n_head_kv + kv_head) * sequence->n_ctx * p->m->hp.head_dim;
}

/* Rotates q and k, and stores k and v, for this thread's (token, head) pairs. */
static void rope_and_store(const struct pass *p, uint32_t layer)
{
    struct bn_session *s = p->s;
    const bn_hparams *hp = &p->m->hp;
    size_t d = hp->head_dim, half = hp->n_rot / 2, n_kv = hp->n_head_kv, n_heads = hp->n_head + n_kv;
    size_t from, to, n_stored = 0;
    bool local = bn_is_local(hp, layer);
    const float *cos = local ? s->local_cos : s->rope_cos, *sin = local ? s->local_sin : s->rope_sin;
    bool neox = hp->rope == BN_ROPE_NEOX;
    void (*rotate)(float *, const float *, const float *, size_t) =
        neox ? p->kernels->rope_neox : p->kernels->rope_norm;
    my_share(p, p->n * n_heads, 1, &from, &to);
    if (hp->head_norms) norm_heads(p, layer, from, to);
    struct bn_brick_timer rope = stage_begin(p, BN_BRICK_ROPE_EMBEDDING);
    for (size_t i = from; i < to; i++) {
        size_t at = s->rows[i / n_heads].position * half;
        float *row = head_row(p, i);
        rotate(row, cos + at, sin + at, hp->n_rot);
    }
    stage_end(p, rope, neox ? BN_KERNEL_ROPE_NEOX : BN_KERNEL_ROPE_NORM, 0, shape(to - from, hp->n_rot, 1));
    struct bn_brick_timer store = stage_begin(p, BN_BRICK_KV_STORE);
    for (size_t i = from; i < to; i++) {
        size_t token = i / n_heads, head = i % n_heads;
        if (head < hp->n_head) continue;
        size_t kv = head - hp->n_head, row = (token * n_kv + kv) * d;
        const struct bn_row *at = &s->rows[token];
        size_t cell = cache_row(p, at->sequence, layer, kv) + at->position * d;
        p->kernels->f32_to_f16(at->sequence->k_cache + cell, s->k + row, d);
        p->kernels->f32_to_f16(at->sequence->v_cache + cell, s->v + row, d);
        n_stored++;
    }
    stage_end(p, store, BN_KERNEL_F32_TO_F16, n_stored * d * 4, shape(n_stored, d, 2));
    bn_trace_layer(p, "q_rope", layer, s->q, hp->n_head * d);
    bn_trace_layer(p, "k_rope", layer, s->k, n_kv * d);
}

/* n query heads of one token that share a KV head, from the head'th on: scores, softmax, values. */
static void attend(const struct pass *p, uint32_t layer, size_t token, size_t head, size_t n)
{
    struct bn_session *s = p->s;
    const bn_hparams *hp = &p->m->hp;
    const struct bn_sequence *sequence = s->rows[token].sequence;
    size_t d = hp->head_dim, n_pos = s->rows[token].position + 1, row = (token * hp->n_head + head) * d,
           hidden = 0;
    if (bn_is_local(hp, layer) && n_pos > hp->window) hidden = n_pos - hp->window;
    n_pos -= hidden;
    size_t at = cache_row(p, sequence, layer, head / (hp->n_head / hp->n_head_kv)) + hidden * d;
    struct bn_kv k = {sequence->k_cache + at, d, n_pos, d}, v = {sequence->v_cache + at, d, n_pos, d};
    float *scores = s->scores + (size_t)p->thread * BN_QUERIES * s->n_ctx;
    struct bn_brick_timer part = part_begin(p, BN_BRICK_ATTENTION_SCORE);
    kernel_begin(p);
    p->kernels->attn_scores(scores, s->n_ctx, s->q + row, d, n, &k, hp->attn_scale);
    kernel_end(p, BN_KERNEL_ATTN_SCORES, n_pos * d * 2, shape(n_pos, d, n));
    brick_end(part, n * n_pos);
    part = part_begin(p, BN_BRICK_ATTENTION_SOFTMAX);
    kernel_begin(p);
    for (size_t j = 0; j < n; j++)
        p->kernels->softmax(scores + j * s->n_ctx, n_pos);
    kernel_end(p, BN_KERNEL_SOFTMAX, 0, shape(1, n_pos, n));
    brick_end(part, n * n_pos);
    part = part_begin(p, BN_BRICK_ATTENTION_OUTPUT);
    memset(s->att + row, 0, n * d * sizeof *s->att);
    kernel_begin(p);
    p->kernels->attn_values(s->att + row, d, scores, s->n_ctx, n, &v);
    kernel_end(p, BN_KERNEL_ATTN_VALUES, n_pos * d * 2, shape(n_pos, d, n));
    brick_end(part, n * d);
}

/* Causal attention for this thread's (token, head) pairs; query heads share the KV heads in equal groups. */
static void attention(const struct pass *p, uint32_t layer)
{
    size_t n_head = p->m->hp.n_head, group = n_head / p->m->hp.n_head_kv, from, to;
    my_share(p, p->n * n_head, 1, &from, &to);
    uint64_t elements = (to - from) * p->m->hp.head_dim;
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_ATTENTION);
    while (from < to) {
        size_t head = from % n_head, n = bn_min_size(to - from, group - head % group);
        n = bn_min_size(n, BN_QUERIES);
        attend(p, layer, from / n_head, head, n);
        from += n;
    }
    brick_end(brick, elements);
}

/* q, k and v, which share their inputs unless each has a norm of its own. */
static void make_qkv(const struct pass *p, uint32_t n, const float *inputs)
{
    struct bn_session *s = p->s;
    const struct bn_layer *l = &p->m->layers[n];
    const struct {
        const struct bn_linear *lin;
        float *out;
        const char *norm, *op;
    } PARTS[] = {{&l->q, s->q, "attn_q_norm_in", "q"},
                 {&l->k, s->k, "attn_k_norm_in", "k"},
                 {&l->v, s->v, "attn_v_norm_in", "v"}};
    bn_prepare_inputs(p, PARTS[0].norm, n, inputs, s->norm_in, PARTS[0].lin);
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_QKV_PROJECTION);
    size_t n_made = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++) {
        if (i > 0 && PARTS[i].lin->input_norm != NULL) {
            brick_end(brick, n_made);
            bn_next_inputs(p, PARTS[i].norm, n, inputs, PARTS[i].lin);
            brick = brick_begin(p, BN_BRICK_QKV_PROJECTION);
            n_made = 0;
        }
        n_made += bn_multiply_rows(p, PARTS[i].lin, PARTS[i].out);
    }
    brick_end(brick, n_made);
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        bn_trace_layer(p, PARTS[i].op, n, PARTS[i].out, PARTS[i].lin->w.rows);
}

void bn_layer_attention(const struct pass *p, uint32_t n)
{
    struct bn_session *s = p->s;
    const struct bn_layer *l = &p->m->layers[n];
    const bn_hparams *hp = &p->m->hp;
    make_qkv(p, n, bn_norm_rows(p, "attn_norm", n, s->x, s->norm, l->attn_norm, hp->n_embd));
    meet(p);
    rope_and_store(p, n);
    meet(p);
    attention(p, n);
    bn_trace_layer(p, "attn_out", n, s->att, l->o.k);
    meet(p);
    bn_prepare_inputs(p, hp->sub_norms ? "attn_sub_norm" : "attn_output_norm_in", n, s->att, s->norm, &l->o);
    bn_project(p, BN_BRICK_OUTPUT_PROJECTION, &l->o, s->y);
    bn_trace_layer(p, "attn_o", n, s->y, hp->n_embd);
    bn_add_residual(p, "post_attention_norm", n, l->post_attn_norm);
    bn_trace_layer(p, "attn_res", n, s->x, hp->n_embd);
    meet(p);
}
