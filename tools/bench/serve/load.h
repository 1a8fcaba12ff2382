/* SPDX-License-Identifier: MIT
 *
 * A load on a server: the same requests by a number of clients that ask again at once (closed loop), or at times of a
 * Poisson process (open loop). Requests follow from the seed alone, so that answers under different loads can be
 * compared.
 */
#ifndef BN_BENCH_SERVE_LOAD_H
#define BN_BENCH_SERVE_LOAD_H

#include "tools/bench/serve/client.h"

struct bn_load_plan {
    struct bn_target target;
    const char *model;
    uint32_t n_requests;
    uint32_t n_prompt, n_shared; /* words; those at the beginning that all prompts share */
    uint32_t n_tokens;
    double temperature;
    uint32_t n_interrupt; /* words of a prompt that comes while others are answered; 0: none */
    uint64_t seed;
    uint64_t timeout_ns; /* of a load */
};

/* One load. */
struct bn_serve_load {
    uint32_t n_clients;         /* 0: open loop */
    double rate;                /* requests a second, in the open loop */
    struct bn_client_run *runs; /* n_requests, and the interrupting one */
    size_t n_runs, n_failed;
    uint64_t n_prompt, n_cached, n_tokens;
    double seconds;
    /* Nanoseconds: to the first token; between two tokens; the same while the interrupting prompt came in; the mean of
     * each request between its tokens. */
    double *first, *gaps, *meanwhile, *per_token;
    size_t n_first, n_gaps, n_meanwhile, n_per_token;
};

/* Runs it. Requests that fail are counted. Released by bn_load_release, after an error too. */
BN_MUST_CHECK bn_status bn_load_run(struct bn_serve_load *load, const struct bn_load_plan *plan,
                                    bn_error *err);
void bn_load_release(struct bn_serve_load *load);
/* Requests that both have answered, and of them, those with the same answer. */
size_t bn_load_compare(const struct bn_serve_load *a, const struct bn_serve_load *b, size_t *n_same);

#endif
