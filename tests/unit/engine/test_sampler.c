/* SPDX-License-Identifier: MIT
 *
 * Sampling: what each option keeps, that draws follow the probabilities, that seeds repeat, that penalties and biases are
 * OpenAI's formula.
 */
#include <math.h>

#include "base/mem.h"
#include "base/random.h"
#include "bn.h"
#include "tests/unit/status.h"

#define N 6u
#define DRAWS 20000u

/* Probabilities at temperature 1: about 0.57, 0.21, 0.13, 0.077, 0.0104, 0.0000. Ids are out of order on
 * purpose. */
static const float LOGITS[N] = {1.0f, 3.0f, -9.0f, 1.5f, -1.0f, 2.0f};

static void draw(bn_sampler_options options, double share[N])
{
    bn_sampler *sampler = NULL;
    must(bn_sampler_open(&sampler, &options, N, &err));
    for (size_t i = 0; i < N; i++)
        share[i] = 0;
    for (unsigned i = 0; i < DRAWS; i++) {
        int32_t id = bn_sampler_next(sampler, LOGITS, NULL, 0);
        assert_in_range(id, 0, N - 1);
        share[id] += 1.0 / DRAWS;
    }
    bn_sampler_close(sampler);
}

/* share must be the softmax of LOGITS / temperature over the ids in kept, else zero; 5 standard deviations.
 */
static void assert_shares(const double share[N], double temperature, unsigned kept)
{
    double sum = 0;
    for (unsigned i = 0; i < N; i++)
        if (kept >> i & 1u) sum += exp((double)LOGITS[i] / temperature);
    for (unsigned i = 0; i < N; i++) {
        double p = kept >> i & 1u ? exp((double)LOGITS[i] / temperature) / sum : 0.0;
        double limit = 5.0 * sqrt(p * (1.0 - p) / DRAWS) + (p > 0.0 ? 1e-4 : 0.0);
        if (!(fabs(share[i] - p) <= limit)) fail_msg("id %u: share %g, expected %g", i, share[i], p);
    }
}

TEST(draws_follow_the_probabilities)
{
    double share[N];
    bn_sampler_options o = BN_SAMPLER_OPTIONS_INIT;
    o.temperature = 1.0f;
    draw(o, share);
    assert_shares(share, 1.0, 0x3F);
    o.temperature = 2.0f;
    draw(o, share);
    assert_shares(share, 2.0, 0x3F);
}

TEST(each_filter_keeps_what_it_says)
{
    double share[N];
    bn_sampler_options o = BN_SAMPLER_OPTIONS_INIT;
    o.temperature = 1.0f;
    o.top_k = 2;
    draw(o, share);
    assert_shares(share, 1.0, 1u << 1 | 1u << 5);
    o.top_k = 0;
    o.top_p = 0.85f; /* 0.57 + 0.21 = 0.78 is not enough, 0.91 is */
    draw(o, share);
    assert_shares(share, 1.0, 1u << 1 | 1u << 5 | 1u << 3);
    o.top_p = 1.0f;
    o.min_p = 0.2f; /* exp(-1.5) = 0.223 is kept, exp(-2) = 0.135 is not */
    draw(o, share);
    assert_shares(share, 1.0, 1u << 1 | 1u << 5 | 1u << 3);
    o.top_k = 3;
    o.min_p = 0.0f;
    o.top_p = 0.8f; /* of the three that top-k left: 0.629 + 0.231 = 0.86 */
    draw(o, share);
    assert_shares(share, 1.0, 1u << 1 | 1u << 5);
}

TEST(greedy_is_argmax_and_nothing_else)
{
    bn_sampler *sampler = NULL;
    bn_sampler_options o = BN_SAMPLER_OPTIONS_INIT;
    o.repeat_penalty = 50.0f;
    const float ties[N] = {1.0f, 4.0f, 4.0f, -1.0f, 4.0f, 0.0f};
    const int32_t recent[3] = {1, 1, 1};
    must(bn_sampler_open(&sampler, &o, N, NULL));
    assert_int_equal(bn_sampler_next(sampler, ties, recent, 3), 1);
    assert_int_equal(bn_sampler_next(sampler, LOGITS, recent, 3), 1);
    bn_sampler_close(sampler);
}

TEST(the_penalty_counts_a_token_once)
{
    bn_sampler *sampler = NULL;
    bn_sampler_options o = BN_SAMPLER_OPTIONS_INIT;
    o.temperature = 0.001f; /* so that the best wins, but by the path that penalises */
    o.repeat_penalty = 1.4f;
    const int32_t recent[4] = {1, 1, 1, 1};
    must(bn_sampler_open(&sampler, &o, N, NULL));
    /* 3 / 1.4 = 2.14 still beats 2.0; penalised twice, 1.53, it would not. */
    assert_int_equal(bn_sampler_next(sampler, LOGITS, recent, 4), 1);
    bn_sampler_close(sampler);
    o.repeat_penalty = 1.6f;
    must(bn_sampler_open(&sampler, &o, N, NULL));
    assert_int_equal(bn_sampler_next(sampler, LOGITS, recent, 4), 5);
    bn_sampler_close(sampler);
}

/* The formula as OpenAI's page has it: for each token, over the whole history. */
static void change(float out[N], const bn_sampler_options *o, const int32_t *history, size_t n)
{
    for (size_t id = 0; id < N; id++) {
        size_t count = 0;
        for (size_t i = o->n_prompt; i < n; i++)
            count += history[i] == (int32_t)id;
        out[id] = LOGITS[id];
        for (size_t i = 0; i < o->n_bias; i++)
            if (o->bias[i].id == (int32_t)id) out[id] += o->bias[i].logit;
        out[id] -= count > 0 ? o->presence_penalty : 0.0f;
        out[id] -= o->frequency_penalty * (float)count;
    }
}

static int32_t choose(const bn_sampler_options *o, const float *logits, const int32_t *history, size_t n)
{
    bn_sampler *sampler = NULL;
    must(bn_sampler_open(&sampler, o, N, &err));
    assert_true(o->n_prompt == 0 || bn_sampler_reach(sampler) == SIZE_MAX);
    int32_t id = bn_sampler_next(sampler, logits, history, n);
    if (o->temperature == 0.0f)
        assert_int_equal(bn_sampler_next(sampler, logits, history, n), id); /* no count is left */
    bn_sampler_close(sampler);
    return id;
}

TEST(penalties_and_biases_are_the_formula)
{
    uint64_t random = 5;
    unsigned n_changed = 0;
    for (unsigned round = 0; round < 2000; round++) {
        const bn_candidate bias[2] = {{(int32_t)(bn_splitmix64(&random) % N), (float)(round % 7) - 3.0f},
                                      {2, 11.5f}};
        bn_sampler_options with = BN_SAMPLER_OPTIONS_INIT, without;
        int32_t history[40];
        float changed[N];
        with.temperature = round % 3 == 0 ? 0.0f : 0.8f;
        with.top_k = round % 5;
        with.seed = without.seed = round;
        without = with;
        with.presence_penalty = (float)(bn_splitmix64(&random) % 401) / 100.0f - 2.0f;
        with.frequency_penalty = (float)(bn_splitmix64(&random) % 401) / 100.0f - 2.0f;
        with.bias = bias;
        with.n_bias = bias[0].id == 2 ? 1 : 2 * (round & 1);
        with.n_prompt = 1 + round % 20;
        size_t n = with.n_prompt + round % 20;
        for (size_t i = 0; i < n; i++)
            history[i] = (int32_t)(bn_splitmix64(&random) % (N + 1)) - 1;
        change(changed, &with, history, n);
        int32_t id = choose(&with, LOGITS, history, n);
        assert_int_equal(id, choose(&without, changed, history, n));
        n_changed += id != choose(&without, LOGITS, history, n);
        with.n_prompt = n; /* the prompt does not count */
        with.n_bias = 0;
        assert_int_equal(choose(&with, LOGITS, history, n), choose(&without, LOGITS, history, n));
    }
    assert_in_range(n_changed, 200, 1800); /* the comparison could fail */
}

TEST(the_lowest_id_wins_among_changed_logits)
{
    bn_sampler_options o = BN_SAMPLER_OPTIONS_INIT;
    bn_candidate bias[2] = {{0, 3.0f}, {1, -100.0f}};
    const float ties[N] = {1.0f, 4.0f, 4.0f, -1.0f, 4.0f, 0.0f};
    const int32_t history[3] = {4, 4, 2};
    o.bias = bias;
    o.n_bias = 1;
    o.n_prompt = 1;
    assert_int_equal(choose(&o, ties, history, 1), 0);
    bias[0].logit = 2.5f;
    assert_int_equal(choose(&o, ties, history, 1), 1);
    o.n_bias = 2; /* 1 is forbidden */
    assert_int_equal(choose(&o, ties, history, 1), 2);
    o.frequency_penalty = 1.0f;
    o.presence_penalty = -1.0f; /* 4 and 2 came once after the prompt: they are as before */
    assert_int_equal(choose(&o, ties, history, 3), 2);
    o.frequency_penalty = 1.25f;
    bias[0].logit = 100.0f; /* forced */
    assert_int_equal(choose(&o, ties, history, 3), 0);
}

TEST(seeds_repeat)
{
    bn_sampler *a = NULL, *b = NULL, *c = NULL;
    bn_sampler_options o = BN_SAMPLER_OPTIONS_INIT;
    o.temperature = 1.0f;
    must(bn_sampler_open(&a, &o, N, NULL));
    must(bn_sampler_open(&b, &o, N, NULL));
    o.seed++;
    must(bn_sampler_open(&c, &o, N, NULL));
    int differ = 0;
    for (int i = 0; i < 200; i++) {
        int32_t id = bn_sampler_next(a, LOGITS, NULL, 0);
        assert_int_equal(id, bn_sampler_next(b, LOGITS, NULL, 0));
        differ += id != bn_sampler_next(c, LOGITS, NULL, 0);
    }
    assert_true(differ > 20);
    bn_sampler_close(a);
    bn_sampler_close(b);
    bn_sampler_close(c);
}

/* Logits divided by it are infinite: the best one is chosen, of equal ones the first or the second. */
TEST(the_least_temperatures_are_greedy)
{
    static const float TIED[N] = {-3.0f, -1.0f, -9.0f, -1.0f, -INFINITY, -2.0f};
    for (float t = 1e-36f; t > 0.0f; t /= 10.0f)
        for (uint32_t top_k = 0; top_k <= 2; top_k += 2) {
            bn_sampler *sampler = NULL;
            bn_sampler_options o = BN_SAMPLER_OPTIONS_INIT;
            o.temperature = t;
            o.top_k = top_k;
            must(bn_sampler_open(&sampler, &o, N, NULL));
            int32_t id = bn_sampler_next(sampler, TIED, NULL, 0);
            assert_true(id == 1 || id == 3);
            assert_int_equal(bn_sampler_next(sampler, LOGITS, NULL, 0), 1);
            bn_sampler_close(sampler);
        }
}

TEST(bad_options_are_refused)
{
    const bn_sampler_options bad[] = {
        {.temperature = -1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f},
        {.temperature = NAN, .top_p = 1.0f, .repeat_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = -0.5f, .repeat_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.5f, .repeat_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.0f, .min_p = -0.1f, .repeat_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 0.5f},
        {.presence_penalty = 2.01f},
        {.presence_penalty = NAN},
        {.frequency_penalty = -2.01f},
        {.bias = (const bn_candidate[]){{N, 1.0f}}, .n_bias = 1},
        {.bias = (const bn_candidate[]){{-1, 1.0f}}, .n_bias = 1},
        {.bias = (const bn_candidate[]){{0, 100.5f}}, .n_bias = 1},
        {.bias = (const bn_candidate[]){{0, NAN}}, .n_bias = 1},
        {.bias = (const bn_candidate[]){{3, 1.0f}, {0, 1.0f}, {3, 1.0f}}, .n_bias = 3},
        {.bias = (const bn_candidate[1025]){{0, 0.0f}}, .n_bias = 1025},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(bad); i++) {
        bn_sampler *sampler = NULL;
        refused(bn_sampler_open(&sampler, &bad[i], N, NULL), BN_ERR_ARG);
        assert_null(sampler);
    }
}
