/* SPDX-License-Identifier: MIT
 *
 * The documents of bn-bench: they parse, nothing is missing, no number is negative, every null says why, and
 * what is computed from the samples agrees with them. No test depends on the speed of the machine.
 */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <math.h>

#include "base/json.h"
#include "base/mem.h"
#include "lab/history/series.h"
#include "tests/unit/tools/bench_document.h"
#include "tests/unit/unit.h"

static bn_json *document(const char *arguments)
{
    char line[400];
    int status;
    snprintf(line, sizeof line, "%s --json -q", arguments);
    bn_json *doc = bench_document(line, &status);
    assert_int_equal(status, 0);
    return doc;
}

static double number(const bn_json *value, const char *path)
{
    double x = -1;
    if (!bn_json_number(bn_json_path(value, path), &x)) fail_msg("no number at %s", path);
    return x;
}

static size_t size(const bn_json *value, const char *path)
{
    const bn_json *array = bn_json_path(value, path);
    if (array == NULL || bn_json_kind(array) != BN_JSON_ARRAY) fail_msg("no array at %s", path);
    return bn_json_size(array);
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

static void check_common(const bn_json *doc, const char *command)
{
    static const char *const TEXTS[] = {"schema",          "command",          "created",
                                        "program.version", "program.compiler", "machine.arch"};
    const char *text = NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++)
        assert_true(bn_json_string(bn_json_path(doc, TEXTS[i]), &text));
    assert_true(bn_json_string(bn_json_get(doc, "schema"), &text));
    assert_string_equal(text, "bn.bench/1");
    assert_true(bn_json_string(bn_json_get(doc, "command"), &text));
    assert_string_equal(text, command);
    check_values(doc);
}

/* A summary of n samples between which its figures lie. */
static void check_summary(const bn_json *summary, size_t n)
{
    static const char *const INSIDE[] = {"median", "p5", "p95", "p99"};
    assert_non_null(summary);
    assert_true(number(summary, "n") == (double)n);
    double min = number(summary, "min"), max = number(summary, "max"), x;
    assert_true(min <= max && number(summary, "mad") <= max - min);
    for (size_t i = 0; i < BN_ARRAY_LEN(INSIDE); i++) {
        const bn_json *value = bn_json_get(summary, INSIDE[i]);
        assert_non_null(value);
        if (bn_json_number(value, &x)) assert_true(x >= min && x <= max);
    }
    assert_int_equal(bn_json_kind(bn_json_get(summary, "median")), BN_JSON_NUMBER);
    bool p99 = bn_json_kind(bn_json_get(summary, "p99")) == BN_JSON_NUMBER;
    assert_true(p99 == (n >= 100));
}

/* ---- run ---- */

static void check_sample(const bn_json *sample, bool decode, double tokens)
{
    double ns = number(sample, "ns"), total = number(sample, "total_ns"), sum = 0, x;
    assert_true(ns > 0 && ns <= total);
    assert_near(number(sample, "tokens_per_second"), tokens * 1e9 / ns);
    assert_true(number(sample, "evaluated_tokens") == tokens + decode);
    assert_true(number(sample, "bytes") > 0 && number(sample, "ops") > 0);
    assert_true(number(sample, "first_token_ns") <= total);
    const bn_json *times = bn_json_get(sample, "token_ns");
    assert_int_equal(bn_json_size(times), decode ? (size_t)tokens : 0);
    for (const bn_json *t = bn_json_first(times); t != NULL; t = bn_json_next(t)) {
        assert_true(bn_json_number(t, &x) && x > 0);
        sum += x;
    }
    assert_true(sum <= ns);
    if (!decode) assert_true(number(sample, "first_token_ns") >= ns);
}

/* Ends that enclose the median; there are none of fewer than 6 samples. */
static void check_interval(const bn_json *summary, size_t n)
{
    double low = 0, high = 0;
    const bn_json *ends = bn_json_get(summary, "median_interval");
    assert_true((bn_json_kind(ends) == BN_JSON_ARRAY) == (n >= 6));
    if (n < 6) return;
    assert_true(bn_json_number(bn_json_at(ends, 0), &low) && bn_json_number(bn_json_at(ends, 1), &high));
    assert_true(low >= number(summary, "min") && low <= number(summary, "median"));
    assert_true(high <= number(summary, "max") && high >= number(summary, "median"));
}

/* The samples that count, as the document's list of series has them. */
static void check_series(const bn_json *doc, const bn_json *c)
{
    struct bn_series_list all = {0};
    bn_error err = {0};
    const char *name = NULL;
    size_t n = 0;
    bool warmup = false, decode = bn_json_kind(bn_json_get(c, "batch")) == BN_JSON_NULL;
    assert_int_equal(bn_series_read(&all, doc, &err), BN_OK);
    assert_true(bn_json_string(bn_json_get(c, "name"), &name));
    const struct bn_series *times = bn_series_find(&all, name, "ns_per_token");
    const struct bn_series *bytes = bn_series_find(&all, name, "bytes_per_token");
    assert_non_null(times);
    assert_non_null(bytes);
    assert_true(!times->exact && !times->higher && bytes->exact && bytes->n == times->n);
    assert_true((bn_series_find(&all, name, "token_ns") != NULL) == decode);
    assert_non_null(bn_series_find(&all, name, "first_token_ns"));
    assert_non_null(bn_series_find(&all, "load", "load_ns"));
    assert_int_equal(bn_series_find(&all, "load", "load_ns")->n, 6);
    assert_non_null(bn_series_find(&all, "process", "peak_rss_bytes"));
    if (bn_json_kind(bn_json_path(doc, "memory.round_peak_rss_bytes")) == BN_JSON_ARRAY) {
        const struct bn_series *peak = bn_series_find(&all, "round", "peak_rss_bytes");
        assert_non_null(peak);
        assert_int_equal(peak->n, times->n);
        for (size_t i = 0; i < peak->n; i++)
            assert_true(peak->samples[i] > 0 && peak->samples[i] <= number(doc, "memory.peak_rss_bytes"));
    }
    for (const bn_json *s = bn_json_first(bn_json_get(c, "samples")); s != NULL; s = bn_json_next(s)) {
        assert_true(bn_json_bool(bn_json_get(s, "warmup"), &warmup));
        if (!warmup) assert_near(times->samples[n++], number(s, "ns") / number(c, "tokens"));
    }
    assert_int_equal(n, times->n);
    bn_series_release(&all);
}

static void check_config(const bn_json *c, size_t reps, size_t n_warmup)
{
    const char *test = NULL;
    assert_true(bn_json_string(bn_json_get(c, "test"), &test));
    bool decode = strcmp(test, "decode") == 0;
    double tokens = number(c, "tokens"), sample_bytes = 0, kernel_bytes = 0, low = HUGE_VAL, high = 0;
    size_t i = 0;
    assert_int_equal(size(c, "samples"), n_warmup + reps);
    assert_true(bn_json_string(bn_json_get(c, "verdict"), &test));
    assert_string_equal(test, "valid");
    const bn_json *samples = bn_json_get(c, "samples"), *kernels = bn_json_get(c, "kernels");
    for (const bn_json *s = bn_json_first(samples); s != NULL; s = bn_json_next(s)) {
        const char *output = NULL;
        bool warmup = false;
        check_sample(s, decode, tokens);
        sample_bytes += number(s, "bytes");
        assert_true(bn_json_string(bn_json_get(s, "output_sha256"), &output) && strlen(output) == 64);
        assert_true(bn_json_bool(bn_json_get(s, "warmup"), &warmup) && warmup == (i++ < n_warmup));
        if (warmup) continue;
        low = fmin(low, number(s, "tokens_per_second"));
        high = fmax(high, number(s, "tokens_per_second"));
    }
    assert_true(size(c, "kernels") > 5);
    for (const bn_json *k = bn_json_first(kernels); k != NULL; k = bn_json_next(k)) {
        assert_true(number(k, "calls") > 0);
        kernel_bytes += number(k, "bytes");
    }
    assert_true(sample_bytes == kernel_bytes);
    check_summary(bn_json_path(c, "summary.tokens_per_second"), reps);
    check_interval(bn_json_path(c, "summary.tokens_per_second"), reps);
    assert_near(number(c, "summary.tokens_per_second.min"), low);
    assert_near(number(c, "summary.tokens_per_second.max"), high);
    check_summary(bn_json_path(c, "summary.bytes_per_token"), reps);
    check_summary(bn_json_path(c, "summary.bytes_per_second"), reps);
    const bn_json *share = bn_json_path(c, "summary.share_of_bandwidth");
    if (decode)
        check_summary(share, reps);
    else
        assert_int_equal(bn_json_kind(share), BN_JSON_NULL);
    const char *of = decode ? "summary.token_ns" : "summary.first_token_ns";
    check_summary(bn_json_path(c, of), decode ? reps * (size_t)tokens : reps);
    const char *none = decode ? "summary.first_token_ns" : "summary.token_ns";
    assert_int_equal(bn_json_kind(bn_json_path(c, none)), BN_JSON_NULL);
}

/* The configuration of that name. */
static const bn_json *find_config(const bn_json *doc, const char *name)
{
    const char *its = NULL;
    const bn_json *c = bn_json_first(bn_json_get(doc, "configurations"));
    while (c != NULL && (!bn_json_string(bn_json_get(c, "name"), &its) || strcmp(its, name) != 0))
        c = bn_json_next(c);
    if (c == NULL) fail_msg("no configuration '%s'", name);
    return c;
}

static void runs_are_complete(void **state)
{
    (void)state;
    bn_json *doc = document("run -p 3,5 -n 34 -d 0,7 -t 1,2 -b 2,128 --reps 6 --warmup 1");
    check_common(doc, "run");
    assert_int_equal(size(doc, "model.loads"), 6);
    assert_true(number(doc, "memory.peak_rss_bytes") > 0 && number(doc, "clock.step_ns") > 0);
    assert_int_equal(size(doc, "bandwidth"), 2);
    assert_int_equal(size(bn_json_at(bn_json_get(doc, "bandwidth"), 1), "bytes_per_second"), 7);
    assert_int_equal(size(doc, "configurations"), 2 * 2 * 2 * 2 + 2 * 2);
    const bn_json *configs = bn_json_get(doc, "configurations");
    for (const bn_json *c = bn_json_first(configs); c != NULL; c = bn_json_next(c)) {
        check_config(c, 6, 1);
        check_series(doc, c);
    }
    assert_int_equal(size(doc, "depth"), 2);
    assert_true(number(bn_json_at(bn_json_get(doc, "depth"), 0), "rounds") == 6);
    bn_json_free(doc);
}

/* Each position before a token makes it read its keys and values, and nothing else. */
static void depth_reads_the_cache(void **state)
{
    (void)state;
    bn_json *doc = document("run -p 0 -n 4 -d 16,80 -t 1 --reps 1 --warmup 0");
    double shallow = number(find_config(doc, "decode n=4 d=16 t=1"), "summary.bytes_per_token.median");
    double deep = number(find_config(doc, "decode n=4 d=80 t=1"), "summary.bytes_per_token.median");
    assert_true(deep - shallow == 64 * number(doc, "model.kv_bytes_per_token"));
    bn_json_free(doc);
}

static void outputs_agree(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"prompt n=9 d=3 t=1 b=2", "prompt n=9 d=3 t=2 b=2",
                                        "prompt n=9 d=3 t=1 b=8", "prompt n=9 d=3 t=2 b=8"};
    bn_json *doc = document("run -p 9 -n 0 -d 3 -t 1,2 -b 2,8 --reps 1 --warmup 0");
    const char *first = NULL, *other = NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        assert_true(bn_json_string(bn_json_get(find_config(doc, NAMES[i]), "output_sha256"), &other));
        if (first == NULL) first = other;
        assert_string_equal(first, other);
    }
    bn_json_free(doc);
}

static void concurrent_generations(void **state)
{
    (void)state;
    bn_json *doc = document("run -p 0 -n 5 -d 3 -t 1 --reps 2 --warmup 1 --concurrent 2");
    struct bn_series_list all = {0};
    bn_error err = {0};
    double ns;
    check_common(doc, "run");
    assert_int_equal(size(doc, "concurrent"), 1);
    const bn_json *crowd = bn_json_at(bn_json_get(doc, "concurrent"), 0);
    assert_int_equal(size(crowd, "samples"), 2);
    for (size_t i = 0; i < 2; i++) {
        const bn_json *round = bn_json_at(bn_json_get(crowd, "samples"), i);
        const bn_json *requests = bn_json_get(round, "request_ns");
        assert_int_equal(bn_json_size(requests), 2);
        for (const bn_json *r = bn_json_first(requests); r != NULL; r = bn_json_next(r))
            assert_true(bn_json_number(r, &ns) && ns > 0 && ns <= number(round, "makespan_ns"));
    }
    double slowest = number(bn_json_at(bn_json_get(crowd, "samples"), 0), "makespan_ns");
    assert_true(number(crowd, "summary.tokens_per_second.max") >= 2 * 6 * 1e9 / slowest * 0.999999);
    double fairness = number(crowd, "summary.fairness.median");
    assert_true(fairness >= 0.5 && fairness <= 1.000001);
    assert_int_equal(bn_series_read(&all, doc, &err), BN_OK);
    const struct bn_series *requests = bn_series_find(&all, "concurrent k=2 n=5 d=3 t=1", "request_ns");
    assert_true(requests != NULL && requests->n == 4);
    bn_series_release(&all);
    bn_json_free(doc);
}

/* Each test again next to a busy process, with the same output. */
static void busy_processes_are_tests_too(void **state)
{
    (void)state;
    bn_json *doc = document("run -p 5 -n 3 -t 1,2 --reps 1 --warmup 0 --busy 1,0");
    check_common(doc, "run");
    assert_int_equal(size(doc, "configurations"), 8);
    assert_int_equal(size(doc, "settings.busy"), 1);
    const bn_json *quiet = find_config(doc, "decode n=3 d=0 t=2");
    const bn_json *busy = find_config(doc, "decode n=3 d=0 t=2 busy=1");
    check_config(busy, 1, 0);
    check_series(doc, busy);
    assert_true(number(quiet, "busy") == 0 && number(busy, "busy") == 1);
    assert_near(number(busy, "summary.share_of_quiet"),
                number(busy, "summary.tokens_per_second.median") /
                    number(quiet, "summary.tokens_per_second.median"));
    assert_int_equal(bn_json_kind(bn_json_path(quiet, "summary.share_of_quiet")), BN_JSON_NULL);
    const char *one = NULL, *other = NULL;
    assert_true(bn_json_string(bn_json_get(quiet, "output_sha256"), &one));
    assert_true(bn_json_string(bn_json_get(busy, "output_sha256"), &other));
    assert_string_equal(one, other);
    bn_json_free(doc);
}

static void one_test_alone(void **state)
{
    (void)state;
    bn_json *doc = document("run -p 0 -n 2 -t 1,1 --reps 1 --warmup 0 --isa ref");
    check_common(doc, "run");
    assert_int_equal(size(doc, "configurations"), 1);
    check_config(bn_json_at(bn_json_get(doc, "configurations"), 0), 1, 0);
    bn_json_free(doc);
}

/* With auto there are at least the requested samples, after at least one warm-up. */
static void warmup_is_bounded(void **state)
{
    (void)state;
    bn_json *doc = document("run -p 0 -n 2 -t 1 --reps 6");
    const bn_json *c = bn_json_at(bn_json_get(doc, "configurations"), 0);
    double n_warmup = number(c, "warmup_samples"), n = (double)size(c, "samples");
    assert_true(n_warmup >= 1 && n_warmup <= 10 && n >= n_warmup + 6 && n <= 16);
    check_config(c, (size_t)(n - n_warmup), (size_t)n_warmup);
    bn_json_free(doc);
    doc = document("run -p 0 -n 2 -t 1 --reps auto --max-time 0");
    assert_int_equal(size(bn_json_at(bn_json_get(doc, "configurations"), 0), "samples"), 7);
    bn_json_free(doc);
}

/* The work of a token is the same each time, so its bytes are too. */
static void bytes_are_counted(void **state)
{
    (void)state;
    bn_json *doc = document("run -p 0 -n 4 -t 1,2 --reps 2 --warmup 0");
    const bn_json *configs = bn_json_get(doc, "configurations");
    double one = number(bn_json_at(configs, 0), "summary.bytes_per_token.median");
    assert_true(one > 3e6 && one < 4e6); /* 3.3 MB of weights, and the cache */
    assert_true(number(bn_json_at(configs, 0), "summary.bytes_per_token.mad") == 0);
    assert_true(number(bn_json_at(configs, 1), "summary.bytes_per_token.median") == one);
    bn_json_free(doc);
}

/* ---- kernels ---- */

static void check_result(const bn_json *r)
{
    bool equal = false;
    const char *limit = NULL;
    size_t n = size(r, "samples_ns");
    double median = number(r, "ns_per_call.median"), calls = number(r, "calls_per_sample"), ns;
    assert_true(bn_json_bool(bn_json_get(r, "equals_reference"), &equal) && equal);
    assert_true(n >= 3 && calls >= 1);
    check_summary(bn_json_get(r, "ns_per_call"), n);
    for (const bn_json *s = bn_json_first(bn_json_get(r, "samples_ns")); s != NULL; s = bn_json_next(s)) {
        assert_true(bn_json_number(s, &ns));
        assert_true(ns / calls >= number(r, "ns_per_call.min") * 0.999999);
        assert_true(ns / calls <= number(r, "ns_per_call.max") * 1.000001);
    }
    assert_near(number(r, "bytes_per_second"), number(r, "bytes_per_call") * 1e9 / median);
    if (number(r, "macs_per_call") > 0)
        assert_near(number(r, "macs_per_second"), number(r, "macs_per_call") * 1e9 / median);
    if (!bn_json_string(bn_json_get(r, "limit"), &limit)) return;
    assert_near(number(r, "share_of_limit"), number(r, "limit_ns_per_call") / median);
}

static void kernels_are_complete(void **state)
{
    (void)state;
    bn_json *doc =
        document("kernels -m fixtures/nano-bitnet-i2_s-42.gguf --isa all -t 1,2 --min-time 0 --set 64K");
    check_common(doc, "kernels");
    size_t n_limits = size(doc, "limits"), n = size(doc, "results");
    assert_true(n_limits > 4 && n > 30);
    const bn_json *results = bn_json_get(doc, "results");
    for (const bn_json *r = bn_json_first(results); r != NULL; r = bn_json_next(r))
        check_result(r);
    assert_int_equal(size(doc, "series"), n);
    bn_json_free(doc);
}

/* No limit is claimed for plain C. */
static void plain_c_has_no_limit(void **state)
{
    (void)state;
    bn_json *doc =
        document("kernels -m fixtures/nano-bitnet-i2_s-42.gguf --isa ref -t 1 --min-time 0 --set 64K "
                 "--filter i2s_gemv");
    const bn_json *results = bn_json_get(doc, "results");
    assert_int_equal(bn_json_size(results), 4);
    for (const bn_json *r = bn_json_first(results); r != NULL; r = bn_json_next(r))
        assert_int_equal(bn_json_kind(bn_json_get(r, "share_of_limit")), BN_JSON_NULL);
    bn_json_free(doc);
}

/* ---- limits ---- */

/* The measured rate of a limit; `of` is the member of the rate. */
static double limit_of(const bn_json *doc, const char *kind, double threads, const char *of)
{
    const char *isa = NULL, *its = NULL;
    assert_true(bn_json_string(bn_json_path(doc, "settings.isa"), &isa));
    const bn_json *limits = bn_json_get(doc, "limits");
    for (const bn_json *l = bn_json_first(limits); l != NULL; l = bn_json_next(l)) {
        const char *name = NULL;
        assert_true(bn_json_string(bn_json_get(l, "kind"), &name));
        bool same = !bn_json_string(bn_json_get(l, "isa"), &its) || strcmp(its, isa) == 0;
        if (same && strcmp(name, kind) == 0 && number(l, "threads") == threads) return number(l, of);
    }
    fail_msg("no limit '%s' with %g threads", kind, threads);
    return 0;
}

/* The rates follow from the work of a token and the limits. */
static void check_limits(const bn_json *doc, const bn_json *r)
{
    const char *limit = NULL;
    double threads = number(r, "threads"), rate;
    if (!bn_json_string(bn_json_get(r, "limit"), &limit)) return; /* plain C */
    double read = limit_of(doc, "read", threads, "bytes_per_second") / number(r, "bytes_per_token");
    double seconds = number(r, "int8_macs_per_token") / limit_of(doc, "int8", threads, "macs_per_second") +
                     number(r, "float_macs_per_token") / limit_of(doc, "float", threads, "macs_per_second");
    assert_near(number(r, "read_tokens_per_second"), read);
    assert_near(number(r, "arithmetic_tokens_per_second"), 1 / seconds);
    assert_near(number(r, "limit_tokens_per_second"), fmin(read, 1 / seconds));
    assert_near(number(r, "next_tokens_per_second"), fmax(read, 1 / seconds));
    assert_true((strcmp(limit, "arithmetic") == 0) == (1 / seconds < read));
    if (bn_json_number(bn_json_get(r, "tokens_per_second"), &rate))
        assert_near(number(r, "share_of_limit"), rate / fmin(read, 1 / seconds));
}

/* Without copies of the weights every token reads the same rows of the head. */
#define LIMITS "limits -m fixtures/nano-bitnet-b1.58-i2_s-42.gguf -n 3 -t 1,2 --min-time 0 --repack never "

static void limits_fit_the_work(void **state)
{
    (void)state;
    bn_json *doc = document(LIMITS "-p 9 -d 0,5");
    check_common(doc, "limits");
    const bn_json *results = bn_json_get(doc, "results");
    assert_int_equal(bn_json_size(results), 8);
    for (const bn_json *r = bn_json_first(results); r != NULL; r = bn_json_next(r)) {
        check_limits(doc, r);
        assert_true(number(r, "tokens_per_second") > 0);
    }
    double weights = number(doc, "token.weight_bytes"), head = number(doc, "token.head_bytes");
    double position = number(doc, "token.cache_bytes"); /* at depth 0 */
    assert_true(weights > 0 && head > 0 && position > 0);
    assert_true(number(doc, "token.set_bytes") == weights + head + position);
    /* Four tokens with 1 to 4 positions; five positions more for each. */
    double shallow = number(bn_json_at(results, 4), "bytes_per_token");
    assert_near(shallow, weights + head + 2.5 * position);
    assert_near(number(bn_json_at(results, 6), "bytes_per_token"), shallow + 5 * position);
    bn_json_free(doc);
}

static void limits_without_a_run(void **state)
{
    (void)state;
    bn_json *doc = document(LIMITS "-p 0 --no-run"), *run = document(LIMITS "-p 0");
    const bn_json *counted = bn_json_get(doc, "results"), *timed = bn_json_get(run, "results");
    check_common(doc, "limits");
    assert_int_equal(size(doc, "series"), 0);
    for (const bn_json *r = bn_json_first(counted); r != NULL; r = bn_json_next(r)) {
        check_limits(doc, r);
        assert_int_equal(bn_json_kind(bn_json_get(r, "tokens_per_second")), BN_JSON_NULL);
    }
    /* Of one thread: two that share a head both read its part of the cache. */
    const bn_json *r = bn_json_at(counted, 0), *t = bn_json_at(timed, 0);
    assert_near(number(r, "bytes_per_token"), number(t, "bytes_per_token"));
    assert_near(number(r, "int8_macs_per_token"), number(t, "int8_macs_per_token"));
    bn_json_free(doc);
    bn_json_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_complete),      cmocka_unit_test(depth_reads_the_cache),
        cmocka_unit_test(outputs_agree),          cmocka_unit_test(warmup_is_bounded),
        cmocka_unit_test(concurrent_generations), cmocka_unit_test(one_test_alone),
        cmocka_unit_test(bytes_are_counted),      cmocka_unit_test(kernels_are_complete),
        cmocka_unit_test(plain_c_has_no_limit),   cmocka_unit_test(limits_fit_the_work),
        cmocka_unit_test(limits_without_a_run),   cmocka_unit_test(busy_processes_are_tests_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
