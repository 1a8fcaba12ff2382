/* SPDX-License-Identifier: MIT
 *
 * What the commands that measure have in common. The document has a list of tests (objects of facts with a verdict) and a
 * list of series, where every sample is once. Samples have to pass the checks (timing.h), or the test is invalid. There is
 * one exit code, and one table after the other on the terminal.
 */
#ifndef BN_BENCH_HARNESS_H
#define BN_BENCH_HARNESS_H

#include "base/digest.h"
#include "lab/history/series.h"
#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/limits.h"

/* ---- timing (timing.c): samples of several calls each, in a team of threads ---- */

#define BN_BENCH_MAX_SAMPLES 1000u
#define BN_BENCH_MIN_SAMPLES 3u

struct bn_bench_times {
    uint64_t calls;                    /* in each sample */
    uint64_t ns[BN_BENCH_MAX_SAMPLES]; /* from the moment that all threads are ready until all are done */
    size_t n;
};

/* What is timed: a thread's part of the n calls that follow the first `first`. */
struct bn_bench_body {
    void (*calls)(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads);
    void *arg;
};

/* Samples for about min_ns, but three at least. A body that takes no time at all gets samples of many calls
 * which are as short as the clock is coarse: see the checks. */
BN_MUST_CHECK bn_status bn_bench_time_body(struct bn_bench_times *times, const struct bn_bench_body *body,
                                           unsigned n_threads, uint64_t min_ns, bn_error *err);

/* ---- checks (timing.c): of the clock, the samples, and the limits; a measurement that fails one has no figures ---- */

#define BN_BENCH_REASON 160u

/* Invalid: a sample shorter than this many steps of its clock, */
#define BN_BENCH_LEAST_STEPS 20u
/* and this many samples of exactly the same length. */
#define BN_BENCH_MOST_EQUAL 10u
/* Implausible: a rate above this multiple of its measured limit. */
#define BN_BENCH_MOST_SHARE 1.05

/* Of a share of a measured limit: why it is implausible, or "". Returns out. Every command marks its shares with it. */
const char *bn_bench_implausible(char out[BN_BENCH_REASON], double share);

/* False, with the reason, for samples that are invalid. */
bool bn_bench_believable(const double *ns, size_t n, double step_ns, char reason[BN_BENCH_REASON]);

struct bn_bench_claim {
    const double *sample_ns; /* whole samples, as read from the clock */
    size_t n;
    double rate, limit; /* in the same unit; limit 0: unknown */
};
/* NULL when the measurement is valid; else the reason, one line, in out. */
const char *bn_bench_refuses(char out[BN_BENCH_REASON], const struct bn_bench_claim *claim,
                             const struct bn_clock_facts *clock);
/* Is the rate too high for the limit? */
bool bn_bench_above_limit(const struct bn_bench_claim *claim);

/* ---- the command ---- */

#define BN_HARNESS_ISAS 8u

/* Skipped: it cannot run here. */
enum bn_bench_verdict { BN_BENCH_VALID, BN_BENCH_INVALID, BN_BENCH_TIMEOUT, BN_BENCH_SKIPPED };

struct bn_harness {
    struct bn_args *args;
    struct bn_bench_options *o;
    struct bn_machine machine;
    struct bn_busy before;       /* read before the first test */
    struct bn_others others;     /* the use of other processes since; see bn_harness_sampled */
    struct bn_clock_facts clock; /* of all samples */
    struct bn_bench_limits limits;
    struct bn_bench_times times;
    struct bn_series_list series;
    const struct bn_kernels *isas[BN_HARNESS_ISAS]; /* of bn_harness_choose_isas */
    size_t n_isas;
    uint64_t min_ns;                         /* for each row */
    bn_json *doc, *model, *settings, *tests; /* the document, and its members */
    struct bn_table table;                   /* of bn_harness_table */
    bool matched;                            /* --filter included a row */
    bool sampled;                            /* others is known */
    size_t n_valid, n_invalid;               /* verdicts */
};

/* A row of samples that are timed, one metric of a test, and what they are divided by. */
struct bn_harness_row {
    const char *test, *metric; /* of its series; a metric of nanoseconds, less is better */
    double per_call;           /* units of work per call */
    double read_bytes;         /* read by one call, all threads together, */
    size_t set_bytes;          /* from a set of this size; 0: no limit applies */
    unsigned n_threads;
    size_t n_warmup; /* leading samples that do not count */
    /* Checks the output of the timed calls: NULL when it is right, else the reason. NULL: no check. */
    const char *(*differs)(char why[160], const void *arg);
    const void *arg;
    struct bn_summary ns; /* the result, when it is valid */
    bool valid;
};

/* --isa with "all"; see bn_harness_choose_isas. */
#define BN_HARNESS_ISA                                                                              \
    BN_OPTION("isa", "instruction set; all: every one of this machine", .arg = BN_ISA_NAMES "|all", \
              .group = "Machine", .env = "BN_ISA", .preset = "auto",                                \
              BN_TO_TEXT(struct bn_bench_options, isa))
extern const struct bn_option bn_bench_harness_options[]; /* --min-time, --filter, --threads */

/* Measures the clock, and begins the document with settings; a command adds its own. Released by bn_harness_finish in any
 * case. */
void bn_harness_begin(struct bn_harness *h, struct bn_args *args, const char *command);
/* The same, and reads --threads and --min-time. Opens the model once, so that an invalid one fails first; kernels use only
 * its shapes. */
BN_MUST_CHECK bn_status bn_harness_open(struct bn_harness *h, struct bn_args *args, const char *command,
                                        bn_error *err);
/* After the last sample: what other processes used meanwhile. A command calls it that prints it. */
void bn_harness_sampled(struct bn_harness *h);
/* With --json the document; exit code 1 when a test was invalid or nothing was measured. Passes on status when that is an
 * error. */
BN_MUST_CHECK bn_status bn_harness_finish(struct bn_harness *h, bn_status status, bn_error *err);

/* --isa: the instruction set of that name, or with "all" every one of this machine. */
BN_MUST_CHECK bn_status bn_harness_choose_isas(struct bn_harness *h, bn_error *err);
/* Is the kernel of this slot the same function as that of a lower instruction set? */
bool bn_harness_is_repeated(const struct bn_harness *h, size_t isa, enum bn_kernel slot);

/* The tokens of a file, allocated, or of the built-in text for BN_HARNESS_TEXT: at most `most`, and at least 2. sha256: of
 * the text; may be NULL. */
#define BN_HARNESS_TEXT "validation"
BN_MUST_CHECK bn_status bn_harness_read_text(const bn_model *model, const char *path, size_t most,
                                             int32_t **ids, size_t *n, char sha256[BN_SHA256_HEX],
                                             bn_error *err);

/* Does --filter include this name? */
bool bn_harness_wants(struct bn_harness *h, const char *name);

/* ---- tests and series ---- */

/* A new test of the document, an object of facts. The verdict follows, or several: the first that is not valid stays. */
bn_json *bn_harness_test(struct bn_harness *h, const char *name);
/* Puts and counts a verdict, and with a bad one the reason. */
void bn_harness_judge(struct bn_harness *h, bn_json *test, enum bn_bench_verdict verdict, const char *reason);
/* A test that cannot run here. */
void bn_harness_skip(struct bn_harness *h, const char *name, const char *why);
/* A fact that has to be true, and is a verdict. */
void bn_harness_state(struct bn_harness *h, bn_json *test, const char *name, bool truth);

/* Times the body and puts the samples as bn_harness_put_samples does. */
BN_MUST_CHECK bn_status bn_harness_time(struct bn_harness *h, struct bn_harness_row *row,
                                        const struct bn_bench_body *body, bn_json *test, bn_error *err);
/* Judges n samples of this many calls, taken by the caller, and adds the series when they are valid. */
BN_MUST_CHECK bn_status bn_harness_put_samples(struct bn_harness *h, struct bn_harness_row *row,
                                               uint64_t calls, const uint64_t *ns, size_t n, bn_json *test,
                                               bn_error *err);
/* A series of one value. */
BN_MUST_CHECK bn_status bn_harness_put_value(struct bn_harness *h, const char *test, const char *metric,
                                             double value, bn_error *err);

/* ---- text ---- */

/* Prints text unless --json is given. */
void bn_harness_print(const struct bn_harness *h, const char *fmt, ...) BN_PRINTF(2, 3);
/* Begins a table, which is filled as rows are measured. It is printed after a blank line, without --json, by
 * bn_harness_flush: when the next one begins, and at the end of the command. */
BN_MUST_CHECK bn_status bn_harness_table(struct bn_harness *h, const char *const *heads, const char *align,
                                         bn_error *err);
BN_MUST_CHECK bn_status bn_harness_flush(struct bn_harness *h, bn_error *err);
/* A row of the table with the test, the median time and its spread (MAD). */
void bn_harness_put_row(struct bn_harness *h, const struct bn_harness_row *row);

/* ---- bn-bench memory ---- */

/* Model and session: bytes by purpose, leaks, memory pressure. */
BN_MUST_CHECK bn_status bn_memory_model(struct bn_harness *s, bn_error *err);
/* Bytes that the heap holds, in use or free; 0 where the C library does not report it. */
uint64_t bn_memory_held(void);
/* NULL when the same number of bytes is in use after as before; else the difference as text, in out. */
const char *bn_memory_leak(char out[160], const struct bn_mem_stats *before,
                           const struct bn_mem_stats *after);

#endif
