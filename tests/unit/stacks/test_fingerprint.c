/* SPDX-License-Identifier: MIT
 *
 * lab/stacks/fingerprint.c: each fact changes the fingerprint, other members do not, and recordings of different
 * things are told apart by name.
 */
#include "lab/stacks/stacks.h"
#include "tests/unit/status.h"

static const char ABOUT[] =
    "{\"created\": \"2026-11-20T10:00:00Z\", \"command\": [\"ls\", \"-l\"],"
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
    must(bn_json_parse(&about, text, strlen(text), NULL));
    return about;
}

/* The fact that a replacement changes; NULL: none. A program may differ. */
static const struct {
    const char *find, *put, *fact;
    bool program;
} CHANGES[] = {
    {"\"key\": \"k\"", "\"key\": \"l\"", "machine", false},
    {"\"sha256\": \"def\"", "\"sha256\": \"deg\"", "model", false},
    {"\"isa\": \"avx2\"", "\"isa\": \"neon\"", "instruction set", false},
    {"\"threads\": 1", "\"threads\": 2", "number of threads", false},
    {"\"prompt\": \"2+2=\"", "\"prompt\": \"2+3=\"", "prompt", false},
    {"\"n_predict\": 1", "\"n_predict\": 2", "number of tokens", false},
    {"\"ids_sha256\": \"0123\"", "\"ids_sha256\": \"0124\"", "token ids", false},
    {"\"tier\": \"timer\"", "\"tier\": \"clock\"", "sampler", false},
    {"\"asked_period_ns\": 1009000", "\"asked_period_ns\": 200000", "sampling period", false},
    {"\"level\": \"brick\"", "\"level\": \"off\"", "level of the profiler", false},
    {"\"binary_sha256\": \"abc\"", "\"binary_sha256\": \"abd\"", "program", true},
    {"[\"ls\", \"-l\"]", "[\"ls\", \"-a\"]", "command", true},
    {"10:00:00", "11:00:00", NULL, false},
    {"\"load_milli\": [1]", "\"load_milli\": [2]", NULL, false},
    {"m.gguf", "n.gguf", NULL, false},
    {"\"lost\": 17", "\"lost\": 0", NULL, false},
};

TEST(each_fact_is_told_apart)
{
    bn_json *about = changed("", "");
    for (size_t i = 0; i < BN_ARRAY_LEN(CHANGES); i++) {
        bn_json *with = changed(CHANGES[i].find, CHANGES[i].put), *names = bn_json_new_array();
        must(bn_fingerprint_put(about, NULL)); /* again: it is not a fact itself */
        must(bn_fingerprint_put(with, NULL));
        assert_int_equal(
            strcmp(bn_json_text_of(about, "fingerprint"), bn_json_text_of(with, "fingerprint")) == 0,
            CHANGES[i].fact == NULL);
        bn_fingerprint_differences(names, about, with, false);
        assert_int_equal(bn_json_size(names), CHANGES[i].fact != NULL && !CHANGES[i].program);
        bn_fingerprint_differences(names, about, with, true);
        if (CHANGES[i].fact != NULL) assert_true(bn_json_has_text(names, CHANGES[i].fact));
        bn_json_free(with);
        bn_json_free(names);
    }
    bn_json_free(about);
}

TEST(differences_are_of_facts_that_both_know)
{
    bn_json *about = changed("", ""), *with = changed("\"threads\": 1, \"isa\": \"avx2\"", "\"threads\": 4"),
            *names = bn_json_new_array(), *none = bn_json_new_object();
    bn_fingerprint_differences(names, about, with, false);
    assert_int_equal(bn_json_size(names), 1);
    assert_true(bn_json_has_text(names, "number of threads"));
    bn_fingerprint_differences(names, about, none, true);
    assert_int_equal(bn_json_size(names), 1);
    bn_json_free(about);
    bn_json_free(with);
    bn_json_free(names);
    bn_json_free(none);
    (void)state;
}
