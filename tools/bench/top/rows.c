/* SPDX-License-Identifier: MIT
 *
 * The rows: either the bricks in their categories and the kernels, with the numbers of a window; or the tree of
 * one pass, its layers, bricks and kernels, each with the time that it took in this pass, layers folded.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/bench/top/top.h"

#define UNKNOWN ((double)NAN)

/* ---- folding ---- */

static bool is_toggled(const struct bn_top_view *view, uint64_t key)
{
    for (size_t i = 0; i < view->n_toggled; i++)
        if (view->toggled[i] == key) return true;
    return false;
}

void bn_top_toggle(struct bn_top_view *view, uint64_t key)
{
    for (size_t i = 0; i < view->n_toggled; i++)
        if (view->toggled[i] == key) {
            view->toggled[i] = view->toggled[--view->n_toggled];
            return;
        }
    if (view->n_toggled < BN_TOP_KEYS) view->toggled[view->n_toggled++] = key;
}

/* ---- bricks ---- */

#define KEY_CATEGORY 1000u
#define KEY_KERNELS 2000u

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : UNKNOWN;
}

static struct bn_top_row new_row(const char *name, uint64_t key, unsigned depth, unsigned order)
{
    struct bn_top_row row = {.key = key,
                             .depth = depth,
                             .order = order,
                             .category = BN_CATEGORY_OTHER,
                             .bytes_per_s = UNKNOWN,
                             .ops_per_s = UNKNOWN,
                             .path = UNKNOWN,
                             .slack_ns = UNKNOWN,
                             .budget = UNKNOWN};
    snprintf(row.name, sizeof row.name, "%s", name);
    return row;
}

/* Of all threads that took part; NaN for a rate of nothing. */
static double rate(const struct bn_live_sums *w, uint64_t n, uint64_t ns)
{
    double threads = ratio((double)w->n_parts, (double)w->n_measured);
    return n > 0 ? ratio((double)n * 1e9 * threads, (double)ns) : UNKNOWN;
}

static void fill(struct bn_top_row *row, const struct bn_live_sums *w, double all_ns, uint64_t ns,
                 uint64_t count)
{
    row->share = ratio((double)ns, all_ns);
    row->ns = ratio((double)ns, (double)w->n_parts); /* the mean over the threads that took part in a pass */
    row->count = (double)count;
}

static struct bn_top_row brick_row(const struct bn_top *top, unsigned brick, double all_ns)
{
    const struct bn_live_sums *w = &top->shown.sums;
    const struct bn_brick_stats *b = &w->bricks[brick];
    struct bn_top_row row = new_row(bn_brick_name(brick), brick, 1, brick);
    row.category = bn_brick_category(brick);
    fill(&row, w, all_ns, b->exclusive_ns, b->count);
    row.bytes_per_s = rate(w, b->bytes, b->inclusive_ns);
    row.ops_per_s = rate(w, b->ops, b->inclusive_ns);
    if (top->budget.given) row.budget = ratio((double)b->inclusive_ns / row.count, top->budget.ns[brick]);
    const struct bn_schedule_row *on_path =
        top->pass.known ? bn_schedule_find(&top->pass.schedule, row.name) : NULL;
    if (on_path == NULL) return row;
    row.path = ratio((double)on_path->path_ns, (double)top->pass.schedule.path_ns);
    row.slack_ns = (double)on_path->slack_ns;
    return row;
}

/* The sum of a category, from its bricks. */
static struct bn_top_row sum_of(const struct bn_top *top, const struct bn_top_row *rows, size_t n,
                                enum bn_brick_category category)
{
    const struct bn_live_sums *w = &top->shown.sums;
    struct bn_top_row sum = new_row(bn_brick_category_name(category), KEY_CATEGORY + category, 0, category);
    uint64_t bytes = 0, ops = 0, ns = 0;
    sum.category = category;
    sum.has_children = true;
    sum.is_folded = is_toggled(&top->view, sum.key);
    for (const struct bn_top_row *row = rows; row < rows + n; row++) {
        const struct bn_brick_stats *b = &w->bricks[row->key];
        if (row->category != category) continue;
        sum.share += isnan(row->share) ? 0 : row->share;
        sum.ns += isnan(row->ns) ? 0 : row->ns;
        sum.count += row->count;
        if (!isnan(row->path)) sum.path = isnan(sum.path) ? row->path : sum.path + row->path;
        sum.slack_ns = fmax(sum.slack_ns, row->slack_ns); /* NaN of both only */
        bytes += b->bytes;
        ops += b->ops;
        ns += b->bytes > 0 || b->ops > 0 ? b->exclusive_ns : 0;
    }
    sum.bytes_per_s = rate(w, bytes, ns);
    sum.ops_per_s = rate(w, ops, ns);
    return sum;
}

static int goes_before(const void *a, const void *b)
{
    const struct bn_top_row *x = a, *y = b;
    if (x->sort > y->sort || x->sort < y->sort) return x->sort > y->sort ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static void sort_rows(struct bn_top_row *rows, size_t n, enum bn_top_sort by)
{
    for (struct bn_top_row *row = rows; row < rows + n; row++) {
        const double keys[BN_TOP_SORTS] = {row->share, -(double)row->order, row->path, row->slack_ns};
        row->sort = isnan(keys[by]) ? -1 : keys[by];
    }
    qsort(rows, n, sizeof *rows, goes_before);
}

/* Kernels are a view of their own: their time is part of that of the bricks. */
static void add_kernels(struct bn_top *top, double all_ns)
{
    const struct bn_live_sums *w = &top->shown.sums;
    struct bn_top_row *sum = &top->rows.list[top->rows.n], *row = sum;
    *sum = new_row("Kernels", KEY_KERNELS, 0, 0);
    sum->has_children = true;
    sum->is_folded = is_toggled(&top->view, KEY_KERNELS);
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        const struct bn_prof_kernel_stats *s = &w->kernels[k];
        if (s->count == 0) continue;
        *++row = new_row(top->now->kernels->name[k], KEY_KERNELS + 1 + k, 1, k);
        fill(row, w, all_ns, s->ns, s->count);
        row->bytes_per_s = rate(w, s->bytes, s->ns);
        row->ops_per_s = rate(w, s->ops, s->ns);
        sum->share += row->share;
        sum->ns += row->ns;
        sum->count += row->count;
    }
    if (row == sum) return;
    sort_rows(sum + 1, (size_t)(row - sum), top->view.sort);
    top->rows.n += sum->is_folded ? 1 : (size_t)(row - sum) + 1;
}

static void make_bricks(struct bn_top *top)
{
    struct bn_top_row sums[BN_CATEGORY_COUNT], bricks[BN_BRICK_MAX];
    size_t n = 0, n_sums = 0;
    double all_ns = 0;
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        all_ns += (double)top->shown.sums.bricks[i].exclusive_ns;
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        if (top->shown.sums.bricks[i].count > 0) bricks[n++] = brick_row(top, i, all_ns);
    sort_rows(bricks, n, top->view.sort);
    for (unsigned c = 0; c < BN_CATEGORY_COUNT; c++) {
        sums[n_sums] = sum_of(top, bricks, n, (enum bn_brick_category)c);
        n_sums += sums[n_sums].count > 0;
    }
    sort_rows(sums, n_sums, top->view.sort);
    for (size_t i = 0; i < n_sums; i++) {
        top->rows.list[top->rows.n++] = sums[i];
        for (size_t k = 0; k < n && !sums[i].is_folded; k++)
            if (bricks[k].category == sums[i].category) top->rows.list[top->rows.n++] = bricks[k];
    }
    add_kernels(top, all_ns);
}

/* ---- the tree of a pass ---- */

/* The name and the place of a row, so that it is the same one in the next pass. */
static uint64_t key_of(uint64_t parent, const char *name, uint32_t place)
{
    uint64_t key = (parent ^ place) * 0x100000001b3u + 0xcbf29ce484222325u;
    for (; *name != '\0'; name++)
        key = (key ^ (unsigned char)*name) * 0x100000001b3u;
    return key;
}

/* The first node from id on, among its siblings, that has a row. */
static uint32_t shown(const struct bn_graph *graph, uint32_t id)
{
    while (id != BN_NODE_NONE && graph->node[id].kind >= BN_NODE_TASK)
        id = graph->node[id].next;
    return id;
}

static enum bn_brick_category category_of(const char *name, enum bn_brick_category otherwise)
{
    unsigned brick = name != NULL ? bn_brick_find(name) : BN_BRICK_NONE;
    return brick != BN_BRICK_NONE ? bn_brick_category(brick) : otherwise;
}

/* What the leaves in a node have: time on the path, and the most slack. */
static void add_leaves(struct bn_top_row *row, const struct bn_top_pass *pass, uint32_t id)
{
    const struct bn_graph_node *node = &pass->graph.node[id];
    const struct bn_slot *slot = &pass->schedule.slot[id];
    if (slot->leaf && node->kind != BN_NODE_MEETING) {
        row->slack_ns = fmax(row->slack_ns, (double)slot->slack);
        if (isnan(row->path)) row->path = 0;
        if (slot->on_path) row->path += (double)slot->ns / fmax(1, (double)pass->schedule.path_ns);
    }
    for (uint32_t c = node->first; c != BN_NODE_NONE; c = pass->graph.node[c].next)
        add_leaves(row, pass, c);
}

/* A layer has no stamps of its own: its time is that of its bricks. */
static double time_of(const struct bn_graph *graph, uint32_t id)
{
    double ns = 0;
    if (graph->node[id].timed) return (double)graph->node[id].ns;
    for (uint32_t c = shown(graph, graph->node[id].first); c != BN_NODE_NONE;
         c = shown(graph, graph->node[c].next))
        ns += time_of(graph, c);
    return ns;
}

static void add_node(struct bn_top *top, uint32_t id, uint32_t place, const struct bn_top_row *parent)
{
    const struct bn_graph *graph = &top->pass.graph;
    const struct bn_graph_node *node = &graph->node[id];
    bool is_pass = parent == NULL;
    char room[32];
    if (top->rows.n == BN_TOP_ROWS) return;
    struct bn_top_row *row = &top->rows.list[top->rows.n++];
    const char *name = is_pass ? "Pass" : bn_node_label(node, room);
    double ns = time_of(graph, id), pass_ns = (double)graph->node[graph->first_root].ns;
    *row = new_row(name, is_pass ? 1 : key_of(parent->key, name, place), is_pass ? 0 : parent->depth + 1, 0);
    row->category = category_of(node->name, is_pass ? BN_CATEGORY_OTHER : parent->category);
    row->share = ratio(ns, pass_ns);
    row->ns = ns;
    row->count = is_pass ? (double)node->elements : 1;
    if (node->bytes > 0) row->bytes_per_s = ratio((double)node->bytes * 1e9, ns);
    if (node->ops > 0) row->ops_per_s = ratio((double)node->ops * 1e9, ns);
    add_leaves(row, &top->pass, id);
    uint32_t child = shown(graph, node->first), n = 0;
    row->has_children = child != BN_NODE_NONE;
    row->is_folded = is_toggled(&top->view, row->key) != (node->kind == BN_NODE_LAYER);
    for (; child != BN_NODE_NONE && !row->is_folded; child = shown(graph, graph->node[child].next))
        add_node(top, child, n++, row);
}

void bn_top_remake(struct bn_top *top)
{
    top->shown = top->window;
    if (top->view.since_start) bn_top_window(&top->shown, top->now, NULL);
    top->rows.n = 0;
    if (!top->view.of_pass)
        make_bricks(top);
    else if (top->pass.known && top->pass.graph.first_root != BN_NODE_NONE)
        add_node(top, top->pass.graph.first_root, 0, NULL);
}
