/* SPDX-License-Identifier: MIT
 *
 * The state of recurrent layers and its snapshots: each way to shorten, to share and to save a timeline, and each draft that is
 * taken back, gives the bits of an evaluation from the start; how many tokens are evaluated again; how much memory is used.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "base/digest.h"
#include "base/mem.h"
#include "infer/session.h"
#include "tests/unit/folder.h"

#define MODEL "fixtures/quad-qwen35-q2_0-v331-tied-42.gguf"
#define N_VOCAB 331u
#define N_IDS 30u
#define N_LONG 1100u

static struct {
    bn_model *model, *other; /* the other one drafts, and is often wrong */
    unsigned char *bytes;
    bn_session *session, *fresh;
    int32_t ids[N_LONG];
    float want[N_VOCAB], got[N_VOCAB];
} f;

static bn_session *open_session(const bn_model *model, uint32_t n_ctx, uint32_t n_batch, uint64_t bytes)
{
    bn_session *s = NULL;
    bn_session_options options = {
        .n_ctx = n_ctx, .n_batch = n_batch, .n_threads = 2, .exact_threads = true, .snapshot_bytes = bytes};
    must(bn_session_open(&s, model, &options, NULL));
    return s;
}

/* The same vocabulary, and another last norm. */
static void spoil(void)
{
    size_t n = f.model->n_bytes, at = (size_t)((const unsigned char *)f.model->output_norm - f.model->bytes);
    assert_true(at < n);
    f.bytes = bn_alloc_aligned(n, 1);
    memcpy(f.bytes, f.model->bytes, n);
    for (uint32_t i = 0; i < f.model->hp.n_embd; i += 4)
        memset(f.bytes + at + i * sizeof(float), 0, sizeof(float));
    must(bn_model_open_memory(&f.other, f.bytes, n, "spoiled", NULL, NULL));
}

FIXTURE(setup)
{
    must(bn_model_open(&f.model, MODEL, NULL, &err));
    f.model->hp.n_ctx = 2048;
    spoil();
    f.session = open_session(f.model, 64, 7, 0);
    f.fresh = open_session(f.model, 0, 64, 1);
    for (int32_t i = 0; i < (int32_t)N_LONG; i++)
        f.ids[i] = (i * 151 + i / 256 + 7) % 256;
}

FIXTURE(teardown)
{
    bn_session_close(f.session);
    bn_session_close(f.fresh);
    bn_model_close(f.model);
    bn_model_close(f.other);
    bn_free(f.bytes);
}

static void eval(bn_session *s, const int32_t *ids, size_t n, float *logits)
{
    must(bn_session_eval(s, ids, n, BN_LOGITS_LAST, logits, &err));
}

/* The logits after all tokens, evaluated from the start by a session without snapshots. */
static void expect_logits(const int32_t *ids, size_t n)
{
    must(bn_session_truncate(f.fresh, 0, &err));
    eval(f.fresh, ids, n, f.want);
    assert_memory_equal(f.got, f.want, sizeof f.want);
}

/* Evaluates tokens of which the first n_prompt are a prompt, whose end is marked. */
static void run_prompt(size_t n_prompt, size_t n)
{
    must(bn_session_truncate(f.session, 0, &err));
    bn_sequence_mark(&f.session->own, (uint32_t)n_prompt - 1);
    eval(f.session, f.ids, n_prompt, f.got);
    if (n > n_prompt) eval(f.session, f.ids + n_prompt, n - n_prompt, f.got);
}

/* Shortens the timeline of ids, and returns how many tokens were evaluated for that. */
static uint64_t truncate_to(bn_session *s, uint32_t n)
{
    uint64_t before = s->work.tokens;
    must(bn_session_truncate(s, n, &err));
    assert_int_equal(bn_session_position(s), n);
    return s->work.tokens - before;
}

TEST(a_place_that_was_marked_is_known)
{
    for (size_t n_prompt = 2; n_prompt < N_IDS - 1; n_prompt += 3) {
        run_prompt(n_prompt, N_IDS);
        expect_logits(f.ids, N_IDS);
        assert_int_equal(bn_session_known(f.session, N_IDS), N_IDS);
        assert_int_equal(bn_session_known(f.session, N_IDS - 1), n_prompt - 1);
        assert_int_equal(bn_session_known(f.session, (uint32_t)n_prompt - 2), 0);
        assert_int_equal(truncate_to(f.session, (uint32_t)n_prompt - 1), 0);
        eval(f.session, f.ids + n_prompt - 1, 1, f.got);
        expect_logits(f.ids, n_prompt);
    }
}

TEST(other_lengths_are_evaluated_again)
{
    for (uint32_t n = 0; n <= 25; n++) {
        run_prompt(20, 25);
        assert_int_equal(truncate_to(f.session, n), n == 25 ? 0 : n >= 19 ? n - 19 : n);
        eval(f.session, f.ids + n, 26 - n, f.got);
        expect_logits(f.ids, 26);
        assert_int_equal(truncate_to(f.session, n), n == 25 ? 6 : 0); /* places gone to are known now */
        eval(f.session, f.ids + n, 26 - n, f.got);
        expect_logits(f.ids, 26);
    }
}

/* Beginnings that are shared are kept as far as the state is known. */
TEST(beginnings_are_kept_where_they_can_be)
{
    int32_t other[N_IDS];
    for (size_t differs = 0; differs < N_IDS; differs++) {
        memcpy(other, f.ids, sizeof other);
        other[differs] = 300;
        run_prompt(20, 25);
        uint32_t kept = bn_session_keep(f.session, other, N_IDS - 1);
        assert_int_equal(kept, differs >= 25 ? 25 : differs >= 19 ? 19 : 0);
        eval(f.session, other + kept, N_IDS - kept, f.got);
        expect_logits(other, N_IDS);
        /* What was kept of the timeline before must not come back. */
        kept = bn_session_keep(f.session, f.ids, 20);
        assert_int_equal(kept, differs >= 19 ? 19 : 0);
        eval(f.session, f.ids + kept, N_IDS - kept, f.got);
        expect_logits(f.ids, N_IDS);
    }
}

/* Several places, in any order, also two in one pass. */
TEST(several_places_are_kept)
{
    static const uint32_t PLACES[] = {23, 5, 9, 12, 11};
    bn_session *s = open_session(f.model, 64, 7, 0);
    for (size_t i = 0; i < BN_ARRAY_LEN(PLACES); i++)
        bn_sequence_mark(&s->own, PLACES[i]);
    eval(s, f.ids, N_IDS, f.got);
    for (uint32_t n = N_IDS; n-- > 0;) {
        uint32_t want = n >= 23 ? 23 : n >= 12 ? 12 : n >= 11 ? 11 : n >= 9 ? 9 : n >= 5 ? 5 : 0;
        assert_int_equal(bn_session_known(s, n), want);
    }
    for (uint32_t n = 23; n > 4; n = bn_session_known(s, n - 1)) {
        assert_int_equal(truncate_to(s, n), 0);
        eval(s, f.ids + n, 1, f.got);
        expect_logits(f.ids, n + 1);
    }
    bn_session_close(s);
}

TEST(prompts_are_kept_every_256_tokens)
{
    bn_session *s = open_session(f.model, 0, 200, 0);
    eval(s, f.ids, N_LONG, f.got);
    expect_logits(f.ids, N_LONG);
    for (uint32_t n = N_LONG - 1; n > 0; n -= 7)
        assert_int_equal(bn_session_known(s, n), n / BN_SNAPSHOT_EVERY * BN_SNAPSHOT_EVERY);
    assert_int_equal(truncate_to(s, 700), 700 - 512);
    eval(s, f.ids + 700, N_LONG - 700, f.got);
    expect_logits(f.ids, N_LONG);
    bn_session_close(s);
}

TEST(memory_is_bounded)
{
    uint64_t each = bn_model_state_bytes(f.model), n_ctx = 64;
    assert_true(each > 0);
    bn_session *none = open_session(f.model, 64, 7, 1), *two = open_session(f.model, 64, 7, 3 * each - 1),
               *six = open_session(f.model, 64, 7, 0);
    uint64_t least = bn_session_memory(none).kv_bytes, snapshot = each + n_ctx * sizeof(int32_t);
    assert_int_equal(bn_session_memory(two).kv_bytes, least + 2 * snapshot);
    assert_int_equal(bn_session_memory(six).kv_bytes, least + 6 * snapshot);
    for (uint32_t n = 1; n < 25; n++) {
        bn_sequence_mark(&none->own, n);
        bn_sequence_mark(&two->own, n);
    }
    eval(none, f.ids, 25, f.got);
    eval(two, f.ids, 25, f.got);
    assert_int_equal(bn_session_known(none, 24), 0);
    uint32_t last = bn_session_known(two, 24), first = bn_session_known(two, last - 1);
    assert_true(last > first && first > 0);
    assert_int_equal(bn_session_known(two, first - 1), 0);
    assert_int_equal(truncate_to(none, 24), 24);
    eval(none, f.ids + 24, 2, f.got);
    expect_logits(f.ids, 26);
    assert_int_equal(truncate_to(two, first), 0);
    eval(two, f.ids + first, 26 - first, f.got);
    expect_logits(f.ids, 26);
    bn_session_close(none);
    bn_session_close(two);
    bn_session_close(six);
}

/* A long prompt leaves snapshots of all its parts, more of them near its end. */
TEST(a_full_pool_keeps_what_saves_most)
{
    bn_session *s = open_session(f.model, 0, 256, 3 * bn_model_state_bytes(f.model));
    uint32_t places[4], n = 0;
    assert_int_equal(s->snapshots.n, 3);
    eval(s, f.ids, N_LONG, f.got);
    for (uint32_t at = bn_session_known(s, N_LONG - 1); at > 0; at = bn_session_known(s, at - 1))
        places[n++] = at;
    assert_int_equal(n, 3);
    assert_int_equal(places[0], 1024);
    assert_int_equal(places[1], 768);
    assert_true(places[2] < 768);
    /* One that is used stays. */
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(bn_session_keep(s, f.ids, places[2] + 1), places[2]);
        bn_sequence_mark(&s->own, places[2] + 10 + i);
        eval(s, f.ids + places[2], 20, f.got);
    }
    assert_int_equal(bn_session_known(s, places[2] + 9), places[2]);
    expect_logits(f.ids, places[2] + 20);
    bn_session_close(s);
}

/* The ends of messages are known after a generation, and tokens that a template puts after the last one are not. */
TEST(the_ends_of_messages_are_known)
{
    const bn_tokenizer *tok = bn_model_tokenizer(f.model);
    int32_t prompt[58], end = 0;
    while (!bn_token_is_end(tok, end))
        end++;
    memcpy(prompt, f.ids, sizeof prompt);
    prompt[20] = prompt[25] = prompt[52] = end;
    bn_generation gen = {
        .prompt = prompt, .n_prompt = BN_ARRAY_LEN(prompt), .n_predict = 2, .ignore_end = true};
    for (int with = 0; with < 2; with++) {
        assert_int_equal(truncate_to(f.session, 0), 0);
        must(bn_generate(f.session, with ? tok : NULL, &gen, &err));
        bn_generation_release(&gen);
        assert_int_equal(bn_session_known(f.session, 57), with ? 53 : 57);
        assert_int_equal(bn_session_known(f.session, 52), with ? 26 : 0);
        assert_int_equal(bn_session_known(f.session, 25), with ? 21 : 0);
        assert_int_equal(bn_session_known(f.session, 20), 0);
    }
    /* What follows the last message is long: both places are. */
    gen.n_prompt = 50;
    assert_int_equal(truncate_to(f.session, 0), 0);
    must(bn_generate(f.session, tok, &gen, &err));
    assert_int_equal(bn_session_known(f.session, 50), 49);
    assert_int_equal(bn_session_known(f.session, 48), 26);
    bn_generation_release(&gen);
}

TEST(sequences_copy_a_known_state)
{
    bn_sequence *other = NULL;
    must(bn_sequence_open(&other, f.session, 0, &err));
    run_prompt(20, 25);
    const bn_sequence *from = bn_session_sequence(f.session);
    assert_int_equal(bn_sequence_share(f.session, other, from, f.ids, 18), 0);
    assert_int_equal(bn_sequence_share(f.session, other, from, f.ids, 22), 19);
    bn_batch_part part = {other, f.ids + 19, 3, BN_LOGITS_LAST};
    must(bn_session_eval_batch(f.session, &part, 1, 0, f.got, &err));
    expect_logits(f.ids, 22);
    assert_int_equal(bn_sequence_known(other, 21), 19); /* a snapshot of both */
    assert_int_equal(bn_sequence_share(f.session, other, from, f.ids, N_IDS), 25);
    part = (bn_batch_part){other, f.ids + 25, 5, BN_LOGITS_LAST};
    must(bn_session_eval_batch(f.session, &part, 1, 0, f.got, &err));
    expect_logits(f.ids, N_IDS);
    bn_sequence_close(other);
}

/* The time of an answer must not disclose what others asked. */
TEST(sequences_that_did_not_share_have_their_own_snapshots)
{
    bn_sequence *other = NULL;
    must(bn_sequence_open(&other, f.session, 0, &err));
    run_prompt(7, 7);
    bn_batch_part part = {other, f.ids, 7, BN_LOGITS_NONE};
    must(bn_session_eval_batch(f.session, &part, 1, 0, NULL, &err));
    assert_int_equal(bn_session_known(f.session, 6), 6);
    assert_int_equal(bn_sequence_known(other, 6), 0);
    uint64_t before = f.session->work.tokens;
    must(bn_sequence_truncate(other, 6, &err));
    assert_int_equal(f.session->work.tokens - before, 6);
    part = (bn_batch_part){other, f.ids + 6, 1, BN_LOGITS_LAST};
    must(bn_session_eval_batch(f.session, &part, 1, 0, f.got, &err));
    expect_logits(f.ids, 7);
    bn_sequence_close(other);
}

static bool cancel_third(void *user)
{
    return ++*(int *)user == 3;
}

TEST(a_cancelled_prompt_leaves_the_timeline)
{
    int n_calls = 0;
    assert_int_equal(truncate_to(f.session, 0), 0);
    eval(f.session, f.ids, 5, f.got);
    bn_session_set_cancel(f.session, cancel_third, &n_calls);
    refused(bn_session_eval(f.session, f.ids, 20, BN_LOGITS_NONE, NULL, &err), BN_ERR_CANCELLED);
    bn_session_set_cancel(f.session, NULL, NULL);
    assert_int_equal(bn_session_position(f.session), 5);
    eval(f.session, f.ids + 5, N_IDS - 5, f.got);
    expect_logits(f.ids, N_IDS);
}

TEST(so_does_a_cancelled_generation)
{
    int n_calls = 0;
    bn_query *query = NULL;
    bn_generation *none = NULL;
    assert_int_equal(truncate_to(f.session, 0), 0);
    eval(f.session, f.ids, 5, f.got);
    must(bn_query_open(&query, f.ids, 20, NULL)); /* three passes */
    bn_session_set_cancel(f.session, cancel_third, &n_calls);
    refused(bn_session_generate(f.session, NULL, query, &none, NULL), BN_ERR_CANCELLED);
    bn_session_set_cancel(f.session, NULL, NULL);
    assert_int_equal(bn_session_position(f.session), 5);
    eval(f.session, f.ids + 5, N_IDS - 5, f.got);
    expect_logits(f.ids, N_IDS);
    bn_query_close(query);
}

/* A file has the snapshots of its tokens, and the state after all of them. */
TEST_IN(files_have_the_states, make_folder, remove_folder)
{
    const char *path = below("state");
    uint32_t kept = 0;
    run_prompt(20, 25);
    refused(bn_session_save(f.session, 10, path, &err), BN_ERR_UNSUPPORTED);
    for (uint32_t n = 19; n <= 25; n += 6) {
        must(bn_session_save(f.session, n, path, &err));
        for (uint32_t n_same = 17; n_same < N_IDS; n_same++) {
            bn_session *s = open_session(f.model, 64, 5, 0);
            uint32_t want = n_same >= n ? n : n_same >= 19 ? 19 : 0;
            must(bn_session_load(s, path, f.ids, n_same, &kept, &err));
            assert_int_equal(kept, want);
            eval(s, f.ids + kept, N_IDS - kept, f.got);
            expect_logits(f.ids, N_IDS);
            assert_int_equal(bn_session_known(s, 24), want == 0 ? 0 : 19);
            bn_session_close(s);
        }
    }
}

/* Makes the checksum right and reads the file. */
static bn_status read_sealed(unsigned char *bytes, size_t n)
{
    char hex[BN_CHECKSUM_HEX];
    struct bn_checksum *sum;
    uint32_t kept;
    must(bn_checksum_open(&sum, NULL));
    bn_checksum_update(sum, bytes, n - BN_STATE_SUM_BYTES);
    bn_checksum_take(sum, hex);
    bn_checksum_close(sum);
    memcpy(bytes + n - BN_STATE_SUM_BYTES, hex, BN_STATE_SUM_BYTES);
    return bn_state_read(f.session, bytes, n, "file", f.ids, N_IDS, &kept, &err);
}

TEST_IN(states_of_impossible_places_are_refused, make_folder, remove_folder)
{
    static const uint32_t PLACES[][2] = {{0, 25}, {25, 25}, {26, 25}, {19, 19}, {19, 26}, {25, 19}};
    const char *path = below("state");
    struct bn_file_map map;
    run_prompt(20, 25);
    must(bn_session_save(f.session, 25, path, &err));
    must(bn_file_map_open(&map, path, false, &err));
    size_t n = map.n_bytes, each = sizeof(uint32_t) + bn_model_state_bytes(f.model);
    unsigned char *copy = bn_alloc(n, 1);
    memcpy(copy, map.data, n);
    bn_file_map_close(&map);
    must(read_sealed(copy, n));
    for (size_t i = 0; i < BN_ARRAY_LEN(PLACES); i++) {
        for (size_t k = 0; k < 2; k++)
            memcpy(copy + n - BN_STATE_SUM_BYTES - (2 - k) * each, &PLACES[i][k], sizeof PLACES[i][k]);
        refused(read_sealed(copy, n), BN_ERR_FORMAT);
        assert_has(err.msg, "a state after ");
    }
    /* Without a state, with a part of one, and of the version of models without states. */
    refused(read_sealed(copy, n - 2 * each), BN_ERR_FORMAT);
    refused(read_sealed(copy, n - 4), BN_ERR_FORMAT);
    copy[offsetof(struct bn_state_header, version)] = BN_STATE_VERSION;
    refused(read_sealed(copy, n), BN_ERR_UNSUPPORTED);
    bn_free(copy);
}

/* Generates with drafts and without, and evaluates one token more after each. Returns what the drafts were. */
static bn_draft_stat compare(const bn_generation *request, uint32_t n_batch)
{
    bn_generation gens[2];
    float logits[2][N_VOCAB];
    for (int i = 0; i < 2; i++) {
        bn_session *s = open_session(f.model, 200, n_batch, 0);
        gens[i] = *request;
        gens[i].want_chain = gens[i].ignore_end = true;
        if (i == 0) gens[i].draft = (bn_draft_options){0};
        if (bn_generate(s, NULL, &gens[i], &err) != BN_OK) fail_msg("%s", err.msg);
        assert_null(s->own.trial);
        eval(s, f.ids, 1, logits[i]);
        /* And the prompt can be answered again. */
        assert_int_equal(bn_session_known(s, (uint32_t)gens[i].n_prompt), gens[i].n_prompt - 1);
        bn_session_close(s);
    }
    assert_string_equal(gens[0].chain, gens[1].chain);
    assert_int_equal(gens[0].n_ids, gens[1].n_ids);
    assert_memory_equal(gens[0].ids, gens[1].ids, gens[0].n_ids * sizeof *gens[0].ids);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    bn_draft_stat stat = gens[1].drafts;
    bn_generation_release(&gens[0]);
    bn_generation_release(&gens[1]);
    return stat;
}

TEST(drafts_change_no_bit)
{
    int32_t prompt[24];
    uint64_t n_wrong = 0, n_right = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(prompt); i++)
        prompt[i] = f.ids[i % 6]; /* a text that repeats itself */
    bn_session *drafters[] = {NULL, open_session(f.model, 200, 5, 0), open_session(f.other, 200, 128, 0),
                              open_session(f.model, 200, 5, 1)};
    for (size_t i = 0; i < BN_ARRAY_LEN(drafters); i++)
        for (int sampled = 0; sampled < 2; sampled++)
            for (uint32_t most = 1; most < 8; most += 3) {
                bn_generation gen = {.prompt = prompt,
                                     .n_prompt = BN_ARRAY_LEN(prompt),
                                     .n_predict = 40,
                                     .sampling = {.temperature = sampled ? 0.05f : 0.0f,
                                                  .top_p = 1.0f,
                                                  .repeat_penalty = 1.0f,
                                                  .seed = 3 + most},
                                     .draft = {.kind = i == 0 ? BN_DRAFT_NGRAM : BN_DRAFT_MODEL,
                                               .session = drafters[i],
                                               .most = most,
                                               .always = true}};
                bn_draft_stat stat = compare(&gen, most == 4 ? 3 : 128);
                if (i == 1 || i == 3) assert_int_equal(stat.drafted, stat.accepted);
                n_right += stat.accepted;
                n_wrong += stat.drafted - stat.accepted;
            }
    assert_true(n_right > 100 && n_wrong > 100);
    for (size_t i = 0; i < BN_ARRAY_LEN(drafters); i++)
        bn_session_close(drafters[i]);
}

/* A pass with drafts leaves the state, and the tokens that stay update it once. */
TEST(tokens_that_are_taken_back_leave_no_trace)
{
    struct bn_trial *trial = NULL;
    float *before = bn_alloc(f.session->own.n_state, sizeof *before);
    must(bn_trial_open(&trial, &f.model->hp, 6, &err));
    for (uint32_t n_stay = 0; n_stay <= 6; n_stay++) {
        int32_t wrong[6] = {300, 301, 302, 303, 304, 305};
        struct bn_sequence *own = &f.session->own;
        run_prompt(20, 20);
        memcpy(before, own->state, own->n_state * sizeof *before);
        memcpy(wrong, f.ids + 20, n_stay * sizeof *wrong);
        own->trial = trial;
        eval(f.session, wrong, 6, f.got);
        assert_memory_equal(own->state, before, own->n_state * sizeof *before);
        bn_sequence_settle(own, 20 + n_stay);
        assert_null(own->trial);
        assert_int_equal(bn_session_position(f.session), 20 + n_stay);
        eval(f.session, f.ids + 20 + n_stay, 3, f.got);
        expect_logits(f.ids, 23 + n_stay);
    }
    bn_trial_close(trial);
    bn_free(before);
}

GROUP(setup, teardown)
