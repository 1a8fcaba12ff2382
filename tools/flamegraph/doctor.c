/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph doctor: what this machine lets a sampler see. Each way of sampling is really tried; of what
 * is missing it says what is lost by that and which command changes it.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "kernels/kernels.h"
#include "lab/profile/code.h"
#include "lab/sampler/recorder.h"
#include "tools/cli/print_json.h"
#include "tools/flamegraph/flamegraph.h"

#define DOCTOR_SCHEMA "bn.samplers/1"

/* One thing that was looked at. */
struct finding {
    const char *name;
    bool known, good;
    char value[200];
    char lost[160]; /* what is lost when it is not good */
    char mend[200]; /* the command that changes it; "" when none does */
};
#define MAX_FINDINGS 20u

struct doctor {
    struct bn_record_trial trials[BN_RECORD_TIERS], faults;
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
static void want(struct finding *f, bool good, const char *mend, ...)
{
    va_list args;
    f->good = good;
    if (good) return;
    va_start(args, mend);
    vsnprintf(f->mend, sizeof f->mend, mend, args);
    va_end(args);
}

static void lose(struct finding *f, const char *what)
{
    if (!f->good) snprintf(f->lost, sizeof f->lost, "%s", what);
}

/* What counts is whether perf_event_open works; the settings say why it does or does not. */
static void look_at_perf(struct doctor *d)
{
    long long value = 0;
    const struct bn_record_trial *clock = &d->trials[BN_RECORD_CLOCK];
    struct finding *f = add_setting(d, "perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid", &value);
    bool enough = clock->works && clock->system;
    want(f, !f->known || enough || value <= (clock->works ? 1 : 2), "sysctl -w kernel.perf_event_paranoid=%d",
         clock->works ? 1 : 2);
    lose(f, clock->works ? "frames and time of the operating system"
                         : "sampling by the operating system's clock");
    f = add_setting(d, "perf_event_max_sample_rate", "/proc/sys/kernel/perf_event_max_sample_rate", &value);
    want(f, !f->known || value >= 1000, "sysctl -w kernel.perf_event_max_sample_rate=100000");
    lose(f, "samples at the usual 991 a second: the system holds the sampler back");
    f = add_setting(d, "perf_event_mlock_kb", "/proc/sys/kernel/perf_event_mlock_kb", &value);
    want(f, !f->known || value >= 516, "sysctl -w kernel.perf_event_mlock_kb=516");
    lose(f, "room for bursts: rings are smaller, and samples may be lost");
}

static void look_at_limits(struct doctor *d)
{
    struct rlimit limit;
    bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    struct finding *f = add(d, "RLIMIT_NOFILE", known, true);
    if (!known) return;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    snprintf(f->value, sizeof f->value, "%llu", (unsigned long long)limit.rlim_cur);
    want(f, cpus < 1 || limit.rlim_cur >= (rlim_t)cpus + 16, "ulimit -n %ld", cpus + 1024);
    lose(f, "perf events: one file is needed for each processor");
}

static void look_at_filter(struct doctor *d)
{
    char text[64];
    bool known = read_status("Seccomp", text, sizeof text);
    struct finding *f = add(d, "seccomp", known, true);
    snprintf(f->value, sizeof f->value, "%s",
             !known           ? "not in /proc/self/status"
             : text[0] == '0' ? "no filter"
                              : "a filter is active");
    want(f, !known || text[0] == '0' || d->trials[BN_RECORD_CLOCK].works,
         "in a container: --cap-add PERFMON, or a seccomp profile that allows perf_event_open");
    lose(f, "perf events, if it is the filter that forbids them");
}

/* The addresses in /proc/kallsyms are zeros for those who may not see them. */
static bool kernel_names(void)
{
    char line[256];
    return read_line("/proc/kallsyms", line, sizeof line) && strspn(line, "0") < 16 && line[0] != '\0';
}

static void look_at_system_frames(struct doctor *d)
{
    long long value = 0;
    const struct bn_record_trial *clock = &d->trials[BN_RECORD_CLOCK];
    struct finding *f = add(d, "system frames", true, clock->works && clock->system);
    snprintf(f->value, sizeof f->value, "%s",
             f->good                         ? "recorded"
             : clock->system_refused[0] != 0 ? clock->system_refused
                                             : "only perf events have them, which do not work here");
    lose(f, "what the operating system does for a program: page faults, reads, waiting");
    if (!f->good && clock->works) snprintf(f->mend, sizeof f->mend, "sysctl -w kernel.perf_event_paranoid=1");
    f = add_setting(d, "kptr_restrict", "/proc/sys/kernel/kptr_restrict", &value);
    bool names = kernel_names();
    if (f->known)
        snprintf(f->value, sizeof f->value, "%lld; /proc/kallsyms has %s", value,
                 names ? "addresses" : "no addresses for this user");
    want(f, names, "sysctl -w kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
    lose(f, "the names of the operating system's functions");
}

/* ---- this program ---- */

/* Whether the frame above is where the frame pointer says. */
__attribute__((noinline)) static bool frame_below(const void *callers)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    return frame[0] == (uintptr_t)callers && frame[1] == (uintptr_t)__builtin_return_address(0);
}

static void look_at_program(struct doctor *d)
{
    struct bn_codes codes = {0};
    bn_error why = {0};
    bool found = bn_codes_read(&codes, &bn_kernels_ref, NULL, &why) == BN_OK;
    bn_codes_release(&codes);
    struct finding *f = add(d, "symbols", true, found);
    snprintf(f->value, sizeof f->value, "%.199s", found ? "this program has them" : why.msg);
    lose(f, "the names of this program's functions");
    if (!found)
        snprintf(f->mend, sizeof f->mend, "install a bn that is not stripped, or its debugging files");
#if defined(__x86_64__) || defined(__aarch64__)
    bool frames = frame_below(__builtin_frame_address(0));
    f = add(d, "frame pointers", true, frames);
    snprintf(f->value, sizeof f->value, "%s",
             frames
                 ? "this program has them; its libraries mostly lack them, which is seen only when they are "
                   "sampled (--unwind fp)"
                 : "this program lacks them");
    lose(f, "callers, where unwinding tables are missing too, and with --unwind fp");
    if (!frames) snprintf(f->mend, sizeof f->mend, "make CFLAGS='-O2 -g -fno-omit-frame-pointer'");
#endif
}

/* ---- trying ---- */

static bn_status try_all(struct doctor *d, bn_error *err)
{
    struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
    for (int t = 0; t < (int)BN_RECORD_TIERS; t++) {
        options.tier = t;
        BN_TRY(bn_record_try(&d->trials[t], &options, err));
    }
    options.kind = BN_RECORD_FAULTS;
    options.tier = BN_RECORD_CLOCK;
    return bn_record_try(&d->faults, &options, err);
}

static bool any_works(const struct doctor *d)
{
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++)
        if (d->trials[t].works) return true;
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

static void print_trial(const char *name, const struct bn_record_trial *trial)
{
    if (!trial->works)
        printf("%-28s no   %s\n", name, trial->why);
    else if (trial->asked_period_ns > 0 && trial->cpu_ns > 0)
        printf("%-28s yes  %.0f samples a second asked for, %.0f came (%llu in %.0f ms of work)\n", name,
               asked_hz(trial), delivered_hz(trial), (unsigned long long)trial->samples,
               (double)trial->cpu_ns / 1e6);
    else
        printf("%-28s yes  %llu came\n", name, (unsigned long long)trial->samples);
}

static void print_all(const struct doctor *d)
{
    char name[40];
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++) {
        snprintf(name, sizeof name, "sampler %s", bn_record_tier_name((enum bn_record_tier)t));
        print_trial(name, &d->trials[t]);
    }
    print_trial("page faults", &d->faults);
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->list[i];
        printf("%-28s %-4s %s\n", f->name, !f->known ? "?" : f->good ? "ok" : "no", f->value);
        if (f->lost[0] != '\0') printf("%-28s      lost: %s\n", "", f->lost);
        if (f->mend[0] != '\0') printf("%-28s      mend: %s\n", "", f->mend);
    }
}

static void put_trial(bn_json *o, const struct bn_record_trial *trial)
{
    bn_json_put_bool(o, "works", trial->works);
    bn_json_put_object(o, "unavailable");
    if (trial->works && trial->asked_period_ns > 0 && trial->cpu_ns > 0) {
        bn_json_put_number(o, "asked_hz", asked_hz(trial));
        bn_json_put_number(o, "delivered_hz", delivered_hz(trial));
    } else {
        const char *why = trial->works ? "each one is recorded" : trial->why;
        bn_json_put_unavailable(o, "asked_hz", why);
        bn_json_put_unavailable(o, "delivered_hz", why);
    }
    if (trial->works)
        bn_json_put_u64(o, "samples", trial->samples);
    else
        bn_json_put_unavailable(o, "samples", trial->why);
    bn_json_put_bool(o, "system_frames", trial->works && trial->system);
}

static bn_status put_all(const struct doctor *d, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", DOCTOR_SCHEMA);
    bn_json *samplers = bn_json_put_array(doc, "samplers");
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++) {
        bn_json *o = bn_json_add_object(samplers);
        bn_json_put_string(o, "name", bn_record_tier_name((enum bn_record_tier)t));
        put_trial(o, &d->trials[t]);
    }
    put_trial(bn_json_put_object(doc, "page_faults"), &d->faults);
    bn_json *findings = bn_json_put_array(doc, "findings");
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->list[i];
        bn_json *o = bn_json_add_object(findings);
        bn_json_put_string(o, "name", f->name);
        bn_json_put_bool(o, "ok", f->known && f->good);
        if (f->known)
            bn_json_put_string(o, "value", f->value);
        else
            bn_json_put_unavailable(o, "value", f->value);
        if (f->lost[0] != '\0') bn_json_put_string(o, "lost", f->lost);
        if (f->mend[0] != '\0') bn_json_put_string(o, "mend", f->mend);
    }
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_flamegraph_doctor(struct bn_args *args, bn_error *err)
{
    struct doctor d = {0};
    BN_TRY(try_all(&d, err));
    look_at_perf(&d);
    look_at_limits(&d);
    look_at_filter(&d);
    look_at_system_frames(&d);
    look_at_program(&d);
    if (!any_works(&d)) args->exit_code = BN_EXIT_UNSUPPORTED;
    if (args->json) return put_all(&d, err);
    print_all(&d);
    return BN_OK;
}
