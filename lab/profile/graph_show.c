/* SPDX-License-Identifier: MIT
 *
 * The execution graph as text (a tree for people and snapshots, DOT for Graphviz) and as JSON (the graph itself,
 * and Chrome trace events). The same graph gives the same bytes.
 */
#include <stdio.h>

#include "lab/kit/put_counts.h"
#include "lab/profile/graph.h"

static const struct {
    const char *name, *fill; /* in DOT */
} NODES[BN_NODE_KIND_COUNT] = {{"pass", "white"},         {"layer", "lightblue"}, {"brick", "lightgreen"},
                               {"kernel", "lightyellow"}, {"task", "lightcyan"},  {"meeting", "thistle"},
                               {"wait", "mistyrose"}};
static const struct {
    const char *name, *look;
} EDGES[BN_EDGE_KIND_COUNT] = {{"contains", "style=dashed"},
                               {"launches", "style=bold, color=red"},
                               {"sequence", "style=dotted"},
                               {"fork", "color=darkgreen"},
                               {"join", "color=purple"}};

const char *bn_node_kind_name(enum bn_node_kind kind)
{
    return NODES[kind].name;
}

static bool is_numbered(const struct bn_graph_node *node)
{
    return node->kind == BN_NODE_PASS || node->kind == BN_NODE_LAYER;
}

const char *bn_node_label(const struct bn_graph_node *node, char room[32])
{
    if (!is_numbered(node)) return node->name != NULL ? node->name : NODES[node->kind].name;
    snprintf(room, 32, "%s %u", node->kind == BN_NODE_PASS ? "Pass" : "Layer", node->index);
    return room;
}

/* All edges: for i from 0 on those of the tree (false for a root), then those of order. */
static bool edge_at(const struct bn_graph *graph, uint32_t i, struct bn_edge *out)
{
    if (i >= graph->n_nodes) {
        *out = graph->edge[i - graph->n_nodes];
        return true;
    }
    uint32_t parent = graph->node[i].parent;
    if (parent == BN_NODE_NONE) return false;
    bool brick = graph->node[parent].kind == BN_NODE_BRICK;
    *out = (struct bn_edge){brick ? BN_EDGE_LAUNCHES : BN_EDGE_CONTAINS, parent, i};
    return true;
}

/* ---- the tree ---- */

struct glyphs {
    const char *child, *last, *line, *blank, *micro;
};
static const struct glyphs BOXES = {"├── ", "└── ", "│   ", "    ", "µ"};
static const struct glyphs PLAIN = {"|-- ", "`-- ", "|   ", "    ", "u"};

struct tree {
    struct bn_buf *out;
    const struct bn_graph *graph;
    const struct bn_tree_style *style;
    const struct glyphs *glyphs;
    bool last[BN_GRAPH_MAX_DEPTH]; /* is the ancestor of this depth its parent's last child? */
};

/* Tenths of a microsecond, rounded half up, without passing through binary fractions. */
static void put_time(struct bn_buf *out, uint64_t ns, const struct glyphs *glyphs)
{
    uint64_t tenths = ns / 100 + (ns % 100 >= 50);
    bn_buf_printf(out, "%llu.%llu%ss", (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10),
                  glyphs->micro);
}

static void put_line(const struct tree *t, const struct bn_graph_node *node)
{
    struct bn_buf *out = t->out;
    bool wide = t->style->wide, time = node->timed && (wide || node->kind != BN_NODE_KERNEL);
    if (t->style->no_times) time = false;
    unsigned long long elements = node->elements;
    char room[32];
    bn_buf_puts(out, bn_node_label(node, room));
    if (node->thread >= 0) bn_buf_printf(out, " of thread %d", node->thread);
    if (node->shared_bytes > 0) /* a processor has none to name */
        bn_buf_printf(out, "  <<<%u,%u,%u>>> smem=%uB", node->grid[0], node->block[0], node->block[1],
                      node->shared_bytes);
    if (time) bn_buf_puts(out, "  ");
    if (time) put_time(out, node->ns, t->glyphs);
    if (node->kind == BN_NODE_BRICK) bn_buf_printf(out, " (%llu elem)", elements);
    if (node->kind == BN_NODE_PASS) bn_buf_printf(out, " (%llu token%s)", elements, elements == 1 ? "" : "s");
    if (wide && node->bytes > 0) bn_buf_printf(out, " %lluB", (unsigned long long)node->bytes);
    if (wide && node->ops > 0) bn_buf_printf(out, " %llu op", (unsigned long long)node->ops);
    if (time && t->style->wall_ns > 0)
        bn_buf_printf(out, "  %.1f%%", 100.0 * (double)node->ns / (double)t->style->wall_ns);
    if (wide && node->code != NULL) bn_buf_printf(out, "  code %.16s", node->code);
}

/* The first node from id on, among its siblings, that is shown. */
static uint32_t shown(const struct tree *t, uint32_t id)
{
    for (; id != BN_NODE_NONE && !t->style->wide; id = t->graph->node[id].next)
        if (t->graph->node[id].kind < BN_NODE_TASK) break;
    return id;
}

/* A node and its siblings, each with what is inside. */
static void put_branches(struct tree *t, uint32_t id, uint32_t first_depth)
{
    for (uint32_t next; id != BN_NODE_NONE; id = next) {
        const struct bn_graph_node *node = &t->graph->node[id];
        next = shown(t, node->next);
        t->last[node->depth] = next == BN_NODE_NONE;
        if (t->out->len > 0) bn_buf_putc(t->out, '\n');
        for (uint32_t d = first_depth; d < node->depth; d++)
            bn_buf_puts(t->out, t->last[d] ? t->glyphs->blank : t->glyphs->line);
        if (node->depth >= first_depth)
            bn_buf_puts(t->out, t->last[node->depth] ? t->glyphs->last : t->glyphs->child);
        put_line(t, node);
        put_branches(t, shown(t, node->first), first_depth);
    }
}

void bn_graph_tree(struct bn_buf *out, const struct bn_graph *graph, const struct bn_tree_style *style)
{
    struct tree tree = {.out = out, .graph = graph, .style = style, .glyphs = style->ascii ? &PLAIN : &BOXES};
    uint32_t root = shown(&tree, graph->first_root);
    bool single = root != BN_NODE_NONE && shown(&tree, graph->node[root].next) == BN_NODE_NONE;
    if (!single) bn_buf_puts(out, root == BN_NODE_NONE ? "(empty graph)" : "Execution graph");
    put_branches(&tree, root, single ? 1 : 0);
}

/* ---- DOT ---- */

void bn_graph_dot(struct bn_buf *out, const struct bn_graph *graph)
{
    char room[32];
    struct bn_edge e;
    /* The limits: dot lays a pass of two threads out in 2 seconds of a processor, without them in 20 and
     * more. */
    bn_buf_puts(out, "digraph execution {\n    rankdir=TB;\n    nslimit=1; nslimit1=1; mclimit=0.1;\n"
                     "    node [shape=box, style=filled];\n");
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct bn_graph_node *node = &graph->node[i];
        bn_buf_printf(out, "    n%u [fillcolor=%s, label=\"%s", i, NODES[node->kind].fill,
                      bn_node_label(node, room));
        if (node->thread >= 0) bn_buf_printf(out, "\\nthread %d", node->thread);
        if (node->timed) bn_buf_puts(out, "\\n");
        if (node->timed) put_time(out, node->ns, &BOXES);
        bn_buf_puts(out, "\"];\n");
    }
    for (uint32_t i = 0; i < graph->n_nodes + graph->n_edges; i++)
        if (edge_at(graph, i, &e))
            bn_buf_printf(out, "    n%u -> n%u [%s];\n", e.from, e.to, EDGES[e.kind].look);
    bn_buf_puts(out, "}\n");
}

/* ---- JSON ---- */

static void put_dimensions(bn_json *object, const char *name, const uint32_t d[3])
{
    bn_json_put_u64s(object, name, (const uint64_t[]){d[0], d[1], d[2]}, 3);
}

static void put_work(bn_json *object, const struct bn_graph_node *node)
{
    if (node->elements > 0) bn_json_put_u64(object, "elements", node->elements);
    if (node->bytes > 0) bn_json_put_u64(object, "bytes", node->bytes);
    if (node->ops > 0) bn_json_put_u64(object, "ops", node->ops);
}

static void put_node(bn_json *object, const struct bn_graph_node *node, uint32_t id)
{
    BN_PUT(object, BN_U64("id", id), BN_STRING("kind", NODES[node->kind].name));
    if (node->parent != BN_NODE_NONE) bn_json_put_u64(object, "parent", node->parent);
    if (is_numbered(node))
        bn_json_put_u64(object, "index", node->index);
    else
        bn_json_put_string(object, "name", node->name);
    if (node->thread >= 0) bn_json_put_u64(object, "thread", (uint64_t)node->thread);
    if (node->timed) bn_json_put_u64(object, "begin_ns", node->begin_ns);
    if (node->timed) bn_json_put_u64(object, "ns", node->ns);
    put_work(object, node);
    if (node->kind != BN_NODE_KERNEL) return;
    put_dimensions(object, "grid", node->grid);
    put_dimensions(object, "block", node->block);
    bn_json_put_u64(object, "shared_bytes", node->shared_bytes);
    if (node->code != NULL) bn_json_put_string(object, "code_sha256", node->code);
}

void bn_graph_put(bn_json *object, const struct bn_graph *graph)
{
    struct bn_edge e;
    bn_json *nodes = bn_json_put_array(object, "nodes"), *edges = bn_json_put_array(object, "edges");
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        put_node(bn_json_add_object(nodes), &graph->node[i], i);
    for (uint32_t i = 0; i < graph->n_nodes + graph->n_edges; i++) {
        if (!edge_at(graph, i, &e)) continue;
        bn_json *edge = bn_json_add_object(edges);
        BN_PUT(edge, BN_STRING("kind", EDGES[e.kind].name), BN_U64("from", e.from), BN_U64("to", e.to));
    }
}

/* ---- Chrome trace ---- */

/* An event; its caller adds what it is about. */
static bn_json *put_event(bn_json *events, const char *name, const char *phase, int32_t thread)
{
    bn_json *event = bn_json_add_object(events);
    BN_PUT(event, BN_STRING("name", name), BN_STRING("ph", phase), BN_U64("pid", 1),
           BN_U64("tid", (uint64_t)thread));
    return event;
}

/* What a task is shown as, and where it belongs. */
static void put_task(bn_json *event, const struct bn_graph *graph, const struct bn_graph_node *node)
{
    const struct bn_graph_node *above = node;
    const char *brick = NULL;
    BN_PUT(event, BN_NUMBER("ts", (double)node->begin_ns / 1e3), BN_NUMBER("dur", (double)node->ns / 1e3));
    bn_json *args = bn_json_put_object(event, "args");
    while (above->parent != BN_NODE_NONE) {
        above = &graph->node[above->parent];
        if (above->kind == BN_NODE_BRICK && brick == NULL) brick = above->name;
        if (is_numbered(above)) bn_json_put_u64(args, NODES[above->kind].name, above->index);
    }
    bn_json_put_string(event, "cat", brick != NULL ? brick : NODES[node->kind].name);
    put_work(args, node);
}

bn_json *bn_graph_chrome(const struct bn_graph *graph)
{
    bn_json *document = bn_json_new_object(), *events = bn_json_put_array(document, "traceEvents");
    int32_t n_threads = 0;
    char room[32];
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->node[i].thread >= n_threads) n_threads = graph->node[i].thread + 1;
    for (int32_t t = 0; t < n_threads; t++) {
        bn_json *event = put_event(events, "thread_name", "M", t);
        snprintf(room, sizeof room, "thread %d", t);
        bn_json_put_string(bn_json_put_object(event, "args"), "name", room);
    }
    for (const struct bn_graph_node *node = graph->node; node < graph->node + graph->n_nodes; node++)
        if (node->timed && node->thread >= 0 && node->first == BN_NODE_NONE)
            put_task(put_event(events, bn_node_label(node, room), "X", node->thread), graph, node);
    bn_json_put_string(document, "displayTimeUnit", "ns");
    return document;
}
