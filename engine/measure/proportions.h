/* SPDX-License-Identifier: MIT
 *
 * Two shares, each seen in samples of its own: do they differ? As if every sample were independent of the
 * others; what varies from run to run is not in samples.
 */
#ifndef BN_MEASURE_PROPORTIONS_H
#define BN_MEASURE_PROPORTIONS_H

#include "measure/interval.h"

struct bn_proportions {
    double p;       /* Fisher's exact test (1935), two-sided by doubling, so never above its level; not 0 */
    double least_p; /* the least p that samples with these margins can have, whichever way they fall */
    struct bn_interval difference; /* b - a; Newcombe's hybrid of two Wilson intervals (1998, method 10) */
};

/* Shares 0 <= a, b <= 1 in n_a, n_b samples, which need not be whole: the test counts to the next whole
 * number. More than 2^24 samples on a side count as 2^24, which is still far from any share's own noise. NaN
 * throughout when a side has less than one sample. */
struct bn_proportions bn_proportions(double a, double n_a, double b, double n_b, double confidence);

#endif
