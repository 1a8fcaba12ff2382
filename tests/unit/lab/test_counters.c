/* SPDX-License-Identifier: MIT
 *
 * Counters of the machine: lab/host/meters.h counts packages, and knows when a counter started again;
 * lab/sampler/counters counts the threads that start after an event was opened.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/host/meters.h"
#include "lab/sampler/counters.h"
#include "tests/unit/unit.h"

static void write_text(const char *folder, const char *zone, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, zone);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%s", folder, zone, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void remove_zone(const char *folder, const char *zone)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/energy_uj", folder, zone);
    (void)remove(path);
    snprintf(path, sizeof path, "%s/%s", folder, zone);
    (void)remove(path);
}

/* Two packages; a part of a package is included in it, and not counted again. */
TEST(energy_counts_packages)
{
    char folder[] = "/tmp/bn-energy-XXXXXX";
    struct bn_energy energy;
    assert_non_null(mkdtemp(folder));
    bn_energy_read(&energy, folder);
    assert_int_equal(energy.n, 0);
    assert_string_equal(energy.why, "no package has a counter");
    write_text(folder, "intel-rapl:1", "energy_uj", "99000\n");
    write_text(folder, "intel-rapl:0", "energy_uj", "1000\n");
    write_text(folder, "intel-rapl:0:0", "energy_uj", "7\n");
    bn_energy_read(&energy, folder);
    assert_true(energy.n == 2 && energy.uj[0] == 1000 && energy.uj[1] == 99000);
    struct bn_energy later = energy, none = {0};
    later.uj[0] += 2000000;
    later.uj[1] += 500000;
    assert_true(fabs(bn_energy_since(&energy, &later) - 2.5) < 1e-9);
    assert_true(isnan(bn_energy_since(&later, &energy))); /* a counter that started again */
    assert_true(isnan(bn_energy_since(&none, &none)));
    remove_zone(folder, "intel-rapl:0:0");
    remove_zone(folder, "intel-rapl:1");
    remove_zone(folder, "intel-rapl:0");
    rmdir(folder);
    bn_energy_read(&energy, folder);
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
