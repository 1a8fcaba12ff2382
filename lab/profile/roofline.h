/* SPDX-License-Identifier: MIT
 *
 * The distance from the roofline (Williams, Waterman, Patterson 2009): how far work stayed below what the
 * machine can do.
 *
 *     W operations, Q bytes that must move, t seconds;  P = W / t;  I = W / Q;  limit R = min(ops, I * bytes)
 *     distance = 1 - P / R
 *
 * Without bytes the limit is that of operations; without operations the distance is 1 - (Q / t) / bytes. The
 * limits are measured with the same threads and instruction set. A ternary multiply-add counts as 2
 * operations in every kernel; W and the limit have the same unit.
 */
#ifndef BN_PROFILE_ROOFLINE_H
#define BN_PROFILE_ROOFLINE_H

#include "base/mem.h"

/* A measured value and its interval. */
struct bn_span {
    double low, mid, high;
};

/* ops operations that must move bytes. */
struct bn_roofline_work {
    double ops, bytes;
    struct bn_span seconds;
};

struct bn_roofline {
    bool known; /* else nothing but reason holds */
    /* The raw distance is below -5 %: faster than the roof, so bytes, operations, the roof or the time are
     * wrong (the machine was busy when the roof was measured), or the work was not done. */
    bool invalid;
    const char *reason;      /* why not known, or invalid; NULL otherwise */
    bool by_bytes;           /* the roof is that of moving bytes */
    double intensity;        /* operations a byte; NaN without bytes */
    double achieved, roof;   /* operations a second; bytes a second without operations */
    struct bn_span raw;      /* 1 - achieved / roof, which noise can put below 0 */
    struct bn_span distance; /* the same, not below 0 */
};
#define BN_ROOFLINE_IMPLAUSIBLE (-0.05)

/* With the roofs of this machine; 0: not known. */
void bn_roofline_place(struct bn_roofline *out, const struct bn_roofline_work *work, double ops_per_s,
                       double bytes_per_s);

#endif
