/* SPDX-License-Identifier: MIT
 *
 * Tile instructions on an x86-64 processor that has AVX-512 and not AMX: it refuses them with SIGILL, whose handler
 * decodes the instruction and does the same with tiles in plain C. So the machine code of the AMX kernels runs on such
 * machines too, slowly. Encodings are those of Intel's manual, volume 2: VEX.128, map 0F38, W0.
 */
#define _GNU_SOURCE
#include "checkkern.h"

#include <string.h>

#if defined(__x86_64__) && defined(__linux__)

#include <ucontext.h>

#include "tiles.h"

enum prefix { NONE = 0, F3 = 2, F2 = 3 };

struct decoded {
    enum prefix prefix;
    uint8_t opcode, mod, reg, rm, vvvv;
    const uint8_t *address; /* of memory, without the index */
    size_t index;           /* its register, scaled: the distance of rows */
    const uint8_t *next;
};

static uint64_t register_of(const ucontext_t *context, unsigned number)
{
    static const int REGISTER[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                     REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)context->uc_mcontext.gregs[REGISTER[number]];
}

/* The operand in memory: a base register, a register that the SIB byte scales, a displacement. */
static void decode_memory(struct decoded *d, const ucontext_t *context, unsigned more_base,
                          unsigned more_index)
{
    int64_t displacement = 0;
    unsigned base = d->rm, index = 4, scale = 0;
    if (d->rm == 4) {
        uint8_t sib = *d->next++;
        base = sib & 7u;
        index = (sib >> 3 & 7u) | more_index;
        scale = sib >> 6;
    }
    bool absolute = d->mod == 0 && base == 5; /* of the next instruction, or of nothing */
    if (d->mod == 1) {
        displacement = (int8_t)*d->next++;
    } else if (d->mod == 2 || absolute) {
        int32_t four;
        memcpy(&four, d->next, sizeof four);
        displacement = four;
        d->next += sizeof four;
    }
    uint64_t address = (uint64_t)displacement;
    if (!absolute) address += register_of(context, base | more_base);
    if (absolute && d->rm == 5) address += (uintptr_t)d->next;
    d->index = index == 4 ? 0 : register_of(context, index) << scale;
    d->address = (const uint8_t *)(uintptr_t)address;
}

/* False when it is not an instruction of the form that tiles have. */
static bool decode(struct decoded *d, const uint8_t *at, const ucontext_t *context)
{
    if (at[0] != 0xC4 || (at[1] & 0x1Fu) != 2 || (at[2] & 0x84u) != 0) return false;
    d->prefix = at[2] & 3u;
    d->vvvv = (uint8_t)(15u - (at[2] >> 3 & 15u));
    d->opcode = at[3];
    d->mod = at[4] >> 6;
    d->reg = at[4] >> 3 & 7u;
    d->rm = at[4] & 7u;
    d->next = at + 5;
    if (d->mod != 3) decode_memory(d, context, at[1] & 0x20u ? 0 : 8, at[1] & 0x40u ? 0 : 8);
    return true;
}

static bool execute(const struct decoded *d)
{
    bool memory = d->mod != 3, sib = memory && d->rm == 4;
    if (d->opcode == 0x49 && d->prefix == NONE && memory && d->reg == 0)
        tiles_configure(d->address);
    else if (d->opcode == 0x49 && d->prefix == NONE && !memory && d->reg == 0 && d->rm == 0)
        tiles_release();
    else if (d->opcode == 0x49 && d->prefix == F2 && !memory && d->rm == 0)
        tile_zero(d->reg);
    else if (d->opcode == 0x4B && d->prefix == F2 && sib)
        tile_load(d->reg, d->address, d->index);
    else if (d->opcode == 0x4B && d->prefix == F3 && sib)
        tile_store(d->reg, (void *)(uintptr_t)d->address, d->index);
    else if (d->opcode == 0x5E && d->prefix == F2 && !memory)
        tile_dot(d->reg, d->rm, d->vvvv);
    else
        return false;
    return true;
}

bool ck_emulate(void *machine)
{
    ucontext_t *context = machine;
    struct decoded d;
    const uint8_t *at = (const uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    if (!decode(&d, at, context) || !execute(&d)) return false;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)d.next;
    return true;
}

bool ck_is_emulated(const struct bn_kernels *kernels, enum bn_kernel slot)
{
    return strcmp(kernels->isa, "amx") == 0 && strstr(kernels->name[slot], "_amx") != NULL &&
           !bn_kernels_supported(kernels) && bn_kernels_supported(bn_kernels_find("avx512vnni"));
}

#else

bool ck_emulate(void *machine)
{
    (void)machine;
    return false;
}

bool ck_is_emulated(const struct bn_kernels *kernels, enum bn_kernel slot)
{
    (void)kernels, (void)slot;
    return false;
}

#endif
