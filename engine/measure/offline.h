/* SPDX-License-Identifier: MIT
 *
 * Two sets of series that were taken at different times, held against each other. Series are paired by test
 * and metric; one that only one side has is reported, and nothing is ever summed up over different sets.
 */
#ifndef BN_MEASURE_OFFLINE_H
#define BN_MEASURE_OFFLINE_H

#include "measure/levels.h"
#include "measure/series.h"

/* What a machine may change by itself between two sessions, unless somebody says otherwise: 8 per cent, the
 * least that the default levels call a warning. */
#define BN_OFFLINE_DRIFT 0.08

struct bn_offline_rules {
    struct bn_judge_rules judge;
    double drift;
    const struct bn_levels *levels;
    bool points;           /* one side has values without samples: the levels alone speak */
    const char *contended; /* why one of the sessions does not count; NULL or empty when both do */
};

struct bn_offline {
    struct bn_comparison
        *list; /* those of A in its order, then what only B has; texts are those of A and B */
    size_t n;
    size_t n_missing;          /* that only A has: nothing was measured that could have passed */
    size_t n_extra;            /* that only B has */
    enum bn_outcome worst;     /* of those that both have */
    enum bn_severity severity; /* the gravest */
};

BN_MUST_CHECK bn_status bn_offline_compare(struct bn_offline *out, const struct bn_series_list *a,
                                           const struct bn_series_list *b,
                                           const struct bn_offline_rules *rules, bn_error *err);
void bn_offline_release(struct bn_offline *result);

#endif
