/* SPDX-License-Identifier: MIT
 *
 * What bn-bench remembers: DIR/<machine>/<suite>.json, one file for each machine and suite
 * (docs/reference/ledger.md).
 *
 * A ledger is a list of records that are only ever appended. A record's id is the sha256 of its canonical
 * JSON, in which the id of the record before it stands; so no record can be changed, removed from the middle
 * or put in between without breaking the chain, which every reading checks. There are two kinds: a run, with
 * its raw samples, and a promotion, which makes an earlier run the baseline of its name.
 *
 * Runs of one name are of one line when machine, settings and model are the same. The first run of a line is
 * its baseline; later ones become it when they are promoted, which those that regressed cannot be.
 */
#ifndef BN_HISTORY_LEDGER_H
#define BN_HISTORY_LEDGER_H

#include "lab/history/result.h"
#include "lab/stats/judge.h"

enum bn_entry_state { BN_ENTRY_SAVED, BN_ENTRY_PROMOTED, BN_ENTRY_REGRESSED };
const char *bn_entry_state_name(enum bn_entry_state state); /* "saved", ... */

/* A run. Texts point into the ledger's document and are empty when not known. */
struct bn_entry {
    const char *id, *name, *created, *commit, *branch, *reason;
    bool dirty;
    struct bn_likeness like;
    enum bn_entry_state state; /* by the last record that speaks of it */
    size_t promoted_at;        /* index of that record; 0 when it never was promoted by one */
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

/* Reads the ledger of a suite on a machine. With write the folders are made, others are kept out until
 * bn_ledger_close, and a ledger that there is not yet starts empty; else that is BN_ERR_NOT_FOUND.
 * BN_ERR_INTEGRITY when the chain is broken, naming the record; BN_ERR_IO when another process does not
 * release it within ten seconds. */
BN_MUST_CHECK bn_status bn_ledger_open(struct bn_ledger *ledger, const char *folder,
                                       const char *machine_label, const char *suite, bool write,
                                       bn_error *err);
void bn_ledger_close(struct bn_ledger *ledger);

/* What is recorded beside the run itself. */
struct bn_ledger_note {
    enum bn_entry_state state;
    const char *allowed[4]; /* refusals that were set aside: "dirty", "stale" */
    size_t n_allowed;
    const char *reason;      /* why; NULL without any */
    const char *against;     /* id of the entry that it was held against; NULL without any */
    enum bn_outcome outcome; /* of that */
};

/* Appends in memory; entries move. BN_ERR_FORMAT when the result does not say which machine it is of. */
BN_MUST_CHECK bn_status bn_ledger_add(struct bn_ledger *ledger, const char *name,
                                      const struct bn_result *result, const struct bn_ledger_note *note,
                                      bn_error *err);
/* BN_ERR_MISMATCH for an entry that regressed. */
BN_MUST_CHECK bn_status bn_ledger_promote(struct bn_ledger *ledger, const struct bn_entry *entry,
                                          const char *reason, bn_error *err);
/* Puts it on disk: all of it, or on failure nothing, the old file staying as it was. */
BN_MUST_CHECK bn_status bn_ledger_write(struct bn_ledger *ledger, bn_error *err);

/* The baseline of a name for runs like this; NULL when there is none. unlike is set to the last baseline of
 * that name of another line, or NULL. */
const struct bn_entry *bn_ledger_baseline(const struct bn_ledger *ledger, const char *name,
                                          const struct bn_likeness *like, const struct bn_entry **unlike);
/* The entry whose id begins so. BN_ERR_NOT_FOUND for none, BN_ERR_ARG for several. */
BN_MUST_CHECK bn_status bn_ledger_find(const struct bn_ledger *ledger, const char *id,
                                       const struct bn_entry **out, bn_error *err);

#endif
