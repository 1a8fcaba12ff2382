/* SPDX-License-Identifier: MIT
 *
 * The table of claims, and which of them a report backs.
 */
#include "lab/verify/claims.h"

#include "base/error.h"

static const struct bn_claim CLAIMS[] = {
    {"model", "the verifier has this model", {"model"}, "--model", true},
    {"tokens", "the request gives these tokens", {"replay"}, "--replay", true},
    {"work",
     "the counted kernels do the work of these tokens",
     {"kernels-known", "kernel-work", "attention-work", "head-work", "layer-work"},
     "counters are missing",
     true},
    {"speed",
     "this machine could be that fast",
     {"performance-physical", "performance-measured"},
     "--validate-performance",
     true},
    {"author", "a holder of a given key signed it", {"signature"}, "--public-key", true},
    {"parity", "a reference gave the same tokens", {"parity"}, "bn-crossval ladder --receipt", false},
    {"fresh", "it is recent", {"freshness"}, "--max-age", false},
};

const struct bn_claim *bn_claims_at(size_t i)
{
    return i < BN_ARRAY_LEN(CLAIMS) ? &CLAIMS[i] : NULL;
}

bool bn_claim_holds(const struct bn_claim *claim, const struct bn_rules_report *report)
{
    size_t n = 0;
    for (; n < BN_ARRAY_LEN(claim->rules) && claim->rules[n] != NULL; n++)
        if (bn_rules_result(report, claim->rules[n])->verdict != BN_VERDICT_PASS) return false;
    return n > 0 && report->verified;
}

bool bn_claimable(const struct bn_rules_report *report)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(CLAIMS); i++)
        if (CLAIMS[i].needed && !bn_claim_holds(&CLAIMS[i], report)) return false;
    return report->verified && report->bound;
}
