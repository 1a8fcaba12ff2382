/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile --roofline: the speed of each brick compared with the limits of this machine, measured in
 * the same run with the same number of threads and instruction set.
 *
 * The counters count the bytes of weights and cache, not of activations. So the limit by bytes is a little
 * high, and the distance from it too. Read bandwidth is measured with a set as large as the reads of a pass;
 * for attention, as large as the part of one layer in the cache, which is read again for each token. Kernels
 * that neither multiply and add nor read weights or cache (norms, activations) count elements: their rows
 * have a speed and no limit.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/profile/schedule.h"
#include "lab/stats/summary.h"
#include "model/model.h"
#include "tools/bench/limits.h"
#include "tools/bench/profile/profile.h"
#include "tools/cli/text.h"

#define BUDGET_NS 100000000u /* for each limit */

enum arithmetic { NO_MACS, INT8_MACS, FLOAT_MACS };

struct row {
    const char *name;
    double macs, bytes, set_bytes; /* a pass; the set that reading is measured with */
    double elements;               /* a pass: operations of kernels that do not multiply and add */
    double median_ns;              /* of ns */
    enum arithmetic arithmetic;
    bool mixed, is_attention;
    double *ns; /* one for each pass */
};

struct table {
    struct row rows[BN_BRICK_MAX];
    size_t n, n_passes;
    uint32_t n_tokens;
    double pass_bytes;
};

/* ---- what ran ---- */

static struct row *find_row(struct table *table, const char *name)
{
    for (size_t i = 0; i < table->n; i++)
        if (strcmp(table->rows[i].name, name) == 0) return &table->rows[i];
    if (table->n == BN_BRICK_MAX) return NULL;
    struct row row = {.name = name, .ns = bn_alloc(table->n_passes, sizeof *row.ns)};
    if (row.ns == NULL) return NULL;
    table->rows[table->n] = row;
    return &table->rows[table->n++];
}

static bn_status add_kernel(struct table *table, const bn_model *model, const struct bn_graph_node *node,
                            const struct bn_graph_node *brick, bn_error *err)
{
    const struct bn_bench_macs each = bn_bench_macs_of(model, node->name);
    enum arithmetic kind = each.int8 > 0 ? INT8_MACS : each.floats > 0 ? FLOAT_MACS : NO_MACS;
    struct row *row = find_row(table, brick->name);
    if (row == NULL) return bn_nomem(err);
    double macs = (double)(each.int8 + each.floats) * (double)node->ops;
    if (kind != NO_MACS) {
        row->mixed = row->mixed || (row->arithmetic != NO_MACS && row->arithmetic != kind);
        row->arithmetic = kind;
    }
    if (bn_bench_reads_cache(model->kernels, node->name)) {
        double set = (double)node->bytes / (double)table->n_tokens;
        row->is_attention = true;
        if (set > row->set_bytes) row->set_bytes = set;
    }
    row->macs += macs / (double)table->n_passes;
    if (kind == NO_MACS) row->elements += (double)node->ops / (double)table->n_passes;
    row->bytes += (double)node->bytes / (double)table->n_passes;
    table->pass_bytes += (double)node->bytes / (double)table->n_passes;
    return BN_OK;
}

/* Adds the index-th of the passes that are looked at. */
static bn_status add_pass(struct table *table, const struct bn_bench_profile *p, size_t pass, size_t index,
                          bn_error *err)
{
    struct bn_graph graph;
    bn_graph_open(&graph);
    bn_status status = bn_graph_add_profile(&graph, p->prof, NULL, pass, 1, err);
    for (uint32_t i = 0; i < graph.n_nodes && status == BN_OK; i++) {
        const struct bn_graph_node *node = &graph.node[i];
        if (node->kind == BN_NODE_KERNEL && graph.node[node->parent].kind == BN_NODE_BRICK)
            status = add_kernel(table, p->model, node, &graph.node[node->parent], err);
    }
    for (uint32_t i = 0; i < graph.n_nodes && status == BN_OK; i++)
        for (size_t r = 0; graph.node[i].kind == BN_NODE_BRICK && r < table->n; r++)
            if (strcmp(table->rows[r].name, graph.node[i].name) == 0)
                table->rows[r].ns[index] += (double)graph.node[i].ns;
    bn_graph_close(&graph);
    return status;
}

/* All passes of as many tokens as the one that is asked for, else as the last. */
static bn_status make_table(struct table *table, const struct bn_bench_profile *p, bn_error *err)
{
    const bn_prof *prof = p->prof;
    size_t chosen = 0;
    if (prof->level != BN_PROF_KERNEL) return bn_fail(err, BN_ERR_ARG, "--roofline needs --level kernel");
    BN_TRY(bn_bench_profile_pass(&chosen, p, err));
    table->n_tokens = prof->passes[chosen].n_tokens;
    for (size_t i = 0; i < prof->n_passes; i++)
        table->n_passes += prof->passes[i].n_tokens == table->n_tokens;
    for (size_t i = 0, index = 0; i < prof->n_passes; i++)
        if (prof->passes[i].n_tokens == table->n_tokens) BN_TRY(add_pass(table, p, i, index++, err));
    for (size_t i = 0; i < table->n; i++)
        if (!table->rows[i].is_attention) table->rows[i].set_bytes = table->pass_bytes;
    return BN_OK;
}

/* ---- comparison with the limits ---- */

static double rate_of(const struct bn_bench_limits *limits, enum bn_bench_limit_kind kind, size_t set_bytes)
{
    for (size_t i = 0; i < limits->n; i++) {
        const struct bn_bench_limit *l = &limits->list[i];
        if (l->kind == kind && (kind != BN_LIMIT_READ || l->set_bytes == set_bytes)) return l->rate;
    }
    return 0;
}

/* Why a row has no distance, NULL when it may have one. */
static const char *no_distance(const struct row *row)
{
    if (row->mixed) return "its kernels multiply bytes and floats";
    if (row->arithmetic == NO_MACS && row->bytes <= 0)
        return row->elements > 0 ? "counts elements, for which no limit is measured"
                                 : "its kernels count neither operations nor bytes";
    return NULL;
}

static bn_status place(struct bn_roofline *out, struct bn_bench_limits *limits, struct row *row,
                       const struct bn_bench_profile *p, size_t n_passes, bn_error *err)
{
    unsigned n_threads = p->prof->n_threads;
    struct bn_summary s;
    *out = (struct bn_roofline){.reason = no_distance(row)};
    if (!bn_summarize(&s, row->ns, n_passes)) return bn_nomem(err);
    row->median_ns = s.median;
    if (out->reason != NULL) return BN_OK;
    struct bn_bench_case c = {.hot_bytes = (size_t)row->set_bytes};
    if (row->arithmetic == INT8_MACS)
        c.int8_macs = row->macs;
    else
        c.float_macs = row->macs;
    const struct bn_roofline_work work = {row->macs, row->bytes, {s.min / 1e9, s.median / 1e9, s.max / 1e9}};
    /* A limit that other work disturbed may be too low, so it is measured again when a brick exceeds it. */
    for (unsigned i = 0; i < 4 && (i == 0 || out->invalid); i++) {
        BN_TRY(bn_bench_limits_measure(limits, &c, p->model->kernels, n_threads, i > 0, err));
        double macs = rate_of(limits, row->arithmetic == INT8_MACS ? BN_LIMIT_INT8 : BN_LIMIT_FLOAT, 0);
        double bytes = rate_of(limits, BN_LIMIT_READ, c.hot_bytes);
        bn_roofline_place(out, &work, macs, bytes);
    }
    return BN_OK;
}

static void fill_row(struct bn_table *t, const struct row *row, const struct bn_roofline *r)
{
    bool macs = row->macs > 0, counted = !r->known && row->elements > 0 && row->median_ns > 0;
    const double none = (double)NAN;
    const char *unit = counted ? "ops/s" : macs ? "MAC/s" : "bytes/s";
    double ns = r->known ? (macs ? row->macs : row->bytes) * 1e9 / r->achieved : row->median_ns;
    bn_table_row(t, "");
    bn_table_text(t, row->name);
    bn_table_value(t, ns, "ns");
    bn_table_value(t, r->known ? r->achieved : counted ? row->elements * 1e9 / row->median_ns : none, unit);
    bn_table_value(t, r->known ? r->roof : none, unit);
    if (!r->known || r->invalid)
        bn_table_text(t, r->invalid ? "INVALID" : "no limit");
    else
        bn_table_printf(t, "%.0f%s [%.0f..%.0f]", 100 * r->distance.mid, r->by_bytes ? "" : " a",
                        100 * r->distance.low, 100 * r->distance.high);
    bn_table_value(t, r->known && row->bytes > 0 ? row->macs / row->bytes : none, "1");
    if ((!r->known && !counted) || r->invalid) bn_table_text(t, r->reason);
}

static void put_row(bn_json *array, const struct row *row, const struct bn_roofline *r, size_t n_passes)
{
    static const char *const NAMES[] = {"unit", "achieved", "roof", "limit", "raw_distance", "distance"};
    bn_json *object = bn_json_add_object(array);
    bn_json_put_string(object, "brick", row->name);
    bn_json_put_number(object, "macs_per_pass", row->macs);
    bn_json_put_number(object, "bytes_per_pass", row->bytes);
    bn_json_put_number(object, "elements_per_pass", row->elements);
    bn_json_put_number(object, "set_bytes", row->set_bytes);
    bn_json_put_numbers(object, "samples_ns", row->ns, n_passes);
    for (size_t i = 0; !r->known && i < BN_ARRAY_LEN(NAMES); i++)
        bn_json_put_unavailable(object, NAMES[i], r->reason);
    if (!r->known) return;
    bn_json_put_string(object, "unit", row->macs > 0 ? "macs/s" : "bytes/s");
    bn_json_put_number(object, "achieved", r->achieved);
    bn_json_put_number(object, "roof", r->roof);
    bn_json_put_string(object, "limit", r->by_bytes ? "bytes" : "arithmetic");
    bn_json_put_numbers(object, "raw_distance", (const double[]){r->raw.low, r->raw.mid, r->raw.high}, 3);
    bn_json_put_finite(object, "distance", r->invalid ? (double)NAN : r->distance.mid, r->reason);
}

static bn_status show(struct table *table, struct bn_bench_limits *limits, const struct bn_bench_profile *p,
                      bn_json *document, bn_error *err)
{
    bn_json *object = document != NULL ? bn_json_put_object(document, "roofline") : NULL;
    bn_json *rows = bn_json_put_array(object, "bricks");
    static const char *const HEADS[] = {"brick", "time", "speed", "limit", "distance %", "MAC/B", "why"};
    struct bn_table t;
    bn_status status = BN_OK;
    if (object == NULL)
        printf("\nroofline: passes of %u token%s, median of %zu, %u thread%s; a multiply-add counts 1\n"
               "distance from the limit of reading, or of arithmetic (a)\n",
               table->n_tokens, bn_cli_s(table->n_tokens), table->n_passes, p->prof->n_threads,
               bn_cli_s(p->prof->n_threads));
    bn_table_begin(&t, HEADS, "lrrrlrn");
    for (size_t i = 0; i < table->n && status == BN_OK; i++) {
        struct bn_roofline r;
        status = place(&r, limits, &table->rows[i], p, table->n_passes, err);
        if (status != BN_OK) break;
        if (object == NULL)
            fill_row(&t, &table->rows[i], &r);
        else
            put_row(rows, &table->rows[i], &r, table->n_passes);
    }
    if (object == NULL && status == BN_OK) return bn_bench_print_table(&t, err);
    bn_table_release(&t);
    bn_json_put_u64(object, "tokens", table->n_tokens);
    bn_json_put_u64(object, "threads", p->prof->n_threads);
    bn_json *list = bn_json_put_array(object, "limits");
    if (list != NULL) bn_bench_limits_put(list, limits);
    return status;
}

bn_status bn_bench_profile_roofline(const struct bn_bench_profile *p, bn_json *document, bn_error *err)
{
    struct bn_bench_limits limits = {.budget_ns = BUDGET_NS};
    struct table *table = bn_alloc(1, sizeof *table);
    if (table == NULL) return bn_nomem(err);
    bn_status status = make_table(table, p, err);
    if (status == BN_OK) status = show(table, &limits, p, document, err);
    for (size_t i = 0; i < table->n; i++)
        bn_free(table->rows[i].ns);
    bn_free(table);
    bn_bench_limits_release(&limits);
    return status;
}
