/* SPDX-License-Identifier: MIT
 *
 * bn-bench report: what documents of bn-bench say, in other forms. The documents are read into one struct
 * bn_report; every form takes its numbers from there, so that a figure is the same in all of them: exactly,
 * as JSON has it, in forms for programs; by one rounding in forms for people, where it comes from one table
 * of cells.
 */
#ifndef BN_BENCH_REPORT_H
#define BN_BENCH_REPORT_H

#include "base/digest.h"
#include "lab/history/series.h"
#include "lab/stats/comparison.h"
#include "lab/stats/summary.h"

#define BN_REPORT_SCHEMA "bn.report/1"

/* ---- what was read ---- */

struct bn_report_source {
    const char *path, *label; /* as given; its last part, or all of it where two have the same */
    bn_json *doc;
    char sha256[BN_SHA256_HEX];
    struct bn_series_list series;
};

/* Figures of one series, in its unit. */
enum bn_figure {
    BN_FIGURE_MEDIAN,
    BN_FIGURE_LOW, /* of the interval of the median, 95 % */
    BN_FIGURE_HIGH,
    BN_FIGURE_MIN,
    BN_FIGURE_MAX,
    BN_FIGURE_MAD,
    BN_FIGURE_P5,
    BN_FIGURE_Q1,
    BN_FIGURE_Q3,
    BN_FIGURE_P95,
    BN_FIGURE_P99,
    BN_FIGURES
};
extern const char *const bn_figure_names[BN_FIGURES];

struct bn_report_series {
    const struct bn_series *s;
    const struct bn_report_source *source;
    double figure[BN_FIGURES]; /* NaN: cannot be had, and why[] says the reason */
    const char *why[BN_FIGURES];
    const char *method;     /* how the interval was had */
    struct bn_tukey fences; /* beyond which samples are outliers: labels; no figure leaves a sample out */
    size_t n_outliers;
    double correlation; /* of each sample with the next, -1 to 1 */
    double *warmup;     /* samples before, which do not count; n_warmup */
    size_t n_warmup;
};

struct bn_report_comparison {
    struct bn_comparison c;
    const struct bn_report_source *source;
    double margin; /* that does not matter, NaN when the document does not say */
};

/* A kernel beside its limits. */
struct bn_report_point {
    const struct bn_report_source *source;
    const char *kernel, *shape, *isa, *limit; /* limit: "memory", "cache", "arithmetic", "" */
    size_t threads, set_bytes;
    double macs, bytes;   /* of one call */
    double ns, low, high; /* of one call: median and its interval, NaN without one */
    double share;         /* of the limit, NaN without one */
};

struct bn_report_brick {
    const struct bn_report_source *source;
    const char *name, *category;
    size_t count;
    double ns;    /* exclusive, of all threads */
    double share; /* of all time, what no brick accounts for included */
    bool rest;    /* that line: no brick, what no brick accounts for */
};

/* One series through the entries of a ledger. */
struct bn_report_moment {
    const char *commit, *created;
    bool dirty;
    size_t n;
    double median, low, high;
};
struct bn_report_change {
    size_t at;     /* the first moment behind it */
    double p;      /* that there is none, NaN when it is not known */
    double change; /* of the cost: +0.05 is five per cent worse */
};
struct bn_report_trend {
    const struct bn_report_source *source;
    const char *name;             /* that its runs were saved under; "" when it is not known */
    const char *settings, *model; /* digests: runs of others are another trend */
    const char *test, *metric, *unit;
    bool higher;
    struct bn_report_moment *moments;
    size_t n;
    struct bn_report_change *changes;
    size_t n_changes;
};

/* What a rule found, with the figures that it saw. */
struct bn_report_finding {
    const char *rule; /* "regressed", "dirty-build", ... */
    const char *kind; /* "bad", "warn", "ok" */
    char *text, *evidence;
    size_t n_more; /* of the same rule, that are only counted: behind the last that is told */
};

struct bn_report {
    struct bn_report_source *sources;
    size_t n_sources;
    struct bn_report_series *series;
    size_t n_series;
    struct bn_report_comparison *comparisons;
    size_t n_comparisons;
    struct bn_report_point *points;
    size_t n_points;
    struct bn_report_brick *bricks;
    size_t n_bricks;
    struct bn_report_trend *trends;
    size_t n_trends;
    struct bn_report_finding *findings;
    size_t n_findings;
};

/* report_read.c: reads these files, whose paths are borrowed, into a zeroed report. BN_ERR_FORMAT for one
 * that is none of bn-bench's, BN_ERR_MISMATCH for one in which nothing was measured. Released in any case. */
BN_MUST_CHECK bn_status bn_report_read(struct bn_report *r, const char *const *paths, size_t n,
                                       bn_error *err);
void bn_report_release(struct bn_report *r);

/* report_read_trend.c: the lists of a ledger's records, and of what bn-bench trend wrote. */
BN_MUST_CHECK bn_status bn_report_read_ledger(struct bn_report *r, const struct bn_report_source *source,
                                              bn_error *err);
BN_MUST_CHECK bn_status bn_report_read_trend(struct bn_report *r, const struct bn_report_source *source,
                                             bn_error *err);

/* report_read.c: appends a zeroed element of `each` bytes to a list whose length is *n, at *element; NULL
 * there without memory. Returns the list. BN_REPORT_APPEND(list, n) gives the element. */
void *bn_report_append(void *list, size_t *n, size_t each, void **element);
#define BN_REPORT_APPEND(list, n) ((list) = bn_report_append((list), &(n), sizeof *(list), &element), element)

/* report_figures.c */
BN_MUST_CHECK bn_status bn_report_figures(struct bn_report_series *series, bn_error *err);
/* report_findings.c: all rules over all that was read. */
BN_MUST_CHECK bn_status bn_report_find(struct bn_report *r, bn_error *err);

/* ---- figures for people ---- */

/* "ms" for nanoseconds around 1e7: value * factor is in unit. */
struct bn_report_scale {
    double factor;
    const char *unit;
};
struct bn_report_scale bn_report_scale(const char *unit, double value);
/* Four digits, "-" when it is not finite. */
void bn_report_put(struct bn_buf *out, double value, const struct bn_report_scale *scale);
/* "+3.2 %" */
void bn_report_put_percent(struct bn_buf *out, double share, bool sign);

/* A table of cells, rendered as text, as Markdown, or as HTML. */
struct bn_report_cell {
    char *text;
    char *exact; /* the figure as JSON has it, with its unit; NULL when the text is all */
};
struct bn_report_table {
    const char *const *heads;
    const char *align; /* 'l' or 'r' for each column */
    size_t n_cols, n_rows, room;
    struct bn_report_cell *cells;
    const char **kinds; /* of a row: "bad", "warn", "ok", "" */
    bool failed;        /* memory was short: checked by whoever renders */
};
/* Each makes a table, to be released; n_rows is 0 where nothing was read for it. */
void bn_report_table_series(struct bn_report_table *t, const struct bn_report *r);
void bn_report_table_comparisons(struct bn_report_table *t, const struct bn_report *r);
void bn_report_table_points(struct bn_report_table *t, const struct bn_report *r);
void bn_report_table_bricks(struct bn_report_table *t, const struct bn_report *r);
void bn_report_table_trends(struct bn_report_table *t, const struct bn_report *r);
void bn_report_table_release(struct bn_report_table *t);
/* One sentence that says what the report holds: "2 REGRESSED, 5 STABLE" or "12 series". */
void bn_report_headline(struct bn_buf *out, const struct bn_report *r);
/* A line on where a source comes from. */
void bn_report_put_origin(struct bn_buf *out, const struct bn_report_source *source);

/* ---- forms; each appends to out ---- */

typedef bn_status (*bn_report_form)(struct bn_buf *out, const struct bn_report *r, bn_error *err);
/* report_text.c */
bn_status bn_report_text(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_markdown(struct bn_buf *out, const struct bn_report *r, bn_error *err);
/* report_json.c */
bn_status bn_report_json(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_json_lines(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_json_comparisons(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_json_systems(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_github_smaller(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_github_bigger(struct bn_buf *out, const struct bn_report *r, bn_error *err);
/* report_export.c */
bn_status bn_report_csv(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_csv_samples(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_csv_comparisons(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_junit(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_benchstat(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_libtest(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_prometheus(struct bn_buf *out, const struct bn_report *r, bn_error *err);
/* report_html.c */
bn_status bn_report_html(struct bn_buf *out, const struct bn_report *r, bn_error *err);

/* report_plots.c, report_plots_more.c: each appends one figure, nothing where there is nothing to draw. */
void bn_report_plot_distribution(struct bn_buf *out, const struct bn_report_series *s);
void bn_report_plot_time(struct bn_buf *out, const struct bn_report_series *s);
void bn_report_plot_forest(struct bn_buf *out, const struct bn_report *r);
void bn_report_plot_trend(struct bn_buf *out, const struct bn_report_trend *t);
void bn_report_plot_bricks(struct bn_buf *out, const struct bn_report *r,
                           const struct bn_report_source *source);
void bn_report_plot_roofline(struct bn_buf *out, const struct bn_report *r, size_t threads,
                             const struct bn_report_source *source);

#endif
