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

enum { KERNELS = BN_CATEGORY_COUNT }; /* the group after the categories */
#define KEY_GROUP 1000u
#define KEY_KERNEL 10000u
_Static_assert(BN_KERNEL_COUNT <= BN_BRICK_MAX, "either fit into a group");

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

/* What a brick or a kernel did, if it is in this group. */
static struct bn_brick_stats stats_of(const struct bn_live_sums *w, unsigned group, unsigned i)
{
    const struct bn_prof_kernel_stats *k = &w->kernels[i % BN_KERNEL_COUNT];
    if (group == KERNELS)
        return (struct bn_brick_stats){.count = k->count,
                                       .inclusive_ns = k->ns,
                                       .exclusive_ns = k->ns,
                                       .bytes = k->bytes,
                                       .ops = k->ops};
    return bn_brick_category(i) == group ? w->bricks[i] : (struct bn_brick_stats){0};
}

static void fill(struct bn_top_row *row, const struct bn_live_sums *w, const struct bn_brick_stats *b,
                 double all_ns)
{
    row->share = ratio((double)b->exclusive_ns, all_ns);
    row->ns = ratio((double)b->exclusive_ns,
                    (double)w->n_parts); /* mean over the threads that took part in a pass */
    row->count = (double)b->count;
    row->bytes_per_s = rate(w, b->bytes, b->inclusive_ns);
    row->ops_per_s = rate(w, b->ops, b->inclusive_ns);
}

static void compare_brick(struct bn_top_row *row, const struct bn_top *top, const struct bn_brick_stats *b)
{
    const struct bn_schedule_row *on_path =
        top->pass.known ? bn_schedule_find(&top->pass.schedule, row->name) : NULL;
    row->category = bn_brick_category(row->order);
    if (top->budget.given)
        row->budget = ratio((double)b->inclusive_ns / row->count, top->budget.ns[row->order]);
    if (on_path == NULL) return;
    row->path = ratio((double)on_path->path_ns, (double)top->pass.schedule.path_ns);
    row->slack_ns = (double)on_path->slack_ns;
}

/* The row of a category, or of the kernels, and those in it. Returns how many ran. */
static size_t make_group(struct bn_top_row *sum, struct bn_top_row *rows, const struct bn_top *top,
                         unsigned group, double all_ns)
{
    const struct bn_live_sums *w = &top->shown.sums;
    bool kernels = group == KERNELS;
    struct bn_brick_stats total = {0}; /* inclusive: of rows that have a rate */
    size_t n = 0;
    *sum = new_row(kernels ? "Kernels" : bn_brick_category_name((enum bn_brick_category)group),
                   KEY_GROUP * (group + 1), 0, group);
    for (unsigned i = 0; i < (kernels ? BN_KERNEL_COUNT : BN_BRICK_KNOWN); i++) {
        struct bn_brick_stats b = stats_of(w, group, i);
        if (b.count == 0) continue;
        struct bn_top_row *row = &rows[n++];
        *row = new_row(kernels ? top->now->kernel_names[i] : bn_brick_name(i), kernels ? KEY_KERNEL + i : i,
                       1, i);
        fill(row, w, &b, all_ns);
        if (!kernels) compare_brick(row, top, &b);
        if (!isnan(row->path)) sum->path = isnan(sum->path) ? row->path : sum->path + row->path;
        sum->slack_ns = fmax(sum->slack_ns, row->slack_ns); /* NaN of both only */
        sum->category = row->category;
        total.count += b.count;
        total.exclusive_ns += b.exclusive_ns;
        total.bytes += b.bytes;
        total.ops += b.ops;
        if (b.bytes > 0 || b.ops > 0) total.inclusive_ns += b.exclusive_ns;
    }
    fill(sum, w, &total, all_ns);
    sum->has_children = true;
    sum->is_folded = is_toggled(&top->view, sum->key);
    sort_rows(rows, n, top->view.sort);
    return n;
}

/* Kernels come last: their time is part of that of the bricks. */
static void make_bricks(struct bn_top *top)
{
    struct bn_top_row sums[KERNELS + 1], rows[KERNELS + 1][BN_BRICK_MAX];
    size_t n[KERNELS + 1], n_sums = 0;
    double all_ns = 0;
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        all_ns += (double)top->shown.sums.bricks[i].exclusive_ns;
    for (unsigned group = 0; group <= KERNELS; group++) {
        n[group] = make_group(&sums[n_sums], rows[group], top, group, all_ns);
        if (group == KERNELS) sort_rows(sums, n_sums, top->view.sort);
        n_sums += n[group] > 0;
    }
    for (const struct bn_top_row *sum = sums; sum < sums + n_sums; sum++) {
        top->rows.list[top->rows.n++] = *sum;
        for (size_t i = 0; i < n[sum->order] && !sum->is_folded; i++)
            top->rows.list[top->rows.n++] = rows[sum->order][i];
    }
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
