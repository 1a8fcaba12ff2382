/* SPDX-License-Identifier: MIT
 *
 * Computes the schedule of a graph, and shows it brick by brick. Edges are in the order of the nodes at their
 * ends (bn_graph_link), so one walk over them gives the earliest starts, and one back gives the latest.
 */
#include "lab/profile/graph.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/kit/put_counts.h"

void bn_schedule_close(struct bn_schedule *schedule)
{
    bn_free(schedule->slot);
    bn_free(schedule->path);
    bn_free(schedule->rows);
    *schedule = (struct bn_schedule){0};
}

/* Whether a node, or one around it, has this name. */
static bool is_in(const struct bn_graph *graph, uint32_t id, const char *name)
{
    for (; id != BN_NODE_NONE; id = graph->node[id].parent)
        if (graph->node[id].name != NULL && strcmp(graph->node[id].name, name) == 0) return true;
    return false;
}

/* Nodes come after those around them: walked back, what is inside is known before. */
static bn_status find_leaves(struct bn_schedule *s, const struct bn_graph *graph,
                             const struct bn_what_if *what_if, bn_error *err)
{
    bool found = what_if == NULL;
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        const struct bn_graph_node *node = &graph->node[i];
        struct bn_slot *slot = &s->slot[i];
        bool counts = node->timed && node->kind != BN_NODE_WAIT, has_inside = slot->leaf;
        if ((counts || has_inside) && node->parent != BN_NODE_NONE) s->slot[node->parent].leaf = true;
        slot->leaf = counts && !has_inside;
        if (!slot->leaf) continue;
        slot->ns = node->ns;
        if (what_if != NULL && is_in(graph, i, what_if->name)) {
            slot->ns = (uint64_t)llround((double)slot->ns / what_if->factor);
            found = true;
        }
        s->n_leaves++;
        s->work_ns += slot->ns;
    }
    if (found) return BN_OK;
    return bn_fail_in(err, BN_ERR_ARG, what_if->name, "nothing in the graph has this name");
}

static uint64_t finish_of(const struct bn_slot *slot)
{
    return slot->start + slot->ns;
}

static void place(struct bn_schedule *s, const struct bn_graph *graph)
{
    struct bn_slot *slot = s->slot;
    for (const struct bn_edge *e = graph->edge; e != NULL && e < graph->edge + graph->n_edges; e++)
        if (finish_of(&slot[e->from]) > slot[e->to].start) slot[e->to].start = finish_of(&slot[e->from]);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (slot[i].leaf && finish_of(&slot[i]) > s->path_ns) s->path_ns = finish_of(&slot[i]);
    /* Meanwhile it is the latest end. */
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        slot[i].slack = s->path_ns;
    for (uint32_t i = graph->n_edges; i-- > 0;) {
        const struct bn_slot *to = &slot[graph->edge[i].to];
        struct bn_slot *from = &slot[graph->edge[i].from];
        if (to->slack - to->ns < from->slack) from->slack = to->slack - to->ns;
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        slot[i].slack -= finish_of(&slot[i]);
}

/* From the first leaf that ends last, back over those that it could not start before; of several the one with
 * the lowest number. */
static void trace_path(struct bn_schedule *s, const struct bn_graph *graph)
{
    uint32_t at = 0, n = graph->n_nodes, e = graph->n_edges;
    while (at < graph->n_nodes && !(s->slot[at].leaf && finish_of(&s->slot[at]) == s->path_ns))
        at++;
    if (at == graph->n_nodes) at = BN_NODE_NONE;
    while (at != BN_NODE_NONE) {
        uint32_t before = BN_NODE_NONE;
        s->path[--n] = at;
        s->slot[at].on_path = true;
        while (e > 0 && graph->edge[e - 1].to > at)
            e--;
        for (; e > 0 && graph->edge[e - 1].to == at; e--) {
            uint32_t from = graph->edge[e - 1].from;
            if (from < before && finish_of(&s->slot[from]) == s->slot[at].start) before = from;
        }
        at = before;
    }
    s->n_path = graph->n_nodes - n;
    if (s->n_path > 0) memmove(s->path, s->path + n, s->n_path * sizeof *s->path);
}

/* ---- brick by brick ---- */

/* The innermost brick around a leaf, else the leaf. */
static const char *row_name(const struct bn_graph *graph, uint32_t id)
{
    for (uint32_t up = id; up != BN_NODE_NONE; up = graph->node[up].parent)
        if (graph->node[up].kind == BN_NODE_BRICK) return graph->node[up].name;
    const char *name = graph->node[id].name;
    return name != NULL ? name : bn_node_kind_name(graph->node[id].kind);
}

const struct bn_schedule_row *bn_schedule_find(const struct bn_schedule *s, const char *name)
{
    size_t i = bn_find_text(s->rows, s->n_rows, sizeof *s->rows, name);
    return i < s->n_rows ? &s->rows[i] : NULL;
}

/* Longest on the path first, then longest work, then by name. */
static int by_length(const void *a, const void *b)
{
    const struct bn_schedule_row *x = a, *y = b;
    if (x->path_ns != y->path_ns) return x->path_ns > y->path_ns ? -1 : 1;
    if (x->work_ns != y->work_ns) return x->work_ns > y->work_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void make_rows(struct bn_schedule *s, const struct bn_graph *graph)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct bn_graph_node *node = &graph->node[i];
        const struct bn_slot *slot = &s->slot[i];
        if (!node->timed) continue;
        if (node->begin_ns < first) first = node->begin_ns;
        if (node->begin_ns + node->ns > last) last = node->begin_ns + node->ns;
        if (node->kind == BN_NODE_WAIT) s->wait_ns += node->ns;
        if (!slot->leaf || node->kind == BN_NODE_MEETING) continue;
        const struct bn_schedule_row *known = bn_schedule_find(s, row_name(graph, i));
        struct bn_schedule_row *row = &s->rows[known != NULL ? (size_t)(known - s->rows) : s->n_rows++];
        row->name = row_name(graph, i);
        row->work_ns += slot->ns;
        if (slot->on_path) row->path_ns += slot->ns;
        if (slot->slack > row->slack_ns) row->slack_ns = slot->slack;
    }
    if (last > first) s->span_ns = last - first;
    qsort(s->rows, s->n_rows, sizeof *s->rows, by_length);
}

bn_status bn_schedule_open(struct bn_schedule *out, const struct bn_graph *graph,
                           const struct bn_what_if *what_if, bn_error *err)
{
    *out = (struct bn_schedule){0};
    if (what_if != NULL && !(what_if->factor > 0 && isfinite(what_if->factor)))
        return bn_fail(err, BN_ERR_ARG, "a speed-up is a finite factor above 0");
    out->slot = bn_alloc(graph->n_nodes, sizeof *out->slot);
    out->path = bn_alloc(graph->n_nodes, sizeof *out->path);
    out->rows = bn_alloc(graph->n_nodes, sizeof *out->rows);
    bn_status status = out->slot != NULL && out->path != NULL && out->rows != NULL
                           ? find_leaves(out, graph, what_if, err)
                           : bn_nomem(err);
    if (status == BN_OK) {
        place(out, graph);
        trace_path(out, graph);
        make_rows(out, graph);
    } else {
        bn_schedule_close(out);
    }
    return status;
}

double bn_schedule_parallelism(const struct bn_schedule *schedule)
{
    return schedule->path_ns > 0 ? (double)schedule->work_ns / (double)schedule->path_ns : 0.0;
}

/* ---- showing it ---- */

static double percent(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static double us(uint64_t ns)
{
    return (double)ns / 1e3;
}

void bn_schedule_report(struct bn_buf *out, const struct bn_schedule *s)
{
    bn_buf_printf(out, "critical path  %10.1f us", us(s->path_ns));
    if (s->span_ns > 0)
        bn_buf_printf(out, ", %.1f %% of the time that passed", percent(s->path_ns, s->span_ns));
    bn_buf_printf(out, "\nwork           %10.1f us, enough for %.2f threads\n", us(s->work_ns),
                  bn_schedule_parallelism(s));
    bn_buf_printf(out, "waiting        %10.1f us, over all threads\n", us(s->wait_ns));
    bn_buf_printf(out, "\n%-20s %12s %6s %12s %14s\n", "brick", "on path, us", "%", "work, us",
                  "most slack, us");
    for (const struct bn_schedule_row *r = s->rows; r < s->rows + s->n_rows; r++)
        bn_buf_printf(out, "%-20s %12.1f %6.1f %12.1f %14.1f\n", r->name, us(r->path_ns),
                      percent(r->path_ns, s->path_ns), us(r->work_ns), us(r->slack_ns));
}

void bn_schedule_put_rows(bn_json *object, const struct bn_schedule *s)
{
    BN_PUT(object, BN_U64("path_ns", s->path_ns), BN_U64("work_ns", s->work_ns),
           BN_NUMBER("parallelism", bn_schedule_parallelism(s)));
    bn_json *bricks = bn_json_put_array(object, "bricks");
    for (const struct bn_schedule_row *r = s->rows; r < s->rows + s->n_rows; r++) {
        bn_json *brick = bn_json_add_object(bricks);
        BN_PUT(brick, BN_STRING("name", r->name), BN_U64("path_ns", r->path_ns),
               BN_U64("work_ns", r->work_ns), BN_U64("most_slack_ns", r->slack_ns));
    }
}

void bn_schedule_put(bn_json *object, const struct bn_schedule *s, const struct bn_graph *graph)
{
    bn_json_put_texts(object, "from", (const char *const[]){"nodes", "edges"}, 2);
    bn_json_put_bool(object, "model", false); /* measured */
    bn_schedule_put_rows(object, s);
    BN_PUT(object, BN_U64("span_ns", s->span_ns), BN_U64("wait_ns", s->wait_ns));
    bn_json *path = bn_json_put_array(object, "path"), *leaves = bn_json_put_array(object, "leaves");
    for (uint32_t i = 0; i < s->n_path; i++)
        bn_json_add_u64(path, s->path[i]);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (!s->slot[i].leaf) continue;
        bn_json *leaf = bn_json_add_object(leaves);
        BN_PUT_COUNTS(leaf, {"node", i}, {"start_ns", s->slot[i].start}, {"slack_ns", s->slot[i].slack});
    }
}
