/* SPDX-License-Identifier: MIT
 *
 * How fast this machine reads memory: the limit of decoding, and of any claimed speed.
 */
#ifndef BN_HOST_BANDWIDTH_H
#define BN_HOST_BANDWIDTH_H

#include "base/mem.h"

#define BN_BANDWIDTH_MAX_BYTES ((size_t)256 << 20)

/* Reads a working set of n_bytes (clamped to 16 KiB .. 256 MiB) over and over with n_threads for about
 * budget_ns, each thread its own share, and returns the best rate seen in bytes per second. A set that fits
 * into a cache gives the cache's rate: ask with the bytes that one token reads. 0 when memory runs out. */
uint64_t bn_bandwidth_probe(size_t n_bytes, unsigned n_threads, uint64_t budget_ns);

#endif
