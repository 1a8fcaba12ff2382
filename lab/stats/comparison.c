/* SPDX-License-Identifier: MIT
 *
 * Comparisons as JSON and as a table. A number that a judgement does not have (NaN) is null with a reason in
 * JSON, "-" in the table, and NaN again when it is read.
 */
#include "lab/stats/comparison.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/kit/put_counts.h"

static const char *const SEVERITIES[] = {"none", "warning", "critical"};

/* ---- JSON ---- */

/* The numbers of a judgement that may be missing, for writing and reading alike. */
#define NUMBER(field, why)                                \
    {                                                     \
#field, why, offsetof(struct bn_judgement, field) \
    }
static const struct {
    const char *name, *why;
    size_t offset;
} NUMBERS[] = {NUMBER(change, "no ratio can be formed"),
               NUMBER(low, "too few samples for an interval"),
               NUMBER(high, "too few samples for an interval"),
               NUMBER(p, "nothing was tested"),
               NUMBER(q, "nothing was tested"),
               NUMBER(agreement, "there are no pairs"),
               NUMBER(band, "it was not measured"),
               NUMBER(mde, "too few samples for a spread")};

static double *number_at(struct bn_judgement *j, size_t i)
{
    return (double *)(void *)((char *)j + NUMBERS[i].offset);
}

struct bn_judgement bn_comparison_shown(const struct bn_comparison *c)
{
    struct bn_judgement j = c->j;
    j.change = bn_judge_turn(c->j.change, c->higher);
    j.low = bn_judge_turn(c->higher ? c->j.high : c->j.low, c->higher);
    j.high = bn_judge_turn(c->higher ? c->j.low : c->j.high, c->higher);
    return j;
}

static void put_side(bn_json *object, const char *name, size_t n, double median)
{
    bn_json *side = bn_json_put_object(object, name);
    bn_json_put_u64(side, "n", n);
    bn_json_put_finite(side, "median", median, "there are no samples");
}

void bn_comparisons_put(bn_json *document, const char *name, const struct bn_comparison *list, size_t n)
{
    bn_json *array = bn_json_put_array(document, name);
    for (size_t i = 0; i < n; i++) {
        const struct bn_comparison *c = &list[i];
        struct bn_judgement shown = bn_comparison_shown(c);
        bn_json *o = bn_json_add_object(array);
        BN_PUT_STRINGS(o, {"test", c->test}, {"metric", c->metric}, {"unit", c->unit},
                       {"better", c->higher ? "higher" : "lower"});
        bn_json_put_bool(o, "exact", c->exact);
        bn_json_put_bool(o, "primary", !c->secondary);
        put_side(o, "a", c->n_a, c->median_a);
        put_side(o, "b", c->n_b, c->median_b);
        BN_PUT_STRINGS(o, {"verdict", bn_outcome_name(c->j.outcome)}, {"reason", c->j.reason});
        for (size_t k = 0; k < BN_ARRAY_LEN(NUMBERS); k++)
            bn_json_put_finite(o, NUMBERS[k].name, *number_at(&shown, k), NUMBERS[k].why);
        BN_PUT_COUNTS(o, {"n", c->j.n}, {"n_needed", c->j.n_needed});
        bn_json_put_string(o, "severity", SEVERITIES[c->severity]);
    }
}

/* A number, or NaN for null; false for anything else. */
static bool read_finite(const bn_json *object, const char *name, double *out)
{
    const bn_json *value = bn_json_get(object, name);
    *out = (double)NAN;
    return bn_json_number(value, out) || (value != NULL && bn_json_kind(value) == BN_JSON_NULL);
}

static bool read_count(const bn_json *object, const char *name, size_t *out)
{
    uint64_t value;
    if (!bn_json_u64(bn_json_get(object, name), &value)) return false;
    *out = (size_t)value;
    return true;
}

static bool read_side(const bn_json *object, const char *name, size_t *n, double *median)
{
    const bn_json *side = bn_json_get(object, name);
    return read_count(side, "n", n) && read_finite(side, "median", median) && (*n == 0) == isnan(*median);
}

static bool read_judgement(struct bn_judgement *j, const bn_json *o)
{
    const char *reason, *verdict = bn_json_text_of(o, "verdict");
    int outcome = 0;
    while (outcome < BN_OUTCOMES && strcmp(verdict, bn_outcome_name((enum bn_outcome)outcome)) != 0)
        outcome++;
    if (outcome == BN_OUTCOMES || !bn_json_string(bn_json_get(o, "reason"), &reason)) return false;
    j->outcome = (enum bn_outcome)outcome;
    snprintf(j->reason, sizeof j->reason, "%s", reason);
    for (size_t k = 0; k < BN_ARRAY_LEN(NUMBERS); k++)
        if (!read_finite(o, NUMBERS[k].name, number_at(j, k))) return false;
    return read_count(o, "n", &j->n) && read_count(o, "n_needed", &j->n_needed);
}

bn_status bn_comparison_read(struct bn_comparison *out, const bn_json *o, bn_error *err)
{
    const char *severity = bn_json_text_of(o, "severity");
    bool primary = true; /* documents of others lack it: all series decided */
    size_t s = BN_FIND(SEVERITIES, severity);
    *out = (struct bn_comparison){.higher = bn_json_text_is(o, "better", "higher")};
    if (!bn_json_string(bn_json_get(o, "test"), &out->test) ||
        !bn_json_string(bn_json_get(o, "metric"), &out->metric))
        return bn_fail(err, BN_ERR_FORMAT, "a comparison has no test or no metric");
    if (!bn_json_string(bn_json_get(o, "unit"), &out->unit) ||
        !(out->higher || bn_json_text_is(o, "better", "lower")) ||
        !bn_json_bool(bn_json_get(o, "exact"), &out->exact) ||
        !read_side(o, "a", &out->n_a, &out->median_a) || !read_side(o, "b", &out->n_b, &out->median_b) ||
        !read_judgement(&out->j, o) || s == BN_ARRAY_LEN(SEVERITIES))
        return bn_fail(err, BN_ERR_FORMAT, "the comparison of '%s' of '%s' is malformed", out->metric,
                       out->test);
    (void)bn_json_bool(bn_json_get(o, "primary"), &primary);
    out->severity = (enum bn_severity)s;
    out->secondary = !primary;
    out->j = bn_comparison_shown(out); /* of the cost again */
    return BN_OK;
}

void bn_comparison_sides(const struct bn_comparison *c, double *a, double *b)
{
    *a = c->median_a;
    *b = c->median_b;
    if (isnan(c->j.p) || !(c->j.change > -1) || !isfinite(c->j.change)) return;
    double middle = sqrt(*a) * sqrt(*b), ratio = 1 + bn_judge_turn(c->j.change, c->higher);
    *a = middle / sqrt(ratio);
    *b = middle * sqrt(ratio);
}

/* ---- the table ---- */

const char *bn_comparison_kind(const struct bn_comparison *c)
{
    return c->j.outcome == BN_OUTCOME_REGRESSED      ? "bad"
           : c->j.outcome == BN_OUTCOME_INCONCLUSIVE ? "warn"
                                                     : "ok";
}

/* Of a p-value that is 0 only a bound is known. */
static void put_p(struct bn_table *t, double p)
{
    if (!isfinite(p))
        bn_table_text(t, "-");
    else if (p < 1e-4)
        bn_table_text(t, "<1e-4");
    else
        bn_table_printf(t, "%.*f", p < 0.001 ? 4 : p < 0.1 ? 3 : 2, p);
    bn_table_exact(t, p, "1");
}

static void fill_row(struct bn_table *t, const struct bn_comparison *c)
{
    const struct bn_judgement j = bn_comparison_shown(c);
    const char *unit = bn_units_of(c->metric, c->unit);
    char low[BN_UNITS_ROOM], high[BN_UNITS_ROOM], mde[BN_UNITS_ROOM];
    double a, b;
    bn_comparison_sides(c, &a, &b);
    bn_table_row(t, bn_comparison_kind(c));
    bn_table_test(t, c->document != NULL ? c->document : "", c->test);
    bn_table_text(t, c->metric);
    bn_table_value(t, a, unit);
    bn_table_value(t, b, unit);
    bn_table_percent(t, j.change, true);
    bn_table_printf(t, c->severity == BN_SEVERITY_NONE ? "%s" : "%s (%s)", bn_outcome_name(j.outcome),
                    SEVERITIES[c->severity]);
    bn_table_printf(t, isfinite(j.low) && isfinite(j.high) ? "%s to %s" : "-",
                    bn_units_percent_text(low, j.low, true), bn_units_percent_text(high, j.high, true));
    put_p(t, j.p);
    bn_table_count(t, j.n);
    bn_table_percent(t, j.band > 0 ? j.band : (double)NAN, false);
    bn_table_percent(t, j.mde, false);
    bool tested = j.mde > 0 && (j.n_needed > 0 || j.outcome == BN_OUTCOME_REGRESSED);
    bn_table_printf(t, tested ? "%s; MDE %s" : "%s", j.reason, bn_units_percent_text(mde, j.mde, false));
    bn_table_text(t, unit);
    bn_table_number(t, j.low);
    bn_table_number(t, j.high);
    bn_table_number(t, j.q);
    bn_table_number(t, j.agreement);
    bn_table_count(t, j.n_needed);
}

void bn_comparisons_fill(struct bn_table *t, const struct bn_comparison *list, size_t n)
{
    static const char *const HEADS[] = {"test",     "metric", "A",    "B",    "change",    "verdict",
                                        "interval", "p",      "n",    "band", "MDE",       "why",
                                        "unit",     "low",    "high", "q",    "agreement", "needed"};
    bn_table_begin(t, HEADS, "llrrrlhrrrrncccccc");
    for (size_t i = 0; i < n; i++)
        fill_row(t, &list[i]);
}

/* Only a critical regression of a secondary series counts. */
static bool decides(const struct bn_comparison *c)
{
    return !c->secondary || c->severity == BN_SEVERITY_CRITICAL;
}

void bn_comparisons_count(struct bn_buf *out, const struct bn_comparison *list, size_t n)
{
    static const enum bn_outcome ORDER[] = {BN_OUTCOME_REGRESSED, BN_OUTCOME_IMPROVED, BN_OUTCOME_STABLE,
                                            BN_OUTCOME_SAME, BN_OUTCOME_INCONCLUSIVE};
    const char *comma = "";
    for (size_t k = 0; k < BN_ARRAY_LEN(ORDER); k++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            count += decides(&list[i]) && list[i].j.outcome == ORDER[k];
        if (count == 0) continue;
        bn_buf_printf(out, "%s%zu %s", comma, count, bn_outcome_name(ORDER[k]));
        comma = ", ";
    }
}

void bn_comparisons_print(struct bn_buf *out, const struct bn_comparison *list, size_t n)
{
    struct bn_table t;
    bn_comparisons_fill(&t, list, n);
    bn_table_put_text(out, &t);
    bn_table_release(&t);
}

enum bn_outcome bn_comparisons_worst(const struct bn_comparison *list, size_t n)
{
    enum bn_outcome worst = BN_OUTCOME_INCONCLUSIVE;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (!decides(&list[i])) continue;
        if (!any || list[i].j.outcome > worst) worst = list[i].j.outcome;
        any = true;
    }
    return worst;
}

/* ---- the sentence ---- */

const struct bn_comparison *bn_comparisons_main(const struct bn_comparison *list, size_t n)
{
    const struct bn_comparison *main = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct bn_comparison *c = &list[i];
        if (!decides(c) || c->n_a == 0 || c->n_b == 0) continue;
        int rank = main != NULL ? (int)c->j.outcome - (int)main->j.outcome : 1;
        if (rank == 0) rank = (int)c->severity - (int)main->severity;
        if (rank > 0 || (rank == 0 && fabs(c->j.change) > fabs(main->j.change))) main = c;
    }
    return main;
}

/* "3.1": a share as percent, without sign. */
static void put_size(struct bn_buf *out, double share)
{
    double size = 100 * fabs(share);
    bn_buf_printf(out, "%.*f", size > 0 && size < 0.95 ? 2 : 1, size);
}

/* "B is 3.1 % slower (2.0 to 4.2 %)"; of what is neither a time nor a rate, "larger". */
static void put_change(struct bn_buf *out, const struct bn_comparison *c, bool timed)
{
    const struct bn_judgement j = bn_comparison_shown(c);
    bool more = j.change > 0;
    bn_buf_puts(out, "B is ");
    put_size(out, j.change);
    bn_buf_printf(out, " %% %s",
                  timed  ? more == c->higher ? "faster" : "slower"
                  : more ? "larger"
                         : "smaller");
    if (!isfinite(j.low) || !isfinite(j.high) || !(j.low < j.high)) return;
    bn_buf_puts(out, " (");
    put_size(out, more ? j.low : j.high);
    bn_buf_puts(out, " to ");
    put_size(out, more ? j.high : j.low);
    bn_buf_puts(out, " %)");
}

static void put_sentence(struct bn_buf *out, const struct bn_comparison *c, const char *of)
{
    const struct bn_judgement j = bn_comparison_shown(c);
    size_t n_unit = strlen(c->unit);
    bool rate = n_unit > 2 && strcmp(c->unit + n_unit - 2, "/s") == 0,
         worse = j.outcome == BN_OUTCOME_REGRESSED, timed = rate || strcmp(c->unit, "ns") == 0,
         ranged = isfinite(j.low) && isfinite(j.high);
    if (j.outcome == BN_OUTCOME_INCONCLUSIVE) {
        bn_buf_printf(out, "undecided%s: %s", of, j.reason);
    } else if (worse || j.outcome == BN_OUTCOME_IMPROVED) {
        if (isfinite(j.change)) put_change(out, c, timed);
        bn_buf_printf(out, "%s%s: %s", isfinite(j.change) ? "" : "B differs", of,
                      timed   ? worse ? "SLOWER" : "FASTER"
                      : worse ? "WORSE"
                              : "BETTER");
        if (c->severity != BN_SEVERITY_NONE) bn_buf_printf(out, " (%s)", SEVERITIES[c->severity]);
    } else if (ranged && fmax(fabs(j.low), fabs(j.high)) > 0) {
        bn_buf_puts(out, "no difference larger than ");
        put_size(out, fmax(fabs(j.low), fabs(j.high)));
        bn_buf_printf(out, " %% was found%s", of);
    } else if (ranged) {
        bn_buf_printf(out, "A and B are the same%s", of);
    } else {
        bn_buf_printf(out, "no difference that matters was found%s: %s", of, j.reason);
    }
}

void bn_comparisons_verdict(struct bn_buf *out, const struct bn_comparison *list, size_t n)
{
    const struct bn_comparison *c = bn_comparisons_main(list, n);
    char name[BN_TEST_ROOM], of[BN_TEST_ROOM + 200] = "";
    size_t n_deciding = 0;
    for (size_t i = 0; i < n; i++)
        n_deciding += decides(&list[i]);
    if (c == NULL) {
        bn_buf_printf(out, "nothing could be compared%s%s", n > 0 ? ": " : "", n > 0 ? list[0].j.reason : "");
        return;
    }
    /* Of the time of two commands nothing needs to be named, of their other numbers only the metric. */
    bool command = strcmp(c->test, "command") == 0;
    if (n_deciding > 1 || !command || strcmp(c->metric, "wall_ns") != 0)
        snprintf(of, sizeof of, " in %.80s%s%.80s%s%.200s", c->metric, command ? "" : " of ",
                 c->document != NULL ? c->document : "", c->document != NULL ? ": " : "",
                 command ? "" : bn_test_name(name, c->test));
    put_sentence(out, c, of);
    if (n_deciding == 1) return;
    bn_buf_printf(out, " (%zu series: ", n_deciding);
    bn_comparisons_count(out, list, n);
    bn_buf_putc(out, ')');
}
