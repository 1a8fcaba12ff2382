/* SPDX-License-Identifier: MIT
 *
 * The tables of this build, made from kernels_table.h, and the choice of one that this machine can run.
 */
#include "kernels/cpu.h"
#include "kernels/kernels_table.h"

#include <string.h>

/* A kernel replaces that of the set below. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

/* The slots as the lists name them. */
#define SLOT(slot, isa) SLOT_##slot,
enum { BN_SET_ref(SLOT, SLOT) N_NAMES };
_Static_assert(N_NAMES == BN_KERNEL_COUNT + 7 && (int)SLOT_columns_gemv == (int)BN_KERNEL_COLUMNS_GEMV,
               "the list of the reference");

#define CODE(slot, isa) .slot = bn_##slot##_##isa, .name[SLOT_##slot] = #slot "_" #isa,
#define NO_CODE(slot, isa)
#define TABLE(set)                                 \
    {                                              \
        .isa = #set, BN_TABLE_##set(CODE, NO_CODE) \
    }

const struct bn_kernels bn_kernels_ref = TABLE(ref);

/* Slowest first. */
#if defined(__x86_64__)
static const struct bn_kernels TABLES[] = {TABLE(avx2), TABLE(avxvnni), TABLE(avx512vnni), TABLE(avx512vbmi),
                                           TABLE(amx)};
#elif defined(__aarch64__)
static const struct bn_kernels TABLES[] = {TABLE(neon)};
#else
static const struct bn_kernels TABLES[] = {TABLE(ref)};
#endif

#define N_BUILT (1 + sizeof TABLES / sizeof TABLES[0])

static const struct bn_kernels *table_at(size_t i)
{
    return i == 0 ? &bn_kernels_ref : &TABLES[i - 1];
}

const struct bn_kernels *bn_kernels_built(size_t i)
{
    return i < N_BUILT ? table_at(i) : NULL;
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
    while (bn_cpu_lacks(cpu, table_at(i)->isa) != NULL)
        i--; /* the reference lacks nothing */
    return table_at(i);
}

const struct bn_kernels *bn_kernels_find(const char *isa)
{
    if (strcmp(isa, "auto") == 0) return bn_kernels_fastest(&bn_cpu_here);
    for (size_t i = 0; i < N_BUILT; i++)
        if (strcmp(table_at(i)->isa, isa) == 0) return table_at(i);
    return NULL;
}

#define SLOT_NAME(slot, isa) #slot,
static const char *const SLOTS[N_NAMES] = {BN_SET_ref(SLOT_NAME, SLOT_NAME)};

const char *bn_kernel_slot_name(enum bn_kernel slot)
{
    return (unsigned)slot < BN_KERNEL_COUNT ? SLOTS[slot] : NULL;
}

bool bn_kernel_is(const char *name, enum bn_kernel slot)
{
    /* What does the work of slots of earlier versions. */
    static const enum bn_kernel NOW[] = {
        BN_KERNEL_TERNARY_GEMV, BN_KERNEL_TERNARY_GEMM, BN_KERNEL_I8_GEMM,     BN_KERNEL_TERNARY_GEMV,
        BN_KERNEL_TERNARY_GEMM, BN_KERNEL_TERNARY_GEMV, BN_KERNEL_TERNARY_GEMM};
    for (unsigned i = 0; i < N_NAMES; i++) {
        size_t n = strlen(SLOTS[i]);
        enum bn_kernel now = i < BN_KERNEL_COUNT ? (enum bn_kernel)i : NOW[i - BN_KERNEL_COUNT];
        if (now == slot && strncmp(name, SLOTS[i], n) == 0 && name[n] == '_') return true;
    }
    return false;
}

#define SLOT_CODE(slot, isa) (bn_kernel_code) kernels->slot,

bn_kernel_code bn_kernels_code(const struct bn_kernels *kernels, enum bn_kernel slot)
{
    const bn_kernel_code codes[] = {BN_SET_ref(SLOT_CODE, NO_CODE)};
    return (unsigned)slot < BN_KERNEL_COUNT ? codes[slot] : NULL;
}

#define NAME(slot, isa) [SLOT_##slot] = #slot "_" #isa,
#define NAMES(set) {#set, {BN_TABLE_##set(NAME, NAME)}},

/* Of all sets, in this build or not; those of devices are last, and lack slots. */
static const struct {
    const char *isa, *names[N_NAMES];
} SETS[] = {BN_SETS(NAMES) BN_DEVICE_SETS(NAMES)};

#define ONE(set) +1
#define N_SETS (sizeof SETS / sizeof SETS[0])
#define N_ISAS (0 BN_SETS(ONE))

static size_t find_set(const char *isa)
{
    size_t i = 0;
    while (i < N_SETS && strcmp(SETS[i].isa, isa) != 0)
        i++;
    return i;
}

bool bn_kernels_is_set(const char *isa)
{
    return find_set(isa) < N_ISAS;
}

bool bn_kernels_set_has(const char *isa, const char *name)
{
    size_t set = find_set(isa);
    for (size_t i = 0; i < N_NAMES && set < N_SETS; i++)
        if (SETS[set].names[i] != NULL && strcmp(SETS[set].names[i], name) == 0) return true;
    return false;
}
