/* SPDX-License-Identifier: MIT
 *
 * The tree of one pass: its layers, bricks and kernels, each with the time that it took in this pass. Layers
 * are folded at the start.
 */
#include <math.h>
#include <stdio.h>

#include "tools/bench/top/top.h"

struct maker {
    struct bn_top_rows *out;
    const struct bn_live_snapshot *now;
    const struct bn_top_pass *pass;
    const struct bn_top_view *view;
    double pass_ns, path_ns;
};

/* The name and the place of a row, so that it is the same one in the next pass. */
static uint64_t key_of(uint64_t parent, const char *name, uint32_t place)
{
    uint64_t key = (parent ^ place) * 0x100000001b3u + 0xcbf29ce484222325u;
    for (; *name != '\0'; name++)
        key = (key ^ (unsigned char)*name) * 0x100000001b3u;
    return key;
}

static bool is_shown(const struct bn_graph_node *node)
{
    return node->kind == BN_NODE_LAYER || node->kind == BN_NODE_BRICK || node->kind == BN_NODE_KERNEL ||
           node->kind == BN_NODE_PASS;
}

static enum bn_brick_category category_of(const struct maker *m, const char *name,
                                          enum bn_brick_category otherwise)
{
    for (unsigned i = 0; name != NULL && i < m->now->n_bricks; i++)
        if (strcmp(m->now->names[i], name) == 0) return m->now->categories[i];
    return otherwise;
}

/* What the leaves in a node have: time on the path, and the most slack. */
static void add_leaves(struct bn_top_row *row, const struct maker *m, uint32_t id)
{
    const struct bn_graph *graph = &m->pass->graph;
    const struct bn_slot *slot = &m->pass->schedule.slot[id];
    bool meeting = graph->node[id].kind == BN_NODE_MEETING;
    if (slot->leaf && !meeting) {
        if (isnan(row->slack_ns) || (double)slot->slack > row->slack_ns) row->slack_ns = (double)slot->slack;
        if (isnan(row->path)) row->path = 0;
        if (m->pass->on_path[id] && m->path_ns > 0) row->path += (double)slot->ns / m->path_ns;
    }
    for (uint32_t c = graph->node[id].first; c != BN_NODE_NONE; c = graph->node[c].next)
        add_leaves(row, m, c);
}

/* A layer has no stamps of its own: its time is that of its bricks. */
static double time_of(const struct bn_graph *graph, uint32_t id)
{
    double ns = 0;
    if (graph->node[id].timed) return (double)graph->node[id].ns;
    for (uint32_t c = graph->node[id].first; c != BN_NODE_NONE; c = graph->node[c].next)
        if (is_shown(&graph->node[c])) ns += time_of(graph, c);
    return ns;
}

static void add_node(struct maker *m, uint32_t id, unsigned depth, uint64_t parent, uint32_t place,
                     enum bn_brick_category category)
{
    const struct bn_graph_node *node = &m->pass->graph.node[id];
    char room[32];
    if (m->out->n == BN_TOP_ROWS) return;
    struct bn_top_row *row = &m->out->list[m->out->n++];
    const char *name = bn_node_label(node, room);
    double ns = time_of(&m->pass->graph, id);
    *row = (struct bn_top_row){
        .key = key_of(parent, name, place),
        .depth = depth,
        .category = category_of(m, node->name, category),
        .share = m->pass_ns > 0 ? ns / m->pass_ns : BN_TOP_UNKNOWN,
        .ns = ns,
        .count = node->kind == BN_NODE_PASS ? (double)node->elements : 1,
        .bytes_per_s = node->bytes > 0 && ns > 0 ? (double)node->bytes * 1e9 / ns : BN_TOP_UNKNOWN,
        .ops_per_s = node->ops > 0 && ns > 0 ? (double)node->ops * 1e9 / ns : BN_TOP_UNKNOWN,
        .path = BN_TOP_UNKNOWN,
        .slack_ns = BN_TOP_UNKNOWN,
        .budget = BN_TOP_UNKNOWN};
    snprintf(row->name, sizeof row->name, "%s", node->kind == BN_NODE_PASS ? "Pass" : name);
    if (node->kind == BN_NODE_PASS) row->key = 1;
    add_leaves(row, m, id);
    for (uint32_t c = node->first; c != BN_NODE_NONE; c = m->pass->graph.node[c].next)
        row->has_children = row->has_children || is_shown(&m->pass->graph.node[c]);
    row->is_folded = bn_top_is_toggled(m->view, row->key) != (node->kind == BN_NODE_LAYER);
    if (row->is_folded) return;
    uint64_t key = row->key;
    category = row->category;
    uint32_t n = 0;
    for (uint32_t c = node->first; c != BN_NODE_NONE; c = m->pass->graph.node[c].next)
        if (is_shown(&m->pass->graph.node[c])) add_node(m, c, depth + 1, key, n++, category);
}

void bn_top_pass_rows(struct bn_top_rows *out, const struct bn_live_snapshot *now,
                      const struct bn_top_pass *pass, const struct bn_top_view *view)
{
    struct maker m = {out, now, pass, view, 0, 0};
    out->n = 0;
    if (!pass->known || pass->graph.first_root == BN_NODE_NONE) return;
    m.pass_ns = (double)pass->graph.node[pass->graph.first_root].ns;
    m.path_ns = (double)pass->schedule.path_ns;
    add_node(&m, pass->graph.first_root, 0, 0, 0, BN_CATEGORY_OTHER);
}
