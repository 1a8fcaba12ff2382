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
        bn_counter_join(&sum, &counters[t].kernel[kernel]);
        sum.ticks += counters[t].kernel[kernel].ticks;
    }
    return sum;
}
