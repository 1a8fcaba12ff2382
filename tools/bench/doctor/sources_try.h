/* SPDX-License-Identifier: MIT
 *
 * Between sources.c and sources_perf.c.
 */
#ifndef BN_BENCH_SOURCES_TRY_H
#define BN_BENCH_SOURCES_TRY_H

#include <stdarg.h>

#include "tools/bench/doctor/sources.h"

/* It answers: what. */
void bn_source_found(struct bn_source *s, const char *fmt, ...) BN_PRINTF(2, 3);
/* It does not: why, and what would help ("" when nothing is known to). */
void bn_source_lacks(struct bn_source *s, const char *remedy, const char *fmt, ...) BN_PRINTF(3, 4);
/* The first line of a file. */
bool bn_source_line(const char *path, char out[256]);

void bn_try_perf_software(struct bn_source *s, const struct bn_machine *m);
void bn_try_perf_sampling(struct bn_source *s, const struct bn_machine *m);
void bn_try_perf_kernel(struct bn_source *s, const struct bn_machine *m);
void bn_try_perf_all_cpus(struct bn_source *s, const struct bn_machine *m);
void bn_try_perf_cycles(struct bn_source *s, const struct bn_machine *m);
void bn_try_perf_instructions(struct bn_source *s, const struct bn_machine *m);
void bn_try_perf_cache_misses(struct bn_source *s, const struct bn_machine *m);
void bn_try_timer_cpu(struct bn_source *s, const struct bn_machine *m);
void bn_try_timer_wall(struct bn_source *s, const struct bn_machine *m);

#endif
