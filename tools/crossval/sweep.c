/* SPDX-License-Identifier: MIT
 *
 * bn-crossval sweep: a file of prompts through the ladder, each alone and, with --seeds, with continuations that
 * are sampled. A line of the file is a JSON object: "prompt" (a text) or "tokens" (ids), and optionally "name",
 * "expect" (the greedy continuation that this engine must compute) and "model_sha256" (the model for which
 * "expect" holds).
 */
#include <stdio.h>

#include "base/file.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/text.h"
#include "tools/crossval/crossval.h"

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

/* The ids of a member, allocated. */
static bn_status read_ids(const struct sweep *s, const char *member, int32_t **ids, size_t *n, bn_error *err)
{
    bn_error why = {0};
    bn_status status = bn_json_ids(bn_json_get(s->line, member), ids, n, &why);
    if (status == BN_OK) return BN_OK;
    return status == BN_ERR_FORMAT ? bad_line(s, err, "the ids are not a list of ids") : bn_nomem(err);
}

static bn_status read_line(struct sweep *s, const char *text, size_t n, bn_error *err)
{
    static const char *const KNOWN[] = {"name", "prompt", "tokens", "expect", "model_sha256"};
    size_t n_known = 0;
    bn_status status = bn_json_parse(&s->line, text, n, err);
    if (status != BN_OK) {
        bn_error_name(err, s->x.options->prompts);
        return status;
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++)
        n_known += bn_json_get(s->line, KNOWN[i]) != NULL;
    if (n_known != bn_json_size(s->line)) return bad_line(s, err, "it has an unknown member");
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
    int32_t *ids = NULL;
    size_t n = 0;
    bn_status status = BN_OK;
    if (bn_json_get(s->line, "tokens") != NULL)
        status = read_ids(s, "tokens", &ids, &n, err);
    else if (bn_json_string(bn_json_get(s->line, "prompt"), &text))
        bn_buf_puts(&s->x.text, text);
    else
        status = bad_line(s, err, "the prompt is not a text");
    if (status == BN_OK) status = bn_buf_check(&s->x.text, err);
    if (status == BN_OK) status = bn_crossval_set_prompt(&s->x, ids, n, err);
    bn_free(ids);
    return status;
}

/* ---- one run ---- */

/* Compares the greedy continuation with the expected one, as far as both go. */
static bn_status check_expected(struct sweep *s, enum expected *found, size_t *at, bn_error *err)
{
    const char *model = NULL;
    int32_t *ids = NULL;
    size_t n = 0, have = s->x.n_ids - s->x.n_prompt;
    *found = EXPECT_NONE;
    if (bn_json_get(s->line, "expect") == NULL || s->x.sampled) return BN_OK;
    *found = EXPECT_OTHER_MODEL;
    if (bn_json_string(bn_json_get(s->line, "model_sha256"), &model) && strcmp(model, s->x.model_sha) != 0)
        return BN_OK;
    bn_status status = read_ids(s, "expect", &ids, &n, err);
    for (*at = 0; status == BN_OK && *at < n && *at < have; (*at)++)
        if (ids[*at] != s->x.ids[s->x.n_prompt + *at]) break;
    size_t both = bn_min_size(n, have);
    *found = both == 0 ? EXPECT_NONE : *at == both ? EXPECT_MATCH : EXPECT_DIFFERS;
    bn_free(ids);
    return status;
}

static bn_status print_result(const struct sweep *s, const bn_json *result, enum expected expected, size_t at,
                              bool good, bn_error *err)
{
    const struct bn_crossval *x = &s->x;
    const bn_json *references = bn_json_get(result, "references");
    struct bn_buf line = {.max = 1u << 16};
    char seed[24] = "";
    if (x->sampled) snprintf(seed, sizeof seed, ", seed %u", x->seed);
    printf("%s  %s%s: %zu token%s, %zu decoded%s\n", good ? "pass" : "FAIL", s->name, seed, x->n_prompt,
           bn_cli_s(x->n_prompt), x->n_ids - x->n_prompt,
           expected == EXPECT_MATCH         ? ", as expected"
           : expected == EXPECT_OTHER_MODEL ? ", expected of another model"
                                            : "");
    if (expected == EXPECT_DIFFERS)
        printf("      this engine differs from the expected tokens at step %zu\n", at);
    for (const bn_json *r = bn_json_first(references); r != NULL; r = bn_json_next(r)) {
        const bn_json *first = bn_json_find(bn_json_get(r, "rungs"), "rung", "first");
        const char *reason = bn_json_text_is(first, "status", "pass") ? bn_json_text_of(first, "reason") : "";
        line.len = 0;
        if (reason[0] != '\0') printf("      %s: %s\n", bn_json_text_of(r, "reference"), reason);
        if (bn_crossval_put_sentence(&line, r)) printf("      %s\n", bn_buf_text(&line));
    }
    bn_status status = bn_buf_check(&line, err);
    bn_buf_release(&line);
    return status;
}

static bn_status put_result(struct sweep *s, enum expected expected, size_t at, bool good, bn_error *err)
{
    const struct bn_crossval *x = &s->x;
    bn_json *o = bn_json_add_object(s->results);
    bn_json_put_string(o, "name", s->name);
    if (x->sampled) bn_json_put_u64(o, "seed", x->seed);
    BN_PUT(o, BN_U64("tokens", x->n_prompt), BN_STRING("prompt_ids_sha256", x->prompt_sha));
    bn_json_put_ids(o, "decoded", x->ids + x->n_prompt, x->n_ids - x->n_prompt);
    bn_json_put_string(o, "expected", EXPECTED_NAMES[expected]);
    if (expected == EXPECT_DIFFERS) bn_json_put_u64(o, "differs_at", at);
    bn_json_put_string(o, "status", good ? "pass" : "fail");
    bn_json *list = bn_json_put_array(o, "references");
    for (size_t i = 0; i < x->n_refs; i++)
        bn_crossval_put_reference(list, x, &x->refs[i], true);
    if (!bn_json_is_complete(o)) return bn_nomem(err);
    return x->args->json || (good && x->args->quiet) ? BN_OK : print_result(s, o, expected, at, good, err);
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
        BN_TRY(bn_crossval_compare(&s->x, BN_XRUNGS, true, err));
    else
        BN_TRY(bn_crossval_evaluate(&s->x, err));
    BN_TRY(check_expected(s, &expected, &at, err));
    int code = bn_crossval_exit(&s->x);
    if (code == BN_EXIT_INTERNAL) return bn_nomem(err);
    bool compared = s->x.n_refs > 0 || expected == EXPECT_MATCH || s->x.options->record != NULL;
    bool good = compared && expected != EXPECT_DIFFERS && code == BN_EXIT_OK;
    s->n++;
    s->n_good += good;
    BN_TRY(put_result(s, expected, at, good, err));
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
        BN_PUT(o, BN_STRING("reference", ref->given), BN_TEXT("reason", ref->failure.msg));
        s->badly_ended = true;
        if (!s->x.args->json) printf("FAIL  %s failed at its end: %s\n", ref->given, ref->failure.msg);
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
        BN_PUT(doc, BN_U64("runs", s->n), BN_U64("passed", s->n_good),
               BN_U64("exit_code", (uint64_t)args->exit_code));
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
    if (o->prompts == NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no file of prompts is given"), err, "--prompts FILE.jsonl");
    struct sweep *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    bn_cli_catch_interrupt();
    bn_json *doc = NULL;
    bn_status status = bn_crossval_open_model(&s->x, args, err);
    if (status == BN_OK) {
        doc = bn_crossval_document(&s->x);
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
