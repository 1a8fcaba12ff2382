/* SPDX-License-Identifier: MIT
 *
 * Profiles for tests of bricks: events on a clock that the test moves.
 */
#ifndef BN_TEST_BRICK_MAKER_H
#define BN_TEST_BRICK_MAKER_H

#include "base/random.h"
#include "lab/stacks/bricks.h"
#include "tests/unit/prof_clock.h"
#include "tests/unit/status.h"

#define MAKER_THREADS 2u

struct maker {
    bn_prof *prof;
    uint64_t now, random;
};

static const char *maker_kernels[BN_KERNEL_COUNT];

static uint64_t maker_clock(void *user)
{
    return ((struct maker *)user)->now;
}

/* Time passes: at least half of ns, at most one and a half. */
static void maker_pass(struct maker *m, uint64_t ns)
{
    m->now += ns / 2 + bn_splitmix64_below(&m->random, ns + 1);
}

static void maker_kernel(struct maker *m, struct bn_prof_trail *trail, enum bn_kernel kernel, uint64_t ns)
{
    trail->kernel_begin = m->now;
    maker_pass(m, ns);
    if (trail->prof->level == BN_PROF_KERNEL)
        bn_prof_add_kernel(trail, kernel, 0, &(struct bn_prof_shape){1, 1, 1});
}

static void maker_brick(struct maker *m, struct bn_prof_trail *trail, enum bn_brick brick,
                        enum bn_kernel kernel, uint64_t ns)
{
    struct bn_brick_timer timer = bn_prof_start(trail, brick);
    maker_pass(m, ns / 50);
    maker_kernel(m, trail, kernel, ns);
    maker_pass(m, ns / 50);
    bn_prof_stop(timer, 1);
    maker_pass(m, 20);
}

static void maker_attention(struct maker *m, struct bn_prof_trail *trail)
{
    struct bn_brick_timer whole = bn_prof_start(trail, BN_BRICK_ATTENTION);
    maker_pass(m, 100);
    maker_brick(m, trail, BN_BRICK_ATTENTION_SCORE, BN_KERNEL_ATTN_SCORES, 900);
    maker_brick(m, trail, BN_BRICK_ATTENTION_SOFTMAX, BN_KERNEL_SOFTMAX, 300);
    maker_brick(m, trail, BN_BRICK_ATTENTION_OUTPUT, BN_KERNEL_ATTN_VALUES, 1200);
    bn_prof_stop(whole, 1);
}

/* A pass of both threads, one after the other, since they share the clock. */
static void maker_forward(struct maker *m, uint32_t position, uint32_t n_tokens, uint32_t n_logits)
{
    bn_prof_begin_pass(m->prof, position, n_tokens, n_logits);
    for (unsigned t = 0; t < MAKER_THREADS; t++) {
        struct bn_prof_trail *trail = bn_prof_trail(m->prof, t);
        maker_brick(m, trail, BN_BRICK_EMBEDDING, BN_KERNEL_F16_TO_F32, 80);
        for (int16_t layer = 0; layer < 3; layer++) {
            trail->layer = layer;
            maker_brick(m, trail, BN_BRICK_RMS_NORM, BN_KERNEL_RMSNORM, 200);
            maker_brick(m, trail, BN_BRICK_QKV_PROJECTION, BN_KERNEL_TERNARY_GEMV, 2000u * n_tokens);
            maker_attention(m, trail);
            maker_brick(m, trail, BN_BRICK_UP_PROJECTION, BN_KERNEL_TERNARY_GEMV, 3500u * n_tokens);
            trail->layer = -1;
            maker_pass(m, 500); /* between bricks */
        }
        maker_brick(m, trail, BN_BRICK_LM_HEAD, BN_KERNEL_F16_GEMM, 2500);
        struct bn_brick_timer wait = bn_prof_start(trail, BN_BRICK_BARRIER_WAIT);
        maker_pass(m, 700);
        bn_prof_stop(wait, 0);
    }
    bn_prof_end_pass(m->prof);
    struct bn_brick_timer sampling = bn_prof_start(bn_prof_trail(m->prof, 0), BN_BRICK_SAMPLING);
    maker_pass(m, 150);
    bn_prof_stop(sampling, 1);
}

/* A prompt of five tokens in two passes, then decoding. */
static void maker_open(struct maker *m, enum bn_prof_level level, uint64_t seed, uint32_t n_decode)
{
    struct bn_prof_options options = {level, MAKER_THREADS, 1u << 17, 1u << 12};
    *m = (struct maker){.random = seed, .now = 1000};
    must(bn_prof_open(&m->prof, &options, &err));
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        maker_kernels[k] = bn_kernels_ref.name[k];
    m->prof->kernel_names = maker_kernels;
    prof_set_clock(m->prof, maker_clock, m);
    m->prof->enabled = true;
    bn_prof_reset_epoch(m->prof);
    maker_forward(m, 0, 4, 0);
    maker_forward(m, 4, 1, 1);
    for (uint32_t i = 0; i < n_decode; i++)
        maker_forward(m, 5 + i, 1, 1);
    bn_prof_finalize(m->prof, bn_prof_elapsed_ns(m->prof));
}

#endif
