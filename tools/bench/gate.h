/* SPDX-License-Identifier: MIT
 *
 * What cannot be is no result: a sample too short for the clock, a rate above what the machine was seen to
 * do, samples that are all the same, a clock that steps back. Such a measurement is INVALID, and says why.
 */
#ifndef BN_BENCH_GATE_H
#define BN_BENCH_GATE_H

#include "measure/clocks.h"

#define BN_GATE_RESOLUTIONS 20.0 /* that a sample must last */
#define BN_GATE_ABOVE_ROOF 1.05  /* a rate may be so much of the roof: both were measured */
#define BN_GATE_SAME 10u         /* samples of a wall clock that are never all equal */

struct bn_gate_claim {
    const uint64_t *sample_ns; /* whole samples, as the clock gave them */
    size_t n;
    double rate, roof; /* of the same unit; roof 0: none is known */
};

/* NULL when it can be; else the reason, one line, in out. */
const char *bn_gate_refuses(char out[160], const struct bn_gate_claim *claim,
                            const struct bn_clock_facts *clock);
/* Is the rate too high for the roof? */
bool bn_gate_above_roof(const struct bn_gate_claim *claim);

#endif
