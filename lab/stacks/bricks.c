/* SPDX-License-Identifier: MIT
 *
 * Turns measured times into stacks. Each event adds its time to its own node and subtracts it from the
 * enclosing one, the outermost from the thread's unattributed time. What is left in each node is exclusive
 * time, and the sum is the wall time whatever the events are. Numbers are integers below 2^53, so they are
 * exact.
 */
#include "lab/stacks/bricks.h"

#include <stdio.h>

#include "lab/kit/order.h"
#include "lab/profile/document.h"

/* ---- the parts, which samples share ---- */

static bool is_inside(const bn_prof *prof, const struct bn_prof_event *e, const struct bn_prof_event *around)
{
    return bn_prof_ns(prof, e->begin) >= bn_prof_ns(prof, around->begin) &&
           bn_prof_ns(prof, e->end) <= bn_prof_ns(prof, around->end);
}

/* Of each event of a thread the index of the brick around it, BN_STACKS_NONE for none. *parents is freed by bn_free.
 * BN_ERR_FORMAT when events are not in the order of their ends or not inside one another. */
static bn_status find_parents(uint32_t **parents, const bn_prof *prof, unsigned thread, bn_error *err)
{
    size_t n;
    const struct bn_prof_event *events = bn_prof_events(prof, thread, &n);
    uint32_t open[BN_PROF_DEPTH]; /* the brick of each depth that was seen last: walked from the back, those
                                     around come first */
    uint64_t end = UINT64_MAX;
    *parents = NULL;
    if (n >= BN_STACKS_NONE) return bn_fail(err, BN_ERR_LIMIT, "thread %u: too many events", thread);
    uint32_t *parent = bn_alloc(n, sizeof *parent);
    if (parent == NULL) return bn_nomem(err);
    for (unsigned d = 0; d < BN_PROF_DEPTH; d++)
        open[d] = BN_STACKS_NONE;
    for (size_t i = n; i-- > 0;) {
        const struct bn_prof_event *e = &events[i];
        parent[i] = e->depth == 0 ? BN_STACKS_NONE : open[e->depth - 1];
        bool lost = e->depth > 0 && (parent[i] == BN_STACKS_NONE || !is_inside(prof, e, &events[parent[i]]));
        bool disordered =
            bn_prof_ns(prof, e->end) > end || bn_prof_ns(prof, e->end) < bn_prof_ns(prof, e->begin);
        if (lost || disordered) {
            bn_free(parent);
            return bn_fail(err, BN_ERR_FORMAT, "thread %u: event %zu is %s", thread, i,
                           lost ? "not inside the enclosing brick" : "out of order");
        }
        end = bn_prof_ns(prof, e->end);
        if (e->kernel == BN_PROF_NO_KERNEL) open[e->depth] = (uint32_t)i;
    }
    *parents = parent;
    return BN_OK;
}

static const char *phase_of(const bn_prof *prof, uint32_t pass)
{
    if (pass >= prof->n_passes) return "outside passes";
    const struct bn_prof_pass *p = &prof->passes[pass], *before = pass > 0 ? p - 1 : NULL;
    bool goes_on =
        before != NULL && before->n_logits > 0 && p->position == before->position + before->n_tokens;
    return p->n_tokens == 1 && goes_on ? "decode" : "prefill";
}

/* Pushes PHASE and LAYER when the event has nothing around it, then itself: BRICK, or SLOT of a kernel. */
static bn_status push_event(bn_stacks *stacks, uint32_t *node, const bn_prof *prof,
                            const struct bn_prof_event *event, bool outermost, bn_error *err)
{
    char layer[32] = "outside layers";
    if (outermost) {
        if (event->layer >= 0) snprintf(layer, sizeof layer, "layer %02d", event->layer);
        BN_TRY(bn_stacks_push_name(stacks, node, BN_FRAME_PHASE, phase_of(prof, event->pass), err));
        BN_TRY(bn_stacks_push_name(stacks, node, BN_FRAME_LAYER, layer, err));
    }
    if (event->kernel != BN_PROF_NO_KERNEL)
        return bn_stacks_push_name(stacks, node, BN_FRAME_SLOT, bn_prof_kernel_name(prof, event->kernel),
                                   err);
    return bn_stacks_push_name(stacks, node, BN_FRAME_BRICK, bn_brick_name(event->brick), err);
}

/* ---- adding ---- */

static bn_status add_events(bn_stacks *stacks, size_t run, const bn_prof *prof, unsigned thread,
                            const uint32_t *parents, uint32_t *nodes, bn_error *err)
{
    size_t n;
    const struct bn_prof_event *events = bn_prof_events(prof, thread, &n);
    uint32_t root = BN_STACKS_ROOT, rest;
    char name[32];
    snprintf(name, sizeof name, "thread %u", thread);
    BN_TRY(bn_stacks_push_name(stacks, &root, BN_FRAME_THREAD, name, err));
    rest = root;
    BN_TRY(bn_stacks_push_name(stacks, &rest, BN_FRAME_BRICK, BN_BRICKS_UNATTRIBUTED, err));
    bn_stacks_add(stacks, rest, run, (double)prof->wall_ns, 0);
    for (size_t i = n; i-- > 0;) {
        bool outermost = parents[i] == BN_STACKS_NONE;
        uint32_t around = outermost ? rest : nodes[parents[i]];
        double ns = (double)(bn_prof_ns(prof, events[i].end) - bn_prof_ns(prof, events[i].begin));
        nodes[i] = outermost ? root : around;
        BN_TRY(push_event(stacks, &nodes[i], prof, &events[i], outermost, err));
        bn_stacks_add(stacks, nodes[i], run, ns, 0);
        bn_stacks_add(stacks, around, run, -ns, 0);
    }
    return BN_OK;
}

static bn_status add_thread(bn_stacks *stacks, size_t run, const bn_prof *prof, unsigned thread,
                            bn_error *err)
{
    uint32_t *parents = NULL;
    size_t n;
    (void)bn_prof_events(prof, thread, &n);
    BN_TRY(find_parents(&parents, prof, thread, err));
    uint32_t *nodes = bn_alloc(n, sizeof *nodes);
    bn_status status =
        nodes != NULL ? add_events(stacks, run, prof, thread, parents, nodes, err) : bn_nomem(err);
    bn_free(nodes);
    bn_free(parents);
    return status;
}

bn_status bn_bricks_add(bn_stacks *stacks, size_t run, const bn_prof *prof, bn_error *err)
{
    BN_TRY(bn_prof_check_complete(prof, err));
    for (unsigned t = 0; t < prof->n_threads; t++)
        BN_TRY(add_thread(stacks, run, prof, t, err));
    for (uint32_t i = 1; i < stacks->n_nodes; i++)
        if (bn_stacks_self(stacks, i, run) < 0)
            return bn_fail(err, BN_ERR_FORMAT, "%s: nested events take longer than the thread",
                           bn_stacks_frame(stacks, i)->name);
    return BN_OK;
}

/* ---- of a document ---- */

static void put_about(bn_json *about, const bn_json *document)
{
    static const char *const TAKEN[] = {"created", "program",  "repository", "machine",
                                        "model",   "settings", "workload",   "command"};
    bn_json_put_string(about, "format", BN_PROF_SCHEMA);
    for (size_t i = 0; i < BN_ARRAY_LEN(TAKEN); i++) {
        const bn_json *member = bn_json_get(document, TAKEN[i]);
        if (member != NULL) bn_json_put_copy(about, TAKEN[i], member);
    }
}

bn_status bn_stacks_from_profile(bn_stacks **out, const bn_json *document, bn_error *err)
{
    bn_prof *prof = NULL;
    *out = NULL;
    BN_TRY(bn_prof_read(&prof, NULL, document, err));
    bn_status status = bn_stacks_open(out, "ns", "bricks", err);
    if (status == BN_OK) status = bn_bricks_add(*out, 0, prof, err);
    if (status == BN_OK) put_about((*out)->about, document);
    bn_prof_close(prof);
    return bn_stacks_keep(out, status);
}

/* ---- what a thread did at a time ---- */

/* Found in the events that it recorded, after the recording has ended: the sampler needs no knowledge of bricks, and
 * the threads none of the sampler. */
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
    bn_status status = BN_NEW(clock->threads, prof->n_threads, err);
    for (unsigned t = 0; status == BN_OK && t < prof->n_threads; t++) {
        struct timeline *line = &clock->threads[clock->n++];
        line->tid = tids[t];
        line->events = bn_prof_events(prof, t, &line->n);
        status = find_parents(&line->parents, prof, t, err);
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
        BN_TRY(push_event(stacks, node, clock->prof, &line->events[path[k]], k + 1 == n, err));
    return BN_OK;
}
