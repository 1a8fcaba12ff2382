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
#include "lab/host/git.h"
#include "lab/host/meters.h"
#include "tools/bench/bench.h"
#include "tools/cli/program/doctor.h"

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
    bn_doctor_put(d, BN_DOCTOR_IF(f.resolution_ns > 0 && f.n_backward == 0), name, NULL,
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
    struct bn_busy then, now;
    char text[128];
    bn_noise_read(&n);
    bn_doctor_put(d, BN_DOCTOR_IF(n.steal_known), "steal", "a kernel whose /proc/stat has the field",
                  n.steal_known ? "%.2f s taken by the hypervisor since boot, over all CPUs" : "not known",
                  (double)n.steal_ns * 1e-9);
    bn_doctor_put(
        d, BN_DOCTOR_IF(n.pressure_known), "pressure", "a kernel with CONFIG_PSI, started with psi=1",
        n.pressure_known ? "tasks waited %.1f s for CPUs, %.1f s for memory, %.1f s for I/O since boot"
                         : "/proc/pressure cannot be read",
        (double)n.cpu_us * 1e-6, (double)n.memory_us * 1e-6, (double)n.io_us * 1e-6);
    /* This process sleeps for 0.2 s, so all CPU time in it was used by others. */
    bn_busy_read(&then);
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    bn_busy_read(&now);
    const struct bn_others others = bn_busy_others(&then, &now);
    bn_others_describe(text, sizeof text, &others);
    bn_doctor_put(d, BN_DOCTOR_IF(others.known && !bn_others_disturb(&others)), "others",
                  others.known ? "end other programs while you measure" : "mount /proc", "%s", text);
}

/* ---- the machine ---- */

#define CPUS "/sys/devices/system/cpu/"
#define PAGES "/sys/kernel/mm/transparent_hugepage/enabled"

/* Settings of the system: a file, the values that disturb nothing, the command that sets one. */
static const struct setting {
    const char *check, *file, *good, *command;
} SETTINGS[] = {
    {"governor", CPUS "cpu0/cpufreq/scaling_governor", "|performance|",
     "sudo cpupower frequency-set -g performance"},
    {"turbo", CPUS "intel_pstate/no_turbo", "|1|", "echo 1 | sudo tee " CPUS "intel_pstate/no_turbo"},
    {"boost", CPUS "cpufreq/boost", "|0|", "echo 0 | sudo tee " CPUS "cpufreq/boost"},
    {"perf-events", "/proc/sys/kernel/perf_event_paranoid", "|-1|0|1|",
     "sudo sysctl kernel.perf_event_paranoid=1"},
    {"huge-pages", PAGES, "|[always] madvise never|always [madvise] never|",
     "echo madvise | sudo tee " PAGES},
};

static void check_settings(struct bn_doctor *d, const struct bn_machine *m)
{
    char line[64], value[64 + 3], command[64];
    for (const struct setting *s = SETTINGS; s < SETTINGS + BN_ARRAY_LEN(SETTINGS); s++) {
        bool known = bn_machine_line(s->file, line, sizeof line);
        snprintf(value, sizeof value, "|%s|", known ? line : "");
        bn_doctor_put(d, BN_DOCTOR_IF(known && strstr(s->good, value) != NULL), s->check,
                      known           ? s->command
                      : m->hypervisor ? "ask the host"
                                      : NULL,
                      known ? "%s is %s" : "there is no %s", known ? strrchr(s->file, '/') + 1 : s->file,
                      line);
    }
    snprintf(command, sizeof command, "taskset -c 0-%u bn-bench run", m->cpus_online - (m->cpus_online > 0));
    bn_doctor_put(d, BN_DOCTOR_IF(m->cpus_usable == m->cpus_online), "affinity", command,
                  "%u of %u CPUs may be used", m->cpus_usable, m->cpus_online);
}

static void check_machine(struct bn_doctor *d, const struct bn_machine *m)
{
    struct bn_energy energy;
    bn_energy_read(&energy);
    bn_doctor_put(d, BN_DOCTOR_IF(energy.n > 0), "energy",
                  m->hypervisor ? "measure on the host: guests are not given the counters"
                                : "the intel_rapl drivers, and read permission on energy_uj",
                  "counters of %zu packages%s%s", energy.n, energy.n > 0 ? "" : ": ", energy.why);
    bn_doctor_put(d, BN_DOCTOR_IF(m->quota_known && m->quota_us == 0), "cpu-quota",
                  m->quota_known ? "a control group without cpu.max" : "mount /sys/fs/cgroup",
                  m->quota_us > 0  ? "%llu us of every %llu us; work beyond it is paused"
                  : m->quota_known ? "none"
                                   : "control groups cannot be read",
                  (unsigned long long)m->quota_us, (unsigned long long)m->period_us);
    bn_doctor_put(d, BN_DOCTOR_IF(m->cores > 0), "topology", "mount /sys",
                  m->cores > 0 ? "%u cores, %u hardware threads, %u usable%s" : "not known", m->cores,
                  m->cpus_online, m->cpus_usable, m->hypervisor ? "; as reported by the hypervisor" : "");
}

static void check_memory(struct bn_doctor *d)
{
    bool reset = bn_machine_reset_peak_rss();
    bn_doctor_put(d, BN_DOCTOR_IF(reset), "peak-reset", "a kernel with CONFIG_PROC_PAGE_MONITOR",
                  reset ? "the peak memory of one measurement can be read" : "/proc/self/clear_refs: %s",
                  strerror(errno));
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
    bn_doctor_put(d, BN_DOCTOR_IF(lacks == NULL), "amx",
                  has ? "Linux 5.16 or later; a sandbox must permit arch_prctl" : NULL, "%s amx",
                  lacks != NULL ? lacks : "tile registers can be used:");
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
    bn_doctor_put(d, BN_DOCTOR_IF(git.known), "git", "run it inside the repository of the program",
                  git.known ? "commit %.12s, %llu files changed" : "%s", git.known ? git.commit : git.why,
                  (unsigned long long)git.n_changed);
}

/* Devices of OpenCL, and whether one of them is a GPU that gives the bits of the CPU. */
static void check_devices(struct bn_doctor *d)
{
    bn_device_info devices[16];
    bn_error why = {0};
    size_t n = 0;
    bool gpu = false;
    bool known = bn_devices(devices, BN_ARRAY_LEN(devices), &n, &why) == BN_OK;
    bn_doctor_put(d, BN_DOCTOR_IF(known), "opencl", why.hint, known ? "%s%zu found" : "%s", why.msg, n);
    for (size_t i = 0; i < n && i < BN_ARRAY_LEN(devices); i++) {
        const bn_device_info *device = &devices[i];
        bool good = device->lacks[0] == '\0';
        char memory[BN_UNITS_ROOM];
        bn_units_text(memory, (double)device->memory, "bytes");
        gpu |= good && strcmp(device->type, "GPU") == 0;
        bn_doctor_put(d, BN_DOCTOR_IF(good), device->id, "a newer driver", "%s, %s, %s%s%s", device->type,
                      device->name, memory, good ? "" : ", lacks ", device->lacks);
    }
    bn_doctor_put(d, BN_DOCTOR_IF(gpu), "gpu", NULL,
                  gpu ? "--device auto uses it" : "no GPU can be used: --device auto takes the CPU");
}

bn_status bn_bench_doctor(struct bn_args *args, bn_error *err)
{
    struct bn_doctor d;
    struct bn_machine machine;
    bn_machine_read(&machine);
    bn_doctor_begin(&d, args, "machine");
    check_clocks(&d);
    check_noise(&d);
    check_settings(&d, &machine);
    check_machine(&d, &machine);
    check_memory(&d);
    check_amx(&d, &machine);
    check_program(&d, "valgrind", "apt install valgrind");
    check_program(&d, "perf", "apt install linux-perf");
    check_git(&d);
    check_devices(&d);
    return bn_doctor_end(&d, BN_OK, err);
}
