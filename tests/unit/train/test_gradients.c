/* SPDX-License-Identifier: MIT
 *
 * Gradients against finite differences. The sources of train/ are built here in binary64, so that a difference
 * quotient has about ten correct digits. Each operation is checked alone, then whole models, with the quantisers
 * replaced by the identity; the straight-through rule of quantised layers is checked against its definition.
 */
#include "tests/unit/status.h"

#include "base/random.h"
#include "train/ops.h"
#include "train/real.h"
#include "train/trainer.h"

#define STEP 1e-5
#define MANY 16384u

static uint64_t random_state = 7;

static double uniform(void)
{
    return (double)(bn_splitmix64(&random_state) >> 11) * 0x1p-53 * 2 - 1;
}

static void fill(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = uniform();
}

/* An operation as a function of one of its inputs: the weighted sum of its outputs. */
typedef double (*scalar_fn)(void *with);

/* The largest error of derivatives relative to the largest of them; of many, about 64 are checked. */
static double worst(scalar_fn fn, void *with, double *x, const double *dx, size_t n)
{
    double error = 0, size = 1e-9;
    for (size_t i = 0; i < n; i += 1 + n / 64) {
        double kept = x[i];
        x[i] = kept + STEP;
        double up = fn(with);
        x[i] = kept - STEP;
        double down = fn(with);
        x[i] = kept;
        double slope = (up - down) / (2 * STEP);
        error = fmax(error, fabs(slope - dx[i]));
        size = fmax(size, fabs(slope));
    }
    return error / size;
}
#define CLOSE 1e-7
#define assert_close(...) assert_true(worst(__VA_ARGS__) < CLOSE)

static double weighted(const double *y, const double *weights, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += y[i] * weights[i];
    return sum;
}

enum { ROWS = 5, N = 48 };

struct two {
    double x[MANY], w[MANY], y[MANY], dy[MANY], dx[MANY], dw[MANY], scratch[MANY];
};

static double norm(void *with)
{
    struct two *t = with;
    bn_op_norm(NULL, t->y, t->x, t->w, ROWS, N, 1e-5);
    return weighted(t->y, t->dy, ROWS * N);
}

TEST(test_norm)
{
    static struct two t;
    fill(t.x, ROWS * N), fill(t.w, N), fill(t.dy, ROWS * N);
    bn_op_norm_back(t.dx, false, t.dw, t.dy, t.x, t.w, ROWS, N, 1e-5);
    assert_close(norm, &t, t.x, t.dx, ROWS * N);
    assert_close(norm, &t, t.w, t.dw, N);
    /* Adding to a gradient. */
    fill(t.scratch, ROWS * N);
    double before = t.scratch[3];
    bn_op_norm_back(t.scratch, true, t.dw, t.dy, t.x, t.w, ROWS, N, 1e-5);
    assert_true(fabs(t.scratch[3] - before - t.dx[3]) < 1e-12);
    /* A wrong gradient is found. */
    t.dx[8] += 1e-4;
    assert_false(worst(norm, &t, t.x, t.dx, ROWS * N) < CLOSE);
}

enum { N_OUT = 24 };

static double linear(void *with)
{
    struct two *t = with;
    struct bn_op_input in = {.x = t->x, .rows = ROWS, .n = N};
    struct bn_op_matrix m = {.t = t->w, .s = 0.37, .n_out = N_OUT, .n_in = N};
    bn_op_linear(NULL, t->y, &in, &m);
    return weighted(t->y, t->dy, ROWS * N_OUT);
}

TEST(test_linear)
{
    static struct two t;
    fill(t.x, ROWS * N), fill(t.w, N_OUT * N), fill(t.dy, ROWS * N_OUT);
    struct bn_op_input in = {.x = t.x, .rows = ROWS, .n = N};
    struct bn_op_matrix m = {.t = t.w, .s = 0.37, .n_out = N_OUT, .n_in = N};
    bn_op_linear_back(t.dx, false, t.dw, t.dy, &in, &m, t.scratch);
    assert_close(linear, &t, t.x, t.dx, ROWS * N);
    /* The gradient is that of the weight itself, t * s; that of t is s times as large. */
    bn_op_scale(t.dw, t.dw, 0.37, N_OUT * N);
    assert_close(linear, &t, t.w, t.dw, N_OUT * N);
}

/* Straight through: dx and dw are those of y = xq wq^T, with xq and wq what quantising gave, taken as if they were x
 * and w. */
TEST(test_straight_through)
{
    static struct two t;
    static double q[ROWS * N], scale[ROWS], codes[N_OUT * N];
    fill(t.x, ROWS * N), fill(t.w, N_OUT * N), fill(t.dy, ROWS * N_OUT);
    double s = bn_op_sum_abs(t.w, N_OUT * N) / (N_OUT * N);
    bn_op_ternarise(codes, t.w, s, 1, N_OUT * N);
    bn_op_quantise(NULL, q, scale, NULL, NULL, t.x, ROWS, N);
    struct bn_op_input in = {.x = q, .scale = scale, .rows = ROWS, .n = N};
    struct bn_op_matrix m = {.t = codes, .s = s, .n_out = N_OUT, .n_in = N};
    bn_op_linear(NULL, t.y, &in, &m);
    bn_op_linear_back(t.dx, false, t.dw, t.dy, &in, &m, t.scratch);
    for (size_t r = 0; r < ROWS; r++) {
        double amax = 0;
        for (size_t i = 0; i < N; i++)
            amax = fmax(amax, fabs(t.x[r * N + i]));
        assert_true(fabs(scale[r] - 127 / amax) < 1e-9);
        for (size_t i = 0; i < N; i++)
            assert_true(q[r * N + i] == nearbyint(t.x[r * N + i] * scale[r]) && fabs(q[r * N + i]) <= 127);
        for (size_t o = 0; o < N_OUT; o++) {
            double sum = 0;
            for (size_t i = 0; i < N; i++)
                sum += q[r * N + i] / scale[r] * codes[o * N + i] * s;
            assert_true(fabs(sum - t.y[r * N_OUT + o]) < 1e-12);
        }
        for (size_t i = 0; i < N; i++) {
            double sum = 0;
            for (size_t o = 0; o < N_OUT; o++)
                sum += t.dy[r * N_OUT + o] * codes[o * N + i] * s;
            assert_true(fabs(sum - t.dx[r * N + i]) < 1e-12);
        }
    }
    for (size_t o = 0; o < N_OUT; o++)
        for (size_t i = 0; i < N; i++) {
            double sum = 0, w = t.w[o * N + i] / s;
            for (size_t r = 0; r < ROWS; r++)
                sum += t.dy[r * N_OUT + o] * q[r * N + i] / scale[r];
            assert_true(fabs(sum - t.dw[o * N + i]) < 1e-12);
            assert_true(codes[o * N + i] == fmax(-1, fmin(1, nearbyint(w))));
        }
}

enum { T = 140 }; /* more than a block of rows */

struct attend {
    double q[MANY], k[MANY], v[MANY], y[MANY], p[4 * T * T], dy[MANY], dq[MANY], dk[MANY], dv[MANY],
        scratch[T * T];
};
static const struct bn_op_heads HEADS = {.n_head = 4, .n_kv = 2, .head_dim = 16, .n_tokens = T};
static const size_t NQ = T * 4 * 16, NK = T * 2 * 16;

static double attend(void *with)
{
    struct attend *a = with;
    bn_op_attention(NULL, a->y, a->p, a->q, a->k, a->v, &HEADS);
    return weighted(a->y, a->dy, NQ);
}

TEST(test_attention)
{
    static struct attend a;
    fill(a.q, NQ), fill(a.k, NK), fill(a.v, NK), fill(a.dy, NQ);
    attend(&a);
    bn_op_attention_back(a.dq, a.dk, a.dv, a.dy, a.p, a.q, a.k, a.v, &HEADS, a.scratch);
    assert_close(attend, &a, a.q, a.dq, NQ);
    assert_close(attend, &a, a.k, a.dk, NK);
    assert_close(attend, &a, a.v, a.dv, NK);
    /* Causal: the last key changes the last row alone. */
    attend(&a);
    double first = a.y[0], last = a.y[NQ - 1];
    a.k[NK - 1] += 1, a.v[NK - 1] += 1;
    attend(&a);
    assert_true(a.y[0] == first && a.y[NQ - 1] != last);
}

TEST(test_rope)
{
    static double x[MANY], kept[MANY], cosines[T * 8], sines[T * 8];
    fill(x, NQ);
    memcpy(kept, x, sizeof kept);
    for (size_t i = 0; i < T * 8; i++)
        cosines[i] = cos((double)i), sines[i] = sin((double)i);
    bn_op_rope(x, 4, &HEADS, cosines, sines, false);
    assert_true(fabs(x[100] - kept[100]) > 1e-3);
    /* The transpose of a rotation is its inverse. */
    bn_op_rope(x, 4, &HEADS, cosines, sines, true);
    for (size_t i = 0; i < NQ; i++)
        assert_true(fabs(x[i] - kept[i]) < 1e-12);
}

static double relu2(void *with)
{
    struct two *t = with;
    bn_op_relu2(t->y, t->x, t->w, N);
    return weighted(t->y, t->dy, N);
}

static double silu(void *with)
{
    struct two *t = with;
    bn_op_silu(NULL, t->y, t->x, t->w, N);
    return weighted(t->y, t->dy, N);
}

TEST(test_activations)
{
    static struct two t;
    fill(t.x, N), fill(t.w, N), fill(t.dy, N);
    bn_op_relu2_back(t.dx, t.dw, t.dy, t.x, t.w, N);
    assert_close(relu2, &t, t.x, t.dx, N);
    assert_close(relu2, &t, t.w, t.dw, N);
    bn_op_silu_back(NULL, t.dx, t.dw, t.dy, t.x, t.w, t.scratch, N);
    assert_close(silu, &t, t.x, t.dx, N);
    assert_close(silu, &t, t.w, t.dw, N);
}

static double cross_entropy(void *with)
{
    struct two *t = with;
    memcpy(t->y, t->x, N * sizeof *t->y);
    return bn_op_cross_entropy(NULL, t->y, N, 11, false);
}

TEST(test_cross_entropy)
{
    static struct two t;
    fill(t.x, N);
    memcpy(t.dx, t.x, sizeof t.dx);
    double loss = bn_op_cross_entropy(NULL, t.dx, N, 11, true), sum = 0;
    assert_close(cross_entropy, &t, t.x, t.dx, N);
    for (size_t i = 0; i < N; i++)
        sum += exp(t.x[i]);
    assert_true(fabs(loss - (log(sum) - t.x[11])) < 1e-12);
}

struct whole {
    struct bn_weights w;
    struct bn_pass *pass;
    int32_t tokens[64], targets[64];
};

static double whole(void *with)
{
    struct whole *m = with;
    bn_weights_ternarise(&m->w, NULL);
    return bn_pass_run(m->pass, m->tokens, m->targets, NULL);
}

static void check_model(bool qwen)
{
    static struct whole m;
    bn_hparams hp = {.n_vocab = 40,
                     .n_ctx = 24,
                     .n_embd = 128,
                     .n_layer = 2,
                     .n_ff = 128,
                     .n_head = 4,
                     .n_head_kv = 2,
                     .head_dim = 32,
                     .n_rot = 32,
                     .rms_eps = 1e-5f,
                     .rope_base = 10000,
                     .rope_scale = 1,
                     .activation = qwen ? BN_ACTIVATION_SILU : BN_ACTIVATION_RELU2,
                     .sub_norms = !qwen,
                     .head_norms = qwen,
                     .tied_head = true};
    must(bn_weights_open(&m.w, &hp, qwen ? 64 : 0, NULL));
    m.w.exact = true;
    bn_weights_start(&m.w, 3);
    for (size_t i = 0; i < m.w.n_values; i++)
        m.w.master[i] = m.w.master[i] * 3 + 0.1 * uniform();
    for (size_t i = 0; i < 48; i++) {
        m.tokens[i] = (int32_t)bn_splitmix64_below(&random_state, 40);
        m.targets[i] = i % 7 == 0 ? BN_NO_TARGET : (int32_t)bn_splitmix64_below(&random_state, 40);
    }
    must(bn_pass_open(&m.pass, &m.w, 2, true, NULL));
    double *grad = bn_alloc(m.w.n_values, sizeof *grad);
    double loss = (bn_weights_ternarise(&m.w, NULL), bn_pass_run(m.pass, m.tokens, m.targets, grad));
    assert_true(fabs(loss - whole(&m)) < 1e-12 * loss);
    for (size_t i = 0; i < m.w.n_params; i++) {
        const struct bn_param *p = &m.w.params[i];
        size_t n = p->rows * p->cols, stride = n > 32 ? n / 23 : 1;
        double error = 0, size = 1e-9;
        for (size_t j = 0; j < n; j += stride) {
            double *x = &m.w.master[p->at + j], kept = *x;
            *x = kept + STEP;
            double up = whole(&m);
            *x = kept - STEP;
            double slope = (up - whole(&m)) / (2 * STEP);
            *x = kept;
            error = fmax(error, fabs(slope - grad[p->at + j]));
            size = fmax(size, fabs(slope));
        }
        if (error / size > 1e-6) fail_msg("%s: relative error %g", p->name, error / size);
    }
    bn_free(grad);
    bn_pass_close(m.pass);
    bn_weights_close(&m.w);
}

TEST(test_bitnet)
{
    check_model(false);
}

TEST(test_qwen3)
{
    check_model(true);
}

FIXTURE(start_blas)
{
    must(bn_blas_start(1, NULL));
}

GROUP(start_blas, NULL)
