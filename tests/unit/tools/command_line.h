/* SPDX-License-Identifier: MIT
 *
 * For tests of command lines: parses a line for a program, and expects success or a usage error.
 */
#ifndef BN_TEST_COMMAND_LINE_H
#define BN_TEST_COMMAND_LINE_H

#include "base/error.h"
#include "base/mem.h"
#include "tests/unit/status.h"
#include "tools/cli/options.h"

static bn_status nothing(struct bn_args *args, bn_error *e)
{
    (void)args;
    (void)e;
    return BN_OK;
}

/* Parses a line whose words are parted by single spaces; '+' stands for a space within a word. */
static bn_status parse_for(const struct bn_program *program, const char *line, struct bn_args *args,
                           bn_error *e)
{
    static char text[512];
    static char *argv[64];
    int argc = 0;
    *e = (bn_error){0};
    snprintf(text, sizeof text, "%s %s", program->name, line);
    for (char *word = text; word != NULL;) {
        char *space = strchr(word, ' ');
        if (space != NULL) *space = '\0';
        argv[argc++] = word;
        for (char *c = word; *c != '\0'; c++)
            if (*c == '+') *c = ' ';
        word = space != NULL && space[1] != '\0' ? space + 1 : NULL;
    }
    argv[argc] = NULL;
    return bn_args_parse(args, program, argc, argv, e);
}

static void refuse_for(const struct bn_program *program, const char *line, const char *message,
                       const char *hint)
{
    struct bn_args args;
    refused(parse_for(program, line, &args, &err), BN_ERR_ARG);
    assert_string_equal(err.msg, message);
    assert_string_equal(err.hint, hint);
    bn_args_release(&args);
}

static void accept_for(const struct bn_program *program, const char *line, struct bn_args *args)
{
    bn_status status = attempt(parse_for(program, line, args, &err));
    if (status != BN_OK) fail_msg("'%s': %s", line, err.msg);
}

#endif
