/* SPDX-License-Identifier: MIT
 *
 * Screens the head with bounds of all logits. Row w = step * q + d with |d| <= rest; the hidden state h =
 * unit * x + e, x in 16-bit integers, e measured. So
 *
 *     w h = step * unit * (q x) + d h + (w - d) e,    and the first term is off by at most
 *     |d| |h| + (|w| + |d|) |e|                       (Cauchy and Schwarz; norms are Euclidean).
 *
 * The logit that the full product computes differs from w h by at most k * 2^-24 |w| |h| for its own
 * roundings (each of its k terms passes through fewer than k of them); a few more units cover the roundings
 * here.
 *
 * With upper and lower bounds of all logits: the n_best-th largest lower bound is a floor that n_best logits
 * reach; every row whose upper bound reaches it is computed. The floor is the same however the rows were
 * divided among threads, and so is the number of rows computed.
 */
#include "infer/pass.h"

#include <math.h>
#include <string.h>

#define BLOCK 16u  /* rows that are computed together */
#define PART 4096u /* rows whose products and bounds stay in the second-level cache for all vectors */

bool bn_screen_wanted(const struct bn_session *s)
{
    return s->model->screen.q != NULL && !s->screen_off && s->trace == NULL && s->run.n_best > 0 &&
           s->run.n_best <= BN_SCREEN_MAX && s->run.n_best < s->model->head.rows;
}

/* With a larger share of rows computed, the full product would have been as fast. */
#define WORTHWHILE 4u

void bn_screen_account(struct bn_session *s)
{
    if (!bn_screen_wanted(s)) {
        s->screen.full++;
        return;
    }
    s->screen.screened++;
    s->screen.heads += s->run.n_heads;
    s->screen.rows += s->run.n_rescored;
    if (s->run.n_rescored / s->run.n_heads > s->model->vocab.n / WORTHWHILE) s->screen_off = true;
}

/* ---- the hidden state in 16-bit integers ---- */

#define LARGEST 32512.0 /* 127 * 256: the low byte of no x then needs more than the high byte has */
#define SMALLEST 1e-10  /* below this the bounds might underflow: all rows are computed */

static struct bn_screen_vector quantize_hidden(const float *h, size_t k, int8_t *x)
{
    double amax = 0.0, size = 0.0, rest = 0.0;
    for (size_t i = 0; i < k; i++) {
        amax = fmax(amax, fabs((double)h[i]));
        size += (double)h[i] * (double)h[i];
    }
    double unit = amax > SMALLEST ? (double)(float)(amax / LARGEST) : 1.0;
    for (size_t i = 0; i < k; i++) {
        double whole = rint((double)h[i] / unit), d = (double)h[i] - whole * unit;
        int v = (int)fmin(fmax(whole, -LARGEST), LARGEST);
        d += (whole - v) * unit;
        x[i] = (int8_t)((v + 128) >> 8);
        x[k + i] = (int8_t)(v - 256 * x[i]);
        rest += d * d;
    }
    double length = sqrt(size) * (1 + 1e-9), error = sqrt(rest) * (1 + 1e-9);
    double roundings = (double)(k + 64) * 0x1p-24;
    return (struct bn_screen_vector){
        .planes = {x, x + k},
        .unit = (float)unit,
        .of_size = amax > SMALLEST ? (float)((error + roundings * length) * (1 + 1e-6)) : INFINITY,
        .of_rest = (float)((length + error) * (1 + 1e-6))};
}

/* The vectors from `first` on: rows of the hidden states. One is quantised by every thread for itself, more are divided
 * among them. */
static const struct bn_screen_vector *quantize_vectors(const struct pass *p, size_t first, size_t n)
{
    struct bn_session *s = p->s;
    size_t k = p->m->head.k, from = p->thread, to = from + 1;
    if (n > 1) my_share(p, n, 1, &from, &to);
    for (size_t j = from; j < to; j++)
        s->screen_vectors[j] =
            quantize_hidden(s->hidden + (first + (n > 1 ? j : 0)) * k, k, s->screen_x + j * 2 * k);
    if (n > 1) meet(p);
    return s->screen_vectors + (n > 1 ? 0 : p->thread);
}

/* ---- the floor ---- */

/* A heap of n values, the smallest on top, takes v in place of it. */
static void replace_least(float *heap, size_t n, float v)
{
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (!(heap[child] < v)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = v;
}

/* A thread has a heap for each vector, and one more to merge them. */
static float *heap_of(const struct pass *p, unsigned thread, size_t vector)
{
    return p->s->screen_best + ((size_t)thread * (BN_SCREEN_VECTORS + 1) + vector) * BN_SCREEN_MAX;
}

/* Bounds of n rows from the products in y; r: the first row of the screen. Inline, so that whole blocks are done in vectors. */
static inline __attribute__((always_inline)) void bound_rows(const struct bn_screen *screen,
                                                             const struct bn_screen_vector *x, const float *y,
                                                             size_t r, size_t n, float lower[BLOCK],
                                                             float upper[BLOCK])
{
    for (size_t i = 0; i < n; i++) {
        float middle = screen->step[r + i] * x->unit * y[i];
        float error = screen->size[r + i] * x->of_size + screen->rest[r + i] * x->of_rest;
        lower[i] = middle - error;
        upper[i] = middle + error;
    }
}

static void bound_block(const struct bn_screen *screen, const struct bn_screen_vector *x, const float *y,
                        size_t r, size_t n, float lower[BLOCK], float upper[BLOCK])
{
    if (n == BLOCK)
        bound_rows(screen, x, y, r, BLOCK, lower, upper);
    else
        bound_rows(screen, x, y, r, n, lower, upper);
}

/* Adds the lower bounds of some rows of the head to the n_best largest ones in the heap; y has the products. */
static void keep_best(const struct pass *p, const struct bn_screen_vector *x, const float *y, size_t from,
                      size_t to, float *heap)
{
    size_t n_best = p->s->run.n_best;
    float lower[BLOCK], upper[BLOCK];
    for (size_t r = from; r < to; r += BLOCK) {
        size_t n = bn_min_size(BLOCK, to - r);
        bound_block(&p->m->screen, x, y + r, r - p->m->vocab.first, n, lower, upper);
        for (size_t i = 0; i < n; i++)
            if (lower[i] > heap[0]) replace_least(heap, n_best, lower[i]);
    }
}

/* The n_best-th largest of all threads' lower bounds. */
static float find_floor(const struct pass *p, size_t vector)
{
    size_t n_best = p->s->run.n_best;
    float *merged = heap_of(p, p->thread, BN_SCREEN_VECTORS);
    memcpy(merged, heap_of(p, p->thread, vector), n_best * sizeof *merged);
    for (unsigned t = 0; t < p->n_threads; t++)
        for (size_t i = 0; i < n_best && t != p->thread; i++)
            if (heap_of(p, t, vector)[i] > merged[0]) replace_least(merged, n_best, heap_of(p, t, vector)[i]);
    return merged[0];
}

#define NO_ROW SIZE_MAX

/* Computes one row, and asks for the next one meanwhile: rows lie far apart, so that nothing else foresees
 * them. Either may be NO_ROW. */
static void compute_row(const struct pass *p, const float *hidden, float *y, size_t r, size_t next)
{
    const struct bn_matrix *head = &p->m->head;
    if (next != NO_ROW) prefetch_row(head->data + next * head->row_bytes, head->row_bytes);
    if (r != NO_ROW) bn_head_rows(p, r, r + 1, hidden, 1, y);
}

/* Computes this thread's rows that reach the floor and sets the others to -INFINITY; returns how many. A
 * bound that is not a number, which damaged weights can give, counts as reaching it. */
static size_t rescore(const struct pass *p, const struct bn_screen_vector *x, const float *hidden, float *y,
                      float floor, size_t from, size_t to)
{
    size_t n_rows = 0, last = NO_ROW;
    float lower[BLOCK], upper[BLOCK];
    for (size_t r = from; r < to; r += BLOCK) {
        size_t n = bn_min_size(BLOCK, to - r);
        bound_block(&p->m->screen, x, y + r, r - p->m->vocab.first, n, lower, upper);
        for (size_t i = 0; i < n; i++) {
            y[r + i] = -INFINITY;
            if (upper[i] < floor) continue;
            compute_row(p, hidden, y, last, r + i);
            last = r + i;
            n_rows++;
        }
    }
    compute_row(p, hidden, y, last, NO_ROW);
    return n_rows;
}

/* n vectors from `first` on, at most BN_SCREEN_VECTORS: the 8-bit rows are read once for all of them. */
static void screen_vectors(const struct pass *p, size_t first, size_t n)
{
    struct bn_session *s = p->s;
    const struct bn_matrix *head = &p->m->head;
    struct bn_planes planes[BN_SCREEN_VECTORS];
    float *y = s->run.logits + first * head->rows;
    size_t k = head->k, from, to, n_rows = 0;
    bn_my_vocab(p, &from, &to);
    struct bn_brick_timer brick = brick_begin(p, BN_BRICK_HEAD_SCREEN);
    const struct bn_screen_vector *x = quantize_vectors(p, first, n);
    for (size_t j = 0; j < n; j++)
        planes[j] = x[j].planes;
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < s->run.n_best; i++)
            heap_of(p, p->thread, j)[i] = -INFINITY;
    kernel_begin(p);
    for (size_t r = from, end; r < to; r = end) {
        end = bn_min_size(r + PART, to);
        p->kernels->i8_gemm(y + r, head->rows, p->m->screen.q + (r - p->m->vocab.first) * k, end - r, k,
                            planes, n);
        for (size_t j = 0; j < n; j++)
            keep_best(p, &x[j], y + j * head->rows, r, end, heap_of(p, p->thread, j));
    }
    kernel_end(p, BN_KERNEL_I8_GEMM, (to - from) * (k + 3 * sizeof(float)), shape(to - from, k, n));
    brick_end(brick, (to - from) * n);
    meet(p);
    brick = brick_begin(p, BN_BRICK_LM_HEAD);
    kernel_begin(p);
    for (size_t j = 0; j < n; j++)
        n_rows +=
            rescore(p, &x[j], s->hidden + (first + j) * k, y + j * head->rows, find_floor(p, j), from, to);
    kernel_end(p, bn_head_slot(p->m, 1), n_rows * head->row_bytes, shape(n_rows, k, 1));
    brick_end(brick, n_rows);
    tell_dispatch(p, head, BN_KERNEL_I8_GEMM);
    tell_dispatch(p, head, bn_head_slot(p->m, 1));
    atomic_fetch_add(&s->run.n_rescored, n_rows);
}

void bn_screen_head(const struct pass *p)
{
    for (size_t first = 0; first < p->s->run.n_heads; first += BN_SCREEN_VECTORS) {
        if (first > 0) meet(p); /* the planes and heaps of the vectors before are not needed any more */
        screen_vectors(p, first, bn_min_size(BN_SCREEN_VECTORS, p->s->run.n_heads - first));
    }
}
