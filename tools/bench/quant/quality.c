/* SPDX-License-Identifier: MIT
 *
 * bn-bench quant: quality. Errors on one synthetic matrix, which compare formats and not models; codes of the
 * layers of a real model; and the logits of a model whose weights are in another form, which have to be the
 * same.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "gguf/pack.h"
#include "infer/session.h"
#include "lab/compare/metrics.h"
#include "model/weights.h"
#include "tools/bench/quant/metrics.h"
#include "tools/bench/quant/quant.h"
#include "tools/cli/default_model.h"

#define LOGIT_TOKENS 16u
#define DRAWS 101u

/* No number in a document is negative; the member `negative` is true when the decibels are. */
static void put_db(bn_json *o, const char *name, const char *negative, double db)
{
    bn_json_put_finite(o, name, db < 0 ? 0 : db, "nothing was lost");
    bn_json_put_bool(o, negative, db < 0);
}

/* ---- histograms ---- */

static void put_codes(bn_json *o, const uint64_t counts[3], double bits)
{
    double entropy = bn_entropy_bits(counts, 3), all = (double)(counts[0] + counts[1] + counts[2]);
    bn_json *codes = bn_json_put_object(o, "codes");
    bn_json_put_u64(codes, "minus", counts[0]);
    bn_json_put_u64(codes, "zero", counts[1]);
    bn_json_put_u64(codes, "plus", counts[2]);
    bn_json_put_number(o, "zero_share", (double)counts[1] / all);
    bn_json_put_finite(o, "entropy_bits_per_weight", entropy, "there are no codes");
    bn_json_put_finite(o, "entropy_share_of_bits", entropy / bits, "there are no codes");
}

/* ---- one format ---- */

struct verdict {
    double sqnr_db, bits;
};

static void count_signs(const float *v, size_t n, uint64_t counts[3])
{
    for (size_t i = 0; i < n; i++)
        counts[v[i] > 0 ? 2 : v[i] < 0 ? 0 : 1]++;
}

static bn_status put_quality(struct bn_suite *s, struct bn_quant_data *d, size_t format, bn_json *all,
                             struct verdict *verdict, bn_error *err)
{
    const struct bn_quant_format *f = bn_quant_format(format);
    struct bn_quant_op op;
    struct bn_quality q;
    uint64_t counts[3] = {0};
    size_t n = d->rows * d->k;
    char test[96];
    bn_quant_op_make(&op, BN_DEQUANTISE, f, d);
    const float *back = (const float *)(const void *)d->expected;
    bn_quality_of(&q, d->w, back, d->rows, d->k);
    double bits = bn_quant_bits(f, d->rows, d->k);
    snprintf(test, sizeof test, "quality %s %zux%zu", f->name, d->rows, d->k);
    bn_json *o = bn_json_add_object(all);
    bn_json_put_string(o, "test", test);
    bn_json_put_string(o, "format", f->name);
    bn_json_put_string(o, "weights_per_scale", f->scales);
    bn_json_put_u64(o, "bytes", bn_quant_bytes(f, d->rows, d->k));
    BN_TRY(bn_suite_put_exact(s, test, "bits_per_weight", "1", bits, o, err));
    BN_TRY(bn_suite_put_exact(s, test, "mse", "1", q.mse, o, err));
    bn_json_put_number(o, "compression_of_f32", 32 / bits);
    bn_json_put_number(o, "compression_of_f16", 16 / bits);
    bn_json_put_number(o, "max_abs", q.max_abs);
    put_db(o, "sqnr_db", "sqnr_below_zero", q.sqnr_db);
    put_db(o, "worst_row_sqnr_db", "worst_row_sqnr_below_zero", q.worst_row_sqnr_db);
    bn_json_put_finite(o, "cosine", q.cosine, "all weights are zero");
    bn_json_put_finite(o, "sign_agreement", q.sign_agreement, "all weights are zero");
    if (f->ternary) {
        count_signs(back, n, counts);
        put_codes(o, counts, bits);
    } else {
        bn_json_put_number(o, "zero_share", q.zero_share);
    }
    s->n_valid++;
    *verdict = (struct verdict){q.sqnr_db, bits};
    struct bn_table *t = &s->table;
    bn_table_row(t, "");
    bn_table_text(t, f->name);
    bn_table_text(t, f->scales);
    bn_table_printf(t, "%.4f", bits);
    bn_table_printf(t, "%.2f", 16 / bits);
    bn_table_printf(t, "%.3f", q.sqnr_db);
    bn_table_printf(t, "%.3f", q.worst_row_sqnr_db);
    bn_table_printf(t, "%.3e", q.mse);
    bn_table_printf(t, "%.3f", q.zero_share);
    return BN_OK;
}

bn_status bn_quant_quality(struct bn_suite *s, struct bn_quant_data *d, const double speed[BN_QUANT_FORMATS],
                           bn_error *err)
{
    struct verdict verdicts[BN_QUANT_FORMATS];
    double points[3 * BN_QUANT_FORMATS];
    bn_json *all = bn_json_put_array(s->doc, "quality");
    static const char *const HEADS[] = {"quality", "scale",     "bits", "of F16",
                                        "SQNR dB", "worst row", "MSE",  "zeros"};
    BN_TRY(bn_suite_table(s, HEADS, "llrrrrrr", err));
    for (size_t i = 0; i < BN_QUANT_FORMATS; i++) {
        BN_TRY(put_quality(s, d, i, all, &verdicts[i], err));
        points[3 * i] = verdicts[i].sqnr_db;
        points[3 * i + 1] = -verdicts[i].bits;
        points[3 * i + 2] = speed[i];
    }
    bn_json *choices = bn_json_put_array(s->doc, "tradeoff");
    static const char *const CHOICES[] = {"tradeoff", "SQNR dB", "bits", "dequantised", ""};
    BN_TRY(bn_suite_table(s, CHOICES, "lrrrl", err));
    for (size_t i = 0; i < BN_QUANT_FORMATS; i++) {
        bn_json *o = bn_json_add_object(choices);
        bool measured = speed[i] > 0, dominated = bn_is_dominated(points, BN_QUANT_FORMATS, 3, i);
        enum bn_kernel slot = bn_quant_format(i)->decode_slot;
        bn_json_put_string(o, "format", bn_quant_format(i)->name);
        bn_json_put_string(o, "dequantised_by",
                           slot == BN_KERNEL_COUNT ? "plain C" : bn_kernel_slot_name(slot));
        put_db(o, "sqnr_db", "sqnr_below_zero", verdicts[i].sqnr_db);
        bn_json_put_number(o, "bits_per_weight", verdicts[i].bits);
        bn_json_put_finite(o, "weights_per_second", measured ? speed[i] : (double)NAN,
                           "dequantising was not measured");
        if (measured)
            bn_json_put_bool(o, "dominated", dominated);
        else
            bn_json_put_unavailable(o, "dominated", "dequantising was not measured");
        bn_table_row(&s->table, "");
        bn_table_text(&s->table, bn_quant_format(i)->name);
        bn_table_printf(&s->table, "%.3f", verdicts[i].sqnr_db);
        bn_table_printf(&s->table, "%.4f", verdicts[i].bits);
        bn_table_value(&s->table, measured ? speed[i] : (double)NAN, "1/s");
        bn_table_text(&s->table, !measured ? "not timed" : dominated ? "dominated" : "");
    }
    return bn_suite_flush(s, err);
}

/* ---- the scale from some of the weights ---- */

void bn_quant_calibration(struct bn_suite *s, const struct bn_quant_data *d)
{
    static const size_t SAMPLES[] = {128, 512, 2048};
    uint64_t state = 42;
    double whole = 0, errors[DRAWS];
    for (size_t r = 0; r < d->rows; r++)
        whole += bn_quant_row_sum(d->w + r * d->k, d->k);
    whole /= (double)d->rows * (double)d->k;
    bn_json *all = bn_json_put_array(s->doc, "calibration");
    for (size_t i = 0; i < BN_ARRAY_LEN(SAMPLES); i++) {
        for (size_t draw = 0; draw < DRAWS; draw++) {
            double sum = 0;
            for (size_t n = 0; n < SAMPLES[i]; n++)
                sum += (double)fabsf(d->w[bn_splitmix64(&state) % (d->rows * d->k)]);
            errors[draw] = fabs(sum / (double)SAMPLES[i] / whole - 1);
        }
        bn_sort(errors, DRAWS);
        bn_json *o = bn_json_add_object(all);
        bn_json_put_u64(o, "weights", SAMPLES[i]);
        bn_json_put_u64(o, "draws", DRAWS);
        bn_json_put_number(o, "scale_error_median", errors[DRAWS / 2]);
        bn_json_put_number(o, "scale_error_max", errors[DRAWS - 1]);
        bn_suite_print(s, "%-12s scale from %4zu weights: off by %.2f %% (median of %u draws)\n",
                       "calibration", SAMPLES[i], 100 * errors[DRAWS / 2], DRAWS);
    }
    s->n_valid++;
}

/* ---- a model ---- */

static bn_status count_grouped(const struct bn_model *m, const struct bn_linear *lin, uint64_t counts[3],
                               bn_error *err)
{
    uint8_t *room = bn_alloc_aligned(bn_tiles_bytes(&lin->grouped, 1), 1);
    if (room == NULL) return bn_nomem(err);
    for (size_t r = 0; r < lin->w.rows; r += BN_TILE_ROWS) {
        size_t n = bn_min_size(BN_TILE_ROWS, lin->w.rows - r);
        struct bn_grouped tile = bn_grouped_part(&lin->grouped, r, r + n);
        m->kernels->to_tiles(room, (uint16_t *)(void *)(room + BN_TILE_ROWS * (tile.k / 4)), &tile);
        tile.codes = room;
        for (size_t i = 0; i < n * tile.k; i++) {
            unsigned code = bn_grouped_code(&tile, i / tile.k, i % tile.k);
            counts[code < 3 ? code : 2]++;
        }
    }
    bn_free(room);
    return BN_OK;
}

static void count_row(const struct bn_linear *lin, size_t row, uint64_t counts[3])
{
    int8_t values[BN_I2S_BLOCK];
    const uint8_t *in = lin->w.codes + row * lin->w.row_bytes;
    for (size_t i = 0; i < lin->k; i += BN_I2S_BLOCK) {
        bn_unpack_i2s(values, in + i / 4);
        for (size_t j = 0; j < bn_min_size(BN_I2S_BLOCK, lin->k - i); j++)
            counts[values[j] + 1 < 3 ? values[j] + 1 : 2]++;
    }
}

/* Bytes that the file has for ternary tensors of a type, and their elements. */
static void put_stored(const bn_model *m, const uint64_t counts[3], bn_json *o)
{
    uint64_t bytes = 0, n = 0;
    for (size_t i = 0; i < m->gguf.n_tensors; i++) {
        const struct bn_gguf_tensor *t = &m->gguf.tensors[i];
        bool is_float = t->type == BN_TYPE_F32 || t->type == BN_TYPE_F16 || t->type == BN_TYPE_BF16;
        if (is_float || (t->type != BN_TYPE_I2_S && bn_grouped_size(t->type) == 0)) continue;
        bytes += t->n_bytes;
        n += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    }
    bn_json_put_u64(o, "ternary_weights", counts[0] + counts[1] + counts[2]);
    if (n == 0) {
        bn_json_put_unavailable(o, "stored_bytes", "the file stores its ternary layers as floats");
        bn_json_put_unavailable(o, "bits_per_weight", "the file stores its ternary layers as floats");
        put_codes(o, counts, (double)NAN);
        return;
    }
    double bits = 8.0 * (double)bytes / (double)n;
    bn_json_put_u64(o, "stored_bytes", bytes);
    bn_json_put_number(o, "bits_per_weight", bits);
    put_codes(o, counts, bits);
}

/* Logits of all positions. */
static bn_status evaluate(const bn_model *m, const int32_t *ids, float *logits, bn_error *err)
{
    bn_session *session = NULL;
    bn_session_options options = {.n_ctx = LOGIT_TOKENS};
    BN_TRY(bn_session_open(&session, m, &options, err));
    bn_status status = bn_session_eval(session, ids, LOGIT_TOKENS, BN_LOGITS_ALL, logits, err);
    bn_session_close(session);
    return status;
}

/* The same tokens through the weights as stored in the file and through T5: no bit may differ. */
static bn_status compare_logits(struct bn_suite *s, const bn_model *plain, bn_json *o, bn_error *err)
{
    size_t n_vocab = plain->hp.n_vocab;
    bn_model *packed = NULL;
    int32_t ids[LOGIT_TOKENS];
    float *a = bn_alloc(LOGIT_TOKENS * n_vocab, sizeof *a), *b = bn_alloc(LOGIT_TOKENS * n_vocab, sizeof *b);
    struct bn_metrics_sum sum = {0};
    uint64_t state = 3;
    bn_status status = BN_OK;
    for (size_t i = 0; i < LOGIT_TOKENS; i++)
        ids[i] = (int32_t)(bn_splitmix64(&state) % n_vocab);
    if (a == NULL || b == NULL) status = bn_nomem(err);
    if (status == BN_OK) status = bn_suite_open_model(s, BN_REPACK_ALWAYS, &packed, err);
    if (status == BN_OK && packed->packed_bytes == 0) {
        bn_json_put_unavailable(o, "logits", "this model has no T5 form: its weights have scales in blocks");
    } else if (status == BN_OK) {
        status = evaluate(plain, ids, b, err);
        if (status == BN_OK) status = evaluate(packed, ids, a, err);
        for (size_t i = 0; i < LOGIT_TOKENS && status == BN_OK; i++) {
            struct bn_metrics row;
            bn_metrics_of(&row, a + i * n_vocab, b + i * n_vocab, n_vocab);
            bn_metrics_add(&sum, &row, i, n_vocab);
        }
        bn_json *l = bn_json_put_object(o, "logits");
        bn_json_put_string(l, "compared", "T5 with the file's own form");
        bn_json_put_u64(l, "tokens", LOGIT_TOKENS);
        bn_json_put_finite(l, "kl_mean", fabs(bn_metrics_mean(&sum, BN_METRIC_KL)), "a logit is not finite");
        bn_json_put_finite(l, "top_1_agreement", bn_metrics_mean(&sum, BN_METRIC_ARGMAX),
                           "a logit is not finite");
        bn_suite_state(s, l, "same_bits", status == BN_OK && sum.n_same_bits == LOGIT_TOKENS);
        bn_suite_print(s, "%-12s %zu of %u rows of logits are bit-identical through T5\n", "model",
                       sum.n_same_bits, LOGIT_TOKENS);
    }
    bn_model_close(packed);
    bn_free(a);
    bn_free(b);
    return status;
}

bn_status bn_quant_model(struct bn_suite *s, bn_error *err)
{
    bn_model *m = NULL;
    uint64_t counts[3] = {0};
    BN_TRY(bn_suite_open_model(s, BN_REPACK_NEVER, &m, err));
    bn_status status = BN_OK;
    for (size_t i = 0; i < bn_model_n_linears(m) && status == BN_OK; i++) {
        const struct bn_linear *lin = bn_model_linear(m, i);
        bool grouped = lin->form == BN_FORM_GROUPED;
        if (grouped) status = count_grouped(m, lin, counts, err);
        for (size_t r = 0; !grouped && r < lin->w.rows; r++)
            count_row(lin, r, counts);
    }
    if (status != BN_OK) {
        bn_model_close(m);
        return status;
    }
    put_stored(m, counts, s->model);
    s->n_valid++;
    bn_suite_print(s, "\n%-12s %s: entropy %.4f bits per weight, %.1f %% zeros\n", "model",
                   bn_cli_model_name(s->args), bn_entropy_bits(counts, 3),
                   100.0 * (double)counts[1] / (double)(counts[0] + counts[1] + counts[2]));
    status = compare_logits(s, m, s->model, err);
    bn_json_put_unavailable(s->model, "perplexity_change", "the member perplexity has it, with --text");
    bn_model_close(m);
    return status;
}
