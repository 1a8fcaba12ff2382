/* SPDX-License-Identifier: MIT
 *
 * tools/cli: values of options: the struct that they go into, strict numbers, lists, times and sizes.
 */
#define _GNU_SOURCE
#include <locale.h>

#include "tests/unit/tools/command_line.h"
#include "tools/cli/number.h"

/* ---- values that go into a struct ---- */

struct made {
    bool dry;
    const char *name;
    int kind;
    uint32_t count, most;
    uint64_t seed, age, room;
    float temp;
    double share;
    struct bn_texts stops;
    struct bn_id_list ids;
    uint32_t reps;
    struct bn_list sizes;
};
static const struct bn_option FIELDS[] = {
    {.name = "dry", .help = "h", BN_TO_BOOL(struct made, dry)},
    {.name = "name", .arg = "TEXT", .help = "h", BN_TO_TEXT(struct made, name)},
    {.name = "alias", .arg = "TEXT", .help = "h", BN_TO_TEXT(struct made, name)},
    {.name = "kind", .arg = "auto|raw|chat", .preset = "raw", .help = "h", BN_TO_CHOICE(struct made, kind)},
    {.name = "count",
     .letter = 'n',
     .arg = "N",
     .preset = "32",
     .help = "h",
     BN_TO_U32(struct made, count, 1, 100)},
    {.name = "most", .letter = 'm', .arg = "N", .help = "h", BN_TO_U32_ALL(struct made, most, 1, 100)},
    {.name = "seed", .arg = "N", .help = "h", BN_TO_U64(struct made, seed, 0, 9007199254740991)},
    {.name = "age", .arg = "DUR", .help = "h", BN_TO_SECONDS(struct made, age)},
    {.name = "room", .arg = "SIZE", .help = "h", BN_TO_BYTES(struct made, room)},
    {.name = "temp", .arg = "T", .help = "h", BN_TO_F32(struct made, temp, 0, 2)},
    {.name = "share", .arg = "X", .help = "h", BN_TO_F64(struct made, share, 0, 1)},
    {.name = "stop", .arg = "TEXT", .repeatable = true, .help = "h", BN_TO_TEXTS(struct made, stops)},
    {.name = "ids", .arg = "IDS", .repeatable = true, .help = "h", BN_TO_IDS(struct made, ids)},
    {.name = "reps", .arg = "N", .preset = "6", .help = "h", BN_TO_U32_AUTO(struct made, reps, 1, 100)},
    {.name = "sizes", .arg = "LIST", .help = "h", BN_TO_LIST(struct made, sizes, 0, 64)},
    {0},
};
static const struct bn_command COMMAND[] = {
    {.name = "",
     .summary = "s",
     .synopsis = "",
     .options = {FIELDS},
     .bytes = sizeof(struct made),
     .run = nothing},
    {0},
};
static const struct bn_program PROGRAM = {
    .name = "bn-test", .summary = "a test", .text = "Text.", .commands = COMMAND};

TEST(values_go_into_the_struct)
{
    struct bn_args args;
    accept_for(
        &PROGRAM,
        "--dry --alias one --kind chat --most -1 --seed 9007199254740991 --age 2m --room 3K --temp 0.5 "
        "--share 0.25 --stop a --stop b --ids 1,2 --ids 3 --reps auto "
        "--sizes 8,4,8,0,4",
        &args);
    const struct made *m = args.fields;
    assert_true(m->dry && m->kind == 2 && m->count == 32 && m->most == UINT32_MAX);
    assert_string_equal(m->name, "one");
    assert_true(m->seed == 9007199254740991u && m->age == 120 && m->room == 3072);
    assert_true(m->temp == 0.5f && m->share == 0.25);
    assert_int_equal(m->stops.n, 2);
    assert_string_equal(m->stops.list[1], "b");
    assert_null(m->stops.list[2]);
    assert_int_equal(m->ids.n, 3);
    assert_int_equal(m->ids.list[2], 3);
    assert_int_equal(m->reps, UINT32_MAX);
    assert_int_equal(m->sizes.n, 3); /* without repetitions */
    assert_true(m->sizes.list[0] == 8 && m->sizes.list[1] == 4 && m->sizes.list[2] == 0);
    bn_args_release(&args);
    accept_for(&PROGRAM, "", &args);
    m = args.fields;
    assert_true(!m->dry && m->name == NULL && m->kind == 1 && m->count == 32 && m->most == 0 &&
                m->stops.n == 0);
    bn_args_release(&args);
    refuse_for(&PROGRAM, "--count 101", "--count must be between 1 and 100 (got 101)", "");
    refuse_for(&PROGRAM, "--reps some",
               "--reps must be auto or a whole number between 1 and 100 (got 'some')", "");
    refuse_for(&PROGRAM, "--sizes 1,65", "--sizes: '65' is not a whole number between 0 and 64", "");
    refuse_for(&PROGRAM, "--stop a --ids 1,x", "--ids: 'x' is not a whole number between 0 and 2147483647",
               "");
}

/* A value "--name=value" is refused. */
static void refuse_value(const char *name, const char *value)
{
    char line[64];
    struct bn_args args;
    snprintf(line, sizeof line, "--%s=%s", name, value);
    if (attempt(parse_for(&PROGRAM, line, &args, &err)) != BN_ERR_ARG) fail_msg("accepted: %s", line);
    bn_args_release(&args);
}

TEST(numbers_of_options_are_strict)
{
    static const char *const BAD[] = {"",    "x", "3x",  "++3", "-3", "0x3",         "3.0",
                                      "1e3", "0", "101", "3+",  "-1", "99999999999", "18446744073709551617"};
    struct bn_args args;
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++)
        refuse_value("count", BAD[i]);
    refuse_for(&PROGRAM, "--temp 2.5", "--temp must be between 0 and 2 (got 2.5)", "");
    refuse_for(&PROGRAM, "--temp=x", "--temp must be a number between 0 and 2 (got 'x')", "");
    refuse_for(&PROGRAM, "--share -0.5", "--share must be between 0 and 1 (got -0.5)", "");
    refuse_for(&PROGRAM, "--count 200", "--count must be between 1 and 100 (got 200)", "");
    refuse_for(&PROGRAM, "-n +3", "-n must be a whole number between 1 and 100 (got ' 3')", "");
    accept_for(&PROGRAM, "--temp 1.5", &args);
    assert_true(((const struct made *)args.fields)->temp == 1.5f);
    bn_args_release(&args);
}

TEST(numbers_out_of_range_name_the_range_and_the_option_as_typed)
{
    struct bn_args args;
    refuse_for(&PROGRAM, "-m -5", "-m must be -1 or between 1 and 100 (got -5)", "");
    refuse_for(&PROGRAM, "--most -5", "--most must be -1 or between 1 and 100 (got -5)", "");
    refuse_for(&PROGRAM, "-m 99999999999999999999",
               "-m must be -1 or between 1 and 100 (got 99999999999999999999)", "");
    refuse_for(&PROGRAM, "-m 1e3", "-m must be -1 or a whole number between 1 and 100 (got '1e3')", "");
    accept_for(&PROGRAM, "-m -1", &args);
    assert_int_equal(((const struct made *)args.fields)->most, UINT32_MAX);
    bn_args_release(&args);
}

TEST(lists_of_ids_are_strict)
{
    static const char *const BAD[] = {"",    ",",   "1,", ",1",         "1,,2",
                                      "1;2", "1,x", "-1", "2147483648", "1,2,99999999999"};
    struct bn_args args;
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++)
        refuse_value("ids", BAD[i]);
    accept_for(&PROGRAM, "--ids 0,2147483647", &args);
    const struct made *m = args.fields;
    assert_int_equal(m->ids.n, 2);
    assert_int_equal(m->ids.list[1], INT32_MAX);
    bn_args_release(&args);
}

TEST(times_and_sizes_have_units)
{
    static const struct {
        const char *line;
        uint64_t seconds, bytes;
    } CASES[] = {
        {"--age 90 --room 4096", 90, 4096},    {"--age 90s --room 64K", 90, 65536},
        {"--age 15m --room 3M", 900, 3145728}, {"--age 36h --room 2G", 129600, UINT64_C(2147483648)},
        {"--age 7d --room 0", 604800, 0},
    };
    static const char *const BAD_TIMES[] = {"7w", "d", "1d2", "999999999999999999d"};
    static const char *const BAD_SIZES[] = {"4k", "G", "1GB", "99999999999999G"};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct bn_args args;
        accept_for(&PROGRAM, CASES[i].line, &args);
        const struct made *m = args.fields;
        assert_true(m->age == CASES[i].seconds && m->room == CASES[i].bytes);
        bn_args_release(&args);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD_TIMES); i++) {
        refuse_value("age", BAD_TIMES[i]);
        refuse_value("room", BAD_SIZES[i]);
    }
    refuse_for(&PROGRAM, "--age 7w", "--age: '7w' is not a time such as 90s, 15m, 36h or 7d", "");
}

TEST(floating_point_is_decimal_in_every_locale)
{
    static const char *const BAD[] = {"",   " 1",    "1 ",  "0x1p3", "inf", "nan",   "infinity", "1,5",
                                      "1e", "1e400", "--1", ".",     "e5",  "1.2.3", "-1e999",   "1f"};
    double d;
    float f;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed, "1,5" is one and a half */
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        assert_false(bn_number_f64(BAD[i], &d));
        assert_false(bn_number_f32(BAD[i], &f));
    }
    assert_true(bn_number_f64("-1.5e-3", &d) && d == -1.5e-3);
    assert_true(bn_number_f64(".5", &d) && d == 0.5);
    assert_true(bn_number_f32("0.1", &f) && f == 0.1f);
    assert_false(bn_number_f32("3.5e38", &f));
    assert_true(bn_number_f64("3.5e38", &d));
    setlocale(LC_ALL, "C");
}

TEST(whole_numbers_up_to_their_ends)
{
    uint64_t u;
    int64_t i;
    assert_true(bn_number_u64("18446744073709551615", 20, &u) && u == UINT64_MAX);
    assert_false(bn_number_u64("18446744073709551616", 20, &u));
    assert_true(bn_number_u64("007", 3, &u) && u == 7);
    assert_true(bn_number_u64("12,5", 2, &u) && u == 12);
    assert_true(bn_number_i64("-9223372036854775807", 20, &i) && i == -INT64_MAX);
    assert_false(bn_number_i64("9223372036854775808", 19, &i));
    assert_false(bn_number_i64("-", 1, &i));
    assert_false(bn_number_i64("--1", 3, &i));
}
