/* SPDX-License-Identifier: MIT
 *
 * lab/report: tables show the same cells in every form, hostile texts stay texts, plots put marks where the
 * data is.
 */
#include <math.h>

#include "lab/report/page.h"
#include "lab/report/plot.h"
#include "lab/report/table.h"
#include "tests/unit/unit.h"

static void fill(struct bn_table *t)
{
    static const char *const HEADS[] = {"test", "time", "change", "why"};
    bn_table_begin(t, HEADS, "lrrn");
    bn_table_row(t, "bad");
    bn_table_text(t, "decode | <b>");
    bn_table_value(t, 1234567, "ns");
    bn_table_percent(t, 0.053, true);
    bn_table_text(t, "above 1 %");
    bn_table_row(t, "");
    bn_table_text(t, "=SUM(A1)");
    bn_table_value(t, (double)NAN, "ns");
}

TEST(a_table_has_the_same_cells_in_every_form)
{
    struct bn_table t;
    struct bn_buf text = {.max = 4096}, markdown = {.max = 4096}, html = {.max = 4096}, csv = {.max = 4096};
    fill(&t);
    bn_table_put_text(&text, &t);
    bn_table_put_markdown(&markdown, &t);
    bn_table_put_html(&html, &t, "x", 10);
    bn_table_put_csv(&csv, &t);
    bn_table_release(&t);
    assert_string_equal(text.data, "test              time   change\n"
                                   "decode | <b>  1.235 ms  +5.30 %\n"
                                   "=SUM(A1)             -\n"
                                   "    decode | <b>: above 1 %\n");
    assert_string_equal(markdown.data, "| test | time | change | why |\n|---|---:|---:|---|\n"
                                       "| decode \\| &lt;b&gt; | 1.235 ms | +5.30 % | above 1 % |\n"
                                       "| =SUM(A1) | - |  |  |\n");
    assert_has(html.data, "decode | &lt;b&gt;</th><td title=\"1234567 ns\">1.235 ms</td>"
                          "<td title=\"0.053\">+5.30 %</td></tr>\n<tr class=\"why broken\">"
                          "<td colspan=\"3\"><div>above 1 %</div>");
    assert_string_equal(csv.data, "test,time,change,why\r\ndecode | <b>,1234567,0.053,above 1 %\r\n"
                                  "'=SUM(A1),,,\r\n");
    bn_buf_release(&text);
    bn_buf_release(&markdown);
    bn_buf_release(&html);
    bn_buf_release(&csv);
}

TEST(a_text_table_fits_80_columns)
{
    static const char *const HEADS[] = {"a long name", "n", "one", "two", "three"};
    struct bn_table t;
    struct bn_buf out = {.max = 4096};
    bn_table_begin(&t, HEADS, "lrrrr");
    bn_table_row(&t, "");
    bn_table_text(&t, "a name of forty-two characters, no less ..");
    for (int i = 0; i < 4; i++)
        bn_table_text(&t, "12345678901234");
    bn_table_put_text(&out, &t);
    bn_table_release(&t);
    assert_has(out.data, "\nnot shown: two, three\n");
    for (const char *line = out.data, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        assert_true(end - line <= 80);
    }
    bn_buf_release(&out);
}

/* A verdict is shown in any case: names that leave no room for it become lines above their rows. */
TEST(the_last_text_is_shown)
{
    static const char *const HEADS[] = {"test", "metric", "one", "verdict", "two"};
    struct bn_table t;
    struct bn_buf out = {.max = 4096};
    bn_table_begin(&t, HEADS, "llrlr");
    for (int i = 0; i < 2; i++) {
        bn_table_row(&t, "");
        bn_table_text(&t, "a name of forty-two characters, no less ..");
        bn_table_text(&t, i == 0 ? "the first metric" : "the second metric");
        bn_table_text(&t, "12345678901234");
        bn_table_text(&t, "decided");
        bn_table_text(&t, "12345678901234567890123456789012345678");
    }
    bn_table_put_text(&out, &t);
    bn_table_release(&t);
    assert_string_equal(out.data, "  metric                        one  verdict\n"
                                  "a name of forty-two characters, no less ..\n"
                                  "  the first metric   12345678901234  decided\n"
                                  "  the second metric  12345678901234  decided\n"
                                  "not shown: two\n");
    bn_buf_release(&out);
}

TEST(rows_beyond_the_limit_are_counted)
{
    static const char *const HEADS[] = {"n"};
    struct bn_table t;
    struct bn_buf out = {.max = 1 << 16};
    bn_table_begin(&t, HEADS, "r");
    for (size_t i = 0; i < 100; i++) {
        bn_table_row(&t, "");
        bn_table_count(&t, i);
    }
    bn_table_put_html(&out, &t, "", 10);
    bn_table_release(&t);
    assert_has(out.data, "The first 10 of 100 rows");
    assert_null(strstr(out.data, ">10</th>"));
    bn_buf_release(&out);
}

TEST(marks_are_where_the_data_is)
{
    struct bn_plot p = {.width = 100, .height = 100, .x1 = 10, .y1 = 10};
    struct bn_buf out = {.max = 4096};
    const double x[] = {0, 5, 6, 10}, y[] = {0, 5, (double)NAN, 10};
    bn_plot_mark(&out, &p, 5, 10, 3, "<t>");
    bn_plot_line(&out, &p, "line", x, y, 4);
    bn_plot_rule_y(&out, &p, "limit", 2);
    bn_plot_interval(&out, &p, "bar", 1, 2, (double)NAN);
    bn_plot_band(&out, &p, "band", -5, 1);
    assert_string_equal(
        out.data, "<circle class=\"dot\" cx=\"50.0\" cy=\"0.0\" r=\"3.0\"><title>&lt;t&gt;</title></circle>\n"
                  "<path class=\"line\" d=\"M0.0 100.0L50.0 50.0M100.0 0.0\"/>\n"
                  "<path class=\"limit\" d=\"M0.0 80.0H100.0\"/>\n"
                  "<rect class=\"band\" x=\"0.0\" y=\"0.0\" width=\"10.0\" height=\"100.0\"/>\n");
    bn_buf_release(&out);
}

TEST(bars_begin_at_zero)
{
    const struct bn_plot_bar bars[] = {{"a", 10, 9, 12, "10 tok/s", false},
                                       {"b", 6, (double)NAN, (double)NAN, "6", true}};
    struct bn_buf out = {.max = 4096};
    bn_plot_bars(&out, "rates", bars, 2);
    /* 346 px are 12 units. */
    assert_has(out.data, "class=\"brick\" x=\"4\" y=\"20.0\" width=\"288.3\"");
    assert_has(out.data, "class=\"rest\" x=\"4\" y=\"60.0\" width=\"173.0\"");
    assert_has(out.data, ">10 tok/s</text>");
    bn_buf_release(&out);
}

TEST(ranges_end_at_marks)
{
    double low = 0.13, high = 0.87;
    bn_plot_round(&low, &high, 5);
    assert_true(fabs(low) < 1e-12 && fabs(high - 1) < 1e-12);
    low = high = 5;
    bn_plot_round(&low, &high, 5);
    assert_true(low < 5 && high > 5);
    low = HUGE_VAL;
    high = -HUGE_VAL;
    bn_plot_cover(&low, &high, 0.02);
    bn_plot_cover(&low, &high, 300);
    assert_true(fabs(low - 0.01) < 1e-12 && fabs(high - 1000) < 1e-9);
}

TEST(a_page_loads_nothing)
{
    struct bn_buf out = {.max = 1 << 18};
    bn_page_begin(&out, "<title>", true);
    bn_page_verdict(&out, "ok", "bn", "a & b");
    bn_buf_puts(&out, "</div>");
    bn_page_end(&out);
    assert_has(out.data, "<title>&lt;title&gt;</title>");
    assert_has(out.data, "<h1>a &amp; b</h1>");
    assert_has(out.data, "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-");
    assert_null(strstr(out.data, "src=\""));
    bn_buf_release(&out);
    bn_page_begin(&out, "t", false);
    assert_null(strstr(out.data, "script"));
    bn_buf_release(&out);
}
