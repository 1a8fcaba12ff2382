/* SPDX-License-Identifier: MIT
 *
 * Receipts of generations whose work is not that of their tokens alone: prompts from a file, drafted tokens, copies of
 * weights that are made meanwhile.
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/unit/folder.h"
#include "tests/unit/receipt/receipt_maker.h"

/* Puts a number of cached tokens into the receipt; SIZE_MAX removes it. */
static bool verifies_with_cached(bn_json *statement, size_t n)
{
    bn_json *measurement = (bn_json *)(uintptr_t)bn_json_path(statement, "predicate.measurement");
    bn_json_remove(measurement, "cached_tokens");
    if (n != SIZE_MAX) bn_json_put_u64(measurement, "cached_tokens", n);
    must(bn_receipt_seal(statement, NULL));
    return statement_verifies(statement);
}

/* The work of a receipt is that of the tokens which were evaluated; the tokens and the chain are those of all. */
TEST_IN(a_receipt_says_what_was_cached, make_folder, remove_folder)
{
    static const bn_sampler_options SAMPLED = {0, 0.7f, 40, 0.9f, 0.05f, 1.1f, 64, 5, 0.0f, 0.0f, NULL, 0, 0};
    const bn_session_options options = {.n_ctx = 64, .n_batch = 2, .n_threads = 2};
    struct run whole, run;
    const char *path = below("cache");
    uint32_t n_kept = 0;
    generate(&whole, &SAMPLED, 5);
    must(bn_session_save(whole.session, BN_ARRAY_LEN(PROMPT), path, NULL));
    run = whole;
    must(bn_session_open(&run.session, model, &options, NULL));
    must(bn_session_load(run.session, path, PROMPT, BN_ARRAY_LEN(PROMPT) - 1, &n_kept, NULL));
    assert_int_equal(n_kept, BN_ARRAY_LEN(PROMPT) - 1);
    run.gen.n_ids = 0;
    run.gen.n_cached = n_kept;
    must(bn_generate(run.session, bn_model_tokenizer(model), &run.gen, NULL));
    assert_string_equal(run.gen.chain, whole.gen.chain);
    run.in.session = run.session;
    run.in.generation = &run.gen;
    bn_json *statement = build_good(&run);
    assert_true(verifies_with_cached(statement, n_kept));
    assert_false(verifies_with_cached(statement, SIZE_MAX));
    assert_false(verifies_with_cached(statement, n_kept - 1));
    assert_false(verifies_with_cached(statement, n_kept + 1));
    bn_json_free(statement);
    release(&run);
    release(&whole);
}

/* Whether the receipt verifies with another number at a path of "measurement". */
static bool verifies_with(bn_json *statement, const char *object, const char *name, uint64_t value)
{
    char path[64];
    uint64_t old = 0;
    snprintf(path, sizeof path, "predicate.measurement.%s", object);
    bn_json *o = (bn_json *)(uintptr_t)bn_json_path(statement, path);
    assert_true(bn_json_u64(bn_json_get(o, name), &old));
    bn_json_remove(o, name);
    bn_json_put_u64(o, name, value);
    must(bn_receipt_seal(statement, NULL));
    bool ok = statement_verifies(statement);
    bn_json_remove(o, name);
    bn_json_put_u64(o, name, old);
    return ok;
}

/* The work is that of the passes with drafts, and no other number of drafts explains it. */
TEST(a_receipt_says_what_was_drafted)
{
    const bn_session_options options = {.n_ctx = 128, .n_batch = 3, .n_threads = 2};
    static const int32_t AGAIN[] = {845, 25, 198, 404, 11, 845, 25, 198, 404, 11, 845, 25};
    struct run run = {.gen = {.prompt = AGAIN,
                              .n_prompt = BN_ARRAY_LEN(AGAIN),
                              .n_predict = 40,
                              .sampling = BN_SAMPLER_OPTIONS_INIT,
                              .ignore_end = true,
                              .want_chain = true,
                              .draft = {.kind = BN_DRAFT_NGRAM, .most = 2, .always = true}}};
    must(bn_session_open(&run.session, model, &options, NULL));
    must(bn_generate(run.session, bn_model_tokenizer(model), &run.gen, NULL));
    const bn_draft_stat *d = &run.gen.drafts;
    const bn_work *w = &run.gen.work;
    assert_true(d->passes > 1 && d->accepted > 0 && d->accepted < d->drafted);
    run.in = (struct bn_receipt_input){.model = model, .session = run.session, .generation = &run.gen};
    bn_json *statement = build_good(&run);
    const struct {
        const char *object, *name;
        uint64_t value;
    } FAULTS[] = {
        {"drafts", "drafted", d->drafted + 1},   {"drafts", "drafted", d->accepted - 1},
        {"drafts", "accepted", d->accepted - 1}, {"drafts", "accepted", d->accepted + 1},
        {"drafts", "passes", d->passes - 1},     {"drafts", "passes", 9007199254740991},
        {"drafts", "drafted", 9007199254740991}, {"drafts", "accepted", 9007199254740991},
        {"work", "attended", w->attended + 1},   {"work", "attended", 1u << 30},
        {"work", "passes", w->passes - 1},       {"work", "heads", w->heads + 1},
    };
    assert_true(verifies_with(statement, "drafts", "drafted", d->drafted));
    for (size_t i = 0; i < BN_ARRAY_LEN(FAULTS); i++)
        assert_false(verifies_with(statement, FAULTS[i].object, FAULTS[i].name, FAULTS[i].value));
    bn_json_remove((bn_json *)(uintptr_t)bn_json_path(statement, "predicate.measurement"), "drafts");
    must(bn_receipt_seal(statement, NULL));
    assert_false(statement_verifies(statement));
    bn_json_free(statement);
    release(&run);
}

static bool repack(void *user, int32_t id, const char *text, size_t n_bytes)
{
    (void)id, (void)text, (void)n_bytes;
    bn_model_repack(user);
    return true;
}

/* Whether a changed number of bytes is seen. */
static bool sees_packed_bytes(bn_json *statement, uint64_t bytes)
{
    bn_json_put_u64((bn_json *)(uintptr_t)bn_json_path(statement, "predicate.resolved"), "packed_bytes",
                    bytes);
    must(bn_receipt_seal(statement, NULL));
    return !statement_verifies(statement);
}

/* Some tokens were computed from the file's weights, the others from the copies. */
TEST(copies_made_between_tokens_are_in_the_receipt)
{
    static const bn_model_options LATER = {.no_mmap = true, .repack = BN_REPACK_ALWAYS, .repack_later = true};
    bn_model *own = NULL;
    bn_session_options options = {.n_ctx = 64, .n_threads = 2};
    struct run run = {.gen = {.prompt = PROMPT,
                              .n_prompt = BN_ARRAY_LEN(PROMPT),
                              .n_predict = 30,
                              .sampling = BN_SAMPLER_OPTIONS_INIT,
                              .on_token = repack,
                              .want_chain = true}};
    must(bn_model_open(&own, MODEL, &LATER, NULL));
    run.gen.user = own;
    must(bn_session_open(&run.session, own, &options, NULL));
    must(bn_generate(run.session, bn_model_tokenizer(own), &run.gen, NULL));
    run.in = (struct bn_receipt_input){.model = own, .session = run.session, .generation = &run.gen};
    bn_json *statement = build(&run);
    struct bn_buf text;
    to_text(bn_json_path(statement, "predicate.measurement"), false, &text);
    assert_has(text.data, "ternary_gemv_");
    assert_has(text.data, "t5_gemv_");
    bn_buf_release(&text);
    bn_screen_stat screen = bn_session_screen_stat(run.session);
    assert_true(screen.full > 0 && screen.screened > 0 && screen.full + screen.screened == 30);
    assert_false(sees_packed_bytes(statement, own->packed_bytes));
    assert_true(sees_packed_bytes(statement, own->packed_bytes + 1));
    assert_true(sees_packed_bytes(statement, 0));
    bn_json_free(statement);
    release(&run);
    bn_model_close(own);
}

GROUP(open_model, close_model)
