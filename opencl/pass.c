/* SPDX-License-Identifier: MIT
 *
 * The forward pass on a device: the stages of engine/infer/forward.c as launches of kernels. What one launch can do
 * together, it does: what a half adds to the residual stream, its norm, the activation function and quantising are one
 * kernel (prepare). While a trace is taken each of them is a launch of its own.
 */
#include <string.h>

#include "base/error.h"
#include "opencl/device.h"

struct pass {
    struct bn_device_session *d;
    struct bn_session *s;
    const bn_hparams *hp;
    struct bn_cl_queue *q;
    size_t n;        /* tokens */
    size_t group;    /* work-items of a group that has a row */
    bool adds;       /* y is not yet added to x, */
    cl_mem add_norm; /* normalised first; NULL: as it is */
};

/* ---- what is counted and traced ---- */

/* A kernel that a launch computes besides the one that has its time. */
static void count(const struct pass *p, enum bn_kernel slot, uint64_t ops)
{
    struct bn_cl_counter *c = &p->q->counters[slot];
    c->calls++;
    c->ops += ops;
}

/* Calls the trace with n rows of some columns of a buffer, ld apart. */
static void trace(const struct pass *p, const char *op, int32_t layer, cl_mem from, size_t at, size_t ld,
                  size_t cols)
{
    float *rows = p->d->traced;
    if (rows == NULL) return;
    for (size_t j = 0; j < p->n; j++)
        bn_cl_read(p->q, rows + j * cols, from, (at + j * ld) * sizeof *rows, cols * sizeof *rows);
    if (bn_cl_finish(p->q, NULL) == BN_OK) bn_trace_sequences(p->s, op, layer, rows, NULL, p->n, cols);
}

/* Room for the widest operation of a batch. */
static bn_status begin_trace(struct bn_device_session *d, bn_error *err)
{
    size_t widest = d->ld_gate_up > d->ld_in ? d->ld_gate_up : d->ld_in;
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

/* ---- inputs of linear layers ---- */

/* What a launch of prepare does to n rows of x: each step may be missing. */
struct inputs {
    cl_mem x, index; /* rows of width values, ld apart; which of them, NULL: the first n */
    size_t n, width, ld;
    bool adds; /* x += y, normalised by */
    cl_mem add_norm;
    bool activates;   /* x = act(x) * the values up_at after it */
    cl_mem norm, out; /* out = rmsnorm(x) * norm */
    size_t ld_out;
    const struct bn_cl_linear *next; /* for which the rows are rotated and quantised */
};

/* How the inputs of a linear layer are quantised. */
struct format {
    uint32_t bits, group;
};

static struct format format_of(const struct pass *p, const struct bn_cl_linear *next)
{
    if (next == NULL) return (struct format){0, 0};
    if (next == &p->d->device->head_linear) return (struct format){16, next->group};
    return (struct format){p->s->model->wide ? 16 : 8, p->s->model->group};
}

/* The slots that a launch computes, in this order. */
static size_t steps_of(const struct pass *p, const struct inputs *in, enum bn_kernel steps[5])
{
    static const enum bn_kernel ACTIVATIONS[] = {[BN_ACTIVATION_RELU2] = BN_KERNEL_RELU2_MUL,
                                                 [BN_ACTIVATION_SILU] = BN_KERNEL_SILU_MUL,
                                                 [BN_ACTIVATION_GELU] = BN_KERNEL_GELU_MUL};
    size_t n = 0;
    if (in->adds && in->add_norm != NULL) steps[n++] = BN_KERNEL_RMSNORM;
    if (in->adds) steps[n++] = BN_KERNEL_ADD;
    if (in->activates) steps[n++] = ACTIVATIONS[p->hp->activation];
    if (in->norm != NULL) steps[n++] = BN_KERNEL_RMSNORM;
    if (in->next != NULL)
        steps[n++] = format_of(p, in->next).bits == 16 ? BN_KERNEL_QUANTIZE16 : BN_KERNEL_QUANTIZE;
    return n;
}

static void launch_prepare(const struct pass *p, const struct inputs *in)
{
    static const uint32_t ACTIVATIONS[] = {
        [BN_ACTIVATION_RELU2] = 1, [BN_ACTIVATION_SILU] = 2, [BN_ACTIVATION_GELU] = 3};
    struct bn_device_session *d = p->d;
    const struct bn_cl_linear *next = in->next;
    struct format format = format_of(p, next);
    const struct bn_cl_arg args[] = {BN_CL_MEM(in->x),
                                     BN_CL_U32(in->ld),
                                     BN_CL_MEM(in->index),
                                     BN_CL_MEM(in->adds ? d->y : NULL),
                                     BN_CL_U32(d->ld_y),
                                     BN_CL_MEM(in->add_norm),
                                     BN_CL_U32(d->up_at),
                                     BN_CL_U32(in->activates ? ACTIVATIONS[p->hp->activation] : 0),
                                     BN_CL_MEM(in->norm),
                                     BN_CL_MEM(in->out),
                                     BN_CL_U32(in->ld_out),
                                     BN_CL_MEM(next != NULL ? next->signs : NULL),
                                     BN_CL_U32(next != NULL ? next->block : 0),
                                     BN_CL_MEM(d->rotated),
                                     BN_CL_U32(d->ld_norm),
                                     BN_CL_U32(format.bits),
                                     BN_CL_MEM(d->high),
                                     BN_CL_MEM(d->low),
                                     BN_CL_MEM(d->step),
                                     BN_CL_MEM(d->sum),
                                     BN_CL_MEM(d->scale),
                                     BN_CL_MEM(d->total),
                                     BN_CL_U32(in->width),
                                     BN_CL_U32(bn_act_padded(in->width)),
                                     BN_CL_U32(format.group),
                                     BN_CL_F32(p->hp->rms_eps),
                                     BN_CL_MEM(d->bad)};
    const size_t global[2] = {in->n * p->group, 1}, local[2] = {p->group, 1};
    const uint64_t elements = (uint64_t)in->n * in->width;
    enum bn_kernel steps[5];
    size_t n_steps = steps_of(p, in, steps);
    for (size_t i = 0; i + 1 < n_steps; i++)
        count(p, steps[i], elements);
    bn_cl_run(p->q, BN_CL_prepare, global, local, args, BN_ARRAY_LEN(args),
              (struct bn_cl_work){steps[n_steps - 1], 0, elements});
}

/* Launches the steps up to the norm, whose result the others read. */
static void launch_norm(const struct pass *p, struct inputs *in, const char *op, int32_t layer)
{
    struct inputs first = *in;
    first.next = NULL;
    launch_prepare(p, &first);
    trace(p, op, layer, first.out, 0, first.ld_out, first.width);
    *in = (struct inputs){
        .x = first.out, .n = first.n, .width = first.width, .ld = first.ld_out, .next = in->next};
}

/* The names of what a half of a layer makes, in a trace. */
struct ops {
    const char *norm, *norm_in;
};

/* Makes the inputs of in.next: rows of x, normalised by in.norm, by the norm that the inputs of this linear layer have
 * besides, rotated, quantised. Rows normalised by in.norm stay at in.out when there is such a second norm. */
static void prepare(struct pass *p, struct inputs in, struct ops ops, int32_t layer)
{
    struct bn_device_session *d = p->d;
    const struct bn_cl_linear *next = in.next;
    bool traced = d->traced != NULL, normed = next != NULL && next->norm != NULL;
    if (in.x == d->x && p->adds) {
        in.adds = true;
        in.add_norm = p->add_norm;
        p->adds = false;
    }
    if (traced && in.activates) {
        struct inputs first = in;
        first.next = NULL;
        first.norm = NULL;
        launch_prepare(p, &first);
        in.activates = false;
        trace(p, "ffn_act", layer, in.x, 0, in.ld, in.width);
    }
    if (in.norm != NULL && (traced || normed)) launch_norm(p, &in, ops.norm, layer);
    if (normed) {
        in.norm = next->norm;
        in.out = in.x == d->norm ? d->norm_in : d->norm;
        in.ld_out = d->ld_norm;
        if (traced) launch_norm(p, &in, ops.norm_in, layer);
    }
    if (next != NULL || in.norm != NULL) launch_prepare(p, &in);
}

/* x += y, normalised first when there is a norm: with the next step that reads x, or now for a trace. */
static void add_residual(struct pass *p, cl_mem norm, struct ops ops, int32_t layer)
{
    struct bn_device_session *d = p->d;
    size_t embd = p->hp->n_embd;
    if (d->traced == NULL) {
        p->adds = true;
        p->add_norm = norm;
        return;
    }
    if (norm != NULL) {
        struct inputs y = {
            .x = d->y, .n = p->n, .width = embd, .ld = d->ld_y, .norm = norm, .out = d->y, .ld_out = d->ld_y};
        launch_norm(p, &y, ops.norm, layer);
    }
    launch_prepare(p, &(struct inputs){.x = d->x, .n = p->n, .width = embd, .ld = embd, .adds = true});
    trace(p, ops.norm_in, layer, d->x, 0, embd, embd);
}

/* ---- products ---- */

/* y = W act for n rows of activations; the outputs of its parts begin at column `at`. */
static void multiply(const struct pass *p, const struct bn_cl_linear *lin, cl_mem y, size_t ldy, size_t at,
                     size_t n)
{
    struct bn_device_session *d = p->d;
    const struct bn_cl_device *cl = d->device->cl;
    size_t rows_each = cl->is_cpu ? BN_TILE_ROWS : 1, slices = cl->is_cpu ? 1 : 16, true_rows = 0;
    enum bn_kernel slot = n == 1 ? BN_KERNEL_TERNARY_GEMV : BN_KERNEL_TERNARY_GEMM;
    struct format format = format_of(p, lin);
    for (size_t i = 0; i < lin->n_parts; i++) {
        true_rows += lin->part[i]->w.rows;
        if (p->s->dispatch != NULL) p->s->dispatch(p->s->dispatch_user, lin->part[i], slot);
    }
    const struct bn_cl_arg args[] = {BN_CL_MEM(y),
                                     BN_CL_U32(ldy),
                                     BN_CL_U32(at),
                                     BN_CL_MEM(lin->codes),
                                     BN_CL_MEM(lin->scales),
                                     BN_CL_MEM(lin->row_scale),
                                     BN_CL_U32(lin->k),
                                     BN_CL_U32(lin->group),
                                     BN_CL_U32(format.bits),
                                     BN_CL_MEM(d->high),
                                     BN_CL_MEM(d->low),
                                     BN_CL_MEM(d->step),
                                     BN_CL_MEM(d->sum),
                                     BN_CL_MEM(d->scale),
                                     BN_CL_MEM(d->total),
                                     BN_CL_U32(bn_act_padded(lin->width)),
                                     BN_CL_MEM(NULL),
                                     BN_CL_U32(0),
                                     BN_CL_U32(1)};
    const struct bn_cl_work work = {slot, lin->n_bytes, (uint64_t)true_rows * lin->width * n};
    if (n == 1) {
        const size_t local[2] = {BN_TILE_ROWS / rows_each, slices},
                     global[2] = {lin->rows / rows_each, slices};
        bn_cl_run(p->q, BN_CL_ternary_gemv, global, local, args, BN_ARRAY_LEN(args), work);
        return;
    }
    struct bn_cl_arg gemm[BN_ARRAY_LEN(args) - 2];
    memcpy(gemm, args, sizeof gemm);
    gemm[BN_ARRAY_LEN(gemm) - 1] = (struct bn_cl_arg)BN_CL_U32(n);
    size_t across = cl->is_cpu ? 1 : 8, tokens = across * BN_CL_TOKENS;
    const size_t local[2] = {BN_TILE_ROWS / rows_each, across},
                 global[2] = {lin->rows / rows_each, (n + tokens - 1) / tokens * across};
    bn_cl_run(p->q, BN_CL_ternary_gemm, global, local, gemm, BN_ARRAY_LEN(gemm), work);
}

/* The matrices of a group that has the same rows before their norms, one after the other. */
static void project(struct pass *p, const struct bn_cl_linear *lin, size_t n_lin, struct inputs in, cl_mem y,
                    size_t ldy, const char *norm_op, const char *const *in_ops, const char *const *ops,
                    int32_t layer)
{
    size_t at = 0, part = 0;
    for (size_t i = 0; i < n_lin; i++) {
        in.next = &lin[i];
        prepare(p, in, (struct ops){norm_op, in_ops[part]}, layer);
        if (i == 0 && n_lin > 1)
            in = (struct inputs){.x = in.out, .n = in.n, .width = in.width, .ld = in.ld_out};
        multiply(p, &lin[i], y, ldy, at, p->n);
        for (size_t k = 0; k < lin[i].n_parts; k++, part++)
            trace(p, ops[part], layer, y, at + lin[i].at[k], ldy, lin[i].part[k]->w.rows);
        at += lin[i].rows;
    }
}

/* ---- attention ---- */

static size_t round_up(size_t n, size_t every)
{
    return (n + every - 1) / every * every;
}

static void rope_and_store(const struct pass *p, uint32_t n)
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
                                     BN_CL_MEM(d->keys),
                                     BN_CL_MEM(d->values),
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
    const size_t global[2] = {heads * p->group, 1}, local[2] = {p->group, 1};
    uint64_t stored = (uint64_t)p->n * hp->n_head_kv * head;
    if (hp->head_norms) count(p, BN_KERNEL_RMSNORM, heads * head);
    if (rotated)
        count(p, hp->rope == BN_ROPE_NEOX ? BN_KERNEL_ROPE_NEOX : BN_KERNEL_ROPE_NORM, heads * hp->n_rot);
    bn_cl_run(p->q, BN_CL_rope_store, global, local, args, BN_ARRAY_LEN(args),
              (struct bn_cl_work){BN_KERNEL_F32_TO_F16, stored * 4, stored * 2});
}

/* Positions that the tokens from `first` on attend to: the sum over them, and the largest number. */
static uint64_t attended(const struct pass *p, uint32_t window, size_t first, size_t n, size_t *most)
{
    uint64_t sum = 0;
    *most = 0;
    for (size_t j = first; j < first + n; j++) {
        size_t seen = (size_t)p->s->rows[j].position + 1;
        if (seen > *most) *most = seen;
        sum += window != 0 && seen > window ? window : seen;
    }
    return sum;
}

/* Scores, softmax, values of n tokens. */
static void attend(const struct pass *p, uint32_t layer, size_t first, size_t n)
{
    struct bn_device_session *d = p->d;
    const bn_hparams *hp = p->hp;
    uint32_t window = bn_hparams_is_local(hp, layer) ? hp->window : 0, nth = p->s->model->layers[layer].nth;
    size_t head = hp->head_dim, queries = n * hp->n_head, most;
    uint64_t seen = attended(p, window, first, n, &most), pairs = seen * hp->n_head,
             bytes = seen * hp->n_head_kv * head * sizeof(cl_half);
    const struct bn_cl_arg scores[] = {
        BN_CL_MEM(d->scores),   BN_CL_U32(d->ld_scores),  BN_CL_MEM(d->in),   BN_CL_U32(d->ld_in),
        BN_CL_U32(d->q_stride), BN_CL_MEM(d->rows),       BN_CL_MEM(d->keys), BN_CL_U32(nth),
        BN_CL_U32(hp->n_head),  BN_CL_U32(hp->n_head_kv), BN_CL_U32(head),    BN_CL_F32(hp->attn_scale),
        BN_CL_U32(window),      BN_CL_U32(first)};
    const struct bn_cl_arg softmax[] = {BN_CL_MEM(d->scores),  BN_CL_U32(d->ld_scores), BN_CL_MEM(d->rows),
                                        BN_CL_U32(hp->n_head), BN_CL_U32(window),       BN_CL_U32(first)};
    const struct bn_cl_arg values[] = {
        BN_CL_MEM(d->att),        BN_CL_U32(d->ld_att), BN_CL_MEM(d->scores), BN_CL_U32(d->ld_scores),
        BN_CL_MEM(d->rows),       BN_CL_MEM(d->values), BN_CL_U32(nth),       BN_CL_U32(hp->n_head),
        BN_CL_U32(hp->n_head_kv), BN_CL_U32(head),      BN_CL_U32(window),    BN_CL_U32(first),
        BN_CL_MEM(NULL),          BN_CL_U32(0),         BN_CL_U32(0)};
    size_t items = p->group < 64 ? p->group : 64;
    const size_t local[2] = {items, 1}, of_rows[2] = {p->group, 1};
    const size_t positions[2] = {round_up(most, items), queries}, rows[2] = {queries * p->group, 1},
                 outs[2] = {round_up(head, items), queries};
    bn_cl_run(p->q, BN_CL_attn_scores, positions, local, scores, BN_ARRAY_LEN(scores),
              (struct bn_cl_work){BN_KERNEL_ATTN_SCORES, bytes, pairs * head});
    bn_cl_run(p->q, BN_CL_attn_softmax, rows, of_rows, softmax, BN_ARRAY_LEN(softmax),
              (struct bn_cl_work){BN_KERNEL_SOFTMAX, 0, pairs});
    bn_cl_run(p->q, BN_CL_attn_values, outs, local, values, BN_ARRAY_LEN(values),
              (struct bn_cl_work){BN_KERNEL_ATTN_VALUES, bytes, pairs * head});
}

static void layer_attention(struct pass *p, uint32_t n)
{
    static const char *const IN_OPS[] = {"attn_q_norm_in", "attn_k_norm_in", "attn_v_norm_in"},
                             *const OPS[] = {"q", "k", "v"};
    struct bn_device_session *d = p->d;
    const bn_hparams *hp = p->hp;
    const struct bn_cl_layer *l = &d->device->layers[n];
    size_t embd = hp->n_embd, tokens = d->most_queries / hp->n_head;
    project(p, l->in, l->n_in,
            (struct inputs){.x = d->x,
                            .n = p->n,
                            .width = embd,
                            .ld = embd,
                            .norm = l->attn_norm,
                            .out = d->norm,
                            .ld_out = d->ld_norm},
            d->in, d->ld_in, "attn_norm", IN_OPS, OPS, (int32_t)n);
    rope_and_store(p, n);
    trace(p, "q_rope", (int32_t)n, d->in, 0, d->ld_in, (size_t)hp->n_head * hp->head_dim);
    trace(p, "k_rope", (int32_t)n, d->in, d->k_at, d->ld_in, (size_t)hp->n_head_kv * hp->head_dim);
    for (size_t first = 0; first < p->n; first += tokens)
        attend(p, n, first, bn_min_size(tokens, p->n - first));
    trace(p, "attn_out", (int32_t)n, d->att, 0, d->ld_att, l->o.width);
    project(p, &l->o, 1, (struct inputs){.x = d->att, .n = p->n, .width = l->o.width, .ld = d->ld_att}, d->y,
            d->ld_y, NULL, (const char *const[]){hp->sub_norms ? "attn_sub_norm" : "attn_output_norm_in"},
            (const char *const[]){"attn_o"}, (int32_t)n);
    add_residual(p, l->post_attn_norm, (struct ops){"post_attention_norm", "attn_res"}, (int32_t)n);
}

static void layer_ffn(struct pass *p, uint32_t n)
{
    static const char *const IN_OPS[] = {"ffn_gate_norm_in", "ffn_up_norm_in"}, *const OPS[] = {"gate", "up"};
    struct bn_device_session *d = p->d;
    const bn_hparams *hp = p->hp;
    const struct bn_cl_layer *l = &d->device->layers[n];
    size_t embd = hp->n_embd;
    project(p, l->gate_up, l->n_gate_up,
            (struct inputs){.x = d->x,
                            .n = p->n,
                            .width = embd,
                            .ld = embd,
                            .norm = l->ffn_norm,
                            .out = d->norm,
                            .ld_out = d->ld_norm},
            d->gate_up, d->ld_gate_up, "ffn_norm", IN_OPS, OPS, (int32_t)n);
    project(p, &l->down, 1,
            (struct inputs){
                .x = d->gate_up, .n = p->n, .width = hp->n_ff, .ld = d->ld_gate_up, .activates = true},
            d->y, d->ld_y, NULL, (const char *const[]){hp->sub_norms ? "ffn_sub_norm" : "ffn_down_norm_in"},
            (const char *const[]){"down"}, (int32_t)n);
    add_residual(p, l->post_ffn_norm, (struct ops){"post_ffw_norm", "ffn_res"}, (int32_t)n);
}

/* ---- the head ---- */

/* Logits of n rows at hidden. */
static void head(const struct pass *p, size_t n)
{
    struct bn_device_session *d = p->d;
    const struct bn_device *device = d->device;
    const struct bn_matrix *h = &p->s->model->head;
    if (device->head_linear.rows != 0) {
        multiply(p, &device->head_linear, d->logits, d->ld_logits, 0, n);
    } else {
        bool f16 = h->type == BN_TYPE_F16;
        size_t rows_each = p->group / 16;
        enum bn_kernel slot = f16 ? BN_KERNEL_F16_GEMM : BN_KERNEL_F32_GEMM;
        const struct bn_cl_arg args[] = {
            BN_CL_MEM(d->logits), BN_CL_U32(d->ld_logits), BN_CL_MEM(device->head), BN_CL_U32(h->rows),
            BN_CL_U32(h->k),      BN_CL_MEM(d->hidden),    BN_CL_U32(h->k),         BN_CL_U32(n)};
        const size_t local[2] = {16, rows_each}, global[2] = {16, round_up(h->rows, rows_each)};
        bn_cl_run(p->q, f16 ? BN_CL_f16_gemm : BN_CL_f32_gemm, global, local, args, BN_ARRAY_LEN(args),
                  (struct bn_cl_work){slot, h->rows * h->k * (f16 ? sizeof(cl_half) : sizeof(float)),
                                      (uint64_t)h->rows * h->k * n});
        if (p->s->dispatch != NULL) p->s->dispatch(p->s->dispatch_user, h, slot);
    }
    const struct bn_cl_arg check[] = {BN_CL_MEM(d->logits), BN_CL_U32(d->ld_logits), BN_CL_U32(h->rows),
                                      BN_CL_MEM(d->bad)};
    const size_t local[2] = {p->group, 1}, global[2] = {n * p->group, 1};
    bn_cl_run(p->q, BN_CL_finite, global, local, check, BN_ARRAY_LEN(check),
              (struct bn_cl_work){BN_KERNEL_COUNT, 0, 0});
}

/* The final norm of the rows wanted, some at a time, and their logits. */
static void finish_rows(struct pass *p)
{
    struct bn_device_session *d = p->d;
    struct bn_session *s = p->s;
    size_t embd = p->hp->n_embd, vocab = s->model->head.rows,
           n_heads = s->run.logits != NULL ? s->run.n_heads : 0, n;
    for (size_t first = 0; first < s->run.n_wanted; first += n) {
        n = first < n_heads ? bn_min_size(BN_CL_LOGITS, n_heads - first) : s->run.n_wanted - first;
        const struct bn_cl_linear *head_linear = &d->device->head_linear;
        bn_cl_write(p->q, d->wanted, 0, s->wanted + first, n * sizeof *s->wanted);
        launch_prepare(p, &(struct inputs){.x = d->x,
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
        bn_cl_read(p->q, s->hidden + first * embd, d->hidden, 0, n * embd * sizeof(float));
        if (first >= n_heads) continue;
        head(p, n);
        for (size_t j = 0; j < n; j++)
            bn_cl_read(p->q, s->run.logits + (first + j) * vocab, d->logits, j * d->ld_logits * sizeof(float),
                       vocab * sizeof(float));
    }
}

/* ---- the pass ---- */

static void begin(struct pass *p)
{
    struct bn_device_session *d = p->d;
    for (size_t j = 0; j < p->n; j++) {
        const struct bn_row *row = &p->s->rows[j];
        d->host_rows[j] = (struct bn_cl_row){.cache = row->sequence->place.at,
                                             .position = row->position,
                                             .cache_rows = (cl_uint)bn_cache_rows(row->sequence->n_ctx)};
    }
    bn_cl_write(p->q, d->rows, 0, d->host_rows, p->n * sizeof *d->host_rows);
    bn_cl_write(p->q, d->x, 0, p->s->x, p->n * p->hp->n_embd * sizeof(float));
    bn_cl_zero(p->q, d->bad, 0, sizeof d->host_bad);
    d->host_bad = 0;
}

/* What the device did becomes what the session did. */
static void account(struct pass *p)
{
    struct bn_counters *counters = &p->s->counters[0];
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        struct bn_cl_counter *from = &p->q->counters[k];
        struct bn_counter *to = &counters->kernel[k];
        to->calls += from->calls;
        to->bytes += from->bytes;
        to->ops += from->ops;
        to->ticks += (uint64_t)((double)from->ns / counters->clock.ns_per_tick);
        *from = (struct bn_cl_counter){0};
    }
}

bn_status bn_device_pass(struct bn_session *s, bn_error *err)
{
    struct bn_device_session *d = s->on_device;
    struct pass pass = {.d = d,
                        .s = s,
                        .hp = &s->model->hp,
                        .q = &d->queue,
                        .n = s->run.n,
                        .group = d->device->cl->group_size};
    uint64_t start = bn_clock_ns();
    BN_TRY(begin_trace(d, err));
    begin(&pass);
    for (uint32_t n = 0; n < pass.hp->n_layer; n++) {
        d->queue.layer = (int32_t)n;
        layer_attention(&pass, n);
        layer_ffn(&pass, n);
    }
    d->queue.layer = -1;
    finish_rows(&pass);
    bn_cl_read(&d->queue, &d->host_bad, d->bad, 0, sizeof d->host_bad);
    bn_status status = bn_cl_finish(&d->queue, err);
    if (status == BN_OK) account(&pass);
    if (status == BN_OK && d->traced != NULL) {
        bn_trace_sequences(s, "output_norm", -1, s->hidden, s->wanted, s->run.n_wanted, pass.hp->n_embd);
        if (s->run.logits != NULL)
            bn_trace_sequences(s, "logits", -1, s->run.logits, s->wanted, s->run.n_heads,
                               s->model->head.rows);
    }
    bn_cl_begin(&d->queue);
    s->timing.layers_ns += bn_clock_ns() - start;
    if (d->host_bad != 0) s->run.bad_row = true;
    return status;
}
