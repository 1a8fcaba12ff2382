/* SPDX-License-Identifier: MIT
 *
 * Timing. Samples of a few calls each, so that the clock's own cost (measured, subtracted) stays small; the
 * figure is the mean of the middle half of the samples. Nothing here decides whether a test passes.
 */
#define _POSIX_C_SOURCE 200809L
#include "checkkern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SAMPLES 20000
#define MIN_CALLS 2000
#define MAX_NS 3e8
#define SAMPLE_NS 4000.0 /* aimed at for short calls */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle_half(double *sample, size_t n)
{
    qsort(sample, n, sizeof *sample, ascending);
    double sum = 0;
    size_t from = n / 4, to = n - n / 4;
    for (size_t i = from; i < to; i++)
        sum += sample[i];
    return sum / (double)(to - from);
}

static double clock_cost(double *sample)
{
    for (size_t i = 0; i < 10000; i++) {
        double start = now_ns();
        sample[i] = now_ns() - start;
    }
    return middle_half(sample, 10000);
}

/* Nanoseconds of one call. */
static double time_call(const struct ck_slot *slot, const struct bn_kernels *kernels, struct ck_call *call,
                        double limit_ns)
{
    static double sample[MAX_SAMPLES];
    double cost = clock_cost(sample);
    const uint8_t *first = call->weights;
    size_t copy = 0, n = 0, calls = 0, per_sample = 1;
    double begin = now_ns(), end = begin;
    slot->invoke(kernels, call); /* warm-up */
    slot->invoke(kernels, call);
    double once = (now_ns() - begin) / 2;
    if (once < SAMPLE_NS) per_sample = (size_t)(SAMPLE_NS / (once + 1)) + 1;
    begin = now_ns();
    while (n < MAX_SAMPLES && (calls < MIN_CALLS || n < 20) && (n < 3 || end - begin < limit_ns)) {
        double start = now_ns();
        for (size_t i = 0; i < per_sample; i++) {
            if (call->n_copies > 1) {
                copy = (copy + 1) % call->n_copies;
                call->weights = first + copy * call->copy_bytes;
            }
            slot->invoke(kernels, call);
        }
        end = now_ns();
        sample[n++] = (end - start - cost) / (double)per_sample;
        calls += per_sample;
    }
    call->weights = first;
    return middle_half(sample, n);
}

static void report(const struct ck_bench_options *options, const char *name, const struct ck_call *call,
                   double ns, double ref_ns)
{
    char line[3][32] = {"", "", ""};
    if (call->bytes > 0) snprintf(line[0], sizeof line[0], "%.2f", call->bytes / ns);
    if (call->macs > 0) snprintf(line[1], sizeof line[1], "%.2f", call->macs / ns);
    snprintf(line[2], sizeof line[2], "%.2f", ref_ns / ns);
    if (options->csv)
        printf("%s,%s,%.1f,%s,%s,%s\n", name, call->text, ns, line[0], line[1], line[2]);
    else
        printf("%-24s %-42s %12.1f %8s %8s %8s\n", name, call->text, ns, line[0], line[1], line[2]);
    fflush(stdout);
}

void ck_bench(struct ck *ck, const struct ck_slot *slot, const char *isa,
              const struct ck_bench_options *options)
{
    struct ck_call call;
    for (unsigned index = 0;; index++) {
        ck_clear(ck);
        memset(&call, 0, sizeof call);
        ck->guard_before = false;
        ck->rng = ck->seed;
        if (!slot->setup(ck, &call, CK_BENCH, index)) break;
        char what[128];
        snprintf(what, sizeof what, "%s %s", bn_kernel_slot_name(slot->slot), call.text);
        if (options->pattern != NULL && strstr(what, options->pattern) == NULL) continue;
        double ref_ns = time_call(slot, &bn_kernels_ref, &call, MAX_NS / 10);
        for (size_t i = 0; bn_kernels_built(i) != NULL; i++) {
            const struct bn_kernels *kernels = bn_kernels_built(i);
            const char *name = kernels->name[slot->slot];
            if (!bn_kernels_supported(kernels) || (isa != NULL && strcmp(isa, kernels->isa) != 0)) continue;
            /* A slot that this table has from a lower one was timed there. */
            if (i > 0 && isa == NULL && strstr(name, kernels->isa) == NULL) continue;
            report(options, name, &call, i == 0 ? ref_ns : time_call(slot, kernels, &call, MAX_NS), ref_ns);
        }
    }
    ck_clear(ck);
}
