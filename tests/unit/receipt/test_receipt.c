/* SPDX-License-Identifier: MIT
 *
 * Receipts: their fields, what building demands, replay, and small computations.
 */
#include "tests/unit/receipt/receipt_maker.h"

TEST(a_statement_has_its_members)
{
    bn_json *statement = greedy_receipt(6);
    static const char *const MEMBERS[] = {"_type", "subject", "predicateType", "predicate", "receipt_sha256"};
    assert_int_equal(bn_json_size(statement), BN_ARRAY_LEN(MEMBERS));
    for (size_t i = 0; i < BN_ARRAY_LEN(MEMBERS); i++)
        assert_string_equal(bn_json_name(bn_json_at(statement, i)), MEMBERS[i]);
    bn_json_free(statement);
}

static bn_json *load(const char *path)
{
    bn_json *root;
    must(bn_json_read_file(&root, path, NULL));
    return root;
}

/* Every property of the schema has its line in the reference page. */
static void check_documented(const bn_json *schema, const char *prefix, const char *page)
{
    const bn_json *properties = bn_json_get(schema, "properties");
    for (const bn_json *p = bn_json_first(properties); p != NULL; p = bn_json_next(p)) {
        char path[160], cell[170];
        snprintf(path, sizeof path, "%.90s%s%.60s", prefix, prefix[0] == '\0' ? "" : ".", bn_json_name(p));
        snprintf(cell, sizeof cell, "| `%s` |", path);
        if (strstr(page, cell) == NULL) fail_msg("%s is not in docs/reference/receipt.md", path);
        check_documented(p, path, page);
        const bn_json *items = bn_json_get(p, "items");
        snprintf(cell, sizeof cell, "%.150s[]", path);
        if (bn_json_get(items, "properties") != NULL) check_documented(items, cell, page);
    }
}

TEST(every_field_is_documented)
{
    bn_json *schema = load("ci/schemas/receipt.schema.json");
    struct bn_buf page = {.max = 1u << 20};
    must(bn_file_read("docs/reference/receipt.md", &page, NULL));
    check_documented(schema, "", page.data);
    bn_buf_release(&page);
    bn_json_free(schema);
}

TEST(a_receipt_says_what_ran)
{
    static const bn_sampler_options SAMPLED = {0,          0.7f, 40,   0.9f, 0.05f, 1.1f, 64,
                                               UINT64_MAX, 0.0f, 0.0f, NULL, 0,     0};
    static const char TEXT[] = "ROMEO:\nTo"; /* PROMPT */
    struct run run;
    const char *text = NULL;
    double number = 0;
    uint64_t count = 0;
    generate(&run, &SAMPLED, 5);
    run.in.prompt = TEXT;
    run.in.n_prompt_bytes = strlen(TEXT);
    run.in.show_text = true;
    run.in.bandwidth_bytes_per_s = 12345;
    bn_json *statement = build_good(&run);
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
    bn_json_free(statement);

    run.in.prompt = "NUL \0 inside";
    run.in.n_prompt_bytes = 12;
    run.in.show_path = true;
    statement = build(&run);
    assert_null(bn_json_path(statement, "predicate.request.prompt"));
    assert_true(bn_json_string(bn_json_path(statement, "predicate.model.path"), &text));
    assert_string_equal(text, "/some/where/model.gguf");
    assert_true(statement_verifies(statement));
    bn_json_free(statement);
    release(&run);
}

/* A thread whose share of the heads is empty counts no call; the kernel ran all the same. */
TEST(more_threads_than_heads_give_a_receipt)
{
    bn_session_options options = {.n_ctx = 64, .n_threads = 9};
    struct run run = {.gen = {.prompt = PROMPT,
                              .n_prompt = 1,
                              .n_predict = 2,
                              .sampling = BN_SAMPLER_OPTIONS_INIT,
                              .want_chain = true}};
    must(bn_session_open(&run.session, model, &options, NULL));
    must(bn_generate(run.session, bn_model_tokenizer(model), &run.gen, NULL));
    run.in = (struct bn_receipt_input){.model = model, .session = run.session, .generation = &run.gen};
    bn_json *statement = build(&run);
    assert_true(statement_verifies(statement));
    bn_json_free(statement);
    release(&run);
}

TEST(without_evidence_there_is_no_receipt)
{
    struct run run;
    bn_json *statement;
    generate(&run, &GREEDY, 3);
    size_t n_kernels = run.gen.n_kernels;
    run.gen.n_kernels = 0;
    refused(bn_receipt_build(&statement, &run.in, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "no receipt: no kernel was counted");
    assert_null(statement);
    run.gen.n_kernels = n_kernels;
    err = (bn_error){0};
    bn_generation_release(&run.gen); /* the next one follows it in the timeline */
    must(bn_generate(run.session, bn_model_tokenizer(model), &run.gen, NULL));
    refused(bn_receipt_build(&statement, &run.in, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "no receipt: the timeline had 6 tokens before the prompt");
    run.gen.n_ids = 0;
    refused(bn_receipt_build(&statement, &run.in, NULL), BN_ERR_ARG);
    release(&run);
}

TEST(short_memory_gives_no_receipt)
{
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
            must(bn_json_parse(&literal, value, strlen(value), NULL));
            bn_json_put_copy(object, dot + 1, literal);
            bn_json_free(literal);
        }
    }
    open_text(&receipt, statement);
    bn_status status = bn_receipt_replay(&receipt, model, 0, 0, &result, NULL);
    snprintf(outcome, sizeof outcome, "%s", status != BN_OK ? "error" : result.same ? "same" : result.reason);
    bn_receipt_release(&receipt);
    bn_json_free(statement);
    return outcome;
}

TEST(replay_sees_any_difference)
{
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
        {"model.n_layer", "7", "model.n_layer is not that of the model"},
        {"model.ternary_bytes", "1179649", "model.ternary_bytes is not"},
        {"model.head_bytes", "", "model.head_bytes is not"},
        {"model.n_ctx", "4096", "model.n_ctx is not"},
        {"model.arch", "\"llama\"", "model.arch is not"},
        {"model.quantization", "null", "model.quantization is not"},
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
    bn_sha256_hex(bytes, n, hex);
    bn_json_put_string(object, "sha256", hex);
}

/* One bit of one weight: the digest differs, and so does what the network computes. */
TEST(replay_sees_one_changed_weight)
{
    struct bn_file_map map;
    bn_model *changed;
    struct bn_receipt receipt;
    struct bn_replay_result result;
    bn_json *statement = greedy_receipt(16);
    must(bn_file_map_open(&map, MODEL, true, NULL));
    unsigned char *bytes = (unsigned char *)(uintptr_t)map.data;
    bytes[map.n_bytes - 100000] ^= 1;
    must(bn_model_open_memory(&changed, map.data, map.n_bytes, "changed", NULL, NULL));
    open_text(&receipt, statement);
    must(bn_receipt_replay(&receipt, changed, 0, 0, &result, NULL));
    assert_false(result.same);
    assert_has(result.reason, "sha256");
    bn_receipt_release(&receipt);
    claim_digest(statement, map.data, map.n_bytes);
    open_text(&receipt, statement);
    must(bn_receipt_replay(&receipt, changed, 0, 0, &result, NULL));
    assert_false(result.same);
    assert_true(strstr(result.reason, "token ") != NULL || strstr(result.reason, "chain") != NULL);
    bn_model_close(changed);
    bn_file_map_close(&map);
    bn_receipt_release(&receipt);
    bn_json_free(statement);
}

/* The receipt was made on other bytes than it names, and the file had the named ones when somebody took its
 * digest: the bytes that the replay reads count, and nothing that was hashed before. */
TEST(a_replay_hashes_the_bytes_that_it_reads)
{
    struct bn_file_map map;
    struct bn_receipt receipt;
    struct bn_replay_result result;
    struct run run;
    bn_model *right = model;
    must(bn_file_map_open(&map, MODEL, true, NULL));
    ((unsigned char *)(uintptr_t)map.data)[map.n_bytes - 100000] ^= 1;
    must(bn_model_open_memory(&model, map.data, map.n_bytes, "changed", NULL, NULL));
    generate(&run, &GREEDY, 8);
    bn_json *statement = build(&run);
    release(&run);
    open_text(&receipt, statement);
    must(bn_receipt_replay(&receipt, model, 0, 0, &result, NULL));
    assert_true(result.same);
    bn_receipt_release(&receipt);
    claim_digest(statement, right->bytes, right->n_bytes);
    open_text(&receipt, statement);
    must(bn_receipt_replay(&receipt, model, 0, 0, &result, NULL));
    assert_false(result.same);
    bn_receipt_release(&receipt);
    bn_json_free(statement);
    bn_model_close(model);
    bn_file_map_close(&map);
    model = right;
}

/* Another program may write to a file that is mapped, and what it writes is what the replay computes with. */
TEST(a_mapped_file_is_not_replayed)
{
    struct bn_receipt receipt;
    struct bn_replay_result result;
    bn_model *mapped;
    bn_json *statement = greedy_receipt(2);
    must(bn_model_open(&mapped, MODEL, NULL, NULL));
    open_text(&receipt, statement);
    refused(bn_receipt_replay(&receipt, mapped, 0, 0, &result, &err), BN_ERR_ARG);
    assert_false(result.same);
    bn_receipt_release(&receipt);
    bn_json_free(statement);
    bn_model_close(mapped);
}

TEST(rates_and_percentiles)
{
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
    bn_receipt_ids_digest(IDS, 2, hex);
    bn_sha256_hex("\1\0\0\0\4\3\2\1", 8, want);
    assert_string_equal(hex, want);
}

/* Checking a receipt takes at most ten times its size, so a tree that would take more is not completed.
 */
TEST(a_long_list_of_zeros_takes_little_memory)
{
    size_t n = (2u << 20) + 1;
    struct bn_receipt receipt;
    char *text = bn_alloc(n, 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = i == 0 ? '[' : i == n - 1 ? ']' : i % 2 == 1 ? '0' : ',';
    uint64_t before = bn_mem_stats().bytes_total;
    refused(bn_receipt_open(&receipt, text, n, NULL, NULL), BN_ERR_LIMIT);
    assert_true(bn_mem_stats().bytes_total - before <= 8 * n);
    bn_free(text);
}

GROUP(open_model, close_model)
