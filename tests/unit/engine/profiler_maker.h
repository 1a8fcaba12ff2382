/* SPDX-License-Identifier: MIT
 *
 * A profiler with a clock that moves when it is told to.
 */
#ifndef BN_TESTS_PROFILER_MAKER_H
#define BN_TESTS_PROFILER_MAKER_H

#include "base/mem.h"
#include "base/team.h"
#include "infer/session.h"
#include "stamp/profiler.h"
#include "tests/unit/prof_clock.h"
#include "tests/unit/unit.h"

#define NANO "fixtures/nano-bitnet-b1.58-i2_s-42.gguf"

/* A clock that moves when it is told to, and counts who looks at it. */
struct fake {
    uint64_t now, n_reads;
};

static inline uint64_t read_fake(void *user)
{
    struct fake *fake = user;
    fake->n_reads++;
    return fake->now;
}

static inline bn_prof *open_prof(struct fake *fake, unsigned n_threads, size_t n_events)
{
    struct bn_prof_options options = {BN_PROF_BRICK, n_threads, n_events, 64};
    bn_prof *prof = NULL;
    assert_int_equal(bn_prof_open(&prof, &options, NULL), BN_OK);
    if (fake != NULL) prof_set_clock(prof, read_fake, fake);
    prof->enabled = true;
    bn_prof_reset_epoch(prof);
    return prof;
}

/* A brick that takes so long. */
static inline void work(bn_prof *prof, struct fake *fake, unsigned brick, uint64_t ns)
{
    struct bn_brick_timer timer = bn_prof_start(bn_prof_trail(prof, 0), brick);
    fake->now += ns;
    bn_prof_stop(timer, 10);
}

#endif
