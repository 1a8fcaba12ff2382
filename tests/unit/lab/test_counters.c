/* SPDX-License-Identifier: MIT
 *
 * Counters of the machine: lab/host/meters.h counts packages, and knows when a counter started again;
 * lab/sampler/counters counts the threads that start after an event was opened.
 */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <math.h>
#include <pthread.h>

#include "base/clock.h"
#include "lab/host/meters.h"
#include "lab/sampler/counters.h"
#include "tests/unit/folder.h"

/* Two packages; a part of a package is included in it, and not counted again. */
TEST_IN(energy_counts_packages, make_folder, remove_folder)
{
    struct bn_energy energy;
    bn_energy_read(&energy, folder);
    assert_int_equal(energy.n, 0);
    assert_string_equal(energy.why, "no package has a counter");
    write_text(below("intel-rapl:1/energy_uj"), "99000\n");
    write_text(below("intel-rapl:0/energy_uj"), "1000\n");
    write_text(below("intel-rapl:0:0/energy_uj"), "7\n");
    bn_energy_read(&energy, folder);
    assert_true(energy.n == 2 && energy.uj[0] == 1000 && energy.uj[1] == 99000);
    struct bn_energy later = energy, none = {0};
    later.uj[0] += 2000000;
    later.uj[1] += 500000;
    assert_true(fabs(bn_energy_since(&energy, &later) - 2.5) < 1e-9);
    assert_true(isnan(bn_energy_since(&later, &energy))); /* a counter that started again */
    assert_true(isnan(bn_energy_since(&none, &none)));
    bn_energy_read(&energy, below("none"));
    assert_int_equal(energy.n, 0);
    assert_string_equal(energy.why, "no powercap folder");
}

static void *burn(void *arg)
{
    uint64_t *used = arg;
    while (bn_clock_thread_cpu_ns() < 20000000)
        for (volatile unsigned i = 0; i < 10000; i++) {
        }
    *used = bn_clock_thread_cpu_ns();
    return NULL;
}

/* What an event counts while a thread works that was started after it was opened. */
static uint64_t counted_of_thread(bool inherit, uint64_t *used)
{
    bn_error why = {0};
    uint64_t count = 0;
    pthread_t thread;
    int fd = bn_perf_event_open(BN_PERF_TASK_CLOCK, inherit, &why);
    if (fd < 0) {
        assert_true(why.msg[0] != '\0');
        skip();
    }
    assert_int_equal(pthread_create(&thread, NULL, burn, used), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(read(fd, &count, sizeof count), sizeof count);
    close(fd);
    return count;
}

TEST(counters_count_threads_that_start_later)
{
    uint64_t used = 0;
    assert_true(counted_of_thread(true, &used) > used / 2);
    assert_true(counted_of_thread(false, &used) < used / 2);
}
