/* SPDX-License-Identifier: MIT
 *
 * record/recorder: recordings of this process and of programs, by each way that works here. What a function's
 * share should be is what the thread's own clock says, never a time on the wall; bounds are 5.5 standard
 * deviations of as many independent samples, which chance exceeds less than once in ten million.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "lab/sampler/recorder.h"
#include "tests/unit/status.h"

#define PERIOD_NS 200003u

/* Functions in sections of their own, so that it is known where they begin and end. */
#define IN(section_name) __attribute__((section(section_name), noinline, used))
extern const char __start_code_a[], __stop_code_a[], __start_code_b[], __stop_code_b[];

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

IN("code_a") static uint64_t work_a(uint64_t x, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

IN("code_b") static uint64_t work_b(uint64_t x, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        x = x * 2862933555777941757u + 3037000493u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Works for some time, about 70 % of it in a; what each really took. The pieces have random lengths: work
 * with a period beats with the ticks of the kernel, and samples of it are not independent. */
static void split(uint64_t ns, uint64_t *a_ns, uint64_t *b_ns)
{
    uint64_t random = 1;
    uint64_t x = 1;
    *a_ns = *b_ns = 0;
    while (*a_ns + *b_ns < ns) {
        unsigned turns = 20000 + (unsigned)bn_splitmix64_below(&random, 300000);
        bool in_a = *a_ns * 3 <= *b_ns * 7;
        uint64_t before = thread_ns();
        x = in_a ? work_a(x, turns) : work_b(x, turns);
        *(in_a ? a_ns : b_ns) += thread_ns() - before;
    }
}

static bool lies_in(const bn_recording *r, const struct bn_sample *s, const char *start, const char *stop)
{
    for (size_t i = s->n_system; i < s->n_chain; i++) {
        uint64_t at = r->addresses[s->chain + i];
        if (at >= (uintptr_t)start && at < (uintptr_t)stop) return true;
    }
    return false;
}

/* Whether a share that was seen in n samples can be that of the clock. */
static bool agrees(double seen, double expected, double n)
{
    return fabs(seen - expected) <= 5.5 * sqrt(expected * (1 - expected) / n);
}

static bool works(int tier, enum bn_record_kind kind)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    struct bn_record_trial trial;
    options.tier = tier;
    options.kind = kind;
    must(bn_record_try(&trial, &options, &err));
    assert_true(trial.works || trial.why[0] != '\0');
    if (!trial.works) print_message("%s: %s\n", bn_record_tier_name((enum bn_record_tier)tier), trial.why);
    return trial.works;
}

/* One recording of split: how many samples there are, and how a's share of them and of the clock compare. */
struct shares {
    size_t samples;
    double seen, expected;
    double independent; /* how many samples of equal weight tell as much */
};

static struct shares record_split(enum bn_record_tier tier, uint64_t ns)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    bn_recording r = {0};
    bn_recorder *recorder = NULL;
    uint64_t a_ns, b_ns;
    double a = 0, b = 0, squares = 0;
    options.tier = (int)tier;
    options.period_ns = PERIOD_NS;
    must(bn_recorder_open(&recorder, &options, &err));
    split(ns, &a_ns, &b_ns);
    must(bn_recorder_stop(recorder, &r, &err));
    bn_recorder_close(recorder);
    assert_int_equal(r.delivery.tier, tier);
    for (size_t i = 0; i < r.n_samples; i++) {
        if (lies_in(&r, &r.samples[i], __start_code_a, __stop_code_a))
            a += (double)r.samples[i].weight;
        else if (lies_in(&r, &r.samples[i], __start_code_b, __stop_code_b))
            b += (double)r.samples[i].weight;
        squares += (double)r.samples[i].weight * (double)r.samples[i].weight;
    }
    struct shares shares = {r.n_samples, a / (a + b), (double)a_ns / (double)(a_ns + b_ns),
                            (a + b) * (a + b) / squares};
    bn_recording_release(&r);
    return shares;
}

/* How many samples come in a time depends on the machine, so it takes as long as it takes. */
TEST(shares_are_those_of_the_clock)
{
    for (int tier = 0; tier < (int)BN_RECORD_TIERS; tier++) {
        struct shares s = {0};
        if (!works(tier, BN_RECORD_CPU)) continue;
        for (uint64_t ms = 200; s.independent < 60 && ms <= 51200; ms *= 2)
            s = record_split((enum bn_record_tier)tier, ms * 1000000);
        print_message("%s: %zu samples, %.4f seen, %.4f by the clock\n",
                      bn_record_tier_name((enum bn_record_tier)tier), s.samples, s.seen, s.expected);
        assert_true(s.independent >= 60);
        assert_true(agrees(s.seen, s.expected, s.independent));
        /* The same bound finds the two mixed up, where there are samples enough. */
        if (s.independent > 500) assert_false(agrees(1 - s.seen, s.expected, s.independent));
    }
}

static void *spin(void *user)
{
    uint64_t a, b;
    split(60000000, &a, &b);
    return user;
}

TEST(later_threads_are_seen_and_our_own_is_not)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    bn_recording r = {0};
    bn_recorder *recorder = NULL;
    pthread_t thread;
    if (!works(BN_RECORD_CLOCK, BN_RECORD_CPU)) skip();
    options.tier = BN_RECORD_CLOCK;
    options.period_ns = PERIOD_NS;
    must(bn_recorder_open(&recorder, &options, &err));
    assert_int_equal(pthread_create(&thread, NULL, spin, NULL), 0);
    spin(NULL);
    pthread_join(thread, NULL);
    must(bn_recorder_stop(recorder, &r, &err));
    bn_recorder_close(recorder);
    uint32_t tids[3] = {0};
    size_t n = 0;
    for (size_t i = 0; i < r.n_samples; i++) {
        size_t k = 0;
        while (k < n && tids[k] != r.samples[i].tid)
            k++;
        if (k == n) assert_true(n < 2);
        if (k == n) tids[n++] = r.samples[i].tid;
        assert_int_equal(r.samples[i].pid, getpid());
    }
    assert_int_equal(n, 2);
    for (size_t k = 0; k < n; k++) {
        bool named = false;
        for (size_t i = 0; i < r.n_threads; i++)
            named |= r.threads[i].tid == tids[k];
        assert_true(named);
    }
    bn_recording_release(&r);
}

static bn_status record(bn_recording *r, struct bn_process *process, const struct bn_record_options *options,
                        const char *script, int output, bn_error *e)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    const int fds[3] = {0, output, 2};
    return bn_record_program(r, process, options, argv, fds, e);
}

TEST(programs_and_what_they_start)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    struct bn_process process;
    bn_recording r;
    if (!works(BN_RECORD_CLOCK, BN_RECORD_CPU)) skip();
    options.tier = BN_RECORD_CLOCK;
    options.period_ns = PERIOD_NS;
    must(record(&r, &process, &options,
                "(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) & "
                "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; wait; exit 3",
                1, &err));
    assert_int_equal(process.end, BN_PROCESS_EXITED);
    assert_int_equal(process.code, 3);
    assert_true(process.usage.ru_utime.tv_sec + process.usage.ru_utime.tv_usec > 0);
    uint32_t other = 0;
    for (size_t i = 0; i < r.n_samples; i++) {
        const struct bn_sample *s = &r.samples[i];
        if (s->pid != r.samples[0].pid) other = s->pid;
        /* Where it was is in a file that is known, in the process that was forked too. */
        if (s->n_system < s->n_chain && s->n_system == 0)
            assert_non_null(bn_recording_mapping(&r, s->pid, r.addresses[s->chain], s->time_ns));
    }
    assert_true(r.n_samples > 20 && other != 0);
    assert_true(r.delivery.cpu_known && r.delivery.cpu_ns > 0);
    bn_recording_release(&r);
}

TEST(a_program_out_of_time_keeps_its_samples)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    struct bn_process process;
    bn_recording r;
    int ends[2];
    char byte;
    size_t samples = 0;
    /* A busy machine may leave it hardly any processor time within the limit. */
    for (options.timeout_ns = 300000000; samples == 0 && options.timeout_ns < 60000000000u;
         options.timeout_ns *= 4) {
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        bn_status status =
            attempt(record(&r, &process, &options, "sleep 1000 & while :; do :; done", ends[1], &err));
        close(ends[1]);
        if (status == BN_ERR_UNSUPPORTED) skip();
        assert_int_equal(status, BN_OK);
        assert_int_equal(process.end, BN_PROCESS_TIMEOUT);
        samples = r.n_samples;
        bn_recording_release(&r);
        /* The pipe ends when what the program had started is gone too. */
        struct pollfd gone = {.fd = ends[0], .events = POLLIN};
        assert_int_equal(poll(&gone, 1, 120000), 1);
        assert_int_equal(read(ends[0], &byte, 1), 0);
        close(ends[0]);
    }
    assert_true(samples > 0);
}

TEST(what_cannot_be_is_said)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    struct bn_process process;
    bn_recorder *recorder = NULL;
    bn_recording r;
    const char *argv[] = {"/nonexistent/program", NULL};
    const int fds[3] = {0, 1, 2};
    bn_status status = attempt(bn_record_program(&r, &process, &options, argv, fds, &err));
    assert_true(status == BN_ERR_NOT_FOUND || status == BN_ERR_UNSUPPORTED);
    err = (bn_error){0};
    options = (struct bn_record_options)BN_RECORD_OPTIONS_INIT;
    options.kind = BN_RECORD_WALL;
    options.tier = BN_RECORD_CLOCK;
    refused(bn_recorder_open(&recorder, &options, &err), BN_ERR_UNSUPPORTED);
    assert_has(err.msg, "wall");
}
