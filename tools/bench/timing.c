/* SPDX-License-Identifier: MIT
 *
 * Takes samples of several calls. The clock is read twice per sample, so a sample is long compared with that
 * (25 ns of 20 us), and short enough that a disturbance affects few of them.
 */
#include "tools/bench/timing.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/team.h"

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

/* How long a sample should take: about a hundredth of the time there is. */
static uint64_t sample_ns(uint64_t min_ns)
{
    uint64_t wanted = min_ns / 100;
    if (wanted > LONG_SAMPLE_NS) wanted = LONG_SAMPLE_NS;
    return wanted < SAMPLE_NS ? SAMPLE_NS : wanted;
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
    uint64_t wanted = sample_ns(min_ns), start;
    times->calls = calls_per_sample(s, wanted);
    start = bn_clock_ns();
    while (times->n < BN_BENCH_MIN_SAMPLES ||
           (times->n < BN_BENCH_MAX_SAMPLES && bn_clock_ns() - start < min_ns)) {
        times->ns[times->n] = take(s, times->calls);
        times->per_call[times->n] = (double)times->ns[times->n] / (double)times->calls;
        times->n++;
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

/* ---- kernels ---- */

struct kernel_body {
    const struct bn_bench_work *work;
    const struct bn_kernels *kernels;
};

static void call_kernel(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads)
{
    const struct kernel_body *b = arg;
    size_t copies = b->work->c->copies, copy = (size_t)(first % copies);
    for (uint64_t i = 0; i < n; i++) {
        bn_bench_call(b->work, b->kernels, copy, thread, n_threads);
        copy = copy + 1 < copies ? copy + 1 : 0;
    }
}

bn_status bn_bench_time(struct bn_bench_times *times, const struct bn_bench_work *work,
                        const struct bn_kernels *kernels, unsigned n_threads, uint64_t min_ns, bn_error *err)
{
    struct kernel_body kernel = {work, kernels};
    struct bn_bench_body body = {call_kernel, &kernel};
    return bn_bench_time_body(times, &body, n_threads, min_ns, err);
}
