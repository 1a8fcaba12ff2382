/* SPDX-License-Identifier: MIT
 *
 * Takes samples of several calls, and checks samples. The clock is read twice per sample, so a sample is long compared
 * with that (25 ns of 20 us), and short enough that a disturbance affects few of them.
 */
#include "tools/bench/harness.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/team.h"
#include "lab/stats/summary.h"

#define SAMPLE_NS 20000u
#define LONG_SAMPLE_NS 5000000u
#define MAX_CALLS ((uint64_t)1 << 32) /* in a sample; reached only by a body that does nothing */

struct sample {
    const struct bn_bench_body *body;
    uint64_t first, calls, ns;
    struct bn_team *team;
};

static void run_sample(void *arg, unsigned thread, unsigned n_threads)
{
    struct sample *s = arg;
    bn_team_barrier(s->team, n_threads);
    uint64_t start = bn_clock_ns();
    s->body->calls(s->body->arg, s->first, s->calls, thread, n_threads);
    bn_team_barrier(s->team, n_threads);
    if (thread == 0) s->ns = bn_clock_ns() - start;
}

/* Nanoseconds of calls that follow those made so far. */
static uint64_t take(struct sample *s, uint64_t calls)
{
    s->calls = calls;
    bn_team_run(s->team, run_sample, s);
    s->first += calls;
    return s->ns > 0 ? s->ns : 1;
}

/* The shortest of three, unless they take long, since a sample may be interrupted. */
static uint64_t shortest(struct sample *s, uint64_t calls)
{
    uint64_t best = take(s, calls);
    for (unsigned i = 1; i < 3 && best < 4 * LONG_SAMPLE_NS; i++) {
        uint64_t ns = take(s, calls);
        if (ns < best) best = ns;
    }
    return best;
}

/* Calls that take so long. */
static uint64_t calls_per_sample(struct sample *s, uint64_t wanted)
{
    uint64_t calls = 1, ns;
    while ((ns = shortest(s, calls)) < wanted && calls < MAX_CALLS) /* the first ones warm up, too */
        calls = ns < wanted / 8 ? calls * 8 : calls * wanted / ns + 1;
    return calls;
}

static void time_body(struct bn_bench_times *times, struct sample *s, uint64_t min_ns)
{
    times->n = 0;
    /* A sample takes about a hundredth of the time there is. */
    uint64_t wanted = bn_min_size(min_ns / 100, LONG_SAMPLE_NS), start;
    if (wanted < SAMPLE_NS) wanted = SAMPLE_NS;
    times->calls = calls_per_sample(s, wanted);
    start = bn_clock_ns();
    while (times->n < BN_BENCH_MIN_SAMPLES ||
           (times->n < BN_BENCH_MAX_SAMPLES && bn_clock_ns() - start < min_ns)) {
        times->ns[times->n++] = take(s, times->calls);
        /* All tries were disturbed when the calls were counted: once more, with more of them. */
        if (times->ns[times->n - 1] >= wanted / 8 || times->calls >= MAX_CALLS) continue;
        times->calls *= 4;
        times->n = 0;
        start = bn_clock_ns();
    }
}

bn_status bn_bench_time_body(struct bn_bench_times *times, const struct bn_bench_body *body,
                             unsigned n_threads, uint64_t min_ns, bn_error *err)
{
    struct sample s = {.body = body, .team = bn_team_open(n_threads, true)};
    if (s.team == NULL) return bn_nomem(err);
    time_body(times, &s, min_ns);
    bn_team_close(s.team);
    return BN_OK;
}

/* ---- checks ---- */

const char *bn_bench_implausible(char out[BN_BENCH_REASON], double share)
{
    out[0] = '\0';
    if (share > BN_BENCH_MOST_SHARE)
        snprintf(out, BN_BENCH_REASON, "it is %.2f times the measured limit", share);
    return out;
}

bool bn_bench_believable(const double *ns, size_t n, double step_ns, char reason[BN_BENCH_REASON])
{
    double least = step_ns * BN_BENCH_LEAST_STEPS;
    reason[0] = '\0';
    if (n == 0) snprintf(reason, BN_BENCH_REASON, "there are no samples");
    if (n == 0) return false;
    for (size_t i = 0; i < n; i++) {
        if (ns[i] >= least) continue;
        snprintf(reason, BN_BENCH_REASON,
                 "a sample took %.0f ns, less than %u steps of the clock (%.0f ns each)", ns[i],
                 BN_BENCH_LEAST_STEPS, step_ns);
        return false;
    }
    if (n < BN_BENCH_MOST_EQUAL || !bn_all_equal(ns, n)) return true;
    snprintf(reason, BN_BENCH_REASON, "all %zu samples took exactly %.0f ns: the clock does not advance", n,
             ns[0]);
    return false;
}

bool bn_bench_above_limit(const struct bn_bench_claim *claim)
{
    return claim->limit > 0 && claim->rate > BN_BENCH_MOST_SHARE * claim->limit;
}

const char *bn_bench_refuses(char out[BN_BENCH_REASON], const struct bn_bench_claim *claim,
                             const struct bn_clock_facts *clock)
{
    if (clock->n_backward > 0)
        snprintf(out, BN_BENCH_REASON, "the clock stepped back %llu times",
                 (unsigned long long)clock->n_backward);
    else if (!(clock->resolution_ns > 0))
        snprintf(out, BN_BENCH_REASON, "the clock does not advance");
    else if (!bn_bench_believable(claim->sample_ns, claim->n, clock->resolution_ns, out))
        return out;
    else if (bn_bench_above_limit(claim))
        snprintf(out, BN_BENCH_REASON, "%.4g per second is more than %.2f times the measured limit, %.4g",
                 claim->rate, BN_BENCH_MOST_SHARE, claim->limit);
    else
        return NULL;
    return out;
}
