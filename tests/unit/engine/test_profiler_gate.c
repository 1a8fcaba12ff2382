/* SPDX-License-Identifier: MIT
 *
 * The gate of the profiler, and profiles of real passes.
 */
#include "tests/unit/engine/profiler_maker.h"
#include "tests/unit/status.h"

static void check_fails(bn_prof *prof, struct fake *fake, const char *why)
{
    bn_prof_finalize(prof, fake->now);
    refused(bn_prof_check(prof, &err), BN_ERR_MISMATCH);
    assert_has(err.msg, why);
    bn_prof_close(prof);
}

TEST(a_full_trail_fails_the_gate)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, 1, 4);
    for (int i = 0; i < 7; i++)
        work(prof, &fake, BN_BRICK_RMS_NORM, 10);
    assert_int_equal(bn_prof_dropped(prof), 3);
    assert_int_equal(bn_prof_pending(prof), 4);
    check_fails(prof, &fake, "3 events were dropped");
}

TEST(time_that_no_brick_has_fails_the_gate)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, 1, 4);
    work(prof, &fake, BN_BRICK_RMS_NORM, 84);
    fake.now += 16;
    check_fails(prof, &fake, "84.0 %");
    fake.now = 0;
    prof = open_prof(&fake, 1, 4);
    work(prof, &fake, BN_BRICK_RMS_NORM, 85);
    fake.now += 15;
    bn_prof_finalize(prof, fake.now);
    must(bn_prof_check(prof, NULL));
    bn_prof_close(prof);
}

TEST(other_faults_fail_the_gate)
{
    struct fake fake = {0};
    check_fails(open_prof(&fake, 1, 4), &fake, "nothing was measured");

    bn_prof *prof = open_prof(&fake, 1, 4);
    work(prof, &fake, BN_BRICK_RMS_NORM, 10);
    struct bn_brick_timer timer = bn_prof_start(bn_prof_trail(prof, 0), BN_BRICK_LM_HEAD);
    check_fails(prof, &fake, "LmHead is still open");
    (void)timer;

    prof = open_prof(&fake, 1, 4);
    fake.now += 50;
    timer = bn_prof_start(bn_prof_trail(prof, 0), BN_BRICK_LM_HEAD);
    fake.now -= 20;
    bn_prof_stop(timer, 1);
    fake.now += 20;
    check_fails(prof, &fake, "an event ends before it begins");

    prof = open_prof(&fake, 1, 4);
    timer = bn_prof_start(bn_prof_trail(prof, 0), BN_BRICK_LM_HEAD);
    fake.now += 10;
    bn_prof_stop(timer, 1);
    bn_prof_stop(timer, 1);
    check_fails(prof, &fake, "1 events were dropped");

    /* Two that overlap: more than the time there was. */
    prof = open_prof(&fake, 1, 4);
    prof_record(prof, 0, BN_BRICK_LM_HEAD, 0, 100, 1);
    prof_record(prof, 0, BN_BRICK_RMS_NORM, 0, 100, 1);
    fake.now = 100;
    check_fails(prof, &fake, "bricks took 200 ns of 100");
}

TEST(waiting_belongs_to_the_thread_that_waits)
{
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, 2, 16);
    /* Work is divided 70 to 30: the second thread waits 40 of 70. */
    prof_record(prof, 0, BN_BRICK_GATE_PROJECTION, 0, 70, 1);
    prof_record(prof, 0, BN_BRICK_BARRIER_WAIT, 70, 70, 0);
    prof_record(prof, 1, BN_BRICK_GATE_PROJECTION, 0, 30, 1);
    prof_record(prof, 1, BN_BRICK_BARRIER_WAIT, 30, 70, 0);
    bn_prof_finalize(prof, 70);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_BARRIER_WAIT, 0).exclusive_ns, 0);
    assert_int_equal(bn_prof_stats_for(prof, BN_BRICK_BARRIER_WAIT, 1).exclusive_ns, 40);
    uint64_t useful = bn_prof_stats_for(prof, BN_BRICK_GATE_PROJECTION, BN_PROF_ALL_THREADS).exclusive_ns;
    assert_int_equal(100 * useful / prof->wall_ns, 142); /* average parallelism 100/70 */
    must(bn_prof_check(prof, NULL));
    bn_prof_close(prof);
}

TEST(quantiles_are_events)
{
    struct fake fake = {0};
    struct bn_prof_quantiles q;
    bn_prof *prof = open_prof(&fake, 1, 256);
    for (unsigned i = 1; i <= 100; i++)
        work(prof, &fake, BN_BRICK_RMS_NORM, 101 - i);
    for (unsigned i = 1; i <= 19; i++)
        work(prof, &fake, BN_BRICK_LM_HEAD, i);
    bn_prof_finalize(prof, fake.now);
    must(bn_prof_quantiles(prof, BN_BRICK_RMS_NORM, &q, NULL));
    assert_int_equal(q.median_ns, 50);
    assert_int_equal(q.p95_ns, 95);
    assert_int_equal(q.p99_ns, 99);
    must(bn_prof_quantiles(prof, BN_BRICK_LM_HEAD, &q, NULL));
    assert_int_equal(q.median_ns, 10);
    assert_int_equal(q.p95_ns, 0); /* too few */
    must(bn_prof_quantiles(prof, BN_BRICK_EMBEDDING, &q, NULL));
    assert_int_equal(q.median_ns, 0);
    bn_prof_close(prof);
}

TEST(opening_copes_without_memory)
{
    struct bn_prof_options options = {BN_PROF_BRICK, 2, 16, 16}, none = {0};
    for (uint64_t n = 1; n <= 5; n++) {
        bn_prof *prof = NULL;
        bn_mem_fail_after(n);
        refused(bn_prof_open(&prof, &options, NULL), BN_ERR_NOMEM);
        bn_mem_fail_after(0);
        assert_null(prof);
    }
    bn_prof *prof = NULL;
    refused(bn_prof_open(&prof, &none, NULL), BN_ERR_ARG);
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
    must(bn_model_open(&run->model, NANO, NULL, NULL));
    must(bn_session_open(&run->session, run->model, &options, NULL));
    run->n_vocab = bn_model_hparams(run->model)->n_vocab;
    run->n_layer = bn_model_hparams(run->model)->n_layer;
    run->sub_norms = bn_model_hparams(run->model)->sub_norms;
    run->logits = bn_alloc((1 + N_DECODE) * run->n_vocab, sizeof *run->logits);
}

static void evaluate(struct run *run)
{
    int32_t ids[N_PROMPT + N_DECODE] = {1, 5, 9, 2, 7, 3, 8, 4};
    must(bn_session_truncate(run->session, 0, NULL));
    must(bn_session_eval(run->session, ids, N_PROMPT, BN_LOGITS_LAST, run->logits, NULL));
    for (size_t i = 0; i < N_DECODE; i++)
        must(bn_session_eval(run->session, ids + N_PROMPT + i, 1, BN_LOGITS_LAST,
                             run->logits + (1 + i) * run->n_vocab, NULL));
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

TEST(a_pass_is_the_same_bits_and_wholly_stamped)
{
    struct run plain, run;
    open_run(&plain, 2);
    evaluate(&plain);
    open_run(&run, 2);
    for (int level = BN_PROF_LAYER; level < BN_PROF_LEVELS; level++) {
        struct bn_prof_options options = {(enum bn_prof_level)level, 2, 0, 0};
        bn_prof *prof = NULL;
        must(bn_prof_open(&prof, &options, NULL));
        must(bn_session_set_profile(run.session, prof, NULL));
        prof->enabled = true;
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
        if (attempt(bn_prof_check(prof, &err)) != BN_OK) assert_has(err.msg, "account for");
        must(bn_session_set_profile(run.session, NULL, NULL));
        bn_prof_close(prof);
    }
    close_run(&plain);
    close_run(&run);
}

/* What the profile counts of kernels is what the session counts without it. */
TEST(kernel_events_count_what_the_session_counts)
{
    struct run run;
    struct bn_prof_options options = {BN_PROF_KERNEL, 2, 0, 0};
    bn_prof *prof = NULL;
    open_run(&run, 2);
    must(bn_prof_open(&prof, &options, NULL));
    must(bn_session_set_profile(run.session, prof, NULL));
    prof->enabled = true;
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

TEST(a_session_wants_a_trail_for_each_thread)
{
    struct run run;
    struct fake fake = {0};
    bn_prof *prof = open_prof(&fake, 1, 16);
    open_run(&run, 2);
    refused(bn_session_set_profile(run.session, prof, NULL), BN_ERR_ARG);
    evaluate(&run);
    assert_int_equal(bn_prof_pending(prof), 0);
    close_run(&run);
    bn_prof_close(prof);
}
