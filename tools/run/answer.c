/* SPDX-License-Identifier: MIT
 *
 * Prints generated text as it comes. On a terminal with colours the think block of an answer is dimmed.
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

void bn_run_answer_start(struct bn_run_answer *answer, bn_template tmpl)
{
    *answer = (struct bn_run_answer){.place = BN_RUN_AFTER_THOUGHTS};
    if (isatty(STDOUT_FILENO) != 1 || bn_template_thinking(tmpl) == BN_THINKING_NONE ||
        !bn_report_color(stdout))
        return;
    answer->place = tmpl == BN_TEMPLATE_QWEN35 ? BN_RUN_IN_THOUGHTS : BN_RUN_BEFORE_THOUGHTS;
    if (answer->place == BN_RUN_IN_THOUGHTS) write_all(DIM, strlen(DIM));
}

void bn_run_answer_print(struct bn_run_answer *a, const char *text, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n && a->place != BN_RUN_AFTER_THOUGHTS; i++) {
        bool before = a->place == BN_RUN_BEFORE_THOUGHTS;
        const char *tag = before ? OPEN : CLOSE;
        if (before && a->n_seen == 0 && (text[i] == ' ' || text[i] == '\n')) continue;
        a->n_seen = text[i] == tag[a->n_seen] ? a->n_seen + 1 : !before && text[i] == tag[0];
        if (before && a->n_seen == 0) a->place = BN_RUN_AFTER_THOUGHTS;
        if (tag[a->n_seen] != '\0') continue;
        bn_run_print(text + from, i + 1 - from);
        from = i + 1;
        write_all(before ? DIM : PLAIN, strlen(before ? DIM : PLAIN));
        a->place = before ? BN_RUN_IN_THOUGHTS : BN_RUN_AFTER_THOUGHTS;
        a->n_seen = 0;
    }
    bn_run_print(text + from, n - from);
}

void bn_run_answer_end(struct bn_run_answer *answer)
{
    if (answer->place == BN_RUN_IN_THOUGHTS) write_all(PLAIN, strlen(PLAIN));
    answer->place = BN_RUN_AFTER_THOUGHTS;
}
