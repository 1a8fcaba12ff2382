/* SPDX-License-Identifier: MIT
 *
 * lab/profile/schedule: by hand, against brute force on random graphs, and where it must refuse.
 */
#include <math.h>

#include "lab/profile/graph.h"
#include "tests/unit/profile/scopes.h"
#include "tests/unit/status.h"

static uint32_t add_task(struct bn_graph *graph, const char *name, uint64_t ns)
{
    struct bn_graph_node node = {.kind = BN_NODE_TASK, .name = name, .timed = true, .ns = ns, .thread = 0};
    return add(graph, node);
}

/* A3 -> B2 -> D4, A -> C5 -> D: B could take 3 longer. */
static void make_diamond(struct bn_graph *graph)
{
    bn_graph_open(graph);
    uint32_t a = add_task(graph, "A", 3), b = add_task(graph, "B", 2), c = add_task(graph, "C", 5),
             d = add_task(graph, "D", 4);
    bn_graph_link(graph, BN_EDGE_SEQUENCE, a, b);
    bn_graph_link(graph, BN_EDGE_FORK, a, c);
    bn_graph_link(graph, BN_EDGE_JOIN, b, d);
    bn_graph_link(graph, BN_EDGE_SEQUENCE, c, d);
    must(bn_graph_finish(graph, NULL));
}

TEST(the_diamond_by_hand)
{
    static const uint64_t START[] = {0, 3, 3, 8}, SLACK[] = {0, 3, 0, 0}, PATH[] = {0, 2, 3};
    struct bn_graph graph;
    struct bn_schedule s;
    make_diamond(&graph);
    must(bn_schedule_open(&s, &graph, NULL, NULL));
    assert_int_equal(s.path_ns, 12);
    assert_int_equal(s.work_ns, 14);
    assert_true(fabs(bn_schedule_parallelism(&s) - 14.0 / 12.0) < 1e-12);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(s.slot[i].start, START[i]);
        assert_int_equal(s.slot[i].slack, SLACK[i]);
    }
    assert_int_equal(s.n_path, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(s.path[i], PATH[i]);
    bn_schedule_close(&s);
    bn_graph_close(&graph);
}

/* C twice as fast: 3 + 2.5, rounded, + 4; C five times: then B is on the path. */
TEST(what_if_is_a_model)
{
    struct bn_graph graph;
    struct bn_schedule s;
    make_diamond(&graph);
    must(bn_schedule_open(&s, &graph, &(struct bn_what_if){"C", 2.5}, NULL));
    assert_int_equal(s.path_ns, 9);
    bn_schedule_close(&s);
    must(bn_schedule_open(&s, &graph, &(struct bn_what_if){"C", 5}, NULL));
    assert_int_equal(s.path_ns, 9);
    assert_int_equal(s.slot[2].slack, 1);
    bn_schedule_close(&s);
    refused(bn_schedule_open(&s, &graph, &(struct bn_what_if){"X", 2}, NULL), BN_ERR_ARG);
    refused(bn_schedule_open(&s, &graph, &(struct bn_what_if){"C", 0}, NULL), BN_ERR_ARG);
    assert_int_equal(graph.node[2].ns, 5);
    bn_graph_close(&graph);
}

/* Two threads, 70 and 30: the shares of a team. Waiting is not work, and containers do not count. */
TEST(two_threads_that_meet)
{
    struct bn_graph graph;
    struct bn_schedule s;
    bn_graph_open(&graph);
    struct bn_graph_node brick = {.kind = BN_NODE_BRICK, .name = "b", .timed = true, .ns = 70, .thread = -1};
    struct bn_graph_node meeting = {.kind = BN_NODE_MEETING, .timed = true, .thread = -1};
    struct bn_graph_node wait = {.kind = BN_NODE_WAIT, .timed = true, .ns = 40, .thread = 1};
    push(&graph, brick);
    uint32_t a = add_task(&graph, "k", 70), b = add_task(&graph, "k", 30);
    pop(&graph);
    uint32_t end = push(&graph, meeting);
    add(&graph, wait);
    pop(&graph);
    bn_graph_link(&graph, BN_EDGE_JOIN, a, end);
    bn_graph_link(&graph, BN_EDGE_JOIN, b, end);
    must(bn_schedule_open(&s, &graph, NULL, NULL));
    assert_int_equal(s.n_leaves, 3);
    assert_int_equal(s.path_ns, 70);
    assert_int_equal(s.slot[b].slack, 40);
    assert_true(fabs(bn_schedule_parallelism(&s) - 100.0 / 70.0) < 1e-12);
    bn_schedule_close(&s);
    bn_graph_close(&graph);
}

TEST(nothing_is_no_path)
{
    struct bn_graph graph;
    struct bn_schedule s;
    bn_graph_open(&graph);
    must(bn_schedule_open(&s, &graph, NULL, NULL));
    assert_int_equal(s.n_path, 0);
    assert_true(bn_schedule_parallelism(&s) == 0.0);
    bn_schedule_close(&s);
    bn_graph_close(&graph);
}

#define MOST 12u

static uint32_t random_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

/* The longest chain that ends with node i: by trying all of them. */
static uint64_t longest_to(const struct bn_graph *graph, uint32_t i)
{
    uint64_t longest = 0;
    for (uint32_t e = 0; e < graph->n_edges; e++) {
        if (graph->edge[e].to != i) continue;
        uint64_t before = longest_to(graph, graph->edge[e].from);
        if (before > longest) longest = before;
    }
    return longest + graph->node[i].ns;
}

/* Durations of the leaves make a path; one more nanosecond of slack would make it longer. */
static void check_random(const struct bn_graph *graph)
{
    struct bn_schedule s, longer;
    uint64_t longest = 0, work = 0, path = 0;
    must(bn_schedule_open(&s, graph, NULL, NULL));
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        uint64_t finish = longest_to(graph, i);
        assert_int_equal(s.slot[i].start, finish - graph->node[i].ns);
        assert_true(finish + s.slot[i].slack <= s.path_ns);
        if (finish > longest) longest = finish;
        work += graph->node[i].ns;
    }
    assert_int_equal(s.path_ns, longest);
    assert_int_equal(s.work_ns, work);
    for (uint32_t i = 0; i < s.n_path; i++) {
        path += graph->node[s.path[i]].ns;
        assert_int_equal(s.slot[s.path[i]].slack, 0);
    }
    assert_int_equal(path, longest);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        uint64_t was = graph->node[i].ns;
        for (uint64_t more = 0; more < 2; more++) {
            graph->node[i].ns = was + s.slot[i].slack + more;
            must(bn_schedule_open(&longer, graph, NULL, NULL));
            assert_int_equal(longer.path_ns, longest + more);
            bn_schedule_close(&longer);
        }
        graph->node[i].ns = was;
    }
    bn_schedule_close(&s);
}

TEST(random_graphs_agree_with_brute_force)
{
    uint32_t random = 7;
    for (uint32_t round = 0; round < 400; round++) {
        struct bn_graph graph;
        uint32_t n = 1 + random_below(&random, MOST);
        bn_graph_open(&graph);
        for (uint32_t i = 0; i < n; i++) {
            add_task(&graph, "n", random_below(&random, 20));
            for (uint32_t k = 0; k < i; k++)
                if (random_below(&random, 3) == 0)
                    bn_graph_link(&graph, BN_EDGE_SEQUENCE + random_below(&random, 3), k, i);
        }
        must(bn_graph_finish(&graph, NULL));
        check_random(&graph);
        bn_graph_close(&graph);
    }
}

TEST(short_memory_is_an_error)
{
    struct bn_graph graph;
    struct bn_schedule s;
    make_diamond(&graph);
    bn_status status;
    SHORT_MEMORY (status) {
        status = bn_schedule_open(&s, &graph, NULL, NULL);
        if (status == BN_OK) bn_schedule_close(&s);
    }
    bn_graph_close(&graph);
}
