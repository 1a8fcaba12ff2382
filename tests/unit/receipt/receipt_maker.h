/* SPDX-License-Identifier: MIT
 *
 * A run of the built-in model and its receipt, for tests of receipts.
 */
#ifndef BN_TESTS_RECEIPT_MAKER_H
#define BN_TESTS_RECEIPT_MAKER_H

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/rules.h"
#include "model/model.h"
#include "tests/unit/status.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"

static bn_model *model;

static inline int open_model(void **state)
{
    (void)state;
    static const bn_model_options COPY = {.no_mmap = true};
    return bn_model_open(&model, MODEL, &COPY, NULL) == BN_OK ? 0 : -1;
}

static inline int close_model(void **state)
{
    (void)state;
    bn_model_close(model);
    return 0;
}

/* ---- a run, and its receipt ---- */

static const int32_t PROMPT[] = {845, 25, 198, 404};
static const bn_sampler_options GREEDY = BN_SAMPLER_OPTIONS_INIT;

struct run {
    bn_session *session;
    struct bn_generation gen;
    struct bn_receipt_input in;
};

static inline void generate(struct run *run, const bn_sampler_options *sampling, uint32_t n_predict)
{
    bn_session_options options = {.n_ctx = 64, .n_batch = 3, .n_threads = 2, .exact_threads = true};
    *run = (struct run){.gen = {.prompt = PROMPT,
                                .n_prompt = BN_ARRAY_LEN(PROMPT),
                                .n_predict = n_predict,
                                .sampling = *sampling,
                                .want_chain = true}};
    must(bn_session_open(&run->session, model, &options, NULL));
    must(bn_generate(run->session, bn_model_tokenizer(model), &run->gen, NULL));
    run->in = (struct bn_receipt_input){.model = model,
                                        .session = run->session,
                                        .generation = &run->gen,
                                        .model_name = "/some/where/model.gguf",
                                        .template_name = "raw",
                                        .isa = "auto"};
}

static inline void release(struct run *run)
{
    bn_generation_release(&run->gen);
    bn_session_close(run->session);
}

static inline bn_json *build(struct run *run)
{
    bn_json *statement;
    must(bn_receipt_build(&statement, &run->in, &err));
    return statement;
}

static inline bn_json *greedy_receipt(uint32_t n_predict)
{
    struct run run;
    generate(&run, &GREEDY, n_predict);
    bn_json *statement = build(&run);
    release(&run);
    return statement;
}

static inline void to_text(const bn_json *value, bool canonical, struct bn_buf *text)
{
    *text = (struct bn_buf){.max = BN_JSON_MAX_BYTES};
    must(bn_json_write(value, canonical, text, NULL));
}

static inline void open_text(struct bn_receipt *receipt, const bn_json *statement)
{
    struct bn_buf text;
    to_text(statement, false, &text);
    must(bn_receipt_open(receipt, text.data, text.len, NULL, NULL));
    bn_buf_release(&text);
}

static inline bool verifies(const struct bn_receipt *receipt)
{
    struct bn_receipt_policy policy;
    struct bn_rules_report report;
    bn_receipt_policy_defaults(&policy);
    struct bn_rules_input in = {.receipt = receipt, .policy = &policy, .now_utc = bn_clock_utc()};
    must(bn_rules_run(&report, &in, NULL));
    return report.verified;
}

/* The same of a statement, as it is now. */
static inline bool statement_verifies(const bn_json *statement)
{
    struct bn_receipt receipt;
    open_text(&receipt, statement);
    bool ok = verifies(&receipt);
    bn_receipt_release(&receipt);
    return ok;
}

/* The receipt of a run, which verifies and replays. */
static inline bn_json *build_good(struct run *run)
{
    bn_json *statement = build(run);
    struct bn_receipt receipt;
    struct bn_replay_result result;
    assert_true(statement_verifies(statement));
    open_text(&receipt, statement);
    must(bn_receipt_replay(&receipt, model, 1, 7, &result, NULL));
    if (!result.same) print_message("%s\n", result.reason);
    assert_true(result.same && result.chain);
    bn_receipt_release(&receipt);
    return statement;
}

#endif
