/* SPDX-License-Identifier: MIT
 *
 * The parts of bn-bench memory. Each measures its rows, if --filter lets their names pass, and puts them into
 * the document.
 */
#ifndef BN_BENCH_MEMORY_H
#define BN_BENCH_MEMORY_H

#include "tools/bench/suite.h"

/* The order in which blocks are taken and given back. */
enum bn_pattern {
    BN_PATTERN_SEQUENTIAL, /* all taken, then given back in the same order */
    BN_PATTERN_RANDOM,     /* all taken, then given back in the order of a seeded permutation */
    BN_PATTERN_MIXED       /* seven of ten operations take one, three give back a random one; then the rest */
};
/* Operations in order: i takes a block into slot i, ~i gives that of slot i back. Every block taken is given
 * back. */
struct bn_trace {
    int32_t *ops;
    size_t n, n_slots;
    size_t n_first; /* of sequential and random: how many only take */
};
/* At most n_ops operations with n_slots blocks at most; the same each time. Released by bn_trace_release. */
BN_MUST_CHECK bn_status bn_trace_make(struct bn_trace *out, enum bn_pattern pattern, size_t n_ops,
                                      size_t n_slots, uint64_t seed, bn_error *err);
void bn_trace_release(struct bn_trace *trace);
uint64_t bn_trace_hash(const struct bn_trace *trace); /* FNV-1a of the operations */

bn_status bn_memory_allocation(struct bn_suite *s, uint32_t n_ops, bn_error *err);
bn_status bn_memory_pages(struct bn_suite *s, bn_error *err); /* first touch, giving back, peak */
bn_status bn_memory_fragmentation(struct bn_suite *s, bn_error *err);
bn_status bn_memory_bandwidth(struct bn_suite *s, bn_error *err);
bn_status bn_memory_latency(struct bn_suite *s, bn_error *err);
/* Model and session: bytes by what they are for, opening and closing, leaks, short memory, loading. */
bn_status bn_memory_model(struct bn_suite *s, bn_error *err);

/* NULL when as much is in use after as before; else what is missing, in out. */
const char *bn_memory_leak(char out[160], const struct bn_mem_stats *before,
                           const struct bn_mem_stats *after);
/* A field "Name:   123 kB" of /proc/self/status, in bytes; 0 when unknown. */
uint64_t bn_memory_status(const char *name);

#endif
