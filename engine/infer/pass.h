/* SPDX-License-Identifier: MIT
 *
 * One thread's view of the evaluation in flight, for the files that make up the forward pass.
 */
#ifndef BN_INFER_PASS_H
#define BN_INFER_PASS_H

#include "infer/session.h"

struct pass {
    struct bn_session *s;
    const struct bn_model *m;
    const struct bn_kernels *kernels;
    unsigned thread, n_threads;
    size_t n; /* tokens */
    const float
        *gate; /* of one token: where it is not above 0, a row of up is not needed; NULL: all rows are */

    /* The trail of this thread, or NULL, for all events, for those of bricks and for those inside bricks. So
     * an event that is not wanted costs a branch on a local pointer. */
    struct bn_prof_trail *trail, *brick_trail, *kernel_trail;
};

static inline struct pass pass_of(struct bn_session *s, unsigned thread, unsigned n_threads)
{
    struct bn_prof_trail *trail = bn_prof_trail(s->prof, thread);
    return (struct pass){.s = s,
                         .m = s->model,
                         .kernels = s->model->kernels,
                         .thread = thread,
                         .n_threads = n_threads,
                         .n = s->run.n,
                         .trail = trail,
                         .brick_trail = trail,
                         .kernel_trail = trail != NULL && bn_prof_wants_kernels(trail) ? trail : NULL};
}

/* The first row of normalised activations that this thread reads, and of probabilities and pairs: every thread normalises,
 * quantises and routes a single token for itself, which is sooner done than waiting for one that does it for all. */
static inline size_t own_row(const struct pass *p)
{
    return p->n == 1 ? p->thread : 0;
}

/* Asks for the bytes of a row that nothing else foresees. */
static inline void prefetch_row(const unsigned char *row, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 64)
        __builtin_prefetch(row + i);
}

static inline void my_share(const struct pass *p, size_t n, size_t grain, size_t *from, size_t *to)
{
    bn_team_share(n, grain, p->thread, p->n_threads, from, to);
}

/* ---- what is stamped ---- */

/* Around each stage: brick_end(brick_begin(p, brick), values that this thread made). */
static inline struct bn_brick_timer brick_begin(const struct pass *p, enum bn_brick brick)
{
    return bn_prof_start(p->brick_trail, brick);
}

static inline void brick_end(struct bn_brick_timer timer, uint64_t elements)
{
    bn_prof_stop(timer, elements);
}

/* The same for parts of a stage that are too small to be stamped unless kernels are. */
static inline struct bn_brick_timer part_begin(const struct pass *p, enum bn_brick brick)
{
    return bn_prof_start(p->kernel_trail, brick);
}

/* Around each layer. At the level of layers nothing inside is stamped. */
static inline struct bn_brick_timer layer_begin(struct pass *p, uint32_t n)
{
    struct bn_prof_trail *trail = p->trail;
    if (bn_prof_wanted(trail)) {
        bool whole = bn_prof_wants_layers(trail);
        trail->layer = (int16_t)n;
        if (whole) p->brick_trail = NULL;
        if (!whole) trail = NULL;
    }
    return bn_prof_start(trail, BN_BRICK_LAYER);
}

static inline void layer_end(struct pass *p, struct bn_brick_timer timer)
{
    bn_prof_stop(timer, p->n * p->m->hp.n_embd);
    p->brick_trail = p->trail;
    if (bn_prof_wanted(p->trail)) p->trail->layer = -1;
}

/* Around each kernel: its counters, and with a profile its event. */
static inline void kernel_begin(const struct pass *p)
{
    bn_counters_begin(&p->s->counters[p->thread], p->thread);
    if (bn_prof_wanted(p->kernel_trail)) bn_prof_begin_kernel(p->kernel_trail);
}

/* shape is the share of this thread; it is empty when another thread does the same work. */
static inline void kernel_end(const struct pass *p, enum bn_kernel kernel, uint64_t bytes,
                              struct bn_prof_shape shape)
{
    uint64_t ops = (uint64_t)shape.rows * shape.cols * shape.n;
    bn_counters_end(&p->s->counters[p->thread], p->thread, kernel, bytes, ops);
    if (bn_prof_wanted(p->trail)) {
        p->trail->bytes += bytes;
        bn_prof_count_ops(p->trail, ops);
        if (bn_prof_wanted(p->kernel_trail)) bn_prof_add_kernel(p->kernel_trail, kernel, bytes, &shape);
    }
}

static inline void tell_dispatch(const struct pass *p, const void *weights, enum bn_kernel kernel)
{
    if (p->thread == 0 && p->s->dispatch != NULL) p->s->dispatch(p->s->dispatch_user, weights, kernel);
}

static inline struct bn_prof_shape shape(size_t rows, size_t cols, size_t n)
{
    return (struct bn_prof_shape){(uint32_t)rows, (uint32_t)cols, (uint32_t)n};
}

/* The shape of work that every rank does: it counts on the first one. */
static inline struct bn_prof_shape counted_once(const struct pass *p, struct bn_prof_shape work)
{
    if (bn_model_follows(p->m)) work.rows = 0;
    return work;
}

/* Around a stage of one kernel: stamps its brick and its kernel with one test. */
static inline struct bn_brick_timer stage_begin(const struct pass *p, enum bn_brick brick)
{
    struct bn_brick_timer timer = {p->brick_trail, brick};
    bn_counters_begin(&p->s->counters[p->thread], p->thread);
    if (bn_prof_wanted(timer.trail)) {
        bn_prof_open_brick(timer.trail, brick);
        if (bn_prof_wanted(p->kernel_trail)) bn_prof_begin_kernel(p->kernel_trail);
    }
    return timer;
}

/* The values made are those of the shape. */
static inline void stage_end(const struct pass *p, struct bn_brick_timer timer, enum bn_kernel kernel,
                             uint64_t bytes, struct bn_prof_shape shape)
{
    kernel_end(p, kernel, bytes, shape);
    if (bn_prof_wanted(timer.trail))
        bn_prof_close_brick(timer.trail, timer.brick, (uint64_t)shape.rows * shape.cols * shape.n);
}

/* All threads meet; the waiting time of each is a brick. */
static inline void meet(const struct pass *p)
{
    struct bn_brick_timer timer = brick_begin(p, BN_BRICK_BARRIER_WAIT);
    bn_team_barrier(p->s->team, p->n_threads);
    brick_end(timer, 0);
}

/* All threads meet, then each rank has all of n rows of data: `width` values each, of which it computed a slice
 * (bn_model_slice). Nothing but the barrier when the model is not divided. Defined in exchange.c. */
void bn_exchange(const struct pass *p, float *data, size_t width, size_t grain, size_t n);
static inline void meet_ranks(const struct pass *p, float *data, size_t width, size_t grain)
{
    if (p->m->ranks == NULL)
        meet(p);
    else
        bn_exchange(p, data, width, grain, p->n);
}

/* The logits that matter come to the first rank. A stage, called by all threads. */
void bn_exchange_logits(const struct pass *p);

/* Row j of the activations for linear layers with 16 bits. Rows that are not finite are set to zero. */
void bn_quantize_row16(const struct pass *p, size_t j, const float *x, size_t width, size_t group,
                       bool finite);
/* y = W act for a part of a matrix with a scale for each group and n rows of activations. Returns the slot that runs. */
enum bn_kernel bn_multiply_ternary(const struct pass *p, const struct bn_ternary *part,
                                   const struct bn_act *act, float *y, size_t ldy, size_t n);

/* Rows from..to of the head, which are of this rank, times the n rows at hidden: y[j * rows of the head + r]. Defined in head.c. */
void bn_head_rows(const struct pass *p, size_t from, size_t to, const float *hidden, size_t n, float *y);
/* This thread's share of the rows of the head that are of this rank. */
void bn_my_vocab(const struct pass *p, size_t *from, size_t *to);
/* The slot that multiplies there, for n rows. */
enum bn_kernel bn_head_slot(const struct bn_model *m, size_t n);
/* The whole head for the rows of the batch that want logits; a stage, called by all threads. */
void bn_head(const struct pass *p);

/* Whether the current evaluation can be screened, and whether that saves time. */
bool bn_screen_wanted(const struct bn_session *s);
/* Fills s->run.logits; a stage of the forward pass, called by all threads. */
void bn_screen_head(const struct pass *p);
/* After an evaluation whose best logits alone matter: counts how they were computed. */
void bn_screen_account(struct bn_session *s);

/* ---- stages ---- */

/* The stages of a layer: what the files of the forward pass share. All threads call each stage.
 *
 * A stage divides rows of the batch, heads, or rows of a matrix among the threads, never a sum. It ends with a
 * barrier where another thread's results are read next, unless its comment says otherwise. */

/* ---- linear.c ---- */

/* Passes n rows to the session's trace callback, if there is one, after all threads have written them: one record for
 * each sequence. index says which rows of the batch they are; NULL: the first n. */
void bn_trace_rows(const struct pass *p, const char *op, int32_t layer, const float *data,
                   const uint32_t *index, size_t n, size_t cols);
/* The same for all rows of the batch. */
void bn_trace_layer(const struct pass *p, const char *op, uint32_t layer, const float *data, size_t cols);

/* A row of activations, rotated in a row of this thread's own when the layer wants it. */
const float *bn_rotated(const struct pass *p, const struct bn_linear *next, const float *x, size_t width);

/* out = rmsnorm(in) * weight for the rows that this thread quantises next. Returns where its row 0 is: a single
 * token is normalised by every thread for itself. No barrier follows. `op` names the trace. */
const float *bn_norm_rows(const struct pass *p, const char *op, uint32_t layer, const float *in, float *out,
                          const float *weight, size_t width);
/* Makes the inputs of `next`: normalises them into out when the layer has a norm of its inputs, rotates and
 * quantises them. `in` is what bn_norm_rows returned, or rows that all threads see. */
void bn_prepare_inputs(const struct pass *p, const char *op, uint32_t layer, const float *in, float *out,
                       const struct bn_linear *next);
/* One row of activations at place j, which `next` reads. */
void bn_quantize_row(const struct pass *p, size_t j, const float *x, const struct bn_linear *next,
                     bool finite);
/* The same in place of the inputs of another layer, after all threads have read those. */
void bn_next_inputs(const struct pass *p, const char *op, uint32_t layer, const float *in,
                    const struct bn_linear *next);
/* y = W x for this thread's rows of this rank's slice of W and the inputs prepared. Returns the number of values. No barrier. */
size_t bn_multiply_rows(const struct pass *p, const struct bn_linear *lin, float *y);
/* The same as a brick of its own. */
void bn_project(const struct pass *p, enum bn_brick brick, const struct bn_linear *lin, float *y);
/* The same for the rows of all ranks; with ranks all threads meet. */
void bn_project_all(const struct pass *p, enum bn_brick brick, const struct bn_linear *lin, float *y);
/* x += y, or rmsnorm(y) * norm when there is a norm. No barrier follows. */
void bn_add_residual(const struct pass *p, const char *op, uint32_t layer, const float *norm);

/* ---- attention.c, recurrent.c, forward.c, experts.c ---- */

/* The two halves of layer n: each reads and changes the residual stream. A recurrent layer has no attention. */
void bn_layer_attention(const struct pass *p, uint32_t n);
void bn_layer_recurrent(const struct pass *p, uint32_t n);
void bn_layer_ffn(const struct pass *p, uint32_t n);
/* The second half of a layer with experts. */
void bn_layer_experts(const struct pass *p, uint32_t n);

/* ---- arithmetic of layers that is in no slot of kernels.h ---- */

/* log(1 + e), 0 <= e <= 1: 2 atanh(e / (2 + e)) by its series, whose next term is below 2e-11. */
double bn_log_1_plus(double e);
/* x / max(|x|, eps) * factor: squares in binary32, their lane sum in binary64 over 8 lanes as in rmsnorm. */
void bn_normalise(float *x, size_t n, float eps, float factor);
/* n_used experts by their probabilities p, ascending, and their weights. Those chosen lose their probability. */
void bn_choose_experts(const struct bn_experts *experts, float *p, uint32_t *chosen, float *weights);

#endif
