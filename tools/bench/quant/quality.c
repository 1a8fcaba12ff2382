/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: the errors of each format on one synthetic matrix, which compare formats and not models.
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

/* ---- one format ---- */

/* No number in a document is negative; the member `negative` is true when the decibels are. */
static void put_db(bn_json *o, const char *name, const char *negative, double db)
{
    bn_json_put_finite(o, name, fmax(db, 0), "nothing was lost");
    bn_json_put_bool(o, negative, db < 0);
}

static bn_status put_quality(struct bn_harness *h, const struct bn_quant_format *f, struct bn_quant_data *d,
                             bn_error *err)
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

bn_status bn_quant_quality(struct bn_harness *h, struct bn_quant_data *d, bn_error *err)
{
    static const char *const HEADS[] = {"quality", "scale",     "bits", "of F16",
                                        "SQNR dB", "worst row", "MSE",  "zeros"};
    BN_TRY(bn_harness_table(h, HEADS, "llrrrrrr", err));
    for (size_t i = 0; i < BN_QUANT_FORMATS; i++)
        BN_TRY(put_quality(h, bn_quant_format(i), d, err));
    return bn_harness_flush(h, err);
}
