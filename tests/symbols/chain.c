/* SPDX-License-Identifier: MIT
 *
 * See chain.h. It is compiled with -fomit-frame-pointer and without calls that become jumps.
 */
#define _GNU_SOURCE
#include "tests/symbols/chain.h"

#include <string.h>
#include <ucontext.h>

#if defined __clang__
#define KEPT __attribute__((noinline))
#else
#define KEPT __attribute__((noinline, noclone))
#endif

/* It is compiled without sanitizers; they do not like a call of memcpy that does this either. */
static void take_registers(struct capture *c, const ucontext_t *u)
{
#if defined __x86_64__
    static const int ORDER[17] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                  REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (int i = 0; i < 17; i++)
        c->registers[i] = (uint64_t)u->uc_mcontext.gregs[ORDER[i]];
    uintptr_t sp = c->registers[7];
#elif defined __aarch64__
    for (int i = 0; i < 31; i++)
        c->registers[i] = u->uc_mcontext.regs[i];
    c->registers[31] = u->uc_mcontext.sp;
    c->registers[32] = u->uc_mcontext.pc;
    uintptr_t sp = c->registers[31];
#endif
    size_t n = (uintptr_t)c->stack_end - sp;
    c->n_dump = (n < sizeof c->dump ? n : sizeof c->dump) & ~(size_t)7;
    const volatile char *stack = (const volatile char *)sp;
    for (size_t i = 0; i < c->n_dump; i++)
        c->dump[i] = stack[i];
}

KEPT void chain_capture(struct capture *capture)
{
    ucontext_t context;
    if (getcontext(&context) == 0) take_registers(capture, &context);
}

static KEPT int chain_4(struct capture *capture, int depth)
{
    char room[40];
    memset(room, depth, sizeof room);
    if (capture->inside != NULL)
        capture->inside(capture);
    else
        chain_capture(capture);
    return room[depth % 40] + 1;
}

static KEPT int chain_3(struct capture *capture, int depth)
{
    return chain_4(capture, depth + 1) * 3 + depth;
}

static KEPT int chain_2(struct capture *capture, int depth)
{
    volatile char room[1000];
    room[depth] = 1;
    int below = depth > 0 ? chain_2(capture, depth - 1) : chain_3(capture, depth);
    return below + room[depth];
}

KEPT int chain_1(struct capture *capture, int depth)
{
    return chain_2(capture, depth) - 1;
}
