/* SPDX-License-Identifier: MIT
 *
 * --json: one line in, one line out. A line is an object with the content of a message, a command, or a text. What
 * comes out is an object: an answer, the command that was obeyed, or an error. docs/howto/chat.md lists the
 * members.
 */

#include "base/error.h"
#include "tools/cli/report.h"
#include "tools/run/chat/chat.h"

static bn_status put_line(struct bn_chat *chat, bn_json *line, bn_error *err)
{
    if (chat->id != NULL) bn_json_put_copy(line, "id", chat->id);
    chat->replied = true;
    return bn_cli_flush_json(line, true, err);
}

bn_status bn_chat_put_answer(struct bn_chat *chat, bn_error *err)
{
    const struct bn_generation *gen = &chat->last.gen;
    bn_json *line = bn_json_new_object();
    bn_json_put_u64(line, "turn", bn_turns_count(&chat->talk));
    bn_json_put_string(line, "text", chat->talk.turns[chat->talk.n_turns - 1].content);
    bn_run_put_answer(line, gen);
    bn_json_put_u64(line, "seed", gen->sampling.seed);
    if (chat->last.n_dropped > 0) bn_json_put_u64(line, "dropped_turns", chat->last.n_dropped);
    bn_run_put_times(line, gen);
    return put_line(chat, line, err);
}

bn_status bn_chat_put_error(struct bn_chat *chat, const bn_error *what, bn_error *err)
{
    bn_json *line = bn_json_new_object(), *e = bn_json_put_object(line, "error");
    bn_json_put_string(e, "status", bn_status_name(what->code));
    bn_json_put_u64(e, "exit", bn_status_exit(what->code));
    bn_json_put_string(e, "message", what->msg);
    if (what->where[0] != '\0') bn_json_put_string(e, "where", what->where);
    if (what->hint[0] != '\0') bn_json_put_string(e, "hint", what->hint);
    return put_line(chat, line, err);
}

/* ---- reading ---- */

/* The members of an object: content, id, and the numbers of a request. */
static bn_status read_object(const bn_json *object, const char **content, struct bn_generation *asked,
                             bn_error *err)
{
    for (const bn_json *m = bn_json_first(object); m != NULL; m = bn_json_next(m)) {
        bn_status status = BN_OK;
        const char *name = bn_json_name(m);
        char quoted[80];
        if (bn_request_number(asked, m, &status, err))
            BN_TRY(status);
        else if (strcmp(name, "content") == 0 && !bn_json_string(m, content))
            return bn_fail(err, BN_ERR_FORMAT, "content is not a text");
        else if (strcmp(name, "content") != 0 && strcmp(name, "id") != 0)
            return bn_fail(err, BN_ERR_FORMAT, "unknown member \"%s\"",
                           bn_escape(quoted, sizeof quoted, name, strlen(name)));
    }
    return *content != NULL ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "the object has no content");
}

/* What the object sets counts for its answer alone. */
static bn_status say_object(struct bn_chat *chat, const bn_json *object, bn_error *err)
{
    struct bn_generation before = chat->asked;
    const char *content = NULL;
    bn_error wrong = {0};
    bn_status status = BN_OK;
    chat->id = bn_json_get(object, "id");
    if (read_object(object, &content, &chat->asked, &wrong) == BN_OK)
        status = bn_chat_say(chat, content, err);
    else
        status = bn_chat_reject(chat, &wrong, err);
    chat->asked = before;
    chat->id = NULL;
    return status;
}

bn_status bn_chat_take_json(struct bn_chat *chat, const char *line, bn_error *err)
{
    bn_error wrong = {0};
    bn_json *object = NULL;
    bn_status status = BN_OK;
    chat->replied = false;
    if (line[0] == '{') {
        if (bn_json_parse(&object, line, strlen(line), &wrong) == BN_OK)
            status = say_object(chat, object, err);
        else
            status = bn_chat_reject(chat, &wrong, err);
        bn_json_free(object);
    } else if (line[0] == '/' && line[1] != '/') {
        status = bn_chat_obey(chat, line, err);
    } else {
        status = bn_chat_say(chat, line[0] == '/' ? line + 1 : line, err);
    }
    if (status != BN_OK || chat->replied || bn_cli_interrupted() != 0) return status;
    bn_json *obeyed = bn_json_new_object();
    bn_json_put_string(obeyed, "command", line);
    return put_line(chat, obeyed, err);
}
