/* SPDX-License-Identifier: MIT
 *
 * A training run: weights, moments, and steps over a corpus.
 *
 * A step is n_micro micro-batches; each is n_slices slices of n_sequences windows. One thread computes a micro-batch
 * from beginning to end, and gradients are added along a fixed binary tree whose leaves are the micro-batches. So the
 * settings define every bit of the run, and the numbers of threads and of ranks (ranks.h) do not.
 *
 * What a model is trained on: the tokens of texts in order, cut into windows. A window is named by its number alone:
 * an epoch visits each window once, in an order that depends on seed and epoch. So a run goes on from any step without
 * a state.
 *
 * The network over a slice: some sequences of equal length, forward, and backward when gradients are wanted. One thread
 * computes a slice from beginning to end, so its bits depend on nothing but weights, tokens and shape.
 */
#ifndef BN_TRAIN_TRAINER_H
#define BN_TRAIN_TRAINER_H

#include "base/digest.h"
#include "bn.h"
#include "train/weights.h"

struct bn_corpus {
    int32_t *ids;
    size_t n, room;
    uint64_t n_bytes;           /* of the texts */
    char sha256[BN_SHA256_HEX]; /* of the ids, as 32-bit little endian numbers; after bn_corpus_finish */
};

/* Appends the tokens of a text `times` times; `end` follows each when it is not -1. */
BN_MUST_CHECK bn_status bn_corpus_add(struct bn_corpus *c, const bn_tokenizer *tok, const char *text,
                                      size_t n_bytes, uint32_t times, int32_t end, bn_error *err);
/* Computes the digest. */
void bn_corpus_finish(struct bn_corpus *c);
void bn_corpus_release(struct bn_corpus *c);

/* Windows of n_tokens in an epoch; 0: the corpus is too short. */
size_t bn_corpus_windows(const struct bn_corpus *c, size_t n_tokens);
/* Window number `index` of the run: n_tokens tokens, and those that follow each. Where the windows of an epoch begin
 * differs between epochs by less than a window. */
void bn_corpus_window(const struct bn_corpus *c, size_t n_tokens, uint64_t seed, uint64_t index,
                      int32_t *tokens, int32_t *targets);
/* Where i is in an order of 0 ... n - 1 that key names. */
uint64_t bn_permute(uint64_t i, uint64_t n, uint64_t key);

struct bn_pass;

/* The memory for slices of n_sequences times hp.n_ctx tokens; `back`: with gradients. */
BN_MUST_CHECK bn_status bn_pass_open(struct bn_pass **out, const struct bn_weights *w, size_t n_sequences,
                                     bool back, bn_error *err);
void bn_pass_close(struct bn_pass *pass);
uint64_t bn_pass_bytes(const struct bn_pass *pass);

#define BN_NO_TARGET (-1)
/* The sum over the tokens of the negative log likelihood of their targets, in nats; tokens whose target is
 * BN_NO_TARGET are left out. Adds the gradient of the sum to grad, which has the layout of the masters; NULL: forward
 * only. */
double bn_pass_run(struct bn_pass *pass, const int32_t *tokens, const int32_t *targets, bn_real *grad);

/* The time of the last run. */
struct bn_pass_times {
    uint64_t forward_ns, backward_ns;
};
struct bn_pass_times bn_pass_times(const struct bn_pass *pass);

/* Floating-point operations of a token, forward and backward, by 6 N + 12 L S d for the matrices' weights N: a third
 * of them is the forward pass. */
double bn_pass_flop(const struct bn_weights *w);

/* ---- optimiser.c ---- */

/* The optimiser: AdamW (Loshchilov, Hutter, 2019) with the two-stage schedule of the BitNet training tips. In stage
 * one the rate rises to `rate` during warm-up and falls in a line that would reach 0 at the last step; in stage two it
 * is on such a line of `rate_2`, and weight decay changes to `decay_2`.
 *
 * Muon (Jordan and others, 2024) for the ternary matrices: the step is the average of gradients, made orthogonal by
 * five Newton-Schulz iterations. Its root mean square is 0.2 of the rate (Liu and others, arXiv 2502.16982), so the
 * rates of AdamW fit. Embedding and norms stay with AdamW. */
struct bn_train_schedule {
    uint32_t n_steps, warm_up;
    double stage_2; /* where stage two begins, as a share of the steps */
    double rate, rate_2, decay, decay_2;
    double beta_1, beta_2, epsilon;
    double clip;   /* largest norm of the gradient; 0: no limit */
    uint32_t muon; /* 1: ternary matrices are updated by Muon, which does not use beta, epsilon and clip */
};

/* Of step 0 ... n_steps - 1. */
double bn_schedule_rate(const struct bn_train_schedule *s, uint32_t step);
double bn_schedule_decay(const struct bn_train_schedule *s, uint32_t step);

/* Euclid's norm, in binary64 over fixed blocks. */
double bn_gradient_norm(const bn_real *grad, size_t n, struct bn_team *team);
/* One step: the gradient times `factor` (1 / tokens), clipped; norm is that of factor * grad. Decay applies to ternary
 * matrices; with Muon these stay as they are. Then the ternary copies are made again. */
void bn_adam_step(struct bn_weights *w, bn_real *moment_1, bn_real *moment_2, const bn_real *grad,
                  double factor, double norm, const struct bn_train_schedule *s, uint32_t step,
                  struct bn_team *team);

/* Scratch for the matrices of w, one part for each thread of a team of n_threads; the caller frees it by bn_free.
 * NULL: out of memory. */
BN_MUST_CHECK bn_real *bn_muon_scratch(const struct bn_weights *w, unsigned n_threads);
/* One step of all ternary matrices; the arguments are those of bn_adam_step. A thread takes whole matrices, so
 * the bits do not depend on the team's size. The ternary copies stay as they were. */
void bn_muon_step(struct bn_weights *w, bn_real *moment, const bn_real *grad, double factor,
                  const struct bn_train_schedule *s, uint32_t step, bn_real *scratch, struct bn_team *team);

/* ---- a run ---- */

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
