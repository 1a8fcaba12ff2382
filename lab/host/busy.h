/* SPDX-License-Identifier: MIT
 *
 * How many CPUs other processes kept busy while something was measured. Both ends are totals: the busy time
 * of the CPUs that this process may use (/proc/stat), and what this process and its children used of it.
 * Their difference, over the time between two readings, is what others used. The load average is not such
 * a measure: it counts waiting threads, ours included, over the last minutes.
 *
 * In a container /proc/stat is that of the host. Work on CPUs that this process may use counts; work on other
 * CPUs does not.
 */
#ifndef BN_HOST_BUSY_H
#define BN_HOST_BUSY_H

#include <sys/resource.h>

#include "base/json.h"

struct bn_busy {
    bool known;
    uint32_t n_cpus;    /* that this process may use and that are online */
    uint64_t wall_ns;   /* monotonic clock */
    uint64_t used_ns;   /* of these CPUs, by all processes and the kernel; the counter advances by 10 ms */
    uint64_t stolen_ns; /* that the hypervisor gave to others */
    uint64_t own_ns;    /* used by this process and by children that it waited for */
};

/* The shortest measurement for which this is known: the counters advance in steps of 10 ms. */
#define BN_BUSY_LEAST_NS 100000000u
/* Others disturb from this share of the usable CPUs on. */
#define BN_BUSY_SHARE 0.25

void bn_busy_read(struct bn_busy *out);
/* Reads n_cpus, used_ns and stolen_ns from the text of /proc/stat: the lines "cpuN" for which usable[N] is
 * set. False without such a line. */
bool bn_busy_parse(struct bn_busy *out, const char *stat, const bool *usable, size_t n_usable,
                   uint64_t ticks_per_second);

/* What others used between two readings, in CPUs: 0.3 is 30 % of one CPU. */
struct bn_others {
    bool known;
    uint32_t n_cpus;
    uint64_t wall_ns;
    double used, stolen;
    const char *why; /* it is unknown; a literal */
};
struct bn_others bn_busy_others(const struct bn_busy *then, const struct bn_busy *now);
/* Did they disturb? False when unknown. */
bool bn_others_disturb(const struct bn_others *others);
/* "other processes used 0.3 of 2 CPUs during the run", or why that is unknown. */
void bn_others_describe(char *out, size_t room, const struct bn_others *others);

/* Puts the member "others" into a document, and reads it. A document without it gives known = false. */
void bn_others_put(bn_json *document, const struct bn_others *others);
struct bn_others bn_others_read(const bn_json *document);

/* ---- disturbances during a sample: time stolen by the hypervisor, stalls counted by the operating system, and the resource
 * use of this process. They explain a sample; they never correct it. ---- */

/* Totals since boot (of this process: since its start), or their growth from one reading to another. */
struct bn_noise {
    bool steal_known, pressure_known;
    uint64_t steal_ns;                 /* over all CPUs; the clock ticks in 10 ms */
    uint64_t cpu_us, memory_us, io_us; /* some task waited for it (/proc/pressure) */
    uint64_t involuntary_switches;     /* of this process */
};

void bn_noise_read(struct bn_noise *out);
/* The growth from `then` to `now`. */
struct bn_noise bn_noise_since(const struct bn_noise *then, const struct bn_noise *now);
/* Puts what concerns the machine; what is unknown is null, with the reason in the member "unavailable". */
void bn_noise_put(bn_json *object, const struct bn_noise *noise);
/* User and system time. */
uint64_t bn_usage_cpu_ns(const struct rusage *usage);

#endif
