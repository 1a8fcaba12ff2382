/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-verify-receipt, and what they share.
 */
#ifndef BN_VERIFY_RECEIPT_H
#define BN_VERIFY_RECEIPT_H

#include "base/error.h"
#include "base/file.h"
#include "base/ranks.h"
#include "lab/host/machine.h"
#include "lab/verify/rules.h"
#include "tools/cli/options.h"
#include "tools/cli/program/sandbox.h"
#include "tools/cli/report.h"

#define BN_VERIFY_SCHEMA "bn.verify/1" /* of all documents */

/* The options of all commands; each has some of them. */
struct bn_verify_options {
    /* verify */
    const char *path, *policy, *files;
    struct bn_texts keys;   /* --public-key */
    struct bn_texts models; /* none: the built-in model */
    bool require_signature, unverified, require_gpu_kernels, require_quantized_kernels;
    bool validate_performance, allow_corrections, replay;
    uint64_t max_age_s;
    uint32_t n_threads, n_batch; /* 0: not given */
    /* verify --batch */
    const char *batch, *junit;
    uint32_t n_sequences;
    const char *texts;       /* of a training run: their folder */
    uint32_t n_replay_steps; /* of it */
    uint64_t timeout_s;
    bool training; /* rules */
    /* sign, keygen */
    const char *key, *output;
};

/* ---- check.c ---- */

/* A model that receipts may name: the bytes that are hashed are those that are replayed. */
struct bn_verify_model {
    const char *name; /* as --model gave it */
    bool is_default;
    struct bn_file_map map;
    const unsigned char *bytes;
    size_t n_bytes;
    char sha256[BN_SHA256_HEX];
};

/* The best rate at which this machine read a number of bytes with a number of threads. */
struct bn_verify_probe {
    uint64_t bytes, threads, best;
};

/* What is common to the receipts of one command. */
struct bn_verify {
    const struct bn_args *args;
    const struct bn_verify_options *options;
    struct bn_key *keys[BN_ENVELOPE_MAX_KEYS]; /* of --public-key, each once */
    size_t n_keys;
    struct bn_receipt_policy policy;
    struct bn_machine machine;
    struct bn_verify_model *models; /* NULL: not opened yet */
    size_t n_models;
    struct bn_verify_probe probe;
    uint32_t n_threads;         /* that replay; 0: one for each core */
    const char *const *sources; /* of several receipts; see bn_verify_source_open. NULL: one receipt */
    size_t n_sources;
};

/* One receipt and what was found. Zeroed except path; the receipt is released by the caller. */
struct bn_verify_subject {
    const char *path;
    struct bn_receipt receipt;
    const struct bn_verify_model *model;
    bool wants_replay; /* all else holds, and the model is here */
    struct bn_replay_result replay;
    struct bn_training_files files;
    struct bn_release_files release;
    struct bn_rules_input input;
    struct bn_rules_report report;
};

/* What the sandbox permits besides receipts. */
void bn_verify_allow(struct bn_sandbox_rules *rules, const struct bn_args *args);
/* Reads policy and keys. */
BN_MUST_CHECK bn_status bn_verify_open(struct bn_verify *v, const struct bn_args *args, bn_error *err);
/* Opens the models of --model, once; bn_verify_check does so when it needs them. */
BN_MUST_CHECK bn_status bn_verify_open_models(struct bn_verify *v, bn_error *err);
/* Reads a receipt from its path, or from the text, and runs all rules. With wants_replay the caller sets s->replay and
 * calls bn_verify_finish. */
BN_MUST_CHECK bn_status bn_verify_check(struct bn_verify *v, struct bn_verify_subject *s,
                                        const struct bn_str *text, bn_error *err);
BN_MUST_CHECK bn_status bn_verify_finish(struct bn_verify_subject *s, bn_error *err);
/* Whether an error of a replay is the verifier's: of its memory, its device, this program. */
bool bn_verify_is_own(bn_status status);
/* A replay that was not possible for another reason. */
void bn_verify_refuse(struct bn_verify_subject *s, const bn_error *why);

/* Reads and opens a receipt. */
BN_MUST_CHECK bn_status bn_verify_read(struct bn_receipt *receipt, const char *path,
                                       const struct bn_receipt_keys *keys, bn_error *err);

/* print.c: what was found, as text or as the document of --json. */
enum bn_verify_outcome {
    BN_OUTCOME_VERIFIED,
    BN_OUTCOME_REFUSED,
    BN_OUTCOME_UNDECIDED,
    BN_OUTCOME_UNBOUND, /* nothing is wrong with it, and it proves nothing */
    BN_OUTCOME_ERROR,   /* it could not be read, or is not a receipt */
    BN_OUTCOME_COUNT
};
enum bn_verify_outcome bn_verify_outcome(const struct bn_rules_report *report);
extern const struct bn_verify_outcome_names {
    const char *json, *text; /* for people */
} bn_verify_outcomes[BN_OUTCOME_COUNT];
BN_MUST_CHECK bn_status bn_verify_print(const struct bn_args *args, const char *path,
                                        const struct bn_receipt *receipt,
                                        const struct bn_rules_report *report, bn_error *err);

/* ---- several receipts, each checked as it is alone, several replayed in one pass over the weights. source.c finds
 * them, pipeline.c checks and replays them, batch.c divides them among ranks and writes what was found. Memory grows with
 * the number of receipts by a digest, and with --junit by a line. ---- */

/* ---- source.c ---- */

/* A receipt to be checked: a file, or a line of a file. */
struct bn_verify_item {
    char *file;
    uint64_t line;      /* 0: the whole file */
    struct bn_buf text; /* of the line; empty for a file */
    bool too_long;      /* the line exceeds the limit of a receipt, and was skipped */
};
void bn_verify_item_release(struct bn_verify_item *item);

/* Folders and receipts; or one list of paths or of lines of JSON ("-": standard input). */
struct bn_verify_source;
BN_MUST_CHECK bn_status bn_verify_source_open(struct bn_verify_source **out, const char *const *paths,
                                              size_t n, bn_error *err);
void bn_verify_source_close(struct bn_verify_source *source);
/* The next one, released by the caller; *more is false at the end. */
BN_MUST_CHECK bn_status bn_verify_source_next(struct bn_verify_source *source, struct bn_verify_item *item,
                                              bool *more, bn_error *err);
/* How many files and folders were passed over so far although they may be receipts, and the first one's name. */
uint64_t bn_verify_source_skipped(const struct bn_verify_source *source, const char **first);

/* ---- pipeline.c ---- */

/* What was found about one receipt. No pointers: ranks send it to each other as it is. */
struct bn_verify_result {
    enum bn_verify_outcome outcome;
    int exit_code; /* that bn-verify-receipt has for it alone */
    bool bound, claimable, replayed;
    bool present;   /* for ranks */
    char level[16]; /* "none" too */
    char rule[32];  /* the first one that failed or is undecided; "" without */
    char reason[sizeof(((struct bn_rule_result *)0)->reason) + 128];
    char receipt_sha256[BN_SHA256_HEX]; /* of its canonical text, without a signature; "": not read */
    char model_sha256[BN_SHA256_HEX];   /* as the receipt names it; "" without */
    uint64_t n_tokens;                  /* that a replay gave again */
    uint64_t check_ns, replay_ns;
};

/* Where receipts come from and results go. next is called for one item after the other, done once for each, in the
 * same order. */
struct bn_verify_feed {
    bn_status (*next)(void *user, struct bn_verify_item *item, bool *more, bn_error *err);
    bn_status (*done)(void *user, const struct bn_verify_item *item, const struct bn_verify_result *result,
                      bn_error *err);
    void *user;
};
struct bn_verify_pipeline;
BN_MUST_CHECK bn_status bn_verify_pipeline_open(struct bn_verify_pipeline **out, struct bn_verify *v,
                                                bn_error *err);
void bn_verify_pipeline_close(struct bn_verify_pipeline *pipeline);
/* Until the feed ends or an interruption. A receipt that cannot be checked is a result; an error is one of the
 * verifier. */
BN_MUST_CHECK bn_status bn_verify_pipeline_run(struct bn_verify_pipeline *pipeline,
                                               const struct bn_verify_feed *feed, bn_error *err);

/* batch.c */
BN_MUST_CHECK bn_status bn_verify_batch(struct bn_args *args, struct bn_verify *v, bn_error *err);

/* The commands. */
bn_status bn_verify_verify(struct bn_args *args, bn_error *err);
bn_status bn_verify_sign(struct bn_args *args, bn_error *err);
bn_status bn_verify_keygen(struct bn_args *args, bn_error *err);
bn_status bn_verify_rules(struct bn_args *args, bn_error *err);

#endif
