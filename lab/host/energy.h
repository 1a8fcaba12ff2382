/* SPDX-License-Identifier: MIT
 *
 * Energy from the counters of processor packages (Linux powercap). Where there are none there is no figure:
 * no power is ever assumed.
 */
#ifndef BN_HOST_ENERGY_H
#define BN_HOST_ENERGY_H

#include "base/mem.h"

#define BN_ENERGY_ROOT "/sys/class/powercap"
#define BN_ENERGY_ZONES 8u

struct bn_energy {
    size_t n;                        /* packages; 0: there is no figure, and why says so */
    uint64_t uj[BN_ENERGY_ZONES];    /* counters in microjoules */
    uint64_t range[BN_ENERGY_ZONES]; /* at which a counter starts again from 0 */
    char why[96];
};

/* Reads the counters below root. */
void bn_energy_read(struct bn_energy *out, const char *root);
/* Microjoules from `then` to `now` over all packages; each counter may have started again once. False when
 * either has no figure, or they differ in their packages. */
bool bn_energy_since(uint64_t *uj, const struct bn_energy *then, const struct bn_energy *now);

#endif
