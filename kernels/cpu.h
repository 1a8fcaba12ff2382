/* SPDX-License-Identifier: MIT
 *
 * cpu.h - which instruction sets this machine can run. A set needs the flags of the processor and, for its
 * registers, the operating system: one that does not save them on a task switch leaves their bits in XCR0
 * clear. Linux saves the tile registers of AMX only for processes that asked for them.
 *
 * The questions are functions in a struct, so that a test can answer them for a machine of its own.
 */
#ifndef BN_KERNELS_CPU_H
#define BN_KERNELS_CPU_H

#include <stdbool.h>
#include <stdint.h>

struct bn_cpuid {
    uint32_t eax, ebx, ecx, edx;
};

struct bn_cpu {
    /* All zero when the processor does not have the leaf. */
    struct bn_cpuid (*cpuid)(uint32_t leaf, uint32_t subleaf);
    /* The registers that the operating system saves. */
    uint32_t (*xcr0)(void);
    /* Asks the operating system for the tile registers; every call gives the same answer. */
    bool (*permit_tiles)(void);
};

/* The machine that this runs on. */
extern const struct bn_cpu bn_cpu_here;

/* What prevents the use of an instruction set, as the first part of a message that ends with its name: "this CPU
 * does not have the instruction set". NULL when the set can be used. */
const char *bn_cpu_lacks(const struct bn_cpu *cpu, const char *isa);
/* The fastest table of this build that the machine can run. */
struct bn_kernels;
const struct bn_kernels *bn_kernels_fastest(const struct bn_cpu *cpu);

#endif
