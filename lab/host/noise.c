/* SPDX-License-Identifier: MIT
 *
 * Reads the counters of disturbances. Linux: /proc/stat and /proc/pressure ("Pressure Stall Information" in
 * the documentation of the kernel). They are read with plain system calls, since this happens around every
 * sample.
 */
#define _GNU_SOURCE
#include "lab/host/noise.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The beginning of a file, terminated; false when it cannot be read. */
static bool read_start(const char *path, char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, out, room - 1);
    close(fd);
    if (n <= 0) return false;
    out[n] = '\0';
    return true;
}

/* "cpu  user nice system idle iowait irq softirq steal ..." in clock ticks. */
static bool read_steal(uint64_t *ns)
{
    char text[512];
    unsigned long long ticks;
    long per_second = sysconf(_SC_CLK_TCK);
    if (per_second <= 0 || !read_start("/proc/stat", text, sizeof text)) return false;
    if (sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1) return false;
    *ns = ticks * (1000000000u / (uint64_t)per_second);
    return true;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123" in microseconds. */
static bool read_pressure(const char *path, uint64_t *us)
{
    char text[256];
    if (!read_start(path, text, sizeof text) || strncmp(text, "some ", 5) != 0) return false;
    const char *total = strstr(text, "total=");
    if (total == NULL) return false;
    *us = strtoull(total + 6, NULL, 10);
    return true;
}

static uint64_t time_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

void bn_noise_set_usage(struct bn_noise *noise, const struct rusage *usage)
{
    noise->user_ns = time_ns(usage->ru_utime);
    noise->system_ns = time_ns(usage->ru_stime);
    noise->voluntary_switches = (uint64_t)usage->ru_nvcsw;
    noise->involuntary_switches = (uint64_t)usage->ru_nivcsw;
    noise->minor_faults = (uint64_t)usage->ru_minflt;
    noise->major_faults = (uint64_t)usage->ru_majflt;
}

void bn_noise_read(struct bn_noise *out)
{
    struct rusage usage = {0};
    *out = (struct bn_noise){.cpu = sched_getcpu()};
    out->steal_known = read_steal(&out->steal_ns);
    out->pressure_known = read_pressure("/proc/pressure/cpu", &out->cpu_us) &&
                          read_pressure("/proc/pressure/memory", &out->memory_us) &&
                          read_pressure("/proc/pressure/io", &out->io_us);
    getrusage(RUSAGE_SELF, &usage);
    bn_noise_set_usage(out, &usage);
}

struct bn_noise bn_noise_since(const struct bn_noise *then, const struct bn_noise *now)
{
    struct bn_noise d = *now;
    d.steal_known = then->steal_known && now->steal_known;
    d.pressure_known = then->pressure_known && now->pressure_known;
    d.steal_ns -= then->steal_ns;
    d.cpu_us -= then->cpu_us;
    d.memory_us -= then->memory_us;
    d.io_us -= then->io_us;
    d.user_ns -= then->user_ns;
    d.system_ns -= then->system_ns;
    d.voluntary_switches -= then->voluntary_switches;
    d.involuntary_switches -= then->involuntary_switches;
    d.minor_faults -= then->minor_faults;
    d.major_faults -= then->major_faults;
    return d;
}

static void put_known(bn_json *object, const char *name, bool known, uint64_t value, const char *reason)
{
    if (known)
        bn_json_put_u64(object, name, value);
    else
        bn_json_put_unavailable(object, name, reason);
}

void bn_noise_put(bn_json *object, const struct bn_noise *noise)
{
    static const char NO_PRESSURE[] = "this system has no /proc/pressure";
    put_known(object, "cpu", noise->cpu >= 0, (uint64_t)(noise->cpu >= 0 ? noise->cpu : 0),
              "the system does not report it");
    put_known(object, "steal_ns", noise->steal_known, noise->steal_ns, "/proc/stat has no such field");
    put_known(object, "pressure_cpu_us", noise->pressure_known, noise->cpu_us, NO_PRESSURE);
    put_known(object, "pressure_memory_us", noise->pressure_known, noise->memory_us, NO_PRESSURE);
    put_known(object, "pressure_io_us", noise->pressure_known, noise->io_us, NO_PRESSURE);
    bn_json_put_u64(object, "user_ns", noise->user_ns);
    bn_json_put_u64(object, "system_ns", noise->system_ns);
    bn_json_put_u64(object, "voluntary_switches", noise->voluntary_switches);
    bn_json_put_u64(object, "involuntary_switches", noise->involuntary_switches);
    bn_json_put_u64(object, "minor_faults", noise->minor_faults);
    bn_json_put_u64(object, "major_faults", noise->major_faults);
}
