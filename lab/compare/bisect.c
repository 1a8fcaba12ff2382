/* SPDX-License-Identifier: MIT
 *
 * Finds the operation where two traces part. One pass over the operations in the order of computing; errors
 * of the rows are kept for the operations of one layer and for the residual stream that enters it.
 */
#include "lab/compare/bisect.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

const char *bn_found_name(enum bn_found found)
{
    static const char *const NAMES[] = {"within",          "out",       "absent_here", "absent", "shape",
                                        "not_finite_here", "not_finite"};
    return (unsigned)found < BN_ARRAY_LEN(NAMES) ? NAMES[found] : "?";
}

double bn_finding_excess(const struct bn_finding *f)
{
    if (f->error <= 0) return 0;
    return f->allowed > 0 ? f->error / f->allowed : HUGE_VAL;
}

struct pass {
    const struct bn_records *a, *b;
    const struct bn_growth *growth;
    struct bn_bisection *out;
    size_t n_rows;
    bool recurrent;              /* the layer has no attention */
    double *errors[BN_AT_COUNT]; /* n_rows each: of this layer; BN_AT_EMBD: of what enters it */
    bn_error *err;
};

/* The error that row r of an operation is handed. */
static double handed(const struct pass *p, enum bn_op op, size_t r)
{
    static const enum bn_op OF_RECURRENT[3] = {BN_AT_Z, BN_AT_CONV, BN_AT_ATTN_NORM};
    double e = 0;
    const enum bn_op *inputs = op == BN_AT_ATTN_OUT && p->recurrent ? OF_RECURRENT : bn_op_inputs(op);
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
        f->max_abs = fmax(f->max_abs, finite ? m.of[BN_METRIC_MAX_ABS] : HUGE_VAL);
        f->cosine = fmin(f->cosine, finite ? m.of[BN_METRIC_COSINE] : -1.0);
        struct bn_finding row = {.error = error, .handed = e, .allowed = allowed(p, f->op, e)};
        if (bn_finding_excess(&row) <= worst) continue;
        worst = bn_finding_excess(&row);
        f->row = r;
        f->error = row.error;
        f->handed = row.handed;
        f->allowed = row.allowed;
    }
    if (worst > 1 && f->found == BN_FOUND_WITHIN) f->found = BN_FOUND_OUT;
}

static bn_status digest(const struct bn_record *r, char hex[BN_SHA256_HEX], bn_error *err)
{
    if (r == NULL) return BN_OK;
    return bn_sha256_hex(r->data, r->rows * r->cols * sizeof *r->data, hex, err);
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
    out->n_out += bad;
    out->n_absent += f->found == BN_FOUND_ABSENT_B;
    out->n++;
}

static bn_status visit(struct pass *p, enum bn_op op, int32_t layer)
{
    const struct bn_record *a = bn_records_find(p->a, op, layer), *b = bn_records_find(p->b, op, layer);
    if (op == BN_AT_MIX) p->recurrent = a != NULL || b != NULL;
    if (a == NULL && b == NULL) {
        assume(p, op, bn_op_kind_of(op) != BN_OP_NORM);
        return BN_OK;
    }
    struct bn_finding *f = &p->out->list[p->out->n];
    *f = (struct bn_finding){.op = op, .layer = layer};
    f->rows = a != NULL ? a->rows : b->rows;
    f->cols = a != NULL ? a->cols : b->cols;
    BN_TRY(digest(a, f->sha_a, p->err));
    BN_TRY(digest(b, f->sha_b, p->err));
    if (a == NULL || b == NULL)
        f->found = a == NULL ? BN_FOUND_ABSENT_A : BN_FOUND_ABSENT_B;
    else if (a->rows != b->rows || a->cols != b->cols || a->rows != p->n_rows)
        f->found = BN_FOUND_SHAPE;
    if (f->found == BN_FOUND_WITHIN)
        compare_rows(p, f, a, b);
    else
        assume(p, op, true);
    count(p->out, f);
    return BN_OK;
}

static bn_status visit_all(struct pass *p)
{
    BN_TRY(visit(p, BN_AT_EMBD, -1));
    for (size_t layer = 0; layer < p->out->n_layers; layer++) {
        for (int op = BN_AT_ATTN_NORM; op <= BN_AT_FFN_RES; op++)
            BN_TRY(visit(p, (enum bn_op)op, (int32_t)layer));
        /* The residual stream goes on into the next layer. */
        memcpy(p->errors[BN_AT_EMBD], p->errors[BN_AT_FFN_RES], p->n_rows * sizeof(double));
    }
    BN_TRY(visit(p, BN_AT_OUTPUT_NORM, -1));
    return visit(p, BN_AT_LOGITS, -1);
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
    struct pass p = {.a = a, .b = b, .growth = growth, .out = out, .err = err};
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
    if (status == BN_OK) status = visit_all(&p);
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
