/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: its results as a document (docs/reference/bench.md).
 */
#include <math.h>

#include "base/error.h"
#include "lab/stats/summary.h"
#include "model/model.h"
#include "tools/bench/run/run.h"
#include "tools/cli/provenance.h"

/* ---- settings, model, memory ---- */

static void put_count(bn_json *o, const char *name, uint32_t n)
{
    if (n == UINT32_MAX)
        bn_json_put_string(o, name, "auto");
    else
        bn_json_put_u64(o, name, n);
}

static void put_settings(const struct bn_bench_measurement *m, bn_json *doc)
{
    bn_json *o = bn_json_put_object(doc, "settings");
    bn_bench_put_list(o, "prompt_tokens", &m->o->prompts);
    bn_bench_put_list(o, "decode_tokens", &m->o->decodes);
    bn_bench_put_list(o, "depths", &m->o->depths);
    bn_bench_put_list(o, "threads", &m->o->threads);
    bn_bench_put_list(o, "batches", &m->o->batches);
    bn_bench_put_list(o, "concurrent", &m->o->concurrent);
    put_count(o, "reps", m->o->reps);
    put_count(o, "warmup", m->o->warmup);
    bn_json_put_number(o, "precision", m->precision);
    bn_json_put_number(o, "confidence", m->confidence);
    bn_json_put_u64(o, "max_time_ns", m->max_ns);
    bn_json_put_u64(o, "timeout_ns", m->timeout_ns);
    bn_json_put_u64(o, "loads", m->o->n_loads);
    if (m->n_pairs > 0) { /* a new setting would make older runs unlike */
        bn_json *pairs = bn_json_put_array(o, "generate");
        for (size_t i = 0; i < m->n_pairs; i++)
            bn_json_add_string(pairs, m->o->generates.list[i]);
    }
    if (m->o->busy.n > 0) bn_bench_put_list(o, "busy", &m->o->busy);
    if (m->o->decodes.n > 0) bn_bench_put_list(o, "sequences", &m->o->sequences);
    bn_json_put_bool(o, "cold", m->o->cold);
    bn_json_put_u64(o, "seed", m->o->seed);
    bn_json_put_string(o, "isa", bn_isa_name());
    bn_bench_score_settings(m, o);
}

static void put_model(const struct bn_bench_measurement *m, bn_json *doc)
{
    bn_json *model = bn_cli_put_model(doc, m->args);
    bn_json_put_u64(model, "file_bytes", m->model->n_bytes);
    bn_json_put_u64(model, "parameters", bn_bench_parameters(m->model));
    bn_json_put_u64(model, "kv_bytes_per_token", bn_bench_kv_bytes(m->model));
    bn_json *loads = bn_json_put_array(model, "loads");
    for (uint32_t i = 0; i < m->o->n_loads; i++) {
        bn_json *load = bn_json_add_object(loads);
        bn_json_put_u64(load, "ns", m->loads[i].ns);
        bn_json_put_finite(
            load, "page_cache_share", m->loads[i].cached >= 0 ? m->loads[i].cached : (double)NAN,
            m->args->model == NULL ? "the model is built in" : "the system does not report it");
    }
}

static void put_memory(const struct bn_bench_measurement *m, bn_json *doc)
{
    bn_json *memory = bn_json_put_object(doc, "memory");
    bn_json_put_object(memory, "unavailable");
    if (m->memory.peak > 0)
        bn_json_put_u64(memory, "peak_rss_bytes", m->memory.peak);
    else
        bn_json_put_unavailable(memory, "peak_rss_bytes", "the system does not report it");
    if (!m->meters.resets) {
        bn_json_put_unavailable(memory, "round_peak_rss_bytes",
                                "the system does not permit resetting the peak");
        return;
    }
    bn_json_put_numbers(memory, "round_peak_rss_bytes", m->memory.rounds, m->memory.n_rounds);
}

static void put_bandwidth(const struct bn_bench_measurement *m, bn_json *doc)
{
    bn_json *array = bn_json_put_array(doc, "bandwidth");
    for (size_t t = 0; t < m->o->threads.n; t++) {
        bn_json *o = bn_json_add_object(array);
        bn_json_put_u64(o, "threads", m->o->threads.list[t]);
        bn_json_put_u64(o, "set_bytes", m->token_bytes);
        bn_json *rates = bn_json_put_array(o, "bytes_per_second"); /* one a round, warm-ups too */
        for (uint32_t i = 0; i < m->n_rounds; i++)
            bn_json_add_number(rates, m->bandwidth[i * m->o->threads.n + t]);
    }
}

/* ---- configurations ---- */

static void put_disturbances(bn_json *o, const struct bn_bench_sample *s)
{
    bn_json *list = bn_json_put_array(o, "disturbances");
    if (s->stolen) bn_json_add_string(list, "steal");
    if (s->pressed) bn_json_add_string(list, "pressure");
    if (s->switched) bn_json_add_string(list, "switches");
}

static void put_sample(const struct bn_bench_measurement *m, bn_json *array, const struct bn_bench_config *c,
                       size_t i)
{
    static const char *const LABELS[] = {
        [BN_OUTLIER_NONE] = "none", [BN_OUTLIER_MILD] = "mild", [BN_OUTLIER_SEVERE] = "severe"};
    const struct bn_bench_sample *s = &c->samples[i];
    bool warmup = i < c->n_warmup;
    bn_json *o = bn_json_add_object(array);
    bn_json_put_object(o, "unavailable");
    bn_json_put_u64(o, "round", s->round);
    bn_json_put_bool(o, "warmup", warmup);
    bn_json_put_u64(o, "start_ns", s->start_ns);
    bn_json_put_u64(o, "ns", s->ns);
    bn_json_put_u64(o, "total_ns", s->total_ns);
    bn_json_put_u64(o, "first_token_ns", s->first_token_ns);
    bn_json_put_number(o, "tokens_per_second", bn_bench_tokens_per_second(c, s));
    bn_json_put_u64(o, "evaluated_tokens", s->evaluated);
    bn_json_put_u64(o, "bytes", s->bytes);
    bn_json_put_u64(o, "ops", s->ops);
    bn_noise_put(o, &s->noise);
    bn_bench_usage_put(m, o, &s->usage);
    bn_json_put_finite(o, "bandwidth_bytes_per_second", s->bandwidth > 0 ? s->bandwidth : (double)NAN,
                       "no memory for the probe");
    if (warmup) {
        bn_json_put_unavailable(o, "outlier", "it is warm-up");
        bn_json_put_unavailable(o, "disturbances", "it is warm-up");
    } else {
        bn_json_put_string(o, "outlier", LABELS[s->outlier]);
        put_disturbances(o, s);
    }
    bn_json_put_string(o, "output_sha256", s->output);
    bn_json *tokens = bn_json_put_array(o, "token_ns");
    for (size_t k = 0; k < bn_bench_n_times(c); k++)
        bn_json_add_u64(tokens, s->token_ns[k]);
}

static void put_kernels(bn_json *config, const struct bn_bench_config *c)
{
    bn_json *kernels = bn_json_put_array(config, "kernels");
    for (size_t i = 0; i < c->n_kernels; i++) {
        bn_json *k = bn_json_add_object(kernels);
        bn_json_put_string(k, "name", c->kernels[i].name);
        bn_json_put_u64(k, "calls", c->kernels[i].calls);
        bn_json_put_u64(k, "ns", c->kernels[i].ns);
        bn_json_put_u64(k, "bytes", c->kernels[i].bytes);
        bn_json_put_u64(k, "ops", c->kernels[i].ops);
    }
}

static void put_figure(const struct bn_bench_measurement *m, const struct bn_bench_config *c, bn_json *object,
                       const char *name, bn_bench_figure f)
{
    bn_bench_put_summary_at(object, name, m->scratch, bn_bench_collect(m, c, f), m->confidence);
}

static void put_share(const struct bn_bench_measurement *m, const struct bn_bench_config *c, bn_json *s)
{
    bool probed = true;
    for (size_t i = 0; i < c->n_samples; i++)
        probed = probed && c->samples[i].bandwidth > 0;
    if (!c->decode)
        bn_json_put_unavailable(s, "share_of_bandwidth", "arithmetic bounds a prompt, not reading");
    else if (!probed)
        bn_json_put_unavailable(s, "share_of_bandwidth", "no memory for the probe");
    else
        put_figure(m, c, s, "share_of_bandwidth", bn_bench_share_of_bandwidth);
}

static void put_jitter(bn_json *s, const char *name, const struct bn_bench_measurement *m, size_t n,
                       const char *why)
{
    if (n > 0)
        bn_bench_put_summary_at(s, name, m->scratch, n, m->confidence);
    else
        bn_json_put_unavailable(s, name, why);
}

static void put_summary(const struct bn_bench_measurement *m, const struct bn_bench_config *c, bn_json *o)
{
    if (c->verdict != BN_BENCH_VALID) {
        bn_json_put_unavailable(o, "summary", c->reason);
        return;
    }
    bn_json *s = bn_json_put_object(o, "summary");
    bn_json_put_object(s, "unavailable");
    put_figure(m, c, s, "tokens_per_second", bn_bench_tokens_per_second);
    bn_json_put_finite(s, "price_per_million_tokens",
                       m->o->price_per_hour > 0 ? bn_bench_price(m, c) : (double)NAN,
                       "no price was given (--price-per-hour)");
    bn_json_put_finite(s, "share_of_quiet", bn_bench_share_of_quiet(m, c),
                       c->n_busy > 0 ? "the test alone is not valid" : "no busy process ran next to it");
    put_figure(m, c, s, "bytes_per_token", bn_bench_bytes_per_token);
    put_figure(m, c, s, "bytes_per_second", bn_bench_bytes_per_second);
    put_figure(m, c, s, "cpu_use", bn_bench_cpu_use);
    put_share(m, c, s);
    if (c->decode)
        bn_json_put_unavailable(s, "first_token_ns", "decoding starts after a prompt of one token");
    else
        put_figure(m, c, s, "first_token_ns", bn_bench_first_token_ns);
    if (bn_bench_n_times(c) > 0)
        bn_bench_put_summary_at(s, "token_ns", m->scratch, bn_bench_collect_tokens(m, c), m->confidence);
    else
        bn_json_put_unavailable(s, "token_ns", "the tokens of a prompt are evaluated together");
    put_jitter(s, "token_jitter_ns", m, bn_bench_collect_jitter(m, c), "fewer than 3 tokens have a time");
    put_jitter(s, "token_spread_ns", m, bn_bench_collect_spread(m, c), "fewer than 20 tokens have a time");
}

static void put_config(const struct bn_bench_measurement *m, bn_json *array, const struct bn_bench_config *c)
{
    char name[BN_BENCH_NAME];
    bn_json *o = bn_json_add_object(array);
    bn_bench_config_name(c, name, sizeof name);
    bn_json_put_object(o, "unavailable");
    bn_json_put_string(o, "name", name);
    bn_json_put_string(o, "test", c->decode ? "decode" : c->answer > 0 ? "generate" : "prompt");
    bn_json_put_u64(o, "tokens", c->tokens);
    if (c->answer > 0) bn_json_put_u64(o, "answer", c->answer);
    bn_json_put_u64(o, "depth", c->depth);
    bn_json_put_u64(o, "threads", c->n_threads);
    bn_json_put_u64(o, "sequences", c->n_sequences);
    bn_json_put_u64(o, "busy", c->n_busy);
    if (c->decode)
        bn_json_put_unavailable(o, "batch", "tokens are decoded one by one");
    else
        bn_json_put_u64(o, "batch", c->n_batch);
    bn_json_put_string(o, "verdict", bn_bench_verdict_name(c->verdict));
    bn_json_put_known(o, "reason", c->reason, "there is none");
    bn_json_put_known(o, "implausible", c->implausible, "there is none");
    bn_json_put_u64(o, "warmup_samples", c->n_warmup);
    if (bn_bench_can_settle(c->n_samples - c->n_warmup))
        bn_json_put_bool(o, "steady", c->steady);
    else
        bn_json_put_unavailable(o, "steady", "too few samples");
    if (c->n_samples > 0 && c->verdict != BN_BENCH_INVALID)
        bn_json_put_string(o, "output_sha256", c->samples[0].output);
    else
        bn_json_put_unavailable(o, "output_sha256", "no sample, or samples differ");
    bn_json *samples = bn_json_put_array(o, "samples");
    for (size_t i = 0; i < c->n_samples; i++)
        put_sample(m, samples, c, i);
    put_kernels(o, c);
    put_summary(m, c, o);
}

/* ---- depth ---- */

static void put_estimate(bn_json *object, const char *name, const struct bn_interval *interval)
{
    bn_json *o = bn_json_put_object(object, name);
    bn_json_put_number(o, "median", interval->estimate);
    bn_bench_put_interval(o, "median_interval", interval);
}

static bn_status put_depth(const struct bn_bench_measurement *m, bn_json *doc, bn_error *err)
{
    bn_json *array = bn_json_put_array(doc, "depth");
    for (size_t i = 0; i < m->o->decodes.n; i++)
        for (size_t t = 0; t < m->o->threads.n; t++) {
            struct bn_bench_depth_fit fit;
            BN_TRY(bn_bench_fit_depth(&fit, m, m->o->decodes.list[i], m->o->threads.list[t], err));
            if (fit.n == 0) continue;
            bn_json *o = bn_json_add_object(array);
            bn_json_put_u64(o, "tokens", fit.tokens);
            bn_json_put_u64(o, "threads", fit.n_threads);
            bn_json_put_u64(o, "rounds", fit.n);
            put_estimate(o, "base_ns", &fit.base_ns);
            put_estimate(o, "ns_per_position", &fit.ns_per_position);
        }
    return BN_OK;
}

/* ---- the whole ---- */

bn_status bn_bench_run_document(bn_json **out, const struct bn_bench_measurement *m, bn_error *err)
{
    bn_json *doc = bn_bench_document("run", &m->machine);
    put_settings(m, doc);
    bn_others_put(doc, &m->others);
    bn_bench_put_clock(doc, &m->clock);
    put_model(m, doc);
    put_memory(m, doc);
    put_bandwidth(m, doc);
    bn_json *rounds = bn_json_put_object(doc, "rounds");
    bn_json_put_u64(rounds, "n", m->n_rounds);
    bn_json_put_string(rounds, "ended_by", m->ended_by);
    bn_json *configs = bn_json_put_array(doc, "configurations");
    for (size_t i = 0; i < m->n_configs; i++)
        put_config(m, configs, &m->configs[i]);
    bn_bench_concurrent_put(m, doc);
    bn_bench_text_put(m, doc);
    bn_status status = put_depth(m, doc, err);
    bn_bench_targets_put(m, doc);
    bn_series_put(doc, &m->series);
    if (status == BN_OK) {
        *out = doc;
        return BN_OK;
    }
    bn_json_free(doc);
    return status;
}
