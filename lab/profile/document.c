/* SPDX-License-Identifier: MIT
 *
 * Writes and reads profile documents. Stamps are ticks since the epoch, so that they are exact as JSON
 * numbers. Tables say what a row of an event or a pass has, for both directions.
 */
#include "lab/profile/document.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/kit/put_counts.h"
#include "lab/stats/summary.h"

/* ---- rows of numbers ---- */

struct column {
    const char *name;
    size_t offset, size;
    bool ticks;    /* since the epoch */
    uint64_t none; /* -1 in a document; UINT64_MAX: it has no such value */
};
#define COLUMN(type, name, field, ticks, none)                                           \
    {                                                                                    \
        name, offsetof(struct type, field), sizeof((struct type *)0)->field, ticks, none \
    }
#define EVENT(name, field, none) COLUMN(bn_prof_event, name, field, false, none)

static const struct column EVENT_COLUMNS[] = {
    EVENT("brick", brick, BN_BRICK_NONE),
    EVENT("kernel", kernel, BN_KERNEL_COUNT),
    EVENT("layer", layer, UINT16_MAX),
    EVENT("pass", pass, BN_PROF_NO_PASS),
    EVENT("depth", depth, UINT64_MAX),
    COLUMN(bn_prof_event, "begin", begin, true, UINT64_MAX),
    COLUMN(bn_prof_event, "end", end, true, UINT64_MAX),
    EVENT("elements", elements, UINT64_MAX),
    EVENT("bytes", bytes, UINT64_MAX),
    EVENT("rows", shape.rows, UINT64_MAX),
    EVENT("cols", shape.cols, UINT64_MAX),
    EVENT("n", shape.n, UINT64_MAX),
};
static const struct column PASS_COLUMNS[] = {
    COLUMN(bn_prof_pass, "begin", begin, true, UINT64_MAX),
    COLUMN(bn_prof_pass, "end", end, true, UINT64_MAX),
    COLUMN(bn_prof_pass, "position", position, false, UINT64_MAX),
    COLUMN(bn_prof_pass, "tokens", n_tokens, false, UINT64_MAX),
    COLUMN(bn_prof_pass, "logits", n_logits, false, UINT64_MAX),
};
#define LAUNCH(name, field, ticks) COLUMN(bn_prof_launch, name, field, ticks, UINT64_MAX)
static const struct column LAUNCH_COLUMNS[] = {
    LAUNCH("event", event, false),        LAUNCH("queued", queued, true),
    LAUNCH("submitted", submitted, true), LAUNCH("started", started, true),
    LAUNCH("ended", ended, true),         LAUNCH("global_0", global[0], false),
    LAUNCH("global_1", global[1], false), LAUNCH("local_0", local[0], false),
    LAUNCH("local_1", local[1], false),
};
#define N_LAUNCH_COLUMNS BN_ARRAY_LEN(LAUNCH_COLUMNS)
#define N_EVENT_COLUMNS BN_ARRAY_LEN(EVENT_COLUMNS)
#define N_PASS_COLUMNS BN_ARRAY_LEN(PASS_COLUMNS)

static void put_row(bn_json *rows, const void *row, const struct column *columns, size_t n, uint64_t epoch)
{
    bn_json *out = bn_json_add_array(rows);
    for (const struct column *c = columns; c < columns + n; c++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)row + c->offset, c->size); /* all machines of bn are little endian */
        if (value == c->none)
            bn_json_add_number(out, -1);
        else
            bn_json_add_u64(out, value - (c->ticks ? epoch : 0));
    }
}

static bool read_row(void *row, const bn_json *in, const struct column *columns, size_t n)
{
    const bn_json *value = bn_json_first(in);
    if (bn_json_kind(in) != BN_JSON_ARRAY || bn_json_size(in) != n) return false;
    for (const struct column *c = columns; c < columns + n; c++, value = bn_json_next(value)) {
        double number;
        if (!bn_json_number(value, &number) || number < -1 || number > 0x1p53 || floor(number) < number ||
            (number < 0 && c->none == UINT64_MAX) || (number >= 0 && number >= (double)c->none) ||
            number >= ldexp(1, 8 * (int)c->size))
            return false;
        uint64_t bits = number < 0 ? c->none : (uint64_t)number;
        memcpy((char *)row + c->offset, &bits, c->size);
    }
    return true;
}

static void put_names(bn_json *profile, const char *member, const struct column *columns, size_t n)
{
    bn_json *names = bn_json_put_array(profile, member);
    for (size_t i = 0; i < n; i++)
        bn_json_add_string(names, columns[i].name);
}

static bool has_names(const bn_json *array, const struct column *columns, size_t n)
{
    const char *name;
    if (bn_json_size(array) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!bn_json_string(bn_json_at(array, i), &name) || strcmp(name, columns[i].name) != 0) return false;
    return true;
}

/* ---- the summary ---- */

static void put_ratio(bn_json *object, const char *name, double part, double whole, const char *why)
{
    bn_json_put_finite(object, name, whole > 0 ? part / whole : (double)NAN, why);
}

static void put_quantile(bn_json *object, const char *name, uint64_t ns)
{
    bn_json_put_finite(object, name, ns > 0 ? (double)ns : (double)NAN, "too few events");
}

bn_json *bn_prof_put_brick(bn_json *bricks, const char *name, enum bn_brick_category category,
                           const struct bn_brick_stats *b, uint64_t sum_ns)
{
    bn_json *o = bn_json_add_object(bricks);
    BN_PUT(o, BN_STRING("name", name), BN_STRING("category", bn_brick_category_name(category)),
           BN_U64("count", b->count), BN_U64("inclusive_ns", b->inclusive_ns),
           BN_U64("exclusive_ns", b->exclusive_ns), BN_U64("bytes", b->bytes));
    put_ratio(o, "share_of_sum", (double)b->exclusive_ns, (double)sum_ns, "nothing was measured");
    return o;
}

void bn_prof_put_kernel(bn_json *kernels, const char *name, const struct bn_prof_kernel_stats *s)
{
    bn_json *o = bn_json_add_object(kernels);
    bn_json_put_string(o, "name", name);
    BN_PUT_COUNTS(o, {"count", s->count}, {"ns", s->ns}, {"bytes", s->bytes}, {"ops", s->ops});
}

static bn_status put_bricks(bn_json *summary, const bn_prof *prof, bn_error *err)
{
    bn_json *bricks = bn_json_put_array(summary, "bricks");
    uint64_t sum = bn_prof_total_ns(prof, BN_PROF_ALL_THREADS);
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        struct bn_brick_stats b = bn_prof_stats_for(prof, i, BN_PROF_ALL_THREADS);
        struct bn_prof_quantiles q;
        if (b.count == 0) continue;
        BN_TRY(bn_prof_quantiles(prof, i, &q, err));
        bn_json *o = bn_prof_put_brick(bricks, bn_brick_name(i), bn_brick_category(i), &b, sum);
        bn_json_put_u64(o, "min_ns", b.min_ns);
        put_quantile(o, "median_ns", q.median_ns);
        put_quantile(o, "p95_ns", q.p95_ns);
        put_quantile(o, "p99_ns", q.p99_ns);
        BN_PUT(o, BN_U64("max_ns", b.max_ns), BN_U64("elements", b.elements));
    }
    return BN_OK;
}

static void put_threads(bn_json *summary, const bn_prof *prof)
{
    bn_json *array = bn_json_put_array(summary, "threads");
    for (unsigned t = 0; t < prof->n_threads; t++) {
        uint64_t sum = bn_prof_total_ns(prof, t);
        bn_json *o = bn_json_add_object(array);
        BN_PUT_COUNTS(o, {"bricks_ns", sum},
                      {"barrier_wait_ns", bn_prof_stats_for(prof, BN_BRICK_BARRIER_WAIT, t).exclusive_ns},
                      {"unattributed_ns", prof->wall_ns > sum ? prof->wall_ns - sum : 0});
    }
}

/* Of passes of one token, from where the first begins to where the last one ends. */
static void put_speed(bn_json *summary, const bn_prof *prof)
{
    uint64_t n = 0, ns = 0;
    for (size_t i = 0; i < prof->n_passes; i++) {
        if (prof->passes[i].n_tokens != 1) continue;
        n++;
        ns += bn_prof_ns(prof, prof->passes[i].end) - bn_prof_ns(prof, prof->passes[i].begin);
    }
    BN_PUT(summary, BN_U64("decode_passes", n), BN_U64("decode_ns", ns));
    put_ratio(summary, "decode_tokens_per_second", (double)n * 1e9, (double)ns, "no pass of one token");
}

bn_status bn_prof_put_summary(bn_json *profile, const bn_prof *prof, bn_error *err)
{
    bn_json *summary = bn_json_put_object(profile, "summary");
    bn_json_put_texts(summary, "from", (const char *const[]){"clock", "events", "passes", "wall_ns"}, 4);
    bn_json_put_number(summary, "coverage", bn_prof_coverage(prof));
    BN_TRY(put_bricks(summary, prof, err));
    bn_json *kernels = bn_json_put_array(summary, "kernels");
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        struct bn_prof_kernel_stats s = bn_prof_kernel_stats(prof, (enum bn_kernel)k, BN_PROF_ALL_THREADS);
        if (s.count > 0) bn_prof_put_kernel(kernels, bn_prof_kernel_name(prof, k), &s);
    }
    put_threads(summary, prof);
    put_speed(summary, prof);
    return BN_OK;
}

/* ---- writing ---- */

static void put_events(bn_json *profile, const bn_prof *prof)
{
    size_t n = 0;
    char reason[80];
    for (unsigned t = 0; t < prof->n_threads; t++)
        n += prof->trails[t].n;
    put_names(profile, "event_columns", EVENT_COLUMNS, N_EVENT_COLUMNS);
    snprintf(reason, sizeof reason, "there are %zu, a document holds %u", n, BN_PROF_DOCUMENT_EVENTS);
    if (n > BN_PROF_DOCUMENT_EVENTS) {
        bn_json_put_unavailable(profile, "events", reason);
        return;
    }
    bn_json *threads = bn_json_put_array(profile, "events");
    for (unsigned t = 0; t < prof->n_threads; t++) {
        bn_json *array = bn_json_add_array(threads);
        for (size_t i = 0; i < prof->trails[t].n; i++)
            put_row(array, &prof->trails[t].events[i], EVENT_COLUMNS, N_EVENT_COLUMNS, prof->epoch);
    }
    if (prof->n_launches == 0) return;
    put_names(profile, "launch_columns", LAUNCH_COLUMNS, N_LAUNCH_COLUMNS);
    bn_json *launches = bn_json_put_array(profile, "launches");
    for (size_t i = 0; i < prof->n_launches; i++)
        put_row(launches, &prof->launches[i], LAUNCH_COLUMNS, N_LAUNCH_COLUMNS, prof->epoch);
}

/* The number of layers, and how many norms each has: a row of its parts each, but one for the heads of q and k together. In
 * a recurrent layer, too: they are normalised without a tensor, and the norm of the output is a part of another brick. */
static void put_network(bn_json *profile, const bn_hparams *hp)
{
    bn_json *network = bn_json_put_object(profile, "network");
    bn_json_put_u64(network, "layers", hp->n_layer);
    bn_json *norms = bn_json_put_array(network, "norms");
    for (uint32_t layer = 0; layer < hp->n_layer; layer++) {
        uint64_t n = 0;
        for (const struct bn_layer_part *p = bn_parts; p->name != NULL; p++)
            n +=
                p->kind == BN_PART_NORM && strcmp(p->name, "attn_k_norm") != 0 && bn_part_is_in(p, hp, layer);
        bn_json_add_u64(norms, n);
    }
}

bn_status bn_prof_put(bn_json *document, const bn_prof *prof, const bn_hparams *hp, bn_error *err)
{
    bn_json *profile = bn_json_put_object(document, "profile");
    BN_PUT(profile, BN_STRING("level", bn_prof_level_name(prof->level)),
           BN_U64("n_threads", prof->n_threads));
    bn_json *clock = bn_json_put_object(profile, "clock");
    BN_PUT(clock, BN_STRING("id", prof->clock.counter ? "counter" : "monotonic"),
           BN_NUMBER("ns_per_tick", prof->clock.ns_per_tick), BN_U64("resolution_ticks", prof->resolution));
    put_network(profile, hp);
    BN_PUT(profile, BN_U64("wall_ns", prof->wall_ns), BN_U64("dropped", bn_prof_dropped(prof)));
    bn_json *bricks = bn_json_put_array(profile, "bricks"), *kernels = bn_json_put_array(profile, "kernels");
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        bn_json *brick = bn_json_add_object(bricks);
        bn_json_put_string(brick, "name", bn_brick_name(i));
        bn_json_put_string(brick, "category", bn_brick_category_name(bn_brick_category(i)));
    }
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        bn_json_add_string(kernels, bn_prof_kernel_name(prof, k));
    BN_TRY(bn_prof_put_summary(profile, prof, err));
    put_names(profile, "pass_columns", PASS_COLUMNS, N_PASS_COLUMNS);
    bn_json *passes = bn_json_put_array(profile, "passes");
    for (size_t i = 0; i < prof->n_passes; i++)
        put_row(passes, &prof->passes[i], PASS_COLUMNS, N_PASS_COLUMNS, prof->epoch);
    put_events(profile, prof);
    return BN_OK;
}

/* ---- reading ---- */

#define MAX_ROOM (1u << 22) /* events: a quarter of a gigabyte */

/* What is missing or malformed; NULL: nothing. */
static const char *read_head(bn_prof *prof, const bn_json *p)
{
    const char *level = bn_json_text_of(p, "level");
    int i = BN_PROF_LEVELS - 1;
    while (i >= 0 && strcmp(level, bn_prof_level_name((enum bn_prof_level)i)) != 0)
        i--;
    if (i < 0) return "level";
    prof->level = (enum bn_prof_level)i;
    if (!bn_json_number(bn_json_path(p, "clock.ns_per_tick"), &prof->clock.ns_per_tick) ||
        !bn_json_u64(bn_json_path(p, "clock.resolution_ticks"), &prof->resolution) ||
        prof->clock.ns_per_tick <= 0 || prof->clock.ns_per_tick > 1e3)
        return "clock";
    if (!bn_json_u64(bn_json_get(p, "wall_ns"), &prof->wall_ns)) return "wall_ns";
    return bn_json_u64(bn_json_get(p, "dropped"), &prof->passes_dropped) ? NULL : "dropped";
}

/* The bricks are those that this program knows. The names of kernels are borrowed from the document. */
static const char *read_names(bn_prof *prof, const bn_json *bricks, const bn_json *kernels)
{
    if (bn_json_size(bricks) != BN_BRICK_KNOWN) return "list of bricks";
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        if (!bn_json_text_is(bn_json_at(bricks, i), "name", bn_brick_name(i)) ||
            !bn_json_text_is(bn_json_at(bricks, i), "category", bn_brick_category_name(bn_brick_category(i))))
            return "list of bricks";
    if (bn_json_size(kernels) != BN_KERNEL_COUNT) return "list of kernels";
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        if (!bn_json_string(bn_json_at(kernels, k), &prof->own_kernel_names[k])) return "list of kernels";
    return NULL;
}

static const char *read_passes(bn_prof *prof, const bn_json *p)
{
    if (!has_names(bn_json_get(p, "pass_columns"), PASS_COLUMNS, N_PASS_COLUMNS)) return "pass_columns";
    for (const bn_json *row = bn_json_first(bn_json_get(p, "passes")); row != NULL; row = bn_json_next(row))
        if (!read_row(&prof->passes[prof->n_passes++], row, PASS_COLUMNS, N_PASS_COLUMNS))
            return "list of passes";
    return NULL;
}

static bool is_possible(const struct bn_prof_event *e, const bn_prof *prof)
{
    bool of_brick = e->brick < BN_BRICK_KNOWN;
    return (of_brick || (e->brick == BN_BRICK_NONE && e->kernel != BN_PROF_NO_KERNEL)) && e->layer >= -1 &&
           (e->pass < prof->n_passes || e->pass == BN_PROF_NO_PASS) && e->depth < BN_PROF_DEPTH;
}

static const char *read_events(bn_prof *prof, const bn_json *p)
{
    if (!has_names(bn_json_get(p, "event_columns"), EVENT_COLUMNS, N_EVENT_COLUMNS)) return "event_columns";
    for (unsigned t = 0; t < prof->n_threads; t++) {
        struct bn_prof_trail *trail = &prof->trails[t];
        const bn_json *array = bn_json_at(bn_json_get(p, "events"), t);
        if (bn_json_kind(array) != BN_JSON_ARRAY) return "list of events";
        for (const bn_json *row = bn_json_first(array); row != NULL; row = bn_json_next(row)) {
            struct bn_prof_event *e = &trail->events[trail->n++];
            if (!read_row(e, row, EVENT_COLUMNS, N_EVENT_COLUMNS) || !is_possible(e, prof))
                return "list of events";
        }
    }
    return NULL;
}

/* Of a device; without them it was the CPU. */
static const char *read_launches(bn_prof *prof, const bn_json *p)
{
    const bn_json *array = bn_json_get(p, "launches");
    if (array == NULL) return NULL;
    prof->launches = bn_alloc(bn_json_size(array), sizeof *prof->launches);
    if (prof->launches == NULL || bn_json_kind(array) != BN_JSON_ARRAY ||
        !has_names(bn_json_get(p, "launch_columns"), LAUNCH_COLUMNS, N_LAUNCH_COLUMNS))
        return "list of launches";
    for (const bn_json *row = bn_json_first(array); row != NULL; row = bn_json_next(row)) {
        struct bn_prof_launch *l = &prof->launches[prof->n_launches++];
        if (!read_row(l, row, LAUNCH_COLUMNS, N_LAUNCH_COLUMNS) || l->event >= prof->trails[0].n)
            return "list of launches";
    }
    return NULL;
}

static bn_status read_parts(bn_prof *prof, uint64_t *n_layers, const bn_json *p, bn_error *err)
{
    const char *wrong = read_head(prof, p);
    prof->kernel_names = prof->own_kernel_names = bn_alloc(BN_KERNEL_COUNT, sizeof *prof->own_kernel_names);
    if (prof->kernel_names == NULL) return bn_nomem(err);
    if (!bn_json_u64(bn_json_path(p, "network.layers"), n_layers) || *n_layers == 0 || *n_layers > INT16_MAX)
        wrong = "network";
    if (wrong == NULL) wrong = read_names(prof, bn_json_get(p, "bricks"), bn_json_get(p, "kernels"));
    if (wrong == NULL) wrong = read_passes(prof, p);
    if (wrong == NULL) wrong = read_events(prof, p);
    if (wrong == NULL) wrong = read_launches(prof, p);
    if (wrong == NULL) return BN_OK;
    return bn_fail(err, BN_ERR_FORMAT, "the profile's %s is missing or malformed", wrong);
}

bn_status bn_prof_read(bn_prof **out, uint64_t *n_layers, const bn_json *document, bn_error *err)
{
    const bn_json *p = bn_json_get(document, "profile"), *events = bn_json_get(p, "events");
    size_t n_threads = bn_json_size(events);
    uint64_t any_layers;
    struct bn_prof_options options = {.n_threads = (unsigned)n_threads,
                                      .n_events = 1,
                                      .n_passes = bn_json_size(bn_json_get(p, "passes")) + 1};
    *out = NULL;
    if (!bn_json_text_is(document, "schema", BN_PROF_SCHEMA))
        return bn_fail(err, BN_ERR_FORMAT, "the document is not a " BN_PROF_SCHEMA);
    if (bn_json_kind(events) != BN_JSON_ARRAY || n_threads == 0)
        return bn_fail(err, BN_ERR_FORMAT, "the profile holds no events");
    if (bn_json_count_of(p, "n_threads") != n_threads)
        return bn_fail(err, BN_ERR_FORMAT, "the profile's n_threads is missing or malformed");
    for (const bn_json *array = bn_json_first(events); array != NULL; array = bn_json_next(array))
        if (bn_json_size(array) > options.n_events) options.n_events = bn_json_size(array);
    /* Each trail gets as much room as the longest: a few bytes of text must not become much memory. */
    if (n_threads * options.n_events > MAX_ROOM)
        return bn_fail(err, BN_ERR_LIMIT, "the profile has %zu threads and up to %zu events on one",
                       n_threads, options.n_events);
    BN_TRY(bn_prof_open(out, &options, err));
    bn_status status = read_parts(*out, n_layers != NULL ? n_layers : &any_layers, p, err);
    if (status == BN_OK) {
        bn_prof_finalize(*out, (*out)->wall_ns);
    } else {
        bn_prof_close(*out);
        *out = NULL;
    }
    return status;
}

/* ---- what measuring costs ---- */

#define BATCH 512u
#define BATCHES 101u

bn_status bn_prof_event_cost(double *least, double *median, enum bn_prof_level level, bn_error *err)
{
    struct bn_prof_options options = {level, 1, BATCH, 1};
    double samples[BATCHES];
    bn_prof *prof = NULL;
    BN_TRY(bn_prof_open(&prof, &options, err));
    prof->enabled = true;
    *least = (double)INFINITY;
    for (unsigned i = 0; i < BATCHES; i++) {
        bn_prof_reset_epoch(prof);
        struct bn_prof_trail *trail = bn_prof_trail(prof, 0);
        uint64_t start = bn_clock_ns();
        for (unsigned j = 0; j < BATCH; j++)
            bn_prof_stop(bn_prof_start(trail, BN_BRICK_RMS_NORM), 1);
        samples[i] = (double)(bn_clock_ns() - start) / BATCH;
        *least = fmin(*least, samples[i]);
    }
    bn_prof_close(prof);
    *median = bn_median_in_place(samples, BATCHES);
    return BN_OK;
}
