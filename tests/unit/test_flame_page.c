/* SPDX-License-Identifier: MIT
 *
 * tools/flamegraph/page.h: every number on a page is in its data (the page is read back), what is missing is
 * said, texts from anywhere stay inside their cells, and a timing document of any form is no danger.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lab/stacks/stacks.h"
#include "tools/flamegraph/page.h"

#define DIGEST "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999"

static const char ABOUT[] =
    "{\"created\": \"2026-11-20T10:00:00Z\", \"command\": \"bn-flamegraph baseline\","
    " \"program\": {\"version\": \"0.1.0\", \"commit\": \"1111111111111111\", \"dirty\": false},"
    " \"machine\": {\"key\": \"k\", \"cpu_model\": \"A|B\", \"memory_bytes\": 8589934592, \"load_milli\": "
    "[4090, 250, 1000], \"microcode\": \"0x123\"},"
    " \"model\": {\"name\": \"m.gguf\", \"sha256\": \"" DIGEST "\"},"
    " \"workload\": {\"prompt\": \"2+2=\", \"n_predict\": 1, \"threads\": 1, \"isa\": \"avx2\", "
    "\"repetitions\": [3, 4]},"
    " \"sampler\": {\"tier\": \"timer\", \"asked_period_ns\": 1009000, \"delivered_share\": 0.98765, "
    "\"lost\": 17, "
    "\"weight\": 7111000854, \"dump_bytes\": 49152},"
    " \"quality\": {\"samples\": 600, \"rooted_share\": 0.75, \"rooted\": 450},"
    " \"agreement\": {\"agrees\": false, \"samples\": 512, \"p\": 0.000123, \"kernels_by_both\": 211,"
    "   \"kernels_that_differ\": 13, \"rows\": [{\"name\": \"LmHead\", \"measured\": 0.3141, \"sampled\": "
    "0.2718,"
    "   \"low\": 0.25, \"high\": 0.29, \"samples\": 161, \"agrees\": false}]}}";

static const char TIMING[] =
    "| measured | 2026-11-19T00:00:00Z |\n|---|---|\n"
    "| machine | AMD, 2 CPUs; box |\n| model | m.gguf, sha256 " DIGEST " |\n"
    "| kernels | avx2, threads: 1 |\n\n| | median |\n|---|---:|\n| embed | 0.07 |\n"
    "| layers | 53.58 |\n| last norm | 0.08 |\n| head | 12.25 |\n| sample | 0.71 |\n";

/* ---- stacks made by hand ---- */

static void add(bn_stacks *s, size_t run, const char *path, enum bn_frame_kind kind, double weight,
                uint64_t samples)
{
    uint32_t node = BN_STACKS_ROOT;
    for (const char *at = path; *at != '\0';) {
        char name[200];
        size_t n = strcspn(at, ";");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        enum bn_frame_kind own = kind;
        if (kind == BN_FRAME_BRICK && strncmp(name, "thread", 6) == 0) own = BN_FRAME_THREAD;
        if (kind == BN_FRAME_BRICK && strcmp(name, "decode") == 0) own = BN_FRAME_PHASE;
        if (kind == BN_FRAME_BRICK && strstr(name, "layer") != NULL) own = BN_FRAME_LAYER;
        assert_int_equal(bn_stacks_push_name(s, &node, own, name, NULL), BN_OK);
        at += n + (at[n] == ';');
    }
    bn_stacks_add(s, node, run, weight, samples);
}

static void put_about(bn_stacks *s, const char *text)
{
    bn_json *about = NULL;
    assert_int_equal(bn_json_parse(&about, text, strlen(text), NULL), BN_OK);
    bn_json_free(s->about);
    s->about = about;
}

static bn_stacks *make(const char *about, unsigned shift)
{
    bn_stacks *s = NULL;
    assert_int_equal(bn_stacks_open(&s, "ns", "cpu", NULL), BN_OK);
    assert_int_equal(bn_stacks_add_run(s, NULL), BN_OK);
    for (unsigned r = 0; r < 2; r++) {
        add(s, r, "main;bn_i2s_gemv_avx2", BN_FRAME_CODE, (200 - shift) * 1009e3, 200 - shift);
        add(s, r, "main;bn_quantize_avx2", BN_FRAME_CODE, (80 + shift) * 1009e3, 80 + shift);
        add(s, r, "main;weird|name`with``ticks", BN_FRAME_CODE, (20 + r) * 1009e3, 20 + r);
        add(s, r, "main;bn_prof_close_brick", BN_FRAME_CODE, 6 * 1009e3, 6);
        add(s, r, "main;bn_prof_close_brick;note;deep", BN_FRAME_CODE, 4 * 1009e3, 4);
    }
    put_about(s, about);
    return s;
}

static void measure(bn_stacks *s)
{
    bn_stacks *m = NULL;
    assert_int_equal(bn_stacks_open(&m, "ns", "bricks", NULL), BN_OK);
    assert_int_equal(bn_stacks_add_run(m, NULL), BN_OK);
    for (unsigned r = 0; r < 2; r++) {
        add(m, r, "thread 0;decode;layer 00;UpProjection", BN_FRAME_BRICK, 50001 + 999 * r, 0);
        add(m, r, "thread 0;decode;outside layers;LmHead", BN_FRAME_BRICK, 12007, 0);
        add(m, r, "thread 0;decode;outside layers;Embedding", BN_FRAME_BRICK, 71, 0);
        add(m, r, "thread 0;decode;outside layers;RmsNorm", BN_FRAME_BRICK, 83, 0);
        add(m, r, "thread 0;prefill;layer 00;UpProjection", BN_FRAME_BRICK, 77777, 0);
    }
    /* One of each run, as workload_stacks.c writes them. */
    put_about(m, "{\"scheduling\": {\"cpu_ns\": [4444000, 444], \"waited_ns\": [5000, 555]}}");
    s->measured = m;
}

static struct bn_flamegraph_beside beside(void)
{
    return (struct bn_flamegraph_beside){.name = "phase2_1tok",
                                         .timing_path = "timing.md",
                                         .timing_text = TIMING,
                                         .before_why = "there is none"};
}

static char *write_page(const bn_stacks *s)
{
    struct bn_buf out = {.max = SIZE_MAX};
    assert_int_equal(bn_flamegraph_page_write(&out, s->about, NULL), BN_OK);
    return out.data;
}

static char *page_of(bn_stacks *s, const struct bn_flamegraph_beside *with)
{
    assert_int_equal(bn_flamegraph_page_put(s, with, NULL), BN_OK);
    return write_page(s);
}

/* ---- reading a page back ---- */

/* Is a number (its sign aside), or that number as a percentage or in another unit of time, anywhere in the
 * data? */
static bool is_known(const bn_json *data, double value, double half)
{
    static const double SCALES[] = {1, 100, 1e-3, 1e-6, 1e-9, 1 / 0x1p10, 1 / 0x1p20, 1 / 0x1p30};
    double number;
    if (bn_json_number(data, &number))
        for (size_t i = 0; i < BN_ARRAY_LEN(SCALES); i++)
            if (fabs(fabs(number) * SCALES[i] - value) <= half * 1.0001 + 1e-12 * fabs(value)) return true;
    for (const bn_json *m = bn_json_first(data); m != NULL; m = bn_json_next(m))
        if (is_known(m, value, half)) return true;
    return false;
}

/* Half a unit of the last digit that is written. */
static double half_unit(const char *from, const char *end)
{
    double half = 0.5;
    const char *dot = memchr(from, '.', (size_t)(end - from)), *e = memchr(from, 'e', (size_t)(end - from));
    for (const char *p = dot != NULL ? dot + 1 : end; p < (e != NULL ? e : end); p++)
        half /= 10;
    return e != NULL ? half * pow(10, strtod(e + 1, NULL)) : half;
}

/* Behind a code span that begins here. */
static const char *skip_code(const char *p)
{
    size_t fence = strspn(p, "`");
    for (p += fence; *p != '\0';) {
        size_t run = strspn(p, "`");
        if (run == fence) return p + run;
        p += run > 0 ? run : 1;
    }
    return p;
}

/* The first number of a page that its data do not have; texts from the data stand in code spans, and the
 * page's own words have these numbers. */
static bool find_stranger(char out[64], const char *page, const bn_json *data)
{
    static const char *const OWN[] = {"95", "0.05"};
    for (const char *p = page; *p != '\0';) {
        bool begins = p == page || (!isalnum((unsigned char)p[-1]) && p[-1] != '_');
        if (*p == '`') {
            p = skip_code(p);
        } else if (strncmp(p, "](", 2) == 0 || strncmp(p, "    ", 4) == 0) {
            p += strcspn(p, *p == ']' ? ")" : "\n");
        } else if (isdigit((unsigned char)*p) && begins) {
            char *end;
            double value = strtod(p, &end);
            bool own = false;
            snprintf(out, 64, "%.*s", (int)(end - p), p);
            for (size_t i = 0; i < BN_ARRAY_LEN(OWN); i++)
                own = own || strcmp(OWN[i], out) == 0;
            if (!own && !is_known(data, value, half_unit(p, end))) return true;
            p = end;
        } else {
            p++;
        }
    }
    return false;
}

static void numbers_are_in_the_data(void **state)
{
    char stranger[64];
    bn_stacks *s = make(ABOUT, 0), *before = make(ABOUT, 100);
    struct bn_flamegraph_beside with = beside();
    measure(s);
    with.before = before;
    with.before_name = "2026-11-19-111111111111";
    char *page = page_of(s, &with);
    if (find_stranger(stranger, page, s->about)) fail_msg("%s is not in the data", stranger);
    static const char *const MUST[] = {"1.009 ms",
                                       "98.77 %",
                                       "75.00 %",
                                       "| lost samples | 17 |",
                                       "31.41 %",
                                       "27.18 %",
                                       "0.000123",
                                       "12.25 us",
                                       "| self | 32.",
                                       "5.555 us, beside 4.444 ms on one",
                                       "| memory | 8 GiB |",
                                       "| repetitions, of each run | 3, 4 |",
                                       "| load of one, five and fifteen minutes | 4.09, 0.25, 1 |",
                                       "| copied of the stack with each sample | 48 KiB |",
                                       "what they call): 3.22 % of the whole",
                                       "**differs**"};
    static const char *const MUST_NOT[] = {"milli", "dump", "microcode", "weight", "7111000854", " ns`"};
    for (size_t i = 0; i < BN_ARRAY_LEN(MUST_NOT); i++)
        if (strstr(page, MUST_NOT[i]) != NULL) fail_msg("the page has '%s'", MUST_NOT[i]);
    for (size_t i = 0; i < BN_ARRAY_LEN(MUST); i++)
        if (strstr(page, MUST[i]) == NULL) fail_msg("the page lacks '%s'", MUST[i]);
    /* The check itself: one digit changed is found. */
    char *at = strstr(page, "98.77 %");
    at[4] = '8';
    assert_true(find_stranger(stranger, page, s->about));
    assert_string_equal(stranger, "98.78");
    bn_free(page);
    bn_stacks_close(before);
    bn_stacks_close(s);
    (void)state;
}

/* Times of each run that are not all known have no sum; why is said. */
static void waiting_that_is_not_known(void **state)
{
    static const struct {
        const char *about, *says;
    } CASES[] = {{"{}", "not known: `the recording does not say`"},
                 {"{\"scheduling\": {\"cpu_ns\": [1], \"waited_ns\": []}}", "not known: `the recording"},
                 {"{\"scheduling\": {\"cpu_ns\": [1], \"waited_ns\": [1, null]}}", "not known: `the record"},
                 {"{\"scheduling\": null, \"unavailable\": {\"scheduling\": \"no schedstat\"}}",
                  "not known: `no schedstat`"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        bn_stacks *s = make(ABOUT, 0);
        struct bn_flamegraph_beside with = beside();
        measure(s);
        put_about(s->measured, CASES[i].about);
        char *page = page_of(s, &with), wanted[120];
        snprintf(wanted, sizeof wanted, "of all runs together: %s", CASES[i].says);
        if (strstr(page, wanted) == NULL) fail_msg("the page lacks '%s'", wanted);
        bn_free(page);
        bn_stacks_close(s);
    }
    (void)state;
}

static void the_same_gives_the_same(void **state)
{
    bn_stacks *s = make(ABOUT, 0), *t = make(ABOUT, 0);
    struct bn_flamegraph_beside with = beside();
    char *a = page_of(s, &with), *b = page_of(t, &with), *c = page_of(s, &with);
    assert_string_equal(a, b);
    assert_string_equal(a, c); /* made anew: its own member is not among what it is made of */
    bn_free(a);
    bn_free(b);
    bn_free(c);
    bn_stacks_close(s);
    bn_stacks_close(t);
    (void)state;
}

static void what_is_missing_is_said(void **state)
{
    static const char *const MUST[] = {
        "| when | not known: the recording does not say |",
        "| processor | not known: the recording does not say |",
        "| way | not known: the recording does not say |",
        "| samples that count | not known: the recording does not say |",
        "| compiler | not known: the recording does not say |",
        "| repository: commit | not known: `no|repository` |",
        "## Bricks, as the profiler measured them\n\nNot known: `the profiler did not run",
        "agree?\n\nnot known: the recording does not say",
        "Not compared: `the recording does not say which model it has`",
        "Not compared: `there is none`",
        "Not known: the recording does not say which command",
    };
    bn_stacks *s = make("{\"git\": {\"commit\": null, \"unavailable\": {\"commit\": \"no|repository\"}}}", 0);
    struct bn_flamegraph_beside with = beside();
    char *page = page_of(s, &with), stranger[64];
    for (size_t i = 0; i < BN_ARRAY_LEN(MUST); i++) {
        char wanted[200], *bar;
        snprintf(wanted, sizeof wanted, "%s", MUST[i]);
        if ((bar = strstr(wanted, "no|repository")) != NULL) {
            memmove(bar + 4, bar + 3, strlen(bar + 3) + 1);
            memcpy(bar, "no\\|", 4);
        }
        if (strstr(page, wanted) == NULL) fail_msg("the page lacks '%s'", wanted);
    }
    assert_false(find_stranger(stranger, page, s->about));
    bn_free(page);
    bn_stacks_close(s);
    (void)state;
}

/* Reads a code span as CommonMark and the tables of GitHub do. */
static void read_code(char *out, const char *span)
{
    size_t fence = strspn(span, "`"), n = 0;
    const char *p = span + fence, *end = skip_code(span) - fence;
    assert_true(end >= p);
    if (end - p >= 2 && *p == ' ' && end[-1] == ' ') p++, end--;
    for (; p < end; p++) {
        if (*p == '\\' && p[1] == '|') continue;
        out[n++] = *p;
    }
    out[n] = '\0';
}

static void texts_stay_in_their_cells(void **state)
{
    static const char *const TEXTS[] = {"plain",
                                        "a|b",
                                        "`",
                                        "``a`",
                                        "a\\|b",
                                        "\\",
                                        "|`|",
                                        "<script>alert(1)</script>",
                                        "[x](javascript:1)",
                                        "a\nb\r\n| c |",
                                        " padded ",
                                        "",
                                        "\x1b[31m",
                                        "\xff\xfe",
                                        "std::vector<int, std::allocator<int> >::push_back(int&&)",
                                        "*a*_b_"};
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++) {
        char read[400], safe[400];
        struct bn_buf out = {.max = SIZE_MAX};
        bn_markdown_code(&out, TEXTS[i]);
        assert_int_equal(bn_buf_check(&out, NULL), BN_OK);
        assert_null(strpbrk(out.data, "\n\r"));
        for (const char *p = out.data; (p = strchr(p, '|')) != NULL; p++)
            assert_true(p > out.data && p[-1] == '\\');
        assert_ptr_equal(skip_code(out.data), out.data + out.len);
        read_code(read, out.data);
        bn_escape(safe, sizeof safe, TEXTS[i], strlen(TEXTS[i]));
        if (TEXTS[i][0] != '\0') assert_string_equal(read, safe);
        bn_buf_release(&out);
    }
    (void)state;
}

static void recordings_of_other_kinds_are_not_compared(void **state)
{
    static const struct {
        const char *find, *put, *why;
    } CHANGES[] = {{"\"key\": \"k\"", "\"key\": \"l\"", "another machine"},
                   {"\"isa\": \"avx2\"", "\"isa\": \"neon\"", "another instruction set"},
                   {"\"threads\": 1", "\"threads\": 2", "another number of threads"},
                   {"\"n_predict\": 1", "\"n_predict\": 2", "another number of tokens"},
                   {"\"tier\": \"timer\"", "\"tier\": \"clock\"", "another way of sampling"},
                   {"\"threads\": 1,", "", "one of them does not say which number of threads it has"}};
    char why[200];
    bn_json *about = NULL, *other = NULL;
    assert_int_equal(bn_json_parse(&about, ABOUT, strlen(ABOUT), NULL), BN_OK);
    assert_string_equal(bn_flamegraph_unlike(why, sizeof why, about, about), "");
    for (size_t i = 0; i < BN_ARRAY_LEN(CHANGES); i++) {
        char text[sizeof ABOUT + 64];
        const char *at = strstr(ABOUT, CHANGES[i].find);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - ABOUT), ABOUT, CHANGES[i].put,
                 at + strlen(CHANGES[i].find));
        assert_int_equal(bn_json_parse(&other, text, strlen(text), NULL), BN_OK);
        assert_string_equal(bn_flamegraph_unlike(why, sizeof why, about, other), CHANGES[i].why);
        bn_json_free(other);
    }
    bn_json_free(about);
    (void)state;
}

static bool compares(const char *timing)
{
    bool compared = false;
    bn_stacks *s = make(ABOUT, 0);
    struct bn_flamegraph_beside with = beside();
    with.timing_text = timing;
    measure(s);
    assert_int_equal(bn_flamegraph_page_put(s, &with, NULL), BN_OK);
    assert_true(bn_json_bool(bn_json_path(s->about, "page.timing.compared"), &compared));
    bn_free(write_page(s));
    bn_stacks_close(s);
    return compared;
}

/* Cut anywhere it is no table, or the whole one; with any byte replaced it is read or refused. */
static void timing_documents_are_hostile(void **state)
{
    char text[sizeof TIMING];
    size_t n = strlen(TIMING);
    assert_true(compares(TIMING));
    for (size_t i = 0; i + 8 < n; i += 7) {
        memcpy(text, TIMING, sizeof text);
        text[i] = '\0';
        assert_false(compares(text));
    }
    for (size_t i = 0; i < n; i += 3) {
        memcpy(text, TIMING, sizeof text);
        text[i] = "|\n\x80 9"[i % 5];
        (void)compares(text);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_in_the_data),
        cmocka_unit_test(waiting_that_is_not_known),
        cmocka_unit_test(the_same_gives_the_same),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(texts_stay_in_their_cells),
        cmocka_unit_test(recordings_of_other_kinds_are_not_compared),
        cmocka_unit_test(timing_documents_are_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
