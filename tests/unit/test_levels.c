/* SPDX-License-Identifier: MIT
 *
 * measure/levels: which regression is a warning, which is critical, at the numbers themselves; and files that
 * are wrong are refused, since a level that is spelt wrongly would label nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "measure/levels.h"

static void parse(struct bn_levels *levels, const char *text)
{
    bn_error err = {0};
    if (bn_levels_parse(levels, text, strlen(text), &err) != BN_OK) fail_msg("%s", err.msg);
}

/* The file that the program carries says what people expect of it. */
static void defaults_are_those_announced(void **state)
{
    (void)state;
    static const struct {
        bool higher;
        double percent;
        enum bn_severity severity;
    } CASES[] = {{true, -3, BN_SEVERITY_NONE},     {true, 0, BN_SEVERITY_NONE},
                 {true, 8, BN_SEVERITY_NONE},      {true, 8.001, BN_SEVERITY_WARNING},
                 {true, 15, BN_SEVERITY_WARNING},  {true, 15.001, BN_SEVERITY_CRITICAL},
                 {false, 15, BN_SEVERITY_NONE},    {false, 15.001, BN_SEVERITY_WARNING},
                 {false, 25, BN_SEVERITY_WARNING}, {false, 25.001, BN_SEVERITY_CRITICAL},
                 {false, -40, BN_SEVERITY_NONE}};
    struct bn_buf text = {.max = 65536};
    struct bn_levels levels;
    assert_int_equal(bn_file_read("baselines/thresholds.json", &text, NULL), BN_OK);
    parse(&levels, text.data);
    bn_buf_release(&text);
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++)
        assert_int_equal(bn_levels_severity(&levels, "decode",
                                            CASES[i].higher ? "tokens_per_second" : "ns_per_token",
                                            CASES[i].higher, CASES[i].percent),
                         CASES[i].severity);
}

static void first_row_that_fits_counts(void **state)
{
    (void)state;
    struct bn_levels levels;
    parse(&levels, "{\"schema\":\"bn.thresholds/1\",\"levels\":["
                   "{\"metric\":\"*_bytes\",\"test\":\"load*\",\"warning_percent\":0,\"critical_percent\":1},"
                   "{\"metric\":\"*\",\"better\":\"higher\",\"warning_percent\":5,\"critical_percent\":5},"
                   "{\"metric\":\"*\",\"warning_percent\":90,\"critical_percent\":99}]}");
    assert_int_equal(bn_levels_severity(&levels, "load cold", "rss_bytes", false, 0.5), BN_SEVERITY_WARNING);
    assert_int_equal(bn_levels_severity(&levels, "decode", "rss_bytes", false, 50), BN_SEVERITY_NONE);
    assert_int_equal(bn_levels_severity(&levels, "decode", "rate", true, 5.1), BN_SEVERITY_CRITICAL);
    assert_int_equal(bn_levels_severity(&levels, "decode", "rate", true, 5), BN_SEVERITY_NONE);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
#define LAST "{\"metric\":\"*\",\"warning_percent\":1,\"critical_percent\":2}"
    static const char *const WRONG[] = {
        "",
        "[]",
        "{}",
        "{\"schema\":\"bn.thresholds/2\",\"levels\":[" LAST "]}",
        "{\"schema\":\"bn.thresholds/1\"}",
        "{\"schema\":\"bn.thresholds/1\",\"levels\":[]}",
        "{\"schema\":\"bn.thresholds/1\",\"levels\":{}}",
        "{\"schema\":\"bn.thresholds/1\",\"levels\":[" LAST "],\"level\":[]}",
        "{\"schema\":\"bn.thresholds/"
        "1\",\"levels\":[{\"metrik\":\"x\",\"metric\":\"x\",\"warning_percent\":1,"
        "\"critical_percent\":2}," LAST "]}",
        "{\"schema\":\"bn.thresholds/1\",\"levels\":[{\"warning_percent\":1,\"critical_percent\":2}," LAST
        "]}",
        "{\"schema\":\"bn.thresholds/1\",\"levels\":[{\"metric\":\"x\",\"warning_percent\":1}," LAST "]}",
        "{\"schema\":\"bn.thresholds/"
        "1\",\"levels\":[{\"metric\":\"x\",\"warning_percent\":3,\"critical_percent\":2}," LAST "]}",
        "{\"schema\":\"bn.thresholds/"
        "1\",\"levels\":[{\"metric\":\"x\",\"warning_percent\":-1,\"critical_percent\":2}," LAST "]}",
        "{\"schema\":\"bn.thresholds/"
        "1\",\"levels\":[{\"metric\":\"x\",\"warning_percent\":\"1\",\"critical_percent\":2}," LAST "]}",
        "{\"schema\":\"bn.thresholds/"
        "1\",\"levels\":[{\"metric\":\"*\",\"better\":\"faster\",\"warning_percent\":1,"
        "\"critical_percent\":2}," LAST "]}",
        "{\"schema\":\"bn.thresholds/"
        "1\",\"levels\":[{\"metric\":\"x\",\"warning_percent\":1,\"critical_percent\":2}]}",
        "{\"schema\":\"bn.thresholds/"
        "1\",\"levels\":[{\"metric\":\"*\",\"better\":\"higher\",\"warning_percent\":1,"
        "\"critical_percent\":2}]}"};
    struct bn_levels levels;
    for (size_t i = 0; i < BN_ARRAY_LEN(WRONG); i++) {
        bn_error err = {0};
        assert_int_not_equal(bn_levels_parse(&levels, WRONG[i], strlen(WRONG[i]), &err), BN_OK);
        assert_true(err.msg[0] != '\0');
    }
    parse(&levels, "{\"schema\":\"bn.thresholds/1\",\"levels\":[" LAST "]}");
}

/* A rate that falls to 85 of 100 is 15 % worse, though its cost grew by 17.6 %. */
static void rates_fall_and_times_grow(void **state)
{
    (void)state;
    assert_true(fabs(bn_worse_percent(true, 100.0 / 85 - 1) - 15) < 1e-9);
    assert_true(fabs(bn_worse_percent(false, 0.25) - 25) < 1e-9);
    assert_true(bn_worse_percent(true, -0.1) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_announced),
        cmocka_unit_test(first_row_that_fits_counts),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(rates_fall_and_times_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
