/* SPDX-License-Identifier: MIT
 *
 * One streamed request to a server of OpenAI's API, over a connection of its own that never blocks: when each piece of
 * text came, and what the end said. HTTP without TLS, to an address or localhost: names are not looked up.
 */
#ifndef BN_BENCH_SERVE_CLIENT_H
#define BN_BENCH_SERVE_CLIENT_H

#include <netinet/in.h>

#include "base/buf.h"
#include "base/digest.h"

/* Where requests go. */
struct bn_target {
    struct sockaddr_storage address;
    socklen_t n_address;
    char host[80];    /* of the header Host */
    char prefix[200]; /* of the path, "" or "/v1" */
    const char *key;  /* NULL: none */
};
/* Reads "http://127.0.0.1:8080/v1". BN_ERR_ARG for what is not such a URL. */
BN_MUST_CHECK bn_status bn_target_parse(struct bn_target *target, const char *url, bn_error *err);

enum bn_client_state { BN_CLIENT_SENDS, BN_CLIENT_READS, BN_CLIENT_ENDED };

struct bn_client_run {
    enum bn_client_state state;
    int fd;
    struct bn_buf out;  /* what is to be sent */
    struct bn_buf head; /* of the response */
    struct bn_buf line; /* the part of a line of the body that came */
    size_t n_sent;
    bool has_head, chunked;
    uint64_t n_chunk;  /* bytes of the chunk that are still to come */
    bool in_chunk;     /* else the line with its length comes */
    bool done;         /* "[DONE]" came */
    unsigned status;   /* HTTP's; 0: none came */
    char reason[160];  /* why it failed; empty: it did not */
    uint64_t start_ns; /* when it was sent */
    uint64_t end_ns;
    uint64_t *at_ns; /* when each piece of text came */
    size_t n_at, room;
    size_t n_prompt, n_cached, n_tokens; /* as the usage says */
    char chain[65];                      /* of bn-serve; else the digest of the text */
    struct bn_sha256 text;
};

/* Connects and begins to send; a failure is one of the run, not of the caller. Released by bn_client_close. */
void bn_client_open(struct bn_client_run *run, const struct bn_target *target, const char *body, size_t n);
void bn_client_close(struct bn_client_run *run);
/* Sends or reads what it can. */
void bn_client_advance(struct bn_client_run *run);
/* Ends it; the reason is empty when it has its answer. */
void bn_client_end(struct bn_client_run *run, const char *reason);

#endif
