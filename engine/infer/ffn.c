/* SPDX-License-Identifier: MIT
 *
 * The feed-forward half of a layer.
 */
#include "infer/stages.h"

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
    bn_project(p, BN_BRICK_UP_PROJECTION, &l->up, s->up);
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
