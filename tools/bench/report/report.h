/* SPDX-License-Identifier: MIT
 *
 * bn-bench report: documents of bn-bench in other formats. The documents are read into one struct bn_report,
 * and every format takes its numbers from there. Formats for programs have exact numbers, as in JSON. Formats
 * for people round them in one place, lab/report/units.h.
 */
#ifndef BN_BENCH_REPORT_H
#define BN_BENCH_REPORT_H

#include "base/digest.h"
#include "lab/history/series.h"
#include "lab/report/table.h"
#include "lab/stats/comparison.h"
#include "lab/stats/summary.h"

#define BN_REPORT_SCHEMA "bn.bench/1"

/* ---- what was read ---- */

struct bn_report_source {
    const char *path, *label; /* as given; its last part, or all of it where two last parts are equal */
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
    struct bn_tukey fences;    /* samples outside are labelled outliers; every figure includes them */
    size_t n_outliers;
    double correlation; /* of each sample with the next, -1 to 1 */
};

struct bn_report_comparison {
    struct bn_comparison c;
    const struct bn_report_source *source;
    double margin; /* changes within it do not matter; NaN when the document has none */
};

/* A kernel and its limits. */
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
    double share; /* of all time, unattributed time included */
    bool rest;    /* not a brick: the unattributed time */
};

/* One series through the entries of a ledger. */
struct bn_report_moment {
    const char *commit, *created;
    double median, low, high;
};
struct bn_report_change {
    size_t at;           /* the first moment after it */
    double change;       /* of the figure: +0.05 is five per cent more */
    const char *confirm; /* a command; "" for none */
};
struct bn_report_trend {
    const struct bn_report_source *source;
    char runs[120]; /* suite, machine and settings */
    const char *test, *metric, *unit;
    bool higher;
    struct bn_report_moment *moments;
    size_t n;
    struct bn_report_change *changes;
    size_t n_changes;
};

/* A model that bn-bench run measured: its sizes, and its fastest tests. */
struct bn_report_model {
    const struct bn_report_source *source;
    const char *name, *sha256;
    double parameters, file_bytes;                  /* NaN when unknown */
    const struct bn_report_series *decode, *prompt; /* ns_per_token; NULL when not measured */
    const struct bn_report_series *busy;            /* decoding next to busy processes, likewise */
    double first_token_ns;                          /* of that prompt test; NaN when unknown */
    double peak_bytes;                              /* resident memory of the process, likewise */
    double share;                                   /* of the measured bandwidth, while decoding, likewise */
};

/* The machines that the sources come from, in the order of the sources. */
#define BN_REPORT_MACHINES 8u /* with a column; findings count the others */
struct bn_report_machine {
    const char *key, *label;
    const struct bn_report_source *source; /* the first one, for its facts */
};

/* What a rule found, and the figures that it saw. */
struct bn_report_finding {
    const char *rule; /* "regressed", "dirty-build", ... */
    const char *kind; /* "bad", "warn", "ok" */
    char *text, *evidence;
    size_t n_more; /* more findings of the same rule, only counted; on the last one listed */
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
    struct bn_report_model *models;
    size_t n_models;
    struct bn_report_machine *machines;
    size_t n_machines;
    struct bn_report_finding *findings;
    size_t n_findings;
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

/* read_trend.c: the histories of bn-bench trend. */
BN_MUST_CHECK bn_status bn_report_read_trend(struct bn_report *r, const struct bn_report_source *source,
                                             bn_error *err);

/* read.c: appends a zeroed element of `each` bytes to a list of *n elements and returns the list. *element is
 * the new element, NULL without memory. BN_REPORT_APPEND(list, n) gives the element. */
void *bn_report_append(void *list, size_t *n, size_t each, void **element);
#define BN_REPORT_APPEND(list, n) ((list) = bn_report_append((list), &(n), sizeof *(list), &element), element)

/* models.c: the models of the sources by size, and the machines. */
BN_MUST_CHECK bn_status bn_report_read_models(struct bn_report *r, bn_error *err);
BN_MUST_CHECK bn_status bn_report_read_machines(struct bn_report *r, bn_error *err);
/* Where the median of a series is on one machine: the last source that has it; NULL without one. */
const struct bn_report_series *bn_report_on_machine(const struct bn_report *r,
                                                    const struct bn_report_series *s,
                                                    const struct bn_report_machine *machine);
/* Whether there are several models, by digest. */
bool bn_report_has_models(const struct bn_report *r);
/* Its name without folders and ".gguf". */
void bn_report_put_model_name(struct bn_buf *out, const struct bn_report_model *m);
/* Tables of models, when there are several: speed, memory; and of machines: facts, medians side by side. */
void bn_report_fill_models(struct bn_table *table, const struct bn_report *r);
void bn_report_fill_model_memory(struct bn_table *table, const struct bn_report *r);
void bn_report_fill_machines(struct bn_table *table, const struct bn_report *r);
void bn_report_fill_medians(struct bn_table *table, const struct bn_report *r);

/* figures.c */
BN_MUST_CHECK bn_status bn_report_figures(struct bn_report_series *series, bn_error *err);
/* findings.c: applies all rules. */
BN_MUST_CHECK bn_status bn_report_find(struct bn_report *r, bn_error *err);

/* ---- for people ---- */

/* A part of a report as a table; it has no rows where nothing was read for it. */
struct bn_report_part {
    const char *title;
    void (*fill)(struct bn_table *table, const struct bn_report *r);
};
enum {
    BN_PART_COMPARISONS,
    BN_PART_MODELS,
    BN_PART_MODEL_MEMORY,
    BN_PART_MACHINES,
    BN_PART_MEDIANS,
    BN_PART_SERIES,
    BN_PART_POINTS,
    BN_PART_BRICKS,
    BN_PART_TRENDS,
    BN_REPORT_PARTS
};
extern const struct bn_report_part bn_report_parts[BN_REPORT_PARTS];

/* What the report holds: "2 REGRESSED, 5 STABLE" or "12 series measured". */
void bn_report_headline(struct bn_buf *out, const struct bn_report *r);
/* Whether the series holds times per token of the tests whose names begin with that word, "decode" or
 * "prompt". */
bool bn_report_is_speed(const struct bn_report_series *s, const char *word);
/* Was it measured next to busy processes (bn-bench run --busy)? */
bool bn_report_is_busy(const struct bn_report_series *s);
/* The fastest of these series of a source; NULL when there is none. */
const struct bn_report_series *bn_report_fastest(const struct bn_report *r,
                                                 const struct bn_report_source *source, const char *word,
                                                 bool busy);
/* The number of threads of a test of bn-bench run; 0 when unknown. */
size_t bn_report_threads(const struct bn_report_series *s);
/* "decode 38.42 tok/s, prompt 271.3 tok/s, 2 threads, model.gguf, CPU"; false without such series. */
bool bn_report_put_speeds(struct bn_buf *out, const struct bn_report *r);
/* The sentence that a reader wants first: the worst verdict, else the speeds, else the headline. */
void bn_report_sentence(struct bn_buf *out, const struct bn_report *r);
/* Where a source comes from: command, time, commit, processor. */
void bn_report_put_origin(struct bn_buf *out, const struct bn_report_source *source);

/* report.c: writes the files of --dir; formats NULL: all of them, else those whose name ends with one of
 * "html", "json", "csv", "markdown". */
struct bn_texts;
BN_MUST_CHECK bn_status bn_report_write_dir(const struct bn_report *r, const char *dir,
                                            const struct bn_texts *formats, bn_error *err);

/* ---- forms; each appends to out ---- */

typedef bn_status (*bn_report_form)(struct bn_buf *out, const struct bn_report *r, bn_error *err);
/* text.c */
bn_status bn_report_text(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_markdown(struct bn_buf *out, const struct bn_report *r, bn_error *err);
/* export.c */
bn_status bn_report_json(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_github_smaller(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_github_bigger(struct bn_buf *out, const struct bn_report *r, bn_error *err);
bn_status bn_report_csv(struct bn_buf *out, const struct bn_report *r, bn_error *err);
/* html.c */
bn_status bn_report_html(struct bn_buf *out, const struct bn_report *r, bn_error *err);

/* plots.c, plots_compare.c: each appends one figure, or nothing where there is nothing to draw. */
void bn_report_plot_time(struct bn_buf *out, const struct bn_report_series *s);
void bn_report_plot_forest(struct bn_buf *out, const struct bn_report *r);
void bn_report_plot_trend(struct bn_buf *out, const struct bn_report_trend *t);
void bn_report_plot_bricks(struct bn_buf *out, const struct bn_report *r,
                           const struct bn_report_source *source);
void bn_report_plot_roofline(struct bn_buf *out, const struct bn_report *r, size_t threads,
                             const struct bn_report_source *source);

#endif
