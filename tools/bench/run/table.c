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

#define LEAST_INTERVAL 6u /* samples: fewer have no interval of 95 % */

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
    printf("; %s; peak memory %.0f MB\n", bn_isa_name(), (double)m->memory.peak / 1e6);
}

/* Does every row have enough samples for an interval of its median? */
static bool has_interval(const struct bn_bench_measurement *m)
{
    bool has = true;
    for (size_t i = 0; i < m->n_configs; i++) {
        const struct bn_bench_config *c = &m->configs[i];
        if (c->verdict == BN_BENCH_VALID) has = has && c->n_samples - c->n_warmup >= LEAST_INTERVAL;
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
               m->o->threads.list[t], bn_bench_s(m->o->threads.list[t]));
    putchar('\n');
    bn_bench_print_others(&m->others);
    print_samples(m);
}

/* ---- the table ---- */

int bn_bench_decimals(double value)
{
    return value >= 1000 ? 0 : value >= 100 ? 1 : 2;
}

void bn_bench_format_range(char out[40], double low, double high)
{
    snprintf(out, 40, "%.*f..%.*f", bn_bench_decimals(low), low, bn_bench_decimals(high), high);
}

void bn_bench_format_quantile(char out[16], const double *ns, size_t n, double p)
{
    double value;
    snprintf(out, 16, "-");
    if (bn_quantile(&value, ns, n, p)) snprintf(out, 16, "%.3f", value / 1e6);
}

/* The interval of the median, or of too few samples the range. */
static void print_rate(const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    struct bn_summary s = summary_of(m, c, bn_bench_tokens_per_second);
    struct bn_interval ci = {.low = s.min, .high = s.max};
    char range[40];
    if (has_interval(m) && bn_interval_median(&ci, m->scratch, s.n, BN_BENCH_CONFIDENCE, NULL) != BN_OK)
        ci = (struct bn_interval){.low = s.min, .high = s.max};
    bn_bench_format_range(range, ci.low, ci.high);
    printf(" %8.*f %16s", bn_bench_decimals(s.median), s.median, range);
}

/* A prompt has a batch, and the time to its first token; decoding has the times of its tokens. */
static void print_config(const struct bn_bench_measurement *m, const struct bn_bench_config *c)
{
    char tokens[32], p50[16], p95[16] = "-";
    bool batched = m->o->batches.n > 1 && !c->decode;
    snprintf(tokens, sizeof tokens, batched ? "%u/%u" : "%u", c->tokens, c->n_batch);
    printf("%-6s %8s %5u %2u", c->decode ? "decode" : "prompt", tokens, c->depth, c->n_threads);
    if (c->verdict != BN_BENCH_VALID) {
        printf(" %s\n", c->verdict == BN_BENCH_TIMEOUT ? "TIMEOUT" : "INVALID");
        return;
    }
    print_rate(m, c);
    if (c->decode) {
        size_t n = bn_bench_collect_tokens(m, c);
        bn_bench_format_quantile(p50, m->scratch, n, 0.5);
        bn_bench_format_quantile(p95, m->scratch, n, 0.95);
    } else {
        snprintf(p50, sizeof p50, "%.3f", summary_of(m, c, bn_bench_first_token_ns).median / 1e6);
    }
    printf(" %8s %8s %6.1f", p50, p95, summary_of(m, c, bn_bench_bytes_per_second).median / 1e9);
    if (c->decode)
        printf(" %3.0f%%\n", 100 * summary_of(m, c, bn_bench_share_of_bandwidth).median);
    else
        printf(" %4s\n", "-");
}

static void print_table(const struct bn_bench_measurement *m)
{
    printf("%-6s %8s %5s %2s %8s %16s %8s %8s %6s %4s\n", "", m->o->batches.n > 1 ? "n/batch" : "tokens",
           "depth", "t", "tok/s", has_interval(m) ? "95 % interval" : "min..max", "ms, p50", "p95", "GB/s",
           "read");
    for (size_t i = 0; i < m->n_configs; i++)
        print_config(m, &m->configs[i]);
}

/* ---- after the table ---- */

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
        char name[64];
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
    print_table(m);
    putchar('\n');
    bn_bench_concurrent_print(m);
    if (m->o->prompts.n > 0)
        printf("read: percentage of the read bandwidth. Prompts: ms to the first token; arithmetic is\ntheir "
               "limit.\n");
    BN_TRY(print_depth(m, err));
    print_outliers(m);
    print_remarks(m);
    return BN_OK;
}
