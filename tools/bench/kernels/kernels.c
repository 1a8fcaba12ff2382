/* SPDX-License-Identifier: MIT
 *
 * bn-bench kernels: times each kernel of the forward pass at the shapes of a model, and compares it with the
 * limits of this machine.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "tools/bench/harness.h"
#include "tools/cli/default_model.h"
#include "tools/cli/progress.h"
#include "tools/cli/report.h"

#define LEAST_SET ((size_t)64 << 20) /* also when the size of the caches is unknown */
#define MOST_SET ((size_t)256 << 20)

struct job {
    struct bn_harness h;
    struct bn_bench_shape shape;
    struct bn_bench_case cases[BN_BENCH_CASES];
    size_t n_cases; /* those that --filter includes */
    uint64_t set_bytes;
    unsigned char *pool;
    struct bn_progress progress;
    size_t n_done;
};

/* One kernel at one shape, timed. */
struct result {
    const struct bn_bench_case *c;
    const struct bn_kernels *kernels;
    unsigned n_threads;
    double ns; /* of a call */
    struct bn_bench_bound bound;
};

const struct bn_option bn_bench_kernels_options[] = {
    BN_OPTION("model", "take the shapes of this model [the 2B model]", .letter = 'm', .arg = "MODEL",
              .group = "Model", .env = "BN_MODEL", .shared = true, BN_TO_TEXT(struct bn_args, model)),
    BN_HARNESS_ISA,
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
    bn_model_options options = {.no_weights = true};
    bn_model *model = NULL;
    job->shape = DEFAULT_SHAPE;
    if (job->h.args->model == NULL) return BN_OK;
    BN_TRY(bn_cli_open_model(&model, job->h.args, &options, err));
    const bn_hparams *hp = bn_model_hparams(model);
    job->shape = (struct bn_bench_shape){hp->n_embd,   hp->n_ff,    hp->n_head,    hp->n_head_kv,
                                         hp->head_dim, hp->n_vocab, hp->activation};
    bn_model_close(model);
    return BN_OK;
}

/* Several times the last cache, so that little of a set is left there when its turn comes again. */
static bn_status choose_set(struct job *job, bn_error *err)
{
    job->set_bytes = job->h.machine.cache_l3_bytes * 8;
    if (job->set_bytes < LEAST_SET) job->set_bytes = LEAST_SET;
    if (job->set_bytes > MOST_SET) job->set_bytes = MOST_SET;
    if (job->h.o->set_bytes > 0) job->set_bytes = job->h.o->set_bytes;
    if (job->set_bytes >= 1u << 14 && job->set_bytes <= MOST_SET) return BN_OK;
    return bn_fail(err, BN_ERR_ARG, "--set: must be between 16K and 256M");
}

static bool is_wanted(struct job *job, size_t isa, const struct bn_bench_case *c)
{
    char text[160];
    snprintf(text, sizeof text, "%s %s %s", job->h.isas[isa]->name[c->slot], c->shape, c->source);
    return !bn_harness_is_repeated(&job->h, isa, c->slot) && bn_harness_wants(&job->h, text);
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
                              (size_t)job->h.machine.cache_l3_bytes);
    for (size_t i = 0; i < n; i++) {
        bool wanted = false;
        if (is_listed(job, &job->cases[i])) continue;
        for (size_t k = 0; k < job->h.n_isas; k++)
            wanted = wanted || is_wanted(job, k, &job->cases[i]);
        if (wanted) job->cases[job->n_cases++] = job->cases[i];
    }
}

static bn_status prepare(struct job *job, bn_error *err)
{
    BN_TRY(bn_harness_choose_isas(&job->h, err));
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

/* ---- one result ---- */

static void put_facts(bn_json *o, const struct result *r)
{
    const struct bn_bench_case *c = r->c;
    BN_PUT_STRINGS(o, {"slot", bn_kernel_slot_name(c->slot)}, {"kernel", r->kernels->name[c->slot]},
                   {"isa", r->kernels->isa}, {"shape", c->shape}, {"source", c->source});
    BN_PUT_COUNTS(o, {"threads", r->n_threads}, {"set_bytes", c->hot_bytes});
    bn_json_put_number(o, "bytes", c->bytes);
    bn_json_put_number(o, "macs", c->macs);
    bn_bench_bound_put(o, &r->bound);
}

/* The line of a result. */
static void print_row(const struct result *r, bool valid)
{
    const struct bn_bench_case *c = r->c;
    char macs[24] = "-", limit[24] = "-";
    printf("%-23s %-19s %-6s%2u", r->kernels->name[c->slot], c->shape, c->source, r->n_threads);
    if (c->macs > 0) snprintf(macs, sizeof macs, "%.1f", c->macs / r->ns);
    if (r->bound.what != NULL)
        snprintf(limit, sizeof limit, "%.0f%%%c", 100 * r->bound.ns / r->ns, r->bound.what[0]);
    if (valid)
        printf(" %8.0f %5.1f %6s %5s\n", r->ns, c->bytes / r->ns, macs, limit);
    else
        printf(" INVALID\n");
    fflush(stdout);
}

static bn_status measure(struct job *job, const struct bn_bench_work *work, size_t isa, unsigned n_threads,
                         bn_error *err)
{
    struct result result = {.c = work->c, .kernels = job->h.isas[isa], .n_threads = n_threads}, *r = &result;
    char test[120], name[BN_TEST_ROOM], doubt[BN_BENCH_REASON] = "";
    struct bn_bench_call kernel = {work, r->kernels};
    struct bn_bench_body body = {bn_bench_calls, &kernel};
    struct bn_harness_row row = {
        .test = test, .metric = "ns_per_call", .per_call = 1, .n_threads = r->n_threads};
    BN_TRY(bn_bench_check(work, r->kernels, n_threads, err));
    snprintf(test, sizeof test, "%s %s %s t=%u", r->kernels->name[r->c->slot], r->c->shape, r->c->source,
             r->n_threads);
    bn_json *o = bn_harness_test(&job->h, test);
    bn_progress_show(&job->progress, job->n_done++);
    bn_status status = bn_harness_time(&job->h, &row, &body, o, err);
    bn_progress_clear(&job->progress);
    r->ns = row.ns.median;
    if (status == BN_OK)
        status = bn_bench_limits_bound(&job->h.limits, r->c, r->kernels, r->n_threads, r->ns, &r->bound, err);
    put_facts(o, r);
    if (status == BN_OK && !job->h.args->json) print_row(r, row.valid);
    if (row.valid && r->bound.what != NULL) bn_bench_implausible(doubt, r->bound.ns / r->ns);
    if (doubt[0] != '\0') {
        bn_json_put_string(o, "implausible", doubt);
        bn_report_warning("implausible: %s: %s", bn_test_name(name, test), doubt);
    }
    return status;
}

static bn_status run_case(struct job *job, const struct bn_bench_case *c, bn_error *err)
{
    struct bn_bench_work work;
    const struct bn_list *threads = &job->h.o->threads;
    bn_status status = bn_bench_prepare(&work, c, job->pool, threads->list[threads->n - 1], err);
    for (size_t k = 0; k < job->h.n_isas; k++)
        for (size_t t = 0; t < threads->n && status == BN_OK && is_wanted(job, k, c); t++)
            status = measure(job, &work, k, threads->list[t], err);
    bn_bench_release(&work);
    return status;
}

/* ---- the command ---- */

static void put_settings(struct job *job)
{
    const struct bn_bench_shape *s = &job->shape;
    bn_json_put_string(job->h.settings, "isa", job->h.o->isa);
    bn_json_put_u64(job->h.settings, "set_bytes", job->set_bytes);
    BN_PUT_COUNTS(bn_json_put_object(job->h.doc, "shape"), {"n_embd", s->n_embd}, {"n_ff", s->n_ff},
                  {"n_head", s->n_head}, {"n_head_kv", s->n_head_kv}, {"head_dim", s->head_dim},
                  {"n_vocab", s->n_vocab});
}

static bn_status run(struct job *job, struct bn_args *args, bn_error *err)
{
    BN_TRY(bn_harness_open(&job->h, args, "kernels", err));
    BN_TRY(prepare(job, err));
    put_settings(job);
    if (job->n_cases == 0) return BN_OK; /* bn_harness_finish reports that nothing matched */
    job->h.limits.budget_ns = job->h.min_ns < 100000000u ? job->h.min_ns : 100000000u;
    bn_harness_print(&job->h, "\n%-23s %-19s %-6s%2s %8s %5s %6s %5s\n", "kernel", "shape", "from", "t", "ns",
                     "GB/s", "GMAC/s", "limit");
    bn_progress_begin(&job->progress, "kernels", job->n_cases * job->h.n_isas * job->h.o->threads.n,
                      args->quiet);
    for (size_t i = 0; i < job->n_cases; i++)
        BN_TRY(run_case(job, &job->cases[i], err));
    bn_harness_print(
        &job->h, "\nlimit: percentage of the measured limit of memory (m), cache (c) or arithmetic (a)\n\n");
    return args->json ? BN_OK : bn_bench_limits_print(&job->h.limits, err);
}

bn_status bn_bench_kernels(struct bn_args *args, bn_error *err)
{
    struct job job = {0};
    bn_status status = bn_harness_finish(&job.h, run(&job, args, err), err);
    bn_free(job.pool);
    return status;
}
