/* SPDX-License-Identifier: MIT
 *
 * See agent.h. Two parties: a signal handler that takes a sample of the thread that it interrupts, and a
 * thread, the watcher, which looks for new threads every 10 ms, gives each a timer, and notes which files are
 * mapped.
 *
 * The handler calls only what is safe in one, takes no lock, and cannot fault: stacks are read by
 * process_vm_readv(2). It keeps what it needs of a thread in a table that it searches by the thread's id, so
 * that it touches no thread-local memory but errno and needs little of the stack that it runs on.
 *
 * A timer's signal is a real-time one that nobody has a handler for: programs that profile themselves use
 * SIGPROF, and the interval timer can use no other. All signals are blocked while the handler runs, so that
 * no handler of the program can leave it by longjmp. Timers fire once and are set again by the handler, to a
 * period that varies by a tenth; so a slow handler cannot be overrun by its own timer.
 */
#define _GNU_SOURCE
#include "record/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define MAX_THREADS 4096u
#define MAX_FRAME (1u << 20)
#define WINDOW 2048u /* bytes of stack that are read at once */
#define SCAN_NS 10000000
#define SCANS_A_SNAPSHOT 5u
#define YOUNG 3u /* scans until a thread is believed to have its name */
#define TEXT_BYTES (1u << 20)
#define READ_BYTES 16384u

/* enum bn_sample_flag; recording.h belongs to the engine. */
#define CUT 1u
#define DUMP_CUT 2u

/* A thread. All but tid belongs to the watcher or, once the timer is set, to the handler in that thread. */
struct slot {
    _Atomic(int) tid; /* 0: free */
    bool seen, named, has_timer;
    uint32_t scans;
    timer_t timer;
    uint64_t since_ns;
    char name[16];
    uint64_t last_ns; /* of the clock that is weighed, at its last sample */
    uint64_t random;
    _Atomic(uint64_t) asked;                /* an address on its stack, which the watcher is to find */
    _Atomic(uint64_t) stack_from, stack_to; /* its answer */
    uint64_t chain[BN_AGENT_DEPTH];
    uint64_t window_at, window_bytes;
    unsigned char window[WINDOW];
};

/* There is one, since a process has one set of signal handlers. */
static struct {
    struct bn_agent_log *log;
    _Atomic(bool) active, stop;
    _Atomic(unsigned) inside; /* handlers that run now */
    _Atomic(unsigned) n_slots;
    _Atomic(int) watcher_tid;
    struct slot *slots; /* [MAX_THREADS] */
    char *text;         /* [TEXT_BYTES] of maps */
    char *bytes;        /* [READ_BYTES] read from /proc */
    uint64_t text_digest;
    uint64_t watcher_ns;
    pthread_t watcher;
    pthread_mutex_t work; /* held by who scans: the watcher, or who wants a snapshot */
    struct sigaction before;
    int signal;
    uint32_t pid;
    bool paused;
} agent;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

/* The clock of a thread's processor time, by the kernel's rule. */
static clockid_t thread_clock(int tid)
{
    return (clockid_t)((~(unsigned)tid << 3) | 6u);
}

static void note(enum bn_agent_note what)
{
    atomic_fetch_or(&agent.log->notes, (uint32_t)what);
}

/* ---- the log ---- */

static void *reserve(size_t n_bytes, uint32_t kind, uint64_t time_ns, int tid)
{
    struct bn_agent_log *log = agent.log;
    n_bytes = (n_bytes + 7) & ~(size_t)7;
    uint64_t at = atomic_fetch_add(&log->used, n_bytes);
    if (at > log->size || n_bytes > log->size - at) {
        atomic_fetch_add(&log->dropped, 1);
        return NULL;
    }
    struct bn_agent_record *record = (void *)((char *)log + at);
    record->n_bytes = (uint32_t)n_bytes;
    record->kind = kind;
    record->time_ns = time_ns;
    record->pid = agent.pid;
    record->tid = (uint32_t)tid;
    return record;
}

static void commit(struct bn_agent_record *record)
{
    uint64_t at = (uint64_t)((char *)record - (char *)agent.log);
    atomic_store_explicit(&record->mark, bn_agent_mark(at), memory_order_release);
}

/* ---- the handler: reading stacks ---- */

/* Copies up to n bytes that lie at an address; returns how many could be read, from the front. */
static size_t read_memory(struct slot *slot, uint64_t address, void *into, size_t n)
{
    if ((atomic_load(&agent.log->notes) & BN_AGENT_READ_DENIED) == 0) {
        struct iovec to = {.iov_base = into, .iov_len = n};
        struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = n};
        long got = syscall(SYS_process_vm_readv, (long)agent.pid, &to, 1L, &from, 1L, 0L);
        if (got >= 0) return (size_t)got;
        if (errno == EFAULT) return 0;
        note(BN_AGENT_READ_DENIED);
    }
    uint64_t end = atomic_load(&slot->stack_to);
    if (address < atomic_load(&slot->stack_from) || address >= end) {
        atomic_store(&slot->asked, address);
        return 0;
    }
    if (n > end - address) n = end - address;
    memcpy(into, (const void *)(uintptr_t)address, n);
    return n;
}

/* A word of the stack. What is read is kept: the next frames are likely to lie there. */
static bool stack_word(struct slot *slot, uint64_t address, uint64_t *word)
{
    if (address < slot->window_at || address - slot->window_at + 8 > slot->window_bytes) {
        slot->window_at = address;
        slot->window_bytes = read_memory(slot, address, slot->window, WINDOW);
        if (slot->window_bytes < 8) return false;
    }
    memcpy(word, slot->window + (address - slot->window_at), 8);
    return true;
}

struct place {
    uint64_t pc, sp, fp;
};

#if defined(__x86_64__)
static struct place place_of(const ucontext_t *context)
{
    const greg_t *r = context->uc_mcontext.gregs;
    return (struct place){(uint64_t)r[REG_RIP], (uint64_t)r[REG_RSP], (uint64_t)r[REG_RBP]};
}

static void put_registers(uint64_t *out, const ucontext_t *context)
{
    static const unsigned char ORDER[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                          REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                          REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    memset(out, 0, BN_AGENT_REGISTERS * sizeof *out);
    for (size_t i = 0; i < sizeof ORDER; i++)
        out[i] = (uint64_t)context->uc_mcontext.gregs[ORDER[i]];
}

/* Where the return address lies when the frame pointer is still, or again, the caller's; 0 when it is not so.
 * Three places of a function say so for certain: the first instructions, which make the frame (push %rbp;
 * mov %rsp,%rbp), and the return. */
static uint64_t frameless(struct slot *slot, const struct place *at)
{
    static const unsigned char FRAME[] = {0x55, 0x48, 0x89, 0xe5}, ENDBR[] = {0xf3, 0x0f, 0x1e, 0xfa};
    unsigned char code[12] = {0}; /* from the byte in front of the instruction */
    if ((atomic_load(&agent.log->notes) & BN_AGENT_READ_DENIED) != 0) return 0;
    size_t n = read_memory(slot, at->pc - 1, code, sizeof code);
    if (n < 2) return 0;
    if (code[1] == 0xc3) return at->sp;
    if (memcmp(code + 1, FRAME, sizeof FRAME) == 0) return at->sp;
    if (memcmp(code + 1, ENDBR, sizeof ENDBR) == 0 && memcmp(code + 5, FRAME, sizeof FRAME) == 0)
        return at->sp;
    return memcmp(code, FRAME, sizeof FRAME) == 0 ? at->sp + 8 : 0;
}
#elif defined(__aarch64__)
static struct place place_of(const ucontext_t *context)
{
    const mcontext_t *m = &context->uc_mcontext;
    return (struct place){m->pc, m->sp, m->regs[29]};
}

static void put_registers(uint64_t *out, const ucontext_t *context)
{
    const mcontext_t *m = &context->uc_mcontext;
    for (size_t i = 0; i < 31; i++)
        out[i] = m->regs[i];
    out[31] = m->sp;
    out[32] = m->pc;
}

static uint64_t frameless(struct slot *slot, const struct place *at)
{
    (void)slot;
    (void)at;
    return 0;
}
#else
#error "no registers are known for this architecture"
#endif

/* Follows frame pointers: each points to the caller's, behind which lies the return address. */
static uint32_t walk(struct slot *slot, const struct place *at, uint32_t *flags)
{
    uint64_t fp = at->fp, low = at->sp, next, address;
    uint32_t n = 0;
    slot->window_bytes = 0;
    slot->chain[n++] = at->pc;
    uint64_t bare = frameless(slot, at);
    if (bare != 0 && stack_word(slot, bare, &address) && address != 0) slot->chain[n++] = address;
    while ((fp & 7) == 0 && fp >= low && fp - low < MAX_FRAME) {
        if (!stack_word(slot, fp, &next) || !stack_word(slot, fp + 8, &address) || address == 0) break;
        if (n == BN_AGENT_DEPTH) {
            *flags |= CUT;
            break;
        }
        slot->chain[n++] = address;
        low = fp + 16;
        fp = next;
    }
    return n;
}

/* ---- the handler: a sample ---- */

static void take_sample(struct slot *slot, int tid, uint64_t weight, const ucontext_t *context)
{
    uint32_t flags = 0, wanted = agent.log->dump_bytes;
    struct place at = place_of(context);
    uint32_t n = walk(slot, &at, &flags);
    size_t n_bytes = sizeof(struct bn_agent_sample) + n * sizeof(uint64_t);
    if (wanted > 0) n_bytes += BN_AGENT_REGISTERS * sizeof(uint64_t) + wanted;
    struct bn_agent_sample *sample = reserve(n_bytes, BN_AGENT_SAMPLE, clock_ns(CLOCK_MONOTONIC), tid);
    if (sample == NULL) return;
    uint64_t *words = (uint64_t *)(sample + 1);
    memcpy(words, slot->chain, n * sizeof *words);
    sample->weight_ns = weight;
    sample->n_chain = n;
    if (wanted > 0) {
        put_registers(words + n, context);
        size_t got = read_memory(slot, at.sp, words + n + BN_AGENT_REGISTERS, wanted);
        sample->n_dump = (uint32_t)got;
        if (got == wanted) flags |= DUMP_CUT;
    }
    sample->flags = flags;
    commit(&sample->record);
}

static struct slot *find_slot(int tid)
{
    unsigned n = atomic_load(&agent.n_slots);
    for (unsigned i = 0; i < n; i++)
        if (atomic_load_explicit(&agent.slots[i].tid, memory_order_acquire) == tid) return &agent.slots[i];
    return NULL;
}

static void set_timer(struct slot *slot)
{
    uint64_t period = agent.log->period_ns, x = slot->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    slot->random = x;
    period += period / 5 * (x >> 44) / (1u << 20) - period / 10;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(period / 1000000000u), .tv_nsec = (long)(period % 1000000000u)}};
    (void)timer_settime(slot->timer, 0, &when, NULL);
}

static void on_tick(int tid, const ucontext_t *context)
{
    struct slot *slot = find_slot(tid);
    if (slot == NULL) return;
    bool wall = agent.log->wall != 0;
    uint64_t now = clock_ns(wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID), weight = now - slot->last_ns;
    /* A thread that slept has nothing to be weighed by, or too little yet. */
    if (wall || weight >= agent.log->period_ns / 2) {
        slot->last_ns = now;
        take_sample(slot, tid, weight, context);
    }
    if (slot->has_timer) set_timer(slot);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int error = errno;
    (void)signal;
    atomic_fetch_add(&agent.inside, 1);
    if (atomic_load(&agent.active) && (info->si_code == SI_TIMER || info->si_code == SI_KERNEL))
        on_tick(thread_id(), context);
    atomic_fetch_sub(&agent.inside, 1);
    errno = error;
}

/* ---- the watcher: files in /proc ---- */

static int open_proc(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* "/proc/self/task/TID/comm", without stdio. */
static void name_path(char *out, int tid)
{
    char digits[12];
    size_t n = 0;
    memcpy(out, "/proc/self/task/", 16);
    out += 16;
    for (unsigned rest = (unsigned)tid; n == 0 || rest > 0; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    while (n > 0)
        *out++ = digits[--n];
    memcpy(out, "/comm", 6);
}

static bool read_name(int tid, char name[16])
{
    char path[48];
    name_path(path, tid);
    int fd = open_proc(path);
    if (fd < 0) return false;
    memset(name, 0, 16);
    ssize_t got = read(fd, name, 15);
    close(fd);
    name[got > 0 ? got : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return got > 0;
}

static const char *take_hex(const char *text, uint64_t *out)
{
    *out = 0;
    for (;; text++) {
        char c = *text;
        if (c >= '0' && c <= '9')
            *out = *out * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *out = *out * 16 + (uint64_t)(c - 'a' + 10);
        else
            return text;
    }
}

/* Tells threads that asked where their stack lies. */
static void answer(uint64_t from, uint64_t to)
{
    unsigned n = atomic_load(&agent.n_slots);
    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = &agent.slots[i];
        uint64_t asked = atomic_load(&slot->asked);
        if (asked < from || asked >= to) continue;
        atomic_store(&slot->stack_to, 0);
        atomic_store(&slot->stack_from, from);
        atomic_store(&slot->stack_to, to);
        atomic_store(&slot->asked, 0);
    }
}

/* A line of maps, its end included: "7f..-7f.. r-xp ...". Those of executable memory are kept. */
static size_t take_line(const char *line, size_t n, size_t n_text)
{
    uint64_t from, to;
    const char *at = take_hex(line, &from);
    if (*at != '-') return n_text;
    at = take_hex(at + 1, &to);
    if (at - line + 4 > (ptrdiff_t)n || at[0] != ' ') return n_text;
    if (at[1] == 'r' && at[2] == 'w') answer(from, to);
    if (at[3] != 'x' || n > TEXT_BYTES - n_text) return n_text;
    memcpy(agent.text + n_text, line, n);
    return n_text + n;
}

static size_t read_maps(void)
{
    size_t n_text = 0, have = 0;
    int fd = open_proc("/proc/self/maps");
    if (fd < 0) return 0;
    for (;;) {
        ssize_t got = read(fd, agent.bytes + have, READ_BYTES - have);
        if (got <= 0) break;
        have += (size_t)got;
        char *line = agent.bytes, *end;
        while ((end = memchr(line, '\n', have - (size_t)(line - agent.bytes))) != NULL) {
            n_text = take_line(line, (size_t)(end + 1 - line), n_text);
            line = end + 1;
        }
        have -= (size_t)(line - agent.bytes);
        if (have == READ_BYTES) have = 0; /* no line is that long */
        memmove(agent.bytes, line, have);
    }
    close(fd);
    return n_text;
}

/* Into the log, when they are not as they were. */
static void note_maps(void)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC), digest = 0xcbf29ce484222325u;
    size_t n = read_maps();
    for (size_t i = 0; i < n; i++)
        digest = (digest ^ (unsigned char)agent.text[i]) * 0x100000001b3u;
    if (n == 0 || digest == agent.text_digest) return;
    struct bn_agent_maps *maps = reserve(sizeof *maps + n, BN_AGENT_MAPS, now, (int)agent.pid);
    if (maps == NULL) return;
    agent.text_digest = digest;
    maps->n_text = n;
    memcpy(maps + 1, agent.text, n);
    commit(&maps->record);
}

/* ---- the watcher: threads ---- */

static void log_name(struct slot *slot, uint64_t since_ns)
{
    struct bn_agent_name *name = reserve(sizeof *name, BN_AGENT_NAME, since_ns, atomic_load(&slot->tid));
    if (name == NULL) return;
    slot->named = true;
    memcpy(name->name, slot->name, sizeof name->name);
    commit(&name->record);
}

/* A thread gets its name soon after its start, mostly by itself: that one counts from the start on. */
static void note_name(struct slot *slot, bool last)
{
    char name[16];
    int tid = atomic_load(&slot->tid);
    bool is_young = slot->scans <= YOUNG;
    if (!is_young && !last && slot->scans % 16 != 0) return;
    bool changed = read_name(tid, name) && memcmp(name, slot->name, sizeof name) != 0;
    if (changed) memcpy(slot->name, name, sizeof name);
    if (!slot->named && (last || slot->scans == YOUNG || tid == (int)agent.pid))
        log_name(slot, slot->since_ns);
    else if (slot->named && changed)
        log_name(slot, clock_ns(CLOCK_MONOTONIC));
}

/* 0 or an errno. existed: before the recording. */
static int add_thread(int tid, bool existed)
{
    struct slot *slot = NULL;
    unsigned n = atomic_load(&agent.n_slots), i = 0;
    while (i < n && atomic_load(&agent.slots[i].tid) != 0)
        i++;
    if (i == MAX_THREADS) {
        note(BN_AGENT_THREADS_UNSEEN);
        return 0;
    }
    slot = &agent.slots[i];
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    slot->since_ns = now;
    slot->random = (uint64_t)tid * 0x9e3779b97f4a7c15u + 1;
    slot->scans = 0;
    slot->seen = true;
    slot->named = slot->has_timer = false;
    memset(slot->name, 0, sizeof slot->name);
    slot->last_ns = agent.log->wall != 0 ? now : existed ? clock_ns(thread_clock(tid)) : 0;
    atomic_store(&slot->asked, 0);
    atomic_store(&slot->stack_to, 0);
    if (agent.log->clock != BN_AGENT_ITIMER) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = agent.signal};
        event.sigev_notify_thread_id = tid;
        bool monotonic = agent.log->clock == BN_AGENT_MONOTONIC;
        if (timer_create(monotonic ? CLOCK_MONOTONIC : thread_clock(tid), &event, &slot->timer) != 0)
            return errno;
        slot->has_timer = true;
    }
    if (i == n) atomic_store(&agent.n_slots, n + 1);
    atomic_store_explicit(&slot->tid, tid, memory_order_release);
    if (slot->has_timer) set_timer(slot);
    return 0;
}

static void remove_thread(struct slot *slot)
{
    if (!slot->named && slot->name[0] != '\0') log_name(slot, slot->since_ns);
    if (slot->has_timer) timer_delete(slot->timer);
    slot->has_timer = false;
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
        note(BN_AGENT_THREADS_UNSEEN);
        struct slot *first = find_slot((int)agent.pid);
        if (first == NULL) return add_thread((int)agent.pid, existed);
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
            if (tid == 0 || tid == atomic_load(&agent.watcher_tid)) continue;
            struct slot *slot = find_slot(tid);
            if (slot != NULL) slot->seen = true;
            int error = slot != NULL ? 0 : add_thread(tid, existed);
            if (failed == 0) failed = error;
        }
    }
    close(fd);
    return failed;
}

static int scan(bool existed)
{
    unsigned n = atomic_load(&agent.n_slots);
    for (unsigned i = 0; i < n; i++)
        agent.slots[i].seen = false;
    int failed = meet_threads(existed);
    n = atomic_load(&agent.n_slots);
    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = &agent.slots[i];
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

static void run_interval_timer(bool on)
{
    uint64_t us = (agent.log->period_ns + 999) / 1000;
    struct timeval period = {.tv_sec = (time_t)(us / 1000000u), .tv_usec = (suseconds_t)(us % 1000000u)};
    struct itimerval timer = {0};
    if (on) timer.it_interval = timer.it_value = period;
    (void)setitimer(ITIMER_PROF, &timer, NULL);
}

/* Whether the program uses for itself what we use. */
static bool is_taken(void)
{
    struct sigaction now;
    struct itimerval timer;
    if (sigaction(agent.signal, NULL, &now) == 0 && now.sa_sigaction != on_signal) return true;
    if (agent.log->clock != BN_AGENT_ITIMER || agent.paused) return false;
    uint64_t us = (agent.log->period_ns + 999) / 1000;
    return getitimer(ITIMER_PROF, &timer) == 0 &&
           (uint64_t)timer.it_interval.tv_sec * 1000000u + (uint64_t)timer.it_interval.tv_usec < us;
}

static void account(void)
{
    uint64_t now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_fetch_add(&agent.log->agent_ns, now - agent.watcher_ns);
    agent.watcher_ns = now;
}

static void *watch(void *unused)
{
    struct timespec pause = {.tv_nsec = SCAN_NS};
    (void)unused;
    atomic_store(&agent.watcher_tid, thread_id());
    (void)prctl(PR_SET_NAME, "bn-sampler");
    for (unsigned round = 1; !atomic_load(&agent.stop); round++) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        pthread_mutex_lock(&agent.work);
        if (scan(false) != 0) note(BN_AGENT_TIMER_REFUSED);
        if (round % SCANS_A_SNAPSHOT == 0 || (atomic_load(&agent.log->notes) & BN_AGENT_READ_DENIED) != 0)
            note_maps();
        if (round == 1 && agent.log->clock == BN_AGENT_ITIMER && agent.log->late != 0 && !agent.paused)
            run_interval_timer(true);
        else if (is_taken())
            note(BN_AGENT_SIGNAL_TAKEN);
        account();
        pthread_mutex_unlock(&agent.work);
    }
    return NULL;
}

void bn_agent_snapshot(void)
{
    if (agent.log == NULL) return;
    pthread_mutex_lock(&agent.work);
    note_maps();
    unsigned n = atomic_load(&agent.n_slots);
    for (unsigned i = 0; i < n; i++)
        if (atomic_load(&agent.slots[i].tid) != 0) note_name(&agent.slots[i], true);
    pthread_mutex_unlock(&agent.work);
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
    agent.signal = SIGPROF;
    if (agent.log->clock != BN_AGENT_ITIMER)
        for (agent.signal = SIGRTMAX - 1; agent.signal > SIGRTMIN && has_handler(agent.signal);)
            agent.signal--;
    if (has_handler(agent.signal)) return EBUSY;
    return sigaction(agent.signal, &ours, &agent.before) == 0 ? 0 : errno;
}

/* What belongs to the table, the buffers and the watcher's thread. */
static int start(const char **what)
{
    sigset_t all, before;
    int failed;
    *what = "the signal of the sampler";
    if ((failed = install_handler()) != 0) return failed;
    atomic_store(&agent.active, true);
    *what = "timer_create";
    if ((failed = scan(true)) != 0) return failed;
    if (agent.log->clock == BN_AGENT_ITIMER && agent.log->late == 0) run_interval_timer(true);
    note_maps();
    *what = "pthread_create";
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&agent.watcher, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* No signal of ours comes any more, and no handler runs, when this is done. */
static void silence(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, now;
    atomic_store(&agent.active, false);
    while (atomic_load(&agent.inside) > 0)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 100000}, NULL);
    if (agent.log->clock == BN_AGENT_ITIMER && !is_taken()) run_interval_timer(false);
    unsigned n = atomic_load(&agent.n_slots);
    for (unsigned i = 0; i < n; i++)
        if (atomic_load(&agent.slots[i].tid) != 0) remove_thread(&agent.slots[i]);
    if (sigaction(agent.signal, NULL, &now) == 0 && now.sa_sigaction == on_signal) {
        /* To ignore a signal throws away those that wait for a thread that blocks it. */
        (void)sigaction(agent.signal, &ignore, NULL);
        (void)sigaction(agent.signal, &agent.before, NULL);
    }
}

static void release(void)
{
    munmap(agent.slots, MAX_THREADS * sizeof *agent.slots + TEXT_BYTES + READ_BYTES);
    agent.slots = NULL;
    agent.log = NULL;
}

int bn_agent_begin(struct bn_agent_log *log, const char **what)
{
    size_t n_slots = MAX_THREADS * sizeof *agent.slots;
    if (agent.log != NULL) {
        *what = "a second recording of the same process";
        return EBUSY;
    }
    *what = "mmap";
    void *memory = mmap(NULL, n_slots + TEXT_BYTES + READ_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return errno;
    agent.slots = memory;
    agent.text = (char *)memory + n_slots;
    agent.bytes = agent.text + TEXT_BYTES;
    agent.log = log;
    pthread_mutex_init(&agent.work, NULL);
    agent.pid = (uint32_t)getpid();
    agent.text_digest = agent.watcher_ns = 0;
    agent.paused = false;
    agent.signal = 0;
    atomic_store(&agent.stop, false);
    atomic_store(&agent.n_slots, 0);
    atomic_store(&agent.watcher_tid, 0);
    int failed = start(what);
    if (failed != 0) {
        if (atomic_load(&agent.active)) silence();
        release();
        return failed;
    }
    atomic_fetch_add(&log->processes, 1);
    return 0;
}

void bn_agent_end(void)
{
    if (agent.log == NULL) return;
    atomic_store(&agent.stop, true);
    pthread_join(agent.watcher, NULL);
    bn_agent_snapshot();
    silence();
    release();
}

void bn_agent_forked(void)
{
    struct bn_agent_log *log = agent.log;
    const char *what;
    if (log == NULL) return;
    /* The other threads, the watcher and the timers stayed behind; of the handler nothing runs here. */
    atomic_store(&agent.inside, 0);
    atomic_store(&agent.active, false);
    (void)sigaction(agent.signal, &agent.before, NULL);
    release();
    (void)bn_agent_begin(log, &what);
}

void bn_agent_pause(bool pause)
{
    if (agent.log == NULL || agent.log->clock != BN_AGENT_ITIMER) return;
    agent.paused = pause;
    run_interval_timer(!pause);
}
