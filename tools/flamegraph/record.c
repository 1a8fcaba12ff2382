/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph record: records a program or a generation with the best sampler that works here, and writes
 * any number of files, each in the format that its name selects.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/kit/put_counts.h"
#include "lab/stats/interval.h"
#include "tools/cli/provenance.h"
#include "tools/cli/text.h"
#include "tools/flamegraph/flamegraph.h"

#define LEAST_SHARE 0.9 /* of the processor time: warn when less was sampled */
#define LEAST_NS 1e8    /* of time, for that to mean anything */
#define FEW_SAMPLES 100u
#define TOP 25u            /* functions that are printed */
#define LEAST_OF_ASKED 2.0 /* times the requested period: warn when it is longer */
#define MOST_POOR 0.1      /* share of incomplete stacks: warn above that */
/* Of stack with each sample: the kernels with the largest frames, and what is above them. */
#define STACK_BYTES 49152u

enum { UNWIND_AUTO, UNWIND_FP };

const struct bn_option bn_flamegraph_record_options[] = {
    BN_OPTION("output", "write this file; its name selects the format", .letter = 'o', .repeatable = true,
              BN_TO_TEXTS(struct bn_flamegraph_options, outputs)),
    BN_OPTION("allow-empty", "write files even without a sample",
              BN_TO_BOOL(struct bn_flamegraph_options, allow_empty)),
    BN_OPTION("kind", "processor time or wall-clock time", .arg = "cpu|wall", .group = "Sampling",
              .preset = "cpu", BN_TO_CHOICE(struct bn_flamegraph_options, kind)),
    BN_OPTION("frequency", "samples per second of each thread, 1 to 20000", .letter = 'F', .arg = "HZ",
              .preset = "991", BN_TO_F64(struct bn_flamegraph_options, frequency, 1, 20000)),
    BN_OPTION("sampler", "how to sample; auto: the first that works", .arg = "auto|clock|timer",
              .env = "BITNET_FLAMEGRAPH_TOOL", .preset = "auto",
              BN_TO_CHOICE(struct bn_flamegraph_options, sampler)),
    BN_RARE("unwind", "find callers by unwind tables (auto) or frame pointers (fp)", .arg = "auto|fp",
            .preset = "auto", BN_TO_CHOICE(struct bn_flamegraph_options, unwind)),
    BN_OPTION("runs", "record N runs and keep them apart", .letter = 'r', .preset = "1",
              BN_TO_U32(struct bn_flamegraph_options, work.runs, 1, BN_STACKS_MAX_RUNS)),
    BN_OPTION("duration", "end each run after this time", .arg = "SECONDS",
              BN_TO_F64(struct bn_flamegraph_options, work.seconds, 0.01, 1e6)),
    BN_RARE("no-inline", "no frames for inlined functions", .group = "Names",
            BN_TO_BOOL(struct bn_flamegraph_options, no_inline)),
    {0},
};

void bn_flamegraph_read_sampler(struct bn_record_options *options, struct bn_symbols_options *symbols,
                                const struct bn_flamegraph_options *o)
{
    *options = (struct bn_record_options){
        .kind = o->kind,
        .tier = o->sampler - 1,
        .period_ns = (uint64_t)(1e9 / o->frequency + 0.5),
        .dump_bytes = o->unwind == UNWIND_AUTO ? STACK_BYTES : 0,
        .timeout_ns = (uint64_t)(o->work.seconds * 1e9),
    };
    *symbols = (struct bn_symbols_options){.inlined = !o->no_inline};
}

bn_status bn_flamegraph_resolve(bn_stacks *out, bn_recording *recording,
                                const struct bn_symbols_options *options,
                                const struct bn_resolve_options *how, struct bn_stack_quality *quality,
                                bn_error *err)
{
    bn_symbols *symbols = NULL;
    BN_TRY(bn_symbols_open(&symbols, recording, options, err));
    bn_status status = recording->n_dumps > 0 ? bn_symbols_unwind(symbols, recording, err) : BN_OK;
    if (status == BN_OK) status = bn_resolve(out, recording, symbols, how, quality, err);
    bn_symbols_close(symbols);
    return status;
}

void bn_flamegraph_put_origin(bn_json *about)
{
    BN_PUT(about, BN_TIME("created", bn_clock_utc()));
    bn_cli_put_provenance(about, NULL);
}

void bn_flamegraph_describe_others(char out[BN_FLAMEGRAPH_OTHERS_ROOM], const bn_json *about)
{
    const struct bn_others others = bn_others_read(about);
    out[0] = '\0';
    if (bn_others_disturb(&others)) bn_others_describe(out, BN_FLAMEGRAPH_OTHERS_ROOM, &others);
}

void bn_flamegraph_put_others(bn_json *about, const struct bn_busy *then)
{
    struct bn_busy now;
    char text[BN_FLAMEGRAPH_OTHERS_ROOM];
    bn_busy_read(&now);
    const struct bn_others others = bn_busy_others(then, &now);
    bn_others_put(about, &others);
    bn_flamegraph_describe_others(text, about);
    if (text[0] != '\0') bn_report_warning("%s: threads waited more than on an idle machine", text);
}

void bn_flamegraph_warn(const struct bn_delivery *d)
{
    const char *why = d->tier == BN_RECORD_TIMER ? d->refused[BN_RECORD_CLOCK] : "";
    bn_report_note(0, "sampler: %s%s%s", bn_record_tier_name(d->tier),
                   why[0] != '\0' ? "; unavailable: clock: " : "", why);
    if (d->system_refused[0] != '\0') bn_report_note(0, "without kernel frames: %s", d->system_refused);
    if (d->note[0] != '\0') bn_report_warning("%s", d->note);
    if (d->lost > 0)
        bn_report_warning("%llu samples were lost; a lower --frequency "
                          "loses fewer",
                          (unsigned long long)d->lost);
    if (d->throttled > 0)
        bn_report_warning("the kernel throttled the sampler %llu times: "
                          "kernel.perf_event_max_sample_rate",
                          (unsigned long long)d->throttled);
}

/* ---- a program, started once for each run ---- */

struct job {
    const struct bn_flamegraph_options *asked;
    const char *const *argv;
    struct bn_record_options options;
    struct bn_symbols_options symbol_options;
    int fds[3];
    bn_json *processes;
    double user_s; /* of all runs */
    struct bn_delivery delivery;
    struct bn_stack_quality quality;
    struct bn_busy before;
};

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void put_process(bn_json *list, const struct bn_process *process)
{
    char text[64];
    bn_json *o = bn_json_add_object(list);
    bn_process_describe(text, sizeof text, process);
    bn_json_put_string(o, "end", text);
    if (process->end == BN_PROCESS_EXITED) bn_json_put_u64(o, "status", (uint64_t)process->code);
    if (process->end == BN_PROCESS_SIGNALLED) bn_json_put_u64(o, "signal", (uint64_t)process->code);
    bn_json_put_number(o, "wall_s", (double)process->wall_ns / 1e9);
    bn_json_put_number(o, "user_s", seconds(process->usage.ru_utime));
    bn_json_put_number(o, "system_s", seconds(process->usage.ru_stime));
    bn_json_put_u64(o, "peak_rss_bytes", (uint64_t)process->usage.ru_maxrss * 1024);
}

static bn_status run_once(struct job *job, bn_stacks *out, size_t run, bn_error *err)
{
    bn_recording recording = {0};
    struct bn_process process;
    char text[64];
    if (run > 0) BN_TRY(bn_stacks_add_run(out, err));
    bn_status status = bn_record_program(&recording, &process, &job->options, job->argv, job->fds, err);
    if (status == BN_OK) {
        put_process(job->processes, &process);
        job->user_s += seconds(process.usage.ru_utime);
        bn_delivery_add(&job->delivery, &recording.delivery);
        /* What was chosen for the first run is kept, so that all are recorded alike. */
        job->options.tier = (int)recording.delivery.tier;
        bn_process_describe(text, sizeof text, &process);
        if (process.end != BN_PROCESS_EXITED || process.code != 0)
            bn_report_warning("%.200s %s", job->argv[0], text);
        const struct bn_resolve_options how = {.first_run = run};
        status = bn_flamegraph_resolve(out, &recording, &job->symbol_options, &how, &job->quality, err);
    }
    bn_recording_release(&recording);
    return status;
}

/* Time of which there are no samples, though none were lost: the way of sampling did not see it. */
static void warn_of_gaps(const struct job *job)
{
    const struct bn_delivery *d = &job->delivery;
    double ran = d->system && d->cpu_known ? (double)d->cpu_ns : job->user_s * 1e9;
    if (d->kind != BN_RECORD_CPU || ran < LEAST_NS || d->weight >= LEAST_SHARE * ran) return;
    bn_report_warning("only %.0f %% of the processor time was sampled: threads that end before their first "
                      "sample are missing; use a higher --frequency",
                      100 * d->weight / ran);
}

static bn_status run_all(struct job *job, bn_stacks *out, bn_error *err)
{
    for (size_t run = 0; run < job->asked->work.runs && !bn_cli_is_interrupted(); run++)
        BN_TRY(run_once(job, out, run, err));
    bn_flamegraph_warn(&job->delivery);
    bn_flamegraph_put_others(out->about, &job->before);
    warn_of_gaps(job);
    bn_delivery_put(out->about, &job->delivery);
    bn_stack_quality_put(out->about, &job->quality);
    return bn_fingerprint_put(out->about, err);
}

/* Its standard input is ours, except for several runs, or from a terminal, which a process
 * group in the background may not read. What it prints goes to standard error when results go to standard
 * output. */
static bn_status choose_fds(struct job *job, int *opened, bn_error *err)
{
    *opened = -1;
    job->fds[0] = 0;
    job->fds[1] = job->asked->outputs.n == 0 ? 2 : 1;
    job->fds[2] = 2;
    if (job->asked->work.runs == 1 && !isatty(0)) return BN_OK;
    *opened = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (*opened < 0) return bn_fail_errno(err, errno, "/dev/null", "cannot open");
    job->fds[0] = *opened;
    return BN_OK;
}

static void begin_about(struct job *job, bn_json *about)
{
    bn_flamegraph_put_origin(about);
    bn_busy_read(&job->before);
    bn_json *command = bn_json_put_array(about, "command");
    for (size_t i = 0; job->argv[i] != NULL; i++)
        bn_json_add_string(command, job->argv[i]);
    job->processes = bn_json_put_array(about, "processes");
}

static bn_status record_program(bn_stacks **out, const struct bn_args *args, const char *const *argv,
                                bn_error *err)
{
    struct job job = {.asked = args->fields, .argv = argv};
    int opened = -1;
    bn_flamegraph_read_sampler(&job.options, &job.symbol_options, job.asked);
    BN_TRY(choose_fds(&job, &opened, err));
    bn_cli_catch_interrupt();
    job.options.cancelled = bn_cli_is_interrupted;
    bn_status status = bn_stacks_open(out, "ns", bn_record_kind_name(job.options.kind), err);
    if (status == BN_OK) {
        begin_about(&job, (*out)->about);
        status = run_all(&job, *out, err);
    }
    if (opened >= 0) close(opened);
    return bn_stacks_keep(out, status);
}

/* ---- what is written ---- */

static bn_status check_outputs(const struct bn_args *args, bn_error *err)
{
    const struct bn_texts *outputs = &((const struct bn_flamegraph_options *)args->fields)->outputs;
    if (outputs->n == 0) BN_TRY(bn_flamegraph_check_callers(args, BN_STACKS_TEXT, err));
    for (size_t i = 0; i < outputs->n; i++) {
        const char *path = outputs->list[i];
        enum bn_stacks_format format = bn_stacks_format_by_name(path);
        if (format == BN_STACKS_NO_FORMAT)
            return bn_hint(bn_fail(err, BN_ERR_ARG, "--output: unknown format '%.100s'", path), err,
                           "use .json, and bn-flamegraph export for other formats");
        BN_TRY(bn_flamegraph_check_callers(args, format, err));
        BN_TRY(bn_file_check_output(path, err));
    }
    return BN_OK;
}

static bn_status write_one(struct bn_buf *out, enum bn_stacks_format format, const bn_stacks *stacks,
                           const struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    bn_stacks *view = NULL;
    BN_TRY(bn_flamegraph_view(&view, stacks, args, format == BN_STACKS_SVG, err));
    bn_status status =
        format == BN_STACKS_TEXT
            ? bn_flamegraph_list(out, NULL, view, &(struct bn_flamegraph_options){.top = TOP}, err)
            : bn_flamegraph_write(out, format, format == BN_STACKS_DOCUMENT ? stacks : view, o->picture, err);
    bn_stacks_close(view);
    return status;
}

static bn_status write_all(const struct bn_args *args, const bn_stacks *stacks, bn_error *err)
{
    const struct bn_texts *outputs = &((const struct bn_flamegraph_options *)args->fields)->outputs;
    bn_status status = BN_OK;
    for (size_t i = 0; i < (outputs->n > 0 ? outputs->n : 1) && status == BN_OK; i++) {
        const char *path = outputs->n > 0 ? outputs->list[i] : NULL;
        struct bn_buf bytes = {.max = BN_FLAMEGRAPH_MAX_BYTES};
        status = write_one(&bytes, path != NULL ? bn_stacks_format_by_name(path) : BN_STACKS_TEXT, stacks,
                           args, err);
        if (status == BN_OK) status = bn_cli_write(path, &bytes, err);
        bn_buf_release(&bytes);
    }
    return status;
}

/* ---- is it worth anything? ---- */

/* Warns when timers deliver fewer samples than requested: they fire at kernel ticks. */
static void warn_of_rate(const bn_json *sampler)
{
    double asked = bn_json_number_of(sampler, "asked_period_ns"),
           samples = bn_json_number_of(sampler, "samples"),
           came = bn_json_number_of(sampler, "delivered_period_ns"); /* NaN when it is not known */
    if (!bn_json_text_is(sampler, "tier", bn_record_tier_name(BN_RECORD_TIMER)) ||
        !(came >= LEAST_OF_ASKED * asked))
        return;
    bn_report_warning(
        "got %.0f of %.0f samples: timers fire at kernel ticks, about 250 a second on most machines", samples,
        samples * came / asked);
}

/* Incomplete stacks look like functions without callers. */
static void warn_of_quality(const struct bn_flamegraph_options *o, const bn_json *quality)
{
    double rooted = bn_json_number_of(quality, "rooted_share"), cut = bn_json_number_of(quality, "cut_share");
    if (1 - rooted > MOST_POOR)
        bn_report_warning("%.0f %% of the stacks are incomplete: %s", 100 * (1 - rooted),
                          o->unwind != UNWIND_AUTO
                              ? "programs without frame pointers need --unwind auto"
                              : "the program has neither frame pointers nor unwind tables");
    if (cut > MOST_POOR)
        bn_report_warning("%.0f %% of the stacks are too deep: their outermost callers are "
                          "missing",
                          100 * cut);
}

/* Whether there is anything to write, and what its reader has to know. */
static void judge(struct bn_args *args, const bn_stacks *stacks, bool *write)
{
    const struct bn_flamegraph_options *o = args->fields;
    uint64_t n = bn_stacks_count_samples(stacks);
    *write = n > 0 || o->allow_empty;
    if (n == 0) {
        bn_report_warning("no samples%s", *write ? "" : ", so no file is written");
        args->exit_code = *write ? BN_EXIT_OK : BN_EXIT_NEGATIVE;
        return;
    }
    if (n < FEW_SAMPLES) {
        struct bn_interval half = bn_interval_wilson(0.5, (double)n, 0.95);
        bn_report_warning(
            "only %llu sample%s: a share of 50 %% has an interval of %.0f to %.0f %%; record for longer or with "
            "a higher --frequency",
            (unsigned long long)n, bn_cli_s(n), half.low * 100, half.high * 100);
    }
    warn_of_rate(bn_json_get(stacks->about, "sampler"));
    warn_of_quality(o, bn_json_get(stacks->about, "quality"));
}

/* Why each way was refused, in full; the error's own line is too short for that. */
static void explain(const struct bn_args *args)
{
    struct bn_record_options options;
    struct bn_symbols_options symbols;
    bn_flamegraph_read_sampler(&options, &symbols, args->fields);
    if (options.tier >= 0) return;
    for (options.tier = 0; options.tier < (int)BN_RECORD_TIERS; options.tier++) {
        struct bn_record_trial trial;
        if (bn_record_try(&trial, &options, NULL) == BN_OK && !trial.works)
            bn_report_warning("%s: %s%s%s", bn_record_tier_name((enum bn_record_tier)options.tier), trial.why,
                              trial.hint[0] != '\0' ? ": " : "", trial.hint);
    }
}

/* What bn-run generates can be recorded without perf events, in this process: the command with the options that both
 * have. */
static void put_own_command(struct bn_buf *out, const char *const *argv)
{
    static const char BOTH[] =
        " -m --model -p --prompt -n --n-predict -t --threads --isa --device --repack --seed ",
                      FLAGS[] = " -q --quiet -v --verbose -qv -vv ";
    const char *slash = strrchr(argv[0], '/'), *name = slash != NULL ? slash + 1 : argv[0];
    if (strcmp(name, "bn") == 0 && argv[1] != NULL && strcmp(*++argv, "run") == 0) name = "bn-run";
    if (strcmp(name, "bn-run") != 0) return;
    bn_buf_puts(out, "timers record the same: bn-flamegraph record");
    while (*++argv != NULL) {
        char word[64];
        snprintf(word, sizeof word, " %.60s ", *argv);
        bool both = strstr(BOTH, word) != NULL, valued = both || (*argv[0] == '-' && !strstr(FLAGS, word));
        if (*argv[0] != '-' && strcmp(*argv, "generate") != 0) bn_buf_printf(out, " -p '%s'", *argv);
        if (valued && argv[1] != NULL && *++argv != NULL && both) bn_buf_printf(out, "%s'%s'", word, *argv);
    }
}

bn_status bn_flamegraph_record(struct bn_args *args, bn_error *err)
{
    bn_stacks *stacks = NULL;
    bool write = false;
    BN_TRY(check_outputs(args, err));
    bn_status status = args->n_operands > 0 ? record_program(&stacks, args, args->operands, err)
                                            : bn_flamegraph_record_model(&stacks, args, err);
    if (status == BN_ERR_UNSUPPORTED) {
        struct bn_buf own = {.max = 4096};
        explain(args);
        if (args->n_operands > 0) put_own_command(&own, args->operands);
        if (own.len > sizeof err->hint) bn_report_note(0, "%s", bn_buf_text(&own));
        bn_error_hint(
            err, "%s",
            own.len > 0 && own.len < sizeof err->hint ? bn_buf_text(&own)
            : args->n_operands > 0
                ? "bn-flamegraph doctor shows what perf events need; a recording of perf is drawn by: "
                  "perf script | bn-flamegraph render -o run.svg"
                : "bn-flamegraph doctor shows what changes that");
        bn_buf_release(&own);
    }
    if (status == BN_OK) judge(args, stacks, &write);
    if (status == BN_OK && write) status = write_all(args, stacks, err);
    bn_stacks_close(stacks);
    if (status == BN_OK && bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    return status;
}
