/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: its tests and series in the document, its table on the terminal, and its targets.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "infer/session.h"
#include "model/model.h"
#include "tools/bench/run/run.h"
#include "tools/cli/default_model.h"
#include "tools/cli/ranks.h"
#include "tools/cli/text.h"

/* ---- the document ---- */

/* A setting that was not asked for is left out where older runs lack it: it would make them unlike. */
static void put_settings(const struct bn_bench_measurement *m)
{
    bn_json *o = m->h.settings;
    bn_bench_put_list(o, "prompt_tokens", &m->o->prompts);
    bn_bench_put_list(o, "decode_tokens", &m->o->decodes);
    bn_bench_put_list(o, "depths", &m->o->depths);
    bn_bench_put_list(o, "threads", &m->o->threads);
    bn_bench_put_list(o, "batches", &m->o->batches);
    bn_bench_put_list(o, "concurrent", &m->o->concurrent);
    bn_json_put_u64(o, "reps", m->o->reps);
    if (m->o->warmup == UINT32_MAX)
        bn_json_put_string(o, "warmup", "auto");
    else
        bn_json_put_u64(o, "warmup", m->o->warmup);
    bn_json_put_number(o, "confidence", m->confidence);
    BN_PUT_COUNTS(o, {"timeout_ns", m->timeout_ns}, {"loads", m->o->n_loads});
    if (m->o->generates.n > 0) bn_json_put_texts(o, "generate", m->o->generates.list, m->o->generates.n);
    if (m->o->busy.n > 0) bn_bench_put_list(o, "busy", &m->o->busy);
    if (bn_cli_ranks() != NULL) bn_json_put_u64(o, "ranks", bn_cli_ranks()->count);
    if (m->o->decodes.n > 0) bn_bench_put_list(o, "sequences", &m->o->sequences);
    bn_json_put_u64(o, "seed", m->o->seed);
    bn_json_put_string(o, "isa", bn_isa_name());
    if (getenv("BN_POWERCAP") != NULL) bn_json_put_string(o, "powercap", bn_energy_folder());
    if (m->o->price_per_hour > 0) bn_json_put_number(m->h.doc, "price_per_hour", m->o->price_per_hour);
    if (m->score.n_ids == 0) return;
    bn_json_put_string(o, "score_text_sha256", m->score.sha256);
    bn_json_put_u64(o, "score_tokens", m->score.n_ids);
}

/* What is measured once, or once a round: opening the model, memory, reading. */
static bn_status put_machine(struct bn_bench_measurement *m, bn_error *err)
{
    const bn_hparams *hp = bn_model_hparams(m->model);
    const size_t kv_bytes = 2 * sizeof(uint16_t) * bn_kv_heads(hp) * hp->head_dim; /* of a position */
    double *x = m->scratch;
    uint64_t parameters = 0;
    for (size_t i = 0; i < m->model->gguf.n_tensors; i++) {
        const uint64_t *ne = m->model->gguf.tensors[i].ne;
        parameters += ne[0] * ne[1] * ne[2] * ne[3];
    }
    BN_PUT_COUNTS(m->h.model, {"file_bytes", m->model->n_bytes}, {"parameters", parameters});
    BN_TRY(bn_metric_add(&m->h.series, "load", "load_ns", m->load_ns, m->o->n_loads, 0, err));
    BN_TRY(bn_harness_put_value(&m->h, "session", "kv_bytes_per_token", (double)kv_bytes, err));
    if (m->meters.peak > 0)
        BN_TRY(bn_harness_put_value(&m->h, "process", "peak_rss_bytes", (double)m->meters.peak, err));
    for (size_t t = 0; t < m->o->threads.n; t++) {
        char test[32];
        bool known = true;
        snprintf(test, sizeof test, "reading t=%u", m->o->threads.list[t]);
        for (uint32_t i = 0; i < m->n_rounds; i++) {
            x[i] = m->bandwidth[i * m->o->threads.n + t];
            known = known && x[i] > 0;
        }
        if (known) BN_TRY(bn_metric_add(&m->h.series, test, "bytes_per_second", x, m->n_rounds, 0, err));
    }
    return BN_OK;
}

static void put_facts(bn_json *o, const struct bn_bench_config *c)
{
    bn_json_put_string(o, "test", bn_bench_config_kind(c));
    BN_PUT_COUNTS(o, {"tokens", c->tokens}, {"depth", c->depth}, {"threads", c->n_threads});
    if (c->answer > 0) bn_json_put_u64(o, "answer", c->answer);
    if (!c->decode) bn_json_put_u64(o, "batch", c->n_batch);
    if (c->n_sequences > 1) bn_json_put_u64(o, "sequences", c->n_sequences);
    if (c->n_concurrent > 1) bn_json_put_u64(o, "concurrent", c->n_concurrent);
    if (c->n_busy > 0) bn_json_put_u64(o, "busy", c->n_busy);
    if (c->implausible[0] != '\0') bn_json_put_string(o, "implausible", c->implausible);
    if (c->verdict == BN_BENCH_VALID) bn_json_put_string(o, "output_sha256", c->samples[0].output);
}

bn_status bn_bench_run_put(struct bn_bench_measurement *m, bn_error *err)
{
    put_settings(m);
    BN_TRY(put_machine(m, err));
    for (size_t i = 0; i < m->n_configs; i++) {
        struct bn_bench_config *c = &m->configs[i];
        char name[BN_BENCH_NAME];
        bn_bench_config_name(c, name, sizeof name);
        c->test = bn_harness_test(&m->h, name);
        bn_harness_judge(&m->h, c->test, c->verdict, c->reason);
        put_facts(c->test, c);
        if (c->verdict == BN_BENCH_VALID) BN_TRY(bn_bench_config_series(m, c, err));
    }
    return bn_bench_text_put(m, err);
}

/* ---- before the table ---- */

/* Does every row have enough samples for an interval of its median? 6 are enough for 95 %. */
static bool has_interval(const struct bn_bench_measurement *m)
{
    double least = ceil(1 - log2(1 - m->confidence) - 1e-9);
    bool has = true;
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        if (c->verdict == BN_BENCH_VALID) has = has && (double)(c->n_samples - c->n_warmup) >= least;
    }
    return has;
}

/* The least of all rows: a row that settled early has more samples, one that settled late more warm-up. */
static void print_samples(const struct bn_bench_measurement *m)
{
    size_t counted = SIZE_MAX, cold = SIZE_MAX;
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        if (c->verdict != BN_BENCH_VALID) continue;
        counted = bn_min_size(counted, c->n_samples - c->n_warmup);
        cold = bn_min_size(cold, c->n_warmup);
    }
    if (counted == SIZE_MAX)
        printf("samples  none are valid\n\n");
    else
        printf("samples  %zu%s per row, in turn, after %zu warm-up\n\n", counted,
               m->o->warmup == UINT32_MAX ? " or more" : "", cold);
}

static void print_head(const struct bn_bench_measurement *m)
{
    bn_bench_print_machine(&m->h.machine);
    printf("model    %s, opened in %.1f ms; %s", bn_cli_model_name(m->h.args),
           m->load_ns[m->o->n_loads - 1] / 1e6, bn_cli_evaluator(m->model));
    if (bn_cli_ranks() != NULL) {
        printf("\nranks    %u, each with %u thread%s\n", bn_cli_ranks()->count, m->o->threads.list[0],
               bn_cli_s(m->o->threads.list[0]));
        print_samples(m);
        return;
    }
    printf("; peak memory %.0f MiB", (double)m->meters.peak / 0x1p20);
    if (m->model->device != NULL)
        printf(" here, %.0f MiB there", (double)bn_device_bytes(m->model->device) / 0x1p20);
    putchar('\n');
    printf("reading  %.3f MB, read by one token:", (double)m->token_bytes / 1e6);
    for (size_t t = 0; t < m->o->threads.n; t++) {
        for (uint32_t i = 0; i < m->n_rounds; i++)
            m->scratch[i] = m->bandwidth[i * m->o->threads.n + t];
        if (m->model->device != NULL) {
            printf(" %.1f GB/s by the device", bn_median(m->scratch, m->n_rounds) / 1e9);
            break;
        }
        printf("%s %.1f GB/s with %u thread%s", t > 0 ? "," : "", bn_median(m->scratch, m->n_rounds) / 1e9,
               m->o->threads.list[t], bn_cli_s(m->o->threads.list[t]));
    }
    putchar('\n');
    print_samples(m);
}

/* ---- the table ---- */

/* The median, and its interval or of too few samples the range. */
static void put_rate(struct bn_table *t, const struct bn_bench_measurement *m,
                     const struct bn_bench_config *c)
{
    struct bn_summary s;
    (void)bn_summarize(&s, m->scratch, bn_bench_collect(m, c, "tokens_per_second", NULL));
    struct bn_interval ci = {.low = s.min, .high = s.max};
    if (has_interval(m) && bn_interval_median(&ci, m->scratch, s.n, m->confidence, NULL) != BN_OK)
        ci = (struct bn_interval){.low = s.min, .high = s.max};
    bn_table_value(t, s.median, "1");
    bn_table_range(t, ci.low, ci.high, s.median, "1");
}

/* The median and the 95 % quantile, in milliseconds. */
static void put_times(struct bn_table *t, const struct bn_bench_measurement *m,
                      const struct bn_bench_config *c)
{
    const char *metric = c->n_concurrent > 1 ? "request_ns" : c->decode ? "token_ns" : "first_token_ns";
    double p95 = (double)NAN;
    size_t n = bn_bench_collect(m, c, metric, NULL);
    (void)bn_quantile(&p95, m->scratch, n, 0.95);
    bn_table_value(t, bn_median(m->scratch, n) / 1e6, "1");
    bn_table_value(t, p95 / 1e6, "1");
}

/* "32", "32/128" with a batch, "32 x8" with sequences or concurrent generations, "128+32". */
static void put_tokens(struct bn_table *t, const struct bn_bench_measurement *m,
                       const struct bn_bench_config *c)
{
    char answer[16] = "", batch[16] = "", many[16] = "";
    uint32_t n = c->n_sequences * c->n_concurrent;
    if (c->answer > 0) snprintf(answer, sizeof answer, "+%u", c->answer);
    if (m->o->batches.n > 1 && !c->decode) snprintf(batch, sizeof batch, "/%u", c->n_batch);
    if (n > 1) snprintf(many, sizeof many, " x%u", n);
    bn_table_printf(t, "%u%s%s%s", c->tokens, answer, batch, many);
}

static void put_row(struct bn_table *t, const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    bn_table_row(t, "");
    bn_table_text(t, bn_bench_config_kind(c));
    put_tokens(t, m, c);
    bn_table_count(t, c->depth);
    bn_table_count(t, c->n_threads);
    if (m->o->busy.n > 0) bn_table_count(t, c->n_busy);
    if (c->verdict != BN_BENCH_VALID) {
        bn_table_text(t, c->verdict == BN_BENCH_TIMEOUT ? "TIMEOUT" : "INVALID");
        return;
    }
    put_rate(t, m, c);
    put_times(t, m, c);
    bn_table_value(t, bn_bench_median_of(m, c, "bytes_per_second") / 1e9, "1");
    if (c->decode && c->n_concurrent == 1 && bn_cli_ranks() == NULL)
        bn_table_printf(t, "%.0f %%", 100 * bn_bench_median_of(m, c, "share_of_bandwidth"));
    else
        bn_table_text(t, "-");
}

static bn_status print_table(const struct bn_bench_measurement *m, bn_error *err)
{
    struct bn_table t;
    char interval[32];
    bool busy = m->o->busy.n > 0;
    snprintf(interval, sizeof interval, "%g %% interval", 100 * m->confidence);
    const char *heads[12] = {"test", m->o->batches.n > 1 ? "n/batch" : "tokens", "depth", "t"};
    size_t n = 4;
    if (busy) heads[n++] = "busy";
    heads[n++] = "tok/s";
    heads[n++] = has_interval(m) ? interval : "min \xE2\x80\x93 max";
    heads[n++] = "ms p50";
    heads[n++] = "p95";
    heads[n++] = "GB/s";
    heads[n++] = "read";
    bn_table_begin(&t, heads, busy ? "lrrrrrrrrrr" : "lrrrrrrrrr");
    for (size_t i = 0; i < m->n_configs; i++)
        put_row(&t, m, &m->configs[i]);
    return bn_cli_print_table(&t, err);
}

/* ---- after the table ---- */

static void print_remarks(const struct bn_bench_measurement *m)
{
    size_t n_changing = 0;
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        char key[BN_BENCH_NAME], name[BN_TEST_ROOM];
        bn_bench_config_name(c, key, sizeof key);
        bn_test_name(name, key);
        if (c->verdict != BN_BENCH_VALID)
            printf("%s: %s.\n", name, c->reason);
        else if (c->implausible[0] != '\0')
            printf("%s: implausible: %s.\n", name, c->implausible);
        if (c->verdict == BN_BENCH_VALID && c->n_concurrent > 1)
            printf("%s: fairness %.3f.\n", name, bn_bench_median_of(m, c, "fairness"));
        if (c->verdict == BN_BENCH_VALID && m->o->price_per_hour > 0)
            printf("price    %.4g per million tokens: %s\n",
                   bn_bench_median_of(m, c, "price_per_million_tokens"), name);
        if (c->verdict == BN_BENCH_VALID && bn_cli_ranks() != NULL)
            printf("exchange %.3g MB and %.3g ms per token: %s\n",
                   bn_bench_median_of(m, c, "exchange_bytes_per_token") / 1e6,
                   bn_bench_median_of(m, c, "exchange_ns_per_token") / 1e6, name);
        n_changing +=
            c->verdict == BN_BENCH_VALID && !c->steady && bn_bench_can_settle(c->n_samples - c->n_warmup);
    }
    if (n_changing > 0)
        printf("The times of %zu of %zu rows were still changing: use a longer --warmup or a quieter\n"
               "machine.\n",
               n_changing, m->n_configs);
}

bn_status bn_bench_run_print(const struct bn_bench_measurement *m, bn_error *err)
{
    print_head(m);
    BN_TRY(print_table(m, err));
    putchar('\n');
    bn_bench_text_print(m);
    if (m->o->prompts.n + m->o->generates.n > 0)
        printf("read: percentage of the read bandwidth. Prompts: ms to the first token; arithmetic is\ntheir "
               "limit.%s\n",
               m->o->generates.n > 0 ? " generate: tok/s of prompt and answer together." : "");
    if (m->o->concurrent.n > 0)
        printf(
            "concurrent: tok/s of all together, ms of each generation; fairness 1: all are equally fast.\n");
    if (m->o->busy.n > 0) printf("busy: processes that kept a CPU busy meanwhile.\n");
    print_remarks(m);
    bn_bench_targets_print(m);
    return BN_OK;
}
