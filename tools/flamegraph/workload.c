/* SPDX-License-Identifier: MIT
 *
 * Records a generation. It is repeated, and must give the same tokens each time. Each run has a profile of its
 * own, in which the work of a thread is looked up by the times of samples afterwards. The samples and the measured
 * bricks become stacks, which are compared.
 */
#define _GNU_SOURCE /* gettid */
#include "lab/kit/put_counts.h"
#include "tools/flamegraph/flamegraph.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/team.h"
#include "bn.h"
#include "infer/session.h"
#include "lab/host/meters.h"
#include "lab/profile/document.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"
#include "tools/cli/text.h"

#define LIMIT_NS 200000000u /* for measuring the read bandwidth */

const struct bn_option bn_flamegraph_workload_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
    BN_OPTION_THREADS_TO(struct bn_flamegraph_options, work.n_threads),
    BN_OPTION_REPACK,
    BN_OPTION("prompt", "prompt of the generation", .letter = 'p', .arg = "TEXT", .group = "Work",
              .preset = "What is 2+2?", BN_TO_TEXT(struct bn_flamegraph_options, work.prompt)),
    BN_OPTION("n-predict", "tokens per generation, chosen greedily", .letter = 'n', .preset = "10",
              BN_TO_U32(struct bn_flamegraph_options, work.n_predict, 1, 1u << 16)),
    BN_RARE("seed", "recorded; decoding is greedy", .env = "BITNET_SEED", .preset = "42",
            BN_TO_U64(struct bn_flamegraph_options, work.seed, 0, (1ull << 53) - 1)),
    BN_RARE("level", "what the profiler measures and tags", .arg = "off|layer|brick|kernel",
            .preset = "brick", BN_TO_CHOICE(struct bn_flamegraph_options, work.level)),
    BN_RARE("min-samples", "end a run at this many samples or after 10 s", .preset = "2000",
            BN_TO_U64(struct bn_flamegraph_options, work.min_samples, 1, 1u << 22)),
    {0},
};

/* Sums of the engine's own stamps, of decoded tokens. */
struct phases {
    uint64_t tokens, embed_ns, forward_ns, head_ns, sample_ns;
};

/* One run: the same generation, again and again. */
struct run {
    bn_prof *prof; /* NULL without bricks */
    bn_brick_clock *clock;
    struct bn_clock_pair pairs[2];
    uint64_t repetitions;
    bool full;                  /* it ended since there was no room for more events */
    uint64_t cpu_ns, waited_ns; /* of its threads, by the system's scheduler */
};

struct work {
    const struct bn_args *args;
    const struct bn_flamegraph_workload *asked;
    uint64_t period_ns; /* between samples of a thread, as asked */
    bn_model *model;
    bn_session *session;
    int32_t *prompt;
    size_t n_prompt;
    int32_t *ids; /* that the first generation gave, and all others must give */
    size_t n_ids;
    unsigned n_threads;
    uint32_t *tids;                   /* [n_threads] */
    uint64_t generation_cpu_ns;       /* of all threads, in the last warm-up */
    uint64_t prompt_bytes, all_bytes; /* of weights and cache that the first generation read: for the
                                         prompt, and in total */
    size_t n_events;                  /* that a generation leaves on a thread, at most */
    struct run *runs;
    struct bn_record_window *windows; /* [n_runs]: when they were */
    size_t n_runs;
    struct phases phases; /* of all runs */
    bool scheduling_known;
    struct bn_busy before; /* the first run */
};

/* ---- one generation ---- */

static uint64_t bytes_read(const bn_session *session)
{
    bn_kernel_stat stat;
    uint64_t sum = 0;
    for (size_t i = 0; bn_session_kernel_stat(session, i, &stat); i++)
        sum += stat.bytes;
    return sum;
}

/* The first token of the first generation follows from the prompt alone. */
static bool go_on(void *user, int32_t id, const char *text, size_t n_bytes)
{
    struct work *w = user;
    if (w->prompt_bytes == 0) w->prompt_bytes = bytes_read(w->session);
    (void)id;
    (void)text;
    (void)n_bytes;
    return bn_cli_interrupted() == 0;
}

static void add_phases(struct phases *sum, const struct bn_generation *gen)
{
    for (size_t i = 1; i < gen->n_ids; i++) { /* the first token's are those of the prompt */
        sum->tokens++;
        sum->embed_ns += gen->steps[i].embed_ns;
        sum->forward_ns += gen->steps[i].forward_ns;
        sum->head_ns += gen->steps[i].head_ns;
        sum->sample_ns += gen->steps[i].sample_ns;
    }
}

/* Keeps the tokens of the first generation, and compares all others with them. */
static bn_status check_ids(struct work *w, struct bn_generation *gen, bn_error *err)
{
    if (gen->reason == BN_STOP_CALLER) return bn_fail(err, BN_ERR_CANCELLED, "interrupted");
    if (w->ids == NULL) {
        w->ids = gen->ids;
        w->n_ids = gen->n_ids;
        gen->ids = NULL;
        return BN_OK;
    }
    if (gen->n_ids == w->n_ids && memcmp(gen->ids, w->ids, w->n_ids * sizeof *w->ids) == 0) return BN_OK;
    return bn_fail(err, BN_ERR_INTERNAL, "repeating the generation gave different tokens");
}

static bn_status generate(struct work *w, struct phases *phases, bn_error *err)
{
    struct bn_generation gen = {.prompt = w->prompt,
                                .n_prompt = w->n_prompt,
                                .n_predict = w->asked->n_predict,
                                .sampling = BN_SAMPLER_OPTIONS_INIT,
                                .ignore_end = true,
                                .on_token = go_on,
                                .user = w};
    gen.sampling.seed = w->asked->seed;
    BN_TRY(bn_session_truncate(w->session, 0, err));
    uint64_t start = bn_clock_process_cpu_ns();
    BN_TRY(bn_generate(w->session, bn_model_tokenizer(w->model), &gen, err));
    w->generation_cpu_ns = bn_clock_process_cpu_ns() - start;
    if (w->all_bytes == 0) w->all_bytes = bytes_read(w->session);
    if (phases != NULL) add_phases(phases, &gen);
    bn_status status = check_ids(w, &gen, err);
    bn_generation_release(&gen);
    return status;
}

/* ---- opening ---- */

/* A page of the stack that was never touched ends the copy that a sampler takes. */
static void touch_stack(void)
{
    volatile char pages[1u << 16];
    for (size_t i = 0; i < sizeof pages; i += 4096)
        pages[i] = 0;
}

static void begin_thread(void *arg, unsigned thread, unsigned n_threads)
{
    struct work *w = arg;
    touch_stack();
    if (thread < w->n_threads) w->tids[thread] = (uint32_t)gettid();
    (void)n_threads;
}

static bn_status open_engine(struct work *w, bn_error *err)
{
    static const bn_model_options with = {.repack = BN_REPACK_AUTO};
    const bn_tokenizer *tok = NULL;
    BN_TRY(bn_cli_open_model(&w->model, w->args, &with, err));
    BN_TRY(bn_cli_tokenizer(w->model, &tok, err));
    BN_TRY(bn_tokenize(tok, w->asked->prompt, strlen(w->asked->prompt), BN_TOKENIZE_BOS, &w->prompt,
                       &w->n_prompt, err));
    bn_session_options options = {.n_ctx = (uint32_t)w->n_prompt + w->asked->n_predict,
                                  .n_threads = w->asked->n_threads,
                                  .exact_threads = true};
    BN_TRY(bn_session_open(&w->session, w->model, &options, err));
    w->n_threads = bn_session_n_threads(w->session);
    BN_TRY(BN_NEW(w->tids, w->n_threads, err));
    BN_TRY(BN_NEW(w->runs, w->asked->runs, err));
    BN_TRY(BN_NEW(w->windows, w->asked->runs, err));
    bn_team_run(w->session->team, begin_thread, w);
    return BN_OK;
}

#define MAX_EVENTS (1u << 24) /* of all runs and threads: a gigabyte */

static uint64_t passes_of(const struct work *w)
{
    uint64_t batch = bn_session_n_batch(w->session);
    return (w->n_prompt + batch - 1) / batch + w->asked->n_predict;
}

/* Room for this many generations. */
static bn_status open_prof(struct work *w, bn_prof **out, uint64_t generations, size_t n_events,
                           bn_error *err)
{
    struct bn_prof_options options = {.level = w->asked->level,
                                      .n_threads = w->n_threads,
                                      .n_events = n_events,
                                      .n_passes = (size_t)(generations * passes_of(w))};
    BN_TRY(bn_prof_open(out, &options, err));
    (*out)->enabled = true;
    return bn_session_set_profile(w->session, *out, err);
}

/* One that is profiled, for the events that it leaves. */
static bn_status count_events(struct work *w, size_t room, bn_error *err)
{
    bn_prof *prof = NULL;
    bn_status status = open_prof(w, &prof, 1, room, err);
    if (status == BN_OK) {
        bn_prof_reset_epoch(prof);
        status = generate(w, NULL, err);
    }
    for (unsigned t = 0; status == BN_OK && t < w->n_threads; t++) {
        size_t n = 0;
        (void)bn_prof_events(prof, t, &n);
        if (n > w->n_events) w->n_events = n;
    }
    bn_status detached = bn_session_set_profile(w->session, NULL, err);
    bn_prof_close(prof);
    return status != BN_OK ? status : detached;
}

#define WARM_UPS 3u
#define LONG_NS 1000000000u /* one is enough */

/* Pages and caches get warm; the least time that a generation takes, and its events, are seen. */
static bn_status warm_up(struct work *w, bn_error *err)
{
    uint64_t least = UINT64_MAX;
    uint64_t room = bn_prof_room_for(bn_model_hparams(w->model), w->asked->level, passes_of(w),
                                     w->n_prompt + w->asked->n_predict);
    uint64_t most = MAX_EVENTS / (w->n_threads * (uint64_t)w->asked->runs);
    if (w->asked->level != BN_PROF_OFF && room > most)
        return bn_hint(bn_fail(err, BN_ERR_LIMIT,
                               "a generation may record %llu events per thread; the limit is %llu",
                               (unsigned long long)room, (unsigned long long)most),
                       err, "fewer tokens (-n), fewer --runs, or a lower --level");
    for (unsigned i = 0; i < WARM_UPS && (i == 0 || least < LONG_NS); i++) {
        BN_TRY(generate(w, NULL, err));
        if (w->generation_cpu_ns < least) least = w->generation_cpu_ns;
    }
    if (w->asked->level != BN_PROF_OFF) BN_TRY(count_events(w, (size_t)room, err));
    if (w->generation_cpu_ns > least) w->generation_cpu_ns = least;
    return BN_OK;
}

static void close_work(struct work *work)
{
    bn_session_close(work->session);
    bn_model_close(work->model);
    for (size_t i = 0; i < work->n_runs; i++) {
        bn_brick_clock_close(work->runs[i].clock);
        bn_prof_close(work->runs[i].prof);
    }
    bn_free(work->runs);
    bn_free(work->windows);
    bn_free(work->tids);
    bn_free(work->prompt);
    bn_free(work->ids);
}

/* ---- runs ---- */

/* What the system's scheduler says of the threads: time on a processor, time that they waited for one. */
static bool read_scheduling(const struct work *w, uint64_t *cpu_ns, uint64_t *waited_ns)
{
    *cpu_ns = *waited_ns = 0;
    for (unsigned t = 0; t < w->n_threads; t++) {
        char path[64];
        unsigned long long cpu, waited;
        struct bn_buf text = {.max = 256};
        snprintf(path, sizeof path, "/proc/self/task/%u/schedstat", w->tids[t]);
        bool ok = bn_file_read(path, &text, NULL) == BN_OK && text.data != NULL &&
                  sscanf(text.data, "%llu %llu", &cpu, &waited) == 2;
        bn_buf_release(&text);
        if (!ok) return false;
        *cpu_ns += cpu;
        *waited_ns += waited;
    }
    return true;
}

/* Generations that a run is made of, by the time that one takes; it may end earlier. */
static uint64_t plan(const struct work *w, uint64_t cpu_ns)
{
    uint64_t n = cpu_ns / (w->generation_cpu_ns + 1) + 1,
             most = MAX_EVENTS / (w->n_threads * (uint64_t)w->asked->runs);
    if (w->n_events == 0) return n;
    n += n + 2; /* it may be faster than it was */
    return n * w->n_events < most ? n : most / w->n_events;
}

/* Is there room in each trail for one generation more? */
static bool has_room(const struct work *w, const struct run *run)
{
    for (unsigned t = 0; run->prof != NULL && t < w->n_threads; t++) {
        const struct bn_prof_trail *trail = &run->prof->trails[t];
        if (trail->n + w->n_events + w->n_events / 8 > trail->room) return false;
    }
    return true;
}

static double seconds_of(const struct work *w)
{
    return w->asked->seconds > 0 ? w->asked->seconds : 10;
}

/* Until the threads have computed for cpu_ns together, or the time is over. */
static bn_status repeat(struct work *w, struct run *run, uint64_t cpu_ns, uint64_t generations, bn_error *err)
{
    struct bn_record_window *window = &w->windows[w->n_runs - 1];
    uint64_t cpu = bn_clock_process_cpu_ns(), most_ns = (uint64_t)(1e9 * seconds_of(w));
    if (run->prof != NULL) {
        bn_prof_reset_epoch(run->prof);
        run->pairs[0] = bn_clock_pair_now(run->prof);
    }
    uint64_t now = bn_clock_ns();
    window->from_ns = now;
    do {
        BN_TRY(generate(w, &w->phases, err));
        run->repetitions++;
        now = bn_clock_ns();
        run->full = !has_room(w, run) || (run->prof != NULL && run->repetitions == generations);
    } while (bn_clock_process_cpu_ns() - cpu < cpu_ns && now - window->from_ns < most_ns && !run->full);
    window->to_ns = now;
    if (run->prof == NULL) return BN_OK;
    bn_prof_finalize(run->prof, bn_prof_elapsed_ns(run->prof));
    run->pairs[1] = bn_clock_pair_now(run->prof);
    return bn_session_set_profile(w->session, NULL, err);
}

static bn_status run_all(struct work *w, bn_error *err)
{
    double seconds = (double)w->asked->min_samples * (double)w->period_ns / 1e9;
    uint64_t cpu_ns = (uint64_t)(1e9 * fmin(seconds, seconds_of(w) * w->n_threads));
    while (w->n_runs < w->asked->runs) {
        struct run *run = &w->runs[w->n_runs++];
        uint64_t cpu[2], waited[2], generations = plan(w, cpu_ns);
        size_t room = (size_t)generations * w->n_events + w->n_events / 8 + 64;
        if (w->asked->level != BN_PROF_OFF) BN_TRY(open_prof(w, &run->prof, generations, room, err));
        w->scheduling_known = w->scheduling_known && read_scheduling(w, &cpu[0], &waited[0]);
        BN_TRY(repeat(w, run, cpu_ns, generations, err));
        w->scheduling_known = w->scheduling_known && read_scheduling(w, &cpu[1], &waited[1]);
        if (!w->scheduling_known) continue;
        run->cpu_ns = cpu[1] - cpu[0];
        run->waited_ns = waited[1] - waited[0];
    }
    return BN_OK;
}

/* ---- samples ---- */

static bn_status tag(void *user, const struct bn_sample *sample, bn_stacks *stacks, uint32_t *node,
                     bn_error *err)
{
    const struct work *w = user;
    for (size_t i = 0; i < w->n_runs; i++) {
        const struct bn_record_window *window = &w->windows[i];
        bool inside = sample->time_ns >= window->from_ns && sample->time_ns < window->to_ns;
        if (!inside || w->runs[i].clock == NULL) continue;
        return bn_brick_clock_push(w->runs[i].clock, sample->tid, sample->time_ns, stacks, node, err);
    }
    return BN_OK;
}

/* ---- what was measured ---- */

static bn_status put_stamps(bn_json *about, const struct work *w, bn_error *err)
{
    double ns, median;
    BN_TRY(bn_prof_event_cost(&ns, &median, w->asked->level, err));
    bn_json *stamps = bn_json_put_object(about, "stamps");
    bn_json_put_number(stamps, "ns_each", ns);
    bn_json *events = bn_json_put_object(stamps, "events");
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        uint64_t n = 0;
        for (size_t i = 0; i < w->n_runs; i++)
            n += bn_prof_kernel_stats(w->runs[i].prof, (enum bn_kernel)k, BN_PROF_ALL_THREADS).count;
        if (n > 0) bn_json_put_u64(events, bn_prof_kernel_name(w->runs[0].prof, k), n);
    }
    return BN_OK;
}

static void put_scheduling(bn_json *about, const struct work *w)
{
    if (!w->scheduling_known) {
        bn_json_put_unavailable(about, "scheduling", "/proc/self/task/*/schedstat cannot be read");
        return;
    }
    bn_json *scheduling = bn_json_put_object(about, "scheduling");
    bn_json *cpu = bn_json_put_array(scheduling, "cpu_ns"),
            *waited = bn_json_put_array(scheduling, "waited_ns");
    for (size_t i = 0; i < w->n_runs; i++) {
        bn_json_add_u64(cpu, w->runs[i].cpu_ns);
        bn_json_add_u64(waited, w->runs[i].waited_ns);
    }
}

static bn_status add_measured(bn_stacks *stacks, const struct work *w, bn_error *err)
{
    BN_TRY(bn_stacks_open(&stacks->measured, "ns", "bricks", err));
    bn_stacks *measured = stacks->measured;
    for (size_t i = 0; i < w->n_runs; i++) {
        if (i > 0) BN_TRY(bn_stacks_add_run(measured, err));
        BN_TRY(bn_bricks_add(measured, i, w->runs[i].prof, err));
    }
    put_scheduling(stacks->about, w);
    return put_stamps(stacks->about, w, err);
}

static bn_status compare(bn_stacks *stacks, const struct work *w, bn_error *err)
{
    struct bn_agreement agreement;
    if (w->asked->level == BN_PROF_OFF) {
        bn_json_put_unavailable(stacks->about, "agreement", "nothing was measured: --level off");
        return BN_OK;
    }
    BN_TRY(add_measured(stacks, w, err));
    bn_status status = bn_agreement(&agreement, stacks, stacks->measured, err);
    if (status == BN_OK) bn_agreement_put(stacks->about, &agreement);
    bn_agreement_release(&agreement);
    return status;
}

/* ---- what is said of it ---- */

static void put_mean(bn_json *o, const char *name, uint64_t ns, uint64_t tokens)
{
    bn_json_put_finite(o, name, (double)ns / (double)tokens, "no token was decoded after the first");
}

/* By the engine's own stamps, while it was sampled: means of one token of decoding. */
static void put_phases(bn_json *about, const struct work *w)
{
    const struct phases *sum = &w->phases;
    uint64_t ns = 0, generations = 0;
    for (size_t i = 0; i < w->n_runs; i++) {
        ns += w->windows[i].to_ns - w->windows[i].from_ns;
        generations += w->runs[i].repetitions;
    }
    bn_json *phases = bn_json_put_object(about, "phases");
    bn_json_put_finite(phases, "generation_ns", (double)ns / (double)generations, "nothing was generated");
    bn_json_put_u64(phases, "tokens", sum->tokens);
    put_mean(phases, "embed_ns", sum->embed_ns, sum->tokens);
    put_mean(phases, "forward_ns", sum->forward_ns, sum->tokens);
    put_mean(phases, "head_ns", sum->head_ns, sum->tokens);
    put_mean(phases, "sample_ns", sum->sample_ns, sum->tokens);
}

/* Of one pass: over the prompt, or of a token that is decoded alone. */
static uint64_t bytes_of_pass(const struct work *w)
{
    return w->n_ids > 1 ? (w->all_bytes - w->prompt_bytes) / (w->n_ids - 1) : w->prompt_bytes;
}

static void put_reads(bn_json *about, const struct work *w)
{
    bn_json *reads = bn_json_put_object(about, "reads");
    bn_json_put_u64(reads, "prompt_bytes", w->prompt_bytes);
    if (w->n_ids > 1)
        bn_json_put_u64(reads, "token_bytes", bytes_of_pass(w));
    else
        bn_json_put_unavailable(reads, "token_bytes", "no token was decoded after the first");
    /* A set that fits into a cache is read faster than one that does not: that of the limit is as large. */
    uint64_t set = bytes_of_pass(w) < BN_BANDWIDTH_MAX_BYTES ? bytes_of_pass(w) : BN_BANDWIDTH_MAX_BYTES;
    uint64_t limit = bn_bandwidth_probe((size_t)set, w->n_threads, LIMIT_NS);
    if (limit > 0) {
        BN_PUT(reads, BN_U64("limit_bytes_per_s", limit), BN_U64("limit_set_bytes", set));
    } else {
        bn_json_put_unavailable(reads, "limit_bytes_per_s", "no memory for it");
    }
}

static void put_workload(bn_json *about, const struct work *w)
{
    char text[96], ids[BN_SHA256_HEX];
    bn_sha256_hex(w->ids, w->n_ids * sizeof *w->ids, ids);
    bn_json *o = bn_json_put_object(about, "workload");
    bn_json *repetitions = bn_json_put_array(o, "repetitions");
    size_t full = 0;
    for (size_t i = 0; i < w->n_runs; i++) {
        bn_json_add_u64(repetitions, w->runs[i].repetitions);
        full += w->runs[i].full;
    }
    snprintf(text, sizeof text, "the model's own, %zu tokens",
             bn_tokenizer_n_vocab(bn_model_tokenizer(w->model)));
    BN_PUT(o, BN_STRING("tokenizer", text), BN_STRING("prompt", w->asked->prompt),
           BN_U64("prompt_tokens", w->n_prompt), BN_U64("n_predict", w->asked->n_predict),
           BN_U64("tokens", w->n_ids), BN_STRING("ids_sha256", ids), BN_U64("seed", w->asked->seed),
           BN_U64("threads", w->n_threads), BN_STRING("isa", bn_isa_name()),
           BN_STRING("level", bn_prof_level_name(w->asked->level)), BN_U64("runs_cut_by_events", full));
    if (full > 0)
        bn_report_note(
            0,
            "%zu of %zu runs ended early because the profiler was full; use a lower --level or fewer "
            "--runs",
            full, w->n_runs);
}

static bn_status make_stacks(bn_stacks **out, struct work *work, bn_recording *recording,
                             const struct bn_symbols_options *symbols, bn_error *err)
{
    enum bn_record_kind kind = recording->delivery.kind;
    for (struct run *r = work->runs; r < work->runs + work->n_runs; r++)
        if (r->prof != NULL) BN_TRY(bn_brick_clock_open(&r->clock, r->prof, work->tids, r->pairs, err));
    struct bn_stack_quality quality = {0};
    BN_TRY(bn_stacks_open(out, "ns", bn_record_kind_name(kind), err));
    for (size_t i = 1; i < work->n_runs; i++)
        BN_TRY(bn_stacks_add_run(*out, err));
    bn_json *about = (*out)->about;
    bn_flamegraph_put_origin(about);
    bn_cli_put_model(about, work->args);
    put_workload(about, work);
    put_phases(about, work);
    put_reads(about, work);
    bn_flamegraph_put_others(about, &work->before);
    bn_delivery_put(about, &recording->delivery);
    BN_TRY(bn_fingerprint_put(about, err));
    const struct bn_resolve_options how = {
        .windows = work->windows, .n_windows = work->n_runs, .tag = tag, .user = work};
    BN_TRY(bn_flamegraph_resolve(*out, recording, symbols, &how, &quality, err));
    bn_stack_quality_put(about, &quality);
    return compare(*out, work, err);
}

bn_status bn_flamegraph_record_model(bn_stacks **out, const struct bn_args *args, bn_error *err)
{
    struct bn_record_options options;
    struct bn_symbols_options symbols;
    bn_recording recording = {0};
    bn_recorder *recorder = NULL;
    const struct bn_flamegraph_options *o = args->fields;
    struct work work = {.args = args, .asked = &o->work, .scheduling_known = true};
    bn_flamegraph_read_sampler(&options, &symbols, args->fields);
    BN_TRY(bn_recorder_open(&recorder, &options, err)); /* before the model, which starts threads */
    work.period_ns = options.period_ns;
    bn_cli_catch_interrupt();
    bn_status status = open_engine(&work, err);
    if (status == BN_OK) status = warm_up(&work, err);
    bn_busy_read(&work.before);
    if (status == BN_OK) status = run_all(&work, err);
    if (status == BN_OK) status = bn_recorder_stop(recorder, &recording, err);
    if (status == BN_OK) bn_flamegraph_warn(&recording.delivery);
    if (status == BN_OK) status = make_stacks(out, &work, &recording, &symbols, err);
    bn_recorder_close(recorder);
    bn_recording_release(&recording);
    close_work(&work);
    return bn_stacks_keep(out, status);
}
