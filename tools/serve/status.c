/* SPDX-License-Identifier: MIT
 *
 * What the server does now: /metrics, and /v1/status, which the dashboard polls. The engine writes what changes under the lock, after each
 * pass; a reader copies it and never waits for a pass. Clients are numbers: those of their keys, else in the order of
 * their first request.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "infer/session.h"
#include "lab/host/machine.h"
#include "lab/stats/summary.h"
#include "model/model.h"
#include "tools/serve/job.h"

/* ---- counters: /v1/status has them by name, /metrics as bn_NAME_total; and what goes up and down ---- */

struct number {
    const char *name, *help;
    uint64_t value;
    bool is_gauge;
};
#define NUMBERS 18u

static void list_numbers(struct number out[NUMBERS], const struct bn_serve_metrics *m,
                         const struct bn_receipts_stats *r)
{
    const struct number list[NUMBERS] = {
        {"jobs", "requests to generate that were accepted", m->n_jobs, false},
        {"jobs_ended", "of them, those that have ended", m->n_jobs_done, false},
        {"jobs_cancelled", "of them, those whose client left or that failed", m->n_left, false},
        {"jobs_rejected", "requests refused because the queue was full", m->n_rejected, false},
        {"generations", "answers that were generated", m->n_generations, false},
        {"prompt_tokens", "tokens of prompts", m->prompt_tokens, false},
        {"cached_tokens", "of them, those that were not evaluated again", m->cached_tokens, false},
        {"generated_tokens", "tokens that were generated", m->generated_tokens, false},
        {"evaluated_tokens", "tokens of prompts and answers that were evaluated", m->evaluated_tokens, false},
        {"passes", "passes over the model", m->n_passes, false},
        {"connections_refused", "connections refused because their address has too many", m->n_refused,
         false},
        {"receipts", "receipts that were made", r->n_made, false},
        {"receipts_lost", "receipts lost for lack of memory, or of a disk", r->n_lost, false},
        {"receipts_write_failures", "attempts to write receipts that failed", r->n_failures, false},
        {"connections", "open connections", m->n_connections, true},
        {"receipts", "receipts that are kept", r->n, true},
        {"receipts_bytes", "bytes of receipts that are kept", r->n_bytes, true},
        {"receipts_waiting", "of them, those that wait to be written", r->n_waiting, true},
    };
    memcpy(out, list, sizeof list);
}

/* ---- written by the engine ---- */

void bn_status_pass(struct bn_engine *e)
{
    struct bn_server *s = e->server;
    for (size_t i = 0; i < e->lanes.n; i++) {
        const struct bn_lane *lane = &e->lanes.list[i];
        if (lane->gen == NULL) continue;
        struct bn_choice *c = lane->gen->user;
        uint32_t position = bn_sequence_position(lane->sequence);
        if (!c->placed) c->position = (uint32_t)c->gen.n_cached;
        /* Those that were cached count when the sequence is placed, the others as they are evaluated. */
        if (!c->placed) s->metrics.prompt_tokens += c->gen.n_cached;
        if (!c->placed) s->metrics.cached_tokens += c->gen.n_cached;
        if (position > c->position) {
            size_t n_prompt = c->gen.n_prompt;
            s->metrics.evaluated_tokens += position - c->position;
            s->metrics.prompt_tokens += bn_min_size(position, n_prompt) - bn_min_size(c->position, n_prompt);
        }
        c->placed = true;
        c->lane = (uint32_t)i;
        c->position = position;
    }
}

static const double LIMITS[BN_SERVE_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                0.5,   1,    2.5,   10,   30,  120};

void bn_status_observe(struct bn_histogram *histogram, uint64_t ns)
{
    double seconds = (double)ns / 1e9;
    size_t i = 0;
    while (i < BN_SERVE_BUCKETS && seconds > LIMITS[i])
        i++;
    histogram->counts[i]++;
    histogram->last[histogram->n++ % BN_SERVE_LAST] = (float)seconds;
    histogram->sum += seconds;
}

void bn_status_tokens(struct bn_choice *c, uint64_t now_ns)
{
    struct bn_serve_metrics *m = &c->job->server->metrics;
    if (c->gen.n_ids <= c->n_seen) return;
    if (c->n_seen == 0) {
        c->first_token_s = (double)(now_ns - c->job->since_ns) / 1e9;
        bn_status_observe(&m->first_token, now_ns - c->job->since_ns);
    } else {
        bn_status_observe(&m->next_token, now_ns - c->last_ns);
    }
    m->generated_tokens += c->gen.n_ids - c->n_seen;
    c->last_ns = now_ns;
    c->n_seen = c->gen.n_ids;
}

/* The number of a client that has no key; 0 when there were too many. */
static uint32_t number_of(struct bn_status_log *log, uint64_t client)
{
    size_t i = 0;
    while (i < log->n_clients && log->clients[i] != client)
        i++;
    if (i == BN_SERVE_STRANGERS) return 0;
    if (i == log->n_clients) log->clients[log->n_clients++] = client;
    return (uint32_t)i + 1;
}

static uint32_t client_of(struct bn_server *s, const struct bn_job *job)
{
    return s->n_keys > 0 ? (uint32_t)job->client : number_of(&s->log, job->client);
}

void bn_status_end(struct bn_choice *c)
{
    const struct bn_job *job = c->job;
    struct bn_server *s = job->server;
    struct bn_ended *e = &s->log.ended[s->log.n_ended++ % BN_SERVE_ENDED];
    s->metrics.generated_tokens += c->gen.n_ids - c->n_seen;
    *e = (struct bn_ended){
        .reason = job->dropped          ? "cancelled"
                  : job->replay != NULL ? "replay"
                  : job->embed != NULL  ? "embedded"
                                        : bn_answer_end_reason(c),
        .model = job->engine->id,
        .tenant = job->tenant,
        .client = client_of(s, job),
        .n_prompt = c->gen.n_prompt,
        .n_cached = c->started ? c->gen.n_cached : 0,
        .n_ids = c->gen.n_ids,
        .at_s = bn_clock_utc(),
        .first_token_s = c->n_seen > 0 ? c->first_token_s : (double)NAN,
        .total_s = (double)(bn_clock_ns() - job->since_ns) / 1e9,
        .rate = bn_answer_rate(c->gen.n_ids - (c->gen.n_ids > 0), c->gen.decode_ns),
    };
    if (!job->dropped) snprintf(e->receipt, sizeof e->receipt, "%s", c->receipt);
}

/* ---- the document ---- */

/* Percentiles of the last ones. */
static void put_latency(bn_json *parent, const char *name, const struct bn_histogram *h)
{
    double values[BN_SERVE_LAST];
    size_t n = h->n < BN_SERVE_LAST ? (size_t)h->n : BN_SERVE_LAST;
    bn_json *o = bn_json_put_object(parent, name);
    for (size_t i = 0; i < n; i++)
        values[i] = (double)h->last[i];
    bn_sort(values, n);
    BN_PUT(o, BN_U64("n", h->n), BN_NUMBER("p50", n > 0 ? bn_sorted_quantile(values, n, 0.5) : (double)NAN),
           BN_NUMBER("p95", n > 0 ? bn_sorted_quantile(values, n, 0.95) : (double)NAN),
           BN_NUMBER("p99", n > 0 ? bn_sorted_quantile(values, n, 0.99) : (double)NAN),
           BN_NUMBER("max", n > 0 ? values[n - 1] : (double)NAN));
}

/* The first model, which was open once. */
static void put_model(bn_json *model, const struct bn_engine *e)
{
    BN_PUT(model, BN_STRING("id", e->id), BN_STRING("template", bn_template_name(e->tmpl)),
           BN_FLAG("base", e->base), BN_TEXT("sha256", e->facts.model_sha256), BN_U64("n_ctx", e->n_ctx),
           BN_U64("sequences", e->n_lanes), BN_U64("threads", e->n_threads),
           BN_U64("max_queue", e->server->o->max_queue));
}

/* Bytes of the contexts of a model that is open. */
static uint64_t context_bytes(const struct bn_engine *e)
{
    return e->state == BN_ENGINE_OPEN ? bn_session_memory(e->session).kv_bytes * e->n_lanes : 0;
}

static void put_models(bn_json *list, const struct bn_server *s)
{
    static const char *const STATES[] = {"open", "opening", "closing", "closed"};
    for (size_t i = 0; i < s->n_engines; i++) {
        const struct bn_engine *e = &s->engines[i];
        bn_json *o = bn_json_add_object(list);
        double idle_s = (double)(bn_clock_ns() - e->used_ns) / 1e9;
        uint64_t n_waiting = 0;
        for (const struct bn_waiter *w = s->waiters; w != NULL; w = w->next)
            n_waiting += w->engine == e;
        BN_PUT(o, BN_STRING("id", e->id), BN_STRING("state", STATES[e->state]), BN_U64("users", e->n_users),
               BN_U64("waiting", n_waiting), BN_U64("sequences", e->state == BN_ENGINE_OPEN ? e->n_lanes : 0),
               BN_U64("file_bytes", e->n_bytes), BN_U64("context_bytes", context_bytes(e)),
               BN_NUMBER("idle_s", e->n_ctx > 0 && e->n_users == 0 ? idle_s : (double)NAN));
    }
}

static void put_counters(bn_json *d, const struct bn_serve_metrics *m,
                         const struct bn_receipts_stats *receipts)
{
    struct number numbers[NUMBERS];
    bn_json *o = bn_json_put_object(d, "counters");
    list_numbers(numbers, m, receipts);
    for (size_t i = 0; i < NUMBERS && !numbers[i].is_gauge; i++)
        bn_json_put_u64(o, numbers[i].name, numbers[i].value);
    bn_json_put_u64(o, "errors", m->responses[5]);
    bn_json *latency = bn_json_put_object(d, "latency_s");
    put_latency(latency, "first_token", &m->first_token);
    put_latency(latency, "next_token", &m->next_token);
    put_latency(latency, "request", &m->request);
}

static void put_memory(bn_json *d, const struct bn_server *s, uint64_t receipt_bytes)
{
    bn_json *memory = bn_json_put_object(d, "memory_bytes");
    bn_json_put_count(memory, "resident", bn_machine_status_bytes("VmRSS"));
    bn_json_put_count(memory, "peak", bn_machine_peak_rss_bytes());
    uint64_t contexts = 0;
    for (size_t i = 0; i < s->n_engines; i++)
        contexts += context_bytes(&s->engines[i]);
    BN_PUT(memory, BN_U64("contexts", contexts), BN_U64("receipts", receipt_bytes));
}

static void put_sequence(bn_json *list, struct bn_server *s, const struct bn_choice *c)
{
    bn_json *o = bn_json_add_object(list);
    if (s->n_engines > 1)
        BN_PUT(o, BN_STRING("model", c->job->engine->id), BN_U64("n_ctx", c->job->engine->n_ctx));
    BN_PUT(o, BN_U64("sequence", c->lane), BN_U64("client", client_of(s, c->job)),
           BN_STRING("state", c->n_seen > 0 ? "answer" : "prompt"), BN_U64("position", c->position),
           BN_U64("prompt_tokens", c->gen.n_prompt), BN_U64("generated_tokens", c->n_seen),
           BN_U64("most_tokens", c->gen.n_predict),
           BN_NUMBER("age_s", (double)(bn_clock_ns() - c->job->since_ns) / 1e9));
}

/* The newest first. A receipt is named to its owner only: not without keys, when its name is what protects it. */
static void put_ended(bn_json *d, const struct bn_status_log *log, bool several, uint32_t tenant)
{
    bn_json *list = bn_json_put_array(d, "requests");
    for (size_t i = 0; i < BN_SERVE_ENDED && i < log->n_ended; i++) {
        const struct bn_ended *e = &log->ended[(log->n_ended - 1 - i) % BN_SERVE_ENDED];
        bn_json *o = bn_json_add_object(list);
        bn_json_put_u64(o, "number", log->n_ended - i);
        if (several) bn_json_put_string(o, "model", e->model);
        BN_PUT(o, BN_U64("ended", (uint64_t)e->at_s), BN_U64("client", e->client),
               BN_U64("prompt_tokens", e->n_prompt), BN_U64("cached_tokens", e->n_cached),
               BN_U64("generated_tokens", e->n_ids), BN_NUMBER("first_token_s", e->first_token_s),
               BN_NUMBER("total_s", e->total_s), BN_NUMBER("tokens_per_s", e->rate),
               BN_STRING("end", e->reason),
               BN_TEXT("receipt", tenant != 0 && e->tenant == tenant ? e->receipt : NULL));
    }
}

const char *bn_status_state(const struct bn_server *s)
{
    const struct bn_engine *e = &s->engines[0];
    if (s->stopping) return "stopping";
    if (s->n_engines > 1) return "ok"; /* what lost its device or its file is opened again */
    if (e->lost) return "device lost";
    return bn_model_check_file(e->model, NULL) == BN_OK ? "ok" : "model changed";
}

bn_json *bn_status_document(struct bn_server *s, uint32_t tenant)
{
    bn_json *d = bn_json_new_object();
    struct bn_receipts_stats receipts = bn_receipts_stats(s);
    pthread_mutex_lock(&s->lock);
    struct bn_serve_metrics m = s->metrics;
    struct bn_status_log log = s->log;
    BN_PUT(d, BN_STRING("object", "bn.status"), BN_STRING("version", bn_version()),
           BN_STRING("state", bn_status_state(s)), BN_U64("started", s->created_s),
           BN_FLAG("benchmarks", s->benchmarks.folder != NULL),
           BN_NUMBER("uptime_s", (double)(bn_clock_ns() - s->opened_ns) / 1e9));
    bn_json *queue = bn_json_put_object(d, "queue");
    BN_PUT(queue, BN_U64("waiting", s->n_waiting + s->n_waiters), BN_U64("running", s->n_running));
    bn_json *sequences = bn_json_put_array(d, "sequences");
    for (const struct bn_job *job = s->jobs; job != NULL; job = job->next)
        for (size_t i = 0; i < job->n_choices; i++)
            if (job->choices[i].started && !job->choices[i].ended && job->choices[i].placed)
                put_sequence(sequences, s, &job->choices[i]);
    put_model(bn_json_put_object(d, "model"), &s->engines[0]);
    put_models(bn_json_put_array(d, "models"), s);
    put_memory(d, s, s->o->receipts != NULL ? receipts.n_waiting_bytes : receipts.n_bytes);
    pthread_mutex_unlock(&s->lock);
    put_counters(d, &m, &receipts);
    put_ended(d, &log, s->n_engines > 1, tenant);
    return d;
}

/* ---- /metrics, in the text format of Prometheus ---- */

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

/* Of several models, those that are open. */
static void put_users(struct bn_buf *out, struct bn_server *s)
{
    bn_buf_puts(out, "# HELP bn_model_users requests that use an open model\n# TYPE bn_model_users gauge\n");
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_engines; i++) {
        const struct bn_engine *e = &s->engines[i];
        if (e->state != BN_ENGINE_OPEN) continue;
        bn_buf_puts(out, "bn_model_users{model=");
        bn_json_write_string(out, e->id);
        bn_buf_printf(out, "} %u\n", e->n_users);
    }
    pthread_mutex_unlock(&s->lock);
}

void bn_status_metrics(struct bn_server *s, struct bn_buf *out)
{
    pthread_mutex_lock(&s->lock);
    struct bn_serve_metrics m = s->metrics;
    pthread_mutex_unlock(&s->lock);
    struct bn_receipts_stats receipts = bn_receipts_stats(s);
    struct number numbers[NUMBERS];
    list_numbers(numbers, &m, &receipts);
    bn_buf_puts(
        out, "# HELP bn_responses_total responses by class of status\n# TYPE bn_responses_total counter\n");
    for (unsigned i = 2; i < 6; i++)
        bn_buf_printf(out, "bn_responses_total{status=\"%uxx\"} %llu\n", i,
                      (unsigned long long)m.responses[i]);
    for (size_t i = 0; i < NUMBERS; i++) {
        const struct number *n = &numbers[i];
        const char *type = n->is_gauge ? "gauge" : "counter", *suffix = n->is_gauge ? "" : "_total";
        bn_buf_printf(out, "# HELP bn_%s%s %s\n# TYPE bn_%s%s %s\nbn_%s%s %llu\n", n->name, suffix, n->help,
                      n->name, suffix, type, n->name, suffix, (unsigned long long)n->value);
    }
    if (s->n_engines > 1) put_users(out, s);
    put_histogram(out, "first_token_seconds", "from the request to its first token", &m.first_token);
    put_histogram(out, "next_token_seconds", "between two tokens of an answer", &m.next_token);
    put_histogram(out, "request_seconds", "from the request to the end of its answer", &m.request);
}
