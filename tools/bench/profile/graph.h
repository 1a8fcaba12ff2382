/* SPDX-License-Identifier: MIT
 *
 * What bn-bench profile shows besides its tables: the execution graph of passes, their critical path, and how
 * far each brick is from the roofline.
 */
#ifndef BN_BENCH_PROFILE_GRAPH_H
#define BN_BENCH_PROFILE_GRAPH_H

#include "lab/profile/graph_profile.h"
#include "tools/bench/profile/profile.h"

/* Was --graph given? Then bn_bench_profile_graph prints what it asks for, in place of anything else. */
bool bn_bench_profile_graph_wanted(const struct bn_args *args);
BN_MUST_CHECK bn_status bn_bench_profile_graph(const struct bn_bench_profile *p, bn_error *err);

/* Was --roofline given? Then bn_bench_profile_roofline measures the machine's limits, which takes a second or
 * two, and prints a table; or, when document is not NULL, puts its member "roofline". */
bool bn_bench_profile_roofline_wanted(const struct bn_args *args);
BN_MUST_CHECK bn_status bn_bench_profile_roofline(const struct bn_bench_profile *p, bn_json *document,
                                                  bn_error *err);

#endif
