/* SPDX-License-Identifier: MIT
 *
 * See profiler.h: what can be asked of a profile, its gate, and its tables for people.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stamp/profiler.h"

const struct bn_prof_event *bn_prof_events(const bn_prof *prof, unsigned thread, size_t *n)
{
    *n = prof->trails[thread].n;
    return prof->trails[thread].events;
}

const char *bn_prof_kernel_name(const bn_prof *prof, unsigned kernel)
{
    return prof->kernel_names != NULL && kernel < BN_KERNEL_COUNT ? prof->kernel_names[kernel] : "unknown";
}

/* ---- sums ---- */

static void add_brick(struct bn_brick_stats *sum, const struct bn_brick_stats *b)
{
    sum->ops += b->ops;
    if (b->count == 0) return;
    if (sum->count == 0 || b->min_ns < sum->min_ns) sum->min_ns = b->min_ns;
    if (b->max_ns > sum->max_ns) sum->max_ns = b->max_ns;
    sum->count += b->count;
    sum->inclusive_ns += b->inclusive_ns;
    sum->exclusive_ns += b->exclusive_ns;
    sum->elements += b->elements;
    sum->bytes += b->bytes;
}

static bool is_asked(unsigned asked, unsigned thread)
{
    return asked == BN_PROF_ALL_THREADS || asked == thread;
}

struct bn_brick_stats bn_prof_stats_for(const bn_prof *prof, unsigned brick, unsigned thread)
{
    struct bn_brick_stats sum = {0};
    for (unsigned t = 0; brick < BN_BRICK_MAX && t < prof->n_threads; t++)
        if (is_asked(thread, t)) add_brick(&sum, &prof->trails[t].bricks[brick]);
    return sum;
}

struct bn_prof_kernel_stats bn_prof_kernel_stats(const bn_prof *prof, enum bn_kernel kernel, unsigned thread)
{
    struct bn_prof_kernel_stats sum = {0};
    for (unsigned t = 0; t < prof->n_threads; t++) {
        const struct bn_prof_kernel_stats *k = &prof->trails[t].kernels[kernel];
        if (!is_asked(thread, t)) continue;
        sum.count += k->count;
        sum.ns += k->ns;
        sum.bytes += k->bytes;
        sum.ops += k->ops;
    }
    return sum;
}

void bn_prof_category_stats(const bn_prof *prof, unsigned thread,
                            struct bn_brick_stats out[BN_CATEGORY_COUNT])
{
    memset(out, 0, BN_CATEGORY_COUNT * sizeof *out);
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        struct bn_brick_stats b = bn_prof_stats_for(prof, i, thread);
        add_brick(&out[bn_brick_category(i)], &b);
    }
}

uint64_t bn_prof_total_ns(const bn_prof *prof, unsigned thread)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        sum += bn_prof_stats_for(prof, i, thread).exclusive_ns;
    return sum;
}

uint64_t bn_prof_dropped(const bn_prof *prof)
{
    uint64_t n = prof->passes_dropped;
    for (unsigned t = 0; t < prof->n_threads; t++)
        n += prof->trails[t].dropped;
    return n;
}

double bn_prof_coverage(const bn_prof *prof)
{
    return prof->wall_ns > 0 ? (double)bn_prof_total_ns(prof, 0) / (double)prof->wall_ns : 0.0;
}

/* The value at rank ceil(percent / 100 * n) of n sorted ones; 0 when none is expected beyond it. */
static uint64_t nearest_rank(const uint64_t *sorted, size_t n, size_t percent)
{
    return n * (100 - percent) < 100 ? 0 : sorted[(n * percent + 99) / 100 - 1];
}

bn_status bn_prof_quantiles(const bn_prof *prof, unsigned brick, struct bn_prof_quantiles *out, bn_error *err)
{
    size_t n = 0, room = (size_t)bn_prof_stats_for(prof, brick, BN_PROF_ALL_THREADS).count;
    *out = (struct bn_prof_quantiles){0};
    uint64_t *ns = bn_alloc(room, sizeof *ns);
    if (ns == NULL) return bn_nomem(err);
    for (unsigned t = 0; t < prof->n_threads; t++)
        for (size_t i = 0; i < prof->trails[t].n_folded; i++) {
            const struct bn_prof_event *e = &prof->trails[t].events[i];
            if (e->kernel != BN_PROF_NO_KERNEL || e->brick != brick) continue;
            uint64_t begin = bn_prof_ns(prof, e->begin), end = bn_prof_ns(prof, e->end);
            ns[n++] = end > begin ? end - begin : 0;
        }
    qsort(ns, n, sizeof *ns, bn_prof_by_value);
    *out =
        (struct bn_prof_quantiles){nearest_rank(ns, n, 50), nearest_rank(ns, n, 95), nearest_rank(ns, n, 99)};
    bn_free(ns);
    return BN_OK;
}

/* ---- the gate ---- */

/* Events end in the order in which they were written, and none before it began. */
static bool is_ordered(const bn_prof *prof, const struct bn_prof_trail *trail)
{
    for (size_t i = 0; i < trail->n; i++) {
        const struct bn_prof_event *e = &trail->events[i];
        if (e->end < e->begin || e->begin < prof->epoch) return false;
        if (i > 0 && e->end < trail->events[i - 1].end) return false;
    }
    return true;
}

static bn_status check_trail(const bn_prof *prof, unsigned thread, bn_error *err)
{
    const struct bn_prof_trail *trail = &prof->trails[thread];
    uint64_t sum = bn_prof_total_ns(prof, thread);
    if (!is_ordered(prof, trail))
        return bn_fail(err, BN_ERR_MISMATCH,
                       "thread %u: an event ends before it begins, or before the previous one", thread);
    if (trail->depth != 0)
        return bn_fail(err, BN_ERR_MISMATCH, "thread %u: %s is still open", thread,
                       bn_brick_name(trail->open[bn_min_size(trail->depth, BN_PROF_DEPTH) - 1].brick));
    if (sum != trail->inside_ns[0])
        return bn_fail(err, BN_ERR_MISMATCH,
                       "thread %u: exclusive times add up to %llu ns, its bricks to %llu", thread,
                       (unsigned long long)sum, (unsigned long long)trail->inside_ns[0]);
    if (sum > prof->wall_ns)
        return bn_fail(err, BN_ERR_MISMATCH, "thread %u: bricks took %llu ns of %llu", thread,
                       (unsigned long long)sum, (unsigned long long)prof->wall_ns);
    return BN_OK;
}

static bn_status check_categories(const bn_prof *prof, bn_error *err)
{
    struct bn_brick_stats categories[BN_CATEGORY_COUNT];
    uint64_t sum = 0;
    bn_prof_category_stats(prof, BN_PROF_ALL_THREADS, categories);
    for (unsigned c = 0; c < BN_CATEGORY_COUNT; c++)
        sum += categories[c].exclusive_ns;
    if (sum == bn_prof_total_ns(prof, BN_PROF_ALL_THREADS)) return BN_OK;
    return bn_fail(err, BN_ERR_MISMATCH, "the categories do not add up to the bricks");
}

bn_status bn_prof_check_complete(const bn_prof *prof, bn_error *err)
{
    if (!prof->finalized) return bn_fail(err, BN_ERR_MISMATCH, "the profile is not finished");
    if (prof->trails[0].n == 0 || prof->wall_ns == 0)
        return bn_fail(err, BN_ERR_MISMATCH, "nothing was measured");
    if (bn_prof_dropped(prof) != 0)
        return bn_fail(err, BN_ERR_MISMATCH, "%llu events were dropped",
                       (unsigned long long)bn_prof_dropped(prof));
    if (bn_prof_pending(prof) != 0)
        return bn_fail(err, BN_ERR_MISMATCH, "%zu events came after the end", bn_prof_pending(prof));
    return BN_OK;
}

bn_status bn_prof_check_sums(const bn_prof *prof, bn_error *err)
{
    for (unsigned t = 0; t < prof->n_threads; t++)
        BN_TRY(check_trail(prof, t, err));
    return check_categories(prof, err);
}

bn_status bn_prof_check_coverage(const bn_prof *prof, bn_error *err)
{
    double coverage = bn_prof_coverage(prof);
    if (coverage >= BN_PROF_COVERAGE) return BN_OK;
    return bn_fail(err, BN_ERR_MISMATCH, "bricks account for %.1f %% of the time, and %.0f %% are demanded",
                   100 * coverage, 100 * BN_PROF_COVERAGE);
}

bn_status bn_prof_check(const bn_prof *prof, bn_error *err)
{
    BN_TRY(bn_prof_check_complete(prof, err));
    BN_TRY(bn_prof_check_sums(prof, err));
    return bn_prof_check_coverage(prof, err);
}

/* ---- tables ---- */

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static double us(uint64_t ns)
{
    return (double)ns / 1000.0;
}

static double us_each(uint64_t ns, uint64_t count)
{
    return count > 0 ? us(ns) / (double)count : 0.0;
}

/* Gigabytes a second, or a dash. */
static void put_rate(struct bn_buf *out, uint64_t bytes, uint64_t ns)
{
    if (bytes > 0 && ns > 0)
        bn_buf_printf(out, " %7.2f\n", (double)bytes / (double)ns);
    else
        bn_buf_puts(out, "       -\n");
}

static bn_status report_bricks(const bn_prof *prof, uint64_t wall, struct bn_buf *out, bn_error *err)
{
    uint64_t total = bn_prof_total_ns(prof, BN_PROF_ALL_THREADS);
    bn_buf_printf(out, "%-20s %10s %12s %12s %8s %7s %7s %9s %9s %7s\n", "Brick", "Avg (us)", "Total (us)",
                  "Self (us)", "Count", "% sum", "% wall", "p50 (us)", "p95 (us)", "GB/s");
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        struct bn_brick_stats b = bn_prof_stats_for(prof, i, BN_PROF_ALL_THREADS);
        struct bn_prof_quantiles q;
        if (b.count == 0) continue;
        BN_TRY(bn_prof_quantiles(prof, i, &q, err));
        bn_buf_printf(out, "%-20s %10.1f %12.1f %12.1f %8llu %7.1f %7.1f", bn_brick_name(i),
                      us_each(b.inclusive_ns, b.count), us(b.inclusive_ns), us(b.exclusive_ns),
                      (unsigned long long)b.count, share(b.exclusive_ns, total), share(b.exclusive_ns, wall));
        bn_buf_printf(out, b.count >= 2 ? " %9.1f" : "         -", us(q.median_ns));
        bn_buf_printf(out, b.count >= 20 ? " %9.1f" : "         -", us(q.p95_ns));
        put_rate(out, b.bytes, b.inclusive_ns);
    }
    bn_buf_printf(out, "%-20s %10s %12s %12.1f %8s %7s %7.1f\n", "(unattributed)", "", "", us(wall - total),
                  "", "", share(wall - total, wall));
    return BN_OK;
}

static void report_categories(const bn_prof *prof, uint64_t wall, struct bn_buf *out)
{
    struct bn_brick_stats categories[BN_CATEGORY_COUNT];
    uint64_t total = bn_prof_total_ns(prof, BN_PROF_ALL_THREADS);
    bn_prof_category_stats(prof, BN_PROF_ALL_THREADS, categories);
    bn_buf_printf(out, "\n%-20s %10s %12s %8s %7s %7s\n", "Category", "Avg (us)", "Self (us)", "Samples",
                  "Pct", "% wall");
    for (unsigned c = 0; c < BN_CATEGORY_COUNT; c++)
        bn_buf_printf(out, "%-20s %10.1f %12.1f %8llu %6.1f%% %7.1f\n",
                      bn_brick_category_name((enum bn_brick_category)c),
                      us_each(categories[c].exclusive_ns, categories[c].count),
                      us(categories[c].exclusive_ns), (unsigned long long)categories[c].count,
                      share(categories[c].exclusive_ns, total), share(categories[c].exclusive_ns, wall));
}

static void report_kernels(const bn_prof *prof, struct bn_buf *out)
{
    bool any = false;
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        struct bn_prof_kernel_stats s = bn_prof_kernel_stats(prof, (enum bn_kernel)k, BN_PROF_ALL_THREADS);
        if (s.count == 0) continue;
        if (!any)
            bn_buf_printf(out, "\n%-24s %10s %12s %8s %8s %7s\n", "Kernel", "Avg (us)", "Total (us)", "Count",
                          "Gop/s", "GB/s");
        any = true;
        bn_buf_printf(out, "%-24s %10.1f %12.1f %8llu %8.2f", bn_prof_kernel_name(prof, k),
                      us_each(s.ns, s.count), us(s.ns), (unsigned long long)s.count,
                      s.ns > 0 ? (double)s.ops / (double)s.ns : 0.0);
        put_rate(out, s.bytes, s.ns);
    }
}

static void report_threads(const bn_prof *prof, struct bn_buf *out)
{
    bn_buf_printf(out, "\n%-20s %12s %12s %12s %14s %9s\n", "Thread", "Wall (us)", "Bricks (us)",
                  "Barrier (us)", "Unattributed", "Covered");
    for (unsigned t = 0; t < prof->n_threads; t++) {
        uint64_t sum = bn_prof_total_ns(prof, t),
                 wait = prof->trails[t].bricks[BN_BRICK_BARRIER_WAIT].exclusive_ns;
        bn_buf_printf(out, "%-20u %12.1f %12.1f %12.1f %14.1f %8.1f%%\n", t, us(prof->wall_ns), us(sum),
                      us(wait), us(prof->wall_ns - sum), share(sum, prof->wall_ns));
    }
}

bn_status bn_prof_report(const bn_prof *prof, struct bn_buf *out, bn_error *err)
{
    uint64_t wall = prof->wall_ns * prof->n_threads;
    BN_TRY(report_bricks(prof, wall, out, err));
    report_categories(prof, wall, out);
    report_kernels(prof, out);
    report_threads(prof, out);
    return bn_buf_check(out, err);
}
