/* SPDX-License-Identifier: MIT
 *
 * The struct of a command's option values; see bn_option.to in options.h.
 */
#ifndef BN_CLI_FIELDS_H
#define BN_CLI_FIELDS_H

#include "tools/cli/options.h"

/* Allocates the command's struct and fills it. BN_ERR_ARG for a value that is malformed or out of range. */
BN_MUST_CHECK bn_status bn_fields_fill(struct bn_args *args, bn_error *err);
void bn_fields_release(struct bn_args *args);

#endif
