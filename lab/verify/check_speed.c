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

typedef unsigned long long ull;

/* Per nanosecond and hardware thread, far above any processor. Two units of 512 bits at 6 GHz do 768
 * multiply-adds of 8-bit integers a nanosecond, a matrix unit does more; three loads of 64 bytes a cycle from
 * the first cache at 6 GHz are 1152 bytes. */
#define MAX_OPS_PER_NS 4096.0
#define MAX_BYTES_PER_NS 2048.0

uint64_t bn_rules_ranks(const struct bn_receipt *receipt)
{
    uint64_t n = 1;
    (void)bn_json_u64(bn_json_path(receipt->predicate, "measurement.ranks.count"), &n);
    return n > 1 && n <= 4096 ? n : 1;
}

bool bn_check_performance_physical(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    uint64_t total = 0, threads = 0;
    if (bn_rule_claim(in, "measurement.kernel_stats", out) == NULL) return false;
    if (!bn_rule_u64(in, "measurement.total_ns", &total, out) ||
        !bn_rule_u64(in, "resolved.threads", &threads, out))
        return false;
    struct bn_receipt_work all = bn_receipt_work_sum(in, NULL, 0);
    double time = (double)total * (double)threads * (double)bn_rules_ranks(in->receipt);
    if (total == 0 || threads == 0 || all.bytes == 0)
        return bn_rule_fail(out, "%llu bytes in %llu ns by %llu threads", (ull)all.bytes, (ull)total,
                            (ull)threads);
    if ((double)all.ops > MAX_OPS_PER_NS * time)
        return bn_rule_fail(out, "%.0f multiply-adds a nanosecond and thread: no machine does that",
                            (double)all.ops / time);
    if ((double)all.bytes > MAX_BYTES_PER_NS * time)
        return bn_rule_fail(out, "%.0f bytes a nanosecond and thread: no machine reads that",
                            (double)all.bytes / time);
    return bn_rule_pass(out, "%.2f bytes and %.2f multiply-adds a nanosecond and thread",
                        (double)all.bytes / time, (double)all.ops / time);
}

uint64_t bn_rules_claimed_bandwidth(const struct bn_receipt *receipt)
{
    struct bn_rules_input in = {.receipt = receipt};
    uint64_t total = 0;
    (void)bn_json_u64(bn_json_path(receipt->predicate, "measurement.total_ns"), &total);
    double rate = total > 0 ? (double)bn_receipt_work_sum(&in, NULL, 0).bytes * 1e9 / (double)total : 0;
    return rate < 9e18 ? (uint64_t)rate : UINT64_MAX;
}

/* The rate to compare with, and where it comes from. On another CPU the measurement says little, and the
 * signer's own probe counts if there is one. */
static uint64_t choose_bandwidth(const struct bn_rules_input *in, const char **source)
{
    const char *cpu = NULL;
    uint64_t claimed = 0;
    (void)bn_json_string(bn_json_path(in->receipt->predicate, "machine.cpu_model"), &cpu);
    (void)bn_json_u64(bn_json_path(in->receipt->predicate, "measurement.bandwidth_probe_bytes_per_s"),
                      &claimed);
    bool same = cpu != NULL && in->cpu_model != NULL && strcmp(cpu, in->cpu_model) == 0;
    *source = same ? "measured here, same CPU" : "measured here, another CPU";
    if (same || claimed <= in->bandwidth_bytes_per_s) return in->bandwidth_bytes_per_s;
    *source = "the receipt's own probe";
    return claimed;
}

bool bn_check_performance_measured(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *source = "the policy's rate";
    if (!in->policy->validate_performance) return bn_rule_skip(out, "not asked for (--validate-performance)");
    if (in->receipt->statement == NULL &&
        bn_json_path(in->receipt->predicate, "measurement.kernel_stats") == NULL)
        return bn_rule_skip(out, "no bytes are claimed");
    uint64_t stated = in->policy->bandwidth_bytes_per_s,
             bandwidth = stated > 0 ? stated : choose_bandwidth(in, &source);
    double limit = (double)bandwidth * (double)in->policy->bandwidth_percent / 100 / 1e9 *
                   (double)bn_rules_ranks(in->receipt);
    double rate = (double)bn_rules_claimed_bandwidth(in->receipt) / 1e9;
    if (!(rate > 0)) return bn_rule_fail(out, "no bytes are claimed");
    if (rate <= limit)
        return bn_rule_pass(out, "%.2f GB/s, at most %.2f are believed (%s)", rate, limit, source);
    if (stated > 0)
        return bn_rule_fail(out, "%.2f GB/s were read, at most %.2f are believed (%s)", rate, limit, source);
    return bn_rule_undecided(out,
                             "%.2f GB/s were read, %.2f can be shown to be possible (%s); "
                             "bandwidth_bytes_per_s in a policy decides",
                             rate, limit, source);
}
