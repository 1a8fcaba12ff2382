/* SPDX-License-Identifier: MIT
 *
 * Prints errors, warnings, notes and interruption; see report.h.
 */
#define _GNU_SOURCE
#include "tools/cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/report/table.h"

#define MAX_DOCUMENT_BYTES (1u << 30)

static struct {
    const char *program;
    char bus_message[160]; /* made before it is needed: a signal handler may not format */
    enum bn_color color;
    bool quiet, json, json_began;
    unsigned verbose;
    size_t n_warnings;
    int lost; /* the errno of output that could not be written */
} state = {.program = "bn"};

static volatile sig_atomic_t interrupted;
static const char *volatile last_words;

/* ---- safe text ---- */

void bn_print_model_text(FILE *stream, const char *text, size_t n)
{
    char one[5];
    if (isatty(fileno(stream)) != 1) {
        fwrite(text, 1, n, stream);
        return;
    }
    for (size_t i = 0; i < n;) {
        i += bn_escape_char(one, text + i, n - i, BN_ESCAPE_TEXT);
        fputs(one, stream);
    }
}

/* ---- messages ---- */

/* It is written at once, so that nothing of another process comes into it. */
struct message {
    char text[9216];
    size_t n;
};

static void add(struct message *m, const char *fmt, ...) BN_PRINTF(2, 3);
static void add(struct message *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->text + m->n, sizeof m->text - m->n, fmt, args);
    va_end(args);
    m->n += strlen(m->text + m->n);
}

static void put_message(struct message *m, const char *fmt, va_list args) BN_PRINTF(2, 0);
static void put_message(struct message *m, const char *fmt, va_list args)
{
    char line[2048];
    vsnprintf(line, sizeof line, fmt, args);
    bn_escape_as(m->text + m->n, sizeof m->text - m->n, line, strlen(line), BN_ESCAPE_MESSAGE);
    m->n += strlen(m->text + m->n);
    add(m, "\n");
    fwrite(m->text, 1, m->n, stderr);
}

bool bn_report_color(FILE *stream)
{
    if (state.color != BN_COLOR_AUTO) return state.color == BN_COLOR_ALWAYS;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color != NULL && no_color[0] != '\0') return false;
    if (term == NULL || strcmp(term, "dumb") == 0) return false;
    return isatty(fileno(stream)) == 1;
}

size_t bn_report_columns(FILE *stream)
{
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col < 40 ? 40 : size.ws_col > 100 ? 100 : size.ws_col;
}

void bn_report_flush(void)
{
    if (fflush(stdout) != 0 && state.lost == 0) state.lost = errno;
}

/* "bn-run: error: " with the middle word in colour. */
static void prefix(struct message *m, const char *word, const char *sgr)
{
    bool color = bn_report_color(stderr);
    bn_report_flush(); /* so that messages come after the output that they are about */
    add(m, "%s: %s%s:%s ", state.program, color ? sgr : "", word, color ? "\033[0m" : "");
}

int bn_report_error(const bn_error *err)
{
    struct message m = {.n = 0};
    bool color = bn_report_color(stderr);
    prefix(&m, "error", "\033[1;31m");
    if (err->where[0] != '\0') add(&m, "%s: ", err->where);
    add(&m, "%s", err->msg[0] != '\0' ? err->msg : bn_status_name(err->code));
    if (err->offset != BN_NO_OFFSET) add(&m, " (at byte %llu)", (unsigned long long)err->offset);
    add(&m, "\n");
    if (err->hint[0] != '\0')
        add(&m, "%shint:%s %s\n", color ? "\033[1;36m" : "", color ? "\033[0m" : "", err->hint);
    fwrite(m.text, 1, m.n, stderr);
    return (int)bn_status_exit(err->code);
}

void bn_report_warning(const char *fmt, ...)
{
    state.n_warnings++;
    if (state.quiet) return;
    struct message m = {.n = 0};
    va_list args;
    va_start(args, fmt);
    prefix(&m, "warning", "\033[1;33m");
    put_message(&m, fmt, args);
    va_end(args);
}

size_t bn_report_n_warnings(void)
{
    return state.n_warnings;
}

void bn_report_note(unsigned level, const char *fmt, ...)
{
    if (state.verbose < level || (level == 0 && state.quiet)) return;
    struct message m = {.n = 0};
    va_list args;
    va_start(args, fmt);
    bn_report_flush();
    add(&m, "%s: ", state.program);
    put_message(&m, fmt, args);
    va_end(args);
}

void bn_report_json_began(void)
{
    state.json_began = true;
}

bn_status bn_cli_write(const char *path, const struct bn_buf *text, bn_error *err)
{
    BN_TRY(bn_buf_check(text, err));
    if (path != NULL && strcmp(path, "-") != 0) return bn_file_write_atomic(path, text->data, text->len, err);
    fwrite(text->data, 1, text->len, stdout); /* bytes that are lost are noticed when the program ends */
    return BN_OK;
}

bn_status bn_cli_print_text(struct bn_buf *text, bn_error *err)
{
    bn_status status = bn_cli_write(NULL, text, err);
    bn_buf_release(text);
    return status;
}

bn_status bn_cli_print_table(struct bn_table *table, bn_error *err)
{
    struct bn_buf text = {.max = 64u << 20};
    bn_table_put_text(&text, table);
    bn_table_release(table);
    return bn_cli_print_text(&text, err);
}

static bn_status print_json(const bn_json *document, bool line, bn_error *err)
{
    struct bn_buf text = {.max = MAX_DOCUMENT_BYTES};
    bn_status status = bn_json_write_line(document, line, &text, err);
    if (status == BN_OK) {
        bn_report_json_began();
        status = bn_cli_write(NULL, &text, err);
        if (line) bn_report_flush();
    }
    bn_buf_release(&text);
    return status;
}

bn_status bn_cli_print_json(const bn_json *document, bn_error *err)
{
    return print_json(document, false, err);
}

bn_status bn_cli_flush_json(bn_json *document, bool line, bn_error *err)
{
    bn_status status = print_json(document, line, err);
    bn_json_free(document);
    return status;
}

/* One line, since it may follow others. Without memory for it there is the exit code. */
void bn_report_json_error(const bn_error *err, int exit_code)
{
    if (!state.json || state.json_began) return;
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.error/1");
    bn_json_put_string(doc, "program", state.program);
    bn_json_put_string(doc, "status", bn_status_name(err->code));
    bn_json_put_u64(doc, "exit", (uint64_t)exit_code);
    if (err->where[0] != '\0') bn_json_put_string(doc, "where", err->where);
    bn_json_put_string(doc, "message", err->msg);
    if (err->offset != BN_NO_OFFSET) bn_json_put_u64(doc, "offset", err->offset);
    if (err->hint[0] != '\0') bn_json_put_string(doc, "hint", err->hint);
    (void)print_json(doc, true, NULL);
    bn_json_free(doc);
}

/* ---- interruption ---- */

static void set_interrupt_handler(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction old; /* nohup ignores it */
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

static void on_interrupt(int number)
{
    if (interrupted == 0 && last_words != NULL) {
        interrupted = number;
        return;
    }
    set_interrupt_handler(SIG_DFL);
    if (interrupted != 0) {
        (void)!write(STDERR_FILENO, last_words, strlen(last_words));
        raise(number); /* taken when this function returns */
    }
    interrupted = number;
}

void bn_cli_last_words(const char *text)
{
    last_words = text;
}

void bn_cli_catch_interrupt(void)
{
    set_interrupt_handler(on_interrupt);
}

void bn_cli_forget_interrupt(void)
{
    interrupted = 0;
    bn_cli_catch_interrupt();
}

int bn_cli_interrupted(void)
{
    return interrupted;
}

bool bn_cli_is_interrupted(void)
{
    return interrupted != 0;
}

/* ---- start and end ---- */

static void on_bus_error(int number)
{
    (void)number;
    (void)!write(STDERR_FILENO, state.bus_message, strlen(state.bus_message));
    _exit(BN_EXIT_IO);
}

/* A handler rather than SIG_IGN, which a program started from here would inherit: write fails with EFBIG. */
static void on_file_too_large(int number)
{
    (void)number;
}

void bn_report_start(const char *program)
{
    state.program = program;
    /* A closed standard descriptor would go to the next file opened. Opened the wrong way round, every use of
     * it fails as it would have failed closed. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            _exit(BN_EXIT_IO);
    snprintf(state.bus_message, sizeof state.bus_message,
             "%s: error: a file in use became shorter, or its disk failed (SIGBUS)\n", program);
    struct sigaction action = {.sa_handler = on_bus_error};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    action = (struct sigaction){.sa_handler = on_file_too_large, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGXFSZ, &action, NULL);
}

void bn_report_set(enum bn_color color, bool quiet, unsigned verbose, bool json)
{
    state.color = color;
    state.quiet = quiet;
    state.verbose = verbose;
    state.json = json;
}

/* The reason of a write is lost when a buffer was full; the descriptor still knows that the reader is gone. */
static bool reader_is_gone(void)
{
    struct pollfd pipe_end = {.fd = STDOUT_FILENO};
    return poll(&pipe_end, 1, 0) == 1 && (pipe_end.revents & POLLERR) != 0;
}

int bn_report_finish(int exit_code)
{
    bn_report_flush();
    bool lost = ferror(stdout) != 0;
    int why = state.lost;
    if (!lost) {
        /* Network file systems report a full disk when a descriptor is closed. */
        int copy = dup(STDOUT_FILENO);
        lost = copy >= 0 && close(copy) != 0;
        why = errno;
    }
    if (!lost) return exit_code;
    if (why == EPIPE || reader_is_gone()) return 128 + SIGPIPE;
    bn_error err = {0};
    bn_fail_at(&err, BN_ERR_IO, BN_NO_OFFSET, "standard output", "could not be written%s%s",
               why != 0 ? ": " : "", why != 0 ? strerror(why) : "");
    return bn_report_error(&err);
}
