/* SPDX-License-Identifier: MIT
 *
 * The targets of a suite: limits for the fastest tests of each model, judged as those of bn-bench run
 * (target.h).
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/report/units.h"
#include "tools/bench/plan/suite.h"
#include "tools/bench/target.h"

const char *const bn_suite_target_heads[] = {"target", "model", "limit", "measured", "verdict"};

#define N_TARGETS 4u

/* The words of a test after the first one; "" without a test. */
static const char *words_of(const struct bn_report_series *s)
{
    const char *space = s != NULL ? strchr(s->s->test, ' ') : NULL;
    return space != NULL ? space : "";
}

static void put(struct bn_suite_run *s, const char *name, const char *model, const struct bn_bench_target *t,
                bn_json *list, struct bn_table *table)
{
    static const char *const VERDICTS[] = {[BN_TARGET_MET] = "met",
                                           [BN_TARGET_MISSED] = "MISSED",
                                           [BN_TARGET_UNDECIDED] = "undecided",
                                           [BN_TARGET_NO_DATA] = "not measured"};
    char limit[BN_UNITS_ROOM];
    bool bad = t->verdict == BN_TARGET_MISSED || t->verdict == BN_TARGET_NO_DATA;
    s->missed = s->missed || bad;
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "target", name);
    bn_json_put_string(o, "model", model);
    bn_json_put_string(o, "unit", t->unit);
    bn_json_put_number(o, t->least ? "at_least" : "at_most", t->wanted);
    bn_json_put_finite(o, "value", t->found, "it was not measured");
    bn_json_put_string(o, "verdict", VERDICTS[t->verdict]);
    bn_table_row(table, bad ? "bad" : t->verdict == BN_TARGET_MET ? "ok" : "warn");
    bn_table_text(table, name);
    bn_table_text(table, model);
    bn_table_printf(table, "%s %s", t->least ? ">=" : "<=", bn_units_text(limit, t->wanted, t->unit));
    bn_table_value(table, t->found, t->unit);
    bn_table_text(table, VERDICTS[t->verdict]);
}

/* The fastest decode and prompt test of a model; its targets name these tests. */
static bn_status judge_model(struct bn_suite_run *s, const struct bn_report_model *m, const char *model,
                             bn_json *list, struct bn_table *table, bn_error *err)
{
    const struct bn_plan_fields *f = s->plan.fields;
    const struct {
        const char *title, *name, *words, *sign, *unit;
        double limit;
    } TARGETS[N_TARGETS] = {{"decode rate", "decode", words_of(m->decode), ">=", "", f->decode},
                            {"prompt rate", "prompt", words_of(m->prompt), ">=", "", f->prompt},
                            {"first token", "first-token", words_of(m->prompt), "<=", "ms", f->first_token},
                            {"peak memory", "memory", "", "<=", "MiB", f->memory}};
    double confidence = f->confidence > 0 ? f->confidence : BN_BENCH_CONFIDENCE;
    for (size_t i = 0; i < N_TARGETS; i++) {
        char text[160];
        struct bn_bench_target target;
        if (!(TARGETS[i].limit > 0)) continue;
        snprintf(text, sizeof text, "%s%.64s%s%.17g%s", TARGETS[i].name, TARGETS[i].words, TARGETS[i].sign,
                 TARGETS[i].limit, TARGETS[i].unit);
        BN_TRY(bn_bench_target_read(&target, text, err));
        BN_TRY(bn_bench_target_judge(&target, &m->source->series, confidence, err));
        put(s, TARGETS[i].title, model, &target, list, table);
    }
    return BN_OK;
}

bn_status bn_suite_targets(struct bn_suite_run *s, bn_json *list, struct bn_table *table, bn_error *err)
{
    const struct bn_plan_fields *f = s->plan.fields;
    bn_status status = BN_OK;
    for (size_t i = 0; i < s->report.n_models && status == BN_OK; i++) {
        const struct bn_report_model *m = &s->report.models[i];
        struct bn_buf name = {.max = 1u << 16};
        bn_report_put_model_name(&name, m);
        status = judge_model(s, m, bn_buf_text(&name), list, table, err);
        table->failed = table->failed || name.failed;
        bn_buf_release(&name);
    }
    const double limits[N_TARGETS] = {f->decode, f->prompt, f->first_token, f->memory};
    for (size_t k = 0; k < N_TARGETS && s->report.n_models == 0; k++)
        s->missed = s->missed || limits[k] > 0; /* nothing was measured that could meet it */
    return status;
}
