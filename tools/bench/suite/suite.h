/* SPDX-License-Identifier: MIT
 *
 * bn-bench suite: what a configuration file asks for, as processes of bn-bench. A value of the file is checked by the row of
 * the option that it is passed to, so that a file is checked as a command line is.
 */
#ifndef BN_BENCH_SUITE_H
#define BN_BENCH_SUITE_H

#include "tools/bench/bench.h"

/* ---- the file (yaml.c) ---- */

#define BN_YAML_MAX_BYTES (64u << 10)

struct bn_yaml_value {
    char *key, *text; /* "inference.depths"; shared by the values of a list */
    unsigned line;    /* of the key, counted from 1 */
    bool list;        /* else it is the only value */
    bool quoted;      /* a text even when it looks like a number */
};
/* Zeroed before use; released in any case. */
struct bn_yaml {
    struct bn_yaml_value *list;
    size_t n, room;
};
/* Appends the values of a text in their order: sections of keys, each with a value or a list of values. A list inside a list
 * is one value: [[16, 256]] is 16x256. Everything else of YAML is refused: anchors, aliases, tags, several documents, deeper
 * nesting, duplicate keys. BN_ERR_FORMAT, which names the line, or BN_ERR_LIMIT. */
BN_MUST_CHECK bn_status bn_yaml_parse(struct bn_yaml *out, const char *text, size_t n, bn_error *err);
void bn_yaml_release(struct bn_yaml *yaml);

/* ---- what it asks for (keys.c, plan.c) ---- */

/* The commands that a suite runs, as bits of bn_suite_key.commands. */
enum {
    BN_SUITE_RUN = 1,
    BN_SUITE_KERNELS = 2,
    BN_SUITE_QUANT = 4,
    BN_SUITE_MEMORY = 8,
    BN_SUITE_PROFILE = 16
};
#define BN_SUITE_COMMANDS 5u
extern const char *const bn_suite_commands[BN_SUITE_COMMANDS]; /* "run" is the one of bit 1, and so on */

/* A key of the file, and the option of these commands that its value is passed to. */
struct bn_suite_key {
    const char *name;  /* "inference.depths" */
    unsigned commands; /* 0: it is not passed on */
    const char *pass;  /* "depth" */
    const char *form;  /* of the value, with %s in its place; NULL: the value itself */
};
#define BN_SUITE_KEYS 27u
extern const struct bn_suite_key bn_suite_keys[BN_SUITE_KEYS];

enum bn_part_state { BN_PART_MEASURED, BN_PART_REUSED, BN_PART_FAILED };

/* One process, and what became of it. */
struct bn_suite_part {
    const char *command; /* "run" */
    const char *model;   /* NULL: the built-in model, or none */
    char label[128];     /* "run shakespeare-5m-i2_s" */
    char file[160];      /* "run-shakespeare-5m-i2_s.json", in the folder of the suite */
    char **arguments;    /* what follows the program's name; ends with NULL */
    size_t n, room;
    enum bn_part_state state;
    char path[4096];  /* of its document */
    char created[32]; /* of the document; "" without one */
    char reason[200]; /* why it failed; else "" */
    double seconds;   /* it took; 0 when reused */
    int exit_code;
    bool has_series; /* the report includes it */
};

struct bn_suite_plan {
    struct bn_yaml yaml;
    struct bn_option options[BN_SUITE_KEYS]; /* the row of each key */
    struct bn_args args;                     /* its values are those of the file */
    const struct bn_bench_options *o;        /* of the file, in args */
    char *typed;                             /* how messages name each value: "line 7: inference.depths" */
    struct bn_suite_part *parts;
    size_t n_parts, room;
};

/* Reads a file, or standard input for "-", into a zeroed plan. Errors name the file and the line. Released in
 * any case. */
BN_MUST_CHECK bn_status bn_suite_read(struct bn_suite_plan *plan, const char *path, bn_error *err);
void bn_suite_release(struct bn_suite_plan *plan);
/* Checks the values of the file and fills the fields; warns of each key that has no effect. */
BN_MUST_CHECK bn_status bn_suite_fill(struct bn_suite_plan *plan, bn_error *err);

#endif
