/* SPDX-License-Identifier: MIT
 *
 * The ranks that other unit tests use (threads) do what those of MPI do: the same checks run under mpirun in
 * tests/cli/ranks.sh.
 */
#include "tests/unit/unit.h"

#include <stdatomic.h>

#include "tests/mpi/checks.h"
#include "tests/unit/ranks.h"

static void count_good(const struct bn_ranks *ranks, void *arg)
{
    if (ranks_check(ranks) == NULL) atomic_fetch_add((atomic_uint *)arg, 1);
}

TEST(calls_move_the_right_bytes)
{
    static const unsigned COUNTS[] = {1, 2, 3, 4, 5};
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        atomic_uint good = 0;
        test_ranks_run(COUNTS[i], count_good, &good);
        assert_int_equal(good, COUNTS[i]);
    }
}

struct counted {
    struct bn_ranks_traffic traffic[3];
};

static void gather_once(const struct bn_ranks *ranks, void *arg)
{
    struct counted *c = arg;
    char data[30] = {0};
    const size_t edges[] = {0, 10, 15, 30};
    if (ranks->gather(ranks->context, data, edges, NULL) == BN_OK) c->traffic[ranks->index] = *ranks->traffic;
}

TEST(traffic_is_counted)
{
    struct counted c = {0};
    test_ranks_run(3, gather_once, &c);
    assert_int_equal(c.traffic[0].bytes_sent, 20);
    assert_int_equal(c.traffic[0].bytes_received, 20);
    assert_int_equal(c.traffic[1].bytes_sent, 10);
    assert_int_equal(c.traffic[2].bytes_received, 15);
    assert_int_equal(c.traffic[2].messages_sent, 2);
}
