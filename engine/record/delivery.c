/* SPDX-License-Identifier: MIT
 *
 * See recording.h: what was asked of a sampler and what came, as a member of a document.
 */
#include "base/error.h"
#include "record/recording.h"

static void put_rates(bn_json *o, const bn_recording *recording, double weight)
{
    const struct bn_delivery *d = &recording->delivery;
    bool waits = d->kind == BN_RECORD_WALL;
    if (d->asked_period_ns > 0) {
        bn_json_put_u64(o, "asked_period_ns", d->asked_period_ns);
        bn_json_put_number(o, "asked_hz", 1e9 / (double)d->asked_period_ns);
    } else {
        bn_json_put_unavailable(o, "asked_period_ns", "each one is recorded");
        bn_json_put_unavailable(o, "asked_hz", "each one is recorded");
    }
    if (d->cpu_known)
        bn_json_put_u64(o, "cpu_ns", d->cpu_ns);
    else
        bn_json_put_unavailable(o, "cpu_ns", "the time of the recorded threads is not known");
    const char *why = d->kind == BN_RECORD_FAULTS ? "each one is recorded"
                      : waits                     ? "threads that wait are sampled too"
                      : !d->cpu_known             ? "the time of the recorded threads is not known"
                      : d->cpu_ns == 0            ? "nothing ran"
                                                  : NULL;
    if (why == NULL) {
        /* Of a second on a processor; without the system's part, less than was asked for is all there is. */
        bn_json_put_number(o, "delivered_hz", (double)recording->n_samples * 1e9 / (double)d->cpu_ns);
        bn_json_put_number(o, "delivered_share", weight / (double)d->cpu_ns);
    } else {
        bn_json_put_unavailable(o, "delivered_hz", why);
        bn_json_put_unavailable(o, "delivered_share", why);
    }
}

void bn_recording_put(bn_json *document, const bn_recording *recording)
{
    const struct bn_delivery *d = &recording->delivery;
    double weight = 0;
    for (size_t i = 0; i < recording->n_samples; i++)
        weight += (double)recording->samples[i].weight;
    bn_json *o = bn_json_put_object(document, "sampler");
    bn_json_put_object(o, "unavailable");
    bn_json_put_string(o, "tier", bn_record_tier_name(d->tier));
    bn_json_put_string(o, "kind", bn_record_kind_name(d->kind));
    put_rates(o, recording, weight);
    if (d->period_ns > 0)
        bn_json_put_u64(o, "period_ns", d->period_ns);
    else
        bn_json_put_unavailable(o, "period_ns", "it is not the same for each sample");
    bn_json_put_u64(o, "samples", recording->n_samples);
    bn_json_put_number(o, "weight", weight);
    bn_json_put_u64(o, "lost", d->lost);
    bn_json_put_u64(o, "throttled", d->throttled);
    bn_json_put_u64(o, "wall_ns", d->wall_ns);
    bn_json_put_bool(o, "system", d->system);
    if (d->system_refused[0] != '\0') bn_json_put_string(o, "system_refused", d->system_refused);
    bn_json_put_u64(o, "dump_bytes", d->dump_bytes);
    bn_json *refused = bn_json_put_object(o, "refused");
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++)
        if (d->refused[t][0] != '\0')
            bn_json_put_string(refused, bn_record_tier_name((enum bn_record_tier)t), d->refused[t]);
}
