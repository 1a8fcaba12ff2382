/* SPDX-License-Identifier: MIT
 *
 * Gives a profiler a clock that a test moves, and events that a test makes up.
 */
#ifndef BN_TESTS_PROF_CLOCK_H
#define BN_TESTS_PROF_CLOCK_H

#include "stamp/profiler.h"

/* Readings come from this function, in nanoseconds. */
static inline void prof_set_clock(bn_prof *prof, bn_prof_clock_fn fake, void *user)
{
    prof->fake_clock = fake;
    prof->fake_user = user;
    prof->clock = (struct bn_tick_clock){false, 1.0};
    prof->resolution = 1;
}

/* A brick from begin to end, in nanoseconds since the epoch, for a profile whose trail has room. */
static inline void prof_record(bn_prof *prof, unsigned thread, unsigned brick, uint64_t begin, uint64_t end,
                               uint64_t elements)
{
    struct bn_prof_trail *trail = &prof->trails[thread];
    trail->events[trail->n++] = (struct bn_prof_event){.begin = prof->epoch + begin,
                                                       .end = prof->epoch + end,
                                                       .elements = elements,
                                                       .pass = BN_PROF_NO_PASS,
                                                       .layer = -1,
                                                       .brick = (uint8_t)brick,
                                                       .kernel = BN_PROF_NO_KERNEL};
}

#endif
