/* SPDX-License-Identifier: MIT
 *
 * Runs a load: a thread for each client.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/bench/serve/load.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "tools/cli/report.h"

#define MAX_OPEN 1000u /* connections at a time */
#define LOOK_NS 1000000u
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

static void put_request(struct bn_buf *body, const struct bn_bench_options *o, size_t index)
{
    bool interrupts = index == o->n_requests;
    size_t n_words = interrupts ? o->n_interrupt : o->n_prompt, n_shared = o->n_shared;
    if (interrupts || n_shared > n_words) n_shared = interrupts ? 0 : n_words;
    bn_buf_puts(body, "{\"model\":");
    bn_json_write_string(body, o->name);
    bn_buf_puts(body, ",\"prompt\":\"");
    put_words(body, o->seed, n_shared);
    put_words(body, o->seed + (index + 1) * UINT64_C(0x9E3779B9), n_words - n_shared);
    bn_buf_printf(body,
                  "\",\"max_tokens\":%u,\"temperature\":%g,\"seed\":%llu,\"stream\":true,"
                  "\"stream_options\":{\"include_usage\":true},\"ignore_eos\":true}",
                  interrupts ? 1 : o->n_predict, o->temperature,
                  (unsigned long long)((o->seed + index) & 0xFFFFFFFFu));
}

/* ---- the loop ---- */

struct loop {
    struct bn_serve_load *load;
    const struct bn_target *target;
    const struct bn_bench_options *o;
    atomic_size_t n_started; /* requests */
    atomic_size_t n_working; /* threads */
    atomic_bool stop;
};

static void ask(struct loop *l, size_t index)
{
    struct bn_buf body = {.max = 16u << 20};
    put_request(&body, l->o, index);
    bn_client_ask(&l->load->runs[index], l->target, &body, &l->stop);
    bn_buf_release(&body);
}

static void *run_client(void *arg)
{
    struct loop *l = arg;
    for (size_t i; (i = l->n_started++) < l->o->n_requests && !l->stop;)
        ask(l, i);
    l->n_working--;
    return NULL;
}

static void *run_interrupt(void *arg)
{
    struct loop *l = arg;
    ask(l, l->o->n_requests);
    l->n_working--;
    return NULL;
}

static bool start(struct loop *l, pthread_t *thread, void *(*run)(void *))
{
    l->n_working++;
    bool started = pthread_create(thread, NULL, run, l) == 0;
    if (!started) l->n_working--;
    return started;
}

/* Whether all answers are running, so that a long prompt interrupts them. */
static bool may_interrupt(struct loop *l)
{
    size_t n_open = 0;
    for (size_t i = 0; i < l->o->n_requests; i++) {
        if (l->load->runs[i].state != BN_CLIENT_RUNS) continue;
        if (l->load->runs[i].n_at < LEAST_RUNNING) return false;
        n_open++;
    }
    return n_open > 0 && n_open >= l->load->n_clients;
}

/* Until all threads have ended; starts the interrupting one. */
static void watch(struct loop *l, uint64_t begin_ns, pthread_t *interrupting, bool *interrupted)
{
    while (l->n_working > 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        if (bn_cli_interrupted() != 0 || bn_clock_ns() - begin_ns > (uint64_t)(l->o->timeout * 1e9))
            l->stop = true;
        if (l->o->n_interrupt > 0 && !*interrupted && !l->stop && may_interrupt(l))
            *interrupted = start(l, interrupting, run_interrupt);
    }
}

static bn_status run_all(struct loop *l, pthread_t *threads, size_t n, bn_error *err)
{
    size_t n_started = 0;
    uint64_t begin_ns = bn_clock_ns();
    bool interrupted = false;
    while (n_started < n && start(l, &threads[n_started], run_client))
        n_started++;
    l->stop = n_started < n;
    watch(l, begin_ns, &threads[n], &interrupted);
    for (size_t i = 0; i < n_started + interrupted; i++)
        (void)pthread_join(threads[i], NULL);
    l->load->seconds = (double)(bn_clock_ns() - begin_ns) / 1e9;
    if (bn_cli_interrupted() != 0) return bn_fail(err, BN_ERR_CANCELLED, "interrupted");
    if (n_started < n) return bn_fail(err, BN_ERR_UNSUPPORTED, "%zu of %zu threads started", n_started, n);
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
        bool meanwhile =
            extra->state == BN_CLIENT_ENDED && at[i] > extra->start_ns && at[i - 1] < extra->end_ns;
        add_time(load, meanwhile ? BN_LOAD_MEANWHILE : BN_LOAD_GAPS, at[i - 1], at[i], 1);
    }
}

bn_status bn_load_run(struct bn_serve_load *load, const struct bn_target *target,
                      const struct bn_bench_options *o, bn_error *err)
{
    struct loop l = {.load = load, .target = target, .o = o};
    size_t n = load->n_clients;
    pthread_t *threads = bn_alloc(n + 1, sizeof *threads);
    load->n_runs = (size_t)o->n_requests + 1;
    load->runs = bn_alloc(load->n_runs, sizeof *load->runs);
    bn_status status = threads != NULL && load->runs != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) status = run_all(&l, threads, n, err);
    bn_free(threads);
    if (status == BN_OK && !make_room(load)) status = bn_nomem(err);
    for (size_t i = 0; status == BN_OK && i < o->n_requests; i++)
        add_run(load, &load->runs[i], &load->runs[o->n_requests]);
    return status;
}

void bn_load_release(struct bn_serve_load *load)
{
    for (size_t i = 0; load->runs != NULL && i < load->n_runs; i++)
        bn_free(load->runs[i].at_ns);
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
