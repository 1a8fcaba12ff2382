/* SPDX-License-Identifier: MIT
 *
 * lab/stacks/fingerprint.h: each fact changes its part and the whole, other members change nothing, and
 * recordings of different things are told apart by name.
 */
#include "base/error.h"
#include "lab/stacks/fingerprint.h"
#include "tests/unit/unit.h"

static const char ABOUT[] =
    "{\"created\": \"2026-11-20T10:00:00Z\", \"command\": \"bn-flamegraph baseline\","
    " \"program\": {\"binary_sha256\": \"abc\"}, \"machine\": {\"key\": \"k\", \"load_milli\": [1]},"
    " \"model\": {\"name\": \"m.gguf\", \"sha256\": \"def\"},"
    " \"workload\": {\"prompt\": \"2+2=\", \"n_predict\": 1, \"threads\": 1, \"isa\": \"avx2\","
    " \"ids_sha256\": \"0123\", \"level\": \"brick\"},"
    " \"sampler\": {\"tier\": \"timer\", \"kind\": \"cpu\", \"asked_period_ns\": 1009000, \"lost\": 17}}";

/* A text of ABOUT replaced; "" replaces nothing. */
static bn_json *changed(const char *find, const char *put)
{
    char text[sizeof ABOUT + 64];
    bn_json *about = NULL;
    const char *at = strstr(ABOUT, find);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - ABOUT), ABOUT, put, at + strlen(find));
    assert_int_equal(bn_json_parse(&about, text, strlen(text), NULL), BN_OK);
    return about;
}

static const struct {
    const char *find, *put;
    enum bn_fingerprint_part part;
    const char *unlike;
} CHANGES[] = {
    {"\"key\": \"k\"", "\"key\": \"l\"", BN_FINGERPRINT_MACHINE, "another machine"},
    {"\"sha256\": \"def\"", "\"sha256\": \"deg\"", BN_FINGERPRINT_MODEL, "another model"},
    {"\"isa\": \"avx2\"", "\"isa\": \"neon\"", BN_FINGERPRINT_SETTINGS, "another instruction set"},
    {"\"threads\": 1", "\"threads\": 2", BN_FINGERPRINT_SETTINGS, "another number of threads"},
    {"\"prompt\": \"2+2=\"", "\"prompt\": \"2+3=\"", BN_FINGERPRINT_WORK, "another prompt"},
    {"\"n_predict\": 1", "\"n_predict\": 2", BN_FINGERPRINT_WORK, "another number of tokens"},
    {"\"ids_sha256\": \"0123\"", "\"ids_sha256\": \"0124\"", BN_FINGERPRINT_WORK, "another token ids"},
    {"\"tier\": \"timer\"", "\"tier\": \"clock\"", BN_FINGERPRINT_SETTINGS, "another sampler"},
    {"\"asked_period_ns\": 1009000", "\"asked_period_ns\": 200000", BN_FINGERPRINT_SETTINGS,
     "another sampling period"},
    {"\"level\": \"brick\"", "\"level\": \"off\"", BN_FINGERPRINT_SETTINGS, "another level of the profiler"},
    {"\"binary_sha256\": \"abc\"", "\"binary_sha256\": \"abd\"", BN_FINGERPRINT_PROGRAM, "another program"},
    {"\"threads\": 1,", "", BN_FINGERPRINT_SETTINGS, "one of them lacks its number of threads"},
};

static void each_fact_changes_its_part(void **state)
{
    struct bn_fingerprint first, other;
    bn_json *about = changed("", "");
    char why[200];
    assert_int_equal(bn_fingerprint_of(&first, about, NULL), BN_OK);
    assert_string_equal(bn_fingerprint_unlike(why, sizeof why, about, about, BN_FINGERPRINT_ALL), "");
    for (size_t i = 0; i < BN_ARRAY_LEN(CHANGES); i++) {
        bn_json *with = changed(CHANGES[i].find, CHANGES[i].put);
        assert_int_equal(bn_fingerprint_of(&other, with, NULL), BN_OK);
        assert_string_not_equal(first.whole, other.whole);
        for (unsigned p = 0; p < BN_FINGERPRINT_PARTS; p++)
            assert_int_equal(strcmp(first.parts[p], other.parts[p]) != 0, p == CHANGES[i].part);
        assert_string_equal(bn_fingerprint_unlike(why, sizeof why, about, with, BN_FINGERPRINT_ALL),
                            CHANGES[i].unlike);
        unsigned without = BN_FINGERPRINT_ALL & ~BN_FINGERPRINT_BIT(CHANGES[i].part);
        assert_string_equal(bn_fingerprint_unlike(why, sizeof why, about, with, without), "");
        bn_json_free(with);
    }
    bn_json_free(about);
    (void)state;
}

static void other_members_change_nothing(void **state)
{
    static const char *const FREE[][2] = {{"10:00:00", "11:00:00"},
                                          {"flamegraph baseline", "flamegraph baseline --runs 3"},
                                          {"[1]", "[2]"},
                                          {"m.gguf", "n.gguf"},
                                          {"\"lost\": 17", "\"lost\": 0"}};
    struct bn_fingerprint first, other;
    bn_json *about = changed("", "");
    assert_int_equal(bn_fingerprint_of(&first, about, NULL), BN_OK);
    for (size_t i = 0; i < BN_ARRAY_LEN(FREE); i++) {
        bn_json *with = changed(FREE[i][0], FREE[i][1]);
        assert_int_equal(bn_fingerprint_of(&other, with, NULL), BN_OK);
        assert_memory_equal(&first, &other, sizeof first);
        bn_json_free(with);
    }
    /* Putting it into the document does not change it. */
    assert_int_equal(bn_fingerprint_put(about, NULL), BN_OK);
    assert_int_equal(bn_fingerprint_put(about, NULL), BN_OK);
    assert_int_equal(bn_fingerprint_of(&other, about, NULL), BN_OK);
    assert_memory_equal(&first, &other, sizeof first);
    assert_string_equal(bn_json_text_of(about, "fingerprint.sha256"), first.whole);
    assert_string_equal(bn_json_text_of(about, "fingerprint.model"), first.parts[BN_FINGERPRINT_MODEL]);
    bn_json_free(about);
    (void)state;
}

static void the_command_of_a_recorded_program_is_its_program(void **state)
{
    static const char COMMAND[] = "\"bn-flamegraph baseline\"";
    struct bn_fingerprint first, other;
    bn_json *about = changed(COMMAND, "[\"ls\", \"-l\"]"), *with = changed(COMMAND, "[\"ls\", \"-a\"]");
    assert_int_equal(bn_fingerprint_of(&first, about, NULL), BN_OK);
    assert_int_equal(bn_fingerprint_of(&other, with, NULL), BN_OK);
    assert_string_not_equal(first.parts[BN_FINGERPRINT_PROGRAM], other.parts[BN_FINGERPRINT_PROGRAM]);
    /* Two programs are what a comparison is for; two runs of one side are of one program. */
    char why[200];
    assert_string_equal(bn_fingerprint_unlike(why, sizeof why, about, with, BN_FINGERPRINT_COMPARED), "");
    assert_string_equal(bn_fingerprint_unlike(why, sizeof why, about, with, BN_FINGERPRINT_ALL),
                        "another command");
    bn_json_free(about);
    bn_json_free(with);
    (void)state;
}

static void differences_are_of_facts_that_both_know(void **state)
{
    bn_json *about = changed("", ""), *with = changed("\"threads\": 1, \"isa\": \"avx2\"", "\"threads\": 4"),
            *names = bn_json_new_array(), *none = bn_json_new_object();
    bn_fingerprint_differences(names, about, with, BN_FINGERPRINT_COMPARED);
    assert_int_equal(bn_json_size(names), 1);
    assert_true(bn_json_has_text(names, "number of threads"));
    bn_fingerprint_differences(names, about, none, BN_FINGERPRINT_ALL);
    assert_int_equal(bn_json_size(names), 1);
    bn_json_free(about);
    bn_json_free(with);
    bn_json_free(names);
    bn_json_free(none);
    (void)state;
}

static void nothing_known_is_no_part(void **state)
{
    struct bn_fingerprint fingerprint;
    bn_json *none = bn_json_new_object();
    assert_int_equal(bn_fingerprint_of(&fingerprint, none, NULL), BN_OK);
    for (unsigned p = 0; p < BN_FINGERPRINT_PARTS; p++)
        assert_string_equal(fingerprint.parts[p], "");
    bn_json_free(none);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fact_changes_its_part),
        cmocka_unit_test(other_members_change_nothing),
        cmocka_unit_test(the_command_of_a_recorded_program_is_its_program),
        cmocka_unit_test(differences_are_of_facts_that_both_know),
        cmocka_unit_test(nothing_known_is_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
