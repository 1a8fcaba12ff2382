/* SPDX-License-Identifier: MIT
 *
 * What the commands of bn-run share: opening a model, reading a prompt; see run.h.
 */
#include "tools/run/run.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "hub/names/names.h"
#include "infer/exchange.h"
#include "lab/host/git.h"
#include "tools/cli/default_model.h"
#include "tools/cli/program/sandbox.h"
#include "tools/cli/ranks.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"

/* Files of a conversation are named by its user, later. */
void bn_run_allow(struct bn_sandbox_rules *rules, const struct bn_args *args)
{
    const struct bn_run_options *o = args->fields;
    char live[BN_LIVE_PATH];
    bool chat = args->command->run == bn_run_chat;
    if (chat) bn_sandbox_allow(rules, BN_PATH_BOTH, ".");
    if (chat && !o->no_history && isatty(STDIN_FILENO)) bn_sandbox_allow_state(rules);
    if (o->live.on && bn_live_path(live, "", true, NULL) == BN_OK)
        bn_sandbox_allow(rules, BN_PATH_BOTH, live);
    if (chat || o->receipt != NULL || o->receipts != NULL || o->profile != NULL) bn_git_keep();
}

/* Ctrl-C while a long prompt is evaluated. */
static bool is_interrupted(void *user)
{
    const struct bn_run_engine *engine = user;
    return !engine->answering && bn_cli_interrupted() != 0;
}

/* Making the copies of a 2B model takes what they save in 10 to 150 tokens: the less free memory, the longer
 * (docs/explain/performance.md). */
#define REPACK_TOKENS 64u

static bn_repack choose_repack(const struct bn_args *args)
{
    const struct bn_run_options *o = args->fields;
    if (args->command->run == bn_run_chat) return BN_REPACK_AUTO;
    bool many = o->batch_file != NULL || o->n_predict >= REPACK_TOKENS;
    return args->command->run == bn_run_generate && many ? BN_REPACK_AUTO : BN_REPACK_NEVER;
}

static bn_status open_session(struct bn_run_engine *engine, const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    bn_session_options options = {.n_ctx = o->n_ctx,
                                  .n_batch = o->n_batch,
                                  .n_threads = o->n_threads,
                                  .snapshot_bytes = o->snapshot_bytes};
    bn_model_options with = {.repack = choose_repack(args), .repack_later = true};
    BN_TRY(bn_cli_open_model(&engine->model, args, &with, err));
    uint32_t n_vocab = bn_model_hparams(engine->model)->n_vocab;
    for (size_t i = 0; i < o->stop_ids.n; i++)
        if ((uint32_t)o->stop_ids.list[i] >= n_vocab)
            return bn_fail(err, BN_ERR_ARG, "--stop-id has token %d, outside the vocabulary",
                           (int)o->stop_ids.list[i]);
    return bn_session_open(&engine->session, engine->model, &options, err);
}

bn_status bn_run_follow(struct bn_args *args, bn_error *err)
{
    struct bn_run_engine engine = {0};
    bn_status status = open_session(&engine, args, err);
    status = bn_cli_agree(engine.session, status, err);
    if (status == BN_OK) status = bn_session_follow(engine.session, engine.model, err);
    bn_run_close(&engine);
    return status;
}

bn_status bn_run_need_all(const char *option, bn_error *err)
{
    if (bn_cli_ranks() == NULL) return BN_OK;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "%s needs the whole model in one process, not %u ranks", option,
                   bn_cli_ranks()->count);
}

/* --draft: the model that drafts. */
static bn_status open_draft(struct bn_run_engine *engine, const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    bn_model_options with = {.repack = BN_REPACK_AUTO};
    char *path = NULL;
    if (o->draft_model == NULL) return BN_OK;
    if (o->speculate != BN_DRAFT_NONE)
        return bn_fail(err, BN_ERR_ARG, "--speculate ngram and --draft exclude each other");
    BN_TRY(bn_cli_device(&with.device, args, err));
    BN_TRY(bn_cli_model_path(&path, o->draft_model, err));
    bn_status status = bn_model_open(&engine->draft_model, path, &with, err);
    bn_free(path);
    BN_TRY(status);
    uint32_t n_ctx = bn_session_n_ctx(engine->session), most = bn_model_hparams(engine->draft_model)->n_ctx;
    bn_session_options options = {.n_ctx = n_ctx < most ? n_ctx : most, .n_threads = o->n_threads};
    return bn_session_open(&engine->draft, engine->draft_model, &options, err);
}

bn_status bn_run_open(struct bn_run_engine *engine, const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    const struct bn_ranks *ranks = bn_cli_ranks();
    uint64_t start = bn_clock_ns();
    *engine = (struct bn_run_engine){0};
    bn_status status = open_session(engine, args, err);
    status = bn_cli_agree(engine->session, status, err);
    if (status == BN_OK) status = open_draft(engine, args, err);
    engine->load_ns = bn_clock_ns() - start;
    if (status == BN_OK) status = bn_cli_live_open(&engine->live, args, &o->live, engine->session, err);
    if (status != BN_OK) {
        bn_run_close(engine);
        return status;
    }
    bn_session_set_cancel(engine->session, is_interrupted, engine);
    bn_cli_warn_threads(engine->session, o->n_threads);
    bn_run_note_model(args, engine->model);
    if (ranks != NULL) /* this process has a part of the weights */
        bn_report_note(1, "%u ranks; this one has %.1f MiB of weights", ranks->count,
                       (double)bn_model_resident_bytes(engine->model) / 0x1p20);
    uint32_t n_threads = bn_session_n_threads(engine->session);
    bn_report_note(1,
                   "%u thread%s, instruction set %s, context of %u tokens, batches of %u, opened in %.1f ms",
                   n_threads, bn_cli_s(n_threads), bn_isa_name(), bn_session_n_ctx(engine->session),
                   bn_session_n_batch(engine->session), (double)engine->load_ns / 1e6);
    bn_report_note(1, "a token takes %.1f KiB in a prompt cache",
                   (double)bn_session_token_bytes(engine->session) / 0x1p10);
    uint64_t state = bn_model_state_bytes(engine->model);
    if (state > 0)
        bn_report_note(1, "a state of recurrent layers takes %.1f MiB, and each snapshot of it",
                       (double)state / 0x1p20);
    return BN_OK;
}

void bn_run_close(struct bn_run_engine *engine)
{
    bn_session_close(engine->draft);
    bn_model_close(engine->draft_model);
    bn_live_close(engine->live);
    bn_session_close(engine->session);
    bn_model_close(engine->model);
    *engine = (struct bn_run_engine){0};
}

bn_status bn_run_template(bn_template *out, const struct bn_args *args, const bn_tokenizer *tok,
                          bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    (void)bn_template_from_name(o->template_name, out);
    *out = bn_template_resolve(*out, tok);
    return bn_cli_set_thinking(out, o->think, err);
}

bn_status bn_run_render(struct bn_prompt *prompt, const struct bn_args *args, bn_template tmpl,
                        const bn_tokenizer *tok, bn_error *err)
{
    const char *system = ((const struct bn_run_options *)args->fields)->system;
    char *asked = prompt->text;
    if (tmpl == BN_TEMPLATE_RAW && system == NULL)
        return bn_tokenize(tok, asked, prompt->n_bytes, BN_TOKENIZE_BOS, &prompt->ids, &prompt->n_ids, err);
    if (strlen(asked) != prompt->n_bytes)
        return bn_fail(err, BN_ERR_ARG, "a text with NUL bytes cannot be used with a chat template");
    const bn_message messages[] = {{"system", system}, {"user", asked}};
    bool first = system == NULL;
    prompt->text = NULL;
    bn_status status =
        bn_template_render(tmpl, messages + first, 2u - first, &prompt->text, &prompt->n_bytes, err);
    if (status == BN_OK)
        status =
            bn_template_encode(tmpl, tok, messages + first, 2u - first, &prompt->ids, &prompt->n_ids, err);
    bn_free(asked);
    return status;
}

bn_status bn_run_stops(const char ***out, bn_generation *gen, const struct bn_texts *given,
                       const bn_json *stop, bn_template tmpl, bn_error *err)
{
    bool list = bn_json_kind(stop) == BN_JSON_ARRAY;
    size_t n = stop == NULL ? given->n : list ? bn_json_size(stop) : 1, n_template = 0;
    while (bn_template_stop(tmpl, n_template) != NULL)
        n_template++;
    const char **stops = *out = bn_alloc(n + n_template, sizeof *stops);
    if (stops == NULL) return bn_nomem(err);
    const bn_json *at = list ? bn_json_first(stop) : stop;
    for (size_t i = 0; i < n; i++, at = stop != NULL ? bn_json_next(at) : NULL) {
        if (stop == NULL)
            stops[i] = given->list[i];
        else if (!bn_json_string(at, &stops[i]))
            return bn_fail(err, BN_ERR_FORMAT, "stop is not a text or a list of texts");
        size_t n_bytes = strlen(stops[i]); /* a receipt holds the texts as JSON */
        if (n_bytes == 0 || bn_utf8_valid(stops[i], n_bytes) != n_bytes)
            return bn_fail(err, stop == NULL ? BN_ERR_ARG : BN_ERR_FORMAT,
                           "a stop text is empty or not UTF-8");
    }
    for (size_t i = 0; i < n_template; i++)
        stops[n + i] = bn_template_stop(tmpl, i);
    gen->stops = stops;
    gen->n_stops = n + n_template;
    return BN_OK;
}

/* "maple", "hf:owner/repo", "model.gguf": what people type after `ollama run`. */
static bool names_model(const char *text)
{
    struct bn_hub_registry *registry = NULL;
    const struct bn_hub_file *file;
    bn_error no = {0};
    size_t n = strcspn(text, " \n");
    if (text[n] != '\0') return false;
    bool known = strncmp(text, "hf:", 3) == 0 || (n > 5 && strcmp(text + n - 5, ".gguf") == 0);
    if (!known && bn_hub_registry_open(&registry, &no) == BN_OK)
        known = bn_hub_registry_look_up(NULL, &file, registry, text, "", &no) == BN_OK;
    bn_hub_registry_close(registry);
    return known;
}

bn_status bn_run_check_text(struct bn_args *args, const struct bn_id_list *ids, bn_error *err)
{
    const char *text = args->n_operands > 0 ? args->operands[0] : "";
    BN_TRY(bn_cli_text_check(args, ids, err));
    if (args->model != NULL || !names_model(text)) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_ARG, "'%.80s' is the name of a model, not a text", text), err,
                   "-m MODEL selects a model, -p TEXT gives a text");
}

bn_status bn_run_prompt(struct bn_run_prompt *prompt, const struct bn_args *args, const bn_model *model,
                        bool trim, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    *prompt = (struct bn_run_prompt){.tmpl = BN_TEMPLATE_RAW};
    if (o->tokens.n > 0) {
        bool wrapped = o->system != NULL || o->think != BN_CLI_THINK_AUTO ||
                       (o->template_name != NULL && bn_args_given(args, &o->template_name));
        if (args->prompt != NULL || args->file != NULL || args->n_operands > 0 || wrapped)
            return bn_fail(err, BN_ERR_ARG,
                           "--tokens cannot be combined with a text, a template or a system message");
        BN_TRY(BN_NEW(prompt->own.ids, o->tokens.n, err));
        memcpy(prompt->own.ids, o->tokens.list, o->tokens.n * sizeof *prompt->own.ids);
        prompt->own.n_ids = o->tokens.n;
        return BN_OK;
    }
    const bn_tokenizer *tok = NULL;
    BN_TRY(bn_cli_tokenizer(model, &tok, err));
    if (o->template_name != NULL) BN_TRY(bn_run_template(&prompt->tmpl, args, tok, err));
    struct bn_buf text = {.max = BN_RUN_MAX_TEXT_BYTES};
    bn_status status = bn_cli_text(args, &o->tokens, &text, err);
    bool typed = args->prompt != NULL || args->n_operands > 0;
    if (trim && !typed && text.len > 0 && text.data[text.len - 1] == '\n') text.data[--text.len] = '\0';
    prompt->own.text = text.data;
    prompt->own.n_bytes = text.len;
    uint64_t began = bn_clock_ns();
    if (status == BN_OK) status = bn_run_render(&prompt->own, args, prompt->tmpl, tok, err);
    prompt->tokenize_ns = bn_clock_ns() - began;
    if (status != BN_OK) bn_prompt_release(&prompt->own);
    return status;
}

bn_status bn_run_make_folder(const char *path, bn_error *err)
{
    struct bn_buf inside = {.max = BN_RUN_MAX_TEXT_BYTES};
    bn_buf_printf(&inside, "%s/0.json", path);
    bn_status status = bn_buf_check(&inside, err);
    if (status == BN_OK) status = bn_file_make_folders(inside.data, err);
    if (status == BN_OK) status = bn_file_check_output(inside.data, err);
    bn_buf_release(&inside);
    return status;
}

bn_sampler_options bn_run_sampling(const struct bn_args *args)
{
    bn_sampler_options sampling = ((const struct bn_run_options *)args->fields)->sampling;
    sampling.repeat_last = 64; /* receipts state it */
    return sampling;
}

bn_status bn_run_grammar(bn_grammar **out, const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    const char *path = o->grammar != NULL ? o->grammar : o->json_schema;
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    *out = NULL;
    if (path == NULL) return BN_OK;
    if (o->grammar != NULL && o->json_schema != NULL)
        return bn_fail(err, BN_ERR_ARG, "--grammar cannot be combined with --json-schema");
    bool is_text = o->grammar != NULL ? strstr(path, "::=") != NULL : path[0] == '{'; /* not a file's name */
    if (is_text) bn_buf_puts(&text, path);
    bn_status status = is_text ? bn_buf_check(&text, err) : bn_file_read(path, &text, err);
    if (status == BN_OK) {
        status = o->grammar != NULL ? bn_grammar_open_gbnf(out, bn_buf_text(&text), text.len, err)
                                    : bn_grammar_open_json_schema(out, bn_buf_text(&text), text.len, err);
        if (status != BN_OK)
            bn_error_name(err, !is_text ? path : o->grammar != NULL ? "--grammar" : "--json-schema");
    }
    bn_buf_release(&text);
    return status;
}

uint32_t bn_run_at_most(uint32_t n_predict, const bn_session *session)
{
    uint32_t n_ctx = bn_session_n_ctx(session), most = 1u << 24;
    if (n_predict == UINT32_MAX) n_predict = n_ctx + 1;
    return n_predict < most ? n_predict : most;
}

/* ---- --prompt-cache: a file that cannot be used is an error and is never replaced: it may be something else ---- */

bn_status bn_run_cache_check(const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    if (o->prompt_cache == NULL && (o->cache_all || o->cache_ro))
        return bn_fail(err, BN_ERR_ARG, "%s needs --prompt-cache FILE",
                       o->cache_ro ? "--prompt-cache-ro" : "--prompt-cache-all");
    if (o->cache_all && o->cache_ro)
        return bn_fail(err, BN_ERR_ARG, "--prompt-cache-all and --prompt-cache-ro exclude each other");
    if (o->prompt_cache != NULL) BN_TRY(bn_run_need_all("--prompt-cache", err));
    return o->prompt_cache != NULL && !o->cache_ro ? bn_file_check_output(o->prompt_cache, err) : BN_OK;
}

bn_status bn_run_cache_load(const struct bn_args *args, bn_session *session, const int32_t *ids, size_t n_ids,
                            size_t *n_cached, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    uint32_t n_kept = 0;
    bn_error missing = {0};
    *n_cached = 0;
    if (o->prompt_cache == NULL || n_ids == 0) return BN_OK;
    bn_status status = bn_session_load(session, o->prompt_cache, ids, n_ids - 1, &n_kept, &missing);
    if (status == BN_ERR_NOT_FOUND && !o->cache_ro) return BN_OK; /* it is made after the run */
    if (status != BN_OK && err != NULL) *err = missing;
    BN_TRY(status);
    bn_report_note(0, "prompt cache: %u of %zu tokens reused", n_kept, n_ids);
    *n_cached = n_kept;
    return BN_OK;
}

bn_status bn_run_cache_save(const struct bn_args *args, bn_session *session, size_t n_tokens, size_t n_cached,
                            bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    n_tokens = o->cache_all ? bn_session_position(session) : bn_session_known(session, (uint32_t)n_tokens);
    /* The last token of a prompt is always evaluated, so a file that lacks only this one is as good. */
    if (o->prompt_cache == NULL || o->cache_ro || n_tokens <= n_cached + 1) return BN_OK;
    BN_TRY(bn_session_save(session, (uint32_t)n_tokens, o->prompt_cache, err));
    bn_report_note(0, "prompt cache: %zu token%s saved, %.1f MiB", n_tokens, bn_cli_s(n_tokens),
                   (double)n_tokens * (double)bn_session_token_bytes(session) / 0x1p20);
    return BN_OK;
}

bn_draft_options bn_run_draft(const struct bn_args *args, const struct bn_run_engine *engine)
{
    const struct bn_run_options *o = args->fields;
    return (bn_draft_options){.kind = engine->draft != NULL ? BN_DRAFT_MODEL : o->speculate,
                              .session = engine->draft,
                              .most = o->draft_max,
                              .always = o->draft_always};
}

void bn_run_note_drafts(const struct bn_generation *gen, unsigned level)
{
    const bn_draft_stat *d = &gen->drafts;
    if (gen->draft.kind == BN_DRAFT_NONE) return;
    bn_report_note(level, "drafted %llu token%s in %llu pass%s, %llu accepted",
                   (unsigned long long)d->drafted, bn_cli_s(d->drafted), (unsigned long long)d->passes,
                   d->passes == 1 ? "" : "es", (unsigned long long)d->accepted);
}

/* ---- lines ---- */

bool bn_run_next_line(struct bn_buf *text, size_t *at, char **line, size_t *n)
{
    if (*at >= text->len) return false;
    char *end = memchr(text->data + *at, '\n', text->len - *at);
    *line = text->data + *at;
    *n = end != NULL ? (size_t)(end - *line) : text->len - *at;
    (*line)[*n] = '\0';
    *at += *n + 1;
    return true;
}

bn_status bn_run_at_line(size_t number, bn_status status, bn_error *err)
{
    char where[32];
    snprintf(where, sizeof where, "line %zu", number);
    bn_error_name(err, where);
    return status;
}

bn_status bn_run_line_text(bn_json **value, const char **text, const char *line, size_t n, bn_error *err)
{
    BN_TRY(bn_json_parse(value, line, n, err));
    return bn_json_string(*value, text) ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "not a JSON string");
}
