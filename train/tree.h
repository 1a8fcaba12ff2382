/* SPDX-License-Identifier: MIT
 *
 * Sums of gradients along a fixed binary tree. A leaf is done when its gradient is complete; whoever completes the
 * second of two siblings adds them. a + b has the bits of b + a, so the sum depends on the number of leaves alone.
 */
#ifndef BN_TRAIN_TREE_H
#define BN_TRAIN_TREE_H

#include "bn.h"
#include "train/real.h"

struct bn_tree;

/* For n_leaves gradients of n_values. */
BN_MUST_CHECK bn_status bn_tree_open(struct bn_tree **out, size_t n_leaves, size_t n_values, bn_error *err);
void bn_tree_close(struct bn_tree *tree);
/* A buffer of zeros for a leaf; NULL when memory is short. Any thread. */
bn_real *bn_tree_take(struct bn_tree *tree);
/* The leaf's gradient is in the buffer, which the tree takes back. Any thread. */
void bn_tree_done(struct bn_tree *tree, size_t leaf, bn_real *buffer);
/* The sum, after all leaves are done; the caller gives it back by bn_tree_give. */
bn_real *bn_tree_sum(struct bn_tree *tree);
void bn_tree_give(struct bn_tree *tree, bn_real *buffer);

/* ---- for leaves that are done in several processes ---- */

#define BN_TREE_PARTS 128u
/* The highest nodes below which all leaves are in first ... end - 1, from left to right; returns how many. After these
 * leaves are done, their sums are at these nodes. */
size_t bn_tree_parts(const struct bn_tree *tree, size_t first, size_t end, size_t nodes[BN_TREE_PARTS]);
/* Takes the sum at a node. */
bn_real *bn_tree_get(struct bn_tree *tree, size_t node);
/* As bn_tree_done, for all leaves below a node. */
void bn_tree_put(struct bn_tree *tree, size_t node, bn_real *buffer);

/* Bytes of all buffers so far. */
uint64_t bn_tree_bytes(const struct bn_tree *tree);

#endif
