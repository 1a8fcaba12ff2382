/* SPDX-License-Identifier: MIT
 *
 * bn-bench run refuses invalid samples: of clocks that do not advance or are too coarse, with another output,
 * too late, or faster than the machine can read. Each fault is planted.
 */
#include <math.h>

#include "tests/unit/status.h"
#include "tools/bench/run/run.h"

#define MODEL "fixtures/nano-bitnet-b1.58-i2_s-42.gguf"

/* ---- runs that were made up ---- */

#define N 12u

/* Two configurations of the same test, whose samples are good. */
static struct bn_bench_measurement m;
static struct bn_bench_config configs[2];
static struct bn_bench_sample samples[2][N];
static uint64_t tokens[2][N];

static void make_up(void)
{
    memset(samples, 0, sizeof samples);
    for (unsigned c = 0; c < 2; c++) {
        configs[c] = (struct bn_bench_config){.decode = true,
                                              .n_sequences = 1,
                                              .n_concurrent = 1,
                                              .tokens = 1,
                                              .depth = 100 * c,
                                              .n_threads = 1,
                                              .n_batch = 128,
                                              .samples = samples[c],
                                              .n_samples = N,
                                              .n_warmup = 2};
        for (unsigned i = 0; i < N; i++) {
            struct bn_bench_sample *s = &samples[c][i];
            s->ns = 50000 + 200 * c + i % 3; /* 2 ns more a position */
            s->total_ns = s->ns + 10;
            s->bytes = 1000000;
            s->evaluated = 2;
            s->bandwidth = 25e9;
            s->times = &tokens[c][i];
            tokens[c][i] = s->ns;
            memset(s->output, c == 0 ? 'a' : 'b', BN_SHA256_HEX - 1);
        }
    }
    m = (struct bn_bench_measurement){
        .configs = configs, .n_configs = 2, .n_rounds = N, .confidence = 0.95, .h.clock.resolution_ns = 20};
}

TEST(good_samples_pass)
{
    make_up();
    must(bn_bench_reserve(&m, NULL));
    must(bn_bench_conclude(&m, NULL));
    for (unsigned c = 0; c < 2; c++) {
        assert_int_equal(configs[c].verdict, BN_BENCH_VALID);
        assert_string_equal(configs[c].implausible, "");
        assert_true(configs[c].steady);
    }
    assert_int_equal(bn_bench_collect(&m, &configs[0], "ns_per_token", NULL), N - 2);
    bn_free(m.scratch);
}

TEST(faults_are_found)
{
    static const char *const WHAT[] = {"output",       "depth's output", "frozen clock",
                                       "coarse clock", "speed",          "trend"};
    for (unsigned fault = 0; fault < 6; fault++) {
        make_up();
        for (unsigned i = 0; i < N; i++) {
            if (fault == 2) samples[1][i].ns = 50000;
            if (fault == 4) samples[1][i].bandwidth = 18e9; /* 20e9 are read */
            if (fault == 5) samples[1][i].ns = 50000 * (20 - i);
        }
        if (fault == 0) samples[1][7].output[63] = 'c';
        if (fault == 1) configs[1].depth = 0; /* now both are one test */
        if (fault == 3) m.h.clock.resolution_ns = 2511;
        must(bn_bench_reserve(&m, NULL));
        must(bn_bench_conclude(&m, NULL));
        bool refused = configs[1].verdict == BN_BENCH_INVALID && configs[1].reason[0] != '\0';
        if (fault < 4 && !refused) fail_msg("%s passed", WHAT[fault]);
        if (fault >= 4) assert_int_equal(configs[1].verdict, BN_BENCH_VALID);
        assert_true((configs[1].implausible[0] != '\0') == (fault == 4));
        assert_true(configs[1].steady == (fault != 5));
        assert_true((configs[0].verdict == BN_BENCH_VALID) == (fault != 3));
        bn_free(m.scratch);
    }
}

TEST(disturbances_are_found)
{
    make_up();
    samples[0][1].noise = (struct bn_noise){.steal_known = true, .steal_ns = 10000000}; /* warm-up */
    samples[0][5].ns = 90000;
    samples[0][5].noise = (struct bn_noise){.steal_known = true, .steal_ns = 10000000};
    samples[1][6].ns = 90000;
    samples[1][6].noise.involuntary_switches = 3;
    samples[1][7].noise.involuntary_switches = 2;
    samples[1][8].noise = (struct bn_noise){.pressure_known = true, .io_us = 40};
    must(bn_bench_reserve(&m, NULL));
    must(bn_bench_conclude(&m, NULL));
    assert_true(samples[0][5].disturbed && !samples[0][1].disturbed && !samples[0][6].disturbed);
    assert_true(samples[1][6].disturbed && !samples[1][7].disturbed && samples[1][8].disturbed);
    assert_int_equal(bn_bench_collect(&m, &configs[0], "ns_per_token", NULL), N - 2); /* all count */
    bn_free(m.scratch);
}

/* ---- runs of a model ---- */

struct real {
    struct bn_bench_measurement m;
    struct bn_bench_config config;
    bn_sequence *own;
    int32_t ids[8];
};

static void open_real(struct real *r, bool decode)
{
    bn_session_options options = {.n_ctx = 16, .n_threads = 1};
    *r = (struct real){.ids = {5, 6, 7, 8, 9, 10, 11, 12}};
    if (attempt(bn_model_open(&r->m.model, MODEL, NULL, &err)) != BN_OK) fail_msg("%s", err.msg);
    r->config = (struct bn_bench_config){
        .decode = decode, .tokens = 4, .n_threads = 1, .n_batch = 128, .n_sequences = 1, .n_concurrent = 1};
    must(bn_session_open(&r->config.session, r->m.model, &options, &err));
    r->own = bn_session_sequence(r->config.session);
    r->config.sequences = &r->own;
    r->m.ids = r->ids;
    r->m.configs = &r->config;
    r->m.n_configs = 1;
    r->m.confidence = 0.95;
}

static void close_real(struct real *r)
{
    for (size_t i = 0; i < r->config.n_samples; i++)
        bn_free(r->config.samples[i].times);
    bn_free(r->config.samples);
    bn_session_close(r->config.session);
    bn_model_close(r->m.model);
}

/* The same prompt gives the same digest; another one, in the middle of the measurement, does not. */
TEST(another_output_is_refused)
{
    for (unsigned decode = 0; decode < 2; decode++) {
        struct real r;
        open_real(&r, decode == 1);
        for (uint32_t round = 0; round < 3; round++)
            must(bn_bench_take(&r.m, &r.config, 0, &err));
        bn_bench_check_outputs(&r.config, 1);
        assert_int_equal(r.config.verdict, BN_BENCH_VALID);
        r.ids[0] = 4;
        must(bn_bench_take(&r.m, &r.config, 0, &err));
        bn_bench_check_outputs(&r.config, 1);
        assert_int_equal(r.config.verdict, BN_BENCH_INVALID);
        assert_has(r.config.reason, "round 3");
        close_real(&r);
    }
}

TEST(a_late_sample_does_not_count)
{
    for (unsigned decode = 0; decode < 2; decode++) {
        struct real r;
        open_real(&r, decode == 1);
        must(bn_bench_take(&r.m, &r.config, 0, &err));
        r.m.timeout_ns = 1;
        must(bn_bench_take(&r.m, &r.config, 0, &err));
        assert_int_equal(r.config.verdict, BN_BENCH_TIMEOUT);
        assert_int_equal(r.config.n_samples, 1);
        assert_int_equal(bn_session_position(r.config.session), 0);
        close_real(&r);
    }
}

TEST(concurrent_rates_and_fairness)
{
    uint64_t requests[2][2] = {{100, 300}, {200, 200}};
    make_up();
    struct bn_bench_config *c = &configs[0];
    c->n_concurrent = 2;
    c->n_warmup = 0;
    c->n_samples = 2;
    for (unsigned i = 0; i < 2; i++) {
        samples[0][i].ns = i == 0 ? 400 : 200;
        samples[0][i].times = requests[i];
    }
    must(bn_bench_reserve(&m, NULL));
    assert_int_equal(bn_bench_collect(&m, c, "request_ns", NULL), 4);
    assert_int_equal(bn_bench_collect(&m, c, "token_ns", NULL), 0);
    assert_int_equal(bn_bench_collect(&m, c, "tokens_per_second", NULL), 2);
    assert_true(fabs(m.scratch[0] - 2 * 2 * 1e9 / 400) < 1e-3);
    assert_int_equal(bn_bench_collect(&m, c, "fairness", NULL), 2);
    assert_true(fabs(m.scratch[0] - 0.8) < 1e-12); /* (3 + 1)^2 / (2 (9 + 1)) */
    assert_true(fabs(m.scratch[1] - 1) < 1e-12);
    bn_free(m.scratch);
}

/* One of two generations has another context: its output is found, and a late one is a timeout. */
TEST(concurrent_generations_are_judged)
{
    for (unsigned fault = 0; fault < 3; fault++) {
        struct real r;
        bn_session *crowd[2];
        bn_session_options options = {.n_ctx = 16, .n_threads = 1};
        open_real(&r, true);
        must(bn_session_open(&crowd[1], r.m.model, &options, &err));
        crowd[0] = r.config.session;
        for (size_t i = 0; i < 2; i++)
            must(bn_session_eval(crowd[i], &r.ids[fault == 1 ? i : 0], 1, BN_LOGITS_NONE, NULL, &err));
        struct bn_bench_config list[2] = {r.config, r.config};
        for (size_t i = 0; i < 2; i++) {
            list[i].depth = 1;
            list[i].n_concurrent = (uint32_t)i + 1;
            list[i].crowd = crowd;
        }
        must(bn_bench_take(&r.m, &list[0], 0, &err));
        if (fault == 2) r.m.timeout_ns = 1;
        must(bn_bench_take(&r.m, &list[1], 0, &err));
        bn_bench_check_outputs(list, 2);
        static const enum bn_bench_verdict VERDICTS[] = {BN_BENCH_VALID, BN_BENCH_INVALID, BN_BENCH_TIMEOUT};
        assert_int_equal(list[1].verdict, VERDICTS[fault]);
        assert_int_equal(bn_session_position(crowd[1]), 1);
        for (size_t i = 0; i < 2; i++) {
            for (size_t k = 0; k < list[i].n_samples; k++)
                bn_free(list[i].samples[k].times);
            bn_free(list[i].samples);
        }
        bn_session_close(crowd[1]);
        close_real(&r);
    }
}

static bool judge(const struct bn_series_list *all, const char *text, struct bn_bench_target *t)
{
    must(bn_bench_target_read(t, text, &err));
    must(bn_bench_target_judge(t, all, &err));
    return t->met;
}

/* The worst test decides, or the best one. Tests next to busy processes are judged only when named. */
TEST(targets_are_judged)
{
    static const double MANY[] = {10e6, 11e6, 12e6, 13e6, 14e6, 15e6}; /* 66.7 to 100 tok/s */
    static const double FEW[] = {10e6, 15e6}, SLOW[] = {1e9};
    const struct bn_series series[] = {
        {.test = "decode n=8 d=0 t=1", .metric = "ns_per_token", .unit = "ns", .samples = MANY, .n = 6},
        {.test = "prompt n=8 d=0 t=1 b=8", .metric = "ns_per_token", .unit = "ns", .samples = FEW, .n = 2},
        {.test = "decode n=8 d=0 t=1 busy=1",
         .metric = "ns_per_token",
         .unit = "ns",
         .samples = SLOW,
         .n = 1},
    };
    struct bn_series_list all = {0};
    struct bn_bench_target t;
    for (size_t i = 0; i < BN_ARRAY_LEN(series); i++)
        must(bn_series_add(&all, &series[i], NULL));
    assert_true(judge(&all, "decode>=79", &t) && t.found > 79.9 && t.found < 80.1);
    assert_false(judge(&all, "decode>=81", &t));
    assert_true(judge(&all, "prompt>=70", &t));
    assert_false(judge(&all, "decode busy=1>=2", &t));
    assert_string_equal(t.test, "decode n=8 d=0 t=1 busy=1");
    assert_false(judge(&all, "decode t=2>=1", &t)); /* no data */
    assert_true(judge(&all, "decode t=1>=79", &t));
    assert_false(judge(&all, "decode t=1 busy=1>=79", &t));
    assert_true(judge(&all, "decode fastest>=79", &t));
    bn_series_release(&all);
}
