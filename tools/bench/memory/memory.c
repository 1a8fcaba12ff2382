/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: the command, and the allocator: time to allocate and free blocks, the overhead of counting
 * them, fragmentation.
 *
 * bn_alloc is calloc with a header and counters, so its overhead is the ratio of the two, measured in turn.
 */
#define _GNU_SOURCE /* mallinfo2 */
#include "tools/bench/memory/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lab/report/units.h"

#define OPERATIONS 2000u
#define MAX_ROUNDS 200u
#define LIVE_BYTES ((size_t)256 << 20) /* at most, at once */

const struct bn_option bn_bench_memory_options[] = {BN_OPTION_MODEL, {0}};

/* ---- allocation ---- */

enum pattern { SEQUENTIAL, RANDOM, MIXED };
static const char *const PATTERNS[] = {"sequential", "random", "mixed"};

/* An operation allocates the block of its slot when the slot is empty, else it frees the block. */
struct trace {
    uint32_t slots[2 * OPERATIONS];
    size_t n, n_slots;
    size_t n_first; /* leading operations that only allocate; 0 of mixed */
};

/* sequential frees in the order of allocation, random in a random order; mixed takes random slots. */
static void make_trace(struct trace *t, enum pattern pattern, size_t n_slots)
{
    bool full[OPERATIONS] = {false};
    uint64_t state = n_slots;
    *t = (struct trace){.n_slots = bn_min_size(n_slots, OPERATIONS / 2)};
    for (; pattern == MIXED && t->n < OPERATIONS; t->n++) {
        t->slots[t->n] = (uint32_t)bn_splitmix64_below(&state, t->n_slots);
        full[t->slots[t->n]] = !full[t->slots[t->n]];
    }
    for (size_t i = 0; i < t->n_slots; i++)
        if (pattern != MIXED || full[i]) t->slots[t->n++] = (uint32_t)i;
    if (pattern == MIXED) return;
    t->n_first = t->n;
    for (size_t i = 0; i < t->n_slots; i++)
        t->slots[t->n++] = (uint32_t)i;
    for (size_t i = t->n_slots; pattern == RANDOM && i > 1; i--) {
        size_t k = (size_t)bn_splitmix64_below(&state, i);
        uint32_t last = t->slots[t->n_first + i - 1];
        t->slots[t->n_first + i - 1] = t->slots[t->n_first + k];
        t->slots[t->n_first + k] = last;
    }
}

struct allocator {
    void *(*take)(size_t n, size_t each);
    void (*give)(void *block);
};
static const struct allocator LIBC = {calloc, free}, BN = {bn_alloc, bn_free};

/* Time of the operations from .. to; 0 when an allocation failed. */
static uint64_t run_operations(const struct trace *t, size_t from, size_t to, const struct allocator *a,
                               size_t size, void **blocks)
{
    bool ok = true;
    uint64_t start = bn_clock_ns();
    for (size_t i = from; i < to; i++) {
        void **block = &blocks[t->slots[i]];
        if (*block == NULL) {
            *block = a->take(size, 1);
            ok = ok && *block != NULL;
        } else {
            a->give(*block);
            *block = NULL;
        }
    }
    return ok ? bn_clock_ns() - start : 0;
}

struct allocation {
    struct trace trace;
    void *blocks[OPERATIONS];
    uint64_t first[MAX_ROUNDS], rest[MAX_ROUNDS]; /* nanoseconds of bn_alloc and bn_free */
    double overhead[MAX_ROUNDS];                  /* their time by that of calloc and free */
    size_t n;
};

/* Both allocators in turn, until min_ns is over; the first round warms up. */
static bn_status run_rounds(struct allocation *a, size_t size, uint64_t min_ns, bn_error *err)
{
    const struct trace *t = &a->trace;
    uint64_t begin = bn_clock_ns();
    for (size_t round = 0; a->n < MAX_ROUNDS; round++) {
        if (a->n >= BN_BENCH_MIN_SAMPLES && bn_clock_ns() - begin > 2 * min_ns) break;
        uint64_t libc = run_operations(t, 0, t->n, &LIBC, size, a->blocks);
        uint64_t first = run_operations(t, 0, t->n_first, &BN, size, a->blocks);
        uint64_t rest = run_operations(t, t->n_first, t->n, &BN, size, a->blocks);
        if (libc == 0 || rest == 0)
            return bn_fail(err, BN_ERR_NOMEM, "no memory for %zu blocks of %zu bytes", t->n_slots, size);
        if (round == 0) continue;
        a->first[a->n] = first;
        a->rest[a->n] = rest;
        a->overhead[a->n++] = (double)(first + rest) / (double)libc;
    }
    return BN_OK;
}

/* A row of nanoseconds per operation; its median, NaN when it is invalid. */
static bn_status put_part(struct bn_harness *s, bn_json *test, const char *metric, const uint64_t *ns,
                          size_t n, size_t n_operations, double *median, bn_error *err)
{
    struct bn_harness_row row = {.test = bn_json_text_of(test, "name"),
                                 .metric = metric,
                                 .per_call = (double)n_operations,
                                 .n_threads = 1};
    BN_TRY(bn_harness_put_samples(s, &row, 1, ns, n, test, err));
    if (row.valid) *median = row.ns.median;
    return BN_OK;
}

static bn_status put_allocation(struct bn_harness *s, const struct allocation *a, const char *name,
                                bool mixed, size_t size, bn_error *err)
{
    const struct trace *t = &a->trace;
    const double none = (double)NAN;
    double first = none, rest = none;
    bn_json *test = bn_harness_test(s, name);
    bn_json_put_u64(test, "bytes", size);
    bn_json_put_u64(test, "operations", t->n);
    bn_json_put_u64(test, "live_blocks", t->n_slots);
    if (!mixed) BN_TRY(put_part(s, test, "ns_per_allocation", a->first, a->n, t->n_first, &first, err));
    BN_TRY(put_part(s, test, mixed ? "ns_per_operation" : "ns_per_release", a->rest, a->n, t->n - t->n_first,
                    &rest, err));
    BN_TRY(bn_metric_add(&s->series, name, "time_by_calloc", a->overhead, a->n, 0, err));
    bn_table_row(&s->table, "");
    bn_table_text(&s->table, name);
    bn_table_value(&s->table, first, "ns");
    bn_table_value(&s->table, mixed ? none : rest, "ns");
    bn_table_value(&s->table, mixed ? rest : none, "ns");
    bn_table_printf(&s->table, "%.2f", bn_median(a->overhead, a->n));
    return BN_OK;
}

static bn_status measure_allocation(struct bn_harness *s, bn_error *err)
{
    static const size_t SIZES[] = {64, 1024, 4096, (size_t)1 << 20, (size_t)16 << 20};
    static const char *const HEADS[] = {"blocks", "to allocate", "to free", "either", "by calloc"};
    BN_TRY(bn_harness_table(s, HEADS, "lrrrr", err));
    for (size_t i = 0; i < BN_ARRAY_LEN(SIZES) * BN_ARRAY_LEN(PATTERNS); i++) {
        size_t size = SIZES[i / BN_ARRAY_LEN(PATTERNS)];
        enum pattern pattern = (enum pattern)(i % BN_ARRAY_LEN(PATTERNS));
        char test[96], text[BN_UNITS_ROOM];
        snprintf(test, sizeof test, "bn_alloc %s %s", PATTERNS[pattern],
                 bn_units_text(text, (double)size, "bytes"));
        if (!bn_harness_wants(s, test)) continue;
        struct allocation *a = bn_alloc(1, sizeof *a);
        if (a == NULL) return bn_nomem(err);
        make_trace(&a->trace, pattern, LIVE_BYTES / size);
        bn_status status = run_rounds(a, size, s->min_ns, err);
        if (status == BN_OK) status = put_allocation(s, a, test, pattern == MIXED, size, err);
        bn_free(a);
        BN_TRY(status);
    }
    return BN_OK;
}

/* ---- fragmentation, peak ---- */

#define BLOCKS 20000u
#define ROUNDS 5u

/* Bytes that the heap holds, in use or free; 0 where the C library does not report it. */
static uint64_t heap_bytes(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();
    return info.arena + info.hblkhd;
#else
    return 0;
#endif
}

/* Half of the blocks are freed, others of other sizes allocated. */
static void churn(void **blocks, uint64_t *state)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] == NULL) {
            blocks[i] = bn_alloc(16 + (size_t)bn_splitmix64_below(state, 4081), 1);
        } else if (bn_splitmix64_below(state, 2) == 0) {
            bn_free(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

/* The share of the heap that no block uses: headers, rounding and free memory. */
static bn_status measure_fragmentation(struct bn_harness *s, bn_error *err)
{
    uint64_t state = 7, held = 0, live = 0;
    if (!bn_harness_wants(s, "fragmentation")) return BN_OK;
    void **blocks = bn_alloc(BLOCKS, sizeof *blocks);
    if (blocks == NULL) return bn_nomem(err);
    for (size_t round = 0; round < ROUNDS; round++)
        churn(blocks, &state);
    held = heap_bytes();
    live = bn_mem_stats().bytes_now;
    for (size_t i = 0; i < BLOCKS; i++)
        bn_free(blocks[i]);
    bn_free(blocks);
    if (held < live) {
        bn_harness_skip(s, "fragmentation", "the C library does not report its heap");
        return BN_OK;
    }
    double share = 1 - (double)live / (double)held;
    bn_json *o = bn_harness_test(s, "fragmentation");
    bn_json_put_u64(o, "live_bytes", live);
    bn_json_put_u64(o, "heap_bytes", held);
    bn_harness_judge(s, o, BN_BENCH_VALID, NULL);
    bn_harness_print(s, "\n%-28s %9.1f %% of %.1f MiB, after %u rounds of freeing half the blocks\n",
                     "fragmentation", 100 * share, (double)held / 0x1p20, ROUNDS);
    return BN_OK;
}

/* ---- the command ---- */

static bn_status run(struct bn_harness *s, struct bn_args *args, bn_error *err)
{
    BN_TRY(bn_harness_open(s, args, "memory", err));
    BN_TRY(measure_allocation(s, err));
    BN_TRY(bn_harness_flush(s, err));
    BN_TRY(measure_fragmentation(s, err));
    BN_TRY(bn_memory_bandwidth(s, err));
    BN_TRY(bn_memory_latency(s, err));
    return bn_memory_model(s, err);
}

bn_status bn_bench_memory(struct bn_args *args, bn_error *err)
{
    struct bn_harness *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    bn_status status = run(s, args, err);
    status = bn_harness_finish(s, status, err);
    bn_free(s);
    return status;
}
