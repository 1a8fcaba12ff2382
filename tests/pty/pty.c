/* SPDX-License-Identifier: MIT
 *
 * Runs a program on a terminal of its own and talks to it: pty [-o] COMMAND [ARGUMENTS] <SCRIPT
 *
 * Lines of the script, with the escapes \n, \r, \t, \e, \\ and \xHH:
 *     expect TEXT   read the terminal until TEXT is printed, after what was expected before
 *     send TEXT     type TEXT
 *     size ROWS COLUMNS
 * With -o the program's standard output is a pipe that is nearly full and that nobody reads, so that a long
 * output blocks: blocked       wait until the program has filled the pipe drain         read the pipe from
 * here on
 *
 * At the end of the script it waits for the program. Standard output gets what was printed on the terminal,
 * and after a line
 * "-- output" what came from the pipe. Ends with the program's exit status, 128+n for a signal, 99 when 60
 * seconds pass without what the script waits for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 60    /* seconds */
#define FREE_BYTES 512 /* of the pipe, before the program writes */

struct text {
    char bytes[1 << 20];
    size_t n;
};

static struct text terminal, output;
static size_t expected_to; /* bytes of the terminal that were matched */
static int terminal_fd, output_fd = -1;
static size_t n_filler;
static bool draining;
static pid_t child;
static time_t deadline;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "pty: %s: %s\n", what, detail);
    fwrite(terminal.bytes, 1, terminal.n, stderr);
    kill(child, SIGKILL);
    exit(99);
}

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* Reads what is there; false at the end. */
static bool take(int fd, struct text *text)
{
    ssize_t n = read(fd, text->bytes + text->n, sizeof text->bytes - 1 - text->n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false; /* a terminal whose program is gone gives EIO */
    text->n += (size_t)n;
    return true;
}

/* Waits for something to read, and reads it; false when the terminal is closed. */
static bool pump(void)
{
    struct pollfd fds[2] = {{.fd = terminal_fd, .events = POLLIN},
                            {.fd = draining ? output_fd : -1, .events = POLLIN}};
    if (now() > deadline) fail("nothing happens", "60 seconds have passed");
    if (poll(fds, 2, 20) < 0 && errno != EINTR) fail("poll", strerror(errno));
    if (fds[1].revents != 0 && !take(output_fd, &output)) draining = false;
    return fds[0].revents == 0 || take(terminal_fd, &terminal);
}

static size_t unescape(char *out, const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        unsigned value;
        if (text[0] != '\\') {
            out[n++] = *text;
            continue;
        }
        text++;
        if (*text == 'x' && sscanf(text + 1, "%2x", &value) == 1) {
            out[n++] = (char)value;
            text += 2;
        } else {
            static const char NAMES[] = "nrte\\", BYTES[] = "\n\r\t\033\\";
            const char *at = *text != '\0' ? strchr(NAMES, *text) : NULL;
            if (at == NULL) fail("unknown escape", text);
            out[n++] = BYTES[at - NAMES];
        }
    }
    return n;
}

static void expect(const char *text, size_t n)
{
    for (;;) {
        const char *from = terminal.bytes + expected_to;
        const char *at = memmem(from, terminal.n - expected_to, text, n);
        if (at != NULL) {
            expected_to = (size_t)(at - terminal.bytes) + n;
            return;
        }
        if (!pump()) fail("the program ended before it printed", text);
    }
}

static void type(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(terminal_fd, text, n);
        if (done > 0) {
            text += done;
            n -= (size_t)done;
        } else if (!pump()) {
            fail("the program ended before it read", text);
        }
    }
}

/* The program has begun to write its output. It cannot end it: nobody reads, and little fits. */
static void wait_for_output(void)
{
    for (int waiting = 0; (size_t)waiting <= n_filler;)
        if (!pump() || ioctl(output_fd, FIONREAD, &waiting) != 0)
            fail("the program ended", "before it wrote any output");
}

static void obey(char *line)
{
    char text[4096], *rest = strchr(line, ' ');
    struct winsize size = {0};
    deadline = now() + PATIENCE;
    if (rest != NULL) *rest++ = '\0';
    size_t n = unescape(text, rest != NULL ? rest : "");
    text[n] = '\0';
    if (strcmp(line, "expect") == 0)
        expect(text, n);
    else if (strcmp(line, "send") == 0)
        type(text, n);
    else if (strcmp(line, "begun") == 0)
        wait_for_output();
    else if (strcmp(line, "drain") == 0)
        draining = true;
    else if (strcmp(line, "size") == 0 && sscanf(text, "%hu %hu", &size.ws_row, &size.ws_col) == 2)
        ioctl(terminal_fd, TIOCSWINSZ, &size);
    else
        fail("unknown line", line);
}

/* A pipe with FREE_BYTES left in it. */
static int open_pipe(void)
{
    int ends[2];
    char filler[4096];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe", strerror(errno));
    n_filler = (size_t)fcntl(ends[1], F_GETPIPE_SZ) - FREE_BYTES;
    memset(filler, '.', sizeof filler);
    for (size_t done = 0; done < n_filler;) {
        size_t n = n_filler - done < sizeof filler ? n_filler - done : sizeof filler;
        ssize_t put = write(ends[1], filler, n);
        if (put <= 0) fail("write", strerror(errno));
        done += (size_t)put;
    }
    output_fd = ends[0];
    return ends[1];
}

int main(int argc, char **argv)
{
    int first = argc > 1 && strcmp(argv[1], "-o") == 0 ? 2 : 1, status = 0;
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    static char line[4096];
    if (argc <= first) return 2;
    int pipe_end = first == 2 ? open_pipe() : -1;
    child = forkpty(&terminal_fd, NULL, NULL, &size);
    if (child < 0) fail("forkpty", strerror(errno));
    if (child == 0) {
        if (pipe_end >= 0) dup2(pipe_end, STDOUT_FILENO);
        execvp(argv[first], argv + first);
        _exit(127);
    }
    if (pipe_end >= 0) close(pipe_end);
    fcntl(terminal_fd, F_SETFL, O_NONBLOCK);
    if (output_fd >= 0) fcntl(output_fd, F_SETFL, O_NONBLOCK);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0') obey(line);
    }
    deadline = now() + PATIENCE;
    draining = output_fd >= 0;
    while (pump())
        ;
    while (output_fd >= 0 && take(output_fd, &output))
        ;
    if (waitpid(child, &status, 0) != child) fail("waitpid", strerror(errno));
    fwrite(terminal.bytes, 1, terminal.n, stdout);
    if (output_fd >= 0) {
        printf("\n-- output\n");
        fwrite(output.bytes + n_filler, 1, output.n - n_filler, stdout);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
