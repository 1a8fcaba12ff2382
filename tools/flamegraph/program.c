/* SPDX-License-Identifier: MIT
 *
 * Records a program, once for each run, and describes the recording.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/stacks/fingerprint.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/flamegraph.h"

#define LEAST_SHARE 0.9 /* of the processor time: warn when less was sampled */
#define LEAST_NS 1e8    /* of time, for that to mean anything */

struct job {
    const struct bn_flamegraph_options *asked;
    const char *const *argv;
    struct bn_record_options options;
    struct bn_symbols_options symbol_options;
    int fds[3];
    bn_json *processes;
    double user_s; /* of all runs */
    struct bn_delivery_sum delivery;
    struct bn_busy before;
};

static bool interrupted(void)
{
    return bn_cli_interrupted() != 0;
}

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

static bn_status run_once(struct job *job, struct bn_flamegraph_recorded *out, size_t run, bn_error *err)
{
    bn_recording recording = {0};
    struct bn_process process;
    char text[64];
    if (run > 0) BN_TRY(bn_stacks_add_run(out->stacks, err));
    bn_status status = bn_record_program(&recording, &process, &job->options, job->argv, job->fds, err);
    if (status == BN_OK) {
        put_process(job->processes, &process);
        job->user_s += seconds(process.usage.ru_utime);
        bn_delivery_add(&job->delivery, &recording);
        /* What was chosen for the first run is kept, so that all are recorded alike. */
        job->options.tier = (int)recording.delivery.tier;
        bn_process_describe(text, sizeof text, &process);
        if (process.end != BN_PROCESS_EXITED || process.code != 0)
            bn_report_warning("%.200s %s", job->argv[0], text);
        const struct bn_resolve_options how = {.first_run = run};
        status = bn_flamegraph_resolve(out, &recording, &job->symbol_options, &how, err);
    }
    bn_recording_release(&recording);
    return status;
}

/* Time of which there are no samples, though none were lost: the way of sampling did not see it. */
static void warn_of_gaps(const struct job *job)
{
    const struct bn_delivery *d = &job->delivery.delivery;
    double ran = d->system && d->cpu_known ? (double)d->cpu_ns : job->user_s * 1e9;
    if (d->kind != BN_RECORD_CPU || ran < LEAST_NS || job->delivery.weight >= LEAST_SHARE * ran) return;
    bn_report_warning("only %.0f %% of the processor time was sampled: threads that end before their first "
                      "sample are missing; use a higher --frequency",
                      100 * job->delivery.weight / ran);
}

static bn_status run_all(struct job *job, struct bn_flamegraph_recorded *out, bn_error *err)
{
    char refused[sizeof job->delivery.delivery.refused];
    for (size_t run = 0; run < job->asked->work.runs && !interrupted(); run++) {
        BN_TRY(run_once(job, out, run, err));
        struct bn_delivery *d = &job->delivery.delivery;
        if (run == 0)
            memcpy(refused, d->refused, sizeof refused);
        else
            memcpy(d->refused, refused, sizeof refused);
    }
    bn_flamegraph_warn(&job->delivery.delivery);
    bn_flamegraph_put_others(out->stacks->about, &job->before);
    warn_of_gaps(job);
    return BN_OK;
}

static bn_status put_about(struct job *job, struct bn_flamegraph_recorded *out, bn_error *err)
{
    bn_json *about = out->stacks->about;
    bn_delivery_put(about, &job->delivery);
    bn_stack_quality_put(about, &out->quality, &out->symbols);
    return bn_fingerprint_put(about, err);
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

bn_status bn_flamegraph_record_program(struct bn_flamegraph_recorded *out, const struct bn_args *args,
                                       const char *const *argv, bn_error *err)
{
    struct job job = {.asked = args->fields, .argv = argv};
    int opened = -1;
    *out = (struct bn_flamegraph_recorded){0};
    BN_TRY(bn_flamegraph_read_sampler(&job.options, &job.symbol_options, args, err));
    enum bn_record_kind kind = job.options.kind;
    BN_TRY(choose_fds(&job, &opened, err));
    bn_cli_catch_interrupt();
    job.options.cancelled = interrupted;
    bn_status status =
        bn_stacks_open(&out->stacks, bn_record_kind_unit(kind), bn_record_kind_name(kind), err);
    if (status == BN_OK) {
        begin_about(&job, out->stacks->about);
        status = run_all(&job, out, err);
    }
    if (status == BN_OK) status = put_about(&job, out, err);
    if (opened >= 0) close(opened);
    if (status != BN_OK) bn_flamegraph_recorded_release(out);
    return status;
}
