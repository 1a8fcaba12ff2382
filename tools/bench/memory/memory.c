/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: the command, and the allocator: time to allocate and free blocks, the overhead of counting
 * them, fragmentation.
 *
 * bn_alloc is calloc with a header and counters, so its overhead is the ratio of the two, measured in turn.
 */
#define _GNU_SOURCE /* mallinfo2 */
#include "tools/bench/memory/memory.h"

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

static const char *const PATTERNS[] = {"sequential", "random", "mixed"};

/* An operation allocates the block of its slot when the slot is empty, else it frees the block. */
struct trace {
    uint32_t slots[2 * OPERATIONS];
    size_t n, n_slots;
};

/* sequential frees in the order of allocation, random in a random order; mixed takes random slots, then frees what is left. */
static void make_trace(struct trace *t, const char *pattern, size_t n_slots)
{
    bool full[OPERATIONS] = {false};
    uint64_t state = n_slots;
    *t = (struct trace){.n_slots = bn_min_size(n_slots, OPERATIONS / 2)};
    for (; pattern[0] == 'm' && t->n < OPERATIONS; t->n++) {
        t->slots[t->n] = (uint32_t)bn_splitmix64_below(&state, t->n_slots);
        full[t->slots[t->n]] = !full[t->slots[t->n]];
    }
    for (size_t i = 0; i < (pattern[0] == 'm' ? 1u : 2u) * t->n_slots; i++)
        if (pattern[0] != 'm' || full[i]) t->slots[t->n++] = (uint32_t)(i % t->n_slots);
    for (size_t i = t->n_slots; pattern[0] == 'r' && i > 1; i--) {
        uint32_t *frees = t->slots + t->n_slots, last = frees[i - 1];
        size_t k = (size_t)bn_splitmix64_below(&state, i);
        frees[i - 1] = frees[k];
        frees[k] = last;
    }
}

struct allocator {
    void *(*take)(size_t n, size_t each);
    void (*give)(void *block);
};
static const struct allocator LIBC = {calloc, free}, BN = {bn_alloc, bn_free};

/* Time of all operations; 0 when an allocation failed. */
static uint64_t run_operations(const struct trace *t, const struct allocator *a, size_t size, void **blocks)
{
    bool ok = true;
    uint64_t start = bn_clock_ns();
    for (size_t i = 0; i < t->n; i++) {
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
    uint64_t ns[MAX_ROUNDS];     /* of bn_alloc and bn_free */
    double overhead[MAX_ROUNDS]; /* their time by that of calloc and free */
    size_t n;
};

/* Both allocators in turn, until min_ns is over; the first round warms up. */
static bn_status run_rounds(struct allocation *a, size_t size, uint64_t min_ns, bn_error *err)
{
    uint64_t begin = bn_clock_ns();
    for (size_t round = 0; a->n < MAX_ROUNDS; round++) {
        if (a->n >= BN_BENCH_MIN_SAMPLES && bn_clock_ns() - begin > 2 * min_ns) break;
        uint64_t libc = run_operations(&a->trace, &LIBC, size, a->blocks);
        uint64_t own = run_operations(&a->trace, &BN, size, a->blocks);
        if (libc == 0 || own == 0)
            return bn_fail(err, BN_ERR_NOMEM, "no memory for %zu blocks of %zu bytes", a->trace.n_slots,
                           size);
        if (round == 0) continue;
        a->ns[a->n] = own;
        a->overhead[a->n++] = (double)own / (double)libc;
    }
    return BN_OK;
}

static bn_status measure_pattern(struct bn_harness *s, struct allocation *a, const char *name, size_t size,
                                 bn_error *err)
{
    struct bn_harness_row row = {
        .test = name, .metric = "ns_per_operation", .per_call = (double)a->trace.n, .n_threads = 1};
    BN_TRY(run_rounds(a, size, s->min_ns, err));
    bn_json *test = bn_harness_test(s, name);
    BN_PUT_COUNTS(test, {"bytes", size}, {"operations", a->trace.n}, {"live_blocks", a->trace.n_slots});
    BN_TRY(bn_harness_put_samples(s, &row, 1, a->ns, a->n, test, err));
    BN_TRY(bn_metric_add(&s->series, name, "time_by_calloc", a->overhead, a->n, 0, err));
    bn_harness_put_row(s, &row);
    bn_table_printf(&s->table, "%.2f", bn_median(a->overhead, a->n));
    return BN_OK;
}

static bn_status measure_allocation(struct bn_harness *s, bn_error *err)
{
    static const size_t SIZES[] = {64, 1024, 4096, (size_t)1 << 20, (size_t)16 << 20};
    static const char *const HEADS[] = {"blocks", "an operation", "spread", "by calloc"};
    struct allocation *a = bn_alloc(1, sizeof *a);
    bn_status status = a != NULL ? bn_harness_table(s, HEADS, "lrrr", err) : bn_nomem(err);
    for (size_t i = 0; i < BN_ARRAY_LEN(SIZES) * BN_ARRAY_LEN(PATTERNS) && status == BN_OK; i++) {
        size_t size = SIZES[i / BN_ARRAY_LEN(PATTERNS)];
        const char *pattern = PATTERNS[i % BN_ARRAY_LEN(PATTERNS)];
        char test[96], text[BN_UNITS_ROOM];
        snprintf(test, sizeof test, "bn_alloc %s %s", pattern, bn_units_text(text, (double)size, "bytes"));
        if (!bn_harness_wants(s, test)) continue;
        *a = (struct allocation){0};
        make_trace(&a->trace, pattern, LIVE_BYTES / size);
        status = measure_pattern(s, a, test, size, err);
    }
    bn_free(a);
    return status;
}

/* ---- fragmentation, peak ---- */

#define BLOCKS 20000u
#define ROUNDS 5u

uint64_t bn_memory_held(void)
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
    held = bn_memory_held();
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
    BN_PUT_COUNTS(o, {"live_bytes", live}, {"heap_bytes", held});
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
