/* SPDX-License-Identifier: MIT
 *
 * Two sets of stacks against each other: what is compared, matched and kept; and, by simulation, how often
 * recordings of the same thing look different, and what is found when they are.
 */
#include "tests/unit/stacks/diff_stacks.h"
/* ---- the test of samples ---- */

static double choose(unsigned n, unsigned k)
{
    double c = 1;
    for (unsigned i = 1; i <= k; i++)
        c = c * (n - k + i) / i;
    return k > n ? 0 : c;
}

TEST(fisher_is_the_sum_of_all_tables)
{
    for (unsigned n_a = 1; n_a <= 12; n_a += 3)
        for (unsigned n_b = 1; n_b <= 21; n_b += 4)
            for (unsigned a = 0; a <= n_a; a++)
                for (unsigned b = 0; b <= n_b; b++) {
                    double below = 0, above = 0, all = choose(n_a + n_b, a + b), least = 1;
                    for (unsigned x = 0; x <= n_a && x <= a + b; x++) {
                        if (a + b - x > n_b) continue;
                        double p = choose(n_a, x) * choose(n_b, a + b - x) / all;
                        if (x <= a) below += p;
                        if (x >= a) above += p;
                        if (x == 0 || a + b - x == n_b || x == n_a || x == a + b) least = fmin(least, 2 * p);
                    }
                    double share_a = (double)a / n_a, share_b = (double)b / n_b;
                    struct bn_fisher got = bn_fisher(share_a, n_a, share_b, n_b);
                    struct bn_interval difference = bn_interval_difference(share_a, n_a, share_b, n_b, 0.95);
                    assert_near(got.p, fmin(1, 2 * fmin(below, above)), 1e-11);
                    assert_near(got.least_p, fmin(1, least), 1e-11);
                    assert_true(difference.low <= share_b - share_a + 1e-15);
                    assert_true(difference.high >= share_b - share_a - 1e-15);
                }
}

TEST(fisher_of_many_samples_is_the_normal_test)
{
    struct bn_fisher got = bn_fisher(0.30, 1e6, 0.302, 1e6);
    double z = 0.002 / sqrt(0.301 * 0.699 * 2e-6), normal = 2 * bn_normal_cdf(-z);
    assert_true(fabs(got.p / normal - 1) < 0.03);
    /* A tail too far away for a double is not 0, and takes no time; more samples than can matter neither. */
    got = bn_fisher(0.1, 1e18, 0.9, 1e18);
    assert_true(got.p > 0 && got.p < 1e-300);
    assert_true(isnan(bn_fisher(0.5, 0, 0.5, 10).p));
    /* Newcombe's example (1998, table II, method 10): 56 of 70 and 48 of 80. */
    struct bn_interval newcombe = bn_interval_difference(48.0 / 80, 80, 56.0 / 70, 70, 0.95);
    assert_near(newcombe.low, 0.0524, 5e-5);
    assert_near(newcombe.high, 0.3339, 5e-5);
}

TEST(a_shift_has_its_signs)
{
    bn_stacks *before = NULL, *after = NULL;
    struct bn_stacks_diff d;
    append(&before, "main;hot;leaf 500\nmain;hot 200\nmain;cold 300\n");
    append(&after, "main;hot;leaf 400\nmain;hot 100\nmain;cold 500\n");
    compare(&d, before, after, &PLAIN);
    assert_false(d.by_runs);
    const struct bn_diff_value *hot = of(&d, d.total, "hot"), *leaf = of(&d, d.self, "leaf");
    assert_near(hot->before, 0.7, 1e-12);
    assert_near(hot->after, 0.5, 1e-12);
    assert_true(hot->significant && hot->high < 0 && hot->low > -0.3);
    assert_int_equal(d.samples[0], 1000);
    assert_near(of(&d, d.self, "hot")->after, 0.1, 1e-12);
    assert_true(leaf->significant && leaf->after < leaf->before);
    const struct bn_diff_value *cold = of(&d, d.self, "cold");
    assert_true(cold->significant && cold->low > 0);
    const struct bn_diff_value *whole = of(&d, d.total, "main");
    assert_near(whole->before, 1, 1e-12);
    assert_false(whole->significant);
    assert_true(isnan(whole->p)); /* it cannot differ */
    /* The nodes agree with the functions: each has one path here. */
    uint32_t main_ = bn_stacks_child(d.tree, BN_STACKS_ROOT, BN_FRAME_CODE, "main");
    uint32_t node = bn_stacks_child(d.tree, main_, BN_FRAME_CODE, "hot");
    assert_near(d.paths[node].p, hot->p, 0);
    assert_true(d.paths[node].significant);
    /* A single run says nothing of how long a run is. */
    assert_true(isnan(d.paths[0].p));
    bn_stacks_diff_release(&d);
}

TEST(what_is_gone_or_new_stays)
{
    bn_stacks *before = NULL, *after = NULL;
    struct bn_stacks_diff d;
    append(&before, "main;old;deep 40\nmain;work 60\n");
    append(&after, "main;work 60\nmain;new 40\n");
    compare(&d, before, after, &PLAIN);
    assert_near(of(&d, d.self, "deep")->after, 0, 0);
    assert_near(of(&d, d.self, "deep")->before, 0.4, 1e-12);
    assert_true(of(&d, d.total, "old")->significant);
    assert_true(of(&d, d.self, "new")->significant);
    assert_near(of(&d, d.self, "new")->before, 0, 0);
    assert_int_equal(of(&d, d.self, "work")->significant, false);
    assert_int_equal(d.tree->n_nodes, 6);
    bn_stacks_diff_release(&d);
}

TEST(recursion_counts_once)
{
    bn_stacks *before = NULL, *after = NULL;
    struct bn_stacks_diff d;
    append(&before, "f;g;f;g;f 10\nf;f 10\ng;f 10\ng 10\n");
    append(&after, "f;g;f;g;f 10\nf;f 10\ng;f 10\ng 10\n");
    compare(&d, before, after, &PLAIN);
    assert_near(of(&d, d.total, "f")->before, 30.0 / 40, 1e-12);
    assert_near(of(&d, d.total, "g")->before, 30.0 / 40, 1e-12);
    assert_near(of(&d, d.self, "f")->before, 30.0 / 40, 1e-12);
    bn_stacks_diff_release(&d);
}

TEST(frames_are_matched_by_name)
{
    bn_stacks *side[2];
    struct bn_stacks_diff d;
    for (int i = 0; i < 2; i++) {
        uint32_t node = BN_STACKS_ROOT;
        struct bn_frame frame = {"f", i == 0 ? "libold.so" : "libnew.so", "", 0, BN_FRAME_CODE};
        must(bn_stacks_open(&side[i], "ns", "cpu", &err));
        must(bn_stacks_push(side[i], &node, &frame, SIZE_MAX, &err));
        bn_stacks_add(side[i], node, 0, 100, 10);
    }
    compare(&d, side[0], side[1], &PLAIN);
    assert_int_equal(d.tree->n_nodes, 2);
    bn_stacks_diff_release(&d);
}

TEST(the_same_gives_nothing)
{
    static const char TEXT[] = "a;b;c 13\na;b 200\na;d 1000\n[x] 2\n";
    for (int runs = 1; runs <= 3; runs++) {
        bn_stacks *before = NULL, *after = NULL;
        struct bn_stacks_diff d;
        for (int i = 0; i < runs; i++) {
            append(&before, TEXT);
            append(&after, TEXT);
        }
        compare(&d, before, after, &SAME_WORK);
        assert_int_equal(significant_paths(&d) + significant_functions(&d), 0);
        assert_true((d.n_judged > 0) == (runs > 1)); /* weights of single runs are not judged */
        for (size_t i = 0; i < d.tree->n_nodes; i++)
            assert_true(isnan(d.paths[i].p) || d.paths[i].p == 1);
        bn_stacks_diff_release(&d);
    }
}

static void refuse(const char *before, const char *after, const char *unit, const char *what, bn_status want)
{
    struct bn_stacks_diff d;
    bn_stacks *b = NULL, *a = NULL;
    append(&b, before);
    append(&a, after);
    snprintf(b->what, sizeof b->what, "cpu");
    snprintf(a->unit, sizeof a->unit, "%s", unit);
    snprintf(a->what, sizeof a->what, "%s", what);
    refused(bn_stacks_diff(&d, b, a, &PLAIN, &err), want);
    assert_true(err.msg[0] != '\0' && d.tree == NULL);
    bn_stacks_close(b);
    bn_stacks_close(a);
}

TEST(what_cannot_be_compared_is_refused)
{
    refuse("f 1\n", "f 1\n", "ns", "cpu", BN_ERR_ARG);
    refuse("f 1\n", "f 1\n", "samples", "wall", BN_ERR_ARG);
    refuse("f 0\n", "f 1\n", "samples", "cpu", BN_ERR_MISMATCH);
    refuse("f 1\n", "f 0\n", "samples", "cpu", BN_ERR_MISMATCH);
}

TEST(memory_that_is_short_is_an_error)
{
    bn_stacks *before = NULL, *after = NULL;
    append(&before, "a;b;c 13\na;b 200\n");
    append(&after, "a;b;c 213\na;d 20\n");
    bn_status status;
    SHORT_MEMORY (status) {
        struct bn_stacks_diff d;
        status = bn_stacks_diff(&d, before, after, &SAME_WORK, NULL);
        bn_stacks_diff_release(&d);
    }
    bn_stacks_close(before);
    bn_stacks_close(after);
}

/* ---- which test, and of what ---- */

TEST(without_samples_it_is_welch)
{
    bn_stacks *before = NULL, *after = NULL;
    struct bn_stacks_diff d;
    append(&before, "f 10.5\ng 89.5\n");
    append(&before, "f 11.5\ng 88.5\n");
    append(&before, "f 9.75\ng 90.25\n");
    append(&after, "f 12.5\ng 87.5\n");
    append(&after, "f 13\ng 87\n");
    compare(&d, before, after, &PLAIN);
    const double t = -3.8334908600273248, df = 2.7642064010450693; /* computed in Python */
    const struct bn_diff_value *f = of(&d, d.self, "f");
    assert_near(f->p, 2 * bn_student_cdf(t, df), 1e-12);
    assert_near(f->df, df, 1e-9);
    /* The interval is the test inverted. */
    double half = bn_student_quantile(0.975, df) * f->error;
    assert_near(f->high - f->low, 2 * half, 1e-12);
    assert_string_equal(d.method, "Welch's t over runs");
    bn_stacks_diff_release(&d);

    before = after = NULL;
    append(&before, "f 10.5\ng 89.5\n");
    append(&after, "f 50.5\ng 49.5\n");
    compare(&d, before, after, &PLAIN);
    assert_true(isnan(of(&d, d.self, "f")->p));
    assert_int_equal(d.n_judged, 0);
    assert_has(d.method, "not judged");
    bn_stacks_diff_release(&d);
}

/* Three runs without a frame and three with one sample each: Welch's t alone, with runs of slightly different
 * length, finds that hardly possible by chance. */
TEST(runs_that_agree_by_chance_are_not_believed)
{
    static const char *const AFTER[] = {"f 1\ng 1000\n", "f 1\ng 1001\n", "f 1\ng 999\n"};
    bn_stacks *before = NULL, *after = NULL;
    struct bn_stacks_diff d;
    for (int i = 0; i < 3; i++) {
        append(&before, "g 1000\n");
        append(&after, AFTER[i]);
    }
    compare(&d, before, after, &PLAIN);
    assert_true(2 * bn_student_cdf(-1733.78, 2) < 1e-5); /* Welch's t of these shares */
    assert_true(isnan(of(&d, d.self, "f")->p));          /* 3 samples cannot tell, whatever they say */
    assert_int_equal(d.n_judged, 0);
    bn_stacks_diff_release(&d);

    before = after = NULL;
    for (int i = 0; i < 3; i++) {
        append(&before, "f 1\ng 1000\n");
        append(&after, "f 4\ng 1000\n");
    }
    compare(&d, before, after, &PLAIN);
    const struct bn_diff_value *f = of(&d, d.self, "f");
    assert_true(f->p > 0.03 && f->p < 0.5); /* 3 of 3003 and 12 of 3012 */
    bn_stacks_diff_release(&d);
}

/* Samples of different weight: 10 of 100 and 1000 of 1 are as good as (2000)^2 / (10 * 100^2 + 1000) = 39.6.
 */
TEST(weight_is_not_evidence)
{
    double p[2];
    for (int heavy = 0; heavy < 2; heavy++) {
        bn_stacks *side[2];
        struct bn_stacks_diff d;
        for (int i = 0; i < 2; i++) {
            uint32_t f = BN_STACKS_ROOT, g = BN_STACKS_ROOT;
            must(bn_stacks_open(&side[i], "ns", "cpu", &err));
            must(bn_stacks_push_name(side[i], &f, BN_FRAME_CODE, "f", &err));
            must(bn_stacks_push_name(side[i], &g, BN_FRAME_CODE, "g", &err));
            bn_stacks_add(side[i], f, 0, i == 0 ? 1000 : 1300, heavy ? 10 + 3 * (uint64_t)i : 1000);
            bn_stacks_add(side[i], g, 0, 1000, 1000);
        }
        compare(&d, side[0], side[1], &PLAIN);
        p[heavy] = of(&d, d.self, "f")->p;
        bn_stacks_diff_release(&d);
    }
    assert_true(p[0] < 1e-4 && p[1] > 0.3);
}

TEST(weights_of_the_same_work)
{
    static const unsigned WIGGLE[] = {0, 7, 12, 3, 9};
    bn_stacks *before = NULL, *after = NULL;
    struct bn_stacks_diff d;
    for (size_t i = 0; i < BN_ARRAY_LEN(WIGGLE); i++) {
        char text[64];
        snprintf(text, sizeof text, "f %u\ng %u\n", 5000 + WIGGLE[i], 5000 + 2 * WIGGLE[4 - i]);
        append(&before, text);
        snprintf(text, sizeof text, "f %u\ng %u\n", 10000 + WIGGLE[4 - i], 10000 + WIGGLE[i]);
        append(&after, text);
    }
    compare(&d, before, after, &SAME_WORK);
    const struct bn_diff_value *f = of(&d, d.self, "f"), *whole = &d.paths[0];
    assert_true(f->significant && f->low * d.weight[0] > 4500 && f->high * d.weight[0] < 5500);
    assert_true(whole->significant && whole->low * d.weight[0] > 9900 && whole->high * d.weight[0] < 10100);
    assert_near(d.weight[0], 10012.4 + 6.2, 1e-9);
    assert_near(whole->before, 1, 1e-12);
    bn_stacks_diff_release(&d);
}

TEST(less_than_min_share_is_not_judged)
{
    const struct bn_stacks_diff_options how = {.min_share = 0.05};
    bn_stacks *before = NULL, *after = NULL;
    struct bn_stacks_diff d;
    append(&before, "f 1000\ng 100\n");
    append(&after, "f 1000\n");
    compare(&d, before, after, &how);
    assert_true(isnan(of(&d, d.self, "g")->p));
    assert_false(of(&d, d.self, "g")->significant);
    assert_near(of(&d, d.self, "g")->before, 1.0 / 11, 1e-12);
    bn_stacks_diff_release(&d);
}
