/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile: the profiled work, its overhead and its output.
 */
#ifndef BN_BENCH_PROFILE_H
#define BN_BENCH_PROFILE_H

#include "lab/profile/graph.h"
#include "lab/stats/judge.h"
#include "tools/bench/harness.h"

/* The overhead of profiling. */
struct bn_bench_overhead {
    double event_ns_min, event_ns_median; /* of one event, in a loop of nothing else */
    uint64_t n_events;                    /* on the first thread */
    double predicted;                     /* share: events times median / wall */
    double *on_ns, *off_ns;               /* the same work with and without, in turn: pairs of them */
    size_t pairs;
    struct bn_judgement measured; /* of ln(on / off) */
};

struct bn_bench_profile {
    struct bn_harness h;
    const struct bn_bench_options *o;
    bn_model *model;
    bn_session *session;
    bn_sampler *sampler;
    bn_prof *prof; /* of the last run with it */
    enum bn_prof_level level;
    /* --graph structure: bricks alone, and no packed copies of weights, whose use depends on the caches. Whether
     * the times are valid does not matter. */
    bool is_structure;
    int32_t *ids; /* prompt, then what was decoded */
    float *logits;
    struct bn_bench_overhead overhead;
};

/* The pass that --pass names; the last one for "all" and without --pass. */
BN_MUST_CHECK bn_status bn_bench_profile_pass(size_t *pass, const struct bn_bench_profile *p, bn_error *err);
/* --graph, printed in place of the tables. */
BN_MUST_CHECK bn_status bn_bench_profile_graph(const struct bn_bench_profile *p, bn_error *err);
/* --roofline: measures the limits of the machine, for a second or two, and prints a table; or, when document
 * is not NULL, puts its member "roofline". */
BN_MUST_CHECK bn_status bn_bench_profile_roofline(const struct bn_bench_profile *p, bn_json *document,
                                                  bn_error *err);
/* --code: prints the machine code that has a digest. */
BN_MUST_CHECK bn_status bn_bench_profile_code(struct bn_args *args, bn_error *err);
/* --check: judges the documents; exit code 1 when one does not keep a rule. */
BN_MUST_CHECK bn_status bn_bench_profile_check(struct bn_args *args, bn_error *err);

#endif
