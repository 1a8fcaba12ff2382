/* SPDX-License-Identifier: MIT
 *
 * Loops of peak.h for NEON; see x86_peak.h for why they are written out. Sixteen accumulators in registers
 * that are named, since an asm takes no more than thirty operands; some cores start four a cycle.
 */
#include "kernels/peak.h"

#define CHAINS 16u
#define CLOBBERED                                                                                           \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", \
        "v24", "v25"
#define ON_SIXTEEN(op, of)                                                                                   \
    op " v0.4s, " of op " v1.4s, " of op " v2.4s, " of op " v3.4s, " of op " v4.4s, " of op " v5.4s, " of op \
       " v6.4s, " of op " v7.4s, " of op " v16.4s, " of op " v17.4s, " of op " v18.4s, " of op               \
       " v19.4s, " of op " v20.4s, " of op " v21.4s, " of op " v22.4s, " of op " v23.4s, " of

/* The operands are zero: what is in the accumulators stays there. */
uint64_t bn_peak_int8_neon(uint64_t turns)
{
    for (uint64_t turn = 0; turn < turns; turn++)
        __asm__ volatile("movi v24.4s, #0\n\tmovi v25.4s, #0\n\t" ON_SIXTEEN("sdot", "v24.16b, v25.16b\n\t")
                         :
                         :
                         : CLOBBERED);
    return turns * CHAINS * 16;
}

uint64_t bn_peak_fma_neon(uint64_t turns)
{
    for (uint64_t turn = 0; turn < turns; turn++)
        __asm__ volatile("movi v24.4s, #0\n\tmovi v25.4s, #0\n\t" ON_SIXTEEN("fmla", "v24.4s, v25.4s\n\t")
                         :
                         :
                         : CLOBBERED);
    return turns * CHAINS * 4;
}
