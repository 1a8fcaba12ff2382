/* SPDX-License-Identifier: MIT
 *
 * Programs of tests/sampled, recorded, and what they say of themselves, for the tests of the agent.
 */
#ifndef BN_TESTS_RECORDED_H
#define BN_TESTS_RECORDED_H

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/sampler/agent.h"
#include "lab/sampler/tier.h"
#include "tests/unit/unit.h"

#define FIRST_MS 200u  /* of processor time; then longer */
#define MOST_MS 51200u /* too few samples after that: the sampler does not work */
#define CPU(period) ((struct bn_record_options){.kind = BN_RECORD_CPU, .tier = -1, .period_ns = (period)})

static char folder[4096]; /* tests/sampled below the build folder */

static inline void assert_ok(bn_status status, const bn_error *err)
{
    assert_string_equal(err->msg, "");
    assert_int_equal(status, BN_OK);
}

static inline const char *sampled(const char *name)
{
    static char path[2][4200];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

/* ---- a program and what it says ---- */

struct run {
    bn_recording recording;
    bn_json *said; /* NULL when it said nothing */
    int wait_status;
};

static inline bn_status record(struct run *run, enum bn_record_tier tier,
                               const struct bn_record_options *options, const char *const *argv,
                               bn_error *err)
{
    char text[4096];
    void *state = NULL;
    pid_t pid = 0;
    struct bn_record_options own = *options;
    own.tier = (int)tier;
    *run = (struct run){0};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
    bn_status status =
        bn_record_timers.open_program(&state, &pid, &own, argv, (const int[3]){null, out, 2}, err);
    if (status == BN_OK) {
        alarm(1200); /* a program that hangs fails */
        assert_int_equal(waitpid(pid, &run->wait_status, 0), pid);
        alarm(0);
        status = bn_record_timers.stop(state, &run->recording, err);
        bn_record_timers.close(state);
        bn_recording_finish(&run->recording);
    }
    ssize_t n = pread(out, text, sizeof text, 0);
    bn_error other = {0};
    if (n > 0 && text[0] == '{') assert_ok(bn_json_parse(&run->said, text, (size_t)n, &other), &other);
    close(null);
    close(out);
    return status;
}

static inline void release(struct run *run)
{
    bn_recording_release(&run->recording);
    bn_json_free(run->said);
}

static inline struct run record_ok(enum bn_record_tier tier, struct bn_record_options options,
                                   const char *const *argv)
{
    struct run run;
    bn_error err = {0};
    assert_ok(record(&run, tier, &options, argv, &err), &err);
    return run;
}

/* How many there are of something in a recording. */
typedef size_t counted(const struct run *run);

/* How long to run next when there were n samples: for enough and a half at that rate, four times as long at
 * most. */
static inline unsigned longer(unsigned ms, size_t n, size_t enough)
{
    if (ms >= MOST_MS) fail_msg("%zu samples in %u ms, not %zu", n, ms, enough);
    size_t factor = enough * 3 / 2 / (n + 1) + 1;
    return ms * (unsigned)(factor < 2 ? 2 : factor > 4 ? 4 : factor);
}

/* Records a program, in whose arguments "@" is a time in milliseconds, for longer and longer until there are
 * enough. */
static inline struct run record_until(size_t enough, counted *of, enum bn_record_tier tier,
                                      struct bn_record_options options, const char *const *argv)
{
    char text[16];
    for (unsigned ms = FIRST_MS;;) {
        const char *words[8] = {NULL};
        snprintf(text, sizeof text, "%u", ms);
        for (size_t i = 0; argv[i] != NULL && i < 7; i++)
            words[i] = strcmp(argv[i], "@") == 0 ? text : argv[i];
        struct run run = record_ok(tier, options, words);
        size_t n = of(&run);
        if (n >= enough) return run;
        release(&run);
        ms = longer(ms, n, enough);
    }
}

static inline double said(const struct run *run, const char *path)
{
    double value = 0;
    if (!bn_json_number(bn_json_path(run->said, path), &value)) fail_msg("the program did not say %s", path);
    return value;
}

/* Whether an address lies in a function of the program, the next of which begins after it. */
static inline bool is_in(const struct run *run, const char *function, uint64_t address)
{
    const bn_json *functions = bn_json_get(run->said, "functions"), *best = NULL;
    uint64_t best_at = 0, at;
    for (const bn_json *f = bn_json_first(functions); f != NULL; f = bn_json_next(f))
        if (bn_json_u64(f, &at) && at <= address && address - at < 4096 && at >= best_at) {
            best_at = at;
            best = f;
        }
    return best != NULL && strcmp(bn_json_name(best), function) == 0;
}

static inline size_t frames_in(const struct run *run, const struct bn_sample *sample, const char *function)
{
    size_t n = 0;
    for (size_t i = 0; i < sample->n_chain; i++)
        n += is_in(run, function, run->recording.addresses[sample->chain + i] - (i > 0));
    return n;
}

/* Samples that have a function in them, and their weight. */
static inline size_t count(const struct run *run, const char *function, double *weight)
{
    size_t n = 0;
    double sum = 0;
    for (size_t i = 0; i < run->recording.n_samples; i++) {
        const struct bn_sample *s = &run->recording.samples[i];
        if (frames_in(run, s, function) == 0) continue;
        n++;
        sum += (double)s->weight;
    }
    if (weight != NULL) *weight = sum;
    return n;
}

static inline double all_weights(const bn_recording *recording)
{
    double sum = 0;
    for (size_t i = 0; i < recording->n_samples; i++)
        sum += (double)recording->samples[i].weight;
    return sum;
}

/* hits of n, where the share is p: (hits - n p)^2 <= 25 n p (1 - p). */
static inline void assert_share(size_t hits, size_t n, double p)
{
    double off = (double)hits - (double)n * p;
    assert_true(n >= 25);
    if (off * off > 25 * (double)n * p * (1 - p)) fail_msg("%zu of %zu, where the share is %.3f", hits, n, p);
}

/* The time up to the next tick is the weight of a sample that is never taken, once for each thread. */
static inline double untaken(const bn_recording *recording)
{
    uint64_t most = 0;
    for (size_t i = 0; i < recording->n_samples; i++)
        if (recording->samples[i].weight > most) most = recording->samples[i].weight;
    return 2 * (double)most;
}

/* The weights of all threads together, in nanoseconds, and the time that they took. */
static inline bool is_near(const bn_recording *recording, double got, double want, double within,
                           size_t threads)
{
    double slack = want * within + 20e6 + (double)threads * untaken(recording);
    return got >= want - slack && got <= want + slack;
}

static inline void assert_near(const bn_recording *recording, double got, double want, double within,
                               size_t threads)
{
    if (!is_near(recording, got, want, within, threads)) fail_msg("%g, not %g", got, want);
}

#endif
