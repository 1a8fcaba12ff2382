/* SPDX-License-Identifier: MIT
 *
 * Traces in memory: adding and comparing the intermediates of evaluations. A comparison is one pass
 * over the operations in the order of computing; errors of the rows are kept for the operations of one layer
 * and for the residual stream that enters it.
 */
#include "lab/compare/trace.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

static const struct {
    const char *name;
    enum bn_op_kind kind;
    enum bn_op inputs[3]; /* BN_AT_COUNT in unused places */
} OPS[BN_AT_COUNT] = {
#define ROW(op, name, kind, a, b, c) {name, BN_OP_##kind, {BN_AT_##a, BN_AT_##b, BN_AT_##c}},
    BN_OPS(ROW)
#undef ROW
};

const char *bn_op_name(enum bn_op op)
{
    return (unsigned)op < BN_AT_COUNT ? OPS[op].name : "?";
}

enum bn_op_kind bn_op_kind_of(enum bn_op op)
{
    return OPS[op].kind;
}

static bool is_in_layer(enum bn_op op)
{
    return op >= BN_AT_ATTN_NORM && op <= BN_AT_FFN_RES;
}

/* ---- gathering ---- */

static struct bn_record *find(const struct bn_records *records, enum bn_op op, int32_t layer)
{
    for (size_t i = 0; i < records->n; i++)
        if (records->list[i].op == op && records->list[i].layer == layer) return &records->list[i];
    return NULL;
}

bn_status bn_records_add(struct bn_records *records, const char *name, int32_t layer, size_t rows,
                         size_t cols, const float *data, bn_error *err)
{
    enum bn_op op = (enum bn_op)BN_FIND(OPS, name); /* BN_AT_COUNT for an unknown one */
    if (op == BN_AT_COUNT || is_in_layer(op) != (layer >= 0)) return BN_OK;
    struct bn_record *r = find(records, op, layer);
    if (r == NULL) {
        BN_TRY(bn_array_grow(&records->list, &records->room, records->n + 1, sizeof *r, err));
        r = &records->list[records->n++];
        *r = (struct bn_record){.op = op, .layer = layer, .cols = cols};
    }
    if (r->cols != cols)
        return bn_fail(err, BN_ERR_FORMAT, "%s of layer %d has rows of %zu and of %zu numbers", name,
                       (int)layer, r->cols, cols);
    uint64_t n = 0;
    float *grown = NULL;
    if (bn_mul_ok(r->rows + rows, cols, &n)) grown = bn_realloc(r->data, n, sizeof *grown);
    if (grown == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for a trace");
    memcpy(grown + r->rows * cols, data, rows * cols * sizeof *data);
    r->data = grown;
    r->rows += rows;
    return BN_OK;
}

/* A trace callback. */
static void take(void *user, const bn_trace_record *record)
{
    struct bn_records *records = user;
    if (records->err.code != BN_OK) return;
    (void)!bn_records_add(records, record->op, record->layer, record->rows, record->cols, record->data,
                          &records->err);
}

bn_status bn_records_evaluate(struct bn_records *records, bn_session *session, size_t n_vocab,
                              const int32_t *ids, size_t n, bn_error *err)
{
    float *logits = bn_alloc(n, n_vocab * sizeof *logits);
    if (logits == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for a trace of %zu tokens", n);
    bn_status status = bn_session_truncate(session, 0, err);
    bn_session_set_trace(session, take, records);
    if (status == BN_OK) status = bn_session_eval(session, ids, n, BN_LOGITS_ALL, logits, err);
    bn_session_set_trace(session, NULL, NULL);
    bn_free(logits);
    if (status == BN_OK && records->err.code != BN_OK) {
        *err = records->err;
        status = err->code;
    }
    return status;
}

void bn_records_release(struct bn_records *records)
{
    for (size_t i = 0; i < records->n; i++)
        bn_free(records->list[i].data);
    bn_free(records->list);
    *records = (struct bn_records){0};
}

/* ---- comparing two traces ---- */

const char *bn_found_name(enum bn_found found)
{
    static const char *const NAMES[] = {"within",          "out",       "absent_here", "absent", "shape",
                                        "not_finite_here", "not_finite"};
    return (unsigned)found < BN_ARRAY_LEN(NAMES) ? NAMES[found] : "?";
}

/* Above 1 it is out of tolerance. */
static double excess(double error, double allowed)
{
    if (error <= 0) return 0;
    return allowed > 0 ? error / allowed : HUGE_VAL;
}

struct pass {
    const struct bn_records *a, *b;
    const struct bn_growth *growth;
    struct bn_bisection *out;
    size_t n_rows;
    bool recurrent;              /* the layer has no attention */
    double *errors[BN_AT_COUNT]; /* n_rows each: of this layer; BN_AT_EMBD: of what enters it */
};

/* The error that row r of an operation is handed. */
static double handed(const struct pass *p, enum bn_op op, size_t r)
{
    static const enum bn_op OF_RECURRENT[3] = {BN_AT_Z, BN_AT_CONV, BN_AT_ATTN_NORM};
    double e = 0;
    const enum bn_op *inputs = op == BN_AT_ATTN_OUT && p->recurrent ? OF_RECURRENT : OPS[op].inputs;
    for (size_t i = 0; i < 3 && inputs[i] != BN_AT_COUNT; i++) {
        bool all_before =
            op == BN_AT_CONV || (op == BN_AT_ATTN_OUT && inputs[i] != BN_AT_Q_ROPE && inputs[i] != BN_AT_Z);
        for (size_t from = all_before ? 0 : r; from <= r; from++)
            e = fmax(e, p->errors[inputs[i]][from]);
    }
    return e;
}

static double allowed(const struct pass *p, enum bn_op op, double e)
{
    const struct bn_growth *g = &p->growth[bn_op_kind_of(op)];
    return g->floor + g->gain * e + g->flip * sqrt(e);
}

/* An operation that one side lacks: it added all that it may. A norm that the model does not have adds
 * nothing. */
static void assume(struct pass *p, enum bn_op op, bool exists)
{
    for (size_t r = 0; r < p->n_rows; r++) {
        double e = handed(p, op, r);
        p->errors[op][r] = exists ? allowed(p, op, e) : e;
    }
}

static void compare_rows(struct pass *p, struct bn_finding *f, const struct bn_record *a,
                         const struct bn_record *b)
{
    struct bn_metrics m;
    double worst = -1;
    f->cosine = 1;
    f->same_bits = true;
    for (size_t r = 0; r < a->rows; r++) {
        bn_metrics_of(&m, a->data + r * a->cols, b->data + r * b->cols, a->cols);
        f->same_bits = f->same_bits && m.same_bits;
        bool finite = m.bad_a == a->cols && m.bad_b == a->cols;
        double error = finite ? m.of[BN_METRIC_NRMSE] : HUGE_VAL, e = handed(p, f->op, r);
        if (!finite && f->found == BN_FOUND_WITHIN)
            f->found = m.bad_b < a->cols ? BN_FOUND_NOT_FINITE_B : BN_FOUND_NOT_FINITE_A;
        p->errors[f->op][r] = error;
        f->nrmse = fmax(f->nrmse, error);
        f->cosine = fmin(f->cosine, finite ? m.of[BN_METRIC_COSINE] : -1.0);
        double may = allowed(p, f->op, e);
        if (excess(error, may) <= worst) continue;
        worst = excess(error, may);
        f->row = r;
        f->error = error;
        f->handed = e;
        f->allowed = may;
    }
    if (worst > 1 && f->found == BN_FOUND_WITHIN) f->found = BN_FOUND_OUT;
}

static void count(struct bn_bisection *out, const struct bn_finding *f)
{
    bool compared =
        f->found != BN_FOUND_ABSENT_A && f->found != BN_FOUND_ABSENT_B && f->found != BN_FOUND_SHAPE;
    bool bad = f->found != BN_FOUND_WITHIN && f->found != BN_FOUND_ABSENT_B;
    if (compared) {
        out->n_compared++;
        out->n_values += f->rows * f->cols;
        out->n_same_bits += f->same_bits;
    }
    if (compared && !f->same_bits && out->first_bits == SIZE_MAX) out->first_bits = out->n;
    if (bad && out->first == SIZE_MAX) out->first = out->n;
    out->n_absent += f->found == BN_FOUND_ABSENT_B;
    out->n++;
}

static void visit(struct pass *p, enum bn_op op, int32_t layer)
{
    const struct bn_record *a = find(p->a, op, layer), *b = find(p->b, op, layer);
    if (op == BN_AT_MIX) p->recurrent = a != NULL || b != NULL;
    const struct bn_record *one = a != NULL ? a : b;
    if (one == NULL) {
        assume(p, op, bn_op_kind_of(op) != BN_OP_NORM);
        return;
    }
    struct bn_finding *f = &p->out->list[p->out->n];
    *f = (struct bn_finding){.op = op, .layer = layer, .rows = one->rows, .cols = one->cols};
    if (a == NULL || b == NULL)
        f->found = a == NULL ? BN_FOUND_ABSENT_A : BN_FOUND_ABSENT_B;
    else if (a->rows != b->rows || a->cols != b->cols || a->rows != p->n_rows)
        f->found = BN_FOUND_SHAPE;
    if (f->found == BN_FOUND_WITHIN)
        compare_rows(p, f, a, b);
    else
        assume(p, op, true);
    count(p->out, f);
}

static void visit_all(struct pass *p)
{
    visit(p, BN_AT_EMBD, -1);
    for (size_t layer = 0; layer < p->out->n_layers; layer++) {
        for (int op = BN_AT_ATTN_NORM; op <= BN_AT_FFN_RES; op++)
            visit(p, (enum bn_op)op, (int32_t)layer);
        /* The residual stream goes on into the next layer. */
        memcpy(p->errors[BN_AT_EMBD], p->errors[BN_AT_FFN_RES], p->n_rows * sizeof(double));
    }
    visit(p, BN_AT_OUTPUT_NORM, -1);
    visit(p, BN_AT_LOGITS, -1);
}

static size_t count_layers(const struct bn_records *records)
{
    size_t n = 0;
    for (size_t i = 0; i < records->n; i++)
        if (records->list[i].layer >= 0 && (size_t)records->list[i].layer >= n)
            n = (size_t)records->list[i].layer + 1;
    return n;
}

bn_status bn_bisect(struct bn_bisection *out, const struct bn_records *a, const struct bn_records *b,
                    const struct bn_growth growth[BN_OP_KIND_COUNT], bn_error *err)
{
    struct pass p = {.a = a, .b = b, .growth = growth, .out = out};
    *out = (struct bn_bisection){.first = SIZE_MAX, .first_bits = SIZE_MAX, .n_layers = count_layers(a)};
    /* Layers that this engine does not have are not looked at; their number differs in the first of them. */
    for (size_t i = 0; i < a->n; i++)
        if (a->list[i].rows > p.n_rows) p.n_rows = a->list[i].rows;
    out->list = bn_alloc(out->n_layers * BN_AT_COUNT + BN_AT_COUNT, sizeof *out->list);
    double *errors = bn_alloc(p.n_rows * BN_AT_COUNT, sizeof *errors);
    bn_status status = BN_OK;
    if (out->list == NULL || errors == NULL) status = bn_nomem(err);
    for (size_t op = 0; op < BN_AT_COUNT && status == BN_OK; op++)
        p.errors[op] = errors + op * p.n_rows;
    if (status == BN_OK) visit_all(&p);
    if (out->first == SIZE_MAX) out->first = out->n;
    if (out->first_bits == SIZE_MAX) out->first_bits = out->n;
    bn_free(errors);
    if (status != BN_OK) bn_bisection_release(out);
    return status;
}

void bn_bisection_release(struct bn_bisection *bisection)
{
    bn_free(bisection->list);
    *bisection = (struct bn_bisection){0};
}
