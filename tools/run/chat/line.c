/* SPDX-License-Identifier: MIT
 *
 * Lines of standard input. On a terminal, libedit edits them; this is the one file that includes it. Added to its
 * emacs keys: Alt-Enter begins a new line in a message, Tab completes commands and names of files, and pasted text is
 * inserted without being sent (bracketed paste). A terminal that cannot move its cursor (TERM=dumb) gets a prompt and no
 * editing.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/report.h"
#include "tools/run/chat/chat.h"

#define HISTORY_LINES 1000
#define LOOK_MS 200 /* how often a line that is being typed looks for a signal */
/* libedit puts the line being typed aside in a buffer of this size when an older one is recalled. */
#define LIBEDIT_LINE 1024

#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define PASTE_END L"\033[201~"

struct bn_lines {
    EditLine *edit; /* NULL when input is not from a terminal */
    History *history;
    bool can_move; /* the cursor: keys, arrows, paste */
    bool keep_history;
    bool had_text, ctrl_c; /* of the line that was interrupted */
    const char *prompt;
    unsigned short rows, columns;
};

static struct bn_lines *lines_of(EditLine *edit)
{
    void *lines = NULL;
    el_get(edit, EL_CLIENTDATA, &lines);
    return lines;
}

static char *prompt(EditLine *edit)
{
    return (char *)(uintptr_t)lines_of(edit)->prompt;
}

/* ---- characters ---- */

/* Characters come one at a time and are not echoed. Ctrl-C is one of them, since a second signal would end the
 * program without giving the terminal back as it was. */
static void take_terminal(struct bn_lines *lines)
{
    el_set(lines->edit, EL_PREP_TERM, 1);
    el_wset(lines->edit, EL_SETTY, L"-d", L"intr=", NULL);
    fputs(PASTE_ON, stderr);
}

/* Redraws the line when the terminal has another size, and when a shell set it to lines, after Ctrl-Z and fg. */
static void follow_terminal(struct bn_lines *lines)
{
    struct termios mode;
    struct winsize size;
    if (!lines->can_move || ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0) return;
    bool changed = size.ws_row != lines->rows || size.ws_col != lines->columns;
    bool known = lines->rows != 0;
    bool taken = tcgetattr(STDIN_FILENO, &mode) != 0 || (mode.c_lflag & ICANON) == 0;
    lines->rows = size.ws_row;
    lines->columns = size.ws_col;
    if (taken && !(changed && known)) return;
    if (!taken) {
        el_set(lines->edit, EL_PREP_TERM, 0);
        take_terminal(lines);
    }
    el_resize(lines->edit);
    fputs("\r\033[J", stderr);
    el_set(lines->edit, EL_REFRESH);
}

/* Ends the line that is being typed: moves below it when the cursor is not in its last row. */
static int interrupt_line(struct bn_lines *lines)
{
    const LineInfoW *line = el_wline(lines->edit);
    size_t column = 0, n_rows = 0;
    for (const wchar_t *c = line->cursor; c < line->lastchar; c++) {
        bool wraps = *c == L'\n' || (lines->columns > 0 && ++column == lines->columns);
        if (wraps) column = 0;
        n_rows += wraps;
    }
    for (size_t i = 0; n_rows > 0 && i <= n_rows; i++)
        fputc('\n', stderr);
    lines->had_text = line->lastchar > line->buffer;
    return -1;
}

/* One character of the terminal; -1 for Ctrl-C, which is a key while a line is edited, and for a signal. Any thread may
 * have taken the signal, and at any time, so that waiting for input cannot rely on being interrupted by it. */
static int read_character(EditLine *edit, wchar_t *out)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    struct bn_lines *lines = lines_of(edit);
    mbstate_t state = {0};
    for (;;) {
        char byte;
        if (bn_cli_interrupted() != 0) return interrupt_line(lines);
        int ready = poll(&input, 1, LOOK_MS);
        follow_terminal(lines);
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        ssize_t n = ready > 0 ? read(STDIN_FILENO, &byte, 1) : -1;
        if (n <= 0) return (int)n;
        /* What the terminal makes of a Ctrl-D that was typed before libedit set it to single characters. */
        if (byte == '\0' && lines->can_move) byte = '\004';
        lines->ctrl_c = byte == '\003' && lines->can_move;
        if (lines->ctrl_c) return interrupt_line(lines);
        size_t done = mbrtowc(out, &byte, 1, &state);
        if (done == (size_t)-1) state = (mbstate_t){0}; /* not UTF-8: leave it out */
        if (done <= 1) return 1;
    }
}

/* ---- keys ---- */

static unsigned char key_newline(EditLine *edit, wint_t key)
{
    (void)key;
    return el_insertstr(edit, "\n") == 0 ? CC_REFRESH : CC_ERROR;
}

static unsigned char key_up(EditLine *edit, wint_t key)
{
    (void)key;
    const LineInfoW *line = el_wline(edit);
    if (line->lastchar - line->buffer >= LIBEDIT_LINE) return CC_ERROR;
    el_push(edit, "\030\020");
    return CC_NORM;
}

/* What a terminal pastes, up to its closing mark, as it is but for control characters. */
static unsigned char key_paste(EditLine *edit, wint_t key)
{
    const size_t n_end = wcslen(PASTE_END);
    size_t n = 0, room = 0;
    wchar_t *text = NULL, c;
    bool closed = false;
    (void)key;
    while (!closed && n < BN_CHAT_MAX_INPUT && el_wgetc(edit, &c) == 1) {
        if (bn_array_grow(&text, &room, n + 2, sizeof *text, NULL) != BN_OK) break;
        text[n++] = c == L'\r' ? L'\n' : c;
        closed = n >= n_end && wmemcmp(text + n - n_end, PASTE_END, n_end) == 0;
    }
    if (closed) n -= n_end;
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] == L'\n' || text[i] == L'\t' || (text[i] >= L' ' && text[i] != 0x7f))
            text[n_kept++] = text[i];
    bool done = n_kept > 0;
    if (done) {
        text[n_kept] = L'\0';
        done = el_winsertstr(edit, text) == 0;
    }
    bn_free(text);
    return done ? CC_REFRESH : CC_ERROR;
}

/* ---- completion ---- */

/* The longest common beginning of all words that can continue what is typed, or a list of them. */
static unsigned char complete_word(EditLine *edit, const char *line, const char *typed)
{
    size_t n_typed = strlen(typed), n_found = 0, n_same = 0;
    const char *first = NULL, *word;
    bool is_file;
    for (size_t i = 0; (word = bn_chat_word(line, i, &is_file)) != NULL; i++) {
        if (strncmp(word, typed, n_typed) != 0) continue;
        if (n_found++ == 0) {
            first = word;
            n_same = strlen(word);
        }
        while (strncmp(word, first, n_same) != 0)
            n_same--;
    }
    if (n_found == 0) return CC_ERROR;
    struct bn_buf rest = {.max = 256};
    bn_buf_append(&rest, first + n_typed, n_same - n_typed);
    bn_buf_puts(&rest, n_found == 1 ? " " : "");
    bool added = rest.len > 0;
    if (added) el_insertstr(edit, bn_buf_text(&rest));
    bn_buf_release(&rest);
    if (added) return CC_REFRESH;
    fputc('\n', stderr);
    for (size_t i = 0; (word = bn_chat_word(line, i, &is_file)) != NULL; i++)
        if (strncmp(word, typed, n_typed) == 0) fprintf(stderr, "%s  ", word);
    fputc('\n', stderr);
    return CC_REDISPLAY;
}

static unsigned char key_complete(EditLine *edit, wint_t key)
{
    char typed[256];
    bool is_file = false;
    const LineInfo *line = el_line(edit);
    size_t n = (size_t)(line->cursor - line->buffer);
    if (line->cursor != line->lastchar || n == 0 || n >= sizeof typed || line->buffer[0] != '/')
        return CC_ERROR;
    memcpy(typed, line->buffer, n);
    typed[n] = '\0';
    (void)bn_chat_word(typed, 0, &is_file);
    if (is_file) return _el_fn_complete(edit, (int)key);
    const char *blank = strrchr(typed, ' ');
    return complete_word(edit, typed, blank != NULL ? blank + 1 : typed);
}

/* ---- opening ---- */

static void bind_keys(EditLine *edit)
{
    static const struct {
        const wchar_t *name, *help;
        unsigned char (*key)(EditLine *edit, wint_t key);
        const wchar_t *keys[4];
    } KEYS[] = {
        {L"bn-newline", L"begin a new line", key_newline, {L"\033\r", L"\033\n"}},
        {L"bn-up", L"the message before", key_up, {L"\033[A", L"\033OA", L"\020"}},
        {L"bn-paste", L"insert what is pasted", key_paste, {L"\033[200~"}},
        {L"bn-complete", L"complete a command", key_complete, {L"\t"}},
    };
    el_set(edit, EL_BIND, "\030\020", "ed-prev-history", NULL);
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++) {
        /* el_set would lose the memory of its copies of the texts. */
        el_wset(edit, EL_ADDFN, KEYS[i].name, KEYS[i].help, KEYS[i].key);
        for (size_t k = 0; k < 4 && KEYS[i].keys[k] != NULL; k++)
            el_wset(edit, EL_BIND, KEYS[i].keys[k], KEYS[i].name, NULL);
    }
}

static bool history_path(char path[4096])
{
    return bn_file_user_path(path, 4096, "XDG_STATE_HOME", ".local/state", "bn/chat-history");
}

/* Adds a message to the file, which only its owner can read. It is read anew, since other conversations add to it. */
static bn_status keep(const char *text, bn_error *err)
{
    char path[4096];
    HistEvent event;
    if (!history_path(path)) return BN_OK;
    History *all = history_init();
    if (all == NULL) return bn_nomem(err);
    bn_status status = bn_file_make_folders(path, err);
    history(all, &event, H_SETSIZE, HISTORY_LINES);
    (void)history(all, &event, H_LOAD, path);
    history(all, &event, H_ENTER, text);
    if (status == BN_OK && history(all, &event, H_SAVE, path) < 0)
        status = bn_fail_errno(err, errno, path, "cannot write the history");
    history_end(all);
    return status;
}

static bn_status open_editor(struct bn_lines *lines, bn_error *err)
{
    HistEvent event;
    char path[4096];
    const char *term = getenv("TERM");
    lines->can_move = term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
    /* libedit reads characters by the locale. Models write UTF-8 whatever the locale says. */
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) (void)setlocale(LC_CTYPE, "");
    lines->history = history_init();
    lines->edit = el_init("bn-run", stdin, stderr, stderr);
    if (lines->history == NULL || lines->edit == NULL) return bn_nomem(err);
    history(lines->history, &event, H_SETSIZE, HISTORY_LINES);
    history(lines->history, &event, H_SETUNIQUE, 1);
    el_set(lines->edit, EL_CLIENTDATA, lines);
    el_set(lines->edit, EL_PROMPT, prompt);
    el_set(lines->edit, EL_EDITOR, "emacs");
    el_set(lines->edit, EL_HIST, history, lines->history);
    el_set(lines->edit, EL_GETCFN, read_character);
    el_set(lines->edit, EL_EDITMODE, lines->can_move ? 1 : 0);
    bind_keys(lines->edit);
    if (lines->keep_history && history_path(path)) (void)history(lines->history, &event, H_LOAD, path);
    return BN_OK;
}

bn_status bn_lines_open(struct bn_lines **out, bool edit, bool keep_history, bn_error *err)
{
    struct bn_lines *lines = bn_alloc(1, sizeof *lines);
    *out = lines;
    if (lines == NULL) return bn_nomem(err);
    lines->keep_history = keep_history;
    if (!edit || open_editor(lines, err) == BN_OK) return BN_OK;
    bn_lines_close(lines);
    *out = NULL;
    return BN_ERR_NOMEM;
}

/* ---- lines ---- */

static enum bn_input next_edited(struct bn_lines *lines, struct bn_buf *line)
{
    int n = 0;
    lines->had_text = lines->ctrl_c = false;
    el_resize(lines->edit); /* the terminal may have changed its size since the last line */
    /* Before the prompt: what is typed from then on is not echoed twice. */
    if (lines->can_move) take_terminal(lines);
    const char *text = el_gets(lines->edit, &n);
    if (lines->can_move) fputs(PASTE_OFF, stderr);
    if (lines->ctrl_c || bn_cli_interrupted() != 0) {
        fputs(lines->can_move ? "^C\n" : "\n", stderr);
        return BN_INPUT_INTERRUPTED;
    }
    if (text == NULL || n <= 0) return BN_INPUT_END;
    bn_buf_append(line, text, (size_t)n - (text[n - 1] == '\n'));
    return BN_INPUT_TEXT;
}

enum bn_input bn_lines_next(struct bn_lines *lines, const char *text, struct bn_buf *line)
{
    int c;
    size_t n = 0;
    lines->prompt = text;
    fflush(stdout);
    if (lines->edit != NULL) return next_edited(lines, line);
    for (; (c = getchar()) != EOF && c != '\n'; n++)
        bn_buf_putc(line, (char)c);
    if (bn_cli_interrupted() != 0) return BN_INPUT_INTERRUPTED;
    return c != EOF || n > 0 ? BN_INPUT_TEXT : BN_INPUT_END;
}

bool bn_lines_had_text(const struct bn_lines *lines)
{
    return lines->had_text;
}

void bn_lines_remember(struct bn_lines *lines, const char *text)
{
    HistEvent event;
    bn_error err = {0};
    if (lines->edit == NULL || text[strspn(text, " \t\n")] == '\0') return;
    bool again = history(lines->history, &event, H_FIRST) == 0 && strcmp(event.str, text) == 0;
    history(lines->history, &event, H_ENTER, text);
    if (!lines->keep_history || again || keep(text, &err) == BN_OK) return;
    bn_report_warning("%s: %s; --no-history turns the history off", err.where, err.msg);
    lines->keep_history = false;
}

void bn_lines_close(struct bn_lines *lines)
{
    if (lines == NULL) return;
    if (lines->edit != NULL) el_end(lines->edit);
    if (lines->history != NULL) history_end(lines->history);
    bn_free(lines);
}
