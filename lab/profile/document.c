/* SPDX-License-Identifier: MIT
 *
 * Writes and reads profile documents. Stamps are ticks since the epoch, so that they are exact as JSON
 * numbers.
 */
#include "lab/profile/document.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/stats/summary.h"
#include "model/hparams.h"

/* The columns of an event, in order. */
#define COLUMNS(X) \
    X(brick) X(kernel) X(layer) X(pass) X(depth) X(begin) X(end) X(elements) X(bytes) X(rows) X(cols) X(n)

enum {
#define X(name) COLUMN_##name,
    COLUMNS(X)
#undef X
        N_COLUMNS
};

static const char *const COLUMN_NAMES[] = {
#define X(name) #name,
    COLUMNS(X)
#undef X
};

static const char *const PASS_COLUMNS[] = {"begin", "end", "position", "tokens", "logits"};
#define N_PASS_COLUMNS 5u

/* ---- writing ---- */

static void put_clock(bn_json *profile, const bn_prof *prof)
{
    bn_json *clock = bn_json_put_object(profile, "clock");
    bn_json_put_string(clock, "id",
                       prof->fake_clock != NULL ? "fake"
                       : prof->clock.counter    ? "counter"
                                                : "monotonic");
    bn_json_put_number(clock, "ns_per_tick", prof->clock.ns_per_tick);
    bn_json_put_u64(clock, "resolution_ticks", prof->resolution);
}

static void put_bricks(bn_json *profile, const bn_prof *prof)
{
    bn_json *array = bn_json_put_array(profile, "bricks");
    for (unsigned i = 0; i < prof->n_bricks; i++) {
        bn_json *brick = bn_json_add_object(array);
        bn_json_put_string(brick, "name", bn_prof_brick_name(prof, i));
        bn_json_put_string(brick, "category", bn_brick_category_name(bn_prof_brick_category(prof, i)));
    }
}

static void put_passes(bn_json *profile, const bn_prof *prof)
{
    bn_json_put_texts(profile, "pass_columns", PASS_COLUMNS, N_PASS_COLUMNS);
    bn_json *array = bn_json_put_array(profile, "passes");
    for (size_t i = 0; i < prof->n_passes; i++) {
        const struct bn_prof_pass *pass = &prof->passes[i];
        bn_json *row = bn_json_add_array(array);
        bn_json_add_u64(row, pass->begin - prof->epoch);
        bn_json_add_u64(row, pass->end - prof->epoch);
        bn_json_add_u64(row, pass->position);
        bn_json_add_u64(row, pass->n_tokens);
        bn_json_add_u64(row, pass->n_logits);
    }
}

static void put_event(bn_json *array, const bn_prof *prof, const struct bn_prof_event *e)
{
    bn_json *row = bn_json_add_array(array);
    bn_json_add_number(row, e->brick == BN_BRICK_NONE ? -1.0 : (double)e->brick);
    bn_json_add_number(row, e->kernel == BN_PROF_NO_KERNEL ? -1.0 : (double)e->kernel);
    bn_json_add_number(row, (double)e->layer);
    bn_json_add_number(row, e->pass == BN_PROF_NO_PASS ? -1.0 : (double)e->pass);
    bn_json_add_u64(row, e->depth);
    bn_json_add_u64(row, e->begin - prof->epoch);
    bn_json_add_u64(row, e->end - prof->epoch);
    bn_json_add_u64(row, e->elements);
    bn_json_add_u64(row, e->bytes);
    bn_json_add_u64(row, e->shape.rows);
    bn_json_add_u64(row, e->shape.cols);
    bn_json_add_u64(row, e->shape.n);
}

static void put_events(bn_json *profile, const bn_prof *prof)
{
    size_t n = 0;
    char reason[80];
    for (unsigned t = 0; t < prof->n_threads; t++)
        n += prof->trails[t].n;
    bn_json_put_texts(profile, "event_columns", COLUMN_NAMES, N_COLUMNS);
    snprintf(reason, sizeof reason, "there are %zu, a document holds %u", n, BN_PROF_DOCUMENT_EVENTS);
    if (n > BN_PROF_DOCUMENT_EVENTS) {
        bn_json_put_unavailable(profile, "events", reason);
        return;
    }
    bn_json *threads = bn_json_put_array(profile, "events");
    for (unsigned t = 0; t < prof->n_threads; t++) {
        bn_json *array = bn_json_add_array(threads);
        for (size_t i = 0; i < prof->trails[t].n; i++)
            put_event(array, prof, &prof->trails[t].events[i]);
    }
}

/* ---- the summary ---- */

static void put_ratio(bn_json *object, const char *name, double part, double whole, const char *why)
{
    if (whole > 0)
        bn_json_put_number(object, name, part / whole);
    else
        bn_json_put_unavailable(object, name, why);
}

static void put_quantile(bn_json *object, const char *name, uint64_t ns)
{
    if (ns > 0)
        bn_json_put_u64(object, name, ns);
    else
        bn_json_put_unavailable(object, name, "too few events");
}

static void put_shares(bn_json *object, const bn_prof *prof, uint64_t exclusive_ns)
{
    uint64_t sum = bn_prof_total_ns(prof, BN_PROF_ALL_THREADS);
    put_ratio(object, "share_of_sum", (double)exclusive_ns, (double)sum, "nothing was measured");
    put_ratio(object, "share_of_wall", (double)exclusive_ns, (double)prof->wall_ns * prof->n_threads,
              "no time passed");
}

static bn_status put_brick_summary(bn_json *array, const bn_prof *prof, unsigned brick, bn_error *err)
{
    struct bn_brick_stats b = bn_prof_stats_for(prof, brick, BN_PROF_ALL_THREADS);
    struct bn_prof_quantiles q;
    if (b.count == 0) return BN_OK;
    BN_TRY(bn_prof_quantiles(prof, brick, &q, err));
    bn_json *o = bn_json_add_object(array);
    bn_json_put_string(o, "name", bn_prof_brick_name(prof, brick));
    bn_json_put_string(o, "category", bn_brick_category_name(bn_prof_brick_category(prof, brick)));
    bn_json_put_u64(o, "count", b.count);
    bn_json_put_u64(o, "inclusive_ns", b.inclusive_ns);
    bn_json_put_u64(o, "exclusive_ns", b.exclusive_ns);
    bn_json_put_u64(o, "min_ns", b.min_ns);
    put_quantile(o, "median_ns", q.median_ns);
    put_quantile(o, "p95_ns", q.p95_ns);
    put_quantile(o, "p99_ns", q.p99_ns);
    bn_json_put_u64(o, "max_ns", b.max_ns);
    bn_json_put_u64(o, "elements", b.elements);
    bn_json_put_u64(o, "bytes", b.bytes);
    if (b.bytes > 0)
        put_ratio(o, "gb_per_second", (double)b.bytes, (double)b.inclusive_ns, "no time passed");
    else
        bn_json_put_unavailable(o, "gb_per_second", "its kernels declare no bytes");
    put_shares(o, prof, b.exclusive_ns);
    return BN_OK;
}

static void put_categories(bn_json *summary, const bn_prof *prof)
{
    struct bn_brick_stats all[BN_CATEGORY_COUNT];
    bn_prof_category_stats(prof, BN_PROF_ALL_THREADS, all);
    bn_json *array = bn_json_put_array(summary, "categories");
    for (unsigned c = 0; c < BN_CATEGORY_COUNT; c++) {
        bn_json *o = bn_json_add_object(array);
        bn_json_put_string(o, "name", bn_brick_category_name((enum bn_brick_category)c));
        bn_json_put_u64(o, "count", all[c].count);
        bn_json_put_u64(o, "exclusive_ns", all[c].exclusive_ns);
        put_shares(o, prof, all[c].exclusive_ns);
    }
}

static void put_kernels(bn_json *summary, const bn_prof *prof)
{
    bn_json *array = bn_json_put_array(summary, "kernels");
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        struct bn_prof_kernel_stats s = bn_prof_kernel_stats(prof, (enum bn_kernel)k, BN_PROF_ALL_THREADS);
        if (s.count == 0) continue;
        bn_json *o = bn_json_add_object(array);
        bn_json_put_string(o, "name", bn_prof_kernel_name(prof, k));
        bn_json_put_u64(o, "count", s.count);
        bn_json_put_u64(o, "ns", s.ns);
        bn_json_put_u64(o, "bytes", s.bytes);
        bn_json_put_u64(o, "ops", s.ops);
    }
}

static void put_threads(bn_json *summary, const bn_prof *prof)
{
    bn_json *array = bn_json_put_array(summary, "threads");
    for (unsigned t = 0; t < prof->n_threads; t++) {
        uint64_t sum = bn_prof_total_ns(prof, t);
        bn_json *o = bn_json_add_object(array);
        bn_json_put_u64(o, "bricks_ns", sum);
        bn_json_put_u64(o, "barrier_wait_ns", bn_prof_stats_for(prof, BN_BRICK_BARRIER_WAIT, t).exclusive_ns);
        bn_json_put_u64(o, "unattributed_ns", prof->wall_ns > sum ? prof->wall_ns - sum : 0);
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
    bn_json_put_u64(summary, "decode_passes", n);
    bn_json_put_u64(summary, "decode_ns", ns);
    put_ratio(summary, "decode_tokens_per_second", (double)n * 1e9, (double)ns, "no pass of one token");
}

bn_status bn_prof_put_summary(bn_json *profile, const bn_prof *prof, bn_error *err)
{
    bn_json *summary = bn_json_put_object(profile, "summary");
    bn_json_put_texts(summary, "from", (const char *const[]){"clock", "events", "passes", "wall_ns"}, 4);
    bn_json_put_number(summary, "coverage", bn_prof_coverage(prof));
    bn_json *bricks = bn_json_put_array(summary, "bricks");
    for (unsigned i = 0; i < prof->n_bricks; i++)
        BN_TRY(put_brick_summary(bricks, prof, i, err));
    put_categories(summary, prof);
    put_kernels(summary, prof);
    put_threads(summary, prof);
    put_speed(summary, prof);
    return BN_OK;
}

bn_status bn_prof_put(bn_json *document, const bn_prof *prof, const bn_hparams *network, bn_error *err)
{
    bn_json *profile = bn_json_put_object(document, "profile");
    bn_json_put_string(profile, "level", bn_prof_level_name(prof->level));
    bn_json_put_u64(profile, "n_threads", prof->n_threads);
    put_clock(profile, prof);
    bn_json *net = bn_json_put_object(profile, "network");
    bn_json_put_u64(net, "layers", network->n_layer);
    bn_json_put_bool(net, "sub_norms", network->sub_norms);
    bn_json_put_bool(net, "head_norms", network->head_norms);
    bn_json_put_bool(net, "input_norms", network->input_norms);
    bn_json_put_bool(net, "post_norms", network->post_norms);
    if (network->experts.n != 0) bn_json_put_bool(net, "experts", true);
    bn_json *recurrent = network->recurrence.n_taps != 0 ? bn_json_put_array(net, "recurrent") : NULL;
    for (uint32_t i = 0; recurrent != NULL && i < network->n_layer; i++)
        if (bn_hparams_is_recurrent(network, i)) bn_json_add_u64(recurrent, i);
    bn_json_put_u64(profile, "wall_ns", prof->wall_ns);
    bn_json_put_u64(profile, "dropped", bn_prof_dropped(prof));
    put_bricks(profile, prof);
    bn_json *kernels = bn_json_put_array(profile, "kernels");
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        bn_json_add_string(kernels, bn_prof_kernel_name(prof, k));
    BN_TRY(bn_prof_put_summary(profile, prof, err));
    put_passes(profile, prof);
    put_events(profile, prof);
    return BN_OK;
}

/* ---- reading ---- */

#define MAX_ROOM (1u << 22) /* events: a quarter of a gigabyte */

struct reader {
    bn_prof *prof;
    const bn_json *profile;
    bn_error *err;
};

static bn_status malformed(struct reader *r, const char *what)
{
    return bn_fail_in(r->err, BN_ERR_FORMAT, NULL, "the profile's %s is missing or malformed", what);
}

/* n whole numbers from -1 on; -1 becomes UINT64_MAX. */
static bool read_row(const bn_json *row, uint64_t *out, size_t n)
{
    const bn_json *value = bn_json_first(row);
    if (bn_json_kind(row) != BN_JSON_ARRAY || bn_json_size(row) != n) return false;
    for (size_t i = 0; i < n; i++, value = bn_json_next(value)) {
        double number;
        if (!bn_json_number(value, &number) || number < -1 || number > 0x1p53 || floor(number) < number)
            return false;
        out[i] = number < 0 ? UINT64_MAX : (uint64_t)number;
    }
    return true;
}

static bool has_names(const bn_json *array, const char *const *names, size_t n)
{
    const char *name;
    if (bn_json_size(array) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!bn_json_string(bn_json_at(array, i), &name) || strcmp(name, names[i]) != 0) return false;
    return true;
}

static bool find_word(const bn_json *value, const char *(*name_of)(unsigned), unsigned n, unsigned *out)
{
    const char *word;
    if (!bn_json_string(value, &word)) return false;
    for (*out = 0; *out < n; ++*out)
        if (strcmp(word, name_of(*out)) == 0) return true;
    return false;
}

static const char *level_name(unsigned i)
{
    return bn_prof_level_name((enum bn_prof_level)i);
}
static const char *category_name(unsigned i)
{
    return bn_brick_category_name((enum bn_brick_category)i);
}

static bn_status read_head(struct reader *r, struct bn_prof_network *network)
{
    const bn_json *p = r->profile;
    unsigned level;
    uint64_t n_layers;
    if (!find_word(bn_json_get(p, "level"), level_name, BN_PROF_LEVELS, &level)) return malformed(r, "level");
    r->prof->level = (enum bn_prof_level)level;
    if (!bn_json_number(bn_json_path(p, "clock.ns_per_tick"), &r->prof->clock.ns_per_tick) ||
        !bn_json_u64(bn_json_path(p, "clock.resolution_ticks"), &r->prof->resolution) ||
        r->prof->clock.ns_per_tick <= 0 || r->prof->clock.ns_per_tick > 1e3)
        return malformed(r, "clock");
    if (!bn_json_u64(bn_json_path(p, "network.layers"), &n_layers) || n_layers == 0 || n_layers > INT16_MAX ||
        !bn_json_bool(bn_json_path(p, "network.sub_norms"), &network->sub_norms))
        return malformed(r, "network");
    network->n_layers = (uint32_t)n_layers;
    network->head_norms = bn_json_flag_of(p, "network.head_norms"); /* older documents have no such models */
    network->input_norms = bn_json_flag_of(p, "network.input_norms");
    network->post_norms = bn_json_flag_of(p, "network.post_norms");
    network->has_experts = bn_json_flag_of(p, "network.experts");
    const bn_json *recurrent = bn_json_path(p, "network.recurrent");
    network->has_recurrent = recurrent != NULL;
    for (const bn_json *e = bn_json_first(recurrent); e != NULL; e = bn_json_next(e)) {
        uint64_t layer;
        if (!bn_json_u64(e, &layer) || layer >= n_layers || layer / 64 >= BN_ARRAY_LEN(network->recurrent))
            return malformed(r, "network.recurrent");
        network->recurrent[layer / 64] |= 1ull << layer % 64;
    }
    if (!bn_json_u64(bn_json_get(p, "wall_ns"), &r->prof->wall_ns)) return malformed(r, "wall_ns");
    if (!bn_json_u64(bn_json_get(p, "dropped"), &r->prof->passes_dropped)) return malformed(r, "dropped");
    return BN_OK;
}

/* The known bricks have the names and categories that this program knows; older documents end after the first ones. */
static bn_status read_bricks(struct reader *r)
{
    const bn_json *array = bn_json_get(r->profile, "bricks");
    size_t n = bn_json_size(array);
    if (n <= BN_BRICK_EMIT || n > BN_BRICK_MAX) return malformed(r, "list of bricks");
    for (unsigned i = 0; i < n; i++) {
        const char *name;
        unsigned category;
        uint8_t brick;
        if (!bn_json_string(bn_json_get(bn_json_at(array, i), "name"), &name) ||
            !find_word(bn_json_get(bn_json_at(array, i), "category"), category_name, BN_CATEGORY_COUNT,
                       &category))
            return malformed(r, "list of bricks");
        if (i >= BN_BRICK_KNOWN)
            BN_TRY(bn_prof_intern(r->prof, name, (enum bn_brick_category)category, &brick, r->err));
        else if (strcmp(name, bn_brick_name(i)) != 0 || category != bn_brick_category(i))
            return malformed(r, "list of bricks");
    }
    return r->prof->n_bricks == n || n < BN_BRICK_KNOWN ? BN_OK : malformed(r, "list of bricks");
}

static bn_status read_passes(struct reader *r)
{
    const bn_json *array = bn_json_get(r->profile, "passes");
    if (!has_names(bn_json_get(r->profile, "pass_columns"), PASS_COLUMNS, N_PASS_COLUMNS))
        return malformed(r, "pass_columns");
    for (const bn_json *row = bn_json_first(array); row != NULL; row = bn_json_next(row)) {
        uint64_t v[N_PASS_COLUMNS];
        if (!read_row(row, v, N_PASS_COLUMNS) || v[2] > UINT32_MAX || v[3] > UINT32_MAX || v[4] > UINT32_MAX)
            return malformed(r, "list of passes");
        r->prof->passes[r->prof->n_passes++] = (struct bn_prof_pass){.begin = v[0],
                                                                     .end = v[1],
                                                                     .position = (uint32_t)v[2],
                                                                     .n_tokens = (uint32_t)v[3],
                                                                     .n_logits = (uint32_t)v[4]};
    }
    return BN_OK;
}

static bool read_event(struct bn_prof_event *e, const bn_prof *prof, const bn_json *row)
{
    uint64_t v[N_COLUMNS];
    if (!read_row(row, v, N_COLUMNS)) return false;
    bool kernel = v[COLUMN_kernel] != UINT64_MAX;
    if (kernel ? v[COLUMN_kernel] >= BN_KERNEL_COUNT : v[COLUMN_brick] >= prof->n_bricks) return false;
    if (v[COLUMN_brick] != UINT64_MAX && v[COLUMN_brick] >= prof->n_bricks) return false;
    if (v[COLUMN_pass] != UINT64_MAX && v[COLUMN_pass] >= prof->n_passes) return false;
    if (v[COLUMN_layer] != UINT64_MAX && v[COLUMN_layer] > INT16_MAX) return false;
    if (v[COLUMN_depth] >= BN_PROF_DEPTH || v[COLUMN_begin] == UINT64_MAX || v[COLUMN_end] == UINT64_MAX)
        return false;
    if (v[COLUMN_rows] > UINT32_MAX || v[COLUMN_cols] > UINT32_MAX || v[COLUMN_n] > UINT32_MAX) return false;
    *e = (struct bn_prof_event){
        .begin = v[COLUMN_begin],
        .end = v[COLUMN_end],
        .elements = v[COLUMN_elements],
        .bytes = v[COLUMN_bytes],
        .shape = {(uint32_t)v[COLUMN_rows], (uint32_t)v[COLUMN_cols], (uint32_t)v[COLUMN_n]},
        .pass = v[COLUMN_pass] == UINT64_MAX ? BN_PROF_NO_PASS : (uint32_t)v[COLUMN_pass],
        .layer = v[COLUMN_layer] == UINT64_MAX ? -1 : (int16_t)v[COLUMN_layer],
        .brick = v[COLUMN_brick] == UINT64_MAX ? (uint8_t)BN_BRICK_NONE : (uint8_t)v[COLUMN_brick],
        .kernel = kernel ? (uint8_t)v[COLUMN_kernel] : BN_PROF_NO_KERNEL,
        .depth = (uint8_t)v[COLUMN_depth],
    };
    return true;
}

static bn_status read_events(struct reader *r)
{
    if (!has_names(bn_json_get(r->profile, "event_columns"), COLUMN_NAMES, N_COLUMNS))
        return malformed(r, "event_columns");
    for (unsigned t = 0; t < r->prof->n_threads; t++) {
        struct bn_prof_trail *trail = &r->prof->trails[t];
        const bn_json *array = bn_json_at(bn_json_get(r->profile, "events"), t);
        if (bn_json_kind(array) != BN_JSON_ARRAY) return malformed(r, "list of events");
        for (const bn_json *row = bn_json_first(array); row != NULL; row = bn_json_next(row))
            if (!read_event(&trail->events[trail->n++], r->prof, row)) return malformed(r, "list of events");
    }
    return BN_OK;
}

/* The names of kernels, borrowed from the document. */
static bn_status read_kernels(struct reader *r)
{
    const bn_json *array = bn_json_get(r->profile, "kernels");
    const char **names = bn_alloc(BN_KERNEL_COUNT, sizeof *names);
    if (names == NULL) return bn_nomem(r->err);
    r->prof->own_kernel_names = names;
    r->prof->kernel_names = names;
    if (bn_json_size(array) != BN_KERNEL_COUNT) return malformed(r, "list of kernels");
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        if (!bn_json_string(bn_json_at(array, k), &names[k])) return malformed(r, "list of kernels");
    return BN_OK;
}

bn_status bn_prof_read(bn_prof **out, struct bn_prof_network *network, const bn_json *document, bn_error *err)
{
    struct reader r = {.profile = bn_json_get(document, "profile"), .err = err};
    const bn_json *events = bn_json_get(r.profile, "events"), *passes = bn_json_get(r.profile, "passes");
    struct bn_prof_options options = {.n_events = 1, .n_passes = bn_json_size(passes) + 1};
    uint64_t n_threads, wall_ns;
    *out = NULL;
    if (!bn_json_text_is(document, "schema", BN_PROF_SCHEMA))
        return bn_fail(err, BN_ERR_FORMAT, "the document is not a " BN_PROF_SCHEMA);
    if (bn_json_kind(events) != BN_JSON_ARRAY || bn_json_size(events) == 0)
        return bn_fail(err, BN_ERR_FORMAT, "the profile holds no events");
    if (!bn_json_u64(bn_json_get(r.profile, "n_threads"), &n_threads) || n_threads != bn_json_size(events))
        return malformed(&r, "n_threads");
    for (const bn_json *array = bn_json_first(events); array != NULL; array = bn_json_next(array))
        if (bn_json_size(array) > options.n_events) options.n_events = bn_json_size(array);
    /* Each trail gets as much room as the longest: a few bytes of text must not become much memory. */
    if (n_threads * options.n_events > MAX_ROOM)
        return bn_fail(err, BN_ERR_LIMIT, "the profile has %llu threads and up to %zu events on one",
                       (unsigned long long)n_threads, options.n_events);
    options.n_threads = (unsigned)n_threads;
    BN_TRY(bn_prof_open(&r.prof, &options, err));
    bn_status status = read_head(&r, network);
    if (status == BN_OK) status = read_bricks(&r);
    if (status == BN_OK) status = read_kernels(&r);
    if (status == BN_OK) status = read_passes(&r);
    if (status == BN_OK) status = read_events(&r);
    if (status != BN_OK) {
        bn_prof_close(r.prof);
        return status;
    }
    wall_ns = r.prof->wall_ns;
    bn_prof_finalize(r.prof, wall_ns);
    *out = r.prof;
    return BN_OK;
}

/* ---- what an event costs ---- */

#define BATCH 512u
#define BATCHES 101u

bn_status bn_prof_event_cost(double *least, double *median, enum bn_prof_level level, bn_error *err)
{
    struct bn_prof_options options = {level, 1, BATCH, 1};
    double samples[BATCHES];
    struct bn_summary summary;
    bn_prof *prof = NULL;
    BN_TRY(bn_prof_open(&prof, &options, err));
    bn_prof_enable(prof);
    for (unsigned i = 0; i < BATCHES; i++) {
        bn_prof_reset_epoch(prof);
        struct bn_prof_trail *trail = bn_prof_trail(prof, 0);
        uint64_t start = bn_clock_ns();
        for (unsigned j = 0; j < BATCH; j++)
            bn_prof_stop(bn_prof_start(trail, BN_BRICK_RMS_NORM), 1);
        samples[i] = (double)(bn_clock_ns() - start) / BATCH;
    }
    bn_prof_close(prof);
    if (!bn_summarize(&summary, samples, BATCHES)) return bn_nomem(err);
    *least = summary.min;
    *median = summary.median;
    return BN_OK;
}
