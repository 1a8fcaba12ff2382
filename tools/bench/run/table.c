/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: its results as a table.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"

#include "lab/stats/summary.h"
#include "tools/bench/run/run.h"
#include "tools/cli/default_model.h"
#include "tools/cli/text.h"

static struct bn_summary summary_of(const struct bn_bench_measurement *m, const struct bn_bench_config *c,
                                    bn_bench_figure f)
{
    struct bn_summary s;
    (void)bn_summarize(&s, m->scratch, bn_bench_collect(m, c, f));
    return s;
}

/* ---- before the table ---- */

static double median_bandwidth(const struct bn_bench_measurement *m, size_t t)
{
    struct bn_summary s;
    size_t n = 0;
    for (uint32_t i = 0; i < m->n_rounds; i++)
        m->scratch[n++] = m->bandwidth[i * m->o->threads.n + t];
    (void)bn_summarize(&s, m->scratch, n);
    return s.median;
}

static void print_model(const struct bn_bench_measurement *m)
{
    const struct bn_bench_load *load = &m->loads[m->o->n_loads - 1];
    printf("model    %s, opened in %.1f ms", bn_cli_model_name(m->args), (double)load->ns / 1e6);
    if (load->cached >= 0) printf(" (%.0f %% of it was in the page cache)", 100 * load->cached);
    printf("; %s; peak memory %.0f MiB\n", bn_isa_name(), (double)m->memory.peak / 0x1p20);
}

/* Does every row have enough samples for an interval of its median? 6 are enough for 95 %. */
static bool has_interval(const struct bn_bench_measurement *m)
{
    double least = ceil(1 - log2(1 - m->confidence) - 1e-9);
    bool has = true;
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        if (c->verdict == BN_BENCH_VALID) has = has && (double)(c->n_samples - c->n_warmup) >= least;
    }
    return has;
}

/* "6" or "6 to 9". */
static void print_range(size_t least, size_t most)
{
    printf("%zu", least);
    if (most > least) printf(" to %zu", most);
}

static void print_samples(const struct bn_bench_measurement *m)
{
    size_t least = SIZE_MAX, most = 0, cold_least = SIZE_MAX, cold_most = 0;
    for (size_t i = 0; i < m->n_configs; i++) {
        if (m->configs[i].verdict != BN_BENCH_VALID) continue;
        size_t cold = m->configs[i].n_warmup, n = m->configs[i].n_samples - cold;
        if (n < least) least = n;
        if (n > most) most = n;
        if (cold < cold_least) cold_least = cold;
        if (cold > cold_most) cold_most = cold;
    }
    if (most == 0) printf("samples  none are valid\n\n");
    if (most == 0) return;
    printf("samples  ");
    print_range(least, most);
    printf(" per row, in turn, after ");
    print_range(cold_least, cold_most);
    printf(" warm-up\n\n");
}

static void print_head(const struct bn_bench_measurement *m)
{
    bn_bench_print_machine(&m->machine);
    print_model(m);
    printf("reading  %.3f MB, read by one token:", (double)m->token_bytes / 1e6);
    for (size_t t = 0; t < m->o->threads.n; t++)
        printf("%s %.1f GB/s with %u thread%s", t > 0 ? "," : "", median_bandwidth(m, t) / 1e9,
               m->o->threads.list[t], bn_cli_s(m->o->threads.list[t]));
    putchar('\n');
    bn_bench_print_others(&m->others);
    print_samples(m);
}

/* ---- the table ---- */

/* The median, and its interval or of too few samples the range. */
static void put_rate(struct bn_table *t, const struct bn_bench_measurement *m,
                     const struct bn_bench_config *c)
{
    struct bn_summary s = summary_of(m, c, bn_bench_tokens_per_second);
    struct bn_interval ci = {.low = s.min, .high = s.max};
    if (has_interval(m) && bn_interval_median(&ci, m->scratch, s.n, m->confidence, NULL) != BN_OK)
        ci = (struct bn_interval){.low = s.min, .high = s.max};
    bn_table_value(t, s.median, "1");
    bn_table_range(t, ci.low, ci.high, s.median, "1");
}

/* A prompt has a batch, and the time to its first token; decoding has the times of its tokens. */
static void put_config(struct bn_table *t, const struct bn_bench_measurement *m,
                       const struct bn_bench_config *c)
{
    bn_table_row(t, "");
    bool batch = m->o->batches.n > 1 && !c->decode;
    bn_table_text(t, c->decode ? "decode" : c->answer > 0 ? "generate" : "prompt");
    if (c->answer > 0)
        bn_table_printf(t, batch ? "%u+%u/%u" : "%u+%u", c->tokens, c->answer, c->n_batch);
    else if (c->n_sequences > 1)
        bn_table_printf(t, "%u x%u", c->tokens, c->n_sequences);
    else
        bn_table_printf(t, batch ? "%u/%u" : "%u", c->tokens, c->n_batch);
    bn_table_count(t, c->depth);
    bn_table_count(t, c->n_threads);
    if (m->o->busy.n > 0) bn_table_count(t, c->n_busy);
    if (c->verdict != BN_BENCH_VALID) {
        bn_table_text(t, c->verdict == BN_BENCH_TIMEOUT ? "TIMEOUT" : "INVALID");
        return;
    }
    put_rate(t, m, c);
    if (m->o->busy.n > 0) bn_table_percent(t, bn_bench_share_of_quiet(m, c), false);
    if (c->decode)
        bn_bench_put_times(t, m->scratch, bn_bench_collect_tokens(m, c));
    else
        bn_bench_put_times(t, m->scratch, bn_bench_collect(m, c, bn_bench_first_token_ns));
    bn_table_value(t, summary_of(m, c, bn_bench_bytes_per_second).median / 1e9, "1");
    if (c->decode)
        bn_table_printf(t, "%.0f %%", 100 * summary_of(m, c, bn_bench_share_of_bandwidth).median);
    else
        bn_table_text(t, "-");
}

void bn_bench_put_times(struct bn_table *t, const double *ns, size_t n)
{
    double p95 = (double)NAN;
    (void)bn_quantile(&p95, ns, n, 0.95);
    bn_table_value(t, bn_median(ns, n) / 1e6, "1");
    bn_table_value(t, p95 / 1e6, "1");
}

static bn_status print_table(const struct bn_bench_measurement *m, bn_error *err)
{
    struct bn_table t;
    char interval[32];
    snprintf(interval, sizeof interval, "%g %% interval", 100 * m->confidence);
    const char *heads[12] = {"test", m->o->batches.n > 1 ? "n/batch" : "tokens", "depth", "t"};
    size_t n = 4;
    if (m->o->busy.n > 0) heads[n++] = "busy";
    heads[n++] = "tok/s";
    heads[n++] = has_interval(m) ? interval : "min \xE2\x80\x93 max";
    if (m->o->busy.n > 0) heads[n++] = "of quiet";
    heads[n++] = "ms p50";
    heads[n++] = "p95";
    heads[n++] = "GB/s";
    heads[n++] = "read";
    bn_table_begin(&t, heads, m->o->busy.n > 0 ? "lrrrrrrrrrrr" : "lrrrrrrrrr");
    for (size_t i = 0; i < m->n_configs; i++)
        put_config(&t, m, &m->configs[i]);
    return bn_bench_print_table(&t, err);
}

/* ---- after the table ---- */

/* Of a machine with this price, busy with nothing else. */
double bn_bench_price(const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    return m->o->price_per_hour / 3600 * 1e6 / summary_of(m, c, bn_bench_tokens_per_second).median;
}

static void print_prices(const struct bn_bench_measurement *m)
{
    for (size_t i = 0; i < m->n_configs && m->o->price_per_hour > 0; i++) {
        char name[BN_BENCH_NAME];
        bn_bench_config_name(&m->configs[i], name, sizeof name);
        if (m->configs[i].verdict == BN_BENCH_VALID)
            printf("price    %.4g per million tokens: %s\n", bn_bench_price(m, &m->configs[i]), name);
    }
}

static bn_status print_depth(const struct bn_bench_measurement *m, bn_error *err)
{
    for (size_t i = 0; i < m->o->decodes.n; i++)
        for (size_t t = 0; t < m->o->threads.n; t++) {
            struct bn_bench_depth_fit fit;
            BN_TRY(bn_bench_fit_depth(&fit, m, m->o->decodes.list[i], m->o->threads.list[t], err));
            if (fit.n == 0) continue;
            printf("A token takes %.3f ms and %.1f us more for each 1000 tokens before it",
                   fit.base_ns.estimate / 1e6, fit.ns_per_position.estimate);
            if (isfinite(fit.ns_per_position.low))
                printf(" (%.1f to %.1f)", fit.ns_per_position.low, fit.ns_per_position.high);
            printf(", decoding %u with t=%u.\n", fit.tokens, fit.n_threads);
        }
    return BN_OK;
}

static void print_outliers(const struct bn_bench_measurement *m)
{
    size_t n = 0, apart = 0, explained = 0;
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        for (size_t k = c->n_warmup; k < c->n_samples; k++) {
            const struct bn_bench_sample *s = &c->samples[k];
            n++;
            if (s->outlier == BN_OUTLIER_NONE) continue;
            apart++;
            explained += s->stolen || s->pressed || s->switched;
        }
    }
    if (apart > 0)
        printf("%zu of %zu samples are outliers; the machine was disturbed during %zu of them.\n", apart, n,
               explained);
}

static void print_remarks(const struct bn_bench_measurement *m)
{
    size_t n_changing = 0;
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        char name[BN_BENCH_NAME];
        bn_bench_config_name(c, name, sizeof name);
        if (c->verdict != BN_BENCH_VALID)
            printf("%s: %s.\n", name, c->reason);
        else if (c->implausible[0] != '\0')
            printf("%s: implausible: %s.\n", name, c->implausible);
        n_changing +=
            c->verdict == BN_BENCH_VALID && !c->steady && bn_bench_can_settle(c->n_samples - c->n_warmup);
    }
    if (n_changing > 0)
        printf("The times of %zu of %zu rows were still changing: use a longer --warmup or a quieter\n"
               "machine.\n",
               n_changing, m->n_configs);
}

bn_status bn_bench_run_print(const struct bn_bench_measurement *m, bn_error *err)
{
    print_head(m);
    BN_TRY(print_table(m, err));
    putchar('\n');
    BN_TRY(bn_bench_concurrent_print(m, err));
    bn_bench_text_print(m);
    print_prices(m);
    if (m->o->prompts.n + m->n_pairs > 0)
        printf("read: percentage of the read bandwidth. Prompts: ms to the first token; arithmetic is\ntheir "
               "limit.%s\n",
               m->n_pairs > 0 ? " generate: tok/s of prompt and answer together." : "");
    if (m->o->busy.n > 0)
        printf("busy: processes that kept a CPU busy meanwhile; of quiet: the rate by that without them.\n");
    BN_TRY(print_depth(m, err));
    print_outliers(m);
    print_remarks(m);
    bn_bench_targets_print(m);
    return BN_OK;
}
