/* SPDX-License-Identifier: MIT
 *
 * A result as a page: the verdict in plain words, what was compared with what, a section for each reference,
 * who stands alone among three, and the provenance of all sides. One file that loads nothing, and whose
 * policy forbids it; the page is made of the document alone, so that the same document gives the same bytes.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/page.h"
#include "tools/crossval/crossval.h"
#include "tools/crossval/page.h"

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

void bn_crossval_put_state(struct bn_buf *out, const char *state)
{
    static const struct {
        const char *word, *kind, *sign;
    } MARKS[] = {{"pass", "ok", "\xE2\x9C\x93"},
                 {"agree", "ok", "\xE2\x9C\x93"},
                 {"within", "ok", "\xE2\x9C\x93"},
                 {"fail", "bad", "\xE2\x9C\x95"},
                 {"differ", "bad", "\xE2\x9C\x95"},
                 {"error", "bad", "!"},
                 {"failed", "bad", "!"},
                 {"skip", "skip", "\xE2\x80\x93"},
                 {"no_data", "skip", "\xE2\x80\x93"}};
    size_t i = 0;
    while (i + 1 < BN_ARRAY_LEN(MARKS) && strcmp(MARKS[i].word, state) != 0)
        i++;
    bool known = strcmp(MARKS[i].word, state) == 0;
    bn_html(out, "<span class=\"mark %s\">%s</span>", MARKS[i].kind, known ? MARKS[i].sign : "?");
}

/* ---- the verdict ---- */

static void put_headline(struct bn_buf *out, const bn_json *doc, const char **kind)
{
    size_t n = bn_json_size(references(doc)), agree = count_of(doc, "agree"),
           differ = count_of(doc, "differ");
    const char *odd = bn_json_text_of(doc, "between.odd_one_out");
    const char *text = "The references do not agree with this engine";
    if (bn_json_count_of(doc, "exit_code") == 0 && agree == n && n > 0) {
        *kind = "ok";
        text = n == 1 ? "Both engines agree" : "All engines agree";
    } else if (differ > 0 && odd[0] != '\0') {
        text = "One engine stands alone";
    } else if (differ == 1 && n == 1) {
        text = "The engines do not agree";
    } else if (differ > 0) {
        text = "Not all engines agree";
    } else if (count_of(doc, "failed") > 0) {
        text = n == 1 ? "The reference failed" : "A reference failed";
    } else if (agree < n || n == 0) {
        text = "Nothing was compared";
    }
    bn_html(out, "<h1>%s</h1>\n", text);
    if (odd[0] != '\0') bn_html(out, "<p class=\"lead\">The odd one out is <b>%s</b>.</p>\n", odd);
}

/* One sentence about a reference. */
static void put_sentence(struct bn_buf *out, const bn_json *doc, const bn_json *ref)
{
    const bn_json *trace = bn_json_get(ref, "trace");
    const char *parted = bn_json_text_of(ref, "parted_at");
    bn_html(out, "<p class=\"lead\"><b>%s</b> ", bn_json_text_of(ref, "reference"));
    if (bn_json_text_is(ref, "result", "agree")) {
        bn_html(out, "agrees on %zu tokens, within every limit.", bn_json_size(bn_json_get(doc, "tokens")));
    } else if (bn_json_text_is(ref, "result", "failed")) {
        bn_html(out, "failed, which is no agreement: %s.", bn_json_text_of(ref, "failure.message"));
    } else if (bn_json_text_is(ref, "result", "no_data")) {
        bn_html(out, "gave nothing to compare, which is no agreement.");
    } else {
        bn_html(out, "differs");
        if (parted[0] != '\0') bn_html(out, " from rung <i>%s</i> on", parted);
        if (bn_json_text_is(trace, "status", "fail")) bn_html(out, ": %s", bn_json_text_of(trace, "reason"));
        bn_html(out, ".");
    }
    bn_html(out, "</p>\n");
}

static void put_chip(struct bn_buf *out, const char *name, const char *status)
{
    bn_html(out, "<li class=\"chip\">");
    bn_crossval_put_state(out, status);
    bn_html(out, " %s<span class=\"hidden\"> %s</span></li>", name, status);
}

static void put_card(struct bn_buf *out, const bn_json *ref, size_t index)
{
    const bn_json *rungs = bn_json_get(ref, "rungs"), *trace = bn_json_get(ref, "trace");
    bn_html(out, "<li class=\"card\"><p class=\"who\">");
    bn_crossval_put_state(out, bn_json_text_of(ref, "result"));
    bn_html(out, " <a href=\"#ref-%zu\">%s</a></p><p class=\"small\">%s %s</p><ul class=\"chips\">", index,
            bn_json_text_of(ref, "reference"), bn_json_text_of(ref, "name"), bn_json_text_of(ref, "version"));
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r))
        put_chip(out, bn_json_text_of(r, "rung"), bn_json_text_of(r, "status"));
    if (trace != NULL) put_chip(out, "operations", bn_json_text_of(trace, "status"));
    bn_html(out, "</ul></li>\n");
}

static void put_verdict(struct bn_buf *out, const bn_json *doc)
{
    struct bn_buf head = {.max = MAX_PAGE};
    const char *kind = "bad";
    size_t index = 0;
    put_headline(&head, doc, &kind);
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r))
        put_sentence(&head, doc, r);
    bn_html(out, "<div class=\"verdict %s\"><p class=\"kicker\">bn-crossval %s</p>\n", kind,
            bn_json_text_of(doc, "command"));
    if (head.data != NULL) bn_buf_append(out, head.data, head.len);
    out->failed = out->failed || head.failed;
    bn_buf_release(&head);
    bn_html(out, "<p class=\"small\">%s, %zu tokens, %zu decoded; %s</p></div>\n<ul class=\"cards\">\n",
            bn_json_text_of(doc, "model.path"), bn_json_size(bn_json_get(doc, "tokens")),
            bn_json_size(bn_json_get(doc, "decoded")), bn_json_text_of(doc, "timestamp"));
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r))
        put_card(out, r, ++index);
    bn_html(out, "</ul>\n");
}

/* ---- between them ---- */

/* The participant of that number: this engine, then those that pairs name. */
static const char *participant(const bn_json *pairs, size_t index)
{
    const bn_json *pair = bn_json_at(pairs, index == 0 ? 0 : index * (index - 1) / 2);
    return bn_json_text_of(pair, index == 0 ? "a" : "b");
}

static void put_between(struct bn_buf *out, const bn_json *doc)
{
    const bn_json *between = bn_json_get(doc, "between"), *pairs = bn_json_get(between, "pairs");
    size_t n = 1, n_pairs = bn_json_size(pairs);
    while (n * (n + 1) / 2 <= n_pairs)
        n++;
    if (n < 3) return;
    bn_html(out, "<h2>Between them</h2><p>Mean nrmse of the logits, everybody with everybody. %s</p>\n",
            bn_json_text_of(between, "odd_one_out")[0] != '\0'
                ? "Who agrees with nobody, while all others agree with each other, is the odd one out."
                : "");
    bn_html(out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"matrix\"><thead><tr><td></td>");
    for (size_t j = 0; j + 1 < n; j++)
        bn_html(out, "<th scope=\"col\">%s</th>", participant(pairs, j));
    bn_html(out, "</tr></thead><tbody>\n");
    /* Pairs are in the order (1,0), (2,0), (2,1), ... */
    const bn_json *pair = bn_json_first(pairs);
    for (size_t i = 1; i < n; i++) {
        bn_html(out, "<tr><th scope=\"row\">%s</th>", participant(pairs, i));
        for (size_t j = 0; j + 1 < n; j++) {
            if (j >= i) {
                bn_html(out, "<td></td>");
                continue;
            }
            bool agree = bn_json_flag_of(pair, "agree");
            bn_html(out, "<td class=\"%s\">", agree ? "good" : "broken");
            bn_crossval_put_state(out, agree ? "agree" : "differ");
            bn_html(out, " ");
            bn_html_number(out, bn_json_get(pair, "nrmse_mean"));
            bn_html(out, "<span class=\"hidden\"> %s</span></td>", agree ? "agree" : "differ");
            pair = bn_json_next(pair);
        }
        bn_html(out, "</tr>\n");
    }
    bn_html(out, "</tbody></table></div>\n");
}

/* ---- provenance ---- */

static void put_row(struct bn_buf *out, const char *name, const char *text, bool code)
{
    if (text[0] == '\0') text = "not known";
    bn_html(out, "<tr><th scope=\"row\">%s</th><td>", name);
    bn_html(out, code ? "<code>%s</code></td></tr>\n" : "%s</td></tr>\n", text);
}

static void put_command(struct bn_buf *out, const bn_json *doc)
{
    const bn_json *list = bn_json_get(doc, "arguments");
    const char *text = "";
    bn_html(out, "<tr><th scope=\"row\">command</th><td><code>bn-crossval %s",
            bn_json_text_of(doc, "command"));
    for (const bn_json *a = bn_json_first(list); a != NULL; a = bn_json_next(a)) {
        if (!bn_json_string(a, &text)) continue;
        bool plain = text[0] != '\0' && strcspn(text, " \t\n\"'\\$`<>|&;()*?[]#~{}!") == strlen(text);
        bn_html(out, plain ? " %s" : " '%s'", text);
    }
    bn_html(out, "</code></td></tr>\n");
}

static void put_engine(struct bn_buf *out, const bn_json *doc)
{
    const bn_json *engine = bn_json_get(doc, "engine"), *machine = bn_json_get(doc, "machine");
    const bn_json *model = bn_json_get(doc, "model");
    bn_html(out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"facts\"><caption>This "
                 "engine</caption><tbody>\n");
    bn_html(out, "<tr><th scope=\"row\">program</th><td>%s %s</td></tr>\n", bn_json_text_of(engine, "name"),
            bn_json_text_of(engine, "version"));
    put_row(out, "commit", bn_json_text_of(engine, "commit"), true);
    if (bn_json_flag_of(engine, "dirty"))
        bn_html(out, "<tr><th scope=\"row\"></th><td>with changes that are in no commit</td></tr>\n");
    put_row(out, "compiler", bn_json_text_of(engine, "compiler"), false);
    bn_html(out, "<tr><th scope=\"row\">runs with</th><td>%s, %zu thread%s</td></tr>\n",
            bn_json_text_of(engine, "isa"), bn_json_count_of(engine, "threads"),
            bn_json_count_of(engine, "threads") == 1 ? "" : "s");
    bn_html(out, "<tr><th scope=\"row\">machine</th><td>%s, %s, %zu CPUs, %s %s</td></tr>\n",
            bn_json_text_of(machine, "cpu_model"), bn_json_text_of(machine, "arch"),
            bn_json_count_of(machine, "cpus_usable"), bn_json_text_of(machine, "os"),
            bn_json_text_of(machine, "kernel"));
    put_command(out, doc);
    bn_html(out,
            "<tr><th scope=\"row\">model</th><td><code>%s</code>, %s, %zu layers, vocabulary %zu</td></tr>\n",
            bn_json_text_of(model, "path"), bn_json_text_of(model, "arch"), bn_json_count_of(model, "layers"),
            bn_json_count_of(model, "vocabulary"));
    put_row(out, "model sha256", bn_json_text_of(model, "sha256"), true);
    put_row(out, "limits sha256", bn_json_text_of(doc, "parity.thresholds_sha256"), true);
    bn_html(out, "</tbody></table></div>\n");
}

static void put_provenance(struct bn_buf *out, const bn_json *doc)
{
    bn_html(out, "<h2>Where it comes from</h2>\n");
    put_engine(out, doc);
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r)) {
        bn_html(out,
                "<div class=\"scroll\" tabindex=\"0\"><table class=\"facts\"><caption>%s</caption><tbody>\n"
                "<tr><th scope=\"row\">program</th><td>%s %s</td></tr>\n",
                bn_json_text_of(r, "reference"), bn_json_text_of(r, "name"), bn_json_text_of(r, "version"));
        put_row(out, "commit", bn_json_text_of(r, "commit"), true);
        put_row(out, "reads the model as", bn_json_text_of(r, "arch"), false);
        if (bn_json_kind(bn_json_get(r, "run_as")) == BN_JSON_STRING) {
            bool other = bn_json_kind(bn_json_get(r, "model")) == BN_JSON_STRING;
            put_row(out, "model", other ? bn_json_text_of(r, "model") : "the same file", other);
            put_row(out, "machine", "started on the machine above", false);
            put_row(out, "command", bn_json_text_of(r, "run_as"), true);
        } else {
            put_row(out, "command", "none: recorded, or could not be started", false);
        }
        bn_html(out, "</tbody></table></div>\n");
    }
}

static void put_glossary(struct bn_buf *out)
{
    static const char *const WORDS[][2] = {
        {"nrmse", "rms of the difference over rms of the reference's row"},
        {"cosine", "of the angle between the two rows; 1 is the same direction"},
        {"max_abs, mse", "the greatest difference of one logit, and the mean square of all"},
        {"kl", "divergence of this engine's probabilities from the reference's, in nats"},
        {"top_k, kendall", "the 10 best tokens: how many both have, and how alike their order is"},
        {"margin (measure)", "by how much the reference puts its best token above this engine's best"},
        {"margin (column)", "distance to the limit; negative where it is broken"},
        {"tolerance of an operation", "what it may be off by, given the error of its own inputs"}};
    bn_html(out, "<h2>Words</h2><dl>\n");
    for (size_t i = 0; i < BN_ARRAY_LEN(WORDS); i++)
        bn_html(out, "<dt>%s</dt><dd>%s</dd>\n", WORDS[i][0], WORDS[i][1]);
    bn_html(out, "</dl>\n");
}

/* ---- the page ---- */

void bn_report_page(struct bn_buf *out, const bn_json *doc)
{
    size_t index = 0;
    struct bn_buf title = {.max = MAX_PAGE};
    bn_buf_printf(&title, "bn-crossval %s: %s", bn_json_text_of(doc, "command"),
                  bn_json_text_of(doc, "model.path"));
    bn_page_begin(out, title.data, bn_report_style, bn_report_style_bytes, "");
    out->failed = out->failed || title.failed;
    bn_buf_release(&title);
    put_verdict(out, doc);
    put_between(out, doc);
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r))
        bn_report_reference(out, r, ++index);
    put_provenance(out, doc);
    put_glossary(out);
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
        status = bn_fail(err, BN_ERR_FORMAT, "is no result: its schema is not " BN_CROSSVAL_SCHEMA);
        bn_error_hint(err, "bn-crossval ladder --json prints one");
    }
    if (status == BN_OK) bn_report_page(page, doc);
    if (status == BN_OK) status = bn_buf_check(page, err);
    bn_json_free(doc);
    return status;
}

/* Through the text, so that a page is the same whether it is made now or of the recorded result. */
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
    if (status == BN_OK) status = make_page(text.data != NULL ? text.data : "", text.len, &page, err);
    if (status != BN_OK) bn_error_name(err, args->operands[0]);
    if (status == BN_OK && path != NULL) status = bn_file_write_atomic(path, page.data, page.len, err);
    if (status == BN_OK && path == NULL) fwrite(page.data, 1, page.len, stdout);
    bn_buf_release(&page);
    bn_buf_release(&text);
    return status;
}
