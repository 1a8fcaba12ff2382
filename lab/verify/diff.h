/* SPDX-License-Identifier: MIT
 *
 * Compares two receipts.
 */
#ifndef BN_RECEIPT_DIFF_H
#define BN_RECEIPT_DIFF_H

#include "lab/receipt/open.h"

enum bn_diff_group {
    BN_DIFF_IDENTITY,    /* model, request, program, machine */
    BN_DIFF_RESULT,      /* tokens, digests, reason to stop */
    BN_DIFF_MEASUREMENT, /* how long it took and how much was moved */
    BN_DIFF_GROUP_COUNT
};
const char *bn_diff_group_name(enum bn_diff_group group);

/* One value that differs, or that only one of them has. */
struct bn_receipt_diff {
    enum bn_diff_group group;
    char path[160];
    char left[96], right[96]; /* as JSON, shortened; empty: absent */
    bool has_ratio;           /* of two numbers of a measurement */
    double ratio;             /* right / left */
};

typedef void (*bn_diff_fn)(void *user, const struct bn_receipt_diff *diff);

/* Calls fn for each difference in the order of the left receipt, then for what only the right one has; counts
 * them by group. Lists are compared as a whole and reported by the first element that differs. */
BN_MUST_CHECK bn_status bn_receipt_diff(const struct bn_receipt *left, const struct bn_receipt *right,
                                        bn_diff_fn fn, void *user, size_t n_diffs[BN_DIFF_GROUP_COUNT],
                                        bn_error *err);

#endif
