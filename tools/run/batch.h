/* SPDX-License-Identifier: MIT
 *
 * The requests of bn-run --batch-file: JSON Lines, all of which are checked before anything runs.
 */
#ifndef BN_RUN_BATCH_H
#define BN_RUN_BATCH_H

#include "tools/run/run.h"

/* One line of the file, and later its result. */
struct bn_run_request {
    bn_json *line;
    char *text; /* what is evaluated, the template applied; NULL when the line gives tokens */
    size_t n_bytes;
    int32_t *ids;
    const char **stops;
    bn_grammar *grammar; /* of the line; NULL: that of all, or none */
    struct bn_generation gen;
    struct bn_buf answer;
};

struct bn_run_requests {
    struct bn_run_request *list;
    size_t n;
    bn_template tmpl;
    bn_grammar *grammar; /* of lines without one; NULL: none */
};

/* Reads the lines of a file ("-": standard input). What a line leaves out is as the command line says. An error names
 * the line. Released by bn_run_requests_release, after an error too. */
BN_MUST_CHECK bn_status bn_run_requests_read(struct bn_run_requests *requests, const char *path,
                                             const struct bn_args *args, const struct bn_run_engine *engine,
                                             bn_error *err);
void bn_run_requests_release(struct bn_run_requests *requests);

#endif
