/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: the speed of quantising weights and activations and of dequantising, and the error of each
 * format. An operation is compared with the reference on one thread, bit for bit, before and after it is
 * timed; one that differs is INVALID.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
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
    struct bn_harness suite;
    struct bn_quant_data data;
    struct bn_quant_op op;
    double speed[BN_QUANT_FORMATS]; /* of dequantising the first shape, first threads and instruction set */
    bool first_shape;
};

/* ---- one row ---- */

static const char *format_name(const struct bn_quant_op *op)
{
    return op->kind == BN_QUANTISE_ACTIVATIONS ? "int8" : op->job.format->name;
}

/* Plain C is timed once. */
static bool is_repeated(const struct quant *q, size_t isa)
{
    return q->op.slot == BN_KERNEL_COUNT ? isa > 0 : bn_harness_is_repeated(&q->suite, isa, q->op.slot);
}

static void put_rates(struct quant *q, const struct bn_harness_row *row, bn_json *r)
{
    char why[BN_BENCH_REASON];
    const struct bn_quant_op *op = &q->op;
    double weights = (double)op->job.rows * (double)op->job.k, per_second = 1e9 / row->ns.median, roof = 0;
    bool known =
        bn_bench_limits_read(&q->suite.limits, row->set_bytes, row->n_threads, false, &roof, NULL) == BN_OK;
    double share = known ? (double)op->read_bytes * per_second / roof : (double)NAN;
    bn_json_put_finite(r, "limit_ns", known ? (double)op->read_bytes * 1e9 / roof : (double)NAN,
                       "out of memory");
    if (bn_bench_implausible(why, share)[0] != '\0') bn_json_put_string(r, "implausible", why);
    bn_harness_put_row(&q->suite, row);
    bn_table_value(&q->suite.table, weights * per_second, "1/s");
}

static bn_status time_row(struct quant *q, const char *test, const struct bn_kernels *kernels,
                          unsigned n_threads, struct bn_harness_row *row, bn_json *r, bn_error *err)
{
    char why[160];
    struct bn_bench_body body = {bn_quant_calls, &q->op};
    *row = (struct bn_harness_row){.test = test,
                                   .metric = "ns_per_call",
                                   .per_call = 1,
                                   .read_bytes = (double)q->op.read_bytes,
                                   .set_bytes = q->op.read_bytes,
                                   .n_threads = n_threads,
                                   .differs = bn_quant_differs,
                                   .arg = &q->op};
    if (bn_quant_wrong(why, &q->op, kernels, n_threads) != NULL) {
        bn_harness_judge(&q->suite, r, BN_BENCH_INVALID, why);
        return BN_OK;
    }
    memset(q->data.out, 0, q->op.written_bytes);
    return bn_harness_time(&q->suite, row, &body, r, err);
}

static bn_status run_row(struct quant *q, size_t isa, unsigned n_threads, size_t format, bn_error *err)
{
    const struct bn_quant_op *op = &q->op;
    const struct bn_kernels *kernels = q->suite.isas[isa];
    const char *kernel = op->slot == BN_KERNEL_COUNT ? "plain" : kernels->name[op->slot];
    struct bn_harness_row row;
    char test[120];
    snprintf(test, sizeof test, "%s %s %zux%zu %s t=%u", op->name, format_name(op), op->job.rows, op->job.k,
             kernel, n_threads);
    if (!bn_harness_wants(&q->suite, test)) return BN_OK;
    bn_json *r = bn_harness_test(&q->suite, test);
    bn_json_put_string(r, "operation", op->name);
    bn_json_put_string(r, "format", format_name(op));
    bn_json_put_string(r, "kernel", kernel);
    bn_json_put_u64(r, "rows", op->job.rows);
    bn_json_put_u64(r, "k", op->job.k);
    bn_json_put_u64(r, "threads", n_threads);
    bn_json_put_u64(r, "bytes", op->read_bytes);
    bn_json_put_u64(r, "bytes_written", op->written_bytes);
    BN_TRY(time_row(q, test, kernels, n_threads, &row, r, err));
    if (!row.valid) return BN_OK;
    put_rates(q, &row, r);
    bool first = q->first_shape && isa == 0 && n_threads == q->suite.o->threads.list[0];
    if (first && op->kind == BN_DEQUANTISE)
        q->speed[format] = (double)op->job.rows * (double)op->job.k * 1e9 / row.ns.median;
    return BN_OK;
}

static bn_status run_op(struct quant *q, enum bn_quant_kind kind, size_t format, bn_error *err)
{
    bn_quant_op_make(&q->op, kind, kind == BN_QUANTISE_ACTIVATIONS ? NULL : bn_quant_format(format),
                     &q->data);
    for (size_t isa = 0; isa < q->suite.n_isas; isa++)
        for (size_t t = 0; t < q->suite.o->threads.n && !is_repeated(q, isa); t++)
            BN_TRY(run_row(q, isa, q->suite.o->threads.list[t], format, err));
    return BN_OK;
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
    bn_fail(err, BN_ERR_ARG, "--shape: '%.40s' is not a matrix shape", text);
    bn_error_hint(err, "ROWSxK with K a multiple of 256, at most %u, and at most 64M weights", MAX_K);
    return BN_ERR_ARG;
}

static bn_status run_shape(struct quant *q, const struct shape *shape, bool first, bn_error *err)
{
    static const char *const HEADS[] = {"operation", "time", "spread", "weights"};
    q->first_shape = first;
    BN_TRY(bn_harness_table(&q->suite, HEADS, "lrrr", err));
    bn_status status = bn_quant_prepare(&q->data, shape->rows, shape->k, err);
    for (size_t f = 0; f < BN_QUANT_FORMATS && status == BN_OK; f++)
        for (unsigned kind = 0; kind < BN_QUANTISE_ACTIVATIONS && status == BN_OK; kind++)
            status = run_op(q, (enum bn_quant_kind)kind, f, err);
    if (status == BN_OK) status = run_op(q, BN_QUANTISE_ACTIVATIONS, 0, err);
    if (status == BN_OK && first && bn_harness_wants(&q->suite, "quality"))
        status = bn_quant_quality(&q->suite, &q->data, q->speed, err);
    if (status == BN_OK) status = bn_harness_flush(&q->suite, err);
    if (status == BN_OK && first && bn_harness_wants(&q->suite, "calibration"))
        bn_quant_calibration(&q->suite, &q->data);
    bn_quant_release(&q->data);
    return status;
}

static bn_status run(struct quant *q, struct bn_args *args, bn_error *err)
{
    static const struct shape SHAPES[] = {{2560, 2560}, {2560, 6912}, {6912, 2560}, {640, 2560},
                                          {1024, 1024}, {2048, 2048}, {4096, 4096}};
    const struct bn_texts *asked = &((const struct bn_bench_options *)args->fields)->shapes;
    struct shape shape;
    for (size_t i = 0; i < asked->n; i++)
        BN_TRY(read_shape(asked->list[i], &shape, err));
    BN_TRY(bn_harness_open(&q->suite, args, "quant", err));
    BN_TRY(bn_harness_choose_isas(&q->suite, err));
    bn_json_put_string(q->suite.settings, "isa", q->suite.o->isa);
    bn_json_put_string(q->suite.settings, "text", q->suite.o->text);
    bn_json *shapes = bn_json_put_array(q->suite.settings, "shapes");
    for (size_t i = 0; i < asked->n; i++)
        bn_json_add_string(shapes, asked->list[i]);
    for (size_t i = 0; i < (asked->n > 0 ? asked->n : BN_ARRAY_LEN(SHAPES)); i++) {
        shape = SHAPES[asked->n > 0 ? 0 : i];
        if (asked->n > 0) BN_TRY(read_shape(asked->list[i], &shape, err));
        BN_TRY(run_shape(q, &shape, i == 0, err));
    }
    if (bn_harness_wants(&q->suite, "model")) BN_TRY(bn_quant_model(&q->suite, err));
    return bn_harness_wants(&q->suite, "perplexity") ? bn_quant_perplexity(&q->suite, err) : BN_OK;
}

bn_status bn_bench_quant(struct bn_args *args, bn_error *err)
{
    struct quant *q = bn_alloc(1, sizeof *q);
    if (q == NULL) return bn_nomem(err);
    bn_status status = run(q, args, err);
    status = bn_harness_finish(&q->suite, status, err);
    bn_free(q);
    return status;
}
