/* SPDX-License-Identifier: MIT
 *
 * receipt/: what bn_receipt_build makes has exactly the fields of ci/schemas/receipt.schema.json and passes
 * the rules; an envelope or a statement with any byte changed is refused or says the same; a replay sees any
 * difference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/receipt/diff.h"
#include "lab/receipt/receipt.h"
#include "lab/receipt/replay.h"
#include "model/model.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"

static bn_model *model;

static int open_model(void **state)
{
    (void)state;
    static const bn_model_options COPY = {.no_mmap = true};
    return bn_model_open(&model, MODEL, &COPY, NULL) == BN_OK ? 0 : -1;
}

static int close_model(void **state)
{
    (void)state;
    bn_model_close(model);
    return 0;
}

/* ---- a run, and its receipt ---- */

static const int32_t PROMPT[] = {845, 25, 198, 404};

struct run {
    bn_session *session;
    struct bn_generation gen;
    struct bn_receipt_input in;
};

static void generate(struct run *run, const bn_sampler_options *sampling, uint32_t n_predict)
{
    bn_session_options options = {.n_ctx = 64, .n_batch = 3, .n_threads = 2, .exact_threads = true};
    *run = (struct run){.gen = {.prompt = PROMPT,
                                .n_prompt = BN_ARRAY_LEN(PROMPT),
                                .n_predict = n_predict,
                                .sampling = *sampling,
                                .want_chain = true}};
    assert_int_equal(bn_session_open(&run->session, model, &options, NULL), BN_OK);
    assert_int_equal(bn_generate(run->session, bn_model_tokenizer(model), &run->gen, NULL), BN_OK);
    run->in = (struct bn_receipt_input){.model = model,
                                        .session = run->session,
                                        .generation = &run->gen,
                                        .model_name = "/some/where/model.gguf",
                                        .template_name = "raw",
                                        .isa = "auto"};
}

static void release(struct run *run)
{
    bn_generation_release(&run->gen);
    bn_session_close(run->session);
}

static bn_json *build(struct run *run)
{
    bn_json *statement;
    bn_error err = {0};
    bn_status status = bn_receipt_build(&statement, &run->in, &err);
    if (status != BN_OK) print_message("%s\n", err.msg);
    assert_int_equal(status, BN_OK);
    return statement;
}

static bn_json *greedy_receipt(uint32_t n_predict)
{
    static const bn_sampler_options GREEDY = BN_SAMPLER_OPTIONS_INIT;
    struct run run;
    generate(&run, &GREEDY, n_predict);
    bn_json *statement = build(&run);
    release(&run);
    return statement;
}

static void to_text(const bn_json *value, bool canonical, struct bn_buf *text)
{
    *text = (struct bn_buf){.max = BN_JSON_MAX_BYTES};
    assert_int_equal(bn_json_write(value, canonical, text, NULL), BN_OK);
}

static void open_text(struct bn_receipt *receipt, const bn_json *statement)
{
    struct bn_buf text;
    to_text(statement, false, &text);
    assert_int_equal(bn_receipt_open(receipt, text.data, text.len, NULL, NULL), BN_OK);
    bn_buf_release(&text);
}

static bool verifies(const struct bn_receipt *receipt)
{
    struct bn_receipt_policy policy;
    struct bn_rules_report report;
    bn_receipt_policy_defaults(&policy);
    struct bn_rules_input in = {.receipt = receipt, .policy = &policy, .now_utc = bn_clock_utc()};
    assert_int_equal(bn_rules_run(&report, &in, NULL), BN_OK);
    return report.verified;
}

/* ---- the fields ---- */

static bool is_kind(const char *type, const bn_json *value)
{
    uint64_t whole;
    enum bn_json_kind kind = bn_json_kind(value);
    return (strcmp(type, "null") == 0 && kind == BN_JSON_NULL) ||
           (strcmp(type, "boolean") == 0 && kind == BN_JSON_BOOL) ||
           (strcmp(type, "string") == 0 && kind == BN_JSON_STRING) ||
           (strcmp(type, "number") == 0 && kind == BN_JSON_NUMBER) ||
           (strcmp(type, "integer") == 0 && bn_json_u64(value, &whole)) ||
           (strcmp(type, "array") == 0 && kind == BN_JSON_ARRAY) ||
           (strcmp(type, "object") == 0 && kind == BN_JSON_OBJECT);
}

static void complain(const char *path, const char *what)
{
    print_message("%s %s\n", path, what);
    fail();
}

/* The part of JSON Schema that ci/schemas uses: type, const, enum, pattern of a digest, properties, required,
 * additionalProperties, items. */
static void conforms(const bn_json *schema, const bn_json *value, const char *path)
{
    const char *text = NULL, *other = NULL;
    char longer[200];
    const bn_json *type = bn_json_get(schema, "type");
    bool ok = type == NULL || (bn_json_string(type, &text) && is_kind(text, value));
    for (const bn_json *t = bn_json_kind(type) == BN_JSON_ARRAY ? bn_json_first(type) : NULL; t != NULL;
         t = bn_json_next(t))
        ok = ok || (bn_json_string(t, &text) && is_kind(text, value));
    if (!ok) complain(path, "has another type");
    if (bn_json_string(bn_json_get(schema, "const"), &text) &&
        (!bn_json_string(value, &other) || strcmp(text, other) != 0))
        complain(path, "has another value");
    const bn_json *values = bn_json_get(schema, "enum");
    ok = values == NULL;
    for (const bn_json *e = bn_json_first(values); e != NULL; e = bn_json_next(e))
        ok = ok || (bn_json_string(e, &text) && bn_json_string(value, &other) && strcmp(text, other) == 0);
    if (!ok) complain(path, "is none of the values");
    if (bn_json_get(schema, "pattern") != NULL && bn_json_string(value, &text) &&
        (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64))
        complain(path, "is not a digest");
    const bn_json *items = bn_json_get(schema, "items"), *properties = bn_json_get(schema, "properties");
    for (const bn_json *e = items == NULL ? NULL : bn_json_first(value); e != NULL; e = bn_json_next(e)) {
        snprintf(longer, sizeof longer, "%.180s[]", path);
        conforms(items, e, longer);
    }
    for (const bn_json *m = properties == NULL ? NULL : bn_json_first(value); m != NULL;
         m = bn_json_next(m)) {
        snprintf(longer, sizeof longer, "%.100s.%.80s", path, bn_json_name(m));
        const bn_json *property = bn_json_get(properties, bn_json_name(m));
        if (property == NULL) complain(longer, "is not in the schema");
        conforms(property, m, longer);
    }
    for (const bn_json *r = bn_json_first(bn_json_get(schema, "required")); r != NULL; r = bn_json_next(r)) {
        assert_true(bn_json_string(r, &text));
        snprintf(longer, sizeof longer, "%.100s.%.80s", path, text);
        if (bn_json_get(value, text) == NULL) complain(longer, "is missing");
    }
}

static bn_json *load(const char *path)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_json *root;
    assert_int_equal(bn_file_read(path, &text, NULL), BN_OK);
    assert_int_equal(bn_json_parse(&root, text.data, text.len, NULL), BN_OK);
    bn_buf_release(&text);
    return root;
}

static void a_receipt_has_the_fields_of_the_schema(void **state)
{
    (void)state;
    bn_json *schema = load("ci/schemas/receipt.schema.json"), *statement = greedy_receipt(6);
    conforms(schema, bn_json_get(statement, "predicate"), "");
    static const char *const MEMBERS[] = {"_type", "subject", "predicateType", "predicate", "receipt_sha256"};
    size_t i = 0;
    for (const bn_json *m = bn_json_first(statement); m != NULL; m = bn_json_next(m), i++) {
        assert_true(i < BN_ARRAY_LEN(MEMBERS));
        assert_string_equal(bn_json_name(m), MEMBERS[i]);
    }
    assert_int_equal(i, BN_ARRAY_LEN(MEMBERS));
    bn_json_free(statement);
    bn_json_free(schema);
}

/* Every property of the schema has its line in the reference page. */
static void check_documented(const bn_json *schema, const char *prefix, const char *page)
{
    const bn_json *properties = bn_json_get(schema, "properties");
    for (const bn_json *p = bn_json_first(properties); p != NULL; p = bn_json_next(p)) {
        char path[160], cell[170];
        snprintf(path, sizeof path, "%.90s%s%.60s", prefix, prefix[0] == '\0' ? "" : ".", bn_json_name(p));
        snprintf(cell, sizeof cell, "| `%s` |", path);
        if (strstr(page, cell) == NULL) complain(path, "is not in docs/reference/receipt.md");
        check_documented(p, path, page);
        const bn_json *items = bn_json_get(p, "items");
        snprintf(cell, sizeof cell, "%.150s[]", path);
        if (bn_json_get(items, "properties") != NULL) check_documented(items, cell, page);
    }
}

static void every_field_is_documented(void **state)
{
    (void)state;
    bn_json *schema = load("ci/schemas/receipt.schema.json");
    struct bn_buf page = {.max = 1u << 20};
    assert_int_equal(bn_file_read("docs/reference/receipt.md", &page, NULL), BN_OK);
    check_documented(schema, "", page.data);
    bn_buf_release(&page);
    bn_json_free(schema);
}

/* ---- building ---- */

static void a_receipt_says_what_ran(void **state)
{
    (void)state;
    static const bn_sampler_options SAMPLED = {0.7f, 40, 0.9f, 0.05f, 1.1f, 64, UINT64_MAX};
    static const char TEXT[] = "a prompt\nof two lines";
    struct run run;
    const char *text = NULL;
    double number = 0;
    uint64_t count = 0;
    generate(&run, &SAMPLED, 5);
    run.in.prompt = TEXT;
    run.in.n_prompt_bytes = strlen(TEXT);
    run.in.show_text = true;
    run.in.bandwidth_bytes_per_s = 12345;
    bn_json *statement = build(&run);
    const bn_json *p = bn_json_get(statement, "predicate");
    assert_true(bn_json_string(bn_json_path(p, "model.path"), &text));
    assert_string_equal(text, "model.gguf");
    assert_true(bn_json_string(bn_json_path(p, "request.prompt"), &text));
    assert_string_equal(text, TEXT);
    assert_true(bn_json_string(bn_json_path(p, "request.seed"), &text));
    assert_string_equal(text, "18446744073709551615");
    assert_true(bn_json_number(bn_json_path(p, "request.temperature"), &number));
    assert_true(number == 0.7);
    assert_true(bn_json_u64(bn_json_path(p, "measurement.bandwidth_probe_bytes_per_s"), &count));
    assert_int_equal(count, 12345);
    assert_int_equal(bn_json_size(bn_json_path(p, "result.ids")), run.gen.n_ids);
    struct bn_receipt receipt;
    open_text(&receipt, statement);
    assert_true(verifies(&receipt));
    struct bn_replay_result result;
    assert_int_equal(bn_receipt_replay(&receipt, model, 1, 7, &result, NULL), BN_OK);
    if (!result.same) print_message("%s\n", result.reason);
    assert_true(result.same && result.chain);
    bn_receipt_release(&receipt);
    bn_json_free(statement);

    run.in.prompt = "NUL \0 inside";
    run.in.n_prompt_bytes = 12;
    run.in.show_path = true;
    statement = build(&run);
    assert_null(bn_json_path(statement, "predicate.request.prompt"));
    assert_true(bn_json_string(bn_json_path(statement, "predicate.model.path"), &text));
    assert_string_equal(text, "/some/where/model.gguf");
    open_text(&receipt, statement);
    assert_true(verifies(&receipt));
    bn_receipt_release(&receipt);
    bn_json_free(statement);
    release(&run);
}

/* A thread whose share of the heads is empty counts no call; the kernel ran all the same. */
static void more_threads_than_heads_give_a_receipt(void **state)
{
    (void)state;
    bn_session_options options = {.n_ctx = 64, .n_threads = 9};
    struct run run = {.gen = {.prompt = PROMPT,
                              .n_prompt = 1,
                              .n_predict = 2,
                              .sampling = BN_SAMPLER_OPTIONS_INIT,
                              .want_chain = true}};
    struct bn_receipt receipt;
    assert_int_equal(bn_session_open(&run.session, model, &options, NULL), BN_OK);
    assert_int_equal(bn_generate(run.session, bn_model_tokenizer(model), &run.gen, NULL), BN_OK);
    run.in = (struct bn_receipt_input){.model = model, .session = run.session, .generation = &run.gen};
    bn_json *statement = build(&run);
    open_text(&receipt, statement);
    assert_true(verifies(&receipt));
    bn_receipt_release(&receipt);
    bn_json_free(statement);
    release(&run);
}

static void without_evidence_there_is_no_receipt(void **state)
{
    (void)state;
    static const bn_sampler_options GREEDY = BN_SAMPLER_OPTIONS_INIT;
    struct run run;
    bn_json *statement;
    bn_session *fresh;
    bn_error err = {0};
    generate(&run, &GREEDY, 3);
    assert_int_equal(bn_session_open(&fresh, model, NULL, NULL), BN_OK);
    run.in.session = fresh;
    assert_int_equal(bn_receipt_build(&statement, &run.in, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "no receipt: no kernel was counted");
    assert_null(statement);
    bn_session_close(fresh);
    run.in.session = run.session;
    float *logits = bn_alloc(bn_model_hparams(model)->n_vocab, sizeof *logits);
    assert_int_equal(bn_session_eval(run.session, PROMPT, 1, BN_LOGITS_LAST, logits, NULL), BN_OK);
    bn_free(logits);
    err = (bn_error){0};
    assert_int_equal(bn_receipt_build(&statement, &run.in, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "no receipt: the session holds more than this generation");
    run.gen.n_ids = 0;
    assert_int_equal(bn_receipt_build(&statement, &run.in, NULL), BN_ERR_ARG);
    release(&run);
}

static void short_memory_gives_no_receipt(void **state)
{
    (void)state;
    static const bn_sampler_options GREEDY = BN_SAMPLER_OPTIONS_INIT;
    struct run run;
    generate(&run, &GREEDY, 2);
    run.in.prompt = "text";
    run.in.n_prompt_bytes = 4;
    run.in.show_text = true;
    uint64_t before = bn_mem_stats().allocations;
    bn_json_free(build(&run));
    uint64_t n_allocations = bn_mem_stats().allocations - before;
    assert_true(n_allocations > 100);
    size_t failed = 0;
    for (uint64_t n = 1; n <= n_allocations; n += 1 + n / 64) {
        bn_json *statement;
        struct bn_receipt receipt;
        bn_mem_fail_after(n);
        bn_status status = bn_receipt_build(&statement, &run.in, NULL);
        bn_mem_fail_after(0);
        if (status != BN_OK) {
            assert_int_equal(status, BN_ERR_NOMEM);
            assert_null(statement);
            failed++;
            continue;
        }
        /* What cannot be read about the machine is unknown; all the rest has to be there. */
        open_text(&receipt, statement);
        assert_true(verifies(&receipt));
        assert_int_equal(bn_json_size(receipt.predicate), 17);
        bn_receipt_release(&receipt);
        bn_json_free(statement);
    }
    assert_true(failed > 50);
    release(&run);
}

/* ---- replay ---- */

/* Puts JSON text at a path of the predicate; replays; says whether it was the same, "error" when it could not
 * be made. */
static const char *replay_with(const char *path, const char *value)
{
    static char outcome[220];
    static bn_json *six;
    bn_json *literal, *statement = bn_json_new_object();
    if (six == NULL) six = greedy_receipt(6);
    for (const bn_json *m = bn_json_first(six); m != NULL; m = bn_json_next(m))
        bn_json_put_copy(statement, bn_json_name(m), m);
    struct bn_receipt receipt;
    struct bn_replay_result result;
    if (path != NULL) {
        const char *dot = strrchr(path, '.');
        char parent[64];
        snprintf(parent, sizeof parent, "predicate.%.*s", (int)(dot - path), path);
        bn_json *object = (bn_json *)(uintptr_t)bn_json_path(statement, parent);
        assert_non_null(object);
        bn_json_remove(object, dot + 1);
        if (value[0] != '\0') {
            assert_int_equal(bn_json_parse(&literal, value, strlen(value), NULL), BN_OK);
            bn_json_put_copy(object, dot + 1, literal);
            bn_json_free(literal);
        }
    }
    open_text(&receipt, statement);
    bn_error err = {0};
    bn_status status = bn_receipt_replay(&receipt, model, 0, 0, &result, &err);
    snprintf(outcome, sizeof outcome, "%s", status != BN_OK ? "error" : result.same ? "same" : result.reason);
    bn_receipt_release(&receipt);
    bn_json_free(statement);
    return outcome;
}

static void replay_sees_any_difference(void **state)
{
    (void)state;
    static const struct {
        const char *path, *value, *begins;
    } CASES[] = {
        {"request.prompt_ids", "[845,25,198,405]", "token "},
        {"request.ignore_end", "true", "same"},
        {"request.n_predict", "7", "more tokens"},
        {"request.n_predict", "5", "fewer tokens"},
        {"result.ids", "[1,2,3,4,5,6]", "token 0 is"},
        {"result.ids", "[]", "more tokens"},
        {"result.stop_reason", "\"end\"", "it stopped for \"length\""},
        {"result.chain", "\"0000000000000000000000000000000000000000000000000000000000000000\"",
         "the same tokens, but"},
        {"result.chain", "null", "error"}, /* a replay without it would compare too little */
        {"result.text_sha256", "\"00\"", "result.text_sha256 is "},
        {"resolved.tokenizer_sha256", "\"00\"", "resolved.tokenizer_sha256 is "},
        {"model.n_layer", "7", "model.n_layer is 6 in the model"},
        {"model.ternary_bytes", "1179649", "model.ternary_bytes is"},
        {"model.head_bytes", "", "model.head_bytes is"},
        {"model.n_ctx", "4096", "model.n_ctx is 1024"},
        {"model.arch", "\"llama\"", "model.arch is bitnet-b1.58"},
        {"model.quantization", "null", "model.quantization is I2_S"},
        {"resolved.tokenizer_sha256", "null", "resolved.tokenizer_sha256 is "},
        {"result.text_sha256", "null", "result.text_sha256 is "},
        {"model.sha256", "\"0000000000000000000000000000000000000000000000000000000000000000\"",
         "the model has sha256"},
        {"model.sha256", "", "error"},
        {"request.seed", "\"18446744073709551615\"", "same"}, /* greedy asks for no random number */
        {"request.seed", "\"18446744073709551616\"", "error"},
        {"request.seed", "\"\"", "error"},
        {"request.seed", "-1", "error"},
        {"request.seed", "", "error"},
        {"request.temperature", "", "error"},
        {"request.temperature", "\"hot\"", "error"},
        {"request.temperature", "-1", "error"},
        {"request.top_k", "4294967296", "error"},
        {"request.stops", "[1]", "error"},
        {"request.stops", "{}", "error"},
        {"request.stop_ids", "", "error"},
        {"request.prompt_ids", "[99999]", "error"},
        {"request.prompt_ids", "[]", "error"},
        {"request.ignore_end", "0", "error"},
        {"resolved.ctx", "3", "error"},
        {"resolved.ctx", "99999999", "error"},
        {"result.stop_reason", "", "error"},
    };
    assert_string_equal(replay_with(NULL, NULL), "same");
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        const char *outcome = replay_with(CASES[i].path, CASES[i].value);
        if (strncmp(outcome, CASES[i].begins, strlen(CASES[i].begins)) != 0)
            print_message("%s = %s: %s\n", CASES[i].path, CASES[i].value, outcome);
        assert_memory_equal(outcome, CASES[i].begins, strlen(CASES[i].begins));
    }
}

/* Puts the digest of other bytes into a receipt: a lie that only the bytes themselves contradict. */
static void claim_digest(bn_json *statement, const void *bytes, size_t n)
{
    char hex[BN_SHA256_HEX];
    bn_json *object = (bn_json *)(uintptr_t)bn_json_path(statement, "predicate.model");
    assert_int_equal(bn_sha256_hex(bytes, n, hex, NULL), BN_OK);
    bn_json_put_string(object, "sha256", hex);
}

/* One bit of one weight: the digest differs, and so does what the network computes. */
static void replay_sees_one_changed_weight(void **state)
{
    (void)state;
    struct bn_file_map map;
    bn_model *changed;
    struct bn_receipt receipt;
    struct bn_replay_result result;
    bn_json *statement = greedy_receipt(16);
    assert_int_equal(bn_file_map_open(&map, MODEL, true, NULL), BN_OK);
    unsigned char *bytes = (unsigned char *)(uintptr_t)map.data;
    bytes[map.n_bytes - 100000] ^= 1;
    assert_int_equal(bn_model_open_memory(&changed, map.data, map.n_bytes, "changed", NULL, NULL), BN_OK);
    open_text(&receipt, statement);
    assert_int_equal(bn_receipt_replay(&receipt, changed, 0, 0, &result, NULL), BN_OK);
    assert_false(result.same);
    assert_non_null(strstr(result.reason, "sha256"));
    bn_receipt_release(&receipt);
    claim_digest(statement, map.data, map.n_bytes);
    open_text(&receipt, statement);
    assert_int_equal(bn_receipt_replay(&receipt, changed, 0, 0, &result, NULL), BN_OK);
    assert_false(result.same);
    assert_true(strstr(result.reason, "token ") != NULL || strstr(result.reason, "chain") != NULL);
    bn_model_close(changed);
    bn_file_map_close(&map);
    bn_receipt_release(&receipt);
    bn_json_free(statement);
}

/* The receipt was made on other bytes than it names, and the file had the named ones when somebody took its
 * digest: the bytes that the replay reads count, and nothing that was hashed before. */
static void a_replay_hashes_the_bytes_that_it_reads(void **state)
{
    (void)state;
    static const bn_sampler_options GREEDY = BN_SAMPLER_OPTIONS_INIT;
    struct bn_file_map map;
    struct bn_receipt receipt;
    struct bn_replay_result result;
    struct run run;
    bn_model *right = model;
    assert_int_equal(bn_file_map_open(&map, MODEL, true, NULL), BN_OK);
    ((unsigned char *)(uintptr_t)map.data)[map.n_bytes - 100000] ^= 1;
    assert_int_equal(bn_model_open_memory(&model, map.data, map.n_bytes, "changed", NULL, NULL), BN_OK);
    generate(&run, &GREEDY, 8);
    bn_json *statement = build(&run);
    release(&run);
    open_text(&receipt, statement);
    assert_int_equal(bn_receipt_replay(&receipt, model, 0, 0, &result, NULL), BN_OK);
    assert_true(result.same);
    bn_receipt_release(&receipt);
    claim_digest(statement, right->bytes, right->n_bytes);
    open_text(&receipt, statement);
    assert_int_equal(bn_receipt_replay(&receipt, model, 0, 0, &result, NULL), BN_OK);
    assert_false(result.same);
    bn_receipt_release(&receipt);
    bn_json_free(statement);
    bn_model_close(model);
    bn_file_map_close(&map);
    model = right;
}

/* Another program may write to a file that is mapped, and what it writes is what the replay computes with. */
static void a_mapped_file_is_not_replayed(void **state)
{
    (void)state;
    struct bn_receipt receipt;
    struct bn_replay_result result;
    bn_model *mapped;
    bn_error err = {0};
    bn_json *statement = greedy_receipt(2);
    assert_int_equal(bn_model_open(&mapped, MODEL, NULL, NULL), BN_OK);
    open_text(&receipt, statement);
    assert_int_equal(bn_receipt_replay(&receipt, mapped, 0, 0, &result, &err), BN_ERR_ARG);
    assert_false(result.same);
    bn_receipt_release(&receipt);
    bn_json_free(statement);
    bn_model_close(mapped);
}

/* ---- tampering ---- */

static struct bn_key *fresh_key(void)
{
    struct bn_key *key;
    assert_int_equal(bn_key_generate(&key, NULL), BN_OK);
    return key;
}

static bool same_text(const bn_json *a, const struct bn_buf *canonical)
{
    struct bn_buf text;
    to_text(a, true, &text);
    bool same = text.len == canonical->len && memcmp(text.data, canonical->data, text.len) == 0;
    bn_buf_release(&text);
    return same;
}

/* Pure PAE, from the specification's example. */
static void the_signed_bytes_are_those_of_dsse(void **state)
{
    (void)state;
    struct bn_buf pae = {.max = 1000};
    bn_envelope_pae(&pae, "http://example.com/HelloWorld", "hello world", 11);
    assert_string_equal(pae.data, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    bn_buf_release(&pae);
}

/* Every bit of a small envelope: what still opens says what was signed. */
static void no_changed_bit_of_an_envelope_changes_what_is_read(void **state)
{
    (void)state;
    static const char STATEMENT[] =
        "{\"_type\":\"https://in-toto.io/Statement/v1\",\"predicate\":{\"kernels\":[\"i2s_gemv\"]},"
        "\"predicateType\":\"https://bn.invalid/inference-receipt/v1\"}";
    struct bn_key *key = fresh_key();
    struct bn_buf envelope = {.max = 10000}, canonical = {.max = 10000};
    const struct bn_key *keys[] = {key};
    struct bn_receipt_keys trusted = {keys, 1, 1, false};
    bn_buf_puts(&canonical, STATEMENT);
    assert_int_equal(
        bn_envelope_sign(&envelope, key, BN_RECEIPT_PAYLOAD_TYPE, STATEMENT, strlen(STATEMENT), NULL), BN_OK);
    size_t accepted = 0, refused = 0;
    for (size_t bit = 0; bit < envelope.len * 8; bit++) {
        struct bn_receipt receipt;
        envelope.data[bit / 8] = (char)(envelope.data[bit / 8] ^ (1 << bit % 8));
        bn_status status = bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL);
        if (status == BN_OK && receipt.root != NULL) {
            accepted++;
            assert_true(same_text(receipt.root, &canonical));
        } else {
            refused++;
        }
        bn_receipt_release(&receipt);
        envelope.data[bit / 8] = (char)(envelope.data[bit / 8] ^ (1 << bit % 8));
    }
    /* What may change: the keyid, the URL alphabet of base64 in place of a single + or /, white space. */
    assert_true(accepted < 200);
    assert_true(refused > envelope.len * 7);
    bn_buf_release(&envelope);
    bn_buf_release(&canonical);
    bn_key_close(key);
}

/* Every byte of a whole signed receipt. */
static void no_changed_byte_of_a_signed_receipt_is_accepted(void **state)
{
    (void)state;
    bn_json *statement = greedy_receipt(3);
    struct bn_key *key = fresh_key(), *other = fresh_key();
    struct bn_buf canonical, envelope = {.max = 100000};
    const struct bn_key *keys[] = {other, key};
    struct bn_receipt_keys trusted = {keys, 2, 1, false};
    to_text(statement, true, &canonical);
    assert_int_equal(
        bn_envelope_sign(&envelope, key, BN_RECEIPT_PAYLOAD_TYPE, canonical.data, canonical.len, NULL),
        BN_OK);
    for (size_t i = 0; i < envelope.len; i++) {
        struct bn_receipt receipt;
        char was = envelope.data[i];
        envelope.data[i] = (char)(was ^ (1 << (i % 7)));
        if (bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL) == BN_OK &&
            receipt.root != NULL)
            assert_true(same_text(receipt.root, &canonical));
        bn_receipt_release(&receipt);
        envelope.data[i] = was;
    }
    struct bn_receipt receipt;
    assert_int_equal(bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL), BN_OK);
    assert_true(receipt.root != NULL && receipt.n_good == 1 && verifies(&receipt));
    bn_receipt_release(&receipt);
    trusted.threshold = 2;
    assert_int_equal(bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL), BN_OK);
    assert_null(receipt.root);
    bn_receipt_release(&receipt);
    bn_buf_release(&envelope);
    bn_buf_release(&canonical);
    bn_json_free(statement);
    bn_key_close(key);
    bn_key_close(other);
}

/* Without a signature, the receipt's own digest does the same. */
static void no_changed_byte_of_a_statement_is_accepted(void **state)
{
    (void)state;
    bn_json *statement = greedy_receipt(2);
    struct bn_buf text, canonical;
    size_t accepted = 0;
    to_text(statement, false, &text);
    to_text(statement, true, &canonical);
    for (size_t i = 0; i < text.len; i++) {
        static const char FLIPS[] = {1, 0x20};
        char was = text.data[i];
        for (size_t f = 0; f < sizeof FLIPS; f++) {
            struct bn_receipt receipt;
            text.data[i] = (char)(was ^ FLIPS[f]);
            if (bn_receipt_open(&receipt, text.data, text.len, NULL, NULL) == BN_OK &&
                receipt.statement != NULL && verifies(&receipt)) {
                accepted++;
                assert_true(same_text(receipt.root, &canonical));
            }
            bn_receipt_release(&receipt);
        }
        text.data[i] = was;
    }
    assert_int_equal(accepted, 0); /* no flip of these turns one kind of white space into another */
    bn_buf_release(&text);
    bn_buf_release(&canonical);
    bn_json_free(statement);
}

/* A statement of another writer need not carry its own digest, when it is signed. */
static void a_signature_stands_in_for_the_own_digest(void **state)
{
    (void)state;
    bn_json *statement = greedy_receipt(2);
    struct bn_key *key = fresh_key();
    struct bn_buf canonical, envelope = {.max = 100000};
    const struct bn_key *keys[] = {key};
    struct bn_receipt_keys trusted = {keys, 1, 1, false};
    struct bn_receipt receipt;
    bn_json_remove(statement, "receipt_sha256");
    open_text(&receipt, statement);
    assert_false(verifies(&receipt));
    bn_receipt_release(&receipt);
    to_text(statement, true, &canonical);
    assert_int_equal(
        bn_envelope_sign(&envelope, key, BN_RECEIPT_PAYLOAD_TYPE, canonical.data, canonical.len, NULL),
        BN_OK);
    assert_int_equal(bn_receipt_open(&receipt, envelope.data, envelope.len, &trusted, NULL), BN_OK);
    assert_true(verifies(&receipt));
    bn_receipt_release(&receipt);
    bn_buf_release(&canonical);
    bn_buf_release(&envelope);
    bn_json_free(statement);
    bn_key_close(key);
}

static void envelopes_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bn_status want;
    } CASES[] = {
        {"{\"payload\":\"e30=\"}", BN_ERR_FORMAT},
        {"{\"signatures\":[]}", BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":{}}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[1]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[{}]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/"
         "vnd.in-toto+json\",\"signatures\":[{\"sig\":1}]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/"
         "vnd.in-toto+json\",\"signatures\":[{\"sig\":\"?\"}]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/"
         "vnd.in-toto+json\",\"signatures\":[{\"sig\":\"\","
         "\"keyid\":7}]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/"
         "vnd.in-toto+json\",\"signatures\":[{\"sig\":\"\","
         "\"cert\":\"\"}]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":1,\"signatures\":[{\"sig\":\"\"}]}", BN_ERR_FORMAT},
        {"{\"payload\":1,\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[{\"sig\":\"\"}]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30\",\"payloadType\":\"application/"
         "vnd.in-toto+json\",\"signatures\":[{\"sig\":\"\"}]}",
         BN_ERR_FORMAT},
        {"{\"payload\":\"e30=\",\"payloadType\":\"text/plain\",\"signatures\":[{\"sig\":\"\"}]}",
         BN_ERR_FORMAT},
        /* well formed, and nobody's */
        {"{\"payload\":\"e30=\",\"payloadType\":\"application/"
         "vnd.in-toto+json\",\"signatures\":[{\"sig\":\"\"}]}",
         BN_OK},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(CASES); i++) {
        struct bn_receipt receipt;
        bn_status got = bn_receipt_open(&receipt, CASES[i].text, strlen(CASES[i].text), NULL, NULL);
        if (got != CASES[i].want) print_message("%s\n", CASES[i].text);
        assert_int_equal(got, CASES[i].want);
        assert_null(receipt.root);
        bn_receipt_release(&receipt);
    }
    struct bn_buf many = {.max = 10000};
    struct bn_receipt receipt;
    bn_buf_puts(&many,
                "{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[");
    for (int i = 0; i < 17; i++)
        bn_buf_printf(&many, "%s{\"sig\":\"\"}", i > 0 ? "," : "");
    bn_buf_puts(&many, "]}");
    assert_int_equal(bn_receipt_open(&receipt, many.data, many.len, NULL, NULL), BN_ERR_LIMIT);
    bn_receipt_release(&receipt);
    bn_buf_release(&many);
}

/* ---- short memory ---- */

struct signing {
    struct bn_key *key;
    struct bn_buf plain, envelope;
};

static bn_status verify_envelope(struct signing *s, bn_error *err)
{
    const struct bn_key *keys[] = {s->key};
    struct bn_receipt_keys trusted = {keys, 1, 1, false};
    struct bn_receipt receipt;
    struct bn_receipt_policy policy;
    struct bn_rules_report report;
    bn_receipt_policy_defaults(&policy);
    BN_TRY(bn_receipt_open(&receipt, s->envelope.data, s->envelope.len, &trusted, err));
    struct bn_rules_input in = {.receipt = &receipt, .policy = &policy, .now_utc = bn_clock_utc()};
    bn_status status = bn_rules_run(&report, &in, err);
    if (status == BN_OK) assert_true(report.verified);
    bn_receipt_release(&receipt);
    return status;
}

static bn_status sign_again(struct signing *s, bn_error *err)
{
    struct bn_receipt receipt;
    struct bn_buf payload = {.max = BN_JSON_MAX_BYTES}, envelope = {.max = BN_JSON_MAX_BYTES};
    BN_TRY(bn_receipt_open(&receipt, s->plain.data, s->plain.len, NULL, err));
    bn_status status = bn_json_write(receipt.statement, true, &payload, err);
    if (status == BN_OK)
        status = bn_envelope_sign(&envelope, s->key, BN_RECEIPT_PAYLOAD_TYPE, payload.data, payload.len, err);
    if (status == BN_OK) assert_int_equal(envelope.len, s->envelope.len);
    if (status == BN_OK) assert_memory_equal(envelope.data, s->envelope.data, envelope.len);
    bn_buf_release(&payload);
    bn_buf_release(&envelope);
    bn_receipt_release(&receipt);
    return status;
}

static void ignore_diff(void *user, const struct bn_receipt_diff *diff)
{
    (void)user;
    (void)diff;
}

static bn_status compare_two(struct signing *s, bn_error *err)
{
    struct bn_receipt left, right = {0};
    size_t n[BN_DIFF_GROUP_COUNT];
    BN_TRY(bn_receipt_open(&left, s->plain.data, s->plain.len, NULL, err));
    bn_status status = bn_receipt_open(&right, s->plain.data, s->plain.len, NULL, err);
    if (status == BN_OK) {
        bn_json_put_u64((bn_json *)(uintptr_t)right.predicate, "tokens_generated", 1);
        bn_json_remove((bn_json *)(uintptr_t)right.predicate, "git");
        status = bn_receipt_diff(&left, &right, ignore_diff, NULL, n, err);
    }
    bn_receipt_release(&left);
    bn_receipt_release(&right);
    return status;
}

/* Every allocation of verifying, signing and comparing fails once: the outcome is the right one, or that
 * memory is short. */
static void short_memory_is_reported_as_such(void **state)
{
    (void)state;
    bn_status (*const ACTIONS[])(struct signing *, bn_error *) = {sign_again, verify_envelope, compare_two};
    struct signing s = {.key = fresh_key(), .envelope = {.max = BN_JSON_MAX_BYTES}};
    struct bn_buf canonical;
    bn_json *statement = greedy_receipt(2);
    to_text(statement, false, &s.plain);
    to_text(statement, true, &canonical);
    assert_int_equal(
        bn_envelope_sign(&s.envelope, s.key, BN_RECEIPT_PAYLOAD_TYPE, canonical.data, canonical.len, NULL),
        BN_OK);
    for (size_t a = 0; a < BN_ARRAY_LEN(ACTIONS); a++) {
        uint64_t most = 0, failed = 0;
        for (uint64_t n = 0; n <= most; n++) { /* the first round only counts */
            uint64_t before = bn_mem_stats().allocations;
            bn_error err = {0};
            bn_mem_fail_after(n);
            bn_status status = ACTIONS[a](&s, &err);
            bn_mem_fail_after(0);
            if (n == 0) most = bn_mem_stats().allocations - before;
            if (status == BN_OK) continue;
            assert_int_equal(status, BN_ERR_NOMEM);
            assert_true(n > 0);
            failed++;
            struct bn_buf told = {.max = 100}; /* that a put was short is told to the next to write */
            bn_json *object = bn_json_new_object();
            (void)!bn_json_write(object, true, &told, NULL);
            bn_json_free(object);
            bn_buf_release(&told);
        }
        assert_true(failed > 100);
    }
    bn_buf_release(&s.plain);
    bn_buf_release(&s.envelope);
    bn_buf_release(&canonical);
    bn_json_free(statement);
    bn_key_close(s.key);
}

/* ---- small computations ---- */

static void rates_and_percentiles(void **state)
{
    (void)state;
    static const uint64_t TEN[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    assert_int_equal(bn_receipt_percentile(TEN, 10, 50), 5);
    assert_int_equal(bn_receipt_percentile(TEN, 10, 95), 10);
    assert_int_equal(bn_receipt_percentile(TEN, 10, 100), 10);
    assert_int_equal(bn_receipt_percentile(TEN, 1, 50), 1);
    assert_int_equal(bn_receipt_percentile(TEN, 3, 50), 2);
    assert_int_equal(bn_receipt_rate_milli(12, 24191584), 496040);
    assert_int_equal(bn_receipt_rate_milli(1, 1000000000), 1000);
    assert_int_equal(bn_receipt_rate_milli(1, 0), 0);
    assert_int_equal(bn_receipt_rate_milli(UINT64_MAX, 1), 0);
    char hex[BN_SHA256_HEX], want[BN_SHA256_HEX];
    static const int32_t IDS[] = {1, 0x01020304};
    assert_int_equal(bn_receipt_ids_digest(IDS, 2, hex, NULL), BN_OK);
    assert_int_equal(bn_sha256_hex("\1\0\0\0\4\3\2\1", 8, want, NULL), BN_OK);
    assert_string_equal(hex, want);
}

static void count_diff(void *user, const struct bn_receipt_diff *diff)
{
    struct bn_receipt_diff *last = user;
    *last = *diff;
}

static void diffs_are_grouped(void **state)
{
    (void)state;
    bn_json *a = load("fixtures/receipts/statement.json"), *b = load("fixtures/receipts/statement.json");
    struct bn_receipt left, right;
    struct bn_receipt_diff last = {0};
    size_t n[BN_DIFF_GROUP_COUNT];
    bn_json *measurement = (bn_json *)(uintptr_t)bn_json_path(b, "predicate.measurement");
    open_text(&left, a);
    open_text(&right, b);
    assert_int_equal(bn_receipt_diff(&left, &right, count_diff, &last, n, NULL), BN_OK);
    assert_int_equal(n[BN_DIFF_IDENTITY] + n[BN_DIFF_RESULT] + n[BN_DIFF_MEASUREMENT], 0);
    bn_receipt_release(&right);
    bn_json_put_u64(measurement, "load_ns", 3894688);
    open_text(&right, b);
    assert_int_equal(bn_receipt_diff(&left, &right, count_diff, &last, n, NULL), BN_OK);
    assert_int_equal(n[BN_DIFF_MEASUREMENT], 1);
    assert_string_equal(last.path, "measurement.load_ns");
    assert_true(last.has_ratio && last.ratio == 2.0);
    bn_receipt_release(&right);
    bn_json_put_u64(measurement, "load_ns", 1947344);
    bn_json_put_string((bn_json *)(uintptr_t)bn_json_path(b, "predicate.result"), "extra",
                       "\xC2\x9B"
                       "31m");
    open_text(&right, b);
    assert_int_equal(bn_receipt_diff(&left, &right, count_diff, &last, n, NULL), BN_OK);
    assert_int_equal(n[BN_DIFF_RESULT], 1);
    assert_string_equal(last.left, "");
    assert_string_equal(last.right, "\"??31m\"");
    bn_receipt_release(&right);
    bn_receipt_release(&left);
    bn_json_free(a);
    bn_json_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receipt_has_the_fields_of_the_schema),
        cmocka_unit_test(every_field_is_documented),
        cmocka_unit_test(a_receipt_says_what_ran),
        cmocka_unit_test(more_threads_than_heads_give_a_receipt),
        cmocka_unit_test(without_evidence_there_is_no_receipt),
        cmocka_unit_test(short_memory_gives_no_receipt),
        cmocka_unit_test(replay_sees_any_difference),
        cmocka_unit_test(replay_sees_one_changed_weight),
        cmocka_unit_test(a_replay_hashes_the_bytes_that_it_reads),
        cmocka_unit_test(a_mapped_file_is_not_replayed),
        cmocka_unit_test(the_signed_bytes_are_those_of_dsse),
        cmocka_unit_test(no_changed_bit_of_an_envelope_changes_what_is_read),
        cmocka_unit_test(no_changed_byte_of_a_signed_receipt_is_accepted),
        cmocka_unit_test(no_changed_byte_of_a_statement_is_accepted),
        cmocka_unit_test(a_signature_stands_in_for_the_own_digest),
        cmocka_unit_test(envelopes_are_read_strictly),
        cmocka_unit_test(short_memory_is_reported_as_such),
        cmocka_unit_test(rates_and_percentiles),
        cmocka_unit_test(diffs_are_grouped),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
