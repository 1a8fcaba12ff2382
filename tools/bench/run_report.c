/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: its results as a table and as a document.
 */
#include <stdio.h>

#include "measure/summary.h"
#include "tools/bench/run.h"
#include "tools/cli/default_model.h"

/* ---- figures of one sample ---- */

static double per_second(double what, uint64_t ns)
{
    return ns > 0 ? what * 1e9 / (double)ns : 0;
}

static double tokens_per_second(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    return per_second(c->tokens, s->ns);
}

static double first_token_ns(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    (void)c;
    return (double)s->first_token_ns;
}

static double bytes_per_token(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    (void)c;
    return (double)s->bytes / (double)s->evaluated;
}

static double bytes_per_second(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    (void)c;
    return per_second((double)s->bytes, s->total_ns);
}

static double share_of_bandwidth(const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    return s->bandwidth > 0 ? bytes_per_second(c, s) / s->bandwidth : 0;
}

typedef double (*figure)(const struct bn_bench_config *c, const struct bn_bench_sample *s);

/* The figure of every sample, in the plan's scratch; returns how many. */
static size_t collect(const struct bn_bench_plan *plan, const struct bn_bench_config *c, figure f)
{
    for (size_t i = 0; i < c->n_samples; i++)
        plan->scratch[i] = f(c, &c->samples[i]);
    return c->n_samples;
}

/* The same of every token; only decoding has them. */
static size_t collect_tokens(const struct bn_bench_plan *plan, const struct bn_bench_config *c)
{
    size_t n = c->decode ? c->n_samples * c->tokens : 0;
    for (size_t i = 0; i < n; i++)
        plan->scratch[i] = (double)c->token_ns[i];
    return n;
}

/* ---- the table ---- */

static struct bn_summary summary_of(const struct bn_bench_plan *plan, const struct bn_bench_config *c,
                                    figure f)
{
    struct bn_summary s;
    (void)bn_summarize(&s, plan->scratch, collect(plan, c, f));
    return s;
}

/* Milliseconds, or "-" when there are too few samples for the quantile. */
static void print_quantile(const struct bn_bench_plan *plan, size_t n, double p)
{
    double ns;
    if (bn_quantile(&ns, plan->scratch, n, p))
        printf(" %8.3f", ns / 1e6);
    else
        printf(" %8s", "-");
}

static void print_config(const struct bn_bench_plan *plan, const struct bn_bench_config *c)
{
    struct bn_summary rate = summary_of(plan, c, tokens_per_second);
    struct bn_summary first = summary_of(plan, c, first_token_ns);
    struct bn_summary token = summary_of(plan, c, bytes_per_token);
    struct bn_summary bytes = summary_of(plan, c, bytes_per_second);
    struct bn_summary share = summary_of(plan, c, share_of_bandwidth);
    printf("%-6s %6u %6u %3u %9.1f %9.1f %9.1f %5.1f", c->decode ? "decode" : "prompt", c->tokens, c->depth,
           c->n_threads, rate.median, rate.min, rate.max, 100 * rate.mad / rate.median);
    if (c->decode) {
        size_t n = collect_tokens(plan, c);
        print_quantile(plan, n, 0.5);
        print_quantile(plan, n, 0.95);
        print_quantile(plan, n, 0.99);
    } else {
        printf(" %8.3f %8s %8s", first.median / 1e6, "", "");
    }
    printf(" %9.3f %6.1f", token.median / 1e6, bytes.median / 1e9);
    if (c->decode)
        printf(" %5.0f %%\n", 100 * share.median);
    else
        printf(" %7s\n", "-");
}

static double median_bandwidth(const struct bn_bench_plan *plan, size_t t)
{
    struct bn_summary s;
    for (uint32_t i = 0; i < plan->reps; i++)
        plan->scratch[i] = plan->bandwidth[(plan->warmup + i) * plan->n_threads + t];
    (void)bn_summarize(&s, plan->scratch, plan->reps);
    return s.median;
}

void bn_bench_print_plan(const struct bn_bench_plan *plan)
{
    bn_bench_print_machine(&plan->machine);
    printf("model    %s, opened in %.1f ms; %s; peak memory %.0f MB\n", bn_cli_model_name(plan->args),
           (double)plan->load_ns / 1e6, bn_isa_name(), (double)bn_machine_peak_rss_bytes() / 1e6);
    printf("reading  %.3f MB, as much as one token reads:", (double)plan->token_bytes / 1e6);
    for (size_t t = 0; t < plan->n_threads; t++)
        printf("%s %.1f GB/s with %u thread%s", t > 0 ? "," : "", median_bandwidth(plan, t) / 1e9,
               plan->threads[t], plan->threads[t] > 1 ? "s" : "");
    printf("\nsamples  %u of each line, in turn, behind %u that do not count\n\n", plan->reps, plan->warmup);
    printf("%-6s %6s %6s %3s %9s %9s %9s %5s %8s %8s %8s %9s %6s %7s\n", "", "tokens", "depth", "t", "tok/s",
           "min", "max", "+- %", "ms, p50", "p95", "p99", "MB/token", "GB/s", "share");
    for (size_t i = 0; i < plan->n_configs; i++)
        print_config(plan, &plan->configs[i]);
    if (plan->n_prompts > 0)
        printf("\nOf a prompt, ms is the time to the first token; arithmetic bounds it, not reading.\n");
}

/* ---- the document ---- */

static void put_list(bn_json *object, const char *name, const uint32_t *list, size_t n)
{
    bn_json *array = bn_json_put_array(object, name);
    for (size_t i = 0; i < n; i++)
        bn_json_add_u64(array, list[i]);
}

static void put_sample(bn_json *array, const struct bn_bench_config *c, const struct bn_bench_sample *s)
{
    bn_json *o = bn_json_add_object(array);
    bn_json_put_object(o, "unavailable");
    bn_json_put_u64(o, "round", s->round);
    bn_json_put_u64(o, "ns", s->ns);
    bn_json_put_u64(o, "total_ns", s->total_ns);
    bn_json_put_u64(o, "first_token_ns", s->first_token_ns);
    bn_json_put_number(o, "tokens_per_second", tokens_per_second(c, s));
    bn_json_put_u64(o, "evaluated_tokens", s->evaluated);
    bn_json_put_u64(o, "bytes", s->bytes);
    bn_json_put_u64(o, "ops", s->ops);
    bn_json_put_u64(o, "user_ns", s->user_ns);
    bn_json_put_u64(o, "system_ns", s->system_ns);
    bn_json_put_u64(o, "voluntary_switches", s->voluntary_switches);
    bn_json_put_u64(o, "involuntary_switches", s->involuntary_switches);
    bn_json_put_u64(o, "minor_faults", s->minor_faults);
    bn_json_put_u64(o, "major_faults", s->major_faults);
    if (s->bandwidth > 0)
        bn_json_put_number(o, "bandwidth_bytes_per_second", s->bandwidth);
    else
        bn_json_put_unavailable(o, "bandwidth_bytes_per_second", "no memory for the probe");
    bn_json *tokens = bn_json_put_array(o, "token_ns");
    for (size_t i = 0; c->decode && i < c->tokens; i++)
        bn_json_add_u64(tokens, s->token_ns[i]);
}

static void put_kernels(bn_json *config, const struct bn_bench_config *c)
{
    bn_json *kernels = bn_json_put_array(config, "kernels");
    for (size_t i = 0; i < c->n_kernels; i++) {
        bn_json *k = bn_json_add_object(kernels);
        bn_json_put_string(k, "name", c->kernels[i].name);
        bn_json_put_u64(k, "calls", c->kernels[i].calls);
        bn_json_put_u64(k, "ns", c->kernels[i].ns);
        bn_json_put_u64(k, "bytes", c->kernels[i].bytes);
        bn_json_put_u64(k, "ops", c->kernels[i].ops);
    }
}

static void put_figure(const struct bn_bench_plan *plan, const struct bn_bench_config *c, bn_json *object,
                       const char *name, figure f)
{
    bn_bench_put_summary(object, name, plan->scratch, collect(plan, c, f));
}

static void put_config(const struct bn_bench_plan *plan, bn_json *array, const struct bn_bench_config *c)
{
    bn_json *o = bn_json_add_object(array);
    bn_json_put_string(o, "test", c->decode ? "decode" : "prompt");
    bn_json_put_u64(o, "tokens", c->tokens);
    bn_json_put_u64(o, "depth", c->depth);
    bn_json_put_u64(o, "threads", c->n_threads);
    bn_json_put_u64(o, "batch", bn_session_n_batch(c->session));
    bn_json *samples = bn_json_put_array(o, "samples");
    for (size_t i = 0; i < c->n_samples; i++)
        put_sample(samples, c, &c->samples[i]);
    put_kernels(o, c);
    bn_json *s = bn_json_put_object(o, "summary");
    bn_json_put_object(s, "unavailable");
    put_figure(plan, c, s, "tokens_per_second", tokens_per_second);
    put_figure(plan, c, s, "bytes_per_token", bytes_per_token);
    put_figure(plan, c, s, "bytes_per_second", bytes_per_second);
    bool probed = true;
    for (size_t i = 0; i < c->n_samples; i++)
        probed = probed && c->samples[i].bandwidth > 0;
    if (!c->decode)
        bn_json_put_unavailable(s, "share_of_bandwidth", "arithmetic bounds a prompt, not reading");
    else if (!probed)
        bn_json_put_unavailable(s, "share_of_bandwidth", "no memory for the probe");
    else
        put_figure(plan, c, s, "share_of_bandwidth", share_of_bandwidth);
    if (c->decode) {
        bn_bench_put_summary(s, "token_ns", plan->scratch, collect_tokens(plan, c));
        bn_json_put_unavailable(s, "first_token_ns", "decoding begins behind a prompt of one token");
    } else {
        put_figure(plan, c, s, "first_token_ns", first_token_ns);
        bn_json_put_unavailable(s, "token_ns", "the tokens of a prompt are evaluated together");
    }
}

static void put_settings(const struct bn_bench_plan *plan, bn_json *doc)
{
    bn_json *o = bn_json_put_object(doc, "settings");
    put_list(o, "prompt_tokens", plan->prompts, plan->n_prompts);
    put_list(o, "decode_tokens", plan->decodes, plan->n_decodes);
    put_list(o, "depths", plan->depths, plan->n_depths);
    put_list(o, "threads", plan->threads, plan->n_threads);
    bn_json_put_u64(o, "reps", plan->reps);
    bn_json_put_u64(o, "warmup", plan->warmup);
    bn_json_put_u64(o, "seed", plan->seed);
    bn_json_put_string(o, "isa", bn_isa_name());
}

static void put_bandwidth(const struct bn_bench_plan *plan, bn_json *doc)
{
    bn_json *array = bn_json_put_array(doc, "bandwidth");
    for (size_t t = 0; t < plan->n_threads; t++) {
        bn_json *o = bn_json_add_object(array);
        bn_json_put_u64(o, "threads", plan->threads[t]);
        bn_json_put_u64(o, "set_bytes", plan->token_bytes);
        bn_json *rates = bn_json_put_array(o, "bytes_per_second"); /* one a round, warm-ups too */
        for (uint32_t i = 0; i < plan->warmup + plan->reps; i++)
            bn_json_add_number(rates, plan->bandwidth[i * plan->n_threads + t]);
    }
}

bn_json *bn_bench_run_document(const struct bn_bench_plan *plan)
{
    bn_json *doc = bn_bench_document("run", &plan->machine);
    put_settings(plan, doc);
    bn_json *model = bn_bench_put_model(doc, plan->args);
    bn_json_put_u64(model, "load_ns", plan->load_ns);
    bn_json *memory = bn_json_put_object(doc, "memory");
    bn_json_put_object(memory, "unavailable");
    uint64_t peak = bn_machine_peak_rss_bytes();
    if (peak > 0)
        bn_json_put_u64(memory, "peak_rss_bytes", peak);
    else
        bn_json_put_unavailable(memory, "peak_rss_bytes", "getrusage does not say");
    put_bandwidth(plan, doc);
    bn_json *configs = bn_json_put_array(doc, "configurations");
    for (size_t i = 0; i < plan->n_configs; i++)
        put_config(plan, configs, &plan->configs[i]);
    return doc;
}
