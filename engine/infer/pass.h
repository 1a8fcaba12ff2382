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
};

static inline void begin(const struct pass *p)
{
    bn_counters_begin(&p->s->counters[p->thread], p->thread);
}

static inline void end(const struct pass *p, enum bn_kernel kernel, uint64_t bytes, uint64_t ops)
{
    bn_counters_end(&p->s->counters[p->thread], p->thread, kernel, bytes, ops);
}

static inline void share(const struct pass *p, size_t n, size_t grain, size_t *from, size_t *to)
{
    bn_team_share(n, grain, p->thread, p->n_threads, from, to);
}

static inline void meet(const struct pass *p)
{
    bn_team_barrier(&p->s->team, p->n_threads);
}

/* Rows from..to of the head times the n rows at hidden: y[j * rows of the head + r]. Defined in head.c. */
void bn_head_rows(const struct pass *p, size_t from, size_t to, const float *hidden, size_t n, float *y);
/* The slot that does the multiplying there. */
enum bn_kernel bn_head_slot(const struct bn_model *m);
/* The whole head for the rows of the batch that want logits; a stage, called by all threads. */
void bn_head(const struct pass *p);

#endif
