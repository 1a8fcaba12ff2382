/* SPDX-License-Identifier: MIT
 *
 * bn-bench kernels compares kernels with the reference: correct ones pass in every case, on every instruction
 * set and with several threads; wrong ones of each kind are caught.
 */
#include <math.h>

#include "kernels/peak.h"
#include "tests/unit/status.h"
#include "tools/bench/limits.h"
#include "tools/bench/work.h"

static const struct bn_bench_shape SMALL = {
    .n_embd = 256, .n_ff = 384, .n_head = 4, .n_head_kv = 2, .head_dim = 64, .n_vocab = 320};
#define SET_BYTES ((size_t)64 << 10)

static struct bn_bench_case cases[BN_BENCH_CASES];
static size_t n_cases;

static unsigned char *pool_for(size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        if (cases[i].copies * cases[i].weights_bytes > most) most = cases[i].copies * cases[i].weights_bytes;
    return bn_alloc(most, 1);
}

static int list_cases(void **state)
{
    n_cases = bn_bench_cases(cases, &SMALL, SET_BYTES, SET_BYTES - 1);
    *state = pool_for(n_cases);
    return *state == NULL;
}

static int release(void **state)
{
    bn_free(*state);
    return 0;
}

TEST(all_cases_have_sizes)
{
    assert_true(n_cases > 20 && n_cases <= BN_BENCH_CASES);
    for (size_t i = 0; i < n_cases; i++) {
        const struct bn_bench_case *c = &cases[i];
        assert_true(c->rows > 0 && c->k > 0 && c->n > 0 && c->copies > 0 && c->bytes > 0);
        assert_true(c->shape[0] != '\0');
        assert_true(c->no_limit || c->hot_bytes > 0);
        assert_string_equal(c->source, c->streamed ? "memory" : "cache");
        assert_true(!c->streamed || c->copies * c->weights_bytes <= SET_BYTES + c->weights_bytes);
    }
}

TEST(right_kernels_pass)
{
    for (size_t i = 0; i < n_cases; i++) {
        struct bn_bench_work work;
        must(bn_bench_prepare(&work, &cases[i], *state, 2, &err));
        for (size_t k = 0; bn_kernels_built(k) != NULL; k++)
            for (unsigned threads = 1; threads <= 3 && bn_kernels_supported(bn_kernels_built(k)); threads++)
                if (attempt(bn_bench_check(&work, bn_kernels_built(k), threads, &err)) != BN_OK)
                    fail_msg("%s", err.msg);
        bn_bench_release(&work);
    }
}

static void last_bit_gemv(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    bn_kernels_ref.ternary_gemv(y, w, x);
    unsigned char *bytes = (unsigned char *)(y + w->rows - 1);
    bytes[0] ^= 1; /* the last bit of the last result */
}

static void short_gemm(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    bn_kernels_ref.ternary_gemm(y, ldy, w, x, n - 1); /* forgets a vector */
}

static void idle_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    (void)y, (void)x, (void)w, (void)n, (void)eps; /* leaves what was there */
}

static void miscounting_quantize(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    bn_kernels_ref.quantize(q, scale, sum, x, n);
    *sum += 1;
}

static void fresh_values(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v)
{
    for (size_t j = 0; j < n; j++) /* does not add to what is there */
        memset(y + j * ldy, 0, v->head_dim * sizeof *y);
    bn_kernels_ref.attn_values(y, ldy, s, lds, n, v);
}

static void check_caught(unsigned char *pool, const struct bn_kernels *wrong, enum bn_kernel slot)
{
    size_t tried = 0;
    for (size_t i = 0; i < n_cases; i++) {
        struct bn_bench_work work;
        if (cases[i].slot != slot) continue;
        must(bn_bench_prepare(&work, &cases[i], pool, 1, &err));
        must(bn_bench_check(&work, &bn_kernels_ref, 1, &err));
        refused(bn_bench_check(&work, wrong, 2, &err), BN_ERR_MISMATCH);
        assert_has(err.msg, bn_kernels_ref.name[slot]);
        assert_has(err.msg, cases[i].shape);
        assert_int_equal(bn_status_exit(err.code), BN_EXIT_NEGATIVE);
        bn_bench_release(&work);
        tried++;
    }
    assert_true(tried > 0);
}

TEST(wrong_kernels_are_caught)
{
    struct bn_kernels wrong = bn_kernels_ref;
    wrong.ternary_gemv = last_bit_gemv;
    check_caught(*state, &wrong, BN_KERNEL_TERNARY_GEMV);
    wrong.ternary_gemm = short_gemm;
    check_caught(*state, &wrong, BN_KERNEL_TERNARY_GEMM);
    wrong.rmsnorm = idle_rmsnorm;
    check_caught(*state, &wrong, BN_KERNEL_RMSNORM);
    wrong.quantize = miscounting_quantize;
    check_caught(*state, &wrong, BN_KERNEL_QUANTIZE);
    wrong.attn_values = fresh_values;
    check_caught(*state, &wrong, BN_KERNEL_ATTN_VALUES);
}

TEST(out_of_memory_is_an_error)
{
    for (uint64_t n = 1; n <= 3; n++) {
        struct bn_bench_work work;
        bn_mem_fail_after(n);
        refused(bn_bench_prepare(&work, &cases[0], *state, 1, &err), BN_ERR_NOMEM);
        bn_mem_fail_after(0);
        bn_bench_release(&work);
    }
}

/* A limit that other work disturbed is planted: measured again it rises, and it never falls. */
TEST(disturbed_limits_are_measured_again)
{
    struct bn_bench_limits limits = {.budget_ns = 100000};
    struct bn_bench_bound bound;
    const struct bn_kernels *kernels = bn_kernels_find("auto");
    if (bn_peak_of(kernels)->int8 == NULL) skip(); /* plain C has no limits */
    must(bn_bench_limits_bound(&limits, &cases[0], kernels, 1, (double)NAN, &bound, NULL));
    size_t n = limits.n;
    assert_true(n >= 1 && bound.ns > 0);
    static const double RATES[] = {1, 1, 1e30}, NS[] = {(double)NAN, 1, 1e-300};
    for (unsigned k = 0; k < 3; k++) {
        for (size_t i = 0; i < n; i++)
            limits.list[i].rate = RATES[k];
        must(bn_bench_limits_bound(&limits, &cases[0], kernels, 1, NS[k], &bound, NULL));
        assert_int_equal(limits.n, n);
        for (size_t i = 0; i < n; i++) /* known ones stay unless a call was faster */
            assert_true(k == 0 ? limits.list[i].rate <= 1 : limits.list[i].rate > 1);
        for (size_t i = 0; i < n && k == 2; i++)
            assert_true(limits.list[i].rate >= 1e30);
    }
    bn_bench_limits_release(&limits);
}

TEST(bounds_by_hand)
{
    const struct bn_kernels *kernels = bn_kernels_find("auto");
    struct bn_bench_limit list[] = {
        {.kind = BN_LIMIT_READ, .n_threads = 1, .set_bytes = SET_BYTES, .rate = 2e10},
        {.kind = BN_LIMIT_INT8, .n_threads = 1, .kernels = kernels, .rate = 1e11},
        {.kind = BN_LIMIT_FLOAT, .n_threads = 1, .kernels = kernels, .rate = 5e10}};
    struct bn_bench_limits limits = {.list = list, .n = 3};
    static const struct {
        double bytes, int8, floats, ns;
        const char *what;
    } ROWS[] = {{1e9, 2e9, 0, 5e7, "memory"},
                {1e7, 2e9, 0, 2e7, "arithmetic"},
                {1e7, 2e9, 1e9, 4e7, "arithmetic"},
                {1e9, 0, 0, 5e7, "memory"},
                {0, 2e9, 0, 2e7, "arithmetic"}};
    if (bn_peak_of(kernels)->int8 == NULL) skip();
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct bn_bench_bound bound;
        const struct bn_bench_case c = {.bytes = ROWS[i].bytes,
                                        .int8_macs = ROWS[i].int8,
                                        .float_macs = ROWS[i].floats,
                                        .hot_bytes = SET_BYTES,
                                        .source = "memory"};
        must(bn_bench_limits_bound(&limits, &c, kernels, 1, (double)NAN, &bound, NULL));
        assert_string_equal(bound.what, ROWS[i].what);
        assert_true(fabs(bound.ns - ROWS[i].ns) < 1);
    }
}

GROUP(list_cases, release)
