/* SPDX-License-Identifier: MIT
 *
 * bn-bench serve: loads a server of OpenAI's API and reports what its clients see: time to the first token, times between
 * tokens, rates, failures, and whether the answers are the same under each load.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/kit/process.h"
#include "tools/bench/harness.h"
#include "tools/bench/serve/load.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"

#define START_NS 60000000000u /* for bn-serve to open its model */

const struct bn_option bn_bench_serve_options[] = {
    BN_OPTION("clients", "clients that ask again at once, e.g. 1,2,4,8 [1,8]", .arg = "LIST", .group = "Load",
              BN_TO_LIST(struct bn_bench_options, clients, 1, 1000)),
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
    BN_OPTION("seed", "of prompts and answers", .arg = "N", .group = "Load", .preset = "1",
              BN_TO_U64(struct bn_bench_options, seed, 0, UINT32_MAX)),
    BN_OPTION("timeout", "give up a load after this time", .arg = "SECONDS", .group = "Load", .preset = "600",
              BN_TO_F64(struct bn_bench_options, timeout, 0.001, 86400)),
    BN_OPTION("model", "without a URL: the model of the server [built-in]", .letter = 'm', .arg = "MODEL",
              .group = "Server", BN_TO_TEXT(struct bn_args, model), .shared = true),
    BN_OPTION("model-name", "the member \"model\" of requests", .arg = "NAME", .group = "Server",
              .preset = "bn", BN_TO_TEXT(struct bn_bench_options, name)),
    BN_OPTION("api-key-file", "send the first line of FILE as the key", .arg = "FILE", .group = "Server",
              BN_TO_TEXT(struct bn_bench_options, input)),
    {0},
};

struct job {
    struct bn_harness h;
    const struct bn_bench_options *o;
    const char *url;
    struct bn_child *server; /* started without a URL */
    struct bn_buf line;      /* with its URL */
    struct bn_target target;
    struct bn_serve_load *loads;
    size_t n_loads;
    struct bn_buf key;
};

/* A quantile in milliseconds. */
static double ms(const struct bn_serve_load *load, enum bn_load_times kind, double p)
{
    size_t n = load->n[kind];
    double *sorted = n > 0 ? bn_sorted_copy(load->ns[kind], n) : NULL;
    double value = sorted != NULL ? bn_sorted_quantile(sorted, n, p) / 1e6 : 0.0;
    bn_free(sorted);
    return value;
}

/* ---- the document ---- */

static bn_status put_load(struct job *job, const struct bn_serve_load *load, bn_error *err)
{
    const struct bn_client_run *extra = &load->runs[load->n_runs - 1];
    char test[80], reason[BN_BENCH_REASON] = "answers depend on the load";
    snprintf(test, sizeof test, "serve clients=%u prompt=%u tokens=%u", load->n_clients, job->o->n_prompt,
             job->o->n_predict);
    bn_json *o = bn_harness_test(&job->h, test);
    BN_PUT_COUNTS(o, {"clients", load->n_clients}, {"requests", load->n_runs - 1}, {"failed", load->n_failed},
                  {"prompt_tokens", load->n_prompt}, {"cached_tokens", load->n_cached},
                  {"completion_tokens", load->n_tokens});
    bn_json_put_number(o, "seconds", load->seconds);
    if (job->o->n_interrupt > 0) {
        bn_json_put_u64(o, "interrupt_tokens", extra->n_prompt);
        bn_json_put_number(o, "interrupt_ns", (double)(extra->end_ns - extra->start_ns));
    }
    for (size_t i = load->n_runs; i-- > 0;)
        if (load->runs[i].reason[0] != '\0')
            snprintf(reason, sizeof reason, "request %zu failed: %.120s", i, load->runs[i].reason);
    size_t n_same = 0, n = bn_load_compare(&job->loads[0], load, &n_same);
    BN_PUT_COUNTS(o, {"answers_compared", n}, {"answers_same", n_same});
    bn_harness_judge(&job->h, o, load->n_failed > 0 || n != n_same ? BN_BENCH_INVALID : BN_BENCH_VALID,
                     reason);
    for (size_t k = 0; k < BN_LOAD_TIMES; k++)
        BN_TRY(bn_metric_add(&job->h.series, test, bn_load_metrics[k], load->ns[k], load->n[k], 0, err));
    return BN_OK;
}

/* ---- text ---- */

static bn_status print_table(const struct job *job, bn_error *err)
{
    static const char *const HEADS[] = {"clients", "failed",  "tok/s", "first p50", "p95",
                                        "max",     "gap p50", "p95",   "p99",       "max"};
    static const struct {
        enum bn_load_times kind;
        double p;
    } CELLS[] = {{BN_LOAD_FIRST, 0.5}, {BN_LOAD_FIRST, 0.95}, {BN_LOAD_FIRST, 1}, {BN_LOAD_GAPS, 0.5},
                 {BN_LOAD_GAPS, 0.95}, {BN_LOAD_GAPS, 0.99},  {BN_LOAD_GAPS, 1}};
    struct bn_table table;
    bn_table_begin(&table, HEADS, "lrrrrrrrrr");
    for (size_t i = 0; i < job->n_loads; i++) {
        const struct bn_serve_load *load = &job->loads[i];
        bn_table_row(&table, load->n_failed > 0 ? "bad" : "");
        bn_table_count(&table, load->n_clients);
        bn_table_count(&table, load->n_failed);
        bn_table_printf(&table, "%.1f", (double)load->n_tokens / load->seconds);
        for (size_t k = 0; k < BN_ARRAY_LEN(CELLS); k++)
            bn_table_printf(&table, "%.1f", ms(load, CELLS[k].kind, CELLS[k].p));
    }
    return bn_cli_print_table(&table, err);
}

static void print_interrupts(const struct job *job)
{
    for (size_t i = 0; job->o->n_interrupt > 0 && i < job->n_loads; i++) {
        const struct bn_serve_load *load = &job->loads[i];
        const struct bn_client_run *extra = &load->runs[load->n_runs - 1];
        double median = ms(load, BN_LOAD_GAPS, 0.5), p99 = ms(load, BN_LOAD_MEANWHILE, 0.99);
        printf("clients %u: a prompt of %zu tokens took %.1f s; gaps meanwhile: p50 %.1f,\n"
               "  p99 %.1f, max %.1f ms; p99 is %.2f times the median of the other gaps\n",
               load->n_clients, extra->n_prompt, (double)(extra->end_ns - extra->start_ns) / 1e9,
               ms(load, BN_LOAD_MEANWHILE, 0.5), p99, ms(load, BN_LOAD_MEANWHILE, 1.0),
               median > 0.0 ? p99 / median : 0.0);
    }
}

/* Without any response there is nothing to report but the reason. */
static bn_status check_server(const struct job *job, const struct bn_serve_load *load, bn_error *err)
{
    for (size_t i = 0; i < job->o->n_requests; i++)
        if (load->runs[i].status != 0 || load->runs[i].reason[0] == '\0') return BN_OK;
    if (bn_cli_interrupted() != 0) return BN_OK;
    return bn_hint(
        bn_fail_in(err, BN_ERR_NETWORK, job->url, "no request was answered: %s", load->runs[0].reason), err,
        "bn-serve --port N starts a server");
}

/* ---- the command ---- */

/* Starts bn-serve on a free port of this machine. */
static bn_status start_server(struct job *job, const struct bn_args *args, bn_error *err)
{
    char program[PATH_MAX];
    bn_model *model = NULL;
    const char *const argv[] = {program,     "-q", "--port", "0", args->model != NULL ? "-m" : NULL,
                                args->model, NULL};
    const struct bn_child_options options = {.argv = argv, .cancelled = bn_cli_is_interrupted};
    if (!bn_program_near(program, "", "bn-serve"))
        return bn_fail(err, BN_ERR_NOT_FOUND, "bn-serve is not next to bn-bench");
    /* Its error is clearer. */
    BN_TRY(bn_cli_open_model(&model, args, &(bn_model_options){.repack = BN_REPACK_NEVER}, err));
    bn_model_close(model);
    job->line.max = 1000;
    BN_TRY(bn_child_start(&job->server, &options, err));
    BN_TRY(bn_child_read_line(job->server, &job->line, bn_clock_ns() + START_NS, err));
    job->url = strstr(bn_buf_text(&job->line), "http://");
    return job->url != NULL ? BN_OK : bn_fail_in(err, BN_ERR_MISMATCH, "bn-serve", "it printed no URL");
}

static bn_status prepare(struct job *job, const struct bn_args *args, bn_error *err)
{
    const struct bn_bench_options *o = job->o;
    static unsigned both[] = {1, 8};
    job->key.max = 4096;
    if (o->input != NULL) {
        BN_TRY(bn_file_read(o->input, &job->key, err));
        job->key.data[strcspn(bn_buf_text(&job->key), "\r\n")] = '\0';
        job->target.key = job->key.data;
    }
    job->url = args->operands[0];
    if (job->url == NULL) BN_TRY(start_server(job, args, err));
    BN_TRY(bn_target_parse(&job->target, job->url, err));
    job->n_loads = o->clients.n > 0 ? o->clients.n : BN_ARRAY_LEN(both);
    BN_TRY(BN_NEW(job->loads, job->n_loads, err));
    for (size_t i = 0; i < job->n_loads; i++)
        job->loads[i].n_clients = o->clients.n > 0 ? o->clients.list[i] : both[i];
    return BN_OK;
}

static void put_settings(struct job *job)
{
    bn_json *settings = job->h.settings;
    bn_json_put_string(settings, "url", job->h.args->operands[0]);
    BN_PUT_COUNTS(settings, {"requests", job->o->n_requests}, {"prompt_words", job->o->n_prompt},
                  {"shared_words", job->o->n_shared}, {"tokens", job->o->n_predict});
    bn_json_put_count(settings, "interrupt_words", job->o->n_interrupt);
    bn_json_put_number(settings, "temperature", job->o->temperature);
    bn_json_put_u64(settings, "seed", job->o->seed);
}

static bn_status print(const struct job *job, bn_error *err)
{
    size_t n = 0, n_same = 0;
    bn_bench_print_machine(&job->h.machine);
    printf("load     %u requests: %u words, %u tokens; times in ms\n\n", job->o->n_requests, job->o->n_prompt,
           job->o->n_predict);
    BN_TRY(print_table(job, err));
    print_interrupts(job);
    for (size_t i = 1; i < job->n_loads; i++) {
        size_t n_here;
        n += bn_load_compare(&job->loads[0], &job->loads[i], &n_here);
        n_same += n_here;
    }
    if (job->n_loads > 1)
        printf("answers under each load compared with the first: %zu of %zu are the same\n", n_same, n);
    return BN_OK;
}

static bn_status run(struct job *job, struct bn_args *args, bn_error *err)
{
    bn_cli_catch_interrupt();
    bn_harness_begin(&job->h, args, "serve");
    BN_TRY(prepare(job, args, err));
    if (job->server != NULL) (void)bn_cli_put_model(job->h.doc, args);
    put_settings(job);
    for (size_t i = 0; i < job->n_loads; i++) {
        BN_TRY(bn_load_run(&job->loads[i], &job->target, job->o, err));
        BN_TRY(check_server(job, &job->loads[i], err));
        BN_TRY(put_load(job, &job->loads[i], err));
    }
    return args->json ? BN_OK : print(job, err);
}

bn_status bn_bench_serve(struct bn_args *args, bn_error *err)
{
    struct job job = {.o = args->fields};
    bn_status status = run(&job, args, err);
    for (size_t i = 0; job.loads != NULL && i < job.n_loads; i++)
        bn_load_release(&job.loads[i]);
    bn_free(job.loads);
    bn_child_close(job.server);
    bn_buf_release(&job.line);
    bn_buf_release(&job.key);
    return bn_harness_finish(&job.h, status, err);
}
