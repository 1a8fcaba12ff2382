/* SPDX-License-Identifier: MIT
 *
 * bn-crossval sweep: a file of prompts through the ladder, each alone and, with --seeds, with continuations that
 * are sampled. A line of the file is a JSON object: "prompt" (a text) or "tokens" (ids), and optionally "name",
 * "expect" (the greedy continuation that this engine must compute) and "model_sha256" (the model for which
 * "expect" holds).
 */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/crossval/crossval.h"

#define SWEEP_SCHEMA "bn.crossval-sweep/1"
#define MAX_PROMPTS_BYTES (64u << 20)

/* What the expected tokens say. */
enum expected { EXPECT_NONE, EXPECT_MATCH, EXPECT_OTHER_MODEL, EXPECT_DIFFERS };
static const char *const EXPECTED_NAMES[] = {"none", "match", "other_model", "differs"};

struct sweep {
    struct bn_crossval x;
    struct bn_buf text;   /* of the file */
    struct bn_buf record; /* of the file that --record writes */
    bn_json *results;     /* a list */
    size_t n, n_good, n_line;
    bn_json *line; /* the one in work */
    char name[80];
    bool badly_ended; /* a reference */
};

/* ---- one line of the file ---- */

static bn_status bad_line(const struct sweep *s, bn_error *err, const char *what)
{
    return bn_fail_in(err, BN_ERR_FORMAT, s->x.options->prompts, "line %zu: %s", s->n_line, what);
}

/* An array of ids, allocated. */
static bn_status read_ids(const struct sweep *s, const bn_json *list, int32_t **ids, size_t *n, bn_error *err)
{
    uint64_t id = 0;
    *n = 0;
    *ids = bn_alloc(bn_json_size(list), sizeof **ids);
    if (*ids == NULL) return bn_nomem(err);
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e)) {
        if (!bn_json_u64(e, &id) || id > INT32_MAX) return bad_line(s, err, "an id is not a whole number");
        (*ids)[(*n)++] = (int32_t)id;
    }
    return bn_json_kind(list) == BN_JSON_ARRAY ? BN_OK : bad_line(s, err, "the ids are not a list");
}

static bn_status read_line(struct sweep *s, const char *text, size_t n, bn_error *err)
{
    static const char *const KNOWN[] = {"name", "prompt", "tokens", "expect", "model_sha256"};
    bn_status status = bn_json_parse(&s->line, text, n, err);
    if (status != BN_OK) {
        bn_error_name(err, s->x.options->prompts);
        return status;
    }
    for (const bn_json *m = bn_json_first(s->line); m != NULL; m = bn_json_next(m)) {
        size_t i = 0;
        while (i < BN_ARRAY_LEN(KNOWN) &&
               strcmp(KNOWN[i], bn_json_name(m) != NULL ? bn_json_name(m) : "") != 0)
            i++;
        if (i == BN_ARRAY_LEN(KNOWN)) return bad_line(s, err, "it has an unknown member");
    }
    if ((bn_json_get(s->line, "prompt") != NULL) == (bn_json_get(s->line, "tokens") != NULL))
        return bad_line(s, err, "it needs a prompt or tokens, and not both");
    const char *name = bn_json_text_of(s->line, "name");
    if (name[0] != '\0')
        bn_escape(s->name, sizeof s->name, name, strlen(name));
    else
        snprintf(s->name, sizeof s->name, "line %zu", s->n_line);
    return BN_OK;
}

static bn_status set_prompt(struct sweep *s, bn_error *err)
{
    const char *text = NULL;
    const bn_json *tokens = bn_json_get(s->line, "tokens");
    if (tokens == NULL && !bn_json_string(bn_json_get(s->line, "prompt"), &text))
        return bad_line(s, err, "the prompt is not a text");
    int32_t *ids = NULL;
    size_t n = 0;
    bn_status status = tokens != NULL ? read_ids(s, tokens, &ids, &n, err) : BN_OK;
    if (status == BN_OK)
        status = bn_crossval_set_prompt(&s->x, text, text != NULL ? strlen(text) : 0, ids, n, err);
    bn_free(ids);
    return status;
}

/* ---- one run ---- */

/* Compares the greedy continuation with the expected one, as far as both go. */
static bn_status check_expected(struct sweep *s, enum expected *found, size_t *at, bn_error *err)
{
    const bn_json *list = bn_json_get(s->line, "expect");
    const char *model = NULL;
    int32_t *ids = NULL;
    size_t n = 0, have = s->x.n_ids - s->x.n_prompt;
    *found = EXPECT_NONE;
    if (list == NULL || s->x.sampled) return BN_OK;
    *found = EXPECT_OTHER_MODEL;
    if (bn_json_string(bn_json_get(s->line, "model_sha256"), &model) && strcmp(model, s->x.model_sha) != 0)
        return BN_OK;
    bn_status status = read_ids(s, list, &ids, &n, err);
    for (*at = 0; status == BN_OK && *at < n && *at < have; (*at)++)
        if (ids[*at] != s->x.ids[s->x.n_prompt + *at]) break;
    size_t both = bn_min_size(n, have);
    *found = both == 0 ? EXPECT_NONE : *at == both ? EXPECT_MATCH : EXPECT_DIFFERS;
    bn_free(ids);
    return status;
}

/* Why a first position beyond its limits passed, or "". */
static const char *explained(const struct bn_xref *ref)
{
    const struct bn_xrung *first = &ref->rungs[BN_RUNG_FIRST];
    return first->state == BN_X_PASS ? first->reason : "";
}

static void put_reference(bn_json *list, const struct bn_xref *ref)
{
    bn_json *o = bn_json_add_object(list);
    enum bn_rung parted = bn_xref_parted(ref);
    bn_json_put_string(o, "reference", bn_xref_label(ref));
    bn_json_put_string(o, "result", bn_xref_result(ref));
    bn_json_put_u64(o, "compared", bn_xref_compared(ref));
    bn_json_put_string(o, "parted_at", parted != BN_RUNG_COUNT ? bn_rung_name(parted) : NULL);
    if (parted != BN_RUNG_COUNT) bn_json_put_text(o, "reason", ref->rungs[parted].reason);
    if (explained(ref)[0] != '\0') bn_json_put_string(o, "explained", explained(ref));
    if (ref->traced == BN_X_FAIL) bn_json_put_string(o, "trace", ref->trace_reason);
}

static void put_result(struct sweep *s, enum expected expected, size_t at, bool good)
{
    const struct bn_crossval *x = &s->x;
    bn_json *o = bn_json_add_object(s->results);
    bn_json_put_string(o, "name", s->name);
    if (x->sampled) bn_json_put_u64(o, "seed", x->seed);
    bn_json_put_u64(o, "tokens", x->n_prompt);
    bn_json_put_string(o, "prompt_ids_sha256", x->prompt_sha);
    bn_json_put_ids(o, "decoded", x->ids + x->n_prompt, x->n_ids - x->n_prompt);
    bn_json_put_string(o, "expected", EXPECTED_NAMES[expected]);
    if (expected == EXPECT_DIFFERS) bn_json_put_u64(o, "differs_at", at);
    bn_json_put_string(o, "status", good ? "pass" : "fail");
    bn_json *list = bn_json_put_array(o, "references");
    for (size_t i = 0; i < x->n_refs; i++)
        put_reference(list, &x->refs[i]);
}

static void print_result(const struct sweep *s, enum expected expected, size_t at, bool good)
{
    const struct bn_crossval *x = &s->x;
    char seed[24] = "";
    if (x->sampled) snprintf(seed, sizeof seed, ", seed %u", x->seed);
    printf("%s  %s%s: %zu token%s, %zu decoded%s\n", good ? "pass" : "FAIL", s->name, seed, x->n_prompt,
           bn_cli_s(x->n_prompt), x->n_ids - x->n_prompt,
           expected == EXPECT_MATCH         ? ", as expected"
           : expected == EXPECT_OTHER_MODEL ? ", expected of another model"
                                            : "");
    if (expected == EXPECT_DIFFERS)
        printf("      this engine differs from the expected tokens at step %zu\n", at);
    for (size_t i = 0; i < x->n_refs; i++) {
        const struct bn_xref *ref = &x->refs[i];
        enum bn_rung parted = bn_xref_parted(ref);
        if (explained(ref)[0] != '\0') printf("      %s: %s\n", bn_xref_label(ref), explained(ref));
        if (strcmp(bn_xref_result(ref), "agree") == 0) continue;
        printf("      %s: %s%s%s%s%s\n", bn_xref_label(ref), bn_xref_result(ref),
               parted != BN_RUNG_COUNT ? " from rung " : "",
               parted != BN_RUNG_COUNT ? bn_rung_name(parted) : "", ref->traced == BN_X_FAIL ? "; " : "",
               ref->traced == BN_X_FAIL ? ref->trace_reason : "");
    }
}

/* The line again, with the tokens that were computed as the expected ones. */
static bn_status record(struct sweep *s, bn_error *err)
{
    const struct bn_crossval *x = &s->x;
    if (x->options->record == NULL || x->sampled) return BN_OK;
    bn_json_put_string(s->line, "model_sha256", x->model_sha);
    bn_json_put_ids(s->line, "expect", x->ids + x->n_prompt, x->n_ids - x->n_prompt);
    return bn_json_write_line(s->line, true, &s->record, err);
}

/* One prompt with one seed, or greedy. */
static bn_status run_one(struct sweep *s, bn_error *err)
{
    enum expected expected = EXPECT_NONE;
    size_t at = 0;
    BN_TRY(set_prompt(s, err));
    if (s->x.options->refs.n > 0)
        BN_TRY(bn_crossval_compare(&s->x, err));
    else
        BN_TRY(bn_crossval_evaluate(&s->x, err));
    BN_TRY(check_expected(s, &expected, &at, err));
    if (s->x.n_refs > 0 && bn_crossval_exit(&s->x) == BN_EXIT_INTERNAL) return bn_nomem(err);
    bool compared = s->x.n_refs > 0 || expected == EXPECT_MATCH || s->x.options->record != NULL;
    bool good =
        compared && expected != EXPECT_DIFFERS && (s->x.n_refs == 0 || bn_crossval_exit(&s->x) == BN_EXIT_OK);
    s->n++;
    s->n_good += good;
    put_result(s, expected, at, good);
    if (!s->x.args->json && (!good || !s->x.args->quiet)) print_result(s, expected, at, good);
    return record(s, err);
}

static bn_status run_line(struct sweep *s, const char *text, size_t n, bn_error *err)
{
    const struct bn_list *seeds = &s->x.options->seeds;
    BN_TRY(read_line(s, text, n, err));
    bn_status status = BN_OK;
    for (size_t i = 0; i <= seeds->n && status == BN_OK; i++) {
        s->x.sampled = i > 0;
        s->x.seed = i > 0 ? seeds->list[i - 1] : 0;
        status = run_one(s, err);
        bn_crossval_reset(&s->x);
    }
    bn_json_free(s->line);
    s->line = NULL;
    return status;
}

/* ---- the command ---- */

/* References answer all prompts, and then have to end in good order. */
static bn_status end_references(struct sweep *s, bn_json *doc, bn_error *err)
{
    bn_json *list = bn_json_put_array(doc, "failed_at_the_end");
    for (size_t i = 0; i < s->x.options->refs.n && i < BN_XREFS_MAX; i++) {
        struct bn_xref *ref = &s->x.refs[i];
        if (ref->process == NULL) continue;
        bn_xref_finish(ref);
        if (!ref->broken) continue;
        if (ref->failure.code == BN_ERR_NOMEM) return bn_nomem(err); /* ours: nothing was found out */
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "reference", bn_xref_label(ref));
        bn_json_put_text(o, "reason", ref->failure.msg);
        s->badly_ended = true;
        if (!s->x.args->json)
            printf("FAIL  %s failed at its end: %s\n", bn_xref_label(ref), ref->failure.msg);
    }
    return BN_OK;
}

static bn_status run_lines(struct sweep *s, bn_error *err)
{
    s->text.max = MAX_PROMPTS_BYTES;
    s->record.max = MAX_PROMPTS_BYTES;
    BN_TRY(bn_file_read(s->x.options->prompts, &s->text, err));
    const char *at = bn_buf_text(&s->text), *end = at + s->text.len;
    while (at < end) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((feed != NULL ? feed : end) - at);
        s->n_line++;
        if (n > 0) BN_TRY(run_line(s, at, n, err));
        at += n + 1;
    }
    return BN_OK;
}

static bn_status finish(struct sweep *s, struct bn_args *args, bn_json *doc, bn_error *err)
{
    BN_TRY(end_references(s, doc, err));
    args->exit_code = s->n > 0 && s->n_good == s->n && !s->badly_ended ? BN_EXIT_OK : BN_EXIT_NEGATIVE;
    if (args->json) {
        bn_json_put_u64(doc, "runs", s->n);
        bn_json_put_u64(doc, "passed", s->n_good);
        bn_json_put_u64(doc, "exit_code", (uint64_t)args->exit_code);
        BN_TRY(bn_cli_print_json(doc, err));
    } else if (s->n == 0) {
        puts("NOTHING was compared: the file has no prompts");
    } else {
        printf("%zu of %zu runs pass\n", s->n_good, s->n);
    }
    if (s->x.options->record == NULL || args->exit_code != BN_EXIT_OK) return BN_OK;
    return bn_file_write_atomic(s->x.options->record, s->record.data, s->record.len, err);
}

bn_status bn_crossval_sweep(struct bn_args *args, bn_error *err)
{
    const struct bn_crossval_options *o = args->fields;
    struct sweep *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    if (o->prompts == NULL) {
        bn_free(s);
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no file of prompts is given"), err, "--prompts FILE.jsonl");
    }
    bn_cli_catch_interrupt();
    bn_json *doc = NULL;
    bn_status status = bn_crossval_open_model(&s->x, args, err);
    if (status == BN_OK) {
        s->x.keep_refs = true;
        doc = bn_crossval_document(&s->x, SWEEP_SCHEMA, "sweep");
        s->results = bn_json_put_array(doc, "results");
        status = run_lines(s, err);
    }
    if (status == BN_OK) status = finish(s, args, doc, err);
    if (bn_cli_interrupted() != 0) {
        status = BN_OK;
        args->exit_code = 128 + bn_cli_interrupted();
    }
    bn_json_free(s->line);
    bn_json_free(doc);
    bn_buf_release(&s->text);
    bn_buf_release(&s->record);
    bn_crossval_close(&s->x);
    bn_free(s);
    return status;
}
