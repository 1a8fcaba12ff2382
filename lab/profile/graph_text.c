/* SPDX-License-Identifier: MIT
 *
 * The execution graph as text: a tree for people and snapshots, DOT for Graphviz. The same graph gives the
 * same bytes.
 */
#include <stdio.h>

#include "lab/profile/graph.h"

/* ---- the tree ---- */

struct glyphs {
    const char *child, *last, *line, *blank, *micro;
};
static const struct glyphs BOXES = {"├── ", "└── ", "│   ", "    ", "µ"};
static const struct glyphs PLAIN = {"|-- ", "`-- ", "|   ", "    ", "u"};

/* A name on one line, whatever it holds. */
static void put_name(struct bn_buf *out, const char *name, bool ascii)
{
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        if (c < 32 || c == 127 || (ascii && c > 126))
            bn_buf_printf(out, "\\x%02x", c);
        else
            bn_buf_putc(out, (char)c);
    }
}

/* Tenths of a microsecond, rounded half up, without passing through binary fractions. */
static void put_time(struct bn_buf *out, uint64_t ns, const struct glyphs *glyphs)
{
    uint64_t tenths = ns / 100 + (ns % 100 >= 50);
    bn_buf_printf(out, "%llu.%llu%ss", (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10),
                  glyphs->micro);
}

/* How a device was divided: grid.x, block.x, block.y. A processor has no shared memory to name, and the
 * shares of its threads are in the JSON only. */
static void put_launch(struct bn_buf *out, const struct bn_graph_node *node)
{
    bn_buf_printf(out, "  <<<%u,%u,%u>>> smem=%uB", node->grid[0], node->block[0], node->block[1],
                  node->shared_bytes);
}

static void put_line(struct bn_buf *out, const struct bn_graph_node *node, const struct bn_tree_style *style,
                     const struct glyphs *glyphs)
{
    char room[32];
    bool time = node->timed && (style->wide || node->kind != BN_NODE_KERNEL);
    put_name(out, bn_node_label(node, room), style->ascii);
    if (node->thread >= 0) bn_buf_printf(out, " of thread %d", node->thread);
    if (node->shared_bytes > 0) put_launch(out, node);
    if (time) {
        bn_buf_puts(out, "  ");
        put_time(out, node->ns, glyphs);
    }
    if (node->kind == BN_NODE_BRICK) bn_buf_printf(out, " (%llu elem)", (unsigned long long)node->elements);
    if (node->kind == BN_NODE_PASS)
        bn_buf_printf(out, " (%llu token%s)", (unsigned long long)node->elements,
                      node->elements == 1 ? "" : "s");
    if (style->wide && node->bytes > 0) bn_buf_printf(out, " %lluB", (unsigned long long)node->bytes);
    if (style->wide && node->ops > 0) bn_buf_printf(out, " %llu op", (unsigned long long)node->ops);
    if (time && style->wall_ns > 0)
        bn_buf_printf(out, "  %.1f%%", 100.0 * (double)node->ns / (double)style->wall_ns);
    if (style->wide && node->code != NULL) bn_buf_printf(out, "  code %.16s", node->code);
}

/* Cuts the line that begins at `start` to `columns` characters: bytes that do not continue one. */
static void cut_line(struct bn_buf *out, size_t start, uint32_t columns)
{
    uint32_t n = 0;
    if (columns == 0 || out->failed) return;
    for (size_t i = start; i < out->len; i++) {
        n += ((unsigned char)out->data[i] & 0xC0u) != 0x80u;
        if (n <= columns) continue;
        out->len = i;
        out->data[i] = '\0';
    }
}

struct tree {
    struct bn_buf *out;
    const struct bn_graph *graph;
    struct bn_tree_style style;
    const struct glyphs *glyphs;
    bool last[BN_GRAPH_MAX_DEPTH]; /* is the ancestor of this depth its parent's last child? */
};

static bool is_of_threads(const struct bn_graph_node *node)
{
    return node->kind == BN_NODE_TASK || node->kind == BN_NODE_MEETING || node->kind == BN_NODE_WAIT;
}

/* The first node from id on, among its siblings, that is shown. */
static uint32_t shown(const struct tree *tree, uint32_t id)
{
    while (id != BN_NODE_NONE && !tree->style.wide && is_of_threads(&tree->graph->node[id]))
        id = tree->graph->node[id].next;
    return id;
}

static void put_branch(struct tree *tree, uint32_t id, uint32_t first_depth)
{
    const struct bn_graph_node *node = &tree->graph->node[id];
    size_t start = tree->out->len;
    for (uint32_t d = first_depth; d < node->depth; d++)
        bn_buf_puts(tree->out, tree->last[d] ? tree->glyphs->blank : tree->glyphs->line);
    if (node->depth >= first_depth)
        bn_buf_puts(tree->out, tree->last[node->depth] ? tree->glyphs->last : tree->glyphs->child);
    put_line(tree->out, node, &tree->style, tree->glyphs);
    cut_line(tree->out, start, tree->style.columns);
    for (uint32_t child = shown(tree, node->first); child != BN_NODE_NONE;) {
        uint32_t next = shown(tree, tree->graph->node[child].next);
        tree->last[node->depth + 1] = next == BN_NODE_NONE;
        bn_buf_putc(tree->out, '\n');
        put_branch(tree, child, first_depth);
        child = next;
    }
}

void bn_graph_tree(struct bn_buf *out, const struct bn_graph *graph, const struct bn_tree_style *style)
{
    struct tree tree = {.out = out, .graph = graph};
    if (style != NULL) tree.style = *style;
    tree.glyphs = tree.style.ascii ? &PLAIN : &BOXES;
    uint32_t root = shown(&tree, graph->first_root);
    if (root == BN_NODE_NONE) {
        bn_buf_puts(out, "(empty graph)");
        return;
    }
    bool single = shown(&tree, graph->node[root].next) == BN_NODE_NONE;
    if (!single) bn_buf_puts(out, "Execution graph");
    while (root != BN_NODE_NONE) {
        uint32_t next = shown(&tree, graph->node[root].next);
        tree.last[0] = next == BN_NODE_NONE;
        if (!single) bn_buf_putc(out, '\n');
        put_branch(&tree, root, single ? 1 : 0);
        root = next;
    }
}

/* ---- DOT ---- */

static const char *const FILL[] = {"white",     "lightblue", "lightgreen", "lightyellow",
                                   "lightcyan", "thistle",   "mistyrose"};
static const char *const LOOK[] = {"style=dashed", "style=bold, color=red", "style=dotted", "color=darkgreen",
                                   "color=purple"};
_Static_assert(BN_ARRAY_LEN(FILL) == BN_NODE_KIND_COUNT, "a kind of node has no color");
_Static_assert(BN_ARRAY_LEN(LOOK) == BN_EDGE_KIND_COUNT, "a kind of edge has no style");

/* Text within a quoted label: what would end the string, begin an escape, or mean a part of a record or an
 * HTML label gets a backslash. */
static void put_escaped(struct bn_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\n') {
            bn_buf_puts(out, "\\n");
        } else if (c < 32 || c == 127) {
            bn_buf_printf(out, "\\\\x%02x", c);
        } else {
            if (strchr("\"\\{}<>|", c) != NULL) bn_buf_putc(out, '\\');
            bn_buf_putc(out, (char)c);
        }
    }
}

static void put_edge(struct bn_buf *out, enum bn_edge_kind kind, uint32_t from, uint32_t to)
{
    bn_buf_printf(out, "    n%u -> n%u [%s];\n", from, to, LOOK[kind]);
}

void bn_graph_dot(struct bn_buf *out, const struct bn_graph *graph)
{
    char room[32];
    /* The limits: dot lays a pass of two threads out in 2 seconds of a processor, without them in 20 and
     * more. */
    bn_buf_puts(out, "digraph execution {\n    rankdir=TB;\n    nslimit=1; nslimit1=1; mclimit=0.1;\n"
                     "    node [shape=box, style=filled];\n");
    if (graph->truncated)
        bn_buf_printf(out, "    label=\"truncated: %llu nodes had no room\";\n",
                      (unsigned long long)graph->n_lost);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct bn_graph_node *node = &graph->node[i];
        bn_buf_printf(out, "    n%u [fillcolor=%s, label=\"", i, FILL[node->kind]);
        put_escaped(out, bn_node_label(node, room));
        if (node->thread >= 0) bn_buf_printf(out, "\\nthread %d", node->thread);
        if (node->timed) {
            bn_buf_puts(out, "\\n");
            put_time(out, node->ns, &BOXES);
        }
        bn_buf_puts(out, "\"];\n");
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->node[i].parent != BN_NODE_NONE)
            put_edge(out, bn_graph_tree_edge(&graph->node[graph->node[i].parent]), graph->node[i].parent, i);
    for (uint32_t i = 0; i < graph->n_edges; i++)
        put_edge(out, graph->edge[i].kind, graph->edge[i].from, graph->edge[i].to);
    bn_buf_puts(out, "}\n");
}
