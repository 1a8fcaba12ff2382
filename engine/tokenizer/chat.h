/* SPDX-License-Identifier: MIT
 *
 * Conversations with functions: the prompt of a conversation under a chat template, the grammar of answers that may call
 * functions, and the reader that takes an answer apart again into thoughts, text and calls.
 */
#ifndef BN_TOKENIZER_CHAT_H
#define BN_TOKENIZER_CHAT_H

#include "base/buf.h"
#include "base/json.h"
#include "bn.h"

/* How a template writes calls: objects, a parameter after the other, or all in one list. */
enum bn_chat_calls { BN_CALLS_JSON, BN_CALLS_XML, BN_CALLS_LIST };
enum bn_chat_calls bn_chat_calls(bn_template tmpl);

/* A call of a function. */
struct bn_chat_call {
    const char *name;
    const bn_json *arguments; /* an object */
};

/* A message; a result of a function has the role "tool". */
struct bn_chat_turn {
    const char *role;     /* "system", "user", "assistant", "tool" */
    const char *content;  /* not NULL */
    const char *thoughts; /* of the assistant; NULL: those in content, if it has any */
    const struct bn_chat_call *calls;
    size_t n_calls;
};

/* All of it is borrowed. */
struct bn_conversation {
    const struct bn_chat_turn *turns;
    size_t n_turns;
    const bn_json *
        tools; /* a list of {"type": "function", "function": {"name", "description", "parameters"}}; NULL: none */
};

/* As bn_template_encode and bn_template_render. A template without a form of its own for functions describes them in the
 * system message, as that of Qwen3 does. The last turn may be a result of a function. */
BN_MUST_CHECK bn_status bn_chat_encode(bn_template tmpl, const bn_tokenizer *tok,
                                       const struct bn_conversation *c, int32_t **ids, size_t *n_ids,
                                       bn_error *err);
BN_MUST_CHECK bn_status bn_chat_render(bn_template tmpl, const struct bn_conversation *c, char **text,
                                       size_t *n_bytes, bn_error *err);

/* What an answer may be. */
struct bn_chat_form {
    const bn_json *tools;  /* as in a conversation; NULL: no calls */
    const char *only;      /* the one function that may be called; NULL: any */
    bool required, single; /* an answer is a call; there is one call at most */
    const char
        *schema; /* JSON Schema of the answer after its thoughts; NULL: any text. Not together with tools */
    size_t n_schema;
};
/* Appends GBNF of the answers under a template; their thoughts are any text. Arguments are held to the schemas of the
 * functions. BN_ERR_FORMAT, BN_ERR_UNSUPPORTED and BN_ERR_LIMIT name the function and the keyword. */
BN_MUST_CHECK bn_status bn_chat_grammar(struct bn_buf *gbnf, bn_template tmpl,
                                        const struct bn_chat_form *form, bn_error *err);

/* Parts of an answer, in the order of the answer. */
enum bn_chat_part {
    BN_CHAT_TEXT,    /* a piece of the text */
    BN_CHAT_THOUGHT, /* a piece of the thoughts, without their marks */
    BN_CHAT_CALL     /* a whole call: its name, and its arguments as a JSON object */
};
/* name: of the function; else NULL. The text is borrowed and ends with a NUL. */
typedef void (*bn_chat_part_fn)(void *user, enum bn_chat_part part, const char *name, const char *text,
                                size_t n_bytes);

/* Takes an answer apart while it comes. Pieces may be split anywhere between two characters; a mark is held back until it is
 * known to be one. What looks like a call and is not one is text. Zeroed and given a template, it is at the beginning of
 * an answer. */
struct bn_chat_reader {
    bn_template tmpl;
    const bn_json *tools; /* as in a conversation; NULL: the answer has no calls */
    bn_chat_part_fn on_part;
    void *user;
    struct bn_buf held; /* private, as what follows; `failed`: memory was short, and nothing comes any more */
    size_t seen;
    int state;
};
void bn_chat_read(struct bn_chat_reader *reader, const char *text, size_t n_bytes);
/* The answer has ended: what is held back comes as what it is. Releases what the reader holds. */
void bn_chat_read_end(struct bn_chat_reader *reader);

#endif
