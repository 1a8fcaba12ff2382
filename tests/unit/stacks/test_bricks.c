/* SPDX-License-Identifier: MIT
 *
 * Measured times as stacks, and the question what a thread did at a time.
 */
#include "lab/profile/document.h"
#include "tests/unit/stacks/brick_maker.h"
#include "tests/unit/stacks/stacks_child.h"
#include "tests/unit/status.h"

static bn_stacks *open_stacks(void)
{
    bn_stacks *stacks = NULL;
    must(bn_stacks_open(&stacks, "ns", "bricks", &err));
    return stacks;
}

/* Exclusive time of a brick below a node: its own, and that of its kernels. */
static uint64_t time_of(const bn_stacks *s, uint32_t below, const char *brick)
{
    double sum = 0;
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(s, i);
        uint32_t at = i;
        if (f->kind == BN_FRAME_SLOT) f = bn_stacks_frame(s, s->nodes[i].parent);
        while (at != below && at != BN_STACKS_ROOT)
            at = s->nodes[at].parent;
        if (at == below && f->kind == BN_FRAME_BRICK && strcmp(f->name, brick) == 0)
            sum += bn_stacks_self(s, i, BN_STACKS_ALL_RUNS);
    }
    return (uint64_t)sum;
}

static void check_sums(const bn_prof *prof, const bn_stacks *s)
{
    double *totals = bn_alloc(s->n_nodes, sizeof *totals);
    assert_non_null(totals);
    bn_stacks_totals(s, BN_STACKS_ALL_RUNS, totals);
    assert_true(totals[0] == (double)(prof->wall_ns * prof->n_threads));
    for (unsigned t = 0; t < prof->n_threads; t++) {
        char name[32];
        snprintf(name, sizeof name, "thread %u", t);
        uint32_t thread = bn_stacks_child(s, BN_STACKS_ROOT, BN_FRAME_THREAD, name);
        assert_int_not_equal(thread, BN_STACKS_NONE);
        assert_true(totals[thread] == (double)prof->wall_ns);
        assert_true(time_of(s, thread, BN_BRICKS_UNATTRIBUTED) == prof->wall_ns - bn_prof_total_ns(prof, t));
        for (unsigned b = 0; b < BN_BRICK_KNOWN; b++)
            assert_true(time_of(s, thread, bn_brick_name(b)) == bn_prof_stats_for(prof, b, t).exclusive_ns);
    }
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        double ns = 0;
        for (uint32_t i = 1; i < s->n_nodes; i++)
            if (bn_stacks_frame(s, i)->kind == BN_FRAME_SLOT &&
                strcmp(bn_stacks_frame(s, i)->name, bn_prof_kernel_name(prof, k)) == 0)
                ns += bn_stacks_self(s, i, BN_STACKS_ALL_RUNS);
        assert_true(ns == (double)bn_prof_kernel_stats(prof, (enum bn_kernel)k, BN_PROF_ALL_THREADS).ns);
    }
    bn_free(totals);
}

TEST(sums_are_exact_at_every_level)
{
    for (int level = BN_PROF_LAYER; level < BN_PROF_LEVELS; level++) {
        struct maker m;
        bn_stacks *stacks = open_stacks();
        maker_open(&m, (enum bn_prof_level)level, 7, 20);
        m.prof->clock.ns_per_tick = 0.43478; /* so that rounding shows */
        m.prof->finalized = false;
        for (unsigned t = 0; t < MAKER_THREADS; t++) { /* sums are made again, with this clock */
            struct bn_prof_trail *trail = &m.prof->trails[t];
            memset(trail->bricks, 0, sizeof trail->bricks);
            memset(trail->kernels, 0, sizeof trail->kernels);
            memset(trail->inside_ns, 0, sizeof trail->inside_ns);
            trail->n_folded = 0;
        }
        bn_prof_finalize(m.prof, bn_prof_ns(m.prof, m.now));
        must(bn_bricks_add(stacks, 0, m.prof, &err));
        check_sums(m.prof, stacks);
        bn_stacks_close(stacks);
        bn_prof_close(m.prof);
    }
}

TEST(phases_and_layers_have_names)
{
    struct maker m;
    bn_stacks *s = open_stacks();
    maker_open(&m, BN_PROF_KERNEL, 8, 4);
    must(bn_bricks_add(s, 0, m.prof, &err));
    uint32_t thread = bn_stacks_child(s, BN_STACKS_ROOT, BN_FRAME_THREAD, "thread 0");
    uint32_t prefill = bn_stacks_child(s, thread, BN_FRAME_PHASE, "prefill");
    uint32_t decode = bn_stacks_child(s, thread, BN_FRAME_PHASE, "decode");
    assert_int_not_equal(prefill, BN_STACKS_NONE);
    assert_int_not_equal(decode, BN_STACKS_NONE);
    uint32_t layer = bn_stacks_child(s, decode, BN_FRAME_LAYER, "layer 02");
    assert_int_not_equal(layer, BN_STACKS_NONE);
    uint32_t attention = bn_stacks_child(s, layer, BN_FRAME_BRICK, "Attention");
    uint32_t score = bn_stacks_child(s, attention, BN_FRAME_BRICK, "AttentionScore");
    assert_int_not_equal(bn_stacks_child(s, score, BN_FRAME_SLOT, "attn_scores_ref"), BN_STACKS_NONE);
    uint32_t outside = bn_stacks_child(s, prefill, BN_FRAME_LAYER, "outside layers");
    assert_int_not_equal(bn_stacks_child(s, outside, BN_FRAME_BRICK, "LmHead"), BN_STACKS_NONE);
    /* The prompt's second pass has one token, as those of decoding: it follows no logits. Five heads in all.
     */
    size_t n, prompt = 0, total = 0;
    const struct bn_prof_event *events = bn_prof_events(m.prof, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (events[i].brick == BN_BRICK_LM_HEAD && events[i].kernel == BN_PROF_NO_KERNEL) {
            uint64_t ns = bn_prof_ns(m.prof, events[i].end) - bn_prof_ns(m.prof, events[i].begin);
            if (events[i].pass < 2) prompt += ns;
            total += ns;
        }
    assert_int_equal(time_of(s, prefill, "LmHead"), prompt);
    assert_int_equal(time_of(s, decode, "LmHead"), total - prompt);
    bn_stacks_close(s);
    bn_prof_close(m.prof);
}

TEST(what_is_not_whole_is_refused)
{
    struct maker m;
    bn_stacks *s = open_stacks();
    maker_open(&m, BN_PROF_KERNEL, 9, 4);
    struct bn_prof_trail *trail = &m.prof->trails[1];
    trail->dropped = 1;
    refused(bn_bricks_add(s, 0, m.prof, &err), BN_ERR_MISMATCH);
    trail->dropped = 0;
    for (int fault = 0; fault < 3; fault++) {
        struct bn_prof_event *e = &trail->events[fault == 2 ? trail->n - 1 : 5], good = *e;
        if (fault == 0) e->begin = good.end + 1;
        if (fault == 1) e->end += 1u << 30;
        if (fault == 2) e->depth = 3; /* nothing is around it */
        refused(bn_bricks_add(s, 0, m.prof, &err), BN_ERR_FORMAT);
        *e = good;
    }
    m.prof->wall_ns /= 8; /* bricks took more time than there was */
    err = (bn_error){0};
    bn_stacks_close(s);
    s = open_stacks();
    refused(bn_bricks_add(s, 0, m.prof, &err), BN_ERR_FORMAT);
    assert_has(err.msg, "take longer");
    bn_stacks_close(s);
    bn_prof_close(m.prof);
}

TEST(a_document_gives_the_same)
{
    struct maker m;
    bn_stacks *direct = open_stacks(), *read = NULL, *a = NULL, *b = NULL;
    maker_open(&m, BN_PROF_KERNEL, 10, 6);
    must(bn_bricks_add(direct, 0, m.prof, &err));
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_PROF_SCHEMA);
    bn_json_put_string(bn_json_put_object(doc, "model"), "name", "tiny");
    must(bn_prof_put(doc, m.prof, &(bn_hparams){.n_layer = 3}, &err));
    must(bn_stacks_from_profile(&read, doc, &err));
    const char *text;
    assert_true(bn_json_string(bn_json_path(read->about, "model.name"), &text));
    assert_string_equal(text, "tiny");
    struct bn_stacks_view view = {0};
    must(bn_stacks_copy(&a, direct, &view, &err));
    must(bn_stacks_copy(&b, read, &view, &err));
    assert_int_equal(a->n_nodes, b->n_nodes);
    for (uint32_t i = 1; i < a->n_nodes; i++) {
        assert_string_equal(bn_stacks_frame(a, i)->name, bn_stacks_frame(b, i)->name);
        assert_true(bn_stacks_self(a, i, 0) == bn_stacks_self(b, i, 0));
    }
    bn_json_put_string(doc, "schema", "bn.other/1");
    bn_stacks *none = NULL;
    refused(bn_stacks_from_profile(&none, doc, &err), BN_ERR_FORMAT);
    assert_null(none);
    bn_json_free(doc);
    bn_stacks_close(a);
    bn_stacks_close(b);
    bn_stacks_close(read);
    bn_stacks_close(direct);
    bn_prof_close(m.prof);
}

/* The path that the clock gives, as "a;b;c". */
static void path_at(char out[512], const bn_brick_clock *clock, uint32_t tid, uint64_t ns)
{
    bn_stacks *s = open_stacks();
    uint32_t node = BN_STACKS_ROOT;
    size_t n = 0;
    must(bn_brick_clock_push(clock, tid, ns, s, &node, &err));
    out[0] = '\0';
    for (uint32_t i = 1; i < s->n_nodes; i++) /* one path: parents come first */
        n += (size_t)snprintf(out + n, 512 - n, "%s%s", n > 0 ? ";" : "", bn_stacks_frame(s, i)->name);
    bn_stacks_close(s);
}

/* By looking at every event: the deepest that the time lies in. */
static const struct bn_prof_event *slow_find(const bn_prof *prof, unsigned thread, uint64_t ticks)
{
    size_t n;
    const struct bn_prof_event *events = bn_prof_events(prof, thread, &n), *found = NULL;
    for (size_t i = 0; i < n; i++)
        if (events[i].begin <= ticks && ticks < events[i].end)
            if (found == NULL || events[i].depth > found->depth) found = &events[i];
    return found;
}

TEST(the_clock_finds_what_ran)
{
    static const uint32_t TIDS[] = {4711, 4712};
    struct maker m;
    bn_brick_clock *clock = NULL;
    uint64_t random = 3, hits = 0, misses = 0;
    char path[512];
    maker_open(&m, BN_PROF_KERNEL, 11, 10);
    /* 3 ns a tick by the pairs, whatever the profile believes. */
    struct bn_clock_pair pairs[2] = {{1000, 5000000}, {1000 + 100000, 5000000 + 300000}};
    must(bn_brick_clock_open(&clock, m.prof, TIDS, pairs, &err));
    for (int i = 0; i < 4000; i++) {
        unsigned thread = (unsigned)bn_splitmix64_below(&random, 2);
        uint64_t ticks = 1000 + bn_splitmix64_below(&random, m.now - 1000);
        const struct bn_prof_event *e = slow_find(m.prof, thread, ticks);
        path_at(path, clock, TIDS[thread], 5000000 + 3 * (ticks - 1000) + 1);
        if (e == NULL) {
            assert_string_equal(path, "");
            misses++;
            continue;
        }
        const char *name =
            e->kernel != BN_PROF_NO_KERNEL ? bn_prof_kernel_name(m.prof, e->kernel) : bn_brick_name(e->brick);
        size_t n = strlen(path), k = strlen(name);
        assert_true(n > k && strcmp(path + n - k, name) == 0);
        assert_true(strncmp(path, "prefill;", 8) == 0 || strncmp(path, "decode;", 7) == 0);
        hits++;
    }
    assert_true(hits > 1000 && misses > 500);
    path_at(path, clock, 1, 5000000 + 3000); /* another thread */
    assert_string_equal(path, "");
    path_at(path, clock, TIDS[0], 0); /* long before */
    assert_string_equal(path, "");
    path_at(path, clock, TIDS[0], UINT64_MAX / 4); /* long behind */
    assert_string_equal(path, "");
    bn_brick_clock_close(clock);
    struct bn_clock_pair turned[2] = {pairs[1], pairs[0]};
    refused(bn_brick_clock_open(&clock, m.prof, TIDS, turned, &err), BN_ERR_ARG);
    assert_null(clock);
    bn_prof_close(m.prof);
}

TEST(a_short_memory_is_an_error)
{
    struct maker m;
    maker_open(&m, BN_PROF_KERNEL, 12, 2);
    bn_status status;
    SHORT_MEMORY (status) {
        bn_stacks *s = NULL;
        status = bn_stacks_open(&s, "ns", "bricks", NULL);
        if (status == BN_OK) status = bn_bricks_add(s, 0, m.prof, NULL);
        bn_stacks_close(s);
    }
    bn_prof_close(m.prof);
}
