/* SPDX-License-Identifier: MIT
 *
 * Prints generated text as it comes, to a file or a pipe as it is. On a terminal a word is printed when it is complete, on
 * the next line where it does not fit, and with colours the think block of an answer is dimmed.
 *
 * A think block is at the beginning of an answer, after blanks; under some templates the prompt has opened it
 * already. Later tags are text.
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
    bn_report_flush();
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

void bn_run_answer_start(struct bn_run_answer *answer, bn_template tmpl, size_t columns)
{
    *answer = (struct bn_run_answer){.place = BN_RUN_AFTER_THOUGHTS};
    if (isatty(STDOUT_FILENO) != 1) return;
    answer->columns = columns;
    if (bn_template_thinking(tmpl) == BN_THINKING_NONE || !bn_report_color(stdout)) return;
    answer->place = BN_RUN_BEFORE_THOUGHTS;
    if (tmpl != BN_TEMPLATE_QWEN35) return;
    answer->place = BN_RUN_IN_THOUGHTS;
    write_all(DIM, strlen(DIM));
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

/* Prints what is held: blanks, and a word. Where it does not fit, a line feed replaces the blanks. Lines of code and of
 * tables are left as they are. */
static void put_word(struct bn_run_answer *a)
{
    size_t n_word = a->n_held - a->n_blank, width = a->n_blank;
    const char *word = a->held + a->n_blank;
    for (size_t i = 0; i < n_word; i++)
        width += begins_character(word[i]);
    if (a->column == 0) {
        bool fence = n_word >= 3 && memcmp(word, "```", 3) == 0;
        a->in_code = a->in_code != fence;
        a->is_fixed =
            a->in_code || fence || a->n_blank >= 4 || (n_word > 0 && (*word == '|' || *word == '\t'));
    }
    bool wraps = a->columns > 0 && !a->is_fixed && a->column > 0 && a->n_blank > 0 && n_word > 0 &&
                 a->column + width > a->columns;
    if (wraps) bn_run_print("\n", 1);
    bn_run_print(wraps ? word : a->held, wraps ? n_word : a->n_held);
    a->column = wraps ? width - a->n_blank : a->column + width;
    a->n_held = a->n_blank = 0;
}

static void take(struct bn_run_answer *a, char c)
{
    size_t n_close = strlen(CLOSE);
    bool is_full = a->n_held + 4 > sizeof a->held && begins_character(c);
    if (c == '\n' || (c == ' ' && a->n_held > a->n_blank) || is_full) put_word(a);
    a->held[a->n_held++] = c;
    if (c == '\n') {
        bn_run_print(a->held, 1);
        a->column = a->n_held = 0;
        return;
    }
    a->n_blank += c == ' ';
    size_t n_word = a->n_held - a->n_blank;
    if (a->place == BN_RUN_BEFORE_THOUGHTS && memcmp(a->held + a->n_blank, OPEN, n_word) != 0) {
        a->place = BN_RUN_AFTER_THOUGHTS;
    } else if (a->place == BN_RUN_BEFORE_THOUGHTS && n_word == strlen(OPEN)) {
        a->place = BN_RUN_IN_THOUGHTS;
        write_all(DIM, strlen(DIM));
    } else if (n_word >= n_close && memcmp(a->held + a->n_held - n_close, CLOSE, n_close) == 0) {
        bn_run_answer_end(a);
    }
}

void bn_run_answer_print(struct bn_run_answer *answer, const char *text, size_t n)
{
    for (;
         n > 0 && (answer->columns > 0 || answer->place != BN_RUN_AFTER_THOUGHTS || !begins_character(*text));
         n--)
        take(answer, *text++);
    if (answer->n_held > 0 && answer->columns == 0) put_word(answer);
    bn_run_print(text, n);
}

void bn_run_answer_end(struct bn_run_answer *answer)
{
    put_word(answer);
    if (answer->place == BN_RUN_IN_THOUGHTS) write_all(PLAIN, strlen(PLAIN));
    answer->place = BN_RUN_AFTER_THOUGHTS;
}
