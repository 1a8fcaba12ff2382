/* SPDX-License-Identifier: MIT
 *
 * All ledgers of a folder.
 */
#ifndef BN_BENCH_LEDGERS_H
#define BN_BENCH_LEDGERS_H

#include "lab/history/ledger.h"
#include "tools/bench/bench.h"

extern const struct bn_option bn_bench_ledger_options[]; /* --ledger */

/* Zeroed before use; closed in any case. */
struct bn_ledgers {
    struct bn_ledger *list;
    size_t n, room;
};
/* Reads the ledgers of a machine and a suite, or of all (NULL), in the order of their names. A missing folder has none. */
BN_MUST_CHECK bn_status bn_ledgers_open(struct bn_ledgers *all, const char *folder, const char *machine,
                                        const char *suite, bn_error *err);
void bn_ledgers_close(struct bn_ledgers *all);

#endif
