/* SPDX-License-Identifier: MIT
 *
 * The parts of `bn-bench ab` and `bn-bench cmd`: a session, running a command in a slot, printing.
 *
 * A session compares A and B by running them in turn. It is independent of what A and B are; a function runs
 * one of them once, in a slot.
 *
 * A round has each side once: A, B, and A' (A again, which shows how much two copies of the same program
 * differ). Rounds come in blocks of two, the second in the reverse order of the first, so that a drift of the
 * machine cancels; the order of the first is random. Before each slot a control is timed, work that is always
 * the same. When it is not equally fast before A and before B, the machine favoured one of them and no time
 * has a verdict. The control is never used to correct a number.
 */
#ifndef BN_BENCH_AB_H
#define BN_BENCH_AB_H

#include <regex.h>

#include "lab/history/compare.h"
#include "lab/host/busy.h"
#include "tools/bench/bench.h"
#include "tools/cli/progress.h"

/* ALONE: the only command of bn-bench cmd, which is compared with nothing. */
enum bn_ab_side { BN_AB_A, BN_AB_B, BN_AB_NULL, BN_AB_SIDES, BN_AB_ALONE = BN_AB_SIDES };
extern const char *const bn_ab_side_names[BN_AB_SIDES];
/* "command A", also for A', which runs the same; "the command". */
const char *bn_ab_command_name(enum bn_ab_side side);

/* Arithmetic in registers, and a pass over arrays larger than the caches near a core. */
enum bn_ab_control { BN_AB_SPIN, BN_AB_TRIAD, BN_AB_CONTROLS };
extern const char *const bn_ab_control_names[BN_AB_CONTROLS];

struct bn_ab_slot {
    uint32_t round; /* from 0, warm-ups included */
    enum bn_ab_side side;
    bool warmup;                       /* its values do not count */
    bool stop;                         /* ends the session: no further slot is run */
    double control_ns[BN_AB_CONTROLS]; /* just before; 0 without */
    struct bn_noise noise;             /* while it ran */
    char failed[160];                  /* "exceeded --timeout 5 s"; empty without a failure */
    struct bn_series_list values;      /* one sample each */
};

/* The first part is set by the caller, the rest is zero. */
struct bn_ab_session {
    uint32_t rounds, warmup;
    bool alone;      /* a round is one run of the only command; there is nothing to judge */
    bool no_control; /* for numbers other than times */
    uint64_t seed;
    struct bn_judge_rules rules;
    struct bn_levels levels; /* the drift of a metric raises its margin; zeroed: no levels */
    /* Fills slot->values, or sets slot->failed; an error ends the session. */
    bn_status (*run)(void *user, struct bn_ab_slot *slot, bn_error *err);
    void *user;
    struct bn_progress progress; /* counts slots */

    struct bn_ab_slot *slots; /* in the order of time; their values were moved to the sides */
    size_t n_slots;
    uint64_t took_ns;
    struct bn_series_list sides[BN_AB_SIDES + 1]; /* after the warm-up */
    struct bn_others others;                      /* during the session */

    struct bn_history_comparison result; /* texts are those of the sides */
    /* Costs of the control: before B compared with before A, then the second half with the first. */
    struct bn_comparison control[2 * BN_AB_CONTROLS];
    char contaminated[200]; /* how the machine was disturbed; empty when it was not */
};

BN_MUST_CHECK bn_status bn_ab_session_run(struct bn_ab_session *s, bn_error *err);
/* Sets result, control and contaminated. */
BN_MUST_CHECK bn_status bn_ab_session_judge(struct bn_ab_session *s, bn_error *err);
void bn_ab_session_release(struct bn_ab_session *s);
/* Started rounds, without warm-ups. */
uint32_t bn_ab_session_rounds(const struct bn_ab_session *s);
/* The slot that stopped the session: then there is no verdict. NULL when none did. */
const struct bn_ab_slot *bn_ab_session_stop(const struct bn_ab_session *s);

/* "command A failed with status 1 (round 1)" */
void bn_ab_slot_describe(char *out, size_t room, const struct bn_ab_slot *slot);
/* Makes the series of that metric decide, and the others secondary (comparison.h). Without a name, the
 * metrics that the commands printed decide, else the elapsed time. BN_ERR_MISMATCH when no series has the
 * metric. */
BN_MUST_CHECK bn_status bn_ab_session_choose(struct bn_ab_session *s, const char *metric, bn_error *err);

/* ---- commands ---- */

/* A number to find in the output of a command. */
struct bn_ab_extract {
    char *name;
    regex_t regex; /* its first group is the number */
    bool higher;
};

/* How commands are run, and which values are read from them. */
struct bn_ab_commands {
    const char *const *argv[2]; /* of A, of B; end with NULL. B: NULL for bn-bench cmd */
    const char *test;           /* of the series of a run */
    char *shell[2];             /* the same as one line of shell; NULL without --shell */
    const struct bn_bench_options *o;
    struct bn_ab_extract *extracts;
    size_t n_extracts;
};

/* Reads options and operands: two commands, or one. Released also after a failure. */
BN_MUST_CHECK bn_status bn_ab_commands_read(struct bn_ab_commands *c, const struct bn_args *args, bool alone,
                                            bn_error *err);
void bn_ab_commands_release(struct bn_ab_commands *c);
/* The function of a session: runs the side of the slot once. Exceeding the time limit stops the session; any
 * other failure is an error. A number that is not found is a missing value. */
bn_status bn_ab_commands_run(void *commands, struct bn_ab_slot *slot, bn_error *err);

#endif
