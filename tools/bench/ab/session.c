/* SPDX-License-Identifier: MIT
 *
 * Runs the slots of a session in their order, and times the control before each.
 */
#define _GNU_SOURCE
#include "tools/bench/ab/session.h"

#include <stdio.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

#define SPIN_STEPS 600000u      /* some 0.5 ms */
#define TRIAD_LENGTH (1u << 20) /* doubles in each of three arrays: 24 MiB in all, some 1 ms */

const char *bn_ab_side_name(enum bn_ab_side side)
{
    static const char *const NAMES[] = {"A", "B", "A'"};
    return NAMES[side];
}

const char *bn_ab_command_name(enum bn_ab_side side)
{
    return side == BN_AB_B ? "command B" : "command A";
}

void bn_ab_slot_describe(char *out, size_t room, const struct bn_ab_slot *slot)
{
    snprintf(out, room, "%s %s (round %u%s)", bn_ab_command_name(slot->side), slot->failed, slot->round + 1,
             slot->side == BN_AB_NULL ? ", repeated run" : "");
}

const char *bn_ab_control_name(enum bn_ab_control control)
{
    static const char *const NAMES[] = {"spin", "triad"};
    return NAMES[control];
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

static unsigned sides_of(const struct bn_ab_session *s)
{
    return s->null ? BN_AB_SIDES : BN_AB_NULL;
}

/* One order of n sides, all equally likely. */
static void draw_order(uint64_t *state, enum bn_ab_side *order, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned at = (unsigned)(bn_splitmix64(state) % (i + 1));
        order[i] = order[at];
        order[at] = (enum bn_ab_side)i;
    }
}

static void reverse(enum bn_ab_side *order, unsigned n)
{
    for (unsigned i = 0; i < n / 2; i++) {
        enum bn_ab_side first = order[i];
        order[i] = order[n - 1 - i];
        order[n - 1 - i] = first;
    }
}

const struct bn_ab_slot *bn_ab_session_at(const struct bn_ab_session *s, uint32_t round, enum bn_ab_side side)
{
    size_t n = sides_of(s);
    for (size_t i = round * n; i < (round + 1) * n && i < s->n_slots; i++)
        if (s->slots[i].side == side) return &s->slots[i];
    return NULL;
}

/* ---- running ---- */

static bn_status run_round(struct bn_ab_session *s, const struct triad *triad, uint32_t round,
                           const enum bn_ab_side *order, uint64_t began, bn_error *err)
{
    for (uint32_t place = 0; place < sides_of(s); place++) {
        struct bn_ab_slot *slot = &s->slots[s->n_slots++];
        struct bn_noise before, after;
        *slot = (struct bn_ab_slot){
            .round = round, .place = place, .side = order[place], .warmup = round < s->warmup};
        if (!s->no_control) time_control(triad, slot->control_ns);
        slot->start_ns = bn_clock_ns() - began;
        bn_noise_read(&before);
        bn_status status = s->run(s->user, slot, err);
        bn_noise_read(&after);
        slot->noise = bn_noise_since(&before, &after);
        if (status != BN_OK || slot->stop) return status;
        bn_progress_show(&s->progress, s->n_slots);
    }
    return BN_OK;
}

static bn_status run_rounds(struct bn_ab_session *s, const struct triad *triad, bn_error *err)
{
    enum bn_ab_side order[BN_AB_SIDES];
    uint64_t state = s->seed, began = bn_clock_ns();
    uint32_t total = s->warmup + s->rounds;
    for (uint32_t round = 0; round < total; round++) {
        if (round < s->warmup || (round - s->warmup) % 2 == 0) {
            if (s->max_ns > 0 && bn_clock_ns() - began >= s->max_ns) break;
            draw_order(&state, order, sides_of(s));
        } else {
            reverse(order, sides_of(s));
        }
        BN_TRY(run_round(s, triad, round, order, began, err));
        s->took_ns = bn_clock_ns() - began;
        if (bn_ab_session_stop(s) != NULL) break;
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
    size_t n = ((size_t)s->warmup + s->rounds) * sides_of(s);
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
    return s->n_slots > 0 ? s->slots[s->n_slots - 1].round + 1 : 0;
}

void bn_ab_session_release(struct bn_ab_session *s)
{
    for (size_t i = 0; i < s->n_slots; i++)
        bn_series_release(&s->slots[i].values);
    bn_free(s->slots);
    bn_free(s->comparisons);
    s->slots = NULL;
    s->comparisons = NULL;
    s->n_slots = s->n_comparisons = 0;
}
