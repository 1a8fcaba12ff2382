/* SPDX-License-Identifier: MIT
 *
 * bn.h as its users see it, without the structures of internal.h: options with a size, queries, generations and the tree of a
 * pass.
 */
#undef BN_INTERNAL
#define BN_EXPERIMENTAL
#include <math.h>

#include "bn.h"

#include "tests/unit/status.h"

#define MODEL "fixtures/nano-bitnet-b1.58-i2_s-42.gguf"

static const int32_t PROMPT[] = {1, 2, 3, 4};
static bn_model *model;
static bn_session *session;

FIXTURE(open_all)
{
    bn_session_options options = {.size = sizeof options, .n_threads = 2, .exact_threads = true};
    must(bn_model_open(&model, MODEL, NULL, &err));
    must(bn_session_open(&session, model, &options, &err));
}

FIXTURE(close_all)
{
    bn_session_close(session);
    bn_model_close(model);
}

static bn_generation *generate(const bn_query *query)
{
    bn_generation *generation = NULL;
    must(bn_session_truncate(session, 0, NULL));
    must(bn_session_generate(session, NULL, query, &generation, NULL));
    return generation;
}

TEST(options_of_other_versions)
{
    struct {
        bn_session_options known;
        uint64_t newer;
    } later = {.known = {.size = sizeof later}};
    bn_session_options older = {.size = offsetof(bn_session_options, n_batch), .n_ctx = 16, .n_batch = 1};
    bn_session *s = NULL;
    refused(bn_session_open(&s, model, &later.known, NULL), BN_ERR_ARG);
    assert_null(s);
    must(bn_session_open(&s, model, &older, NULL));
    assert_int_equal(bn_session_n_ctx(s), 16);
    assert_int_equal(bn_session_n_batch(s), 16); /* what is after the size is not read */
    bn_session_close(s);
    assert_int_equal(bn_model_get(model, BN_MODEL_N_VOCAB), 512);
    assert_int_equal(bn_model_get(model, (bn_model_figure)1000), 0);
    assert_string_equal(bn_model_arch(model), "bitnet-b1.58");
}

TEST(settings_are_checked)
{
    static const struct {
        bn_setting setting;
        double value;
    } BAD[] = {{BN_SET_N_PREDICT, -1},
               {BN_SET_N_PREDICT, 0},
               {BN_SET_N_PREDICT, 1.5},
               {BN_SET_N_PREDICT, 0x1p24 + 1},
               {BN_SET_TOP_K, 0x1p32},
               {BN_SET_SEED, 0x1p54},
               {BN_SET_CHAIN, 2},
               {BN_SET_TOP_P, 1.5},
               {BN_SET_MIN_P, -1},
               {BN_SET_TEMPERATURE, -1},
               {BN_SET_TEMPERATURE, (double)NAN},
               {BN_SET_REPEAT_PENALTY, 0},
               {BN_SET_N_TOP, 1001},
               {BN_SET_MOST_DRAFTS, 0},
               {BN_SET_MOST_DRAFTS, 65},
               {BN_SET_PRESENCE_PENALTY, 3},
               {(bn_setting)1000, 0}};
    bn_query *query = NULL;
    refused(bn_query_open(&query, PROMPT, 0, NULL), BN_ERR_ARG);
    must(bn_query_open(&query, PROMPT, 4, NULL));
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        refused(bn_query_set(query, BAD[i].setting, BAD[i].value, NULL), BN_ERR_ARG);
    must(bn_query_set(query, BN_SET_TEMPERATURE, 0.5, NULL));
    must(bn_query_set(query, BN_SET_PRESENCE_PENALTY, -2, NULL));
    must(bn_query_set(query, BN_SET_FREQUENCY_PENALTY, 1.5, NULL));
    bn_query_close(query);
}

TEST(a_query_gives_generations)
{
    size_t n = 0, n_again = 0;
    bn_query *query = NULL;
    must(bn_query_open(&query, PROMPT, 4, NULL));
    must(bn_query_set(query, BN_SET_N_PREDICT, 6, NULL));
    must(bn_query_set(query, BN_SET_CHAIN, 1, NULL));
    must(bn_query_set(query, BN_SET_LOGPROBS, 1, NULL));
    must(bn_query_set(query, BN_SET_N_TOP, 2, NULL));
    bn_generation *first = generate(query);
    const int32_t *ids = bn_generation_ids(first, &n);
    assert_int_equal(n, 6);
    assert_int_equal(bn_generation_reason(first), BN_STOP_LENGTH);
    assert_int_equal(strlen(bn_generation_chain(first)), 64);
    assert_true(bn_generation_logprobs(first)[5] < 0);
    assert_int_equal(bn_generation_top(first, 5)[0].id, ids[5]); /* greedy */
    assert_null(bn_generation_top(first, 6));
    assert_true(bn_generation_token_ns(first)[0] >= bn_generation_get(first, BN_GENERATION_PREFILL_NS));

    must(bn_query_expect(query, ids, n, NULL));
    bn_generation *second = generate(query);
    assert_string_equal(bn_generation_chain(second), bn_generation_chain(first));
    assert_true(bn_generation_get(second, BN_GENERATION_ACCEPTED) <=
                bn_generation_get(second, BN_GENERATION_DRAFTED));
    const bn_candidate forced = {ids[0] == 7 ? 8 : 7, 100.0f};
    bn_query_set_bias(query, &forced, 1);
    bn_generation *biased = generate(query);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(bn_generation_ids(biased, &n)[i], forced.id);
    bn_generation_close(biased);
    bn_query_set_bias(query, NULL, 0);
    must(bn_query_add_stop_id(query, ids[0], NULL));
    must(bn_query_add_stop(query, "stop", NULL));
    bn_generation *third = generate(query);
    assert_int_equal(bn_generation_reason(third), BN_STOP_ID);
    (void)bn_generation_ids(third, &n_again);
    assert_int_equal(n_again, 1);
    bn_generation_close(third);
    bn_generation_close(second);

    bn_scheduler *scheduler = NULL;
    bn_generation *started = NULL, *taken = NULL;
    bn_query_close(query);
    must(bn_query_open(&query, PROMPT, 4, NULL));
    must(bn_query_set(query, BN_SET_N_PREDICT, 6, NULL));
    must(bn_session_truncate(session, 0, NULL));
    must(bn_scheduler_open(&scheduler, session, NULL, 1, NULL));
    must(bn_scheduler_start(scheduler, bn_session_sequence(session), query, &started, NULL));
    while ((taken = bn_scheduler_take(scheduler)) == NULL)
        must(bn_scheduler_step(scheduler, NULL));
    assert_ptr_equal(taken, started);
    assert_memory_equal(bn_generation_ids(taken, &n), bn_generation_ids(first, &n), 6 * sizeof *ids);
    bn_scheduler_close(scheduler);
    bn_generation_close(taken);
    bn_generation_close(first);
    bn_query_close(query);
}

/* Drafts that were evaluated and taken back leave no trace: stopped at each token of an answer that is expected. */
TEST(the_hidden_state_is_of_the_last_position)
{
    size_t n = 0, n_bytes = bn_model_get(model, BN_MODEL_N_EMBD) * sizeof(float);
    bn_query *query = NULL;
    void *want = malloc(n_bytes);
    must(bn_query_open(&query, PROMPT, 4, NULL));
    bn_generation *answer = generate(query);
    const int32_t *ids = bn_generation_ids(answer, &n);
    for (size_t i = 0; i < n; i++) {
        bn_query *stops = NULL;
        must(bn_query_open(&stops, PROMPT, 4, NULL));
        must(bn_query_add_stop_id(stops, ids[i], NULL));
        bn_generation_close(generate(stops));
        uint32_t position = bn_session_position(session);
        memcpy(want, bn_session_hidden(session), n_bytes);
        must(bn_query_expect(stops, ids, n, NULL));
        bn_generation_close(generate(stops));
        assert_int_equal(bn_session_position(session), position);
        assert_memory_equal(bn_session_hidden(session), want, n_bytes);
        bn_query_close(stops);
    }
    free(want);
    bn_generation_close(answer);
    bn_query_close(query);
}

static bool cancel_later(void *user)
{
    return --*(int *)user == 0;
}

/* An evaluation that fails or is cancelled leaves the timeline; that of an embedding, which is another one, empties it. */
TEST(timelines_after_errors)
{
    static const int32_t BAD[] = {1, 2, -5};
    float vector[1024];
    bn_query *query = NULL;
    bn_generation *none = NULL;
    const bn_embed_options mean = {.size = sizeof mean, .pooling = BN_POOLING_MEAN};
    assert_true(bn_model_get(model, BN_MODEL_N_VOCAB) <= sizeof vector / sizeof *vector);
    must(bn_query_open(&query, PROMPT, 4, NULL));
    must(bn_session_truncate(session, 0, NULL));
    must(bn_session_eval(session, PROMPT, 3, BN_LOGITS_LAST, vector, NULL));
    for (int at = 1; at < 10; at++) {
        int left = at; /* the prompt, then tokens */
        bn_session_set_cancel(session, cancel_later, &left);
        refused(bn_session_generate(session, NULL, query, &none, NULL), BN_ERR_CANCELLED);
        assert_int_equal(bn_session_position(session), 3);
    }
    bn_session_set_cancel(session, NULL, NULL);
    refused(bn_session_embed(session, BAD, 3, &mean, vector, NULL), BN_ERR_ARG);
    refused(bn_session_embed(session, BAD, 0, &mean, vector, NULL), BN_ERR_ARG);
    assert_int_equal(bn_session_position(session), 3);
    int left = 1;
    bn_session_set_cancel(session, cancel_later, &left);
    refused(bn_session_embed(session, PROMPT, 4, &mean, vector, NULL), BN_ERR_CANCELLED);
    assert_int_equal(bn_session_position(session), 0);
    bn_session_set_cancel(session, NULL, NULL);
    bn_query_close(query);
}

/* Every event is in its parent, in time and in kind, and the bricks of a pass are all there. */
TEST(a_pass_is_a_tree)
{
    size_t n = 0, n_of[4] = {0};
    const bn_event *e;
    must(bn_session_truncate(session, 0, NULL));
    assert_null(bn_session_event(session, 0));
    must(bn_session_record(session, 4, 16, NULL));
    must(bn_session_eval(session, PROMPT, 3, BN_LOGITS_NONE, NULL, NULL));
    must(bn_session_eval(session, PROMPT, 1, BN_LOGITS_NONE, NULL, NULL));
    bool seen[64] = {false};
    for (; (e = bn_session_event(session, n)) != NULL; n++) {
        n_of[e->kind]++;
        for (size_t i = 0; e->kind == BN_EVENT_BRICK && bn_brick_at(i) != NULL; i++)
            seen[i] = seen[i] || strcmp(bn_brick_at(i), e->name) == 0;
        if (e->parent == SIZE_MAX) continue;
        assert_true(e->parent < n);
        const bn_event *parent = bn_session_event(session, e->parent);
        assert_true(parent->kind < e->kind || (e->kind == BN_EVENT_BRICK && parent->kind == BN_EVENT_BRICK));
        assert_int_equal(parent->thread, e->thread);
        if (parent->kind == BN_EVENT_PASS) continue; /* what follows a pass belongs to it */
        assert_true(parent->begin_ns <= e->begin_ns && e->begin_ns + e->ns <= parent->begin_ns + parent->ns);
    }
    assert_int_equal(n_of[BN_EVENT_PASS], 2 * bn_session_n_threads(session));
    assert_int_equal(n_of[BN_EVENT_LAYER], n_of[BN_EVENT_PASS] * bn_model_get(model, BN_MODEL_N_LAYER));
    assert_true(n_of[BN_EVENT_KERNEL] > n_of[BN_EVENT_LAYER]);
    for (size_t i = 0; bn_brick_at(i) != NULL; i++)
        if (strcmp(bn_brick_at(i), "QkvProjection") == 0 || strcmp(bn_brick_at(i), "DownProjection") == 0)
            assert_true(seen[i]);
    must(bn_session_record(session, 0, 0, NULL));
    assert_null(bn_session_event(session, 0));

    const char *name = bn_session_kernel_name(session, 0);
    assert_non_null(name);
    assert_true(bn_session_kernel_get(session, 0, BN_KERNEL_CALLS) > 0);
    assert_int_equal(bn_session_kernel_get(session, 1000, BN_KERNEL_CALLS), 0);
}

GROUP(open_all, close_all)
