/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: what is measured, and how it is shown.
 *
 * All samples stay, in the order of time: those of the warm-up are marked, outliers are labelled, nothing is
 * dropped. Figures are made of the samples after the warm-up. A configuration whose samples cannot be
 * believed (another output, a clock that stands still) or did not come in time has no figures at all.
 */
#ifndef BN_BENCH_RUN_H
#define BN_BENCH_RUN_H

#include "base/digest.h"
#include "bn.h"
#include "kernels/kernels.h"
#include "lab/history/series.h"
#include "lab/host/noise.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/check.h"
#include "tools/cli/progress.h"

/* One run of bn_generate. */
struct bn_bench_sample {
    uint32_t round;
    uint64_t start_ns;       /* since the measurement began */
    uint64_t ns;             /* of evaluating the prompt; or of choosing all tokens after the first */
    uint64_t total_ns;       /* of the whole call: what bytes and noise belong to */
    uint64_t first_token_ns; /* from the call to the first token */
    uint64_t *token_ns;      /* decode: one for each token after the first */
    uint64_t evaluated;      /* tokens that went through the network */
    uint64_t bytes, ops;     /* that the kernels counted */
    struct bn_noise noise;
    double bandwidth; /* bytes a second that a plain loop read just before this round */
    /* SHA-256 of the ids that came (u32 little endian) and the last hidden state (binary32). */
    char output[BN_SHA256_HEX];
    /* Behind the warm-up: */
    enum bn_outlier outlier;        /* of its time */
    bool stolen, pressed, switched; /* what else went on: see bn_bench_conclude */
};

/* A test at one depth with one number of threads and one size of batch. */
struct bn_bench_config {
    bool decode;
    uint32_t tokens, depth, n_threads, n_batch;
    bn_session *session; /* its timeline holds depth tokens between samples */
    struct bn_bench_sample *samples;
    size_t n_samples, room;
    size_t n_warmup;                         /* samples in front that do not count */
    bool settled;                            /* there was no trend behind them: no more will be */
    bool steady;                             /* there is no trend behind them */
    bn_kernel_stat kernels[BN_KERNEL_COUNT]; /* sums over all samples */
    size_t n_kernels;
    enum bn_bench_verdict verdict;
    char reason[160];      /* of a verdict other than BN_BENCH_VALID */
    char implausible[160]; /* why its speed is hard to believe; empty when it is not */
};

/* A session for each number of threads at each depth with each size of batch. */
struct bn_bench_place {
    uint32_t n_threads, depth, n_batch;
    bn_session *session;
};

/* Opening the model once. */
struct bn_bench_load {
    uint64_t ns;
    double cached; /* share of the file that was in the page cache just before; -1: not known */
};

/* Generations at once, each with a session and threads of its own, of what a configuration of decoding asks
 * for. They start together, round by round. */
struct bn_bench_crowd {
    const struct bn_bench_config *config;
    uint32_t n_requests, n_rounds;
    uint64_t *request_ns;           /* n_rounds x n_requests: of the whole generation */
    uint64_t *makespan_ns;          /* n_rounds: from the first start to the last end */
    char (*outputs)[BN_SHA256_HEX]; /* as request_ns */
    enum bn_bench_verdict verdict;
    char reason[BN_BENCH_REASON];
};

struct bn_bench_plan {
    const struct bn_args *args;
    bn_model *model;
    struct bn_machine machine;
    struct bn_others others; /* while samples were taken */
    uint32_t *prompts, *decodes, *depths, *threads, *batches;
    size_t n_prompts, n_decodes, n_depths, n_threads, n_batches;
    uint32_t reps, warmup;
    bool auto_reps, auto_warmup;
    double precision;
    uint64_t max_ns, timeout_ns; /* 0: no limit */
    uint64_t seed;

    struct bn_bench_load *loads;
    uint32_t n_loads;
    bool cold;

    uint64_t peak_rss;  /* of the process, from its start, in bytes; 0 when unknown */
    double *round_peak; /* of each round, warm-ups too, in bytes */
    size_t n_round_peak;
    bool peak_resets; /* so far */

    struct bn_progress progress;
    struct bn_bench_clock clock;
    uint64_t start_ns; /* of the measurement, behind loading and filling */
    int32_t *ids;      /* the timeline: each prompt is a piece of it */
    struct bn_bench_place *places;
    size_t n_places;
    struct bn_bench_config *configs;
    size_t n_configs;
    uint32_t *at_once; /* --concurrent */
    size_t n_at_once;
    struct bn_bench_crowd *crowds;
    size_t n_crowds;
    uint32_t n_rounds;    /* done */
    bool settled;         /* no more samples will be warm-up */
    const char *ended_by; /* the option that said it was enough */
    uint64_t token_bytes; /* that the first token read; the bandwidth is probed with a set of this size */
    double *bandwidth;    /* n_rounds x n_threads */
    double *scratch;      /* room for the samples of a configuration, token by token */
};

/* ---- taking samples (run_sample.c) ---- */

/* What one token reads, from the counters of a fresh session. */
BN_MUST_CHECK bn_status bn_bench_learn_bytes(struct bn_bench_plan *plan, bn_session *session, bn_error *err);
/* What is asked of a generation: the prompt, or one token and those behind it. */
void bn_bench_ask(const struct bn_bench_plan *plan, const struct bn_bench_config *config,
                  struct bn_generation *gen);
/* Has it stop at the first token behind *until_ns (bn_clock_ns). */
void bn_bench_watch(struct bn_generation *gen, uint64_t *until_ns);
/* The digest of what it came to: see struct bn_bench_sample. */
BN_MUST_CHECK bn_status bn_bench_digest(const struct bn_bench_plan *plan, const bn_session *session,
                                        const struct bn_generation *gen, char hex[BN_SHA256_HEX],
                                        bn_error *err);
/* Appends a sample. Afterwards the timeline is as long as before. One that takes too long is a verdict. */
BN_MUST_CHECK bn_status bn_bench_take(struct bn_bench_plan *plan, struct bn_bench_config *config,
                                      uint32_t round, double bandwidth, bn_error *err);

/* ---- generations at once (run_crowd.c) ---- */

/* Measures every configuration of decoding with every number of --concurrent: plan->warmup rounds that are
 * dropped, then plan->reps. */
BN_MUST_CHECK bn_status bn_bench_crowds(struct bn_bench_plan *plan, bn_error *err);
void bn_bench_crowds_release(struct bn_bench_plan *plan);
/* Passes a verdict: all outputs have to be that of the configuration alone. */
void bn_bench_crowd_judge(const struct bn_bench_plan *plan, struct bn_bench_crowd *crowd);
/* "concurrent k=4 n=32 d=0 t=1" */
void bn_bench_crowd_name(const struct bn_bench_crowd *crowd, char *out, size_t room);
/* Tokens of all generations of a round, by its makespan. */
double bn_bench_crowd_rate(const struct bn_bench_crowd *crowd, uint32_t round);
/* Jain's index of the generations' rates: 1 when all are as fast, 1 / n_requests when one has it all. */
double bn_bench_crowd_fairness(const struct bn_bench_crowd *crowd, uint32_t round);
void bn_bench_crowds_print(const struct bn_bench_plan *plan);
void bn_bench_crowds_put(const struct bn_bench_plan *plan, bn_json *doc);
BN_MUST_CHECK bn_status bn_bench_crowds_series(const struct bn_bench_plan *plan, struct bn_series_list *all,
                                               bn_error *err);

/* ---- loading (run_load.c) ---- */

/* Opens the model n_loads times, and leaves it open. */
BN_MUST_CHECK bn_status bn_bench_open_model(struct bn_bench_plan *plan, bn_error *err);

/* Around each round: the peak of its resident memory, where the system lets us set the mark back. */
void bn_bench_memory_begin(struct bn_bench_plan *plan);
BN_MUST_CHECK bn_status bn_bench_memory_end(struct bn_bench_plan *plan, bn_error *err);

/* ---- figures (run_figures.c) ---- */

/* "decode n=32 d=0 t=2": the words of its series. */
void bn_bench_config_name(const struct bn_bench_config *config, char *out, size_t room);
typedef double (*bn_bench_figure)(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_ns_per_token(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_tokens_per_second(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_first_token_ns(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_bytes_per_token(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_bytes_per_second(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_share_of_bandwidth(const struct bn_bench_config *c, const struct bn_bench_sample *s);
double bn_bench_cpu_use(const struct bn_bench_config *c, const struct bn_bench_sample *s);
/* The figure of every sample after the warm-up, in the plan's scratch; returns how many. */
size_t bn_bench_collect(const struct bn_bench_plan *plan, const struct bn_bench_config *c,
                        bn_bench_figure figure);
/* The times of every token of these samples; only decoding has them. */
size_t bn_bench_collect_tokens(const struct bn_bench_plan *plan, const struct bn_bench_config *c);
/* Bytes of the KV cache that one position takes in a session. */
uint64_t bn_bench_kv_bytes(const bn_model *model);

/* What depth costs a token of decoding: ns = a + b * depth, fitted to each round by least squares; medians
 * over the rounds. */
struct bn_bench_depth_fit {
    uint32_t tokens, n_threads;
    size_t n; /* rounds behind every warm-up */
    struct bn_interval base_ns, ns_per_position;
};
/* n is 0 when there are fewer than two depths, or a configuration without figures. */
BN_MUST_CHECK bn_status bn_bench_fit_depth(struct bn_bench_depth_fit *out, const struct bn_bench_plan *plan,
                                           uint32_t tokens, uint32_t n_threads, bn_error *err);

/* Makes room in scratch for the samples taken so far. */
BN_MUST_CHECK bn_status bn_bench_reserve(struct bn_bench_plan *plan, bn_error *err);
/* Whether this many samples are enough to tell a trend. */
bool bn_bench_can_settle(size_t n);
/* Whether a configuration shows no trend, whether all medians are known to plan->precision; of the samples
 * after the warm-up, so far. */
BN_MUST_CHECK bn_status bn_bench_is_steady(const struct bn_bench_plan *plan, const struct bn_bench_config *c,
                                           bool *steady, bn_error *err);
BN_MUST_CHECK bn_status bn_bench_all_precise(const struct bn_bench_plan *plan, bool *all, bn_error *err);

/* Finds invalid what computed something else than the first sample of the same test: threads, batches and
 * rounds must not matter. */
void bn_bench_check_outputs(struct bn_bench_config *configs, size_t n);
/* When all samples are there: verdicts, steadiness, labels. A sample was stolen from when the hypervisor's
 * clock moved; pressed when tasks waited for more than a hundredth of it; switched when it was interrupted
 * more than twice as often as the median, and more than twice. */
BN_MUST_CHECK bn_status bn_bench_conclude(struct bn_bench_plan *plan, bn_error *err);

/* The series of the document; configurations without figures have none. */
BN_MUST_CHECK bn_status bn_bench_run_series(const struct bn_bench_plan *plan, struct bn_series_list *all,
                                            bn_error *err);

/* ---- results (run_report.c, run_document.c) ---- */

BN_MUST_CHECK bn_status bn_bench_print_plan(const struct bn_bench_plan *plan, bn_error *err);
/* A document of the results, NULL when memory is short. */
BN_MUST_CHECK bn_status bn_bench_run_document(bn_json **out, const struct bn_bench_plan *plan, bn_error *err);

#endif
