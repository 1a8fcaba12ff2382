/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: prompts and decoding as a generation runs them (bn_generate), timed. Rounds go over all
 * configurations, every other one backwards, so that a change of the machine affects all of them.
 *
 * How many rounds: each test has a window, at first of --reps samples. With --warmup auto it moves on by a round, and its
 * first sample becomes warm-up, until there is no trend within it; then it grows until all have settled.
 */
#include "tools/bench/run/run.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/team.h"
#include "infer/exchange.h"
#include "lab/host/meters.h"
#include "model/device.h"
#include "model/model.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"
#include "tools/cli/ranks.h"
#include "tools/cli/text.h"

#define MAX_REPS 10000u
#define MAX_BUSY 256u
#define MOST_AUTO_WARMUP 10u
#define MOST_AUTO_NS UINT64_C(300000000000) /* no further round becomes warm-up after this time */
#define PROBE_NS 30000000u                  /* for a set in a cache */
#define MEMORY_PROBE_NS 150000000u          /* for a set in memory, which other processes use too */
#define MEMORY_BYTES (16u << 20)

const struct bn_option bn_bench_run_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
    BN_OPTION_REPACK,
    BN_BENCH_RUN_TESTS("128,512", "32"),
    BN_OPTION("sequences", "decode this many sequences together, in one pass", .arg = "LIST",
              .group = "Tests", .preset = "1", BN_TO_LIST(struct bn_bench_options, sequences, 0, 4096)),
    BN_OPTION("concurrent", "also run this many generations concurrently, each with its own threads",
              .rare = true, .arg = "LIST", .group = "Tests",
              BN_TO_LIST(struct bn_bench_options, concurrent, 0, 256)),
    BN_OPTION("busy", "also next to this many processes that keep a CPU busy", .arg = "LIST",
              .group = "Tests", BN_TO_LIST(struct bn_bench_options, busy, 0, MAX_BUSY)),
    BN_OPTION("generate", "prompt and answer in one call, e.g. 128+32", .arg = "P+N", .group = "Tests",
              .repeatable = true, BN_TO_TEXTS(struct bn_bench_options, generates)),
    BN_OPTION("score", "also score a text; validation: the built-in one", .arg = "FILE", .group = "Tests",
              BN_TO_TEXT(struct bn_bench_options, score)),
    BN_OPTION("score-tokens", "score at most this many tokens; 0: all", .rare = true, .arg = "N",
              .group = "Tests", .preset = "0", BN_TO_U32(struct bn_bench_options, score_tokens, 0, 1u << 30)),
    BN_OPTION("target", "fail unless reached, e.g. decode>=30, first-token<=200ms", .arg = "TARGET",
              .group = "Verdict", .repeatable = true, BN_TO_TEXTS(struct bn_bench_options, targets)),
    BN_OPTION("reps", "samples of each test", .letter = 'r', .arg = "N", .group = "Measurement",
              .preset = "6", BN_TO_U32(struct bn_bench_options, reps, 1, MAX_REPS)),
    BN_OPTION("warmup", "discarded samples before them; auto: until times show no trend", .rare = true,
              .arg = "N", .group = "Measurement", .preset = "auto",
              BN_TO_U32_AUTO(struct bn_bench_options, warmup, 0, 1000)),
    BN_BENCH_CONFIDENCE_OPTION("Measurement"),
    BN_OPTION("price-per-hour", "price of the machine; prints that of a million tokens", .rare = true,
              .arg = "PRICE", .group = "Output",
              BN_TO_F64(struct bn_bench_options, price_per_hour, 1e-9, 1e9)),
    BN_OPTION("timeout", "abort a sample after this time; its test has no result; 0: no limit", .rare = true,
              .arg = "SECONDS", .group = "Measurement", .preset = "600",
              BN_TO_F64(struct bn_bench_options, timeout, 0, 1e6)),
    BN_OPTION("loads", "how many times to open the model", .rare = true, .arg = "N", .group = "Measurement",
              .preset = "6", BN_TO_U32(struct bn_bench_options, n_loads, 1, 1000)),
    BN_OPTION("seed", "seed for the random prompt tokens", .rare = true, .arg = "N", .group = "Measurement",
              .preset = "42", .env = "BITNET_SEED",
              BN_TO_U64(struct bn_bench_options, seed, 0, 9007199254740991)),
    BN_BENCH_THREADS,
    {0},
};

/* ---- options ---- */

static uint32_t largest(const struct bn_list *all)
{
    uint32_t most = 0;
    for (size_t i = 0; i < all->n; i++)
        if (all->list[i] > most) most = all->list[i];
    return most;
}

/* A size of 0 means no test of that kind. */
static void drop_zeros(struct bn_list *list)
{
    size_t n = list->n;
    list->n = 0;
    for (size_t i = 0; i < n; i++)
        if (list->list[i] != 0) list->list[list->n++] = list->list[i];
}

/* "128+32", of --generate. */
static bn_status read_pair(struct bn_bench_config *test, const char *text, bn_error *err)
{
    unsigned prompt = 0, answer = 0;
    int n = 0;
    bool read = sscanf(text, "%7u+%7u%n", &prompt, &answer, &n) == 2 && text[n] == '\0' &&
                strspn(text, "0123456789+") == (size_t)n;
    if (!read || prompt == 0 || answer == 0 || prompt > BN_BENCH_MAX_TOKENS || answer > BN_BENCH_MAX_TOKENS)
        return bn_fail(err, BN_ERR_ARG, "--generate: '%.40s' is not P+N, such as 128+32", text);
    test->tokens = prompt;
    test->answer = answer;
    return BN_OK;
}

/* Every kind of test, without depth, threads, batch and busy processes. */
static bn_status list_kinds(struct bn_bench_measurement *m, bn_error *err)
{
    const struct bn_bench_options *o = m->o;
    size_t n = o->prompts.n + o->decodes.n * (o->sequences.n + o->concurrent.n) + o->generates.n;
    struct bn_bench_config *k = m->kinds = bn_alloc(n + 1, sizeof *m->kinds);
    if (k == NULL) return bn_nomem(err);
    for (size_t i = 0; i <= n; i++)
        k[i] = (struct bn_bench_config){.n_sequences = 1, .n_concurrent = 1};
    for (size_t i = 0; i < o->prompts.n; i++)
        k++->tokens = o->prompts.list[i];
    for (size_t i = 0; i < o->decodes.n * (o->sequences.n + o->concurrent.n); i++) {
        size_t at = i / o->decodes.n;
        k->decode = true;
        k->tokens = o->decodes.list[i % o->decodes.n];
        if (at < o->sequences.n)
            k->n_sequences = o->sequences.list[at];
        else
            k->n_concurrent = o->concurrent.list[at - o->sequences.n];
        k += at < o->sequences.n || k->n_concurrent > 1; /* one alone is there already */
    }
    for (size_t i = 0; i < o->generates.n; i++)
        BN_TRY(read_pair(k++, o->generates.list[i], err));
    m->n_kinds = (size_t)(k - m->kinds);
    for (size_t i = 0; i < m->n_kinds; i++) {
        uint32_t prompt = m->kinds[i].decode ? 1 : m->kinds[i].tokens;
        uint32_t all = m->kinds[i].tokens + (m->kinds[i].decode ? 1 : m->kinds[i].answer);
        if (prompt > m->longest_prompt) m->longest_prompt = prompt;
        if (all > m->longest) m->longest = all;
    }
    return BN_OK;
}

/* Under mpirun the other ranks follow one session. */
static bn_status need_one_session(const struct bn_bench_options *o, bn_error *err)
{
    if (bn_cli_ranks() == NULL) return BN_OK;
    if (o->threads.n + o->depths.n + o->batches.n == 3 && o->concurrent.n + o->busy.n == 0 &&
        o->score == NULL)
        return BN_OK;
    return bn_hint(
        bn_fail(err, BN_ERR_ARG, "%u ranks measure tests of one session only", bn_cli_ranks()->count), err,
        "give one number of threads, one depth, one batch; no --concurrent, --busy, --score");
}

static bn_status read_options(struct bn_bench_measurement *m, bn_error *err)
{
    static uint32_t ONE = 1;
    struct bn_bench_options *o = m->o;
    m->warmup = o->warmup == UINT32_MAX ? 1 : o->warmup;
    m->confidence = o->confidence / 100;
    m->timeout_ns = (uint64_t)(o->timeout * 1e9);
    struct bn_list *const LISTS[] = {&o->concurrent, &o->busy,    &o->sequences,
                                     &o->prompts,    &o->decodes, &o->batches};
    for (size_t i = 0; i < BN_ARRAY_LEN(LISTS); i++)
        drop_zeros(LISTS[i]);
    if (o->sequences.n == 0)
        o->sequences = (struct bn_list){&ONE, 1}; /* bn-bench limits has no such option */
    if (o->batches.n == 0) return bn_fail(err, BN_ERR_ARG, "--batch: must be at least 1");
    if (o->prompts.n + o->generates.n == 0) o->batches.n = 1; /* tokens are decoded one by one */
    BN_TRY(list_kinds(m, err));
    if (m->n_kinds == 0)
        return bn_fail(err, BN_ERR_ARG,
                       "nothing to measure: give prompt lengths (-p), tokens to decode (-n), or --generate");
    BN_TRY(bn_bench_threads(&o->threads, err));
    return need_one_session(o, err);
}

/* Random ids from the seed; all of them are valid. */
static bn_status make_timeline(struct bn_bench_measurement *m, bn_error *err)
{
    size_t longest = (size_t)largest(&m->o->depths) + 1 + m->longest_prompt;
    uint64_t state = m->o->seed, n_vocab = bn_model_hparams(m->model)->n_vocab;
    BN_TRY(BN_NEW(m->ids, longest, err));
    for (size_t i = 0; i < longest; i++)
        m->ids[i] = (int32_t)((bn_splitmix64(&state) >> 32) * n_vocab >> 32);
    return BN_OK;
}

/* ---- the model and its memory ---- */

/* The model is opened several times before the rounds, not in them: a second copy would double the memory of a round. */
static bn_status open_model(struct bn_bench_measurement *m, bn_error *err)
{
    static const bn_model_options options = {.repack = BN_REPACK_AUTO};
    BN_TRY(BN_NEW(m->load_ns, m->o->n_loads, err));
    for (uint32_t i = 0; i < m->o->n_loads; i++) {
        bn_model_close(m->model);
        m->model = NULL;
        uint64_t start = bn_clock_ns();
        BN_TRY(bn_cli_open_model(&m->model, m->h.args, &options, err));
        m->load_ns[i] = (double)(bn_clock_ns() - start);
    }
    return BN_OK;
}

/* ---- sessions ---- */

/* As many as any test wants. */
static bn_status open_sequences(struct bn_bench_measurement *m, struct bn_bench_config *c, bn_error *err)
{
    size_t n = largest(&m->o->sequences);
    if (n > c->n_batch)
        return bn_fail(err, BN_ERR_ARG, "--sequences: %zu is more than the batch of %u tokens", n,
                       c->n_batch);
    BN_TRY(BN_NEW(c->sequences, n, err));
    c->sequences[0] = bn_session_sequence(c->session);
    for (size_t i = 1; i < n; i++)
        BN_TRY(bn_sequence_open(&c->sequences[i], c->session, 0, err));
    return BN_OK;
}

static void close_sessions(const struct bn_bench_measurement *m, struct bn_bench_config *c)
{
    for (size_t i = 1; c->crowd != NULL && i < largest(&m->o->concurrent); i++)
        bn_session_close(c->crowd[i]);
    bn_free(c->crowd);
    for (size_t i = 1; c->sequences != NULL && i < largest(&m->o->sequences); i++)
        bn_sequence_close(c->sequences[i]);
    bn_free(c->sequences);
    bn_session_close(c->session);
}

/* Up to the depth of the test. */
static bn_status fill_sequences(struct bn_bench_measurement *m, struct bn_bench_config *c, bn_error *err)
{
    for (size_t i = 0; i < largest(&m->o->sequences); i++)
        for (uint32_t done = 0; done < c->depth;) {
            size_t n = bn_min_size(c->n_batch, c->depth - done);
            bn_batch_part part = {c->sequences[i], m->ids + done, n, BN_LOGITS_NONE};
            BN_TRY(bn_session_eval_batch(c->session, &part, 1, 0, NULL, err));
            done += (uint32_t)n;
        }
    return BN_OK;
}

/* Sessions for concurrent generations, as many as any test wants, up to the depth of the test. */
static bn_status open_crowd(struct bn_bench_measurement *m, struct bn_bench_config *c, bn_error *err)
{
    size_t n = largest(&m->o->concurrent);
    bn_session_options options = {.n_ctx = c->depth + largest(&m->o->decodes) + 1, .n_threads = c->n_threads};
    BN_TRY(BN_NEW(c->crowd, n, err));
    c->crowd[0] = c->session;
    for (size_t i = 1; i < n; i++) {
        BN_TRY(bn_session_open(&c->crowd[i], m->model, &options, err));
        if (c->depth > 0) BN_TRY(bn_session_eval(c->crowd[i], m->ids, c->depth, BN_LOGITS_NONE, NULL, err));
    }
    return BN_OK;
}

/* On every rank, with the same sizes. */
static bn_status join_session(const struct bn_bench_measurement *m, struct bn_bench_config *c, bn_error *err)
{
    bn_session_options options = {.n_batch = c->n_batch, .n_threads = c->n_threads};
    options.n_ctx = c->depth + m->longest;
    options.exact_threads =
        options.n_threads > bn_team_cores(); /* also when threads have to wait for one another */
    bn_status status = bn_session_open(&c->session, m->model, &options, err);
    return bn_cli_agree(c->session, status, err);
}

static bn_status open_session(struct bn_bench_measurement *m, struct bn_bench_config *c, bn_error *err)
{
    struct bn_bench_reads reads;
    BN_TRY(join_session(m, c, err));
    if (m->token_bytes == 0) {
        BN_TRY(bn_bench_learn_reads(m, c->session, 0, &reads, err));
        m->token_bytes = reads.weights + reads.head + reads.cache;
    }
    BN_TRY(open_sequences(m, c, err));
    if (c->depth == 0) return BN_OK;
    bn_report_note(0, "filling the context with %u token%s, %u thread%s", c->depth, bn_cli_s(c->depth),
                   c->n_threads, bn_cli_s(c->n_threads));
    return fill_sequences(m, c, err);
}

/* The first configuration with the same threads, depth, batch and busy processes, which share a session. The
 * threads of a session remember for a while that others needed their CPUs (base/team.h). */
static struct bn_bench_config *first_like(const struct bn_bench_measurement *m,
                                          const struct bn_bench_config *c)
{
    struct bn_bench_config *like = m->configs;
    while (like->n_threads != c->n_threads || like->depth != c->depth || like->n_batch != c->n_batch ||
           like->n_busy != c->n_busy)
        like++;
    return like;
}

/* A test with every number of threads at each depth with each size of batch. */
static bn_status add_test(struct bn_bench_measurement *m, const struct bn_bench_config *test, bn_error *err)
{
    const struct bn_bench_options *o = m->o;
    size_t n_batches = test->decode ? 1 : o->batches.n; /* single tokens have no batch */
    for (size_t i = 0; i < n_batches * o->depths.n * o->threads.n; i++) {
        struct bn_bench_config *c = &m->configs[m->n_configs++];
        *c = *test;
        c->depth = o->depths.list[i / o->threads.n % o->depths.n];
        c->n_threads = o->threads.list[i % o->threads.n];
        c->n_batch = o->batches.list[i / o->threads.n / o->depths.n];
        struct bn_bench_config *like = first_like(m, c);
        if (like == c) BN_TRY(open_session(m, c, err));
        if (c->n_concurrent > 1 && like->crowd == NULL) BN_TRY(open_crowd(m, like, err));
        c->session = like->session;
        c->sequences = like->sequences;
        c->crowd = like->crowd;
    }
    return BN_OK;
}

/* All tests, and all but the concurrent ones again next to each number of busy processes. */
static bn_status make_configs(struct bn_bench_measurement *m, bn_error *err)
{
    const struct bn_bench_options *o = m->o;
    size_t n_places = o->threads.n * o->depths.n * o->batches.n * (1 + o->busy.n);
    BN_TRY(BN_NEW(m->configs, m->n_kinds * n_places, err));
    for (size_t i = 0; i < m->n_kinds * (1 + o->busy.n); i++) {
        struct bn_bench_config test = m->kinds[i % m->n_kinds];
        test.n_busy = i < m->n_kinds ? 0 : o->busy.list[i / m->n_kinds - 1];
        if (test.n_busy == 0 || test.n_concurrent == 1) BN_TRY(add_test(m, &test, err));
    }
    return BN_OK;
}

/* ---- measuring ---- */

static bn_status probe(struct bn_bench_measurement *m, bn_error *err)
{
    uint64_t budget_ns = m->token_bytes < MEMORY_BYTES ? PROBE_NS : MEMORY_PROBE_NS;
    size_t at = (size_t)m->n_rounds * m->o->threads.n;
    double *rates = bn_realloc(m->bandwidth, at + m->o->threads.n, sizeof *rates);
    if (rates == NULL) return bn_nomem(err);
    m->bandwidth = rates;
    if (m->model->device != NULL) { /* reads at one speed for all numbers of threads */
        BN_TRY(bn_device_measure(m->model->device, BN_DEVICE_READ, (size_t)m->token_bytes, budget_ns,
                                 &rates[at], err));
        for (size_t t = 1; t < m->o->threads.n; t++)
            rates[at + t] = rates[at];
        return BN_OK;
    }
    for (size_t t = 0; t < m->o->threads.n; t++)
        rates[at + t] =
            bn_cli_ranks() != NULL /* each reads a part */
                ? 0
                : (double)bn_bandwidth_probe((size_t)m->token_bytes, m->o->threads.list[t], budget_ns);
    return BN_OK;
}

static double bandwidth_of(const struct bn_bench_measurement *m, uint32_t round, uint32_t n_threads)
{
    size_t at = 0;
    while (m->o->threads.list[at] != n_threads)
        at++;
    return m->bandwidth[round * m->o->threads.n + at];
}

static bn_status run_round(struct bn_bench_measurement *m, bn_error *err)
{
    uint32_t round = m->n_rounds;
    BN_TRY(probe(m, err));
    BN_TRY(bn_bench_tokenize(m, err));
    for (size_t i = 0; i < m->n_configs; i++) {
        struct bn_bench_config *c = &m->configs[round % 2 == 0 ? i : m->n_configs - 1 - i];
        bn_progress_show(&m->progress, round * m->n_configs + i);
        if (c->verdict != BN_BENCH_VALID) continue;
        bn_loops_run(m->loops, c->n_busy);
        BN_TRY(bn_bench_take(m, c, bandwidth_of(m, round, c->n_threads), err));
    }
    bn_loops_run(m->loops, 0);
    m->n_rounds++;
    return bn_bench_reserve(m, err);
}

/* Auto warm-up: moves the window of each test with a trend. */
static bn_status settle(struct bn_bench_measurement *m, bool *settled, bn_error *err)
{
    bool last = bn_clock_ns() - m->start_ns >= MOST_AUTO_NS || !bn_bench_can_settle(m->o->reps);
    *settled = true;
    for (size_t i = 0; i < m->n_configs; i++) {
        struct bn_bench_config *c = &m->configs[i];
        if (!c->settled) BN_TRY(bn_bench_is_steady(m, c, &c->settled, err));
        if (c->settled || last || c->n_warmup >= MOST_AUTO_WARMUP || c->verdict != BN_BENCH_VALID) continue;
        c->n_warmup++;
        *settled = false;
    }
    return BN_OK;
}

static bn_status run_rounds(struct bn_bench_measurement *m, bn_error *err)
{
    for (bool settled = false; !settled;) {
        while (m->n_rounds < m->warmup + m->o->reps)
            BN_TRY(run_round(m, err));
        settled = m->o->warmup != UINT32_MAX;
        if (!settled) BN_TRY(settle(m, &settled, err));
        if (settled) break;
        m->progress.total += m->n_configs;
        BN_TRY(run_round(m, err));
    }
    return BN_OK;
}

static bn_status take_samples(struct bn_bench_measurement *m, bn_error *err)
{
    m->start_ns = bn_clock_ns();
    for (size_t i = 0; i < m->n_configs; i++)
        m->configs[i].n_warmup = m->warmup;
    bn_progress_begin(&m->progress, "samples", m->n_configs * ((uint64_t)m->warmup + m->o->reps),
                      m->h.args->quiet);
    bn_status status = run_rounds(m, err);
    bn_progress_clear(&m->progress);
    if (status == BN_OK) status = bn_bench_conclude(m, err);
    bn_loops_end(m->loops); /* their CPU time is ours from now on */
    m->loops = NULL;
    bn_harness_sampled(&m->h);
    return status;
}

/* ---- the command ---- */

bn_status bn_bench_prepare_run(struct bn_bench_measurement *m, struct bn_args *args, const char *command,
                               bn_error *err)
{
    m->o = args->fields;
    BN_TRY(read_options(m, err));
    BN_TRY(bn_bench_targets_read(m, err));
    bn_harness_begin(&m->h, args, command);
    m->h.model = bn_cli_put_model(m->h.doc, args);
    BN_TRY(bn_loops_start(&m->loops, largest(&m->o->busy), err));
    bn_bench_meters_open(&m->meters);
    BN_TRY(open_model(m, err));
    BN_TRY(bn_bench_score_read(m, err));
    BN_TRY(make_timeline(m, err));
    BN_TRY(make_configs(m, err));
    bn_busy_read(&m->h.before);
    return BN_OK;
}

bn_status bn_bench_measure(struct bn_bench_measurement *m, bn_error *err)
{
    BN_TRY(take_samples(m, err));
    BN_TRY(bn_bench_score_take(m, err));
    return bn_bench_run_put(m, err);
}

void bn_bench_release_run(struct bn_bench_measurement *m)
{
    for (size_t i = 0; i < m->n_configs; i++) {
        if (first_like(m, &m->configs[i]) == &m->configs[i]) close_sessions(m, &m->configs[i]);
        for (size_t k = 0; k < m->configs[i].n_samples; k++)
            bn_free(m->configs[i].samples[k].times);
        bn_free(m->configs[i].samples);
    }
    bn_loops_end(m->loops);
    bn_bench_meters_close(&m->meters);
    bn_model_close(m->model);
    void *blocks[] = {m->load_ns, m->ids,       m->kinds,   m->targets,    m->score.ids,
                      m->configs, m->bandwidth, m->scratch, m->tokenize_ns};
    for (size_t i = 0; i < BN_ARRAY_LEN(blocks); i++)
        bn_free(blocks[i]);
}

bn_status bn_bench_run_follow(struct bn_args *args, bn_error *err)
{
    struct bn_bench_options *o = args->fields;
    struct bn_bench_measurement m = {.o = o, .h.args = args};
    struct bn_bench_config c = {0};
    o->n_loads = 1;
    bn_bench_meters_open(&m.meters); /* nothing is counted */
    bn_status status = read_options(&m, err);
    if (status == BN_OK) status = open_model(&m, err);
    if (status == BN_OK) {
        c = (struct bn_bench_config){
            .depth = o->depths.list[0], .n_threads = o->threads.list[0], .n_batch = o->batches.list[0]};
        status = join_session(&m, &c, err);
    }
    if (status == BN_OK) status = bn_session_follow(c.session, m.model, err);
    bn_session_close(c.session);
    bn_bench_release_run(&m);
    return status;
}

bn_status bn_bench_run(struct bn_args *args, bn_error *err)
{
    struct bn_bench_measurement m = {0};
    bn_status status = bn_bench_prepare_run(&m, args, "run", err);
    if (status == BN_OK) status = bn_bench_measure(&m, err);
    if (status == BN_OK) status = bn_bench_targets_judge(&m, err);
    if (status == BN_OK && !args->json) status = bn_bench_run_print(&m, err);
    status = bn_harness_finish(&m.h, status, err);
    if (status == BN_OK && args->json) bn_bench_targets_print(&m);
    bn_bench_release_run(&m);
    return status;
}
