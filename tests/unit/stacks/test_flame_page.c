/* SPDX-License-Identifier: MIT
 *
 * tools/flamegraph/page.h: a page has the facts and tables of its recording, missing facts have reasons,
 * untrusted texts stay inside their cells, and a malformed timing document does no harm.
 */
#include "base/error.h"
#include "lab/stacks/stacks.h"
#include "tests/unit/unit.h"
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
    " \"phases\": {\"tokens\": 9, \"embed_ns\": 70, \"forward_ns\": 55000, \"head_ns\": 12500, "
    "\"sample_ns\": 700},"
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

static char *page_of(const bn_stacks *s, const struct bn_flamegraph_page *with)
{
    struct bn_buf out = {.max = SIZE_MAX}, shows = {.max = SIZE_MAX};
    struct bn_flamegraph_page page = *with;
    page.stacks = s;
    bn_error err = {0};
    if (bn_flamegraph_insights(&shows, &page, &err) != BN_OK) fail_msg("%s", err.msg);
    page.shows = shows.data;
    if (bn_flamegraph_page(&out, &page, &err) != BN_OK) fail_msg("%s", err.msg);
    bn_buf_release(&shows);
    return out.data;
}

static const struct bn_flamegraph_page PAGE = {
    .name = "phase2_1tok", .timing_path = "timing.md", .timing_text = TIMING, .before_why = "there is none"};

static void must_have(const char *page, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(page, texts[i]) == NULL) fail_msg("the page lacks '%s'", texts[i]);
}

static void facts_and_tables_are_on_the_page(void **state)
{
    static const char *const MUST[] = {"| sampling period, requested | 1.009 ms |",
                                       "| samples delivered | 98.77 % |",
                                       "| complete stacks | 75.00 % |",
                                       "| lost samples | 17 |",
                                       "| memory | 8 GiB |",
                                       "| repetitions of each run | 3, 4 |",
                                       "| load average | 4.09, 0.25, 1 |",
                                       "| stack copied with each sample | 48 KiB |",
                                       "| such a token: head | 12.50 us |",
                                       "| matrix multiplication | 64.41 % |",
                                       "      64.41 ",
                                       "| head | 12.25 us | 12.50 us |",
                                       "| layers and last norm | 53.66 us | 55 us |",
                                       "UpProjection",
                                       "\n    before   2026-11-19-111111111111: 2 runs",
                                       "* bn_i2s_gemv_avx2\n"},
                             *const MUST_NOT[] = {"milli", "dump", "microcode", "7111000854", " ns`"};
    bn_stacks *s = make(ABOUT, 0), *before = make(ABOUT, 100);
    struct bn_flamegraph_page with = PAGE;
    measure(s);
    with.before = before;
    with.before_name = "2026-11-19-111111111111";
    char *page = page_of(s, &with), *again = page_of(s, &with);
    must_have(page, MUST, BN_ARRAY_LEN(MUST));
    for (size_t i = 0; i < BN_ARRAY_LEN(MUST_NOT); i++)
        if (strstr(page, MUST_NOT[i]) != NULL) fail_msg("the page has '%s'", MUST_NOT[i]);
    assert_string_equal(page, again); /* the same stacks, the same bytes */
    bn_free(page);
    bn_free(again);
    bn_stacks_close(before);
    bn_stacks_close(s);
    (void)state;
}

static void missing_facts_have_reasons(void **state)
{
    static const char *const MUST[] = {
        "| recorded | not known: `the recording does not say` |",
        "| processor | not known: `the recording does not say` |",
        "| sampler | not known: `the recording does not say` |",
        "| samples | not known: `the recording does not say` |",
        "| compiler | not known: `the recording does not say` |",
        "| repository commit | not known: `no\\|repository` |",
        "The profiler did not run",
        "not compared: `it was measured with another model`",
        "Not compared: `there is none`",
        "Not known: the recording does not contain its command",
    };
    bn_stacks *s = make("{\"git\": {\"commit\": null, \"unavailable\": {\"commit\": \"no|repository\"}}}", 0);
    char *page = page_of(s, &PAGE);
    must_have(page, MUST, BN_ARRAY_LEN(MUST));
    bn_free(page);
    bn_stacks_close(s);
    (void)state;
}

/* After a code span that begins here. */
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

/* Cut or changed anywhere, the timing document is compared or not, and nothing worse. */
static void timing_documents_are_hostile(void **state)
{
    char text[sizeof TIMING];
    size_t n = strlen(TIMING);
    bn_stacks *s = make(ABOUT, 0);
    struct bn_flamegraph_page with = PAGE;
    with.timing_text = text;
    for (size_t i = 0; i < n; i += 3) {
        memcpy(text, TIMING, sizeof text);
        text[i] = "|\n\x80 9\0"[i % 6];
        bn_free(page_of(s, &with));
    }
    bn_stacks_close(s);
    (void)state;
}

/* ---- what it shows ---- */

/* The sentences about a recording whose decoded token reads 1000 bytes in 100 us, of a limit in bytes/s. */
static char *insights_with(const char *limit, const char *waited, const char *path, unsigned more,
                           const bn_stacks *before)
{
    char about[1200], scheduling[120];
    snprintf(about, sizeof about,
             "{\"reads\": {\"prompt_bytes\": 3000, \"token_bytes\": 1000%s},"
             " \"phases\": {\"generation_ns\": 5e5, \"embed_ns\": 1000, \"forward_ns\": 90000, "
             "\"head_ns\": 8000, \"sample_ns\": 1000},"
             " \"agreement\": {\"agrees\": true, \"samples\": 512, \"p\": 0.25}}",
             limit);
    bn_stacks *s = make(about, 0);
    measure(s);
    snprintf(scheduling, sizeof scheduling, "{\"scheduling\": {\"cpu_ns\": [900, 800], \"waited_ns\": [%s]}}",
             waited);
    put_about(s->measured, scheduling);
    if (more > 0) add(s, 0, path, BN_FRAME_CODE, more * 1009e3, more);
    struct bn_flamegraph_page page = {.stacks = s,
                                      .before = before,
                                      .before_name = "2026-11-19-111111111111",
                                      .before_why = "there is none"};
    struct bn_buf out = {.max = SIZE_MAX};
    bn_error err = {0};
    if (bn_flamegraph_insights(&out, &page, &err) != BN_OK) fail_msg("%s", err.msg);
    bn_stacks_close(s);
    return out.data;
}

static char *insights_of(const char *limit, const char *waited, unsigned waiting, const bn_stacks *before)
{
    return insights_with(limit, waited, "main;futex_wait", waiting, before);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

static void the_limit_follows_from_what_was_measured(void **state)
{
    static const struct {
        const char *limit, *waited;
        unsigned waiting;
        const char *must;
    } CASES[] = {
        {", \"limit_bytes_per_s\": 12.5e6", "0, 9", 0,
         "Memory bandwidth limits this work: a decoded token reads 1000 B of weights and cache in 100 us, "
         "10 MB/s, which is 80.0 % of the 12.50 MB/s measured"},
        {", \"limit_bytes_per_s\": 2e7", "0, 9", 0, "Memory bandwidth and computing together limit"},
        {", \"limit_bytes_per_s\": 5e7", "0, 9", 0, "Computing limits this work, not memory bandwidth: "},
        {", \"limit_bytes_per_s\": 5e7", "0, 9", 2000, "Waiting for other threads limits this work: "},
        {", \"limit_bytes_per_s\": 5e6", "0, 9", 0, "one of two measurements was disturbed: "},
        {", \"limit_bytes_per_s\": 5e7", "300, 500", 0, "the threads waited for a processor for 32.0 % of"},
        {", \"unavailable\": {\"limit_bytes_per_s\": \"no memory for it\"}", "0, 9", 0,
         "The distance from the memory limit is not known: no memory for it.\n"},
        {"", "0, 9", 0,
         "The distance from the memory limit is not known: the read bandwidth was not measured"},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        char *text = insights_of(CASES[i].limit, CASES[i].waited, CASES[i].waiting, NULL);
        must_have(text, &CASES[i].must, 1);
        assert_true(count_lines(text) < 5);
        bn_free(text);
    }
    (void)state;
}

static void shares_and_changes_are_in_sentences(void **state)
{
    static const char *const MUST[] = {
        "Matrix multiplication takes 64.4 % of the samples, attention 0.0 %,",
        "Without matrix multiplication, the largest class, the same work would take 35.6 % of its processor time "
        "(at most 2.8 times as fast); the next limit is quantisation with 25.8 % (at most 1.35 times as fast).",
        "Since 2026-11-19-111111111111, the largest significant change is bn_i2s_gemv_avx2, from 32.2 % to 64.4 % ",
        "The samples agree with the profiler's times (512 samples, p = 0.25)."};
    static const char *const NONE = "the share of no function changed significantly",
                             *const ALONE = "Not compared with an earlier recording: there is none.";
    bn_stacks *before = make(ABOUT, 100), *same = make(ABOUT, 0);
    char *text = insights_of("", "0, 0", 0, before);
    must_have(text, MUST, BN_ARRAY_LEN(MUST));
    bn_free(text);
    text = insights_of("", "0, 0", 0, same);
    must_have(text, &NONE, 1);
    bn_free(text);
    text = insights_of("", "0, 0", 0, NULL);
    must_have(text, &ALONE, 1);
    bn_free(text);
    bn_stacks_close(before);
    bn_stacks_close(same);
    (void)state;
}

/* Functions of no class, or waiting, are not a class that could be improved. */
static void what_is_no_work_is_not_the_largest_class(void **state)
{
    static const struct {
        const char *path, *must[2];
    } CASES[] = {
        {"main;a_new_function",
         {"functions of no class 78.6 %, waiting 0.0 %.\n",
          "Functions of no class take 78.6 %, more than any class of work, so these shares do not show what to improve.\n"}},
        {"main;spin_until_changed",
         {"waiting 76.3 %; without waiting, matrix multiplication takes 64.4 %.\n",
          "Waiting takes 76.3 %, more than any class of work, so these shares do not show what to improve; record with "
          "--threads 1.\n"}},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        char *text = insights_with("", "0, 0", CASES[i].path, 2000, NULL);
        must_have(text, CASES[i].must, 2);
        assert_null(strstr(text, "the largest class"));
        bn_free(text);
    }
    (void)state;
}

/* Nothing is estimated where nothing was measured. */
static void unknown_figures_are_not_in_sentences(void **state)
{
    static const char *const MUST[] = {"is not known: the bytes read were not counted"};
    bn_stacks *s = make("{}", 0);
    char *page = page_of(s, &PAGE), *end = strstr(page, "## What was recorded");
    must_have(page, MUST, 1);
    assert_non_null(end);
    *end = '\0';
    assert_null(strstr(page, "B/s"));
    assert_null(strstr(page, "profiler"));
    bn_free(page);
    bn_stacks_close(s);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_and_tables_are_on_the_page),
        cmocka_unit_test(missing_facts_have_reasons),
        cmocka_unit_test(texts_stay_in_their_cells),
        cmocka_unit_test(timing_documents_are_hostile),
        cmocka_unit_test(the_limit_follows_from_what_was_measured),
        cmocka_unit_test(shares_and_changes_are_in_sentences),
        cmocka_unit_test(what_is_no_work_is_not_the_largest_class),
        cmocka_unit_test(unknown_figures_are_not_in_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
