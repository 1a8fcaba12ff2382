/* SPDX-License-Identifier: MIT
 *
 * bn-bench run --target: reads the targets, judges them by the series of the run (target.h), and reports them.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/report/units.h"
#include "tools/bench/run/run.h"
#include "tools/cli/report.h"

bn_status bn_bench_targets_read(struct bn_bench_measurement *m, bn_error *err)
{
    const struct bn_texts *texts = &m->o->targets;
    m->targets = bn_alloc(texts->n + 1, sizeof *m->targets);
    if (m->targets == NULL) return bn_nomem(err);
    for (size_t i = 0; i < texts->n; i++)
        BN_TRY(bn_bench_target_read(&m->targets[m->n_targets++], texts->list[i], err));
    return BN_OK;
}

bn_status bn_bench_targets_judge(struct bn_bench_measurement *m, bn_error *err)
{
    for (size_t i = 0; i < m->n_targets; i++)
        BN_TRY(bn_bench_target_judge(&m->targets[i], &m->series, m->confidence, err));
    return BN_OK;
}

static void print_target(const struct bn_bench_measurement *m, const struct bn_bench_target *t)
{
    char found[BN_UNITS_ROOM], line[320];
    const char *unit = strcmp(t->unit, "nats/token") == 0 ? "1" : t->unit;
    snprintf(line, sizeof line, "%-6s  %.80s: found %s%s%s", t->met ? "met" : "missed", t->text,
             isnan(t->found) ? "no data" : bn_units_text(found, t->found, unit),
             t->test[0] != '\0' ? ", " : "", t->test);
    if (!m->args->json)
        printf("target   %s\n", line);
    else if (!t->met)
        bn_report_warning("target %s", line);
}

/* With --json only those that were missed, on standard error. */
void bn_bench_targets_print(const struct bn_bench_measurement *m)
{
    for (size_t i = 0; i < m->n_targets; i++)
        print_target(m, &m->targets[i]);
}

void bn_bench_targets_put(const struct bn_bench_measurement *m, bn_json *doc)
{
    bn_json *array = bn_json_put_array(doc, "targets");
    for (size_t i = 0; i < m->n_targets; i++) {
        const struct bn_bench_target *t = &m->targets[i];
        bn_json *o = bn_json_add_object(array);
        bn_json_put_object(o, "unavailable");
        bn_json_put_string(o, "target", t->text);
        bn_json_put_bool(o, "met", t->met);
        bn_json_put_finite(o, "found", t->found, "the run has no data for it");
        bn_json_put_number(o, "wanted", t->wanted);
        bn_json_put_string(o, "wanted_at", t->least ? "least" : "most");
        bn_json_put_string(o, "unit", t->unit);
        bn_json_put_known(o, "test", t->test, "the run has no such test");
    }
}
