/* SPDX-License-Identifier: MIT
 *
 * Several sequences in one pass: each gets the bits that it gets alone, whatever joins or leaves.
 */
#include <glob.h>

#include "base/mem.h"
#include "infer/session.h"
#include "kernels/kernels.h"
#include "tests/unit/status.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define N_SEQUENCES 6u
#define N_TOKENS 24u /* of each */
#define N_BATCH 16u

static uint32_t next_random(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

static bn_model *common; /* of all tests that need one model */

FIXTURE(open_common)
{
    must(bn_model_open(&common, MODEL, NULL, &err));
}

FIXTURE(close_common)
{
    bn_model_close(common);
}

static bn_session *open_session(const bn_model *model, uint32_t n_ctx, uint32_t n_batch, uint32_t n_threads)
{
    bn_session *session = NULL;
    bn_session_options options = {
        .n_ctx = n_ctx, .n_batch = n_batch, .n_threads = n_threads, .exact_threads = true};
    must(bn_session_open(&session, model, &options, &err));
    return session;
}

struct texts {
    int32_t ids[N_SEQUENCES][N_TOKENS];
    size_t n_vocab, n_embd;
    float *logits[N_SEQUENCES], *hidden[N_SEQUENCES]; /* N_TOKENS rows, each sequence evaluated alone */
};

static void make_texts(struct texts *t, bn_model *model)
{
    uint64_t state = 11;
    t->n_vocab = bn_model_hparams(model)->n_vocab;
    t->n_embd = bn_model_hparams(model)->n_embd;
    for (size_t k = 0; k < N_SEQUENCES; k++) {
        bn_session *session = open_session(model, N_TOKENS, N_TOKENS, 1);
        for (size_t i = 0; i < N_TOKENS; i++)
            t->ids[k][i] = (int32_t)next_random(&state, (uint32_t)t->n_vocab);
        t->logits[k] = bn_alloc(N_TOKENS * t->n_vocab, sizeof(float));
        t->hidden[k] = bn_alloc(N_TOKENS * t->n_embd, sizeof(float));
        must(bn_session_eval(session, t->ids[k], N_TOKENS, BN_LOGITS_ALL, t->logits[k], &err));
        for (size_t i = 0; i < N_TOKENS; i++)
            memcpy(t->hidden[k] + i * t->n_embd, bn_session_hidden_row(session, i),
                   t->n_embd * sizeof(float));
        bn_session_close(session);
    }
}

static void release_texts(struct texts *t)
{
    for (size_t k = 0; k < N_SEQUENCES; k++) {
        bn_free(t->logits[k]);
        bn_free(t->hidden[k]);
    }
}

/* A pass: sequences take part at random with up to four tokens, and want all rows, the last or none. */
struct round {
    bn_batch_part parts[N_SEQUENCES];
    size_t of[N_SEQUENCES], n;
};

static struct round make_round(const struct texts *t, bn_sequence **sequences, uint64_t *state)
{
    struct round round = {.n = 0};
    size_t room = N_BATCH;
    for (size_t k = 0; k < N_SEQUENCES; k++) {
        uint32_t at = bn_sequence_position(sequences[k]);
        size_t n = bn_min_size(bn_min_size(next_random(state, 5), N_TOKENS - at), room);
        if (n == 0) continue;
        static const bn_logits WHICH[] = {BN_LOGITS_ALL, BN_LOGITS_LAST, BN_LOGITS_NONE, BN_LOGITS_ALL};
        round.of[round.n] = k;
        round.parts[round.n++] =
            (bn_batch_part){sequences[k], &t->ids[k][at], n, WHICH[next_random(state, 4)]};
        room -= n;
    }
    return round;
}

/* Every row that the pass made is the row that the sequence has alone. */
static void check_round(const struct texts *t, const bn_session *session, const struct round *round,
                        const float *logits, const char *path)
{
    size_t row = 0;
    for (size_t i = 0; i < round->n; i++) {
        const bn_batch_part *part = &round->parts[i];
        size_t k = round->of[i], end = bn_sequence_position(part->sequence),
               first = part->which == BN_LOGITS_ALL    ? end - part->n_tokens
                       : part->which == BN_LOGITS_LAST ? end - 1
                                                       : end;
        for (size_t at = first; at < end; at++, row++) {
            const float *hidden = bn_session_hidden_row(session, row);
            assert_non_null(hidden);
            if (memcmp(hidden, t->hidden[k] + at * t->n_embd, t->n_embd * sizeof(float)) != 0 ||
                memcmp(logits + row * t->n_vocab, t->logits[k] + at * t->n_vocab,
                       t->n_vocab * sizeof(float)) != 0)
                fail_msg("%s: sequence %zu differs at position %zu", path, k, at);
        }
    }
    assert_null(bn_session_hidden_row(session, row));
}

static void run_together(const struct texts *t, bn_model *model, uint32_t n_threads, const char *path)
{
    bn_session *session = open_session(model, N_TOKENS, N_BATCH, n_threads);
    bn_sequence *sequences[N_SEQUENCES];
    float *logits = bn_alloc(N_BATCH * t->n_vocab, sizeof *logits);
    sequences[0] = bn_session_sequence(session);
    for (size_t k = 1; k < N_SEQUENCES; k++)
        must(bn_sequence_open(&sequences[k], session, 0, &err));
    uint64_t state = 5;
    for (;;) {
        struct round round = make_round(t, sequences, &state);
        size_t n_done = 0;
        for (size_t k = 0; k < N_SEQUENCES; k++)
            n_done += bn_sequence_position(sequences[k]) == N_TOKENS;
        if (n_done == N_SEQUENCES) break;
        if (round.n == 0) continue;
        must(bn_session_eval_batch(session, round.parts, round.n, 0, logits, &err));
        check_round(t, session, &round, logits, path);
    }
    for (size_t k = 1; k < N_SEQUENCES; k++)
        bn_sequence_close(sequences[k]);
    bn_session_close(session);
    bn_free(logits);
}

static void check_model(const char *path)
{
    bn_model *model = NULL;
    struct texts texts;
    if (bn_model_open(&model, path, NULL, &err) != BN_OK) fail_msg("%s: %s: %s", path, err.where, err.msg);
    make_texts(&texts, model);
    for (size_t k = 0; bn_kernels_built(k) != NULL; k++) {
        if (!bn_kernels_supported(bn_kernels_built(k))) continue;
        model->kernels = bn_kernels_built(k);
        run_together(&texts, model, (uint32_t)(1 + k % 3), path);
    }
    release_texts(&texts);
    bn_model_close(model);
}

TEST(sequences_do_not_change_each_other)
{
    glob_t found;
    assert_int_equal(glob("fixtures/*.gguf", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 1);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_model(found.gl_pathv[i]);
    globfree(&found);
}

TEST(the_test_sees_another_sequence)
{
    struct texts texts;
    make_texts(&texts, common);
    size_t row = (N_TOKENS - 1) * texts.n_vocab;
    assert_memory_not_equal(texts.logits[0] + row, texts.logits[1] + row, texts.n_vocab * sizeof(float));
    release_texts(&texts);
}

TEST(bad_batches_change_nothing)
{
    bn_session *session = open_session(common, 32, 8, 1);
    bn_sequence *other = NULL, *too_long = NULL;
    int32_t ids[16] = {1, 2, 3}, bad[] = {1, -1};
    refused(bn_sequence_open(&too_long, session, 33, &err), BN_ERR_LIMIT);
    bn_mem_set_budget(1000);
    refused(bn_sequence_open(&too_long, session, 32, &err), BN_ERR_NOMEM);
    assert_has(err.msg, "are available");
    bn_mem_set_budget(0);
    must(bn_sequence_open(&other, session, 4, &err));
    bn_sequence *own = bn_session_sequence(session);
    const bn_batch_part twice[] = {{own, ids, 1, BN_LOGITS_NONE}, {own, ids, 1, BN_LOGITS_NONE}},
                        large[] = {{own, ids, 5, BN_LOGITS_NONE}, {other, ids, 4, BN_LOGITS_NONE}},
                        wrong[] = {{own, ids, 2, BN_LOGITS_NONE}, {other, bad, 2, BN_LOGITS_NONE}},
                        full[] = {{own, ids, 2, BN_LOGITS_NONE}, {other, ids, 5, BN_LOGITS_NONE}};
    refused(bn_session_eval_batch(session, NULL, 0, 0, NULL, &err), BN_ERR_ARG);
    refused(bn_session_eval_batch(session, twice, 2, 0, NULL, &err), BN_ERR_ARG);
    assert_has(err.msg, "parts 0 and 1 are of the same sequence");
    refused(bn_session_eval_batch(session, large, 2, 0, NULL, &err), BN_ERR_LIMIT);
    refused(bn_session_eval_batch(session, wrong, 2, 0, NULL, &err), BN_ERR_ARG);
    refused(bn_session_eval_batch(session, full, 2, 0, NULL, &err), BN_ERR_LIMIT);
    assert_int_equal(bn_session_position(session), 0);
    assert_int_equal(bn_sequence_position(other), 0);
    bn_sequence_close(other);
    bn_session_close(session);
}

#define N_GENERATIONS 7u

/* Request k: a prompt and a sampler of its own; longer prompts than a batch are among them. */
static bn_generation make_request(const int32_t *ids, size_t k)
{
    bn_generation gen = {.prompt = ids + k,
                         .n_prompt = 1 + 5 * k,
                         .n_predict = (uint32_t)(3 + 4 * (k % 4)),
                         .sampling = BN_SAMPLER_OPTIONS_INIT,
                         .want_chain = true,
                         .n_top = 3};
    gen.sampling.temperature = k % 2 == 0 ? 0.0f : 1.1f;
    gen.sampling.seed = 40 + k;
    return gen;
}

/* Runs the requests with at most three at a time, so that some wait and take the place of those that end. */
static void run_scheduled(bn_session *session, bn_generation *gens, double slowdown)
{
    bn_scheduler *sched = NULL;
    bn_sequence *sequences[3] = {bn_session_sequence(session)};
    const bn_generation *on[3] = {NULL};
    for (size_t i = 1; i < BN_ARRAY_LEN(sequences); i++)
        must(bn_sequence_open(&sequences[i], session, 0, &err));
    must(bn_scheduler_open(&sched, session, NULL, 3, &err));
    bn_scheduler_set_slowdown(sched, slowdown);
    size_t n_started = 0;
    do {
        for (size_t i = 0; i < BN_ARRAY_LEN(sequences) && n_started < N_GENERATIONS; i++) {
            if (on[i] != NULL) continue;
            must(bn_sequence_truncate(sequences[i], 0, &err));
            must(bn_scheduler_add(sched, sequences[i], &gens[n_started], &err));
            on[i] = &gens[n_started++];
        }
        must(bn_scheduler_step(sched, &err));
        const bn_generation *ended;
        while ((ended = bn_scheduler_take(sched)) != NULL)
            for (size_t i = 0; i < BN_ARRAY_LEN(sequences); i++)
                if (on[i] == ended) on[i] = NULL;
    } while (bn_scheduler_n_running(sched) > 0 || n_started < N_GENERATIONS);
    bn_scheduler_close(sched);
    for (size_t i = 1; i < BN_ARRAY_LEN(sequences); i++)
        bn_sequence_close(sequences[i]);
}

/* Together they give what each gives alone. */
static void check_together(bn_session *session, const int32_t *ids, double slowdown)
{
    bn_generation together[N_GENERATIONS];
    for (size_t k = 0; k < N_GENERATIONS; k++)
        together[k] = make_request(ids, k);
    run_scheduled(session, together, slowdown);
    for (size_t k = 0; k < N_GENERATIONS; k++) {
        bn_generation alone = make_request(ids, k);
        must(bn_session_truncate(session, 0, &err));
        must(bn_generate(session, NULL, &alone, &err));
        assert_int_equal(together[k].reason, alone.reason);
        assert_int_equal(together[k].n_ids, alone.n_ids);
        assert_memory_equal(together[k].ids, alone.ids, alone.n_ids * sizeof *alone.ids);
        assert_memory_equal(together[k].top, alone.top, alone.n_ids * 3 * sizeof *alone.top);
        assert_string_equal(together[k].chain, alone.chain);
        bn_generation_release(&alone);
        bn_generation_release(&together[k]);
    }
}

TEST(generations_are_the_same_alone_and_together)
{
    bn_session *session = open_session(common, 64, 8, 2);
    int32_t ids[64];
    uint64_t random = 3;
    for (size_t i = 0; i < BN_ARRAY_LEN(ids); i++)
        ids[i] = (int32_t)next_random(&random, bn_model_hparams(common)->n_vocab);
    check_together(session, ids, 0.0);
    check_together(session, ids, 1.0); /* pieces of one token */
    check_together(session, ids, 2.5);
    bn_session_close(session);
}

/* With the right answers as drafts, all together: fewer passes, the same results; also with wrong ones. */
TEST(given_answers_change_nothing_but_the_passes)
{
    bn_session *session = open_session(common, 64, 16, 2);
    int32_t ids[64];
    uint64_t random = 3, n_drafted = 0;
    bn_generation alone[N_GENERATIONS], with[N_GENERATIONS];
    for (size_t i = 0; i < BN_ARRAY_LEN(ids); i++)
        ids[i] = (int32_t)next_random(&random, bn_model_hparams(common)->n_vocab);
    for (size_t k = 0; k < N_GENERATIONS; k++) {
        alone[k] = make_request(ids, k);
        must(bn_session_truncate(session, 0, &err));
        must(bn_generate(session, NULL, &alone[k], &err));
    }
    for (int wrong = 0; wrong < 2; wrong++) {
        for (size_t k = 0; k < N_GENERATIONS; k++) {
            with[k] = make_request(ids, k);
            with[k].draft = (bn_draft_options){.kind = BN_DRAFT_GIVEN,
                                               .always = true,
                                               .most = 64,
                                               .given = alone[wrong ? (k + 1) % N_GENERATIONS : k].ids,
                                               .n_given = alone[wrong ? (k + 1) % N_GENERATIONS : k].n_ids};
        }
        run_scheduled(session, with, 0.0);
        for (size_t k = 0; k < N_GENERATIONS; k++) {
            assert_int_equal(with[k].reason, alone[k].reason);
            assert_int_equal(with[k].n_ids, alone[k].n_ids);
            assert_memory_equal(with[k].ids, alone[k].ids, alone[k].n_ids * sizeof *alone[k].ids);
            assert_string_equal(with[k].chain, alone[k].chain);
            if (!wrong) assert_int_equal(with[k].drafts.accepted, with[k].drafts.drafted);
            n_drafted += wrong ? 0 : with[k].drafts.drafted;
            bn_generation_release(&with[k]);
        }
    }
    assert_true(n_drafted > 20);
    for (size_t k = 0; k < N_GENERATIONS; k++)
        bn_generation_release(&alone[k]);
    bn_session_close(session);
}

/* A generation that asks for a short timeline ends as in a session with that context. */
TEST(a_generation_may_limit_its_timeline)
{
    bn_session *session = open_session(common, 64, 8, 1), *small = open_session(common, 12, 8, 1);
    const int32_t ids[] = {5, 6, 7, 8, 9};
    bn_generation gen = {.prompt = ids, .n_prompt = 5, .n_predict = 40, .n_ctx = 12, .want_chain = true},
                  want = gen;
    want.n_ctx = 0;
    must(bn_generate(session, NULL, &gen, &err));
    must(bn_generate(small, NULL, &want, &err));
    assert_int_equal(want.reason, BN_STOP_CONTEXT);
    assert_int_equal(gen.reason, BN_STOP_CONTEXT);
    assert_int_equal(gen.n_ids, want.n_ids);
    assert_string_equal(gen.chain, want.chain);
    bn_generation_release(&gen);
    bn_generation_release(&want);
    must(bn_session_truncate(session, 0, &err));
    gen.n_ctx = 4;
    refused(bn_generate(session, NULL, &gen, &err), BN_ERR_LIMIT);
    bn_session_close(small);
    bn_session_close(session);
}

/* A text that is embedded in the passes of two generations: all get the bits that they get alone. */
TEST(an_embedding_and_generations_do_not_change_each_other)
{
    static const bn_pooling POOLINGS[] = {BN_POOLING_MEAN, BN_POOLING_LAST, BN_POOLING_FIRST};
    bn_session *session = open_session(common, 64, 8, 2);
    int32_t ids[64];
    float *want, *got;
    for (size_t i = 0; i < BN_ARRAY_LEN(ids); i++)
        ids[i] = (int32_t)(i * 7 + 40);
    size_t n_embd = bn_model_hparams(common)->n_embd;
    want = bn_alloc(n_embd, sizeof *want);
    got = bn_alloc(n_embd, sizeof *got);
    for (size_t k = 0; k < BN_ARRAY_LEN(POOLINGS); k++) {
        bn_embed_options how = {.pooling = POOLINGS[k]};
        bn_scheduler *sched = NULL;
        bn_embedding *embedding = NULL;
        bn_sequence *own = NULL;
        bn_generation gen = make_request(ids, 3), alone = make_request(ids, 3);
        must(bn_session_embed(session, ids, 50, &how, want, &err));
        must(bn_session_truncate(session, 0, &err));
        must(bn_sequence_open(&own, session, 0, &err));
        must(bn_scheduler_open(&sched, session, NULL, 1, &err));
        must(bn_scheduler_add(sched, bn_session_sequence(session), &gen, &err));
        must(bn_embedding_open(&embedding, session, own, ids, 50, &how, got, &err));
        bn_scheduler_set_slowdown(sched, k == 0 ? 1.0 : 0.0);
        bn_scheduler_embed(sched, embedding);
        while (!bn_scheduler_has_embedded(sched) || bn_scheduler_take(sched) == NULL)
            must(bn_scheduler_step(sched, &err));
        assert_memory_equal(got, want, n_embd * sizeof *got);
        assert_int_equal(gen.n_together, 2);
        must(bn_session_truncate(session, 0, &err));
        must(bn_generate(session, NULL, &alone, &err));
        assert_string_equal(gen.chain, alone.chain);
        bn_embedding_close(embedding);
        bn_scheduler_close(sched);
        bn_generation_release(&gen);
        bn_generation_release(&alone);
        bn_sequence_close(own);
        must(bn_session_truncate(session, 0, &err));
    }
    bn_free(want);
    bn_free(got);
    bn_session_close(session);
}

/* Prompts share what a pass has for them: the short one does not wait for the long one, which came first. */
TEST(a_short_prompt_does_not_wait_for_a_long_one)
{
    bn_session *session = open_session(common, 64, 8, 1);
    bn_scheduler *sched = NULL;
    bn_sequence *second = NULL;
    int32_t ids[64] = {0};
    bn_generation large = {.prompt = ids, .n_prompt = 60, .n_predict = 1},
                  small = {.prompt = ids, .n_prompt = 8, .n_predict = 1};
    must(bn_sequence_open(&second, session, 0, &err));
    must(bn_scheduler_open(&sched, session, NULL, 2, &err));
    must(bn_scheduler_add(sched, bn_session_sequence(session), &large, &err));
    must(bn_scheduler_step(sched, &err));
    assert_int_equal(bn_session_position(session), 8); /* alone, it gets the whole batch */
    must(bn_scheduler_add(sched, second, &small, &err));
    must(bn_scheduler_step(sched, &err));
    assert_int_equal(bn_session_position(session), 12);
    must(bn_scheduler_step(sched, &err));
    assert_ptr_equal(bn_scheduler_take(sched), &small);
    assert_null(bn_scheduler_take(sched));
    bn_scheduler_close(sched);
    bn_generation_release(&small);
    bn_sequence_close(second);
    bn_session_close(session);
}

/* One is cancelled while its prompt is evaluated, one while it generates: the third gets what it gets alone, and the
 * sequence of a cancelled one has a beginning of its tokens. */
TEST(a_cancelled_generation_ends_alone)
{
    bn_session *session = open_session(common, 64, 8, 1);
    bn_scheduler *sched = NULL;
    bn_sequence *sequences[3];
    int32_t ids[64];
    bn_generation gens[3];
    for (size_t i = 0; i < BN_ARRAY_LEN(ids); i++)
        ids[i] = (int32_t)(i + 40);
    must(bn_scheduler_open(&sched, session, NULL, 3, &err));
    for (size_t k = 0; k < 3; k++) {
        gens[k] = make_request(ids, k);
        gens[k].n_predict = 12;
        if (k == 2) gens[k].n_prompt = 40;
        must(bn_sequence_open(&sequences[k], session, 0, &err));
        must(bn_scheduler_add(sched, sequences[k], &gens[k], &err));
    }
    for (size_t i = 0; i < 3; i++)
        must(bn_scheduler_step(sched, &err));
    assert_null(bn_scheduler_take(sched));
    bn_scheduler_cancel(sched, &gens[2]);
    assert_ptr_equal(bn_scheduler_take(sched), &gens[2]);
    assert_int_equal(gens[2].reason, BN_STOP_CALLER);
    assert_int_equal(gens[2].n_ids, 0);
    assert_in_range(bn_sequence_shared(sequences[2], gens[2].prompt, 40), 1, 39);
    bn_scheduler_cancel(sched, &gens[1]);
    bn_scheduler_cancel(sched, &gens[1]); /* again: it has ended */
    assert_ptr_equal(bn_scheduler_take(sched), &gens[1]);
    assert_int_equal(gens[1].reason, BN_STOP_CALLER);
    assert_in_range(gens[1].n_ids, 1, 11);
    assert_int_equal(bn_scheduler_n_running(sched), 1);
    while (bn_scheduler_take(sched) == NULL)
        must(bn_scheduler_step(sched, &err));
    bn_scheduler_cancel(sched, &gens[0]); /* it was taken */
    bn_generation alone = make_request(ids, 0);
    alone.n_predict = 12;
    must(bn_generate(session, NULL, &alone, &err));
    assert_string_equal(gens[0].chain, alone.chain);
    bn_generation_release(&alone);
    bn_scheduler_close(sched);
    for (size_t k = 0; k < 3; k++) {
        bn_generation_release(&gens[k]);
        bn_sequence_close(sequences[k]);
    }
    bn_session_close(session);
}

TEST(a_scheduler_refuses_what_it_cannot_run)
{
    bn_session *session = open_session(common, 16, 4, 1);
    bn_scheduler *sched = NULL;
    int32_t ids[32] = {1, 2, 3};
    bn_generation one = {.prompt = ids, .n_prompt = 3, .n_predict = 4}, more = one, large = one;
    large.n_prompt = 17;
    refused(bn_scheduler_open(&sched, session, NULL, 5, &err), BN_ERR_ARG);
    must(bn_scheduler_open(&sched, session, NULL, 1, &err));
    refused(bn_scheduler_add(sched, bn_session_sequence(session), &large, &err), BN_ERR_LIMIT);
    must(bn_scheduler_step(sched, &err)); /* nothing to do */
    must(bn_scheduler_add(sched, bn_session_sequence(session), &one, &err));
    refused(bn_scheduler_add(sched, bn_session_sequence(session), &more, &err), BN_ERR_LIMIT);
    must(bn_scheduler_step(sched, &err));
    assert_null(bn_scheduler_take(sched));
    bn_scheduler_close(sched); /* while it runs: its results are released */
    assert_null(one.ids);
    bn_session_close(session);
}

GROUP(open_common, close_common)

/* A start fails at each allocation; the generation that runs goes on, and gets what it gets alone. */
TEST(a_start_without_memory_disturbs_nobody)
{
    bn_session *session = open_session(common, 64, 8, 1);
    bn_scheduler *sched = NULL;
    bn_sequence *second = NULL;
    int32_t ids[64];
    for (size_t i = 0; i < BN_ARRAY_LEN(ids); i++)
        ids[i] = (int32_t)(i + 40);
    bn_generation running = make_request(ids, 0), alone = make_request(ids, 0), late = make_request(ids, 1);
    running.n_predict = alone.n_predict = 30;
    late.draft.kind = BN_DRAFT_GIVEN;
    late.draft.given = ids;
    late.draft.n_given = 8; /* more rows of logits */
    must(bn_generate(session, NULL, &alone, &err));
    must(bn_session_truncate(session, 0, &err));
    must(bn_sequence_open(&second, session, 0, &err));
    must(bn_scheduler_open(&sched, session, NULL, 2, &err));
    must(bn_scheduler_add(sched, bn_session_sequence(session), &running, &err));
    bn_status status = BN_ERR_NOMEM;
    uint64_t n = 0;
    while (status == BN_ERR_NOMEM) {
        must(bn_scheduler_step(sched, &err));
        bn_mem_fail_after(++n);
        status = bn_scheduler_add(sched, second, &late, NULL);
        bn_mem_fail_after(0);
    }
    assert_int_equal(status, BN_OK);
    assert_in_range(n, 3, 20);
    bn_scheduler_cancel(sched, &late);
    while (bn_scheduler_n_running(sched) > 0) {
        must(bn_scheduler_step(sched, &err));
        (void)bn_scheduler_take(sched);
    }
    assert_string_equal(running.chain, alone.chain);
    bn_scheduler_close(sched);
    bn_generation_release(&running);
    bn_generation_release(&alone);
    bn_generation_release(&late);
    bn_sequence_close(second);
    bn_session_close(session);
}
