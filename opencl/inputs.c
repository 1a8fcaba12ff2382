/* SPDX-License-Identifier: MIT
 *
 * The inputs of linear layers on a device, and their products. What one launch can do together, it does: what a half of a
 * layer adds to the residual stream, its norm, the activation function and quantising are one kernel (prepare). While a
 * trace is taken each of them is a launch of its own.
 */
#include <math.h>
#include <string.h>

#include "opencl/pass.h"

#define COLUMNS 64u /* work-items of a group that have a column each */

void bn_cl_run_rows(const struct bn_cl_pass *p, enum bn_cl_kernel kernel, size_t n,
                    const struct bn_cl_arg *args, size_t n_args, struct bn_cl_work work)
{
    const size_t local[2] = {p->group, 1}, global[2] = {n * p->group, 1};
    bn_cl_run(p->q, kernel, global, local, args, n_args, work);
}

void bn_cl_run_columns(const struct bn_cl_pass *p, enum bn_cl_kernel kernel, size_t columns, size_t n,
                       const struct bn_cl_arg *args, size_t n_args, struct bn_cl_work work)
{
    const size_t local[2] = {COLUMNS, 1}, global[2] = {bn_cl_round_up(columns, COLUMNS), n};
    bn_cl_run(p->q, kernel, global, local, args, n_args, work);
}

/* Calls the trace with n rows of some columns of a buffer, ld apart. */
void bn_cl_trace_pieces(const struct bn_cl_pass *p, const char *op, int32_t layer, cl_mem from, size_t at,
                        size_t ld, size_t n_pieces, size_t stride, size_t cols)
{
    float *rows = p->d->traced;
    if (rows == NULL) return;
    for (size_t j = 0; j < p->n; j++)
        for (size_t i = 0; i < n_pieces; i++)
            bn_cl_read(p->q, rows + (j * n_pieces + i) * cols, from,
                       (at + j * ld + i * stride) * sizeof *rows, cols * sizeof *rows);
    if (bn_cl_finish(p->q, NULL) == BN_OK)
        bn_trace_sequences(p->s, op, layer, rows, p->rows, NULL, p->n, n_pieces * cols);
}

void bn_cl_trace(const struct bn_cl_pass *p, const char *op, int32_t layer, cl_mem from, size_t at, size_t ld,
                 size_t cols)
{
    bn_cl_trace_pieces(p, op, layer, from, at, ld, 1, 0, cols);
}

/* ---- inputs of linear layers ---- */

/* How the inputs of a linear layer are quantised. */
struct format {
    uint32_t bits, group;
};

static struct format format_of(const struct bn_cl_pass *p, const struct bn_cl_linear *next)
{
    if (next == NULL) return (struct format){0, 0};
    if (next == &p->d->device->head_linear) return (struct format){16, next->group};
    return (struct format){p->s->model->wide ? 16 : 8, p->s->model->group};
}

/* The slots that a launch computes, in this order. */
static size_t steps_of(const struct bn_cl_pass *p, const struct bn_cl_inputs *in, enum bn_kernel steps[5])
{
    static const enum bn_kernel ACTIVATIONS[] = {[BN_ACTIVATION_RELU2] = BN_KERNEL_RELU2_MUL,
                                                 [BN_ACTIVATION_SILU] = BN_KERNEL_SILU_MUL,
                                                 [BN_ACTIVATION_GELU] = BN_KERNEL_GELU_MUL};
    size_t n = 0;
    if (in->adds && in->add_norm != NULL) steps[n++] = BN_KERNEL_RMSNORM;
    if (in->adds) steps[n++] = BN_KERNEL_ADD;
    if (in->activates) steps[n++] = ACTIVATIONS[p->hp->activation];
    if (in->norm != NULL) steps[n++] = BN_KERNEL_RMSNORM;
    if (in->next != NULL && in->next != &p->d->device->head_linear) /* as on the CPU */
        steps[n++] = format_of(p, in->next).bits == 16 ? BN_KERNEL_QUANTIZE16 : BN_KERNEL_QUANTIZE;
    return n;
}

void bn_cl_prepare_rows(const struct bn_cl_pass *p, const struct bn_cl_inputs *in)
{
    static const uint32_t ACTIVATIONS[] = {
        [BN_ACTIVATION_RELU2] = 1, [BN_ACTIVATION_SILU] = 2, [BN_ACTIVATION_GELU] = 3};
    struct bn_device_session *d = p->d;
    const struct bn_cl_linear *next = in->next;
    struct format format = format_of(p, next);
    const struct bn_cl_arg args[] = {BN_CL_MEM(in->x),
                                     BN_CL_U32(in->ld),
                                     BN_CL_MEM(in->index),
                                     BN_CL_MEM(in->adds ? d->y : NULL),
                                     BN_CL_U32(d->ld_y),
                                     BN_CL_MEM(in->adds ? in->add_norm : NULL),
                                     BN_CL_U32(d->up_at),
                                     BN_CL_U32(in->activates ? ACTIVATIONS[p->hp->activation] : 0),
                                     BN_CL_F32(p->hp->experts.n != 0 ? p->hp->experts.limit : INFINITY),
                                     BN_CL_MEM(in->norm),
                                     BN_CL_MEM(in->out),
                                     BN_CL_U32(in->ld_out),
                                     BN_CL_MEM(next != NULL ? next->signs : NULL),
                                     BN_CL_U32(next != NULL ? next->block : 0),
                                     BN_CL_MEM(d->rotated),
                                     BN_CL_U32(d->ld_norm),
                                     BN_CL_U32(format.bits),
                                     BN_CL_MEM(d->high),
                                     BN_CL_MEM(d->low),
                                     BN_CL_MEM(d->step),
                                     BN_CL_MEM(d->sum),
                                     BN_CL_MEM(d->scale),
                                     BN_CL_MEM(d->total),
                                     BN_CL_U32(in->width),
                                     BN_CL_U32(bn_act_padded(in->width)),
                                     BN_CL_U32(format.group),
                                     BN_CL_F32(p->hp->rms_eps),
                                     BN_CL_MEM(d->bad)};
    const uint64_t elements = (uint64_t)in->n * in->width;
    enum bn_kernel steps[5];
    size_t n_steps = steps_of(p, in, steps);
    for (size_t i = 0; i + 1 < n_steps; i++)
        bn_cl_count(p, steps[i], elements);
    bn_cl_run_rows(p, BN_CL_prepare, in->n, args, BN_ARRAY_LEN(args),
                   bn_cl_work(p, steps[n_steps - 1], 0, elements));
}

/* Launches the steps up to the norm, whose result the others read. */
static void launch_norm(const struct bn_cl_pass *p, struct bn_cl_inputs *in, const char *op, int32_t layer)
{
    struct bn_cl_inputs first = *in;
    first.next = NULL;
    bn_cl_prepare_rows(p, &first);
    bn_cl_trace(p, op, layer, first.out, 0, first.ld_out, first.width);
    *in = (struct bn_cl_inputs){
        .x = first.out, .n = first.n, .width = first.width, .ld = first.ld_out, .next = in->next};
}

void bn_cl_prepare(struct bn_cl_pass *p, struct bn_cl_inputs in, struct bn_cl_ops ops, int32_t layer)
{
    struct bn_device_session *d = p->d;
    const struct bn_cl_linear *next = in.next;
    bool traced = d->traced != NULL, normed = next != NULL && next->norm != NULL;
    if (in.x == d->x && p->adds) {
        in.adds = true;
        in.add_norm = p->add_norm;
        p->adds = false;
    }
    if (traced && in.activates) {
        struct bn_cl_inputs first = in;
        first.next = NULL;
        first.norm = NULL;
        bn_cl_prepare_rows(p, &first);
        in.activates = false;
        bn_cl_trace(p, "ffn_act", layer, in.x, 0, in.ld, in.width);
    }
    if (in.norm != NULL && (traced || normed)) launch_norm(p, &in, ops.norm, layer);
    if (normed) {
        in.norm = next->norm;
        in.out = in.x == d->norm ? d->norm_in : d->norm;
        in.ld_out = d->ld_norm;
        if (traced) launch_norm(p, &in, ops.norm_in, layer);
    }
    if (next != NULL || in.norm != NULL) bn_cl_prepare_rows(p, &in);
}

/* y is normalised in place, then x += y. */
static void add_now(struct bn_cl_pass *p, cl_mem norm, struct bn_cl_ops ops, int32_t layer)
{
    struct bn_device_session *d = p->d;
    size_t embd = p->hp->n_embd;
    struct bn_cl_inputs y = {
        .x = d->y, .n = p->n, .width = embd, .ld = d->ld_y, .norm = norm, .out = d->y, .ld_out = d->ld_y};
    if (norm != NULL) launch_norm(p, &y, ops.norm, layer);
    bn_cl_prepare_rows(p,
                       &(struct bn_cl_inputs){.x = d->x, .n = p->n, .width = embd, .ld = embd, .adds = true});
    bn_cl_trace(p, ops.norm_in, layer, d->x, 0, embd, embd);
    p->adds = false;
}

void bn_cl_add_pending(struct bn_cl_pass *p)
{
    if (p->adds) add_now(p, p->add_norm, (struct bn_cl_ops){NULL, NULL}, -1);
}

void bn_cl_add_residual(struct bn_cl_pass *p, cl_mem norm, struct bn_cl_ops ops, int32_t layer)
{
    p->adds = true;
    p->add_norm = norm;
    if (p->d->traced != NULL) add_now(p, norm, ops, layer);
}

/* ---- products ---- */

/* Rows of W, of one expert where there are some, times n rows of activations. */
struct product {
    cl_mem y, experts; /* experts: of each row; NULL: none */
    size_t ldy, at, rows, shared, n;
};

static void launch_product(const struct bn_cl_pass *p, const struct bn_cl_linear *lin,
                           const struct product *w, struct bn_cl_work work)
{
    struct bn_device_session *d = p->d;
    const struct bn_cl_device *cl = d->device->cl;
    bool gemv = w->n == 1 || w->experts != NULL;
    const cl_uint n = (cl_uint)w->n;
    struct bn_cl_arg args[] = {BN_CL_MEM(w->y),
                               BN_CL_U32(w->ldy),
                               BN_CL_U32(w->at),
                               BN_CL_MEM(lin->codes),
                               BN_CL_MEM(lin->scales),
                               BN_CL_MEM(lin->row_scale),
                               BN_CL_U32(lin->k),
                               BN_CL_U32(lin->group),
                               BN_CL_U32(format_of(p, lin).bits),
                               BN_CL_MEM(d->high),
                               BN_CL_MEM(d->low),
                               BN_CL_MEM(d->step),
                               BN_CL_MEM(d->sum),
                               BN_CL_MEM(d->scale),
                               BN_CL_MEM(d->total),
                               BN_CL_U32(bn_act_padded(lin->width)),
                               BN_CL_MEM(w->experts),
                               BN_CL_U32(w->rows),
                               BN_CL_U32(w->shared)};
    const size_t n_args = BN_ARRAY_LEN(args) - !gemv, rows_each = cl->is_cpu ? BN_TILE_ROWS : 1;
    if (!gemv) { /* in place of the last three: rows, tokens */
        args[n_args - 2] = args[n_args - 1];
        args[n_args - 1] = (struct bn_cl_arg){sizeof n, &n};
    }
    const size_t across = cl->is_cpu ? 1 : gemv ? 16 : 8, tokens = gemv ? 1 : across * BN_CL_TOKENS;
    const size_t local[2] = {BN_TILE_ROWS / rows_each, across},
                 global[2] = {bn_cl_round_up(w->rows, BN_TILE_ROWS) / rows_each,
                              (w->n + tokens - 1) / tokens * across};
    bn_cl_run(p->q, gemv ? BN_CL_ternary_gemv : BN_CL_ternary_gemm, global, local, args, n_args, work);
}

void bn_cl_multiply(const struct bn_cl_pass *p, const struct bn_cl_linear *lin, cl_mem y, size_t ldy,
                    size_t at, size_t n)
{
    enum bn_kernel slot = n == 1 ? BN_KERNEL_TERNARY_GEMV : BN_KERNEL_TERNARY_GEMM;
    uint64_t rows = 0, bytes = 0; /* without padding */
    for (size_t i = 0; i < lin->n_parts; i++) {
        if (i > 0) bn_cl_count(p, slot, 0); /* a call for each matrix */
        rows += lin->part[i]->w.rows;
        bytes += lin->part[i]->w.rows * lin->part[i]->row_bytes;
        if (p->s->dispatch != NULL) p->s->dispatch(p->s->dispatch_user, lin->part[i], slot);
    }
    launch_product(p, lin, &(struct product){.y = y, .ldy = ldy, .at = at, .rows = lin->rows, .n = n},
                   bn_cl_work(p, slot, p->more ? 0 : bytes, rows * lin->width * n));
}

void bn_cl_multiply_experts(const struct bn_cl_pass *p, const struct bn_cl_linear *lin, cl_mem y, size_t ldy,
                            size_t at, size_t rows_each, size_t shared)
{
    enum bn_kernel slot = p->n == 1 ? BN_KERNEL_TERNARY_GEMV : BN_KERNEL_TERNARY_GEMM;
    size_t n = p->n * p->hp->experts.n_used;
    if (p->s->dispatch != NULL) p->s->dispatch(p->s->dispatch_user, lin->part[0], slot);
    launch_product(p, lin,
                   &(struct product){.y = y,
                                     .ldy = ldy,
                                     .at = at,
                                     .experts = p->d->experts,
                                     .rows = rows_each,
                                     .shared = shared,
                                     .n = n},
                   bn_cl_work(p, slot, 0,
                              (uint64_t)rows_each * lin->width * n)); /* its bytes: count_experts of pass.c */
}

void bn_cl_multiply_floats(const struct bn_cl_pass *p, cl_mem w, bool f16, uint64_t n_bytes, size_t rows,
                           size_t k, cl_mem x, size_t ldx, cl_mem y, size_t ldy, size_t n)
{
    size_t rows_each = p->group > 16 ? p->group / 16 : 1;
    const struct bn_cl_arg args[] = {BN_CL_MEM(y), BN_CL_U32(ldy), BN_CL_MEM(w),   BN_CL_U32(rows),
                                     BN_CL_U32(k), BN_CL_MEM(x),   BN_CL_U32(ldx), BN_CL_U32(n)};
    const size_t local[2] = {16, rows_each}, global[2] = {16, bn_cl_round_up(rows, rows_each)};
    bn_cl_run(p->q, f16 ? BN_CL_f16_gemm : BN_CL_f32_gemm, global, local, args, BN_ARRAY_LEN(args),
              bn_cl_work(p, f16 ? BN_KERNEL_F16_GEMM : BN_KERNEL_F32_GEMM, p->more ? 0 : n_bytes,
                         (uint64_t)rows * k * n));
}

struct bn_cl_inputs bn_cl_stream(const struct bn_cl_pass *p, cl_mem norm)
{
    const size_t embd = p->hp->n_embd;
    return (struct bn_cl_inputs){.x = p->d->x,
                                 .n = p->n,
                                 .width = embd,
                                 .ld = embd,
                                 .norm = norm,
                                 .out = p->d->norm,
                                 .ld_out = p->d->ld_norm};
}

void bn_cl_project(struct bn_cl_pass *p, const struct bn_cl_linear *lin, size_t n_lin, struct bn_cl_inputs in,
                   cl_mem y, size_t ldy, const char *norm_op, const char *const *in_ops,
                   const char *const *ops, int32_t layer)
{
    size_t at = 0, part = 0;
    for (size_t i = 0; i < n_lin; i++) {
        in.next = &lin[i];
        bn_cl_prepare(p, in, (struct bn_cl_ops){norm_op, in_ops[part]}, layer);
        if (i == 0 && n_lin > 1)
            in = (struct bn_cl_inputs){.x = in.out, .n = in.n, .width = in.width, .ld = in.ld_out};
        bn_cl_multiply(p, &lin[i], y, ldy, at, p->n);
        for (size_t k = 0; k < lin[i].n_parts; k++, part++)
            bn_cl_trace(p, ops[part], layer, y, at + lin[i].at[k], ldy, lin[i].part[k]->w.rows);
        at += lin[i].rows;
    }
}
