/* SPDX-License-Identifier: MIT
 *
 * The agent has two parts: a signal handler that takes a sample of the interrupted thread (agent_sample.c),
 * and a thread, the watcher, which looks for new threads every 10 to 40 ms, gives each a timer, and records
 * which files are mapped. Most of its overhead is waking up.
 *
 * A timer's signal is a real-time signal without a handler. All signals are blocked while the handler runs, so that no
 * handler of the program can leave it by longjmp. Timers fire once, and the handler sets them again to a
 * period that varies by a tenth, so a slow handler cannot be overrun by its own timer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "lab/sampler/agent_inside.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define SCAN_NS 10000000L      /* from one scan to the next, while threads come and go */
#define CALM_SCAN_NS 40000000L /* at most, when they did not */
#define SCANS_A_LOOK 10u       /* at the list of threads, though it seems to be as it was */
#define SCANS_A_NAME 32u       /* of a thread that has one */
#define SCANS_A_SNAPSHOT 25u   /* of the maps, though no sample was outside them */
#define YOUNG 3u               /* scans until a thread is believed to have its name */

struct bn_agent_state bn_agent;

/* The clock of a thread's processor time, by the kernel's rule. */
static clockid_t thread_clock(int tid)
{
    return (clockid_t)((~(unsigned)tid << 3) | 6u);
}

/* ---- the watcher: threads ---- */

static void log_name(struct bn_agent_thread *slot, uint64_t since_ns)
{
    struct bn_agent_name *name =
        bn_agent_reserve(sizeof *name, BN_AGENT_NAME, since_ns, atomic_load(&slot->tid));
    if (name == NULL) return;
    slot->named = true;
    memcpy(name->name, slot->name, sizeof name->name);
    bn_agent_commit(&name->record);
}

/* A thread gets its name soon after its start, mostly by itself: that one counts from the start on. */
static void note_name(struct bn_agent_thread *slot, bool last)
{
    char name[16];
    int tid = atomic_load(&slot->tid);
    bool is_young = slot->scans <= YOUNG;
    if (!is_young && !last && slot->scans % SCANS_A_NAME != 0 && slot->scans != 16) return;
    bool changed = bn_agent_read_name(tid, name) && memcmp(name, slot->name, sizeof name) != 0;
    if (changed) memcpy(slot->name, name, sizeof name);
    /* Asked twice: threads block all signals while they start and end. */
    if (slot->scans == YOUNG) slot->blocks = bn_agent_blocks_signal(tid);
    if (slot->scans == 16 && slot->blocks && bn_agent_blocks_signal(tid))
        bn_agent_note(BN_AGENT_SIGNAL_BLOCKED);
    if (!slot->named && (last || slot->scans == YOUNG || tid == (int)bn_agent.pid))
        log_name(slot, slot->since_ns);
    else if (slot->named && changed)
        log_name(slot, bn_agent_clock_ns(CLOCK_MONOTONIC));
}

/* 0 or an errno. existed: before the recording. */
static int add_thread(int tid, bool existed)
{
    struct bn_agent_thread *slot = NULL;
    unsigned n = atomic_load(&bn_agent.n_slots), i = 0;
    while (i < n && atomic_load(&bn_agent.slots[i].tid) != 0)
        i++;
    if (i == BN_AGENT_THREADS) {
        bn_agent_note(BN_AGENT_THREADS_UNSEEN);
        return 0;
    }
    slot = &bn_agent.slots[i];
    uint64_t now = bn_agent_clock_ns(CLOCK_MONOTONIC);
    slot->since_ns = now;
    slot->random = (uint64_t)tid * 0x9e3779b97f4a7c15u + 1;
    slot->scans = 0;
    slot->seen = true;
    slot->named = slot->blocks = false;
    memset(slot->name, 0, sizeof slot->name);
    slot->last_ns = bn_agent_is_wall() ? now : existed ? bn_agent_clock_ns(thread_clock(tid)) : 0;
    atomic_store(&slot->asked, 0);
    atomic_store(&slot->stack_to, 0);
    atomic_store(&slot->ours, tid == bn_agent_thread_id()); /* which is in bn_agent_begin */
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = bn_agent.signal};
    event.sigev_notify_thread_id = tid;
    if (timer_create(bn_agent_is_wall() ? CLOCK_MONOTONIC : thread_clock(tid), &event, &slot->timer) != 0)
        return errno == EINVAL ? 0 : errno; /* EINVAL: the thread is gone already */
    if (i == n) atomic_store(&bn_agent.n_slots, n + 1);
    atomic_store_explicit(&slot->tid, tid, memory_order_release);
    bn_agent_set_timer(slot);
    return 0;
}

static void remove_thread(struct bn_agent_thread *slot)
{
    if (!slot->named && slot->name[0] != '\0') log_name(slot, slot->since_ns);
    timer_delete(slot->timer);
    atomic_store(&slot->tid, 0);
}

/* Meets each thread of the process. 0 or the errno of the first that could not be added, which tells
 * whether timers work at all. */
static int meet_threads(bool existed)
{
    _Alignas(8) char entries[4096];
    int failed = 0, fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    if (fd < 0) {
        bn_agent_note(BN_AGENT_THREADS_UNSEEN);
        struct bn_agent_thread *first = bn_agent_find((int)bn_agent.pid);
        if (first == NULL) return add_thread((int)bn_agent.pid, existed);
        first->seen = true;
        return 0;
    }
    while ((n = syscall(SYS_getdents64, (long)fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            const char *entry = entries + at; /* 8 bytes, 8 bytes, length, type, name */
            unsigned short n_bytes;
            memcpy(&n_bytes, entry + 16, sizeof n_bytes);
            at += n_bytes;
            int tid = 0;
            for (const char *c = entry + 19; *c >= '0' && *c <= '9'; c++)
                tid = tid * 10 + (*c - '0');
            if (tid == 0 || tid == atomic_load(&bn_agent.watcher_tid)) continue;
            struct bn_agent_thread *slot = bn_agent_find(tid);
            if (slot != NULL) slot->seen = true;
            int error = slot != NULL ? 0 : add_thread(tid, existed);
            if (failed == 0) failed = error;
        }
    }
    close(fd);
    return failed;
}

/* Whether the threads seem to be those that are known: as many, and none of them ended. It costs a tenth of
 * reading the list, since the number of links of a folder of /proc is that of what it holds. A thread's
 * number may have gone to another thread meanwhile, so this is not for good. */
static bool are_known(void)
{
    struct stat task;
    struct timespec unused;
    unsigned n = atomic_load(&bn_agent.n_slots);
    uint64_t links = 3; /* ".", "..", the watcher */
    for (unsigned i = 0; i < n; i++)
        links += atomic_load(&bn_agent.slots[i].tid) != 0;
    if (stat("/proc/self/task", &task) != 0 || (uint64_t)task.st_nlink != links) return false;
    for (unsigned i = 0; i < n; i++) {
        int tid = atomic_load(&bn_agent.slots[i].tid);
        if (tid != 0 && clock_gettime(thread_clock(tid), &unused) != 0) return false;
    }
    return true;
}

static int look(bool existed)
{
    unsigned n = atomic_load(&bn_agent.n_slots);
    for (unsigned i = 0; i < n; i++)
        bn_agent.slots[i].seen = false;
    return meet_threads(existed);
}

static int scan(bool existed, bool must_look, bool *calm)
{
    *calm = are_known();
    int failed = must_look || !*calm ? look(existed) : 0;
    unsigned n = atomic_load(&bn_agent.n_slots);
    for (unsigned i = 0; i < n; i++) {
        struct bn_agent_thread *slot = &bn_agent.slots[i];
        if (atomic_load(&slot->tid) == 0) continue;
        if (!slot->seen)
            remove_thread(slot);
        else
            note_name(slot, false);
        slot->scans++;
    }
    return failed;
}

/* ---- the watcher ---- */

/* Says whether the calling thread runs the agent's code. */
static void is_ours(bool ours)
{
    struct bn_agent_thread *slot = bn_agent_find(bn_agent_thread_id());
    if (slot != NULL) atomic_store(&slot->ours, ours);
}

static void account(void)
{
    uint64_t now = bn_agent_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_fetch_add(&bn_agent.log->agent_ns, now - bn_agent.watcher_ns);
    bn_agent.watcher_ns = now;
}

/* No signal of ours comes any more, and no handler runs, when this is done. */
static void silence(void)
{
    atomic_store(&bn_agent.active, false);
    while (atomic_load(&bn_agent.inside) > 0)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 100000}, NULL);
    unsigned n = atomic_load(&bn_agent.n_slots);
    for (unsigned i = 0; i < n; i++)
        if (atomic_load(&bn_agent.slots[i].tid) != 0) remove_thread(&bn_agent.slots[i]);
}

static void look_around(unsigned round, bool *calm)
{
    if (scan(false, round % SCANS_A_LOOK == 0, calm) != 0) bn_agent_note(BN_AGENT_TIMER_REFUSED);
    if (atomic_exchange(&bn_agent.maps_wanted, false) || round % SCANS_A_SNAPSHOT == 0) bn_agent_note_maps();
    account();
}

/* The watcher ends when the reader of the log has gone; the handler stays, for a signal that is on its way
 * or that somebody else sends. */
static void *watch(void *unused)
{
    struct timespec pause = {.tv_nsec = SCAN_NS};
    bool calm = false;
    (void)unused;
    atomic_store(&bn_agent.watcher_tid, bn_agent_thread_id());
    (void)prctl(PR_SET_NAME, "bn-sampler");
    for (unsigned round = 1; !atomic_load(&bn_agent.stop); round++) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        bool over = round % SCANS_A_LOOK == 0 && bn_agent.unread != NULL && bn_agent.unread();
        pthread_mutex_lock(&bn_agent.work);
        if (over)
            silence();
        else
            look_around(round, &calm);
        pthread_mutex_unlock(&bn_agent.work);
        if (over) break;
        pause.tv_nsec = !calm ? SCAN_NS : 2 * pause.tv_nsec < CALM_SCAN_NS ? 2 * pause.tv_nsec : CALM_SCAN_NS;
    }
    return NULL;
}

static void snapshot(void)
{
    pthread_mutex_lock(&bn_agent.work);
    bool active = atomic_load(&bn_agent.active);
    if (active) bn_agent_note_maps();
    unsigned n = atomic_load(&bn_agent.n_slots);
    for (unsigned i = 0; i < n && active; i++)
        if (atomic_load(&bn_agent.slots[i].tid) != 0) note_name(&bn_agent.slots[i], true);
    pthread_mutex_unlock(&bn_agent.work);
}

void bn_agent_snapshot(void)
{
    if (bn_agent.log == NULL || (uint32_t)getpid() != bn_agent.pid) return;
    is_ours(true);
    snapshot();
    is_ours(false);
}

/* ---- begin and end ---- */

static bool has_handler(int signal)
{
    struct sigaction now;
    return sigaction(signal, NULL, &now) != 0 || now.sa_handler != SIG_DFL;
}

static int install_handler(void)
{
    struct sigaction ours = {.sa_sigaction = bn_agent_on_signal,
                             .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    for (bn_agent.signal = SIGRTMAX - 1; bn_agent.signal > SIGRTMIN && has_handler(bn_agent.signal);)
        bn_agent.signal--;
    if (has_handler(bn_agent.signal)) return EBUSY;
    return sigaction(bn_agent.signal, &ours, &bn_agent.before) == 0 ? 0 : errno;
}

/* What belongs to the table, the buffers and the watcher's thread. */
static int start(const char **what)
{
    sigset_t all, before;
    bool calm;
    int failed;
    *what = "the signal of the sampler";
    if ((failed = install_handler()) != 0) return failed;
    atomic_store(&bn_agent.active, true);
    *what = "timer_create";
    if ((failed = scan(true, true, &calm)) != 0) return failed;
    bn_agent_note_maps();
    *what = "pthread_create";
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&bn_agent.watcher, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void remove_handler(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, now;
    if (sigaction(bn_agent.signal, NULL, &now) == 0 && now.sa_sigaction == bn_agent_on_signal) {
        /* To ignore a signal throws away those that wait for a thread that blocks it. */
        (void)sigaction(bn_agent.signal, &ignore, NULL);
        (void)sigaction(bn_agent.signal, &bn_agent.before, NULL);
    }
}

static void release(void)
{
    munmap(bn_agent.slots,
           BN_AGENT_THREADS * sizeof *bn_agent.slots + BN_AGENT_TEXT_BYTES + BN_AGENT_READ_BYTES);
    bn_agent.slots = NULL;
    bn_agent.log = NULL;
}

int bn_agent_begin(struct bn_agent_log *log, bool (*unread)(void), const char **what)
{
    size_t n_slots = BN_AGENT_THREADS * sizeof *bn_agent.slots;
    if (bn_agent.log != NULL) {
        *what = "a second recording of the same process";
        return EBUSY;
    }
    *what = "mmap";
    void *memory = mmap(NULL, n_slots + BN_AGENT_TEXT_BYTES + BN_AGENT_READ_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return errno;
    bn_agent.slots = memory;
    bn_agent.text = (char *)memory + n_slots;
    bn_agent.bytes = bn_agent.text + BN_AGENT_TEXT_BYTES;
    bn_agent.log = log;
    bn_agent.unread = unread;
    pthread_mutex_init(&bn_agent.work, NULL);
    bn_agent.pid = (uint32_t)getpid();
    bn_agent.text_digest = bn_agent.watcher_ns = 0;
    bn_agent.code[0].n = bn_agent.code[1].n = 0;
    atomic_store(&bn_agent.maps_wanted, false);
    bn_agent.signal = 0;
    atomic_store(&bn_agent.stop, false);
    atomic_store(&bn_agent.n_slots, 0);
    atomic_store(&bn_agent.watcher_tid, 0);
    int failed = start(what);
    if (failed != 0) {
        if (atomic_load(&bn_agent.active)) {
            silence();
            remove_handler();
        }
        release();
        return failed;
    }
    atomic_fetch_add(&log->processes, 1);
    is_ours(false);
    return 0;
}

void bn_agent_end(void)
{
    if (bn_agent.log == NULL) return;
    is_ours(true);
    atomic_store(&bn_agent.stop, true);
    pthread_join(bn_agent.watcher, NULL);
    snapshot();
    silence();
    remove_handler();
    release();
}
