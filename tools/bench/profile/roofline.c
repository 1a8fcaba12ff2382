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
#include <string.h>

#include "lab/kit/put_counts.h"
#include "lab/stats/summary.h"
#include "model/model.h"
#include "tools/bench/harness.h"
#include "tools/bench/limits.h"
#include "tools/bench/profile/profile.h"
#include "tools/cli/text.h"

#define BUDGET_NS 100000000u /* for each limit */

struct row {
    const char *name;
    struct bn_bench_case work; /* of a pass */
    double elements;           /* a pass: operations of kernels that do not multiply and add */
    bool is_attention;
    double *ns; /* one for each pass */
    struct bn_summary of_ns;
    struct bn_bench_bound bound;
    char invalid[BN_BENCH_REASON]; /* why; empty when it is not */
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
    struct row row = {.name = name, .work.source = "bytes", .ns = bn_alloc(table->n_passes, sizeof *row.ns)};
    if (row.ns == NULL) return NULL;
    table->rows[table->n] = row;
    return &table->rows[table->n++];
}

static bn_status add_kernel(struct table *table, const bn_model *model, const struct bn_graph_node *node,
                            const struct bn_graph_node *brick, bn_error *err)
{
    const struct bn_bench_macs each = bn_bench_macs_of(model, node->name);
    struct row *row = find_row(table, brick->name);
    if (row == NULL) return bn_nomem(err);
    double ops = (double)node->ops / (double)table->n_passes;
    double bytes = (double)node->bytes / (double)table->n_passes;
    if (bn_bench_reads_cache(model, node->name)) {
        row->is_attention = true;
        size_t set = (size_t)(node->bytes / table->n_tokens);
        if (set > row->work.hot_bytes) row->work.hot_bytes = set;
    }
    row->work.int8_macs += each.int8 * ops;
    row->work.float_macs += each.floats * ops;
    if (each.int8 + each.floats == 0) row->elements += ops;
    row->work.bytes += bytes;
    table->pass_bytes += bytes;
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
    return BN_OK;
}

/* ---- comparison with the limits ---- */

static bn_status place(struct row *row, struct bn_bench_limits *limits, const struct table *table,
                       const struct bn_bench_profile *p, bn_error *err)
{
    if (!bn_summarize(&row->of_ns, row->ns, table->n_passes)) return bn_nomem(err);
    if (!row->is_attention) row->work.hot_bytes = (size_t)table->pass_bytes;
    if (row->work.bytes > 0 || row->work.int8_macs + row->work.float_macs > 0) {
        BN_TRY(bn_bench_limits_bound(limits, &row->work, p->model->kernels, p->prof->n_threads,
                                     row->of_ns.median, &row->bound, err));
        bn_bench_implausible(row->invalid, row->bound.ns / row->of_ns.median);
        return BN_OK;
    }
    row->bound.reason = row->elements > 0 ? "counts elements, for which no limit is measured"
                                          : "its kernels count neither operations nor bytes";
    return BN_OK;
}

/* Speeds are those of multiply-adds, else of bytes, else of elements. */
static void fill_row(struct bn_table *t, const struct row *row)
{
    double macs = row->work.int8_macs + row->work.float_macs, ns = row->of_ns.median, limit = row->bound.ns;
    double work = macs > 0 ? macs : row->work.bytes > 0 ? row->work.bytes : row->elements;
    const char *unit = macs > 0 ? "MAC/s" : row->work.bytes > 0 ? "bytes/s" : "ops/s";
    bool known = row->bound.what != NULL;
    bn_table_row(t, "");
    bn_table_text(t, row->name);
    bn_table_value(t, ns, "ns");
    bn_table_value(t, work > 0 ? work * 1e9 / ns : (double)NAN, unit);
    bn_table_value(t, known ? work * 1e9 / limit : (double)NAN, unit);
    if (!known || row->invalid[0] != '\0')
        bn_table_text(t, known ? "INVALID" : "no limit");
    else
        bn_table_printf(t, "%.0f%s [%.0f..%.0f]", fmax(0, 100 * (1 - limit / ns)),
                        strcmp(row->bound.what, "arithmetic") == 0 ? " a" : "",
                        fmax(0, 100 * (1 - limit / row->of_ns.min)),
                        fmax(0, 100 * (1 - limit / row->of_ns.max)));
    bn_table_value(t, known && row->work.bytes > 0 ? macs / row->work.bytes : (double)NAN, "1");
    if (row->invalid[0] != '\0' || (!known && !(row->elements > 0)))
        bn_table_text(t, known ? row->invalid : row->bound.reason);
}

static void put_row(bn_json *array, const struct row *row, size_t n_passes)
{
    bn_json *object = bn_json_add_object(array);
    BN_PUT(object, BN_STRING("brick", row->name), BN_NUMBER("int8_macs", row->work.int8_macs),
           BN_NUMBER("float_macs", row->work.float_macs), BN_NUMBER("bytes", row->work.bytes),
           BN_NUMBER("elements", row->elements), BN_U64("set_bytes", row->work.hot_bytes));
    bn_json_put_numbers(object, "samples_ns", row->ns, n_passes);
    bn_bench_bound_put(object, &row->bound);
    bool valid = row->bound.what != NULL && row->invalid[0] == '\0';
    bn_json_put_finite(object, "distance",
                       valid ? fmax(0, 1 - row->bound.ns / row->of_ns.median) : (double)NAN,
                       row->bound.what != NULL ? row->invalid : row->bound.reason);
}

static bn_status show(struct table *table, struct bn_bench_limits *limits, const struct bn_bench_profile *p,
                      bn_json *document, bn_error *err)
{
    static const char *const HEADS[] = {"brick", "time", "speed", "limit", "distance %", "MAC/B", "why"};
    struct bn_table t;
    for (size_t i = 0; i < table->n; i++)
        BN_TRY(place(&table->rows[i], limits, table, p, err));
    if (document != NULL) {
        bn_json *object = bn_json_put_object(document, "roofline"),
                *rows = bn_json_put_array(object, "bricks");
        for (size_t i = 0; i < table->n; i++)
            put_row(rows, &table->rows[i], table->n_passes);
        BN_PUT_COUNTS(object, {"tokens", table->n_tokens}, {"threads", p->prof->n_threads});
        bn_bench_limits_put(bn_json_put_array(object, "limits"), limits);
        return BN_OK;
    }
    printf("\nroofline: passes of %u token%s, median of %zu, %u thread%s; a multiply-add counts 1\n"
           "distance from the limit of reading, or of arithmetic (a)\n",
           table->n_tokens, bn_cli_s(table->n_tokens), table->n_passes, p->prof->n_threads,
           bn_cli_s(p->prof->n_threads));
    bn_table_begin(&t, HEADS, "lrrrlrn");
    for (size_t i = 0; i < table->n; i++)
        fill_row(&t, &table->rows[i]);
    return bn_cli_print_table(&t, err);
}

bn_status bn_bench_profile_roofline(const struct bn_bench_profile *p, bn_json *document, bn_error *err)
{
    struct bn_bench_limits limits = {.budget_ns = BUDGET_NS, .device = p->model->device};
    struct table table = {0};
    bn_status status = make_table(&table, p, err);
    if (status == BN_OK) status = show(&table, &limits, p, document, err);
    for (size_t i = 0; i < table.n; i++)
        bn_free(table.rows[i].ns);
    bn_bench_limits_release(&limits);
    return status;
}
