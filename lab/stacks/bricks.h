/* SPDX-License-Identifier: MIT
 *
 * Bricks as stacks: what the profiler measured, under the same tags as samples, so that the same code draws
 * and compares both. Nothing here was sampled: weights are integer nanoseconds of exclusive time.
 *
 *     THREAD "thread 0"; PHASE "prefill" or "decode"; LAYER "layer 03" or "outside layers"; BRICK
 *     "Attention"; bricks inside it; SLOT "attn_values_avx2" at the level of kernels
 *
 * and on each thread the unattributed time as BRICK "(unattributed)". The times of a thread add up to the
 * wall time. A pass is decode when it reads one token after the logits of the pass before; all others read a
 * prompt. What follows a pass, such as sampling, belongs to it.
 */
#ifndef BN_STACKS_BRICKS_H
#define BN_STACKS_BRICKS_H

#include "lab/stacks/stacks.h"
#include "stamp/profiler.h"

#define BN_BRICKS_UNATTRIBUTED "(unattributed)"

/* Adds a profile's times to a run of the stacks (unit "ns", what "bricks"). BN_ERR_MISMATCH when it is not
 * complete (bn_prof_check_complete), BN_ERR_FORMAT when its events contradict each other. */
BN_MUST_CHECK bn_status bn_bricks_add(bn_stacks *stacks, size_t run, const bn_prof *prof, bn_error *err);
/* Of a document bn.profile/1. about has what the document says of its program, machine and settings. */
BN_MUST_CHECK bn_status bn_stacks_from_profile(bn_stacks **out, const bn_json *document, bn_error *err);

/* ---- where each thread was at any time: from the events of a profile ---- */

typedef struct bn_brick_clock bn_brick_clock;
/* Two moments at which both clocks were read, so that ticks become CLOCK_MONOTONIC. */
struct bn_clock_pair {
    uint64_t ticks, ns;
};
struct bn_clock_pair bn_clock_pair_now(const bn_prof *prof);
/* tids[i] is the operating system's number of the thread that wrote trail i. The profile must outlive it.
 * The pairs, one at the begin and one at the end of what was measured, give the rate of the ticks.
 * BN_ERR_ARG when they are not in order. */
BN_MUST_CHECK bn_status bn_brick_clock_open(bn_brick_clock **out, const bn_prof *prof, const uint32_t *tids,
                                            const struct bn_clock_pair pairs[2], bn_error *err);
void bn_brick_clock_close(bn_brick_clock *clock);
/* Pushes the same tags, PHASE to SLOT, of what the thread did at a time; nothing when it did nothing. */
BN_MUST_CHECK bn_status bn_brick_clock_push(const bn_brick_clock *clock, uint32_t tid, uint64_t time_ns,
                                            bn_stacks *stacks, uint32_t *node, bn_error *err);

/* ---- do samples and measured times agree? ---- */

/* Of each brick the share of samples against the share of measured time, of what is inside bricks on both
 * sides. Of each kernel the same among kernels, by the name of its function in the sample's own call chain,
 * which knows nothing of the profiler. And where a sample has both, the function and the kernel that the
 * profiler says ran then: those are the same whatever the shares are, so that clocks which are apart show.
 *
 * Samplers of processor time do not see a thread that waits. BarrierWait and Team may be waits, so with "cpu"
 * they are left out of the whole, and their rows are not compared.
 *
 * Threads that had to wait for a processor make times longer that samples do not. Runs in which they did for
 * more than BN_AGREEMENT_MAX_WAIT of their time, by sampled->about (of each run scheduling.waited_ns beside
 * scheduling.cpu_ns, both arrays), are left out; when all were such, nothing is compared. A kernel's measured
 * time has readings of the clock in it; what they may be (stamps.ns_each for each of stamps.events) is taken
 * as not known. */
#define BN_AGREEMENT_MAX_WAIT 0.02
#define BN_AGREEMENT_MIN_SAMPLES 200u

struct bn_agreement_row {
    char name[48];
    enum bn_frame_kind kind; /* BRICK, or SLOT for a kernel by its function's name */
    bool compared; /* false: it may be a wait, shares are of the others' whole; or of kernels, too few samples
                      have a kernel's function */
    double measured;      /* share of measured time; of each run as the run has samples */
    double measured_low;  /* without what readings of the clock may account for */
    double measured_high; /* with the others without theirs */
    double sampled;       /* share of samples' weight */
    double stamps_ns;     /* that readings of the clock may account for */
    double low, high; /* of sampled: 95 %, all rows together (Bonferroni), exact (Clopper and Pearson, 1934);
                         wider as the runs vary more than their samples explain */
    uint64_t samples;
    bool agrees; /* low to high and measured_low to measured_high meet */
};
struct bn_agreement {
    struct bn_agreement_row *rows; /* bricks, then kernels, each by measured share, the most first */
    size_t n;
    uint64_t samples;     /* inside bricks that are compared */
    size_t busy_runs;     /* that were left out */
    double dispersion;    /* how many times the runs vary more than their samples explain; 1 at least */
    uint64_t both;        /* samples with a kernel by the profiler and one by their own functions */
    uint64_t other;       /* of these, those in which they differ */
    double other_allowed; /* share of such that readings of the clock may account for */
    bool agrees;          /* all rows do, and no more are other than allowed */
    char why[200];        /* that nothing could be compared; "" else */
};
BN_MUST_CHECK bn_status bn_agreement(struct bn_agreement *out, const bn_stacks *sampled,
                                     const bn_stacks *measured, bn_error *err);
void bn_agreement_release(struct bn_agreement *agreement);
/* Puts the member "agreement". */
void bn_agreement_put(bn_json *document, const struct bn_agreement *agreement);

#endif
