/* SPDX-License-Identifier: MIT
 *
 * Elementary functions by plain series on reduced arguments, in binary64 by + - * / alone: slower than libm, whose bits
 * depend on its version and on the processor.
 */
#include "base/elementary.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t to_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static const double LN2_HIGH = 0x1.62e42fefa3800p-1; /* 42 bits: n * LN2_HIGH is exact for |n| < 2048 */
static const double LN2_LOW = 0x1.ef35793c76730p-45;

/* x = m * 2^e, m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(z), z = (m - 1) / (m + 1), |z| < 0.1716. */
double bn_log(double x)
{
    if (!(x >= DBL_MIN && x <= DBL_MAX)) return x > 1.0 ? x : x >= 0.0 ? -HUGE_VAL : (double)NAN;
    uint64_t bits = to_bits(x);
    int64_t e = (int64_t)(bits >> 52) - 1023;
    double m = from_bits((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }
    double z = (m - 1.0) / (m + 1.0), z2 = z * z, sum = 0.0;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * z2 + 1.0 / k;
    return (double)e * LN2_HIGH + (2.0 * z * sum + (double)e * LN2_LOW);
}

/* y = n ln 2 + r, |r| <= 0.35; Taylor to r^17. */
double bn_exp(double y)
{
    if (!(y >= -708.0 && y <= 709.0)) return y < 0.0 ? 0.0 : y + HUGE_VAL;
    double t = y * 0x1.71547652b82fep+0;
    int64_t n = (int64_t)(t < 0 ? t - 0.5 : t + 0.5);
    double r = (y - (double)n * LN2_HIGH) - (double)n * LN2_LOW, sum = 1.0;
    for (int k = 17; k >= 1; k--)
        sum = 1.0 + sum * r / k;
    return sum * from_bits((uint64_t)(n + 1023) << 52);
}

/* angle = n pi/2 + r, |r| <= pi/4, pi/2 in three parts of 33, 33 and 53 bits, so that the first two products
 * are exact for n < 2^20; above that the error is that of one rounding of the angle. */
void bn_sincos(double angle, double *sin, double *cos)
{
    static const double P1 = 0x1.921fb544p+0, P2 = 0x1.0b4611a6p-34, P3 = 0x1.3198a2e037073p-69;
    double t = angle * 0x1.45f306dc9c883p-1;
    int64_t n = (int64_t)(t < 0 ? t - 0.5 : t + 0.5);
    double r = ((angle - (double)n * P1) - (double)n * P2) - (double)n * P3;
    /* Taylor: sin r = r (1 - r^2/3! + ...), cos r = 1 - r^2/2! + ..., each to the term below 2^-60. */
    static const double S[] = {-1.0 / 6,
                               1.0 / 120,
                               -1.0 / 5040,
                               1.0 / 362880,
                               -1.0 / 39916800,
                               1.0 / 6227020800.0,
                               -1.0 / 1307674368000.0,
                               1.0 / 355687428096000.0};
    static const double C[] = {-1.0 / 2,
                               1.0 / 24,
                               -1.0 / 720,
                               1.0 / 40320,
                               -1.0 / 3628800,
                               1.0 / 479001600.0,
                               -1.0 / 87178291200.0,
                               1.0 / 20922789888000.0,
                               -1.0 / 6402373705728000.0};
    double r2 = r * r, s = 0.0, c = 0.0;
    for (int k = 7; k >= 0; k--)
        s = (s + S[k]) * r2;
    for (int k = 8; k >= 0; k--)
        c = (c + C[k]) * r2;
    s = r + r * s;
    c = 1.0 + c;
    switch ((unsigned)n & 3u) {
    case 0:
        *sin = s, *cos = c;
        break;
    case 1:
        *sin = c, *cos = -s;
        break;
    case 2:
        *sin = -s, *cos = -c;
        break;
    default:
        *sin = -c, *cos = s;
        break;
    }
}
