/* SPDX-License-Identifier: MIT
 *
 * The inputs of linear layers (norms, rotation, quantising) and their products.
 */
#include <math.h>

#include "infer/pass.h"
#include "model/weights.h"

/* Row i of some data is row index[i] of the batch, or i without an index. */
static const struct bn_row *traced_row(const struct bn_row *rows, const uint32_t *index, size_t i)
{
    return &rows[index != NULL ? index[i] : i];
}

void bn_trace_sequences(struct bn_session *s, const char *op, int32_t layer, const float *data,
                        const struct bn_row *rows, const uint32_t *index, size_t n, size_t cols)
{
    for (size_t from = 0, to; from < n; from = to) {
        const struct bn_row *first = traced_row(rows, index, from);
        for (to = from + 1; to < n && traced_row(rows, index, to)->sequence == first->sequence;)
            to++;
        bn_trace_record record = {op, layer, first->position, to - from, cols, data + from * cols};
        s->trace(s->trace_user, &record);
    }
}

void bn_trace_rows(const struct pass *p, const char *op, int32_t layer, const float *data,
                   const uint32_t *index, size_t n, size_t cols)
{
    if (p->s->trace == NULL) return;
    meet(p);
    if (p->thread == 0) bn_trace_sequences(p->s, op, layer, data, p->s->rows, index, n, cols);
    meet(p);
}

void bn_trace_layer(const struct pass *p, const char *op, uint32_t layer, const float *data, size_t cols)
{
    bn_trace_rows(p, op, (int32_t)layer, data, NULL, p->n, cols);
}

/* ---- inputs ---- */

/* Where row j of the inputs is. */
struct row {
    int8_t *q, *low; /* q: 8 bits as quantize makes them, or the high plane */
    float *step;
    int32_t *sum;
    size_t padded;
};

static struct row row_of(const struct pass *p, size_t j, size_t width)
{
    const struct bn_session *s = p->s;
    size_t padded = bn_act_padded(width), at = j * padded, group = j * (padded / BN_MIN_GROUP);
    struct row row = {.q = s->act_q + at, .padded = padded};
    if (s->act_low == NULL) return row;
    row.low = s->act_low + at;
    row.step = s->act_step + group;
    row.sum = s->act_sum + group;
    return row;
}

void bn_quantize_row16(const struct pass *p, size_t j, const float *x, size_t width, size_t group,
                       bool finite)
{
    struct row row = row_of(p, j, width);
    p->s->act[j] =
        (struct bn_act){.high = row.q, .low = row.low, .step = row.step, .sum = row.sum, .scale = 1.0f};
    if (finite) {
        p->kernels->quantize16(row.q, row.low, row.step, row.sum, x, width, group);
        return;
    }
    memset(row.q, 0, width);
    memset(row.low, 0, width);
    memset(row.step, 0, width / group * sizeof *row.step);
    memset(row.sum, 0, width / group * sizeof *row.sum);
}

const float *bn_rotated(const struct pass *p, const struct bn_linear *next, const float *x, size_t width)
{
    if (next->rotation.block == 0) return x;
    float *row = p->s->rotated + (size_t)p->thread * bn_act_padded(width);
    memcpy(row, x, width * sizeof *row);
    p->kernels->rotate(row, next->rotation.signs, width, next->rotation.block, false);
    return row;
}

/* Rows that are not finite end the evaluation with an error; until then they are zero, since the kernels that follow
 * count on sums that a row of int8 can have. */
void bn_quantize_row(const struct pass *p, size_t j, const float *x, const struct bn_linear *next,
                     bool finite)
{
    size_t width = next->k;
    x = bn_rotated(p, next, x, width);
    if (p->m->wide) {
        bn_quantize_row16(p, j, x, width, p->m->group, finite);
        return;
    }
    struct row row = row_of(p, j, width);
    struct bn_act *act = &p->s->act[j];
    *act = (struct bn_act){.q = row.q, .scale = 1.0f};
    memset(row.q + width, 0, row.padded - width);
    if (finite)
        p->kernels->quantize(row.q, &act->scale, &act->total, x, width);
    else
        memset(row.q, 0, width);
    if (p->m->group == 0) return;
    act->low = row.low;
    act->sum = row.sum;
    p->kernels->to_plane(row.low, row.sum, row.q, row.padded, p->m->group);
}

/* The rows that this thread normalises and quantises. */
static void my_rows(const struct pass *p, size_t *from, size_t *to)
{
    *from = 0;
    *to = 1;
    if (p->n > 1) my_share(p, p->n, 1, from, to);
}

/* What this thread adds to the counters: a single token counts once. */
static struct bn_prof_shape row_work(const struct pass *p, size_t from, size_t to, size_t width)
{
    return counted_once(p, shape(p->n > 1 || p->thread == 0 ? to - from : 0, width, 1));
}

const float *bn_norm_rows(const struct pass *p, const char *op, uint32_t layer, const float *in, float *out,
                          const float *weight, size_t width)
{
    size_t from, to;
    float *mine = out + own_row(p) * width;
    my_rows(p, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_RMS_NORM);
    for (size_t j = from; j < to; j++)
        p->kernels->rmsnorm(mine + j * width, in + j * width, weight, width, p->m->hp.rms_eps);
    stage_end(p, brick, BN_KERNEL_RMSNORM, 0, row_work(p, from, to, width));
    bn_trace_layer(p, op, layer, out, width);
    return mine;
}

void bn_prepare_inputs(const struct pass *p, const char *op, uint32_t layer, const float *in, float *out,
                       const struct bn_linear *next)
{
    size_t width = next->k, own = own_row(p), from, to;
    if (next->input_norm != NULL) in = bn_norm_rows(p, op, layer, in, out, next->input_norm, width);
    my_rows(p, &from, &to);
    struct bn_prof_shape work = row_work(p, from, to, width);
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_ACTIVATION_QUANTIZE);
    bool finite = bn_all_finite(in + from * width, (to - from) * width);
    if (!finite) p->s->run.bad_row = true;
    kernel_begin(p);
    for (size_t j = from; j < to; j++)
        bn_quantize_row(p, own + j, in + j * width, next, finite);
    kernel_end(p, p->m->wide ? BN_KERNEL_QUANTIZE16 : BN_KERNEL_QUANTIZE, 0, work);
    brick_end(brick, (uint64_t)work.rows * work.cols * work.n);
    if (p->n > 1) meet(p);
}

void bn_next_inputs(const struct pass *p, const char *op, uint32_t layer, const float *in,
                    const struct bn_linear *next)
{
    if (p->n > 1) meet(p);
    bn_prepare_inputs(p, op, layer, in, p->s->norm_in, next);
}

/* ---- products ---- */

static void multiply_tiles(const struct pass *p, const struct bn_ternary *tiles, const struct bn_act *act,
                           float *y, size_t ldy, size_t n)
{
    if (n == 1)
        p->kernels->ternary_gemv(y, tiles, act);
    else
        p->kernels->ternary_gemm(y, ldy, tiles, act, n);
}

#define FEW 8u /* tokens whose product is bound by the reading of the weights */

/* Without tiles one token is multiplied with the rows of the file. For more, rows become tiles in the scratch memory
 * of the thread: two tiles at a time for a few tokens, so that they stay in the nearest cache; many for many tokens,
 * whose activations are read again for each piece. */
enum bn_kernel bn_multiply_ternary(const struct pass *p, const struct bn_ternary *part,
                                   const struct bn_act *act, float *y, size_t ldy, size_t n)
{
    const struct bn_session *s = p->s;
    enum bn_kernel slot = n == 1 ? BN_KERNEL_TERNARY_GEMV : BN_KERNEL_TERNARY_GEMM;
    size_t one = bn_tiles_bytes(part, 1), each = n <= FEW ? 2 : s->tile_bytes / one;
    if (each * one > s->tile_bytes) each = 1;
    bool whole = part->codes != NULL || n == 1;
    if (whole && part->rows > 0) multiply_tiles(p, part, act, y, ldy, n);
    if (whole) return slot;
    for (size_t r = 0; r < part->rows; r += each * BN_TILE_ROWS) {
        size_t rows = bn_min_size(each * BN_TILE_ROWS, part->rows - r);
        struct bn_ternary tiles = bn_ternary_part(part, r, r + rows);
        uint8_t *codes = s->tiles + (size_t)p->thread * s->tile_bytes;
        uint16_t *scales = part->blocks == BN_BLOCKS_I2S
                               ? NULL
                               : (uint16_t *)(void *)(codes + each * BN_TILE_ROWS * (part->k / 4));
        p->kernels->to_tiles(codes, scales, &tiles);
        tiles.codes = codes;
        tiles.scales = scales;
        tiles.streamed = false;
        multiply_tiles(p, &tiles, act, y + r, ldy, n);
    }
    return slot;
}

/* y = W act for rows from ... to of a matrix in T5. */
static void multiply_t5(const struct pass *p, const struct bn_t5 *w, size_t from, size_t to, float *y)
{
    struct bn_t5 part = *w;
    part.codes += from * part.row_bytes;
    part.rows = to - from;
    if (part.rows > 0) p->kernels->t5_gemv(y, &part, p->s->act + own_row(p));
}

/* ---- what a token does not need ---- */

/* The rows of up whose gate is above 0. The others become 0. */
static size_t pick_rows(uint32_t *picked, const float *gate, float *y, size_t n_rows)
{
    size_t n = 0;
    memset(y, 0, n_rows * sizeof *y);
    for (size_t r = 0; r < n_rows; r++) {
        picked[n] = (uint32_t)r;
        n += gate[r] > 0.0f;
    }
    return n;
}

/* When the copy of the rows is there. Not where a product could overflow, since 0 times infinity is not 0. */
static bool may_pick(const struct pass *p, const struct bn_linear *lin)
{
    bool there = p->m->repacking.ternary ? lin->packed.codes != NULL : lin->picked;
    return p->gate != NULL && p->n == 1 && there && p->s->used != NULL && p->s->trace == NULL &&
           p->m->ranks == NULL && p->s->act[own_row(p)].scale > 1e-20f && lin->w.scale < 1e10f &&
           fabsf(lin->w.scale * lin->extra_scale) < 1e10f;
}

/* Picked rows of I2_S: sixteen at a time are brought together, as a part of a file. */
static void multiply_picked(const struct pass *p, const struct bn_ternary *w, const uint32_t *picked,
                            size_t n, float *y)
{
    struct bn_ternary part = *w;
    uint8_t *rows = p->s->tiles + (size_t)p->thread * p->s->tile_bytes;
    float sixteen[BN_TILE_ROWS];
    part.codes = NULL;
    part.stored = rows;
    part.streamed = false;
    for (size_t r = 0; r < n; r += part.rows) {
        part.rows = bn_min_size(BN_TILE_ROWS, n - r);
        for (size_t i = 0; i < part.rows; i++) {
            memcpy(rows + i * w->row_bytes, w->stored + picked[r + i] * w->row_bytes, w->row_bytes);
            size_t next = picked[bn_min_size(r + i + BN_TILE_ROWS, n - 1)];
            prefetch_row(w->stored + next * w->row_bytes, w->row_bytes);
        }
        p->kernels->ternary_gemv(sixteen, &part, p->s->act + own_row(p));
        for (size_t i = 0; i < part.rows; i++)
            y[picked[r + i]] = sixteen[i];
    }
}

/* y = W act for rows from ... to of one token, which has a gate: for those that it asks for. Returns their number. */
static size_t multiply_asked(const struct pass *p, const struct bn_linear *lin, size_t from, size_t to,
                             float *y)
{
    uint32_t *picked = p->s->used + (size_t)p->thread * lin->rows;
    size_t n = pick_rows(picked, p->gate + from, y, to - from);
    if (lin->packed.codes != NULL) {
        struct bn_t5 packed = lin->packed;
        packed.picked = picked;
        packed.n_picked = n;
        multiply_t5(p, &packed, from, to, y);
    } else {
        struct bn_ternary part = bn_ternary_part(&lin->w, from, to);
        multiply_picked(p, &part, picked, n, y);
    }
    atomic_fetch_add(&p->s->run.skipped_rows, to - from - n);
    return n;
}

/* Columns are read when fewer inputs than these of ten are other than 0: with more, reading the rows is as fast. */
#define COLUMNS_PAY 4u

/* The numbers of the values that are not 0, of k, a multiple of 8. */
static size_t find_used(uint32_t *used, const int8_t *q, size_t k)
{
    const uint64_t low7 = 0x7F7F7F7F7F7F7F7Fu;
    size_t n = 0;
    for (size_t i = 0; i < k; i += 8) {
        uint64_t eight;
        memcpy(&eight, q + i, sizeof eight);
        for (uint64_t set = (((eight & low7) + low7) | eight) & ~low7; set != 0; set &= set - 1)
            used[n++] = (uint32_t)(i + (size_t)__builtin_ctzll(set) / 8);
    }
    return n;
}

/* y = W act from columns of W, when they are there and pay. Every thread finds the same columns. */
static bool multiply_columns(const struct pass *p, const struct bn_linear *lin, float *y)
{
    struct bn_columns part = lin->columns;
    struct bn_session *s = p->s;
    if (p->n != 1 || part.codes == NULL) return false;
    const struct bn_act *act = s->act + own_row(p);
    uint32_t *used = s->used + (size_t)p->thread * part.k;
    size_t n = find_used(used, act->q, part.k), from, to;
    if (10 * n > COLUMNS_PAY * part.k) return false;
    my_share(p, part.rows, BN_COLUMN_ROWS, &from, &to);
    part.codes += from / 4;
    part.rows = to - from;
    kernel_begin(p);
    if (part.rows > 0) p->kernels->columns_gemv(y + lin->first + from, &part, act, used, n);
    kernel_end(p, BN_KERNEL_COLUMNS_GEMV, n * ((part.rows + 3) / 4), shape(part.rows, n, 1));
    tell_dispatch(p, lin, BN_KERNEL_COLUMNS_GEMV);
    if (p->thread == 0) s->run.skipped_columns += part.k - n;
    meet(p); /* others added rows of y by other shares */
    return true;
}

size_t bn_multiply_rows(const struct pass *p, const struct bn_linear *lin, float *y)
{
    size_t from, to, ldy = lin->rows, n_rows, row_bytes = lin->row_bytes;
    my_share(p, lin->w.rows, BN_ROW_GRAIN, &from, &to);
    bool packed = p->n == 1 && lin->packed.codes != NULL;
    enum bn_kernel slot = packed ? BN_KERNEL_T5_GEMV : BN_KERNEL_TERNARY_GEMV;
    float *mine = y + lin->first + from;
    n_rows = to - from;
    if (!multiply_columns(p, lin, y)) {
        kernel_begin(p);
        if (may_pick(p, lin))
            n_rows = multiply_asked(p, lin, from, to, mine);
        else if (packed)
            multiply_t5(p, &lin->packed, from, to, mine);
        else {
            struct bn_ternary part = bn_ternary_part(&lin->w, from, to);
            slot = bn_multiply_ternary(p, &part, p->s->act + own_row(p), mine, ldy, p->n);
        }
        kernel_end(p, slot, n_rows * (packed ? lin->packed.row_bytes : row_bytes),
                   shape(n_rows, lin->k, p->n));
        tell_dispatch(p, lin, slot);
    }
    for (size_t j = 0; lin->has_extra_scale && j < p->n; j++)
        for (size_t r = 0; r < to - from; r++)
            mine[j * ldy + r] *= lin->extra_scale;
    return (to - from) * p->n;
}

void bn_project(const struct pass *p, enum bn_brick brick, const struct bn_linear *lin, float *y)
{
    struct bn_brick_timer timer = brick_begin(p, brick);
    brick_end(timer, bn_multiply_rows(p, lin, y));
}

void bn_project_all(const struct pass *p, enum bn_brick brick, const struct bn_linear *lin, float *y)
{
    bn_project(p, brick, lin, y);
    if (p->m->ranks != NULL) bn_exchange(p, y, lin->rows, BN_ROW_GRAIN, p->n);
}

/* Without a norm by the shares in which bn_multiply_rows wrote y, so that no barrier is needed. A norm needs whole
 * rows: a row is added by the thread that normalised it, but a single row by all of them. */
void bn_add_residual(const struct pass *p, const char *op, uint32_t layer, const float *norm)
{
    size_t width = p->m->hp.n_embd, from, to, first = 0, end = p->n;
    const float *y = p->s->y;
    if (norm != NULL) {
        meet(p);
        y = bn_norm_rows(p, op, layer, y, p->s->norm, norm, width);
    }
    my_share(p, width, BN_ROW_GRAIN, &from, &to);
    if (norm != NULL && p->n > 1) {
        my_rows(p, &first, &end);
        from = 0;
        to = width;
    }
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_RESIDUAL_ADD);
    for (size_t j = first; j < end; j++)
        p->kernels->add(p->s->x + j * width + from, y + j * width + from, to - from);
    stage_end(p, brick, BN_KERNEL_ADD, 0, counted_once(p, shape(1, to - from, end - first)));
}
