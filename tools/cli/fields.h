/* SPDX-License-Identifier: MIT
 *
 * The values of options: the struct of a command that they fill (bn_option.to in options.h), and how messages
 * spell them.
 */
#ifndef BN_CLI_FIELDS_H
#define BN_CLI_FIELDS_H

#include "tools/cli/options.h"

/* Allocates the command's struct and fills it. BN_ERR_ARG for a value that is malformed or out of range. */
BN_MUST_CHECK bn_status bn_fields_fill(struct bn_args *args, bn_error *err);
void bn_fields_release(struct bn_args *args);
/* The last value of an option; NULL when it was not given. */
const struct bn_value *bn_fields_value(const struct bn_args *args, const struct bn_option *o);

/* Part of an argument as messages quote it, with control characters escaped. */
struct bn_quoted {
    char text[80];
};
struct bn_quoted bn_fields_quote(const char *text, size_t n);
/* An option as it was given: "-n", "--n-predict" or its variable; v may be NULL. Returns out. */
const char *bn_fields_typed(const struct bn_option *o, const struct bn_value *v, char out[BN_TYPED]);

#endif
