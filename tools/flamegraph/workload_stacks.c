/* SPDX-License-Identifier: MIT
 *
 * Makes stacks of a recorded generation and of its measured bricks, and compares both.
 */
#include <stdio.h>

#include "base/digest.h"
#include "base/error.h"
#include "lab/host/bandwidth.h"
#include "lab/profile/document.h"
#include "lab/sampler/recorder.h"
#include "lab/stacks/fingerprint.h"
#include "tools/cli/default_model.h"
#include "tools/cli/provenance.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/workload.h"

#define LIMIT_NS 200000000u /* for measuring the read bandwidth */

/* ---- samples ---- */

static bn_status tag(void *user, const struct bn_sample *sample, bn_stacks *stacks, uint32_t *node,
                     bn_error *err)
{
    const struct bn_recorded_work *w = user;
    for (size_t i = 0; i < w->n_runs; i++) {
        const struct bn_record_window *window = &w->windows[i];
        bool inside = sample->time_ns >= window->from_ns && sample->time_ns < window->to_ns;
        if (!inside || w->runs[i].clock == NULL) continue;
        return bn_brick_clock_push(w->runs[i].clock, sample->tid, sample->time_ns, stacks, node, err);
    }
    return BN_OK;
}

static bn_status open_clocks(struct bn_recorded_work *w, bn_error *err)
{
    for (size_t i = 0; i < w->n_runs; i++) {
        struct bn_work_run *run = &w->runs[i];
        if (run->prof != NULL) BN_TRY(bn_brick_clock_open(&run->clock, run->prof, w->tids, run->pairs, err));
    }
    return BN_OK;
}

/* ---- what was measured ---- */

static bn_status put_stamps(bn_json *about, const struct bn_recorded_work *w, bn_error *err)
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

static void put_scheduling(bn_json *about, const struct bn_recorded_work *w)
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

static bn_status add_measured(bn_stacks *stacks, const struct bn_recorded_work *w, bn_error *err)
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

static bn_status compare(bn_stacks *stacks, const struct bn_recorded_work *w, bn_error *err)
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
static void put_phases(bn_json *about, const struct bn_recorded_work *w)
{
    struct bn_work_phases sum = {0};
    uint64_t ns = 0, generations = 0;
    for (size_t i = 0; i < w->n_runs; i++) {
        ns += w->windows[i].to_ns - w->windows[i].from_ns;
        generations += w->runs[i].repetitions;
        const struct bn_work_phases *p = &w->runs[i].phases;
        sum.tokens += p->tokens;
        sum.embed_ns += p->embed_ns;
        sum.forward_ns += p->forward_ns;
        sum.head_ns += p->head_ns;
        sum.sample_ns += p->sample_ns;
    }
    bn_json *phases = bn_json_put_object(about, "phases");
    bn_json_put_finite(phases, "generation_ns", (double)ns / (double)generations, "nothing was generated");
    bn_json_put_u64(phases, "tokens", sum.tokens);
    put_mean(phases, "embed_ns", sum.embed_ns, sum.tokens);
    put_mean(phases, "forward_ns", sum.forward_ns, sum.tokens);
    put_mean(phases, "head_ns", sum.head_ns, sum.tokens);
    put_mean(phases, "sample_ns", sum.sample_ns, sum.tokens);
}

/* Of one pass: over the prompt, or of a token that is decoded alone. */
static uint64_t bytes_of_pass(const struct bn_recorded_work *w)
{
    return w->n_ids > 1 ? (w->all_bytes - w->prompt_bytes) / (w->n_ids - 1) : w->prompt_bytes;
}

static void put_reads(bn_json *about, const struct bn_recorded_work *w)
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
        bn_json_put_u64(reads, "limit_bytes_per_s", limit);
        bn_json_put_u64(reads, "limit_set_bytes", set);
    } else {
        bn_json_put_unavailable(reads, "limit_bytes_per_s", "no memory for it");
    }
}

static bn_status put_workload(bn_json *about, const struct bn_recorded_work *w, bn_error *err)
{
    char text[96], ids[BN_SHA256_HEX];
    BN_TRY(bn_sha256_hex(w->ids, w->n_ids * sizeof *w->ids, ids, err));
    bn_json *o = bn_json_put_object(about, "workload");
    bn_json *repetitions = bn_json_put_array(o, "repetitions");
    size_t full = 0;
    for (size_t i = 0; i < w->n_runs; i++) {
        bn_json_add_u64(repetitions, w->runs[i].repetitions);
        full += w->runs[i].full;
    }
    snprintf(text, sizeof text, "the model's own, %zu tokens",
             bn_tokenizer_n_vocab(bn_model_tokenizer(w->model)));
    bn_json_put_string(o, "tokenizer", text);
    bn_json_put_string(o, "prompt", w->asked->prompt);
    bn_json_put_u64(o, "prompt_tokens", w->n_prompt);
    bn_json_put_u64(o, "n_predict", w->asked->n_predict);
    bn_json_put_u64(o, "tokens", w->n_ids);
    bn_json_put_string(o, "ids_sha256", ids);
    bn_json_put_u64(o, "seed", w->asked->seed);
    bn_json_put_u64(o, "threads", w->n_threads);
    bn_json_put_string(o, "isa", bn_isa_name());
    bn_json_put_string(o, "level", bn_prof_level_name(w->asked->level));
    bn_json_put_u64(o, "runs_cut_by_events", full);
    if (full > 0)
        bn_report_note(
            0,
            "%zu of %zu runs ended early because the profiler was full; use a lower --level or fewer "
            "--runs",
            full, w->n_runs);
    return BN_OK;
}

static bn_status make_stacks(struct bn_flamegraph_recorded *out, struct bn_recorded_work *work,
                             bn_recording *recording, const struct bn_symbols_options *symbols, bn_error *err)
{
    enum bn_record_kind kind = recording->delivery.kind;
    BN_TRY(open_clocks(work, err));
    BN_TRY(bn_stacks_open(&out->stacks, bn_record_kind_unit(kind), bn_record_kind_name(kind), err));
    for (size_t i = 1; i < work->n_runs; i++)
        BN_TRY(bn_stacks_add_run(out->stacks, err));
    bn_json *about = out->stacks->about;
    bn_flamegraph_put_origin(about);
    bn_cli_put_model(about, work->args);
    BN_TRY(put_workload(about, work, err));
    put_phases(about, work);
    put_reads(about, work);
    bn_flamegraph_put_others(about, &work->before);
    bn_recording_put(about, recording);
    BN_TRY(bn_fingerprint_put(about, err));
    const struct bn_resolve_options how = {
        .windows = work->windows, .n_windows = work->n_runs, .tag = tag, .user = work};
    BN_TRY(bn_flamegraph_resolve(out, recording, symbols, &how, err));
    bn_stack_quality_put(about, &out->quality, &out->symbols);
    return compare(out->stacks, work, err);
}

bn_status bn_flamegraph_record_model(struct bn_flamegraph_recorded *out, const struct bn_args *args,
                                     bn_error *err)
{
    struct bn_record_options options;
    struct bn_symbols_options symbols;
    bn_recording recording = {0};
    bn_recorder *recorder = NULL;
    struct bn_recorded_work work = {0};
    *out = (struct bn_flamegraph_recorded){0};
    BN_TRY(bn_flamegraph_read_sampler(&options, &symbols, args, err));
    BN_TRY(bn_recorder_open(&recorder, &options, err)); /* before the model, which starts threads */
    bn_status status = bn_work_open(&work, args, options.period_ns, err);
    bn_busy_read(&work.before);
    if (status == BN_OK) status = bn_work_run(&work, err);
    if (status == BN_OK) status = bn_recorder_stop(recorder, &recording, err);
    if (status == BN_OK) bn_flamegraph_warn(&recording.delivery);
    if (status == BN_OK) status = make_stacks(out, &work, &recording, &symbols, err);
    bn_recorder_close(recorder);
    bn_recording_release(&recording);
    bn_work_close(&work);
    if (status != BN_OK) bn_flamegraph_recorded_release(out);
    return status;
}
