/* SPDX-License-Identifier: MIT
 *
 * A recording in memory: samples, mappings and names of threads, sorted at its end; and what was requested
 * of the sampler and delivered, as members of a document.
 */
#include "lab/sampler/recording.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/kit/order.h"
#include "lab/kit/put_counts.h"

const char *bn_record_tier_name(enum bn_record_tier tier)
{
    static const char *const NAMES[] = {"clock", "timer"};
    _Static_assert(BN_ARRAY_LEN(NAMES) == BN_RECORD_TIERS, "a name for each");
    return (unsigned)tier < BN_RECORD_TIERS ? NAMES[tier] : "none";
}

const char *bn_record_kind_name(enum bn_record_kind kind)
{
    static const char *const NAMES[] = {"cpu", "wall"};
    _Static_assert(BN_ARRAY_LEN(NAMES) == BN_RECORD_KINDS, "a name for each");
    return (unsigned)kind < BN_RECORD_KINDS ? NAMES[kind] : "unknown";
}

void bn_recording_release(bn_recording *recording)
{
    for (size_t i = 0; i < recording->n_mappings; i++)
        bn_free(recording->mappings[i].path);
    bn_free(recording->samples);
    bn_free(recording->addresses);
    bn_free(recording->dumps);
    bn_free(recording->registers);
    bn_free(recording->mappings);
    bn_free(recording->threads);
    *recording = (bn_recording){0};
}

bn_status bn_recording_add_sample(bn_recording *recording, const struct bn_sample *sample,
                                  const uint64_t *chain, const void *dump, const uint64_t *registers,
                                  bn_error *err)
{
    bn_recording *r = recording;
    struct bn_sample own = *sample;
    if (r->n_samples == BN_RECORDING_MAX_SAMPLES)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u samples", BN_RECORDING_MAX_SAMPLES);
    if (own.n_chain > BN_RECORDING_MAX_CHAIN) {
        own.n_chain = BN_RECORDING_MAX_CHAIN;
        own.flags |= BN_SAMPLE_CUT;
    }
    if (dump == NULL || registers == NULL || r->n_dumps + own.n_dump > BN_RECORDING_MAX_DUMPS) own.n_dump = 0;
    BN_TRY(bn_array_grow(&r->samples, &r->samples_room, r->n_samples + 1, sizeof *r->samples, err));
    BN_TRY(bn_array_grow(&r->addresses, &r->addresses_room, r->n_addresses + own.n_chain,
                         sizeof *r->addresses, err));
    own.chain = r->n_addresses;
    own.dump = r->n_dumps;
    own.registers = r->n_registers;
    if (own.n_dump > 0) {
        BN_TRY(bn_array_grow(&r->dumps, &r->dumps_room, r->n_dumps + own.n_dump, 1, err));
        BN_TRY(bn_array_grow(&r->registers, &r->registers_room, r->n_registers + BN_RECORD_REGISTERS,
                             sizeof *r->registers, err));
        memcpy(r->dumps + r->n_dumps, dump, own.n_dump);
        memcpy(r->registers + r->n_registers, registers, BN_RECORD_REGISTERS * sizeof *registers);
        r->n_dumps += own.n_dump;
        r->n_registers += BN_RECORD_REGISTERS;
    }
    if (own.n_chain > 0) memcpy(r->addresses + r->n_addresses, chain, own.n_chain * sizeof *chain);
    r->n_addresses += own.n_chain;
    r->samples[r->n_samples++] = own;
    return BN_OK;
}

bn_status bn_recording_add_mapping(bn_recording *recording, const struct bn_mapping *mapping,
                                   const char *path, bn_error *err)
{
    struct bn_mapping own = *mapping;
    if (recording->n_mappings == BN_RECORDING_MAX_MAPPINGS) {
        char *note = recording->delivery.note;
        if (note[0] == '\0')
            snprintf(note, sizeof recording->delivery.note, "more than %u files and memories with code",
                     BN_RECORDING_MAX_MAPPINGS);
        return BN_OK;
    }
    BN_TRY(bn_array_grow(&recording->mappings, &recording->mappings_room, recording->n_mappings + 1,
                         sizeof *recording->mappings, err));
    own.path = bn_strndup(path, strlen(path));
    if (own.path == NULL) return bn_nomem(err);
    recording->mappings[recording->n_mappings++] = own;
    return BN_OK;
}

bn_status bn_recording_add_thread(bn_recording *recording, uint64_t time_ns, uint32_t pid, uint32_t tid,
                                  const char *name, bn_error *err)
{
    struct bn_thread_name own = {.time_ns = time_ns, .pid = pid, .tid = tid};
    BN_TRY(bn_array_grow(&recording->threads, &recording->threads_room, recording->n_threads + 1,
                         sizeof *recording->threads, err));
    snprintf(own.name, sizeof own.name, "%s", name);
    recording->threads[recording->n_threads++] = own;
    return BN_OK;
}

/* ---- the order of time ---- */

static int samples_by_time(const void *a, const void *b)
{
    const struct bn_sample *x = a, *y = b;
    int c = bn_compare_u64(x->time_ns, y->time_ns);
    if (c == 0) c = bn_compare_u64(x->tid, y->tid);
    return c != 0 ? c : bn_compare_u64(x->chain, y->chain);
}

/* By process, then by time. */
static int mappings_by_time(const void *a, const void *b)
{
    const struct bn_mapping *x = a, *y = b;
    int c = bn_compare_u64(x->pid, y->pid);
    if (c == 0) c = bn_compare_u64(x->time_ns, y->time_ns);
    return c != 0 ? c : bn_compare_u64(x->start, y->start);
}

int bn_recording_name_order(const void *a, const void *b)
{
    const struct bn_thread_name *x = a, *y = b;
    int c = bn_compare_u64(x->pid, y->pid);
    if (c == 0) c = bn_compare_u64(x->tid, y->tid);
    return c != 0 ? c : bn_compare_u64(x->time_ns, y->time_ns);
}

void bn_recording_finish(bn_recording *recording)
{
    bn_recording *r = recording;
    if (r->n_samples > 0) qsort(r->samples, r->n_samples, sizeof *r->samples, samples_by_time);
    if (r->n_mappings > 0) qsort(r->mappings, r->n_mappings, sizeof *r->mappings, mappings_by_time);
    if (r->n_threads > 0) qsort(r->threads, r->n_threads, sizeof *r->threads, bn_recording_name_order);
    r->delivery.samples = r->n_samples;
    r->delivery.weight = 0;
    for (size_t i = 0; i < r->n_samples; i++)
        r->delivery.weight += (double)r->samples[i].weight;
}

/* The first that is not of a process before this one. */
static size_t first_mapping(const bn_recording *r, uint64_t pid)
{
    size_t at;
    BN_SEARCH(at, r->n_mappings, r->mappings[at].pid < pid);
    return at;
}

const struct bn_mapping *bn_recording_mappings_of(const bn_recording *recording, uint32_t pid, size_t *n)
{
    size_t first = first_mapping(recording, pid);
    *n = first_mapping(recording, (uint64_t)pid + 1) - first;
    return *n > 0 ? recording->mappings + first : NULL;
}

const struct bn_mapping *bn_recording_mapping(const bn_recording *recording, uint32_t pid, uint64_t address,
                                              uint64_t time_ns)
{
    size_t n;
    const struct bn_mapping *found = NULL, *all = bn_recording_mappings_of(recording, pid, &n);
    for (const struct bn_mapping *m = all; n-- > 0; m++)
        if (m->start <= address && address < m->end && (found == NULL || m->time_ns <= time_ns)) found = m;
    return found;
}

/* ---- memory maps ---- */

static bool is_known(const bn_recording *r, const struct bn_mapping *mapping, const char *path)
{
    for (size_t i = r->n_mappings; i-- > 0;) {
        const struct bn_mapping *m = &r->mappings[i];
        if (m->pid != mapping->pid || m->start >= mapping->end || mapping->start >= m->end) continue;
        return m->start == mapping->start && m->end == mapping->end &&
               m->file_offset == mapping->file_offset && strcmp(m->path, path) == 0;
    }
    return false;
}

/* "7f..-7f.. r-xp 00001000 fe:00 1234    /usr/lib/libc.so.6" */
static bn_status take_line(bn_recording *r, const char *line, uint64_t now, bn_error *err)
{
    unsigned long long start, end, offset;
    char may[5];
    int at = 0;
    if (sscanf(line, "%llx-%llx %4s %llx %*s %*s %n", &start, &end, may, &offset, &at) != 4 || at == 0)
        return BN_OK;
    struct bn_mapping mapping = {
        .time_ns = now, .pid = (uint32_t)getpid(), .start = start, .end = end, .file_offset = offset};
    if (may[2] != 'x' || is_known(r, &mapping, line + at)) return BN_OK;
    return bn_recording_add_mapping(r, &mapping, line + at, err);
}

bn_status bn_recording_read_maps(bn_recording *recording, bn_error *err)
{
    static const char PATH[] = "/proc/self/maps";
    char line[4096 + 128];
    FILE *f = fopen(PATH, "re");
    if (f == NULL) return bn_fail_at(err, BN_ERR_IO, BN_NO_OFFSET, PATH, "cannot be read");
    uint64_t now = bn_clock_ns();
    bn_status status = BN_OK;
    while (status == BN_OK && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        status = take_line(recording, line, now, err);
    }
    fclose(f);
    return status;
}

/* ---- delivery ---- */

void bn_delivery_add(struct bn_delivery *sum, const struct bn_delivery *last)
{
    struct bn_delivery before = *sum;
    *sum = *last;
    if (before.wall_ns == 0) return;
    if (sum->note[0] == '\0') memcpy(sum->note, before.note, sizeof before.note);
    sum->samples += before.samples;
    sum->weight += before.weight;
    sum->lost += before.lost;
    sum->throttled += before.throttled;
    sum->wall_ns += before.wall_ns;
    sum->cpu_ns += before.cpu_ns;
    sum->cpu_known = sum->cpu_known && before.cpu_known;
}

/* Why delivered and requested samples cannot be compared; NULL when they can. */
static const char *why_no_rate(const struct bn_delivery *d)
{
    if (d->kind == BN_RECORD_WALL) return "threads that wait are sampled too";
    if (!d->cpu_known) return "the time of the recorded threads is not known";
    if (d->cpu_ns == 0) return "nothing ran";
    return d->samples == 0 ? "there are no samples" : NULL;
}

static void put_rates(bn_json *o, const struct bn_delivery *d)
{
    bn_json_put_u64(o, "asked_period_ns", d->asked_period_ns);
    if (d->period_ns > 0)
        bn_json_put_u64(o, "period_ns", d->period_ns);
    else
        bn_json_put_unavailable(o, "period_ns", "it is not the same for each sample");
    if (d->cpu_known)
        bn_json_put_u64(o, "cpu_ns", d->cpu_ns);
    else
        bn_json_put_unavailable(o, "cpu_ns", "the time of the recorded threads is not known");
    const char *why = why_no_rate(d);
    /* By all of their time, the system's part too, whether that is sampled or not. */
    double ns = why == NULL ? (double)d->cpu_ns : (double)NAN;
    bn_json_put_finite(o, "delivered_period_ns", ns / (double)d->samples, why);
    bn_json_put_finite(o, "delivered_share", d->weight / ns, why);
}

void bn_delivery_put(bn_json *document, const struct bn_delivery *d)
{
    bn_json *o = bn_json_put_object(document, "sampler");
    bn_json_put_object(o, "unavailable");
    bn_json_put_string(o, "tier", bn_record_tier_name(d->tier));
    bn_json_put_string(o, "kind", bn_record_kind_name(d->kind));
    put_rates(o, d);
    BN_PUT(o, BN_U64("samples", d->samples), BN_NUMBER("weight", d->weight), BN_U64("lost", d->lost),
           BN_U64("throttled", d->throttled), BN_U64("wall_ns", d->wall_ns),
           BN_U64("dump_bytes", d->dump_bytes), BN_FLAG("system", d->system));
    if (d->system_refused[0] != '\0') bn_json_put_string(o, "system_refused", d->system_refused);
    if (d->note[0] != '\0') bn_json_put_string(o, "note", d->note);
    bn_json *refused = bn_json_put_object(o, "refused");
    for (unsigned t = 0; t < BN_RECORD_TIERS; t++)
        if (d->refused[t][0] != '\0')
            bn_json_put_string(refused, bn_record_tier_name((enum bn_record_tier)t), d->refused[t]);
}
