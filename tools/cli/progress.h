/* SPDX-License-Identifier: MIT
 *
 * One line on standard error with the progress of a long command and the time left. Only on a terminal, and
 * not with -q. It always fits the terminal: a longer line would leave a trail of old ones.
 */
#ifndef BN_CLI_PROGRESS_H
#define BN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bn_progress {
    const char *label;
    uint64_t total, began_ns, shown_ns;
    bool on;
};

void bn_progress_begin(struct bn_progress *p, const char *label, uint64_t total, bool quiet);
/* This many of the total are done. Shown ten times a second at most. */
void bn_progress_show(struct bn_progress *p, uint64_t done);
/* Clears the line. Also before other messages: the next show brings it back. */
void bn_progress_clear(struct bn_progress *p);

/* ---- the lines themselves; pure functions ---- */

/* "label  12/60  20 %  3.4/s  ETA 0:14" in at most this many columns; no rate and no ETA while none is done,
 * the label alone while the total is 0. */
void bn_progress_line(char *out, size_t room, size_t columns, const struct bn_progress *p, uint64_t done,
                      uint64_t elapsed_ns);
/* "name  [####    ]  tail" in at most this many columns; share is 0 to 1, below 0 there is no bar. tails ends
 * with NULL and goes from the longest text to the shortest. The first one is taken that leaves space for a
 * part of the name and for a short bar; if there is none, the shortest, without the name, then without the
 * bar. A name that is too long loses its middle. */
void bn_progress_fit(char *out, size_t room, size_t columns, const char *name, double share,
                     const char *const *tails);
/* "4:16", "1:38:20"; returns out. */
#define BN_PROGRESS_TIME_ROOM 32u
char *bn_progress_time(char out[BN_PROGRESS_TIME_ROOM], uint64_t seconds);
/* Columns for such a line on standard error: one less than the terminal has, at most 99. */
size_t bn_progress_columns(void);

#endif
