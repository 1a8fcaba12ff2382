/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-bench, and what they share.
 *
 * Every document has the schema bn.bench/1 (docs/reference/bench.md). An unknown value is null, with the reason in the member
 * "unavailable" of the same object.
 */
#ifndef BN_BENCH_BENCH_H
#define BN_BENCH_BENCH_H

#include "base/error.h"
#include "base/json.h"
#include "lab/host/busy.h"
#include "lab/host/machine.h"
#include "lab/host/meters.h"
#include "lab/kit/put_counts.h"
#include "lab/report/table.h"
#include "tools/cli/options.h"
#include "tools/cli/report.h"

/* The options of all commands; each has some of them. Texts that are not given are NULL, numbers are 0. */
struct bn_bench_options {
    const char *isa;        /* kernels, quant: "all" too */
    struct bn_list threads; /* see bn_bench_threads */
    uint64_t seed;
    double min_time; /* seconds */
    const char *filter;
    /* run */
    struct bn_list prompts, decodes, depths, batches, sequences, concurrent, busy;
    uint32_t reps, warmup; /* warmup UINT32_MAX: auto */
    uint32_t n_loads;
    double timeout;            /* seconds */
    struct bn_texts generates; /* P+N */
    struct bn_texts targets;
    double confidence;     /* per cent */
    double price_per_hour; /* 0: not given */
    const char *score;     /* a file, or the name of the built-in text */
    uint32_t score_tokens; /* 0: all of it */
    /* kernels, quant */
    uint64_t set_bytes;
    struct bn_texts shapes;
    const char *text;
    /* profile */
    uint32_t n_threads, n_batch, n_prompt, n_predict, pairs;
    const char *level, *graph, *pass, *code;
    struct bn_texts check, what_if;
    bool wide, ascii, roofline;
    /* ab */
    uint32_t rounds, n_warmup;
    uint64_t timeout_seconds;
    const char *input; /* serve */
    struct bn_texts extract;
    bool shell, no_control, series, output_only;
    /* ab, compare, baseline */
    const char *thresholds;
    double drift, margin; /* per cent */
    int fail_on;          /* any, warning, critical */
    bool strict, unlike;
    /* baseline, trend */
    const char *ledger, *baseline, *save_baseline, *reason;
    bool allow_dirty, allow_stale, allow_contended;
    const char *suite, *machine, *name, *test, *metric; /* metric: ab, too */
    uint32_t last, least;
    /* top */
    bool once, of_pass, list_live;
    uint32_t interval_ms;
    const char *budget;
    /* report */
    const char *format, *output, *html, *dir;
    /* serve */
    struct bn_list clients;
    double temperature; /* of answers */
    uint32_t n_requests, n_shared, n_interrupt;
    /* train */
    struct bn_list contexts;
    uint32_t vocab, micro_batch;
    const char *arch, *group;
    /* suite, and the file of one */
    bool force, dry_run;
    struct bn_texts parts, models, formats;
};

/* --threads: a list; see bn_bench_threads. */
#define BN_BENCH_THREADS                                                                                     \
    {                                                                                                        \
        .name = "threads", .letter = 't', .arg = "LIST", .group = "Machine", .env = "BN_THREADS",            \
        .env_too = "RAYON_NUM_THREADS", .help = "thread counts, e.g. 1,2 (default: 1 and all usable cores)", \
        BN_TO_LIST(struct bn_bench_options, threads, 0, 1024),                                               \
    }
/* Fills an empty list of --threads with 1 and the number of usable cores, of a rank with its part of the cores. BN_ERR_UNSUPPORTED when this process
 * cannot start as many threads. */
BN_MUST_CHECK bn_status bn_bench_threads(struct bn_list *threads, bn_error *err);

/* A document with its common members: schema, command, time, program, machine (NULL: read now). */
bn_json *bn_bench_document(const char *command, const struct bn_machine *machine);
/* The CPU use of other processes since `then`; warns when it disturbed the measurement. */
struct bn_others bn_bench_others(const struct bn_busy *then);
/* Prints the machine, one line. */
void bn_bench_print_machine(const struct bn_machine *machine);

/* Prints a table after a blank line, when it has rows; and releases it. */
BN_MUST_CHECK bn_status bn_bench_print_rows(struct bn_table *table, bn_error *err);

/* The last part of a path. */
const char *bn_bench_base_name(const char *path);
/* The last line of a text that is not a hint, such as the error that ended a program; escaped. Returns out. */
#define BN_BENCH_LINE 200u
const char *bn_bench_last_line(char out[BN_BENCH_LINE], const struct bn_buf *text);
/* Puts the numbers of a list option. */
void bn_bench_put_list(bn_json *object, const char *name, const struct bn_list *list);
/* Confidence of every interval, unless --confidence gives another one. */
#define BN_BENCH_CONFIDENCE 0.95
#define BN_BENCH_CONFIDENCE_OPTION(heading)                                                                \
    BN_OPTION("confidence", "confidence of intervals", .rare = true, .arg = "PERCENT", .group = (heading), \
              .preset = "95", BN_TO_F64(struct bn_bench_options, confidence, 51, 99.99))
/* The commands, and their options. */
#define BN_BENCH_COMMAND(name)                                 \
    extern const struct bn_option bn_bench_##name##_options[]; \
    bn_status bn_bench_##name(struct bn_args *args, bn_error *err);
BN_BENCH_COMMAND(run)
bn_status bn_bench_run_follow(struct bn_args *args, bn_error *err); /* on the other ranks */
BN_BENCH_COMMAND(limits)
BN_BENCH_COMMAND(kernels)
BN_BENCH_COMMAND(memory)
BN_BENCH_COMMAND(quant)
BN_BENCH_COMMAND(train)
BN_BENCH_COMMAND(serve)
BN_BENCH_COMMAND(profile)
BN_BENCH_COMMAND(top)
BN_BENCH_COMMAND(doctor)
BN_BENCH_COMMAND(ab) /* cmd, too */
BN_BENCH_COMMAND(compare)
BN_BENCH_COMMAND(baseline)
BN_BENCH_COMMAND(trend)
BN_BENCH_COMMAND(report)
BN_BENCH_COMMAND(suite)
extern const struct bn_option bn_bench_profile_graph_options[], bn_bench_cmd_options[],
    bn_bench_command_options[];

#endif
