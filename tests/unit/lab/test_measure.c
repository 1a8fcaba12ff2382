/* SPDX-License-Identifier: MIT
 *
 * lab/host: facts about machine, repository and bandwidth are those that can be read, and null otherwise.
 */
#define _DEFAULT_SOURCE
#include <math.h>

#include "base/clock.h"
#include "kernels/peak.h"
#include "lab/host/busy.h"
#include "lab/host/git.h"
#include "lab/host/machine.h"
#include "lab/host/meters.h"
#include "lab/stats/summary.h"
#include "tests/unit/folder.h"
#include "tools/git/repository.h"

TEST(machine_is_described)
{
    struct bn_machine machine;
    bn_machine_read(&machine);
    assert_string_equal(machine.os, "Linux");
    assert_true(machine.kernel[0] != '\0' && machine.arch[0] != '\0');
    assert_true(machine.cpus_online >= 1 && machine.cpus_usable >= 1);
    assert_true(machine.memory_bytes > (64u << 20));
    assert_true(machine.cores <= machine.cpus_online || machine.cores == 0);
    assert_true(bn_machine_peak_rss_bytes() > (1u << 20));
}

TEST(unknown_is_null)
{
    struct bn_machine machine = {.quota_known = true, .quota_us = 50000, .period_us = 100000};
    bn_json *object = bn_json_new_object();
    struct bn_buf text = {.max = 4096};
    bn_machine_put(object, &machine);
    must(bn_json_write(object, true, &text, NULL));
    assert_string_equal(
        text.data, "{\"arch\":null,\"cache_l2_bytes\":null,\"cache_l3_bytes\":null,\"cores\":null,"
                   "\"cpu_flags\":[],\"cpu_model\":null,\"cpu_period_us\":100000,\"cpu_quota_us\":50000,"
                   "\"cpus_online\":null,\"cpus_usable\":null,\"governor\":null,\"hypervisor\":null,"
                   "\"kernel\":null,\"load_milli\":null,\"memory_bytes\":null,\"microcode\":null,\"os\":null,"
                   "\"page_bytes\":null}");
    bn_buf_release(&text);
    bn_json_free(object);
}

/* ---- CPU use of other processes ---- */

/* The text of /proc/stat in ticks of 10 ms: the first CPU busy for `a` ticks, the second for `b`, of which
 * some were stolen; the third belongs to others. */
static struct bn_busy busy(unsigned a, unsigned b, unsigned stolen, uint64_t wall_ns, uint64_t own_ns)
{
    static const bool USABLE[] = {true, true, false};
    char text[512];
    struct bn_busy out = {.known = true, .wall_ns = wall_ns, .own_ns = own_ns};
    snprintf(text, sizeof text,
             "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 %u 1 2 1000 50 3 4 0 7 7\ncpu1 0 0 %u 1000 50 0 0 %u 0 0\n"
             "cpu2 99999 0 0 0 0 0 0 0 0 0\nintr 1 2 3\nctxt 5\n",
             a, b, stolen);
    assert_true(bn_busy_parse(&out, text, USABLE, 3, 100));
    return out;
}

TEST(others_exclude_our_own_use)
{
    char text[160];
    const uint64_t s = 1000000000;
    /* In 10 s both CPUs did 13 s of work: 10 s of it were ours, 3 s of others. */
    struct bn_busy then = busy(100, 0, 0, s, 2 * s), now = busy(1100, 300, 0, 11 * s, 12 * s);
    assert_int_equal(then.n_cpus, 2);
    assert_int_equal(then.used_ns, (100 + 1 + 2 + 3 + 4) * 10000000ull); /* neither idle nor waiting */
    struct bn_others o = bn_busy_others(&then, &now);
    assert_true(o.known && fabs(o.used - 0.3) < 1e-9 && o.stolen <= 0);
    assert_false(bn_others_disturb(&o));
    bn_others_describe(text, sizeof text, &o);
    assert_string_equal(text, "other processes used 0.3 of 2 CPUs during the run");
    /* All use is our own: computing on every CPU does not count as others, whatever the load average is.
     */
    now.own_ns = then.own_ns + 13 * s;
    o = bn_busy_others(&then, &now);
    assert_true(o.known && o.used <= 0);
    now.own_ns += s; /* ticks are coarser than what we know of ourselves */
    o = bn_busy_others(&then, &now);
    assert_true(o.known && o.used <= 0);
    /* Half of one of two CPUs is taken, by others or by the hypervisor. */
    now = busy(100, 600, 0, 11 * s, 3 * s);
    o = bn_busy_others(&then, &now);
    assert_true(bn_others_disturb(&o));
    now = busy(100, 0, 600, 11 * s, 2 * s);
    o = bn_busy_others(&then, &now);
    assert_true(bn_others_disturb(&o));
    bn_others_describe(text, sizeof text, &o);
    assert_has(text, "the hypervisor took 0.6");
}

TEST(unknown_use_does_not_disturb)
{
    static const bool NONE[] = {false, false};
    struct bn_busy out = {0}, then = busy(0, 0, 0, 0, 0), now = busy(900, 900, 0, 50000000, 0);
    assert_false(bn_busy_parse(&out, "cpu0 1 2 3 4 5 6 7 8\n", NONE, 2, 100));
    assert_false(bn_busy_parse(&out, "cpu0 1 2\n", (const bool[]){true}, 1, 100));
    assert_false(bn_busy_parse(&out, "", NONE, 2, 100));
    struct bn_others o = bn_busy_others(&then, &now); /* shorter than the counters' step allows */
    assert_false(o.known || bn_others_disturb(&o));
    now.wall_ns = 2000000000;
    assert_true(bn_busy_others(&then, &now).known);
    now.known = false;
    assert_false(bn_busy_others(&then, &now).known);
    bn_busy_read(&now); /* of this machine, and alive: no more than that can be said */
    assert_true(now.known && now.n_cpus >= 1 && now.own_ns > 0);
}

TEST(documents_record_other_processes)
{
    const struct bn_others written = {true, 2, 3000000000u, 0.25, 0.5, NULL}, unknown = {.why = "no /proc"};
    bn_json *doc = bn_json_new_object();
    bn_others_put(doc, &written);
    struct bn_others o = bn_others_read(doc);
    assert_true(o.known && o.n_cpus == 2 && o.wall_ns == 3000000000u && o.used == 0.25 && o.stolen == 0.5);
    bn_json_free(doc);
    doc = bn_json_new_object();
    assert_false(bn_others_read(doc).known);
    bn_others_put(doc, &unknown);
    assert_false(bn_others_read(doc).known);
    const char *why;
    assert_true(bn_json_string(bn_json_path(doc, "unavailable.others"), &why));
    bn_json_free(doc);
}

static void in_folder(const char *command)
{
    char line[1024];
    snprintf(line, sizeof line,
             "cd '%s' && HOME='%s' GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b "
             "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b sh -c '%s' >/dev/null 2>&1",
             folder, folder, command);
    assert_int_equal(system(line), 0);
}

TEST_IN(repositories_are_stamped, make_folder, remove_folder)
{
    struct bn_git git;
    bn_repository_read(&git, folder);
    assert_false(git.known);
    assert_string_equal(git.why, "not in a git repository");
    assert_string_equal(git.commit, "");

    in_folder("git init -q -b trunk . && mkdir sub && echo one > sub/a");
    bn_repository_read(&git, folder); /* no commit yet */
    assert_true(git.known && git.dirty);
    assert_int_equal(git.n_changed, 1);
    assert_string_equal(git.commit, "");

    in_folder("git add -A && git commit -q -m first && echo x > .git/info/exclude && echo x > x");
    bn_repository_read(&git, below("sub"));
    assert_true(git.known && !git.dirty);
    assert_int_equal(strlen(git.commit), 40);
    assert_string_equal(git.branch, "trunk");
    assert_string_equal(git.why, "");

    in_folder("echo two > sub/a && echo new > b && git checkout -q --detach");
    bn_repository_read(&git, folder);
    assert_true(git.known && git.dirty);
    assert_int_equal(git.n_changed, 2);
    assert_string_equal(git.branch, "");

    bn_json *object = bn_json_new_object();
    uint64_t changed = 0;
    bn_git_put(object, &git);
    assert_true(bn_json_u64(bn_json_get(object, "changed_files"), &changed));
    assert_int_equal(changed, 2);
    assert_int_equal(bn_json_kind(bn_json_get(object, "branch")), BN_JSON_NULL);
    bn_json_free(object);
}

TEST(bandwidth_is_measured)
{
    uint64_t rate = bn_bandwidth_probe(1, 1, 0);
    assert_true(rate > 10000000u); /* 10 MB/s: any machine */
    assert_true(rate < UINT64_C(100000000000000));
    bn_mem_fail_after(1);
    assert_int_equal(bn_bandwidth_probe(1, 1, 0), 0);
    bn_mem_fail_after(0);
}

/* What each loop claims to have done grows with its turns; plain C claims nothing. */
TEST(peaks_are_counted)
{
    _Alignas(64) static unsigned char data[4 * BN_PEAK_READ];
    for (size_t i = 0; bn_kernels_built(i) != NULL; i++) {
        if (!bn_kernels_supported(bn_kernels_built(i))) continue;
        const struct bn_peak *peak = bn_peak_of(bn_kernels_built(i));
        assert_true((peak->int8 != NULL) == (i > 0) && (peak->fma != NULL) == (i > 0));
        assert_int_equal(peak->read(data, sizeof data), 0);
        for (size_t at = 0; at < sizeof data; at += 51) { /* every part of it is read */
            data[at] = 1;
            assert_true(peak->read(data, sizeof data) != 0);
            data[at] = 0;
        }
        if (i == 0) continue;
        assert_true(peak->run_int8(1) > 0 && peak->run_fma(1) > 0);
        assert_int_equal(peak->run_int8(7), 7 * peak->run_int8(1));
        assert_int_equal(peak->run_fma(7), 7 * peak->run_fma(1));
    }
}

TEST(samples_are_summed_up)
{
    struct bn_summary s;
    double some[] = {5, 1, 4, 2, 3};
    assert_true(bn_summarize(&s, some, 5));
    assert_true(s.n == 5 && s.min == 1 && s.max == 5 && s.median == 3 && s.mad == 1);
    assert_true(some[0] == 5); /* left as they were */
    double two[] = {10, 20};
    assert_true(bn_summarize(&s, two, 2));
    assert_true(s.median == 15 && s.mad == 5);
    assert_false(bn_summarize(&s, two, 0));

    double hundred[100], q = 0;
    for (size_t i = 0; i < 100; i++)
        hundred[i] = (double)((i * 37) % 100); /* 0 ... 99 in some order */
    assert_true(bn_quantile(&q, hundred, 100, 0.99) && q > 97.9 && q < 98.1);
    assert_true(bn_quantile(&q, hundred, 100, 0.5) && q > 49.4 && q < 49.6);
    assert_true(bn_quantile(&q, hundred, 100, 0.05) && q > 4.9 && q < 5.0);
    /* One sample in a hundred cannot be told from fewer than a hundred. */
    assert_false(bn_quantile(&q, hundred, 99, 0.99));
    assert_false(bn_quantile(&q, hundred, 19, 0.05));
    assert_true(bn_quantile(&q, hundred, 20, 0.95));
    assert_int_equal(bn_quantile_needs(0.99), 100);
    assert_int_equal(bn_quantile_needs(0.5), 2);
    bn_mem_fail_after(1);
    assert_false(bn_summarize(&s, some, 5));
    bn_mem_fail_after(0);
}

/* Both clocks run at one rate: a millisecond is measured by each, and again until nothing interrupts. */
TEST(ticks_are_nanoseconds)
{
    struct bn_tick_clock clock;
    bn_tick_clock_open(&clock);
    double off = 1.0;
    for (int tries = 0; tries < 1000 && off > 0.01; tries++) {
        uint64_t ns = bn_clock_ns(), ticks = bn_ticks(&clock), passed;
        while ((passed = bn_clock_ns() - ns) < 1000000u) {
        }
        off = fabs((double)(bn_ticks(&clock) - ticks) * clock.ns_per_tick / (double)passed - 1.0);
    }
    assert_true(off <= 0.01);
}
