/* SPDX-License-Identifier: MIT
 *
 * The profiler: the ten claims F101 to F110 that a profiler of bricks is held to, each with what would refute
 * it; its gate; and a profile of a real pass. No test looks at how long something took: the clock is a fake
 * one, or only structure and sums are compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/team.h"
#include "infer/session.h"
#include "stamp/profiler.h"

#define NANO "fixtures/nano-bitnet-b1.58-i2_s-42.gguf"

/* A clock that moves when it is told to, and counts who looks at it. */
struct fake {
    uint64_t now, n_reads;
};

static uint64_t read_fake(void *user)
{
    struct fake *fake = user;
    fake->n_reads++;
    return fake->now;
}

static bn_prof *open_prof(struct fake *fake, enum bn_prof_mode mode, unsigned n_threads, size_t n_events)
{
    struct bn_prof_options options = {BN_PROF_BRICK, mode, n_threads, n_events, 64};
    bn_prof *prof = NULL;
    assert_int_equal(bn_prof_open(&prof, &options, NULL), BN_OK);
    if (fake != NULL) bn_prof_set_clock(prof, read_fake, fake);
    bn_prof_enable(prof);
    bn_prof_reset_epoch(prof);
    return prof;
}

/* A brick that takes so long. */
static void work(bn_prof *prof, struct fake *fake, unsigned brick, uint64_t ns)
{
    struct bn_brick_timer timer = bn_prof_start_brick(prof, brick);
    fake->now += ns;
    bn_prof_stop_brick(timer, 10);
}

/* ---- F101, F102: the list ---- */

static void f101_fifteen_bricks_have_fixed_numbers(void **state)
{
    static const char *const NAMES[] = {
        "RmsNorm",          "LayerNorm",       "QkvProjection",    "RopeEmbedding",  "AttentionScore",
        "AttentionSoftmax", "AttentionOutput", "OutputProjection", "GateProjection", "UpProjection",
        "Activation",       "DownProjection",  "Embedding",        "LmHead",         "Sampling"};
    (void)state;
    assert_int_equal(BN_BRICK_COUNT, 15);
    assert_int_equal(BN_ARRAY_LEN(NAMES), BN_BRICK_COUNT);
    for (unsigned i = 0; i < BN_BRICK_COUNT; i++)
        assert_string_equal(bn_brick_name(i), NAMES[i]);
    assert_true(BN_BRICK_ACTIVATION_QUANTIZE >= BN_BRICK_COUNT && BN_BRICK_BARRIER_WAIT >= BN_BRICK_COUNT);
    assert_null(bn_brick_name(BN_BRICK_KNOWN));
}

static void f102_each_has_its_category(void **state)
{
    (void)state;
    for (unsigned i = 0; i < BN_BRICK_COUNT; i++) {
        enum bn_brick_category expected = i < 2    ? BN_CATEGORY_NORM
                                          : i < 8  ? BN_CATEGORY_ATTENTION
                                          : i < 12 ? BN_CATEGORY_FFN
                                          : i < 14 ? BN_CATEGORY_HEAD
                                                   : BN_CATEGORY_OTHER;
        assert_int_equal(bn_brick_category(i), expected);
    }
    assert_int_equal(bn_brick_find("Qkv"), BN_BRICK_QKV_PROJECTION);
    assert_int_equal(bn_brick_find("rope"), BN_BRICK_ROPE_EMBEDDING);
    assert_int_equal(bn_brick_find("Softmax"), BN_BRICK_ATTENTION_SOFTMAX);
    assert_int_equal(bn_brick_find("SiLU"), BN_BRICK_ACTIVATION);
    assert_int_equal(bn_brick_find("GELU"), BN_BRICK_ACTIVATION);
    assert_int_equal(bn_brick_find("ReLU"), BN_BRICK_ACTIVATION);
    assert_int_equal(bn_brick_find("lmhead"), BN_BRICK_LM_HEAD);
    assert_int_equal(bn_brick_find("si"), BN_BRICK_NONE);
    assert_int_equal(bn_brick_find(""), BN_BRICK_NONE);
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        assert_int_equal(bn_brick_find(bn_brick_name(i)), i);
}

static void names_are_interned_before_measuring(void **state)
{
    struct fake fake = {0};
    bn_error err = {0};
    uint8_t mine = 0, again = 0, known = 0, late = 77;
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 16);
    (void)state;
    bn_prof_disable(prof);
    assert_int_equal(bn_prof_intern(prof, "Mine", BN_CATEGORY_OTHER, &mine, &err), BN_OK);
    assert_int_equal(bn_prof_intern(prof, "qkv", BN_CATEGORY_OTHER, &known, &err), BN_OK);
    assert_int_equal(mine, BN_BRICK_KNOWN);
    assert_int_equal(known, BN_BRICK_QKV_PROJECTION);
    bn_prof_enable(prof);
    assert_int_equal(bn_prof_intern(prof, "Mine", BN_CATEGORY_FFN, &again, &err), BN_OK);
    assert_int_equal(again, mine);
    assert_int_equal(bn_prof_intern(prof, "Late", BN_CATEGORY_OTHER, &late, &err), BN_ERR_ARG);
    assert_int_equal(late, 77);
    work(prof, &fake, mine, 5);
    bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
    assert_int_equal(bn_prof_stats_for(prof, mine, 0).exclusive_ns, 5);
    assert_string_equal(bn_prof_brick_name(prof, mine), "Mine");
    assert_int_equal(bn_prof_brick_category(prof, mine), BN_CATEGORY_OTHER);
    bn_prof_disable(prof);
    char name[] = "brick-00";
    bn_status status = BN_OK;
    for (unsigned i = BN_BRICK_KNOWN + 1u; i <= BN_BRICK_MAX; i++) {
        name[6] = (char)('0' + i / 10);
        name[7] = (char)('0' + i % 10);
        assert_int_equal(status, BN_OK);
        status = bn_prof_intern(prof, name, BN_CATEGORY_OTHER, &late, NULL);
    }
    assert_int_equal(status, BN_ERR_LIMIT);
    bn_prof_close(prof);
}

/* ---- F103, F104, F110: summing up ---- */

#define N_SPINS 100u
#define SPIN_NS 1000u

static void f103_deferred_events_wait_unchanged(void **state)
{
    struct fake fake = {.now = 500};
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 256);
    (void)state;
    for (unsigned i = 0; i < N_SPINS; i++)
        bn_prof_record_deferred(prof, 0, BN_BRICK_ATTENTION_SCORE, i * SPIN_NS, (i + 1) * SPIN_NS, 7);
    assert_int_equal(bn_prof_pending(prof), N_SPINS);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_ATTENTION_SCORE, 0).count, 0);
    size_t n = 0;
    const struct bn_prof_event *events = bn_prof_events(prof, 0, &n);
    assert_int_equal(n, N_SPINS);
    for (unsigned i = 0; i < N_SPINS; i++) {
        assert_int_equal(events[i].begin, i * SPIN_NS);
        assert_int_equal(events[i].end, (i + 1) * SPIN_NS);
        assert_int_equal(events[i].elements, 7);
    }
    bn_prof_close(prof);
}

static void f104_finalize_sums_each_event_by_its_own_ends(void **state)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 256);
    (void)state;
    for (unsigned i = 0; i < N_SPINS; i++)
        bn_prof_record_deferred(prof, 0, BN_BRICK_ATTENTION_SCORE, i * SPIN_NS, (i + 1) * SPIN_NS, 1);
    bn_prof_finalize(prof, N_SPINS * SPIN_NS);
    assert_int_equal(bn_prof_pending(prof), 0);
    struct bn_brick_stats b = bn_prof_stats_for(prof, BN_BRICK_ATTENTION_SCORE, 0);
    /* With one end for all it would be N (N + 1) / 2 times the length. */
    assert_int_equal(b.inclusive_ns, N_SPINS * SPIN_NS);
    assert_int_not_equal(b.inclusive_ns, N_SPINS * (N_SPINS + 1) / 2 * SPIN_NS);
    assert_int_equal(b.min_ns, SPIN_NS);
    assert_int_equal(b.max_ns, SPIN_NS);
    bn_prof_finalize(prof, 5 * N_SPINS * SPIN_NS);
    struct bn_brick_stats again = bn_prof_stats_for(prof, BN_BRICK_ATTENTION_SCORE, 0);
    assert_memory_equal(&again, &b, sizeof b);
    assert_int_equal(prof->wall_ns, N_SPINS * SPIN_NS);
    assert_int_equal(bn_prof_check(prof, NULL), BN_OK);
    bn_prof_close(prof);
}

/* A made-up pass: bricks inside a brick, others next to it, unattributed pauses. */
static void play(bn_prof *prof, struct fake *fake)
{
    for (unsigned layer = 0; layer < 3; layer++) {
        prof->trails[0].layer = (int16_t)layer;
        struct bn_brick_timer timer = bn_prof_start_brick(prof, BN_BRICK_ATTENTION);
        fake->now += 3;
        work(prof, fake, BN_BRICK_ATTENTION_SCORE, 100 + layer);
        work(prof, fake, BN_BRICK_ATTENTION_SOFTMAX, 40);
        fake->now += 2;
        bn_prof_stop_brick(timer, 1);
        fake->now += 1;
        work(prof, fake, BN_BRICK_GATE_PROJECTION, 200);
        work(prof, fake, BN_BRICK_RMS_NORM, 11);
        prof->trails[0].layer = -1;
    }
    work(prof, fake, BN_BRICK_LM_HEAD, 333);
}

static void f110_all_sums_agree_to_the_nanosecond(void **state)
{
    (void)state;
    struct bn_brick_stats first[BN_BRICK_MAX];
    for (int mode = BN_PROF_PER_LAYER; mode < BN_PROF_MODES; mode++) {
        struct fake fake = {.now = 123456};
        bn_prof *prof = open_prof(&fake, (enum bn_prof_mode)mode, 1, 256);
        play(prof, &fake);
        bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
        struct bn_brick_stats categories[BN_CATEGORY_COUNT];
        uint64_t sum = 0, by_brick[BN_CATEGORY_COUNT] = {0};
        bn_prof_category_stats(prof, 0, categories);
        for (unsigned i = 0; i < BN_BRICK_MAX; i++)
            by_brick[bn_prof_brick_category(prof, i)] += bn_prof_stats_for(prof, i, 0).exclusive_ns;
        for (unsigned c = 0; c < BN_CATEGORY_COUNT; c++) {
            assert_int_equal(categories[c].exclusive_ns, by_brick[c]);
            sum += categories[c].exclusive_ns;
        }
        assert_int_equal(sum, bn_prof_total_ns(prof, 0));
        assert_int_equal(prof->wall_ns, 3 * (3 + 140 + 2 + 1 + 200 + 11) + 3 + 333);
        assert_int_equal(prof->wall_ns - sum, 3); /* the pauses: unattributed */
        struct bn_brick_stats attention = bn_prof_stats_for(prof, BN_BRICK_ATTENTION, 0);
        assert_int_equal(attention.inclusive_ns, 3 * 145 + 3);
        assert_int_equal(attention.exclusive_ns, 3 * 5);
        assert_int_equal(bn_prof_check(prof, NULL), BN_OK);
        /* The result is the same in every mode. */
        for (unsigned i = 0; i < BN_BRICK_MAX; i++) {
            struct bn_brick_stats b = bn_prof_stats_for(prof, i, 0);
            if (mode == BN_PROF_PER_LAYER) first[i] = b;
            assert_memory_equal(&b, &first[i], sizeof b);
        }
        bn_prof_close(prof);
    }
}

static void every_mode_but_none_records(void **state)
{
    (void)state;
    for (int mode = BN_PROF_NONE; mode < BN_PROF_MODES; mode++) {
        struct fake fake = {0};
        bn_prof *prof = open_prof(&fake, (enum bn_prof_mode)mode, 1, 256);
        work(prof, &fake, BN_BRICK_RMS_NORM, 5);
        assert_int_equal(bn_prof_pending(prof), mode != BN_PROF_NONE);
        assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0).count, 0);
        bn_prof_finalize(prof, fake.now);
        assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0).count, mode != BN_PROF_NONE);
        assert_int_equal(bn_prof_check(prof, NULL), mode != BN_PROF_NONE ? BN_OK : BN_ERR_MISMATCH);
        bn_prof_close(prof);
    }
}

/* ---- F105 to F109: cost ---- */

static void f105_disabled_reads_no_clock(void **state)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 256);
    (void)state;
    uint64_t before = fake.n_reads;
    work(prof, &fake, BN_BRICK_RMS_NORM, 1);
    assert_int_equal(fake.n_reads, before + 2);
    for (int how = 0; how < 3; how++) {
        if (how == 0) bn_prof_disable(prof);
        if (how == 1) bn_prof_enable(prof), bn_prof_set_sync_mode(prof, BN_PROF_NONE);
        if (how == 2) bn_prof_set_sync_mode(prof, BN_PROF_DEFERRED), prof->level = BN_PROF_OFF;
        bn_prof_reset_epoch(prof);
        before = fake.n_reads;
        play(prof, &fake);
        bn_prof_begin_pass(prof, 0, 1, 1);
        bn_prof_end_pass(prof);
        assert_int_equal(bn_prof_elapsed_ns(prof), 0);
        assert_int_equal(fake.n_reads, before);
        assert_int_equal(bn_prof_pending(prof), 0);
    }
    bn_prof_close(prof);
}

/* Each number reaches its own place and no other. */
static void f106_a_brick_is_an_index(void **state)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, BN_PROF_IMMEDIATE, 1, 4096);
    (void)state;
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        work(prof, &fake, i, 100 + i);
    bn_prof_finalize(prof, fake.now);
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        assert_int_equal(bn_prof_stats_for(prof, i, 0).exclusive_ns, 100 + i);
        assert_int_equal(prof->trails[0].bricks[i].exclusive_ns, 100 + i);
    }
    bn_prof_close(prof);
}

#define N_RECORDS 1000000u

static void record_many(void *arg, unsigned thread, unsigned n_threads)
{
    bn_prof *prof = arg;
    (void)n_threads;
    struct bn_prof_trail *trail = bn_prof_trail(prof, thread);
    for (unsigned i = 0; i < N_RECORDS; i++)
        bn_prof_stop(bn_prof_start(trail, thread == 0 ? BN_BRICK_RMS_NORM : BN_BRICK_ACTIVATION), 3);
}

static void f107_two_threads_lose_nothing(void **state)
{
    bn_prof *prof = open_prof(NULL, BN_PROF_DEFERRED, 2, N_RECORDS);
    (void)state;
    bn_team_once(2, record_many, prof);
    bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0).count, N_RECORDS);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 1).count, 0);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_ACTIVATION, 1).count, N_RECORDS);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_ACTIVATION, 0).count, 0);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_ACTIVATION, BN_PROF_ALL_THREADS).elements,
                     3 * N_RECORDS);
    assert_int_equal(bn_prof_dropped(prof), 0);
    bn_prof_close(prof);
}

static void f108_timers_are_small_and_nothing_allocates(void **state)
{
    struct fake fake = {0};
    (void)state;
    assert_true(sizeof(struct bn_brick_timer) <= 32);
    for (int mode = BN_PROF_PER_LAYER; mode < BN_PROF_MODES; mode++) {
        bn_prof *prof = open_prof(&fake, (enum bn_prof_mode)mode, 1, 16);
        uint64_t hits = bn_mem_guard_hits();
        bn_mem_guard(true);
        play(prof, &fake); /* more events than fit: a full trail must not grow either */
        play(prof, &fake);
        bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
        bn_mem_guard(false);
        assert_int_equal(bn_mem_guard_hits(), hits);
        bn_prof_close(prof);
    }
}

struct watch {
    bn_prof *prof;
    atomic_uint_fast64_t latest;
    atomic_bool failed;
};

/* Each reading is taken after the latest one was published, on whichever thread. */
static void read_often(void *arg, unsigned thread, unsigned n_threads)
{
    struct watch *w = arg;
    (void)thread, (void)n_threads;
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t before = atomic_load(&w->latest), now = bn_prof_elapsed_ns(w->prof);
        if (now < before) w->failed = true;
        while (before < now && !atomic_compare_exchange_weak(&w->latest, &before, now)) {
        }
    }
}

static void f109_elapsed_time_never_goes_back(void **state)
{
    struct watch w = {.prof = open_prof(NULL, BN_PROF_DEFERRED, 2, 16)};
    uint64_t before = 0;
    (void)state;
    for (unsigned i = 0; i < 1000000; i++) {
        uint64_t now = bn_prof_elapsed_ns(w.prof);
        assert_true(now >= before);
        before = now;
    }
    bn_team_once(2, read_often, &w);
    assert_false(w.failed);
    bn_prof_close(w.prof);
}

/* ---- the gate ---- */

static void check_fails(bn_prof *prof, struct fake *fake, const char *why)
{
    bn_error err = {0};
    bn_prof_finalize(prof, fake->now);
    assert_int_equal(bn_prof_check(prof, &err), BN_ERR_MISMATCH);
    assert_non_null(strstr(err.msg, why));
    bn_prof_close(prof);
}

static void a_full_trail_fails_the_gate(void **state)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 4);
    (void)state;
    for (int i = 0; i < 7; i++)
        work(prof, &fake, BN_BRICK_RMS_NORM, 10);
    assert_int_equal(bn_prof_dropped(prof), 3);
    assert_int_equal(bn_prof_pending(prof), 4);
    check_fails(prof, &fake, "3 events were dropped");
}

static void time_that_no_brick_has_fails_the_gate(void **state)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 4);
    (void)state;
    work(prof, &fake, BN_BRICK_RMS_NORM, 84);
    fake.now += 16;
    check_fails(prof, &fake, "84.0 %");
    fake.now = 0;
    prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 4);
    work(prof, &fake, BN_BRICK_RMS_NORM, 85);
    fake.now += 15;
    bn_prof_finalize(prof, fake.now);
    assert_int_equal(bn_prof_check(prof, NULL), BN_OK);
    bn_prof_close(prof);
}

static void other_faults_fail_the_gate(void **state)
{
    struct fake fake = {0};
    (void)state;
    check_fails(open_prof(&fake, BN_PROF_DEFERRED, 1, 4), &fake, "nothing was measured");

    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 4);
    work(prof, &fake, BN_BRICK_RMS_NORM, 10);
    struct bn_brick_timer timer = bn_prof_start_brick(prof, BN_BRICK_LM_HEAD);
    check_fails(prof, &fake, "LmHead is still open");
    (void)timer;

    prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 4);
    fake.now += 50;
    timer = bn_prof_start_brick(prof, BN_BRICK_LM_HEAD);
    fake.now -= 20;
    bn_prof_stop_brick(timer, 1);
    fake.now += 20;
    check_fails(prof, &fake, "an event ends before it began");

    prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 4);
    timer = bn_prof_start_brick(prof, BN_BRICK_LM_HEAD);
    fake.now += 10;
    bn_prof_stop_brick(timer, 1);
    bn_prof_stop_brick(timer, 1);
    check_fails(prof, &fake, "1 events were dropped");

    /* Two that overlap: more than the time there was. */
    prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 4);
    bn_prof_record_deferred(prof, 0, BN_BRICK_LM_HEAD, 0, 100, 1);
    bn_prof_record_deferred(prof, 0, BN_BRICK_RMS_NORM, 0, 100, 1);
    fake.now = 100;
    check_fails(prof, &fake, "bricks took 200 ns of 100");
}

static void waiting_belongs_to_the_thread_that_waits(void **state)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 2, 16);
    (void)state;
    /* Work is divided 70 to 30: the second thread waits 40 of 70. */
    bn_prof_record_deferred(prof, 0, BN_BRICK_GATE_PROJECTION, 0, 70, 1);
    bn_prof_record_deferred(prof, 0, BN_BRICK_BARRIER_WAIT, 70, 70, 0);
    bn_prof_record_deferred(prof, 1, BN_BRICK_GATE_PROJECTION, 0, 30, 1);
    bn_prof_record_deferred(prof, 1, BN_BRICK_BARRIER_WAIT, 30, 70, 0);
    bn_prof_finalize(prof, 70);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_BARRIER_WAIT, 0).exclusive_ns, 0);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_BARRIER_WAIT, 1).exclusive_ns, 40);
    uint64_t useful = bn_prof_stats_for(prof, BN_BRICK_GATE_PROJECTION, BN_PROF_ALL_THREADS).exclusive_ns;
    assert_int_equal(100 * useful / prof->wall_ns, 142); /* average parallelism 100/70 */
    assert_int_equal(bn_prof_check(prof, NULL), BN_OK);
    bn_prof_close(prof);
}

static void quantiles_are_events(void **state)
{
    struct fake fake = {0};
    struct bn_prof_quantiles q;
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 256);
    (void)state;
    for (unsigned i = 1; i <= 100; i++)
        work(prof, &fake, BN_BRICK_RMS_NORM, 101 - i);
    for (unsigned i = 1; i <= 19; i++)
        work(prof, &fake, BN_BRICK_LM_HEAD, i);
    bn_prof_finalize(prof, fake.now);
    assert_int_equal(bn_prof_quantiles(prof, BN_BRICK_RMS_NORM, &q, NULL), BN_OK);
    assert_int_equal(q.median_ns, 50);
    assert_int_equal(q.p95_ns, 95);
    assert_int_equal(q.p99_ns, 99);
    assert_int_equal(bn_prof_quantiles(prof, BN_BRICK_LM_HEAD, &q, NULL), BN_OK);
    assert_int_equal(q.median_ns, 10);
    assert_int_equal(q.p95_ns, 0); /* too few */
    assert_int_equal(bn_prof_quantiles(prof, BN_BRICK_EMBEDDING, &q, NULL), BN_OK);
    assert_int_equal(q.median_ns, 0);
    bn_prof_close(prof);
}

static void opening_copes_without_memory(void **state)
{
    struct bn_prof_options options = {BN_PROF_BRICK, BN_PROF_DEFERRED, 2, 16, 16}, none = {0};
    (void)state;
    for (uint64_t n = 1; n <= 6; n++) {
        bn_prof *prof = NULL;
        bn_mem_fail_after(n);
        assert_int_equal(bn_prof_open(&prof, &options, NULL), BN_ERR_NOMEM);
        bn_mem_fail_after(0);
        assert_null(prof);
    }
    bn_prof *prof = NULL;
    assert_int_equal(bn_prof_open(&prof, &none, NULL), BN_ERR_ARG);
}

/* ---- real passes ---- */

#define N_PROMPT 5u
#define N_DECODE 3u

struct run {
    bn_model *model;
    bn_session *session;
    float *logits; /* 1 + N_DECODE rows */
    size_t n_vocab;
    uint32_t n_layer;
    bool sub_norms;
};

static void open_run(struct run *run, uint32_t n_threads)
{
    bn_session_options options = {.n_ctx = 32, .n_batch = 8, .n_threads = n_threads, .exact_threads = true};
    assert_int_equal(bn_model_open(&run->model, NANO, NULL, NULL), BN_OK);
    assert_int_equal(bn_session_open(&run->session, run->model, &options, NULL), BN_OK);
    run->n_vocab = bn_model_hparams(run->model)->n_vocab;
    run->n_layer = bn_model_hparams(run->model)->n_layer;
    run->sub_norms = bn_model_hparams(run->model)->sub_norms;
    run->logits = bn_alloc((1 + N_DECODE) * run->n_vocab, sizeof *run->logits);
}

static void evaluate(struct run *run)
{
    int32_t ids[N_PROMPT + N_DECODE] = {1, 5, 9, 2, 7, 3, 8, 4};
    assert_int_equal(bn_session_truncate(run->session, 0, NULL), BN_OK);
    assert_int_equal(bn_session_eval(run->session, ids, N_PROMPT, BN_LOGITS_LAST, run->logits, NULL), BN_OK);
    for (size_t i = 0; i < N_DECODE; i++)
        assert_int_equal(bn_session_eval(run->session, ids + N_PROMPT + i, 1, BN_LOGITS_LAST,
                                         run->logits + (1 + i) * run->n_vocab, NULL),
                         BN_OK);
}

static void close_run(struct run *run)
{
    bn_session_close(run->session);
    bn_model_close(run->model);
    bn_free(run->logits);
}

static uint64_t counted(const bn_prof *prof, unsigned brick, unsigned thread)
{
    return bn_prof_stats_for(prof, brick, thread).count;
}

/* Each brick of each layer of each pass, on each thread. */
static void check_counts(const bn_prof *prof, const struct run *run, unsigned t, enum bn_prof_level level)
{
    static const unsigned ONCE[] = {
        BN_BRICK_QKV_PROJECTION,    BN_BRICK_ROPE_EMBEDDING,  BN_BRICK_KV_STORE,
        BN_BRICK_OUTPUT_PROJECTION, BN_BRICK_GATE_PROJECTION, BN_BRICK_UP_PROJECTION,
        BN_BRICK_ACTIVATION,        BN_BRICK_DOWN_PROJECTION, BN_BRICK_ATTENTION};
    uint64_t n_passes = 1 + N_DECODE, in_layers = n_passes * run->n_layer;
    bool inside = level >= BN_PROF_BRICK;
    for (size_t i = 0; i < BN_ARRAY_LEN(ONCE); i++)
        assert_int_equal(counted(prof, ONCE[i], t), inside ? in_layers : 0);
    assert_int_equal(counted(prof, BN_BRICK_RMS_NORM, t),
                     n_passes + (inside ? in_layers * (run->sub_norms ? 4 : 2) : 0));
    assert_int_equal(counted(prof, BN_BRICK_ACTIVATION_QUANTIZE, t), inside ? 4 * in_layers : 0);
    assert_int_equal(counted(prof, BN_BRICK_RESIDUAL_ADD, t), inside ? 2 * in_layers : 0);
    assert_int_equal(counted(prof, BN_BRICK_LAYER, t), inside ? 0 : in_layers);
    assert_int_equal(counted(prof, BN_BRICK_EMBEDDING, t), n_passes);
    assert_int_equal(counted(prof, BN_BRICK_LM_HEAD, t), n_passes);
    assert_int_equal(counted(prof, BN_BRICK_TEAM, t), t == 0 ? 2 * n_passes : 0);
    assert_true((counted(prof, BN_BRICK_ATTENTION_SCORE, t) >= in_layers) == (level == BN_PROF_KERNEL));
    assert_int_equal(counted(prof, BN_BRICK_ATTENTION_SCORE, t), counted(prof, BN_BRICK_ATTENTION_OUTPUT, t));
    assert_true((bn_prof_kernel_stats(prof, BN_KERNEL_QUANTIZE, t).count == 4 * in_layers) ==
                (level == BN_PROF_KERNEL));
}

static void a_pass_is_the_same_bits_and_wholly_stamped(void **state)
{
    struct run plain, run;
    (void)state;
    open_run(&plain, 2);
    evaluate(&plain);
    open_run(&run, 2);
    for (int level = BN_PROF_LAYER; level < BN_PROF_LEVELS; level++) {
        struct bn_prof_options options = {(enum bn_prof_level)level, BN_PROF_DEFERRED, 2, 0, 0};
        bn_prof *prof = NULL;
        assert_int_equal(bn_prof_open(&prof, &options, NULL), BN_OK);
        assert_int_equal(bn_session_set_profile(run.session, prof, NULL), BN_OK);
        bn_prof_enable(prof);
        bn_prof_reset_epoch(prof);
        bn_mem_guard(true);
        evaluate(&run);
        bn_mem_guard(false);
        bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
        assert_memory_equal(run.logits, plain.logits, (1 + N_DECODE) * run.n_vocab * sizeof *run.logits);
        assert_int_equal(prof->n_passes, 1 + N_DECODE);
        assert_int_equal(prof->passes[0].n_tokens, N_PROMPT);
        for (unsigned t = 0; t < 2; t++) {
            check_counts(prof, &run, t, (enum bn_prof_level)level);
            assert_true(bn_prof_total_ns(prof, t) <= prof->wall_ns);
            assert_int_equal(bn_prof_total_ns(prof, t), prof->trails[t].inside_ns[0]);
        }
        /* The gate may refuse a machine that was busy elsewhere, and nothing else. */
        bn_error err = {0};
        if (bn_prof_check(prof, &err) != BN_OK) assert_non_null(strstr(err.msg, "account for"));
        assert_int_equal(bn_session_set_profile(run.session, NULL, NULL), BN_OK);
        bn_prof_close(prof);
    }
    close_run(&plain);
    close_run(&run);
}

/* What the profile counts of kernels is what the session counts without it. */
static void kernel_events_count_what_the_session_counts(void **state)
{
    struct run run;
    struct bn_prof_options options = {BN_PROF_KERNEL, BN_PROF_IMMEDIATE, 2, 0, 0};
    bn_prof *prof = NULL;
    (void)state;
    open_run(&run, 2);
    assert_int_equal(bn_prof_open(&prof, &options, NULL), BN_OK);
    assert_int_equal(bn_session_set_profile(run.session, prof, NULL), BN_OK);
    bn_prof_enable(prof);
    bn_prof_reset_epoch(prof);
    evaluate(&run);
    bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
    bn_kernel_stat stat;
    for (size_t i = 0; bn_session_kernel_stat(run.session, i, &stat); i++) {
        uint64_t bytes = 0, ops = 0, calls = 0;
        for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
            if (strcmp(bn_prof_kernel_name(prof, k), stat.name) != 0) continue;
            bytes += bn_prof_kernel_stats(prof, (enum bn_kernel)k, BN_PROF_ALL_THREADS).bytes;
            ops += bn_prof_kernel_stats(prof, (enum bn_kernel)k, BN_PROF_ALL_THREADS).ops;
            calls += bn_prof_kernel_stats(prof, (enum bn_kernel)k, 0).count;
        }
        assert_int_equal(bytes, stat.bytes);
        assert_int_equal(ops, stat.ops);
        assert_int_equal(calls, stat.calls);
    }
    close_run(&run);
    bn_prof_close(prof);
}

static void a_session_wants_a_trail_for_each_thread(void **state)
{
    struct run run;
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, BN_PROF_DEFERRED, 1, 16);
    (void)state;
    open_run(&run, 2);
    assert_int_equal(bn_session_set_profile(run.session, prof, NULL), BN_ERR_ARG);
    evaluate(&run);
    assert_int_equal(bn_prof_pending(prof), 0);
    close_run(&run);
    bn_prof_close(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f101_fifteen_bricks_have_fixed_numbers),
        cmocka_unit_test(f102_each_has_its_category),
        cmocka_unit_test(names_are_interned_before_measuring),
        cmocka_unit_test(f103_deferred_events_wait_unchanged),
        cmocka_unit_test(f104_finalize_sums_each_event_by_its_own_ends),
        cmocka_unit_test(f110_all_sums_agree_to_the_nanosecond),
        cmocka_unit_test(every_mode_but_none_records),
        cmocka_unit_test(f105_disabled_reads_no_clock),
        cmocka_unit_test(f106_a_brick_is_an_index),
        cmocka_unit_test(f107_two_threads_lose_nothing),
        cmocka_unit_test(f108_timers_are_small_and_nothing_allocates),
        cmocka_unit_test(f109_elapsed_time_never_goes_back),
        cmocka_unit_test(a_full_trail_fails_the_gate),
        cmocka_unit_test(time_that_no_brick_has_fails_the_gate),
        cmocka_unit_test(other_faults_fail_the_gate),
        cmocka_unit_test(waiting_belongs_to_the_thread_that_waits),
        cmocka_unit_test(quantiles_are_events),
        cmocka_unit_test(opening_copes_without_memory),
        cmocka_unit_test(a_pass_is_the_same_bits_and_wholly_stamped),
        cmocka_unit_test(kernel_events_count_what_the_session_counts),
        cmocka_unit_test(a_session_wants_a_trail_for_each_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
