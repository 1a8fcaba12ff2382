/* SPDX-License-Identifier: MIT
 *
 * The rule about the work of the small kernels: norms, positions, activations, sums.
 */
#include <stdio.h>

#include "kernels/kernels.h"
#include "lab/verify/effort.h"

/* What one kind of kernel must have done. */
struct part {
    const char *what;
    enum bn_kernel slots[3];
    size_t n_slots;
    uint64_t width;   /* elements of a token, in all layers */
    uint64_t calls;   /* of a pass */
    uint64_t n_bytes; /* an element */
    uint64_t once;    /* elements of each pass that ends in the head, which is one more call */
};

static bool part_agrees(const struct bn_rules_input *in, const struct bn_effort *e, const struct part *part,
                        struct bn_rule_result *out)
{
    char what[64];
    struct bn_receipt_work done = bn_receipt_work_sum(in, part->slots, part->n_slots);
    uint64_t elements = bn_plus(bn_times(e->work.tokens, part->width), bn_times(e->work.heads, part->once));
    snprintf(what, sizeof what, "elements of %s", part->what);
    if (!bn_agrees(what, done.ops, elements, out)) return false;
    snprintf(what, sizeof what, "bytes of %s", part->what);
    if (!bn_agrees(what, done.bytes, bn_times(elements, part->n_bytes), out)) return false;
    snprintf(what, sizeof what, "calls of %s", part->what);
    return bn_agrees(what, done.calls,
                     bn_plus(bn_times(e->work.passes, part->calls), part->once > 0 ? e->work.head_passes : 0),
                     out);
}

/* The rows of the embedding are widened, unless they are stored in binary32. */
static bool embedding_agrees(const struct bn_rules_input *in, const struct bn_effort *e,
                             struct bn_rule_result *out)
{
    static const enum bn_kernel WIDEN[] = {BN_KERNEL_F16_TO_F32, BN_KERNEL_BF16_TO_F32, BN_KERNEL_Q8_0_TO_F32,
                                           BN_KERNEL_Q6_K_TO_F32, BN_KERNEL_Q4_0_TO_F32};
    struct bn_receipt_work done = bn_receipt_work_sum(in, WIDEN, BN_ARRAY_LEN(WIDEN));
    uint64_t want = bn_times(e->work.tokens, e->shape.n_embd);
    if (done.calls == 0) return true;
    if (!bn_agrees("calls of the embedding", done.calls, e->work.passes, out)) return false;
    if (!bn_agrees("elements of the embedding", done.ops, want, out)) return false;
    if (done.bytes >= want / 2 && done.bytes / 2 <= want) return true;
    return bn_rule_fail(out, "%llu elements of the embedding in %llu bytes", (ull)want, (ull)done.bytes);
}

/* The norms of all layers: calls, and elements of a token. */
struct norms {
    uint64_t calls, width;
    bool each_input; /* of each linear layer, so that each quantises its own inputs */
};

/* Two are before attention and the feed-forward part. An architecture may add: one of all heads of q and k; two
 * inside those parts, or one of the inputs of each of the seven linear layers; two of what the parts add. The number
 * of calls tells them apart; with another number the claim is compared with the first row. */
static struct norms norms_of(const struct bn_shape *s, const struct bn_effort *e, uint64_t calls)
{
    uint64_t q_dim = s->n_head * s->head_dim, kv_dim = s->n_head_kv * s->head_dim;
    uint64_t heads = q_dim + kv_dim, subs = q_dim + s->n_ff, inputs = 5 * s->n_embd + subs,
             post = 2 * s->n_embd;
    const struct norms ROWS[] = {
        {4, subs, false},
        {2, 0, false},
        {3, heads, false},
        {5, heads + post, false},
        {9, inputs, true},
        {10, inputs + heads, true},
        {12, inputs + heads + post, true},
    };
    uint64_t n_recurrent = s->recurrence.layers;
    if (n_recurrent > 0) /* of the heads of both kinds of layers, besides the two */
        return (struct norms){3 * s->n_layer,
                              s->n_layer * 2 * s->n_embd + s->attention_layers * heads +
                                  n_recurrent * s->recurrence.inner,
                              false};
    struct norms norms = ROWS[0];
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        if (calls == bn_plus(bn_times(e->work.passes, ROWS[i].calls * s->n_layer), e->work.head_passes))
            norms = ROWS[i];
    norms.width = (norms.width + 2 * s->n_embd) * s->n_layer;
    norms.calls *= s->n_layer;
    return norms;
}

/* The stages of recurrent layers that update their state: the convolution, and three multiply-adds of the gated delta rule
 * for each element of the state and each token. The state is read and written once for each sequence of a pass, so at most
 * once for each token. */
static bool updates_agree(const struct bn_rules_input *in, const struct bn_effort *e,
                          struct bn_rule_result *out)
{
    static const enum bn_kernel DELTA[] = {BN_KERNEL_DELTA}, CONV[] = {BN_KERNEL_CONV_SILU};
    struct bn_receipt_work delta = bn_receipt_work_sum(in, DELTA, 1), conv = bn_receipt_work_sum(in, CONV, 1);
    uint64_t passes = bn_plus(e->work.passes, e->updates),
             tokens = bn_plus(e->work.tokens, e->updated_tokens);
    uint64_t n_layers = e->shape.recurrence.layers, calls = bn_times(passes, n_layers);
    uint64_t state = bn_times(n_layers, e->shape.recurrence.inner * e->shape.recurrence.head_dim);
    uint64_t taps = bn_times(n_layers, e->shape.recurrence.mixed * e->shape.recurrence.taps);
    if (!bn_agrees("multiply-adds of delta", delta.ops, bn_times(tokens, 3 * state), out) ||
        !bn_agrees("calls of delta", delta.calls, calls, out) ||
        !bn_agrees("elements of conv_silu", conv.ops, bn_times(tokens, taps), out) ||
        !bn_agrees("calls of conv_silu", conv.calls, calls, out) ||
        !bn_agrees("bytes of conv_silu", conv.bytes, 0, out))
        return false;
    if (delta.bytes >= bn_times(passes, 8 * state) && delta.bytes <= bn_times(tokens, 8 * state)) return true;
    return bn_rule_fail(out, "delta: %llu bytes for %llu passes", (ull)delta.bytes, (ull)passes);
}

/* Ranks have whole KV heads, and exchange four rows in each layer of each pass: those of attention, of its output, of the
 * activation, of the down projection. */
static bool ranks_agree(const struct bn_rules_input *in, const struct bn_effort *e,
                        struct bn_rule_result *out)
{
    const struct bn_shape *s = &e->shape;
    uint64_t count, exchanges, bytes, ns, total, row = s->n_head * s->head_dim + 2 * s->n_embd + s->n_ff;
    if (bn_json_path(in->receipt->predicate, "measurement.ranks") == NULL) return true;
    if (!bn_rule_u64(in, "measurement.ranks.count", &count, out) ||
        !bn_rule_u64(in, "measurement.ranks.exchanges", &exchanges, out) ||
        !bn_rule_u64(in, "measurement.ranks.bytes", &bytes, out) ||
        !bn_rule_u64(in, "measurement.ranks.ns", &ns, out) ||
        !bn_rule_u64(in, "measurement.total_ns", &total, out))
        return false;
    if (ns > total) return bn_rule_fail(out, "ranks exchanged for %llu ns of %llu", (ull)ns, (ull)total);
    if (count == 0 || count > s->n_head_kv || s->recurrence.layers > 0)
        return bn_rule_fail(out, "%llu KV heads cannot be divided among %llu ranks", (ull)s->n_head_kv,
                            (ull)count);
    if (exchanges >= bn_times(e->work.passes, 4 * s->n_layer) &&
        bytes >= bn_times(bn_times(e->work.tokens, s->n_layer), row * sizeof(float)))
        return true;
    return bn_rule_fail(out, "%llu bytes in %llu exchanges are too few for ranks", (ull)bytes,
                        (ull)exchanges);
}

/* Elements of softmax: those of attention, and probabilities of experts. */
static bool softmax_agrees(const struct bn_rules_input *in, const struct bn_effort *e,
                           struct bn_rule_result *out)
{
    static const enum bn_kernel SOFTMAX[] = {BN_KERNEL_SOFTMAX};
    uint64_t routed = bn_times(e->work.tokens, e->shape.n_layer * e->shape.experts.n);
    return bn_agrees("elements of softmax", bn_receipt_work_sum(in, SOFTMAX, 1).ops,
                     bn_plus(bn_attended(e), routed), out);
}

bool bn_check_layer_work(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const enum bn_kernel NORM[] = {BN_KERNEL_RMSNORM},
                                NEVER[] = {BN_KERNEL_RESIDUAL, BN_KERNEL_T5_PACK,  BN_KERNEL_HAS_CODE3,
                                           BN_KERNEL_EXP,      BN_KERNEL_TO_PLANE, BN_KERNEL_ROTATE,
                                           BN_KERNEL_TO_TILES};
    struct bn_effort e = {0};
    if (!bn_effort_read(in, &e, out)) return false;
    const struct bn_shape s = e.shape;
    uint64_t q_dim = s.n_head * s.head_dim, kv_dim = s.n_head_kv * s.head_dim;
    struct norms n = norms_of(&s, &e, bn_receipt_work_sum(in, NORM, 1).calls);
    uint64_t n_all = s.n_layer, n_attend = s.attention_layers, n_recur = s.recurrence.layers;
    uint64_t inner = s.recurrence.inner;
    uint64_t inputs =
        n_all * ((n.each_input ? 5 : 2) * s.n_embd + s.hidden) + n_attend * q_dim + n_recur * inner;
    const struct part PARTS[] = {
        {"quantize",
         {BN_KERNEL_QUANTIZE, BN_KERNEL_QUANTIZE16},
         2,
         inputs,
         n_all * (n.each_input ? 7 : 4),
         0,
         0},
        {"rmsnorm", {BN_KERNEL_RMSNORM}, 1, n.width, n.calls, 0, s.n_embd},
        {"rope",
         {BN_KERNEL_ROPE_NEOX, BN_KERNEL_ROPE_NORM},
         2,
         s.rotated_layers * (s.n_head + s.n_head_kv) * s.n_rot,
         n_attend,
         0,
         0},
        {"the activation",
         {BN_KERNEL_RELU2_MUL, BN_KERNEL_SILU_MUL, BN_KERNEL_GELU_MUL},
         3,
         n_all * s.hidden + n_recur * inner,
         n_all + n_recur,
         0,
         0},
        {"add", {BN_KERNEL_ADD}, 1, n_all * 2 * s.n_embd, n_all * 2, 0, 0},
        {"f32_to_f16", {BN_KERNEL_F32_TO_F16}, 1, n_attend * 2 * kv_dim, n_attend, 2, 0},
        {"sigmoid_mul",
         {BN_KERNEL_SIGMOID_MUL},
         1,
         n_recur > 0 ? n_attend * q_dim : 0,
         n_recur > 0 ? n_attend : 0,
         0,
         0},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        if (!part_agrees(in, &e, &PARTS[i], out)) return false;
    if (!softmax_agrees(in, &e, out) || !embedding_agrees(in, &e, out) || !updates_agree(in, &e, out) ||
        !ranks_agree(in, &e, out))
        return false;
    if (bn_receipt_work_sum(in, NEVER, BN_ARRAY_LEN(NEVER)).calls > 0)
        return bn_rule_fail(
            out,
            "residual, t5_pack, has_code3, exp, to_plane, to_tiles and rotate are not counted in a generation");
    return bn_rule_pass(out, "norms, positions, activations and sums of %llu layers", (ull)s.n_layer);
}
