/* SPDX-License-Identifier: MIT
 *
 * Sums the counters of kernels over threads.
 */
#include "stamp/counters.h"

struct bn_counter bn_counters_sum(const struct bn_counters *counters, unsigned n_threads,
                                  enum bn_kernel kernel)
{
    struct bn_counter sum = {0};
    for (unsigned t = 0; t < n_threads; t++) {
        const struct bn_counter *c = &counters[t].kernel[kernel];
        if (c->calls > sum.calls) sum.calls = c->calls;
        sum.ticks += c->ticks;
        sum.bytes += c->bytes;
        sum.ops += c->ops;
    }
    return sum;
}
