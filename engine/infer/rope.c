/* SPDX-License-Identifier: MIT
 *
 * Computes the table of rotary angles. No function of libm takes part: the same bits on every machine.
 */
#include "infer/session.h"

#include "base/elementary.h"

/* The pair that turns `turns` times within the context, as a real number. */
static double pair_of(const bn_hparams *hp, double turns, double log_base)
{
    const double two_pi = 0x1.921fb54442d18p+2;
    return (double)hp->n_rot * bn_log((double)hp->yarn.n_ctx / (turns * two_pi)) / (2.0 * log_base);
}

/* What remains of a pair's frequency: 1 for pairs faster than beta_fast, 1 / factor for those slower than
 * beta_slow, and a linear mixture of both between. */
struct ramp {
    double low, high, scale, extrapolate;
};

static struct ramp ramp_of(const bn_hparams *hp, double log_base)
{
    const struct bn_yarn *yarn = &hp->yarn;
    struct ramp ramp = {0.0, 0.0, (double)hp->rope_scale, 0.0};
    if (yarn->factor <= 0.0f) return ramp;
    double low = pair_of(hp, (double)yarn->beta_fast, log_base);
    double high = pair_of(hp, (double)yarn->beta_slow, log_base), last = (double)(hp->n_rot - 1);
    int64_t floor = (int64_t)low, ceil = (int64_t)high; /* towards zero */
    if ((double)ceil < high) ceil++;
    ramp.low = low > 0.0 ? (double)floor : 0.0;
    ramp.high = (double)ceil < last ? (double)ceil : last;
    ramp.scale = 1.0 / (double)yarn->factor;
    ramp.extrapolate = (double)yarn->extrapolate;
    return ramp;
}

static double remaining(const struct ramp *ramp, size_t i)
{
    double width = ramp->high - ramp->low, y;
    y = ((double)i - ramp->low) / (width > 0.001 ? width : 0.001);
    y = y < 0.0 ? 0.0 : y > 1.0 ? 1.0 : y;
    double fast = (1.0 - y) * ramp->extrapolate;
    return ramp->scale * (1.0 - fast) + fast;
}

void bn_rope_table(float *cos, float *sin, size_t n_ctx, const bn_hparams *hp, const float *factors)
{
    size_t half = hp->n_rot / 2;
    double log_base = bn_log((double)hp->rope_base), magnitude = 1.0;
    struct ramp ramp = ramp_of(hp, log_base);
    if (hp->yarn.factor > 0.0f && hp->yarn.extrapolate > 0.0f)
        magnitude = 1.0 + 0.1 * bn_log((double)hp->yarn.factor);
    if (hp->yarn.factor > 0.0f) magnitude *= (double)hp->yarn.magnitude;
    for (size_t i = 0; i < half; i++) {
        double frequency = bn_exp(-(2.0 * (double)i / (double)hp->n_rot) * log_base);
        if (factors != NULL) frequency /= (double)factors[i];
        frequency *= remaining(&ramp, i);
        for (size_t p = 0; p < n_ctx; p++) {
            double s, c;
            bn_sincos((double)p * frequency, &s, &c);
            cos[p * half + i] = (float)(c * magnitude);
            sin[p * half + i] = (float)(s * magnitude);
        }
    }
}
