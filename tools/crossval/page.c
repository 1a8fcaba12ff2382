/* SPDX-License-Identifier: MIT
 *
 * A result as one HTML page: the verdict in a sentence, a section for each reference, the provenance of all
 * engines. The page is made from the document alone, so the same document gives the same bytes.
 */

#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/report/page.h"
#include "lab/report/table.h"
#include "tools/crossval/crossval.h"

#define MAX_PAGE (64u << 20)

static const bn_json *references(const bn_json *doc)
{
    return bn_json_get(doc, "references");
}

static size_t count_of(const bn_json *doc, const char *result)
{
    size_t n = 0;
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r))
        n += bn_json_text_is(r, "result", result);
    return n;
}

const char *bn_crossval_kind(const char *state)
{
    static const char *const KINDS[][2] = {
        {"pass", "ok"}, {"agree", "ok"}, {"within", "ok"}, {"skip", "skip"}, {"no_data", "skip"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(KINDS); i++)
        if (strcmp(KINDS[i][0], state) == 0) return KINDS[i][1];
    return "bad";
}

/* ---- the verdict ---- */

/* "oracle agrees with this engine on 8 tokens, within every limit" */
static void put_sentence(struct bn_buf *out, const bn_json *doc, const bn_json *ref)
{
    const char *parted = bn_json_text_of(ref, "parted_at");
    bn_buf_printf(out, "%s ", bn_json_text_of(ref, "reference"));
    if (bn_json_text_is(ref, "result", "agree"))
        bn_buf_printf(out, "agrees with this engine on %zu tokens, within every limit",
                      bn_json_size(bn_json_get(doc, "tokens")));
    else if (bn_json_text_is(ref, "result", "failed"))
        bn_buf_printf(out, "failed: %s", bn_json_text_of(ref, "failure.message"));
    else if (bn_json_text_is(ref, "result", "no_data"))
        bn_buf_puts(out, "gave nothing to compare");
    else {
        bn_buf_puts(out, "differs from this engine");
        if (bn_json_text_is(ref, "trace.status", "fail"))
            bn_buf_printf(out, ": %s", bn_json_text_of(ref, "trace.reason"));
        else if (parted[0] != '\0')
            bn_buf_printf(out, " from rung %s on", parted);
    }
}

/* Of one reference its sentence, of several what they have in common. */
static void put_headline(struct bn_buf *out, const bn_json *doc)
{
    size_t n = bn_json_size(references(doc)), agree = count_of(doc, "agree");
    const char *odd = bn_json_text_of(doc, "between.odd_one_out");
    if (n == 1)
        put_sentence(out, doc, bn_json_first(references(doc)));
    else if (agree == n && n > 0)
        bn_buf_printf(out, "All %zu engines agree on %zu tokens, within every limit", n + 1,
                      bn_json_size(bn_json_get(doc, "tokens")));
    else if (odd[0] != '\0')
        bn_buf_printf(out, "%s differs; the other engines agree with each other", odd);
    else if (count_of(doc, "differ") > 0)
        bn_buf_printf(out, "Not all engines agree");
    else
        bn_buf_puts(out, count_of(doc, "failed") > 0 ? "A reference failed" : "Nothing was compared");
}

static void put_chip(struct bn_buf *out, const char *name, const char *status)
{
    bn_html(out, "<li class=\"chip\">");
    bn_page_mark(out, bn_crossval_kind(status));
    bn_html(out, "%s<span class=\"hidden\"> %s</span></li>", name, status);
}

/* The state of each rung of one reference. */
static void put_card(struct bn_buf *out, const bn_json *ref, size_t index)
{
    const bn_json *rungs = bn_json_get(ref, "rungs"), *trace = bn_json_get(ref, "trace");
    bn_html(out, "<li class=\"card\"><p class=\"who\">");
    bn_page_mark(out, bn_crossval_kind(bn_json_text_of(ref, "result")));
    bn_html(out, "<a href=\"#ref-%zu\">%s</a></p><p class=\"small\">%s %s</p><ul class=\"chips\">", index,
            bn_json_text_of(ref, "reference"), bn_json_text_of(ref, "name"), bn_json_text_of(ref, "version"));
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r))
        put_chip(out, bn_json_text_of(r, "rung"), bn_json_text_of(r, "status"));
    if (trace != NULL) put_chip(out, "operations", bn_json_text_of(trace, "status"));
    bn_html(out, "</ul></li>\n");
}

static void put_verdict(struct bn_buf *out, const bn_json *doc)
{
    struct bn_buf text = {.max = MAX_PAGE};
    char kicker[60];
    size_t n = bn_json_size(references(doc)), index = 0;
    bool ok = bn_json_count_of(doc, "exit_code") == 0 && count_of(doc, "agree") == n && n > 0;
    snprintf(kicker, sizeof kicker, "bn-crossval %.40s", bn_json_text_of(doc, "command"));
    put_headline(&text, doc);
    bn_page_verdict(out, ok ? "ok" : "bad", kicker, bn_buf_text(&text));
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL && n > 1; r = bn_json_next(r)) {
        text.len = 0;
        put_sentence(&text, doc, r);
        bn_html(out, "<p class=\"lead\">%s.</p>\n", bn_buf_text(&text));
    }
    out->failed = out->failed || text.failed;
    bn_buf_release(&text);
    bn_html(out, "<p class=\"small\">%s, %zu tokens, %zu decoded; %s</p>\n",
            bn_json_text_of(doc, "model.path"), bn_json_size(bn_json_get(doc, "tokens")),
            bn_json_size(bn_json_get(doc, "decoded")), bn_json_text_of(doc, "timestamp"));
    bn_page_verdict_end(out);
    bn_html(out, "<ul class=\"cards\">\n");
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r))
        put_card(out, r, ++index);
    bn_html(out, "</ul>\n");
}

/* ---- the engines in pairs ---- */

static void put_pairs(struct bn_buf *out, const bn_json *doc)
{
    static const char *const HEADS[] = {"engine", "compared with", "mean nrmse", "result"};
    const bn_json *pairs = bn_json_path(doc, "between.pairs");
    struct bn_table t;
    if (bn_json_size(pairs) < 3) return;
    bn_table_begin(&t, HEADS, "llrl");
    for (const bn_json *p = bn_json_first(pairs); p != NULL; p = bn_json_next(p)) {
        bool agree = bn_json_flag_of(p, "agree");
        bn_table_row(&t, agree ? "ok" : "bad");
        bn_table_text(&t, bn_json_text_of(p, "b"));
        bn_table_text(&t, bn_json_text_of(p, "a"));
        bn_table_rounded(&t, bn_json_get(p, "nrmse_mean"));
        bn_table_text(&t, agree ? "agree" : "differ");
    }
    bn_html(out, "<h2>Pairs of engines</h2>\n");
    bn_table_put_html(out, &t, "", SIZE_MAX);
    bn_table_release(&t);
}

/* ---- provenance ---- */

static void put_fact(struct bn_buf *out, const char *name, const bn_json *object, const char *path)
{
    bn_page_fact(out, name, bn_json_text_of(object, path));
}

/* The members at these paths, separated by commas. */
static void put_facts(struct bn_buf *out, const char *name, const bn_json *object, const char *const *paths,
                      size_t n)
{
    struct bn_buf text = {.max = MAX_PAGE};
    for (size_t i = 0; i < n; i++) {
        const bn_json *value = bn_json_path(object, paths[i]);
        const char *string = "";
        bn_buf_puts(&text, i > 0 ? ", " : "");
        if (bn_json_string(value, &string))
            bn_buf_puts(&text, string);
        else
            bn_buf_printf(&text, "%s %zu", strrchr(paths[i], '.') + 1, bn_json_count_of(object, paths[i]));
    }
    bn_page_fact(out, name, bn_buf_text(&text));
    bn_buf_release(&text);
}

static void put_command(struct bn_buf *out, const bn_json *doc)
{
    const bn_json *list = bn_json_get(doc, "arguments");
    struct bn_buf line = {.max = MAX_PAGE};
    const char *text = "";
    bn_buf_printf(&line, "bn-crossval %s", bn_json_text_of(doc, "command"));
    for (const bn_json *a = bn_json_first(list); a != NULL; a = bn_json_next(a)) {
        if (!bn_json_string(a, &text)) continue;
        bool plain = text[0] != '\0' && strcspn(text, " \t\n\"'\\$`<>|&;()*?[]#~{}!") == strlen(text);
        bn_buf_printf(&line, plain ? " %s" : " '%s'", text);
    }
    bn_page_fact(out, "command", bn_buf_text(&line));
    bn_buf_release(&line);
}

static void put_provenance(struct bn_buf *out, const bn_json *doc)
{
    static const char *const RUNS[] = {"engine.isa", "engine.threads"};
    static const char *const MACHINE[] = {"machine.cpu_model", "machine.arch", "machine.cpus_usable",
                                          "machine.os", "machine.kernel"};
    static const char *const MODEL[] = {"model.path", "model.arch", "model.layers", "model.vocabulary"};
    bn_html(out, "<h2>Provenance</h2>\n");
    bn_page_facts(out, "This engine");
    put_fact(out, "program", doc, "engine.name");
    put_fact(out, "version", doc, "engine.version");
    put_fact(out, "commit", doc, "engine.commit");
    if (bn_json_flag_of(doc, "engine.dirty")) bn_page_fact(out, "", "with uncommitted changes");
    put_fact(out, "compiler", doc, "engine.compiler");
    put_facts(out, "runs with", doc, RUNS, BN_ARRAY_LEN(RUNS));
    put_facts(out, "machine", doc, MACHINE, BN_ARRAY_LEN(MACHINE));
    put_command(out, doc);
    put_facts(out, "model", doc, MODEL, BN_ARRAY_LEN(MODEL));
    put_fact(out, "model sha256", doc, "model.sha256");
    put_fact(out, "limits sha256", doc, "parity.thresholds_sha256");
    bn_page_facts_end(out);
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r)) {
        bool started = bn_json_kind(bn_json_get(r, "run_as")) == BN_JSON_STRING;
        bool other = bn_json_kind(bn_json_get(r, "model")) == BN_JSON_STRING;
        bn_page_facts(out, bn_json_text_of(r, "reference"));
        put_fact(out, "program", r, "name");
        put_fact(out, "version", r, "version");
        put_fact(out, "commit", r, "commit");
        put_fact(out, "architecture", r, "arch");
        if (started) bn_page_fact(out, "model", other ? bn_json_text_of(r, "model") : "the same file");
        if (started) bn_page_fact(out, "machine", "the same machine");
        bn_page_fact(out, "command",
                     started ? bn_json_text_of(r, "run_as") : "none: recorded, or failed to start");
        bn_page_facts_end(out);
    }
}

/* ---- the page ---- */

static void put_page(struct bn_buf *out, const bn_json *doc)
{
    static const char *const WORDS[][2] = {
        {"nrmse", "root mean square of the difference, divided by that of the reference's row"},
        {"cosine", "of the angle between the two rows; 1 is the same direction"},
        {"max_abs, mse", "the largest difference of one logit, and the mean square of all differences"},
        {"kl", "Kullback-Leibler divergence of this engine's probabilities from the reference's, in nats"},
        {"top_k, kendall", "the 10 best tokens: how many are in both lists, and how similar their order is"},
        {"margin (measure)", "by how much the reference prefers its best token to this engine's best token"},
        {"margin (column)", "distance to the limit; negative where the limit is exceeded"},
        {"tolerance of an operation", "the largest error allowed, given the error of its inputs"}};
    size_t index = 0;
    struct bn_buf title = {.max = MAX_PAGE};
    bn_buf_printf(&title, "bn-crossval %s: %s", bn_json_text_of(doc, "command"),
                  bn_json_text_of(doc, "model.path"));
    bn_page_begin(out, title.data, "", false);
    out->failed = out->failed || title.failed;
    bn_buf_release(&title);
    put_verdict(out, doc);
    put_pairs(out, doc);
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r))
        bn_crossval_put_reference(out, r, ++index);
    put_provenance(out, doc);
    bn_page_words(out, WORDS, BN_ARRAY_LEN(WORDS));
    bn_page_end(out);
}

static bn_status make_page(const char *text, size_t n, struct bn_buf *page, bn_error *err)
{
    bn_json *doc = NULL;
    BN_TRY(bn_json_parse(&doc, text, n, err));
    bn_status status = BN_OK;
    page->max = MAX_PAGE;
    if (!bn_json_text_is(doc, "schema", BN_CROSSVAL_SCHEMA) ||
        bn_json_kind(references(doc)) != BN_JSON_ARRAY) {
        status =
            bn_fail(err, BN_ERR_FORMAT, "not a result of bn-crossval: its schema is not " BN_CROSSVAL_SCHEMA);
        bn_error_hint(err, "bn-crossval ladder --json writes a result");
    }
    if (status == BN_OK) put_page(page, doc);
    if (status == BN_OK) status = bn_buf_check(page, err);
    bn_json_free(doc);
    return status;
}

/* Through the text, so that the page of a new result equals the page of the recorded one. */
bn_status bn_crossval_write_html(const bn_json *results, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES}, page = {0};
    bn_status status = bn_json_write(results, true, &text, err);
    if (status == BN_OK) status = make_page(text.data, text.len, &page, err);
    if (status == BN_OK) status = bn_file_write_atomic(path, page.data, page.len, err);
    bn_buf_release(&page);
    bn_buf_release(&text);
    return status;
}

bn_status bn_crossval_report(struct bn_args *args, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES}, page = {0};
    const char *path = ((const struct bn_crossval_options *)args->fields)->output;
    bn_status status = bn_file_read(args->operands[0], &text, err);
    if (status == BN_OK) status = make_page(bn_buf_text(&text), text.len, &page, err);
    if (status != BN_OK) bn_error_name(err, args->operands[0]);
    if (status == BN_OK && path != NULL) status = bn_file_write_atomic(path, page.data, page.len, err);
    if (status == BN_OK && path == NULL) fwrite(page.data, 1, page.len, stdout);
    bn_buf_release(&page);
    bn_buf_release(&text);
    return status;
}
