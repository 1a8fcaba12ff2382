/* SPDX-License-Identifier: MIT
 *
 * bn-run chat: a conversation, one line of input a turn. Every turn renders the whole conversation and
 * evaluates only what is new: the tokens that the timeline already begins with are kept. When the
 * conversation does not fit into the context, its oldest turns are dropped, and the rest is evaluated again.
 *
 * A model without a chat template (raw) only continues text; its answer ends at the first empty line. The
 * template drops the think blocks of earlier answers.
 */
#define _GNU_SOURCE /* memmem */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/suggest.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/run.h"

#define MAX_MESSAGES 1024u

struct chat {
    struct bn_run_engine engine;
    const bn_tokenizer *tok;
    bn_template tmpl;
    bn_sampler_options sampling;
    uint32_t n_predict;
    bool on_terminal, ended;
    const struct bn_args *args; /* of the prompt cache, which is read before the first answer */
    size_t n_loaded;
    bool loaded;
    bn_message messages[MAX_MESSAGES]; /* contents are owned, roles are literals */
    size_t n_messages, n_system;       /* n_system: 1 when the first one is the system message */
    struct bn_buf answer; /* with the tag that the prompt ends with, where the template opens a think block */
    size_t n_shown;       /* bytes of the answer that are printed */
    struct bn_run_answer printer;
    struct bn_generation last; /* counts and times of the last answer only */
    bn_exit rejected;          /* exit code for the last line that was not answered */
};

/* ---- the conversation ---- */

static void remove_messages(struct chat *chat, size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i++)
        bn_free((void *)(uintptr_t)chat->messages[i].content);
    chat->n_messages -= n;
    memmove(chat->messages + at, chat->messages + at + n, (chat->n_messages - at) * sizeof *chat->messages);
}

/* The oldest message of the user's and its answer; false when only the newest message is left. */
static bool drop_turn(struct chat *chat)
{
    size_t first = chat->n_system, n = 1;
    if (chat->n_messages <= first + 1) return false;
    while (first + n < chat->n_messages - 1 && strcmp(chat->messages[first + n].role, "user") != 0)
        n++;
    remove_messages(chat, first, n);
    return true;
}

static bn_status insert(struct chat *chat, size_t at, const char *role, const char *text, size_t n_bytes,
                        bn_error *err)
{
    if (chat->n_messages == MAX_MESSAGES) (void)drop_turn(chat);
    if (at > chat->n_messages) at = chat->n_messages;
    char *copy = bn_strndup(text, n_bytes);
    if (copy == NULL) return bn_nomem(err);
    memmove(chat->messages + at + 1, chat->messages + at, (chat->n_messages - at) * sizeof *chat->messages);
    chat->messages[at] = (bn_message){role, copy};
    chat->n_messages++;
    return BN_OK;
}

static bn_status set_system(struct chat *chat, const char *text, bn_error *err)
{
    if (chat->n_system > 0) remove_messages(chat, 0, chat->n_system);
    chat->n_system = 0;
    if (text[0] == '\0') return BN_OK;
    BN_TRY(insert(chat, 0, "system", text, strlen(text), err));
    chat->n_system = 1;
    return BN_OK;
}

/* ---- answers ---- */

/* Cuts the answer at the first empty line after some text. */
static bool ends_paragraph(struct chat *chat)
{
    size_t from = 0, n = chat->answer.len;
    const char *text = chat->answer.data;
    while (from < n && (text[from] == '\n' || text[from] == ' '))
        from++;
    const char *end = from < n ? memmem(text + from, n - from, "\n\n", 2) : NULL;
    if (end != NULL) chat->answer.len = (size_t)(end - text);
    return end != NULL;
}

/* Line feeds are printed when something follows them: an answer ends with exactly one. */
static bool on_token(void *user, int32_t id, const char *text, size_t n_bytes)
{
    struct chat *chat = user;
    (void)id;
    bn_buf_append(&chat->answer, text, n_bytes);
    bool ended = chat->tmpl == BN_TEMPLATE_RAW && ends_paragraph(chat);
    size_t to = chat->answer.len;
    while (to > chat->n_shown && chat->answer.data[to - 1] == '\n')
        to--;
    if (to > chat->n_shown)
        bn_run_answer_print(&chat->printer, chat->answer.data + chat->n_shown, to - chat->n_shown);
    chat->n_shown = to;
    bn_model_repack(chat->engine.model);
    return !ended && bn_cli_interrupted() == 0;
}

/* The tokens of the conversation. Turns are dropped from its beginning until it fits, with some room for the
 * answer. */
static bn_status encode(struct chat *chat, int32_t **ids, size_t *n_ids, bn_error *err)
{
    size_t n_ctx = bn_session_n_ctx(chat->engine.session), n_dropped = 0;
    size_t room = bn_min_size(chat->n_predict, n_ctx / 4);
    for (;;) {
        BN_TRY(bn_template_encode(chat->tmpl, chat->tok, chat->messages, chat->n_messages, ids, n_ids, err));
        if (*n_ids + room <= n_ctx || !drop_turn(chat)) break;
        bn_free(*ids);
        *ids = NULL;
        n_dropped++;
    }
    if (n_dropped == 1) bn_report_note(0, "the context is full: dropped the oldest turn");
    if (n_dropped > 1) bn_report_note(0, "the context is full: dropped the %zu oldest turns", n_dropped);
    if (*n_ids <= n_ctx) return BN_OK;
    return bn_fail(err, BN_ERR_LIMIT, "message too long: %zu tokens%s, the context holds %zu", *n_ids,
                   chat->n_system > 0 ? " with the system message" : "", n_ctx);
}

static bn_status finish_answer(struct chat *chat, const struct bn_generation *gen, bn_error *err)
{
    bn_run_print("\n", 1);
    if (gen->reason == BN_STOP_CONTEXT)
        bn_report_note(0, "the answer is cut: the context of %u tokens is full",
                       bn_session_n_ctx(chat->engine.session));
    char rates[BN_RUN_RATES];
    bn_report_note(1, "%s", bn_run_rates(rates, gen));
    bn_run_note_drafts(gen, 1);
    chat->last = (struct bn_generation){.n_prompt = gen->n_prompt,
                                        .n_cached = gen->n_cached,
                                        .n_ids = gen->n_ids,
                                        .prefill_ns = gen->prefill_ns,
                                        .decode_ns = gen->decode_ns};
    BN_TRY(bn_buf_check(&chat->answer, err));
    return insert(chat, chat->n_messages, "assistant", bn_buf_text(&chat->answer), chat->n_shown, err);
}

static bn_status generate(struct chat *chat, const int32_t *ids, size_t n_ids, bn_error *err)
{
    size_t n_stops = 0;
    const char *stops[8];
    while (n_stops < BN_ARRAY_LEN(stops) && bn_template_stop(chat->tmpl, n_stops) != NULL) {
        stops[n_stops] = bn_template_stop(chat->tmpl, n_stops);
        n_stops++;
    }
    if (!chat->loaded)
        BN_TRY(bn_run_cache_load(chat->args, chat->engine.session, ids, n_ids, &chat->n_loaded, err));
    chat->loaded = true;
    struct bn_generation gen = {.prompt = ids,
                                .n_prompt = n_ids,
                                .n_cached =
                                    n_ids > 0 ? bn_session_keep(chat->engine.session, ids, n_ids - 1) : 0,
                                .n_predict = chat->n_predict,
                                .sampling = chat->sampling,
                                .stops = stops,
                                .n_stops = n_stops,
                                .on_token = on_token,
                                .user = chat,
                                .draft = bn_run_draft(chat->args, &chat->engine)};
    if (chat->tmpl == BN_TEMPLATE_QWEN35) bn_buf_puts(&chat->answer, "<think>\n");
    chat->n_shown = chat->answer.len;
    bn_run_answer_start(&chat->printer, chat->tmpl);
    bn_status status = bn_generate(chat->engine.session, chat->tok, &gen, err);
    bn_run_answer_end(&chat->printer);
    if (status == BN_OK) status = finish_answer(chat, &gen, err);
    bn_buf_release(&chat->answer);
    bn_generation_release(&gen);
    return status;
}

/* Answers the last message. A message that does not fit, or that is interrupted before its answer begins, is
 * removed, and the conversation goes on. */
static bn_status answer(struct chat *chat, bn_error *err)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    bn_status status = encode(chat, &ids, &n_ids, err);
    if (status == BN_OK) status = generate(chat, ids, n_ids, err);
    bn_free(ids);
    if (status == BN_ERR_LIMIT || status == BN_ERR_CANCELLED) {
        if (status == BN_ERR_LIMIT) chat->rejected = (bn_exit)bn_report_error(err);
        remove_messages(chat, chat->n_messages - 1, 1);
        *err = (bn_error){0};
        status = BN_OK;
    }
    /* At a terminal the first Ctrl-C stops the answer, not the program. */
    if (chat->on_terminal && bn_cli_interrupted() == SIGINT) bn_cli_forget_interrupt();
    return status;
}

static bn_status say(struct chat *chat, const char *text, bn_error *err)
{
    BN_TRY(insert(chat, chat->n_messages, "user", text, strlen(text), err));
    return answer(chat, err);
}

/* ---- commands ---- */

static bn_status do_help(struct chat *chat, const char *text, bn_error *err);

static bn_status do_clear(struct chat *chat, const char *text, bn_error *err)
{
    (void)text;
    (void)err;
    remove_messages(chat, chat->n_system, chat->n_messages - chat->n_system);
    return BN_OK;
}

static bn_status do_exit(struct chat *chat, const char *text, bn_error *err)
{
    (void)text;
    (void)err;
    chat->ended = true;
    return BN_OK;
}

static bn_status do_regen(struct chat *chat, const char *text, bn_error *err)
{
    (void)text;
    if (chat->n_messages < chat->n_system + 2) {
        bn_report_warning("there is no answer yet");
        return BN_OK;
    }
    if (chat->sampling.temperature > 0.0f)
        chat->sampling.seed++;
    else
        bn_report_note(0, "with --temp 0 the same question gets the same answer");
    remove_messages(chat, chat->n_messages - 1, 1);
    return answer(chat, err);
}

static bn_status do_think(struct chat *chat, const char *text, bn_error *err)
{
    bool on = strcmp(text, "on") == 0;
    (void)err;
    if (!on && strcmp(text, "off") != 0) {
        bn_error wrong = {0};
        bn_fail(&wrong, BN_ERR_ARG, "the command /think takes on or off");
        chat->rejected = (bn_exit)bn_report_error(&wrong);
    } else if (bn_template_thinking(chat->tmpl) == BN_THINKING_NONE) {
        bn_report_warning("the template %s has no thinking", bn_template_name(chat->tmpl));
    } else {
        chat->tmpl = bn_template_set_thinking(chat->tmpl, on);
    }
    return BN_OK;
}

static bn_status do_stats(struct chat *chat, const char *text, bn_error *err)
{
    size_t n_turns = (chat->n_messages - chat->n_system) / 2;
    (void)text;
    (void)err;
    fprintf(stderr, "%zu turn%s, %u of %u tokens of the context\n", n_turns, bn_cli_s(n_turns),
            bn_session_position(chat->engine.session), bn_session_n_ctx(chat->engine.session));
    char rates[BN_RUN_RATES];
    if (chat->last.n_prompt > 0) fprintf(stderr, "%s\n", bn_run_rates(rates, &chat->last));
    return BN_OK;
}

static const struct {
    const char *name, *arg, *help;
    bn_status (*run)(struct chat *chat, const char *text, bn_error *err);
} COMMANDS[] = {
    {"help", "", "list the commands", do_help},
    {"clear", "", "forget the conversation", do_clear},
    {"regen", "", "answer the last message again, with the next seed", do_regen},
    {"system", "TEXT", "set the system message; without TEXT remove it", set_system},
    {"think", "on|off", "write thoughts before an answer, or not", do_think},
    {"stats", "", "show how full the context is, and the speed of the last answer", do_stats},
    {"bye", "", "end the program; also /exit, /quit and Ctrl-D", do_exit},
    {"exit", "", NULL, do_exit},
    {"quit", "", NULL, do_exit},
};

static bn_status do_help(struct chat *chat, const char *text, bn_error *err)
{
    (void)chat;
    (void)text;
    (void)err;
    for (size_t i = 0; i < BN_ARRAY_LEN(COMMANDS); i++)
        if (COMMANDS[i].help != NULL)
            fprintf(stderr, "  /%-6s %-6s  %s\n", COMMANDS[i].name, COMMANDS[i].arg, COMMANDS[i].help);
    fputs("  //TEXT          say a line that begins with one slash\n"
          "  Ctrl-C          stop the answer; at the prompt, end the program\n",
          stderr);
    return BN_OK;
}

/* Answers a line "/word text". */
static bn_status obey(struct chat *chat, const char *line, bn_error *err)
{
    size_t n = strcspn(line + 1, " ");
    const char *text = line + 1 + n + strspn(line + 1 + n, " ");
    char word[40];
    struct bn_suggestion s = {.typed = bn_escape(word, sizeof word, line + 1, n)};
    bn_error wrong = {0};
    for (size_t i = 0; i < BN_ARRAY_LEN(COMMANDS); i++) {
        bn_suggest(&s, COMMANDS[i].name);
        if (strcmp(COMMANDS[i].name, word) != 0) continue;
        if (text[0] == '\0' || COMMANDS[i].arg[0] != '\0') return COMMANDS[i].run(chat, text, err);
        bn_fail(&wrong, BN_ERR_ARG, "the command /%s takes no text", word);
    }
    if (wrong.code == BN_OK) {
        bn_fail(&wrong, BN_ERR_ARG, "unknown command '/%s'; /help lists them", word);
        if (s.best != NULL) bn_error_hint(&wrong, "did you mean /%s?", s.best);
    }
    chat->rejected = (bn_exit)bn_report_error(&wrong);
    return BN_OK;
}

/* ---- the loop ---- */

static void greet(const struct chat *chat, const struct bn_args *args)
{
    char name[200];
    const char *model = bn_cli_model_name(args);
    bn_report_note(0, "%s, template %s, context of %u tokens",
                   bn_escape(name, sizeof name, model, strlen(model)), bn_template_name(chat->tmpl),
                   bn_session_n_ctx(chat->engine.session));
    if (bn_template_resolve(BN_TEMPLATE_AUTO, chat->tok) == BN_TEMPLATE_RAW)
        bn_report_note(0, "this is a base model: it continues text");
    bn_report_note(0, "/help lists the commands, Ctrl-D ends");
}

static bn_status take_line(struct chat *chat, const struct bn_buf *line, bn_error *err)
{
    BN_TRY(bn_buf_check(line, err));
    if (line->len == 0) return BN_OK;
    if (strlen(line->data) != line->len) {
        bn_error wrong = {0};
        bn_fail(&wrong, BN_ERR_FORMAT, "a line with a NUL byte is not answered");
        chat->rejected = (bn_exit)bn_report_error(&wrong);
        return BN_OK;
    }
    if (line->data[0] != '/') return say(chat, line->data, err);
    return line->data[1] == '/' ? say(chat, line->data + 1, err) : obey(chat, line->data, err);
}

static bn_status converse(struct chat *chat, struct bn_args *args, bn_error *err)
{
    struct bn_run_lines *lines = NULL;
    struct bn_buf line = {.max = 1u << 20};
    const char *first = args->prompt;
    if (chat->on_terminal) greet(chat, args);
    bn_status status = bn_run_lines_open(&lines, chat->on_terminal, err);
    if (status == BN_OK && first != NULL) status = say(chat, first, err);
    while (status == BN_OK && !chat->ended && bn_cli_interrupted() == 0) {
        if (bn_run_lines_next(lines, &line)) {
            status = take_line(chat, &line, err);
            continue;
        }
        /* The shell's prompt begins on a line of its own. */
        if (chat->on_terminal) fputc('\n', stderr);
        chat->ended = true;
    }
    bn_run_lines_close(lines);
    bn_buf_release(&line);
    if (!chat->on_terminal) args->exit_code = (int)chat->rejected;
    if (bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    return status;
}

static bn_status prepare(struct chat *chat, const struct bn_args *args, bn_error *err)
{
    const struct bn_run_options *o = args->fields;
    BN_TRY(bn_cli_tokenizer(chat->engine.model, &chat->tok, err));
    BN_TRY(bn_run_template(&chat->tmpl, args, chat->tok, err));
    BN_TRY(bn_run_cache_check(args, err));
    chat->args = args;
    chat->sampling = bn_run_sampling(args);
    chat->n_predict = bn_run_at_most(o->n_predict != 0 ? o->n_predict : UINT32_MAX, chat->engine.session);
    bn_run_note_sampling(chat->tmpl, &chat->sampling);
    return set_system(chat, o->system != NULL ? o->system : "", err);
}

bn_status bn_run_chat(struct bn_args *args, bn_error *err)
{
    struct chat *chat = bn_alloc(1, sizeof *chat);
    if (chat == NULL) return bn_nomem(err);
    chat->answer.max = 1u << 24;
    chat->on_terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    bn_status status = bn_run_open(&chat->engine, args, BN_REPACK_AUTO, err);
    if (status == BN_OK) status = prepare(chat, args, err);
    bn_cli_catch_interrupt();
    if (status == BN_OK) status = converse(chat, args, err);
    if (status == BN_OK && chat->loaded)
        status = bn_run_cache_save(args, chat->engine.session, bn_session_position(chat->engine.session),
                                   chat->n_loaded, err);
    remove_messages(chat, 0, chat->n_messages);
    bn_run_close(&chat->engine);
    bn_free(chat);
    return status;
}
