/* SPDX-License-Identifier: MIT
 *
 * bn-bench kernels: times each kernel of the forward pass at the shapes of a model, and compares it with the
 * limits of this machine.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/host/noise.h"
#include "lab/stats/changepoint.h"
#include "lab/stats/summary.h"
#include "model/model.h"
#include "tools/bench/suite.h"
#include "tools/cli/default_model.h"
#include "tools/cli/progress.h"
#include "tools/cli/report.h"

#define LEAST_SET ((size_t)64 << 20) /* also when the size of the caches is unknown */
#define MOST_SET ((size_t)256 << 20)

struct job {
    struct bn_suite suite;
    struct bn_bench_shape shape;
    struct bn_bench_case cases[BN_BENCH_CASES];
    size_t n_cases; /* those that --filter includes */
    uint64_t set_bytes;
    unsigned char *pool;
    bn_json *results;
    struct bn_progress progress;
    size_t n_done;
};

/* One kernel at one shape, timed. */
struct result {
    const struct bn_bench_case *c;
    const struct bn_kernels *kernels;
    unsigned n_threads;
    struct bn_bench_bound bound;
    struct bn_bench_times times;
    struct bn_summary ns; /* of a call */
    struct bn_noise noise;
    bool steady;
    bool valid;
    char reason[BN_BENCH_REASON];      /* when it is not */
    char implausible[BN_BENCH_REASON]; /* empty when it is not */
    struct bn_tukey outliers;
};

const struct bn_option bn_bench_kernels_options[] = {
    BN_OPTION("model", "take the shapes of this model [the 2B model]", .letter = 'm', .arg = "MODEL",
              .group = "Model", .env = "BN_MODEL", .shared = true, BN_TO_TEXT(struct bn_args, model)),
    BN_SUITE_ISA,
    BN_OPTION("filter", "only rows with this text in the first columns: gemv, n=32, cache", .arg = "PART",
              .group = "Measurement", BN_TO_TEXT(struct bn_bench_options, filter)),
    BN_OPTION("min-time", "time per line; at least three samples are taken", .arg = "SECONDS",
              .group = "Measurement", .preset = "0.3", BN_TO_F64(struct bn_bench_options, min_time, 0, 3600)),
    BN_OPTION("set", "bytes of weights used in turn, 16K to 256M [8 x last cache]", .arg = "SIZE",
              .group = "Measurement", BN_TO_BYTES(struct bn_bench_options, set_bytes)),
    BN_BENCH_THREADS,
    {0},
};

/* ---- options ---- */

/* Microsoft's BitNet b1.58 2B4T. */
static const struct bn_bench_shape DEFAULT_SHAPE = {
    .n_embd = 2560, .n_ff = 6912, .n_head = 20, .n_head_kv = 5, .head_dim = 128, .n_vocab = 128256};

static bn_status choose_shape(struct job *job, bn_error *err)
{
    const char *path = job->suite.args->model;
    bn_model_options options = {.no_weights = true};
    bn_model *model = NULL;
    job->shape = DEFAULT_SHAPE;
    if (path == NULL) return BN_OK;
    char *file = NULL;
    BN_TRY(bn_cli_model_path(&file, path, err));
    bn_status status = bn_model_open(&model, file, &options, err);
    bn_free(file);
    BN_TRY(status);
    const bn_hparams *hp = bn_model_hparams(model);
    job->shape = (struct bn_bench_shape){hp->n_embd,   hp->n_ff,    hp->n_head,    hp->n_head_kv,
                                         hp->head_dim, hp->n_vocab, hp->activation};
    bn_model_close(model);
    return BN_OK;
}

/* Several times the last cache, so that little of a set is left there when its turn comes again. */
static bn_status choose_set(struct job *job, bn_error *err)
{
    job->set_bytes = job->suite.machine.cache_l3_bytes * 8;
    if (job->set_bytes < LEAST_SET) job->set_bytes = LEAST_SET;
    if (job->set_bytes > MOST_SET) job->set_bytes = MOST_SET;
    if (job->suite.o->set_bytes > 0) job->set_bytes = job->suite.o->set_bytes;
    if (job->set_bytes >= 1u << 14 && job->set_bytes <= MOST_SET) return BN_OK;
    return bn_fail(err, BN_ERR_ARG, "--set: must be between 16K and 256M");
}

static bool is_wanted(struct job *job, size_t isa, const struct bn_bench_case *c)
{
    char text[160];
    snprintf(text, sizeof text, "%s %s %s", job->suite.isas[isa]->name[c->slot], c->shape, c->source);
    return !bn_suite_is_repeated(&job->suite, isa, c->slot) && bn_suite_wants(&job->suite, text);
}

/* A model may have a shape twice, and sets that stay in the cache anyway give equal cases. */
static bool is_listed(const struct job *job, const struct bn_bench_case *c)
{
    for (size_t i = 0; i < job->n_cases; i++)
        if (job->cases[i].slot == c->slot && strcmp(job->cases[i].shape, c->shape) == 0 &&
            strcmp(job->cases[i].source, c->source) == 0)
            return true;
    return false;
}

static void choose_cases(struct job *job)
{
    size_t n = bn_bench_cases(job->cases, &job->shape, (size_t)job->set_bytes,
                              (size_t)job->suite.machine.cache_l3_bytes);
    for (size_t i = 0; i < n; i++) {
        bool wanted = false;
        if (is_listed(job, &job->cases[i])) continue;
        for (size_t k = 0; k < job->suite.n_isas; k++)
            wanted = wanted || is_wanted(job, k, &job->cases[i]);
        if (wanted) job->cases[job->n_cases++] = job->cases[i];
    }
}

static bn_status prepare(struct job *job, bn_error *err)
{
    BN_TRY(bn_suite_choose_isas(&job->suite, err));
    BN_TRY(choose_set(job, err));
    BN_TRY(choose_shape(job, err));
    choose_cases(job);
    size_t pool = 0;
    for (size_t i = 0; i < job->n_cases; i++) {
        size_t bytes = job->cases[i].copies * job->cases[i].weights_bytes;
        if (bytes > pool) pool = bytes;
    }
    job->pool = bn_alloc_aligned(pool, 1);
    return job->pool != NULL ? BN_OK : bn_fail(err, BN_ERR_NOMEM, "no memory for %zu bytes of weights", pool);
}

static bn_status measure_limits(struct job *job, bn_error *err)
{
    job->suite.limits.budget_ns = job->suite.min_ns < 100000000u ? job->suite.min_ns : 100000000u;
    for (size_t i = 0; i < job->n_cases; i++)
        for (size_t k = 0; k < job->suite.n_isas; k++)
            for (size_t t = 0; t < job->suite.o->threads.n && is_wanted(job, k, &job->cases[i]); t++)
                BN_TRY(bn_bench_limits_measure(&job->suite.limits, &job->cases[i], job->suite.isas[k],
                                               job->suite.o->threads.list[t], false, err));
    return BN_OK;
}

/* ---- one result ---- */

static bool is_above_limit(const struct result *r)
{
    return r->bound.what != NULL && r->bound.ns > BN_BENCH_MOST_SHARE * r->ns.median;
}

/* A limit that other work disturbed may be too low, so it is measured again first. */
static bn_status find_bound(struct job *job, struct result *r, bn_error *err)
{
    r->bound = bn_bench_bound(&job->suite.limits, r->c, r->kernels, r->n_threads);
    for (unsigned i = 0; i < 3 && is_above_limit(r); i++) {
        BN_TRY(bn_bench_limits_measure(&job->suite.limits, r->c, r->kernels, r->n_threads, true, err));
        r->bound = bn_bench_bound(&job->suite.limits, r->c, r->kernels, r->n_threads);
    }
    if (r->bound.what != NULL) bn_bench_implausible(r->implausible, r->bound.ns / r->ns.median);
    return BN_OK;
}

/* Are the times valid, and plausible compared with the limits? */
static bn_status judge(struct job *job, struct result *r, bn_error *err)
{
    double samples[BN_BENCH_MAX_SAMPLES];
    for (size_t i = 0; i < r->times.n; i++)
        samples[i] = (double)r->times.ns[i];
    r->valid = bn_bench_believable(samples, r->times.n, job->suite.clock.resolution_ns, r->reason);
    (void)bn_summarize(&r->ns, r->times.per_call, r->times.n);
    BN_TRY(find_bound(job, r, err));
    if (!bn_tukey(&r->outliers, r->times.per_call, r->times.n)) return bn_nomem(err);
    if (r->times.n < 6) return BN_OK;
    struct bn_steady steady;
    BN_TRY(bn_steady(&steady, r->times.per_call, r->times.n, r->times.n / 2, 0.02, err));
    r->steady = steady.steady;
    return BN_OK;
}

static bn_status measure(struct job *job, struct result *r, const struct bn_bench_work *work, bn_error *err)
{
    struct bn_noise then, now;
    bn_noise_read(&then);
    BN_TRY(bn_bench_time(&r->times, work, r->kernels, r->n_threads, job->suite.min_ns, err));
    bn_noise_read(&now);
    r->noise = bn_noise_since(&then, &now);
    return judge(job, r, err);
}

static bn_status add_series(struct job *job, const struct result *r, bn_error *err)
{
    char test[120];
    struct bn_series s = {
        .test = test, .metric = "ns_per_call", .unit = "ns", .samples = r->times.per_call, .n = r->times.n};
    r->valid ? job->suite.n_valid++ : job->suite.n_invalid++;
    snprintf(test, sizeof test, "%s %s %s t=%u", r->kernels->name[r->c->slot], r->c->shape, r->c->source,
             r->n_threads);
    return r->valid ? bn_series_add(&job->suite.series, &s, err) : BN_OK;
}

/* ---- its row ---- */

/* Warnings name what is wrong with a row. */
static void print_row(const struct result *r)
{
    const struct bn_bench_case *c = r->c;
    const char *name = r->kernels->name[c->slot], *wrong = r->valid ? r->implausible : r->reason;
    char macs[24] = "-", limit[24] = "-";
    printf("%-23s %-19s %-6s%2u", name, c->shape, c->source, r->n_threads);
    if (r->valid) {
        double ns = r->ns.median;
        if (c->macs > 0) snprintf(macs, sizeof macs, "%.1f", c->macs / ns);
        if (r->bound.what != NULL)
            snprintf(limit, sizeof limit, "%.0f%%%c", 100 * r->bound.ns / ns, r->bound.what[0]);
        printf(" %8.0f %5.1f %6s %5s\n", ns, c->bytes / ns, macs, limit);
    } else {
        printf(" INVALID\n");
    }
    fflush(stdout);
    if (wrong[0] != '\0')
        bn_report_warning("%s%s %s: %s", r->valid ? "implausible: " : "INVALID: ", name, c->shape, wrong);
}

/* ---- its part of the document ---- */

static void put_samples(bn_json *o, const struct result *r)
{
    bn_json_put_u64(o, "calls_per_sample", r->times.calls);
    bn_json_put_u64s(o, "samples_ns", r->times.ns, r->times.n);
    bn_json *outliers = bn_json_put_object(o, "outliers");
    bn_json_put_u64(outliers, "mild_low", r->outliers.n_mild_low);
    bn_json_put_u64(outliers, "mild_high", r->outliers.n_mild_high);
    bn_json_put_u64(outliers, "severe_low", r->outliers.n_severe_low);
    bn_json_put_u64(outliers, "severe_high", r->outliers.n_severe_high);
    bn_json *noise = bn_json_put_object(o, "noise");
    bn_json_put_object(noise, "unavailable");
    bn_noise_put(noise, &r->noise);
}

static void put_figures(bn_json *o, const struct result *r)
{
    static const char *const FIGURES[] = {"ns_per_call", "bytes_per_second",  "macs_per_second",
                                          "limit",       "limit_ns_per_call", "share_of_limit"};
    const struct bn_bench_case *c = r->c;
    for (size_t i = 0; i < BN_ARRAY_LEN(FIGURES) && !r->valid; i++)
        bn_json_put_unavailable(o, FIGURES[i], r->reason);
    if (!r->valid) return;
    bn_bench_put_summary(o, "ns_per_call", r->times.per_call, r->times.n);
    bn_json_put_number(o, "bytes_per_second", c->bytes * 1e9 / r->ns.median);
    if (c->macs > 0)
        bn_json_put_number(o, "macs_per_second", c->macs * 1e9 / r->ns.median);
    else
        bn_json_put_unavailable(o, "macs_per_second", "the kernel has no multiply-adds");
    for (size_t i = 3; i < BN_ARRAY_LEN(FIGURES) && r->bound.what == NULL; i++)
        bn_json_put_unavailable(o, FIGURES[i], r->bound.reason);
    if (r->bound.what == NULL) return;
    bn_json_put_string(o, "limit", r->bound.what);
    bn_json_put_number(o, "limit_ns_per_call", r->bound.ns);
    bn_json_put_number(o, "share_of_limit", r->bound.ns / r->ns.median);
}

static void put_result(const struct job *job, const struct result *r)
{
    const struct bn_bench_case *c = r->c;
    bn_json *o = bn_json_add_object(job->results);
    bn_json_put_object(o, "unavailable");
    bn_json_put_string(o, "slot", bn_kernel_slot_name(c->slot));
    bn_json_put_string(o, "kernel", r->kernels->name[c->slot]);
    bn_json_put_string(o, "isa", r->kernels->isa);
    bn_json_put_u64(o, "threads", r->n_threads);
    bn_json_put_string(o, "shape", c->shape);
    bn_json_put_string(o, "source", c->source);
    bn_json_put_u64(o, "set_bytes", c->hot_bytes);
    bn_json_put_bool(o, "equals_reference", true); /* else the command ends */
    bn_json_put_number(o, "bytes_per_call", c->bytes);
    bn_json_put_number(o, "macs_per_call", c->macs);
    bn_json_put_string(o, "verdict", r->valid ? "valid" : "invalid");
    bn_json_put_known(o, "reason", r->reason, "there is none");
    bn_json_put_known(o, "implausible", r->implausible, "there is none");
    if (r->times.n >= 6)
        bn_json_put_bool(o, "steady", r->steady);
    else
        bn_json_put_unavailable(o, "steady", "too few samples");
    put_samples(o, r);
    put_figures(o, r);
}

static bn_status run_one(struct job *job, const struct bn_bench_work *work, size_t isa, size_t thread,
                         bn_error *err)
{
    BN_TRY(bn_bench_check(work, job->suite.isas[isa], job->suite.o->threads.list[thread], err));
    struct result *r = bn_alloc(1, sizeof *r);
    if (r == NULL) return bn_nomem(err);
    *r = (struct result){
        .c = work->c, .kernels = job->suite.isas[isa], .n_threads = job->suite.o->threads.list[thread]};
    bn_progress_show(&job->progress, job->n_done++);
    bn_status status = measure(job, r, work, err);
    bn_progress_clear(&job->progress);
    if (status == BN_OK) status = add_series(job, r, err);
    if (status == BN_OK && !job->suite.args->json) print_row(r);
    if (status == BN_OK) put_result(job, r);
    bn_free(r);
    return status;
}

static bn_status run_case(struct job *job, const struct bn_bench_case *c, bn_error *err)
{
    struct bn_bench_work work;
    bn_status status = bn_bench_prepare(&work, c, job->pool, err);
    if (status == BN_OK)
        status = bn_bench_expect(&work, job->suite.o->threads.list[job->suite.o->threads.n - 1], err);
    for (size_t k = 0; k < job->suite.n_isas; k++)
        for (size_t t = 0; t < job->suite.o->threads.n && status == BN_OK && is_wanted(job, k, c); t++)
            status = run_one(job, &work, k, t, err);
    bn_bench_release(&work);
    return status;
}

/* ---- the command ---- */

static void put_settings(struct job *job)
{
    const struct bn_bench_shape *s = &job->shape;
    bn_json_put_string(job->suite.settings, "isa", job->suite.o->isa);
    bn_json_put_u64(job->suite.settings, "set_bytes", job->set_bytes);
    bn_json *shape = bn_json_put_object(job->suite.doc, "shape");
    bn_json_put_u64(shape, "n_embd", s->n_embd);
    bn_json_put_u64(shape, "n_ff", s->n_ff);
    bn_json_put_u64(shape, "n_head", s->n_head);
    bn_json_put_u64(shape, "n_head_kv", s->n_head_kv);
    bn_json_put_u64(shape, "head_dim", s->head_dim);
    bn_json_put_u64(shape, "n_vocab", s->n_vocab);
    job->results = bn_json_put_array(job->suite.doc, "results");
}

static bn_status print_head(struct job *job, bn_error *err)
{
    BN_TRY(bn_bench_limits_print(&job->suite.limits, err));
    printf("\n%-23s %-19s %-6s%2s %8s %5s %6s %5s\n", "kernel", "shape", "from", "t", "ns", "GB/s", "GMAC/s",
           "limit");
    fflush(stdout);
    return BN_OK;
}

static size_t count_lines(struct job *job)
{
    size_t n = 0;
    for (size_t i = 0; i < job->n_cases; i++)
        for (size_t k = 0; k < job->suite.n_isas; k++)
            n += is_wanted(job, k, &job->cases[i]) ? job->suite.o->threads.n : 0;
    return n;
}

static bn_status run(struct job *job, struct bn_args *args, bn_error *err)
{
    BN_TRY(bn_suite_open(&job->suite, args, "kernels", err));
    BN_TRY(prepare(job, err));
    put_settings(job);
    if (job->n_cases == 0) return BN_OK; /* bn_suite_finish reports that nothing matched */
    BN_TRY(measure_limits(job, err));
    if (!args->json) BN_TRY(print_head(job, err));
    bn_progress_begin(&job->progress, "kernels", count_lines(job), args->quiet);
    for (size_t i = 0; i < job->n_cases; i++)
        BN_TRY(run_case(job, &job->cases[i], err));
    if (!args->json)
        printf("\nlimit: percentage of the measured limit of memory (m), cache (c) or arithmetic (a)\n");
    return BN_OK;
}

bn_status bn_bench_kernels(struct bn_args *args, bn_error *err)
{
    struct job *job = bn_alloc(1, sizeof *job);
    if (job == NULL) return bn_nomem(err);
    bn_status status = run(job, args, err);
    status = bn_suite_finish(&job->suite, status, err);
    bn_free(job->pool);
    bn_free(job);
    return status;
}
