/* SPDX-License-Identifier: MIT
 *
 * The parts of bn-bench memory. Each measures its rows when --filter includes their names, and puts them into
 * the document.
 */
#ifndef BN_BENCH_MEMORY_H
#define BN_BENCH_MEMORY_H

#include "tools/bench/harness.h"

/* Model and session: bytes by purpose, leaks, memory pressure. */
BN_MUST_CHECK bn_status bn_memory_model(struct bn_harness *s, bn_error *err);
/* Bytes that the heap holds, in use or free; 0 where the C library does not report it. */
uint64_t bn_memory_held(void);
/* NULL when the same number of bytes is in use after as before; else the difference as text, in out. */
const char *bn_memory_leak(char out[160], const struct bn_mem_stats *before,
                           const struct bn_mem_stats *after);

#endif
