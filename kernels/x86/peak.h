/* SPDX-License-Identifier: MIT
 *
 * x86_peak.h - one instruction on each of twelve accumulators, over and over. Written out, since a compiler
 * may leave out what has no result and keeps arrays of accumulators in memory; twelve, because that covers
 * the latency of two instructions a cycle.
 */
#ifndef BN_KERNELS_X86_PEAK_H
#define BN_KERNELS_X86_PEAK_H

#include <immintrin.h>
#include <stdint.h>

#define CHAINS 12u

#define ON_TWELVE(op)                                                                              \
    op " %13, %12, %0\n\t" op " %13, %12, %1\n\t" op " %13, %12, %2\n\t" op " %13, %12, %3\n\t" op \
       " %13, %12, %4\n\t" op " %13, %12, %5\n\t" op " %13, %12, %6\n\t" op " %13, %12, %7\n\t" op \
       " %13, %12, %8\n\t" op " %13, %12, %9\n\t" op " %13, %12, %10\n\t" op " %13, %12, %11\n\t"

/* type: of a register; class: its constraint; x, y: operands, which the sums start from too. */
#define RUN_TURNS(turns, op, type, class, x, y)                                                             \
    do {                                                                                                    \
        type u = (x), s = (y), a = u, b = u, c = u, d = u, e = u, f = u, g = u, h = u, i = u, j = u, k = u, \
             l = u;                                                                                         \
        for (uint64_t turn = 0; turn < (turns); turn++)                                                     \
            __asm__ volatile(ON_TWELVE(op)                                                                  \
                             : "+" class(a), "+" class(b), "+" class(c), "+" class(d), "+" class(e),        \
                               "+" class(f), "+" class(g), "+" class(h), "+" class(i), "+" class(j),        \
                               "+" class(k), "+" class(l)                                                   \
                             : class(u), class(s));                                                         \
    } while (0)

#endif
