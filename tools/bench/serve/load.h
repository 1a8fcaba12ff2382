/* SPDX-License-Identifier: MIT
 *
 * A load on a server: the same requests by a number of clients that ask again at once (closed loop), or at times of a
 * Poisson process (open loop). Requests follow from the seed alone, so that answers under different loads can be
 * compared.
 */
#ifndef BN_BENCH_SERVE_LOAD_H
#define BN_BENCH_SERVE_LOAD_H

#include "tools/bench/bench.h"
#include "tools/bench/serve/client.h"

struct bn_load_plan {
    struct bn_target target;
    const struct bn_bench_options *o; /* requests, words, tokens, seed and so on */
};

/* Times in nanoseconds: to the first token; between two tokens; the same while the interrupting prompt came in; the mean of
 * each request between its tokens. The names are those of the series. */
enum bn_load_times { BN_LOAD_FIRST, BN_LOAD_GAPS, BN_LOAD_MEANWHILE, BN_LOAD_EACH, BN_LOAD_TIMES };
extern const char *const bn_load_metrics[BN_LOAD_TIMES];

/* One load. */
struct bn_serve_load {
    char name[24];              /* "8", "0.5/s" */
    uint32_t n_clients;         /* 0: open loop */
    double rate;                /* requests a second, in the open loop */
    struct bn_client_run *runs; /* n_requests, and the interrupting one */
    size_t n_runs, n_failed;
    uint64_t n_prompt, n_cached, n_tokens;
    double seconds;
    double *ns[BN_LOAD_TIMES];
    size_t n[BN_LOAD_TIMES];
};

/* Runs it. Requests that fail are counted. Released by bn_load_release, after an error too. */
BN_MUST_CHECK bn_status bn_load_run(struct bn_serve_load *load, const struct bn_load_plan *plan,
                                    bn_error *err);
void bn_load_release(struct bn_serve_load *load);
/* Requests that both have answered, and of them, those with the same answer. */
size_t bn_load_compare(const struct bn_serve_load *a, const struct bn_serve_load *b, size_t *n_same);

#endif
