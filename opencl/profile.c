/* SPDX-License-Identifier: MIT
 *
 * The launches of a pass as events of a profile, on the trail of the first thread. Their times are by the clock of the
 * device, which has another zero than the host's: one offset for each pass makes the moment at which the device says that
 * the first kernel was enqueued the one at which the host began to enqueue.
 */
#include "opencl/pass.h"

/* Of the kernels whose place in the layer does not matter; BN_BRICK_NONE: of a matrix, or of prepare. */
static enum bn_brick brick_of(enum bn_cl_kernel kernel)
{
    static const unsigned char BRICKS[BN_CL_KERNEL_COUNT] = {
        [BN_CL_prepare] = BN_BRICK_NONE,
        [BN_CL_ternary_gemv] = BN_BRICK_NONE,
        [BN_CL_ternary_gemm] = BN_BRICK_NONE,
        [BN_CL_rope_store] = BN_BRICK_ROPE_EMBEDDING,
        [BN_CL_attn_scores] = BN_BRICK_ATTENTION_SCORE,
        [BN_CL_attn_softmax] = BN_BRICK_ATTENTION_SOFTMAX,
        [BN_CL_attn_values] = BN_BRICK_ATTENTION_OUTPUT,
        [BN_CL_f16_gemm] = BN_BRICK_NONE,
        [BN_CL_f32_gemm] = BN_BRICK_NONE,
        [BN_CL_finite] = BN_BRICK_LM_HEAD,
        [BN_CL_make_gates] = BN_BRICK_DELTA_RULE,
        [BN_CL_convolve] = BN_BRICK_CONVOLUTION,
        [BN_CL_keep_rows] = BN_BRICK_CONVOLUTION,
        [BN_CL_normalise_heads] = BN_BRICK_HEAD_GATE,
        [BN_CL_delta] = BN_BRICK_DELTA_RULE,
        [BN_CL_gate_heads] = BN_BRICK_HEAD_GATE,
        [BN_CL_choose_experts] = BN_BRICK_ROUTER,
        [BN_CL_sum_experts] = BN_BRICK_DOWN_PROJECTION,
    };
    return (enum bn_brick)BRICKS[kernel];
}

/* What prepare does counts as the last thing that it does. */
static enum bn_brick brick_of_prepare(enum bn_kernel slot)
{
    if (slot == BN_KERNEL_QUANTIZE || slot == BN_KERNEL_QUANTIZE16) return BN_BRICK_ACTIVATION_QUANTIZE;
    if (slot == BN_KERNEL_RMSNORM) return BN_BRICK_RMS_NORM;
    return slot == BN_KERNEL_ADD ? BN_BRICK_RESIDUAL_ADD : BN_BRICK_ACTIVATION;
}

/* Where in a layer a launch is: past attention or the delta rule, and past the first matrix after them. */
struct place {
    int32_t layer;
    bool mixed, has_output;
};

/* The brick that a matrix is: the last one of a layer is that of down; gate and up are one matrix. */
static enum bn_brick brick_of_matrix(const struct bn_cl_queue *q, size_t i, struct place *at)
{
    const struct bn_cl_launch *l = &q->launches[i];
    bool is_ternary = l->kernel == BN_CL_ternary_gemv || l->kernel == BN_CL_ternary_gemm;
    if (l->layer < 0) return BN_BRICK_LM_HEAD;
    if (!at->mixed) return BN_BRICK_QKV_PROJECTION;
    if (!is_ternary) return BN_BRICK_ROUTER;
    if (!at->has_output) {
        at->has_output = true;
        return BN_BRICK_OUTPUT_PROJECTION;
    }
    for (i++; i < q->n_launches && q->launches[i].layer == l->layer; i++)
        if (q->launches[i].kernel == l->kernel) return BN_BRICK_GATE_PROJECTION;
    return BN_BRICK_DOWN_PROJECTION;
}

/* rows * cols * n is the count of operations; each is of 32 bits. */
static struct bn_prof_shape shape_of(uint64_t ops, size_t n)
{
    uint64_t cols = 1;
    n = ops % n == 0 ? n : 1;
    for (ops /= n; ops > UINT32_MAX && ops % 2 == 0; ops /= 2)
        cols *= 2;
    return (struct bn_prof_shape){(uint32_t)ops, (uint32_t)cols, (uint32_t)n};
}

void bn_cl_profile(struct bn_session *s, uint64_t enqueued)
{
    const struct bn_cl_queue *q = &s->on_device->queue;
    struct bn_prof *prof = s->prof;
    struct place at = {.layer = -1};
    const uint64_t zero = q->n_launches > 0 ? q->launches[0].queued : 0;
    for (size_t i = 0; bn_prof_trail(prof, 0) != NULL && i < q->n_launches; i++) {
        const struct bn_cl_launch *l = &q->launches[i];
        enum bn_brick brick = brick_of(l->kernel);
        if (l->layer != at.layer) at = (struct place){.layer = l->layer};
        if (l->kernel == BN_CL_prepare)
            brick = brick_of_prepare(l->slot);
        else if (brick == BN_BRICK_NONE)
            brick = brick_of_matrix(q, i, &at);
        at.mixed = at.mixed || l->kernel == BN_CL_attn_values || l->kernel == BN_CL_delta;
        struct bn_prof_launch launch = {.global = {(uint32_t)l->global[0], (uint32_t)l->global[1]},
                                        .local = {(uint32_t)l->local[0], (uint32_t)l->local[1]}};
        const uint64_t times[] = {l->queued, l->submitted, l->started, l->ended};
        uint64_t *const ticks[] = {&launch.queued, &launch.submitted, &launch.started, &launch.ended};
        for (size_t k = 0; k < BN_ARRAY_LEN(times); k++)
            *ticks[k] = enqueued +
                        (uint64_t)((double)(times[k] > zero ? times[k] - zero : 0) / prof->clock.ns_per_tick);
        bn_prof_add_launch(prof, &launch,
                           &(struct bn_prof_event){.bytes = l->bytes,
                                                   .shape = shape_of(l->ops, s->run.n),
                                                   .layer = (int16_t)l->layer,
                                                   .brick = (uint8_t)brick,
                                                   .kernel = (uint8_t)l->slot});
    }
}
