/* SPDX-License-Identifier: MIT
 *
 * bn-run chat: a conversation. On a terminal somebody types, and sees a greeting, prompts and statistics on
 * standard error; otherwise each line of standard input is a message. Answers go to standard output.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/chat/chat.h"

bn_status bn_chat_reject(struct bn_chat *chat, const bn_error *wrong, bn_error *err)
{
    if (wrong->code == BN_ERR_NOMEM) return bn_nomem(err);
    chat->rejected = (bn_exit)bn_report_error(wrong);
    return chat->args->json ? bn_chat_put_error(chat, wrong, err) : BN_OK;
}

static const char *shown_name(const struct bn_chat *chat, char out[200])
{
    const char *name = bn_receipt_base_name(bn_cli_model_name(chat->args));
    return bn_escape(out, 200, name, strlen(name));
}

/* A large model takes seconds. The line is replaced by what is printed next. */
static bn_status open_engine(struct bn_chat *chat, bn_error *err)
{
    char name[200];
    bool note = chat->on_terminal && !chat->args->quiet && bn_report_color(stderr);
    if (note) fprintf(stderr, "opening %s ...\r", shown_name(chat, name));
    bn_status status = bn_run_open(&chat->engine, chat->args, err);
    if (note) fputs("\033[K", stderr);
    return status;
}

static void greet(const struct bn_chat *chat)
{
    char name[200];
    bn_report_note(0, "%s, template %s, context of %u tokens", shown_name(chat, name),
                   bn_template_name(chat->tmpl), bn_session_n_ctx(chat->engine.session));
    if (bn_template_resolve(BN_TEMPLATE_AUTO, chat->tok) == BN_TEMPLATE_RAW)
        bn_report_note(0, "this is a base model: it continues text and does not answer questions");
    if (chat->tmpl == BN_TEMPLATE_RAW)
        bn_report_note(0, "answers are made with -n %d --temp %g", (int)chat->asked.n_predict,
                       (double)chat->asked.sampling.temperature);
    if (chat->args->model == NULL)
        bn_report_note(0, "bn-download bitnet-b1.58-2b-4t gets a model that answers");
    bn_report_note(0, "/help lists the commands, Ctrl-D ends");
}

static bn_status take_message(struct bn_chat *chat, const struct bn_buf *message, bn_error *err)
{
    const char *text = message->data;
    bn_error wrong = {0};
    if (bn_buf_check(message, &wrong) == BN_ERR_LIMIT) {
        wrong = (bn_error){0};
        bn_fail(&wrong, BN_ERR_LIMIT, "a message has more than %u bytes", BN_CHAT_MAX_INPUT);
    } else if (message->len > 0 && strlen(text) != message->len) {
        bn_fail(&wrong, BN_ERR_FORMAT, "a line with a NUL byte is not answered");
    }
    if (wrong.code != BN_OK) return bn_chat_reject(chat, &wrong, err);
    if (message->len == 0 || text[strspn(text, " \t\r\n")] == '\0') return BN_OK;
    if (chat->args->json) return bn_chat_take_json(chat, text, err);
    if (text[0] != '/') return bn_chat_say(chat, text, err);
    return text[1] == '/' ? bn_chat_say(chat, text + 1, err) : bn_chat_obey(chat, text, err);
}

/* Ctrl-C at the prompt clears the line; on an empty line, directly after another one, it ends the program. */
static void take_interrupt(struct bn_chat *chat, bool had_text)
{
    bool again = chat->ctrl_c && !had_text;
    bool other = bn_cli_interrupted() != 0 && bn_cli_interrupted() != SIGINT;
    if (!chat->on_terminal || other || again) {
        chat->args->exit_code = 128 + SIGINT;
        chat->ended = true;
        return;
    }
    bn_cli_forget_interrupt();
    chat->ctrl_c = true;
    bn_report_note(0, "press Ctrl-C again, or Ctrl-D, to leave");
}

static bn_status read_messages(struct bn_chat *chat, struct bn_lines *lines, bn_error *err)
{
    struct bn_buf message = {.max = BN_CHAT_MAX_INPUT};
    bn_status status = BN_OK;
    while (status == BN_OK && !chat->ended && bn_cli_interrupted() == 0) {
        enum bn_input got = bn_chat_input(lines, chat->args->json, &message);
        if (got == BN_INPUT_INTERRUPTED) {
            take_interrupt(chat, bn_lines_had_text(lines));
        } else if (got == BN_INPUT_TEXT) {
            chat->ctrl_c = false;
            status = take_message(chat, &message, err);
        } else {
            /* The shell's prompt begins on a line of its own. */
            if (chat->on_terminal) fputc('\n', stderr);
            chat->ended = true;
        }
    }
    bn_buf_release(&message);
    return status;
}

static bn_status converse(struct bn_chat *chat, bn_error *err)
{
    struct bn_lines *lines = NULL;
    const char *first = chat->args->n_operands > 0 ? chat->args->operands[0] : chat->args->prompt;
    if (chat->on_terminal) greet(chat);
    if (chat->on_terminal) bn_cli_last_words(bn_report_color(stderr) ? "\033[0m\n" : "\n");
    BN_TRY(bn_lines_open(&lines, chat->on_terminal, !chat->o->no_history, err));
    bn_status status = BN_OK;
    if (first != NULL) {
        if (chat->on_terminal) fprintf(stderr, "> %s\n", first);
        status = bn_chat_say(chat, first, err);
    }
    if (status == BN_OK) status = read_messages(chat, lines, err);
    bn_lines_close(lines);
    if (!chat->on_terminal) chat->args->exit_code = (int)chat->rejected;
    if (bn_cli_interrupted() != 0) chat->args->exit_code = 128 + bn_cli_interrupted();
    return status;
}

static bn_status prepare(struct bn_chat *chat, bn_error *err)
{
    const struct bn_run_options *o = chat->o;
    BN_TRY(bn_cli_tokenizer(chat->engine.model, &chat->tok, err));
    BN_TRY(bn_run_template(&chat->tmpl, chat->args, chat->tok, err));
    BN_TRY(bn_run_cache_check(chat->args, err));
    BN_TRY(bn_run_grammar(&chat->grammar, chat->args, err));
    if (o->receipts != NULL) BN_TRY(bn_run_make_folder(o->receipts, err));
    chat->asked.sampling = bn_run_sampling(chat->args);
    BN_TRY(bn_sampler_check(&chat->asked.sampling, bn_model_hparams(chat->engine.model)->n_vocab, err));
    /* A base model rarely ends by itself, and repeats itself when greedy. The page of bn-serve has the same numbers. */
    bool base = chat->tmpl == BN_TEMPLATE_RAW;
    chat->asked.n_predict = o->n_predict != 0 ? o->n_predict : base ? 128 : UINT32_MAX;
    if (base && !bn_args_given(chat->args, &o->sampling.temperature)) chat->asked.sampling.temperature = 0.7f;
    bn_run_note_sampling(chat->tmpl, &chat->asked.sampling);
    return bn_turns_set_system(&chat->talk, o->system != NULL ? o->system : "", err);
}

bn_status bn_run_chat(struct bn_args *args, bn_error *err)
{
    if (args->n_operands > 0) BN_TRY(bn_run_check_text(args, NULL, err));
    struct bn_chat *chat = bn_alloc(1, sizeof *chat);
    if (chat == NULL) return bn_nomem(err);
    chat->args = args;
    chat->o = args->fields;
    chat->answer.max = 1u << 24;
    chat->on_terminal = !args->json && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    chat->show_stats = chat->on_terminal && !args->quiet;
    bn_status status = open_engine(chat, err);
    if (status == BN_OK) status = prepare(chat, err);
    bn_cli_catch_interrupt();
    if (status == BN_OK) status = converse(chat, err);
    if (status == BN_OK && chat->loaded)
        status = bn_run_cache_save(args, chat->engine.session, bn_session_position(chat->engine.session),
                                   chat->n_loaded, err);
    bn_chat_forget_answer(chat);
    bn_turns_remove(&chat->talk, 0, chat->talk.n_turns);
    bn_talk_release(&chat->talk);
    bn_grammar_close(chat->grammar);
    bn_run_close(&chat->engine);
    bn_free(chat);
    return status;
}
