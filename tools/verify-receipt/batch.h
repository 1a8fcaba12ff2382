/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt --batch: many receipts, each checked as it is alone, several replayed in one pass over the weights.
 *
 * source.c finds the receipts, pipeline.c checks and replays them, results.c writes what was found, verify.c connects
 * them, ranks.c divides them among processes. Memory grows with the number of receipts by a digest, and with --junit by a line.
 */
#ifndef BN_VERIFY_BATCH_H
#define BN_VERIFY_BATCH_H

#include "base/ranks.h"
#include "tools/verify-receipt/verify_receipt.h"

/* ---- source.c ---- */

/* A receipt to be checked: a file, or a line of a file. */
struct bn_verify_item {
    char *file;
    uint64_t line;      /* 0: the whole file */
    struct bn_buf text; /* of the line; empty for a file */
    bool too_long;      /* the line exceeds the limit of a receipt, and was skipped */
};
void bn_verify_item_release(struct bn_verify_item *item);

/* A folder, a list of paths, or lines of JSON ("-": standard input). */
struct bn_verify_source;
BN_MUST_CHECK bn_status bn_verify_source_open(struct bn_verify_source **out, const char *path, bn_error *err);
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
    bool present;   /* for ranks.c */
    char level[16]; /* "none" too */
    char rule[32];  /* the first one that failed or is undecided; "" without */
    char reason[sizeof(((struct bn_rule_result *)0)->reason) + 128];
    char receipt_sha256[BN_SHA256_HEX]; /* of its canonical text, without a signature; "": not read */
    char model_sha256[BN_SHA256_HEX];   /* as the receipt names it; "" without */
    uint64_t n_passed, n_tokens;        /* rules; tokens that a replay gave again */
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

/* ---- results.c ---- */

/* Standard output and --junit. */
struct bn_verify_results;
BN_MUST_CHECK bn_status bn_verify_results_open(struct bn_verify_results **out, const struct bn_verify *v,
                                               bn_error *err);
BN_MUST_CHECK bn_status bn_verify_results_add(struct bn_verify_results *results,
                                              const struct bn_verify_item *item,
                                              const struct bn_verify_result *result, bn_error *err);
/* The summary, the file of --junit, and the exit code. */
BN_MUST_CHECK bn_status bn_verify_results_finish(struct bn_verify_results *results,
                                                 const struct bn_verify_source *source, int *exit_code,
                                                 bn_error *err);
uint64_t bn_verify_results_n(const struct bn_verify_results *results);
void bn_verify_results_close(struct bn_verify_results *results);

/* ---- ranks.c ---- */

/* All receipts, divided among the ranks; source and results are those of rank 0, NULL on the others. */
BN_MUST_CHECK bn_status bn_verify_ranks_run(const struct bn_ranks *ranks, uint32_t n_sequences,
                                            struct bn_verify_pipeline *pipeline,
                                            struct bn_verify_source *source,
                                            struct bn_verify_results *results, bn_error *err);

#endif
