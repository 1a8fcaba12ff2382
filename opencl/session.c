/* SPDX-License-Identifier: MIT
 *
 * Sessions on a device: room for a batch, and for the keys and values of sequences.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "opencl/device.h"

#define SCORES_BYTES ((size_t)64 << 20) /* of the scores that are computed together, at most */

/* ---- pools ---- */

/* A larger buffer with the same content. */
static bn_status grow_one(struct bn_device_session *s, struct bn_cl_pool *pool, cl_mem *buffer, uint64_t n,
                          bn_error *err)
{
    struct bn_cl_device *device = s->device->cl;
    cl_mem larger;
    BN_TRY(bn_cl_alloc(device, &larger, n * pool->each, "keys, values and states", err));
    if (*buffer != NULL) bn_cl_copy(&s->queue, larger, 0, *buffer, 0, pool->n * pool->each);
    bn_status status = bn_cl_finish(&s->queue, err);
    cl_mem useless = status == BN_OK ? *buffer : larger;
    bn_cl_free(device, useless, (status == BN_OK ? pool->n : n) * pool->each);
    if (status == BN_OK) *buffer = larger;
    return status;
}

static bn_status grow(struct bn_device_session *s, struct bn_cl_pool *pool, uint64_t n, bn_error *err)
{
    if (n <= pool->n) return BN_OK;
    bn_status status = grow_one(s, pool, &pool->buffer[0], n, err);
    if (status == BN_OK && pool->n_buffers > 1) {
        status = grow_one(s, pool, &pool->buffer[1], n, err);
        /* The first one keeps its new size, and is counted by the old one. */
        if (status != BN_OK) s->device->cl->bytes -= (n - pool->n) * pool->each;
    }
    if (status == BN_OK) pool->n = n;
    return status;
}

/* n values in the first gap, or at the end. */
static bn_status take_region(struct bn_device_session *s, struct bn_cl_pool *pool, uint64_t n, uint64_t *at,
                             bn_error *err)
{
    size_t i = 0;
    *at = 0;
    for (; i < pool->n_regions && pool->regions[i].at - *at < n; i++)
        *at = pool->regions[i].at + pool->regions[i].n;
    BN_TRY(bn_array_grow(&pool->regions, &pool->room, pool->n_regions + 1, sizeof *pool->regions, err));
    BN_TRY(grow(s, pool, *at + n, err));
    memmove(&pool->regions[i + 1], &pool->regions[i], (pool->n_regions - i) * sizeof *pool->regions);
    pool->regions[i] = (struct bn_cl_region){*at, n};
    pool->n_regions++;
    return BN_OK;
}

static void give_region(struct bn_cl_pool *pool, uint64_t at)
{
    size_t i = 0;
    while (pool->regions[i].at != at)
        i++;
    pool->n_regions--;
    memmove(&pool->regions[i], &pool->regions[i + 1], (pool->n_regions - i) * sizeof *pool->regions);
}

static void close_pool(struct bn_device_session *s, struct bn_cl_pool *pool)
{
    for (size_t i = 0; i < pool->n_buffers; i++)
        if (pool->buffer[i] != NULL) bn_cl_free(s->device->cl, pool->buffer[i], pool->n * pool->each);
    bn_free(pool->regions);
}

/* ---- room for a batch ---- */

static bn_status take(struct bn_device_session *s, cl_mem *out, size_t n, size_t each, bn_error *err)
{
    return bn_cl_add(&s->buffers, out, n * each, "the session", err);
}

static void choose_widths(struct bn_device_session *s)
{
    const struct bn_model *m = s->device->model;
    const bn_hparams *hp = &m->hp;
    size_t q_dim = (size_t)hp->n_head * hp->head_dim, kv_dim = (size_t)hp->n_head_kv * hp->head_dim;
    size_t inner = bn_hparams_inner(hp), mixed = bn_hparams_mixed(hp);
    s->per_row = hp->experts.n != 0 ? hp->experts.n_used : 1;
    s->most_pairs = s->per_row * s->s->n_batch;
    s->q_stride = hp->gated_heads ? 2 * (size_t)hp->head_dim : hp->head_dim;
    s->k_at = bn_cl_round_up(hp->gated_heads ? 2 * q_dim : q_dim, BN_TILE_ROWS);
    s->v_at = s->k_at + bn_cl_round_up(kv_dim, BN_TILE_ROWS);
    s->ld_in = s->v_at + bn_cl_round_up(kv_dim, BN_TILE_ROWS);
    if (bn_cl_round_up(mixed, BN_TILE_ROWS) + bn_cl_round_up(inner, BN_TILE_ROWS) > s->ld_in)
        s->ld_in = bn_cl_round_up(mixed, BN_TILE_ROWS) + bn_cl_round_up(inner, BN_TILE_ROWS);
    s->ld_att = q_dim > inner ? q_dim : inner;
    s->up_at = bn_cl_round_up(hp->n_ff, BN_TILE_ROWS);
    s->ld_gate_up = 2 * s->up_at;
    s->ld_y = bn_cl_round_up(hp->n_embd, BN_TILE_ROWS);
    s->ld_norm = hp->n_embd > hp->n_ff ? hp->n_embd : hp->n_ff;
    if (s->ld_att > s->ld_norm) s->ld_norm = s->ld_att;
    s->padded = bn_act_padded(s->ld_norm);
    s->ld_scores = bn_score_row(s->s);
    s->ld_logits =
        m->head_linear.rows != 0 ? bn_cl_round_up(m->head_linear.rows, BN_TILE_ROWS) : m->head.rows;
    size_t queries = SCORES_BYTES / sizeof(float) / s->ld_scores / hp->n_head * hp->n_head;
    s->most_queries = bn_min_size(queries, (size_t)s->s->n_batch * hp->n_head);
    if (s->most_queries == 0) s->most_queries = hp->n_head;
}

static bn_status take_rows(struct bn_device_session *s, bn_error *err)
{
    const bn_hparams *hp = &s->device->model->hp;
    const struct bn_recurrence *r = &hp->recurrence;
    size_t n = s->s->n_batch, groups = s->padded / BN_MIN_GROUP, pairs = hp->experts.n != 0 ? s->per_row : 0;
    size_t mixed = r->n_taps != 0 ? bn_hparams_mixed(hp) : 0, gates = 2 * (size_t)r->n_value_heads;
    const struct {
        cl_mem *buffer;
        size_t n, each;
    } ROWS[] = {
        {&s->x, hp->n_embd, sizeof(float)},
        {&s->norm, s->ld_norm, sizeof(float)},
        {&s->norm_in, hp->input_norms ? s->ld_norm : 0, sizeof(float)},
        {&s->rotated, s->device->model->hadamard.block != 0 ? s->per_row * s->ld_norm : 0, sizeof(float)},
        {&s->in, s->ld_in, sizeof(float)},
        {&s->att, s->ld_att, sizeof(float)},
        {&s->conv, mixed, sizeof(float)},
        {&s->gates, gates, sizeof(float)},
        {&s->router, hp->experts.n, sizeof(float)},
        {&s->experts, pairs, sizeof(cl_uint)},
        {&s->weights, pairs, sizeof(float)},
        {&s->parts, pairs * s->ld_y, sizeof(float)},
        {&s->gate_up, s->per_row * s->ld_gate_up, sizeof(float)},
        {&s->y, s->ld_y, sizeof(float)},
        {&s->hidden, hp->n_embd, sizeof(float)},
        {&s->high, s->per_row * s->padded, 1},
        {&s->low, s->per_row * s->padded, 1},
        {&s->step, s->per_row * groups, sizeof(float)},
        {&s->sum, s->per_row * groups, sizeof(int32_t)},
        {&s->scale, s->per_row, sizeof(float)},
        {&s->total, s->per_row, sizeof(int32_t)},
        {&s->rows, 1, sizeof(struct bn_cl_row)},
        {&s->wanted, 1, sizeof(uint32_t)}};
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        if (ROWS[i].n != 0) BN_TRY(take(s, ROWS[i].buffer, n * ROWS[i].n, ROWS[i].each, err));
    BN_TRY(take(s, &s->logits, BN_CL_LOGITS * s->ld_logits, sizeof(float), err));
    BN_TRY(take(s, &s->scores, s->most_queries * s->ld_scores, sizeof(float), err));
    BN_TRY(take(s, &s->bad, 1, sizeof s->host_bad, err));
    s->host_rows = bn_alloc(n, sizeof *s->host_rows);
    s->host_wanted = bn_alloc(n, sizeof *s->host_wanted);
    s->host_experts = bn_alloc((size_t)hp->n_layer * s->most_pairs, sizeof *s->host_experts);
    return s->host_rows != NULL && s->host_wanted != NULL && s->host_experts != NULL ? BN_OK : bn_nomem(err);
}

static bn_status upload_angles(struct bn_device_session *s, cl_mem *out, const float *table, bn_error *err)
{
    size_t n = (size_t)s->s->n_ctx * (s->device->model->hp.n_rot / 2);
    if (table == NULL) return BN_OK;
    BN_TRY(take(s, out, n, sizeof *table, err));
    bn_cl_write(&s->queue, *out, 0, table, n * sizeof *table);
    return BN_OK;
}

static bn_status open_session(struct bn_device_session *s, bn_error *err)
{
    const struct bn_session *host = s->s;
    s->buffers.device = s->device->cl;
    choose_widths(s);
    BN_TRY(bn_cl_queue_open(&s->queue, s->device->cl, err));
    BN_TRY(take_rows(s, err));
    BN_TRY(upload_angles(s, &s->cos, host->rope_cos, err));
    BN_TRY(upload_angles(s, &s->sin, host->rope_sin, err));
    BN_TRY(upload_angles(s, &s->local_cos, host->local_cos, err));
    BN_TRY(upload_angles(s, &s->local_sin, host->local_sin, err));
    BN_TRY(bn_cl_finish(&s->queue, err));
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        snprintf(s->names[k], sizeof s->names[k], "%s_opencl", bn_kernel_slot_name((enum bn_kernel)k));
    return BN_OK;
}

bn_status bn_device_session_open(struct bn_device_session **out, struct bn_session *session, bn_error *err)
{
    struct bn_device_session *s = bn_alloc(1, sizeof *s);
    *out = s; /* bn_session_close closes it */
    if (s == NULL) return bn_nomem(err);
    s->device = session->model->device;
    s->s = session;
    s->caches = (struct bn_cl_pool){.n_buffers = 2, .each = sizeof(cl_half)};
    s->states = (struct bn_cl_pool){.n_buffers = 1, .each = sizeof(float)};
    BN_TRY(open_session(s, err));
    return bn_device_take(&session->own, err);
}

void bn_device_session_close(struct bn_device_session *s)
{
    if (s == NULL) return;
    bn_cl_free_all(&s->buffers);
    close_pool(s, &s->caches);
    close_pool(s, &s->states);
    bn_cl_queue_close(&s->queue);
    bn_free(s->host_rows);
    bn_free(s->host_wanted);
    bn_free(s->host_experts);
    bn_free(s->traced);
    bn_free(s);
}

/* Rows of the embedding are widened on the CPU. */
const char *bn_device_kernel_name(const struct bn_session *session, enum bn_kernel k)
{
    return k >= BN_KERNEL_F16_TO_F32 && k <= BN_KERNEL_Q4_0_TO_F32 ? NULL : session->on_device->names[k];
}

/* ---- sequences ---- */

bn_status bn_device_take(struct bn_sequence *sequence, bn_error *err)
{
    struct bn_device_session *s = sequence->session->on_device;
    struct bn_device_place *place = &sequence->place;
    const bn_model *m = s->device->model;
    uint64_t n = (uint64_t)bn_own_kv_heads(m) * m->hp.head_dim * bn_cache_rows(sequence->n_ctx);
    BN_TRY(take_region(s, &s->caches, n, &place->at, err));
    bn_status status =
        sequence->n_state > 0 ? take_region(s, &s->states, sequence->n_state, &place->state, err) : BN_OK;
    if (status != BN_OK) {
        give_region(&s->caches, place->at);
        return status;
    }
    place->n = n;
    place->state_is_older = true;
    return BN_OK;
}

void bn_device_release(struct bn_sequence *sequence)
{
    struct bn_device_session *s = sequence->session != NULL ? sequence->session->on_device : NULL;
    if (s == NULL || sequence->place.n == 0) return;
    give_region(&s->caches, sequence->place.at);
    if (sequence->n_state > 0) give_region(&s->states, sequence->place.state);
    if (sequence->place.n_kept > 0) give_region(&s->states, sequence->place.kept);
    sequence->place.n = 0;
}

void bn_device_copy(struct bn_sequence *to, const struct bn_sequence *from, size_t first, size_t end)
{
    struct bn_device_session *s = to->session->on_device;
    const bn_model *m = s->device->model;
    size_t d = m->hp.head_dim, tile = first / BN_KEY_TILE * BN_KEY_TILE,
           tiles_end = bn_cache_rows((uint32_t)end);
    for (size_t i = 0; i < bn_own_kv_heads(m); i++) {
        uint64_t at = to->place.at + i * bn_cache_rows(to->n_ctx) * d,
                 other = from->place.at + i * bn_cache_rows(from->n_ctx) * d;
        const size_t each = sizeof(cl_half);
        bn_cl_copy(&s->queue, s->caches.buffer[0], (at + tile * d) * each, s->caches.buffer[0],
                   (other + tile * d) * each, (tiles_end - tile) * d * each);
        bn_cl_copy(&s->queue, s->caches.buffer[1], (at + first * d) * each, s->caches.buffer[1],
                   (other + first * d) * each, (end - first) * d * each);
    }
}

bn_status bn_device_move_cache(struct bn_sequence *sequence, bool to_device, bn_error *err)
{
    struct bn_device_session *s = sequence->session->on_device;
    size_t at = sequence->place.at * sizeof(cl_half), n = sequence->place.n * sizeof(cl_half);
    if (to_device) {
        bn_cl_write(&s->queue, s->caches.buffer[0], at, sequence->k_cache, n);
        bn_cl_write(&s->queue, s->caches.buffer[1], at, sequence->v_cache, n);
    } else {
        bn_cl_read(&s->queue, sequence->k_cache, s->caches.buffer[0], at, n);
        bn_cl_read(&s->queue, sequence->v_cache, s->caches.buffer[1], at, n);
    }
    return bn_cl_finish(&s->queue, err);
}

/* The state of a sequence to another place of the pool. */
static void copy_state(const struct bn_sequence *sequence, uint64_t to, uint64_t from)
{
    struct bn_device_session *s = sequence->session->on_device;
    cl_mem states = s->states.buffer[0];
    const size_t each = sizeof(float);
    bn_cl_copy(&s->queue, states, to * each, states, from * each, sequence->n_state * each);
}

void bn_cl_keep_state(struct bn_sequence *sequence)
{
    struct bn_device_session *s = sequence->session->on_device;
    struct bn_device_place *place = &sequence->place;
    if (place->n_kept == 0 && s->queue.status == BN_OK) {
        s->queue.status = take_region(s, &s->states, sequence->n_state, &place->kept, &s->queue.error);
        place->n_kept = s->queue.status == BN_OK ? sequence->n_state : 0;
    }
    copy_state(sequence, place->kept, place->state);
}

void bn_device_restore_state(struct bn_sequence *sequence)
{
    const struct bn_device_place *place = &sequence->place;
    if (place->n_kept > 0) copy_state(sequence, place->state, place->kept);
}

bn_status bn_device_read_state(const struct bn_sequence *sequence, bn_error *err)
{
    struct bn_device_session *s = sequence->session->on_device;
    if (!sequence->place.state_is_newer) return BN_OK;
    bn_cl_read(&s->queue, sequence->state, s->states.buffer[0], sequence->place.state * sizeof(float),
               sequence->n_state * sizeof(float));
    return bn_cl_finish(&s->queue, err);
}
