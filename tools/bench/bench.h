/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-bench, and what they share.
 *
 * Every document has the schema bn.bench/1 (docs/reference/bench.md): raw samples, and the figures computed
 * from them. An unknown value is null, with the reason in the member "unavailable" of the same object.
 */
#ifndef BN_BENCH_BENCH_H
#define BN_BENCH_BENCH_H

#include "base/json.h"
#include "lab/host/busy.h"
#include "lab/host/machine.h"
#include "lab/stats/interval.h"
#include "tools/bench/check.h"
#include "tools/cli/options.h"

/* --threads as a list without repetitions; default: 1, and the number of usable cores. *list is allocated
 * (bn_free). BN_ERR_UNSUPPORTED when this process cannot start as many threads. */
BN_MUST_CHECK bn_status bn_bench_threads(const struct bn_args *args, uint32_t **list, size_t *n,
                                         bn_error *err);
/* A list option without repetitions, in the order given. */
BN_MUST_CHECK bn_status bn_bench_list(const struct bn_args *args, const char *name, uint32_t max,
                                      uint32_t **list, size_t *n, bn_error *err);

/* A document with its common members: schema, command, time, program, machine. */
bn_json *bn_bench_document(const char *command, const struct bn_machine *machine);
/* The CPU use of other processes since `then`; warns when it disturbed the measurement. */
struct bn_others bn_bench_others(const struct bn_busy *then);
/* Prints the CPU use of other processes, one line. */
void bn_bench_print_others(const struct bn_others *others);
/* Prints the machine, one line. */
void bn_bench_print_machine(const struct bn_machine *machine);

/* Puts the facts about the clock of samples. */
void bn_bench_put_clock(bn_json *doc, const struct bn_bench_clock *clock);
/* Puts a text; null when it is empty. */
void bn_bench_put_text(bn_json *object, const char *name, const char *text);
/* Confidence of every interval. */
#define BN_BENCH_CONFIDENCE 0.95
/* Puts [low, high] under a name, or null with the reason. */
void bn_bench_put_interval(bn_json *object, const char *name, const struct bn_interval *interval);
/* Puts {"n": ..., "min": ..., "median": ..., ...} under a name; without samples it is unavailable. */
void bn_bench_put_summary(bn_json *object, const char *name, const double *samples, size_t n);

/* The ending of a plural: "" for 1, else "s". */
static inline const char *bn_bench_s(size_t n)
{
    return n == 1 ? "" : "s";
}

/* The commands, and their options. */
extern const struct bn_option bn_bench_threads_option[];
extern const struct bn_option bn_bench_run_options[], bn_bench_kernels_options[], bn_bench_memory_options[],
    bn_bench_quant_options[], bn_bench_profile_options[], bn_bench_profile_graph_options[],
    bn_bench_doctor_options[], bn_bench_ab_options[], bn_bench_baseline_options[], bn_bench_trend_options[],
    bn_bench_report_options[];
bn_status bn_bench_run(struct bn_args *args, bn_error *err);
bn_status bn_bench_kernels(struct bn_args *args, bn_error *err);
bn_status bn_bench_memory(struct bn_args *args, bn_error *err);
bn_status bn_bench_quant(struct bn_args *args, bn_error *err);
bn_status bn_bench_profile(struct bn_args *args, bn_error *err);
bn_status bn_bench_doctor(struct bn_args *args, bn_error *err);
bn_status bn_bench_ab(struct bn_args *args, bn_error *err);
bn_status bn_bench_compare(struct bn_args *args, bn_error *err);
bn_status bn_bench_baseline(struct bn_args *args, bn_error *err);
bn_status bn_bench_trend(struct bn_args *args, bn_error *err);
bn_status bn_bench_report(struct bn_args *args, bn_error *err);

#endif
