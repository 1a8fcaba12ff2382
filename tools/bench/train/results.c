/* SPDX-License-Identifier: MIT
 *
 * bn-bench train: checks of the times of training steps (sums, results, the float peak), and the results in the document and
 * as tables.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/bench/train/train.h"

/* ---- phases ---- */

enum phase { FORWARD, BACKWARD, REDUCE, OPTIMISER, STEP, PHASES, WAIT = PHASES };
static const char *const PHASE_NAMES[PHASES] = {"forward", "backward", "reduce", "optimiser", "step"};
/* Of the operations of a step. */
static const double SHARES[PHASES] = {[FORWARD] = 1.0 / 3, [BACKWARD] = 2.0 / 3, [STEP] = 1};

/* The time of a phase of a step: of all threads together, divided by their number. Forward, backward, reduce, wait (for other
 * threads at the end of the passes) and optimiser together are at most the step. */
static uint64_t phase_ns(const struct bn_trainee_step *s, enum phase phase, unsigned n_threads)
{
    uint64_t busy = s->forward_ns + s->backward_ns + s->reduce_ns, all = s->passes_ns * n_threads;
    const uint64_t NS[] = {[FORWARD] = s->forward_ns / n_threads,
                           [BACKWARD] = s->backward_ns / n_threads,
                           [REDUCE] = s->reduce_ns / n_threads,
                           [OPTIMISER] = s->optimiser_ns,
                           [STEP] = s->ns,
                           [WAIT] = all > busy ? (all - busy) / n_threads : 0};
    return NS[phase];
}

/* ---- checks ---- */

static const char *refuses_step(char why[160], const struct bn_trainee_step *s, unsigned n_threads)
{
    uint64_t busy = s->forward_ns + s->backward_ns + s->reduce_ns;
    if (!isfinite(s->loss))
        snprintf(why, 160, "the loss is not finite");
    else if (busy > s->passes_ns * n_threads)
        snprintf(why, 160, "the phases take %llu ns, more than the %llu ns of the passes of all threads",
                 (unsigned long long)busy, (unsigned long long)s->passes_ns * n_threads);
    else if (s->passes_ns + s->optimiser_ns > s->ns)
        snprintf(why, 160, "passes and optimiser take %llu ns, the step %llu ns",
                 (unsigned long long)(s->passes_ns + s->optimiser_ns), (unsigned long long)s->ns);
    else
        return NULL;
    return why;
}

/* Whether the bits are those of another number of threads. */
static const char *differs(char why[160], const struct bn_train_result *r, const struct bn_train_result *like)
{
    for (size_t i = 0; i < r->n; i++) {
        double a = r->samples[i].step.loss, b = like->samples[i].step.loss;
        if (a == b) continue;
        snprintf(why, 160, "step %zu: the loss is %.9g, with t=%u it is %.9g", i + 1, a, like->n_threads, b);
        return why;
    }
    const char *a = bn_json_text_of(r->trainee.end, "weights_sha256");
    const char *b = bn_json_text_of(like->trainee.end, "weights_sha256");
    if (a[0] != '\0' && strcmp(a, b) == 0) return NULL;
    snprintf(why, 160, "the weights are %.12s, with t=%u they are %.12s", a, like->n_threads, b);
    return why;
}

/* The backward pass has float products only, so its rate is bounded by the peak. With ranks its time is that of one of them,
 * and the whole step is compared. */
static const char *above_peak(char why[160], const struct bn_train_result *r)
{
    uint64_t best = UINT64_MAX;
    enum phase phase = r->n_ranks > 1 ? STEP : BACKWARD;
    for (size_t i = 0; i < r->n; i++) {
        uint64_t ns = phase_ns(&r->samples[i].step, phase, r->n_threads);
        if (ns < best) best = ns;
    }
    double flop = r->least_flop * SHARES[phase] * r->batch;
    struct bn_bench_claim claim = {.rate = flop * 1e9 / (double)(best > 0 ? best : 1), .limit = r->most_peak};
    if (!bn_bench_above_limit(&claim)) return NULL;
    snprintf(why, 160, "%.4g operations a second are more than %.2f times the measured peak, %.4g",
             claim.rate, BN_BENCH_MOST_SHARE, claim.limit);
    return why;
}

const char *bn_train_refuses(char why[160], const void *result)
{
    const struct bn_train_result *r = result;
    const char *reason = NULL;
    for (size_t i = 0; i < r->n && reason == NULL; i++)
        reason = refuses_step(why, &r->samples[i].step, r->n_threads);
    if (reason == NULL && r->like != NULL) reason = differs(why, r, r->like);
    return reason != NULL ? reason : above_peak(why, r);
}

/* ---- the document, and the table of steps ---- */

/* Cells of operations a second, and of their share of the peak of the round (x is room for n). */
static void put_rate(struct bn_harness *h, bn_json *test, const struct bn_train_result *r, double flop,
                     const struct bn_harness_row *row, const uint64_t *ns, double *x)
{
    char why[BN_BENCH_REASON];
    size_t n = 0;
    for (size_t i = r->n_warmup; i < r->n && r->most_peak > 0; i++)
        x[n++] = flop * 1e9 / (double)(ns[i] > 0 ? ns[i] : 1) / r->samples[i].peak;
    double share = n > 0 ? bn_median(x, n) : (double)NAN;
    bn_json_put_number(test, "flop", flop);
    bn_table_value(&h->table, flop * 1e9 / row->ns.median, "FLOP/s");
    bn_table_percent(&h->table, share, false);
    if (bn_bench_implausible(why, share)[0] == '\0') return;
    bn_json_put_string(test, "implausible", why);
    bn_table_printf(&h->table, "implausible: %s", why);
}

/* What the process said of its run, and the samples that explain the times. */
static bn_status put_run(struct bn_harness *h, const struct bn_train_result *r, const char *name,
                         bn_json *test, double *x, bn_error *err)
{
    static const char *const COPIED[] = {"library", "settings", "parameters", "flop_per_token"};
    static const char *const SERIES[] = {"wait_ns_per_step", "loss", "peak_flop_per_second",
                                         "exchange_bytes_per_token", "exchange_ns_per_token"};
    for (size_t i = 0; i < BN_ARRAY_LEN(COPIED); i++)
        bn_json_put_copy(test, COPIED[i], bn_json_get(r->trainee.run, COPIED[i]));
    bn_json_put_copy(test, "weights_sha256", bn_json_get(r->trainee.end, "weights_sha256"));
    for (size_t k = 0; k < (r->n_ranks > 1 ? 5 : 3); k++) {
        for (size_t i = 0; i < r->n; i++) {
            const struct bn_trainee_step *s = &r->samples[i].step;
            const double NUMBERS[] = {(double)phase_ns(s, WAIT, r->n_threads), s->loss, r->samples[i].peak,
                                      s->exchange_bytes / r->batch, s->exchange_ns / r->batch};
            x[i] = NUMBERS[k];
        }
        BN_TRY(bn_metric_add(&h->series, name, SERIES[k], x, r->n, r->n_warmup, err));
    }
    return BN_OK;
}

static bn_status put_phase(struct bn_harness *h, struct bn_train_result *r, enum phase phase, uint64_t *ns,
                           double *x, bn_error *err)
{
    char test[96];
    struct bn_harness_row row = {.test = test,
                                 .metric = "ns_per_step",
                                 .per_call = 1,
                                 .n_threads = r->n_threads,
                                 .n_warmup = r->n_warmup,
                                 .differs = bn_train_refuses,
                                 .arg = r};
    for (size_t i = 0; i < r->n; i++)
        ns[i] = phase_ns(&r->samples[i].step, phase, r->n_threads);
    snprintf(test, sizeof test, "%s %s", PHASE_NAMES[phase], r->name);
    bn_json *o = bn_harness_test(h, test);
    BN_PUT_COUNTS(o, {"context", r->context}, {"batch", r->batch}, {"threads", r->n_threads});
    BN_TRY(bn_harness_put_samples(h, &row, 1, ns, r->n, o, err));
    bn_harness_put_row(h, &row);
    if (row.valid && SHARES[phase] > 0) put_rate(h, o, r, SHARES[phase] * r->flop * r->batch, &row, ns, x);
    if (phase == STEP) r->ns = row.valid ? row.ns.median : (double)NAN;
    return phase == STEP && row.valid ? put_run(h, r, test, o, x, err) : BN_OK;
}

/* The number of gradient buffers depends on which thread is first. */
static const char *const KINDS[] = {"masters_bytes",     "moments_bytes",   "ternary_bytes",
                                    "activations_bytes", "gradients_bytes", "peak_rss_bytes"};

static bn_status put_result(struct bn_harness *h, struct bn_train_result *r, bn_error *err)
{
    char test[96];
    const bn_json *memory = bn_json_get(r->trainee.end, "memory");
    uint64_t *ns = bn_alloc(r->n, sizeof *ns);
    double *x = bn_alloc(r->n, sizeof *x);
    bn_status status = ns != NULL && x != NULL ? BN_OK : bn_nomem(err);
    for (unsigned phase = r->n_ranks > 1 ? OPTIMISER : 0; phase < PHASES && status == BN_OK; phase++)
        status = put_phase(h, r, (enum phase)phase, ns, x, err);
    bn_free(ns);
    bn_free(x);
    if (r->n_ranks > 1) return status; /* memory and passes are of the first rank */
    snprintf(test, sizeof test, "memory %s", r->name);
    if (status == BN_OK) bn_harness_judge(h, bn_harness_test(h, test), BN_BENCH_VALID, NULL);
    for (size_t i = 0; i < BN_ARRAY_LEN(KINDS) && status == BN_OK; i++) {
        double bytes = bn_json_number_of(memory, KINDS[i]);
        status = bytes > 0 ? bn_harness_put_value(h, test, KINDS[i], bytes, err)
                           : bn_fail_in(err, BN_ERR_FORMAT, "bn-train", "the memory has no %s", KINDS[i]);
    }
    return status;
}

/* ---- the table of rates ---- */

static bn_status print_rates(struct bn_harness *h, const struct bn_train_result *list, size_t n,
                             bn_error *err)
{
    static const char *const HEADS[] = {"rate", "tok/s", "a thread", "wait", "optimiser", "peak memory"};
    BN_TRY(bn_harness_table(h, HEADS, "lrrrrr", err));
    for (size_t i = 0; i < n; i++) {
        const struct bn_train_result *r = &list[i];
        double wait = 0, optimiser = 0, all = 0, rate = r->batch * 1e9 / r->ns;
        for (size_t k = r->n_warmup; k < r->n; k++) {
            wait += (double)phase_ns(&r->samples[k].step, WAIT, r->n_threads);
            optimiser += (double)r->samples[k].step.optimiser_ns;
            all += (double)r->samples[k].step.ns;
        }
        if (isnan(r->ns)) continue;
        char key[96], name[BN_TEST_ROOM];
        snprintf(key, sizeof key, "step %s", r->name);
        bn_table_row(&h->table, "");
        bn_table_text(&h->table, bn_test_name(name, key) + strlen("step "));
        bn_table_printf(&h->table, "%.0f", rate);
        bn_table_printf(&h->table, "%.0f", rate / (r->n_threads * r->n_ranks));
        bn_table_percent(&h->table, wait / all, false);
        bn_table_percent(&h->table, optimiser / all, false);
        bn_table_value(&h->table,
                       r->n_ranks > 1 ? (double)NAN
                                      : bn_json_number_of(r->trainee.end, "memory.peak_rss_bytes"),
                       "bytes");
    }
    return BN_OK;
}

bn_status bn_train_report(struct bn_harness *h, struct bn_train_result *list, size_t n, bn_error *err)
{
    static const char *const HEADS[] = {"a step", "median", "spread", "rate", "of peak", ""};
    const char *name = bn_json_text_of(list[0].trainee.run, "library.name");
    size_t words = strcspn(name, " "); /* name and version */
    if (name[words] == ' ') words += 1 + strcspn(name + words + 1, " ");
    bn_harness_print(h, "products %.*s, %s\n", (int)words, name,
                     bn_json_text_of(list[0].trainee.run, "library.core"));
    BN_TRY(bn_harness_table(h, HEADS, "lrrrrn", err));
    for (size_t i = 0; i < n; i++)
        BN_TRY(put_result(h, &list[i], err));
    return print_rates(h, list, n, err);
}
