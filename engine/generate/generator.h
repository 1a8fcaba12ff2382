/* SPDX-License-Identifier: MIT
 *
 * One generation as a state machine: it says which tokens are to be evaluated next, and takes the logits that come
 * back. So whoever evaluates may do that for one generation or for many in one pass (scheduler.c).
 */
#ifndef BN_GENERATE_GENERATOR_H
#define BN_GENERATE_GENERATOR_H

#include "base/digest.h"
#include "infer/session.h"

struct bn_generator;

/* Takes all memory of a generation. Its prompt follows what the sequence holds. BN_ERR_ARG, BN_ERR_LIMIT for bad
 * requests; then gen holds nothing. All arguments outlive the generator. */
BN_MUST_CHECK bn_status bn_generator_open(struct bn_generator **out, bn_session *session,
                                          bn_sequence *sequence, const bn_tokenizer *tok, bn_generation *gen,
                                          bn_error *err);
/* What gen holds stays. NULL is accepted. */
void bn_generator_close(struct bn_generator *g);

/* Before a pass: n generations with a grammar share the time for it. Goes on with a choice that waits. */
void bn_generator_prepare(struct bn_generator *g, size_t n);

/* The next tokens, at most n of them. The logits of the last one are wanted when it is the last that is pending; those
 * of all when the others are drafted ones, of which it takes most_drafts at most. */
bn_batch_part bn_generator_next(struct bn_generator *g, size_t n, size_t most_drafts);
/* These tokens were evaluated by the session's last pass; logits and hidden are the first row that was wanted, or NULL.
 * The sequence is shortened to what was right of a draft. The number of those rows that stay. */
size_t bn_generator_take(struct bn_generator *g, const bn_batch_part *part, const float *logits,
                         const float *hidden);

/* Ends it now, whatever is pending. */
void bn_generator_cancel(struct bn_generator *g);

/* ---- the chain of digests ---- */

/* The chain of digests of a generation, which receipts hold and replays recompute.
 *
 * It starts as sha256("bn.chain/1"). Each step hashes: the link before it (32 bytes), the position (u32
 * little endian) that the logits belong to, the hidden state that they were computed from (n_embd binary32),
 * the BN_CHAIN_TOP best logits (u32 id, binary32 value; by value descending, then id ascending), and the
 * chosen token (u32). So it fixes every step of the network and of the sampler, on any machine. The best logits are those
 * of all tokens. Under a grammar the chain starts as sha256("bn.chain/1" kind digest): "gbnf" or "json_schema", and the
 * digest of the grammar's text in hexadecimal. */

#define BN_CHAIN_TOP 32u

/* ---- grammars ---- */

/* Chooses tokens under a grammar: the logits of those that cannot come next are minus infinity, then the sampler chooses
 * as it always does. The result is that of masking the whole vocabulary; the mask is made only when the best tokens are
 * not allowed, or when the sampler draws. Of a screened head, whose best logits alone are known, the rows that are
 * allowed are computed when the best ones do not suffice. So nothing depends on how the logits came about. */

struct bn_constraint;

/* NULL in *out when the request has no grammar. */
BN_MUST_CHECK bn_status bn_constraint_open(struct bn_constraint **out, const bn_generation *gen,
                                           bn_session *session, const bn_tokenizer *tok, bn_error *err);
void bn_constraint_close(struct bn_constraint *c);
#define BN_CHOICE_NONE (-1)  /* no token may come next, or it has failed */
#define BN_CHOICE_WAITS (-2) /* the steps that it may make are over: it goes on when it is asked again */

/* The token that comes next, which the text then has, or one of the above. logits: of all tokens, or the n_best best ones
 * and others, the rest -INFINITY; hidden: what they were computed from. Both are the same when it is asked again. */
int32_t bn_constraint_choose(struct bn_constraint *c, bn_sampler *sampler, const float *logits,
                             const float *hidden, size_t n_best, const int32_t *recent, size_t n_recent);
/* It may make as many steps as an n-th part of a token's work has; false: it owes them from the time before. */
bool bn_constraint_grant(struct bn_constraint *c, size_t n);
/* The work so far, in tokens; why it has failed, or BN_OK. */
uint64_t bn_constraint_cost(const struct bn_constraint *c);
bn_status bn_constraint_status(const struct bn_constraint *c);
/* The text is complete, and nothing can follow it. */
bool bn_constraint_is_complete(const struct bn_constraint *c);

/* ---- the budget of prompts ---- */

/* How many tokens of prompts a pass may evaluate next to answers that run. A pass with pieces of prompts takes at most
 * `slowdown` times as long as a pass without them. Both times are measured, for each number of answers. The rule changes
 * times only, never a result. */

/* Passes with one number of answers. */
struct bn_budget_pass {
    double plain_ns; /* of a pass without pieces: a running mean; 0: unknown */
    double tokens;   /* that pieces may have */
};

struct bn_budget {
    double slowdown; /* 0: pieces fill the batch */
    struct bn_budget_pass *passes;
    size_t most;    /* answers */
    size_t n_mixed; /* passes with pieces since the last one without */
};

/* False when there is no memory. Released by bn_budget_close, also then. */
bool bn_budget_open(struct bn_budget *b, size_t most);
void bn_budget_close(struct bn_budget *b);
/* Tokens of prompts in the next pass, at most room; 0: none, so that a pass without pieces is measured. */
size_t bn_budget_tokens(const struct bn_budget *b, size_t n_answers, size_t room);
/* A pass of n_answers tokens of answers and n_tokens of prompts took this long. */
void bn_budget_account(struct bn_budget *b, size_t n_answers, size_t n_tokens, uint64_t ns);

/* ---- speculation ---- */

/* Speculation: tokens that may come next are drafted, and one pass evaluates all of them after the newest token. The
 * sampler goes over the rows of logits in order, exactly as it does over those of single tokens; the first token that
 * differs from the draft ends the pass. So the tokens and all bits are those without speculation. */

#define BN_DRAFT_MOST 16u      /* tokens of a draft, unless the request says something else */
#define BN_DRAFT_MOST_EVER 64u /* whatever it says */

/* ---- drafts ---- */

/* The longest draft that a request wants; 0: none. */
static inline uint32_t bn_draft_most(const bn_draft_options *o)
{
    uint32_t most = o->most != 0 ? o->most : BN_DRAFT_MOST;
    return o->kind == BN_DRAFT_NONE ? 0 : most < BN_DRAFT_MOST_EVER ? most : BN_DRAFT_MOST_EVER;
}

struct bn_drafter;

/* NULL in *out when the request wants no drafts. BN_ERR_ARG when its draft session does not fit the model. */
BN_MUST_CHECK bn_status bn_drafter_open(struct bn_drafter **out, const bn_generation *gen,
                                        const struct bn_model *model, bn_error *err);
void bn_drafter_close(struct bn_drafter *d);
/* Writes at most n tokens that may follow the history after it, where there is room, and returns how many. `sampler` is
 * the one that will choose the tokens; it does not change. */
size_t bn_drafter_draft(struct bn_drafter *d, int32_t *history, size_t n_history, size_t n,
                        const bn_sampler *sampler);

/* Prompt look-up: the continuation of the longest earlier copy of the end of the history. As above. */
size_t bn_draft_ngram(int32_t *history, size_t n_history, size_t n);

/* The next random numbers of s are those of `other`. Defined in sampler.c. */
void bn_sampler_follow(bn_sampler *s, const bn_sampler *other);

#define BN_DRAFT_CLASSES 8u

/* ---- when to draft; apart from its clock, so that tests can drive it ---- */

/* A budget, in passes of one token. Each such pass adds a 64th. A pass with a draft adds the tokens that it gave, less
 * its own time. Drafts are made while the budget is not negative. A draft is no longer than the
 * budget can lose. So drafts that do not pay take at most a 64th of the time, and are tried again rarely; drafts that
 * pay become long.
 *
 * Times are those of the processor: on a busy machine other programs delay single passes tenfold, and long ones more
 * often. They are means that one value moves by little, and a drafted token counts first as a pass of its own at most,
 * which it would be without drafts. */
struct bn_draft_pace {
    bool always;                /* regardless of the time */
    uint32_t most;              /* longest draft */
    uint32_t length;            /* of the next one: doubled by a draft that was right, halved by another */
    uint32_t n_plain, n_drafts; /* passes of one token; passes with drafts since the last one of them */
    double plain_ns;            /* of a pass of one token */
    /* Time of a drafted token in passes of one token, for drafts of 1, 2 to 3, 4 to 7 ... tokens; 0: unknown. */
    double each[BN_DRAFT_CLASSES];
    double budget;
};

/* How many tokens the next pass may draft; 0: none. */
size_t bn_draft_pace_length(const struct bn_draft_pace *pace);
/* A pass of n_drafted tokens and the one before them took ns, its draft included, and gave n_tokens. */
void bn_draft_pace_account(struct bn_draft_pace *pace, size_t n_drafted, size_t n_tokens, uint64_t ns);

/* ---- a generation that runs ---- */

struct bn_generator {
    bn_session *session;
    bn_sequence *sequence;
    const bn_tokenizer *tok;
    bn_generation *gen;
    bn_sampler *sampler;
    struct bn_constraint *constraint; /* NULL: the request has no grammar */
    float *kept;                      /* with it: logits and hidden state of a choice that waits */
    bool waits, owes;
    size_t n_best;    /* logits that the sampler and the chain use */
    int32_t *history; /* prompt and generated tokens */
    float *weights;   /* n_vocab: for log-probabilities */
    size_t n_history, n_evaluated;
    uint32_t base; /* where the prompt begins in the timeline */
    bool ended;
    uint64_t start, since;      /* of the generation, of the step */
    bn_eval_timing timing;      /* of the passes of this step */
    struct bn_drafter *drafter; /* NULL: no drafts are wanted */
    struct bn_draft_pace pace;
    struct bn_trial *trial; /* for passes with drafts; NULL without recurrent layers */
    uint64_t pass_start;    /* processor time of the thread: other programs do not lengthen it */
    /* What the session did before. */
    bn_work work;
    bn_screen_stat screen;
    bn_rank_stat ranks;
    struct bn_counter counters[BN_KERNEL_COUNT];
    struct bn_sha256 sha;
    unsigned char link[BN_SHA256_BYTES];

    /* Text that is held back because a stop text might begin in it. */
    bn_utf8_stream utf8;
    char *held, *fresh;
    size_t n_held, held_room;
};

/* Whether the prompt has been evaluated. */
static inline bool bn_generator_has_prompt(const struct bn_generator *g)
{
    return g->n_evaluated >= g->gen->n_prompt;
}

#endif
