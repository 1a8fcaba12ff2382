/* SPDX-License-Identifier: MIT
 *
 * The signal handler of the agent (see agent.c). It calls only what is safe in a handler, takes no lock and
 * cannot fault, because stacks are read by process_vm_readv(2). It keeps what it knows of a thread in a
 * table indexed by the thread's id, so it touches no thread-local memory but errno and needs little stack.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "lab/kit/order.h"
#include "lab/sampler/agent_inside.h"

#define MAX_FRAME (1u << 20)

/* enum bn_sample_flag; recording.h belongs to the engine. */
#define CUT 1u
#define DUMP_CUT 2u

/* ---- the log ---- */

void *bn_agent_reserve(size_t n_bytes, uint32_t kind, uint64_t time_ns, int tid)
{
    struct bn_agent_log *log = bn_agent.log;
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
    record->pid = bn_agent.pid;
    record->tid = (uint32_t)tid;
    return record;
}

void bn_agent_commit(struct bn_agent_record *record)
{
    uint64_t at = (uint64_t)((char *)record - (char *)bn_agent.log);
    atomic_store_explicit(&record->mark, bn_agent_mark(at), memory_order_release);
}

/* ---- the handler: reading stacks ---- */

/* A stack has bytes between its variables, which the sanitizer would not let memcpy read. */
__attribute__((no_sanitize_address)) static void copy_stack(void *into, uint64_t address, size_t n)
{
    const volatile unsigned char *from = (const volatile unsigned char *)(uintptr_t)address;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)into)[i] = from[i];
}

/* Copies up to n bytes that lie at an address; returns how many could be read, from the front. */
static size_t read_memory(struct bn_agent_thread *slot, uint64_t address, void *into, size_t n)
{
    if ((atomic_load(&bn_agent.log->notes) & BN_AGENT_READ_DENIED) == 0) {
        struct iovec to = {.iov_base = into, .iov_len = n};
        struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = n};
        long got = syscall(SYS_process_vm_readv, (long)bn_agent.pid, &to, 1L, &from, 1L, 0L);
        if (got >= 0) return (size_t)got;
        if (errno == EFAULT) return 0;
        bn_agent_note(BN_AGENT_READ_DENIED);
    }
    uint64_t end = atomic_load(&slot->stack_to);
    if (address < atomic_load(&slot->stack_from) || address >= end) {
        atomic_store(&slot->asked, address);
        atomic_store(&bn_agent.maps_wanted, true);
        return 0;
    }
    if (n > end - address) n = end - address;
    copy_stack(into, address, n);
    return n;
}

/* A word of the stack. What is read is kept: the next frames are likely to lie there. */
static bool stack_word(struct bn_agent_thread *slot, uint64_t address, uint64_t *word)
{
    if (address < slot->window_at || address - slot->window_at + 8 > slot->window_bytes) {
        slot->window_at = address;
        slot->window_bytes = read_memory(slot, address, slot->window, BN_AGENT_WINDOW);
        if (slot->window_bytes < 8) return false;
    }
    memcpy(word, slot->window + (address - slot->window_at), 8);
    return true;
}

#define CODE_BEFORE 1u

struct place {
    uint64_t pc, sp, fp;
    unsigned char code[16]; /* from CODE_BEFORE bytes before pc; zeros where it cannot be read */
};

#if defined(__x86_64__)
static struct place place_of(const ucontext_t *context)
{
    const greg_t *r = context->uc_mcontext.gregs;
    return (struct place){.pc = (uint64_t)r[REG_RIP], .sp = (uint64_t)r[REG_RSP], .fp = (uint64_t)r[REG_RBP]};
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
static uint64_t frameless(const struct place *at)
{
    static const unsigned char FRAME[] = {0x55, 0x48, 0x89, 0xe5}, ENDBR[] = {0xf3, 0x0f, 0x1e, 0xfa};
    const unsigned char *here = at->code + CODE_BEFORE;
    if (here[0] == 0xc3 || memcmp(here, FRAME, sizeof FRAME) == 0) return at->sp;
    if (memcmp(here, ENDBR, sizeof ENDBR) == 0 && memcmp(here + 4, FRAME, sizeof FRAME) == 0) return at->sp;
    return memcmp(here - 1, FRAME, sizeof FRAME) == 0 ? at->sp + 8 : 0;
}
#elif defined(__aarch64__)
static struct place place_of(const ucontext_t *context)
{
    const mcontext_t *m = &context->uc_mcontext;
    return (struct place){.pc = m->pc, .sp = m->sp, .fp = m->regs[29]};
}

static void put_registers(uint64_t *out, const ucontext_t *context)
{
    const mcontext_t *m = &context->uc_mcontext;
    for (size_t i = 0; i < 31; i++)
        out[i] = m->regs[i];
    out[31] = m->sp;
    out[32] = m->pc;
}

static uint64_t frameless(const struct place *at)
{
    (void)at;
    return 0;
}
#else
#error "no registers are known for this architecture"
#endif

/* Follows frame pointers: each points to the caller's, and the return address is after it. */
static uint32_t walk(struct bn_agent_thread *slot, const struct place *at, uint32_t *flags)
{
    uint64_t fp = at->fp, low = at->sp, next, address;
    uint32_t n = 0;
    slot->window_bytes = 0;
    slot->chain[n++] = at->pc;
    uint64_t bare = frameless(at);
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

static void take_sample(struct bn_agent_thread *slot, int tid, uint64_t weight, const struct place *at,
                        const ucontext_t *context)
{
    uint32_t flags = 0, wanted = bn_agent.log->dump_bytes;
    uint32_t n = walk(slot, at, &flags);
    size_t n_bytes = sizeof(struct bn_agent_sample) + n * sizeof(uint64_t);
    if (wanted > 0) n_bytes += BN_AGENT_REGISTERS * sizeof(uint64_t) + wanted;
    struct bn_agent_sample *sample =
        bn_agent_reserve(n_bytes, BN_AGENT_SAMPLE, bn_agent_clock_ns(CLOCK_MONOTONIC), tid);
    if (sample == NULL) return;
    uint64_t *words = (uint64_t *)(sample + 1);
    memcpy(words, slot->chain, n * sizeof *words);
    sample->weight_ns = weight;
    sample->n_chain = n;
    if (wanted > 0) {
        put_registers(words + n, context);
        size_t got = read_memory(slot, at->sp, words + n + BN_AGENT_REGISTERS, wanted);
        sample->n_dump = (uint32_t)got;
        if (got == wanted) flags |= DUMP_CUT;
    }
    sample->flags = flags;
    bn_agent_commit(&sample->record);
}

struct bn_agent_thread *bn_agent_find(int tid)
{
    unsigned n = atomic_load(&bn_agent.n_slots);
    for (unsigned i = 0; i < n; i++)
        if (atomic_load_explicit(&bn_agent.slots[i].tid, memory_order_acquire) == tid)
            return &bn_agent.slots[i];
    return NULL;
}

void bn_agent_set_timer(struct bn_agent_thread *slot)
{
    uint64_t period = bn_agent.log->period_ns, x = slot->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    slot->random = x;
    period += period / 5 * (x >> 44) / (1u << 20) - period / 10;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(period / 1000000000u), .tv_nsec = (long)(period % 1000000000u)}};
    (void)timer_settime(slot->timer, 0, &when, NULL);
}

/* Whether code that runs lies outside what the maps were: something was loaded since. When the watcher
 * publishes twice meanwhile, the answer may be wrong, which costs one reading of the maps. */
static bool is_new_code(uint64_t pc)
{
    const struct bn_agent_code *code = &bn_agent.code[atomic_load(&bn_agent.code_turn)];
    size_t n = code->n, at;
    if (n == 0 || n > BN_AGENT_CODE) return false;
    BN_SEARCH(at, n, code->list[at].to <= pc);
    return at >= n || pc < code->list[at].from;
}

static void on_tick(int tid, const ucontext_t *context)
{
    struct bn_agent_thread *slot = bn_agent_find(tid);
    if (slot == NULL) return;
    struct place at = place_of(context);
    uint64_t now = bn_agent_clock_ns(bn_agent_is_wall() ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID),
             weight = now - slot->last_ns;
    slot->last_ns = now;
    if (!atomic_load(&slot->ours)) {
        if (is_new_code(at.pc)) atomic_store(&bn_agent.maps_wanted, true);
        (void)read_memory(slot, at.pc - CODE_BEFORE, at.code, sizeof at.code);
        take_sample(slot, tid, weight, &at, context);
    }
    bn_agent_set_timer(slot);
}

void bn_agent_on_signal(int signal, siginfo_t *info, void *context)
{
    int error = errno;
    (void)signal;
    atomic_fetch_add(&bn_agent.inside, 1);
    if (atomic_load(&bn_agent.active) && info->si_code == SI_TIMER) on_tick(bn_agent_thread_id(), context);
    atomic_fetch_sub(&bn_agent.inside, 1);
    errno = error;
}
