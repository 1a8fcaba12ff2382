/* SPDX-License-Identifier: MIT
 *
 * lab/sampler/timers.c: this process is sampled by timers. How many samples a timer takes in a time depends on the
 * machine: it fires at the ticks of the operating system, and next to other programs at few of them. So each work
 * is done until there are enough samples. Times are compared with the threads' own clocks. test_recorder.c compares
 * shares.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/sampler/tier.h"
#include "tests/unit/status.h"

#define FIRST_MS 200u  /* of processor time; then longer */
#define MOST_MS 51200u /* too few samples after that: the sampler does not work */
#define CPU(period) \
    ((struct bn_record_options){.kind = BN_RECORD_CPU, .tier = BN_RECORD_TIMER, .period_ns = (period)})

/* Records what work does, for some nanoseconds. */
static bn_recording record(struct bn_record_options o, void (*work)(uint64_t ns), uint64_t ns)
{
    bn_recording r = {0};
    void *state = NULL;
    must(bn_record_timers.open(&state, &o, NULL, &r, &err));
    work(ns);
    must(bn_record_timers.stop(state, &err));
    bn_record_timers.close(state);
    bn_recording_finish(&r);
    return r;
}

typedef size_t counted(const bn_recording *r);

/* The same for longer and longer until there are enough. */
static bn_recording record_until(size_t enough, counted *of, struct bn_record_options o,
                                 void (*work)(uint64_t ns))
{
    for (unsigned ms = FIRST_MS;; ms *= 2) {
        bn_recording r = record(o, work, ms * UINT64_C(1000000));
        size_t n = of(&r);
        if (n >= enough) return r;
        bn_recording_release(&r);
        if (ms >= MOST_MS) fail_msg("%zu samples in %u ms, not %zu", n, ms, enough);
    }
}

/* ---- work whose stacks are known ---- */

static volatile uint64_t result;
static unsigned depth;

#ifdef __clang__
#define OPAQUE __attribute__((noinline, optnone))
#else
#define OPAQUE __attribute__((noipa))
#endif
OPAQUE static void bottom(uint64_t ns)
{
    for (uint64_t until = bn_clock_thread_cpu_ns() + ns; bn_clock_thread_cpu_ns() < until;)
        for (uint64_t i = 0; i < 200000; i++) {
            uint64_t x = result * 6364136223846793005u + i;
            __asm__ volatile("" : "+r"(x));
        }
}

OPAQUE static void descend(unsigned left, uint64_t ns)
{
    if (left > 0)
        descend(left - 1, ns);
    else
        bottom(ns);
    result++; /* the call is not the last thing, so each has a frame */
}

static void go_down(uint64_t ns)
{
    descend(depth, ns);
}

static bool is_in(uint64_t address, const void *function, size_t n_bytes)
{
    return address - (uint64_t)(uintptr_t)function < n_bytes;
}

/* Frames of a sample in one of the functions above. None is as long as 256 bytes, or followed by a shorter one. */
static size_t frames_in(const bn_recording *r, const struct bn_sample *s, const void *function)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_chain; i++)
        n += is_in(r->addresses[s->chain + i] - (i > 0), function, 96);
    return n;
}

static size_t in_descend(const bn_recording *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_samples; i++)
        n += frames_in(r, &r->samples[i], (const void *)(uintptr_t)descend) > 0;
    return n;
}

static size_t cut_short(const bn_recording *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_samples; i++)
        n += (r->samples[i].flags & BN_SAMPLE_CUT) != 0;
    return n;
}

TEST(a_recursion_has_its_depth)
{
    size_t right = 0, in = 0;
    depth = 19;
    bn_recording r = record_until(40, in_descend, CPU(1009000), go_down);
    for (size_t i = 0; i < r.n_samples; i++) {
        size_t n = frames_in(&r, &r.samples[i], (const void *)(uintptr_t)descend);
        in += n > 0;
        right += n == 20;
    }
    assert_true((double)in >= 0.9 * (double)r.n_samples && (double)right >= 0.95 * (double)in);
    bn_recording_release(&r);
    /* One that is deeper than what is kept says so. */
    depth = 400;
    r = record_until(10, cut_short, CPU(1009000), go_down);
    for (size_t i = 0; i < r.n_samples; i++)
        if ((r.samples[i].flags & BN_SAMPLE_CUT) != 0) assert_true(r.samples[i].n_chain >= 256);
    bn_recording_release(&r);
}

static size_t all_samples(const bn_recording *r)
{
    return r->n_samples;
}

TEST(stacks_are_copied)
{
    struct bn_record_options o = CPU(1009000);
    depth = 19;
    for (o.dump_bytes = 512; o.dump_bytes <= 65528; o.dump_bytes += 65016) {
        size_t cut = 0;
        bn_recording r = record_until(10, all_samples, o, go_down);
        for (size_t i = 0; i < r.n_samples; i++) {
            const struct bn_sample *s = &r.samples[i];
            cut += (s->flags & BN_SAMPLE_DUMP_CUT) != 0;
            assert_true(s->n_dump > 0 && s->n_dump <= o.dump_bytes);
#if defined(__x86_64__)
            assert_true(r.registers[s->registers + 16] == r.addresses[s->chain]);
#endif
        }
        assert_true(o.dump_bytes > 512 || cut * 2 > r.n_samples);
        bn_recording_release(&r);
    }
}

struct life {
    const char *name;
    uint64_t work_ns, cpu_ns, wall_ns;
    uint32_t tid;
};
static struct life busy, idle;
static atomic_bool done;

static void nap(long ns)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = ns}, NULL);
}

static void *live(void *pointer)
{
    struct life *life = pointer;
    uint64_t began = bn_clock_ns();
    life->tid = (uint32_t)gettid();
    pthread_setname_np(pthread_self(), life->name);
    if (life == &busy) {
        bottom(life->work_ns);
        atomic_store(&done, true);
    }
    while (!atomic_load(&done))
        nap(20000000);
    life->cpu_ns = bn_clock_thread_cpu_ns();
    life->wall_ns = bn_clock_ns() - began;
    return NULL;
}

/* They start late, when the watcher scans more rarely. */
static void live_together(uint64_t ns)
{
    pthread_t threads[2];
    nap(200000000);
    busy = (struct life){.name = "busy", .work_ns = ns};
    idle = (struct life){.name = "idle"};
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&threads[0], NULL, live, &busy), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, live, &idle), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* The weight of a thread's samples, or of all. The time up to the next tick is the weight of a sample that is
 * never taken: *slack grows by that. */
static double weight_of(const bn_recording *r, uint32_t tid, double *slack)
{
    double sum = 0, most = 0;
    for (size_t i = 0; i < r->n_samples; i++) {
        double weight = (double)r->samples[i].weight;
        if (weight > most) most = weight;
        if (tid == 0 || r->samples[i].tid == tid) sum += weight;
    }
    *slack += 2 * most;
    return sum;
}

static bool is_near(const bn_recording *r, uint32_t tid, uint64_t want, double within)
{
    double slack = (double)want * within + 20e6, got = weight_of(r, tid, &slack);
    return got >= (double)want - slack && got <= (double)want + slack;
}

static bool has_name(const bn_recording *r, uint32_t tid, const char *name)
{
    for (size_t i = 0; i < r->n_threads; i++)
        if (r->threads[i].tid == tid && strcmp(r->threads[i].name, name) == 0) return true;
    return false;
}

static size_t of_busy(const bn_recording *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_samples; i++)
        n += r->samples[i].tid == busy.tid;
    return n;
}

TEST(threads_are_told_apart)
{
    for (int round = 0; round < 2; round++) { /* twice, since the first leaves a handler */
        bn_recording r = record_until(40, of_busy, CPU(1009000), live_together);
        assert_true(is_near(&r, busy.tid, busy.cpu_ns, 0.1));
        assert_true(r.delivery.cpu_known && is_near(&r, 0, r.delivery.cpu_ns, 0.1));
        assert_true(has_name(&r, busy.tid, "busy") && has_name(&r, idle.tid, "idle"));
        for (size_t i = 0; i < r.n_threads; i++)
            assert_string_not_equal(r.threads[i].name, "bn-sampler");
        for (size_t i = 0; i < r.n_samples; i++)
            assert_int_equal(r.samples[i].pid, getpid());
        assert_int_equal(r.delivery.lost, 0);
        assert_string_equal(r.delivery.note, "");
        bn_recording_release(&r);
    }
}

static size_t that_have_their_time(const bn_recording *r)
{
    return is_near(r, busy.tid, busy.wall_ns, 0.25) + is_near(r, idle.tid, idle.wall_ns, 0.25);
}

/* A scan finds each thread some time after its start: the longer they live, the less is missing of their time. */
TEST(threads_that_wait_have_their_time)
{
    struct bn_record_options o = CPU(1009000);
    o.kind = BN_RECORD_WALL;
    bn_recording r = record_until(2, that_have_their_time, o, live_together);
    bn_recording_release(&r);
}

/* To end a recording takes up to 40 ms of waiting for the watcher, which wall time would show. */
TEST(the_samplers_own_time_is_not_sampled)
{
    struct bn_record_options o = CPU(500000);
    size_t before = 0, late = 0;
    o.kind = BN_RECORD_WALL;
    for (int round = 0; round < 5; round++) {
        bn_recording r = {0};
        void *tier = NULL;
        must(bn_record_timers.open(&tier, &o, NULL, &r, &err));
        nap(150000000);
        uint64_t end = bn_clock_ns();
        must(bn_record_timers.stop(tier, &err));
        bn_record_timers.close(tier);
        for (size_t i = 0; i < r.n_samples; i++) {
            if (r.samples[i].tid != (uint32_t)gettid()) continue;
            before += r.samples[i].time_ns < end;
            late += r.samples[i].time_ns >= end;
        }
        bn_recording_release(&r);
    }
    assert_true(before > 0);
    /* One that was on its way, each time. */
    if (late > 5) fail_msg("%zu samples of the end of a recording", late);
}

TEST(what_cannot_be_is_said)
{
    void *first = NULL, *second = NULL;
    bn_recording r = {0};
    struct bn_record_options o = CPU(1009000);
    const char *argv[] = {"true", NULL};
    struct bn_record_start program = {.argv = argv, .fds = (const int[]){0, 1, 2}};
    refused(bn_record_timers.open(&first, &o, &program, &r, &err), BN_ERR_UNSUPPORTED);
    assert_has(err.msg, "perf events sample other programs");
    assert_int_equal(program.pid, 0);
    must(bn_record_timers.open(&first, &o, NULL, &r, &err));
    refused(bn_record_timers.open(&second, &o, NULL, &r, &err), BN_ERR_UNSUPPORTED);
    assert_null(second);
    bn_record_timers.close(first); /* without a stop */
    must(bn_record_timers.open(&second, &o, NULL, &r, &err));
    bn_record_timers.close(second);
    bn_recording_release(&r);
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
    deny(SYS_process_vm_readv);
    bn_recording r = record_until(20, all_samples, CPU(1009000), bottom);
    if (strstr(r.delivery.note, "process_vm_readv is denied") == NULL) return 3;
    for (size_t i = 0; i < r.n_samples; i++)
        if (r.samples[i].n_chain != 1) return 4;
    bn_recording_release(&r);
    return 0;
}

static int without_timers(void)
{
    struct bn_record_options o = CPU(1009000);
    void *state = NULL;
    bn_recording r = {0};
    deny(SYS_timer_create);
    if (attempt(bn_record_timers.open(&state, &o, NULL, &r, &err)) != BN_ERR_UNSUPPORTED) return 1;
    return strstr(err.msg, "timer_create: Operation not permitted") == NULL ? 2 : 0;
}

TEST(what_is_denied_is_noticed)
{
    in_child(without_reading_memory);
    in_child(without_timers);
}
