/* SPDX-License-Identifier: MIT
 *
 * Opening the model that the command line names, or the built-in one. A program that
 * calls bn_cli_open_model grows by the 2.3 MB of that model; others do not.
 */
#ifndef BN_CLI_DEFAULT_MODEL_H
#define BN_CLI_DEFAULT_MODEL_H

#include "lab/profile/live.h"
#include "tools/cli/options.h"

/* The bytes of fixtures/built-in-i2_s.gguf, 64-byte aligned. */
extern const unsigned char bn_default_model_data[];
extern const uint64_t bn_default_model_bytes;
#define BN_DEFAULT_MODEL_NAME "built-in-i2_s.gguf"

/* Selects the instruction set args->isa and the device args->device, then opens args->model, or the built-in model.
 * args->repack wins over options->repack; options may be NULL. */
BN_MUST_CHECK bn_status bn_cli_open_model(bn_model **out, const struct bn_args *args,
                                          const bn_model_options *options, bn_error *err);

/* What evaluates a model: the name of its device, or the instruction set. */
const char *bn_cli_evaluator(const bn_model *model);
/* Where other models of a command are opened: *name for bn_model_options.device, of args->device; NULL: the CPU.
 * BN_ERR_ARG when it is none of the names of devices. */
BN_MUST_CHECK bn_status bn_cli_device(const char **name, const struct bn_args *args, bn_error *err);

/* The file that a text names, as --model gives it: a path when there is such a file, else what the cache of
 * bn-download holds under that name or "hf:" reference; nothing is downloaded. Allocated; NULL for NULL.
 * BN_ERR_NOT_FOUND when it is a reference, and not here; a path without a file is given as it is. */
BN_MUST_CHECK bn_status bn_cli_model_path(char **path, const char *text, bn_error *err);

/* A warning when the session has fewer threads than the asked-for number (0: none was asked for). */
void bn_cli_warn_threads(const bn_session *session, uint32_t asked);

/* What was opened, for messages and receipts: --model as it was given, or BN_DEFAULT_MODEL_NAME. */
const char *bn_cli_model_name(const struct bn_args *args);

/* ---- --live: a program publishes the profile of its session while it runs, for bn-bench top ---- */

struct bn_cli_live {
    bool on;
    const char *file; /* NULL: in the folder of this user */
    int level;        /* layer, brick, kernel */
};

/* The three options; `field` is a struct bn_cli_live. */
#define BN_OPTIONS_LIVE(type, field)                                                                       \
    BN_OPTION("live", "publish where the time goes, for 'bn-bench top'", .rare = true, .group = "Profile", \
              BN_TO_BOOL(type, field.on)),                                                                 \
        BN_OPTION("live-file", "the same, in FILE [XDG_RUNTIME_DIR/bn/PID]", .arg = "FILE", .rare = true,  \
                  .group = "Profile", BN_TO_TEXT(type, field.file), .path = BN_PATH_BOTH),                 \
        BN_OPTION("live-level", "detail of --live", .arg = "layer|brick|kernel", .rare = true,             \
                  .group = "Profile", .preset = "brick", BN_TO_CHOICE(type, field.level))

/* Publishes the profile of a session when that is asked for; else *out is NULL. Closed by bn_live_close before
 * the session. */
BN_MUST_CHECK bn_status bn_cli_live_open(struct bn_live **out, const struct bn_args *args,
                                         const struct bn_cli_live *choice, bn_session *session,
                                         bn_error *err);

#endif
