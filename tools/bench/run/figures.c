/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: figures computed from the samples, and whether the samples are valid.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "lab/stats/changepoint.h"
#include "lab/stats/summary.h"
#include "tools/bench/run/run.h"
#include "tools/cli/text.h"

#define LEAST_WINDOW 3u
#define MOST_WINDOW 20u
#define STEADY_TOLERANCE 0.02

/* ---- tests ---- */

static uint32_t n_rated(const struct bn_bench_config *c)
{
    if (c->n_concurrent > 1) return (c->tokens + 1) * c->n_concurrent;
    return (c->tokens + c->answer) * c->n_sequences;
}

uint32_t bn_bench_n_times(const struct bn_bench_config *c)
{
    if (c->n_concurrent > 1) return c->n_concurrent;
    return c->decode ? c->tokens : c->answer > 0 ? c->answer - 1 : 0; /* tokens after the first one */
}

const char *bn_bench_config_kind(const struct bn_bench_config *c)
{
    return c->n_concurrent > 1 ? "concurrent" : c->decode ? "decode" : c->answer > 0 ? "generate" : "prompt";
}

void bn_bench_config_name(const struct bn_bench_config *c, char *out, size_t room)
{
    char many[16] = "", answer[16] = "", batch[16] = "", busy[24] = "", sequences[24] = "";
    if (c->n_concurrent > 1) snprintf(many, sizeof many, " k=%u", c->n_concurrent);
    if (c->answer > 0) snprintf(answer, sizeof answer, "+%u", c->answer);
    if (!c->decode) snprintf(batch, sizeof batch, " b=%u", c->n_batch);
    if (c->n_busy > 0) snprintf(busy, sizeof busy, " busy=%u", c->n_busy);
    if (c->n_sequences > 1) snprintf(sequences, sizeof sequences, " seq=%u", c->n_sequences);
    snprintf(out, room, "%s%s n=%u%s d=%u t=%u%s%s%s", bn_bench_config_kind(c), many, c->tokens, answer,
             c->depth, c->n_threads, batch, sequences, busy);
}

/* ---- the numbers of a sample ---- */

/* What a number is of; the first BN_USED are what was used. */
enum what {
    NS = BN_USED,
    PRICE,
    FIRST,
    TOKENS,
    JITTER,
    SPREAD,
    REQUESTS,
    FAIRNESS,
    BYTES,
    SPEED,
    SHARE,
    EXCHANGED,
    EXCHANGING,
    DISTURBED,
    RATE
};

/* The series of a test, in their order; names are those of lab/history/metrics.c. The last one, the rate, is not a series: it is
 * the reciprocal of the time. */
static const struct figure {
    const char *metric;
    int what;
} FIGURES[] = {{"ns_per_token", NS},
               {"price_per_million_tokens", PRICE},
               {"first_token_ns", FIRST},
               {"token_ns", TOKENS},
               {"token_jitter_ns", JITTER},
               {"token_spread_ns", SPREAD},
               {"request_ns", REQUESTS},
               {"fairness", FAIRNESS},
               {"cycles_per_token", BN_USED_CYCLES},
               {"instructions_per_token", BN_USED_INSTRUCTIONS},
               {"cache_misses_per_token", BN_USED_CACHE_MISSES},
               {"cache_hit_rate", BN_USED_HIT_RATE},
               {"cpu_ns_per_token", BN_USED_CPU_NS},
               {"joules_per_token", BN_USED_JOULES},
               {"peak_rss_bytes", BN_USED_PEAK_BYTES},
               {"device_bytes", BN_USED_DEVICE_BYTES},
               {"bytes_per_token", BYTES},
               {"bytes_per_second", SPEED},
               {"share_of_bandwidth", SHARE},
               {"exchange_bytes_per_token", EXCHANGED},
               {"exchange_ns_per_token", EXCHANGING},
               {"disturbed", DISTURBED},
               {"tokens_per_second", RATE}};

/* Jain's index of the rates: 1 when all are equally fast, 1 / n when only one of n advances. */
static double fairness(const double *ns, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double rate = 1e9 / ns[i];
        sum += rate;
        squares += rate * rate;
    }
    return sum * sum / ((double)n * squares);
}

/* Numbers that follow from the times of a sample, which are in x: the times themselves, or one that is computed in place. How
 * evenly tokens stream: the median of the absolute differences of neighbouring times, from three tokens on, and the 95 %
 * quantile of the times less their median, from 20 on; at least 1 ns. */
static size_t of_times(int what, bool many, double *x, size_t n)
{
    if (many != (what == REQUESTS || what == FAIRNESS)) return 0;
    switch (what) {
    case FAIRNESS:
        *x = fairness(x, n);
        return 1;
    case JITTER:
        for (size_t k = 0; k + 1 < n; k++)
            x[k] = fabs(x[k + 1] - x[k]);
        if (n >= 3) *x = fmax(1, bn_median_in_place(x, n - 1));
        return n >= 3;
    case SPREAD:
        bn_sort(x, n);
        if (n < bn_quantile_needs(0.95)) return 0;
        *x = fmax(1, bn_sorted_quantile(x, n, 0.95) - bn_sorted_quantile(x, n, 0.5));
        return 1;
    default:
        return n;
    }
}

/* One that is not known is NaN. What was used and is 0 was too short for its meter. */
static double number(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                     const struct bn_bench_sample *s, int what)
{
    double rated = n_rated(c), ns = (double)s->ns / rated;
    double speed = s->total_ns > 0 ? (double)s->bytes * 1e9 / (double)s->total_ns : 0;
    switch (what) {
    case NS:
        return ns;
    case RATE:
        return ns > 0 ? 1e9 / ns : 0;
    case PRICE: /* of a machine with this price, busy with nothing else */
        return ns * m->o->price_per_hour * 1e6 / 3600e9;
    case FIRST:
        return (double)s->first_token_ns;
    case BYTES:
        return (double)s->bytes / (double)s->evaluated;
    case SPEED:
        return speed;
    case SHARE:
        return s->bandwidth > 0 ? speed / s->bandwidth : (double)NAN;
    case EXCHANGED:
        return (double)s->ranks.bytes / (double)s->evaluated;
    case EXCHANGING:
        return (double)s->ranks.ns / (double)s->evaluated;
    case DISTURBED:
        return s->disturbed;
    case BN_USED_HIT_RATE:
    case BN_USED_PEAK_BYTES:
    case BN_USED_DEVICE_BYTES:
        return s->used[what];
    default:
        return s->used[what] > 0 ? s->used[what] / rated : (double)NAN;
    }
}

/* Writes the numbers of one sample to x, which has room for 1 + bn_bench_n_times more, and returns how many; 0: this test has
 * none. Arithmetic bounds a prompt, not reading, and the bandwidth is that of the threads of one generation. */
static size_t numbers(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                      const struct bn_bench_sample *s, int what, double *x)
{
    bool many = c->n_concurrent > 1;
    if ((what == PRICE && !(m->o->price_per_hour > 0)) || (what == FIRST && many) ||
        (what == SHARE && (many || !c->decode)) ||
        ((what == EXCHANGED || what == EXCHANGING) && s->ranks.ranks == 0))
        return 0;
    if (what < TOKENS || what > FAIRNESS) {
        *x = number(m, c, s, what);
        return 1;
    }
    for (uint32_t k = 0; k < bn_bench_n_times(c); k++)
        x[k] = (double)s->times[k];
    return of_times(what, many, x, bn_bench_n_times(c));
}

#define N_SERIES (BN_ARRAY_LEN(FIGURES) - 1)

static size_t collect(const struct bn_bench_measurement *m, const struct bn_bench_config *c, int what,
                      size_t *n_warmup)
{
    size_t n = 0;
    for (size_t i = n_warmup != NULL ? 0 : c->n_warmup; i < c->n_samples; i++) {
        size_t each = numbers(m, c, &c->samples[i], what, m->scratch + n);
        for (size_t k = 0; k < each; k++)
            if (isnan(m->scratch[n + k])) return 0;
        if (n_warmup != NULL && i == c->n_warmup) *n_warmup = n;
        n += each;
    }
    return n;
}

size_t bn_bench_collect(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                        const char *metric, size_t *n_warmup)
{
    const struct figure *f = FIGURES;
    while (strcmp(f->metric, metric) != 0)
        f++;
    return collect(m, c, f->what, n_warmup);
}

double bn_bench_median_of(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                          const char *metric)
{
    size_t n = bn_bench_collect(m, c, metric, NULL);
    return n > 0 ? bn_median(m->scratch, n) : (double)NAN;
}

/* ---- of all samples ---- */

bn_status bn_bench_config_series(struct bn_bench_measurement *m, const struct bn_bench_config *c,
                                 bn_error *err)
{
    char name[BN_BENCH_NAME];
    bn_bench_config_name(c, name, sizeof name);
    for (size_t i = 0; i < N_SERIES; i++) {
        int what = FIGURES[i].what;
        size_t n_warmup = 0, n = collect(m, c, what, &n_warmup);
        if (n > 0)
            BN_TRY(bn_metric_add(&m->h.series, name, FIGURES[i].metric, m->scratch, n, n_warmup, err));
        else if (what < BN_USED_PEAK_BYTES)
            bn_json_put_unavailable(c->test, FIGURES[i].metric, m->meters.why[what]);
    }
    return BN_OK;
}

bn_status bn_bench_reserve(struct bn_bench_measurement *m, bn_error *err)
{
    size_t most = m->n_rounds + 1u; /* of bandwidth */
    if (m->o != NULL && m->o->n_loads > most) most = m->o->n_loads;
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
    size_t n = bn_bench_collect(m, c, "ns_per_token", NULL);
    *out = false;
    if (!bn_bench_can_settle(n)) return BN_OK;
    BN_TRY(bn_steady(&steady, m->scratch, n, bn_min_size(n / 2, MOST_WINDOW), STEADY_TOLERANCE, err));
    *out = steady.steady;
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
                "the output of round %zu differs from that of the first round with %u thread%s and batches of %u",
                k, same->n_threads, bn_cli_s(same->n_threads), same->n_batch);
            refuse(c, reason);
        }
    }
}

/* Finds the samples during which the machine was disturbed. */
static void find_disturbed(const struct bn_bench_measurement *m, struct bn_bench_config *c)
{
    size_t n = c->n_samples - c->n_warmup;
    if (n == 0) return;
    struct bn_bench_sample *samples = c->samples + c->n_warmup;
    for (size_t i = 0; i < n; i++)
        m->scratch[i] = (double)samples[i].noise.involuntary_switches;
    double median = bn_median(m->scratch, n);
    for (size_t i = 0; i < n; i++) {
        const struct bn_noise *noise = &samples[i].noise;
        double stalled_us = (double)(noise->cpu_us + noise->memory_us + noise->io_us);
        samples[i].disturbed =
            (noise->steal_known && noise->steal_ns > 0) ||
            (noise->pressure_known && stalled_us * 1000 > 0.01 * (double)samples[i].total_ns) ||
            (double)noise->involuntary_switches > 2 * median + 2;
    }
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
        if (!bn_bench_believable(m->scratch, n, m->h.clock.resolution_ns, reason)) refuse(c, reason);
        BN_TRY(bn_bench_is_steady(m, c, &c->steady, err));
        find_disturbed(m, c);
        if (c->verdict == BN_BENCH_VALID && c->decode)
            bn_bench_implausible(c->implausible, bn_bench_median_of(m, c, "share_of_bandwidth"));
    }
    return BN_OK;
}
