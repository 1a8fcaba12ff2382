/* SPDX-License-Identifier: MIT
 *
 * What bn-bench kernels, memory, quant and train have in common: rows of samples that pass the checks (check.h) or
 * are marked invalid, one document, one exit code.
 */
#ifndef BN_BENCH_SUITE_H
#define BN_BENCH_SUITE_H

#include "lab/history/series.h"
#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/check.h"
#include "tools/bench/limits.h"
#include "tools/bench/timing.h"

#define BN_SUITE_ISAS 8u

struct bn_suite {
    struct bn_args *args;
    struct bn_bench_options *o;
    struct bn_machine machine;
    struct bn_busy before;       /* read before the first row */
    struct bn_clock_facts clock; /* of all samples */
    struct bn_bench_limits limits;
    struct bn_bench_times times;
    struct bn_series_list series;
    const struct bn_kernels *isas[BN_SUITE_ISAS]; /* of bn_suite_choose_isas */
    size_t n_isas;
    uint64_t min_ns;                     /* for each row */
    bn_json *doc, *model, *settings;     /* the document, and its members */
    struct bn_table table;               /* of bn_suite_table */
    bool matched;                        /* --filter included a row */
    size_t n_valid, n_invalid, n_failed; /* rows and true statements; rows; false statements */
};

/* One row: its name, and what its samples are divided by. */
struct bn_suite_row {
    const char *test, *metric; /* of its series; a metric of nanoseconds, less is better */
    double per_call;           /* units of work per call */
    double read_bytes;         /* read by one call, all threads together, */
    size_t set_bytes;          /* from a set of this size; 0: no limit applies */
    unsigned n_threads;
    /* Checks the output of the timed calls: NULL when it is right, else the reason. NULL: no check. */
    const char *(*differs)(char why[160], const void *arg);
    const void *arg;
    struct bn_summary ns; /* the result, when it is valid */
    bool valid;
};

/* --isa with "all"; see bn_suite_choose_isas. */
#define BN_SUITE_ISA                                                                                \
    BN_OPTION("isa", "instruction set; all: every one of this machine", .arg = BN_ISA_NAMES "|all", \
              .group = "Machine", .env = "BN_ISA", .preset = "auto",                                \
              BN_TO_TEXT(struct bn_bench_options, isa))
extern const struct bn_option bn_bench_suite_options[]; /* --min-time, --filter, --threads */

/* Reads the options, measures the clock, begins the document with model and settings, to which the command
 * adds its own. Opens the model once, so that an invalid one fails first; kernels use only its shapes.
 * Released by bn_suite_finish in any case. */
BN_MUST_CHECK bn_status bn_suite_open(struct bn_suite *s, struct bn_args *args, const char *command,
                                      bn_error *err);
/* With --json the document; exit code 1 when a row was invalid, a statement false, or nothing was measured.
 * Passes on status when that is an error. */
BN_MUST_CHECK bn_status bn_suite_finish(struct bn_suite *s, bn_status status, bn_error *err);

/* --isa: the instruction set of that name, or with "all" every one of this machine. */
BN_MUST_CHECK bn_status bn_suite_choose_isas(struct bn_suite *s, bn_error *err);
/* Is the kernel of this slot the same function as that of a lower instruction set? */
bool bn_suite_is_repeated(const struct bn_suite *s, size_t isa, enum bn_kernel slot);

/* --model, or the built-in model; --isa is not read, since it may be "all". */
BN_MUST_CHECK bn_status bn_suite_open_model(const struct bn_suite *s, bn_repack repack, bn_model **out,
                                            bn_error *err);

/* Does --filter include this name? */
bool bn_suite_wants(struct bn_suite *s, const char *name);

/* Times the body and puts the samples into r as bn_suite_put_samples does. */
BN_MUST_CHECK bn_status bn_suite_time(struct bn_suite *s, struct bn_suite_row *row,
                                      const struct bn_bench_body *body, bn_json *r, bn_error *err);
/* The same of n samples of this many calls, taken by the caller. Puts calls_per_sample, samples_ns, a summary
 * under the name of the metric, and valid; adds the series when the samples are valid. */
BN_MUST_CHECK bn_status bn_suite_put_samples(struct bn_suite *s, struct bn_suite_row *row, uint64_t calls,
                                             const uint64_t *ns, size_t n, bn_json *r, bn_error *err);
/* Marks a row invalid without timing it, for instance because its result is wrong. */
void bn_suite_refuse(struct bn_suite *s, struct bn_suite_row *row, bn_json *r, const char *why);
/* A figure that is the same in every run, as a member of r and as a series. */
BN_MUST_CHECK bn_status bn_suite_put_exact(struct bn_suite *s, const char *test, const char *metric,
                                           const char *unit, double value, bn_json *r, bn_error *err);
/* Puts a statement that has to be true, and counts it when it is false. */
void bn_suite_state(struct bn_suite *s, bn_json *r, const char *name, bool truth);

/* Prints text unless --json is given. */
void bn_suite_print(const struct bn_suite *s, const char *fmt, ...) BN_PRINTF(2, 3);
/* Begins a table, which is filled as rows are measured. It is printed after a blank line, without --json, by
 * bn_suite_flush: when the next one begins, and at the end of the command. */
BN_MUST_CHECK bn_status bn_suite_table(struct bn_suite *s, const char *const *heads, const char *align,
                                       bn_error *err);
BN_MUST_CHECK bn_status bn_suite_flush(struct bn_suite *s, bn_error *err);
/* A row of the table with the test, the median time and its spread (MAD). */
void bn_suite_put_row(struct bn_suite *s, const struct bn_suite_row *row);

#endif
