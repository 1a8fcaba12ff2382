/* SPDX-License-Identifier: MIT
 *
 * Generation under a grammar is what masking the whole vocabulary before the sampler gives, with any sampler, whether the
 * head is screened, tokens are drafted or other generations run beside it; and any number of threads.
 */
#include <math.h>

#include "base/digest.h"
#include "base/mem.h"
#include "grammar/matcher.h"
#include "infer/session.h"
#include "tests/unit/status.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define N_PREDICT 28u
#define PROMPT "ROMEO:\n"

static bn_model *models[2]; /* without and with copies of weights */

FIXTURE(open_all)
{
    for (int i = 0; i < 2; i++) {
        const bn_model_options options = {.repack = i == 0 ? BN_REPACK_NEVER : BN_REPACK_ALWAYS};
        must(bn_model_open(&models[i], MODEL, &options, NULL));
    }
}

FIXTURE(close_all)
{
    bn_model_close(models[0]);
    bn_model_close(models[1]);
}

static bn_grammar *open_grammar(const char *text)
{
    bn_grammar *g = NULL;
    bn_status status = attempt(text[0] == '{' ? bn_grammar_open_json_schema(&g, text, strlen(text), &err)
                                              : bn_grammar_open_gbnf(&g, text, strlen(text), &err));
    if (status != BN_OK) fail_msg("%s: %s", text, err.msg);
    return g;
}

static bn_session *open_session(const bn_model *model, uint32_t n_threads)
{
    bn_session *session = NULL;
    const bn_session_options options = {
        .n_ctx = 128, .n_batch = 32, .n_threads = n_threads, .exact_threads = true};
    must(bn_session_open(&session, model, &options, NULL));
    return session;
}

struct prompt {
    int32_t *ids;
    size_t n;
};

static struct prompt make_prompt(const bn_model *model)
{
    struct prompt p;
    must(bn_tokenize(bn_model_tokenizer(model), PROMPT, strlen(PROMPT), BN_TOKENIZE_BOS, &p.ids, &p.n, NULL));
    return p;
}

/* A matcher that has seen these tokens and nothing else. */
static struct bn_matcher *follow(const bn_model *model, const bn_grammar *g, const int32_t *ids, size_t n)
{
    const bn_tokenizer *tok = bn_model_tokenizer(model);
    struct bn_matcher *m = NULL;
    int32_t eos = bn_tokenizer_eos(tok);
    must(bn_matcher_open(&m, g, tok, bn_model_hparams(model)->n_vocab, &eos, 1, NULL));
    for (size_t i = 0; i < n; i++)
        assert_true(bn_matcher_take(m, ids[i]));
    return m;
}

/* Tokens by masking everything: each token of the vocabulary is tried after the text so far. */
static size_t define(const bn_model *model, const bn_grammar *g, const bn_sampler_options *sampling,
                     int32_t ids[N_PREDICT])
{
    const bn_tokenizer *tok = bn_model_tokenizer(model);
    size_t n_vocab = bn_model_hparams(model)->n_vocab, n = 0;
    bn_session *session = open_session(model, 1);
    struct prompt prompt = make_prompt(model);
    int32_t history[128], eos = bn_tokenizer_eos(tok);
    float *logits = bn_alloc(n_vocab, sizeof *logits);
    bn_sampler *sampler = NULL;
    bool complete = false;
    memcpy(history, prompt.ids, prompt.n * sizeof *history);
    bn_sampler_options options = *sampling;
    options.n_prompt = prompt.n;
    must(bn_sampler_open(&sampler, &options, n_vocab, NULL));
    must(bn_session_eval(session, prompt.ids, prompt.n, BN_LOGITS_LAST, logits, NULL));
    while (n < N_PREDICT && !complete) {
        struct bn_matcher *m = follow(model, g, ids, n);
        for (size_t id = 0; id < n_vocab; id++)
            if (!bn_matcher_allows(m, (int32_t)id)) logits[id] = -INFINITY;
        bn_matcher_close(m);
        int32_t id = bn_sampler_next(sampler, logits, history, prompt.n + n);
        assert_true(logits[id] > -INFINITY);
        history[prompt.n + n] = ids[n] = id;
        n++;
        m = follow(model, g, ids, n);
        complete = bn_matcher_is_complete(m) || id == eos;
        bn_matcher_close(m);
        if (!complete) must(bn_session_eval(session, &id, 1, BN_LOGITS_LAST, logits, NULL));
    }
    bn_sampler_close(sampler);
    bn_session_close(session);
    bn_free(logits);
    bn_free(prompt.ids);
    return n;
}

static bn_generation generate(const bn_model *model, uint32_t n_threads, const bn_grammar *g,
                              const bn_sampler_options *sampling, bool drafts)
{
    struct prompt prompt = make_prompt(model);
    bn_session *session = open_session(model, n_threads);
    bn_generation gen = {.prompt = prompt.ids,
                         .n_prompt = prompt.n,
                         .n_predict = N_PREDICT,
                         .sampling = *sampling,
                         .grammar = g,
                         .want_chain = true};
    if (drafts) gen.draft = (bn_draft_options){.kind = BN_DRAFT_NGRAM, .always = true};
    must(bn_generate(session, bn_model_tokenizer(model), &gen, &err));
    bn_session_close(session);
    bn_free(prompt.ids);
    return gen;
}

static const char *const GRAMMARS[] = {
    "root ::= \"{\" (\" \" [a-z]{1,4} \":\" [0-9]+ \";\"){2,9} \"}\"",
    "{\"type\": \"object\", \"properties\": {\"line\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}}, \"required\": [\"line\", \"n\"]}",
    "root ::= (\"What, \" | \"\xc3\xa9\" | [A-Z] [a-z ]{0,9} \"!\"){3,}",
};

static bn_sampler_options sampler_of(unsigned i)
{
    static const bn_candidate BIAS[] = {{11, -100.0f}, {25, 1.5f}};
    bn_sampler_options o = BN_SAMPLER_OPTIONS_INIT;
    if (i > 0) o.temperature = 1.1f;
    if (i == 2) o.top_k = 5;
    if (i == 3) o.top_p = 0.8f;
    if (i == 4) o.min_p = 0.1f;
    if (i == 4) o.top_k = 40;
    if (i == 5) o.repeat_penalty = 1.3f;
    if (i == 5) o.top_k = 8;
    if (i >= 6) o.presence_penalty = 0.9f;
    if (i >= 6) o.frequency_penalty = 0.4f;
    if (i == 6) o.temperature = 0.0f;
    if (i == 7) o.bias = BIAS;
    if (i == 7) o.n_bias = 2;
    o.repeat_last = 64;
    o.seed = 7 + i;
    return o;
}

static bool same(const bn_generation *gen, const int32_t *ids, size_t n)
{
    return gen->n_ids == n && memcmp(gen->ids, ids, n * sizeof *ids) == 0;
}

TEST(it_is_masking_before_the_sampler)
{
    uint64_t n_again = 0, n_screened = 0, n_drafts = 0;
    for (size_t k = 0; k < BN_ARRAY_LEN(GRAMMARS); k++) {
        bn_grammar *g = open_grammar(GRAMMARS[k]);
        for (unsigned i = 0; i < 8; i++) {
            int32_t ids[N_PREDICT];
            bn_sampler_options sampling = sampler_of(i);
            size_t n = define(models[0], g, &sampling, ids);
            char chain[65] = "";
            for (unsigned how = 0; how < 4; how++) {
                bn_generation gen = generate(models[how & 1], 1 + (how & 1), g, &sampling, how >= 2);
                if (!same(&gen, ids, n)) fail_msg("%s: sampler %u, way %u", GRAMMARS[k], i, how);
                if (how > 0) assert_string_equal(gen.chain, chain);
                memcpy(chain, gen.chain, sizeof chain);
                n_again += gen.screen.again;
                n_screened += gen.screen.screened;
                n_drafts += gen.drafts.accepted;
                bn_generation_release(&gen);
            }
        }
        bn_grammar_close(g);
    }
    assert_true(n_again > 0 && n_screened > 0 && n_drafts > 0); /* all ways were taken */
}

/* The comparison above sees another choice of one token. */
TEST(a_wrong_mask_is_seen)
{
    int32_t ids[N_PREDICT];
    const char *first;
    char text[64];
    bn_sampler_options sampling = sampler_of(0);
    bn_grammar *g = open_grammar("root ::= [a-zA-Z ]{30}");
    size_t n = define(models[0], g, &sampling, ids);
    bn_generation gen = generate(models[0], 1, g, &sampling, false);
    assert_true(same(&gen, ids, n));
    bn_generation_release(&gen);
    assert_true(bn_token_bytes(bn_model_tokenizer(models[0]), ids[0], &first) > 0);
    snprintf(text, sizeof text, "root ::= [%s] [a-zA-Z ]{29}", first[0] == ' ' ? "a-z" : " ");
    bn_grammar *other = open_grammar(text);
    gen = generate(models[0], 1, other, &sampling, false);
    assert_false(same(&gen, ids, n));
    bn_generation_release(&gen);
    bn_grammar_close(g);
    bn_grammar_close(other);
}

/* ---- reasons to stop ---- */

static bn_stop_reason reason_of(const char *text, bool ignore_end, uint32_t n_predict, char *out, size_t room)
{
    bn_grammar *g = open_grammar(text);
    struct prompt prompt = make_prompt(models[0]);
    bn_session *session = open_session(models[0], 1);
    bn_generation gen = {.prompt = prompt.ids,
                         .n_prompt = prompt.n,
                         .n_predict = n_predict,
                         .grammar = g,
                         .ignore_end = ignore_end};
    char *shown;
    size_t n;
    must(bn_generate(session, bn_model_tokenizer(models[0]), &gen, NULL));
    must(bn_detokenize(bn_model_tokenizer(models[0]), gen.ids, gen.n_ids, false, &shown, &n, NULL));
    snprintf(out, room, "%s", shown);
    bn_stop_reason reason = gen.reason;
    bn_free(shown);
    bn_generation_release(&gen);
    bn_session_close(session);
    bn_free(prompt.ids);
    bn_grammar_close(g);
    return reason;
}

TEST(reasons_are_told_apart)
{
    char text[200];
    assert_int_equal(reason_of("root ::= \"yes\" | \"no\"", false, 20, text, sizeof text), BN_STOP_GRAMMAR);
    assert_true(strcmp(text, "yes") == 0 || strcmp(text, "no") == 0);
    assert_int_equal(reason_of("root ::= \"abcdefghijklmnopqrstuvwxyz\"", false, 3, text, sizeof text),
                     BN_STOP_LENGTH);
    assert_memory_equal("abcdefghijklmnopqrstuvwxyz", text, strlen(text));
    /* The text may end, and may go on: the model decides. Without end tokens it goes on. */
    assert_int_equal(reason_of("root ::= \"a\"*", true, 20, text, sizeof text), BN_STOP_LENGTH);
    assert_string_equal(bn_stop_reason_name(BN_STOP_GRAMMAR), "grammar");
    assert_string_equal(bn_stop_reason_name(BN_STOP_STUCK), "stuck");
}

/* A byte that leads to too many places is not allowed, so nothing is; that is a reason, not an error of the engine. */
TEST(nothing_allowed_is_a_reason)
{
    char text[200];
    struct bn_buf grammar = {.max = 1u << 20};
    bn_buf_puts(&grammar, "root ::= \"a\" (\"b\"");
    for (unsigned i = 0; i < BN_MATCHER_MAX_PLACES; i++)
        bn_buf_puts(&grammar, "|\"b\"");
    bn_buf_puts(&grammar, ")");
    assert_int_equal(reason_of(grammar.data, false, 20, text, sizeof text), BN_STOP_STUCK);
    assert_string_equal(text, "");
    bn_buf_release(&grammar);
}

/* A grammar needs text, and something to say. */
TEST(bad_requests_are_refused)
{
    struct prompt prompt = make_prompt(models[0]);
    bn_session *session = open_session(models[0], 1);
    bn_grammar *g = open_grammar("root ::= \"\"");
    bn_generation gen = {.prompt = prompt.ids, .n_prompt = prompt.n, .n_predict = 4, .grammar = g};
    refused(bn_generate(session, bn_model_tokenizer(models[0]), &gen, &err), BN_ERR_ARG);
    assert_has(err.msg, "empty text");
    refused(bn_generate(session, NULL, &gen, &err), BN_ERR_ARG);
    assert_has(err.msg, "vocabulary");
    bn_grammar_close(g);
    bn_session_close(session);
    bn_free(prompt.ids);
}

/* The chain names the grammar: the same tokens under another one have another chain. */
TEST(the_chain_names_the_grammar)
{
    bn_sampler_options sampling = sampler_of(0);
    bn_grammar *g = open_grammar("root ::= \"abc\""), *other = open_grammar("root ::= \"abc\" #");
    bn_generation a = generate(models[0], 1, g, &sampling, false),
                  b = generate(models[0], 1, other, &sampling, false);
    assert_true(same(&a, b.ids, b.n_ids));
    assert_string_not_equal(a.chain, b.chain);
    bn_generation_release(&a);
    bn_generation_release(&b);
    bn_grammar_close(g);
    bn_grammar_close(other);
}

/* A grammar whose texts can be read in very many ways. */
static bn_grammar *open_dear(void)
{
    struct bn_buf text = {.max = 1u << 16};
    bn_buf_puts(&text, "root ::= x* \"~\"\nx ::= ");
    for (unsigned i = 2; i < 62; i++)
        bn_buf_printf(&text, "%s[^%c%c~]{%u}", i > 2 ? " | " : "", 'a' + (int)(i % 26),
                      'a' + (int)(i * 7 % 26), i);
    bn_grammar *g = open_grammar(text.data);
    bn_buf_release(&text);
    return g;
}

/* Generations with and without grammars beside each other are those that run alone. */
TEST(neighbours_change_nothing)
{
    enum { N = 5 };
    struct prompt prompt = make_prompt(models[1]);
    bn_session *session = open_session(models[1], 2);
    bn_scheduler *scheduler = NULL;
    bn_sequence *sequences[N];
    bn_grammar *grammars[N] = {open_grammar(GRAMMARS[0]), open_grammar(GRAMMARS[1]), NULL,
                               open_grammar(GRAMMARS[2]), open_dear()};
    bn_generation gens[N];
    must(bn_scheduler_open(&scheduler, session, bn_model_tokenizer(models[1]), N, NULL));
    for (unsigned i = 0; i < N; i++) {
        gens[i] = (bn_generation){.prompt = prompt.ids,
                                  .n_prompt = prompt.n,
                                  .n_predict = N_PREDICT,
                                  .sampling = sampler_of(i == 1 ? 0 : i),
                                  .grammar = grammars[i],
                                  .want_chain = true};
        must(bn_sequence_open(&sequences[i], session, 0, NULL));
        must(bn_scheduler_add(scheduler, sequences[i], &gens[i], NULL));
    }
    while (bn_scheduler_n_running(scheduler) > 0) {
        must(bn_scheduler_step(scheduler, NULL));
        while (bn_scheduler_take(scheduler) != NULL)
            ;
    }
    for (unsigned i = 0; i < N; i++) {
        bn_generation alone = generate(models[0], 1, grammars[i], &gens[i].sampling, false);
        assert_true(same(&alone, gens[i].ids, gens[i].n_ids));
        assert_string_equal(alone.chain, gens[i].chain);
        bn_generation_release(&alone);
        bn_generation_release(&gens[i]);
        bn_sequence_close(sequences[i]);
        bn_grammar_close(grammars[i]);
    }
    bn_scheduler_close(scheduler);
    bn_session_close(session);
    bn_free(prompt.ids);
}

/* A grammar that takes much work delays its own generation: the others get a token in each pass, and all passes together do
 * no more work on grammars than a token's each, but for what one call does at a time. Its tokens are those that it gets
 * alone. */
TEST(a_dear_grammar_delays_itself_alone)
{
    enum { N = 4, PLAIN = N - 1, CHEAP = N - 2 };
    struct prompt prompt = make_prompt(models[1]);
    bn_session *session = open_session(models[1], 2);
    bn_scheduler *scheduler = NULL;
    bn_sequence *sequences[N];
    bn_grammar *dear = open_dear(), *cheap = open_grammar(GRAMMARS[1]);
    bn_generation gens[N];
    const bn_generation *ended = NULL;
    size_t n_steps = 0, n_ids[N] = {0};
    must(bn_scheduler_open(&scheduler, session, bn_model_tokenizer(models[1]), N, NULL));
    for (unsigned i = 0; i < N; i++) {
        gens[i] = (bn_generation){.prompt = prompt.ids,
                                  .n_prompt = prompt.n,
                                  .n_predict = i == PLAIN ? 20 : 100,
                                  .sampling = sampler_of(1 + i),
                                  .grammar = i == PLAIN   ? NULL
                                             : i == CHEAP ? cheap
                                                          : dear,
                                  .want_chain = true};
        must(bn_sequence_open(&sequences[i], session, 0, NULL));
        must(bn_scheduler_add(scheduler, sequences[i], &gens[i], NULL));
    }
    for (; ended == NULL; ended = bn_scheduler_take(scheduler), n_steps++)
        must(bn_scheduler_step(scheduler, NULL));
    assert_ptr_equal(ended, &gens[PLAIN]);
    assert_in_range(n_steps, 20, 22);
    assert_true(gens[CHEAP].n_ids >= 10);
    for (unsigned i = 0; i < N; i++)
        n_ids[i] = gens[i].n_ids;
    for (unsigned i = 0; i < CHEAP; i++)
        bn_scheduler_cancel(scheduler, &gens[i]);
    uint64_t cost = gens[0].grammar_cost + gens[1].grammar_cost;
    assert_in_range(cost, 4, n_steps + 8);
    bn_scheduler_close(scheduler); /* releases those that run */
    bn_generation_release(&gens[PLAIN]);

    /* Alone it gets further, by the same tokens, and pays for them. */
    bn_generation alone = generate(models[0], 1, dear, &gens[0].sampling, false);
    assert_true(n_ids[0] < alone.n_ids / 2);
    assert_true(alone.grammar_cost > 4 * alone.n_ids);
    bn_generation again = generate(models[1], 2, dear, &gens[0].sampling, true);
    assert_true(same(&again, alone.ids, alone.n_ids));
    assert_string_equal(again.chain, alone.chain);
    bn_generation_release(&alone);
    bn_generation_release(&again);
    for (unsigned i = 0; i < N; i++)
        bn_sequence_close(sequences[i]);
    bn_session_close(session);
    bn_grammar_close(dear);
    bn_grammar_close(cheap);
    bn_free(prompt.ids);
}

GROUP(open_all, close_all)
