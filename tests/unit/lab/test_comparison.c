/* SPDX-License-Identifier: MIT
 *
 * lab/stats/comparison.h: what is written is read again, missing numbers stay missing, the table and the worst
 * outcome tell what is in the list.
 */
#include <math.h>

#include "base/json.h"
#include "lab/stats/comparison.h"
#include "tests/unit/status.h"

static struct bn_comparison regressed(void)
{
    struct bn_comparison c = {.test = "decode n=8",
                              .metric = "ns_per_token",
                              .unit = "ns",
                              .n_a = 20,
                              .n_b = 19,
                              .median_a = 12.5e6,
                              .median_b = 13.5e6,
                              .severity = BN_SEVERITY_WARNING};
    c.j = (struct bn_judgement){.outcome = BN_OUTCOME_REGRESSED,
                                .reason = "8.0 % slower",
                                .n = 19,
                                .change = 0.08,
                                .low = 0.07,
                                .high = 0.09,
                                .p = 1e-5,
                                .q = 2e-5,
                                .agreement = 1,
                                .band = 0.004,
                                .mde = 0.011,
                                .n_needed = 0};
    return c;
}

static struct bn_comparison one_sided(void)
{
    struct bn_comparison c = {.test = "x",
                              .metric = "rate",
                              .unit = "1/s",
                              .higher = true,
                              .n_a = 3,
                              .median_a = 2,
                              .median_b = (double)NAN,
                              .secondary = true};
    c.j = (struct bn_judgement){.outcome = BN_OUTCOME_INCONCLUSIVE,
                                .reason = "B has no samples",
                                .change = (double)NAN,
                                .low = (double)NAN,
                                .high = (double)NAN,
                                .p = 1,
                                .q = 1,
                                .agreement = (double)NAN,
                                .mde = (double)NAN,
                                .n_needed = 7};
    return c;
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

TEST(what_is_written_is_read)
{
    const struct bn_comparison list[] = {regressed(), one_sided()};
    bn_json *doc = bn_json_new_object(), *again = NULL;
    struct bn_buf text = {.max = 1 << 20};
    bn_comparisons_put(doc, "comparisons", list, 2);
    must(bn_json_write(doc, false, &text, NULL));
    must(bn_json_parse(&again, text.data, text.len, NULL));
    const bn_json *array = bn_json_get(again, "comparisons");
    assert_int_equal(bn_json_size(array), 2);
    for (size_t i = 0; i < 2; i++) {
        const struct bn_comparison *a = &list[i];
        struct bn_comparison b;
        must(bn_comparison_read(&b, bn_json_at(array, i), NULL));
        assert_string_equal(a->test, b.test);
        assert_string_equal(a->metric, b.metric);
        assert_string_equal(a->unit, b.unit);
        assert_int_equal(a->higher, b.higher);
        assert_int_equal(a->exact, b.exact);
        assert_int_equal(a->n_a, b.n_a);
        assert_int_equal(a->n_b, b.n_b);
        assert_true(same(a->median_a, b.median_a) && same(a->median_b, b.median_b));
        assert_int_equal(a->j.outcome, b.j.outcome);
        assert_string_equal(a->j.reason, b.j.reason);
        assert_true(same(a->j.change, b.j.change) && same(a->j.low, b.j.low) && same(a->j.high, b.j.high));
        assert_true(same(a->j.p, b.j.p) && same(a->j.q, b.j.q) && same(a->j.agreement, b.j.agreement));
        assert_true(same(a->j.band, b.j.band) && same(a->j.mde, b.j.mde));
        assert_int_equal(a->j.n, b.j.n);
        assert_int_equal(a->j.n_needed, b.j.n_needed);
        assert_int_equal(a->severity, b.severity);
        assert_int_equal(a->secondary, b.secondary);
    }
    /* What is missing says why. */
    const char *why;
    assert_true(bn_json_string(bn_json_path(bn_json_at(array, 1), "unavailable.low"), &why));
    assert_true(bn_json_string(bn_json_path(bn_json_at(array, 1), "b.unavailable.median"), &why));
    bn_buf_release(&text);
    bn_json_free(again);
    bn_json_free(doc);
}

/* Each fault, planted into a good element, is refused. */
TEST(malformed_ones_are_refused)
{
    static const char GOOD[] =
        "{\"test\":\"t\",\"metric\":\"m\",\"unit\":\"ns\",\"better\":\"lower\",\"exact\":false,\"primary\":true,"
        "\"a\":{\"n\":2,\"median\":1},\"b\":{\"n\":2,\"median\":1.5},\"verdict\":\"SAME\",\"reason\":\"r\","
        "\"change\":0,\"low\":null,\"high\":null,\"p\":1,\"q\":1,\"agreement\":0.5,\"band\":0,\"mde\":0.1,"
        "\"n\":2,\"n_needed\":0,\"severity\":\"none\"}";
    static const struct {
        const char *from, *to;
    } FAULTS[] = {
        {"\"test\":", "\"tost\":"},
        {"\"lower\"", "\"less\""},
        {"\"exact\":false", "\"exact\":0"},
        {"\"n\":2,\"m", "\"n\":-2,\"m"},
        {"SAME", "FINE"},
        {"\"low\":null", "\"low\":\"x\""},
        {"\"mde\":", "\"mdx\":"},
        {"\"none\"", "\"some\""},
        {"\"median\":1}", "\"median\":null}"},
        {"\"n_needed\":0", "\"n_needed\":0.5"},
    };
    struct bn_comparison c;
    bn_json *value = NULL;
    must(bn_json_parse(&value, GOOD, strlen(GOOD), NULL));
    must(bn_comparison_read(&c, value, NULL));
    bn_json_free(value);
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        char text[sizeof GOOD + 32];
        const char *at = strstr(GOOD, FAULTS[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - GOOD), GOOD, FAULTS[i].to,
                 at + strlen(FAULTS[i].from));
        must(bn_json_parse(&value, text, strlen(text), NULL));
        refused(bn_comparison_read(&c, value, NULL), BN_ERR_FORMAT);
        bn_json_free(value);
    }
    refused(bn_comparison_read(&c, NULL, NULL), BN_ERR_FORMAT);
}

TEST(the_table_has_everything)
{
    struct bn_comparison list[] = {regressed(), one_sided(), regressed(), regressed()};
    struct bn_buf out = {.max = 1 << 16};
    list[3].j.outcome = BN_OUTCOME_SAME;
    bn_comparisons_print(&out, list, 4);
    assert_has(out.data, "+8.00 %");
    /* One line for each, with before, after, change and verdict. */
    assert_has(out.data, "12.50 ms  13.50 ms  +8.00 %  REGRESSED (warning)\n");
    assert_has(out.data, "-  INCONCLUSIVE\n");
    /* Each reason once, with the names of its rows. */
    assert_has(out.data, ": 8.0 % slower");
    assert_null(strstr(strstr(out.data, "8.0 % slower") + 1, "8.0 % slower"));
    assert_has(out.data, ": B has no samples\n");
    for (const char *line = out.data, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        assert_true(end - line <= 80);
    }
    bn_buf_release(&out);
}

static void says(const struct bn_comparison *list, size_t n, const char *sentence)
{
    struct bn_buf out = {.max = 1 << 16};
    bn_comparisons_verdict(&out, list, n);
    assert_string_equal(out.data, sentence);
    bn_buf_release(&out);
}

TEST(the_verdict_is_a_sentence)
{
    struct bn_comparison c = {.test = "command", .metric = "wall_ns", .unit = "ns", .n_a = 9, .n_b = 9};
    c.j = (struct bn_judgement){.outcome = BN_OUTCOME_REGRESSED, .change = 0.031, .low = 0.02, .high = 0.042};
    says(&c, 1, "B is 3.1 % slower (2.0 to 4.2 %): SLOWER");
    c.higher = true; /* of rates: a cost that is 3.1 % higher is a figure that is 3.0 % lower */
    c.unit = "tok/s";
    c.metric = "rate";
    c.test = "decode n=16 d=0 t=1";
    c.severity = BN_SEVERITY_WARNING;
    says(&c, 1, "B is 3.0 % slower (2.0 to 4.0 %) in rate of decode 16 tokens, 1 thread: SLOWER (warning)");
    c.unit = "bytes";
    says(&c, 1, "B is 3.0 % smaller (2.0 to 4.0 %) in rate of decode 16 tokens, 1 thread: WORSE (warning)");
    c = (struct bn_comparison){.test = "command", .metric = "wall_ns", .unit = "ns", .n_a = 9, .n_b = 9};
    c.j = (struct bn_judgement){.outcome = BN_OUTCOME_IMPROVED, .change = -0.5, .low = -0.6, .high = -0.4};
    says(&c, 1, "B is 50.0 % faster (40.0 to 60.0 %): FASTER");
    c.j = (struct bn_judgement){.outcome = BN_OUTCOME_SAME, .low = -0.02, .high = 0.013};
    says(&c, 1, "no difference larger than 2.0 % was found");
    c.j = (struct bn_judgement){.outcome = BN_OUTCOME_INCONCLUSIVE,
                                .reason = "why; about 7 more pairs would decide"};
    says(&c, 1, "undecided: why; about 7 more pairs would decide");
    /* What only is watched is not counted; a series of one side is not what the sentence is about. */
    struct bn_comparison list[] = {c, c, c};
    list[1].j.outcome = BN_OUTCOME_REGRESSED;
    list[1].secondary = true;
    list[2].n_b = 0;
    says(list, 2, "undecided: why; about 7 more pairs would decide");
    says(list, 3, "undecided in wall_ns: why; about 7 more pairs would decide (2 series: 2 INCONCLUSIVE)");
    says(list + 2, 1, "nothing could be compared: why; about 7 more pairs would decide");
    says(list, 0, "nothing could be compared");
}

TEST(the_worst_counts)
{
    static const enum bn_outcome ASCENDING[] = {BN_OUTCOME_SAME, BN_OUTCOME_STABLE, BN_OUTCOME_IMPROVED,
                                                BN_OUTCOME_INCONCLUSIVE, BN_OUTCOME_REGRESSED};
    struct bn_comparison list[BN_OUTCOMES] = {{0}};
    for (size_t i = 0; i < BN_OUTCOMES; i++) {
        for (size_t k = 0; k <= i; k++)
            list[i - k].j.outcome = ASCENDING[k];
        assert_int_equal(bn_comparisons_worst(list, i + 1), ASCENDING[i]);
    }
    assert_int_equal(bn_comparisons_worst(NULL, 0), BN_OUTCOME_INCONCLUSIVE);
}

/* What is only watched cannot make a session inconclusive; a critical regression of it counts all the same.
 */
TEST(secondary_series_do_not_decide)
{
    struct bn_comparison list[2] = {{.j.outcome = BN_OUTCOME_SAME},
                                    {.j.outcome = BN_OUTCOME_INCONCLUSIVE, .secondary = true}};
    assert_int_equal(bn_comparisons_worst(list, 2), BN_OUTCOME_SAME);
    list[1].j.outcome = BN_OUTCOME_REGRESSED;
    assert_int_equal(bn_comparisons_worst(list, 2), BN_OUTCOME_SAME);
    list[1].severity = BN_SEVERITY_WARNING;
    assert_int_equal(bn_comparisons_worst(list, 2), BN_OUTCOME_SAME);
    list[1].severity = BN_SEVERITY_CRITICAL;
    assert_int_equal(bn_comparisons_worst(list, 2), BN_OUTCOME_REGRESSED);
    assert_int_equal(bn_comparisons_worst(list + 1, 0), BN_OUTCOME_INCONCLUSIVE);
}

/* The row says one thing: A, B and the change belong together, also where the medians say another. */
TEST(sides_belong_to_the_change)
{
    struct bn_comparison c = regressed();
    double a, b;
    struct bn_buf out = {.max = 1 << 16};
    c.median_a = 100;
    c.median_b = 101;
    c.j.change = -0.32;
    bn_comparison_sides(&c, &a, &b);
    assert_true(fabs(b / a - 0.68) < 1e-12 && fabs(a * b - 100 * 101) < 1e-6);
    c.higher = true; /* of rates the cost is the reciprocal */
    bn_comparison_sides(&c, &a, &b);
    assert_true(fabs(a / b - 0.68) < 1e-12);
    c.j.p = (double)NAN; /* nothing was estimated: these are the values */
    bn_comparison_sides(&c, &a, &b);
    assert_true(a == 100 && b == 101);
    c = regressed();
    c.median_a = 35.68e6;
    c.median_b = 35.87e6;
    c.j.change = 0.0329;
    bn_comparisons_print(&out, &c, 1);
    assert_has(out.data, "35.20 ms");
    assert_has(out.data, "36.36 ms");
    assert_null(strstr(out.data, "35.68 ms"));
    bn_buf_release(&out);
    c = one_sided();
    bn_comparison_sides(&c, &a, &b);
    assert_true(a == 2 && isnan(b));
}
