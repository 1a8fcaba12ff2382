/* SPDX-License-Identifier: MIT
 *
 * Findings: what the numbers of a report mean. Each comes from a rule and names the numbers that it is based
 * on. A rule without data reports nothing.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/host/busy.h"
#include "lab/report/units.h"
#include "tools/bench/report/report.h"

#define BOUND 0.85   /* from this share of a limit on, the limit binds */
#define IDLE 0.5     /* below this share a kernel could be faster */
#define OUTLIERS 0.1 /* share of samples */
#define COVERED 0.85 /* share of time that a profile must attribute */
#define FINDINGS_MAX 200u
#define ALIKE_MAX 3u /* findings of one rule that are listed; more are counted */

/* Appends a finding; a tab separates text and evidence. */
static bn_status find(struct bn_report *r, const char *rule, const char *kind, bn_error *err, const char *fmt,
                      ...) BN_PRINTF(5, 6);
static bn_status find(struct bn_report *r, const char *rule, const char *kind, bn_error *err, const char *fmt,
                      ...)
{
    char line[1200];
    va_list args;
    size_t alike = 0, last = 0;
    for (size_t i = 0; i < r->n_findings; i++)
        if (strcmp(r->findings[i].rule, rule) == 0) alike++, last = i;
    if (alike >= ALIKE_MAX) {
        r->findings[last].n_more++;
        return BN_OK;
    }
    if (r->n_findings >= FINDINGS_MAX) return BN_OK;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (r->findings == NULL) r->findings = bn_alloc(FINDINGS_MAX, sizeof *r->findings);
    if (r->findings == NULL) return bn_nomem(err);
    size_t n = strcspn(line, "\t");
    struct bn_report_finding *f = &r->findings[r->n_findings++];
    f->rule = rule;
    f->kind = kind;
    f->text = bn_strndup(line, n);
    f->evidence = bn_strndup(line + n + (line[n] == '\t'), strlen(line + n + (line[n] == '\t')));
    return f->text != NULL && f->evidence != NULL ? BN_OK : bn_nomem(err);
}

/* ---- comparisons ---- */

static bn_status judge(struct bn_report *r, const struct bn_comparison *c, bn_error *err)
{
    char figures[200], change[BN_UNITS_ROOM], low[BN_UNITS_ROOM], high[BN_UNITS_ROOM];
    struct bn_judgement j = bn_comparison_shown(c);
    snprintf(figures, sizeof figures, "%s, interval %s to %s", bn_units_percent_text(change, j.change, true),
             bn_units_percent_text(low, j.low, true), bn_units_percent_text(high, j.high, true));
    if (c->j.outcome == BN_OUTCOME_REGRESSED)
        return find(r, "regressed", "bad", err, "%.200s of %.200s is worse\t%s; %s%s", c->metric, c->test,
                    figures, c->j.reason,
                    c->severity == BN_SEVERITY_CRITICAL  ? "; critical"
                    : c->severity == BN_SEVERITY_WARNING ? "; a warning"
                                                         : "");
    if (c->j.outcome == BN_OUTCOME_INCONCLUSIVE && c->j.n_needed > 0)
        return find(r, "more-pairs", "warn", err,
                    "%.200s of %.200s is undecided; about %zu pairs are needed\t%s, from %zu pairs; %s",
                    c->metric, c->test, c->j.n_needed, figures, c->j.n, c->j.reason);
    if (c->j.outcome == BN_OUTCOME_INCONCLUSIVE)
        return find(r, "open", "warn", err, "%.200s of %.200s is undecided\t%s", c->metric, c->test,
                    c->j.reason);
    return BN_OK;
}

/* ---- series ---- */

static bn_status look_at(struct bn_report *r, const struct bn_report_series *s, bn_error *err)
{
    const char *test = s->s->test, *metric = s->s->metric;
    size_t n = s->s->n, out = s->n_outliers;
    double limit = 2 / sqrt((double)n);
    if (s->s->exact || s->s->neutral) return BN_OK;
    if (n < 6)
        BN_TRY(find(r, "few-samples", "warn", err,
                    "%.200s of %.200s has too few samples for an interval: take 6 or more\tn = %zu", metric,
                    test, n));
    if (n >= 20 && fabs(s->correlation) > limit)
        BN_TRY(find(
            r, "drift", "warn", err,
            "%.200s of %.200s drifted while it was measured, so its interval is too narrow: compare in turn "
            "(bn-bench ab)\tcorrelation of neighbours %.2f, beyond %.2f for %zu samples",
            metric, test, s->correlation, limit, n));
    if (n >= 10 && (double)out > OUTLIERS * (double)n)
        BN_TRY(
            find(r, "outliers", "warn", err,
                 "%.200s of %.200s was disturbed often\t%zu of %zu samples are outliers, %zu of them severe",
                 metric, test, out, n, s->fences.n_severe_low + s->fences.n_severe_high));
    if (n >= 6 && s->figure[BN_FIGURE_MAD] <= 0)
        BN_TRY(find(r, "quantised", "warn", err,
                    "%.200s of %.200s hardly varies: is the clock too coarse?\tMAD 0 over %zu samples",
                    metric, test, n));
    return BN_OK;
}

/* ---- kernels ---- */

static bn_status place(struct bn_report *r, const struct bn_report_point *p, bn_error *err)
{
    if (p->share > 1.05)
        return find(
            r, "beyond-limit", "warn", err,
            "%.200s %.200s reached more than the measured limit; measure both again on a quiet machine\t"
            "%.3g %% of %.40s, %zu thread%s",
            p->kernel, p->shape, 100 * p->share, p->limit, p->threads, p->threads == 1 ? "" : "s");
    if (p->share >= BOUND)
        return find(r, "at-limit", "ok", err,
                    "%.200s %.200s is bound by %s: only fewer %s would make it faster\t"
                    "%.3g %% of the limit, %zu thread%s",
                    p->kernel, p->shape, p->limit,
                    strcmp(p->limit, "arithmetic") == 0 ? "multiply-adds" : "bytes", 100 * p->share,
                    p->threads, p->threads == 1 ? "" : "s");
    if (p->share < IDLE)
        return find(r, "room", "warn", err, "%.200s %.200s could be faster\t%.3g %% of %.40s, %zu thread%s",
                    p->kernel, p->shape, 100 * p->share, p->limit, p->threads, p->threads == 1 ? "" : "s");
    return BN_OK;
}

/* ---- provenance ---- */

/* Measurements that their document marks as not valid. */
static bn_status distrust(struct bn_report *r, const struct bn_report_source *source, bn_error *err)
{
    const bn_json *array = bn_json_get(source->doc, "tests");
    for (const bn_json *e = bn_json_first(array); e != NULL; e = bn_json_next(e)) {
        const char *verdict = "valid", *what = "", *reason = "";
        (void)bn_json_string(bn_json_get(e, "verdict"), &verdict);
        (void)bn_json_string(bn_json_get(e, "name"), &what);
        (void)bn_json_string(bn_json_get(e, "reason"), &reason);
        if (strcmp(verdict, "valid") != 0 && strcmp(verdict, "skipped") != 0)
            BN_TRY(find(r, "not-valid", "bad", err, "%.200s does not count\t%.40s: %.200s", what, verdict,
                        reason));
    }
    return BN_OK;
}

static bn_status question(struct bn_report *r, const struct bn_report_source *source, bn_error *err)
{
    double coverage = (double)NAN;
    const struct bn_others others = bn_others_read(source->doc);
    bool dirty = false;
    (void)bn_json_number(bn_json_path(source->doc, "profile.summary.coverage"), &coverage);
    (void)bn_json_bool(bn_json_path(source->doc, "program.dirty"), &dirty);
    BN_TRY(distrust(r, source, err));
    if (dirty)
        BN_TRY(
            find(r, "dirty-build", "warn", err,
                 "%.200s was measured with a program built from uncommitted changes\tprogram.dirty is true",
                 source->label));
    if (bn_others_disturb(&others)) {
        char text[160];
        bn_others_describe(text, sizeof text, &others);
        BN_TRY(find(r, "busy-machine", "warn", err, "other processes disturbed %.200s\t%s", source->label,
                    text));
    }
    if (coverage < COVERED)
        BN_TRY(find(r, "coverage", "bad", err,
                    "%.200s leaves too much time unattributed\tcoverage %.2f, at least %.2f is expected",
                    source->label, coverage, COVERED));
    return BN_OK;
}

/* ---- comparisons with other engines ---- */

static bn_status agree(struct bn_report *r, const struct bn_report_source *source, bn_error *err)
{
    const bn_json *list = bn_json_get(source->doc, "references"),
                  *parity = bn_json_get(source->doc, "parity");
    if (!bn_json_text_is(source->doc, "schema", "bn.crossval/1")) return BN_OK;
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e)) {
        const char *name = bn_json_text_of(e, "reference"), *rung = bn_json_text_of(e, "parted_at");
        const char *result = bn_json_text_of(e, "result");
        if (strcmp(result, "agree") == 0)
            BN_TRY(find(r, "engines-agree", "ok", err, "%.200s computes the same as this engine\t%zu tokens",
                        name, bn_json_count_of(parity, "tokens")));
        else
            BN_TRY(find(r, "engines-differ", "bad", err,
                        "%.200s does not agree with this engine\t%.40s%s%.40s", name, result,
                        rung[0] != '\0' ? " from rung " : "", rung));
    }
    return BN_OK;
}

bn_status bn_report_find(struct bn_report *r, bn_error *err)
{
    /* The worst first, so that a full list has them. */
    for (size_t i = 0; i < r->n_comparisons; i++)
        if (r->comparisons[i].c.j.outcome == BN_OUTCOME_REGRESSED)
            BN_TRY(judge(r, &r->comparisons[i].c, err));
    for (size_t i = 0; i < r->n_sources; i++)
        BN_TRY(agree(r, &r->sources[i], err));
    for (size_t i = 0; i < r->n_sources; i++)
        BN_TRY(question(r, &r->sources[i], err));
    for (size_t i = 0; i < r->n_comparisons; i++)
        if (r->comparisons[i].c.j.outcome != BN_OUTCOME_REGRESSED)
            BN_TRY(judge(r, &r->comparisons[i].c, err));
    for (size_t i = 0; i < r->n_points; i++)
        BN_TRY(place(r, &r->points[i], err));
    for (size_t i = 0; i < r->n_series; i++)
        BN_TRY(look_at(r, &r->series[i], err));
    if (r->n_machines > 1)
        BN_TRY(
            find(r, "machines", "warn", err,
                 "the documents come from %zu machines; their figures differ by machine\t%.300s and %.300s%s",
                 r->n_machines, r->machines[0].label, r->machines[1].label,
                 r->n_machines > 2 ? " and others" : ""));
    for (size_t i = 0; i < r->n_trends; i++)
        for (size_t k = 0; k < r->trends[i].n_changes; k++) {
            const struct bn_report_trend *t = &r->trends[i];
            const struct bn_report_change *c = &t->changes[k];
            BN_TRY(find(r, "changed", (c->change > 0) != t->higher ? "bad" : "ok", err,
                        "%.200s of %.200s is %s by %.3g %% since %.10s\trun %zu of %zu%s%s", t->metric,
                        t->test, (c->change > 0) != t->higher ? "worse" : "better", 100 * fabs(c->change),
                        t->moments[c->at].created, c->at + 1, t->n,
                        c->confirm[0] != '\0' ? "; to confirm it: " : "", c->confirm));
        }
    return BN_OK;
}
