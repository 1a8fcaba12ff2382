/* SPDX-License-Identifier: MIT
 *
 * What a sample of bn-bench run used: CPU time and counted events of all threads, the peak of resident memory,
 * and the energy of the processor packages, which includes that of other processes. What this machine does
 * not report is null in the document, with the reason.
 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/run/run.h"

static const struct {
    enum bn_perf_event event;
    const char *name, *metric, *unit;
} COUNTERS[BN_BENCH_COUNTERS] = {
    {BN_PERF_CYCLES, "cycles", "cycles_per_token", "cycles"},
    {BN_PERF_INSTRUCTIONS, "instructions", "instructions_per_token", "instructions"},
    {BN_PERF_CACHE_MISSES, "cache_misses", "cache_misses_per_token", "misses"},
};

void bn_bench_meters_open(struct bn_bench_meters *meters)
{
    *meters = (struct bn_bench_meters){.resets = true};
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++) {
        bn_error why = {0};
        int fd = bn_perf_event_open(COUNTERS[i].event, true, &why);
        meters->counters[i].fd = fd;
        meters->counters[i].works = fd >= 0;
        if (fd < 0) snprintf(meters->counters[i].why, sizeof meters->counters[i].why, "%.159s", why.msg);
    }
    bn_energy_read(&meters->energy, BN_ENERGY_ROOT);
}

void bn_bench_meters_close(struct bn_bench_meters *meters)
{
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++)
        if (meters->counters[i].works) close(meters->counters[i].fd);
    *meters = (struct bn_bench_meters){0};
}

static void count(struct bn_bench_meters *meters, uint64_t counts[BN_BENCH_COUNTERS])
{
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++) {
        struct bn_bench_counter *c = &meters->counters[i];
        counts[i] = 0;
        if (!c->works || read(c->fd, &counts[i], sizeof counts[i]) == (ssize_t)sizeof counts[i]) continue;
        close(c->fd);
        c->works = false;
        snprintf(c->why, sizeof c->why, "the counter could not be read");
    }
}

void bn_bench_usage_begin(struct bn_bench_measurement *m, struct bn_bench_usage *usage)
{
    uint64_t peak = bn_machine_peak_rss_bytes();
    if (peak > m->memory.peak) m->memory.peak = peak;
    if (m->meters.resets) m->meters.resets = bn_machine_reset_peak_rss();
    if (m->meters.energy.n > 0) bn_energy_read(&m->meters.energy, BN_ENERGY_ROOT);
    count(&m->meters, usage->counts);
    usage->cpu_ns = bn_clock_process_cpu_ns();
}

void bn_bench_usage_end(struct bn_bench_measurement *m, struct bn_bench_usage *usage)
{
    uint64_t counts[BN_BENCH_COUNTERS], cpu_ns = bn_clock_process_cpu_ns();
    struct bn_energy now = {0};
    usage->cpu_ns = cpu_ns - usage->cpu_ns;
    count(&m->meters, counts);
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++)
        usage->counts[i] = counts[i] - usage->counts[i];
    if (m->meters.energy.n > 0) bn_energy_read(&now, BN_ENERGY_ROOT);
    usage->joules = bn_energy_since(&m->meters.energy, &now);
    usage->peak_rss_bytes = bn_machine_peak_rss_bytes();
    if (usage->peak_rss_bytes > m->memory.peak) m->memory.peak = usage->peak_rss_bytes;
    if (usage->peak_rss_bytes > m->memory.round) m->memory.round = usage->peak_rss_bytes;
}

/* ---- documents ---- */

void bn_bench_usage_put(const struct bn_bench_measurement *m, bn_json *o, const struct bn_bench_usage *usage)
{
    bn_json_put_u64(o, "cpu_ns", usage->cpu_ns);
    if (m->meters.resets && usage->peak_rss_bytes > 0)
        bn_json_put_u64(o, "peak_rss_bytes", usage->peak_rss_bytes);
    else
        bn_json_put_unavailable(o, "peak_rss_bytes", "the system does not permit resetting the peak");
    bn_json_put_finite(o, "joules", usage->joules,
                       m->meters.energy.n > 0 ? "a counter of energy was reset" : m->meters.energy.why);
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++) {
        const struct bn_bench_counter *c = &m->meters.counters[i];
        if (c->works)
            bn_json_put_u64(o, COUNTERS[i].name, usage->counts[i]);
        else
            bn_json_put_unavailable(o, COUNTERS[i].name, c->why);
    }
}

/* ---- series ---- */

static double per_token(const struct bn_bench_config *c, const struct bn_bench_sample *s, size_t which)
{
    double rated = bn_bench_n_rated(c);
    if (which < BN_BENCH_COUNTERS) return (double)s->usage.counts[which] / rated;
    return which == BN_BENCH_COUNTERS ? (double)s->usage.cpu_ns / rated : s->usage.joules / rated;
}

/* A series of every sample after the warm-up, unless one of them is not known or 0: too short for its
 * meter. */
static bn_status add(const struct bn_bench_measurement *m, const struct bn_bench_config *c, size_t which,
                     struct bn_series series, struct bn_series_list *all, bn_error *err)
{
    bool known = true;
    series.samples = m->scratch;
    for (size_t i = c->n_warmup; i < c->n_samples; i++) {
        m->scratch[series.n] = per_token(c, &c->samples[i], which);
        known = known && isfinite(m->scratch[series.n]) && m->scratch[series.n] > 0;
        series.n++;
    }
    return known && series.n > 0 ? bn_series_add(all, &series, err) : BN_OK;
}

bn_status bn_bench_usage_series(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                                struct bn_series_list *all, bn_error *err)
{
    char test[BN_BENCH_NAME];
    bn_bench_config_name(c, test, sizeof test);
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++) {
        struct bn_series s = {.test = test, .metric = COUNTERS[i].metric, .unit = COUNTERS[i].unit};
        if (m->meters.counters[i].works) BN_TRY(add(m, c, i, s, all, err));
    }
    struct bn_series cpu = {.test = test, .metric = "cpu_ns_per_token", .unit = "ns"};
    struct bn_series energy = {.test = test, .metric = "joules_per_token", .unit = "J"};
    BN_TRY(add(m, c, BN_BENCH_COUNTERS, cpu, all, err));
    return add(m, c, BN_BENCH_COUNTERS + 1, energy, all, err);
}
