/* SPDX-License-Identifier: MIT
 *
 * lab/kit/process.h: each way in which a program can end is distinguished, its output is kept as far as it
 * fits, nothing of it is left over, and descriptors do not leak, in neither direction.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "lab/kit/loops.h"
#include "lab/kit/process.h"
#include "tests/unit/folder.h"

/* Descriptors that this test was given by its caller are not its subject. */
static void keep_what_we_were_given(void)
{
    for (int fd = 3; fd < 1024; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static size_t open_descriptors(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

/* sh -c script, within 10 minutes unless o says otherwise. */
static struct bn_process sh(const char *script, struct bn_process_options o)
{
    struct bn_process p;
    const char *const argv[] = {"sh", "-c", script, NULL};
    size_t before = open_descriptors();
    o.argv = argv;
    if (o.timeout_ns == 0) o.timeout_ns = UINT64_C(600000000000);
    must(bn_process_run(&p, &o, &err));
    assert_int_equal(open_descriptors(), before);
    return p;
}

TEST(ends_are_told_apart)
{
    char text[80];
    struct bn_process_options o = {0};
    struct bn_process p = sh("exit 0", o);
    assert_int_equal(p.end, BN_PROCESS_EXITED);
    assert_int_equal(p.code, 0);
    assert_true(p.wall_ns > 0);
    assert_true(p.usage.ru_maxrss > 0);
    p = sh("exit 7", o);
    assert_int_equal(p.end, BN_PROCESS_EXITED);
    assert_int_equal(p.code, 7);
    p = sh("kill -SEGV $$", o);
    assert_int_equal(p.end, BN_PROCESS_SIGNALLED);
    assert_int_equal(p.code, SIGSEGV);
    bn_process_describe(text, sizeof text, &p);
    assert_string_equal(text, "was ended by signal 11");
}

TEST(time_limits_hold)
{
    struct bn_process_options o = {.timeout_ns = 50000000};
    struct bn_process p = sh("while :; do :; done", o);
    assert_int_equal(p.end, BN_PROCESS_TIMEOUT);
    p = sh("trap '' TERM INT; sleep 1000 & wait", o);
    assert_int_equal(p.end, BN_PROCESS_TIMEOUT);
}

/* Children that the program leaves behind go with it: the one that would hold the pipe open, and run on. */
TEST(nothing_is_left_over)
{
    struct bn_buf out = {.max = 100};
    struct bn_process p = sh("sleep 1000 & echo $!", (struct bn_process_options){.out = &out});
    assert_int_equal(p.end, BN_PROCESS_EXITED);
    pid_t left = (pid_t)strtol(out.data, NULL, 10);
    assert_true(left > 0);
    for (int i = 0; i < 12000 && kill(left, 0) == 0; i++) {
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)left);
        FILE *f = fopen(path, "r");
        if (f == NULL) break;
        bool zombie = fgets(line, sizeof line, f) != NULL && strstr(line, ") Z ") != NULL;
        fclose(f);
        if (zombie) break;
        usleep(10000);
        assert_true(i < 11999);
    }
    bn_buf_release(&out);
}

TEST(output_is_kept_as_far_as_it_fits)
{
    struct bn_buf out = {.max = 1000}, errors = {.max = 100};
    struct bn_process p =
        sh("echo one; echo two >&2; cat", (struct bn_process_options){.out = &out, .errors = &errors});
    assert_int_equal(p.end, BN_PROCESS_EXITED);
    assert_string_equal(out.data, "one\n");
    assert_string_equal(errors.data, "two\n");
    assert_false(out.failed || errors.failed);
    bn_buf_release(&out);
    bn_buf_release(&errors);
    /* More than the buffer and the pipe hold: the program still comes to its end. */
    out = (struct bn_buf){.max = 1000};
    p = sh("head -c 300000 /dev/zero; exit 3", (struct bn_process_options){.out = &out});
    assert_int_equal(p.code, 3);
    assert_true(out.failed);
    assert_int_equal(out.len, 1000);
    bn_buf_release(&out);
}

TEST_IN(input_comes_from_a_file, make_folder, remove_folder)
{
    const char *path = below("input");
    struct bn_buf out = {.max = 10};
    write_text(path, "abc");
    sh("cat", (struct bn_process_options){.input = path, .out = &out});
    assert_string_equal(out.data, "abc");
    bn_buf_release(&out);
}

TEST(the_program_gets_three_descriptors)
{
    struct bn_buf out = {.max = 100};
    /* The listing itself has one. */
    sh("ls /proc/self/fd", (struct bn_process_options){.out = &out});
    assert_string_equal(out.data, "0\n1\n2\n3\n");
    bn_buf_release(&out);
}

/* Blocked and ignored signals are ours only. */
TEST(the_program_gets_plain_signals)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    void (*handler)(int) = signal(SIGPIPE, SIG_IGN);
    struct bn_process p = sh("kill -TERM $$; exit 5", (struct bn_process_options){0});
    assert_int_equal(p.end, BN_PROCESS_SIGNALLED);
    p = sh("kill -PIPE $$; exit 5", (struct bn_process_options){0});
    assert_int_equal(p.end, BN_PROCESS_SIGNALLED);
    assert_int_equal(p.code, SIGPIPE);
    signal(SIGPIPE, handler);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

TEST(what_cannot_start_is_an_error)
{
    struct bn_process p;
    const char *const none[] = {"/nonexistent/program", NULL}, *const dir[] = {"/tmp", NULL};
    const char *const fine[] = {"true", NULL};
    size_t before = open_descriptors();
    refused(bn_process_run(&p, &(struct bn_process_options){.argv = none}, &err), BN_ERR_NOT_FOUND);
    assert_string_equal(err.where, "/nonexistent/program");
    assert_int_not_equal(bn_process_run(&p, &(struct bn_process_options){.argv = dir}, NULL), BN_OK);
    refused(
        bn_process_run(&p, &(struct bn_process_options){.argv = fine, .input = "/nonexistent/file"}, NULL),
        BN_ERR_NOT_FOUND);
    assert_int_equal(open_descriptors(), before);
}

/* Linux counts the memory of the process that starts another one as the other's when it shares it. */
TEST(memory_is_the_programs_own)
{
    size_t n = 64u << 20;
    char *ours = malloc(n);
    assert_non_null(ours);
    memset(ours, 1, n);
    free(ours);
    struct bn_process p = sh("exit 0", (struct bn_process_options){0});
    assert_true((size_t)p.usage.ru_maxrss * 1024 < n);
}

static bool yes(void)
{
    return true;
}

static void nothing(int number)
{
    (void)number;
}

TEST(an_interrupt_cancels)
{
    struct bn_process p;
    struct sigaction catch = {.sa_handler = nothing}, before;
    const char *const argv[] = {"sleep", "1000", NULL};
    sigaction(SIGALRM, &catch, &before);
    ualarm(50000, 50000);
    refused(bn_process_run(&p, &(struct bn_process_options){.argv = argv, .cancelled = yes}, NULL),
            BN_ERR_CANCELLED);
    ualarm(0, 0);
    sigaction(SIGALRM, &before, NULL);
}

/* Ticks of CPU time that a process used, and its state; 'X' when there is no such process. */
static unsigned long used_by(pid_t pid, char *run_state)
{
    char path[64], name[64];
    unsigned long user = 0;
    *run_state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL) return 0;
    if (fscanf(f, "%*d %63s %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", name, run_state, &user) != 3)
        *run_state = 'X';
    fclose(f);
    return user;
}

static bool is_gone(pid_t pid)
{
    char run_state;
    (void)used_by(pid, &run_state);
    return run_state == 'X' || run_state == 'Z';
}

static void wait_until_used(pid_t pid, unsigned long ticks)
{
    char run_state;
    for (int i = 0; i < 12000 && used_by(pid, &run_state) < ticks; i++)
        usleep(10000);
    assert_true(used_by(pid, &run_state) >= ticks);
}

/* The child of this process that began after n others. */
static pid_t child(int n)
{
    int pid = 0;
    FILE *f = fopen("/proc/thread-self/children", "r");
    assert_non_null(f);
    for (int i = 0; i <= n; i++)
        assert_int_equal(fscanf(f, "%d", &pid), 1);
    fclose(f);
    return pid;
}

TEST(busy_processes_compute_when_asked)
{
    struct bn_loops *loops = NULL;
    char run_state;
    must(bn_loops_start(&loops, 0, NULL));
    assert_null(loops);
    bn_loops_run(loops, 0);
    must(bn_loops_start(&loops, 2, NULL));
    pid_t first = child(0), second = child(1);
    bn_loops_run(loops, 1);
    wait_until_used(first, 10);
    assert_true(used_by(second, &run_state) <= 1); /* its start */
    bn_loops_run(loops, 0);
    for (int i = 0; i < 12000 && (used_by(first, &run_state), run_state != 'T'); i++)
        usleep(10000);
    assert_int_equal(run_state, 'T');
    bn_loops_end(loops);
    assert_true(is_gone(first) && is_gone(second));
}

/* The program that started them is killed by a signal that it cannot catch. */
TEST(busy_processes_end_with_their_program)
{
    int fds[2];
    pid_t inner = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t outer = fork();
    if (outer == 0) {
        struct bn_loops *loops = NULL;
        if (bn_loops_start(&loops, 1, NULL) != BN_OK) _exit(1);
        bn_loops_run(loops, 1);
        inner = child(0);
        if (write(fds[1], &inner, sizeof inner) != sizeof inner) _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &inner, sizeof inner), sizeof inner);
    close(fds[0]);
    wait_until_used(inner, 1);
    kill(outer, SIGKILL);
    assert_int_equal(waitpid(outer, NULL, 0), outer);
    for (int i = 0; i < 12000 && !is_gone(inner); i++)
        usleep(10000);
    assert_true(is_gone(inner));
}

int main(void)
{
    keep_what_we_were_given();
    return unit_run();
}
