/* SPDX-License-Identifier: MIT
 *
 * The thread team. Waiting threads sleep on a futex of Linux.
 *
 * A word that threads wait for counts up by 2; its lowest bit is set when a thread sleeps until the word
 * changes. So the thread that changes it learns from the same exchange whether it has to wake others.
 */
#define _GNU_SOURCE /* sched_getaffinity, syscall, pthread_setname_np */
#include "base/team.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define SPIN_NS 50000u /* longer than threads of one task are apart, shorter than a time slice */
#define SPINS 32u      /* between two looks at the clock */
#define SLEEPS 1u
#define STACK_BYTES ((size_t)1 << 20)

struct seat {
    _Alignas(BN_ALIGNMENT) atomic_uint task; /* changes when there is one for this thread */
    struct bn_team *team;
    pthread_t thread;
    unsigned index;
};

struct bn_team {
    struct bn_barrier barrier;
    _Alignas(BN_ALIGNMENT) _Atomic uint64_t asleep_ns;
    /* Written between tasks by the thread that runs them. */
    _Alignas(BN_ALIGNMENT) bn_team_fn fn; /* NULL: the threads end */
    void *arg;
    unsigned n_running;
    struct bn_team_pace pace;
    struct seat *seats; /* of threads 1 to pace.size - 1 */
};

/* ---- waiting ---- */

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex(atomic_uint *word, int operation, unsigned value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void change(atomic_uint *word)
{
    unsigned now = atomic_load_explicit(word, memory_order_relaxed);
    unsigned next = (now & ~SLEEPS) + 2;
    if (atomic_exchange_explicit(word, next, memory_order_acq_rel) & SLEEPS) futex(word, FUTEX_WAKE, INT_MAX);
}

static bool changed(atomic_uint *word, unsigned seen)
{
    return (atomic_load_explicit(word, memory_order_acquire) & ~SLEEPS) != seen;
}

static bool spin_until_changed(atomic_uint *word, unsigned seen)
{
    uint64_t start = 0;
    for (;;) {
        for (unsigned i = 0; i < SPINS; i++) {
            if (changed(word, seen)) return true;
            pause_cpu();
        }
        uint64_t now = bn_clock_ns();
        if (start == 0) start = now;
        if (now - start > SPIN_NS) return false;
    }
}

/* Returns when the word is no longer what was seen; how long the thread slept until then. */
static uint64_t team_wait(atomic_uint *word, unsigned seen, bool no_spin)
{
    if (no_spin ? changed(word, seen) : spin_until_changed(word, seen)) return 0;
    uint64_t start = bn_clock_ns();
    while (!changed(word, seen)) {
        unsigned awake = seen;
        if (atomic_compare_exchange_strong(word, &awake, seen | SLEEPS) || awake == (seen | SLEEPS))
            futex(word, FUTEX_WAIT, seen | SLEEPS);
    }
    return bn_clock_ns() - start;
}

uint64_t bn_barrier_wait(struct bn_barrier *barrier, unsigned n_threads)
{
    if (n_threads == 1) return 0;
    unsigned seen = atomic_load_explicit(&barrier->round, memory_order_relaxed) & ~SLEEPS;
    if (atomic_fetch_add_explicit(&barrier->n_arrived, 1, memory_order_acq_rel) < n_threads - 1)
        return team_wait(&barrier->round, seen, barrier->no_spin);
    atomic_store_explicit(&barrier->n_arrived, 0, memory_order_relaxed);
    change(&barrier->round);
    return 0;
}

void bn_team_barrier(struct bn_team *team, unsigned n_threads)
{
    uint64_t asleep = bn_barrier_wait(&team->barrier, n_threads);
    if (asleep > 0) atomic_fetch_add_explicit(&team->asleep_ns, asleep, memory_order_relaxed);
}

/* ---- threads ---- */

static void *team_worker(void *arg)
{
    struct seat *seat = arg;
    struct bn_team *team = seat->team;
    for (unsigned seen = 0;; seen += 2) {
        team_wait(&seat->task, seen, team->barrier.no_spin);
        if (team->fn == NULL) return NULL;
        team->fn(team->arg, seat->index, team->n_running);
        bn_team_barrier(team, team->n_running);
    }
}

static bool start(struct bn_team *team, unsigned index)
{
    struct seat *seat = &team->seats[index - 1];
    pthread_attr_t attributes;
    seat->team = team;
    seat->index = index;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES); /* when it is too small, the default is as good */
    bool started = pthread_create(&seat->thread, &attributes, team_worker, seat) == 0;
    pthread_attr_destroy(&attributes);
    if (started) pthread_setname_np(seat->thread, "bn-worker");
    return started;
}

struct bn_team *bn_team_open(unsigned n_threads, bool exact)
{
    struct bn_team *team = bn_alloc_aligned(1, sizeof *team);
    if (team == NULL) return NULL;
    team->pace = (struct bn_team_pace){.size = 1, .running = 1};
    team->seats = n_threads > 1 ? bn_alloc_aligned(n_threads - 1, sizeof *team->seats) : NULL;
    if (n_threads > 1 && team->seats == NULL) {
        bn_free(team);
        return NULL;
    }
    team->barrier.no_spin = n_threads > bn_team_cores();
    while (team->pace.size < n_threads && start(team, team->pace.size))
        team->pace.size++;
    bn_team_set_exact(team, exact);
    return team;
}

void bn_team_close(struct bn_team *team)
{
    if (team == NULL) return;
    team->fn = NULL;
    for (unsigned i = 1; i < team->pace.size; i++)
        change(&team->seats[i - 1].task);
    for (unsigned i = 1; i < team->pace.size; i++)
        pthread_join(team->seats[i - 1].thread, NULL);
    bn_free(team->seats);
    bn_free(team);
}

unsigned bn_team_size(const struct bn_team *team)
{
    return team->pace.size;
}

uint64_t bn_team_bytes(const struct bn_team *team)
{
    return bn_mem_size(team) + bn_mem_size(team->seats);
}

void bn_team_set_exact(struct bn_team *team, bool exact)
{
    unsigned size = team->pace.size;
    team->pace = (struct bn_team_pace){.size = size, .running = size, .exact = exact};
    atomic_store_explicit(&team->asleep_ns, 0, memory_order_relaxed);
}

static void run_on(struct bn_team *team, unsigned n_threads, bn_team_fn fn, void *arg)
{
    team->fn = fn;
    team->arg = arg;
    team->n_running = n_threads;
    for (unsigned i = 1; i < n_threads; i++)
        change(&team->seats[i - 1].task);
    fn(arg, 0, n_threads);
    bn_team_barrier(team, n_threads);
}

void bn_team_run(struct bn_team *team, bn_team_fn fn, void *arg)
{
    if (team->pace.size == 1 || team->pace.exact) {
        run_on(team, team->pace.running, fn, arg);
        return;
    }
    uint64_t begin = bn_clock_ns();
    run_on(team, team->pace.running, fn, arg);
    uint64_t asleep = atomic_exchange_explicit(&team->asleep_ns, 0, memory_order_relaxed);
    bn_team_pace_task(&team->pace, begin, bn_clock_ns(), asleep);
}

void bn_team_once(unsigned n_threads, bn_team_fn fn, void *arg)
{
    struct bn_team *team = n_threads > 1 ? bn_team_open(n_threads, true) : NULL;
    if (team == NULL)
        fn(arg, 0, 1);
    else
        run_on(team, team->pace.size, fn, arg);
    bn_team_close(team);
}

struct items {
    atomic_size_t next;
    size_t end;
    bn_team_item_fn fn;
    void *arg;
};

static void take_items(void *arg, unsigned thread, unsigned n_threads)
{
    struct items *items = arg;
    (void)n_threads;
    for (size_t i; (i = atomic_fetch_add(&items->next, 1)) < items->end;)
        items->fn(items->arg, thread, i);
}

void bn_team_each(struct bn_team *team, size_t first, size_t end, bn_team_item_fn fn, void *arg)
{
    struct items items = {first, end, fn, arg};
    if (team != NULL)
        bn_team_run(team, take_items, &items);
    else
        take_items(&items, 0, 1);
}

unsigned bn_team_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (unsigned)n;
}

/* ---- pace ---- */

#define WINDOW_NS 4000000u /* of tasks, at least, before a decision: about a time slice */
#define HOLD_MIN_NS 20000000u
#define HOLD_MAX_NS 1000000000u

static void change_running(struct bn_team_pace *pace, unsigned running, uint64_t now_ns)
{
    pace->running = running;
    pace->since_ns = now_ns;
}

/* While one of n threads does not run for a time T, the n - 1 others sleep at a barrier for T each. When that
 * is so for more than 1/n of the time, n - 1 threads that all run would do as much. */
void bn_team_pace_task(struct bn_team_pace *pace, uint64_t begin_ns, uint64_t end_ns, uint64_t asleep_ns)
{
    uint64_t n = pace->running;
    pace->window_ns += end_ns - begin_ns;
    pace->asleep_ns += asleep_ns;
    if (pace->window_ns < WINDOW_NS) return;
    bool crowded = n > 1 && pace->asleep_ns * n > pace->window_ns * (n - 1);
    uint64_t stayed_ns = end_ns - pace->since_ns;
    pace->window_ns = pace->asleep_ns = 0;
    if (crowded) {
        change_running(pace, (unsigned)(n - 1 - n / 8), end_ns);
        pace->hold_ns = pace->hold_ns == 0                ? HOLD_MIN_NS
                        : pace->hold_ns < HOLD_MAX_NS / 2 ? pace->hold_ns * 2
                                                          : HOLD_MAX_NS;
    } else if (stayed_ns > pace->hold_ns) {
        if (n < pace->size)
            change_running(pace, 2 * n < pace->size ? (unsigned)(2 * n) : pace->size, end_ns);
        else
            pace->hold_ns = 0; /* the cores have been free for as long */
    }
}
