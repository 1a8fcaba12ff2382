/* SPDX-License-Identifier: MIT
 *
 * bn-bench train: a result is the steps of one combination of shape, context, batch and threads.
 */
#ifndef BN_BENCH_TRAIN_H
#define BN_BENCH_TRAIN_H

#include "tools/bench/harness.h"
#include "tools/bench/train/trainee.h"

enum bn_train_phase {
    BN_PHASE_FORWARD,
    BN_PHASE_BACKWARD,
    BN_PHASE_REDUCE,
    BN_PHASE_WAIT,
    BN_PHASE_OPTIMISER,
    BN_PHASE_STEP,
    BN_PHASES
};
extern const char *const bn_phase_names[BN_PHASES];

struct bn_train_shape {
    uint32_t layers, width, ffn;
};

struct bn_train_sample {
    struct bn_trainee_step step;
    double peak; /* floating-point operations a second of the round; 0: there is no loop for it */
};

struct bn_train_result {
    char name[64]; /* "6x256x768 c=256 b=4096 t=2" */
    struct bn_train_shape shape;
    uint32_t context, batch;
    unsigned n_threads;
    struct bn_trainee trainee;
    struct bn_train_sample *samples;    /* n_warmup, then those that count */
    size_t n_warmup, n;                 /* n: all of them */
    double flop, least_flop;            /* of a token: by the formula; with half of the pairs of attention */
    double most_peak;                   /* of all rounds */
    const struct bn_train_result *like; /* the first one whose bits must be the same; NULL: this is it */
    double ns;                          /* median of a step; NaN when it is invalid */
    bool valid;
};

/* The time of a phase of a step: of all threads together, divided by their number. Forward, backward, reduce, wait and
 * optimiser together are at most the step. */
uint64_t bn_train_phase_ns(const struct bn_trainee_step *s, enum bn_train_phase phase, unsigned n_threads);
/* Why a result is invalid, in why; NULL when it is not. */
const char *bn_train_refuses(char why[160], const struct bn_train_result *r);
/* The share of the operations of a step that a phase does; 0: it has none. */
double bn_train_phase_share(enum bn_train_phase phase);

/* Puts the results into the document and prints the tables. */
BN_MUST_CHECK bn_status bn_train_report(struct bn_harness *s, struct bn_train_result *list, size_t n,
                                        bn_error *err);

#endif
