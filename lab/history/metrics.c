/* SPDX-License-Identifier: MIT
 *
 * The table of metrics. Every series that a command measures takes its unit and direction from here.
 */
#include "lab/history/series.h"

#include <string.h>

#include "lab/stats/summary.h"

/* LESS and MORE are better. SAME: without noise, so that any difference is a change; when samples of one run differ it is
 * LESS. NEITHER explains other metrics. */
enum better { LESS, MORE, SAME, SAME_MORE, NEITHER };

static const struct {
    const char *name, *unit;
    enum better better;
} METRICS[] = {
    /* times */
    {"ns_per_call", "ns", LESS},
    {"ns_per_load", "ns", LESS},
    {"ns_per_operation", "ns", LESS},
    {"ns_per_token", "ns", LESS},
    {"ns_per_step", "ns", LESS},
    {"first_token_ns", "ns", LESS},
    {"token_ns", "ns", LESS},
    {"token_jitter_ns", "ns", LESS},
    {"token_spread_ns", "ns", LESS},
    {"request_ns", "ns", LESS},
    {"load_ns", "ns", LESS},
    {"tokenize_ns_per_token", "ns", LESS},
    {"cpu_ns_per_token", "ns", LESS},
    {"ns_to_first_token", "ns", LESS},
    {"ns_between_tokens", "ns", LESS},
    {"interrupted_ns_between_tokens", "ns", LESS},
    /* what a token costs */
    {"price_per_million_tokens", "price", LESS},
    {"joules_per_token", "J", LESS},
    {"cycles_per_token", "cycles", LESS},
    {"instructions_per_token", "instructions", LESS},
    {"cache_misses_per_token", "misses", LESS},
    /* sizes */
    {"bytes_per_token", "bytes", SAME},
    {"kv_bytes_per_token", "bytes", SAME},
    {"exchange_bytes_per_token", "bytes", SAME},
    {"kv_bytes", "bytes", SAME},
    {"scratch_bytes", "bytes", SAME},
    {"handle_bytes", "bytes", SAME},
    {"heap_bytes", "bytes", SAME},
    {"masters_bytes", "bytes", SAME},
    {"moments_bytes", "bytes", SAME},
    {"ternary_bytes", "bytes", SAME},
    {"activations_bytes", "bytes", SAME},
    {"gradients_bytes", "bytes", LESS},
    {"peak_rss_bytes", "bytes", LESS},
    {"device_bytes", "bytes", LESS},
    /* quality */
    {"bits_per_weight", "1", SAME},
    {"mse", "1", SAME},
    {"perplexity", "1", SAME},
    {"nll", "nats/token", SAME},
    {"accuracy", "1", SAME_MORE},
    {"agreement", "1", SAME_MORE},
    {"kld", "nats/token", SAME},
    /* what explains the others */
    {"bytes_per_second", "bytes/s", NEITHER},
    {"limit_ns_per_token", "ns", NEITHER},
    {"share_of_bandwidth", "1", NEITHER},
    {"cache_hit_rate", "1", NEITHER},
    {"disturbed", "1", NEITHER},
    {"fairness", "1", NEITHER},
    {"time_by_calloc", "1", NEITHER},
    {"memory_utilisation", "1", NEITHER},
    {"pool_efficiency", "1", NEITHER},
    {"wait_ns_per_step", "ns", NEITHER},
    {"exchange_ns_per_token", "ns", NEITHER},
    {"loss", "nats/token", NEITHER},
    {"peak_flop_per_second", "FLOP/s", NEITHER},
};

bn_status bn_metric_add(struct bn_series_list *all, const char *test, const char *metric,
                        const double *samples, size_t n, size_t n_warmup, bn_error *err)
{
    size_t i = 0;
    if (n <= n_warmup) return BN_OK;
    while (i < BN_ARRAY_LEN(METRICS) && strcmp(METRICS[i].name, metric) != 0)
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
