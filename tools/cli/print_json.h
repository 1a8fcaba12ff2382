/* SPDX-License-Identifier: MIT
 *
 * The one document that a command with --json prints.
 */
#ifndef BN_CLI_PRINT_JSON_H
#define BN_CLI_PRINT_JSON_H

#include "base/json.h"

/* Prints an indented document and a newline on standard output, and remembers that it was printed: a later
 * error then adds none. */
BN_MUST_CHECK bn_status bn_cli_print_json(const bn_json *document, bn_error *err);

#endif
