/* SPDX-License-Identifier: MIT
 *
 * The engine's own log, exp, sin and cos against libm's, and the table of angles against the formula.
 */
#include <math.h>

#include "base/elementary.h"
#include "base/mem.h"
#include "infer/session.h"
#include "tests/unit/unit.h"

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1.0 + fabs(b)))) fail_msg("%.17g is not %.17g", a, b);
}

TEST(functions_agree_with_libm)
{
    for (int i = 1; i < 20000; i++)
        assert_near(bn_log(i * 61.7), log(i * 61.7), 1e-15);
    for (int i = -7000; i <= 7000; i++)
        assert_near(bn_exp(i * 0.1) / exp(i * 0.1), 1.0, 1e-15);
    for (int i = 0; i < 200000; i++) {
        double s, c, angle = i * 5.37;
        bn_sincos(angle, &s, &c);
        assert_near(s, sin(angle), 1e-15);
        assert_near(c, cos(angle), 1e-15);
    }
}

/* Of every machine: a change of the arithmetic changes a bit of one of these. */
TEST(functions_have_known_bits)
{
    double s, c;
    bn_sincos(1e5 / 7, &s, &c);
    const double found[] = {bn_log(1.0 / 3), bn_log(128256.7), bn_exp(-1.0 / 3), bn_exp(100.1), s, c};
    const double known[] = {-0x1.193ea7aad030bp+0,  0x1.78609354ff8e6p+3,  0x1.6edd3122f2ea5p-1,
                            0x1.5508d07df81bbp+144, -0x1.8ea97099c3918p-1, -0x1.414471057fd14p-1};
    for (size_t i = 0; i < BN_ARRAY_LEN(known); i++)
        if (memcmp(&found[i], &known[i], sizeof *known) != 0)
            fail_msg("value %zu: %a is not %a", i, found[i], known[i]);
}

TEST(functions_have_their_limits)
{
    assert_true(isinf(bn_log(0)) && bn_log(0) < 0 && isnan(bn_log(-1)) && isnan(bn_log((double)NAN)));
    assert_true(isinf(bn_log(HUGE_VAL)) && bn_log(HUGE_VAL) > 0);
    assert_true(isinf(bn_exp(1e300)) && bn_exp(-1e300) == 0 && isnan(bn_exp((double)NAN)));
    assert_true(isinf(bn_exp(HUGE_VAL)) && bn_exp(-HUGE_VAL) == 0);
    assert_true(isfinite(bn_exp(709)) && bn_exp(-708) > 0);
}

TEST(the_table_follows_the_formula)
{
    bn_hparams hp = {.n_rot = 128, .rope_base = 500000.0f, .rope_scale = 0.5f};
    float factors[64];
    size_t n_ctx = 300;
    float *c = bn_alloc(n_ctx * 64, sizeof *c), *s = bn_alloc(n_ctx * 64, sizeof *s);
    for (int i = 0; i < 64; i++)
        factors[i] = 1.0f + (float)i;
    bn_rope_table(c, s, n_ctx, &hp, factors);
    for (size_t p = 0; p < n_ctx; p++)
        for (size_t i = 0; i < 64; i++) {
            double angle = 0.5 * (double)p * pow(500000.0, -2.0 * (double)i / 128.0) / (double)factors[i];
            assert_near((double)c[p * 64 + i], cos(angle), 1e-7);
            assert_near((double)s[p * 64 + i], sin(angle), 1e-7);
        }
    bn_free(c);
    bn_free(s);
}
