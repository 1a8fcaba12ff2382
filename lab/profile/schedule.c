/* SPDX-License-Identifier: MIT
 *
 * Computes the schedule of a graph in Kahn's order: a leaf is taken when everything that it waits for was
 * taken. What remains is on a cycle, or after one.
 */
#include "lab/profile/schedule.h"

#include <math.h>

#include "base/error.h"

/* Edges by their ends: those of node i are at list[first[i]] ... list[first[i + 1] - 1]. */
struct index {
    uint32_t *first, *list;
};

struct work {
    const struct bn_graph *graph;
    struct bn_schedule *out;
    struct index in, out_of;
    uint32_t *order, *waits_for;
};

void bn_schedule_close(struct bn_schedule *schedule)
{
    bn_free(schedule->slot);
    bn_free(schedule->path);
    *schedule = (struct bn_schedule){0};
}

/* Whether a node, or one around it, has this name. */
static bool is_in(const struct bn_graph *graph, uint32_t id, const char *name)
{
    for (; id != BN_NODE_NONE; id = graph->node[id].parent)
        if (graph->node[id].name != NULL && strcmp(graph->node[id].name, name) == 0) return true;
    return false;
}

static bool counts(const struct bn_graph_node *node)
{
    return node->timed && node->kind != BN_NODE_WAIT;
}

static bn_status find_leaves(struct work *w, const struct bn_what_if *what_if, bn_error *err)
{
    const struct bn_graph *graph = w->graph;
    struct bn_slot *slot = w->out->slot;
    bool found = what_if == NULL;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        slot[i].leaf = counts(&graph->node[i]);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t up = graph->node[i].parent; counts(&graph->node[i]) && up != BN_NODE_NONE;
             up = graph->node[up].parent)
            slot[up].leaf = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (!slot[i].leaf) continue;
        slot[i].ns = graph->node[i].ns;
        if (what_if != NULL && is_in(graph, i, what_if->name)) {
            slot[i].ns = (uint64_t)llround((double)slot[i].ns / what_if->factor);
            found = true;
        }
        w->out->n_leaves++;
        w->out->work_ns += slot[i].ns;
    }
    if (found) return BN_OK;
    return bn_fail_in(err, BN_ERR_ARG, what_if->name, "nothing in the graph has this name");
}

static bn_status check_edges(const struct work *w, bn_error *err)
{
    char room[32];
    for (uint32_t i = 0; i < w->graph->n_edges; i++) {
        const struct bn_edge *e = &w->graph->edge[i];
        uint32_t bad = !w->out->slot[e->from].leaf ? e->from : e->to;
        if (w->out->slot[bad].leaf) continue;
        return bn_fail_in(err, BN_ERR_ARG, bn_node_label(&w->graph->node[bad], room),
                          "an edge of order (%s, %u to %u) ends at a node that has no time of its own",
                          bn_edge_kind_name(e->kind), e->from, e->to);
    }
    return BN_OK;
}

/* Counts, then puts: in `by_target`, the edges that end at a node, else those that begin there. */
static void make_index(struct index *index, const struct bn_graph *graph, bool by_target)
{
    for (uint32_t i = 0; i < graph->n_edges; i++)
        index->first[(by_target ? graph->edge[i].to : graph->edge[i].from) + 1]++;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        index->first[i + 1] += index->first[i];
    for (uint32_t i = graph->n_edges; i-- > 0;) {
        uint32_t at = by_target ? graph->edge[i].to : graph->edge[i].from;
        index->list[--index->first[at + 1]] = by_target ? graph->edge[i].from : graph->edge[i].to;
    }
    /* first[i + 1] has become the begin of node i. */
    memmove(index->first, index->first + 1, graph->n_nodes * sizeof *index->first);
    index->first[graph->n_nodes] = graph->n_edges;
}

/* One that has to end before this leaf can begin, and waits itself for something: there is one for each leaf
 * that is left over. */
static uint32_t waiting_before(const struct work *w, uint32_t id)
{
    uint32_t i = w->in.first[id];
    while (w->waits_for[w->in.list[i]] == 0)
        i++;
    return w->in.list[i];
}

static bn_status name_circle(const struct work *w, bn_error *err)
{
    char room[32];
    struct bn_buf text = {.max = 160};
    uint32_t at = 0;
    while (w->waits_for[at] == 0)
        at++;
    for (uint32_t step = 0; step < w->graph->n_nodes; step++) /* then it is certainly on a cycle */
        at = waiting_before(w, at);
    uint32_t start = at;
    do {
        bn_buf_printf(&text, "%s (%u) after ", bn_node_label(&w->graph->node[at], room), at);
        at = waiting_before(w, at);
    } while (at != start);
    bn_fail(err, BN_ERR_ARG, "the order has a cycle: %s%s (%u)", bn_buf_text(&text),
            text.failed ? "... " : bn_node_label(&w->graph->node[at], room), at);
    bn_buf_release(&text);
    return BN_ERR_ARG;
}

static bn_status forward(struct work *w, bn_error *err)
{
    struct bn_slot *slot = w->out->slot;
    uint32_t n = 0, n_nodes = w->graph->n_nodes;
    for (uint32_t i = 0; i < n_nodes; i++) {
        w->waits_for[i] = w->in.first[i + 1] - w->in.first[i];
        if (slot[i].leaf && w->waits_for[i] == 0) w->order[n++] = i;
    }
    for (uint32_t done = 0; done < n; done++) {
        uint32_t i = w->order[done];
        slot[i].finish = slot[i].start + slot[i].ns;
        if (slot[i].finish > w->out->path_ns) w->out->path_ns = slot[i].finish;
        for (uint32_t e = w->out_of.first[i]; e < w->out_of.first[i + 1]; e++) {
            uint32_t next = w->out_of.list[e];
            if (slot[i].finish > slot[next].start) slot[next].start = slot[i].finish;
            if (--w->waits_for[next] == 0) w->order[n++] = next;
        }
    }
    return n == w->out->n_leaves ? BN_OK : name_circle(w, err);
}

static void backward(struct work *w)
{
    struct bn_slot *slot = w->out->slot;
    for (uint32_t done = w->out->n_leaves; done-- > 0;) {
        uint32_t i = w->order[done];
        uint64_t latest = w->out->path_ns, next_start = latest;
        for (uint32_t e = w->out_of.first[i]; e < w->out_of.first[i + 1]; e++) {
            const struct bn_slot *next = &slot[w->out_of.list[e]];
            if (next->latest_start < latest) latest = next->latest_start;
            if (next->start < next_start) next_start = next->start;
        }
        slot[i].latest_start = latest - slot[i].ns;
        slot[i].slack = slot[i].latest_start - slot[i].start;
        slot[i].free_slack = next_start - slot[i].finish;
    }
}

/* From the first leaf that ends last, back over those that it could not start before; of several the one with
 * the lowest number. */
static void trace_path(struct work *w)
{
    struct bn_slot *slot = w->out->slot;
    uint32_t at = BN_NODE_NONE, n = 0;
    for (uint32_t i = 0; i < w->graph->n_nodes && at == BN_NODE_NONE; i++)
        if (slot[i].leaf && slot[i].finish == w->out->path_ns) at = i;
    while (at != BN_NODE_NONE) {
        uint32_t before = BN_NODE_NONE;
        w->out->path[n++] = at;
        for (uint32_t e = w->in.first[at]; e < w->in.first[at + 1]; e++) {
            uint32_t i = w->in.list[e];
            if (i < before && slot[i].finish == slot[at].start) before = i;
        }
        at = before;
    }
    w->out->n_path = n;
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t swap = w->out->path[i];
        w->out->path[i] = w->out->path[n - 1 - i];
        w->out->path[n - 1 - i] = swap;
    }
}

static bn_status compute(struct work *w, const struct bn_what_if *what_if, bn_error *err)
{
    size_t n = w->graph->n_nodes, n_edges = w->graph->n_edges;
    w->out->slot = bn_alloc(n, sizeof *w->out->slot);
    w->out->path = bn_alloc(n, sizeof *w->out->path);
    w->in = (struct index){bn_alloc(n + 1, sizeof(uint32_t)), bn_alloc(n_edges, sizeof(uint32_t))};
    w->out_of = (struct index){bn_alloc(n + 1, sizeof(uint32_t)), bn_alloc(n_edges, sizeof(uint32_t))};
    w->order = bn_alloc(n, sizeof *w->order);
    w->waits_for = bn_alloc(n, sizeof *w->waits_for);
    if (w->out->slot == NULL || w->out->path == NULL || w->in.first == NULL || w->in.list == NULL ||
        w->out_of.first == NULL || w->out_of.list == NULL || w->order == NULL || w->waits_for == NULL)
        return bn_nomem(err);
    BN_TRY(find_leaves(w, what_if, err));
    BN_TRY(check_edges(w, err));
    make_index(&w->in, w->graph, true);
    make_index(&w->out_of, w->graph, false);
    BN_TRY(forward(w, err));
    backward(w);
    trace_path(w);
    return BN_OK;
}

bn_status bn_schedule_open(struct bn_schedule *out, const struct bn_graph *graph,
                           const struct bn_what_if *what_if, bn_error *err)
{
    *out = (struct bn_schedule){.n_slots = graph->n_nodes, .model = what_if != NULL};
    if (what_if != NULL && !(what_if->factor > 0 && isfinite(what_if->factor)))
        return bn_fail(err, BN_ERR_ARG, "a speed-up is a finite factor above 0");
    struct work w = {.graph = graph, .out = out};
    bn_status status = compute(&w, what_if, err);
    bn_free(w.in.first);
    bn_free(w.in.list);
    bn_free(w.out_of.first);
    bn_free(w.out_of.list);
    bn_free(w.order);
    bn_free(w.waits_for);
    if (status != BN_OK) bn_schedule_close(out);
    return status;
}

double bn_schedule_parallelism(const struct bn_schedule *schedule)
{
    return schedule->path_ns > 0 ? (double)schedule->work_ns / (double)schedule->path_ns : 0.0;
}
