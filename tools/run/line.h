/* SPDX-License-Identifier: MIT
 *
 * Lines of a conversation: on a terminal with editing and a history (libedit), else as they come.
 */
#ifndef BN_RUN_LINE_H
#define BN_RUN_LINE_H

#include "base/buf.h"

struct bn_run_lines;

/* on_terminal: standard input and standard error are a terminal; a prompt is shown on the latter. */
BN_MUST_CHECK bn_status bn_run_lines_open(struct bn_run_lines **out, bool on_terminal, bn_error *err);
/* The next line of standard input, without its newline. False at the end of the input, or when a signal came
 * that bn_cli_catch_interrupt catches. */
bool bn_run_lines_next(struct bn_run_lines *lines, struct bn_buf *line);
void bn_run_lines_close(struct bn_run_lines *lines);

#endif
