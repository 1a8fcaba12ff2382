/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: the command; the allocator: time to allocate and free blocks, the overhead of counting them,
 * fragmentation; bandwidth and latency.
 *
 * bn_alloc is calloc with a header and counters, so its overhead is the ratio of the two, measured in turn.
 */
#define _GNU_SOURCE /* mallinfo2 */
#include "tools/bench/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/clock.h"
#include "base/random.h"
#include "base/team.h"
#include "kernels/peak.h"

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

/* ---- bandwidth and latency, by the size of the set ----
 *
 * The loops are those of the widest instruction set (kernels/peak.h). A loop that writes has two rates: by the bytes that it
 * names, and with one more for each byte that it stores, since a cache reads a line before a part of it is written (RFO).
 * Stores past the caches do not read the line. Latency is a chain of loads through all lines of a set in a random cycle: each
 * address comes from the load before. */

#define LINE 64u
#define HUGE_PAGE ((size_t)2 << 20)
#define GRAIN 1024u /* floats of an array that stay with one thread */
#define LEAST_MEMORY ((uint64_t)64 << 20)
#define MOST_SET ((uint64_t)256 << 20)

/* Sets for every level: a quarter of the first cache, of L2 and L3, and four times the last. */
static size_t choose_sets(const struct bn_machine *m, size_t sets[4])
{
    uint64_t last = m->cache_l3_bytes > 0 ? m->cache_l3_bytes : m->cache_l2_bytes;
    uint64_t most = 4 * last > LEAST_MEMORY ? 4 * last : LEAST_MEMORY, n = 0;
    sets[n++] = (size_t)12 << 10; /* smaller than half of any first cache */
    if (m->cache_l2_bytes > 0) sets[n++] = (size_t)(m->cache_l2_bytes / 4);
    if (m->cache_l3_bytes > 0) sets[n++] = (size_t)(m->cache_l3_bytes / 4);
    sets[n++] = (size_t)(most < MOST_SET ? most : MOST_SET);
    return (size_t)n;
}

static const struct stream {
    const char *name;
    enum bn_peak_stream stream;
    unsigned n_read;
    float result; /* with ones in b and twos in c */
} STREAMS[] = {{"copy", BN_STREAM_COPY, 1, 1.0f},
               {"scale", BN_STREAM_SCALE, 1, 3.0f},
               {"add", BN_STREAM_ADD, 2, 3.0f},
               {"triad", BN_STREAM_TRIAD, 2, 7.0f},
               {"copy-past-caches", BN_STREAM_COPY_PAST, 1, 1.0f}};

struct stream_work {
    const struct bn_peak *peak;
    const struct stream *stream;
    float *a, *b, *c;
    size_t n; /* floats in each array */
};

static void run_streams(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads)
{
    const struct stream_work *w = arg;
    size_t from, to;
    (void)first;
    bn_team_share(w->n, GRAIN, thread, n_threads, &from, &to);
    for (uint64_t i = 0; i < n; i++)
        w->peak->stream(w->stream->stream, w->a + from, w->b + from, w->c + from, to - from);
}

/* The result of the calls that were timed. */
static const char *differs(char why[160], const void *arg)
{
    const struct stream_work *w = arg;
    for (size_t i = 0; i < w->n; i++)
        if (w->a[i] != w->stream->result) {
            snprintf(why, 160, "element %zu is %g, the loop computes %g", i, (double)w->a[i],
                     (double)w->stream->result);
            return why;
        }
    return NULL;
}

/* One loop over a set; near: it stays in the first cache. */
static bn_status put_stream(struct bn_harness *s, struct stream_work *w, size_t set, bool near,
                            unsigned n_threads, bn_error *err)
{
    char name[96], size[BN_UNITS_ROOM];
    const struct stream *of = w->stream;
    bool past = of->stream == BN_STREAM_COPY_PAST, lines = !near || past;
    double each = (double)(w->n * sizeof(float)), counted = each * (of->n_read + 1);
    double traffic = lines ? counted + (past ? 0 : each) : (double)NAN;
    struct bn_bench_body body = {run_streams, w};
    struct bn_harness_row row = {.test = name,
                                 .metric = "ns_per_call",
                                 .per_call = 1,
                                 .read_bytes = each * of->n_read,
                                 .set_bytes = w->n * sizeof(float) * of->n_read,
                                 .n_threads = n_threads,
                                 .differs = differs,
                                 .arg = w};
    snprintf(name, sizeof name, "bandwidth %s %s t=%u", of->name, bn_units_text(size, (double)set, "bytes"),
             n_threads);
    if (!bn_harness_wants(s, name)) return BN_OK;
    if (past && !w->peak->can_store_past) {
        bn_harness_skip(s, name, "no store past the caches in these kernels");
        return BN_OK;
    }
    bn_json *test = bn_harness_test(s, name);
    bn_json_put_string(test, "loop", of->name);
    BN_PUT_COUNTS(test, {"set_bytes", set}, {"threads", n_threads});
    bn_json_put_number(test, "bytes", counted);
    bn_json_put_finite(test, "bytes_with_lines_read", traffic, "the lines stay in the first cache");
    memset(w->a, 0, w->n * sizeof(float));
    BN_TRY(bn_harness_time(s, &row, &body, test, err));
    if (!row.valid) return BN_OK;
    bn_table_row(&s->table, "");
    bn_table_test(&s->table, "", name);
    bn_table_value(&s->table, counted * 1e9 / row.ns.median, "bytes/s");
    bn_table_value(&s->table, traffic * 1e9 / row.ns.median, "bytes/s");
    bn_table_percent(&s->table, row.ns.mad / row.ns.median, false);
    return BN_OK;
}

static bn_status put_streams(struct bn_harness *s, size_t set, bool near, unsigned n_threads, bn_error *err)
{
    struct stream_work w = {.peak = bn_peak_of(bn_kernels_find("auto"))};
    size_t least = 3 * GRAIN * sizeof(float) * n_threads; /* each thread has work */
    if (set < least) set = least;
    w.n = set / 3 / sizeof(float) / GRAIN * GRAIN;
    w.a = bn_alloc_aligned(3 * w.n, sizeof(float));
    if (w.a == NULL) return bn_nomem(err);
    w.b = w.a + w.n;
    w.c = w.b + w.n;
    for (size_t i = 0; i < w.n; i++)
        w.b[i] = 1.0f, w.c[i] = 2.0f;
    bn_status status = BN_OK;
    for (size_t i = 0; i < BN_ARRAY_LEN(STREAMS) && status == BN_OK; i++) {
        w.stream = &STREAMS[i];
        status = put_stream(s, &w, set, near, n_threads, err);
    }
    bn_free(w.a);
    return status;
}

static bn_status measure_bandwidth(struct bn_harness *s, bn_error *err)
{
    size_t sets[4], n = choose_sets(&s->machine, sets);
    static const char *const HEADS[] = {"bandwidth, three arrays together", "rate", "with RFO", "spread"};
    BN_TRY(bn_harness_table(s, HEADS, "lrrr", err));
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < s->o->threads.n; t++)
            BN_TRY(put_streams(s, sets[i], i == 0, s->o->threads.list[t], err));
    return BN_OK;
}

static void run_chase(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads)
{
    void ***place = arg, **at = *place;
    (void)first, (void)thread, (void)n_threads;
    for (uint64_t i = 0; i < n; i++)
        at = *at;
    *place = at; /* keeps the loads, and the next call continues here */
}

/* One cycle through the first words of all lines (Sattolo's shuffle). */
static void link_lines(unsigned char *block, size_t n, uint32_t *order)
{
    uint64_t state = n;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n - 1; i > 0; i--) {
        size_t k = (size_t)(bn_splitmix64(&state) % i);
        uint32_t line = order[i];
        order[i] = order[k];
        order[k] = line;
    }
    for (size_t i = 0; i < n; i++) {
        void *next = block + (size_t)order[i] * LINE;
        memcpy(block + i * LINE, &next, sizeof next);
    }
}

static bn_status chase_set(struct bn_harness *s, size_t set, bool huge, const char *name, bn_error *err)
{
    unsigned char *block = bn_alloc_aligned(set, 1);
    uint32_t *order = bn_alloc(set / LINE, sizeof *order);
    bn_status status = block != NULL && order != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) {
        void **at = (void **)(void *)block;
        struct bn_bench_body body = {run_chase, &at};
        struct bn_harness_row row = {.test = name, .metric = "ns_per_load", .per_call = 1, .n_threads = 1};
        if (huge) bn_mem_advise_huge(block, set);
        link_lines(block, set / LINE, order);
        bn_json *test = bn_harness_test(s, name);
        bn_json_put_u64(test, "set_bytes", set);
        bn_json_put_bool(test, "huge_pages_advised", huge);
        run_chase(&at, 0, set / LINE, 0, 1); /* once around, so that caches hold what they can */
        status = bn_harness_time(s, &row, &body, test, err);
        bn_harness_put_row(s, &row);
    }
    bn_free(block);
    bn_free(order);
    return status;
}

static bn_status measure_latency(struct bn_harness *s, bn_error *err)
{
    size_t sets[4], n = choose_sets(&s->machine, sets);
    static const char *const HEADS[] = {"latency", "a load", "spread"};
    BN_TRY(bn_harness_table(s, HEADS, "lrr", err));
    for (size_t set = 4096; set <= sets[n - 1]; set *= 4)
        for (unsigned huge = 0; huge < (set < HUGE_PAGE ? 1u : 2u); huge++) {
            char test[96], size[BN_UNITS_ROOM];
            snprintf(test, sizeof test, "latency %s%s", bn_units_text(size, (double)set, "bytes"),
                     huge ? " huge" : "");
            if (!bn_harness_wants(s, test)) continue;
            BN_TRY(chase_set(s, set, huge == 1, test, err));
        }
    return BN_OK;
}

/* ---- the command ---- */

static bn_status run(struct bn_harness *s, struct bn_args *args, bn_error *err)
{
    BN_TRY(bn_harness_open(s, args, "memory", err));
    BN_TRY(measure_allocation(s, err));
    BN_TRY(bn_harness_flush(s, err));
    BN_TRY(measure_fragmentation(s, err));
    BN_TRY(measure_bandwidth(s, err));
    BN_TRY(measure_latency(s, err));
    return bn_memory_model(s, err);
}

bn_status bn_bench_memory(struct bn_args *args, bn_error *err)
{
    struct bn_harness *s = bn_alloc(1, sizeof *s); /* where it is changes the heap that is measured */
    if (s == NULL) return bn_nomem(err);
    bn_status status = bn_harness_finish(s, run(s, args, err), err);
    bn_free(s);
    return status;
}
