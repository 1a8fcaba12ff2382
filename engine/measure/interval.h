/* SPDX-License-Identifier: MIT
 *
 * An estimate and how sure it is.
 */
#ifndef BN_MEASURE_INTERVAL_H
#define BN_MEASURE_INTERVAL_H

#include "base/mem.h"

struct bn_interval {
    double estimate;
    double low, high;   /* NaN when the samples are too few for an interval */
    const char *method; /* a literal: how the interval was had */
};

#endif
