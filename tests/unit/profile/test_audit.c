/* SPDX-License-Identifier: MIT
 *
 * The rules of a profile's document: one that was measured (here with a clock that moves by random steps)
 * keeps them all; each forgery breaks the rule that is meant for it, though its own summary is made anew.
 */
#include "base/random.h"
#include "lab/profile/document.h"
#include "tests/unit/prof_clock.h"
#include "tests/unit/status.h"

#define N_THREADS 2u
#define N_LAYERS 3u
#define N_PASSES 4u

/* ---- a profile as the engine takes it ---- */

struct fake {
    uint64_t now, state, least;
};

static uint64_t read_fake(void *user)
{
    struct fake *fake = user;
    return fake->now;
}

static void brick(bn_prof *prof, struct fake *fake, unsigned thread, unsigned which, uint64_t ns)
{
    struct bn_prof_trail *trail = &prof->trails[thread];
    struct bn_brick_timer timer = bn_prof_start(trail, which);
    trail->bytes += which == BN_BRICK_LM_HEAD ? 100000 : 0;
    fake->now += ns + (bn_splitmix64(&fake->state) >> 32) % (ns / 3 + 2);
    bn_prof_stop(timer, 64);
    fake->now += bn_splitmix64(&fake->state) >> 62;
}

static void play_layer(bn_prof *prof, struct fake *fake, unsigned t, unsigned layer)
{
    static const unsigned BRICKS[] = {BN_BRICK_RMS_NORM,
                                      BN_BRICK_ACTIVATION_QUANTIZE,
                                      BN_BRICK_QKV_PROJECTION,
                                      BN_BRICK_BARRIER_WAIT,
                                      BN_BRICK_ROPE_EMBEDDING,
                                      BN_BRICK_KV_STORE,
                                      BN_BRICK_ATTENTION,
                                      BN_BRICK_RMS_NORM,
                                      BN_BRICK_ACTIVATION_QUANTIZE,
                                      BN_BRICK_OUTPUT_PROJECTION,
                                      BN_BRICK_RESIDUAL_ADD,
                                      BN_BRICK_RMS_NORM,
                                      BN_BRICK_ACTIVATION_QUANTIZE,
                                      BN_BRICK_GATE_PROJECTION,
                                      BN_BRICK_UP_PROJECTION,
                                      BN_BRICK_ACTIVATION,
                                      BN_BRICK_RMS_NORM,
                                      BN_BRICK_ACTIVATION_QUANTIZE,
                                      BN_BRICK_DOWN_PROJECTION,
                                      BN_BRICK_RESIDUAL_ADD};
    prof->trails[t].layer = (int16_t)layer;
    for (size_t i = 0; i < BN_ARRAY_LEN(BRICKS); i++)
        brick(prof, fake, t, BRICKS[i], 50 + 40 * BRICKS[i]);
    prof->trails[t].layer = -1;
}

/* Threads take turns on the one clock; their trails do not know. */
static bn_prof *play(uint64_t seed)
{
    struct bn_prof_options options = {BN_PROF_BRICK, N_THREADS, 1024, 16};
    struct fake fake = {.state = seed};
    bn_prof *prof = NULL;
    must(bn_prof_open(&prof, &options, NULL));
    prof_set_clock(prof, read_fake, &fake);
    prof->enabled = true;
    bn_prof_reset_epoch(prof);
    for (uint32_t pass = 0; pass < N_PASSES; pass++) {
        bn_prof_begin_pass(prof, pass, 1, 1);
        uint64_t begin = fake.now, end = begin;
        for (unsigned t = N_THREADS; t-- > 0;) {
            fake.now = begin;
            if (t == 0) brick(prof, &fake, t, BN_BRICK_TEAM, 40);
            brick(prof, &fake, t, BN_BRICK_EMBEDDING, 100);
            for (unsigned layer = 0; layer < N_LAYERS; layer++)
                play_layer(prof, &fake, t, layer);
            brick(prof, &fake, t, BN_BRICK_RMS_NORM, 60);
            brick(prof, &fake, t, BN_BRICK_LM_HEAD, 3000);
            if (t == 0) brick(prof, &fake, t, BN_BRICK_TEAM, 40);
            if (fake.now > end) end = fake.now;
        }
        fake.now = end;
        bn_prof_end_pass(prof);
        brick(prof, &fake, 0, BN_BRICK_SAMPLING, 70);
    }
    bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
    prof_set_clock(prof, NULL, NULL);
    prof->clock = (struct bn_tick_clock){true, 1.0};
    prof->resolution = 1;
    return prof;
}

static bn_json *document(const bn_prof *prof)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_PROF_SCHEMA);
    must(bn_prof_put(doc, prof, &(bn_hparams){.n_layer = N_LAYERS, .sub_norms = true}, NULL));
    return doc;
}

/* The summary of the events as they are now. */
static void sum_up_again(bn_prof *prof)
{
    uint64_t wall = prof->wall_ns;
    for (unsigned t = 0; t < prof->n_threads; t++) {
        struct bn_prof_trail *trail = &prof->trails[t];
        trail->n_folded = 0;
        memset(trail->inside_ns, 0, sizeof trail->inside_ns);
        memset(trail->bricks, 0, sizeof trail->bricks);
        memset(trail->kernels, 0, sizeof trail->kernels);
    }
    prof->finalized = false;
    bn_prof_finalize(prof, wall);
}

static struct bn_prof_audit judge(bn_json *doc)
{
    struct bn_prof_audit audit;
    /* As text and back, which is how a document arrives. */
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_json *again = NULL;
    must(bn_json_write(doc, false, &text, &err));
    must(bn_json_parse(&again, text.data, text.len, &err));
    if (attempt(bn_prof_audit(&audit, again, &err)) != BN_OK) fail_msg("%s", err.msg);
    bn_json_free(again);
    bn_json_free(doc);
    bn_buf_release(&text);
    return audit;
}

static void assert_only(const struct bn_prof_audit *audit, const char *rule)
{
    for (size_t i = 0; i < BN_PROF_RULES; i++) {
        const struct bn_prof_finding *f = &audit->list[i];
        bool expected = rule != NULL && strcmp(f->rule, rule) == 0;
        if (f->ok == expected) fail_msg("%s is %s: %s", f->rule, f->ok ? "kept" : "broken", f->why.msg);
    }
}

static void assert_broken(const struct bn_prof_audit *audit, const char *rule)
{
    for (size_t i = 0; i < BN_PROF_RULES; i++)
        if (strcmp(audit->list[i].rule, rule) == 0) {
            assert_false(audit->list[i].ok);
            return;
        }
    fail_msg("no rule %s", rule);
}

/* Judges what was made of a genuine profile, and closes it. */
static void reject(bn_prof *prof, const char *rule)
{
    sum_up_again(prof);
    struct bn_prof_audit audit = judge(document(prof));
    assert_only(&audit, rule);
    bn_prof_close(prof);
}

TEST(a_hundred_genuine_ones_pass)
{
    struct bn_prof_audit before = {.n_failed = 0};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        bn_prof *prof = play(seed);
        struct bn_prof_audit audit = judge(document(prof));
        assert_only(&audit, NULL);
        assert_int_equal(audit.n_failed, 0);
        if (seed > 1) must(bn_prof_check_copies(&before, &audit, NULL));
        before = audit;
        bn_prof_close(prof);
    }
}

/* ---- forgeries ---- */

/* tests/cli/profile.sh plants splits by fixed shares, copies and rounded stamps. */

TEST(edited_numbers_are_refused)
{
    static const char *const EDITS[][2] = {{"\"exclusive_ns\": ", "1"},
                                           {"\"decode_tokens_per_second\": ", "9"},
                                           {"\"share_of_sum\": ", "0.5"},
                                           {"\"coverage\": ", "0.99"},
                                           {"\"unattributed_ns\": ", "7"}};
    bn_prof *prof = play(4);
    for (size_t i = 0; i < BN_ARRAY_LEN(EDITS); i++) {
        struct bn_buf text = {.max = BN_JSON_MAX_BYTES}, edited = text;
        bn_json *doc = document(prof), *forged = NULL;
        must(bn_json_write(doc, false, &text, NULL));
        char *at = strstr(text.data, EDITS[i][0]);
        assert_non_null(at);
        at += strlen(EDITS[i][0]);
        bn_buf_append(&edited, text.data, (size_t)(at - text.data));
        bn_buf_puts(&edited, EDITS[i][1]);
        bn_buf_puts(&edited, at + strcspn(at, ",\n"));
        must(bn_json_parse(&forged, edited.data, edited.len, NULL));
        struct bn_prof_audit audit = judge(forged);
        assert_only(&audit, "summary");
        bn_json_free(doc);
        bn_buf_release(&text);
        bn_buf_release(&edited);
    }
    bn_prof_close(prof);
}

/* The event of a brick in a layer. */
static struct bn_prof_event *find(bn_prof *prof, unsigned thread, unsigned pass, int layer, unsigned which)
{
    for (size_t i = 0; i < prof->trails[thread].n; i++) {
        struct bn_prof_event *e = &prof->trails[thread].events[i];
        if (e->pass == pass && e->layer == layer && e->brick == which) return e;
    }
    fail();
    return &prof->trails[thread].events[0];
}

TEST(stamps_out_of_order_are_refused)
{
    bn_prof *prof = play(5);
    struct bn_prof_event *e = find(prof, 1, 2, 1, BN_BRICK_GATE_PROJECTION);
    uint64_t begin = e->begin;
    e->begin = e->end;
    e->end = begin;
    sum_up_again(prof);
    struct bn_prof_audit audit = judge(document(prof));
    assert_broken(&audit, "stamps");
    bn_prof_close(prof);

    prof = play(5);
    find(prof, 0, 1, 2, BN_BRICK_UP_PROJECTION)->begin -= 5; /* overlaps the one ahead */
    reject(prof, "stamps");

    prof = play(5);
    prof->passes[1].begin += 2000; /* events before their pass */
    reject(prof, "stamps");

    prof = play(5);
    e = find(prof, 0, 1, 2, BN_BRICK_UP_PROJECTION);
    e->depth = 1; /* as if inside what ends before it began */
    sum_up_again(prof);
    audit = judge(document(prof));
    assert_broken(&audit, "stamps");
    bn_prof_close(prof);
}

static void take_for(unsigned thread, int layer, unsigned brick, unsigned other)
{
    bn_prof *prof = play(6);
    find(prof, thread, 3, layer, brick)->brick = (uint8_t)other;
    reject(prof, "counts");
}

TEST(what_is_missing_is_noticed)
{
    bn_prof *prof = play(6);
    for (size_t i = 0; i < prof->trails[1].n; i++) /* a layer of one thread given out as another */
        if (prof->trails[1].events[i].pass == 2 && prof->trails[1].events[i].layer == 1)
            prof->trails[1].events[i].layer = 2;
    reject(prof, "counts");

    take_for(0, 0, BN_BRICK_ACTIVATION, BN_BRICK_UP_PROJECTION);
    take_for(1, 1, BN_BRICK_BARRIER_WAIT, BN_BRICK_RMS_NORM); /* one layer unlike the others */
    take_for(0, -1, BN_BRICK_LM_HEAD, BN_BRICK_HEAD_SCREEN);

    prof = play(6);
    find(prof, 0, 3, 2, BN_BRICK_ACTIVATION)->layer = N_LAYERS;
    reject(prof, "counts");

    prof = play(6);
    prof->trails[1].dropped = 1;
    reject(prof, "complete");

    prof = play(6);
    prof->wall_ns += prof->wall_ns;
    reject(prof, "coverage");
}

TEST(impossible_speeds_are_refused)
{
    bn_prof *prof = play(8);
    for (unsigned pass = 0; pass < N_PASSES; pass++)
        find(prof, 0, pass, 0, BN_BRICK_GATE_PROJECTION)->bytes = (uint64_t)1 << 40;
    reject(prof, "plausible");

    /* A head that takes less than a norm although it reads a hundred times as much: only its start was
     * timed. */
    prof = play(8);
    for (unsigned pass = 0; pass < N_PASSES; pass++)
        for (unsigned t = 0; t < N_THREADS; t++) {
            struct bn_prof_event *e = find(prof, t, pass, -1, BN_BRICK_LM_HEAD);
            struct bn_prof_event *norm = find(prof, t, pass, -1, BN_BRICK_RMS_NORM);
            norm->end = e->end - 30 - pass - t;
            e->begin = norm->end + 1;
            e->bytes = 20000;
            /* The median of all norms counts, so those in the layers are as long. */
            for (size_t i = 0; i < prof->trails[t].n; i++)
                if (prof->trails[t].events[i].brick == BN_BRICK_QKV_PROJECTION)
                    prof->trails[t].events[i].brick = BN_BRICK_RMS_NORM;
        }
    sum_up_again(prof);
    struct bn_prof_audit audit = judge(document(prof));
    assert_broken(&audit, "plausible");
    bn_prof_close(prof);
}

TEST(other_documents_are_malformed)
{
    static const char *const GONE[] = {"level",   "n_threads", "clock",        "network",
                                       "wall_ns", "dropped",   "bricks",       "kernels",
                                       "passes",  "events",    "pass_columns", "event_columns"};
    bn_prof *prof = play(9);
    struct bn_prof_audit audit;
    for (size_t i = 0; i < BN_ARRAY_LEN(GONE); i++) {
        bn_json *doc = document(prof), *changed = bn_json_new_object();
        bn_json_put_string(changed, "schema", BN_PROF_SCHEMA);
        bn_json *profile = bn_json_put_object(changed, "profile");
        const bn_json *member = bn_json_first(bn_json_get(doc, "profile"));
        for (; member != NULL; member = bn_json_next(member))
            if (strcmp(bn_json_name(member), GONE[i]) != 0)
                bn_json_put_copy(profile, bn_json_name(member), member);
        bn_status status = bn_prof_audit(&audit, changed, NULL);
        /* A pass that events belong to cannot be missing either. */
        if (status != BN_ERR_FORMAT) fail_msg("without %s it is %s", GONE[i], bn_status_name(status));
        bn_json_free(doc);
        bn_json_free(changed);
    }
    bn_prof_close(prof);
}
