/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: settings, samples and figures.
 *
 * All samples are kept, in the order of time: nothing is dropped. Figures are computed from the samples after the warm-up. A
 * test whose samples are invalid (another output, a clock that does not advance) or exceed --timeout has no figures.
 */
#ifndef BN_BENCH_RUN_H
#define BN_BENCH_RUN_H

#include "base/digest.h"
#include "lab/compare/metrics.h"
#include "lab/host/busy.h"
#include "lab/host/meters.h"
#include "lab/kit/loops.h"
#include "lab/sampler/recorder.h"
#include "lab/stats/interval.h"
#include "tools/bench/harness.h"
#include "tools/cli/progress.h"

#define BN_BENCH_MAX_TOKENS (1u << 20)
/* Options of run and limits. */
#define BN_BENCH_RUN_TESTS(prompts_preset, decodes_preset)                                                   \
    BN_OPTION("n-prompt", "prompt lengths in tokens; 0: no prompt test", .letter = 'p', .arg = "LIST",       \
              .group = "Tests", .preset = (prompts_preset),                                                  \
              BN_TO_LIST(struct bn_bench_options, prompts, 0, BN_BENCH_MAX_TOKENS)),                         \
        BN_OPTION("n-predict", "tokens to decode, one by one; 0: no decode test", .letter = 'n',             \
                  .arg = "LIST", .group = "Tests", .preset = (decodes_preset),                               \
                  BN_TO_LIST(struct bn_bench_options, decodes, 0, BN_BENCH_MAX_TOKENS)),                     \
        BN_OPTION("depth", "tokens already in the context (filling it is not timed)", .letter = 'd',         \
                  .arg = "LIST", .group = "Tests", .preset = "0",                                            \
                  BN_TO_LIST(struct bn_bench_options, depths, 0, BN_BENCH_MAX_TOKENS)),                      \
        BN_OPTION("batch", "tokens of a prompt evaluated together, 1 to 4096", .letter = 'b', .arg = "LIST", \
                  .group = "Tests", .preset = "128", BN_TO_LIST(struct bn_bench_options, batches, 0, 4096))

#define BN_BENCH_NAME 64u /* of a test, with the NUL */

/* What a sample used; NaN where this machine does not report it. */
enum bn_bench_used {
    BN_USED_CYCLES,
    BN_USED_INSTRUCTIONS,
    BN_USED_CACHE_REFERENCES,
    BN_USED_CACHE_MISSES,
    BN_USED_CPU_NS,
    BN_USED_JOULES,
    BN_USED_HIT_RATE,     /* of the cache: a share */
    BN_USED_PEAK_BYTES,   /* of resident memory */
    BN_USED_DEVICE_BYTES, /* of the memory of a device, of all sessions */
    BN_USED
};
#define BN_BENCH_COUNTERS 4u
struct bn_bench_meters {
    bool off;                        /* under mpirun: these are of one process, not of the whole */
    int counters[BN_BENCH_COUNTERS]; /* of all threads; -1 when it does not work */
    /* At the beginning of a sample. */
    struct bn_perf_count counts[BN_BENCH_COUNTERS];
    struct bn_energy energy;
    char why[BN_USED_PEAK_BYTES][192]; /* it is not known */
    bool resets;   /* the system permitted resetting the peak of memory before each sample */
    uint64_t peak; /* of memory, of the process, from its start; 0 when unknown */
};

/* One run of bn_generate, or several together. */
struct bn_bench_sample {
    uint64_t ns;             /* of the prompt, of all tokens after the first, or of both: the whole call */
    uint64_t total_ns;       /* of the whole call, as are bytes and noise */
    uint64_t first_token_ns; /* from the call to the first token */
    uint64_t *times;         /* bn_bench_n_times: of each token after the first, or of each concurrent call */
    uint64_t evaluated;      /* tokens evaluated by the network */
    uint64_t bytes;          /* read, as counted by the kernels */
    struct bn_noise noise;
    bn_rank_stat ranks; /* what they exchanged; zeros without them */
    double used[BN_USED];
    double bandwidth; /* bytes per second of a plain loop just before this round */
    /* SHA-256 of the chosen ids (u32 little endian) and the last hidden state (binary32). */
    char output[BN_SHA256_HEX];
    bool disturbed; /* after the warm-up: see bn_bench_conclude */
};

/* A test at one depth with one number of threads and one size of batch. */
struct bn_bench_config {
    bool decode;
    uint32_t tokens, depth, n_threads, n_batch;
    uint32_t answer;         /* tokens generated after the prompt; 0: the test is of the prompt alone */
    uint32_t n_sequences;    /* that are decoded together, in one pass */
    uint32_t n_concurrent;   /* generations at once, each with a session and threads of its own */
    uint32_t n_busy;         /* processes that keep a CPU busy meanwhile */
    bn_session *session;     /* shared; its timeline holds depth tokens between samples */
    bn_sequence **sequences; /* n_sequences or more; shared; the first is the session's own */
    bn_session **crowd;      /* n_concurrent or more; shared; the first is the session; NULL where none are */
    struct bn_bench_sample *samples;
    size_t n_samples, room;
    size_t n_warmup;                         /* leading samples that do not count */
    bool settled;                            /* there was no trend after them, so no further one is added */
    bool steady;                             /* there is no trend after them */
    bn_kernel_stat kernels[BN_KERNEL_COUNT]; /* sums over all samples */
    size_t n_kernels;
    bn_json *test; /* its object in the document */
    enum bn_bench_verdict verdict;
    char reason[BN_BENCH_REASON];      /* of a verdict other than BN_BENCH_VALID */
    char implausible[BN_BENCH_REASON]; /* why its speed is implausible; empty when it is plausible */
};

/* ---- targets (target.c) ---- */

struct bn_bench_quantity {
    const char *name, *tests, *metric; /* tests: the first words of tests, with bars between them */
    const char *unit;                  /* of the target; "tok/s" of a metric in ns is its reciprocal */
    bool p95;
};

struct bn_bench_target {
    const char *text; /* borrowed */
    const struct bn_bench_quantity *quantity;
    char words[48];       /* that the test must have, too */
    bool least;           /* at least wanted, else at most */
    double wanted, found; /* in its unit; found is NaN without data */
    char test[80];        /* the worst test, or the best one; empty without one */
    bool met;             /* by the median, or the quantile */
};

/* Reads a target. BN_ERR_ARG, with a hint, for one that is not understood. */
BN_MUST_CHECK bn_status bn_bench_target_read(struct bn_bench_target *target, const char *text, bn_error *err);
/* Judges it by the worst of its tests, or the best one. */
BN_MUST_CHECK bn_status bn_bench_target_judge(struct bn_bench_target *target,
                                              const struct bn_series_list *all, bn_error *err);

/* ---- the measurement ---- */

/* The text of --score, and how well the model predicts it. */
struct bn_bench_score {
    char name[64];
    char sha256[BN_SHA256_HEX];
    int32_t *ids;
    size_t n_ids;
    struct bn_score score; /* n is 0 without --score */
};

/* Bytes that one token reads, by where they are. */
struct bn_bench_reads {
    uint64_t weights, head, cache;
};

/* A measurement in progress, and its samples. */
struct bn_bench_measurement {
    struct bn_harness h;
    struct bn_bench_options *o;
    uint32_t warmup; /* at first, when it is automatic */
    double confidence;
    uint64_t timeout_ns; /* 0: no limit */
    bn_model *model;
    int32_t *ids; /* the timeline: each prompt is a piece of it */
    struct bn_bench_target *targets;
    size_t n_targets;
    struct bn_loops *loops;        /* of --busy; NULL without it */
    struct bn_bench_config *kinds; /* of tests, of which there is one at each depth and so on */
    size_t n_kinds;
    uint32_t longest, longest_prompt; /* tokens of a test, and of its prompt */
    struct bn_progress progress;
    uint64_t start_ns; /* after loading and filling */
    double *scratch;   /* room for the samples of a test, token by token */

    double *load_ns; /* of opening the model, n_loads of the options */
    struct bn_bench_meters meters;
    size_t n_tokenized;  /* tokens of the built-in text; 0: the model has no vocabulary */
    double *tokenize_ns; /* per token, of each round, warm-ups too */
    struct bn_bench_score score;
    uint64_t token_bytes; /* read by the first token; the bandwidth is measured with a set of this size */
    double *bandwidth;    /* n_rounds x set.n_threads */
    uint32_t n_rounds;
    struct bn_bench_config *configs;
    size_t n_configs;
};

/* ---- the measurement (run.c) ---- */

/* Reads the options, opens the model and the sessions, and fills these. Released by bn_bench_release_run in any case. */
BN_MUST_CHECK bn_status bn_bench_prepare_run(struct bn_bench_measurement *m, struct bn_args *args,
                                             const char *command, bn_error *err);
/* Takes all samples, judges the tests, and puts tests and series into the document. */
BN_MUST_CHECK bn_status bn_bench_measure(struct bn_bench_measurement *m, bn_error *err);
void bn_bench_release_run(struct bn_bench_measurement *m);

/* ---- samples (sample.c) ---- */

/* Before the sessions are opened: their threads are counted. */
void bn_bench_meters_open(struct bn_bench_meters *meters);
void bn_bench_meters_close(struct bn_bench_meters *meters);
/* What a token reads in a session that holds this many tokens, by its counters. */
BN_MUST_CHECK bn_status bn_bench_learn_reads(const struct bn_bench_measurement *m, bn_session *session,
                                             uint32_t depth, struct bn_bench_reads *reads, bn_error *err);
/* Appends a sample. Afterwards the timeline is as long as before. A sample that exceeds --timeout sets the verdict of the
 * test. */
BN_MUST_CHECK bn_status bn_bench_take(struct bn_bench_measurement *m, struct bn_bench_config *config,
                                      double bandwidth, bn_error *err);

/* ---- texts (text.c) ---- */

/* Tokenizes the built-in text, once a round. */
BN_MUST_CHECK bn_status bn_bench_tokenize(struct bn_bench_measurement *m, bn_error *err);
/* Reads and tokenizes the text of --score; */
BN_MUST_CHECK bn_status bn_bench_score_read(struct bn_bench_measurement *m, bn_error *err);
/* scores it, after the measurement. */
BN_MUST_CHECK bn_status bn_bench_score_take(struct bn_bench_measurement *m, bn_error *err);
BN_MUST_CHECK bn_status bn_bench_text_put(struct bn_bench_measurement *m, bn_error *err);
void bn_bench_text_print(const struct bn_bench_measurement *m);

/* ---- figures (figures.c) ---- */

/* Times of their own that a sample has: of tokens, or of concurrent generations. */
uint32_t bn_bench_n_times(const struct bn_bench_config *c);
/* "decode n=32 d=0 t=2", "decode n=32 d=0 t=2 seq=8", "concurrent k=2 n=32 d=0 t=2": the words of its series. */
void bn_bench_config_name(const struct bn_bench_config *config, char *out, size_t room);
/* "decode", "prompt", "generate", "concurrent". */
const char *bn_bench_config_kind(const struct bn_bench_config *config);

/* The numbers of every sample in scratch, the warm-ups first; the number of those is in *n_warmup unless it is NULL, then they
 * are left out. Returns how many; 0 when the test has no such numbers, or one is not known. The name is one of
 * lab/history/metrics.c, or "tokens_per_second". */
size_t bn_bench_collect(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                        const char *metric, size_t *n_warmup);
/* Adds the series of a test; what this machine does not report becomes null in the test. */
BN_MUST_CHECK bn_status bn_bench_config_series(struct bn_bench_measurement *m,
                                               const struct bn_bench_config *c, bn_error *err);
/* The median of those after the warm-up; NaN without any. */
double bn_bench_median_of(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                          const char *metric);

/* Makes room in scratch for the samples taken so far. */
BN_MUST_CHECK bn_status bn_bench_reserve(struct bn_bench_measurement *m, bn_error *err);
/* Are this many samples enough to detect a trend? */
bool bn_bench_can_settle(size_t n);
/* Whether a test shows no trend, of the samples after the warm-up, so far. */
BN_MUST_CHECK bn_status bn_bench_is_steady(const struct bn_bench_measurement *m,
                                           const struct bn_bench_config *c, bool *steady, bn_error *err);

/* Marks configurations whose output differs from the first sample of the same test: threads, batches and
 * rounds must not change it. */
void bn_bench_check_outputs(struct bn_bench_config *configs, size_t n);
/* After the last sample: verdicts, steadiness, disturbances. A sample was disturbed when the steal time of the hypervisor
 * grew, when tasks waited for more than a hundredth of it, or when it was interrupted more than twice as often as the median,
 * and more than twice. */
BN_MUST_CHECK bn_status bn_bench_conclude(struct bn_bench_measurement *m, bn_error *err);

/* ---- output (output.c) ---- */

/* Puts the tests and their series into the document; those without figures have no series. */
BN_MUST_CHECK bn_status bn_bench_run_put(struct bn_bench_measurement *m, bn_error *err);
BN_MUST_CHECK bn_status bn_bench_run_print(const struct bn_bench_measurement *m, bn_error *err);
/* Reads --target, judges them by the series, and puts them. BN_ERR_ARG, with a hint, for one that is not understood. */
BN_MUST_CHECK bn_status bn_bench_targets_read(struct bn_bench_measurement *m, bn_error *err);
BN_MUST_CHECK bn_status bn_bench_targets_judge(struct bn_bench_measurement *m, bn_error *err);
/* With --json only those that were missed, on standard error. */
void bn_bench_targets_print(const struct bn_bench_measurement *m);

#endif
