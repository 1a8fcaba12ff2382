/* SPDX-License-Identifier: MIT
 *
 * The file through which a process publishes its profile (live.h), as it is in memory: a head that does not
 * change, a body that is rewritten after each pass, what each thread did, and the events of one pass. Only
 * programs of the same version and the same machine exchange it; the head has the sizes of all parts.
 *
 * A sequence lock guards the body and what follows it. The writer makes `sequence` odd, writes, and makes it
 * even; it never waits. A reader that finds it odd, or changed when it has read, reads again.
 */
#ifndef BN_PROFILE_LIVE_PAGE_H
#define BN_PROFILE_LIVE_PAGE_H

#include <stdatomic.h>

#include "lab/profile/live.h"

#define BN_LIVE_MAGIC "bn.live\n"
#define BN_LIVE_VERSION 1u
#define BN_LIVE_MAX_THREADS 1024u
#define BN_LIVE_MAX_BYTES ((uint64_t)64 << 20) /* of a file */

struct bn_live_head {
    char magic[8];
    uint32_t version;
    uint32_t head_bytes, body_bytes, thread_bytes, event_bytes;
    uint32_t n_threads, max_events; /* max_events: of one thread */
    uint32_t n_bricks, n_kernels;
    uint32_t level; /* enum bn_prof_level */
    uint32_t pid;
    uint32_t reserved;
    int64_t started_utc;
    uint64_t started_ns; /* CLOCK_MONOTONIC */
    double ns_per_tick;
    uint64_t epoch; /* ticks */
    char program[32], model[160], isa[24];
    char bricks[BN_BRICK_MAX][32];
    uint8_t categories[BN_BRICK_MAX];
    char kernels[BN_KERNEL_COUNT][40];
};

struct bn_live_body {
    _Atomic uint64_t sequence; /* odd: it is being written */
    struct bn_live_counts counts;
    struct bn_live_load load;
    struct bn_brick_stats bricks[BN_BRICK_MAX];
    struct bn_prof_kernel_stats kernels[BN_KERNEL_COUNT];
    uint64_t pass_number;     /* of the pass whose events follow; 0: there are none */
    struct bn_prof_pass pass; /* it */
};

/* One for each thread, after the body; then max_events events for each thread. */
struct bn_live_thread {
    uint64_t bricks_ns, wait_ns;
    uint64_t n_events;
};

/* Bytes of a file; 0 for more than BN_LIVE_MAX_BYTES. */
static inline uint64_t bn_live_bytes(uint64_t n_threads, uint64_t max_events)
{
    uint64_t each, all, bytes;
    if (!bn_mul_ok(max_events, sizeof(struct bn_prof_event), &each) ||
        !bn_add_ok(each, sizeof(struct bn_live_thread), &each) || !bn_mul_ok(each, n_threads, &all) ||
        !bn_add_ok(all, sizeof(struct bn_live_head) + sizeof(struct bn_live_body), &bytes))
        return 0;
    return bytes <= BN_LIVE_MAX_BYTES ? bytes : 0;
}

_Static_assert(sizeof(struct bn_live_head) % 8 == 0 && sizeof(struct bn_live_body) % 8 == 0,
               "the parts follow one another without gaps");

#endif
