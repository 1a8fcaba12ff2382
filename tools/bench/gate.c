/* SPDX-License-Identifier: MIT
 *
 * See gate.h.
 */
#include "tools/bench/gate.h"

#include <stdio.h>

bool bn_gate_above_roof(const struct bn_gate_claim *claim)
{
    return claim->roof > 0 && claim->rate > BN_GATE_ABOVE_ROOF * claim->roof;
}

const char *bn_gate_refuses(char out[160], const struct bn_gate_claim *claim,
                            const struct bn_clock_facts *clock)
{
    uint64_t shortest = UINT64_MAX;
    bool same = true;
    for (size_t i = 0; i < claim->n; i++) {
        if (claim->sample_ns[i] < shortest) shortest = claim->sample_ns[i];
        same = same && claim->sample_ns[i] == claim->sample_ns[0];
    }
    double least = BN_GATE_RESOLUTIONS * clock->resolution_ns;
    if (claim->n == 0)
        snprintf(out, 160, "there are no samples");
    else if (clock->n_backward > 0)
        snprintf(out, 160, "the clock stepped back %llu times", (unsigned long long)clock->n_backward);
    else if (!(clock->resolution_ns > 0))
        snprintf(out, 160, "the clock stands still");
    else if ((double)shortest < least)
        snprintf(out, 160, "a sample of %llu ns is less than %.0f steps of the clock, %.0f ns",
                 (unsigned long long)shortest, BN_GATE_RESOLUTIONS, least);
    else if (same && claim->n >= BN_GATE_SAME)
        snprintf(out, 160, "%zu samples are all %llu ns", claim->n, (unsigned long long)shortest);
    else if (bn_gate_above_roof(claim))
        snprintf(out, 160, "%.4g a second is more than %.2f times the measured limit, %.4g", claim->rate,
                 BN_GATE_ABOVE_ROOF, claim->roof);
    else
        return NULL;
    return out;
}
