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
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/chat/chat.h"

/* ---- the conversation ---- */

static bn_status do_clear(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)text;
    (void)err;
    bn_turns_clear(&chat->turns);
    bn_chat_forget_answer(chat);
    return BN_OK;
}

static bn_status do_system(struct bn_chat *chat, const char *text, bn_error *err)
{
    return bn_turns_set_system(&chat->turns, text, err);
}

static bn_status do_regen(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)text;
    if (bn_turns_count(&chat->turns) == 0) {
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
    (void)text;
    (void)err;
    size_t n = bn_turns_count(&chat->turns);
    if (n == 0) bn_report_warning("there is no turn yet");
    while (n > 0 && bn_turns_count(&chat->turns) == n)
        bn_turns_pop(&chat->turns);
    return BN_OK;
}

static bn_status do_think(struct bn_chat *chat, const char *text, bn_error *err)
{
    bool on = strcmp(text, "on") == 0;
    if (!on && strcmp(text, "off") != 0) {
        bn_error wrong = {0};
        bn_fail(&wrong, BN_ERR_ARG, "the command /think takes on or off");
        return bn_chat_reject(chat, &wrong, err);
    }
    if (bn_template_thinking(chat->tmpl) == BN_THINKING_NONE)
        bn_report_warning("the template %s has no thinking", bn_template_name(chat->tmpl));
    chat->tmpl = bn_template_set_thinking(chat->tmpl, on);
    return BN_OK;
}

static bn_status do_stats(struct bn_chat *chat, const char *text, bn_error *err)
{
    size_t n_turns = bn_turns_count(&chat->turns);
    (void)text;
    (void)err;
    fprintf(stderr, "%zu turn%s, %u of %u tokens of the context\n", n_turns, bn_cli_s(n_turns),
            bn_session_position(chat->engine.session), bn_session_n_ctx(chat->engine.session));
    char rates[BN_RUN_RATES];
    if (chat->last.known) fprintf(stderr, "%s\n", bn_run_rates(rates, &chat->last.gen));
    return BN_OK;
}

static bn_status do_exit(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)text;
    (void)err;
    chat->ended = true;
    return BN_OK;
}

/* ---- files ---- */

/* The name of a file as typed: "~/" is the home folder, blanks at the end are not part of it. */
static bn_status file_name(struct bn_buf *path, const char *text, bn_error *err)
{
    const char *home = getenv("HOME");
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == ' ')
        n--;
    if (text[0] == '~' && text[1] == '/' && home != NULL) {
        bn_buf_puts(path, home);
        text++;
        n--;
    }
    bn_buf_append(path, text, n);
    return bn_buf_check(path, err);
}

static bn_status do_save(struct bn_chat *chat, const char *text, bn_error *err)
{
    bn_error wrong = {0};
    struct bn_buf path = {.max = 4095};
    size_t n = bn_turns_count(&chat->turns);
    bn_status status = file_name(&path, text, &wrong);
    if (status == BN_OK) status = bn_chat_save(chat, path.data, &wrong);
    if (status == BN_OK) bn_report_note(0, "saved %zu turn%s to %s", n, bn_cli_s(n), path.data);
    bn_buf_release(&path);
    return status == BN_OK ? BN_OK : bn_chat_reject(chat, &wrong, err);
}

static bn_status do_load(struct bn_chat *chat, const char *text, bn_error *err)
{
    static const char ANY[] = "--any ";
    bn_error wrong = {0};
    struct bn_buf path = {.max = 4095};
    bool any = strncmp(text, ANY, strlen(ANY)) == 0;
    bn_status status = file_name(&path, text + (any ? strlen(ANY) : 0), &wrong);
    if (status == BN_OK) status = bn_chat_load(chat, path.data, any, &wrong);
    if (status == BN_OK) {
        size_t n = bn_turns_count(&chat->turns);
        bn_report_note(0, "loaded %zu turn%s from %s; /show chat prints them", n, bn_cli_s(n), path.data);
    }
    bn_buf_release(&path);
    return status == BN_OK ? BN_OK : bn_chat_reject(chat, &wrong, err);
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
    bn_error wrong = {0};
    struct bn_buf path = {.max = 4095};
    if (!chat->last.known) {
        bn_report_warning("there is no answer yet");
        return BN_OK;
    }
    bn_status status = text[0] != '\0' ? file_name(&path, text, &wrong) : free_name(&path, &wrong);
    if (status == BN_OK) status = bn_chat_receipt(chat, path.data, &wrong);
    if (status == BN_OK) {
        const char *model = chat->args->model;
        bn_report_note(0, "wrote %s; this replays it:", path.data);
        bn_report_note(0, "  bn-verify-receipt --replay%s%s %s", model != NULL ? " --model " : "",
                       model != NULL ? model : "", path.data);
    }
    bn_buf_release(&path);
    return status == BN_OK ? BN_OK : bn_chat_reject(chat, &wrong, err);
}

/* ---- the table ---- */

static const char *think_word(size_t i)
{
    static const char *const WORDS[] = {"on", "off"};
    return i < BN_ARRAY_LEN(WORDS) ? WORDS[i] : NULL;
}

static const char *show_word(size_t i)
{
    return i == 0 ? "chat" : NULL;
}

/* A command whose text is a file completes names of files. */
static const char *file_word(size_t i)
{
    (void)i;
    return NULL;
}

static bn_status do_help(struct bn_chat *chat, const char *text, bn_error *err);

/* A text in brackets may be left out. An alias has no help. */
static const struct command {
    const char *name, *arg, *help;
    bn_status (*run)(struct bn_chat *chat, const char *text, bn_error *err);
    const char *(*word)(size_t i); /* the i-th word that its text can be, for completion */
} COMMANDS[] = {
    {"/help", "", "list the commands; also /?", do_help, NULL},
    {"/?", "", NULL, do_help, NULL},
    {"/regen", "", "answer the last message again, with the next seed", do_regen, NULL},
    {"/retry", "", NULL, do_regen, NULL},
    {"/undo", "", "remove the last message and its answer", do_undo, NULL},
    {"/clear", "", "forget the conversation", do_clear, NULL},
    {"/system", "[TEXT]", "set the system message; without TEXT remove it", do_system, NULL},
    {"/set", "[NAME VALUE]", "change a setting; without NAME list them", bn_chat_set, bn_chat_setting},
    {"/think", "on|off", "write thoughts before an answer, or not", do_think, think_word},
    {"/show", "[chat]", "show model, system message, settings; or the chat", bn_chat_show, show_word},
    {"/stats", "", "show how full the context is and the last speed", do_stats, NULL},
    {"/save", "FILE", "save the conversation", do_save, file_word},
    {"/load", "FILE", "continue a saved conversation", do_load, file_word},
    {"/receipt", "[FILE]", "write a receipt of the last answer", do_receipt, file_word},
    {"/bye", "", "end the program; also /exit, /quit and Ctrl-D", do_exit, NULL},
    {"/exit", "", NULL, do_exit, NULL},
    {"/quit", "", NULL, do_exit, NULL},
};

static bn_status do_help(struct bn_chat *chat, const char *text, bn_error *err)
{
    (void)chat;
    (void)text;
    (void)err;
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

static bn_status reject_unknown(struct bn_chat *chat, const char *line, size_t n, bn_error *err)
{
    char word[40];
    struct bn_suggestion s = {.typed = bn_escape(word, sizeof word, line, n)};
    bn_error wrong = {0};
    for (size_t i = 0; i < BN_ARRAY_LEN(COMMANDS); i++)
        bn_suggest(&s, COMMANDS[i].name);
    bn_fail(&wrong, BN_ERR_ARG, "unknown command '%s'; /help lists them", word);
    if (s.best != NULL)
        bn_error_hint(&wrong, "did you mean %s?", s.best);
    else
        bn_error_hint(&wrong, "/%s says it to the model", word);
    return bn_chat_reject(chat, &wrong, err);
}

bn_status bn_chat_obey(struct bn_chat *chat, const char *line, bn_error *err)
{
    size_t n = strcspn(line, " \t\n");
    const char *text = line + n + strspn(line + n, " \t\n");
    const struct command *c = find(line, n);
    bn_error wrong = {0};
    if (c == NULL) return reject_unknown(chat, line, n, err);
    if (text[0] != '\0' && c->arg[0] == '\0')
        bn_fail(&wrong, BN_ERR_ARG, "the command %s takes no text", c->name);
    else if (text[0] == '\0' && c->arg[0] != '\0' && c->arg[0] != '[')
        bn_fail(&wrong, BN_ERR_ARG, "the command %s needs %s", c->name, c->arg);
    else
        return c->run(chat, text, err);
    return bn_chat_reject(chat, &wrong, err);
}

const char *bn_chat_word(const char *line, size_t i, bool *is_file)
{
    size_t n = strcspn(line, " ");
    *is_file = false;
    if (line[n] == '\0') return i < BN_ARRAY_LEN(COMMANDS) ? COMMANDS[i].name : NULL;
    const struct command *c = find(line, n);
    if (c == NULL || c->word == NULL) return NULL;
    *is_file = c->word == file_word;
    /* Only its first word. */
    return strchr(line + n + 1, ' ') == NULL ? c->word(i) : NULL;
}
