/* SPDX-License-Identifier: MIT
 *
 * Generation: a prompt is evaluated, tokens are chosen one after the other until something says stop, and
 * each step is timed and bound into a chain of digests. bn-run and the replay of receipts use this same loop.
 */
#ifndef BN_INFER_GENERATE_H
#define BN_INFER_GENERATE_H

#include "base/digest.h"
#include "bn.h"

enum bn_stop_reason {
    BN_STOP_LENGTH,  /* n_predict tokens are there */
    BN_STOP_ID,      /* a token of stop_ids */
    BN_STOP_END,     /* the vocabulary's end of generation */
    BN_STOP_STRING,  /* one of stops appeared in the text */
    BN_STOP_CONTEXT, /* the timeline is full */
    BN_STOP_CALLER,  /* on_token returned false */
    BN_STOP_REASON_COUNT
};
const char *bn_stop_reason_name(enum bn_stop_reason reason); /* "length", "stop_id", "end", ... */

/* The chain starts as sha256("bn.chain/1"). Each step hashes: the link before it (32 bytes), the position
 * (u32 little endian) that the logits belong to, the hidden state they come from (n_embd binary32), the
 * BN_CHAIN_TOP best logits (u32 id, binary32 value; by value descending, then id ascending), and the token
 * chosen (u32). So it fixes every step of the network and of the sampler, on any machine. */
#define BN_CHAIN_TOP 32u

struct bn_generation {
    /* ---- what is asked; borrowed ---- */
    const int32_t *prompt; /* at least one token */
    size_t n_prompt;
    uint32_t n_predict;
    bn_sampler_options sampling;
    const int32_t *stop_ids;
    size_t n_stop_ids;
    const char *const *stops; /* texts */
    size_t n_stops;
    bool ignore_end; /* end-of-generation tokens do not stop */
    bool want_chain;
    /* Called for each token with the text that became complete with it, stop texts left out; false stops. May
     * be NULL. */
    bool (*on_token)(void *user, int32_t id, const char *text, size_t n_bytes);
    void *user;

    /* ---- what came; owned, released by bn_generation_release ---- */
    int32_t *ids;       /* n_ids generated tokens, the stopping one included */
    uint64_t *token_ns; /* n_ids wall times: the first holds the prompt's evaluation */
    struct bn_step_timing {
        uint64_t embed_ns, forward_ns, head_ns, sample_ns;
    } * steps;
    size_t n_ids;
    enum bn_stop_reason reason;
    uint64_t prefill_ns;       /* evaluating the prompt */
    uint64_t decode_ns;        /* from then to the last token */
    uint64_t total_ns;         /* of the whole call */
    char chain[BN_SHA256_HEX]; /* empty unless want_chain */
};

/* The session must stand at position 0 or behind an earlier turn; n_prompt + n_predict may exceed its
 * context, then reason is BN_STOP_CONTEXT. tok may be NULL, then only ids and lengths stop. */
BN_MUST_CHECK bn_status bn_generate(bn_session *session, const bn_tokenizer *tok, struct bn_generation *gen,
                                    bn_error *err);
void bn_generation_release(struct bn_generation *gen);

#endif
