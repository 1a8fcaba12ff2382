/* SPDX-License-Identifier: MIT
 *
 * The smallest step of a clock and the time of one reading, measured. A measured time has to be long compared
 * with both.
 */
#ifndef BN_HOST_CLOCKS_H
#define BN_HOST_CLOCKS_H

#include "base/mem.h"

struct bn_clock_facts {
    double
        resolution_ns; /* smallest step between two readings, their cost included; 0: it does not advance */
    double cost_ns;    /* of one reading: the best mean of some hundred in a row */
    uint64_t n_readings, n_backward; /* readings less than the one before */
};

/* A clock: returns a count of units of ns_per_unit. */
typedef uint64_t (*bn_clock_fn)(void *arg);

/* Reads the clock ten thousand times; the cost is measured with bn_clock_ns. */
void bn_clock_measure(struct bn_clock_facts *out, bn_clock_fn clock, void *arg, double ns_per_unit);
/* The same of bn_clock_ns, the clock of all samples. */
void bn_clock_measure_default(struct bn_clock_facts *out);

#endif
