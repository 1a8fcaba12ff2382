/* SPDX-License-Identifier: MIT
 *
 * The documents of bn-bench: they parse, nothing is missing, no number is negative, every null says why, each series belongs to a
 * test, and what is computed agrees with its samples. No test depends on the speed of the machine.
 */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <math.h>

#include "lab/history/series.h"
#include "lab/stats/summary.h"
#include "tests/unit/status.h"
#include "tests/unit/tools/bench_document.h"

#define NANO " -m fixtures/nano-bitnet-i2_s-42.gguf"
#define QUICK " --min-time 0 -t 1" NANO

static bn_json *doc;              /* of the last command, */
static struct bn_series_list all; /* and its series */

static void forget(void)
{
    bn_series_release(&all);
    bn_json_free(doc);
    doc = NULL;
}

/* Runs bn-bench with these arguments, and checks what holds of every document. */
static void measure(const char *arguments)
{
    static const char *const TEXTS[] = {"command",          "created",      "program.version",
                                        "program.compiler", "machine.arch", "clock.name"};
    char line[400];
    int status;
    snprintf(line, sizeof line, "%s --json -q", arguments);
    doc = bench_document(line, &status);
    if (status != 0) fail_msg("%s ended with %d", arguments, status);
    assert_true(bn_json_text_is(doc, "schema", "bn.bench/1"));
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++)
        if (bn_json_text_of(doc, TEXTS[i])[0] == '\0') fail_msg("no %s", TEXTS[i]);
    check_values(doc);
    if (bn_json_size(bn_json_get(doc, "series")) > 0 && attempt(bn_series_read(&all, doc, &err)) != BN_OK)
        fail_msg("%s: %s", arguments, err.msg);
    const bn_json *tests = bn_json_get(doc, "tests");
    for (const bn_json *t = bn_json_first(tests); t != NULL; t = bn_json_next(t)) {
        const char *verdict = bn_json_text_of(t, "verdict");
        if (strcmp(verdict, "valid") != 0 && strcmp(verdict, "skipped") != 0)
            fail_msg("%s is %s", bn_json_text_of(t, "name"), verdict);
    }
}

static const bn_json *test(const char *name)
{
    const bn_json *t = bn_json_find(bn_json_get(doc, "tests"), "name", name);
    if (t == NULL) fail_msg("no test '%s'", name);
    return t;
}

static double fact(const char *name, const char *member)
{
    double x = -1;
    if (!bn_json_number(bn_json_get(test(name), member), &x)) fail_msg("'%s' has no %s", name, member);
    return x;
}

static const struct bn_series *series(const char *name, const char *metric)
{
    const struct bn_series *s = bn_series_find(&all, name, metric);
    if (s == NULL) fail_msg("no %s of '%s'", metric, name);
    return s;
}

/* Times that were sampled: valid, and in nanoseconds. */
static const struct bn_series *times(const char *name, const char *metric)
{
    const struct bn_series *s = series(name, metric);
    assert_true(bn_json_text_is(test(name), "verdict", "valid"));
    assert_true(s->n >= 3 && !s->higher && !s->exact && !s->neutral);
    assert_string_equal(s->unit, "ns");
    return s;
}

static double median(const char *name, const char *metric)
{
    const struct bn_series *s = series(name, metric);
    return bn_median(s->samples, s->n);
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

static void check_config(const char *name, size_t reps, size_t n_warmup)
{
    bool decode = strncmp(name, "decode", 6) == 0;
    static const char *const METRICS[] = {"ns_per_token",    "first_token_ns",   "cpu_ns_per_token",
                                          "bytes_per_token", "bytes_per_second", "disturbed"};
    double tokens = fact(name, "tokens");
    for (size_t i = 0; i < BN_ARRAY_LEN(METRICS); i++) {
        const struct bn_series *s = series(name, METRICS[i]);
        assert_true(s->n == reps && s->n_warmup == n_warmup);
        assert_true(s->neutral == (i > 3) && s->exact == (i == 3) && !s->higher);
    }
    assert_int_equal(strlen(bn_json_text_of(test(name), "output_sha256")), 64);
    const struct bn_series *ns = series(name, "ns_per_token"), *first = series(name, "first_token_ns");
    const struct bn_series *share = bn_series_find(&all, name, "share_of_bandwidth");
    const struct bn_series *token = bn_series_find(&all, name, "token_ns");
    assert_true((share != NULL) == decode && (token != NULL) == decode);
    if (!decode) assert_true(first->samples[0] >= ns->samples[0] * tokens * 0.999999);
    if (!decode) return;
    assert_int_equal(share->n, reps);
    assert_true(token->n == reps * (size_t)tokens && token->n_warmup == n_warmup * (size_t)tokens);
    double sum = 0;
    for (size_t i = 0; i < (size_t)tokens; i++)
        sum += token->samples[i];
    assert_true(sum <= ns->samples[0] * tokens * 1.000001);
}

TEST(runs_are_complete)
{
    measure("run -p 3,5 -n 34 -d 0,7 -t 1,2 -b 2,128 --reps 6 --warmup 1");
    const bn_json *tests = bn_json_get(doc, "tests");
    assert_int_equal(bn_json_size(tests), 2 * 2 * 2 * 2 + 2 * 2 + 1);
    for (const bn_json *t = bn_json_first(tests); t != NULL; t = bn_json_next(t))
        if (!bn_json_text_is(t, "name", "tokenize")) check_config(bn_json_text_of(t, "name"), 6, 1);
    assert_int_equal(series("load", "load_ns")->n, 6);
    assert_int_equal(series("reading t=2", "bytes_per_second")->n, 7);
    assert_int_equal(series("tokenize", "tokenize_ns_per_token")->n_warmup, 1);
    assert_true(series("process", "peak_rss_bytes")->n == 1);
    forget();
}

/* Each position before a token makes it read its keys and values, and nothing else. The work of a token is the same each time,
 * so its bytes are too. */
TEST(depth_reads_the_cache)
{
    measure("run -p 0 -n 4 -d 16,80 -t 1,2 --reps 2 --warmup 0");
    double shallow = median("decode n=4 d=16 t=1", "bytes_per_token");
    double deep = median("decode n=4 d=80 t=1", "bytes_per_token");
    assert_true(shallow > 3e6 && shallow < 4e6); /* 3.3 MB of weights, and the cache */
    assert_true(deep - shallow == 64 * median("session", "kv_bytes_per_token"));
    assert_true(median("decode n=4 d=16 t=2", "bytes_per_token") == shallow);
    forget();
}

TEST(outputs_agree)
{
    static const char *const NAMES[] = {"prompt n=9 d=3 t=1 b=2", "prompt n=9 d=3 t=2 b=2",
                                        "prompt n=9 d=3 t=1 b=8", "prompt n=9 d=3 t=2 b=8"};
    measure("run -p 9 -n 0 -d 3 -t 1,2 -b 2,8 --reps 1 --warmup 0");
    for (size_t i = 1; i < BN_ARRAY_LEN(NAMES); i++)
        assert_string_equal(bn_json_text_of(test(NAMES[i]), "output_sha256"),
                            bn_json_text_of(test(NAMES[0]), "output_sha256"));
    forget();
}

TEST(concurrent_generations)
{
    static const char NAME[] = "concurrent k=2 n=5 d=3 t=1";
    measure("run -p 0 -n 5 -d 3 -t 1 --reps 2 --warmup 1 --concurrent 2");
    const struct bn_series *requests = series(NAME, "request_ns"), *ns = series(NAME, "ns_per_token");
    const struct bn_series *fairness = series(NAME, "fairness");
    assert_true(requests->n == 4 && requests->n_warmup == 2 && ns->n == 2 && fairness->neutral);
    for (size_t i = 0; i < 2; i++) {
        double makespan = ns->samples[i] * 2 * 6;
        for (size_t k = 0; k < 2; k++)
            assert_true(requests->samples[2 * i + k] <= makespan * 1.000001);
        assert_true(fairness->samples[i] >= 0.5 && fairness->samples[i] <= 1.000001);
    }
    assert_true(fact(NAME, "concurrent") == 2 && fact(NAME, "threads") == 1);
    assert_string_equal(bn_json_text_of(test(NAME), "output_sha256"),
                        bn_json_text_of(test("decode n=5 d=3 t=1"), "output_sha256"));
    forget();
}

/* Each test again next to a busy process, with the same output. */
TEST(busy_processes_are_tests_too)
{
    measure("run -p 5 -n 3 -t 1,2 --reps 1 --warmup 0 --busy 1,0");
    assert_int_equal(bn_json_size(bn_json_get(doc, "tests")), 8 + 1);
    check_config("decode n=3 d=0 t=2 busy=1", 1, 0);
    assert_true(fact("decode n=3 d=0 t=2 busy=1", "busy") == 1);
    assert_string_equal(bn_json_text_of(test("decode n=3 d=0 t=2"), "output_sha256"),
                        bn_json_text_of(test("decode n=3 d=0 t=2 busy=1"), "output_sha256"));
    forget();
}

/* With auto there are at least the requested samples, after at least one warm-up. */
TEST(warmup_is_bounded)
{
    measure("run -p 0 -n 2 -t 1,1 --reps 6 --isa ref");
    const struct bn_series *s = series("decode n=2 d=0 t=1", "ns_per_token");
    assert_true(s->n_warmup >= 1 && s->n_warmup <= 10 && s->n >= 6 && s->n_warmup + s->n <= 16);
    assert_int_equal(bn_json_size(bn_json_get(doc, "tests")), 2);
    forget();
}

TEST(kernels_are_complete)
{
    measure("kernels --isa all -t 1,2 --min-time 0 --set 64K" NANO);
    const bn_json *tests = bn_json_get(doc, "tests");
    assert_true(bn_json_size(bn_json_get(doc, "limits")) > 4 && bn_json_size(tests) > 30);
    assert_int_equal(all.n, bn_json_size(tests));
    for (const bn_json *t = bn_json_first(tests); t != NULL; t = bn_json_next(t)) {
        const char *name = bn_json_text_of(t, "name");
        (void)times(name, "ns_per_call");
        assert_true(fact(name, "bytes") > 0 && fact(name, "threads") >= 1);
        /* No limit is claimed for plain C. */
        if (bn_json_text_is(t, "isa", "ref"))
            assert_int_equal(bn_json_kind(bn_json_get(t, "limit")), BN_JSON_NULL);
        if (bn_json_kind(bn_json_get(t, "limit")) != BN_JSON_NULL) assert_true(fact(name, "limit_ns") > 0);
    }
    forget();
}

/* The measured rate of a limit; `of` is the member of the rate. */
static double limit_of(const char *kind, double threads, const char *of)
{
    const char *isa = bn_json_text_of(doc, "settings.isa");
    const bn_json *limits = bn_json_get(doc, "limits");
    for (const bn_json *l = bn_json_first(limits); l != NULL; l = bn_json_next(l)) {
        bool same = bn_json_get(l, "isa") == NULL || bn_json_text_is(l, "isa", isa);
        if (same && bn_json_text_is(l, "kind", kind) && bn_json_number_of(l, "threads") == threads)
            return bn_json_number_of(l, of);
    }
    fail_msg("no limit '%s' with %g threads", kind, threads);
    return 0;
}

/* The times follow from the work of a token and the limits. */
static void check_limits(const char *name)
{
    double threads = fact(name, "threads");
    const char *limit = bn_json_text_of(test(name), "limit");
    if (limit[0] == '\0') return; /* plain C */
    double read = fact(name, "bytes") * 1e9 / limit_of("read", threads, "bytes_per_second");
    double arithmetic = fact(name, "int8_macs") * 1e9 / limit_of("int8", threads, "macs_per_second") +
                        fact(name, "float_macs") * 1e9 / limit_of("float", threads, "macs_per_second");
    near(fact(name, "read_ns"), read);
    near(fact(name, "arithmetic_ns"), arithmetic);
    near(fact(name, "limit_ns"), fmax(read, arithmetic));
    assert_true((strcmp(limit, "arithmetic") == 0) == (arithmetic > read));
}

/* Without copies of the weights every token reads the same rows of the head. */
#define LIMITS "limits -m fixtures/nano-bitnet-b1.58-i2_s-42.gguf -n 3 -t 1,2 --min-time 0 --repack never "

TEST(limits_fit_the_work)
{
    measure(LIMITS "-p 9 -d 0,5");
    const bn_json *tests = bn_json_get(doc, "tests");
    for (const bn_json *t = bn_json_first(tests); t != NULL; t = bn_json_next(t)) {
        if (bn_json_text_is(t, "name", "tokenize")) continue;
        check_limits(bn_json_text_of(t, "name"));
        assert_true(series(bn_json_text_of(t, "name"), "ns_per_token")->n == 3);
    }
    double weights = bn_json_number_of(doc, "token.weight_bytes"),
           head = bn_json_number_of(doc, "token.head_bytes");
    double position = bn_json_number_of(doc, "token.cache_bytes"); /* at depth 0 */
    assert_true(weights > 0 && head > 0 && position > 0);
    assert_true(bn_json_number_of(doc, "token.set_bytes") == weights + head + position);
    /* Four tokens with 1 to 4 positions; five positions more for each. */
    double shallow = fact("decode n=3 d=0 t=1", "bytes");
    near(shallow, weights + head + 2.5 * position);
    near(fact("decode n=3 d=5 t=1", "bytes"), shallow + 5 * position);
    forget();
}

/* What is allocated is freed, whatever the pattern, so the number of operations is even. */
TEST(allocations_are_complete)
{
    static const char *const PATTERNS[] = {"sequential", "random", "mixed"};
    measure("memory --filter ' 4 KiB'" QUICK);
    assert_int_equal(bn_json_size(bn_json_get(doc, "tests")), BN_ARRAY_LEN(PATTERNS) + 1); /* and a latency */
    for (size_t i = 0; i < BN_ARRAY_LEN(PATTERNS); i++) {
        char name[64];
        snprintf(name, sizeof name, "bn_alloc %s 4 KiB", PATTERNS[i]);
        assert_true(median(name, "time_by_calloc") > 0);
        assert_true(fmod(fact(name, "operations"), 2) == 0 && fact(name, "live_blocks") == 1000);
        (void)times(name, "ns_per_operation");
    }
    forget();
}

TEST(bandwidth_counts_lines)
{
    measure("memory --filter ' 12 KiB t=1'" QUICK);
    const bn_json *tests = bn_json_get(doc, "tests");
    assert_int_equal(bn_json_size(tests), 5);
    for (const bn_json *t = bn_json_first(tests); t != NULL; t = bn_json_next(t)) {
        if (bn_json_text_is(t, "verdict", "skipped")) continue; /* no store past the caches */
        bool three = bn_json_text_is(t, "loop", "add") || bn_json_text_is(t, "loop", "triad");
        (void)times(bn_json_text_of(t, "name"), "ns_per_call");
        near(fact(bn_json_text_of(t, "name"), "bytes"), (three ? 3 : 2) * 4096);
    }
    assert_true(bn_json_size(bn_json_get(doc, "limits")) > 0);
    forget();
}

TEST(sessions_add_up)
{
    measure("memory --filter tags" QUICK);
    assert_true(bn_json_flag_of(test("tags session"), "parts_equal_whole"));
    assert_true(bn_json_flag_of(test("tags model"), "copies_within_heap"));
    near(median("session", "kv_bytes") + median("session", "scratch_bytes") +
             median("session", "handle_bytes"),
         median("session", "heap_bytes"));
    assert_true(series("session", "kv_bytes")->exact);
    forget();
    measure("memory --filter leaks" QUICK);
    assert_true(bn_json_flag_of(test("leaks"), "balanced"));
    assert_true(fact("leaks", "bytes_before") == fact("leaks", "bytes_after") &&
                fact("leaks", "allocations") > 0);
    forget();
#ifndef BN_SANITIZED /* whose heap is not the C library's */
    measure("memory --filter fragmentation" QUICK);
    if (bn_json_text_is(test("fragmentation"), "verdict", "valid"))
        assert_true(fact("fragmentation", "live_bytes") > 10e6 &&
                    fact("fragmentation", "live_bytes") < fact("fragmentation", "heap_bytes"));
    forget();
#endif
}

static void check_format(const bn_json *t)
{
    const char *name = bn_json_text_of(t, "name");
    double bits = median(name, "bits_per_weight");
    assert_true(series(name, "bits_per_weight")->exact);
    near(bits, fact(name, "bytes") * 8 / (16 * 1280));
    assert_true(fact(name, "zero_share") <= 1 && fact(name, "sqnr_db") >= 0);
}

TEST(quantising_is_complete)
{
    size_t n_formats = 0, n_operations = 0;
    measure("quant --min-time 0 -t 1 --shape 16x1280 --isa all" NANO);
    const bn_json *tests = bn_json_get(doc, "tests");
    for (const bn_json *t = bn_json_first(tests); t != NULL; t = bn_json_next(t)) {
        const char *name = bn_json_text_of(t, "name");
        if (strncmp(name, "quality ", 8) == 0) check_format(t), n_formats++;
        if (bn_json_get(t, "operation") == NULL) continue;
        n_operations++;
        double ns = bn_median(times(name, "ns_per_call")->samples, times(name, "ns_per_call")->n);
        assert_true(fact(name, "limit_ns") <= 1.05 * ns && fact(name, "bytes") > 0);
    }
    assert_true(n_operations >= 2 * 7 && n_formats == 10);
    forget();
}
