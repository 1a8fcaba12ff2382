/* SPDX-License-Identifier: MIT
 *
 * Two shares, each seen in samples of its own: do they differ? As if every sample were independent of the
 * others; what varies from run to run is not in samples.
 */
#ifndef BN_STATS_PROPORTIONS_H
#define BN_STATS_PROPORTIONS_H

#include "lab/stats/interval.h"

/* Shares 0 <= a, b <= 1 in n_a, n_b samples, which need not be whole: the test counts to the next whole
 * number. More than 2^24 samples on a side count as 2^24, which is far beyond what any share's own noise
 * allows. NaN when a side has less than one sample. */

/* Fisher's exact test (1935), two-sided by doubling. */
struct bn_fisher {
    double p;       /* never 0 */
    double least_p; /* the least p that samples with these margins can have, whichever way they fall */
};
struct bn_fisher bn_fisher(double a, double n_a, double b, double n_b);

/* Of b - a: Newcombe's hybrid of two Wilson intervals (1998, method 10). */
struct bn_interval bn_interval_difference(double a, double n_a, double b, double n_b, double confidence);

#endif
