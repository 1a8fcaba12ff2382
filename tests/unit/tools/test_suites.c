/* SPDX-License-Identifier: MIT
 *
 * The suites of bn-bench: definitions with exact answers, and checks that each catch the fault planted for
 * them. No test depends on the speed of the machine.
 */
#include <math.h>

#include "gguf/types.h"
#include "lab/host/meters.h"
#include "tests/unit/status.h"
#include "tools/bench/harness.h"
#include "tools/bench/quant/quant.h"

/* ---- checks of timings ---- */

static const struct bn_clock_facts FINE = {.resolution_ns = 20, .cost_ns = 25};

static const char *refusal(const double *ns, size_t n, double rate, double limit,
                           const struct bn_clock_facts *clock)
{
    static char why[160];
    struct bn_bench_claim claim = {ns, n, rate, limit};
    return bn_bench_refuses(why, &claim, clock);
}

TEST(invalid_samples_are_refused)
{
    static const double SHORT[] = {1000, 399, 1000}, LONG[] = {400, 401, 500};
    double same[10];
    struct bn_clock_facts back = FINE, still = FINE;
    for (size_t i = 0; i < 10; i++)
        same[i] = 12345;
    assert_has(refusal(SHORT, 3, 0, 0, &FINE), "a sample took 399 ns, less than 20 steps");
    assert_has(refusal(LONG, 3, 105.2, 100, &FINE), "1.05 times the measured limit");
    assert_has(refusal(same, 10, 0, 0, &FINE), "all 10 samples took exactly 12345 ns");
    assert_null(refusal(same, 9, 0, 0, &FINE));
    assert_null(refusal(LONG, 3, 105, 100, &FINE)); /* both were measured */
    assert_null(refusal(LONG, 3, 1e30, 0, &FINE));  /* no limit is known */
    back.n_backward = 1;
    assert_has(refusal(LONG, 3, 0, 0, &back), "stepped back");
    still.resolution_ns = 0;
    assert_has(refusal(LONG, 3, 0, 0, &still), "does not advance");
    assert_has(refusal(LONG, 0, 0, 0, &FINE), "no samples");
}

static void nothing(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads)
{
    (void)arg, (void)first, (void)n, (void)thread, (void)n_threads;
}

/* However many calls, a body that does nothing never fills a sample. Its samples are two readings of the
 * clock apart; a clock of 1 us is refused for certain, whatever the clock of this machine. */
TEST(empty_work_is_invalid)
{
    struct bn_bench_times *times = bn_alloc(1, sizeof *times);
    struct bn_bench_body body = {nothing, NULL};
    struct bn_clock_facts coarse = {.resolution_ns = 1000000};
    assert_non_null(times);
    must(bn_bench_time_body(times, &body, 1, 0, NULL));
    assert_true(times->calls >= (uint64_t)1 << 32 && times->n >= 3);
    double ns[BN_BENCH_MIN_SAMPLES];
    for (size_t i = 0; i < BN_BENCH_MIN_SAMPLES; i++)
        ns[i] = (double)times->ns[i];
    assert_non_null(refusal(ns, BN_BENCH_MIN_SAMPLES, 0, 0, &coarse));
    /* and the rate is above any limit */
    assert_non_null(refusal(ns, BN_BENCH_MIN_SAMPLES, 64e9 * (double)times->calls / ns[0], 1e12, &FINE));
    bn_free(times);
}

/* A row of a suite with an invalid measurement: the exit code, the mark, no series, no figure. */
TEST(invalid_rows_end_with_1)
{
    static const uint64_t SHORT[] = {30, 31, 32}, LONG[] = {30000, 31000, 32000};
    struct bn_harness s = {.matched = true, .clock = FINE, .doc = bn_json_new_object()};
    struct bn_args args = {0};
    struct bn_harness_row row = {.test = "t", .metric = "ns_per_call", .per_call = 1, .n_threads = 1};
    s.args = &args;
    s.tests = bn_json_put_array(s.doc, "tests");
    bn_json *good = bn_harness_test(&s, "t"), *bad = bn_harness_test(&s, "u");
    must(bn_harness_put_samples(&s, &row, 10, LONG, 3, good, &err));
    assert_true(row.valid && row.ns.median == 3100);
    assert_int_equal(s.series.n, 1);
    row.test = "u";
    must(bn_harness_put_samples(&s, &row, 10, SHORT, 3, bad, &err));
    assert_false(row.valid);
    assert_int_equal(s.series.n, 1);
    assert_string_equal(bn_json_text_of(good, "verdict"), "valid");
    bn_harness_judge(&s, bad, BN_BENCH_VALID, NULL); /* which comes too late */
    assert_string_equal(bn_json_text_of(bad, "verdict"), "invalid");
    assert_has(bn_json_text_of(bad, "reason"), "less than 20 steps");
    must(bn_harness_finish(&s, BN_OK, &err));
    assert_int_equal(args.exit_code, BN_EXIT_NEGATIVE);
}

/* Right when it was checked, and then skipping its work while it is timed: what it left tells. */
static void idle(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads)
{
    volatile unsigned turns = 0;
    (void)arg, (void)first, (void)thread, (void)n_threads;
    for (uint64_t i = 0; i < 1000 * n; i++)
        turns++;
}

TEST(work_skipped_while_timed_is_invalid)
{
    struct bn_quant_data d;
    struct bn_quant_op op;
    struct bn_args args = {0};
    struct bn_harness *s = bn_alloc(1, sizeof *s);
    struct bn_bench_body honest = {bn_quant_calls, &op}, cheat = {idle, NULL};
    struct bn_harness_row row = {.test = "t", .metric = "ns_per_call", .per_call = 1, .n_threads = 1};
    char why[160];
    assert_non_null(s);
    *s = (struct bn_harness){.matched = true, .clock = FINE, .args = &args, .doc = bn_json_new_object()};
    must(bn_quant_prepare(&d, 16, 256, &err));
    bn_quant_op_make(&op, BN_QUANTISE, &bn_quant_formats[0], &d);
    s->tests = bn_json_put_array(s->doc, "tests");
    row.differs = bn_quant_differs;
    row.arg = &op;
    for (unsigned i = 0; i < 2; i++) {
        assert_null(bn_quant_wrong(why, &op, &bn_kernels_ref, 1));
        memset(d.out, 0, op.written_bytes);
        row.test = i == 0 ? "honest" : "cheat";
        must(bn_harness_time(s, &row, i == 0 ? &honest : &cheat, bn_harness_test(s, row.test), &err));
        assert_int_equal(row.valid, i == 0);
        assert_int_equal(s->series.n, 1); /* the honest one's */
    }
    must(bn_harness_finish(s, BN_OK, &err));
    assert_int_equal(args.exit_code, BN_EXIT_NEGATIVE);
    bn_quant_release(&d);
    bn_free(s);
}

TEST(false_statements_end_with_1)
{
    struct bn_harness s = {.matched = true, .clock = FINE, .doc = bn_json_new_object()};
    struct bn_args args = {0};
    s.args = &args;
    s.tests = bn_json_put_array(s.doc, "tests");
    bn_harness_state(&s, bn_harness_test(&s, "t"), "right", true);
    bn_harness_state(&s, bn_harness_test(&s, "u"), "wrong", false);
    must(bn_harness_finish(&s, BN_OK, &err));
    assert_int_equal(args.exit_code, BN_EXIT_NEGATIVE);
}

struct fake {
    uint64_t now, step, back_at, n;
};

static uint64_t read_fake(void *arg)
{
    struct fake *f = arg;
    f->now += f->step;
    if (++f->n == f->back_at) f->now -= 10 * f->step;
    return f->now;
}

TEST(clocks_are_measured)
{
    struct fake even = {.step = 3}, back = {.step = 3, .back_at = 777}, still = {0};
    struct bn_clock_facts facts;
    bn_clock_measure(&facts, read_fake, &even, 100);
    assert_true(facts.resolution_ns == 300 && facts.n_backward == 0 && facts.n_readings == even.n);
    bn_clock_measure(&facts, read_fake, &back, 100);
    assert_true(facts.n_backward == 1);
    bn_clock_measure(&facts, read_fake, &still, 100);
    assert_true(facts.resolution_ns == 0);
    bn_clock_measure(&facts, NULL, NULL, 1);
    assert_true(facts.resolution_ns > 0 && facts.cost_ns > 0 && facts.n_backward == 0);
}

TEST(leaks_are_found)
{
    char why[160];
    struct bn_mem_stats before = bn_mem_stats();
    void *block = bn_alloc(100, 3);
    struct bn_mem_stats after = bn_mem_stats();
    assert_non_null(block);
    assert_has(bn_memory_leak(why, &before, &after), "after 1 allocations");
    assert_int_equal(bn_mem_size(block), 300);
    assert_int_equal(bn_mem_size(NULL), 0);
    bn_free(block);
    after = bn_mem_stats();
    assert_null(bn_memory_leak(why, &before, &after));
}

TEST(blocks_are_aligned)
{
    void *blocks[200];
    for (size_t i = 0; i < BN_ARRAY_LEN(blocks); i++) {
        unsigned char *p = blocks[i] = i % 2 == 0 ? bn_alloc(i, 1) : bn_alloc_aligned(i, 1);
        assert_int_equal((uintptr_t)p % (i % 2 == 0 ? 16 : BN_ALIGNMENT), 0);
        assert_int_equal(bn_mem_size(p), i);
        for (size_t k = 0; k < i; k++) {
            assert_int_equal(p[k], 0);
            p[k] = 0xFF;
        }
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(blocks); i++)
        bn_free(blocks[i]);
    assert_null(bn_alloc(SIZE_MAX, 1));
    assert_null(bn_alloc_aligned(SIZE_MAX / 2, 2));
}

static void near(double a, double b, double within)
{
    if (!(fabs(a - b) <= within)) fail_msg("%.17g is not %.17g", a, b);
}

/* A ramp over -1 .. 1 in 256 cells of 16 points each, every point moved to the middle of its cell: the error
 * of a cell of width d with m points is d^2 / 12 (1 - 1 / m^2), the signal of N points 1/3 (1 - 1 / N^2), and
 * the quotient is 20 log10 256 in the limit. */
TEST(ramp_has_the_noise_of_its_steps)
{
    enum { CELLS = 256, POINTS = 16, N = CELLS * POINTS };
    static float w[N], v[N];
    struct bn_quality q;
    double d = 2.0 / CELLS;
    for (size_t i = 0; i < N; i++) {
        w[i] = (float)(((double)i + 0.5) / N * 2 - 1);
        v[i] = (float)(((double)(i / POINTS) + 0.5) * d - 1);
    }
    bn_quality_of(&q, w, v, N);
    double mse = d * d / 12 * (1 - 1.0 / (POINTS * POINTS)), signal = (1 - 1.0 / ((double)N * N)) / 3;
    near(q.mse / mse, 1, 1e-5);
    near(q.sqnr_db, 10 * log10(signal / mse), 1e-4);
    near(q.sqnr_db, 20 * log10(CELLS), 0.02);
    w[7] = 0;
    bn_quality_of(&q, w, w, N);
    assert_true(q.mse == 0 && isinf(q.sqnr_db) && q.zero_share == 1.0 / N);
}

/* TQ1_0 in its first 160 values has five of a byte 32 apart: all 243 groups, each in every byte. */
TEST(tq1_unpacks_all_groups)
{
    static const uint8_t POW3[] = {1, 3, 9, 27, 81};
    for (unsigned shift = 0; shift < 243; shift++) {
        int8_t in[256] = {0}, out[256];
        uint8_t block[BN_TQ1_BLOCK_BYTES];
        for (unsigned i = 0; i < 160; i++)
            in[i] = (int8_t)((i % 32 + shift) % 243 / POW3[i / 32] % 3 - 1);
        bn_pack_base3(block, in, 256, 0);
        (void)bn_unpack_base3(out, block, 256);
        assert_memory_equal(out, in, 256);
    }
}

/* The groups of T5 likewise, and the same values through the others. */
TEST(packing_unpacks_all_groups)
{
    static const uint8_t POW3[] = {1, 3, 9, 27, 81};
    for (unsigned shift = 0; shift < 243; shift += 7) {
        int8_t in[1280], out[1280]; /* 1280 is a multiple of every block */
        uint8_t block[BN_TQ2_BLOCK_BYTES], codes[1280 / 4], t5[1280 / 320 * 64];
        for (unsigned i = 0; i < 1280; i++) /* digit n of the group p, over the five places of T5 and TQ1 */
            in[i] = (int8_t)(((i % 64 + shift + i / 320 * 64) % 243 / POW3[i % 320 / 64]) % 3 - 1);
        for (unsigned i = 0; i < 1280; i += 256) {
            bn_pack_tq2(block, in + i, 256, 0x1234);
            assert_int_equal(bn_unpack_tq2(out + i, block, 256), 0x1234);
            assert_memory_equal(out + i, in + i, 256);
            bn_pack_base3(block, in + i, 256, 0x4321);
            assert_int_equal(bn_unpack_base3(out + i, block, 256), 0x4321);
            assert_memory_equal(out + i, in + i, 256);
        }
        for (unsigned i = 0; i < 1280; i += 128) {
            bn_pack_i2s(codes + i / 4, in + i, 128, 0);
            (void)bn_unpack_i2s(out + i, codes + i / 4, 128);
            assert_memory_equal(out + i, in + i, 128);
        }
        bn_kernels_ref.t5_pack(t5, codes, 1280);
        for (unsigned i = 0; i < 1280; i += 320)
            bn_unpack_t5(out + i, t5 + i / 320 * 64);
        assert_memory_equal(out, in, 1280);
    }
}

TEST(bits_count_scales_and_padding)
{
    static const struct {
        const char *name;
        double bits; /* of 640 x 2560, 2560 = 8 x 320 */
    } BITS[] = {{"I2_S", 2 + 8 * 32 / (640.0 * 2560)},
                {"T5", 1.6 + 8 * 4 / (640.0 * 2560)},
                {"TQ2_0", 66 / 32.0},
                {"TQ1_0", 54 / 32.0},
                {"Q2_0", 2.25},
                {"PQ2_0", 2.125},
                {"PTQ1_0", 1.75},
                {"Q4_1", 5},
                {"Q8_0", 8.5},
                {"F16", 16}};
    _Static_assert(BN_ARRAY_LEN(BITS) == BN_QUANT_FORMATS, "one for each");
    for (size_t i = 0; i < BN_ARRAY_LEN(BITS); i++) {
        assert_string_equal(bn_quant_formats[i].name, BITS[i].name);
        near(bn_quant_bits(&bn_quant_formats[i], 640, 2560), BITS[i].bits, 1e-12);
    }
    near(bn_quant_bits(&bn_quant_formats[1], 2560, 6912), 22 * 64 * 8 / 6912.0,
         1e-5); /* padded to 22 blocks */
}

/* Absmean by hand: the mean of |w| is 1, so halves round to even, to zero, and 1.5 to 2, clamped. */
TEST(absmean_by_definition)
{
    static const float PATTERN[8] = {0.5f, -0.5f, 1.5f, -1.5f, 1.0f, -1.0f, 2.0f, 0.0f};
    static const float EXPECTED[8] = {0, 0, 1, -1, 1, -1, 1, 0};
    float w[256], back[256];
    uint8_t packed[512] = {0};
    double sum;
    for (size_t i = 0; i < 256; i++)
        w[i] = PATTERN[i % 8];
    sum = bn_quant_row_sum(w, 256);
    assert_true(sum == 256);
    for (size_t f = 0; f < BN_QUANT_FORMATS; f++) {
        struct bn_quant_job job = {
            .format = &bn_quant_formats[f], .kernels = &bn_kernels_ref, .rows = 1, .k = 256};
        if (strcmp(job.format->name, "Q4_1") == 0) break;
        job.w = w;
        job.packed = packed;
        job.back = back;
        job.scale = bn_quant_tensor_scale(&sum, 1, 256);
        job.format->encode(&job, 0);
        job.format->decode(&job, 0);
        for (size_t i = 0; i < 256; i++)
            if (back[i] != EXPECTED[i % 8])
                fail_msg("%s: weight %zu is %g", job.format->name, i, (double)back[i]);
    }
}

#define ROWS ((size_t)24)
#define K ((size_t)1280)

/* On weights that differ in size by row and by part of a row, fewer weights per scale give a smaller error.
 */
TEST(finer_scales_lose_less)
{
    static const char *const ORDER[] = {"I2_S", "TQ2_0", "Q4_1", "Q8_0", "F16"};
    struct bn_quant_data d;
    double last = HUGE_VAL;
    must(bn_quant_prepare(&d, ROWS, K, &err));
    for (size_t i = 0; i < BN_ARRAY_LEN(ORDER); i++)
        for (size_t f = 0; f < BN_QUANT_FORMATS; f++) {
            struct bn_quant_op op;
            struct bn_quality q;
            if (strcmp(bn_quant_formats[f].name, ORDER[i]) != 0) continue;
            bn_quant_op_make(&op, BN_DEQUANTISE, &bn_quant_formats[f], &d);
            bn_quality_of(&q, d.w, (const float *)(const void *)d.expected, ROWS * K);
            if (!(q.mse < last)) fail_msg("%s: %g, before %g", ORDER[i], q.mse, last);
            last = q.mse;
        }
    bn_quant_release(&d);
}

TEST(every_operation_agrees_everywhere)
{
    struct bn_quant_data d;
    char why[160];
    size_t n = 0;
    must(bn_quant_prepare(&d, ROWS, K, &err));
    for (unsigned kind = 0; kind < BN_QUANT_KINDS; kind++)
        for (size_t f = 0; f < BN_QUANT_FORMATS; f++) {
            struct bn_quant_op op;
            bn_quant_op_make(&op, (enum bn_quant_kind)kind, &bn_quant_formats[f], &d);
            for (size_t i = 0; bn_kernels_built(i) != NULL; i++)
                for (unsigned t = 1; t <= 3 && bn_kernels_supported(bn_kernels_built(i)); t++, n++)
                    if (bn_quant_wrong(why, &op, bn_kernels_built(i), t) != NULL)
                        fail_msg("%s %s: %s", op.name, bn_quant_formats[f].name, why);
        }
    assert_true(n >= 2 * 3 * BN_QUANT_FORMATS);
    bn_quant_release(&d);
}

/* ---- wrong kernels are fast, and caught ---- */

static void lazy_pack(uint8_t *out, const uint8_t *codes, size_t k)
{
    (void)out, (void)codes, (void)k; /* nothing is faster */
}

static void truncating_f16(uint16_t *y, const float *x, size_t n)
{
    bn_kernels_ref.f32_to_f16(y, x, n);
    y[0] &= 0xFFFE;
    y[1] &= 0xFFFE;
    y[2] &= 0xFFFE;
    y[3] &= 0xFFFE;
}

static void check_caught(struct bn_quant_data *d, enum bn_quant_kind kind, size_t format,
                         const struct bn_kernels *wrong)
{
    struct bn_quant_op op;
    char why[160];
    bn_quant_op_make(&op, kind, &bn_quant_formats[format], d);
    assert_null(bn_quant_wrong(why, &op, &bn_kernels_ref, 2));
    assert_non_null(bn_quant_wrong(why, &op, wrong, 2));
    assert_has(why, "the reference's is");
}

TEST(wrong_kernels_are_caught)
{
    struct bn_kernels wrong = bn_kernels_ref;
    struct bn_quant_data d;
    wrong.t5_pack = lazy_pack;
    wrong.f32_to_f16 = truncating_f16;
    must(bn_quant_prepare(&d, ROWS, K, &err));
    check_caught(&d, BN_QUANTISE, 1, &wrong);
    check_caught(&d, BN_QUANTISE, BN_QUANT_FORMATS - 1, &wrong);
    bn_quant_release(&d);
}
