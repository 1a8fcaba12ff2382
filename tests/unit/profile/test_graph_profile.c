/* SPDX-License-Identifier: MIT
 *
 * lab/profile/graph_profile: a made-up pass of two threads comes out exactly; passes of a real model come out
 * whole, their times add up, and their critical path is no longer than the clock says.
 */
#include "infer/session.h"
#include "lab/profile/graph.h"
#include "model/model.h"
#include "tests/unit/prof_clock.h"
#include "tests/unit/status.h"

#define MODEL "fixtures/nano-bitnet-b1.58-i2_s-42.gguf"

/* ---- a made-up pass ---- */

static uint64_t fake_now(void *user)
{
    return *(uint64_t *)user;
}

static bn_prof *open_profile(enum bn_prof_level level, unsigned n_threads, uint64_t *now)
{
    bn_prof *prof = NULL;
    struct bn_prof_options options = {.level = level, .n_threads = n_threads};
    must(bn_prof_open(&prof, &options, NULL));
    if (now != NULL) prof_set_clock(prof, fake_now, now);
    prof->enabled = true;
    bn_prof_reset_epoch(prof);
    return prof;
}

/* A kernel alone in its brick, from `begin` on for ns. */
static void work(bn_prof *prof, uint64_t *now, unsigned thread, unsigned brick, uint64_t begin, uint64_t ns)
{
    struct bn_prof_trail *trail = &prof->trails[thread];
    *now = begin;
    struct bn_brick_timer timer = bn_prof_start(trail, brick);
    trail->kernel_begin = begin;
    *now = begin + ns;
    trail->bytes += 100;
    bn_prof_add_kernel(trail, BN_KERNEL_TERNARY_GEMV, 100,
                       &(struct bn_prof_shape){.rows = 16 + thread, .cols = 8, .n = 3});
    bn_prof_stop(timer, ns);
}

/* A brick without a kernel. */
static void spend(bn_prof *prof, uint64_t *now, unsigned thread, unsigned brick, uint64_t begin, uint64_t ns)
{
    *now = begin;
    struct bn_brick_timer timer = bn_prof_start(bn_prof_trail(prof, thread), brick);
    *now = begin + ns;
    bn_prof_stop(timer, 0);
}

/* Threads start at 10; the first works 70, the second 30 and waits 40; both work 5 in a layer, within a
 * brick; the first ends at 100. */
static void play_pass(bn_prof *prof, uint64_t *now, uint64_t t0)
{
    *now = t0;
    bn_prof_begin_pass(prof, 7, 3, 1);
    spend(prof, now, 0, BN_BRICK_TEAM, t0, 10);
    work(prof, now, 0, BN_BRICK_EMBEDDING, t0 + 10, 70);
    work(prof, now, 1, BN_BRICK_EMBEDDING, t0 + 10, 30);
    spend(prof, now, 0, BN_BRICK_BARRIER_WAIT, t0 + 80, 0);
    spend(prof, now, 1, BN_BRICK_BARRIER_WAIT, t0 + 40, 40);
    for (unsigned t = 0; t < 2; t++) {
        struct bn_prof_trail *trail = &prof->trails[t];
        trail->layer = 4;
        *now = t0 + 80;
        struct bn_brick_timer outer = bn_prof_start(trail, BN_BRICK_ATTENTION);
        work(prof, now, t, BN_BRICK_ATTENTION_SCORE, t0 + 80, 2);
        work(prof, now, t, BN_BRICK_ATTENTION_OUTPUT, t0 + 82, 1);
        work(prof, now, t, BN_BRICK_ATTENTION_SCORE, t0 + 83, 2);
        bn_prof_stop(outer, 9);
        spend(prof, now, t, BN_BRICK_BARRIER_WAIT, t0 + 85, 5);
        trail->layer = -1;
    }
    spend(prof, now, 0, BN_BRICK_TEAM, t0 + 90, 10);
    bn_prof_end_pass(prof);
    spend(prof, now, 0, BN_BRICK_SAMPLING, t0 + 100, 3);
}

static void check_tree(const struct bn_graph *graph, bool wide, const char *expected)
{
    struct bn_buf text = {.max = 1 << 20};
    bn_graph_tree(&text, graph, &(struct bn_tree_style){.ascii = true, .wide = wide});
    assert_string_equal(text.data, expected);
    bn_buf_release(&text);
}

TEST(a_made_up_pass_is_exact)
{
    uint64_t now = 1000;
    struct bn_graph graph;
    struct bn_schedule s;
    bn_prof *prof = open_profile(BN_PROF_KERNEL, 2, &now);
    play_pass(prof, &now, 1000);
    prof->kernel_names = bn_kernels_ref.name;
    bn_prof_finalize(prof, 200);
    bn_graph_open(&graph);
    must(bn_graph_add_profile(&graph, prof, NULL, 0, 1, NULL));
    check_tree(&graph, true,
               "Pass 0  0.1us (3 tokens)\n"
               "|-- Team  0.0us (0 elem)\n"
               "|   `-- Team of thread 0  0.0us\n"
               "|-- Embedding  0.1us (100 elem) 200B 792 op\n"
               "|   `-- ternary_gemv_ref  0.1us 200B 792 op\n"
               "|       |-- ternary_gemv_ref of thread 0  0.1us 100B 384 op\n"
               "|       `-- ternary_gemv_ref of thread 1  0.0us 100B 408 op\n"
               "|-- meeting  0.0us\n"
               "|   |-- BarrierWait of thread 0  0.0us\n"
               "|   `-- BarrierWait of thread 1  0.0us\n"
               "|-- Layer 4\n"
               "|   |-- Attention  0.0us (18 elem) 600B 2376 op\n"
               "|   |   |-- AttentionScore  0.0us (8 elem) 400B 1584 op\n"
               "|   |   |   `-- ternary_gemv_ref  0.0us 400B 1584 op\n"
               "|   |   |       |-- ternary_gemv_ref of thread 0  0.0us 100B 384 op\n"
               "|   |   |       |-- ternary_gemv_ref of thread 0  0.0us 100B 384 op\n"
               "|   |   |       |-- ternary_gemv_ref of thread 1  0.0us 100B 408 op\n"
               "|   |   |       `-- ternary_gemv_ref of thread 1  0.0us 100B 408 op\n"
               "|   |   `-- AttentionOutput  0.0us (2 elem) 200B 792 op\n"
               "|   |       `-- ternary_gemv_ref  0.0us 200B 792 op\n"
               "|   |           |-- ternary_gemv_ref of thread 0  0.0us 100B 384 op\n"
               "|   |           `-- ternary_gemv_ref of thread 1  0.0us 100B 408 op\n"
               "|   `-- meeting  0.0us\n"
               "|       |-- BarrierWait of thread 0  0.0us\n"
               "|       `-- BarrierWait of thread 1  0.0us\n"
               "|-- Team  0.0us (0 elem)\n"
               "|   `-- Team of thread 0  0.0us\n"
               "`-- Sampling  0.0us (0 elem)\n"
               "    `-- Sampling of thread 0  0.0us");
    assert_int_equal(graph.node[0].ns, 100);
    must(bn_schedule_open(&s, &graph, NULL, NULL));
    /* Start 10, the longer 70, 5 within the layer, end 10, sampling 3: only the 5 ns at the last barrier are
     * missing. */
    assert_int_equal(s.path_ns, 98);
    assert_int_equal(s.work_ns, 10 + 70 + 30 + 5 + 5 + 10 + 3);
    for (uint32_t i = 0; i < graph.n_nodes; i++)
        if (graph.node[i].kind == BN_NODE_TASK && graph.node[i].ns == 30)
            assert_int_equal(s.slot[i].slack, 40);
    bn_schedule_close(&s);
    bn_graph_close(&graph);
    bn_prof_close(prof);
}

/* Passes follow one another; the same from the second on. */
TEST(passes_are_chained)
{
    uint64_t now = 0;
    struct bn_graph graph;
    struct bn_schedule s;
    bn_prof *prof = open_profile(BN_PROF_KERNEL, 2, &now);
    for (uint64_t i = 0; i < 5; i++)
        play_pass(prof, &now, 200 * i);
    bn_prof_finalize(prof, 1000);
    for (size_t first = 0; first < 5; first++) {
        bn_graph_open(&graph);
        must(bn_graph_add_profile(&graph, prof, NULL, first, 5 - first, NULL));
        assert_int_equal(graph.node[0].index, first);
        must(bn_schedule_open(&s, &graph, NULL, NULL));
        assert_int_equal(s.path_ns, 98 * (5 - first));
        bn_schedule_close(&s);
        bn_graph_close(&graph);
    }
    bn_prof_close(prof);
}

TEST(what_is_not_whole_is_refused)
{
    uint64_t now = 0;
    struct bn_graph graph;
    bn_prof *prof = open_profile(BN_PROF_KERNEL, 2, &now);
    bn_graph_open(&graph);
    play_pass(prof, &now, 0);
    refused(bn_graph_add_profile(&graph, prof, NULL, 0, 2, NULL), BN_ERR_ARG);
    refused(bn_graph_add_profile(&graph, prof, NULL, 1, 1, NULL), BN_ERR_ARG);
    refused(bn_graph_add_profile(&graph, prof, NULL, 0, 0, NULL), BN_ERR_ARG);
    spend(prof, &now, 1, BN_BRICK_BARRIER_WAIT, 110, 1); /* the other thread was not there */
    refused(bn_graph_add_profile(&graph, prof, NULL, 0, 1, &err), BN_ERR_MISMATCH);
    assert_has(err.msg, "1 of 2 threads");
    bn_graph_close(&graph);
    prof->trails[1].dropped = 1;
    refused(bn_graph_add_profile(&graph, prof, NULL, 0, 1, &err), BN_ERR_MISMATCH);
    assert_has(err.msg, "dropped");
    prof->trails[1].dropped = 0;
    prof->level = BN_PROF_LAYER;
    refused(bn_graph_add_profile(&graph, prof, NULL, 0, 1, NULL), BN_ERR_ARG);
    bn_prof_close(prof);
}

/* ---- passes of a model ---- */

struct sums {
    uint64_t work, waits; /* of innermost events */
    size_t n_work, n_waits;
};

/* Innermost events, found another way: no other event of the thread lies within their brick. */
static struct sums sum_events(const bn_prof *prof)
{
    struct sums sums = {0};
    for (unsigned t = 0; t < prof->n_threads; t++) {
        size_t n = 0;
        const struct bn_prof_event *e = bn_prof_events(prof, t, &n);
        for (size_t i = 0; i < n; i++) {
            uint64_t ns = bn_prof_ns(prof, e[i].end) - bn_prof_ns(prof, e[i].begin);
            bool wait = e[i].brick == BN_BRICK_BARRIER_WAIT;
            if (i > 0 && e[i - 1].depth > e[i].depth) continue;
            *(wait ? &sums.waits : &sums.work) += ns;
            *(wait ? &sums.n_waits : &sums.n_work) += 1;
        }
    }
    return sums;
}

static struct sums sum_nodes(const struct bn_graph *graph)
{
    struct sums sums = {0};
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct bn_graph_node *node = &graph->node[i];
        if (node->kind == BN_NODE_TASK) {
            sums.work += node->ns;
            sums.n_work++;
        } else if (node->kind == BN_NODE_WAIT) {
            sums.waits += node->ns;
            sums.n_waits++;
        }
    }
    return sums;
}

static double sum_trace(const struct bn_graph *graph)
{
    double sum = 0, us = 0;
    bn_json *document = bn_graph_chrome(graph);
    const bn_json *events = bn_json_get(document, "traceEvents");
    for (const bn_json *e = bn_json_first(events); e != NULL; e = bn_json_next(e))
        if (bn_json_number(bn_json_get(e, "dur"), &us)) sum += us;
    bn_json_free(document);
    return sum;
}

static void check_real(unsigned n_threads, enum bn_prof_level level)
{
    static const int32_t TOKENS[] = {1, 2, 3, 4, 5};
    bn_model *model = NULL;
    bn_session *session = NULL;
    struct bn_graph graph;
    struct bn_schedule s;
    struct bn_codes codes = {0};
    bn_session_options options = {.n_threads = n_threads, .exact_threads = true};
    must(bn_model_open(&model, MODEL, NULL, NULL));
    must(bn_session_open(&session, model, &options, NULL));
    size_t n_vocab = bn_model_hparams(model)->n_vocab;
    float *logits = bn_alloc(n_vocab, sizeof *logits);
    bn_prof *prof = open_profile(level, n_threads, NULL);
    must(bn_session_set_profile(session, prof, NULL));
    must(bn_session_eval(session, TOKENS, 5, BN_LOGITS_LAST, logits, NULL));
    must(bn_session_eval(session, TOKENS, 1, BN_LOGITS_NONE, NULL, NULL));
    must(bn_session_eval_best(session, TOKENS, 1, 1, logits, NULL));
    bn_prof_finalize(prof, bn_prof_elapsed_ns(prof));
    must(bn_codes_read(&codes, model->kernels, NULL, NULL));

    bn_graph_open(&graph);
    must(bn_graph_add_profile(&graph, prof, &codes, 0, 3, NULL));
    uint32_t n_passes = 0, n_layers = 0, n_kernels = 0;
    for (uint32_t i = 0; i < graph.n_nodes; i++) {
        const struct bn_graph_node *node = &graph.node[i];
        n_passes += node->kind == BN_NODE_PASS;
        n_layers += node->kind == BN_NODE_LAYER;
        if (node->kind != BN_NODE_KERNEL) continue;
        n_kernels++;
        assert_non_null(node->code);
        assert_true(node->grid[0] >= 1 && node->grid[0] <= n_threads && node->timed);
    }
    assert_int_equal(n_passes, 3);
    assert_int_equal(n_layers, 3 * bn_model_hparams(model)->n_layer);
    assert_true(level == BN_PROF_KERNEL ? n_kernels > 10 * n_layers : n_kernels == 0);
    struct sums events = sum_events(prof), nodes = sum_nodes(&graph);
    assert_int_equal(nodes.work, events.work);
    assert_int_equal(nodes.waits, events.waits);
    assert_int_equal(nodes.n_work, events.n_work);
    assert_int_equal(nodes.n_waits, events.n_waits);
    assert_int_equal((uint64_t)(sum_trace(&graph) * 1e3 + 0.5), events.work + events.waits);
    must(bn_schedule_open(&s, &graph, NULL, NULL));
    assert_true(s.path_ns > 0 && s.path_ns <= prof->wall_ns);
    assert_int_equal(s.work_ns, events.work);
    assert_true(bn_schedule_parallelism(&s) <= n_threads);

    bn_schedule_close(&s);
    bn_graph_close(&graph);
    bn_session_close(session);
    bn_model_close(model);
    bn_prof_close(prof);
    bn_free(logits);
}

TEST(passes_of_a_model_are_whole)
{
    for (unsigned n_threads = 1; n_threads <= 3; n_threads++) {
        check_real(n_threads, BN_PROF_KERNEL);
        check_real(n_threads, BN_PROF_BRICK);
    }
}
