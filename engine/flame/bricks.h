/* SPDX-License-Identifier: MIT
 *
 * Bricks as stacks: what the profiler measured, by the same tags that samples are given, so that both are
 * drawn, compared and held against each other by the same means. Nothing here was sampled: weights are whole
 * nanoseconds, exclusive times.
 *
 *     THREAD "thread 0"; PHASE "prefill" or "decode"; LAYER "layer 3" or "outside layers"; BRICK "Attention";
 *     bricks inside it; SLOT "attn_values_avx2" at the level of kernels
 *
 * and on each thread, what no brick accounts for as BRICK "(unattributed)".
 */
#ifndef BN_FLAME_BRICKS_H
#define BN_FLAME_BRICKS_H

#include "flame/stacks.h"
#include "profile/profiler.h"

/* Adds a finalized profile's times to a run of the stacks (unit "ns", what "bricks"). */
BN_MUST_CHECK bn_status bn_bricks_add(bn_stacks *stacks, size_t run, const bn_prof *prof, bn_error *err);
/* Of a document bn.profile/1. */
BN_MUST_CHECK bn_status bn_stacks_from_profile(bn_stacks **out, const bn_json *document, bn_error *err);

/* Where each thread was at any time: from the events of a profile, sorted. */
typedef struct bn_brick_clock bn_brick_clock;
/* Two moments at which both clocks were read, so that ticks become CLOCK_MONOTONIC. */
struct bn_clock_pair {
    uint64_t ticks, ns;
};
/* tids[i] is the operating system's number of the thread that wrote trail i. The profile must outlive it. */
BN_MUST_CHECK bn_status bn_brick_clock_open(bn_brick_clock **out, const bn_prof *prof, const uint32_t *tids,
                                            const struct bn_clock_pair pairs[2], bn_error *err);
void bn_brick_clock_close(bn_brick_clock *clock);
/* Pushes the same tags, PHASE to SLOT, of what the thread did at a time; nothing when it did nothing. */
BN_MUST_CHECK bn_status bn_brick_clock_push(const bn_brick_clock *clock, uint32_t tid, uint64_t time_ns,
                                            bn_stacks *stacks, uint32_t *node, bn_error *err);

/* Do samples and measured times agree? Of each brick (and each kernel by the name of its function in the
 * sample's own call chain, which knows nothing of the profiler) the share of samples against the share of
 * measured time, of what is inside bricks on both sides. */
struct bn_agreement_row {
    char name[48];
    enum bn_frame_kind kind; /* BRICK, or SLOT for a kernel by its function's name */
    double measured;         /* share of measured time */
    double sampled;          /* share of samples' weight */
    double low, high; /* of sampled: 95 %, all rows together (Bonferroni); by the runs' variation when there
                         are several runs and it is wider */
    uint64_t samples;
    bool agrees;
};
struct bn_agreement {
    struct bn_agreement_row *rows; /* by measured share, the most first */
    size_t n;
    uint64_t samples; /* inside bricks */
    double p;         /* of all rows together: chi-square over rows that expect 5 samples or more */
    bool agrees;      /* all rows do */
    char why[200];    /* that nothing could be compared; "" else */
};
BN_MUST_CHECK bn_status bn_agreement(struct bn_agreement *out, const bn_stacks *sampled,
                                     const bn_stacks *measured, bn_error *err);
void bn_agreement_release(struct bn_agreement *agreement);

#endif
