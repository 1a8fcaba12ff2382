/* SPDX-License-Identifier: MIT
 *
 * bn-bench serve: loads a server of OpenAI's API and reports what its clients see: time to the first token, times between
 * tokens, rates, failures, and whether the answers are the same under each load.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/history/series.h"
#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/serve/load.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"

const struct bn_option bn_bench_serve_options[] = {
    BN_OPTION("clients", "clients that ask again at once, e.g. 1,2,4,8 [1,8]", .arg = "LIST", .group = "Load",
              BN_TO_LIST(struct bn_bench_options, clients, 1, 1000)),
    BN_OPTION("rate", "instead: N requests a second, at random times", .arg = "N", .group = "Load",
              BN_TO_F64(struct bn_bench_options, rate, 0, 100000)),
    BN_OPTION("requests", "requests of each load", .arg = "N", .group = "Load", .preset = "16",
              BN_TO_U32(struct bn_bench_options, n_requests, 1, 100000)),
    BN_OPTION("prompt", "words of each prompt", .arg = "N", .group = "Load", .preset = "32",
              BN_TO_U32(struct bn_bench_options, n_prompt, 1, 100000)),
    BN_OPTION("shared", "words that all prompts begin with", .arg = "N", .group = "Load", .preset = "0",
              BN_TO_U32(struct bn_bench_options, n_shared, 0, 100000)),
    BN_OPTION("tokens", "most tokens of each answer", .arg = "N", .group = "Load", .preset = "64",
              BN_TO_U32(struct bn_bench_options, n_predict, 1, 100000)),
    BN_OPTION("temperature", "of the answers; 0: always the most likely token", .arg = "X", .group = "Load",
              .preset = "0", BN_TO_F64(struct bn_bench_options, temperature, 0, 100)),
    BN_OPTION("interrupt", "send a prompt of N words while all clients are answered", .arg = "N",
              .group = "Load", BN_TO_U32(struct bn_bench_options, n_interrupt, 1, 100000)),
    BN_OPTION("seed", "of prompts, answers and times", .arg = "N", .group = "Load", .preset = "1",
              BN_TO_U64(struct bn_bench_options, seed, 0, UINT32_MAX)),
    BN_OPTION("timeout", "give up a load after this time", .arg = "SECONDS", .group = "Load", .preset = "600",
              BN_TO_F64(struct bn_bench_options, timeout, 0.001, 86400)),
    BN_OPTION("model-name", "the member \"model\" of requests", .arg = "NAME", .group = "Server",
              .preset = "bn", BN_TO_TEXT(struct bn_bench_options, name)),
    BN_OPTION("api-key-file", "send the first line of FILE as the key", .arg = "FILE", .group = "Server",
              BN_TO_TEXT(struct bn_bench_options, input)),
    {0},
};

struct job {
    struct bn_args *args;
    struct bn_bench_options *o;
    struct bn_load_plan plan;
    struct bn_serve_load *loads;
    size_t n_loads;
    struct bn_buf key;
    struct bn_series_list series;
    bn_json *doc;
};

static double ms(const double *ns, size_t n, double p)
{
    double *sorted = n > 0 ? bn_sorted_copy(ns, n) : NULL;
    double value = sorted != NULL ? bn_sorted_quantile(sorted, n, p) / 1e6 : 0.0;
    bn_free(sorted);
    return value;
}

static void name_load(const struct bn_serve_load *load, char *name, size_t n)
{
    if (load->n_clients > 0)
        snprintf(name, n, "%u", load->n_clients);
    else
        snprintf(name, n, "%g/s", load->rate);
}

/* ---- the document ---- */

static bn_status add_series(struct job *job, const struct bn_serve_load *load, const char *metric,
                            const double *samples, size_t n, bn_error *err)
{
    char test[80], name[24];
    name_load(load, name, sizeof name);
    snprintf(test, sizeof test, "serve clients=%s prompt=%u tokens=%u", name, job->o->n_prompt,
             job->o->n_predict);
    struct bn_series series = {test, metric, "ns", false, false, samples, n};
    return n > 0 ? bn_series_add(&job->series, &series, err) : BN_OK;
}

static void put_failures(bn_json *list, const struct bn_serve_load *load)
{
    for (size_t i = 0; i < load->n_runs; i++) {
        const struct bn_client_run *run = &load->runs[i];
        if (run->reason[0] == '\0') continue;
        bn_json *o = bn_json_add_object(list);
        bn_json_put_u64(o, "request", i);
        bn_json_put_u64(o, "status", run->status);
        bn_json_put_string(o, "reason", run->reason);
    }
}

static bn_status put_load(struct job *job, const struct bn_serve_load *load, bn_json *all, bn_error *err)
{
    const struct bn_client_run *extra = &load->runs[load->n_runs - 1];
    bn_json *o = bn_json_add_object(all);
    if (load->n_clients > 0)
        bn_json_put_u64(o, "clients", load->n_clients);
    else
        bn_json_put_number(o, "rate", load->rate);
    bn_json_put_u64(o, "requests", load->n_runs - 1);
    bn_json_put_u64(o, "failed", load->n_failed);
    bn_json_put_u64(o, "prompt_tokens", load->n_prompt);
    bn_json_put_u64(o, "cached_tokens", load->n_cached);
    bn_json_put_u64(o, "completion_tokens", load->n_tokens);
    bn_json_put_number(o, "seconds", load->seconds);
    bn_json_put_number(o, "tokens_per_second", (double)load->n_tokens / load->seconds);
    bn_bench_put_summary(o, "ns_to_first_token", load->first, load->n_first);
    bn_bench_put_summary(o, "ns_between_tokens", load->gaps, load->n_gaps);
    bn_bench_put_summary(o, "ns_per_token", load->per_token, load->n_per_token);
    if (job->o->n_interrupt > 0) {
        bn_json *x = bn_json_put_object(o, "interrupt");
        bn_json_put_u64(x, "prompt_tokens", extra->n_prompt);
        bn_json_put_number(x, "ns", (double)(extra->end_ns - extra->start_ns));
        bn_bench_put_summary(x, "ns_between_tokens", load->meanwhile, load->n_meanwhile);
    }
    put_failures(bn_json_put_array(o, "failures"), load);
    BN_TRY(add_series(job, load, "ns_to_first_token", load->first, load->n_first, err));
    BN_TRY(add_series(job, load, "ns_between_tokens", load->gaps, load->n_gaps, err));
    return add_series(job, load, "ns_per_token", load->per_token, load->n_per_token, err);
}

/* ---- text ---- */

static bn_status print_table(const struct job *job, bn_error *err)
{
    static const char *const HEADS[] = {"clients", "failed",  "tok/s", "first p50", "p95",
                                        "max",     "gap p50", "p95",   "p99",       "max"};
    struct bn_table table;
    char name[24];
    bn_table_begin(&table, HEADS, "lrrrrrrrrr");
    for (size_t i = 0; i < job->n_loads; i++) {
        const struct bn_serve_load *load = &job->loads[i];
        name_load(load, name, sizeof name);
        bn_table_row(&table, load->n_failed > 0 ? "bad" : "");
        bn_table_text(&table, name);
        bn_table_count(&table, load->n_failed);
        bn_table_printf(&table, "%.1f", (double)load->n_tokens / load->seconds);
        bn_table_printf(&table, "%.1f", ms(load->first, load->n_first, 0.5));
        bn_table_printf(&table, "%.1f", ms(load->first, load->n_first, 0.95));
        bn_table_printf(&table, "%.1f", ms(load->first, load->n_first, 1.0));
        bn_table_printf(&table, "%.1f", ms(load->gaps, load->n_gaps, 0.5));
        bn_table_printf(&table, "%.1f", ms(load->gaps, load->n_gaps, 0.95));
        bn_table_printf(&table, "%.1f", ms(load->gaps, load->n_gaps, 0.99));
        bn_table_printf(&table, "%.1f", ms(load->gaps, load->n_gaps, 1.0));
    }
    return bn_bench_print_table(&table, err);
}

static void print_interrupts(const struct job *job)
{
    char name[24];
    for (size_t i = 0; job->o->n_interrupt > 0 && i < job->n_loads; i++) {
        const struct bn_serve_load *load = &job->loads[i];
        const struct bn_client_run *extra = &load->runs[load->n_runs - 1];
        double median = ms(load->gaps, load->n_gaps, 0.5), p99 = ms(load->meanwhile, load->n_meanwhile, 0.99);
        name_load(load, name, sizeof name);
        printf("clients %s: a prompt of %zu tokens took %.1f s; gaps meanwhile: p50 %.1f,\n"
               "  p99 %.1f, max %.1f ms; p99 is %.2f times the median of the other gaps\n",
               name, extra->n_prompt, (double)(extra->end_ns - extra->start_ns) / 1e9,
               ms(load->meanwhile, load->n_meanwhile, 0.5), p99, ms(load->meanwhile, load->n_meanwhile, 1.0),
               median > 0.0 ? p99 / median : 0.0);
    }
}

/* Compares each load's answers with those of the first one. */
static bool check_answers(struct job *job)
{
    bool same = true;
    bn_json *o = bn_json_put_object(job->doc, "answers");
    size_t n = 0, n_same = 0;
    for (size_t i = 1; i < job->n_loads; i++) {
        size_t n_here;
        n += bn_load_compare(&job->loads[0], &job->loads[i], &n_here);
        n_same += n_here;
    }
    same = n == n_same;
    bn_json_put_u64(o, "compared", n);
    bn_json_put_u64(o, "same", n_same);
    if (!job->args->json && job->n_loads > 1)
        printf("answers under each load compared with the first: %zu of %zu are the same\n", n_same, n);
    return same;
}

static void print_failures(const struct job *job)
{
    for (size_t i = 0; i < job->n_loads; i++)
        for (size_t k = 0; k < job->loads[i].n_runs; k++)
            if (job->loads[i].runs[k].reason[0] != '\0') {
                bn_report_warning("request %zu failed: %s", k, job->loads[i].runs[k].reason);
                break;
            }
}

/* Without any response there is nothing to report but the reason. */
static bn_status check_server(const struct job *job, const struct bn_serve_load *load, bn_error *err)
{
    for (size_t i = 0; i < job->o->n_requests; i++)
        if (load->runs[i].status != 0 || load->runs[i].reason[0] == '\0') return BN_OK;
    if (bn_cli_interrupted() != 0) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_NETWORK, job->args->operands[0], "no request was answered: %s",
                              load->runs[0].reason),
                   err, "bn-serve --port N starts a server");
}

/* ---- the command ---- */

static bn_status prepare(struct job *job, bn_error *err)
{
    struct bn_bench_options *o = job->o;
    static unsigned both[] = {1, 8};
    job->key.max = 4096;
    if (o->input != NULL) {
        BN_TRY(bn_file_read(o->input, &job->key, err));
        job->key.data[strcspn(bn_buf_text(&job->key), "\r\n")] = '\0';
        job->plan.target.key = job->key.data;
    }
    BN_TRY(bn_target_parse(&job->plan.target, job->args->operands[0], err));
    if (o->clients.n > 0 && o->rate > 0.0)
        return bn_fail(err, BN_ERR_ARG, "--clients and --rate exclude each other");
    job->plan.model = o->name;
    job->plan.n_requests = o->n_requests;
    job->plan.n_prompt = o->n_prompt;
    job->plan.n_shared = o->n_shared;
    job->plan.n_tokens = o->n_predict;
    job->plan.n_interrupt = o->n_interrupt;
    job->plan.temperature = o->temperature;
    job->plan.seed = o->seed;
    job->plan.timeout_ns = (uint64_t)(o->timeout * 1e9);
    size_t n_lists = o->clients.n > 0 ? o->clients.n : BN_ARRAY_LEN(both);
    size_t n = o->rate > 0.0 ? 1 : n_lists;
    job->loads = bn_alloc(n, sizeof *job->loads);
    if (job->loads == NULL) return bn_nomem(err);
    job->n_loads = n;
    for (size_t i = 0; i < n; i++)
        job->loads[i] = (struct bn_serve_load){
            .n_clients = o->rate > 0.0 ? 0 : (o->clients.n > 0 ? o->clients.list[i] : both[i]),
            .rate = o->rate};
    return BN_OK;
}

static void put_settings(struct job *job)
{
    bn_json *settings = bn_json_put_object(job->doc, "settings");
    bn_json_put_string(settings, "url", job->args->operands[0]);
    bn_json_put_u64(settings, "requests", job->o->n_requests);
    bn_json_put_u64(settings, "prompt_words", job->o->n_prompt);
    bn_json_put_u64(settings, "shared_words", job->o->n_shared);
    bn_json_put_u64(settings, "tokens", job->o->n_predict);
    bn_json_put_count(settings, "interrupt_words", job->o->n_interrupt);
    bn_json_put_number(settings, "temperature", job->o->temperature);
    bn_json_put_u64(settings, "seed", job->o->seed);
}

static bn_status run(struct job *job, bn_error *err)
{
    struct bn_machine machine;
    struct bn_busy before;
    BN_TRY(prepare(job, err));
    bn_machine_read(&machine);
    job->doc = bn_bench_document("serve", &machine);
    put_settings(job);
    bn_busy_read(&before);
    bn_cli_catch_interrupt();
    bn_json *all = bn_json_put_array(job->doc, "loads");
    for (size_t i = 0; i < job->n_loads; i++) {
        BN_TRY(bn_load_run(&job->loads[i], &job->plan, err));
        BN_TRY(check_server(job, &job->loads[i], err));
        BN_TRY(put_load(job, &job->loads[i], all, err));
        if (job->loads[i].n_failed > 0) job->args->exit_code = BN_EXIT_NEGATIVE;
    }
    if (!job->args->json) {
        bn_bench_print_machine(&machine);
        printf("load     %u requests: %u words, %u tokens; times in ms\n\n", job->o->n_requests,
               job->o->n_prompt, job->o->n_predict);
        BN_TRY(print_table(job, err));
        print_interrupts(job);
    }
    print_failures(job);
    if (!check_answers(job)) {
        job->args->exit_code = BN_EXIT_NEGATIVE;
        bn_report_warning("answers depend on the load");
    }
    bn_series_put(job->doc, &job->series);
    return job->args->json ? bn_cli_print_json(job->doc, err) : BN_OK;
}

bn_status bn_bench_serve(struct bn_args *args, bn_error *err)
{
    struct job *job = bn_alloc(1, sizeof *job);
    if (job == NULL) return bn_nomem(err);
    job->args = args;
    job->o = args->fields;
    bn_status status = run(job, err);
    for (size_t i = 0; i < job->n_loads; i++)
        bn_load_release(&job->loads[i]);
    bn_free(job->loads);
    bn_json_free(job->doc);
    bn_series_release(&job->series);
    bn_buf_release(&job->key);
    bn_free(job);
    return status;
}
