/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: taking and giving back blocks, by size and pattern, from the library's allocator and from
 * libc's. bn_alloc is calloc with a header and counters, so calloc is what its cost is held against; malloc
 * alone does not clear memory. The three take turns, sample by sample.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "tools/bench/memory/memory.h"

#define MAX_ROUNDS 200u
#define LIVE_BYTES ((size_t)256 << 20) /* at most, at once */

/* ---- traces ---- */

static void shuffle(int32_t *values, size_t n, uint64_t *state)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(bn_splitmix64(state) % i);
        int32_t v = values[i - 1];
        values[i - 1] = values[k];
        values[k] = v;
    }
}

static void fill_mixed(struct bn_trace *t, size_t n_ops, uint64_t *state, int32_t *live, int32_t *spare)
{
    size_t n_live = 0, n_spare = t->n_slots;
    for (size_t i = 0; i < t->n_slots; i++)
        spare[i] = (int32_t)(t->n_slots - 1 - i);
    while (t->n + n_live + 2 <= n_ops) {
        bool take = bn_splitmix64(state) % 10 < 7;
        if (n_spare == 0) take = false;
        if (n_live == 0) take = true;
        if (take) {
            live[n_live++] = spare[--n_spare];
            t->ops[t->n++] = live[n_live - 1];
            continue;
        }
        size_t k = (size_t)(bn_splitmix64(state) % n_live);
        spare[n_spare++] = live[k];
        t->ops[t->n++] = ~live[k];
        live[k] = live[--n_live];
    }
    while (n_live > 0)
        t->ops[t->n++] = ~live[--n_live];
}

bn_status bn_trace_make(struct bn_trace *out, enum bn_pattern pattern, size_t n_ops, size_t n_slots,
                        uint64_t seed, bn_error *err)
{
    if (n_slots > n_ops / 2) n_slots = n_ops / 2;
    *out = (struct bn_trace){.ops = bn_alloc(n_ops, sizeof *out->ops), .n_slots = n_slots};
    int32_t *order = bn_alloc(2 * n_slots, sizeof *order);
    if (out->ops == NULL || order == NULL) {
        bn_free(order);
        bn_trace_release(out);
        return bn_nomem(err);
    }
    if (pattern == BN_PATTERN_MIXED) {
        fill_mixed(out, n_ops, &seed, order, order + n_slots);
    } else {
        for (size_t i = 0; i < n_slots; i++)
            out->ops[i] = order[i] = (int32_t)i;
        if (pattern == BN_PATTERN_RANDOM) shuffle(order, n_slots, &seed);
        for (size_t i = 0; i < n_slots; i++)
            out->ops[n_slots + i] = ~order[i];
        out->n_first = n_slots;
        out->n = 2 * n_slots;
    }
    bn_free(order);
    return BN_OK;
}

void bn_trace_release(struct bn_trace *trace)
{
    bn_free(trace->ops);
    *trace = (struct bn_trace){0};
}

uint64_t bn_trace_hash(const struct bn_trace *trace)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < trace->n; i++)
        for (unsigned shift = 0; shift < 32; shift += 8)
            hash = (hash ^ ((uint32_t)trace->ops[i] >> shift & 0xFF)) * UINT64_C(0x100000001B3);
    return hash;
}

/* ---- allocators ---- */

static void *take_malloc(size_t n)
{
    return malloc(n);
}
static void *take_calloc(size_t n)
{
    return calloc(1, n);
}
static void *take_bn(size_t n)
{
    return bn_alloc(n, 1);
}

static const struct allocator {
    const char *name;
    void *(*take)(size_t n);
    void (*give)(void *p);
} ALLOCATORS[] = {
    {"malloc", take_malloc, free}, {"calloc", take_calloc, free}, {"bn_alloc", take_bn, bn_free}};
#define N_ALLOCATORS BN_ARRAY_LEN(ALLOCATORS)
static const char *const PATTERNS[] = {"sequential", "random", "mixed"};

/* Operations from .. to; false when memory is short. */
static bool run_ops(const struct bn_trace *t, size_t from, size_t to, const struct allocator *a, size_t size,
                    void **slots)
{
    bool ok = true;
    for (size_t i = from; i < to; i++) {
        int32_t op = t->ops[i];
        if (op >= 0) {
            slots[op] = a->take(size);
            ok = ok && slots[op] != NULL;
        } else {
            a->give(slots[~op]);
        }
    }
    return ok;
}

struct round_times {
    uint64_t first[N_ALLOCATORS][MAX_ROUNDS], rest[N_ALLOCATORS][MAX_ROUNDS];
    size_t n;
};

/* All allocators in turn, one round of the trace each, until the time is over. */
static bool run_rounds(struct round_times *times, const struct bn_trace *t, size_t size, uint64_t min_ns,
                       void **slots)
{
    bool ok = true;
    uint64_t begin = bn_clock_ns();
    for (size_t a = 0; a < N_ALLOCATORS; a++) /* warms up */
        ok = run_ops(t, 0, t->n, &ALLOCATORS[a], size, slots) && ok;
    for (times->n = 0; ok && times->n < MAX_ROUNDS; times->n++) {
        if (times->n >= BN_BENCH_MIN_SAMPLES && bn_clock_ns() - begin > N_ALLOCATORS * min_ns) break;
        for (size_t a = 0; a < N_ALLOCATORS; a++) {
            uint64_t start = bn_clock_ns();
            ok = run_ops(t, 0, t->n_first, &ALLOCATORS[a], size, slots) && ok;
            uint64_t middle = bn_clock_ns();
            ok = run_ops(t, t->n_first, t->n, &ALLOCATORS[a], size, slots) && ok;
            times->rest[a][times->n] = bn_clock_ns() - middle;
            times->first[a][times->n] = middle - start;
        }
    }
    return ok;
}

/* ---- rows ---- */

static bn_status put_part(struct bn_suite *s, const char *name, const char *metric, const uint64_t *ns,
                          size_t n, size_t n_ops, bn_json *r, struct bn_summary *out, bn_error *err)
{
    struct bn_suite_row row = {.test = name, .metric = metric, .per_call = (double)n_ops, .n_threads = 1};
    bn_json *part = bn_json_put_object(r, metric);
    BN_TRY(bn_suite_put_samples(s, &row, 1, ns, n, part, err));
    if (row.valid) bn_json_put_number(part, "operations_per_second", 1e9 / row.ns.median);
    *out = row.ns;
    return BN_OK;
}

static bn_status put_allocator(struct bn_suite *s, size_t a, size_t size, enum bn_pattern pattern,
                               const struct bn_trace *t, const struct round_times *times, bn_json *all,
                               bn_error *err)
{
    char name[96], text[24], hash[20];
    struct bn_summary first = {0}, rest;
    size_t n_rest = t->n - t->n_first;
    bn_suite_size(text, size);
    snprintf(name, sizeof name, "%s %s %s", ALLOCATORS[a].name, PATTERNS[pattern], text);
    if (!bn_suite_wants(s, name)) return BN_OK;
    bn_json *r = bn_json_add_object(all);
    bn_json_put_string(r, "test", name);
    bn_json_put_string(r, "allocator", ALLOCATORS[a].name);
    bn_json_put_string(r, "pattern", PATTERNS[pattern]);
    bn_json_put_u64(r, "bytes", size);
    bn_json_put_u64(r, "operations", t->n);
    bn_json_put_u64(r, "live_blocks", t->n_slots);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)bn_trace_hash(t));
    bn_json_put_string(r, "trace", hash);
    if (pattern == BN_PATTERN_MIXED) {
        BN_TRY(put_part(s, name, "ns_per_operation", times->rest[a], times->n, n_rest, r, &rest, err));
        bn_suite_print(s, "%-32s %10s %10s %10.1f  +- %4.1f %%\n", name, "-", "-", rest.median,
                       100 * rest.mad / rest.median);
        return BN_OK;
    }
    BN_TRY(put_part(s, name, "ns_per_allocation", times->first[a], times->n, t->n_first, r, &first, err));
    BN_TRY(put_part(s, name, "ns_per_release", times->rest[a], times->n, n_rest, r, &rest, err));
    bn_suite_print(s, "%-32s %10.1f %10.1f %10s  +- %4.1f %%\n", name, first.median, rest.median, "-",
                   100 * first.mad / first.median);
    return BN_OK;
}

/* What counting costs: bn_alloc by calloc, each round by itself. */
static void put_tracking(const struct round_times *times, size_t size, enum bn_pattern pattern, bn_json *all)
{
    double ratios[MAX_ROUNDS];
    for (size_t i = 0; i < times->n; i++)
        ratios[i] = (double)(times->first[2][i] + times->rest[2][i]) /
                    (double)(times->first[1][i] + times->rest[1][i] + 1);
    bn_json *r = bn_json_add_object(all);
    bn_json_put_u64(r, "bytes", size);
    bn_json_put_string(r, "pattern", PATTERNS[pattern]);
    bn_bench_put_summary(r, "basic_by_none", ratios, times->n);
    bn_json_put_unavailable(r, "detailed_by_none", "no stacks are kept; valgrind --tool=dhat keeps them");
}

static bn_status measure(struct bn_suite *s, size_t size, enum bn_pattern pattern, size_t n_ops, bn_json *all,
                         bn_json *tracking, bn_error *err)
{
    struct bn_trace t;
    size_t n_slots = LIVE_BYTES / size;
    BN_TRY(bn_trace_make(&t, pattern, n_ops, n_slots, size, err));
    void **slots = bn_alloc(t.n_slots, sizeof *slots);
    struct round_times *times = bn_alloc(1, sizeof *times);
    bn_status status = BN_OK;
    if (slots == NULL || times == NULL || !run_rounds(times, &t, size, s->min_ns, slots))
        status = bn_fail(err, BN_ERR_NOMEM, "no memory for %zu blocks of %zu bytes", t.n_slots, size);
    for (size_t a = 0; a < N_ALLOCATORS && status == BN_OK; a++)
        status = put_allocator(s, a, size, pattern, &t, times, all, err);
    if (status == BN_OK) put_tracking(times, size, pattern, tracking);
    bn_free(slots);
    bn_free(times);
    bn_trace_release(&t);
    return status;
}

static bool is_wanted(struct bn_suite *s, size_t size, enum bn_pattern pattern)
{
    char name[96], text[24];
    bool wanted = false;
    bn_suite_size(text, size);
    for (size_t a = 0; a < N_ALLOCATORS; a++) {
        snprintf(name, sizeof name, "%s %s %s", ALLOCATORS[a].name, PATTERNS[pattern], text);
        wanted = wanted || bn_suite_wants(s, name);
    }
    return wanted;
}

bn_status bn_memory_allocation(struct bn_suite *s, uint32_t n_ops, bn_error *err)
{
    static const size_t SIZES[] = {64, 256, 1024, 4096, 65536, 1u << 20, 16u << 20};
    bool head = false;
    bn_json *all = bn_json_put_array(s->doc, "allocation");
    bn_json *tracking = bn_json_put_array(s->doc, "tracking");
    for (size_t i = 0; i < BN_ARRAY_LEN(SIZES); i++)
        for (size_t p = 0; p < BN_ARRAY_LEN(PATTERNS); p++) {
            if (!is_wanted(s, SIZES[i], (enum bn_pattern)p)) continue;
            if (!head)
                bn_suite_print(s, "\n%-32s %10s %10s %10s\n", "blocks", "ns/take", "ns/give", "ns/either");
            head = true;
            BN_TRY(measure(s, SIZES[i], (enum bn_pattern)p, n_ops, all, tracking, err));
        }
    return BN_OK;
}
