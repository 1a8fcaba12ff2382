/* SPDX-License-Identifier: MIT
 *
 * options.h - the command line of every program, from one table per program.
 *
 * The table names the program, its commands, their options and examples; from it come parsing, --help,
 * --version, the man page, the reference page and the completions of shells. An option names the field that it
 * sets in the struct of its program's options (BN_TO_...); the command's function finds it in args->fields:
 *
 *     BN_OPTION("stop", "end when this text appears", .arg = "TEXT", .repeatable = true,
 *               BN_TO_TEXTS(struct generate, stops)),
 *
 *     const struct generate *o = args->fields;
 *     for (size_t i = 0; i < o->stops.n; i++)
 *         use(o->stops.list[i]);
 *
 * tools/bn-git.c is a whole program, tools/bn-run.c one with commands.
 *
 * A program without commands has one whose name is "". Rules of the command line: long options by their full
 * name only (an abbreviation would change its meaning when options are added), "--name value" and
 * "--name=value", "-n 3", "-n3", flags in one word "-qv" (-h and -V are words of their own), options and
 * operands in any order, "--" ends the options, "-" is an operand. Of an option given twice the last one
 * counts, unless it is repeatable. The command is the first word; common options may stand before it.
 *
 * All of this lives in libcli.a; a program links what it uses.
 */
#ifndef BN_CLI_OPTIONS_H
#define BN_CLI_OPTIONS_H

#include "bn.h"

/* Where an option's value goes: a field of the struct that the command's function gets (bn_command.bytes,
 * bn_args.fields). It is read and checked before the function is called; a field that nothing gives a value
 * stays zero. */
enum bn_field_type {
    BN_FIELD_NONE,
    BN_FIELD_BOOL,     /* a flag */
    BN_FIELD_PLACE,    /* size_t: a flag given once that separates operands: how many are before it */
    BN_FIELD_TEXT,     /* const char *; borrowed */
    BN_FIELD_CHOICE,   /* int or enum: which one of "a|b|c", counted from 0 */
    BN_FIELD_U32,      /* min <= value <= max, as the next four */
    BN_FIELD_U32_ALL,  /* the same; -1 gives UINT32_MAX: no limit */
    BN_FIELD_U32_AUTO, /* the same; "auto" gives UINT32_MAX */
    BN_FIELD_U64,
    BN_FIELD_F32,
    BN_FIELD_F64,
    BN_FIELD_SECONDS, /* uint64_t: "90" or "90s", "15m", "36h", "7d" */
    BN_FIELD_BYTES,   /* uint64_t: "4096", "64K", "512M", "4G", in powers of 1024 */
    BN_FIELD_TEXTS,   /* struct bn_texts: all values of a repeatable option */
    BN_FIELD_IDS,     /* struct bn_id_list: "1,2,3", over all uses of a repeatable option */
    BN_FIELD_LIST,    /* struct bn_list: "1,2,4" without repetitions, min <= each <= max */
    BN_FIELD_BIAS     /* bias and n_bias of bn_sampler_options: all uses of "ID=VALUE" but zeros */
};
/* What a program does with the path that an option or operand names: what the sandbox permits (program/sandbox.h). */
enum bn_path_use {
    BN_PATH_UNSAID,
    BN_PATH_NONE,   /* it is not a path, or bn_sandbox.more says what is permitted */
    BN_PATH_READ,   /* a file, or all of a folder */
    BN_PATH_BESIDE, /* and the files in its folder */
    BN_PATH_MODEL,  /* or the name of a downloaded model */
    BN_PATH_WRITE,  /* a file or folder that is made or replaced */
    BN_PATH_BOTH    /* read and written */
};
struct bn_texts {
    const char **list; /* n of them, then NULL */
    size_t n;
};
struct bn_id_list {
    int32_t *list;
    size_t n;
};
struct bn_list {
    uint32_t *list;
    size_t n;
};

/* For rows of a table: the field of a struct that an option sets, with its type checked when it is compiled. */
#define BN_FIELD(kind, type, field, c_type) \
    .to = (kind), .at = offsetof(type, field) + 0 * sizeof(_Generic(((type *)0)->field, c_type : 1))
#define BN_TO_BOOL(type, field) BN_FIELD(BN_FIELD_BOOL, type, field, bool)
#define BN_TO_PLACE(type, field) BN_FIELD(BN_FIELD_PLACE, type, field, size_t)
#define BN_TO_TEXT(type, field) BN_FIELD(BN_FIELD_TEXT, type, field, const char *)
/* An int or an enum. */
#define BN_TO_CHOICE(type, field) \
    .to = BN_FIELD_CHOICE,        \
    .at = offsetof(type, field) + 0 * sizeof(_Generic(((type *)0)->field, int : 1, unsigned : 1))
#define BN_TO_U32(type, field, least, most) \
    BN_FIELD(BN_FIELD_U32, type, field, uint32_t), .min = (least), .max = (most)
#define BN_TO_U32_ALL(type, field, least, most) \
    BN_FIELD(BN_FIELD_U32_ALL, type, field, uint32_t), .min = (least), .max = (most)
#define BN_TO_U32_AUTO(type, field, least, most) \
    BN_FIELD(BN_FIELD_U32_AUTO, type, field, uint32_t), .min = (least), .max = (most)
/* most 0: any. */
#define BN_TO_U64(type, field, least, most) \
    BN_FIELD(BN_FIELD_U64, type, field, uint64_t), .min = (least), .max = (most)
#define BN_TO_F32(type, field, least, most) \
    BN_FIELD(BN_FIELD_F32, type, field, float), .min = (least), .max = (most)
#define BN_TO_F64(type, field, least, most) \
    BN_FIELD(BN_FIELD_F64, type, field, double), .min = (least), .max = (most)
#define BN_TO_SECONDS(type, field) BN_FIELD(BN_FIELD_SECONDS, type, field, uint64_t)
#define BN_TO_BYTES(type, field) BN_FIELD(BN_FIELD_BYTES, type, field, uint64_t)
/* The value is a path; use: the last word of an enum bn_path_use. */
#define BN_TO_PATH(type, field, use) BN_TO_TEXT(type, field), .path = BN_PATH_##use
#define BN_TO_TEXTS(type, field) BN_FIELD(BN_FIELD_TEXTS, type, field, struct bn_texts)
#define BN_TO_IDS(type, field) BN_FIELD(BN_FIELD_IDS, type, field, struct bn_id_list), .max = INT32_MAX
#define BN_TO_LIST(type, field, least, most) \
    BN_FIELD(BN_FIELD_LIST, type, field, struct bn_list), .min = (least), .max = (most)
#define BN_TO_BIAS(type, field) BN_FIELD(BN_FIELD_BIAS, type, field, const bn_candidate *)

/* One option. A table ends with an empty row. */
struct bn_option {
    const char *name; /* long name without the dashes */
    char letter;      /* short name, or 0. h, V, q and v are taken */
    const char
        *arg; /* what the help calls its value. One with bars, "auto|on|off", is the list of values that
                        * are accepted. FILE and DIR complete to paths, MODEL to paths and the names of models.
                        * NULL: as the type of the field says (bn_table_arg); a flag has none */
    const char *group; /* heading in the help, of this row and of those after it; NULL at first: "Options" */
    const char *help;  /* lower case, no full stop */
    const char *env;   /* environment variable that counts when the option is not given */
    const char *env_too; /* another one, which counts when that is not set */
    const char *preset;  /* the value when nothing gives one; the help shows it. NULL: none */
    const char *words;   /* values that completion offers, "oracle bn"; others are accepted too */
    bool repeatable;
    bool once;             /* given twice it is an error: one of them would be ignored in silence */
    bool rare;             /* only --help=all shows it */
    enum bn_path_use path; /* of a value that is one */
    enum bn_field_type to; /* BN_TO_...; several options may set one field, the last one given counts */
    bool shared;           /* the field is in struct bn_args, not in the command's struct */
    size_t at;
    double min, max;
};

/* A row of a table: name and help, which every option has, then the other members that it needs. BN_RARE: one that
 * only --help=all shows. */
#define BN_OPTION(the_name, the_help, ...)                  \
    {                                                       \
        .name = (the_name), .help = (the_help), __VA_ARGS__ \
    }
#define BN_RARE(the_name, the_help, ...) BN_OPTION(the_name, the_help, .rare = true, __VA_ARGS__)

struct bn_example {
    const char *line; /* as typed */
    const char *what; /* what it does */
};

/* A word and what it means: extra environment variables and exit codes. */
struct bn_meaning {
    const char *word;
    const char *text;
};

struct bn_args;
struct bn_sandbox;

/* One command. A table ends with an empty row. */
struct bn_command {
    const char *name;     /* "tokenize"; "" in a program without commands */
    const char *summary;  /* half a line, lower case, no full stop */
    const char *text;     /* paragraphs for the help, with blank lines between them; may be NULL */
    const char *synopsis; /* what follows program and command name; several forms on several lines */
    const struct bn_option *options[12]; /* tables, shown in this order */
    bool json;                           /* takes --json */
    size_t min_operands, max_operands;   /* operands are what is left besides options */
    const char *operand;                 /* what messages call one: "FILE"; needed when there may be some */
    bool operand_is_text; /* what -p gives too (bn_cli_text). As that of a default command, "bn-run hello", it
                           * may not be near the name of a command, unless "--" comes before it */
    enum bn_path_use operand_path;
    const struct bn_sandbox *sandbox; /* NULL: none (program/sandbox.h) */
    struct bn_example examples[8];
    size_t bytes; /* size of the struct that its options fill; 0: that of the program */
    /* Returns BN_OK and leaves the exit code in args->exit_code, or an error. */
    bn_status (*run)(struct bn_args *args, bn_error *err);
    /* What the ranks after the first do while the first one runs the command, under mpirun. */
    bn_status (*follow)(struct bn_args *args, bn_error *err);
    bool divides; /* it joins the ranks itself, or helps one. Without this and follow, mpirun is refused */
};
#define BN_OPERANDS_ANY SIZE_MAX
/* For rows of a table of commands. */
#define BN_OPERANDS(least, most, name) .min_operands = (least), .max_operands = (most), .operand = (name)
#define BN_PATHS(least, most, name, use) BN_OPERANDS(least, most, name), .operand_path = BN_PATH_##use
#define BN_SANDBOXED(the_sandbox, the_run) .sandbox = &(the_sandbox), .run = (the_run)
#define BN_ONE_TEXT BN_OPERANDS(0, 1, "TEXT"), .operand_is_text = true

struct bn_program {
    const char *name;     /* "bn-run" */
    const char *summary;  /* half a line: what `bn` lists and the man page's NAME says */
    const char *text;     /* a paragraph: what it is for */
    const char *synopsis; /* what the usage line shows in place of every command's; NULL: those */
    const struct bn_command *commands;
    const char *default_command;      /* the command meant when none is named; NULL: one must be named */
    size_t bytes;                     /* size of the struct that the options of its commands fill; 0: none */
    struct bn_meaning exits[10];      /* {"1", "the receipt was refused"}: what codes mean here */
    struct bn_meaning environment[8]; /* variables that no option names */
    bool forwards;                    /* its commands are the programs <name>-<command> */
};

/* A value and where it came from. */
struct bn_value {
    const struct bn_option *option;
    const char *text;
    const char *env; /* the environment variable that gave it, or NULL */
    bool by_letter;  /* typed as -n */
    size_t place;    /* operands that stood before it */
};

#define BN_OPTIONS_MAX 96u

/* A parsed command line. The texts are those of argv, the environment and the table: borrowed. */
struct bn_args {
    const struct bn_program *program;
    const struct bn_command *command;
    const char
        *meant; /* the command that the first operand may be a misspelling of, unless it is a file; or NULL */
    const char **operands; /* n_operands, then NULL */
    size_t n_operands;
    bool json, quiet;
    unsigned verbose; /* how many -v */
    int color;        /* auto, always, never */
    bool no_sandbox;
    int exit_code; /* of a run that returns BN_OK; starts as BN_EXIT_OK */
    void *fields;  /* the command's struct; NULL without one */

    /* From the rows below that several programs share. */
    const char *model; /* NULL: the built-in model */
    const char *isa, *device;
    int repack;                /* auto, never, always */
    uint64_t max_memory;       /* 0: what is available */
    const char *prompt, *file; /* the text; NULL: not given */
    struct bn_texts require;   /* of a doctor: checks that have to be ok */

    bool want_help, want_version; /* the rest of the command line was not parsed */
    bool want_all;                /* --help=all */
    bool want_usage;              /* a usage error: print the usage lines after it */
    const struct bn_option *options[BN_OPTIONS_MAX];
    size_t n_options;
    struct bn_value *values; /* in the order of the command line, then the environment's */
    size_t n_values;
};

/* Rows that several programs have; so they are spelled alike everywhere. */
#define BN_OPTION_MODEL                                                                                     \
    BN_OPTION("model", "GGUF file or downloaded model [the built-in model]", .letter = 'm', .arg = "MODEL", \
              .group = "Model", .env = "BN_MODEL", BN_TO_TEXT(struct bn_args, model), .shared = true,       \
              .once = true, .path = BN_PATH_MODEL)
#define BN_THREADS_HELP "number of threads [one per usable core]"
#define BN_OPTION_THREADS_TO(type, field)                                                \
    BN_OPTION("threads", BN_THREADS_HELP, .letter = 't', .arg = "N", .group = "Machine", \
              .env = "BN_THREADS", .env_too = "RAYON_NUM_THREADS", BN_TO_U32(type, field, 1, 1024))
#define BN_ISA_NAMES "auto|ref|avx2|avxvnni|avx512vnni|avx512vbmi|amx|neon"
#define BN_OPTION_ISA                                                                                        \
    BN_OPTION("isa", "instruction set; same results", .rare = true, .arg = BN_ISA_NAMES, .group = "Machine", \
              .env = "BN_ISA", .preset = "auto", BN_TO_TEXT(struct bn_args, isa), .shared = true)
/* See bn_cli_device. */
#define BN_OPTION_DEVICE                                                                                    \
    BN_OPTION("device", "cpu, opencl, opencl:N or auto; same results", .group = "Machine", .arg = "DEVICE", \
              .words = "cpu opencl auto", .env = "BN_DEVICE", .preset = "cpu",                              \
              BN_TO_TEXT(struct bn_args, device), .shared = true)
/* Without it a command decides for itself: see bn_cli_open_model. */
#define BN_OPTION_REPACK                                                                      \
    BN_OPTION("repack", "faster copies of the weights in memory; same results", .rare = true, \
              .arg = "auto|never|always", .group = "Machine", .preset = "auto",               \
              BN_TO_CHOICE(struct bn_args, repack), .shared = true)
#define BN_OPTION_MAX_MEMORY                                                                    \
    BN_OPTION("max-memory", "memory to use at most, e.g. 8G [what is available]", .rare = true, \
              .arg = "SIZE", .group = "Machine", .env = "BN_MAX_MEMORY",                        \
              BN_TO_BYTES(struct bn_args, max_memory), .shared = true)
#define BN_OPTION_PROMPT                                                            \
    BN_OPTION("prompt", "the text", .letter = 'p', .arg = "TEXT", .group = "Input", \
              BN_TO_TEXT(struct bn_args, prompt), .shared = true)
#define BN_OPTION_FILE                                                                                \
    BN_OPTION("file", "read the text from FILE (- for standard input)", .letter = 'f', .arg = "FILE", \
              .group = "Input", BN_TO_TEXT(struct bn_args, file), .shared = true, .path = BN_PATH_READ)

/* All that main does: streams and signals made safe, the line parsed, --help and --version and the
 * generators of documents served, the command run, its error printed, standard output flushed and checked.
 * Returns the exit code. */
int bn_cli_main(const struct bn_program *program, int argc, char **argv);

/* The parts, for tests. Parsing fails with BN_ERR_ARG; args is released in any case. */
BN_MUST_CHECK bn_status bn_args_parse(struct bn_args *args, const struct bn_program *program, int argc,
                                      char **argv, bn_error *err);
void bn_args_release(struct bn_args *args);
/* Adds the hint of a usage error, "see bn-run tokenize --help", after "did you mean --threads?" when there is
 * something that was meant (dashes go before it). */
void bn_args_help_hint(const struct bn_args *args, bn_error *err, const char *dashes, const char *meant);
/* Whether the command line or the environment gave a field its value: of the command's struct, or &args->model
 * and the like. */
bool bn_args_given(const struct bn_args *args, const void *field);
/* The option that sets a field as the user typed it, "-n" or "--n-predict", or the environment variable that
 * gave it; its long name when it was not given. For messages. Returns out. */
#define BN_TYPED 64u
const char *bn_args_typed(const struct bn_args *args, const void *field, char out[BN_TYPED]);
/* Stops the process when a table contradicts itself: names twice, presets outside the list, no text. */
void bn_program_check(const struct bn_program *program);

/* Words of llama.cpp and ollama. Whether word ("-ngl", "--ctx-size=9") is an option of theirs that this command has in another
 * form: err then says what to write. next: the word after it, or NULL. */
bool bn_foreign_option(const struct bn_args *args, const char *word, const char *next, bn_error *err);
/* "bn download" for "pull"; NULL when the word is not a command of theirs. */
const char *bn_foreign_command(const char *word);

#endif
