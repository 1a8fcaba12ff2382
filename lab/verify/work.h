/* SPDX-License-Identifier: MIT
 *
 * What the rules about work and about speed share: sums over the counters of a receipt.
 */
#ifndef BN_RECEIPT_WORK_H
#define BN_RECEIPT_WORK_H

#include "kernels/kernels.h"
#include "lab/verify/checks.h"

struct bn_receipt_work {
    uint64_t calls, ns, bytes, ops;
};

/* The sum over the kernels of these slots in measurement.kernel_stats; n_slots 0: over all. Sums that wrap
 * stay at the largest number. */
struct bn_receipt_work bn_receipt_work_sum(const struct bn_rules_input *in, const enum bn_kernel *slots,
                                           size_t n_slots);

#endif
