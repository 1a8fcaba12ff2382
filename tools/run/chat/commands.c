/* SPDX-License-Identifier: MIT
 *
 * The commands of a conversation: one table, from which come /help, completion, and what is said of unknown words.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/suggest.h"
#include "tools/cli/program/sandbox.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/chat/chat.h"

/* Each sets err for what it refuses; the conversation goes on. */
typedef bn_status command_fn(struct bn_chat *chat, const char *text, bn_error *err);

/* ---- the conversation ---- */

static bn_status do_clear(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)text, (void)err;
    size_t n_system = bn_talk_n_system(&chat->talk);
    bn_turns_remove(&chat->talk, n_system, chat->talk.n_turns - n_system);
    bn_chat_forget_answer(chat);
    return BN_OK;
}

static bn_status do_system(struct bn_chat *chat, const char *text, bn_error *err)
{
    return bn_turns_set_system(&chat->talk, text, err);
}

static bn_status do_regen(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)text;
    if (bn_turns_count(&chat->talk) == 0) {
        bn_report_warning("there is no answer yet");
        return BN_OK;
    }
    if (chat->asked.sampling.temperature > 0.0f)
        chat->asked.sampling.seed++;
    else
        bn_report_note(0, "with temperature 0 the same question gets the same answer");
    return bn_chat_again(chat, err);
}

static bn_status do_undo(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)text, (void)err;
    size_t n = bn_turns_count(&chat->talk);
    if (n == 0) bn_report_warning("there is no turn yet");
    while (n > 0 && bn_turns_count(&chat->talk) == n)
        bn_turns_remove(&chat->talk, chat->talk.n_turns - 1, 1);
    return BN_OK;
}

static bn_status do_think(struct bn_chat *chat, const char *text, bn_error *err)
{
    bool on = strcmp(text, "on") == 0;
    if (!on && strcmp(text, "off") != 0)
        return bn_fail(err, BN_ERR_ARG, "the command /think takes on or off");
    if (bn_template_thinking(chat->tmpl) == BN_THINKING_NONE)
        bn_report_warning("the template %s has no thinking", bn_template_name(chat->tmpl));
    chat->tmpl = bn_template_set_thinking(chat->tmpl, on);
    return BN_OK;
}

static bn_status do_stats(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)text, (void)err;
    char rates[BN_RUN_RATES];
    bn_chat_print_context(chat);
    if (chat->last.known) fprintf(stderr, "%s\n", bn_run_rates(rates, &chat->last.gen));
    return BN_OK;
}

static bn_status do_exit(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)text, (void)err;
    chat->ended = true;
    return BN_OK;
}

/* ---- files ---- */

/* The name of a file as typed: "~/" is the home folder, blanks at the end are not part of it. */
static bn_status file_name(struct bn_buf *path, const char *text, bn_error *err)
{
    const char *home = getenv("HOME");
    bool in_home = text[0] == '~' && text[1] == '/' && home != NULL;
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == ' ')
        n--;
    bn_buf_puts(path, in_home ? home : "");
    bn_buf_append(path, text + in_home, n - in_home);
    return bn_buf_check(path, err);
}

static bn_status do_save(struct bn_chat *chat, const char *text, bn_error *err)
{
    struct bn_buf path = {.max = 4095};
    size_t n = bn_turns_count(&chat->talk);
    bn_status status = file_name(&path, text, err);
    if (status == BN_OK) status = bn_chat_save(chat, path.data, err);
    if (status == BN_OK) bn_report_note(0, "saved %zu turn%s to %s", n, bn_cli_s(n), path.data);
    bn_buf_release(&path);
    return status;
}

static bn_status do_load(struct bn_chat *chat, const char *text, bn_error *err)
{
    static const char ANY[] = "--any ";
    struct bn_buf path = {.max = 4095};
    bool any = strncmp(text, ANY, strlen(ANY)) == 0;
    bn_status status = file_name(&path, text + (any ? strlen(ANY) : 0), err);
    if (status == BN_OK) status = bn_chat_load(chat, path.data, any, err);
    size_t n = bn_turns_count(&chat->talk);
    if (status == BN_OK)
        bn_report_note(0, "loaded %zu turn%s from %s; /show chat prints them", n, bn_cli_s(n), path.data);
    bn_buf_release(&path);
    return status;
}

/* receipt.json, receipt-2.json, ...: the first name that is free. */
static bn_status free_name(struct bn_buf *path, bn_error *err)
{
    bn_buf_puts(path, "receipt.json");
    for (unsigned i = 2; bn_buf_check(path, NULL) == BN_OK && access(path->data, F_OK) == 0; i++) {
        path->len = 0;
        bn_buf_printf(path, "receipt-%u.json", i);
    }
    return bn_buf_check(path, err);
}

static bn_status do_receipt(struct bn_chat *chat, const char *text, bn_error *err)
{
    struct bn_buf path = {.max = 4095};
    const char *model = chat->args->model;
    if (!chat->last.known) {
        bn_report_warning("there is no answer yet");
        return BN_OK;
    }
    bn_status status = text[0] != '\0' ? file_name(&path, text, err) : free_name(&path, err);
    if (status == BN_OK) status = bn_chat_receipt(chat, path.data, err);
    if (status == BN_OK) {
        bn_report_note(0, "wrote %s; this replays it:", path.data);
        bn_report_note(0, "  bn-verify-receipt --replay%s%s %s", model != NULL ? " --model " : "",
                       model != NULL ? model : "", path.data);
    }
    bn_buf_release(&path);
    return status;
}

/* ---- the table ---- */

static command_fn do_help;

/* A text in brackets may be left out; FILE completes names of files. An alias has no
 * help. */
static const struct command {
    const char *name, *arg, *help;
    command_fn *run;
} COMMANDS[] = {
    {"/help", "", "list the commands; also /?", do_help},
    {"/?", "", NULL, do_help},
    {"/regen", "", "answer the last message again, with the next seed", do_regen},
    {"/retry", "", NULL, do_regen},
    {"/undo", "", "remove the last message and its answer", do_undo},
    {"/clear", "", "forget the conversation", do_clear},
    {"/system", "[TEXT]", "set the system message; without TEXT remove it", do_system},
    {"/set", "[NAME VALUE]", "change a setting; without NAME list them", bn_chat_set},
    {"/think", "on|off", "write thoughts before an answer, or not", do_think},
    {"/show", "[chat]", "show model, system message, settings; or the chat", bn_chat_show},
    {"/stats", "", "show how full the context is and the last speed", do_stats},
    {"/save", "FILE", "save the conversation", do_save},
    {"/load", "FILE", "continue a saved conversation", do_load},
    {"/receipt", "[FILE]", "write a receipt of the last answer", do_receipt},
    {"/bye", "", "end the program; also /exit, /quit and Ctrl-D", do_exit},
    {"/exit", "", NULL, do_exit},
    {"/quit", "", NULL, do_exit},
};

static bn_status do_help(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)chat, (void)text, (void)err;
    for (size_t i = 0; i < BN_ARRAY_LEN(COMMANDS); i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", COMMANDS[i].name, COMMANDS[i].arg);
        if (COMMANDS[i].help != NULL) fprintf(stderr, "  %-18s  %s\n", left, COMMANDS[i].help);
    }
    fputs("\n"
          "  \"\"\"                 begin a message of several lines; \"\"\" ends it\n"
          "  Alt-Enter           begin a new line; so does \\ at the end of a line\n"
          "  //TEXT              say a line that begins with one slash\n"
          "  Ctrl-C              stop the answer; at the prompt, clear the line\n"
          "  Ctrl-D              end the program\n"
          "  Up, Down, Tab       earlier messages; complete a command\n",
          stderr);
    return BN_OK;
}

static const struct command *find(const char *word, size_t n)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(COMMANDS); i++)
        if (strlen(COMMANDS[i].name) == n && memcmp(COMMANDS[i].name, word, n) == 0) return &COMMANDS[i];
    return NULL;
}

static void refuse_unknown(const char *line, size_t n, bn_error *err)
{
    char word[40];
    struct bn_suggestion s = {.typed = bn_escape(word, sizeof word, line, n)};
    for (size_t i = 0; i < BN_ARRAY_LEN(COMMANDS); i++)
        bn_suggest(&s, COMMANDS[i].name);
    bn_fail(err, BN_ERR_ARG, "unknown command '%s'; /help lists them", word);
    if (s.best != NULL)
        bn_error_hint(err, "did you mean %s?", s.best);
    else
        bn_error_hint(err, "/%s says it to the model", word);
}

bn_status bn_chat_obey(struct bn_chat *chat, const char *line, bn_error *err)
{
    size_t n = strcspn(line, " \t\n");
    const char *text = line + n + strspn(line + n, " \t\n");
    const struct command *c = find(line, n);
    bn_error wrong = {0};
    if (c == NULL)
        refuse_unknown(line, n, &wrong);
    else if (text[0] != '\0' && c->arg[0] == '\0')
        bn_fail(&wrong, BN_ERR_ARG, "the command %s takes no text", c->name);
    else if (text[0] == '\0' && c->arg[0] != '\0' && c->arg[0] != '[')
        bn_fail(&wrong, BN_ERR_ARG, "the command %s needs %s", c->name, c->arg);
    else if (c->run == do_regen)
        return do_regen(chat, text, err); /* an answer that fails ends the conversation */
    else if (c->run(chat, text, &wrong) == BN_OK)
        return BN_OK;
    bn_sandbox_explain(&wrong);
    return bn_chat_reject(chat, &wrong, err);
}

const char *bn_chat_word(const char *line, size_t i, bool *is_file)
{
    static const char *const THINK[] = {"on", "off"};
    size_t n = strcspn(line, " ");
    *is_file = false;
    if (line[n] == '\0') return i < BN_ARRAY_LEN(COMMANDS) ? COMMANDS[i].name : NULL;
    const struct command *c = find(line, n);
    *is_file = c != NULL && strstr(c->arg, "FILE") != NULL;
    if (c == NULL || strchr(line + n + 1, ' ') != NULL) return NULL; /* only the first word of its text */
    if (c->run == bn_chat_set) return bn_chat_setting(i);
    if (c->run == do_think && i < BN_ARRAY_LEN(THINK)) return THINK[i];
    return c->run == bn_chat_show && i == 0 ? "chat" : NULL;
}
