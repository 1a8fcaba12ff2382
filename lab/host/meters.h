/* SPDX-License-Identifier: MIT
 *
 * What this machine can do and needs: the rate of its memory, the step of its clocks, its energy.
 */
#ifndef BN_HOST_METERS_H
#define BN_HOST_METERS_H

#include "base/mem.h"

#define BN_BANDWIDTH_MAX_BYTES ((size_t)256 << 20)

/* Reads a working set of n_bytes (clamped to 16 KiB .. 256 MiB) over and over with n_threads for about
 * budget_ns, each thread its own share, and returns the best rate seen in bytes per second. A set that fits
 * into a cache gives the cache's rate: ask with the bytes that one token reads. 0 when memory runs out. */
uint64_t bn_bandwidth_probe(size_t n_bytes, unsigned n_threads, uint64_t budget_ns);

/* ---- the smallest step of a clock and the time of one reading. A measured time has to be long compared with both. ---- */

struct bn_clock_facts {
    double
        resolution_ns; /* smallest step between two readings, their cost included; 0: it does not advance */
    double cost_ns;    /* of one reading: the best mean of some hundred in a row */
    uint64_t n_readings, n_backward; /* readings less than the one before */
};

/* A clock: returns a count of units of ns_per_unit. */
typedef uint64_t (*bn_clock_fn)(void *arg);

/* Reads the clock ten thousand times; the cost is measured with bn_clock_ns, which is also the clock for NULL. */
void bn_clock_measure(struct bn_clock_facts *out, bn_clock_fn clock, void *arg, double ns_per_unit);

/* ---- energy of processor packages. Without counters there is no figure: power is never assumed. ---- */

#define BN_ENERGY_ZONES 16u

struct bn_energy {
    size_t n;                        /* packages; 0 unless the counters of all of them can be read */
    uint64_t uj[BN_ENERGY_ZONES];    /* counters in microjoules, */
    uint64_t range[BN_ENERGY_ZONES]; /* which begin again after this one; 0: not known */
    char why[192];                   /* why n is 0 */
};

/* The folder with the counters: BN_POWERCAP, which tests set, else /sys/class/powercap. */
const char *bn_energy_folder(void);
/* Reads the counters in it. */
void bn_energy_read(struct bn_energy *out);
/* Joules of all packages between two readings. NaN without counters, and when one is beyond its range, or less than before
 * without a range. */
double bn_energy_since(const struct bn_energy *then, const struct bn_energy *now);

#endif
