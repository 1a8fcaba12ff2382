/* SPDX-License-Identifier: MIT
 *
 * The execution graph as JSON: the graph itself, and Chrome trace events.
 */
#include "lab/profile/graph.h"

#include <stdio.h>

static void put_dimensions(bn_json *object, const char *name, const uint32_t d[3])
{
    bn_json *array = bn_json_put_array(object, name);
    for (size_t i = 0; i < 3; i++)
        bn_json_add_u64(array, d[i]);
}

static void put_node(bn_json *array, const struct bn_graph_node *node, uint32_t id)
{
    bn_json *object = bn_json_add_object(array);
    bn_json_put_u64(object, "id", id);
    bn_json_put_string(object, "kind", bn_node_kind_name(node->kind));
    if (node->parent != BN_NODE_NONE) bn_json_put_u64(object, "parent", node->parent);
    if (node->kind == BN_NODE_PASS || node->kind == BN_NODE_LAYER)
        bn_json_put_u64(object, "index", node->index);
    else
        bn_json_put_string(object, "name", node->name);
    if (node->thread >= 0) bn_json_put_u64(object, "thread", (uint64_t)node->thread);
    if (node->timed) {
        bn_json_put_u64(object, "begin_ns", node->begin_ns);
        bn_json_put_u64(object, "ns", node->ns);
    }
    if (node->elements > 0) bn_json_put_u64(object, "elements", node->elements);
    if (node->bytes > 0) bn_json_put_u64(object, "bytes", node->bytes);
    if (node->ops > 0) bn_json_put_u64(object, "ops", node->ops);
    if (node->kind != BN_NODE_KERNEL) return;
    put_dimensions(object, "grid", node->grid);
    put_dimensions(object, "block", node->block);
    bn_json_put_u64(object, "shared_bytes", node->shared_bytes);
    if (node->code != NULL) bn_json_put_string(object, "code_sha256", node->code);
}

static void put_edge(bn_json *array, enum bn_edge_kind kind, uint32_t from, uint32_t to)
{
    bn_json *object = bn_json_add_object(array);
    bn_json_put_string(object, "kind", bn_edge_kind_name(kind));
    bn_json_put_u64(object, "from", from);
    bn_json_put_u64(object, "to", to);
}

void bn_graph_put(bn_json *object, const struct bn_graph *graph)
{
    bn_json_put_bool(object, "truncated", graph->truncated);
    bn_json_put_u64(object, "lost_nodes", graph->n_lost);
    bn_json *nodes = bn_json_put_array(object, "nodes"), *edges = bn_json_put_array(object, "edges");
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        put_node(nodes, &graph->node[i], i);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        uint32_t parent = graph->node[i].parent;
        if (parent != BN_NODE_NONE) put_edge(edges, bn_graph_tree_edge(&graph->node[parent]), parent, i);
    }
    for (uint32_t i = 0; i < graph->n_edges; i++)
        put_edge(edges, graph->edge[i].kind, graph->edge[i].from, graph->edge[i].to);
}

/* ---- Chrome trace ---- */

/* What a task is shown as, and where it belongs. */
static void put_event(bn_json *events, const struct bn_graph *graph, const struct bn_graph_node *node)
{
    const struct bn_graph_node *above = node;
    const char *brick = NULL;
    bn_json *event = bn_json_add_object(events), *args;
    char room[32];
    bn_json_put_string(event, "name", bn_node_label(node, room));
    bn_json_put_string(event, "ph", "X");
    bn_json_put_number(event, "ts", (double)node->begin_ns / 1e3);
    bn_json_put_number(event, "dur", (double)node->ns / 1e3);
    bn_json_put_u64(event, "pid", 1);
    bn_json_put_u64(event, "tid", (uint64_t)node->thread);
    args = bn_json_put_object(event, "args");
    while (above->parent != BN_NODE_NONE) {
        above = &graph->node[above->parent];
        if (above->kind == BN_NODE_BRICK && brick == NULL) brick = above->name;
        if (above->kind == BN_NODE_LAYER) bn_json_put_u64(args, "layer", above->index);
        if (above->kind == BN_NODE_PASS) bn_json_put_u64(args, "pass", above->index);
    }
    bn_json_put_string(event, "cat", brick != NULL ? brick : bn_node_kind_name(node->kind));
    if (node->elements > 0) bn_json_put_u64(args, "elements", node->elements);
    if (node->bytes > 0) bn_json_put_u64(args, "bytes", node->bytes);
    if (node->ops > 0) bn_json_put_u64(args, "ops", node->ops);
}

static void put_thread_name(bn_json *events, int32_t thread)
{
    char name[32];
    bn_json *event = bn_json_add_object(events);
    snprintf(name, sizeof name, "thread %d", thread);
    bn_json_put_string(event, "name", "thread_name");
    bn_json_put_string(event, "ph", "M");
    bn_json_put_u64(event, "pid", 1);
    bn_json_put_u64(event, "tid", (uint64_t)thread);
    bn_json_put_string(bn_json_put_object(event, "args"), "name", name);
}

bn_json *bn_graph_chrome(const struct bn_graph *graph)
{
    bn_json *document = bn_json_new_object(), *events = bn_json_put_array(document, "traceEvents");
    int32_t n_threads = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->node[i].thread >= n_threads) n_threads = graph->node[i].thread + 1;
    for (int32_t t = 0; t < n_threads; t++)
        put_thread_name(events, t);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->node[i].timed && graph->node[i].thread >= 0 && graph->node[i].first == BN_NODE_NONE)
            put_event(events, graph, &graph->node[i]);
    bn_json_put_string(document, "displayTimeUnit", "ns");
    return document;
}
