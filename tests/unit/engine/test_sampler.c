/* SPDX-License-Identifier: MIT
 *
 * Sampling: what each option keeps, that draws follow the probabilities, that seeds repeat.
 */
#include <math.h>

#include "base/mem.h"
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

TEST(bad_options_are_refused)
{
    const bn_sampler_options bad[] = {
        {.temperature = -1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f},
        {.temperature = NAN, .top_p = 1.0f, .repeat_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = -0.5f, .repeat_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.5f, .repeat_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.0f, .min_p = -0.1f, .repeat_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 0.5f},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(bad); i++) {
        bn_sampler *sampler = NULL;
        refused(bn_sampler_open(&sampler, &bad[i], N, NULL), BN_ERR_ARG);
        assert_null(sampler);
    }
}
