/* SPDX-License-Identifier: MIT
 *
 * bn-bench memory: what the system does behind a block. Address space is reserved at once, pages come when
 * they are touched first, one fault each, and go back when the block does. And how much of the heap is lost
 * to fragmentation.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "tools/bench/memory/fragment.h"
#include "tools/bench/memory/memory.h"

#define ROUNDS 20u
#define HUGE_PAGE ((size_t)2 << 20)
#define PEAK_BYTES ((size_t)100 << 20)

uint64_t bn_memory_status(const char *name)
{
    char line[256];
    uint64_t bytes = 0;
    size_t n = strlen(name);
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ':') bytes = strtoull(line + n + 1, NULL, 10) * 1024;
    if (file != NULL) fclose(file);
    return bytes;
}

static uint64_t faults_now(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}

/* ---- first touch ---- */

struct page_times {
    uint64_t reserve[ROUNDS], first[ROUNDS], second[ROUNDS], release[ROUNDS];
    uint64_t faults, returned; /* of the last round */
    size_t n;
};

static void touch(volatile unsigned char *block, size_t n_bytes, size_t page)
{
    for (size_t i = 0; i < n_bytes; i += page)
        block[i] = 1;
}

static bool touch_round(struct page_times *t, size_t n_bytes, size_t page, bool huge)
{
    uint64_t start = bn_clock_ns();
    void *block = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t->reserve[t->n] = bn_clock_ns() - start;
    if (block == MAP_FAILED) return false;
    (void)madvise(block, n_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    uint64_t faults = faults_now();
    start = bn_clock_ns();
    touch(block, n_bytes, page);
    t->first[t->n] = bn_clock_ns() - start;
    t->faults = faults_now() - faults;
    start = bn_clock_ns();
    touch(block, n_bytes, page);
    t->second[t->n] = bn_clock_ns() - start;
    uint64_t resident = bn_memory_status("VmRSS");
    start = bn_clock_ns();
    munmap(block, n_bytes);
    t->release[t->n] = bn_clock_ns() - start;
    uint64_t after = bn_memory_status("VmRSS");
    t->returned = resident > after ? resident - after : 0;
    t->n++;
    return true;
}

static bn_status put_touch(struct bn_suite *s, const char *test, const struct page_times *t, size_t n_bytes,
                           size_t page, bn_json *all, bn_error *err)
{
    const struct {
        const char *metric;
        const uint64_t *ns;
        double per;
    } PARTS[] = {{"ns_per_reservation", t->reserve, 1},
                 {"ns_per_first_touch", t->first, (double)(n_bytes / page)},
                 {"ns_per_second_touch", t->second, (double)(n_bytes / page)},
                 {"ns_per_return", t->release, 1}};
    double medians[4] = {0};
    bn_json *r = bn_json_add_object(all);
    bn_json_put_string(r, "test", test);
    bn_json_put_u64(r, "bytes", n_bytes);
    bn_json_put_u64(r, "page_bytes", page);
    bn_json_put_u64(r, "pages", n_bytes / page);
    bn_json_put_u64(r, "minor_faults", t->faults);
    bn_json_put_u64(r, "returned_bytes", t->returned);
    for (size_t i = 0; i < BN_ARRAY_LEN(PARTS); i++) {
        struct bn_suite_row row = {
            .test = test, .metric = PARTS[i].metric, .per_call = PARTS[i].per, .n_threads = 1};
        BN_TRY(
            bn_suite_put_samples(s, &row, 1, PARTS[i].ns, t->n, bn_json_put_object(r, PARTS[i].metric), err));
        medians[i] = row.ns.median;
    }
    bn_suite_print(s, "%-32s %10.0f %10.1f %10.1f %10.0f %8llu %9.1f MiB\n", test, medians[0], medians[1],
                   medians[2], medians[3], (unsigned long long)t->faults, (double)t->returned / 0x1p20);
    return BN_OK;
}

/* Peak memory of the system's account against a block of known size. */
static void put_peak(struct bn_suite *s)
{
    bn_json *o = bn_json_put_object(s->doc, "peak");
    bool reset = bn_machine_reset_peak_rss();
    uint64_t before = bn_memory_status("VmHWM");
    void *block = bn_alloc(PEAK_BYTES, 1);
    if (block != NULL) memset(block, 1, PEAK_BYTES);
    uint64_t grown = bn_memory_status("VmHWM") - before;
    bn_json_put_u64(o, "touched_bytes", PEAK_BYTES);
    if (reset && block != NULL && before > 0) {
        bn_json_put_u64(o, "high_water_growth_bytes", grown);
        s->n_valid++;
    } else {
        bn_json_put_unavailable(o, "high_water_growth_bytes",
                                "the system's high-water mark cannot be set back");
    }
    bn_free(block);
    struct bn_mem_stats stats = bn_mem_stats();
    bn_json_put_u64(o, "counted_peak_bytes", stats.bytes_peak);
    bn_json_put_u64(o, "peak_rss_bytes", bn_machine_peak_rss_bytes());
    bn_suite_print(s, "%-32s touched %.1f MiB, the high-water mark grew by %.1f MiB\n", "peak",
                   (double)PEAK_BYTES / 0x1p20, (double)grown / 0x1p20);
}

bn_status bn_memory_pages(struct bn_suite *s, bn_error *err)
{
    static const size_t SIZES[] = {(size_t)1 << 20, (size_t)16 << 20, (size_t)64 << 20};
    size_t page = s->machine.page_bytes > 0 ? s->machine.page_bytes : 4096;
    bn_json *all = bn_json_put_array(s->doc, "pages");
    bool any = false;
    for (size_t i = 0; i < 2 * BN_ARRAY_LEN(SIZES); i++) {
        struct page_times t = {0};
        char test[96], size[24];
        bool huge = i % 2 == 1;
        bn_suite_size(size, SIZES[i / 2]);
        snprintf(test, sizeof test, "touch %s %s", size, huge ? "huge" : "plain");
        if ((huge && SIZES[i / 2] < HUGE_PAGE) || !bn_suite_wants(s, test)) continue;
        if (!any)
            bn_suite_print(s, "\n%-32s %10s %10s %10s %10s %8s %13s\n", "pages", "reserve ns", "first ns",
                           "again ns", "return ns", "faults", "given back");
        any = true;
        uint64_t start = bn_clock_ns();
        while (t.n < ROUNDS && (t.n < BN_BENCH_MIN_SAMPLES || bn_clock_ns() - start < s->min_ns))
            if (!touch_round(&t, SIZES[i / 2], page, huge))
                return bn_fail(err, BN_ERR_NOMEM, "no memory for %s", size);
        BN_TRY(put_touch(s, test, &t, SIZES[i / 2], page, all, err));
    }
    if (bn_suite_wants(s, "peak")) put_peak(s);
    return BN_OK;
}

/* ---- fragmentation ---- */

#define BLOCKS 20000u
#define STEPS 5u

static void put_share(bn_json *o, const char *name, double value, const char *why)
{
    if (value >= 0)
        bn_json_put_number(o, name, value);
    else
        bn_json_put_unavailable(o, name, why);
}

struct heap_work {
    bool counted; /* by bn_alloc, else malloc */
    void *blocks[BLOCKS];
    uint32_t sizes[BLOCKS];
    uint64_t live;
};

static void give(struct heap_work *w, size_t i)
{
    if (w->blocks[i] == NULL) return;
    if (w->counted)
        bn_free(w->blocks[i]);
    else
        free(w->blocks[i]);
    w->blocks[i] = NULL;
    w->live -= w->sizes[i];
}

/* Half of the blocks go, others of other sizes come: what a heap looks like after a while. */
static void churn(struct heap_work *w, uint64_t *state)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (w->blocks[i] != NULL) {
            if (bn_splitmix64(state) % 2 == 0) give(w, i);
            continue;
        }
        w->sizes[i] = (uint32_t)(16 + bn_splitmix64(state) % 4081);
        w->blocks[i] = w->counted ? bn_alloc(w->sizes[i], 1) : malloc(w->sizes[i]);
        if (w->blocks[i] != NULL) w->live += w->sizes[i];
    }
}

static void put_fragmentation(struct bn_suite *s, const struct heap_work *w, const struct bn_heap *before,
                              size_t step, bn_json *steps)
{
    struct bn_heap now;
    if (!bn_heap_read(&now)) return;
    const char *name = w->counted ? "bn_alloc" : "malloc";
    double internal = bn_fragment_internal(w->live, now.allocated - before->allocated);
    double external = bn_fragment_external(now.largest_free, now.free_bytes);
    uint64_t all_live = bn_mem_stats().bytes_now + (w->counted ? 0 : w->live);
    double resident = bn_fragment_resident(bn_memory_status("VmRSS"), all_live);
    bn_json *o = bn_json_add_object(steps);
    bn_json_put_string(o, "allocator", name);
    bn_json_put_u64(o, "step", step);
    bn_json_put_u64(o, "live_bytes", w->live);
    put_share(o, "internal", internal, "other threads changed the heap meanwhile");
    put_share(o, "external", external, "nothing is free");
    put_share(o, "resident_overhead", resident, "less is resident than was asked for: untouched pages");
    bn_suite_print(
        s, "%-9s %zu rounds, %6.1f MiB live:  internal %5.1f %%  external %5.1f %%  resident %+.0f %%\n",
        name, step + 1, (double)w->live / 0x1p20, 100 * internal, 100 * external, 100 * resident);
}

static bn_status fragment(struct bn_suite *s, bool counted, bn_json *steps, bn_error *err)
{
    uint64_t state = 7;
    struct heap_work *w = bn_alloc(1, sizeof *w);
    struct bn_heap before;
    if (w == NULL || !bn_heap_read(&before)) {
        bn_free(w);
        return bn_nomem(err);
    }
    w->counted = counted;
    for (size_t step = 0; step < STEPS; step++) {
        churn(w, &state);
        put_fragmentation(s, w, &before, step, steps);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        give(w, i);
    bn_free(w);
    s->n_valid++;
    return BN_OK;
}

bn_status bn_memory_fragmentation(struct bn_suite *s, bn_error *err)
{
    struct bn_heap heap;
    if (!bn_suite_wants(s, "fragmentation")) return BN_OK;
    if (!bn_heap_read(&heap)) {
        bn_json_put_unavailable(s->doc, "fragmentation", "the C library does not tell of its heap");
        return BN_OK;
    }
    bn_json *steps = bn_json_put_array(s->doc, "fragmentation");
    bn_suite_print(s, "\nfragmentation of blocks of 16 to 4096 bytes\n");
    BN_TRY(fragment(s, false, steps, err));
    return fragment(s, true, steps, err);
}
