/* SPDX-License-Identifier: MIT
 *
 * Writes the result of a conversion. The bytes go to a temporary file next to the output, are
 * digested on the way, flushed to disk, and get their name at the end.
 */
#define _GNU_SOURCE /* fallocate */
#include "tools/convert/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/elementary.h"
#include "base/team.h"

#define CHUNK_BYTES (4u << 20)
#define MAX_THREADS 64u
#define SMALL_BYTES (1u << 20) /* a tensor that one thread packs */
#define LEAST_MEAN 1e-5f       /* as the models were trained */

/* Rows of one tensor, shared by threads. */
struct job {
    const struct bn_cv_plan *plan;
    const struct bn_cv_tensor *t;
    uint64_t first; /* row */
    size_t n, row_bytes;
    unsigned char *out; /* NULL: sums of magnitudes are wanted, not bytes */
    double *sums;
    struct bn_cv_scratch *scratch; /* of each thread */
};

struct writer {
    struct bn_cv_plan *plan;
    int fd;
    struct bn_sha256 sha;
    uint64_t n_bytes;
    unsigned n_threads;
    struct bn_cv_scratch scratch[MAX_THREADS];
    unsigned char *chunk;
    double *sums;
    size_t n_done;
    bn_cv_progress progress;
    void *user;
};

/* ---- scratch memory ---- */

static void release_scratch(struct bn_cv_scratch *s)
{
    bn_free(s->values);
    bn_free(s->scales);
    bn_free(s->floats);
}

static bn_status open_scratch(struct bn_cv_scratch *s, size_t k, bn_error *err)
{
    s->values = bn_alloc(k, sizeof *s->values);
    s->scales = bn_alloc(k / BN_CV_GROUP + 1, sizeof *s->scales);
    s->floats = bn_alloc(k, sizeof *s->floats);
    return s->values != NULL && s->scales != NULL && s->floats != NULL ? BN_OK : bn_nomem(err);
}

bn_status bn_cv_is_ternary(const struct bn_cv_tensor *t, bool *ternary, bn_error *err)
{
    struct bn_cv_scratch s = {0};
    struct bn_cv_tensor as = *t;
    as.kind = BN_CV_TRITS;
    *ternary = t->ne[0] % BN_CV_GROUP == 0;
    bn_status status = open_scratch(&s, (size_t)t->ne[0], err);
    for (uint64_t r = 0; status == BN_OK && *ternary && r < bn_cv_n_rows(t); r++)
        *ternary = bn_cv_read_row(&as, r, &s);
    release_scratch(&s);
    return status;
}

/* ---- rows on several threads ---- */

static void put_floats(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s, unsigned char *out)
{
    if (t->to == t->from && t->columns.n == 0 && t->add == 0.0f && !t->decay) {
        size_t n = (size_t)t->ne[0] * bn_type_info(t->from)->block_bytes;
        memcpy(out, t->data + bn_cv_source_row(t, r) * n, n);
        return;
    }
    bn_cv_widen_row(t, r, s);
    for (size_t i = 0; i < (size_t)t->ne[0]; i++) {
        float value = t->decay ? (float)-bn_exp((double)s->floats[i]) : s->floats[i] + t->add;
        memcpy(out + 4 * i, &value, 4);
    }
}

static double magnitudes(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s)
{
    double sum = 0.0;
    bn_cv_widen_row(t, r, s);
    for (size_t i = 0; i < (size_t)t->ne[0]; i++)
        sum += fabs((double)s->floats[i]);
    return sum;
}

static void work(void *arg, unsigned thread, unsigned n_threads)
{
    struct job *job = arg;
    struct bn_cv_scratch *s = &job->scratch[thread];
    size_t begin, end;
    bn_team_share(job->n, 1, thread, n_threads, &begin, &end);
    for (size_t i = begin; i < end && s->note.fault == BN_CV_FINE; i++) {
        uint64_t r = job->first + i;
        if (job->out == NULL)
            job->sums[i] = magnitudes(job->t, r, s);
        else if (job->t->kind == BN_CV_FLOATS)
            put_floats(job->t, r, s, job->out + i * job->row_bytes);
        else if (bn_cv_read_row(job->t, r, s))
            (void)bn_cv_pack_row(job->t, r, job->plan->options->round_scales, s,
                                 job->out + i * job->row_bytes);
    }
}

/* The fault of the lowest row, whatever the threads. */
static bn_status run(struct writer *w, struct job *job, bn_error *err)
{
    unsigned n_threads = job->t->n_source < SMALL_BYTES ? 1 : w->n_threads;
    struct bn_cv_note lowest = {0};
    if (w->progress != NULL && !w->progress(w->user, w->n_done))
        return bn_fail(err, BN_ERR_CANCELLED, "cancelled");
    job->plan = w->plan;
    job->scratch = w->scratch;
    bn_team_once(n_threads, work, job);
    for (unsigned i = 0; i < w->n_threads; i++) {
        const struct bn_cv_note *note = &w->scratch[i].note;
        if (note->fault != BN_CV_FINE && (lowest.fault == BN_CV_FINE || note->row < lowest.row))
            lowest = *note;
    }
    return bn_cv_fail_note(w->plan, job->t, &lowest, err);
}

/* ---- scales ---- */

/* The mean magnitude: rows are summed from left to right, then the rows, in binary64. */
static bn_status find_mean(struct writer *w, struct bn_cv_tensor *t, bn_error *err)
{
    uint64_t n_rows = bn_cv_n_rows(t);
    double sum = 0.0;
    for (uint64_t r = 0; r < n_rows; r += CHUNK_BYTES / sizeof *w->sums) {
        struct job job = {.t = t, .first = r, .sums = w->sums};
        job.n =
            (size_t)(n_rows - r < CHUNK_BYTES / sizeof *w->sums ? n_rows - r : CHUNK_BYTES / sizeof *w->sums);
        BN_TRY(run(w, &job, err));
        for (size_t i = 0; i < job.n; i++)
            sum += w->sums[i];
    }
    t->scale = fmaxf((float)(sum / ((double)n_rows * (double)t->ne[0])), LEAST_MEAN);
    if (isfinite(sum)) return BN_OK;
    return bn_fail_at(err, BN_ERR_FORMAT, t->offset, t->name, "a weight is not a finite number");
}

/* The scale of the first group that is not all zeros; 1 when all are. */
static bn_status find_scale(struct writer *w, struct bn_cv_tensor *t, bn_error *err)
{
    struct bn_cv_scratch *s = &w->scratch[0];
    bool same = t->kind == BN_CV_PACKED || t->kind == BN_CV_MASTER;
    t->target_scale = same ? t->scale : 0.0f;
    for (uint64_t r = 0; r < bn_cv_n_rows(t) && t->target_scale == 0.0f; r++) {
        if (!bn_cv_read_row(t, r, s)) return bn_cv_fail_note(w->plan, t, &s->note, err);
        for (size_t i = 0; i < (size_t)t->ne[0] && t->target_scale == 0.0f; i++)
            if (s->values[i] != 0) t->target_scale = s->scales[i / BN_CV_GROUP];
    }
    if (t->target_scale == 0.0f) t->target_scale = 1.0f;
    struct bn_cv_note note = {.fault = BN_CV_NOT_POSITIVE, .a = (double)t->target_scale};
    return t->target_scale > 0.0f ? BN_OK : bn_cv_fail_note(w->plan, t, &note, err);
}

/* ---- the file ---- */

static bn_status put(struct writer *w, const void *bytes, size_t n, bn_error *err)
{
    bn_sha256_update(&w->sha, bytes, n);
    w->n_bytes += n;
    return bn_file_write_all(w->fd, bytes, n, w->plan->options->output, err);
}

static bn_status put_copy(struct writer *w, const struct bn_cv_tensor *t, bn_error *err)
{
    for (uint64_t at = 0; at < t->n_bytes; at += CHUNK_BYTES) {
        size_t n = (size_t)(t->n_bytes - at < CHUNK_BYTES ? t->n_bytes - at : CHUNK_BYTES);
        if (w->progress != NULL && !w->progress(w->user, w->n_done))
            return bn_fail(err, BN_ERR_CANCELLED, "cancelled");
        BN_TRY(put(w, t->data + at, n, err));
    }
    return BN_OK;
}

static bn_status put_rows(struct writer *w, const struct bn_cv_tensor *t, bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(t->to);
    uint64_t n_rows = bn_cv_n_rows(t);
    size_t row_bytes = (size_t)t->ne[0] / info->block * info->block_bytes;
    size_t each = row_bytes < CHUNK_BYTES ? CHUNK_BYTES / row_bytes : 1;
    for (uint64_t r = 0; r < n_rows; r += each) {
        struct job job = {.t = t, .first = r, .row_bytes = row_bytes, .out = w->chunk};
        job.n = (size_t)(n_rows - r < each ? n_rows - r : each);
        BN_TRY(run(w, &job, err));
        BN_TRY(put(w, w->chunk, job.n * row_bytes, err));
    }
    if (t->to != BN_TYPE_I2_S) return BN_OK;
    unsigned char tail[BN_I2S_TAIL_BYTES] = {0};
    memcpy(tail, &t->target_scale, sizeof t->target_scale);
    return put(w, tail, sizeof tail, err);
}

static bn_status put_tensor(struct writer *w, struct bn_cv_tensor *t, bn_error *err)
{
    static const char ZEROS[65536];
    if (t->kind == BN_CV_MASTER) BN_TRY(find_mean(w, t, err));
    if (t->to == BN_TYPE_I2_S && t->kind != BN_CV_COPY) BN_TRY(find_scale(w, t, err));
    BN_TRY(t->kind == BN_CV_COPY ? put_copy(w, t, err) : put_rows(w, t, err));
    BN_TRY(put(w, ZEROS, (size_t)bn_gguf_padding(&w->plan->keys, t->n_bytes), err));
    if (t->input < w->plan->n_inputs)
        bn_file_map_forget(&w->plan->inputs[t->input].map, t->data, (size_t)t->n_source);
    w->n_done++;
    return BN_OK;
}

static bn_status put_all(struct writer *w, bn_error *err)
{
    struct bn_gguf_writer *keys = &w->plan->keys;
    struct bn_buf head = {.max = BN_GGUF_MAX_META_BYTES + (1u << 20)};
    for (size_t i = 0; i < w->plan->n_tensors; i++) {
        const struct bn_cv_tensor *t = &w->plan->tensors[i];
        bn_gguf_put_tensor(keys, t->name, t->to, t->n_dims, t->ne);
    }
    bn_status status = bn_gguf_write_head(keys, &head, err);
    if (status == BN_OK && head.len > BN_GGUF_MAX_META_BYTES)
        status = bn_fail(err, BN_ERR_LIMIT, "the keys take more than %u MiB", BN_GGUF_MAX_META_BYTES >> 20);
    /* A disk that is too small is reported at once. */
    if (status == BN_OK && fallocate(w->fd, 0, 0, (off_t)(head.len + keys->data_bytes)) != 0 &&
        errno == ENOSPC)
        status = bn_fail_errno(err, errno, w->plan->options->output, "cannot write %llu bytes",
                               (unsigned long long)(head.len + keys->data_bytes));
    if (status == BN_OK) status = put(w, head.data, head.len, err);
    for (size_t i = 0; status == BN_OK && i < w->plan->n_tensors; i++)
        status = put_tensor(w, &w->plan->tensors[i], err);
    bn_buf_release(&head);
    return status;
}

static bn_status check_inputs(const struct bn_cv_plan *plan, bn_error *err)
{
    for (size_t i = 0; i < plan->n_inputs; i++)
        BN_TRY(bn_file_map_check(&plan->inputs[i].map, plan->inputs[i].name, err));
    return BN_OK;
}

static bn_status write_file(struct writer *w, const char *old_record, bn_error *err)
{
    const char *output = w->plan->options->output;
    char temporary[PATH_MAX + BN_TEMP_SUFFIX_BYTES];
    BN_TRY(bn_file_temp_open(&w->fd, temporary, sizeof temporary, output, 0666, err));
    bn_status status = put_all(w, err);
    if (status == BN_OK) status = check_inputs(w->plan, err);
    if (status == BN_OK && fsync(w->fd) != 0) status = bn_fail_errno(err, errno, output, "cannot flush");
    if (status == BN_OK) (void)unlink(old_record);
    if (status == BN_OK) status = bn_file_temp_keep(w->fd, temporary, output, err);
    close(w->fd);
    if (status != BN_OK)
        (void)unlink(temporary);
    else
        bn_file_sync_folder(output);
    return status;
}

/* ---- all of it ---- */

static bn_status open_writer(struct writer *w, bn_error *err)
{
    size_t longest = 1, widest = CHUNK_BYTES;
    for (size_t i = 0; i < w->plan->n_tensors; i++) {
        const struct bn_cv_tensor *t = &w->plan->tensors[i];
        if (t->kind == BN_CV_COPY) continue;
        if (t->ne[0] > longest) longest = (size_t)t->ne[0];
        if (4 * t->ne[0] > widest) widest = 4 * (size_t)t->ne[0];
    }
    unsigned wanted = w->plan->options->threads != 0 ? w->plan->options->threads : bn_team_cores();
    w->n_threads = wanted < MAX_THREADS ? wanted : MAX_THREADS;
    for (unsigned i = 0; i < w->n_threads; i++)
        BN_TRY(open_scratch(&w->scratch[i], longest, err));
    w->chunk = bn_alloc(widest, 1);
    w->sums = bn_alloc(CHUNK_BYTES, 1);
    if (w->chunk == NULL || w->sums == NULL) return bn_nomem(err);
    bn_sha256_begin(&w->sha);
    return BN_OK;
}

bn_status bn_cv_write(struct bn_cv_plan *plan, const char *old_record, struct bn_cv_result *result,
                      bn_cv_progress progress, void *user, bn_error *err)
{
    struct writer *w = bn_alloc(1, sizeof *w);
    if (w == NULL) return bn_nomem(err);
    *w = (struct writer){.plan = plan, .fd = -1, .progress = progress, .user = user};
    bn_status status = open_writer(w, err);
    if (status == BN_OK) status = write_file(w, old_record, err);
    if (status == BN_OK) {
        bn_sha256_take_hex(&w->sha, result->sha256);
        result->n_bytes = w->n_bytes;
        for (unsigned i = 0; i < w->n_threads; i++)
            result->worst = fmax(result->worst, w->scratch[i].worst);
    }
    for (unsigned i = 0; i < MAX_THREADS; i++)
        release_scratch(&w->scratch[i]);
    bn_free(w->chunk);
    bn_free(w->sums);
    bn_free(w);
    return status;
}

bn_status bn_cv_digest_inputs(struct bn_cv_plan *plan, bn_cv_progress progress, void *user, bn_error *err)
{
    struct bn_sha256 sha;
    bn_sha256_begin(&sha);
    bn_status status = BN_OK;
    for (size_t i = 0; i < plan->n_inputs && status == BN_OK; i++) {
        const struct bn_file_map *map = &plan->inputs[i].map;
        for (size_t at = 0; at < map->n_bytes && status == BN_OK; at += CHUNK_BYTES) {
            size_t n = bn_min_size(CHUNK_BYTES, map->n_bytes - at);
            bn_sha256_update(&sha, map->data + at, n);
            bn_file_map_forget(map, map->data + at, n);
            if (progress != NULL && !progress(user, 0)) status = bn_fail(err, BN_ERR_CANCELLED, "cancelled");
        }
        bn_sha256_take_hex(&sha, plan->inputs[i].sha256);
    }
    return status;
}
