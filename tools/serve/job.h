/* SPDX-License-Identifier: MIT
 *
 * bn-serve: requests to generate and their answers. A protocol turns a body into a request (struct bn_ask), which becomes a
 * job; the engine generates; what is generated comes back as parts (text, thoughts, calls), which the protocol writes as
 * its documents or events. Queue, limits, keys, receipts and replays know no protocol.
 */
#ifndef BN_SERVE_JOB_H
#define BN_SERVE_JOB_H

#include "tools/cli/batch/talk.h"
#include "tools/serve/serve.h"

/* ---- an answer ---- */

/* A part of an answer: a text, thoughts, or a call. */
struct bn_answer_part {
    enum bn_chat_part kind;
    size_t index;              /* among the parts of the choice */
    size_t call;               /* of a call: its number among the calls */
    char id[BN_SERVE_ID + 16]; /* of a call */
    struct bn_buf name;        /* of a call: the function */
    struct bn_buf text;        /* all of it so far; of a call: its arguments as JSON */
};

/* One answer to one prompt. */
struct bn_choice {
    struct bn_job *job;
    const char *text; /* the prompt, its template applied; NULL: tokens were given */
    size_t n_text_bytes;
    bn_generation gen;
    bool started, ended;
    char receipt[BN_SERVE_RECEIPT];
    struct bn_buf answer; /* as it was generated */
    struct bn_chat_reader reader;
    struct bn_answer_part *parts; /* in their order; the last one may go on */
    size_t n_parts, parts_room, n_calls;
    bool failed;      /* no memory for a part */
    size_t n_shown;   /* tokens whose log-probabilities were sent */
    size_t n_thought; /* tokens up to the last one that brought thoughts */
    size_t n_text;    /* bytes of text before those that come */

    /* Under the server's lock, for counters and /v1/status. */
    size_t n_seen;           /* tokens that were counted */
    uint64_t last_ns;        /* of the last token */
    uint32_t lane, position; /* its sequence, and the tokens that this holds after the last pass */
    bool placed;             /* lane and position are known */
    double first_token_s;
};

struct bn_embed; /* embeddings.c */

/* One request to generate. What the first part holds does not change once the job is submitted. */
struct bn_job {
    struct bn_server *server;
    struct bn_engine *engine; /* which the job uses until it is released */
    const struct bn_protocol *protocol;
    bool chat; /* a template was applied, and the answer is taken apart */
    bool stream, include_usage, want_logprobs;
    uint32_t n_top;
    char id[BN_SERVE_ID];
    uint64_t created_s, since_ns;
    bn_template tmpl;          /* of a chat */
    bn_json *tools;            /* that may be called; NULL: none */
    struct bn_buf repeated;    /* of /v1/responses, as JSON: what a response repeats */
    struct bn_buf items;       /* and the conversation, "[ITEM,ITEM" */
    size_t n_dropped;          /* turns that the context had no place for */
    struct bn_prompt *prompts; /* also texts to embed */
    struct bn_choice choices[BN_SERVE_MAX_CHOICES];
    size_t n_prompts, n_choices;
    const char *stops[BN_SERVE_MAX_STOPS + 8]; /* those of the request, then those of the template */
    char stop_texts[BN_SERVE_MAX_STOPS][BN_SERVE_MAX_STOP_BYTES + 1];
    size_t n_stops;
    bn_grammar *grammar;    /* NULL: any text */
    bn_candidate *bias;     /* of logits; NULL: none */
    struct bn_embed *embed; /* texts to embed, as the one choice; NULL: text is generated */
    uint32_t tenant;        /* number of the key, 0 without keys */
    uint64_t client;        /* who waits in the fair queue: the key, else the address */
    int fd;                 /* of the connection */
    bool keeps;             /* the request says how long the model stays open after it: */
    uint64_t keep_ns;
    uint64_t waited_ns; /* for the model to open */

    /* Not NULL: a receipt is generated again; replay.c. */
    struct bn_replay *replay;
    char replay_of[BN_SERVE_ID + 4];
    struct bn_receipt receipt;
    struct bn_replay_result replayed;

    /* Under the server's lock. */
    struct bn_job *next;
    struct bn_reply reply; /* streamed: its body is what the client has not got */
    size_t n_sent;
    uint64_t written_ns; /* when something was last added */
    uint64_t first_ns;   /* when the first token came; 0: none has */
    bool done;           /* nothing more will be added */
    bool gone;           /* the client left */
    bool suspended;      /* the connection waits for more */
    void *connection;
    unsigned n_owners;

    /* Of the engine's thread. */
    uint64_t n_events; /* that were sent */
    size_t n_ended;
    bool dropped; /* its client left, or it failed: what comes is not for anybody */
};

/* ---- a request ---- */

/* A request while it is read. Functions that return bool leave the reason in the reply when they return false. */
struct bn_ask {
    struct bn_server *server;
    struct bn_engine *engine;
    struct bn_job *job;
    bn_json *body;
    struct bn_reply *reply;
    bn_generation gen;        /* numbers of the request */
    struct bn_talk talk;      /* messages and functions; empty: prompts were given */
    struct bn_chat_form form; /* calls: required, single, only */
    bool no_calls;            /* the functions are described, and may not be called */
    const bn_json *schema;    /* of the answer; NULL: none */
    uint32_t n_each;          /* choices for each prompt */
    bool truncate;            /* the oldest turns may be dropped */
    const char *subject;      /* the member of the body that has the conversation */
};

/* A protocol: how a body is read, and how parts of answers are written. Events may be NULL: nothing is sent. */
struct bn_protocol {
    const char *name;
    bool is_lines; /* a stream is a document a line; else server-sent events */
    bool counts;   /* nothing is generated: a prompt of any length, and no choices */
    /* Reads ask->body: fills talk or the job's prompts, and the numbers. */
    bool (*read)(struct bn_ask *ask);
    /* Streams. A part begins and ends once; a piece of text comes between. A call has one piece: its arguments. */
    void (*start)(struct bn_job *job);
    void (*begin_part)(struct bn_choice *choice, const struct bn_answer_part *part);
    void (*piece)(struct bn_choice *choice, const struct bn_answer_part *part, const char *text);
    void (*end_part)(struct bn_choice *choice, const struct bn_answer_part *part);
    void (*end_choice)(struct bn_choice *choice);
    void (*end)(struct bn_job *job); /* all choices have ended */
    /* Sends an error in a stream, which ends with it; takes the document of error(). */
    void (*fail)(struct bn_job *job, bn_json *error);
    /* The answer as one document. */
    bn_json *(*document)(struct bn_job *job);
    /* An error as a document; param and code may be NULL. */
    bn_json *(*error)(unsigned status, const char *param, const char *code, const char *message);
    /* Of texts to embed, in place of what generates: the member that has them, whether they are cut to the context, and the
     * answer as JSON. */
    const char *input;
    bool cuts;
    void (*embedded)(const struct bn_job *job, struct bn_buf *out);
};
extern const struct bn_protocol bn_openai_chat, bn_openai_text, bn_openai_responses, bn_openai_embeddings;
extern const struct bn_protocol bn_ollama_chat, bn_ollama_generate, bn_ollama_embed, bn_ollama_embedding;
extern const struct bn_protocol bn_anthropic;

/* protocol/anthropic.c: counts the tokens of a request. */
void bn_anthropic_count(struct bn_server *server, const struct bn_request *request, struct bn_reply *reply);
/* protocol/ollama.c: /api/version, /api/tags and /api/ps, /api/show, and what else is below /api/. */
void bn_ollama_version(struct bn_server *server, const struct bn_request *request, struct bn_reply *reply);
void bn_ollama_list(struct bn_server *server, const struct bn_request *request, struct bn_reply *reply);
void bn_ollama_show(struct bn_server *server, const struct bn_request *request, struct bn_reply *reply);
void bn_ollama_refuse(struct bn_server *server, const struct bn_request *request, struct bn_reply *reply);

/* Reads a body; the caller owns the job, one owner. */
bool bn_job_parse(struct bn_job **out, struct bn_server *server, const struct bn_protocol *protocol,
                  const struct bn_request *request, struct bn_reply *reply);
/* A job with one owner and an id, without choices, which uses the engine that was entered; NULL: the reply says why not. */
struct bn_job *bn_job_new(struct bn_server *server, struct bn_engine *engine, struct bn_reply *reply);
/* Gives up one ownership; the last one frees it. Under the lock; and without it. */
void bn_job_release(struct bn_job *job);
void bn_job_drop(struct bn_job *job);
/* The id of a request, from random numbers. */
bool bn_serve_make_id(char id[BN_SERVE_ID]);
#define BN_SERVE_MAX_TREE ((size_t)32 << 20) /* memory for the values of a body, until it is parsed */
/* Reads a body as a JSON object. */
bool bn_serve_parse(bn_json **body, const char *text, size_t n, struct bn_reply *reply);
/* A member; NULL also when it is null. Whether there is one that is not empty, 0 or false. */
const bn_json *bn_serve_member(const bn_json *object, const char *name);
bool bn_serve_has(const bn_json *object, const char *name);
/* Reads a list of tokens of the vocabulary, *ids to be freed by the caller. */
bool bn_serve_parse_ids(const struct bn_engine *engine, const bn_json *list, const char *name, int32_t **ids,
                        size_t *n, struct bn_reply *reply);
/* Reads a member as the prompts of a job, at most `most`: a text, tokens, or a list of these. */
bool bn_job_take_prompts(struct bn_job *job, const bn_json *value, const char *name, size_t most,
                         struct bn_reply *reply);

/* For protocols. A member of an object that is not there leaves *out alone. Names in refusals are as they are given. */
bool bn_ask_refuse(struct bn_ask *ask, const char *name, const char *what);
/* The reply of a function that failed; true when it did not. */
bool bn_ask_check(struct bn_ask *ask, const char *name, bn_status status, const bn_error *err);
/* A whole number of a range; a flag. */
bool bn_ask_whole(struct bn_ask *ask, const bn_json *object, const char *name, uint64_t least, uint64_t most,
                  uint32_t *out);
bool bn_ask_flag(struct bn_ask *ask, const bn_json *object, const char *name, bool *out);
/* All members that set numbers of sampling, by the names of bn_request_number, logit_bias and the seed. */
bool bn_ask_sampling(struct bn_ask *ask, const bn_json *object);
/* Stop texts: a text or a list. */
bool bn_ask_stops(struct bn_ask *ask, const bn_json *value, const char *name);
/* The form of the answer: a schema (NULL: any object), or GBNF. One is allowed. */
bool bn_ask_schema(struct bn_ask *ask, const bn_json *schema, const char *name);
bool bn_ask_grammar(struct bn_ask *ask, const char *gbnf, const char *name);
/* Which functions are called: "auto", "none", "required" ("any"), or one by its name. */
bool bn_ask_choice(struct bn_ask *ask, const char *mode, const char *only, const char *name);
/* Thoughts, where the template has them. */
void bn_ask_think(struct bn_ask *ask, bool on);

/* ---- openai.c: what OpenAI's protocols share ---- */

/* Refuses members that would change the answer; reads its form, and the functions with which of them are called. */
bool bn_openai_refuse(struct bn_ask *ask, const char *const *names, size_t n);
bool bn_openai_form(struct bn_ask *ask, const bn_json *format, const char *name);
bool bn_openai_tools(struct bn_ask *ask);
bn_json *bn_openai_error(unsigned status, const char *param, const char *code, const char *message);

/* ---- conversations.c: past responses ---- */

#define BN_SERVE_RESPONSE "resp_" /* before the id of the job */
#define BN_SERVE_NO_RESPONSE "no such response: it was never kept, or was dropped for newer ones"
/* Keeps the response of a job, and takes the job's items. */
void bn_conversation_keep(struct bn_job *job, const bn_json *response);
/* Appends the list of the items of a past response, its output included; false: there is none of this id for this key. */
bool bn_conversation_find(struct bn_server *server, const char *id, uint32_t tenant, struct bn_buf *items);
/* GET and DELETE of /v1/responses/ID. */
void bn_conversations(struct bn_server *server, const struct bn_request *request, struct bn_reply *reply);
void bn_conversations_close(struct bn_server *server);

/* ---- answer.c: an answer as it comes ---- */

/* A choice is ready to begin; tokens came; it has ended. */
void bn_answer_begin(struct bn_choice *choice);
void bn_answer_token(struct bn_choice *choice, const char *text, size_t n_bytes);
void bn_answer_choice_end(struct bn_choice *choice);
/* All choices have ended; it failed. */
void bn_answer_end(struct bn_job *job);
void bn_answer_failed(struct bn_job *job, unsigned status, const char *code, const char *message);
/* For protocols: sends an event (name NULL: without one) or a line, which it frees; and a text as it is. */
void bn_answer_send(struct bn_job *job, const char *name, bn_json *document);
void bn_answer_send_text(struct bn_job *job, const char *text);
/* The parts of this kind joined, NULL when there are none; the text of the first one when there is one. `out` may be
 * used for it, and is released by the caller. */
const char *bn_answer_text(const struct bn_choice *choice, enum bn_chat_part kind, struct bn_buf *out);
/* Why an answer ended: the name of bn_stop_reason, "context" also where the context alone set the limit. */
const char *bn_answer_end_reason(const struct bn_choice *choice);
/* Whether it ended before it was complete. */
bool bn_answer_is_cut(const struct bn_choice *choice);
/* Tokens of the prompts (of them cached), and of the answers (of them thoughts). */
struct bn_usage {
    size_t n_prompt, n_cached, n_generated, n_thought;
};
struct bn_usage bn_answer_usage(const struct bn_job *job);
/* Puts "bn": what names the receipt of a choice, and its chain. */
void bn_answer_put_evidence(bn_json *parent, const struct bn_choice *choice);
/* Puts "timings": what the engine measured, with the names that llama-server has. */
void bn_answer_put_timings(bn_json *document, const bn_generation *gen);
/* Puts "logprobs": those of the tokens that were not shown. */
void bn_answer_put_logprobs(bn_json *parent, struct bn_choice *choice);
/* Tokens a second; NaN when there are none. */
double bn_answer_rate(size_t n_tokens, uint64_t ns);

/* ---- embeddings.c: texts to embed ---- */

/* For protocols: reads ask->body. */
bool bn_embed_read(struct bn_ask *ask);
/* Whether it is known how tokens of this model become one vector. */
bool bn_embed_can(const struct bn_engine *engine);
/* Tokens of the next text to embed; 0: all are. Whether there was one before. */
size_t bn_embed_n_next(const struct bn_job *job);
bool bn_embed_has_begun(const struct bn_job *job);
/* Begins to embed the next text of a job, in the passes of the lanes; no other job is being embedded. */
BN_MUST_CHECK bn_status bn_embed_start(struct bn_job *job, bn_error *err);
/* After a pass: whether the text is embedded; then nothing is evaluated for the job any more. */
bool bn_embed_advance(struct bn_job *job);
/* Nothing is evaluated for the job any more. */
void bn_embed_stop(struct bn_job *job);
/* For protocols: appends the vector of a text as JSON. */
void bn_embed_put(const struct bn_job *job, size_t i, struct bn_buf *out);
void bn_embed_release(struct bn_embed *embed);

/* ---- replay.c ---- */

/* Makes a job that generates a receipt again; false: the reply says why not, or that it needs no generating. */
bool bn_replay_job(struct bn_job **out, struct bn_server *server, const char *receipt, uint32_t tenant,
                   struct bn_reply *reply);
/* The verdict, when the job has ended. */
bn_json *bn_replay_document(struct bn_job *job);

#endif
