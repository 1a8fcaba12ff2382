/* SPDX-License-Identifier: MIT
 *
 * The attention half of a layer.
 */
#include "infer/pass.h"

static size_t group_of(const struct pass *p)
{
    return p->m->hp.n_head / p->m->hp.n_head_kv;
}

/* A head of q or k of a token in the batch. */
struct head {
    size_t token, index; /* index: among all heads of q, or of k */
    bool is_q;
};

/* Heads of q and k of each token that this rank computes. */
static size_t heads_of_token(const struct pass *p)
{
    return p->m->kv_heads.n * (group_of(p) + 1);
}

/* Head i of those, counted over the batch; for each token the KV heads come after the others. */
static struct head head_at(const struct pass *p, size_t i)
{
    size_t n_q = p->m->kv_heads.n * group_of(p), n_heads = heads_of_token(p), at = i % n_heads;
    return at < n_q ? (struct head){i / n_heads, p->m->kv_heads.first * group_of(p) + at, true}
                    : (struct head){i / n_heads, p->m->kv_heads.first + at - n_q, false};
}

static float *head_row(const struct pass *p, size_t i)
{
    const bn_hparams *hp = &p->m->hp;
    struct head head = head_at(p, i);
    return head.is_q ? p->s->q + (head.token * hp->n_head + head.index) * hp->head_dim
                     : p->s->k + (head.token * hp->n_head_kv + head.index) * hp->head_dim;
}

/* The queries of a token, or their gates, where each head has both after each other. */
static float *gated_row(const struct pass *p, size_t token, size_t head, bool gate)
{
    const bn_hparams *hp = &p->m->hp;
    return p->s->mix + ((token * hp->n_head + head) * 2 + gate) * hp->head_dim;
}

static void take_queries(const struct pass *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct head head = head_at(p, i);
        if (head.is_q)
            memcpy(head_row(p, i), gated_row(p, head.token, head.index, false),
                   p->m->hp.head_dim * sizeof(float));
    }
}

/* Normalises each of those heads by itself. */
static void norm_heads(const struct pass *p, uint32_t layer, size_t from, size_t to)
{
    const bn_hparams *hp = &p->m->hp;
    const struct bn_layer *l = &p->m->layers[layer];
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_RMS_NORM);
    for (size_t i = from; i < to; i++) {
        float *row = head_row(p, i);
        p->kernels->rmsnorm(row, row, head_at(p, i).is_q ? l->q_norm : l->k_norm, hp->head_dim, hp->rms_eps);
    }
    stage_end(p, brick, BN_KERNEL_RMSNORM, 0, shape(to - from, hp->head_dim, 1));
}

/* Where a KV head of this rank begins in the caches of a sequence. */
static size_t cache_row(const struct pass *p, const struct bn_sequence *sequence, uint32_t layer,
                        size_t kv_head)
{
    const struct bn_slice *heads = &p->m->kv_heads;
    return (p->m->layers[layer].nth * heads->n + kv_head - heads->first) * bn_cache_rows(sequence->n_ctx) *
           p->m->hp.head_dim;
}

/* The rows of this thread for a tile of queries. */
static float *tile_rows(const struct pass *p)
{
    return p->s->queries + (size_t)p->thread * 2 * BN_QUERIES * p->m->hp.head_dim;
}

/* Rotates q and k, and stores k and v, for this thread's (token, head) pairs. */
static void rope_and_store(const struct pass *p, uint32_t layer)
{
    struct bn_session *s = p->s;
    const bn_hparams *hp = &p->m->hp;
    size_t d = hp->head_dim, half = hp->n_rot / 2, n_kv = hp->n_head_kv;
    size_t from, to, n_stored = 0;
    bool local = bn_hparams_is_local(hp, layer);
    const float *cos = local ? s->local_cos : s->rope_cos, *sin = local ? s->local_sin : s->rope_sin;
    bool neox = hp->rope == BN_ROPE_NEOX;
    void (*rotate)(float *, const float *, const float *, size_t) =
        neox ? p->kernels->rope_neox : p->kernels->rope_norm;
    my_share(p, p->n * heads_of_token(p), 1, &from, &to);
    if (hp->gated_heads) take_queries(p, from, to);
    if (hp->head_norms) norm_heads(p, layer, from, to);
    struct bn_brick_timer rope = stage_begin(p, BN_BRICK_ROPE_EMBEDDING);
    bool rotated = local || !hp->rope_is_local;
    for (size_t i = from; rotated && i < to; i++) {
        size_t at = s->rows[head_at(p, i).token].position * half;
        float *row = head_row(p, i);
        rotate(row, cos + at, sin + at, hp->n_rot);
    }
    stage_end(p, rope, neox ? BN_KERNEL_ROPE_NEOX : BN_KERNEL_ROPE_NORM, 0,
              shape(rotated ? to - from : 0, hp->n_rot, 1));
    struct bn_brick_timer store = stage_begin(p, BN_BRICK_KV_STORE);
    uint16_t *key = (uint16_t *)(void *)tile_rows(p);
    for (size_t i = from; i < to; i++) {
        struct head head = head_at(p, i);
        if (head.is_q) continue;
        size_t row = (head.token * n_kv + head.index) * d;
        const struct bn_row *at = &s->rows[head.token];
        size_t cell = cache_row(p, at->sequence, layer, head.index);
        p->kernels->f32_to_f16(at->sequence->v_cache + cell + at->position * d, s->v + row, d);
        p->kernels->f32_to_f16(key, s->k + row, d);
        for (size_t e = 0; e < d; e++)
            at->sequence->k_cache[cell + bn_in_keys(at->position, e, d)] = key[e];
        n_stored++;
    }
    stage_end(p, store, BN_KERNEL_F32_TO_F16, n_stored * d * 4, shape(n_stored, d, 2));
    bn_trace_layer(p, "q_rope", layer, s->q, hp->n_head * d);
    bn_trace_layer(p, "k_rope", layer, s->k, n_kv * d);
}

/* The queries of a KV head are counted token by token, and within a token head by head. A tile is a run of them that
 * belong to one sequence. */
struct tile {
    uint32_t layer;
    size_t kv_head, first, n;
    const struct bn_sequence *sequence;
    float *scores;    /* rows of bn_score_row */
    size_t first_pos; /* of the scores: that of a tile of keys */
};

/* Positions from..to. */
struct span {
    size_t from, to;
};

/* What query j of a tile attends to. */
static struct span visible(const struct pass *p, const struct tile *t, size_t j)
{
    size_t to = (size_t)p->s->rows[(t->first + j) / group_of(p)].position + 1, window = p->m->hp.window;
    return (struct span){bn_hparams_is_local(&p->m->hp, t->layer) && to > window ? to - window : 0, to};
}

/* Its row in q or att. */
static float *query_row(const struct pass *p, const struct tile *t, size_t j, float *x)
{
    size_t group = group_of(p), token = (t->first + j) / group;
    return x + (token * p->m->hp.n_head + t->kv_head * group + (t->first + j) % group) * p->m->hp.head_dim;
}

/* Adds the values of the positions `at` to the rows of n queries from query j on. */
static void add_values(const struct pass *p, const struct tile *t, float *y, size_t j, size_t n,
                       struct span at)
{
    size_t d = p->m->hp.head_dim, ld = bn_score_row(p->s);
    if (at.from >= at.to) return;
    size_t row = cache_row(p, t->sequence, t->layer, t->kv_head) + at.from * d;
    struct bn_kv v = {t->sequence->v_cache + row, d, at.to - at.from, d};
    p->kernels->attn_values(y + j * d, d, t->scores + j * ld + at.from - t->first_pos, ld, n, &v);
}

/* y = sums of values. Positions come in ascending order: those that every query sees are added for all of them at once,
 * the ones before and after those token by token. */
static void attend_values(const struct pass *p, const struct tile *t, float *y)
{
    struct span first = visible(p, t, 0), last = visible(p, t, t->n - 1);
    struct span all = {last.from, first.to > last.from ? first.to : last.from};
    size_t group = group_of(p), n;
    memset(y, 0, t->n * p->m->hp.head_dim * sizeof *y);
    for (size_t j = 0; j < t->n; j += n) {
        struct span at = visible(p, t, j);
        n = bn_min_size(group - (t->first + j) % group, t->n - j);
        add_values(p, t, y, j, n, (struct span){at.from, bn_min_size(at.to, all.from)});
    }
    add_values(p, t, y, 0, t->n, all);
    for (size_t j = 0; j < t->n; j += n) {
        n = bn_min_size(group - (t->first + j) % group, t->n - j);
        add_values(p, t, y, j, n, (struct span){all.to, visible(p, t, j).to});
    }
}

/* Scores, softmax, values of a tile. Scores of positions that a query does not see are computed and not used. */
static void attend(const struct pass *p, const struct tile *t)
{
    struct bn_session *s = p->s;
    const bn_hparams *hp = &p->m->hp;
    struct span first = visible(p, t, 0), last = visible(p, t, t->n - 1);
    size_t d = hp->head_dim, ld = bn_score_row(s), n_bytes = (last.to - first.from) * d * 2, n_pairs = 0;
    bool gathered = first.to != last.to; /* the heads of one token are neighbours in q and att */
    float *q = gathered ? tile_rows(p) : query_row(p, t, 0, s->q);
    float *y = gathered ? q + BN_QUERIES * d : query_row(p, t, 0, s->att);
    for (size_t j = 0; j < t->n; j++) {
        struct span at = visible(p, t, j);
        n_pairs += at.to - at.from;
        if (gathered) memcpy(q + j * d, query_row(p, t, j, s->q), d * sizeof *q);
    }
    size_t row = cache_row(p, t->sequence, t->layer, t->kv_head) + t->first_pos * d;
    struct bn_keys k = {t->sequence->k_cache + row, last.to - t->first_pos, d};
    struct bn_brick_timer part = part_begin(p, BN_BRICK_ATTENTION_SCORE);
    kernel_begin(p);
    p->kernels->attn_scores(t->scores, ld, q, d, t->n, &k, hp->attn_scale);
    kernel_end(p, BN_KERNEL_ATTN_SCORES, n_bytes, shape(n_pairs, d, 1));
    brick_end(part, n_pairs);
    part = part_begin(p, BN_BRICK_ATTENTION_SOFTMAX);
    kernel_begin(p);
    for (size_t j = 0; j < t->n; j++) {
        struct span at = visible(p, t, j);
        p->kernels->softmax(t->scores + j * ld + at.from - t->first_pos, at.to - at.from);
    }
    kernel_end(p, BN_KERNEL_SOFTMAX, 0, shape(n_pairs, 1, 1));
    brick_end(part, n_pairs);
    part = part_begin(p, BN_BRICK_ATTENTION_OUTPUT);
    kernel_begin(p);
    attend_values(p, t, y);
    kernel_end(p, BN_KERNEL_ATTN_VALUES, n_bytes, shape(n_pairs, d, 1));
    for (size_t j = 0; gathered && j < t->n; j++)
        memcpy(query_row(p, t, j, s->att), y + j * d, d * sizeof *y);
    brick_end(part, t->n * d);
}

/* The tile that begins with a query, of at most n. Queries are counted over the KV heads of this rank. */
static struct tile tile_at(const struct pass *p, uint32_t layer, size_t query, size_t n)
{
    const struct bn_row *rows = p->s->rows;
    size_t group = group_of(p), of_head = p->n * group, first = query % of_head, token = first / group;
    struct tile t = {layer,
                     p->m->kv_heads.first + query / of_head,
                     first,
                     group - first % group,
                     rows[token].sequence,
                     NULL,
                     0};
    size_t most = bn_min_size(bn_min_size(n, of_head - first), BN_QUERIES);
    while (t.n < most && rows[(first + t.n) / group].sequence == t.sequence)
        t.n += group;
    t.n = bn_min_size(t.n, most);
    t.scores = p->s->scores + (size_t)p->thread * BN_QUERIES * bn_score_row(p->s);
    t.first_pos = visible(p, &t, 0).from / BN_KEY_TILE * BN_KEY_TILE;
    return t;
}

/* What came out of a thread's heads times the sigmoid of their gates. */
static void gate_heads(const struct pass *p, size_t from, size_t to)
{
    size_t d = p->m->hp.head_dim, group = group_of(p), of_head = p->n * group;
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_HEAD_GATE);
    for (size_t i = from; i < to; i++) {
        size_t token = i % of_head / group, head = (p->m->kv_heads.first + i / of_head) * group + i % group;
        float *y = p->s->att + (token * p->m->hp.n_head + head) * d;
        p->kernels->sigmoid_mul(y, y, gated_row(p, token, head, true), d);
    }
    stage_end(p, brick, BN_KERNEL_SIGMOID_MUL, 0, shape(to - from, d, 1));
}

static void attend_queries(const struct pass *p, uint32_t layer, size_t from, size_t to)
{
    while (from < to) {
        struct tile t = tile_at(p, layer, from, to - from);
        attend(p, &t);
        from += t.n;
    }
}

/* Causal attention for this thread's queries; query heads share the KV heads in equal groups. A thread and the next
 * may share a KV head: it is the first of both, so that its cache is read from memory once. */
static void attention(const struct pass *p, uint32_t layer)
{
    size_t from, to, of_head = p->n * group_of(p);
    my_share(p, p->m->kv_heads.n * of_head, 1, &from, &to);
    size_t shared = p->thread % 2 == 0 ? to / of_head * of_head : from;
    if (shared < from) shared = from;
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_ATTENTION);
    attend_queries(p, layer, shared, to);
    attend_queries(p, layer, from, shared);
    brick_end(brick, (to - from) * p->m->hp.head_dim);
    if (p->m->hp.gated_heads) gate_heads(p, from, to);
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
    } PARTS[] = {{&l->q, p->m->hp.gated_heads ? s->mix : s->q, "attn_q_norm_in", "q"},
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
        bn_trace_layer(p, PARTS[i].op, n, PARTS[i].out, PARTS[i].lin->rows);
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
    meet_ranks(p, s->att, l->o.k, bn_model_query_grain(p->m));
    bn_prepare_inputs(p, hp->sub_norms ? "attn_sub_norm" : "attn_output_norm_in", n, s->att, s->norm, &l->o);
    bn_project_all(p, BN_BRICK_OUTPUT_PROJECTION, &l->o, s->y);
    bn_trace_layer(p, "attn_o", n, s->y, hp->n_embd);
    bn_add_residual(p, "post_attention_norm", n, l->post_attn_norm);
    bn_trace_layer(p, "attn_res", n, s->x, hp->n_embd);
    meet(p);
}
