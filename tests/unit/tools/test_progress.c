/* SPDX-License-Identifier: MIT
 *
 * tools/cli/progress.h: the line, and that there is none where nobody looks at it.
 */
#include "base/utf8.h"
#include "tests/unit/unit.h"
#include "tools/cli/progress.h"

TEST(the_line_tells_rate_and_rest)
{
    char line[128], small[12];
    struct bn_progress p = {.label = "rounds", .total = 60};
    bn_progress_line(line, sizeof line, 79, &p, 0, 5000000000u);
    assert_string_equal(line, "rounds  0/60  0 %");
    bn_progress_line(line, sizeof line, 79, &p, 12, UINT64_C(24000000000));
    assert_string_equal(line, "rounds  12/60  20 %  0.5/s  ETA 1:36");
    bn_progress_line(line, sizeof line, 79, &p, 1, UINT64_C(100000000000));
    assert_string_equal(line, "rounds  1/60  2 %  0.01/s  ETA 1:38:20");
    bn_progress_line(line, sizeof line, 79, &p, 60, UINT64_C(6000000000));
    assert_string_equal(line, "rounds  60/60  100 %  10/s  ETA 0:00");
    bn_progress_line(line, sizeof line, 30, &p, 12, UINT64_C(24000000000));
    assert_string_equal(line, "rounds  12/60  20 %  ETA 1:36");
    bn_progress_line(line, sizeof line, 15, &p, 12, UINT64_C(24000000000));
    assert_string_equal(line, "rounds  20 %");
    bn_progress_line(small, sizeof small, 79, &p, 12, UINT64_C(24000000000));
    assert_string_equal(small, "rounds  12/");
    p.total = 0; /* not known yet */
    bn_progress_line(line, sizeof line, 79, &p, 0, 5000000000u);
    assert_string_equal(line, "rounds  ");
}

/* Columns of a line without wide characters. */
static size_t columns_of(const char *line)
{
    size_t n = 0;
    for (; *line != '\0'; line++)
        n += ((unsigned char)*line & 0xC0) != 0x80;
    return n;
}

TEST(a_line_fits_any_width)
{
    static const char *const NAMES[] = {
        "m", "twelve.bytes", "a-model-with-a-rather-long-name-i2_s.gguf",
        "\xc3\xa4\xc3\xb6\xc3\xbc-a-model-with-a-rather-long-name-\xc3\xa4\xc3\xb6\xc3\xbc.gguf",
        ("\xe6\xa8\xa1\xe5\x9e\x8b\xe6\xa8\xa1\xe5\x9e\x8b\xe6\xa8\xa1\xe5\x9e\x8b\xe6\xa8\xa1\xe5\x9e\x8b."
         "gguf")};
    static const char *const TAILS[] = {" 99 %  999 MB of 1.19 GB  12.3 MB/s  1:02:03", " 99 %  1:02:03",
                                        " 99 %", NULL};
    char line[512];
    for (size_t k = 0; k < sizeof NAMES / sizeof NAMES[0]; k++)
        for (size_t columns = 0; columns <= 120; columns++)
            for (int with_bar = 0; with_bar <= 1; with_bar++) {
                bn_progress_fit(line, sizeof line, columns, NAMES[k], with_bar ? 0.99 : -1, TAILS);
                assert_in_range(columns_of(line), 0, columns);
                assert_int_equal(bn_utf8_valid(line, strlen(line)), strlen(line));
                if (columns >= 5) assert_has(line, " 99 %");
                if (columns >= 19 && with_bar) assert_non_null(strchr(line, '['));
                if (columns >= 35) assert_memory_equal(line, NAMES[k], 1);
            }
    bn_progress_fit(line, sizeof line, 45, NAMES[2], 0.5, TAILS);
    assert_string_equal(line, "a-model-with...  [#####     ]   99 %  1:02:03");
}

TEST(quiet_is_quiet)
{
    struct bn_progress p;
    bn_progress_begin(&p, "rounds", 3, true);
    assert_false(p.on);
    bn_progress_show(&p, 1);
    bn_progress_clear(&p);
}
