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

/* What a set needs besides all that the set below it does: flags of leaf 1 (ecx), of leaf 7 (ebx, ecx, edx), and of its
 * subleaf 1 (eax), registers that are saved, and tiles, which are asked for last. */
static const struct set {
    const char *isa, *below;
    uint32_t one, seven_b, seven_c, seven_d, more, saved;
    bool tiles;
} SETS[] = {
    {"avx2", "ref", .one = bit_AVX | bit_FMA | bit_F16C, .seven_b = bit_AVX2, .saved = SAVES_YMM},
    {"avxvnni", "avx2", .more = 1u << 4},
    {"avx512vnni", "avx2", .seven_b = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ,
     .seven_c = bit_AVX512VNNI, .saved = SAVES_ZMM},
    {"avx512vbmi", "avx512vnni", .seven_c = bit_AVX512VBMI},
    {"amx", "avx512vbmi", .seven_d = FLAG_AMX_TILE | FLAG_AMX_INT8, .saved = SAVES_TILES, .tiles = true},
};

static const char *lacks(const struct bn_cpu *cpu, const char *isa)
{
    const struct set *s = SETS, *end = SETS + sizeof SETS / sizeof SETS[0];
    while (s < end && strcmp(s->isa, isa) != 0)
        s++;
    if (s == end) return NO_FLAG;
    struct bn_cpuid one = cpu->cpuid(1, 0), seven = cpu->cpuid(7, 0), more = {0};
    if (seven.eax >= 1) more = cpu->cpuid(7, 1);
    if ((s->one & ~one.ecx) != 0 || (s->seven_b & ~seven.ebx) != 0 || (s->seven_c & ~seven.ecx) != 0 ||
        (s->seven_d & ~seven.edx) != 0 || (s->more & ~more.eax) != 0)
        return NO_FLAG;
    const char *below = bn_cpu_lacks(cpu, s->below);
    if (below != NULL) return below;
    if ((cpu->xcr0() & s->saved) != s->saved) return NOT_SAVED;
    return !s->tiles || cpu->permit_tiles() ? NULL : REFUSED;
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
static const char *lacks(const struct bn_cpu *cpu, const char *isa)
{
    (void)cpu;
    if (strcmp(isa, "neon") != 0) return NO_FLAG;
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & 1ul << 20) != 0 ? NULL : NO_FLAG; /* HWCAP_ASIMDDP */
#else
    return NULL;
#endif
}

const struct bn_cpu bn_cpu_here = {0};

#else

static const char *lacks(const struct bn_cpu *cpu, const char *isa)
{
    (void)cpu, (void)isa;
    return NO_FLAG;
}

const struct bn_cpu bn_cpu_here = {0};

#endif

const char *bn_cpu_lacks(const struct bn_cpu *cpu, const char *isa)
{
    return strcmp(isa, "ref") == 0 ? NULL : lacks(cpu, isa);
}
