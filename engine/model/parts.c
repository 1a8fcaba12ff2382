/* SPDX-License-Identifier: MIT
 *
 * The table of the parts of layers; see hparams.h. Some tensors are only in the files of some architectures.
 */
#include "model/hparams.h"

#include <stdio.h>

#include "model/model.h"

#define AT(member) offsetof(struct bn_layer, member)
const struct bn_layer_part bn_parts[] = {
    {"attn_norm", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_ALL, AT(attn_norm), false},
    {"attn_q_norm_in", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_INPUT_NORMS, AT(q.input_norm), false},
    {"attn_q", BN_PART_LINEAR, BN_W_EMBD, BN_W_GATED_Q, BN_OF_ATTENTION, AT(q), false},
    {"attn_qkv", BN_PART_LINEAR, BN_W_EMBD, BN_W_MIX, BN_OF_RECURRENT, AT(recurrent.mix), false},
    {"attn_gate", BN_PART_LINEAR, BN_W_EMBD, BN_W_INNER, BN_OF_RECURRENT, AT(recurrent.z), false},
    {"ssm_conv1d", BN_PART_CONV, BN_W_TAPS, BN_W_MIX, BN_OF_RECURRENT, AT(recurrent.conv), false},
    {"ssm_dt", BN_PART_BIAS, BN_W_VALUE_HEADS, BN_W_ONE, BN_OF_RECURRENT, AT(recurrent.dt), false},
    {"ssm_a", BN_PART_RATE, BN_W_VALUE_HEADS, BN_W_ONE, BN_OF_RECURRENT, AT(recurrent.a), false},
    {"ssm_alpha", BN_PART_SIDE, BN_W_EMBD, BN_W_VALUE_HEADS, BN_OF_RECURRENT, AT(recurrent.alpha), false},
    {"ssm_beta", BN_PART_SIDE, BN_W_EMBD, BN_W_VALUE_HEADS, BN_OF_RECURRENT, AT(recurrent.beta), false},
    {"ssm_norm", BN_PART_NORM, BN_W_STATE, BN_W_ONE, BN_OF_RECURRENT, AT(recurrent.norm), false},
    {"ssm_out", BN_PART_LINEAR, BN_W_INNER, BN_W_EMBD, BN_OF_RECURRENT, AT(o), true},
    {"attn_q_norm", BN_PART_NORM, BN_W_HEAD, BN_W_ONE, BN_OF_HEAD_NORMS, AT(q_norm), false},
    {"attn_k_norm_in", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_INPUT_NORMS, AT(k.input_norm), false},
    {"attn_k", BN_PART_LINEAR, BN_W_EMBD, BN_W_KV, BN_OF_ATTENTION, AT(k), false},
    {"attn_k_norm", BN_PART_NORM, BN_W_HEAD, BN_W_ONE, BN_OF_HEAD_NORMS, AT(k_norm), false},
    {"attn_v_norm_in", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_INPUT_NORMS, AT(v.input_norm), false},
    {"attn_v", BN_PART_LINEAR, BN_W_EMBD, BN_W_KV, BN_OF_ATTENTION, AT(v), false},
    {"attn_sub_norm", BN_PART_NORM, BN_W_Q, BN_W_ONE, BN_OF_SUB_NORMS, AT(o.input_norm), false},
    {"attn_output_norm_in", BN_PART_NORM, BN_W_Q, BN_W_ONE, BN_OF_INPUT_NORMS, AT(o.input_norm), false},
    {"attn_output", BN_PART_LINEAR, BN_W_Q, BN_W_EMBD, BN_OF_ATTENTION, AT(o), true},
    {"post_attention_norm", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_POST_NORMS, AT(post_attn_norm), false},
    {"post_attention_norm", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_HYBRIDS, AT(ffn_norm), false},
    {"ffn_norm", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_OTHERS, AT(ffn_norm), false},
    {"ffn_gate_norm_in", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_INPUT_NORMS, AT(gate.input_norm), false},
    {"ffn_gate", BN_PART_LINEAR, BN_W_EMBD, BN_W_FF, BN_OF_DENSE, AT(gate), false},
    {"ffn_gate_inp", BN_PART_ROUTER, BN_W_EMBD, BN_W_EXPERTS, BN_OF_EXPERTS, AT(router), false},
    {"ffn_gate_exps", BN_PART_LINEAR, BN_W_EMBD, BN_W_FF, BN_OF_EXPERTS, AT(gate), false},
    {"ffn_up_norm_in", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_INPUT_NORMS, AT(up.input_norm), false},
    {"ffn_up", BN_PART_LINEAR, BN_W_EMBD, BN_W_FF, BN_OF_DENSE, AT(up), false},
    {"ffn_up_exps", BN_PART_LINEAR, BN_W_EMBD, BN_W_FF, BN_OF_EXPERTS, AT(up), false},
    {"ffn_sub_norm", BN_PART_NORM, BN_W_FF, BN_W_ONE, BN_OF_SUB_NORMS, AT(down.input_norm), false},
    {"ffn_down_norm_in", BN_PART_NORM, BN_W_FF, BN_W_ONE, BN_OF_INPUT_NORMS, AT(down.input_norm), false},
    {"ffn_down", BN_PART_LINEAR, BN_W_FF, BN_W_EMBD, BN_OF_DENSE, AT(down), true},
    {"ffn_down_exps", BN_PART_LINEAR, BN_W_FF, BN_W_EMBD, BN_OF_EXPERTS, AT(down), false},
    {"post_ffw_norm", BN_PART_NORM, BN_W_EMBD, BN_W_ONE, BN_OF_POST_NORMS, AT(post_ffn_norm), false},
    {NULL, BN_PART_NORM, BN_W_ONE, BN_W_ONE, BN_OF_ALL, 0, false},
};

bool bn_part_is_in(const struct bn_layer_part *part, const bn_hparams *hp, uint32_t layer)
{
    const bool recurrent = bn_hparams_is_recurrent(hp, layer);
    const bool is_in[] = {
        [BN_OF_ALL] = true,
        [BN_OF_ATTENTION] = !recurrent,
        [BN_OF_RECURRENT] = recurrent,
        [BN_OF_HYBRIDS] = hp->recurrence.n_taps != 0,
        [BN_OF_OTHERS] = hp->recurrence.n_taps == 0,
        [BN_OF_SUB_NORMS] = hp->sub_norms,
        [BN_OF_HEAD_NORMS] = hp->head_norms && !recurrent,
        [BN_OF_POST_NORMS] = hp->post_norms,
        [BN_OF_INPUT_NORMS] = hp->input_norms,
        [BN_OF_DENSE] = hp->experts.n == 0,
        [BN_OF_EXPERTS] = hp->experts.n != 0,
    };
    return is_in[part->of];
}

uint64_t bn_width(const bn_hparams *hp, enum bn_width width)
{
    const uint64_t q = (uint64_t)hp->n_head * hp->head_dim;
    const uint64_t widths[] = {
        [BN_W_ONE] = 1,
        [BN_W_EMBD] = hp->n_embd,
        [BN_W_HEAD] = hp->head_dim,
        [BN_W_Q] = q,
        [BN_W_GATED_Q] = hp->gated_heads ? 2 * q : q,
        [BN_W_KV] = (uint64_t)hp->n_head_kv * hp->head_dim,
        [BN_W_FF] = hp->n_ff,
        [BN_W_MIX] = bn_hparams_mixed(hp),
        [BN_W_INNER] = bn_hparams_inner(hp),
        [BN_W_VALUE_HEADS] = hp->recurrence.n_value_heads,
        [BN_W_STATE] = hp->recurrence.head_dim,
        [BN_W_TAPS] = hp->recurrence.n_taps,
        [BN_W_EXPERTS] = hp->experts.n,
    };
    return widths[width];
}

void bn_part_name(char out[BN_PART_NAME_ROOM], const struct bn_layer_part *part, uint32_t layer)
{
    const char *end = part->kind == BN_PART_RATE ? "" : part->kind == BN_PART_BIAS ? ".bias" : ".weight";
    snprintf(out, BN_PART_NAME_ROOM, "blk.%u.%s%s", layer, part->name, end);
}

bool bn_part_is_linear(const char *name)
{
    char wanted[BN_PART_NAME_ROOM];
    unsigned layer;
    if (sscanf(name, "blk.%u.", &layer) != 1) return false;
    for (const struct bn_layer_part *p = bn_parts; p->name != NULL; p++) {
        bn_part_name(wanted, p, layer);
        if (p->kind == BN_PART_LINEAR && strcmp(wanted, name) == 0) return true;
    }
    return false;
}
