/* SPDX-License-Identifier: MIT
 *
 * Reads the log of the sampler (agent.h). A recorded program may have written anything to it: records with
 * wrong marks, sizes or counts are skipped.
 */
#include <string.h>

#include "base/error.h"
#include "lab/sampler/agent.h"
#include "lab/sampler/tier.h"

static bn_status take_sample(bn_recording *out, const struct bn_agent_sample *at, size_t n_bytes,
                             bn_error *err)
{
    struct bn_agent_sample own;
    if (n_bytes < sizeof own) return BN_OK;
    memcpy(&own, at, sizeof own);
    size_t room = (n_bytes - sizeof own) / sizeof(uint64_t),
           registers = own.n_dump > 0 ? BN_AGENT_REGISTERS : 0;
    if (own.n_chain > BN_AGENT_DEPTH || own.n_dump > 65528 ||
        own.n_chain + registers + own.n_dump / sizeof(uint64_t) > room)
        return BN_OK;
    if (out->n_samples == BN_RECORDING_MAX_SAMPLES) {
        out->delivery.lost++;
        return BN_OK;
    }
    const uint64_t *chain = (const uint64_t *)(at + 1);
    struct bn_sample sample = {.time_ns = own.record.time_ns,
                               .weight = own.weight_ns,
                               .pid = own.record.pid,
                               .tid = own.record.tid,
                               .n_chain = (uint16_t)own.n_chain,
                               .flags = own.flags & (BN_SAMPLE_CUT | BN_SAMPLE_DUMP_CUT),
                               .n_dump = own.n_dump & ~7u};
    bool has_dump = own.n_dump > 0;
    return bn_recording_add_sample(out, &sample, chain, has_dump ? chain + own.n_chain + registers : NULL,
                                   has_dump ? chain + own.n_chain : NULL, err);
}

static bn_status take_name(bn_recording *out, const struct bn_agent_name *at, size_t n_bytes, bn_error *err)
{
    struct bn_agent_name own;
    if (n_bytes < sizeof own) return BN_OK;
    memcpy(&own, at, sizeof own);
    own.name[sizeof own.name - 1] = '\0';
    return bn_recording_add_thread(out, own.record.time_ns, own.record.pid, own.record.tid, own.name, err);
}

static bn_status take_maps(bn_recording *out, const struct bn_agent_maps *at, size_t n_bytes, bn_error *err)
{
    struct bn_agent_maps own;
    if (n_bytes < sizeof own) return BN_OK;
    memcpy(&own, at, sizeof own);
    if (own.n_text > n_bytes - sizeof own) return BN_OK;
    return bn_recording_add_maps(out, own.record.pid, own.record.time_ns, (const char *)(at + 1), own.n_text,
                                 err);
}

static bn_status take_record(bn_recording *out, const void *at, uint32_t kind, size_t n_bytes, bn_error *err)
{
    if (kind == BN_AGENT_SAMPLE) return take_sample(out, at, n_bytes, err);
    if (kind == BN_AGENT_NAME) return take_name(out, at, n_bytes, err);
    if (kind == BN_AGENT_MAPS) return take_maps(out, at, n_bytes, err);
    return BN_OK;
}

bn_status bn_agent_log_read(bn_recording *out, const struct bn_agent_log *log, size_t n_bytes, bn_error *err)
{
    uint64_t end = atomic_load(&log->used);
    if (end > n_bytes) end = n_bytes;
    for (uint64_t at = BN_AGENT_FIRST; at + sizeof(struct bn_agent_record) <= end;) {
        const struct bn_agent_record *record = (const void *)((const char *)log + at);
        bool marked = atomic_load_explicit(&record->mark, memory_order_acquire) == bn_agent_mark(at);
        /* Read once: a program may still write to it. */
        uint32_t size = *(const volatile uint32_t *)&record->n_bytes;
        if (!marked || size < sizeof *record || size % 8 != 0 || size > end - at) {
            at += 8;
            continue;
        }
        BN_TRY(take_record(out, record, record->kind, size, err));
        at += size;
    }
    return BN_OK;
}
