/* SPDX-License-Identifier: MIT
 *
 * What a checked receipt shows, in the words of a reader: a few claims, each backed by rules that passed. A
 * claim without its rules is not made, however true it may be. A receipt is *claimable* when it is verified,
 * a signature or digest covers all of it, and every claim that is needed to publish its speed holds.
 */
#ifndef BN_VERIFY_CLAIMS_H
#define BN_VERIFY_CLAIMS_H

#include "lab/verify/rules.h"

struct bn_claim {
    const char *id;
    const char *text;     /* what holds */
    const char *rules[6]; /* all of them must have passed; then NULL */
    const char *missing;  /* the option or program that would show it, or what is missing */
    bool needed;          /* for a receipt that is claimable */
};

/* The i-th claim, NULL past the end. */
const struct bn_claim *bn_claims_at(size_t i);
bool bn_claim_holds(const struct bn_claim *claim, const struct bn_rules_report *report);
bool bn_claimable(const struct bn_rules_report *report);

#endif
