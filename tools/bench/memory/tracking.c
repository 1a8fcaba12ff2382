/* SPDX-License-Identifier: MIT
 *
 * The overhead of tracking: decoding with the profiler off and at each of its levels, in turn, as time per token
 * and as memory of the profiler. The counting of allocations is measured with the allocations (time_by_calloc),
 * since decoding makes none.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "infer/session.h"
#include "tools/bench/memory/memory.h"
#include "tools/cli/default_model.h"

#define TOKENS 16u /* of each sample */
#define MAX_ROUNDS 100u

struct level {
    bn_prof *prof;             /* NULL: off */
    uint64_t bytes;            /* that it allocated */
    uint64_t n_events;         /* of the last sample, over all threads */
    uint64_t ns[MAX_ROUNDS];   /* of each sample */
    double by_off[MAX_ROUNDS]; /* by the time without a profiler in the same round */
};

struct tracking {
    bn_model *model;
    bn_session *session;
    float *logits;
    struct level levels[BN_PROF_LEVELS];
    size_t n; /* rounds */
};

static bn_status prepare(struct tracking *t, const struct bn_harness *s, bn_error *err)
{
    bn_session_options options = {.n_ctx = TOKENS, .n_threads = s->o->threads.list[0], .exact_threads = true};
    BN_TRY(bn_cli_open_model(&t->model, s->args, NULL, err));
    BN_TRY(bn_session_open(&t->session, t->model, &options, err));
    t->logits = bn_alloc_aligned(bn_model_hparams(t->model)->n_vocab, sizeof *t->logits);
    if (t->logits == NULL) return bn_nomem(err);
    for (int i = BN_PROF_LAYER; i < BN_PROF_LEVELS; i++) {
        struct bn_prof_options o = {.level = (enum bn_prof_level)i,
                                    .n_threads = bn_session_n_threads(t->session),
                                    .n_passes = TOKENS};
        o.n_events = (size_t)bn_prof_room_for(bn_model_hparams(t->model), o.level, TOKENS, TOKENS);
        uint64_t before = bn_mem_stats().bytes_now;
        BN_TRY(bn_prof_open(&t->levels[i].prof, &o, err));
        t->levels[i].bytes = bn_mem_stats().bytes_now - before;
    }
    return BN_OK;
}

/* Decodes TOKENS tokens, one by one; the time includes the summing up. */
static bn_status decode(struct tracking *t, struct level *level, uint64_t *ns, bn_error *err)
{
    uint32_t n_vocab = bn_model_hparams(t->model)->n_vocab;
    BN_TRY(bn_session_truncate(t->session, 0, err));
    BN_TRY(bn_session_set_profile(t->session, level->prof, err));
    if (level->prof != NULL) bn_prof_enable(level->prof);
    uint64_t start = bn_clock_ns();
    if (level->prof != NULL) bn_prof_reset_epoch(level->prof);
    for (uint32_t i = 0; i < TOKENS; i++) {
        int32_t id = (int32_t)(i * 7919u % n_vocab);
        BN_TRY(bn_session_eval(t->session, &id, 1, BN_LOGITS_LAST, t->logits, err));
    }
    if (level->prof != NULL) bn_prof_finalize(level->prof, bn_prof_elapsed_ns(level->prof));
    *ns = bn_clock_ns() - start;
    return BN_OK;
}

/* Rounds over all levels, each begun by another one; the first round warms up. */
static bn_status measure(struct tracking *t, uint64_t min_ns, bn_error *err)
{
    uint64_t begin = bn_clock_ns(), ns[BN_PROF_LEVELS];
    for (size_t round = 0; t->n < MAX_ROUNDS; round++) {
        if (t->n >= BN_BENCH_MIN_SAMPLES && bn_clock_ns() - begin > 4 * min_ns) break;
        for (size_t k = 0; k < BN_PROF_LEVELS; k++) {
            size_t i = (round + k) % BN_PROF_LEVELS;
            BN_TRY(decode(t, &t->levels[i], &ns[i], err));
        }
        if (round == 0) continue;
        for (size_t i = 0; i < BN_PROF_LEVELS; i++) {
            t->levels[i].ns[t->n] = ns[i];
            t->levels[i].by_off[t->n] = (double)ns[i] / (double)ns[BN_PROF_OFF];
        }
        t->n++;
    }
    for (size_t i = BN_PROF_LAYER; i < BN_PROF_LEVELS; i++)
        for (unsigned thread = 0; thread < bn_session_n_threads(t->session); thread++) {
            size_t n = 0;
            (void)bn_prof_events(t->levels[i].prof, thread, &n);
            t->levels[i].n_events += n;
        }
    return BN_OK;
}

static bn_status put_level(struct bn_harness *s, const struct tracking *t, size_t i, bn_error *err)
{
    const struct level *level = &t->levels[i];
    char test[40];
    snprintf(test, sizeof test, "tracking %s", bn_prof_level_name((enum bn_prof_level)i));
    if (!bn_harness_wants(s, test)) return BN_OK;
    struct bn_harness_row row = {
        .test = test, .metric = "ns_per_token", .per_call = TOKENS, .n_threads = s->o->threads.list[0]};
    struct bn_summary by_off = {0};
    bn_json *r = bn_harness_test(s, test);
    bn_json_put_string(r, "level", bn_prof_level_name((enum bn_prof_level)i));
    bn_json_put_u64(r, "threads", s->o->threads.list[0]);
    bn_json_put_number(r, "events_per_token", (double)level->n_events / TOKENS);
    BN_TRY(bn_harness_put_samples(s, &row, 1, level->ns, t->n, r, err));
    BN_TRY(bn_metric_add(&s->series, test, "time_by_off", level->by_off, t->n, 0, err));
    BN_TRY(bn_harness_put_value(s, test, "tracking_bytes", (double)level->bytes, err));
    bn_harness_put_row(s, &row);
    if (!row.valid) return BN_OK;
    if (!bn_summarize(&by_off, level->by_off, t->n)) return bn_nomem(err);
    bn_table_percent(&s->table, by_off.median - 1, true);
    bn_table_printf(&s->table, "%.0f", (double)level->n_events / TOKENS);
    bn_table_value(&s->table, (double)level->bytes, "bytes");
    return BN_OK;
}

bn_status bn_memory_tracking(struct bn_harness *s, bn_error *err)
{
    static const char *const HEADS[] = {"decoding", "per token", "spread", "overhead", "events", "memory"};
    bool wanted = false;
    for (int i = BN_PROF_OFF; i < BN_PROF_LEVELS; i++) {
        char test[40];
        snprintf(test, sizeof test, "tracking %s", bn_prof_level_name((enum bn_prof_level)i));
        wanted = bn_harness_wants(s, test) || wanted;
    }
    if (!wanted) return BN_OK;
    struct tracking *t = bn_alloc(1, sizeof *t);
    if (t == NULL) return bn_nomem(err);
    bn_status status = bn_harness_table(s, HEADS, "lrrrrr", err);
    if (status == BN_OK) status = prepare(t, s, err);
    if (status == BN_OK) status = measure(t, s->min_ns, err);
    for (size_t i = 0; i < BN_PROF_LEVELS && status == BN_OK; i++)
        status = put_level(s, t, i, err);
    bn_session_close(t->session);
    for (size_t i = 0; i < BN_PROF_LEVELS; i++)
        bn_prof_close(t->levels[i].prof);
    bn_model_close(t->model);
    bn_free(t->logits);
    bn_free(t);
    return status;
}
