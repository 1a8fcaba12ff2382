/* SPDX-License-Identifier: MIT
 *
 * The table of metrics. Every series that a command measures takes its unit and direction from here.
 */
#include "lab/history/series.h"

#include <stdio.h>
#include <string.h>

#include "lab/stats/summary.h"

/* LESS and MORE are better. SAME: without noise, so that any difference is a change; when samples of one run differ it is
 * LESS. NEITHER explains other metrics. */
enum better { LESS, MORE, SAME, SAME_MORE, NEITHER };

static const struct {
    const char *unit;
    enum better better;
    const char *names; /* with a blank around each */
} METRICS[] = {
    /* times */
    {"ns", LESS,
     " ns_per_call ns_per_load ns_per_operation ns_per_token ns_per_step first_token_ns token_ns "
     "token_jitter_ns token_spread_ns request_ns load_ns tokenize_ns_per_token cpu_ns_per_token "
     "ns_to_first_token ns_between_tokens interrupted_ns_between_tokens "},
    /* what a token costs */
    {"price", LESS, " price_per_million_tokens "},
    {"J", LESS, " joules_per_token "},
    {"cycles", LESS, " cycles_per_token "},
    {"instructions", LESS, " instructions_per_token "},
    {"misses", LESS, " cache_misses_per_token "},
    /* sizes */
    {"bytes", SAME,
     " bytes_per_token kv_bytes_per_token exchange_bytes_per_token kv_bytes scratch_bytes "
     "handle_bytes heap_bytes masters_bytes moments_bytes ternary_bytes activations_bytes "},
    {"bytes", LESS, " gradients_bytes peak_rss_bytes device_bytes "},
    /* quality */
    {"1", SAME, " bits_per_weight mse perplexity "},
    {"nats/token", SAME, " nll kld "},
    {"1", SAME_MORE, " accuracy agreement "},
    /* what explains the others */
    {"bytes/s", NEITHER, " bytes_per_second "},
    {"ns", NEITHER, " limit_ns_per_token wait_ns_per_step exchange_ns_per_token "},
    {"1", NEITHER,
     " share_of_bandwidth cache_hit_rate disturbed fairness time_by_calloc memory_utilisation "
     "pool_efficiency "},
    {"nats/token", NEITHER, " loss "},
    {"FLOP/s", NEITHER, " peak_flop_per_second "},
};

bn_status bn_metric_add(struct bn_series_list *all, const char *test, const char *metric,
                        const double *samples, size_t n, size_t n_warmup, bn_error *err)
{
    size_t i = 0;
    char word[64];
    if (n <= n_warmup) return BN_OK;
    snprintf(word, sizeof word, " %.60s ", metric);
    while (i < BN_ARRAY_LEN(METRICS) && strstr(METRICS[i].names, word) == NULL)
        i++;
    if (i == BN_ARRAY_LEN(METRICS)) return bn_fail(err, BN_ERR_INTERNAL, "no metric is called '%s'", metric);
    enum better better = METRICS[i].better;
    struct bn_series s = {.test = test,
                          .metric = metric,
                          .unit = METRICS[i].unit,
                          .higher = better == MORE || better == SAME_MORE,
                          .samples = samples + n_warmup,
                          .n = n - n_warmup,
                          .n_warmup = n_warmup,
                          .neutral = better == NEITHER};
    s.exact = (better == SAME || better == SAME_MORE) && bn_all_equal(s.samples, s.n);
    return bn_series_add(all, &s, err);
}
