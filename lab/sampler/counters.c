/* SPDX-License-Identifier: MIT
 *
 * Counts perf events. An event that opens may still never count (a software
 * event that is raised inside the kernel, in user mode only), so a count of zero means that it does not work.
 */
#define _GNU_SOURCE
#include "lab/sampler/recorder.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/sampler/tier.h"

#define WORK_NS 5000000u /* of processor time, while an event counts */
#define WORK_BYTES ((size_t)1 << 20)

const struct bn_perf_event_kind bn_perf_events[BN_PERF_EVENTS] = {
    {"task-clock", "ns", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false, false},
    {"kernel", "page faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, true, false},
    {"all-cpus", "ns", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false, true},
    {"cycles", "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false, false},
    {"instructions", "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false, false},
    {"cache-references", "references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, false, false},
    {"cache-misses", "misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false, false},
};

/* New pages, and time on a processor, most of it not in the kernel. */
static void work(void)
{
    uint64_t start = bn_clock_thread_cpu_ns();
    void *pages = mmap(NULL, WORK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) {
        memset(pages, 1, WORK_BYTES);
        munmap(pages, WORK_BYTES);
    }
    while (bn_clock_thread_cpu_ns() - start < WORK_NS)
        for (volatile unsigned i = 0; i < 50000; i++) {
        }
}

int bn_perf_event_open(enum bn_perf_event event, bool inherit, bn_error *why)
{
    struct perf_event_attr attr = {.type = bn_perf_events[event].type,
                                   .size = sizeof attr,
                                   .config = bn_perf_events[event].config,
                                   .read_format =
                                       PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
                                   .exclude_kernel = !bn_perf_events[event].kernel,
                                   .exclude_hv = 1,
                                   .inherit = inherit};
    bool all = bn_perf_events[event].all_cpus;
    int fd = (int)syscall(SYS_perf_event_open, &attr, all ? -1 : 0, all ? 0 : -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) (void)bn_perf_refuse(why, errno, bn_perf_events[event].kernel);
    return fd;
}

bool bn_perf_event_read(struct bn_perf_count *out, int fd)
{
    _Static_assert(sizeof *out == 3 * sizeof(uint64_t), "as the kernel writes it");
    return fd >= 0 && read(fd, out, sizeof *out) == (ssize_t)sizeof *out;
}

double bn_perf_event_since(const struct bn_perf_count *then, const struct bn_perf_count *now,
                           const char **why)
{
    uint64_t value = now->value - then->value, enabled = now->enabled_ns - then->enabled_ns,
             running = now->running_ns - then->running_ns;
    if (now->value < then->value || now->enabled_ns < then->enabled_ns || now->running_ns < then->running_ns)
        *why = "the counter went back";
    else if (running == 0)
        *why = "the counter never ran: other events took the processor's counters (as the NMI watchdog does)";
    else
        return (double)value * fmax(1, (double)enabled / (double)running);
    return (double)NAN;
}

void bn_perf_event_try(struct bn_record_trial *out, enum bn_perf_event event)
{
    bn_error why = {0};
    uint64_t begin = bn_clock_thread_cpu_ns();
    *out = (struct bn_record_trial){.system = bn_perf_events[event].kernel};
    int fd = bn_perf_event_open(event, false, &why);
    if (fd < 0) {
        snprintf(out->why, sizeof out->why, "%.199s", why.msg);
        snprintf(out->hint, sizeof out->hint, "%s", why.hint);
        return;
    }
    work();
    struct bn_perf_count count = {0};
    out->works = bn_perf_event_read(&count, fd) && count.value > 0;
    out->samples = count.value;
    out->cpu_ns = bn_clock_thread_cpu_ns() - begin;
    if (!out->works) snprintf(out->why, sizeof out->why, "the event opens, but counts nothing");
    close(fd);
}
