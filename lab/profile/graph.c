/* SPDX-License-Identifier: MIT
 *
 * Builds an execution graph, node by node or from a profile.
 */
#include "lab/profile/graph.h"

#include "base/error.h"
#include "lab/kit/order.h"

void bn_graph_open(struct bn_graph *graph)
{
    *graph = (struct bn_graph){.first_root = BN_NODE_NONE, .last_root = BN_NODE_NONE};
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
    if (id == BN_GRAPH_MAX_NODES)
        bn_hint(bn_fail(&graph->error, BN_ERR_LIMIT, "more than %u nodes are in the graph", id),
                &graph->error, "use --pass N for one pass, or --level brick");
    if (graph->error.code != BN_OK) return BN_NODE_NONE;
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
    if (graph->error.code != BN_OK) return;
    if (kind < BN_EDGE_SEQUENCE || from >= to || to >= graph->n_nodes || to < least) {
        bn_fail(&graph->error, BN_ERR_ARG, "an edge from node %u to node %u makes no sense", from, to);
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

/* ---- from a profile ---- */

#define MAX_GROUPS 128u /* bricks and kernels in one stage */
#define NO_EVENT UINT32_MAX

/* A brick, or a kernel in it, of the stage that is being read. */
struct group {
    uint32_t parent, node;
    uint8_t brick, kernel;
    bool seen; /* by the thread that is being read */
    uint64_t ns;
};

struct thread {
    const struct bn_prof_event *events;
    size_t n;
    size_t at, end;   /* those of the pass */
    uint32_t *inside; /* for each event of the pass, counted from `first`, the brick around it */
    bool *innermost;  /* has it no other inside? */
    size_t first;
    uint32_t last;  /* node that ended last on it */
    bool is_shared; /* that is a meeting, or the start of the pass */
};

struct builder {
    struct bn_graph *graph;
    const bn_prof *prof;
    const struct bn_codes *codes;
    struct thread *threads;
    uint32_t pass_node, layer_node;
    int layer; /* that layer_node is of */
    struct group groups[MAX_GROUPS];
    unsigned n_groups;
};

/* ---- which events are in which ---- */

/* Events are in the order of their ends, so a brick comes right after what is in it: read backwards, the
 * last brick of each depth is the one around what is one deeper. */
static void nest(struct thread *t)
{
    uint32_t open[BN_PROF_DEPTH + 1u];
    for (unsigned d = 0; d <= BN_PROF_DEPTH; d++)
        open[d] = NO_EVENT;
    t->first = t->at;
    for (size_t i = t->end; i-- > t->at;) {
        const struct bn_prof_event *e = &t->events[i];
        uint32_t around = e->depth > 0 ? open[e->depth - 1u] : NO_EVENT;
        t->inside[i - t->first] = around;
        t->innermost[i - t->first] = true;
        if (around != NO_EVENT) t->innermost[around] = false;
        if (e->kernel == BN_PROF_NO_KERNEL && e->depth < BN_PROF_DEPTH)
            open[e->depth] = (uint32_t)(i - t->first);
    }
}

/* ---- nodes ---- */

static const char *name_of(const struct builder *b, const struct bn_prof_event *e)
{
    return e->kernel != BN_PROF_NO_KERNEL ? bn_prof_kernel_name(b->prof, e->kernel) : bn_brick_name(e->brick);
}

/* The node that bricks of this layer go under. */
static uint32_t layer_node(struct builder *b, int layer)
{
    if (layer < 0) return b->pass_node;
    if (layer == b->layer) return b->layer_node;
    b->layer = layer;
    b->layer_node = b->pass_node != BN_NODE_NONE ? b->graph->node[b->pass_node].first : BN_NODE_NONE;
    for (; b->layer_node != BN_NODE_NONE; b->layer_node = b->graph->node[b->layer_node].next) {
        const struct bn_graph_node *node = &b->graph->node[b->layer_node];
        if (node->kind == BN_NODE_LAYER && node->index == (uint32_t)layer) return b->layer_node;
    }
    struct bn_graph_node node = {.kind = BN_NODE_LAYER, .index = (uint32_t)layer, .thread = -1};
    return b->layer_node = bn_graph_add_under(b->graph, b->pass_node, &node);
}

/* NULL when there are too many. */
static struct group *find_group(struct builder *b, uint32_t parent, const struct bn_prof_event *e)
{
    for (unsigned i = 0; i < b->n_groups; i++) {
        struct group *g = &b->groups[i];
        if (g->parent == parent && g->brick == e->brick && g->kernel == e->kernel) return g;
    }
    if (b->n_groups == MAX_GROUPS) return NULL;
    struct bn_graph_node node = {
        .kind = BN_NODE_BRICK, .name = name_of(b, e), .thread = -1, .timed = true, .begin_ns = UINT64_MAX};
    if (e->kernel != BN_PROF_NO_KERNEL) {
        node.kind = BN_NODE_KERNEL;
        if (b->codes != NULL && b->codes->kernels != NULL &&
            strcmp(b->codes->kernels->name[e->kernel], node.name) == 0)
            node.code = b->codes->list[e->kernel].sha256;
        node.grid[1] = node.grid[2] = 1;
    }
    struct group *g = &b->groups[b->n_groups++];
    *g = (struct group){parent, bn_graph_add_under(b->graph, parent, &node), e->brick, e->kernel, false, 0};
    return g;
}

/* The group of an event, and those around it. */
static struct group *group_of(struct builder *b, const struct thread *t, uint32_t event)
{
    const struct bn_prof_event *e = &t->events[t->first + event];
    if (t->inside[event] == NO_EVENT) return find_group(b, layer_node(b, e->layer), e);
    const struct group *outer = group_of(b, t, t->inside[event]);
    return outer != NULL ? find_group(b, outer->node, e) : NULL;
}

static uint64_t ops_of(const struct bn_prof_event *e)
{
    return (uint64_t)e->shape.rows * e->shape.cols * e->shape.n;
}

static uint64_t length_of(const struct builder *b, const struct bn_prof_event *e)
{
    uint64_t begin = bn_prof_ns(b->prof, e->begin), end = bn_prof_ns(b->prof, e->end);
    return end > begin ? end - begin : 0;
}

/* NULL: the CPU ran it. */
static const struct bn_prof_launch *launch_of(const bn_prof *prof, const struct bn_prof_event *e)
{
    size_t n = prof->n_launches, at;
    if (n == 0 || e < prof->trails[0].events || e >= prof->trails[0].events + prof->trails[0].n) return NULL;
    size_t event = (size_t)(e - prof->trails[0].events);
    BN_SEARCH(at, n, prof->launches[at].event < event);
    return at < n && prof->launches[at].event == event ? &prof->launches[at] : NULL;
}

/* Adds an event to the node of its group. */
static void count(struct builder *b, struct group *g, const struct bn_prof_event *e)
{
    uint64_t begin = bn_prof_ns(b->prof, e->begin);
    g->ns += length_of(b, e);
    if (g->node == BN_NODE_NONE) return;
    struct bn_graph_node *node = &b->graph->node[g->node];
    if (begin < node->begin_ns) node->begin_ns = begin;
    node->elements += e->elements;
    node->bytes += e->bytes;
    node->ops += ops_of(e);
    if (node->kind != BN_NODE_KERNEL) return;
    const struct bn_prof_launch *launch = launch_of(b->prof, e);
    if (!g->seen) node->grid[0]++;
    g->seen = true;
    uint32_t block[3] = {e->shape.rows, e->shape.n, e->shape.cols};
    for (size_t i = 0; i < 2 && launch != NULL; i++) { /* groups, and work-items of one */
        block[i] = launch->local[i];
        node->grid[i] = launch->local[i] > 0 ? launch->global[i] / launch->local[i] : 0;
        block[2] = 1;
    }
    for (size_t i = 0; i < 3; i++)
        if (block[i] > node->block[i]) node->block[i] = block[i];
    for (uint32_t up = node->parent; up != BN_NODE_NONE && b->graph->node[up].kind == BN_NODE_BRICK;
         up = b->graph->node[up].parent)
        b->graph->node[up].ops += ops_of(e);
}

/* Nodes take the time of the thread that was longest in them. */
static void end_of_thread(struct builder *b)
{
    for (unsigned i = 0; i < b->n_groups; i++) {
        struct group *g = &b->groups[i];
        if (g->node != BN_NODE_NONE && g->ns > b->graph->node[g->node].ns) b->graph->node[g->node].ns = g->ns;
        g->ns = 0;
        g->seen = false;
    }
}

/* ---- order ---- */

/* `node` comes after what ended last on a thread. */
static void follow(struct builder *b, struct thread *t, uint32_t node, bool is_shared)
{
    enum bn_edge_kind kind = is_shared == t->is_shared ? BN_EDGE_SEQUENCE
                             : is_shared               ? BN_EDGE_JOIN
                                                       : BN_EDGE_FORK;
    bool linked = t->last == node || t->last == BN_NODE_NONE;
    for (struct thread *u = b->threads; is_shared && t->is_shared && u < t; u++)
        linked = linked || u->last == node; /* by the thread that came from the same place */
    if (!linked) bn_graph_link(b->graph, kind, t->last, node);
    t->last = node;
    t->is_shared = is_shared;
}

static uint32_t add_leaf(struct builder *b, const struct thread *t, const struct bn_prof_event *e,
                         uint32_t parent, enum bn_node_kind kind)
{
    struct bn_graph_node node = {
        .kind = kind,
        .name = name_of(b, e),
        .thread = (int32_t)(t - b->threads),
        .timed = true,
        .begin_ns = bn_prof_ns(b->prof, e->begin),
        .ns = length_of(b, e),
        .elements = e->elements,
        .bytes = e->bytes,
        .ops = ops_of(e),
    };
    return bn_graph_add_under(b->graph, parent, &node);
}

/* One event that is not a barrier; *task is its task, if it has one. */
static bn_status read_event(struct builder *b, struct thread *t, size_t i, uint32_t *task, bn_error *err)
{
    const struct bn_prof_event *e = &t->events[i];
    struct group *g = group_of(b, t, (uint32_t)(i - t->first));
    *task = BN_NODE_NONE;
    if (g == NULL)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u bricks and kernels between two barriers", MAX_GROUPS);
    count(b, g, e);
    if (t->innermost[i - t->first]) *task = add_leaf(b, t, e, g->node, BN_NODE_TASK);
    return BN_OK;
}

static bool is_barrier(const struct bn_prof_event *e)
{
    return e->brick == BN_BRICK_BARRIER_WAIT && e->kernel == BN_PROF_NO_KERNEL;
}

/* A thread's events up to the next barrier, or to the end of the pass. */
static bn_status read_stage(struct builder *b, struct thread *t, bn_error *err)
{
    uint32_t task;
    int layer = -1;
    for (; t->at < t->end && !is_barrier(&t->events[t->at]); t->at++) {
        if (b->prof->n_launches > 0 && t->events[t->at].layer != layer) { /* a device needs no barriers */
            end_of_thread(b);
            b->n_groups = 0;
            layer = t->events[t->at].layer;
        }
        BN_TRY(read_event(b, t, t->at, &task, err));
        if (task != BN_NODE_NONE) follow(b, t, task, false);
    }
    end_of_thread(b);
    return BN_OK;
}

/* The barrier that all threads have come to. */
static bn_status read_meeting(struct builder *b, bn_error *err)
{
    struct bn_graph_node meeting = {.kind = BN_NODE_MEETING, .timed = true, .thread = -1};
    const struct bn_prof_event *any = NULL;
    for (unsigned i = 0; i < b->prof->n_threads; i++) {
        struct thread *t = &b->threads[i];
        if (t->at == t->end) continue;
        any = &t->events[t->at];
        if (any->depth > 0) return bn_fail(err, BN_ERR_MISMATCH, "threads meet inside a brick");
        uint64_t begin = bn_prof_ns(b->prof, any->begin);
        if (begin > meeting.begin_ns) meeting.begin_ns = begin;
    }
    if (any == NULL) return BN_OK;
    uint32_t node = bn_graph_add_under(b->graph, layer_node(b, any->layer), &meeting);
    for (unsigned i = 0; i < b->prof->n_threads; i++) {
        struct thread *t = &b->threads[i];
        if (t->at == t->end) continue;
        add_leaf(b, t, &t->events[t->at++], node, BN_NODE_WAIT);
        follow(b, t, node, true);
    }
    return BN_OK;
}

/* ---- a pass ---- */

static void find_events(struct builder *b, uint32_t pass)
{
    for (unsigned i = 0; i < b->prof->n_threads; i++) {
        struct thread *t = &b->threads[i];
        for (t->at = t->end;
             t->at < t->n && t->events[t->at].pass + 1u < pass + 1u;) /* the first are of -1 */
            t->at++;
        for (t->end = t->at; t->end < t->n && t->events[t->end].pass == pass;)
            t->end++;
        nest(t);
    }
}

/* Starting the threads, where that was stamped, is the first that the first thread does; else there is a
 * meeting without waiting. All threads follow it. */
static bn_status read_start(struct builder *b, uint64_t begin_ns, bn_error *err)
{
    struct thread *first = &b->threads[0];
    struct bn_graph_node meeting = {
        .kind = BN_NODE_MEETING, .timed = true, .begin_ns = begin_ns, .thread = -1};
    uint32_t start = BN_NODE_NONE;
    if (first->at < first->end && first->events[first->at].brick == BN_BRICK_TEAM)
        BN_TRY(read_event(b, first, first->at++, &start, err));
    else
        start = bn_graph_add_under(b->graph, b->pass_node, &meeting);
    end_of_thread(b);
    follow(b, first, start, false);
    first->is_shared = true;
    for (unsigned i = 1; i < b->prof->n_threads; i++)
        follow(b, &b->threads[i], start, true);
    return BN_OK;
}

/* Whether all threads with events in this pass wait now, or none. */
static bn_status check_meeting(const struct builder *b, size_t pass, bool *all_wait, bn_error *err)
{
    unsigned n_waiting = 0, n_taking_part = 0;
    for (unsigned i = 0; i < b->prof->n_threads; i++) {
        const struct thread *t = &b->threads[i];
        n_taking_part += t->first < t->end;
        n_waiting += t->at < t->end;
    }
    *all_wait = n_waiting > 0;
    if (n_waiting == 0 || n_waiting == n_taking_part) return BN_OK;
    return bn_fail(err, BN_ERR_MISMATCH, "pass %zu: %u of %u threads came to a barrier", pass, n_waiting,
                   n_taking_part);
}

static bn_status add_pass(struct builder *b, size_t index, bn_error *err)
{
    const struct bn_prof_pass *pass = &b->prof->passes[index];
    uint64_t begin = bn_prof_ns(b->prof, pass->begin), end = bn_prof_ns(b->prof, pass->end);
    struct bn_graph_node node = {.kind = BN_NODE_PASS,
                                 .index = (uint32_t)index,
                                 .thread = -1,
                                 .timed = end > begin, /* else it did not end */
                                 .begin_ns = begin,
                                 .ns = end > begin ? end - begin : 0,
                                 .elements = pass->n_tokens};
    b->pass_node = bn_graph_add_under(b->graph, BN_NODE_NONE, &node);
    b->layer = -1;
    b->n_groups = 0;
    find_events(b, (uint32_t)index);
    BN_TRY(read_start(b, node.begin_ns, err));
    for (bool more = true; more && b->graph->error.code == BN_OK;) {
        b->n_groups = 0;
        for (unsigned i = 0; i < b->prof->n_threads; i++)
            BN_TRY(read_stage(b, &b->threads[i], err));
        BN_TRY(check_meeting(b, index, &more, err));
        BN_TRY(read_meeting(b, err));
    }
    return BN_OK;
}

static bn_status add_passes(struct builder *b, size_t first, size_t n, bn_error *err)
{
    BN_TRY(BN_NEW(b->threads, b->prof->n_threads, err));
    for (unsigned i = 0; i < b->prof->n_threads; i++) {
        struct thread *t = &b->threads[i];
        t->events = bn_prof_events(b->prof, i, &t->n);
        t->last = BN_NODE_NONE;
        BN_TRY(BN_NEW(t->inside, t->n, err));
        BN_TRY(BN_NEW(t->innermost, t->n, err));
    }
    for (size_t i = first; i < first + n && b->graph->error.code == BN_OK; i++)
        BN_TRY(add_pass(b, i, err));
    return BN_OK;
}

bn_status bn_graph_add_profile(struct bn_graph *graph, const bn_prof *prof, const struct bn_codes *codes,
                               size_t first, size_t n, bn_error *err)
{
    if (prof->level < BN_PROF_BRICK)
        return bn_fail(err, BN_ERR_ARG,
                       "an execution graph needs a profile at the level of bricks or kernels");
    if (n == 0 || first >= prof->n_passes || n > prof->n_passes - first)
        return bn_fail(err, BN_ERR_ARG, "the profile has %zu passes, not %zu from %zu on", prof->n_passes, n,
                       first);
    if (bn_prof_dropped(prof) > 0)
        return bn_fail(err, BN_ERR_MISMATCH, "the profile dropped %llu events",
                       (unsigned long long)bn_prof_dropped(prof));
    struct builder b = {.graph = graph, .prof = prof, .codes = codes};
    bn_status status = add_passes(&b, first, n, err);
    for (unsigned i = 0; b.threads != NULL && i < prof->n_threads; i++) {
        bn_free(b.threads[i].inside);
        bn_free(b.threads[i].innermost);
    }
    bn_free(b.threads);
    return status == BN_OK ? bn_graph_finish(graph, err) : status;
}
