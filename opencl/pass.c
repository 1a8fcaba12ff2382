/* SPDX-License-Identifier: MIT
 *
 * The forward pass on a device: the stages of engine/infer/forward.c as launches of kernels.
 */
#include <string.h>

#include "base/error.h"
#include "opencl/pass.h"

/* Room for the widest operation of a batch. */
static bn_status begin_trace(struct bn_device_session *d, bn_error *err)
{
    size_t widest = d->per_row * d->ld_gate_up > d->ld_in ? d->per_row * d->ld_gate_up : d->ld_in;
    if (d->ld_norm > widest) widest = d->ld_norm;
    if (d->s->trace == NULL) {
        bn_free(d->traced);
        d->traced = NULL;
    } else if (d->traced == NULL) {
        d->traced = bn_alloc(d->s->n_batch, widest * sizeof *d->traced);
        if (d->traced == NULL) return bn_nomem(err);
    }
    return BN_OK;
}

/* ---- attention ---- */

static void rope_and_store(const struct bn_cl_pass *p, uint32_t n)
{
    struct bn_device_session *d = p->d;
    const bn_hparams *hp = p->hp;
    const struct bn_cl_layer *l = &d->device->layers[n];
    bool local_layer = bn_hparams_is_local(hp, n), rotated = local_layer || !hp->rope_is_local;
    size_t heads = p->n * (hp->n_head + hp->n_head_kv), head = hp->head_dim;
    const struct bn_cl_arg args[] = {BN_CL_MEM(d->in),
                                     BN_CL_U32(d->ld_in),
                                     BN_CL_U32(d->q_stride),
                                     BN_CL_U32(d->k_at),
                                     BN_CL_U32(d->v_at),
                                     BN_CL_MEM(d->rows),
                                     BN_CL_MEM(local_layer ? d->local_cos : d->cos),
                                     BN_CL_MEM(local_layer ? d->local_sin : d->sin),
                                     BN_CL_MEM(d->caches.buffer[0]),
                                     BN_CL_MEM(d->caches.buffer[1]),
                                     BN_CL_U32(p->s->model->layers[n].nth),
                                     BN_CL_U32(hp->n_head),
                                     BN_CL_U32(hp->n_head_kv),
                                     BN_CL_U32(head),
                                     BN_CL_U32(hp->n_rot),
                                     BN_CL_U32(!rotated                   ? 0
                                               : hp->rope == BN_ROPE_NEOX ? 1
                                                                          : 2),
                                     BN_CL_MEM(l->q_norm),
                                     BN_CL_MEM(l->k_norm),
                                     BN_CL_F32(hp->rms_eps)};
    uint64_t stored = (uint64_t)p->n * hp->n_head_kv * head;
    if (hp->head_norms) bn_cl_count(p, BN_KERNEL_RMSNORM, heads * head);
    bn_cl_count(p, hp->rope == BN_ROPE_NEOX ? BN_KERNEL_ROPE_NEOX : BN_KERNEL_ROPE_NORM,
                rotated ? heads * hp->n_rot : 0);
    bn_cl_run_rows(p, BN_CL_rope_store, heads, args, BN_ARRAY_LEN(args),
                   bn_cl_work(p, BN_KERNEL_F32_TO_F16, stored * 4, stored * 2));
}

/* Positions that the tokens from `first` on attend to: the sum over them, and the largest number. */
static uint64_t attended(const struct bn_cl_pass *p, uint32_t window, size_t first, size_t n, size_t *most)
{
    uint64_t sum = 0;
    *most = 0;
    for (size_t j = first; j < first + n; j++) {
        size_t seen = (size_t)p->rows[j].position + 1;
        if (seen > *most) *most = seen;
        sum += window != 0 && seen > window ? window : seen;
    }
    return sum;
}

/* Scores, softmax, values of n tokens. */
static void attend(const struct bn_cl_pass *p, uint32_t layer, size_t first, size_t n)
{
    struct bn_device_session *d = p->d;
    const bn_hparams *hp = p->hp;
    uint32_t window = bn_hparams_is_local(hp, layer) ? hp->window : 0, nth = p->s->model->layers[layer].nth;
    size_t head = hp->head_dim, queries = n * hp->n_head, most;
    uint64_t seen = attended(p, window, first, n, &most), pairs = seen * hp->n_head,
             bytes = seen * hp->n_head_kv * head * sizeof(cl_half);
    const struct bn_cl_arg scores[] = {BN_CL_MEM(d->scores),
                                       BN_CL_U32(d->ld_scores),
                                       BN_CL_MEM(d->in),
                                       BN_CL_U32(d->ld_in),
                                       BN_CL_U32(d->q_stride),
                                       BN_CL_MEM(d->rows),
                                       BN_CL_MEM(d->caches.buffer[0]),
                                       BN_CL_U32(nth),
                                       BN_CL_U32(hp->n_head),
                                       BN_CL_U32(hp->n_head_kv),
                                       BN_CL_U32(head),
                                       BN_CL_F32(hp->attn_scale),
                                       BN_CL_U32(window),
                                       BN_CL_U32(first)};
    const struct bn_cl_arg softmax[] = {BN_CL_MEM(d->scores),  BN_CL_U32(d->ld_scores), BN_CL_MEM(d->rows),
                                        BN_CL_U32(hp->n_head), BN_CL_U32(window),       BN_CL_U32(first)};
    const struct bn_cl_arg values[] = {BN_CL_MEM(d->att),
                                       BN_CL_U32(d->ld_att),
                                       BN_CL_MEM(d->scores),
                                       BN_CL_U32(d->ld_scores),
                                       BN_CL_MEM(d->rows),
                                       BN_CL_MEM(d->caches.buffer[1]),
                                       BN_CL_U32(nth),
                                       BN_CL_U32(hp->n_head),
                                       BN_CL_U32(hp->n_head_kv),
                                       BN_CL_U32(head),
                                       BN_CL_U32(window),
                                       BN_CL_U32(first),
                                       BN_CL_MEM(hp->gated_heads ? d->in : NULL),
                                       BN_CL_U32(d->ld_in),
                                       BN_CL_U32(d->q_stride)};
    size_t items = p->group < 64 ? p->group : 64;
    const size_t local[2] = {items, 1}, positions[2] = {bn_cl_round_up(most, items), queries},
                 outs[2] = {bn_cl_round_up(head, items), queries};
    if (hp->gated_heads) bn_cl_count(p, BN_KERNEL_SIGMOID_MUL, queries * head);
    bn_cl_run(p->q, BN_CL_attn_scores, positions, local, scores, BN_ARRAY_LEN(scores),
              bn_cl_work(p, BN_KERNEL_ATTN_SCORES, bytes, pairs * head));
    bn_cl_run_rows(p, BN_CL_attn_softmax, queries, softmax, BN_ARRAY_LEN(softmax),
                   bn_cl_work(p, BN_KERNEL_SOFTMAX, 0, pairs));
    bn_cl_run(p->q, BN_CL_attn_values, outs, local, values, BN_ARRAY_LEN(values),
              bn_cl_work(p, BN_KERNEL_ATTN_VALUES, bytes, pairs * head));
}

void bn_cl_project_heads(struct bn_cl_pass *p, uint32_t n)
{
    struct bn_device_session *d = p->d;
    const struct bn_cl_layer *l = &d->device->layers[n];
    const char *const norm = p->hp->sub_norms ? "attn_sub_norm" : "attn_output_norm_in", *const op = "attn_o";
    bn_cl_trace(p, "attn_out", (int32_t)n, d->att, 0, d->ld_att, l->o.width);
    bn_cl_project(p, &l->o, 1,
                  (struct bn_cl_inputs){.x = d->att, .n = p->n, .width = l->o.width, .ld = d->ld_att}, d->y,
                  d->ld_y, NULL, &norm, &op, (int32_t)n);
    bn_cl_add_residual(p, l->post_attn_norm, (struct bn_cl_ops){"post_attention_norm", "attn_res"},
                       (int32_t)n);
}

static void layer_attention(struct bn_cl_pass *p, uint32_t n)
{
    static const char *const IN_OPS[] = {"attn_q_norm_in", "attn_k_norm_in", "attn_v_norm_in"},
                             *const OPS[] = {"q", "k", "v"};
    struct bn_device_session *d = p->d;
    const bn_hparams *hp = p->hp;
    const struct bn_cl_layer *l = &d->device->layers[n];
    size_t tokens = d->most_queries / hp->n_head;
    bn_cl_project(p, l->in, l->n_in, bn_cl_stream(p, l->attn_norm), d->in, d->ld_in, "attn_norm", IN_OPS, OPS,
                  (int32_t)n);
    rope_and_store(p, n);
    bn_cl_trace_pieces(p, "q_rope", (int32_t)n, d->in, 0, d->ld_in, hp->n_head, d->q_stride, hp->head_dim);
    bn_cl_trace(p, "k_rope", (int32_t)n, d->in, d->k_at, d->ld_in, (size_t)hp->n_head_kv * hp->head_dim);
    for (size_t first = 0; first < p->n; first += tokens)
        attend(p, n, first, bn_min_size(tokens, p->n - first));
    bn_cl_project_heads(p, n);
}

static void layer_ffn(struct bn_cl_pass *p, uint32_t n)
{
    static const char *const IN_OPS[] = {"ffn_gate_norm_in", "ffn_up_norm_in"}, *const OPS[] = {"gate", "up"};
    struct bn_device_session *d = p->d;
    const bn_hparams *hp = p->hp;
    const struct bn_cl_layer *l = &d->device->layers[n];
    bn_cl_project(p, l->gate_up, l->n_gate_up, bn_cl_stream(p, l->ffn_norm), d->gate_up, d->ld_gate_up,
                  "ffn_norm", IN_OPS, OPS, (int32_t)n);
    bn_cl_project(p, &l->down, 1,
                  (struct bn_cl_inputs){
                      .x = d->gate_up, .n = p->n, .width = hp->n_ff, .ld = d->ld_gate_up, .activates = true},
                  d->y, d->ld_y, NULL,
                  (const char *const[]){hp->sub_norms ? "ffn_sub_norm" : "ffn_down_norm_in"},
                  (const char *const[]){"down"}, (int32_t)n);
    bn_cl_add_residual(p, l->post_ffn_norm, (struct bn_cl_ops){"post_ffw_norm", "ffn_res"}, (int32_t)n);
}

/* ---- the head ---- */

/* Logits of n rows at hidden. */
static void head(const struct bn_cl_pass *p, size_t n)
{
    struct bn_device_session *d = p->d;
    const struct bn_device *device = d->device;
    const struct bn_matrix *h = &p->s->model->head;
    if (device->head_linear.rows != 0) {
        bn_cl_multiply(p, &device->head_linear, d->logits, d->ld_logits, 0, n);
    } else {
        bool f16 = h->type == BN_TYPE_F16;
        enum bn_kernel slot = f16 ? BN_KERNEL_F16_GEMM : BN_KERNEL_F32_GEMM;
        bn_cl_multiply_floats(p, device->head, f16, p->s->model->head_bytes, h->rows, h->k, d->hidden, h->k,
                              d->logits, d->ld_logits, n);
        if (p->s->dispatch != NULL) p->s->dispatch(p->s->dispatch_user, h, slot);
    }
    const struct bn_cl_arg check[] = {BN_CL_MEM(d->logits), BN_CL_U32(d->ld_logits), BN_CL_U32(h->rows),
                                      BN_CL_MEM(d->bad)};
    bn_cl_run_rows(p, BN_CL_finite, n, check, BN_ARRAY_LEN(check), bn_cl_work(p, BN_KERNEL_COUNT, 0, 0));
}

/* The final norm of the rows wanted of these tokens, some at a time, and their logits. */
static void finish_rows(struct bn_cl_pass *p)
{
    struct bn_device_session *d = p->d;
    struct bn_session *s = p->s;
    const struct bn_cl_linear *head_linear = &d->device->head_linear;
    size_t embd = p->hp->n_embd, vocab = s->model->head.rows, w = 0, end, n;
    size_t n_heads = s->run.logits != NULL ? s->run.n_heads : 0;
    while (w < s->run.n_wanted && s->wanted[w] < p->first)
        w++;
    for (end = w; end < s->run.n_wanted && s->wanted[end] < p->first + p->n; end++)
        d->host_wanted[end] = s->wanted[end] - (uint32_t)p->first;
    if (end - w < p->n || p->more) bn_cl_add_pending(p); /* all rows are added, as on the CPU */
    for (; w < end; w += n) {
        bool is_head = w < n_heads;
        p->more = p->is_finished;
        p->is_finished = true;
        n = is_head ? bn_min_size(bn_min_size(BN_CL_LOGITS, n_heads - w), end - w) : end - w;
        bn_cl_write(p->q, d->wanted, 0, d->host_wanted + w, n * sizeof *d->host_wanted);
        bn_cl_prepare_rows(p, &(struct bn_cl_inputs){.x = d->x,
                                                     .index = d->wanted,
                                                     .n = n,
                                                     .width = embd,
                                                     .ld = embd,
                                                     .adds = p->adds,
                                                     .add_norm = p->add_norm,
                                                     .norm = d->device->output_norm,
                                                     .out = d->hidden,
                                                     .ld_out = embd,
                                                     .next = head_linear->rows != 0 ? head_linear : NULL});
        bn_cl_read(p->q, s->hidden + w * embd, d->hidden, 0, n * embd * sizeof(float));
        if (is_head) head(p, n);
        for (size_t j = 0; is_head && j < n; j++)
            bn_cl_read(p->q, s->run.logits + (w + j) * vocab, d->logits, j * d->ld_logits * sizeof(float),
                       vocab * sizeof(float));
    }
    p->adds = false;
}

/* ---- the pass ---- */

/* The rows of these tokens, and the states of sequences that the CPU changed. */
static void begin(struct bn_cl_pass *p)
{
    struct bn_device_session *d = p->d;
    size_t embd = p->hp->n_embd;
    struct bn_cl_row *rows = d->host_rows + p->first;
    for (size_t j = 0, n; j < p->n; j += n) {
        struct bn_sequence *sequence = p->rows[j].sequence;
        struct bn_device_place *place = &sequence->place;
        for (n = 1; j + n < p->n && p->rows[j + n].sequence == sequence;)
            n++;
        for (size_t i = 0; i < n; i++)
            rows[j + i] = (struct bn_cl_row){.cache = place->at,
                                             .state = place->state,
                                             .position = p->rows[j + i].position,
                                             .cache_rows = (cl_uint)bn_cache_rows(sequence->n_ctx),
                                             .before = (cl_uint)i,
                                             .after = (cl_uint)(n - 1 - i)};
        if (sequence->n_state > 0 && place->state_is_older)
            bn_cl_write(p->q, d->states.buffer[0], place->state * sizeof(float), sequence->state,
                        sequence->n_state * sizeof(float));
        place->n_tried = (uint32_t)n;
        if (sequence->trial != NULL) bn_cl_keep_state(sequence);
        place->state_is_older = false;
        place->state_is_newer = true;
    }
    bn_cl_write(p->q, d->rows, 0, rows, p->n * sizeof *rows);
    bn_cl_write(p->q, d->x, 0, p->s->x + p->first * embd, p->n * embd * sizeof(float));
}

/* Snapshots are of states after a part of the batch. */
static void take_snapshots(const struct bn_cl_pass *p)
{
    for (size_t j = 0; j < p->n; j++) {
        const struct bn_sequence *sequence = p->rows[j].sequence;
        for (size_t i = 0; i < sequence->n_taken; i++)
            if (sequence->taken[i]->n_tokens == p->rows[j].position + 1)
                bn_cl_read(p->q, sequence->taken[i]->state, p->d->states.buffer[0],
                           sequence->place.state * sizeof(float), sequence->n_state * sizeof(float));
    }
}

/* Tokens from `first` on that are evaluated together: a snapshot is taken only after the last one of its sequence. */
static size_t tokens_from(const struct bn_session *s, size_t first)
{
    for (size_t j = first; j < s->run.n; j++) {
        const struct bn_sequence *sequence = s->rows[j].sequence;
        bool is_last = j + 1 == s->run.n || s->rows[j + 1].sequence != sequence;
        for (size_t i = 0; i < sequence->n_taken && !is_last; i++)
            if (sequence->taken[i]->n_tokens == s->rows[j].position + 1) return j + 1 - first;
    }
    return s->run.n - first;
}

static void run(struct bn_cl_pass *p)
{
    begin(p);
    for (uint32_t n = 0; n < p->hp->n_layer; n++) {
        p->q->layer = (int32_t)n;
        (p->s->model->layers[n].is_recurrent ? bn_cl_layer_recurrent : layer_attention)(p, n);
        (p->hp->experts.n != 0 ? bn_cl_layer_experts : layer_ffn)(p, n);
    }
    p->q->layer = -1;
    finish_rows(p);
    take_snapshots(p);
}

/* What the device did becomes what the session did. */
static void account(struct bn_device_session *d)
{
    struct bn_counters *counters = &d->s->counters[0];
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        struct bn_cl_counter *from = &d->queue.counters[k];
        struct bn_counter *to = &counters->kernel[k];
        to->calls += from->calls;
        to->bytes += from->bytes;
        to->ops += from->ops;
        to->ticks += (uint64_t)((double)from->ns / counters->clock.ns_per_tick);
        *from = (struct bn_cl_counter){0};
    }
}

/* Experts that some token of the batch used, over all layers: what the pass read. */
static void count_experts(struct bn_session *s)
{
    struct bn_counters *counters = &s->counters[0];
    const struct bn_device_session *d = s->on_device;
    size_t n_pairs = s->run.n * d->per_row;
    for (uint32_t n = 0; n < s->model->hp.n_layer; n++) {
        const cl_uint *experts = d->host_experts + n * d->most_pairs;
        bool used[BN_MAX_EXPERTS] = {false};
        for (size_t i = 0; i < n_pairs; i++) {
            bool *one = &used[experts[i] % BN_MAX_EXPERTS]; /* inside, whatever the device wrote */
            s->run.n_experts += !*one;
            *one = true;
        }
    }
    counters->kernel[s->run.n == 1 ? BN_KERNEL_TERNARY_GEMV : BN_KERNEL_TERNARY_GEMM].bytes +=
        s->run.n_experts * s->model->expert_bytes;
}

static void trace_head(struct bn_session *s)
{
    bn_trace_sequences(s, "output_norm", -1, s->hidden, s->rows, s->wanted, s->run.n_wanted,
                       s->model->hp.n_embd);
    if (s->run.logits != NULL)
        bn_trace_sequences(s, "logits", -1, s->run.logits, s->rows, s->wanted, s->run.n_heads,
                           s->model->head.rows);
}

bn_status bn_device_pass(struct bn_session *s, bn_error *err)
{
    struct bn_device_session *d = s->on_device;
    uint64_t start = bn_clock_ns(), enqueued = bn_prof_on(s->prof) ? bn_prof_now(s->prof) : 0;
    BN_TRY(begin_trace(d, err));
    d->host_bad = 0;
    bn_cl_zero(&d->queue, d->bad, 0, sizeof d->host_bad);
    struct bn_cl_pass pass = {
        .d = d, .s = s, .hp = &s->model->hp, .q = &d->queue, .group = d->device->cl->group_size};
    for (size_t first = 0, n; first < s->run.n; first += n) {
        n = tokens_from(s, first);
        pass.rows = s->rows + first;
        pass.first = first;
        pass.n = n;
        pass.more = first > 0;
        run(&pass);
    }
    bn_cl_read(&d->queue, &d->host_bad, d->bad, 0, sizeof d->host_bad);
    bn_status status = bn_cl_finish(&d->queue, err);
    if (status == BN_OK) { /* else the error stays: what the device holds is not known any more */
        account(d);
        bn_cl_profile(s, enqueued);
        if (s->model->hp.experts.n != 0) count_experts(s);
        if (d->traced != NULL) trace_head(s);
        bn_cl_begin(&d->queue);
    }
    s->timing.layers_ns += bn_clock_ns() - start;
    if (d->host_bad != 0) s->run.bad_row = true;
    return status;
}
