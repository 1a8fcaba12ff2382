/* SPDX-License-Identifier: MIT
 *
 * See recording.h: what was asked of a sampler and what came, as a member of a document.
 */
#include <string.h>

#include "base/error.h"
#include "lab/sampler/recording.h"

void bn_delivery_add(struct bn_delivery_sum *sum, const bn_recording *recording)
{
    struct bn_delivery before = sum->delivery;
    bool first = sum->recordings == 0;
    sum->delivery = recording->delivery;
    sum->recordings++;
    sum->samples += recording->n_samples;
    for (size_t i = 0; i < recording->n_samples; i++)
        sum->weight += (double)recording->samples[i].weight;
    if (first) return;
    if (sum->delivery.note[0] == '\0') memcpy(sum->delivery.note, before.note, sizeof before.note);
    sum->delivery.lost += before.lost;
    sum->delivery.throttled += before.throttled;
    sum->delivery.wall_ns += before.wall_ns;
    sum->delivery.cpu_ns += before.cpu_ns;
    sum->delivery.cpu_known = sum->delivery.cpu_known && before.cpu_known;
}

/* Why what was delivered cannot be held against what was asked for; NULL when it can. */
static const char *why_no_rate(const struct bn_delivery_sum *sum)
{
    const struct bn_delivery *d = &sum->delivery;
    if (d->kind == BN_RECORD_FAULTS) return "each one is recorded";
    if (d->kind == BN_RECORD_WALL) return "threads that wait are sampled too";
    if (!d->cpu_known) return "the time of the recorded threads is not known";
    if (d->cpu_ns == 0) return "nothing ran";
    return sum->samples == 0 ? "there are no samples" : NULL;
}

static void put_rates(bn_json *o, const struct bn_delivery_sum *sum)
{
    const struct bn_delivery *d = &sum->delivery;
    if (d->asked_period_ns > 0)
        bn_json_put_u64(o, "asked_period_ns", d->asked_period_ns);
    else
        bn_json_put_unavailable(o, "asked_period_ns", "each one is recorded");
    if (d->period_ns > 0)
        bn_json_put_u64(o, "period_ns", d->period_ns);
    else
        bn_json_put_unavailable(o, "period_ns", "it is not the same for each sample");
    if (d->cpu_known)
        bn_json_put_u64(o, "cpu_ns", d->cpu_ns);
    else
        bn_json_put_unavailable(o, "cpu_ns", "the time of the recorded threads is not known");
    const char *why = why_no_rate(sum);
    if (why == NULL) {
        /* By all of their time, the system's part too, whether that is sampled or not. */
        bn_json_put_number(o, "delivered_period_ns", (double)d->cpu_ns / (double)sum->samples);
        bn_json_put_number(o, "delivered_share", sum->weight / (double)d->cpu_ns);
    } else {
        bn_json_put_unavailable(o, "delivered_period_ns", why);
        bn_json_put_unavailable(o, "delivered_share", why);
    }
}

void bn_delivery_put(bn_json *document, const struct bn_delivery_sum *sum)
{
    const struct bn_delivery *d = &sum->delivery;
    bn_json *o = bn_json_put_object(document, "sampler");
    bn_json_put_object(o, "unavailable");
    bn_json_put_string(o, "tier", bn_record_tier_name(d->tier));
    bn_json_put_string(o, "kind", bn_record_kind_name(d->kind));
    put_rates(o, sum);
    bn_json_put_u64(o, "samples", sum->samples);
    bn_json_put_number(o, "weight", sum->weight);
    bn_json_put_u64(o, "lost", d->lost);
    bn_json_put_u64(o, "throttled", d->throttled);
    bn_json_put_u64(o, "wall_ns", d->wall_ns);
    bn_json_put_u64(o, "dump_bytes", d->dump_bytes);
    bn_json_put_bool(o, "system", d->system);
    if (d->system_refused[0] != '\0') bn_json_put_string(o, "system_refused", d->system_refused);
    if (d->note[0] != '\0') bn_json_put_string(o, "note", d->note);
    bn_json *refused = bn_json_put_object(o, "refused");
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++)
        if (d->refused[t][0] != '\0')
            bn_json_put_string(refused, bn_record_tier_name((enum bn_record_tier)t), d->refused[t]);
}

void bn_recording_put(bn_json *document, const bn_recording *recording)
{
    struct bn_delivery_sum sum = {0};
    bn_delivery_add(&sum, recording);
    bn_delivery_put(document, &sum);
}
