/* SPDX-License-Identifier: MIT
 *
 * The tier of timers (see tier.h), one for each thread. The agent (agent.h)
 * samples this process, or a program of bn, which joins the recording (join.c). Other programs are recorded by
 * perf events only. The log is memory with a descriptor of this process: a program opens it as
 * /proc/PID/fd/N, which no longer leads to it after this recording.
 *
 * The weight of a sample is the processor time (or wall time) that its thread used since the last one:
 * ticks, delays and rates change the resolution, not the sum.
 *
 * Limits, which perf's tiers do not have: threads that live for less than a scan (10 to 40 ms) are not seen,
 * and those that block all signals have no samples, which the note says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/kit/spawn.h"
#include "lab/sampler/agent.h"
#include "lab/sampler/tier.h"

#define LOG_BYTES (256u << 20)
#define LOG_BYTES_WITH_DUMPS (1u << 30)

_Static_assert(BN_AGENT_REGISTERS == BN_RECORD_REGISTERS, "the agent knows only its own header");

struct timers {
    struct bn_agent_log *log;
    size_t log_bytes;
    int log_fd;
    bool is_self, is_running;
    uint64_t cpu_before_ns;
    char name[128]; /* of the program */
};

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* ---- processor time ---- */

static uint64_t time_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* What this process used until now, or its children that were waited for. */
static uint64_t cpu_used(bool is_self)
{
    struct rusage usage;
    uint64_t own = is_self ? bn_clock_process_cpu_ns() : 0;
    if (own > 0) return own;
    if (getrusage(is_self ? RUSAGE_SELF : RUSAGE_CHILDREN, &usage) != 0) return 0;
    return time_ns(usage.ru_utime) + time_ns(usage.ru_stime);
}

/* ---- opening ---- */

static void close_timers(void *state)
{
    struct timers *t = state;
    if (t == NULL) return;
    if (t->is_self && t->is_running) bn_agent_end();
    if (t->log != NULL) munmap(t->log, t->log_bytes);
    close_fd(&t->log_fd);
    bn_free(t);
}

static bn_status open_log(struct timers *t, const struct bn_record_options *o, bn_error *err)
{
    t->log_bytes = o->dump_bytes > 0 ? LOG_BYTES_WITH_DUMPS : LOG_BYTES;
    t->log_fd = memfd_create("bn-sampler-log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    /* Sealed: otherwise a recorded program could truncate it, and reading would end with SIGBUS. */
    if (t->log_fd < 0 || ftruncate(t->log_fd, (off_t)t->log_bytes) != 0 ||
        fcntl(t->log_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "memfd_create: %s", strerror(errno));
    void *memory = mmap(NULL, t->log_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t->log_fd, 0);
    if (memory == MAP_FAILED) return bn_fail_errno(err, errno, NULL, "mmap of the sampler's log");
    t->log = memory;
    t->log->version = BN_AGENT_VERSION;
    t->log->size = t->log_bytes;
    t->log->period_ns = o->period_ns;
    t->log->clock = o->kind == BN_RECORD_WALL ? BN_AGENT_MONOTONIC : BN_AGENT_THREAD_CPU;
    t->log->dump_bytes = o->dump_bytes;
    atomic_store(&t->log->used, BN_AGENT_FIRST);
    return BN_OK;
}

static bn_status open_timers(struct timers **out, const struct bn_record_options *o, bool is_self,
                             bn_error *err)
{
    if (o->period_ns == 0 || o->dump_bytes % 8 != 0 || o->dump_bytes > 65528)
        return bn_fail(err, BN_ERR_ARG,
                       "the period is 0, or the size of stack copies is not a multiple of 8 bytes");
    struct timers *t = bn_alloc(1, sizeof *t);
    if (t == NULL) return bn_nomem(err);
    *t = (struct timers){.log_fd = -1, .is_self = is_self};
    bn_status status = open_log(t, o, err);
    if (status == BN_OK)
        *out = t;
    else
        close_timers(t);
    return status;
}

static bn_status open_self(void **state, const struct bn_record_options *options, bn_error *err)
{
    struct timers *t;
    const char *what;
    BN_TRY(open_timers(&t, options, true, err));
    t->cpu_before_ns = cpu_used(true);
    int failed = bn_agent_begin(t->log, NULL, &what);
    if (failed != 0) {
        close_timers(t);
        return bn_fail(err, BN_ERR_UNSUPPORTED, "%s: %s", what, strerror(failed));
    }
    t->is_running = true;
    *state = t;
    return BN_OK;
}

/* ---- a program ---- */

/* Whether the file of a program joins recordings. One that cannot be read does not. */
static bool joins(const char *path)
{
    struct bn_file_map map;
    bn_error nothing = {0};
    if (bn_file_map_open(&map, path, false, &nothing) != BN_OK) return false;
    bool found = memmem(map.data, map.n_bytes, BN_AGENT_PROGRAM, strlen(BN_AGENT_PROGRAM)) != NULL;
    bn_file_map_close(&map);
    return found;
}

/* The same for the program that exec finds; one that is not there is for bn_spawn to report. */
static bool may_start(const char *name)
{
    char path[4096];
    const char *folders = getenv("PATH");
    if (strchr(name, '/') != NULL) return access(name, F_OK) != 0 || joins(name);
    for (const char *at = folders != NULL ? folders : ""; *at != '\0';) {
        size_t n = strcspn(at, ":");
        int wrote = snprintf(path, sizeof path, "%.*s%s%s", (int)n, at, n > 0 ? "/" : "", name);
        if (wrote > 0 && (size_t)wrote < sizeof path && access(path, X_OK) == 0) return joins(path);
        at += n + (at[n] == ':');
    }
    return true;
}

/* bn_spawn's program gets this process's environment: with the log in it for as long as that takes. */
static bn_status spawn(const struct timers *t, pid_t *pid, const char *const *argv, const int fds[3],
                       bn_error *err)
{
    char path[48], before[256];
    const char *old = getenv(BN_AGENT_LOG_VARIABLE);
    snprintf(before, sizeof before, "%s", old != NULL ? old : "");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), t->log_fd);
    if (access(path, R_OK | W_OK) != 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "%s: %s; recorded programs need this path", path,
                       strerror(errno));
    if (setenv(BN_AGENT_LOG_VARIABLE, path, 1) != 0) return bn_nomem(err);
    int failed = bn_spawn(pid, argv, fds);
    if (old != NULL)
        (void)setenv(BN_AGENT_LOG_VARIABLE, before, 1);
    else
        (void)unsetenv(BN_AGENT_LOG_VARIABLE);
    return failed != 0 ? bn_fail_errno(err, failed, argv[0], "cannot start") : BN_OK;
}

static bn_status open_program(void **state, pid_t *pid, const struct bn_record_options *options,
                              const char *const *argv, const int fds[3], bn_error *err)
{
    struct timers *t;
    if (!may_start(argv[0]))
        return bn_fail(err, BN_ERR_UNSUPPORTED,
                       "%.200s is not a program of bn; other programs can be recorded by perf events only",
                       argv[0]);
    BN_TRY(open_timers(&t, options, false, err));
    snprintf(t->name, sizeof t->name, "%s", argv[0]);
    t->cpu_before_ns = cpu_used(false);
    bn_status status = spawn(t, pid, argv, fds, err);
    if (status == BN_OK)
        *state = t;
    else
        close_timers(t);
    return status;
}

/* ---- ending ---- */

static void put_note(struct bn_delivery *delivery, uint32_t notes)
{
    static const struct {
        enum bn_agent_note bit;
        const char *text;
    } TEXTS[] = {
        {BN_AGENT_READ_DENIED,
         "process_vm_readv is denied: a thread's first stacks are only its own address"},
        {BN_AGENT_THREADS_UNSEEN, "some threads were not seen"},
        {BN_AGENT_TIMER_REFUSED, "timer_create was refused for some threads"},
        {BN_AGENT_SIGNAL_BLOCKED, "some threads block the sampler's signal"},
    };
    size_t n = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++) {
        if ((notes & TEXTS[i].bit) == 0) continue;
        int put =
            snprintf(delivery->note + n, sizeof delivery->note - n, "%s%s", n > 0 ? "; " : "", TEXTS[i].text);
        if (put < 0 || (size_t)put >= sizeof delivery->note - n) return;
        n += (size_t)put;
    }
}

static bn_status stop_timers(void *state, bn_recording *out, bn_error *err)
{
    struct timers *t = state;
    if (t->is_self && t->is_running) bn_agent_end();
    t->is_running = false;
    close_fd(&t->log_fd); /* what still runs finds it gone, and stops */
    uint64_t used = cpu_used(t->is_self) - t->cpu_before_ns, agent = atomic_load(&t->log->agent_ns);
    if (atomic_load(&t->log->processes) == 0)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, BN_NO_OFFSET, t->name, "did not join the recording");
    out->delivery.lost += atomic_load(&t->log->dropped);
    out->delivery.cpu_known = used > agent;
    out->delivery.cpu_ns = used > agent ? used - agent : 0;
    put_note(&out->delivery, atomic_load(&t->log->notes));
    return bn_agent_log_read(out, t->log, t->log_bytes, err);
}

const struct bn_record_ops bn_record_timers = {open_self, open_program, stop_timers, close_timers};
