/* SPDX-License-Identifier: MIT
 *
 * Measures the limits of a device, by the clock of its queue: kernels/opencl/limits.cl.
 */
#include "base/clock.h"
#include "opencl/device.h"

#define CHAINS 8u /* of limits.cl */
#define MOST_SET ((size_t)256 << 20)
#define LEAST_NS 500000u /* of a launch that counts: the turns double until it takes that long */
#define LAUNCHES 256u    /* that are timed together */

/* Launches of one kernel, of more and more turns, until one is long enough; then as long as there is time. */
struct trial {
    struct bn_cl_queue *q;
    enum bn_cl_kernel kernel;
    size_t global[2], local[2];
    const struct bn_cl_arg *args;
    size_t n_args;
    cl_uint *turns;
    double work; /* of a turn of all items */
};

/* From the beginning of the first launch to the end of the last one. */
static bn_status run(const struct trial *t, unsigned n_launches, double *ns, bn_error *err)
{
    struct bn_cl_queue *q = t->q;
    bn_cl_begin(q);
    for (unsigned i = 0; i < n_launches; i++)
        bn_cl_run(q, t->kernel, t->global, t->local, t->args, t->n_args,
                  (struct bn_cl_work){.slot = BN_KERNEL_COUNT});
    bn_status status = bn_cl_finish(q, err);
    if (status == BN_OK) *ns = (double)(q->launches[n_launches - 1].ended - q->launches[0].started);
    bn_cl_begin(q);
    return status;
}

/* The best rate: other work can only slow it down. */
static bn_status best_rate(const struct trial *t, uint64_t budget_ns, double *rate, bn_error *err)
{
    uint64_t start = bn_clock_ns();
    *rate = 0;
    for (unsigned i = 0; i < 3 || bn_clock_ns() - start < budget_ns; i++) {
        double ns = 0;
        BN_TRY(run(t, 1, &ns, err));
        if (ns < LEAST_NS && *t->turns < 1u << 24) {
            *t->turns *= 2;
            i = 0;
        } else if (ns > 0 && t->work * *t->turns * 1e9 / ns > *rate) {
            *rate = t->work * *t->turns * 1e9 / ns;
        }
    }
    return BN_OK;
}

/* A GPU needs many items at a time, which read neighbouring words; a CPU one for each unit, which reads on and on. */
static bn_status measure(struct bn_device *d, struct bn_cl_buffers *b, enum bn_device_limit limit,
                         size_t set_bytes, uint64_t budget_ns, double *rate, bn_error *err)
{
    const struct bn_cl_device *cl = d->cl;
    const size_t word = cl->is_cpu ? 64 : 16, local = cl->is_cpu ? 1 : 64;
    const size_t set = bn_min_size(bn_min_size(set_bytes, MOST_SET), (size_t)cl->info.max_alloc);
    size_t n = set / word > local ? set / word : local, items = cl->info.units * (cl->is_cpu ? 1 : 2048);
    if (items > n) items = n;
    items = bn_cl_round_up(items, local);
    cl_uint turns = 1;
    cl_mem out = NULL, from = NULL;
    bool memory = limit == BN_DEVICE_READ || limit == BN_DEVICE_COPY;
    BN_TRY(bn_cl_add(b, &out, limit == BN_DEVICE_COPY ? n * word : items * word, "a limit", err));
    if (memory) BN_TRY(bn_cl_add(b, &from, n * word, "a limit", err));
    if (memory) bn_cl_zero(&d->queue, from, 0, n * word);
    size_t each = n / items > 0 ? n / items : 1;
    const struct bn_cl_arg reads[] = {BN_CL_MEM(out),
                                      BN_CL_MEM(from),
                                      BN_CL_U32(n),
                                      BN_CL_U32(cl->is_cpu ? each : 1),
                                      BN_CL_U32(cl->is_cpu || items % n == 0 ? 1 : items % n),
                                      {sizeof turns, &turns}};
    const struct bn_cl_arg dots[] = {BN_CL_MEM(out), {sizeof turns, &turns}};
    struct trial t = {
        &d->queue, BN_CL_limit_dot,    {items, 1}, {local, 1},
        dots,      BN_ARRAY_LEN(dots), &turns,     (double)(items * CHAINS) * (cl->is_cpu ? 16 : 4)};
    if (memory) {
        t.kernel = limit == BN_DEVICE_READ ? BN_CL_limit_read : BN_CL_limit_copy;
        t.args = reads;
        t.n_args = BN_ARRAY_LEN(reads);
        t.work = (double)(items * word) * (limit == BN_DEVICE_COPY ? 2 : 1); /* a copy reads and writes */
    }
    if (limit != BN_DEVICE_LAUNCH) return best_rate(&t, budget_ns, rate, err);
    double ns = 0;
    t.global[0] = local;
    for (unsigned i = 0; i < 5; i++) {
        BN_TRY(run(&t, LAUNCHES, &ns, err));
        if (ns > 0 && LAUNCHES * 1e9 / ns > *rate) *rate = LAUNCHES * 1e9 / ns;
    }
    return BN_OK;
}

bn_status bn_device_measure(struct bn_device *d, enum bn_device_limit limit, size_t set_bytes,
                            uint64_t budget_ns, double *rate, bn_error *err)
{
    struct bn_cl_buffers buffers = {.device = d->cl};
    *rate = 0;
    bn_status status = measure(d, &buffers, limit, set_bytes, budget_ns, rate, err);
    bn_cl_free_all(&buffers);
    return status;
}
