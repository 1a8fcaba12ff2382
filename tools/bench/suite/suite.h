/* SPDX-License-Identifier: MIT
 *
 * bn-bench suite: what a configuration file asks for, as processes. A value of the file is checked by the row of the option
 * that it is passed to, so that a file is checked as a command line is.
 */
#ifndef BN_BENCH_SUITE_H
#define BN_BENCH_SUITE_H

#include "base/digest.h"
#include "tools/bench/bench.h"

/* ---- the file (yaml.c) ---- */

#define BN_YAML_MAX_BYTES (64u << 10)

struct bn_yaml_value {
    char *key, *text; /* "inference.depths"; shared by the values of a list */
    unsigned line;    /* of the key, counted from 1 */
    bool list;        /* else it is the only value */
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

/* ---- what it asks for (plan.c) ---- */

/* What framework.parts can name, as bits of bn_suite_key.parts. */
enum {
    BN_SUITE_RUN = 1,
    BN_SUITE_KERNELS = 2,
    BN_SUITE_QUANT = 4,
    BN_SUITE_MEMORY = 8,
    BN_SUITE_PROFILE = 16,
    BN_SUITE_LIMITS = 32,
    BN_SUITE_SCORE = 64,
    BN_SUITE_SERVE = 128,
    BN_SUITE_TRAIN = 256,
    BN_SUITE_CROSSVAL = 512
};
#define BN_SUITE_PARTS "run|kernels|quant|memory|profile|limits|score|serve|train|crossval"

/* How a list of values is passed: not at all, joined by commas, or as an option for each. */
enum bn_suite_many { BN_SUITE_ONE, BN_SUITE_LIST, BN_SUITE_EACH };

/* A key of the file, and the option of these parts that its value is passed to. */
struct bn_suite_key {
    const char *name; /* "inference.depths" */
    unsigned parts;   /* 0: it is the suite's own */
    const char *pass; /* "depth"; NULL: the key selects nothing, and form is the reason */
    const char *form; /* of the value, with %s in its place; NULL: the value itself */
    enum bn_suite_many many;
};
/* What the file gives a key, as it is passed. */
struct bn_suite_setting {
    const struct bn_suite_key *key;
    const struct bn_yaml_value *value; /* the first one */
    char *text;
};
/* Keys that begin with it are labels of command lines. */
#define BN_SUITE_CASES "cases."

/* A command line; list ends with NULL. Zeroed before use. */
struct bn_suite_words {
    char **list;
    size_t n, room;
};

/* DONE: it ran and printed no document with series. SKIPPED: it cannot run here, and its label ends with "?". */
enum bn_part_state { BN_PART_MEASURED, BN_PART_REUSED, BN_PART_DONE, BN_PART_SKIPPED, BN_PART_FAILED };

/* One process, and what became of it. */
struct bn_suite_part {
    bool optional;               /* its label ended with "?" */
    char label[128];             /* "run shakespeare-5m-i2_s" */
    char file[160];              /* "run-shakespeare-5m-i2_s.json", in the folder of the suite */
    struct bn_suite_words words; /* the program, such as "bn-bench", and its arguments */
    enum bn_part_state state;
    char path[4096];                  /* of its document */
    char created[32];                 /* of the document; "" without one */
    char model_sha256[BN_SHA256_HEX]; /* likewise */
    char reason[200];                 /* why it failed or was skipped; else "" */
    double seconds;                   /* it took; 0 when reused */
    int exit_code;
    bool has_series;         /* the report includes it */
    struct bn_others others; /* of the document: what other processes used */
};

struct bn_suite_plan {
    const struct bn_program *program; /* bn-bench, whose commands are those of cases */
    struct bn_yaml yaml;
    struct bn_suite_setting *settings;
    size_t n_settings;
    struct bn_suite_words own;        /* the keys of the suite itself */
    struct bn_args args;              /* of them */
    const struct bn_bench_options *o; /* in args */
    struct bn_suite_part *parts;
    size_t n_parts, room;
};

/* Reads a file, or standard input for "-", into a plan that is zeroed but for its program. Errors name the file and the
 * line. Released in any case. */
BN_MUST_CHECK bn_status bn_suite_read(struct bn_suite_plan *plan, const char *path, bn_error *err);
void bn_suite_release(struct bn_suite_plan *plan);

#endif
