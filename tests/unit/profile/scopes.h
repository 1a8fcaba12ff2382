/* SPDX-License-Identifier: MIT
 *
 * Builds one graph at a time by opening and closing scopes: a node goes into the innermost one that is open.
 */
#ifndef BN_TESTS_SCOPES_H
#define BN_TESTS_SCOPES_H

#include "lab/profile/graph.h"

static uint32_t scope = BN_NODE_NONE;

static inline uint32_t add(struct bn_graph *graph, struct bn_graph_node node)
{
    return bn_graph_add_under(graph, scope, &node);
}

static inline uint32_t push(struct bn_graph *graph, struct bn_graph_node node)
{
    return scope = add(graph, node);
}

static inline void pop(const struct bn_graph *graph)
{
    scope = graph->node[scope].parent;
}

#endif
