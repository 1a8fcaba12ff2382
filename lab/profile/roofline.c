/* SPDX-License-Identifier: MIT
 *
 * Relates measured work to the limits of the machine.
 */
#include "lab/profile/roofline.h"

#include <math.h>

static bool in_range(double x)
{
    return x >= 0 && isfinite(x);
}

/* Why no distance can be given, NULL when it can. */
static const char *missing(const struct bn_roofline_work *w, double ops_per_s, double bytes_per_s)
{
    const struct bn_span *t = &w->seconds;
    if (!in_range(w->ops) || !in_range(w->bytes) || !in_range(ops_per_s) || !in_range(bytes_per_s) ||
        !(t->low >= 0 && t->low <= t->mid && t->mid <= t->high && isfinite(t->high)))
        return "a number is out of range";
    if (w->ops <= 0 && w->bytes <= 0) return "neither operations nor bytes are counted";
    if (t->low <= 0) return "no time was measured";
    if (w->ops > 0 && ops_per_s <= 0) return "the roof of operations was not measured";
    if (w->bytes > 0 && bytes_per_s <= 0) return "the roof of bytes was not measured";
    return NULL;
}

void bn_roofline_place(struct bn_roofline *out, const struct bn_roofline_work *work, double ops_per_s,
                       double bytes_per_s)
{
    *out = (struct bn_roofline){.reason = missing(work, ops_per_s, bytes_per_s)};
    if (out->reason != NULL) return;
    double amount = work->ops > 0 ? work->ops : work->bytes;
    const struct bn_span *t = &work->seconds;
    out->known = true;
    out->intensity = work->bytes > 0 ? work->ops / work->bytes : (double)NAN;
    out->by_bytes = work->bytes > 0 && (work->ops <= 0 || out->intensity * bytes_per_s < ops_per_s);
    out->roof = !out->by_bytes ? ops_per_s : work->ops > 0 ? out->intensity * bytes_per_s : bytes_per_s;
    out->achieved = amount / t->mid;
    out->raw = (struct bn_span){1 - amount / t->low / out->roof, 1 - out->achieved / out->roof,
                                1 - amount / t->high / out->roof};
    out->distance = (struct bn_span){fmax(0, out->raw.low), fmax(0, out->raw.mid), fmax(0, out->raw.high)};
    out->invalid = out->raw.mid < BN_ROOFLINE_IMPLAUSIBLE;
    if (out->invalid) out->reason = "faster than the roof that was measured";
}
