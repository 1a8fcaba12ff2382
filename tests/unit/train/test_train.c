/* SPDX-License-Identifier: MIT
 *
 * The parts of training that are not arithmetic on rows: order of windows, tree of gradients, schedule, optimiser, and
 * the bits of whole steps.
 */
#include "tests/unit/status.h"

#include "base/random.h"
#include "train/checkpoint.h"
#include "train/ops.h"
#include "train/ranks.h"
#include "train/trainer.h"

static uint64_t random_state = 11;

TEST(every_index_occurs_once)
{
    for (uint64_t n = 1; n < 300; n += n < 20 ? 1 : 37) {
        unsigned char seen[300] = {0};
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = bn_permute(i, n, 5);
            assert_true(at < n && !seen[at]);
            seen[at] = 1;
        }
    }
    size_t same = 0;
    for (uint64_t i = 0; i < 256; i++)
        same += bn_permute(i, 256, 5) == bn_permute(i, 256, 6);
    assert_true(same < 32);
}

TEST(windows_are_parts_of_the_text)
{
    enum { N = 1000, T = 16 };
    static int32_t ids[N];
    for (int32_t i = 0; i < N; i++)
        ids[i] = i;
    struct bn_corpus c = {.ids = ids, .n = N};
    size_t n = bn_corpus_windows(&c, T);
    unsigned char seen[N] = {0};
    int32_t tokens[T], targets[T], first = -1;
    assert_int_equal(n, (N - T - 1) / T);
    for (uint64_t index = 0; index < 3 * n; index++) {
        if (index % n == 0) memset(seen, 0, sizeof seen);
        bn_corpus_window(&c, T, 9, index, tokens, targets);
        for (int i = 0; i < T; i++) {
            assert_int_equal(tokens[i], tokens[0] + i);
            assert_int_equal(targets[i], tokens[i] + 1);
            assert_true(targets[i] < N && !seen[tokens[i]]);
            seen[tokens[i]] = 1;
        }
        if (index == 0) first = tokens[0];
    }
    bn_corpus_window(&c, T, 9, 0, tokens, targets);
    assert_int_equal(tokens[0], first);
    c.n = 2 * T;
    assert_int_equal(bn_corpus_windows(&c, T), 0);
}

enum { VALUES = 32 };

/* The sum of n leaves that are done in some order. */
static void sum_leaves(float sum[VALUES], size_t n, uint64_t order)
{
    struct bn_tree *tree;
    must(bn_tree_open(&tree, n, VALUES, NULL));
    for (size_t i = 0; i < n; i++) {
        size_t leaf = (size_t)bn_permute(i, n, order);
        float *buffer = bn_tree_take(tree);
        for (size_t j = 0; j < VALUES; j++)
            buffer[j] += 1.0f / (float)(1 + leaf * 7 + j);
        bn_tree_done(tree, leaf, buffer);
    }
    float *total = bn_tree_get(tree, 1);
    memcpy(sum, total, VALUES * sizeof *sum);
    bn_tree_give(tree, total);
    bn_tree_close(tree);
}

TEST(sums_do_not_depend_on_the_order)
{
    for (size_t n = 1; n < 20; n++) {
        float sum[VALUES], other[VALUES];
        double exact = 0;
        sum_leaves(sum, n, 1);
        for (size_t leaf = 0; leaf < n; leaf++)
            exact += 1.0 / (double)(1 + leaf * 7);
        assert_true(fabs((double)sum[0] - exact) < 1e-5);
        for (uint64_t order = 2; order < 12; order++) {
            sum_leaves(other, n, order);
            assert_memory_equal(sum, other, sizeof sum);
        }
    }
}

/* ---- schedule and optimiser ---- */

TEST(the_rate_has_two_stages)
{
    struct bn_train_schedule s = {
        .n_steps = 1000, .warm_up = 99, .stage_2 = 0.5, .rate = 2, .rate_2 = 1, .decay = 0.1};
    assert_true(fabs(bn_schedule_rate(&s, 0) - 0.02) < 1e-12);
    assert_true(fabs(bn_schedule_rate(&s, 99) - 2 * 0.901) < 1e-12);
    assert_true(fabs(bn_schedule_rate(&s, 499) - 2 * 0.501) < 1e-12);
    assert_true(fabs(bn_schedule_rate(&s, 500) - 0.5) < 1e-12);
    assert_true(fabs(bn_schedule_rate(&s, 999) - 0.001) < 1e-12);
    assert_true(bn_schedule_decay(&s, 499) > 0 && bn_schedule_decay(&s, 500) == 0);
}

static struct bn_train_settings settings(void)
{
    struct bn_train_settings s = {.seed = 4, .n_micro = 3, .n_slices = 2, .n_sequences = 2, .late = 1};
    s.hp = (bn_hparams){.n_vocab = 50,
                        .n_ctx = 16,
                        .n_embd = 128,
                        .n_layer = 2,
                        .n_ff = 256,
                        .n_head = 2,
                        .n_head_kv = 1,
                        .head_dim = 64,
                        .rms_eps = 1e-5f,
                        .rope_base = 10000};
    s.schedule = (struct bn_train_schedule){.n_steps = 8,
                                            .stage_2 = 0.5,
                                            .rate = 0.003,
                                            .rate_2 = 0.002,
                                            .decay = 0.1,
                                            .beta_1 = 0.9,
                                            .beta_2 = 0.95,
                                            .epsilon = 1e-8,
                                            .clip = 0.5};
    must(bn_train_architecture(&s.hp, "bitnet-b1.58", NULL));
    return s;
}

/* AdamW by its definition, in binary64. */
TEST(a_step_is_that_of_adamw)
{
    struct bn_train_settings s = settings();
    struct bn_trainer t;
    must(bn_trainer_open(&t, &s, 2, NULL));
    size_t n = t.weights.n_values;
    float *grad = bn_alloc_aligned(n, sizeof *grad);
    double *w = bn_alloc(n, 8), *m = bn_alloc(n, 8), *v = bn_alloc(n, 8);
    for (size_t i = 0; i < n; i++)
        w[i] = (double)t.weights.master[i];
    for (uint32_t step = 0; step < 3; step++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            grad[i] = (float)(int32_t)(bn_splitmix64(&random_state) >> 40) * 0x1p-30f;
            sum += (double)grad[i] * (double)grad[i];
        }
        double norm = bn_gradient_norm(grad, n, t.team), clip = 0.25 * norm > 0.5 ? 0.5 / (0.25 * norm) : 1;
        assert_true(fabs(norm / sqrt(sum) - 1) < 1e-12);
        bn_adam_step(&t.weights, t.moment_1, t.moment_2, grad, 0.25, 0.25 * norm, &s.schedule, step, t.team);
        for (size_t p = 0; p < t.weights.n_params; p++) {
            const struct bn_param *of = &t.weights.params[p];
            double decay = of->kind == BN_PARAM_TERNARY ? bn_schedule_decay(&s.schedule, step) : 0;
            for (size_t i = of->at; i < of->at + of->rows * of->cols; i++) {
                double g = (double)grad[i] * 0.25 * clip, rate = bn_schedule_rate(&s.schedule, step);
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.95 * v[i] + 0.05 * g * g;
                w[i] -= rate *
                        (m[i] / (1 - pow(0.9, step + 1)) / (sqrt(v[i] / (1 - pow(0.95, step + 1))) + 1e-8) +
                         decay * w[i]);
                assert_true(fabs(w[i] - (double)t.weights.master[i]) < 1e-6);
            }
        }
    }
    bn_free(grad), bn_free(w), bn_free(m), bn_free(v);
    bn_trainer_close(&t);
}

/* Newton-Schulz by its definition, in binary64, on rows x cols values with rows <= cols. */
static void make_orthogonal(double *x, size_t rows, size_t cols)
{
    double *s = bn_alloc(rows * rows, 8), *t = bn_alloc(rows * rows, 8), *y = bn_alloc(rows * cols, 8),
           norm = 0;
    for (size_t i = 0; i < rows * cols; i++)
        norm += x[i] * x[i];
    for (size_t i = 0; i < rows * cols; i++)
        x[i] /= sqrt(norm);
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < rows * rows; i++) {
            s[i] = 0;
            for (size_t k = 0; k < cols; k++)
                s[i] += x[i / rows * cols + k] * x[i % rows * cols + k];
        }
        for (size_t i = 0; i < rows * rows; i++) {
            t[i] = -4.7750 * s[i];
            for (size_t k = 0; k < rows; k++)
                t[i] += 2.0315 * s[i / rows * rows + k] * s[k * rows + i % rows];
        }
        for (size_t i = 0; i < rows * cols; i++) {
            y[i] = 3.4445 * x[i];
            for (size_t k = 0; k < rows; k++)
                y[i] += t[i / cols * rows + k] * x[k * cols + i % cols];
        }
        memcpy(x, y, rows * cols * sizeof *x);
    }
    bn_free(s), bn_free(t), bn_free(y);
}

/* The value of a matrix at i when it lies with its shorter side as rows. */
static size_t turned(const struct bn_param *p, size_t i)
{
    return p->rows <= p->cols ? i : i % p->rows * p->cols + i / p->rows;
}

/* Averages without gradients end as 0, not as denormal numbers. */
TEST(averages_settle)
{
    for (int muon = 0; muon < 2; muon++) {
        struct bn_train_settings s = settings();
        struct bn_trainer t;
        s.schedule.muon = (uint32_t)muon;
        must(bn_trainer_open(&t, &s, 1, NULL));
        size_t n = t.weights.n_values;
        float *grad = bn_alloc_aligned(n, sizeof *grad);
        memset(grad, 0, n * sizeof *grad);
        const float starts[] = {1e-38f, -1e-30f, 9e-21f, -1e-19f, 1};
        for (size_t i = 0; i < n; i++)
            t.moment_1[i] = starts[i % 5];
        bn_adam_step(&t.weights, t.moment_1, t.moment_2, grad, 1, 0, &s.schedule, 0, t.team);
        if (muon) bn_muon_step(&t.weights, t.moment_1, grad, 1, &s.schedule, 0, t.scratch, t.team);
        for (size_t i = 0; i < n; i++)
            assert_true(i % 5 < 3 ? t.moment_1[i] == 0 : t.moment_1[i] != 0);
        bn_free(grad);
        bn_trainer_close(&t);
    }
}

TEST(a_step_is_that_of_muon)
{
    struct bn_train_settings s = settings();
    struct bn_trainer t;
    s.schedule.muon = 1;
    must(bn_trainer_open(&t, &s, 2, NULL));
    size_t n = t.weights.n_values;
    float *grad = bn_alloc_aligned(n, sizeof *grad), *before = bn_alloc(n, sizeof *before);
    double *m = bn_alloc(n, 8), *x = bn_alloc(128 * 256, 8);
    for (uint32_t step = 0; step < 2; step++) {
        double rate = bn_schedule_rate(&s.schedule, step), decay = bn_schedule_decay(&s.schedule, step);
        for (size_t i = 0; i < n; i++) {
            grad[i] = (float)(int32_t)(bn_splitmix64(&random_state) >> 40) * 0x1p-30f;
            m[i] = 0.95 * m[i] + (double)grad[i] * 0.25;
            before[i] = t.weights.master[i];
        }
        bn_muon_step(&t.weights, t.moment_1, grad, 0.25, &s.schedule, step, t.scratch, t.team);
        for (size_t p = 0; p < t.weights.n_params; p++) {
            const struct bn_param *of = &t.weights.params[p];
            size_t size = of->rows * of->cols, rows = bn_min_size(of->rows, of->cols);
            if (of->kind != BN_PARAM_TERNARY) {
                assert_memory_equal(before + of->at, t.weights.master + of->at, size * sizeof *before);
                continue;
            }
            for (size_t i = 0; i < size; i++) {
                size_t at = of->at + turned(of, i);
                x[i] = (double)grad[at] * 0.25 + 0.95 * m[at];
            }
            make_orthogonal(x, rows, size / rows);
            for (size_t i = 0; i < size; i++) {
                size_t at = of->at + turned(of, i);
                double want =
                    (double)before[at] * (1 - rate * decay) - rate * 0.2 * sqrt((double)(size / rows)) * x[i];
                assert_true(fabs(want - (double)t.weights.master[at]) < 1e-6);
            }
        }
    }
    bn_free(grad), bn_free(before), bn_free(m), bn_free(x);
    bn_trainer_close(&t);
}

/* ---- the integer kernel and the float product ---- */

TEST(integer_products_have_the_bits_of_float_products)
{
    struct bn_train_settings s = settings();
    struct bn_weights w;
    enum { ROWS = 7, N = 128, OUT = 256 };
    static float x[ROWS * N], q[ROWS * N], scale[ROWS], y[ROWS * OUT], z[ROWS * OUT];
    static int8_t q8[ROWS * N];
    struct bn_act acts[ROWS];
    must(bn_weights_open(&w, &s.hp, 0, NULL));
    bn_weights_start(&w, 1);
    bn_weights_ternarise(&w, NULL);
    for (size_t i = 0; i < ROWS * N; i++)
        x[i] = (float)(int32_t)bn_splitmix64(&random_state);
    bn_op_quantise(w.kernels, q, scale, acts, q8, x, ROWS, N);
    const struct bn_param *p = &w.params[w.layers[1].gate];
    struct bn_op_input in = {.x = q, .scale = scale, .rows = ROWS, .n = N};
    struct bn_op_matrix m = {.t = w.ternary + p->at, .s = w.scale[w.layers[1].gate], .n_out = OUT, .n_in = N};
    bn_op_linear(w.kernels, y, &in, &m);
    in.acts = acts;
    m.codes = w.codes + p->at / 4;
    bn_op_linear(w.kernels, z, &in, &m);
    assert_memory_equal(y, z, sizeof y);
    bn_weights_close(&w);
}

static void digest_of_run(char hex[BN_SHA256_HEX], unsigned n_threads, uint32_t n_micro, bool muon)
{
    static int32_t ids[900];
    struct bn_corpus c = {.ids = ids, .n = 900};
    struct bn_train_settings s = settings();
    struct bn_trainer t;
    bool finite = true;
    for (size_t i = 0; i < 900; i++)
        ids[i] = (int32_t)(i * i % 47);
    s.n_micro = n_micro;
    s.schedule.muon = muon;
    must(bn_trainer_open(&t, &s, n_threads, NULL));
    for (int i = 0; i < 8; i++)
        must(bn_trainer_step(&t, &c, NULL, &finite, NULL));
    assert_true(finite && t.curve.n == 8 && t.curve.points[7].loss < t.curve.points[0].loss);
    bn_sha256_hex(t.weights.master, t.weights.n_values * sizeof(float), hex);
    bn_trainer_close(&t);
}

TEST(threads_do_not_change_a_bit)
{
    char one[BN_SHA256_HEX], more[BN_SHA256_HEX];
    for (int muon = 0; muon < 2; muon++) {
        digest_of_run(one, 1, 3, muon);
        for (unsigned n = 2; n <= 4; n++) {
            digest_of_run(more, n, 3, muon);
            assert_string_equal(one, more);
        }
        /* Micro-batches define the run. */
        digest_of_run(more, 1, 4, muon);
        assert_string_not_equal(one, more);
    }
}

TEST(settings_survive_json)
{
    struct bn_train_settings s = settings(), back;
    bn_json *object = bn_json_new_object();
    bn_train_settings_put(object, &s);
    must(bn_train_settings_get(&back, object, NULL));
    assert_memory_equal(&s.schedule, &back.schedule, sizeof s.schedule);
    assert_int_equal(s.hp.n_ff, back.hp.n_ff);
    assert_true(s.hp.rms_eps == back.hp.rms_eps && s.seed == back.seed);
    bn_json_remove(object, "rate");
    refused(bn_train_settings_get(&back, object, NULL), BN_ERR_FORMAT);
    bn_json_free(object);
}
