/* SPDX-License-Identifier: MIT
 *
 * The documents of bn-bench memory and quant: every null says why, no number is negative, series can
 * be read back and hold the samples, sums and quotients are what they are called. No test
 * depends on the speed of the machine.
 */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <math.h>

#include "lab/history/series.h"
#include "tests/unit/tools/bench_document.h"
#include "tests/unit/unit.h"

#define NANO " -m fixtures/nano-bitnet-i2_s-42.gguf"
#define QUICK " --min-time 0 -t 1" NANO

/* What bn-bench prints with these arguments, checked as every document is. */
static bn_json *document(const char *arguments, struct bn_series_list *series)
{
    char line[400];
    const char *text_of;
    bn_error err = {0};
    int status;
    snprintf(line, sizeof line, "%s --json -q", arguments);
    bn_json *doc = bench_document(line, &status);
    if (status != 0) fail_msg("%s ended with %d", arguments, status);
    assert_true(bn_json_string(bn_json_get(doc, "schema"), &text_of));
    assert_string_equal(text_of, "bn.bench/1");
    check_values(doc);
    *series = (struct bn_series_list){0};
    if (bn_series_read(series, doc, &err) != BN_OK) fail_msg("%s: %s", arguments, err.msg);
    return doc;
}

static double number(const bn_json *value, const char *path)
{
    double x = -1;
    if (!bn_json_number(bn_json_path(value, path), &x)) fail_msg("no number at %s", path);
    return x;
}

static const char *word(const bn_json *value, const char *name)
{
    const char *text = "";
    assert_true(bn_json_string(bn_json_get(value, name), &text));
    return text;
}

static bool truth(const bn_json *value, const char *path)
{
    bool b = false;
    if (!bn_json_bool(bn_json_path(value, path), &b)) fail_msg("no truth at %s", path);
    return b;
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

/* A row that was timed: valid, its series has its samples, the summary lies among them. */
static void check_row(const bn_json *part, const char *test, const char *metric,
                      const struct bn_series_list *series)
{
    char path[96];
    const struct bn_series *s = bn_series_find(series, test, metric);
    assert_true(truth(part, "valid"));
    if (s == NULL) fail_msg("no series '%s' of '%s'", metric, test);
    assert_int_equal(s->n, bn_json_size(bn_json_get(part, "samples_ns")));
    assert_true(s->n >= 3 && !s->higher && !s->exact);
    assert_string_equal(s->unit, "ns");
    snprintf(path, sizeof path, "%s.min", metric);
    double least = HUGE_VAL;
    for (size_t i = 0; i < s->n; i++)
        least = fmin(least, s->samples[i]);
    near(number(part, path), least);
}

/* Higher levels record more, in more memory; off records nothing. */
static void tracking_is_complete(void **state)
{
    static const char *const LEVELS[] = {"off", "layer", "brick", "kernel"};
    struct bn_series_list series;
    double events = -1, bytes = 0;
    size_t i = 0;
    (void)state;
    bn_json *doc = document("memory --filter tracking" QUICK, &series);
    const bn_json *all = bn_json_get(doc, "tracking");
    assert_int_equal(bn_json_size(all), BN_ARRAY_LEN(LEVELS));
    for (const bn_json *r = bn_json_first(all); r != NULL; r = bn_json_next(r), i++) {
        assert_string_equal(word(r, "level"), LEVELS[i]);
        check_row(r, word(r, "test"), "ns_per_token", &series);
        assert_true(number(r, "events_per_token") > events && number(r, "tracking_bytes") >= bytes);
        events = number(r, "events_per_token");
        bytes = number(r, "tracking_bytes");
        assert_true(i > 0 || (number(r, "time_by_off.median") <= 1 && number(r, "time_by_off.min") >= 1));
        assert_true(i > 0 || (events < 0.5 && bytes < 0.5));
    }
    bn_series_release(&series);
    bn_json_free(doc);
    doc = document("memory --filter 'tracking brick'" QUICK, &series);
    assert_int_equal(bn_json_size(bn_json_get(doc, "tracking")), 1);
    bn_series_release(&series);
    bn_json_free(doc);
}

/* What is allocated is freed, whatever the pattern, so the number of operations is even. */
static void allocations_are_complete(void **state)
{
    static const char *const PARTS[] = {"ns_per_allocation", "ns_per_release", "ns_per_operation"};
    struct bn_series_list series;
    size_t n_parts = 0;
    (void)state;
    bn_json *doc = document("memory --filter ' 4 KiB'" QUICK, &series);
    const bn_json *all = bn_json_get(doc, "allocation");
    assert_int_equal(bn_json_size(all), 3);
    for (const bn_json *r = bn_json_first(all); r != NULL; r = bn_json_next(r)) {
        assert_true(number(r, "time_by_calloc.median") > 0);
        assert_true(fmod(number(r, "operations"), 2) == 0 && number(r, "live_blocks") == 1000);
        for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++) {
            const bn_json *part = bn_json_get(r, PARTS[i]);
            if (part == NULL) continue;
            n_parts++;
            check_row(part, word(r, "test"), PARTS[i], &series);
            char path[96];
            snprintf(path, sizeof path, "%s.median", PARTS[i]);
            near(number(part, "operations_per_second"), 1e9 / number(part, path));
        }
    }
    assert_int_equal(n_parts, 2 + 2 + 1); /* mixed has one figure for both */
    bn_series_release(&series);
    bn_json_free(doc);
}

/* The share of the heap that no block uses follows from both sums. */
static void fragmentation_adds_up(void **state)
{
    char line[] = "memory --filter 'fragmentation' -t 1 --min-time 0 --json -q" NANO;
    int status;
    (void)state;
    bn_json *doc = bench_document(line, &status);
    assert_int_equal(status, 0);
    check_values(doc);
    const bn_json *f = bn_json_get(doc, "fragmentation");
    if (bn_json_kind(f) == BN_JSON_OBJECT) {
        near(number(f, "share"), 1 - number(f, "live_bytes") / number(f, "heap_bytes"));
        assert_true(number(f, "live_bytes") > 10e6 && number(f, "share") < 1);
    }
    bn_json_free(doc);
}

static void bandwidth_counts_lines(void **state)
{
    struct bn_series_list series;
    (void)state;
    bn_json *doc = document("memory --filter ' 12 KiB t=1'" QUICK, &series);
    const bn_json *all = bn_json_get(doc, "bandwidth");
    assert_int_equal(bn_json_size(all), 5);
    for (const bn_json *r = bn_json_first(all); r != NULL; r = bn_json_next(r)) {
        if (bn_json_get(r, "samples_ns") == NULL) continue; /* no store past the caches */
        check_row(r, word(r, "test"), "ns_per_call", &series);
        double arrays = strcmp(word(r, "loop"), "add") == 0 || strcmp(word(r, "loop"), "triad") == 0 ? 3 : 2;
        near(number(r, "bytes_per_call"), arrays * 4096);
        near(number(r, "bytes_per_second"),
             number(r, "bytes_per_call") * 1e9 / number(r, "ns_per_call.median"));
    }
    assert_true(bn_json_size(bn_json_get(doc, "limits")) > 0);
    bn_series_release(&series);
    bn_json_free(doc);
}

static void sessions_add_up(void **state)
{
    struct bn_series_list series;
    (void)state;
    bn_json *doc = document("memory --filter tags" QUICK, &series);
    const bn_json *s = bn_json_path(doc, "tags.session");
    assert_true(truth(s, "parts_equal_whole") && truth(doc, "tags.model.copies_within_heap"));
    near(number(s, "kv_bytes") + number(s, "scratch_bytes") + number(s, "handle_bytes"),
         number(s, "heap_bytes"));
    const struct bn_series *kv = bn_series_find(&series, "session", "kv_bytes");
    assert_true(kv != NULL && kv->exact && kv->samples[0] == number(s, "kv_bytes"));
    bn_series_release(&series);
    bn_json_free(doc);
}

static void everything_is_freed(void **state)
{
    struct bn_series_list series;
    (void)state;
    bn_json *doc = document("memory --filter 'session close'" QUICK, &series);
    assert_true(truth(doc, "leaks.balanced"));
    assert_true(number(doc, "leaks.bytes_before") == number(doc, "leaks.bytes_after"));
    assert_true(number(doc, "leaks.allocations") > 0);
    check_row(bn_json_at(bn_json_get(doc, "opening"), 0), "session close", "ns_per_call", &series);
    bn_series_release(&series);
    bn_json_free(doc);
}

static void check_operation(const bn_json *r, const struct bn_series_list *series)
{
    check_row(r, word(r, "test"), "ns_per_call", series);
    double weights = number(r, "rows") * number(r, "k"), per_second = 1e9 / number(r, "ns_per_call.median");
    near(number(r, "weights_per_second"), weights * per_second);
    near(number(r, "logical_bytes_per_second"), 2 * weights * per_second);
    near(number(r, "bytes_read_per_second"), number(r, "bytes_read") * per_second);
    assert_true(number(r, "share_of_reading") <= 1.05);
}

static void check_format(const bn_json *q, const struct bn_series_list *series)
{
    double bits = number(q, "bits_per_weight");
    near(bits, number(q, "bytes") * 8 / (16 * 1280));
    near(number(q, "compression_of_f16"), 16 / bits);
    const struct bn_series *s = bn_series_find(series, word(q, "test"), "bits_per_weight");
    assert_true(s != NULL && s->exact && s->samples[0] == bits);
    if (bn_json_get(q, "codes") == NULL) return;
    near(number(q, "codes.minus") + number(q, "codes.zero") + number(q, "codes.plus"), 16 * 1280);
    assert_true(number(q, "entropy_bits_per_weight") <= 1.5849625007212 &&
                number(q, "entropy_bits_per_weight") <= bits);
}

static void quantising_is_complete(void **state)
{
    struct bn_series_list series;
    size_t best = 0;
    (void)state;
    bn_json *doc = document("quant --min-time 0 -t 1 --shape 16x1280 --isa all" NANO, &series);
    const bn_json *operations = bn_json_get(doc, "operations"), *quality = bn_json_get(doc, "quality");
    assert_true(bn_json_size(operations) >= 2 * 7 + 1);
    for (const bn_json *r = bn_json_first(operations); r != NULL; r = bn_json_next(r))
        check_operation(r, &series);
    assert_int_equal(bn_json_size(quality), 10);
    for (const bn_json *q = bn_json_first(quality); q != NULL; q = bn_json_next(q))
        check_format(q, &series);
    const bn_json *choices = bn_json_get(doc, "tradeoff");
    for (const bn_json *c = bn_json_first(choices); c != NULL; c = bn_json_next(c))
        best += !truth(c, "dominated");
    assert_true(best >= 2); /* the smallest and the most exact, at least */
    assert_true(truth(doc, "model.logits.same_bits"));
    near(number(doc, "model.logits.top_1_agreement"), 1);
    assert_true(number(doc, "model.logits.kl_mean") == 0);
    near(number(doc, "model.bits_per_weight"),
         number(doc, "model.stored_bytes") * 8 / number(doc, "model.ternary_weights"));
    bn_series_release(&series);
    bn_json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_complete), cmocka_unit_test(tracking_is_complete),
        cmocka_unit_test(fragmentation_adds_up),    cmocka_unit_test(bandwidth_counts_lines),
        cmocka_unit_test(sessions_add_up),          cmocka_unit_test(everything_is_freed),
        cmocka_unit_test(quantising_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
