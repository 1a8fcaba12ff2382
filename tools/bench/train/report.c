/* SPDX-License-Identifier: MIT
 *
 * bn-bench train: the results as members of the document and as tables.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tools/bench/train/train.h"

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
    bn_json_put_number(o, "flop", bn_train_phase_share(phase) * r->flop * r->batch);
    if (bn_bench_implausible(why, *median_share)[0] != '\0') bn_json_put_string(o, "implausible", why);
    bn_free(rates);
    return BN_OK;
}

static void put_row(struct bn_harness *s, const struct bn_harness_row *row, const uint64_t *ns, size_t n,
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

/* What the process said of its run, and the samples that explain the times. The time that threads wait for others at the end
 * of the passes may be 0. */
static bn_status put_run(struct bn_harness *s, const struct bn_train_result *r, bn_json *o, bool valid,
                         bn_error *err)
{
    static const char *const COPIED[] = {"library", "settings", "parameters", "flop_per_token"};
    static const char *const SERIES[] = {"wait_ns_per_step", "loss", "peak_flop_per_second"};
    bn_status status = BN_OK;
    for (size_t i = 0; i < BN_ARRAY_LEN(COPIED); i++)
        bn_json_put_copy(o, COPIED[i], bn_json_get(r->trainee.run, COPIED[i]));
    bn_json_put_copy(o, "weights_sha256", bn_json_get(r->trainee.end, "weights_sha256"));
    double *x = bn_alloc(r->n, sizeof *x);
    if (x == NULL) return bn_nomem(err);
    for (size_t k = 0; k < BN_ARRAY_LEN(SERIES) && valid && status == BN_OK; k++) {
        for (size_t i = 0; i < r->n; i++) {
            const struct bn_train_sample *sample = &r->samples[i];
            x[i] = k == 0   ? (double)bn_train_phase_ns(&sample->step, BN_PHASE_WAIT, r->n_threads)
                   : k == 1 ? sample->step.loss
                            : sample->peak;
        }
        status = bn_metric_add(&s->series, bn_json_text_of(o, "name"), SERIES[k], x, r->n, r->n_warmup, err);
    }
    bn_free(x);
    return status;
}

static bn_status put_phase(struct bn_harness *s, struct bn_train_result *r, enum bn_train_phase phase,
                           bn_error *err)
{
    char test[96];
    size_t n = r->n - r->n_warmup;
    double rate = (double)NAN, share = (double)NAN;
    uint64_t *ns = bn_alloc(r->n, sizeof *ns), *counted = ns + r->n_warmup;
    if (ns == NULL) return bn_nomem(err);
    for (size_t i = 0; i < r->n; i++)
        ns[i] = bn_train_phase_ns(&r->samples[i].step, phase, r->n_threads);
    snprintf(test, sizeof test, "%s %s", bn_phase_names[phase], r->name);
    struct bn_harness_row row = {.test = test,
                                 .metric = "ns_per_step",
                                 .per_call = 1,
                                 .n_threads = r->n_threads,
                                 .n_warmup = r->n_warmup,
                                 .differs = differs,
                                 .arg = r};
    bn_json *o = bn_harness_test(s, test);
    bn_json_put_u64(o, "context", r->context);
    bn_json_put_u64(o, "batch", r->batch);
    bn_json_put_u64(o, "threads", r->n_threads);
    (void)bn_harness_wants(s, test);
    bn_status status = bn_harness_put_samples(s, &row, 1, ns, r->n, o, err);
    if (status == BN_OK && row.valid && bn_train_phase_share(phase) > 0)
        status = put_rates(o, r, phase, counted, &rate, &share, err);
    if (status == BN_OK) put_row(s, &row, counted, n, rate, share);
    if (status == BN_OK && phase == BN_PHASE_STEP) status = put_run(s, r, o, row.valid, err);
    if (phase == BN_PHASE_STEP) {
        r->valid = row.valid;
        r->ns = row.valid ? row.ns.median : (double)NAN;
    }
    bn_free(ns);
    return status;
}

/* Bytes by purpose. The number of gradient buffers depends on which thread is first. */
static bn_status put_memory(struct bn_harness *s, const struct bn_train_result *r, bn_error *err)
{
    static const char *const KINDS[] = {"masters_bytes",     "moments_bytes",   "ternary_bytes",
                                        "activations_bytes", "gradients_bytes", "peak_rss_bytes"};
    const bn_json *memory = bn_json_get(r->trainee.end, "memory");
    char test[96];
    snprintf(test, sizeof test, "memory %s", r->name);
    bn_harness_judge(s, bn_harness_test(s, test), BN_BENCH_VALID, NULL);
    for (size_t i = 0; i < BN_ARRAY_LEN(KINDS); i++) {
        double bytes = bn_json_number_of(memory, KINDS[i]);
        if (!(bytes > 0)) return bn_fail_in(err, BN_ERR_FORMAT, "bn-train", "the memory has no %s", KINDS[i]);
        BN_TRY(bn_harness_put_value(s, test, KINDS[i], bytes, err));
    }
    return BN_OK;
}

static bn_status put_result(struct bn_harness *s, struct bn_train_result *r, bn_error *err)
{
    for (enum bn_train_phase phase = 0; phase < BN_PHASES; phase++)
        if (phase != BN_PHASE_WAIT) BN_TRY(put_phase(s, r, phase, err));
    return put_memory(s, r, err);
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

static void put_pair(struct bn_harness *s, const struct bn_train_result *r,
                     const struct bn_train_result *base, const char *by)
{
    double ratio = size_of(r, by) / size_of(base, by);
    double speedup = (r->batch / r->ns) / (base->batch / base->ns);
    bn_table_row(&s->table, "");
    bn_table_text(&s->table, r->name);
    bn_table_printf(&s->table, "%s x %.3g", by, ratio);
    bn_table_printf(&s->table, "%.3f", speedup);
    if (by[0] == 't')
        bn_table_percent(&s->table, speedup / ratio, false);
    else
        bn_table_text(&s->table, "-");
}

/* Each result with the first one that differs from it in one dimension only. */
static bn_status put_scaling(struct bn_harness *s, const struct bn_train_result *list, size_t n,
                             bn_error *err)
{
    static const char *const HEADS[] = {"scaling", "by", "rate x", "efficiency"};
    static const char *const BY[] = {"threads", "batch", "context"};
    BN_TRY(bn_harness_table(s, HEADS, "llrr", err));
    for (size_t d = 0; d < BN_ARRAY_LEN(BY); d++)
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < i; k++) {
                const char *by = differ_in(&list[i], &list[k]);
                if (by == NULL || strcmp(by, BY[d]) != 0) continue;
                if (list[i].valid && list[k].valid) put_pair(s, &list[i], &list[k], by);
                break;
            }
    return bn_harness_flush(s, err);
}

/* ---- tables ---- */

static bn_status print_rates(struct bn_harness *s, const struct bn_train_result *list, size_t n,
                             bn_error *err)
{
    static const char *const HEADS[] = {"rate", "tok/s", "a thread", "wait", "optimiser"};
    BN_TRY(bn_harness_table(s, HEADS, "lrrrr", err));
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
    return bn_harness_flush(s, err);
}

static bn_status print_memory(struct bn_harness *s, const struct bn_train_result *list, size_t n,
                              bn_error *err)
{
    static const char *const HEADS[] = {"memory, MiB", "masters", "moments", "ternary",
                                        "grads",       "passes",  "peak"};
    static const char *const NAMES[] = {"memory.masters_bytes",     "memory.moments_bytes",
                                        "memory.ternary_bytes",     "memory.gradients_bytes",
                                        "memory.activations_bytes", "memory.peak_rss_bytes"};
    BN_TRY(bn_harness_table(s, HEADS, "lrrrrrr", err));
    for (size_t i = 0; i < n; i++) {
        bn_table_row(&s->table, "");
        bn_table_text(&s->table, list[i].name);
        for (size_t k = 0; k < BN_ARRAY_LEN(NAMES); k++)
            bn_table_printf(&s->table, "%.1f", bn_json_number_of(list[i].trainee.end, NAMES[k]) / 0x1p20);
    }
    return bn_harness_flush(s, err);
}

bn_status bn_train_report(struct bn_harness *s, struct bn_train_result *list, size_t n, bn_error *err)
{
    static const char *const HEADS[] = {"a step", "median", "p95", "rate", "of peak", ""};
    const char *name = bn_json_text_of(list[0].trainee.run, "library.name");
    size_t words = strcspn(name, " "); /* name and version */
    if (name[words] == ' ') words += 1 + strcspn(name + words + 1, " ");
    bn_harness_print(s, "products %.*s, %s\n", (int)words, name,
                     bn_json_text_of(list[0].trainee.run, "library.core"));
    BN_TRY(bn_harness_table(s, HEADS, "lrrrrn", err));
    for (size_t i = 0; i < n; i++)
        BN_TRY(put_result(s, &list[i], err));
    BN_TRY(print_rates(s, list, n, err));
    BN_TRY(print_memory(s, list, n, err));
    return put_scaling(s, list, n, err);
}
