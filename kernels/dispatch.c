/* SPDX-License-Identifier: MIT
 *
 * The tables of this build, made from kernels_table.h, and the choice of one that this machine can run.
 */
#include "kernels/cpu.h"
#include "kernels/kernels_table.h"

#include <string.h>

#define SLOT(slot, number, isa) .slot = bn_##slot##_##isa, .name[BN_KERNEL_##number] = #slot "_" #isa,
#define IN_REF(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) SLOT(slot, number, ref)

const struct bn_kernels bn_kernels_ref = {.isa = "ref", BN_KERNEL_TABLE(IN_REF)};

#define ONE(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) +1
_Static_assert(0 BN_KERNEL_TABLE(ONE) == BN_KERNEL_COUNT, "a slot is missing in BN_KERNEL_TABLE");

#if defined(__x86_64__)

#define IN_AVX2(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) SLOT(slot, number, avx2)
#define IN_AVXVNNI(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) SLOT(slot, number, avxvnni)
#define IN_AVX512VNNI(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) \
    SLOT(slot, number, avx512vnni)
#define IN_AVX512VBMI(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) \
    SLOT(slot, number, avx512vbmi)
#define IN_AMX(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) SLOT(slot, number, amx)

static const struct bn_kernels avx2_table = {.isa = "avx2", BN_KERNEL_TABLE(IN_AVX2)};
static const struct bn_kernels avxvnni_table = {.isa = "avxvnni", BN_KERNEL_TABLE(IN_AVXVNNI)};
static const struct bn_kernels avx512vnni_table = {.isa = "avx512vnni", BN_KERNEL_TABLE(IN_AVX512VNNI)};
static const struct bn_kernels avx512vbmi_table = {.isa = "avx512vbmi", BN_KERNEL_TABLE(IN_AVX512VBMI)};
static const struct bn_kernels amx_table = {.isa = "amx", BN_KERNEL_TABLE(IN_AMX)};

#elif defined(__aarch64__)

#define IN_NEON(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) SLOT(slot, number, neon)

static const struct bn_kernels neon_table = {.isa = "neon", BN_KERNEL_TABLE(IN_NEON)};

#endif

/* Slowest first. */
static const struct bn_kernels *const BUILT[] = {
    &bn_kernels_ref,
#if defined(__x86_64__)
    &avx2_table,     &avxvnni_table, &avx512vnni_table, &avx512vbmi_table, &amx_table,
#elif defined(__aarch64__)
    &neon_table,
#endif
};

#define N_BUILT (sizeof BUILT / sizeof BUILT[0])

const struct bn_kernels *bn_kernels_built(size_t i)
{
    return i < N_BUILT ? BUILT[i] : NULL;
}

const char *bn_kernels_lacks(const struct bn_kernels *kernels)
{
    return bn_cpu_lacks(&bn_cpu_here, kernels->isa);
}

bool bn_kernels_supported(const struct bn_kernels *kernels)
{
    return bn_kernels_lacks(kernels) == NULL;
}

const struct bn_kernels *bn_kernels_fastest(const struct bn_cpu *cpu)
{
    size_t i = N_BUILT - 1;
    while (bn_cpu_lacks(cpu, BUILT[i]->isa) != NULL)
        i--; /* the reference lacks nothing */
    return BUILT[i];
}

const struct bn_kernels *bn_kernels_find(const char *isa)
{
    if (strcmp(isa, "auto") == 0) return bn_kernels_fastest(&bn_cpu_here);
    for (size_t i = 0; i < N_BUILT; i++)
        if (strcmp(BUILT[i]->isa, isa) == 0) return BUILT[i];
    return NULL;
}

#define SLOT_NAME(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) \
    [BN_KERNEL_##number] = #slot,

const char *bn_kernel_slot_name(enum bn_kernel slot)
{
    static const char *const NAME[BN_KERNEL_COUNT] = {BN_KERNEL_TABLE(SLOT_NAME)};
    return (unsigned)slot < BN_KERNEL_COUNT ? NAME[slot] : NULL;
}

#define SLOT_NAMES(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) \
    {BN_KERNEL_##number, #slot},

bool bn_kernel_is(const char *name, enum bn_kernel slot)
{
    static const struct {
        enum bn_kernel slot;
        const char *name;
    } ALL[] = {BN_KERNEL_TABLE(SLOT_NAMES) BN_KERNEL_RETIRED(SLOT_NAMES)};
    for (size_t i = 0; i < sizeof ALL / sizeof ALL[0]; i++) {
        size_t n = strlen(ALL[i].name);
        if (ALL[i].slot == slot && strncmp(name, ALL[i].name, n) == 0 && name[n] == '_') return true;
    }
    return false;
}

#define SLOT_CODE(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) \
    case BN_KERNEL_##number:                                                      \
        return (bn_kernel_code)kernels->slot;

bn_kernel_code bn_kernels_code(const struct bn_kernels *kernels, enum bn_kernel slot)
{
    switch (slot) {
        BN_KERNEL_TABLE(SLOT_CODE)
    case BN_KERNEL_COUNT:
        break;
    }
    return NULL;
}

#define NAMES(set) [BN_SET_##set] = {BN_KERNEL_TABLE(NAME_##set) BN_KERNEL_RETIRED(NAME_##set)}
#define N_NAMES (BN_KERNEL_COUNT + BN_KERNEL_RETIRED(ONE))
#define NAME_ref(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) #slot "_ref",
#define NAME_avx2(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) #slot "_" #avx2,
#define NAME_avxvnni(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) #slot "_" #avxvnni,
#define NAME_avx512vnni(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) #slot "_" #avx512vnni,
#define NAME_avx512vbmi(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) #slot "_" #avx512vbmi,
#define NAME_amx(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) #slot "_" #amx,
#define NAME_neon(slot, number, avx2, avxvnni, avx512vnni, avx512vbmi, amx, neon) #slot "_" #neon,

enum {
    BN_SET_ref,
    BN_SET_avx2,
    BN_SET_avxvnni,
    BN_SET_avx512vnni,
    BN_SET_avx512vbmi,
    BN_SET_amx,
    BN_SET_neon,
    N_SETS
};

static size_t find_set(const char *isa)
{
    static const char *const SETS[N_SETS] = {"ref",        "avx2", "avxvnni", "avx512vnni",
                                             "avx512vbmi", "amx",  "neon"};
    size_t i = 0;
    while (i < N_SETS && strcmp(SETS[i], isa) != 0)
        i++;
    return i;
}

bool bn_kernels_is_set(const char *isa)
{
    return find_set(isa) < N_SETS;
}

bool bn_kernels_set_has(const char *isa, const char *name)
{
    static const char *const TABLE[N_SETS][N_NAMES] = {NAMES(ref),        NAMES(avx2),       NAMES(avxvnni),
                                                       NAMES(avx512vnni), NAMES(avx512vbmi), NAMES(amx),
                                                       NAMES(neon)};
    size_t set = find_set(isa);
    for (size_t i = 0; i < N_NAMES && set < N_SETS; i++)
        if (strcmp(TABLE[set][i], name) == 0) return true;
    return false;
}
