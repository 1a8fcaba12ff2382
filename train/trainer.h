/* SPDX-License-Identifier: MIT
 *
 * A training run: weights, moments, and steps over a corpus.
 *
 * A step is n_micro micro-batches; each is n_slices slices of n_sequences windows. One thread computes a micro-batch
 * from beginning to end, and gradients are added along a fixed binary tree whose leaves are the micro-batches. So the
 * settings define every bit of the run, and the numbers of threads and of ranks (ranks.h) do not.
 */
#ifndef BN_TRAIN_TRAINER_H
#define BN_TRAIN_TRAINER_H

#include "train/adam.h"
#include "train/data.h"
#include "train/weights.h"

/* What defines a run, with the two corpora. */
struct bn_train_settings {
    bn_hparams hp; /* n_ctx: tokens of a window */
    uint32_t group;
    uint64_t seed;
    uint32_t n_micro, n_slices, n_sequences;
    double late; /* the share of the steps after which the late corpus is used; 1: never */
    struct bn_train_schedule schedule;
};

/* One point of the loss curve: after a step, or a validation. */
struct bn_train_point {
    double step; /* steps done */
    double loss; /* nats a token: of the step's tokens, or of the validation text */
    double norm; /* of the step's gradient before clipping; -1: a validation */
};

struct bn_train_curve {
    struct bn_train_point *points;
    size_t n, room;
};

/* Where the time of steps goes. */
struct bn_train_times {
    uint64_t forward_ns, backward_ns, reduce_ns; /* of all threads together; reduce: adding gradients */
    uint64_t passes_ns;                          /* by the clock: all passes, until the last thread is done */
    uint64_t optimiser_ns;                       /* by the clock: norm, update and ternarising */
};

struct bn_trainer {
    struct bn_train_settings settings;
    struct bn_weights weights;
    bn_real *moment_1, *moment_2;
    bn_real *scratch; /* of the optimiser; with Muon */
    uint32_t step;    /* steps done */
    struct bn_train_curve curve;
    struct bn_team *team;
    struct bn_pass **passes; /* one for each thread */
    struct bn_tree *tree;
    struct bn_train_ranks *ranks; /* NULL: alone */
    struct bn_train_times times;  /* of all steps so far */
};

/* Sets what the architecture decides: "bitnet-b1.58" or "qwen3". Sizes are there already. */
BN_MUST_CHECK bn_status bn_train_architecture(bn_hparams *hp, const char *name, bn_error *err);

/* A run before its first step. n_threads may differ between parts of a run. */
BN_MUST_CHECK bn_status bn_trainer_open(struct bn_trainer *t, const struct bn_train_settings *settings,
                                        unsigned n_threads, bn_error *err);
void bn_trainer_close(struct bn_trainer *t);
/* Bytes by purpose. Gradients are the buffers so far; activations include what passes compute with. */
struct bn_train_memory {
    uint64_t masters, moments, ternary, gradients, activations;
};
struct bn_train_memory bn_trainer_memory(const struct bn_trainer *t);
/* Tokens of one step. */
uint64_t bn_train_step_tokens(const struct bn_train_settings *s);
/* Whether the next step uses the late corpus. */
bool bn_trainer_is_late(const struct bn_trainer *t);

/* One step; appends a point to the curve. When loss or gradient are not finite the weights stay as they were and
 * *finite is false. */
BN_MUST_CHECK bn_status bn_trainer_step(struct bn_trainer *t, const struct bn_corpus *main,
                                        const struct bn_corpus *late, bool *finite, bn_error *err);

/* The negative log likelihood of ids, in windows of n_ctx tokens, the first token of each window unscored, as
 * bn-run score --ctx has it. */
struct bn_train_score {
    double nats; /* the sum */
    uint64_t n_scored;
};
BN_MUST_CHECK bn_status bn_trainer_score(struct bn_trainer *t, const int32_t *ids, size_t n_ids,
                                         struct bn_train_score *out, bn_error *err);
BN_MUST_CHECK bn_status bn_train_curve_add(struct bn_train_curve *curve, struct bn_train_point point,
                                           bn_error *err);

#endif
