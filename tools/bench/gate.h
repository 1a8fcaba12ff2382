/* SPDX-License-Identifier: MIT
 *
 * What cannot be is no result: samples that check.h does not believe, a clock that steps back, a rate above
 * what the machine was seen to do. Such a measurement is INVALID, and says why.
 */
#ifndef BN_BENCH_GATE_H
#define BN_BENCH_GATE_H

#include "tools/bench/check.h"

struct bn_gate_claim {
    const double *sample_ns; /* whole samples, as the clock gave them */
    size_t n;
    double rate, roof; /* of the same unit; roof 0: none is known */
};

/* NULL when it can be; else the reason, one line, in out. */
const char *bn_gate_refuses(char out[BN_BENCH_REASON], const struct bn_gate_claim *claim,
                            const struct bn_bench_clock *clock);
/* Is the rate too high for the roof? */
bool bn_gate_above_roof(const struct bn_gate_claim *claim);

#endif
