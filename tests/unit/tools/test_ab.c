/* SPDX-License-Identifier: MIT
 *
 * tools/bench/ab/ab.h: the order of a session, and its verdicts. Values and control times are made up,
 * so nothing depends on the speed of the machine.
 */
#include <math.h>

#include "base/error.h"
#include "base/random.h"
#include "tests/unit/status.h"
#include "tools/bench/ab/ab.h"

/* What the made-up sides give. */
struct fake {
    double effect, drift, noise; /* of B; a slot; of each value */
    bool higher, exact;
    uint64_t random, n;
    uint32_t stop_in, lacks_in; /* rounds in which B stops, or lacks its value; UINT32_MAX: none */
    bool only_b;                /* another series that A lacks */
};

static struct fake plain(double effect)
{
    return (struct fake){
        .effect = effect, .noise = 0.004, .random = 7, .stop_in = UINT32_MAX, .lacks_in = UINT32_MAX};
}

static double uniform(struct fake *f)
{
    return (double)(bn_splitmix64(&f->random) >> 11) * 0x1p-53 - 0.5;
}

static bn_status run(void *user, struct bn_ab_slot *slot, bn_error *e)
{
    struct fake *f = user;
    bool b = slot->side == BN_AB_B;
    double cost = 1000 * (1 + f->drift * (double)f->n++) * (1 + f->noise * uniform(f));
    if (b) cost *= 1 + f->effect;
    double value = f->higher ? 1e6 / cost : cost;
    struct bn_series s = {"t", "m", "1", f->higher, f->exact, &value, 1, 0, false};
    if (b && slot->round == f->stop_in) {
        slot->stop = true;
        snprintf(slot->failed, sizeof slot->failed, "ran into the time limit");
        return BN_OK;
    }
    if (b && slot->round == f->lacks_in) return BN_OK;
    BN_TRY(bn_series_add(&slot->values, &s, e));
    s.test = "other";
    return b && f->only_b ? bn_series_add(&slot->values, &s, e) : BN_OK;
}

static struct bn_ab_session session(struct fake *f, uint32_t rounds)
{
    struct bn_ab_session s = {.rounds = rounds,
                              .warmup = 1,
                              .seed = 3,
                              .rules = BN_JUDGE_RULES_INIT,
                              .run = run,
                              .user = f,
                              .no_control = true};
    must(bn_ab_session_run(&s, NULL));
    return s;
}

static enum bn_outcome judged(struct bn_ab_session *s)
{
    must(bn_ab_session_judge(s, NULL));
    assert_true(s->result.n >= 1);
    return s->result.list[0].j.outcome;
}

TEST(rounds_have_each_side_once)
{
    struct fake f = plain(0);
    struct bn_ab_session s = session(&f, 20), again = session(&f, 20);
    size_t first[BN_AB_SIDES] = {0};
    assert_int_equal(s.n_slots, 21 * 3);
    for (uint32_t r = 0; r < 21; r++) {
        unsigned seen = 0;
        for (uint32_t k = 0; k < 3; k++) {
            const struct bn_ab_slot *slot = &s.slots[r * 3 + k];
            assert_int_equal(slot->round, r);
            assert_int_equal(slot->warmup, r < 1);
            assert_int_equal(slot->side, again.slots[r * 3 + k].side);
            seen |= 1u << slot->side;
            /* The second round of a block is the first one reversed. */
            if (r >= 1 && (r - 1) % 2 == 1) assert_int_equal(slot->side, s.slots[r * 3 - 1 - k].side);
        }
        assert_int_equal(seen, 7);
        first[s.slots[r * 3].side]++;
    }
    for (int side = 0; side < BN_AB_SIDES; side++)
        assert_true(first[side] > 0);
    bn_ab_session_release(&s);
    bn_ab_session_release(&again);
}

TEST(changes_are_found_under_drift)
{
    static const struct {
        double effect;
        bool higher;
        enum bn_outcome outcome;
    } CASES[] = {{0.05, false, BN_OUTCOME_REGRESSED}, {-0.05, false, BN_OUTCOME_IMPROVED},
                 {0.05, true, BN_OUTCOME_REGRESSED},  {-0.05, true, BN_OUTCOME_IMPROVED},
                 {0, false, BN_OUTCOME_SAME},         {0, true, BN_OUTCOME_SAME}};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct fake f = plain(CASES[i].effect);
        f.higher = CASES[i].higher;
        f.drift = 0.002; /* 12 % from the first slot to the last */
        struct bn_ab_session s = session(&f, 20);
        assert_int_equal(judged(&s), CASES[i].outcome);
        assert_int_equal(s.result.n_incomplete, 0);
        assert_true(fabs(s.result.list[0].j.change - CASES[i].effect) < 0.01);
        bn_ab_session_release(&s);
    }
}

TEST(exact_values_have_no_noise)
{
    for (int higher = 0; higher < 2; higher++) {
        for (int sign = -1; sign <= 1; sign++) {
            struct fake f = plain(sign * 0.001);
            f.noise = 0;
            f.exact = true;
            f.higher = higher != 0;
            struct bn_ab_session s = session(&f, 2);
            assert_int_equal(judged(&s), sign > 0   ? BN_OUTCOME_REGRESSED
                                         : sign < 0 ? BN_OUTCOME_IMPROVED
                                                    : BN_OUTCOME_SAME);
            assert_true(fabs(s.result.list[0].j.change - sign * 0.001) < 1e-9);
            bn_ab_session_release(&s);
        }
    }
}

TEST(missing_values_fail)
{
    struct fake f = plain(0);
    f.lacks_in = 5;
    struct bn_ab_session s = session(&f, 10);
    assert_int_equal(judged(&s), BN_OUTCOME_INCONCLUSIVE);
    assert_int_equal(s.result.n_incomplete, 1);
    assert_has(s.result.list[0].j.reason, "10 of A and 9 of B have a value");
    bn_ab_session_release(&s);

    f = plain(0);
    f.only_b = true;
    s = session(&f, 10);
    assert_int_equal(judged(&s), BN_OUTCOME_SAME);
    assert_int_equal(s.result.n, 2);
    assert_int_equal(s.result.n_incomplete, 1);
    assert_string_equal(s.result.list[1].j.reason, "only in B");
    bn_ab_session_release(&s);

    for (uint32_t round = 0; round < 8; round += 7) { /* while warming up, and later */
        f = plain(0.5);
        f.stop_in = round;
        s = session(&f, 10);
        must(bn_ab_session_judge(&s, NULL));
        assert_int_equal(bn_comparisons_worst(s.result.list, s.result.n), BN_OUTCOME_INCONCLUSIVE);
        assert_ptr_equal(bn_ab_session_stop(&s), &s.slots[s.n_slots - 1]);
        assert_int_equal(s.slots[s.n_slots - 1].side, BN_AB_B);
        assert_int_equal(s.slots[s.n_slots - 1].round, round);
        assert_int_equal(s.result.n_incomplete, s.result.n);
        bn_ab_session_release(&s);
    }
}

/* The fault is planted into the times of the control: what is said of the metric must go away. */
TEST(a_control_that_differs_contaminates)
{
    for (int fault = 0; fault < 4; fault++) {
        struct fake f = plain(0.05);
        struct bn_ab_session s = session(&f, 20);
        s.no_control = false;
        for (size_t i = 0; i < s.n_slots; i++) {
            struct bn_ab_slot *slot = &s.slots[i];
            for (int k = 0; k < BN_AB_CONTROLS; k++)
                slot->control_ns[k] = 1e6 * (1 + 0.004 * uniform(&f));
            if (fault == 1 && slot->side == BN_AB_B) slot->control_ns[BN_AB_SPIN] *= 1.04;
            if (fault == 2 && slot->side == BN_AB_B) slot->control_ns[BN_AB_TRIAD] *= 0.95;
            if (fault == 3 && slot->round > 10) slot->control_ns[BN_AB_SPIN] *= 1.2;
        }
        assert_int_equal(judged(&s), fault == 0 ? BN_OUTCOME_REGRESSED : BN_OUTCOME_INCONCLUSIVE);
        assert_int_equal(s.contaminated[0] != '\0', fault != 0);
        if (fault != 0) assert_string_equal(s.result.list[0].j.reason, s.contaminated);
        bn_ab_session_release(&s);
    }
}
