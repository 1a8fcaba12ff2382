/* SPDX-License-Identifier: MIT
 *
 * /metrics in the text format of Prometheus: counters and histograms, which no reader resets.
 */
#include "tools/serve/serve.h"

static const double LIMITS[BN_SERVE_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                0.5,   1,    2.5,   10,   30,  120};

void bn_serve_metrics_observe(struct bn_histogram *histogram, uint64_t ns)
{
    double seconds = (double)ns / 1e9;
    size_t i = 0;
    while (i < BN_SERVE_BUCKETS && seconds > LIMITS[i])
        i++;
    histogram->counts[i]++;
    histogram->last[histogram->n++ % BN_SERVE_LAST] = (float)seconds;
    histogram->sum += seconds;
}

static void put_counter(struct bn_buf *out, const char *name, const char *help, uint64_t value)
{
    bn_buf_printf(out, "# HELP bn_%s %s\n# TYPE bn_%s counter\nbn_%s %llu\n", name, help, name, name,
                  (unsigned long long)value);
}

static void put_gauge(struct bn_buf *out, const char *name, const char *help, uint64_t value)
{
    bn_buf_printf(out, "# HELP bn_%s %s\n# TYPE bn_%s gauge\nbn_%s %llu\n", name, help, name, name,
                  (unsigned long long)value);
}

static void put_receipts(struct bn_buf *out, const struct bn_receipts_stats *stats)
{
    put_counter(out, "receipts_total", "receipts that were made", stats->n_made);
    put_counter(out, "receipts_lost_total", "receipts lost for lack of memory, or of a disk", stats->n_lost);
    put_counter(out, "receipts_write_failures_total", "attempts to write receipts that failed",
                stats->n_failures);
    put_gauge(out, "receipts", "receipts that are kept", stats->n);
    put_gauge(out, "receipts_bytes", "bytes of receipts that are kept", stats->n_bytes);
    put_gauge(out, "receipts_waiting", "of them, those that wait to be written", stats->n_waiting);
}

static void put_histogram(struct bn_buf *out, const char *name, const char *help,
                          const struct bn_histogram *h)
{
    uint64_t sum = 0;
    bn_buf_printf(out, "# HELP bn_%s %s\n# TYPE bn_%s histogram\n", name, help, name);
    for (size_t i = 0; i < BN_SERVE_BUCKETS; i++) {
        sum += h->counts[i];
        bn_buf_printf(out, "bn_%s_bucket{le=\"%g\"} %llu\n", name, LIMITS[i], (unsigned long long)sum);
    }
    bn_buf_printf(out, "bn_%s_bucket{le=\"+Inf\"} %llu\nbn_%s_sum %.9g\nbn_%s_count %llu\n", name,
                  (unsigned long long)h->n, name, h->sum, name, (unsigned long long)h->n);
}

void bn_serve_metrics_write(struct bn_server *s, struct bn_buf *out)
{
    pthread_mutex_lock(&s->lock);
    struct bn_serve_metrics m = s->metrics;
    pthread_mutex_unlock(&s->lock);
    struct bn_receipts_stats receipts = bn_receipts_stats(s);
    bn_buf_puts(
        out, "# HELP bn_responses_total responses by class of status\n# TYPE bn_responses_total counter\n");
    for (unsigned i = 2; i < 6; i++)
        bn_buf_printf(out, "bn_responses_total{status=\"%uxx\"} %llu\n", i,
                      (unsigned long long)m.responses[i]);
    put_counter(out, "jobs_total", "requests to generate that were accepted", m.n_jobs);
    put_counter(out, "jobs_ended_total", "of them, those that have ended", m.n_jobs_done);
    put_counter(out, "jobs_cancelled_total", "of them, those whose client left or that failed", m.n_left);
    put_counter(out, "jobs_rejected_total", "requests refused because the queue was full", m.n_rejected);
    put_counter(out, "generations_total", "answers that were generated", m.n_generations);
    put_counter(out, "prompt_tokens_total", "tokens of prompts", m.prompt_tokens);
    put_counter(out, "cached_tokens_total", "of them, those that were not evaluated again", m.cached_tokens);
    put_counter(out, "generated_tokens_total", "tokens that were generated", m.generated_tokens);
    put_counter(out, "evaluated_tokens_total", "tokens of prompts and answers that were evaluated",
                m.evaluated_tokens);
    put_counter(out, "passes_total", "passes over the model", m.n_passes);
    put_gauge(out, "connections", "open connections", m.n_connections);
    put_counter(out, "connections_refused_total", "connections refused because their address has too many",
                m.n_refused);
    put_receipts(out, &receipts);
    put_histogram(out, "first_token_seconds", "from the request to its first token", &m.first_token);
    put_histogram(out, "next_token_seconds", "between two tokens of an answer", &m.next_token);
    put_histogram(out, "request_seconds", "from the request to the end of its answer", &m.request);
}
