/* SPDX-License-Identifier: MIT
 *
 * The critical path for people and as JSON, brick by brick.
 */
#include <stdlib.h>

#include "base/error.h"
#include "lab/profile/schedule.h"

/* The innermost brick around a leaf, else the leaf. */
static const char *row_name(const struct bn_graph *graph, uint32_t id)
{
    for (uint32_t up = id; up != BN_NODE_NONE; up = graph->node[up].parent)
        if (graph->node[up].kind == BN_NODE_BRICK) return graph->node[up].name;
    const char *name = graph->node[id].name;
    return name != NULL ? name : bn_node_kind_name(graph->node[id].kind);
}

const struct bn_schedule_row *bn_schedule_table_find(const struct bn_schedule_table *table, const char *name)
{
    for (size_t i = 0; i < table->n; i++)
        if (strcmp(table->rows[i].name, name) == 0) return &table->rows[i];
    return NULL;
}

static struct bn_schedule_row *find_row(struct bn_schedule_table *table, const char *name)
{
    const struct bn_schedule_row *row = bn_schedule_table_find(table, name);
    if (row != NULL) return &table->rows[row - table->rows];
    table->rows[table->n] = (struct bn_schedule_row){.name = name};
    return &table->rows[table->n++];
}

/* Longest on the path first, then longest work, then by name. */
static int by_length(const void *a, const void *b)
{
    const struct bn_schedule_row *x = a, *y = b;
    if (x->path_ns != y->path_ns) return x->path_ns > y->path_ns ? -1 : 1;
    if (x->work_ns != y->work_ns) return x->work_ns > y->work_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

void bn_schedule_table_close(struct bn_schedule_table *table)
{
    bn_free(table->rows);
    *table = (struct bn_schedule_table){0};
}

bn_status bn_schedule_table_open(struct bn_schedule_table *table, const struct bn_schedule *s,
                                 const struct bn_graph *graph, bn_error *err)
{
    uint64_t first = UINT64_MAX, last = 0;
    *table = (struct bn_schedule_table){.rows = bn_alloc(s->n_leaves, sizeof *table->rows)};
    if (table->rows == NULL) return bn_nomem(err);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct bn_graph_node *node = &graph->node[i];
        if (!node->timed) continue;
        if (node->begin_ns < first) first = node->begin_ns;
        if (node->begin_ns + node->ns > last) last = node->begin_ns + node->ns;
        if (node->kind == BN_NODE_WAIT) table->wait_ns += node->ns;
        if (!s->slot[i].leaf || node->kind == BN_NODE_MEETING) continue;
        struct bn_schedule_row *row = find_row(table, row_name(graph, i));
        row->work_ns += s->slot[i].ns;
        if (s->slot[i].slack > row->slack_ns) row->slack_ns = s->slot[i].slack;
    }
    for (uint32_t i = 0; i < s->n_path; i++)
        if (graph->node[s->path[i]].kind != BN_NODE_MEETING)
            find_row(table, row_name(graph, s->path[i]))->path_ns += s->slot[s->path[i]].ns;
    if (last > first) table->span_ns = last - first;
    qsort(table->rows, table->n, sizeof *table->rows, by_length);
    return BN_OK;
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static double us(uint64_t ns)
{
    return (double)ns / 1e3;
}

void bn_schedule_report(struct bn_buf *out, const struct bn_schedule *s, const struct bn_graph *graph)
{
    struct bn_schedule_table table;
    if (bn_schedule_table_open(&table, s, graph, NULL) != BN_OK) {
        out->failed = true;
        return;
    }
    bn_buf_printf(out, "critical path  %10.1f us%s", us(s->path_ns), s->model ? " (model)" : "");
    if (!s->model && table.span_ns > 0)
        bn_buf_printf(out, ", %.1f %% of the time that passed", percent(s->path_ns, table.span_ns));
    bn_buf_printf(out, "\nwork           %10.1f us, enough for %.2f threads\n", us(s->work_ns),
                  bn_schedule_parallelism(s));
    bn_buf_printf(out, "waiting        %10.1f us, over all threads\n", us(table.wait_ns));
    bn_buf_printf(out, "\n%-20s %12s %6s %12s %14s\n", "brick", "on path, us", "%", "work, us",
                  "most slack, us");
    for (size_t i = 0; i < table.n; i++) {
        const struct bn_schedule_row *r = &table.rows[i];
        bn_buf_printf(out, "%-20s %12.1f %6.1f %12.1f %14.1f\n", r->name, us(r->path_ns),
                      percent(r->path_ns, s->path_ns), us(r->work_ns), us(r->slack_ns));
    }
    bn_schedule_table_close(&table);
}

static void put_leaves(bn_json *object, const struct bn_schedule *s)
{
    bn_json *path = bn_json_put_array(object, "path"), *leaves = bn_json_put_array(object, "leaves");
    for (uint32_t i = 0; i < s->n_path; i++)
        bn_json_add_u64(path, s->path[i]);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        if (!s->slot[i].leaf) continue;
        bn_json *leaf = bn_json_add_object(leaves);
        bn_json_put_u64(leaf, "node", i);
        bn_json_put_u64(leaf, "start_ns", s->slot[i].start);
        bn_json_put_u64(leaf, "slack_ns", s->slot[i].slack);
        bn_json_put_u64(leaf, "free_slack_ns", s->slot[i].free_slack);
    }
}

void bn_schedule_put(bn_json *object, const struct bn_schedule *s, const struct bn_graph *graph)
{
    struct bn_schedule_table table;
    bool made = bn_schedule_table_open(&table, s, graph, NULL) == BN_OK;
    bn_json *from = bn_json_put_array(object, "from"); /* what it was computed from */
    bn_json_add_string(from, "nodes");
    bn_json_add_string(from, "edges");
    bn_json_put_bool(object, "model", s->model);
    bn_json_put_u64(object, "path_ns", s->path_ns);
    bn_json_put_u64(object, "work_ns", s->work_ns);
    bn_json_put_number(object, "parallelism", bn_schedule_parallelism(s));
    if (!made) {
        bn_json_put_unavailable(object, "bricks", "out of memory");
        return;
    }
    bn_json_put_u64(object, "span_ns", table.span_ns);
    bn_json_put_u64(object, "wait_ns", table.wait_ns);
    bn_json *bricks = bn_json_put_array(object, "bricks");
    for (size_t i = 0; i < table.n; i++) {
        bn_json *brick = bn_json_add_object(bricks);
        bn_json_put_string(brick, "name", table.rows[i].name);
        bn_json_put_u64(brick, "path_ns", table.rows[i].path_ns);
        bn_json_put_u64(brick, "work_ns", table.rows[i].work_ns);
        bn_json_put_u64(brick, "most_slack_ns", table.rows[i].slack_ns);
    }
    bn_schedule_table_close(&table);
    put_leaves(object, s);
}
