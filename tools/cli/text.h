/* SPDX-License-Identifier: MIT
 *
 * The text that a command line gives: --prompt, or --file.
 */
#ifndef BN_CLI_TEXT_H
#define BN_CLI_TEXT_H

#include "base/buf.h"
#include "tools/cli/options.h"

/* Appends the text of --prompt or of the file that --file names ("-": standard input); text->max bounds it.
 * BN_ERR_ARG when there is neither, or both; where the command has --tokens, the hint names that too. */
BN_MUST_CHECK bn_status bn_cli_text(const struct bn_args *args, struct bn_buf *text, bn_error *err);
/* The vocabulary of a model; an error with advice when its file has none. */
BN_MUST_CHECK bn_status bn_cli_tokenizer(const bn_model *model, const bn_tokenizer **out, bn_error *err);

#endif
