/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph doctor: which samplers work on this machine. Each is tried (lab/sampler/sources.h);
 * settings that limit sampling are listed with what is lost and the command that changes them.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "kernels/kernels.h"
#include "lab/profile/code.h"
#include "lab/sampler/sources.h"
#include "tools/cli/print_json.h"
#include "tools/cli/program/help.h"
#include "tools/flamegraph/flamegraph.h"

#define DOCTOR_SCHEMA "bn.samplers/1"

#define COLUMNS 80u
#define NAME_COLUMNS 33u

/* A setting or property that affects sampling. */
struct finding {
    const char *name;
    bool known, good;
    char value[200];
    char lost[160]; /* what is lost when it is not good */
    char fix[200];  /* the command that changes it; "" when none does */
};
#define MAX_FINDINGS 20u

struct doctor {
    struct bn_sampling_sources sources;
    struct finding list[MAX_FINDINGS];
    size_t n;
};

/* ---- reading ---- */

static bool read_line(const char *path, char *line, size_t room)
{
    FILE *f = fopen(path, "re");
    line[0] = '\0';
    if (f == NULL) return false;
    bool ok = fgets(line, (int)room, f) != NULL;
    fclose(f);
    line[strcspn(line, "\n")] = '\0';
    return ok;
}

static bool read_number(const char *path, long long *value)
{
    char line[64], *end;
    if (!read_line(path, line, sizeof line)) return false;
    *value = strtoll(line, &end, 10);
    return end != line;
}

/* A line "Name:\tvalue" of /proc/self/status. */
static bool read_status(const char *name, char *value, size_t room)
{
    char line[256];
    size_t n = strlen(name);
    bool found = false;
    FILE *f = fopen("/proc/self/status", "re");
    if (f == NULL) return false;
    while (!found && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            const char *at = line + n + 1 + strspn(line + n + 1, " \t");
            snprintf(value, room, "%.*s", (int)strcspn(at, "\n"), at);
            found = true;
        }
    fclose(f);
    return found;
}

/* ---- findings ---- */

static struct finding *add(struct doctor *d, const char *name, bool known, bool good)
{
    struct finding *f = &d->list[d->n < MAX_FINDINGS - 1 ? d->n++ : d->n];
    *f = (struct finding){.name = name, .known = known, .good = good};
    return f;
}

static struct finding *add_setting(struct doctor *d, const char *name, const char *path, long long *value)
{
    bool known = read_number(path, value);
    struct finding *f = add(d, name, known, true);
    if (known)
        snprintf(f->value, sizeof f->value, "%lld", *value);
    else
        snprintf(f->value, sizeof f->value, "%s cannot be read", path);
    return f;
}

BN_PRINTF(3, 4)
static void want(struct finding *f, bool good, const char *fix, ...)
{
    va_list args;
    f->good = good;
    if (good) return;
    va_start(args, fix);
    vsnprintf(f->fix, sizeof f->fix, fix, args);
    va_end(args);
}

static void lose(struct finding *f, const char *what)
{
    if (!f->good) snprintf(f->lost, sizeof f->lost, "%s", what);
}

/* Whether perf_event_open works decides; settings explain why. */
static void check_perf(struct doctor *d)
{
    long long value = 0;
    const struct bn_record_trial *clock = &d->sources.tiers[BN_RECORD_CLOCK];
    struct finding *f = add_setting(d, "perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid", &value);
    bool enough = clock->works && clock->system;
    want(f, !f->known || enough || value <= (clock->works ? 1 : 2), "sysctl -w kernel.perf_event_paranoid=%d",
         clock->works ? 1 : 2);
    lose(f, clock->works ? "time and frames of the kernel" : "sampling by perf events");
    f = add_setting(d, "perf_event_max_sample_rate", "/proc/sys/kernel/perf_event_max_sample_rate", &value);
    want(f, !f->known || value >= 1000, "sysctl -w kernel.perf_event_max_sample_rate=100000");
    lose(f, "samples: the default rate of 991 Hz is throttled");
    f = add_setting(d, "perf_event_mlock_kb", "/proc/sys/kernel/perf_event_mlock_kb", &value);
    want(f, !f->known || value >= 516, "sysctl -w kernel.perf_event_mlock_kb=516");
    lose(f, "samples in bursts: the kernel's buffers are small");
}

static void check_limits(struct doctor *d)
{
    struct rlimit limit;
    bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    struct finding *f = add(d, "RLIMIT_NOFILE", known, true);
    if (!known) return;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    snprintf(f->value, sizeof f->value, "%llu", (unsigned long long)limit.rlim_cur);
    want(f, cpus < 1 || limit.rlim_cur >= (rlim_t)cpus + 16, "ulimit -n %ld", cpus + 1024);
    lose(f, "perf events: each processor needs an open file");
}

static void check_filter(struct doctor *d)
{
    char text[64];
    bool known = read_status("Seccomp", text, sizeof text);
    struct finding *f = add(d, "seccomp", known, true);
    snprintf(f->value, sizeof f->value, "%s",
             !known           ? "not in /proc/self/status"
             : text[0] == '0' ? "no filter"
                              : "a filter is active");
    want(f, !known || text[0] == '0' || d->sources.tiers[BN_RECORD_CLOCK].works,
         "in a container: --cap-add PERFMON, or a seccomp profile that allows perf_event_open");
    lose(f, "perf events, if the filter forbids them");
}

/* /proc/kallsyms shows zeros as addresses to users without permission. */
static bool kernel_names(void)
{
    char line[256];
    return read_line("/proc/kallsyms", line, sizeof line) && strspn(line, "0") < 16 && line[0] != '\0';
}

static void check_system_frames(struct doctor *d)
{
    long long value = 0;
    const struct bn_record_trial *clock = &d->sources.tiers[BN_RECORD_CLOCK];
    struct finding *f = add(d, "system frames", true, clock->works && clock->system);
    snprintf(f->value, sizeof f->value, "%s",
             f->good                         ? "recorded"
             : clock->system_refused[0] != 0 ? clock->system_refused
                                             : "only perf events record them, and they do not work here");
    lose(f, "what the kernel does for a program: page faults, reads, waiting");
    if (!f->good && clock->works) snprintf(f->fix, sizeof f->fix, "sysctl -w kernel.perf_event_paranoid=1");
    f = add_setting(d, "kptr_restrict", "/proc/sys/kernel/kptr_restrict", &value);
    bool names = kernel_names();
    if (f->known)
        snprintf(f->value, sizeof f->value, "%lld; /proc/kallsyms has %s", value,
                 names ? "addresses" : "no addresses for this user");
    want(f, names, "sysctl -w kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
    lose(f, "names of kernel functions");
}

/* ---- this program ---- */

/* Whether the frame pointer leads to the calling frame. */
__attribute__((noinline)) static bool frame_below(const void *callers)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    return frame[0] == (uintptr_t)callers && frame[1] == (uintptr_t)__builtin_return_address(0);
}

static void check_program(struct doctor *d)
{
    struct bn_codes codes = {0};
    bn_error why = {0};
    bool found = bn_codes_read(&codes, &bn_kernels_ref, NULL, &why) == BN_OK;
    bn_codes_release(&codes);
    struct finding *f = add(d, "symbols", true, found);
    snprintf(f->value, sizeof f->value, "%.199s", found ? "this program has them" : why.msg);
    lose(f, "names of this program's functions");
    if (!found) snprintf(f->fix, sizeof f->fix, "install a bn that is not stripped, or its debug files");
#if defined(__x86_64__) || defined(__aarch64__)
    bool frames = frame_below(__builtin_frame_address(0));
    f = add(d, "frame pointers", true, frames);
    snprintf(f->value, sizeof f->value, "%s",
             frames ? "this program has them; its libraries mostly lack them, which shows in samples of them "
                      "(--unwind fp)"
                    : "this program lacks them");
    lose(f, "callers, where unwinding tables are missing too, and with --unwind fp");
    if (!frames) snprintf(f->fix, sizeof f->fix, "make CFLAGS='-O2 -g -fno-omit-frame-pointer'");
#endif
}

static bool any_works(const struct doctor *d)
{
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++)
        if (d->sources.tiers[t].works) return true;
    return false;
}

/* ---- showing ---- */

static double asked_hz(const struct bn_record_trial *trial)
{
    return 1e9 / (double)trial->asked_period_ns;
}

static double delivered_hz(const struct bn_record_trial *trial)
{
    return (double)trial->samples * 1e9 / (double)trial->cpu_ns;
}

static void print_text(const char *label, const char *text)
{
    char line[240];
    if (text[0] == '\0') return;
    snprintf(line, sizeof line, "%s%.220s", label, text);
    bn_help_wrap(stdout, line, NAME_COLUMNS, NAME_COLUMNS, COLUMNS);
}

static void print_line(const char *name, const char *mark, const char *text)
{
    printf("%-27s %-4s ", name, mark);
    print_text("", text);
}

static void print_more(const char *label, const char *text)
{
    if (text[0] == '\0') return;
    printf("%-*s", (int)NAME_COLUMNS, "");
    print_text(label, text);
}

static void print_trial(const char *name, const struct bn_record_trial *trial, const char *unit)
{
    char text[160];
    if (trial->asked_period_ns > 0 && trial->cpu_ns > 0)
        snprintf(text, sizeof text, "%.0f of %.0f samples a second (%llu in %.0f ms)", delivered_hz(trial),
                 asked_hz(trial), (unsigned long long)trial->samples, (double)trial->cpu_ns / 1e6);
    else
        snprintf(text, sizeof text, "%llu %s", (unsigned long long)trial->samples, unit);
    print_line(name, trial->works ? "yes" : "no", trial->works ? text : trial->why);
    if (!trial->works) print_more("fix: ", trial->hint);
}

static void print_all(const struct doctor *d)
{
    char name[40];
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++) {
        snprintf(name, sizeof name, "sampler %s", bn_record_tier_name((enum bn_record_tier)t));
        print_trial(name, &d->sources.tiers[t], "samples");
    }
    print_trial("sampler timer, wall clock", &d->sources.wall, "samples");
    print_trial("sampler clock, page faults", &d->sources.faults, "samples");
    for (unsigned e = 0; e < BN_PERF_EVENTS; e++) {
        snprintf(name, sizeof name, "counter %s", bn_perf_event_name((enum bn_perf_event)e));
        print_trial(name, &d->sources.events[e], bn_perf_event_unit((enum bn_perf_event)e));
    }
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->list[i];
        print_line(f->name, !f->known ? "?" : f->good ? "ok" : "no", f->value);
        print_more("lost: ", f->lost);
        print_more("fix: ", f->fix);
    }
}

/* A number, or null with the reason why the trial has none. */
static void put_hz(bn_json *o, const char *name, const struct bn_record_trial *trial, double hz)
{
    bool known = trial->works && trial->asked_period_ns > 0 && trial->cpu_ns > 0;
    bn_json_put_finite(o, name, known ? hz : (double)NAN,
                       trial->works ? "each event is recorded" : trial->why);
}

static void put_count(bn_json *o, const struct bn_record_trial *trial)
{
    if (trial->works)
        bn_json_put_u64(o, "samples", trial->samples);
    else
        bn_json_put_unavailable(o, "samples", trial->why);
}

static void put_trial(bn_json *o, const struct bn_record_trial *trial)
{
    bn_json_put_bool(o, "works", trial->works);
    bn_json_put_object(o, "unavailable");
    put_hz(o, "asked_hz", trial, asked_hz(trial));
    put_hz(o, "delivered_hz", trial, delivered_hz(trial));
    put_count(o, trial);
    bn_json_put_bool(o, "system_frames", trial->works && trial->system);
    if (trial->hint[0] != '\0') bn_json_put_string(o, "fix", trial->hint);
}

static void put_event(bn_json *list, enum bn_perf_event event, const struct bn_record_trial *trial)
{
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "name", bn_perf_event_name(event));
    bn_json_put_bool(o, "works", trial->works);
    put_count(o, trial);
    if (trial->hint[0] != '\0') bn_json_put_string(o, "fix", trial->hint);
}

static void put_finding(bn_json *list, const struct finding *f)
{
    bn_json *o = bn_json_add_object(list);
    bn_json_put_string(o, "name", f->name);
    bn_json_put_bool(o, "ok", f->known && f->good);
    if (f->known)
        bn_json_put_string(o, "value", f->value);
    else
        bn_json_put_unavailable(o, "value", f->value);
    if (f->lost[0] != '\0') bn_json_put_string(o, "lost", f->lost);
    if (f->fix[0] != '\0') bn_json_put_string(o, "fix", f->fix);
}

static bn_status put_all(const struct doctor *d, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", DOCTOR_SCHEMA);
    bn_json *samplers = bn_json_put_array(doc, "samplers");
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++) {
        bn_json *o = bn_json_add_object(samplers);
        bn_json_put_string(o, "name", bn_record_tier_name((enum bn_record_tier)t));
        put_trial(o, &d->sources.tiers[t]);
    }
    put_trial(bn_json_put_object(doc, "page_faults"), &d->sources.faults);
    put_trial(bn_json_put_object(doc, "wall_clock"), &d->sources.wall);
    bn_json *events = bn_json_put_array(doc, "events");
    for (unsigned e = 0; e < BN_PERF_EVENTS; e++)
        put_event(events, (enum bn_perf_event)e, &d->sources.events[e]);
    bn_json *findings = bn_json_put_array(doc, "findings");
    for (size_t i = 0; i < d->n; i++)
        put_finding(findings, &d->list[i]);
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_flamegraph_doctor(struct bn_args *args, bn_error *err)
{
    struct doctor d = {0};
    BN_TRY(bn_sampling_sources(&d.sources, err));
    check_perf(&d);
    check_limits(&d);
    check_filter(&d);
    check_system_frames(&d);
    check_program(&d);
    if (!any_works(&d)) args->exit_code = BN_EXIT_UNSUPPORTED;
    if (args->json) return put_all(&d, err);
    print_all(&d);
    return BN_OK;
}
