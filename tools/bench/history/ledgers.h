/* SPDX-License-Identifier: MIT
 *
 * Visits all ledgers of a folder in the order of their names.
 */
#ifndef BN_BENCH_LEDGERS_H
#define BN_BENCH_LEDGERS_H

#include "lab/history/ledger.h"
#include "tools/bench/bench.h"

extern const struct bn_option bn_bench_ledger_options[]; /* --ledger */

/* Calls visit with each ledger in the folder; machine and suite are NULL for all of them. Stops at the first
 * error. A missing folder has no ledgers. */
typedef bn_status (*bn_bench_visit)(void *arg, const struct bn_ledger *ledger, bn_error *err);
BN_MUST_CHECK bn_status bn_bench_each_ledger(const char *folder, const char *machine, const char *suite,
                                             bn_bench_visit visit, void *arg, bn_error *err);

#endif
