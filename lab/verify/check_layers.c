/* SPDX-License-Identifier: MIT
 *
 * The rule about the work of the small kernels: norms, positions, activations, sums.
 */
#include <stdio.h>

#include "kernels/kernels.h"
#include "lab/verify/checks.h"

/* What one kind of kernel must have done. */
struct part {
    const char *what;
    struct bn_receipt_work done;
    ull width;   /* elements of a token, in all layers */
    ull calls;   /* of a pass */
    ull n_bytes; /* an element */
    ull once;    /* elements of each pass that ends in the head, which is one more call */
};

static bool part_agrees(const struct bn_check *c, const struct bn_effort *e, const struct part *part)
{
    ull elements = bn_plus(bn_times(e->work.tokens, part->width), bn_times(e->work.heads, part->once));
    const struct {
        const char *of;
        ull claimed, want;
    } COUNTS[] = {{"elements", part->done.ops, elements},
                  {"bytes", part->done.bytes, bn_times(elements, part->n_bytes)},
                  {"calls", part->done.calls,
                   bn_plus(bn_times(e->work.passes, part->calls), part->once > 0 ? e->work.head_passes : 0)}};
    for (size_t i = 0; i < BN_ARRAY_LEN(COUNTS); i++) {
        char what[64];
        snprintf(what, sizeof what, "%s of %s", COUNTS[i].of, part->what);
        if (!bn_agrees(c, what, COUNTS[i].claimed, COUNTS[i].want)) return false;
    }
    return true;
}

/* The rows of the embedding are widened, unless they are stored in binary32. */
static bool embedding_agrees(const struct bn_check *c, const struct bn_effort *e)
{
    struct bn_receipt_work done =
        BN_WORK(c, BN_KERNEL_F16_TO_F32, BN_KERNEL_BF16_TO_F32, BN_KERNEL_Q8_0_TO_F32, BN_KERNEL_Q6_K_TO_F32,
                BN_KERNEL_Q4_0_TO_F32);
    ull want = bn_times(e->work.tokens, c->k->model.n_embd);
    if (done.calls == 0) return true;
    if (!bn_agrees(c, "calls of the embedding", done.calls, e->work.passes)) return false;
    if (!bn_agrees(c, "elements of the embedding", done.ops, want)) return false;
    if (done.bytes >= want / 2 && done.bytes / 2 <= want) return true;
    return bn_rule_fail(c, "%llu elements of the embedding in %llu bytes", want, (ull)done.bytes);
}

/* The norms of all layers: calls, and elements of a token. */
struct norms {
    ull calls, width;
    bool each_input; /* of each linear layer, so that each quantises its own inputs */
};

/* Two are before attention and the feed-forward part. An architecture may add: one of all heads of q and k; two
 * inside those parts, or one of the inputs of each of the seven linear layers; two of what the parts add. The number
 * of calls tells them apart; with another number the claim is compared with the first row. */
static struct norms norms_of(const struct bn_claims *k, const struct bn_effort *e, ull calls)
{
    ull q_dim = k->model.n_head * k->model.head_dim, kv_dim = k->model.n_head_kv * k->model.head_dim;
    ull heads = q_dim + kv_dim, subs = q_dim + k->model.n_ff, n_embd = k->model.n_embd,
        inputs = 5 * n_embd + subs, post = 2 * n_embd, n_layer = k->model.n_layer;
    const struct norms ROWS[] = {
        {4, subs, false},
        {2, 0, false},
        {3, heads, false},
        {5, heads + post, false},
        {9, inputs, true},
        {10, inputs + heads, true},
        {12, inputs + heads + post, true},
    };
    if (k->recurrence.layers > 0) /* of the heads of both kinds of layers, besides the two */
        return (struct norms){
            3 * n_layer, n_layer * 2 * n_embd + e->attention_layers * heads + k->recurrence.layers * e->inner,
            false};
    struct norms norms = ROWS[0];
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        if (calls == bn_plus(bn_times(e->work.passes, ROWS[i].calls * n_layer), e->work.head_passes))
            norms = ROWS[i];
    norms.width = (norms.width + 2 * n_embd) * n_layer;
    norms.calls *= n_layer;
    return norms;
}

/* The stages of recurrent layers that update their state: the convolution, and three multiply-adds of the gated delta rule
 * for each element of the state and each token. The state is read and written once for each sequence of a pass, so at most
 * once for each token. */
static bool updates_agree(const struct bn_check *c, const struct bn_effort *e)
{
    struct bn_receipt_work delta = BN_WORK(c, BN_KERNEL_DELTA), conv = BN_WORK(c, BN_KERNEL_CONV_SILU);
    ull passes = bn_plus(e->work.passes, e->updates), tokens = bn_plus(e->work.tokens, e->updated_tokens);
    ull n_layers = c->k->recurrence.layers, calls = bn_times(passes, n_layers);
    ull state = bn_times(n_layers, e->inner * c->k->recurrence.head_dim);
    ull taps = bn_times(n_layers, e->mixed * c->k->recurrence.taps);
    if (!bn_agrees(c, "multiply-adds of delta", delta.ops, bn_times(tokens, 3 * state)) ||
        !bn_agrees(c, "calls of delta", delta.calls, calls) ||
        !bn_agrees(c, "elements of conv_silu", conv.ops, bn_times(tokens, taps)) ||
        !bn_agrees(c, "calls of conv_silu", conv.calls, calls) ||
        !bn_agrees(c, "bytes of conv_silu", conv.bytes, 0))
        return false;
    if (delta.bytes >= bn_times(passes, 8 * state) && delta.bytes <= bn_times(tokens, 8 * state)) return true;
    return bn_rule_fail(c, "delta: %llu bytes for %llu passes", (ull)delta.bytes, passes);
}

/* Ranks have whole KV heads, and exchange four rows in each layer of each pass: those of attention, of its output, of the
 * activation, of the down projection. */
static bool ranks_agree(const struct bn_check *c, const struct bn_effort *e)
{
    const struct bn_claims *k = c->k;
    ull n_layer = k->model.n_layer,
        row = k->model.n_head * k->model.head_dim + 2 * k->model.n_embd + k->model.n_ff;
    if (!bn_rule_has(c, "measurement.ranks")) return true;
    if (!bn_rule_needs(c, "measurement: total_ns measurement.ranks: count exchanges bytes ns")) return false;
    if (k->ranks.ns > k->measured.total_ns)
        return bn_rule_fail(c, "ranks exchanged for %llu ns of %llu", k->ranks.ns, k->measured.total_ns);
    if (k->ranks.count == 0 || k->ranks.count > k->model.n_head_kv || k->recurrence.layers > 0)
        return bn_rule_fail(c, "%llu KV heads cannot be divided among %llu ranks", k->model.n_head_kv,
                            k->ranks.count);
    if (k->ranks.exchanges >= bn_times(e->work.passes, 4 * n_layer) &&
        k->ranks.bytes >= bn_times(bn_times(e->work.tokens, n_layer), row * sizeof(float)))
        return true;
    return bn_rule_fail(c, "%llu bytes in %llu exchanges are too few for ranks", k->ranks.bytes,
                        k->ranks.exchanges);
}

bool bn_check_layer_work(const struct bn_check *c)
{
    struct bn_effort e = {0};
    const struct bn_claims *k = c->k;
    if (!bn_effort_read(c, &e)) return false;
    ull n_embd = k->model.n_embd, q_dim = k->model.n_head * k->model.head_dim,
        kv_dim = k->model.n_head_kv * k->model.head_dim;
    struct norms n = norms_of(k, &e, BN_WORK(c, BN_KERNEL_RMSNORM).calls);
    ull n_all = k->model.n_layer, n_attend = e.attention_layers, n_recur = k->recurrence.layers;
    ull inputs = n_all * ((n.each_input ? 5 : 2) * n_embd + e.hidden) + n_attend * q_dim + n_recur * e.inner;
    ull rotated = e.rotated_layers * (k->model.n_head + k->model.n_head_kv) * k->model.n_rot;
    ull gated = n_recur > 0 ? n_attend : 0;
    const struct part PARTS[] = {
        {"quantize", BN_WORK(c, BN_KERNEL_QUANTIZE, BN_KERNEL_QUANTIZE16), inputs,
         n_all * (n.each_input ? 7 : 4), 0, 0},
        {"rmsnorm", BN_WORK(c, BN_KERNEL_RMSNORM), n.width, n.calls, 0, n_embd},
        {"rope", BN_WORK(c, BN_KERNEL_ROPE_NEOX, BN_KERNEL_ROPE_NORM), rotated, n_attend, 0, 0},
        {"the activation", BN_WORK(c, BN_KERNEL_RELU2_MUL, BN_KERNEL_SILU_MUL, BN_KERNEL_GELU_MUL),
         n_all * e.hidden + n_recur * e.inner, n_all + n_recur, 0, 0},
        {"add", BN_WORK(c, BN_KERNEL_ADD), n_all * 2 * n_embd, n_all * 2, 0, 0},
        {"f32_to_f16", BN_WORK(c, BN_KERNEL_F32_TO_F16), n_attend * 2 * kv_dim, n_attend, 2, 0},
        {"sigmoid_mul", BN_WORK(c, BN_KERNEL_SIGMOID_MUL), gated * q_dim, gated, 0, 0},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++)
        if (!part_agrees(c, &e, &PARTS[i])) return false;
    /* Those of attention, and probabilities of experts. */
    ull softmax = bn_plus(bn_attended(c, &e), bn_times(e.work.tokens, n_all * k->experts.count));
    if (!bn_agrees(c, "elements of softmax", BN_WORK(c, BN_KERNEL_SOFTMAX).ops, softmax) ||
        !embedding_agrees(c, &e) || !updates_agree(c, &e) || !ranks_agree(c, &e))
        return false;
    if (BN_WORK(c, BN_KERNEL_RESIDUAL, BN_KERNEL_T5_PACK, BN_KERNEL_HAS_CODE3, BN_KERNEL_EXP,
                BN_KERNEL_TO_PLANE, BN_KERNEL_ROTATE, BN_KERNEL_TO_TILES)
            .calls > 0)
        return bn_rule_fail(
            c,
            "residual, t5_pack, has_code3, exp, to_plane, to_tiles and rotate are not counted in a generation");
    return bn_rule_pass(c, "norms, positions, activations and sums of %llu layers", n_all);
}
