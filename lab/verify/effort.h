/* SPDX-License-Identifier: MIT
 *
 * The work that a receipt claims, as the rules about work share it: the shape of the model, and how often it was
 * evaluated.
 */
#ifndef BN_VERIFY_EFFORT_H
#define BN_VERIFY_EFFORT_H

#include "infer/session.h"
#include "lab/verify/checks.h"

typedef unsigned long long ull;

struct bn_shape {
    uint64_t n_embd, n_layer, n_ff, n_head, n_head_kv, head_dim, n_rot, n_vocab, ternary_weights,
        ternary_bytes, head_bytes, bytes;
    uint64_t window, local_layers; /* 0: none */
    struct {
        uint64_t layers, taps, head_dim, key_heads, value_heads;
        uint64_t mixed, inner; /* elements of q, k and v together, and of the output */
    } recurrence;              /* layers: 0 without */
    uint64_t attention_layers; /* the others */
    uint64_t rotated_layers;   /* of these, those that rotate */
    struct {
        uint64_t n, used, bytes; /* n: 0 without; bytes: of one expert of one layer */
    } experts;
    uint64_t hidden; /* n_ff, of all experts that a token uses */
};

/* The work that a receipt claims: on which shape, and how often. */
struct bn_effort {
    struct bn_shape shape;
    bn_work work;
    /* Passes with drafts leave the state of recurrent layers as it was; then their first token and the drafted ones that
     * were right update it. */
    uint64_t updates, updated_tokens;
};

/* Reads the shape: false, with the reason, when a number is missing or impossible. */
bool bn_shape_read(const struct bn_rules_input *in, struct bn_shape *s, struct bn_rule_result *out);
/* The same, and how often the model was evaluated: as the number of tokens says, or measurement.work. */
bool bn_effort_read(const struct bn_rules_input *in, struct bn_effort *e, struct bn_rule_result *out);

/* Products and sums of claims stay at UINT64_MAX once they exceed a number. */
uint64_t bn_times(uint64_t a, uint64_t b);
uint64_t bn_plus(uint64_t a, uint64_t b);
/* Compares one number with what it must be. */
bool bn_agrees(const char *what, uint64_t claimed, uint64_t want, struct bn_rule_result *out);
/* Pairs of a token and one that it attends to, over all heads of all layers. */
uint64_t bn_attended(const struct bn_effort *e);

#endif
