/* SPDX-License-Identifier: MIT
 *
 * See page.h: the members of a page, from stacks.
 */
#include "tools/flamegraph/page.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/stacks/hotspots.h"
#include "lab/stacks/palette.h"

#define MOST_ROWS 60u
#define LEAST_SELF 0.001 /* shares of those that are listed: by themselves, or with what they call */
#define LEAST_TOTAL 0.01

const char *const bn_flamegraph_model_digest[] = {"model.sha256", "workload.model.sha256", NULL};
const char *const bn_flamegraph_isa[] = {"workload.isa", "isa", NULL};
const char *const bn_flamegraph_threads[] = {"workload.threads", "workload.n_threads", NULL};
const char *const bn_flamegraph_commit[] = {"program.commit", NULL};

const bn_json *bn_flamegraph_member(const bn_json *about, const char *const *paths)
{
    for (; *paths != NULL; paths++) {
        const bn_json *found = bn_json_path(about, *paths);
        if (found != NULL && bn_json_kind(found) != BN_JSON_NULL) return found;
    }
    return NULL;
}

/* ---- hotspots ---- */

static void put_share(bn_json *row, const char *what, const struct bn_interval *share)
{
    char name[24];
    snprintf(name, sizeof name, "%s_share", what);
    bn_json_put_number(row, name, share->estimate);
    snprintf(name, sizeof name, "%s_low", what);
    bn_json_put_number(row, name, share->low);
    snprintf(name, sizeof name, "%s_high", what);
    bn_json_put_number(row, name, share->high);
}

static void put_row(bn_json *rows, const struct bn_frame *frame, const struct bn_hotspot *spot)
{
    bn_json *row = bn_json_add_object(rows);
    bn_json_put_string(row, "name", frame->name);
    bn_json_put_string(row, "module", frame->module);
    bn_json_put_string(row, "kind", bn_frame_kind_name(frame->kind));
    bn_json_put_string(row, "class", bn_class_name(bn_class_of(frame)));
    bn_json_put_number(row, "self", spot->self);
    bn_json_put_number(row, "total", spot->total);
    bn_json_put_u64(row, "self_samples", spot->self_samples);
    bn_json_put_u64(row, "total_samples", spot->total_samples);
    put_share(row, "self", &spot->self_share);
    put_share(row, "total", &spot->total_share);
}

struct class_sum {
    double self;
    uint64_t samples;
    size_t rows;
};

/* Classes by their weight, the most first; those of nothing are left out. */
static void order_classes(enum bn_class order[BN_CLASSES], const struct class_sum *sums)
{
    for (unsigned c = 0; c < BN_CLASSES; c++) {
        unsigned at = c;
        for (; at > 0 && sums[order[at - 1]].self < sums[c].self; at--)
            order[at] = order[at - 1];
        order[at] = (enum bn_class)c;
    }
}

static void put_classes(bn_json *object, const struct bn_hotspots *spots, const struct class_sum *sums,
                        const enum bn_class *order)
{
    bn_json *classes = bn_json_put_array(object, "classes");
    for (unsigned i = 0; i < BN_CLASSES; i++) {
        const struct class_sum *sum = &sums[order[i]];
        if (sum->rows == 0) continue;
        double share = spots->whole > 0 ? sum->self / spots->whole : 0;
        struct bn_interval interval = {share, (double)NAN, (double)NAN, NULL};
        if (spots->samples > 0) interval = bn_interval_wilson(share, (double)spots->samples, 0.95);
        bn_json *row = bn_json_add_object(classes);
        bn_json_put_string(row, "class", bn_class_name(order[i]));
        bn_json_put_u64(row, "functions", sum->rows);
        bn_json_put_number(row, "self", sum->self);
        bn_json_put_u64(row, "self_samples", sum->samples);
        interval.estimate = share;
        put_share(row, "self", &interval);
    }
}

static bool is_listed(const struct bn_hotspot *spot)
{
    return spot->self_share.estimate >= LEAST_SELF || spot->total_share.estimate >= LEAST_TOTAL;
}

/* Rows class by class; inside a class by self weight, as hotspots are. */
static void put_rows(bn_json *object, const bn_stacks *stacks, const struct bn_hotspots *spots,
                     const enum bn_class *order)
{
    bn_json *rows = bn_json_put_array(object, "rows");
    size_t limit = spots->n, seen = 0, listed = 0;
    double shown = 0;
    for (size_t i = 0; i < spots->n && limit == spots->n; i++)
        if (is_listed(&spots->list[i]) && ++seen == MOST_ROWS) limit = i + 1;
    for (unsigned c = 0; c < BN_CLASSES; c++)
        for (size_t i = 0; i < limit; i++) {
            const struct bn_frame *frame = &stacks->frames[spots->list[i].frame];
            if (bn_class_of(frame) != order[c] || !is_listed(&spots->list[i])) continue;
            put_row(rows, frame, &spots->list[i]);
            shown += spots->list[i].self;
            listed++;
        }
    bn_json_put_u64(object, "rows_left_out", spots->n - listed);
    double listed_all = 0;
    for (size_t i = 0; i < spots->n; i++)
        listed_all += spots->list[i].self;
    bn_json_put_number(object, "left_out_share",
                       spots->whole > 0 ? fmax(0, listed_all - shown) / spots->whole : 0);
}

/* Puts {"classes": [...], "rows": [...], ...} under a name: hotspots of these kinds. */
static bn_status put_hotspots(bn_json *object, const char *name, const bn_stacks *stacks, unsigned kinds,
                              bn_json **put, bn_error *err)
{
    struct bn_hotspots spots = {0};
    struct class_sum sums[BN_CLASSES] = {{0}};
    enum bn_class order[BN_CLASSES];
    BN_TRY(bn_hotspots(&spots, stacks, kinds, err));
    for (size_t i = 0; i < spots.n; i++) {
        struct class_sum *sum = &sums[bn_class_of(&stacks->frames[spots.list[i].frame])];
        sum->self += spots.list[i].self;
        sum->samples += spots.list[i].self_samples;
        sum->rows++;
    }
    order_classes(order, sums);
    bn_json *o = bn_json_put_object(object, name);
    bn_json_put_number(o, "whole", spots.whole);
    bn_json_put_u64(o, "samples", spots.samples);
    bool interval = spots.n > 0 && isfinite(spots.list[0].self_share.low);
    if (interval && spots.list[0].self_share.method != NULL)
        bn_json_put_string(o, "intervals", spots.list[0].self_share.method);
    else
        bn_json_put_unavailable(o, "intervals", "measured in a single run, not sampled");
    put_classes(o, &spots, sums, order);
    put_rows(o, stacks, &spots, order);
    bn_hotspots_release(&spots);
    *put = o;
    return BN_OK;
}

/* Functions of engine/stamp/profiler.c, which write down when a brick begins and ends. */
static bool is_profiler(const struct bn_frame *frame)
{
    return strncmp(frame->name, "bn_prof_", 8) == 0 || strcmp(frame->name, "bn_ticks") == 0 ||
           (strcmp(frame->name, "append") == 0 && bn_frame_is_own(frame));
}

/* The share of what is seen in the profiler's functions and in what they call. */
static bn_status put_profiler(bn_json *object, const bn_stacks *functions, bn_error *err)
{
    double inside = 0, whole = 0;
    bool *of_it = bn_alloc(functions->n_nodes, sizeof *of_it);
    if (of_it == NULL) return bn_nomem(err);
    for (uint32_t i = 1; i < functions->n_nodes; i++) { /* parents come first */
        double self = bn_stacks_self(functions, i, BN_STACKS_ALL_RUNS);
        of_it[i] = of_it[functions->nodes[i].parent] || is_profiler(bn_stacks_frame(functions, i));
        whole += self;
        if (of_it[i]) inside += self;
    }
    bn_free(of_it);
    bn_json_put_number(object, "profiler_share", whole > 0 ? inside / whole : 0);
    return BN_OK;
}

bn_status bn_flamegraph_put_functions(bn_json *object, const bn_stacks *stacks, bn_error *err)
{
    const struct bn_stacks_view view = BN_FLAMEGRAPH_FUNCTIONS;
    bn_stacks *functions = NULL;
    bn_json *put = NULL;
    BN_TRY(bn_stacks_copy(&functions, stacks, &view, err));
    bn_status status = put_hotspots(object, "functions", functions, BN_FRAME_FUNCTIONS, &put, err);
    if (status == BN_OK) status = put_profiler(put, functions, err);
    bn_stacks_close(functions);
    return status;
}

/* ---- all ---- */

static void put_recorded(bn_json *page, const bn_stacks *stacks)
{
    bn_json *o = bn_json_put_object(page, "recorded");
    uint64_t samples = 0;
    double whole = 0;
    bn_json *runs = bn_json_put_array(o, "run_weights");
    for (size_t r = 0; r < stacks->n_runs; r++) {
        double weight = 0;
        for (uint32_t i = 0; i < stacks->n_nodes; i++) {
            weight += bn_stacks_self(stacks, i, r);
            samples += bn_stacks_samples(stacks, i, r);
        }
        bn_json_add_number(runs, weight);
        whole += weight;
    }
    bn_json_put_string(o, "what", stacks->what);
    bn_json_put_string(o, "unit", stacks->unit);
    bn_json_put_u64(o, "runs", stacks->n_runs);
    bn_json_put_u64(o, "samples", samples);
    bn_json_put_number(o, "whole", whole);
}

static bn_status put_before(bn_json *page, const bn_stacks *stacks, const struct bn_flamegraph_beside *beside,
                            bn_error *err)
{
    char why[200];
    bn_json *o = bn_json_put_object(page, "before");
    bn_json_put_string(o, "name", beside->before_name);
    const char *refused = beside->before_why;
    if (beside->before != NULL)
        refused = bn_flamegraph_unlike(why, sizeof why, beside->before->about, stacks->about);
    bool compared = beside->before != NULL && refused[0] == '\0';
    bn_json_put_bool(o, "compared", compared);
    if (compared) return bn_flamegraph_put_changes(o, beside->before, stacks, err);
    bn_json_put_string(o, "why", refused);
    return BN_OK;
}

/* A time of all runs together; the recording has one for each. */
static void put_sum(bn_json *object, const char *name, const bn_json *about)
{
    const bn_json *runs = bn_json_get(bn_json_get(about, "scheduling"), name);
    const char *why = "the recording does not say";
    double sum = 0, each;
    if (bn_json_kind(runs) == BN_JSON_ARRAY && bn_json_size(runs) > 0) {
        for (const bn_json *r = bn_json_first(runs); r != NULL; r = bn_json_next(r))
            sum += bn_json_number(r, &each) ? each : (double)NAN;
        if (isfinite(sum)) {
            bn_json_put_number(object, name, sum);
            return;
        }
    }
    (void)bn_json_string(bn_json_path(about, "unavailable.scheduling"), &why);
    bn_json_put_unavailable(object, name, why);
}

static bn_status put_bricks(bn_json *page, const bn_stacks *measured, bn_error *err)
{
    if (measured == NULL) {
        bn_json_put_unavailable(page, "bricks", "the profiler did not run beside the sampler");
        return BN_OK;
    }
    bn_json *bricks = NULL;
    BN_TRY(put_hotspots(page, "bricks", measured, BN_FRAME_BIT(BN_FRAME_BRICK) | BN_FRAME_BIT(BN_FRAME_SLOT),
                        &bricks, err));
    put_sum(bricks, "cpu_ns", measured->about);
    put_sum(bricks, "waited_ns", measured->about);
    return BN_OK;
}

bn_status bn_flamegraph_page_put(bn_stacks *stacks, const struct bn_flamegraph_beside *beside, bn_error *err)
{
    bn_json_remove(stacks->about, "page");
    bn_json *page = bn_json_new_object();
    bn_json_put_string(page, "name", beside->name);
    put_recorded(page, stacks);
    bn_status status = bn_flamegraph_put_functions(page, stacks, err);
    if (status == BN_OK) status = put_bricks(page, stacks->measured, err);
    if (status == BN_OK) bn_flamegraph_put_timing(page, stacks, beside);
    if (status == BN_OK) status = put_before(page, stacks, beside, err);
    if (status == BN_OK) bn_json_put_copy(stacks->about, "page", page);
    bn_json_free(page);
    return status;
}
