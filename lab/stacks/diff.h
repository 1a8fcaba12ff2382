/* SPDX-License-Identifier: MIT
 *
 * Compares two sets of stacks on one tree, each with one run or several.
 *
 * Compared are *shares* of the whole (how the time is divided), or, if both sides did the same amount of work,
 * *weights* per run (how much time there is), as shares of the mean whole before. What only one side has is kept.
 *
 * Significance: with at least two runs on each side, Welch's t over the values of the runs. Where samples
 * are known, the standard error is at least that of sampling, and p is at least that of Fisher's exact test
 * of the samples, because runs that agree by chance and frames with few samples would make p too small.
 * With a single run on a side, Fisher's test alone, as if samples were independent; this says nothing about
 * how runs differ, which the result mentions, and weights are not tested.
 *
 * The p values of all functions, self and total together, are corrected together (Benjamini and Hochberg); so
 * are those of all paths. A value is significant if q < level. Nested frames share samples, so their
 * tests depend on each other, mostly positively; the correction holds for that. A p that could not become
 * significant with any distribution of the samples is not computed and does not count in the correction.
 */
#ifndef BN_STACKS_DIFF_H
#define BN_STACKS_DIFF_H

#include "lab/stacks/stacks.h"

struct bn_diff_value {
    double before, after; /* means over the runs of a side */
    double low, high;     /* 95 % interval of after - before; NaN when it is not known */
    double p, q;          /* NaN when it was not judged */
    double error, df;     /* standard error of after - before and its degrees of freedom (infinity: by
                             samples); NaN likewise */
    bool significant;
};

struct bn_stacks_diff {
    bn_stacks *tree; /* all paths of both sides, sorted; its runs are those of before, then those of after.
                        Node numbers index the lists */
    struct bn_diff_value *paths; /* [tree->n_nodes]: of the node and all below; [0], the whole, is judged
                                           only with same_work */
    struct bn_diff_value *self, *total; /* [tree->n_frames]: of functions, over all paths, as in hotspots */
    double weight[2];                   /* the whole of a run, the mean of the side's runs: before, after */
    uint64_t samples[2];                /* of all runs of a side */
    size_t n_before, n_after;           /* runs */
    size_t n_judged;                    /* functions whose p were corrected together */
    bool by_runs;                       /* significance is from runs; else from samples */
    bool same_work;                     /* weights were compared, not shares */
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
/* The smallest difference of a function that would be found four times out of five if it were the only one; NaN
 * when the value has no error. */
double bn_stacks_diff_detectable(const struct bn_stacks_diff *diff, const struct bn_diff_value *value);

#endif
