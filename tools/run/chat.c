/* SPDX-License-Identifier: MIT
 *
 * bn-run chat: turns of a conversation, a line of input each. Every turn renders the whole conversation and
 * evaluates only what is new: the tokens that the timeline already begins with are kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "infer/generate.h"
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
    bn_message messages[MAX_MESSAGES]; /* contents are owned, roles are literals */
    size_t n_messages, n_system;
    int32_t *timeline; /* n_ctx tokens that the session has seen */
    struct bn_buf answer;
};

static bool add(struct chat *chat, const char *role, const char *text)
{
    if (chat->n_messages == MAX_MESSAGES) return false;
    char *copy = bn_strndup(text, strlen(text));
    if (copy != NULL) chat->messages[chat->n_messages++] = (bn_message){role, copy};
    return copy != NULL;
}

static void clear(struct chat *chat, size_t keep)
{
    while (chat->n_messages > keep)
        bn_free((void *)(uintptr_t)chat->messages[--chat->n_messages].content);
}

static bool on_token(void *user, int32_t id, const char *text, size_t n_bytes)
{
    struct chat *chat = user;
    (void)id;
    fwrite(text, 1, n_bytes, stdout);
    fflush(stdout);
    bn_buf_append(&chat->answer, text, n_bytes);
    return bn_cli_interrupted() == 0;
}

/* Puts the session back to the longest beginning that ids and its timeline share, leaving at least one to do.
 */
static bn_status rewind_to(struct chat *chat, const int32_t *ids, size_t n_ids, size_t *kept, bn_error *err)
{
    size_t most = bn_min_size(bn_session_position(chat->engine.session), n_ids > 0 ? n_ids - 1 : 0);
    *kept = 0;
    while (*kept < most && ids[*kept] == chat->timeline[*kept])
        ++*kept;
    return bn_session_truncate(chat->engine.session, (uint32_t)*kept, err);
}

static bn_status answer(struct chat *chat, bn_error *err)
{
    int32_t *ids = NULL;
    size_t n_ids = 0, kept = 0;
    const char *stops[8];
    size_t n_stops = 0;
    while (n_stops < BN_ARRAY_LEN(stops) && bn_template_stop(chat->tmpl, n_stops) != NULL) {
        stops[n_stops] = bn_template_stop(chat->tmpl, n_stops);
        n_stops++;
    }
    BN_TRY(bn_template_encode(chat->tmpl, chat->tok, chat->messages, chat->n_messages, &ids, &n_ids, err));
    bn_status status = rewind_to(chat, ids, n_ids, &kept, err);
    struct bn_generation gen = {.prompt = ids + kept,
                                .n_prompt = n_ids - kept,
                                .n_predict = chat->n_predict,
                                .sampling = chat->sampling,
                                .stops = stops,
                                .n_stops = n_stops,
                                .on_token = on_token,
                                .user = chat};
    if (status == BN_OK) status = bn_generate(chat->engine.session, chat->tok, &gen, err);
    if (status == BN_OK) {
        size_t done = bn_session_position(chat->engine.session);
        memcpy(chat->timeline + kept, ids + kept, (n_ids - kept) * sizeof *ids);
        memcpy(chat->timeline + n_ids, gen.ids, (done - n_ids) * sizeof *ids);
        putchar('\n');
        fflush(stdout);
        if (!add(chat, "assistant", chat->answer.data != NULL ? chat->answer.data : ""))
            status = bn_fail(err, BN_ERR_LIMIT, "the conversation has %u messages, which is the most",
                             MAX_MESSAGES);
    }
    bn_buf_release(&chat->answer);
    bn_generation_release(&gen);
    bn_free(ids);
    return status;
}

/* One line of input; false at its end. */
static bool read_line(struct bn_buf *line, bool ask)
{
    bn_buf_release(line);
    if (ask) {
        fputs("> ", stderr);
        fflush(stderr);
    }
    int c;
    while ((c = getchar()) != EOF && c != '\n')
        bn_buf_putc(line, (char)c);
    return (c != EOF || line->len > 0) && bn_cli_interrupted() == 0;
}

static bn_status converse(struct chat *chat, struct bn_args *args, bn_error *err)
{
    bool ask = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    struct bn_buf line = {.max = 1u << 20};
    bn_status status = BN_OK;
    if (ask) bn_report_note(0, "template %s; /clear forgets, /exit ends", bn_template_name(chat->tmpl));
    while (status == BN_OK && bn_cli_interrupted() == 0 && read_line(&line, ask)) {
        status = bn_buf_check(&line, err);
        if (status != BN_OK || line.len == 0) continue;
        if (strlen(line.data) != line.len) {
            bn_report_warning("a line with a NUL byte is passed over");
            continue;
        }
        if (strcmp(line.data, "/exit") == 0 || strcmp(line.data, "/quit") == 0) break;
        if (strcmp(line.data, "/clear") == 0) {
            clear(chat, chat->n_system);
            continue;
        }
        if (!add(chat, "user", line.data))
            status = bn_fail(err, BN_ERR_LIMIT, "the conversation has %u messages, which is the most",
                             MAX_MESSAGES);
        else
            status = answer(chat, err);
        if (status == BN_ERR_LIMIT) { /* the talk goes on without what did not fit */
            (void)bn_report_error(err);
            bn_report_warning("the line is dropped; /clear forgets the conversation");
            clear(chat, chat->n_messages - 1);
            *err = (bn_error){0};
            status = BN_OK;
        }
    }
    bn_buf_release(&line);
    if (bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    return status;
}

static bn_status prepare(struct chat *chat, const struct bn_args *args, bn_error *err)
{
    const char *system = bn_opt_str(args, "system");
    BN_TRY(bn_cli_tokenizer(chat->engine.model, &chat->tok, err));
    (void)bn_template_from_name(bn_opt_str(args, "template"), &chat->tmpl);
    chat->tmpl = bn_template_resolve(chat->tmpl, chat->tok);
    BN_TRY(bn_run_sampling(&chat->sampling, args, err));
    BN_TRY(bn_opt_u32(args, "n-predict", 1, 1u << 24, &chat->n_predict, err));
    chat->timeline = bn_alloc(bn_session_n_ctx(chat->engine.session) + 1u, sizeof *chat->timeline);
    if (chat->timeline == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    if (system != NULL && !add(chat, "system", system)) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    chat->n_system = chat->n_messages;
    return BN_OK;
}

bn_status bn_run_chat(struct bn_args *args, bn_error *err)
{
    struct chat *chat = bn_alloc(1, sizeof *chat);
    if (chat == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    chat->answer.max = 1u << 24;
    bn_status status = bn_run_open(&chat->engine, args, BN_REPACK_AUTO, err);
    if (status == BN_OK) status = prepare(chat, args, err);
    bn_cli_catch_interrupt();
    if (status == BN_OK) status = converse(chat, args, err);
    clear(chat, 0);
    bn_free(chat->timeline);
    bn_run_close(&chat->engine);
    bn_free(chat);
    return status;
}
