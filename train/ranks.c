/* SPDX-License-Identifier: MIT
 *
 * Sums of gradients by a tree, across ranks too, and the commands by which rank 0 leads.
 *
 * The tree's nodes are numbered as a heap's: node i has the children 2i and 2i + 1, and the leaves begin at the least
 * power of two that has room for them. A node without a leaf below it is left out; its sibling moves up as it is.
 */
#include "train/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "train/ops.h"
#include "train/real.h"

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

/* ---- joining ---- */

/* Product of another core type have other last bits. */
static bn_status check_cores(const struct bn_ranks *ranks, size_t *edges, bn_error *err)
{
    enum { N = 64 };
    char(*cores)[N] = bn_alloc(ranks->count, N);
    if (cores == NULL) return bn_nomem(err);
    snprintf(cores[ranks->index], N, "%s", bn_blas_core());
    for (size_t i = 0; i <= ranks->count; i++)
        edges[i] = i * N;
    bn_status status = ranks->gather(ranks->context, cores, edges, err);
    for (unsigned i = 1; i < ranks->count && status == BN_OK; i++)
        if (strncmp(cores[i], cores[0], N) != 0)
            status = bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED,
                                     "rank %u computes products by core type %.*s, rank 0 by %.*s", i, N - 1,
                                     cores[i], N - 1, cores[0]),
                             err, "mpirun -x OPENBLAS_CORETYPE=HASWELL gives all ranks the same type");
    bn_free(cores);
    return status;
}

static bn_status share_state(struct bn_trainer *t, const struct bn_ranks *ranks, bn_error *err)
{
    const size_t n = t->weights.n_values * sizeof(bn_real);
    BN_TRY(ranks->broadcast(ranks->context, 0, &t->step, sizeof t->step, err));
    /* Before the first step all ranks have the same values. */
    if (t->step == 0) return BN_OK;
    BN_TRY(ranks->broadcast(ranks->context, 0, t->weights.master, n, err));
    BN_TRY(ranks->broadcast(ranks->context, 0, t->moment_1, n, err));
    BN_TRY(ranks->broadcast(ranks->context, 0, t->moment_2, n, err));
    if (ranks->index != 0) bn_weights_ternarise(&t->weights, t->team);
    return BN_OK;
}

/* Slices have equal lengths, so the tree's buffers are a little longer than the gradient. */
static bn_status open_trees(struct bn_trainer *t, bn_error *err)
{
    struct bn_train_ranks *r = t->ranks;
    const size_t all = (size_t)r->ranks->count * BN_LANES;
    r->n_slice = (t->weights.n_values + all - 1) / all * BN_LANES;
    BN_TRY(bn_tree_open(&r->slices, t->settings.n_micro, r->n_slice, err));
    bn_tree_close(t->tree);
    return bn_tree_open(&t->tree, t->settings.n_micro, r->n_slice * r->ranks->count, err);
}

bn_status bn_trainer_join(struct bn_trainer *t, const struct bn_ranks *ranks, bn_error *err)
{
    if (ranks->count == 1) return BN_OK;
    struct bn_train_ranks *r = t->ranks = bn_alloc(1, sizeof *r);
    if (r == NULL) return bn_nomem(err);
    r->ranks = ranks;
    BN_TRY(BN_NEW(r->edges, ranks->count + 1u, err));
    BN_TRY(BN_NEW(r->times, ranks->count, err));
    BN_TRY(check_cores(ranks, r->edges, err));
    BN_TRY(open_trees(t, err));
    return share_state(t, ranks, err);
}

void bn_train_ranks_close(struct bn_train_ranks *r)
{
    if (r == NULL) return;
    bn_tree_close(r->slices);
    bn_free(r->edges);
    bn_free(r->times);
    bn_free(r);
}

bn_status bn_corpus_share(struct bn_corpus *c, const struct bn_ranks *ranks, bn_error *err)
{
    uint64_t n = c->n;
    if (ranks->count == 1) return BN_OK;
    BN_TRY(ranks->broadcast(ranks->context, 0, &n, sizeof n, err));
    BN_TRY(bn_array_grow(&c->ids, &c->room, n, sizeof *c->ids, err));
    c->n = n;
    return ranks->broadcast(ranks->context, 0, c->ids, n * sizeof *c->ids, err);
}

/* ---- leading and following ---- */

struct command {
    uint32_t what, step;
    uint64_t n_ids;
};

bn_status bn_train_ranks_lead(const struct bn_trainer *t, enum bn_train_command command, size_t n_ids,
                              bn_error *err)
{
    struct command c = {command, t->step, n_ids};
    if (t->ranks == NULL || t->ranks->ranks->index != 0) return BN_OK;
    return t->ranks->ranks->broadcast(t->ranks->ranks->context, 0, &c, sizeof c, err);
}

bn_status bn_trainer_follow(struct bn_trainer *t, const struct bn_corpus *main, const struct bn_corpus *late,
                            const struct bn_corpus *validation, bn_error *err)
{
    const struct bn_ranks *ranks = t->ranks->ranks;
    for (;;) {
        struct command c = {0};
        struct bn_train_score score;
        bool finite;
        BN_TRY(ranks->broadcast(ranks->context, 0, &c, sizeof c, err));
        if (c.what == BN_TRAIN_FINISH) return BN_OK;
        if (c.step != t->step || (c.what == BN_TRAIN_SCORE && c.n_ids != validation->n))
            return bn_fail(err, BN_ERR_INTERNAL, "rank 0 is at step %u, this rank at step %u", c.step,
                           t->step);
        if (c.what == BN_TRAIN_STEP) BN_TRY(bn_trainer_step(t, main, late, &finite, err));
        if (c.what == BN_TRAIN_SCORE)
            BN_TRY(bn_trainer_score(t, validation->ids, validation->n, &score, err));
    }
}

/* ---- sums ---- */

static void part_of(const struct bn_train_ranks *r, unsigned rank, size_t n, size_t *first, size_t *end)
{
    *first = n * rank / r->ranks->count;
    *end = n * (rank + 1u) / r->ranks->count;
}

void bn_train_ranks_part(const struct bn_train_ranks *r, size_t n, size_t *first, size_t *end)
{
    *first = 0;
    *end = n;
    if (r != NULL) part_of(r, r->ranks->index, n, first, end);
}

static bn_status gather_parts(struct bn_train_ranks *r, void *data, size_t n, size_t each, bn_error *err)
{
    for (unsigned i = 0; i <= r->ranks->count; i++)
        r->edges[i] = n * i / r->ranks->count * each;
    return r->ranks->gather(r->ranks->context, data, r->edges, err);
}

bn_status bn_train_ranks_gather(struct bn_train_ranks *r, double *values, size_t n, bn_error *err)
{
    return r != NULL ? gather_parts(r, values, n, sizeof *values, err) : BN_OK;
}

/* The nodes that a rank completes, and its gradients at them. */
struct part {
    size_t n, nodes[BN_TREE_PARTS];
    bn_real *grads[BN_TREE_PARTS];
};

static void nodes_of(const struct bn_train_ranks *r, const struct bn_tree *tree, unsigned rank,
                     size_t n_micro, struct part *part)
{
    size_t first, end;
    part_of(r, rank, n_micro, &first, &end);
    part->n = bn_tree_parts(tree, first, end, part->nodes);
}

/* Gives a rank its slice of this rank's gradients, and takes this rank's slice of the other's. The rank with fewer
 * nodes sends something that is not used. */
static bn_status swap_slices(struct bn_train_ranks *r, const struct part *own, const struct part *other,
                             unsigned peer, bn_error *err)
{
    const size_t n = own->n > other->n ? own->n : other->n;
    for (size_t i = 0; i < n; i++) {
        bn_real *received = bn_tree_take(r->slices), *unused = i < own->n ? NULL : bn_tree_take(r->slices);
        const bn_real *sent = i < own->n ? own->grads[i] + peer * r->n_slice : unused;
        bn_status status = received != NULL && sent != NULL ? BN_OK : bn_nomem(err);
        if (status == BN_OK)
            status = r->ranks->exchange(r->ranks->context, peer, sent, received,
                                        r->n_slice * sizeof *received, err);
        bn_tree_give(r->slices, unused);
        if (i < other->n && status == BN_OK)
            bn_tree_put(r->slices, other->nodes[i], received);
        else
            bn_tree_give(r->slices, received);
        BN_TRY(status);
    }
    return BN_OK;
}

/* This rank's slice of the sum is complete after it has met every other rank: in round i it meets rank i - index. */
static bn_status sum_slice(struct bn_train_ranks *r, const struct bn_tree *tree, const struct part *own,
                           size_t n_micro, bn_error *err)
{
    const unsigned count = r->ranks->count, index = r->ranks->index;
    for (size_t i = 0; i < own->n; i++) {
        bn_real *copy = bn_tree_take(r->slices);
        if (copy == NULL) return bn_nomem(err);
        memcpy(copy, own->grads[i] + index * r->n_slice, r->n_slice * sizeof *copy);
        bn_tree_put(r->slices, own->nodes[i], copy);
    }
    for (unsigned round = 0; round < count; round++) {
        unsigned peer = (round + count - index) % count;
        struct part other;
        if (peer == index) continue;
        nodes_of(r, tree, peer, n_micro, &other);
        BN_TRY(swap_slices(r, own, &other, peer, err));
    }
    return BN_OK;
}

static bn_status sum_gradients(struct bn_train_ranks *r, struct bn_tree *tree, size_t n_micro, bn_real **sum,
                               bn_error *err)
{
    const unsigned count = r->ranks->count;
    struct part own;
    nodes_of(r, tree, r->ranks->index, n_micro, &own);
    for (size_t i = 0; i < own.n; i++)
        own.grads[i] = bn_tree_get(tree, own.nodes[i]);
    BN_TRY(sum_slice(r, tree, &own, n_micro, err));
    *sum = own.n > 0 ? own.grads[0] : bn_tree_take(tree);
    if (*sum == NULL) return bn_nomem(err);
    for (size_t i = 1; i < own.n; i++)
        bn_tree_give(tree, own.grads[i]);
    bn_real *slice = bn_tree_get(r->slices, 1);
    memcpy(*sum + r->ranks->index * r->n_slice, slice, r->n_slice * sizeof *slice);
    bn_tree_give(r->slices, slice);
    return gather_parts(r, *sum, count, r->n_slice * sizeof **sum, err);
}

/* All ranks come here after their passes; the last one need not wait. */
static bn_status meet_ranks(struct bn_train_ranks *r, uint64_t work_ns, bn_error *err)
{
    const unsigned count = r->ranks->count;
    uint64_t longest = 0, all = 0, begin = bn_clock_ns();
    r->times[r->ranks->index] = work_ns;
    BN_TRY(gather_parts(r, r->times, count, sizeof *r->times, err));
    for (unsigned i = 0; i < count; i++) {
        longest = r->times[i] > longest ? r->times[i] : longest;
        all += r->times[i];
    }
    r->load.n_steps++;
    r->load.longest_ns += longest;
    r->load.mean_ns += all / count;
    r->load.waited_ns += bn_clock_ns() - begin;
    return BN_OK;
}

bn_status bn_train_ranks_sum(struct bn_train_ranks *r, struct bn_tree *tree, double *losses, size_t n_micro,
                             uint64_t work_ns, bn_real **sum, bn_error *err)
{
    static const struct bn_ranks_traffic NONE;
    const struct bn_ranks_traffic *traffic = r->ranks->traffic != NULL ? r->ranks->traffic : &NONE;
    const struct bn_ranks_traffic before = *traffic;
    BN_TRY(meet_ranks(r, work_ns, err));
    uint64_t begin = bn_clock_ns();
    BN_TRY(bn_train_ranks_gather(r, losses, n_micro, err));
    BN_TRY(sum_gradients(r, tree, n_micro, sum, err));
    r->load.exchanged_ns += bn_clock_ns() - begin;
    r->load.bytes_sent += traffic->bytes_sent - before.bytes_sent;
    r->load.messages_sent += traffic->messages_sent - before.messages_sent;
    return BN_OK;
}
