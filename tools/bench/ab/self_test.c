/* SPDX-License-Identifier: MIT
 *
 * bn-bench ab --self-test: sessions over work of known length in this process, so that the right verdict is
 * known. The result is valid for this machine at this time; processes have additional noise.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"
#include "tools/bench/ab/ab.h"
#include "tools/bench/bench.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"

#define PIECES 5u        /* in a slot, whose value is their median, as of a document's samples */
#define PIECE_NS 300000u /* length of one of A's */
#define ALARMS_MAX 0.05  /* share of sessions without a change that may show one */
#define POWER_MIN 0.95   /* share of sessions with 5 % that must find it */
#define POWER_AT 0.05

static const double INJECTED[] = {0, 0.02, 0.05, 0.10};
#define N_INJECTED BN_ARRAY_LEN(INJECTED)

struct work {
    uint64_t steps[2]; /* of A and A', of B */
    volatile uint64_t sink;
};

struct tally {
    uint32_t n, count[BN_OUTCOME_REGRESSED + 1], contaminated;
};

static bn_status run_slot(void *user, struct bn_ab_slot *slot, bn_error *err)
{
    struct work *w = user;
    if (bn_cli_interrupted() != 0) return bn_fail(err, BN_ERR_CANCELLED, "interrupted");
    double ns[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        uint64_t began = bn_clock_ns();
        w->sink = bn_ab_spin(w->steps[slot->side == BN_AB_B]);
        ns[i] = (double)(bn_clock_ns() - began);
    }
    double median = bn_median_in_place(ns, PIECES);
    struct bn_series s = {"spin", "wall_ns", "ns", false, false, &median, 1, 0, false};
    return bn_series_add(&slot->values, &s, err);
}

/* Steps that take about PIECE_NS, by the fastest of 20 tries. */
static uint64_t calibrate(struct work *w)
{
    const uint64_t steps = 200000;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t began = bn_clock_ns();
        w->sink = bn_ab_spin(steps);
        uint64_t took = bn_clock_ns() - began;
        if (took < best) best = took;
    }
    return best > 0 ? steps * PIECE_NS / best + 1 : steps;
}

static bn_status one_session(const struct bn_ab_session *like, struct work *w, uint64_t seed, struct tally *t,
                             bn_error *err)
{
    struct bn_ab_session s = *like;
    s.seed = seed;
    s.run = run_slot;
    s.user = w;
    bn_status status = bn_ab_session_run(&s, err);
    if (status == BN_OK) status = bn_ab_session_judge(&s, err);
    if (status == BN_OK) {
        t->n++;
        t->count[bn_comparisons_worst(s.comparisons, s.n_comparisons)]++;
        t->contaminated += s.contaminated[0] != '\0';
    }
    bn_ab_session_release(&s);
    return status;
}

/* The kinds take turns, so that a change of the machine affects all of them. */
static bn_status run_sessions(struct bn_args *args, const struct bn_ab_session *like, uint32_t sessions,
                              struct tally tallies[N_INJECTED], bn_error *err)
{
    struct work w = {.sink = 0};
    struct bn_progress progress;
    uint64_t base = calibrate(&w), done = 0;
    bn_status status = BN_OK;
    bn_progress_begin(&progress, "sessions", (uint64_t)sessions * N_INJECTED, args->quiet);
    for (uint32_t i = 0; i < sessions && status == BN_OK; i++) {
        for (size_t k = 0; k < N_INJECTED && status == BN_OK; k++) {
            w.steps[0] = base;
            w.steps[1] = (uint64_t)((double)base * (1 + INJECTED[k]));
            status = one_session(like, &w, like->seed + done, &tallies[k], err);
            bn_progress_show(&progress, ++done);
        }
    }
    bn_progress_clear(&progress);
    return status;
}

/* ---- results ---- */

static double share(const struct tally *t, enum bn_outcome outcome)
{
    return (double)t->count[outcome] / (double)t->n;
}

static bool alarms_are_rare(const struct tally *t)
{
    return share(t, BN_OUTCOME_REGRESSED) + share(t, BN_OUTCOME_IMPROVED) <= ALARMS_MAX;
}

static bool changes_are_found(const struct tally tallies[N_INJECTED])
{
    for (size_t k = 0; k < N_INJECTED; k++)
        if (INJECTED[k] >= POWER_AT && share(&tallies[k], BN_OUTCOME_REGRESSED) < POWER_MIN) return false;
    return true;
}

static const enum bn_outcome COLUMNS[] = {BN_OUTCOME_REGRESSED, BN_OUTCOME_IMPROVED, BN_OUTCOME_SAME,
                                          BN_OUTCOME_INCONCLUSIVE};

static bn_status print(const struct bn_ab_session *s, const struct tally tallies[N_INJECTED], bn_error *err)
{
    static const char *const HEADS[] = {"injected", "REGRESSED",    "IMPROVED",
                                        "SAME",     "INCONCLUSIVE", "disturbed"};
    struct bn_table t;
    printf("%u session%s of each kind, %u round%s each, margin %g %%\n"
           "percentage of sessions with each verdict, and its 95 %% interval (Wilson)\n\n",
           tallies[0].n, bn_cli_s(tallies[0].n), s->rounds, bn_cli_s(s->rounds), 100 * s->rules.margin);
    bn_table_begin(&t, HEADS, "rrrrrr");
    for (size_t k = 0; k < N_INJECTED; k++) {
        bn_table_row(&t, "");
        bn_table_printf(&t, "%.0f %%", 100 * INJECTED[k]);
        for (size_t i = 0; i < BN_ARRAY_LEN(COLUMNS); i++) {
            struct bn_interval w = bn_interval_wilson(share(&tallies[k], COLUMNS[i]), tallies[k].n, 0.95);
            bn_table_printf(&t, "%.0f (%.0f..%.0f)", 100 * w.estimate, 100 * w.low, 100 * w.high);
        }
        bn_table_count(&t, tallies[k].contaminated);
    }
    BN_TRY(bn_bench_print_table(&t, err));
    printf("\nalarms   %s: without a change, at most %g %% of the sessions may show one\n",
           alarms_are_rare(&tallies[0]) ? "good" : "TOO MANY", 100 * ALARMS_MAX);
    printf("power    %s: of a change of %g %% and more, %g %% must be found\n",
           changes_are_found(tallies) ? "good" : "TOO LITTLE", 100 * POWER_AT, 100 * POWER_MIN);
    if (!changes_are_found(tallies))
        puts("         this machine is too noisy now for few rounds of short work");
    return BN_OK;
}

static void put(bn_json *doc, const struct bn_ab_session *s, const struct tally tallies[N_INJECTED])
{
    bn_json_put_u64(doc, "rounds", s->rounds);
    bn_json_put_number(doc, "margin", s->rules.margin);
    bn_json *array = bn_json_put_array(doc, "self_test");
    for (size_t k = 0; k < N_INJECTED; k++) {
        bn_json *o = bn_json_add_object(array);
        bn_json_put_number(o, "injected", INJECTED[k]);
        bn_json_put_u64(o, "sessions", tallies[k].n);
        bn_json_put_u64(o, "contaminated", tallies[k].contaminated);
        for (size_t i = 0; i < BN_ARRAY_LEN(COLUMNS); i++) {
            struct bn_interval w = bn_interval_wilson(share(&tallies[k], COLUMNS[i]), tallies[k].n, 0.95);
            bn_json *c = bn_json_put_object(o, bn_outcome_name(COLUMNS[i]));
            bn_json_put_u64(c, "n", tallies[k].count[COLUMNS[i]]);
            bn_json_put_number(c, "low", w.low);
            bn_json_put_number(c, "high", w.high);
        }
    }
    bn_json_put_bool(doc, "alarms_are_rare", alarms_are_rare(&tallies[0]));
    bn_json_put_bool(doc, "changes_are_found", changes_are_found(tallies));
}

bn_status bn_ab_self_test(struct bn_args *args, struct bn_ab_session *s, bn_error *err)
{
    struct bn_machine machine;
    struct tally tallies[N_INJECTED] = {{0}};
    uint32_t sessions = ((const struct bn_bench_options *)args->fields)->sessions;
    if (args->n_operands > 0) return bn_fail(err, BN_ERR_ARG, "--self-test takes no commands");
    bn_machine_read(&machine);
    struct bn_busy before;
    bn_busy_read(&before);
    bn_cli_catch_interrupt();
    bn_status status = run_sessions(args, s, sessions, tallies, err);
    if (status == BN_ERR_CANCELLED && bn_cli_interrupted() != 0) {
        args->exit_code = 128 + bn_cli_interrupted();
        return BN_OK;
    }
    BN_TRY(status);
    const struct bn_others others = bn_bench_others(&before);
    if (!alarms_are_rare(&tallies[0]) || !changes_are_found(tallies)) args->exit_code = BN_EXIT_NEGATIVE;
    if (!args->json) {
        bn_bench_print_machine(&machine);
        bn_bench_print_others(&others);
        return print(s, tallies, err);
    }
    bn_json *doc = bn_bench_document("ab", &machine);
    bn_others_put(doc, &others);
    put(doc, s, tallies);
    status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}
