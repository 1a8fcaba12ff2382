/* SPDX-License-Identifier: MIT
 *
 * bn-bench run --concurrent: several generations at once in one process, which share the model and nothing
 * else. What counts is what all of them get done together, and how evenly.
 *
 * Each request is a thread that lives through all rounds, so that the team of threads which it computes with
 * does, too. Two barriers a round: one to start together, one to begin the next round together.
 */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/run/run.h"

struct gate {
    const struct bn_bench_plan *plan;
    struct bn_bench_crowd *crowd;
    pthread_mutex_t open; /* held until all threads are there, or one is not */
    bool given_up;
    pthread_barrier_t start, end;
    uint64_t *from_ns, *to_ns; /* n_requests: of the round in flight */
};

struct request {
    struct gate *gate;
    uint32_t index;
    pthread_t thread;
    bn_status status;
    bn_error err;
};

/* ---- one request ---- */

static bn_status open_session(const struct gate *gate, bn_session **session, bn_error *err)
{
    const struct bn_bench_config *c = gate->crowd->config;
    bn_session_options options = {.n_ctx = c->depth + c->tokens + 1, .n_threads = c->n_threads};
    BN_TRY(bn_session_open(session, gate->plan->model, &options, err));
    if (c->depth == 0) return BN_OK;
    return bn_session_eval(*session, gate->plan->ids, c->depth, BN_LOGITS_NONE, NULL, err);
}

/* A generation; rounds of the warm-up are negative. One that took too long is booked as 0 ns. */
static bn_status generate(struct request *r, bn_session *session, int64_t round, bn_error *err)
{
    struct gate *gate = r->gate;
    struct bn_bench_crowd *crowd = gate->crowd;
    struct bn_generation gen;
    uint64_t until_ns = UINT64_MAX;
    bn_bench_ask(gate->plan, crowd->config, &gen);
    bn_bench_watch(&gen, &until_ns);
    gate->from_ns[r->index] = bn_clock_ns();
    if (gate->plan->timeout_ns > 0) until_ns = gate->from_ns[r->index] + gate->plan->timeout_ns;
    BN_TRY(bn_generate(session, bn_model_tokenizer(gate->plan->model), &gen, err));
    gate->to_ns[r->index] = bn_clock_ns();
    bn_status status = BN_OK;
    if (round >= 0) {
        size_t at = (size_t)round * crowd->n_requests + r->index;
        crowd->request_ns[at] =
            gen.n_ids == gen.n_predict ? gate->to_ns[r->index] - gate->from_ns[r->index] : 0;
        status = bn_bench_digest(gate->plan, session, &gen, crowd->outputs[at], err);
    }
    bn_generation_release(&gen);
    return status != BN_OK ? status : bn_session_truncate(session, crowd->config->depth, err);
}

/* The time from the first start to the last end of the round that is over. Nobody writes these before all are
 * at the next start. */
static uint64_t makespan(const struct gate *gate)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t k = 0; k < gate->crowd->n_requests; k++) {
        if (gate->from_ns[k] < first) first = gate->from_ns[k];
        if (gate->to_ns[k] > last) last = gate->to_ns[k];
    }
    return last - first;
}

static void *run_request(void *arg)
{
    struct request *r = arg;
    struct gate *gate = r->gate;
    bn_session *session = NULL;
    pthread_mutex_lock(&gate->open);
    bool given_up = gate->given_up;
    pthread_mutex_unlock(&gate->open);
    if (given_up) return NULL;
    r->status = open_session(gate, &session, &r->err);
    int64_t n_warmup = gate->plan->warmup, n = n_warmup + gate->crowd->n_rounds;
    for (int64_t i = 0; i < n; i++) {
        pthread_barrier_wait(&gate->start);
        if (r->status == BN_OK) r->status = generate(r, session, i - n_warmup, &r->err);
        pthread_barrier_wait(&gate->end);
        if (r->index == 0 && i >= n_warmup) gate->crowd->makespan_ns[i - n_warmup] = makespan(gate);
    }
    bn_session_close(session);
    return NULL;
}

/* ---- all of them ---- */

/* Runs all requests to their end. */
static bn_status run_threads(struct gate *gate, struct request *requests, bn_error *err)
{
    uint32_t n = gate->crowd->n_requests, n_started = 0;
    bn_status status = BN_OK;
    pthread_mutex_init(&gate->open, NULL);
    pthread_mutex_lock(&gate->open);
    while (n_started < n &&
           pthread_create(&requests[n_started].thread, NULL, run_request, &requests[n_started]) == 0)
        n_started++;
    bool barriers = pthread_barrier_init(&gate->start, NULL, n) == 0;
    barriers = pthread_barrier_init(&gate->end, NULL, n) == 0 && barriers;
    gate->given_up = n_started < n || !barriers;
    if (gate->given_up) status = bn_fail(err, BN_ERR_UNSUPPORTED, "%u of %u threads started", n_started, n);
    pthread_mutex_unlock(&gate->open);
    for (uint32_t i = 0; i < n_started; i++)
        (void)pthread_join(requests[i].thread, NULL);
    (void)pthread_barrier_destroy(&gate->start);
    (void)pthread_barrier_destroy(&gate->end);
    (void)pthread_mutex_destroy(&gate->open);
    for (uint32_t i = 0; i < n && status == BN_OK; i++) {
        status = requests[i].status;
        if (status != BN_OK && err != NULL) *err = requests[i].err;
    }
    return status;
}

static bn_status measure(const struct bn_bench_plan *plan, struct bn_bench_crowd *crowd, bn_error *err)
{
    uint32_t n = crowd->n_requests;
    size_t n_samples = (size_t)n * crowd->n_rounds;
    struct gate gate = {.plan = plan, .crowd = crowd};
    struct request *requests = bn_alloc(n, sizeof *requests);
    gate.from_ns = bn_alloc(n, sizeof *gate.from_ns);
    gate.to_ns = bn_alloc(n, sizeof *gate.to_ns);
    crowd->request_ns = bn_alloc(n_samples, sizeof *crowd->request_ns);
    crowd->makespan_ns = bn_alloc(crowd->n_rounds, sizeof *crowd->makespan_ns);
    crowd->outputs = bn_alloc(n_samples, sizeof *crowd->outputs);
    bn_status status = BN_OK;
    if (requests == NULL || gate.from_ns == NULL || gate.to_ns == NULL || crowd->request_ns == NULL ||
        crowd->makespan_ns == NULL || crowd->outputs == NULL)
        status = bn_nomem(err);
    for (uint32_t i = 0; i < n && status == BN_OK; i++) {
        requests[i].gate = &gate;
        requests[i].index = i;
    }
    if (status == BN_OK) status = run_threads(&gate, requests, err);
    bn_free(requests);
    bn_free(gate.from_ns);
    bn_free(gate.to_ns);
    return status;
}

void bn_bench_crowd_judge(const struct bn_bench_plan *plan, struct bn_bench_crowd *crowd)
{
    const struct bn_bench_config *c = crowd->config;
    crowd->verdict = c->verdict;
    if (c->verdict != BN_BENCH_VALID)
        snprintf(crowd->reason, sizeof crowd->reason, "one alone is not valid either");
    for (size_t i = 0; i < (size_t)crowd->n_rounds * crowd->n_requests; i++) {
        if (crowd->verdict != BN_BENCH_VALID) return;
        if (crowd->request_ns[i] == 0 || (plan->timeout_ns > 0 && crowd->request_ns[i] > plan->timeout_ns)) {
            crowd->verdict = BN_BENCH_TIMEOUT;
            snprintf(crowd->reason, sizeof crowd->reason, "a generation took more than --timeout");
        } else if (strcmp(crowd->outputs[i], c->samples[0].output) != 0) {
            crowd->verdict = BN_BENCH_INVALID;
            snprintf(crowd->reason, sizeof crowd->reason, "generation %zu computed something else than alone",
                     i);
        }
    }
}

bn_status bn_bench_crowds(struct bn_bench_plan *plan, bn_error *err)
{
    plan->crowds = bn_alloc(plan->n_at_once * plan->n_configs + 1, sizeof *plan->crowds);
    if (plan->crowds == NULL) return bn_nomem(err);
    for (size_t k = 0; k < plan->n_at_once; k++)
        for (size_t i = 0; i < plan->n_configs; i++) {
            if (!plan->configs[i].decode) continue;
            struct bn_bench_crowd *crowd = &plan->crowds[plan->n_crowds++];
            *crowd = (struct bn_bench_crowd){
                .config = &plan->configs[i], .n_requests = plan->at_once[k], .n_rounds = plan->reps};
            BN_TRY(measure(plan, crowd, err));
            bn_bench_crowd_judge(plan, crowd);
        }
    return BN_OK;
}

void bn_bench_crowds_release(struct bn_bench_plan *plan)
{
    for (size_t i = 0; i < plan->n_crowds; i++) {
        bn_free(plan->crowds[i].request_ns);
        bn_free(plan->crowds[i].makespan_ns);
        bn_free(plan->crowds[i].outputs);
    }
    bn_free(plan->crowds);
    bn_free(plan->at_once);
}
