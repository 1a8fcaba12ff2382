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
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/kit/put_counts.h"

/* ---- the counters ---- */

/* "cpuN user nice system idle iowait irq softirq steal ..." in ticks. */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL };

static bool parse_line(const char *line, size_t *cpu, unsigned long long t[8])
{
    return strncmp(line, "cpu", 3) == 0 && line[3] >= '0' && line[3] <= '9' &&
           sscanf(line, "cpu%zu %llu %llu %llu %llu %llu %llu %llu %llu", cpu, &t[USER], &t[NICE], &t[SYSTEM],
                  &t[IDLE], &t[IOWAIT], &t[IRQ], &t[SOFTIRQ], &t[STEAL]) == 9;
}

bool bn_busy_parse(struct bn_busy *out, const char *stat, const bool *usable, size_t n_usable,
                   uint64_t ticks_per_second)
{
    uint64_t used = 0, stolen = 0;
    out->n_cpus = 0;
    for (const char *line = stat; line != NULL && *line != '\0' && ticks_per_second > 0;) {
        unsigned long long t[8];
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

uint64_t bn_usage_cpu_ns(const struct rusage *u)
{
    return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1000u;
}

static uint64_t own_ns(void)
{
    static const int WHO[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    uint64_t sum = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(WHO); i++) {
        struct rusage usage = {0};
        (void)getrusage(WHO[i], &usage);
        sum += bn_usage_cpu_ns(&usage);
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
    BN_PUT(object, BN_U64("wall_ns", o->wall_ns), BN_U64("cpus", o->n_cpus), BN_NUMBER("used_cpus", o->used),
           BN_NUMBER("stolen_cpus", o->stolen));
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

void bn_noise_read(struct bn_noise *out)
{
    struct rusage usage = {0};
    *out = (struct bn_noise){0};
    out->steal_known = read_steal(&out->steal_ns);
    out->pressure_known = read_pressure("/proc/pressure/cpu", &out->cpu_us) &&
                          read_pressure("/proc/pressure/memory", &out->memory_us) &&
                          read_pressure("/proc/pressure/io", &out->io_us);
    getrusage(RUSAGE_SELF, &usage);
    out->involuntary_switches = (uint64_t)usage.ru_nivcsw;
}

struct bn_noise bn_noise_since(const struct bn_noise *then, const struct bn_noise *now)
{
    return (struct bn_noise){.steal_known = then->steal_known && now->steal_known,
                             .pressure_known = then->pressure_known && now->pressure_known,
                             .steal_ns = now->steal_ns - then->steal_ns,
                             .cpu_us = now->cpu_us - then->cpu_us,
                             .memory_us = now->memory_us - then->memory_us,
                             .io_us = now->io_us - then->io_us,
                             .involuntary_switches = now->involuntary_switches - then->involuntary_switches};
}

void bn_noise_put(bn_json *object, const struct bn_noise *n)
{
    const struct {
        const char *name, *unknown;
        uint64_t value;
    } ROWS[] = {{"steal_ns", n->steal_known ? NULL : "/proc/stat has no such field", n->steal_ns},
                {"pressure_cpu_us", n->pressure_known ? NULL : "no /proc/pressure", n->cpu_us},
                {"pressure_memory_us", n->pressure_known ? NULL : "no /proc/pressure", n->memory_us},
                {"pressure_io_us", n->pressure_known ? NULL : "no /proc/pressure", n->io_us}};
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        if (ROWS[i].unknown == NULL)
            bn_json_put_u64(object, ROWS[i].name, ROWS[i].value);
        else
            bn_json_put_unavailable(object, ROWS[i].name, ROWS[i].unknown);
}
