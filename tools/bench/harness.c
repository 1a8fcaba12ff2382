/* SPDX-License-Identifier: MIT
 *
 * What the commands that measure share. The document is always built; --json decides whether it or the text is printed.
 */
#include "tools/bench/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "model/model.h"
#include "mpi/ranks.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"
#include "tools/cli/text.h"

const struct bn_option bn_bench_harness_options[] = {
    BN_OPTION("filter", "only rows with this text in their first columns", .arg = "PART",
              .group = "Measurement", BN_TO_TEXT(struct bn_bench_options, filter)),
    BN_OPTION("min-time", "time per row; at least three samples are taken", .arg = "SECONDS",
              .group = "Measurement", .preset = "0.1", BN_TO_F64(struct bn_bench_options, min_time, 0, 3600)),
    BN_BENCH_THREADS,
    {0},
};

void bn_harness_begin(struct bn_harness *h, struct bn_args *args, const char *command)
{
    *h = (struct bn_harness){.args = args, .o = args->fields, .matched = true};
    bn_machine_read(&h->machine);
    bn_busy_read(&h->before);
    bn_clock_measure(&h->clock, NULL, NULL, 1);
    h->doc = bn_bench_document(command, &h->machine);
    h->settings = bn_json_put_object(h->doc, "settings");
    bn_json *clock = bn_json_put_object(h->doc, "clock");
    bn_json_put_string(clock, "name", "CLOCK_MONOTONIC");
    BN_PUT_COUNTS(clock, {"step_ns", (uint64_t)h->clock.resolution_ns},
                  {"cost_ns", (uint64_t)h->clock.cost_ns}, {"backward_steps", h->clock.n_backward});
    h->tests = bn_json_put_array(h->doc, "tests");
}

bn_status bn_harness_open(struct bn_harness *h, struct bn_args *args, const char *command, bn_error *err)
{
    /* kernels take only the shapes of a model, and train makes its own. */
    bool opens_model = strcmp(command, "kernels") != 0 && strcmp(command, "train") != 0;
    bn_model *model = NULL;
    *h = (struct bn_harness){.args = args, .o = args->fields};
    BN_TRY(bn_bench_threads(&h->o->threads, err));
    /* The rows that need the model come last, so it is tried first. */
    if (opens_model)
        BN_TRY(bn_cli_open_model(&model, args, &(bn_model_options){.repack = BN_REPACK_NEVER}, err));
    bn_model_close(model);
    bn_harness_begin(h, args, command);
    h->matched = false;
    h->min_ns = (uint64_t)(h->o->min_time * 1e9);
    h->limits.budget_ns = h->min_ns < 50000000u ? h->min_ns : 50000000u;
    if (opens_model || args->model != NULL) h->model = bn_cli_put_model(h->doc, args);
    BN_PUT_STRINGS(h->settings, {"model", args->model}, {"filter", h->o->filter});
    bn_json_put_u64(h->settings, "min_time_ns", h->min_ns);
    bn_bench_put_list(h->settings, "threads", &h->o->threads);
    if (!args->json) bn_bench_print_machine(&h->machine);
    return BN_OK;
}

void bn_harness_sampled(struct bn_harness *h)
{
    /* The other ranks of this machine would count as others. */
    if (bn_ranks_told() > 1)
        h->others.why = "unknown with several ranks";
    else
        h->others = bn_bench_others(&h->before);
    bn_others_put(h->doc, &h->others);
    h->sampled = true;
}

static bn_status conclude(struct bn_harness *h, bn_error *err)
{
    if (!h->matched)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "--filter: no row has '%.60s' in its name", h->o->filter),
                       err, "use a part of what the first columns show");
    if (!h->sampled) bn_harness_sampled(h);
    bn_cli_put_device(h->doc, &h->machine);
    if (h->limits.n > 0) bn_bench_limits_put(bn_json_put_array(h->doc, "limits"), &h->limits);
    bn_series_put(h->doc, &h->series);
    if (h->n_invalid > 0 || h->n_valid == 0) h->args->exit_code = BN_EXIT_NEGATIVE;
    return h->args->json ? bn_cli_print_json(h->doc, err) : BN_OK;
}

bn_status bn_harness_finish(struct bn_harness *h, bn_status status, bn_error *err)
{
    bn_status printed = bn_harness_flush(h, status == BN_OK ? err : NULL);
    if (status == BN_OK) status = printed;
    if (status == BN_OK) status = conclude(h, err);
    bn_json_free(h->doc);
    bn_series_release(&h->series);
    bn_bench_limits_release(&h->limits);
    return status;
}

bn_status bn_harness_choose_isas(struct bn_harness *h, bn_error *err)
{
    const char *name = h->o->isa;
    if (strcmp(name, "all") != 0) {
        BN_TRY(bn_isa_select(name, err));
        h->n_isas = 1;
        return bn_isa_kernels(&h->isas[0], err);
    }
    for (size_t i = 0; bn_kernels_built(i) != NULL && h->n_isas < BN_HARNESS_ISAS; i++)
        if (bn_kernels_supported(bn_kernels_built(i))) h->isas[h->n_isas++] = bn_kernels_built(i);
    return BN_OK;
}

bool bn_harness_is_repeated(const struct bn_harness *h, size_t isa, enum bn_kernel slot)
{
    for (size_t i = 0; i < isa; i++)
        if (strcmp(h->isas[i]->name[slot], h->isas[isa]->name[slot]) == 0) return true;
    return false;
}

bn_status bn_harness_read_text(const bn_model *model, const char *path, size_t most, int32_t **ids, size_t *n,
                               char sha256[BN_SHA256_HEX], bn_error *err)
{
    struct bn_buf text = {.max = 1u << 30};
    const bn_tokenizer *tok = NULL;
    bn_status status = bn_cli_tokenizer(model, &tok, err);
    if (status == BN_OK && strcmp(path, BN_HARNESS_TEXT) != 0)
        status = bn_file_read(path, &text, err);
    else
        bn_buf_append(&text, bn_validation_text, (size_t)bn_validation_text_bytes);
    if (status == BN_OK) status = bn_buf_check(&text, err);
    if (status == BN_OK && sha256 != NULL) bn_sha256_hex(bn_buf_text(&text), text.len, sha256);
    if (status == BN_OK)
        status = bn_tokenize(tok, bn_buf_text(&text), text.len, BN_TOKENIZE_BOS, ids, n, err);
    bn_buf_release(&text);
    *n = bn_min_size(*n, most);
    if (status == BN_OK && *n < 2)
        status = bn_fail_in(err, BN_ERR_ARG, path, "%zu token%s, at least 2 are needed", *n, bn_cli_s(*n));
    return status;
}

bool bn_harness_wants(struct bn_harness *h, const char *name)
{
    const char *part = h->o->filter;
    bool wanted = part == NULL || bn_test_has(name, part);
    h->matched = h->matched || wanted;
    return wanted;
}

/* ---- tests ---- */

bn_json *bn_harness_test(struct bn_harness *h, const char *name)
{
    bn_json *test = bn_json_add_object(h->tests);
    bn_json_put_string(test, "name", name);
    return test;
}

void bn_harness_judge(struct bn_harness *h, bn_json *test, enum bn_bench_verdict verdict, const char *reason)
{
    static const char *const NAMES[] = {"valid", "invalid", "timeout", "skipped"};
    const char *said = bn_json_text_of(test, "verdict");
    char name[BN_TEST_ROOM];
    h->n_valid += verdict == BN_BENCH_VALID;
    h->n_invalid += verdict == BN_BENCH_INVALID || verdict == BN_BENCH_TIMEOUT;
    if (verdict == BN_BENCH_INVALID)
        bn_report_warning("INVALID: %s: %s", bn_test_name(name, bn_json_text_of(test, "name")), reason);
    if (said[0] != '\0' && strcmp(said, "valid") != 0) return;
    bn_json_remove(test, "verdict");
    bn_json_put_string(test, "verdict", NAMES[verdict]);
    if (verdict != BN_BENCH_VALID) bn_json_put_string(test, "reason", reason);
}

void bn_harness_skip(struct bn_harness *h, const char *name, const char *why)
{
    bn_harness_judge(h, bn_harness_test(h, name), BN_BENCH_SKIPPED, why);
}

void bn_harness_state(struct bn_harness *h, bn_json *test, const char *name, bool truth)
{
    char reason[80];
    snprintf(reason, sizeof reason, "%s is false", name);
    bn_json_put_bool(test, name, truth);
    bn_harness_judge(h, test, truth ? BN_BENCH_VALID : BN_BENCH_INVALID, reason);
}

/* ---- rows ---- */

/* The rate of reading, and its limit. A limit that other work disturbed would be too low, so it is measured
 * again before a row is refused. */
static bn_status find_limit(struct bn_harness *h, const struct bn_harness_row *row, double ns_per_call,
                            struct bn_bench_claim *claim, bn_error *err)
{
    if (row->set_bytes == 0) return BN_OK;
    claim->rate = row->read_bytes * 1e9 / ns_per_call;
    BN_TRY(bn_bench_limits_read(&h->limits, row->set_bytes, row->n_threads, false, &claim->limit, err));
    for (unsigned i = 0; i < 3 && bn_bench_above_limit(claim); i++)
        BN_TRY(bn_bench_limits_read(&h->limits, row->set_bytes, row->n_threads, true, &claim->limit, err));
    return BN_OK;
}

bn_status bn_harness_put_samples(struct bn_harness *h, struct bn_harness_row *row, uint64_t calls,
                                 const uint64_t *ns, size_t n, bn_json *test, bn_error *err)
{
    char text[160];
    const char *why = NULL;
    size_t w = row->n_warmup;
    double *whole = bn_alloc(2 * n, sizeof *whole);
    if (whole == NULL) return bn_nomem(err);
    double *samples = whole + n;
    struct bn_bench_claim claim = {.sample_ns = whole + w, .n = n - w};
    if (calls > 1) bn_json_put_u64(test, "calls", calls);
    for (size_t i = 0; i < n; i++) {
        whole[i] = (double)ns[i];
        samples[i] = (double)ns[i] / (double)calls / row->per_call;
    }
    bn_status status = BN_OK;
    if (bn_summarize(&row->ns, samples + w, n - w))
        status = find_limit(h, row, row->ns.median * row->per_call, &claim, err);
    if (row->differs != NULL) why = row->differs(text, row->arg);
    if (why == NULL) why = bn_bench_refuses(text, &claim, &h->clock);
    row->valid = status == BN_OK && why == NULL;
    if (status == BN_OK) bn_harness_judge(h, test, row->valid ? BN_BENCH_VALID : BN_BENCH_INVALID, why);
    if (row->valid) status = bn_metric_add(&h->series, row->test, row->metric, samples, n, w, err);
    bn_free(whole);
    return status;
}

bn_status bn_harness_time(struct bn_harness *h, struct bn_harness_row *row, const struct bn_bench_body *body,
                          bn_json *test, bn_error *err)
{
    BN_TRY(bn_bench_time_body(&h->times, body, row->n_threads, h->min_ns, err));
    return bn_harness_put_samples(h, row, h->times.calls, h->times.ns, h->times.n, test, err);
}

bn_status bn_harness_put_value(struct bn_harness *h, const char *test, const char *metric, double value,
                               bn_error *err)
{
    return bn_metric_add(&h->series, test, metric, &value, 1, 0, err);
}

/* ---- text ---- */

void bn_harness_print(const struct bn_harness *h, const char *fmt, ...)
{
    va_list ap;
    if (h->args->json) return;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    fflush(stdout);
}

bn_status bn_harness_flush(struct bn_harness *h, bn_error *err)
{
    struct bn_table table = h->table;
    h->table = (struct bn_table){0};
    if (h->args != NULL && !h->args->json) return bn_bench_print_rows(&table, err);
    bn_table_release(&table);
    return BN_OK;
}

bn_status bn_harness_table(struct bn_harness *h, const char *const *heads, const char *align, bn_error *err)
{
    BN_TRY(bn_harness_flush(h, err));
    bn_table_begin(&h->table, heads, align);
    h->table.side_by_side = true;
    return BN_OK;
}

void bn_harness_put_row(struct bn_harness *h, const struct bn_harness_row *row)
{
    bn_table_row(&h->table, "");
    bn_table_test(&h->table, "", row->test);
    if (!row->valid) {
        bn_table_text(&h->table, "INVALID");
        return;
    }
    bn_table_value(&h->table, row->ns.median, "ns");
    bn_table_percent(&h->table, row->ns.mad / row->ns.median, false);
}
