/* SPDX-License-Identifier: MIT
 *
 * Which tensors of a model file look damaged. Each is read once. Some of its figures have a range that is the same in
 * every model. Some are also compared with their median over the layers: the table has the distance that is allowed, and
 * where layers differ more, their median distance decides. Experts of a layer are judged one by one. The model is
 * not built, so that files of unknown architectures are judged too: a layer is the first part of a name that is a number.
 */
#include <math.h>
#include <stdio.h>

#include "base/elementary.h"
#include "base/error.h"
#include "kernels/ref.h"
#include "lab/report/table.h"
#include "lab/stats/summary.h"
#include "model/weights.h"
#include "tools/cli/report.h"
#include "tools/run/run.h"

/* ---- the limits ---- */

/* Standard deviations, estimated by the median distance, that are always allowed. */
#define SIGMAS 8.0
/* Fewer neighbours are not compared. */
#define MIN_NEIGHBOURS 5u
/* Signs of fewer weights are not judged: all of 32 are alike by chance once in 2^31. */
#define MIN_SIGNED 32u

#define MAX_EXPERTS 1024u
#define MAX_UNITS 131072u

enum kind { TERNARY, FLOATS, NORM, VECTOR };

/* Ranges include their ends. `near`: the distance from the median that is always allowed; 0: there is no comparison.
 * Of a size it is a factor, since distances of sizes are those of their logarithms.
 *
 * Where they come from. Zeros: 30 to 52 % in 29 published checkpoints; layers of one role differ by 2 points at most in
 * the trained models of fixtures/. Scales: within 1.4 there, the rows of all of Maple within 11. Gammas: within 1.8
 * there; 0.012 to 0.024 and 1.22 to 1.51 in BitNet 2B-4T. A binary16 scale with a wrong bit in its exponent is off by up
 * to 2^16. A page of 4 KiB that was not written is 16,384 weights of -1. */
static const struct rule {
    const char *what;
    enum kind kind;
    enum bn_run_figure figure;
    double low, high, near;
} RULES[] = {
    {"invalid scales and codes", TERNARY, BN_RUN_INVALID, 0, 0, 0},
    {"share of zeros", TERNARY, BN_RUN_ZEROS, 0, 0.999, 0.25},
    {"share of +1 among -1 and +1", TERNARY, BN_RUN_PLUS, 0.001, 0.999, 0.25},
    {"scale", TERNARY, BN_RUN_SIZE, 1e-6, 1e4, 64},
    {"largest scale of a group / median", TERNARY, BN_RUN_SPREAD, 0, 1024, 0},
    {"equal weights in a row, not 0", TERNARY, BN_RUN_EQUAL, 0, 4096, 0},
    {"values that are not finite", FLOATS, BN_RUN_INVALID, 0, 0, 0},
    {"share of zeros", FLOATS, BN_RUN_ZEROS, 0, 0.999, 0.5},
    {"share of positive values", FLOATS, BN_RUN_PLUS, 0.001, 0.999, 0.5},
    {"root mean square", FLOATS, BN_RUN_SIZE, 1e-9, 1e6, 64},
    {"values that are not finite", NORM, BN_RUN_INVALID, 0, 0, 0},
    {"share of zeros", NORM, BN_RUN_ZEROS, 0, 0.05, 0},
    {"share of positive values", NORM, BN_RUN_PLUS, 0.001, 1, 0.5},
    {"root mean square", NORM, BN_RUN_SIZE, 1e-6, 1e4, 64},
    {"values that are not finite", VECTOR, BN_RUN_INVALID, 0, 0, 0},
};

/* ---- reading ---- */

#define HALF_INFINITE 0x7C00u

struct reading {
    struct bn_run_stats *out;
    uint32_t *seen; /* of groups: how many have a scale of this magnitude, in binary16 */
    uint64_t n_zero, n_run;
    bool positive; /* the run */
};

/* How many of n weights, a multiple of 64, are -1, 0, +1 and +2. In bytes, so that the compiler makes vectors of it. */
static void count(uint64_t codes[4], const int8_t *values, size_t n)
{
    for (size_t i = 0; i < n; i += 64) {
        uint8_t minus = 0, zero = 0, two = 0;
        for (size_t k = 0; k < 64; k++) {
            minus = (uint8_t)(minus + (values[i + k] < 0));
            zero = (uint8_t)(zero + (values[i + k] == 0));
            two = (uint8_t)(two + (values[i + k] > 1));
        }
        codes[0] += minus;
        codes[1] += zero;
        codes[2] += 64u - minus - zero - two;
        codes[3] += two;
    }
}

static void read_block(struct reading *r, const struct bn_type_info *info, const uint8_t *block)
{
    int8_t values[BN_TYPE_MAX_BLOCK];
    struct bn_run_stats *out = r->out;
    uint64_t codes[4] = {0}, n = info->block;
    unsigned half = info->unpack(values, block, info->block), magnitude = half & 0x7FFFu;
    count(codes, values, n);
    bool equal = codes[0] == n || codes[2] == n, positive = codes[2] == n;
    r->n_run = !equal ? 0 : n + (positive == r->positive ? r->n_run : 0);
    r->positive = positive;
    if (r->n_run > out->n_equal) out->n_equal = r->n_run;
    for (unsigned i = 0; i < 4; i++)
        out->codes[i] += codes[i];
    if (!info->holds_two) out->n_invalid += codes[3];
    r->n_zero += codes[1];
    if (r->seen == NULL || (magnitude == 0 && codes[1] == n)) return;
    bool valid = magnitude != 0 && half < HALF_INFINITE;
    if (valid) r->seen[magnitude]++;
    out->n_invalid += !valid;
}

/* The median of the groups' scales, and the largest in terms of it. */
static void summarize_scales(struct bn_run_stats *out, const uint32_t seen[HALF_INFINITE])
{
    uint64_t n = 0, below = 0;
    uint16_t median = 0, most = 0;
    for (unsigned i = 0; i < HALF_INFINITE; i++)
        n += seen[i];
    for (uint16_t i = 0; i < HALF_INFINITE; below += seen[i++]) {
        if (below <= n / 2) median = i;
        if (seen[i] != 0) most = i;
    }
    out->size = n != 0 ? (double)bn_ref_widen_f16(median) : (double)NAN;
    out->spread = (double)bn_ref_widen_f16(most) / out->size;
}

static void read_floats(struct bn_run_stats *out, const float *row, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)row[i];
        if (!isfinite(x)) {
            out->n_invalid++;
            continue;
        }
        sum += x * x;
        out->codes[x > 0.0 ? 2 : x < 0.0 ? 0 : 1]++;
        if (x < out->min) out->min = x;
        if (x > out->max) out->max = x;
    }
    out->size += sum;
    out->n_zero_rows += sum == 0.0;
}

bn_status bn_run_read_stats(struct bn_run_stats *out, const struct bn_gguf_tensor *t, uint64_t first,
                            uint64_t n_rows, bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(t->type);
    const size_t k = (size_t)t->ne[0], row_bytes = k / info->block * info->block_bytes;
    const uint8_t *data = t->data + first * row_bytes;
    struct reading r = {.out = out};
    *out = (struct bn_run_stats){.min = HUGE_VAL, .max = -HUGE_VAL, .spread = (double)NAN};
    void *memory =
        info->unpack == NULL ? bn_alloc(k, sizeof(float)) : bn_alloc(HALF_INFINITE, sizeof *r.seen);
    if (memory == NULL) return bn_nomem(err);
    if (t->type != BN_TYPE_I2_S) r.seen = memory;
    for (uint64_t i = 0; i < n_rows; i++, data += row_bytes) {
        r.n_zero = 0;
        for (size_t b = 0; b < row_bytes && info->unpack != NULL; b += info->block_bytes)
            read_block(&r, info, data + b);
        if (info->unpack != NULL) {
            out->n_zero_rows += r.n_zero == k;
            continue;
        }
        bn_widen(&bn_kernels_ref, t->type, memory, data, k);
        read_floats(out, memory, k);
    }
    if (t->type == BN_TYPE_I2_S) {
        float scale;
        memcpy(&scale, t->data + t->n_bytes - BN_I2S_TAIL_BYTES, sizeof scale);
        bool valid = isfinite(scale) && scale > 0.0f;
        out->n_invalid += !valid;
        out->size = valid ? (double)scale : (double)NAN;
    } else if (info->unpack != NULL) {
        summarize_scales(out, memory);
    } else {
        out->size = sqrt(out->size / (double)(out->codes[0] + out->codes[1] + out->codes[2]));
    }
    bn_free(memory);
    return BN_OK;
}

/* ---- units ---- */

/* A tensor, or the part of one expert. Its role is its name with a star for the layer. */
struct unit {
    char name[BN_GGUF_MAX_NAME_BYTES + 33], role[BN_GGUF_MAX_NAME_BYTES + 1];
    enum kind kind;
    double figures[BN_RUN_FIGURES]; /* NaN: there is none */
    double low[BN_RUN_FIGURES], high[BN_RUN_FIGURES];
    struct unit *first, *next, *last; /* of its role: the first one has the ranges, and knows the last one */
};

struct judge {
    struct unit *units;
    size_t n;
    uint64_t n_zero_rows; /* of matrices outside of layers: tokens that nothing was trained for */
    double *room;         /* for n figures */
    struct bn_table findings;
    size_t n_damaged; /* units */
    bool failed;      /* memory was short */
};

static void name_unit(struct unit *u, const struct bn_gguf_tensor *t, uint64_t expert, bool of_experts)
{
    char number[24] = "";
    if (of_experts) snprintf(number, sizeof number, "[%llu]", (unsigned long long)expert);
    bn_escape(u->role, sizeof u->role, t->name.ptr, t->name.len);
    snprintf(u->name, sizeof u->name, "%s%s", u->role, number);
    for (char *part = u->role; part != NULL;
         part = strchr(part, '.') != NULL ? strchr(part, '.') + 1 : NULL) {
        size_t n = strspn(part, "0123456789");
        if (n == 0 || (part[n] != '.' && part[n] != '\0')) continue;
        memmove(part + 1, part + n, strlen(part + n) + 1);
        *part = '*';
        break;
    }
}

static enum kind kind_of(const struct bn_gguf_tensor *t, const char *name)
{
    if (bn_type_info(t->type)->unpack != NULL) return TERNARY;
    if (t->n_dims > 1) return FLOATS;
    return strstr(name, "norm") != NULL && strstr(name, ".bias") == NULL ? NORM : VECTOR;
}

/* How many units a tensor is: a file that is not a model may have any shape. */
static uint64_t parts_of(const struct bn_gguf_tensor *t)
{
    return t->ne[2] <= MAX_EXPERTS && t->ne[3] == 1 ? t->ne[2] : 1;
}

static bn_status read_unit(struct unit *u, const struct bn_gguf_tensor *t, uint64_t expert,
                           uint64_t *n_zero_rows, bn_error *err)
{
    struct bn_run_stats s;
    uint64_t n_rows = t->ne[1] * t->ne[2] * t->ne[3] / parts_of(t);
    BN_TRY(bn_run_read_stats(&s, t, expert * n_rows, n_rows, err));
    name_unit(u, t, expert, parts_of(t) > 1);
    u->kind = kind_of(t, u->name);
    double n_signed = (double)(s.codes[0] + s.codes[2] + s.codes[3]), n = n_signed + (double)s.codes[1];
    u->figures[BN_RUN_INVALID] = (double)s.n_invalid;
    u->figures[BN_RUN_ZEROS] = (double)s.codes[1] / n;
    u->figures[BN_RUN_PLUS] = n_signed < MIN_SIGNED ? (double)NAN : 1.0 - (double)s.codes[0] / n_signed;
    u->figures[BN_RUN_SIZE] = s.size;
    u->figures[BN_RUN_SPREAD] = s.spread;
    u->figures[BN_RUN_EQUAL] = (double)s.n_equal;
    if (t->n_dims == 2 && strcmp(u->role, u->name) == 0) *n_zero_rows += s.n_zero_rows;
    return BN_OK;
}

static bn_status read_units(struct judge *j, const struct bn_gguf *gguf, bn_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < gguf->n_tensors; i++)
        n += parts_of(&gguf->tensors[i]);
    if (n > MAX_UNITS) return bn_fail(err, BN_ERR_LIMIT, "more than %u tensors and experts", MAX_UNITS);
    BN_TRY(BN_NEW(j->units, n, err));
    BN_TRY(BN_NEW(j->room, n, err));
    for (size_t i = 0; i < gguf->n_tensors; i++)
        for (uint64_t e = 0; e < parts_of(&gguf->tensors[i]); e++) {
            struct unit *u = &j->units[j->n++], *first = j->units;
            BN_TRY(read_unit(u, &gguf->tensors[i], e, &j->n_zero_rows, err));
            while (strcmp(first->role, u->role) != 0)
                first++;
            if (first != u) first->last->next = u;
            first->last = u;
            u->first = first;
        }
    return BN_OK;
}

/* ---- judging ---- */

/* The range of a figure in the units of a role. */
static void set_range(struct judge *j, struct unit *first, const struct rule *rule)
{
    const bool of_size = rule->figure == BN_RUN_SIZE;
    double *low = &first->low[rule->figure], *high = &first->high[rule->figure];
    struct bn_summary s;
    size_t n = 0;
    *low = rule->low;
    *high = rule->high;
    for (const struct unit *u = first; u != NULL; u = u->next) {
        double x = u->figures[rule->figure];
        if (x >= rule->low && x <= rule->high) j->room[n++] = of_size ? bn_log(x) : x;
    }
    if (rule->near <= 0.0 || n < MIN_NEIGHBOURS) return;
    j->failed |= !bn_summarize(&s, j->room, n);
    double distance = fmax(of_size ? bn_log(rule->near) : rule->near, SIGMAS * BN_MAD_SIGMA * s.mad);
    *low = fmax(*low, of_size ? bn_exp(s.median - distance) : s.median - distance);
    *high = fmin(*high, of_size ? bn_exp(s.median + distance) : s.median + distance);
}

static void judge_unit(struct judge *j, struct unit *u)
{
    size_t before = j->findings.n_rows;
    for (const struct rule *rule = RULES; rule < RULES + BN_ARRAY_LEN(RULES); rule++) {
        if (rule->kind != u->kind) continue;
        if (u->first == u) set_range(j, u, rule);
        const double x = u->figures[rule->figure];
        const double columns[] = {x, u->first->low[rule->figure], u->first->high[rule->figure]};
        if (!(x < columns[1] || x > columns[2])) continue;
        bn_table_row(&j->findings, "");
        bn_table_text(&j->findings, u->name);
        bn_table_text(&j->findings, rule->what);
        for (size_t i = 0; i < BN_ARRAY_LEN(columns); i++) {
            bn_table_printf(&j->findings, "%.4g", columns[i]);
            bn_table_exact(&j->findings, columns[i], "");
        }
    }
    j->n_damaged += j->findings.n_rows > before;
}

bn_status bn_run_judge(bn_json *doc, const struct bn_gguf *gguf, struct bn_args *args, bn_error *err)
{
    static const char *const HEADS[] = {"tensor", "what", "value", "lowest", "highest"};
    struct bn_buf text = {.max = 64u << 20};
    struct judge j = {0};
    bn_table_begin(&j.findings, HEADS, "llrrr");
    bn_status status = read_units(&j, gguf, err);
    for (size_t i = 0; i < j.n && status == BN_OK; i++)
        judge_unit(&j, &j.units[i]);
    if (status == BN_OK && (j.failed || j.findings.failed)) status = bn_nomem(err);
    if (j.n_damaged != 0) args->exit_code = BN_EXIT_NEGATIVE;
    bn_table_put_json(doc, "findings", &j.findings);
    bn_json_put_u64(doc, "tensors_judged", j.n);
    bn_json_put_u64(doc, "tensors_damaged", j.n_damaged);
    bn_json_put_u64(doc, "zero_rows", j.n_zero_rows);
    if (j.n_damaged != 0) bn_table_put_text(&text, &j.findings);
    if (status == BN_OK && !bn_json_is_complete(doc)) status = bn_nomem(err);
    if (status == BN_OK) status = bn_buf_check(&text, err);
    if (status == BN_OK && args->json) status = bn_cli_print_json(doc, err);
    if (status == BN_OK && !args->json) {
        fputs(bn_buf_text(&text), stdout);
        if (j.n_zero_rows != 0)
            printf("%llu all-zero rows of embedding and head: tokens without training, no damage\n",
                   (unsigned long long)j.n_zero_rows);
        printf("%zu of %zu tensors look damaged\n", j.n_damaged, j.n);
    }
    bn_buf_release(&text);
    bn_table_release(&j.findings);
    bn_free(j.units);
    bn_free(j.room);
    return status;
}
