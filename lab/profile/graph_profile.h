/* SPDX-License-Identifier: MIT
 *
 * Turns the events of a profiler into an execution graph: pass, layer, brick, kernel, and a task for each
 * stretch of work on each thread.
 *
 * Threads meet at barriers, at each of which every thread waits; a *stage* is the work between two barriers.
 * Events of one brick in one stage are one node, whatever threads they ran on; its time is that of the thread
 * that was longest in it. Tasks are the innermost events: kernels, and bricks without any. They follow one
 * another on a thread (Sequence), and all tasks of a stage end before any of the next begins (Join to a
 * meeting, Fork from it). A pass begins when its threads are started (Fork).
 */
#ifndef BN_PROFILE_GRAPH_PROFILE_H
#define BN_PROFILE_GRAPH_PROFILE_H

#include "lab/profile/code.h"
#include "lab/profile/graph.h"
#include "stamp/profiler.h"

/* Adds passes first ... first + n - 1 of a profile whose level is brick or kernel. It and codes (which may be
 * NULL: then kernels have no digests) outlive the graph. When there is no more room, the last pass is
 * incomplete and no other follows. BN_ERR_ARG when the profile has no such passes or was taken at another
 * level, BN_ERR_MISMATCH when events were dropped or threads did not meet the same number of times. */
BN_MUST_CHECK bn_status bn_graph_add_profile(struct bn_graph *graph, const bn_prof *prof,
                                             const struct bn_codes *codes, size_t first, size_t n,
                                             bn_error *err);

#endif
