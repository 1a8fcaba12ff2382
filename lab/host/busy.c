/* SPDX-License-Identifier: MIT
 *
 * Measures the CPU use of other processes. Linux: proc(5), sched_getaffinity(2), getrusage(2).
 */
#define _GNU_SOURCE
#include "lab/host/busy.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* ---- the counters ---- */

/* "cpuN user nice system idle iowait irq softirq steal ..." in ticks. */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, N_FIELDS };

static bool parse_line(const char *line, size_t *cpu, uint64_t ticks[N_FIELDS])
{
    char *at;
    if (strncmp(line, "cpu", 3) != 0 || line[3] < '0' || line[3] > '9') return false;
    *cpu = (size_t)strtoull(line + 3, &at, 10);
    for (int i = 0; i < N_FIELDS; i++) {
        char *end;
        ticks[i] = strtoull(at, &end, 10);
        if (end == at) return false;
        at = end;
    }
    return true;
}

bool bn_busy_parse(struct bn_busy *out, const char *stat, const bool *usable, size_t n_usable,
                   uint64_t ticks_per_second)
{
    uint64_t used = 0, stolen = 0;
    out->n_cpus = 0;
    for (const char *line = stat; line != NULL && *line != '\0' && ticks_per_second > 0;) {
        uint64_t t[N_FIELDS];
        size_t cpu;
        const char *next = strchr(line, '\n');
        if (parse_line(line, &cpu, t) && cpu < n_usable && usable[cpu]) {
            used += t[USER] + t[NICE] + t[SYSTEM] + t[IRQ] + t[SOFTIRQ];
            stolen += t[STEAL];
            out->n_cpus++;
        }
        line = next != NULL ? next + 1 : NULL;
    }
    out->used_ns = used * (1000000000u / (ticks_per_second > 0 ? ticks_per_second : 1));
    out->stolen_ns = stolen * (1000000000u / (ticks_per_second > 0 ? ticks_per_second : 1));
    return out->n_cpus > 0;
}

static uint64_t time_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static uint64_t own_ns(void)
{
    static const int WHO[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    uint64_t sum = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(WHO); i++) {
        struct rusage usage = {0};
        (void)getrusage(WHO[i], &usage);
        sum += time_ns(usage.ru_utime) + time_ns(usage.ru_stime);
    }
    return sum;
}

void bn_busy_read(struct bn_busy *out)
{
    bool usable[CPU_SETSIZE];
    cpu_set_t set;
    struct bn_buf text = {.max = 4u << 20};
    long ticks = sysconf(_SC_CLK_TCK);
    *out = (struct bn_busy){0};
    CPU_ZERO(&set);
    if (ticks > 0 && sched_getaffinity(0, sizeof set, &set) == 0 &&
        bn_file_read("/proc/stat", &text, NULL) == BN_OK) {
        for (size_t i = 0; i < CPU_SETSIZE; i++)
            usable[i] = CPU_ISSET(i, &set);
        out->known = bn_busy_parse(out, text.data, usable, CPU_SETSIZE, (uint64_t)ticks);
    }
    bn_buf_release(&text);
    out->wall_ns = bn_clock_ns();
    out->own_ns = own_ns();
}

/* ---- what others used ---- */

/* Counters of idle CPUs may step back a little (proc(5)), and ticks are rounded: never less than nothing. */
static double growth(uint64_t then, uint64_t now)
{
    return now > then ? (double)(now - then) : 0;
}

struct bn_others bn_busy_others(const struct bn_busy *then, const struct bn_busy *now)
{
    struct bn_others out = {.n_cpus = now->n_cpus,
                            .wall_ns = now->wall_ns > then->wall_ns ? now->wall_ns - then->wall_ns : 0};
    if (!then->known || !now->known) {
        out.why = "/proc/stat cannot be read";
    } else if (then->n_cpus != now->n_cpus) {
        out.why = "the number of usable CPUs changed";
    } else if (out.wall_ns < BN_BUSY_LEAST_NS) {
        out.why = "the run was shorter than 0.1 s";
    } else {
        double wall = (double)out.wall_ns;
        out.known = true;
        out.stolen = growth(then->stolen_ns, now->stolen_ns) / wall;
        out.used = fmax(0, growth(then->used_ns, now->used_ns) - growth(then->own_ns, now->own_ns)) / wall;
    }
    return out;
}

bool bn_others_disturb(const struct bn_others *o)
{
    return o->known && o->used + o->stolen >= BN_BUSY_SHARE * o->n_cpus;
}

void bn_others_describe(char *out, size_t room, const struct bn_others *o)
{
    char stolen[64] = "";
    if (!o->known) {
        snprintf(out, room, "CPU use of other processes is unknown: %s", o->why);
        return;
    }
    if (o->stolen >= 0.05) snprintf(stolen, sizeof stolen, ", and the hypervisor took %.1f", o->stolen);
    snprintf(out, room, "other processes used %.1f of %u CPU%s during the run%s", o->used, o->n_cpus,
             o->n_cpus == 1 ? "" : "s", stolen);
}

/* ---- documents ---- */

void bn_others_put(bn_json *document, const struct bn_others *o)
{
    if (!o->known) {
        bn_json_put_unavailable(document, "others", o->why);
        return;
    }
    bn_json *object = bn_json_put_object(document, "others");
    bn_json_put_u64(object, "wall_ns", o->wall_ns);
    bn_json_put_u64(object, "cpus", o->n_cpus);
    bn_json_put_number(object, "used_cpus", o->used);
    bn_json_put_number(object, "stolen_cpus", o->stolen);
}

struct bn_others bn_others_read(const bn_json *document)
{
    const bn_json *object = bn_json_get(document, "others");
    struct bn_others out = {.why = "the document has no such member"};
    uint64_t cpus = 0;
    out.known = bn_json_u64(bn_json_get(object, "wall_ns"), &out.wall_ns) &&
                bn_json_u64(bn_json_get(object, "cpus"), &cpus) && cpus > 0 && cpus <= UINT32_MAX &&
                bn_json_number(bn_json_get(object, "used_cpus"), &out.used) &&
                bn_json_number(bn_json_get(object, "stolen_cpus"), &out.stolen) && out.used >= 0 &&
                out.stolen >= 0;
    out.n_cpus = (uint32_t)cpus;
    return out;
}

/* ---- disturbances ----
 *
 * Linux: /proc/stat and /proc/pressure ("Pressure Stall Information" in the documentation of the kernel). They are read with
 * plain system calls, since this happens around every sample. */

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
