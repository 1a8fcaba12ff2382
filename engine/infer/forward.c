/* SPDX-License-Identifier: MIT
 *
 * The forward pass: one batch of tokens through all layers, by a team of threads in one parallel region.
 *
 * The graph (BitNet b1.58; Ma et al. 2024, and the C++ reference). For each layer, on every row x of the
 * batch:
 *
 *     h = rmsnorm(x) * attn_norm;  q, k, v = Wq h, Wk h, Wv h
 *     qwen3: every head of q and k = rmsnorm(head) * attn_q_norm, attn_k_norm
 *     rope on q and k;  k, v to the cache as binary16
 *     a = rmsnorm(attention(q, cache)) * attn_sub_norm;  x = x + Wo a
 *     h = rmsnorm(x) * ffn_norm;  m = act(Wgate h) * (Wup h)
 *     m = rmsnorm(m) * ffn_sub_norm;  x = x + Wdown m
 *
 * then logits = head (rmsnorm(x) * output_norm). act is the squared ReLU or SiLU; `llama` and
 * `qwen3` have no sub-norms.
 *
 * Every stage divides rows of the batch, heads, or rows of a matrix among the threads, never a sum, and ends
 * with a barrier where another thread's results are read next. So neither the number of threads nor the size
 * of the batch can change a bit (docs/explain/numerics.md).
 */
#include <math.h>

#include "base/error.h"
#include "base/team.h"
#include "infer/pass.h"
#include "infer/screen.h"
#include "model/rows.h"

/* Passes an intermediate to the session's trace callback, if there is one, after all threads have written it.
 */
static void trace_rows(const struct pass *p, const char *op, int32_t layer, const float *data, size_t first,
                       size_t n, size_t cols)
{
    if (p->s->trace == NULL) return;
    meet(p);
    if (p->thread == 0) {
        bn_trace_record record = {op, layer, p->s->position + (uint32_t)first, n, cols, data};
        p->s->trace(p->s->trace_user, &record);
    }
    meet(p);
}

static void trace(const struct pass *p, const char *op, uint32_t layer, const float *data, size_t cols)
{
    trace_rows(p, op, (int32_t)layer, data, 0, p->n, cols);
}

/* ---- stages ---- */

static void embed(const struct pass *p)
{
    const struct bn_matrix *e = &p->m->embd;
    size_t from, to;
    my_share(p, p->n, 1, &from, &to);
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_EMBEDDING);
    kernel_begin(p);
    for (size_t j = from; j < to; j++) {
        float *x = p->s->x + j * e->k;
        bn_matrix_row(p->kernels, e, (size_t)p->s->run.tokens[j], x);
        if (p->m->embd_rotation.block != 0) bn_rotate(&p->m->embd_rotation, x, e->k, true);
        if (!bn_all_finite(x, e->k)) p->s->run.bad_row = true;
    }
    if (bn_matrix_slot(e) != BN_KERNEL_COUNT)
        kernel_end(p, bn_matrix_slot(e), (to - from) * e->row_bytes, shape(to - from, e->k, 1));
    brick_end(brick, (to - from) * e->k);
}

void bn_quantize_row16(const struct pass *p, size_t j, const float *x, size_t width, size_t group,
                       bool finite)
{
    struct bn_session *s = p->s;
    size_t padded = bn_act_padded(width), n_groups = padded / BN_MIN_GROUP;
    int8_t *high = s->act_q + j * padded, *low = s->act_low + j * padded;
    float *step = s->act_step + j * n_groups;
    int32_t *sum = s->act_sum + j * n_groups;
    s->act16[j] = (struct bn_act16){high, low, step, sum};
    if (finite) {
        p->kernels->quantize16(high, low, step, sum, x, width, group);
    } else {
        memset(high, 0, width);
        memset(low, 0, width);
        memset(sum, 0, n_groups * sizeof *sum);
        for (size_t g = 0; g < n_groups; g++)
            step[g] = 1.0f;
    }
}

/* Row j of int8 for weights in tiles: in the low plane, with the step 1. */
static void put_narrow_row(const struct pass *p, size_t j, size_t width)
{
    struct bn_session *s = p->s;
    size_t padded = bn_act_padded(width), n_groups = padded / BN_MIN_GROUP, group = p->m->group;
    int8_t *q = s->act_q + j * padded, *low = s->act_low + j * padded;
    float *step = s->act_step + j * n_groups;
    int32_t *sum = s->act_sum + j * n_groups;
    memset(sum, 0, n_groups * sizeof *sum);
    for (size_t i = 0; i < width; i++) {
        low[i / 16 * 16 + i % 4 * 4 + i % 16 / 4] = q[i];
        sum[i / group] += q[i];
    }
    for (size_t g = 0; g < n_groups; g++)
        step[g] = 1.0f;
    memset(q, 0, width); /* the high plane */
    s->act16[j] = (struct bn_act16){q, low, step, sum};
}

/* One row of activations. Rows that are not finite end the evaluation with an error; until then they are zero,
 * since the kernels that follow count on sums that a row of int8 can have. */
static void quantize_row(const struct pass *p, size_t j, const float *x, size_t width, bool finite)
{
    if (p->m->wide) {
        bn_quantize_row16(p, j, x, width, p->m->group, finite);
        return;
    }
    struct bn_act *act = &p->s->act[j];
    int8_t *q = p->s->act_q + j * bn_act_padded(width);
    act->q = q;
    memset(q + width, 0, bn_act_padded(width) - width);
    if (finite) {
        p->kernels->quantize(q, &act->scale, &act->sum, x, width);
    } else {
        memset(q, 0, width);
        act->scale = 1.0f;
        act->sum = 0;
    }
    if (p->m->group != 0) put_narrow_row(p, j, width);
}

/* A row of activations, rotated in a row of this thread's own when the layer wants it. */
static const float *rotated(const struct pass *p, const struct bn_linear *next, const float *x, size_t width)
{
    if (next->rotation.block == 0) return x;
    float *row = p->s->rotated + (size_t)p->thread * bn_act_padded(width);
    memcpy(row, x, width * sizeof *row);
    bn_rotate(&next->rotation, row, width, false);
    return row;
}

/* The first row of the normalised activations that this thread reads: a single token is normalised and
 * quantised by every thread for itself, which is sooner done than waiting for one that does it for all. */
static size_t own_row(const struct pass *p)
{
    return p->n == 1 ? p->thread : 0;
}

/* Normalises rows (when there is a weight), rotates them for `next`, the layer that follows, and quantises them.
 * The layers that read them may be called at once. */
static void norm_quantize(const struct pass *p, const char *op, uint32_t layer, const float *in, size_t width,
                          const float *weight, const struct bn_linear *next)
{
    struct bn_session *s = p->s;
    size_t own = own_row(p), from = 0, to = 1;
    if (p->n > 1) my_share(p, p->n, 1, &from, &to);
    struct bn_prof_shape work = shape(p->n > 1 || p->thread == 0 ? to - from : 0, width, 1);
    const float *normed = in;
    if (weight != NULL) {
        normed = s->norm + own * width;
        struct bn_brick_timer brick = stage_begin(p, BN_BRICK_RMS_NORM);
        for (size_t j = from; j < to; j++)
            p->kernels->rmsnorm(s->norm + (own + j) * width, in + j * width, weight, width, p->m->hp.rms_eps);
        stage_end(p, brick, BN_KERNEL_RMSNORM, 0, work);
        trace(p, op, layer, s->norm, width);
    }
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_ACTIVATION_QUANTIZE);
    bool finite = bn_all_finite(normed + from * width, (to - from) * width);
    if (!finite) s->run.bad_row = true;
    kernel_begin(p);
    for (size_t j = from; j < to; j++)
        quantize_row(p, own + j, rotated(p, next, normed + j * width, width), width, finite);
    kernel_end(p, p->m->wide ? BN_KERNEL_QUANTIZE16 : BN_KERNEL_QUANTIZE, 0, work);
    brick_end(brick, (uint64_t)work.rows * work.cols * work.n);
    if (p->n > 1) meet(p);
}

static void multiply(const struct pass *p, enum bn_kernel slot, const struct bn_ternary *w,
                     const struct bn_act *act, float *y, size_t ldy)
{
    if (slot == BN_KERNEL_T5_GEMV)
        p->kernels->t5_gemv(y, w, act);
    else if (slot == BN_KERNEL_TQ2_GEMV)
        p->kernels->tq2_gemv(y, w, act);
    else if (slot == BN_KERNEL_I2S_GEMV)
        p->kernels->i2s_gemv(y, w, act);
    else if (slot == BN_KERNEL_TQ2_GEMM)
        p->kernels->tq2_gemm(y, ldy, w, act, p->n);
    else
        p->kernels->i2s_gemm(y, ldy, w, act, p->n);
}

/* The slot for a linear layer that is not in tiles. */
static enum bn_kernel slot_of(const struct bn_linear *lin, bool single, bool packed)
{
    if (packed) return BN_KERNEL_T5_GEMV;
    if (lin->form == BN_FORM_TQ2) return single ? BN_KERNEL_TQ2_GEMV : BN_KERNEL_TQ2_GEMM;
    return single ? BN_KERNEL_I2S_GEMV : BN_KERNEL_I2S_GEMM;
}

/* y = W act for this thread's rows of W. Returns the number of values. */
static size_t linear(const struct pass *p, const struct bn_linear *lin, float *y)
{
    size_t from, to, ldy = lin->w.rows;
    my_share(p, lin->w.rows, BN_ROW_GRAIN, &from, &to);
    bool single = p->n == 1, packed = single && lin->packed.codes != NULL;
    struct bn_ternary part = packed ? lin->packed : lin->w;
    enum bn_kernel slot = slot_of(lin, single, packed);
    part.rows = to - from;
    kernel_begin(p);
    if (lin->form == BN_FORM_GROUPED) {
        struct bn_grouped tiles = bn_grouped_part(&lin->grouped, from, to);
        slot = multiply_grouped(p, &tiles, p->s->act16 + own_row(p), y + from, ldy, p->n);
    } else if (part.rows > 0) {
        part.codes += from * part.row_bytes;
        multiply(p, slot, &part, p->s->act + own_row(p), y + from, ldy);
    }
    kernel_end(p, slot, part.rows * part.row_bytes, shape(part.rows, lin->k, p->n));
    bool unscaled = lin->form == BN_FORM_GROUPED && !p->m->wide; /* int8 activations: their scale is left */
    for (size_t j = 0; unscaled && j < p->n; j++)
        for (size_t r = from; r < to; r++)
            y[j * ldy + r] /= p->s->act[own_row(p) + j].scale;
    for (size_t j = 0; lin->has_extra_scale && j < p->n; j++)
        for (size_t r = from; r < to; r++)
            y[j * ldy + r] *= lin->extra_scale;
    return part.rows * p->n;
}

/* The same as a brick of its own. */
static void project(const struct pass *p, enum bn_brick brick, const struct bn_linear *lin, float *y)
{
    struct bn_brick_timer timer = brick_begin(p, brick);
    brick_end(timer, linear(p, lin, y));
}

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

/* Rotates q and k, and stores k and v, for this thread's (token, head) pairs. */
static void rope_and_store(const struct pass *p, uint32_t layer)
{
    struct bn_session *s = p->s;
    const bn_hparams *hp = &p->m->hp;
    size_t d = hp->head_dim, half = hp->n_rot / 2, n_kv = hp->n_head_kv, n_heads = hp->n_head + n_kv;
    size_t from, to, n_stored = 0;
    bool neox = hp->rope == BN_ROPE_NEOX;
    void (*rotate)(float *, const float *, const float *, size_t) =
        neox ? p->kernels->rope_neox : p->kernels->rope_norm;
    my_share(p, p->n * n_heads, 1, &from, &to);
    if (hp->head_norms) norm_heads(p, layer, from, to);
    struct bn_brick_timer rope = stage_begin(p, BN_BRICK_ROPE_EMBEDDING);
    for (size_t i = from; i < to; i++) {
        size_t at = (s->position + i / n_heads) * half;
        float *row = head_row(p, i);
        rotate(row, s->rope_cos + at, s->rope_sin + at, hp->n_rot);
    }
    stage_end(p, rope, neox ? BN_KERNEL_ROPE_NEOX : BN_KERNEL_ROPE_NORM, 0, shape(to - from, hp->n_rot, 1));
    struct bn_brick_timer store = stage_begin(p, BN_BRICK_KV_STORE);
    for (size_t i = from; i < to; i++) {
        size_t token = i / n_heads, head = i % n_heads;
        if (head < hp->n_head) continue;
        size_t kv = head - hp->n_head, row = (token * n_kv + kv) * d;
        size_t at = ((layer * n_kv + kv) * s->n_ctx + s->position + token) * d;
        p->kernels->f32_to_f16(s->k_cache + at, s->k + row, d);
        p->kernels->f32_to_f16(s->v_cache + at, s->v + row, d);
        n_stored++;
    }
    stage_end(p, store, BN_KERNEL_F32_TO_F16, n_stored * d * 4, shape(n_stored, d, 2));
    trace(p, "q_rope", layer, s->q, hp->n_head * d);
    trace(p, "k_rope", layer, s->k, n_kv * d);
}

/* n query heads of one token that share a KV head, from the head'th on: scores, softmax, values. */
static void attend(const struct pass *p, uint32_t layer, size_t token, size_t head, size_t n)
{
    struct bn_session *s = p->s;
    const bn_hparams *hp = &p->m->hp;
    size_t d = hp->head_dim, n_pos = s->position + token + 1, row = (token * hp->n_head + head) * d;
    size_t kv_head = head / (hp->n_head / hp->n_head_kv),
           at = (layer * hp->n_head_kv + kv_head) * s->n_ctx * d;
    struct bn_kv k = {s->k_cache + at, d, n_pos, d}, v = {s->v_cache + at, d, n_pos, d};
    float *scores = s->scores + (size_t)p->thread * BN_QUERIES * s->n_ctx;
    struct bn_brick_timer part = part_begin(p, BN_BRICK_ATTENTION_SCORE);
    kernel_begin(p);
    p->kernels->attn_scores(scores, s->n_ctx, s->q + row, d, n, &k, 1.0f / sqrtf((float)d));
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

/* act = f(gate) * up, by the shares in which linear wrote gate and up: no barrier is needed between. */
static void activate(const struct pass *p)
{
    size_t ff = p->m->hp.n_ff, from, to;
    bool relu2 = p->m->hp.activation == BN_ACTIVATION_RELU2;
    my_share(p, ff, BN_ROW_GRAIN, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_ACTIVATION);
    for (size_t j = 0; j < p->n; j++) {
        float *gate = p->s->gate + j * ff + from;
        (relu2 ? p->kernels->relu2_mul : p->kernels->silu_mul)(gate, gate, p->s->up + j * ff + from,
                                                               to - from);
    }
    stage_end(p, brick, relu2 ? BN_KERNEL_RELU2_MUL : BN_KERNEL_SILU_MUL, 0, shape(1, to - from, p->n));
}

/* x += y, by the shares in which linear wrote y: no barrier is needed between. */
static void add_residual(const struct pass *p)
{
    size_t width = p->m->hp.n_embd, from, to;
    my_share(p, width, BN_ROW_GRAIN, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_RESIDUAL_ADD);
    for (size_t j = 0; j < p->n; j++)
        p->kernels->add(p->s->x + j * width + from, p->s->y + j * width + from, to - from);
    stage_end(p, brick, BN_KERNEL_ADD, 0, shape(1, to - from, p->n));
}

static void layer_attention(const struct pass *p, uint32_t n)
{
    struct bn_session *s = p->s;
    const struct bn_layer *l = &p->m->layers[n];
    size_t embd = p->m->hp.n_embd;
    norm_quantize(p, "attn_norm", n, s->x, embd, l->attn_norm, &l->q);
    struct bn_brick_timer qkv = brick_begin(p, BN_BRICK_QKV_PROJECTION);
    size_t n_made = linear(p, &l->q, s->q);
    n_made += linear(p, &l->k, s->k);
    n_made += linear(p, &l->v, s->v);
    brick_end(qkv, n_made);
    trace(p, "q", n, s->q, l->q.w.rows);
    trace(p, "k", n, s->k, l->k.w.rows);
    trace(p, "v", n, s->v, l->v.w.rows);
    meet(p);
    rope_and_store(p, n);
    meet(p);
    attention(p, n);
    trace(p, "attn_out", n, s->att, l->q.w.rows);
    meet(p);
    norm_quantize(p, "attn_sub_norm", n, s->att, l->q.w.rows, l->attn_sub_norm, &l->o);
    project(p, BN_BRICK_OUTPUT_PROJECTION, &l->o, s->y);
    trace(p, "attn_o", n, s->y, embd);
    add_residual(p);
    trace(p, "attn_res", n, s->x, embd);
    meet(p);
}

static void layer_ffn(const struct pass *p, uint32_t n)
{
    struct bn_session *s = p->s;
    const struct bn_layer *l = &p->m->layers[n];
    size_t embd = p->m->hp.n_embd, ff = p->m->hp.n_ff;
    norm_quantize(p, "ffn_norm", n, s->x, embd, l->ffn_norm, &l->gate);
    project(p, BN_BRICK_GATE_PROJECTION, &l->gate, s->gate);
    project(p, BN_BRICK_UP_PROJECTION, &l->up, s->up);
    trace(p, "gate", n, s->gate, ff);
    trace(p, "up", n, s->up, ff);
    activate(p);
    trace(p, "ffn_act", n, s->gate, ff);
    meet(p);
    norm_quantize(p, "ffn_sub_norm", n, s->gate, ff, l->ffn_sub_norm, &l->down);
    project(p, BN_BRICK_DOWN_PROJECTION, &l->down, s->y);
    trace(p, "down", n, s->y, embd);
    add_residual(p);
    trace(p, "ffn_res", n, s->x, embd);
    meet(p);
}

static void final_norm(const struct pass *p)
{
    struct bn_session *s = p->s;
    size_t embd = p->m->hp.n_embd, n = p->n - s->run.head_at, from, to;
    my_share(p, n, 1, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_RMS_NORM);
    for (size_t j = from; j < to; j++) {
        float *hidden = s->hidden + j * embd;
        p->kernels->rmsnorm(hidden, s->x + (s->run.head_at + j) * embd, p->m->output_norm, embd,
                            p->m->hp.rms_eps);
        bool finite = bn_all_finite(hidden, embd);
        if (!finite) s->run.bad_row = true;
        if (p->m->head_linear.w.rows != 0)
            bn_quantize_row16(p, j, rotated(p, &p->m->head_linear, hidden, embd), embd,
                              p->m->head_linear.grouped.group, finite);
    }
    stage_end(p, brick, BN_KERNEL_RMSNORM, 0, shape(to - from, embd, 1));
    trace_rows(p, "output_norm", -1, s->hidden, s->run.head_at, n, embd);
}

/* ---- the pass ---- */

static void run(void *arg, unsigned thread, unsigned n_threads)
{
    struct bn_session *s = arg;
    struct pass pass = pass_of(s, thread, n_threads);
    const struct pass *p = &pass;
    if (thread == 0) brick_end(s->run.team, 0);
    uint64_t t0 = bn_clock_ns();
    embed(p);
    trace_rows(p, "embd", -1, s->x, 0, p->n, p->m->hp.n_embd);
    meet(p);
    uint64_t t1 = bn_clock_ns();
    for (uint32_t n = 0; n < p->m->hp.n_layer; n++) {
        struct bn_brick_timer layer = layer_begin(&pass, n);
        layer_attention(p, n);
        layer_ffn(p, n);
        layer_end(&pass, layer);
    }
    uint64_t t2 = bn_clock_ns();
    if (s->run.head_at < p->n) {
        final_norm(p);
        meet(p);
        if (bn_screen_wanted(s))
            bn_screen_head(p);
        else
            bn_head(p);
        trace_rows(p, "logits", -1, s->run.logits, s->run.head_at, p->n - s->run.head_at, p->m->head.rows);
        meet(p);
    }
    if (thread == 0) {
        s->timing.embed_ns += t1 - t0;
        s->timing.layers_ns += t2 - t1;
        s->timing.head_ns += bn_clock_ns() - t2;
        s->run.team = brick_begin(p, BN_BRICK_TEAM);
    }
}

bn_status bn_forward(struct bn_session *s, const int32_t *tokens, size_t n, size_t head_at, size_t n_best,
                     float *logits, bn_error *err)
{
    s->run.tokens = tokens;
    s->run.n = n;
    s->run.head_at = head_at;
    s->run.logits = logits;
    s->run.n_best = n_best;
    s->run.n_rescored = 0;
    s->run.bad_row = false;
    bn_prof_begin_pass(s->prof, s->position, (uint32_t)n, (uint32_t)(n - head_at));
    s->run.team = bn_prof_start_brick(s->prof, BN_BRICK_TEAM);
    bn_team_run(s->team, run, s);
    bn_prof_stop_brick(s->run.team, 0);
    bn_prof_end_pass(s->prof);
    if (s->run.bad_row) {
        bn_fail(err, BN_ERR_FORMAT, "activations are not finite at position %u or after it", s->position);
        bn_error_hint(err, "the model's weights are damaged");
        return BN_ERR_FORMAT;
    }
    if (n > head_at && n_best > 0) bn_screen_account(s);
    s->n_hidden = n - head_at;
    s->position += (uint32_t)n;
    return BN_OK;
}
