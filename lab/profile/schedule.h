/* SPDX-License-Identifier: MIT
 *
 * The critical path: the longest chain of work in an execution graph of which each piece had to wait for the
 * one before. No number of threads makes the same pieces end sooner.
 *
 * It runs over the *leaves*: timed nodes without timed nodes inside, without waiting, which is not work; and
 * over edges of order only, since a container lasts as long as what is in it. Durations are measured;
 * everything here is computed from them.
 */
#ifndef BN_PROFILE_SCHEDULE_H
#define BN_PROFILE_SCHEDULE_H

#include "base/mem.h"
#include "lab/profile/graph.h"

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
