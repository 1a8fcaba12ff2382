/* SPDX-License-Identifier: MIT
 *
 * What bn-bench kernels, memory, quant and train share. The document is always built; --json decides whether it or
 * the text is printed.
 */
#include "tools/bench/suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "tools/cli/default_model.h"
#include "tools/cli/print_json.h"
#include "tools/cli/provenance.h"
#include "tools/cli/report.h"

const struct bn_option bn_bench_suite_options[] = {
    BN_OPTION("filter", "only rows with this text in their first columns", .arg = "PART",
              .group = "Measurement", BN_TO_TEXT(struct bn_bench_options, filter)),
    BN_OPTION("min-time", "time per row; at least three samples are taken", .arg = "SECONDS",
              .group = "Measurement", .preset = "0.1", BN_TO_F64(struct bn_bench_options, min_time, 0, 3600)),
    BN_BENCH_THREADS,
    {0},
};

bn_status bn_suite_open_model(const struct bn_suite *s, bn_repack repack, bn_model **out, bn_error *err)
{
    const char *path = s->args->model;
    bn_model_options options = {.repack = repack};
    if (path != NULL) return bn_model_open(out, path, &options, err);
    return bn_model_open_memory(out, bn_default_model_data, (size_t)bn_default_model_bytes,
                                BN_DEFAULT_MODEL_NAME, &options, err);
}

/* The rows that need the model come last, so it is tried first. */
static bn_status try_model(const struct bn_suite *s, bool wanted, bn_error *err)
{
    bn_model *model = NULL;
    if (!wanted) return BN_OK;
    BN_TRY(bn_suite_open_model(s, BN_REPACK_NEVER, &model, err));
    bn_model_close(model);
    return BN_OK;
}

bn_status bn_suite_open(struct bn_suite *s, struct bn_args *args, const char *command, bn_error *err)
{
    /* kernels take only the shapes of a model, and train makes its own. */
    bool opens_model = strcmp(command, "kernels") != 0 && strcmp(command, "train") != 0;
    *s = (struct bn_suite){.args = args, .o = args->fields};
    s->min_ns = (uint64_t)(s->o->min_time * 1e9);
    s->limits.budget_ns = s->min_ns < 50000000u ? s->min_ns : 50000000u;
    BN_TRY(bn_bench_threads(&s->o->threads, err));
    BN_TRY(try_model(s, opens_model, err));
    bn_machine_read(&s->machine);
    bn_busy_read(&s->before);
    bn_clock_measure_default(&s->clock);
    s->doc = bn_bench_document(command, &s->machine);
    if (opens_model || s->args->model != NULL) s->model = bn_cli_put_model(s->doc, args);
    bn_json *settings = s->settings = bn_json_put_object(s->doc, "settings");
    bn_json_put_string(settings, "model", s->args->model);
    bn_json_put_string(settings, "filter", s->o->filter);
    bn_json_put_u64(settings, "min_time_ns", s->min_ns);
    bn_bench_put_list(settings, "threads", &s->o->threads);
    bn_bench_put_clock(s->doc, &s->clock);
    if (!args->json) bn_bench_print_machine(&s->machine);
    return BN_OK;
}

static bn_status verdict(struct bn_suite *s, bn_error *err)
{
    if (!s->matched) {
        bn_fail(err, BN_ERR_ARG, "--filter: no row has '%.60s' in its name", s->o->filter);
        bn_error_hint(err, "use a part of what the first columns show");
        return BN_ERR_ARG;
    }
    const struct bn_others others = bn_bench_others(&s->before);
    bn_others_put(s->doc, &others);
    bn_json_put_u64(s->doc, "invalid_rows", s->n_invalid);
    bn_json_put_u64(s->doc, "false_statements", s->n_failed);
    bn_bench_limits_put(bn_json_put_array(s->doc, "limits"), &s->limits);
    bn_series_put(s->doc, &s->series);
    if (s->n_invalid + s->n_failed > 0 || s->n_valid == 0) s->args->exit_code = BN_EXIT_NEGATIVE;
    return s->args->json ? bn_cli_print_json(s->doc, err) : BN_OK;
}

bn_status bn_suite_finish(struct bn_suite *s, bn_status status, bn_error *err)
{
    bn_status printed = bn_suite_flush(s, status == BN_OK ? err : NULL);
    if (status == BN_OK) status = printed;
    if (status == BN_OK) status = verdict(s, err);
    bn_json_free(s->doc);
    bn_series_release(&s->series);
    bn_bench_limits_release(&s->limits);
    return status;
}

bn_status bn_suite_choose_isas(struct bn_suite *s, bn_error *err)
{
    const char *name = s->o->isa;
    if (strcmp(name, "all") != 0) {
        BN_TRY(bn_isa_select(name, err));
        s->n_isas = 1;
        return bn_isa_kernels(&s->isas[0], err);
    }
    for (size_t i = 0; bn_kernels_built(i) != NULL && s->n_isas < BN_SUITE_ISAS; i++)
        if (bn_kernels_supported(bn_kernels_built(i))) s->isas[s->n_isas++] = bn_kernels_built(i);
    return BN_OK;
}

bool bn_suite_is_repeated(const struct bn_suite *s, size_t isa, enum bn_kernel slot)
{
    for (size_t i = 0; i < isa; i++)
        if (strcmp(s->isas[i]->name[slot], s->isas[isa]->name[slot]) == 0) return true;
    return false;
}

bool bn_suite_wants(struct bn_suite *s, const char *name)
{
    const char *part = s->o->filter;
    bool wanted = part == NULL || strstr(name, part) != NULL;
    s->matched = s->matched || wanted;
    return wanted;
}

/* ---- rows ---- */

void bn_suite_refuse(struct bn_suite *s, struct bn_suite_row *row, bn_json *r, const char *why)
{
    row->valid = false;
    s->n_invalid++;
    bn_json_put_bool(r, "valid", false);
    bn_json_put_unavailable(r, row->metric, why);
    bn_report_warning("INVALID: %s: %s", row->test, why);
}

/* The rate of reading, and its limit. A limit that other work disturbed would be too low, so it is measured
 * again before a row is refused. */
static bn_status find_limit(struct bn_suite *s, const struct bn_suite_row *row, double ns_per_call,
                            struct bn_bench_claim *claim, bn_error *err)
{
    if (row->set_bytes == 0) return BN_OK;
    claim->rate = row->read_bytes * 1e9 / ns_per_call;
    BN_TRY(bn_bench_limits_read(&s->limits, row->set_bytes, row->n_threads, false, &claim->limit, err));
    for (unsigned i = 0; i < 3 && bn_bench_above_limit(claim); i++)
        BN_TRY(bn_bench_limits_read(&s->limits, row->set_bytes, row->n_threads, true, &claim->limit, err));
    return BN_OK;
}

static bn_status accept(struct bn_suite *s, struct bn_suite_row *row, const double *samples, size_t n,
                        bn_json *r, bn_error *err)
{
    row->valid = true;
    s->n_valid++;
    bn_json_put_bool(r, "valid", true);
    bn_bench_put_summary(r, row->metric, samples, n);
    struct bn_series series = {
        .test = row->test, .metric = row->metric, .unit = "ns", .samples = samples, .n = n};
    return bn_series_add(&s->series, &series, err);
}

bn_status bn_suite_put_samples(struct bn_suite *s, struct bn_suite_row *row, uint64_t calls,
                               const uint64_t *ns, size_t n, bn_json *r, bn_error *err)
{
    char text[160];
    const char *why = NULL;
    double *whole = bn_alloc(2 * n, sizeof *whole);
    if (whole == NULL) return bn_nomem(err);
    double *samples = whole + n;
    struct bn_bench_claim claim = {.sample_ns = whole, .n = n};
    bn_json_put_u64(r, "calls_per_sample", calls);
    bn_json *raw = bn_json_put_array(r, "samples_ns");
    for (size_t i = 0; i < n; i++) {
        bn_json_add_u64(raw, ns[i]);
        whole[i] = (double)ns[i];
        samples[i] = (double)ns[i] / (double)calls / row->per_call;
    }
    bn_status status = BN_OK;
    if (bn_summarize(&row->ns, samples, n))
        status = find_limit(s, row, row->ns.median * row->per_call, &claim, err);
    if (row->differs != NULL) why = row->differs(text, row->arg);
    if (why == NULL) why = bn_bench_refuses(text, &claim, &s->clock);
    if (status == BN_OK && why != NULL)
        bn_suite_refuse(s, row, r, why);
    else if (status == BN_OK)
        status = accept(s, row, samples, n, r, err);
    bn_free(whole);
    return status;
}

bn_status bn_suite_time(struct bn_suite *s, struct bn_suite_row *row, const struct bn_bench_body *body,
                        bn_json *r, bn_error *err)
{
    BN_TRY(bn_bench_time_body(&s->times, body, row->n_threads, s->min_ns, err));
    return bn_suite_put_samples(s, row, s->times.calls, s->times.ns, s->times.n, r, err);
}

bn_status bn_suite_put_exact(struct bn_suite *s, const char *test, const char *metric, const char *unit,
                             double value, bn_json *r, bn_error *err)
{
    struct bn_series series = {
        .test = test, .metric = metric, .unit = unit, .exact = true, .samples = &value, .n = 1};
    bn_json_put_number(r, metric, value);
    return bn_series_add(&s->series, &series, err);
}

void bn_suite_state(struct bn_suite *s, bn_json *r, const char *name, bool truth)
{
    bn_json_put_bool(r, name, truth);
    if (truth)
        s->n_valid++;
    else
        s->n_failed++;
}

/* ---- text ---- */

void bn_suite_print(const struct bn_suite *s, const char *fmt, ...)
{
    va_list ap;
    if (s->args->json) return;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    fflush(stdout);
}

bn_status bn_suite_flush(struct bn_suite *s, bn_error *err)
{
    struct bn_table table = s->table;
    s->table = (struct bn_table){0};
    if ((table.n_rows > 0 || table.failed) && !s->args->json) {
        putchar('\n');
        return bn_bench_print_table(&table, err);
    }
    bn_table_release(&table);
    return BN_OK;
}

bn_status bn_suite_table(struct bn_suite *s, const char *const *heads, const char *align, bn_error *err)
{
    BN_TRY(bn_suite_flush(s, err));
    bn_table_begin(&s->table, heads, align);
    return BN_OK;
}

void bn_suite_put_row(struct bn_suite *s, const struct bn_suite_row *row)
{
    bn_table_row(&s->table, "");
    bn_table_text(&s->table, row->test);
    if (!row->valid) {
        bn_table_text(&s->table, "INVALID");
        return;
    }
    bn_table_value(&s->table, row->ns.median, "ns");
    bn_table_percent(&s->table, row->ns.mad / row->ns.median, false);
}
