/* SPDX-License-Identifier: MIT
 *
 * The text that a command line gives: --prompt, --file, an argument, or what is piped into standard input.
 */
#ifndef BN_CLI_TEXT_H
#define BN_CLI_TEXT_H

#include "base/buf.h"
#include "tools/cli/options.h"

/* Appends the text args->prompt, the file args->file ("-": standard input), the argument of a command that
 * takes a text as one, or, without any of these, standard input when that is a pipe or a file. The bytes are
 * taken as they are; text->max bounds them. BN_ERR_ARG when there is no text, or more than one. ids: the value
 * of --tokens in a command that has it, for the hint; else NULL. */
BN_MUST_CHECK bn_status bn_cli_text(const struct bn_args *args, const struct bn_id_list *ids,
                                    struct bn_buf *text, bn_error *err);
/* Fails as bn_cli_text does, without reading the text: for a check before the model is opened. With ids no
 * text is needed. */
BN_MUST_CHECK bn_status bn_cli_text_check(struct bn_args *args, const struct bn_id_list *ids, bn_error *err);
/* The vocabulary of a model; an error with advice when its file has none. */
BN_MUST_CHECK bn_status bn_cli_tokenizer(const bn_model *model, const bn_tokenizer **out, bn_error *err);
/* fixtures/validation.txt, which a program carries when it uses this. */
extern const char bn_validation_text[];
extern const uint64_t bn_validation_text_bytes;

/* --think. */
enum bn_cli_think { BN_CLI_THINK_AUTO, BN_CLI_THINK_ON, BN_CLI_THINK_OFF };
/* The form of the template that thinks, or does not. BN_ERR_ARG when thinking is asked of a template that has none. */
BN_MUST_CHECK bn_status bn_cli_set_thinking(bn_template *tmpl, enum bn_cli_think think, bn_error *err);

/* "s" for every number but 1. */
const char *bn_cli_s(uint64_t n);

#endif
