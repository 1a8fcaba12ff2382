/* SPDX-License-Identifier: MIT
 *
 * OpenCL as this library uses it: finding devices, building the kernels of kernels/opencl, buffers, launches, times.
 *
 * libOpenCL.so.1 is loaded when a device is first asked for, so no program depends on it. It is itself a loader of the
 * vendors' drivers, with a stable interface: nothing of our own stands between.
 *
 * The first error of a queue wins. Calls after it do nothing, and bn_cl_finish returns it, so a pass is written without
 * a test at each launch. A queue is used by one thread at a time.
 */
#ifndef BN_OPENCL_DRIVER_H
#define BN_OPENCL_DRIVER_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "base/error.h"
#include "bn.h"
#include "kernels/kernels.h"

#define MIB(bytes) ((double)(bytes) / (1 << 20))

/* The functions of libOpenCL.so.1 that are used. */
/* clang-format off */
#define BN_CL_FUNCTIONS(X)                                                                                   \
    X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo) X(CreateContext)                   \
    X(ReleaseContext) X(CreateCommandQueue) X(ReleaseCommandQueue) X(CreateProgramWithSource)                \
    X(CreateProgramWithBinary) X(BuildProgram) X(GetProgramInfo) X(GetProgramBuildInfo) X(ReleaseProgram)    \
    X(CreateKernel) X(ReleaseKernel) X(SetKernelArg) X(CreateBuffer) X(ReleaseMemObject)                     \
    X(EnqueueNDRangeKernel) X(EnqueueReadBuffer) X(EnqueueWriteBuffer) X(EnqueueCopyBuffer)                  \
    X(EnqueueFillBuffer) X(Finish) X(Flush) X(ReleaseEvent) X(GetEventInfo) X(GetEventProfilingInfo)

/* The kernels, by their names in kernels/opencl. */
#define BN_CL_KERNELS(X)                                                                                     \
    X(prepare) X(ternary_gemv) X(ternary_gemm) X(rope_store) X(attn_scores) X(attn_softmax) X(attn_values)   \
    X(f16_gemm) X(f32_gemm) X(finite) X(make_gates) X(convolve) X(keep_rows) X(normalise_heads) X(delta)     \
    X(gate_heads) X(choose_experts) X(sum_experts) X(limit_read) X(limit_copy) X(limit_dot)
/* clang-format on */

struct bn_cl_api {
#define BN_CL_MEMBER(name) __typeof__(cl##name) *name;
    BN_CL_FUNCTIONS(BN_CL_MEMBER)
#undef BN_CL_MEMBER
};

/* An error of OpenCL as one of ours. Of a lost device: BN_ERR_IO. */
bn_status bn_cl_fail(bn_error *err, cl_int code, const char *doing);

#define BN_CL_TOKENS 8u /* that a work-item of ternary_gemm computes: TOKENS of ternary.cl */
enum bn_cl_kernel {
#define BN_CL_NAME(name) BN_CL_##name,
    BN_CL_KERNELS(BN_CL_NAME) BN_CL_KERNEL_COUNT
#undef BN_CL_NAME
};

/* source.S: the text of the kernels. */
extern const char bn_cl_source[];
extern const uint64_t bn_cl_source_bytes;

/* How a program is built, beyond what the device decides. For tests. */
struct bn_cl_options {
    bool no_fp64;       /* binary64 in integers, as on a device without it */
    bool no_dot;        /* integer products by multiplications */
    bool scalar_rows;   /* a CPU as if it were a GPU: a row in a work-item, groups of 64 */
    bool no_cache;      /* neither read nor write the cache of compiled programs */
    bool force_cache;   /* do, where the driver has one of its own */
    const char *source; /* in place of the embedded one: a planted fault */
};

/* Integer products of four bytes: BN_DOT of the kernels. */
enum bn_cl_dot { BN_CL_DOT_NONE, BN_CL_DOT_KHR, BN_CL_DOT_NVIDIA };

/* A device with its program: what sessions share. */
struct bn_cl_device {
    const struct bn_cl_api *api;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_program program;
    bn_device_info info; /* program is filled by bn_cl_open */
    bool is_cpu;         /* vectors of 16 rows in a work-item: see kernels/opencl/common.cl */
    bool may_cache;      /* the cache of compiled programs is used, */
    bool was_cached;     /* and has the program */
    enum bn_cl_dot dot;
    size_t
        group_size; /* work-items of kernels with a group for each row: 16 to 256, a power of two; 1 on CPUs */
    _Atomic uint64_t bytes, n_buffers; /* allocated, and how many */
};

/* The program of a device that has a context, from the cache or from the source; fills info.program. program.c */
BN_MUST_CHECK bn_status bn_cl_build(struct bn_cl_device *device, const struct bn_cl_options *options,
                                    bn_error *err);

/* Whether this user's cache remembers that the program passed the tests of this version on this device; makes it do so. */
bool bn_cl_is_checked(const struct bn_cl_device *device);
void bn_cl_keep_checked(const struct bn_cl_device *device);

/* The same with context and program. BN_ERR_NOT_FOUND: there is no such device; BN_ERR_UNSUPPORTED: what it lacks, or what
 * its compiler says of the kernels. */
BN_MUST_CHECK bn_status bn_cl_open(struct bn_cl_device **out, size_t n, const struct bn_cl_options *options,
                                   bn_error *err);
void bn_cl_close(struct bn_cl_device *device);

/* A buffer; what names it in "no memory" (BN_ERR_NOMEM, with the figures). NULL in *out after an error, and for no bytes.
 * CL_MEM_READ_WRITE, not initialised. */
BN_MUST_CHECK bn_status bn_cl_alloc(struct bn_cl_device *device, cl_mem *out, size_t n_bytes,
                                    const char *what, bn_error *err);
void bn_cl_free(struct bn_cl_device *device, cl_mem buffer, size_t n_bytes);

static inline size_t bn_cl_round_up(size_t n, size_t every)
{
    return (n + every - 1) / every * every;
}

/* ---- a queue ---- */

/* What a launch counts as. slot BN_KERNEL_COUNT: as nothing. */
struct bn_cl_work {
    enum bn_kernel slot;
    uint64_t bytes, ops;
    bool is_more; /* of a call that was counted */
};

struct bn_cl_counter {
    uint64_t calls, ns, bytes, ops; /* ns: on the device, by its own clock */
};

/* A launch that ended: times of the device's clock in nanoseconds. */
struct bn_cl_launch {
    enum bn_cl_kernel kernel;
    enum bn_kernel slot;
    int32_t layer;
    size_t global[2], local[2];
    uint64_t queued, submitted, started, ended, calls, bytes, ops;
};

struct bn_cl_queue {
    struct bn_cl_device *device;
    cl_command_queue queue;
    cl_kernel kernels[BN_CL_KERNEL_COUNT];
    struct bn_cl_counter counters[BN_KERNEL_COUNT];
    int32_t layer;                 /* that launches are counted for; -1: none */
    struct bn_cl_launch *launches; /* since bn_cl_begin */
    cl_event *events;
    size_t n_launches, room;
    bn_status status;
    bn_error error;
};

BN_MUST_CHECK bn_status bn_cl_queue_open(struct bn_cl_queue *q, struct bn_cl_device *device, bn_error *err);
void bn_cl_queue_close(struct bn_cl_queue *q);

/* An argument of a kernel: BN_CL_MEM(buffer) (NULL is allowed), BN_CL_U32(n), BN_CL_F32(x), BN_CL_LOCAL(bytes). */
struct bn_cl_arg {
    size_t size;
    const void *value;
};
/* clang-format off */
#define BN_CL_MEM(buffer) {sizeof(cl_mem), &(const cl_mem){buffer}}
#define BN_CL_U32(n) {sizeof(cl_uint), &(const cl_uint){(cl_uint)(n)}}
#define BN_CL_F32(x) {sizeof(cl_float), &(const cl_float){x}}
#define BN_CL_LOCAL(bytes) {bytes, NULL}
/* clang-format on */

/* Enqueues a kernel over global[0] x global[1] work-items in groups of local[0] x local[1]; the globals are multiples. */
void bn_cl_run(struct bn_cl_queue *q, enum bn_cl_kernel kernel, const size_t global[2], const size_t local[2],
               const struct bn_cl_arg *args, size_t n_args, struct bn_cl_work work);
/* Copies from and to the device. Neither waits: the memory stays as it is up to bn_cl_finish. */
void bn_cl_write(struct bn_cl_queue *q, cl_mem to, size_t at, const void *from, size_t n_bytes);
void bn_cl_read(struct bn_cl_queue *q, void *to, cl_mem from, size_t at, size_t n_bytes);
void bn_cl_copy(struct bn_cl_queue *q, cl_mem to, size_t to_at, cl_mem from, size_t from_at, size_t n_bytes);
void bn_cl_zero(struct bn_cl_queue *q, cl_mem buffer, size_t at, size_t n_bytes);
/* Forgets the launches and the error of before. */
void bn_cl_begin(struct bn_cl_queue *q);
/* Waits for all that was enqueued, reads the times of launches into launches and counters. Returns the first error. */
BN_MUST_CHECK bn_status bn_cl_finish(struct bn_cl_queue *q, bn_error *err);

#endif
