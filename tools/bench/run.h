/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: what is measured, and how it is shown.
 */
#ifndef BN_BENCH_RUN_H
#define BN_BENCH_RUN_H

#include "kernels/kernels.h"
#include "tools/bench/bench.h"

/* One run of bn_generate. */
struct bn_bench_sample {
    uint32_t round;
    uint64_t ns;             /* of evaluating the prompt; or of choosing all tokens behind the first */
    uint64_t total_ns;       /* of the whole call: what bytes and usage belong to */
    uint64_t first_token_ns; /* from the call to the first token */
    uint64_t *token_ns;      /* decode: one for each token behind the first */
    uint64_t evaluated;      /* tokens that went through the network */
    uint64_t bytes, ops;     /* that the kernels counted */
    uint64_t user_ns, system_ns;
    uint64_t voluntary_switches, involuntary_switches, minor_faults, major_faults;
    double bandwidth; /* bytes a second that a plain loop read just before this round */
};

/* A test at one depth with one number of threads. */
struct bn_bench_config {
    bool decode;
    uint32_t tokens, depth, n_threads;
    bn_session *session; /* its timeline holds depth tokens between samples */
    struct bn_bench_sample *samples;
    size_t n_samples;
    uint64_t *token_ns;                      /* of all samples, behind one another */
    bn_kernel_stat kernels[BN_KERNEL_COUNT]; /* sums over the samples */
    size_t n_kernels;
};

/* A session for each number of threads at each depth. */
struct bn_bench_pair {
    uint32_t n_threads, depth;
    bn_session *session;
};

struct bn_bench_plan {
    const struct bn_args *args;
    bn_model *model;
    struct bn_machine machine;
    uint32_t *prompts, *decodes, *depths, *threads;
    size_t n_prompts, n_decodes, n_depths, n_threads;
    uint32_t n_batch, reps, warmup;
    uint64_t seed, load_ns;
    int32_t *ids; /* the timeline: each prompt is a piece of it */
    struct bn_bench_pair *pairs;
    size_t n_pairs;
    struct bn_bench_config *configs;
    size_t n_configs;
    uint64_t token_bytes; /* that the first token read; the bandwidth is probed with a set of this size */
    double *bandwidth;    /* rounds x n_threads */
    double *scratch;      /* room for the samples of a configuration, token by token */
};

void bn_bench_print_plan(const struct bn_bench_plan *plan);
/* A document of the results, NULL when memory is short. */
bn_json *bn_bench_run_document(const struct bn_bench_plan *plan);

#endif
