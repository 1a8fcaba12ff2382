/* SPDX-License-Identifier: MIT
 *
 * Runs the recorded generation. It is repeated, and must give the same tokens each time. Each run has a
 * profile of its own, in which the work of a thread is looked up by the times of samples afterwards.
 */
#define _GNU_SOURCE /* gettid */
#include "tools/flamegraph/workload.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/team.h"
#include "infer/session.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"

const struct bn_option bn_flamegraph_workload_options[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_THREADS_TO(struct bn_flamegraph_options, work.n_threads),
    BN_OPTION_REPACK,
    BN_OPTION("prompt", "prompt of the generation", .letter = 'p', .arg = "TEXT", .group = "Work",
              .preset = "What is 2+2?", BN_TO_TEXT(struct bn_flamegraph_options, work.prompt)),
    BN_OPTION("n-predict", "tokens per generation, chosen greedily", .letter = 'n', .arg = "N",
              .group = "Work", .preset = "10",
              BN_TO_U32(struct bn_flamegraph_options, work.n_predict, 1, 1u << 16)),
    BN_OPTION("seed", "recorded; decoding is greedy", .rare = true, .arg = "N", .group = "Work",
              .env = "BITNET_SEED", .preset = "42",
              BN_TO_U64(struct bn_flamegraph_options, work.seed, 0, (1ull << 53) - 1)),
    BN_OPTION("level", "what the profiler measures and tags", .rare = true, .arg = "off|layer|brick|kernel",
              .group = "Work", .preset = "brick", BN_TO_CHOICE(struct bn_flamegraph_options, work.level)),
    BN_OPTION("min-samples", "end a run at this many samples or after 10 s", .rare = true, .arg = "N",
              .group = "Work", .preset = "2000",
              BN_TO_U64(struct bn_flamegraph_options, work.min_samples, 1, 1u << 22)),
    {0},
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
    struct bn_recorded_work *w = user;
    if (w->prompt_bytes == 0) w->prompt_bytes = bytes_read(w->session);
    (void)id;
    (void)text;
    (void)n_bytes;
    return bn_cli_interrupted() == 0;
}

static void add_phases(struct bn_work_phases *sum, const struct bn_generation *gen)
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
static bn_status check_ids(struct bn_recorded_work *w, struct bn_generation *gen, bn_error *err)
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

static bn_status generate(struct bn_recorded_work *w, struct bn_work_phases *phases, bn_error *err)
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
    struct bn_recorded_work *w = arg;
    touch_stack();
    if (thread < w->n_threads) w->tids[thread] = (uint32_t)gettid();
    (void)n_threads;
}

static bn_status open_engine(struct bn_recorded_work *w, bn_error *err)
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
    w->tids = bn_alloc(w->n_threads, sizeof *w->tids);
    w->runs = bn_alloc(w->asked->runs, sizeof *w->runs);
    w->windows = bn_alloc(w->asked->runs, sizeof *w->windows);
    if (w->tids == NULL || w->runs == NULL || w->windows == NULL) return bn_nomem(err);
    bn_team_run(w->session->team, begin_thread, w);
    return BN_OK;
}

#define MAX_EVENTS (1u << 24) /* of all runs and threads: a gigabyte */

static uint64_t passes_of(const struct bn_recorded_work *w)
{
    uint64_t batch = bn_session_n_batch(w->session);
    return (w->n_prompt + batch - 1) / batch + w->asked->n_predict;
}

/* Room for this many generations. */
static bn_status open_prof(struct bn_recorded_work *w, bn_prof **out, uint64_t generations, size_t n_events,
                           bn_error *err)
{
    struct bn_prof_options options = {.level = w->asked->level,
                                      .n_threads = w->n_threads,
                                      .n_events = n_events,
                                      .n_passes = (size_t)(generations * passes_of(w))};
    BN_TRY(bn_prof_open(out, &options, err));
    bn_prof_enable(*out);
    return bn_session_set_profile(w->session, *out, err);
}

/* One that is profiled, for the events that it leaves. */
static bn_status count_events(struct bn_recorded_work *w, size_t room, bn_error *err)
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
static bn_status warm_up(struct bn_recorded_work *w, bn_error *err)
{
    uint64_t least = UINT64_MAX;
    uint64_t room = bn_prof_room_for(bn_model_hparams(w->model), w->asked->level, passes_of(w),
                                     w->n_prompt + w->asked->n_predict);
    uint64_t most = MAX_EVENTS / (w->n_threads * (uint64_t)w->asked->runs);
    if (w->asked->level != BN_PROF_OFF && room > most) {
        bn_fail(err, BN_ERR_LIMIT, "a generation may record %llu events per thread; the limit is %llu",
                (unsigned long long)room, (unsigned long long)most);
        bn_error_hint(err, "fewer tokens (-n), fewer --runs, or a lower --level");
        return BN_ERR_LIMIT;
    }
    for (unsigned i = 0; i < WARM_UPS && (i == 0 || least < LONG_NS); i++) {
        BN_TRY(generate(w, NULL, err));
        if (w->generation_cpu_ns < least) least = w->generation_cpu_ns;
    }
    if (w->asked->level != BN_PROF_OFF) BN_TRY(count_events(w, (size_t)room, err));
    if (w->generation_cpu_ns > least) w->generation_cpu_ns = least;
    return BN_OK;
}

bn_status bn_work_open(struct bn_recorded_work *work, const struct bn_args *args, uint64_t period_ns,
                       bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    *work = (struct bn_recorded_work){
        .args = args, .asked = &o->work, .period_ns = period_ns, .scheduling_known = true};
    bn_cli_catch_interrupt();
    BN_TRY(open_engine(work, err));
    return warm_up(work, err);
}

void bn_work_close(struct bn_recorded_work *work)
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
static bool read_scheduling(const struct bn_recorded_work *w, uint64_t *cpu_ns, uint64_t *waited_ns)
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
static uint64_t plan(const struct bn_recorded_work *w, uint64_t cpu_ns)
{
    uint64_t n = cpu_ns / (w->generation_cpu_ns + 1) + 1,
             most = MAX_EVENTS / (w->n_threads * (uint64_t)w->asked->runs);
    if (w->n_events == 0) return n;
    n += n + 2; /* it may be faster than it was */
    return n * w->n_events < most ? n : most / w->n_events;
}

/* Is there room in each trail for one generation more? */
static bool has_room(const struct bn_recorded_work *w, const struct bn_work_run *run)
{
    for (unsigned t = 0; run->prof != NULL && t < w->n_threads; t++) {
        const struct bn_prof_trail *trail = &run->prof->trails[t];
        if (trail->n + w->n_events + w->n_events / 8 > trail->room) return false;
    }
    return true;
}

static double seconds_of(const struct bn_recorded_work *w)
{
    return w->asked->seconds > 0 ? w->asked->seconds : 10;
}

/* Until the threads have computed for cpu_ns together, or the time is over. */
static bn_status repeat(struct bn_recorded_work *w, struct bn_work_run *run, uint64_t cpu_ns,
                        uint64_t generations, bn_error *err)
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
        BN_TRY(generate(w, &run->phases, err));
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

bn_status bn_work_run(struct bn_recorded_work *w, bn_error *err)
{
    double seconds = (double)w->asked->min_samples * (double)w->period_ns / 1e9;
    uint64_t cpu_ns = (uint64_t)(1e9 * fmin(seconds, seconds_of(w) * w->n_threads));
    while (w->n_runs < w->asked->runs) {
        struct bn_work_run *run = &w->runs[w->n_runs++];
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
