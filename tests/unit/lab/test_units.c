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

TEST(tests_have_names_for_people)
{
    static const char *const ROWS[][2] = {
        {"decode n=16 d=0 t=1", "decode 16 tokens, 1 thread"},
        {"decode n=1 d=4000 t=2 seq=3 busy=1",
         "decode 1 token, depth 4000, 2 threads, 3 sequences, 1 busy neighbour"},
        {"prompt n=128 d=0 t=2 b=128", "prompt 128 tokens, 2 threads"},
        {"prompt n=128 d=0 t=2 b=64", "prompt 128 tokens, 2 threads, batch 64"},
        {"generate n=4+3 d=0 t=1 b=128", "generate 4+3 tokens, 1 thread"},
        {"concurrent k=2 n=3 d=0 t=1 b=128", "concurrent 2 generations, 3 tokens, 1 thread"},
        {"reading t=1", "reading, 1 thread"},
        {"busy: decode n=2 d=0 t=1", "busy: decode 2 tokens, 1 thread"},
        {"A: load", "A: load"},
        {"text n=24 t=1 reference bn --isa ref", "text 24 tokens, 1 thread, reference bn --isa ref"},
        {"profile bricks p=16 n=32 t=2", "profile bricks, prompt 16, 32 tokens, 2 threads"},
        {"serve clients=4 prompt=16 tokens=32", "serve 4 clients, prompt 16, 32 tokens"},
        {"step 1x128x384 c=32 b=128 t=1", "step 1x128x384, context 32, batch 128, 1 thread"},
        {"add_avx2 2560 memory t=1", "add_avx2 2560 memory, 1 thread"},
        /* names of users */
        {"sort n=1000", "sort n=1000"},
        {"x t=fast =1 t= n", "x t=fast =1 t= n"},
        {"", ""},
    };
    char name[BN_TEST_ROOM], many[2 * BN_TEST_ROOM];
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        assert_string_equal(bn_test_name(name, ROWS[i][0]), ROWS[i][1]);
    memset(many, 'x', sizeof many);
    many[sizeof many - 1] = '\0';
    assert_int_equal(strlen(bn_test_name(name, many)), BN_TEST_ROOM - 1);
    assert_true(bn_test_has("decode n=16 t=1", "n=16") && bn_test_has("decode n=16 t=1", "16 tokens"));
    assert_false(bn_test_has("decode n=16 t=1", "2 threads"));
}
