/* SPDX-License-Identifier: MIT
 *
 * The profiler: opening one, and recording events. Results are in profiler_stats.c.
 */
#include "stamp/profiler.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

#define DEFAULT_EVENTS ((size_t)1 << 16)
#define DEFAULT_PASSES ((size_t)1 << 12)
#define MAX_TRAILS 1024u

const char *bn_prof_level_name(enum bn_prof_level level)
{
    static const char *const NAMES[BN_PROF_LEVELS] = {"off", "layer", "brick", "kernel"};
    return (unsigned)level < BN_PROF_LEVELS ? NAMES[level] : "unknown";
}

/* ---- set-up ---- */

/* Touches the pages, so that the first events do not cause page faults. */
static bool take_events(struct bn_prof_trail *trail, size_t room)
{
    trail->events = bn_alloc(room, sizeof *trail->events);
    if (trail->events == NULL) return false;
    trail->room = room;
    memset(trail->events, 0xff, room * sizeof *trail->events);
    return true;
}

/* Upper bounds of what forward.c stamps. */
#define IN_LAYER 48u      /* bricks and waits of a layer */
#define OUT_OF_LAYERS 16u /* of a pass, outside of layers */
#define OF_HEAD 6u        /* three bricks and three kernels of attention, of each head of each token */

uint64_t bn_prof_room_for(const bn_hparams *network, enum bn_prof_level level, uint64_t n_passes,
                          uint64_t n_tokens)
{
    uint64_t room = n_passes * (IN_LAYER * (uint64_t)network->n_layer + OUT_OF_LAYERS);
    if (level == BN_PROF_KERNEL) room = 2 * room + n_tokens * network->n_layer * network->n_head * OF_HEAD;
    return room;
}

#define READINGS 255u

int bn_prof_by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The clock, and what two readings in a row differ by: in the median, since another core's may be a tick off.
 */
static void start_clock(bn_prof *prof)
{
    uint64_t steps[READINGS];
    bn_tick_clock_open(&prof->clock);
    for (unsigned i = 0; i < READINGS; i++) {
        uint64_t first = bn_ticks(&prof->clock);
        do
            steps[i] = bn_ticks(&prof->clock) - first;
        while (steps[i] == 0);
    }
    qsort(steps, READINGS, sizeof *steps, bn_prof_by_value);
    prof->resolution = steps[READINGS / 2];
}

bn_status bn_prof_open(bn_prof **out, const struct bn_prof_options *options, bn_error *err)
{
    *out = NULL;
    if (options->n_threads == 0 || options->n_threads > MAX_TRAILS)
        return bn_fail(err, BN_ERR_ARG, "a profile of %u threads", options->n_threads);
    bn_prof *prof = bn_alloc(1, sizeof *prof);
    if (prof == NULL) return bn_nomem(err);
    prof->level = options->level;
    prof->n_threads = options->n_threads;
    prof->passes_room = options->n_passes != 0 ? options->n_passes : DEFAULT_PASSES;
    prof->passes = bn_alloc(prof->passes_room, sizeof *prof->passes);
    prof->trails = bn_alloc_aligned(prof->n_threads, sizeof *prof->trails);
    bool ok = prof->passes != NULL && prof->trails != NULL;
    for (unsigned t = 0; ok && t < prof->n_threads; t++) {
        prof->trails[t].prof = prof;
        ok = take_events(&prof->trails[t], options->n_events != 0 ? options->n_events : DEFAULT_EVENTS);
    }
    if (!ok) {
        bn_prof_close(prof);
        return bn_fail(err, BN_ERR_NOMEM, "out of memory for the events of a profile");
    }
    start_clock(prof);
    bn_prof_reset_epoch(prof);
    *out = prof;
    return BN_OK;
}

void bn_prof_close(bn_prof *prof)
{
    if (prof == NULL) return;
    for (unsigned t = 0; prof->trails != NULL && t < prof->n_threads; t++)
        bn_free(prof->trails[t].events);
    bn_free(prof->trails);
    bn_free(prof->own_kernel_names);
    bn_free(prof->launches);
    bn_free(prof->passes);
    bn_free(prof);
}

/* ---- measuring ---- */

void bn_prof_reset_epoch(bn_prof *prof)
{
    for (unsigned t = 0; t < prof->n_threads; t++) {
        struct bn_prof_trail *trail = &prof->trails[t];
        *trail =
            (struct bn_prof_trail){.prof = prof, .events = trail->events, .room = trail->room, .layer = -1};
    }
    prof->n_passes = prof->n_launches = 0;
    prof->n_skip = 0;
    prof->rests = false;
    prof->passes_dropped = 0;
    prof->wall_ns = 0;
    prof->finalized = false;
    prof->epoch = bn_prof_on(prof) ? bn_prof_now(prof) : 0;
}

uint64_t bn_prof_ns(const bn_prof *prof, uint64_t ticks)
{
    if (ticks <= prof->epoch) return 0;
    double ns = (double)(ticks - prof->epoch) * prof->clock.ns_per_tick;
    return ns < 0x1p64 ? (uint64_t)ns : UINT64_MAX; /* more in damaged profiles only */
}

/* The processor may read its counter before earlier loads, so that a thread which has just
 * seen another's reading could read less. Here it waits for them; in the hot path a stamp may be early by
 * what is in flight, some nanoseconds. */
uint64_t bn_prof_elapsed_ns(const bn_prof *prof)
{
    if (!bn_prof_on(prof)) return 0;
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#endif
    return bn_prof_ns(prof, bn_prof_now(prof));
}

/* Adds the next event that is not in the sums. */
static void fold_one(struct bn_prof_trail *trail)
{
    const struct bn_prof_event *e = &trail->events[trail->n_folded++];
    uint64_t begin = bn_prof_ns(trail->prof, e->begin), end = bn_prof_ns(trail->prof, e->end);
    uint64_t ns = end > begin ? end - begin : 0; /* the check refuses events that end before they begin */
    if (e->kernel != BN_PROF_NO_KERNEL) {
        struct bn_prof_kernel_stats *k = &trail->kernels[e->kernel];
        k->count++;
        k->ns += ns;
        k->bytes += e->bytes;
        k->ops += (uint64_t)e->shape.rows * e->shape.cols * e->shape.n;
        return;
    }
    uint64_t inside = trail->inside_ns[e->depth + 1u];
    struct bn_brick_stats *b = &trail->bricks[e->brick];
    trail->inside_ns[e->depth + 1u] = 0;
    trail->inside_ns[e->depth] += ns;
    if (b->count == 0 || ns < b->min_ns) b->min_ns = ns;
    if (ns > b->max_ns) b->max_ns = ns;
    b->count++;
    b->inclusive_ns += ns;
    b->exclusive_ns += ns > inside ? ns - inside : 0;
    b->elements += e->elements;
    b->bytes += e->bytes;
}

/* What comes after a pass, for example sampling, still belongs to it. */
static uint32_t pass_of(const bn_prof *prof)
{
    return (uint32_t)prof->n_passes - 1u; /* BN_PROF_NO_PASS before the first */
}

static void append(struct bn_prof_trail *trail, const struct bn_prof_event *event)
{
    if (trail->n == trail->room) {
        trail->dropped++;
        return;
    }
    trail->events[trail->n++] = *event;
}

/* The clock is read last at the beginning and first at the end. */
void bn_prof_open_brick(struct bn_prof_trail *trail, unsigned brick)
{
    uint32_t at = trail->depth++;
    if (at >= BN_PROF_DEPTH) return;
    trail->open[at].brick = (uint8_t)brick;
    trail->open[at].bytes = trail->bytes;
    trail->open[at].begin = bn_prof_now(trail->prof);
}

void bn_prof_close_brick(struct bn_prof_trail *trail, unsigned brick, uint64_t elements)
{
    uint64_t end = bn_prof_now(trail->prof);
    uint32_t at = trail->depth - 1;
    bool known = trail->depth > 0 && at < BN_PROF_DEPTH && trail->open[at].brick == brick;
    if (trail->depth > 0) trail->depth--;
    if (!known || brick >= BN_BRICK_KNOWN) {
        trail->dropped++; /* too deep, not the one that was opened last, or none at all */
        return;
    }
    append(trail, &(struct bn_prof_event){
                      .begin = trail->open[at].begin,
                      .end = end,
                      .elements = elements,
                      .bytes = trail->bytes - trail->open[at].bytes,
                      .pass = pass_of(trail->prof),
                      .layer = trail->layer,
                      .brick = (uint8_t)brick,
                      .kernel = BN_PROF_NO_KERNEL,
                      .depth = (uint8_t)at,
                  });
}

/* Of the open brick that an event is inside of. */
static uint8_t brick_around(const struct bn_prof_trail *trail)
{
    return trail->depth > 0 && trail->depth <= BN_PROF_DEPTH ? trail->open[trail->depth - 1].brick
                                                             : (uint8_t)BN_BRICK_NONE;
}

void bn_prof_add_kernel(struct bn_prof_trail *trail, enum bn_kernel kernel, uint64_t bytes,
                        const struct bn_prof_shape *shape)
{
    uint64_t end = bn_prof_now(trail->prof);
    append(trail, &(struct bn_prof_event){
                      .begin = trail->kernel_begin,
                      .end = end,
                      .bytes = bytes,
                      .shape = *shape,
                      .pass = pass_of(trail->prof),
                      .layer = trail->layer,
                      .brick = brick_around(trail),
                      .kernel = (uint8_t)kernel,
                      .depth = (uint8_t)bn_min_size(trail->depth, BN_PROF_DEPTH - 1),
                  });
}

/* Clocks differ by a little: an event begins after the one before, and ends before now. */
void bn_prof_add_launch(bn_prof *prof, const struct bn_prof_launch *launch, const struct bn_prof_event *event)
{
    struct bn_prof_trail *trail = &prof->trails[0];
    struct bn_prof_event *last = trail->n > 0 ? &trail->events[trail->n - 1] : NULL, e = *event;
    uint64_t now = bn_prof_now(prof), after = last != NULL ? last->end : prof->epoch;
    bool whole = prof->level == BN_PROF_LAYER && e.layer >= 0;
    e.end = launch->ended < now ? launch->ended : now;
    e.begin = launch->started > after ? launch->started : after;
    if (e.begin > e.end) e.begin = e.end = after;
    e.pass = pass_of(prof);
    e.depth = 0;
    e.kernel = BN_PROF_NO_KERNEL;
    e.elements = (uint64_t)e.shape.rows * e.shape.cols * e.shape.n;
    trail->bytes += e.bytes;
    if (whole) e.brick = BN_BRICK_LAYER;
    if (whole && last != NULL && last->brick == BN_BRICK_LAYER && last->layer == e.layer) {
        last->end = e.end;
        last->bytes += e.bytes;
        return;
    }
    if (e.begin > after)
        append(trail, &(struct bn_prof_event){.begin = after,
                                              .end = e.begin,
                                              .pass = e.pass,
                                              .layer = whole ? -1 : e.layer,
                                              .brick = BN_BRICK_TEAM,
                                              .kernel = BN_PROF_NO_KERNEL});
    if (prof->level == BN_PROF_KERNEL && event->kernel < BN_PROF_NO_KERNEL) {
        struct bn_prof_event kernel = e;
        kernel.kernel = event->kernel;
        kernel.depth = 1;
        kernel.elements = 0;
        append(trail, &kernel);
    }
    size_t at = trail->n - (prof->level == BN_PROF_KERNEL && event->kernel < BN_PROF_NO_KERNEL);
    trail->bricks[e.brick].ops += e.elements;
    e.shape = (struct bn_prof_shape){0};
    append(trail, &e);
    if (whole || bn_array_grow(&prof->launches, &prof->launches_room, prof->n_launches + 1,
                               sizeof *prof->launches, NULL) != BN_OK)
        return;
    prof->launches[prof->n_launches] = *launch;
    prof->launches[prof->n_launches++].event = (uint32_t)at;
}

void bn_prof_begin_pass(bn_prof *prof, uint32_t position, uint32_t n_tokens, uint32_t n_logits)
{
    if (!bn_prof_on(prof)) return;
    prof->rests = prof->n_skip > 0;
    prof->n_skip -= prof->rests;
    if (prof->n_passes == prof->passes_room) {
        prof->passes_dropped++;
        return;
    }
    prof->passes[prof->n_passes++] = (struct bn_prof_pass){
        .begin = bn_prof_now(prof), .position = position, .n_tokens = n_tokens, .n_logits = n_logits};
}

void bn_prof_end_pass(bn_prof *prof)
{
    if (!bn_prof_on(prof)) return;
    if (prof->passes_dropped == 0) prof->passes[prof->n_passes - 1].end = bn_prof_now(prof);
    if (prof->watch != NULL) prof->watch(prof->watch_user, prof);
}

void bn_prof_fold(bn_prof *prof)
{
    for (unsigned t = 0; t < prof->n_threads; t++)
        while (prof->trails[t].n_folded < prof->trails[t].n)
            fold_one(&prof->trails[t]);
}

void bn_prof_forget_events(bn_prof *prof)
{
    for (unsigned t = 0; t < prof->n_threads; t++)
        prof->trails[t].n = prof->trails[t].n_folded = 0;
    prof->n_passes = prof->n_launches = 0;
}

void bn_prof_finalize(bn_prof *prof, uint64_t end_ns)
{
    if (prof->finalized) return;
    bn_prof_fold(prof);
    prof->wall_ns = end_ns;
    prof->finalized = true;
}

size_t bn_prof_pending(const bn_prof *prof)
{
    size_t n = 0;
    for (unsigned t = 0; t < prof->n_threads; t++)
        n += prof->trails[t].n - prof->trails[t].n_folded;
    return n;
}

/* ---- bricks ---- */

static const struct {
    const char *name;
    enum bn_brick_category category;
    const char *aliases; /* words with a space between */
} BRICKS[BN_BRICK_KNOWN] = {
#define X(constant, name, category, aliases) {name, BN_CATEGORY_##category, aliases},
    BN_BRICKS(X)
#undef X
};

const char *bn_brick_name(unsigned brick)
{
    return brick < BN_BRICK_KNOWN ? BRICKS[brick].name : NULL;
}

enum bn_brick_category bn_brick_category(unsigned brick)
{
    return brick < BN_BRICK_KNOWN ? BRICKS[brick].category : BN_CATEGORY_OTHER;
}

const char *bn_brick_category_name(enum bn_brick_category category)
{
    static const char *const NAMES[BN_CATEGORY_COUNT] = {"Norm", "Attention", "FFN", "Head", "Other"};
    return (unsigned)category < BN_CATEGORY_COUNT ? NAMES[category] : "Other";
}

/* Is word one of the words of list? */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    while (n > 0 && *list != '\0') {
        size_t len = strcspn(list, " ");
        if (len == n && strncasecmp(list, word, n) == 0) return true;
        list += len + (list[len] == ' ');
    }
    return false;
}

unsigned bn_brick_find(const char *name)
{
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        if (strcasecmp(name, BRICKS[i].name) == 0 || has_word(BRICKS[i].aliases, name)) return i;
    return BN_BRICK_NONE;
}

/* ---- counters ---- */

struct bn_counter bn_counters_sum(const struct bn_counters *counters, unsigned n_threads,
                                  enum bn_kernel kernel)
{
    struct bn_counter sum = {0};
    for (unsigned t = 0; t < n_threads; t++) {
        bn_counter_join(&sum, &counters[t].kernel[kernel]);
        sum.ticks += counters[t].kernel[kernel].ticks;
    }
    return sum;
}
