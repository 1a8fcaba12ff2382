/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: the errors of each format on one synthetic matrix, which compare formats and not models, and which formats
 * another one dominates.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"

#include "tools/bench/quant/quant.h"

/* ---- figures ---- */

static double ratio_db(double signal, double noise)
{
    return noise > 0 ? 10 * log10(signal / noise) : (double)INFINITY;
}

void bn_quality_of(struct bn_quality *out, const float *w, const float *v, size_t rows, size_t k)
{
    double signal = 0, noise = 0;
    *out = (struct bn_quality){.worst_row_sqnr_db = (double)INFINITY};
    for (size_t r = 0; r < rows; r++) {
        double row_signal = 0, row_noise = 0;
        for (size_t i = r * k; i < (r + 1) * k; i++) {
            double a = (double)w[i], d = a - (double)v[i];
            row_signal += a * a;
            row_noise += d * d;
            out->counts[v[i] > 0 ? 2 : v[i] < 0 ? 0 : 1]++;
        }
        if (row_signal > 0)
            out->worst_row_sqnr_db = fmin(out->worst_row_sqnr_db, ratio_db(row_signal, row_noise));
        signal += row_signal;
        noise += row_noise;
    }
    out->mse = noise / ((double)rows * (double)k);
    out->sqnr_db = ratio_db(signal, noise);
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

/* ---- one format ---- */

/* No number in a document is negative; the member `negative` is true when the decibels are. */
static void put_db(bn_json *o, const char *name, const char *negative, double db)
{
    bn_json_put_finite(o, name, fmax(db, 0), "nothing was lost");
    bn_json_put_bool(o, negative, db < 0);
}

static bn_status put_quality(struct bn_harness *h, const struct bn_quant_format *f, struct bn_quant_data *d,
                             double *sqnr_db, bn_error *err)
{
    struct bn_quant_op op;
    struct bn_quality q;
    char test[96];
    double bits = bn_quant_bits(f, d->rows, d->k), n = (double)d->rows * (double)d->k;
    bn_quant_op_make(&op, BN_DEQUANTISE, f, d);
    bn_quality_of(&q, d->w, (const float *)(const void *)d->expected, d->rows, d->k);
    snprintf(test, sizeof test, "quality %s %zux%zu", f->name, d->rows, d->k);
    bn_json *o = bn_harness_test(h, test);
    bn_harness_judge(h, o, BN_BENCH_VALID, NULL);
    bn_json_put_string(o, "format", f->name);
    bn_json_put_string(o, "weights_per_scale", f->scales);
    bn_json_put_u64(o, "bytes", bn_quant_bytes(f, d->rows, d->k));
    put_db(o, "sqnr_db", "sqnr_below_zero", q.sqnr_db);
    put_db(o, "worst_row_sqnr_db", "worst_row_sqnr_below_zero", q.worst_row_sqnr_db);
    bn_json_put_number(o, "zero_share", (double)q.counts[1] / n);
    if (f->ternary) bn_json_put_number(o, "entropy_bits_per_weight", bn_entropy_bits(q.counts, 3));
    BN_TRY(bn_harness_put_value(h, test, "bits_per_weight", bits, err));
    BN_TRY(bn_harness_put_value(h, test, "mse", q.mse, err));
    *sqnr_db = q.sqnr_db;
    struct bn_table *t = &h->table;
    bn_table_row(t, "");
    bn_table_text(t, f->name);
    bn_table_text(t, f->scales);
    bn_table_printf(t, "%.4f", bits);
    bn_table_printf(t, "%.2f", 16 / bits);
    bn_table_printf(t, "%.3f", q.sqnr_db);
    bn_table_printf(t, "%.3f", q.worst_row_sqnr_db);
    bn_table_printf(t, "%.3e", q.mse);
    bn_table_printf(t, "%.3f", (double)q.counts[1] / n);
    return BN_OK;
}

bn_status bn_quant_quality(struct bn_harness *h, struct bn_quant_data *d,
                           const double speed[BN_QUANT_FORMATS], bn_error *err)
{
    static const char *const HEADS[] = {"quality", "scale",     "bits", "of F16",
                                        "SQNR dB", "worst row", "MSE",  "zeros"};
    static const char *const CHOICES[] = {"tradeoff", "SQNR dB", "bits", "dequantised", ""};
    double points[BN_QUANT_FORMATS][3];
    BN_TRY(bn_harness_table(h, HEADS, "llrrrrrr", err));
    for (size_t i = 0; i < BN_QUANT_FORMATS; i++) {
        BN_TRY(put_quality(h, bn_quant_format(i), d, &points[i][0], err));
        points[i][1] = -bn_quant_bits(bn_quant_format(i), d->rows, d->k);
        points[i][2] = speed[i];
    }
    BN_TRY(bn_harness_table(h, CHOICES, "lrrrl", err));
    for (size_t i = 0; i < BN_QUANT_FORMATS; i++) {
        bool measured = speed[i] > 0, dominated = bn_is_dominated(points[0], BN_QUANT_FORMATS, 3, i);
        bn_table_row(&h->table, "");
        bn_table_text(&h->table, bn_quant_format(i)->name);
        bn_table_printf(&h->table, "%.3f", points[i][0]);
        bn_table_printf(&h->table, "%.4f", -points[i][1]);
        bn_table_value(&h->table, measured ? speed[i] : (double)NAN, "1/s");
        bn_table_text(&h->table, !measured ? "not timed" : dominated ? "dominated" : "");
    }
    return bn_harness_flush(h, err);
}
