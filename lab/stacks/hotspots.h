/* SPDX-License-Identifier: MIT
 *
 * The functions with the most time: for each frame, over all paths that contain it, its self weight and its
 * total, in which a recursive function counts once.
 */
#ifndef BN_STACKS_HOTSPOTS_H
#define BN_STACKS_HOTSPOTS_H

#include "lab/stacks/palette.h"
#include "lab/stats/interval.h"

struct bn_hotspot {
    const struct bn_frame *frame;               /* of the stacks */
    double self, total;                         /* summed over all runs */
    uint64_t self_samples, total_samples;       /* 0 where it was measured, not sampled */
    struct bn_interval self_share, total_share; /* of the whole; Wilson's interval of the samples, 95 %; of
                                                   what was measured, by the runs (Student) when there are
                                                   several; else NaN ends */
};
struct bn_hotspots {
    struct bn_hotspot *list; /* by self weight, the most first; ties by kind, name, module */
    size_t n;
    double whole;
    uint64_t samples;
};
BN_MUST_CHECK bn_status bn_hotspots(struct bn_hotspots *out, const bn_stacks *stacks, bn_error *err);
void bn_hotspots_release(struct bn_hotspots *hotspots);

/* ---- the sums, which comparisons share ---- */

/* Of each node, whether its frame is also above it: [n_nodes], released by bn_free; NULL without memory. */
bool *bn_stacks_repeated(const bn_stacks *stacks);
/* The weights of each frame in one run, or over all of them: self[n_frames] and total[n_frames], without those that
 * are below themselves; of each node with all below it: nodes[n_nodes]. */
void bn_stacks_sum_frames(const bn_stacks *stacks, const bool *repeated, size_t run, double *self,
                          double *total, double *nodes);
/* The number of samples of equal weight that are as informative as those of a run, or of all: (sum w)^2 / sum w^2,
 * where the samples of a node are equal. 0 when something has a weight and no samples. */
double bn_stacks_equal_samples(const bn_stacks *stacks, size_t run);

/* The share of each class in the self weights of functions, as a picture of them has it: inlined functions
 * count for themselves, tags do not count. 0 for all when there is no weight. */
BN_MUST_CHECK bn_status bn_class_shares(double out[BN_CLASSES], const bn_stacks *stacks, bn_error *err);

#endif
