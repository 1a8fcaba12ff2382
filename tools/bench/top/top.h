/* SPDX-License-Identifier: MIT
 *
 * bn-bench top: what its parts share. A *window* is what happened between two snapshots of a live profile, or
 * since the profile was opened. Rows are made from a window or from one pass; lines of text are made from the
 * rows and what is above and below them, which a terminal, a pipe and a test all get.
 */
#ifndef BN_BENCH_TOP_H
#define BN_BENCH_TOP_H

#include <math.h>

#include "base/json.h"
#include "lab/profile/graph.h"
#include "lab/profile/live.h"
#include "tools/bench/bench.h"

struct bn_top_window {
    double seconds;
    struct bn_live_sums sums; /* differences */
};

/* The execution graph of a snapshot's pass. */
struct bn_top_pass {
    bool known; /* else why says why not */
    bn_error why;
    struct bn_graph graph;
    struct bn_schedule schedule;
};

/* Mean times of the bricks of a profile document, to compare with. */
struct bn_top_budget {
    bool given;
    double ns[BN_BRICK_MAX]; /* of one event; 0: not in the document */
};

enum bn_top_sort { BN_TOP_BY_TIME, BN_TOP_BY_ORDER, BN_TOP_BY_PATH, BN_TOP_BY_SLACK, BN_TOP_SORTS };

/* NaN: a number is not known. */
struct bn_top_row {
    char name[64];
    uint64_t key; /* the same row has the same key in the next refresh */
    unsigned depth, order;
    bool has_children, is_folded;
    enum bn_brick_category category;
    double share;                  /* of all bricks, or of the pass */
    double ns;                     /* of a pass, mean over the threads */
    double count;                  /* events */
    double bytes_per_s, ops_per_s; /* of all threads */
    double path, slack_ns;         /* share of the critical path; most slack of one task */
    double budget;                 /* measured / budget */
    double sort;                   /* greatest first */
};

#define BN_TOP_ROWS 4096u
#define BN_TOP_KEYS 256u

struct bn_top_rows {
    struct bn_top_row *list; /* BN_TOP_ROWS */
    size_t n;
};

/* What the user chose. */
struct bn_top_view {
    bool of_pass; /* the tree of the last pass in place of the bricks */
    bool since_start;
    bool is_paused;
    enum bn_top_sort sort;
    uint64_t toggled[BN_TOP_KEYS]; /* rows that are folded or unfolded, unlike at the start */
    size_t n_toggled;
};

enum bn_top_state { BN_TOP_RUNNING, BN_TOP_RECORDED, BN_TOP_IDLE, BN_TOP_ENDED };
extern const char *const bn_top_state_names[];

/* A profile document; document is NULL when there is none. prof holds what was measured up to a pass. */
struct bn_top_replay {
    bn_json *document;
    bn_prof *prof;
    size_t n_passes, *n_events; /* in the document; of each thread */
    size_t at;                  /* passes that have run, 0 to n_passes */
};

struct bn_top {
    const struct bn_args *args;
    const struct bn_bench_options *o;
    struct bn_live_reader *reader; /* the source of snapshots: a process, or else a document */
    struct bn_top_replay replay;
    struct bn_live_snapshot *now;       /* 0 threads: there is none yet */
    struct bn_top_window window, shown; /* the last one in which a pass ran; the one that the rows show */
    struct bn_top_pass pass;
    struct bn_top_budget budget;
    struct bn_top_view view;
    struct bn_top_rows rows;
    enum bn_top_state state;
    char trouble[sizeof((bn_error *)0)->msg]; /* why the last refresh failed; empty: it did not */
    size_t columns;                           /* of lines */
};

/* ---- one refresh (refresh.c) ---- */

BN_MUST_CHECK bn_status bn_top_open(struct bn_top *top, bn_error *err);
void bn_top_close(struct bn_top *top);
/* Reads a snapshot. A failure after the first one keeps what is shown. */
BN_MUST_CHECK bn_status bn_top_refresh(struct bn_top *top, bn_error *err);
/* Goes that many passes on (or back) in a recorded profile, as far as there are some. */
BN_MUST_CHECK bn_status bn_top_move(struct bn_top *top, long by, bn_error *err);
/* before NULL: since the profile was opened. */
void bn_top_window(struct bn_top_window *out, const struct bn_live_snapshot *now,
                   const struct bn_live_snapshot *before);

/* ---- rows (rows.c) ---- */

/* Makes the rows, also again after the view changed. */
void bn_top_remake(struct bn_top *top);
/* Folds an unfolded row, and unfolds a folded one. */
void bn_top_toggle(struct bn_top_view *view, uint64_t key);

/* ---- lines (frame.c) ---- */

enum bn_top_style { BN_TOP_PLAIN, BN_TOP_HEAD, BN_TOP_TITLE, BN_TOP_WARNING };

struct bn_top_line {
    char text[512];
    enum bn_top_style style;
    bool has_row;
    enum bn_brick_category category; /* of the row */
};

#define BN_TOP_HEAD_LINES 5u
#define BN_TOP_KEYS_LINE SIZE_MAX /* the keys, below all rows */
/* The i-th line: the head, then the rows. */
void bn_top_put_line(struct bn_top_line *out, const struct bn_top *top, size_t i);

/* ---- outputs ---- */

/* screen.c, the only file that includes ncurses.h: shows frames until the user quits. *shown is false, and
 * nothing was done, when the terminal cannot do that. */
BN_MUST_CHECK bn_status bn_top_screen(struct bn_top *top, bool *shown, bn_error *err);

#endif
