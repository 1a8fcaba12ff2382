/* SPDX-License-Identifier: MIT
 *
 * Builds an execution graph.
 */
#include "lab/profile/graph.h"

#include "base/error.h"

#define MAX_EDGES (4u * BN_GRAPH_MAX_NODES)

void bn_graph_open(struct bn_graph *graph)
{
    *graph = (struct bn_graph){
        .max_nodes = BN_GRAPH_MAX_NODES, .first_root = BN_NODE_NONE, .last_root = BN_NODE_NONE};
}

void bn_graph_close(struct bn_graph *graph)
{
    bn_free(graph->node);
    bn_free(graph->edge);
    bn_graph_open(graph);
}

uint32_t bn_graph_add_under(struct bn_graph *graph, uint32_t parent, const struct bn_graph_node *node)
{
    uint32_t id = graph->n_nodes, depth = 0;
    if (id == graph->max_nodes) {
        graph->truncated = true;
        graph->n_lost++;
        return BN_NODE_NONE;
    }
    if (parent != BN_NODE_NONE) depth = parent < id ? graph->node[parent].depth + 1 : BN_GRAPH_MAX_DEPTH;
    if (depth == BN_GRAPH_MAX_DEPTH) {
        bn_fail(&graph->error, BN_ERR_ARG, "the parent of a node does not exist, or is %u levels deep",
                depth);
        return BN_NODE_NONE;
    }
    if (bn_array_grow(&graph->node, &graph->room, id + (size_t)1, sizeof *graph->node, &graph->error) !=
        BN_OK)
        return BN_NODE_NONE;
    struct bn_graph_node *added = &graph->node[graph->n_nodes++];
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
    uint32_t least = graph->n_edges > 0 ? graph->edge[graph->n_edges - 1].to : 0;
    if (graph->truncated && (from == BN_NODE_NONE || to == BN_NODE_NONE)) return;
    if (kind < BN_EDGE_SEQUENCE || from >= to || to >= graph->n_nodes || to < least) {
        bn_fail(&graph->error, BN_ERR_ARG, "an edge from node %u to node %u makes no sense", from, to);
        return;
    }
    if (graph->n_edges == MAX_EDGES) {
        graph->truncated = true;
        return;
    }
    if (bn_array_grow(&graph->edge, &graph->edge_room, graph->n_edges + (size_t)1, sizeof *graph->edge,
                      &graph->error) == BN_OK)
        graph->edge[graph->n_edges++] = (struct bn_edge){kind, from, to};
}

bn_status bn_graph_finish(struct bn_graph *graph, bn_error *err)
{
    if (graph->error.code != BN_OK && err != NULL && err->code == BN_OK) *err = graph->error;
    return graph->error.code;
}
