/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: the time to tokenize the built-in text; and --score, how well the model predicts a text, as
 * exact series. The engine computes the same bits with every instruction set and number of threads, so any
 * difference is a change of the model or the engine.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tools/bench/run/run.h"
#include "tools/cli/text.h"

/* exp and log of other libraries may differ in the last bits of a double. */
static double rounded(double x)
{
    return round(x * 1e9) / 1e9;
}

/* ---- the time to tokenize ---- */

bn_status bn_bench_tokenize(struct bn_bench_measurement *m, bn_error *err)
{
    const bn_tokenizer *tok = bn_model_tokenizer(m->model);
    int32_t *ids = NULL;
    if (tok == NULL) return BN_OK;
    double *ns = bn_realloc(m->tokenize_ns, m->n_rounds + 1u, sizeof *ns);
    if (ns == NULL) return bn_nomem(err);
    m->tokenize_ns = ns;
    uint64_t start = bn_clock_ns();
    BN_TRY(bn_tokenize(tok, bn_validation_text, (size_t)bn_validation_text_bytes, 0, &ids, &m->n_tokenized,
                       err));
    ns[m->n_rounds] = (double)(bn_clock_ns() - start) / (double)m->n_tokenized;
    bn_free(ids);
    return BN_OK;
}

/* ---- the score ---- */

bn_status bn_bench_score_read(struct bn_bench_measurement *m, bn_error *err)
{
    struct bn_bench_score *s = &m->score;
    const char *path = m->o->score;
    if (path == NULL) return BN_OK;
    snprintf(s->name, sizeof s->name, "%.63s", bn_bench_base_name(path));
    return bn_harness_read_text(m->model, path, m->o->score_tokens > 0 ? m->o->score_tokens : SIZE_MAX,
                                &s->ids, &s->n_ids, s->sha256, err);
}

bn_status bn_bench_score_take(struct bn_bench_measurement *m, bn_error *err)
{
    struct bn_bench_score *s = &m->score;
    bn_session_options options = {.n_threads = m->o->threads.list[m->o->threads.n - 1]};
    bn_session *session = NULL;
    if (m->o->score == NULL) return BN_OK;
    bn_report_note(0, "scoring %zu tokens of %s", s->n_ids, s->name);
    BN_TRY(bn_session_open(&session, m->model, &options, err));
    bn_status status = bn_score_text(&s->score, session, m->model, s->ids, s->n_ids, NULL, NULL, err);
    bn_session_close(session);
    return status;
}

static bn_status put_score(struct bn_bench_measurement *m, bn_error *err)
{
    char test[80];
    const struct bn_bench_score *s = &m->score;
    snprintf(test, sizeof test, "score %s", s->name);
    bn_json *o = bn_harness_test(&m->h, test);
    bn_json_put_string(o, "text_sha256", s->sha256);
    BN_PUT_COUNTS(o, {"tokens", s->n_ids}, {"scored", s->score.n});
    bn_json_put_number(o, "nll_standard_error", bn_score_nll_error(&s->score));
    bn_harness_judge(&m->h, o, BN_BENCH_VALID, NULL);
    BN_TRY(bn_harness_put_value(&m->h, test, "nll", rounded(bn_score_nll(&s->score)), err));
    BN_TRY(bn_harness_put_value(&m->h, test, "perplexity", rounded(bn_score_perplexity(&s->score)), err));
    return bn_harness_put_value(&m->h, test, "accuracy", rounded(bn_score_accuracy(&s->score)), err);
}

bn_status bn_bench_text_put(struct bn_bench_measurement *m, bn_error *err)
{
    if (m->n_tokenized > 0) {
        bn_json *o = bn_harness_test(&m->h, "tokenize");
        BN_PUT_COUNTS(o, {"bytes", bn_validation_text_bytes}, {"tokens", m->n_tokenized});
        bn_harness_judge(&m->h, o, BN_BENCH_VALID, NULL);
        BN_TRY(bn_metric_add(&m->h.series, "tokenize", "tokenize_ns_per_token", m->tokenize_ns, m->n_rounds,
                             m->warmup, err));
    }
    return m->score.score.n > 0 ? put_score(m, err) : BN_OK;
}

void bn_bench_text_print(const struct bn_bench_measurement *m)
{
    const struct bn_score *s = &m->score.score;
    if (m->n_tokenized > 0)
        printf("tokenize %.1f ns per token, of %zu tokens\n", bn_median(m->tokenize_ns, m->n_rounds),
               m->n_tokenized);
    if (s->n == 0) return;
    printf("score    %s, %zu tokens: nll %.5f +- %.5f, perplexity %.3f, accuracy %.2f %%\n", m->score.name,
           s->n, bn_score_nll(s), bn_score_nll_error(s), bn_score_perplexity(s), 100 * bn_score_accuracy(s));
}
