/* SPDX-License-Identifier: MIT
 *
 * One evaluation in flight, for the files that make up the forward pass on a device.
 */
#ifndef BN_OPENCL_PASS_H
#define BN_OPENCL_PASS_H

#include "opencl/device.h"

struct bn_cl_pass {
    struct bn_device_session *d;
    struct bn_session *s;
    const bn_hparams *hp;
    struct bn_cl_queue *q;
    const struct bn_row *rows; /* n tokens of the batch, from its token `first` on */
    size_t first, n;
    bool more;        /* launches go on with calls that were counted before, and whose bytes were */
    size_t group;     /* work-items of a group that has a row */
    bool is_finished; /* some rows went through the final norm */
    bool adds;        /* y is not yet added to x, */
    cl_mem add_norm;  /* normalised first; NULL: as it is */
};

/* What a launch of prepare does to n rows of x: each step may be missing. */
struct bn_cl_inputs {
    cl_mem x, index; /* rows of width values, ld apart; which of them, NULL: the first n */
    size_t n, width, ld;
    bool adds; /* x += y, normalised by */
    cl_mem add_norm;
    bool activates;   /* x = act(x) * the values up_at after it */
    cl_mem norm, out; /* out = rmsnorm(x) * norm */
    size_t ld_out;
    const struct bn_cl_linear *next; /* for which the rows are rotated and quantised */
};

/* The names of what a half of a layer makes, in a trace. */
struct bn_cl_ops {
    const char *norm, *norm_in;
};

/* What a launch is counted as. */
static inline struct bn_cl_work bn_cl_work(const struct bn_cl_pass *p, enum bn_kernel slot, uint64_t bytes,
                                           uint64_t ops)
{
    return (struct bn_cl_work){slot, bytes, ops, p->more};
}

/* A kernel that a launch computes besides the one that has its time. */
static inline void bn_cl_count(const struct bn_cl_pass *p, enum bn_kernel slot, uint64_t ops)
{
    struct bn_cl_counter *c = &p->q->counters[slot];
    c->calls += !p->more;
    c->ops += ops;
}

/* A launch with a group of work-items for each of n rows, and one with a work-item for each column of each row. */
void bn_cl_run_rows(const struct bn_cl_pass *p, enum bn_cl_kernel kernel, size_t n,
                    const struct bn_cl_arg *args, size_t n_args, struct bn_cl_work work);
void bn_cl_run_columns(const struct bn_cl_pass *p, enum bn_cl_kernel kernel, size_t columns, size_t n,
                       const struct bn_cl_arg *args, size_t n_args, struct bn_cl_work work);

/* Calls the trace, if there is one, with the rows of the batch in some columns of a buffer, ld apart. */
void bn_cl_trace(const struct bn_cl_pass *p, const char *op, int32_t layer, cl_mem from, size_t at, size_t ld,
                 size_t cols);
/* The same where a row has pieces of `cols` values, `stride` apart. */
void bn_cl_trace_pieces(const struct bn_cl_pass *p, const char *op, int32_t layer, cl_mem from, size_t at,
                        size_t ld, size_t n_pieces, size_t stride, size_t cols);
/* One launch of the kernel prepare. */
void bn_cl_prepare_rows(const struct bn_cl_pass *p, const struct bn_cl_inputs *in);
/* Makes the inputs of in.next: rows of x, normalised by in.norm, by the norm that the inputs of this linear layer have
 * besides, rotated, quantised. Rows normalised by in.norm stay at in.out when there is such a second norm. */
void bn_cl_prepare(struct bn_cl_pass *p, struct bn_cl_inputs in, struct bn_cl_ops ops, int32_t layer);
/* y = W act for n rows of activations; the outputs of its parts begin at column `at`. */
void bn_cl_multiply(const struct bn_cl_pass *p, const struct bn_cl_linear *lin, cl_mem y, size_t ldy,
                    size_t at, size_t n);
/* y = W act for each pair of a token and an expert, whose rows_each rows of W are used. The activations of row i are those
 * of pair i, or of token i / shared. */
void bn_cl_multiply_experts(const struct bn_cl_pass *p, const struct bn_cl_linear *lin, cl_mem y, size_t ldy,
                            size_t at, size_t rows_each, size_t shared);
/* y = W x for n rows of x and a matrix of binary16 or binary32, which counts as n_bytes. */
void bn_cl_multiply_floats(const struct bn_cl_pass *p, cl_mem w, bool f16, uint64_t n_bytes, size_t rows,
                           size_t k, cl_mem x, size_t ldx, cl_mem y, size_t ldy, size_t n);
/* The residual stream, normalised into d->norm. */
struct bn_cl_inputs bn_cl_stream(const struct bn_cl_pass *p, cl_mem norm);
/* n_lin matrices, one after the other, of the same rows before their own norms. ops: the names of their parts. */
void bn_cl_project(struct bn_cl_pass *p, const struct bn_cl_linear *lin, size_t n_lin, struct bn_cl_inputs in,
                   cl_mem y, size_t ldy, const char *norm_op, const char *const *in_ops,
                   const char *const *ops, int32_t layer);
/* x += y, normalised first when there is a norm: with the next step that reads x, or now for a trace. */
void bn_cl_add_residual(struct bn_cl_pass *p, cl_mem norm, struct bn_cl_ops ops, int32_t layer);

/* What is pending of that now. */
void bn_cl_add_pending(struct bn_cl_pass *p);

/* Puts the launches of a pass that ended into the session's profile, if there is one; enqueued: the profile's clock when
 * the first one was. profile.c */
void bn_cl_profile(struct bn_session *session, uint64_t enqueued);

/* The end of the first half of layer n: what came out of its heads at d->att times o, and the residual sum. */
void bn_cl_project_heads(struct bn_cl_pass *p, uint32_t n);

/* The halves of layer n that some models have: recurrent.c, experts.c. */
void bn_cl_layer_recurrent(struct bn_cl_pass *p, uint32_t n);
void bn_cl_layer_experts(struct bn_cl_pass *p, uint32_t n);

#endif
