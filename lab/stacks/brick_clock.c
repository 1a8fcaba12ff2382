/* SPDX-License-Identifier: MIT
 *
 * Finds what a thread did at a time, in the events that it recorded, after the recording has ended. The
 * sampler therefore needs no knowledge of bricks, and the threads none of the sampler.
 */
#include "base/error.h"
#include "lab/kit/order.h"
#include "lab/stacks/bricks.h"

struct timeline {
    uint32_t tid;
    const struct bn_prof_event *events;
    size_t n;
    uint32_t *parents;
};

struct bn_brick_clock {
    const bn_prof *prof;
    struct bn_clock_pair begin;
    double ns_per_tick;
    size_t n;
    struct timeline *threads;
};

struct bn_clock_pair bn_clock_pair_now(const bn_prof *prof)
{
    struct bn_clock_pair pair;
    bn_tick_clock_both(&prof->clock, &pair.ns, &pair.ticks);
    return pair;
}

bn_status bn_brick_clock_open(bn_brick_clock **out, const bn_prof *prof, const uint32_t *tids,
                              const struct bn_clock_pair pairs[2], bn_error *err)
{
    *out = NULL;
    if (pairs[1].ticks <= pairs[0].ticks || pairs[1].ns <= pairs[0].ns)
        return bn_fail(err, BN_ERR_ARG, "the two clock readings are not in order");
    bn_brick_clock *clock = bn_alloc(1, sizeof *clock);
    if (clock == NULL) return bn_nomem(err);
    clock->prof = prof;
    clock->begin = pairs[0];
    clock->ns_per_tick = (double)(pairs[1].ns - pairs[0].ns) / (double)(pairs[1].ticks - pairs[0].ticks);
    clock->threads = bn_alloc(prof->n_threads, sizeof *clock->threads);
    bn_status status = clock->threads != NULL ? BN_OK : bn_nomem(err);
    for (unsigned t = 0; status == BN_OK && t < prof->n_threads; t++) {
        struct timeline *line = &clock->threads[clock->n++];
        line->tid = tids[t];
        line->events = bn_prof_events(prof, t, &line->n);
        status = bn_brick_parents(&line->parents, prof, t, err);
    }
    if (status != BN_OK) {
        bn_brick_clock_close(clock);
        return status;
    }
    *out = clock;
    return BN_OK;
}

void bn_brick_clock_close(bn_brick_clock *clock)
{
    if (clock == NULL) return;
    for (size_t t = 0; clock->threads != NULL && t < clock->n; t++)
        bn_free(clock->threads[t].parents);
    bn_free(clock->threads);
    bn_free(clock);
}

/* A reading in nanoseconds since the first pair. */
static double since_begin(const bn_brick_clock *clock, uint64_t reading)
{
    return (double)(int64_t)(reading - clock->begin.ticks) * clock->ns_per_tick;
}

/* The innermost event that contains the time: the first that ends after it, or one around that. */
static uint32_t find(const bn_brick_clock *clock, const struct timeline *line, double time)
{
    size_t at;
    BN_SEARCH(at, line->n, since_begin(clock, line->events[at].end) <= time);
    uint32_t i = at < line->n ? (uint32_t)at : BN_STACKS_NONE;
    while (i != BN_STACKS_NONE && since_begin(clock, line->events[i].begin) > time)
        i = line->parents[i];
    return i;
}

bn_status bn_brick_clock_push(const bn_brick_clock *clock, uint32_t tid, uint64_t time_ns, bn_stacks *stacks,
                              uint32_t *node, bn_error *err)
{
    uint32_t path[BN_PROF_DEPTH + 1];
    size_t t = 0, n = 0;
    while (t < clock->n && clock->threads[t].tid != tid)
        t++;
    if (t == clock->n) return BN_OK;
    const struct timeline *line = &clock->threads[t];
    for (uint32_t i = find(clock, line, (double)(int64_t)(time_ns - clock->begin.ns)); i != BN_STACKS_NONE;
         i = line->parents[i])
        path[n++] = i;
    for (size_t k = n; k-- > 0;)
        BN_TRY(bn_brick_push(stacks, node, clock->prof, &line->events[path[k]], k + 1 == n, err));
    return BN_OK;
}
