/* SPDX-License-Identifier: MIT
 *
 * checkkern - holds the kernels of every instruction set against the reference, bit for bit, and the
 * reference against computations of its own; prints digests to compare machines by.
 *
 * The design follows checkasm of x264 and dav1d.
 */
#include "checkkern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SEED 20261121u
#define FNV_START 0xCBF29CE484222325u
#define MAX_TABLES 16
#define QUICK_STEP 7u /* has no factor in common with the cycles of rows, tokens and sizes */

static const struct ck_slot *const FAMILY[] = {CK_TERNARY, CK_PACKED,  CK_GROUPED,  CK_FLOAT,
                                               CK_MATRIX,  CK_CONVERT, CK_RECURRENT};
static const char *const CLASS_NAME[] = {"shapes", "extremes", "layout"};

struct options {
    uint64_t seed;
    const char *isa, *function;
    bool quick, list, self_test, digest;
};

const struct ck_slot *ck_find(enum bn_kernel slot)
{
    for (size_t f = 0; f < COUNT(FAMILY); f++)
        for (const struct ck_slot *s = FAMILY[f]; s->setup != NULL; s++)
            if (s->slot == slot) return s;
    return NULL;
}

static void check_case(struct ck *ck, const struct ck_slot *slot, const struct ck_call *call, unsigned index,
                       struct ck_run *run)
{
    ck->why[0] = '\0';
    ck_restore(ck);
    bool ok = ck_invoke(ck, slot, run->kernels, call) && ck_untouched(ck) &&
              (run->truth ? slot->truth(ck, call) : ck_as_expected(ck));
    if (!ok) snprintf(run->why, sizeof run->why, "case %u (%s): %.180s", index, call->text, ck->why);
    if (run->digest != 0) run->digest = ck_digest(ck, run->digest);
    run->cases++;
}

bool ck_check(struct ck *ck, const struct ck_slot *slot, enum ck_class class, struct ck_run *runs, size_t n)
{
    bool ok = true;
    for (unsigned index = 0;; index += ck->quick ? QUICK_STEP : 1) {
        struct ck_call call = {.n = 1, .variant = slot->variant};
        ck_clear(ck);
        ck->guard_before = false;
        /* Inputs depend on nothing but the seed, the slot, the class and the number. */
        ck->rng = ck->seed + ((uint64_t)slot->slot << 48) + ((uint64_t) class << 40) + index * 0x10001u;
        if (!slot->setup(ck, &call, class, index)) break;
        ck_seal(ck);
        bool expected = ck_invoke(ck, slot, &bn_kernels_ref, &call);
        ck_keep_expected(ck);
        size_t n_left = 0;
        for (struct ck_run *run = runs; run < runs + n; run++) {
            if (!expected)
                snprintf(run->why, sizeof run->why, "case %u: the reference: %.180s", index, ck->why);
            if (run->why[0] == '\0' && (!run->seldom || index % QUICK_STEP == 0))
                check_case(ck, slot, &call, index, run);
            n_left += run->why[0] == '\0';
        }
        if (n_left == 0) break;
    }
    for (struct ck_run *run = runs; run < runs + n; run++)
        ok = ok && run->cases > 0 && run->why[0] == '\0';
    return ok;
}

static bool wanted(const struct options *options, const struct ck_slot *slot)
{
    return options->function == NULL || strstr(bn_kernel_slot_name(slot->slot), options->function) != NULL;
}

/* The tables of this build, then that of tiles in plain C. */
static const struct bn_kernels *table(size_t i)
{
    const struct bn_kernels *built = bn_kernels_built(i);
    return built != NULL ? built : i == 0 || bn_kernels_built(i - 1) != NULL ? ck_tiles() : NULL;
}

static bool wanted_table(const struct options *options, const struct bn_kernels *kernels)
{
    return options->isa == NULL || strcmp(options->isa, kernels->isa) == 0;
}

static bool runs_here(const struct bn_kernels *kernels, enum bn_kernel slot)
{
    return kernels == ck_tiles() || bn_kernels_supported(kernels) || ck_is_emulated(kernels, slot);
}

/* The name of a table that exists, "auto" resolved; else NULL. */
static const char *table_name(const char *isa)
{
    if (strcmp(isa, ck_tiles()->isa) == 0) return ck_tiles()->isa;
    return bn_kernels_find(isa) != NULL ? bn_kernels_find(isa)->isa : NULL;
}

/* Returns the number of failures. */
static unsigned check_slot(struct ck *ck, const struct options *options, const struct ck_slot *slot,
                           unsigned *n)
{
    unsigned failed = 0;
    const struct bn_kernels *kernels;
    for (enum ck_class class = 0; class < CK_N_CLASSES; class ++) {
        struct ck_run runs[MAX_TABLES] = {0};
        size_t n_runs = 0;
        for (size_t i = 0; (kernels = table(i)) != NULL; i++) {
            if (!wanted_table(options, kernels) || !runs_here(kernels, slot->slot)) continue;
            /* What a table has from the reference was judged there. */
            if (i > 0 && strcmp(kernels->name[slot->slot], bn_kernels_ref.name[slot->slot]) == 0) continue;
            /* Each emulated instruction is a signal; the tiles in plain C have all cases. */
            runs[n_runs++] = (struct ck_run){
                .kernels = kernels, .truth = i == 0, .seldom = ck_is_emulated(kernels, slot->slot)};
        }
        (void)ck_check(ck, slot, class, runs, n_runs);
        for (struct ck_run *run = runs; run < runs + n_runs; run++) {
            bool ok = run->cases > 0 && run->why[0] == '\0';
            printf("%sok %u - %s %s%s %s", ok ? "" : "not ", ++*n, bn_kernel_slot_name(slot->slot),
                   run->kernels->isa, run->seldom ? " emulated" : "", CLASS_NAME[class]);
            if (ok)
                printf(" (%u cases)\n", run->cases);
            else
                printf("\n# %s %s\n", run->kernels->name[slot->slot], run->why);
            failed += !ok;
        }
    }
    return failed;
}

/* "slot isa digest"; the same on every machine. */
static unsigned print_digest(struct ck *ck, const struct options *options, const struct ck_slot *slot)
{
    for (size_t i = 0; bn_kernels_built(i) != NULL; i++) {
        const struct bn_kernels *kernels = bn_kernels_built(i);
        struct ck_run run = {.kernels = kernels, .digest = FNV_START};
        if (!wanted_table(options, kernels) || !bn_kernels_supported(kernels)) continue;
        for (enum ck_class class = 0; class < CK_N_CLASSES; class ++)
            if (!ck_check(ck, slot, class, &run, 1)) {
                printf("# %s %s\n", kernels->name[slot->slot], run.why);
                return 1;
            }
        printf("%s %s %016llx\n", bn_kernel_slot_name(slot->slot), kernels->isa,
               (unsigned long long)run.digest);
    }
    return 0;
}

static void list(const struct options *options)
{
    for (size_t i = 0; bn_kernels_built(i) != NULL; i++) {
        const struct bn_kernels *kernels = bn_kernels_built(i);
        printf("%s%s\n", kernels->isa,
               bn_kernels_supported(kernels) ? "" : " (not supported by this machine)");
        for (size_t slot = 0; slot < BN_KERNEL_COUNT; slot++)
            if (wanted(options, ck_find((enum bn_kernel)slot))) printf("    %s\n", kernels->name[slot]);
    }
}

/* The value of --name=value, or NULL. */
static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value;
        if (strcmp(arg, "--quick") == 0)
            options->quick = true;
        else if (strcmp(arg, "--list") == 0)
            options->list = true;
        else if (strcmp(arg, "--self-test") == 0)
            options->self_test = true;
        else if (strcmp(arg, "--digest") == 0)
            options->digest = true;
        else if ((value = value_of(arg, "--seed")) != NULL)
            options->seed = strtoull(value, NULL, 0);
        else if ((value = value_of(arg, "--isa")) != NULL && table_name(value) != NULL)
            options->isa = table_name(value);
        else if ((value = value_of(arg, "--function")) != NULL)
            options->function = value;
        else
            return false;
    }
    return true;
}

static unsigned for_all(struct ck *ck, const struct options *options, unsigned *n)
{
    unsigned failed = 0;
    for (size_t f = 0; f < COUNT(FAMILY); f++)
        for (const struct ck_slot *slot = FAMILY[f]; slot->setup != NULL; slot++) {
            if (!wanted(options, slot)) continue;
            if (options->digest)
                failed += print_digest(ck, options, slot);
            else
                failed += check_slot(ck, options, slot, n);
        }
    return failed;
}

int main(int argc, char **argv)
{
    static struct ck ck;
    struct options options = {.seed = DEFAULT_SEED};
    unsigned n = 0, failed = 0;
    if (!parse(&options, argc, argv)) {
        fputs("usage: checkkern [--seed=N] [--isa=NAME] [--function=PART] [--quick]\n"
              "                 [--list | --self-test | --digest]\n",
              stderr);
        return 2;
    }
    ck.seed = options.seed;
    ck.quick = options.quick;
    if (options.list) {
        list(&options);
        return 0;
    }
    if (!options.digest) printf("# seed %llu\n", (unsigned long long)options.seed);
    if (!options.self_test) failed += for_all(&ck, &options, &n);
    if (!options.digest && options.function == NULL) {
        ck.quick = false;
        failed += ck_self_test(&ck, &n);
        printf("1..%u\n", n);
    }
    ck_clear(&ck);
    return failed > 0;
}
