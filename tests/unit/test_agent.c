/* SPDX-License-Identifier: MIT
 *
 * lab/sampler/timers.c and agent.c: the two tiers that need no perf, in this process and in programs whose
 * stacks and times are known (tests/sampled). The programs measure themselves, by their own processor time.
 * How many samples a timer takes in that time depends on the machine: it fires at the ticks of the operating
 * system, and next to other programs at few of them. So each program runs until it has enough samples. Shares
 * are compared with what the programs report, within five standard deviations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lab/sampler/agent.h"
#include "lab/sampler/tier.h"

#define FIRST_MS 200u  /* of processor time; then longer */
#define MOST_MS 51200u /* too few samples after that: the sampler does not work */
#define CPU(period) ((struct bn_record_options){.kind = BN_RECORD_CPU, .tier = -1, .period_ns = (period)})

static char folder[4096]; /* tests/sampled below the build folder */

static void assert_ok(bn_status status, const bn_error *err)
{
    assert_string_equal(err->msg, "");
    assert_int_equal(status, BN_OK);
}

static const char *sampled(const char *name)
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

static bn_status record(struct run *run, const struct bn_record_tier_ops *tier,
                        const struct bn_record_options *options, const char *const *argv, bn_error *err)
{
    char text[4096];
    void *state = NULL;
    pid_t pid = 0;
    *run = (struct run){0};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
    bn_status status = tier->open_program(&state, &pid, options, argv, (const int[3]){null, out, 2}, err);
    if (status == BN_OK) {
        alarm(1200); /* a program that hangs fails */
        assert_int_equal(waitpid(pid, &run->wait_status, 0), pid);
        alarm(0);
        status = tier->stop(state, &run->recording, err);
        tier->close(state);
        bn_recording_finish(&run->recording);
    }
    ssize_t n = pread(out, text, sizeof text, 0);
    bn_error other = {0};
    if (n > 0 && text[0] == '{') assert_ok(bn_json_parse(&run->said, text, (size_t)n, &other), &other);
    close(null);
    close(out);
    return status;
}

static void release(struct run *run)
{
    bn_recording_release(&run->recording);
    bn_json_free(run->said);
}

static struct run record_ok(const struct bn_record_tier_ops *tier, struct bn_record_options options,
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
static unsigned longer(unsigned ms, size_t n, size_t enough)
{
    if (ms >= MOST_MS) fail_msg("%zu samples in %u ms, not %zu", n, ms, enough);
    size_t factor = enough * 3 / 2 / (n + 1) + 1;
    return ms * (unsigned)(factor < 2 ? 2 : factor > 4 ? 4 : factor);
}

/* Records a program, in whose arguments "@" is a time in milliseconds, for longer and longer until there are
 * enough. */
static struct run record_until(size_t enough, counted *of, const struct bn_record_tier_ops *tier,
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

static double said(const struct run *run, const char *path)
{
    double value = 0;
    if (!bn_json_number(bn_json_path(run->said, path), &value)) fail_msg("the program did not say %s", path);
    return value;
}

/* Whether an address lies in a function of the program, the next of which begins after it. */
static bool is_in(const struct run *run, const char *function, uint64_t address)
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

static size_t frames_in(const struct run *run, const struct bn_sample *sample, const char *function)
{
    size_t n = 0;
    for (size_t i = 0; i < sample->n_chain; i++)
        n += is_in(run, function, run->recording.addresses[sample->chain + i] - (i > 0));
    return n;
}

/* Samples that have a function in them, and their weight. */
static size_t count(const struct run *run, const char *function, double *weight)
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

static double all_weights(const bn_recording *recording)
{
    double sum = 0;
    for (size_t i = 0; i < recording->n_samples; i++)
        sum += (double)recording->samples[i].weight;
    return sum;
}

/* hits of n, where the share is p: (hits - n p)^2 <= 25 n p (1 - p). */
static void assert_share(size_t hits, size_t n, double p)
{
    double off = (double)hits - (double)n * p;
    assert_true(n >= 25);
    if (off * off > 25 * (double)n * p * (1 - p)) fail_msg("%zu of %zu, where the share is %.3f", hits, n, p);
}

/* The time up to the next tick is the weight of a sample that is never taken, once for each thread. */
static double untaken(const bn_recording *recording)
{
    uint64_t most = 0;
    for (size_t i = 0; i < recording->n_samples; i++)
        if (recording->samples[i].weight > most) most = recording->samples[i].weight;
    return 2 * (double)most;
}

/* The weights of all threads together, in nanoseconds, and the time that they took. */
static bool is_near(const bn_recording *recording, double got, double want, double within, size_t threads)
{
    double slack = want * within + 20e6 + (double)threads * untaken(recording);
    return got >= want - slack && got <= want + slack;
}

static void assert_near(const bn_recording *recording, double got, double want, double within, size_t threads)
{
    if (!is_near(recording, got, want, within, threads)) fail_msg("%g, not %g", got, want);
}

/* ---- programs ---- */

static size_t in_split(const struct run *run)
{
    return count(run, "seventy", NULL) + count(run, "thirty", NULL);
}

static void check_split(const struct bn_record_tier_ops *tier)
{
    struct run run =
        record_until(60, in_split, tier, CPU(1009000), (const char *const[]){sampled("split"), "@", NULL});
    double seventy = said(&run, "seventy_ns"), thirty = said(&run, "thirty_ns");
    size_t a = count(&run, "seventy", NULL), b = count(&run, "thirty", NULL);
    assert_share(a, a + b, seventy / (seventy + thirty));
    /* The rest is the loader, main, and what the sampler itself takes. */
    assert_true((double)(a + b) >= 0.9 * (double)run.recording.n_samples);
    assert_true(run.recording.delivery.cpu_known);
    double all = all_weights(&run.recording);
    assert_near(&run.recording, all, (double)run.recording.delivery.cpu_ns, 0.06, 1);
    assert_near(&run.recording, all, said(&run, "all_ns"), 0.06, 1);
    assert_true(run.recording.delivery.lost == 0);
    assert_string_equal(run.recording.delivery.note, "");
    release(&run);
}

static void a_split_is_found(void **state)
{
    (void)state;
    check_split(&bn_record_timer);
}

static void a_split_is_found_by_the_interval_timer(void **state)
{
    (void)state;
    check_split(&bn_record_itimer);
}

static size_t in_bottom(const struct run *run)
{
    return count(run, "bottom", NULL);
}

static size_t cut_short(const struct run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->recording.n_samples; i++)
        n += (run->recording.samples[i].flags & BN_SAMPLE_CUT) != 0;
    return n;
}

static void a_recursion_has_its_depth(void **state)
{
    (void)state;
    size_t right = 0, in = 0;
    struct run run = record_until(40, in_bottom, &bn_record_timer, CPU(1009000),
                                  (const char *const[]){sampled("recursion"), "@", "20", NULL});
    for (size_t i = 0; i < run.recording.n_samples; i++) {
        const struct bn_sample *s = &run.recording.samples[i];
        if (frames_in(&run, s, "bottom") == 0) continue;
        in++;
        right += frames_in(&run, s, "descend") == 20 && frames_in(&run, s, "main") == 1;
        assert_true((s->flags & BN_SAMPLE_CUT) == 0);
    }
    assert_true((double)in >= 0.9 * (double)run.recording.n_samples);
    assert_true((double)right >= 0.99 * (double)in);
    release(&run);
    /* One that is deeper than what is kept says so. */
    run = record_until(10, cut_short, &bn_record_timer, CPU(1009000),
                       (const char *const[]){sampled("recursion"), "@", "400", NULL});
    for (size_t i = 0; i < run.recording.n_samples; i++) {
        const struct bn_sample *s = &run.recording.samples[i];
        if ((s->flags & BN_SAMPLE_CUT) != 0) assert_int_equal(s->n_chain, BN_AGENT_DEPTH);
    }
    release(&run);
}

static double weight_of(const struct run *run, const char *thread)
{
    char path[32];
    double sum = 0;
    snprintf(path, sizeof path, "%s.tid", thread);
    uint32_t tid = (uint32_t)said(run, path);
    for (size_t i = 0; i < run->recording.n_samples; i++)
        if (run->recording.samples[i].tid == tid) sum += (double)run->recording.samples[i].weight;
    return sum;
}

static bool has_name(const bn_recording *recording, uint32_t tid, const char *name)
{
    for (size_t i = 0; i < recording->n_threads; i++)
        if (recording->threads[i].tid == tid && strcmp(recording->threads[i].name, name) == 0) return true;
    return false;
}

static size_t of_thread(const struct run *run, const char *thread)
{
    char path[32];
    size_t n = 0;
    snprintf(path, sizeof path, "%s.tid", thread);
    uint32_t tid = (uint32_t)said(run, path);
    for (size_t i = 0; i < run->recording.n_samples; i++)
        n += run->recording.samples[i].tid == tid;
    return n;
}

static size_t of_busy(const struct run *run)
{
    return of_thread(run, "busy");
}

static void threads_are_told_apart(void **state)
{
    (void)state;
    struct run run = record_until(60, of_busy, &bn_record_timer, CPU(1009000),
                                  (const char *const[]){sampled("threads"), "@", NULL});
    assert_near(&run.recording, weight_of(&run, "busy"), said(&run, "busy.cpu_ns"), 0.1, 1);
    assert_true(weight_of(&run, "idle") <= 1.1 * said(&run, "idle.cpu_ns") + 5e6);
    assert_true(has_name(&run.recording, (uint32_t)said(&run, "busy.tid"), "busy"));
    assert_true(has_name(&run.recording, (uint32_t)said(&run, "idle.tid"), "idle"));
    for (size_t i = 0; i < run.recording.n_threads; i++)
        assert_string_not_equal(run.recording.threads[i].name, "bn-sampler");
    release(&run);
}

/* Whether a thread has the wall time that it lived. */
static bool has_its_time(const struct run *run, const char *thread)
{
    char path[32];
    snprintf(path, sizeof path, "%s.wall_ns", thread);
    return is_near(&run->recording, weight_of(run, thread), said(run, path), 0.25, 0);
}

static size_t that_have_their_time(const struct run *run)
{
    return (size_t)has_its_time(run, "busy") + (size_t)has_its_time(run, "idle");
}

/* A scan finds each thread some time after its start: the longer they live, the less is missing of their
 * time. */
static void threads_that_wait_have_their_time(void **state)
{
    (void)state;
    struct bn_record_options wall = {.kind = BN_RECORD_WALL, .tier = -1, .period_ns = 1009000};
    struct run run = record_until(2, that_have_their_time, &bn_record_timer, wall,
                                  (const char *const[]){sampled("threads"), "@", NULL});
    assert_true(of_thread(&run, "idle") >= 10);
    release(&run);
}

/* The watcher scans more rarely then: they are found all the same, with all of their time. */
static void threads_that_start_late_are_found(void **state)
{
    (void)state;
    struct run run = record_until(40, of_busy, &bn_record_timer, CPU(1009000),
                                  (const char *const[]){sampled("threads"), "@", "300", NULL});
    assert_near(&run.recording, weight_of(&run, "busy"), said(&run, "busy.cpu_ns"), 0.1, 1);
    assert_true(has_name(&run.recording, (uint32_t)said(&run, "busy.tid"), "busy"));
    assert_true(has_name(&run.recording, (uint32_t)said(&run, "idle.tid"), "idle"));
    release(&run);
}

static size_t all_samples(const struct run *run)
{
    return run->recording.n_samples;
}

static void a_storm_passes(void **state)
{
    (void)state;
    const char *ms = getenv("BN_STORM_MS");
    const char *const argv[] = {sampled("storm"), sampled("storm_library.so"), ms != NULL ? ms : "@", NULL};
    struct bn_record_options o = {.kind = BN_RECORD_WALL, .tier = -1, .period_ns = 250000};
    struct run run = record_until(5000, all_samples, &bn_record_timer, o, argv);
    assert_int_equal(run.wait_status, 0);
    release(&run);
}

static size_t in_callback(const struct run *run)
{
    return count(run, "callback", NULL);
}

static void a_chain_without_frame_pointers_has_no_root(void **state)
{
    (void)state;
    struct run run = record_until(40, in_callback, &bn_record_timer, CPU(1009000),
                                  (const char *const[]){sampled("nofp"), "@", NULL});
    assert_true(count(&run, "main", NULL) * 20 <= in_callback(&run));
    release(&run);
}

static size_t of_process(const bn_recording *recording, double pid)
{
    size_t n = 0;
    for (size_t i = 0; i < recording->n_samples; i++)
        n += recording->samples[i].pid == (uint32_t)pid;
    return n;
}

static double weight_of_process(const bn_recording *recording, double pid)
{
    double sum = 0;
    for (size_t i = 0; i < recording->n_samples; i++)
        if (recording->samples[i].pid == (uint32_t)pid) sum += (double)recording->samples[i].weight;
    return sum;
}

/* Of the process of the three that has fewest. */
static size_t of_each_child(const struct run *run)
{
    static const char *const CHILDREN[] = {"first", "second", "other"};
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < 3; i++) {
        size_t n = of_process(&run->recording, said(run, CHILDREN[i]));
        if (n < least) least = n;
    }
    return least;
}

static void children_are_recorded(void **state)
{
    (void)state;
    struct run run =
        record_until(20, of_each_child, &bn_record_timer, CPU(1009000),
                     (const char *const[]){sampled("fork"), "@", sampled("crash"), "@", "exit", NULL});
    const bn_recording *r = &run.recording;
    double ns = said(&run, "ns");
    assert_int_equal(run.wait_status, 0);
    assert_near(r, weight_of_process(r, said(&run, "first")), ns, 0.1, 1);
    assert_near(r, weight_of_process(r, said(&run, "second")), 2 * ns, 0.1, 1);
    assert_near(r, all_weights(r), (double)r->delivery.cpu_ns, 0.15, 4);
    /* The rest is how a process begins and ends. */
    size_t first = of_process(r, said(&run, "first")), in = count(&run, "first_child", NULL);
    assert_true(in <= first && (double)in >= 0.9 * (double)first);
    release(&run);
}

/* Samples taken in a file with that end of its name. */
static size_t in_file(const struct run *run, const char *file)
{
    size_t n = 0;
    for (size_t i = 0; i < run->recording.n_samples; i++) {
        const struct bn_sample *s = &run->recording.samples[i];
        const struct bn_mapping *m =
            bn_recording_mapping(&run->recording, s->pid, run->recording.addresses[s->chain], s->time_ns);
        n += m != NULL && strstr(m->path, file) != NULL;
    }
    return n;
}

static size_t in_crash(const struct run *run)
{
    return in_file(run, "/crash");
}

static void what_ends_badly_keeps_its_samples(void **state)
{
    (void)state;
    static const char *const HOW[] = {"segv", "kill", "exit"};
    for (int i = 0; i < 3; i++) {
        struct run run = record_until(10, in_crash, &bn_record_timer, CPU(1009000),
                                      (const char *const[]){sampled("crash"), "@", HOW[i], NULL});
        assert_int_equal(WIFSIGNALED(run.wait_status), i < 2);
        release(&run);
    }
}

static size_t in_storm_library(const struct run *run)
{
    return in_file(run, "/storm_library.so");
}

/* The maps are read because a sample lies outside of them: the next time would be too late. */
static void what_is_loaded_late_is_known(void **state)
{
    (void)state;
    const char *const argv[] = {sampled("crash"), "@", "load", sampled("storm_library.so"), NULL};
    struct run run = record_until(10, in_storm_library, &bn_record_timer, CPU(1009000), argv);
    assert_true(WIFSIGNALED(run.wait_status));
    release(&run);
}

/* Of the program before and of the program after: whichever has fewer. */
static size_t before_and_after(const struct run *run)
{
    size_t after = in_split(run), before = run->recording.n_samples - after;
    return before < after ? before : after;
}

static void a_program_may_become_another(void **state)
{
    (void)state;
    static const char *const HOW[] = {"execv", "execl"};
    const struct bn_record_tier_ops *const tiers[] = {&bn_record_timer, &bn_record_itimer};
    for (int i = 0; i < 4; i++) {
        const char *const argv[] = {sampled("crash"), "@", HOW[i / 2], sampled("split"), "@", NULL};
        struct run run = record_until(5, before_and_after, tiers[i % 2], CPU(1009000), argv);
        assert_int_equal(run.wait_status, 0);
        release(&run);
    }
}

static bool is_in_inner(const struct run *run, const struct bn_sample *sample)
{
    return sample->n_chain >= 3 && is_in(run, "inner", run->recording.addresses[sample->chain]);
}

static size_t in_inner(const struct run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->recording.n_samples; i++)
        n += is_in_inner(run, &run->recording.samples[i]);
    return n;
}

static void a_caller_is_not_lost_while_a_frame_is_made(void **state)
{
    (void)state;
    size_t right = 0;
    struct run run = record_until(25, in_inner, &bn_record_timer, CPU(1009000),
                                  (const char *const[]){sampled("calls"), "@", NULL});
    for (size_t i = 0; i < run.recording.n_samples; i++) {
        const struct bn_sample *s = &run.recording.samples[i];
        const uint64_t *chain = run.recording.addresses + s->chain;
        if (!is_in_inner(&run, s)) continue;
        right += is_in(&run, "outer", chain[1] - 1) && is_in(&run, "main", chain[2] - 1);
    }
    assert_true((double)right >= 0.99 * (double)in_inner(&run));
    release(&run);
}

static size_t own_ticks(const struct run *run)
{
    return (size_t)said(run, "ticks");
}

static size_t own_ticks_and_samples(const struct run *run)
{
    return own_ticks(run) < run->recording.n_samples ? own_ticks(run) : run->recording.n_samples;
}

static void a_program_that_profiles_itself_is_left_alone(void **state)
{
    (void)state;
    const char *const argv[] = {sampled("sigprof"), "@", NULL};
    struct run run = record_until(5, own_ticks_and_samples, &bn_record_timer, CPU(1009000), argv);
    assert_string_equal(run.recording.delivery.note, "");
    release(&run);
    run = record_until(5, own_ticks, &bn_record_itimer, CPU(1009000), argv);
    assert_non_null(strstr(run.recording.delivery.note, "for itself"));
    release(&run);
}

static void what_cannot_be_recorded_is_said(void **state)
{
    (void)state;
    struct run run;
    bn_error err = {0};
    struct bn_record_options o = CPU(1009000);
    bn_status status =
        record(&run, &bn_record_timer, &o, (const char *const[]){sampled("split-static"), "20", NULL}, &err);
    assert_int_equal(status, BN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "statically"));
    release(&run);
    err = (bn_error){0};
    status = record(&run, &bn_record_timer, &o, (const char *const[]){"/nowhere/at/all", NULL}, &err);
    assert_int_equal(status, BN_ERR_NOT_FOUND);
    release(&run);
}

/* Stacks in "bottom" that were copied whole, or that were cut. */
static size_t copied(const struct run *run, bool is_cut)
{
    size_t n = 0;
    for (size_t i = 0; i < run->recording.n_samples; i++) {
        const struct bn_sample *s = &run->recording.samples[i];
        n += frames_in(run, s, "bottom") > 0 && ((s->flags & BN_SAMPLE_DUMP_CUT) != 0) == is_cut;
    }
    return n;
}

static size_t copied_whole(const struct run *run)
{
    return copied(run, false);
}

static size_t copied_in_part(const struct run *run)
{
    return copied(run, true);
}

static void stacks_are_copied(void **state)
{
    (void)state;
    struct bn_record_options o = CPU(1009000);
    for (o.dump_bytes = 512; o.dump_bytes <= 65528; o.dump_bytes += 65016) {
        struct run run =
            record_until(10, o.dump_bytes == 512 ? copied_in_part : copied_whole, &bn_record_timer, o,
                         (const char *const[]){sampled("recursion"), "@", NULL});
        for (size_t i = 0; i < run.recording.n_samples; i++) {
            const struct bn_sample *s = &run.recording.samples[i];
            if (frames_in(&run, s, "bottom") == 0) continue;
            assert_true(s->n_dump > 0 && s->n_dump <= o.dump_bytes);
#if defined(__x86_64__)
            uint64_t word;
            const uint64_t *registers = run.recording.registers + s->registers;
            assert_true(registers[16] == run.recording.addresses[s->chain]);
            /* The first caller's address lies on the copied stack, where the frame pointer says. */
            uint64_t at = registers[6] + 8 - registers[7];
            if (at + 8 > s->n_dump || is_in(&run, "bottom", registers[16]) == false) continue;
            memcpy(&word, run.recording.dumps + s->dump + at, 8);
            if (registers[6] >= registers[7]) assert_true(word == run.recording.addresses[s->chain + 1]);
#endif
        }
        release(&run);
    }
}

/* ---- this process ---- */

static volatile uint64_t result;

__attribute__((noinline)) static uint64_t spin_a(uint64_t n)
{
    uint64_t x = 1;
    for (uint64_t i = 0; i < n; i++)
        x = x * 6364136223846793005u + i;
    result += x;
    return x;
}

__attribute__((noinline)) static uint64_t spin_b(uint64_t n)
{
    uint64_t x = 3;
    for (uint64_t i = 0; i < n; i++)
        x = x * 2862933555777941757u + i;
    result ^= x;
    return x;
}

static uint64_t thread_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct job {
    uint64_t ns, used[2], random;
    int tid;
};

/* 60/40, as in split.c. */
static void *work(void *pointer)
{
    struct job *job = pointer;
    job->tid = gettid();
    while (job->used[0] + job->used[1] < job->ns) {
        job->random = job->random * 6364136223846793005u + 1442695040888963407u;
        uint64_t n = 10000 + (job->random >> 33) % 200000, before = thread_cpu();
        int who = job->used[0] * 2 > job->used[1] * 3;
        (void)(who == 0 ? spin_a(n) : spin_b(n));
        job->used[who] += thread_cpu() - before;
    }
    return NULL;
}

static bool is_at(uint64_t address, uint64_t (*function)(uint64_t))
{
    uint64_t from = (uint64_t)(uintptr_t)function;
    uint64_t other = (uint64_t)(uintptr_t)(function == spin_a ? spin_b : spin_a);
    return address >= from && address - from < 256 && !(other > from && address >= other);
}

/* What two threads did, and what was recorded of it. */
struct self {
    struct job jobs[2];
    bn_recording recording;
    size_t hits[2], of_thread[2];
};

static void record_self(struct self *self, const struct bn_record_tier_ops *tier, uint64_t ns)
{
    struct bn_record_options o = CPU(1009000);
    pthread_t threads[2];
    void *state = NULL;
    bn_error err = {0};
    *self = (struct self){.jobs = {{.ns = ns, .random = 1}, {.ns = ns, .random = 2}}};
    assert_ok(tier->open_self(&state, &o, &err), &err);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &self->jobs[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_ok(tier->stop(state, &self->recording, &err), &err);
    tier->close(state);
    bn_recording_finish(&self->recording);
    for (size_t i = 0; i < self->recording.n_samples; i++) {
        const struct bn_sample *s = &self->recording.samples[i];
        uint64_t pc = self->recording.addresses[s->chain];
        self->hits[0] += is_at(pc, spin_a);
        self->hits[1] += is_at(pc, spin_b);
        for (int t = 0; t < 2; t++)
            self->of_thread[t] += s->tid == (uint32_t)self->jobs[t].tid;
        assert_int_equal(s->pid, getpid());
    }
}

static void check_self(const struct bn_record_tier_ops *tier)
{
    struct self self;
    for (unsigned ms = FIRST_MS;;) {
        record_self(&self, tier, ms * UINT64_C(1000000));
        size_t n = self.hits[0] + self.hits[1];
        if (n >= 60 && self.of_thread[0] > 0 && self.of_thread[1] > 0) break;
        bn_recording_release(&self.recording);
        ms = longer(ms, n, 60);
    }
    const struct job *jobs = self.jobs;
    double a = (double)(jobs[0].used[0] + jobs[1].used[0]), b = (double)(jobs[0].used[1] + jobs[1].used[1]);
    assert_share(self.hits[0], self.hits[0] + self.hits[1], a / (a + b));
    assert_true(self.recording.delivery.cpu_known);
    assert_near(&self.recording, all_weights(&self.recording), (double)self.recording.delivery.cpu_ns, 0.06,
                3);
    assert_true(self.recording.n_mappings > 0);
    bn_recording_release(&self.recording);
}

static void this_process_is_recorded(void **state)
{
    (void)state;
    check_self(&bn_record_timer);
    check_self(&bn_record_timer); /* once more, since the first left a handler */
}

static void this_process_is_recorded_by_the_interval_timer(void **state)
{
    (void)state;
    check_self(&bn_record_itimer);
}

static void one_recording_at_a_time(void **state)
{
    (void)state;
    void *first = NULL, *second = NULL;
    bn_error err = {0};
    struct bn_record_options o = CPU(1009000);
    assert_ok(bn_record_timer.open_self(&first, &o, &err), &err);
    assert_int_equal(bn_record_itimer.open_self(&second, &o, &err), BN_ERR_UNSUPPORTED);
    assert_null(second);
    bn_record_timer.close(first); /* without a stop */
    err = (bn_error){0};
    assert_ok(bn_record_itimer.open_self(&second, &o, &err), &err);
    bn_record_itimer.close(second);
}

/* Denies one system call to this process, for good. */
static void deny(unsigned number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

/* Runs a check in a child, which may deny itself what it likes: 0 when it is as it should be. */
static void in_child(int (*check)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) _exit(check());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_int_equal(status, 0);
}

static int without_reading_memory(void)
{
    struct bn_record_options o = CPU(1009000);
    bn_error err = {0};
    deny(SYS_process_vm_readv);
    for (uint64_t ms = FIRST_MS; ms <= MOST_MS; ms *= 2) {
        struct job job = {.ns = ms * 1000000, .random = 1};
        bn_recording recording = {0};
        void *state = NULL;
        size_t walked = 0;
        if (bn_record_timer.open_self(&state, &o, &err) != BN_OK) return 1;
        work(&job);
        if (bn_record_timer.stop(state, &recording, &err) != BN_OK) return 2;
        bn_record_timer.close(state);
        if (strstr(recording.delivery.note, "process_vm_readv") == NULL) return 3;
        for (size_t i = 0; i < recording.n_samples; i++)
            walked += recording.samples[i].n_chain > 2;
        size_t n = recording.n_samples;
        bn_recording_release(&recording);
        if (n > 20) return walked * 2 > n ? 0 : 4;
    }
    return 5;
}

static int without_timers(void)
{
    struct bn_record_options o = CPU(1009000);
    void *state = NULL;
    bn_error err = {0};
    deny(SYS_timer_create);
    if (bn_record_timer.open_self(&state, &o, &err) != BN_ERR_UNSUPPORTED) return 1;
    if (strstr(err.msg, "timer_create: Operation not permitted") == NULL) return 2;
    err = (bn_error){0};
    if (bn_record_itimer.open_self(&state, &o, &err) != BN_OK) return 3;
    bn_record_itimer.close(state);
    return 0;
}

static void what_is_denied_is_noticed(void **state)
{
    (void)state;
    in_child(without_reading_memory);
    in_child(without_timers);
}

/* ---- whose log it is ---- */

/* An empty log in memory; its descriptor. */
static int make_log(struct bn_agent_log **log, size_t n_bytes, bool sealed)
{
    int fd = memfd_create("log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, (off_t)n_bytes), 0);
    if (sealed) assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    *log = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(*log != MAP_FAILED);
    **log = (struct bn_agent_log){.version = BN_AGENT_VERSION,
                                  .size = n_bytes,
                                  .period_ns = 1009000,
                                  .clock = BN_AGENT_THREAD_CPU,
                                  .used = sizeof **log};
    return fd;
}

/* Processes that write to a log which their environment names. */
static unsigned writers(const struct bn_agent_log *log, int fd)
{
    char preload[4300], variable[64], cpu_ms[] = "1";
    char *argv[] = {(char *)(uintptr_t)sampled("split"), cpu_ms, NULL}, *env[] = {preload, variable, NULL};
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        snprintf(preload, sizeof preload, "LD_PRELOAD=%s/../../libbn-sampler.so", folder);
        snprintf(variable, sizeof variable, BN_AGENT_LOG_VARIABLE "=/proc/%d/fd/%d", (int)getppid(), fd);
        dup2(open("/dev/null", O_WRONLY), 1);
        execve(argv[0], argv, env);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return atomic_load(&log->processes);
}

static void only_a_recorders_log_is_written(void **state)
{
    (void)state;
    const size_t n = 1u << 20;
    struct bn_agent_log *log;
    int fd = make_log(&log, n, true);
    assert_int_equal(writers(log, fd), 1);
    log->version++;
    assert_int_equal(writers(log, fd), 1);
    munmap(log, n);
    close(fd);
    /* One that could become shorter while it is written. */
    fd = make_log(&log, n, false);
    assert_int_equal(writers(log, fd), 0);
    munmap(log, n);
    close(fd);
    /* Another user's, whose process has the number now that the recorder had. */
    fd = make_log(&log, n, true);
    if (fchown(fd, 65534, 65534) == 0) assert_int_equal(writers(log, fd), 0);
    munmap(log, n);
    close(fd);
}

/* ---- the agent's own code ---- */

/* To end a recording takes up to 40 ms of waiting for the watcher, which wall time would show. */
static void the_agents_own_time_is_not_sampled(void **state)
{
    (void)state;
    const struct bn_record_options o = {.kind = BN_RECORD_WALL, .tier = -1, .period_ns = 500000};
    const struct timespec pause = {.tv_nsec = 150000000};
    size_t before = 0, late = 0;
    for (int round = 0; round < 5; round++) {
        bn_recording recording = {0};
        void *tier = NULL;
        bn_error err = {0};
        assert_ok(bn_record_timer.open_self(&tier, &o, &err), &err);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        uint64_t end = bn_clock_ns();
        assert_ok(bn_record_timer.stop(tier, &recording, &err), &err);
        bn_record_timer.close(tier);
        for (size_t i = 0; i < recording.n_samples; i++) {
            if (recording.samples[i].tid != (uint32_t)gettid()) continue;
            before += recording.samples[i].time_ns < end;
            late += recording.samples[i].time_ns >= end;
        }
        bn_recording_release(&recording);
    }
    assert_true(before > 0);
    /* One that was on its way, each time. */
    if (late > 5) fail_msg("%zu samples of the end of a recording", late);
}

int main(void)
{
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (n <= 0) return 1;
    for (int i = 0; i < 2; i++)
        *strrchr(folder, '/') = '\0';
    snprintf(folder + strlen(folder), sizeof folder - strlen(folder), "/sampled");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_is_found),
        cmocka_unit_test(a_split_is_found_by_the_interval_timer),
        cmocka_unit_test(a_recursion_has_its_depth),
        cmocka_unit_test(threads_are_told_apart),
        cmocka_unit_test(threads_that_wait_have_their_time),
        cmocka_unit_test(threads_that_start_late_are_found),
        cmocka_unit_test(a_storm_passes),
        cmocka_unit_test(a_chain_without_frame_pointers_has_no_root),
        cmocka_unit_test(children_are_recorded),
        cmocka_unit_test(what_ends_badly_keeps_its_samples),
        cmocka_unit_test(what_is_loaded_late_is_known),
        cmocka_unit_test(a_program_may_become_another),
        cmocka_unit_test(a_caller_is_not_lost_while_a_frame_is_made),
        cmocka_unit_test(a_program_that_profiles_itself_is_left_alone),
        cmocka_unit_test(what_cannot_be_recorded_is_said),
        cmocka_unit_test(stacks_are_copied),
        cmocka_unit_test(this_process_is_recorded),
        cmocka_unit_test(this_process_is_recorded_by_the_interval_timer),
        cmocka_unit_test(one_recording_at_a_time),
        cmocka_unit_test(what_is_denied_is_noticed),
        cmocka_unit_test(only_a_recorders_log_is_written),
        cmocka_unit_test(the_agents_own_time_is_not_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
