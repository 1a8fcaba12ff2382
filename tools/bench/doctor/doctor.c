/* SPDX-License-Identifier: MIT
 *
 * bn-bench doctor: the sources of measurement that this machine has, and its limits: read bandwidth by the
 * size of the set, multiply-adds by instruction set, each by the number of threads. In the document the
 * limits are called roofs.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/history/series.h"
#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/doctor/sources.h"
#include "tools/bench/limits.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"

#define MAX_SOURCES 40u
#define MAX_REPEATS 100u
#define LEAST_MEMORY ((uint64_t)64 << 20)
#define MOST_MEMORY ((uint64_t)256 << 20) /* the largest set of bn_bandwidth_probe */

const struct bn_option bn_bench_doctor_options[] = {
    BN_OPTION("require", "exit with 1 when this source is missing", .arg = "NAME", .repeatable = true,
              .group = "Sources", BN_TO_TEXTS(struct bn_bench_options, require)),
    BN_OPTION("no-limits", "do not measure the limits", .group = "Limits",
              BN_TO_BOOL(struct bn_bench_options, no_limits)),
    BN_OPTION("repeat", "measurements of each limit", .arg = "N", .group = "Limits", .preset = "5",
              BN_TO_U32(struct bn_bench_options, repeat, 1, MAX_REPEATS)),
    BN_OPTION("min-time", "time per measurement; reads from memory take four times as long", .arg = "SECONDS",
              .group = "Limits", .preset = "0.05", BN_TO_F64(struct bn_bench_options, min_time, 0, 60)),
    BN_BENCH_THREADS,
    {0},
};

struct job {
    struct bn_args *args;
    struct bn_bench_options *o;
    struct bn_machine machine;
    struct bn_source sources[MAX_SOURCES];
    size_t n_sources;
    uint64_t min_ns;
    struct bn_series_list series;
    struct bn_table table; /* of limits */
    bn_json *doc;
    double last_read; /* median of the set before, with as many threads */
};

/* ---- sources ---- */

static bn_status check_names(const struct bn_texts *names, bn_error *err)
{
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->list[i];
        size_t k = 0;
        while (bn_source_name(k) != NULL && strcmp(bn_source_name(k), name) != 0)
            k++;
        if (bn_source_name(k) != NULL) continue;
        bn_fail(err, BN_ERR_ARG, "--require: unknown source '%.60s'", name);
        bn_error_hint(err, "bn-bench doctor --no-limits lists the sources");
        return BN_ERR_ARG;
    }
    return BN_OK;
}

static void check_required(struct job *job)
{
    for (size_t i = 0; i < job->o->require.n; i++)
        for (size_t k = 0; k < job->n_sources; k++) {
            const struct bn_source *s = &job->sources[k];
            if (s->available || strcmp(s->name, job->o->require.list[i]) != 0) continue;
            bn_report_warning("%s is required and not available: %s", s->name, s->detail);
            job->args->exit_code = BN_EXIT_NEGATIVE;
        }
}

static void put_sources(struct job *job)
{
    bn_json *all = bn_json_put_array(job->doc, "sources");
    for (size_t i = 0; i < job->n_sources; i++) {
        const struct bn_source *s = &job->sources[i];
        bn_json *o = bn_json_add_object(all);
        bn_json_put_string(o, "name", s->name);
        bn_json_put_string(o, "what", s->what);
        bn_json_put_bool(o, "available", s->available);
        if (s->available)
            bn_json_put_string(o, "detail", s->detail);
        else
            bn_json_put_unavailable(o, "detail", s->detail);
        if (!s->available && s->remedy[0] != '\0') bn_json_put_string(o, "remedy", s->remedy);
    }
}

static bn_status print_sources(const struct job *job, bn_error *err)
{
    static const char *const HEADS[] = {"source", "", "detail", "remedy"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "llln");
    for (size_t i = 0; i < job->n_sources; i++) {
        const struct bn_source *s = &job->sources[i];
        bn_table_row(&t, "");
        bn_table_text(&t, s->name);
        bn_table_text(&t, s->available ? "yes" : "no");
        bn_table_text(&t, s->detail);
        if (!s->available && s->remedy[0] != '\0') bn_table_printf(&t, "remedy: %s", s->remedy);
    }
    return bn_bench_print_table(&t, err);
}

/* ---- limits ---- */

/* Sets of half a cache, so that they stay in it; of several times the last cache for memory. */
struct level {
    const char *name;
    uint64_t cache_bytes, set_bytes; /* cache 0: unknown */
    bool each;                       /* one for each core */
};
#define LEVELS 4u

static void find_levels(const struct bn_machine *m, struct level levels[LEVELS])
{
    long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    levels[0] = (struct level){"L1", l1 > 0 ? (uint64_t)l1 : 0, 0, true};
    levels[1] = (struct level){"L2", m->cache_l2_bytes, 0, true};
    levels[2] = (struct level){"L3", m->cache_l3_bytes, 0, false};
    for (size_t i = 0; i < 3; i++)
        levels[i].set_bytes = levels[i].cache_bytes / 2;
    uint64_t last = m->cache_l3_bytes > 0 ? m->cache_l3_bytes : m->cache_l2_bytes;
    levels[3] = (struct level){"memory", last, 4 * last > LEAST_MEMORY ? 4 * last : LEAST_MEMORY, false};
}

/* Samples of one limit, as a row of the document and a series. */
static bn_status put_limit(struct job *job, bn_json *o, const char *test, const char *metric,
                           const double *rates, struct bn_summary *s, bn_error *err)
{
    bn_json *samples = bn_json_put_array(o, "samples");
    for (size_t i = 0; i < job->o->repeat; i++)
        bn_json_add_number(samples, rates[i]);
    if (!bn_summarize(s, rates, job->o->repeat)) return bn_nomem(err);
    struct bn_series series = {
        .test = test, .metric = metric, .unit = "1/s", .higher = true, .samples = rates, .n = job->o->repeat};
    return bn_series_add(&job->series, &series, err);
}

static bn_status take(struct job *job, struct bn_bench_limit *limit, uint64_t budget_ns, double *rates,
                      bn_error *err)
{
    for (size_t i = 0; i < job->o->repeat; i++) {
        BN_TRY(bn_bench_limit_measure(limit, budget_ns, err));
        rates[i] = limit->rate;
    }
    return BN_OK;
}

/* A nearer level must not be slower than a farther one, with a tolerance of 5 %. */
static void check_order(struct job *job, bn_json *o, double rate)
{
    bool ordered = job->last_read <= 0 || rate <= 1.05 * job->last_read;
    bn_json_put_bool(o, "no_faster_than_nearer_level", ordered);
    if (!ordered)
        bn_report_warning(
            "this level was faster than a nearer one: other processes disturbed the measurement");
    job->last_read = rate;
}

static void put_row(struct job *job, struct bn_bench_limit *limit, const char *name,
                    const struct bn_summary *s)
{
    limit->rate = s->median;
    bn_bench_limit_row(&job->table, limit, name);
    bn_table_percent(&job->table, s->mad / s->median, false);
    bn_table_text(&job->table, limit->instruction != NULL ? limit->instruction : "");
}

static bn_status read_limit(struct job *job, const struct level *level, uint32_t n_threads, bn_json *all,
                            bn_error *err)
{
    double rates[MAX_REPEATS];
    char test[64];
    struct bn_summary s;
    uint64_t set = level->set_bytes * (level->each ? n_threads : 1);
    bool memory = strcmp(level->name, "memory") == 0;
    bn_json *o = bn_json_add_object(all);
    bn_json_put_string(o, "kind", "read");
    bn_json_put_string(o, "level", level->name);
    bn_json_put_u64(o, "threads", n_threads);
    if (level->set_bytes == 0 || set > MOST_MEMORY) {
        const char *why = level->set_bytes == 0 ? "the size of this cache is unknown"
                                                : "the last cache is too large: sets have at most 256 MiB";
        bn_json_put_unavailable(o, "set_bytes", why);
        bn_json_put_unavailable(o, "bytes_per_second", why);
        bn_table_row(&job->table, "");
        bn_table_printf(&job->table, "reads %s", level->name);
        bn_table_count(&job->table, n_threads);
        bn_table_text(&job->table, "-");
        bn_table_text(&job->table, "-");
        bn_table_text(&job->table, "");
        bn_table_printf(&job->table, "not measured: %s", why);
        return BN_OK;
    }
    struct bn_bench_limit limit = {.kind = BN_LIMIT_READ, .n_threads = n_threads, .set_bytes = (size_t)set};
    BN_TRY(take(job, &limit, job->min_ns * (memory ? 4 : 1), rates, err));
    bn_json_put_u64(o, "set_bytes", set);
    snprintf(test, sizeof test, "roof read %s t=%u", level->name, n_threads);
    BN_TRY(put_limit(job, o, test, "bytes_per_second", rates, &s, err));
    check_order(job, o, s.median);
    put_row(job, &limit, level->name, &s);
    return BN_OK;
}

static bn_status peak_limit(struct job *job, enum bn_bench_limit_kind kind, const struct bn_kernels *kernels,
                            uint32_t n_threads, bn_json *all, bn_error *err)
{
    double rates[MAX_REPEATS];
    char test[64];
    struct bn_summary s;
    const char *name = kind == BN_LIMIT_INT8 ? "int8" : "float";
    struct bn_bench_limit limit = {.kind = kind, .n_threads = n_threads, .kernels = kernels};
    BN_TRY(take(job, &limit, job->min_ns, rates, err));
    bn_json *o = bn_json_add_object(all);
    bn_json_put_string(o, "kind", name);
    bn_json_put_string(o, "isa", kernels->isa);
    bn_json_put_u64(o, "threads", n_threads);
    if (limit.instruction == NULL) {
        bn_json_put_unavailable(o, "instruction", "there is no loop in plain C that reaches a limit");
        bn_json_put_unavailable(o, "macs_per_second", "there is no loop in plain C that reaches a limit");
        return BN_OK;
    }
    bn_json_put_string(o, "instruction", limit.instruction);
    snprintf(test, sizeof test, "roof %s %s t=%u", name, kernels->isa, n_threads);
    BN_TRY(put_limit(job, o, test, "macs_per_second", rates, &s, err));
    put_row(job, &limit, "", &s);
    return BN_OK;
}

static bn_status measure_limits(struct job *job, bn_error *err)
{
    struct level levels[LEVELS];
    static const char *const HEADS[] = {"limit", "threads", "rate", "spread", "measured with", "why"};
    find_levels(&job->machine, levels);
    bn_table_begin(&job->table, HEADS, "lrrrln");
    bn_json *all = bn_json_put_array(job->doc, "roofs");
    for (size_t t = 0; t < job->o->threads.n; t++) {
        job->last_read = 0;
        for (size_t i = 0; i < LEVELS; i++)
            BN_TRY(read_limit(job, &levels[i], job->o->threads.list[t], all, err));
    }
    for (size_t i = 0; bn_kernels_built(i) != NULL; i++)
        for (size_t t = 0; t < job->o->threads.n && bn_kernels_supported(bn_kernels_built(i)); t++) {
            BN_TRY(peak_limit(job, BN_LIMIT_INT8, bn_kernels_built(i), job->o->threads.list[t], all, err));
            BN_TRY(peak_limit(job, BN_LIMIT_FLOAT, bn_kernels_built(i), job->o->threads.list[t], all, err));
        }
    if (job->args->json) return BN_OK;
    putchar('\n');
    return bn_bench_print_table(&job->table, err);
}

/* ---- the command ---- */

static bn_status run(struct job *job, bn_error *err)
{
    bool roofs = !job->o->no_limits;
    BN_TRY(check_names(&job->o->require, err));
    BN_TRY(bn_bench_threads(&job->o->threads, err));
    job->min_ns = (uint64_t)(job->o->min_time * 1e9);
    bn_machine_read(&job->machine);
    for (; bn_source_name(job->n_sources) != NULL && job->n_sources < MAX_SOURCES; job->n_sources++)
        bn_source_try(&job->sources[job->n_sources], job->n_sources, &job->machine);
    job->doc = bn_bench_document("doctor", &job->machine);
    bn_json *settings = bn_json_put_object(job->doc, "settings");
    bn_json_put_u64(settings, "repeat", job->o->repeat);
    bn_json_put_u64(settings, "min_time_ns", job->min_ns);
    bn_json_put_bool(settings, "roofs", roofs);
    struct bn_clock_facts clock;
    bn_clock_measure_default(&clock);
    bn_bench_put_clock(job->doc, &clock);
    put_sources(job);
    if (!job->args->json) {
        bn_bench_print_machine(&job->machine);
        BN_TRY(print_sources(job, err));
    }
    if (roofs) {
        struct bn_busy before;
        bn_busy_read(&before);
        BN_TRY(measure_limits(job, err));
        const struct bn_others others = bn_bench_others(&before);
        bn_others_put(job->doc, &others);
    }
    check_required(job);
    bn_series_put(job->doc, &job->series);
    return job->args->json ? bn_cli_print_json(job->doc, err) : BN_OK;
}

bn_status bn_bench_doctor(struct bn_args *args, bn_error *err)
{
    struct job *job = bn_alloc(1, sizeof *job);
    if (job == NULL) return bn_nomem(err);
    job->args = args;
    job->o = args->fields;
    bn_status status = run(job, err);
    bn_json_free(job->doc);
    bn_series_release(&job->series);
    bn_table_release(&job->table);
    bn_free(job);
    return status;
}
