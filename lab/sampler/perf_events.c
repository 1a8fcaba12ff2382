/* SPDX-License-Identifier: MIT
 *
 * Sampling by perf_event_open(2) and the kernel's clock of a thread. There is one event for each processor, inherited
 * by threads and processes that start later, and a ring buffer for each event. A thread of our own, started before the
 * events are opened and so not recorded, reads the records in the ring buffers.
 *
 * Weights. A sample of the clock stands for the requested period. A late tick is one sample however late it
 * is; crediting the function with the time since the last sample (PERF_SAMPLE_READ) is not better: over 2 s
 * of work on a virtual machine of two busy processors, samples times the period were within 0.4 % of the
 * thread's own time when kernel frames were recorded, while with user frames only, the kernel's time went
 * to whatever ran after it, up to ten periods at once; and before Linux 6.12 inherited events cannot be
 * read that way. Samples lost by lateness show in the delivery.
 *
 * The first sample of a thread comes after a whole period, so a shorter thread is not seen: of a shell that
 * started 600 programs of less than a millisecond, 40 % of the time was sampled at 991 Hz, 89 % at 4999 Hz.
 * perf has the same limit. The delivery shows it.
 *
 * The period cannot vary from sample to sample, so a round one, which the work might be in step with, is
 * made a little longer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lab/host/machine.h"
#include "lab/kit/process.h"
#include "lab/sampler/tier.h"

/* Rings: at first, and how far they are halved while that is too much for this user; when the drainer is
 * woken. With copies of stacks, and without. */
#define RING_BYTES(dumps) ((size_t)((dumps) ? 4096 : 512) << 10)
#define RING_BYTES_LEAST(dumps) ((size_t)((dumps) ? 256 : 16) << 10)
#define WAKE_BYTES(dumps) ((uint32_t)((dumps) ? 64 : 8) << 10)
#define DRAIN_MS 50      /* rings are read at least this often */
#define MAX_EVENTS 4096u /* processors */
#define COUNTERS "real hardware, or a virtual machine with performance counters"

struct ring {
    int fd;
    void *map; /* a page that tells, then the data */
};

struct perf {
    struct perf_event_attr attr;
    struct bn_perf_reader reader;
    struct ring *rings;
    struct pollfd *polled; /* of each ring, and the last one is quit */
    size_t n_rings, page, ring_bytes, least_bytes;
    int clock; /* counts the time of all that is recorded; -1: not available */
    int quit;  /* eventfd */
    pthread_t drainer;
    bool draining;
    bool system;
    char system_refused[200];
};

/* ---- refusals ---- */

static bool read_setting(const char *name, long *value)
{
    char path[96], line[64], *end;
    snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
    if (!bn_machine_line(path, line, sizeof line)) return false;
    *value = strtol(line, &end, 10);
    return end != line;
}

/* EACCES: forbidden by the level when that is high enough, else by something that has no level. */
static void not_permitted(bn_error *err, bool system)
{
    long level = 0, least = system ? 1 : 2;
    if (!read_setting("perf_event_paranoid", &level)) {
        bn_fail(err, BN_ERR_UNSUPPORTED,
                "EACCES: not permitted, and kernel.perf_event_paranoid cannot be read");
    } else if (level > least) {
        bn_fail(err, BN_ERR_UNSUPPORTED, "EACCES: kernel.perf_event_paranoid is %ld", level);
        bn_error_hint(err, "sysctl -w kernel.perf_event_paranoid=%ld, or CAP_PERFMON", least);
        return;
    } else {
        bn_fail(
            err, BN_ERR_UNSUPPORTED,
            "EACCES: kernel.perf_event_paranoid is %ld, so a security module or seccomp filter forbids it",
            level);
    }
    bn_error_hint(err, "CAP_PERFMON");
}

bn_status bn_perf_refuse(bn_error *err, int sys_errno, bool system)
{
    static const struct {
        int code;
        const char *why, *hint;
    } KNOWN[] = {
        {EPERM, "EPERM: a seccomp filter or a missing capability forbids perf_event_open",
         "in a container: --cap-add PERFMON, or a seccomp profile that allows perf_event_open"},
        {ENOSYS, "ENOSYS: this kernel has no perf_event_open, or a seccomp filter hides it",
         "a kernel with CONFIG_PERF_EVENTS"},
        {ENOENT, "ENOENT: this processor or virtual machine has no such counter", COUNTERS},
        {EOPNOTSUPP, "EOPNOTSUPP: this processor or virtual machine has no such counter", COUNTERS},
        {ENODEV, "ENODEV: this processor or virtual machine has no such counter", COUNTERS},
        {EMFILE, "EMFILE: too many open files; each processor needs one", "ulimit -n 4096"},
        {EBUSY, "EBUSY: another program is using the counter", "end that program"},
        {EINVAL,
         "EINVAL: the kernel does not support this event, or the rate is over "
         "kernel.perf_event_max_sample_rate",
         ""},
    };
    if (sys_errno == EACCES) {
        not_permitted(err, system);
        return BN_ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++) {
        if (KNOWN[i].code != sys_errno) continue;
        bn_fail(err, BN_ERR_UNSUPPORTED, "%s", KNOWN[i].why);
        if (KNOWN[i].hint[0] != '\0') bn_error_hint(err, "%s", KNOWN[i].hint);
        return BN_ERR_UNSUPPORTED;
    }
    return bn_fail(err, BN_ERR_UNSUPPORTED, "perf_event_open: %s", strerror(sys_errno));
}

static bn_status refuse_memory(const struct perf *p, bn_error *err, int sys_errno)
{
    long kb = 0;
    (void)read_setting("perf_event_mlock_kb", &kb);
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED, "%s: cannot lock memory for rings of %zu KiB",
                           sys_errno == EPERM ? "EPERM" : strerror(sys_errno), p->least_bytes >> 10),
                   err, "ulimit -l unlimited, or sysctl -w kernel.perf_event_mlock_kb=%ld",
                   kb < 516 ? 516 : 2 * kb);
}

/* ---- the event ---- */

static int open_event(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
    struct perf_event_attr own = *attr; /* the kernel may write its size there */
    int fd = (int)syscall(SYS_perf_event_open, &own, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* A number that no loop's time is likely to be a multiple of. */
static uint64_t odd_period(uint64_t asked)
{
    if (asked % 1000 != 0) return asked;
    return asked + asked / 997 + 1;
}

static void describe_event(struct perf *p, const struct bn_record_options *o)
{
    struct perf_event_attr *a = &p->attr;
    long depth = 127;
    (void)read_setting("perf_event_max_stack", &depth);
    a->size = sizeof *a;
    a->type = PERF_TYPE_SOFTWARE;
    a->config = PERF_COUNT_SW_CPU_CLOCK;
    a->sample_type =
        PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN;
    a->disabled = a->inherit = a->mmap = a->mmap2 = a->comm = a->task = a->sample_id_all = 1;
    a->exclude_hv = 1;
    a->use_clockid = 1;
    a->clockid = CLOCK_MONOTONIC;
    a->watermark = 1;
    a->build_id = 1;
    a->sample_period = odd_period(o->period_ns);
    p->reader.layout = (struct bn_perf_layout){
        .weight = a->sample_period, .max_chain = (uint32_t)depth, .dump_bytes = o->dump_bytes};
    if (o->dump_bytes > 0) {
        a->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        a->sample_regs_user = BN_PERF_REGISTERS;
        a->sample_stack_user = o->dump_bytes;
    }
}

static void leave_system_out(struct perf *p)
{
    p->attr.exclude_kernel = p->attr.exclude_callchain_kernel = 1;
    p->system = false;
}

/* Opens the event on one processor, with less and less: without the files' build ids, which older kernels do
 * not have, and without the system's part, which may be forbidden. Returns a negative errno in the end. */
static int open_what_works(struct perf *p, pid_t pid, int cpu)
{
    for (;;) {
        int fd = open_event(&p->attr, pid, cpu);
        if (fd == -EINVAL && p->attr.build_id) {
            p->attr.build_id = 0;
        } else if ((fd == -EACCES || fd == -EPERM) && p->system) {
            bn_error why = {0};
            (void)bn_perf_refuse(&why, -fd, true);
            snprintf(p->system_refused, sizeof p->system_refused, "%.100s: %.95s", why.msg, why.hint);
            leave_system_out(p);
        } else {
            return fd;
        }
    }
}

/* All rings are of one size, so that none is smaller only because its processor comes last. */
static bn_status map_rings(struct perf *p, bn_error *err)
{
    for (;; p->ring_bytes /= 2) {
        size_t n = 0, n_bytes = p->page + p->ring_bytes;
        for (; n < p->n_rings; n++) {
            void *map = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->rings[n].fd, 0);
            if (map == MAP_FAILED) break;
            p->rings[n].map = map;
        }
        int failed = errno;
        if (n == p->n_rings) return BN_OK;
        if ((failed != EPERM && failed != ENOMEM) || p->ring_bytes / 2 < p->least_bytes)
            return refuse_memory(p, err, failed);
        while (n-- > 0) {
            munmap(p->rings[n].map, n_bytes);
            p->rings[n].map = NULL;
        }
    }
}

/* pid 0: the calling thread. */
static bn_status open_rings(struct perf *p, pid_t pid, bn_error *err)
{
    long n = sysconf(_SC_NPROCESSORS_CONF);
    size_t n_cpus = n < 1 ? 1 : bn_min_size((size_t)n, MAX_EVENTS);
    BN_TRY(BN_NEW(p->rings, n_cpus, err));
    BN_TRY(BN_NEW(p->polled, n_cpus + 1, err));
    for (size_t cpu = 0; cpu < n_cpus; cpu++) {
        int fd = open_what_works(p, pid, (int)cpu);
        if (fd == -ENODEV) continue; /* it is switched off */
        if (fd < 0) return bn_perf_refuse(err, -fd, false);
        p->polled[p->n_rings] = (struct pollfd){.fd = fd, .events = POLLIN};
        p->rings[p->n_rings++].fd = fd;
    }
    if (p->n_rings == 0) return bn_perf_refuse(err, ENODEV, false);
    p->polled[p->n_rings] = (struct pollfd){.fd = p->quit, .events = POLLIN};
    return map_rings(p, err);
}

/* An event that only counts: the time of all that is recorded, whatever the samples say. */
static void open_clock(struct perf *p, pid_t pid)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .disabled = 1,
                                   .inherit = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1,
                                   .enable_on_exec = p->attr.enable_on_exec};
    p->clock = open_event(&attr, pid, -1);
}

/* ---- the thread that empties the rings ---- */

static void drain_ring(struct perf *p, const struct ring *ring)
{
    struct perf_event_mmap_page *page = ring->map;
    struct bn_perf_ring view = {.data = (const unsigned char *)ring->map + p->page,
                                .size = p->ring_bytes,
                                .head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE),
                                .tail = page->data_tail};
    if (view.head == view.tail) return;
    bn_perf_drain(&p->reader, &view);
    __atomic_store_n(&page->data_tail, view.tail, __ATOMIC_RELEASE);
}

static void *drain(void *user)
{
    struct perf *p = user;
    /* The rings come after the thread: until then there is only the word to go on, or to end. */
    uint64_t word = 0;
    while (read(p->quit, &word, sizeof word) < 0 && errno == EINTR)
        continue;
    if (word > 1) return NULL;
    const struct pollfd *quit = &p->polled[p->n_rings];
    do {
        (void)poll(p->polled, p->n_rings + 1, DRAIN_MS);
        for (size_t i = 0; i < p->n_rings; i++) {
            /* An event whose thread is gone would always be ready; those that inherited it write on. */
            if (p->polled[i].revents & (POLLHUP | POLLERR | POLLNVAL)) p->polled[i].fd = -1;
            drain_ring(p, &p->rings[i]);
        }
    } while (!(quit->revents & POLLIN));
    return NULL;
}

static void tell_drainer(struct perf *p, uint64_t word)
{
    (void)!write(p->quit, &word, sizeof word);
}

static bn_status start_drainer(struct perf *p, bn_error *err)
{
    sigset_t all, before;
    p->quit = eventfd(0, EFD_CLOEXEC);
    if (p->quit < 0) return bn_fail_errno(err, errno, NULL, "eventfd");
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int failed = pthread_create(&p->drainer, NULL, drain, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) return bn_fail_errno(err, failed, NULL, "cannot start a thread");
    p->draining = true;
    return BN_OK;
}

static void stop_drainer(struct perf *p)
{
    if (!p->draining) return;
    tell_drainer(p, 2);
    pthread_join(p->drainer, NULL);
    p->draining = false;
}

/* ---- the functions of the table ---- */

static void perf_close(void *state)
{
    struct perf *p = state;
    stop_drainer(p);
    for (size_t i = 0; i < p->n_rings; i++) {
        if (p->rings[i].map != NULL) munmap(p->rings[i].map, p->page + p->ring_bytes);
        close(p->rings[i].fd);
    }
    if (p->clock >= 0) close(p->clock);
    if (p->quit >= 0) close(p->quit);
    bn_perf_release(&p->reader);
    bn_free(p->rings);
    bn_free(p->polled);
    bn_free(p);
}

static bn_status prepare(struct perf **prepared, const struct bn_record_options *o, bn_recording *out,
                         bn_error *err)
{
    struct perf *p = bn_alloc(1, sizeof *p);
    if (p == NULL) return bn_nomem(err);
    *p = (struct perf){.clock = -1, .quit = -1, .system = true};
    p->reader.out = out;
    p->page = (size_t)sysconf(_SC_PAGESIZE);
    p->ring_bytes = RING_BYTES(o->dump_bytes > 0);
    p->least_bytes = RING_BYTES_LEAST(o->dump_bytes > 0);
    describe_event(p, o);
    p->attr.wakeup_watermark = WAKE_BYTES(o->dump_bytes > 0);
    bn_status status = start_drainer(p, err);
    if (status == BN_OK)
        *prepared = p;
    else
        perf_close(p);
    return status;
}

static void switch_all(struct perf *p, unsigned long request)
{
    if (p->clock >= 0) (void)ioctl(p->clock, request, 0);
    for (size_t i = 0; i < p->n_rings; i++)
        (void)ioctl(p->rings[i].fd, request, 0);
}

static bn_status begin(struct perf *p, pid_t pid, bn_error *err)
{
    BN_TRY(open_rings(p, pid, err));
    open_clock(p, pid);
    tell_drainer(p, 1);
    return BN_OK;
}

struct opening {
    struct perf *perf;
    bn_error *err;
    bn_status status;
};

static int begin_program(void *user, pid_t pid)
{
    struct opening *opening = user;
    opening->status = begin(opening->perf, pid, opening->err);
    return opening->status == BN_OK ? 0 : ECANCELED;
}

static bn_status open_program(struct perf *p, struct bn_record_start *start, bn_error *err)
{
    struct opening opening = {p, err, BN_OK};
    p->attr.enable_on_exec = 1;
    int failed = bn_spawn(&start->pid, start->argv, start->fds, begin_program, &opening);
    if (opening.status != BN_OK) return opening.status;
    return failed != 0 ? bn_fail_errno(err, failed, start->argv[0], "cannot start") : BN_OK;
}

static bn_status perf_open(void **state, const struct bn_record_options *o, struct bn_record_start *start,
                           bn_recording *out, bn_error *err)
{
    struct perf *p = NULL;
    BN_TRY(prepare(&p, o, out, err));
    bn_status status = start != NULL ? open_program(p, start, err) : begin(p, 0, err);
    if (status != BN_OK) {
        perf_close(p);
        return status;
    }
    if (start == NULL) switch_all(p, PERF_EVENT_IOC_ENABLE);
    *state = p;
    return BN_OK;
}

static bn_status perf_stop(void *state, bn_error *err)
{
    struct perf *p = state;
    bn_recording *out = p->reader.out;
    uint64_t clock; /* the sum over all that inherited it */
    switch_all(p, PERF_EVENT_IOC_DISABLE);
    stop_drainer(p);
    for (size_t i = 0; i < p->n_rings; i++)
        drain_ring(p, &p->rings[i]);
    out->delivery.cpu_known = p->clock >= 0 && read(p->clock, &clock, sizeof clock) == (ssize_t)sizeof clock;
    if (out->delivery.cpu_known) out->delivery.cpu_ns = clock;
    out->delivery.system = p->system;
    memcpy(out->delivery.system_refused, p->system_refused, sizeof p->system_refused);
    out->delivery.period_ns = p->reader.layout.weight;
    return bn_perf_finish(&p->reader, err);
}

const struct bn_record_ops bn_record_perf = {perf_open, perf_stop, perf_close};
