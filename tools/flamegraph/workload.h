/* SPDX-License-Identifier: MIT
 *
 * The generation that is recorded: workload.c runs it, workload_stacks.c makes stacks of its recording.
 */
#ifndef BN_FLAMEGRAPH_WORKLOAD_H
#define BN_FLAMEGRAPH_WORKLOAD_H

#include "base/digest.h"
#include "bn.h"
#include "tools/flamegraph/flamegraph.h"

/* Mean times of the engine's own stamps, of decoded tokens. */
struct bn_work_phases {
    uint64_t tokens, embed_ns, forward_ns, head_ns, sample_ns;
};

/* One run: the same generation, again and again. */
struct bn_work_run {
    bn_prof *prof; /* NULL without bricks */
    bn_brick_clock *clock;
    struct bn_clock_pair pairs[2];
    uint64_t repetitions;
    struct bn_work_phases phases;
    bool full;                  /* it ended since there was no room for more events */
    uint64_t cpu_ns, waited_ns; /* of its threads, by the system's scheduler */
};

struct bn_recorded_work {
    const struct bn_args *args;
    const struct bn_flamegraph_workload *asked;
    uint64_t period_ns; /* between samples of a thread, as asked */
    bn_model *model;
    bn_session *session;
    int32_t *prompt;
    size_t n_prompt;
    int32_t *ids; /* that the first generation gave, and all others must give */
    size_t n_ids;
    unsigned n_threads;
    uint32_t *tids;                   /* [n_threads] */
    uint64_t generation_cpu_ns;       /* of all threads, in the last warm-up */
    uint64_t prompt_bytes, all_bytes; /* of weights and cache that the first generation read: for the
                                         prompt, and in total */
    size_t n_events;                  /* that a generation leaves on a thread, at most */
    struct bn_work_run *runs;
    struct bn_record_window *windows; /* [n_runs]: when they were */
    size_t n_runs;
    bool scheduling_known;
    struct bn_busy before; /* the first run */
};

/* Opens the model, which starts threads: a recorder is opened before. Then warms up. */
BN_MUST_CHECK bn_status bn_work_open(struct bn_recorded_work *work, const struct bn_args *args,
                                     uint64_t period_ns, bn_error *err);
BN_MUST_CHECK bn_status bn_work_run(struct bn_recorded_work *work, bn_error *err);
void bn_work_close(struct bn_recorded_work *work);

#endif
