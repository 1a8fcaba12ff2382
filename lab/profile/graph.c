/* SPDX-License-Identifier: MIT
 *
 * Builds an execution graph. After one node was dropped for lack of room, all later ones are.
 */
#include "lab/profile/graph.h"

#include <stdio.h>

#include "base/error.h"

#define EDGES_PER_NODE 4u

static const char *const NODE_NAME[] = {"pass",    "layer", "brick",    "kernel",  "task",
                                        "meeting", "wait",  "function", "transfer"};
static const char *const EDGE_NAME[] = {"contains",   "calls", "launches", "sequence",
                                        "depends_on", "fork",  "join",     "transfer"};
_Static_assert(BN_ARRAY_LEN(NODE_NAME) == BN_NODE_KIND_COUNT, "a kind of node has no name");
_Static_assert(BN_ARRAY_LEN(EDGE_NAME) == BN_EDGE_KIND_COUNT, "a kind of edge has no name");

const char *bn_node_kind_name(enum bn_node_kind kind)
{
    return NODE_NAME[kind];
}

const char *bn_edge_kind_name(enum bn_edge_kind kind)
{
    return EDGE_NAME[kind];
}

enum bn_edge_kind bn_graph_tree_edge(const struct bn_graph_node *parent)
{
    if (parent->kind == BN_NODE_FUNCTION) return BN_EDGE_CALLS;
    return parent->kind == BN_NODE_BRICK ? BN_EDGE_LAUNCHES : BN_EDGE_CONTAINS;
}

const char *bn_node_label(const struct bn_graph_node *node, char room[32])
{
    if (node->kind != BN_NODE_PASS && node->kind != BN_NODE_LAYER)
        return node->name != NULL ? node->name : bn_node_kind_name(node->kind);
    snprintf(room, 32, "%s %u", node->kind == BN_NODE_PASS ? "Pass" : "Layer", node->index);
    return room;
}

void bn_graph_open(struct bn_graph *graph, uint32_t max_nodes)
{
    *graph = (struct bn_graph){.max_nodes = max_nodes > 0 ? max_nodes : BN_GRAPH_MAX_NODES,
                               .first_root = BN_NODE_NONE,
                               .last_root = BN_NODE_NONE};
}

void bn_graph_close(struct bn_graph *graph)
{
    bn_free(graph->node);
    bn_free(graph->edge);
    bn_graph_open(graph, 0);
}

uint32_t bn_graph_add_under(struct bn_graph *graph, uint32_t parent, const struct bn_graph_node *node)
{
    if (graph->n_nodes == graph->max_nodes) {
        graph->truncated = true;
        graph->n_lost++;
        return BN_NODE_NONE;
    }
    if (parent != BN_NODE_NONE && parent >= graph->n_nodes) {
        bn_fail(&graph->error, BN_ERR_ARG, "the parent of a node does not exist");
        return BN_NODE_NONE;
    }
    uint32_t depth = parent != BN_NODE_NONE ? graph->node[parent].depth + 1 : 0;
    if (depth == BN_GRAPH_MAX_DEPTH) {
        bn_fail(&graph->error, BN_ERR_LIMIT, "the graph is more than %u levels deep", BN_GRAPH_MAX_DEPTH);
        return BN_NODE_NONE;
    }
    if (bn_array_grow(&graph->node, &graph->room, graph->n_nodes + (size_t)1, sizeof *graph->node,
                      &graph->error) != BN_OK)
        return BN_NODE_NONE;
    uint32_t id = graph->n_nodes++;
    struct bn_graph_node *added = &graph->node[id];
    *added = *node;
    added->parent = parent;
    added->depth = depth;
    added->first = added->last = added->next = BN_NODE_NONE;
    uint32_t *first = parent != BN_NODE_NONE ? &graph->node[parent].first : &graph->first_root;
    uint32_t *last = parent != BN_NODE_NONE ? &graph->node[parent].last : &graph->last_root;
    *(*last != BN_NODE_NONE ? &graph->node[*last].next : first) = id;
    *last = id;
    return id;
}

void bn_graph_link(struct bn_graph *graph, enum bn_edge_kind kind, uint32_t from, uint32_t to)
{
    uint64_t most = (uint64_t)graph->max_nodes * EDGES_PER_NODE;
    if (graph->truncated && (from == BN_NODE_NONE || to == BN_NODE_NONE)) return;
    if (kind < BN_EDGE_SEQUENCE || from == to || from >= graph->n_nodes || to >= graph->n_nodes) {
        bn_fail(&graph->error, BN_ERR_ARG, "an edge (%s) from node %u to node %u makes no sense",
                bn_edge_kind_name(kind), from, to);
        return;
    }
    if (graph->n_edges >= most) {
        graph->truncated = true;
        return;
    }
    if (bn_array_grow(&graph->edge, &graph->edge_room, graph->n_edges + (size_t)1, sizeof *graph->edge,
                      &graph->error) != BN_OK)
        return;
    graph->edge[graph->n_edges++] = (struct bn_edge){kind, from, to};
}

bn_status bn_graph_finish(struct bn_graph *graph, bn_error *err)
{
    if (graph->error.code != BN_OK && err != NULL && err->code == BN_OK) *err = graph->error;
    return graph->error.code;
}
