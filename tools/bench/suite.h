/* SPDX-License-Identifier: MIT
 *
 * What bn-bench memory and bn-bench quant have in common: rows of samples that pass the gate (gate.h) or are
 * marked invalid, one document, one exit code.
 */
#ifndef BN_BENCH_SUITE_H
#define BN_BENCH_SUITE_H

#include "lab/history/series.h"
#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/gate.h"
#include "tools/bench/kernels/limits.h"
#include "tools/bench/kernels/timing.h"

struct bn_suite {
    const struct bn_args *args;
    struct bn_machine machine;
    struct bn_busy before;       /* the first row */
    struct bn_bench_clock clock; /* that all samples are taken with */
    struct bn_bench_limits limits;
    struct bn_bench_times times;
    struct bn_series_list series;
    uint32_t *threads;
    size_t n_threads;
    uint64_t min_ns;                     /* for each row */
    bn_json *doc, *model, *settings;     /* the document, and its members */
    bool matched;                        /* the filter let something pass */
    size_t n_valid, n_invalid, n_failed; /* rows and true statements; rows; false statements */
};

/* One row: what it is called, and what its samples are divided by. */
struct bn_suite_row {
    const char *test, *metric; /* of its series; a metric of nanoseconds, less is better */
    double per_call;           /* units of work per call */
    double read_bytes;         /* that one call reads, all threads together ... */
    size_t set_bytes;          /* ... of a set so large: no faster than the limit. 0: no limit applies */
    unsigned n_threads;
    /* Looks at what the timed calls left: NULL when it is right, else why not. NULL: nothing to look at. */
    const char *(*differs)(char why[160], const void *arg);
    const void *arg;
    struct bn_summary ns; /* the result, when it is valid */
    bool valid;
};

extern const struct bn_option bn_bench_suite_options[]; /* --min-time and --filter */

/* Reads the options, opens the model once to see that it is one, measures the clock, begins the document:
 * model, settings, to which the command adds what decides what is measured. Released by bn_suite_finish in
 * any case. */
BN_MUST_CHECK bn_status bn_suite_open(struct bn_suite *s, const struct bn_args *args, const char *command,
                                      bn_error *err);
/* With --json the document; exit code 1 when a row was invalid, a statement false, or nothing was measured.
 * Passes on status when that is an error. */
BN_MUST_CHECK bn_status bn_suite_finish(struct bn_suite *s, struct bn_args *args, bn_status status,
                                        bn_error *err);

/* --model, or the built-in model; --isa may be "all" here, and is not looked at. */
BN_MUST_CHECK bn_status bn_suite_open_model(const struct bn_suite *s, bn_repack repack, bn_model **out,
                                            bn_error *err);

/* Does --filter let this name pass? */
bool bn_suite_wants(struct bn_suite *s, const char *name);

/* Times the body and puts into r what bn_suite_put_samples does. */
BN_MUST_CHECK bn_status bn_suite_time(struct bn_suite *s, struct bn_suite_row *row,
                                      const struct bn_bench_body *body, bn_json *r, bn_error *err);
/* Samples that were taken otherwise: n times of so many calls each. Puts calls_per_sample, samples_ns, a
 * summary under the metric's name, and valid; adds the series when the gate lets them pass. */
BN_MUST_CHECK bn_status bn_suite_put_samples(struct bn_suite *s, struct bn_suite_row *row, uint64_t calls,
                                             const uint64_t *ns, size_t n, bn_json *r, bn_error *err);
/* Marks a row invalid that was not timed, for instance because its result is wrong. */
void bn_suite_refuse(struct bn_suite *s, struct bn_suite_row *row, bn_json *r, const char *why);
/* A figure that is the same each time, as a member of r and as a series. */
BN_MUST_CHECK bn_status bn_suite_put_exact(struct bn_suite *s, const char *test, const char *metric,
                                           const char *unit, double value, bn_json *r, bn_error *err);
/* A statement that is checked: puts it, and counts it when it is false. */
void bn_suite_state(struct bn_suite *s, bn_json *r, const char *name, bool truth);

/* Prints text unless the document is asked for. */
void bn_suite_print(const struct bn_suite *s, const char *fmt, ...) BN_PRINTF(2, 3);
/* "64 B", "16 KiB", "4 MiB" */
void bn_suite_size(char out[24], uint64_t bytes);

#endif
