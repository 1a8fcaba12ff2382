/* SPDX-License-Identifier: MIT
 *
 * Elementary functions with the same bits on every machine. What is promised to be reproducible calls these and never
 * libm's; ci/libm.sh checks it.
 */
#ifndef BN_BASE_ELEMENTARY_H
#define BN_BASE_ELEMENTARY_H

/* The natural logarithm; the relative error is below 1e-14, near 1 the absolute one below 1e-15. Of 0 and of subnormal
 * numbers it is -infinity, of negative ones NaN. */
double bn_log(double x);
/* The relative error is below 1e-14. 0 below -708, infinity above 709. */
double bn_exp(double y);
/* For |angle| <= 1e9; absolute error below 1e-14. */
void bn_sincos(double angle, double *sin, double *cos);

#endif
