/* SPDX-License-Identifier: MIT
 *
 * lab/sampler/agent: recording this process, one recording at a time, what is denied, and that the agent
 * does not sample itself.
 */
#define _GNU_SOURCE
#include "tests/unit/stacks/recorded.h"

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

static void record_self(struct self *self, enum bn_record_tier tier, uint64_t ns)
{
    struct bn_record_options o = CPU(1009000);
    pthread_t threads[2];
    void *state = NULL;
    bn_error err = {0};
    o.tier = (int)tier;
    *self = (struct self){.jobs = {{.ns = ns, .random = 1}, {.ns = ns, .random = 2}}};
    assert_ok(bn_record_timers.open_self(&state, &o, &err), &err);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &self->jobs[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_ok(bn_record_timers.stop(state, &self->recording, &err), &err);
    bn_record_timers.close(state);
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

static void check_self(enum bn_record_tier tier)
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
    check_self(BN_RECORD_TIMER);
    check_self(BN_RECORD_TIMER); /* once more, since the first left a handler */
}

static void one_recording_at_a_time(void **state)
{
    (void)state;
    void *first = NULL, *second = NULL;
    bn_error err = {0};
    struct bn_record_options o = CPU(1009000);
    assert_ok(bn_record_timers.open_self(&first, &o, &err), &err);
    assert_int_equal(bn_record_timers.open_self(&second, &o, &err), BN_ERR_UNSUPPORTED);
    assert_null(second);
    bn_record_timers.close(first); /* without a stop */
    err = (bn_error){0};
    assert_ok(bn_record_timers.open_self(&second, &o, &err), &err);
    bn_record_timers.close(second);
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
        if (bn_record_timers.open_self(&state, &o, &err) != BN_OK) return 1;
        work(&job);
        if (bn_record_timers.stop(state, &recording, &err) != BN_OK) return 2;
        bn_record_timers.close(state);
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
    if (bn_record_timers.open_self(&state, &o, &err) != BN_ERR_UNSUPPORTED) return 1;
    if (strstr(err.msg, "timer_create: Operation not permitted") == NULL) return 2;
    return 0;
}

static void what_is_denied_is_noticed(void **state)
{
    (void)state;
    in_child(without_reading_memory);
    in_child(without_timers);
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
        assert_ok(bn_record_timers.open_self(&tier, &o, &err), &err);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        uint64_t end = bn_clock_ns();
        assert_ok(bn_record_timers.stop(tier, &recording, &err), &err);
        bn_record_timers.close(tier);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_process_is_recorded),
        cmocka_unit_test(one_recording_at_a_time),
        cmocka_unit_test(what_is_denied_is_noticed),
        cmocka_unit_test(the_agents_own_time_is_not_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
