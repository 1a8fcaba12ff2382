/* SPDX-License-Identifier: MIT
 *
 * The inside of sequences and sessions. A sequence is one timeline of tokens: its KV cache and its length. A session is
 * what evaluates tokens of one sequence or of several: the scratch rows of one batch, the threads, the counters. All of
 * its memory is taken when it is opened.
 */
#ifndef BN_INFER_SESSION_H
#define BN_INFER_SESSION_H

#include "base/digest.h"
#include "base/team.h"
#include "bn.h"
#include "model/device.h"
#include "model/hparams.h"
#include "model/model.h"
#include "stamp/profiler.h"

/* ---- snapshots ---- */

/* States of recurrent layers at earlier places of timelines, in a pool of a session. Such a state cannot be shortened. So
 * a timeline that becomes shorter takes the state of a snapshot that is not after its new end, and what follows is
 * evaluated again.
 *
 * A snapshot belongs to all timelines of one lineage that begin with its tokens, which are compared. The pool has a fixed
 * size. When it is full, the snapshot goes that saves the fewest tokens for its age. */
#define BN_SNAPSHOT_EVERY 256u /* tokens of a prompt */

struct bn_snapshot {
    bool is_reserved;  /* for the pass in flight */
    uint64_t lineage;  /* 0: empty */
    uint64_t last_use; /* by the clock of the pool */
    uint32_t n_tokens;
    int32_t *tokens;
    float *state;
};

struct bn_snapshots {
    struct bn_snapshot *list;
    size_t n;
    uint64_t clock; /* of uses */
};

/* As many states as `bytes` hold, 0: the default number; none for models without recurrent layers (n_state is 0). False when
 * there is no memory. */
bool bn_snapshots_open(struct bn_snapshots *pool, uint64_t bytes, size_t n_state, uint32_t n_ctx);
void bn_snapshots_close(struct bn_snapshots *pool);
/* Bytes that it will take. */
uint64_t bn_snapshots_plan(uint64_t bytes, size_t n_state, uint32_t n_ctx);
uint64_t bn_snapshots_bytes(const struct bn_snapshots *pool);

#define BN_LONGEST UINT32_MAX
/* The shortest snapshot of the sequence of more than `after` tokens, or its longest one; of at most n_tokens. NULL: none. */
struct bn_snapshot *bn_snapshots_find(const struct bn_snapshots *pool, const struct bn_sequence *sequence,
                                      uint32_t after, uint32_t n_tokens);
/* Reserves one for the state after n_tokens, which the caller writes; NULL: all are reserved. */
struct bn_snapshot *bn_snapshots_reserve(struct bn_snapshots *pool, uint32_t n_tokens);
/* The state was written, and the sequence has the tokens. */
void bn_snapshots_fill(struct bn_snapshots *pool, struct bn_snapshot *snapshot,
                       const struct bn_sequence *sequence);

/* ---- sequences and sessions ---- */

#define BN_QUERIES 32u        /* of heads and tokens that share keys: their attention is computed together */
#define BN_MARKS 8u           /* places at which a sequence is yet to make snapshots */
#define BN_SCREEN_MAX 1024u   /* largest n_best that is screened for */
#define BN_SCREEN_VECTORS 16u /* rows of logits that are screened together */

struct bn_sequence {
    struct bn_session *session; /* for which it was opened */
    uint32_t n_ctx;
    uint32_t number;   /* by which ranks know it: 0 for the session's own */
    uint32_t position; /* tokens in the timeline */
    int32_t *tokens;   /* n_ctx */
    /* Of the KV heads that this process computes, binary16: [layer][kv head][bn_cache_rows / BN_KEY_TILE] tiles of keys, [layer][kv head][bn_cache_rows][head_dim]
     * values. NULL when a device has them. */
    uint16_t *k_cache, *v_cache;
    struct bn_device_place place; /* where the device has them, and the state */
    /* The state of recurrent layers, which cannot be shortened: [layer]{n_taps - 1 rows of q, k and v before their
     * convolution, the newest last; [value head][head_dim][head_dim]}, n_state values in all. */
    size_t n_state;
    float *state;
    uint64_t lineage;         /* of its snapshots: a new number when it begins again */
    uint32_t marks[BN_MARKS]; /* lengths that come next, ascending, at which a snapshot is made */
    size_t n_marks;
    struct bn_snapshot *taken[BN_MARKS + 1]; /* those that the pass in flight makes, ascending */
    size_t n_taken;
    struct bn_trial *trial; /* not NULL: the tokens of the pass in flight may be taken back */
};

/* What the state of recurrent layers is updated with by tokens that may be taken back. Their pass leaves the state as it
 * was; bn_sequence_settle updates it with those tokens that stay. */
struct bn_trial {
    uint32_t position;   /* of the first token */
    size_t n_rows;       /* for which there is room */
    float *mix;          /* [layer][row]: q, k and v before their convolution */
    float *decay, *beta; /* [layer][row][value head] */
};

/* Positions that n_ctx tokens take in a cache: whole tiles of keys. */
static inline size_t bn_cache_rows(uint32_t n_ctx)
{
    return ((size_t)n_ctx + BN_KEY_TILE - 1) / BN_KEY_TILE * BN_KEY_TILE;
}

/* The pairs of a batch, ordered by expert and then by token: those of expert e are first[e] ... first[e + 1] - 1. */
struct bn_route {
    uint32_t *first, *tokens; /* n_experts + 1; one for each pair */
    float *weights;
    struct bn_act *act; /* room for a row of activations of each token */
};

/* What bn_session_record records, and it as events, NULL until they are wanted. */
struct bn_session_events {
    struct bn_prof *prof; /* NULL: nothing is recorded */
    bn_event *events;
    size_t n;
};

/* Called on the first thread for each product with weights: a bn_linear of the model, or its head or embedding. */
typedef void (*bn_dispatch_fn)(void *user, const void *weights, enum bn_kernel kernel);

/* One token of the batch in flight. Rows of one sequence are neighbours, in the order of their positions. */
struct bn_row {
    struct bn_sequence *sequence;
    uint32_t position;
    int32_t token;
};

/* A hidden state in 16-bit integers, and the factors of its bounds: error = size[r] * of_size + rest[r] * of_rest. */
struct bn_screen_vector {
    struct bn_planes planes;
    float unit, of_size, of_rest;
};

struct bn_session {
    const struct bn_model *model;
    uint32_t n_ctx, n_batch, n_threads; /* n_ctx: the most that a sequence may have */
    struct bn_sequence own;             /* the session's own timeline */
    uint64_t snapshot_bytes;            /* as requested */
    struct bn_snapshots snapshots;      /* of all sequences */
    uint64_t n_lineages;
    void *arena; /* everything below */

    float *rope_cos, *rope_sin;   /* [n_ctx][n_rot / 2] */
    float *local_cos, *local_sin; /* the same of local layers; NULL without such layers */

    /* Rows of the batch in flight, n_batch of each; of norm, norm_in and act at least n_threads. */
    float *x;       /* n_embd: the residual stream */
    float *norm;    /* widest layer input: normalised, before quantising */
    float *norm_in; /* the same after the norm of one layer's inputs; NULL unless the model has such norms */
    float *q, *k, *v; /* q_dim, kv_dim, kv_dim */
    float *att;       /* q_dim */
    float *gate, *up; /* n_ff, of each expert of a token */
    float *
        mix; /* queries with their gates, or q, k and v of a recurrent layer, before their convolution in conv */
    float *conv, *z;     /* of recurrent layers; z: the gate of the output */
    float *decay, *beta; /* of recurrent layers: one for each head */
    float *y;            /* n_embd: what a layer's half adds to x */
    /* Of layers with experts: logits, and probabilities. A pair is a token and an expert of it; n_used pairs a token. */
    float *router, *probabilities; /* n_experts each */
    float *pair_weights; /* of the experts that each token uses, in ascending order of their numbers: */
    uint32_t *pair_experts;
    struct bn_route *routes; /* n_threads */
    float *expert_y;         /* n_embd: what one expert makes of its tokens */
    /* The inputs of linear layers, padded to the block: of 8 bits with one scale a row, for weights in tiles in a
     * plane as well, or of 16 bits in two planes with a step for each group. */
    int8_t *act_q, *act_low; /* the 8 bits, or the high plane; the low plane: NULL without weights in tiles */
    uint32_t *used;          /* n_threads rows: which inputs are not 0; NULL without weights in columns */
    float *rotated;          /* n_threads rows of the widest layer input; NULL unless the model is rotated */
    float *tried;            /* n_threads matrices of recurrent layers; NULL without such layers */
    struct bn_act *act;
    float *act_step;
    int32_t *act_sum;
    uint8_t
        *tiles; /* n_threads times tile_bytes: rows of the file on the way to a product; NULL without such */
    size_t tile_bytes;
    float *scores; /* n_threads times BN_QUERIES rows of bn_score_row */
    float
        *queries; /* n_threads times BN_QUERIES rows of head_dim of q, then as many of att: a tile of them */
    float *head_row; /* n_threads rows of n_embd: one row of a quantised head in floats */
    float *hidden;   /* n_batch x n_embd: after the final norm */
    size_t n_hidden; /* rows of hidden that the last evaluation filled */
    struct bn_row *rows;
    uint32_t *wanted; /* rows whose hidden state is wanted, ascending */

    /* Screening the head; NULL without a screen. See screen.c. */
    struct bn_screen_vector *screen_vectors; /* BN_SCREEN_VECTORS, at least n_threads */
    int8_t *screen_x;                        /* two planes of n_embd for each */
    float *screen_best; /* n_threads times BN_SCREEN_VECTORS + 1 heaps of BN_SCREEN_MAX */
    bn_screen_stat screen;
    bool screen_off; /* it did not save time */

    struct bn_counters *counters; /* n_threads */
    bn_work work;
    bn_eval_timing timing;
    struct bn_prof *prof; /* NULL: no profile is taken */
    struct bn_session_events recording;
    bn_trace_fn trace;
    void *trace_user;
    bn_dispatch_fn dispatch; /* NULL: nobody wants to know */
    void *dispatch_user;
    bn_cancel_fn cancel;
    void *cancel_user;

    struct bn_device_session *on_device; /* NULL: the CPU evaluates */
    struct bn_link *link;                /* to other ranks: exchange.h; NULL when the model is not divided */
    struct bn_team *team;
    char model_sum[BN_CHECKSUM_HEX]; /* of the model's file; empty until a saved timeline needs it */
    bool is_exact;                   /* as requested; with a profile that is kept it always is */

    /* The evaluation in flight, read by all threads. */
    struct {
        size_t n;        /* rows of the batch */
        size_t n_wanted; /* rows that go on to the final norm */
        size_t n_heads;  /* the first of them, which go on to the head; the others are embedded */
        float *logits;   /* n_heads rows of n_vocab; NULL: only hidden states are wanted */
        size_t n_best;   /* of the logits that matter; 0: all */
        atomic_size_t n_rescored;
        atomic_size_t skipped_rows; /* of up, over all layers */
        size_t skipped_columns;     /* of down */
        uint64_t n_experts;         /* that were read, over all layers */
        struct bn_brick_timer team; /* starting the team, then joining it */
        atomic_bool bad_row;        /* an embedding row or the hidden state is not finite */
    } run;
};

/* Values of a row of scores. The row after it begins in another set of the caches, whatever n_ctx is. */
static inline size_t bn_score_row(const struct bn_session *s)
{
    return bn_cache_rows(s->n_ctx) + BN_KEY_TILE;
}

/* From now on the session records its work in the profile; NULL detaches it. The profile outlives the session
 * or is detached first. The results are the same bits with and without one. BN_ERR_ARG when it has fewer
 * threads. */
BN_MUST_CHECK bn_status bn_session_set_profile(bn_session *session, bn_prof *prof, bn_error *err);

/* Ends what bn_session_record began; and forgets its events alone, before an evaluation. Defined in record.c. */
void bn_record_close(struct bn_session *session);
void bn_record_forget(struct bn_session_events *recording);

/* Bytes of a session, by purpose. kv_bytes has everything that grows with sequences: state_bytes are a part of it. */
struct bn_session_memory {
    uint64_t kv_bytes, state_bytes, scratch_bytes, handle_bytes;
};
/* What it allocated. */
struct bn_session_memory bn_session_memory(const bn_session *s);
/* What a session will allocate, but for its handles; *n_ctx is its context. scratch_bytes is UINT64_MAX when the sizes
 * cannot be counted. */
struct bn_session_memory bn_session_plan(const bn_model *model, const bn_session_options *options,
                                         uint32_t *n_ctx);

/* Layers with attention. */
static inline size_t bn_attention_layers(const bn_hparams *hp)
{
    return hp->n_layer - bn_hparams_n_recurrent(hp, hp->n_layer);
}

/* KV heads of all layers; and those that this process computes. */
static inline size_t bn_kv_heads(const bn_hparams *hp)
{
    return bn_attention_layers(hp) * hp->n_head_kv;
}

static inline size_t bn_own_kv_heads(const bn_model *m)
{
    return bn_attention_layers(&m->hp) * m->kv_heads.n;
}

/* Values of the state of a recurrent layer: rows of the convolution, and then matrices. */
static inline size_t bn_conv_state(const bn_hparams *hp)
{
    return (hp->recurrence.n_taps - 1) * bn_hparams_mixed(hp);
}

static inline size_t bn_layer_state(const bn_hparams *hp)
{
    return bn_conv_state(hp) + bn_hparams_inner(hp) * hp->recurrence.head_dim;
}

static inline bool bn_sequence_is_recurrent(const struct bn_sequence *sequence)
{
    return sequence->state != NULL;
}

/* After the CPU wrote sequence->state: a device gets it with the next pass. */
static inline void bn_sequence_wrote_state(struct bn_sequence *sequence)
{
    sequence->place.state_is_newer = false;
    sequence->place.state_is_older = true;
}

/* Makes the timeline the longest one of at most n_tokens whose state is known, and returns its length: n_tokens, or with
 * recurrent layers that of a snapshot, or 0. */
uint32_t bn_sequence_rewind(struct bn_sequence *sequence, uint32_t n_tokens);
/* Before a pass over the next n tokens: reserves the snapshots that it makes. After it, and after one that failed. */
void bn_sequence_begin_pass(struct bn_sequence *sequence, uint32_t n);
void bn_sequence_end_pass(struct bn_sequence *sequence, uint32_t n);
void bn_sequence_fail_pass(struct bn_sequence *sequence, uint32_t n);
/* Bytes of the keys and values of n_ctx tokens that this process has. */
uint64_t bn_sequence_cache_bytes(const bn_model *model, uint32_t n_ctx);
/* Takes the memory of an empty sequence; false when there is none. */
bool bn_sequence_take(struct bn_sequence *sequence, struct bn_session *session, uint32_t n_ctx);
/* Copies the keys, the values and the tokens of positions first ... end - 1; those before are the same in both. */
void bn_sequence_copy(const bn_session *session, struct bn_sequence *to, const struct bn_sequence *from,
                      size_t first, size_t end);
/* Gives it back. */
void bn_sequence_release(struct bn_sequence *sequence);

/* Takes the memory of a trial of n_rows tokens; NULL in *out for models without recurrent layers. */
BN_MUST_CHECK bn_status bn_trial_open(struct bn_trial **out, const bn_hparams *hp, size_t n_rows,
                                      bn_error *err);
void bn_trial_close(struct bn_trial *trial);
/* After a pass: the timeline has n_tokens, and what a trial evaluated after them is taken back. Defined in recurrent.c. */
void bn_sequence_settle(struct bn_sequence *sequence, uint32_t n_tokens);
/* What kernel k did since the session was opened: all threads, and the other ranks when they were last asked. */
struct bn_counter bn_session_counter(const struct bn_session *s, enum bn_kernel k);
/* All ranks send their counters to each other; nothing when the model is not divided. Defined in exchange.c. */
void bn_session_tally(struct bn_session *s);
/* The first failure of an exchange with other ranks, or BN_OK. */
BN_MUST_CHECK bn_status bn_session_check_link(const struct bn_session *s, bn_error *err);
/* What it exchanged with other ranks. */
bn_rank_stat bn_session_rank_stat(const struct bn_session *s);
/* What kernel k did since `before`, which has BN_KERNEL_COUNT sums of an earlier moment; NULL: since the session was
 * opened. False when it was not called. */
bool bn_session_kernel_since(const struct bn_session *s, const struct bn_counter *before, enum bn_kernel k,
                             bn_kernel_stat *out);
/* Whether n tokens fit into the vocabulary and after those of the sequence. */
BN_MUST_CHECK bn_status bn_session_check_tokens(const struct bn_session *s,
                                                const struct bn_sequence *sequence, const int32_t *tokens,
                                                size_t n, bn_error *err);

/* Calls the trace with n rows, one record for each sequence; index says which of `rows` they are, NULL: the first n. Defined
 * in linear.c. */
void bn_trace_sequences(struct bn_session *s, const char *op, int32_t layer, const float *data,
                        const struct bn_row *rows, const uint32_t *index, size_t n, size_t cols);

/* The lowest index of the greatest value. Defined in head.c. */
size_t bn_argmax(const float *x, size_t n);
/* Fills top with the best logits, best first, ties by id; returns how many there are: at most `most`. Defined in
 * head.c. */
size_t bn_best_logits(const float *logits, size_t n_vocab, bn_candidate *top, size_t most);

/* Computes the rows of the head that the mask has for a hidden state, and sets the others to -INFINITY. For a head that
 * is screened. Defined in head.c. */
void bn_head_masked(bn_session *s, const float *hidden, const uint64_t *mask, float *logits);

/* One batch through the network. It begins with bn_batch_start; bn_batch_add adds tokens that follow those of a
 * sequence, of which the rows from first_wanted on are wanted; bn_forward evaluates all. The sequences move on by their
 * tokens. The rows wanted go through the head, unless logits is NULL: then only hidden states are made. n_best logits
 * matter, 0: all. Defined in forward.c. */
void bn_batch_start(struct bn_session *s);
void bn_batch_add(struct bn_session *s, struct bn_sequence *sequence, const int32_t *tokens, size_t n,
                  size_t first_wanted);
BN_MUST_CHECK bn_status bn_forward(struct bn_session *s, size_t n_best, float *logits, bn_error *err);

/* On a device: after a pass over tokens from `first` on that could be taken back, those up to n_tokens stay. When they are
 * not all, they are evaluated again from the state before, and nothing is counted. An error is one of the next pass. */
void bn_forward_again(struct bn_sequence *sequence, uint32_t first, uint32_t n_tokens);

/* bn_session_eval_batch with a piece of an embedding, n tokens at most, in the same pass. e may be NULL. */
BN_MUST_CHECK bn_status bn_session_eval_parts(struct bn_session *s, const bn_batch_part *parts,
                                              size_t n_parts, size_t n_best, float *logits,
                                              struct bn_embedding *e, size_t n, bn_error *err);

/* embed.c: adds the next tokens to the batch, n at most, after all other parts; returns how many. */
size_t bn_embedding_join(struct bn_embedding *e, size_t n);
/* The batch was evaluated. */
void bn_embedding_take(struct bn_embedding *e);
bool bn_embedding_is_done(const struct bn_embedding *e);

/* Fills cos and sin, n_ctx rows of n_rot / 2 values: of the angle position * scale * base^(-2i / n_rot) /
 * factor_i, with the scaling of YaRN when the model has it. factors may be NULL. Everything is computed in binary64
 * (base/elementary.h), then rounded to binary32. */
void bn_rope_table(float *cos, float *sin, size_t n_ctx, const bn_hparams *hp, const float *factors);

/* ---- saved timelines, for the fuzz target ---- */

/* Raise them when the format changes, and when a change of the arithmetic gives other keys or values
 * (docs/explain/numerics.md): a file of another version is refused. */
#define BN_STATE_VERSION 1u
#define BN_STATE_RECURRENT_VERSION 2u /* of models with recurrent layers: with their states */

/* The beginning of a file. All numbers are little endian. Then come the tokens (4 bytes each), then for each head of
 * each layer the keys and then the values of all tokens (2 bytes a number), then states of recurrent layers: each is a
 * number of tokens (4 bytes) and the state after them (binary32), ascending; then a checksum of all that: 32 hexadecimal
 * digits, as the model's. */
struct bn_state_header {
    char magic[8]; /* BN_STATE_MAGIC */
    uint32_t version, n_tokens;
    uint32_t n_layer, n_head_kv, head_dim;
    uint32_t kv_type;                /* BN_TYPE_F16 */
    char model[BN_CHECKSUM_HEX - 1]; /* of the model's file, without the NUL */
};
#define BN_STATE_MAGIC "bn.state"
#define BN_STATE_SUM_BYTES (BN_CHECKSUM_HEX - 1)

/* The checksum of the model of this session, computed once by all threads of the session. */
BN_MUST_CHECK bn_status bn_state_model_sum(struct bn_session *s, const char **hex, bn_error *err);

/* bn_session_load from memory; name is for messages. The bytes need no alignment. */
BN_MUST_CHECK bn_status bn_state_read(struct bn_session *s, const void *bytes, size_t n_bytes,
                                      const char *name, const int32_t *tokens, size_t n_tokens,
                                      uint32_t *n_kept, bn_error *err);

#endif
