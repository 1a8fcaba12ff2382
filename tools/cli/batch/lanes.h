/* SPDX-License-Identifier: MIT
 *
 * Places for generations that run at the same time: each has a sequence, which keeps its tokens for the next prompt that
 * begins with them. What bn-run --batch-file and bn-serve share.
 */
#ifndef BN_CLI_BATCH_LANES_H
#define BN_CLI_BATCH_LANES_H

#include "base/json.h"
#include "bn.h"

struct bn_lane {
    bn_sequence *sequence;
    const bn_generation *gen; /* NULL: free */
    uint32_t tenant;          /* whose tokens the sequence holds */
    uint64_t last_use;        /* the number of the start */
};

struct bn_lanes {
    bn_session *session;
    const bn_tokenizer *tok;
    bn_scheduler *scheduler;
    struct bn_lane *list;
    size_t n, n_busy;
    uint64_t n_starts;
    double slowdown; /* of bn_scheduler_set_slowdown; set by the caller */
};

/* `most` lanes, at most as many as the session's batch has tokens. The first one is the session's own sequence.
 * tok may be NULL. Released by bn_lanes_close, after an error too. */
BN_MUST_CHECK bn_status bn_lanes_open(struct bn_lanes *lanes, bn_session *session, const bn_tokenizer *tok,
                                      size_t most, bn_error *err);
void bn_lanes_close(struct bn_lanes *lanes);
/* Starts a generation, whose n_cached it sets, on a free lane; what another lane has of the prompt in addition is
 * copied. A lane whose tokens the prompt continues is preferred, then the one that was used least recently. Tokens of other tenants are not used: the time of an answer would disclose them. A lane is free:
 * n_busy < n. After an error nothing has changed but the sequence of a free lane. */
BN_MUST_CHECK bn_status bn_lanes_start(struct bn_lanes *lanes, bn_generation *gen, uint32_t tenant,
                                       bn_error *err);
/* Whether a busy lane will soon have evaluated more of this prompt than any lane has now: waiting for it saves work. */
bool bn_lanes_should_wait(const struct bn_lanes *lanes, const bn_generation *gen, uint32_t tenant);
/* The passes that follow evaluate this embedding too. */
BN_MUST_CHECK bn_status bn_lanes_embed(struct bn_lanes *lanes, bn_embedding *embedding, bn_error *err);
/* One pass; after an error all lanes are free, and the results of all generations are released. */
BN_MUST_CHECK bn_status bn_lanes_step(struct bn_lanes *lanes, bn_error *err);
/* A generation that has ended, whose lane is free again; NULL: none has. */
bn_generation *bn_lanes_take(struct bn_lanes *lanes);

/* A member of a request that sets a number: n_predict, temperature, top_k, top_p, min_p, seed, a penalty. False
 * when its name is none of these. *status is BN_ERR_FORMAT for a value that is not in the range. */
bool bn_request_number(bn_generation *gen, const bn_json *member, bn_status *status, bn_error *err);
/* The same for a member that sets the grammar: "grammar" (GBNF) or "json_schema". The caller closes *out, which is NULL
 * before. */
bool bn_request_grammar(bn_grammar **out, const bn_json *member, bn_status *status, bn_error *err);
/* A text as a receipt binds it (NULL: tokens were given), and its tokens; both are owned. */
struct bn_prompt {
    char *text;
    size_t n_bytes;
    int32_t *ids;
    size_t n_ids;
};
void bn_prompt_release(struct bn_prompt *prompt);
/* Why a generation ended with BN_STOP_STUCK. */
const char *bn_request_stuck(const bn_generation *gen);
/* The grammar of a JSON Schema that was read as a part of something else. */
BN_MUST_CHECK bn_status bn_request_schema(bn_grammar **out, const bn_json *schema, bn_error *err);

#endif
