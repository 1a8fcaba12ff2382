/* SPDX-License-Identifier: MIT
 *
 * Which model a baseline is recorded with, when none is named: where others look, in their order.
 */
#ifndef BN_FLAMEGRAPH_DISCOVER_H
#define BN_FLAMEGRAPH_DISCOVER_H

#include "tools/cli/options.h"

#define BN_FLAMEGRAPH_MODEL "bitnet-b1.58-2b-4t" /* its name in the registry */

/* Finds the model: the operand (NULL or "-": none), --model or its variable, the usual places below the
 * working folder, what bn-download fetched, else the one that the program carries (*path is NULL then).
 * *path is allocated; why, of 200 bytes, says which it is and why. BN_ERR_NOT_FOUND for one that was named
 * and is not there. */
BN_MUST_CHECK bn_status bn_flamegraph_find_model(char **path, char why[200], const struct bn_args *args,
                                                 const char *operand, bn_error *err);

#endif
