/* SPDX-License-Identifier: MIT
 *
 * bn-bench run --concurrent: concurrent generations in one process that share only the model. Measured are
 * their combined rate and its fairness.
 *
 * Each generation has a thread that lives through all rounds, so that its team of computing threads does too.
 * Two barriers per round: one to start together, one to begin the next round together.
 */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/run/run.h"

struct gate {
    const struct bn_bench_measurement *m;
    struct bn_bench_group *group;
    pthread_mutex_t open; /* held until all threads have started, or one has failed to */
    bool given_up;
    pthread_barrier_t start, end;
    uint64_t *from_ns, *to_ns; /* n_requests: of the current round */
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
    const struct bn_bench_config *c = gate->group->config;
    bn_session_options options = {.n_ctx = c->depth + c->tokens + 1, .n_threads = c->n_threads};
    BN_TRY(bn_session_open(session, gate->m->model, &options, err));
    if (c->depth == 0) return BN_OK;
    return bn_session_eval(*session, gate->m->ids, c->depth, BN_LOGITS_NONE, NULL, err);
}

/* A generation; warm-up rounds are negative. One that was stopped is recorded as 0 ns. */
static bn_status generate(struct request *r, bn_session *session, int64_t round, bn_error *err)
{
    struct gate *gate = r->gate;
    struct bn_bench_group *group = gate->group;
    struct bn_generation gen;
    uint64_t until_ns = UINT64_MAX;
    bn_bench_ask(gate->m, group->config, &gen);
    bn_bench_watch(&gen, &until_ns);
    gate->from_ns[r->index] = bn_clock_ns();
    if (gate->m->timeout_ns > 0) until_ns = gate->from_ns[r->index] + gate->m->timeout_ns;
    BN_TRY(bn_generate(session, bn_model_tokenizer(gate->m->model), &gen, err));
    gate->to_ns[r->index] = bn_clock_ns();
    bn_status status = BN_OK;
    if (round >= 0) {
        size_t at = (size_t)round * group->n_requests + r->index;
        group->request_ns[at] =
            gen.n_ids == gen.n_predict ? gate->to_ns[r->index] - gate->from_ns[r->index] : 0;
        status = bn_bench_digest(gate->m, session, &gen, group->outputs[at], err);
    }
    bn_generation_release(&gen);
    return status != BN_OK ? status : bn_session_truncate(session, group->config->depth, err);
}

/* The time from the first start to the last end of the finished round. These are not written before all
 * threads are at the next start. */
static uint64_t makespan(const struct gate *gate)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t k = 0; k < gate->group->n_requests; k++) {
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
    int64_t n_warmup = gate->m->warmup, n = n_warmup + gate->group->n_rounds;
    for (int64_t i = 0; i < n; i++) {
        pthread_barrier_wait(&gate->start);
        if (r->status == BN_OK) r->status = generate(r, session, i - n_warmup, &r->err);
        pthread_barrier_wait(&gate->end);
        if (r->index == 0 && i >= n_warmup) gate->group->makespan_ns[i - n_warmup] = makespan(gate);
    }
    bn_session_close(session);
    return NULL;
}

/* ---- all of them ---- */

/* Runs all requests to their end. */
static bn_status run_threads(struct gate *gate, struct request *requests, bn_error *err)
{
    uint32_t n = gate->group->n_requests, n_started = 0;
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

static bn_status measure(const struct bn_bench_measurement *m, struct bn_bench_group *group, bn_error *err)
{
    uint32_t n = group->n_requests;
    size_t n_samples = (size_t)n * group->n_rounds;
    struct gate gate = {.m = m, .group = group};
    struct request *requests = bn_alloc(n, sizeof *requests);
    gate.from_ns = bn_alloc(n, sizeof *gate.from_ns);
    gate.to_ns = bn_alloc(n, sizeof *gate.to_ns);
    group->request_ns = bn_alloc(n_samples, sizeof *group->request_ns);
    group->makespan_ns = bn_alloc(group->n_rounds, sizeof *group->makespan_ns);
    group->outputs = bn_alloc(n_samples, sizeof *group->outputs);
    bn_status status = BN_OK;
    if (requests == NULL || gate.from_ns == NULL || gate.to_ns == NULL || group->request_ns == NULL ||
        group->makespan_ns == NULL || group->outputs == NULL)
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

void bn_bench_group_judge(const struct bn_bench_measurement *m, struct bn_bench_group *group)
{
    const struct bn_bench_config *c = group->config;
    group->verdict = c->verdict;
    if (c->verdict != BN_BENCH_VALID)
        snprintf(group->reason, sizeof group->reason, "the configuration alone is not valid");
    for (size_t i = 0; i < (size_t)group->n_rounds * group->n_requests; i++) {
        if (group->verdict != BN_BENCH_VALID) return;
        if (group->request_ns[i] == 0 || (m->timeout_ns > 0 && group->request_ns[i] > m->timeout_ns)) {
            group->verdict = BN_BENCH_TIMEOUT;
            snprintf(group->reason, sizeof group->reason, "a generation took more than --timeout");
        } else if (strcmp(group->outputs[i], c->samples[0].output) != 0) {
            group->verdict = BN_BENCH_INVALID;
            snprintf(group->reason, sizeof group->reason,
                     "the output of generation %zu differs from that of the configuration alone", i);
        }
    }
}

bn_status bn_bench_concurrent(struct bn_bench_measurement *m, bn_error *err)
{
    m->groups = bn_alloc(m->o->concurrent.n * m->n_configs + 1, sizeof *m->groups);
    if (m->groups == NULL) return bn_nomem(err);
    for (size_t k = 0; k < m->o->concurrent.n; k++)
        for (size_t i = 0; i < m->n_configs; i++) {
            if (!m->configs[i].decode || m->configs[i].n_sequences > 1 || m->configs[i].n_busy > 0) continue;
            struct bn_bench_group *group = &m->groups[m->n_groups++];
            *group = (struct bn_bench_group){
                .config = &m->configs[i], .n_requests = m->o->concurrent.list[k], .n_rounds = m->reps};
            BN_TRY(measure(m, group, err));
            bn_bench_group_judge(m, group);
        }
    return BN_OK;
}

void bn_bench_concurrent_release(struct bn_bench_measurement *m)
{
    for (size_t i = 0; i < m->n_groups; i++) {
        bn_free(m->groups[i].request_ns);
        bn_free(m->groups[i].makespan_ns);
        bn_free(m->groups[i].outputs);
    }
    bn_free(m->groups);
}

/* ---- figures ---- */

static void group_name(const struct bn_bench_group *group, char *out, size_t room)
{
    const struct bn_bench_config *c = group->config;
    snprintf(out, room, "concurrent k=%u n=%u d=%u t=%u", group->n_requests, c->tokens, c->depth,
             c->n_threads);
}

double bn_bench_group_rate(const struct bn_bench_group *group, uint32_t round)
{
    double tokens = (double)group->n_requests * (group->config->tokens + 1.0);
    return tokens * 1e9 / (double)group->makespan_ns[round];
}

double bn_bench_group_fairness(const struct bn_bench_group *group, uint32_t round)
{
    const uint64_t *ns = group->request_ns + (size_t)round * group->n_requests;
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < group->n_requests; i++) {
        double rate = 1e9 / (double)ns[i];
        sum += rate;
        squares += rate * rate;
    }
    return sum * sum / (group->n_requests * squares);
}

typedef double (*figure)(const struct bn_bench_group *group, uint32_t round);

/* The figure of every round in x, which has room for as many. */
static size_t collect(const struct bn_bench_group *group, figure f, double *x)
{
    for (uint32_t i = 0; i < group->n_rounds; i++)
        x[i] = f(group, i);
    return group->n_rounds;
}

static size_t collect_requests(const struct bn_bench_group *group, double *x)
{
    size_t n = (size_t)group->n_rounds * group->n_requests;
    for (size_t i = 0; i < n; i++)
        x[i] = (double)group->request_ns[i];
    return n;
}

static double *room_for(const struct bn_bench_group *group)
{
    return bn_alloc((size_t)group->n_rounds * group->n_requests, sizeof(double));
}

/* ---- the table ---- */

static void put_row(struct bn_table *t, const struct bn_bench_group *group, double *x)
{
    const struct bn_bench_config *c = group->config;
    struct bn_summary rate;
    bn_table_row(t, "");
    bn_table_count(t, group->n_requests);
    bn_table_count(t, c->tokens);
    bn_table_count(t, c->depth);
    bn_table_count(t, c->n_threads);
    if (group->verdict != BN_BENCH_VALID) {
        bn_table_text(t, group->verdict == BN_BENCH_TIMEOUT ? "TIMEOUT" : "INVALID");
        return;
    }
    (void)bn_summarize(&rate, x, collect(group, bn_bench_group_rate, x));
    bn_table_value(t, rate.median, "1");
    bn_table_range(t, rate.min, rate.max, rate.median, "1");
    bn_bench_put_times(t, x, collect_requests(group, x));
    bn_table_printf(t, "%.3f", bn_median(x, collect(group, bn_bench_group_fairness, x)));
}

bn_status bn_bench_concurrent_print(const struct bn_bench_measurement *m, bn_error *err)
{
    static const char *const HEADS[] = {"concurrent",           "tokens", "depth", "t",       "tok/s",
                                        "min \xE2\x80\x93 max", "ms p50", "p95",   "fairness"};
    struct bn_table t;
    if (m->n_groups == 0) return BN_OK;
    bn_table_begin(&t, HEADS, "rrrrrrrrr");
    for (size_t i = 0; i < m->n_groups; i++) {
        double *x = room_for(&m->groups[i]);
        if (x != NULL) put_row(&t, &m->groups[i], x);
        bn_free(x);
    }
    BN_TRY(bn_bench_print_table(&t, err));
    for (size_t i = 0; i < m->n_groups; i++)
        if (m->groups[i].verdict != BN_BENCH_VALID)
            printf("%u concurrent: %s.\n", m->groups[i].n_requests, m->groups[i].reason);
    printf("\nConcurrent: tok/s of all together, ms of each generation; fairness 1: all are equally fast.\n");
    return BN_OK;
}

/* ---- the document ---- */

static void put_round(bn_json *array, const struct bn_bench_group *group, uint32_t round)
{
    bn_json *o = bn_json_add_object(array);
    bn_json_put_u64(o, "makespan_ns", group->makespan_ns[round]);
    bn_json *requests = bn_json_put_array(o, "request_ns");
    for (uint32_t i = 0; i < group->n_requests; i++)
        bn_json_add_u64(requests, group->request_ns[(size_t)round * group->n_requests + i]);
}

static void put_one(const struct bn_bench_measurement *m, bn_json *array, const struct bn_bench_group *group)
{
    char name[BN_BENCH_NAME];
    double *x = room_for(group);
    bn_json *o = bn_json_add_object(array);
    group_name(group, name, sizeof name);
    bn_json_put_object(o, "unavailable");
    bn_json_put_string(o, "name", name);
    bn_json_put_u64(o, "at_once", group->n_requests);
    bn_json_put_u64(o, "tokens", group->config->tokens);
    bn_json_put_u64(o, "depth", group->config->depth);
    bn_json_put_u64(o, "threads", group->config->n_threads);
    bn_json_put_string(o, "verdict", bn_bench_verdict_name(group->verdict));
    bn_json_put_known(o, "reason", group->reason, "there is none");
    bn_json *rounds = bn_json_put_array(o, "samples");
    for (uint32_t i = 0; i < group->n_rounds; i++)
        put_round(rounds, group, i);
    if (group->verdict != BN_BENCH_VALID || x == NULL) {
        bn_json_put_unavailable(o, "summary", x == NULL ? "out of memory" : group->reason);
    } else {
        bn_json *s = bn_json_put_object(o, "summary");
        bn_json_put_object(s, "unavailable");
        bn_bench_put_summary_at(s, "tokens_per_second", x, collect(group, bn_bench_group_rate, x),
                                m->confidence);
        bn_bench_put_summary_at(s, "fairness", x, collect(group, bn_bench_group_fairness, x), m->confidence);
        bn_bench_put_summary_at(s, "request_ns", x, collect_requests(group, x), m->confidence);
    }
    bn_free(x);
}

void bn_bench_concurrent_put(const struct bn_bench_measurement *m, bn_json *doc)
{
    bn_json *array = bn_json_put_array(doc, "concurrent");
    for (size_t i = 0; i < m->n_groups; i++)
        put_one(m, array, &m->groups[i]);
}

static double makespan_of(const struct bn_bench_group *group, uint32_t round)
{
    return (double)group->makespan_ns[round];
}

static bn_status add_series(const struct bn_bench_group *group, double *x, struct bn_series_list *all,
                            bn_error *err)
{
    char test[64];
    group_name(group, test, sizeof test);
    struct bn_series s = {.test = test, .metric = "makespan_ns", .unit = "ns", .samples = x};
    s.n = collect(group, makespan_of, x);
    BN_TRY(bn_series_add(all, &s, err));
    s.metric = "request_ns";
    s.n = collect_requests(group, x);
    return bn_series_add(all, &s, err);
}

bn_status bn_bench_concurrent_series(const struct bn_bench_measurement *m, struct bn_series_list *all,
                                     bn_error *err)
{
    bn_status status = BN_OK;
    for (size_t i = 0; i < m->n_groups && status == BN_OK; i++) {
        const struct bn_bench_group *group = &m->groups[i];
        if (group->verdict != BN_BENCH_VALID) continue;
        double *x = room_for(group);
        status = x != NULL ? add_series(group, x, all, err) : bn_nomem(err);
        bn_free(x);
    }
    return status;
}
