/* SPDX-License-Identifier: MIT
 *
 * Compares two sets of stacks on one tree, each with one run or several.
 *
 * Compared are *shares* of the whole (how the time is divided), and, if both sides did the same amount of
 * work, *weights* per run (how much time there is). A node that only one side has is kept.
 *
 * Significance: with at least two runs on each side, Welch's t over the values of the runs. Where samples
 * are known, the standard error is at least that of sampling, and p is at least that of Fisher's exact test
 * of the samples, because runs that agree by chance and frames with few samples would make p too small.
 * With a single run on a side, Fisher's test alone, as if samples were independent; this says nothing about
 * how runs differ, which the result mentions, and weights are not tested.
 *
 * The p values of all nodes, self and total together, are corrected together (Benjamini and Hochberg); so
 * are those of all functions. A value is significant if q < level. Nested frames share samples, so their
 * tests depend on each other, mostly positively; the correction holds for that. A p that could not become
 * significant with any distribution of the samples is not computed and does not count in the correction.
 */
#ifndef BN_STACKS_DIFF_H
#define BN_STACKS_DIFF_H

#include "lab/stacks/stacks.h"

struct bn_diff_value {
    double before, after; /* means over the runs of a side: share, or weight */
    double low, high;     /* 95 % interval of after - before; NaN when it is not known */
    double p, q;          /* NaN when it was not judged */
    double error, df;     /* standard error of after - before and its degrees of freedom (infinity: by
                             samples); NaN likewise */
    bool significant;
};

struct bn_diff_entry {
    double before, after; /* weight in a run, the mean of the side's runs */
    uint64_t before_samples, after_samples;
    struct bn_diff_value share;  /* of the whole */
    struct bn_diff_value weight; /* of a run */
};

struct bn_stacks_diff {
    bn_stacks *tree; /* all paths of both sides, sorted; its runs are those of before, then those of after.
                        Node numbers index the lists */
    struct bn_diff_entry *self, *total; /* [tree->n_nodes]: of the node itself; of it and all below */
    struct bn_diff_entry *functions_self,
        *functions_total;                /* [tree->n_frames]: over all paths, as in hotspots */
    struct bn_diff_value whole;          /* weight of everything; judged with same_work */
    size_t n_before, n_after;            /* runs */
    size_t n_judged, n_judged_functions; /* p corrected together: of weights with same_work, else shares */
    bool by_runs;                        /* significance is from runs; else from samples */
    bool same_work;                      /* weights were compared too */
    double level;
    const char *method; /* a literal, for people */
};

struct bn_stacks_diff_options {
    bool same_work;   /* each run did the same work, so that weights can be compared */
    double level;     /* of significance; 0: 0.05 */
    double min_share; /* what has less, in the mean of both sides, is not judged */
};

/* Sides are appended runs (bn_stacks_append) of views of one kind. Frames are matched by kind and name.
 * Weights that are whole numbers of "samples" count as samples when there are no others. BN_ERR_ARG when they
 * are not of one unit, or not recordings of the same thing; BN_ERR_MISMATCH for a run without any weight. */
BN_MUST_CHECK bn_status bn_stacks_diff(struct bn_stacks_diff *out, const bn_stacks *before,
                                       const bn_stacks *after, const struct bn_stacks_diff_options *options,
                                       bn_error *err);
void bn_stacks_diff_release(struct bn_stacks_diff *diff);
/* The smallest difference that would be found four times out of five if it were the only one among n_judged;
 * NaN when the value has no error. */
double bn_stacks_diff_detectable(const struct bn_diff_value *value, double level, size_t n_judged);

#endif
