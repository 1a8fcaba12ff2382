/* SPDX-License-Identifier: MIT
 *
 * lab/stats: distributions, intervals, rank tests, outliers, steadiness and change points, against values
 * that were computed independently (by hand, or in Python), and against properties that hold for all input.
 */
#include <math.h>

#include "base/random.h"
#include "lab/stats/changepoint.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"
#include "tests/unit/status.h"

#define assert_close(a, b, most) assert_true(fabs((a) - (b)) <= (most))
#define EXACT 1e-12

TEST(distributions)
{
    assert_close(bn_normal_cdf(0), 0.5, 0.0);
    assert_close(bn_normal_cdf(1.959963984540054), 0.975, EXACT);
    assert_close(bn_normal_quantile(0.975), 1.959963984540054, EXACT);
    assert_close(bn_normal_quantile(0.8) + bn_normal_quantile(0.975), 2.801585218112969, EXACT);
    assert_close(bn_normal_quantile(1e-10), -6.361340902404056, 1e-9);
    assert_close(bn_student_quantile(0.975, 1), 12.706204736174698, 1e-9);
    assert_close(bn_student_quantile(0.975, 5), 2.570581835636314, EXACT);
    assert_close(bn_student_quantile(0.975, 30), 2.0422724563012373, EXACT);
    assert_close(bn_student_cdf(2, 4), 0.941941738241592, EXACT);
    assert_close(bn_student_cdf(-1, 1), 0.25, EXACT);
    assert_close(bn_binomial_cdf(2, 5, 0.5), 0.5, EXACT);
    assert_close(bn_binomial_cdf(0, 6, 0.5), 1.0 / (double)64, EXACT);
    assert_close(bn_binomial_cdf(3, 10, 0.3), 0.6496107184, EXACT);
    assert_true(isinf(bn_normal_quantile(0)) && isinf(bn_normal_quantile(1)) && bn_normal_quantile(1) > 0);
    assert_true(isinf(bn_normal_quantile((double)NAN)));
    for (double p = 0.001; p < 0.9995; p += 0.001) {
        assert_close(bn_normal_cdf(bn_normal_quantile(p)), p, EXACT);
        assert_close(bn_student_cdf(bn_student_quantile(p, 3.7), 3.7), p, EXACT);
        assert_close(bn_student_quantile(p, 1e6), bn_normal_quantile(p), 1e-4);
        assert_true(bn_normal_quantile(p + 0.0001) > bn_normal_quantile(p));
    }
}

/* ---- what samples look like ---- */

TEST(outliers_are_labelled)
{
    const double x[] = {10, 11, 12, 12, 13, 13, 14, 15, 16, 40, 12, 25}, flat[] = {1, 1, 1, 1, 9};
    struct bn_tukey f;
    assert_true(bn_tukey(&f, x, BN_ARRAY_LEN(x)));
    assert_true(f.q1 == 12 && f.q3 == 15.25);
    assert_true(f.low == 7.125 && f.high == 20.125); /* on the fence is inside */
    assert_int_equal(f.n_outliers, 2);
    assert_true(bn_tukey(&f, flat, 5) && f.n_outliers == 0 && isinf(f.high));
    assert_false(bn_tukey(&f, x, 0));
}

TEST(moments_and_correlation)
{
    const double x[] = {1, 2, 3, 4}, swing[] = {1, -1, 1, -1, 1, -1};
    double sd;
    assert_close(bn_mean(x, 4, &sd), 2.5, EXACT);
    assert_close(sd, sqrt(5 / (double)3), EXACT);
    assert_true(isnan(bn_mean(x, 0, &sd)) && sd == 0);
    assert_close(bn_autocorrelation(swing, 6), -5 / (double)6, EXACT);
    assert_close(bn_autocorrelation(x, 4), 0.25, EXACT);
    assert_true(bn_autocorrelation(x, 2) == 0);
}

/* RANKS: samples, and the rank whose samples from both ends enclose the median; 0: none. */
TEST(median_by_order)
{
    static const size_t RANKS[][2] = {{1, 0},  {5, 0},  {6, 1},  {8, 1},  {9, 2},
                                      {10, 2}, {15, 4}, {20, 6}, {30, 10}};
    static const double COVERAGE[] = {0, 0, 0.96875, 0.99219, 0.96094, 0.97852, 0.96484, 0.95861, 0.95723};
    double x[] = {6, 1, 5, 2, 4, 3}, sorted[30];
    struct bn_interval i;
    for (size_t k = 0; k < 30; k++)
        sorted[k] = (double)(k + 1);
    for (size_t k = 0; k < BN_ARRAY_LEN(RANKS); k++) {
        size_t n = RANKS[k][0], rank = RANKS[k][1];
        must(bn_interval_median(&i, sorted, n, 0.95, NULL));
        assert_true(rank == 0 ? isnan(i.low) && isnan(i.high)
                              : i.low == (double)rank && i.high == (double)(n + 1 - rank));
        if (rank > 0) assert_close(1 - 2 * bn_binomial_cdf(rank - 1, n, 0.5), COVERAGE[k], 5e-6);
    }
    must(bn_interval_median(&i, x, 6, 0.95, NULL));
    assert_true(i.estimate == 3.5 && i.low == 1 && i.high == 6);
    must(bn_interval_median(&i, x, 5, 0.95, NULL));
    assert_true(i.estimate == 4 && isnan(i.low) && isnan(i.high));
    must(bn_interval_median(&i, x, 0, 0.95, NULL));
    assert_true(isnan(i.estimate));
    sorted[0] = (double)INFINITY;
    refused(bn_interval_median(&i, sorted, 2, 0.95, NULL), BN_ERR_ARG);
}

TEST(shares)
{
    struct bn_interval i = bn_interval_wilson(0.5, 10, 0.95);
    assert_close(i.low, 0.236593090512564, EXACT);
    assert_close(i.high, 0.763406909487436, EXACT);
    i = bn_interval_wilson(0, 20, 0.95);
    assert_close(i.low, 0, EXACT);
    assert_close(i.high, 0.1611251580528194, EXACT);
    assert_true(isnan(bn_interval_wilson(0.5, 0, 0.95).low) && isnan(bn_interval_wilson(1.5, 9, 0.95).low));
}

static struct bn_rank_test rank_sum(const double *a, size_t n_a, const double *b, size_t n_b)
{
    struct bn_rank_test r;
    must(bn_rank_sum(&r, a, n_a, b, n_b, 0.95, NULL));
    return r;
}

TEST(rank_sums)
{
    const double a[] = {1.1, 1.3, 1.2, 1.5}, b[] = {1.6, 1.4, 1.8, 1.9};
    const double ta[] = {1, 2, 2, 3}, tb[] = {2, 3, 4, 4};
    const double low[] = {1, 2, 3, 4}, high[] = {5, 6, 7, 8}, same[] = {1, 1, 1, 1};
    struct bn_rank_test r = rank_sum(a, 4, b, 4);
    assert_true(r.statistic == 1);
    assert_close(r.p, 4 / (double)70, EXACT);
    assert_close(r.shift.estimate, 0.4, EXACT);
    assert_close(r.shift.low, -0.1, EXACT); /* of 4 and 4: the least and the greatest difference */
    assert_close(r.shift.high, 0.8, EXACT);
    r = rank_sum(b, 4, a, 4);
    assert_true(r.statistic == 15);
    assert_close(r.p, 4 / (double)70, EXACT);
    assert_close(r.shift.estimate, -0.4, EXACT);
    r = rank_sum(ta, 4, tb, 4);
    assert_true(r.statistic == 2.5);
    assert_close(r.p, 14 / (double)70, EXACT);
    r = rank_sum(low, 3, high, 3);
    assert_close(r.p, 0.1, EXACT);
    assert_true(isnan(r.shift.low)); /* 3 and 3 can never be sure */
    assert_close(rank_sum(low, 4, high, 4).p, 2 / (double)70, EXACT);
    assert_true(rank_sum(same, 4, same, 4).p == 1);
    assert_true(rank_sum(low, 0, high, 4).p == 1);
}

/* Many samples: against the normal distribution, computed by hand; with and without ties. */
TEST(rank_sums_of_many)
{
    double a[30], b[30];
    for (size_t i = 0; i < 30; i++) {
        a[i] = (double)i;
        b[i] = (double)i + 7.5;
    }
    struct bn_rank_test r = rank_sum(a, 30, b, 30);
    assert_true(r.statistic == 253);
    assert_close(r.p, 2 * bn_normal_cdf(-(450 - 253 - 0.5) / sqrt(900.0 / 12 * 61)), EXACT);
    assert_close(r.shift.estimate, 7.5, EXACT);
    assert_true(r.shift.low < 7.5 && r.shift.low > 0 && r.shift.high > 7.5 && r.shift.high < 15);
    for (size_t i = 0; i < 30; i++)
        a[i] = b[i] = (double)(i % 2);
    b[0] = 1;
    r = rank_sum(a, 30, b, 30);
    assert_true(r.statistic == 435);
    double ties = (29.0 * 29 * 29 - 29 + 31.0 * 31 * 31 - 31) / (60.0 * 59);
    assert_close(r.p, 2 * bn_normal_cdf(-14.5 / sqrt(75 * (61 - ties))), EXACT);
}

TEST(signed_ranks)
{
    const double d[] = {.02, .03, -.01, .05, .04, .06, .07, .015}, zeros[] = {0, 0, 0, 0, 0, 0, 0};
    const double tied[] = {1, 1, -1, 2, 0};
    struct bn_rank_test s;
    must(bn_signed_rank(&s, d, 8, 0.95, NULL));
    assert_true(s.statistic == 35);
    assert_close(s.p, 4 / (double)256, EXACT);
    assert_close(s.shift.estimate, 0.035, EXACT);
    assert_close(s.shift.low, 0.01, EXACT); /* the fourth of 36 averages: -.01, .0025, .005, .01 */
    assert_close(s.shift.high, 0.06, EXACT);
    must(bn_signed_rank(&s, tied, 5, 0.95, NULL));
    assert_true(s.statistic == 8);
    assert_close(s.p, 8 / (double)16, EXACT); /* subset sums of {2, 2, 2, 4} at least 3 from 5 */
    must(bn_signed_rank(&s, zeros, 7, 0.95, NULL));
    assert_true(s.p == 1 && s.shift.low == 0 && s.shift.high == 0);
    must(bn_signed_rank(&s, d, 5, 0.95, NULL));
    assert_true(isnan(s.shift.low) && !isnan(s.shift.estimate));
    double many[30];
    for (size_t i = 0; i < 30; i++)
        many[i] = i < 20 ? 1 : -1; /* all of midrank 15.5: W is 310, 77.5 above its mean */
    must(bn_signed_rank(&s, many, 30, 0.95, NULL));
    double variance = 30 * 31 * 61 / (double)24 - (30 * 30 * 30 - 30) / (double)48;
    assert_close(s.p, 2 * bn_normal_cdf(-77 / sqrt(variance)), EXACT);
    must(bn_signed_rank(&s, NULL, 0, 0.95, NULL));
    assert_true(s.p == 1 && isnan(s.shift.estimate));
}

/* The shifts are those of a list of all pairs; with the sides swapped, every sign changes. */
TEST(shifts_are_order_statistics)
{
    uint64_t random = 3;
    for (size_t n = 1; n <= 40; n++) {
        double x[40], minus[40], all[1600];
        size_t m = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] = (double)(int64_t)(bn_splitmix64(&random) % 41) / 8 - 2; /* ties and zeros too */
            minus[i] = -x[i];
        }
        for (size_t i = 0; i < n; i++)
            for (size_t j = i; j < n; j++)
                all[m++] = 0.5 * (x[i] + x[j]);
        struct bn_rank_test s, t;
        must(bn_signed_rank(&s, x, n, 0.95, NULL));
        must(bn_signed_rank(&t, minus, n, 0.95, NULL));
        assert_close(s.shift.estimate, bn_median_in_place(all, m), EXACT);
        assert_close(s.p, t.p, EXACT);
        assert_true(s.p > 0 && s.p <= 1);
        assert_true(n < 6 || (s.shift.low == -t.shift.high && s.shift.low <= s.shift.estimate));

        size_t k = n / 2 + 1;
        m = 0;
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < n; j++)
                all[m++] = minus[j] - x[i];
        struct bn_rank_test r = rank_sum(x, k, minus, n), back = rank_sum(minus, n, x, k);
        assert_close(r.shift.estimate, bn_median_in_place(all, m), EXACT);
        assert_close(r.p, back.p, EXACT);
    }
}

/* A larger shift is never less significant; the exact distribution is close to the normal one where the code
 * changes from one to the other. */
TEST(ranks_are_monotone)
{
    double d[26], before = 1;
    for (size_t i = 0; i < 26; i++)
        d[i] = (double)((i * 11) % 26) - 12.25;
    for (int shift = 0; shift < 14; shift++) {
        struct bn_rank_test s, many;
        must(bn_signed_rank(&s, d, 25, 0.95, NULL));
        must(bn_signed_rank(&many, d, 26, 0.95, NULL));
        assert_true(shift == 0 || s.p <= before + EXACT);
        assert_close(s.p, many.p, 0.12);
        before = s.p;
        for (size_t i = 0; i < 26; i++)
            d[i] += 1;
    }
    assert_true(before < 1e-6);
}

TEST(many_tests)
{
    const double p[] = {0.01, 0.04, 0.03, 0.005, 0.9}, want[] = {0.025, 0.05, 0.05, 0.025, 0.9};
    double q[5];
    must(bn_false_discovery(q, p, 5, NULL));
    for (size_t i = 0; i < 5; i++)
        assert_close(q[i], want[i], EXACT);
    const double close[] = {0.01, 0.02, 0.021}; /* no q is above that of a larger p */
    must(bn_false_discovery(q, close, 3, NULL));
    assert_close(q[0], 0.021, EXACT);
    must(bn_false_discovery(q, p, 0, NULL));
}

TEST(steadiness)
{
    double decay[60], rising[60], noisy[60], step[60];
    struct bn_steady s;
    uint64_t random = 5;
    for (size_t i = 0; i < 60; i++) {
        double noise = (double)(bn_splitmix64(&random) >> 11) * 0x1p-53 - 0.5;
        decay[i] = 100 * (1 + exp(-(double)i / 5)) + 0.2 * noise;
        rising[i] = 100 + (double)i + 0.2 * noise;
        noisy[i] = 100 + 20 * noise;
        step[i] = i < 50 ? 120 : 100;
    }
    size_t settled = 0;
    for (size_t n = 1; n <= 60; n++) {
        must(bn_steady(&s, decay, n, 5, 0.01, NULL));
        assert_true(n >= 10 || (!s.steady && isnan(s.change)));
        if (s.steady && settled == 0) settled = n;
        assert_true(settled == 0 || s.steady); /* once settled, it stays so */
        must(bn_steady(&s, rising, n, 5, 0.01, NULL));
        assert_false(s.steady);
    }
    assert_in_range(settled, 20, 35);
    must(bn_steady(&s, noisy, 60, 10, 0.01, NULL));
    assert_true(s.steady && s.allowed > 0.02); /* noise is not a trend */
    must(bn_steady(&s, step, 60, 10, 0.01, NULL));
    assert_false(s.steady);
    assert_true(s.change < -0.08);
    step[4] = 0;
    refused(bn_steady(&s, step, 60, 10, 0.01, NULL), BN_ERR_ARG);
    refused(bn_steady(&s, decay, 60, 2, 0.01, NULL), BN_ERR_ARG);
}

/* n numbers around 0, +-1. */
static void fill_noise(double *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (double)(bn_splitmix64(&seed) >> 11) * 0x1p-52 - 1;
}

TEST(changes_are_found)
{
    double x[60];
    struct bn_changepoint *list;
    size_t n;
    fill_noise(x, 60, 9);
    for (size_t i = 0; i < 60; i++)
        x[i] += i < 20 ? 0 : i < 45 ? 5 : 3;
    must(bn_changepoints(&list, &n, x, 60, 5, NULL));
    assert_int_equal(n, 2);
    assert_int_equal(list[0].at, 20);
    assert_in_range(list[1].at, 43, 47);
    assert_true(list[0].shift.low < 5 && list[0].shift.high > 5 && list[0].shift.low > 4);
    assert_true(list[1].shift.low < -2 && list[1].shift.high > -2 && list[1].shift.high < -1);
    assert_true(list[0].n_before == 20 && list[0].n_after == list[1].at - 20);
    for (size_t i = 0; i < 2; i++)
        assert_true(list[i].low <= list[i].at && list[i].at <= list[i].high && list[i].p <= 0.01 &&
                    list[i].high - list[i].low <= 8);
    bn_free(list);
}

/* Noise is not a change, and a new change is reported only when there are enough samples after it. */
TEST(noise_is_not_a_change)
{
    double x[40];
    struct bn_changepoint *list;
    size_t n, n_false = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fill_noise(x, 40, seed);
        must(bn_changepoints(&list, &n, x, 40, 5, NULL));
        n_false += n > 0;
        bn_free(list);
    }
    assert_true(n_false <= 2);
    for (size_t n_new = 1; n_new <= 8; n_new++) {
        fill_noise(x, 40, 77);
        for (size_t i = 40 - n_new; i < 40; i++)
            x[i] += 50;
        must(bn_changepoints(&list, &n, x, 40, 0, NULL));
        for (size_t i = 0; i < n; i++)
            assert_true(list[i].at <= 37);
        assert_true(n_new < 3 || (n == 1 && list[0].at == 40 - n_new));
        bn_free(list);
        must(bn_changepoints(&list, &n, x, 40, 5, NULL));
        assert_true(n_new >= 5 ? n == 1 && list[0].at == 40 - n_new : n == 0 || list[0].at <= 35);
        bn_free(list);
    }
    must(bn_changepoints(&list, &n, x, 0, 5, NULL));
    assert_int_equal(n, 0);
    bn_free(list);
    x[7] = (double)NAN;
    refused(bn_changepoints(&list, &n, x, 40, 5, NULL), BN_ERR_ARG);
    assert_null(list);
}

/* ---- what is malformed, what runs out ---- */

TEST(bad_input_is_refused)
{
    const double good[] = {1, 2, 3, 4, 5, 6, 7}, bad[] = {1, (double)NAN, 3};
    struct bn_rank_test s;
    struct bn_rank_test r;
    refused(bn_signed_rank(&s, bad, 3, 0.95, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "sample 1 is not finite");
    refused(bn_rank_sum(&r, bad, 3, good, 3, 0.95, NULL), BN_ERR_ARG);
    refused(bn_rank_sum(&r, good, 3, bad, 3, 0.95, NULL), BN_ERR_ARG);
    refused(bn_signed_rank(&s, good, (size_t)BN_RANKS_MAX + 1, 0.95, NULL), BN_ERR_LIMIT);
    struct bn_mem_stats then = bn_mem_stats();
    for (uint64_t n = 1; n <= 5; n++) {
        struct bn_interval i;
        struct bn_changepoint *list;
        size_t n_found;
        bn_mem_fail_after(n);
        refused(bn_signed_rank(&s, good, 7, 0.95, NULL), BN_ERR_NOMEM);
        bn_mem_fail_after(n);
        refused(bn_rank_sum(&r, good, 7, good, 7, 0.95, NULL), BN_ERR_NOMEM);
        bn_mem_fail_after(1);
        refused(bn_interval_median(&i, good, 7, 0.95, NULL), BN_ERR_NOMEM);
        bn_mem_fail_after(n < 3 ? n : 1);
        refused(bn_changepoints(&list, &n_found, good, 7, 5, NULL), BN_ERR_NOMEM);
    }
    bn_mem_fail_after(0);
    assert_int_equal(bn_mem_stats().bytes_now, then.bytes_now);
}
