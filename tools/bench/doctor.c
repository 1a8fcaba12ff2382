/* SPDX-License-Identifier: MIT
 *
 * bn-bench doctor: what this machine can measure, and what disturbs measurements. Each source is tried; nothing is
 * inferred from a version number or a setting. Samplers and counters are those of bn-flamegraph doctor.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernels/kernels.h"
#include "lab/host/busy.h"
#include "lab/host/clocks.h"
#include "lab/host/energy.h"
#include "lab/host/git.h"
#include "lab/host/noise.h"
#include "tools/bench/bench.h"
#include "tools/cli/doctor.h"

#define CPU0 "/sys/devices/system/cpu/cpu0/"
#define PAGES "/sys/kernel/mm/transparent_hugepage/enabled"

const struct bn_option bn_bench_doctor_options[] = {BN_OPTION_REQUIRE, {0}};

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

static void put_clock(struct bn_doctor *d, const char *name, bn_clock_fn clock, void *arg, double ns_per_unit)
{
    struct bn_clock_facts f;
    bn_clock_measure(&f, clock, arg, ns_per_unit);
    bool good = f.resolution_ns > 0 && f.n_backward == 0;
    bn_doctor_put(d, good ? BN_DOCTOR_OK : BN_DOCTOR_NOTE, name, NULL,
                  "steps of %.3g ns, %.3g ns per reading, %llu of %llu readings stepped back",
                  f.resolution_ns, f.cost_ns, (unsigned long long)f.n_backward,
                  (unsigned long long)f.n_readings);
}

static void check_clocks(struct bn_doctor *d)
{
    clockid_t wall = CLOCK_MONOTONIC, cpu = CLOCK_THREAD_CPUTIME_ID;
    struct bn_tick_clock ticks;
    put_clock(d, "clock-monotonic", read_posix, &wall, 1);
    put_clock(d, "clock-thread-cpu", read_posix, &cpu, 1);
    bn_tick_clock_open(&ticks);
    if (ticks.counter)
        put_clock(d, "clock-tick", read_ticks, &ticks, ticks.ns_per_tick);
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "clock-tick", "none is needed: the monotonic clock is used instead",
                      "the processor has no fine counter of constant rate");
}

/* ---- what disturbs ---- */

static void check_noise(struct bn_doctor *d)
{
    struct bn_noise n;
    bn_noise_read(&n);
    if (n.steal_known)
        bn_doctor_put(d, BN_DOCTOR_OK, "steal", NULL,
                      "%.2f s taken by the hypervisor since boot, over all CPUs", (double)n.steal_ns * 1e-9);
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "steal", NULL, "/proc/stat has no such field");
    if (n.pressure_known)
        bn_doctor_put(d, BN_DOCTOR_OK, "pressure", NULL,
                      "tasks waited %.1f s for CPUs, %.1f s for memory, %.1f s for I/O since boot",
                      (double)n.cpu_us * 1e-6, (double)n.memory_us * 1e-6, (double)n.io_us * 1e-6);
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "pressure", "a kernel with CONFIG_PSI, started with psi=1",
                      "/proc/pressure cannot be read");
}

/* This process sleeps for 0.2 s, so all CPU time in it was used by others. */
static void check_others(struct bn_doctor *d)
{
    struct bn_busy then, now;
    char text[128];
    bn_busy_read(&then);
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    bn_busy_read(&now);
    const struct bn_others others = bn_busy_others(&then, &now);
    bn_others_describe(text, sizeof text, &others);
    bn_doctor_put(d, others.known && !bn_others_disturb(&others) ? BN_DOCTOR_OK : BN_DOCTOR_NOTE, "others",
                  others.known ? "end other programs while you measure" : "mount /proc", "%s", text);
}

/* ---- the machine ---- */

static void check_frequency(struct bn_doctor *d, const struct bn_machine *m)
{
    const char *none = m->hypervisor ? "ask the host" : "a kernel with a cpufreq driver";
    bool fixed = strcmp(m->governor, "performance") == 0;
    char line[256];
    if (m->governor[0] == '\0')
        bn_doctor_put(d, BN_DOCTOR_NOTE, "governor", none, "no cpufreq folder for the first CPU");
    else
        bn_doctor_put(d, fixed ? BN_DOCTOR_OK : BN_DOCTOR_NOTE, "governor",
                      "cpupower frequency-set -g performance", "%s%s", m->governor,
                      fixed ? "" : ": frequencies change while measuring");
    if (bn_machine_line(CPU0 "cpufreq/scaling_cur_freq", line, sizeof line))
        bn_doctor_put(d, BN_DOCTOR_OK, "frequency", NULL, "%s kHz", line);
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "frequency", none, "no cpufreq folder for the first CPU");
}

static void check_energy(struct bn_doctor *d, const struct bn_machine *m)
{
    struct bn_energy energy;
    bn_energy_read(&energy, BN_ENERGY_ROOT);
    if (energy.n > 0)
        bn_doctor_put(d, BN_DOCTOR_OK, "energy", NULL, "counters of %zu packages", energy.n);
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "energy",
                      m->hypervisor ? "measure on the host: guests are not given the counters"
                                    : "the intel_rapl drivers, and read permission on energy_uj",
                      "%s", energy.why);
}

static void check_memory(struct bn_doctor *d)
{
    char line[256];
    if (!bn_machine_line(PAGES, line, sizeof line))
        bn_doctor_put(d, BN_DOCTOR_NOTE, "huge-pages", "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
                      "no transparent_hugepage folder");
    else
        bn_doctor_put(d, strstr(line, "[never]") == NULL ? BN_DOCTOR_OK : BN_DOCTOR_NOTE, "huge-pages",
                      "echo madvise >" PAGES, "%s", line);
    if (bn_machine_reset_peak_rss())
        bn_doctor_put(d, BN_DOCTOR_OK, "peak-reset", NULL, "the peak memory of one measurement can be read");
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "peak-reset", "a kernel with CONFIG_PROC_PAGE_MONITOR",
                      "/proc/self/clear_refs: %s", strerror(errno));
}

static void check_cpus(struct bn_doctor *d, const struct bn_machine *m)
{
    if (!m->quota_known)
        bn_doctor_put(d, BN_DOCTOR_NOTE, "cpu-quota", "mount /sys/fs/cgroup",
                      "control groups cannot be read");
    else if (m->quota_us == 0)
        bn_doctor_put(d, BN_DOCTOR_OK, "cpu-quota", NULL, "no quota");
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "cpu-quota", "a control group without cpu.max",
                      "%llu us of every %llu us; work beyond it is paused", (unsigned long long)m->quota_us,
                      (unsigned long long)m->period_us);
    bn_doctor_put(d, m->cores > 0 ? BN_DOCTOR_OK : BN_DOCTOR_NOTE, "topology", "mount /sys",
                  "%u cores, %u hardware threads, %u usable%s", m->cores, m->cpus_online, m->cpus_usable,
                  m->hypervisor ? "; as reported by the hypervisor" : "");
}

/* It decides the speed of prompts: the processor may have it and the operating system refuse it. */
static void check_amx(struct bn_doctor *d, const struct bn_machine *m)
{
    const struct bn_kernels *kernels = bn_kernels_find("amx");
    const char *lacks =
        kernels != NULL ? bn_kernels_lacks(kernels) : "this build does not have the instruction set";
    bool has = false;
    for (size_t i = 0; i < m->n_flags; i++)
        has |= strcmp(m->flags[i], "amx_int8") == 0;
    if (lacks == NULL)
        bn_doctor_put(d, BN_DOCTOR_OK, "amx", NULL, "tile registers can be used");
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "amx",
                      has ? "Linux 5.16 or later; a sandbox must permit arch_prctl" : NULL, "%s amx", lacks);
}

/* ---- programs and devices ---- */

static void check_program(struct bn_doctor *d, const char *name, const char *hint)
{
    char file[512];
    for (const char *path = getenv("PATH"); path != NULL && *path != '\0';) {
        size_t n = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)n, path, name);
        if (n > 0 && access(file, X_OK) == 0) {
            bn_doctor_put(d, BN_DOCTOR_OK, name, NULL, "%s", file);
            return;
        }
        path += path[n] == ':' ? n + 1 : n;
    }
    bn_doctor_put(d, BN_DOCTOR_NOTE, name, hint, "no %s in PATH", name);
}

static void check_git(struct bn_doctor *d)
{
    struct bn_git git;
    bn_git_read(&git, ".");
    if (git.known)
        bn_doctor_put(d, BN_DOCTOR_OK, "git", NULL, "commit %.12s, %llu files changed", git.commit,
                      (unsigned long long)git.n_changed);
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "git", "run it inside the repository of the program", "%s", git.why);
}

static void check_gpu(struct bn_doctor *d)
{
    static const char *const NODES[] = {"/dev/nvidia0", "/dev/kfd", "/dev/dri/renderD128"};
    const char *found = NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(NODES) && found == NULL; i++)
        if (access(NODES[i], F_OK) == 0) found = NODES[i];
    bn_doctor_put(d, BN_DOCTOR_NOTE, "gpu", NULL, "%s: no kernel of this program runs on a GPU",
                  found != NULL ? found : "no device");
}

bn_status bn_bench_doctor(struct bn_args *args, bn_error *err)
{
    struct bn_doctor d;
    struct bn_machine machine;
    bn_machine_read(&machine);
    bn_doctor_begin(&d, args, "machine");
    check_clocks(&d);
    check_noise(&d);
    check_others(&d);
    check_frequency(&d, &machine);
    check_energy(&d, &machine);
    check_memory(&d);
    check_cpus(&d, &machine);
    check_amx(&d, &machine);
    check_program(&d, "valgrind", "apt install valgrind");
    check_program(&d, "perf", "apt install linux-perf");
    check_git(&d);
    check_gpu(&d);
    return bn_doctor_end(&d, BN_OK, err);
}
