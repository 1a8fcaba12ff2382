/* SPDX-License-Identifier: MIT
 *
 * The processor's flags (cpuid), the registers that the operating system saves (xgetbv), and the permission to
 * use tile registers (arch_prctl), which is asked for once in a process and never given back.
 */
#define _GNU_SOURCE
#include "kernels/cpu.h"

#include <stddef.h>
#include <string.h>

#define NO_FLAG "this CPU does not have the instruction set"
#define NOT_SAVED "the operating system does not save the registers of the instruction set"
#define REFUSED "the operating system refused the tile registers of the instruction set"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdatomic.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Bits of XCR0. */
#define SAVES_YMM 0x06u          /* xmm, ymm */
#define SAVES_ZMM 0xE6u          /* and masks, both halves of zmm */
#define SAVES_TILES 0x60000u     /* their configuration, their data */
#define FLAG_AMX_TILE (1u << 24) /* of leaf 7, edx */
#define FLAG_AMX_INT8 (1u << 25)

static const char *lacks_avx2(const struct bn_cpu *cpu)
{
    uint32_t one = bit_AVX | bit_FMA | bit_F16C;
    if ((cpu->cpuid(1, 0).ecx & one) != one || (cpu->cpuid(7, 0).ebx & bit_AVX2) == 0) return NO_FLAG;
    return (cpu->xcr0() & SAVES_YMM) == SAVES_YMM ? NULL : NOT_SAVED;
}

static const char *lacks_avxvnni(const struct bn_cpu *cpu)
{
    if (cpu->cpuid(7, 0).eax < 1 || (cpu->cpuid(7, 1).eax & 1u << 4) == 0) return NO_FLAG;
    return lacks_avx2(cpu);
}

static const char *lacks_avx512vnni(const struct bn_cpu *cpu)
{
    uint32_t seven = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    struct bn_cpuid has = cpu->cpuid(7, 0);
    if ((has.ebx & seven) != seven || (has.ecx & bit_AVX512VNNI) == 0) return NO_FLAG;
    const char *lacks = lacks_avx2(cpu);
    return lacks != NULL || (cpu->xcr0() & SAVES_ZMM) == SAVES_ZMM ? lacks : NOT_SAVED;
}

static const char *lacks_avx512vbmi(const struct bn_cpu *cpu)
{
    return (cpu->cpuid(7, 0).ecx & bit_AVX512VBMI) == 0 ? NO_FLAG : lacks_avx512vnni(cpu);
}

static const char *lacks_amx(const struct bn_cpu *cpu)
{
    uint32_t seven = FLAG_AMX_TILE | FLAG_AMX_INT8;
    if ((cpu->cpuid(7, 0).edx & seven) != seven) return NO_FLAG;
    const char *lacks = lacks_avx512vbmi(cpu);
    if (lacks != NULL) return lacks;
    if ((cpu->xcr0() & SAVES_TILES) != SAVES_TILES) return NOT_SAVED;
    return cpu->permit_tiles() ? NULL : REFUSED;
}

static struct bn_cpuid cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct bn_cpuid r = {0};
    if ((uint32_t)__get_cpuid_max(0, NULL) >= leaf) __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
    return r;
}

static uint32_t xcr0(void)
{
    if (!(cpuid(1, 0).ecx & bit_OSXSAVE)) return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM, which headers before Linux 5.16 do not have */
#define TILE_DATA 18

static bool permit_tiles(void)
{
    static _Atomic(int) answer; /* 0: not asked for yet; 1: granted; 2: refused */
    int known = atomic_load(&answer);
    if (known != 0) return known == 1;
#if defined(__linux__)
    bool granted = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    bool granted = false;
#endif
    atomic_store(&answer, granted ? 1 : 2);
    return granted;
}

const struct bn_cpu bn_cpu_here = {cpuid, xcr0, permit_tiles};

#elif defined(__aarch64__)

#if defined(__linux__)
#include <sys/auxv.h>
#endif

/* The baseline of the architecture, except for the dot product of bytes. */
static const char *lacks_neon(const struct bn_cpu *cpu)
{
    (void)cpu;
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & 1ul << 20) != 0 ? NULL : NO_FLAG; /* HWCAP_ASIMDDP */
#else
    return NULL;
#endif
}

const struct bn_cpu bn_cpu_here = {0};

#else

const struct bn_cpu bn_cpu_here = {0};

#endif

static const char *lacks_nothing(const struct bn_cpu *cpu)
{
    (void)cpu;
    return NULL;
}

const char *bn_cpu_lacks(const struct bn_cpu *cpu, const char *isa)
{
    static const struct {
        const char *isa;
        const char *(*lacks)(const struct bn_cpu *cpu);
    } SETS[] = {
        {"ref", lacks_nothing},
#if defined(__x86_64__)
        {"avx2", lacks_avx2},
        {"avxvnni", lacks_avxvnni},
        {"avx512vnni", lacks_avx512vnni},
        {"avx512vbmi", lacks_avx512vbmi},
        {"amx", lacks_amx},
#elif defined(__aarch64__)
        {"neon", lacks_neon},
#endif
    };
    for (size_t i = 0; i < sizeof SETS / sizeof SETS[0]; i++)
        if (strcmp(SETS[i].isa, isa) == 0) return SETS[i].lacks(cpu);
    return NO_FLAG;
}
