/* SPDX-License-Identifier: MIT
 *
 * bn-run --batch-file: many prompts, several at a time, one line of JSON for each answer in the order of the lines.
 * Each answer is the one that its prompt gets alone. All lines are checked before anything runs: a line is a JSON string,
 * the prompt, or an object with a prompt, messages or tokens, and options of its own (docs/howto/generate-faster.md).
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/receipt/receipt.h"
#include "tools/cli/batch/talk.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

#define DEFAULT_SEQUENCES 8u
#define LEAST_SHARED 4u /* tokens that are worth a pass of their own */

/* One line of the file, and later its result. */
struct request {
    bn_json *line;
    struct bn_prompt prompt;
    const char **stops;
    bn_grammar *grammar; /* of the line; NULL: that of all, or none */
    bn_candidate *bias;  /* likewise */
    struct bn_generation gen;
    struct bn_buf answer;
};

struct job {
    const struct bn_args *args;
    const struct bn_run_options *o;
    struct bn_run_engine engine;
    const bn_tokenizer *tok; /* NULL when the model has no vocabulary */
    bn_template tmpl;
    bn_grammar *grammar; /* of lines without one; NULL: none */
    struct request *list;
    size_t n, n_started, n_printed, n_tokens;
    struct bn_receipt_facts facts;
    struct bn_lanes lanes;
};

/* ---- the prompt ---- */

static bn_status need_text(struct job *job, bn_error *err)
{
    return job->tok != NULL ? BN_OK : bn_cli_tokenizer(job->engine.model, &job->tok, err);
}

static bn_status take_prompt(struct job *job, struct request *q, const char *prompt, bn_error *err)
{
    BN_TRY(need_text(job, err));
    q->prompt.n_bytes = strlen(prompt);
    q->prompt.text = bn_strndup(prompt, q->prompt.n_bytes);
    if (q->prompt.text == NULL) return bn_nomem(err);
    return bn_run_render(&q->prompt, job->args, job->tmpl, job->tok, err);
}

static bn_status take_list(struct job *job, struct request *q, const bn_json *list, bn_error *err)
{
    BN_TRY(need_text(job, err));
    if (job->tmpl == BN_TEMPLATE_RAW)
        return bn_fail(err, BN_ERR_ARG, "messages need a chat template, and the model has none (--template)");
    struct bn_talk talk = {0};
    bn_status status = bn_talk_messages(&talk, list, err);
    if (status == BN_OK) status = bn_talk_render(&q->prompt, &talk, 0, job->tmpl, job->tok, err);
    bn_talk_release(&talk);
    return status;
}

static bn_status take_tokens(struct request *q, const bn_json *list, bn_error *err)
{
    bn_status status = bn_json_ids(list, &q->prompt.ids, &q->prompt.n_ids, NULL);
    if (status == BN_ERR_NOMEM) return bn_nomem(err);
    if (q->prompt.n_ids == 0) return bn_fail(err, BN_ERR_FORMAT, "tokens is not a list of token ids");
    return BN_OK;
}

/* ---- lines ---- */

static bn_status take_object(struct job *job, struct request *q, bn_error *err)
{
    const char *prompt;
    size_t n_prompts = 0;
    const bn_json *stop = NULL;
    const uint32_t n_vocab = bn_model_hparams(job->engine.model)->n_vocab;
    for (const bn_json *m = bn_json_first(q->line); m != NULL; m = bn_json_next(m)) {
        bn_status status = BN_OK;
        const char *name = bn_json_name(m);
        if (bn_request_number(&q->gen, m, &status, err) || bn_request_grammar(&q->grammar, m, &status, err)) {
            BN_TRY(status);
        } else if (strcmp(name, "logit_bias") == 0) {
            BN_TRY(bn_receipt_bias(&q->bias, &q->gen.sampling, m, n_vocab, err));
        } else if (strcmp(name, "stop") == 0) {
            stop = m;
        } else if (strcmp(name, "prompt") == 0) {
            if (!bn_json_string(m, &prompt)) return bn_fail(err, BN_ERR_FORMAT, "prompt is not a text");
            if (n_prompts++ == 0) BN_TRY(take_prompt(job, q, prompt, err));
        } else if (strcmp(name, "messages") == 0) {
            if (n_prompts++ == 0) BN_TRY(take_list(job, q, m, err));
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
    return bn_run_stops(&q->stops, &q->gen, &job->o->stops, stop, job->tmpl, err);
}

static bn_status take_line(struct job *job, struct request *q, const char *line, size_t n, bn_error *err)
{
    const struct bn_run_options *o = job->o;
    const char *prompt;
    q->gen = (struct bn_generation){.n_predict = o->n_predict,
                                    .sampling = bn_run_sampling(job->args),
                                    .stop_ids = o->stop_ids.list,
                                    .n_stop_ids = o->stop_ids.n,
                                    .ignore_end = o->ignore_end,
                                    .want_chain = true,
                                    .want_logprobs = o->logprobs,
                                    .n_top = o->n_top};
    q->answer.max = BN_RUN_MAX_TEXT_BYTES;
    BN_TRY(bn_json_parse(&q->line, line, n, err));
    if (bn_json_string(q->line, &prompt)) {
        BN_TRY(take_prompt(job, q, prompt, err));
        BN_TRY(bn_run_stops(&q->stops, &q->gen, &job->o->stops, NULL, job->tmpl, err));
    } else if (bn_json_kind(q->line) == BN_JSON_OBJECT) {
        BN_TRY(take_object(job, q, err));
    } else {
        return bn_fail(err, BN_ERR_FORMAT, "not a JSON string or object");
    }
    q->gen.grammar = q->grammar != NULL ? q->grammar : job->grammar;
    q->gen.prompt = q->prompt.ids;
    q->gen.n_prompt = q->prompt.n_ids;
    q->gen.n_predict = bn_run_at_most(q->gen.n_predict, job->engine.session);
    if (q->gen.n_prompt == 0) return bn_fail(err, BN_ERR_ARG, "the prompt has no tokens");
    uint32_t n_ctx = bn_session_n_ctx(job->engine.session),
             n_vocab = bn_model_hparams(job->engine.model)->n_vocab;
    for (size_t i = 0; i < q->gen.n_prompt; i++)
        if ((uint32_t)q->prompt.ids[i] >= n_vocab)
            return bn_fail(err, BN_ERR_ARG, "token %zu is %d; the vocabulary has ids 0 to %u", i,
                           (int)q->prompt.ids[i], n_vocab - 1);
    if (q->gen.n_prompt > n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "prompt too long: %zu tokens, the context holds %u",
                       q->gen.n_prompt, n_ctx);
    return BN_OK;
}

static bn_status take_lines(struct job *job, struct bn_buf *input, bn_error *err)
{
    size_t room = 1, n;
    char *line;
    for (size_t i = 0; i < input->len; i++)
        room += input->data[i] == '\n';
    BN_TRY(BN_NEW(job->list, room, err));
    for (size_t at = 0, number = 1; bn_run_next_line(input, &at, &line, &n); number++) {
        if (strspn(line, " \t\r") >= n) continue;
        bn_status status = take_line(job, &job->list[job->n++], line, n, err);
        if (status != BN_OK) return bn_run_at_line(number, status, err);
    }
    return job->n > 0 ? BN_OK : bn_fail(err, BN_ERR_ARG, "no requests: the file has no lines");
}

/* What a line leaves out is as the command line says. An error names the line. */
static bn_status read_requests(struct job *job, bn_error *err)
{
    struct bn_buf input = {.max = BN_RUN_MAX_TEXT_BYTES};
    job->tok = bn_model_tokenizer(job->engine.model);
    job->tmpl = BN_TEMPLATE_RAW;
    if (job->tok != NULL) BN_TRY(bn_run_template(&job->tmpl, job->args, job->tok, err));
    BN_TRY(bn_run_grammar(&job->grammar, job->args, err));
    bn_status status = bn_file_read(job->o->batch_file, &input, err);
    if (status == BN_OK) {
        status = take_lines(job, &input, err);
        if (status != BN_OK) bn_error_name(err, job->o->batch_file);
    }
    bn_buf_release(&input);
    return status;
}

/* ---- one answer ---- */

static bool on_token(void *user, int32_t id, const char *text, size_t n_bytes)
{
    struct request *q = user;
    (void)id;
    bn_buf_append(&q->answer, text, n_bytes);
    return true;
}

static bn_status write_receipt(struct job *job, const struct request *q, size_t index, bn_error *err)
{
    char path[4096];
    struct bn_receipt_input in =
        bn_run_receipt(job->args, &job->engine, &q->gen, &q->prompt, job->tmpl, &job->facts);
    if ((size_t)snprintf(path, sizeof path, "%s/%zu.json", job->o->receipts, index) >= sizeof path)
        return bn_fail(err, BN_ERR_ARG, "the name of the folder for receipts is too long");
    return bn_receipt_write(path, &in, err);
}

static bn_status print_line(const struct request *q, size_t index, bn_error *err)
{
    const bn_json *id = bn_json_get(q->line, "id");
    BN_TRY(bn_buf_check(&q->answer, err));
    bn_json *line = bn_json_new_object();
    bn_json_put_u64(line, "index", index);
    if (id != NULL) bn_json_put_copy(line, "id", id);
    bn_json_put_string(line, "text", bn_buf_text(&q->answer));
    bn_run_put_answer(line, &q->gen);
    return bn_cli_flush_json(line, true, err);
}

/* Prints what is next in order and has ended, and gives its memory back. */
static bn_status print_ended(struct job *job, bn_error *err)
{
    for (; job->n_printed < job->n_started; job->n_printed++) {
        struct request *q = &job->list[job->n_printed];
        for (size_t i = 0; i < job->lanes.n; i++)
            if (job->lanes.list[i].gen == &q->gen) return BN_OK;
        BN_TRY(print_line(q, job->n_printed, err));
        bn_generation_release(&q->gen);
        bn_buf_release(&q->answer);
    }
    return BN_OK;
}

/* ---- all of them ---- */

/* Tokens of a prompt that may come from a timeline: all but the last, whose logits are needed. */
static size_t reusable(const struct request *q)
{
    return q->gen.n_prompt > 0 ? q->gen.n_prompt - 1 : 0;
}

/* What all prompts begin with is evaluated once, before the first of them, or read from the prompt cache. */
static bn_status share_beginning(struct job *job, bn_error *err)
{
    const struct request *first = &job->list[0];
    bn_session *s = job->engine.session;
    size_t n = job->n > 1 ? reusable(first) : 0, n_cached = 0;
    for (size_t i = 1; i < job->n; i++) {
        const struct request *q = &job->list[i];
        size_t most = bn_min_size(n, reusable(q));
        for (n = 0; n < most && q->prompt.ids[n] == first->prompt.ids[n];)
            n++;
    }
    if (n < LEAST_SHARED) return BN_OK;
    BN_TRY(bn_run_cache_load(job->args, s, first->prompt.ids, n + 1, &n_cached, err));
    bn_sequence_mark(bn_session_sequence(s), (uint32_t)n);
    if (n > n_cached)
        BN_TRY(bn_session_eval(s, first->prompt.ids + n_cached, n - n_cached, BN_LOGITS_NONE, NULL, err));
    bn_report_note(1, "all prompts begin with the same %zu token%s", n, bn_cli_s(n));
    return bn_run_cache_save(job->args, s, n, n_cached, err);
}

static bn_status start(struct job *job, bn_error *err)
{
    for (; job->n_started < job->n && job->lanes.n_busy < job->lanes.n; job->n_started++) {
        struct request *q = &job->list[job->n_started];
        q->gen.on_token = on_token;
        q->gen.user = q;
        BN_TRY(bn_lanes_start(&job->lanes, &q->gen, 0, err));
    }
    return BN_OK;
}

static bn_status finish(struct job *job, const bn_generation *gen, bn_error *err)
{
    const struct request *q = gen->user;
    if (gen->stuck == BN_ERR_NOMEM) return bn_nomem(err);
    job->n_tokens += gen->n_ids;
    if (job->o->receipts == NULL) return BN_OK;
    return write_receipt(job, q, (size_t)(q - job->list), err);
}

static bn_status run(struct job *job, bn_error *err)
{
    uint64_t begin = bn_clock_ns();
    const bn_generation *ended;
    const struct bn_lanes *lanes = &job->lanes;
    while (job->n_printed < job->n) {
        BN_TRY(start(job, err));
        struct bn_live_load load = {lanes->n, lanes->n_busy, job->n - job->n_started,
                                    job->n_started - lanes->n_busy};
        bn_live_set_load(job->engine.live, &load);
        BN_TRY(bn_lanes_step(&job->lanes, err));
        bn_model_repack(job->engine.model);
        while ((ended = bn_lanes_take(&job->lanes)) != NULL)
            BN_TRY(finish(job, ended, err));
        BN_TRY(print_ended(job, err));
    }
    uint64_t ns = bn_clock_ns() - begin;
    bn_report_note(0, "%zu prompt%s, %zu token%s generated at %.1f tok/s, up to %zu at a time", job->n,
                   bn_cli_s(job->n), job->n_tokens, bn_cli_s(job->n_tokens), bn_run_rate(job->n_tokens, ns),
                   job->lanes.n);
    bn_run_note_kernels(job->engine.session);
    return BN_OK;
}

static bn_status check(struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    const struct {
        const char *name;
        bool given;
    } SINGLE[] = {{"a prompt", args->prompt != NULL || args->file != NULL || args->n_operands > 0},
                  {"--tokens", o->tokens.n > 0},
                  {"--receipt", o->receipt != NULL},
                  {"--trace", o->trace != NULL},
                  {"--profile", o->profile != NULL},
                  {"--assert-greedy", o->assert_greedy},
                  {"--timing", o->timing}};
    for (size_t i = 0; i < BN_ARRAY_LEN(SINGLE); i++)
        if (SINGLE[i].given) {
            bn_fail(err, BN_ERR_ARG, "--batch-file cannot be combined with %s", SINGLE[i].name);
            if (i == 2) bn_error_hint(err, "--receipts DIR writes a receipt for each line");
            return BN_ERR_ARG;
        }
    return BN_OK;
}

bn_status bn_run_batch(struct bn_args *args, bn_error *err)
{
    struct job job = {.args = args, .o = args->fields};
    BN_TRY(check(args, err));
    BN_TRY(bn_run_cache_check(args, err));
    if (job.o->receipts != NULL) BN_TRY(bn_run_make_folder(job.o->receipts, err));
    BN_TRY(bn_run_open(&job.engine, args, err));
    bn_cli_catch_interrupt();
    bn_status status = read_requests(&job, err);
    uint32_t wanted = job.o->n_sequences != 0 ? job.o->n_sequences : DEFAULT_SEQUENCES;
    if (status == BN_OK)
        status = bn_lanes_open(&job.lanes, job.engine.session, bn_model_tokenizer(job.engine.model),
                               bn_min_size(wanted, job.n), err);
    if (status == BN_OK) status = share_beginning(&job, err);
    if (status == BN_OK) status = run(&job, err);
    bn_lanes_close(&job.lanes);
    for (size_t i = 0; i < job.n; i++) {
        struct request *q = &job.list[i];
        bn_json_free(q->line);
        bn_prompt_release(&q->prompt);
        bn_free(q->stops);
        bn_free(q->bias);
        bn_grammar_close(q->grammar);
        bn_generation_release(&q->gen);
        bn_buf_release(&q->answer);
    }
    bn_free(job.list);
    bn_grammar_close(job.grammar);
    bn_run_close(&job.engine);
    return status;
}
