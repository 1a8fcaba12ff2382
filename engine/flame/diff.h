/* SPDX-License-Identifier: MIT
 *
 * What a change did to where the time goes: two sets of stacks on one tree, each with one or several runs.
 *
 * Compared are *shares* of the whole (how the time is divided), and, when both sides did the same amount of
 * work, *weights* per run (how much there is of it). A node of one side only stays: what is gone is a ghost.
 *
 * Significance: with at least two runs on each side by Welch's t over the runs' values (with 4 and more also
 * shown: the rank test); with a single run on a side by the two shares' samples, as if each sample were
 * independent of the others, which is said with the result. p of all nodes (of all functions) are corrected
 * together (Benjamini and Hochberg), and significant is q < 0.05.
 */
#ifndef BN_FLAME_DIFF_H
#define BN_FLAME_DIFF_H

#include "flame/stacks.h"

struct bn_diff_value {
    double before, after; /* means over the runs of a side: share, or weight */
    double low, high;     /* 95 % interval of after - before; NaN when it cannot be had */
    double p, q;          /* NaN likewise */
    bool significant;
};

struct bn_diff_entry {
    double before, after; /* weight in a run, the mean of the side's runs */
    uint64_t before_samples, after_samples;
    struct bn_diff_value share;  /* of the whole */
    struct bn_diff_value weight; /* of a run */
};

struct bn_diff {
    bn_stacks *tree; /* all paths of both sides, sorted; its weights are nothing. Node numbers index
                        the lists */
    struct bn_diff_entry *self, *total; /* [tree->n_nodes]: of the node itself; of it and all below */
    struct bn_diff_entry *functions_self,
        *functions_total;       /* [tree->n_frames]: over all paths, as in hotspots */
    struct bn_diff_value whole; /* weight of everything */
    size_t n_before, n_after;   /* runs */
    bool by_runs;               /* significance is from runs; else from samples */
    bool same_work;             /* weights were compared too */
    const char *method;         /* a literal, for people */
};

struct bn_diff_options {
    bool same_work; /* each run did the same work, so that weights can be compared */
    double level;   /* of significance; 0: 0.05 */
};

/* Sides are appended runs (bn_stacks_append) of views of one kind. */
BN_MUST_CHECK bn_status bn_diff(struct bn_diff *out, const bn_stacks *before, const bn_stacks *after,
                                const struct bn_diff_options *options, bn_error *err);
void bn_diff_release(struct bn_diff *diff);

#endif
