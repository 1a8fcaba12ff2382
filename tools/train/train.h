/* SPDX-License-Identifier: MIT
 *
 * The commands of bn-train share: options, the texts of a run, and the run itself.
 */
#ifndef BN_TOOLS_TRAIN_H
#define BN_TOOLS_TRAIN_H

#include "base/error.h"
#include "tools/cli/options.h"
#include "tools/cli/progress.h"
#include "tools/cli/ranks.h"
#include "tools/cli/report.h"
#include "train/checkpoint.h"

#define BN_TRAIN_TYPES "i2_s|tq2_0|tq1_0|q2_0|pq2_0|ptq1_0"
#define BN_TRAIN_EMBEDDINGS "f16|q8_0"
#define BN_CHECKPOINT_NAME "checkpoint.bntrain"

/* Options of the model file. */
struct bn_train_file {
    const char *type, *embedding, *name;
    uint32_t ctx;
    double temperature; /* 0: as trained */
};

/* Options of all commands; each has some of them. */
struct bn_train_options {
    struct bn_texts texts, late_texts, validations, specials;
    const char *tokenizer, *output, *name; /* name: of a vocabulary */
    uint32_t vocab;
    const char *pre;
    int arch, group;
    uint32_t layers, width, heads, kv_heads, ffn, context;
    double rope_base;
    uint32_t steps, batch, micro_batch, warm_up;
    uint64_t seed;
    int optimiser;
    double rate, rate_2, decay, decay_2, stage_2, beta_1, beta_2, clip, late;
    uint32_t save_every, validate_every, until;
    uint64_t time_limit;
    uint32_t threads;
    struct bn_train_file file;
};

/* The settings of a run; the vocabulary is known by now. BN_ERR_ARG for sizes that do not fit together. */
BN_MUST_CHECK bn_status bn_train_settings(struct bn_train_settings *s, const struct bn_train_options *o,
                                          uint32_t n_vocab, bn_error *err);

/* The command "bench". */
bn_status bn_train_bench(struct bn_args *args, bn_error *err);

/* ---- texts ---- */

/* The tokens of a run: what it is trained on, late in the run too, and what it is validated with. */
struct bn_train_texts {
    struct bn_corpus main, late, validation;
    bn_tokenizer *tokenizer;
    uint32_t n_vocab;
    struct bn_buf tokenizer_file; /* GGUF */
};
/* Learns a vocabulary from the texts. */
BN_MUST_CHECK bn_status bn_train_learn(struct bn_buf *file, const struct bn_train_options *o, bool quiet,
                                       bn_error *err);
/* Opens a vocabulary that is in texts->tokenizer_file. */
BN_MUST_CHECK bn_status bn_train_open_vocabulary(struct bn_train_texts *texts, bn_error *err);
/* Reads the texts of one role ("text", "late", "validation") into a corpus, and appends them to `data`, an array of
 * the run's document; or, when the array has them, checks their digests. */
BN_MUST_CHECK bn_status bn_train_read_texts(struct bn_train_texts *texts, struct bn_corpus *corpus,
                                            const char *role, const struct bn_texts *typed, bn_json *data,
                                            bn_error *err);
/* Reads the texts that a checkpoint names again. */
BN_MUST_CHECK bn_status bn_train_reread_texts(struct bn_train_texts *texts, const bn_json *data,
                                              bn_error *err);
void bn_train_texts_release(struct bn_train_texts *texts);

/* ---- the run ---- */

struct bn_train_run {
    struct bn_args *args;
    const struct bn_train_options *options;
    struct bn_ranks ranks;
    struct bn_trainer trainer;
    struct bn_train_texts texts;
    bn_json *document; /* of checkpoints */
    char sha256[BN_SHA256_HEX];
    uint32_t saved_step;
    bool saved, failed; /* failed: loss or gradient were not finite */
    uint64_t began_ns;
    uint32_t began_step;
};
/* Steps until the end, a limit or an interruption; with checkpoints, validations and files in the output folder. */
BN_MUST_CHECK bn_status bn_train_run(struct bn_train_run *run, bn_error *err);
void bn_train_run_release(struct bn_train_run *run);

/* Rank 0, when its trainer is ready: gives the other ranks what they need. Nothing for one rank. */
BN_MUST_CHECK bn_status bn_train_lead(struct bn_train_run *run, bn_error *err);
/* The other ranks: the whole run. */
BN_MUST_CHECK bn_status bn_train_follow(struct bn_train_run *run, bn_error *err);

/* What the ranks of a run cost, as rank 0 saw it. */
struct bn_train_shares {
    double exchange, wait;  /* shares of the time: sending gradients, waiting for slower ranks */
    double balance;         /* time of the slowest rank over the mean of all; 1 is best */
    double bytes, messages; /* that a rank sends in a step */
};
/* For a trainer that is one of several. */
struct bn_train_shares bn_train_shares(const struct bn_trainer *t);

struct bn_export bn_train_export(const struct bn_train_file *file);
/* Puts how the model file is written, as "model_file", into the document of a run. What the command line does not give
 * is that of the document before, if any. The texts of the options are then those of the document. */
void bn_train_keep_file(bn_json *document, const bn_json *before, const struct bn_args *args);
/* Writes the model file; hex is its digest. */
BN_MUST_CHECK bn_status bn_train_write_model(const char *path, const struct bn_weights *w,
                                             struct bn_str tokenizer, const struct bn_train_file *file,
                                             char hex[BN_SHA256_HEX], bn_error *err);
/* Puts "program" and "library" (the BLAS). */
void bn_train_put_origin(bn_json *doc);
/* Writes training.json in the output folder; model_sha256 may be "". Prints the document with --json. */
BN_MUST_CHECK bn_status bn_train_write_record(const struct bn_train_run *run, const char *model_sha256,
                                              bn_error *err);
/* Bits per byte of the validation text for a mean loss in nats a token. */
double bn_train_bits_per_byte(const struct bn_corpus *validation, double loss);

#endif
