/* SPDX-License-Identifier: MIT
 *
 * What programs say besides their results: errors with a hint, warnings, notes; and the safe use of standard
 * output and signals. Everything here goes to standard error; standard output carries results only.
 *
 * bn_cli_main calls the functions of the last part; commands use the first two. The state (program name,
 * colours, -q, -v) is the process's: there is one standard error.
 */
#ifndef BN_CLI_REPORT_H
#define BN_CLI_REPORT_H

#include <stdio.h>

#include "base/json.h"

/* ---- messages ---- */

/* "bn-run: error: model.gguf: message (at byte 123)", a line "hint: ..." when there is one. Returns the exit
 * code. For errors that do not end the program; the one that does is returned from the command. */
int bn_report_error(const bn_error *err);
/* "bn-run: warning: ..."; nothing with -q. */
void bn_report_warning(const char *fmt, ...) BN_PRINTF(1, 2);
size_t bn_report_n_warnings(void); /* so far; those that -q hides too */
/* Writes what standard output holds back; bn_report_finish reports a failure with its reason. */
void bn_report_flush(void);
/* "bn-run: ..."; only with level times -v or more (level 0: unless -q). */
void bn_report_note(unsigned level, const char *fmt, ...) BN_PRINTF(2, 3);

/* Writes text of a model: as it is to a file or a pipe; on a terminal, which would obey them, control
 * characters other than newline and tab become \xNN. */
void bn_print_model_text(FILE *stream, const char *text, size_t n);

/* Whether a stream gets colours: --color, else NO_COLOR, TERM=dumb and whether it is a terminal. */
bool bn_report_color(FILE *stream);
/* Columns of the terminal that a stream is, 80 for anything else; 40 to 100. */
size_t bn_report_columns(FILE *stream);

/* A command with --json that begins to write its document says so. When it fails before, bn_cli_main puts
 * {"schema": "bn.error/1", ...} on standard output in its place. */
void bn_report_json_began(void);
/* Prints the one document of a command, indented, and a newline: it has begun with that. */
BN_MUST_CHECK bn_status bn_cli_print_json(const bn_json *document, bn_error *err);
/* The same, or as one line that is written at once; and releases it. */
BN_MUST_CHECK bn_status bn_cli_flush_json(bn_json *document, bool line, bn_error *err);
/* Writes a text to a file; for NULL or "-" to standard output. */
BN_MUST_CHECK bn_status bn_cli_write(const char *path, const struct bn_buf *text, bn_error *err);
/* Prints and releases a text, or a table. */
BN_MUST_CHECK bn_status bn_cli_print_text(struct bn_buf *text, bn_error *err);
struct bn_table;
BN_MUST_CHECK bn_status bn_cli_print_table(struct bn_table *table, bn_error *err);

/* ---- interruption ---- */

/* From now on the first SIGINT or SIGTERM only sets a flag; the second one ends the process as usual. */
void bn_cli_catch_interrupt(void);
/* What the second one prints on standard error before it ends the process, such as the end of a colour: a literal. */
void bn_cli_last_words(const char *text);
/* Forgets the signal that came, and catches the next one: for a program that goes on after Ctrl-C. */
void bn_cli_forget_interrupt(void);
/* The number of the signal that came, 0 while none did. A command that stopped for it sets
 * args->exit_code = 128 + that. */
int bn_cli_interrupted(void);
bool bn_cli_is_interrupted(void); /* for the member "cancelled" of lab/kit */

/* ---- for bn_cli_main ---- */

enum bn_color { BN_COLOR_AUTO, BN_COLOR_ALWAYS, BN_COLOR_NEVER };

/* Names the program; keeps descriptors 0 to 2 from being given to files when they are closed; turns SIGBUS
 * (a mapped file shrank) into a message and exit 8, and SIGXFSZ (file size limit) into an error of write. */
void bn_report_start(const char *program);
void bn_report_set(enum bn_color color, bool quiet, unsigned verbose, bool json);
/* The error document of --json, unless the command's own was begun. */
void bn_report_json_error(const bn_error *err, int exit_code);
/* Flushes standard output and returns the exit code: the one given, 8 when bytes were lost, 141 without a
 * word when the reader went away. */
int bn_report_finish(int exit_code);

#endif
