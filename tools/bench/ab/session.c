/* SPDX-License-Identifier: MIT
 *
 * Runs the slots of a session in their order, times the control before each, and judges what they gave. Each
 * series is judged over the rounds after the warm-up; one that lacks a value in any of them is INCONCLUSIVE.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/random.h"
#include "tools/bench/ab/ab.h"

#define SPIN_STEPS 600000u /* some 0.5 ms */
/* The accepted drift between the halves of a session. Pairs cancel a drift, but not any. */
#define DRIFT 0.10
#define TRIAD_LENGTH (1u << 20) /* doubles in each of three arrays: 24 MiB in all, some 1 ms */

const char *const bn_ab_side_names[BN_AB_SIDES] = {"A", "B", "A'"};
const char *const bn_ab_control_names[BN_AB_CONTROLS] = {"spin", "triad"};

const char *bn_ab_command_name(enum bn_ab_side side)
{
    return side == BN_AB_ALONE ? "the command" : side == BN_AB_B ? "command B" : "command A";
}

void bn_ab_slot_describe(char *out, size_t room, const struct bn_ab_slot *slot)
{
    snprintf(out, room, "%s %s (round %u%s)", bn_ab_command_name(slot->side), slot->failed, slot->round + 1,
             slot->side == BN_AB_NULL ? ", repeated run" : "");
}

/* ---- the control ---- */

/* Work of a fixed number of dependent steps. */
static uint64_t spin(uint64_t steps)
{
    uint64_t state = steps, sum = 0;
    for (uint64_t i = 0; i < steps; i++)
        sum = bn_splitmix64(&state) ^ (sum << 1 | sum >> 63);
    return sum;
}

struct triad {
    double *a, *b, *c;
};

static volatile double sink; /* keeps the computation of the control */

static void time_control(const struct triad *t, double ns[BN_AB_CONTROLS])
{
    uint64_t began = bn_clock_ns();
    sink = (double)spin(SPIN_STEPS);
    uint64_t between = bn_clock_ns();
    for (size_t i = 0; i < TRIAD_LENGTH; i++)
        t->a[i] = t->b[i] + 0.5 * t->c[i];
    sink = t->a[TRIAD_LENGTH / 2];
    ns[BN_AB_SPIN] = (double)(between - began);
    ns[BN_AB_TRIAD] = (double)(bn_clock_ns() - between);
}

/* ---- the order ---- */

/* One order of the sides, all equally likely. */
static void draw_order(uint64_t *state, enum bn_ab_side *order)
{
    for (unsigned i = 0; i < BN_AB_SIDES; i++) {
        unsigned at = (unsigned)(bn_splitmix64(state) % (i + 1));
        order[i] = order[at];
        order[at] = (enum bn_ab_side)i;
    }
}

/* ---- running ---- */

/* Moves the values of a slot to their side. */
static bn_status keep(struct bn_ab_session *s, struct bn_ab_slot *slot, bn_error *err)
{
    bn_status status = BN_OK;
    for (size_t i = 0; i < slot->values.n && !slot->warmup && status == BN_OK; i++)
        status = bn_series_extend(&s->sides[slot->side], &slot->values.list[i], err);
    bn_series_release(&slot->values);
    return status;
}

static bn_status run_slot(struct bn_ab_session *s, struct bn_ab_slot *slot, bn_error *err)
{
    struct bn_noise before, after;
    bn_noise_read(&before);
    bn_status status = s->run(s->user, slot, err);
    bn_noise_read(&after);
    slot->noise = bn_noise_since(&before, &after);
    if (status == BN_OK) return keep(s, slot, err);
    bn_series_release(&slot->values);
    return status;
}

static bn_status run_rounds(struct bn_ab_session *s, const struct triad *triad, bn_error *err)
{
    enum bn_ab_side order[BN_AB_SIDES] = {BN_AB_ALONE};
    const size_t n_sides = s->alone ? 1 : BN_AB_SIDES;
    uint64_t state = s->seed, began = bn_clock_ns();
    for (uint32_t round = 0; round < s->warmup + s->rounds; round++) {
        bool mirrored = round >= s->warmup && (round - s->warmup) % 2 == 1;
        if (!mirrored && !s->alone) draw_order(&state, order);
        for (size_t place = 0; place < n_sides; place++) {
            struct bn_ab_slot *slot = &s->slots[s->n_slots++];
            *slot = (struct bn_ab_slot){.round = round,
                                        .side = order[mirrored ? n_sides - 1 - place : place],
                                        .warmup = round < s->warmup};
            if (!s->no_control) time_control(triad, slot->control_ns);
            BN_TRY(run_slot(s, slot, err));
            s->took_ns = bn_clock_ns() - began;
            if (slot->stop) return BN_OK;
            bn_progress_show(&s->progress, s->n_slots);
        }
    }
    return BN_OK;
}

/* The arrays are not copied to forked processes: Linux counts the memory at the fork for the program that is
 * started. */
static double *map_arrays(size_t n_bytes)
{
    void *arrays = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arrays == MAP_FAILED) return NULL;
    (void)madvise(arrays, n_bytes, MADV_DONTFORK);
    return arrays;
}

bn_status bn_ab_session_run(struct bn_ab_session *s, bn_error *err)
{
    size_t n = ((size_t)s->warmup + s->rounds) * BN_AB_SIDES;
    size_t n_bytes = 3 * (size_t)TRIAD_LENGTH * sizeof(double);
    s->slots = bn_alloc(n, sizeof *s->slots);
    double *arrays = s->slots != NULL ? map_arrays(n_bytes) : NULL;
    if (arrays == NULL) return bn_nomem(err);
    struct triad triad = {arrays, arrays + TRIAD_LENGTH, arrays + 2 * (size_t)TRIAD_LENGTH};
    for (size_t i = 0; i < 3 * (size_t)TRIAD_LENGTH; i++)
        arrays[i] = 1; /* unwritten pages would share one page of zeros */
    bn_status status = run_rounds(s, &triad, err);
    (void)munmap(arrays, n_bytes);
    return status;
}

const struct bn_ab_slot *bn_ab_session_stop(const struct bn_ab_session *s)
{
    const struct bn_ab_slot *last = s->n_slots > 0 ? &s->slots[s->n_slots - 1] : NULL;
    return last != NULL && last->stop ? last : NULL;
}

uint32_t bn_ab_session_rounds(const struct bn_ab_session *s)
{
    uint32_t all = s->n_slots > 0 ? s->slots[s->n_slots - 1].round + 1 : 0;
    return all > s->warmup ? all - s->warmup : 0;
}

void bn_ab_session_release(struct bn_ab_session *s)
{
    for (size_t side = 0; side < BN_ARRAY_LEN(s->sides); side++)
        bn_series_release(&s->sides[side]);
    bn_free(s->slots);
    bn_history_release(&s->result);
    s->slots = NULL;
    s->n_slots = 0;
}

/* ---- verdicts ---- */

static double control_at(const struct bn_ab_session *s, uint32_t round, enum bn_ab_side side,
                         enum bn_ab_control k)
{
    size_t first = ((size_t)s->warmup + round) * BN_AB_SIDES;
    for (size_t i = first; i < first + BN_AB_SIDES && i < s->n_slots; i++)
        if (s->slots[i].side == side) return s->slots[i].control_ns[k];
    return (double)NAN;
}

/* work has room for two numbers of each round. */
static bn_status judge_control(struct bn_ab_session *s, enum bn_ab_control k, double *work, bn_error *err)
{
    double *ratio = work, *both = work + s->rounds;
    size_t n = 0;
    for (uint32_t r = 0; r < bn_ab_session_rounds(s); r++) {
        double a = control_at(s, r, BN_AB_A, k), b = control_at(s, r, BN_AB_B, k);
        if (isnan(a) || isnan(b)) break;
        ratio[n] = log(b / a);
        both[n++] = sqrt(a * b);
    }
    size_t half = n / 2;
    struct bn_comparison *beside = &s->control[k], *later = &s->control[BN_AB_CONTROLS + k];
    *beside = *later =
        (struct bn_comparison){.test = bn_ab_control_names[k], .unit = "ns", .n_a = n, .n_b = n};
    beside->metric = "next to B";
    beside->median_a = beside->median_b = later->median_a = later->median_b = (double)NAN;
    later->metric = "second half";
    later->n_a = half;
    later->n_b = n - half;
    BN_TRY(bn_judge_pairs(&beside->j, ratio, n, NULL, 0, &s->rules, err));
    return bn_judge_samples(&later->j, both, half, both + half, n - half, DRIFT, &s->rules, err);
}

/* All judgements of the control are one family of tests. */
static bn_status judge_controls(struct bn_ab_session *s, bn_error *err)
{
    struct bn_judgement all[2 * BN_AB_CONTROLS];
    double *work = bn_alloc(s->rounds, 2 * sizeof *work);
    bn_status status = work != NULL ? BN_OK : bn_nomem(err);
    for (int k = 0; k < BN_AB_CONTROLS && status == BN_OK; k++)
        status = judge_control(s, (enum bn_ab_control)k, work, err);
    bn_free(work);
    for (size_t i = 0; i < BN_ARRAY_LEN(all); i++)
        all[i] = s->control[i].j;
    if (status == BN_OK) status = bn_judge_session(all, BN_ARRAY_LEN(all), &s->rules, err);
    for (size_t i = BN_ARRAY_LEN(all); i-- > 0;) {
        struct bn_comparison *c = &s->control[i];
        c->j = all[i];
        if (c->j.outcome != BN_OUTCOME_REGRESSED && c->j.outcome != BN_OUTCOME_IMPROVED) continue;
        snprintf(s->contaminated, sizeof s->contaminated, "contaminated: the control (%s) took %+.1f %% %s",
                 c->test, 100 * c->j.change,
                 i < BN_AB_CONTROLS ? "next to B, compared with A"
                                    : "in the second half, compared with the first");
    }
    return status;
}

bn_status bn_ab_session_judge(struct bn_ab_session *s, bn_error *err)
{
    if (!s->no_control) BN_TRY(judge_controls(s, err));
    const struct bn_history_rules rules = {.judge = s->rules,
                                           .levels = &s->levels,
                                           .contended = s->contaminated,
                                           .in_turn = true,
                                           .n_rounds = bn_ab_session_rounds(s),
                                           .again = &s->sides[BN_AB_NULL]};
    return bn_history_compare(&s->result, &s->sides[BN_AB_A], &s->sides[BN_AB_B], &rules, err);
}

/* Metrics that every process has. */
static bool is_usage(const struct bn_comparison *c)
{
    return strcmp(c->metric, "wall_ns") == 0 || strcmp(c->metric, "cpu_ns") == 0 ||
           strcmp(c->metric, "max_rss_bytes") == 0;
}

bn_status bn_ab_session_choose(struct bn_ab_session *s, const char *metric, bn_error *err)
{
    size_t n = s->result.n, n_primary = 0, n_printed = 0;
    for (size_t i = 0; i < n; i++)
        n_printed += !is_usage(&s->result.list[i]);
    for (size_t i = 0; i < n; i++) {
        struct bn_comparison *c = &s->result.list[i];
        bool primary = metric != NULL  ? strcmp(c->metric, metric) == 0
                       : n_printed > 0 ? !is_usage(c)
                                       : strcmp(c->metric, "wall_ns") == 0;
        c->secondary = !primary;
        n_primary += primary;
    }
    if (n_primary == 0 && metric != NULL && n > 0)
        return bn_fail(err, BN_ERR_MISMATCH, "--metric: no series has the metric '%.60s'", metric);
    for (size_t i = 0; i < n && n_primary == 0; i++)
        s->result.list[i].secondary = false; /* --filter left only other metrics */
    return BN_OK;
}
