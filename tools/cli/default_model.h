/* SPDX-License-Identifier: MIT
 *
 * Opening the model that the command line names, or the built-in one. A program that
 * calls bn_cli_open_model grows by the 2.3 MB of that model; others do not.
 */
#ifndef BN_CLI_DEFAULT_MODEL_H
#define BN_CLI_DEFAULT_MODEL_H

#include "tools/cli/options.h"

/* The bytes of fixtures/built-in-i2_s.gguf, 64-byte aligned. */
extern const unsigned char bn_default_model_data[];
extern const uint64_t bn_default_model_bytes;
#define BN_DEFAULT_MODEL_NAME "built-in-i2_s.gguf"

/* Selects the instruction set args->isa, then opens args->model, or the built-in model. args->repack wins over
 * options->repack; options may be NULL. */
BN_MUST_CHECK bn_status bn_cli_open_model(bn_model **out, const struct bn_args *args,
                                          const bn_model_options *options, bn_error *err);

/* The file that a text names, as --model gives it: a path when there is such a file, else what the cache of
 * bn-download holds under that name or "hf:" reference; nothing is downloaded. Allocated; NULL for NULL.
 * BN_ERR_NOT_FOUND when it is a reference, and not here; a path without a file is given as it is. */
BN_MUST_CHECK bn_status bn_cli_model_path(char **path, const char *text, bn_error *err);

/* A warning when the session has fewer threads than the asked-for number (0: none was asked for). */
void bn_cli_warn_threads(const bn_session *session, uint32_t asked);

/* What was opened, for messages and receipts: --model as it was given, or BN_DEFAULT_MODEL_NAME. */
const char *bn_cli_model_name(const struct bn_args *args);

#endif
