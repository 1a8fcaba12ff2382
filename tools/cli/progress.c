/* SPDX-License-Identifier: MIT
 *
 * Draws a progress bar on a terminal; see progress.h.
 */
#define _GNU_SOURCE
#include "tools/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define SHOW_EVERY_NS UINT64_C(100000000)

void bn_progress_begin(struct bn_progress *p, const char *label, uint64_t total, bool quiet)
{
    const char *term = getenv("TERM");
    *p = (struct bn_progress){.label = label, .total = total, .began_ns = bn_clock_ns()};
    p->on = !quiet && term != NULL && strcmp(term, "dumb") != 0 && isatty(STDERR_FILENO) == 1;
    bn_progress_show(p, 0);
}

size_t bn_progress_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 79;
    return size.ws_col > 100 ? 99 : (size_t)size.ws_col - 1;
}

char *bn_progress_time(char out[BN_PROGRESS_TIME_ROOM], uint64_t seconds)
{
    unsigned long long t = seconds;
    if (t >= 3600)
        snprintf(out, BN_PROGRESS_TIME_ROOM, "%llu:%02llu:%02llu", t / 3600, t / 60 % 60, t % 60);
    else
        snprintf(out, BN_PROGRESS_TIME_ROOM, "%llu:%02llu", t / 60, t % 60);
    return out;
}

/* ---- fitting ---- */

/* Columns of the UTF-8 character that begins at c, at most: wide ones are among those of 3 and 4 bytes. */
static size_t columns_of(char c)
{
    unsigned char byte = (unsigned char)c;
    return (byte & 0xC0) == 0x80 ? 0 : byte >= 0xE0 ? 2 : 1;
}

static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += columns_of(*text);
    return width;
}

/* The longest beginning of a text that fits, in bytes. */
static size_t beginning(const char *text, size_t columns)
{
    size_t n = 0;
    for (size_t width = 0; text[n] != '\0' && (width += columns_of(text[n])) <= columns;)
        n++;
    return n;
}

/* The name in at most this many columns: "ggml-model-...". */
static void put_name(struct bn_buf *out, const char *name, size_t columns)
{
    bool cut = width_of(name) > columns && columns >= 5;
    bn_buf_append(out, name, beginning(name, columns - (cut ? 3 : 0)));
    bn_buf_puts(out, cut ? "..." : "");
}

#define NAME_COLUMNS 12u /* of a longer name at least this many are shown */
#define FEW_CELLS 10u
#define MOST_CELLS 24u
#define AROUND_BAR 4u /* brackets, and two blanks */

void bn_progress_fit(char *out, size_t room, size_t columns, const char *name, double share,
                     const char *const *tails)
{
    size_t full = width_of(name), shown = full < NAME_COLUMNS ? full : NAME_COLUMNS;
    size_t cells = share >= 0 ? FEW_CELLS : 0, around = share >= 0 ? AROUND_BAR : 0, i = 0, used;
    while ((used = shown + 2 + cells + around + strlen(tails[i])) > columns && tails[i + 1] != NULL)
        i++;
    if (used > columns) {
        used -= shown + 2;
        shown = 0;
    }
    if (used > columns) {
        used -= cells + around;
        cells = 0;
    }
    size_t spare = columns > used ? columns - used : 0;
    size_t more = shown == 0 ? 0 : full - shown < spare ? full - shown : spare;
    if (cells > 0) cells = cells + (spare - more) < MOST_CELLS ? cells + (spare - more) : MOST_CELLS;
    struct bn_buf line = {.max = 4096};
    if (shown > 0) {
        put_name(&line, name, shown + more);
        bn_buf_puts(&line, "  ");
    }
    if (cells > 0) {
        size_t filled = (size_t)(share * (double)cells);
        bn_buf_putc(&line, '[');
        for (size_t k = 0; k < cells; k++)
            bn_buf_putc(&line, k < filled ? '#' : ' ');
        bn_buf_puts(&line, "]  ");
    }
    bn_buf_append(&line, tails[i], beginning(tails[i], columns));
    snprintf(out, room, "%s", line.data != NULL && !line.failed ? line.data : "");
    bn_buf_release(&line);
}

void bn_progress_line(char *out, size_t room, size_t columns, const struct bn_progress *p, uint64_t done,
                      uint64_t elapsed_ns)
{
    char count[64], percent[16], rate[32] = "", left[48] = "", time[BN_PROGRESS_TIME_ROOM];
    char tails[4][160];
    unsigned long long d = done, total = p->total;
    double seconds = (double)elapsed_ns * 1e-9, share = total > 0 ? (double)done / (double)total : 0;
    snprintf(count, sizeof count, "%llu/%llu  ", d, total);
    snprintf(percent, sizeof percent, "%.0f %%", 100 * share);
    if (done > 0 && total > 0 && seconds > 0) {
        snprintf(rate, sizeof rate, "  %.3g/s", (double)done / seconds);
        uint64_t rest = share < 1 ? (uint64_t)(seconds * (1 / share - 1) + 0.5) : 0;
        snprintf(left, sizeof left, "  ETA %s", bn_progress_time(time, rest));
    }
    snprintf(tails[0], sizeof tails[0], "%s%s%s%s", count, percent, rate, left);
    snprintf(tails[1], sizeof tails[1], "%s%s%s", count, percent, left);
    snprintf(tails[2], sizeof tails[2], "%s%s", percent, left);
    snprintf(tails[3], sizeof tails[3], "%s", percent);
    const char *const list[] = {tails[0], tails[1], tails[2], tails[3], NULL};
    const char *const none[] = {"", NULL};
    bn_progress_fit(out, room, columns, p->label, -1, total > 0 ? list : none);
}

void bn_progress_show(struct bn_progress *p, uint64_t done)
{
    char line[512];
    uint64_t now = p->on ? bn_clock_ns() : 0;
    if (!p->on || (p->shown_ns != 0 && now - p->shown_ns < SHOW_EVERY_NS)) return;
    p->shown_ns = now;
    bn_progress_line(line, sizeof line, bn_progress_columns(), p, done, now - p->began_ns);
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
