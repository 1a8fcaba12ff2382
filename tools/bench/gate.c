/* SPDX-License-Identifier: MIT
 *
 * See gate.h.
 */
#include "tools/bench/gate.h"

#include <stdio.h>

bool bn_gate_above_roof(const struct bn_gate_claim *claim)
{
    return claim->roof > 0 && claim->rate > BN_BENCH_MOST_SHARE * claim->roof;
}

const char *bn_gate_refuses(char out[BN_BENCH_REASON], const struct bn_gate_claim *claim,
                            const struct bn_bench_clock *clock)
{
    if (clock->n_backwards > 0)
        snprintf(out, BN_BENCH_REASON, "the clock stepped back %llu times",
                 (unsigned long long)clock->n_backwards);
    else if (clock->step_ns == 0)
        snprintf(out, BN_BENCH_REASON, "the clock stands still");
    else if (!bn_bench_believable(claim->sample_ns, claim->n, clock->step_ns, out))
        return out;
    else if (bn_gate_above_roof(claim))
        snprintf(out, BN_BENCH_REASON, "%.4g a second is more than %.2f times the measured limit, %.4g",
                 claim->rate, BN_BENCH_MOST_SHARE, claim->roof);
    else
        return NULL;
    return out;
}
