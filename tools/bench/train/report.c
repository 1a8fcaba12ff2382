/* SPDX-License-Identifier: MIT
 *
 * bn-bench train: the results as members of the document and as tables.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tools/bench/train/train.h"

#define NO_PEAK "there is no loop that measures the float peak of this instruction set"

/* ---- a phase ---- */

static const char *differs(char why[160], const void *arg)
{
    return bn_train_refuses(why, arg);
}

static double rate_of(const struct bn_train_result *r, enum bn_train_phase phase, uint64_t ns)
{
    return bn_train_phase_share(phase) * r->flop * r->batch * 1e9 / (double)(ns > 0 ? ns : 1);
}

/* Operations a second, and their share of the peak of the round. */
static bn_status put_rates(bn_json *o, const struct bn_train_result *r, enum bn_train_phase phase,
                           const uint64_t *ns, double *median_rate, double *median_share, bn_error *err)
{
    char why[BN_BENCH_REASON];
    size_t n = r->n - r->n_warmup;
    double *rates = bn_alloc(2 * n, sizeof *rates);
    if (rates == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++) {
        double peak = r->samples[r->n_warmup + i].peak;
        rates[i] = rate_of(r, phase, ns[i]);
        rates[n + i] = peak > 0 ? rates[i] / peak : (double)NAN;
    }
    *median_rate = bn_median(rates, n);
    *median_share = r->most_peak > 0 ? bn_median(rates + n, n) : (double)NAN;
    bn_bench_put_summary(o, "flop_per_second", rates, n);
    if (r->most_peak > 0)
        bn_bench_put_summary(o, "share_of_peak", rates + n, n);
    else
        bn_json_put_unavailable(o, "share_of_peak", NO_PEAK);
    bn_json_put_known(o, "implausible", bn_bench_implausible(why, *median_share), "there is none");
    bn_free(rates);
    return BN_OK;
}

static void put_row(struct bn_suite *s, const struct bn_suite_row *row, const uint64_t *ns, size_t n,
                    double rate, double share)
{
    char note[BN_BENCH_REASON];
    double p95 = (double)NAN, *samples = bn_alloc(n, sizeof *samples);
    for (size_t i = 0; i < n && samples != NULL; i++)
        samples[i] = (double)ns[i];
    if (samples == NULL || !bn_quantile(&p95, samples, n, 0.95)) p95 = (double)NAN;
    bn_free(samples);
    bn_table_row(&s->table, row->valid ? "" : "bad");
    bn_table_text(&s->table, row->test);
    if (!row->valid) {
        bn_table_text(&s->table, "INVALID");
        return;
    }
    bn_table_value(&s->table, row->ns.median, "ns");
    bn_table_value(&s->table, p95, "ns");
    bn_table_value(&s->table, rate, "FLOP/s");
    if (isnan(share))
        bn_table_text(&s->table, "-");
    else
        bn_table_percent(&s->table, share, false);
    if (bn_bench_implausible(note, share)[0] != '\0') bn_table_printf(&s->table, "implausible: %s", note);
}

static bn_status put_phase(struct bn_suite *s, struct bn_train_result *r, enum bn_train_phase phase,
                           bn_json *list, bn_error *err)
{
    char test[96];
    size_t n = r->n - r->n_warmup;
    double rate = (double)NAN, share = (double)NAN;
    uint64_t *ns = bn_alloc(n, sizeof *ns);
    if (ns == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++)
        ns[i] = bn_train_phase_ns(&r->samples[r->n_warmup + i].step, phase, r->n_threads);
    snprintf(test, sizeof test, "%s %s", bn_phase_names[phase], r->name);
    struct bn_suite_row row = {.test = test,
                               .metric = "ns_per_step",
                               .per_call = 1,
                               .n_threads = r->n_threads,
                               .differs = differs,
                               .arg = r};
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "phase", bn_phase_names[phase]);
    bn_json_put_string(o, "test", test);
    (void)bn_suite_wants(s, test);
    bn_status status = bn_suite_put_samples(s, &row, 1, ns, n, o, err);
    if (status == BN_OK && row.valid && bn_train_phase_share(phase) > 0)
        status = put_rates(o, r, phase, ns, &rate, &share, err);
    if (status == BN_OK) put_row(s, &row, ns, n, rate, share);
    if (phase == BN_PHASE_STEP) {
        r->valid = row.valid;
        r->ns = row.valid ? row.ns.median : (double)NAN;
    }
    bn_free(ns);
    return status;
}

/* ---- a result ---- */

static void put_samples(bn_json *o, const struct bn_train_result *r)
{
    bn_json *list = bn_json_put_array(o, "samples");
    for (size_t i = 0; i < r->n; i++) {
        const struct bn_trainee_step *step = &r->samples[i].step;
        bn_json *e = bn_json_add_object(list);
        bn_json_put_u64(e, "round", i);
        bn_json_put_bool(e, "warmup", i < r->n_warmup);
        bn_json_put_u64(e, "ns", step->ns);
        bn_json_put_u64(e, "forward_ns", step->forward_ns);
        bn_json_put_u64(e, "backward_ns", step->backward_ns);
        bn_json_put_u64(e, "reduce_ns", step->reduce_ns);
        bn_json_put_u64(e, "passes_ns", step->passes_ns);
        bn_json_put_u64(e, "optimiser_ns", step->optimiser_ns);
        bn_json_put_finite(e, "loss", step->loss, "it is not finite");
        bn_json_put_finite(e, "peak_flop_per_second",
                           r->samples[i].peak > 0 ? r->samples[i].peak : (double)NAN, NO_PEAK);
    }
}

/* The time that threads wait for others at the end of the passes: no row, because it may be 0. */
static void put_wait(bn_json *o, const struct bn_train_result *r)
{
    size_t n = r->n - r->n_warmup;
    double *ns = bn_alloc(n, sizeof *ns);
    for (size_t i = 0; i < n && ns != NULL; i++)
        ns[i] = (double)bn_train_phase_ns(&r->samples[r->n_warmup + i].step, BN_PHASE_WAIT, r->n_threads);
    if (ns != NULL) bn_bench_put_summary(o, "wait_ns_per_step", ns, n);
    bn_free(ns);
}

static bn_status put_tokens(bn_json *o, const struct bn_train_result *r, bn_error *err)
{
    size_t n = r->n - r->n_warmup;
    double *rates = bn_alloc(n, sizeof *rates);
    if (rates == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++)
        rates[i] = r->batch * 1e9 / (double)(r->samples[r->n_warmup + i].step.ns + 1);
    bn_bench_put_summary(o, "tokens_per_second", rates, n);
    bn_free(rates);
    return BN_OK;
}

/* Bytes by purpose. The number of gradient buffers depends on which thread is first. */
static bn_status put_memory(struct bn_suite *s, bn_json *o, const struct bn_train_result *r, bn_error *err)
{
    static const struct {
        const char *name;
        bool exact;
    } KINDS[] = {{"masters_bytes", true},     {"moments_bytes", true},    {"ternary_bytes", true},
                 {"activations_bytes", true}, {"gradients_bytes", false}, {"peak_rss_bytes", false}};
    const bn_json *memory = bn_json_get(r->trainee.end, "memory");
    char test[96];
    o = bn_json_put_object(o, "memory");
    snprintf(test, sizeof test, "memory %s", r->name);
    for (size_t i = 0; i < BN_ARRAY_LEN(KINDS); i++) {
        double bytes = bn_json_number_of(memory, KINDS[i].name);
        if (!(bytes > 0))
            return bn_fail_in(err, BN_ERR_FORMAT, "bn-train", "the memory has no %s", KINDS[i].name);
        struct bn_series series = {.test = test,
                                   .metric = KINDS[i].name,
                                   .unit = "bytes",
                                   .exact = KINDS[i].exact,
                                   .samples = &bytes,
                                   .n = 1};
        bn_json_put_number(o, KINDS[i].name, bytes);
        BN_TRY(bn_series_add(&s->series, &series, err));
    }
    return BN_OK;
}

static bn_status put_result(struct bn_suite *s, struct bn_train_result *r, bn_json *all, bn_error *err)
{
    static const char *const COPIED[] = {"library", "settings", "parameters", "flop_per_token"};
    bn_json *o = bn_json_add_object(all);
    bn_json_put_string(o, "name", r->name);
    bn_json_put_u64(o, "context", r->context);
    bn_json_put_u64(o, "batch", r->batch);
    bn_json_put_u64(o, "threads", r->n_threads);
    for (size_t i = 0; i < BN_ARRAY_LEN(COPIED); i++)
        bn_json_put_copy(o, COPIED[i], bn_json_get(r->trainee.run, COPIED[i]));
    put_samples(o, r);
    bn_json *phases = bn_json_put_array(o, "phases");
    for (enum bn_train_phase phase = 0; phase < BN_PHASES; phase++)
        if (phase != BN_PHASE_WAIT) BN_TRY(put_phase(s, r, phase, phases, err));
    put_wait(o, r);
    if (r->valid)
        BN_TRY(put_tokens(o, r, err));
    else
        bn_json_put_unavailable(o, "tokens_per_second", "the result is invalid");
    bn_json_put_copy(o, "weights_sha256", bn_json_get(r->trainee.end, "weights_sha256"));
    return put_memory(s, o, r, err);
}

/* ---- scaling ---- */

/* Whether two results differ in one dimension only, and its name. */
static const char *differ_in(const struct bn_train_result *a, const struct bn_train_result *b)
{
    bool shape = memcmp(&a->shape, &b->shape, sizeof a->shape) != 0, context = a->context != b->context,
         batch = a->batch != b->batch, threads = a->n_threads != b->n_threads;
    if (shape + context + batch + threads != 1) return NULL;
    return threads ? "threads" : batch ? "batch" : context ? "context" : NULL;
}

static double size_of(const struct bn_train_result *r, const char *by)
{
    return by[0] == 't' ? r->n_threads : by[0] == 'b' ? r->batch : r->context;
}

static void put_pair(struct bn_suite *s, const struct bn_train_result *r, const struct bn_train_result *base,
                     const char *by, bn_json *list)
{
    double ratio = size_of(r, by) / size_of(base, by);
    double speedup = (r->batch / r->ns) / (base->batch / base->ns);
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "by", by);
    bn_json_put_string(o, "name", r->name);
    bn_json_put_string(o, "base", base->name);
    bn_json_put_number(o, "ratio", ratio);
    bn_json_put_number(o, "speedup", speedup);
    bn_table_row(&s->table, "");
    bn_table_text(&s->table, r->name);
    bn_table_printf(&s->table, "%s x %.3g", by, ratio);
    bn_table_printf(&s->table, "%.3f", speedup);
    if (by[0] == 't') {
        bn_json_put_number(o, "efficiency", speedup / ratio);
        bn_table_percent(&s->table, speedup / ratio, false);
    } else {
        bn_table_text(&s->table, "-");
    }
}

/* Each result with the first one that differs from it in one dimension only. */
static bn_status put_scaling(struct bn_suite *s, const struct bn_train_result *list, size_t n, bn_error *err)
{
    static const char *const HEADS[] = {"scaling", "by", "rate x", "efficiency"};
    static const char *const BY[] = {"threads", "batch", "context"};
    bn_json *all = bn_json_put_array(s->doc, "scaling");
    BN_TRY(bn_suite_table(s, HEADS, "llrr", err));
    for (size_t d = 0; d < BN_ARRAY_LEN(BY); d++)
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < i; k++) {
                const char *by = differ_in(&list[i], &list[k]);
                if (by == NULL || strcmp(by, BY[d]) != 0) continue;
                if (list[i].valid && list[k].valid) put_pair(s, &list[i], &list[k], by, all);
                break;
            }
    return bn_suite_flush(s, err);
}

/* ---- tables ---- */

static bn_status print_rates(struct bn_suite *s, const struct bn_train_result *list, size_t n, bn_error *err)
{
    static const char *const HEADS[] = {"rate", "tok/s", "a thread", "wait", "optimiser"};
    BN_TRY(bn_suite_table(s, HEADS, "lrrrr", err));
    for (size_t i = 0; i < n; i++) {
        const struct bn_train_result *r = &list[i];
        double wait = 0, optimiser = 0, all = 0, rate = r->batch * 1e9 / r->ns;
        for (size_t k = r->n_warmup; k < r->n; k++) {
            wait += (double)bn_train_phase_ns(&r->samples[k].step, BN_PHASE_WAIT, r->n_threads);
            optimiser += (double)r->samples[k].step.optimiser_ns;
            all += (double)r->samples[k].step.ns;
        }
        if (!r->valid) continue;
        bn_table_row(&s->table, "");
        bn_table_text(&s->table, r->name);
        bn_table_printf(&s->table, "%.0f", rate);
        bn_table_printf(&s->table, "%.0f", rate / r->n_threads);
        bn_table_percent(&s->table, wait / all, false);
        bn_table_percent(&s->table, optimiser / all, false);
    }
    return bn_suite_flush(s, err);
}

static bn_status print_memory(struct bn_suite *s, const struct bn_train_result *list, size_t n, bn_error *err)
{
    static const char *const HEADS[] = {"memory, MiB", "masters", "moments", "ternary",
                                        "grads",       "passes",  "peak"};
    static const char *const NAMES[] = {"memory.masters_bytes",     "memory.moments_bytes",
                                        "memory.ternary_bytes",     "memory.gradients_bytes",
                                        "memory.activations_bytes", "memory.peak_rss_bytes"};
    BN_TRY(bn_suite_table(s, HEADS, "lrrrrrr", err));
    for (size_t i = 0; i < n; i++) {
        bn_table_row(&s->table, "");
        bn_table_text(&s->table, list[i].name);
        for (size_t k = 0; k < BN_ARRAY_LEN(NAMES); k++)
            bn_table_printf(&s->table, "%.1f", bn_json_number_of(list[i].trainee.end, NAMES[k]) / 0x1p20);
    }
    return bn_suite_flush(s, err);
}

bn_status bn_train_report(struct bn_suite *s, struct bn_train_result *list, size_t n, bn_error *err)
{
    static const char *const HEADS[] = {"a step", "median", "p95", "rate", "of peak", ""};
    bn_json *all = bn_json_put_array(s->doc, "results");
    const char *name = bn_json_text_of(list[0].trainee.run, "library.name");
    size_t words = strcspn(name, " "); /* name and version */
    if (name[words] == ' ') words += 1 + strcspn(name + words + 1, " ");
    bn_suite_print(s, "products %.*s, %s\n", (int)words, name,
                   bn_json_text_of(list[0].trainee.run, "library.core"));
    BN_TRY(bn_suite_table(s, HEADS, "lrrrrn", err));
    for (size_t i = 0; i < n; i++)
        BN_TRY(put_result(s, &list[i], all, err));
    BN_TRY(print_rates(s, list, n, err));
    BN_TRY(print_memory(s, list, n, err));
    return put_scaling(s, list, n, err);
}
