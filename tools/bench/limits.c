/* SPDX-License-Identifier: MIT
 *
 * Measures the limits of this machine: read bandwidth and the peaks of arithmetic.
 *
 * bn-bench limits: what this machine could do for a model. Each test of bn-bench run is taken, and the counters of its kernels
 * give the bytes and the multiply-adds of a token. The limits give the least time of these, so the greatest rate, and which of
 * the two limits it. Reading and arithmetic are assumed to overlap; multiply-adds of bytes and of floats use the same units,
 * so their times add up.
 */
#include "tools/bench/limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/peak.h"
#include "lab/host/bandwidth.h"
#include "lab/report/units.h"
#include "model/model.h"
#include "tools/bench/run/run.h"
#include "tools/cli/default_model.h"
#include "tools/cli/text.h"

#define MEMORY_BYTES ((size_t)16 << 20) /* sets from this size on are measured longer: memory is noisy */
#define MAX_TOKENS (1u << 20)
#define SAMPLES 3u   /* of bn-bench limits */
#define TURNS 20000u /* of a loop of arithmetic: some 100 us */

void bn_bench_limits_release(struct bn_bench_limits *limits)
{
    bn_free(limits->list);
    *limits = (struct bn_bench_limits){0};
}

/* ---- arithmetic ---- */

struct peak_run {
    uint64_t (*loop)(uint64_t turns);
    struct bn_team *team;
    double *rates; /* one a thread, a cache line apart */
};
#define RATE_GAP (BN_ALIGNMENT / sizeof(double))

/* Each thread measures its own time, so that waiting for a thread that is not running does not count. */
static void run_peak(void *arg, unsigned thread, unsigned n_threads)
{
    struct peak_run *p = arg;
    bn_team_barrier(p->team, n_threads);
    uint64_t start = bn_clock_ns(), done = p->loop(TURNS), ns = bn_clock_ns() - start;
    p->rates[thread * RATE_GAP] = (double)done * 1e9 / (double)(ns > 0 ? ns : 1);
}

/* The best rate: other work on the machine can only slow it down. 0 when memory runs out. */
static double peak_rate(uint64_t (*loop)(uint64_t), unsigned n_threads, uint64_t budget_ns)
{
    double best = 0;
    uint64_t start = bn_clock_ns();
    struct peak_run run = {.loop = loop,
                           .rates = bn_alloc_aligned(n_threads, BN_ALIGNMENT),
                           .team = bn_team_open(n_threads, true)};
    for (unsigned i = 0;
         run.rates != NULL && run.team != NULL && (i < 3 || bn_clock_ns() - start < budget_ns); i++) {
        double sum = 0;
        bn_team_run(run.team, run_peak, &run);
        for (unsigned t = 0; t < bn_team_size(run.team); t++)
            sum += run.rates[t * RATE_GAP];
        if (sum > best) best = sum;
    }
    bn_team_close(run.team);
    bn_free(run.rates);
    return best;
}

/* ---- the list ---- */

static struct bn_bench_limit *find(const struct bn_bench_limits *limits, const struct bn_bench_limit *wanted)
{
    for (size_t i = 0; i < limits->n; i++) {
        struct bn_bench_limit *l = &limits->list[i];
        if (l->kind == wanted->kind && l->n_threads == wanted->n_threads &&
            l->set_bytes == wanted->set_bytes && l->kernels == wanted->kernels)
            return l;
    }
    return NULL;
}

bn_status bn_bench_limit_measure(struct bn_bench_limit *limit, uint64_t budget_ns, bn_error *err)
{
    limit->rate = 0;
    if (limit->kind == BN_LIMIT_READ) {
        limit->rate = (double)bn_bandwidth_probe(limit->set_bytes, limit->n_threads, budget_ns);
        return limit->rate > 0 ? BN_OK : bn_fail(err, BN_ERR_NOMEM, "no memory to measure its speed");
    }
    const struct bn_peak *peak = bn_peak_of(limit->kernels);
    bool bytes = limit->kind == BN_LIMIT_INT8;
    limit->instruction = bytes ? peak->int8 : peak->fma;
    if (limit->instruction == NULL) return BN_OK;
    limit->rate = peak_rate(bytes ? peak->run_int8 : peak->run_fma, limit->n_threads, budget_ns);
    return limit->rate > 0 ? BN_OK : bn_nomem(err);
}

static uint64_t budget_of(const struct bn_bench_limits *limits, const struct bn_bench_limit *limit)
{
    bool memory = limit->kind == BN_LIMIT_READ && limit->set_bytes >= MEMORY_BYTES;
    return limits->budget_ns * (memory ? 10 : 1);
}

/* Something exceeded a known limit: measures longer, and keeps the greater rate. */
static bn_status measure_again(const struct bn_bench_limits *limits, struct bn_bench_limit *known,
                               bn_error *err)
{
    struct bn_bench_limit again = *known;
    BN_TRY(bn_bench_limit_measure(&again, 4 * budget_of(limits, &again), err));
    if (again.rate > known->rate) known->rate = again.rate;
    return BN_OK;
}

static bn_status measure(struct bn_bench_limits *limits, struct bn_bench_limit wanted, bool again,
                         bn_error *err)
{
    struct bn_bench_limit *known = find(limits, &wanted);
    if (known != NULL) return again ? measure_again(limits, known, err) : BN_OK;
    BN_TRY(bn_array_grow(&limits->list, &limits->room, limits->n + 1, sizeof *limits->list, err));
    BN_TRY(bn_bench_limit_measure(&wanted, budget_of(limits, &wanted), err));
    limits->list[limits->n++] = wanted;
    return BN_OK;
}

bn_status bn_bench_limits_read(struct bn_bench_limits *limits, size_t set_bytes, unsigned n_threads,
                               bool again, double *rate, bn_error *err)
{
    struct bn_bench_limit wanted = {.kind = BN_LIMIT_READ, .n_threads = n_threads, .set_bytes = set_bytes};
    BN_TRY(measure(limits, wanted, again, err));
    const struct bn_bench_limit *known = find(limits, &wanted);
    *rate = known != NULL ? known->rate : 0;
    return BN_OK;
}

static struct bn_bench_limit reading(const struct bn_bench_case *c, unsigned n_threads)
{
    size_t bytes = c->hot_bytes * (c->hot_each ? n_threads : 1u);
    return (struct bn_bench_limit){.kind = BN_LIMIT_READ, .n_threads = n_threads, .set_bytes = bytes};
}

static struct bn_bench_limit arithmetic(enum bn_bench_limit_kind kind, const struct bn_kernels *kernels,
                                        unsigned n_threads)
{
    return (struct bn_bench_limit){.kind = kind, .n_threads = n_threads, .kernels = kernels};
}

bn_status bn_bench_limits_measure(struct bn_bench_limits *limits, const struct bn_bench_case *c,
                                  const struct bn_kernels *kernels, unsigned n_threads, bool again,
                                  bn_error *err)
{
    if (c->no_limit) return BN_OK;
    if (c->int8_macs > 0) BN_TRY(measure(limits, arithmetic(BN_LIMIT_INT8, kernels, n_threads), again, err));
    if (c->float_macs > 0)
        BN_TRY(measure(limits, arithmetic(BN_LIMIT_FLOAT, kernels, n_threads), again, err));
    return measure(limits, reading(c, n_threads), again, err);
}

/* ---- bounds ---- */

struct bn_bench_macs bn_bench_macs_of(const bn_model *model, const char *name)
{
    const unsigned planes = model->wide ? 2 : 1; /* of activations for weights in tiles */
    const struct {
        enum bn_kernel slot;
        struct bn_bench_macs macs;
    } KNOWN[] = {
        {BN_KERNEL_I2S_GEMV, {1, 0}},          {BN_KERNEL_I2S_GEMM, {1, 0}},
        {BN_KERNEL_T5_GEMV, {1, 0}},           {BN_KERNEL_I8_GEMM, {2, 0}}, /* two planes of bytes */
        {BN_KERNEL_GROUPED_GEMV, {planes, 0}}, {BN_KERNEL_GROUPED_GEMM, {planes, 0}},
        {BN_KERNEL_F16_GEMM, {0, 1}},          {BN_KERNEL_F32_GEMM, {0, 1}},
        {BN_KERNEL_ATTN_SCORES, {0, 1}},       {BN_KERNEL_ATTN_VALUES, {0, 1}},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++)
        if (strcmp(model->kernels->name[KNOWN[i].slot], name) == 0) return KNOWN[i].macs;
    return (struct bn_bench_macs){0};
}

bool bn_bench_reads_cache(const struct bn_kernels *kernels, const char *name)
{
    return strcmp(kernels->name[BN_KERNEL_ATTN_SCORES], name) == 0 ||
           strcmp(kernels->name[BN_KERNEL_ATTN_VALUES], name) == 0;
}

/* The rate of a limit, 0 when it was not measured or has no loop. */
static double rate_of(const struct bn_bench_limits *limits, struct bn_bench_limit wanted)
{
    const struct bn_bench_limit *l = find(limits, &wanted);
    return l != NULL ? l->rate : 0;
}

struct bn_bench_bound bn_bench_bound(const struct bn_bench_limits *limits, const struct bn_bench_case *c,
                                     const struct bn_kernels *kernels, unsigned n_threads)
{
    if (c->no_limit) return (struct bn_bench_bound){.reason = "exponentials, for which no limit is measured"};
    if (bn_peak_of(kernels)->int8 == NULL)
        return (struct bn_bench_bound){.reason = "plain C, for which no limit is measured"};
    double read = rate_of(limits, reading(c, n_threads));
    double int8 = rate_of(limits, arithmetic(BN_LIMIT_INT8, kernels, n_threads));
    double floats = rate_of(limits, arithmetic(BN_LIMIT_FLOAT, kernels, n_threads));
    struct bn_bench_bound bound = {.what = c->source};
    if (read > 0) bound.read_ns = c->bytes * 1e9 / read;
    if (c->int8_macs > 0 && int8 > 0) bound.arithmetic_ns += c->int8_macs * 1e9 / int8;
    if (c->float_macs > 0 && floats > 0) bound.arithmetic_ns += c->float_macs * 1e9 / floats;
    if (bound.arithmetic_ns > bound.read_ns) bound.what = "arithmetic";
    bound.ns = bound.arithmetic_ns > bound.read_ns ? bound.arithmetic_ns : bound.read_ns;
    if (bound.ns > 0) return bound;
    return (struct bn_bench_bound){.reason = "the limit was not measured"};
}

/* ---- output ---- */

static const char *kind_name(enum bn_bench_limit_kind kind)
{
    return kind == BN_LIMIT_READ ? "read" : kind == BN_LIMIT_INT8 ? "int8" : "float";
}

void bn_bench_limit_row(struct bn_table *t, const struct bn_bench_limit *l, const char *name)
{
    char size[BN_UNITS_ROOM];
    bn_table_row(t, "");
    if (l->kind == BN_LIMIT_READ)
        bn_table_printf(t, "reads %s%s%s", name, name[0] != '\0' ? ", " : "",
                        bn_units_text(size, (double)l->set_bytes, "bytes"));
    else
        bn_table_printf(t, "%s, %s", l->kind == BN_LIMIT_INT8 ? "bytes" : "floats", l->kernels->isa);
    bn_table_count(t, l->n_threads);
    bn_table_value(t, l->rate, l->kind == BN_LIMIT_READ ? "bytes/s" : "MAC/s");
}

/* By threads, then reads before arithmetic, then by the size of the set. */
static int by_threads(const void *a, const void *b)
{
    const struct bn_bench_limit *x = a, *y = b;
    if (x->n_threads != y->n_threads) return x->n_threads < y->n_threads ? -1 : 1;
    if (x->kind != BN_LIMIT_READ || y->kind != BN_LIMIT_READ)
        return (x->kind != BN_LIMIT_READ) - (y->kind != BN_LIMIT_READ);
    return (x->set_bytes > y->set_bytes) - (x->set_bytes < y->set_bytes);
}

bn_status bn_bench_limits_print(struct bn_bench_limits *limits, bn_error *err)
{
    static const char *const HEADS[] = {"limit", "threads", "rate", "measured with"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lrrl");
    qsort(limits->list, limits->n, sizeof *limits->list, by_threads);
    for (size_t i = 0; i < limits->n; i++) {
        const struct bn_bench_limit *l = &limits->list[i];
        if (l->rate <= 0) continue;
        bn_bench_limit_row(&t, l, "");
        bn_table_text(&t, l->instruction != NULL ? l->instruction : "");
    }
    return bn_bench_print_table(&t, err);
}

void bn_bench_limits_put(bn_json *array, const struct bn_bench_limits *limits)
{
    for (size_t i = 0; i < limits->n; i++) {
        const struct bn_bench_limit *l = &limits->list[i];
        if (l->rate <= 0) continue;
        bool read = l->kind == BN_LIMIT_READ;
        bn_json *object = bn_json_add_object(array);
        bn_json_put_string(object, "kind", kind_name(l->kind));
        bn_json_put_u64(object, "threads", l->n_threads);
        if (read) {
            bn_json_put_u64(object, "set_bytes", l->set_bytes);
            bn_json_put_number(object, "bytes_per_second", l->rate);
        } else {
            bn_json_put_string(object, "isa", l->kernels->isa);
            bn_json_put_string(object, "instruction", l->instruction);
            bn_json_put_number(object, "macs_per_second", l->rate);
        }
    }
}

/* ---- bn-bench limits ---- */

const struct bn_option bn_bench_limits_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_REPACK,
    BN_OPTION("n-prompt", "prompt lengths in tokens; 0: no prompt test", .letter = 'p', .arg = "LIST",
              .group = "Tests", .preset = "128", BN_TO_LIST(struct bn_bench_options, prompts, 0, MAX_TOKENS)),
    BN_OPTION("n-predict", "tokens to decode, one by one; 0: no decode test", .letter = 'n', .arg = "LIST",
              .group = "Tests", .preset = "16", BN_TO_LIST(struct bn_bench_options, decodes, 0, MAX_TOKENS)),
    BN_OPTION("depth", "tokens already in the context", .letter = 'd', .arg = "LIST", .group = "Tests",
              .preset = "0", BN_TO_LIST(struct bn_bench_options, depths, 0, MAX_TOKENS)),
    BN_OPTION("batch", "tokens of a prompt evaluated together, 1 to 4096", .letter = 'b', .arg = "LIST",
              .group = "Tests", .preset = "128", BN_TO_LIST(struct bn_bench_options, batches, 0, 4096)),
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
    double rate;       /* tokens per second; NaN when the test is not valid */
    double other_rate; /* that the limit permits which does not bound the test; NaN: there is none */
    const char *other; /* its name */
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
        if (c->decode || !bn_bench_reads_cache(job->m.model->kernels, k->name))
            row->work.bytes += (double)k->bytes / tokens;
        row->work.int8_macs += (double)macs.int8 * (double)k->ops / tokens;
        row->work.float_macs += (double)macs.floats * (double)k->ops / tokens;
    }
}

/* A limit that other work disturbed may be too low, so it is measured again when a test exceeds it. */
static bn_status find_bound(struct job *job, struct row *row, bn_error *err)
{
    const struct bn_kernels *kernels = job->m.model->kernels;
    unsigned n_threads = row->config->n_threads;
    struct bn_bench_bound *b = &row->bound;
    for (unsigned i = 0; i < 4 && (i == 0 || row->rate * b->ns > 1e9 / BN_BENCH_MOST_SHARE); i++) {
        BN_TRY(bn_bench_limits_measure(&job->m.h.limits, &row->work, kernels, n_threads, i > 0, err));
        *b = bn_bench_bound(&job->m.h.limits, &row->work, kernels, n_threads);
    }
    bool reads = b->read_ns >= b->arithmetic_ns;
    double ns = reads ? b->arithmetic_ns : b->read_ns;
    row->other = reads ? "arithmetic" : row->work.source;
    row->other_rate = ns > 0 ? 1e9 / ns : (double)NAN;
    return BN_OK;
}

static bn_status find_rows(struct job *job, bn_error *err)
{
    job->rows = bn_alloc(job->m.n_configs, sizeof *job->rows);
    if (job->rows == NULL) return bn_nomem(err);
    for (size_t i = 0; i < job->m.n_configs; i++) {
        struct row *row = &job->rows[i];
        const struct bn_bench_config *c = row->config = &job->m.configs[i];
        count_work(job, row);
        row->rate =
            c->verdict == BN_BENCH_VALID ? bn_bench_median_of(&job->m, c, "tokens_per_second") : (double)NAN;
        BN_TRY(find_bound(job, row, err));
    }
    return BN_OK;
}

static bn_status measure_all(struct job *job, struct bn_args *args, bn_error *err)
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
    job->source = job->m.token_bytes > job->m.h.machine.cache_l3_bytes ? "memory" : "cache";
    job->m.h.limits.budget_ns = (uint64_t)(o->min_time * 1e9);
    BN_TRY(bn_bench_measure(&job->m, err));
    return find_rows(job, err);
}

/* ---- the table ---- */

static void print_work(const struct job *job)
{
    char all[BN_UNITS_ROOM], weights[BN_UNITS_ROOM], head[BN_UNITS_ROOM], cache[BN_UNITS_ROOM];
    const struct bn_bench_reads *r = &job->reads;
    printf("model    %s, %s\n", bn_cli_model_name(job->m.h.args), bn_isa_name());
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
    bn_table_value(t, bound ? row->other_rate : (double)NAN, "1");
    if (!bound)
        bn_table_printf(t, "no limit: %s", row->bound.reason);
    else if (c->verdict != BN_BENCH_VALID)
        bn_table_printf(t, "not measured: %s", c->reason);
}

/* "reading memory", "reading the cache", "arithmetic". */
static const char *limit_words(const char *what)
{
    return strcmp(what, "memory") == 0  ? "reading memory"
           : strcmp(what, "cache") == 0 ? "reading the cache"
                                        : what;
}

/* What the limits mean for a test, in words. */
static void print_words(const struct row *row)
{
    char name[BN_BENCH_NAME], limit[BN_UNITS_ROOM], other[BN_UNITS_ROOM];
    const struct bn_bench_bound *b = &row->bound;
    if (b->what == NULL) return;
    bn_bench_config_name(row->config, name, sizeof name);
    printf("%s: %s allows %s tok/s", name, limit_words(b->what), bn_units_text(limit, 1e9 / b->ns, "1"));
    if (isfinite(row->rate)) printf(",\n  of which %.0f %% is reached", row->rate * b->ns / 1e7);
    printf(".");
    if (isfinite(row->other_rate))
        printf(" The next limit is %s, at %s.", limit_words(row->other),
               bn_units_text(other, row->other_rate, "1"));
    if (row->config->decode && b->read_ns > b->arithmetic_ns && b->arithmetic_ns > 0)
        printf("\n  Passes of several sequences can decode up to %.1f times as many tokens.",
               b->read_ns / b->arithmetic_ns);
    putchar('\n');
}

static bn_status print(struct job *job, bn_error *err)
{
    static const char *const HEADS[] = {"test",  "tokens", "depth",   "t",    "tok/s",
                                        "limit", "set by", "reached", "next", "note"};
    struct bn_table t;
    bn_bench_print_machine(&job->m.h.machine);
    print_work(job);
    bn_bench_print_others(&job->m.h.others);
    putchar('\n');
    BN_TRY(bn_bench_limits_print(&job->m.h.limits, err));
    putchar('\n');
    bn_table_begin(&t, HEADS, "lrrrrrlrrn");
    for (size_t i = 0; i < job->m.n_configs; i++)
        put_row(&t, &job->rows[i]);
    BN_TRY(bn_bench_print_table(&t, err));
    putchar('\n');
    unsigned most = job->m.o->threads.list[job->m.o->threads.n - 1];
    for (size_t i = 0; i < job->m.n_configs; i++)
        if (job->rows[i].config->n_threads == most) print_words(&job->rows[i]);
    return BN_OK;
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
    if (b->what == NULL) {
        bn_json_put_unavailable(o, "limit", b->reason);
        return;
    }
    bn_json_put_string(o, "limit", b->what);
    bn_json_put_number(o, "limit_ns", b->ns);
    bn_json_put_finite(o, "read_ns", b->read_ns > 0 ? b->read_ns : none, "it reads nothing");
    bn_json_put_finite(o, "arithmetic_ns", b->arithmetic_ns > 0 ? b->arithmetic_ns : none,
                       "it has no multiply-adds");
}

static void put_document(struct job *job)
{
    const struct bn_bench_measurement *m = &job->m;
    bn_json *token = bn_json_put_object(m->h.doc, "token");
    bn_json_put_u64(token, "depth", m->configs[0].depth);
    bn_json_put_u64(token, "weight_bytes", job->reads.weights);
    bn_json_put_u64(token, "head_bytes", job->reads.head);
    bn_json_put_u64(token, "cache_bytes", job->reads.cache);
    bn_json_put_u64(token, "set_bytes", job->set_bytes);
    for (size_t i = 0; i < m->n_configs; i++)
        put_limits(&job->rows[i]);
}

bn_status bn_bench_limits(struct bn_args *args, bn_error *err)
{
    struct job *job = bn_alloc(1, sizeof *job);
    if (job == NULL) return bn_nomem(err);
    bn_status status = measure_all(job, args, err);
    if (status == BN_OK) put_document(job);
    if (status == BN_OK && !args->json) status = print(job, err);
    status = bn_harness_finish(&job->m.h, status, err);
    bn_free(job->rows);
    bn_bench_release_run(&job->m);
    bn_free(job);
    return status;
}
