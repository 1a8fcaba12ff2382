/* SPDX-License-Identifier: MIT
 *
 * Queues: launches, copies, and the times of launches by the clock of the device.
 */
#include "opencl/driver.h"

#include <string.h>

#include "base/mem.h"

#define FLUSH_EVERY 16u /* launches: the device begins while the next ones are still enqueued */

static const char *const KERNEL_NAMES[] = {
#define NAME(name) #name,
    BN_CL_KERNELS(NAME)
#undef NAME
};

bn_status bn_cl_queue_open(struct bn_cl_queue *q, struct bn_cl_device *device, bn_error *err)
{
    cl_int code;
    *q = (struct bn_cl_queue){.device = device, .layer = -1};
    q->queue = device->api->CreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
    bn_status status = q->queue != NULL ? BN_OK : bn_cl_fail(err, code, "opening a queue");
    for (size_t i = 0; i < BN_CL_KERNEL_COUNT && status == BN_OK; i++) {
        q->kernels[i] = device->api->CreateKernel(device->program, KERNEL_NAMES[i], &code);
        if (q->kernels[i] == NULL)
            status = code == CL_INVALID_KERNEL_NAME
                         ? bn_fail_in(err, BN_ERR_INTERNAL, KERNEL_NAMES[i], "the program has no such kernel")
                         : bn_cl_fail(err, code, "opening a kernel");
    }
    if (status != BN_OK) bn_cl_queue_close(q);
    return status;
}

static void forget_launches(struct bn_cl_queue *q)
{
    for (size_t i = 0; i < q->n_launches; i++)
        if (q->events[i] != NULL) q->device->api->ReleaseEvent(q->events[i]);
    q->n_launches = 0;
}

void bn_cl_queue_close(struct bn_cl_queue *q)
{
    if (q->device == NULL) return;
    const struct bn_cl_api *api = q->device->api;
    /* What was enqueued may write to memory of the caller. */
    if (q->queue != NULL) (void)api->Finish(q->queue);
    forget_launches(q);
    for (size_t i = 0; i < BN_CL_KERNEL_COUNT; i++)
        if (q->kernels[i] != NULL) api->ReleaseKernel(q->kernels[i]);
    if (q->queue != NULL) api->ReleaseCommandQueue(q->queue);
    bn_free(q->launches);
    bn_free(q->events);
    *q = (struct bn_cl_queue){0};
}

/* Keeps the first error. */
static void check(struct bn_cl_queue *q, cl_int code, const char *doing)
{
    if (code == CL_SUCCESS || q->status != BN_OK) return;
    q->status = bn_cl_fail(&q->error, code, doing);
    bn_error_name(&q->error, q->device->info.id);
}

static bool has_room(struct bn_cl_queue *q)
{
    size_t launches = q->room, events = q->room;
    if (q->n_launches < q->room) return true;
    if (bn_array_grow(&q->launches, &launches, q->room + 1, sizeof *q->launches, &q->error) == BN_OK &&
        bn_array_grow(&q->events, &events, launches, sizeof(cl_event), &q->error) == BN_OK) {
        q->room = launches;
        return true;
    }
    q->status = BN_ERR_NOMEM;
    return false;
}

void bn_cl_run(struct bn_cl_queue *q, enum bn_cl_kernel kernel, const size_t global[2], const size_t local[2],
               const struct bn_cl_arg *args, size_t n_args, struct bn_cl_work work)
{
    const struct bn_cl_api *api = q->device->api;
    if (q->status != BN_OK || !has_room(q)) return;
    for (size_t i = 0; i < n_args; i++)
        check(q, api->SetKernelArg(q->kernels[kernel], (cl_uint)i, args[i].size, args[i].value),
              KERNEL_NAMES[kernel]);
    if (q->status != BN_OK) return;
    cl_event *event = &q->events[q->n_launches];
    *event = NULL;
    cl_int code =
        api->EnqueueNDRangeKernel(q->queue, q->kernels[kernel], 2, NULL, global, local, 0, NULL, event);
    check(q, code, KERNEL_NAMES[kernel]);
    if (code != CL_SUCCESS) return;
    q->launches[q->n_launches++] = (struct bn_cl_launch){.kernel = kernel,
                                                         .slot = work.slot,
                                                         .layer = q->layer,
                                                         .global = {global[0], global[1]},
                                                         .local = {local[0], local[1]},
                                                         .calls = !work.is_more,
                                                         .bytes = work.bytes,
                                                         .ops = work.ops};
    if (q->n_launches % FLUSH_EVERY == 0) check(q, api->Flush(q->queue), "starting kernels");
}

void bn_cl_write(struct bn_cl_queue *q, cl_mem to, size_t at, const void *from, size_t n_bytes)
{
    if (q->status != BN_OK || n_bytes == 0) return;
    check(q, q->device->api->EnqueueWriteBuffer(q->queue, to, CL_FALSE, at, n_bytes, from, 0, NULL, NULL),
          "writing to the device");
}

void bn_cl_read(struct bn_cl_queue *q, void *to, cl_mem from, size_t at, size_t n_bytes)
{
    if (q->status != BN_OK || n_bytes == 0) return;
    check(q, q->device->api->EnqueueReadBuffer(q->queue, from, CL_FALSE, at, n_bytes, to, 0, NULL, NULL),
          "reading from the device");
}

void bn_cl_copy(struct bn_cl_queue *q, cl_mem to, size_t to_at, cl_mem from, size_t from_at, size_t n_bytes)
{
    if (q->status != BN_OK || n_bytes == 0) return;
    check(q, q->device->api->EnqueueCopyBuffer(q->queue, from, to, from_at, to_at, n_bytes, 0, NULL, NULL),
          "copying on the device");
}

void bn_cl_zero(struct bn_cl_queue *q, cl_mem buffer, size_t at, size_t n_bytes)
{
    static const uint32_t ZERO;
    /* Place and length are multiples of the pattern; words are faster. */
    size_t each = at % 4 == 0 && n_bytes % 4 == 0 ? 4 : 1;
    if (q->status != BN_OK || n_bytes == 0) return;
    check(q, q->device->api->EnqueueFillBuffer(q->queue, buffer, &ZERO, each, at, n_bytes, 0, NULL, NULL),
          "clearing memory of the device");
}

void bn_cl_begin(struct bn_cl_queue *q)
{
    forget_launches(q);
    q->status = BN_OK;
    q->error = (bn_error){0};
}

/* The times of a launch that ended. A kernel that failed ends with a negative state. */
static void take_times(struct bn_cl_queue *q, size_t i)
{
    static const cl_profiling_info QUESTIONS[] = {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT,
                                                  CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
    const struct bn_cl_api *api = q->device->api;
    struct bn_cl_launch *l = &q->launches[i];
    uint64_t *answers[] = {&l->queued, &l->submitted, &l->started, &l->ended};
    cl_int state = CL_COMPLETE;
    check(q, api->GetEventInfo(q->events[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
          KERNEL_NAMES[l->kernel]);
    if (state < 0) check(q, state, KERNEL_NAMES[l->kernel]);
    for (size_t k = 0; k < BN_ARRAY_LEN(QUESTIONS) && q->status == BN_OK; k++)
        check(q, api->GetEventProfilingInfo(q->events[i], QUESTIONS[k], sizeof(uint64_t), answers[k], NULL),
              KERNEL_NAMES[l->kernel]);
    api->ReleaseEvent(q->events[i]);
    q->events[i] = NULL;
    if (q->status != BN_OK || l->slot >= BN_KERNEL_COUNT) return;
    struct bn_cl_counter *c = &q->counters[l->slot];
    c->calls += l->calls;
    c->ns += l->ended > l->started ? l->ended - l->started : 0;
    c->bytes += l->bytes;
    c->ops += l->ops;
}

bn_status bn_cl_finish(struct bn_cl_queue *q, bn_error *err)
{
    check(q, q->device->api->Finish(q->queue), "waiting for the device");
    for (size_t i = 0; i < q->n_launches; i++)
        if (q->events[i] != NULL) take_times(q, i);
    if (q->status != BN_OK && err != NULL && err->code == BN_OK) *err = q->error;
    return q->status;
}
