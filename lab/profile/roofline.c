/* SPDX-License-Identifier: MIT
 *
 * Relates measured work to the limits of the machine.
 */
#include "lab/profile/roofline.h"

#include <math.h>

static bool is_span(const struct bn_span *x)
{
    return x->low >= 0 && x->low <= x->mid && x->mid <= x->high && isfinite(x->high);
}

/* Why no distance can be given, NULL when it can. */
static const char *missing(const struct bn_roofline_work *w, const struct bn_roofs *roofs)
{
    if (!(w->ops >= 0 && w->bytes >= 0 && isfinite(w->ops) && isfinite(w->bytes)) || !is_span(&w->seconds) ||
        !is_span(&roofs->ops_per_s) || !is_span(&roofs->bytes_per_s))
        return "a number is out of range";
    if (w->ops <= 0 && w->bytes <= 0) return "neither operations nor bytes are counted";
    if (w->seconds.low <= 0) return "no time was measured";
    if (w->ops > 0 && roofs->ops_per_s.low <= 0) return "the roof of operations was not measured";
    if (w->bytes > 0 && roofs->bytes_per_s.low <= 0) return "the roof of bytes was not measured";
    return NULL;
}

/* What the machine can do of this work in a second, when both roofs are at one end of their intervals. */
static double roof(const struct bn_roofline *r, double ops_per_s, double bytes_per_s)
{
    if (isnan(r->intensity)) return ops_per_s;
    if (r->intensity <= 0) return bytes_per_s;
    return fmin(ops_per_s, r->intensity * bytes_per_s);
}

void bn_roofline_place(struct bn_roofline *out, const struct bn_roofline_work *work,
                       const struct bn_roofs *roofs)
{
    *out = (struct bn_roofline){.reason = missing(work, roofs)};
    if (out->reason != NULL) return;
    double amount = work->ops > 0 ? work->ops : work->bytes;
    const struct bn_span *t = &work->seconds, *ops = &roofs->ops_per_s, *bytes = &roofs->bytes_per_s;
    out->known = true;
    out->intensity = work->bytes > 0 ? work->ops / work->bytes : (double)NAN;
    out->roof = roof(out, ops->mid, bytes->mid);
    out->by_bytes = work->bytes > 0 && (work->ops <= 0 || out->intensity * bytes->mid < ops->mid);
    out->achieved = amount / t->mid;
    out->raw.mid = 1 - out->achieved / out->roof;
    out->raw.low = 1 - amount / t->low / roof(out, ops->low, bytes->low);
    out->raw.high = 1 - amount / t->high / roof(out, ops->high, bytes->high);
    out->distance = (struct bn_span){fmax(0, out->raw.low), fmax(0, out->raw.mid), fmax(0, out->raw.high)};
    out->invalid = out->raw.mid < BN_ROOFLINE_IMPLAUSIBLE;
    if (out->invalid) out->reason = "faster than the roof that was measured";
}
