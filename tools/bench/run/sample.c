/* SPDX-License-Identifier: MIT
 *
 * One sample of bn-bench run: a generation, the counters of its kernels, the disturbances, and the digest of
 * its output.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "infer/session.h"
#include "tools/bench/limits.h"
#include "tools/bench/run/run.h"

/* ---- counters ---- */

struct stats {
    bn_kernel_stat list[BN_KERNEL_COUNT];
    size_t n;
};

static void read_stats(struct stats *stats, const bn_session *session)
{
    stats->n = 0;
    while (stats->n < BN_KERNEL_COUNT && bn_session_kernel_stat(session, stats->n, &stats->list[stats->n]))
        stats->n++;
}

static bn_kernel_stat *find_stat(bn_kernel_stat *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

/* after -= before. Kernels that were not called in between are removed. */
static void subtract(struct stats *after, struct stats *before)
{
    size_t kept = 0;
    for (size_t i = 0; i < after->n; i++) {
        bn_kernel_stat a = after->list[i];
        const bn_kernel_stat *b = find_stat(before->list, before->n, a.name);
        if (b != NULL) {
            a.calls -= b->calls;
            a.ns -= b->ns;
            a.bytes -= b->bytes;
            a.ops -= b->ops;
        }
        if (a.calls > 0) after->list[kept++] = a;
    }
    after->n = kept;
}

static void add_up(struct bn_bench_config *config, const struct bn_generation *gen)
{
    for (size_t i = 0; i < gen->n_kernels; i++) {
        const bn_kernel_stat *a = &gen->kernels[i];
        bn_kernel_stat *sum = find_stat(config->kernels, config->n_kernels, a->name);
        if (sum == NULL) {
            sum = &config->kernels[config->n_kernels++];
            *sum = (bn_kernel_stat){.name = a->name};
        }
        sum->calls += a->calls;
        sum->ns += a->ns;
        sum->bytes += a->bytes;
        sum->ops += a->ops;
    }
}

/* Adds what the session read since `before`, and forgets the token. */
static bn_status read_since(bn_session *session, struct stats *before, uint32_t depth, uint64_t *bytes,
                            uint64_t *cache, bn_error *err)
{
    struct stats stats;
    read_stats(&stats, session);
    subtract(&stats, before);
    *bytes = *cache = 0;
    for (size_t i = 0; i < stats.n; i++) {
        *bytes += stats.list[i].bytes;
        if (bn_bench_reads_cache(session->model->kernels, stats.list[i].name)) *cache += stats.list[i].bytes;
    }
    read_stats(before, session);
    return bn_session_truncate(session, depth, err);
}

/* The head is what a token reads more when the next one is chosen. */
bn_status bn_bench_learn_reads(const struct bn_bench_measurement *m, bn_session *session, uint32_t depth,
                               struct bn_bench_reads *reads, bn_error *err)
{
    struct stats before;
    uint64_t layers, all, cache;
    struct bn_generation gen = {
        .prompt = m->ids + depth, .n_prompt = 1, .n_predict = 1, .sampling = BN_SAMPLER_OPTIONS_INIT};
    read_stats(&before, session);
    BN_TRY(bn_session_eval(session, m->ids + depth, 1, BN_LOGITS_NONE, NULL, err));
    BN_TRY(read_since(session, &before, depth, &layers, &cache, err));
    BN_TRY(bn_generate(session, NULL, &gen, err));
    bn_generation_release(&gen);
    BN_TRY(read_since(session, &before, depth, &all, &cache, err));
    *reads = (struct bn_bench_reads){.weights = layers - cache, .head = all - layers, .cache = cache};
    return BN_OK;
}

/* ---- a sample ---- */

void bn_bench_ask(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                  struct bn_generation *gen)
{
    *gen = (struct bn_generation){
        .prompt = m->ids + c->depth, .ignore_end = true, .sampling = BN_SAMPLER_OPTIONS_INIT};
    gen->n_prompt = c->decode ? 1 : c->tokens;
    gen->n_predict = 1 + bn_bench_n_times(c);
}

/* Every target is little endian. */
bn_status bn_bench_digest(const struct bn_bench_measurement *m, const bn_session *session,
                          const struct bn_generation *gen, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_sha256 *sha = NULL;
    unsigned char bytes[BN_SHA256_BYTES];
    BN_TRY(bn_sha256_open(&sha, err));
    bn_sha256_update(sha, gen->ids, gen->n_ids * sizeof *gen->ids);
    bn_sha256_update(sha, bn_session_hidden(session), bn_model_hparams(m->model)->n_embd * sizeof(float));
    bn_sha256_take(sha, bytes);
    bn_sha256_close(sha);
    bn_hex(hex, bytes, sizeof bytes);
    return BN_OK;
}

/* Records a generation, the first of those that ran together; its kernels are those of all their passes. */
static bn_status book(const struct bn_bench_measurement *m, struct bn_bench_config *c,
                      struct bn_bench_sample *s, const struct bn_generation *gen, bn_error *err)
{
    s->ns = c->decode ? gen->decode_ns : c->answer > 0 ? gen->total_ns : gen->prefill_ns;
    s->total_ns = gen->total_ns;
    s->first_token_ns = gen->token_ns[0];
    s->evaluated = (gen->n_prompt + bn_bench_n_times(c)) * c->n_sequences;
    for (size_t i = 0; i < gen->n_kernels; i++) {
        s->bytes += gen->kernels[i].bytes;
        s->ops += gen->kernels[i].ops;
    }
    BN_TRY(bn_bench_digest(m, c->session, gen, s->output, err));
    BN_TRY(bn_array_grow(&c->samples, &c->room, c->n_samples + 1, sizeof *c->samples, err));
    uint32_t n_times = bn_bench_n_times(c);
    if (n_times > 0) {
        s->token_ns = bn_alloc(n_times, sizeof *s->token_ns);
        if (s->token_ns == NULL) return bn_nomem(err);
        memcpy(s->token_ns, gen->token_ns + 1, n_times * sizeof *s->token_ns);
    }
    add_up(c, gen);
    c->samples[c->n_samples++] = *s;
    return BN_OK;
}

static bool in_time(void *user, int32_t id, const char *text, size_t n_bytes)
{
    const uint64_t *until_ns = user;
    (void)id, (void)text, (void)n_bytes;
    return bn_clock_ns() < *until_ns;
}

void bn_bench_watch(struct bn_generation *gen, uint64_t *until_ns)
{
    gen->on_token = in_time;
    gen->user = until_ns;
}

/* Is a finished generation a sample? */
static bn_status judge(const struct bn_bench_measurement *m, struct bn_bench_config *c,
                       const struct bn_generation *gen, bn_error *err)
{
    if (gen->reason == BN_STOP_CALLER || (m->timeout_ns > 0 && gen->total_ns > m->timeout_ns)) {
        c->verdict = BN_BENCH_TIMEOUT;
        snprintf(c->reason, sizeof c->reason, "a sample took more than --timeout: %.3f s, %zu of %u tokens",
                 (double)gen->total_ns / 1e9, gen->n_ids, gen->n_predict);
        return BN_OK;
    }
    if (gen->n_ids == gen->n_predict) return BN_OK;
    return bn_fail(err, BN_ERR_INTERNAL, "got %zu tokens, expected %u", gen->n_ids, gen->n_predict);
}

static bn_sequence *sequence_of(const struct bn_bench_config *c, size_t i)
{
    return i == 0 ? bn_session_sequence(c->session) : c->sequences[i];
}

/* The generations of a sample, all of which ask for the same. */
struct together {
    bn_generation *list;
    size_t n;
};

/* Runs them in one pass each step; they must give the same tokens. */
static bn_status run_together(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                              struct together *all, bn_error *err)
{
    bn_scheduler *sched = NULL;
    const bn_tokenizer *tok = bn_model_tokenizer(m->model);
    if (all->n == 1) return bn_generate(c->session, tok, all->list, err);
    BN_TRY(bn_scheduler_open(&sched, c->session, tok, (uint32_t)all->n, err));
    bn_status status = BN_OK;
    for (size_t i = 0; i < all->n && status == BN_OK; i++)
        status = bn_scheduler_add(sched, sequence_of(c, i), &all->list[i], err);
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

static void release_together(struct together *all)
{
    for (size_t i = 0; i < all->n; i++)
        bn_generation_release(&all->list[i]);
    bn_free(all->list);
}

bn_status bn_bench_take(struct bn_bench_measurement *m, struct bn_bench_config *c, uint32_t round,
                        double bandwidth, bn_error *err)
{
    struct bn_noise then, now;
    struct bn_bench_sample s = {.round = round, .bandwidth = bandwidth};
    struct together all = {bn_alloc(c->n_sequences, sizeof *all.list), c->n_sequences};
    uint64_t until_ns = UINT64_MAX;
    if (all.list == NULL) return bn_nomem(err);
    for (size_t i = 0; i < all.n; i++) {
        bn_bench_ask(m, c, &all.list[i]);
        bn_bench_watch(&all.list[i], &until_ns);
    }
    bn_bench_usage_begin(m, &s.usage);
    bn_noise_read(&then);
    uint64_t start = bn_clock_ns();
    if (m->timeout_ns > 0) until_ns = start + m->timeout_ns;
    bn_status status = run_together(m, c, &all, err);
    bn_noise_read(&now);
    bn_bench_usage_end(m, &s.usage);
    s.start_ns = start - m->start_ns;
    s.noise = bn_noise_since(&then, &now);
    if (status == BN_OK) status = judge(m, c, &all.list[0], err);
    if (status == BN_OK && c->verdict == BN_BENCH_VALID) status = book(m, c, &s, &all.list[0], err);
    release_together(&all);
    for (size_t i = 0; i < all.n && status == BN_OK; i++)
        status = bn_sequence_truncate(sequence_of(c, i), c->depth, err);
    return status;
}
