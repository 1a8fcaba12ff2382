/* SPDX-License-Identifier: MIT
 *
 * The ledger of saved runs: DIR/<machine>/<suite>.json, one file for each machine and suite
 * (docs/reference/bench.md).
 *
 * Records are only appended. The id of a record is the sha256 of its canonical JSON, which contains the id of
 * the record before it. So no record can be changed, removed from the middle or inserted without breaking the
 * chain, which is checked whenever the file is read. There are two kinds: a run, with its raw samples, and a
 * promotion, which makes an earlier run the baseline of its name.
 *
 * Runs form one series when name, machine, settings and model match. The first run of a series is its
 * baseline. A later run becomes the baseline when it is promoted; a run that regressed cannot be promoted.
 */
#ifndef BN_HISTORY_LEDGER_H
#define BN_HISTORY_LEDGER_H

#include "lab/history/result.h"
#include "lab/stats/judge.h"

enum bn_entry_state { BN_ENTRY_SAVED, BN_ENTRY_PROMOTED, BN_ENTRY_REGRESSED };
const char *bn_entry_state_name(enum bn_entry_state state); /* "saved", ... */

/* A run. Texts point into the ledger's document and are empty when not known. */
struct bn_entry {
    const char *id, *name, *created, *commit, *branch;
    bool dirty;
    struct bn_likeness like;
    enum bn_entry_state state; /* by the last record about it */
    size_t promoted_at;        /* index of its promotion; 0 without one */
    const bn_json *json;       /* of schema bn.ledger/1; its series by bn_series_read */
};

struct bn_ledger {
    bn_json *document;
    struct bn_entry *entries; /* the runs, in the order of saving */
    size_t n, n_records;
    const char *suite, *machine_key, *machine_label;
    char path[4096];
    int lock; /* descriptor of the locked folder; -1 when it was opened for reading */
};

/* Reads the ledger of a suite on a machine. With write the folders are created, the ledger is locked until
 * bn_ledger_close, and a missing file is an empty ledger; without, it is BN_ERR_NOT_FOUND. BN_ERR_INTEGRITY
 * when the chain is broken, naming the record; BN_ERR_IO when another process keeps it locked for ten
 * seconds. */
BN_MUST_CHECK bn_status bn_ledger_open(struct bn_ledger *ledger, const char *folder,
                                       const char *machine_label, const char *suite, bool write,
                                       bn_error *err);
void bn_ledger_close(struct bn_ledger *ledger);

/* What is recorded in addition to the run. */
struct bn_ledger_note {
    enum bn_entry_state state;
    const char *allowed[4]; /* refusals that were overridden: "dirty", "stale" */
    size_t n_allowed;
    const char *reason;      /* why; NULL without any */
    const char *against;     /* id of the entry that it was compared with; NULL without any */
    enum bn_outcome outcome; /* of that comparison */
};

/* Appends in memory; entries move. BN_ERR_FORMAT when the result has no machine key. */
BN_MUST_CHECK bn_status bn_ledger_add(struct bn_ledger *ledger, const char *name,
                                      const struct bn_result *result, const struct bn_ledger_note *note,
                                      bn_error *err);
/* BN_ERR_MISMATCH for an entry that regressed. */
BN_MUST_CHECK bn_status bn_ledger_promote(struct bn_ledger *ledger, const struct bn_entry *entry,
                                          const char *reason, bn_error *err);
/* Writes the file atomically: on failure the old file is unchanged. */
BN_MUST_CHECK bn_status bn_ledger_write(struct bn_ledger *ledger, bn_error *err);

/* The baseline of a name for runs like this; NULL without one. unlike is set to the last baseline of that
 * name with another machine, settings or model, or NULL. */
const struct bn_entry *bn_ledger_baseline(const struct bn_ledger *ledger, const char *name,
                                          const struct bn_likeness *like, const struct bn_entry **unlike);
/* The entry whose id starts with this text. BN_ERR_NOT_FOUND for none, BN_ERR_ARG for several. */
BN_MUST_CHECK bn_status bn_ledger_find(const struct bn_ledger *ledger, const char *id,
                                       const struct bn_entry **out, bn_error *err);

#endif
