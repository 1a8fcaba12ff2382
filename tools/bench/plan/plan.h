/* SPDX-License-Identifier: MIT
 *
 * bn-bench suite: what a configuration file asks for, as commands of bn-bench. The keys are rows of an option
 * table (keys.c), so that a file is checked as a command line is.
 */
#ifndef BN_BENCH_PLAN_H
#define BN_BENCH_PLAN_H

#include "tools/bench/plan/yaml.h"
#include "tools/cli/options.h"

/* The commands that a suite runs, as bits of bn_plan_key.commands. */
enum {
    BN_PLAN_RUN = 1,
    BN_PLAN_KERNELS = 2,
    BN_PLAN_QUANT = 4,
    BN_PLAN_MEMORY = 8,
    BN_PLAN_PROFILE = 16,
    BN_PLAN_COMMANDS = 5
};
extern const char *const bn_plan_commands[BN_PLAN_COMMANDS]; /* "run" is the one of bit 1, and so on */

/* What the suite itself uses; values that are only passed on share the members `any_...`. */
struct bn_plan_fields {
    struct bn_texts parts, models, formats;
    const char *directory;
    double timeout, confidence;
    const char *any_text;
    struct bn_texts any_texts;
    struct bn_list any_list;
    uint32_t any_count;
    uint64_t any_number;
    double any_float;
};

/* A key of the file, and the option of these commands that its value is passed to. */
struct bn_plan_key {
    struct bn_option option; /* "inference.depths" */
    unsigned commands;       /* 0: it is not passed on */
    const char *pass;        /* "--depth" */
    bool each;               /* the option is given once for each value */
    const char *form;        /* of the value, with %s in its place; NULL: the value itself */
};
extern const struct bn_plan_key bn_plan_keys[];
extern const size_t bn_plan_n_keys;

/* One process. */
struct bn_plan_part {
    const char *command; /* "run" */
    const char *model;   /* NULL: the built-in model, or none */
    char *label;         /* "run shakespeare-5m-i2_s" */
    char *file;          /* "run-shakespeare-5m-i2_s.json", in the folder of the suite */
    char **arguments;    /* what follows the program's name; ends with NULL */
    size_t n, room;
};

struct bn_plan {
    struct bn_yaml yaml;
    struct bn_args args;                 /* its values are those of the file */
    const struct bn_plan_fields *fields; /* in args */
    char *typed;                         /* how messages name each entry: "line 7: inference.depths" */
    struct bn_plan_part *parts;
    size_t n_parts, room;
};

/* Reads a file, or standard input for "-", into a zeroed plan. Errors name the file and the line. Released in
 * any case. */
BN_MUST_CHECK bn_status bn_plan_read(struct bn_plan *plan, const char *path, bn_error *err);
void bn_plan_release(struct bn_plan *plan);

/* keys.c: checks the entries of the file and fills the fields; warns of each key that has no effect. */
BN_MUST_CHECK bn_status bn_plan_fill(struct bn_plan *plan, bn_error *err);
void bn_plan_empty(struct bn_plan *plan);

#endif
