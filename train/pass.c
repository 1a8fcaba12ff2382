/* SPDX-License-Identifier: MIT
 *
 * Forward and backward passes through all layers. What the backward pass needs is kept for each layer; the rest is
 * recomputed.
 */
#include "train/trainer.h"

#include <string.h>

#include "base/clock.h"
#include "train/ops.h"
#include "train/real.h"

#define HEAD_ROWS 256u /* rows whose logits are in memory at a time */
#define BLOCK_ROWS 16u /* rows that go through several loops while they are in the first caches */

/* What a layer keeps of a slice. */
struct kept {
    bn_real *x, *attn_in, *attn_scale; /* residual stream; inputs of q, k, v and their scales */
    bn_real *q, *k, *v, *p;            /* q and k after rotation */
    bn_real *q_raw, *k_raw;            /* before the norms of heads */
    bn_real *y, *o_in, *o_scale;       /* attention's result; input of o */
    bn_real *x_mid, *ffn_in, *ffn_scale;
    bn_real *gate, *up, *down_in, *down_scale;
};

struct bn_pass {
    const struct bn_weights *w;
    size_t n_sequences, rows;
    bool back;
    struct kept *layers; /* one when nothing is kept: all layers use it */
    bn_real *x, *dx;     /* the residual stream and its gradient */
    bn_real *hidden, *dhidden, *logits;
    bn_real *a, *b;      /* scratch: rows of the widest layer */
    bn_real *c;          /* scratch: twice as much */
    bn_real *pairs;      /* scratch of attention */
    struct bn_act *acts; /* the rows that were quantised last, in q8 */
    int8_t *q8;
    bn_real *arena;
    struct bn_pass_times times;
    uint64_t since_ns; /* the time before it is in times */
};

/* ---- memory ---- */

struct carve {
    bn_real *at; /* NULL: only counts */
    size_t used;
};

static bn_real *carve(struct carve *c, size_t n)
{
    bn_real *p = c->at != NULL ? c->at + c->used : NULL;
    c->used += (n + BN_LANES - 1) / BN_LANES * BN_LANES;
    return p;
}

static size_t wide(const bn_hparams *hp)
{
    size_t most = (size_t)hp->n_head * hp->head_dim;
    if (hp->n_embd > most) most = hp->n_embd;
    return hp->n_ff > most ? hp->n_ff : most;
}

static void carve_layer(struct carve *c, const struct bn_pass *pass, struct kept *l)
{
    const bn_hparams *hp = &pass->w->hp;
    size_t R = pass->rows, d = R * hp->n_embd, dq = R * hp->n_head * hp->head_dim,
           dk = R * hp->n_head_kv * hp->head_dim, f = R * hp->n_ff;
    l->x = carve(c, d);
    l->attn_in = carve(c, d);
    l->attn_scale = carve(c, R);
    l->q = carve(c, dq);
    l->k = carve(c, dk);
    l->v = carve(c, dk);
    l->q_raw = hp->head_norms ? carve(c, dq) : l->q;
    l->k_raw = hp->head_norms ? carve(c, dk) : l->k;
    l->p = carve(c, pass->n_sequences * hp->n_head * hp->n_ctx * hp->n_ctx);
    l->y = carve(c, dq);
    l->o_in = carve(c, dq);
    l->o_scale = carve(c, R);
    l->x_mid = carve(c, d);
    l->ffn_in = carve(c, d);
    l->ffn_scale = carve(c, R);
    l->gate = carve(c, f);
    l->up = carve(c, f);
    l->down_in = carve(c, f);
    l->down_scale = carve(c, R);
}

static void carve_all(struct carve *c, struct bn_pass *pass)
{
    const bn_hparams *hp = &pass->w->hp;
    size_t R = pass->rows, d = R * hp->n_embd, most = R * wide(hp);
    size_t head_rows = R < HEAD_ROWS ? R : HEAD_ROWS;
    for (size_t i = 0; i < (pass->back ? hp->n_layer : 1); i++)
        carve_layer(c, pass, &pass->layers[i]);
    pass->x = carve(c, d);
    pass->hidden = carve(c, d);
    pass->logits = carve(c, head_rows * hp->n_vocab);
    pass->a = carve(c, most);
    if (!pass->back) return;
    pass->dx = carve(c, d);
    pass->dhidden = carve(c, d);
    pass->b = carve(c, most);
    pass->c = carve(c, 2 * most);
    pass->pairs = carve(c, (size_t)hp->n_ctx * hp->n_ctx);
}

bn_status bn_pass_open(struct bn_pass **out, const struct bn_weights *w, size_t n_sequences, bool back,
                       bn_error *err)
{
    *out = NULL;
    struct bn_pass *pass = bn_alloc(1, sizeof *pass);
    if (pass == NULL) return bn_nomem(err);
    pass->w = w;
    pass->n_sequences = n_sequences;
    pass->rows = n_sequences * w->hp.n_ctx;
    pass->back = back;
    pass->layers = bn_alloc(w->hp.n_layer, sizeof *pass->layers);
    struct carve c = {0};
    if (pass->layers != NULL) {
        carve_all(&c, pass);
        pass->arena = c.at = bn_alloc_aligned(c.used, sizeof *pass->arena);
        bn_mem_advise_huge(pass->arena, c.used * sizeof *pass->arena);
    }
    pass->acts = bn_alloc(pass->rows, sizeof *pass->acts);
    pass->q8 = bn_alloc_aligned(pass->rows, wide(&w->hp));
    if (pass->arena == NULL || pass->acts == NULL || pass->q8 == NULL) {
        bn_pass_close(pass);
        return bn_nomem(err);
    }
    c.used = 0;
    carve_all(&c, pass);
    for (size_t i = 1; !back && i < w->hp.n_layer; i++)
        pass->layers[i] = pass->layers[0];
    *out = pass;
    return BN_OK;
}

void bn_pass_close(struct bn_pass *pass)
{
    if (pass == NULL) return;
    bn_free(pass->layers);
    bn_free(pass->arena);
    bn_free(pass->acts);
    bn_free(pass->q8);
    bn_free(pass);
}

uint64_t bn_pass_bytes(const struct bn_pass *pass)
{
    return bn_mem_size(pass->arena) + bn_mem_size(pass->acts) + bn_mem_size(pass->q8);
}

/* ---- time ---- */

struct bn_pass_times bn_pass_times(const struct bn_pass *pass)
{
    return pass->times;
}

/* Adds the time since the last call. */
static void lap(struct bn_pass *pass, uint64_t *ns)
{
    uint64_t now = bn_clock_ns();
    *ns += now - pass->since_ns;
    pass->since_ns = now;
}

/* ---- pieces of a layer ---- */

static const bn_real *master(const struct bn_pass *pass, uint32_t param)
{
    return pass->w->master + pass->w->params[param].at;
}

static struct bn_op_matrix matrix(const struct bn_pass *pass, uint32_t param)
{
    const struct bn_param *p = &pass->w->params[param];
    return (struct bn_op_matrix){pass->w->ternary + p->at, pass->w->scale[param], p->rows, p->cols,
                                 pass->w->codes + p->at / 4};
}

static bool quantises(const struct bn_pass *pass)
{
    return pass->w->group == 0 && !pass->w->exact;
}

static struct bn_op_input input(const struct bn_pass *pass, const bn_real *x, const bn_real *scale, size_t n)
{
    return (struct bn_op_input){x, quantises(pass) ? scale : NULL, pass->rows, n,
                                quantises(pass) ? pass->acts : NULL};
}

/* y = the norm of the rows of x, each of n; y may be x. */
static void norm_rows(const struct bn_pass *pass, bn_real *y, const bn_real *x, uint32_t norm, size_t rows,
                      size_t n)
{
    bn_op_norm(pass->w->kernels, y, x, master(pass, norm), rows, n, (bn_real)pass->w->hp.rms_eps);
}

/* Rows of the input of a linear layer, from row r on: x after the norm (none when it is 0), quantised. x begins with
 * these rows, in and scale with row 0. */
static void make_rows(const struct bn_pass *pass, bn_real *in, bn_real *scale, const bn_real *x,
                      uint32_t norm, size_t n, size_t r, size_t rows)
{
    const struct bn_weights *w = pass->w;
    in += r * n;
    if (norm != 0)
        norm_rows(pass, in, x, norm, rows, n);
    else if (in != x)
        memcpy(in, x, rows * n * sizeof *in);
    if (quantises(pass))
        bn_op_quantise(w->kernels, in, scale + r, pass->acts + r, pass->q8 + r * n, in, rows, n);
}

/* Rows of the block that begins at row r. */
static size_t block_rows(const struct bn_pass *pass, size_t r)
{
    return bn_min_size(BLOCK_ROWS, pass->rows - r);
}

/* All rows. */
static void make_input(const struct bn_pass *pass, bn_real *in, bn_real *scale, const bn_real *x,
                       uint32_t norm, size_t n)
{
    for (size_t r = 0; r < pass->rows; r += BLOCK_ROWS)
        make_rows(pass, in, scale, x + r * n, norm, n, r, block_rows(pass, r));
}

static void linear(const struct bn_pass *pass, bn_real *y, const struct bn_op_input *in, uint32_t param)
{
    struct bn_op_matrix m = matrix(pass, param);
    bn_op_linear(pass->w->kernels, y, in, &m);
}

static struct bn_op_heads heads(const struct bn_pass *pass)
{
    const bn_hparams *hp = &pass->w->hp;
    return (struct bn_op_heads){hp->n_head, hp->n_head_kv, hp->head_dim, hp->n_ctx};
}

/* Of n values. */
static void activate(const struct bn_pass *pass, bn_real *y, const bn_real *gate, const bn_real *up, size_t n)
{
    if (pass->w->hp.activation == BN_ACTIVATION_RELU2)
        bn_op_relu2(y, gate, up, n);
    else
        bn_op_silu(pass->w->kernels, y, gate, up, n);
}

/* ---- forward ---- */

static void rotate(const struct bn_pass *pass, bn_real *q, bn_real *k, bool back)
{
    struct bn_op_heads h = heads(pass);
    for (size_t s = 0; s < pass->n_sequences; s++) {
        bn_op_rope(q + s * h.n_tokens * h.n_head * h.head_dim, h.n_head, &h, pass->w->cos, pass->w->sin,
                   back);
        bn_op_rope(k + s * h.n_tokens * h.n_kv * h.head_dim, h.n_kv, &h, pass->w->cos, pass->w->sin, back);
    }
}

static void forward_attention(const struct bn_pass *pass, const struct bn_layer_params *p, struct kept *l)
{
    const bn_hparams *hp = &pass->w->hp;
    struct bn_op_heads h = heads(pass);
    size_t R = pass->rows, dq = h.n_head * h.head_dim, nq = h.n_tokens * dq,
           nk = h.n_tokens * h.n_kv * h.head_dim;
    make_input(pass, l->attn_in, l->attn_scale, l->x, p->attn_norm, hp->n_embd);
    struct bn_op_input in = input(pass, l->attn_in, l->attn_scale, hp->n_embd);
    linear(pass, l->q_raw, &in, p->q);
    linear(pass, l->k_raw, &in, p->k);
    linear(pass, l->v, &in, p->v);
    if (hp->head_norms) {
        norm_rows(pass, l->q, l->q_raw, p->q_norm, R * hp->n_head, hp->head_dim);
        norm_rows(pass, l->k, l->k_raw, p->k_norm, R * hp->n_head_kv, hp->head_dim);
    }
    rotate(pass, l->q, l->k, false);
    for (size_t s = 0; s < pass->n_sequences; s++)
        bn_op_attention(pass->w->kernels, l->y + s * nq, l->p + s * h.n_head * h.n_tokens * h.n_tokens,
                        l->q + s * nq, l->k + s * nk, l->v + s * nk, &h);
    make_input(pass, l->o_in, l->o_scale, l->y, p->attn_sub_norm, dq);
    in = input(pass, l->o_in, l->o_scale, dq);
    linear(pass, l->x_mid, &in, p->o);
    bn_op_add(l->x_mid, l->x, R * hp->n_embd);
}

/* x: what the layer gives to the next one. */
static void forward_ffn(const struct bn_pass *pass, const struct bn_layer_params *p, struct kept *l,
                        bn_real *x)
{
    const bn_hparams *hp = &pass->w->hp;
    make_input(pass, l->ffn_in, l->ffn_scale, l->x_mid, p->ffn_norm, hp->n_embd);
    struct bn_op_input in = input(pass, l->ffn_in, l->ffn_scale, hp->n_embd);
    linear(pass, l->gate, &in, p->gate);
    linear(pass, l->up, &in, p->up);
    for (size_t r = 0, f = hp->n_ff; r < pass->rows; r += BLOCK_ROWS) {
        size_t rows = block_rows(pass, r);
        activate(pass, pass->a, l->gate + r * f, l->up + r * f, rows * f);
        make_rows(pass, l->down_in, l->down_scale, pass->a, p->ffn_sub_norm, f, r, rows);
    }
    in = input(pass, l->down_in, l->down_scale, hp->n_ff);
    linear(pass, x, &in, p->down);
    bn_op_add(x, l->x_mid, pass->rows * hp->n_embd);
}

/* ---- the head ---- */

/* The loss; with grad also dhidden and the embedding's gradient. */
static double run_head(struct bn_pass *pass, const int32_t *targets, bn_real *grad)
{
    const bn_hparams *hp = &pass->w->hp;
    const bn_real *table = master(pass, 0);
    size_t d = hp->n_embd, V = hp->n_vocab;
    double loss = 0;
    for (size_t from = 0; from < pass->rows; from += HEAD_ROWS) {
        size_t rows = bn_min_size(HEAD_ROWS, pass->rows - from);
        const bn_real *hidden = pass->hidden + from * d;
        bn_gemm(pass->logits, V, rows, V, d, 1, bn_mat(hidden, d), bn_mat_turned(table, d), 0);
        for (size_t r = 0; r < rows; r++) {
            int32_t target = targets[from + r];
            bn_real *row = pass->logits + r * V;
            if (target == BN_NO_TARGET)
                memset(row, 0, V * sizeof *row);
            else
                loss += bn_op_cross_entropy(pass->w->kernels, row, V, (size_t)target, grad != NULL);
        }
        if (grad == NULL) continue;
        lap(pass, &pass->times.forward_ns);
        bn_gemm(pass->dhidden + from * d, d, rows, d, V, 1, bn_mat(pass->logits, V), bn_mat(table, d), 0);
        bn_gemm(grad + pass->w->params[0].at, d, V, d, rows, 1, bn_mat_turned(pass->logits, V),
                bn_mat(hidden, d), 1);
        lap(pass, &pass->times.backward_ns);
    }
    return loss;
}

/* ---- backward ---- */

/* Where the gradient of a parameter is added. */
static bn_real *into(const struct bn_pass *pass, bn_real *grad, uint32_t param)
{
    return grad + pass->w->params[param].at;
}

static void linear_back(const struct bn_pass *pass, bn_real *dx, bool add, const bn_real *dy,
                        const struct bn_op_input *in, uint32_t param, bn_real *scratch, bn_real *grad)
{
    struct bn_op_matrix m = matrix(pass, param);
    bn_op_linear_back(dx, add, into(pass, grad, param), dy, in, &m, scratch);
}

/* From the gradient of what a norm made to that of x; a norm of 0 is none. dx may be dy. */
static void norm_back(const struct bn_pass *pass, bn_real *dx, bool add, const bn_real *dy, const bn_real *x,
                      uint32_t norm, size_t rows, size_t n, bn_real *grad)
{
    if (norm != 0)
        bn_op_norm_back(dx, add, into(pass, grad, norm), dy, x, master(pass, norm), rows, n,
                        (bn_real)pass->w->hp.rms_eps);
    else if (add)
        bn_op_add(dx, dy, rows * n);
    else if (dx != dy)
        memcpy(dx, dy, rows * n * sizeof *dx);
}

/* From the gradient of the input of down to those of gate and up, in their places. dy is overwritten. */
static void activation_back(const struct bn_pass *pass, const struct bn_layer_params *p, struct kept *l,
                            bn_real *dy, bn_real *grad)
{
    const struct bn_kernels *k = pass->w->kernels;
    size_t f = pass->w->hp.n_ff;
    for (size_t r = 0; r < pass->rows; r += BLOCK_ROWS) {
        size_t rows = block_rows(pass, r), n = rows * f;
        bn_real *gate = l->gate + r * f, *up = l->up + r * f, *d = dy + r * f;
        if (p->ffn_sub_norm != 0) activate(pass, pass->b, gate, up, n);
        norm_back(pass, d, false, d, pass->b, p->ffn_sub_norm, rows, f, grad);
        if (pass->w->hp.activation == BN_ACTIVATION_RELU2)
            bn_op_relu2_back(gate, up, d, gate, up, n);
        else
            bn_op_silu_back(k, gate, up, d, gate, up, pass->b, n);
    }
}

/* dx: the gradient of the layer's output, which becomes that of x_mid. */
static void backward_ffn(const struct bn_pass *pass, const struct bn_layer_params *p, struct kept *l,
                         bn_real *grad)
{
    const bn_hparams *hp = &pass->w->hp;
    size_t R = pass->rows, f = hp->n_ff, d = hp->n_embd;
    struct bn_op_input in = input(pass, l->down_in, l->down_scale, f);
    linear_back(pass, pass->a, false, pass->dx, &in, p->down, pass->b, grad);
    activation_back(pass, p, l, pass->a, grad);
    in = input(pass, l->ffn_in, l->ffn_scale, d);
    linear_back(pass, pass->a, false, l->gate, &in, p->gate, pass->b, grad);
    linear_back(pass, pass->a, true, l->up, &in, p->up, pass->b, grad);
    norm_back(pass, pass->dx, true, pass->a, l->x_mid, p->ffn_norm, R, d, grad);
}

/* From the gradient dy of attention's result to those of q, k and v, in dq and in the places of k_raw and v. */
static void attention_back(const struct bn_pass *pass, struct kept *l, bn_real *dq, bn_real *dkv,
                           const bn_real *dy)
{
    struct bn_op_heads h = heads(pass);
    size_t nq = h.n_tokens * h.n_head * h.head_dim, nk = h.n_tokens * h.n_kv * h.head_dim;
    for (size_t s = 0; s < pass->n_sequences; s++) {
        bn_real *dk = dkv, *dv = dkv + nk;
        bn_op_attention_back(dq + s * nq, dk, dv, dy + s * nq, l->p + s * h.n_head * h.n_tokens * h.n_tokens,
                             l->q + s * nq, l->k + s * nk, l->v + s * nk, &h, pass->pairs);
        memcpy(l->k + s * nk, dk, nk * sizeof *dk);
        memcpy(l->v + s * nk, dv, nk * sizeof *dv);
    }
}

/* dx: the gradient of x_mid, which becomes that of x. */
static void backward_attention(const struct bn_pass *pass, const struct bn_layer_params *p, struct kept *l,
                               bn_real *grad)
{
    const bn_hparams *hp = &pass->w->hp;
    size_t R = pass->rows, d = hp->n_embd, D = hp->head_dim, dq = hp->n_head * D;
    struct bn_op_input in = input(pass, l->o_in, l->o_scale, dq);
    linear_back(pass, pass->a, false, pass->dx, &in, p->o, pass->b, grad);
    norm_back(pass, pass->a, false, pass->a, l->y, p->attn_sub_norm, R, dq, grad);
    attention_back(pass, l, pass->b, pass->c, pass->a);
    rotate(pass, pass->b, l->k, true);
    norm_back(pass, pass->b, false, pass->b, l->q_raw, p->q_norm, R * hp->n_head, D, grad);
    norm_back(pass, l->k, false, l->k, l->k_raw, p->k_norm, R * hp->n_head_kv, D, grad);
    in = input(pass, l->attn_in, l->attn_scale, d);
    linear_back(pass, pass->a, false, pass->b, &in, p->q, pass->c, grad);
    linear_back(pass, pass->a, true, l->k, &in, p->k, pass->c, grad);
    linear_back(pass, pass->a, true, l->v, &in, p->v, pass->c, grad);
    norm_back(pass, pass->dx, true, pass->a, l->x, p->attn_norm, R, d, grad);
}

/* ---- all of it ---- */

double bn_pass_run(struct bn_pass *pass, const int32_t *tokens, const int32_t *targets, bn_real *grad)
{
    const struct bn_weights *w = pass->w;
    const bn_hparams *hp = &w->hp;
    uint32_t final = (uint32_t)w->n_params - 1;
    size_t R = pass->rows, d = hp->n_embd;
    pass->times = (struct bn_pass_times){0};
    pass->since_ns = bn_clock_ns();
    for (size_t r = 0; r < R; r++)
        memcpy(pass->x + r * d, master(pass, 0) + (size_t)tokens[r] * d, d * sizeof *pass->x);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct kept *l = &pass->layers[i];
        memcpy(l->x, pass->x, R * d * sizeof *pass->x);
        forward_attention(pass, &w->layers[i], l);
        forward_ffn(pass, &w->layers[i], l, pass->x);
    }
    norm_rows(pass, pass->hidden, pass->x, final, R, d);
    double loss = run_head(pass, targets, grad);
    if (grad == NULL) {
        lap(pass, &pass->times.forward_ns);
        return loss;
    }
    norm_back(pass, pass->dx, false, pass->dhidden, pass->x, final, R, d, grad);
    for (uint32_t i = hp->n_layer; i-- > 0;) {
        backward_ffn(pass, &w->layers[i], &pass->layers[i], grad);
        backward_attention(pass, &w->layers[i], &pass->layers[i], grad);
    }
    for (size_t r = 0; r < R; r++)
        bn_op_add(into(pass, grad, 0) + (size_t)tokens[r] * d, pass->dx + r * d, d);
    lap(pass, &pass->times.backward_ns);
    return loss;
}

double bn_pass_flop(const struct bn_weights *w)
{
    size_t n = bn_weights_count(w, BN_PARAM_TERNARY) + bn_weights_count(w, BN_PARAM_EMBEDDING);
    return 6.0 * (double)n +
           12.0 * w->hp.n_layer * (double)w->hp.n_ctx * (double)w->hp.n_head * w->hp.head_dim;
}
