/* SPDX-License-Identifier: MIT
 *
 * bn-run score: how well the model predicts a text. The tokens are cut into windows of the context's length;
 * in each window every token but the first is scored. Negative log likelihoods are natural logarithms, in
 * binary64 from the exact logits; perplexity = exp(mean).
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "tools/cli/default_model.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

struct score {
    size_t n;         /* tokens scored */
    double nll, nll2; /* sums of negative log likelihoods and of their squares */
    size_t n_best;    /* where the token was the most likely one */
    bn_json *tokens;  /* array for --json --per-token, or NULL */
    bool print;       /* lines for --per-token */
};

static double log_probability(const float *logits, size_t n_vocab, int32_t id, bool *best)
{
    float max = logits[0];
    for (size_t i = 1; i < n_vocab; i++)
        if (logits[i] > max) max = logits[i];
    double sum = exp((double)logits[0] - (double)max);
    for (size_t i = 1; i < n_vocab; i++)
        sum += exp((double)logits[i] - (double)max);
    *best = logits[id] >= max;
    return (double)logits[id] - (double)max - log(sum);
}

static void count(struct score *score, int32_t id, double logp, bool best)
{
    score->n++;
    score->nll -= logp;
    score->nll2 += logp * logp;
    score->n_best += best;
    if (score->print) printf("%d\t%.6f\n", (int)id, logp);
    if (score->tokens == NULL) return;
    bn_json *token = bn_json_add_object(score->tokens);
    bn_json_put_u64(token, "id", (uint64_t)id);
    bn_json_put_number(token, "logprob", logp);
}

/* One window, in batches, so that the logits of one batch are all that is in memory. */
static bn_status score_window(struct score *score, bn_session *session, size_t n_vocab, const int32_t *ids,
                              size_t n_ids, float *logits, bn_error *err)
{
    BN_TRY(bn_session_truncate(session, 0, err));
    for (size_t at = 0; at < n_ids && bn_cli_interrupted() == 0;) {
        size_t n = bn_min_size(n_ids - at, bn_session_n_batch(session));
        BN_TRY(bn_session_eval(session, ids + at, n, BN_LOGITS_ALL, logits, err));
        for (size_t i = 0; i < n && at + i + 1 < n_ids; i++) {
            bool best;
            double logp = log_probability(logits + i * n_vocab, n_vocab, ids[at + i + 1], &best);
            count(score, ids[at + i + 1], logp, best);
        }
        at += n;
    }
    return BN_OK;
}

static bn_status print_score(const struct bn_args *args, const struct score *score, bn_json *doc,
                             size_t n_tokens, bn_error *err)
{
    double n = (double)score->n, mean = score->nll / n;
    double variance = score->n > 1 ? (score->nll2 - n * mean * mean) / (n - 1.0) : 0.0;
    double error = sqrt((variance > 0.0 ? variance : 0.0) / n);
    if (!args->json) {
        printf("tokens %zu, scored %zu\nmean negative log likelihood %.5f +- %.5f\nperplexity %.3f\n"
               "most likely token right %.2f %%\n",
               n_tokens, score->n, mean, error, exp(mean), 100.0 * (double)score->n_best / n);
        return BN_OK;
    }
    bn_json_put_u64(doc, "tokens", n_tokens);
    bn_json_put_u64(doc, "scored", score->n);
    bn_json_put_number(doc, "nll_mean", mean);
    bn_json_put_number(doc, "nll_standard_error", error);
    bn_json_put_number(doc, "perplexity", exp(mean));
    bn_json_put_number(doc, "accuracy", (double)score->n_best / n);
    return bn_cli_print_json(doc, err);
}

static bn_status score_all(struct bn_args *args, struct bn_run_engine *engine,
                           const struct bn_run_prompt *prompt, bn_error *err)
{
    size_t n_vocab = bn_model_hparams(engine->model)->n_vocab, window = bn_session_n_ctx(engine->session);
    bool per_token = ((const struct bn_run_options *)args->fields)->per_token;
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.score/1");
    bn_json_put_string(doc, "model", bn_cli_model_name(args));
    struct score score = {.print = per_token && !args->json};
    if (per_token && args->json) score.tokens = bn_json_put_array(doc, "per_token");
    float *logits = bn_alloc_aligned(bn_session_n_batch(engine->session), n_vocab * sizeof *logits);
    bn_status status = logits != NULL ? BN_OK : bn_nomem(err);
    for (size_t at = 0; at < prompt->n_ids && status == BN_OK && bn_cli_interrupted() == 0; at += window)
        status = score_window(&score, engine->session, n_vocab, prompt->ids + at,
                              bn_min_size(window, prompt->n_ids - at), logits, err);
    if (status == BN_OK && bn_cli_interrupted() != 0)
        args->exit_code = 128 + bn_cli_interrupted();
    else if (status == BN_OK && score.n == 0)
        status = bn_fail(err, BN_ERR_MISMATCH, "nothing to score: %zu token%s, at least 2 are needed",
                         prompt->n_ids, bn_cli_s(prompt->n_ids));
    else if (status == BN_OK)
        status = print_score(args, &score, doc, prompt->n_ids, err);
    bn_free(logits);
    bn_json_free(doc);
    return status;
}

bn_status bn_run_score(struct bn_args *args, bn_error *err)
{
    struct bn_run_engine engine;
    struct bn_run_prompt prompt;
    const struct bn_run_options *o = args->fields;
    BN_TRY(bn_cli_text_check(args, &o->tokens, err));
    BN_TRY(bn_run_open(&engine, args, BN_REPACK_NEVER, err));
    bn_cli_catch_interrupt();
    bn_status status = bn_run_prompt(&prompt, args, engine.model, false, err);
    if (status == BN_OK) {
        status = score_all(args, &engine, &prompt, err);
        bn_run_prompt_release(&prompt);
    }
    bn_run_close(&engine);
    return status;
}
