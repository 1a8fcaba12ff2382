/* SPDX-License-Identifier: MIT
 *
 * Checks of timings: the clock that took them, and the samples.
 */
#include "tools/bench/check.h"

#include <stdio.h>

#include "lab/stats/summary.h"

const char *bn_bench_verdict_name(enum bn_bench_verdict verdict)
{
    static const char *const NAMES[] = {"valid", "invalid", "timeout"};
    return NAMES[verdict];
}

const char *bn_bench_implausible(char out[BN_BENCH_REASON], double share)
{
    out[0] = '\0';
    if (share > BN_BENCH_MOST_SHARE)
        snprintf(out, BN_BENCH_REASON, "it is %.2f times the measured limit", share);
    return out;
}

bool bn_bench_believable(const double *ns, size_t n, double step_ns, char reason[BN_BENCH_REASON])
{
    double least = step_ns * BN_BENCH_LEAST_STEPS;
    reason[0] = '\0';
    if (n == 0) snprintf(reason, BN_BENCH_REASON, "there are no samples");
    if (n == 0) return false;
    for (size_t i = 0; i < n; i++) {
        if (ns[i] >= least) continue;
        snprintf(reason, BN_BENCH_REASON,
                 "a sample took %.0f ns, less than %u steps of the clock (%.0f ns each)", ns[i],
                 BN_BENCH_LEAST_STEPS, step_ns);
        return false;
    }
    if (n < BN_BENCH_MOST_EQUAL || !bn_all_equal(ns, n)) return true;
    snprintf(reason, BN_BENCH_REASON, "all %zu samples took exactly %.0f ns: the clock does not advance", n,
             ns[0]);
    return false;
}

bool bn_bench_above_limit(const struct bn_bench_claim *claim)
{
    return claim->limit > 0 && claim->rate > BN_BENCH_MOST_SHARE * claim->limit;
}

const char *bn_bench_refuses(char out[BN_BENCH_REASON], const struct bn_bench_claim *claim,
                             const struct bn_clock_facts *clock)
{
    if (clock->n_backward > 0)
        snprintf(out, BN_BENCH_REASON, "the clock stepped back %llu times",
                 (unsigned long long)clock->n_backward);
    else if (!(clock->resolution_ns > 0))
        snprintf(out, BN_BENCH_REASON, "the clock does not advance");
    else if (!bn_bench_believable(claim->sample_ns, claim->n, clock->resolution_ns, out))
        return out;
    else if (bn_bench_above_limit(claim))
        snprintf(out, BN_BENCH_REASON, "%.4g per second is more than %.2f times the measured limit, %.4g",
                 claim->rate, BN_BENCH_MOST_SHARE, claim->limit);
    else
        return NULL;
    return out;
}
