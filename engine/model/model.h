/* SPDX-License-Identifier: MIT
 *
 * A model in memory, as the forward pass sees it: hyper-parameters, and for each weight where it lies and how
 * it is stored. Immutable after opening; weights point into the file map or into packed copies made at load.
 */
#ifndef BN_MODEL_MODEL_H
#define BN_MODEL_MODEL_H

#include "base/digest.h"
#include "base/file.h"
#include "base/ranks.h"
#include "base/team.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"

/* ---- rotated files ---- */

/* The keys prism.hadamard.* of files whose ternary weights were rotated before rounding: a stored matrix is W' =
 * W S H, S a diagonal of signs for each input width, H the Walsh-Hadamard matrix of `block` columns (Sylvester's
 * order, divided by the square root of `block`), applied to each block of an input. So a layer computes W'
 * (H (s * x)), and a row z of a rotated embedding is s * (H z). Without this such a file gives fluent nonsense,
 * so whatever the engine does not know in those keys is refused. */
#define BN_HADAMARD_WIDTHS 8u

struct bn_hadamard {
    uint32_t block; /* a power of two; 0: the file is not rotated */
    size_t n_widths;
    uint32_t widths[BN_HADAMARD_WIDTHS];
    float *signs[BN_HADAMARD_WIDTHS]; /* +1 or -1, widths[i] of them */
    const struct bn_gguf_kv *names;   /* the tensors that are rotated */
    bool embedding;                   /* token_embd.weight is */
    bool grouped_heads; /* inputs of ssm_out: value heads of one key head lie together before the transform */
};

/* Reads and checks the keys; all zero when the file has none. BN_ERR_UNSUPPORTED for a version, transform, axis
 * or mode that is not known and for rotated tensors that no linear layer reads, BN_ERR_FORMAT for damaged values,
 * BN_ERR_NOMEM. Release with bn_hadamard_release, also after an error. */
BN_MUST_CHECK bn_status bn_hadamard_read(struct bn_hadamard *h, const struct bn_gguf *gguf, bn_error *err);
void bn_hadamard_release(struct bn_hadamard *h);

/* How the inputs of a layer are rotated before its product, by the slot rotate of the kernels. */
struct bn_rotation {
    uint32_t block;     /* 0: not at all */
    const float *signs; /* NULL: all +1 */
};

/* The rotation for inputs of `width` values of the tensor `name`. BN_ERR_FORMAT when the keys do not cover it. */
BN_MUST_CHECK bn_status bn_hadamard_of(const struct bn_hadamard *h, const char *name, size_t width,
                                       struct bn_rotation *out, bn_error *err);

/* ---- a model ---- */

/* Rows first to first + n - 1 of a matrix: those that this process computes. */
struct bn_slice {
    size_t first, n;
};

/* A ternary linear layer y = W x. Of a model that is divided among ranks, w and packed have only the rows of this rank:
 * row r of them is row first + r of W. */
struct bn_linear {
    size_t rows, first;  /* of W; the first one of w */
    struct bn_ternary w; /* in the file, or a copy in tiles; w.k is padded to the block */
    size_t row_bytes;    /* of w, that a product reads */
    bool picked;         /* rows of the file are read next to the tiles: those that a token needs */
    struct bn_columns
        columns;         /* the same for single tokens with few inputs; codes is NULL when there are none */
    struct bn_t5 packed; /* I2_S codes in T5, for single tokens; codes is NULL when there are none */
    struct bn_rotation rotation; /* of the inputs, before they are quantised */
    const float *input_norm; /* k: the inputs are normalised before they are rotated; NULL: they are not */
    size_t k;                /* inputs, before padding */
    float extra_scale;       /* of a *.scale tensor: multiplies the output; 1 when there is none */
    bool has_extra_scale;
};

/* A row of activations is followed by zeros up to a multiple of every block of ternary weights. */
static inline size_t bn_act_padded(size_t k)
{
    size_t every = 1280; /* 128, 256 and 320 divide it */
    return (k + every - 1) / every * every;
}

/* Bytes of rows in tiles. */
static inline size_t bn_tiles_bytes(const struct bn_ternary *w, size_t rows)
{
    size_t padded = (rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS * BN_TILE_ROWS;
    return padded * (w->k / 4 + (w->blocks == BN_BLOCKS_I2S ? 0 : w->k / w->group * sizeof(uint16_t)));
}

/* Rows from..to of it; from is a multiple of BN_TILE_ROWS. */
static inline struct bn_ternary bn_ternary_part(const struct bn_ternary *w, size_t from, size_t to)
{
    struct bn_ternary part = *w;
    if (w->codes != NULL) part.codes += from * (w->k / 4);
    if (w->scales != NULL) part.scales += from * (w->k / w->group);
    part.stored += from * w->row_bytes;
    part.rows = to - from;
    return part;
}

/* A matrix whose rows are looked up, or multiplied in floats: the embedding and the head. */
struct bn_matrix {
    const unsigned char *data;
    uint32_t type; /* enum bn_type */
    size_t rows, k, row_bytes;
};

/* The head in 8 bits: row r is step[r] * q[r * k ...], and the rest has the norm rest[r] at
 * most. See repack.c. */
struct bn_screen {
    int8_t *q;                 /* NULL when there is none */
    float *step, *size, *rest; /* size: norm of the row itself, at least */
};

/* The copies that repack.c makes, in steps: parts of the head, then layers. Each copy is used when it is complete. */
struct bn_repacking {
    bool head, ternary, tiles, columns; /* which are wanted */
    bool later;                         /* the head of the file is in use meanwhile */
    bool no_room;                       /* memory is short: nothing is copied */
    uint32_t n_done, n_steps;
    struct bn_screen screen;
    uint8_t *codes; /* T5 of all layers */
    uint64_t n_packed, codes_bytes, tiles_bytes, columns_bytes;
    uint64_t all_codes_bytes; /* of all ranks */
};

/* What a recurrent layer has in place of q, k and v. */
struct bn_recurrent {
    struct bn_linear mix, z;    /* n_embd to q, k and v in one row; n_embd to the gate of the output */
    const float *conv;          /* n_taps rows of a weight for each element of mix, the oldest token first */
    const float *alpha, *beta;  /* n_value_heads rows of n_embd: decay, and share of the new value */
    const float *a, *dt, *norm; /* n_value_heads: rate and bias of the decay; head_dim */
    bool
        grouped; /* the inputs of o are in the order [key head][value head of it], not [value head of it][key head] */
};

/* A layer with experts has the rows of all of them, one expert after the other, in each of gate, up and down. */
struct bn_layer {
    bool is_recurrent;
    uint32_t nth; /* among the layers of its kind: where it keeps keys and values, or its state */
    const float *attn_norm, *ffn_norm; /* n_embd */
    const float *post_attn_norm,
        *post_ffn_norm;           /* n_embd, of what a half adds; NULL when the model has none */
    const float *q_norm, *k_norm; /* head_dim, of every head; NULL when the model has none */
    struct bn_linear q, k, v, o, gate, up, down; /* recurrent: no q, k, v, whose rows are 0 */
    struct bn_recurrent recurrent;
    const float *router; /* a row of n_embd for each expert; NULL without experts */
};

struct bn_model {
    bn_hparams hp;
    struct bn_layer *layers;
    struct bn_matrix embd, head;
    struct bn_linear head_linear;    /* a ternary head, or there is none (rows 0) */
    struct bn_device *device;        /* that evaluates it; NULL: the CPU does */
    struct bn_device *left;          /* that it was evaluated by, before bn_model_leave_device; else NULL */
    const struct bn_ranks *ranks;    /* NULL: the model is not divided */
    struct bn_slice kv_heads, vocab; /* of this rank; vocab: rows of the head, and of the screen */
    struct bn_screen screen;
    struct bn_repacking repacking;
    const float *output_norm;
    struct bn_hadamard hadamard;
    struct bn_rotation embd_rotation; /* of rows of the embedding, which are rotated back */
    const float *rope_factors;        /* n_rot / 2 divisors of the frequencies, NULL when there are none */
    bn_tokenizer *tokenizer;
    const struct bn_kernels *kernels; /* chosen when the model was opened */

    struct bn_file_map map; /* empty when the bytes are borrowed */
    const unsigned char *bytes;
    size_t n_bytes;
    struct bn_gguf gguf;
    void **copies; /* packed or converted weights */
    size_t n_copies;
    /* Of all ranks together: */
    uint64_t ternary_bytes, head_bytes; /* that one token reads: of the file, or of tiles */
    uint64_t expert_bytes;              /* of ternary_bytes, those of one expert of one layer */
    uint64_t packed_bytes;              /* of the T5 copies, 0 without */
    uint64_t ternary_weights;           /* that one token reads */
    uint32_t group; /* weights that share a scale in linear layers; 0: all of a matrix do */
    bool wide;      /* activations have 16 bits and a step for each group; else 8 bits and a step a row */
    bool streamed;  /* larger than the caches */
    bool no_weights;
};

/* bn_model_open, or bn_model_open_memory when data is not NULL; path is then the name. ranks: the processes that run this
 * model together, which outlive it; this one maps and copies only its own rows. NULL: it computes all rows. */
BN_MUST_CHECK bn_status bn_model_open_divided(bn_model **out, const char *path, const void *data,
                                              size_t n_bytes, const bn_model_options *options,
                                              const struct bn_ranks *ranks, bn_error *err);

/* The part of n rows that this process computes. Rows that are neighbours stay together in numbers of `grain`. */
static inline struct bn_slice bn_model_slice(const struct bn_model *m, size_t n, size_t grain)
{
    size_t from = 0, to = n;
    if (m->ranks != NULL) bn_team_share(n, grain, m->ranks->index, m->ranks->count, &from, &to);
    return (struct bn_slice){from, to - from};
}

/* Rows of the matrix of queries that belong to one KV head: they stay with one rank. */
static inline size_t bn_model_query_grain(const struct bn_model *m)
{
    return (size_t)m->hp.n_head / m->hp.n_head_kv * m->hp.head_dim;
}

/* Whether this process gives the orders (model/divided.h), and whether it follows them. */
static inline bool bn_model_leads(const struct bn_model *m)
{
    return m->ranks != NULL && m->ranks->index == 0;
}

static inline bool bn_model_follows(const struct bn_model *m)
{
    return m->ranks != NULL && m->ranks->index != 0;
}

/* All ternary layers of a model, in the order of computing: n_layer times 7. A recurrent layer has mix, z and one without
 * rows in place of q, k and v. */
static inline size_t bn_model_n_linears(const struct bn_model *m)
{
    return (size_t)m->hp.n_layer * 7;
}

static inline struct bn_linear *bn_model_linear(const struct bn_model *m, size_t i)
{
    struct bn_layer *l = &m->layers[i / 7];
    struct bn_linear *all[7] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
    if (l->is_recurrent && i % 7 < 2) return i % 7 == 0 ? &l->recurrent.mix : &l->recurrent.z;
    return all[i % 7];
}

/* Bytes of the weights that evaluating reads in this process: its rows of the file, and its copies. */
uint64_t bn_model_resident_bytes(const struct bn_model *m);

/* BN_ERR_INTEGRITY when the file was changed since it was opened: what was computed may come from bytes that no digest
 * names. */
BN_MUST_CHECK bn_status bn_model_check_file(const struct bn_model *m, bn_error *err);
/* The SHA-256 of the file. With ranks all of them compute it: BN_ERR_INTEGRITY when one has another file. */
BN_MUST_CHECK bn_status bn_model_digest(const struct bn_model *m, char hex[BN_SHA256_HEX], bn_error *err);

#define BN_ACTIVATIONS_BYTES 16u
/* How the inputs of linear layers are stored: "int8-token", or "int16-g128" with a step for each group of 128. */
const char *bn_model_activations(const struct bn_model *m, char out[BN_ACTIVATIONS_BYTES]);

/* The table that bn_isa_select chose (or BN_ISA, or the fastest). */
BN_MUST_CHECK bn_status bn_isa_kernels(const struct bn_kernels **out, bn_error *err);

/* ---- orders ---- */

/* Orders: how the first rank of a divided model leads the others. It alone reads prompts, chooses tokens and writes
 * results. Before it evaluates something, it broadcasts what; the others do the same with their rows
 * (infer/follow.c). So ranks cannot come to different decisions. */

enum bn_order_kind {
    BN_ORDER_END,  /* the session of the first rank is closed */
    BN_ORDER_PASS, /* a batch of tokens; of more than one, the rows and the rows wanted are a second message */
    BN_ORDER_SEQUENCE, /* open one more sequence */
    BN_ORDER_COPY,     /* copy positions from a sequence to another */
    BN_ORDER_MASKED,   /* some rows of the head, which a second message marks */
    BN_ORDER_TALLY,    /* send the counters */
    BN_ORDER_REPACK,   /* bn_model_repack */
    BN_ORDER_DIGEST    /* bn_model_digest */
};

/* A token of a batch. */
struct bn_order_row {
    uint32_t sequence; /* 0: the session's own, then in the order of BN_ORDER_SEQUENCE */
    uint32_t position;
    int32_t token;
};

/* Sent as it is: all ranks run the same program. */
struct bn_order {
    uint32_t kind;
    union {
        struct {
            uint32_t n, n_wanted, n_heads, n_best, wants_logits, screen_off;
            struct bn_order_row first;
        } pass;
        struct {
            uint32_t n_ctx;
        } sequence;
        struct {
            uint32_t to, from, first, end;
        } copy;
        struct {
            uint32_t hidden; /* row of the hidden states */
        } masked;
    };
};

/* From the first rank to all others; on those, it receives the order. */
BN_MUST_CHECK bn_status bn_order_broadcast(const struct bn_model *m, struct bn_order *order, bn_error *err);

#endif
