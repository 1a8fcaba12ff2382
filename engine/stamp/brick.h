/* SPDX-License-Identifier: MIT
 *
 * Bricks: the pieces of work that the forward pass is profiled in. A brick is one byte, so that looking one
 * up is an array's index.
 *
 * Numbers 0 to 14 are those of other profilers of this family and never change; after them come the bricks
 * that only a ternary network has, and then names that a program interns before it measures.
 */
#ifndef BN_STAMP_BRICK_H
#define BN_STAMP_BRICK_H

#include "bn.h"

/* The recorded events: profiler.h. */
typedef struct bn_prof bn_prof;

enum bn_brick_category {
    BN_CATEGORY_NORM,
    BN_CATEGORY_ATTENTION,
    BN_CATEGORY_FFN,
    BN_CATEGORY_HEAD, /* embedding and head: the two ends of the network */
    BN_CATEGORY_OTHER,
    BN_CATEGORY_COUNT
};

/* X(constant, name, category, other names that mean it) */
#define BN_BRICKS(X)                                                                             \
    X(RMS_NORM, "RmsNorm", NORM, "norm")                                                         \
    X(LAYER_NORM, "LayerNorm", NORM, "")                                                         \
    X(QKV_PROJECTION, "QkvProjection", ATTENTION, "qkv")                                         \
    X(ROPE_EMBEDDING, "RopeEmbedding", ATTENTION, "rope")                                        \
    X(ATTENTION_SCORE, "AttentionScore", ATTENTION, "score")                                     \
    X(ATTENTION_SOFTMAX, "AttentionSoftmax", ATTENTION, "softmax")                               \
    X(ATTENTION_OUTPUT, "AttentionOutput", ATTENTION, "values")                                  \
    X(OUTPUT_PROJECTION, "OutputProjection", ATTENTION, "oproj")                                 \
    X(GATE_PROJECTION, "GateProjection", FFN, "gate")                                            \
    X(UP_PROJECTION, "UpProjection", FFN, "up")                                                  \
    X(ACTIVATION, "Activation", FFN, "silu gelu relu relu2")                                     \
    X(DOWN_PROJECTION, "DownProjection", FFN, "down")                                            \
    X(EMBEDDING, "Embedding", HEAD, "embed")                                                     \
    X(LM_HEAD, "LmHead", HEAD, "head")                                                           \
    X(SAMPLING, "Sampling", OTHER, "sample")                                                     \
    /* ---- additional bricks of a ternary network and of this engine ---- */                    \
    X(ACTIVATION_QUANTIZE, "ActivationQuantize", OTHER, "quantize") /* to int8 */                \
    X(KV_STORE, "KvStore", ATTENTION, "kv")                                                      \
    X(ATTENTION, "Attention", ATTENTION, "") /* all of a thread's heads */                       \
    X(RESIDUAL_ADD, "ResidualAdd", OTHER, "residual")                                            \
    X(HEAD_SCREEN, "HeadScreen", HEAD, "screen") /* bounds of all logits */                      \
    X(BARRIER_WAIT, "BarrierWait", OTHER, "barrier")                                             \
    X(TEAM, "Team", OTHER, "")   /* starting the threads of a pass, and joining */               \
    X(LAYER, "Layer", OTHER, "") /* a whole layer; at the level of layers only */                \
    X(EMIT, "Emit", OTHER, "")   /* a token's digest and its text, to the caller */              \
    X(CONVOLUTION, "Convolution", ATTENTION, "conv")                                             \
    X(DELTA_RULE, "DeltaRule", ATTENTION, "delta")                                               \
    X(HEAD_GATE, "HeadGate", ATTENTION, "")    /* gates of heads, and norms of recurrent ones */ \
    X(ROUTER, "Router", FFN, "router experts") /* the choice of experts */                       \
    X(EXCHANGE, "Exchange", OTHER, "")         /* between ranks */

enum bn_brick {
#define X(constant, name, category, aliases) BN_BRICK_##constant,
    BN_BRICKS(X)
#undef X
        BN_BRICK_KNOWN
};

#define BN_BRICK_COUNT ((unsigned)BN_BRICK_SAMPLING + 1u) /* of those whose numbers are fixed */
#define BN_BRICK_MAX 64u                                  /* with those interned at run time */
#define BN_BRICK_NONE 255u

_Static_assert(BN_BRICK_COUNT == 15, "the bricks with fixed numbers");
_Static_assert(BN_BRICK_RMS_NORM == 0 && BN_BRICK_QKV_PROJECTION == 2 && BN_BRICK_OUTPUT_PROJECTION == 7 &&
                   BN_BRICK_DOWN_PROJECTION == 11 && BN_BRICK_SAMPLING == 14,
               "their numbers");
_Static_assert(BN_BRICK_KNOWN < BN_BRICK_MAX && BN_BRICK_MAX < BN_BRICK_NONE, "a brick is one byte");

/* Of the known ones; NULL and BN_CATEGORY_OTHER for others. */
const char *bn_brick_name(unsigned brick);
enum bn_brick_category bn_brick_category(unsigned brick);
/* "Norm", "Attention", "FFN", "Head", "Other". */
const char *bn_brick_category_name(enum bn_brick_category category);
/* By name or alias, in upper or lower case; BN_BRICK_NONE when no known brick is called that. */
unsigned bn_brick_find(const char *name);

#endif
