/* SPDX-License-Identifier: MIT
 *
 * tools/cli/progress.h: the line, and that there is none where nobody looks at it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/cli/progress.h"

static void the_line_tells_rate_and_rest(void **state)
{
    (void)state;
    char line[128], small[12];
    struct bn_progress p = {.label = "rounds", .total = 60};
    bn_progress_line(line, sizeof line, &p, 0, 5000000000u);
    assert_string_equal(line, "rounds  0/60  0 %");
    bn_progress_line(line, sizeof line, &p, 12, UINT64_C(24000000000));
    assert_string_equal(line, "rounds  12/60  20 %  0.5/s  ETA 1:36");
    bn_progress_line(line, sizeof line, &p, 1, UINT64_C(100000000000));
    assert_string_equal(line, "rounds  1/60  2 %  0.01/s  ETA 1:38:20");
    bn_progress_line(line, sizeof line, &p, 60, UINT64_C(6000000000));
    assert_string_equal(line, "rounds  60/60  100 %  10/s  ETA 0:00");
    bn_progress_line(small, sizeof small, &p, 12, UINT64_C(24000000000));
    assert_string_equal(small, "rounds  12/");
}

static void quiet_is_quiet(void **state)
{
    (void)state;
    struct bn_progress p;
    bn_progress_begin(&p, "rounds", 3, true);
    assert_false(p.on);
    bn_progress_show(&p, 1);
    bn_progress_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_line_tells_rate_and_rest),
                                       cmocka_unit_test(quiet_is_quiet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
