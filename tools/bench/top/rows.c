/* SPDX-License-Identifier: MIT
 *
 * The tree of bricks: categories, the bricks in them, and the kernels, with the numbers of a window. Also what
 * both trees share: which rows are folded.
 */
#include <math.h>
#include <stdio.h>

#include "tools/bench/top/top.h"

const char *const bn_top_sort_names[BN_TOP_SORTS] = {"time", "order", "critical path", "slack"};

/* ---- folding ---- */

bool bn_top_is_toggled(const struct bn_top_view *view, uint64_t key)
{
    for (size_t i = 0; i < view->n_toggled; i++)
        if (view->toggled[i] == key) return true;
    return false;
}

void bn_top_toggle(struct bn_top_view *view, uint64_t key)
{
    for (size_t i = 0; i < view->n_toggled; i++)
        if (view->toggled[i] == key) {
            view->toggled[i] = view->toggled[--view->n_toggled];
            return;
        }
    if (view->n_toggled < BN_TOP_KEYS) view->toggled[view->n_toggled++] = key;
}

/* ---- rows ---- */

#define KEY_CATEGORY 1000u
#define KEY_KERNELS 2000u

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : BN_TOP_UNKNOWN;
}

static struct bn_top_row *add_row(struct bn_top_rows *out, const char *name, uint64_t key)
{
    struct bn_top_row *row = &out->list[out->n++];
    *row = (struct bn_top_row){.key = key,
                               .category = BN_CATEGORY_OTHER,
                               .bytes_per_s = BN_TOP_UNKNOWN,
                               .ops_per_s = BN_TOP_UNKNOWN,
                               .path = BN_TOP_UNKNOWN,
                               .slack_ns = BN_TOP_UNKNOWN,
                               .budget = BN_TOP_UNKNOWN};
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

struct maker {
    const struct bn_live_snapshot *now;
    const struct bn_top_window *window;
    const struct bn_top_pass *pass;
    const struct bn_top_budget *budget;
    double all_ns; /* of all bricks */
};

/* The mean over the threads that took part in a pass. */
static double per_pass(const struct maker *m, uint64_t ns)
{
    return ratio((double)ns, (double)m->window->counts.n_parts);
}

/* Of all threads that took part; NaN for a rate of nothing. */
static double rate(const struct maker *m, uint64_t n, uint64_t ns)
{
    double threads = ratio((double)m->window->counts.n_parts, (double)m->window->counts.n_measured);
    return n > 0 ? ratio((double)n * 1e9 * threads, (double)ns) : BN_TOP_UNKNOWN;
}

static void set_path(struct bn_top_row *row, const struct maker *m, const char *name)
{
    if (!m->pass->known) return;
    const struct bn_schedule_row *r = bn_schedule_table_find(&m->pass->table, name);
    if (r == NULL) return;
    row->path = ratio((double)r->path_ns, (double)m->pass->schedule.path_ns);
    row->slack_ns = (double)r->slack_ns;
}

static void fill_brick(struct bn_top_row *row, const struct maker *m, unsigned brick)
{
    const struct bn_brick_stats *b = &m->window->bricks[brick];
    row->category = m->now->categories[brick];
    row->depth = 1;
    row->share = ratio((double)b->exclusive_ns, m->all_ns);
    row->ns = per_pass(m, b->exclusive_ns);
    row->count = (double)b->count;
    row->bytes_per_s = rate(m, b->bytes, b->inclusive_ns);
    row->ops_per_s = rate(m, b->ops, b->inclusive_ns);
    if (m->budget->given && b->count > 0)
        row->budget = ratio((double)b->inclusive_ns / (double)b->count, m->budget->ns[brick]);
    set_path(row, m, m->now->names[brick]);
    row->sort[BN_TOP_BY_ORDER] = -(double)brick;
}

/* Adds a number that may be unknown; the sum of unknown ones is unknown. */
static void add_known(double *sum, double value)
{
    if (!isnan(value)) *sum = isnan(*sum) ? value : *sum + value;
}

static void sort_by(struct bn_top_row *row)
{
    row->sort[BN_TOP_BY_TIME] = row->share;
    row->sort[BN_TOP_BY_PATH] = isnan(row->path) ? -1 : row->path;
    row->sort[BN_TOP_BY_SLACK] = isnan(row->slack_ns) ? -1 : row->slack_ns;
}

static bool goes_before(const struct bn_top_row *x, const struct bn_top_row *y, enum bn_top_sort by)
{
    if (x->sort[by] > y->sort[by] || x->sort[by] < y->sort[by]) return x->sort[by] > y->sort[by];
    return x->key < y->key;
}

/* There are some tens of rows at most. */
static void sort_rows(struct bn_top_row *rows, size_t n, enum bn_top_sort by)
{
    for (size_t i = 0; i < n; i++) {
        sort_by(&rows[i]);
        struct bn_top_row row = rows[i];
        size_t at = i;
        for (; at > 0 && goes_before(&row, &rows[at - 1], by); at--)
            rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

/* The sum of a category, from its bricks. */
static struct bn_top_row sum_of(const struct bn_top_row *rows, size_t n, const struct maker *m,
                                enum bn_brick_category category)
{
    struct bn_top_row room;
    struct bn_top_rows one = {.list = &room};
    struct bn_top_row *sum = add_row(&one, bn_brick_category_name(category), KEY_CATEGORY + category);
    uint64_t bytes = 0, ops = 0, ns = 0;
    sum->category = category;
    sum->has_children = true;
    sum->sort[BN_TOP_BY_ORDER] = -(double)category;
    for (size_t i = 0; i < n; i++) {
        const struct bn_brick_stats *b = &m->window->bricks[rows[i].key];
        sum->share += isnan(rows[i].share) ? 0 : rows[i].share;
        sum->ns += isnan(rows[i].ns) ? 0 : rows[i].ns;
        sum->count += rows[i].count;
        add_known(&sum->path, rows[i].path);
        if (!isnan(rows[i].slack_ns)) sum->slack_ns = fmax(sum->slack_ns, rows[i].slack_ns);
        bytes += b->bytes;
        ops += b->ops;
        ns += b->bytes > 0 || b->ops > 0 ? b->exclusive_ns : 0;
    }
    sum->bytes_per_s = rate(m, bytes, ns);
    sum->ops_per_s = rate(m, ops, ns);
    return *sum;
}

/* The bricks of a category that ran, sorted. */
static size_t bricks_of(struct bn_top_rows *out, const struct maker *m, enum bn_brick_category category,
                        enum bn_top_sort by)
{
    out->n = 0;
    for (unsigned i = 0; i < m->now->n_bricks; i++)
        if (m->now->categories[i] == category && m->window->bricks[i].count > 0)
            fill_brick(add_row(out, m->now->names[i], i), m, i);
    sort_rows(out->list, out->n, by);
    return out->n;
}

/* Kernels are a view of their own: their time is part of that of the bricks. */
static void add_kernels(struct bn_top_rows *out, const struct maker *m, const struct bn_top_view *view)
{
    size_t at = out->n;
    bool folded = bn_top_is_toggled(view, KEY_KERNELS);
    struct bn_top_row sum = *add_row(out, "Kernels", KEY_KERNELS);
    sum.has_children = true;
    sum.is_folded = folded;
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        const struct bn_prof_kernel_stats *s = &m->window->kernels[k];
        if (s->count == 0) continue;
        struct bn_top_row *row = add_row(out, m->now->kernel_names[k], KEY_KERNELS + 1 + k);
        row->depth = 1;
        row->share = ratio((double)s->ns, m->all_ns);
        row->ns = per_pass(m, s->ns);
        row->count = (double)s->count;
        row->bytes_per_s = rate(m, s->bytes, s->ns);
        row->ops_per_s = rate(m, s->ops, s->ns);
        row->sort[BN_TOP_BY_ORDER] = -(double)k;
        sum.share += row->share;
        sum.ns += row->ns;
        sum.count += row->count;
    }
    out->list[at] = sum;
    sort_rows(out->list + at + 1, out->n - at - 1, view->sort);
    if (folded) out->n = at + 1;
    if (sum.count <= 0) out->n = at;
}

void bn_top_brick_rows(struct bn_top_rows *out, const struct bn_live_snapshot *now,
                       const struct bn_top_window *window, const struct bn_top_pass *pass,
                       const struct bn_top_budget *budget, const struct bn_top_view *view)
{
    struct maker m = {now, window, pass, budget, 0};
    struct bn_top_row sums[BN_CATEGORY_COUNT], room[BN_BRICK_MAX];
    struct bn_top_rows bricks = {.list = room};
    size_t n = 0;
    for (unsigned i = 0; i < now->n_bricks; i++)
        m.all_ns += (double)window->bricks[i].exclusive_ns;
    for (unsigned c = 0; c < BN_CATEGORY_COUNT; c++)
        if (bricks_of(&bricks, &m, (enum bn_brick_category)c, view->sort) > 0)
            sums[n++] = sum_of(bricks.list, bricks.n, &m, (enum bn_brick_category)c);
    sort_rows(sums, n, view->sort);
    out->n = 0;
    for (size_t i = 0; i < n; i++) {
        struct bn_top_row *sum = &out->list[out->n++];
        *sum = sums[i];
        sum->is_folded = bn_top_is_toggled(view, sum->key);
        if (sum->is_folded) continue;
        size_t n_bricks = bricks_of(&bricks, &m, sum->category, view->sort);
        memcpy(out->list + out->n, bricks.list, n_bricks * sizeof *bricks.list);
        out->n += n_bricks;
    }
    add_kernels(out, &m, view);
}
