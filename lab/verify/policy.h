/* SPDX-License-Identifier: MIT
 *
 * What a verifier demands of receipts. The policy is the verifier's; nothing in a receipt can change it.
 */
#ifndef BN_RECEIPT_POLICY_H
#define BN_RECEIPT_POLICY_H

#include "base/json.h"

struct bn_receipt_policy {
    bool accept_bare, accept_statement, accept_envelope; /* forms; all by default */
    bool require_signature;
    uint64_t
        signature_threshold; /* different keys that must verify an envelope; in a file it sets the above */
    bool require_gpu_kernels, require_quantized_kernels;
    bool validate_performance;
    bool require_clean_program; /* built from a committed tree */
    bool require_clean_git;     /* run in one */
    bool allow_corrections;
    uint64_t max_age_s;             /* 0: any */
    uint64_t clock_skew_s;          /* how far in the future a timestamp may lie */
    uint64_t rate_tolerance_milli;  /* thousandths by which a rate may differ from tokens / time */
    uint64_t bandwidth_bytes_per_s; /* 0: measured here */
    uint64_t bandwidth_percent;     /* of it that a receipt may claim */
    bn_json *source; /* owned: the lists model_sha256, program_sha256, off, require; NULL without a file */
};

void bn_receipt_policy_defaults(struct bn_receipt_policy *policy);
/* Reads the text of a policy file over the defaults. BN_ERR_FORMAT for an unknown member: a misspelt demand
 * must not be dropped. */
BN_MUST_CHECK bn_status bn_receipt_policy_read(struct bn_receipt_policy *policy, const char *text, size_t n,
                                               bn_error *err);
/* Whether anything is demanded, so that a receipt without data must fail. */
bool bn_receipt_policy_demands(const struct bn_receipt_policy *policy);
void bn_receipt_policy_release(struct bn_receipt_policy *policy);

/* Whether text is an element of the list of that name. *n_listed (may be NULL) gets the list's length. */
bool bn_receipt_policy_lists(const struct bn_receipt_policy *policy, const char *list, const char *text,
                             size_t *n_listed);

#endif
