/* SPDX-License-Identifier: MIT
 *
 * Disturbances during a sample: time stolen by the hypervisor, stalls counted by the operating system, and
 * the resource use of this process. They explain a sample; they never correct it.
 */
#ifndef BN_HOST_NOISE_H
#define BN_HOST_NOISE_H

#include <sys/resource.h>

#include "base/json.h"

/* Totals since boot (of this process: since its start), or their growth from one reading to another. */
struct bn_noise {
    bool steal_known, pressure_known;
    uint64_t steal_ns;                 /* over all CPUs; the clock ticks in 10 ms */
    uint64_t cpu_us, memory_us, io_us; /* some task waited for it (/proc/pressure) */
    uint64_t user_ns, system_ns;       /* of this process, or of its children */
    uint64_t voluntary_switches, involuntary_switches, minor_faults, major_faults;
    int cpu; /* that the calling thread ran on, -1 when unknown */
};

void bn_noise_read(struct bn_noise *out);
/* The growth from `then` to `now`; cpu is that of now. */
struct bn_noise bn_noise_since(const struct bn_noise *then, const struct bn_noise *now);
/* Replaces the times, switches and faults of this process by those of another usage (wait4). */
void bn_noise_set_usage(struct bn_noise *noise, const struct rusage *usage);
/* Puts its fields; an unknown one is null, with the reason in the member "unavailable". */
void bn_noise_put(bn_json *object, const struct bn_noise *noise);

#endif
