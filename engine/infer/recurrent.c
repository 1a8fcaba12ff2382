/* SPDX-License-Identifier: MIT
 *
 * The recurrent half of a layer: the gated delta rule (Yang et al., "Gated delta networks", 2024) as Qwen3.5 has it. For
 * each token, h its normalised input:
 *
 *     m = Wmix h;  z = Wz h;  beta = sigmoid(Wbeta h);  decay = exp(a softplus(Walpha h + dt))
 *     q, k, v = silu(convolution over m of the last tokens)
 *     each head of q and k is divided by its length, and q by the root of its size besides
 *     each value head: S = decay S;  S = S + k (beta (v - S^T k))^T;  o = S^T q
 *     x = x + Wout (rmsnorm(o) * norm * silu(z))
 *
 * Tokens are taken one after the other, in this order of operations, whatever batch they come in. Elements of m, heads
 * and columns of S are divided among the threads.
 */
#include <math.h>

#include "base/error.h"
#include "infer/pass.h"

#define CHUNK 64u /* of heads, and of columns */

/* Rows of one sequence. */
struct run {
    struct bn_sequence *sequence;
    size_t first, n;
    uint32_t position; /* of the first */
};

static struct run run_at(const struct pass *p, size_t first)
{
    const struct bn_row *rows = p->s->rows;
    struct run run = {.sequence = rows[first].sequence, .first = first, .position = rows[first].position};
    while (first + run.n < p->n && rows[first + run.n].sequence == run.sequence)
        run.n++;
    return run;
}

/* ---- gates ---- */

/* alpha and beta of this thread's heads, before they become gates. */
static void multiply_gates(const struct pass *p, const struct bn_recurrent *r, const float *inputs)
{
    size_t n_heads = p->m->hp.recurrence.n_value_heads, k = p->m->hp.n_embd, from, to;
    my_share(p, n_heads, 1, &from, &to);
    kernel_begin(p);
    p->kernels->f32_gemm(p->s->decay + from, n_heads, r->alpha + from * k, to - from, k, inputs, k, p->n);
    p->kernels->f32_gemm(p->s->beta + from, n_heads, r->beta + from * k, to - from, k, inputs, k, p->n);
    kernel_end(p, BN_KERNEL_F32_GEMM, 2 * (to - from) * k * sizeof(float), shape(2 * (to - from), k, p->n));
}

double bn_log_1_plus(double e)
{
    double s = e / (2.0 + e), z = s * s, sum = 0.0;
    for (int n = 19; n > 0; n -= 2)
        sum = sum * z + 1.0 / n;
    return 2.0 * s * sum;
}

/* softplus(x) = log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), rounded once. */
static void make_gates(const struct pass *p, const struct bn_recurrent *r)
{
    size_t n_heads = p->m->hp.recurrence.n_value_heads, from, to, n;
    float *decay = p->s->decay, *beta = p->s->beta, x[CHUNK], e[CHUNK];
    my_share(p, p->n * n_heads, 1, &from, &to);
    for (size_t i = from; i < to; i += n) {
        n = bn_min_size(CHUNK, to - i);
        for (size_t c = 0; c < n; c++) {
            x[c] = decay[i + c] + r->dt[(i + c) % n_heads];
            e[c] = -fabsf(x[c]);
        }
        p->kernels->exp(e, e, n);
        for (size_t c = 0; c < n; c++) {
            float softplus = (float)((double)(x[c] > 0.0f ? x[c] : 0.0f) + bn_log_1_plus((double)e[c]));
            x[c] = r->a[(i + c) % n_heads] * softplus;
            e[c] = -beta[i + c];
        }
        p->kernels->exp(decay + i, x, n);
        p->kernels->exp(e, e, n);
        for (size_t c = 0; c < n; c++)
            beta[i + c] = 1.0f / (1.0f + e[c]);
    }
}

/* ---- the convolution ---- */

/* Row `at` of mix, counted from the first token of a run: those before it are in the state. */
static float *mix_row(const struct pass *p, const struct run *run, float *state, ptrdiff_t at)
{
    size_t width = bn_hparams_mixed(&p->m->hp);
    ptrdiff_t n_before = (ptrdiff_t)p->m->hp.recurrence.n_taps - 1;
    return at >= 0 ? p->s->mix + (run->first + (size_t)at) * width : state + (size_t)(n_before + at) * width;
}

/* The last rows before token n of a run become the state at `to`. Ascending, since `to` may be where they are. */
static void keep_rows(const struct pass *p, const struct run *run, float *state, float *to, size_t n,
                      size_t from, size_t columns)
{
    size_t width = bn_hparams_mixed(&p->m->hp), n_before = p->m->hp.recurrence.n_taps - 1;
    for (size_t i = 0; i < n_before; i++)
        memcpy(to + i * width + from, mix_row(p, run, state, (ptrdiff_t)(n + i) - (ptrdiff_t)n_before) + from,
               columns * sizeof *to);
}

/* Row j of what a trial keeps of the layer: the rows of all recurrent layers, n_rows of each, width values in a row. */
static float *tried_row(const struct bn_trial *trial, float *rows, const struct bn_layer *l, size_t j,
                        size_t width)
{
    return rows + ((size_t)l->nth * trial->n_rows + j) * width;
}

static void convolve_run(const struct pass *p, const struct bn_layer *l, const struct run *run, size_t from,
                         size_t columns)
{
    const bn_hparams *hp = &p->m->hp;
    size_t width = bn_hparams_mixed(hp), taps = hp->recurrence.n_taps, at = l->nth * bn_layer_state(hp);
    float *state = run->sequence->state + at;
    const float *rows[BN_MAX_TAPS];
    for (size_t j = 0; j < run->n; j++) {
        for (size_t t = 0; t < taps; t++)
            rows[t] = mix_row(p, run, state, (ptrdiff_t)(j + t + 1) - (ptrdiff_t)taps) + from;
        p->kernels->conv_silu(p->s->conv + (run->first + j) * width + from, l->recurrent.conv + from, width,
                              rows, taps, columns);
    }
    const struct bn_sequence *sequence = run->sequence;
    struct bn_trial *trial = sequence->trial;
    for (size_t i = 0; i < sequence->n_taken; i++)
        keep_rows(p, run, state, sequence->taken[i]->state + at, sequence->taken[i]->n_tokens - run->position,
                  from, columns);
    if (trial == NULL) keep_rows(p, run, state, state, run->n, from, columns);
    for (size_t j = 0; trial != NULL && j < run->n; j++)
        memcpy(tried_row(trial, trial->mix, l, j, width) + from, mix_row(p, run, state, (ptrdiff_t)j) + from,
               columns * sizeof *state);
}

/* The gates of a trial are kept as its rows are. Few values: the first thread copies them. */
static void keep_gates(const struct pass *p, const struct bn_layer *l)
{
    size_t n_heads = p->m->hp.recurrence.n_value_heads;
    for (size_t j = 0; p->thread == 0 && j < p->n; j++) {
        const struct bn_row *row = &p->s->rows[j];
        const struct bn_trial *trial = row->sequence->trial;
        if (trial == NULL) continue;
        size_t nth = row->position - trial->position, bytes = n_heads * sizeof(float);
        memcpy(tried_row(trial, trial->decay, l, nth, n_heads), p->s->decay + j * n_heads, bytes);
        memcpy(tried_row(trial, trial->beta, l, nth, n_heads), p->s->beta + j * n_heads, bytes);
    }
}

static void convolve(const struct pass *p, const struct bn_layer *l)
{
    size_t from, to;
    struct run run;
    my_share(p, bn_hparams_mixed(&p->m->hp), BN_ROW_GRAIN, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_CONVOLUTION);
    for (size_t first = 0; first < p->n && from < to; first += run.n) {
        run = run_at(p, first);
        convolve_run(p, l, &run, from, to - from);
    }
    stage_end(p, brick, BN_KERNEL_CONV_SILU, 0, shape(p->n, to - from, p->m->hp.recurrence.n_taps));
}

/* ---- heads ---- */

void bn_normalise(float *x, size_t n, float eps, float factor)
{
    double lane[8] = {0};
    for (size_t i = 0; i < n; i++) {
        float square = x[i] * x[i];
        lane[i % 8] += (double)square;
    }
    for (size_t half = 4; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    float length = sqrtf((float)lane[0]), r = 1.0f / (length > eps ? length : eps);
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * r * factor;
}

/* The heads of q and then of k of each token. */
static void normalise_heads(const struct pass *p)
{
    const bn_hparams *hp = &p->m->hp;
    size_t d = hp->recurrence.head_dim, n_keys = hp->recurrence.n_key_heads, from, to;
    float of_q = 1.0f / sqrtf((float)d);
    my_share(p, p->n * 2 * n_keys, 1, &from, &to);
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_RMS_NORM);
    for (size_t i = from; i < to; i++) {
        size_t head = i % (2 * n_keys);
        bn_normalise(p->s->conv + i / (2 * n_keys) * bn_hparams_mixed(hp) + head * d, d, hp->rms_eps,
                     head < n_keys ? of_q : 1.0f);
    }
    brick_end(brick, (to - from) * d);
}

/* Where the output of a value head is among the inputs of o. */
static size_t place_of(const struct pass *p, const struct bn_recurrent *r, size_t head)
{
    size_t n_keys = p->m->hp.recurrence.n_key_heads, each = p->m->hp.recurrence.n_value_heads / n_keys;
    return r->grouped ? head % n_keys * each + head / n_keys : head;
}

static void copy_columns(float *to, size_t ld_to, const float *from, size_t ld_from, size_t d, size_t n)
{
    for (size_t i = 0; i < d; i++)
        memcpy(to + i * ld_to, from + i * ld_from, n * sizeof *to);
}

/* Updates the columns with the next n tokens, and returns n. */
static size_t update_columns(const struct pass *p, struct bn_delta *w, size_t n)
{
    if (n > 0) p->kernels->delta(w, n);
    w->q += n * w->ld_qk;
    w->k += n * w->ld_qk;
    w->v += n * w->ld_v;
    w->o += n * w->ld_o;
    w->decay += n * w->ld_gate;
    w->beta += n * w->ld_gate;
    return n;
}

/* Columns of one value head. The columns of a trial are updated in a copy, which is not written back. */
static void update_head(const struct pass *p, const struct bn_layer *l, const struct run *run, size_t head,
                        size_t from, size_t columns)
{
    const bn_hparams *hp = &p->m->hp;
    size_t d = hp->recurrence.head_dim, n_keys = hp->recurrence.n_key_heads,
           n_heads = hp->recurrence.n_value_heads;
    size_t width = bn_hparams_mixed(hp), inner = bn_hparams_inner(hp);
    size_t at = l->nth * bn_layer_state(hp) + bn_conv_state(hp) + head * d * d + from;
    const struct bn_sequence *sequence = run->sequence;
    const float *mixed = p->s->conv + run->first * width;
    struct bn_delta w = {.state = sequence->state + at,
                         .d = d,
                         .columns = columns,
                         .ld = d,
                         .q = mixed + head % n_keys * d,
                         .k = mixed + (n_keys + head % n_keys) * d,
                         .v = mixed + (2 * n_keys + head) * d + from,
                         .o = p->s->att + run->first * inner + place_of(p, &l->recurrent, head) * d + from,
                         .ld_qk = width,
                         .ld_v = width,
                         .ld_o = inner,
                         .decay = p->s->decay + run->first * n_heads + head,
                         .beta = p->s->beta + run->first * n_heads + head,
                         .ld_gate = n_heads};
    if (sequence->trial != NULL) {
        w.state = p->s->tried + p->thread * d * d;
        w.ld = columns;
        copy_columns(w.state, w.ld, sequence->state + at, d, d, columns);
    }
    size_t n_done = 0;
    for (size_t i = 0; i < sequence->n_taken; i++) {
        n_done += update_columns(p, &w, sequence->taken[i]->n_tokens - run->position - n_done);
        copy_columns(sequence->taken[i]->state + at, d, w.state, w.ld, d, columns);
    }
    update_columns(p, &w, run->n - n_done);
}

static void update(const struct pass *p, const struct bn_layer *l)
{
    size_t d = p->m->hp.recurrence.head_dim, from, to, n_runs = 0;
    struct run run;
    my_share(p, bn_hparams_inner(&p->m->hp), d % CHUNK == 0 ? CHUNK : d, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_DELTA_RULE);
    for (size_t first = 0; first < p->n; first += run.n, n_runs++) {
        run = run_at(p, first);
        for (size_t at = from, columns; at < to; at += columns) {
            columns = bn_min_size(to - at, d - at % d);
            update_head(p, l, &run, at / d, at % d, columns);
        }
    }
    stage_end(p, brick, BN_KERNEL_DELTA, n_runs * (to - from) * d * 2 * sizeof(float),
              shape(p->n * d, to - from, 3));
}

/* The output of head i, counted over the batch. */
static float *head_out(const struct pass *p, const struct bn_recurrent *r, size_t i)
{
    size_t d = p->m->hp.recurrence.head_dim, n_heads = p->m->hp.recurrence.n_value_heads;
    return p->s->att + (i / n_heads * n_heads + place_of(p, r, i % n_heads)) * d;
}

static void gate(const struct pass *p, const struct bn_recurrent *r)
{
    const bn_hparams *hp = &p->m->hp;
    size_t d = hp->recurrence.head_dim, n_heads = hp->recurrence.n_value_heads, from, to;
    my_share(p, p->n * n_heads, 1, &from, &to);
    struct bn_brick_timer brick = stage_begin(p, BN_BRICK_HEAD_GATE);
    for (size_t i = from; i < to; i++) {
        float *row = head_out(p, r, i);
        p->kernels->rmsnorm(row, row, r->norm, d, hp->rms_eps);
    }
    kernel_end(p, BN_KERNEL_RMSNORM, 0, shape(to - from, d, 1));
    kernel_begin(p);
    for (size_t i = from; i < to; i++) {
        float *row = head_out(p, r, i);
        p->kernels->silu_mul(row, p->s->z + i * d, row, d);
    }
    stage_end(p, brick, BN_KERNEL_SILU_MUL, 0, shape(to - from, d, 1));
}

void bn_layer_recurrent(const struct pass *p, uint32_t n)
{
    struct bn_session *s = p->s;
    const bn_hparams *hp = &p->m->hp;
    const struct bn_layer *l = &p->m->layers[n];
    const struct bn_recurrent *r = &l->recurrent;
    const float *inputs = bn_norm_rows(p, "attn_norm", n, s->x, s->norm, l->attn_norm, hp->n_embd);
    bn_prepare_inputs(p, "attn_qkv_norm_in", n, inputs, s->norm_in, &r->mix);
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_QKV_PROJECTION);
    size_t n_made = bn_multiply_rows(p, &r->mix, s->mix);
    n_made += bn_multiply_rows(p, &r->z, s->z);
    multiply_gates(p, r, inputs);
    brick_end(brick, n_made);
    bn_trace_layer(p, "mix", n, s->mix, r->mix.rows);
    bn_trace_layer(p, "z", n, s->z, r->z.rows);
    meet(p);
    make_gates(p, r);
    convolve(p, l);
    bn_trace_layer(p, "conv", n, s->conv, r->mix.rows);
    meet(p);
    keep_gates(p, l);
    normalise_heads(p);
    meet(p);
    update(p, l);
    meet(p);
    gate(p, r);
    bn_trace_layer(p, "attn_out", n, s->att, l->o.k);
    meet(p);
    bn_prepare_inputs(p, "attn_output_norm_in", n, s->att, s->norm, &l->o);
    bn_project(p, BN_BRICK_OUTPUT_PROJECTION, &l->o, s->y);
    bn_trace_layer(p, "attn_o", n, s->y, hp->n_embd);
    bn_add_residual(p, "post_attention_norm", n, NULL);
    bn_trace_layer(p, "attn_res", n, s->x, hp->n_embd);
    meet(p);
}

/* ---- tokens that are taken back ---- */

bn_status bn_trial_open(struct bn_trial **out, const bn_hparams *hp, size_t n_rows, bn_error *err)
{
    size_t n = bn_hparams_n_recurrent(hp, hp->n_layer) * n_rows, n_heads = hp->recurrence.n_value_heads;
    *out = NULL;
    if (n == 0) return BN_OK;
    struct bn_trial *trial = bn_alloc(1, sizeof *trial);
    if (trial == NULL) return bn_nomem(err);
    *trial = (struct bn_trial){.n_rows = n_rows,
                               .mix = bn_alloc_aligned(n, bn_hparams_mixed(hp) * sizeof(float)),
                               .decay = bn_alloc_aligned(n, n_heads * sizeof(float)),
                               .beta = bn_alloc_aligned(n, n_heads * sizeof(float))};
    *out = trial;
    if (trial->mix != NULL && trial->decay != NULL && trial->beta != NULL) return BN_OK;
    bn_trial_close(trial);
    *out = NULL;
    return bn_nomem(err);
}

void bn_trial_close(struct bn_trial *trial)
{
    if (trial == NULL) return;
    bn_free(trial->mix);
    bn_free(trial->decay);
    bn_free(trial->beta);
    bn_free(trial);
}

/* Each thread takes the columns that it convolves, so that no thread waits before that. */
static void take_rows(const struct pass *p, const struct bn_trial *trial, const struct bn_layer *l)
{
    size_t width = bn_hparams_mixed(&p->m->hp), n_heads = p->m->hp.recurrence.n_value_heads, from, to;
    my_share(p, width, BN_ROW_GRAIN, &from, &to);
    for (size_t j = 0; j < p->n; j++)
        memcpy(p->s->mix + j * width + from, tried_row(trial, trial->mix, l, j, width) + from,
               (to - from) * sizeof(float));
    if (p->thread != 0) return;
    memcpy(p->s->decay, tried_row(trial, trial->decay, l, 0, n_heads), p->n * n_heads * sizeof(float));
    memcpy(p->s->beta, tried_row(trial, trial->beta, l, 0, n_heads), p->n * n_heads * sizeof(float));
}

struct settling {
    struct bn_session *session;
    const struct bn_trial *trial;
};

/* The stages between the products, on the kept rows: the same operations on the same values. */
static void settle(void *arg, unsigned thread, unsigned n_threads)
{
    const struct settling *job = arg;
    struct pass pass = pass_of(job->session, thread, n_threads);
    const struct pass *p = &pass;
    pass.trail = pass.brick_trail = pass.kernel_trail = NULL; /* a profile is of passes */
    for (uint32_t i = 0; i < p->m->hp.n_layer; i++) {
        const struct bn_layer *l = &p->m->layers[i];
        if (!l->is_recurrent) continue;
        take_rows(p, job->trial, l);
        convolve(p, l);
        meet(p);
        normalise_heads(p);
        meet(p);
        update(p, l);
        meet(p);
    }
}

void bn_sequence_settle(struct bn_sequence *sequence, uint32_t n_tokens)
{
    struct bn_session *s = sequence->session;
    struct settling job = {s, sequence->trial};
    sequence->position = n_tokens;
    sequence->trial = NULL;
    if (job.trial == NULL) return;
    if (s->on_device != NULL) {
        bn_forward_again(sequence, job.trial->position, n_tokens);
        return;
    }
    if (n_tokens == job.trial->position) return;
    s->run.n = n_tokens - job.trial->position;
    for (uint32_t j = 0; j < s->run.n; j++)
        s->rows[j] =
            (struct bn_row){sequence, job.trial->position + j, sequence->tokens[job.trial->position + j]};
    bn_team_run(s->team, settle, &job);
}
