/* SPDX-License-Identifier: MIT
 *
 * Prints generated text as it comes. On a terminal with colours the think block of an answer is dimmed; to
 * a file or a pipe goes the text alone.
 *
 * A think block is at the beginning of an answer, after blanks; under some templates the prompt has opened it
 * already. Later tags are text. What may still become the opening tag is held back until that is decided.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/cli/report.h"
#include "tools/run/run.h"

#define OPEN "<think>"
#define CLOSE "</think>"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

/* By write, since stdio drops what it holds when a signal interrupts it. */
static void write_all(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, text, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) break;
        text += done;
        n -= (size_t)done;
    }
    fwrite(text, 1, n, stdout); /* what cannot be written fails here too, and standard output remembers it */
}

void bn_run_print(const char *text, size_t n)
{
    fflush(stdout);
    if (isatty(STDOUT_FILENO) != 1) {
        write_all(text, n);
        return;
    }
    char one[5]; /* a terminal would obey control characters */
    for (size_t i = 0; i < n;) {
        i += bn_escape_char(one, text + i, n - i, BN_ESCAPE_TEXT);
        write_all(one, strlen(one));
    }
}

void bn_run_answer_start(struct bn_run_answer *answer, bn_template tmpl)
{
    *answer = (struct bn_run_answer){.place = BN_RUN_AFTER_THOUGHTS};
    if (bn_template_thinking(tmpl) == BN_THINKING_NONE || isatty(STDOUT_FILENO) != 1 ||
        !bn_report_color(stdout))
        return;
    answer->place = BN_RUN_BEFORE_THOUGHTS;
    if (tmpl != BN_TEMPLATE_QWEN35) return;
    answer->place = BN_RUN_IN_THOUGHTS;
    write_all(DIM, strlen(DIM));
}

/* Takes one more byte while the answer may still begin with a think block; false when it does not. That byte is
 * left to what prints the rest, so that no character is split. */
static bool hold(struct bn_run_answer *answer, char c)
{
    bool blank = answer->n_matched == 0 && strchr(" \t\r\n", c) != NULL;
    bool fits = answer->n_held < sizeof answer->held && (blank || c == OPEN[answer->n_matched]);
    if (fits) {
        answer->held[answer->n_held++] = c;
        answer->n_matched += !blank;
        if (answer->n_matched < strlen(OPEN)) return true;
        write_all(DIM, strlen(DIM));
    }
    answer->place = fits ? BN_RUN_IN_THOUGHTS : BN_RUN_AFTER_THOUGHTS;
    bn_run_print(answer->held, answer->n_held);
    answer->n_held = answer->n_matched = 0;
    return fits;
}

void bn_run_answer_print(struct bn_run_answer *answer, const char *text, size_t n)
{
    while (n > 0 && answer->place == BN_RUN_BEFORE_THOUGHTS && hold(answer, *text)) {
        text++;
        n--;
    }
    if (answer->place == BN_RUN_IN_THOUGHTS) {
        size_t i = 0;
        while (i < n && answer->n_matched < strlen(CLOSE)) {
            bool next = text[i] == CLOSE[answer->n_matched];
            answer->n_matched = next ? answer->n_matched + 1 : text[i] == CLOSE[0];
            i++;
        }
        bn_run_print(text, i);
        text += i;
        n -= i;
        if (answer->n_matched == strlen(CLOSE)) bn_run_answer_end(answer);
    }
    bn_run_print(text, n);
}

void bn_run_answer_end(struct bn_run_answer *answer)
{
    bn_run_print(answer->held, answer->n_held);
    answer->n_held = 0;
    if (answer->place == BN_RUN_IN_THOUGHTS) write_all(PLAIN, strlen(PLAIN));
    answer->place = BN_RUN_AFTER_THOUGHTS;
}
