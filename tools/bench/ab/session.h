/* SPDX-License-Identifier: MIT
 *
 * A session that compares two things, A and B, by taking turns: when its slots come, what they gave, what
 * follows. Nothing here knows what A and B are; a function runs one of them once.
 *
 * A round has each side once: A, B, and A' (A again, whose distance from A shows what two copies of the same
 * thing differ by). Rounds come in blocks of two, the second in the reverse order of the first, so that a
 * drift of the machine cancels; which order the first has is drawn from the seed. Before each slot a control
 * is timed, work that is always the same: where it is not equally fast beside A and beside B, the machine
 * favoured one of them, and nothing is said of any metric. It is never used to correct a number.
 */
#ifndef BN_BENCH_AB_SESSION_H
#define BN_BENCH_AB_SESSION_H

#include "lab/history/series.h"
#include "lab/host/busy.h"
#include "lab/host/noise.h"
#include "lab/stats/comparison.h"
#include "tools/cli/progress.h"

enum bn_ab_side { BN_AB_A, BN_AB_B, BN_AB_NULL, BN_AB_SIDES };
/* "A", "B", "A'" */
const char *bn_ab_side_name(enum bn_ab_side side);
/* What people typed: "command A", also for A', which runs the same. */
const char *bn_ab_command_name(enum bn_ab_side side);

/* Arithmetic in registers, and a pass over arrays larger than the caches near a core. */
enum bn_ab_control { BN_AB_SPIN, BN_AB_TRIAD, BN_AB_CONTROLS };
const char *bn_ab_control_name(enum bn_ab_control control);

struct bn_ab_slot {
    uint32_t round; /* counts the rounds that warm up too */
    uint32_t place; /* in the round */
    enum bn_ab_side side;
    bool warmup;                       /* its values do not count */
    bool stop;                         /* nothing more can come of this session: no further slot is run */
    uint64_t start_ns;                 /* since the session began */
    double control_ns[BN_AB_CONTROLS]; /* just before; 0 without */
    bool has_usage;                    /* usage is that of another process; else what this one used counts */
    struct rusage usage;
    struct bn_noise noise;        /* while it ran */
    char failed[160];             /* what went wrong: "failed with status 1"; empty when nothing did */
    struct bn_series_list values; /* one sample each */
};

/* The first part is set by the caller, the rest is zero. */
struct bn_ab_session {
    uint32_t rounds, warmup;
    bool null;       /* with A' */
    bool no_control; /* for numbers that have nothing to do with speed */
    uint64_t seed;
    uint64_t max_ns; /* no block of rounds is begun after that; 0: no limit */
    struct bn_judge_rules rules;
    /* Fills slot->values, or sets slot->failed; an error ends the session. */
    bn_status (*run)(void *user, struct bn_ab_slot *slot, bn_error *err);
    void *user;
    struct bn_progress progress; /* counts slots, when it was begun */

    struct bn_ab_slot *slots; /* in the order of time */
    size_t n_slots;
    uint64_t took_ns;
    struct bn_others others; /* meanwhile */

    struct bn_comparison *comparisons; /* one for each series; texts are those of the slots */
    size_t n_comparisons;
    size_t n_incomplete;                         /* of them lack values: a gate without data */
    struct bn_judgement control[BN_AB_CONTROLS]; /* beside B against beside A */
    struct bn_judgement drift[BN_AB_CONTROLS];   /* second half against first half */
    char contaminated[200];                      /* why the machine was not itself; empty when it was */
};

BN_MUST_CHECK bn_status bn_ab_session_run(struct bn_ab_session *s, bn_error *err);
/* Fills the last part from the slots. */
BN_MUST_CHECK bn_status bn_ab_session_judge(struct bn_ab_session *s, bn_error *err);
void bn_ab_session_release(struct bn_ab_session *s);
/* The slot that ended the session before its time: then there is no verdict. NULL when none did. */
const struct bn_ab_slot *bn_ab_session_stop(const struct bn_ab_session *s);

/* "command A failed with status 1 (round 1)" */
void bn_ab_slot_describe(char *out, size_t room, const struct bn_ab_slot *slot);
/* Makes the series of that metric decide, and the others secondary (comparison.h). Without a name those
 * decide that the commands printed, else the elapsed time. BN_ERR_MISMATCH when no series has the metric. */
BN_MUST_CHECK bn_status bn_ab_session_choose(struct bn_ab_session *s, const char *metric, bn_error *err);

/* Slots that have that side, in a round; NULL when there is none. */
const struct bn_ab_slot *bn_ab_session_at(const struct bn_ab_session *s, uint32_t round,
                                          enum bn_ab_side side);

/* Work of a fixed number of steps, each waiting for the one before; for the control and for tests. */
uint64_t bn_ab_spin(uint64_t steps);

#endif
