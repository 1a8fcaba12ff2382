/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile: the execution graph of passes, their critical path, and the distance of each brick from
 * the roofline.
 */
#ifndef BN_BENCH_PROFILE_GRAPH_H
#define BN_BENCH_PROFILE_GRAPH_H

#include "lab/profile/graph_profile.h"
#include "tools/bench/profile/profile.h"

/* The pass that --pass names; the last one for "all" and without --pass. */
BN_MUST_CHECK bn_status bn_bench_profile_pass(size_t *pass, const struct bn_bench_profile *p, bn_error *err);
/* --graph, printed in place of the tables. */
BN_MUST_CHECK bn_status bn_bench_profile_graph(const struct bn_bench_profile *p, bn_error *err);

/* --roofline: measures the limits of the machine, for a second or two, and prints a table; or, when document
 * is not NULL, puts its member "roofline". */
BN_MUST_CHECK bn_status bn_bench_profile_roofline(const struct bn_bench_profile *p, bn_json *document,
                                                  bn_error *err);

#endif
