/* SPDX-License-Identifier: MIT
 *
 * What all doctors share: rows of checks, printed as text while they are made, or as one document, bn.doctor/1:
 *
 *     {"schema", "rows": [{"section", "check", "state", "value", "hint"}], "ready"}
 *
 * A check is "ok"; or it is a "note", which something is lost without; or it is a "FAIL". The exit code is 1 when
 * one of them failed, else 0. --require makes a note a failure.
 */
#ifndef BN_CLI_DOCTOR_H
#define BN_CLI_DOCTOR_H

#include "base/json.h"
#include "tools/cli/options.h"

enum bn_doctor_state { BN_DOCTOR_OK, BN_DOCTOR_NOTE, BN_DOCTOR_FAIL };

/* The state of a check that nothing fails by. */
#define BN_DOCTOR_IF(good) ((good) ? BN_DOCTOR_OK : BN_DOCTOR_NOTE)

#define BN_OPTION_REQUIRE                                                                           \
    BN_OPTION("require", "exit with 1 unless this check is ok", .arg = "CHECK", .repeatable = true, \
              BN_TO_TEXTS(struct bn_args, require), .shared = true)

struct bn_doctor {
    struct bn_args *args;
    const char *section, *shown; /* shown: the last one whose name was printed */
    bn_json *rows;               /* of the document; NULL without --json */
    size_t n_failed;
    uint64_t seen; /* which of --require were checked: bits */
};

void bn_doctor_begin(struct bn_doctor *doctor, struct bn_args *args, const char *section);
/* hint: a command or setting that helps, or NULL; shown unless the check is ok. */
void bn_doctor_put(struct bn_doctor *doctor, enum bn_doctor_state state, const char *check, const char *hint,
                   const char *fmt, ...) BN_PRINTF(5, 6);
/* Prints the document, and sets the exit code. status: of the checks; it is returned. BN_ERR_ARG for a required
 * check that there is not. */
BN_MUST_CHECK bn_status bn_doctor_end(struct bn_doctor *doctor, bn_status status, bn_error *err);

#endif
