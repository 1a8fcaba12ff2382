/* SPDX-License-Identifier: MIT
 *
 * lab/profile/graph: the tree byte for byte, scopes and budget, DOT taken apart again, JSON and Chrome traces
 * whose times add up.
 */
#include "tests/unit/profile/scopes.h"
#include "tests/unit/status.h"

static struct bn_graph_node layer(uint32_t index)
{
    return (struct bn_graph_node){.kind = BN_NODE_LAYER, .index = index, .thread = -1};
}

static struct bn_graph_node brick(const char *name, uint64_t ns, uint64_t elements)
{
    return (struct bn_graph_node){
        .kind = BN_NODE_BRICK, .name = name, .timed = true, .ns = ns, .elements = elements, .thread = -1};
}

static struct bn_graph_node kernel(const char *name, uint32_t grid, uint32_t block, uint32_t shared)
{
    return (struct bn_graph_node){.kind = BN_NODE_KERNEL,
                                  .name = name,
                                  .thread = -1,
                                  .grid = {grid, 1, 1},
                                  .block = {block, 1, 1},
                                  .shared_bytes = shared};
}

/* The bricks of the sample, and one after them. */
static void make_sample(struct bn_graph *graph, bool more)
{
    bn_graph_open(graph);
    push(graph, layer(0));
    push(graph, brick("RmsNorm", 50000, 4096));
    add(graph, kernel("rmsnorm_kernel", 16, 256, 1024));
    pop(graph);
    push(graph, brick("QkvProjection", 200000, 4096));
    add(graph, kernel("batched_q4k_gemv", 32, 256, 4096));
    pop(graph);
    if (more) add(graph, brick("RopeEmbedding", 49, 64));
    pop(graph);
    must(bn_graph_finish(graph, NULL));
}

static void check_tree(const struct bn_graph *graph, const struct bn_tree_style *style, const char *expected)
{
    static const struct bn_tree_style plain;
    struct bn_buf text = {.max = 1 << 20};
    bn_graph_tree(&text, graph, style != NULL ? style : &plain);
    assert_false(text.failed);
    assert_string_equal(text.data, expected);
    bn_buf_release(&text);
}

TEST(the_tree_is_exact)
{
    struct bn_graph graph;
    struct bn_tree_style ascii = {.ascii = true}, wide = {.wide = true, .wall_ns = 1000000};
    make_sample(&graph, true);
    check_tree(&graph, NULL,
               "Layer 0\n"
               "├── RmsNorm  50.0µs (4096 elem)\n"
               "│   └── rmsnorm_kernel  <<<16,256,1>>> smem=1024B\n"
               "├── QkvProjection  200.0µs (4096 elem)\n"
               "│   └── batched_q4k_gemv  <<<32,256,1>>> smem=4096B\n"
               "└── RopeEmbedding  0.0µs (64 elem)");
    check_tree(&graph, &ascii,
               "Layer 0\n"
               "|-- RmsNorm  50.0us (4096 elem)\n"
               "|   `-- rmsnorm_kernel  <<<16,256,1>>> smem=1024B\n"
               "|-- QkvProjection  200.0us (4096 elem)\n"
               "|   `-- batched_q4k_gemv  <<<32,256,1>>> smem=4096B\n"
               "`-- RopeEmbedding  0.0us (64 elem)");
    check_tree(&graph, &wide,
               "Layer 0\n"
               "├── RmsNorm  50.0µs (4096 elem)  5.0%\n"
               "│   └── rmsnorm_kernel  <<<16,256,1>>> smem=1024B\n"
               "├── QkvProjection  200.0µs (4096 elem)  20.0%\n"
               "│   └── batched_q4k_gemv  <<<32,256,1>>> smem=4096B\n"
               "└── RopeEmbedding  0.0µs (64 elem)  0.0%");
    bn_graph_close(&graph);
    make_sample(&graph, false);
    check_tree(&graph, NULL,
               "Layer 0\n"
               "├── RmsNorm  50.0µs (4096 elem)\n"
               "│   └── rmsnorm_kernel  <<<16,256,1>>> smem=1024B\n"
               "└── QkvProjection  200.0µs (4096 elem)\n"
               "    └── batched_q4k_gemv  <<<32,256,1>>> smem=4096B");
    bn_graph_close(&graph);
}

TEST(none_one_many_roots)
{
    struct bn_graph graph;
    bn_graph_open(&graph);
    must(bn_graph_finish(&graph, NULL));
    check_tree(&graph, NULL, "(empty graph)");
    add(&graph, layer(7));
    check_tree(&graph, NULL, "Layer 7");
    push(&graph, layer(8));
    add(&graph, brick("ab", 149, 1));
    pop(&graph);
    must(bn_graph_finish(&graph, NULL));
    check_tree(&graph, NULL, "Execution graph\n├── Layer 7\n└── Layer 8\n    └── ab  0.1µs (1 elem)");
    bn_graph_close(&graph);
}

/* What the threads did is shown when it is asked for. */
TEST(threads_are_in_the_wide_tree)
{
    struct bn_graph graph;
    struct bn_tree_style wide = {.wide = true, .ascii = true};
    struct bn_graph_node task = {.kind = BN_NODE_TASK, .name = "k", .timed = true, .ns = 1000, .thread = 1};
    bn_graph_open(&graph);
    push(&graph, brick("b", 1000, 2));
    push(&graph, kernel("k", 2, 8, 0));
    add(&graph, task);
    pop(&graph);
    pop(&graph);
    check_tree(&graph, NULL, "b  1.0µs (2 elem)\n└── k");
    check_tree(&graph, &wide, "b  1.0us (2 elem)\n`-- k\n    `-- k of thread 1  1.0us");
    bn_graph_close(&graph);
}

TEST(nodes_have_a_parent_and_a_depth)
{
    struct bn_graph graph;
    struct bn_graph_node node = layer(0);
    bn_graph_open(&graph);
    assert_int_equal(bn_graph_add_under(&graph, 0, &node), BN_NODE_NONE);
    refused(bn_graph_finish(&graph, &err), BN_ERR_ARG);
    assert_has(err.msg, "does not exist");
    bn_graph_close(&graph);
    for (uint32_t parent = BN_NODE_NONE, i = 0; i < BN_GRAPH_MAX_DEPTH; i++, parent = i - 1)
        assert_int_equal(bn_graph_add_under(&graph, parent, &node), i);
    must(bn_graph_finish(&graph, NULL));
    assert_int_equal(bn_graph_add_under(&graph, BN_GRAPH_MAX_DEPTH - 1, &node), BN_NODE_NONE);
    refused(bn_graph_finish(&graph, NULL), BN_ERR_ARG);
    bn_graph_close(&graph);
}

TEST(senseless_edges_are_errors)
{
    struct {
        enum bn_edge_kind kind;
        uint32_t from, to;
    } bad[] = {{BN_EDGE_CONTAINS, 0, 1},
               {BN_EDGE_SEQUENCE, 0, 0},
               {BN_EDGE_SEQUENCE, 0, 2},
               {BN_EDGE_SEQUENCE, 1, 0}, /* against the order of the nodes */
               {BN_EDGE_SEQUENCE, BN_NODE_NONE, 0}};
    for (size_t i = 0; i < BN_ARRAY_LEN(bad); i++) {
        struct bn_graph graph;
        bn_graph_open(&graph);
        add(&graph, brick("a", 1, 1));
        add(&graph, brick("b", 1, 1));
        bn_graph_link(&graph, BN_EDGE_SEQUENCE, 0, 1);
        must(bn_graph_finish(&graph, NULL));
        bn_graph_link(&graph, bad[i].kind, bad[i].from, bad[i].to);
        refused(bn_graph_finish(&graph, NULL), BN_ERR_ARG);
        bn_graph_close(&graph);
    }
}

TEST(the_budget_holds)
{
    struct bn_graph graph;
    bn_graph_open(&graph);
    for (uint32_t i = 0; i < BN_GRAPH_MAX_NODES; i++)
        assert_int_equal(add(&graph, layer(i)), i);
    must(bn_graph_finish(&graph, NULL));
    assert_int_equal(add(&graph, layer(0)), BN_NODE_NONE);
    bn_graph_link(&graph, BN_EDGE_SEQUENCE, 0, BN_NODE_NONE);
    refused(bn_graph_finish(&graph, NULL), BN_ERR_LIMIT);
    bn_graph_close(&graph);
}

TEST(short_memory_is_an_error)
{
    struct bn_graph graph;
    bn_graph_open(&graph);
    bn_mem_fail_after(1);
    add(&graph, layer(0));
    bn_mem_fail_after(0);
    refused(bn_graph_finish(&graph, NULL), BN_ERR_NOMEM);
    bn_graph_close(&graph);
}

TEST(dot_has_the_colours)
{
    struct bn_graph graph;
    struct bn_buf text = {.max = 1 << 16};
    make_sample(&graph, false);
    bn_graph_dot(&text, &graph);
    assert_string_equal(text.data, "digraph execution {\n"
                                   "    rankdir=TB;\n"
                                   "    nslimit=1; nslimit1=1; mclimit=0.1;\n"
                                   "    node [shape=box, style=filled];\n"
                                   "    n0 [fillcolor=lightblue, label=\"Layer 0\"];\n"
                                   "    n1 [fillcolor=lightgreen, label=\"RmsNorm\\n50.0µs\"];\n"
                                   "    n2 [fillcolor=lightyellow, label=\"rmsnorm_kernel\"];\n"
                                   "    n3 [fillcolor=lightgreen, label=\"QkvProjection\\n200.0µs\"];\n"
                                   "    n4 [fillcolor=lightyellow, label=\"batched_q4k_gemv\"];\n"
                                   "    n0 -> n1 [style=dashed];\n"
                                   "    n1 -> n2 [style=bold, color=red];\n"
                                   "    n0 -> n3 [style=dashed];\n"
                                   "    n3 -> n4 [style=bold, color=red];\n"
                                   "}\n");
    bn_buf_release(&text);
    bn_graph_close(&graph);
}

TEST(dot_has_a_colour_for_every_kind)
{
    struct bn_graph graph;
    struct bn_buf text = {.max = 1 << 16};
    char line[64];
    bn_graph_open(&graph);
    for (int kind = 0; kind < BN_NODE_KIND_COUNT; kind++)
        add(&graph, (struct bn_graph_node){.kind = (enum bn_node_kind)kind, .name = "x", .thread = -1});
    must(bn_graph_finish(&graph, &err));
    bn_graph_dot(&text, &graph);
    assert_null(strstr(text.data, "(null)"));
    for (int kind = 0; kind < BN_NODE_KIND_COUNT; kind++) {
        snprintf(line, sizeof line, "    n%d [fillcolor=", kind);
        const char *at = strstr(text.data, line);
        assert_non_null(at);
        assert_true(at[strlen(line)] >= 'a' && at[strlen(line)] <= 'z');
    }
    bn_buf_release(&text);
    bn_graph_close(&graph);
}

static bn_json *reread(bn_json *document)
{
    struct bn_buf text = {.max = 1 << 20};
    bn_json *again = NULL;
    must(bn_json_write(document, false, &text, NULL));
    must(bn_json_parse(&again, text.data, text.len, NULL));
    bn_buf_release(&text);
    bn_json_free(document);
    return again;
}

TEST(json_has_every_node_and_edge)
{
    struct bn_graph graph;
    bn_json *object = bn_json_new_object();
    const char *text = NULL;
    uint64_t number = 0;
    make_sample(&graph, false);
    bn_graph_link(&graph, BN_EDGE_SEQUENCE, 1, 3);
    graph.node[2].code = "abcd";
    bn_graph_put(object, &graph);
    object = reread(object);
    assert_int_equal(bn_json_size(bn_json_get(object, "nodes")), 5);
    assert_int_equal(bn_json_size(bn_json_get(object, "edges")), 5);
    const bn_json *node = bn_json_at(bn_json_get(object, "nodes"), 2);
    assert_true(bn_json_string(bn_json_get(node, "name"), &text));
    assert_string_equal(text, "rmsnorm_kernel");
    assert_true(bn_json_string(bn_json_get(node, "code_sha256"), &text));
    assert_string_equal(text, "abcd");
    assert_true(bn_json_u64(bn_json_at(bn_json_get(node, "block"), 0), &number) && number == 256);
    const bn_json *edge = bn_json_at(bn_json_get(object, "edges"), 4);
    assert_true(bn_json_string(bn_json_get(edge, "kind"), &text));
    assert_string_equal(text, "sequence");
    bn_json_free(object);
    bn_graph_close(&graph);
}

/* Begins and durations are read back to the nanosecond, thread by thread. */
TEST(chrome_trace_adds_up)
{
    struct bn_graph graph;
    uint64_t sum[2] = {0}, read[2] = {0};
    size_t n_names = 0, n_events = 0;
    bn_graph_open(&graph);
    push(&graph, brick("b", 5, 5));
    for (uint32_t i = 0; i < 100; i++) {
        struct bn_graph_node task = {.kind = BN_NODE_TASK,
                                     .name = "k",
                                     .timed = true,
                                     .begin_ns = 1000003u * i,
                                     .ns = 17u * i + 1,
                                     .thread = (int32_t)(i % 2)};
        sum[i % 2] += task.ns;
        add(&graph, task);
    }
    pop(&graph);
    bn_json *document = reread(bn_graph_chrome(&graph));
    const bn_json *events = bn_json_get(document, "traceEvents");
    for (const bn_json *e = bn_json_first(events); e != NULL; e = bn_json_next(e)) {
        const char *ph = NULL, *cat = NULL;
        uint64_t tid = 0, pid = 0;
        double ts = -1, dur = -1;
        assert_true(bn_json_string(bn_json_get(e, "ph"), &ph) && bn_json_u64(bn_json_get(e, "tid"), &tid));
        assert_true(bn_json_u64(bn_json_get(e, "pid"), &pid) && tid < 2);
        if (strcmp(ph, "M") == 0) {
            n_names++;
            continue;
        }
        assert_string_equal(ph, "X");
        assert_true(bn_json_number(bn_json_get(e, "ts"), &ts) && bn_json_number(bn_json_get(e, "dur"), &dur));
        assert_true(bn_json_string(bn_json_get(e, "cat"), &cat));
        assert_string_equal(cat, "b");
        assert_int_equal((uint64_t)(ts * 1e3 + 0.5), 1000003u * n_events);
        read[tid] += (uint64_t)(dur * 1e3 + 0.5);
        n_events++;
    }
    assert_int_equal(n_names, 2);
    assert_int_equal(n_events, 100);
    assert_int_equal(read[0], sum[0]);
    assert_int_equal(read[1], sum[1]);
    bn_json_free(document);
    bn_graph_close(&graph);
}
