/* SPDX-License-Identifier: MIT
 *
 * bn-bench limits: what this machine could do for a model. Each test of bn-bench run is taken, and the counters
 * of its kernels give the bytes and the multiply-adds of a token. The measured limits of the machine (limits.h)
 * give the least time of these, so the greatest rate, and which of the two limits it.
 *
 * Reading and arithmetic are assumed to overlap; multiply-adds of bytes and of floats use the same units, so
 * their times add up.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/host/meters.h"
#include "model/model.h"
#include "tools/bench/run/run.h"
#include "tools/cli/default_model.h"
#include "tools/cli/text.h"

#define SAMPLES 3u

const struct bn_option bn_bench_limits_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
    BN_OPTION_REPACK,
    BN_BENCH_RUN_TESTS("128", "16"),
    BN_OPTION("min-time", "time per limit; reads from memory take ten times as long", .rare = true,
              .arg = "SECONDS", .group = "Measurement", .preset = "0.1",
              BN_TO_F64(struct bn_bench_options, min_time, 0, 60)),
    BN_BENCH_THREADS,
    {0},
};

/* One test: the work of a token, its limits, and its rate. */
struct row {
    const struct bn_bench_config *config;
    struct bn_bench_case work; /* of one token */
    struct bn_bench_bound bound;
    double rate; /* tokens per second; NaN when the test is not valid */
};

struct job {
    struct bn_bench_measurement m;
    struct bn_bench_reads reads; /* of the first session */
    const char *source;          /* where a token's bytes come from */
    size_t set_bytes;            /* whose read bandwidth is the limit */
    struct row *rows;            /* m.n_configs */
};

/* ---- the work and its limits ---- */

/* All samples of a test do the same work. The tokens of a prompt read the KV cache one after the other: it then
 * comes from the processor's caches, and the limit of memory does not apply to it. */
static void count_work(const struct job *job, struct row *row)
{
    const struct bn_bench_config *c = row->config;
    double tokens = 0;
    row->work = (struct bn_bench_case){.source = job->source, .hot_bytes = job->set_bytes};
    for (size_t i = 0; i < c->n_samples; i++)
        tokens += (double)c->samples[i].evaluated;
    for (size_t i = 0; i < c->n_kernels && tokens > 0; i++) {
        const bn_kernel_stat *k = &c->kernels[i];
        struct bn_bench_macs macs = bn_bench_macs_of(job->m.model, k->name);
        if (c->decode || !bn_bench_reads_cache(job->m.model, k->name))
            row->work.bytes += (double)k->bytes / tokens;
        row->work.int8_macs += (double)macs.int8 * (double)k->ops / tokens;
        row->work.float_macs += (double)macs.floats * (double)k->ops / tokens;
    }
}

static bn_status find_rows(struct job *job, bn_error *err)
{
    BN_TRY(BN_NEW(job->rows, job->m.n_configs, err));
    for (size_t i = 0; i < job->m.n_configs; i++) {
        struct row *row = &job->rows[i];
        const struct bn_bench_config *c = row->config = &job->m.configs[i];
        count_work(job, row);
        row->rate =
            c->verdict == BN_BENCH_VALID ? bn_bench_median_of(&job->m, c, "tokens_per_second") : (double)NAN;
        BN_TRY(bn_bench_limits_bound(&job->m.h.limits, &row->work, job->m.model->kernels, c->n_threads,
                                     1e9 / row->rate, &row->bound, err));
    }
    return BN_OK;
}

static bn_status measure(struct job *job, struct bn_args *args, bn_error *err)
{
    struct bn_bench_options *o = args->fields;
    o->reps = SAMPLES;
    o->warmup = 1;
    o->n_loads = 1;
    o->seed = 42;
    o->confidence = 100 * BN_BENCH_CONFIDENCE;
    BN_TRY(bn_bench_prepare_run(&job->m, args, "limits", err));
    const struct bn_bench_config *first = &job->m.configs[0];
    BN_TRY(bn_bench_learn_reads(&job->m, first->session, first->depth, &job->reads, err));
    job->set_bytes = bn_min_size((size_t)job->m.token_bytes, BN_BANDWIDTH_MAX_BYTES);
    job->m.h.limits.device = job->m.model->device;
    job->m.h.limits.budget_ns = (uint64_t)(o->min_time * 1e9);
    job->source = job->m.model->device != NULL                           ? "memory of the device"
                  : job->m.token_bytes > job->m.h.machine.cache_l3_bytes ? "memory"
                                                                         : "cache";
    BN_TRY(bn_bench_limits_others(&job->m.h.limits, job->set_bytes, err));
    BN_TRY(bn_bench_measure(&job->m, err));
    return find_rows(job, err);
}

/* ---- the table ---- */

static void print_work(const struct job *job)
{
    char all[BN_UNITS_ROOM], weights[BN_UNITS_ROOM], head[BN_UNITS_ROOM], cache[BN_UNITS_ROOM];
    const struct bn_bench_reads *r = &job->reads;
    printf("model    %s, %s\n", bn_cli_model_name(job->m.h.args), bn_cli_evaluator(job->m.model));
    printf("a token  reads %s at depth %u: weights %s, head %s, KV cache %s\n",
           bn_units_text(all, (double)(r->weights + r->head + r->cache), "bytes"), job->m.configs[0].depth,
           bn_units_text(weights, (double)r->weights, "bytes"), bn_units_text(head, (double)r->head, "bytes"),
           bn_units_text(cache, (double)r->cache, "bytes"));
    for (size_t i = 0; i < job->m.n_configs; i++) {
        const struct row *row = &job->rows[i];
        if (row->config->decode) continue;
        printf("a prompt of %u takes %.4g million multiply-adds of bytes a token, %.4g of floats\n",
               row->config->tokens, row->work.int8_macs / 1e6, row->work.float_macs / 1e6);
        return;
    }
}

static void put_row(struct bn_table *t, const struct row *row)
{
    const struct bn_bench_config *c = row->config;
    bn_table_row(t, "");
    bn_table_text(t, c->decode ? "decode" : "prompt");
    bn_table_count(t, c->tokens);
    bn_table_count(t, c->depth);
    bn_table_count(t, c->n_threads);
    bn_table_value(t, row->rate, "1");
    bool bound = row->bound.what != NULL;
    bn_table_value(t, bound ? 1e9 / row->bound.ns : (double)NAN, "1");
    bn_table_text(t, bound ? row->bound.what : "-");
    bn_table_percent(t, bound ? row->rate * row->bound.ns / 1e9 : (double)NAN, false);
    bool reads = row->bound.read_ns >= row->bound.arithmetic_ns;
    double next_ns = reads ? row->bound.arithmetic_ns : row->bound.read_ns;
    bn_table_value(t, next_ns > 0 ? 1e9 / next_ns : (double)NAN, "1");
    if (!bound)
        bn_table_printf(t, "no limit: %s", row->bound.reason);
    else if (c->verdict != BN_BENCH_VALID)
        bn_table_printf(t, "not measured: %s", c->reason);
}

static bn_status print(struct job *job, bn_error *err)
{
    static const char *const HEADS[] = {"test",  "tokens", "depth",   "t",    "tok/s",
                                        "limit", "set by", "reached", "next", "note"};
    struct bn_table t;
    bn_bench_print_machine(&job->m.h.machine);
    print_work(job);
    putchar('\n');
    BN_TRY(bn_bench_limits_print(&job->m.h.limits, err));
    putchar('\n');
    bn_table_begin(&t, HEADS, "lrrrrrlrrn");
    for (size_t i = 0; i < job->m.n_configs; i++)
        put_row(&t, &job->rows[i]);
    return bn_cli_print_table(&t, err);
}

/* ---- the document ---- */

/* Facts next to those of the test. */
static void put_limits(const struct row *row)
{
    bn_json *o = row->config->test;
    const struct bn_bench_bound *b = &row->bound;
    const double none = (double)NAN;
    bn_json_put_number(o, "bytes", row->work.bytes);
    bn_json_put_number(o, "int8_macs", row->work.int8_macs);
    bn_json_put_number(o, "float_macs", row->work.float_macs);
    bn_bench_bound_put(o, b);
    if (b->what == NULL) return;
    bn_json_put_finite(o, "read_ns", b->read_ns > 0 ? b->read_ns : none, "it reads nothing");
    bn_json_put_finite(o, "arithmetic_ns", b->arithmetic_ns > 0 ? b->arithmetic_ns : none,
                       "it has no multiply-adds");
}

static bn_status put_document(struct job *job, bn_error *err)
{
    struct bn_bench_measurement *m = &job->m;
    bn_json *token = bn_json_put_object(m->h.doc, "token");
    BN_PUT_COUNTS(token, {"depth", m->configs[0].depth}, {"weight_bytes", job->reads.weights},
                  {"head_bytes", job->reads.head}, {"cache_bytes", job->reads.cache},
                  {"set_bytes", job->set_bytes});
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct row *row = &job->rows[i];
        put_limits(row);
        if (row->bound.what == NULL) continue;
        const char *name = bn_json_text_of(row->config->test, "name");
        if (name[0] == '\0') return bn_nomem(err); /* it was lost */
        BN_TRY(bn_harness_put_value(&m->h, name, "limit_ns_per_token", row->bound.ns, err));
    }
    return BN_OK;
}

bn_status bn_bench_limits(struct bn_args *args, bn_error *err)
{
    struct job job = {0};
    bn_status status = measure(&job, args, err);
    if (status == BN_OK) status = put_document(&job, err);
    if (status == BN_OK && !args->json) status = print(&job, err);
    status = bn_harness_finish(&job.m.h, status, err);
    bn_free(job.rows);
    bn_bench_release_run(&job.m);
    return status;
}
