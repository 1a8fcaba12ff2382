/* SPDX-License-Identifier: MIT
 *
 * lab/history/result and compare: documents are read back; differences of machine, settings and model are
 * named; two sessions are compared, and missing series fail. And the key of the machine is stable.
 */
#include <math.h>

#include "lab/history/compare.h"
#include "lab/history/result.h"
#include "lab/host/machine.h"
#include "tests/unit/status.h"

/* A document around the given settings, machine fields and series. */
static bn_status read(struct bn_result *r, const char *settings, const char *machine, const char *series,
                      bn_error *e)
{
    char text[4096];
    bn_json *doc = NULL;
    snprintf(text, sizeof text,
             "{\"schema\":\"bn.bench/"
             "1\",\"command\":\"run\",\"created\":\"2026-01-02T03:04:05Z\",\"program\":{\"commit\":"
             "\"abc\",\"dirty\":false},\"settings\":{%s},\"machine\":{\"key\":\"k\",\"label\":\"l\"%s},"
             "\"series\":[%s]}",
             settings, machine, series);
    if (bn_json_parse(&doc, text, strlen(text), e) != BN_OK) fail_msg("%s", text);
    return bn_result_parse(r, doc, e);
}

#define TIMES(test, list)                                                                                       \
    "{\"test\":\"" test                                                                                         \
    "\",\"metric\":\"ns\",\"unit\":\"ns\",\"better\":\"lower\",\"exact\":false,\"warmup\":0,\"samples\":[" list \
    "]}"
#define BYTES(test, list)                                                                                            \
    "{\"test\":\"" test                                                                                              \
    "\",\"metric\":\"bytes\",\"unit\":\"bytes\",\"better\":\"lower\",\"exact\":true,\"warmup\":0,\"samples\":[" list \
    "]}"
#define SLOW "130,131,132,133,134,135,136,137,138,139"
#define FAST "100,101,102,103,104,105,106,107,108,109"

#define OTHERS(used, stolen) \
    "\"others\":{\"wall_ns\":1000000000,\"cpus\":2,\"used_cpus\":" used ",\"stolen_cpus\":" stolen "}"

static void settings_of(char hex[BN_SHA256_HEX], const char *settings)
{
    struct bn_result r;
    must(read(&r, settings, "", TIMES("t", FAST), NULL));
    memcpy(hex, r.settings_sha256, BN_SHA256_HEX);
    bn_result_release(&r);
}

/* How often something is measured does not change what is measured; the order of members neither. */
TEST(the_digest_covers_what_was_measured)
{
    char a[BN_SHA256_HEX], b[BN_SHA256_HEX];
    settings_of(a, "\"threads\":[1],\"isa\":\"ref\",\"reps\":5,\"model\":\"x.gguf\"");
    settings_of(b, "\"isa\":\"ref\",\"reps\":50,\"threads\":[1],\"warmup\":3,\"model\":\"/y.gguf\"");
    assert_string_equal(a, b);
    settings_of(b, "\"isa\":\"ref\",\"reps\":5,\"threads\":[2]");
    assert_string_not_equal(a, b);
}

TEST(documents_are_read_back)
{
    struct bn_result r;
    must(read(&r, "", ",\"load_milli\":[65000,0,0]}," OTHERS("0.4", "0.09") ",\"rest\":{\"x\":1",
              TIMES("t", FAST), &err));
    assert_string_equal(r.suite, "run");
    assert_string_equal(r.commit, "abc");
    assert_string_equal(r.machine_key, "k");
    assert_string_equal(r.model_sha256, "");
    assert_false(r.dirty || r.points);
    assert_string_equal(r.contended, "");
    assert_int_equal(r.series.n, 1);
    bn_result_release(&r);
    must(read(&r, "", "}," OTHERS("0.45", "0.05") ",\"rest\":{\"x\":1", TIMES("t", FAST), &err));
    assert_string_equal(r.contended,
                        "other processes used 0.5 of 2 CPUs during the run, and the hypervisor took 0.1");
    bn_result_release(&r);
    /* An older document has no such member, and its load average does not count. */
    must(read(&r, "", ",\"load_milli\":[65000,0,0],\"cpus_usable\":2", TIMES("t", FAST), &err));
    assert_string_equal(r.contended, "");
    bn_result_release(&r);
    refused(read(&r, "", "", "", &err), BN_ERR_FORMAT); /* nothing was measured */
}

/* Whatever a document calls invalid must not become a baseline; and a document of an older form says what to do. */
TEST(invalid_parts_are_found)
{
    static const char *const BAD[] = {
        "},\"tests\":[{\"verdict\":\"invalid\",\"reason\":\"output differs\"}],\"rest\":{\"x\":1",
        "},\"tests\":[{\"verdict\":\"valid\"},{\"verdict\":\"timeout\"}],\"rest\":{\"x\":1"};
    static const char GOOD[] =
        "},\"tests\":[{\"verdict\":\"valid\"},{\"verdict\":\"skipped\"}],\"rest\":{\"x\":1";
    struct bn_result r;
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD) + 1; i++) {
        bool bad = i < BN_ARRAY_LEN(BAD);
        must(read(&r, "", bad ? BAD[i] : GOOD, TIMES("t", FAST), NULL));
        assert_true((r.invalid[0] != '\0') == bad);
        bn_result_release(&r);
    }
    static const char OLD[] = "{\"test\":\"t\",\"metric\":\"ns\",\"unit\":\"ns\",\"better\":\"lower\","
                              "\"exact\":false,\"samples\":[1]}";
    refused(read(&r, "", "", OLD, &err), BN_ERR_FORMAT);
    assert_has(err.msg, "older form");
    assert_has(err.hint, "measure again");
}

TEST(differences_are_named)
{
    static const struct bn_likeness A = {"m", "s", "d"};
    static const struct {
        struct bn_likeness b;
        const char *names;
    } CASES[] = {{{"n", "s", "d"}, "machine"}, {{"m", "t", "d"}, "settings"}, {{"m", "s", ""}, "model"}};
    must(bn_result_like(&A, &A, NULL));
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        refused(bn_result_like(&A, &CASES[i].b, &err), BN_ERR_UNSUPPORTED);
        assert_has(err.msg, CASES[i].names);
    }
}

TEST(points_have_no_samples)
{
    static const char TEXT[] =
        "{\"baselines\":{\"linux\":{\"impl\":{\"throughput_tokens_per_second\":125.3,"
        "\"latency_p50_ms\":89.2,\"memory_usage_mb\":1024.5,\"accuracy_score\":0.9987}}}}";
    static const char WRONG[] = "{\"baselines\":{\"linux\":{\"impl\":{\"latency_p50_ms\":\"soon\"}}}}";
    struct bn_result r;
    bn_json *doc = NULL;
    must(bn_json_parse(&doc, TEXT, sizeof TEXT - 1, NULL));
    must(bn_result_parse(&r, doc, NULL));
    assert_true(r.points);
    assert_int_equal(r.series.n, 4);
    assert_true(bn_series_find(&r.series, "linux impl", "throughput_tokens_per_second")->higher);
    assert_true(bn_series_find(&r.series, "linux impl", "accuracy_score")->higher);
    assert_false(bn_series_find(&r.series, "linux impl", "latency_p50_ms")->higher);
    bn_result_release(&r);
    must(bn_json_parse(&doc, WRONG, sizeof WRONG - 1, NULL));
    refused(bn_result_parse(&r, doc, NULL), BN_ERR_FORMAT);
}

static struct bn_levels levels = {
    .n = 3,
    .list = {{.test = "*", .metric = "*bytes*", .warning = 20, .critical = 30},
             {.test = "*", .metric = "*", .better = 1, .warning = 8, .critical = 15},
             {.test = "*", .metric = "*", .warning = 15, .critical = 25}}};

static struct bn_history_rules rules(void)
{
    return (struct bn_history_rules){.judge = BN_JUDGE_RULES_INIT, .drift = 0.08, .levels = &levels};
}

TEST(sessions_are_compared)
{
    struct bn_result a, b;
    struct bn_history_comparison o;
    struct bn_history_rules with = rules();
    must(read(&a, "", "",
              TIMES("slower", FAST) "," TIMES("gone", FAST) "," BYTES("b", "7,7") "," BYTES("c", "7"), NULL));
    must(read(&b, "", "",
              BYTES("b", "7") "," TIMES("slower", SLOW) "," TIMES("new", FAST) "," BYTES("c", "7,8"), NULL));
    must(bn_history_compare(&o, &a.series, &b.series, &with, NULL));
    assert_int_equal(o.n, 5);
    assert_int_equal(o.n_missing, 1);
    assert_int_equal(o.n_extra, 1);
    assert_int_equal(o.worst, BN_OUTCOME_REGRESSED);
    assert_int_equal(o.severity, BN_SEVERITY_CRITICAL);
    assert_int_equal(o.list[0].j.outcome, BN_OUTCOME_REGRESSED);
    assert_has(o.list[1].j.reason, "missing");
    assert_int_equal(o.list[2].j.outcome, BN_OUTCOME_SAME);
    assert_int_equal(o.list[3].j.outcome, BN_OUTCOME_INCONCLUSIVE); /* not the same each time */
    assert_string_equal(o.list[4].test, "new");
    bn_history_release(&o);

    with.same_program = true; /* then times cannot have changed by the program */
    must(bn_history_compare(&o, &a.series, &b.series, &with, NULL));
    assert_int_equal(o.list[0].j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_has(o.list[0].j.reason, "same program");
    bn_history_release(&o);

    with.contended = "somebody else was at work"; /* then times say nothing; what is exact still does */
    must(bn_history_compare(&o, &a.series, &b.series, &with, NULL));
    assert_int_equal(o.list[0].j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_int_equal(o.list[2].j.outcome, BN_OUTCOME_SAME);
    assert_int_equal(o.severity, BN_SEVERITY_NONE);
    bn_history_release(&o);
    bn_result_release(&a);
    bn_result_release(&b);
}

static void add_point(struct bn_series_list *all, const char *metric, bool higher, double x)
{
    struct bn_series s = {
        .test = "t", .metric = metric, .unit = "1", .higher = higher, .samples = &x, .n = 1};
    must(bn_series_add(all, &s, NULL));
}

/* Single values are judged by the levels alone, at their very numbers. */
TEST(values_are_judged_by_levels)
{
    static const struct {
        bool higher;
        double b;
        enum bn_severity severity;
        enum bn_outcome outcome;
    } CASES[] = {{true, 92, BN_SEVERITY_NONE, BN_OUTCOME_STABLE},
                 {true, 91.9, BN_SEVERITY_WARNING, BN_OUTCOME_REGRESSED},
                 {true, 85, BN_SEVERITY_WARNING, BN_OUTCOME_REGRESSED},
                 {true, 84.9, BN_SEVERITY_CRITICAL, BN_OUTCOME_REGRESSED},
                 {true, 120, BN_SEVERITY_NONE, BN_OUTCOME_IMPROVED},
                 {false, 115, BN_SEVERITY_NONE, BN_OUTCOME_STABLE},
                 {false, 115.1, BN_SEVERITY_WARNING, BN_OUTCOME_REGRESSED},
                 {false, 125, BN_SEVERITY_WARNING, BN_OUTCOME_REGRESSED},
                 {false, 125.1, BN_SEVERITY_CRITICAL, BN_OUTCOME_REGRESSED},
                 {false, 99, BN_SEVERITY_NONE, BN_OUTCOME_STABLE},
                 {false, 50, BN_SEVERITY_NONE, BN_OUTCOME_IMPROVED}};
    for (size_t i = 0; i < 2 * BN_ARRAY_LEN(CASES); i++) {
        size_t k = i / 2;
        struct bn_series_list a = {0}, b = {0};
        struct bn_history_comparison o;
        struct bn_history_rules with = rules();
        with.points = i % 2 == 1; /* lists of values and documents alike */
        add_point(&a, "m", CASES[k].higher, 100);
        add_point(&b, "m", CASES[k].higher, CASES[k].b);
        must(bn_history_compare(&o, &a, &b, &with, NULL));
        assert_int_equal(o.severity, CASES[k].severity);
        assert_int_equal(o.list[0].j.outcome, CASES[k].outcome);
        assert_has(o.list[0].j.reason, "single values: ");
        bn_history_release(&o);
        bn_series_release(&a);
        bn_series_release(&b);
    }
}

static void compare(struct bn_history_comparison *o, const char *a, const char *b,
                    const struct bn_history_rules *with)
{
    static struct bn_result before, after; /* whose texts outlive the comparison */
    bn_result_release(&before);
    bn_result_release(&after);
    must(read(&before, "", "", a, NULL));
    must(read(&after, "", "", b, NULL));
    must(bn_history_compare(o, &before.series, &after.series, with, NULL));
}

#define PEAK(value)                                                                                \
    "{\"test\":\"process\",\"metric\":\"peak_rss_bytes\",\"unit\":\"bytes\",\"better\":\"lower\"," \
    "\"exact\":false,\"warmup\":0,\"samples\":[" value "]}"

#define WIDE "10,10000,20,9000,50,8000"
#define JITTER                                                                                             \
    "{\"test\":\"t\",\"metric\":\"token_jitter_ns\",\"unit\":\"ns\",\"better\":\"lower\",\"exact\":false," \
    "\"warmup\":0,\"samples\":[" FAST "]}"

/* Memory that doubled and times that tripled are found; the same document is stable on a busy machine too. */
TEST(every_kind_of_series_is_judged)
{
    struct bn_history_comparison o;
    struct bn_history_rules with = rules();
    compare(&o, TIMES("t", FAST) "," PEAK("1000"), TIMES("t", FAST) "," PEAK("2000"), &with);
    assert_int_equal(o.list[0].j.outcome, BN_OUTCOME_STABLE);
    assert_int_equal(o.list[1].j.outcome, BN_OUTCOME_REGRESSED);
    assert_int_equal(o.severity, BN_SEVERITY_CRITICAL);
    bn_history_release(&o);
    with.contended = "others were at work"; /* which takes no memory of ours */
    compare(&o, TIMES("t", FAST) "," PEAK("1000"), TIMES("t", SLOW) "," PEAK("2000"), &with);
    assert_int_equal(o.list[0].j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_int_equal(o.list[1].j.outcome, BN_OUTCOME_REGRESSED);
    assert_int_equal(o.n_timed, 1);
    assert_int_equal(o.n_timed_judged, 0);
    assert_int_equal(o.n_judged, 1);
    bn_history_release(&o);
    /* Jitter that stayed the same does not count for times that are inconclusive. */
    with.contended = NULL;
    compare(&o, TIMES("t", FAST) "," JITTER, TIMES("t", WIDE) "," JITTER, &with);
    assert_int_equal(o.list[0].j.outcome, BN_OUTCOME_INCONCLUSIVE);
    assert_int_equal(o.list[1].j.outcome, BN_OUTCOME_STABLE);
    assert_int_equal(o.n_timed_judged, 0);
    bn_history_release(&o);
    with.contended = "others were at work";
    compare(&o, TIMES("t", FAST) "," TIMES("load", "5"), TIMES("t", FAST) "," TIMES("load", "5"), &with);
    assert_int_equal(o.worst, BN_OUTCOME_STABLE);
    assert_int_equal(o.n_judged, 2);
    bn_history_release(&o);
    with.contended = NULL;
    compare(&o, TIMES("load", "5"), TIMES("load", "15"), &with);
    assert_int_equal(o.severity, BN_SEVERITY_CRITICAL);
    bn_history_release(&o);
    compare(&o, TIMES("load", "5,6"), TIMES("load", "15,16,17"), &with); /* too few for an interval */
    assert_int_equal(o.severity, BN_SEVERITY_CRITICAL);
    assert_has(o.list[0].j.reason, "2 and 3 samples are too few");
    bn_history_release(&o);
    compare(&o, TIMES("t", FAST), TIMES("t", "101,102,103,104,105,106,107,108,109,110"), &with);
    assert_int_equal(o.worst, BN_OUTCOME_STABLE);
    bn_history_release(&o);
    compare(&o, PEAK("7"), PEAK("7"), &with); /* frees what the last one kept */
    bn_history_release(&o);
}

TEST(key_stays_under_load)
{
    struct bn_machine m;
    struct bn_machine_id first, id;
    bn_machine_read(&m);
    must(bn_machine_identify(&first, &m, NULL));
    assert_int_equal(strlen(first.key), 64);
    for (unsigned i = 0; i < 10; i++) {
        bn_machine_read(&m);
        m.load_milli[0] += 1000 * i; /* what load, boots and settings change */
        m.memory_bytes += 3 * i * (uint64_t)4096;
        m.cpus_usable = 1 + i % 2;
        m.quota_us = 1000 * i;
        snprintf(m.kernel, sizeof m.kernel, "6.%u", i);
        snprintf(m.governor, sizeof m.governor, "g%u", i);
        must(bn_machine_identify(&id, &m, NULL));
        assert_string_equal(id.key, first.key);
        assert_string_equal(id.label, first.label);
    }
    m.cores++;
    must(bn_machine_identify(&id, &m, NULL));
    assert_string_not_equal(id.key, first.key);
    m.cores--;
    m.flags[m.n_flags++] = "new";
    must(bn_machine_identify(&id, &m, NULL));
    assert_string_not_equal(id.key, first.key);
    m.n_flags--;
    m.memory_bytes += UINT64_C(1) << 31;
    must(bn_machine_identify(&id, &m, NULL));
    assert_string_not_equal(id.key, first.key);
}

/* Baselines of a device and of the CPU beside it are of different machines, whatever driver the device has. */
TEST(a_device_is_another_machine)
{
    bn_device_info gpu = {.id = "opencl:0", .type = "GPU", .name = "Some GPU", .driver = "1"};
    struct bn_machine m = {.cpus_online = 4, .arch = "riscv64"};
    struct bn_machine_id without, with, later;
    must(bn_machine_identify(&without, &m, NULL));
    m.device = &gpu;
    must(bn_machine_identify(&with, &m, NULL));
    assert_string_not_equal(with.key, without.key);
    assert_memory_equal(with.label, "some-gpu-4cpu-", 14);
    snprintf(gpu.driver, sizeof gpu.driver, "2");
    must(bn_machine_identify(&later, &m, NULL));
    assert_string_equal(later.key, with.key);
}

TEST(labels_are_names_of_folders)
{
    static const char *const MODELS[][2] = {
        {"AMD EPYC 9B45 128-Core Processor", "amd-epyc-9b45-4cpu-"},
        {"Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", "intel-xeon-e5-2690-v4-4cpu-"},
        {"../../etc/\"x\"\n", "etc-x-4cpu-"},
        {"", "riscv64-4cpu-"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(MODELS); i++) {
        struct bn_machine m = {.cpus_online = 4, .arch = "riscv64"};
        struct bn_machine_id id;
        snprintf(m.cpu_model, sizeof m.cpu_model, "%s", MODELS[i][0]);
        must(bn_machine_identify(&id, &m, NULL));
        assert_int_equal(strlen(id.label), strlen(MODELS[i][1]) + 8);
        assert_memory_equal(id.label, MODELS[i][1], strlen(MODELS[i][1]));
        assert_memory_equal(id.label + strlen(MODELS[i][1]), id.key, 8);
    }
}
