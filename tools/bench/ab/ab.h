/* SPDX-License-Identifier: MIT
 *
 * The parts of `bn-bench ab`: running a command in a slot, printing a session.
 */
#ifndef BN_BENCH_AB_H
#define BN_BENCH_AB_H

#include <regex.h>

#include "tools/bench/ab/session.h"
#include "tools/bench/bench.h"

/* A number to find in the output of a command. */
struct bn_ab_extract {
    char *name;
    regex_t regex; /* its first group is the number */
    bool higher;
};

/* How commands are run, and which values are read from them. */
struct bn_ab_commands {
    const char *const *argv[2]; /* of A, of B; end with NULL */
    char *shell[2];             /* the same as one line of shell; NULL without --shell */
    const struct bn_bench_options *o;
    uint64_t timeout_ns;
    struct bn_ab_extract *extracts;
    size_t n_extracts;
};

/* Reads options and operands. Released also after a failure. */
BN_MUST_CHECK bn_status bn_ab_commands_read(struct bn_ab_commands *c, const struct bn_args *args,
                                            bn_error *err);
/* The nanoseconds of an option's seconds; more than a year is an error. */
BN_MUST_CHECK bn_status bn_ab_duration(const char *name, uint64_t seconds, uint64_t *ns, bn_error *err);
void bn_ab_commands_release(struct bn_ab_commands *c);
/* The function of a session: runs the side of the slot once. Exceeding the time limit stops the session; a
 * failure is an error unless failures are ignored. A number that is not found is a missing value. */
bn_status bn_ab_commands_run(void *commands, struct bn_ab_slot *slot, bn_error *err);

/* The session as text, and as members of a document. */
void bn_ab_print(struct bn_buf *out, const struct bn_ab_session *s, const struct bn_ab_commands *c);
BN_MUST_CHECK bn_status bn_ab_put(bn_json *doc, const struct bn_ab_session *s, const struct bn_ab_commands *c,
                                  bn_error *err);

#endif
