/* SPDX-License-Identifier: MIT
 *
 * Errors of quantised weights, entropy of codes, and dominated choices.
 */
#include "tools/bench/quant/metrics.h"

#include <math.h>

static double ratio_db(double signal, double noise)
{
    return noise > 0 ? 10 * log10(signal / noise) : (double)INFINITY;
}

void bn_quality_of(struct bn_quality *out, const float *w, const float *v, size_t rows, size_t k)
{
    double ww = 0, vv = 0, wv = 0, noise = 0;
    uint64_t agree = 0, signs = 0, zeros = 0;
    *out = (struct bn_quality){.worst_row_sqnr_db = (double)INFINITY};
    for (size_t r = 0; r < rows; r++) {
        double row_ww = 0, row_noise = 0;
        for (size_t i = r * k; i < (r + 1) * k; i++) {
            double a = (double)w[i], b = (double)v[i], d = a - b;
            row_ww += a * a;
            row_noise += d * d;
            vv += b * b;
            wv += a * b;
            if (fabs(d) > out->max_abs) out->max_abs = fabs(d);
            zeros += b == 0;
            if (a == 0 || b == 0) continue;
            signs++;
            agree += (a > 0) == (b > 0);
        }
        double db = ratio_db(row_ww, row_noise);
        if (row_ww > 0 && db < out->worst_row_sqnr_db) out->worst_row_sqnr_db = db;
        ww += row_ww;
        noise += row_noise;
    }
    double n = (double)rows * (double)k;
    out->mse = noise / n;
    out->sqnr_db = ratio_db(ww, noise);
    out->cosine = wv / sqrt(ww * vv);
    out->sign_agreement = (double)agree / (double)signs;
    out->zero_share = (double)zeros / n;
}

double bn_entropy_bits(const uint64_t *counts, size_t n)
{
    uint64_t total = 0;
    double bits = 0;
    for (size_t i = 0; i < n; i++)
        total += counts[i];
    for (size_t i = 0; i < n; i++) {
        double p = (double)counts[i] / (double)total;
        if (counts[i] > 0) bits -= p * log2(p);
    }
    return total > 0 ? bits : (double)NAN;
}

bool bn_is_dominated(const double *points, size_t n, size_t n_dims, size_t i)
{
    for (size_t other = 0; other < n; other++) {
        bool as_good = true, better = false;
        for (size_t d = 0; d < n_dims; d++) {
            double mine = points[i * n_dims + d], its = points[other * n_dims + d];
            as_good = as_good && its >= mine;
            better = better || its > mine;
        }
        if (as_good && better) return true;
    }
    return false;
}
