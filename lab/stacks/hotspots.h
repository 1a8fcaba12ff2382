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
    uint32_t frame;
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
/* kinds: bits of those that are listed. */
BN_MUST_CHECK bn_status bn_hotspots(struct bn_hotspots *out, const bn_stacks *stacks, unsigned kinds,
                                    bn_error *err);
void bn_hotspots_release(struct bn_hotspots *hotspots);

/* The view for tables of functions: no tags, and inlined functions count towards their callers, so that a
 * kernel is one function. Modules stay: the class of a short name depends on the module. */
#define BN_HOTSPOTS_VIEW                                       \
    {                                                          \
        .drop = BN_FRAME_TAGS | BN_FRAME_BIT(BN_FRAME_INLINED) \
    }
/* The share of each class in the self weights of functions, as a picture of them has it: inlined functions
 * count for themselves, tags do not count. 0 for all when there is no weight. */
BN_MUST_CHECK bn_status bn_class_shares(double out[BN_CLASSES], const bn_stacks *stacks, bn_error *err);

#endif
