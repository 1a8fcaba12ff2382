/* SPDX-License-Identifier: MIT
 *
 * How a case of opencl/check.h is made: its arguments are taken in their order, each buffer with a guard after it, and
 * copied to the device; the kernel runs there, and then the reference on the host's copies. All bytes of all buffers are
 * compared, so what a kernel must not change is compared as well.
 */
#ifndef BN_OPENCL_TRIAL_H
#define BN_OPENCL_TRIAL_H

#include "opencl/check.h"

enum bn_cl_kind {
    BN_CL_BYTES,
    BN_CL_HALVES,
    BN_CL_FLOATS,
    BN_CL_WORDS,
    BN_CL_NUMBER,
    BN_CL_REAL,
    BN_CL_HOST
};

struct bn_cl_trial {
    const struct bn_cl_case *c;
    struct bn_cl_queue *q;
    struct bn_cl_copy {
        void *host; /* with the guard; as it was copied to the device, and then as the reference leaves it */
        cl_mem mem; /* NULL: only the host has it */
        size_t n_bytes;
        enum bn_cl_kind kind;
    } buffers[24];
    size_t n_buffers, n_args;
    struct bn_cl_arg args[32];
    union {
        cl_mem mem;
        cl_uint u;
        cl_float f;
    } values[32];
    uint64_t random;
    bn_status status;
    bn_error *err;
};

/* Makes the arguments of a kernel, starts it, and does the same on the host. One for each kernel. */
extern void (*const bn_cl_checks[BN_CL_KERNEL_COUNT])(struct bn_cl_trial *, const struct bn_cl_case *);

/* An argument: n values at random in a buffer, NULL for n = 0; or a number. OWN: floats for the host alone. */
struct bn_cl_want {
    void *at; /* the pointer that gets the host's copy */
    size_t n;
    enum bn_cl_kind kind;
    float real;
};
#define I8(p, n) ((struct bn_cl_want){&(p), n, BN_CL_BYTES, 0})
#define F16(p, n) ((struct bn_cl_want){&(p), n, BN_CL_HALVES, 0})
#define F32(p, n) ((struct bn_cl_want){&(p), n, BN_CL_FLOATS, 0})
#define U32(p, n) ((struct bn_cl_want){&(p), n, BN_CL_WORDS, 0})
#define OWN(p, n) ((struct bn_cl_want){&(p), n, BN_CL_HOST, 0})
#define N(value) ((struct bn_cl_want){NULL, value, BN_CL_NUMBER, 0})
#define R(value) ((struct bn_cl_want){NULL, 0, BN_CL_REAL, value})

/* The next arguments. After an error the pointers are NULL, as those of no values. */
void bn_cl_take(struct bn_cl_trial *t, const struct bn_cl_want *wants, size_t n);
#define TAKE(t, ...)                                        \
    bn_cl_take(t, (const struct bn_cl_want[]){__VA_ARGS__}, \
               sizeof((const struct bn_cl_want[]){__VA_ARGS__}) / sizeof(struct bn_cl_want))

/* n values at random. */
void bn_cl_fill(struct bn_cl_trial *t, void *host, enum bn_cl_kind kind, size_t n);
/* Copies the inputs and runs the kernel: global sizes, which are rounded up, and local ones. False after an error. */
bool bn_cl_launch(struct bn_cl_trial *t, size_t global0, size_t global1, size_t local0, size_t local1);
/* A group for each of n rows. */
bool bn_cl_launch_rows(struct bn_cl_trial *t, size_t n);

#endif
