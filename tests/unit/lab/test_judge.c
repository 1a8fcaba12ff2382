/* SPDX-License-Identifier: MIT
 *
 * lab/stats/judge: one rule, five outcomes, each with a reason, at its exact conditions.
 */
#include <math.h>

#include "lab/stats/judge.h"
#include "tests/unit/status.h"

#define assert_close(a, b, most) assert_true(fabs((a) - (b)) <= (most))

static const struct bn_judge_rules RULES = BN_JUDGE_RULES_INIT;

/* n numbers about the middle, evenly spread over +-width, in an order that mixes them. */
static void spread(double *d, size_t n, double middle, double width)
{
    for (size_t i = 0; i < n; i++)
        d[i] = middle + width * (2 * (double)((i * 7) % n) / (double)(n - 1) - 1);
}

static struct bn_judgement judge(const double *d, size_t n, const double *null, size_t n_null)
{
    struct bn_judgement j;
    must(bn_judge_pairs(&j, d, n, null, n_null, &RULES, &err));
    assert_true(strlen(j.reason) > 10);
    return j;
}

TEST(each_outcome_is_reached)
{
    double d[20], minus[20];
    spread(d, 20, 0.05, 0.01);
    for (size_t i = 0; i < 20; i++)
        minus[i] = -d[i];
    struct bn_judgement j = judge(d, 20, NULL, 0);
    assert_int_equal(j.outcome, BN_OUTCOME_REGRESSED);
    assert_close(j.change, expm1(0.05), 1e-9);
    assert_true(j.low > 0.04 && j.high < 0.06 && j.p < 1e-4 && j.p > 0);
    assert_close(j.agreement, 1, 0);
    assert_has(j.reason, "is beyond 1 %; 20 of 20 pairs agree in sign");

    j = judge(minus, 20, NULL, 0);
    assert_int_equal(j.outcome, BN_OUTCOME_IMPROVED);
    assert_close(j.change, expm1(-0.05), 1e-9);

    spread(d, 20, 0, 0.01);
    j = judge(d, 20, NULL, 0);
    assert_int_equal(j.outcome, BN_OUTCOME_SAME);
    assert_has(j.reason, "is within 1 %");
    assert_true(j.mde > 0 && j.mde < 0.01 && j.n_needed == 0);

    spread(d, 20, 0.02, 0.1);
    j = judge(d, 20, NULL, 0);
    assert_int_equal(j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_has(j.reason, "not clearly within or beyond 1 %; about ");
    assert_true(j.n_needed > 20);
}

/* So many pairs as an inconclusive result asks for, spread alike, do give an outcome. */
TEST(n_needed_is_enough)
{
    static const double MIDDLES[] = {0, 0.004, 0.016, 0.03};
    for (size_t i = 0; i < BN_ARRAY_LEN(MIDDLES); i++) {
        static double d[4096];
        spread(d, 12, MIDDLES[i], 0.06);
        struct bn_judgement j = judge(d, 12, NULL, 0);
        assert_int_equal(j.outcome, BN_OUTCOME_INCONCLUSIVE);
        assert_in_range(j.n_needed, 13, 4000);
        size_t n = j.n_needed + j.n_needed / 5; /* "about" */
        while (n % 7 == 0)
            n++;
        for (size_t k = 0; k < n; k++)
            d[k] = MIDDLES[i] + 0.06 * (2 * (double)((k * 7) % n) / (double)(n - 1) - 1);
        j = judge(d, n, NULL, 0);
        if (i < 2)
            assert_int_equal(j.outcome, BN_OUTCOME_SAME);
        else
            assert_true(j.low > 0.01);
    }
}

/* The same pairs that are called a regression are not, once one of the four conditions is missing. */
TEST(each_condition_counts)
{
    double d[20], null[20], few[5] = {0.05, 0.05, 0.05, 0.05, 0.05};
    spread(d, 20, 0.05, 0.01);
    spread(null, 20, 0.06, 0.01); /* the copy differs more than the new program does */
    struct bn_judgement j = judge(d, 20, null, 20);
    assert_int_equal(j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_true(j.band > 0.06 && j.n_needed == 0);
    assert_has(j.reason, "and A differs from itself by up to ");
    spread(null, 20, 0, 0.01);
    assert_int_equal(judge(d, 20, null, 20).outcome, BN_OUTCOME_REGRESSED);

    j = judge(few, 5, NULL, 0); /* no interval */
    assert_int_equal(j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_true(isnan(j.low) && isnan(j.high) && j.n_needed >= 6);
    assert_string_equal(j.reason, "5 pairs are too few for an interval; at least 6 are needed");

    for (size_t i = 0; i < 20; i++) /* 13 up, 7 a little down: surely more, but not in four of five pairs */
        d[i] = i % 20 < 13 ? 0.06 + 0.0001 * (double)i : -0.001 - 0.0001 * (double)i;
    j = judge(d, 20, NULL, 0);
    assert_true(j.low > 0.01 && j.p < 0.05);
    assert_int_equal(j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_has(j.reason, "only 13 of 20 pairs agree in sign");
}

/* Within on one side only is not within; and a test may ask for more than its interval does. */
TEST(improvements_mirror_regressions)
{
    double d[20];
    for (int side = -1; side <= 1; side += 2) {
        spread(d, 20, side * 0.008, 0.016);
        struct bn_judgement j = judge(d, 20, NULL, 0);
        assert_int_equal(j.outcome, BN_OUTCOME_INCONCLUSIVE);
        assert_true(side < 0 ? j.low < -0.01 && j.high < 0.01 : j.low > -0.01 && j.high > 0.01);
    }
    struct bn_judge_rules strict = RULES;
    struct bn_judgement j;
    strict.q = 0.001;
    spread(d, 8, 0.05, 0.01);
    must(bn_judge_pairs(&j, d, 8, NULL, 0, &strict, NULL));
    assert_int_equal(j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_has(j.reason, "p is 0.0078, not below 0.001; about ");
    assert_in_range(j.n_needed, 9, 20);
    for (size_t i = 0; i < 8; i++) /* half of them equal: their distance from the median says nothing */
        d[i] = i < 5 ? 0.05 : 0.06;
    assert_true(judge(d, 8, NULL, 0).mde > 0.001);
}

TEST(no_data_is_not_a_pass)
{
    struct bn_judgement j = judge(NULL, 0, NULL, 0);
    assert_int_equal(j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_true(isnan(j.low) && isnan(j.change) && j.n == 0 && j.p >= 1);
    assert_string_equal(j.reason, "there are no pairs");

    double zeros[8] = {0}; /* a clock too coarse to tell */
    j = judge(zeros, 8, NULL, 0);
    assert_int_equal(j.outcome, BN_OUTCOME_SAME);
    assert_close(j.p, 1, 0);
}

TEST(bad_numbers_are_refused)
{
    struct bn_judgement j;
    double d[8] = {0.1, 0.1, 0.1, 0.1, (double)NAN, 0.1, 0.1, 0.1}, one[1] = {1}, zero[1] = {0};
    refused(bn_judge_pairs(&j, d, 8, NULL, 0, &RULES, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "pair 4 is not finite");
    refused(bn_judge_pairs(&j, d, 4, d, 8, &RULES, NULL), BN_ERR_ARG);
    refused(bn_judge_samples(&j, one, 1, zero, 1, 0, &RULES, NULL), BN_ERR_ARG);
    refused(bn_judge_samples(&j, zero, 1, one, 1, 0, &RULES, NULL), BN_ERR_ARG);
    refused(bn_judge_samples(&j, one, 1, one, 1, -1, &RULES, NULL), BN_ERR_ARG);
    struct bn_judge_rules rules = RULES;
    rules.confidence = 1;
    refused(bn_judge_pairs(&j, d, 4, NULL, 0, &rules, NULL), BN_ERR_ARG);
    rules = RULES;
    rules.margin = (double)NAN;
    refused(bn_judge_pairs(&j, d, 4, NULL, 0, &rules, NULL), BN_ERR_ARG);
    refused(bn_judge_session(&j, 1, &rules, NULL), BN_ERR_ARG);
    /* Memory that runs out is an error, never an outcome, whichever allocation fails. */
    bn_status status;
    SHORT_MEMORY (status) {
        spread(d, 8, 0.05, 0.001);
        status = bn_judge_pairs(&j, d, 8, d, 8, &RULES, NULL);
        assert_true(status == BN_OK || j.outcome == BN_OUTCOME_INCONCLUSIVE);
    }
}

TEST(samples_of_different_times)
{
    double a[12], b[12], split[12];
    struct bn_judgement j;
    for (size_t i = 0; i < 12; i++) {
        a[i] = 100 + (double)((i * 5) % 12) * 0.1;
        b[i] = 1.05 * a[i];
        split[i] = a[i] * (i % 2 == 0 ? 1.02 : 1.14);
    }
    const struct {
        const double *a, *b;
        size_t n_a, n_b;
        double drift;
        enum bn_outcome outcome;
    } CASES[] = {
        {a, b, 12, 12, 0.02, BN_OUTCOME_REGRESSED},
        {b, a, 12, 12, 0.02, BN_OUTCOME_IMPROVED},
        {a, a, 12, 12, 0.08, BN_OUTCOME_STABLE},           /* for the machine may have made up for it */
        {a, split, 12, 12, 0.08, BN_OUTCOME_INCONCLUSIVE}, /* an interval across the limit of the drift */
        {a, a, 12, 12, 0, BN_OUTCOME_SAME},
        {a, b, 3, 3, 0, BN_OUTCOME_INCONCLUSIVE},
        {a, b, 0, 3, 0, BN_OUTCOME_INCONCLUSIVE},
        {a, b, 12, 12, 0.08, BN_OUTCOME_STABLE}, /* the whole interval is within the drift */
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        must(bn_judge_samples(&j, CASES[i].a, CASES[i].n_a, CASES[i].b, CASES[i].n_b, CASES[i].drift, &RULES,
                              NULL));
        assert_int_equal(j.outcome, CASES[i].outcome);
        assert_true(isnan(j.low) == (CASES[i].n_a < 12));
    }
    assert_has(j.reason, "is within 8 %, the drift allowed between two sessions");
    assert_close(j.change, 0.05, 1e-9);
    assert_true(isnan(j.agreement) && j.p < 0.05 && j.n_needed == 0);
}

TEST(exact_values)
{
    static const struct {
        double a, b;
        bool higher;
        enum bn_outcome outcome;
    } CASES[] = {{4096, 4096, false, BN_OUTCOME_SAME},     {4096, 4097, false, BN_OUTCOME_REGRESSED},
                 {4096, 4095, false, BN_OUTCOME_IMPROVED}, {0, 1, false, BN_OUTCOME_REGRESSED},
                 {0, 0, false, BN_OUTCOME_SAME},           {(double)NAN, 1, false, BN_OUTCOME_INCONCLUSIVE},
                 {0.2, 0, true, BN_OUTCOME_REGRESSED},     {0, 0.2, true, BN_OUTCOME_IMPROVED},
                 {0.3, 0.2, true, BN_OUTCOME_REGRESSED}};
    struct bn_judgement j;
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        bn_judge_exact(&j, CASES[i].a, CASES[i].b, CASES[i].higher);
        assert_int_equal(j.outcome, CASES[i].outcome);
    }
    assert_close(j.change, 0.5, 1e-12); /* of the cost: more is better */
    bn_judge_exact(&j, 4096, 4097, false);
    assert_string_equal(j.reason, "4096 became 4097; these values have no noise");
}

/* A p of 0.03 is enough alone, not among twenty; exact values are not affected. */
TEST(the_session_corrects_for_many_tests)
{
    struct bn_judgement list[20];
    double d[6];
    spread(d, 6, 0.05, 0.005);
    list[0] = judge(d, 6, NULL, 0);
    assert_int_equal(list[0].outcome, BN_OUTCOME_REGRESSED);
    must(bn_judge_session(list, 1, &RULES, NULL));
    assert_int_equal(list[0].outcome, BN_OUTCOME_REGRESSED);
    spread(d, 6, 0, 0.005);
    for (size_t i = 1; i < 19; i++)
        list[i] = judge(d, 6, NULL, 0);
    bn_judge_exact(&list[19], 1, 2, false);
    must(bn_judge_session(list, 20, &RULES, NULL));
    assert_int_equal(list[0].outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_close(list[0].q, 19 * 2.0 / 64, 1e-12);
    assert_true(list[0].n_needed > 6);
    assert_has(list[0].reason, "among 19 comparisons");
    assert_int_equal(list[1].outcome, BN_OUTCOME_SAME);
    assert_int_equal(list[19].outcome, BN_OUTCOME_REGRESSED);

    must(bn_judge_session(list, 0, &RULES, NULL));
}

TEST(names)
{
    assert_string_equal(bn_outcome_name(BN_OUTCOME_INCONCLUSIVE), "INCONCLUSIVE");
    assert_string_equal(bn_outcome_name(BN_OUTCOME_SAME), "SAME");
    assert_string_equal(bn_outcome_name(BN_OUTCOME_STABLE), "STABLE");
    assert_string_equal(bn_outcome_name(BN_OUTCOME_IMPROVED), "IMPROVED");
    assert_string_equal(bn_outcome_name(BN_OUTCOME_REGRESSED), "REGRESSED");
}
