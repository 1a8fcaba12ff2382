/* SPDX-License-Identifier: MIT
 *
 * See sources.h: events of perf_event_open(2), each opened and read, and timers of timer_create(2). An event
 * that opens may still never count (a software event that is raised inside the kernel, asked for user mode
 * only), so a count of zero is not taken for an answer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/bench/doctor/sources_try.h"

#define RING_PAGES 64u
#define WORK_NS 5000000u /* of CPU time, while an event counts */
#define WORK_BYTES ((size_t)1 << 20)

static int paranoid_level(void)
{
    char line[256];
    if (!bn_source_line("/proc/sys/kernel/perf_event_paranoid", line)) return INT32_MIN;
    return (int)strtol(line, NULL, 10);
}

void bn_perf_reason(struct bn_source *out, int sys_errno, int level)
{
    char paranoid[64] = "";
    if (level != INT32_MIN) snprintf(paranoid, sizeof paranoid, ", kernel.perf_event_paranoid is %d", level);
    switch (sys_errno) {
    case EACCES:
        bn_source_lacks(out, "CAP_PERFMON, or a lower kernel.perf_event_paranoid", "EACCES: not allowed%s",
                        paranoid);
        break;
    case EPERM:
        bn_source_lacks(out, "a container whose seccomp profile allows perf_event_open, or CAP_PERFMON",
                        "EPERM: a capability or the container forbids it%s", paranoid);
        break;
    case ENOSYS:
        bn_source_lacks(out, "a kernel with CONFIG_PERF_EVENTS", "ENOSYS: no such system call");
        break;
    case ENOENT:
    case EOPNOTSUPP:
        bn_source_lacks(out, "bare metal, or a guest that is given performance counters",
                        "%s: this machine has no such counter",
                        sys_errno == ENOENT ? "ENOENT" : "EOPNOTSUPP");
        break;
    case EMFILE:
        bn_source_lacks(out, "ulimit -n", "EMFILE: too many open files");
        break;
    case EBUSY:
        bn_source_lacks(out, "end the program that holds the counter",
                        "EBUSY: another program has the counter");
        break;
    case EINVAL:
        bn_source_lacks(out, "", "EINVAL: the kernel does not know this request");
        break;
    default:
        bn_source_lacks(out, "", "%s", strerror(sys_errno));
    }
}

struct event {
    uint32_t type;
    uint64_t config, period;
    bool kernel, all_cpus;
};

static int open_event(const struct event *e)
{
    struct perf_event_attr attr = {.type = e->type, .size = sizeof attr, .config = e->config};
    attr.exclude_kernel = !e->kernel;
    attr.exclude_hv = 1;
    attr.sample_period = e->period;
    if (e->period > 0) attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN;
    return (int)syscall(SYS_perf_event_open, &attr, e->all_cpus ? -1 : 0, e->all_cpus ? 0 : -1, -1,
                        PERF_FLAG_FD_CLOEXEC);
}

/* What an event of any kind counts: pages that are new, and a time on the CPU, most of it not in the kernel.
 */
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

static void try_event(struct bn_source *s, const struct event *e, const char *unit)
{
    uint64_t count = 0;
    int fd = open_event(e);
    if (fd < 0) {
        bn_perf_reason(s, errno, paranoid_level());
        return;
    }
    work();
    if (read(fd, &count, sizeof count) != (ssize_t)sizeof count || count == 0)
        bn_source_lacks(s, "", "the event opens, but counts nothing");
    else
        bn_source_found(s, "counted %llu %s in 5 ms of work", (unsigned long long)count, unit);
    close(fd);
}

void bn_try_perf_software(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_event(s, &(struct event){.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK}, "ns");
}

void bn_try_perf_kernel(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_event(
        s, &(struct event){.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS, .kernel = true},
        "page faults");
}

void bn_try_perf_all_cpus(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_event(
        s, &(struct event){.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .all_cpus = true},
        "ns");
}

void bn_try_perf_cycles(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_event(s, &(struct event){.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CPU_CYCLES}, "cycles");
}

void bn_try_perf_instructions(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_event(s, &(struct event){.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS},
              "instructions");
}

void bn_try_perf_cache_misses(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_event(s, &(struct event){.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CACHE_MISSES}, "misses");
}

/* Samples go through a ring of pages that the kernel locks. */
void bn_try_perf_sampling(struct bn_source *s, const struct bn_machine *m)
{
    struct event e = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .period = 500000};
    size_t page = m->page_bytes > 0 ? m->page_bytes : 4096, bytes = (RING_PAGES + 1) * page;
    int fd = open_event(&e);
    if (fd < 0) {
        bn_perf_reason(s, errno, paranoid_level());
        return;
    }
    void *ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) {
        bn_source_lacks(s, "a greater kernel.perf_event_mlock_kb or ulimit -l", "no ring of %u pages: %s",
                        RING_PAGES, strerror(errno));
    } else {
        const struct perf_event_mmap_page *head = ring;
        work();
        uint64_t got = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE);
        if (got > 0)
            bn_source_found(s, "cpu-clock every 0.5 ms, a ring of %u pages", RING_PAGES);
        else
            bn_source_lacks(s, "", "the event opens, but no sample came");
        munmap(ring, bytes);
    }
    close(fd);
}

/* ---- timers ---- */

static void try_timer(struct bn_source *s, clockid_t id, const char *more)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct timespec tick = {0};
    if (timer_create(id, &event, &timer) != 0) {
        bn_source_lacks(s, "", "%s", strerror(errno));
        return;
    }
    if (clock_getres(id, &tick) == 0)
        bn_source_found(s, "can be made; the clock claims steps of %ld ns%s", (long)tick.tv_nsec, more);
    else
        bn_source_found(s, "can be made");
    timer_delete(timer);
}

void bn_try_timer_cpu(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_timer(s, CLOCK_THREAD_CPUTIME_ID, ", but the kernel may look at its ticks only");
}

void bn_try_timer_wall(struct bn_source *s, const struct bn_machine *m)
{
    (void)m;
    try_timer(s, CLOCK_MONOTONIC, "");
}
