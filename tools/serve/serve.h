/* SPDX-License-Identifier: MIT
 *
 * bn-serve: what its parts share. Two threads: one reads and answers HTTP (http.c; requests are parsed there, and their
 * prompts turned into tokens), the other owns the session and generates (engine.c). They meet in jobs, under one lock.
 */
#ifndef BN_SERVE_SERVE_H
#define BN_SERVE_SERVE_H

#include <pthread.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/json.h"
#include "bn.h"
#include "lab/kit/put_counts.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/rules.h"
#include "tools/cli/batch/lanes.h"
#include "tools/cli/default_model.h"
#include "tools/cli/options.h"
#include "tools/cli/text.h"

#define SECOND 1000000000u /* nanoseconds */
#define BN_SERVE_MAX_CHOICES 16u
#define BN_SERVE_MAX_N 8u
#define BN_SERVE_MAX_STOPS 16u
#define BN_SERVE_MAX_STOP_BYTES 256u
#define BN_SERVE_MAX_TOP 20u
#define BN_SERVE_MAX_KEYS 64u
#define BN_SERVE_MAX_MODELS 256u
#define BN_SERVE_MAX_ANSWER_BYTES (64u << 20)
#define BN_SERVE_ID 33u                    /* hexadecimal digits and a NUL */
#define BN_SERVE_RECEIPT (BN_SERVE_ID + 4) /* ID or ID-N */

struct bn_serve_options {
    struct bn_texts models;
    uint32_t n_models; /* that are open at a time; 0: as many as fit */
    const char *keep_alive;
    uint32_t n_threads, n_ctx, n_batch, n_sequences; /* 0: not given */
    uint64_t snapshot_bytes;                         /* 0: not given */
    enum bn_cli_think think;
    const char *template_name;
    const char *host;
    uint32_t port;
    struct bn_texts allow_hosts, cors;
    bool log;
    uint32_t max_per_address; /* 0: by the address */
    const char *key_file, *receipts, *sign, *dashboard;
    uint64_t receipts_bytes, receipts_age_s; /* 0: by where they are kept; for ever */
    uint32_t n_receipts, max_queue, max_tokens, max_connections;
    uint64_t max_body_bytes, timeout_s, grace_s, max_time_s;
    double max_slowdown;
    int pooling, device_lost; /* 1: the CPU goes on */
    struct bn_cli_live live;
};

/* ---- replies ---- */

struct bn_job;
struct bn_choice;
struct bn_server;
struct bn_protocol;

/* What a handler answers; the body is JSON unless type says otherwise. */
struct bn_reply {
    unsigned status; /* HTTP's */
    const char *type;
    const char *allow;                  /* header Allow of 405 */
    const char *cache;                  /* header Cache-Control; NULL: no-store */
    const char *policy;                 /* header Content-Security-Policy; NULL: none */
    unsigned retry_after_s;             /* 0: no such header */
    const struct bn_protocol *protocol; /* whose form errors have; NULL: OpenAI's */
    struct bn_engine *engine;           /* without a status: what the request waits for, or has waited for */
    struct bn_buf body;
};
/* An error in the form of the protocol; param and code may be NULL. A reply that has a status keeps it. All of these
 * return false. */
bool bn_reply_error(struct bn_reply *reply, unsigned status, const char *param, const char *code,
                    const char *fmt, ...) BN_PRINTF(5, 6);
void bn_reply_too_large(struct bn_reply *reply, uint64_t max_bytes);
/* The same of an error of a function; BN_ERR_ARG, _FORMAT, _LIMIT and _UNSUPPORTED are the client's, after BN_ERR_NOMEM and
 * _INTEGRITY (the file of the model was changed) the client may try again. */
bool bn_reply_failed(struct bn_reply *reply, const char *param, const bn_error *err);
/* Status 400, "NAME WHAT"; status 503, "out of memory". */
bool bn_reply_refuse(struct bn_reply *reply, const char *name, const char *what);
bool bn_reply_no_memory(struct bn_reply *reply);
/* Takes a document, which it frees. */
void bn_reply_json(struct bn_reply *reply, bn_json *document);
/* OpenAI's name of an error, such as "invalid_request_error". */
const char *bn_reply_error_type(unsigned status);

/* page/page.c: the chat and the dashboard. Each is one file that loads nothing. Its policy permits the one script and the one
 * style sheet in it, by their digests, and requests to the server that it came from. */
struct bn_serve_page {
    struct bn_buf html;
    char policy[512]; /* the header Content-Security-Policy */
};
enum bn_serve_page_name { BN_SERVE_CHAT, BN_SERVE_DASHBOARD, BN_SERVE_PAGES };
/* Puts a page together, to be released after an error, too. */
BN_MUST_CHECK bn_status bn_serve_page_build(struct bn_serve_page *page, enum bn_serve_page_name name,
                                            bn_error *err);

/* route.c: the folder of --dashboard. */
#define BN_BENCHMARK_FILES 256u
struct bn_benchmarks {
    char *folder;                    /* absolute; NULL: none was given */
    char *files[BN_BENCHMARK_FILES]; /* as the last document lists them */
    size_t n_files;
};
/* BN_ERR_NOT_FOUND when it is not a folder. */
BN_MUST_CHECK bn_status bn_benchmarks_open(struct bn_benchmarks *b, const char *folder, bn_error *err);
void bn_benchmarks_close(struct bn_benchmarks *b);

/* ---- the engine ---- */

#define BN_SERVE_TOKEN_NS 10000000u /* of waiting, which counts as a token less in the fair queue */
struct bn_client {
    uint64_t client, n_tokens; /* that it got */
    uint64_t served_ns;        /* when it got some, or came */
    uint32_t n_jobs;
};

#define BN_SERVE_BUCKETS 12u
#define BN_SERVE_LAST 512u
struct bn_histogram {
    uint64_t counts[BN_SERVE_BUCKETS + 1], n;
    double sum;
    float last[BN_SERVE_LAST]; /* seconds of the last ones, a ring */
};

struct bn_serve_metrics {
    uint64_t responses[6]; /* by the first digit of the status */
    uint64_t n_jobs, n_jobs_done, n_rejected, n_left;
    uint64_t n_connections, n_refused; /* open now; refused because their address has too many */
    uint64_t prompt_tokens, cached_tokens, generated_tokens, n_passes, n_generations;
    uint64_t evaluated_tokens; /* of prompts and answers, after each pass */
    struct bn_histogram first_token, next_token, request;
};

/* status.c: what /v1/status reports besides the counters. */
#define BN_SERVE_ENDED 32u
#define BN_SERVE_STRANGERS 256u
struct bn_ended {
    char receipt[BN_SERVE_ID + 4];
    const char *model, *reason; /* of finishing */
    uint32_t tenant, client;
    uint64_t n_prompt, n_cached, n_ids;
    int64_t at_s;                        /* UTC */
    double first_token_s, total_s, rate; /* rate: tokens a second after the first one; NaN: none */
};
struct bn_status_log {
    struct bn_ended ended[BN_SERVE_ENDED]; /* a ring */
    size_t n_ended;
    uint64_t clients[BN_SERVE_STRANGERS]; /* those seen without keys; their numbers are the places */
    size_t n_clients;
};

enum bn_engine_state { BN_ENGINE_OPEN, BN_ENGINE_OPENING, BN_ENGINE_CLOSING, BN_ENGINE_CLOSED };

/* A model of the server, with the session that generates. While it is open and has users, all of this stays. When it is closed
 * there is no model, session and tokenizer; what else was learnt of it stays. */
struct bn_engine {
    struct bn_server *server;
    char *file;                         /* as the command line gives it; NULL: the built-in model */
    const char *name;                   /* the same, or the name of the built-in model */
    char id[200];                       /* the last part of it */
    int64_t modified_s;                 /* UTC; of the built-in model, the start of the server */
    uint64_t n_bytes;                   /* of the file */
    uint32_t n_ctx, n_threads, n_lanes; /* 0: it was never open */
    bn_model *model;
    bn_session *session;
    const bn_tokenizer *tok;
    bn_template tmpl;
    bool base; /* neither the model nor --template has one: tmpl is instruct, and the page continues texts */
    uint64_t load_ns;
    struct bn_receipt_facts facts;
    struct bn_lanes lanes;
    bn_session *left;       /* of a device that was lost, when the CPU goes on; else NULL */
    bn_sequence *embedding; /* the sequence of texts that are embedded */
    uint32_t embedding_tenant;
    struct bn_job *embeds; /* the job of which a text is being embedded; of the engine's thread */
    struct bn_live *live;  /* NULL without --live */

    /* Under the server's lock. */
    enum bn_engine_state state;
    uint32_t n_users; /* jobs, and others that need it open */
    uint64_t used_ns; /* when the last one left */
    uint64_t keep_ns; /* it is closed after this time without users; UINT64_MAX: never */
    size_t crowded;   /* with this many others open it found no memory; 0: it did */
    bool lost;        /* the device, and nothing else goes on */
};

/* A request whose model is not open: its connection is suspended. Under the server's lock. */
struct bn_waiter {
    struct bn_waiter *next;
    struct bn_engine *engine;
    struct bn_reply *reply; /* gets a status when the model does not open */
    void *connection;
    int fd;
    uint64_t client, since_ns;
    bool holds, gone; /* it is one of the users of the engine, which is open; its client left */
};

struct bn_server {
    const struct bn_args *args;
    const struct bn_serve_options *o;
    struct bn_engine *engines; /* the first one is that of requests which name none */
    size_t n_engines;
    bool opens; /* there is a thread that opens and closes models */
    pthread_t opener;
    pthread_cond_t models; /* it may have something to do */
    char fingerprint[80];
    uint64_t created_s, opened_ns;
    struct bn_serve_page pages[BN_SERVE_PAGES];
    struct bn_benchmarks benchmarks; /* of the HTTP thread */
    char (*keys)[BN_SHA256_HEX];     /* digests */
    size_t n_keys;
    struct bn_key *sign_key; /* of receipts; NULL: they are not signed */
    struct bn_receipts *receipts;
    struct bn_listener *http;
    int wake; /* an eventfd: the engine has work */

    pthread_mutex_t lock;      /* of what follows */
    struct bn_job *jobs;       /* in the order of their coming, waiting and running */
    size_t n_waiting;          /* choices that have not started */
    size_t n_running;          /* choices that have */
    size_t n_exchanges;        /* requests that are being read or answered */
    struct bn_waiter *waiters; /* in the order of their coming */
    size_t n_waiters;          /* and those that have just waited */
    size_t n_lanes;            /* of the models that are open */
    struct bn_engine *drained; /* gets no new users, to make room for another model; NULL: none */
    bool stopping;
    struct bn_response *responses; /* the newest one first */
    struct bn_client *clients;
    size_t n_clients;
    struct bn_serve_metrics metrics;
    struct bn_status_log log;
    uint32_t n_replays;
};

/* Seconds after which there may be room in the queue. Under the lock. */
unsigned bn_engine_retry_after(const struct bn_server *server);
/* Hands a job to the engine, which becomes an owner; false: the reply says why not. */
bool bn_engine_submit(struct bn_server *server, struct bn_job *job, struct bn_reply *reply);
/* Opens the session of the model, with a lane for each answer. */
BN_MUST_CHECK bn_status bn_engine_open(struct bn_engine *engine, bn_error *err);
/* Whether the queue takes a client's request for n answers; it is then one of the clients of the fair queue. Under the lock. */
bool bn_engine_admit(struct bn_server *server, uint64_t client, size_t n, struct bn_reply *reply);
/* Generates until a signal comes and what runs has ended, or the grace period is over. */
void bn_engine_run(struct bn_server *server);

/* ---- models.c: which models are open ---- */

/* Lists the models of the command line, and opens the first one. */
BN_MUST_CHECK bn_status bn_models_open(struct bn_server *server, bn_error *err);
/* Starts the thread that opens and closes the others. */
BN_MUST_CHECK bn_status bn_models_start(struct bn_server *server, bn_error *err);
/* Closes them all; after an error too. False: one is still being opened, so that the server cannot be released. */
bool bn_models_close(struct bn_server *server);

/* The engine of a name: an id, which may lack ".gguf" or have Ollama's ":latest"; "": the first one. NULL: there is none. */
struct bn_engine *bn_models_find(struct bn_server *server, const char *name);
/* The engine of the model that a request names, which the caller uses from now on until bn_engine_leave. A server of one
 * model takes any name. NULL: the reply says why not, or has no status: then the caller returns, and is called again when
 * the model is open. */
struct bn_engine *bn_engine_enter(struct bn_server *server, const char *model, struct bn_reply *reply);
/* Under the lock. */
void bn_engine_leave(struct bn_engine *engine);
/* Status 404: the server has other models. */
void bn_engine_refuse(struct bn_server *server, struct bn_reply *reply);

/* A request whose reply has an engine and no status begins to wait; false: the reply says why not. Under the lock. */
bool bn_models_wait(struct bn_server *server, struct bn_waiter *waiter, struct bn_reply *reply,
                    uint64_t client);
/* It waits no longer, and gives back what it holds. */
void bn_models_done(struct bn_server *server, struct bn_waiter *waiter);
/* Ends the waiting of those whose client left or whose time is over, and of all when the server is stopping. */
void bn_models_sweep(struct bn_server *server, uint64_t now_ns);
/* The model to open, or to close when it is open; NULL: none, until *until_ns if nothing happens. Memory: bytes that the files of
 * open models may take. Under the lock; sets drained. */
struct bn_engine *bn_models_next(struct bn_server *server, uint64_t now_ns, uint64_t memory,
                                 uint64_t *until_ns);
/* A time as Ollama has it: "90", "5m", "1h30m"; "forever" or less than 0: UINT64_MAX. False: it is none. */
bool bn_models_time(const char *text, uint64_t *ns);

/* The choice to start next, of those that may: of the client that got the fewest tokens, its age considered; NULL: none.
 * may_start may be NULL. Under the lock, as the next ones. */
struct bn_choice *bn_queue_next(struct bn_server *server, uint64_t now_ns,
                                bool (*may_start)(struct bn_server *server, const struct bn_choice *choice));
/* A client's number of jobs grows or shrinks; it got tokens; it has jobs. */
bool bn_queue_enter(struct bn_server *server, uint64_t client, uint64_t now_ns);
void bn_queue_leave(struct bn_server *server, uint64_t client);
void bn_queue_account(struct bn_server *server, uint64_t client, uint64_t n_tokens, uint64_t now_ns);
/* A choice has ended: its client got its tokens, and the work on its grammar. */
void bn_queue_charge(struct bn_server *server, const struct bn_choice *choice, uint64_t now_ns);
bool bn_queue_knows(struct bn_server *server, uint64_t client);

/* ---- receipts ---- */

struct bn_receipts_stats {
    uint64_t n, n_bytes;                 /* that are kept now */
    uint64_t n_waiting, n_waiting_bytes; /* of them, those that are not in their files yet */
    uint64_t n_made, n_lost, n_failures; /* so far; attempts to write that failed */
    bool failing;                        /* the last attempt did */
};

/* Starts a thread without signals, which are for the main thread. */
BN_MUST_CHECK bn_status bn_serve_thread(pthread_t *thread, void *(*run)(void *), void *of, bn_error *err);
/* Reads the folder of receipts, if there is one, and starts the thread that writes there. Released by
 * bn_receipts_close, after an error too, which writes what waits. */
BN_MUST_CHECK bn_status bn_receipts_open(struct bn_server *server, bn_error *err);
void bn_receipts_close(struct bn_server *server);
/* Keeps the receipt of a choice that has ended; called without the lock. */
BN_MUST_CHECK bn_status bn_receipts_keep(struct bn_server *server, struct bn_choice *choice, bn_error *err);
/* Appends the text of a receipt; false: there is none of this name for this tenant. */
bool bn_receipts_find(struct bn_server *server, const char *id, uint32_t tenant, struct bn_buf *out);
struct bn_receipts_stats bn_receipts_stats(struct bn_server *server);
#define BN_SERVE_NO_RECEIPT "no such receipt: it was never made, or was dropped for newer ones"

/* Under the lock: something took this time; a pass has moved the sequences on; a choice got tokens; it has ended. */
void bn_status_observe(struct bn_histogram *histogram, uint64_t ns);
void bn_status_pass(struct bn_engine *engine);
void bn_status_tokens(struct bn_choice *choice, uint64_t now_ns);
void bn_status_end(struct bn_choice *choice);
/* "ok", "stopping", "device lost", or "model changed": its file, so that nothing is answered any more. Under the lock. */
const char *bn_status_state(const struct bn_server *server);
/* The document of /v1/status. It does not wait for the engine. */
bn_json *bn_status_document(struct bn_server *server, uint32_t tenant);
/* Appends the text of /metrics. */
void bn_status_metrics(struct bn_server *server, struct bn_buf *out);

/* ---- HTTP ---- */

/* Reads the file of keys. */
BN_MUST_CHECK bn_status bn_keys_read(struct bn_server *server, const char *path, bn_error *err);
/* A number that stands for a key in the names of files: it stays the same when the file of keys changes. 0 for none. */
uint64_t bn_keys_owner(const struct bn_server *server, uint32_t tenant);

/* head.c: what precedes the body of a request. Texts are borrowed. */
struct bn_head {
    bool is_old;    /* HTTP/1.0 */
    size_t n_bytes; /* of all of it */
    size_t n_target;
    bool bad_target, bad_name, bad_bytes;
    const char *at;    /* where the next header begins in what was received; NULL: not known */
    const char *twice; /* a header that may be given once, and is not */
    const char *host, *origin, *type, *length, *coding, *authorization, *key, *asked_method, *expect;
    /* What bn_head_check finds. */
    bool has_body, is_preflight;
    uint64_t n_body;       /* by Content-Length */
    uint32_t tenant;       /* number of the key, 0 without keys */
    const char *permitted; /* the origin, when it is one of --cors */
};
/* The target as it came, before its escapes are decoded. */
void bn_head_target(struct bn_head *head, const char *target);
/* Before the headers, whose texts are in what was received, and after them: their ends are checked. */
void bn_head_begin(struct bn_head *head, const char *version);
void bn_head_end(struct bn_head *head, const char *method, size_t n_bytes);
void bn_head_take(struct bn_head *head, const char *name, const char *value);
/* Leaves reply->status 0 when the body may come. */
void bn_head_check(const struct bn_server *server, struct bn_head *head, const char *method, const char *path,
                   struct bn_reply *reply);
/* Whether a text is the origin of a page: SCHEME://HOST or SCHEME://HOST:PORT. */
bool bn_head_is_origin(const char *text);
/* The bytes of an address of IPv4 or IPv6. A number for an address of IPv4, or for the network of one of IPv6: who has one of its
 * addresses has all of them. */
const void *bn_address_bytes(const struct sockaddr *address);
uint64_t bn_address_number(const struct sockaddr *address);

/* A line of the access log. */
struct bn_log_entry {
    char id[BN_SERVE_ID], method[12], path[96], from[48];
    uint32_t tenant;
    unsigned status; /* 0: none was sent */
    uint64_t since_ns, n_bytes;
    bool left; /* before the answer was sent */
};
void bn_log_set(struct bn_log_entry *entry, const char *method, const char *path);
/* job NULL: nothing was generated. Sizes and times only, no text. */
void bn_log_write(const struct bn_log_entry *entry, const struct bn_job *job);

/* A request whose body has come. */
struct bn_request {
    const char *method, *path;
    const char *body;
    size_t n_bytes;
    uint32_t tenant;
    uint64_t client;
};
/* Whether there is such an address and it takes this method; *needs_key: whether a key is asked for. */
bool bn_route_check(struct bn_reply *reply, const char *method, const char *path, bool *needs_key);
/* The protocol of an address; NULL: it has none. */
const struct bn_protocol *bn_route_protocol(const char *path);
/* Answers it, or makes a job of it. */
void bn_route(struct bn_server *server, const struct bn_request *request, struct bn_reply *reply,
              struct bn_job **job);

BN_MUST_CHECK bn_status bn_listener_start(struct bn_server *server, bn_error *err);
uint16_t bn_listener_port(const struct bn_listener *http);
/* Accepts no more connections. */
void bn_listener_quiesce(struct bn_listener *http);
void bn_listener_stop(struct bn_listener *http);
/* Something was added to a job, or it is done: its connection goes on. Under the lock. */
void bn_listener_resume(struct bn_job *job);
/* The request is read again. Under the lock. */
void bn_listener_retry(struct bn_waiter *waiter);
/* Whether the client has closed its connection; libmicrohttpd does not look while it is suspended, nor notices an end that
 * comes together with bytes. Under the lock, so that the descriptor is still the connection's. */
bool bn_listener_has_left(int fd);
/* Closes connections that have not sent a request or read an answer in time, those whose client left before a request, and
 * the one that reads least when too much waits to be read. */
void bn_listener_drop_slow(struct bn_listener *http);

#endif
