/* SPDX-License-Identifier: MIT
 *
 * The budget of pieces of prompts, with passes whose times are calculated: answers are not slowed down more than was
 * asked for, and prompts always advance.
 */
#include "generate/generator.h"
#include "tests/unit/unit.h"

#define MOST 8u
#define ROOM 128u

/* A machine: reading the weights takes base, each token adds `row`, and each token of a context a little of it. */
struct machine {
    double base, row, context;
};

static double pass_ns(const struct machine *m, size_t n_answers, size_t n_tokens, size_t n_before)
{
    double rows = (double)(n_answers + n_tokens);
    double arithmetic = rows * m->row + (double)n_tokens * (double)n_before * m->context;
    return (m->base > arithmetic ? m->base : arithmetic) + m->base / 10;
}

/* A prompt of 2,048 tokens comes in next to answers; returns the passes that took more than `limit` times a pass without
 * it, and the number of all passes in *n. */
static size_t come_in(struct bn_budget *b, const struct machine *m, size_t n_answers, double limit, size_t *n)
{
    size_t done = 0, n_long = 0;
    for (*n = 0; done < 2048; ++*n) {
        size_t piece = bn_budget_tokens(b, n_answers, bn_min_size(ROOM, 2048 - done));
        double ns = pass_ns(m, n_answers, piece, done);
        n_long += ns > limit * pass_ns(m, n_answers, 0, 0);
        bn_budget_account(b, n_answers, piece, (uint64_t)ns);
        done += piece;
        assert_true(*n < 100000);
    }
    return n_long;
}

TEST(answers_are_not_slowed_down_more_than_asked)
{
    static const struct machine MACHINES[] = {
        {40e6, 8e6, 2e3}, {40e6, 1e6, 0}, {1e5, 2e4, 10}, {4e8, 3e8, 5e5}, {40e6, 8e6, 5e4}};
    for (size_t i = 0; i < BN_ARRAY_LEN(MACHINES); i++)
        for (size_t n_answers = 1; n_answers <= MOST; n_answers *= 2) {
            struct bn_budget b;
            size_t n;
            assert_true(bn_budget_open(&b, MOST));
            b.slowdown = 2.5;
            /* One token of a prompt may be more than the limit; then a pass has one. */
            size_t n_long = come_in(&b, &MACHINES[i], n_answers, 3.0, &n);
            bool one_is_long =
                pass_ns(&MACHINES[i], n_answers, 1, 2048) > 3.0 * pass_ns(&MACHINES[i], n_answers, 0, 0);
            if (!one_is_long) assert_true(n_long <= 1 + n / 100);
            bn_budget_close(&b);
        }
}

TEST(the_budget_is_used)
{
    const struct machine m = {40e6, 8e6, 0};
    struct bn_budget b;
    size_t n, n_slow;
    assert_true(bn_budget_open(&b, MOST));
    b.slowdown = 2.5;
    (void)come_in(&b, &m, 4, 3.0, &n_slow);
    b.slowdown = 5.0;
    (void)come_in(&b, &m, 4, 6.0, &n);
    assert_true(n_slow < 2048 / 6); /* more than 6 tokens a pass fit */
    assert_true(n < n_slow * 2 / 3);
    bn_budget_close(&b);
}

TEST(it_follows_a_machine_that_changes)
{
    const struct machine fast = {40e6, 2e6, 0}, slow = {40e6, 16e6, 0};
    struct bn_budget b;
    size_t n;
    assert_true(bn_budget_open(&b, MOST));
    b.slowdown = 2.5;
    (void)come_in(&b, &fast, 2, 3.0, &n);
    assert_true(come_in(&b, &slow, 2, 3.0, &n) <= 8);
    assert_true(come_in(&b, &slow, 2, 3.0, &n) == 0);
    size_t n_slow = n;
    (void)come_in(&b, &fast, 2, 3.0, &n);
    assert_true(n * 3 < n_slow);
    bn_budget_close(&b);
}

TEST(without_a_limit_pieces_fill_the_batch)
{
    struct bn_budget b;
    assert_true(bn_budget_open(&b, MOST));
    assert_int_equal(bn_budget_tokens(&b, 3, ROOM), ROOM);
    b.slowdown = 2.5;
    assert_int_equal(bn_budget_tokens(&b, 0, ROOM), ROOM); /* nobody is slowed down */
    assert_int_equal(bn_budget_tokens(&b, 3, ROOM), 0);    /* a pass without pieces is measured first */
    bn_budget_account(&b, 3, 0, 1000);
    assert_int_not_equal(bn_budget_tokens(&b, 3, ROOM), 0);
    assert_int_equal(bn_budget_tokens(&b, 3, 2), 2);
    assert_int_equal(bn_budget_tokens(&b, 3, 0), 0);
    bn_budget_close(&b);
}

TEST(one_long_pass_changes_little)
{
    const struct machine m = {40e6, 8e6, 0};
    struct bn_budget b;
    size_t n;
    assert_true(bn_budget_open(&b, MOST));
    b.slowdown = 2.5;
    (void)come_in(&b, &m, 4, 3.0, &n);
    size_t before = bn_budget_tokens(&b, 4, ROOM), n_before = n;
    bn_budget_account(&b, 4, before, 20000000000u);
    assert_int_equal(bn_budget_tokens(&b, 4, ROOM), 1);
    (void)come_in(&b, &m, 4, 3.0, &n); /* a few passes later it is as before */
    assert_true(n <= n_before + 8);
    bn_budget_account(&b, 4, 0, 20000000000u);
    assert_true(come_in(&b, &m, 4, 3.0, &n) <= 48);
    assert_int_equal(come_in(&b, &m, 4, 3.0, &n), 0);
    bn_budget_close(&b);
}
