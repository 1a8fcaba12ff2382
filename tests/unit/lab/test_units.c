/* SPDX-License-Identifier: MIT
 *
 * lab/report/units: numbers have four significant digits and the prefix that fits.
 */
#include <math.h>

#include "lab/report/units.h"
#include "tests/unit/unit.h"

TEST(values_have_a_fitting_prefix)
{
    static const struct {
        double value;
        const char *unit, *text;
    } ROWS[] = {
        {0, "ns", "0 ns"},
        {417, "ns", "417 ns"},
        {12.5, "ns", "12.50 ns"},
        {1500, "ns", "1.500 us"},
        {5343210, "ns", "5.343 ms"},
        {-5343210, "ns", "-5.343 ms"},
        {2e9, "ns", "2 s"},
        {12345e9, "ns", "12345 s"},
        {64, "bytes", "64 B"},
        {16384, "bytes", "16 KiB"},
        {1536, "bytes", "1.500 KiB"},
        {4194304, "bytes", "4 MiB"},
        {1.2e9, "bytes", "1.118 GiB"},
        {0x1p41, "bytes", "2 TiB"},
        {1187801280, "B", "1.188 GB"},
        {999, "B", "999 B"},
        {23.45e9, "bytes/s", "23.45 GB/s"},
        {38.42, "tok/s", "38.42 tok/s"},
        {112.3e9, "MAC/s", "112.3 GMAC/s"},
        {2.5e5, "1/s", "250 k/s"},
        {120, "1/s", "120/s"},
        {0.25, "1", "0.2500"},
        {12, "faults", "12 faults"},
        {1e-7, "1", "1.000e-07"},
        {(double)NAN, "ns", "-"},
        {(double)INFINITY, "1", "-"},
    };
    char text[BN_UNITS_ROOM];
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        assert_string_equal(bn_units_text(text, ROWS[i].value, ROWS[i].unit), ROWS[i].text);
}

TEST(one_scale_serves_both_ends_of_an_interval)
{
    struct bn_buf text = {.max = 64};
    struct bn_units_scale scale = bn_units_scale("ns", 1.1e6);
    bn_units_number(&text, 9.5e5, scale);
    bn_buf_putc(&text, ' ');
    bn_units_number(&text, 1.25e6, scale);
    assert_string_equal(text.data, "0.9500 1.250");
    assert_string_equal(scale.name, "ms");
    assert_string_equal(bn_units_of("tokens_per_second", "1/s"), "tok/s");
    assert_string_equal(bn_units_of("calls_per_second", "1/s"), "1/s");
    assert_string_equal(bn_units_of("token_ns", "ns"), "ns");
    bn_buf_release(&text);
}

TEST(percentages_and_counts)
{
    char text[BN_UNITS_ROOM];
    assert_string_equal(bn_units_percent_text(text, 0.0123, false), "1.23 %");
    assert_string_equal(bn_units_percent_text(text, 0.0123, true), "+1.23 %");
    assert_string_equal(bn_units_percent_text(text, -0.5, true), "-50.0 %");
    assert_string_equal(bn_units_percent_text(text, 12, false), "1200 %");
    assert_string_equal(bn_units_percent_text(text, (double)NAN, true), "-");
    struct bn_buf counts = {.max = 64};
    bn_units_count(&counts, 1, "thread");
    bn_buf_putc(&counts, ' ');
    bn_units_count(&counts, 2, "thread");
    assert_string_equal(counts.data, "1 thread 2 threads");
    bn_buf_release(&counts);
}

TEST(a_text_that_does_not_fit_is_a_dash)
{
    char text[BN_UNITS_ROOM];
    assert_string_equal(bn_units_text(text, 1, "a unit whose name is longer than the array that takes it"),
                        "-");
}
