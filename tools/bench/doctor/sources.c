/* SPDX-License-Identifier: MIT
 *
 * See sources.h. Events and timers are in sources_perf.c.
 */
#define _GNU_SOURCE
#include "tools/bench/doctor/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/host/busy.h"
#include "lab/host/clocks.h"
#include "lab/host/energy.h"
#include "lab/host/git.h"
#include "lab/host/noise.h"
#include "tools/bench/doctor/sources_try.h"

/* ---- answers ---- */

void bn_source_found(struct bn_source *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->detail, sizeof s->detail, fmt, ap);
    va_end(ap);
    s->available = true;
}

void bn_source_lacks(struct bn_source *s, const char *remedy, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->detail, sizeof s->detail, fmt, ap);
    va_end(ap);
    snprintf(s->remedy, sizeof s->remedy, "%s", remedy);
    s->available = false;
}

bool bn_source_line(const char *path, char out[256])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool ok = fgets(out, 256, file) != NULL;
    fclose(file);
    if (ok) out[strcspn(out, "\n")] = '\0';
    return ok;
}

/* The first line of a file is the answer. */
static void try_line(struct bn_source *s, const char *path, const char *remedy)
{
    char line[256];
    if (bn_source_line(path, line))
        bn_source_found(s, "%s", line);
    else
        bn_source_lacks(s, remedy, "%s: %s", path, strerror(errno));
}

/* ---- clocks ---- */

struct posix_clock {
    clockid_t id;
};

static uint64_t read_posix(void *arg)
{
    struct timespec t = {0};
    clock_gettime(((struct posix_clock *)arg)->id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t read_ticks(void *arg)
{
    return bn_ticks(arg);
}

static void tell_clock(struct bn_source *s, const struct bn_clock_facts *f, const char *more)
{
    if (!(f->resolution_ns > 0) || f->n_backward > 0)
        bn_source_lacks(s, "", "%llu of %llu readings went back, smallest step %.3g ns",
                        (unsigned long long)f->n_backward, (unsigned long long)f->n_readings,
                        f->resolution_ns);
    else
        bn_source_found(s, "steps of %.3g ns, a reading costs %.3g ns, none of %llu went back%s",
                        f->resolution_ns, f->cost_ns, (unsigned long long)f->n_readings, more);
}

static void try_monotonic(struct bn_source *s, const struct bn_machine *m)
{
    struct bn_clock_facts facts;
    (void)m;
    bn_clock_measure_default(&facts);
    tell_clock(s, &facts, "");
}

static void try_tick(struct bn_source *s, const struct bn_machine *m)
{
    struct bn_tick_clock clock;
    struct bn_clock_facts facts;
    char more[64];
    (void)m;
    bn_tick_clock_open(&clock);
    if (!clock.counter) {
        bn_source_lacks(s, "the monotonic clock takes its place",
                        "the processor has no counter of constant rate that is fine enough");
        return;
    }
    bn_clock_measure(&facts, read_ticks, &clock, clock.ns_per_tick);
    snprintf(more, sizeof more, "; %.1f MHz", 1e3 / clock.ns_per_tick);
    tell_clock(s, &facts, more);
}

static void try_thread_cpu(struct bn_source *s, const struct bn_machine *m)
{
    struct posix_clock clock = {CLOCK_THREAD_CPUTIME_ID};
    struct bn_clock_facts facts;
    (void)m;
    bn_clock_measure(&facts, read_posix, &clock, 1.0);
    tell_clock(s, &facts, "");
}

static void try_clocksource(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_line(s, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "");
}

/* ---- what disturbs ---- */

static void try_steal(struct bn_source *s, const struct bn_machine *m)
{
    struct bn_noise noise;
    (void)m;
    bn_noise_read(&noise);
    if (noise.steal_known)
        bn_source_found(s, "%.2f s since boot, over all CPUs", (double)noise.steal_ns * 1e-9);
    else
        bn_source_lacks(s, "", "/proc/stat does not say");
}

static void try_pressure(struct bn_source *s, const struct bn_machine *m)
{
    struct bn_noise noise;
    (void)m;
    bn_noise_read(&noise);
    if (noise.pressure_known)
        bn_source_found(
            s, "waited since boot: %.1f s for CPUs, %.1f s for memory, %.1f s for input and output",
            (double)noise.cpu_us * 1e-6, (double)noise.memory_us * 1e-6, (double)noise.io_us * 1e-6);
    else
        bn_source_lacks(s, "a kernel with CONFIG_PSI, started with psi=1", "/proc/pressure cannot be read");
}

/* This process sleeps for 0.2 s: whoever used the CPUs meanwhile was another one. */
static void try_others(struct bn_source *s, const struct bn_machine *m)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    struct bn_busy then, now;
    (void)m;
    bn_busy_read(&then);
    (void)nanosleep(&pause, NULL);
    bn_busy_read(&now);
    const struct bn_others others = bn_busy_others(&then, &now);
    if (others.known)
        bn_source_found(s, "%.1f of %u CPU%s during 0.2 s", others.used + others.stolen, others.n_cpus,
                        others.n_cpus == 1 ? "" : "s");
    else
        bn_source_lacks(s, "mount /proc", "%s", others.why);
}

/* ---- the machine ---- */

static void try_governor(struct bn_source *s, const struct bn_machine *m)
{
    if (m->governor[0] != '\0')
        bn_source_found(s, "%s%s", m->governor,
                        strcmp(m->governor, "performance") == 0 ? ""
                                                                : "; frequencies change while measuring");
    else
        bn_source_lacks(s, m->hypervisor ? "ask the host" : "a kernel with a cpufreq driver",
                        "no cpufreq folder for the first CPU");
}

static void try_frequency(struct bn_source *s, const struct bn_machine *m)
{
    try_line(s, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
             m->hypervisor ? "ask the host; the roof of floats shows what the clock allows"
                           : "a kernel with a cpufreq driver");
}

static void try_energy(struct bn_source *s, const struct bn_machine *m)
{
    struct bn_energy energy;
    bn_energy_read(&energy, BN_ENERGY_ROOT);
    if (energy.n > 0)
        bn_source_found(s, "%zu packages", energy.n);
    else
        bn_source_lacks(s,
                        m->hypervisor ? "measure on the host: guests are not given the counters"
                                      : "the intel_rapl drivers, and read permission on energy_uj",
                        "%s", energy.why);
}

static void try_huge_pages(struct bn_source *s, const struct bn_machine *m)
{
    char line[256];
    (void)m;
    if (!bn_source_line("/sys/kernel/mm/transparent_hugepage/enabled", line))
        bn_source_lacks(s, "a kernel with CONFIG_TRANSPARENT_HUGEPAGE", "no transparent_hugepage folder");
    else if (strstr(line, "[never]") != NULL)
        bn_source_lacks(s, "write madvise to /sys/kernel/mm/transparent_hugepage/enabled", "%s", line);
    else
        bn_source_found(s, "%s", line);
}

static void try_quota(struct bn_source *s, const struct bn_machine *m)
{
    if (!m->quota_known)
        bn_source_lacks(s, "mount /sys/fs/cgroup", "control groups cannot be read");
    else if (m->quota_us == 0)
        bn_source_found(s, "no quota");
    else
        bn_source_found(s, "%llu us of every %llu us; work beyond it is stopped, and looks like noise",
                        (unsigned long long)m->quota_us, (unsigned long long)m->period_us);
}

/* Which hardware threads share a core, each set once. */
static void try_topology(struct bn_source *s, const struct bn_machine *m)
{
    char path[128], line[256], sets[120] = "";
    bool shared = false;
    size_t n = 0, len = 0;
    for (unsigned cpu = 0; cpu < 4096; cpu++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        if (!bn_source_line(path, line)) {
            if (cpu >= m->cpus_online) break;
            continue; /* offline */
        }
        if (strtoul(line, NULL, 10) != cpu) continue; /* told at the set's first */
        n++;
        shared = shared || strpbrk(line, ",-") != NULL;
        if (len + strlen(line) + 3 < sizeof sets)
            len += (size_t)snprintf(sets + len, sizeof sets - len, "%s%s", len > 0 ? " " : "", line);
    }
    if (n == 0)
        bn_source_lacks(s, "mount /sys", "no CPU has a topology folder");
    else
        bn_source_found(s, "%zu cores, %s (%s)%s", n,
                        shared ? "hardware threads share them" : "one hardware thread each", sets,
                        m->hypervisor ? "; as the hypervisor tells it" : "");
}

/* ---- programs and devices ---- */

static void try_program(struct bn_source *s, const char *name, const char *remedy)
{
    const char *path = getenv("PATH");
    char file[512];
    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)n, path, name);
        if (n > 0 && access(file, X_OK) == 0) {
            bn_source_found(s, "%s", file);
            return;
        }
        path += path[n] == ':' ? n + 1 : n;
    }
    bn_source_lacks(s, remedy, "no %s in PATH", name);
}

static void try_valgrind(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_program(s, "valgrind", "apt install valgrind");
}

static void try_perf(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_program(s, "perf", "apt install linux-perf");
}

static void try_git(struct bn_source *s, const struct bn_machine *m)
{
    struct bn_git git;
    (void)m;
    bn_git_read(&git, ".");
    if (git.known)
        bn_source_found(s, "commit %.12s, %llu files changed", git.commit, (unsigned long long)git.n_changed);
    else
        bn_source_lacks(s, "run it inside the repository that the result belongs to", "%s", git.why);
}

static void try_gpu(struct bn_source *s, const struct bn_machine *m)
{
    static const char *const NODES[] = {"/dev/nvidia0", "/dev/kfd", "/dev/dri/renderD128"};
    (void)m;
    for (size_t i = 0; i < BN_ARRAY_LEN(NODES); i++)
        if (access(NODES[i], F_OK) == 0) {
            bn_source_lacks(s, "", "%s is there, but no kernel of this program runs on it", NODES[i]);
            return;
        }
    bn_source_lacks(s, "", "no device");
}

/* Whether the high-water mark of resident memory can be set back. */
static void try_peak_reset(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    if (bn_machine_reset_peak_rss())
        bn_source_found(s, "VmHWM can be set back");
    else
        bn_source_lacks(s, "a kernel with CONFIG_PROC_PAGE_MONITOR", "/proc/self/clear_refs: %s",
                        strerror(errno));
}

/* ---- the list ---- */

static const struct {
    const char *name, *what;
    void (*attempt)(struct bn_source *s, const struct bn_machine *m);
} SOURCES[] = {
    {"clock-monotonic", "time of samples", try_monotonic},
    {"clock-tick", "time of kernels", try_tick},
    {"clock-thread-cpu", "CPU time of a thread", try_thread_cpu},
    {"clocksource", "what the kernel's clock reads", try_clocksource},
    {"steal", "time taken by the hypervisor", try_steal},
    {"pressure", "time that tasks waited", try_pressure},
    {"others", "CPU use of other processes", try_others},
    {"perf-software", "events of the kernel, own code", bn_try_perf_software},
    {"perf-sampling", "stacks at intervals, own code", bn_try_perf_sampling},
    {"perf-kernel", "events inside the kernel too", bn_try_perf_kernel},
    {"perf-all-cpus", "all processes of a CPU", bn_try_perf_all_cpus},
    {"perf-cycles", "cycles", bn_try_perf_cycles},
    {"perf-instructions", "instructions", bn_try_perf_instructions},
    {"perf-cache-misses", "misses of the last cache", bn_try_perf_cache_misses},
    {"timer-cpu", "signals by CPU time", bn_try_timer_cpu},
    {"timer-wall", "signals by wall time", bn_try_timer_wall},
    {"energy", "joules of the processor", try_energy},
    {"governor", "policy of frequencies", try_governor},
    {"frequency", "frequency now, kHz", try_frequency},
    {"huge-pages", "pages of 2 MiB", try_huge_pages},
    {"cpu-quota", "limit of the control group", try_quota},
    {"topology", "which hardware threads share a core", try_topology},
    {"peak-reset", "peak memory of one measurement", try_peak_reset},
    {"valgrind", "counting instructions", try_valgrind},
    {"perf", "sampling by another program", try_perf},
    {"git", "commit that results belong to", try_git},
    {"gpu", "kernels on a graphics processor", try_gpu},
};

const char *bn_source_name(size_t i)
{
    return i < BN_ARRAY_LEN(SOURCES) ? SOURCES[i].name : NULL;
}

void bn_source_try(struct bn_source *out, size_t i, const struct bn_machine *machine)
{
    *out = (struct bn_source){.name = SOURCES[i].name, .what = SOURCES[i].what};
    SOURCES[i].attempt(out, machine);
}
