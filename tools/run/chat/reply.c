/* SPDX-License-Identifier: MIT
 *
 * Answers of a conversation. Every turn renders the whole conversation and evaluates only what is new: the tokens
 * that the timeline already begins with are kept. When the conversation does not fit into the context, its oldest
 * turns are dropped, and the rest is evaluated again. What is evaluated is always what a receipt of the answer
 * shows, so each answer can be replayed by itself.
 *
 * A model without a chat template (raw) only continues text; its answer ends at the first empty line. The
 * template drops the think blocks of earlier answers.
 */
#define _GNU_SOURCE /* memmem */
#include <signal.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/cli/default_model.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/run/chat/chat.h"

/* ---- the prompt ---- */

/* Room for an answer is a fourth of the context, or what it takes at most. When turns must be dropped, another
 * fourth is freed, so that the next turns only evaluate what is new. */
static bn_status encode(struct bn_chat *chat, bn_error *err)
{
    struct bn_last_answer *last = &chat->last;
    struct bn_prompt *prompt = &last->prompt;
    size_t n_ctx = bn_session_n_ctx(chat->engine.session), n_dropped = 0, oldest;
    size_t most = n_ctx - bn_min_size(chat->asked.n_predict, n_ctx / 4),
           n_system = bn_talk_n_system(&chat->talk);
    last->tmpl = chat->tmpl;
    for (;;) {
        BN_TRY(bn_talk_render(prompt, &chat->talk, n_dropped, chat->tmpl, chat->tok, err));
        if (prompt->n_ids <= most || (oldest = bn_talk_oldest(&chat->talk, n_dropped)) == 0) break;
        bn_prompt_release(prompt);
        if (n_dropped == 0) most -= n_ctx / 4;
        n_dropped += oldest;
        last->n_dropped++;
    }
    if (prompt->n_ids > n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "message too long: %zu tokens%s, the context holds %zu",
                       prompt->n_ids, n_system > 0 ? " with the system message" : "", n_ctx);
    if (last->n_dropped == 1) bn_report_note(0, "the context is full: dropped the oldest turn");
    if (last->n_dropped > 1)
        bn_report_note(0, "the context is full: dropped the %zu oldest turns", last->n_dropped);
    bn_turns_remove(&chat->talk, n_system, n_dropped);
    return BN_OK;
}

/* ---- the answer ---- */

/* Cuts the answer at the first empty line after some text. */
static bool ends_paragraph(struct bn_buf *answer)
{
    size_t from = 0, n = answer->len;
    const char *text = answer->data;
    while (from < n && (text[from] == '\n' || text[from] == ' '))
        from++;
    const char *end = from < n ? memmem(text + from, n - from, "\n\n", 2) : NULL;
    if (end != NULL) answer->len = (size_t)(end - text);
    return end != NULL;
}

/* Line feeds are printed when something follows them: an answer ends with exactly one. */
static bool on_token(void *user, int32_t id, const char *text, size_t n_bytes)
{
    struct bn_chat *chat = user;
    (void)id;
    chat->engine.answering = true;
    bn_buf_append(&chat->answer, text, n_bytes);
    bool ended = chat->tmpl == BN_TEMPLATE_RAW && ends_paragraph(&chat->answer);
    size_t to = chat->answer.len;
    while (to > chat->n_shown && chat->answer.data[to - 1] == '\n')
        to--;
    if (to > chat->n_shown && !chat->args->json)
        bn_run_answer_print(&chat->printer, chat->answer.data + chat->n_shown, to - chat->n_shown);
    chat->n_shown = to;
    bn_model_repack(chat->engine.model);
    chat->last.stopped = bn_cli_interrupted() != 0;
    return !ended && !chat->last.stopped;
}

static bn_status generate(struct bn_chat *chat, bn_error *err)
{
    struct bn_last_answer *last = &chat->last;
    struct bn_generation *gen = &last->gen;
    const struct bn_prompt *prompt = &last->prompt;
    bn_session *session = chat->engine.session;
    size_t n_stops = 0, n_ids = prompt->n_ids;
    for (; n_stops < BN_ARRAY_LEN(last->stops); n_stops++)
        if ((last->stops[n_stops] = bn_template_stop(chat->tmpl, n_stops)) == NULL) break;
    if (!chat->loaded)
        BN_TRY(bn_run_cache_load(chat->args, session, prompt->ids, n_ids, &chat->n_loaded, err));
    chat->loaded = true;
    *gen =
        (struct bn_generation){.prompt = prompt->ids,
                               .n_prompt = n_ids,
                               .n_cached = n_ids > 0 ? bn_session_keep(session, prompt->ids, n_ids - 1) : 0,
                               .n_predict = bn_run_at_most(chat->asked.n_predict, session),
                               .sampling = chat->asked.sampling,
                               .stops = last->stops,
                               .n_stops = n_stops,
                               .grammar = chat->grammar,
                               .want_chain = true,
                               .on_token = on_token,
                               .user = chat,
                               .draft = bn_run_draft(chat->args, &chat->engine)};
    if (chat->tmpl == BN_TEMPLATE_QWEN35) bn_buf_puts(&chat->answer, "<think>\n");
    chat->n_shown = chat->answer.len;
    chat->engine.answering = false;
    bn_run_answer_start(&chat->printer, chat->tmpl, true);
    bn_status status = bn_generate(session, chat->tok, gen, err);
    bn_run_answer_end(&chat->printer);
    last->known = status == BN_OK;
    return status;
}

/* "[prompt 134 tokens (120 cached) at 310.0 tok/s, then 27 tokens at 41.2 tok/s; context 15 %]" */
static void print_stats(const struct bn_chat *chat)
{
    const struct bn_generation *gen = &chat->last.gen;
    char rates[BN_RUN_RATES];
    unsigned percent = (unsigned)((uint64_t)bn_session_position(chat->engine.session) * 100 /
                                  bn_session_n_ctx(chat->engine.session));
    bool color = bn_report_color(stderr), cut = gen->reason == BN_STOP_LENGTH;
    fprintf(stderr, "%s[%s%s; context %u %%]%s\n", color ? "\033[2m" : "", bn_run_rates(rates, gen),
            chat->last.stopped ? ", stopped"
            : cut              ? ", cut"
                               : "",
            percent, color ? "\033[0m" : "");
}

static bn_status write_receipt_of_answer(struct bn_chat *chat, bn_error *err)
{
    struct bn_buf path = {.max = 4096};
    if (chat->o->receipts == NULL) return BN_OK;
    bn_buf_printf(&path, "%s/%zu.json", chat->o->receipts, chat->n_receipts++);
    bn_status status = bn_buf_check(&path, err);
    if (status == BN_OK) status = bn_chat_receipt(chat, path.data, err);
    bn_buf_release(&path);
    return status;
}

static bn_status finish(struct bn_chat *chat, bn_error *err)
{
    const struct bn_generation *gen = &chat->last.gen;
    char rates[BN_RUN_RATES];
    if (!chat->args->json) bn_run_print("\n", 1);
    if (gen->reason == BN_STOP_CONTEXT)
        bn_report_note(0, "the answer is cut: the context of %u tokens is full",
                       bn_session_n_ctx(chat->engine.session));
    if (gen->reason == BN_STOP_STUCK) bn_report_note(0, "the answer is cut: %s", bn_request_stuck(gen));
    if (chat->show_stats)
        print_stats(chat);
    else
        bn_report_note(1, "%s", bn_run_rates(rates, gen));
    bn_run_note_drafts(gen, 1);
    BN_TRY(bn_buf_check(&chat->answer, err));
    BN_TRY(bn_turns_add(&chat->talk, "assistant", bn_buf_text(&chat->answer), chat->n_shown, err));
    BN_TRY(write_receipt_of_answer(chat, err));
    return chat->args->json ? bn_chat_put_answer(chat, err) : BN_OK;
}

/* A message that cannot be answered is forgotten. */
static bn_status give_up(struct bn_chat *chat, bn_status why, bn_error *err)
{
    bn_error wrong = *err;
    *err = (bn_error){0};
    bn_turns_remove(&chat->talk, chat->talk.n_turns - 1, 1);
    if (why != BN_ERR_CANCELLED) return bn_chat_reject(chat, &wrong, err);
    if (chat->on_terminal) bn_report_note(0, "stopped before the answer began; the message is forgotten");
    return BN_OK;
}

/* Answers the last message. */
static bn_status answer(struct bn_chat *chat, bn_error *err)
{
    bn_chat_forget_answer(chat);
    bn_status status = encode(chat, err);
    if (status == BN_OK) status = generate(chat, err);
    if (status == BN_OK) {
        status = finish(chat, err);
    } else if (status == BN_ERR_LIMIT || status == BN_ERR_CANCELLED ||
               (status == BN_ERR_ARG && chat->last.prompt.n_ids == 0)) {
        status = give_up(chat, status, err);
    }
    bn_buf_release(&chat->answer);
    /* At a terminal the first Ctrl-C stops the answer, not the program. */
    if (chat->on_terminal && bn_cli_interrupted() == SIGINT) {
        chat->ctrl_c = true;
        bn_cli_forget_interrupt();
    }
    return status;
}

bn_status bn_chat_say(struct bn_chat *chat, const char *text, bn_error *err)
{
    BN_TRY(bn_turns_add(&chat->talk, "user", text, strlen(text), err));
    return answer(chat, err);
}

bn_status bn_chat_again(struct bn_chat *chat, bn_error *err)
{
    bn_turns_remove(&chat->talk, chat->talk.n_turns - 1, 1);
    return answer(chat, err);
}

void bn_chat_forget_answer(struct bn_chat *chat)
{
    struct bn_last_answer *last = &chat->last;
    if (last->known) bn_generation_release(&last->gen);
    bn_prompt_release(&last->prompt);
    *last = (struct bn_last_answer){0};
}

/* ---- its receipt ---- */

bn_status bn_chat_receipt(struct bn_chat *chat, const char *path, bn_error *err)
{
    const struct bn_last_answer *last = &chat->last;
    struct bn_receipt_input in =
        bn_run_receipt(chat->args, &chat->engine, &last->gen, &last->prompt, last->tmpl, &chat->facts);
    return bn_receipt_write(path, &in, err);
}
