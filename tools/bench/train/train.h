/* SPDX-License-Identifier: MIT
 *
 * bn-bench train: a result is the steps of one combination of shape, context, batch and threads, which a process of
 * 'bn-train bench' does when it is asked to. bn-bench does not link the BLAS, which chooses its code when it is loaded: bn-train
 * has the rule for that, and is started again if needed.
 */
#ifndef BN_BENCH_TRAIN_H
#define BN_BENCH_TRAIN_H

#include "tools/bench/harness.h"

/* ---- the process ---- */

/* Times of a step. Those of phases are of all threads together; passes and optimiser are by the clock. */
struct bn_trainee_step {
    uint64_t ns, forward_ns, backward_ns, reduce_ns, passes_ns, optimiser_ns;
    double exchange_bytes, exchange_ns; /* with other ranks, as the first one saw it; NaN without them */
    double loss;
};

struct bn_trainee {
    struct bn_child *child;
    bn_json *run, *end; /* what it said at its start and at its end */
};

/* ---- results (results.c) ---- */

struct bn_train_sample {
    struct bn_trainee_step step;
    double peak; /* floating-point operations a second of the round; 0: there is no loop for it */
};

struct bn_train_result {
    char name[64], shape[40]; /* "6x256x768 c=256 b=4096 t=2"; "6x256x768" */
    uint32_t layers, width, ffn, context, batch;
    unsigned n_threads, n_ranks; /* n_ranks: 1 without mpirun */
    struct bn_trainee trainee;
    struct bn_train_sample *samples;    /* n_warmup, then those that count */
    size_t n_warmup, n;                 /* n: all of them */
    double flop, least_flop;            /* of a token: by the formula; with half of the pairs of attention */
    double most_peak;                   /* of all rounds */
    const struct bn_train_result *like; /* the first one whose bits must be the same; NULL: this is it */
    double ns;                          /* median of a step; NaN when it is invalid */
};

/* Why a result is invalid, in why; NULL when it is not. */
const char *bn_train_refuses(char why[160], const void *result);
/* Puts the results into the document and prints the tables. */
BN_MUST_CHECK bn_status bn_train_report(struct bn_harness *h, struct bn_train_result *list, size_t n,
                                        bn_error *err);

#endif
