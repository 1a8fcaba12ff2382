/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile: a prompt and some decoding with and without the profiler, in turn.
 */
#include "tools/bench/profile/graph.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "infer/session.h"
#include "lab/profile/document.h"
#include "tools/cli/default_model.h"
#include "tools/cli/print_json.h"

#define MAX_TOKENS (1u << 16)
#define MAX_EVENTS (1u << 23) /* of a trail: half a gigabyte */

const struct bn_option bn_bench_profile_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_REPACK,
    BN_OPTION_THREADS_TO(struct bn_bench_options, n_threads),
    BN_OPTION("batch", "prompt tokens evaluated together, 1 to 4096 [128]", .rare = true, .arg = "N",
              .group = "Machine", BN_TO_U32(struct bn_bench_options, n_batch, 1, 4096)),
    BN_OPTION("n-prompt", "prompt length in tokens", .letter = 'p', .arg = "N", .group = "Work",
              .preset = "32", BN_TO_U32(struct bn_bench_options, n_prompt, 1, MAX_TOKENS)),
    BN_OPTION("n-predict", "tokens to decode, one by one", .letter = 'n', .arg = "N", .group = "Work",
              .preset = "16", BN_TO_U32(struct bn_bench_options, n_predict, 1, MAX_TOKENS)),
    BN_OPTION("seed", "seed for the random prompt tokens", .rare = true, .arg = "N", .group = "Work",
              .preset = "42", .env = "BITNET_SEED",
              BN_TO_U64(struct bn_bench_options, seed, 0, 9007199254740991)),
    BN_OPTION("level", "what is timed; kernel also splits attention [brick]", .arg = "layer|brick|kernel",
              .group = "Profile", BN_TO_TEXT(struct bn_bench_options, level)),
    BN_OPTION("pairs", "runs with and without the profiler, in turn [10]", .letter = 'r', .arg = "N",
              .group = "Profile", BN_TO_U32(struct bn_bench_options, pairs, 1, 10000)),
    BN_OPTION("check", "check that a document was measured; several are compared, too", .arg = "FILE",
              .group = "Check", .repeatable = true, BN_TO_TEXTS(struct bn_bench_options, check)),
    {0},
};

/* Options without effect are errors. */
static bn_status check_options(const struct bn_bench_options *o, bool json, bn_error *err)
{
    const char *of_graph = o->pass != NULL    ? "pass"
                           : o->wide          ? "wide"
                           : o->ascii         ? "ascii"
                           : o->what_if.n > 0 ? "what-if"
                                              : NULL;
    if (o->graph == NULL)
        return of_graph == NULL ? BN_OK : bn_fail(err, BN_ERR_ARG, "--%s needs --graph", of_graph);
    if (json) return bn_fail(err, BN_ERR_ARG, "--graph cannot be combined with --json; use --graph json");
    if (o->roofline) return bn_fail(err, BN_ERR_ARG, "--graph cannot be combined with --roofline");
    if (o->what_if.n > 0 && strcmp(o->graph, "path") != 0 && strcmp(o->graph, "json") != 0)
        return bn_fail(err, BN_ERR_ARG, "--what-if needs --graph path or json");
    return BN_OK;
}

static bn_status read_options(struct bn_bench_profile *p, bn_error *err)
{
    const struct bn_bench_options *o = p->o;
    BN_TRY(check_options(o, p->args->json, err));
    /* With --graph the overhead is not printed. */
    p->overhead.pairs = o->pairs > 0 ? o->pairs : o->graph != NULL ? 1 : 10;
    p->level = o->graph != NULL || o->roofline ? BN_PROF_KERNEL : BN_PROF_BRICK;
    for (int i = BN_PROF_LAYER; i <= BN_PROF_KERNEL && o->level != NULL; i++)
        if (strcmp(o->level, bn_prof_level_name((enum bn_prof_level)i)) == 0)
            p->level = (enum bn_prof_level)i;
    return BN_OK;
}

static bn_status open_prof(struct bn_bench_profile *p, bn_error *err)
{
    uint64_t batch = bn_session_n_batch(p->session);
    uint64_t n_passes = (p->o->n_prompt + batch - 1) / batch + p->o->n_predict;
    uint64_t n_events =
        bn_prof_room_for(bn_model_hparams(p->model), p->level, n_passes, p->o->n_prompt + p->o->n_predict);
    if (n_events > MAX_EVENTS) {
        bn_fail(err, BN_ERR_LIMIT, "up to %llu events per thread, at most %u are possible",
                (unsigned long long)n_events, MAX_EVENTS);
        bn_error_hint(err, "use fewer tokens (-p, -n) or a lower --level");
        return BN_ERR_LIMIT;
    }
    struct bn_prof_options options = {p->level, bn_session_n_threads(p->session), (size_t)n_events,
                                      (size_t)n_passes};
    BN_TRY(bn_prof_open(&p->prof, &options, err));
    return bn_session_set_profile(p->session, p->prof, err);
}

static bn_status prepare(struct bn_bench_profile *p, bn_error *err)
{
    static const bn_model_options with = {.repack = BN_REPACK_AUTO};
    static const bn_sampler_options greedy = BN_SAMPLER_OPTIONS_INIT;
    bn_session_options options = {
        .n_ctx = p->o->n_prompt + p->o->n_predict, .n_batch = p->o->n_batch, .n_threads = p->o->n_threads};
    uint64_t state = p->o->seed;
    options.exact_threads = true; /* as while it is profiled */
    BN_TRY(bn_cli_open_model(&p->model, p->args, &with, err));
    BN_TRY(bn_session_open(&p->session, p->model, &options, err));
    size_t n_vocab = bn_model_hparams(p->model)->n_vocab;
    p->ids = bn_alloc(p->o->n_prompt + p->o->n_predict, sizeof *p->ids);
    p->logits = bn_alloc_aligned(n_vocab, sizeof *p->logits);
    p->overhead.on_ns = bn_alloc(p->overhead.pairs, sizeof(double));
    p->overhead.off_ns = bn_alloc(p->overhead.pairs, sizeof(double));
    if (p->ids == NULL || p->logits == NULL || p->overhead.on_ns == NULL || p->overhead.off_ns == NULL)
        return bn_nomem(err);
    for (size_t i = 0; i < p->o->n_prompt; i++)
        p->ids[i] = (int32_t)((bn_splitmix64(&state) >> 32) * n_vocab >> 32);
    BN_TRY(bn_sampler_open(&p->sampler, &greedy, n_vocab, err));
    return open_prof(p, err);
}

/* The prompt, then as many tokens as asked, greedily. With a profile that is on, these are its epoch. */
static bn_status work(struct bn_bench_profile *p, bool on, double *ns, bn_error *err)
{
    int32_t *next = p->ids;
    size_t n = p->o->n_prompt, n_best = bn_sampler_reach(p->sampler);
    BN_TRY(bn_session_truncate(p->session, 0, err));
    if (on)
        bn_prof_enable(p->prof);
    else
        bn_prof_disable(p->prof);
    uint64_t start = bn_clock_ns();
    if (on) bn_prof_reset_epoch(p->prof);
    for (uint32_t i = 0; i < p->o->n_predict; i++) {
        BN_TRY(bn_session_eval_best(p->session, next, n, n_best, p->logits, err));
        next += n;
        n = 1;
        struct bn_brick_timer brick = bn_prof_start_brick(p->prof, BN_BRICK_SAMPLING);
        *next = bn_sampler_next(p->sampler, p->logits, p->ids, (size_t)(next - p->ids));
        bn_prof_stop_brick(brick, 1);
    }
    if (on) bn_prof_finalize(p->prof, bn_prof_elapsed_ns(p->prof));
    *ns = (double)(bn_clock_ns() - start);
    return BN_OK;
}

/* ---- overhead ---- */

static bn_status measure(struct bn_bench_profile *p, bn_error *err)
{
    static const struct bn_judge_rules rules = BN_JUDGE_RULES_INIT;
    struct bn_bench_overhead *o = &p->overhead;
    double warm;
    BN_TRY(work(p, false, &warm, err));
    BN_TRY(work(p, true, &warm, err));
    double *d = bn_alloc(o->pairs, sizeof *d);
    if (d == NULL) return bn_nomem(err);
    bn_status status = BN_OK;
    for (size_t i = 0; i < o->pairs && status == BN_OK; i++) {
        bool on_first = i % 2 == 1; /* alternates which of the two runs first */
        status = work(p, on_first, on_first ? &o->on_ns[i] : &o->off_ns[i], err);
        if (status == BN_OK) status = work(p, !on_first, on_first ? &o->off_ns[i] : &o->on_ns[i], err);
        if (status == BN_OK) d[i] = log(o->on_ns[i] / o->off_ns[i]);
    }
    if (status == BN_OK) status = bn_judge_pairs(&o->measured, d, o->pairs, NULL, 0, &rules, err);
    bn_free(d);
    if (status != BN_OK) return status;
    BN_TRY(bn_prof_event_cost(&o->event_ns_min, &o->event_ns_median, p->level, err));
    o->n_events = p->prof->trails[0].n;
    o->predicted = o->event_ns_median * (double)o->n_events / (double)p->prof->wall_ns;
    return BN_OK;
}

/* ---- the command ---- */

static bn_status show(const struct bn_bench_profile *p, bn_error *err)
{
    bn_json *doc = NULL;
    bool roofline = p->o->roofline;
    if (p->o->graph != NULL) return bn_bench_profile_graph(p, err);
    if (!p->args->json) {
        BN_TRY(bn_bench_profile_print(p, err));
        return roofline ? bn_bench_profile_roofline(p, NULL, err) : BN_OK;
    }
    bn_status status = bn_bench_profile_document(&doc, p, err);
    if (status == BN_OK && roofline) status = bn_bench_profile_roofline(p, doc, err);
    if (status == BN_OK) status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

static void release(struct bn_bench_profile *p)
{
    bn_session_close(p->session);
    bn_model_close(p->model);
    bn_sampler_close(p->sampler);
    bn_prof_close(p->prof);
    bn_free(p->ids);
    bn_free(p->logits);
    bn_free(p->overhead.on_ns);
    bn_free(p->overhead.off_ns);
}

bn_status bn_bench_profile(struct bn_args *args, bn_error *err)
{
    struct bn_bench_profile p = {.args = args, .o = args->fields};
    if (p.o->check.n > 0) return bn_bench_profile_check(args, err);
    BN_TRY(read_options(&p, err));
    bn_machine_read(&p.machine);
    struct bn_busy before;
    bn_status status = prepare(&p, err);
    bn_busy_read(&before);
    if (status == BN_OK) status = measure(&p, err);
    if (status == BN_OK) p.others = bn_bench_others(&before);
    if (status == BN_OK) status = show(&p, err);
    if (status == BN_OK && bn_prof_check(p.prof, NULL) != BN_OK) args->exit_code = BN_EXIT_NEGATIVE;
    release(&p);
    return status;
}
