/* SPDX-License-Identifier: MIT
 *
 * Reads the requests of bn-run --batch-file. A line is a JSON string, the prompt, or an object with a prompt, messages
 * or tokens, and options of its own (docs/howto/generate-faster.md).
 */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/batch/lanes.h"
#include "tools/cli/text.h"
#include "tools/run/batch.h"

#define MAX_MESSAGES 1024u

/* What all lines share. */
struct reading {
    struct bn_run_requests *requests;
    const struct bn_args *args;
    const struct bn_run_options *o;
    const struct bn_run_engine *engine;
    const bn_tokenizer *tok; /* NULL when the model has no vocabulary */
};

/* ---- the prompt ---- */

static bn_status need_text(struct reading *r, bn_error *err)
{
    return r->tok != NULL ? BN_OK : bn_cli_tokenizer(r->engine->model, &r->tok, err);
}

/* The tokens of messages, and their text as a receipt binds it. */
static bn_status take_messages(struct reading *r, struct bn_run_request *q, const bn_message *messages,
                               size_t n, bn_error *err)
{
    bn_template tmpl = r->requests->tmpl;
    BN_TRY(bn_template_render(tmpl, messages, n, &q->text, &q->n_bytes, err));
    return bn_template_encode(tmpl, r->tok, messages, n, &q->ids, &q->gen.n_prompt, err);
}

static bn_status take_prompt(struct reading *r, struct bn_run_request *q, const char *prompt, bn_error *err)
{
    bn_message messages[2];
    size_t n = 0;
    BN_TRY(need_text(r, err));
    if (r->requests->tmpl != BN_TEMPLATE_RAW || r->o->system != NULL) {
        if (r->o->system != NULL) messages[n++] = (bn_message){"system", r->o->system};
        messages[n++] = (bn_message){"user", prompt};
        return take_messages(r, q, messages, n, err);
    }
    q->n_bytes = strlen(prompt);
    q->text = bn_alloc(q->n_bytes + 1, 1);
    if (q->text == NULL) return bn_nomem(err);
    memcpy(q->text, prompt, q->n_bytes);
    return bn_tokenize(r->tok, prompt, q->n_bytes, BN_TOKENIZE_BOS, &q->ids, &q->gen.n_prompt, err);
}

static bn_status take_list(struct reading *r, struct bn_run_request *q, const bn_json *list, bn_error *err)
{
    size_t n = bn_json_kind(list) == BN_JSON_ARRAY ? bn_json_size(list) : 0;
    if (n == 0 || n > MAX_MESSAGES)
        return bn_fail(err, BN_ERR_FORMAT, "messages is not a list of 1 to %u messages", MAX_MESSAGES);
    BN_TRY(need_text(r, err));
    if (r->requests->tmpl == BN_TEMPLATE_RAW)
        return bn_fail(err, BN_ERR_ARG, "messages need a chat template, and the model has none (--template)");
    bn_message *messages = bn_alloc(n, sizeof *messages);
    if (messages == NULL) return bn_nomem(err);
    bn_status status = BN_OK;
    size_t i = 0;
    for (const bn_json *m = bn_json_first(list); m != NULL && status == BN_OK; m = bn_json_next(m), i++)
        if (bn_json_size(m) != 2 || !bn_json_string(bn_json_get(m, "role"), &messages[i].role) ||
            !bn_json_string(bn_json_get(m, "content"), &messages[i].content))
            status = bn_fail(err, BN_ERR_FORMAT, "message %zu is not an object of role and content", i + 1);
    if (status == BN_OK) status = take_messages(r, q, messages, n, err);
    bn_free(messages);
    return status;
}

static bn_status take_tokens(struct bn_run_request *q, const bn_json *list, bn_error *err)
{
    size_t n = bn_json_kind(list) == BN_JSON_ARRAY ? bn_json_size(list) : 0;
    if (n == 0) return bn_fail(err, BN_ERR_FORMAT, "tokens is not a list of token ids");
    q->ids = bn_alloc(n, sizeof *q->ids);
    if (q->ids == NULL) return bn_nomem(err);
    for (const bn_json *v = bn_json_first(list); v != NULL; v = bn_json_next(v)) {
        uint64_t id;
        if (!bn_json_u64(v, &id) || id > INT32_MAX)
            return bn_fail(err, BN_ERR_FORMAT, "tokens is not a list of token ids");
        q->ids[q->gen.n_prompt++] = (int32_t)id;
    }
    return BN_OK;
}

/* ---- options of a line ---- */

/* The texts of the line, or those of --stop; then those of the template. */
static bn_status take_stops(struct reading *r, struct bn_run_request *q, const bn_json *stop, bn_error *err)
{
    const struct bn_texts *given = &r->o->stops;
    bool list = bn_json_kind(stop) == BN_JSON_ARRAY;
    size_t n = stop == NULL ? given->n : list ? bn_json_size(stop) : 1, n_template = 0;
    while (bn_template_stop(r->requests->tmpl, n_template) != NULL)
        n_template++;
    q->stops = bn_alloc(n + n_template, sizeof *q->stops);
    if (q->stops == NULL) return bn_nomem(err);
    const bn_json *at = list ? bn_json_first(stop) : stop;
    for (size_t i = 0; i < n; i++, at = stop != NULL ? bn_json_next(at) : NULL) {
        if (stop == NULL)
            q->stops[i] = given->list[i];
        else if (!bn_json_string(at, &q->stops[i]) || q->stops[i][0] == '\0')
            return bn_fail(err, BN_ERR_FORMAT, "stop is not a text or a list of texts");
    }
    for (size_t i = 0; i < n_template; i++)
        q->stops[n + i] = bn_template_stop(r->requests->tmpl, i);
    q->gen.stops = q->stops;
    q->gen.n_stops = n + n_template;
    return BN_OK;
}

/* ---- lines ---- */

static bn_status take_object(struct reading *r, struct bn_run_request *q, bn_error *err)
{
    const char *prompt;
    size_t n_prompts = 0;
    const bn_json *stop = NULL;
    for (const bn_json *m = bn_json_first(q->line); m != NULL; m = bn_json_next(m)) {
        bn_status status = BN_OK;
        const char *name = bn_json_name(m);
        if (bn_request_number(&q->gen, m, &status, err) || bn_request_grammar(&q->grammar, m, &status, err)) {
            BN_TRY(status);
        } else if (strcmp(name, "stop") == 0) {
            stop = m;
        } else if (strcmp(name, "prompt") == 0) {
            if (!bn_json_string(m, &prompt)) return bn_fail(err, BN_ERR_FORMAT, "prompt is not a text");
            if (n_prompts++ == 0) BN_TRY(take_prompt(r, q, prompt, err));
        } else if (strcmp(name, "messages") == 0) {
            if (n_prompts++ == 0) BN_TRY(take_list(r, q, m, err));
        } else if (strcmp(name, "tokens") == 0) {
            if (n_prompts++ == 0) BN_TRY(take_tokens(q, m, err));
        } else if (strcmp(name, "id") != 0) {
            char shown[80];
            return bn_fail(err, BN_ERR_FORMAT, "unknown member \"%s\"",
                           bn_escape(shown, sizeof shown, name, strlen(name)));
        }
    }
    if (n_prompts != 1)
        return bn_fail(err, BN_ERR_FORMAT, "%zu of prompt, messages and tokens, where one is needed",
                       n_prompts);
    return take_stops(r, q, stop, err);
}

static bn_status take_line(struct reading *r, struct bn_run_request *q, const char *line, size_t n,
                           bn_error *err)
{
    const struct bn_run_options *o = r->o;
    const char *prompt;
    q->gen = (struct bn_generation){.n_predict = o->n_predict,
                                    .sampling = bn_run_sampling(r->args),
                                    .stop_ids = o->stop_ids.list,
                                    .n_stop_ids = o->stop_ids.n,
                                    .ignore_end = o->ignore_end,
                                    .want_chain = true,
                                    .want_logprobs = o->logprobs,
                                    .n_top = o->n_top};
    q->answer.max = BN_RUN_MAX_TEXT_BYTES;
    BN_TRY(bn_json_parse(&q->line, line, n, err));
    if (bn_json_string(q->line, &prompt)) {
        BN_TRY(take_prompt(r, q, prompt, err));
        BN_TRY(take_stops(r, q, NULL, err));
    } else if (bn_json_kind(q->line) == BN_JSON_OBJECT) {
        BN_TRY(take_object(r, q, err));
    } else {
        return bn_fail(err, BN_ERR_FORMAT, "not a JSON string or object");
    }
    q->gen.grammar = q->grammar != NULL ? q->grammar : r->requests->grammar;
    q->gen.prompt = q->ids;
    q->gen.n_predict = bn_run_at_most(q->gen.n_predict, r->engine->session);
    uint32_t n_ctx = bn_session_n_ctx(r->engine->session),
             n_vocab = bn_model_hparams(r->engine->model)->n_vocab;
    for (size_t i = 0; i < q->gen.n_prompt; i++)
        if ((uint32_t)q->ids[i] >= n_vocab)
            return bn_fail(err, BN_ERR_ARG, "token %zu is %d; the vocabulary has ids 0 to %u", i,
                           (int)q->ids[i], n_vocab - 1);
    if (q->gen.n_prompt > n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "prompt too long: %zu tokens, the context holds %u",
                       q->gen.n_prompt, n_ctx);
    return BN_OK;
}

static bn_status take_lines(struct reading *r, const struct bn_buf *input, bn_error *err)
{
    struct bn_run_requests *all = r->requests;
    size_t room = 1, number = 0;
    for (size_t i = 0; i < input->len; i++)
        room += input->data[i] == '\n';
    all->list = bn_alloc(room, sizeof *all->list);
    if (all->list == NULL) return bn_nomem(err);
    for (size_t at = 0; at < input->len;) {
        const char *line = input->data + at, *end = memchr(line, '\n', input->len - at);
        size_t n = end != NULL ? (size_t)(end - line) : input->len - at;
        at += n + 1;
        number++;
        if (strspn(line, " \t\r") >= n) continue;
        bn_status status = take_line(r, &all->list[all->n++], line, n, err);
        if (status == BN_OK) continue;
        char where[32];
        snprintf(where, sizeof where, "line %zu", number);
        bn_error_name(err, where);
        return status;
    }
    return all->n > 0 ? BN_OK : bn_fail(err, BN_ERR_ARG, "no requests: the file has no lines");
}

bn_status bn_run_requests_read(struct bn_run_requests *requests, const char *path, const struct bn_args *args,
                               const struct bn_run_engine *engine, bn_error *err)
{
    struct reading r = {.requests = requests, .args = args, .o = args->fields, .engine = engine};
    struct bn_buf input = {.max = BN_RUN_MAX_TEXT_BYTES};
    r.tok = bn_model_tokenizer(engine->model);
    *requests = (struct bn_run_requests){.tmpl = BN_TEMPLATE_RAW};
    if (r.tok != NULL) BN_TRY(bn_run_template(&requests->tmpl, args, r.tok, err));
    bn_status status = bn_run_grammar(&requests->grammar, args, err);
    if (status == BN_OK) status = bn_file_read(path, &input, err);
    if (status == BN_OK) {
        status = take_lines(&r, &input, err);
        if (status != BN_OK) bn_error_name(err, path);
    }
    bn_buf_release(&input);
    return status;
}

void bn_run_requests_release(struct bn_run_requests *requests)
{
    for (size_t i = 0; i < requests->n; i++) {
        struct bn_run_request *q = &requests->list[i];
        bn_json_free(q->line);
        bn_free(q->text);
        bn_free(q->ids);
        bn_free(q->stops);
        bn_grammar_close(q->grammar);
        bn_generation_release(&q->gen);
        bn_buf_release(&q->answer);
    }
    bn_free(requests->list);
    bn_grammar_close(requests->grammar);
}
