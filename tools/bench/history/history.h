/* SPDX-License-Identifier: MIT
 *
 * bn-bench compare and baseline: how two documents are compared, printed, and turned into an exit code; and
 * the regression levels, which ab uses too. And the ledgers that baseline and trend read.
 */
#ifndef BN_BENCH_HISTORY_H
#define BN_BENCH_HISTORY_H

#include "lab/history/compare.h"
#include "lab/history/ledger.h"
#include "tools/bench/bench.h"

struct bn_bench_compare_settings {
    struct bn_levels levels;
    struct bn_history_rules rules;
    const struct bn_bench_options *o;
};

extern const struct bn_option bn_bench_compare_options[], bn_bench_thresholds_option[];
/* Reads them; rules.levels points into out. */
BN_MUST_CHECK bn_status bn_bench_compare_read(struct bn_bench_compare_settings *out,
                                              const struct bn_bench_options *o, bn_error *err);
/* The levels of a file; NULL: the built-in ones. */
BN_MUST_CHECK bn_status bn_bench_levels(struct bn_levels *out, const char *path, bn_error *err);

/* Compares two results, whose texts it points into. Of one that was contended, and of two of the same program, times are not
 * judged. */
BN_MUST_CHECK bn_status bn_bench_compare_results(struct bn_history_comparison *out, const struct bn_result *a,
                                                 const struct bn_result *b,
                                                 struct bn_bench_compare_settings *settings, bn_error *err);
/* Prints a comparison as text or in the document doc, and sets the exit code: 1 for a regression of the
 * severity of --fail-on, for a missing series, when no series or none of the times and rates has a verdict,
 * and with
 * --strict for anything inconclusive. */
BN_MUST_CHECK bn_status bn_bench_compare_show(struct bn_args *args,
                                              const struct bn_bench_compare_settings *settings,
                                              const struct bn_history_comparison *comparison, bn_json *doc,
                                              bn_error *err);
/* The origin of a result: file, date, commit, machine. */
void bn_bench_print_origin(const char *side, const char *name, const struct bn_result *result);
void bn_bench_put_origin(bn_json *doc, const char *side, const struct bn_result *result);

/* ---- all ledgers of a folder (ledgers.c) ---- */

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
