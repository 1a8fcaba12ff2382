/* SPDX-License-Identifier: MIT
 *
 * Training on several ranks (here threads): every number of ranks gives the bits of a program that runs alone, for any
 * number of micro-batches, and also when a run goes on with another number of ranks.
 */
#include "tests/unit/ranks.h"
#include "tests/unit/status.h"
#include "train/ranks.h"

/* ---- parts of the tree ---- */

enum { VALUES = 4, MAX_LEAVES = 21 };

static void fill(struct bn_tree *tree, size_t first, size_t end)
{
    for (size_t leaf = first; leaf < end; leaf++) {
        float *buffer = bn_tree_take(tree);
        for (size_t j = 0; j < VALUES; j++)
            buffer[j] = 1.0f / (float)(1 + leaf * 7 + j);
        bn_tree_done(tree, leaf, buffer);
    }
}

/* Three processes compute leaves, and a fourth one puts their nodes together. */
static void parts_make_the_same_sum(size_t n, size_t a, size_t b)
{
    struct bn_tree *whole, *rest;
    const size_t edges[] = {0, a, b, n};
    must(bn_tree_open(&whole, n, VALUES, NULL));
    must(bn_tree_open(&rest, n, VALUES, NULL));
    fill(whole, 0, n);
    for (size_t part = 0; part < 3; part++) {
        struct bn_tree *own;
        size_t nodes[BN_TREE_PARTS];
        must(bn_tree_open(&own, n, VALUES, NULL));
        fill(own, edges[part], edges[part + 1]);
        size_t n_nodes = bn_tree_parts(own, edges[part], edges[part + 1], nodes);
        assert_true((n_nodes == 0) == (edges[part] == edges[part + 1]));
        for (size_t i = 0; i < n_nodes; i++) {
            float *sum = bn_tree_get(own, nodes[i]), *copy = bn_tree_take(rest);
            assert_non_null(sum);
            memcpy(copy, sum, VALUES * sizeof *copy);
            bn_tree_put(rest, nodes[i], copy);
            bn_tree_give(own, sum);
        }
        bn_tree_close(own);
    }
    float *x = bn_tree_get(whole, 1), *y = bn_tree_get(rest, 1);
    assert_non_null(y);
    assert_memory_equal(x, y, VALUES * sizeof *x);
    bn_tree_give(whole, x);
    bn_tree_give(rest, y);
    bn_tree_close(whole);
    bn_tree_close(rest);
}

TEST(any_parts_make_the_same_sum)
{
    for (size_t n = 1; n <= MAX_LEAVES; n++)
        for (size_t a = 0; a <= n; a++)
            for (size_t b = a; b <= n; b++)
                parts_make_the_same_sum(n, a, b);
}

enum { IDS = 900, HELD_OUT = 333 };

struct run {
    struct bn_train_settings settings;
    struct bn_corpus corpus, validation;
    int until, from; /* steps of rank 0 on ranks; before them, alone */
    bool good[TEST_RANKS_MAX];
    char master[TEST_RANKS_MAX][BN_SHA256_HEX], moment[TEST_RANKS_MAX][BN_SHA256_HEX];
    struct bn_train_point last;
    double nats;
    struct bn_train_load load; /* of rank 0 */
};

static struct run a_run(uint32_t n_micro)
{
    static int32_t ids[IDS];
    struct run run = {.settings = {.seed = 4, .n_micro = n_micro, .n_slices = 1, .n_sequences = 1, .late = 1},
                      .corpus = {.ids = ids, .n = IDS},
                      .validation = {.ids = ids, .n = HELD_OUT},
                      .until = 4};
    for (size_t i = 0; i < IDS; i++)
        ids[i] = (int32_t)(i * i % 47);
    run.settings.hp = (bn_hparams){.n_vocab = 50,
                                   .n_ctx = 16,
                                   .n_embd = 128,
                                   .n_layer = 1,
                                   .n_ff = 128,
                                   .n_head = 2,
                                   .n_head_kv = 1,
                                   .head_dim = 64,
                                   .rms_eps = 1e-5f,
                                   .rope_base = 10000};
    run.settings.schedule = (struct bn_train_schedule){.n_steps = 4,
                                                       .stage_2 = 0.5,
                                                       .rate = 0.003,
                                                       .rate_2 = 0.002,
                                                       .decay = 0.1,
                                                       .beta_1 = 0.9,
                                                       .beta_2 = 0.95,
                                                       .epsilon = 1e-8,
                                                       .clip = 0.5};
    must(bn_train_architecture(&run.settings.hp, "bitnet-b1.58", NULL));
    return run;
}

static bn_status lead(struct bn_trainer *t, struct run *run, bn_error *e)
{
    struct bn_train_score score;
    bool finite;
    while (t->step < (uint32_t)run->until)
        BN_TRY(bn_trainer_step(t, &run->corpus, NULL, &finite, e));
    BN_TRY(bn_trainer_score(t, run->validation.ids, run->validation.n, &score, e));
    run->nats = score.nats;
    run->last = t->curve.points[t->curve.n - 1];
    return bn_train_ranks_lead(t, BN_TRAIN_FINISH, 0, e);
}

static bn_status run_rank(struct bn_trainer *t, const struct bn_ranks *ranks, struct run *run, bn_error *e)
{
    bool finite;
    while (ranks->index == 0 && t->step < (uint32_t)run->from)
        BN_TRY(bn_trainer_step(t, &run->corpus, NULL, &finite, e));
    BN_TRY(bn_trainer_join(t, ranks, e));
    if (ranks->index == 0) return lead(t, run, e);
    return bn_trainer_follow(t, &run->corpus, NULL, &run->validation, e);
}

static void rank_main(const struct bn_ranks *ranks, void *arg)
{
    struct run *run = arg;
    struct bn_trainer t;
    unsigned i = ranks->index;
    if (bn_trainer_open(&t, &run->settings, 1 + i % 2, NULL) != BN_OK) return;
    run->good[i] = run_rank(&t, ranks, run, NULL) == BN_OK;
    size_t n = t.weights.n_values * sizeof(float);
    bn_sha256_hex(t.weights.master, n, run->master[i]);
    bn_sha256_hex(t.moment_2, n, run->moment[i]);
    if (i == 0 && t.ranks != NULL) run->load = t.ranks->load;
    bn_trainer_close(&t);
}

static void same_run(const struct run *a, const struct run *b, unsigned n_ranks)
{
    for (unsigned i = 0; i < n_ranks; i++) {
        assert_true(b->good[i]);
        assert_string_equal(a->master[0], b->master[i]);
        assert_string_equal(a->moment[0], b->moment[i]);
    }
    assert_memory_equal(&a->last, &b->last, sizeof a->last);
    assert_memory_equal(&a->nats, &b->nats, sizeof a->nats);
}

TEST(ranks_do_not_change_a_bit)
{
    static const uint32_t MICRO[] = {1, 3, 6, 8};
    for (size_t m = 0; m < 4; m++) {
        struct run alone = a_run(MICRO[m]);
        test_ranks_run(1, rank_main, &alone);
        assert_true(alone.good[0]);
        for (unsigned n = 2; n <= 5; n++) {
            struct run run = a_run(MICRO[m]);
            test_ranks_run(n, rank_main, &run);
            same_run(&alone, &run, n);
            assert_int_equal(run.load.n_steps, 4);
            assert_true(run.load.bytes_sent > 0 && run.load.longest_ns >= run.load.mean_ns);
        }
    }
}

TEST(a_run_goes_on_with_more_ranks)
{
    struct run alone = a_run(6);
    test_ranks_run(1, rank_main, &alone);
    for (int from = 1; from < 4; from++) {
        struct run run = a_run(6);
        run.from = from;
        test_ranks_run(3, rank_main, &run);
        same_run(&alone, &run, 3);
    }
}

/* Twice the gradient, less the rank's own slice, when the micro-batches of a rank are a node of the tree. */
TEST(a_step_moves_twice_the_gradient)
{
    struct run run = a_run(8);
    struct bn_weights w;
    must(bn_weights_open(&w, &run.settings.hp, 0, NULL));
    double gradient = (double)(w.n_values * sizeof(float));
    bn_weights_close(&w);
    for (unsigned n = 2; n <= 4; n *= 2) {
        test_ranks_run(n, rank_main, &run);
        double each = (double)run.load.bytes_sent / (double)run.load.n_steps;
        assert_true(each > 2 * gradient * (n - 1) / n && each < 2.05 * gradient * (n - 1) / n);
    }
}

static void shared(const struct bn_ranks *ranks, void *arg)
{
    struct run *run = arg;
    struct bn_corpus c = {0};
    if (ranks->index == 0 && bn_array_grow(&c.ids, &c.room, IDS, sizeof *c.ids, NULL) == BN_OK) {
        memcpy(c.ids, run->corpus.ids, IDS * sizeof *c.ids);
        c.n = IDS;
    }
    run->good[ranks->index] = bn_corpus_share(&c, ranks, NULL) == BN_OK && c.n == IDS &&
                              memcmp(c.ids, run->corpus.ids, IDS * sizeof *c.ids) == 0;
    bn_corpus_release(&c);
}

TEST(the_tokens_come_from_rank_0)
{
    struct run run = a_run(1);
    test_ranks_run(3, shared, &run);
    for (int i = 0; i < 3; i++)
        assert_true(run.good[i]);
}
