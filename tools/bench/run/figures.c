/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: figures computed from the samples, and whether the samples are valid.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "infer/session.h"
#include "lab/stats/changepoint.h"
#include "lab/stats/summary.h"
#include "tools/bench/run/run.h"
#include "tools/cli/text.h"

#define LEAST_WINDOW 3u
#define MOST_WINDOW 20u
#define STEADY_TOLERANCE 0.02

/* ---- figures of one sample ---- */

static double per_second(double what, uint64_t ns)
{
    return ns > 0 ? what * 1e9 / (double)ns : 0;
}

uint32_t bn_bench_n_rated(const struct bn_bench_config *c)
{
    return (c->tokens + c->answer) * c->n_sequences;
}

uint32_t bn_bench_n_times(const struct bn_bench_config *c)
{
    return c->decode ? c->tokens : c->answer > 0 ? c->answer - 1 : 0;
}

double bn_bench_ns_per_token(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    return (double)s->ns / bn_bench_n_rated(c);
}

double bn_bench_tokens_per_second(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    return per_second(bn_bench_n_rated(c), s->ns);
}

double bn_bench_first_token_ns(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    (void)c;
    return (double)s->first_token_ns;
}

double bn_bench_bytes_per_token(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    (void)c;
    return (double)s->bytes / (double)s->evaluated;
}

double bn_bench_bytes_per_second(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    (void)c;
    return per_second((double)s->bytes, s->total_ns);
}

double bn_bench_share_of_bandwidth(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    return s->bandwidth > 0 ? bn_bench_bytes_per_second(c, s) / s->bandwidth : 0;
}

double bn_bench_cpu_use(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    return s->total_ns > 0 ? (double)s->usage.cpu_ns / (double)s->total_ns / c->n_threads : 0;
}

/* ---- of all samples ---- */

void bn_bench_config_name(const struct bn_bench_config *c, char *out, size_t room)
{
    char answer[16] = "", batch[16] = "", busy[24] = "", sequences[24] = "";
    if (c->answer > 0) snprintf(answer, sizeof answer, "+%u", c->answer);
    if (!c->decode) snprintf(batch, sizeof batch, " b=%u", c->n_batch);
    if (c->n_busy > 0) snprintf(busy, sizeof busy, " busy=%u", c->n_busy);
    if (c->n_sequences > 1) snprintf(sequences, sizeof sequences, " seq=%u", c->n_sequences);
    snprintf(out, room, "%s n=%u%s d=%u t=%u%s%s%s",
             c->decode       ? "decode"
             : c->answer > 0 ? "generate"
                             : "prompt",
             c->tokens, answer, c->depth, c->n_threads, batch, sequences, busy);
}

size_t bn_bench_collect(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                        bn_bench_figure figure)
{
    size_t n = 0;
    for (size_t i = c->n_warmup; i < c->n_samples; i++)
        m->scratch[n++] = figure(c, &c->samples[i]);
    return n;
}

size_t bn_bench_collect_tokens(const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    size_t n = 0;
    for (size_t i = c->n_warmup; i < c->n_samples; i++)
        for (uint32_t k = 0; k < bn_bench_n_times(c); k++)
            m->scratch[n++] = (double)c->samples[i].token_ns[k];
    return n;
}

/* The numbers of a sample are computed in scratch after those of the samples before it. */
size_t bn_bench_collect_jitter(const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    size_t n = 0, n_gaps = bn_bench_n_times(c) - 1u;
    if (bn_bench_n_times(c) < 3) return 0;
    for (size_t i = c->n_warmup; i < c->n_samples; i++, n++) {
        const uint64_t *ns = c->samples[i].token_ns;
        for (size_t k = 0; k < n_gaps; k++)
            m->scratch[n + k] = fabs((double)ns[k + 1] - (double)ns[k]);
        m->scratch[n] = fmax(1, bn_median_in_place(m->scratch + n, n_gaps));
    }
    return n;
}

size_t bn_bench_collect_spread(const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    size_t n = 0, n_times = bn_bench_n_times(c);
    if (n_times < bn_quantile_needs(0.95)) return 0;
    for (size_t i = c->n_warmup; i < c->n_samples; i++, n++) {
        double *x = m->scratch + n;
        for (size_t k = 0; k < n_times; k++)
            x[k] = (double)c->samples[i].token_ns[k];
        bn_sort(x, n_times);
        x[0] = fmax(1, bn_sorted_quantile(x, n_times, 0.95) - bn_sorted_quantile(x, n_times, 0.5));
    }
    return n;
}

uint64_t bn_bench_kv_bytes(const bn_model *model)
{
    const bn_hparams *hp = bn_model_hparams(model);
    return 2ull * sizeof(uint16_t) * bn_kv_heads(hp) * hp->head_dim;
}

bn_status bn_bench_reserve(struct bn_bench_measurement *m, bn_error *err)
{
    size_t most = m->n_rounds + 1u; /* of bandwidth */
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        size_t n = c->n_samples * (1u + bn_bench_n_times(c));
        if (n > most) most = n;
    }
    double *scratch = bn_realloc(m->scratch, most, sizeof *scratch);
    if (scratch == NULL) return bn_nomem(err);
    m->scratch = scratch;
    return BN_OK;
}

bool bn_bench_can_settle(size_t n)
{
    return n >= 2 * LEAST_WINDOW;
}

/* Whether the last half of the samples is like the half before it. */
bn_status bn_bench_is_steady(const struct bn_bench_measurement *m, const struct bn_bench_config *c, bool *out,
                             bn_error *err)
{
    struct bn_steady steady;
    size_t n = bn_bench_collect(m, c, bn_bench_ns_per_token);
    *out = false;
    if (!bn_bench_can_settle(n)) return BN_OK;
    BN_TRY(bn_steady(&steady, m->scratch, n, bn_min_size(n / 2, MOST_WINDOW), STEADY_TOLERANCE, err));
    *out = steady.steady;
    return BN_OK;
}

bn_status bn_bench_all_precise(const struct bn_bench_measurement *m, bool *all, bn_error *err)
{
    *all = true;
    for (size_t i = 0; i < m->n_configs && *all; i++) {
        struct bn_interval ci;
        const struct bn_bench_config *c = &m->configs[i];
        if (c->verdict != BN_BENCH_VALID) continue;
        size_t n = bn_bench_collect(m, c, bn_bench_ns_per_token);
        BN_TRY(bn_interval_median(&ci, m->scratch, n, m->confidence, err));
        *all = (ci.high - ci.low) / 2 <= m->precision * ci.estimate; /* false without an interval */
    }
    return BN_OK;
}

/* ---- verdicts ---- */

static void refuse(struct bn_bench_config *c, const char *reason)
{
    if (c->verdict != BN_BENCH_VALID) return;
    c->verdict = BN_BENCH_INVALID;
    snprintf(c->reason, sizeof c->reason, "%s", reason);
}

static bool is_same_test(const struct bn_bench_config *a, const struct bn_bench_config *b)
{
    return a->decode == b->decode && a->tokens == b->tokens && a->answer == b->answer && a->depth == b->depth;
}

static double median_rate(const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    size_t n = bn_bench_collect(m, c, bn_bench_tokens_per_second);
    return c->verdict == BN_BENCH_VALID && n > 0 ? bn_median(m->scratch, n) : (double)NAN;
}

double bn_bench_share_of_quiet(const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    for (size_t i = 0; i < m->n_configs && c->n_busy > 0; i++) {
        const struct bn_bench_config *q = &m->configs[i];
        if (q->n_busy == 0 && is_same_test(q, c) && q->n_threads == c->n_threads && q->n_batch == c->n_batch)
            return median_rate(m, c) / median_rate(m, q);
    }
    return (double)NAN;
}

void bn_bench_check_outputs(struct bn_bench_config *configs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct bn_bench_config *c = &configs[i], *same = configs;
        while (!is_same_test(same, c) || (same->n_samples == 0 && same != c))
            same++;
        for (size_t k = 0; k < c->n_samples; k++) {
            char reason[BN_BENCH_REASON];
            if (strcmp(c->samples[k].output, same->samples[0].output) == 0) continue;
            snprintf(
                reason, sizeof reason,
                "the output of round %u differs from that of round %u with %u thread%s and batches of %u",
                c->samples[k].round, same->samples[0].round, same->n_threads, bn_cli_s(same->n_threads),
                same->n_batch);
            refuse(c, reason);
        }
    }
}

/* Labels outliers, and the disturbances of every sample. */
static bn_status label(const struct bn_bench_measurement *m, struct bn_bench_config *c, bn_error *err)
{
    struct bn_summary switches = {0};
    size_t n = c->n_samples - c->n_warmup;
    struct bn_bench_sample *samples = c->samples + c->n_warmup;
    struct bn_tukey fences;
    for (size_t i = 0; i < n; i++)
        m->scratch[i] = (double)samples[i].noise.involuntary_switches;
    (void)bn_summarize(&switches, m->scratch, n);
    (void)bn_bench_collect(m, c, bn_bench_ns_per_token);
    if (n > 0 && !bn_tukey(&fences, m->scratch, n)) return bn_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const struct bn_noise *noise = &samples[i].noise;
        double stalled_us = (double)(noise->cpu_us + noise->memory_us + noise->io_us);
        samples[i].outlier = bn_tukey_label(&fences, m->scratch[i]);
        samples[i].stolen = noise->steal_known && noise->steal_ns > 0;
        samples[i].pressed = noise->pressure_known && stalled_us * 1000 > 0.01 * (double)samples[i].total_ns;
        samples[i].switched = (double)noise->involuntary_switches > 2 * switches.median + 2;
    }
    return BN_OK;
}

static void doubt(const struct bn_bench_measurement *m, struct bn_bench_config *c)
{
    struct bn_summary share;
    size_t n = bn_bench_collect(m, c, bn_bench_share_of_bandwidth);
    if (c->decode && bn_summarize(&share, m->scratch, n)) bn_bench_implausible(c->implausible, share.median);
}

bn_status bn_bench_conclude(struct bn_bench_measurement *m, bn_error *err)
{
    bn_bench_check_outputs(m->configs, m->n_configs);
    for (size_t i = 0; i < m->n_configs; i++) {
        struct bn_bench_config *c = &m->configs[i];
        char reason[BN_BENCH_REASON];
        c->n_warmup = bn_min_size(c->n_warmup, c->n_samples);
        for (size_t k = 0; k < c->n_samples - c->n_warmup; k++)
            m->scratch[k] = (double)c->samples[c->n_warmup + k].ns;
        size_t n = c->n_samples - c->n_warmup;
        if (!bn_bench_believable(m->scratch, n, m->clock.resolution_ns, reason)) refuse(c, reason);
        BN_TRY(bn_bench_is_steady(m, c, &c->steady, err));
        BN_TRY(label(m, c, err));
        if (c->verdict == BN_BENCH_VALID) doubt(m, c);
    }
    return BN_OK;
}

/* ---- depth ---- */

/* Of one round: least squares through the configurations of this test, by depth. */
static bool fit_round(const struct bn_bench_measurement *m, uint32_t tokens, uint32_t n_threads,
                      size_t sample, double *base, double *slope)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        if (!c->decode || c->tokens != tokens || c->n_threads != n_threads || c->n_busy > 0) continue;
        if (c->verdict != BN_BENCH_VALID || sample >= c->n_samples) return false;
        double ns = bn_bench_ns_per_token(c, &c->samples[sample]);
        n += 1;
        x += c->depth;
        y += ns;
        xx += (double)c->depth * c->depth;
        xy += c->depth * ns;
    }
    double spread = n * xx - x * x;
    if (!(spread > 0)) return false;
    *slope = (n * xy - x * y) / spread;
    *base = (y - *slope * x) / n;
    return true;
}

bn_status bn_bench_fit_depth(struct bn_bench_depth_fit *out, const struct bn_bench_measurement *m,
                             uint32_t tokens, uint32_t n_threads, bn_error *err)
{
    size_t first = 0;
    for (size_t i = 0; i < m->n_configs; i++)
        if (m->configs[i].n_warmup > first) first = m->configs[i].n_warmup;
    size_t n = m->n_rounds > first ? m->n_rounds - first : 0;
    double *base = bn_alloc(n + 1, sizeof *base), *slope = bn_alloc(n + 1, sizeof *slope);
    bool ok = n > 0;
    bn_status status = BN_OK;
    *out = (struct bn_bench_depth_fit){.tokens = tokens, .n_threads = n_threads};
    if (base == NULL || slope == NULL) status = bn_nomem(err);
    for (size_t i = 0; i < n && ok && status == BN_OK; i++)
        ok = fit_round(m, tokens, n_threads, first + i, &base[i], &slope[i]);
    if (ok && status == BN_OK) {
        out->n = n;
        status = bn_interval_median(&out->base_ns, base, n, m->confidence, err);
    }
    if (ok && status == BN_OK)
        status = bn_interval_median(&out->ns_per_position, slope, n, m->confidence, err);
    bn_free(base);
    bn_free(slope);
    return status;
}

/* ---- series ---- */

static bn_status add(struct bn_series_list *all, const char *test, const char *metric, const char *unit,
                     bool exact, const double *samples, size_t n, bn_error *err)
{
    struct bn_series s = {
        .test = test, .metric = metric, .unit = unit, .exact = exact, .samples = samples, .n = n};
    return bn_series_add(all, &s, err);
}

static bn_status add_config(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                            struct bn_series_list *all, bn_error *err)
{
    char test[BN_BENCH_NAME];
    double *x = m->scratch;
    bn_bench_config_name(c, test, sizeof test);
    size_t n = bn_bench_collect(m, c, bn_bench_ns_per_token);
    BN_TRY(add(all, test, "ns_per_token", "ns", false, x, n, err));
    for (size_t i = 0; i < n; i++)
        x[i] *=
            m->o->price_per_hour * 1e6 / 3600e9; /* a million tokens of a machine busy with nothing else */
    if (m->o->price_per_hour > 0)
        BN_TRY(add(all, test, "price_per_million_tokens", "price", false, x, n, err));
    n = bn_bench_collect(m, c, bn_bench_first_token_ns);
    BN_TRY(add(all, test, "first_token_ns", "ns", false, x, n, err));
    n = bn_bench_collect_tokens(m, c);
    if (n > 0) BN_TRY(add(all, test, "token_ns", "ns", false, x, n, err));
    n = bn_bench_collect_jitter(m, c);
    if (n > 0) BN_TRY(add(all, test, "token_jitter_ns", "ns", false, x, n, err));
    n = bn_bench_collect_spread(m, c);
    if (n > 0) BN_TRY(add(all, test, "token_spread_ns", "ns", false, x, n, err));
    BN_TRY(bn_bench_usage_series(m, c, all, err));
    n = bn_bench_collect(m, c, bn_bench_bytes_per_token);
    return add(all, test, "bytes_per_token", "bytes", bn_all_equal(x, n), x, n, err);
}

bn_status bn_bench_run_series(struct bn_bench_measurement *m, bn_error *err)
{
    struct bn_series_list *all = &m->series;
    for (size_t i = 0; i < m->n_configs; i++)
        if (m->configs[i].verdict == BN_BENCH_VALID) BN_TRY(add_config(m, &m->configs[i], all, err));
    double kv = (double)bn_bench_kv_bytes(m->model), peak = (double)m->memory.peak;
    size_t first = m->warmup < m->memory.n_rounds ? m->warmup : m->memory.n_rounds;
    BN_TRY(add(all, "session", "kv_bytes_per_token", "bytes", true, &kv, 1, err));
    if (peak > 0) BN_TRY(add(all, "process", "peak_rss_bytes", "bytes", false, &peak, 1, err));
    if (m->meters.resets && first < m->memory.n_rounds)
        BN_TRY(add(all, "round", "peak_rss_bytes", "bytes", false, m->memory.rounds + first,
                   m->memory.n_rounds - first, err));
    double *loads = bn_alloc(m->o->n_loads, sizeof *loads);
    if (loads == NULL) return bn_nomem(err);
    for (uint32_t i = 0; i < m->o->n_loads; i++)
        loads[i] = (double)m->loads[i].ns;
    bn_status status =
        add(all, m->o->cold ? "load cold" : "load", "load_ns", "ns", false, loads, m->o->n_loads, err);
    bn_free(loads);
    if (status == BN_OK) status = bn_bench_concurrent_series(m, all, err);
    if (status == BN_OK) status = bn_bench_text_series(m, all, err);
    return status;
}
