/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: the speed of quantising and dequantising weights, and the error of each
 * format. An operation is compared with the reference on one thread, bit for bit, before and after it is
 * timed; one that differs is INVALID.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/bench/quant/quant.h"

#define MAX_ROWS 65536u
#define MAX_K 16384u
#define MAX_WEIGHTS ((uint64_t)1 << 26)

const struct bn_option bn_bench_quant_options[] = {
    BN_OPTION_MODEL,
    BN_HARNESS_ISA,
    BN_OPTION("shape", "matrix shape, K a multiple of 256 [shapes of the 2B model, squares]", .arg = "ROWSxK",
              .group = "Measurement", .repeatable = true, BN_TO_TEXTS(struct bn_bench_options, shapes)),
    BN_OPTION("text", "compare the perplexity of all formats on this text", .arg = "FILE",
              .group = "Measurement", BN_TO_TEXT(struct bn_bench_options, text)),
    {0},
};

struct quant {
    struct bn_harness h;
    struct bn_quant_data data;
    struct bn_quant_op op;
};

/* ---- one row ---- */

static void put_rate(struct quant *q, const struct bn_harness_row *row, bn_json *test)
{
    char why[BN_BENCH_REASON];
    double weights = (double)q->op.job.rows * (double)q->op.job.k, roof = 0;
    bool known =
        bn_bench_limits_read(&q->h.limits, row->set_bytes, row->n_threads, false, &roof, NULL) == BN_OK;
    double limit_ns = known ? row->read_bytes * 1e9 / roof : (double)NAN;
    bn_json_put_finite(test, "limit_ns", limit_ns, "out of memory");
    if (bn_bench_implausible(why, limit_ns / row->ns.median)[0] != '\0')
        bn_json_put_string(test, "implausible", why);
    bn_harness_put_row(&q->h, row);
    bn_table_value(&q->h.table, weights * 1e9 / row->ns.median, "1/s");
}

/* Compared with the reference before it is timed; what the timed calls leave is compared again. */
static bn_status time_row(struct quant *q, const struct bn_kernels *kernels, struct bn_harness_row *row,
                          bn_json *test, bn_error *err)
{
    char why[160];
    struct bn_bench_body body = {bn_quant_calls, &q->op};
    if (bn_quant_wrong(why, &q->op, kernels, row->n_threads) != NULL) {
        bn_harness_judge(&q->h, test, BN_BENCH_INVALID, why);
        return BN_OK;
    }
    memset(q->data.out, 0, q->op.written_bytes);
    BN_TRY(bn_harness_time(&q->h, row, &body, test, err));
    if (row->valid) put_rate(q, row, test);
    return BN_OK;
}

static bn_status run_row(struct quant *q, size_t isa, unsigned n_threads, bn_error *err)
{
    const struct bn_quant_op *op = &q->op;
    const struct bn_kernels *kernels = q->h.isas[isa];
    const char *kernel = op->slot == BN_KERNEL_COUNT ? "plain" : kernels->name[op->slot];
    const char *name = op->job.format->name;
    char test[120];
    struct bn_harness_row row = {.test = test,
                                 .metric = "ns_per_call",
                                 .per_call = 1,
                                 .read_bytes = (double)op->read_bytes,
                                 .set_bytes = op->read_bytes,
                                 .n_threads = n_threads,
                                 .differs = bn_quant_differs,
                                 .arg = op};
    snprintf(test, sizeof test, "%s %s %zux%zu %s t=%u", op->name, name, op->job.rows, op->job.k, kernel,
             n_threads);
    if (!bn_harness_wants(&q->h, test)) return BN_OK;
    bn_json *o = bn_harness_test(&q->h, test);
    BN_PUT_STRINGS(o, {"operation", op->name}, {"format", name}, {"kernel", kernel});
    BN_PUT_COUNTS(o, {"rows", op->job.rows}, {"k", op->job.k}, {"threads", n_threads},
                  {"bytes", op->read_bytes}, {"bytes_written", op->written_bytes});
    return time_row(q, kernels, &row, o, err);
}

static bn_status run_op(struct quant *q, enum bn_quant_kind kind, size_t format, bn_error *err)
{
    if (kind == BN_CALIBRATE && format > 0) return BN_OK; /* all scales of tensors are found alike */
    bn_quant_op_make(&q->op, kind, &bn_quant_formats[format], &q->data);
    bool plain = q->op.slot == BN_KERNEL_COUNT; /* plain C is timed once */
    for (size_t isa = 0; isa < (plain ? 1 : q->h.n_isas); isa++)
        for (size_t t = 0; t < q->h.o->threads.n; t++)
            if (plain || !bn_harness_is_repeated(&q->h, isa, q->op.slot))
                BN_TRY(run_row(q, isa, q->h.o->threads.list[t], err));
    return BN_OK;
}

/* ---- quality: errors on one synthetic matrix, which compare formats and not models ---- */

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
    BN_PUT_STRINGS(o, {"format", f->name}, {"weights_per_scale", f->scales});
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

static bn_status measure_quality(struct bn_harness *h, struct bn_quant_data *d, bn_error *err)
{
    static const char *const HEADS[] = {"quality", "scale", "bits", "of F16", "SQNR dB", "MSE", "zeros"};
    BN_TRY(bn_harness_table(h, HEADS, "llrrrrr", err));
    for (size_t i = 0; i < BN_QUANT_FORMATS; i++)
        BN_TRY(put_quality(h, &bn_quant_formats[i], d, err));
    return bn_harness_flush(h, err);
}

/* ---- shapes ---- */

struct shape {
    size_t rows, k;
};

static bn_status read_shape(const char *text, struct shape *out, bn_error *err)
{
    unsigned long long rows, k;
    int n = 0;
    if (sscanf(text, "%6llux%6llu%n", &rows, &k, &n) == 2 && text[n] == '\0' && rows >= 1 &&
        rows <= MAX_ROWS && k >= 256 && k <= MAX_K && k % 256 == 0 && rows * k <= MAX_WEIGHTS) {
        *out = (struct shape){(size_t)rows, (size_t)k};
        return BN_OK;
    }
    return bn_hint(bn_fail(err, BN_ERR_ARG, "--shape: '%.40s' is not a matrix shape", text), err,
                   "ROWSxK with K a multiple of 256, at most %u, and at most 64M weights", MAX_K);
}

static bn_status run_shape(struct quant *q, const struct shape *shape, bool first, bn_error *err)
{
    static const char *const HEADS[] = {"operation", "time", "spread", "weights"};
    BN_TRY(bn_harness_table(&q->h, HEADS, "lrrr", err));
    bn_status status = bn_quant_prepare(&q->data, shape->rows, shape->k, err);
    for (size_t f = 0; f < BN_QUANT_FORMATS && status == BN_OK; f++)
        for (unsigned kind = 0; kind < BN_QUANT_KINDS && status == BN_OK; kind++)
            status = run_op(q, (enum bn_quant_kind)kind, f, err);
    if (status == BN_OK && first && bn_harness_wants(&q->h, "quality"))
        status = measure_quality(&q->h, &q->data, err);
    if (status == BN_OK) status = bn_harness_flush(&q->h, err);
    bn_quant_release(&q->data);
    return status;
}

static bn_status run(struct quant *q, struct bn_args *args, bn_error *err)
{
    static const char *PRESETS[] = {"2560x2560", "2560x6912", "6912x2560", "640x2560",
                                    "1024x1024", "2048x2048", "4096x4096"};
    const struct bn_texts *asked = &((const struct bn_bench_options *)args->fields)->shapes;
    size_t n = asked->n > 0 ? asked->n : BN_ARRAY_LEN(PRESETS);
    const char *const *shapes = asked->n > 0 ? (const char *const *)asked->list : PRESETS;
    struct shape shape;
    for (size_t i = 0; i < n; i++)
        BN_TRY(read_shape(shapes[i], &shape, err));
    BN_TRY(bn_harness_open(&q->h, args, "quant", err));
    BN_TRY(bn_harness_choose_isas(&q->h, err));
    BN_PUT_STRINGS(q->h.settings, {"isa", q->h.o->isa}, {"text", q->h.o->text});
    bn_json_put_texts(q->h.settings, "shapes", shapes, asked->n);
    for (size_t i = 0; i < n; i++) {
        BN_TRY(read_shape(shapes[i], &shape, err));
        BN_TRY(run_shape(q, &shape, i == 0, err));
    }
    return bn_harness_wants(&q->h, "perplexity") ? bn_quant_perplexity(&q->h, err) : BN_OK;
}

bn_status bn_bench_quant(struct bn_args *args, bn_error *err)
{
    struct quant q = {0};
    return bn_harness_finish(&q.h, run(&q, args, err), err);
}
