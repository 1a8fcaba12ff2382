/* SPDX-License-Identifier: MIT
 *
 * A load on a server of OpenAI's API: the same streamed requests by a number of clients, each of which asks again at once.
 * Requests follow from the seed alone, so that answers under different loads can be compared. HTTP without TLS, to an address
 * or localhost: names are not looked up.
 */
#ifndef BN_BENCH_SERVE_LOAD_H
#define BN_BENCH_SERVE_LOAD_H

#include <netinet/in.h>
#include <stdatomic.h>

#include "tools/bench/bench.h"

/* ---- one request ---- */

/* Where requests go. */
struct bn_target {
    struct sockaddr_storage address;
    socklen_t n_address;
    char host[80];    /* of the header Host */
    char prefix[200]; /* of the path, "/v1" */
    const char *key;  /* NULL: none */
};
/* Reads "http://127.0.0.1:8080/v1". BN_ERR_ARG for what is not such a URL. */
BN_MUST_CHECK bn_status bn_target_parse(struct bn_target *target, const char *url, bn_error *err);

enum { BN_CLIENT_NEW, BN_CLIENT_RUNS, BN_CLIENT_ENDED };

struct bn_client_run {
    atomic_int state;
    unsigned status;           /* HTTP's; 0: none came */
    char reason[160];          /* why it failed; empty: it did not */
    uint64_t start_ns, end_ns; /* when it was sent, and when the answer had come */
    uint64_t *at_ns;           /* when each piece of text came */
    atomic_size_t n_at;
    size_t room;
    size_t n_prompt, n_cached, n_tokens; /* as the usage says */
    char chain[65];                      /* of bn-serve; else the digest of the text */
};
/* ---- one load ---- */

/* Times in nanoseconds: to the first token; between two tokens; the same while the interrupting prompt came in; the mean of
 * each request between its tokens. The names are those of the series. */
enum bn_load_times { BN_LOAD_FIRST, BN_LOAD_GAPS, BN_LOAD_MEANWHILE, BN_LOAD_EACH, BN_LOAD_TIMES };
extern const char *const bn_load_metrics[BN_LOAD_TIMES];

struct bn_serve_load {
    uint32_t n_clients;
    struct bn_client_run *runs; /* n_requests of the options, and the interrupting one */
    size_t n_runs, n_failed;
    uint64_t n_prompt, n_cached, n_tokens;
    double seconds;
    double *ns[BN_LOAD_TIMES];
    size_t n[BN_LOAD_TIMES];
};

/* Runs it. Requests that fail are counted. Released by bn_load_release, after an error too. */
BN_MUST_CHECK bn_status bn_load_run(struct bn_serve_load *load, const struct bn_target *target,
                                    const struct bn_bench_options *o, bn_error *err);
void bn_load_release(struct bn_serve_load *load);
/* Requests that both have answered, and of them, those with the same answer. */
size_t bn_load_compare(const struct bn_serve_load *a, const struct bn_serve_load *b, size_t *n_same);

#endif
