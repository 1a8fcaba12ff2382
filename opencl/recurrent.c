/* SPDX-License-Identifier: MIT
 *
 * The recurrent half of a layer on a device: the stages of engine/infer/recurrent.c as launches of kernels.
 */
#include <math.h>

#include "opencl/pass.h"

struct shape {
    size_t taps, width, d, n_keys, n_heads,
        state; /* state: where that of the layer begins in that of a sequence */
};

static struct shape shape_of(const struct bn_cl_pass *p, uint32_t n)
{
    const struct bn_recurrence *r = &p->hp->recurrence;
    return (struct shape){.taps = r->n_taps,
                          .width = bn_hparams_mixed(p->hp),
                          .d = r->head_dim,
                          .n_keys = r->n_key_heads,
                          .n_heads = r->n_value_heads,
                          .state = p->s->model->layers[n].nth * bn_layer_state(p->hp)};
}

/* alpha and beta, which become gates. */
static void make_gates(const struct bn_cl_pass *p, const struct bn_cl_layer *l, const struct shape *at)
{
    struct bn_device_session *d = p->d;
    size_t embd = p->hp->n_embd, rows = 2 * at->n_heads;
    bn_cl_multiply_floats(p, l->alpha_beta, false, rows * embd * sizeof(float), rows, embd, d->norm,
                          d->ld_norm, d->gates, rows, p->n);
    const struct bn_cl_arg args[] = {BN_CL_MEM(d->gates), BN_CL_U32(p->n), BN_CL_U32(at->n_heads),
                                     BN_CL_MEM(l->rate), BN_CL_MEM(l->bias)};
    bn_cl_run_columns(p, BN_CL_make_gates, p->n * at->n_heads, 1, args, BN_ARRAY_LEN(args),
                      bn_cl_work(p, BN_KERNEL_COUNT, 0, 0));
}

static void convolve(const struct bn_cl_pass *p, const struct bn_cl_layer *l, const struct shape *at)
{
    struct bn_device_session *d = p->d;
    cl_mem states = d->states.buffer[0];
    const struct bn_cl_arg args[] = {BN_CL_MEM(d->conv),  BN_CL_U32(at->width), BN_CL_MEM(d->in),
                                     BN_CL_U32(d->ld_in), BN_CL_MEM(l->conv),   BN_CL_MEM(d->rows),
                                     BN_CL_MEM(states),   BN_CL_U32(at->state), BN_CL_U32(at->taps),
                                     BN_CL_U32(at->width)};
    bn_cl_run_columns(p, BN_CL_convolve, at->width, p->n, args, BN_ARRAY_LEN(args),
                      bn_cl_work(p, BN_KERNEL_CONV_SILU, 0, (uint64_t)p->n * at->width * at->taps));
    const struct bn_cl_arg keep[] = {BN_CL_MEM(states),   BN_CL_MEM(d->in),     BN_CL_U32(d->ld_in),
                                     BN_CL_MEM(d->rows),  BN_CL_U32(at->state), BN_CL_U32(at->taps),
                                     BN_CL_U32(at->width)};
    bn_cl_run_columns(p, BN_CL_keep_rows, at->width, p->n, keep, BN_ARRAY_LEN(keep),
                      bn_cl_work(p, BN_KERNEL_COUNT, 0, 0));
}

static void normalise_heads(const struct bn_cl_pass *p, const struct shape *at)
{
    struct bn_device_session *d = p->d;
    const struct bn_cl_arg args[] = {BN_CL_MEM(d->conv),        BN_CL_U32(at->width),
                                     BN_CL_U32(at->n_keys),     BN_CL_U32(at->d),
                                     BN_CL_F32(p->hp->rms_eps), BN_CL_F32(1.0f / sqrtf((float)at->d))};
    bn_cl_run_rows(p, BN_CL_normalise_heads, p->n * 2 * at->n_keys, args, BN_ARRAY_LEN(args),
                   bn_cl_work(p, BN_KERNEL_COUNT, 0, 0));
}

static void update(const struct bn_cl_pass *p, const struct bn_layer *l, const struct shape *at)
{
    struct bn_device_session *d = p->d;
    size_t inner = at->n_heads * at->d, n_runs = 0;
    for (size_t j = 0; j < p->n; j++)
        n_runs += j == 0 || p->rows[j].sequence != p->rows[j - 1].sequence;
    const struct bn_cl_arg args[] = {BN_CL_MEM(d->states.buffer[0]),
                                     BN_CL_U32(at->state + bn_conv_state(p->hp)),
                                     BN_CL_MEM(d->rows),
                                     BN_CL_MEM(d->conv),
                                     BN_CL_U32(at->width),
                                     BN_CL_MEM(d->gates),
                                     BN_CL_MEM(d->att),
                                     BN_CL_U32(d->ld_att),
                                     BN_CL_U32(at->n_keys),
                                     BN_CL_U32(at->n_heads),
                                     BN_CL_U32(at->d),
                                     BN_CL_U32(l->recurrent.grouped)};
    bn_cl_run_columns(p, BN_CL_delta, inner, p->n, args, BN_ARRAY_LEN(args),
                      bn_cl_work(p, BN_KERNEL_DELTA, n_runs * inner * at->d * 2 * sizeof(float),
                                 (uint64_t)p->n * at->d * inner * 3));
}

static void gate_heads(const struct bn_cl_pass *p, const struct bn_cl_layer *l, const struct bn_layer *layer,
                       const struct shape *at)
{
    struct bn_device_session *d = p->d;
    uint64_t elements = (uint64_t)p->n * at->n_heads * at->d;
    const struct bn_cl_arg args[] = {BN_CL_MEM(d->att),         BN_CL_U32(d->ld_att),
                                     BN_CL_MEM(d->in),          BN_CL_U32(d->ld_in),
                                     BN_CL_U32(l->in[0].at[1]), BN_CL_MEM(l->head_norm),
                                     BN_CL_U32(at->d),          BN_CL_U32(at->n_heads),
                                     BN_CL_U32(at->n_keys),     BN_CL_U32(layer->recurrent.grouped),
                                     BN_CL_F32(p->hp->rms_eps)};
    bn_cl_count(p, BN_KERNEL_RMSNORM, elements);
    bn_cl_run_rows(p, BN_CL_gate_heads, p->n * at->n_heads, args, BN_ARRAY_LEN(args),
                   bn_cl_work(p, BN_KERNEL_SILU_MUL, 0, elements));
}

void bn_cl_layer_recurrent(struct bn_cl_pass *p, uint32_t n)
{
    static const char *const IN_OPS[] = {"attn_qkv_norm_in"}, *const OPS[] = {"mix", "z"};
    struct bn_device_session *d = p->d;
    const struct bn_cl_layer *l = &d->device->layers[n];
    const struct bn_layer *layer = &p->s->model->layers[n];
    const struct shape at = shape_of(p, n);
    bn_cl_project(p, l->in, l->n_in, bn_cl_stream(p, l->attn_norm), d->in, d->ld_in, "attn_norm", IN_OPS, OPS,
                  (int32_t)n);
    make_gates(p, l, &at);
    convolve(p, l, &at);
    bn_cl_trace(p, "conv", (int32_t)n, d->conv, 0, at.width, at.width);
    normalise_heads(p, &at);
    update(p, layer, &at);
    gate_heads(p, l, layer, &at);
    bn_cl_project_heads(p, n);
}
