/* SPDX-License-Identifier: MIT
 *
 * One sample of bn-bench run: a generation, or several that ask for the same, in one pass or with threads of their own; the
 * counters of its kernels, what it used, the disturbances, and the digest of its output.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "infer/session.h"
#include "tools/bench/run/run.h"
#include "tools/cli/ranks.h"

/* ---- counters ---- */

static void add_up(struct bn_bench_config *config, const struct bn_generation *gen)
{
    for (size_t i = 0; i < gen->n_kernels; i++) {
        const bn_kernel_stat *a = &gen->kernels[i];
        size_t k = 0;
        while (k < config->n_kernels && strcmp(config->kernels[k].name, a->name) != 0)
            k++;
        bn_kernel_stat *sum = &config->kernels[k];
        if (k == config->n_kernels) *sum = (bn_kernel_stat){.name = a->name};
        config->n_kernels += k == config->n_kernels;
        sum->ns += a->ns;
        sum->bytes += a->bytes;
        sum->ops += a->ops;
    }
}

/* What a session has read since it was opened; with cache only what its kernels of attention did. */
static uint64_t bytes_read(bn_session *session, bool cache)
{
    bn_kernel_stat k;
    uint64_t bytes = 0;
    bn_session_tally(session);
    for (size_t i = 0; bn_session_kernel_stat(session, i, &k); i++)
        if (!cache || bn_bench_reads_cache(session->model, k.name)) bytes += k.bytes;
    return bytes;
}

/* The head is what a token reads more when the next one is chosen. */
bn_status bn_bench_learn_reads(const struct bn_bench_measurement *m, bn_session *session, uint32_t depth,
                               struct bn_bench_reads *reads, bn_error *err)
{
    struct bn_generation gen = {
        .prompt = m->ids + depth, .n_prompt = 1, .n_predict = 1, .sampling = BN_SAMPLER_OPTIONS_INIT};
    uint64_t start = bytes_read(session, false), start_cache = bytes_read(session, true);
    BN_TRY(bn_session_eval(session, m->ids + depth, 1, BN_LOGITS_NONE, NULL, err));
    uint64_t middle = bytes_read(session, false);
    reads->cache = bytes_read(session, true) - start_cache;
    BN_TRY(bn_session_truncate(session, depth, err));
    BN_TRY(bn_generate(session, NULL, &gen, err));
    bn_generation_release(&gen);
    reads->weights = middle - start - reads->cache;
    reads->head = bytes_read(session, false) - middle - (middle - start);
    return bn_session_truncate(session, depth, err);
}

/* ---- meters ---- */

void bn_bench_meters_open(struct bn_bench_meters *meters)
{
    static const enum bn_perf_event EVENTS[BN_BENCH_COUNTERS] = {
        BN_PERF_CYCLES, BN_PERF_INSTRUCTIONS, BN_PERF_CACHE_REFERENCES, BN_PERF_CACHE_MISSES};
    *meters = (struct bn_bench_meters){.resets = true, .off = bn_cli_ranks() != NULL};
    for (size_t i = 0; meters->off && i < BN_USED_PEAK_BYTES; i++)
        snprintf(meters->why[i], sizeof *meters->why, "known of the first rank only");
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++) {
        bn_error why = {0};
        meters->counters[i] = -1;
        if (meters->off) continue;
        meters->counters[i] = bn_perf_event_open(EVENTS[i], true, &why);
        snprintf(meters->why[i], sizeof meters->why[i], "%.191s",
                 meters->counters[i] < 0 ? why.msg : "the counter could not be read, or counted nothing");
    }
    if (meters->off) return;
    bn_energy_read(&meters->energy);
    snprintf(meters->why[BN_USED_CPU_NS], sizeof *meters->why, "too short for the clock");
    snprintf(meters->why[BN_USED_JOULES], sizeof *meters->why, "too short for the counters of energy");
}

void bn_bench_meters_close(struct bn_bench_meters *meters)
{
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++)
        if (meters->counters[i] >= 0) close(meters->counters[i]);
}

static void begin_usage(struct bn_bench_meters *meters, double used[BN_USED])
{
    for (size_t i = 0; i < BN_USED; i++)
        used[i] = (double)NAN;
    if (meters->off) return;
    uint64_t peak = bn_machine_peak_rss_bytes();
    if (peak > meters->peak) meters->peak = peak;
    if (meters->resets) meters->resets = bn_machine_reset_peak_rss();
    if (meters->energy.n > 0) bn_energy_read(&meters->energy);
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++)
        if (bn_perf_event_read(&meters->counts[i], meters->counters[i])) used[i] = 0;
    used[BN_USED_CPU_NS] = (double)bn_clock_process_cpu_ns();
}

/* NaN, with the reason, unless references and misses are known. */
static double hit_rate(struct bn_bench_meters *meters, const double used[BN_USED])
{
    double references = used[BN_USED_CACHE_REFERENCES], misses = used[BN_USED_CACHE_MISSES];
    if (references > 0 && misses <= references) return 1 - misses / references;
    snprintf(meters->why[BN_USED_HIT_RATE], sizeof *meters->why, "%s",
             misses > references
                 ? "more misses were counted than references"
                 : meters->why[references > 0 ? BN_USED_CACHE_MISSES : BN_USED_CACHE_REFERENCES]);
    return (double)NAN;
}

static void end_usage(struct bn_bench_meters *meters, double used[BN_USED])
{
    struct bn_energy now = {0};
    struct bn_perf_count count;
    if (meters->off) return;
    used[BN_USED_CPU_NS] = (double)bn_clock_process_cpu_ns() - used[BN_USED_CPU_NS];
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++) {
        const char *why = NULL;
        used[i] += bn_perf_event_read(&count, meters->counters[i])
                       ? bn_perf_event_since(&meters->counts[i], &count, &why)
                       : (double)NAN;
        if (why != NULL) snprintf(meters->why[i], sizeof *meters->why, "%s", why);
    }
    used[BN_USED_HIT_RATE] = hit_rate(meters, used);
    if (meters->energy.n > 0) bn_energy_read(&now);
    used[BN_USED_JOULES] = bn_energy_since(&meters->energy, &now);
    if (isnan(used[BN_USED_JOULES]))
        snprintf(meters->why[BN_USED_JOULES], sizeof *meters->why, "%s",
                 meters->energy.n == 0 ? meters->energy.why
                 : now.n == 0          ? now.why
                                       : "a counter of energy went back, or is beyond its range");
    uint64_t peak = bn_machine_peak_rss_bytes();
    if (peak > meters->peak) meters->peak = peak;
    used[BN_USED_PEAK_BYTES] = meters->resets && peak > 0 ? (double)peak : (double)NAN;
}

/* ---- a sample ---- */

/* Stops a generation at the first token after *until_ns. */
static bool in_time(void *user, int32_t id, const char *text, size_t n_bytes)
{
    const uint64_t *until_ns = user;
    (void)id, (void)text, (void)n_bytes;
    return bn_clock_ns() < *until_ns;
}

/* The prompt, or one token and the tokens decoded after it. */
static void ask(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                struct bn_generation *gen, uint64_t *until_ns)
{
    *gen = (struct bn_generation){.prompt = m->ids + c->depth,
                                  .n_prompt = c->decode ? 1 : c->tokens,
                                  .n_predict = c->decode       ? c->tokens + 1
                                               : c->answer > 0 ? c->answer
                                                               : 1,
                                  .ignore_end = true,
                                  .sampling = BN_SAMPLER_OPTIONS_INIT,
                                  .on_token = in_time,
                                  .user = until_ns};
}

/* Every target is little endian. */
static void digest(const struct bn_bench_measurement *m, const bn_session *session,
                   const struct bn_generation *gen, char hex[BN_SHA256_HEX])
{
    struct bn_sha256 sha;
    bn_sha256_begin(&sha);
    bn_sha256_update(&sha, gen->ids, gen->n_ids * sizeof *gen->ids);
    bn_sha256_update(&sha, bn_session_hidden(session), bn_model_hparams(m->model)->n_embd * sizeof(float));
    bn_sha256_take_hex(&sha, hex);
}

/* The generations of a sample, all of which ask for the same. */
struct together {
    bn_generation *list;
    size_t n;
    uint64_t *call_ns; /* of concurrent ones: of each call; */
    uint64_t all_ns;   /* from the first start to the last end */
};

/* ---- in one pass ---- */

/* They must give the same tokens. */
static bn_status run_in_one_pass(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                                 struct together *all, bn_error *err)
{
    bn_scheduler *sched = NULL;
    BN_TRY(bn_scheduler_open(&sched, c->session, bn_model_tokenizer(m->model), (uint32_t)all->n, err));
    bn_status status = BN_OK;
    for (size_t i = 0; i < all->n && status == BN_OK; i++)
        status = bn_scheduler_add(sched, c->sequences[i], &all->list[i], err);
    while (status == BN_OK && bn_scheduler_n_running(sched) > 0) {
        status = bn_scheduler_step(sched, err);
        while (bn_scheduler_take(sched) != NULL) {
        }
    }
    bn_scheduler_close(sched);
    for (size_t i = 1; i < all->n && status == BN_OK; i++)
        if (all->list[i].n_ids != all->list[0].n_ids ||
            memcmp(all->list[i].ids, all->list[0].ids, all->list[0].n_ids * sizeof(int32_t)) != 0)
            status = bn_fail(err, BN_ERR_INTERNAL, "sequence %zu gave other tokens than the first", i);
    return status;
}

/* ---- concurrently ---- */

struct request {
    const bn_tokenizer *tok;
    bn_session *session;
    bn_generation *gen;
    pthread_t thread;
    uint64_t from_ns, to_ns;
    bn_status status;
    bn_error err;
};

static void *run_request(void *arg)
{
    struct request *r = arg;
    r->from_ns = bn_clock_ns();
    r->status = bn_generate(r->session, r->tok, r->gen, &r->err);
    r->to_ns = bn_clock_ns();
    return NULL;
}

static bn_status run_concurrently(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                                  struct together *all, bn_error *err)
{
    size_t n_started = 0;
    uint64_t first = UINT64_MAX, last = 0;
    struct request *list = bn_alloc(all->n, sizeof *list);
    all->call_ns = bn_alloc(all->n, sizeof *all->call_ns);
    bn_status status = list != NULL && all->call_ns != NULL ? BN_OK : bn_nomem(err);
    for (bool started = status == BN_OK; started && n_started < all->n; n_started += started) {
        struct request *r = &list[n_started];
        *r = (struct request){.tok = bn_model_tokenizer(m->model),
                              .session = c->crowd[n_started],
                              .gen = &all->list[n_started]};
        started = pthread_create(&r->thread, NULL, run_request, r) == 0;
    }
    for (size_t i = 0; i < n_started; i++) {
        (void)pthread_join(list[i].thread, NULL);
        all->call_ns[i] = list[i].to_ns - list[i].from_ns;
        if (list[i].from_ns < first) first = list[i].from_ns;
        if (list[i].to_ns > last) last = list[i].to_ns;
        if (status == BN_OK && list[i].status != BN_OK && err != NULL) *err = list[i].err;
        if (status == BN_OK) status = list[i].status;
    }
    all->all_ns = last - first;
    if (status == BN_OK && n_started < all->n)
        status = bn_fail(err, BN_ERR_UNSUPPORTED, "%zu of %zu threads started", n_started, all->n);
    bn_free(list);
    return status;
}

/* ---- a sample ---- */

/* Those that ran in one pass share its counters. */
static void add_counts(struct bn_bench_config *c, struct bn_bench_sample *s, const struct together *all)
{
    for (size_t g = 0; g < (c->n_concurrent > 1 ? all->n : 1); g++) {
        for (size_t i = 0; i < all->list[g].n_kernels; i++)
            s->bytes += all->list[g].kernels[i].bytes;
        add_up(c, &all->list[g]);
    }
}

/* The digest of the first one; of concurrent ones, that of one which differs. */
static void digest_all(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                       const struct together *all, char hex[BN_SHA256_HEX])
{
    char other[BN_SHA256_HEX];
    digest(m, c->session, &all->list[0], hex);
    for (size_t i = 1; i < c->n_concurrent; i++) {
        digest(m, c->crowd[i], &all->list[i], other);
        if (strcmp(hex, other) == 0) continue;
        memcpy(hex, other, sizeof other);
        return;
    }
}

static bn_status book(const struct bn_bench_measurement *m, struct bn_bench_config *c,
                      struct bn_bench_sample *s, const struct together *all, bn_error *err)
{
    const struct bn_generation *gen = all->list;
    bool many = c->n_concurrent > 1;
    s->ns = many ? all->all_ns : c->decode ? gen->decode_ns : c->answer > 0 ? gen->total_ns : gen->prefill_ns;
    s->total_ns = many ? all->all_ns : gen->total_ns;
    s->first_token_ns = gen->token_ns[0];
    s->ranks = gen->ranks;
    s->evaluated = (gen->n_prompt + gen->n_predict - 1) * c->n_sequences * c->n_concurrent;
    digest_all(m, c, all, s->output);
    BN_TRY(bn_array_grow(&c->samples, &c->room, c->n_samples + 1, sizeof *c->samples, err));
    uint32_t n_times = bn_bench_n_times(c);
    if (n_times > 0) {
        BN_TRY(BN_NEW(s->times, n_times, err));
        memcpy(s->times, many ? all->call_ns : gen->token_ns + 1, n_times * sizeof *s->times);
    }
    add_counts(c, s, all);
    c->samples[c->n_samples++] = *s;
    return BN_OK;
}

/* Are finished generations a sample? */
static bn_status judge(const struct bn_bench_measurement *m, struct bn_bench_config *c,
                       const struct together *all, bn_error *err)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct bn_generation *gen = &all->list[i];
        if (gen->reason == BN_STOP_CALLER || (m->timeout_ns > 0 && gen->total_ns > m->timeout_ns)) {
            c->verdict = BN_BENCH_TIMEOUT;
            snprintf(c->reason, sizeof c->reason,
                     "a sample took more than --timeout: %.3f s, %zu of %u tokens",
                     (double)gen->total_ns / 1e9, gen->n_ids, gen->n_predict);
            return BN_OK;
        }
        if (gen->n_ids != gen->n_predict)
            return bn_fail(err, BN_ERR_INTERNAL, "got %zu tokens, expected %u", gen->n_ids, gen->n_predict);
    }
    return BN_OK;
}

static bn_status take(struct bn_bench_measurement *m, struct bn_bench_config *c, struct bn_bench_sample *s,
                      struct together *all, bn_error *err)
{
    struct bn_noise then, now;
    uint64_t until_ns = UINT64_MAX;
    for (size_t i = 0; i < all->n; i++)
        ask(m, c, &all->list[i], &until_ns);
    begin_usage(&m->meters, s->used);
    bn_noise_read(&then);
    if (m->timeout_ns > 0) until_ns = bn_clock_ns() + m->timeout_ns;
    bn_status status = c->n_concurrent > 1 ? run_concurrently(m, c, all, err)
                       : all->n > 1        ? run_in_one_pass(m, c, all, err)
                                    : bn_generate(c->session, bn_model_tokenizer(m->model), all->list, err);
    bn_noise_read(&now);
    end_usage(&m->meters, s->used);
    if (m->model->device != NULL) s->used[BN_USED_DEVICE_BYTES] = (double)bn_device_bytes(m->model->device);
    s->noise = bn_noise_since(&then, &now);
    if (status == BN_OK) status = judge(m, c, all, err);
    return status == BN_OK && c->verdict == BN_BENCH_VALID ? book(m, c, s, all, err) : status;
}

bn_status bn_bench_take(struct bn_bench_measurement *m, struct bn_bench_config *c, double bandwidth,
                        bn_error *err)
{
    struct bn_bench_sample s = {.bandwidth = bandwidth};
    struct together all = {.n = (size_t)c->n_sequences * c->n_concurrent};
    BN_TRY(BN_NEW(all.list, all.n, err));
    bn_status status = take(m, c, &s, &all, err);
    for (size_t i = 0; i < all.n; i++)
        bn_generation_release(&all.list[i]);
    bn_free(all.list);
    bn_free(all.call_ns);
    for (size_t i = 0; i < c->n_sequences && status == BN_OK; i++)
        status = bn_sequence_truncate(c->sequences[i], c->depth, err);
    for (size_t i = 1; i < c->n_concurrent && status == BN_OK; i++)
        status = bn_session_truncate(c->crowd[i], c->depth, err);
    return status;
}
