/* SPDX-License-Identifier: MIT
 *
 * What the programs of this repository see of the library's structures, and users of bn.h do not: bn.h includes this where
 * BN_INTERNAL is defined. Nothing here is exported by libbn.so.
 */
#ifndef BN_INTERNAL_H
#define BN_INTERNAL_H

#include "bn.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bn needs a little-endian processor: models, receipts and digests have this byte order"
#endif

#define BN_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* The exit codes of every program, the same in all of them. */
typedef enum bn_exit {
    BN_EXIT_OK = 0,
    BN_EXIT_NEGATIVE = 1, /* mismatch, divergence, regression, refused, or a gate that had no data */
    BN_EXIT_USAGE = 2,
    BN_EXIT_NOT_FOUND = 3,
    BN_EXIT_FORMAT = 4,
    BN_EXIT_INTEGRITY = 5,
    BN_EXIT_NETWORK = 6,
    BN_EXIT_AUTH = 7,
    BN_EXIT_IO = 8,
    BN_EXIT_UNSUPPORTED = 9,
    BN_EXIT_INTERNAL = 10
} bn_exit;
bn_exit bn_status_exit(bn_status status);

typedef enum bn_activation { BN_ACTIVATION_RELU2, BN_ACTIVATION_SILU, BN_ACTIVATION_GELU } bn_activation;
typedef enum bn_rope { BN_ROPE_NEOX, BN_ROPE_NORM } bn_rope;

/* YaRN scaling of positions (Peng et al., 2023): slow pairs turn `factor` times slower, fast ones as before. */
struct bn_yarn {
    float factor;               /* 0: the model has none */
    uint32_t n_ctx;             /* context before the scaling */
    float extrapolate;          /* share of fast pairs that is left alone, 1 as a rule */
    float magnitude;            /* multiplies cosine and sine, besides 1 + 0.1 ln factor */
    float beta_fast, beta_slow; /* turns in the context before: pairs above are fast, below slow */
};

/* Recurrent layers in place of attention (gated delta rule: Yang et al., 2024). They keep a state of a fixed size. */
struct bn_recurrence {
    uint32_t n_taps;   /* tokens that the convolution reads; 0: the model has no such layers */
    uint32_t head_dim; /* of keys and of values */
    uint32_t n_key_heads, n_value_heads; /* value head h reads key head h modulo n_key_heads */
    uint64_t layers[8];                  /* layer i is recurrent: bit i % 64 of layers[i / 64] */
};

/* Experts in place of one feed-forward part: a router chooses some of them for each token. */
struct bn_experts {
    uint32_t n, n_used; /* n is 0: the model has none */
    float limit;        /* the gate is at most this, and up is between this and its negative; INFINITY: any */
};

/* The hyper-parameters. Lengths are counts of elements. */
typedef struct bn_hparams {
    char arch[32];
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv;
    uint32_t n_ff;     /* of one expert, where the model has experts */
    uint32_t head_dim; /* n_embd / n_head unless the file says otherwise */
    uint32_t n_rot;    /* leading elements of a head that are rotated */
    float rms_eps;
    float rope_base;
    float rope_scale; /* positions are multiplied by it: 1 / the file's linear scaling factor */
    bn_activation activation;
    bn_rope rope;
    bool sub_norms;   /* attn_sub_norm and ffn_sub_norm are there */
    bool tied_head;   /* the head is the embedding matrix */
    bool head_norms;  /* attn_q_norm and attn_k_norm are there: every head of q and k is normalised */
    bool input_norms; /* attn_q_norm_in and so on are there: every linear layer has a norm of its inputs */
    bool post_norms;  /* post_attention_norm and post_ffw_norm are there: of what a half of a layer adds */
    struct bn_yarn yarn;
    float embd_scale;     /* multiplies rows of the embedding; 1 as a rule, as the next two */
    float residual_scale; /* multiplies what a half of a layer adds */
    float logit_scale;    /* multiplies logits */
    float attn_scale;     /* multiplies dot products of queries and keys: 1 / sqrt(head_dim) as a rule */
    uint32_t window; /* positions that a local layer attends to, its own included; 0: no layer is local */
    uint64_t local_layers[8]; /* with a window, layer i is local: bit i % 64 of local_layers[i / 64] */
    float local_rope_base;    /* of local layers, without scaling */
    bool rope_is_local;       /* only local layers rotate */
    bool
        gated_heads; /* attn_q has a gate for each element of a head; its sigmoid multiplies what comes out */
    struct bn_recurrence recurrence;
    struct bn_experts experts;
    bn_pooling pooling; /* how the file makes one vector of a text; BN_POOLING_FILE: it does not say */
} bn_hparams;

/* The id of the token with exactly these bytes, special ones first; -1 when there is none. */
int32_t bn_token_find(const bn_tokenizer *tok, const char *bytes, size_t n_bytes);

/* A processor beside the CPU, found through OpenCL. Results on it are the same bits. */
typedef struct bn_device_info {
    char id[24];                 /* "opencl:0" */
    char type[16];               /* "GPU", "CPU", "accelerator" */
    char name[128], vendor[128]; /* of the device */
    char platform[128], driver[64];
    char version[64];           /* of OpenCL */
    uint64_t memory, max_alloc; /* bytes: of all of it, of one buffer */
    uint32_t units, mhz;        /* compute units, their clock */
    bool has_fp64, has_dot;     /* binary64; integer dot products */
    char lacks[160];            /* why it is refused, by what it says of itself; empty: nothing is missing */
    char program[65];           /* SHA-256 of the kernels' source and options; empty until it is opened */
} bn_device_info;

/* Fills out with the devices of this machine, `room` at most, and *n with their number. BN_ERR_NOT_FOUND: there is none;
 * BN_ERR_UNSUPPORTED: no OpenCL loader, or a build without OpenCL. The hint says what to install. */
BN_MUST_CHECK bn_status bn_devices(bn_device_info *out, size_t room, size_t *n, bn_error *err);
/* The device that evaluates this model; NULL: the CPU. */
const bn_device_info *bn_model_device(const bn_model *model);

const bn_hparams *bn_model_hparams(const bn_model *model);
/* Bytes of the state of recurrent layers of one sequence; 0: the model has none. */
uint64_t bn_model_state_bytes(const bn_model *model);

/* Bytes of a file of bn_session_save for each token. */
uint64_t bn_session_token_bytes(const bn_session *session);
/* The longest known beginning of at most n_tokens: n_tokens, or with recurrent layers the length of a snapshot. */
uint32_t bn_session_known(const bn_session *session, uint32_t n_tokens);
uint32_t bn_sequence_known(const bn_sequence *sequence, uint32_t n_tokens);

/* What one kernel did since the session was opened: counted where it was called, never derived. */
typedef struct bn_kernel_stat {
    const char *name; /* the function that ran, e.g. "ternary_gemv_avx512vnni" */
    uint64_t calls;   /* operations dispatched to it */
    uint64_t ns;      /* time that the first thread spent in it */
    uint64_t bytes;   /* weight and cache bytes that all threads read through it */
    uint64_t ops;     /* multiply-adds, or elements for kernels that have none */
} bn_kernel_stat;

/* The i-th that was called; false past the end. */
bool bn_session_kernel_stat(const bn_session *session, size_t i, bn_kernel_stat *out);

/* How bn_session_eval_best, and passes with n_best, computed their logits since the session was opened. */
typedef struct bn_screen_stat {
    uint64_t screened; /* passes whose head was screened */
    uint64_t full;     /* passes whose head was computed row by row */
    uint64_t heads;    /* rows of logits of the screened passes */
    uint64_t rows;     /* head rows that screening left to be computed, or that were computed again */
    uint64_t
        again; /* calls that computed the rows a grammar allows, since none of the best ones was allowed */
} bn_screen_stat;

bn_screen_stat bn_session_screen_stat(const bn_session *session);

/* What passes of a session were. */
typedef struct bn_work {
    uint64_t passes;          /* over the model */
    uint64_t single;          /* of one token */
    uint64_t tokens;          /* that were evaluated */
    uint64_t head_passes;     /* that ended in the head */
    uint64_t heads;           /* rows of logits */
    uint64_t attended;        /* pairs of a token and one that it attends to, in a layer */
    uint64_t attended_local;  /* the same in a local layer; 0 without such layers */
    uint64_t skipped_rows;    /* of up, that passes of one token did not need, over all layers */
    uint64_t skipped_columns; /* of down, in layers where columns were multiplied */
    uint64_t experts;         /* that a pass read, over all layers and passes; 0 without experts */
} bn_work;

/* What ranks exchanged while they evaluated. */
typedef struct bn_rank_stat {
    uint32_t ranks;     /* 0: the model is not divided */
    uint64_t exchanges; /* in which each rank gets what the others computed */
    uint64_t bytes;     /* that each rank has after them: its own piece and those of the others */
    uint64_t ns;        /* that the first rank spent in them, waiting included */
} bn_rank_stat;

/* Nanoseconds that the last bn_session_eval spent, by phase; their sum is less than total. */
typedef struct bn_eval_timing {
    uint64_t embed_ns, layers_ns, head_ns, total_ns;
} bn_eval_timing;

/* Nanoseconds that one generated token took, by phase. */
typedef struct bn_step_timing {
    uint64_t embed_ns, forward_ns, head_ns, sample_ns;
} bn_step_timing;

typedef struct bn_draft_options {
    bn_draft_kind kind;
    /* BN_DRAFT_MODEL: of a model with the same vocabulary, for this generation alone. It follows the text, so it is
     * best kept from one generation to the next of a conversation. */
    bn_session *session;
    uint32_t most; /* longest draft, at most 64; 0: 16 */
    bool always;   /* for tests: draft even while drafts are measured to cost more time than they save */
    const int32_t *given; /* BN_DRAFT_GIVEN: the answer; borrowed. Several such generations share passes */
    size_t n_given;
} bn_draft_options;

typedef struct bn_draft_stat {
    uint64_t passes;   /* with drafts */
    uint64_t drafted;  /* tokens */
    uint64_t accepted; /* of them, those that the sampler chose */
} bn_draft_stat;

/* One generation: what is asked, and what was generated. Zeroed, it asks for a greedy one; a prompt and
 * n_predict are needed. */
typedef struct bn_generation {
    /* What is asked; borrowed. */
    const int32_t *prompt; /* at least one token */
    size_t n_prompt;
    size_t n_cached;    /* first tokens of the prompt that the timeline already ends with; below n_prompt */
    uint32_t n_predict; /* most tokens to generate, 1 to 2^24 */
    uint32_t n_ctx;     /* most tokens of the timeline; 0, or more than the sequence has room for: its room */
    bn_sampler_options sampling;
    const int32_t *stop_ids;
    size_t n_stop_ids;
    const char *const *stops; /* texts */
    size_t n_stops;
    const bn_grammar *grammar; /* NULL: any text */
    bool ignore_end;           /* end-of-generation tokens do not stop */
    bool want_chain;           /* compute chain, which receipts hold */
    bool want_logprobs;        /* compute logprobs; every logit is then computed */
    uint32_t n_top;            /* keep that many of the best tokens of each step in top, at most 1000 */
    bn_token_fn on_token;      /* may be NULL */
    void *user;                /* handed to on_token */
    bn_draft_options draft;

    /* What was generated; released by bn_generation_release. */
    int32_t *ids;          /* n_ids tokens, the one that stopped the generation included */
    uint64_t *token_ns;    /* n_ids wall times; the first one includes the prompt's evaluation */
    bn_step_timing *steps; /* n_ids */
    bn_candidate *top; /* n_ids times n_top, best first, ties by id; -1 for the id where there are fewer */
    double
        *logprobs; /* n_ids: logarithms of their probabilities at temperature 1; NULL unless want_logprobs */
    double
        *log_sums; /* n_ids: a token with this logit had the log-probability logit - log_sum; NULL likewise */
    size_t n_ids;
    bn_stop_reason reason;
    bn_status stuck;       /* of BN_STOP_STUCK: BN_OK: no token; BN_ERR_LIMIT, BN_ERR_NOMEM: the grammar */
    uint64_t grammar_cost; /* work on the grammar, in tokens of about the same time */
    uint64_t prefill_ns;   /* evaluating the prompt */
    uint64_t decode_ns;    /* from then to the last token */
    uint64_t total_ns;     /* of the whole call */
    char chain[65];        /* sha256 over all steps in hexadecimal; empty unless want_chain */

    /* What the session did meanwhile, for this generation and for others in the same passes. */
    uint32_t n_before;   /* tokens that the timeline had before the prompt */
    uint32_t n_together; /* most generations in one pass */
    bn_work work;
    bn_screen_stat screen;
    bn_draft_stat drafts;
    bn_rank_stat ranks;
    bn_kernel_stat *kernels; /* n_kernels that were called, in the order of bn_session_kernel_stat */
    size_t n_kernels;
} bn_generation;

/* Evaluates the prompt, or what follows its n_cached first tokens, after what the session's timeline already
 * holds, then chooses and evaluates tokens until something stops it. Tokens and chain do not depend on n_cached.
 * tok may be NULL: then there is no text, and only ids and lengths stop. A full context is the reason
 * BN_STOP_CONTEXT, not an error, unless the prompt alone is too long (BN_ERR_LIMIT). After an error there is
 * nothing to release. */
BN_MUST_CHECK bn_status bn_generate(bn_session *session, const bn_tokenizer *tok, bn_generation *generation,
                                    bn_error *err);
void bn_generation_release(bn_generation *generation);

/* The same as bn_scheduler_start; the generation is the caller's, and lives until bn_scheduler_take returns it. */
BN_MUST_CHECK bn_status bn_scheduler_add(bn_scheduler *scheduler, bn_sequence *sequence,
                                         bn_generation *generation, bn_error *err);

/* One text to embed, as by bn_session_embed, in the passes of a scheduler. The tokens, the sequence and the vector, which
 * gets the result, outlive it. */
typedef struct bn_embedding bn_embedding;
BN_MUST_CHECK bn_status bn_embedding_open(bn_embedding **out, bn_session *session, bn_sequence *sequence,
                                          const int32_t *tokens, size_t n_tokens,
                                          const bn_embed_options *options, float *vector, bn_error *err);
void bn_embedding_close(bn_embedding *embedding);
/* The passes that follow evaluate this embedding too; NULL: none any more. It belongs to the caller. */
void bn_scheduler_embed(bn_scheduler *scheduler, bn_embedding *embedding);
/* Whether it has been evaluated; false when there is none. */
bool bn_scheduler_has_embedded(const bn_scheduler *scheduler);

/* The penalties and biases of a sampler, as bn_sampler_open checks them. */
BN_MUST_CHECK bn_status bn_sampler_check(const bn_sampler_options *options, size_t n_vocab, bn_error *err);

/* Copies a structure of options, of which the caller may have another version: *out has n_bytes. NULL leaves it as it is.
 */
BN_MUST_CHECK bn_status bn_take_options(void *out, size_t n_bytes, const void *options, bn_error *err);

#endif
