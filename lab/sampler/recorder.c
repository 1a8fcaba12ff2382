/* SPDX-License-Identifier: MIT
 *
 * Chooses a sampler: each is tried in a short recording of this thread at work, and the first one that
 * takes samples is used. One that opens and stays silent is not.
 */
#define _GNU_SOURCE
#include "lab/sampler/recorder.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/host/machine.h"
#include "lab/sampler/tier.h"

/* Periods are at most this long, so that a trial is short however rare samples are to be. */
#define TRIAL_PERIOD_NS UINT64_C(1009000)
/* Of work, however short the period is: timers expire at ticks, which are up to 10 ms apart. One sample is
 * enough; while none comes, the trial is repeated with ten times the work. */
#define TRIAL_NS UINT64_C(20000000)
#define TRIAL_MOST_NS UINT64_C(2000000000) /* timers of a busy machine may be silent for a tenth of it */

static const struct {
    const struct bn_record_ops *ops;
    unsigned kinds; /* that it records: bits, 1u << enum bn_record_kind */
} TIERS[] = {
    {&bn_record_perf, 1u << BN_RECORD_CPU},
    {&bn_record_timers, 1u << BN_RECORD_CPU | 1u << BN_RECORD_WALL},
};
_Static_assert(BN_ARRAY_LEN(TIERS) == BN_RECORD_TIERS, "a row for each");

struct bn_recorder {
    const struct bn_record_ops *ops;
    void *state;
    struct bn_record_options options;
    bn_recording recording; /* what is known before it is stopped */
    uint64_t began_ns;
    bool self; /* it records this process */
};

/* ---- trials ---- */

static bn_status record_work(struct bn_record_trial *out, const struct bn_record_ops *ops,
                             const struct bn_record_options *options, uint64_t ns, bn_error *err)
{
    bn_recording recording = {0};
    void *state = NULL;
    bn_status status = ops->open(&state, options, NULL, &recording, err);
    if (status == BN_OK) {
        uint64_t begin = bn_clock_thread_cpu_ns();
        while (bn_clock_thread_cpu_ns() - begin < ns)
            for (volatile unsigned i = 0; i < 20000; i++) {
            }
        out->cpu_ns += bn_clock_thread_cpu_ns() - begin;
        status = ops->stop(state, err);
        ops->close(state);
    }
    out->samples = recording.n_samples;
    out->system = recording.delivery.system;
    memcpy(out->system_refused, recording.delivery.system_refused, sizeof out->system_refused);
    bn_recording_release(&recording);
    return status;
}

bn_status bn_record_try(struct bn_record_trial *out, const struct bn_record_options *options, bn_error *err)
{
    *out = (struct bn_record_trial){0};
    const struct bn_record_ops *ops = TIERS[options->tier].ops;
    struct bn_record_options own = *options;
    bn_error why = {0};
    if (!(TIERS[options->tier].kinds >> options->kind & 1)) {
        snprintf(out->why, sizeof out->why, "it does not record %s", bn_record_kind_name(options->kind));
        return BN_OK;
    }
    if (own.period_ns > TRIAL_PERIOD_NS) own.period_ns = TRIAL_PERIOD_NS;
    out->asked_period_ns = own.period_ns;
    bn_status status = record_work(out, ops, &own, TRIAL_NS, &why);
    for (uint64_t ns = 10 * TRIAL_NS; status == BN_OK && out->samples == 0 && ns <= TRIAL_MOST_NS; ns *= 10)
        status = record_work(out, ops, &own, ns, &why);
    out->works = status == BN_OK && out->samples > 0;
    if (status != BN_OK) {
        snprintf(out->why, sizeof out->why, "%.199s", why.msg);
        snprintf(out->hint, sizeof out->hint, "%s", why.hint);
    } else if (!out->works) {
        snprintf(out->why, sizeof out->why, "it opens, but took no sample in %.0f ms of work",
                 (double)out->cpu_ns / 1e6);
    }
    return status == BN_ERR_UNSUPPORTED || status == BN_OK ? BN_OK : bn_fail(err, status, "%s", why.msg);
}

/* ---- the choice ---- */

/* Of one way, why; of all of them only that, since the reasons do not fit: bn_record_try has each. */
static bn_status nothing_works(const struct bn_delivery *delivery, int only, bn_error *err)
{
    if (only >= 0)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "%s: %s", bn_record_tier_name((enum bn_record_tier)only),
                       delivery->refused[only]);
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "no sampler works: clock and timer are unavailable"), err,
                   "bn-flamegraph doctor shows why");
}

static void note_refusal(struct bn_delivery *delivery, int tier, const char *why, const char *hint)
{
    snprintf(delivery->refused[tier], sizeof delivery->refused[tier], "%.120s%s%.75s", why,
             hint[0] != '\0' ? ": " : "", hint);
}

/* Opens the first way that works, for a program or, when start is NULL, for this process; notes why the others
 * do not work. */
static bn_status climb(bn_recorder *r, struct bn_record_start *start, bn_error *err)
{
    struct bn_delivery *delivery = &r->recording.delivery;
    int asked = r->options.tier, works = -1;
    for (int t = asked < 0 ? 0 : asked; t < (asked < 0 ? (int)BN_RECORD_TIERS : asked + 1); t++) {
        struct bn_record_trial trial;
        bn_error why = {0};
        r->options.tier = t;
        BN_TRY(bn_record_try(&trial, &r->options, err));
        note_refusal(delivery, t, trial.why, trial.hint);
        if (!trial.works) continue;
        r->ops = TIERS[t].ops;
        r->began_ns = bn_clock_ns();
        bn_status status = r->ops->open(&r->state, &r->options, start, &r->recording, &why);
        if (status == BN_ERR_UNSUPPORTED) {
            note_refusal(delivery, t, why.msg, why.hint);
            if (works < 0) works = t;
            continue;
        }
        if (status != BN_OK && err != NULL && err->code == BN_OK) *err = why;
        delivery->tier = (enum bn_record_tier)t;
        return status;
    }
    /* A way that works here but not for this program: no trial shows why. */
    return nothing_works(delivery, asked >= 0 ? asked : works, err);
}

static bn_status make(bn_recorder **out, const struct bn_record_options *options, bn_error *err)
{
    bn_recorder *r = bn_alloc(1, sizeof *r);
    if (r == NULL) return bn_nomem(err);
    r->options = *options;
    r->recording.delivery.kind = options->kind;
    r->recording.delivery.asked_period_ns = options->period_ns;
    r->recording.delivery.dump_bytes = options->dump_bytes;
    *out = r;
    return BN_OK;
}

void bn_recorder_close(bn_recorder *recorder)
{
    if (recorder == NULL) return;
    if (recorder->state != NULL) recorder->ops->close(recorder->state);
    bn_recording_release(&recorder->recording);
    bn_free(recorder);
}

/* ---- this process ---- */

bn_status bn_recorder_open(bn_recorder **out, const struct bn_record_options *options, bn_error *err)
{
    bn_recorder *r = NULL;
    BN_TRY(make(&r, options, err));
    r->self = true;
    uint32_t pid = (uint32_t)getpid();
    char name[64] = "";
    (void)bn_machine_line("/proc/self/comm", name, sizeof name);
    bn_status status = bn_recording_read_maps(&r->recording, err);
    if (status == BN_OK && name[0] != '\0')
        status = bn_recording_add_thread(&r->recording, bn_clock_ns(), pid, pid, name, err);
    if (status == BN_OK) status = climb(r, NULL, err);
    if (status != BN_OK) {
        bn_recorder_close(r);
        return status;
    }
    *out = r;
    return BN_OK;
}

bn_status bn_recorder_stop(bn_recorder *r, bn_recording *out, bn_error *err)
{
    *out = (bn_recording){0};
    bn_status status = r->ops->stop(r->state, err);
    r->recording.delivery.wall_ns = bn_clock_ns() - r->began_ns;
    if (status == BN_OK && r->self) status = bn_recording_read_maps(&r->recording, err);
    if (status != BN_OK) return status;
    *out = r->recording;
    r->recording = (bn_recording){0};
    bn_recording_finish(out);
    return BN_OK;
}

/* ---- a program ---- */

bn_status bn_record_program(bn_recording *out, struct bn_process *process,
                            const struct bn_record_options *options, const char *const *argv,
                            const int fds[3], bn_error *err)
{
    struct bn_record_start start = {.argv = argv, .fds = fds};
    bn_recorder *r = NULL;
    *out = (bn_recording){0};
    *process = (struct bn_process){0};
    BN_TRY(make(&r, options, err));
    bn_status status = climb(r, &start, err);
    if (status == BN_OK)
        status =
            bn_process_await(process, start.pid, r->began_ns, options->timeout_ns, options->cancelled, err);
    if (status == BN_OK) status = bn_recorder_stop(r, out, err);
    bn_recorder_close(r);
    return status;
}
