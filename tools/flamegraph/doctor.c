/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph doctor: which samplers and counters work on this machine, each tried for some milliseconds, and what
 * limits names.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "lab/host/machine.h"
#include "lab/profile/code.h"
#include "tools/cli/program/doctor.h"
#include "tools/flamegraph/flamegraph.h"

const struct bn_option bn_flamegraph_doctor_options[] = {BN_OPTION_REQUIRE, {0}};

static void put_trial(struct bn_doctor *d, const char *name, const struct bn_record_trial *t,
                      const char *unit)
{
    if (!t->works)
        bn_doctor_put(d, BN_DOCTOR_NOTE, name, t->hint, "%s", t->why);
    else if (t->asked_period_ns > 0 && t->cpu_ns > 0)
        bn_doctor_put(d, BN_DOCTOR_OK, name, NULL, "%.0f of %.0f samples a second (%llu in %.0f ms)",
                      (double)t->samples * 1e9 / (double)t->cpu_ns, 1e9 / (double)t->asked_period_ns,
                      (unsigned long long)t->samples, (double)t->cpu_ns / 1e6);
    else
        bn_doctor_put(d, BN_DOCTOR_OK, name, NULL, "%llu %s", (unsigned long long)t->samples, unit);
}

static bn_status check_samplers(struct bn_doctor *d, bn_error *err)
{
    static const struct {
        const char *name;
        enum bn_record_kind kind;
        enum bn_record_tier tier;
    } ROWS[] = {{"clock", BN_RECORD_CPU, BN_RECORD_CLOCK},
                {"timer", BN_RECORD_CPU, BN_RECORD_TIMER},
                {"timer-wall", BN_RECORD_WALL, BN_RECORD_TIMER}};
    struct bn_record_trial trial, clock = {0};
    size_t n = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
        options.kind = ROWS[i].kind;
        options.tier = (int)ROWS[i].tier;
        BN_TRY(bn_record_try(&trial, &options, err));
        put_trial(d, ROWS[i].name, &trial, "");
        n += trial.works;
        if (i == 0) clock = trial;
    }
    bn_doctor_put(d, n > 0 ? BN_DOCTOR_OK : BN_DOCTOR_FAIL, "samplers", NULL, "%zu of %zu work", n,
                  BN_ARRAY_LEN(ROWS));
    bool system = clock.works && clock.system;
    bn_doctor_put(d, BN_DOCTOR_IF(system), "kernel-frames",
                  clock.works ? "sysctl -w kernel.perf_event_paranoid=1" : NULL, "%s",
                  system        ? "time and frames of the kernel are recorded"
                  : clock.works ? clock.system_refused
                                : "only perf events record them, and they do not work here");
    return BN_OK;
}

static void check_names(struct bn_doctor *d)
{
    struct bn_codes codes = {0};
    bn_error why = {0};
    char line[256] = "";
    /* It shows zeros as addresses to users without permission. */
    bool shown = bn_machine_line("/proc/kallsyms", line, sizeof line) && strspn(line, "0") < 16;
    bn_doctor_put(d, BN_DOCTOR_IF(shown), "kernel-names",
                  "sysctl -w kernel.kptr_restrict=0 kernel.perf_event_paranoid=1", "/proc/kallsyms has %s",
                  shown ? "addresses" : "no addresses for this user");
    bool found = bn_codes_read(&codes, &bn_kernels_ref, NULL, &why) == BN_OK;
    bn_doctor_put(d, BN_DOCTOR_IF(found), "symbols", "install a bn that is not stripped, or its debug files",
                  "%s", found ? "this program has them" : why.msg);
}

bn_status bn_flamegraph_doctor(struct bn_args *args, bn_error *err)
{
    struct bn_doctor d;
    bn_doctor_begin(&d, args, "samplers");
    bn_status status = check_samplers(&d, err);
    for (unsigned e = 0; e < BN_PERF_EVENTS && status == BN_OK; e++) {
        struct bn_record_trial trial;
        char name[40];
        bn_perf_event_try(&trial, (enum bn_perf_event)e);
        snprintf(name, sizeof name, "count-%s", bn_perf_events[e].name);
        put_trial(&d, name, &trial, bn_perf_events[e].unit);
    }
    if (status == BN_OK) check_names(&d);
    return bn_doctor_end(&d, status, err);
}
