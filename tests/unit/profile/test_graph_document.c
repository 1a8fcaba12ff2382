/* SPDX-License-Identifier: MIT
 *
 * What bn-bench profile --graph json and chrome print: they parse, numbers of nodes lead somewhere, and what
 * is made of the nodes agrees with them when it is made again here.
 */
#define _POSIX_C_SOURCE 200809L /* popen */
#include "tests/unit/tools/bench_document.h"
#include "tests/unit/unit.h"

static bn_json *run(const char *arguments)
{
    char line[400];
    int status;
    snprintf(line, sizeof line,
             "profile -q -p 3 -n 2 -r 1 -t 2 -m fixtures/nano-bitnet-b1.58-i2_s-42.gguf %s", arguments);
    bn_json *doc = bench_document(line, &status);
    /* a busy machine may keep bricks from accounting for enough time: 1 */
    assert_true(status == 0 || status == 1 << 8);
    return doc;
}

static uint64_t number(const bn_json *value, const char *path)
{
    uint64_t x = 0;
    if (!bn_json_u64(bn_json_path(value, path), &x)) fail_msg("no whole number at %s", path);
    return x;
}

static const char *text_of(const bn_json *value, const char *path)
{
    const char *text = "";
    if (!bn_json_string(bn_json_path(value, path), &text)) fail_msg("no text at %s", path);
    return text;
}

static bool is(const bn_json *value, const char *path, const char *expected)
{
    return strcmp(text_of(value, path), expected) == 0;
}

static void check_nodes(const bn_json *doc)
{
    const bn_json *nodes = bn_json_path(doc, "graph.nodes");
    uint64_t id = 0, work = 0, waits = 0, n_kernels = 0;
    for (const bn_json *n = bn_json_first(nodes); n != NULL; n = bn_json_next(n), id++) {
        assert_int_equal(number(n, "id"), id);
        if (bn_json_get(n, "parent") != NULL) assert_true(number(n, "parent") < id);
        if (is(n, "kind", "task")) work += number(n, "ns");
        if (is(n, "kind", "wait")) waits += number(n, "ns");
        if (!is(n, "kind", "kernel")) continue;
        const bn_json *code = bn_json_get(bn_json_get(doc, "code"), text_of(n, "name"));
        assert_string_equal(text_of(n, "code_sha256"), text_of(code, "sha256"));
        n_kernels++;
    }
    assert_true(n_kernels >= 20);
    assert_int_equal(number(doc, "schedule.work_ns"), work);
    assert_int_equal(number(doc, "schedule.wait_ns"), waits);
}

/* Ends of edges are nodes; those of the tree are the parents. */
static void check_edges(const bn_json *doc)
{
    const bn_json *nodes = bn_json_path(doc, "graph.nodes"), *edges = bn_json_path(doc, "graph.edges");
    size_t n_nodes = bn_json_size(nodes), n_tree = 0, n_joins = 0, n_forks = 0;
    for (const bn_json *e = bn_json_first(edges); e != NULL; e = bn_json_next(e)) {
        assert_true(number(e, "from") < n_nodes && number(e, "to") < n_nodes);
        n_joins += is(e, "kind", "join");
        n_forks += is(e, "kind", "fork");
        if (!is(e, "kind", "contains") && !is(e, "kind", "launches")) continue;
        n_tree++;
        assert_int_equal(number(bn_json_at(nodes, number(e, "to")), "parent"), number(e, "from"));
    }
    assert_int_equal(n_tree, n_nodes - 1);
    assert_true(n_joins >= 10 && n_forks >= 10);
}

/* The path's nodes take as long as it says, and so do its bricks; each of them has no slack. */
static void check_path(const bn_json *doc)
{
    const bn_json *nodes = bn_json_path(doc, "graph.nodes"), *s = bn_json_get(doc, "schedule");
    uint64_t sum = 0, bricks = 0;
    for (const bn_json *p = bn_json_first(bn_json_get(s, "path")); p != NULL; p = bn_json_next(p)) {
        uint64_t id = UINT64_MAX;
        assert_true(bn_json_u64(p, &id) && id < bn_json_size(nodes));
        sum += number(bn_json_at(nodes, id), "ns");
        for (const bn_json *l = bn_json_first(bn_json_get(s, "leaves")); l != NULL; l = bn_json_next(l))
            if (number(l, "node") == id) assert_int_equal(number(l, "slack_ns"), 0);
    }
    for (const bn_json *b = bn_json_first(bn_json_get(s, "bricks")); b != NULL; b = bn_json_next(b))
        bricks += number(b, "path_ns");
    assert_int_equal(sum, number(s, "path_ns"));
    assert_int_equal(bricks, number(s, "path_ns"));
    assert_true(number(s, "path_ns") <= number(s, "span_ns"));
}

static void the_graph_holds_together(void **state)
{
    (void)state;
    bool model = true;
    bn_json *doc = run("--graph json --what-if LmHead=2");
    assert_string_equal(text_of(doc, "schema"), "bn.bench/1");
    assert_string_equal(text_of(doc, "command"), "profile");
    check_nodes(doc);
    check_edges(doc);
    check_path(doc);
    const bn_json *what_if = bn_json_at(bn_json_get(doc, "what_if"), 0);
    assert_true(bn_json_bool(bn_json_get(what_if, "model"), &model) && model);
    assert_true(number(what_if, "path_ns") <= number(doc, "schedule.path_ns"));
    assert_true(bn_json_bool(bn_json_path(doc, "schedule.model"), &model) && !model);
    bn_json_free(doc);
}

/* Each thread has its name and its events. */
static void the_trace_has_both_threads(void **state)
{
    (void)state;
    double ts = -1, dur = -1;
    size_t n[2] = {0}, n_names = 0;
    bn_json *doc = run("--graph chrome --pass all");
    const bn_json *events = bn_json_get(doc, "traceEvents");
    for (const bn_json *e = bn_json_first(events); e != NULL; e = bn_json_next(e)) {
        uint64_t tid = number(e, "tid");
        assert_true(tid < 2 && number(e, "pid") == 1);
        n_names += is(e, "name", "thread_name");
        if (is(e, "ph", "M")) continue;
        assert_true(bn_json_number(bn_json_get(e, "ts"), &ts) && ts >= 0);
        assert_true(bn_json_number(bn_json_get(e, "dur"), &dur) && dur >= 0);
        n[tid]++;
    }
    assert_int_equal(n_names, 2);
    assert_true(n[0] > 30 && n[1] > 30);
    bn_json_free(doc);
}

static void the_roofline_has_its_samples(void **state)
{
    (void)state;
    bn_json *doc = run("--roofline --json");
    const bn_json *bricks = bn_json_path(doc, "roofline.bricks");
    size_t n_known = 0;
    for (const bn_json *b = bn_json_first(bricks); b != NULL; b = bn_json_next(b)) {
        const char *reason = NULL;
        double distance = -1;
        assert_int_equal(bn_json_size(bn_json_get(b, "samples_ns")), 1);
        bool known = bn_json_number(bn_json_get(b, "distance"), &distance);
        if (known) assert_true(distance >= 0 && distance <= 1);
        if (!known) assert_true(bn_json_string(bn_json_path(b, "unavailable.distance"), &reason));
        n_known += known;
    }
    assert_true(bn_json_size(bricks) > 10 && n_known > 0);
    assert_true(bn_json_size(bn_json_path(doc, "roofline.limits")) > 0);
    bn_json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_graph_holds_together),
        cmocka_unit_test(the_trace_has_both_threads),
        cmocka_unit_test(the_roofline_has_its_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
