/* SPDX-License-Identifier: MIT
 *
 * The tree's nodes are numbered as a heap's: node i has the children 2i and 2i + 1, and the leaves begin at the least
 * power of two that has room for them. A node without a leaf below it is left out; its sibling moves up as it is.
 */
#include "train/tree.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "train/ops.h"

struct bn_tree {
    size_t n_leaves, n_values, base;
    bn_real **ready; /* of 2 * base nodes: a gradient that waits for its sibling */
    bn_real **spare;
    size_t n_spare, room_spare, n_buffers;
    pthread_mutex_t lock;
};

bn_status bn_tree_open(struct bn_tree **out, size_t n_leaves, size_t n_values, bn_error *err)
{
    *out = NULL;
    struct bn_tree *tree = bn_alloc(1, sizeof *tree);
    if (tree == NULL) return bn_nomem(err);
    tree->n_leaves = n_leaves;
    tree->n_values = n_values;
    for (tree->base = 1; tree->base < n_leaves;)
        tree->base *= 2;
    pthread_mutex_init(&tree->lock, NULL);
    tree->ready = bn_alloc(2 * tree->base, sizeof(bn_real *));
    tree->room_spare = 2 * tree->base; /* there are never more buffers than nodes */
    tree->spare = bn_alloc(tree->room_spare, sizeof(bn_real *));
    if (tree->ready == NULL || tree->spare == NULL) {
        bn_tree_close(tree);
        return bn_nomem(err);
    }
    *out = tree;
    return BN_OK;
}

void bn_tree_close(struct bn_tree *tree)
{
    if (tree == NULL) return;
    for (size_t i = 0; tree->ready != NULL && i < 2 * tree->base; i++)
        bn_free(tree->ready[i]);
    for (size_t i = 0; tree->spare != NULL && i < tree->n_spare; i++)
        bn_free(tree->spare[i]);
    bn_free(tree->ready);
    bn_free(tree->spare);
    pthread_mutex_destroy(&tree->lock);
    bn_free(tree);
}

bn_real *bn_tree_take(struct bn_tree *tree)
{
    bn_real *buffer = NULL;
    pthread_mutex_lock(&tree->lock);
    if (tree->n_spare > 0)
        buffer = tree->spare[--tree->n_spare];
    else
        tree->n_buffers++;
    pthread_mutex_unlock(&tree->lock);
    if (buffer != NULL) {
        memset(buffer, 0, tree->n_values * sizeof *buffer);
        return buffer;
    }
    buffer = bn_alloc_aligned(tree->n_values, sizeof *buffer);
    if (buffer != NULL) bn_mem_advise_huge(buffer, tree->n_values * sizeof *buffer);
    return buffer;
}

void bn_tree_give(struct bn_tree *tree, bn_real *buffer)
{
    if (buffer == NULL) return;
    pthread_mutex_lock(&tree->lock);
    tree->spare[tree->n_spare++] = buffer;
    pthread_mutex_unlock(&tree->lock);
}

/* Whether a node has leaves: the first leaf below it exists. */
static bool exists(const struct bn_tree *tree, size_t node)
{
    while (node < tree->base)
        node *= 2;
    return node - tree->base < tree->n_leaves;
}

/* What waits at the sibling of a node; NULL: nothing yet, and the buffer now waits at the node. */
static bn_real *meet(struct bn_tree *tree, size_t node, bn_real *buffer)
{
    pthread_mutex_lock(&tree->lock);
    bn_real *other = tree->ready[node ^ 1];
    tree->ready[node ^ 1] = NULL;
    if (other == NULL) tree->ready[node] = buffer;
    pthread_mutex_unlock(&tree->lock);
    return other;
}

void bn_tree_done(struct bn_tree *tree, size_t leaf, bn_real *buffer)
{
    bn_tree_put(tree, tree->base + leaf, buffer);
}

void bn_tree_put(struct bn_tree *tree, size_t node, bn_real *buffer)
{
    for (; node > 1; node /= 2) {
        if (!exists(tree, node ^ 1)) continue;
        bn_real *other = meet(tree, node, buffer);
        if (other == NULL) return;
        bn_op_add(buffer, other, tree->n_values);
        bn_tree_give(tree, other);
    }
    tree->ready[1] = buffer;
}

bn_real *bn_tree_get(struct bn_tree *tree, size_t node)
{
    bn_real *sum = tree->ready[node];
    tree->ready[node] = NULL;
    return sum;
}

bn_real *bn_tree_sum(struct bn_tree *tree)
{
    return bn_tree_get(tree, 1);
}

/* Adds the parts below a node whose leaves begin at `leaf` and would be n. */
static void find_parts(const struct bn_tree *tree, size_t node, size_t leaf, size_t n, size_t first,
                       size_t end, size_t *nodes, size_t *n_nodes)
{
    size_t last = bn_min_size(leaf + n, tree->n_leaves);
    if (leaf >= end || last <= first || leaf >= last) return;
    if (leaf >= first && last <= end) {
        nodes[(*n_nodes)++] = node;
        return;
    }
    find_parts(tree, 2 * node, leaf, n / 2, first, end, nodes, n_nodes);
    find_parts(tree, 2 * node + 1, leaf + n / 2, n / 2, first, end, nodes, n_nodes);
}

size_t bn_tree_parts(const struct bn_tree *tree, size_t first, size_t end, size_t nodes[BN_TREE_PARTS])
{
    size_t n_nodes = 0;
    find_parts(tree, 1, 0, tree->base, first, end, nodes, &n_nodes);
    return n_nodes;
}

uint64_t bn_tree_bytes(const struct bn_tree *tree)
{
    return (uint64_t)tree->n_buffers * tree->n_values * sizeof(bn_real);
}
