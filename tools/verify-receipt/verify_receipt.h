/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-verify-receipt, and what they share.
 */
#ifndef BN_VERIFY_RECEIPT_H
#define BN_VERIFY_RECEIPT_H

#include "lab/verify/diff.h"
#include "lab/verify/rules.h"
#include "tools/cli/options.h"

/* The options of all commands; each has some of them. */
struct bn_verify_options {
    /* verify */
    const char *path, *other, *policy;
    struct bn_texts keys; /* --public-key */
    bool require_signature, unverified, require_gpu_kernels, require_quantized_kernels;
    bool validate_performance, allow_corrections, replay;
    uint64_t max_age_s;
    uint32_t n_threads, n_batch; /* 0: not given */
    /* sign, keygen */
    const char *key, *output;
};

/* The public keys of --public-key, each once. */
struct bn_verify_keys {
    struct bn_key *list[BN_ENVELOPE_MAX_KEYS];
    size_t n;
};

/* Reads and opens a receipt. */
BN_MUST_CHECK bn_status bn_verify_read(struct bn_receipt *receipt, const char *path,
                                       const struct bn_verify_keys *keys, uint64_t threshold, bool unverified,
                                       bn_error *err);

/* print.c: what was found, as text or as the document of --json. */
BN_MUST_CHECK bn_status bn_verify_print(const struct bn_args *args, const char *path,
                                        const struct bn_receipt *receipt,
                                        const struct bn_rules_report *report, bn_error *err);
BN_MUST_CHECK bn_status bn_verify_print_diff(struct bn_args *args, const struct bn_receipt *left,
                                             const struct bn_receipt *right, bn_error *err);

/* The commands. */
bn_status bn_verify_verify(struct bn_args *args, bn_error *err);
bn_status bn_verify_sign(struct bn_args *args, bn_error *err);
bn_status bn_verify_keygen(struct bn_args *args, bn_error *err);
bn_status bn_verify_rules(struct bn_args *args, bn_error *err);

#endif
