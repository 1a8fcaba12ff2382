/* SPDX-License-Identifier: MIT
 *
 * The engine's own log, exp, sin and cos against libm's, and the table of angles against the formula.
 */
#include <math.h>

#include "base/mem.h"
#include "infer/rope.h"
#include "tests/unit/unit.h"

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1.0 + fabs(b)))) fail_msg("%.17g is not %.17g", a, b);
}

static void functions_agree_with_libm(void **state)
{
    (void)state;
    for (int i = 1; i < 20000; i++)
        assert_near(bn_rope_log(i * 61.7), log(i * 61.7), 1e-15);
    for (int i = -7000; i <= 7000; i++)
        assert_near(bn_rope_exp(i * 0.1) / exp(i * 0.1), 1.0, 1e-15);
    for (int i = 0; i < 200000; i++) {
        double s, c, angle = i * 5.37;
        bn_rope_sincos(angle, &s, &c);
        assert_near(s, sin(angle), 1e-15);
        assert_near(c, cos(angle), 1e-15);
    }
}

static void the_table_follows_the_formula(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_agree_with_libm),
        cmocka_unit_test(the_table_follows_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
