/* SPDX-License-Identifier: MIT
 *
 * The records that perf_event_open(2) writes into its ring buffers, read into a recording. The kernel wrote them,
 * but no length in them is trusted: a record that contradicts itself counts as lost.
 */
#ifndef BN_SAMPLER_PERF_RECORDS_H
#define BN_SAMPLER_PERF_RECORDS_H

#include "lab/sampler/recording.h"

/* The data of a ring: size is a power of two; head and tail only grow. */
struct bn_perf_ring {
    const unsigned char *data;
    uint64_t size, head, tail;
};

/* The registers requested with a copied stack, as perf numbers them, in the order of rising bits. */
#if defined(__x86_64__)
#define BN_PERF_REGISTERS ((UINT64_C(0xff) << 16) | UINT64_C(0x1ff))
#elif defined(__aarch64__)
#define BN_PERF_REGISTERS ((UINT64_C(1) << 33) - 1)
#else
#define BN_PERF_REGISTERS UINT64_C(0)
#endif

/* Samples have IP | TID | TIME | PERIOD | CALLCHAIN, and REGS_USER | STACK_USER when dump_bytes is not 0; all
 * other records end with TID and TIME (sample_id_all). */
struct bn_perf_layout {
    uint64_t weight;     /* of a sample; 0: the period that it says */
    uint32_t max_chain;  /* most addresses that the operating system puts into a chain */
    uint32_t dump_bytes; /* requested */
};

/* Zeroed except out and layout, nothing was read. */
struct bn_perf_birth;
struct bn_perf_reader {
    bn_recording *out;
    struct bn_perf_layout layout;
    struct bn_perf_birth *births; /* threads that others created */
    size_t n_births, births_room;
};

/* Reads what lies between tail and head into the recording: samples, mappings, names of threads, what was lost and
 * how often the sampler was throttled. A record for which there is no memory is lost. tail is head then. */
void bn_perf_drain(struct bn_perf_reader *reader, struct bn_perf_ring *ring);
/* Gives processes that were forked the mappings and names of those they came from. The recording is in order
 * afterwards. */
BN_MUST_CHECK bn_status bn_perf_finish(struct bn_perf_reader *reader, bn_error *err);
void bn_perf_release(struct bn_perf_reader *reader);

#endif
