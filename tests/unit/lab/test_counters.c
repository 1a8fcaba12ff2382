/* SPDX-License-Identifier: MIT
 *
 * Counters of the machine: lab/host/meters.h counts packages, and knows when a counter started again;
 * lab/sampler/counters counts the threads that start after an event was opened.
 */
#define _DEFAULT_SOURCE /* mkdtemp, seteuid */
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "lab/host/meters.h"
#include "lab/sampler/recorder.h"
#include "tests/unit/folder.h"

/* ---- energy ---- */

static void write_package(const char *zone, const char *name, const char *uj, const char *range)
{
    char at[64];
    const char *const FILES[] = {"name", name, "energy_uj", uj, "max_energy_range_uj", range};
    for (size_t i = 0; i < 6; i += 2) {
        snprintf(at, sizeof at, "%s/%s", zone, FILES[i]);
        if (FILES[i + 1] != NULL) write_text(below(at), FILES[i + 1]);
    }
}

static struct bn_energy read_energy(void)
{
    struct bn_energy energy;
    setenv("BN_POWERCAP", folder, 1);
    bn_energy_read(&energy);
    return energy;
}

/* Two packages; a part of a package, the whole platform and a second way to the same package are not counted again. */
TEST_IN(energy_counts_packages, make_folder, remove_folder)
{
    assert_string_equal(read_energy().why, "no package has a counter");
    write_package("intel-rapl:0", "package-0\n", "1000\n", "262143328850\n");
    write_package("intel-rapl:1", "package-1\n", "262143000000\n", "262143328850\n");
    write_package("intel-rapl:0:0", "dram\n", "7\n", "1000\n");
    write_package("intel-rapl:2", "psys\n", "8\n", "1000\n");
    write_package("intel-rapl-mmio:0", "package-0\n", "9\n", "1000\n");
    struct bn_energy then = read_energy();
    assert_true(then.n == 2 && then.uj[0] + then.uj[1] == 262143001000);
    write_package("intel-rapl:0", "package-0\n", "2001001\n", NULL);
    write_package("intel-rapl:1", "package-1\n", "1671150\n",
                  NULL); /* 328850 to the end of the range, then these */
    struct bn_energy now = read_energy();
    assert_true(bn_energy_since(&then, &now) == 4.000001);
    now.uj[0] = then.range[0] + 1;
    assert_true(isnan(bn_energy_since(&then, &now))); /* beyond the range */
    assert_true(isnan(bn_energy_since(&now, &then)));
    then.range[1] = now.range[1] = now.range[0] = now.uj[0] = 0;
    assert_true(isnan(bn_energy_since(&then, &now))); /* back, without a range */
}

/* One counter that cannot be read, of two: no figure, and what to do. */
TEST_IN(energy_needs_every_package, make_folder, remove_folder)
{
    struct bn_energy none = {0}, energy;
    write_package("intel-rapl:0", "package-0\n", "1000\n", NULL);
    write_package("intel-rapl:1", "package-1\n", "x\n", NULL);
    assert_string_equal(read_energy().why, "no package has a counter");
    write_package("intel-rapl:1", "package-1\n", "1000\n", NULL);
    assert_int_equal(read_energy().n, 2);
    assert_int_equal(chmod(folder, 0755) | chmod(below("intel-rapl:1/energy_uj"), 0400), 0);
    bool root = geteuid() == 0; /* may read all files */
    assert_int_equal(root ? seteuid(65534) : chmod(below("intel-rapl:1/energy_uj"), 0), 0);
    energy = read_energy();
    assert_int_equal(root ? seteuid(0) : 0, 0);
    assert_int_equal(energy.n, 0);
    assert_non_null(strstr(energy.why, "package-1 is readable by root only: sudo chmod a+r /tmp/bn-test-"));
    assert_true(isnan(bn_energy_since(&none, &none)));
    setenv("BN_POWERCAP", below("none"), 1);
    bn_energy_read(&energy);
    assert_string_equal(energy.why, "no powercap folder");
    assert_int_equal(unsetenv("BN_POWERCAP"), 0);
    assert_string_equal(bn_energy_folder(), "/sys/class/powercap");
}

/* ---- perf events ---- */

/* What a read of an event gives between two readings. */
static double counted(struct bn_perf_count from, struct bn_perf_count to, const char **why)
{
    struct bn_perf_count then, now;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_true(write(fds[1], (uint64_t[]){from.value, from.enabled_ns, from.running_ns}, 24) == 24 &&
                write(fds[1], (uint64_t[]){to.value, to.enabled_ns, to.running_ns}, 24) == 24 &&
                write(fds[1], "short", 5) == 5);
    *why = NULL;
    assert_true(bn_perf_event_read(&then, fds[0]) && bn_perf_event_read(&now, fds[0]));
    assert_false(bn_perf_event_read(&(struct bn_perf_count){0}, fds[0])); /* some bytes of a reading */
    close(fds[0]);
    close(fds[1]);
    return bn_perf_event_since(&then, &now, why);
}

TEST(counters_that_took_turns_are_scaled)
{
    const char *why;
    struct bn_perf_count at = {1000, 50, 40};
    assert_true(counted(at, (struct bn_perf_count){1300, 150, 140}, &why) == 300);
    assert_true(counted(at, (struct bn_perf_count){1300, 150, 65}, &why) == 1200); /* a quarter of the time */
    assert_null(why);
    assert_true(isnan(counted(at, (struct bn_perf_count){1000, 150, 40}, &why)));
    assert_non_null(strstr(why, "never ran"));
    assert_true(isnan(counted(at, (struct bn_perf_count){999, 150, 140}, &why)));
    assert_string_equal(why, "the counter went back");
    assert_false(bn_perf_event_read(&at, -1)); /* an event that did not open */
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
    struct bn_perf_count count = {0};
    pthread_t thread;
    int fd = bn_perf_event_open(BN_PERF_TASK_CLOCK, inherit, &why);
    if (fd < 0) {
        assert_true(why.msg[0] != '\0');
        skip();
    }
    assert_int_equal(pthread_create(&thread, NULL, burn, used), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(bn_perf_event_read(&count, fd));
    close(fd);
    return count.value;
}

TEST(counters_count_threads_that_start_later)
{
    uint64_t used = 0;
    assert_true(counted_of_thread(true, &used) > used / 2);
    assert_true(counted_of_thread(false, &used) < used / 2);
}
