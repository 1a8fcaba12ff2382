/* SPDX-License-Identifier: MIT
 *
 * See progress.h.
 */
#define _GNU_SOURCE
#include "tools/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define SHOW_EVERY_NS UINT64_C(100000000)

void bn_progress_begin(struct bn_progress *p, const char *label, uint64_t total, bool quiet)
{
    const char *term = getenv("TERM");
    *p = (struct bn_progress){.label = label, .total = total, .began_ns = bn_clock_ns()};
    p->on = !quiet && term != NULL && strcmp(term, "dumb") != 0 && isatty(STDERR_FILENO) == 1;
    bn_progress_show(p, 0);
}

void bn_progress_line(char *out, size_t room, const struct bn_progress *p, uint64_t done, uint64_t elapsed_ns)
{
    unsigned long long d = done, total = p->total;
    double seconds = (double)elapsed_ns * 1e-9, share = total > 0 ? (double)done / (double)total : 1;
    int n = snprintf(out, room, "%s  %llu/%llu  %.0f %%", p->label, d, total, 100 * share);
    if (done == 0 || seconds <= 0 || n < 0 || (size_t)n >= room) return;
    unsigned long long left = (unsigned long long)(seconds * (1 / share - 1) + 0.5);
    n += snprintf(out + n, room - (size_t)n, "  %.3g/s  ETA ", (double)done / seconds);
    if ((size_t)n >= room) return;
    if (left >= 3600)
        snprintf(out + n, room - (size_t)n, "%llu:%02llu:%02llu", left / 3600, left / 60 % 60, left % 60);
    else
        snprintf(out + n, room - (size_t)n, "%llu:%02llu", left / 60, left % 60);
}

void bn_progress_show(struct bn_progress *p, uint64_t done)
{
    char line[128];
    uint64_t now = p->on ? bn_clock_ns() : 0;
    if (!p->on || (p->shown_ns != 0 && now - p->shown_ns < SHOW_EVERY_NS)) return;
    p->shown_ns = now;
    bn_progress_line(line, sizeof line, p, done, now - p->began_ns);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
}

void bn_progress_clear(struct bn_progress *p)
{
    if (!p->on || p->shown_ns == 0) return;
    p->shown_ns = 0;
    fputs("\r\033[K", stderr);
    fflush(stderr);
}
