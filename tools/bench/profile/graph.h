/* SPDX-License-Identifier: MIT
 *
 * bn-bench profile: the execution graph of passes, their critical path, and the distance of each brick from
 * the roofline.
 */
#ifndef BN_BENCH_PROFILE_GRAPH_H
#define BN_BENCH_PROFILE_GRAPH_H

#include "lab/profile/graph_profile.h"
#include "tools/bench/profile/profile.h"

/* Is --graph given? Then bn_bench_profile_graph prints it in place of the tables. */
bool bn_bench_profile_graph_wanted(const struct bn_args *args);
BN_MUST_CHECK bn_status bn_bench_profile_graph(const struct bn_bench_profile *p, bn_error *err);

/* Is --roofline given? Then bn_bench_profile_roofline measures the limits of the machine, for a second or
 * two, and prints a table; or, when document is not NULL, puts its member "roofline". */
bool bn_bench_profile_roofline_wanted(const struct bn_args *args);
BN_MUST_CHECK bn_status bn_bench_profile_roofline(const struct bn_bench_profile *p, bn_json *document,
                                                  bn_error *err);

#endif
