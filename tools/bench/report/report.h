/* SPDX-License-Identifier: MIT
 *
 * bn-bench report: documents of bn-bench in other formats. The documents are read into one struct bn_report, of
 * which every format shows the same parts: tables (lab/report/table.h), and in HTML their plots. Formats for
 * programs have exact numbers, as in JSON. Formats for people round them in one place, lab/report/units.h.
 */
#ifndef BN_BENCH_REPORT_H
#define BN_BENCH_REPORT_H

#include "base/digest.h"
#include "lab/history/series.h"
#include "lab/stats/comparison.h"

/* ---- what was read ---- */

struct bn_report_source {
    const char *label; /* the last part of the path, or all of it where two last parts are equal */
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

struct bn_report_series {
    const struct bn_series *s;
    const struct bn_report_source *source;
    double figure[BN_FIGURES]; /* NaN: too few samples, or of an exact series no interval */
    size_t n_outliers;         /* outside Tukey's fences; every figure includes them */
    double correlation;        /* of each sample with the next, -1 to 1 */
};

/* A kernel and its limits. */
struct bn_report_point {
    const struct bn_report_source *source;
    const char *kernel, *shape, *limit; /* limit: "memory", "cache", "arithmetic", "" */
    size_t threads;
    double macs, bytes;   /* of one call */
    double ns, low, high; /* of one call: median and its interval, NaN without one */
    double share;         /* of the limit, NaN without one */
};

struct bn_report_brick {
    const struct bn_report_source *source;
    const char *name, *category;
    size_t count; /* 0: not a brick, the unattributed time */
    double ns;    /* exclusive, of all threads */
    double share; /* of all time, unattributed time included */
};

/* One series through the runs of a ledger, as bn-bench trend wrote it: n >= 1 points with a median. */
struct bn_report_trend {
    const struct bn_report_source *source;
    const bn_json *json;
    size_t n;
};

/* A comparison with a reference, as bn-crossval wrote it. */
struct bn_report_result {
    const struct bn_report_source *source;
    const bn_json *of,
        *json; /* what was compared: the document, or a prompt of it; the reference's results */
};

struct bn_report {
    struct bn_report_source *sources;
    size_t n_sources;
    struct bn_report_series *series;
    size_t n_series, room_of_series;
    struct bn_comparison *comparisons;
    size_t n_comparisons, room_of_comparisons;
    struct bn_report_point *points;
    size_t n_points, room_of_points;
    struct bn_report_brick *bricks;
    size_t n_bricks, room_of_bricks;
    struct bn_report_trend *trends;
    size_t n_trends, room_of_trends;
    struct bn_report_result *results;
    size_t n_results, room_of_results;
};

/* read.c: reads these files into a zeroed report, which borrows their paths. BN_ERR_FORMAT for a document
 * that is not from bn-bench, BN_ERR_MISMATCH for one without measurements. The caller releases the report in
 * any case. */
BN_MUST_CHECK bn_status bn_report_read(struct bn_report *r, const char *const *paths, size_t n,
                                       bn_error *err);
/* The same of one document, which the report takes over, also on failure. */
BN_MUST_CHECK bn_status bn_report_of(struct bn_report *r, bn_json *document, const char *label,
                                     bn_error *err);
void bn_report_release(struct bn_report *r);
/* text.c: prints the report of one document, which it releases. */
BN_MUST_CHECK bn_status bn_report_print(bn_json *document, const char *label, bn_error *err);

/* ---- parts (tables.c, findings.c, plots.c) ---- */

/* A part is left out where nothing was read for it. */
struct bn_report_part {
    const char *title, *id, *what; /* what: a sentence for readers of the page */
    void (*fill)(struct bn_table *table, const struct bn_report *r);
    void (*plot)(struct bn_buf *out, const struct bn_report *r); /* NULL for none */
};
#define BN_REPORT_PARTS 12u
extern const struct bn_report_part bn_report_parts[BN_REPORT_PARTS];

void bn_report_fill_comparisons(struct bn_table *table, const struct bn_report *r);
void bn_report_fill_series(struct bn_table *table, const struct bn_report *r);
/* When there are several models, by size: speed and memory. */
void bn_report_fill_models(struct bn_table *table, const struct bn_report *r);
/* What the numbers mean; the kind of a row is "bad", "warn", "ok" or "". */
void bn_report_fill_findings(struct bn_table *table, const struct bn_report *r);

void bn_report_plot_forest(struct bn_buf *out, const struct bn_report *r);
void bn_report_plot_rooflines(struct bn_buf *out, const struct bn_report *r);
void bn_report_plot_bricks(struct bn_buf *out, const struct bn_report *r);
void bn_report_plot_trends(struct bn_buf *out, const struct bn_report *r);
void bn_report_plot_bars(struct bn_buf *out, const struct bn_report *r);
/* The samples of a series over time; not one of the parts. */
void bn_report_plot_time(struct bn_buf *out, const struct bn_report_series *s);

/* The first source of each machine, in the order of the sources. */
#define BN_REPORT_MACHINES 8u
size_t bn_report_machines(const struct bn_report_source *list[BN_REPORT_MACHINES], const struct bn_report *r);
/* Whether the series holds times per token of the tests whose names begin with that word, "decode" or
 * "prompt". */
bool bn_report_is_speed(const struct bn_report_series *s, const char *word);
/* The fastest of these series of a source, next to busy processes (bn-bench run --busy) or not; NULL when there
 * is none. */
const struct bn_report_series *bn_report_fastest(const struct bn_report *r,
                                                 const struct bn_report_source *source, const char *word,
                                                 bool busy);

/* ---- sentences and forms (text.c, html.c); each appends to out ---- */

/* What the report holds: "2 REGRESSED, 5 STABLE" or "12 series measured". */
void bn_report_headline(struct bn_buf *out, const struct bn_report *r);
/* The sentence that a reader wants first: the worst verdict, else the speeds, else the headline. */
void bn_report_sentence(struct bn_buf *out, const struct bn_report *r);
/* Where a source comes from: command, time, commit, processor. */
void bn_report_put_origin(struct bn_buf *out, const struct bn_report_source *source);
/* The members of documents that say where they come from; the last is NULL. */
extern const char *const bn_report_origins[];

typedef bn_status (*bn_report_form)(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_text(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_markdown(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_json(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_github_smaller(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_github_bigger(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_csv(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_html(struct bn_buf *out, const struct bn_report *r, bn_error *err);

/* report.c: writes the files of --dir; formats NULL or empty: all of them, else those whose format is named. */
struct bn_texts;
BN_MUST_CHECK bn_status bn_report_write_dir(const struct bn_report *r, const char *dir,
                                            const struct bn_texts *formats, bn_error *err);

#endif
