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

static struct bn_summary summary_of(const struct bn_bench_plan *plan, const struct bn_bench_config *c,
                                    bn_bench_figure f)
{
    struct bn_summary s;
    (void)bn_summarize(&s, plan->scratch, bn_bench_collect(plan, c, f));
    return s;
}

/* ---- above the table ---- */

static double median_bandwidth(const struct bn_bench_plan *plan, size_t t)
{
    struct bn_summary s;
    size_t n = 0;
    for (uint32_t i = 0; i < plan->n_rounds; i++)
        plan->scratch[n++] = plan->bandwidth[i * plan->n_threads + t];
    (void)bn_summarize(&s, plan->scratch, n);
    return s.median;
}

static void print_model(const struct bn_bench_plan *plan)
{
    const struct bn_bench_load *load = &plan->loads[plan->n_loads - 1];
    printf("model    %s, opened in %.1f ms", bn_cli_model_name(plan->args), (double)load->ns / 1e6);
    if (load->cached >= 0) printf(" (%.0f %% of it was in the page cache)", 100 * load->cached);
    printf("; %s; peak memory %.0f MB\n", bn_isa_name(), (double)plan->peak_rss / 1e6);
}

/* Whether every line has samples enough for an interval of its median. */
static bool has_interval(const struct bn_bench_plan *plan)
{
    bool has = true;
    for (size_t i = 0; i < plan->n_configs; i++) {
        const struct bn_bench_config *c = &plan->configs[i];
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

static void print_samples(const struct bn_bench_plan *plan)
{
    size_t least = SIZE_MAX, most = 0, cold_least = SIZE_MAX, cold_most = 0;
    for (size_t i = 0; i < plan->n_configs; i++) {
        if (plan->configs[i].verdict != BN_BENCH_VALID) continue;
        size_t cold = plan->configs[i].n_warmup, n = plan->configs[i].n_samples - cold;
        if (n < least) least = n;
        if (n > most) most = n;
        if (cold < cold_least) cold_least = cold;
        if (cold > cold_most) cold_most = cold;
    }
    if (most == 0) printf("samples  none is valid\n\n");
    if (most == 0) return;
    printf("samples  ");
    print_range(least, most);
    printf(" of each line, in turn, after ");
    print_range(cold_least, cold_most);
    printf(" of warm-up\n\n");
}

static void print_head(const struct bn_bench_plan *plan)
{
    bn_bench_print_machine(&plan->machine);
    print_model(plan);
    printf("reading  %.3f MB, as much as one token reads:", (double)plan->token_bytes / 1e6);
    for (size_t t = 0; t < plan->n_threads; t++)
        printf("%s %.1f GB/s with %u thread%s", t > 0 ? "," : "", median_bandwidth(plan, t) / 1e9,
               plan->threads[t], bn_bench_s(plan->threads[t]));
    putchar('\n');
    bn_bench_print_others(&plan->others);
    print_samples(plan);
}

/* ---- the table ---- */

/* Milliseconds, or "-" when there are too few samples for the quantile. */
static void print_quantile(const struct bn_bench_plan *plan, size_t n, double p)
{
    double ns;
    if (bn_quantile(&ns, plan->scratch, n, p))
        printf(" %8.3f", ns / 1e6);
    else
        printf(" %8s", "-");
}

/* The interval of the median, or, of too few samples for one, the least and the largest. */
static void print_rate(const struct bn_bench_plan *plan, const struct bn_bench_config *c)
{
    struct bn_summary s = summary_of(plan, c, bn_bench_tokens_per_second);
    double low = s.min, high = s.max;
    struct bn_interval ci;
    if (has_interval(plan) &&
        bn_interval_median(&ci, plan->scratch, s.n, BN_BENCH_CONFIDENCE, NULL) == BN_OK) {
        low = ci.low;
        high = ci.high;
    }
    printf(" %9.1f %9.1f %9.1f %5.1f", s.median, low, high, 100 * s.mad / s.median);
}

static void print_config(const struct bn_bench_plan *plan, const struct bn_bench_config *c)
{
    printf("%-6s %6u %6u %3u", c->decode ? "decode" : "prompt", c->tokens, c->depth, c->n_threads);
    if (plan->n_batches > 1 && c->decode) printf(" %4s", "");
    if (plan->n_batches > 1 && !c->decode) printf(" %4u", c->n_batch);
    if (c->verdict != BN_BENCH_VALID) {
        printf("   %s\n", c->verdict == BN_BENCH_TIMEOUT ? "TIMEOUT" : "INVALID");
        return;
    }
    print_rate(plan, c);
    if (c->decode) {
        size_t n = bn_bench_collect_tokens(plan, c);
        print_quantile(plan, n, 0.5);
        print_quantile(plan, n, 0.95);
        print_quantile(plan, n, 0.99);
    } else {
        printf(" %8.3f %8s %8s", summary_of(plan, c, bn_bench_first_token_ns).median / 1e6, "", "");
    }
    printf(" %9.3f %6.1f", summary_of(plan, c, bn_bench_bytes_per_token).median / 1e6,
           summary_of(plan, c, bn_bench_bytes_per_second).median / 1e9);
    if (c->decode)
        printf(" %5.0f %%\n", 100 * summary_of(plan, c, bn_bench_share_of_bandwidth).median);
    else
        printf(" %7s\n", "-");
}

static void print_table(const struct bn_bench_plan *plan)
{
    printf("%-6s %6s %6s %3s", "", "tokens", "depth", "t");
    if (plan->n_batches > 1) printf(" %4s", "b");
    printf(" %9s %9s %9s %5s %8s %8s %8s %9s %6s %7s\n", "tok/s", has_interval(plan) ? "95 % from" : "min",
           has_interval(plan) ? "to" : "max", "+- %", "ms, p50", "p95", "p99", "MB/token", "GB/s", "share");
    for (size_t i = 0; i < plan->n_configs; i++)
        print_config(plan, &plan->configs[i]);
}

/* ---- below the table ---- */

static bn_status print_depth(const struct bn_bench_plan *plan, bn_error *err)
{
    for (size_t i = 0; i < plan->n_decodes; i++)
        for (size_t t = 0; t < plan->n_threads; t++) {
            struct bn_bench_depth_fit fit;
            BN_TRY(bn_bench_fit_depth(&fit, plan, plan->decodes[i], plan->threads[t], err));
            if (fit.n == 0) continue;
            printf("A token takes %.3f ms and %.1f us more for each 1000 tokens before it",
                   fit.base_ns.estimate / 1e6, fit.ns_per_position.estimate);
            if (isfinite(fit.ns_per_position.low))
                printf(" (%.1f to %.1f)", fit.ns_per_position.low, fit.ns_per_position.high);
            printf(", decoding %u with t=%u.\n", fit.tokens, fit.n_threads);
        }
    return BN_OK;
}

static void print_outliers(const struct bn_bench_plan *plan)
{
    size_t n = 0, apart = 0, explained = 0;
    for (size_t i = 0; i < plan->n_configs; i++) {
        const struct bn_bench_config *c = &plan->configs[i];
        for (size_t k = c->n_warmup; k < c->n_samples; k++) {
            const struct bn_bench_sample *s = &c->samples[k];
            n++;
            if (s->outlier == BN_OUTLIER_NONE) continue;
            apart++;
            explained += s->stolen || s->pressed || s->switched;
        }
    }
    if (apart > 0)
        printf("%zu of %zu samples are outliers; the machine was disturbed during %zu of them. All count.\n",
               apart, n, explained);
}

static void print_remarks(const struct bn_bench_plan *plan)
{
    size_t n_changing = 0;
    for (size_t i = 0; i < plan->n_configs; i++) {
        const struct bn_bench_config *c = &plan->configs[i];
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
        printf("The times of %zu of %zu lines were still changing; a longer --warmup or a quieter machine "
               "may help.\n",
               n_changing, plan->n_configs);
}

bn_status bn_bench_print_plan(const struct bn_bench_plan *plan, bn_error *err)
{
    print_head(plan);
    print_table(plan);
    putchar('\n');
    bn_bench_crowds_print(plan);
    if (plan->n_prompts > 0)
        printf("For a prompt, ms is the time to the first token; its limit is arithmetic, not reading.\n");
    BN_TRY(print_depth(plan, err));
    print_outliers(plan);
    print_remarks(plan);
    return BN_OK;
}
