/* SPDX-License-Identifier: MIT
 *
 * Findings: what the numbers of a report mean. Each comes from a rule and names the numbers that it is based
 * on. A rule without data reports nothing.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "lab/host/busy.h"
#include "tools/bench/report/report.h"

#define BOUND 0.85   /* from this share of a limit on, the limit binds */
#define IDLE 0.5     /* below this share a kernel could be faster */
#define OUTLIERS 0.1 /* share of samples */
#define COVERED 0.85 /* share of time that a profile must attribute */
#define ALIKE_MAX 3u /* findings of one rule that are listed; more are counted */

enum rule {
    NOT_VALID,
    DIRTY_BUILD,
    BUSY_MACHINE,
    COVERAGE,
    BEYOND_LIMIT,
    AT_LIMIT,
    ROOM,
    FEW_SAMPLES,
    DRIFT,
    OFTEN_DISTURBED,
    QUANTISED,
    MACHINES,
    WORSE,
    BETTER,
    RULES
};

static const struct {
    const char *name, *kind, *text;
} ABOUT[RULES] = {
    [NOT_VALID] = {"not-valid", "bad", "does not count"},
    [DIRTY_BUILD] = {"dirty-build", "warn", "was measured with a program built from uncommitted changes"},
    [BUSY_MACHINE] = {"busy-machine", "warn", "was disturbed by other processes"},
    [COVERAGE] = {"coverage", "bad", "leaves too much time unattributed"},
    [BEYOND_LIMIT] = {"beyond-limit", "warn",
                      "reached more than the measured limit; measure both again on a quiet machine"},
    [AT_LIMIT] = {"at-limit", "ok", "is bound by its limit"},
    [ROOM] = {"room", "warn", "could be faster"},
    [FEW_SAMPLES] = {"few-samples", "warn", "has too few samples for an interval: take 6 or more"},
    [DRIFT] = {"drift", "warn",
               "drifted while it was measured, so its interval is too narrow: compare in turn (bn-bench ab)"},
    [OFTEN_DISTURBED] = {"outliers", "warn", "was disturbed often"},
    [QUANTISED] = {"quantised", "warn", "hardly varies: is the clock too coarse?"},
    [MACHINES] = {"machines", "warn", "differ, and figures differ by machine"},
    [WORSE] = {"changed", "bad", "is worse"},
    [BETTER] = {"changed", "", "is better"},
};

struct findings {
    struct bn_table *table;
    size_t n[RULES];
};

/* A finding about `of`, of `what`, and the numbers that it is based on. */
static void find(struct findings *f, enum rule rule, const char *of, const char *what, const char *fmt, ...)
    BN_PRINTF(5, 6);
static void find(struct findings *f, enum rule rule, const char *of, const char *what, const char *fmt, ...)
{
    char evidence[600], about[BN_TEST_ROOM], test[BN_TEST_ROOM];
    va_list args;
    if (f->n[rule]++ >= ALIKE_MAX) return;
    va_start(args, fmt);
    vsnprintf(evidence, sizeof evidence, fmt, args);
    va_end(args);
    bn_table_row(f->table, ABOUT[rule].kind);
    bn_table_text(f->table, ABOUT[rule].name);
    bn_table_printf(f->table, "%.200s%s%.200s", bn_test_name(about, of), what[0] != '\0' ? " of " : "",
                    bn_test_name(test, what));
    bn_table_printf(f->table, "%s (%s)", ABOUT[rule].text, evidence);
    bn_table_text(f->table, ABOUT[rule].kind);
}

static void look_at(struct findings *f, const struct bn_report_series *s)
{
    const char *test = s->s->test, *metric = s->s->metric;
    size_t n = s->s->n;
    double limit = 2 / sqrt((double)n);
    if (s->s->exact || s->s->neutral) return;
    if (n < 6) find(f, FEW_SAMPLES, metric, test, "n = %zu", n);
    if (n >= 20 && fabs(s->correlation) > limit)
        find(f, DRIFT, metric, test, "correlation of neighbours %.2f, beyond %.2f for %zu samples",
             s->correlation, limit, n);
    if (n >= 10 && (double)s->n_outliers > OUTLIERS * (double)n)
        find(f, OFTEN_DISTURBED, metric, test, "%zu of %zu samples are outliers", s->n_outliers, n);
    if (n >= 6 && s->figure[BN_FIGURE_MAD] <= 0)
        find(f, QUANTISED, metric, test, "MAD 0 over %zu samples", n);
}

static void place(struct findings *f, const struct bn_report_point *p)
{
    if (p->share > 1.05 || p->share >= BOUND || p->share < IDLE)
        find(f,
             p->share > 1.05     ? BEYOND_LIMIT
             : p->share >= BOUND ? AT_LIMIT
                                 : ROOM,
             p->kernel, p->shape, "%.3g %% of %.40s, %zu thread%s", 100 * p->share, p->limit, p->threads,
             p->threads == 1 ? "" : "s");
}

/* Where a document comes from, and tests that are not valid. */
static void question(struct findings *f, const struct bn_report_source *source)
{
    const bn_json *doc = source->doc, *tests = bn_json_get(doc, "tests");
    const struct bn_others others = bn_others_read(doc);
    double coverage = bn_json_number_of(doc, "profile.summary.coverage");
    char text[160];
    for (const bn_json *e = bn_json_first(tests); e != NULL; e = bn_json_next(e)) {
        const char *verdict = bn_json_text_of(e, "verdict");
        if (verdict[0] != '\0' && strcmp(verdict, "valid") != 0 && strcmp(verdict, "skipped") != 0)
            find(f, NOT_VALID, bn_json_text_of(e, "name"), "", "%.40s: %.200s", verdict,
                 bn_json_text_of(e, "reason"));
    }
    if (bn_json_flag_of(doc, "program.dirty"))
        find(f, DIRTY_BUILD, source->label, "", "program.dirty is true");
    bn_others_describe(text, sizeof text, &others);
    if (bn_others_disturb(&others)) find(f, BUSY_MACHINE, source->label, "", "%s", text);
    if (coverage < COVERED)
        find(f, COVERAGE, source->label, "", "coverage %.2f, at least %.2f is expected", coverage, COVERED);
}

static void follow(struct findings *f, const struct bn_report_trend *t)
{
    const bn_json *points = bn_json_get(t->json, "points"), *changes = bn_json_get(t->json, "changes");
    for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c)) {
        double change = bn_json_number_of(c, "change");
        size_t at = bn_json_count_of(c, "at");
        const char *confirm = bn_json_text_of(c, "confirm");
        bool worse = (change > 0) != bn_json_text_is(t->json, "better", "higher");
        find(f, worse ? WORSE : BETTER, bn_json_text_of(t->json, "metric"), bn_json_text_of(t->json, "test"),
             "by %.3g %% since %.10s, run %zu of %zu%s%s", 100 * fabs(change),
             bn_json_text_of(bn_json_at(points, at), "created"), at + 1, t->n,
             confirm[0] != '\0' ? "; to confirm it: " : "", confirm);
    }
}

void bn_report_fill_findings(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"rule", "of", "finding", "kind"};
    struct findings f = {.table = t};
    bn_table_begin(t, HEADS, "llnc");
    for (size_t i = 0; i < r->n_sources; i++)
        question(&f, &r->sources[i]);
    for (size_t i = 0; i < r->n_points; i++)
        place(&f, &r->points[i]);
    for (size_t i = 0; i < r->n_series; i++)
        look_at(&f, &r->series[i]);
    const struct bn_report_source *machines[BN_REPORT_MACHINES];
    if (bn_report_machines(machines, r) > 1)
        find(&f, MACHINES, "machines", "", "%s and %s", bn_json_text_of(machines[0]->doc, "machine.label"),
             bn_json_text_of(machines[1]->doc, "machine.label"));
    for (size_t i = 0; i < r->n_trends; i++)
        follow(&f, &r->trends[i]);
    for (size_t i = 0; i < RULES; i++) {
        if (f.n[i] <= ALIKE_MAX) continue;
        bn_table_row(t, ABOUT[i].kind);
        bn_table_text(t, ABOUT[i].name);
        bn_table_printf(t, "and %zu more like these", f.n[i] - ALIKE_MAX);
        bn_table_text(t, "");
        bn_table_text(t, ABOUT[i].kind);
    }
}
