/* SPDX-License-Identifier: MIT
 *
 * Lines of a conversation. The one file that includes libedit. The history is kept in memory only: what was said to a
 * model is nobody else's business.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/run/run.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
#include <wchar.h>

#include "base/error.h"
#include "tools/cli/report.h"

#define HISTORY_LINES 1000
#define LOOK_MS 200 /* how often a line that is being typed looks for a signal */

struct bn_run_lines {
    EditLine *edit; /* NULL when input is not from a terminal */
    History *history;
};

static char *prompt(EditLine *edit)
{
    static char text[] = "> ";
    (void)edit;
    return text;
}

/* One character of the terminal; -1 when a signal came. Any thread may have taken the signal, and at any
 * time, so that waiting for input cannot rely on being interrupted by it. */
static int read_character(EditLine *edit, wchar_t *out)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    mbstate_t state = {0};
    (void)edit;
    for (;;) {
        char byte;
        if (bn_cli_interrupted() != 0) return -1;
        int ready = poll(&input, 1, LOOK_MS);
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        ssize_t n = ready > 0 ? read(STDIN_FILENO, &byte, 1) : -1;
        if (n <= 0) return (int)n;
        /* What the terminal makes of a Ctrl-D that was typed before libedit set it to single characters. */
        if (byte == '\0') byte = '\004';
        size_t done = mbrtowc(out, &byte, 1, &state);
        if (done == (size_t)-1) state = (mbstate_t){0}; /* not UTF-8: leave it out */
        if (done <= 1) return 1;
    }
}

bn_status bn_run_lines_open(struct bn_run_lines **out, bool on_terminal, bn_error *err)
{
    HistEvent event;
    struct bn_run_lines *lines = bn_alloc(1, sizeof *lines);
    *out = lines;
    if (lines == NULL) return bn_nomem(err);
    if (!on_terminal) return BN_OK;
    /* libedit reads characters by the locale. Models write UTF-8 whatever the locale says. */
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) (void)setlocale(LC_CTYPE, "");
    lines->history = history_init();
    lines->edit = el_init("bn-run", stdin, stderr, stderr);
    if (lines->history == NULL || lines->edit == NULL) {
        bn_run_lines_close(lines);
        *out = NULL;
        return bn_nomem(err);
    }
    history(lines->history, &event, H_SETSIZE, HISTORY_LINES);
    history(lines->history, &event, H_SETUNIQUE, 1);
    el_set(lines->edit, EL_PROMPT, prompt);
    el_set(lines->edit, EL_EDITOR, "emacs");
    el_set(lines->edit, EL_HIST, history, lines->history);
    el_set(lines->edit, EL_GETCFN, read_character);
    return BN_OK;
}

static bool next_edited(struct bn_run_lines *lines, struct bn_buf *line)
{
    HistEvent event;
    int n = 0;
    el_resize(lines->edit); /* the terminal may have changed its size since the last line */
    const char *text = el_gets(lines->edit, &n);
    if (text == NULL || n <= 0) return false;
    bn_buf_append(line, text, (size_t)n - (text[n - 1] == '\n'));
    if (line->len > 0 && !line->failed) history(lines->history, &event, H_ENTER, line->data);
    return true;
}

bool bn_run_lines_next(struct bn_run_lines *lines, struct bn_buf *line)
{
    int c;
    bn_buf_release(line);
    fflush(stdout);
    if (lines->edit != NULL) return next_edited(lines, line);
    while ((c = getchar()) != EOF && c != '\n')
        bn_buf_putc(line, (char)c);
    return (c != EOF || line->len > 0) && bn_cli_interrupted() == 0;
}

void bn_run_lines_close(struct bn_run_lines *lines)
{
    if (lines == NULL) return;
    if (lines->edit != NULL) el_end(lines->edit);
    if (lines->history != NULL) history_end(lines->history);
    bn_free(lines);
}
