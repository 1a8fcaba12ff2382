/* SPDX-License-Identifier: MIT
 *
 * The record of a training run (training.json of bn-train): which of its files are at hand, its rules, and the
 * repetition of its first steps. docs/reference/receipt.md lists the rules.
 */
#ifndef BN_VERIFY_TRAINING_H
#define BN_VERIFY_TRAINING_H

#include "lab/verify/checks.h"

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
 * bit by bit. A run that was not possible is a result with same false. BN_ERR_CANCELLED. */
BN_MUST_CHECK bn_status bn_training_repeat(const bn_json *record, const struct bn_training_options *options,
                                           struct bn_replay_result *result, bn_error *err);

/* The rules, in the order of checking. */
#define BN_TRAINING_RULES(X)                                                                                 \
    X("signature", signature, INTEGRITY, "enough of the given keys verify the envelope")                     \
    X("training-model", training_model, INTEGRITY, "the model file has the digest of the record")            \
    X("training-checkpoint", training_checkpoint, INTEGRITY, "the checkpoint has the digest of the record")  \
    X("training-texts", training_texts, INTEGRITY, "the texts have the digests of the record")               \
    X(BN_RULE_BOUND, bound_to_run, CONSISTENCY, "a signature, a file of the run or a replay binds it")       \
    X("form", form, CONSISTENCY, "the policy accepts this form")                                             \
    X("training-settings", training_settings, CONSISTENCY, "every setting is within the limits of bn-train") \
    X("training-steps", training_steps, CONSISTENCY,                                                         \
      "settings, steps and tokens fit together, and the run is complete")                                    \
    X("training-losses", training_losses, CONSISTENCY, "each step has a finite loss and gradient norm")      \
    X("training-validations", training_validations, CONSISTENCY,                                             \
      "perplexity and bits per byte follow from the losses")                                                 \
    X("training-origin", training_origin, CONSISTENCY,                                                       \
      "model, program and working tree are what the policy demands")                                         \
    X("replay", replay, REPLAY, "--replay: the first steps give the same bits")

#define X(id, name, level, demand) bool bn_check_##name(const struct bn_check *c);
BN_TRAINING_RULES(X)
#undef X

#endif
