/* SPDX-License-Identifier: MIT
 *
 * bn-bench run --score: how well the model predicts a text, as exact series. The engine computes the same bits
 * with every instruction set and number of threads, so any difference is a change of the model or the engine.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

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

static bn_status score_ids(struct bn_bench_measurement *m, const int32_t *ids, size_t n_ids, bn_error *err)
{
    struct bn_bench_score *s = &m->score;
    bn_session_options options = {.n_threads = m->o->threads.list[m->o->threads.n - 1]};
    bn_session *session = NULL;
    if (m->o->score_tokens > 0) n_ids = bn_min_size(n_ids, m->o->score_tokens);
    if (n_ids < 2)
        return bn_fail(err, BN_ERR_ARG, "--score: %s has %zu token%s, at least 2 are needed", s->name, n_ids,
                       bn_bench_s(n_ids));
    s->n_tokens = n_ids;
    bn_report_note(0, "scoring %zu tokens of %s", n_ids, s->name);
    BN_TRY(bn_session_open(&session, m->model, &options, err));
    bn_status status = bn_score_text(&s->score, session, m->model, ids, n_ids, NULL, NULL, err);
    bn_session_close(session);
    return status;
}

bn_status bn_bench_score_take(struct bn_bench_measurement *m, bn_error *err)
{
    struct bn_buf text = {.max = 1u << 30};
    const bn_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (m->o->score == NULL) return BN_OK;
    bn_status status = read_text(&m->score, m->o->score, &text, err);
    if (status == BN_OK) status = bn_sha256_hex(text.data, text.len, m->score.sha256, err);
    if (status == BN_OK) status = bn_cli_tokenizer(m->model, &tok, err);
    if (status == BN_OK) status = bn_tokenize(tok, text.data, text.len, BN_TOKENIZE_BOS, &ids, &n_ids, err);
    if (status == BN_OK) status = score_ids(m, ids, n_ids, err);
    bn_free(ids);
    bn_buf_release(&text);
    return status;
}

bn_status bn_bench_score_series(const struct bn_bench_measurement *m, struct bn_series_list *all,
                                bn_error *err)
{
    const struct bn_score *s = &m->score.score;
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

void bn_bench_score_put(const struct bn_bench_measurement *m, bn_json *doc)
{
    const struct bn_bench_score *s = &m->score;
    if (s->score.n == 0) {
        bn_json_put_unavailable(doc, "score", "no text was given (--score)");
        return;
    }
    bn_json *o = bn_json_put_object(doc, "score");
    bn_json_put_string(o, "text", s->name);
    bn_json_put_string(o, "text_sha256", s->sha256);
    bn_json_put_u64(o, "tokens", s->n_tokens);
    bn_json_put_u64(o, "scored", s->score.n);
    bn_json_put_number(o, "nll", rounded(bn_score_nll(&s->score)));
    bn_json_put_number(o, "nll_standard_error", bn_score_nll_error(&s->score));
    bn_json_put_number(o, "perplexity", rounded(bn_score_perplexity(&s->score)));
    bn_json_put_number(o, "accuracy", rounded(bn_score_accuracy(&s->score)));
}

/* Only when it was asked for: a new setting would make older runs unlike. */
void bn_bench_score_settings(const struct bn_bench_measurement *m, bn_json *settings)
{
    if (m->score.score.n == 0) return;
    bn_json_put_string(settings, "score_text_sha256", m->score.sha256);
    bn_json_put_u64(settings, "score_tokens", m->score.n_tokens);
}

void bn_bench_score_print(const struct bn_bench_measurement *m)
{
    const struct bn_score *s = &m->score.score;
    if (s->n == 0) return;
    printf("score    %s, %zu tokens: nll %.5f +- %.5f, perplexity %.3f, accuracy %.2f %%\n", m->score.name,
           s->n, bn_score_nll(s), bn_score_nll_error(s), bn_score_perplexity(s), 100 * bn_score_accuracy(s));
}
