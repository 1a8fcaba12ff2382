/* SPDX-License-Identifier: MIT
 *
 * lab/sampler/timers.c, agent.c and join.c: timers in programs that join the recording, whose
 * stacks and times are known (tests/sampled). The programs measure themselves, by their own processor time.
 * How many samples a timer takes in that time depends on the machine: it fires at the ticks of the operating
 * system, and next to other programs at few of them. So each program runs until it has enough samples. Shares
 * are compared with what the programs report, within five standard deviations.
 */
#define _GNU_SOURCE
#include "tests/unit/stacks/recorded.h"

/* ---- programs ---- */

static size_t in_split(const struct run *run)
{
    return count(run, "seventy", NULL) + count(run, "thirty", NULL);
}

static void a_split_is_found(void **state)
{
    (void)state;
    struct run run = record_until(60, in_split, BN_RECORD_TIMER, CPU(1009000),
                                  (const char *const[]){sampled("split"), "@", NULL});
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
    struct run run = record_until(40, in_bottom, BN_RECORD_TIMER, CPU(1009000),
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
    run = record_until(10, cut_short, BN_RECORD_TIMER, CPU(1009000),
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
    struct run run = record_until(60, of_busy, BN_RECORD_TIMER, CPU(1009000),
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
    struct run run = record_until(2, that_have_their_time, BN_RECORD_TIMER, wall,
                                  (const char *const[]){sampled("threads"), "@", NULL});
    assert_true(of_thread(&run, "idle") >= 10);
    release(&run);
}

/* The watcher scans more rarely then: they are found all the same, with all of their time. */
static void threads_that_start_late_are_found(void **state)
{
    (void)state;
    struct run run = record_until(40, of_busy, BN_RECORD_TIMER, CPU(1009000),
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
    struct run run = record_until(5000, all_samples, BN_RECORD_TIMER, o, argv);
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
    struct run run = record_until(40, in_callback, BN_RECORD_TIMER, CPU(1009000),
                                  (const char *const[]){sampled("nofp"), "@", NULL});
    assert_true(count(&run, "main", NULL) * 20 <= in_callback(&run));
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
        struct run run = record_until(10, in_crash, BN_RECORD_TIMER, CPU(1009000),
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
    struct run run = record_until(10, in_storm_library, BN_RECORD_TIMER, CPU(1009000), argv);
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
    for (int i = 0; i < 2; i++) {
        const char *const argv[] = {sampled("crash"), "@", HOW[i], sampled("split"), "@", NULL};
        struct run run = record_until(5, before_and_after, BN_RECORD_TIMER, CPU(1009000), argv);
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
    struct run run = record_until(25, in_inner, BN_RECORD_TIMER, CPU(1009000),
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

static void what_cannot_be_recorded_is_said(void **state)
{
    (void)state;
    struct run run;
    bn_error err = {0};
    struct bn_record_options o = CPU(1009000);
    static const char *const FOREIGN[] = {"/bin/sh", "sh"};
    for (size_t i = 0; i < BN_ARRAY_LEN(FOREIGN); i++) {
        const char *const argv[] = {FOREIGN[i], "-c", ": >started", NULL};
        assert_int_equal(record(&run, BN_RECORD_TIMER, &o, argv, &err), BN_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "sh is not a program of bn"));
        assert_int_equal(access("started", F_OK), -1);
        release(&run);
        err = (bn_error){0};
    }
    bn_status status =
        record(&run, BN_RECORD_TIMER, &o, (const char *const[]){"/nowhere/at/all", NULL}, &err);
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
            record_until(10, o.dump_bytes == 512 ? copied_in_part : copied_whole, BN_RECORD_TIMER, o,
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
    char variable[64], cpu_ms[] = "1";
    char *argv[] = {(char *)(uintptr_t)sampled("split"), cpu_ms, NULL}, *env[] = {variable, NULL};
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
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

int main(void)
{
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (n <= 0) return 1;
    for (int i = 0; i < 3; i++)
        *strrchr(folder, '/') = '\0';
    snprintf(folder + strlen(folder), sizeof folder - strlen(folder), "/sampled");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_is_found),
        cmocka_unit_test(a_recursion_has_its_depth),
        cmocka_unit_test(threads_are_told_apart),
        cmocka_unit_test(threads_that_wait_have_their_time),
        cmocka_unit_test(threads_that_start_late_are_found),
        cmocka_unit_test(a_storm_passes),
        cmocka_unit_test(a_chain_without_frame_pointers_has_no_root),
        cmocka_unit_test(what_ends_badly_keeps_its_samples),
        cmocka_unit_test(what_is_loaded_late_is_known),
        cmocka_unit_test(a_program_may_become_another),
        cmocka_unit_test(a_caller_is_not_lost_while_a_frame_is_made),
        cmocka_unit_test(what_cannot_be_recorded_is_said),
        cmocka_unit_test(stacks_are_copied),
        cmocka_unit_test(only_a_recorders_log_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
