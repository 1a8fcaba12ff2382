/* SPDX-License-Identifier: MIT
 *
 * What generations at once come to: as a table, in the document, as series.
 */
#include <stdio.h>

#include "base/error.h"
#include "tools/bench/run/run.h"

void bn_bench_crowd_name(const struct bn_bench_crowd *crowd, char *out, size_t room)
{
    const struct bn_bench_config *c = crowd->config;
    snprintf(out, room, "concurrent k=%u n=%u d=%u t=%u", crowd->n_requests, c->tokens, c->depth,
             c->n_threads);
}

double bn_bench_crowd_rate(const struct bn_bench_crowd *crowd, uint32_t round)
{
    double tokens = (double)crowd->n_requests * (crowd->config->tokens + 1.0);
    return tokens * 1e9 / (double)crowd->makespan_ns[round];
}

double bn_bench_crowd_fairness(const struct bn_bench_crowd *crowd, uint32_t round)
{
    const uint64_t *ns = crowd->request_ns + (size_t)round * crowd->n_requests;
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < crowd->n_requests; i++) {
        double rate = 1e9 / (double)ns[i];
        sum += rate;
        squares += rate * rate;
    }
    return sum * sum / (crowd->n_requests * squares);
}

typedef double (*figure)(const struct bn_bench_crowd *crowd, uint32_t round);

/* The figure of every round in x, which has room for as many. */
static size_t collect(const struct bn_bench_crowd *crowd, figure f, double *x)
{
    for (uint32_t i = 0; i < crowd->n_rounds; i++)
        x[i] = f(crowd, i);
    return crowd->n_rounds;
}

static size_t collect_requests(const struct bn_bench_crowd *crowd, double *x)
{
    size_t n = (size_t)crowd->n_rounds * crowd->n_requests;
    for (size_t i = 0; i < n; i++)
        x[i] = (double)crowd->request_ns[i];
    return n;
}

static double *room_for(const struct bn_bench_crowd *crowd)
{
    return bn_alloc((size_t)crowd->n_rounds * crowd->n_requests, sizeof(double));
}

/* ---- the table ---- */

static void print_quantile(const double *x, size_t n, double p)
{
    double ns;
    if (bn_quantile(&ns, x, n, p))
        printf(" %9.3f", ns / 1e6);
    else
        printf(" %9s", "-");
}

static void print_one(const struct bn_bench_crowd *crowd, double *x)
{
    const struct bn_bench_config *c = crowd->config;
    struct bn_summary rate, fair, request;
    printf("%7u %6u %6u %3u", crowd->n_requests, c->tokens, c->depth, c->n_threads);
    if (crowd->verdict != BN_BENCH_VALID) {
        printf("   %s: %s\n", crowd->verdict == BN_BENCH_TIMEOUT ? "TIMEOUT" : "INVALID", crowd->reason);
        return;
    }
    (void)bn_summarize(&rate, x, collect(crowd, bn_bench_crowd_rate, x));
    (void)bn_summarize(&fair, x, collect(crowd, bn_bench_crowd_fairness, x));
    size_t n = collect_requests(crowd, x);
    (void)bn_summarize(&request, x, n);
    printf(" %9.1f %9.1f %9.1f %5.1f", rate.median, rate.min, rate.max, 100 * rate.mad / rate.median);
    print_quantile(x, n, 0.5);
    print_quantile(x, n, 0.95);
    printf(" %9.3f %8.3f\n", request.max / 1e6, fair.median);
}

void bn_bench_crowds_print(const struct bn_bench_plan *plan)
{
    if (plan->n_crowds == 0) return;
    printf("%7s %6s %6s %3s %9s %9s %9s %5s %9s %9s %9s %8s\n", "at once", "tokens", "depth", "t", "tok/s",
           "min", "max", "+- %", "ms, p50", "p95", "max", "fairness");
    for (size_t i = 0; i < plan->n_crowds; i++) {
        double *x = room_for(&plan->crowds[i]);
        if (x != NULL) print_one(&plan->crowds[i], x);
        bn_free(x);
    }
    printf("\nAt once: tok/s of all together, ms of each generation; fairness is 1 when all are as fast.\n");
}

/* ---- the document ---- */

static void put_round(bn_json *array, const struct bn_bench_crowd *crowd, uint32_t round)
{
    bn_json *o = bn_json_add_object(array);
    bn_json_put_u64(o, "makespan_ns", crowd->makespan_ns[round]);
    bn_json *requests = bn_json_put_array(o, "request_ns");
    for (uint32_t i = 0; i < crowd->n_requests; i++)
        bn_json_add_u64(requests, crowd->request_ns[(size_t)round * crowd->n_requests + i]);
}

static void put_one(bn_json *array, const struct bn_bench_crowd *crowd)
{
    char name[64];
    double *x = room_for(crowd);
    bn_json *o = bn_json_add_object(array);
    bn_bench_crowd_name(crowd, name, sizeof name);
    bn_json_put_object(o, "unavailable");
    bn_json_put_string(o, "name", name);
    bn_json_put_u64(o, "at_once", crowd->n_requests);
    bn_json_put_u64(o, "tokens", crowd->config->tokens);
    bn_json_put_u64(o, "depth", crowd->config->depth);
    bn_json_put_u64(o, "threads", crowd->config->n_threads);
    bn_json_put_string(o, "verdict", bn_bench_verdict_name(crowd->verdict));
    bn_bench_put_text(o, "reason", crowd->reason);
    bn_json *rounds = bn_json_put_array(o, "samples");
    for (uint32_t i = 0; i < crowd->n_rounds; i++)
        put_round(rounds, crowd, i);
    if (crowd->verdict != BN_BENCH_VALID || x == NULL) {
        bn_json_put_unavailable(o, "summary", x == NULL ? "out of memory" : crowd->reason);
    } else {
        bn_json *s = bn_json_put_object(o, "summary");
        bn_json_put_object(s, "unavailable");
        bn_bench_put_summary(s, "tokens_per_second", x, collect(crowd, bn_bench_crowd_rate, x));
        bn_bench_put_summary(s, "fairness", x, collect(crowd, bn_bench_crowd_fairness, x));
        bn_bench_put_summary(s, "request_ns", x, collect_requests(crowd, x));
    }
    bn_free(x);
}

void bn_bench_crowds_put(const struct bn_bench_plan *plan, bn_json *doc)
{
    bn_json *array = bn_json_put_array(doc, "concurrent");
    for (size_t i = 0; i < plan->n_crowds; i++)
        put_one(array, &plan->crowds[i]);
}

static double makespan(const struct bn_bench_crowd *crowd, uint32_t round)
{
    return (double)crowd->makespan_ns[round];
}

static bn_status add_series(const struct bn_bench_crowd *crowd, double *x, struct bn_series_list *all,
                            bn_error *err)
{
    char test[64];
    bn_bench_crowd_name(crowd, test, sizeof test);
    struct bn_series s = {.test = test, .metric = "makespan_ns", .unit = "ns", .samples = x};
    s.n = collect(crowd, makespan, x);
    BN_TRY(bn_series_add(all, &s, err));
    s.metric = "request_ns";
    s.n = collect_requests(crowd, x);
    return bn_series_add(all, &s, err);
}

bn_status bn_bench_crowds_series(const struct bn_bench_plan *plan, struct bn_series_list *all, bn_error *err)
{
    bn_status status = BN_OK;
    for (size_t i = 0; i < plan->n_crowds && status == BN_OK; i++) {
        const struct bn_bench_crowd *crowd = &plan->crowds[i];
        if (crowd->verdict != BN_BENCH_VALID) continue;
        double *x = room_for(crowd);
        status = x != NULL ? add_series(crowd, x, all, err) : bn_nomem(err);
        bn_free(x);
    }
    return status;
}
