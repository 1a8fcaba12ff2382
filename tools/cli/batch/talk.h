/* SPDX-License-Identifier: MIT
 *
 * A conversation as a request gives it: its messages and functions, in whatever form a protocol has them, with the texts
 * that were joined or decoded for it. What bn-run --batch-file and bn-serve share.
 */
#ifndef BN_CLI_BATCH_TALK_H
#define BN_CLI_BATCH_TALK_H

#include "tokenizer/chat.h"
#include "tools/cli/batch/lanes.h"

#define BN_TALK_MAX_TURNS 1024u
#define BN_TALK_MAX_CALLS 128u /* of a message */
#define BN_TALK_MAX_TOOLS 128u

/* Zeroed, it is empty. Released by bn_talk_release. */
struct bn_talk {
    struct bn_chat_turn *turns;
    size_t n_turns, room;
    bn_json *texts; /* a list that owns texts and arguments */
    bn_json *tools; /* NULL: none */
};
void bn_talk_release(struct bn_talk *talk);

/* A list that owns what is put into it; NULL: no memory. */
bn_json *bn_talk_own(struct bn_talk *talk);
/* Appends a message of a role: "system" (or "developer"), "user", "assistant", "tool". *out: to be filled, until the next
 * one is added. */
BN_MUST_CHECK bn_status bn_talk_add(struct bn_talk *talk, const char *role, struct bn_chat_turn **out,
                                    bn_error *err);
/* The content of a message: a text, null, or a list of parts with a type of `types` (ends with NULL), whose member "text"
 * is joined. An image, a sound or a file is BN_ERR_FORMAT. */
BN_MUST_CHECK bn_status bn_talk_text(struct bn_talk *talk, const bn_json *content, const char *const *types,
                                     const char **out, bn_error *err);
/* Adds a call to a message; arguments: an object, or a text of JSON that is one. */
BN_MUST_CHECK bn_status bn_talk_call(struct bn_talk *talk, struct bn_chat_turn *turn, const char *name,
                                     const bn_json *arguments, bn_error *err);
/* Adds a function; description and parameters may be NULL. */
BN_MUST_CHECK bn_status bn_talk_tool(struct bn_talk *talk, const char *name, const bn_json *description,
                                     const bn_json *parameters, bn_error *err);
/* Adds the messages of OpenAI's chat API, and its list of tools, in the form of /v1/responses, too. */
BN_MUST_CHECK bn_status bn_talk_messages(struct bn_talk *talk, const bn_json *list, bn_error *err);
BN_MUST_CHECK bn_status bn_talk_tools(struct bn_talk *talk, const bn_json *list, bn_error *err);
/* System messages that it begins with. */
size_t bn_talk_n_system(const struct bn_talk *talk);
/* Messages of the oldest whole turn after the system messages and `after` more; 0: only the newest turn would be left. */
size_t bn_talk_oldest(const struct bn_talk *talk, size_t after);
/* The prompt of the conversation without the `dropped` oldest messages after the system messages. *prompt is empty before. */
BN_MUST_CHECK bn_status bn_talk_render(struct bn_prompt *prompt, const struct bn_talk *talk, size_t dropped,
                                       bn_template tmpl, const bn_tokenizer *tok, bn_error *err);

#endif
