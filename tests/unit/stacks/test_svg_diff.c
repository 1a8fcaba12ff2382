/* SPDX-License-Identifier: MIT
 *
 * lab/stacks/svg_diff.c: pictures of comparisons have widths, colours and texts of both sides.
 */
#include "tests/unit/stacks/pictures.h"

static void comparisons_have_widths_and_colours(void **state)
{
    (void)state;
    struct bn_stacks_diff d = make_diff();
    struct bn_buf svg;
    struct rect boxes[16];
    draw_diff(&svg, &d, BN_SVG_UNION);
    size_t n = read_boxes(boxes, 16, svg.data);
    check_nesting(boxes, n, false);
    assert_int_equal(n, 8);
    assert_int_equal(width_of(boxes, n, "gone"), 10000); /* half of 20 % of 1000 px */
    assert_int_equal(width_of(boxes, n, "new"), 6500);
    assert_int_equal(look_of(svg.data, "same"), 5);  /* not significant */
    assert_int_equal(look_of(svg.data, "more"), 10); /* 9 points */
    assert_int_equal(look_of(svg.data, "less"), 1);  /* 3 points */
    assert_int_equal(look_of(svg.data, "gone"), 11); /* hatched, in the colour of what was not significant */
    assert_int_equal(look_of(svg.data, "deep"), 16); /* hatched, 20 points */
    assert_int_equal(look_of(svg.data, "new"), 10);
    static const char *const SAID[] = {
        "<title>more\nlibx.so, x.c:7\nbefore 10.00 % (200.0 ms), after 19.00 % (570.0 ms)\n",
        "\ndifference +9.00 points (95 %: -1.00 to +3.11), q = 0.012\nself: before 10.00 %, after 19.00 %<",
        "q = 0.012, not significant",
        "\ngone: only before<",
        "\nnew: only after<",
        "pattern id=\"gone16\"",
        "#gone16 rect{fill:#5e9fee}", /* as -5 points are */
        ".b0{fill:#5e9fee;"};
    for (size_t i = 0; i < BN_ARRAY_LEN(SAID); i++)
        if (strstr(svg.data, SAID[i]) == NULL) fail_msg("no %s in %s", SAID[i], strstr(svg.data, "<g id"));
    bn_json_free(read_data(svg.data));
    bn_buf_release(&svg);
    draw_diff(&svg, &d, BN_SVG_BEFORE);
    n = read_boxes(boxes, 16, svg.data);
    assert_int_equal(width_of(boxes, n, "gone"), 20000);
    assert_int_equal(width_of(boxes, n, "new"), -1);
    bn_buf_release(&svg);
    draw_diff(&svg, &d, BN_SVG_AFTER);
    n = read_boxes(boxes, 16, svg.data);
    assert_int_equal(width_of(boxes, n, "gone"), llround(100000 * 0.2 / 1.2)); /* beside all that is after */
    assert_int_equal(width_of(boxes, n, "new"), llround(100000 * 0.13 / 1.2));
    bn_buf_release(&svg);
    free_diff(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons_have_widths_and_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
