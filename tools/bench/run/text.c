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
#include "base/error.h"
#include "base/file.h"
#include "tools/bench/run/run.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"

#define BUILT_IN "validation"

extern const char bn_bench_validation[];
extern const uint64_t bn_bench_validation_bytes;

/* exp and log of other libraries may differ in the last bits of a double. */
static double rounded(double x)
{
    return round(x * 1e9) / 1e9;
}

static bn_status read_text(struct bn_bench_score *s, const char *path, struct bn_buf *text, bn_error *err)
{
    const char *slash = strrchr(path, '/');
    snprintf(s->name, sizeof s->name, "%.63s", slash != NULL ? slash + 1 : path);
    if (strcmp(path, BUILT_IN) != 0) return bn_file_read(path, text, err);
    bn_buf_append(text, bn_bench_validation, (size_t)bn_bench_validation_bytes);
    return bn_buf_check(text, err);
}

static bn_status tokenize(const struct bn_bench_measurement *m, const struct bn_buf *text, int32_t **ids,
                          size_t *n_ids, bn_error *err)
{
    const bn_tokenizer *tok = NULL;
    BN_TRY(bn_cli_tokenizer(m->model, &tok, err));
    return bn_tokenize(tok, text->data, text->len, BN_TOKENIZE_BOS, ids, n_ids, err);
}

/* ---- the time to tokenize ---- */

bn_status bn_bench_tokenize(struct bn_bench_measurement *m, bn_error *err)
{
    struct bn_bench_tokenize *t = &m->tokenize;
    const bn_tokenizer *tok = bn_model_tokenizer(m->model);
    int32_t *ids = NULL;
    if (tok == NULL) return BN_OK;
    double *ns = bn_realloc(t->ns, t->n + 1, sizeof *ns);
    if (ns == NULL) return bn_nomem(err);
    t->ns = ns;
    t->n_bytes = (size_t)bn_bench_validation_bytes;
    uint64_t start = bn_clock_ns();
    BN_TRY(bn_tokenize(tok, bn_bench_validation, t->n_bytes, 0, &ids, &t->n_tokens, err));
    t->ns[t->n++] = (double)(bn_clock_ns() - start);
    bn_free(ids);
    return BN_OK;
}

static bn_status tokenize_series(const struct bn_bench_measurement *m, struct bn_series_list *all,
                                 bn_error *err)
{
    const struct bn_bench_tokenize *t = &m->tokenize;
    struct bn_series s = {
        .test = "tokenize", .metric = "tokenize_ns_per_token", .unit = "ns", .samples = m->scratch};
    for (size_t i = m->warmup; i < t->n; i++)
        m->scratch[s.n++] = t->ns[i] / (double)t->n_tokens;
    return s.n > 0 ? bn_series_add(all, &s, err) : BN_OK;
}

static void put_tokenize(const struct bn_bench_measurement *m, bn_json *doc)
{
    const struct bn_bench_tokenize *t = &m->tokenize;
    if (t->n == 0) {
        bn_json_put_unavailable(doc, "tokenize", "the model's file has no vocabulary");
        return;
    }
    bn_json *o = bn_json_put_object(doc, "tokenize");
    bn_json_put_string(o, "text", BUILT_IN);
    bn_json_put_u64(o, "bytes", t->n_bytes);
    bn_json_put_u64(o, "tokens", t->n_tokens);
    bn_json_put_numbers(o, "ns", t->ns, t->n);
}

/* ---- the score ---- */

bn_status bn_bench_score_read(struct bn_bench_measurement *m, bn_error *err)
{
    struct bn_buf text = {.max = 1u << 30};
    struct bn_bench_score *s = &m->score;
    if (m->o->score == NULL) return BN_OK;
    bn_status status = read_text(s, m->o->score, &text, err);
    if (status == BN_OK) status = bn_sha256_hex(text.data, text.len, s->sha256, err);
    if (status == BN_OK) status = tokenize(m, &text, &s->ids, &s->n_ids, err);
    bn_buf_release(&text);
    if (m->o->score_tokens > 0) s->n_ids = bn_min_size(s->n_ids, m->o->score_tokens);
    if (status == BN_OK && s->n_ids < 2)
        status = bn_fail(err, BN_ERR_ARG, "--score: %s has %zu token%s, at least 2 are needed", s->name,
                         s->n_ids, bn_cli_s(s->n_ids));
    return status;
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

bn_status bn_bench_text_series(const struct bn_bench_measurement *m, struct bn_series_list *all,
                               bn_error *err)
{
    const struct bn_score *s = &m->score.score;
    BN_TRY(tokenize_series(m, all, err));
    if (s->n == 0) return BN_OK;
    const struct {
        const char *metric, *unit;
        bool higher;
        double value;
    } SERIES[] = {{"nll", "nats/token", false, rounded(bn_score_nll(s))},
                  {"perplexity", "1", false, rounded(bn_score_perplexity(s))},
                  {"accuracy", "1", true, rounded(bn_score_accuracy(s))}};
    char test[80];
    snprintf(test, sizeof test, "score %s", m->score.name);
    for (size_t i = 0; i < BN_ARRAY_LEN(SERIES); i++) {
        struct bn_series series = {
            test, SERIES[i].metric, SERIES[i].unit, SERIES[i].higher, true, &SERIES[i].value, 1};
        BN_TRY(bn_series_add(all, &series, err));
    }
    return BN_OK;
}

void bn_bench_text_put(const struct bn_bench_measurement *m, bn_json *doc)
{
    const struct bn_bench_score *s = &m->score;
    put_tokenize(m, doc);
    if (s->score.n == 0) {
        bn_json_put_unavailable(doc, "score", "no text was given (--score)");
        return;
    }
    bn_json *o = bn_json_put_object(doc, "score");
    bn_json_put_string(o, "text", s->name);
    bn_json_put_string(o, "text_sha256", s->sha256);
    bn_json_put_u64(o, "tokens", s->n_ids);
    bn_json_put_u64(o, "scored", s->score.n);
    bn_json_put_number(o, "nll", rounded(bn_score_nll(&s->score)));
    bn_json_put_number(o, "nll_standard_error", bn_score_nll_error(&s->score));
    bn_json_put_number(o, "perplexity", rounded(bn_score_perplexity(&s->score)));
    bn_json_put_number(o, "accuracy", rounded(bn_score_accuracy(&s->score)));
}

/* Only when it was asked for: a new setting would make older runs unlike. */
void bn_bench_score_settings(const struct bn_bench_measurement *m, bn_json *settings)
{
    if (m->o->score == NULL) return;
    bn_json_put_string(settings, "score_text_sha256", m->score.sha256);
    bn_json_put_u64(settings, "score_tokens", m->score.n_ids);
}

void bn_bench_text_print(const struct bn_bench_measurement *m)
{
    const struct bn_score *s = &m->score.score;
    const struct bn_bench_tokenize *t = &m->tokenize;
    if (t->n > 0)
        printf("tokenize %.1f ns per token, of %zu tokens\n", bn_median(t->ns, t->n) / (double)t->n_tokens,
               t->n_tokens);
    if (s->n == 0) return;
    printf("score    %s, %zu tokens: nll %.5f +- %.5f, perplexity %.3f, accuracy %.2f %%\n", m->score.name,
           s->n, bn_score_nll(s), bn_score_nll_error(s), bn_score_perplexity(s), 100 * bn_score_accuracy(s));
}

void bn_bench_text_release(struct bn_bench_measurement *m)
{
    bn_free(m->tokenize.ns);
    bn_free(m->score.ids);
}
