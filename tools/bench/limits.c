/* SPDX-License-Identifier: MIT
 *
 * Measures the limits of this machine: read bandwidth and the peaks of arithmetic.
 */
#include "tools/bench/limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/peak.h"
#include "lab/host/meters.h"
#include "model/device.h"
#include "model/model.h"
#include "tools/bench/bench.h"
#include "tools/bench/harness.h"

#define MEMORY_BYTES ((size_t)16 << 20) /* sets from this size on are measured longer: memory is noisy */
#define TURNS 20000u                    /* of a loop of arithmetic: some 100 us */

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

static bn_status measure_one(const struct bn_bench_limits *limits, struct bn_bench_limit *limit,
                             uint64_t budget_ns, bn_error *err)
{
    static const enum bn_device_limit OF_DEVICE[] = {[BN_LIMIT_READ] = BN_DEVICE_READ,
                                                     [BN_LIMIT_INT8] = BN_DEVICE_INT8,
                                                     [BN_LIMIT_COPY] = BN_DEVICE_COPY,
                                                     [BN_LIMIT_LAUNCH] = BN_DEVICE_LAUNCH};
    if (limits->device == NULL) return bn_bench_limit_measure(limit, budget_ns, err);
    limit->rate = 0;
    if (limit->kind == BN_LIMIT_INT8)
        limit->instruction = bn_device_facts(limits->device)->has_dot ? "dot of 4 bytes" : "multiplications";
    return limit->kind == BN_LIMIT_FLOAT ? BN_OK
                                         : bn_device_measure(limits->device, OF_DEVICE[limit->kind],
                                                             limit->set_bytes, budget_ns, &limit->rate, err);
}

/* Again: something exceeded a known limit, so it is measured longer, and the greater rate stays. */
static bn_status measure(struct bn_bench_limits *limits, struct bn_bench_limit wanted, bool again,
                         bn_error *err)
{
    struct bn_bench_limit *known = find(limits, &wanted);
    bool memory = wanted.kind == BN_LIMIT_READ && wanted.set_bytes >= MEMORY_BYTES;
    if (known != NULL && !again) return BN_OK;
    BN_TRY(bn_array_grow(&limits->list, &limits->room, limits->n + 1, sizeof *limits->list, err));
    BN_TRY(
        measure_one(limits, &wanted, limits->budget_ns * (memory ? 10 : 1) * (known != NULL ? 4 : 1), err));
    known = find(limits, &wanted); /* the list may have moved */
    if (known == NULL)
        limits->list[limits->n++] = wanted;
    else if (wanted.rate > known->rate)
        known->rate = wanted.rate;
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

bn_status bn_bench_limits_others(struct bn_bench_limits *limits, size_t set_bytes, bn_error *err)
{
    struct bn_bench_limit copy = {.kind = BN_LIMIT_COPY, .n_threads = 1, .set_bytes = set_bytes};
    struct bn_bench_limit launch = {.kind = BN_LIMIT_LAUNCH, .n_threads = 1};
    if (limits->device == NULL) return BN_OK;
    BN_TRY(measure(limits, copy, false, err));
    return measure(limits, launch, false, err);
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

static bn_status measure_case(struct bn_bench_limits *limits, const struct bn_bench_case *c,
                              const struct bn_kernels *kernels, unsigned n_threads, bool again, bn_error *err)
{
    if (c->no_limit) return BN_OK;
    if (c->int8_macs > 0) BN_TRY(measure(limits, arithmetic(BN_LIMIT_INT8, kernels, n_threads), again, err));
    if (c->float_macs > 0)
        BN_TRY(measure(limits, arithmetic(BN_LIMIT_FLOAT, kernels, n_threads), again, err));
    return measure(limits, reading(c, n_threads), again, err);
}

/* ---- bounds ---- */

/* Is this the name of the kernel in a slot, here or on the model's device ("SLOT_opencl")? */
static bool is_kernel(const bn_model *model, enum bn_kernel slot, const char *name)
{
    const char *here = bn_kernel_slot_name(slot);
    size_t n = strlen(here);
    if (model->device == NULL) return strcmp(model->kernels->name[slot], name) == 0;
    return strncmp(name, here, n) == 0 && strcmp(name + n, "_opencl") == 0;
}

struct bn_bench_macs bn_bench_macs_of(const bn_model *model, const char *name)
{
    const unsigned planes = model->wide ? 2 : 1; /* of activations for weights in tiles */
    const struct {
        enum bn_kernel slot;
        struct bn_bench_macs macs;
    } KNOWN[] = {
        {BN_KERNEL_T5_GEMV, {1, 0}},           {BN_KERNEL_I8_GEMM, {2, 0}}, /* two planes of bytes */
        {BN_KERNEL_TERNARY_GEMV, {planes, 0}}, {BN_KERNEL_TERNARY_GEMM, {planes, 0}},
        {BN_KERNEL_F16_GEMM, {0, 1}},          {BN_KERNEL_F32_GEMM, {0, 1}},
        {BN_KERNEL_ATTN_SCORES, {0, 1}},       {BN_KERNEL_ATTN_VALUES, {0, 1}},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++)
        if (is_kernel(model, KNOWN[i].slot, name)) return KNOWN[i].macs;
    return (struct bn_bench_macs){0};
}

bool bn_bench_reads_cache(const bn_model *model, const char *name)
{
    return is_kernel(model, BN_KERNEL_ATTN_SCORES, name) || is_kernel(model, BN_KERNEL_ATTN_VALUES, name);
}

static struct bn_bench_bound find_bound(const struct bn_bench_limits *limits, const struct bn_bench_case *c,
                                        const struct bn_kernels *kernels, unsigned n_threads)
{
    if (c->no_limit) return (struct bn_bench_bound){.reason = "exponentials, for which no limit is measured"};
    if (limits->device == NULL && bn_peak_of(kernels)->int8 == NULL)
        return (struct bn_bench_bound){.reason = "plain C, for which no limit is measured"};
    const struct bn_bench_limit *read = find(limits, (struct bn_bench_limit[]){reading(c, n_threads)});
    struct bn_bench_bound bound = {.what = c->source};
    if (read != NULL && read->rate > 0) bound.read_ns = c->bytes * 1e9 / read->rate;
    for (unsigned i = BN_LIMIT_INT8; i <= BN_LIMIT_FLOAT; i++) {
        struct bn_bench_limit wanted = arithmetic((enum bn_bench_limit_kind)i, kernels, n_threads);
        const struct bn_bench_limit *l = find(limits, &wanted);
        double macs = i == BN_LIMIT_INT8 ? c->int8_macs : c->float_macs;
        if (l != NULL && l->rate > 0) bound.arithmetic_ns += macs * 1e9 / l->rate;
    }
    if (bound.arithmetic_ns > bound.read_ns) bound.what = "arithmetic";
    bound.ns = bound.arithmetic_ns > bound.read_ns ? bound.arithmetic_ns : bound.read_ns;
    if (bound.ns > 0) return bound;
    return (struct bn_bench_bound){.reason = "the limit was not measured"};
}

bn_status bn_bench_limits_bound(struct bn_bench_limits *limits, const struct bn_bench_case *c,
                                const struct bn_kernels *kernels, unsigned n_threads, double ns,
                                struct bn_bench_bound *bound, bn_error *err)
{
    if (limits->device != NULL) n_threads = 1; /* its limits do not depend on them */
    for (unsigned i = 0; i < 4 && (i == 0 || bound->ns > BN_BENCH_MOST_SHARE * ns); i++) {
        BN_TRY(measure_case(limits, c, kernels, n_threads, i > 0, err));
        *bound = find_bound(limits, c, kernels, n_threads);
    }
    return BN_OK;
}

void bn_bench_bound_put(bn_json *object, const struct bn_bench_bound *bound)
{
    bn_json_put_known(object, "limit", bound->what != NULL ? bound->what : "", bound->reason);
    if (bound->what != NULL) bn_json_put_number(object, "limit_ns", bound->ns);
}

/* ---- output ---- */

/* By threads, then reads before arithmetic, then by the size of the set. */
static int by_threads(const void *a, const void *b)
{
    const struct bn_bench_limit *x = a, *y = b;
    if (x->n_threads != y->n_threads) return x->n_threads < y->n_threads ? -1 : 1;
    if (x->kind != BN_LIMIT_READ || y->kind != BN_LIMIT_READ)
        return (x->kind != BN_LIMIT_READ) - (y->kind != BN_LIMIT_READ);
    return (x->set_bytes > y->set_bytes) - (x->set_bytes < y->set_bytes);
}

static bool counts_bytes(const struct bn_bench_limit *l)
{
    return l->kind == BN_LIMIT_READ || l->kind == BN_LIMIT_COPY;
}

static const char *isa_of(const struct bn_bench_limits *limits, const struct bn_bench_limit *l)
{
    return limits->device != NULL ? "opencl" : l->kernels->isa;
}

bn_status bn_bench_limits_print(struct bn_bench_limits *limits, bn_error *err)
{
    static const char *const HEADS[] = {"limit", "threads", "rate", "measured with"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lrrl");
    if (limits->n > 0) qsort(limits->list, limits->n, sizeof *limits->list, by_threads);
    for (size_t i = 0; i < limits->n; i++) {
        const struct bn_bench_limit *l = &limits->list[i];
        char size[BN_UNITS_ROOM];
        bool bytes = counts_bytes(l);
        if (l->rate <= 0) continue;
        bn_table_row(&t, "");
        if (bytes)
            bn_table_printf(&t, "%s %s", l->kind == BN_LIMIT_READ ? "reads" : "copies",
                            bn_units_text(size, (double)l->set_bytes, "bytes"));
        else if (l->kind == BN_LIMIT_LAUNCH)
            bn_table_text(&t, "launches");
        else
            bn_table_printf(&t, "%s, %s", l->kind == BN_LIMIT_INT8 ? "bytes" : "floats", isa_of(limits, l));
        if (limits->device != NULL)
            bn_table_text(&t, "device");
        else
            bn_table_count(&t, l->n_threads);
        bn_table_value(&t, l->rate, bytes ? "bytes/s" : l->kind == BN_LIMIT_LAUNCH ? "1/s" : "MAC/s");
        bn_table_text(&t, !bytes && l->instruction != NULL ? l->instruction : "");
    }
    return bn_cli_print_table(&t, err);
}

void bn_bench_limits_put(bn_json *array, const struct bn_bench_limits *limits)
{
    for (size_t i = 0; i < limits->n; i++) {
        const struct bn_bench_limit *l = &limits->list[i];
        if (l->rate <= 0) continue;
        static const char *const KINDS[] = {"read", "int8", "float", "copy", "launch"};
        bn_json *object = bn_json_add_object(array);
        bn_json_put_string(object, "kind", KINDS[l->kind]);
        if (limits->device == NULL) bn_json_put_u64(object, "threads", l->n_threads);
        if (counts_bytes(l)) {
            bn_json_put_u64(object, "set_bytes", l->set_bytes);
            bn_json_put_number(object, "bytes_per_second", l->rate);
        } else if (l->kind == BN_LIMIT_LAUNCH) {
            bn_json_put_number(object, "launches_per_second", l->rate);
        } else {
            BN_PUT_STRINGS(object, {"isa", isa_of(limits, l)}, {"instruction", l->instruction});
            bn_json_put_number(object, "macs_per_second", l->rate);
        }
    }
}
