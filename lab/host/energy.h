/* SPDX-License-Identifier: MIT
 *
 * Energy from the counters of processor packages (Linux powercap). Without counters there is no figure: power
 * is never assumed.
 */
#ifndef BN_HOST_ENERGY_H
#define BN_HOST_ENERGY_H

#include "base/mem.h"

#define BN_ENERGY_ROOT "/sys/class/powercap"
#define BN_ENERGY_ZONES 8u

struct bn_energy {
    size_t n;                     /* packages with a readable counter */
    uint64_t uj[BN_ENERGY_ZONES]; /* counters in microjoules */
    char why[96];                 /* why n is 0 */
};

/* Reads the counters in the folder root. */
void bn_energy_read(struct bn_energy *out, const char *root);
/* Joules of all packages between two readings; NaN without counters, or when one of them started again. */
double bn_energy_since(const struct bn_energy *then, const struct bn_energy *now);
#endif
