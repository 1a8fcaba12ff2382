/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: the errors of each format on one synthetic matrix, which compare formats and not models.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"

#include "tools/bench/quant/quant.h"

/* ---- figures ---- */

void bn_quality_of(struct bn_quality *out, const float *w, const float *v, size_t n)
{
    double signal = 0, noise = 0, zeros = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)w[i], d = a - (double)v[i];
        signal += a * a;
        noise += d * d;
        zeros += !(fabsf(v[i]) > 0);
    }
    *out = (struct bn_quality){.mse = noise / (double)n,
                               .sqnr_db = noise > 0 ? 10 * log10(signal / noise) : (double)INFINITY,
                               .zero_share = zeros / (double)n};
}

/* ---- one format ---- */

/* No number in a document is negative: decibels below zero are 0, and sqnr_below_zero is true. */
static bn_status put_quality(struct bn_harness *h, const struct bn_quant_format *f, struct bn_quant_data *d,
                             bn_error *err)
{
    struct bn_quant_op op;
    struct bn_quality q;
    char test[96];
    double bits = bn_quant_bits(f, d->rows, d->k);
    bn_quant_op_make(&op, BN_DEQUANTISE, f, d);
    bn_quality_of(&q, d->w, (const float *)(const void *)d->expected, d->rows * d->k);
    snprintf(test, sizeof test, "quality %s %zux%zu", f->name, d->rows, d->k);
    bn_json *o = bn_harness_test(h, test);
    bn_harness_judge(h, o, BN_BENCH_VALID, NULL);
    bn_json_put_string(o, "format", f->name);
    bn_json_put_string(o, "weights_per_scale", f->scales);
    bn_json_put_u64(o, "bytes", bn_quant_bytes(f, d->rows, d->k));
    bn_json_put_finite(o, "sqnr_db", fmax(q.sqnr_db, 0), "nothing was lost");
    bn_json_put_bool(o, "sqnr_below_zero", q.sqnr_db < 0);
    bn_json_put_number(o, "zero_share", q.zero_share);
    BN_TRY(bn_harness_put_value(h, test, "bits_per_weight", bits, err));
    BN_TRY(bn_harness_put_value(h, test, "mse", q.mse, err));
    struct bn_table *t = &h->table;
    bn_table_row(t, "");
    bn_table_text(t, f->name);
    bn_table_text(t, f->scales);
    bn_table_printf(t, "%.4f", bits);
    bn_table_printf(t, "%.2f", 16 / bits);
    bn_table_printf(t, "%.3f", q.sqnr_db);
    bn_table_printf(t, "%.3e", q.mse);
    bn_table_printf(t, "%.3f", q.zero_share);
    return BN_OK;
}

bn_status bn_quant_quality(struct bn_harness *h, struct bn_quant_data *d, bn_error *err)
{
    static const char *const HEADS[] = {"quality", "scale", "bits", "of F16", "SQNR dB", "MSE", "zeros"};
    BN_TRY(bn_harness_table(h, HEADS, "llrrrrr", err));
    for (size_t i = 0; i < BN_QUANT_FORMATS; i++)
        BN_TRY(put_quality(h, bn_quant_format(i), d, err));
    return bn_harness_flush(h, err);
}
