/* SPDX-License-Identifier: MIT
 *
 * lab/stats/levels: which regression is a warning, which is critical, at the exact numbers; and invalid files
 * are refused.
 */
#include "base/file.h"
#include "lab/stats/comparison.h"
#include "tests/unit/status.h"

static void parse(struct bn_levels *levels, const char *text)
{
    if (attempt(bn_levels_parse(levels, text, strlen(text), &err)) != BN_OK) fail_msg("%s", err.msg);
}

static enum bn_severity label(const struct bn_levels *levels, const char *metric, bool higher, double before,
                              double after)
{
    return bn_levels_severity(levels, "decode", metric, higher, before, after);
}

/* The file that is built into the program says what people expect of it. A time per token is a rate: 8 % and
 * 15 % less of it are 8.7 % and 17.6 % more time. */
TEST(defaults_are_those_documented)
{
    enum { NONE = BN_SEVERITY_NONE, WARNING = BN_SEVERITY_WARNING, CRITICAL = BN_SEVERITY_CRITICAL };
    static const struct {
        const char *metric;
        bool higher;
        double before, after;
        int severity;
    } CASES[] = {{"tokens_per_second", true, 100, 103, NONE},
                 {"tokens_per_second", true, 100, 92, NONE},
                 {"tokens_per_second", true, 100, 91.9, WARNING},
                 {"tokens_per_second", true, 100, 85, WARNING},
                 {"tokens_per_second", true, 100, 84.9, CRITICAL},
                 {"bytes_per_second", true, 100, 91.9, WARNING},
                 {"ns_per_token", false, 100, 108.6, NONE},
                 {"ns_per_token", false, 100, 108.8, WARNING},
                 {"ns_per_token", false, 100, 112, WARNING},
                 {"ns_per_token", false, 100, 117.6, WARNING},
                 {"ns_per_token", false, 100, 117.7, CRITICAL},
                 {"ns_per_token", false, 100, 120, CRITICAL},
                 {"ns_per_call", false, 100, 112, WARNING},
                 {"matmul_ns_per_token", false, 100, 120, CRITICAL},
                 {"first_token_ns", false, 100, 115, NONE},
                 {"first_token_ns", false, 100, 115.1, WARNING},
                 {"load_ns", false, 100, 125, WARNING},
                 {"load_ns", false, 100, 125.1, CRITICAL},
                 {"load_ns", false, 100, 60, NONE},
                 {"peak_rss_bytes", false, 100, 120, NONE},
                 {"peak_rss_bytes", false, 100, 120.1, WARNING},
                 {"memory_usage_mb", false, 100, 130, WARNING},
                 {"memory_usage_mb", false, 100, 130.1, CRITICAL},
                 {"accuracy_score", true, 0.9987, 0.9967, NONE},
                 {"accuracy_score", true, 0.9987, 0.9966, WARNING},
                 {"accuracy_score", true, 0.9987, 0.9936, CRITICAL},
                 {"accuracy", true, 0.3, 0.294, CRITICAL},
                 {"nll", false, 4.5, 4.505, NONE},
                 {"nll", false, 4.5, 4.506, WARNING},
                 {"nll", false, 4.5, 4.511, CRITICAL},
                 {"perplexity", false, 90, 90.45, NONE},
                 {"perplexity", false, 90, 90.5, WARNING},
                 {"perplexity", false, 90, 91, CRITICAL}};
    struct bn_buf text = {.max = 65536};
    struct bn_levels levels;
    must(bn_file_read("baselines/thresholds.json", &text, NULL));
    parse(&levels, text.data);
    bn_buf_release(&text);
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++)
        if ((int)label(&levels, CASES[i].metric, CASES[i].higher, CASES[i].before, CASES[i].after) !=
            CASES[i].severity)
            fail_msg("%s from %g to %g", CASES[i].metric, CASES[i].before, CASES[i].after);
}

TEST(first_row_that_fits_counts)
{
    struct bn_levels levels;
    parse(&levels, "{\"schema\":\"bn.thresholds/1\",\"levels\":["
                   "{\"metric\":\"*_bytes\",\"test\":\"load*\",\"warning_percent\":0,\"critical_percent\":1},"
                   "{\"metric\":\"*\",\"better\":\"higher\",\"warning_percent\":5,\"critical_percent\":5},"
                   "{\"metric\":\"*\",\"warning_percent\":90,\"critical_percent\":99}]}");
    assert_int_equal(bn_levels_severity(&levels, "load cold", "rss_bytes", false, 100, 100.5),
                     BN_SEVERITY_WARNING);
    assert_int_equal(label(&levels, "rss_bytes", false, 100, 150), BN_SEVERITY_NONE);
    assert_int_equal(label(&levels, "rate", true, 100, 94.9), BN_SEVERITY_CRITICAL);
    assert_int_equal(label(&levels, "rate", true, 100, 95), BN_SEVERITY_NONE);
}

TEST(wrong_files_are_refused)
{
#define LEVELS(rows) "{\"schema\":\"bn.thresholds/1\",\"levels\":[" rows "]}"
#define LAST "{\"metric\":\"*\",\"warning_percent\":1,\"critical_percent\":2}"
#define ROW(members) LEVELS("{" members "}," LAST)
    static const char *const WRONG[] = {
        "",
        "[]",
        "{}",
        "{\"schema\":\"bn.thresholds/2\",\"levels\":[" LAST "]}",
        "{\"schema\":\"bn.thresholds/1\"}",
        "{\"schema\":\"bn.thresholds/1\",\"levels\":{}}",
        "{\"schema\":\"bn.thresholds/1\",\"levels\":[" LAST "],\"level\":[]}",
        LEVELS(""),
        LEVELS("{\"metric\":\"x\",\"warning_percent\":1,\"critical_percent\":2}"),
        LEVELS("{\"metric\":\"*\",\"better\":\"higher\",\"warning_percent\":1,\"critical_percent\":2}"),
        ROW("\"metrik\":\"x\",\"metric\":\"x\",\"warning_percent\":1,\"critical_percent\":2"),
        ROW("\"warning_percent\":1,\"critical_percent\":2"),
        ROW("\"metric\":\"x\",\"warning_percent\":1"),
        ROW("\"metric\":\"x\",\"warning_percent\":3,\"critical_percent\":2"),
        ROW("\"metric\":\"x\",\"warning_percent\":-1,\"critical_percent\":2"),
        ROW("\"metric\":\"x\",\"warning_percent\":\"1\",\"critical_percent\":2"),
        ROW("\"metric\":\"*\",\"better\":\"faster\",\"warning_percent\":1,\"critical_percent\":2"),
        ROW("\"metric\":\"x\",\"warning_percent\":1,\"critical_absolute\":2"),
        ROW("\"metric\":\"x\",\"drift_percent\":-1,\"warning_percent\":1,\"critical_percent\":2"),
        ROW("\"metric\":\"x\",\"as\":\"time\",\"warning_percent\":1,\"critical_percent\":2"),
    };
    struct bn_levels levels;
    for (size_t i = 0; i < BN_ARRAY_LEN(WRONG); i++) {
        assert_int_not_equal(attempt(bn_levels_parse(&levels, WRONG[i], strlen(WRONG[i]), &err)), BN_OK);
        assert_true(err.msg[0] != '\0');
    }
    parse(&levels, LEVELS(LAST));
}
