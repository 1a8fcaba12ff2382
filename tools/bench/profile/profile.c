/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile: a prompt and some decoding with and without the profiler, in turn.
 */
#include "tools/bench/profile/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "infer/session.h"
#include "lab/profile/document.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"
#include "tools/cli/text.h"

#define MAX_TOKENS (1u << 16)
#define MAX_EVENTS (1u << 23) /* of a trail: half a gigabyte */

const struct bn_option bn_bench_profile_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
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
    BN_OPTION("code", "print the machine code with this digest of --graph json", .arg = "DIGEST",
              .group = "Check", BN_TO_TEXT(struct bn_bench_options, code)),
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
    if (o->wide && strcmp(o->graph, "tree") != 0)
        return bn_fail(err, BN_ERR_ARG, "--wide needs --graph tree");
    if (o->what_if.n > 0 && strcmp(o->graph, "path") != 0 && strcmp(o->graph, "json") != 0)
        return bn_fail(err, BN_ERR_ARG, "--what-if needs --graph path or json");
    return BN_OK;
}

static bn_status read_options(struct bn_bench_profile *p, bool json, bn_error *err)
{
    const struct bn_bench_options *o = p->o;
    BN_TRY(check_options(o, json, err));
    /* With --graph the overhead is not printed. */
    p->overhead.pairs = o->pairs > 0 ? o->pairs : o->graph != NULL ? 1 : 10;
    p->is_structure = o->graph != NULL && strcmp(o->graph, "structure") == 0;
    p->level = (o->graph != NULL && !p->is_structure) || o->roofline ? BN_PROF_KERNEL : BN_PROF_BRICK;
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
    const bn_model_options with = {.repack = p->is_structure ? BN_REPACK_NEVER : BN_REPACK_AUTO};
    static const bn_sampler_options greedy = BN_SAMPLER_OPTIONS_INIT;
    bn_session_options options = {
        .n_ctx = p->o->n_prompt + p->o->n_predict, .n_batch = p->o->n_batch, .n_threads = p->o->n_threads};
    uint64_t state = p->o->seed;
    options.exact_threads = true; /* as while it is profiled */
    BN_TRY(bn_cli_open_model(&p->model, p->h.args, &with, err));
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
    p->prof->enabled = on;
    uint64_t start = bn_clock_ns();
    if (on) bn_prof_reset_epoch(p->prof);
    for (uint32_t i = 0; i < p->o->n_predict; i++) {
        BN_TRY(bn_session_eval_best(p->session, next, n, n_best, p->logits, err));
        next += n;
        n = 1;
        struct bn_brick_timer brick = bn_prof_start(bn_prof_trail(p->prof, 0), BN_BRICK_SAMPLING);
        *next = bn_sampler_next(p->sampler, p->logits, p->ids, (size_t)(next - p->ids));
        bn_prof_stop(brick, 1);
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

/* ---- tables ---- */

static void print_overhead(const struct bn_bench_profile *p)
{
    const struct bn_bench_overhead *o = &p->overhead;
    printf("\nOverhead of level %s\n", bn_prof_level_name(p->level));
    printf("one event    %.1f ns at least, %.1f ns in the median, in a loop\n", o->event_ns_min,
           o->event_ns_median);
    printf("predicted    %.2f %%: %llu event%s on the first thread in %.1f us\n", 100 * o->predicted,
           (unsigned long long)o->n_events, bn_cli_s(o->n_events), (double)p->prof->wall_ns / 1000);
    if (isfinite(o->measured.low))
        printf("measured     %+.2f %% (%+.2f to %+.2f %%), %zu pair%s with and without\n",
               100 * o->measured.change, 100 * o->measured.low, 100 * o->measured.high, o->pairs,
               bn_cli_s(o->pairs));
    else
        printf("measured     %+.2f %%, %zu pair%s with and without: too few for an interval\n",
               100 * o->measured.change, o->pairs, bn_cli_s(o->pairs));
    printf("dropped      %llu event%s\n", (unsigned long long)bn_prof_dropped(p->prof),
           bn_cli_s(bn_prof_dropped(p->prof)));
}

static bn_status print_tables(const struct bn_bench_profile *p, bn_error *err)
{
    struct bn_buf text = {.max = 1u << 20};
    bn_error why = {0};
    bn_bench_print_machine(&p->h.machine);
    printf("profile  %s, %s, %u thread%s; a prompt of %u token%s, then %u token%s\n\n",
           bn_cli_model_name(p->h.args), bn_cli_evaluator(p->model), bn_session_n_threads(p->session),
           bn_cli_s(bn_session_n_threads(p->session)), p->o->n_prompt, bn_cli_s(p->o->n_prompt),
           p->o->n_predict, bn_cli_s(p->o->n_predict));
    bn_status status = bn_prof_report(p->prof, &text, err);
    if (status != BN_OK) {
        bn_buf_release(&text);
        return status;
    }
    BN_TRY(bn_cli_print_text(&text, err));
    print_overhead(p);
    if (bn_prof_check(p->prof, &why) == BN_OK)
        printf("\nsums are exact, %.1f %% is accounted for\n", 100 * bn_prof_coverage(p->prof));
    else
        printf("\nthis profile is invalid: %s\n", why.msg);
    return BN_OK;
}

/* ---- the document ---- */

static void put_overhead(bn_json *doc, const struct bn_bench_profile *p)
{
    const struct bn_bench_overhead *o = &p->overhead;
    bn_json *object = bn_json_put_object(doc, "overhead");
    bn_json_put_number(object, "event_ns_min", o->event_ns_min);
    bn_json_put_number(object, "event_ns_median", o->event_ns_median);
    bn_json_put_u64(object, "events", o->n_events);
    bn_json_put_number(object, "predicted_share", o->predicted);
    bn_json_put_texts(object, "predicted_from", (const char *const[]){"event_ns_median", "events", "wall_ns"},
                      3);
    bn_json_put_number(object, "measured_share", o->measured.change);
    bn_json_put_finite(object, "measured_low", o->measured.low, "too few pairs");
    bn_json_put_finite(object, "measured_high", o->measured.high, "too few pairs");
    bn_json_put_u64(object, "dropped", bn_prof_dropped(p->prof));
    bn_json_put_numbers(object, "on_ns", o->on_ns, o->pairs);
    bn_json_put_numbers(object, "off_ns", o->off_ns, o->pairs);
}

#define WHOLE_PASS UINT32_MAX

/* The time of one brick on the first thread, or of the whole pass, in each pass of one token; false when a pass lacks
 * the brick. */
static bool times_in_passes(const bn_prof *prof, unsigned brick, double *out, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < prof->n_passes; i++) {
        if (prof->passes[i].n_tokens != 1) continue;
        const struct bn_prof_pass *pass = &prof->passes[i];
        uint64_t sum = brick == WHOLE_PASS ? bn_prof_ns(prof, pass->end) - bn_prof_ns(prof, pass->begin) : 0;
        for (size_t e = 0; e < prof->trails[0].n; e++) {
            const struct bn_prof_event *event = &prof->trails[0].events[e];
            if (event->pass == i && event->brick == brick && event->kernel == BN_PROF_NO_KERNEL)
                sum += bn_prof_ns(prof, event->end) - bn_prof_ns(prof, event->begin);
        }
        if (sum == 0) return false;
        out[(*n)++] = (double)sum;
    }
    return *n > 0;
}

/* A test, which is invalid when its sums are not exact, and the series of each brick. */
static bn_status put_series(struct bn_bench_profile *p, bn_error *err)
{
    char test[96], metric[64];
    bn_error why = {0};
    double *samples = bn_alloc(p->prof->n_passes + 1, sizeof *samples);
    if (samples == NULL) return bn_nomem(err);
    snprintf(test, sizeof test, "profile %s p=%u n=%u t=%u", bn_prof_level_name(p->level), p->o->n_prompt,
             p->o->n_predict, bn_session_n_threads(p->session));
    bool valid = p->is_structure || bn_prof_check(p->prof, &why) == BN_OK;
    bn_harness_judge(&p->h, bn_harness_test(&p->h, test), valid ? BN_BENCH_VALID : BN_BENCH_INVALID, why.msg);
    struct bn_series series = {.test = test, .metric = "ns_per_token", .unit = "ns", .samples = samples};
    bn_status status = BN_OK;
    if (times_in_passes(p->prof, WHOLE_PASS, samples, &series.n))
        status = bn_series_add(&p->h.series, &series, err);
    series.metric = metric;
    for (unsigned b = 0; b < BN_BRICK_KNOWN && status == BN_OK; b++) {
        if (!times_in_passes(p->prof, b, samples, &series.n)) continue;
        snprintf(metric, sizeof metric, "%s_ns_per_token", bn_brick_name(b));
        status = bn_series_add(&p->h.series, &series, err);
    }
    bn_free(samples);
    return status;
}

static void put_settings(struct bn_bench_profile *p)
{
    static const char *const REPACKS[] = {"auto", "never", "always"};
    const struct bn_args *args = p->h.args;
    bn_json *settings = p->h.settings;
    (void)bn_cli_put_model(p->h.doc, args);
    BN_PUT_STRINGS(settings, {"model", args->model}, {"isa", bn_isa_name()},
                   {"repack", REPACKS[args->repack]});
    BN_PUT_COUNTS(settings, {"threads", bn_session_n_threads(p->session)}, {"prompt_tokens", p->o->n_prompt},
                  {"decoded_tokens", p->o->n_predict}, {"batch", bn_session_n_batch(p->session)},
                  {"seed", p->o->seed}, {"pairs", p->overhead.pairs});
    bn_json_put_string(settings, "level", bn_prof_level_name(p->level));
}

/* ---- the command ---- */

static bn_status show(struct bn_bench_profile *p, bn_error *err)
{
    bn_json *doc = p->h.doc;
    if (p->o->graph != NULL) return bn_bench_profile_graph(p, err);
    if (p->h.args->json) {
        bn_json_put_string(doc, "schema", BN_PROF_SCHEMA);
        put_overhead(doc, p);
        BN_TRY(bn_prof_put(doc, p->prof, bn_model_hparams(p->model), err));
    } else {
        BN_TRY(print_tables(p, err));
    }
    return p->o->roofline ? bn_bench_profile_roofline(p, p->h.args->json ? doc : NULL, err) : BN_OK;
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
    struct bn_bench_profile p = {.o = args->fields};
    if (p.o->check.n > 0) return bn_bench_profile_check(args, err);
    if (p.o->code != NULL) return bn_bench_profile_code(args, err);
    BN_TRY(read_options(&p, args->json, err));
    bn_harness_begin(&p.h, args, "profile");
    bn_status status = prepare(&p, err);
    bn_busy_read(&p.h.before);
    if (status == BN_OK) status = measure(&p, err);
    if (status == BN_OK) {
        bn_harness_sampled(&p.h);
        put_settings(&p);
        status = put_series(&p, err);
    }
    if (status == BN_OK) status = show(&p, err);
    status = bn_harness_finish(&p.h, status, err);
    release(&p);
    return status;
}
