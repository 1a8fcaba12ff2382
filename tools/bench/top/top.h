/* SPDX-License-Identifier: MIT
 *
 * bn-bench top: what its parts share. A *window* is what happened between two snapshots of a live profile, or
 * since the profile was opened. Rows are made from a window or from one pass; a frame is the rows and
 * what is above and below them as lines of text, which a terminal, a pipe and a test all get.
 */
#ifndef BN_BENCH_TOP_H
#define BN_BENCH_TOP_H

#include <math.h>

#include "lab/profile/graph_profile.h"
#include "lab/profile/live.h"
#include "lab/profile/schedule.h"
#include "tools/bench/bench.h"

/* ---- numbers (window.c) ---- */

struct bn_top_window {
    double seconds;
    struct bn_live_counts counts; /* differences */
    uint64_t bricks_ns, wait_ns;  /* of all threads */
    struct bn_brick_stats bricks[BN_BRICK_MAX];
    struct bn_prof_kernel_stats kernels[BN_KERNEL_COUNT];
};
/* before NULL: since the profile was opened. */
void bn_top_window(struct bn_top_window *out, const struct bn_live_snapshot *now,
                   const struct bn_live_snapshot *before);

/* The execution graph of a snapshot's pass. */
struct bn_top_pass {
    bool known; /* else why says why not */
    bn_error why;
    struct bn_graph graph;
    struct bn_schedule schedule;
    struct bn_schedule_table table;
    bool *on_path; /* of each node of the graph */
};
void bn_top_pass_open(struct bn_top_pass *out, const struct bn_live_snapshot *snapshot);
void bn_top_pass_close(struct bn_top_pass *pass);

/* Mean times of the bricks of a profile document, to compare with. */
struct bn_top_budget {
    bool given;
    double ns[BN_BRICK_MAX]; /* of one event; 0: not in the document */
};
BN_MUST_CHECK bn_status bn_top_budget_read(struct bn_top_budget *out, const char *path, bn_error *err);

/* ---- rows (rows.c, pass_rows.c) ---- */

enum bn_top_sort { BN_TOP_BY_TIME, BN_TOP_BY_ORDER, BN_TOP_BY_PATH, BN_TOP_BY_SLACK, BN_TOP_SORTS };
extern const char *const bn_top_sort_names[BN_TOP_SORTS];

#define BN_TOP_UNKNOWN ((double)NAN) /* a number that is not known */

struct bn_top_row {
    char name[64];
    uint64_t key; /* the same row has the same key in the next refresh */
    unsigned depth;
    bool has_children, is_folded;
    enum bn_brick_category category;
    double share;                  /* of all bricks, or of the pass */
    double ns;                     /* of a pass, mean over the threads */
    double count;                  /* events */
    double bytes_per_s, ops_per_s; /* of all threads */
    double path, slack_ns;         /* share of the critical path; most slack of one task */
    double budget;                 /* measured / budget */
    double sort[BN_TOP_SORTS];     /* greatest first */
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
    bool is_paused, shows_help;
    enum bn_top_sort sort;
    uint64_t toggled[BN_TOP_KEYS]; /* rows that are folded or unfolded, unlike at the start */
    size_t n_toggled;
};
/* Folds an unfolded row, and unfolds a folded one. */
void bn_top_toggle(struct bn_top_view *view, uint64_t key);
bool bn_top_is_toggled(const struct bn_top_view *view, uint64_t key);

void bn_top_brick_rows(struct bn_top_rows *out, const struct bn_live_snapshot *now,
                       const struct bn_top_window *window, const struct bn_top_pass *pass,
                       const struct bn_top_budget *budget, const struct bn_top_view *view);
void bn_top_pass_rows(struct bn_top_rows *out, const struct bn_live_snapshot *now,
                      const struct bn_top_pass *pass, const struct bn_top_view *view);

/* ---- one refresh (refresh.c) ---- */

enum bn_top_state { BN_TOP_RUNNING, BN_TOP_IDLE, BN_TOP_ENDED };
extern const char *const bn_top_state_names[];

struct bn_top {
    const struct bn_args *args;
    const struct bn_bench_options *o;
    struct bn_live_reader *reader;
    struct bn_live_snapshot *now; /* pid 0: there is none yet */
    struct bn_top_window window;  /* the last one in which a pass ran */
    struct bn_top_pass pass;
    struct bn_top_budget budget;
    struct bn_top_view view;
    struct bn_top_rows rows;
    enum bn_top_state state;
    char trouble[sizeof((bn_error *)0)->msg]; /* why the last refresh failed; empty: it did not */
};
BN_MUST_CHECK bn_status bn_top_open(struct bn_top *top, bn_error *err);
void bn_top_close(struct bn_top *top);
/* Reads a snapshot. A failure after the first one keeps what is shown. */
BN_MUST_CHECK bn_status bn_top_refresh(struct bn_top *top, bn_error *err);
/* Makes the rows again, after the view changed. */
void bn_top_remake(struct bn_top *top);

/* ---- lines (frame.c) ---- */

enum bn_top_style { BN_TOP_PLAIN, BN_TOP_HEAD, BN_TOP_TITLE, BN_TOP_WARNING };

struct bn_top_line {
    char text[512];
    enum bn_top_style style;
    bool has_row;
    enum bn_brick_category category; /* of the row */
    size_t bar_at, bar_bytes;        /* in text */
};

#define BN_TOP_HEAD_LINES 5u
struct bn_top_frame {
    size_t columns;
    bool utf8; /* bars of block characters */
};
/* The lines above the rows: BN_TOP_HEAD_LINES. */
void bn_top_put_head(struct bn_top_line out[BN_TOP_HEAD_LINES], const struct bn_top *top,
                     const struct bn_top_frame *frame);
void bn_top_put_row(struct bn_top_line *out, const struct bn_top *top, const struct bn_top_frame *frame,
                    const struct bn_top_row *row);
/* The keys, one line; and all of them, `n` lines. */
void bn_top_put_keys(struct bn_top_line *out, const struct bn_top *top, const struct bn_top_frame *frame);
extern const char *const bn_top_help[];
/* A whole frame as text. */
void bn_top_put_frame(struct bn_buf *out, const struct bn_top *top, const struct bn_top_frame *frame);

/* ---- outputs ---- */

/* json.c: the document of a refresh. */
bn_json *bn_top_document(const struct bn_top *top);
/* screen.c, the only file that includes ncurses.h: shows frames until the user quits. *shown is false, and
 * nothing was done, when the terminal cannot do that. */
BN_MUST_CHECK bn_status bn_top_screen(struct bn_top *top, bool *shown, bn_error *err);

#endif
