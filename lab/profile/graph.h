/* SPDX-License-Identifier: MIT
 *
 * The execution graph: what ran, in what, after what. docs/explain/profiling.md describes it.
 *
 * Nodes form a tree (a layer contains bricks, a brick launches kernels, a kernel is the tasks that its
 * threads did); edges say which of two nodes had to end before the other could begin. Durations are where
 * they were measured; nothing is distributed over nodes that were not timed.
 *
 * The first mistake in building is kept and reported by bn_graph_finish; call it before reading the graph.
 */
#ifndef BN_PROFILE_GRAPH_H
#define BN_PROFILE_GRAPH_H

#include "lab/profile/code.h"
#include "stamp/profiler.h"

#define BN_GRAPH_MAX_NODES 100000u
#define BN_GRAPH_MAX_DEPTH 32u
#define BN_NODE_NONE UINT32_MAX

enum bn_node_kind {
    BN_NODE_PASS,    /* index: a batch of tokens through the network; elements: the tokens */
    BN_NODE_LAYER,   /* index */
    BN_NODE_BRICK,   /* name, ns, elements */
    BN_NODE_KERNEL,  /* name, code, grid, block, shared memory */
    BN_NODE_TASK,    /* one thread's part of a kernel, or of a brick that has none */
    BN_NODE_MEETING, /* where threads wait for one another; takes no time itself */
    BN_NODE_WAIT,    /* the time of one thread there: not work, so not on a path */
    BN_NODE_KIND_COUNT
};

enum bn_edge_kind {
    BN_EDGE_CONTAINS, /* these two are in the tree: from a node to its children, by the parent's kind */
    BN_EDGE_LAUNCHES,
    BN_EDGE_SEQUENCE, /* and these mean that `from` ended before `to` began: on one thread */
    BN_EDGE_FORK,     /* from what let several threads go on */
    BN_EDGE_JOIN,     /* to where several threads met */
    BN_EDGE_KIND_COUNT
};

const char *bn_node_kind_name(enum bn_node_kind kind); /* "layer" */

struct bn_graph_node {
    enum bn_node_kind kind;
    const char *name; /* borrowed, as code is; NULL for nodes with a number */
    const char *code; /* SHA-256 of the kernel's machine code in hex, NULL when unknown */
    uint32_t index;   /* of a pass or layer */
    int32_t thread;   /* -1: of no one thread */
    bool timed;       /* begin_ns and ns were measured */
    uint64_t begin_ns, ns;
    uint64_t elements, bytes, ops;
    /* How a kernel was divided. On a CPU: grid is (threads that took part, 1, 1), block is the largest share
     * of one call: (rows, tokens or heads, columns). On a device they are its groups and the items of one, of the last
     * launch and at most. */
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; /* 0 on a CPU, whose threads share all memory */

    /* Set by the graph. */
    uint32_t parent, first, last, next; /* BN_NODE_NONE where there is none */
    uint32_t depth;                     /* 0: a root */
};

struct bn_edge {
    enum bn_edge_kind kind;
    uint32_t from, to;
};

struct bn_graph {
    struct bn_graph_node *node;
    uint32_t n_nodes;
    struct bn_edge *edge; /* of order; by `to`, which is after `from` */
    uint32_t n_edges;
    uint32_t first_root, last_root;
    /* Below: for graph.c. */
    size_t room, edge_room;
    bn_error error;
};

/* Allocates nothing yet. */
void bn_graph_open(struct bn_graph *graph);
void bn_graph_close(struct bn_graph *graph);
/* Adds a node under a parent that is there already, or as a root (BN_NODE_NONE); BN_NODE_NONE after a mistake. */
uint32_t bn_graph_add_under(struct bn_graph *graph, uint32_t parent, const struct bn_graph_node *node);
/* An edge of order. It goes to a later node, and not to one before the end of the last edge. */
void bn_graph_link(struct bn_graph *graph, enum bn_edge_kind kind, uint32_t from, uint32_t to);
/* BN_ERR_ARG when a parent does not exist or an edge makes no sense, BN_ERR_LIMIT for more than BN_GRAPH_MAX_NODES,
 * BN_ERR_NOMEM when memory was short. */
BN_MUST_CHECK bn_status bn_graph_finish(struct bn_graph *graph, bn_error *err);

/* ---- from a profile ----
 *
 * Threads meet at barriers, at each of which every thread waits; a *stage* is the work between two barriers.
 * Events of one brick in one stage are one node, whatever threads they ran on; its time is that of the thread
 * that was longest in it. Tasks are the innermost events: kernels, and bricks without any. They follow one
 * another on a thread (Sequence), and all tasks of a stage end before any of the next begins (Join to a
 * meeting, Fork from it). A pass begins when its threads are started (Fork). */

/* Adds passes first ... first + n - 1 of a profile whose level is brick or kernel. It and codes (which may be
 * NULL: then kernels have no digests) outlive the graph. BN_ERR_ARG when the profile has no such passes or was taken
 * at another level, BN_ERR_MISMATCH when events were dropped or threads did not meet the same number of times; and the
 * errors of bn_graph_finish. */
BN_MUST_CHECK bn_status bn_graph_add_profile(struct bn_graph *graph, const bn_prof *prof,
                                             const struct bn_codes *codes, size_t first, size_t n,
                                             bn_error *err);

/* ---- showing it (graph_show.c) ---- */

/* The label of a node: its name, "Pass 0", "Layer 3". */
const char *bn_node_label(const struct bn_graph_node *node, char room[32]);

struct bn_tree_style {
    bool wide;        /* also times and bytes of kernels, and what each thread did */
    bool ascii;       /* no other characters */
    bool no_times;    /* nothing that differs from run to run */
    uint64_t wall_ns; /* each timed node's share of it is shown; 0: none */
};

/* The tree, one line a node, without a line feed at the end:
 *
 *     Layer 0
 *     ├── RmsNorm  50.0µs (4096 elem)
 *     │   └── rmsnorm_kernel  <<<16,256,1>>> smem=1024B
 *
 * where the triple is grid.x, block.x, block.y; kernels without shared memory, those of a CPU, have none. */
void bn_graph_tree(struct bn_buf *out, const struct bn_graph *graph, const struct bn_tree_style *style);
/* Graphviz. */
void bn_graph_dot(struct bn_buf *out, const struct bn_graph *graph);
/* Puts "nodes" and "edges" into an object. */
void bn_graph_put(bn_json *object, const struct bn_graph *graph);
/* Trace events for chrome://tracing and Perfetto: a complete event for each timed leaf that belongs to a
 * thread, in microseconds. */
bn_json *bn_graph_chrome(const struct bn_graph *graph);

/* ---- the critical path (schedule.c): the longest chain of work in a graph of which each piece had to wait for the one
 * before. No number of threads makes the same pieces end sooner.
 *
 * It runs over the *leaves*: timed nodes without timed nodes inside, without waiting, which is not work; and
 * over edges of order only, since a container lasts as long as what is in it. Durations are measured;
 * everything here is computed from them. ---- */

struct bn_slot {
    bool leaf, on_path;
    uint64_t ns, start; /* the earliest: all that it waits for takes its time and no more */
    uint64_t slack;     /* what it could take longer without making the whole longer */
};

/* The sums of the leaves in bricks of one name; leaves in no brick have their own name. */
struct bn_schedule_row {
    const char *name;                    /* borrowed from the graph */
    uint64_t path_ns, work_ns, slack_ns; /* slack: the most that one has */
};

struct bn_schedule {
    struct bn_slot *slot; /* one for each node of the graph */
    uint32_t *path;       /* a critical path, first to last */
    uint32_t n_leaves, n_path;
    uint64_t path_ns, work_ns;    /* its length; the sum over all leaves */
    struct bn_schedule_row *rows; /* longest on the path first */
    size_t n_rows;
    uint64_t span_ns, wait_ns; /* from the first begin to the last end; of all threads */
};

/* A change that is only thought of: leaves that are, or are in, nodes of this name take 1 / factor of their
 * time. */
struct bn_what_if {
    const char *name;
    double factor; /* > 0 */
};

/* what_if may be NULL. BN_ERR_ARG when no leaf has the name that is asked for. The graph is finished. */
BN_MUST_CHECK bn_status bn_schedule_open(struct bn_schedule *out, const struct bn_graph *graph,
                                         const struct bn_what_if *what_if, bn_error *err);
void bn_schedule_close(struct bn_schedule *schedule);

/* Work over path: how many threads this work could keep busy; 0 without work. */
double bn_schedule_parallelism(const struct bn_schedule *schedule);
/* NULL when no leaf has this name. */
const struct bn_schedule_row *bn_schedule_find(const struct bn_schedule *schedule, const char *name);

/* Appends a table for people: length, work, waiting, and what each brick has on the path. */
void bn_schedule_report(struct bn_buf *out, const struct bn_schedule *schedule);
/* Puts length, work and the rows: what a report and a live document have alike. */
void bn_schedule_put_rows(bn_json *object, const struct bn_schedule *schedule);
/* Puts the same, the path as numbers of nodes, and the slack of every leaf. */
void bn_schedule_put(bn_json *object, const struct bn_schedule *schedule, const struct bn_graph *graph);

#endif
