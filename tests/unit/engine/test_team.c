/* SPDX-License-Identifier: MIT
 *
 * Teams: every thread runs every task once, barriers hold, and a team whose threads do not run at the same
 * time goes on with fewer. The rule for that is driven with times that are made up.
 */
#include "base/team.h"
#include "tests/unit/unit.h"

#define MS 1000000u

struct driven {
    struct bn_team_pace pace;
    uint64_t now;
};

static struct driven driven_by(unsigned size)
{
    return (struct driven){.pace = {.size = size, .running = size}};
}

/* Tasks of 1 ms for so long, in which threads sleep this part of the time together. */
static void tasks(struct driven *d, unsigned ms, double asleep)
{
    for (unsigned i = 0; i < ms; i++) {
        bn_team_pace_task(&d->pace, d->now, d->now + MS, (uint64_t)(asleep * MS));
        d->now += MS;
    }
}

TEST(free_cores_keep_all_threads)
{
    struct driven d = driven_by(4);
    tasks(&d, 1000, 0);
    assert_int_equal(d.pace.running, 4);
    /* one of four is late an eighth of the time: three would be slower */
    tasks(&d, 1000, 3 * 0.125);
    assert_int_equal(d.pace.running, 4);
}

TEST(a_taken_core_costs_a_thread)
{
    struct driven d = driven_by(2);
    tasks(&d, 3, 0.9);
    assert_int_equal(d.pace.running, 2); /* less than a time slice: no decision yet */
    tasks(&d, 1, 0.9);
    assert_int_equal(d.pace.running, 1);
    d = driven_by(4);
    tasks(&d, 4, 3 * 0.3);
    assert_int_equal(d.pace.running, 3);
}

TEST(all_threads_come_back)
{
    struct driven d = driven_by(2);
    tasks(&d, 4, 0.9);
    assert_int_equal(d.pace.running, 1);
    tasks(&d, 16, 0);
    assert_int_equal(d.pace.running, 1);
    tasks(&d, 8, 0);
    assert_int_equal(d.pace.running, 2);
}

/* Trying costs time when the core stays taken, so it is tried less and less often, down to once a second. */
TEST(trying_grows_rare)
{
    struct driven d = driven_by(2);
    unsigned tried = 0;
    for (unsigned ms = 0; ms < 10000; ms++) {
        tried += d.pace.running == 2;
        tasks(&d, 1, d.pace.running == 2 ? 0.9 : 0);
    }
    assert_in_range(tried, 4 * 4, 4 * 20);
    assert_int_equal(d.pace.hold_ns, 1000 * MS);
    /* and often again once the core has been free for that long */
    tasks(&d, 3000, 0);
    assert_int_equal(d.pace.running, 2);
    assert_int_equal(d.pace.hold_ns, 0);
}

TEST(one_thread_is_the_least)
{
    struct driven d = driven_by(16);
    for (unsigned i = 0; i < 100; i++)
        tasks(&d, 4, d.pace.running > 1 ? d.pace.running : 0);
    assert_in_range(d.pace.running, 1, 2);
}

#define N_THREADS 3u
#define N_ROUNDS 500u

struct work {
    struct bn_team *team;
    atomic_uint calls[N_THREADS];
    unsigned sums[2][N_THREADS]; /* written on one side of a barrier, read on the other */
    atomic_bool torn;
};

static void pass_barriers(void *arg, unsigned thread, unsigned n_threads)
{
    struct work *w = arg;
    atomic_fetch_add(&w->calls[thread], 1);
    for (unsigned i = 0; i < N_ROUNDS; i++) {
        unsigned *row = w->sums[i % 2];
        row[thread] = i;
        bn_team_barrier(w->team, n_threads);
        for (unsigned t = 0; t < n_threads; t++)
            if (row[t] != i) atomic_store(&w->torn, true);
    }
}

TEST(nobody_passes_a_barrier_early)
{
    struct work w = {.team = bn_team_open(N_THREADS, true)};
    assert_non_null(w.team);
    assert_int_equal(bn_team_size(w.team), N_THREADS);
    for (unsigned task = 0; task < 20; task++)
        bn_team_run(w.team, pass_barriers, &w);
    bn_team_close(w.team);
    assert_false(atomic_load(&w.torn));
    for (unsigned t = 0; t < N_THREADS; t++)
        assert_int_equal(atomic_load(&w.calls[t]), 20);
}

static void count(void *arg, unsigned thread, unsigned n_threads)
{
    atomic_uint *n = arg;
    (void)thread;
    if (n_threads <= N_THREADS) atomic_fetch_add(n, 1);
}

TEST(a_team_for_one_task)
{
    for (unsigned n = 1; n <= N_THREADS; n++) {
        atomic_uint calls = 0;
        bn_team_once(n, count, &calls);
        assert_int_equal(atomic_load(&calls), n);
    }
}

TEST(memory_that_is_short_is_told)
{
    for (uint64_t after = 1; after <= 2; after++) {
        bn_mem_fail_after(after);
        struct bn_team *team = bn_team_open(2, false);
        atomic_uint calls = 0;
        bn_mem_fail_after(after);
        bn_team_once(2, count, &calls);
        bn_mem_fail_after(0);
        assert_null(team);
        assert_int_equal(atomic_load(&calls), 1); /* the caller's own */
    }
    bn_team_close(NULL);
}
