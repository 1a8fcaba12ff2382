/* SPDX-License-Identifier: MIT
 *
 * Sums of gradients along a fixed binary tree. A leaf is done when its gradient is complete; whoever completes the
 * second of two siblings adds them. a + b has the bits of b + a, so the sum depends on the number of leaves alone.
 *
 * Data-parallel training: the micro-batches of a step are divided among ranks, and their gradients are added along the
 * tree that threads use too. So the bits of a run do not depend on the number of ranks.
 *
 * Rank 0 leads: it calls bn_trainer_step and bn_trainer_score as a program that runs alone does. The others call
 * bn_trainer_follow, which does what rank 0 does. Every rank has all weights and moments and updates all of them.
 *
 * Each rank completes the nodes of the tree whose leaves are all its own. Of the other nodes each rank computes a slice
 * of the values: it receives this slice of all completed nodes, adds them, and gives the sum to all. A rank sends and
 * receives about twice the gradient in a step, for any number of ranks.
 */
#ifndef BN_TRAIN_RANKS_H
#define BN_TRAIN_RANKS_H

#include "base/ranks.h"
#include "bn.h"
#include "train/real.h"
#include "train/trainer.h"

struct bn_tree;

/* For n_leaves gradients of n_values. */
BN_MUST_CHECK bn_status bn_tree_open(struct bn_tree **out, size_t n_leaves, size_t n_values, bn_error *err);
void bn_tree_close(struct bn_tree *tree);
/* A buffer of zeros for a leaf; NULL when memory is short. Any thread. */
bn_real *bn_tree_take(struct bn_tree *tree);
/* The leaf's gradient is in the buffer, which the tree takes back. Any thread. */
void bn_tree_done(struct bn_tree *tree, size_t leaf, bn_real *buffer);
/* Takes the sum at a node; node 1 has that of all leaves, after all are done. The caller gives it back by bn_tree_give. */
bn_real *bn_tree_get(struct bn_tree *tree, size_t node);
void bn_tree_give(struct bn_tree *tree, bn_real *buffer);

/* ---- for leaves that are done in several processes ---- */

#define BN_TREE_PARTS 128u
/* The highest nodes below which all leaves are in first ... end - 1, from left to right; returns how many. After these
 * leaves are done, their sums are at these nodes. */
size_t bn_tree_parts(const struct bn_tree *tree, size_t first, size_t end, size_t nodes[BN_TREE_PARTS]);
/* As bn_tree_done, for all leaves below a node. */
void bn_tree_put(struct bn_tree *tree, size_t node, bn_real *buffer);

/* Bytes of all buffers so far. */
uint64_t bn_tree_bytes(const struct bn_tree *tree);

/* Where the time of the steps went, as this rank saw it. */
struct bn_train_load {
    uint64_t n_steps;
    uint64_t longest_ns, mean_ns;     /* of the passes of all ranks; sums over steps */
    uint64_t waited_ns, exchanged_ns; /* for slower ranks; for losses and gradients */
    uint64_t bytes_sent, messages_sent;
};

struct bn_train_ranks {
    const struct bn_ranks *ranks;
    struct bn_tree *slices; /* of this rank's slice of the values */
    size_t n_slice;         /* values */
    size_t *edges;          /* count + 1, for gather */
    uint64_t *times;        /* of a step, of each rank */
    struct bn_train_load load;
};

/* Makes an open trainer one of several, with the state of rank 0's: step, masters, moments. All ranks call it, with
 * equal settings. BN_ERR_UNSUPPORTED when another core type of the BLAS would give other bits. Nothing for one rank. */
BN_MUST_CHECK bn_status bn_trainer_join(struct bn_trainer *t, const struct bn_ranks *ranks, bn_error *err);
/* Gives the tokens of rank 0 to the other ranks. */
BN_MUST_CHECK bn_status bn_corpus_share(struct bn_corpus *c, const struct bn_ranks *ranks, bn_error *err);
/* On ranks other than 0: steps and validations as rank 0 does them, until it leads to BN_TRAIN_FINISH. */
BN_MUST_CHECK bn_status bn_trainer_follow(struct bn_trainer *t, const struct bn_corpus *main,
                                          const struct bn_corpus *late, const struct bn_corpus *validation,
                                          bn_error *err);

/* ---- for the trainer; r is NULL in a program that runs alone ---- */

enum bn_train_command { BN_TRAIN_STEP = 1, BN_TRAIN_SCORE, BN_TRAIN_FINISH };

void bn_train_ranks_close(struct bn_train_ranks *r);
/* Rank 0 tells the others what comes, of how many tokens, or that nothing does; others: nothing. */
BN_MUST_CHECK bn_status bn_train_ranks_lead(const struct bn_trainer *t, enum bn_train_command command,
                                            size_t n_ids, bn_error *err);
/* This rank's part of n items: *first to *end - 1. */
void bn_train_ranks_part(const struct bn_train_ranks *r, size_t n, size_t *first, size_t *end);
/* The values of all items to all ranks. */
BN_MUST_CHECK bn_status bn_train_ranks_gather(struct bn_train_ranks *r, double *values, size_t n,
                                              bn_error *err);
/* The losses of all micro-batches and the sum of all gradients, after this rank's are done, which took work_ns. */
BN_MUST_CHECK bn_status bn_train_ranks_sum(struct bn_train_ranks *r, struct bn_tree *tree, double *losses,
                                           size_t n_micro, uint64_t work_ns, bn_real **sum, bn_error *err);

#endif
