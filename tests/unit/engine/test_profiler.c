/* SPDX-License-Identifier: MIT
 *
 * The profiler: the ten claims F101 to F110 about a profiler of bricks, each with what would refute it. No
 * test looks at how long something took: the clock is a fake one, or only structure and sums are compared.
 */
#include "tests/unit/engine/profiler_maker.h"
#include "tests/unit/status.h"

/* ---- F101, F102: the list ---- */

TEST(f101_fifteen_bricks_have_fixed_numbers)
{
    static const char *const NAMES[] = {
        "RmsNorm",          "LayerNorm",       "QkvProjection",    "RopeEmbedding",  "AttentionScore",
        "AttentionSoftmax", "AttentionOutput", "OutputProjection", "GateProjection", "UpProjection",
        "Activation",       "DownProjection",  "Embedding",        "LmHead",         "Sampling"};
    assert_int_equal(BN_BRICK_COUNT, 15);
    assert_int_equal(BN_ARRAY_LEN(NAMES), BN_BRICK_COUNT);
    for (unsigned i = 0; i < BN_BRICK_COUNT; i++)
        assert_string_equal(bn_brick_name(i), NAMES[i]);
    assert_true(BN_BRICK_ACTIVATION_QUANTIZE >= BN_BRICK_COUNT && BN_BRICK_BARRIER_WAIT >= BN_BRICK_COUNT);
    assert_null(bn_brick_name(BN_BRICK_KNOWN));
}

TEST(f102_each_has_its_category)
{
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

/* ---- F103, F104, F110: summing up ---- */

#define N_SPINS 100u
#define SPIN_NS 1000u

TEST(f103_deferred_events_wait_unchanged)
{
    struct fake fake = {.now = 500};
    bn_prof *prof = open_prof(&fake, 1, 256);
    for (unsigned i = 0; i < N_SPINS; i++)
        prof_record(prof, 0, BN_BRICK_ATTENTION_SCORE, i * SPIN_NS, (i + 1) * SPIN_NS, 7);
    assert_int_equal(bn_prof_pending(prof), N_SPINS);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_ATTENTION_SCORE, 0).count, 0);
    size_t n = 0;
    const struct bn_prof_event *events = bn_prof_events(prof, 0, &n);
    assert_int_equal(n, N_SPINS);
    for (unsigned i = 0; i < N_SPINS; i++) {
        assert_int_equal(events[i].begin, 500 + i * SPIN_NS);
        assert_int_equal(events[i].end, 500 + (i + 1) * SPIN_NS);
        assert_int_equal(events[i].elements, 7);
    }
    bn_prof_close(prof);
}

TEST(f104_finalize_sums_each_event_by_its_own_ends)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, 1, 256);
    for (unsigned i = 0; i < N_SPINS; i++)
        prof_record(prof, 0, BN_BRICK_ATTENTION_SCORE, i * SPIN_NS, (i + 1) * SPIN_NS, 1);
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
    must(bn_prof_check(prof, NULL));
    bn_prof_close(prof);
}

/* A made-up pass: bricks inside a brick, others next to it, unattributed pauses. */
static void play(bn_prof *prof, struct fake *fake)
{
    for (unsigned layer = 0; layer < 3; layer++) {
        prof->trails[0].layer = (int16_t)layer;
        struct bn_brick_timer timer = bn_prof_start(bn_prof_trail(prof, 0), BN_BRICK_ATTENTION);
        fake->now += 3;
        work(prof, fake, BN_BRICK_ATTENTION_SCORE, 100 + layer);
        work(prof, fake, BN_BRICK_ATTENTION_SOFTMAX, 40);
        fake->now += 2;
        bn_prof_stop(timer, 1);
        fake->now += 1;
        work(prof, fake, BN_BRICK_GATE_PROJECTION, 200);
        work(prof, fake, BN_BRICK_RMS_NORM, 11);
        prof->trails[0].layer = -1;
    }
    work(prof, fake, BN_BRICK_LM_HEAD, 333);
}

TEST(f110_all_sums_agree_to_the_nanosecond)
{
    struct fake fake = {.now = 123456};
    bn_prof *prof = open_prof(&fake, 1, 256);
    play(prof, &fake);
    bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
    struct bn_brick_stats categories[BN_CATEGORY_COUNT];
    uint64_t sum = 0, by_brick[BN_CATEGORY_COUNT] = {0};
    bn_prof_category_stats(prof, 0, categories);
    for (unsigned i = 0; i < BN_BRICK_MAX; i++)
        by_brick[bn_brick_category(i)] += bn_prof_stats_for(prof, i, 0).exclusive_ns;
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
    must(bn_prof_check(prof, NULL));
    bn_prof_close(prof);
}

TEST(a_level_but_off_records)
{
    for (int level = BN_PROF_OFF; level < BN_PROF_LEVELS; level++) {
        struct fake fake = {0};
        bn_prof *prof = open_prof(&fake, 1, 256);
        prof->level = (enum bn_prof_level)level;
        work(prof, &fake, BN_BRICK_RMS_NORM, 5);
        assert_int_equal(bn_prof_pending(prof), level != BN_PROF_OFF);
        assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0).count, 0);
        bn_prof_finalize(prof, fake.now);
        assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0).count, level != BN_PROF_OFF);
        assert_int_equal(bn_prof_check(prof, NULL), level != BN_PROF_OFF ? BN_OK : BN_ERR_MISMATCH);
        bn_prof_close(prof);
    }
}

/* ---- F105 to F109: cost ---- */

TEST(f105_disabled_reads_no_clock)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, 1, 256);
    uint64_t before = fake.n_reads;
    work(prof, &fake, BN_BRICK_RMS_NORM, 1);
    assert_int_equal(fake.n_reads, before + 2);
    for (int how = 0; how < 2; how++) {
        if (how == 0) prof->enabled = false;
        if (how == 1) prof->enabled = true, prof->level = BN_PROF_OFF;
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
TEST(f106_a_brick_is_an_index)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, 1, 4096);
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

TEST(f107_two_threads_lose_nothing)
{
    bn_prof *prof = open_prof(NULL, 2, N_RECORDS);
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

TEST(f108_timers_are_small_and_nothing_allocates)
{
    struct fake fake = {0};
    assert_true(sizeof(struct bn_brick_timer) <= 32);
    bn_prof *prof = open_prof(&fake, 1, 16);
    uint64_t hits = bn_mem_guard_hits();
    bn_mem_guard(true);
    play(prof, &fake); /* more events than fit: a full trail must not grow either */
    play(prof, &fake);
    bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
    bn_mem_guard(false);
    assert_int_equal(bn_mem_guard_hits(), hits);
    bn_prof_close(prof);
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

TEST(f109_elapsed_time_never_goes_back)
{
    struct watch w = {.prof = open_prof(NULL, 2, 16)};
    uint64_t before = 0;
    for (unsigned i = 0; i < 1000000; i++) {
        uint64_t now = bn_prof_elapsed_ns(w.prof);
        assert_true(now >= before);
        before = now;
    }
    bn_team_once(2, read_often, &w);
    assert_false(w.failed);
    bn_prof_close(w.prof);
}

/* A clock of a damaged profile: the product does not fit, and is the largest time. */
TEST(times_have_an_end)
{
    bn_prof *prof = open_prof(NULL, 1, 16);
    prof->epoch = 0;
    prof->clock.ns_per_tick = 1000;
    assert_true(bn_prof_ns(prof, UINT64_MAX) == UINT64_MAX);
    bn_prof_close(prof);
}

/* Passes that are skipped, and what follows them, leave a begin and an end and no bricks. */
TEST(skips_passes)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, 1, 64);
    for (unsigned i = 0; i < 4; i++) {
        bn_prof_begin_pass(prof, i, 1, 1);
        work(prof, &fake, BN_BRICK_RMS_NORM, 10);
        bn_prof_end_pass(prof);
        if (i == 0) prof->n_skip = 2;
        work(prof, &fake, BN_BRICK_SAMPLING, 5);
    }
    assert_int_equal(prof->n_passes, 4);
    assert_int_equal(prof->passes[2].begin, 30);
    assert_int_equal(prof->passes[2].end, 40);
    bn_prof_fold(prof);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0).count, 2);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_SAMPLING, 0).count, 2);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0).exclusive_ns, 20);
    bn_prof_forget_events(prof);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_RMS_NORM, 0).count, 2); /* the sums stay */
    assert_int_equal(prof->n_passes, 0);
    bn_prof_close(prof);
}
