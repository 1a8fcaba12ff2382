/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: prompts and decoding as a generation runs them (infer/generate.h), timed. Rounds go over all
 * configurations, every other one backwards, so that what changes on the machine meanwhile meets all of them.
 */
#include "tools/bench/run.h"

#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "infer/generate.h"
#include "measure/bandwidth.h"
#include "tools/cli/default_model.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"

#define MAX_TOKENS (1u << 20)
#define PROBE_NS 30000000u         /* a cache is measured quickly, */
#define MEMORY_PROBE_NS 150000000u /* memory, which others use too, is not */
#define MEMORY_BYTES (16u << 20)

const struct bn_option bn_bench_run_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_REPACK,
    {.name = "batch",
     .arg = "N",
     .group = "Machine",
     .help = "tokens of a prompt evaluated together, 1 to 4096; without it 128"},
    {.name = "n-prompt",
     .letter = 'p',
     .arg = "LIST",
     .group = "Tests",
     .preset = "128,512",
     .help = "tokens of prompts; 0 for none"},
    {.name = "n-predict",
     .letter = 'n',
     .arg = "LIST",
     .group = "Tests",
     .preset = "32",
     .help = "tokens to decode, one by one; 0 for none"},
    {.name = "depth",
     .letter = 'd',
     .arg = "LIST",
     .group = "Tests",
     .preset = "0",
     .help = "tokens that are in the context before, which is not timed"},
    {.name = "reps",
     .letter = 'r',
     .arg = "N",
     .group = "Measurement",
     .preset = "5",
     .help = "samples of each test"},
    {.name = "warmup",
     .arg = "N",
     .group = "Measurement",
     .preset = "1",
     .help = "samples before those, which do not count"},
    {.name = "seed",
     .arg = "N",
     .group = "Measurement",
     .preset = "42",
     .help = "of the ids of prompts, which are random"},
    {0},
};

/* ---- what is asked ---- */

static uint32_t largest(const uint32_t *list, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++)
        if (list[i] > most) most = list[i];
    return most;
}

/* Sizes of 0 ask for no test of that kind. */
static void drop_zeros(uint32_t *list, size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++)
        if (list[i] != 0) list[kept++] = list[i];
    *n = kept;
}

static bn_status read_options(struct bn_bench_plan *plan, bn_error *err)
{
    const struct bn_args *args = plan->args;
    BN_TRY(bn_bench_list(args, "n-prompt", MAX_TOKENS, &plan->prompts, &plan->n_prompts, err));
    BN_TRY(bn_bench_list(args, "n-predict", MAX_TOKENS, &plan->decodes, &plan->n_decodes, err));
    BN_TRY(bn_bench_list(args, "depth", MAX_TOKENS, &plan->depths, &plan->n_depths, err));
    BN_TRY(bn_opt_u32(args, "batch", 1, 4096, &plan->n_batch, err));
    BN_TRY(bn_opt_u32(args, "reps", 1, 10000, &plan->reps, err));
    BN_TRY(bn_opt_u32(args, "warmup", 0, 1000, &plan->warmup, err));
    BN_TRY(bn_opt_u64(args, "seed", 0, (1ull << 53) - 1, &plan->seed, err));
    drop_zeros(plan->prompts, &plan->n_prompts);
    drop_zeros(plan->decodes, &plan->n_decodes);
    if (plan->n_prompts + plan->n_decodes == 0)
        return bn_fail(err, BN_ERR_ARG, "neither a prompt (-p) nor tokens to decode (-n) are asked for");
    return bn_bench_threads(args, &plan->threads, &plan->n_threads, err);
}

static bn_status open_model(struct bn_bench_plan *plan, bn_error *err)
{
    static const bn_model_options options = {.repack = BN_REPACK_AUTO};
    uint64_t start = bn_clock_ns();
    BN_TRY(bn_cli_open_model(&plan->model, plan->args, &options, err));
    plan->load_ns = bn_clock_ns() - start;
    return BN_OK;
}

/* Ids from the seed, by splitmix64; all of them are valid. */
static bn_status make_timeline(struct bn_bench_plan *plan, bn_error *err)
{
    size_t longest = (size_t)largest(plan->depths, plan->n_depths) + 1;
    longest += largest(plan->prompts, plan->n_prompts);
    uint64_t state = plan->seed, n_vocab = bn_model_hparams(plan->model)->n_vocab;
    plan->ids = bn_alloc(longest, sizeof *plan->ids);
    if (plan->ids == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < longest; i++)
        plan->ids[i] = (int32_t)((bn_splitmix64(&state) >> 32) * n_vocab >> 32);
    return BN_OK;
}

/* ---- counters ---- */

struct stats {
    bn_kernel_stat list[BN_KERNEL_COUNT];
    size_t n;
};

static void read_stats(struct stats *stats, const bn_session *session)
{
    stats->n = 0;
    while (stats->n < BN_KERNEL_COUNT && bn_session_kernel_stat(session, stats->n, &stats->list[stats->n]))
        stats->n++;
}

static bn_kernel_stat *find_stat(bn_kernel_stat *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

/* after -= before. Kernels that were not called in between go. */
static void subtract(struct stats *after, struct stats *before)
{
    size_t kept = 0;
    for (size_t i = 0; i < after->n; i++) {
        bn_kernel_stat a = after->list[i];
        const bn_kernel_stat *b = find_stat(before->list, before->n, a.name);
        if (b != NULL) {
            a.calls -= b->calls;
            a.ns -= b->ns;
            a.bytes -= b->bytes;
            a.ops -= b->ops;
        }
        if (a.calls > 0) after->list[kept++] = a;
    }
    after->n = kept;
}

static void add_up(struct bn_bench_config *config, const struct stats *stats)
{
    for (size_t i = 0; i < stats->n; i++) {
        const bn_kernel_stat *a = &stats->list[i];
        bn_kernel_stat *sum = find_stat(config->kernels, config->n_kernels, a->name);
        if (sum == NULL) {
            sum = &config->kernels[config->n_kernels++];
            *sum = (bn_kernel_stat){.name = a->name};
        }
        sum->calls += a->calls;
        sum->ns += a->ns;
        sum->bytes += a->bytes;
        sum->ops += a->ops;
    }
}

/* ---- sessions ---- */

/* What one token reads, from the counters of a fresh session. */
static bn_status learn_bytes(struct bn_bench_plan *plan, bn_session *session, bn_error *err)
{
    struct stats stats;
    struct bn_generation gen = {
        .prompt = plan->ids, .n_prompt = 1, .n_predict = 1, .sampling = BN_SAMPLER_OPTIONS_INIT};
    BN_TRY(bn_generate(session, NULL, &gen, err));
    bn_generation_release(&gen);
    read_stats(&stats, session);
    for (size_t i = 0; i < stats.n; i++)
        plan->token_bytes += stats.list[i].bytes;
    return bn_session_truncate(session, 0, err);
}

static bn_status open_session(struct bn_bench_plan *plan, struct bn_bench_pair *pair, bn_error *err)
{
    uint32_t prompt = largest(plan->prompts, plan->n_prompts);
    uint32_t decode = largest(plan->decodes, plan->n_decodes) + 1; /* behind a prompt of one token */
    bn_session_options options = {.n_batch = plan->n_batch, .n_threads = pair->n_threads};
    options.n_ctx = pair->depth + (prompt > decode ? prompt : decode);
    BN_TRY(bn_session_open(&pair->session, plan->model, &options, err));
    if (plan->token_bytes == 0) BN_TRY(learn_bytes(plan, pair->session, err));
    if (pair->depth == 0) return BN_OK;
    bn_report_note(0, "filling %u tokens, threads: %u", pair->depth, pair->n_threads);
    return bn_session_eval(pair->session, plan->ids, pair->depth, BN_LOGITS_NONE, NULL, err);
}

static bn_status open_sessions(struct bn_bench_plan *plan, bn_error *err)
{
    plan->pairs = bn_alloc(plan->n_threads * plan->n_depths, sizeof *plan->pairs);
    if (plan->pairs == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    for (size_t d = 0; d < plan->n_depths; d++)
        for (size_t t = 0; t < plan->n_threads; t++) {
            struct bn_bench_pair *pair = &plan->pairs[plan->n_pairs++];
            *pair = (struct bn_bench_pair){plan->threads[t], plan->depths[d], NULL};
            BN_TRY(open_session(plan, pair, err));
        }
    return BN_OK;
}

static bn_status add_config(struct bn_bench_plan *plan, const struct bn_bench_pair *pair, bool decode,
                            uint32_t tokens, bn_error *err)
{
    struct bn_bench_config *c = &plan->configs[plan->n_configs++];
    *c = (struct bn_bench_config){.decode = decode,
                                  .tokens = tokens,
                                  .depth = pair->depth,
                                  .n_threads = pair->n_threads,
                                  .session = pair->session};
    c->samples = bn_alloc(plan->reps, sizeof *c->samples);
    uint64_t room = decode ? (uint64_t)plan->reps * tokens : 0;
    c->token_ns = bn_alloc((size_t)room, sizeof *c->token_ns);
    if (c->samples == NULL || c->token_ns == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    return BN_OK;
}

static bn_status make_configs(struct bn_bench_plan *plan, bn_error *err)
{
    size_t most = (plan->n_prompts + plan->n_decodes) * plan->n_pairs;
    size_t scratch = (size_t)plan->reps * (largest(plan->decodes, plan->n_decodes) + 1);
    plan->configs = bn_alloc(most, sizeof *plan->configs);
    plan->bandwidth = bn_alloc((size_t)(plan->reps + plan->warmup) * plan->n_threads, sizeof(double));
    plan->scratch = bn_alloc(scratch, sizeof *plan->scratch);
    if (plan->configs == NULL || plan->bandwidth == NULL || plan->scratch == NULL)
        return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < plan->n_prompts; i++)
        for (size_t k = 0; k < plan->n_pairs; k++)
            BN_TRY(add_config(plan, &plan->pairs[k], false, plan->prompts[i], err));
    for (size_t i = 0; i < plan->n_decodes; i++)
        for (size_t k = 0; k < plan->n_pairs; k++)
            BN_TRY(add_config(plan, &plan->pairs[k], true, plan->decodes[i], err));
    return BN_OK;
}

/* ---- measuring ---- */

static uint64_t time_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static void put_usage(struct bn_bench_sample *s, const struct rusage *before, const struct rusage *after)
{
    s->user_ns = time_ns(after->ru_utime) - time_ns(before->ru_utime);
    s->system_ns = time_ns(after->ru_stime) - time_ns(before->ru_stime);
    s->voluntary_switches = (uint64_t)(after->ru_nvcsw - before->ru_nvcsw);
    s->involuntary_switches = (uint64_t)(after->ru_nivcsw - before->ru_nivcsw);
    s->minor_faults = (uint64_t)(after->ru_minflt - before->ru_minflt);
    s->major_faults = (uint64_t)(after->ru_majflt - before->ru_majflt);
}

/* Books what a generation took into a sample; stats is what its kernels did. */
static void book(struct bn_bench_config *c, struct bn_bench_sample *s, const struct bn_generation *gen,
                 const struct stats *stats)
{
    s->ns = c->decode ? gen->decode_ns : gen->prefill_ns;
    s->total_ns = gen->total_ns;
    s->first_token_ns = gen->token_ns[0];
    s->evaluated = c->decode ? c->tokens + 1u : c->tokens;
    for (size_t i = 0; i < stats->n; i++) {
        s->bytes += stats->list[i].bytes;
        s->ops += stats->list[i].ops;
    }
    s->token_ns = c->token_ns + c->n_samples * c->tokens;
    if (c->decode) memcpy(s->token_ns, gen->token_ns + 1, c->tokens * sizeof *s->token_ns);
    add_up(c, stats);
    c->n_samples++;
}

/* One sample; with keep it is booked. Afterwards the timeline is as long as before. */
static bn_status take(struct bn_bench_plan *plan, struct bn_bench_config *c, uint32_t round, double bandwidth,
                      bool keep, bn_error *err)
{
    struct stats before, after;
    struct rusage usage, usage_after;
    struct bn_bench_sample s = {.round = round, .bandwidth = bandwidth};
    struct bn_generation gen = {
        .prompt = plan->ids + c->depth, .ignore_end = true, .sampling = BN_SAMPLER_OPTIONS_INIT};
    gen.n_prompt = c->decode ? 1 : c->tokens;
    gen.n_predict = c->decode ? c->tokens + 1 : 1;
    read_stats(&before, c->session);
    getrusage(RUSAGE_SELF, &usage);
    BN_TRY(bn_generate(c->session, bn_model_tokenizer(plan->model), &gen, err));
    getrusage(RUSAGE_SELF, &usage_after);
    read_stats(&after, c->session);
    subtract(&after, &before);
    put_usage(&s, &usage, &usage_after);
    bn_status status = BN_OK;
    if (gen.n_ids != gen.n_predict)
        status = bn_fail(err, BN_ERR_INTERNAL, "%zu tokens came in place of %u", gen.n_ids, gen.n_predict);
    if (status == BN_OK && keep) {
        book(c, &s, &gen, &after);
        c->samples[c->n_samples - 1] = s;
    }
    bn_generation_release(&gen);
    return status != BN_OK ? status : bn_session_truncate(c->session, c->depth, err);
}

static double bandwidth_of(const struct bn_bench_plan *plan, uint32_t round, uint32_t n_threads)
{
    size_t at = 0;
    while (plan->threads[at] != n_threads)
        at++;
    return plan->bandwidth[round * plan->n_threads + at];
}

static bn_status run_round(struct bn_bench_plan *plan, uint32_t round, bn_error *err)
{
    uint64_t budget_ns = plan->token_bytes < MEMORY_BYTES ? PROBE_NS : MEMORY_PROBE_NS;
    for (size_t t = 0; t < plan->n_threads; t++)
        plan->bandwidth[round * plan->n_threads + t] =
            (double)bn_bandwidth_probe((size_t)plan->token_bytes, plan->threads[t], budget_ns);
    for (size_t i = 0; i < plan->n_configs; i++) {
        struct bn_bench_config *c = &plan->configs[round % 2 == 0 ? i : plan->n_configs - 1 - i];
        BN_TRY(take(plan, c, round, bandwidth_of(plan, round, c->n_threads), round >= plan->warmup, err));
    }
    return BN_OK;
}

static bn_status show(const struct bn_bench_plan *plan, bn_error *err)
{
    if (!plan->args->json) {
        bn_bench_print_plan(plan);
        return BN_OK;
    }
    bn_json *doc = bn_bench_run_document(plan);
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

static bn_status run(struct bn_bench_plan *plan, bn_error *err)
{
    BN_TRY(read_options(plan, err));
    bn_machine_read(&plan->machine); /* first, for the load before us */
    bn_bench_warn(&plan->machine);
    BN_TRY(open_model(plan, err));
    BN_TRY(make_timeline(plan, err));
    BN_TRY(open_sessions(plan, err));
    BN_TRY(make_configs(plan, err));
    for (uint32_t round = 0; round < plan->warmup + plan->reps; round++)
        BN_TRY(run_round(plan, round, err));
    return show(plan, err);
}

bn_status bn_bench_run(struct bn_args *args, bn_error *err)
{
    struct bn_bench_plan plan = {.args = args};
    bn_status status = run(&plan, err);
    for (size_t i = 0; i < plan.n_configs; i++) {
        bn_free(plan.configs[i].samples);
        bn_free(plan.configs[i].token_ns);
    }
    for (size_t i = 0; i < plan.n_pairs; i++)
        bn_session_close(plan.pairs[i].session);
    bn_model_close(plan.model);
    void *blocks[] = {plan.prompts, plan.decodes, plan.depths,    plan.threads, plan.ids,
                      plan.pairs,   plan.configs, plan.bandwidth, plan.scratch};
    for (size_t i = 0; i < BN_ARRAY_LEN(blocks); i++)
        bn_free(blocks[i]);
    return status;
}
