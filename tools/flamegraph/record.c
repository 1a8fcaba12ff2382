/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph record: a program's stacks, or those of a model's generation, by the best sampler that works
 * here, into as many files as are wanted, each in the format that its name ends in.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "measure/interval.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/flamegraph.h"

#define MAX_RUNS 256u
#define FEW_SAMPLES 100u
/* Of stack with each sample: the kernels with the largest frames, and what is above them. */
#define STACK_BYTES 49152u
#define MAX_OUTPUT_BYTES ((size_t)1 << 30)

const struct bn_option bn_flamegraph_record_options[] = {
    {.name = "kind",
     .arg = "cpu|wall|faults",
     .group = "Sampling",
     .preset = "cpu",
     .help = "what is recorded: time on a processor, time with waiting, or page faults"},
    {.name = "frequency",
     .letter = 'F',
     .arg = "HZ",
     .group = "Sampling",
     .preset = "991",
     .help = "samples of a thread's second, 1 to 20000"},
    {.name = "sampler",
     .arg = "auto|cycles|clock|timer|itimer",
     .group = "Sampling",
     .env = "BITNET_FLAMEGRAPH_TOOL",
     .preset = "auto",
     .help = "how samples are taken; auto: the first of these that works here"},
    {.name = "unwind",
     .arg = "auto|fp",
     .group = "Sampling",
     .preset = "auto",
     .help =
         "how callers are found: auto: by unwinding tables and a copy of the stack, and by frame pointers "
         "where these end; fp: by frame pointers alone, which needs less memory"},
    {.name = "user-only",
     .group = "Sampling",
     .help = "leave out the time and the frames of the operating system, which are else recorded where that "
             "is permitted"},
    {.name = "runs",
     .letter = 'r',
     .arg = "N",
     .group = "Sampling",
     .preset = "1",
     .help = "record so many runs, which are kept apart, so that comparisons know how they vary"},
    {.name = "duration",
     .arg = "SECONDS",
     .group = "Sampling",
     .help = "end each run after so long; what was recorded until then counts"},
    {.name = "no-inline", .group = "Names", .help = "no frames for functions that were inlined"},
    {.name = "debug-path",
     .arg = "DIRS",
     .group = "Names",
     .help = "folders of separate debugging information, with ':' between them"},
    {0},
};

const struct bn_option bn_flamegraph_record_outputs[] = {
    {.name = "output",
     .letter = 'o',
     .arg = "FILE",
     .repeatable = true,
     .help = "write to this file, in the format that its name ends in: .json, .svg, .folded, .txt, "
             ".speedscope.json, .firefox.json, .trace.json, .pb.gz, .callgrind; any number of times. Without "
             "it a table of functions is printed"},
    {.name = "allow-empty", .help = "write files even when there was no sample"},
    {0},
};

static bn_status read_kind(struct bn_record_options *o, const struct bn_args *args, bn_error *err)
{
    double hz = 991;
    BN_TRY(bn_opt_f64(args, "frequency", 1, 20000, &hz, err));
    o->kind = (enum bn_record_kind)bn_opt_choice(args, "kind");
    o->tier = bn_opt_choice(args, "sampler") - 1;
    o->period_ns = (uint64_t)(1e9 / hz + 0.5);
    /* Of faults there are too many at once. */
    bool copies = bn_opt_choice(args, "unwind") == 0 && o->kind != BN_RECORD_FAULTS;
    o->dump_bytes = copies ? STACK_BYTES : 0;
    o->user_only = bn_opt_flag(args, "user-only");
    return BN_OK;
}

bn_status bn_flamegraph_read_sampler(struct bn_record_options *options, struct bn_symbols_options *symbols,
                                     uint32_t *runs, const struct bn_args *args, bn_error *err)
{
    double seconds = 0;
    *options = (struct bn_record_options)BN_RECORD_OPTIONS_INIT;
    *runs = 1;
    BN_TRY(read_kind(options, args, err));
    BN_TRY(bn_opt_u32(args, "runs", 1, MAX_RUNS, runs, err));
    BN_TRY(bn_opt_f64(args, "duration", 0.01, 1e6, &seconds, err));
    options->timeout_ns = (uint64_t)(seconds * 1e9);
    *symbols = (struct bn_symbols_options){.inlined = !bn_opt_flag(args, "no-inline"),
                                           .debug_path = bn_opt_str(args, "debug-path")};
    return BN_OK;
}

void bn_flamegraph_recorded_release(struct bn_flamegraph_recorded *recorded)
{
    bn_stacks_close(recorded->stacks);
    *recorded = (struct bn_flamegraph_recorded){0};
}

void bn_flamegraph_warn(const struct bn_delivery *d)
{
    for (unsigned t = 0; t < (unsigned)d->tier; t++)
        if (d->refused[t][0] != '\0')
            bn_report_note(1, "sampler %s is not used: %s", bn_record_tier_name((enum bn_record_tier)t),
                           d->refused[t]);
    bn_report_note(0, "sampled by %s", bn_record_tier_name(d->tier));
    if (d->system_refused[0] != '\0')
        bn_report_note(0, "without the operating system's frames: %s", d->system_refused);
    if (d->note[0] != '\0') bn_report_warning("%s", d->note);
    if (d->lost > 0)
        bn_report_warning("%llu samples were lost: what ran at these times is missing; a lower --frequency "
                          "loses fewer",
                          (unsigned long long)d->lost);
    if (d->throttled > 0)
        bn_report_warning("the operating system held the sampler back %llu times: "
                          "kernel.perf_event_max_sample_rate",
                          (unsigned long long)d->throttled);
}

/* ---- what is written ---- */

enum { FORMAT_SVG = BN_STACKS_FORMATS, FORMAT_TABLE };

/* Longer suffixes before those that they end in. */
static const struct {
    const char *suffix;
    int format;
} SUFFIXES[] = {{".speedscope.json", BN_STACKS_SPEEDSCOPE},
                {".firefox.json", BN_STACKS_FIREFOX},
                {".trace.json", BN_STACKS_CHROME},
                {".json", BN_STACKS_DOCUMENT},
                {".folded", BN_STACKS_FOLDED},
                {".pb.gz", BN_STACKS_PPROF},
                {".callgrind", BN_STACKS_CALLGRIND},
                {".svg", FORMAT_SVG},
                {".txt", FORMAT_TABLE}};

static int format_of(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < BN_ARRAY_LEN(SUFFIXES); i++) {
        size_t n_suffix = strlen(SUFFIXES[i].suffix);
        if (n > n_suffix && strcmp(path + n - n_suffix, SUFFIXES[i].suffix) == 0) return SUFFIXES[i].format;
    }
    return -1;
}

/* A wrong folder is said before the program is run, which may take hours. */
static bn_status check_folder(const char *path, bn_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = bn_strndup(slash == NULL ? "." : path, n);
    if (folder == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    bool exists = access(folder, F_OK) == 0;
    bn_status status = BN_OK;
    if (!exists || (access(folder, W_OK | X_OK) != 0 && access(path, W_OK) != 0))
        status = bn_fail_at(err, exists ? BN_ERR_IO : BN_ERR_NOT_FOUND, BN_NO_OFFSET, folder,
                            exists ? "this folder cannot be written to" : "there is no such folder");
    bn_free(folder);
    return status;
}

static bn_status check_outputs(const struct bn_args *args, bn_error *err)
{
    for (size_t i = 0; i < bn_opt_count(args, "output"); i++) {
        const char *path = bn_opt_at(args, "output", i);
        if (format_of(path) >= 0) {
            BN_TRY(check_folder(path, err));
            continue;
        }
        bn_fail(err, BN_ERR_ARG, "--output: no format is known by the end of '%.100s'", path);
        bn_error_hint(err, ".json keeps everything; bn-flamegraph export makes the others of it");
        return BN_ERR_ARG;
    }
    return BN_OK;
}

/* stacks: all of them; view: as the options want to see them. */
static bn_status write_one(struct bn_buf *out, int format, const bn_stacks *stacks, const bn_stacks *view,
                           const struct bn_args *args, bn_error *err)
{
    if (format == FORMAT_SVG) return bn_flamegraph_draw(out, view, args, err);
    if (format == FORMAT_TABLE) return bn_flamegraph_put_table(out, view, err);
    return bn_stacks_write(format == BN_STACKS_DOCUMENT ? stacks : view, (enum bn_stacks_format)format, out,
                           err);
}

static bn_status write_all(const struct bn_args *args, const bn_stacks *stacks, bn_error *err)
{
    bn_stacks *view = NULL;
    size_t n = bn_opt_count(args, "output");
    BN_TRY(bn_flamegraph_view(&view, stacks, args, err));
    bn_status status = BN_OK;
    for (size_t i = 0; i < (n > 0 ? n : 1) && status == BN_OK; i++) {
        const char *path = n > 0 ? bn_opt_at(args, "output", i) : NULL;
        struct bn_buf bytes = {.max = MAX_OUTPUT_BYTES};
        status = write_one(&bytes, path != NULL ? format_of(path) : FORMAT_TABLE, stacks, view, args, err);
        if (status == BN_OK) status = bn_buf_check(&bytes, err);
        if (status == BN_OK && path != NULL)
            status = bn_file_write_atomic(path, bytes.data, bytes.len, err);
        else if (status == BN_OK && fwrite(bytes.data, 1, bytes.len, stdout) != bytes.len)
            status = bn_fail(err, BN_ERR_IO, "standard output cannot be written");
        bn_buf_release(&bytes);
    }
    bn_stacks_close(view);
    return status;
}

/* ---- is it worth anything? ---- */

static uint64_t count_samples(const bn_stacks *stacks)
{
    uint64_t n = 0;
    for (uint32_t node = 0; node < stacks->n_nodes; node++)
        n += bn_stacks_samples(stacks, node, BN_STACKS_ALL_RUNS);
    return n;
}

static bn_status judge(struct bn_args *args, const bn_stacks *stacks, bool *write, bn_error *err)
{
    (void)err;
    uint64_t n = count_samples(stacks);
    *write = n > 0 || bn_opt_flag(args, "allow-empty");
    if (n == 0) {
        bn_report_warning("there is no sample%s", *write ? "" : ", so nothing is written");
        args->exit_code = BN_EXIT_NEGATIVE;
        if (*write) args->exit_code = BN_EXIT_OK;
    } else if (n < FEW_SAMPLES) {
        struct bn_interval half = bn_interval_wilson(0.5, (double)n, 0.95);
        bn_report_warning(
            "only %llu samples: a share of 50 %% could be %.0f %% to %.0f %%; record for longer "
            "or with a higher --frequency",
            (unsigned long long)n, half.low * 100, half.high * 100);
    }
    return BN_OK;
}

/* Why each way was refused, in full; the error's own line is too short for that. */
static void explain(const struct bn_args *args)
{
    struct bn_record_options options;
    struct bn_symbols_options symbols;
    uint32_t runs;
    if (bn_flamegraph_read_sampler(&options, &symbols, &runs, args, NULL) != BN_OK || options.tier >= 0)
        return;
    for (int t = 0; t < (int)BN_RECORD_TIERS; t++) {
        struct bn_record_trial trial;
        options.tier = t;
        if (bn_record_try(&trial, &options, NULL) == BN_OK && !trial.works)
            bn_report_warning("%s: %s", bn_record_tier_name((enum bn_record_tier)t), trial.why);
    }
}

bn_status bn_flamegraph_record(struct bn_args *args, bn_error *err)
{
    struct bn_flamegraph_recorded recorded = {0};
    struct bn_flamegraph_workload workload;
    bool program = args->n_operands > 0, write = false;
    BN_TRY(check_outputs(args, err));
    bn_status status = BN_OK;
    if (program) {
        status = bn_flamegraph_record_program(&recorded, args, args->operands, err);
    } else {
        status = bn_flamegraph_read_workload(&workload, args, err);
        if (status == BN_OK) status = bn_flamegraph_record_model(&recorded, args, &workload, err);
    }
    if (status == BN_ERR_UNSUPPORTED) {
        explain(args);
        bn_error_hint(err, "bn-flamegraph doctor says what would change it");
    }
    if (status == BN_OK) status = judge(args, recorded.stacks, &write, err);
    if (status == BN_OK && write) status = write_all(args, recorded.stacks, err);
    bn_flamegraph_recorded_release(&recorded);
    if (status == BN_OK && bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    return status;
}
