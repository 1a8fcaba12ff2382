/* SPDX-License-Identifier: MIT
 *
 * Rules about speed: what no processor can do fails always; what is too fast for a stated or measured rate of
 * memory is a matter of --validate-performance.
 *
 * A rate that is measured here is a lower bound of what this machine can do: other programs may have slowed
 * the measurement down. So it can show that a claim is possible, never that it is false; what it cannot show
 * is undecided.
 */
#include <stdio.h>

#include "lab/verify/checks.h"

/* Per nanosecond and hardware thread, far above any processor. Two units of 512 bits at 6 GHz do 768
 * multiply-adds of 8-bit integers a nanosecond, a matrix unit does more; three loads of 64 bytes a cycle from
 * the first cache at 6 GHz are 1152 bytes. */
#define MAX_OPS_PER_NS 4096.0
#define MAX_BYTES_PER_NS 2048.0

ull bn_rules_ranks(const struct bn_check *c)
{
    ull n = c->k->ranks.count;
    return n > 1 && n <= 4096 ? n : 1;
}

bool bn_check_performance_physical(const struct bn_check *c)
{
    ull total = c->k->measured.total_ns, threads = c->k->resolved.threads;
    if (bn_rule_claim(c, "measurement.kernel_stats") == NULL ||
        !bn_rule_needs(c, "measurement.total_ns resolved: threads"))
        return false;
    struct bn_receipt_work all = bn_work_sum(c, NULL, 0);
    double time = (double)total * (double)threads * (double)bn_rules_ranks(c);
    double ops = (double)all.ops / time, bytes = (double)all.bytes / time;
    if (total == 0 || threads == 0 || all.bytes == 0)
        return bn_rule_fail(c, "%llu bytes in %llu ns by %llu threads", (ull)all.bytes, total, threads);
    if (ops > MAX_OPS_PER_NS)
        return bn_rule_fail(c, "%.0f multiply-adds a nanosecond and thread: no machine does that", ops);
    if (bytes > MAX_BYTES_PER_NS)
        return bn_rule_fail(c, "%.0f bytes a nanosecond and thread: no machine reads that", bytes);
    return bn_rule_pass(c, "%.2f bytes and %.2f multiply-adds a nanosecond and thread", bytes, ops);
}

uint64_t bn_rules_claimed_bandwidth(const struct bn_receipt *receipt)
{
    struct bn_claims claims;
    struct bn_rules_input in = {.receipt = receipt};
    struct bn_check c = bn_check_open(&claims, &in, NULL);
    double total = (double)claims.measured.total_ns;
    double rate = total > 0 ? (double)bn_work_sum(&c, NULL, 0).bytes * 1e9 / total : 0;
    return rate < 9e18 ? (uint64_t)rate : UINT64_MAX;
}

/* The rate to compare with, and where it comes from. On another CPU the measurement says little, and the
 * signer's own probe counts if there is one. */
static uint64_t choose_bandwidth(const struct bn_check *c, const char **source)
{
    uint64_t claimed = bn_json_count_of(c->p, "measurement.bandwidth_probe_bytes_per_s");
    bool same = c->in->cpu_model != NULL && bn_json_text_is(c->p, "machine.cpu_model", c->in->cpu_model);
    *source = same ? "measured here, same CPU" : "measured here, another CPU";
    if (same || claimed <= c->in->bandwidth_bytes_per_s) return c->in->bandwidth_bytes_per_s;
    *source = "the receipt's own probe";
    return claimed;
}

bool bn_check_performance_measured(const struct bn_check *c)
{
    const char *source = "the policy's rate";
    if (!c->in->policy->validate_performance)
        return bn_rule_skip(c, "not asked for (--validate-performance)");
    if (c->bare && bn_json_path(c->p, "measurement.kernel_stats") == NULL)
        return bn_rule_skip(c, "no bytes are claimed");
    uint64_t stated = c->in->policy->bandwidth_bytes_per_s,
             bandwidth = stated > 0 ? stated : choose_bandwidth(c, &source);
    double limit =
        (double)bandwidth * (double)c->in->policy->bandwidth_percent / 100 / 1e9 * (double)bn_rules_ranks(c);
    double rate = (double)bn_rules_claimed_bandwidth(c->in->receipt) / 1e9;
    if (!(rate > 0)) return bn_rule_fail(c, "no bytes are claimed");
    if (rate <= limit)
        return bn_rule_pass(c, "%.2f GB/s, at most %.2f are believed (%s)", rate, limit, source);
    if (stated > 0)
        return bn_rule_fail(c, "%.2f GB/s were read, at most %.2f are believed (%s)", rate, limit, source);
    return bn_rule_undecided(c,
                             "%.2f GB/s were read, %.2f can be shown to be possible (%s); "
                             "bandwidth_bytes_per_s in a policy decides",
                             rate, limit, source);
}
