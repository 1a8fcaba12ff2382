/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: settings, samples and figures.
 *
 * All samples are kept, in the order of time: warm-ups are marked, outliers are labelled, nothing is dropped.
 * Figures are computed from the samples after the warm-up. A configuration whose samples are invalid (another
 * output, a clock that does not advance) or exceed --timeout has no figures.
 */
#ifndef BN_BENCH_RUN_H
#define BN_BENCH_RUN_H

#include "base/digest.h"
#include "bn.h"
#include "kernels/kernels.h"
#include "lab/compare/score.h"
#include "lab/history/series.h"
#include "lab/host/energy.h"
#include "lab/host/noise.h"
#include "lab/kit/loops.h"
#include "lab/sampler/counters.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/check.h"
#include "tools/bench/target.h"
#include "tools/cli/progress.h"

#define BN_BENCH_NAME 64u /* of a configuration, with the NUL */

/* Sources of what a sample used. */
#define BN_BENCH_COUNTERS 3u
struct bn_bench_meters {
    struct bn_bench_counter {
        int fd; /* of all threads; open when it works */
        bool works;
        char why[160];
    } counters[BN_BENCH_COUNTERS];
    struct bn_energy energy; /* at the beginning of a sample */
    bool resets;             /* the system permitted resetting the peak of memory before each sample */
};

/* What a sample used (usage.c). */
struct bn_bench_usage {
    uint64_t cpu_ns, peak_rss_bytes, counts[BN_BENCH_COUNTERS];
    double joules; /* NaN when unknown */
};

/* One run of bn_generate. */
struct bn_bench_sample {
    uint32_t round;
    uint64_t start_ns;       /* since the measurement began */
    uint64_t ns;             /* of the prompt, of all tokens after the first, or of both: the whole call */
    uint64_t total_ns;       /* of the whole call, as are bytes and noise */
    uint64_t first_token_ns; /* from the call to the first token */
    uint64_t *token_ns;      /* bn_bench_n_times: one for each token after the first */
    uint64_t evaluated;      /* tokens evaluated by the network */
    uint64_t bytes, ops;     /* counted by the kernels */
    struct bn_noise noise;
    struct bn_bench_usage usage;
    double bandwidth; /* bytes per second of a plain loop just before this round */
    /* SHA-256 of the chosen ids (u32 little endian) and the last hidden state (binary32). */
    char output[BN_SHA256_HEX];
    /* After the warm-up: */
    enum bn_outlier outlier;        /* of its time */
    bool stolen, pressed, switched; /* disturbances: see bn_bench_conclude */
};

/* A test at one depth with one number of threads and one size of batch. */
struct bn_bench_config {
    bool decode;
    uint32_t tokens, depth, n_threads, n_batch;
    uint32_t answer;         /* tokens generated after the prompt; 0: the test is of the prompt alone */
    uint32_t n_sequences;    /* that are decoded together */
    uint32_t n_busy;         /* processes that keep a CPU busy meanwhile */
    bn_session *session;     /* shared; its timeline holds depth tokens between samples */
    bn_sequence **sequences; /* n_sequences or more; shared; the first is the session's own */
    struct bn_bench_sample *samples;
    size_t n_samples, room;
    size_t n_warmup;                         /* leading samples that do not count */
    bool settled;                            /* there was no trend after them, so no further one is added */
    bool steady;                             /* there is no trend after them */
    bn_kernel_stat kernels[BN_KERNEL_COUNT]; /* sums over all samples */
    size_t n_kernels;
    enum bn_bench_verdict verdict;
    char reason[160];                  /* of a verdict other than BN_BENCH_VALID */
    char implausible[BN_BENCH_REASON]; /* why its speed is implausible; empty when it is plausible */
};

/* Opening the model once. */
struct bn_bench_load {
    uint64_t ns;
    double cached; /* share of the file that was in the page cache just before; -1: not known */
};

/* Concurrent generations of one decode configuration, each with its own session and threads. They start
 * together, round by round. */
struct bn_bench_group {
    const struct bn_bench_config *config;
    uint32_t n_requests, n_rounds;
    uint64_t *request_ns;           /* n_rounds x n_requests: of the whole generation */
    uint64_t *makespan_ns;          /* n_rounds: from the first start to the last end */
    char (*outputs)[BN_SHA256_HEX]; /* as request_ns */
    enum bn_bench_verdict verdict;
    char reason[BN_BENCH_REASON];
};

/* Peaks of resident memory, in bytes. */
struct bn_bench_memory {
    uint64_t peak;  /* of the process, from its start; 0 when unknown */
    uint64_t round; /* of the samples of this round so far */
    double *rounds; /* of each round, warm-ups too; none unless the peak can be reset */
    size_t n_rounds;
};

/* Tokenizing the built-in text, once a round. */
struct bn_bench_tokenize {
    size_t n_bytes, n_tokens;
    double *ns; /* of each round, warm-ups too */
    size_t n;   /* 0: the model has no vocabulary */
};

/* A test of a prompt of this many tokens and an answer of as many. */
struct bn_bench_pair {
    uint32_t prompt, answer;
};

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

/* A measurement in progress, and its samples. Figures are computed from these (figures.c). */
struct bn_bench_measurement {
    struct bn_args *args;
    struct bn_bench_options *o;
    uint32_t reps, warmup;        /* at first, when they are automatic */
    double precision, confidence; /* shares */
    uint64_t max_ns, timeout_ns;  /* timeout 0: no limit */
    bn_model *model;
    int32_t *ids; /* the timeline: each prompt is a piece of it */
    struct bn_bench_target *targets;
    size_t n_targets;
    struct bn_loops *loops;      /* of --busy; NULL without it */
    struct bn_bench_pair *pairs; /* of --generate */
    size_t n_pairs;
    struct bn_progress progress;
    uint64_t start_ns; /* after loading and filling */
    bool settled;      /* no further sample becomes warm-up */
    double *scratch;   /* room for the samples of a configuration, token by token */

    struct bn_machine machine;
    struct bn_others others; /* during the measurement */
    struct bn_clock_facts clock;
    struct bn_bench_load *loads; /* set.n_loads */
    struct bn_bench_memory memory;
    struct bn_bench_meters meters;
    struct bn_bench_tokenize tokenize;
    struct bn_bench_score score;
    struct bn_series_list series; /* of the document, after the measurement */
    uint64_t token_bytes; /* read by the first token; the bandwidth is measured with a set of this size */
    double *bandwidth;    /* n_rounds x set.n_threads */
    uint32_t n_rounds;
    const char *ended_by; /* the option that ended the measurement */
    struct bn_bench_config *configs;
    size_t n_configs;
    struct bn_bench_group *groups;
    size_t n_groups;
};

/* ---- the measurement (run.c) ---- */

/* Reads the options, opens the model and the sessions, and fills these. Released by bn_bench_measured in any
 * case. */
BN_MUST_CHECK bn_status bn_bench_prepare_run(struct bn_bench_measurement *m, bn_error *err);
/* Takes all samples. */
BN_MUST_CHECK bn_status bn_bench_measure(struct bn_bench_measurement *m, bn_error *err);
/* Sets the exit code by the verdicts and targets when status is BN_OK, and releases everything. */
void bn_bench_measured(struct bn_bench_measurement *m, bn_status status);

/* ---- samples (sample.c) ---- */

/* What a token reads in a session that holds this many tokens, by its counters. */
BN_MUST_CHECK bn_status bn_bench_learn_reads(const struct bn_bench_measurement *m, bn_session *session,
                                             uint32_t depth, struct bn_bench_reads *reads, bn_error *err);
/* Sets up a generation: the prompt, or one token and the tokens decoded after it. */
void bn_bench_ask(const struct bn_bench_measurement *m, const struct bn_bench_config *config,
                  struct bn_generation *gen);
/* Stops it at the first token after *until_ns (bn_clock_ns). */
void bn_bench_watch(struct bn_generation *gen, uint64_t *until_ns);
/* The digest of its output: see struct bn_bench_sample. */
BN_MUST_CHECK bn_status bn_bench_digest(const struct bn_bench_measurement *m, const bn_session *session,
                                        const struct bn_generation *gen, char hex[BN_SHA256_HEX],
                                        bn_error *err);
/* Appends a sample. Afterwards the timeline is as long as before. A sample that exceeds --timeout sets the
 * verdict of the configuration. */
BN_MUST_CHECK bn_status bn_bench_take(struct bn_bench_measurement *m, struct bn_bench_config *config,
                                      uint32_t round, double bandwidth, bn_error *err);

/* ---- concurrent generations (concurrent.c) ---- */

/* Measures every configuration of decoding with every number of --concurrent: m->warmup rounds that are
 * dropped, then m->reps. */
BN_MUST_CHECK bn_status bn_bench_concurrent(struct bn_bench_measurement *m, bn_error *err);
void bn_bench_concurrent_release(struct bn_bench_measurement *m);
/* Sets the verdict: all outputs have to equal that of the configuration alone. */
void bn_bench_group_judge(const struct bn_bench_measurement *m, struct bn_bench_group *group);
/* Tokens per second of all generations of a round together. */
double bn_bench_group_rate(const struct bn_bench_group *group, uint32_t round);
/* Jain's index of the rates: 1 when all are equally fast, 1 / n_requests when only one advances. */
double bn_bench_group_fairness(const struct bn_bench_group *group, uint32_t round);
BN_MUST_CHECK bn_status bn_bench_concurrent_print(const struct bn_bench_measurement *m, bn_error *err);
void bn_bench_concurrent_put(const struct bn_bench_measurement *m, bn_json *doc);
BN_MUST_CHECK bn_status bn_bench_concurrent_series(const struct bn_bench_measurement *m,
                                                   struct bn_series_list *all, bn_error *err);

/* ---- what samples use (usage.c) ---- */

/* Before the sessions are opened: their threads are counted. */
void bn_bench_meters_open(struct bn_bench_meters *meters);
void bn_bench_meters_close(struct bn_bench_meters *meters);
void bn_bench_usage_begin(struct bn_bench_measurement *m, struct bn_bench_usage *usage);
void bn_bench_usage_end(struct bn_bench_measurement *m, struct bn_bench_usage *usage);
void bn_bench_usage_put(const struct bn_bench_measurement *m, bn_json *o, const struct bn_bench_usage *usage);
BN_MUST_CHECK bn_status bn_bench_usage_series(const struct bn_bench_measurement *m,
                                              const struct bn_bench_config *c, struct bn_series_list *all,
                                              bn_error *err);

/* ---- texts (text.c) ---- */

/* Tokenizes the built-in text. */
BN_MUST_CHECK bn_status bn_bench_tokenize(struct bn_bench_measurement *m, bn_error *err);
/* Reads and tokenizes the text of --score; */
BN_MUST_CHECK bn_status bn_bench_score_read(struct bn_bench_measurement *m, bn_error *err);
/* scores it, after the measurement. */
BN_MUST_CHECK bn_status bn_bench_score_take(struct bn_bench_measurement *m, bn_error *err);
BN_MUST_CHECK bn_status bn_bench_text_series(const struct bn_bench_measurement *m, struct bn_series_list *all,
                                             bn_error *err);
void bn_bench_text_put(const struct bn_bench_measurement *m, bn_json *doc);
void bn_bench_score_settings(const struct bn_bench_measurement *m, bn_json *settings);
void bn_bench_text_print(const struct bn_bench_measurement *m);
void bn_bench_text_release(struct bn_bench_measurement *m);

/* ---- targets (targets.c) ---- */

/* Reads --target. BN_ERR_ARG, with a hint, for one that is not understood. */
BN_MUST_CHECK bn_status bn_bench_targets_read(struct bn_bench_measurement *m, bn_error *err);
/* Judges them by the series of the run. */
BN_MUST_CHECK bn_status bn_bench_targets_judge(struct bn_bench_measurement *m, bn_error *err);
void bn_bench_targets_print(const struct bn_bench_measurement *m);
void bn_bench_targets_put(const struct bn_bench_measurement *m, bn_json *doc);

/* ---- figures (figures.c) ---- */

/* Tokens that its rate counts, and tokens of one sample that have a time of their own. */
uint32_t bn_bench_n_rated(const struct bn_bench_config *c);
uint32_t bn_bench_n_times(const struct bn_bench_config *c);
/* "decode n=32 d=0 t=2", "decode n=32 d=0 t=2 seq=8", "decode n=32 d=0 t=2 busy=1": the words of its series. */
void bn_bench_config_name(const struct bn_bench_config *config, char *out, size_t room);
typedef double (*bn_bench_figure)(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_ns_per_token(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_tokens_per_second(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_first_token_ns(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_bytes_per_token(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_bytes_per_second(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_share_of_bandwidth(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_cpu_use(const struct bn_bench_config *c, const struct bn_bench_sample *s);
/* The figure of every sample after the warm-up, in the m's scratch; returns how many. */
size_t bn_bench_collect(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                        bn_bench_figure figure);
/* The times of every token of these samples; only decoding has them. */
size_t bn_bench_collect_tokens(const struct bn_bench_measurement *m, const struct bn_bench_config *c);
/* How evenly tokens stream, one number of each sample: the median of the absolute differences of neighbouring
 * times (0 samples: fewer than 3 tokens have a time), and the 95 % quantile of the times less their median
 * (fewer than 20). At least 1 ns. */
size_t bn_bench_collect_jitter(const struct bn_bench_measurement *m, const struct bn_bench_config *c);
size_t bn_bench_collect_spread(const struct bn_bench_measurement *m, const struct bn_bench_config *c);
/* The median rate by that of the same test without busy processes; NaN when there are none, or no figures. */
double bn_bench_share_of_quiet(const struct bn_bench_measurement *m, const struct bn_bench_config *c);
/* Bytes of the KV cache that one position takes in a session. */
uint64_t bn_bench_kv_bytes(const bn_model *model);

/* The time per token by depth: ns = base + slope * depth, fitted to each round by least squares; medians over
 * the rounds. */
struct bn_bench_depth_fit {
    uint32_t tokens, n_threads;
    size_t n; /* rounds after all warm-ups */
    struct bn_interval base_ns, ns_per_position;
};
/* n is 0 when there are fewer than two depths, or a configuration without figures. */
BN_MUST_CHECK bn_status bn_bench_fit_depth(struct bn_bench_depth_fit *out,
                                           const struct bn_bench_measurement *m, uint32_t tokens,
                                           uint32_t n_threads, bn_error *err);

/* Makes room in scratch for the samples taken so far. */
BN_MUST_CHECK bn_status bn_bench_reserve(struct bn_bench_measurement *m, bn_error *err);
/* Are this many samples enough to detect a trend? */
bool bn_bench_can_settle(size_t n);
/* Whether a configuration shows no trend, whether all medians are known to m->precision; of the samples
 * after the warm-up, so far. */
BN_MUST_CHECK bn_status bn_bench_is_steady(const struct bn_bench_measurement *m,
                                           const struct bn_bench_config *c, bool *steady, bn_error *err);
BN_MUST_CHECK bn_status bn_bench_all_precise(const struct bn_bench_measurement *m, bool *all, bn_error *err);

/* Marks configurations whose output differs from the first sample of the same test: threads, batches and
 * rounds must not change it. */
void bn_bench_check_outputs(struct bn_bench_config *configs, size_t n);
/* After the last sample: verdicts, steadiness, labels. A sample is stolen when the steal time of the
 * hypervisor grew; pressed when tasks waited for more than a hundredth of it; switched when it was
 * interrupted more than twice as often as the median, and more than twice. */
BN_MUST_CHECK bn_status bn_bench_conclude(struct bn_bench_measurement *m, bn_error *err);

/* Fills m->series; configurations without figures have none. */
BN_MUST_CHECK bn_status bn_bench_run_series(struct bn_bench_measurement *m, bn_error *err);

/* ---- output (table.c, document.c) ---- */

/* Two cells: the median and the 95 % quantile of times, in milliseconds. */
void bn_bench_put_times(struct bn_table *table, const double *ns, size_t n);
/* Price of a million tokens at the median rate, by --price-per-hour. */
double bn_bench_price(const struct bn_bench_measurement *m, const struct bn_bench_config *c);
BN_MUST_CHECK bn_status bn_bench_run_print(const struct bn_bench_measurement *m, bn_error *err);
/* A document of the results, NULL when memory is short. */
BN_MUST_CHECK bn_status bn_bench_run_document(bn_json **out, const struct bn_bench_measurement *m,
                                              bn_error *err);

#endif
