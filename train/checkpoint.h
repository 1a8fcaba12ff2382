/* SPDX-License-Identifier: MIT
 *
 * Checkpoints: everything that a run needs to go on with the same bits, in one file. A file is replaced by renaming a
 * complete one, so a killed run leaves the previous checkpoint or the new one.
 *
 * Layout, little endian: "BNTRAIN1"; u64 bytes of the document, of the tokenizer, of the curve, of each array; these
 * bytes; sha256 of all before. The document is JSON (settings, step, data, program, model_file), the tokenizer a GGUF
 * file without tensors, the curve struct bn_train_point, the arrays masters and two moments in binary32.
 *
 * A trained model as a GGUF file: ternary matrices in a ternary type, the embedding in F16 or Q8_0, norms in F32, the
 * keys of the tokenizer's file.
 */
#ifndef BN_TRAIN_CHECKPOINT_H
#define BN_TRAIN_CHECKPOINT_H

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "gguf/types.h"
#include "train/trainer.h"
#include "train/weights.h"

#define BN_CHECKPOINT_SCHEMA "bn.training/1"

/* Settings as members of a JSON object, and back. BN_ERR_FORMAT names a member that is missing or wrong. */
void bn_train_settings_put(bn_json *object, const struct bn_train_settings *settings);
BN_MUST_CHECK bn_status bn_train_settings_get(struct bn_train_settings *settings, const bn_json *object,
                                              bn_error *err);

/* Writes the run as it is. The document gets its schema, settings and step here; the caller's members are kept. hex:
 * the digest at the file's end. */
BN_MUST_CHECK bn_status bn_checkpoint_write(const char *path, const struct bn_trainer *t, bn_json *document,
                                            struct bn_str tokenizer, char hex[BN_SHA256_HEX], bn_error *err);

/* An open file. */
struct bn_checkpoint {
    struct bn_file_map map;
    bn_json *document;
    struct bn_train_settings settings;
    uint32_t step;
    struct bn_str tokenizer;
    const struct bn_train_point *points;
    size_t n_points;
    const float *arrays; /* masters, then the moments */
    size_t n_values;     /* of each */
    char sha256[BN_SHA256_HEX];
};
/* BN_ERR_FORMAT for another kind of file, BN_ERR_INTEGRITY when the digest is wrong. */
BN_MUST_CHECK bn_status bn_checkpoint_open(struct bn_checkpoint *c, const char *path, bn_error *err);
void bn_checkpoint_close(struct bn_checkpoint *c);
/* Puts a trainer with these settings where the checkpoint's was. */
BN_MUST_CHECK bn_status bn_checkpoint_restore(const struct bn_checkpoint *c, struct bn_trainer *t,
                                              bn_error *err);

/* The keys of a model's shape; n_ctx: the context that the file states; 0: the training window. */
struct bn_gguf_writer;
void bn_train_put_hparams(struct bn_gguf_writer *w, const bn_hparams *hp, uint32_t n_ctx);

struct bn_export {
    uint32_t type;      /* of ternary matrices: I2_S, TQ1_0, TQ2_0, Q2_0, PQ2_0, PTQ1_0 */
    uint32_t embedding; /* F16 or Q8_0 */
    const char *name;   /* general.name */
    uint32_t n_ctx;     /* the context that the file states; 0: the training window */
    double temperature; /* logits are divided by it, by the gains of the last norm; 0: 1 */
};
/* BN_ERR_UNSUPPORTED when the type cannot store the weights: a scale for each matrix or group has to be that of whole
 * blocks. */
BN_MUST_CHECK bn_status bn_export_check(const struct bn_weights *w, const struct bn_export *how,
                                        bn_error *err);
/* Checks this, and appends the file's bytes to out. */
BN_MUST_CHECK bn_status bn_export_gguf(struct bn_buf *out, const struct bn_weights *w,
                                       struct bn_str tokenizer, const struct bn_export *how, bn_error *err);

#endif
