/* SPDX-License-Identifier: MIT
 *
 * Any bytes in place of some of a live profile: its head, its sums, its events. A refusal has a message. A file
 * that is accepted gives a graph with a critical path, or a reason why not.
 */
#include "tests/fuzz/fuzz.h"

#include "lab/profile/graph.h"
#include "lab/profile/live.h"

#define N_THREADS 2u
#define MAX_EVENTS 8u

struct page {
    struct bn_live_head head;
    struct bn_live_body body;
    uint64_t n_events[N_THREADS];
    struct bn_prof_event events[N_THREADS][MAX_EVENTS];
};
_Static_assert(sizeof(struct page) % 8 == 0, "a file without gaps");

/* Two threads that start, compute a brick and meet. */
static void make_page(struct page *p)
{
    *p = (struct page){
        .head = {.layout = BN_LIVE_LAYOUT,
                 .n_threads = N_THREADS,
                 .max_events = MAX_EVENTS,
                 .level = BN_PROF_KERNEL,
                 .pid = 1,
                 .ns_per_tick = 1,
                 .program = "bn-run",
                 .model = "model",
                 .isa = "ref"},
        .body = {.sums = {.n_passes = 1, .n_tokens = 1}, .pass_number = 1, .pass = {0, 50, 0, 1, 1}}};
    memcpy(p->head.magic, BN_LIVE_MAGIC, sizeof p->head.magic);
    for (unsigned t = 0; t < N_THREADS; t++) {
        static const struct bn_prof_event EVENTS[] = {
            {.begin = 5,
             .end = 20,
             .kernel = BN_KERNEL_TERNARY_GEMV,
             .brick = BN_BRICK_UP_PROJECTION,
             .depth = 1},
            {.begin = 4, .end = 21, .kernel = BN_PROF_NO_KERNEL, .brick = BN_BRICK_UP_PROJECTION},
            {.begin = 21, .end = 25, .kernel = BN_PROF_NO_KERNEL, .brick = BN_BRICK_BARRIER_WAIT},
            {.begin = 25, .end = 45, .kernel = BN_PROF_NO_KERNEL, .brick = BN_BRICK_LM_HEAD, .layer = -1}};
        memcpy(p->events[t], EVENTS, sizeof EVENTS);
        p->n_events[t] = BN_ARRAY_LEN(EVENTS);
    }
}

static void make_graph(const bn_prof *prof)
{
    struct bn_graph graph;
    struct bn_schedule schedule = {0};
    bn_graph_open(&graph);
    if (succeeds(bn_graph_add_profile(&graph, prof, NULL, 0, 1, &err)) &&
        succeeds(bn_graph_finish(&graph, &err)))
        (void)succeeds(bn_schedule_open(&schedule, &graph, NULL, &err));
    bn_schedule_close(&schedule);
    bn_graph_close(&graph);
}

/* The input is pieces: two bytes of a place, one of a length, and what is written there. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct page page;
    struct bn_live_reader *reader = NULL;
    struct bn_live_snapshot *s = bn_alloc(1, sizeof *s);
    make_page(&page);
    for (size_t at = 0; at + 3 < size;) {
        size_t place = ((size_t)data[at] | (size_t)data[at + 1] << 8) % sizeof page, n = data[at + 2];
        at += 3;
        n = bn_min_size(n, bn_min_size(size - at, sizeof page - place));
        memcpy((unsigned char *)&page + place, data + at, n);
        at += n;
    }
    atomic_store(&page.body.sequence, atomic_load(&page.body.sequence) & ~(uint64_t)1); /* else it waits */
    hold(s != NULL);
    bool read = succeeds(bn_live_attach(&reader, fuzz_file(&page, sizeof page), &err)) &&
                succeeds(bn_live_read(s, reader, &err));
    if (read && s->pass != NULL) make_graph(s->pass);
    if (read) bn_live_release(s);
    bn_live_detach(reader);
    bn_free(s);
    return 0;
}
