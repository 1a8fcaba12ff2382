/* SPDX-License-Identifier: MIT
 *
 * The feed-forward half of a layer with experts on a device: the stages of engine/infer/experts.c as launches of kernels. A
 * pair is a token and one of its experts; the pairs of a token are neighbours, in the order of the experts' numbers.
 */
#include "opencl/pass.h"

static void choose(const struct bn_cl_pass *p)
{
    struct bn_device_session *d = p->d;
    const struct bn_experts *experts = &p->hp->experts;
    const struct bn_cl_arg args[] = {BN_CL_MEM(d->router), BN_CL_U32(experts->n), BN_CL_U32(experts->n_used),
                                     BN_CL_MEM(d->experts), BN_CL_MEM(d->weights)};
    bn_cl_run_rows(p, BN_CL_choose_experts, p->n, args, BN_ARRAY_LEN(args),
                   bn_cl_work(p, BN_KERNEL_SOFTMAX, 0, (uint64_t)p->n * experts->n));
}

/* y of each token = the weighted sum of its pairs. */
static void sum(const struct bn_cl_pass *p)
{
    struct bn_device_session *d = p->d;
    const struct bn_cl_arg args[] = {BN_CL_MEM(d->y),         BN_CL_U32(d->ld_y),
                                     BN_CL_MEM(d->parts),     BN_CL_U32(d->ld_y),
                                     BN_CL_MEM(d->weights),   BN_CL_U32(p->hp->experts.n_used),
                                     BN_CL_U32(p->hp->n_embd)};
    bn_cl_run_columns(p, BN_CL_sum_experts, p->hp->n_embd, p->n, args, BN_ARRAY_LEN(args),
                      bn_cl_work(p, BN_KERNEL_COUNT, 0, 0));
}

void bn_cl_layer_experts(struct bn_cl_pass *p, uint32_t n)
{
    struct bn_device_session *d = p->d;
    const struct bn_cl_layer *l = &d->device->layers[n];
    size_t embd = p->hp->n_embd, ff = p->hp->n_ff, k = p->hp->experts.n_used, n_experts = p->hp->experts.n;
    int32_t layer = (int32_t)n;
    struct bn_cl_inputs stream = bn_cl_stream(p, l->ffn_norm);
    stream.next = &l->gate_up[0];
    bn_cl_prepare(p, stream, (struct bn_cl_ops){"ffn_norm", "ffn_gate_norm_in"}, layer);
    bn_cl_multiply_floats(p, l->router, false, n_experts * embd * sizeof(float), n_experts, embd, d->norm,
                          d->ld_norm, d->router, n_experts, p->n);
    bn_cl_trace(p, "router", layer, d->router, 0, n_experts, n_experts);
    choose(p);
    bn_cl_trace(p, "expert_weights", layer, d->weights, 0, k, k);
    bn_cl_read(p->q, d->host_experts + n * d->most_pairs, d->experts, 0, p->n * k * sizeof(cl_uint));
    bn_cl_multiply_experts(p, &l->gate_up[0], d->gate_up, d->ld_gate_up, 0, ff, k);
    bn_cl_multiply_experts(p, &l->gate_up[1], d->gate_up, d->ld_gate_up, d->up_at, ff, k);
    struct bn_cl_inputs in = {.x = d->gate_up,
                              .n = p->n * k,
                              .width = ff,
                              .ld = d->ld_gate_up,
                              .activates = true,
                              .next = &l->down};
    if (d->traced != NULL) {
        struct bn_cl_inputs first = in;
        first.next = NULL;
        bn_cl_prepare_rows(p, &first);
        in.activates = false;
        bn_cl_trace_pieces(p, "ffn_act", layer, d->gate_up, 0, k * d->ld_gate_up, k, d->ld_gate_up, ff);
    }
    bn_cl_prepare_rows(p, &in);
    bn_cl_multiply_experts(p, &l->down, d->parts, d->ld_y, 0, embd, 1);
    sum(p);
    bn_cl_trace(p, "down", layer, d->y, 0, d->ld_y, embd);
    bn_cl_add_residual(p, NULL, (struct bn_cl_ops){"post_ffw_norm", "ffn_res"}, layer);
}
