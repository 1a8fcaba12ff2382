/* SPDX-License-Identifier: MIT
 *
 * The tier of timers (see tier.h): samples of this process, without privileges. Each thread has a timer, whose
 * signal interrupts it; the handler follows frame pointers, and copies stack where that is asked for. A thread
 * of our own, the watcher, finds threads that start and end.
 *
 * A timer on a thread's processor time expires at the system's ticks only (250 a second, mostly). One on the
 * clock on the wall is finer, but finds a thread that was not running where it goes on, so it is for wall time.
 * The weight of a sample is the time of its thread since the last one: ticks and delays change the resolution,
 * not the sum. Timers fire once, and the handler sets them again, to a period that varies by a tenth: a slow
 * handler is not overrun by its own timer.
 *
 * The handler calls only what is safe in one, takes no lock, and cannot fault, because stacks are read by
 * process_vm_readv(2). All signals are blocked in it, so that no other handler leaves it by longjmp. Samples go to
 * a log in memory, where the threads reserve their places by an atomic addition.
 *
 * Limits, which perf's tiers do not have: threads that live for less than a scan (10 to 40 ms) are not seen, and
 * those that block all signals have no samples.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/host/machine.h"
#include "lab/sampler/tier.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define MAX_THREADS 4096u
#define DEPTH 256u   /* addresses of a sample, at most */
#define WINDOW 2048u /* bytes of stack that are read at once */
#define MAX_FRAME (1u << 20)
#define SCAN_NS 10000000L /* from one scan to the next; longer while no thread comes or goes */
#define CALM_SCAN_NS 40000000L
#define NAMED_AFTER 3u   /* scans: a thread gets its name soon after its start */
#define SCANS_A_NAME 32u /* then it is read again this often */
#define LOG_BYTES(dumps) ((size_t)((dumps) ? 1024 : 256) << 20)

/* A thread. All but tid belongs to the watcher or, once the timer is set, to the handler in that thread. */
struct slot {
    _Atomic(int) tid; /* 0: free */
    bool seen;
    unsigned scans;
    timer_t timer;
    uint64_t since_ns;
    char name[16];
    uint64_t last_ns; /* of the clock that is weighed, at its last sample */
    uint64_t random;
    uint64_t chain[DEPTH];
    uint64_t window_at, window_bytes;
    unsigned char window[WINDOW];
};

/* In the log, at multiples of 8. Behind it: n_chain addresses; with a copy of the stack, BN_RECORD_REGISTERS
 * registers and n_dump bytes. */
struct entry {
    uint64_t n_bytes; /* of all of it */
    uint64_t time_ns, weight_ns;
    uint32_t tid, n_chain, n_dump, flags;
};

/* There is one, since a process has one set of signal handlers. */
static struct {
    bool running;
    bn_recording *out;
    struct bn_record_options options;
    struct slot *slots; /* [MAX_THREADS] */
    _Atomic(unsigned) n_slots;
    unsigned char *log;
    size_t log_bytes;
    _Atomic(uint64_t) used; /* bytes of the log that are reserved; more than there are: it is full */
    _Atomic(uint64_t) dropped;
    _Atomic(bool) active, stop, read_denied;
    _Atomic(int) watcher_tid;
    bool threads_unseen, timer_refused;
    pthread_t watcher;
    uint64_t watcher_ns, cpu_before_ns;
    struct sigaction before;
    int signal;
} the;

static _Atomic(unsigned) inside; /* handlers that run now: one may begin when the rest is released */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_wall(void)
{
    return the.options.kind == BN_RECORD_WALL;
}

/* ---- the handler: reading stacks ---- */

/* Copies up to n bytes that lie at an address; returns how many could be read, from the front. */
static size_t read_memory(uint64_t address, void *into, size_t n)
{
    struct iovec to = {.iov_base = into, .iov_len = n};
    struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = n};
    long got = syscall(SYS_process_vm_readv, (long)getpid(), &to, 1L, &from, 1L, 0L);
    if (got < 0 && errno != EFAULT) atomic_store(&the.read_denied, true);
    return got > 0 ? (size_t)got : 0;
}

/* A word of the stack. What is read is kept: the next frames are likely to lie there. */
static bool stack_word(struct slot *slot, uint64_t address, uint64_t *word)
{
    if (address < slot->window_at || address - slot->window_at + 8 > slot->window_bytes) {
        slot->window_at = address;
        slot->window_bytes = read_memory(address, slot->window, WINDOW);
        if (slot->window_bytes < 8) return false;
    }
    memcpy(word, slot->window + (address - slot->window_at), 8);
    return true;
}

#if defined(__x86_64__)
static void put_registers(uint64_t *out, const ucontext_t *context)
{
    static const unsigned char ORDER[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                          REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                          REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    memset(out, 0, BN_RECORD_REGISTERS * sizeof *out);
    for (size_t i = 0; i < sizeof ORDER; i++)
        out[i] = (uint64_t)context->uc_mcontext.gregs[ORDER[i]];
}
#elif defined(__aarch64__)
static void put_registers(uint64_t *out, const ucontext_t *context)
{
    const mcontext_t *m = &context->uc_mcontext;
    for (size_t i = 0; i < 31; i++)
        out[i] = m->regs[i];
    out[31] = m->sp;
    out[32] = m->pc;
}
#else
#error "no registers are known for this architecture"
#endif

/* Follows frame pointers: each points to the caller's, and the return address is after it. In the first
 * instructions of a function it is still the caller's: unwinding tables and a copy of the stack find that one. */
static uint32_t walk(struct slot *slot, const uint64_t *registers, uint32_t *flags)
{
    uint64_t fp = registers[BN_RECORD_FP], low = registers[BN_RECORD_SP], next, address;
    uint32_t n = 0;
    slot->window_bytes = 0;
    slot->chain[n++] = registers[BN_RECORD_PC];
    while ((fp & 7) == 0 && fp >= low && fp - low < MAX_FRAME) {
        if (!stack_word(slot, fp, &next) || !stack_word(slot, fp + 8, &address) || address == 0) break;
        if (n == DEPTH) {
            *flags |= BN_SAMPLE_CUT;
            break;
        }
        slot->chain[n++] = address;
        low = fp + 16;
        fp = next;
    }
    return n;
}

/* ---- the handler: a sample ---- */

static void take_sample(struct slot *slot, uint64_t weight, const ucontext_t *context)
{
    uint32_t flags = 0, wanted = the.options.dump_bytes, tid = (uint32_t)atomic_load(&slot->tid);
    uint64_t registers[BN_RECORD_REGISTERS];
    put_registers(registers, context);
    uint32_t n = walk(slot, registers, &flags);
    uint64_t n_bytes = sizeof(struct entry) + n * sizeof(uint64_t);
    if (wanted > 0) n_bytes += sizeof registers + wanted;
    uint64_t place = atomic_fetch_add(&the.used, n_bytes);
    if (place > the.log_bytes || n_bytes > the.log_bytes - place) {
        atomic_fetch_add(&the.dropped, 1);
        return;
    }
    struct entry *entry = (void *)(the.log + place);
    uint64_t *words = (uint64_t *)(entry + 1);
    *entry = (struct entry){n_bytes, clock_ns(CLOCK_MONOTONIC), weight, tid, n, 0, 0};
    memcpy(words, slot->chain, n * sizeof *words);
    if (wanted > 0) {
        memcpy(words + n, registers, sizeof registers);
        size_t got = read_memory(registers[BN_RECORD_SP], words + n + BN_RECORD_REGISTERS, wanted);
        entry->n_dump = (uint32_t)got & ~7u;
        if (got == wanted) flags |= BN_SAMPLE_DUMP_CUT;
    }
    entry->flags = flags;
}

static struct slot *find_slot(int tid)
{
    unsigned n = atomic_load(&the.n_slots);
    for (unsigned i = 0; i < n; i++)
        if (atomic_load_explicit(&the.slots[i].tid, memory_order_acquire) == tid) return &the.slots[i];
    return NULL;
}

static void set_timer(struct slot *slot)
{
    uint64_t period = the.options.period_ns, x = slot->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    slot->random = x;
    period += period / 5 * (x >> 44) / (1u << 20) - period / 10;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(period / 1000000000u), .tv_nsec = (long)(period % 1000000000u)}};
    (void)timer_settime(slot->timer, 0, &when, NULL);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int error = errno;
    (void)signal;
    atomic_fetch_add(&inside, 1);
    struct slot *slot =
        atomic_load(&the.active) && info->si_code == SI_TIMER ? find_slot((int)syscall(SYS_gettid)) : NULL;
    if (slot != NULL) {
        uint64_t now = clock_ns(is_wall() ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID);
        take_sample(slot, now - slot->last_ns, context);
        slot->last_ns = now;
        set_timer(slot);
    }
    atomic_fetch_sub(&inside, 1);
    errno = error;
}

/* ---- the watcher ---- */

/* The clock of a thread's processor time, by the kernel's rule. */
static clockid_t thread_clock(int tid)
{
    return (clockid_t)((~(unsigned)tid << 3) | 6u);
}

/* 0 or an errno. existed: before the recording. */
static int add_thread(int tid, bool existed)
{
    unsigned n = atomic_load(&the.n_slots), i = 0;
    while (i < n && atomic_load(&the.slots[i].tid) != 0)
        i++;
    if (i == MAX_THREADS) {
        the.threads_unseen = true;
        return 0;
    }
    struct slot *slot = &the.slots[i];
    slot->since_ns = clock_ns(CLOCK_MONOTONIC);
    slot->random = (uint64_t)tid * 0x9e3779b97f4a7c15u + 1;
    slot->scans = 0;
    slot->seen = true;
    slot->name[0] = '\0';
    slot->last_ns = is_wall() ? slot->since_ns : existed ? clock_ns(thread_clock(tid)) : 0;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = the.signal};
    event.sigev_notify_thread_id = tid;
    if (timer_create(is_wall() ? CLOCK_MONOTONIC : thread_clock(tid), &event, &slot->timer) != 0)
        return errno == EINVAL ? 0 : errno; /* EINVAL: the thread is gone already */
    if (i == n) atomic_store(&the.n_slots, n + 1);
    atomic_store_explicit(&slot->tid, tid, memory_order_release);
    set_timer(slot);
    return 0;
}

static void read_name(struct slot *slot)
{
    char path[48], name[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", atomic_load(&slot->tid));
    if (bn_machine_line(path, name, sizeof name)) snprintf(slot->name, sizeof slot->name, "%.15s", name);
}

static void remove_thread(struct slot *slot)
{
    uint32_t tid = (uint32_t)atomic_load(&slot->tid);
    timer_delete(slot->timer);
    atomic_store(&slot->tid, 0);
    /* A thread without a name is shown by its number. */
    if (slot->name[0] != '\0')
        (void)!bn_recording_add_thread(the.out, slot->since_ns, (uint32_t)getpid(), tid, slot->name, NULL);
}

/* Meets each thread of the process, and leaves those that ended. 0 or the errno of the first that could not be
 * added, which tells whether timers work at all. */
static int scan(bool existed, bool *changed)
{
    int failed = 0;
    unsigned n = atomic_load(&the.n_slots);
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) the.threads_unseen = true;
    for (unsigned i = 0; i < n; i++)
        the.slots[i].seen = tasks == NULL;
    if (tasks == NULL) return n == 0 ? add_thread(getpid(), existed) : 0;
    while ((entry = readdir(tasks)) != NULL) {
        int tid = (int)strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || tid == atomic_load(&the.watcher_tid)) continue;
        struct slot *slot = find_slot(tid);
        if (slot != NULL) slot->seen = true;
        int error = slot != NULL ? 0 : add_thread(tid, existed);
        if (failed == 0) failed = error;
        *changed = *changed || slot == NULL;
    }
    closedir(tasks);
    for (struct slot *slot = the.slots; slot < the.slots + atomic_load(&the.n_slots); slot++) {
        if (atomic_load(&slot->tid) == 0) continue;
        if (!slot->seen)
            remove_thread(slot);
        else if (++slot->scans == NAMED_AFTER || slot->scans % SCANS_A_NAME == 0)
            read_name(slot);
    }
    return failed;
}

static void *watch(void *unused)
{
    struct timespec pause = {.tv_nsec = SCAN_NS};
    (void)unused;
    atomic_store(&the.watcher_tid, gettid());
    (void)prctl(PR_SET_NAME, "bn-sampler");
    while (!atomic_load(&the.stop)) {
        bool changed = false;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        if (scan(false, &changed) != 0) the.timer_refused = true;
        pause.tv_nsec = changed                            ? SCAN_NS
                        : 2 * pause.tv_nsec < CALM_SCAN_NS ? 2 * pause.tv_nsec
                                                           : CALM_SCAN_NS;
    }
    the.watcher_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* ---- begin and end ---- */

static bool has_handler(int signal)
{
    struct sigaction now;
    return sigaction(signal, NULL, &now) != 0 || now.sa_handler != SIG_DFL;
}

static int install_handler(void)
{
    struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    for (the.signal = SIGRTMAX - 1; the.signal > SIGRTMIN && has_handler(the.signal);)
        the.signal--;
    if (has_handler(the.signal)) return EBUSY;
    return sigaction(the.signal, &ours, &the.before) == 0 ? 0 : errno;
}

/* No signal of ours comes any more, and no handler runs, when this is done. */
static void silence(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    while (atomic_load(&inside) > 0)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 100000}, NULL);
    for (struct slot *slot = the.slots; slot < the.slots + atomic_load(&the.n_slots); slot++) {
        if (atomic_load(&slot->tid) == 0) continue;
        read_name(slot);
        remove_thread(slot);
    }
    /* To ignore a signal throws away those that wait for a thread that blocks it. */
    (void)sigaction(the.signal, &ignore, NULL);
    (void)sigaction(the.signal, &the.before, NULL);
}

static int start_watcher(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&the.watcher, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void *map_memory(size_t n)
{
    void *memory = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void release(void)
{
    if (the.slots != NULL) munmap(the.slots, MAX_THREADS * sizeof *the.slots);
    if (the.log != NULL) munmap(the.log, the.log_bytes);
    memset(&the, 0, sizeof the);
}

/* 0, or an errno and what it was that failed. */
static int begin(const struct bn_record_options *options, bn_recording *out, const char **what)
{
    bool changed = false;
    the.out = out;
    the.options = *options;
    the.log_bytes = LOG_BYTES(options->dump_bytes > 0);
    the.cpu_before_ns = bn_clock_process_cpu_ns();
    *what = "mmap";
    the.slots = map_memory(MAX_THREADS * sizeof *the.slots);
    the.log = map_memory(the.log_bytes);
    if (the.slots == NULL || the.log == NULL) return ENOMEM;
    *what = "the signal of the sampler";
    int failed = install_handler();
    if (failed != 0) return failed;
    atomic_store(&the.active, true);
    *what = "timer_create";
    failed = scan(true, &changed);
    if (failed == 0) {
        *what = "pthread_create";
        failed = start_watcher();
    }
    if (failed == 0) return 0;
    atomic_store(&the.active, false);
    silence();
    return failed;
}

static bn_status open_timers(void **state, const struct bn_record_options *options,
                             struct bn_record_start *start, bn_recording *out, bn_error *err)
{
    const char *what = "";
    if (start != NULL)
        return bn_fail(err, BN_ERR_UNSUPPORTED,
                       "timers sample bn's own run of a model only; perf events sample other programs");
    if (the.running)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "a second recording of the same process: it has one already");
    int failed = begin(options, out, &what);
    if (failed != 0) {
        release();
        return bn_fail(err, BN_ERR_UNSUPPORTED, "%s: %s", what, strerror(failed));
    }
    the.running = true;
    *state = &the;
    return BN_OK;
}

static void end(void)
{
    if (!the.running) return;
    the.running = false;
    atomic_store(&the.active, false);
    atomic_store(&the.stop, true);
    pthread_join(the.watcher, NULL);
    silence();
}

static void put_note(struct bn_delivery *delivery)
{
    snprintf(delivery->note, sizeof delivery->note, "%s%s%s",
             atomic_load(&the.read_denied)
                 ? "process_vm_readv is denied: stacks have their innermost function only. "
                 : "",
             the.threads_unseen ? "some threads were not seen. " : "",
             the.timer_refused ? "timer_create was refused for some threads" : "");
}

static bn_status read_log(bn_recording *out, bn_error *err)
{
    uint64_t used = atomic_load(&the.used);
    for (uint64_t at = 0; at + sizeof(struct entry) <= used && at + sizeof(struct entry) <= the.log_bytes;) {
        const struct entry *e = (const void *)(the.log + at);
        const uint64_t *chain = (const uint64_t *)(e + 1);
        if (e->n_bytes == 0) break; /* the first that had no room */
        if (out->n_samples == BN_RECORDING_MAX_SAMPLES) {
            out->delivery.lost++;
        } else {
            struct bn_sample sample = {.time_ns = e->time_ns,
                                       .weight = e->weight_ns,
                                       .pid = (uint32_t)getpid(),
                                       .tid = e->tid,
                                       .n_chain = (uint16_t)e->n_chain,
                                       .flags = (uint16_t)e->flags,
                                       .n_dump = e->n_dump};
            BN_TRY(bn_recording_add_sample(out, &sample, chain, chain + e->n_chain + BN_RECORD_REGISTERS,
                                           chain + e->n_chain, err));
        }
        at += e->n_bytes;
    }
    return BN_OK;
}

static bn_status stop_timers(void *state, bn_error *err)
{
    bn_recording *out = the.out;
    (void)state;
    end();
    uint64_t used = bn_clock_process_cpu_ns() - the.cpu_before_ns;
    out->delivery.lost += atomic_load(&the.dropped);
    out->delivery.cpu_known = used > the.watcher_ns;
    out->delivery.cpu_ns = out->delivery.cpu_known ? used - the.watcher_ns : 0;
    put_note(&out->delivery);
    return read_log(out, err);
}

static void close_timers(void *state)
{
    (void)state;
    end();
    release();
}

const struct bn_record_ops bn_record_timers = {open_timers, stop_timers, close_timers};
