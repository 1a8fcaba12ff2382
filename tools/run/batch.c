/* SPDX-License-Identifier: MIT
 *
 * bn-run --batch-file: many prompts, several at a time, one line of JSON for each answer in the order of the lines.
 * Each answer is the one that its prompt gets alone.
 */
#include "tools/run/batch.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/receipt/receipt.h"
#include "tools/cli/batch/lanes.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"

#define DEFAULT_SEQUENCES 8u
#define LEAST_SHARED 4u /* tokens that are worth a pass of their own */

struct job {
    const struct bn_args *args;
    const struct bn_run_options *o;
    struct bn_run_engine engine;
    struct bn_run_requests requests;
    struct bn_receipt_facts facts;
    struct bn_lanes lanes;
    size_t n_started, n_printed, n_tokens;
};

/* ---- one answer ---- */

static bool on_token(void *user, int32_t id, const char *text, size_t n_bytes)
{
    struct bn_run_request *q = user;
    (void)id;
    bn_buf_append(&q->answer, text, n_bytes);
    return true;
}

static bn_status write_receipt(struct job *job, const struct bn_run_request *q, size_t index, bn_error *err)
{
    char path[4096];
    const struct bn_run_options *o = job->o;
    struct bn_receipt_input in = {
        .model = job->engine.model,
        .session = job->engine.session,
        .generation = &q->gen,
        .model_name = bn_cli_model_name(job->args),
        .prompt = q->text,
        .n_prompt_bytes = q->n_bytes,
        .template_name = bn_template_name(q->text != NULL ? job->requests.tmpl : BN_TEMPLATE_RAW),
        .thinking = q->text != NULL ? bn_template_thinking(job->requests.tmpl) : BN_THINKING_NONE,
        .isa = job->args->isa,
        .load_ns = job->engine.load_ns,
        .show_text = o->receipt_text,
        .n_threads = o->n_threads,
        .n_ctx = o->n_ctx,
        .n_batch = o->n_batch,
        .facts = &job->facts,
    };
    if ((size_t)snprintf(path, sizeof path, "%s/%zu.json", o->receipts, index) >= sizeof path)
        return bn_fail(err, BN_ERR_ARG, "the name of the folder for receipts is too long");
    return bn_receipt_write(path, &in, err);
}

static void put_steps(bn_json *line, const bn_generation *gen)
{
    if (gen->logprobs != NULL) bn_json_put_numbers(line, "logprobs", gen->logprobs, gen->n_ids);
    if (gen->n_top == 0) return;
    bn_json *steps = bn_json_put_array(line, "top");
    for (size_t i = 0; i < gen->n_ids; i++)
        bn_run_put_top(bn_json_add_array(steps), gen, i);
}

static bn_status print_line(const struct bn_run_request *q, size_t index, bn_error *err)
{
    const bn_generation *gen = &q->gen;
    const bn_json *id = bn_json_get(q->line, "id");
    struct bn_buf out = {.max = BN_RUN_MAX_TEXT_BYTES};
    BN_TRY(bn_buf_check(&q->answer, err));
    bn_json *line = bn_json_new_object();
    bn_json_put_u64(line, "index", index);
    if (id != NULL) bn_json_put_copy(line, "id", id);
    bn_json_put_string(line, "text", bn_buf_text(&q->answer));
    bn_json_put_u64(line, "prompt_tokens", gen->n_prompt);
    bn_json_put_u64(line, "cached_tokens", gen->n_cached);
    bn_json_put_ids(line, "ids", gen->ids, gen->n_ids);
    bn_json_put_string(line, "stop", bn_stop_reason_name(gen->reason));
    bn_json_put_string(line, "chain", gen->chain);
    put_steps(line, gen);
    bn_status status = bn_json_write_line(line, true, &out, err);
    if (status == BN_OK) fwrite(out.data, 1, out.len, stdout);
    bn_buf_release(&out);
    bn_json_free(line);
    return status;
}

/* Prints what is next in order and has ended, and gives its memory back. */
static bn_status print_ended(struct job *job, bn_error *err)
{
    for (; job->n_printed < job->n_started; job->n_printed++) {
        struct bn_run_request *q = &job->requests.list[job->n_printed];
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
static size_t reusable(const struct bn_run_request *q)
{
    return q->gen.n_prompt > 0 ? q->gen.n_prompt - 1 : 0;
}

/* What all prompts begin with is evaluated once, before the first of them, or read from the prompt cache. */
static bn_status share_beginning(struct job *job, bn_error *err)
{
    const struct bn_run_request *first = &job->requests.list[0];
    bn_session *s = job->engine.session;
    size_t n = job->requests.n > 1 ? reusable(first) : 0, n_cached = 0;
    for (size_t i = 1; i < job->requests.n; i++) {
        const struct bn_run_request *q = &job->requests.list[i];
        size_t most = bn_min_size(n, reusable(q));
        for (n = 0; n < most && q->ids[n] == first->ids[n];)
            n++;
    }
    if (n < LEAST_SHARED) return BN_OK;
    BN_TRY(bn_run_cache_load(job->args, s, first->ids, n + 1, &n_cached, err));
    bn_sequence_mark(bn_session_sequence(s), (uint32_t)n);
    if (n > n_cached)
        BN_TRY(bn_session_eval(s, first->ids + n_cached, n - n_cached, BN_LOGITS_NONE, NULL, err));
    bn_report_note(1, "all prompts begin with the same %zu token%s", n, bn_cli_s(n));
    return bn_run_cache_save(job->args, s, n, n_cached, err);
}

static bn_status start(struct job *job, bn_error *err)
{
    for (; job->n_started < job->requests.n && job->lanes.n_busy < job->lanes.n; job->n_started++) {
        struct bn_run_request *q = &job->requests.list[job->n_started];
        q->gen.on_token = on_token;
        q->gen.user = q;
        BN_TRY(bn_lanes_start(&job->lanes, &q->gen, 0, err));
    }
    return BN_OK;
}

static void publish_load(const struct job *job)
{
    const struct bn_lanes *lanes = &job->lanes;
    struct bn_live_load load = {lanes->n, lanes->n_busy, job->requests.n - job->n_started,
                                job->n_started - lanes->n_busy};
    bn_live_set_load(job->engine.live, &load);
}

static bn_status finish(struct job *job, const bn_generation *gen, bn_error *err)
{
    const struct bn_run_request *q = gen->user;
    if (gen->stuck == BN_ERR_NOMEM) return bn_nomem(err);
    job->n_tokens += gen->n_ids;
    if (job->o->receipts == NULL) return BN_OK;
    return write_receipt(job, q, (size_t)(q - job->requests.list), err);
}

static bn_status run(struct job *job, bn_error *err)
{
    uint64_t begin = bn_clock_ns();
    const bn_generation *ended;
    while (job->n_printed < job->requests.n) {
        BN_TRY(start(job, err));
        publish_load(job);
        BN_TRY(bn_lanes_step(&job->lanes, err));
        bn_model_repack(job->engine.model);
        while ((ended = bn_lanes_take(&job->lanes)) != NULL)
            BN_TRY(finish(job, ended, err));
        BN_TRY(print_ended(job, err));
    }
    uint64_t ns = bn_clock_ns() - begin;
    bn_report_note(0, "%zu prompt%s, %zu token%s generated at %.1f tok/s, up to %zu at a time",
                   job->requests.n, bn_cli_s(job->requests.n), job->n_tokens, bn_cli_s(job->n_tokens),
                   bn_run_rate(job->n_tokens, ns), job->lanes.n);
    bn_run_note_kernels(job->engine.session);
    return BN_OK;
}

static bn_status open_lanes(struct job *job, bn_error *err)
{
    uint32_t wanted = job->o->n_sequences != 0 ? job->o->n_sequences : DEFAULT_SEQUENCES;
    return bn_lanes_open(&job->lanes, job->engine.session, bn_model_tokenizer(job->engine.model),
                         bn_min_size(wanted, job->requests.n), err);
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
    bn_status status = bn_run_requests_read(&job.requests, job.o->batch_file, args, &job.engine, err);
    if (status == BN_OK) status = open_lanes(&job, err);
    if (status == BN_OK) status = share_beginning(&job, err);
    if (status == BN_OK) status = run(&job, err);
    bn_lanes_close(&job.lanes);
    bn_run_requests_release(&job.requests);
    bn_run_close(&job.engine);
    return status;
}
