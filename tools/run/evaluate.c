/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-run that evaluate a text without continuing it. score: how well the model predicts it
 * (lab/compare/metrics.h). logits: the network's raw output, as a file, as a digest, as a trace of everything between.
 */
#include <stdio.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/compare/metrics.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

/* Opens the model and the text of the command line for a function. */
static bn_status with_text(struct bn_args *args,
                           bn_status (*use)(struct bn_args *args, struct bn_run_engine *engine,
                                            const struct bn_run_prompt *prompt, bn_error *err),
                           bn_error *err)
{
    struct bn_run_engine engine;
    struct bn_run_prompt prompt;
    BN_TRY(bn_cli_text_check(args, &((const struct bn_run_options *)args->fields)->tokens, err));
    BN_TRY(bn_run_open(&engine, args, err));
    bn_cli_catch_interrupt();
    bn_status status = bn_run_prompt(&prompt, args, engine.model, false, err);
    if (status == BN_OK) {
        status = use(args, &engine, &prompt, err);
        bn_prompt_release(&prompt.own);
    }
    bn_run_close(&engine);
    return status;
}

/* ---- score ---- */

/* --per-token. */
struct listing {
    bool print;      /* lines */
    bn_json *tokens; /* array for --json, or NULL */
};

static bool list_token(void *user, int32_t id, double logp)
{
    const struct listing *listing = user;
    if (listing->print) printf("%d\t%.6f\n", (int)id, logp);
    if (listing->tokens != NULL) {
        bn_json *token = bn_json_add_object(listing->tokens);
        BN_PUT(token, BN_U64("id", (uint64_t)id), BN_NUMBER("logprob", logp));
    }
    return bn_cli_interrupted() == 0;
}

static bn_status print_score(const struct bn_args *args, const struct bn_score *score, bn_json *doc,
                             size_t n_tokens, bn_error *err)
{
    double mean = bn_score_nll(score), error = bn_score_nll_error(score);
    double perplexity = bn_score_perplexity(score), accuracy = bn_score_accuracy(score);
    if (!args->json) {
        printf("tokens %zu, scored %zu\nmean negative log likelihood %.5f +- %.5f\nperplexity %.3f\n"
               "most likely token right %.2f %%\n",
               n_tokens, score->n, mean, error, perplexity, 100.0 * accuracy);
        return BN_OK;
    }
    BN_PUT(doc, BN_U64("tokens", n_tokens), BN_U64("scored", score->n), BN_NUMBER("nll_mean", mean),
           BN_NUMBER("nll_standard_error", error), BN_NUMBER("perplexity", perplexity),
           BN_NUMBER("accuracy", accuracy));
    return bn_cli_print_json(doc, err);
}

static bn_status score_all(struct bn_args *args, struct bn_run_engine *engine,
                           const struct bn_run_prompt *prompt, bn_error *err)
{
    bool per_token = ((const struct bn_run_options *)args->fields)->per_token;
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", BN_RUN_SCHEMA), BN_STRING("model", bn_cli_model_name(args)));
    struct listing listing = {.print = per_token && !args->json};
    if (per_token && args->json) listing.tokens = bn_json_put_array(doc, "per_token");
    struct bn_score score;
    bn_status status = bn_score_text(&score, engine->session, engine->model, prompt->own.ids,
                                     prompt->own.n_ids, list_token, &listing, err);
    if (status == BN_OK && bn_cli_interrupted() != 0)
        args->exit_code = 128 + bn_cli_interrupted();
    else if (status == BN_OK && score.n == 0)
        status = bn_fail(err, BN_ERR_MISMATCH, "nothing to score: %zu token%s, at least 2 are needed",
                         prompt->own.n_ids, bn_cli_s(prompt->own.n_ids));
    else if (status == BN_OK)
        status = print_score(args, &score, doc, prompt->own.n_ids, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_run_score(struct bn_args *args, bn_error *err)
{
    return with_text(args, score_all, err);
}

/* ---- logits ---- */

static bn_status write_out(const struct bn_args *args, const float *logits, size_t n, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    if (o->output != NULL) BN_TRY(bn_file_write_atomic(o->output, logits, n * sizeof *logits, err));
    if (!o->digest) return BN_OK;
    char hex[BN_SHA256_HEX];
    bn_sha256_hex(logits, n * sizeof *logits, hex);
    puts(hex);
    return BN_OK;
}

static bn_status evaluate(struct bn_args *args, struct bn_run_engine *engine,
                          const struct bn_run_prompt *prompt, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    bool all = o->all;
    size_t n_vocab = bn_model_hparams(engine->model)->n_vocab, n_rows = all ? prompt->own.n_ids : 1;
    const char *folder = o->trace;
    struct bn_run_trace trace;
    float *logits = bn_alloc_aligned(n_rows, n_vocab * sizeof *logits);
    if (logits == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for %zu rows of logits", n_rows);
    bn_status status = BN_OK;
    if (folder != NULL) status = bn_run_trace_start(&trace, engine->session, folder, err);
    if (status == BN_OK)
        status = bn_session_eval(engine->session, prompt->own.ids, prompt->own.n_ids,
                                 all ? BN_LOGITS_ALL : BN_LOGITS_LAST, logits, err);
    if (status == BN_OK && folder != NULL) status = bn_run_trace_finish(&trace, engine->session, err);
    if (status == BN_OK) status = write_out(args, logits, n_rows * n_vocab, err);
    bn_free(logits);
    return status;
}

bn_status bn_run_logits(struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    if (o->output == NULL && !o->digest && o->trace == NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "no output is named"), err,
                       "add -o FILE, --digest or --trace DIR");
    return with_text(args, evaluate, err);
}
