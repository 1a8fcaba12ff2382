/* SPDX-License-Identifier: MIT
 *
 * bn-run generate: a prompt in, its continuation out, and on request a receipt of what ran.
 */

#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "infer/session.h"
#include "lab/host/machine.h"
#include "lab/receipt/receipt.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

struct job {
    struct bn_run_engine engine;
    struct bn_run_prompt prompt;
    struct bn_generation gen;
    bn_prof *prof; /* of --profile */
    struct bn_run_dispatch dispatch;
    const char **stops;
    bn_grammar *grammar; /* NULL: none */
    struct bn_buf text;  /* what was generated */
    bool stream;         /* show it as it comes */
    struct bn_run_answer answer;
};

static bool on_token(void *user, int32_t id, const char *text, size_t n_bytes)
{
    struct job *job = user;
    (void)id;
    job->engine.answering = true;
    bn_buf_append(&job->text, text, n_bytes);
    if (job->stream) bn_run_answer_print(&job->answer, text, n_bytes);
    bn_model_repack(job->engine.model);
    return bn_cli_interrupted() == 0;
}

static bn_status prepare(struct job *job, const struct bn_args *args, bn_error *err)
{
    struct bn_generation *gen = &job->gen;
    const struct bn_run_options *o = args->fields;
    if (o->receipt != NULL) BN_TRY(bn_file_check_output(o->receipt, err));
    if (o->profile != NULL) BN_TRY(bn_file_check_output(o->profile, err));
    BN_TRY(bn_run_cache_check(args, err));
    BN_TRY(bn_run_prompt(&job->prompt, args, job->engine.model, true, err));
    BN_TRY(bn_run_stops(&job->stops, gen, &o->stops, NULL, job->prompt.tmpl, err));
    gen->stop_ids = o->stop_ids.list;
    gen->n_stop_ids = o->stop_ids.n;
    BN_TRY(bn_run_grammar(&job->grammar, args, err));
    gen->grammar = job->grammar;
    gen->sampling = bn_run_sampling(args);
    bn_run_note_sampling(job->prompt.tmpl, &gen->sampling);
    gen->n_predict = bn_run_at_most(gen->n_predict, job->engine.session);
    gen->prompt = job->prompt.own.ids;
    gen->n_prompt = job->prompt.own.n_ids;
    BN_TRY(bn_run_cache_load(args, job->engine.session, gen->prompt, gen->n_prompt, &gen->n_cached, err));
    gen->ignore_end = o->ignore_end;
    gen->want_chain = o->receipt != NULL || args->json;
    gen->want_logprobs = o->logprobs;
    gen->n_top = o->assert_greedy && o->n_top == 0 ? 1 : o->n_top;
    gen->on_token = on_token;
    gen->user = job;
    gen->draft = bn_run_draft(args, &job->engine);
    if (gen->draft.kind != BN_DRAFT_NONE && o->trace != NULL)
        return bn_fail(err, BN_ERR_ARG, "--trace cannot be combined with --speculate or --draft");
    job->stream = !args->json;
    return BN_OK;
}

static void print_summary(const struct job *job)
{
    const struct bn_generation *gen = &job->gen;
    uint32_t n_threads = bn_session_n_threads(job->engine.session);
    const bn_device_info *device = bn_model_device(job->engine.model);
    char rates[BN_RUN_RATES];
    if (device != NULL)
        bn_report_note(0, "%s, %s %s; stopped: %s", bn_run_rates(rates, gen), device->id, device->type,
                       bn_stop_reason_name(gen->reason));
    else
        bn_report_note(0, "%s, %s, %u thread%s; stopped: %s", bn_run_rates(rates, gen), bn_isa_name(),
                       n_threads, bn_cli_s(n_threads), bn_stop_reason_name(gen->reason));
    bn_run_note_drafts(gen, 0);
    bn_run_note_ranks(gen);
    bn_run_note_kernels(job->engine.session);
}

/* --timing and --kernels: a line for each token, for each kernel, and for each tensor and kernel, for scripts.
 * Microseconds. */
static void print_traces(const struct bn_run_options *o, const struct job *job)
{
    const struct bn_generation *gen = &job->gen;
    if (o->timing && job->prompt.tokenize_ns != 0)
        fprintf(stderr, "timing: tokenize_us=%.2f tokens=%zu\n", (double)job->prompt.tokenize_ns / 1e3,
                job->prompt.own.n_ids);
    for (size_t i = 0; o->timing && i < gen->n_ids; i++) {
        const bn_step_timing *s = &gen->steps[i];
        fprintf(stderr, "timing: embed_us=%.2f forward_us=%.2f logits_us=%.2f sample_us=%.2f total_us=%.2f\n",
                (double)s->embed_ns / 1e3, (double)s->forward_ns / 1e3, (double)s->head_ns / 1e3,
                (double)s->sample_ns / 1e3, (double)gen->token_ns[i] / 1e3);
    }
    bn_kernel_stat k;
    for (size_t i = 0; o->kernels && bn_session_kernel_stat(job->engine.session, i, &k); i++)
        fprintf(stderr, "quant_dispatch: kernel=%s calls=%llu total_us=%.2f\n", k.name,
                (unsigned long long)k.calls, (double)k.ns / 1e3);
    bn_run_print_dispatch(&job->dispatch, job->engine.session);
}

/* --assert-greedy: every token is the one with the greatest logit of its step. */
static void check_greedy(const struct bn_generation *gen, struct bn_args *args)
{
    size_t n_good = 0;
    bn_error no = {0};
    while (n_good < gen->n_ids && gen->ids[n_good] == gen->top[n_good * gen->n_top].id)
        n_good++;
    if (n_good == gen->n_ids) {
        bn_report_note(0, "each of %zu tokens had the greatest logit of its step", gen->n_ids);
        return;
    }
    bn_fail(&no, BN_ERR_ARG, "not greedy: token %zu of %zu is %d, that with the greatest logit was %d",
            n_good + 1, gen->n_ids, (int)gen->ids[n_good], (int)gen->top[n_good * gen->n_top].id);
    (void)bn_report_error(&no);
    args->exit_code = BN_EXIT_NEGATIVE;
}

static bn_status print_document(const struct bn_args *args, const struct job *job, bn_error *err)
{
    const struct bn_generation *gen = &job->gen;
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_RUN_SCHEMA);
    bn_json_put_string(doc, "model", bn_cli_model_name(args));
    bn_json_put_string(doc, "template", bn_template_name(job->prompt.tmpl));
    bn_thinking thinking = bn_template_thinking(job->prompt.tmpl);
    if (thinking != BN_THINKING_NONE) bn_json_put_bool(doc, "think", thinking == BN_THINKING_ON);
    bn_json_put_string(doc, "text", bn_buf_text(&job->text));
    bn_json_put_ids(doc, "prompt_ids", gen->prompt, gen->n_prompt);
    bn_run_put_answer(doc, gen);
    bn_json_put_string(doc, "isa", bn_isa_name());
    const bn_device_info *device = bn_model_device(job->engine.model);
    if (device != NULL) bn_machine_put_device(bn_json_put_object(doc, "device"), device);
    bn_json_put_u64(doc, "threads", bn_session_n_threads(job->engine.session));
    bn_json_put_u64(doc, "load_ns", job->engine.load_ns);
    if (job->prompt.tokenize_ns != 0)
        bn_json_put_u64(doc, "tokenize_ns", job->prompt.tokenize_ns);
    else
        bn_json_put_unavailable(doc, "tokenize_ns", "the prompt was given as tokens");
    if (gen->draft.kind != BN_DRAFT_NONE) {
        bn_json_put_u64(doc, "drafted_tokens", gen->drafts.drafted);
        bn_json_put_u64(doc, "accepted_tokens", gen->drafts.accepted);
    }
    bn_run_put_times(doc, gen);
    return bn_cli_flush_json(doc, false, err);
}

static bn_status run(struct job *job, struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    const char *folder = o->trace, *profile = o->profile;
    const struct bn_generation *gen = &job->gen;
    struct bn_run_trace trace;
    if (folder != NULL) BN_TRY(bn_run_trace_start(&trace, job->engine.session, folder, err));
    if (profile != NULL) BN_TRY(bn_run_profile_start(&job->prof, args, &job->engine, &job->gen, err));
    if (o->kernels) {
        job->engine.session->dispatch = bn_run_count_dispatch;
        job->engine.session->dispatch_user = &job->dispatch;
    }
    if (job->stream) bn_run_answer_start(&job->answer, job->prompt.tmpl, false);
    bn_status status =
        bn_generate(job->engine.session, bn_model_tokenizer(job->engine.model), &job->gen, err);
    if (job->stream) bn_run_answer_end(&job->answer);
    BN_TRY(status);
    BN_TRY(bn_model_check_file(job->engine.model, err));
    if (profile != NULL) bn_prof_finalize(job->prof, bn_prof_elapsed_ns(job->prof));
    if (job->stream) bn_run_print("\n", 1);
    if (folder != NULL) BN_TRY(bn_run_trace_finish(&trace, job->engine.session, err));
    if (profile != NULL) BN_TRY(bn_run_profile_write(job->prof, profile, args, &job->engine, &job->gen, err));
    if (args->json) BN_TRY(print_document(args, job, err));
    print_summary(job);
    print_traces(o, job);
    if (o->assert_greedy) check_greedy(gen, args);
    struct bn_receipt_input in =
        bn_run_receipt(args, &job->engine, gen, &job->prompt.own, job->prompt.tmpl, NULL);
    if (o->receipt != NULL) BN_TRY(bn_receipt_write(o->receipt, &in, err));
    BN_TRY(bn_run_cache_save(args, job->engine.session, gen->n_prompt, gen->n_cached, err));
    if (o->strict && bn_report_n_warnings() > 0) args->exit_code = BN_EXIT_NEGATIVE;
    if (bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    if (gen->reason == BN_STOP_STUCK)
        return bn_fail(err, BN_ERR_LIMIT, "%s, after %zu tokens", bn_request_stuck(gen), gen->n_ids);
    return BN_OK;
}

bn_status bn_run_generate(struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    struct job job = {.text = {.max = BN_RUN_MAX_TEXT_BYTES}};
    if (o->batch_file != NULL) return bn_run_batch(args, err);
    BN_TRY(bn_run_check_text(args, &o->tokens, err));
    if (o->receipts != NULL || o->n_sequences != 0)
        return bn_fail(err, BN_ERR_ARG, "%s needs --batch-file FILE",
                       o->receipts != NULL ? "--receipts" : "--sequences");
    if (o->profile != NULL && (o->live.on || o->live.file != NULL))
        return bn_fail(err, BN_ERR_ARG, "--profile cannot be combined with --live");
    if (o->logprobs && !args->json) return bn_fail(err, BN_ERR_ARG, "--logprobs needs --json");
    if (o->n_top > 0 && !args->json) return bn_fail(err, BN_ERR_ARG, "--show-top needs --json");
    if (o->strict && args->model == NULL) return bn_fail(err, BN_ERR_ARG, "--strict: no model is named");
    job.gen.n_predict = o->n_predict;
    if (o->profile != NULL) BN_TRY(bn_run_need_all("--profile", err));
    BN_TRY(bn_run_open(&job.engine, args, err));
    bn_cli_catch_interrupt();
    bn_status status = prepare(&job, args, err);
    if (status == BN_OK && o->strict && bn_report_n_warnings() > 0)
        status = bn_fail(err, BN_ERR_ARG, "--strict: a warning is an error");
    if (status == BN_OK) status = run(&job, args, err);
    bn_generation_release(&job.gen);
    bn_prompt_release(&job.prompt.own);
    bn_buf_release(&job.text);
    bn_free(job.stops);
    bn_grammar_close(job.grammar);
    bn_run_close(&job.engine);
    bn_free(job.dispatch.list);
    bn_prof_close(job.prof);
    return status;
}
