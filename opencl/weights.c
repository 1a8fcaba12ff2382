/* SPDX-License-Identifier: MIT
 *
 * A model on a device: opening it there, its weights in tiles, its norms and its head.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/weights.h"
#include "opencl/check.h"
#include "opencl/device.h"

#define STAGE_BYTES ((size_t)8 << 20) /* of weights that are uploaded at once */

/* ---- buffers ---- */

bn_status bn_cl_add(struct bn_cl_buffers *b, cl_mem *out, size_t n_bytes, const char *what, bn_error *err)
{
    *out = NULL;
    BN_TRY(bn_array_grow(&b->list, &b->room, b->n + 1, sizeof *b->list, err));
    BN_TRY(bn_cl_alloc(b->device, out, n_bytes, what, err));
    b->list[b->n].buffer = *out;
    b->list[b->n++].n_bytes = n_bytes;
    return BN_OK;
}

void bn_cl_free_all(struct bn_cl_buffers *b)
{
    for (size_t i = 0; i < b->n; i++)
        bn_cl_free(b->device, b->list[i].buffer, b->list[i].n_bytes);
    bn_free(b->list);
    *b = (struct bn_cl_buffers){0};
}

/* Writes before the memory of the caller changes. */
static bn_status write_now(struct bn_device *d, cl_mem to, size_t at, const void *from, size_t n_bytes,
                           bn_error *err)
{
    bn_cl_write(&d->queue, to, at, from, n_bytes);
    return bn_cl_finish(&d->queue, err);
}

/* NULL stays NULL. */
static bn_status upload(struct bn_device *d, cl_mem *out, const void *data, size_t n_bytes, bn_error *err)
{
    *out = NULL;
    if (data == NULL) return BN_OK;
    BN_TRY(bn_cl_add(&d->buffers, out, n_bytes, "the weights", err));
    return write_now(d, *out, 0, data, n_bytes, err);
}

static bn_status upload_norm(struct bn_device *d, cl_mem *out, const float *norm, size_t n, bn_error *err)
{
    return upload(d, out, norm, n * sizeof *norm, err);
}

/* ---- linear layers ---- */

static size_t padded_rows(const struct bn_linear *lin)
{
    return bn_cl_round_up(lin->w.rows, BN_TILE_ROWS);
}

static bool shares_inputs(const struct bn_linear *a, const struct bn_linear *b)
{
    return b->input_norm == NULL && a->w.blocks == b->w.blocks && a->w.group == b->w.group &&
           a->w.k == b->w.k && a->rotation.block == b->rotation.block &&
           a->rotation.signs == b->rotation.signs;
}

/* The part's rows as tiles, piece by piece through the memory at `stage`. */
static bn_status upload_tiles(struct bn_device *d, const struct bn_cl_linear *lin, size_t part,
                              unsigned char *stage, bn_error *err)
{
    const struct bn_ternary *w = &lin->part[part]->w;
    size_t one = bn_tiles_bytes(w, 1), n_tiles = STAGE_BYTES / one, first = lin->at[part];
    if (n_tiles == 0) n_tiles = 1;
    for (size_t r = 0; r < w->rows; r += n_tiles * BN_TILE_ROWS) {
        size_t rows = bn_min_size(n_tiles * BN_TILE_ROWS, w->rows - r);
        size_t tiles = (rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS, per_tile = 4 * w->k;
        struct bn_ternary piece = bn_ternary_part(w, r, r + rows);
        uint16_t *scales = lin->scales != NULL ? (uint16_t *)(void *)(stage + tiles * per_tile) : NULL;
        size_t of_tile = lin->scales != NULL ? w->k / w->group * BN_TILE_ROWS * sizeof *scales : 0;
        d->model->kernels->to_tiles(stage, scales, &piece);
        bn_cl_write(&d->queue, lin->codes, (first + r) / BN_TILE_ROWS * per_tile, stage, tiles * per_tile);
        if (scales != NULL)
            bn_cl_write(&d->queue, lin->scales, (first + r) / BN_TILE_ROWS * of_tile, scales,
                        tiles * of_tile);
        BN_TRY(bn_cl_finish(&d->queue, err));
    }
    return BN_OK;
}

/* The scale of the matrix and the extra scale of its outputs, for each row. */
static bn_status upload_row_scales(struct bn_device *d, struct bn_cl_linear *lin, bn_error *err)
{
    float *pairs = bn_alloc(lin->rows, 2 * sizeof *pairs);
    if (pairs == NULL) return bn_nomem(err);
    for (size_t i = 0; i < lin->n_parts; i++)
        for (size_t r = 0; r < padded_rows(lin->part[i]); r++) {
            pairs[2 * (lin->at[i] + r)] = lin->part[i]->w.scale;
            pairs[2 * (lin->at[i] + r) + 1] =
                lin->part[i]->has_extra_scale ? lin->part[i]->extra_scale : 1.0f;
        }
    bn_status status = upload(d, &lin->row_scale, pairs, lin->rows * 2 * sizeof *pairs, err);
    bn_free(pairs);
    return status;
}

static bn_status upload_linear(struct bn_device *d, struct bn_cl_linear *lin, bn_error *err)
{
    const struct bn_linear *first = lin->part[0];
    bool grouped = first->w.blocks != BN_BLOCKS_I2S;
    lin->k = first->w.k;
    lin->width = first->k;
    lin->group = grouped ? (uint32_t)first->w.group : 0;
    lin->block = first->rotation.block;
    for (size_t i = 0; i < lin->n_parts; i++) {
        lin->at[i] = lin->rows;
        lin->rows += padded_rows(lin->part[i]);
    }
    size_t codes = lin->rows * (lin->k / 4),
           scales = grouped ? lin->rows * (lin->k / lin->group) * sizeof(uint16_t) : 0;
    BN_TRY(bn_cl_add(&d->buffers, &lin->codes, codes, "the weights", err));
    if (grouped) BN_TRY(bn_cl_add(&d->buffers, &lin->scales, scales, "the weights", err));
    size_t stage_bytes = bn_tiles_bytes(&first->w, BN_TILE_ROWS);
    unsigned char *stage = bn_alloc_aligned(stage_bytes > STAGE_BYTES ? stage_bytes : STAGE_BYTES, 1);
    bn_status status = stage != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = 0; i < lin->n_parts && status == BN_OK; i++)
        status = upload_tiles(d, lin, i, stage, err);
    bn_free(stage);
    BN_TRY(status);
    BN_TRY(upload_row_scales(d, lin, err));
    BN_TRY(upload_norm(d, &lin->norm, first->input_norm, lin->width, err));
    return upload(d, &lin->signs, first->rotation.signs, lin->width * sizeof(float), err);
}

/* Some layers as few matrices: those that share their inputs become one. Returns in *n how many there are. */
static bn_status upload_group(struct bn_device *d, struct bn_cl_linear *out, size_t *n,
                              const struct bn_linear *const *parts, size_t n_parts, bn_error *err)
{
    *n = 0;
    for (size_t i = 0; i < n_parts; i++) {
        if (i == 0 || !shares_inputs(parts[i - 1], parts[i])) (*n)++;
        struct bn_cl_linear *lin = &out[*n - 1];
        lin->part[lin->n_parts++] = parts[i];
    }
    for (size_t i = 0; i < *n; i++)
        BN_TRY(upload_linear(d, &out[i], err));
    return BN_OK;
}

static bn_status upload_one(struct bn_device *d, struct bn_cl_linear *out, const struct bn_linear *lin,
                            bn_error *err)
{
    size_t n;
    return upload_group(d, out, &n, &lin, 1, err);
}

/* ---- layers ---- */

/* alpha and beta are one matrix. */
static bn_status upload_recurrent(struct bn_device *d, struct bn_cl_layer *out, const struct bn_recurrent *r,
                                  bn_error *err)
{
    const bn_hparams *hp = &d->model->hp;
    size_t n_heads = hp->recurrence.n_value_heads, n = n_heads * hp->n_embd * sizeof(float);
    const struct bn_linear *parts[] = {&r->mix, &r->z};
    BN_TRY(upload_group(d, out->in, &out->n_in, parts, BN_ARRAY_LEN(parts), err));
    BN_TRY(bn_cl_add(&d->buffers, &out->alpha_beta, 2 * n, "the weights", err));
    bn_cl_write(&d->queue, out->alpha_beta, 0, r->alpha, n);
    BN_TRY(write_now(d, out->alpha_beta, n, r->beta, n, err));
    BN_TRY(upload_norm(d, &out->conv, r->conv, hp->recurrence.n_taps * bn_hparams_mixed(hp), err));
    BN_TRY(upload_norm(d, &out->rate, r->a, n_heads, err));
    BN_TRY(upload_norm(d, &out->bias, r->dt, n_heads, err));
    return upload_norm(d, &out->head_norm, r->norm, hp->recurrence.head_dim, err);
}

static bn_status upload_layer(struct bn_device *d, size_t i, bn_error *err)
{
    const struct bn_layer *l = &d->model->layers[i];
    const bn_hparams *hp = &d->model->hp;
    struct bn_cl_layer *out = &d->layers[i];
    const struct bn_linear *qkv[] = {&l->q, &l->k, &l->v}, *gate_up[] = {&l->gate, &l->up};
    BN_TRY(upload_norm(d, &out->attn_norm, l->attn_norm, hp->n_embd, err));
    BN_TRY(upload_norm(d, &out->ffn_norm, l->ffn_norm, hp->n_embd, err));
    BN_TRY(upload_norm(d, &out->post_attn_norm, l->post_attn_norm, hp->n_embd, err));
    BN_TRY(upload_norm(d, &out->post_ffn_norm, l->post_ffn_norm, hp->n_embd, err));
    BN_TRY(upload_norm(d, &out->q_norm, l->q_norm, hp->head_dim, err));
    BN_TRY(upload_norm(d, &out->k_norm, l->k_norm, hp->head_dim, err));
    if (l->is_recurrent)
        BN_TRY(upload_recurrent(d, out, &l->recurrent, err));
    else
        BN_TRY(upload_group(d, out->in, &out->n_in, qkv, BN_ARRAY_LEN(qkv), err));
    BN_TRY(upload_one(d, &out->o, &l->o, err));
    BN_TRY(upload_norm(d, &out->router, l->router, (size_t)hp->experts.n * hp->n_embd, err));
    if (hp->experts.n != 0) { /* rows are counted from the first expert of each */
        BN_TRY(upload_one(d, &out->gate_up[0], &l->gate, err));
        BN_TRY(upload_one(d, &out->gate_up[1], &l->up, err));
    } else {
        BN_TRY(upload_group(d, out->gate_up, &out->n_gate_up, gate_up, BN_ARRAY_LEN(gate_up), err));
    }
    return upload_one(d, &out->down, &l->down, err);
}

/* Rows in F16 stay as they are; others are widened to F32, exactly as the CPU widens them. */
static bn_status upload_head(struct bn_device *d, bn_error *err)
{
    const struct bn_model *m = d->model;
    const struct bn_matrix *h = &m->head;
    if (m->head_linear.rows != 0) return upload_one(d, &d->head_linear, &m->head_linear, err);
    if (h->type == BN_TYPE_F16) return upload(d, &d->head, h->data, h->rows * h->k * sizeof(uint16_t), err);
    size_t row_bytes = h->k * sizeof(float), n_rows = STAGE_BYTES / row_bytes + 1;
    float *rows = bn_alloc(n_rows, row_bytes);
    if (rows == NULL) return bn_nomem(err);
    bn_status status = bn_cl_add(&d->buffers, &d->head, h->rows * row_bytes, "the head", err);
    for (size_t r = 0, n; r < h->rows && status == BN_OK; r += n) {
        n = bn_min_size(n_rows, h->rows - r);
        for (size_t i = 0; i < n; i++)
            bn_matrix_row(m->kernels, h, r + i, rows + i * h->k);
        status = write_now(d, d->head, r * row_bytes, rows, n * row_bytes, err);
    }
    bn_free(rows);
    return status;
}

/* ---- what fits ---- */

/* Bytes of the weights there; norms, which are small, are counted as one more layer. */
static uint64_t plan(const struct bn_model *m, uint64_t *largest)
{
    const struct bn_matrix *h = &m->head;
    uint64_t head =
                 m->head_linear.rows != 0
                     ? bn_tiles_bytes(&m->head_linear.w, m->head_linear.rows)
                     : (uint64_t)h->rows * h->k * (h->type == BN_TYPE_F16 ? sizeof(uint16_t) : sizeof(float)),
             all = head + (uint64_t)m->hp.n_layer * m->hp.n_embd * 8 * sizeof(float);
    *largest = head;
    for (size_t i = 0; i < bn_model_n_linears(m); i++) {
        const struct bn_linear *lin = bn_model_linear(m, i);
        uint64_t bytes = lin->w.rows == 0 ? 0 : bn_tiles_bytes(&lin->w, lin->w.rows);
        all += bytes;
        if (bytes > *largest) *largest = bytes;
    }
    return all;
}

static bn_status check_room(const struct bn_device *d, bn_error *err)
{
    const bn_device_info *info = &d->cl->info;
    uint64_t largest, all = plan(d->model, &largest);
    bool fits = all <= info->memory && largest <= info->max_alloc;
    if (fits) return BN_OK;
    bn_fail(
        err, BN_ERR_NOMEM,
        "no memory on %s: the weights take %.1f MiB, the largest matrix %.1f MiB; the device has %.1f MiB, and "
        "%.1f MiB for one buffer",
        info->id, MIB(all), MIB(largest), MIB(info->memory), MIB(info->max_alloc));
    return bn_hint(BN_ERR_NOMEM, err, "a smaller model, a device with more memory, or --device cpu");
}

/* Nothing is uploaded when the weights do not fit. */
static bn_status upload_weights(struct bn_device *d, bn_error *err)
{
    const struct bn_model *m = d->model;
    BN_TRY(check_room(d, err));
    BN_TRY(BN_NEW(d->layers, m->hp.n_layer, err));
    for (size_t i = 0; i < m->hp.n_layer; i++)
        BN_TRY(upload_layer(d, i, err));
    BN_TRY(upload_norm(d, &d->output_norm, m->output_norm, m->hp.n_embd, err));
    return upload_head(d, err);
}

/* ---- opening ---- */

/* "opencl" is the first device, "opencl:N" the one with this number. */
static bn_status number_of(const char *selector, size_t *n, bn_error *err)
{
    unsigned number = 0;
    int used = 0;
    *n = 0;
    if (strcmp(selector, "opencl") == 0) return BN_OK;
    if (sscanf(selector, "opencl:%4u%n", &number, &used) != 1 || selector[used] != '\0')
        return bn_hint(bn_fail(err, BN_ERR_ARG, "unknown device '%.40s'", selector), err,
                       "use cpu, auto, opencl or opencl:N; 'bn-run devices' lists them");
    *n = number;
    return BN_OK;
}

static bn_status open_at(struct bn_device **out, const struct bn_model *model, size_t n, bn_error *err)
{
    struct bn_device *d = bn_alloc(1, sizeof *d);
    if (d == NULL) return bn_nomem(err);
    d->model = model;
    bn_status status = bn_cl_open(&d->cl, n, NULL, err);
    d->buffers.device = d->cl;
    if (status == BN_OK) status = bn_cl_check(d->cl, err);
    if (status == BN_OK) status = bn_cl_queue_open(&d->queue, d->cl, err);
    if (status == BN_OK) status = upload_weights(d, err);
    if (status != BN_OK) {
        bn_device_close(d);
        return status;
    }
    *out = d;
    return BN_OK;
}

#define MOST_DEVICES 64u

/* The first GPU on which the model can be opened. */
static void open_any(struct bn_device **out, const struct bn_model *model)
{
    bn_device_info list[MOST_DEVICES];
    size_t n = 0;
    if (bn_devices(list, MOST_DEVICES, &n, NULL) != BN_OK) return;
    for (size_t i = 0; i < n && i < MOST_DEVICES && *out == NULL; i++)
        if (strcmp(list[i].type, "GPU") == 0 && list[i].lacks[0] == '\0') (void)!open_at(out, model, i, NULL);
}

bn_status bn_device_open(struct bn_device **out, const struct bn_model *model, const char *selector,
                         bn_error *err)
{
    size_t n;
    *out = NULL;
    if (strcmp(selector, "auto") == 0) {
        open_any(out, model);
        return BN_OK;
    }
    BN_TRY(number_of(selector, &n, err));
    return open_at(out, model, n, err);
}

void bn_device_close(struct bn_device *d)
{
    if (d == NULL) return;
    bn_cl_free_all(&d->buffers);
    bn_cl_queue_close(&d->queue);
    bn_cl_close(d->cl);
    bn_free(d->layers);
    bn_free(d);
}

const bn_device_info *bn_device_facts(const struct bn_device *d)
{
    return &d->cl->info;
}

uint64_t bn_device_bytes(const struct bn_device *d)
{
    return d->cl->bytes;
}
