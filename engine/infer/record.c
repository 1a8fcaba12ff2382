/* SPDX-License-Identifier: MIT
 *
 * What an evaluation did, for users of the library: counters of kernels, and the tree of a session's passes, a profile of
 * its own that is read as events. lab/profile has the graphs of the programs, with edges between threads.
 */
#include "base/error.h"
#include "infer/session.h"

void bn_record_forget(struct bn_session_events *r)
{
    bn_free(r->events);
    r->events = NULL;
    r->n = 0;
}

void bn_record_close(struct bn_session *s)
{
    if (s->recording.prof == NULL) return;
    bn_record_forget(&s->recording);
    s->prof = NULL;
    bn_team_set_exact(s->team, s->is_exact);
    bn_prof_close(s->recording.prof);
    s->recording.prof = NULL;
}

bn_status bn_session_record(bn_session *s, uint32_t n_passes, uint64_t n_tokens, bn_error *err)
{
    bn_record_close(s);
    if (n_passes == 0) return BN_OK;
    struct bn_prof_options options = {
        .level = BN_PROF_KERNEL, .n_threads = s->n_threads, .n_passes = n_passes};
    options.n_events = bn_prof_room_for(&s->model->hp, options.level, n_passes, n_tokens);
    BN_TRY(bn_prof_open(&s->recording.prof, &options, err));
    s->recording.prof->enabled = true;
    bn_prof_reset_epoch(s->recording.prof);
    return bn_session_set_profile(s, s->recording.prof, err);
}

/* The next event, whose number is returned; only counted while there is no room yet. */
static size_t put(struct bn_session_events *r, const bn_event *event)
{
    if (r->events != NULL) r->events[r->n] = *event;
    return r->n++;
}

static size_t put_pass(struct bn_session_events *r, uint32_t thread, uint32_t pass)
{
    const struct bn_prof_pass *p = &r->prof->passes[pass];
    uint64_t begin = bn_prof_ns(r->prof, p->begin), end = bn_prof_ns(r->prof, p->end);
    const bn_event event = {.kind = BN_EVENT_PASS,
                            .thread = thread,
                            .index = (int32_t)pass,
                            .parent = SIZE_MAX,
                            .begin_ns = begin,
                            .ns = end - begin,
                            .elements = p->n_tokens};
    return put(r, &event);
}

/* Readings are in the order of their ends, so from the last one on what contains others comes first. */
static void walk_thread(struct bn_session_events *r, uint32_t thread)
{
    const bn_prof *prof = r->prof;
    size_t n, pass = SIZE_MAX, layer = SIZE_MAX, open[BN_PROF_DEPTH] = {0};
    const struct bn_prof_event *first = bn_prof_events(prof, thread, &n), *after = NULL;
    for (const struct bn_prof_event *e = first + n; e-- > first; after = e) {
        uint64_t begin = bn_prof_ns(prof, e->begin), end = bn_prof_ns(prof, e->end);
        bool is_kernel = e->kernel != BN_PROF_NO_KERNEL, moves = after == NULL || after->pass != e->pass;
        bn_event event = {.thread = thread, .index = e->layer, .begin_ns = begin, .ns = end - begin};
        if (moves && e->pass != BN_PROF_NO_PASS) pass = put_pass(r, thread, e->pass);
        if (moves || after->layer != e->layer) {
            event.kind = BN_EVENT_LAYER;
            event.parent = pass;
            layer = e->layer < 0 ? pass : put(r, &event);
        } else if (r->events != NULL && layer != pass && begin < r->events[layer].begin_ns) {
            r->events[layer].ns += r->events[layer].begin_ns - begin;
            r->events[layer].begin_ns = begin;
        }
        event.kind = is_kernel ? BN_EVENT_KERNEL : BN_EVENT_BRICK;
        event.name = is_kernel ? bn_prof_kernel_name(prof, e->kernel) : bn_brick_name(e->brick);
        if (!is_kernel) event.category = bn_brick_category_name(bn_brick_category(e->brick));
        event.parent = e->depth > 0 ? open[e->depth - 1] : layer;
        event.elements = e->elements;
        event.bytes = e->bytes;
        event.ops = (uint64_t)e->shape.rows * e->shape.cols * e->shape.n;
        size_t at = put(r, &event);
        if (!is_kernel) open[e->depth] = at;
    }
}

const bn_event *bn_session_event(bn_session *s, size_t i)
{
    struct bn_session_events *r = &s->recording;
    for (int counted = 0; r->prof != NULL && r->events == NULL && counted < 2; counted++) {
        if (counted > 0) r->events = bn_alloc(r->n, sizeof *r->events);
        if (counted > 0 && r->events == NULL) return NULL;
        r->n = 0;
        for (uint32_t t = 0; t < r->prof->n_threads; t++)
            walk_thread(r, t);
    }
    return r->prof != NULL && i < r->n ? &r->events[i] : NULL;
}

const char *bn_session_kernel_name(const bn_session *s, size_t i)
{
    bn_kernel_stat stat;
    return bn_session_kernel_stat(s, i, &stat) ? stat.name : NULL;
}

uint64_t bn_session_kernel_get(const bn_session *s, size_t i, bn_kernel_figure figure)
{
    bn_kernel_stat stat;
    if (!bn_session_kernel_stat(s, i, &stat)) return 0;
    const uint64_t figures[] = {stat.calls, stat.ns, stat.bytes, stat.ops}; /* in the order of the enum */
    return (size_t)figure < BN_ARRAY_LEN(figures) ? figures[figure] : 0;
}

const char *bn_brick_at(size_t i)
{
    return i < BN_BRICK_KNOWN ? bn_brick_name((unsigned)i) : NULL;
}
