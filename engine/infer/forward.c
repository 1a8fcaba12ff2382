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
 * then logits = head (rmsnorm(x) * output_norm). act is the squared ReLU, SiLU or GELU; attn_sub_norm and
 * ffn_sub_norm are in the BitNet architectures. Stages of some models:
 *
 *     norms of inputs (attn_q_norm_in, ...): each linear layer normalises its own inputs
 *     gemma3: x * sqrt(n_embd) at the start; Wo a and Wdown m are normalised before the sums (post_attention_norm,
 *         post_ffw_norm); local layers attend to the last positions only and rotate with another base
 *     minicpm: the embedding, Wo a, Wdown m and the logits are multiplied by constants
 *     maple: a router chooses some of many feed-forward parts for each token (experts.c); only local layers rotate
 *
 * Every stage divides rows of the batch, heads, or rows of a matrix among the threads, never a sum, and ends
 * with a barrier where another thread's results are read next. So neither the number of threads nor the size
 * of the batch can change a bit (docs/explain/numerics.md).
 */
#include "base/error.h"
#include "base/team.h"
#include "infer/exchange.h"
#include "infer/pass.h"
#include "model/weights.h"

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
        bn_matrix_row(p->kernels, e, (size_t)p->s->rows[j].token, x);
        if (p->m->embd_rotation.block != 0)
            p->kernels->rotate(x, p->m->embd_rotation.signs, e->k, p->m->embd_rotation.block, true);
        for (size_t i = 0; p->m->hp.embd_scale != 1.0f && i < e->k; i++)
            x[i] *= p->m->hp.embd_scale;
        if (!bn_all_finite(x, e->k)) p->s->run.bad_row = true;
    }
    struct bn_prof_shape work = counted_once(p, shape(to - from, e->k, 1));
    if (bn_matrix_slot(e) != BN_KERNEL_COUNT)
        kernel_end(p, bn_matrix_slot(e), work.rows * e->row_bytes, work);
    brick_end(brick, (to - from) * e->k);
    tell_dispatch(p, e, bn_matrix_slot(e));
}

static void final_norm(const struct pass *p)
{
    struct bn_session *s = p->s;
    size_t embd = p->m->hp.n_embd, n = s->run.n_wanted, from, to;
    my_share(p, n, 1, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_RMS_NORM);
    for (size_t j = from; j < to; j++) {
        float *hidden = s->hidden + j * embd;
        p->kernels->rmsnorm(hidden, s->x + s->wanted[j] * embd, p->m->output_norm, embd, p->m->hp.rms_eps);
        bool finite = bn_all_finite(hidden, embd);
        if (!finite) s->run.bad_row = true;
        if (p->m->head_linear.rows != 0)
            bn_quantize_row16(p, j, bn_rotated(p, &p->m->head_linear, hidden, embd), embd,
                              p->m->head_linear.w.group, finite);
    }
    stage_end(p, brick, BN_KERNEL_RMSNORM, 0, counted_once(p, shape(to - from, embd, 1)));
    bn_trace_rows(p, "output_norm", -1, s->hidden, s->wanted, n, embd);
}

static void head(const struct pass *p)
{
    struct bn_session *s = p->s;
    if (bn_screen_wanted(s))
        bn_screen_head(p);
    else
        bn_head(p);
    bn_trace_rows(p, "logits", -1, s->run.logits, s->wanted, s->run.n_heads, p->m->head.rows);
    if (p->m->ranks == NULL)
        meet(p);
    else
        bn_exchange_logits(p);
}

/* ---- the pass ---- */

/* All that the CPU does of a pass on a device. */
static void run_embed(void *arg, unsigned thread, unsigned n_threads)
{
    const struct pass p = pass_of(arg, thread, n_threads);
    embed(&p);
    bn_trace_rows(&p, "embd", -1, p.s->x, NULL, p.n, p.m->hp.n_embd);
}

static bn_status run_on_device(struct bn_session *s, bn_error *err)
{
    uint64_t start = bn_clock_ns();
    brick_end(s->run.team, 0);
    bn_team_run(s->team, run_embed, s);
    s->timing.embed_ns += bn_clock_ns() - start;
    bn_status status = bn_device_pass(s, err);
    struct bn_prof_trail *trail = bn_prof_trail(s->prof, 0);
    s->run.team = bn_prof_start(trail, BN_BRICK_TEAM);
    if (bn_prof_wanted(trail) &&
        trail->n > 0) /* also the wait for results, from the end of the last kernel on */
        trail->open[trail->depth - 1].begin = trail->events[trail->n - 1].end;
    return status;
}

static void run(void *arg, unsigned thread, unsigned n_threads)
{
    struct bn_session *s = arg;
    struct pass pass = pass_of(s, thread, n_threads);
    const struct pass *p = &pass;
    if (thread == 0) brick_end(s->run.team, 0);
    uint64_t t0 = bn_clock_ns();
    embed(p);
    bn_trace_rows(p, "embd", -1, s->x, NULL, p->n, p->m->hp.n_embd);
    meet(p);
    uint64_t t1 = bn_clock_ns();
    for (uint32_t n = 0; n < p->m->hp.n_layer; n++) {
        struct bn_brick_timer layer = layer_begin(&pass, n);
        (p->m->layers[n].is_recurrent ? bn_layer_recurrent : bn_layer_attention)(p, n);
        (p->m->hp.experts.n != 0 ? bn_layer_experts : bn_layer_ffn)(p, n);
        layer_end(&pass, layer);
    }
    uint64_t t2 = bn_clock_ns();
    if (s->run.n_wanted > 0) {
        final_norm(p);
        meet(p);
        if (s->run.logits != NULL && s->run.n_heads > 0) head(p);
    }
    if (thread == 0) {
        s->timing.embed_ns += t1 - t0;
        s->timing.layers_ns += t2 - t1;
        s->timing.head_ns += bn_clock_ns() - t2;
        s->run.team = brick_begin(p, BN_BRICK_TEAM);
    }
}

void bn_batch_start(struct bn_session *s)
{
    bn_record_forget(&s->recording);
    s->run.n = 0;
    s->run.n_wanted = s->run.n_heads = 0;
    s->n_hidden = 0;
}

void bn_batch_add(struct bn_session *s, struct bn_sequence *sequence, const int32_t *tokens, size_t n,
                  size_t first_wanted)
{
    for (size_t i = 0; i < n; i++) {
        if (i >= first_wanted) s->wanted[s->run.n_wanted++] = (uint32_t)s->run.n;
        s->rows[s->run.n++] = (struct bn_row){sequence, sequence->position + (uint32_t)i, tokens[i]};
    }
    s->run.n_heads = s->run.n_wanted;
}

/* Calls a function for each sequence of the batch with its number of tokens. */
static void for_sequences(struct bn_session *s, void (*call)(struct bn_sequence *sequence, uint32_t n))
{
    for (size_t j = 0, n; j < s->run.n; j += n) {
        for (n = 1; j + n < s->run.n && s->rows[j + n].sequence == s->rows[j].sequence;)
            n++;
        call(s->rows[j].sequence, (uint32_t)n);
    }
}

/* After a pass: the sequences and the counters move on. */
static void account(struct bn_session *s, size_t n_logits)
{
    uint32_t window = s->model->hp.window;
    for (size_t j = 0; j < s->run.n; j++) {
        uint32_t n_pos = s->rows[j].position + 1;
        struct bn_sequence *sequence = s->rows[j].sequence;
        sequence->position = n_pos;
        sequence->tokens[n_pos - 1] = s->rows[j].token;
        s->work.attended += n_pos;
        if (window != 0) s->work.attended_local += n_pos < window ? n_pos : window;
    }
    for_sequences(s, bn_sequence_end_pass);
    s->work.passes++;
    s->work.single += s->run.n == 1;
    s->work.tokens += s->run.n;
    s->work.head_passes += n_logits > 0;
    s->work.heads += n_logits;
    s->work.skipped_rows += s->run.skipped_rows;
    s->work.skipped_columns += s->run.skipped_columns;
    s->work.experts += s->run.n_experts;
}

bn_status bn_forward(struct bn_session *s, size_t n_best, float *logits, bn_error *err)
{
    size_t n_logits = logits != NULL ? s->run.n_heads : 0;
    s->run.logits = logits;
    s->run.n_best = n_best;
    s->run.n_rescored = 0;
    s->run.skipped_rows = s->run.skipped_columns = 0;
    s->run.n_experts = 0;
    s->run.bad_row = false;
    if (s->link != NULL) BN_TRY(bn_lead_pass(s, err));
    for_sequences(s, bn_sequence_begin_pass);
    bn_prof_begin_pass(s->prof, s->rows[0].position, (uint32_t)s->run.n, (uint32_t)n_logits);
    s->run.team = bn_prof_start(bn_prof_trail(s->prof, 0), BN_BRICK_TEAM);
    bn_status status = BN_OK;
    if (s->on_device != NULL)
        status = run_on_device(s, err);
    else
        bn_team_run(s->team, run, s);
    bn_prof_stop(s->run.team, 0);
    bn_prof_end_pass(s->prof);
    BN_TRY(bn_session_check_link(s, err));
    if (status != BN_OK || s->run.bad_row) for_sequences(s, bn_sequence_fail_pass);
    BN_TRY(status);
    if (s->run.bad_row) {
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "activations are not finite at position %u or after it",
                               s->rows[0].position),
                       err, "the model's weights are damaged");
    }
    if (n_logits > 0 && n_best > 0) bn_screen_account(s);
    s->n_hidden = s->run.n_wanted;
    account(s, n_logits);
    return BN_OK;
}

void bn_forward_again(struct bn_sequence *sequence, uint32_t first, uint32_t n_tokens)
{
    struct bn_session *s = sequence->session;
    struct bn_counters counters = s->counters[0];
    struct bn_prof *prof = s->prof;
    bn_trace_fn trace = s->trace;
    if (n_tokens == first + sequence->place.n_tried) return;
    bn_device_restore_state(sequence);
    s->run.n = s->run.n_wanted = s->run.n_heads = 0;
    s->run.logits = NULL;
    s->run.team = (struct bn_brick_timer){0};
    s->trace = NULL;
    s->prof = NULL;
    for (uint32_t at = first; at < n_tokens; at++)
        s->rows[s->run.n++] = (struct bn_row){sequence, at, sequence->tokens[at]};
    if (s->run.n > 0) (void)!run_on_device(s, NULL);
    s->counters[0] = counters;
    s->trace = trace;
    s->prof = prof;
}

/* ---- the second half of a layer ---- */

/* act = f(gate) * up, by the shares in which linear wrote gate and up: no barrier is needed between. */
static void activate(const struct pass *p, const struct bn_linear *lin)
{
    static const enum bn_kernel SLOTS[] = {[BN_ACTIVATION_RELU2] = BN_KERNEL_RELU2_MUL,
                                           [BN_ACTIVATION_SILU] = BN_KERNEL_SILU_MUL,
                                           [BN_ACTIVATION_GELU] = BN_KERNEL_GELU_MUL};
    size_t ff = p->m->hp.n_ff, from, to;
    bn_activation act = p->m->hp.activation;
    void (*multiply)(float *, const float *, const float *, size_t) =
        act == BN_ACTIVATION_RELU2  ? p->kernels->relu2_mul
        : act == BN_ACTIVATION_SILU ? p->kernels->silu_mul
                                    : p->kernels->gelu_mul;
    my_share(p, lin->w.rows, BN_ROW_GRAIN, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_ACTIVATION);
    for (size_t j = 0; j < p->n; j++) {
        float *gate = p->s->gate + j * ff + lin->first + from;
        multiply(gate, gate, p->s->up + j * ff + lin->first + from, to - from);
    }
    stage_end(p, brick, SLOTS[act], 0, shape(1, to - from, p->n));
}

void bn_layer_ffn(const struct pass *p, uint32_t n)
{
    struct bn_session *s = p->s;
    const struct bn_layer *l = &p->m->layers[n];
    const bn_hparams *hp = &p->m->hp;
    const float *inputs = bn_norm_rows(p, "ffn_norm", n, s->x, s->norm, l->ffn_norm, hp->n_embd);
    bn_prepare_inputs(p, "ffn_gate_norm_in", n, inputs, s->norm_in, &l->gate);
    bn_project(p, BN_BRICK_GATE_PROJECTION, &l->gate, s->gate);
    if (l->up.input_norm != NULL) bn_next_inputs(p, "ffn_up_norm_in", n, inputs, &l->up);
    struct pass gated = *p;
    if (hp->activation == BN_ACTIVATION_RELU2) gated.gate = s->gate;
    bn_project(&gated, BN_BRICK_UP_PROJECTION, &l->up, s->up);
    bn_trace_layer(p, "gate", n, s->gate, hp->n_ff);
    bn_trace_layer(p, "up", n, s->up, hp->n_ff);
    activate(p, &l->gate);
    bn_trace_layer(p, "ffn_act", n, s->gate, hp->n_ff);
    meet_ranks(p, s->gate, hp->n_ff, BN_ROW_GRAIN);
    bn_prepare_inputs(p, hp->sub_norms ? "ffn_sub_norm" : "ffn_down_norm_in", n, s->gate, s->norm, &l->down);
    bn_project_all(p, BN_BRICK_DOWN_PROJECTION, &l->down, s->y);
    bn_trace_layer(p, "down", n, s->y, hp->n_embd);
    bn_add_residual(p, "post_ffw_norm", n, l->post_ffn_norm);
    bn_trace_layer(p, "ffn_res", n, s->x, hp->n_embd);
    meet(p);
}
