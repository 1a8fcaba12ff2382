/* SPDX-License-Identifier: MIT
 *
 * The targets of a suite: limits for the fastest tests of each model. A target is met when the whole interval of
 * the figure is on its right side, missed when all of it is on the other side, else undecided. A figure without
 * an interval is judged by its median.
 */
#include <math.h>

#include "lab/report/units.h"
#include "tools/bench/plan/suite.h"

const char *const bn_suite_target_heads[] = {"target", "model", "limit", "measured", "verdict"};

struct target {
    const char *name, *unit;
    bool least;       /* the limit is a minimum */
    double limit;     /* in the unit */
    double value;     /* NaN: not measured */
    double low, high; /* its interval */
};

static const char *judge(const struct target *t)
{
    bool known = isfinite(t->low) && isfinite(t->high);
    double low = known ? t->low : t->value, high = known ? t->high : t->value;
    if (!isfinite(t->value)) return "not measured";
    if (t->least ? low >= t->limit : high <= t->limit) return "met";
    return (t->least ? high < t->limit : low > t->limit) ? "MISSED" : "undecided";
}

static void put(struct bn_suite_run *s, const char *model, const struct target *t, bn_json *list,
                struct bn_table *table)
{
    const char *verdict = judge(t);
    char limit[BN_UNITS_ROOM];
    if (!(t->limit > 0)) return;
    bool bad = strcmp(verdict, "MISSED") == 0 || strcmp(verdict, "not measured") == 0;
    s->missed = s->missed || bad;
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "target", t->name);
    bn_json_put_string(o, "model", model);
    bn_json_put_string(o, "unit", t->unit);
    bn_json_put_number(o, t->least ? "at_least" : "at_most", t->limit);
    bn_json_put_finite(o, "value", t->value, "it was not measured");
    bn_json_put_string(o, "verdict", verdict);
    bn_table_row(table, bad ? "bad" : strcmp(verdict, "met") == 0 ? "ok" : "warn");
    bn_table_text(table, t->name);
    bn_table_text(table, model);
    bn_table_printf(table, "%s %s", t->least ? ">=" : "<=", bn_units_text(limit, t->limit, t->unit));
    bn_table_value(table, t->value, t->unit);
    bn_table_text(table, verdict);
}

/* The rate of a series of times per token. */
static struct target rate_of(const char *name, double limit, const struct bn_report_series *s)
{
    double none = (double)NAN;
    struct target t = {name, "tok/s", true, limit, none, none, none};
    if (s == NULL) return t;
    t.value = 1e9 / s->figure[BN_FIGURE_MEDIAN];
    t.low = 1e9 / s->figure[BN_FIGURE_HIGH];
    t.high = 1e9 / s->figure[BN_FIGURE_LOW];
    return t;
}

void bn_suite_targets(struct bn_suite_run *s, bn_json *list, struct bn_table *table)
{
    const struct bn_plan_fields *f = s->plan.fields;
    double none = (double)NAN;
    for (size_t i = 0; i < s->report.n_models; i++) {
        const struct bn_report_model *m = &s->report.models[i];
        struct bn_buf name = {.max = 1u << 16};
        bn_report_put_model_name(&name, m);
        const struct target targets[] = {
            rate_of("decode rate", f->decode, m->decode),
            rate_of("prompt rate", f->prompt, m->prompt),
            {"first token", "ns", false, f->first_token * 1e6, m->first_token_ns, none, none},
            {"peak memory", "bytes", false, f->memory * 0x1p20, m->peak_bytes, none, none}};
        for (size_t k = 0; k < BN_ARRAY_LEN(targets); k++)
            put(s, bn_buf_text(&name), &targets[k], list, table);
        table->failed = table->failed || name.failed;
        bn_buf_release(&name);
    }
    const double limits[] = {f->decode, f->prompt, f->first_token, f->memory};
    for (size_t k = 0; k < BN_ARRAY_LEN(limits) && s->report.n_models == 0; k++)
        s->missed = s->missed || limits[k] > 0; /* nothing was measured that could meet it */
}
