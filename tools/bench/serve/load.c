/* SPDX-License-Identifier: MIT
 *
 * Runs a load: one thread, all connections in one poll.
 */
#define _GNU_SOURCE
#include "tools/bench/serve/load.h"

#include <math.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "tools/cli/report.h"

#define MAX_OPEN 1000u    /* connections at a time */
#define LEAST_RUNNING 16u /* tokens of each answer before the interrupting prompt comes */

/* ---- requests ---- */

static void put_words(struct bn_buf *out, uint64_t state, size_t n)
{
    static const char *const WORDS[] = {
        "the",  "of",   "and",  "to",   "in",    "is",   "you",  "that",  "it",   "he",   "was",
        "for",  "on",   "are",  "as",   "with",  "his",  "they", "at",    "be",   "this", "have",
        "from", "or",   "one",  "had",  "by",    "but",  "not",  "what",  "all",  "were", "we",
        "when", "your", "can",  "said", "there", "use",  "an",   "how",   "if",   "will", "up",
        "out",  "then", "them", "so",   "her",   "make", "like", "him",   "into", "time", "has",
        "look", "two",  "more", "go",   "see",   "no",   "way",  "could", "my"};
    for (size_t i = 0; i < n; i++) {
        if (out->len > 0 && out->data[out->len - 1] != '"') bn_buf_putc(out, ' ');
        bn_buf_puts(out, WORDS[bn_splitmix64_below(&state, BN_ARRAY_LEN(WORDS))]);
    }
}

static void put_request(struct bn_buf *body, const struct bn_load_plan *plan, size_t index)
{
    bool interrupts = index == plan->o->n_requests;
    size_t n_words = interrupts ? plan->o->n_interrupt : plan->o->n_prompt, n_shared = plan->o->n_shared;
    if (interrupts || n_shared > n_words) n_shared = interrupts ? 0 : n_words;
    body->len = 0;
    bn_buf_puts(body, "{\"model\":");
    bn_json_write_string(body, plan->o->name);
    bn_buf_puts(body, ",\"prompt\":\"");
    put_words(body, plan->o->seed, n_shared);
    put_words(body, plan->o->seed + (index + 1) * UINT64_C(0x9E3779B9), n_words - n_shared);
    bn_buf_printf(body,
                  "\",\"max_tokens\":%u,\"temperature\":%g,\"seed\":%llu,\"stream\":true,"
                  "\"stream_options\":{\"include_usage\":true},\"ignore_eos\":true}",
                  interrupts ? 1 : plan->o->n_predict, plan->o->temperature,
                  (unsigned long long)((plan->o->seed + index) & 0xFFFFFFFFu));
}

/* ---- the loop ---- */

struct loop {
    struct bn_serve_load *load;
    const struct bn_load_plan *plan;
    struct bn_buf body;
    struct pollfd polls[MAX_OPEN + 1];
    struct bn_client_run *polled[MAX_OPEN + 1];
    size_t n_started, n_open;
    uint64_t begin_ns, next_ns, random;
    bool interrupted;
};

static void start(struct loop *l, size_t index)
{
    put_request(&l->body, l->plan, index);
    bn_client_open(&l->load->runs[index], &l->plan->target, l->body.data, l->body.len);
}

/* The time until the next request of a Poisson process. */
static uint64_t wait_ns(struct loop *l)
{
    double u = ((double)(bn_splitmix64(&l->random) >> 11) + 0.5) * 0x1p-53;
    return (uint64_t)(-log(u) / l->load->rate * 1e9);
}

static bool is_due(const struct loop *l)
{
    if (l->n_started == l->plan->o->n_requests || l->n_open >= MAX_OPEN) return false;
    if (l->load->n_clients > 0) return l->n_open < l->load->n_clients;
    return bn_clock_ns() >= l->next_ns;
}

static bool is_open(const struct bn_client_run *run)
{
    return run->state != BN_CLIENT_ENDED && run->fd >= 0;
}

/* Whether all answers are running, so that a long prompt interrupts them. */
static bool may_interrupt(const struct loop *l)
{
    if (l->plan->o->n_interrupt == 0 || l->interrupted || l->n_open == 0) return false;
    if (l->load->n_clients > 0 && l->n_open < l->load->n_clients) return false;
    for (size_t i = 0; i < l->n_started; i++)
        if (is_open(&l->load->runs[i]) && l->load->runs[i].n_at < LEAST_RUNNING) return false;
    return true;
}

static void start_due(struct loop *l)
{
    while (is_due(l)) {
        start(l, l->n_started++);
        l->n_open++;
        l->next_ns += wait_ns(l);
    }
    if (!may_interrupt(l)) return;
    l->interrupted = true;
    start(l, l->plan->o->n_requests);
}

/* Waits for something, until the next request is due. */
static void turn(struct loop *l)
{
    size_t n = 0;
    struct bn_serve_load *load = l->load;
    for (size_t i = 0; i < load->n_runs && n <= MAX_OPEN; i++) {
        struct bn_client_run *run = &load->runs[i];
        if (!is_open(run)) continue;
        l->polls[n] = (struct pollfd){run->fd, run->state == BN_CLIENT_SENDS ? POLLOUT : POLLIN, 0};
        l->polled[n++] = run;
    }
    uint64_t now = bn_clock_ns();
    bool later = load->n_clients == 0 && l->n_started < l->plan->o->n_requests;
    int ms = later ? (l->next_ns > now ? (int)((l->next_ns - now) / 1000000) + 1 : 0) : 1000;
    if (poll(l->polls, n, ms) <= 0) return;
    for (size_t i = 0; i < n; i++)
        if (l->polls[i].revents != 0) bn_client_advance(l->polled[i]);
}

/* Connections of answers that have ended are closed; their times stay. */
static void count_open(struct loop *l)
{
    l->n_open = 0;
    for (size_t i = 0; i < l->plan->o->n_requests; i++)
        l->n_open += is_open(&l->load->runs[i]);
    for (size_t i = 0; i < l->load->n_runs; i++) {
        struct bn_client_run *run = &l->load->runs[i];
        if (run->state != BN_CLIENT_ENDED || run->fd < 0) continue;
        uint64_t *at_ns = run->at_ns;
        run->at_ns = NULL;
        bn_client_close(run);
        run->at_ns = at_ns;
    }
}

static bool runs(const struct loop *l)
{
    const struct bn_client_run *extra = &l->load->runs[l->plan->o->n_requests];
    return l->n_started < l->plan->o->n_requests || l->n_open > 0 || (l->interrupted && is_open(extra));
}

static bn_status run_all(struct loop *l, bn_error *err)
{
    l->begin_ns = l->next_ns = bn_clock_ns();
    l->random = l->plan->o->seed;
    if (l->load->n_clients == 0) l->next_ns += wait_ns(l);
    do {
        start_due(l);
        turn(l);
        count_open(l);
        if (bn_cli_interrupted() != 0) return bn_fail(err, BN_ERR_CANCELLED, "interrupted");
        if (l->body.failed) return bn_nomem(err);
        if (bn_clock_ns() - l->begin_ns <= (uint64_t)(l->plan->o->timeout * 1e9)) continue;
        for (size_t i = 0; i < l->load->n_runs; i++)
            if (is_open(&l->load->runs[i])) bn_client_end(&l->load->runs[i], "no answer within --timeout");
        count_open(l);
        l->n_started = l->plan->o->n_requests;
    } while (runs(l));
    l->load->seconds = (double)(bn_clock_ns() - l->begin_ns) / 1e9;
    return BN_OK;
}

/* ---- figures ---- */

const char *const bn_load_metrics[BN_LOAD_TIMES] = {
    [BN_LOAD_FIRST] = "ns_to_first_token",
    [BN_LOAD_GAPS] = "ns_between_tokens",
    [BN_LOAD_MEANWHILE] = "interrupted_ns_between_tokens",
    [BN_LOAD_EACH] = "ns_per_token",
};

static bool make_room(struct bn_serve_load *load)
{
    size_t most = load->n_runs;
    bool ok = true;
    for (size_t i = 0; i < load->n_runs; i++)
        most += load->runs[i].n_at;
    for (size_t k = 0; k < BN_LOAD_TIMES; k++)
        ok = (load->ns[k] = bn_alloc(most, sizeof(double))) != NULL && ok;
    return ok;
}

static void add_time(struct bn_serve_load *load, enum bn_load_times kind, uint64_t from, uint64_t to,
                     size_t n)
{
    load->ns[kind][load->n[kind]++] = (double)(to - from) / (double)n;
}

static void add_run(struct bn_serve_load *load, const struct bn_client_run *run,
                    const struct bn_client_run *extra)
{
    const uint64_t *at = run->at_ns;
    size_t n = run->n_at;
    bool failed = run->state != BN_CLIENT_ENDED || run->reason[0] != '\0' || n == 0;
    load->n_failed += failed;
    if (failed) return;
    load->n_prompt += run->n_prompt;
    load->n_cached += run->n_cached;
    load->n_tokens += run->n_tokens > 0 ? run->n_tokens : n;
    add_time(load, BN_LOAD_FIRST, run->start_ns, at[0], 1);
    if (n > 1) add_time(load, BN_LOAD_EACH, at[0], at[n - 1], n - 1);
    for (size_t i = 1; i < n; i++) {
        bool meanwhile = extra != NULL && at[i] > extra->start_ns && at[i - 1] < extra->end_ns;
        add_time(load, meanwhile ? BN_LOAD_MEANWHILE : BN_LOAD_GAPS, at[i - 1], at[i], 1);
    }
}

bn_status bn_load_run(struct bn_serve_load *load, const struct bn_load_plan *plan, bn_error *err)
{
    struct loop *l = bn_alloc(1, sizeof *l);
    load->n_runs = (size_t)plan->o->n_requests + 1;
    load->runs = bn_alloc(load->n_runs, sizeof *load->runs);
    bn_status status = l != NULL && load->runs != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = 0; status == BN_OK && i < load->n_runs; i++)
        load->runs[i].fd = -1;
    if (status == BN_OK) {
        *l = (struct loop){.load = load, .plan = plan, .body.max = 16u << 20};
        status = run_all(l, err);
        bn_buf_release(&l->body);
    }
    if (status == BN_OK && !make_room(load)) status = bn_nomem(err);
    const struct bn_client_run *extra =
        status == BN_OK && l->interrupted ? &load->runs[plan->o->n_requests] : NULL;
    for (size_t i = 0; status == BN_OK && i < plan->o->n_requests; i++)
        add_run(load, &load->runs[i], extra);
    bn_free(l);
    return status;
}

void bn_load_release(struct bn_serve_load *load)
{
    for (size_t i = 0; load->runs != NULL && i < load->n_runs; i++)
        bn_client_close(&load->runs[i]);
    bn_free(load->runs);
    for (size_t k = 0; k < BN_LOAD_TIMES; k++)
        bn_free(load->ns[k]);
    *load = (struct bn_serve_load){0};
}

size_t bn_load_compare(const struct bn_serve_load *a, const struct bn_serve_load *b, size_t *n_same)
{
    size_t n = 0;
    *n_same = 0;
    for (size_t i = 0; i + 1 < a->n_runs && i + 1 < b->n_runs; i++) {
        const char *x = a->runs[i].chain, *y = b->runs[i].chain;
        if (x[0] == '\0' || y[0] == '\0') continue;
        n++;
        *n_same += strcmp(x, y) == 0;
    }
    return n;
}
