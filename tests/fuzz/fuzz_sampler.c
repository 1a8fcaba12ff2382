/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the log of the sampler, which a recorded program may have changed. The reader ends with a
 * status and a message; every sample, mapping and name that it took lies in the recording and can be looked up.
 *
 * A mark of a record depends on where it is, so eight zero bytes in the input become the mark of that place.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lab/sampler/agent.h"
#include "lab/sampler/tier.h"
#include "tests/fuzz/fuzz.h"

static void hold(bool ok)
{
    if (!ok) abort();
}

static void set_marks(unsigned char *log, size_t n_bytes)
{
    static const unsigned char ZEROS[sizeof(uint64_t)];
    for (size_t at = BN_AGENT_FIRST; at + sizeof ZEROS <= n_bytes; at += sizeof ZEROS) {
        uint64_t mark = bn_agent_mark(at);
        if (memcmp(log + at, ZEROS, sizeof ZEROS) == 0) memcpy(log + at, &mark, sizeof mark);
    }
}

static void look_up(bn_recording *r)
{
    bn_recording_finish(r);
    for (size_t i = 0; i < r->n_samples; i++) {
        const struct bn_sample *s = &r->samples[i];
        hold(s->n_chain <= BN_AGENT_DEPTH && s->n_dump <= r->n_dumps);
        hold(i == 0 || r->samples[i - 1].time_ns <= s->time_ns);
        (void)bn_recording_mapping(r, s->pid, s->weight, s->time_ns);
    }
    for (size_t i = 0; i < r->n_threads; i++)
        hold(memchr(r->threads[i].name, '\0', sizeof r->threads[i].name) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bn_recording recording = {0};
    bn_error err = {0};
    size_t n_bytes = BN_AGENT_FIRST + size / 8 * 8;
    unsigned char *log = bn_alloc_aligned(n_bytes, 1);
    hold(log != NULL);
    struct bn_agent_log head = {.version = BN_AGENT_VERSION, .size = n_bytes};
    atomic_store(&head.used, size % 8 == 7 ? UINT64_MAX : n_bytes); /* more than there is: it was full */
    memcpy(log, &head, sizeof head);
    if (size >= 8) memcpy(log + BN_AGENT_FIRST, data, size / 8 * 8);
    set_marks(log, n_bytes);
    bn_status status = bn_agent_log_read(&recording, (const void *)log, n_bytes, &err);
    hold(status == BN_OK || (err.code == status && err.msg[0] != '\0'));
    look_up(&recording);
    bn_recording_release(&recording);
    bn_free(log);
    return 0;
}
