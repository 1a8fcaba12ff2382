/* SPDX-License-Identifier: MIT
 *
 * The sources of measurement of bn-bench doctor. Samplers and perf events are tried by lab/sampler/sources.h.
 */
#define _GNU_SOURCE
#include "tools/bench/doctor/sources.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/kernels.h"
#include "lab/host/busy.h"
#include "lab/host/clocks.h"
#include "lab/host/energy.h"
#include "lab/host/git.h"
#include "lab/host/noise.h"
#include "lab/sampler/sources.h"

/* ---- answers ---- */

static void found(struct bn_source *s, const char *fmt, ...) BN_PRINTF(2, 3);
static void found(struct bn_source *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->detail, sizeof s->detail, fmt, ap);
    va_end(ap);
    s->available = true;
}

/* remedy is "" when none is known. */
static void missing(struct bn_source *s, const char *remedy, const char *fmt, ...) BN_PRINTF(3, 4);
static void missing(struct bn_source *s, const char *remedy, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->detail, sizeof s->detail, fmt, ap);
    va_end(ap);
    snprintf(s->remedy, sizeof s->remedy, "%s", remedy);
    s->available = false;
}

/* ---- clocks ---- */

static uint64_t read_posix(void *id)
{
    struct timespec t = {0};
    clock_gettime(*(clockid_t *)id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t read_ticks(void *arg)
{
    return bn_ticks(arg);
}

static void report_clock(struct bn_source *s, const struct bn_clock_facts *f, const char *more)
{
    if (!(f->resolution_ns > 0) || f->n_backward > 0)
        missing(s, "", "%llu of %llu readings stepped back, smallest step %.3g ns",
                (unsigned long long)f->n_backward, (unsigned long long)f->n_readings, f->resolution_ns);
    else
        found(s, "steps of %.3g ns, %.3g ns per reading%s", f->resolution_ns, f->cost_ns, more);
}

static void try_clock(struct bn_source *s, const struct bn_machine *m, int which)
{
    clockid_t id = which;
    struct bn_clock_facts facts;
    (void)m;
    bn_clock_measure(&facts, read_posix, &id, 1.0);
    report_clock(s, &facts, "");
}

static void try_tick(struct bn_source *s, const struct bn_machine *m, int which)
{
    struct bn_tick_clock clock;
    struct bn_clock_facts facts;
    char more[64];
    (void)m, (void)which;
    bn_tick_clock_open(&clock);
    if (!clock.counter) {
        missing(s, "none is needed: the monotonic clock is used instead",
                "the processor has no fine counter of constant rate");
        return;
    }
    bn_clock_measure(&facts, read_ticks, &clock, clock.ns_per_tick);
    snprintf(more, sizeof more, "; %.1f MHz", 1e3 / clock.ns_per_tick);
    report_clock(s, &facts, more);
}

static void try_clocksource(struct bn_source *s, const struct bn_machine *m, int which)
{
    char line[256];
    (void)m, (void)which;
    if (bn_machine_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", line,
                        sizeof line))
        found(s, "%s", line);
    else
        missing(s, "mount /sys", "no clocksource folder");
}

/* ---- what disturbs ---- */

static void try_steal(struct bn_source *s, const struct bn_machine *m, int which)
{
    struct bn_noise noise;
    (void)m, (void)which;
    bn_noise_read(&noise);
    if (noise.steal_known)
        found(s, "%.2f s since boot, over all CPUs", (double)noise.steal_ns * 1e-9);
    else
        missing(s, "", "/proc/stat has no such field");
}

static void try_pressure(struct bn_source *s, const struct bn_machine *m, int which)
{
    struct bn_noise noise;
    (void)m, (void)which;
    bn_noise_read(&noise);
    if (noise.pressure_known)
        found(s, "since boot %.1f s for CPUs, %.1f s for memory, %.1f s for I/O", (double)noise.cpu_us * 1e-6,
              (double)noise.memory_us * 1e-6, (double)noise.io_us * 1e-6);
    else
        missing(s, "a kernel with CONFIG_PSI, started with psi=1", "/proc/pressure cannot be read");
}

/* This process sleeps for 0.2 s, so all CPU time in it was used by others. */
static void try_others(struct bn_source *s, const struct bn_machine *m, int which)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    struct bn_busy then, now;
    (void)m, (void)which;
    bn_busy_read(&then);
    (void)nanosleep(&pause, NULL);
    bn_busy_read(&now);
    const struct bn_others others = bn_busy_others(&then, &now);
    if (others.known)
        found(s, "%.1f of %u CPU%s during 0.2 s", others.used + others.stolen, others.n_cpus,
              others.n_cpus == 1 ? "" : "s");
    else
        missing(s, "mount /proc", "%s", others.why);
}

/* ---- the machine ---- */

static void try_governor(struct bn_source *s, const struct bn_machine *m, int which)
{
    (void)which;
    if (m->governor[0] != '\0')
        found(s, "%s%s", m->governor,
              strcmp(m->governor, "performance") == 0 ? "" : "; frequencies change while measuring");
    else
        missing(s, m->hypervisor ? "ask the host" : "a kernel with a cpufreq driver",
                "no cpufreq folder for the first CPU");
}

static void try_frequency(struct bn_source *s, const struct bn_machine *m, int which)
{
    char line[256];
    (void)which;
    if (bn_machine_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", line, sizeof line))
        found(s, "%s", line);
    else
        missing(s, m->hypervisor ? "ask the host" : "a kernel with a cpufreq driver",
                "no cpufreq folder for the first CPU");
}

static void try_energy(struct bn_source *s, const struct bn_machine *m, int which)
{
    (void)which;
    struct bn_energy energy;
    bn_energy_read(&energy, BN_ENERGY_ROOT);
    if (energy.n > 0)
        found(s, "%zu packages", energy.n);
    else
        missing(s,
                m->hypervisor ? "measure on the host: guests are not given the counters"
                              : "the intel_rapl drivers, and read permission on energy_uj",
                "%s", energy.why);
}

static void try_huge_pages(struct bn_source *s, const struct bn_machine *m, int which)
{
    char line[256];
    (void)m, (void)which;
    if (!bn_machine_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line))
        missing(s, "a kernel with CONFIG_TRANSPARENT_HUGEPAGE", "no transparent_hugepage folder");
    else if (strstr(line, "[never]") != NULL)
        missing(s, "write madvise to /sys/kernel/mm/transparent_hugepage/enabled", "%s", line);
    else
        found(s, "%s", line);
}

static void try_quota(struct bn_source *s, const struct bn_machine *m, int which)
{
    (void)which;
    if (!m->quota_known)
        missing(s, "mount /sys/fs/cgroup", "control groups cannot be read");
    else if (m->quota_us == 0)
        found(s, "no quota");
    else
        found(s, "%llu us of every %llu us; work beyond it is paused", (unsigned long long)m->quota_us,
              (unsigned long long)m->period_us);
}

/* Which hardware threads share a core, each set once. */
static void try_topology(struct bn_source *s, const struct bn_machine *m, int which)
{
    (void)which;
    char path[128], line[256], sets[120] = "";
    bool shared = false;
    size_t n = 0, len = 0;
    for (unsigned cpu = 0; cpu < 4096; cpu++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        if (!bn_machine_line(path, line, sizeof line)) {
            if (cpu >= m->cpus_online) break;
            continue; /* offline */
        }
        if (strtoul(line, NULL, 10) != cpu) continue; /* each set is listed at its first CPU */
        n++;
        shared = shared || strpbrk(line, ",-") != NULL;
        if (len + strlen(line) + 3 < sizeof sets)
            len += (size_t)snprintf(sets + len, sizeof sets - len, "%s%s", len > 0 ? " " : "", line);
    }
    if (n == 0)
        missing(s, "mount /sys", "no CPU has a topology folder");
    else
        found(s, "%zu cores, %s (%s)%s", n,
              shared ? "hardware threads share them" : "one hardware thread each", sets,
              m->hypervisor ? "; as reported by the hypervisor" : "");
}

/* Not a source of measurement, but what decides the speed of prompts: the processor may have it and the operating
 * system refuse it. */
static void try_amx(struct bn_source *s, const struct bn_machine *m, int which)
{
    const struct bn_kernels *kernels = bn_kernels_find("amx");
    const char *lacks =
        kernels != NULL ? bn_kernels_lacks(kernels) : "this build does not have the instruction set";
    bool has = false;
    (void)which;
    for (size_t i = 0; i < m->n_flags; i++)
        has |= strcmp(m->flags[i], "amx_int8") == 0;
    if (lacks == NULL)
        found(s, "tile registers can be used");
    else
        missing(s, has ? "Linux 5.16 or later; a sandbox must permit arch_prctl" : "", "%s amx", lacks);
}

/* ---- events and samplers ---- */

static void report_trial(struct bn_source *s, const struct bn_record_trial *t, const char *unit)
{
    if (t->works)
        found(s, "%llu %s in %.0f ms of work", (unsigned long long)t->samples, unit, (double)t->cpu_ns / 1e6);
    else
        missing(s, t->hint, "%s", t->why);
}

static void try_event(struct bn_source *s, const struct bn_machine *m, int which)
{
    struct bn_record_trial trial;
    (void)m;
    bn_perf_event_try(&trial, (enum bn_perf_event)which);
    report_trial(s, &trial, bn_perf_event_unit((enum bn_perf_event)which));
}

static void try_sampler(struct bn_source *s, const struct bn_record_options *options)
{
    struct bn_record_trial trial;
    bn_error err = {0};
    if (bn_record_try(&trial, options, &err) == BN_OK)
        report_trial(s, &trial, "samples");
    else
        missing(s, err.hint, "%s", err.msg);
}

static void try_tier(struct bn_source *s, const struct bn_machine *m, int which)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    (void)m;
    options.tier = which;
    try_sampler(s, &options);
}

static void try_wall(struct bn_source *s, const struct bn_machine *m, int which)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    (void)m;
    options.kind = BN_RECORD_WALL;
    options.tier = which;
    try_sampler(s, &options);
}

/* ---- programs and devices ---- */

static void try_program(struct bn_source *s, const struct bn_machine *m, int which)
{
    static const char *const REMEDIES[] = {"apt install valgrind", "apt install linux-perf"};
    const char *path = getenv("PATH");
    char file[512];
    (void)m;
    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)n, path, s->name);
        if (n > 0 && access(file, X_OK) == 0) {
            found(s, "%s", file);
            return;
        }
        path += path[n] == ':' ? n + 1 : n;
    }
    missing(s, REMEDIES[which], "no %s in PATH", s->name);
}

static void try_git(struct bn_source *s, const struct bn_machine *m, int which)
{
    struct bn_git git;
    (void)m, (void)which;
    bn_git_read(&git, ".");
    if (git.known)
        found(s, "commit %.12s, %llu files changed", git.commit, (unsigned long long)git.n_changed);
    else
        missing(s, "run it inside the repository of the program", "%s", git.why);
}

static void try_gpu(struct bn_source *s, const struct bn_machine *m, int which)
{
    static const char *const NODES[] = {"/dev/nvidia0", "/dev/kfd", "/dev/dri/renderD128"};
    (void)m, (void)which;
    for (size_t i = 0; i < BN_ARRAY_LEN(NODES); i++)
        if (access(NODES[i], F_OK) == 0) {
            missing(s, "", "found %s, but no kernel of this program runs on a GPU", NODES[i]);
            return;
        }
    missing(s, "", "no device");
}

static void try_peak_reset(struct bn_source *s, const struct bn_machine *m, int which)
{
    (void)m, (void)which;
    if (bn_machine_reset_peak_rss())
        found(s, "VmHWM can be reset");
    else
        missing(s, "a kernel with CONFIG_PROC_PAGE_MONITOR", "/proc/self/clear_refs: %s", strerror(errno));
}

/* ---- the list ---- */

static const struct {
    const char *name, *what;
    void (*attempt)(struct bn_source *s, const struct bn_machine *m, int which);
    int which;
} SOURCES[] = {
    {"clock-monotonic", "time of samples", try_clock, CLOCK_MONOTONIC},
    {"clock-tick", "time of kernels", try_tick, 0},
    {"clock-thread-cpu", "CPU time of a thread", try_clock, CLOCK_THREAD_CPUTIME_ID},
    {"clocksource", "hardware clock of the kernel", try_clocksource, 0},
    {"steal", "time taken by the hypervisor", try_steal, 0},
    {"pressure", "time that tasks waited", try_pressure, 0},
    {"others", "CPU use of other processes", try_others, 0},
    {"perf-software", "events of the kernel, own code", try_event, BN_PERF_TASK_CLOCK},
    {"perf-sampling", "stacks at intervals, own code", try_tier, BN_RECORD_CLOCK},
    {"perf-kernel", "events inside the kernel too", try_event, BN_PERF_KERNEL},
    {"perf-all-cpus", "all processes of a CPU", try_event, BN_PERF_ALL_CPUS},
    {"perf-cycles", "cycles", try_event, BN_PERF_CYCLES},
    {"perf-instructions", "instructions", try_event, BN_PERF_INSTRUCTIONS},
    {"perf-cache-misses", "misses of the last cache", try_event, BN_PERF_CACHE_MISSES},
    {"timer-cpu", "stacks by CPU time", try_tier, BN_RECORD_TIMER},
    {"timer-wall", "stacks by wall time", try_wall, BN_RECORD_TIMER},
    {"energy", "joules of the processor", try_energy, 0},
    {"governor", "frequency policy", try_governor, 0},
    {"frequency", "current frequency, kHz", try_frequency, 0},
    {"huge-pages", "pages of 2 MiB", try_huge_pages, 0},
    {"cpu-quota", "limit of the control group", try_quota, 0},
    {"topology", "hardware threads that share a core", try_topology, 0},
    {"amx", "tile instructions for prompts", try_amx, 0},
    {"peak-reset", "peak memory of one measurement", try_peak_reset, 0},
    {"valgrind", "instruction counts", try_program, 0},
    {"perf", "sampling by another program", try_program, 1},
    {"git", "commit of the results", try_git, 0},
    {"gpu", "kernels on a GPU", try_gpu, 0},
};

const char *bn_source_name(size_t i)
{
    return i < BN_ARRAY_LEN(SOURCES) ? SOURCES[i].name : NULL;
}

void bn_source_try(struct bn_source *out, size_t i, const struct bn_machine *machine)
{
    *out = (struct bn_source){.name = SOURCES[i].name, .what = SOURCES[i].what};
    SOURCES[i].attempt(out, machine, SOURCES[i].which);
}
