/* SPDX-License-Identifier: MIT
 *
 * Speculation: drafts from n-grams; tokens, chain, text and timeline are those without it, whoever drafts and whatever
 * ends the generation; the budget of time, with passes whose times are given.
 */
#include "base/mem.h"
#include "generate/generator.h"
#include "tests/unit/status.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define OTHER "fixtures/nano-bitnet-b1.58-i2_s-42.gguf"
#define N_CTX 160u

static void check_ngram(const char *text, size_t n, const char *want)
{
    int32_t history[100];
    char got[100] = "";
    size_t n_history = strlen(text);
    for (size_t i = 0; i < n_history; i++)
        history[i] = text[i];
    size_t n_drafted = bn_draft_ngram(history, n_history, n);
    for (size_t i = 0; i < n_drafted; i++)
        got[i] = (char)history[n_history + i];
    assert_string_equal(got, want);
    for (size_t i = 0; i < n_history; i++)
        assert_int_equal(history[i], text[i]);
}

TEST(the_longest_earlier_copy_is_continued)
{
    check_ngram("", 4, "");
    check_ngram("a", 4, "");
    check_ngram("abcdefg", 4, "");
    check_ngram("ab cd ab", 4, " c");     /* as many tokens as are alike */
    check_ngram("xbc abd ab", 3, "d a");  /* one token is not enough, two are */
    check_ngram("cab1 zab2 cab", 1, "1"); /* the longest, not the nearest */
    check_ngram("zab1 zab2 zab", 1, "2"); /* of two, the nearest */
    check_ngram("xyxyx", 3, "yxy");       /* the draft goes on where the text ends */
    check_ngram("aaaa", 2, "aa");
    check_ngram("ab ab", 0, "");
}

static struct {
    bn_model *model, *spoiled, *other;
    unsigned char *bytes;
    int32_t prompt[48];
} f;

/* The same vocabulary, and other weights: it drafts, and it is often wrong. */
static void spoil(void)
{
    size_t n = f.model->n_bytes;
    f.bytes = bn_alloc_aligned(n, 1);
    memcpy(f.bytes, f.model->bytes, n);
    for (size_t layer = 0; layer < 6; layer++) { /* no attention: codes of weights that are zero */
        const struct bn_ternary *o = &bn_model_linear(f.model, 7 * layer + 3)->w;
        memset(f.bytes + (o->stored - f.model->bytes), 0x55, o->rows * o->k / 4);
    }
    must(bn_model_open_memory(&f.spoiled, f.bytes, n, "spoiled", NULL, NULL));
}

FIXTURE(setup)
{
    must(bn_model_open(&f.model, MODEL, NULL, NULL));
    must(bn_model_open(&f.other, OTHER, NULL, NULL));
    spoil();
    /* A text that repeats itself. */
    static const int32_t WORDS[] = {845, 25, 198, 404, 11, 318, 340, 407, 257, 845, 25, 198};
    for (size_t i = 0; i < BN_ARRAY_LEN(f.prompt); i++)
        f.prompt[i] = WORDS[i % BN_ARRAY_LEN(WORDS)];
}

FIXTURE(teardown)
{
    bn_model_close(f.model);
    bn_model_close(f.spoiled);
    bn_model_close(f.other);
    bn_free(f.bytes);
}

static bn_session *open_session(const bn_model *model, uint32_t n_ctx, uint32_t n_batch)
{
    bn_session *s = NULL;
    bn_session_options options = {
        .n_ctx = n_ctx, .n_batch = n_batch, .n_threads = n_batch == 5 ? 2 : 1, .exact_threads = true};
    must(bn_session_open(&s, model, &options, NULL));
    return s;
}

struct text {
    char bytes[4096];
    size_t n;
};

static bool take_text(void *user, int32_t id, const char *bytes, size_t n)
{
    struct text *text = user;
    (void)id;
    assert_true(text->n + n < sizeof text->bytes);
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    return true;
}

/* Generates without drafts and with them; returns what the latter did. */
static bn_draft_stat compare(const bn_generation *request, uint32_t n_batch)
{
    struct text texts[2] = {0};
    bn_generation gens[2];
    bn_session *sessions[2];
    for (int i = 0; i < 2; i++) {
        gens[i] = *request;
        gens[i].want_chain = true;
        gens[i].n_top = 3;
        gens[i].on_token = take_text;
        gens[i].user = &texts[i];
        if (i == 0) gens[i].draft = (bn_draft_options){0};
        sessions[i] = open_session(f.model, N_CTX, n_batch);
        must(bn_generate(sessions[i], bn_model_tokenizer(f.model), &gens[i], NULL));
    }
    assert_int_equal(gens[0].n_ids, gens[1].n_ids);
    assert_memory_equal(gens[0].ids, gens[1].ids, gens[0].n_ids * sizeof *gens[0].ids);
    assert_memory_equal(gens[0].top, gens[1].top, gens[0].n_ids * 3 * sizeof *gens[0].top);
    assert_string_equal(gens[0].chain, gens[1].chain);
    assert_int_equal(gens[0].reason, gens[1].reason);
    assert_string_equal(texts[0].bytes, texts[1].bytes);
    uint32_t position = bn_session_position(sessions[0]);
    assert_int_equal(position, bn_session_position(sessions[1]));
    assert_int_equal(bn_session_keep(sessions[1], sessions[0]->own.tokens, position), position);
    /* A rejected draft leaves nothing: what comes next is the same, too. */
    if (position < N_CTX) {
        float *logits[2];
        for (int i = 0; i < 2; i++) {
            logits[i] = bn_alloc(2048, sizeof *logits[i]);
            must(bn_session_eval(sessions[i], request->prompt, 1, BN_LOGITS_LAST, logits[i], NULL));
        }
        assert_memory_equal(logits[0], logits[1], 2048 * sizeof *logits[0]);
        bn_free(logits[0]);
        bn_free(logits[1]);
    }
    bn_draft_stat stat = gens[1].drafts;
    assert_int_equal(gens[0].drafts.passes, 0);
    assert_int_equal(gens[1].work.passes, gens[0].work.passes - stat.accepted);
    assert_int_equal(gens[1].work.tokens, gens[0].work.tokens + stat.drafted - stat.accepted);
    for (int i = 0; i < 2; i++) {
        bn_generation_release(&gens[i]);
        bn_session_close(sessions[i]);
    }
    return stat;
}

static const bn_sampler_options SAMPLINGS[] = {
    BN_SAMPLER_OPTIONS_INIT,
    {0, 0.7f, 0, 1.0f, 0.0f, 1.0f, 64, 1, 0.0f, 0.0f, NULL, 0, 0},
    {0, 0.9f, 40, 0.9f, 0.02f, 1.2f, 32, 2, 0.0f, 0.0f, NULL, 0, 0},
    {0, 0.0f, 0, 1.0f, 0.0f, 1.0f, 64, 1, 0.3f, 0.2f, NULL, 0, 0},
};

static bn_generation request(size_t sampling)
{
    return (bn_generation){.prompt = f.prompt,
                           .n_prompt = BN_ARRAY_LEN(f.prompt),
                           .n_predict = 60,
                           .sampling = SAMPLINGS[sampling],
                           .ignore_end = true,
                           .draft = {.kind = BN_DRAFT_NGRAM, .always = true}};
}

TEST(ngrams_change_nothing)
{
    uint64_t passes = 0, accepted = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(SAMPLINGS); i++)
        for (uint32_t most = 1; most <= 64; most = most * 8) {
            bn_generation gen = request(i);
            gen.draft.most = most;
            bn_draft_stat stat = compare(&gen, i == 1 ? 5 : 128);
            assert_true(stat.drafted >= stat.passes && stat.drafted >= stat.accepted);
            passes += stat.passes;
            accepted += stat.accepted;
        }
    assert_true(passes > 10 && accepted > 10);
}

TEST(a_draft_model_changes_nothing)
{
    bn_draft_stat stat;
    for (size_t i = 0; i < BN_ARRAY_LEN(SAMPLINGS); i++) {
        bn_generation gen = request(i);
        bn_session *same = open_session(f.model, N_CTX, 16), *wrong = open_session(f.spoiled, N_CTX, 16);
        gen.draft = (bn_draft_options){.kind = BN_DRAFT_MODEL, .session = same, .most = 7, .always = true};
        stat = compare(&gen, 128);
        /* The model itself drafts with the random numbers of the sampler: it is always right. */
        assert_int_equal(stat.drafted, stat.accepted);
        assert_int_equal(stat.passes, 8);
        gen.draft.session = wrong;
        stat = compare(&gen, 128);
        assert_true(stat.drafted > stat.accepted);
        stat = compare(&gen, 128); /* with a draft session that has another text already */
        assert_true(stat.drafted > stat.accepted);
        bn_session_close(same);
        bn_session_close(wrong);
    }
}

/* Whatever ends a generation does so at the same token, also in the middle of a draft. */
TEST(every_end_is_the_same)
{
    bn_session *same = open_session(f.model, N_CTX, 16);
    static const char *const STOPS[] = {"the"};
    for (uint32_t n = 1; n < 8; n += 2) {
        bn_generation gen = request(0);
        gen.n_predict = n;
        gen.draft = (bn_draft_options){.kind = BN_DRAFT_MODEL, .session = same, .most = 6, .always = true};
        (void)compare(&gen, 128);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(SAMPLINGS); i += 2) {
        bn_generation gen = request(i);
        gen.draft = (bn_draft_options){.kind = BN_DRAFT_MODEL, .session = same, .most = 9, .always = true};
        gen.n_predict = 1000; /* the context ends it, and limits drafts */
        (void)compare(&gen, 128);
        gen.stops = STOPS;
        gen.n_stops = 1;
        (void)compare(&gen, 128);
        gen.n_stops = 0;
        for (int32_t id = 10; id < 300; id += 130) {
            const int32_t ids[] = {id, 11, 262};
            gen.stop_ids = ids;
            gen.n_stop_ids = 3;
            (void)compare(&gen, 128);
        }
    }
    bn_session_close(same);
}

/* A generation that is cancelled between two drafts has a beginning of its tokens, and its sequence holds these only. */
TEST(a_cancelled_generation_keeps_no_drafts)
{
    for (int n_steps = 1; n_steps < 8; n_steps++) {
        bn_scheduler *sched = NULL;
        bn_session *s = open_session(f.model, N_CTX, 16);
        bn_generation gen = request(0), whole = request(0);
        must(bn_generate(s, NULL, &whole, NULL));
        must(bn_session_truncate(s, 0, NULL));
        must(bn_scheduler_open(&sched, s, NULL, 1, NULL));
        must(bn_scheduler_add(sched, bn_session_sequence(s), &gen, NULL));
        for (int i = 0; i < n_steps; i++)
            must(bn_scheduler_step(sched, NULL));
        bn_scheduler_cancel(sched, &gen);
        assert_ptr_equal(bn_scheduler_take(sched), &gen);
        assert_int_equal(gen.reason, BN_STOP_CALLER);
        assert_true(gen.n_ids < whole.n_ids);
        if (gen.n_ids > 0) {
            assert_memory_equal(gen.ids, whole.ids, gen.n_ids * sizeof *gen.ids);
            assert_int_equal(bn_session_position(s), gen.n_prompt + gen.n_ids - 1);
            assert_int_equal(bn_session_keep(s, gen.prompt, gen.n_prompt), gen.n_prompt);
        }
        bn_scheduler_close(sched);
        bn_generation_release(&gen);
        bn_generation_release(&whole);
        bn_session_close(s);
    }
}

TEST(a_short_draft_context_is_no_error)
{
    bn_session *brief = open_session(f.model, 60, 16);
    bn_generation gen = request(0);
    gen.draft = (bn_draft_options){.kind = BN_DRAFT_MODEL, .session = brief, .most = 4, .always = true};
    bn_draft_stat stat = compare(&gen, 128);
    assert_true(stat.drafted > 4 && stat.drafted < 20);
    bn_session_close(brief);
}

TEST(drafts_that_do_not_fit_are_refused)
{
    bn_session *s = open_session(f.model, N_CTX, 16), *other = open_session(f.other, 64, 16);
    bn_generation gen = request(0);
    gen.draft = (bn_draft_options){.kind = BN_DRAFT_MODEL, .session = other};
    refused(bn_generate(s, bn_model_tokenizer(f.model), &gen, &err), BN_ERR_ARG);
    assert_has(err.msg, "vocabulary");
    gen.draft.session = NULL;
    refused(bn_generate(s, bn_model_tokenizer(f.model), &gen, NULL), BN_ERR_ARG);
    gen.draft = (bn_draft_options){.kind = BN_DRAFT_NGRAM, .most = 65};
    refused(bn_generate(s, bn_model_tokenizer(f.model), &gen, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, "cannot draft 65 tokens, at most 64");
    bn_session_close(s);
    bn_session_close(other);
}

TEST(short_memory_is_survived)
{
    bn_session *s = open_session(f.model, N_CTX, 16), *same = open_session(f.model, N_CTX, 16);
    bn_status status;
    SHORT_MEMORY (status) {
        bn_generation gen = request(1);
        gen.n_predict = 3;
        gen.draft = (bn_draft_options){.kind = BN_DRAFT_MODEL, .session = same};
        must(bn_session_truncate(s, 0, NULL));
        status = bn_generate(s, bn_model_tokenizer(f.model), &gen, NULL);
        bn_generation_release(&gen);
    }
    bn_session_close(s);
    bn_session_close(same);
}

#define PLAIN_NS 1000000u

/* n tokens by passes whose drafts are right in `right` of `of` cases; a drafted token costs `each` of a plain pass.
 * Returns the time of all in plain passes. */
static double simulate(struct bn_draft_pace *pace, uint32_t n, uint32_t right, uint32_t of, double each)
{
    double ns = 0.0;
    uint32_t random = 1;
    for (uint32_t done = 0; done < n;) {
        size_t n_drafted = bn_draft_pace_length(pace), n_tokens = 1;
        assert_true(n_drafted <= pace->most);
        while (n_tokens <= n_drafted &&
               (random = random * 1664525u + 1013904223u) >> 8 < right * ((1u << 24) / of))
            n_tokens++;
        double pass = PLAIN_NS * (1.0 + each * (double)n_drafted);
        bn_draft_pace_account(pace, n_drafted, n_tokens, (uint64_t)pass);
        done += (uint32_t)n_tokens;
        ns += pass;
    }
    return ns / PLAIN_NS;
}

static struct bn_draft_pace new_pace(void)
{
    return (struct bn_draft_pace){.most = 16, .length = 2};
}

TEST(wrong_drafts_take_little_time)
{
    for (double each = 0.05; each < 2.0; each *= 2) {
        struct bn_draft_pace pace = new_pace();
        assert_true(simulate(&pace, 10000, 0, 1, each) < 10000 * 1.02);
        assert_true(simulate(&pace, 1000, 0, 1, each) < 1000 * 1.02);
        pace = new_pace();
        /* The first drafts are tried at once. */
        assert_true(simulate(&pace, 32, 0, 1, each) < 32 * 1.02 + 2.0 * each);
    }
    /* Right now and then, and never enough. */
    struct bn_draft_pace pace = new_pace();
    assert_true(simulate(&pace, 10000, 1, 4, 0.9) < 10000 * 1.02);
}

TEST(right_drafts_are_always_made)
{
    struct bn_draft_pace pace = new_pace();
    assert_true(simulate(&pace, 10000, 1, 1, 0.1) < 10000 * 0.18); /* 2.6 for 17 tokens is 0.15 */
    assert_int_equal(pace.length, 16);
    pace = new_pace();
    assert_true(simulate(&pace, 10000, 3, 4, 0.15) < 10000 * 0.6);
    /* Even when each costs as much as a pass, drafts of the same length never lose. */
    pace = new_pace();
    assert_true(simulate(&pace, 10000, 1, 1, 0.99) < 10000 * 1.02);
}

/* After a text that can be drafted comes one that cannot, and then the first again. */
TEST(drafts_stop_and_begin_again)
{
    struct bn_draft_pace pace = new_pace();
    (void)simulate(&pace, 2000, 1, 1, 0.2);
    assert_true(simulate(&pace, 2000, 0, 1, 0.5) < 2000 * 1.02 + 8);
    assert_true(simulate(&pace, 2000, 1, 1, 0.2) < 2000 * 0.4);
    /* One pass that waits for ten seconds does not end drafts for good. */
    bn_draft_pace_account(&pace, 2, 1, 10000000000u);
    (void)simulate(&pace, 2100, 1, 1, 0.2);
    assert_true(simulate(&pace, 2000, 1, 1, 0.2) < 2000 * 0.3);
}

/* Other programs make one pass in five take ten times as long: drafts that pay are made all the same. */
TEST(delays_do_not_end_drafts)
{
    struct bn_draft_pace pace = new_pace();
    uint32_t n_passes = 0, n_tokens = 0;
    for (; n_tokens < 5000; n_passes++) {
        size_t n_drafted = bn_draft_pace_length(&pace);
        double pass = PLAIN_NS * (1.0 + 0.2 * (double)n_drafted) * (n_passes * 7 % 5 == 0 ? 10 : 1);
        bn_draft_pace_account(&pace, n_drafted, n_drafted + 1, (uint64_t)pass);
        n_tokens += (uint32_t)n_drafted + 1;
    }
    assert_true(n_passes < 5000 / 10);
}

TEST(nothing_is_drafted_before_the_first_measurements)
{
    struct bn_draft_pace pace = new_pace();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(bn_draft_pace_length(&pace), 0);
        bn_draft_pace_account(&pace, 0, 1, PLAIN_NS);
    }
    assert_int_equal(bn_draft_pace_length(&pace), 1);
    /* Single tokens are measured now and then, even while drafts are right. */
    for (int i = 0; i < 64; i++) {
        assert_true(bn_draft_pace_length(&pace) > 0);
        bn_draft_pace_account(&pace, 1, 2, PLAIN_NS);
    }
    assert_int_equal(bn_draft_pace_length(&pace), 0);
    pace.always = true;
    assert_int_equal(bn_draft_pace_length(&pace), 16);
}

GROUP(setup, teardown)
