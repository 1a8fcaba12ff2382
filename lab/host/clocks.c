/* SPDX-License-Identifier: MIT
 *
 * Measures the step, the cost and the monotony of a clock.
 */
#include "lab/host/clocks.h"

#include <math.h>

#include "base/clock.h"

#define ROUNDS 50u
#define READINGS 200u /* in a round */

void bn_clock_measure(struct bn_clock_facts *out, bn_clock_fn clock, void *arg, double ns_per_unit)
{
    uint64_t readings[READINGS], step = UINT64_MAX;
    *out = (struct bn_clock_facts){.n_readings = ROUNDS * READINGS, .cost_ns = HUGE_VAL};
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t start = bn_clock_ns();
        for (unsigned i = 0; i < READINGS; i++)
            readings[i] = clock(arg);
        double cost = (double)(bn_clock_ns() - start) / READINGS;
        if (cost < out->cost_ns) out->cost_ns = cost;
        for (unsigned i = 1; i < READINGS; i++) {
            if (readings[i] < readings[i - 1]) out->n_backward++;
            if (readings[i] > readings[i - 1] && readings[i] - readings[i - 1] < step)
                step = readings[i] - readings[i - 1];
        }
    }
    if (step != UINT64_MAX) out->resolution_ns = (double)step * ns_per_unit;
}

static uint64_t read_default(void *arg)
{
    (void)arg;
    return bn_clock_ns();
}

void bn_clock_measure_default(struct bn_clock_facts *out)
{
    bn_clock_measure(out, read_default, NULL, 1.0);
}
