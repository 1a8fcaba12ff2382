/* SPDX-License-Identifier: MIT
 *
 * See timing.h. The clock is read twice a sample, so a sample is made long enough for that not to matter (25
 * ns of 20 us), and short enough that a disturbance spoils few of them.
 */
#include "tools/bench/timing.h"

#include "base/clock.h"
#include "base/team.h"

#define SAMPLE_NS 20000u
#define LONG_SAMPLE_NS 5000000u

struct sample {
    const struct bn_bench_work *work;
    const struct bn_kernels *kernels;
    uint64_t first, calls, ns;
    struct bn_team team;
};

static void run_sample(void *arg, unsigned thread, unsigned n_threads)
{
    struct sample *s = arg;
    size_t copies = s->work->c->copies, copy = (size_t)(s->first % copies);
    bn_team_barrier(&s->team, n_threads);
    uint64_t start = bn_clock_ns();
    for (uint64_t i = 0; i < s->calls; i++) {
        bn_bench_call(s->work, s->kernels, copy, thread, n_threads);
        copy = copy + 1 < copies ? copy + 1 : 0;
    }
    bn_team_barrier(&s->team, n_threads);
    if (thread == 0) s->ns = bn_clock_ns() - start;
}

/* Nanoseconds of calls that follow those made so far. */
static uint64_t take(struct sample *s, unsigned n_threads, uint64_t calls)
{
    s->calls = calls;
    bn_team_run(n_threads, run_sample, s);
    s->first += calls;
    return s->ns > 0 ? s->ns : 1;
}

/* The shortest of three, unless they take long: one that was interrupted says nothing of the kernel. */
static uint64_t shortest(struct sample *s, unsigned n_threads, uint64_t calls)
{
    uint64_t best = take(s, n_threads, calls);
    for (unsigned i = 1; i < 3 && best < 4 * LONG_SAMPLE_NS; i++) {
        uint64_t ns = take(s, n_threads, calls);
        if (ns < best) best = ns;
    }
    return best;
}

/* Calls that take about a hundredth of the time there is. */
static uint64_t calls_per_sample(struct sample *s, unsigned n_threads, uint64_t min_ns)
{
    uint64_t wanted = min_ns / 100, calls = 1, ns;
    if (wanted > LONG_SAMPLE_NS) wanted = LONG_SAMPLE_NS;
    if (wanted < SAMPLE_NS) wanted = SAMPLE_NS;
    while ((ns = shortest(s, n_threads, calls)) < wanted) /* the first ones warm up, too */
        calls = ns < wanted / 8 ? calls * 8 : calls * wanted / ns + 1;
    return calls;
}

void bn_bench_time(struct bn_bench_times *times, const struct bn_bench_work *work,
                   const struct bn_kernels *kernels, unsigned n_threads, uint64_t min_ns)
{
    struct sample s = {.work = work, .kernels = kernels};
    times->n = 0;
    times->calls = calls_per_sample(&s, n_threads, min_ns);
    uint64_t start = bn_clock_ns();
    while (times->n < BN_BENCH_MIN_SAMPLES ||
           (times->n < BN_BENCH_MAX_SAMPLES && bn_clock_ns() - start < min_ns)) {
        times->ns[times->n] = take(&s, n_threads, times->calls);
        times->per_call[times->n] = (double)times->ns[times->n] / (double)times->calls;
        times->n++;
    }
}
