/* SPDX-License-Identifier: MIT
 *
 * How fine a clock is and what reading it costs, measured: a time that is not long beside these says nothing.
 */
#ifndef BN_HOST_CLOCKS_H
#define BN_HOST_CLOCKS_H

#include "base/mem.h"

struct bn_clock_facts {
    double
        resolution_ns; /* smallest step seen between two readings, their cost included; 0: it stood still */
    double cost_ns;    /* of one reading: the best mean of some hundred in a row */
    uint64_t n_readings, n_backward; /* readings less than the one before */
};

/* A clock: returns a count of units of ns_per_unit. */
typedef uint64_t (*bn_clock_fn)(void *arg);

/* Reads the clock ten thousand times; cost is measured with bn_clock_ns, whatever the clock says. */
void bn_clock_measure(struct bn_clock_facts *out, bn_clock_fn clock, void *arg, double ns_per_unit);
/* The same of bn_clock_ns, which all samples are taken with. */
void bn_clock_measure_default(struct bn_clock_facts *out);

#endif
