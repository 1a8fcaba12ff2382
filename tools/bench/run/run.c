/* SPDX-License-Identifier: MIT
 *
 * bn-bench run: prompts and decoding as a generation runs them (infer/generate.h), timed. Rounds go over all
 * configurations, every other one backwards, so that what changes on the machine meets all of them.
 *
 * How many rounds: each configuration has a window, at first of --reps samples. With --warmup auto it moves
 * on by a round, and the sample that it leaves becomes warm-up, until there is no trend within it; then it
 * only grows, until all have settled and, with --reps auto, the medians are known precisely enough.
 */
#include "tools/bench/run/run.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/team.h"
#include "lab/host/bandwidth.h"
#include "tools/cli/number.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"

#define MAX_TOKENS (1u << 20)
#define MAX_REPS 10000u
#define LEAST_AUTO_REPS 6u /* fewer have no interval of the median */
#define MOST_AUTO_ROUNDS 200u
#define MOST_AUTO_WARMUP 10u
#define PROBE_NS 30000000u         /* a cache is measured quickly, */
#define MEMORY_PROBE_NS 150000000u /* memory, which others use too, is not */
#define MEMORY_BYTES (16u << 20)

const struct bn_option bn_bench_run_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_REPACK,
    {.name = "n-prompt",
     .letter = 'p',
     .arg = "LIST",
     .group = "Tests",
     .preset = "128,512",
     .help = "prompt lengths in tokens; 0: no prompt test"},
    {.name = "n-predict",
     .letter = 'n',
     .arg = "LIST",
     .group = "Tests",
     .preset = "32",
     .help = "tokens to decode, one by one; 0: no decode test"},
    {.name = "depth",
     .letter = 'd',
     .arg = "LIST",
     .group = "Tests",
     .preset = "0",
     .help = "tokens already in the context (filling it is not timed)"},
    {.name = "batch",
     .letter = 'b',
     .arg = "LIST",
     .group = "Tests",
     .preset = "128",
     .help = "tokens of a prompt evaluated together, 1 to 4096"},
    {.name = "concurrent",
     .arg = "LIST",
     .group = "Tests",
     .help = "also run this many generations concurrently, each with its own threads"},
    {.name = "reps",
     .letter = 'r',
     .arg = "N",
     .group = "Measurement",
     .preset = "6",
     .help = "samples of each test; auto: until --precision is reached"},
    {.name = "warmup",
     .arg = "N",
     .group = "Measurement",
     .preset = "auto",
     .help = "discarded samples before them; auto: until times show no trend"},
    {.name = "precision",
     .arg = "PERCENT",
     .group = "Measurement",
     .preset = "1",
     .help = "with --reps auto: stop once the median is known to within this"},
    {.name = "max-time",
     .arg = "SECONDS",
     .group = "Measurement",
     .preset = "300",
     .help = "with auto: stop sampling after this time"},
    {.name = "timeout",
     .arg = "SECONDS",
     .group = "Measurement",
     .preset = "600",
     .help = "abort a sample after this time; its test has no result; 0: no limit"},
    {.name = "loads",
     .arg = "N",
     .group = "Measurement",
     .preset = "6",
     .help = "how many times to open the model"},
    {.name = "cold",
     .group = "Measurement",
     .help = "drop the model file from the page cache before opening it"},
    {.name = "seed",
     .arg = "N",
     .group = "Measurement",
     .preset = "42",
     .help = "seed for the random prompt tokens"},
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

/* A number, or "auto". */
static bn_status read_count(const struct bn_args *args, const char *name, uint32_t min, uint32_t max,
                            bool *automatic, uint32_t *out, bn_error *err)
{
    *automatic = strcmp(bn_opt_str(args, name), "auto") == 0;
    return *automatic ? BN_OK : bn_opt_u32(args, name, min, max, out, err);
}

static bn_status read_measurement(struct bn_bench_plan *plan, bn_error *err)
{
    const struct bn_args *args = plan->args;
    double percent = 0, max_s = 0, timeout_s = 0;
    plan->reps = LEAST_AUTO_REPS;
    plan->warmup = 1;
    BN_TRY(read_count(args, "reps", 1, MAX_REPS, &plan->auto_reps, &plan->reps, err));
    BN_TRY(read_count(args, "warmup", 0, 1000, &plan->auto_warmup, &plan->warmup, err));
    BN_TRY(bn_opt_f64(args, "precision", 0.01, 50, &percent, err));
    BN_TRY(bn_opt_f64(args, "max-time", 0, 1e6, &max_s, err));
    BN_TRY(bn_opt_f64(args, "timeout", 0, 1e6, &timeout_s, err));
    BN_TRY(bn_opt_u32(args, "loads", 1, 1000, &plan->n_loads, err));
    plan->precision = percent / 100;
    plan->max_ns = (uint64_t)(max_s * 1e9);
    plan->timeout_ns = (uint64_t)(timeout_s * 1e9);
    plan->cold = bn_opt_flag(args, "cold");
    return bn_opt_u64(args, "seed", 0, (1ull << 53) - 1, &plan->seed, err);
}

static bn_status read_options(struct bn_bench_plan *plan, bn_error *err)
{
    const struct bn_args *args = plan->args;
    BN_TRY(bn_bench_list(args, "n-prompt", MAX_TOKENS, &plan->prompts, &plan->n_prompts, err));
    BN_TRY(bn_bench_list(args, "n-predict", MAX_TOKENS, &plan->decodes, &plan->n_decodes, err));
    BN_TRY(bn_bench_list(args, "depth", MAX_TOKENS, &plan->depths, &plan->n_depths, err));
    BN_TRY(bn_bench_list(args, "batch", 4096, &plan->batches, &plan->n_batches, err));
    BN_TRY(bn_bench_list(args, "concurrent", 256, &plan->at_once, &plan->n_at_once, err));
    BN_TRY(read_measurement(plan, err));
    drop_zeros(plan->at_once, &plan->n_at_once);
    drop_zeros(plan->prompts, &plan->n_prompts);
    drop_zeros(plan->decodes, &plan->n_decodes);
    drop_zeros(plan->batches, &plan->n_batches);
    if (plan->n_prompts + plan->n_decodes == 0)
        return bn_fail(err, BN_ERR_ARG,
                       "nothing to measure: give prompt lengths (-p), tokens to decode (-n), or both");
    if (plan->n_batches == 0) return bn_fail(err, BN_ERR_ARG, "--batch: must be at least 1");
    if (plan->n_prompts == 0) plan->n_batches = 1; /* tokens are decoded one by one */
    return bn_bench_threads(args, &plan->threads, &plan->n_threads, err);
}

/* Ids from the seed, by splitmix64; all of them are valid. */
static bn_status make_timeline(struct bn_bench_plan *plan, bn_error *err)
{
    size_t longest = (size_t)largest(plan->depths, plan->n_depths) + 1;
    longest += largest(plan->prompts, plan->n_prompts);
    uint64_t state = plan->seed, n_vocab = bn_model_hparams(plan->model)->n_vocab;
    plan->ids = bn_alloc(longest, sizeof *plan->ids);
    if (plan->ids == NULL) return bn_nomem(err);
    for (size_t i = 0; i < longest; i++)
        plan->ids[i] = (int32_t)((bn_splitmix64(&state) >> 32) * n_vocab >> 32);
    return BN_OK;
}

/* ---- sessions ---- */

static bn_status open_session(struct bn_bench_plan *plan, struct bn_bench_place *place, bn_error *err)
{
    uint32_t prompt = largest(plan->prompts, plan->n_prompts);
    uint32_t decode = largest(plan->decodes, plan->n_decodes) + 1; /* after a prompt of one token */
    bn_session_options options = {.n_batch = place->n_batch, .n_threads = place->n_threads};
    options.n_ctx = place->depth + (prompt > decode ? prompt : decode);
    options.exact_threads = options.n_threads > bn_team_cores(); /* what was asked for is measured */
    BN_TRY(bn_session_open(&place->session, plan->model, &options, err));
    if (plan->token_bytes == 0) BN_TRY(bn_bench_learn_bytes(plan, place->session, err));
    if (place->depth == 0) return BN_OK;
    bn_report_note(0, "filling the context with %u token%s, %u thread%s", place->depth,
                   bn_bench_s(place->depth), place->n_threads, bn_bench_s(place->n_threads));
    return bn_session_eval(place->session, plan->ids, place->depth, BN_LOGITS_NONE, NULL, err);
}

static bn_status open_sessions(struct bn_bench_plan *plan, bn_error *err)
{
    plan->places = bn_alloc(plan->n_threads * plan->n_depths * plan->n_batches, sizeof *plan->places);
    if (plan->places == NULL) return bn_nomem(err);
    for (size_t b = 0; b < plan->n_batches; b++)
        for (size_t d = 0; d < plan->n_depths; d++)
            for (size_t t = 0; t < plan->n_threads; t++) {
                struct bn_bench_place *place = &plan->places[plan->n_places++];
                *place = (struct bn_bench_place){plan->threads[t], plan->depths[d], plan->batches[b], NULL};
                BN_TRY(open_session(plan, place, err));
            }
    return BN_OK;
}

static void add_config(struct bn_bench_plan *plan, const struct bn_bench_place *place, bool decode,
                       uint32_t tokens)
{
    plan->configs[plan->n_configs++] = (struct bn_bench_config){.decode = decode,
                                                                .tokens = tokens,
                                                                .depth = place->depth,
                                                                .n_threads = place->n_threads,
                                                                .n_batch = place->n_batch,
                                                                .session = place->session};
}

static bn_status make_configs(struct bn_bench_plan *plan, bn_error *err)
{
    plan->configs = bn_alloc((plan->n_prompts + plan->n_decodes) * plan->n_places, sizeof *plan->configs);
    if (plan->configs == NULL) return bn_nomem(err);
    for (size_t i = 0; i < plan->n_prompts; i++)
        for (size_t k = 0; k < plan->n_places; k++)
            add_config(plan, &plan->places[k], false, plan->prompts[i]);
    for (size_t i = 0; i < plan->n_decodes; i++)
        for (size_t k = 0; k < plan->n_places; k++) /* a batch says nothing of single tokens */
            if (plan->places[k].n_batch == plan->batches[0])
                add_config(plan, &plan->places[k], true, plan->decodes[i]);
    return BN_OK;
}

/* ---- measuring ---- */

static bn_status probe(struct bn_bench_plan *plan, bn_error *err)
{
    uint64_t budget_ns = plan->token_bytes < MEMORY_BYTES ? PROBE_NS : MEMORY_PROBE_NS;
    size_t at = (size_t)plan->n_rounds * plan->n_threads;
    double *rates = bn_realloc(plan->bandwidth, at + plan->n_threads, sizeof *rates);
    if (rates == NULL) return bn_nomem(err);
    plan->bandwidth = rates;
    for (size_t t = 0; t < plan->n_threads; t++)
        rates[at + t] = (double)bn_bandwidth_probe((size_t)plan->token_bytes, plan->threads[t], budget_ns);
    return BN_OK;
}

static double bandwidth_of(const struct bn_bench_plan *plan, uint32_t round, uint32_t n_threads)
{
    size_t at = 0;
    while (plan->threads[at] != n_threads)
        at++;
    return plan->bandwidth[round * plan->n_threads + at];
}

static bn_status run_round(struct bn_bench_plan *plan, bn_error *err)
{
    uint32_t round = plan->n_rounds;
    BN_TRY(probe(plan, err));
    bn_bench_memory_begin(plan);
    for (size_t i = 0; i < plan->n_configs; i++) {
        struct bn_bench_config *c = &plan->configs[round % 2 == 0 ? i : plan->n_configs - 1 - i];
        bn_progress_show(&plan->progress, round * plan->n_configs + i);
        if (c->verdict == BN_BENCH_VALID)
            BN_TRY(bn_bench_take(plan, c, round, bandwidth_of(plan, round, c->n_threads), err));
    }
    BN_TRY(bn_bench_memory_end(plan, err));
    plan->n_rounds++;
    return bn_bench_reserve(plan, err);
}

static bool is_late(const struct bn_bench_plan *plan)
{
    return bn_clock_ns() - plan->start_ns >= plan->max_ns;
}

/* Auto warm-up: moves the windows of configurations on that show a trend. */
static bn_status settle(struct bn_bench_plan *plan, bn_error *err)
{
    bool last = is_late(plan) || !bn_bench_can_settle(plan->reps);
    plan->settled = true;
    for (size_t i = 0; i < plan->n_configs; i++) {
        struct bn_bench_config *c = &plan->configs[i];
        if (!c->settled) BN_TRY(bn_bench_is_steady(plan, c, &c->settled, err));
        if (c->settled || last || c->n_warmup >= MOST_AUTO_WARMUP || c->verdict != BN_BENCH_VALID) continue;
        c->n_warmup++;
        plan->settled = false;
    }
    return BN_OK;
}

/* Whether another round is wanted. */
static bn_status want_more(struct bn_bench_plan *plan, bool *more, bn_error *err)
{
    bool enough = !plan->auto_reps;
    *more = true;
    if (plan->n_rounds < plan->warmup + plan->reps) return BN_OK;
    if (plan->auto_warmup && !plan->settled) {
        BN_TRY(settle(plan, err));
        if (!plan->settled) return BN_OK;
    }
    plan->ended_by = "reps";
    if (!enough) BN_TRY(bn_bench_all_precise(plan, &enough, err));
    if (plan->auto_reps && enough) plan->ended_by = "precision";
    if (!enough && is_late(plan)) plan->ended_by = "max-time";
    *more = !enough && !is_late(plan) && plan->n_rounds < MOST_AUTO_ROUNDS;
    return BN_OK;
}

static bn_status measure(struct bn_bench_plan *plan, bn_error *err)
{
    struct bn_busy before;
    bn_busy_read(&before);
    bn_bench_clock_measure(&plan->clock);
    plan->start_ns = bn_clock_ns();
    for (size_t i = 0; i < plan->n_configs; i++)
        plan->configs[i].n_warmup = plan->warmup;
    bn_progress_begin(&plan->progress, "samples", plan->n_configs * ((uint64_t)plan->warmup + plan->reps),
                      plan->args->quiet);
    bool more = true;
    bn_status status = want_more(plan, &more, err);
    while (status == BN_OK && more) {
        uint64_t rounds = plan->warmup + plan->reps; /* at least */
        plan->progress.total = plan->n_configs * (rounds > plan->n_rounds ? rounds : plan->n_rounds + 1u);
        status = run_round(plan, err);
        if (status == BN_OK) status = want_more(plan, &more, err);
    }
    bn_progress_clear(&plan->progress);
    if (status == BN_OK) status = bn_bench_conclude(plan, err);
    if (status == BN_OK) status = bn_bench_crowds(plan, err);
    plan->others = bn_bench_others(&before);
    return status;
}

/* ---- the command ---- */

static bn_status show(const struct bn_bench_plan *plan, bn_error *err)
{
    bn_json *doc = NULL;
    if (!plan->args->json) return bn_bench_print_plan(plan, err);
    bn_status status = bn_bench_run_document(&doc, plan, err);
    if (status == BN_OK) status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

static bn_status run(struct bn_bench_plan *plan, bn_error *err)
{
    BN_TRY(read_options(plan, err));
    bn_machine_read(&plan->machine);
    BN_TRY(bn_bench_open_model(plan, err));
    BN_TRY(make_timeline(plan, err));
    BN_TRY(open_sessions(plan, err));
    BN_TRY(make_configs(plan, err));
    BN_TRY(measure(plan, err));
    return show(plan, err);
}

static void release(struct bn_bench_plan *plan)
{
    for (size_t i = 0; i < plan->n_configs; i++) {
        for (size_t k = 0; k < plan->configs[i].n_samples; k++)
            bn_free(plan->configs[i].samples[k].token_ns);
        bn_free(plan->configs[i].samples);
    }
    for (size_t i = 0; i < plan->n_places; i++)
        bn_session_close(plan->places[i].session);
    bn_bench_crowds_release(plan);
    bn_model_close(plan->model);
    void *blocks[] = {plan->prompts, plan->decodes,   plan->depths,  plan->threads,
                      plan->batches, plan->loads,     plan->ids,     plan->places,
                      plan->configs, plan->bandwidth, plan->scratch, plan->round_peak};
    for (size_t i = 0; i < BN_ARRAY_LEN(blocks); i++)
        bn_free(blocks[i]);
}

bn_status bn_bench_run(struct bn_args *args, bn_error *err)
{
    struct bn_bench_plan plan = {.args = args};
    bn_status status = run(&plan, err);
    for (size_t i = 0; i < plan.n_configs && status == BN_OK; i++)
        if (plan.configs[i].verdict != BN_BENCH_VALID) args->exit_code = BN_EXIT_NEGATIVE;
    for (size_t i = 0; i < plan.n_crowds && status == BN_OK; i++)
        if (plan.crowds[i].verdict != BN_BENCH_VALID) args->exit_code = BN_EXIT_NEGATIVE;
    release(&plan);
    return status;
}
