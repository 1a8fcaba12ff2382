/* SPDX-License-Identifier: MIT
 *
 * The rules of receipts: one table, each rule with its id, its demand, and a function that gives a verdict
 * and a reason. docs/reference/receipt.md lists them.
 *
 * A statement of this toolchain claims everything, so a missing field fails the rule that needs it. A bare
 * predicate claims what it names; rules about the rest skip. Rules that were asked for by an option or a
 * policy never skip: a gate without data fails. A rule that cannot be checked for lack of memory gives no
 * verdict at all: bn_rules_run then fails.
 */
#ifndef BN_RECEIPT_RULES_H
#define BN_RECEIPT_RULES_H

#include "lab/receipt/open.h"

/* ---- what a verifier demands: the policy is its own, and nothing in a receipt can change it (policy.c) ---- */

struct bn_receipt_policy {
    bool accept_bare, accept_statement, accept_envelope; /* forms; all by default */
    bool require_signature;
    uint64_t
        signature_threshold; /* different keys that must verify an envelope; in a file it sets the above */
    bool require_gpu_kernels, require_quantized_kernels;
    bool validate_performance;
    bool require_clean_program; /* built from a committed tree */
    bool require_clean_git;     /* run in one */
    bool allow_corrections;
    uint64_t max_age_s;             /* 0: any */
    uint64_t clock_skew_s;          /* how far in the future a timestamp may lie */
    uint64_t rate_tolerance_milli;  /* thousandths by which a rate may differ from tokens / time */
    uint64_t bandwidth_bytes_per_s; /* 0: measured here */
    uint64_t bandwidth_percent;     /* of it that a receipt may claim */
    bn_json *source; /* owned: the lists model_sha256, program_sha256, off, require; NULL without a file */
};

void bn_receipt_policy_defaults(struct bn_receipt_policy *policy);
/* Reads the text of a policy file over the defaults. BN_ERR_FORMAT for an unknown member: a misspelt demand
 * must not be dropped. */
BN_MUST_CHECK bn_status bn_receipt_policy_read(struct bn_receipt_policy *policy, const char *text, size_t n,
                                               bn_error *err);
/* Whether anything is demanded, so that a receipt without data must fail. */
bool bn_receipt_policy_demands(const struct bn_receipt_policy *policy);
void bn_receipt_policy_release(struct bn_receipt_policy *policy);

/* Whether a rule may not skip: the list `require` has it, or a member or an option asks for it. */
bool bn_receipt_policy_requires(const struct bn_receipt_policy *policy, const char *rule);
/* Whether text is an element of the list of that name. *n_listed (may be NULL) gets the list's length. */
bool bn_receipt_policy_lists(const struct bn_receipt_policy *policy, const char *list, const char *text,
                             size_t *n_listed);

/* ---- the rules (rules.c) ---- */

enum bn_rule_level {
    BN_LEVEL_INTEGRITY,   /* digests and signatures hold */
    BN_LEVEL_CONSISTENCY, /* what is claimed fits together, and the policy's demands are met */
    BN_LEVEL_REPLAY,      /* a replay gave the same tokens */
    BN_LEVEL_COUNT
};
const char *bn_rule_level_name(enum bn_rule_level level);

enum bn_receipt_verdict {
    BN_VERDICT_SKIP,
    BN_VERDICT_PASS,
    BN_VERDICT_FAIL,
    BN_VERDICT_UNDECIDED, /* it was asked for, and this verifier cannot decide it */
    BN_VERDICT_COUNT
};
const char *bn_verdict_name(enum bn_receipt_verdict verdict);

struct bn_training_files; /* below */
struct bn_release_files;  /* below */
struct bn_check;          /* checks.h */

/* The result of a replay, see below. */
struct bn_replay_result {
    bool same;
    bn_exit undecided; /* not BN_EXIT_OK: memory, time or a program was missing, and nothing is shown */
    size_t n_tokens;   /* that were compared */
    bool chain;        /* the chain of digests was compared too */
    char reason[200];
};

/* What the receipt is compared with; borrowed. */
struct bn_rules_input {
    const struct bn_receipt *receipt;
    const struct bn_receipt_policy *policy;
    int64_t now_utc;
    const char *model_sha256;               /* of the model that the verifier has; NULL: none was given */
    bool model_is_default;                  /* the built-in model: another one is not a fault */
    const char *cpu_model;                  /* of this machine; NULL when unknown */
    uint64_t bandwidth_bytes_per_s;         /* the best rate measured here; 0: not measured */
    const struct bn_replay_result *replay;  /* NULL: not asked for */
    const struct bn_training_files *files;  /* of a training run; NULL: not looked for */
    const struct bn_release_files *release; /* of a provenance; NULL: the receipt of a run */
};

struct bn_rule_result {
    enum bn_receipt_verdict verdict;
    bool no_data;     /* it failed because a policy requires it, and there was nothing to check */
    bn_status status; /* not BN_OK: it could not be checked, and verdict means nothing */
    char reason[240];
};

struct bn_rule {
    const char *id;
    const char *demand;
    enum bn_rule_level level;
    bool (*check)(const struct bn_check *c);
};

#define BN_RULES_MAX 64u
#define BN_RULE_BOUND "bound-to-run" /* no policy can switch it off */

/* The rules of receipts of generations, or of records of training runs; and one by its id, NULL when there is none. */
const struct bn_rule *bn_rules(bool training, size_t *n);
const struct bn_rule *bn_rules_find(const char *id);

struct bn_rules_report {
    const struct bn_rule *rules; /* n_rules that ran */
    size_t n_rules;
    struct bn_rule_result results[BN_RULES_MAX]; /* in the order of the table */
    size_t n_passed, n_failed, n_skipped, n_undecided;
    bool verified;             /* nothing failed, nothing is undecided */
    bool unbound;              /* nothing failed, and nothing binds it to a run: it proves nothing */
    bool bound;                /* a digest or a signature covers the whole receipt */
    bool reached;              /* some level was reached: */
    enum bn_rule_level level;  /* the highest one */
    uint64_t steps, all_steps; /* of a training run: those that a replay repeated, of all; 0: not repeated */
    bn_exit exit_code; /* 0; 5: a digest or signature does not hold; 1: another rule failed; 9: none did,
                          and one is undecided */
};

/* Runs all rules. When one about integrity fails, the later ones skip. BN_ERR_NOMEM when a rule could not be
 * checked; the report is then empty. */
BN_MUST_CHECK bn_status bn_rules_run(struct bn_rules_report *report, const struct bn_rules_input *in,
                                     bn_error *err);
/* The rate at which a receipt claims to have read memory, which a measurement must reach; 0 without counters.
 */
uint64_t bn_rules_claimed_bandwidth(const struct bn_receipt *receipt);
/* The name of the level that was reached, "none", or "partial" when not every step was repeated. */
const char *bn_rules_level(const struct bn_rules_report *report);
/* The result of a rule by its id. */
const struct bn_rule_result *bn_rules_result(const struct bn_rules_report *report, const char *id);
/* The first rule that failed or, when none did, that is undecided: report->rules[it]. SIZE_MAX for none.
 */
size_t bn_rules_first_bad(const struct bn_rules_report *report);

/* Fit to be published with its speed: it is verified, a signature or digest covers all of it, and the rules about the
 * model, the replay, the kernels' work, the speed and the signature passed. */
bool bn_claimable(const struct bn_rules_report *report);

/* ---- replay (replay.c): the request of a receipt is run again, and must give the same tokens and the same chain of digests.
 * Any instruction set, thread count and batch can be used, because the engine's results do not depend on them. ---- */

/* Runs the request of a statement on a model that the caller has opened, from memory or with no_mmap, so that
 * no other program can write to its bytes (else BN_ERR_ARG). The digest of these very bytes is compared with
 * model.sha256. n_threads and n_batch 0 are the engine's defaults. When something differs the result is BN_OK
 * with result->same false; an error means that the replay was not possible. */
BN_MUST_CHECK bn_status bn_receipt_replay(const struct bn_receipt *receipt, const bn_model *model,
                                          uint32_t n_threads, uint32_t n_batch,
                                          struct bn_replay_result *result, bn_error *err);

/* ---- the parts, for a caller that generates itself ---- */

/* The request of a receipt, which outlives it. Closed by bn_replay_close, after an error too. */
struct bn_replay;
BN_MUST_CHECK bn_status bn_replay_open(struct bn_replay **out, const struct bn_receipt *receipt,
                                       bn_error *err);
void bn_replay_close(struct bn_replay *replay);
/* What is to be generated; its texts and tokens are the replay's. */
const bn_generation *bn_replay_request(const struct bn_replay *replay);
/* The tokens that its timeline needs room for: fewer than the receipt's context when it did not fill that. */
uint32_t bn_replay_n_ctx(const struct bn_replay *replay);
/* Makes the claimed tokens the drafts of a generation of that request, so that one pass evaluates many of them. They are
 * compared as they would be one after the other. Nothing for a model that cannot take back a token. */
void bn_replay_expect(const struct bn_replay *replay, const bn_model *model, bn_generation *generation);
/* Whether the receipt names this model, whose digest is given, with its tokenizer and shape; result->reason says what
 * differs. */
BN_MUST_CHECK bn_status bn_replay_check_model(struct bn_replay *replay, const bn_model *model,
                                              const char *sha256, bool *same, struct bn_replay_result *result,
                                              bn_error *err);
/* Compares a generation that has ended with the receipt. */
BN_MUST_CHECK bn_status bn_replay_compare(struct bn_replay *replay, const bn_model *model,
                                          const bn_generation *gen, struct bn_replay_result *result,
                                          bn_error *err);

/* ---- the record of a training run (training.c, training.json of bn-train): which of its files are at hand, and the
 * repetition of its first steps. docs/reference/receipt.md lists its rules. ---- */

/* What was found on this machine of the files that a record names. */
struct bn_training_files {
    char model_sha256[BN_SHA256_HEX]; /* model.gguf next to the record, or the one that was given; "": none */
    char checkpoint_sha256[BN_SHA256_HEX]; /* of the contents of the checkpoint next to it; "": none */
    size_t n_texts, n_texts_here;
    char changed[160]; /* a text whose digest differs; "": none */
};
/* Where they may be, and how a run is repeated. */
struct bn_training_options {
    const char *path;         /* of the record; model and checkpoint are next to it */
    const char *texts;        /* the folder of the texts; NULL: that of the record */
    const char *model_sha256; /* of a model that takes the place of the one next to it; NULL: none */
    uint32_t n_steps, n_threads;
    uint64_t timeout_ns;     /* 0: none */
    bool (*cancelled)(void); /* asked when a signal interrupts the run */
};
/* Looks for the files, in these folders alone: whoever wrote the record learns nothing about others. */
BN_MUST_CHECK bn_status bn_training_files_read(struct bn_training_files *files, const bn_json *record,
                                               const struct bn_training_options *options, bn_error *err);
/* Starts bn-train, which has to be next to this program, for the first n_steps, and compares losses and gradient norms
 * bit by bit; of all steps, validations and the model too. A run that was not possible is a result with same false.
 * BN_ERR_CANCELLED. */
BN_MUST_CHECK bn_status bn_training_repeat(const bn_json *record, const struct bn_training_options *options,
                                           struct bn_replay_result *result, bn_error *err);

/* ---- the provenance of a release (provenance.c) ---- */

struct bn_release_files {
    size_t n;        /* compared with their subjects */
    char wrong[200]; /* the first one that differs, is missing, or is not a subject; "": none */
};
/* One file, or a folder with all of them, in which nothing else may be but `own`, the provenance itself. */
BN_MUST_CHECK bn_status bn_release_files_read(struct bn_release_files *files, const bn_json *statement,
                                              const char *path, const char *own, bn_error *err);

#endif
