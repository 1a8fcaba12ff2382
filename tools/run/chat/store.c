/* SPDX-License-Identifier: MIT
 *
 * Conversations in files, bn.run/1: the name and the size of the model, the template, the settings, and the
 * messages in the form of OpenAI's API.
 */
#include <unistd.h>

#include "base/error.h"
#include "model/model.h"
#include "tools/cli/default_model.h"
#include "tools/run/chat/chat.h"

static const char *model_name(const struct bn_chat *chat)
{
    return bn_receipt_base_name(bn_cli_model_name(chat->args));
}

static bool is_conversation(const bn_json *doc)
{
    return bn_json_text_is(doc, "schema", BN_RUN_SCHEMA) && bn_json_get(doc, "messages") != NULL;
}

/* ---- writing ---- */

static bn_json *document(const struct bn_chat *chat)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_RUN_SCHEMA);
    bn_json *model = bn_json_put_object(doc, "model");
    bn_json_put_string(model, "name", model_name(chat));
    bn_json_put_u64(model, "bytes", chat->engine.model->n_bytes);
    bn_json_put_string(doc, "template", bn_template_name(chat->tmpl));
    bn_chat_put_numbers(bn_json_put_object(doc, "settings"), &chat->asked);
    bn_json *messages = bn_json_put_array(doc, "messages");
    for (size_t i = 0; i < chat->talk.n_turns; i++) {
        bn_json *m = bn_json_add_object(messages);
        bn_json_put_string(m, "role", chat->talk.turns[i].role);
        bn_json_put_string(m, "content", chat->talk.turns[i].content);
    }
    return doc;
}

/* Whether a file is there that is not a conversation: a mistyped name must not cost a model. */
static bn_status check_free(const char *path, bn_error *err)
{
    bn_json *old = NULL;
    if (access(path, F_OK) != 0) return BN_OK;
    bool ours = bn_json_read_file(&old, path, NULL) == BN_OK && is_conversation(old);
    bn_json_free(old);
    if (ours) return BN_OK;
    return bn_fail_in(err, BN_ERR_ARG, path,
                      "the file exists and is not a conversation; choose another name");
}

bn_status bn_chat_save(struct bn_chat *chat, const char *path, bn_error *err)
{
    BN_TRY(check_free(path, err));
    bn_json *doc = document(chat);
    bn_status status = bn_json_write_file(doc, path, err);
    bn_json_free(doc);
    return status;
}

/* ---- reading ---- */

static bn_status read_messages(struct bn_talk *talk, const bn_json *messages, bn_error *err)
{
    size_t n = bn_json_size(messages);
    const char *content;
    if (bn_json_kind(messages) != BN_JSON_ARRAY || n >= BN_TALK_MAX_TURNS)
        return bn_fail(err, BN_ERR_FORMAT, "messages is not a list of at most %u messages",
                       BN_TALK_MAX_TURNS - 1);
    const bn_json *m = bn_json_first(messages);
    size_t first = n > 0 && bn_json_text_is(m, "role", "system");
    if ((n - first) % 2 != 0) return bn_fail(err, BN_ERR_FORMAT, "the last message is not an answer");
    for (size_t i = 0; i < n; i++, m = bn_json_next(m)) {
        const char *role = i < first ? "system" : (i - first) % 2 == 0 ? "user" : "assistant";
        if (!bn_json_text_is(m, "role", role) || !bn_json_string(bn_json_get(m, "content"), &content))
            return bn_fail(err, BN_ERR_FORMAT, "message %zu is not one of the role %s with a content", i + 1,
                           role);
        if (i < first)
            BN_TRY(bn_turns_set_system(talk, content, err));
        else
            BN_TRY(bn_turns_add(talk, role, content, strlen(content), err));
    }
    return BN_OK;
}

static bn_status read_settings(struct bn_generation *asked, const bn_json *settings, bn_error *err)
{
    if (bn_json_get(settings, "n_predict") == NULL) asked->n_predict = UINT32_MAX;
    for (const bn_json *m = bn_json_first(settings); m != NULL; m = bn_json_next(m)) {
        bn_status status = BN_OK;
        char quoted[40];
        const char *name = bn_json_name(m);
        if (name == NULL || !bn_request_number(asked, m, &status, err))
            return bn_fail(
                err, BN_ERR_FORMAT, "unknown setting \"%s\"",
                bn_escape(quoted, sizeof quoted, name != NULL ? name : "", name != NULL ? strlen(name) : 0));
        BN_TRY(status);
    }
    return BN_OK;
}

static bn_status check_document(const struct bn_chat *chat, const bn_json *doc, bool any, bool *same,
                                bn_error *err)
{
    char name[120];
    const char *saved = bn_json_text_of(doc, "model.name");
    uint64_t bytes = 0;
    if (!is_conversation(doc))
        return bn_fail(err, BN_ERR_FORMAT,
                       "not a conversation: no messages, or its schema is not " BN_RUN_SCHEMA);
    (void)bn_json_u64(bn_json_path(doc, "model.bytes"), &bytes);
    *same = strcmp(saved, model_name(chat)) == 0 && bytes == chat->engine.model->n_bytes;
    if (*same || any) return BN_OK;
    bn_fail(err, BN_ERR_MISMATCH,
            "a conversation with another model, %s of %.1f MiB; this one is %s of %.1f MiB",
            bn_escape(name, sizeof name, saved, strlen(saved)), (double)bytes / 0x1p20, model_name(chat),
            (double)chat->engine.model->n_bytes / 0x1p20);
    bn_error_hint(err, "/load --any FILE continues it with this model");
    return BN_ERR_MISMATCH;
}

static bn_status take(struct bn_chat *chat, struct bn_talk *talk, const bn_json *doc, bool any, bn_error *err)
{
    bool same = false;
    bn_template tmpl = chat->tmpl;
    struct bn_generation asked = chat->asked;
    BN_TRY(check_document(chat, doc, any, &same, err));
    BN_TRY(read_messages(talk, bn_json_get(doc, "messages"), err));
    BN_TRY(read_settings(&asked, bn_json_get(doc, "settings"), err));
    if (same && (!bn_template_from_name(bn_json_text_of(doc, "template"), &tmpl) || tmpl == BN_TEMPLATE_AUTO))
        return bn_fail(err, BN_ERR_FORMAT, "its template is unknown");
    struct bn_talk before = chat->talk;
    chat->talk = *talk;
    *talk = before;
    chat->tmpl = tmpl;
    chat->asked = asked;
    bn_chat_forget_answer(chat);
    return BN_OK;
}

bn_status bn_chat_load(struct bn_chat *chat, const char *path, bool any, bn_error *err)
{
    bn_json *doc = NULL;
    struct bn_talk talk = {0};
    BN_TRY(bn_json_read_file(&doc, path, err));
    bn_status status = take(chat, &talk, doc, any, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_turns_remove(&talk, 0, talk.n_turns);
    bn_talk_release(&talk);
    bn_json_free(doc);
    return status;
}

/* ---- the conversation: an optional system message, then turns, each of a message of the user and its answer ---- */

void bn_turns_remove(struct bn_talk *talk, size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i++)
        bn_free((void *)(uintptr_t)talk->turns[i].content);
    talk->n_turns -= n;
    if (n > 0) memmove(talk->turns + at, talk->turns + at + n, (talk->n_turns - at) * sizeof *talk->turns);
}

bn_status bn_turns_add(struct bn_talk *talk, const char *role, const char *text, size_t n_bytes,
                       bn_error *err)
{
    struct bn_chat_turn *turn;
    /* One place is left for a system message. */
    if (talk->n_turns + (strcmp(role, "system") != 0) >= BN_TALK_MAX_TURNS)
        bn_turns_remove(talk, bn_talk_n_system(talk), bn_talk_oldest(talk, 0));
    char *copy = bn_strndup(text, n_bytes);
    bn_status status = copy != NULL ? bn_talk_add(talk, role, &turn, err) : bn_nomem(err);
    if (status == BN_OK)
        turn->content = copy;
    else
        bn_free(copy);
    return status;
}

bn_status bn_turns_set_system(struct bn_talk *talk, const char *text, bn_error *err)
{
    bn_turns_remove(talk, 0, bn_talk_n_system(talk));
    if (text[0] == '\0') return BN_OK;
    BN_TRY(bn_turns_add(talk, "system", text, strlen(text), err));
    struct bn_chat_turn last = talk->turns[talk->n_turns - 1];
    memmove(talk->turns + 1, talk->turns, (talk->n_turns - 1) * sizeof last);
    talk->turns[0] = last;
    return BN_OK;
}

size_t bn_turns_count(const struct bn_talk *talk)
{
    size_t n = 0;
    for (size_t i = 0; i < talk->n_turns; i++)
        n += strcmp(talk->turns[i].role, "user") == 0;
    return n;
}
