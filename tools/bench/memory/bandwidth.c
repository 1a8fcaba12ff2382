/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: bandwidth and latency by the size of the set. The loops are those of the widest
 * instruction set (kernels/peak.h). A loop that writes has two rates: by the bytes
 * that it names, and with one more for each byte that it stores, since a cache reads a line before a part of
 * it is written (RFO). Stores past the caches do not read the line. Latency is a chain of loads through all
 * lines of a set in a random cycle: each address comes from the load before.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/team.h"
#include "kernels/peak.h"
#include "lab/report/units.h"
#include "tools/bench/memory/memory.h"

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

/* ---- bandwidth ---- */

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
    bn_table_text(&s->table, name);
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

bn_status bn_memory_bandwidth(struct bn_harness *s, bn_error *err)
{
    size_t sets[4], n = choose_sets(&s->machine, sets);
    static const char *const HEADS[] = {"bandwidth, three arrays together", "rate", "with RFO", "spread"};
    BN_TRY(bn_harness_table(s, HEADS, "lrrr", err));
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < s->o->threads.n; t++)
            BN_TRY(put_streams(s, sets[i], i == 0, s->o->threads.list[t], err));
    return BN_OK;
}

/* ---- latency ---- */

struct chase {
    void **at;
};

static void run_chase(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads)
{
    struct chase *c = arg;
    void **at = c->at;
    (void)first, (void)thread, (void)n_threads;
    for (uint64_t i = 0; i < n; i++)
        at = *at;
    c->at = at; /* keeps the loads, and the next call continues here */
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
        struct chase chase = {(void **)(void *)block};
        struct bn_bench_body body = {run_chase, &chase};
        struct bn_harness_row row = {.test = name, .metric = "ns_per_load", .per_call = 1, .n_threads = 1};
        if (huge) bn_mem_advise_huge(block, set);
        link_lines(block, set / LINE, order);
        bn_json *test = bn_harness_test(s, name);
        bn_json_put_u64(test, "set_bytes", set);
        bn_json_put_bool(test, "huge_pages_advised", huge);
        run_chase(&chase, 0, set / LINE, 0, 1); /* once around, so that caches hold what they can */
        status = bn_harness_time(s, &row, &body, test, err);
        bn_harness_put_row(s, &row);
    }
    bn_free(block);
    bn_free(order);
    return status;
}

bn_status bn_memory_latency(struct bn_harness *s, bn_error *err)
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
