/* SPDX-License-Identifier: MIT
 *
 * One line on standard error that says how far a long command is, and when it will be done. Only on a
 * terminal, and not with -q.
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
/* So many of the total are done. Shown ten times a second at most. */
void bn_progress_show(struct bn_progress *p, uint64_t done);
/* Clears the line. Also before other messages: the next show brings it back. */
void bn_progress_clear(struct bn_progress *p);

/* The line itself, for tests: "label  12/60  20 %  3.4/s  ETA 0:14"; no rate and no ETA while none is done.
 */
void bn_progress_line(char *out, size_t room, const struct bn_progress *p, uint64_t done,
                      uint64_t elapsed_ns);

#endif
