/* SPDX-License-Identifier: MIT
 *
 * The sentences of a report, and its forms but for HTML: text for a terminal, Markdown for a comment on a change;
 * and for other programs JSON, CSV (RFC 4180), and the two lists that github-action-benchmark reads.
 */
#include <math.h>

#include "tools/bench/bench.h"
#include "tools/bench/report/report.h"

/* ---- sentences ---- */

void bn_report_headline(struct bn_buf *out, const struct bn_report *r)
{
    size_t changes = 0, bricks = 0, agree = 0;
    const char *comma = "";
    bn_comparisons_count(out, r->comparisons, r->n_comparisons);
    for (size_t i = 0; i < r->n_results; i++)
        agree += bn_json_text_is(r->results[i].json, "result", "agree");
    if (r->n_comparisons > 0 && r->n_results > 0) bn_buf_puts(out, ", ");
    if (r->n_results > 0) bn_buf_printf(out, "%zu of %zu comparisons of engines agree", agree, r->n_results);
    if (r->n_comparisons > 0) return; /* verdicts before anything else */
    if (r->n_results > 0) comma = ", ";
    for (size_t i = 0; i < r->n_trends; i++)
        changes += bn_json_size(bn_json_get(r->trends[i].json, "changes"));
    for (size_t i = 0; i < r->n_bricks; i++)
        bricks += r->bricks[i].count > 0;
    if (r->n_series > 0) {
        bn_buf_printf(out, "%s%zu series measured", comma, r->n_series);
        comma = ", ";
    }
    if (r->n_trends > 0) {
        bn_buf_printf(out, "%s%zu series over time, ", comma, r->n_trends);
        bn_units_count(out, changes, "change");
        comma = ", ";
    }
    if (bricks > 0) bn_buf_printf(out, "%s%zu bricks profiled", comma, bricks);
}

static void put_speed(struct bn_buf *out, const struct bn_report_series *s)
{
    char name[BN_TEST_ROOM];
    const double *f = s->figure, spread = (f[BN_FIGURE_HIGH] - f[BN_FIGURE_LOW]) / 2 / f[BN_FIGURE_MEDIAN];
    bn_buf_printf(out, "%s%s: ", out->len > 0 ? "; " : "", bn_test_name(name, s->s->test));
    bn_units_value(out, 1e9 / f[BN_FIGURE_MEDIAN], "tok/s");
    if (isfinite(spread))
        bn_buf_printf(out, spread < 0.1 ? " \xC2\xB1 %.2g %%" : " \xC2\xB1 %.0f %%", 100 * spread);
}

/* "decode 32 tokens, 2 threads: 38.42 tok/s; prompt 128 tokens, 2 threads: 271.3 tok/s; model.gguf; CPU"; nothing
 * without such series. */
static void put_speeds(struct bn_buf *out, const struct bn_report *r)
{
    static const char *const WORDS[] = {"decode", "prompt"}, *const PATHS[] = {"model.name",
                                                                               "machine.cpu_model"};
    const struct bn_report_source *source = r->n_series > 0 ? r->series[0].source : NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(WORDS); i++) {
        const struct bn_report_series *s = bn_report_fastest(r, source, WORDS[i], false);
        if (s != NULL) put_speed(out, s);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(PATHS) && out->len > 0; i++) {
        const char *text = bn_json_text_of(source->doc, PATHS[i]);
        if (text[0] != '\0') bn_buf_printf(out, "; %s", text);
    }
}

void bn_report_sentence(struct bn_buf *out, const struct bn_report *r)
{
    if (r->n_comparisons > 0) bn_comparisons_verdict(out, r->comparisons, r->n_comparisons);
    if (out->len == 0) put_speeds(out, r);
    if (out->len == 0) bn_report_headline(out, r);
}

void bn_report_put_origin(struct bn_buf *out, const struct bn_report_source *source)
{
    const bn_json *doc = source->doc;
    const char *command = bn_json_text_of(doc, "command"), *commit = bn_json_text_of(doc, "program.commit"),
               *cpu = bn_json_text_of(doc, "machine.cpu_model"), *created = bn_json_text_of(doc, "created");
    bool dirty = bn_json_flag_of(doc, "program.dirty");
    bn_buf_printf(out, "%s: %s", source->label,
                  command[0] != '\0' ? command : bn_json_text_of(doc, "schema"));
    if (created[0] != '\0') bn_buf_printf(out, ", %s", created);
    if (commit[0] != '\0')
        bn_buf_printf(out, ", commit %.10s%s", commit, dirty ? " with uncommitted changes" : "");
    if (cpu[0] != '\0') bn_buf_printf(out, ", %s", cpu);
}

/* ---- for people ---- */

/* What the two forms have in common, and what differs. */
struct form {
    const char *head, *origin, *section, *end;
    void (*text)(struct bn_buf *out, const char *text);
    void (*table)(struct bn_buf *out, const struct bn_table *table);
};

/* A line that may be long: names come from files, so what the form acts upon is escaped. */
static void put_line(struct bn_buf *out, const struct form *form, const char *before, struct bn_buf *line)
{
    bn_buf_puts(out, before);
    form->text(out, line->data != NULL ? line->data : "");
    bn_buf_putc(out, '\n');
    out->failed = out->failed || line->failed;
    bn_buf_release(line);
}

static bn_status write_form(struct bn_buf *out, const struct bn_report *r, const struct form *form,
                            bn_error *err)
{
    struct bn_buf line = {.max = 1u << 16};
    bn_report_headline(&line, r);
    put_line(out, form, form->head, &line);
    line = (struct bn_buf){.max = 1u << 16};
    put_speeds(&line, r);
    if (line.len > 0) put_line(out, form, form->end, &line);
    bn_buf_puts(out, form->end);
    for (size_t i = 0; i < r->n_sources; i++) {
        line = (struct bn_buf){.max = 1u << 16};
        bn_report_put_origin(&line, &r->sources[i]);
        put_line(out, form, form->origin, &line);
    }
    for (size_t i = 0; i < BN_REPORT_PARTS; i++) {
        struct bn_table t;
        bn_report_parts[i].fill(&t, r);
        if (t.n_rows > 0 || t.failed) {
            bn_buf_printf(out, "\n%s%s\n%s", form->section, bn_report_parts[i].title, form->end);
            form->table(out, &t);
        }
        bn_table_release(&t);
    }
    return bn_buf_check(out, err);
}

bn_status bn_report_text(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    static const struct form TEXT = {"", "", "", "", bn_text_put, bn_table_put_text};
    return write_form(out, r, &TEXT, err);
}

bn_status bn_report_print(bn_json *document, const char *label, bn_error *err)
{
    struct bn_report r = {0};
    struct bn_buf text = {.max = 64u << 20};
    bn_status status = bn_report_of(&r, document, label, err);
    if (status == BN_OK) status = bn_report_text(&text, &r, err);
    bn_report_release(&r);
    if (status == BN_OK) return bn_cli_print_text(&text, err);
    bn_buf_release(&text);
    return status;
}

bn_status bn_report_markdown(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    static const struct form MARKDOWN = {"# ", "- ", "## ", "\n", bn_markdown_put, bn_table_put_markdown};
    return write_form(out, r, &MARKDOWN, err);
}

/* ---- for programs; numbers are exact, with a point in every locale ---- */

static bn_status write_out(struct bn_buf *out, bn_json *doc, bn_error *err)
{
    bn_status status = bn_json_write_line(doc, false, out, err);
    bn_json_free(doc);
    return status;
}

const char *const bn_report_origins[] = {"schema",   "command", "created", "program",      "git",
                                         "settings", "model",   "machine", "result_class", NULL};

bn_status bn_report_json(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    struct bn_buf headline = {.max = 1000};
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.bench/1");
    bn_json_put_object(doc, "unavailable");
    bn_report_headline(&headline, r);
    bn_json_put_string(doc, "headline", headline.data);
    bn_buf_release(&headline);
    bn_json *array = bn_json_put_array(doc, "sources");
    for (size_t i = 0; i < r->n_sources; i++) {
        const struct bn_report_source *s = &r->sources[i];
        bn_json *o = bn_json_add_object(array);
        BN_PUT_STRINGS(o, {"file", s->label}, {"sha256", s->sha256});
        for (const char *const *name = bn_report_origins; *name != NULL; name++)
            if (bn_json_get(s->doc, *name) != NULL) bn_json_put_copy(o, *name, bn_json_get(s->doc, *name));
    }
    bn_json *tables = bn_json_put_object(doc, "tables");
    for (size_t i = 0; i < BN_REPORT_PARTS; i++) {
        struct bn_table t;
        bn_report_parts[i].fill(&t, r);
        if (t.n_rows > 0) bn_table_put_json(tables, bn_report_parts[i].title, &t);
        bn_table_release(&t);
    }
    return write_out(out, doc, err);
}

/* Each list has one direction. The range is the interval of the median. */
static bn_status github(struct bn_buf *out, const struct bn_report *r, bool higher, bn_error *err)
{
    bn_json *array = bn_json_new_array();
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        struct bn_buf text = {.max = 1u << 16};
        if (s->s->neutral || s->s->higher != higher) continue;
        bn_json *o = bn_json_add_object(array);
        if (r->n_sources > 1) bn_buf_printf(&text, "%s: ", s->source->label);
        bn_buf_printf(&text, "%s %s", s->s->test, s->s->metric);
        BN_PUT_STRINGS(o, {"name", text.data}, {"unit", s->s->unit});
        bn_json_put_number(o, "value", s->figure[BN_FIGURE_MEDIAN]);
        text.len = 0;
        if (isfinite(s->figure[BN_FIGURE_LOW])) {
            bn_json_write_number(&text, s->figure[BN_FIGURE_LOW]);
            bn_buf_puts(&text, " .. ");
            bn_json_write_number(&text, s->figure[BN_FIGURE_HIGH]);
            bn_json_put_string(o, "range", text.data);
        }
        text.len = 0;
        bn_buf_printf(&text, "median of %zu sample%s, MAD ", s->s->n, s->s->n == 1 ? "" : "s");
        bn_json_write_number(&text, s->figure[BN_FIGURE_MAD]);
        bn_json_put_string(o, "extra", text.data);
        bn_buf_release(&text);
    }
    return write_out(out, array, err);
}

bn_status bn_report_github_smaller(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    return github(out, r, false, err);
}

bn_status bn_report_github_bigger(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    return github(out, r, true, err);
}

bn_status bn_report_csv(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    struct bn_table t;
    if (r->n_comparisons + r->n_series == 0) return BN_OK;
    if (r->n_comparisons > 0)
        bn_report_fill_comparisons(&t, r);
    else
        bn_report_fill_series(&t, r);
    bn_table_put_csv(out, &t);
    bn_table_release(&t);
    return bn_buf_check(out, err);
}
