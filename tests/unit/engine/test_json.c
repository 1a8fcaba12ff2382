/* SPDX-License-Identifier: MIT
 *
 * base/json.h: what is refused, what is read, and that writing gives one text only.
 */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <glob.h>
#include <malloc.h>
#include <math.h>

#include "base/json.h"
#include "tests/unit/folder.h"

static bn_json *parse(const char *text)
{
    bn_json *root;
    must(bn_json_parse(&root, text, strlen(text), NULL));
    return root;
}

static void refuse(const char *text, size_t n, bn_status want)
{
    bn_json *root;
    if (attempt(bn_json_parse(&root, text, n, &err)) != want) fail_msg("%.60s: %s", text, err.msg);
    assert_int_equal(err.code, want);
    assert_true(err.msg[0] != '\0');
    assert_null(root);
    bn_json_free(root);
}

/* Parses, writes canonically, compares. */
static void becomes(const char *text, const char *want)
{
    bn_json *root = parse(text);
    struct bn_buf out = {.max = 4096};
    must(bn_json_write(root, true, &out, NULL));
    assert_string_equal(out.data, want);
    bn_buf_release(&out);
    bn_json_free(root);
}

static const char *const MALFORMED[] = {
    "", " ", "{", "}", "[", "]", "[1,]", "[,1]", "[1 2]", "{\"a\":1,}", "{\"a\"}", "{\"a\":}", "{a:1}",
    "{'a':1}", "{\"a\" 1}", "{1:1}", "{,}", "[1]]", "1 2", "{} {}", "nul", "nulll", "True", "tru", "NaN",
    "[NaN]", "Infinity", "-Infinity", "-", "+1", "01", "-01", "00", ".5", "1.", "1.e1", "1e", "1e+", "0x10",
    "1_000", "--1", "// c\n1", "1 // c", "/* c */ 1", "[1] # c", "\"", "\"a", "\"\\\"", "\"\\x41\"",
    "\"\\u12\"", "\"\\u12g4\"", "\"\\U0041\"", "\"\t\"", "\"a\nb\"", "\"\x01\"", "\xEF\xBB\xBF{}", "\x0C[]",
    "\xC2\xA0[]", "[1\x0B]",
    /* duplicate names, also when spelt differently */
    "{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":2,\"\\u0061\":3}", "[{\"x\":{\"k\":1,\"k\":2}}]",
    /* NUL and surrogates */
    "\"\\u0000\"", "{\"a\\u0000b\":1}", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800x\"", "\"\\ud800\\n\"",
    "\"\\ud800\\ud800\"", "\"\\ud800\\u0041\"", "\"\\udc00\\ud800\"", "{\"\\udfff\":1}",
    /* UTF-8: bare continuation, overlong, surrogate, beyond U+10FFFF, cut */
    "\"\x80\"", "\"\xC0\x80\"", "\"\xC1\xBF\"", "\"\xE0\x80\x80\"", "\"\xED\xA0\x80\"",
    "\"\xF0\x80\x80\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xF8\x88\x80\x80\x80\"", "\"\xE2\x82\"", "\"\xFF\"",
    "\"\xE2\"",
    /* beyond binary64 */
    "1e400", "-1e400", "[1e309]", "{\"a\":123456789e999999}"};

TEST(malformed_texts_are_refused)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(MALFORMED); i++)
        refuse(MALFORMED[i], strlen(MALFORMED[i]), BN_ERR_FORMAT);
    refuse("1\0", 2, BN_ERR_FORMAT);
    refuse("\"a\0b\"", 5, BN_ERR_FORMAT);
    refuse("[1,\0 2]", 7, BN_ERR_FORMAT);
}

TEST(errors_say_where)
{
    bn_json *root;
    refused(bn_json_parse(&root, "{\"a\":tru}", 9, &err), BN_ERR_FORMAT);
    assert_int_equal(err.offset, 8);
    assert_string_equal(err.msg, "not JSON: unexpected '}', expected true");
    refused(bn_json_parse(&root, "{\"na\x1bme\":1}", 11, &err), BN_ERR_FORMAT);
    refused(bn_json_parse(&root, "{\"n\\u001b\":1,\"n\\u001b\":2}", 25, &err), BN_ERR_FORMAT);
    assert_string_equal(err.where, "n\\x1B");
    static const struct {
        const char *text, *msg;
        uint64_t offset;
    } CASES[] = {{"hello", "not JSON: unexpected 'h', expected a value", 0},
                 {"", "not JSON: the text is empty", 0},
                 {"[1", "not JSON: the text ends inside a value", 2},
                 {"{a:1}", "not JSON: unexpected 'a', expected a name in double quotes", 1},
                 {"[1 \x1b]", "not JSON: unexpected '\\x1B', expected a comma or a closing bracket", 3},
                 {"{} x", "trailing data after the JSON value", 3}};
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        refused(bn_json_parse(&root, CASES[i].text, strlen(CASES[i].text), &err), BN_ERR_FORMAT);
        assert_string_equal(err.msg, CASES[i].msg);
        assert_int_equal(err.offset, CASES[i].offset);
    }
}

static void nest(char *text, size_t depth)
{
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = '\0';
}

TEST(limits_are_kept)
{
    char deep[200];
    nest(deep, 64);
    bn_json_free(parse(deep));
    nest(deep, 65);
    refuse(deep, strlen(deep), BN_ERR_LIMIT);
    size_t n = 9u << 20;
    char *large = bn_alloc(n, 1);
    assert_non_null(large);
    memset(large, ' ', n);
    large[0] = '1';
    refuse(large, n, BN_ERR_LIMIT);
    refuse(large, BN_JSON_MAX_BYTES + 1, BN_ERR_LIMIT);
    bn_json *root;
    must(bn_json_parse(&root, large, BN_JSON_MAX_BYTES, NULL));
    bn_json_free(root);
    /* many small values, [0,0,..., are refused when they would take more than the limit */
    for (size_t i = 0; i < n; i++)
        large[i] = i == 0 ? '[' : i % 2 == 1 ? '0' : ',';
    large[BN_JSON_MAX_BYTES - 1] = ']';
    struct bn_mem_stats before = bn_mem_stats();
    refuse(large, BN_JSON_MAX_BYTES, BN_ERR_LIMIT);
    large[2 << 17] = ']';
    refused(bn_json_parse_within(&root, large, (2 << 17) + 1, 1 << 20, NULL), BN_ERR_LIMIT);
    assert_int_equal(bn_mem_stats().bytes_now, before.bytes_now);
    assert_true(bn_mem_stats().bytes_total - before.bytes_total < BN_JSON_MAX_TREE + (2 << 20));
    /* and what is read takes no more than the limit */
    must(bn_json_parse_within(&root, large, (2 << 17) + 1, 16 << 20, NULL));
    assert_int_equal(bn_json_size(root), 1 << 17);
    assert_in_range(bn_mem_stats().bytes_now - before.bytes_now, 1 << 20, 16 << 20);
    bn_json_free(root);
    memset(large, '1', 100);
    refuse(large, 61, BN_ERR_LIMIT);
    bn_free(large);
}

TEST(numbers_are_exact_or_refused)
{
    bn_json *root = parse("[9007199254740991,9007199254740992,9007199254740993,-1,1.5,0,-0,1e3,\"7\",true]");
    static const struct {
        bool ok;
        uint64_t value;
    } WANT[] = {{true, 9007199254740991},
                {false, 0},
                {false, 0},
                {false, 0},
                {false, 0},
                {true, 0},
                {true, 0},
                {true, 1000},
                {false, 0},
                {false, 0}};
    for (size_t i = 0; i < BN_ARRAY_LEN(WANT); i++) {
        uint64_t got = 77;
        assert_int_equal(bn_json_u64(bn_json_at(root, i), &got), WANT[i].ok);
        assert_int_equal(got, WANT[i].ok ? WANT[i].value : 77);
    }
    double number = 0;
    assert_true(bn_json_number(bn_json_at(root, 6), &number));
    assert_true(signbit(number));
    assert_false(bn_json_number(bn_json_at(root, 8), &number));
    bn_json_free(root);
}

/* The examples of RFC 8785, appendix B, and our one difference. */
TEST(numbers_have_one_spelling)
{
    becomes(
        "[5e-324,-5e-324,1.7976931348623157e308,9007199254740992,-9007199254740992,295147905179352830000]",
        "[5e-324,-5e-324,1.7976931348623157e+308,9007199254740992,-9007199254740992,295147905179352830000]");
    becomes(
        "[9.999999999999997e22,1e23,1.0000000000000001e23,999999999999999700000,999999999999999900000,1e21]",
        "[9.999999999999997e+22,1e+23,1.0000000000000001e+23,999999999999999700000,999999999999999900000,1e+"
        "21]");
    becomes("[9.999999999999997e-7,0.000001,333333333.3333332,333333333.33333325,333333333.33333329]",
            "[9.999999999999997e-7,0.000001,333333333.3333332,333333333.33333325,333333333.3333333]");
    becomes("[-0.0000033333333333333333,1424953923781206.2,0.1,1.50,100e-2,12.340,1e0]",
            "[-0.0000033333333333333333,1424953923781206.2,0.1,1.5,1,12.34,1]");
    becomes("[0,0.0,0e5,-0,-0.0]", "[0,0,0,-0,-0]");
}

TEST(canonical_text_is_sorted_and_compact)
{
    becomes(" { \"b\" : [ 1 , { } , [ ] , null , true , false ] , \"a\" : { \"z\" : 1 , \"B\" : 2 } } ",
            "{\"a\":{\"B\":2,\"z\":1},\"b\":[1,{},[],null,true,false]}");
    becomes("\"\\u0041\\/\\u00e9\\ud83d\\ude00\\u001B\\u007f\\b\\f\\n\\r\\t\\\"\\\\\"",
            "\"A/\xC3\xA9\xF0\x9F\x98\x80\\u001b\x7F\\b\\f\\n\\r\\t\\\"\\\\\"");
    becomes("{\"ab\":1,\"a\":2,\"\\u00e9\":3,\"Z\":4,\"\":5}",
            "{\"\":5,\"Z\":4,\"a\":2,\"ab\":1,\"\xC3\xA9\":3}");
}

TEST(members_are_found_by_exact_name)
{
    bn_json *root =
        parse("{\"Model\":1,\"model\":{\"sha256\":\"x\",\"n\":[4,5]},\"flag\":true,\"none\":null}");
    const char *text = "kept";
    uint64_t u = 0;
    bool flag = false;
    assert_true(bn_json_u64(bn_json_get(root, "Model"), &u));
    assert_true(bn_json_string(bn_json_path(root, "model.sha256"), &text));
    assert_string_equal(text, "x");
    assert_null(bn_json_get(root, "MODEL"));
    assert_null(bn_json_get(root, "mode"));
    assert_null(bn_json_path(root, "model.n.x"));
    assert_null(bn_json_path(root, "model.sha256.x"));
    assert_null(bn_json_path(root, "absent.sha256"));
    assert_null(bn_json_get(NULL, "x"));
    assert_true(bn_json_bool(bn_json_get(root, "flag"), &flag) && flag);
    assert_false(bn_json_bool(bn_json_get(root, "none"), &flag));
    assert_false(bn_json_string(bn_json_get(root, "none"), &text));
    assert_false(bn_json_string(NULL, &text));
    assert_int_equal(bn_json_kind(bn_json_get(root, "none")), BN_JSON_NULL);
    assert_int_equal(bn_json_kind(bn_json_path(root, "model.n")), BN_JSON_ARRAY);
    assert_int_equal(bn_json_size(bn_json_path(root, "model.n")), 2);
    assert_true(bn_json_u64(bn_json_at(bn_json_path(root, "model.n"), 1), &u));
    assert_int_equal(u, 5);
    assert_null(bn_json_at(bn_json_path(root, "model.n"), 2));
    assert_string_equal(bn_json_name(bn_json_next(bn_json_first(root))), "model");
    assert_null(bn_json_name(bn_json_first(bn_json_path(root, "model.n"))));
    bn_json_free(root);
}

TEST(building_and_indenting)
{
    bn_json *root = bn_json_new_object();
    bn_json_put_string(root, "text", "bad \xFF utf-8");
    bn_json_put_u64(root, "count", 1);
    bn_json_put_u64(root, "count", 2); /* replaces */
    bn_json_put_u64(root, "large", UINT64_MAX);
    bn_json_put_number(root, "rate", 12.5);
    bn_json_put_number(root, "nan", (double)NAN);
    bn_json_put_string(root, "null", NULL);
    bn_json *row = bn_json_put_array(root, "row");
    bn_json_add_u64(row, 1);
    bn_json_add_number(row, 2.25);
    bn_json *list = bn_json_put_array(root, "list");
    bn_json_add_string(list, "a");
    bn_json_put_bool(bn_json_add_object(list), "b", true);
    bn_json_put_object(root, "empty");
    bn_json_put_copy(root, "copy", row);
    bn_json_put_null(root, "gone");
    bn_json_remove(root, "gone");
    bn_json_put_u64(NULL, "ignored", 1);
    assert_null(bn_json_put_object(NULL, "ignored"));
    struct bn_buf out = {.max = 4096};
    must(bn_json_write(root, false, &out, NULL));
    assert_string_equal(out.data, "{\n"
                                  "  \"text\": \"bad \xEF\xBF\xBD utf-8\",\n"
                                  "  \"count\": 2,\n"
                                  "  \"large\": \"18446744073709551615\",\n"
                                  "  \"rate\": 12.5,\n"
                                  "  \"nan\": null,\n"
                                  "  \"null\": null,\n"
                                  "  \"row\": [1, 2.25],\n"
                                  "  \"list\": [\n"
                                  "    \"a\",\n"
                                  "    {\n"
                                  "      \"b\": true\n"
                                  "    }\n"
                                  "  ],\n"
                                  "  \"empty\": {},\n"
                                  "  \"copy\": [1, 2.25]\n"
                                  "}");
    bn_json *back;
    must(bn_json_parse(&back, out.data, out.len, NULL));
    bn_json_free(back);
    bn_buf_release(&out);
    bn_json_free(root);
}

static void same_tree(const bn_json *ours, const cJSON *theirs)
{
    static const int KINDS[] = {cJSON_NULL,   cJSON_False, cJSON_Number,
                                cJSON_String, cJSON_Array, cJSON_Object};
    double number = 0;
    const char *text = "";
    bool yes = false;
    assert_non_null(ours);
    int type = theirs->type == cJSON_True ? cJSON_False : theirs->type;
    assert_int_equal(KINDS[bn_json_kind(ours)], type);
    if (theirs->string != NULL) assert_string_equal(bn_json_name(ours), theirs->string);
    if (bn_json_number(ours, &number)) assert_true(number == theirs->valuedouble);
    if (bn_json_string(ours, &text)) assert_string_equal(text, theirs->valuestring);
    if (bn_json_bool(ours, &yes)) assert_int_equal(yes, theirs->type == cJSON_True);
    const bn_json *m = bn_json_first(ours);
    for (const cJSON *c = theirs->child; c != NULL; c = c->next, m = bn_json_next(m))
        same_tree(m, c);
    assert_null(m);
}

/* cJSON reads the same in the documents of the repository. */
TEST(another_reader_agrees)
{
    glob_t files;
    assert_int_equal(glob("{*,ci/schemas}/*.json", GLOB_BRACE, NULL, &files), 0);
    assert_true(files.gl_pathc > 5);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
        bn_json *ours = NULL;
        must(bn_file_read(files.gl_pathv[i], &text, NULL));
        must(bn_json_parse(&ours, text.data, text.len, NULL));
        cJSON *theirs = cJSON_ParseWithLength(text.data, text.len);
        assert_non_null(theirs);
        same_tree(ours, theirs);
        cJSON_Delete(theirs);
        bn_json_free(ours);
        bn_buf_release(&text);
    }
    globfree(&files);
}

/* A value costs little more than its node. */
TEST(values_are_small)
{
    const size_t n = 100000;
    char *text = bn_alloc(2 * n, 1);
    for (size_t i = 0; i < 2 * n; i += 2)
        memcpy(text + i, i == 0 ? "[0" : ",0", 2);
    text[0] = '[';
    struct bn_buf whole = {.max = 3 * n};
    bn_buf_append(&whole, text, 2 * n);
    bn_buf_putc(&whole, ']');
    size_t before = mallinfo2().uordblks;
    bn_json *root = NULL;
    must(bn_json_parse(&root, whole.data, whole.len, NULL));
    assert_true(mallinfo2().uordblks - before <= 100 * n);
    bn_json_free(root);
    bn_buf_release(&whole);
    bn_free(text);
}

/* What is written to a file is read back; a file that is not JSON is named. */
TEST_IN(files_are_written_and_read, make_folder, remove_folder)
{
    static const int32_t IDS[] = {7, 0};
    static const char *const TEXTS[] = {"a", "b"};
    char *path = below("json"), digest[BN_SHA256_HEX], again[BN_SHA256_HEX];
    bn_json *o = bn_json_new_object(), *back = NULL;
    bn_json_put_text(o, "none", "");
    bn_json_put_count(o, "zero", 0);
    bn_json_put_ids(o, "ids", IDS, 2);
    bn_json_put_texts(o, "texts", TEXTS, 2);
    must(bn_json_write_file(o, path, NULL));
    must(bn_json_read_file(&back, path, NULL));
    must(bn_json_digest(o, digest, NULL));
    must(bn_json_digest(back, again, NULL));
    assert_string_equal(digest, again);
    assert_int_equal(bn_json_kind(bn_json_get(back, "none")), BN_JSON_NULL);
    assert_int_equal(bn_json_kind(bn_json_get(back, "zero")), BN_JSON_NULL);
    assert_true(bn_json_has_text(bn_json_get(back, "texts"), "b"));
    assert_false(bn_json_has_text(bn_json_get(back, "ids"), "7"));
    assert_int_equal(truncate(path, 3), 0);
    bn_json_free(back);
    refused(bn_json_read_file(&back, path, &err), BN_ERR_FORMAT);
    assert_string_equal(err.where, path);
    bn_json_free(o);
}

TEST(short_memory_is_told)
{
    static const char TEXT[] = "{\"b\":[1,2,{\"c\":\"d\"}],\"a\":{\"e\":null}}";
    bn_status status;
    SHORT_MEMORY (status) {
        bn_json *root;
        status = bn_json_parse(&root, TEXT, strlen(TEXT), NULL);
        assert_true(status == BN_OK || root == NULL);
        bn_json_free(root);
    }
    SHORT_MEMORY (status) {
        struct bn_buf out = {.max = 1000};
        bn_json *root = bn_json_new_object();
        bn_json *list = bn_json_put_array(root, "list");
        bn_json_add_u64(list, 1);
        bn_json_put_string(bn_json_put_object(root, "object"), "text", "x");
        status = bn_json_write(root, true, &out, NULL);
        if (status == BN_OK) assert_string_equal(out.data, "{\"list\":[1],\"object\":{\"text\":\"x\"}}");
        bn_buf_release(&out);
        bn_json_free(root);
    }
    bn_json *short_one = bn_json_new_object(), *other = bn_json_new_object();
    struct bn_buf out = {.max = 1000};
    bn_json_put_object(short_one, "inner");
    bn_mem_fail_after(1);
    bn_json_put_u64((bn_json *)(uintptr_t)bn_json_get(short_one, "inner"), "a", 1);
    bn_mem_fail_after(0);
    assert_false(bn_json_is_complete(short_one));
    assert_true(bn_json_is_complete(other));
    bn_json_put_copy(other, "fine", other);
    must(bn_json_write(other, false, &out, NULL));
    bn_json_put_copy(other, "copy", short_one);
    for (int i = 0; i < 2; i++) { /* it stays so */
        refused(bn_json_write(short_one, false, &out, NULL), BN_ERR_NOMEM);
        refused(bn_json_write(other, true, &out, NULL), BN_ERR_NOMEM);
    }
    bn_buf_release(&out);
    bn_json_free(short_one);
    bn_json_free(other);
    bn_json *root = parse("[1,2,3]");
    struct bn_buf small = {.max = 3};
    refused(bn_json_write(root, true, &small, NULL), BN_ERR_LIMIT);
    bn_buf_release(&small);
    bn_json_free(root);
}
